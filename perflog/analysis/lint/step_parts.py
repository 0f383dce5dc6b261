"""Rules on the parts of a step: gaps, phases and layers that cover little, short backwards, subtracted times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

import numpy as np
from msgspec import Struct

from perflog.analysis.lint.registry import STEP_TIMES, Finding, LintedRun, LintInput, rule
from perflog.analysis.lint.wording import percent, seconds, time_range
from perflog.arrays import Floats, Ints, Mask
from perflog.formats.model import WHOLES, Format
from perflog.metrics.run_tables import cached
from perflog.metrics.step_series import most_frequent
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.tables.columns import Rows
from perflog.tables.schema import column_for
from perflog.units import count, first_few

_GAP = 0.01  # of the step: a larger gap is a finding on one run
_WIDE_GAP, _GAP_RATIO = 0.005, 10  # a gap above this share in some runs, and this many times the gap of other runs
_UNEXPLAINED = 0.05  # of forward or backward, in no phase
_COVERED = 0.5  # of the ranks' step time, by layers
_BACKWARD = 0.5  # backward over forward: a full backward does about twice the work of the forward

CLOCK_TICKS = {1.024e-6: "1.024 us, CUDA events", 1e-6: "1 us", 5e-7: "0.5 us", 3.2e-8: "32 ns, CUDA events"}
"""Clock ticks that are tried, in seconds, the longest first."""

_STRAY, _PARTLY = 0.01, (0.05, 0.8)  # share of values that are no multiple of the tick: measured times, differences
_ENOUGH = 20  # values that can show a tick
_ROOM = 8  # the tick over the uncertainty of a printed value: below this, any value would be a multiple


def _gaps(run: LintedRun) -> Floats:
    """Step - forward - backward of each steady step that prints all three; rows: gap, step, time of other phases."""
    return cached(run.data.tables, ("gaps", run.id, run.data.options.warmup), lambda: _new_gaps(run))


def _new_gaps(run: LintedRun) -> Floats:
    s = run.series()
    rows = run["steps"]
    rows = rows.where(rows.known(*STEP_TIMES, "step"))
    if s is None or not len(rows) or not len(s.steady):
        return np.empty((3, 0))
    rows = rows.where(np.isin(rows["line"], s.lines[s.warmup.cut :]))
    step = rows["step_time_s"]
    gap = step - (rows["forward_s"] + rows["backward_s"])
    return np.array([gap, step, _other_phases(run, rows)])


def _other_phases(run: LintedRun, rows: Rows) -> Floats:
    """Time of the step's own phases besides forward and backward, on the rank that prints each of these steps."""
    phases, means = run["phases"], run.semantics
    _, names = phases.codes("phase")
    own = [name for name in names if means.known_parent(name, None) == "step" and not means.is_hidden(name, None)]
    phases = phases.where(phases.one_of("phase", [name for name in own if name not in WHOLES]) & phases.known("step"))
    if not len(phases):
        return np.zeros(len(rows))
    groups = groups_of(phases["step"], phases["rank"])
    keys = zip(phases["step"][groups.first].tolist(), phases["rank"][groups.first].tolist(), strict=True)
    times = dict(zip(keys, groups.sums(phases["time_s"]).tolist(), strict=True))
    steps = zip(rows["step"].tolist(), rows["rank"].tolist(), strict=True)
    return np.array([times.get(step, 0.0) for step in steps], np.float64)


@rule(
    code="backward-short",
    severity="warning",
    title="backward is much shorter than forward",
    why="A full backward computes two matrix products for each one of the forward and takes about twice its time. A "
    "much shorter one computes no gradients for most of the model. A FLOP convention for training still counts them, "
    "so TFLOP/s and MFU are up to 3 times too high.",
    action="check that inputs and parameters require gradients; do not compare this rate with training steps",
    needs=("steps",),
)
def backward_short(data: LintInput) -> Iterator[Finding]:
    """Median of the steady backward below half of the forward's."""
    for run in data.runs:
        forwards, backwards = run.series("forward_s"), run.series("backward_s")
        if forwards is None or backwards is None or not len(forwards.steady) or not len(backwards.steady):
            continue
        forward, backward = median(forwards.steady), median(backwards.steady)
        if backward >= _BACKWARD * forward or forward <= 0:
            continue
        message = (
            f"backward takes {backward / forward:.2f} of forward: {seconds(backward)} against {seconds(forward)} "
            "(steady medians)"
        )
        rate = run.series("tflops")
        if rate is not None and len(rate.steady):
            convention = f" (FLOP convention {run.semantics.flops})" if run.semantics.flops else ""
            message += (
                f". The printed {median(rate.steady):.2f} TFLOP/s count a full backward{convention}; up to two thirds "
                "of that work may not have been done"
            )
        yield Finding(run.id, message, {run.id: backwards.lines}, {"forward": forward, "backward": backward})


@rule(
    code="step-gap",
    severity="note",
    title="part of the step is in neither forward nor backward",
    why="The step includes something that is timed in none of its parts: loss, optimizer, zeroing of gradients, "
    "synchronization. A speed-up of forward and backward is smaller for the step. Other phases that the log times are "
    "not counted as missing.",
    action="count it as a part of its own",
    needs=("steps",),
)
def step_gap(data: LintInput) -> Iterator[Finding]:
    """Median gap above 1 % of the step, after the phases that the log times."""
    for run in data.runs:
        gaps = _gaps(run)
        if not gaps.size or median((gaps[0] - gaps[2]) / gaps[1]) <= _GAP:
            continue
        share, middle = median(gaps[0] / gaps[1]), median(gaps[0])
        message = (
            f"step - forward - backward is {seconds(middle)}, {percent(share)} of the step (medians); range "
            f"{time_range(gaps[0])}"
        )
        if (others := median(gaps[2])) > 0:
            message += f"; other phases take {seconds(others)} of it"
        s = run.series()
        yield Finding(run.id, message, {run.id: s.lines if s else ()}, {"gap": middle, "share": share})


@rule(
    code="gap-differs",
    severity="warning",
    title="forward + backward is the whole step in some runs, and less in others",
    why="Where the gap between step and forward + backward differs by a factor of ten, the timers are at different "
    "points of the program: in one run backward includes loss or optimizer, in another no part does.",
    action="compare the step times of these runs, not forward or backward",
    needs=("steps",),
)
def gap_differs(data: LintInput) -> Iterator[Finding]:
    """Among the runs of a format: gap above 0.5 % of the step in some, a tenth of the largest or less in others."""
    formats: dict[str, list[tuple[LintedRun, float, float]]] = {}
    for run in data.runs:
        gaps = _gaps(run)
        if gaps.size and run.semantics.format:
            row = (run, median(gaps[0] / gaps[1]), median(gaps[0]))
            formats.setdefault(run.semantics.format.name, []).append(row)
    for runs in formats.values():
        largest = max(share for _, share, _ in runs)
        wide = [r for r in runs if r[1] > max(largest / _GAP_RATIO, _WIDE_GAP)]
        narrow = [r for r in runs if r[1] <= largest / _GAP_RATIO]
        if not wide or not narrow:
            continue
        groups = [
            f"{time_range([gap for *_, gap in group])} in {count(len(group), 'run')} "
            f"({first_few((run.name for run, *_ in group), 3)})"
            for group in (wide, narrow)
        ]
        message = f"step - forward - backward is {groups[0]}, but {groups[1]}"
        lines = {run.id: s.lines[:1] for run, *_ in (*wide, *narrow) if (s := run.series())}
        yield Finding(wide[0][0].id, message, lines, {"gap": {run.id: gap for run, _, gap in runs}})


@rule(
    code="phase-gap",
    severity="note",
    title="part of forward or backward is in no phase",
    why="The timed phases do not add up to the whole. The remaining time is launch overhead, code without a timer, or "
    "waiting.",
    action="count it as a part of its own; do not divide the whole among the phases",
    needs=("steps", "phases"),
)
def phase_gap(data: LintInput) -> Iterator[Finding]:
    """Forward or backward minus its phases, the mean over ranks, above 5 %. Ranks need not be known for a mean."""
    for run in data.runs:
        parts: list[str] = []
        numbers: dict[str, float] = {}
        phases = run["phases"]
        for whole in ("forward", "backward"):
            s = run.series(f"{whole}_s")
            inner = [p.name for p in run.semantics.phases.values() if p.of == (whole,) and not p.hidden]
            rows = phases.where(phases.one_of("phase", inner) & phases.known("step"))
            if s is None or not len(rows) or not len(s.steady):
                continue
            ranks = most_frequent(groups_of(rows["step"], rows.codes("phase")[0]).sizes)
            sums = _sums_of_steps(rows, s.steps[s.warmup.cut :]) / ranks
            known = ~np.isnan(sums) & (s.steady > 0)
            missing = median(1 - sums[known] / s.steady[known]) if known.any() else 0.0
            if missing > _UNEXPLAINED:
                parts.append(f"{percent(missing)} of {whole} ({seconds(missing * median(s.steady))})")
                numbers[whole] = missing
        if parts:
            message = f"{' and '.join(parts)} in no phase (median of the steady steps, mean over ranks)"
            yield Finding(run.id, message, {run.id: phases["line"][:1]}, numbers)


def _sums_of_steps(rows: Rows, steps: Ints) -> Floats:
    """The sum of the times of each of these steps, NaN for a step without rows."""
    groups = groups_of(rows["step"])
    sums = dict(zip(rows["step"][groups.first].tolist(), groups.sums(rows["time_s"]).tolist(), strict=True))
    return np.array([sums.get(step, np.nan) for step in steps.tolist()])


@rule(
    code="layers-cover-little",
    severity="note",
    title="layer times are a small part of the step",
    why="Most of the ranks' time is outside of the timed layers. Idle time, pipeline bubble or communication cannot be "
    "computed as step minus layers: the difference holds everything that was not timed.",
    action="treat what is computed from these layers as a model of the pipeline, not as a measurement",
    needs=("steps", "layers"),
)
def layers_cover_little(data: LintInput) -> Iterator[Finding]:
    """Sum of the layers of a step below half of the step's time on all ranks."""
    for run in data.runs:
        s, layers = run.series(), run["layers"]
        if s is None or not len(layers) or s.averaged > 1:  # layer times beside several steps: a sum or a mean?
            continue
        ranks = max(len(np.unique(layers["rank"][layers.known("rank")])), 1)
        sums = _sums_of_steps(layers.where(layers.known("step")), s.steps)
        shares = (sums / (ranks * s.values))[~np.isnan(sums)]
        if len(shares) and median(shares) < _COVERED:
            message = (
                f"the layers cover {percent(median(shares))} of the step: {seconds(float(np.nanmedian(sums)))} per "
                f"step over {count(ranks, 'rank')}, of {ranks} x {seconds(median(s.values))}"
            )
            yield Finding(run.id, message, {run.id: layers["line"][:1]}, {"share": median(shares), "ranks": ranks})


@rule(
    code="time-subtracted",
    severity="warning",
    title="the program subtracts time from what its clock measures",
    why="A clock counts in ticks. Other times of this run are all multiples of its tick; these times are only in part. "
    "So they are differences: part of the step was subtracted, and they are not the time that the step took.",
    action="find out what was subtracted before you compare them with step times of other programs",
    needs=("steps",),
)
def time_subtracted(data: LintInput) -> Iterator[Finding]:
    """Columns of `steps` that are multiples of a clock tick only in part, where other times of the run always are."""
    for run in data.runs:
        steps = {column: _measured_times(run, "steps", column) for column in STEP_TIMES}
        phases: dict[str, _Times] | None = None
        for tick, tick_name in CLOCK_TICKS.items():
            off = {name: times.off(tick) for name, times in steps.items()}
            partly = {c: x for c, (_, x) in off.items() if len(x) and _PARTLY[0] <= x.mean() <= _PARTLY[1]}
            if not partly:
                continue
            if phases is None:
                names = [p.name for p in run.semantics.phases.values() if p.clock == "gpu"]
                phases = {name: _measured_times(run, "phases", name) for name in names}
            off |= {name: times.off(tick) for name, times in phases.items()}
            measured = [c for c, (_, x) in off.items() if len(x) and x.mean() <= _STRAY]
            if measured:
                shares = (f"{percent(1 - x.mean())} of the {c.removesuffix('_s')} values" for c, x in partly.items())
                columns = first_few(c.removesuffix("_s") for c in measured)
                message = (
                    f"only {' and '.join(shares)} are multiples of the clock tick ({tick_name}), but all "
                    f"values of {columns}"
                )
                lines = {line for c, x in partly.items() for line in off[c][0][x].tolist()}
                on = {c: 1 - float(x.mean()) for c, x in partly.items()}
                yield Finding(run.id, message, {run.id: lines}, {"grid": tick, "on_grid": on})
                break


class _Times(Struct, frozen=True, dict=True):
    """Measured times, the lines that print them, and their last printed digit in seconds."""

    lines: Ints
    values: Floats
    last_digit: float

    @cached_property
    def slack(self) -> Floats:
        """How far each time may be from a multiple of a tick: as printed, and as C floats.

        A timer that computes milliseconds as a C float may be off by the last digit of a float.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # too large for a C float: the slack is NaN
            single = np.spacing((self.values * 1e3).astype(np.float32)).astype(np.float64) * 1e-3
            return 0.5 * self.last_digit + single + 1e-15

    def off(self, tick: float) -> tuple[Ints, Mask]:
        """Return lines, and flags of the times that are no multiple of the tick; empty if too few times can show it.

        A long time has too few digits left and is left out.
        """
        if len(self.values) < _ENOUGH:
            return self.lines[:0], np.zeros(0, np.bool_)
        able = self.slack < tick / _ROOM
        lines, values = self.lines[able], self.values[able]
        enough = slice(None) if len(values) >= _ENOUGH else slice(0)
        off = np.abs(values - np.round(values / tick) * tick) > self.slack[able]
        return lines[enough], off[enough]


def _measured_times(run: LintedRun, table: str, name: str) -> _Times:
    """The times of a column or a phase; none if their last printed digit is unknown."""
    rows, column = run[table], name
    if table == "phases":
        rows, column = rows.where(rows.one_of("phase", [name])), "time_s"
    rows = rows.where(rows.known(column))
    last_digit = _last_digit(run.semantics.format, table, name, run.shapes) if len(rows) else None
    if last_digit is None:
        rows = rows.where(np.zeros(len(rows), np.bool_))
    return _Times(rows["line"], rows[column], last_digit or 0.0)


@lru_cache(maxsize=1024)
def _last_digit(form: Format | None, table: str, name: str, shapes: frozenset[str]) -> float | None:
    """The last printed digit of a column or a phase in seconds, by the lines of the format that a log shows."""
    for line in form.lines if form else ():
        for field in line.template.fields if line.table == table and line.template.text in shapes else ():
            col = column_for(table, field.name)
            if (col.name if col else field.name) == name and field.type in "fr" and field.name in line.unit:
                digits = re.search(r"\.(\d+)", field.spec)
                last_digit = 10.0 ** -int(digits[1] if digits else 6) if field.type == "f" else 0.0
                return last_digit * line.unit[field.name].factor
    return None
