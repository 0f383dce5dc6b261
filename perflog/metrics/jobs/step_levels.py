"""Levels inside a run: since which step its speed is another one, and what else changed there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Mask
from perflog.formats.families.name_units import is_statistic
from perflog.metrics.directions import COUNTDOWN, names_time, words_of
from perflog.metrics.jobs.timeline import moment
from perflog.metrics.options import Options
from perflog.metrics.possible import RATES
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.row_groups import row_groups
from perflog.metrics.run_rows import lines_of_runs
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.step_series import StepSeries, series_of_values, step_series
from perflog.statistics.levels import Level
from perflog.statistics.samples import mad, median
from perflog.statistics.shifts import shifts
from perflog.tables.columns import NULL, Rows
from perflog.units import first_few, numbered, show

SPEEDS = {"step_time_s": "s", "tokens_per_s": "1/s", "samples_per_s": "1/s", "tflops": "TFLOP/s"}
"""Metrics of speed with their units: the first that a run prints determines its levels."""

_LONG, _SHARE = 20, 0.1  # values, and their share of the run: a longer warm-up may be a level
_FAST = 8  # values: fewer are no level
_WARM = 5  # values that are warm-up even then
_NEAR = 20  # rows on both sides of a shift that are searched for other changes
_FEWEST = 5  # of them
_CLEAR = 5.0  # times their scatter
_LEAST = 0.02
_LEVELS_TO_AND_FRO, _SAME_VALUE = 4, 0.25  # number; range of equal levels, as a share of the distance of the others
_ALIKE, _NAMED = 0.5, 4  # share of the largest shift; ranks of a shift that are named
_EXPLAINS = 0.3  # of a drift: a phase that changed by less is not named
_VARIES = 0.1  # share of the values that are larger than the one before, and of those that are smaller
_MOST = 4  # things that changed, which are named
_FOLLOWS = {*SPEEDS, *RATES, "mfu", "loss", "perplexity", "grad_norm", "learning_rate", "elapsed_s"}
"""Columns of steps that follow from the speed, or change with every step."""

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn(
        "figure",
        meaning=f"{', '.join(SPEEDS)}: the first that the run prints; without one its longest time by name",
    ),
    MetricColumn("unit", meaning="its unit", brief=False),
    MetricColumn("level", meaning="number of the level, from 1"),
    MetricColumn("first_step", meaning="first step of the level"),
    MetricColumn("last_step", meaning="last step of the level"),
    MetricColumn("n", meaning="number of values"),
    MetricColumn("at", meaning="time of the line before the first step, if lines have times"),
    MetricColumn("value", meaning="median over the level"),
    MetricColumn("change", "1", None, "value / value of the level before - 1; null for the first level"),
    MetricColumn(
        "p", meaning="p-value of this change: the larger of a t-test's and a permutation test's", type="float64"
    ),
    MetricColumn("with_it", meaning="what changed between the last step before and the first step after: phases and "
                 "values, with the ranks if some changed; checkpoints and failures"),
    MetricColumn("first_line", meaning="line of the first step", brief=False),
)  # fmt: skip


class RunLevels(Struct, frozen=True):
    """The levels of the steps of a run after its warm-up: at least two. Indices into the values of `series`."""

    series: StepSeries
    unit: str
    levels: Sequence[Level]

    @property
    def medians(self) -> list[float]:
        """Median of each level."""
        return [median(self.series.values[level.start : level.stop]) for level in self.levels]


def alternate(values: Sequence[float]) -> bool:
    """Return whether levels go to and fro between two values, more than once."""
    if len(values) < _LEVELS_TO_AND_FRO:
        return False
    one, other = values[::2], values[1::2]
    distance = max(min(other) - max(one), min(one) - max(other))
    return distance > max(max(one) - min(one), max(other) - min(other)) / _SAME_VALUE


@metric(
    title="levels inside a run",
    needs=("steps",),
    columns=_COLUMNS,
    main="value",
    formula="the levels with the least squared error, each with a price, of the medians of blocks of steady steps; a "
    "cut counts if it is significant by a t-test and in other orders of the blocks, if it is at least "
    "2 % and 4 times the scatter of the blocks, if 60 % of it lie between the steps next to it, if these differ by 1.6 "
    "times what blocks elsewhere do, and if neither side changes by half of it",
    source="own; optimal partitioning of Jackson et al. 2005",
)
def levels(tables: Tables, options: Options) -> MetricRows:
    """Levels of the step time of each run with a lasting shift of its speed; no rows for other runs.

    A slope, single long steps, pauses and short periods are no shift. A run that prints no step times has its levels by
    the rate that it prints, or by the longest time that its step lines name. Runs of fewer than 24 steady steps have no
    rows.
    """
    return [row for run in run_levels(tables, options.warmup).values() for row in _rows(tables, run)]


@computed_once
def run_levels(tables: Tables, warmup: int | None = None) -> dict[str, RunLevels]:
    """Return the levels of the runs that have several, by run id."""
    return {
        series.run: RunLevels(series, unit, found)
        for unit, series in first_speeds(tables, warmup, with_named=True)
        if (found := _levels_of(series, warmup is not None))
    }


def first_speeds(
    tables: Tables, warmup: int | None = None, with_named: bool = False
) -> Iterator[tuple[str, StepSeries]]:
    """Yield the unit and the series of the first speed that each run prints, in the order of `SPEEDS`.

    `with_named`: of a run that prints none, the longest time that its step lines name.
    """
    done: set[str] = set()
    runs = tables.counts("steps").keys()
    columns = ((unit, step_series(tables, column, warmup)) for column, unit in SPEEDS.items())
    units = ("s", "") if with_named else ()
    named = ((unit, series) for unit in units for series in _named_times(tables, warmup, done, unit))
    for unit, series_of_column in chain(columns, named) if runs else ():
        for series in series_of_column:
            if series.run not in done and len(series.steady):
                done.add(series.run)
                yield unit, series
        if done.issuperset(runs):
            return  # series of further columns would only take memory


def _named_times(tables: Tables, warmup: int | None, others: Collection[str], unit: str) -> Iterator[list[StepSeries]]:
    """Yield, the longest first, the series of the times that the step lines of runs print by name.

    `others`: runs that print their speed. `unit`: of the times, empty if none is printed. A time that only grows, or
    only falls, is of a whole run, as a countdown is. Statistics of times come last.
    """
    steps = tables.rows("steps")
    steps_of_lines = lines_of_runs(tables, steps)
    rows = tables.rows("values")
    has_unit = rows.one_of("unit", {unit}) if unit else ~rows.known("unit")
    rows = rows.where(has_unit & rows.known("value", "step") & ~rows.one_of("run", others))
    series_by_key: list[tuple[bool, float, list[StepSeries]]] = []
    for key, key_rows in rows.by("key").items():
        words = words_of(key)
        if not (unit or names_time(key)) or not COUNTDOWN.isdisjoint(words):
            continue
        order = np.argsort(numbered_lines := lines_of_runs(tables, key_rows), kind="stable")
        index = np.searchsorted(numbered_lines[order], steps_of_lines).clip(max=len(order) - 1)
        times = np.where(numbered_lines[order][index] == steps_of_lines, key_rows["value"][order][index], np.nan)
        series = [each for each in series_of_values(tables, key, times, warmup) if _varies(each.values)]
        if series:
            is_of_several = any(map(is_statistic, words))  # such as a mean so far, which is slow to change
            series_by_key.append((is_of_several, -median(key_rows["value"]), series))
    yield from (series for *_, series in sorted(series_by_key, key=lambda each: each[:2]))


def _varies(values: Floats) -> bool:
    """Return whether values go up and down."""
    ups, downs = (np.diff(values) > 0).sum(), (np.diff(values) < 0).sum()
    return bool(min(ups, downs) > _VARIES * len(values))


def _levels_of(series: StepSeries, is_given: bool) -> list[Level]:
    """Return the levels of a run.

    A warm-up that is long or fast may be the first level: then levels are searched from nearly the begin of the run
    first, and from the end of the warm-up if the first one is too short. `is_given`: a user chose the warm-up.
    """
    cut, n = series.warmup.cut, len(series.values)
    is_fast = cut >= _FAST and _is_fast(series)
    is_long = cut > max(_LONG, _SHARE * n)
    begins = [min(cut, _WARM), cut] if (is_fast or is_long) and not is_given else [cut]
    for begin in begins:
        found = shifts(series.values[begin:])
        if len(found) > 1 and (begin == cut or is_fast or found[0].stop >= _LONG):
            return [Level(begin + level.start, begin + level.stop, level.p) for level in found]
    return []


def _is_fast(series: StepSeries) -> bool:
    """Return whether the steps before the steady ones are faster than these: warm-up is slow."""
    ratio = median(series.values[: series.warmup.cut]) / median(series.values[series.warmup.cut :])
    return ratio > 1 if series.column in RATES else ratio < 1


def _rows(tables: Tables, run: RunLevels) -> Iterator[dict[str, object]]:
    series = run.series
    times = _times(tables, series.run)
    before: float | None = None
    for number, (level, value) in enumerate(zip(run.levels, run.medians, strict=True), 1):
        first, last = level.start, level.stop - 1
        line = int(series.lines[first])
        row: dict[str, object] = {
            "run": series.run, "figure": series.column, "unit": run.unit, "level": number,
            "first_step": int(series.steps[first]), "last_step": int(series.steps[last]), "n": level.stop - level.start,
            "at": times.get(int(series.lines[max(first - 1, 0)])), "value": value, "p": level.p, "first_line": line,
        }  # fmt: skip
        if before is not None:
            row |= {"change": value / before - 1, "with_it": changes_with(tables, run, number - 1) or None}
        yield row
        before = value


def _times(tables: Tables, run: str) -> dict[int, str]:
    """Return the times of step lines as strings, by line."""
    steps = tables.rows_of("steps", run)
    steps = steps.where(steps.known("printed_ns", "clock"))
    return {line: moment(time, clock) for line, time, clock in steps.records("line", "printed_ns", "clock")}


def changes_with(tables: Tables, run: RunLevels, number: int) -> str:
    """Return what else changed at the first step of a level, in words; `number`: its index."""
    series, first = run.series, run.levels[number].start
    after, before = int(series.lines[first]), int(series.lines[first - 1])
    last = _Last(before, int(series.steps[first - 1]))
    named: list[str] = []
    changes = [
        *_changed_phases(tables, series.run, last, _shift), *_changed_values(tables, series.run, last, series.column)
    ]  # fmt: skip
    named += [change.text for change in sorted(changes, reverse=True)]
    for name, column in (("milestones", "kind"), ("failures", "kind")):
        rows = tables.rows_of(name, series.run)
        rows = rows.where((rows["line"] > before) & (rows["line"] < after))
        kinds = dict.fromkeys(str(kind).replace("_", " ") for kind in rows[column].tolist() if kind != "log")
        named += kinds
    more = [f"and {len(named) - _MOST} more"] if len(named) > _MOST else []
    return ", ".join([*named[:_MOST], *more])


class _Last(NamedTuple):
    """The last step before a change, and its line. Ranks may print one after the other, so their steps decide."""

    line: int
    step: int

    def is_before(self, rows: Rows) -> Mask:
        """Flag the rows up to this step."""
        by_step = (rows.known("step") & (rows.known("rank") | rows.known("source"))).all()
        return rows["step"] <= self.step if by_step else rows["line"] <= self.line


class _Change(NamedTuple):
    """What shifted at a step. What shifted on the fewest ranks comes first: others wait for these.

    `spread`: the share of the ranks on which it shifted, below 0.
    """

    spread: float
    seconds: float
    text: str


def drifted_phases(tables: Tables, series: StepSeries) -> list[str]:
    """Return the phases that explain most of the difference of the halves of a series, in words."""
    half = series.warmup.cut + len(series.steady) // 2
    before = _Last(int(series.lines[half - 1]), int(series.steps[half - 1]))
    drift = abs(median(series.values[half:]) - median(series.values[series.warmup.cut : half]))
    changes = sorted(_changed_phases(tables, series.run, before, _halves), reverse=True)
    return [change.text for change in changes if change.seconds > _EXPLAINS * drift][:_MOST]


def _changed_phases(tables: Tables, run: str, before: _Last, shift: _Shift) -> Iterator[_Change]:
    """Yield the phases with a shifted time."""
    rows = tables.rows_of("phases", run)
    for phase, phase_rows in rows.by("phase").items():
        yield from _changes(phase_rows, "time_s", before, phase, "s", shift)
    steps = tables.rows_of("steps", run)
    for phase in ("forward", "backward"):
        yield from _changes(steps, f"{phase}_s", before, phase, "s", shift)


def _changed_values(tables: Tables, run: str, before: _Last, figure: str) -> Iterator[_Change]:
    """Yield other values than `figure` that shifted: columns of table `steps`, and values by name."""
    yield from _changes(tables.rows_of("steps", run), "memory_bytes", before, "memory", "B", _shift)
    rows = tables.rows_of("values", run)
    for key, key_rows in rows.by("key").items():
        if key.rpartition(".")[2] in {*_FOLLOWS, figure} or "loss" in key or "per_s" in key:
            continue
        unit = next((unit for unit in key_rows["unit"].tolist() if unit), "")
        yield from _changes(key_rows, "value", before, key, unit, _shift)


def _changes(rows: Rows, column: str, before: _Last, name: str, unit: str, shift: _Shift) -> Iterator[_Change]:
    """Yield the largest shift of a column on a rank or in a process, with its name if only one of them shifted."""
    rows = rows.where(rows.known(column))
    if not len(rows):
        return
    members = row_groups(rows, "rank", "source")
    moved = [(shift(rows.where(places), column, before), places[0]) for places in members.rows]
    clear = [(ends, place) for ends, place in moved if ends is not None]
    if not clear:
        return
    old, new = max((ends for ends, _ in clear), key=lambda ends: abs(ends[1] - ends[0]))
    alike = [place for ends, place in clear if _moved_alike(ends, (old, new))]
    whose = _names_of(rows, alike, [place for _, place in moved if place not in alike])
    seconds = abs(new - old) if unit == "s" else 0.0
    yield _Change(-len(alike) / len(moved), seconds, f"{name}{whose} {show(old, unit)} -> {show(new, unit)}")


def _moved_alike(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether two shifts have one direction, and the first at least half of the size of the second."""
    return (one[1] - one[0]) / (other[1] - other[0]) >= _ALIKE


def _names_of(rows: Rows, places: Sequence[int], others: Sequence[int]) -> str:
    """Return the ranks or the sources of some rows: ` of ranks 4 to 7`; "" without others, or if one is not known."""
    if not others:
        return ""
    ranks = sorted(int(rows["rank"][place]) for place in places)
    if len(ranks) > len(others) == 1 and NULL not in (ranks[0], rest := int(rows["rank"][others[0]])):
        return f" of all ranks but {rest}"
    if ranks[0] == NULL:
        sources = list(dict.fromkeys(rows["source"][place] for place in places))
        return f" of {first_few(sources, _NAMED)}" if all(sources) else ""
    return f" of {numbered('rank', ranks, _NAMED)}"


_Shift = Callable[[Rows, str, _Last], tuple[float, float] | None]
"""Returns the medians of a column before and after a step, if they clearly differ."""


def _halves(rows: Rows, column: str, before: _Last) -> tuple[float, float] | None:
    """Return the medians of a column up to a step and after it, if they differ."""
    is_before = before.is_before(rows)
    old, new = rows[column][is_before], rows[column][~is_before]
    if min(len(old), len(new)) < _FEWEST:
        return None
    low, high = median(old), median(new)
    return (low, high) if abs(high - low) > _LEAST * abs(low) else None


def _shift(rows: Rows, column: str, before: _Last) -> tuple[float, float] | None:
    """Return the medians of a column before and after a step, if they clearly differ; else None."""
    rows = rows.where(rows.known(column))
    is_before = before.is_before(rows)
    old: Floats = rows[column][is_before][-_NEAR:]
    new: Floats = rows[column][~is_before][:_NEAR]
    if min(len(old), len(new)) < _FEWEST:
        return None
    low, high = median(old), median(new)
    if not np.isfinite([low, high]).all():
        return None
    scatter = max(mad(old), mad(new))
    if abs(high - low) <= max(_CLEAR * scatter, _LEAST * abs(low)):
        return None
    half = len(old) // 2  # what grew already before did not change here
    if abs(median(old[half:]) - median(old[:half])) > 0.5 * abs(high - low):
        return None
    return low, high
