"""Waterfall: the time of a step, or of a trace, divided into necessary work and losses, bar by bar.

`breakdown` has the parts as the log names them. Here each is divided into work and losses as far as the log has the
values. Time only moves between bars, so they add up to the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.formats.model import WHOLES
from perflog.grouping import grouped
from perflog.metrics.options import Options
from perflog.metrics.pipelines.pipeline import TimedPipeline, timed_pipelines
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_rows import step_rows
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.settings_by_run import MFU_PEAK_OF, settings_by_run
from perflog.metrics.step_series import means_without_pauses
from perflog.metrics.step_time.breakdown import TRACED_STEP, UNTIMED, breakdown, printed_parent, rare_pauses
from perflog.metrics.step_time.headroom import untimed_waits
from perflog.metrics.step_time.matmul_efficiency import work_rates
from perflog.metrics.step_time.phase_table import ON_SLOWEST_RANK, runs_of_slowest_ranks
from perflog.metrics.step_time.phases import rows_with_wholes
from perflog.metrics.step_time.rank_spread import rank_spread
from perflog.metrics.step_time.steps import steps
from perflog.metrics.step_time.throughput import throughput
from perflog.metrics.traces.collectives.time_loss import device_losses
from perflog.metrics.traces.device_work import seconds
from perflog.statistics.groups import groups_of
from perflog.tables.nulls import floats, known_values, row_dicts

BARS = {
    "work at the peak": "FLOPs of a step by the run's convention / peak of the GPU; else printed MFU x mean step "
    "without pauses",
    "work at plain products": "declared FLOP of a rank / measured rate of plain matrix products of the same shapes",
    "compute": "of a step: phases of kind compute, mean over ranks and steps, without what other bars take from them; "
    "of layers: micro-batches x mean of the stages; of a trace: a kernel computes",
    "slower kernels": "time of the phases that do the work - work - padding",
    "padding": "time of the phases that do the work x (1 - counted rows / executed rows), mean over the ranks",
    "mixed": "phases that compute, communicate and wait under one timer, without what other bars take from them",
    "preparation": "phases of kind prepare, mean over ranks and steps",
    "unequal ranks": "of each innermost phase: slowest rank - mean rank, from the untimed time around it; outside of "
    "all phases no more than the untimed times of the ranks differ: mean rank - least, median of the steps; where it "
    "is not known, than is beyond the phases that wait and communicate",
    "transfer": "of a step: time of the fastest rank in each communication phase; of a trace: exposed communication "
    "after the last rank has arrived",
    "waiting for the last": "of a step: mean rank - fastest rank in each communication phase; of a trace: exposed "
    "communication before the last rank has arrived",
    "communication": "exposed communication that is not divided into transfer and waiting",
    "waits": "phases of kind wait, mean over ranks and steps",
    "copies": "copies and memsets beside which nothing computes or communicates",
    "waiting kernels": "all that runs only waits: for an event, a semaphore, the host or other ranks",
    "unequal stages": "1F1B with the stages as timed - 1F1B with their mean",
    "pipeline ramp": "(p - 1) / m x time that the mean stage works",
    "host-bound idle": "nothing runs, and the work that comes next is not launched yet",
    "idle with work queued": "nothing runs, and the work that comes next is launched",
    "idle": "nothing runs, and the launch of the work that comes next is not known",
    "data": "phases of kind data; of a trace: host-bound idle while the host is in a range that loads data",
    "unattributed": "untimed time without what other bars take from it: the whole - all other bars",
    "rare pauses": "mean of the steady steps - mean of those that are not over twice their median, if at most a "
    "quarter is; no more than the untimed time of these steps is longer",
    "warm-up": "mean of all steps - mean of the steady steps, if the others are slower",
}
"""The bars in their order, with their formulas."""

_ORDER = {bar: index for index, bar in enumerate(BARS)}
_BAR_OF_KIND = {
    "compute": "compute", "communication": "communication", "wait": "waits", "prepare": "preparation", "data": "data",
    "mixed": "mixed", UNTIMED: "unattributed",
}  # fmt: skip

NOT_OF_A_STEP = ("rare pauses", "warm-up")
"""Bars that are no part of a steady step: they belong to a few steps, and only a mean over all holds them."""

WAITING_FOR_SLOWEST = "if ranks wait for the slowest after each phase"
"""The model of bar `unequal ranks`."""

_DOES_WORK = ("compute", "mixed")
"""Bars of phases that may do the work that a rate counts."""

_ROUNDED = 1e-9  # of a time: less comes from rounding

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="the whole: step (mean of all steps, with a warm-up that is slower), traced step or "
                 "trace (means as in metric breakdown)"),
    MetricColumn("bar", meaning="what the time was spent on"),
    MetricColumn("time_s", "s", "lower", "mean time in the whole"),
    MetricColumn("share", "1", None, "time_s / whole_s"),
    MetricColumn("of_steady", "1", None, "time_s / whole_s without the warm-up and rare pauses, for which it is null"),
    MetricColumn("whole_s", "s", "lower", "time of the whole; all bars of it add up to this"),
    MetricColumn("doubt", meaning="why the bar is less certain than it looks; null: no known reason"),
    MetricColumn("rows", meaning="phases, metric or kinds of events that the time is from"),
    MetricColumn("n", meaning="number of steady steps, or of devices and their steps", type="Int64"),
    MetricColumn("first_step", meaning="first steady step", brief=False, type="Int64"),
    MetricColumn("last_step", meaning="last steady step", brief=False, type="Int64"),
    MetricColumn("first_line", meaning="first line of these rows", brief=False, type="Int64"),
    MetricColumn("last_line", meaning="last line of these rows", brief=False, type="Int64"),
    MetricColumn("formula", meaning="how the bar is computed", brief=False),
)  # fmt: skip


@metric(
    title="time-loss waterfall",
    needs=("runs",),
    columns=_COLUMNS,
    main="share",
    formula="the bars divide whole_s and add up to it; each bar has its own formula",
    source="phases and their kinds: the format; transfer and waiting: TraceLens; ramp and stages: Narayanan et al. "
    "2104.04473; padding and plain products: metrics imbalance, matmul_efficiency",
)
def waterfall(tables: Tables, options: Options) -> MetricRows:
    """Work and losses of each run, which add up to its mean step or to its trace, in the order of the bars.

    A bar exists only where the log has its values. A run with a log that shows nothing of the inside of its steps has
    no rows, unless `gpu`, `peak_tflops` or a printed MFU determines the work.

    Example:
        >>> table = perflog.metrics.waterfall(perflog.find_runs("reference:moe_layer.txt#1"))
        >>> table[["bar", "share"]].round(3)
                      bar  share
        ...
    """
    import pandas as pd

    names = [c.name for c in _COLUMNS]
    wholes = list(_wholes(tables, options))
    if not wholes:
        return []
    order = tables.run_order()
    wholes.sort(key=lambda whole: order[whole.names["run"]])
    table = pd.DataFrame([row for whole in wholes for row in whole.rows()], columns=names)
    whole = table.groupby(["run", "of"])["time_s"].transform("sum")
    steady = table[~table["bar"].isin(NOT_OF_A_STEP)]
    steady_share = steady["time_s"] / steady.groupby(["run", "of"])["time_s"].transform("sum")
    return [table.assign(whole_s=whole, share=table["time_s"] / whole, of_steady=steady_share)]


class Shares(Struct, frozen=True):
    """The parts of the steady step, or of the trace, of a run.

    Attributes:
        of: The whole, as in the metric.
        times: Share by bar and source of its time, a phase or kinds of events; they add up to 1.
    """

    of: str
    times: Mapping[tuple[str, str], float]


@computed_once
def shares_by_run(tables: Tables, options: Options) -> dict[str, Shares]:
    """Return the shares of each run in the metric's table; of a run with several wholes the shares of the step."""
    found: dict[str, Shares] = {}
    for whole in _wholes(tables, options):
        steady = [piece for piece in whole.pieces if piece.bar not in NOT_OF_A_STEP and piece.seconds]
        total = math.fsum(piece.seconds for piece in steady)
        times: dict[tuple[str, str], float] = {}
        for piece in steady:
            times[piece.bar, piece.part] = times.get((piece.bar, piece.part), 0.0) + piece.seconds / total
        found.setdefault(whole.names["run"], Shares(whole.names["of"], times))
    return found


# --- bars of one whole --------------------------------------------------------------------------------------------


class _Piece(Struct):
    """Time in a bar. `part`: phase, table or events that it is from; `inside`: the phase around it."""

    bar: str
    seconds: float
    part: str
    inside: str | None = None
    doubts: tuple[str, ...] = ()


class _Whole(Struct):
    """The time of a run's step or trace in pieces. `lines`: first and last line by part."""

    names: Mapping[str, Any]
    pieces: list[_Piece]
    lines: Mapping[str, tuple[int, int]]

    def move(
        self, amount: float, bar: str, where: Callable[[_Piece], bool], part: str = "", doubt: str | None = None
    ) -> float:
        """Move some time to a bar, an equal share of each piece of a kind; return the time that these lack."""
        pieces = [piece for piece in self.pieces if where(piece) and piece.seconds > 0]
        room = sum(piece.seconds for piece in pieces)
        share = min(amount / room, 1.0) if room else 0.0
        for piece in pieces if share > 0 else ():
            doubts = (doubt,) if doubt else ()
            self.pieces.append(_Piece(bar, piece.seconds * share, part or piece.part, piece.inside, doubts))
            piece.seconds -= piece.seconds * share
        return amount - room if amount - room > _ROUNDED * amount else 0.0

    def doubt(self, bar: str, reason: str) -> None:
        """Name one more reason to doubt a bar."""
        for piece in self.pieces:
            if piece.bar == bar:
                piece.doubts += (reason,)

    def seconds(self, where: Callable[[_Piece], bool]) -> float:
        return sum(piece.seconds for piece in filter(where, self.pieces))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the metric, without bars that have no time."""
        for bar, formula in BARS.items():
            pieces = [piece for piece in self.pieces if piece.bar == bar and piece.seconds]
            if not pieces:
                continue
            parts = list(dict.fromkeys(piece.part for piece in pieces if piece.part))
            lines = [line for part in parts for line in self.lines.get(part, ())]
            doubts = dict.fromkeys(doubt for piece in pieces for doubt in piece.doubts)
            row: dict[str, Any] = {"bar": bar, "time_s": sum(piece.seconds for piece in pieces), "formula": formula}
            row |= {"doubt": "; ".join(doubts) or None, "rows": ", ".join(parts)}
            row |= {"first_line": min(lines, default=None), "last_line": max(lines, default=None)}
            yield {**self.names, **row}


# --- steps --------------------------------------------------------------------------------------------------------


def _wholes(tables: Tables, options: Options) -> Iterator[_Whole]:
    yield from _step_wholes(tables, options)
    yield from _trace_wholes(tables)


def _step_wholes(tables: Tables, options: Options) -> Iterator[_Whole]:
    """Yield the step of each run with known parts inside."""
    semantics, spread = semantics_by_run(tables.rows("runs")), _spread(tables, options)
    pipelines = {timed.run: timed for timed in timed_pipelines(tables, options)}
    work = _work(tables, options)
    means = _mean_steps(tables, options)
    pauses, waits = rare_pauses(tables, options.warmup), untimed_waits(tables, options)
    for whole in _undivided(tables, options):
        run = whole.names["run"]
        steady, every = means[run, "steady"], means[run, "all"]
        whole.move(pauses[run], "rare pauses", _untimed_in("step"), "steps")
        _divide_communication(whole, spread.get(run, ()))
        _take_work(whole, work[run])
        if run in pipelines:
            _take_pipeline(whole, pipelines[run])
        else:
            _take_unequal_ranks(whole, spread.get(run, ()), semantics[run], waits.get(run, 0.0))
        if any(piece.bar not in ("unattributed", *NOT_OF_A_STEP) for piece in whole.pieces):
            if any(piece.seconds < 0 for piece in whole.pieces):
                whole.doubt("unattributed", "phases take longer than what they are inside")
            is_same = abs(whole.seconds(lambda _: True) - steady) <= _ROUNDED * steady
            if is_same and every > steady:  # steps before the steady ones may be faster: another level
                whole.pieces.append(_Piece("warm-up", every - steady, "steps"))
            whole.lines = _lines(tables, whole)
            yield whole


def _undivided(tables: Tables, options: Options) -> Iterator[_Whole]:
    """The mean steady step of each run, in the parts of its breakdown; of a run without parts as a whole."""
    parts = breakdown.table(tables, options)
    by_run = dict(iter(parts[parts["of"] == "step"].groupby("run", sort=False))) if len(parts) else {}
    times = steps.table(tables, options)
    if not len(times):
        return
    known = (times["of"] == "step_time") & (times["part"] == "steady") & (times["n"] > 0)  # not all is warm-up
    for row in row_dicts(times[known]):
        names = {name: row[name] for name in ("run", "n", "first_step", "last_step")} | {"of": "step"}
        pieces = [_Piece("unattributed", float(row["mean_s"]), "step")]
        if row["run"] in by_run:
            rows = by_run[row["run"]]
            names |= {name: int(rows[name].iloc[0]) for name in ("n", "first_step", "last_step")}
            doubts = (ON_SLOWEST_RANK,) if row["run"] in runs_of_slowest_ranks(tables) else ()
            pieces = [
                _Piece(_BAR_OF_KIND.get(kind, "mixed"), time_s, part, inside, doubts)
                for part, kind, inside, time_s in rows[["part", "kind", "inside", "time_s"]].itertuples(index=False)
            ]
        pieces.sort(key=lambda piece: _ORDER[piece.bar])
        yield _Whole(names, pieces, {"steps": (int(row["first_line"]), int(row["last_line"]))})


def _lines(tables: Tables, whole: _Whole) -> dict[str, tuple[int, int]]:
    """First and last line of each phase, of the layers and of the steps themselves, in the steady steps of a run."""
    lines = dict.fromkeys(("steps", *WHOLES), whole.lines["steps"])
    for table, key in (("phases", "phase"), ("layers", "run")):
        rows = tables.rows_of(table, whole.names["run"])
        rows = rows.where((rows["step"] >= whole.names["first_step"]) & (rows["step"] <= whole.names["last_step"]))
        for name, named in rows.by(key).items():
            lines[name if table == "phases" else table] = int(named["line"].min()), int(named["line"].max())
    return lines


def _divide_communication(whole: _Whole, spread: Iterable[_PhaseSpread]) -> None:
    """Move communication phases that all ranks time to transfer and waiting."""
    for phase, parent, fastest, mean, slowest in spread:
        pieces = _pieces_of("communication", phase, parent)
        time = whole.seconds(pieces)
        longest = mean if mean == mean else slowest  # the time that the breakdown counts
        if time and longest:
            whole.move(time * fastest / longest, "transfer", pieces)
            whole.move(time, "waiting for the last", pieces)


_PhaseSpread = tuple[str, str, float, float, float]
"""Phase, the parent that its piece is inside, and time of the fastest, the mean and the slowest rank."""


def _spread(tables: Tables, options: Options) -> dict[str, list[_PhaseSpread]]:
    """Return the spread of the ranks of each run."""
    spreads, spread = rank_spread(tables, options), {}
    for table in rows_with_wholes(tables, options.warmup):
        printed: dict[str, set[str]] = {}
        for run_index, phase in table.cases():
            printed.setdefault(table.runs[run_index].run, set()).add(table.names[phase])
        for run in (run for run in table.runs if run.run in spreads):
            spread[run.run] = [
                (phase, printed_parent(run, parent, printed[run.run]) or "step", *times)
                for phase, parent, *times in spreads[run.run].itertuples(index=False, name=None)
            ]
    return spread


def _pieces_of(bar: str, part: str, inside: str | None) -> Callable[[_Piece], bool]:
    return lambda piece: (piece.bar, piece.part, piece.inside) == (bar, part, inside)


# --- work ---------------------------------------------------------------------------------------------------------


class _Work(Struct, frozen=True):
    """Work of a run's step.

    `needed`: time that it needs, by the phases that do it; no phases: unknown. `bar`: the bar of that time.
    `working`: all phases that do declared work. `counted`, `executed`: rows that the rates count, and that each rank
    executes in a step; None if the log does not print them. `as_printed`: from a printed MFU.
    """

    bar: str
    needed: Mapping[frozenset[str], float]
    working: frozenset[str]
    counted: float | None
    executed: tuple[float, ...]
    as_printed: bool

    @property
    def doubt(self) -> str | None:
        """Return the doubt that rates count other work than ranks do, or that the work is from a printed MFU."""
        if self.as_printed:
            return "from the MFU that the log prints"
        if self.counted is None or not self.executed or set(self.executed) == {self.counted}:
            return None
        ends = dict.fromkeys(f"{rows:,.0f}" for rows in (min(self.executed), max(self.executed)))
        return f"counts {self.counted:,.0f} rows, ranks do {' to '.join(ends)}"

    @property
    def padded(self) -> float:
        """Share of the executed rows that the rates do not count, over the ranks."""
        mean = sum(self.executed) / len(self.executed) if self.executed else 0.0
        return 1 - self.counted / mean if self.counted and mean > self.counted else 0.0


def _work(tables: Tables, options: Options) -> dict[str, _Work]:
    """The work of each run, at the peak if one is given, else at the rate of plain products if the log has it."""
    printed, at_peak = _times_of_work(tables, options)
    plain = dict[tuple[str, str], float]()
    if (rows := work_rates(tables, options)) is not None:
        rows = rows[rows["rank"].isna() & rows["plain_tflops"].notna()]
        times = rows["work_flop"] / rows["plain_tflops"] / 1e12
        plain = dict(zip(zip(rows["run"], rows["what"], strict=True), times.tolist(), strict=True))
    executed = _executed_rows(tables, options)
    work = {}
    for run, semantics in semantics_by_run(tables.rows("runs")).items():
        disjoint: dict[str, frozenset[str]] = {}
        for rate in semantics.rates:
            if "step" not in rate.of and not any(phases & set(rate.of) for phases in disjoint.values()):
                disjoint[rate.name] = frozenset(rate.of)
        needed = {phases: plain[run, name] for name, phases in disjoint.items() if (run, name) in plain}
        given = at_peak.get(run, None if needed else printed.get(run))
        bar = "work at plain products" if given is None else "work at the peak"
        needed = needed if given is None else {frozenset[str](): given}
        working = frozenset[str]().union(*disjoint.values())
        as_printed = run not in at_peak and bar == "work at the peak"
        counted = semantics.quantities.get("work_rows")
        work[run] = _Work(bar, needed, working, counted, executed.get(run, ()), as_printed)
    return work


def _times_of_work(tables: Tables, options: Options) -> tuple[dict[str, float], dict[str, float]]:
    """The time of the work in a step of each run: by the MFU that it prints, and at its peak."""
    rates = throughput.table(tables, options)
    if not len(rates):
        return {}, {}
    steady = (rates["part"] == "steady").to_numpy(bool)
    runs = rates["run"].to_numpy()[steady].tolist()
    mfu, flops, peak = (floats(rates[name])[steady] for name in ("printed_mfu", "step_flops", "peak_tflops"))
    usual = means_without_pauses(tables, options.warmup)
    settings = settings_by_run(tables)
    printed = {
        run: share * usual[run]
        for run, share in known_values(runs, mfu).items()
        if run in usual and MFU_PEAK_OF not in settings[run]
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        return printed, known_values(runs, flops / peak / 1e12)


def _mean_steps(tables: Tables, options: Options) -> dict[tuple[str, str], float]:
    """Mean step by run and part, of each run that prints step times: of its steady steps, and of all."""
    rows = steps.table(tables, options)
    if not len(rows):
        return {}
    columns = (rows[name].tolist() for name in ("run", "of", "part"))
    means = zip(*columns, floats(rows["mean_s"]).tolist(), strict=True)
    return {(run, part): mean for run, of, part, mean in means if of == "step_time"}


def _executed_rows(tables: Tables, options: Options) -> dict[str, tuple[float, ...]]:
    """Rows that each rank executes in each steady step that all ranks print, by run."""
    table = step_rows(tables, "loads", "amount", options.warmup).steady()
    table = table.where(~table.rows.known("expert"))
    groups = groups_of(table.run_index, table.rows["step"])
    run_indices = table.run_index[groups.first]
    executed = {}
    for run_index in np.unique(run_indices).tolist():
        run, counts = table.runs[run_index], groups.sizes[run_indices == run_index]
        unit = run.semantics.quantities.get("unit_rows")
        whole = (run_indices == run_index) & (groups.sizes == (run.world or counts.max()))
        amounts = table.rows["amount"][whole[groups.inverse]]
        if unit and len(amounts):
            executed[run.run] = tuple((amounts * unit).tolist())
    return executed


def _take_work(whole: _Whole, work: _Work) -> None:
    """Move the work to its bar and padding to its own. The rest of the phases that do it is slower kernels."""
    time_of_work = whole.seconds(lambda piece: piece.part in work.working and piece.bar in _DOES_WORK)
    for phases, seconds_needed in work.needed.items():
        needed = seconds_needed
        for bar in _DOES_WORK if phases else (*_DOES_WORK, "unattributed"):
            needed = whole.move(needed, work.bar, _doing(phases, (bar,)), doubt=work.doubt)
        if needed:
            whole.doubt(work.bar, "at this rate the work takes longer than what is timed")
        for piece in filter(_doing(phases, ("compute",)), whole.pieces):
            piece.bar = "slower kernels"
    padded = _doing(work.working, (*_DOES_WORK, "slower kernels"))
    if whole.move(work.padded * time_of_work, "padding", padded, doubt="if time grows with the rows"):
        whole.doubt("padding", "the phases take no longer than the counted work")


def _doing(phases: frozenset[str], bars: Sequence[str]) -> Callable[[_Piece], bool]:
    """Whether a piece is of some bars and of some phases; of any phase if none is named."""
    return lambda piece: piece.bar in bars and (not phases or piece.part in phases)


# --- pipelines and ranks ------------------------------------------------------------------------------------------


def _take_pipeline(whole: _Whole, timed: TimedPipeline) -> None:
    """Move the losses of the modelled schedule out of the unattributed time; and its work, if no phase times it."""
    model = f"modelled from the {timed.of} of the layers alone"
    nothing_timed = all(piece.bar == "unattributed" for piece in whole.pieces)
    amounts = {"unequal stages": timed.makespan_s - timed.equal_s, "pipeline ramp": timed.equal_s - timed.busy_s}
    if nothing_timed:
        amounts["compute"] = timed.busy_s
    for bar, amount in amounts.items():
        if whole.move(amount, bar, _doing(frozenset(), ("unattributed",)), "layers", model):
            whole.doubt(bar, "the model loses more than is untimed")


def _take_unequal_ranks(whole: _Whole, spread: Iterable[_PhaseSpread], semantics: RunSemantics, waits: float) -> None:
    """Move the wait for the slowest rank of each innermost phase out of the untimed time around it.

    `waits`: how long ranks may wait outside of all phases. What is left, they wait in phases.
    """
    inner = {
        (piece.part, piece.inside)
        for piece in whole.pieces
        if piece.bar in (*_DOES_WORK, "slower kernels", "preparation")
    }
    for phase, parent, _, mean, slowest in spread:
        if (phase, parent) not in inner or not slowest > mean:
            continue
        left = slowest - mean
        for around in semantics.lineage(parent, None):
            left = min(left, waits) if around == "step" else left
            if left > _ROUNDED * mean:
                rest = whole.move(left, "unequal ranks", _untimed_in(around), phase, WAITING_FOR_SLOWEST)
                waits -= left - rest if around == "step" else 0.0
                left = rest
        if left > _ROUNDED * mean:
            whole.doubt("unequal ranks", "the spread of the ranks is more than the untimed time")


def _untimed_in(phase: str) -> Callable[[_Piece], bool]:
    return lambda piece: piece.bar == "unattributed" and piece.part == phase


# --- traces -------------------------------------------------------------------------------------------------------

_EVENTS = {
    "compute": "kernels that compute", "transfer": "collectives", "waiting for the last": "collectives",
    "communication": "kernels that communicate", "copies": "copies and memsets",
    "waiting kernels": "kernels that wait", "data": "host ranges and gaps",
    "host-bound idle": "gaps and launches", "idle with work queued": "gaps and launches", "idle": "gaps",
}  # fmt: skip


def _trace_wholes(tables: Tables) -> Iterator[_Whole]:
    """The annotated step of each trace, else all of it, mean over the devices."""
    by_run = grouped((losses.device.run, losses) for losses in device_losses(tables))
    for run, devices in by_run.items():
        n = sum(losses.steps or 1 for losses in devices)
        of = TRACED_STEP if devices[0].steps else "trace"
        names = {"run": run, "of": of, "n": n}
        pieces = [
            _Piece(bar, float(seconds(ns)) / n, _EVENTS[bar], None, losses.doubts.get(bar, ()))
            for losses in devices
            for bar, ns in losses.times.items()
        ]
        yield _Whole(names, pieces, {})
