"""Which steps were printed: merged, repeated, missing ones, and runs that end early."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from perflog.analysis.lint.registry import Finding, Severity, rule
from perflog.analysis.lint.view import Run, Seen, count, seconds, some

_SIBLINGS = 3  # runs of a log from which on most of them tell what is usual


@rule(
    code="steps-merged",
    severity="warning",
    title="a line covers another number of steps than the others",
    why="Its time is that of several steps, and what else it prints may be their sum. In a mean, a maximum or a plot "
    "it looks like one slow step.",
    action="leave the line out, as `perflog analyze` does",
    needs=("steps",),
)
def steps_merged(seen: Seen) -> Iterator[Finding]:
    """Lines whose `steps_averaged` is not that of most lines."""
    for run in seen.runs:
        steps = run["steps"]
        if not len(steps):
            continue
        odd = steps[steps["steps_averaged"] != steps["steps_averaged"].mode().iloc[0]]
        if not len(odd):
            continue
        first = odd.iloc[0]
        n, time = int(first["steps_averaged"]), float(first["step_time_s"])
        message = f"{count(len(odd), 'line')} of {len(steps)}: line {first['line']} covers {n} steps"
        if time == time:
            message += f", so its time {seconds(time)} is that of {n} steps"
        if first["loss"] == first["loss"]:
            message += f"; a loss {first['loss']:g} is {first['loss'] / n:g} per step if it is their sum"
            if first["perplexity"] > 0 and abs(math.log(first["perplexity"]) - first["loss"]) < 0.01:
                message += f", and perplexity {first['perplexity']:g} is exp of that sum"
        yield Finding(run.id, message, {run.id: odd["line"]}, {"steps": n, "step_time": time})


@rule(
    code="steps-averaged",
    severity="note",
    title="each line covers several steps",
    why="The scatter of means is not that of steps: percentiles, outliers and standard deviation of single steps "
    "cannot be computed from them.",
    action="log every step where the scatter matters",
    needs=("steps",),
)
def steps_averaged(seen: Seen) -> Iterator[Finding]:
    """Most lines cover more than one step."""
    for run in seen.runs:
        steps = run["steps"]
        n = int(steps["steps_averaged"].mode().iloc[0]) if len(steps) else 1
        if n > 1:
            message = f"{count(len(steps), 'line')}: {n} steps each"
            yield Finding(run.id, message, {run.id: steps["line"]}, {"steps": n})


@rule(
    code="steps-repeated",
    severity="warning",
    title="steps are printed more than once",
    why="The run was restarted from a checkpoint, two runs write to one log, or several ranks print and the lines do "
    "not name them. Counted twice, a step weighs twice.",
    action="take one printing of each step, as `perflog analyze` does; if runs were mixed, read them apart",
    needs=("steps",),
)
def steps_repeated(seen: Seen) -> Iterator[Finding]:
    """Rows of `steps` that are not the first printing of their step."""
    for run in seen.runs:
        again = run["steps"][run["steps"]["copy"] > 1]
        if len(again):
            numbers = again["step"].drop_duplicates()
            message = f"{count(len(numbers), 'step')} printed again: {some(numbers)}"
            yield Finding(run.id, message, {run.id: again["line"]}, {"steps": len(numbers), "printings": len(again)})


@rule(
    code="steps-missing",
    severity="warning",
    title="steps are missing between printed ones",
    why="The log has a hole: lines were lost, or the program printed nothing. Totals and means are of what is left.",
    action="find the lost lines, or say that these steps are missing",
    needs=("steps",),
)
def steps_missing(seen: Seen) -> Iterator[Finding]:
    """Jumps of the step number that are larger than most, and that no line covers."""
    for run in seen.runs:
        steps = run["steps"].dropna(subset=["step"]).drop_duplicates("step").sort_values("step")
        numbers = steps["step"].to_numpy(np.int64)
        jumps = np.diff(numbers)
        if not len(jumps):
            continue
        usual = int(np.bincount(jumps).argmax()) if jumps.max() < 1 << 20 else int(np.median(jumps))
        holes = (jumps > usual) & (steps["steps_averaged"].to_numpy(np.int64)[1:] < jumps)
        if holes.any():
            lost = int((jumps[holes] // usual - 1).sum())
            gaps = [f"{a} to {b}" for a, b in zip(numbers[:-1][holes], numbers[1:][holes], strict=True)]
            message = f"{count(lost, 'step')} missing: the number goes from {some(gaps)}"
            at = steps["line"].to_numpy(np.int64)[1:][holes]
            yield Finding(run.id, message, {run.id: at}, {"missing": lost})


@rule(
    code="steps-unpaired",
    severity="note",
    title="steps have a time but no details, or details but no time",
    why="Tables of one run speak of different steps: what is computed from both is of those they share.",
    action="join them by step, and do not add up what is not in both",
    needs=("steps",),
)
def steps_unpaired(seen: Seen) -> Iterator[Finding]:
    """Steps of phases, loads or layers against those of `steps`, covered ones included."""
    for run in seen.runs:
        steps = run["steps"].dropna(subset=["step"])
        for name in ("phases", "loads", "layers"):
            rows = run[name].dropna(subset=["step"])
            if not len(rows) or not len(steps):
                continue
            timed = set(steps["step"])
            covered = {
                int(s) - k for s, n in zip(steps["step"], steps["steps_averaged"], strict=True) for k in range(int(n))
            }
            detailed = set(rows["step"])
            bare, untimed = sorted(timed - detailed), sorted(detailed - covered)
            said = [f"{some(bare)}: a time but no {name}"] if bare else []
            said += [f"{some(untimed)}: {name} but no time"] if untimed else []
            if said:
                at = [*steps["line"][steps["step"].isin(bare)], *rows["line"][rows["step"].isin(untimed)]]
                message = f"step {'; step '.join(said)}"
                yield Finding(run.id, message, {run.id: at}, {"without_details": bare, "without_time": untimed})


def _short(steps: npt.NDArray[np.int64], planned: float) -> bool:
    """Whether more steps were planned than were printed, or, of lines every few steps, another line would have come."""
    once = np.unique(steps)
    jump = int(np.median(np.diff(once))) if len(once) > 1 else max(int(once[0]), 1)
    return planned > len(once) if jump == 1 else planned >= int(once[-1]) + jump


@rule(
    code="run-stopped",
    severity="warning",
    title="the run ends early",
    why="A run that was cut has no end: its steps may still be of the warm-up, or the last before a crash.",
    action="look at the end of the log for the reason, and run it again",
    needs=("steps",),
)
def run_stopped(seen: Seen) -> Iterator[Finding]:
    """No line of those that end a run of this format, fewer steps than the other runs of the log, or than announced."""
    usual = _usual_steps(seen)
    for run in seen.runs:
        steps = run["steps"].dropna(subset=["step"])
        if not len(steps):
            continue
        n = int(steps["step"].nunique())
        said: list[str] = []
        numbers: dict[str, int] = {}
        planned = run.meaning.quantities.get("steps")
        ends = _ends(run)
        if ends is False:
            said.append("no line that ends a run was printed")
        if (most := usual.get(run.log, n)) > n:
            said.append(f"the other runs of the log have {most}")
            numbers["usual"] = most
        if planned is not None and _short(steps["step"].to_numpy(np.int64), planned):
            said.append(f"{planned:,.0f} were announced")
            numbers["planned"] = int(planned)
        if said:
            message = f"the run stops at step {steps['step'].max()} after {count(n, 'printed step')}: {'; '.join(said)}"
            severity: Severity = "warning" if ends is not True else "note"
            last = [int(steps["line"].max())]
            yield Finding(run.id, message, {run.id: last}, {"steps": n, **numbers}, severity)


def _ends(run: Run) -> bool | None:
    """Whether the run has a line that ends it; None if its format knows none."""
    lines = run.meaning.format.lines if run.meaning.format else ()
    last = {x.template.text for x in lines if x.closes == "run" or x.table == "summaries"}
    return bool(last & set(run["lines"]["shape"])) if last else None


def _usual_steps(seen: Seen) -> dict[str, int]:
    """The number of steps that most runs of a log have, where most have one."""
    by_log: dict[str, list[int]] = {}
    for run in seen.runs:
        if len(run["steps"]):
            by_log.setdefault(run.log, []).append(int(run["steps"]["step"].nunique()))
    usual = {log: Counter(counts).most_common(1)[0] for log, counts in by_log.items() if len(counts) >= _SIBLINGS}
    return {log: n for log, (n, often) in usual.items() if 2 * often > len(by_log[log])}
