"""Whether runs that are compared ran different models at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from perflog.analysis.lint.registry import Finding, rule
from perflog.analysis.lint.view import Run, Seen, count, median, some, span

_SAME = 0.01
_EXPERTS = re.compile(r"expert|moe", re.IGNORECASE)
_MODULE = re.compile(r": (\w+)\(")


@rule(
    code="same-model",
    severity="warning",
    title="runs that are named differently print the same model",
    why="The names promise different systems, the printouts are identical: what is compared may be one model with "
    "itself. It is a warning where the step times agree within 1 % too, else a note (batch, system or data may "
    "differ).",
    action="check that the switch that tells these runs apart was really passed; until then take them for repeats",
    needs=("runs",),
)
def same_model(seen: Seen) -> Iterator[Finding]:
    """Groups of identical printouts with different settings or labels."""
    groups: dict[str, list[Run]] = {}
    for run in seen.runs:
        if run.printout:
            groups.setdefault(run.printout, []).append(run)
    for runs in groups.values():
        settings = {json.dumps(run.meaning.config, sort_keys=True) for run in runs}
        if len(settings) < 2:
            continue
        medians = [median(s.steady) for run in runs if (s := run.series()) is not None and len(s.steady)]
        alike = len(medians) == len(runs) and max(medians) <= min(medians) * (1 + _SAME)
        message = f"{count(len(runs), 'run')} print the same model: {some(r.name for r in runs)}"
        if medians:
            message += f"; steady medians {span(medians)}{', the same within 1 %' if alike else ''}"
        lines = {run.id: [run.first_line] for run in runs}
        yield Finding(runs[0].id, message, lines, {"medians": medians}, "warning" if alike else "note")


@rule(
    code="no-experts",
    severity="warning",
    title="experts are announced, but the model has none",
    why="A number of experts stands in the settings; the model printout names no expert and no MoE module. The run "
    "measured a dense model.",
    action="check that the option that turns experts on was passed, and leave the run out of MoE comparisons",
    needs=("runs",),
)
def no_experts(seen: Seen) -> Iterator[Finding]:
    """A setting named like experts above 1, and a printout in which nothing is."""
    for run in seen.runs:
        said = {k: v for k, v in run.meaning.config.items() if "expert" in k.lower() and isinstance(v, int) and v > 1}
        if not said or not run.printout or _EXPERTS.search(run.printout):
            continue
        modules = dict.fromkeys(_MODULE.findall(run.printout))
        settings = ", ".join(f"{k} {v}" for k, v in said.items())
        message = f"the settings say {settings}; the model printout has only {some(modules, 12)}"
        yield Finding(run.id, message, {run.id: [run.first_line]}, {"settings": said, "modules": list(modules)})
