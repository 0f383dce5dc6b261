"""Breakdown: where the time of a run goes, in parts that add up to a whole and do not overlap.

The whole is the steady step of a log with step times, all phases of a log that times no steps, the GPU time of a
profiler's table, or the span of a trace. The parts are the innermost ones that the source tells apart; for what lies
around them see `phases`, `kernels` and `device_time`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.formats.model import WHOLES
from perflog.metrics.kernels import PRINTED_TOTAL, kernels
from perflog.metrics.phase_table import phase_table
from perflog.metrics.phases import rows_with_wholes
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.run_rows import RunRows
from perflog.metrics.semantics import semantics_by_run
from perflog.metrics.traces.device_time import device_time

if TYPE_CHECKING:
    import pandas as pd

UNTIMED = "untimed"
"""Kind of the time of a step, or of a phase with phases inside it, that no inner phase covers."""

NOT_LISTED = "not listed"
"""Part of a profile whose table lists only some of the work that the total below it counts."""

_ROUNDED = 1e-3  # of a whole: less comes from rounding

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="the whole: step, phases (all phases together, where they belong to no printed step "
                 "time), trace (mean over its devices), gpu (all GPU work of a profile), or api (its API calls, where "
                 "it has no GPU work)"),
    MetricColumn("part", meaning="innermost phase, state of the device, or category of kernels or calls; of an untimed "
                 "part: the phase around it"),
    MetricColumn("kind", meaning="as the format declares the phase: compute, communication, wait, prepare, mixed; "
                 "untimed: covered by no inner phase; of a device: compute, communication, memory, idle"),
    MetricColumn("inside", meaning="the phase that the part belongs to"),
    MetricColumn("time_s", "s", None, "mean time of the part in a step, or each time that the phases are printed, or "
                 "in the whole trace or profile"),
    MetricColumn("share", "1", None, "time_s / whole_s"),
    MetricColumn("whole_s", "s", "lower", "time of the whole; all parts of it add up to this"),
    MetricColumn("n", meaning="number of steady steps, of times that the phases are printed, of devices, or of calls"),
    MetricColumn("first_step", meaning="first steady step", brief=False),
    MetricColumn("last_step", meaning="last steady step", brief=False),
)  # fmt: skip


def part_name(of: str, part: str, kind: object) -> str:
    """Return the name of a part for readers: `untimed in forward`, `exposed communication`.

    Args:
        of: The whole. In a trace, communication and copies are parts only while nothing computes.
        part: The part.
        kind: Its kind.
    """
    if kind == UNTIMED:
        return UNTIMED if part == of else f"{UNTIMED} in {part}"
    return _EXPOSED.get(part, part) if of == "trace" else part


_EXPOSED = {"communication": "exposed communication", "memory": "exposed copies"}
_STATES = ("compute", "communication", "memory", "idle")


@metric(
    title="where the time goes",
    needs=("runs",),
    columns=_COLUMNS,
    main="share",
    formula="of a step: mean over ranks and steady steps of each innermost phase; untimed = a phase or the step - the "
    "phases directly inside it, so that all parts add up to the step. Of phases: their sums, divided by how often the "
    "rarest of them is printed. Of a trace: metric device_time, mean over the devices. Of a profile: metric kernels by "
    "category",
    source="parents of phases: the format's [[phase]] entries; hidden phases run in parallel and are no part",
)
def breakdown(tables: Tables, options: Options) -> pd.DataFrame:
    """Parts of each run's time that add up to its step, its trace or its profile, the largest part first.

    A run has no rows if nothing inside its whole is timed, or if the ranks of a phase are not known: a mean over ranks
    would then be a guess.

    Example:
        >>> table = perflog.metrics.breakdown(perflog.find_runs("reference:nvprof.txt"))
        >>> table[["part", "share"]].head(2).round(2)
             part  share
        ...
    """
    import pandas as pd

    names = [c.name for c in _COLUMNS]
    parts = [row for run in rows_with_wholes(tables, options.warmup) for row in _parts_of_step(run)]
    parts += _parts_of_phases(tables, {part["run"] for part in parts})
    parts += [*_parts_of_traces(tables, options), *_parts_of_profiles(tables, options)]
    order = {run: i for i, run in enumerate(tables["runs"]["run"])}
    parts.sort(key=lambda part: (order[part["run"]], -part["time_s"]))
    table = pd.DataFrame(parts, columns=names)
    return table.assign(share=table["time_s"] / table["whole_s"]).astype(
        dict.fromkeys(("n", "first_step", "last_step"), "Int64")
    )


# --- steps --------------------------------------------------------------------------------------------------------


def _parts_of_step(run: RunRows) -> Iterator[dict[str, Any]]:
    """The innermost phases of a run's step, and what they leave of the phases around them."""
    rows = phase_table(run)
    rows = rows[rows["step"] >= run.first]
    steps = rows["step"][rows["phase"] == "step"].unique()
    hidden = {name for name in rows["phase"].unique() if run.semantics.is_hidden(name, None)}
    rows = rows[rows["step"].isin(steps) & ~rows["phase"].isin(hidden)]
    names = set(rows["phase"])
    if not len(steps) or names <= {"step"} or rows["parent"].isna().sum() > (rows["phase"] == "step").sum():
        return  # nothing timed inside, or it is not known inside what
    rows = rows.assign(parent=[printed_parent(run, parent, names) for parent in rows["parent"]])
    times = {
        key: _per_step(group, run.world, len(steps)) for key, group in rows.groupby(["phase", "parent"], dropna=False)
    }
    if any(np.isnan(seconds) for seconds in times.values()):
        return
    common: dict[str, Any] = {"run": run.run, "label": run.label, "of": "step", "n": len(steps)}
    common |= {"first_step": int(steps.min()), "last_step": int(steps.max())}
    totals: dict[str, float] = {}
    for (name, _), seconds in times.items():
        totals[name] = totals.get(name, 0.0) + seconds
    common["whole_s"] = totals["step"]
    outer = {parent for _, parent in times if isinstance(parent, str)}
    for (name, parent), seconds in times.items():
        if name not in outer:
            declared = run.semantics.phase(name)
            kind = declared.kind if declared else None
            yield common | {"part": name, "kind": kind, "inside": parent, "time_s": seconds}
    for name in outer & names:
        inside = sum(seconds for (_, parent), seconds in times.items() if parent == name)
        yield common | {"part": name, "kind": UNTIMED, "inside": name, "time_s": totals[name] - inside}


def printed_parent(run: RunRows, parent: object, printed: Collection[str]) -> str | None:
    """Return the parent of a phase, or what is around it where the log does not time the parent; None for a step."""
    if not isinstance(parent, str):
        return None
    return next((name for name in run.semantics.lineage(parent, None) if name in printed), "step")


def _per_step(rows: pd.DataFrame, world: int | None, steps: int) -> float:
    """Mean over ranks and steps of the time of a phase; NaN if in most steps with the phase its ranks are not known.

    A single value without a rank is that of the step, as the step time is. A step in which a rank is missing does not
    count, but a step without the phase does: there it took no time.
    """
    groups = rows.groupby("step")
    values, ranks = groups.size(), groups["rank"].nunique()
    known = ~rows["rank"].isna().groupby(rows["step"]).any()
    sharers = ranks.where(known, values.where((values == 1) | (values == world)))
    sharers = sharers.where(sharers == sharers.max())
    means = (groups["time_s"].sum() / sharers).dropna()
    return float(means.mean()) * len(values) / steps if 2 * len(means) >= len(values) else np.nan


# --- phases without steps -----------------------------------------------------------------------------------------


def _parts_of_phases(tables: Tables, known: Collection[str]) -> Iterator[dict[str, Any]]:
    """The phases of each run whose phases belong to no printed step time, if the format declares all of them."""
    semantics = semantics_by_run(tables["runs"])
    labels = dict(zip(tables["runs"]["run"], tables["runs"]["label"], strict=True))
    timed = set(tables["steps"]["run"][tables["steps"]["step_time_s"].notna()])
    for run, rows in tables.by_run("phases").items():
        in_a_step = run in timed and rows["step"].notna().any()
        if run in known or in_a_step:
            continue
        meaning = semantics[run]
        rows = rows[~rows["phase"].map({name: meaning.is_hidden(name, None) for name in rows["phase"].unique()})]
        names = list(dict.fromkeys(rows["phase"]))
        parents = {name: meaning.known_parent(name, None) for name in names}
        outer = [name for name in names if parents[name] in WHOLES and parents[name] not in names]
        alike = rows[rows["phase"].isin(outer)].groupby("phase")["rank"].agg(set).map(str).nunique() == 1
        if len(outer) < 2 or not alike or not all(name in WHOLES or meaning.phase(name) for name in names):
            continue
        sums, counts = rows.groupby("phase")["time_s"].sum(), rows.groupby("phase").size()
        n = int(counts[outer].min())
        common = {"run": run, "label": labels[run], "of": "phases", "n": n, "whole_s": float(sums[outer].sum()) / n}
        for name, inside, seconds, is_rest in _innermost(outer, parents, sums.to_dict()):
            declared = meaning.phase(name)
            kind = UNTIMED if is_rest else declared.kind if declared else None
            yield common | {"part": name, "kind": kind, "inside": inside, "time_s": seconds / n}


def _innermost(
    outer: Sequence[str], parents: Mapping[str, str | None], sums: Mapping[str, float]
) -> Iterator[tuple[str, str | None, float, bool]]:
    """Yield the innermost phases, the phase around them, their time, and whether it is what others leave of a phase.

    A phase is not divided if those inside it take longer than itself: then some of them time the same work again.
    """
    for name in outer:
        inner = [phase for phase, parent in parents.items() if parent == name]
        left = sums[name] - sum(sums[phase] for phase in inner)
        if not inner or left < 0:
            yield name, parents[name], sums[name], False
            continue
        yield from _innermost(inner, parents, sums)
        yield name, name, left, True


# --- traces and profiles ------------------------------------------------------------------------------------------


def _parts_of_traces(tables: Tables, options: Options) -> Iterator[dict[str, Any]]:
    """The states of the devices of each trace."""
    rows = device_time.table(tables, options)
    rows = rows[rows["part"] == "trace"]
    for (run, label), devices in rows.groupby(["run", "label"], sort=False, dropna=False):
        common = {"run": run, "label": label if isinstance(label, str) else None, "of": "trace", "n": len(devices)}
        common["whole_s"] = float(devices["span_s"].mean())
        for state in _STATES:
            yield common | {"part": state, "kind": state, "time_s": float(devices[f"{state}_s"].mean())}


def _parts_of_profiles(tables: Tables, options: Options) -> Iterator[dict[str, Any]]:
    """The GPU work of each profiler's table by what its kernels do; of a table without any, its API calls."""
    rows = kernels.table(tables, options)
    rows = rows[(rows["by"] == "category") & rows["of"].isin(["gpu", "api"])]
    has_gpu = rows["run"].isin(rows["run"][rows["of"] == "gpu"])
    rows = rows[(rows["of"] == "gpu") | ~has_gpu]
    for (run, label, of), of_run in rows.groupby(["run", "label", "of"], sort=False, dropna=False):
        of_profile = _once(of_run)
        totals = of_profile.groupby("section", sort=False, dropna=False)["denominator_s"].first()
        common = {"run": run, "label": label if isinstance(label, str) else None, "of": of}
        common["whole_s"] = float(totals.sum())
        for (name,), group in of_profile.groupby(["name"], sort=False):
            work = {"part": name, "kind": name, "time_s": float(group["time_s"].sum())}
            yield common | work | {"n": int(group["calls"].sum())}
        if (left := common["whole_s"] - float(of_profile["time_s"].sum())) > _ROUNDED * common["whole_s"]:
            yield common | {"part": NOT_LISTED, "kind": NOT_LISTED, "time_s": left}


def _once(rows: pd.DataFrame) -> pd.DataFrame:
    """Leave out tables that list the same work again in another order: those with a total that is printed again."""
    listed = rows.groupby(["section", "denominator", "denominator_s"], sort=False, dropna=False)["time_s"].sum()
    sections = listed.reset_index().sort_values("time_s", ascending=False, kind="stable")
    again = (sections["denominator"] == PRINTED_TOTAL) & sections.duplicated("denominator_s")
    return rows[~rows["section"].isin(sections["section"][again])]
