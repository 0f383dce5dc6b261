"""Breakdown: where the time of a run goes, in parts that add up to a whole and do not overlap.

The whole is the steady step of a log with step times, all phases of a log that times no steps, the GPU time of a
profiler's table, or the annotated step of a trace, else its span. The parts are the innermost ones that the source
distinguishes; for what lies around them see `phases`, `kernels` and `device_time`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints
from perflog.formats.model import WHOLES
from perflog.metrics.jobs.pauses import pause_kind
from perflog.metrics.options import Options
from perflog.metrics.possible import fits
from perflog.metrics.profiles.kernels import PRINTED_TOTAL, kernels
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_rows import SteadyRun, printed_steps
from perflog.metrics.run_tables import Tables, computed_list, computed_once
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_series import means_without_pauses, step_series
from perflog.metrics.step_time.phase_table import PhaseTable
from perflog.metrics.step_time.phases import rows_with_wholes
from perflog.metrics.step_time.unattributed_time import unattributed_times
from perflog.metrics.traces.device_time import device_time, wholes_of_traces
from perflog.statistics.groups import Groups, groups_of

if TYPE_CHECKING:
    import pandas as pd

TRACED_STEP = "traced step"
"""The whole of a trace with annotated steps or detected iterations."""

UNTIMED = "untimed"
"""Kind of the time of a step, or of a phase with phases inside it, that no inner phase covers."""

NOT_LISTED = "not in the table"
"""Part of a profile that the total counts and the table above it does not list."""

_ROUNDED = 1e-3  # of a whole: less comes from rounding

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="the whole: step, phases (all phases together, where they belong to no printed step "
                 "time), traced step (mean over the devices of a trace and its annotated "
                 "steps, else the iterations found), trace (mean over its "
                 "devices, where there are no steps), gpu (all GPU work of a profile), or api (its API calls, "
                 "where it has no GPU work)"),
    MetricColumn("part", meaning="innermost phase, state of the device, or category of kernels or calls; of an untimed "
                 "part: the phase around it"),
    MetricColumn("kind", meaning="as the format declares the phase: compute, communication, wait, prepare, mixed; "
                 "untimed: covered by no inner phase; of a device: compute, communication, memory, waiting, idle"),
    MetricColumn("inside", meaning="the phase that the part belongs to"),
    MetricColumn("time_s", "s", None, "mean time of the part in a step, or each time that the phases are printed, or "
                 "in the whole trace or profile"),
    MetricColumn("share", "1", None, "time_s / whole_s"),
    MetricColumn("whole_s", "s", "lower", "time of the whole; all parts of it add up to this"),
    MetricColumn("n", meaning="number of steady steps, of times that the phases are printed, of devices or steps, "
                 "or of calls", type="Int64"),
    MetricColumn("first_step", meaning="first steady step", brief=False, type="Int64"),
    MetricColumn("last_step", meaning="last steady step", brief=False, type="Int64"),
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
    return _EXPOSED.get(part, part) if of in (TRACED_STEP, "trace") else part


_EXPOSED = {"communication": "exposed communication", "memory": "exposed copies", "waiting": "waiting kernels"}
_STATES = ("compute", "communication", "memory", "waiting", "idle")
_RARE = "waiting"  # a state that few devices are ever in


@metric(
    title="where the time goes",
    needs=("runs",),
    columns=_COLUMNS,
    main="share",
    formula="of a step: mean over ranks and steady steps of each innermost phase; untimed = a phase or the step - the "
    "phases directly inside it, so that all parts add up to the step; of a phase in which they take a tenth at most it "
    "is the phase. Of phases: their sums, divided by how often the "
    "rarest of them is printed. Of a trace: metric device_time, mean over the devices. Of a profile: metric kernels by "
    "category",
    source="parents of phases: the format's [[phase]] entries; hidden phases run in parallel and are no part",
)
def breakdown(tables: Tables, options: Options) -> MetricRows:
    """Parts of each run's time that add up to its step, its trace or its profile, the largest part first.

    A run has no rows if nothing inside its whole is timed, or if the ranks of a phase are not known: a mean over ranks
    would then be a guess.

    Example:
        >>> table = perflog.metrics.breakdown(perflog.find_runs("reference:nvprof.txt"))
        >>> table[["part", "share"]].head(2).round(2)
             part  share
        ...
    """
    parts = [part for parts_of_run, _ in _divided_steps(tables, options.warmup) for part in parts_of_run]
    parts += _parts_of_phases(tables, {part["run"] for part in parts})
    parts += [*_parts_of_traces(tables, options), *_parts_of_profiles(tables, options)]
    if not parts:
        return []
    import pandas as pd

    order = tables.run_order()
    parts.sort(key=lambda part: (order[part["run"]], -part["time_s"]))
    table = pd.DataFrame(parts, columns=[c.name for c in _COLUMNS])
    return [table.assign(share=table["time_s"] / table["whole_s"])]


# --- steps --------------------------------------------------------------------------------------------------------


class Misfit(Struct, frozen=True):
    """Phases that take longer than what they are inside: some of them time the same work.

    `whole`: the phase around them, or the step; `whole_s`, `parts_s`: mean times in a step.
    """

    run: str
    whole: str
    parts: tuple[str, ...]
    whole_s: float
    parts_s: float


def without_pauses(parts: pd.DataFrame, tables: Tables, options: Options) -> pd.DataFrame:
    """Return the parts of a run's step or of another whole of it, a step without the rare pauses that no phase times.

    So the parts describe a usual step. A mean over all steps, with the pauses, describes neither.
    """
    run, untimed = parts["run"].iloc[0], (parts["kind"] == UNTIMED) & (parts["part"] == "step")
    if not untimed.any():
        return parts
    paused = min(rare_pauses(tables, options.warmup).get(run, 0.0), float(parts["time_s"][untimed].iloc[0]))
    times, whole = parts["time_s"].mask(untimed, parts["time_s"] - paused), parts["whole_s"] - paused
    return parts.assign(time_s=times, share=times / whole, whole_s=whole)


@computed_once
def rare_pauses(tables: Tables, warmup: int | None) -> dict[str, float]:
    """Return how much longer the mean steady step is than without its rare pauses, as far as no phase times them, in s.

    By run with step times.
    """
    usual, untimed = means_without_pauses(tables, warmup), _untimed_pauses(tables, warmup)
    found: dict[str, float] = {}
    for series in step_series(tables, warmup=warmup):
        if series.run in usual:
            longer = max(float(series.steady.mean()) - usual[series.run], 0.0)
            found[series.run] = max(min(longer, untimed.get(series.run, longer)), 0.0)
    return found


@computed_once
def _untimed_pauses(tables: Tables, warmup: int | None) -> dict[str, float]:
    """Return how much longer the mean step is untimed than the mean step without a pause, by run with pauses, in s."""
    series = [each for each in step_series(tables, warmup=warmup) if each.pauses.any()]
    paused = {each.run: each.order[each.warmup.cut :][each.pauses] for each in series}
    found: dict[str, float] = {}
    for table in rows_with_wholes(tables.only(paused), warmup) if paused else ():
        for rest in unattributed_times(table, steps_only=True):
            known = ~np.isnan(rest.mean)
            for index in np.unique(rest.run_index[known]).tolist():
                run, chosen = table.runs[index].run, known & (rest.run_index == index)
                times, usual = rest.mean[chosen], ~np.isin(rest.step[chosen], paused[run])
                if usual.any():
                    found[run] = float(times.mean() - times[usual].mean())
    return found


def misfits(tables: Tables, warmup: int | None) -> list[Misfit]:
    """Return the phases of all runs that do not fit into what they are inside: they are no parts of a breakdown."""
    return [misfit for _, misfits_of_run in _divided_steps(tables, warmup) for misfit in misfits_of_run]


@computed_list
def _divided_steps(tables: Tables, warmup: int | None) -> Iterator[tuple[list[dict[str, Any]], list[Misfit]]]:
    for table in rows_with_wholes(tables, warmup):
        yield from _steps_in_parts(table)


def _steps_in_parts(table: PhaseTable) -> Iterator[tuple[list[dict[str, Any]], list[Misfit]]]:
    """Yield the innermost phases of the step of each run with the rest of their parents; and phases that do not fit."""
    rows = _parts_of_time(table)
    if not len(rows):
        return
    steps = rows.where(rows.named("step"))
    by_run = groups_of(steps.run_index)
    numbers = by_run.numbers_of(steps.step, np.ones(len(steps), np.bool_))
    runs = steps.run_index[by_run.first]
    ends = (printed_steps(table.runs, runs, each) for each in by_run.ends(steps.step))
    window_columns = (runs, numbers, *ends)
    windows = {run_index: window for run_index, *window in zip(*(of.tolist() for of in window_columns), strict=True)}
    for run_index, times in _times(rows, {run_index: n for run_index, (n, _, _) in windows.items()}).items():
        run, names = table.runs[run_index], {name for name, _ in times}
        if names <= {"step"} or any(np.isnan(seconds) for seconds in times.values()):
            continue  # nothing timed inside, or it is not known on which ranks
        n, first, last = windows[run_index]
        common: dict[str, Any] = {"run": run.run, "of": "step", "n": n}
        common |= {"first_step": first, "last_step": last, "whole_s": times["step", None]}
        parts, unfit = _in_step(times, run.semantics)
        kinds = {name: declared.kind if (declared := run.semantics.phase(name)) else None for name in names}
        rows_of_run = [
            common | {"part": name, "kind": UNTIMED if is_rest else kinds[name], "inside": inside, "time_s": seconds}
            for name, inside, seconds, is_rest in parts
            if name != "step" or is_rest
        ]
        yield rows_of_run, [Misfit(run.run, *misfit) for misfit in unfit]


_LITTLE = 0.1  # of a phase


_Times = Mapping[tuple[str, str | None], float]
"""Times of phases, by name and name of the parent; None: no parent."""


_Divided = tuple[list[tuple[str, str | None, float, bool]], list[tuple[str, tuple[str, ...], float, float]]]
"""What `_innermost` returns."""


def _in_step(times: _Times, semantics: RunSemantics) -> _Divided:
    """Return what `_innermost` does. Phases that do not fit need not be parts.

    Checkpoints and evaluations come between steps. Of a program that is not known, one line of the log has shown its
    phases as parts of the step: in others, communication may run beside the computation.
    """
    divided = _innermost(times)
    phases = {name for name, _ in times if name not in WHOLES}
    candidates = [{name for name in phases if pause_kind(name) is not None}]
    if semantics.format is not None and semantics.format.generic:
        known = {name: semantics.phase(name) for name in phases}
        beside = {name for name, phase in known.items() if phase is not None and phase.kind == "communication"}
        candidates += [candidates[0] | beside, phases]
    for others in candidates:
        fitting = {case: seconds for case, seconds in times.items() if case[0] not in others}
        if all(name != "step" for name, *_ in divided[1]) or len(fitting) < 2:
            break
        divided = _innermost(fitting)
    return divided


def _innermost(times: _Times) -> _Divided:
    """Return the innermost phases and the rests of their parents; then the phases that do not fit.

    A phase is not divided if the phases inside it take longer than itself: they cannot be its parts alone. So the parts
    of a whole never add up to more than the whole. The rest of a phase in which others take little time is the phase.

    Returns:
        For each part its name, its parent, its time, and whether it is the rest of a phase. For each phase that is not
        divided its name, the phases inside it, its time, and their time.
    """
    totals: dict[str, float] = {}
    inside: dict[str, dict[str, float]] = {}
    for (name, parent), seconds in times.items():
        totals[name] = totals.get(name, 0.0) + seconds
        if parent is not None:
            inside.setdefault(parent, {})[name] = seconds
    sums = {name: sum(children.values()) for name, children in inside.items() if name in totals}
    unfit = {name for name, seconds in sums.items() if not fits(seconds, totals[name])}
    shown = dict(times)
    while dropped := [pair for pair in shown if pair[1] in unfit or (pair[1] and not _is_in(pair[1], shown))]:
        for pair in dropped:
            del shown[pair]
    outer = {parent for _, parent in shown if parent is not None}
    parts = [(name, parent, seconds, False) for (name, parent), seconds in shown.items() if name not in outer]
    around = dict(reversed(shown))  # the first parent of each phase
    for name in (name for name in sums if name in outer):
        is_itself = name != "step" and sums[name] <= _LITTLE * totals[name]
        parts.append((name, around.get(name) if is_itself else name, totals[name] - sums[name], not is_itself))
    return parts, [(name, tuple(inside[name]), totals[name], sums[name]) for name in sums if name in unfit]


def _is_in(name: str, times: _Times) -> bool:
    return any(phase == name for phase, _ in times)


def _parts_of_time(table: PhaseTable) -> PhaseTable:
    """Return the rows of timed steps, without hidden phases, of runs with known parents of phases."""
    run_index, runs, is_step = table.run_index, table.runs, table.named("step")
    in_timed_step = groups_of(run_index, table.step).any_of(is_step)
    pairs = groups_of(run_index, table.phase)
    hidden = [runs[run_index[i]].semantics.is_hidden(table.names[table.phase[i]], None) for i in pairs.first.tolist()]
    counts = in_timed_step & ~np.array(hidden, np.bool_)[pairs.inverse]
    orphans = np.bincount(run_index[counts & (table.parent < 0)], minlength=len(runs))
    known = orphans <= np.bincount(run_index[counts & is_step], minlength=len(runs))  # the step alone has no parent
    return table.where(counts & known[run_index])


def _times(rows: PhaseTable, steps: Mapping[int, int]) -> dict[int, dict[tuple[str, str | None], float]]:
    """Return the time in a step of each phase and its printed parent, by run index. `steps`: steps by run index."""
    run_index, runs = rows.run_index, rows.runs
    printed: dict[int, set[str]] = {}
    for i, phase in rows.cases():
        printed.setdefault(i, set()).add(rows.names[phase])
    cases = groups_of(run_index, rows.parent)
    around = [
        printed_parent(
            runs[run_index[i]], None if rows.parent[i] < 0 else rows.names[rows.parent[i]], printed[run_index[i]]
        )
        for i in cases.first.tolist()
    ]
    words = {name: code for code, name in enumerate(dict.fromkeys(around))}
    kinds = groups_of(run_index, rows.phase, np.array([words[name] for name in around], np.int64)[cases.inverse])
    positions = run_index[kinds.first]
    world = np.array([run.world or 0 for run in runs])
    numbers = np.array([steps.get(i, 0) for i in range(len(runs))])
    parts = (_per_step(rows.where(chosen), few, world, numbers) for few, chosen in kinds.parts())
    seconds = np.concatenate(list(parts))
    times: dict[int, dict[tuple[str, str | None], float]] = {}
    for kind in kinds.in_order.tolist():
        i, row, time = int(positions[kind]), int(kinds.first[kind]), float(seconds[kind])
        times.setdefault(i, {})[rows.names[rows.phase[row]], around[cases.inverse[row]]] = time
    return times


def printed_parent(run: SteadyRun, parent: str | None, printed: Collection[str]) -> str | None:
    """Return the parent of a phase, or what is around it where the log does not time the parent; None for a step."""
    if parent is None:
        return None
    return next((name for name in run.semantics.lineage(parent, None) if name in printed), "step")


def _per_step(rows: PhaseTable, kinds: Groups, world: Ints, steps: Ints) -> Floats:
    """Return the mean over ranks and steps of the time of each kind of rows; NaN if most of its steps lack ranks.

    A single value without a rank is the value of the step, as the step time is. A step in which a rank is missing does
    not count. A step without the phase counts as zero time.

    Args:
        rows: The rows.
        kinds: Groups of the rows by run, phase and parent.
        world: Number of ranks of each run, 0 if it is not known.
        steps: Number of steps of each run.
    """
    steps = steps[rows.run_index[kinds.first]]
    on_rank = ~np.isnan(rows.rank)
    groups = groups_of(kinds.inverse, rows.step)
    kind, values = kinds.inverse[groups.first], groups.sizes
    sharing = groups.numbers_of(np.where(on_rank, rows.rank, 0).astype(np.int64), on_rank)
    known = np.bincount(groups.inverse, ~on_rank, len(values)) == 0
    is_of_step = (values == 1) | (values == world[rows.run_index[groups.first]])
    sharers = np.where(known, sharing, np.where(is_of_step, values, 0))
    most = np.zeros(len(steps), np.int64)
    np.maximum.at(most, kind, sharers)
    complete = (sharers == most[kind]) & (sharers > 0)
    means = groups.sums(rows.time_s)[complete] / sharers[complete]
    kinds_of_steps = groups_of(kind[complete])
    total = np.full(len(steps), np.nan)
    total[kind[complete][kinds_of_steps.first]] = kinds_of_steps.sums(means) / kinds_of_steps.sizes
    steps_with = np.bincount(kind, minlength=len(steps))
    enough = 2 * np.bincount(kind[complete], minlength=len(steps)) >= steps_with
    return np.where(enough, total * steps_with / steps, np.nan)


# --- phases without steps -----------------------------------------------------------------------------------------


def _parts_of_phases(tables: Tables, known: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the phases of each run without a printed step time for its phases, if the format declares all of them."""
    runs, steps = tables.rows("runs"), tables.rows("steps")
    semantics = semantics_by_run(runs)
    timed = steps.where(steps.known("step_time_s")).counts("run")
    for run, rows in tables.rows_by_run("phases").items():
        if run in known or (run in timed and rows.known("step").any()):
            continue
        meaning = semantics[run]
        printed = rows.counts("phase")
        rows = rows.where(~rows.one_of("phase", {name for name in printed if meaning.is_hidden(name, None)}))
        codes, words = rows.codes("phase")
        phases = groups_of(codes)
        in_order = phases.in_order
        names = [words[code] for code in codes[phases.first[in_order]].tolist()]
        sums = dict(zip(names, phases.sums(rows["time_s"])[in_order].tolist(), strict=True))
        counts = dict(zip(names, phases.sizes[in_order].tolist(), strict=True))
        outer = [name for name in names if not set(meaning.lineage(name, None)[1:]) & set(names)]
        if len(outer) < 2 or not all(name in WHOLES or meaning.phase(name) for name in names):
            continue
        ranks: dict[str, set[int]] = {}
        for row in groups_of(codes, rows["rank"]).first.tolist():
            ranks.setdefault(words[codes[row]], set()).add(int(rows["rank"][row]))
        if any(ranks[name] != ranks[outer[0]] for name in outer):
            continue
        n, whole_s = min(counts[name] for name in outer), math.fsum(sums[name] for name in outer)
        common = {"run": run, "of": "phases", "n": n, "whole_s": whole_s / n}
        around = {name: None if name in outer else _around(meaning, name, names) for name in names}
        parts, _ = _innermost({(name, around[name]): sums[name] for name in names})
        for name, inside, seconds, is_rest in parts:
            declared = meaning.phase(name)
            kind = UNTIMED if is_rest else declared.kind if declared else None
            yield common | {"part": name, "kind": kind, "inside": inside, "time_s": seconds / n}


def _around(meaning: RunSemantics, name: str, printed: Collection[str]) -> str | None:
    """The innermost printed phase around a phase."""
    return next((each for each in meaning.lineage(name, None)[1:] if each in printed), None)


# --- traces and profiles ------------------------------------------------------------------------------------------


def _parts_of_traces(tables: Tables, options: Options) -> Iterator[dict[str, Any]]:
    """The states of the devices of each trace."""
    if not device_time.has_rows(tables, options):
        return
    table = device_time.table(tables, options)
    for run, rows in table.groupby("run", sort=False):
        whole = wholes_of_traces(rows)
        of = TRACED_STEP if (whole["part"] == "step").all() else "trace"
        common = {"run": run, "of": of, "n": len(whole)}
        common["whole_s"] = float(whole["span_s"].mean())
        for state in _STATES:
            time = float(whole[f"{state}_s"].mean())
            if time or state != _RARE:
                yield common | {"part": state, "kind": state, "time_s": time}


def _parts_of_profiles(tables: Tables, options: Options) -> Iterator[dict[str, Any]]:
    """The GPU work of each profiler's table by what its kernels do; of a table without any, its API calls."""
    if not kernels.has_rows(tables, options):
        return
    rows = kernels.table(tables, options)
    rows = rows[(rows["by"] == "category") & rows["of"].isin(["gpu", "api"])]
    has_gpu = rows["run"].isin(rows["run"][rows["of"] == "gpu"])
    rows = rows[(rows["of"] == "gpu") | ~has_gpu]
    for (run, of), run_rows in rows.groupby(["run", "of"], sort=False):
        profile = _once(run_rows)
        totals = profile.groupby("section", sort=False, dropna=False)["denominator_s"].first()
        common = {"run": run, "of": of}
        common["whole_s"] = float(totals.sum())
        for (name,), group in profile.groupby(["name"], sort=False):
            work = {"part": name, "kind": name, "time_s": float(group["time_s"].sum())}
            yield common | work | {"n": int(group["calls"].sum())}
        if (left := common["whole_s"] - float(profile["time_s"].sum())) > _ROUNDED * common["whole_s"]:
            yield common | {"part": NOT_LISTED, "kind": NOT_LISTED, "time_s": left}


def _once(rows: pd.DataFrame) -> pd.DataFrame:
    """Leave out tables that list the same work again in another order: tables with a repeated total."""
    listed = rows.groupby(["section", "denominator", "denominator_s"], sort=False, dropna=False)["time_s"].sum()
    sections = listed.reset_index().sort_values("time_s", ascending=False, kind="stable")
    again = (sections["denominator"] == PRINTED_TOTAL) & sections.duplicated("denominator_s")
    return rows[~rows["section"].isin(sections["section"][again])]
