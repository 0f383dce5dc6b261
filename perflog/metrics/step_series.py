"""Series of one value per step of a run, for metrics, comparison and linter: selection of rows, and the warm-up."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.attempts import attempts
from perflog.metrics.hasty_steps import hasty_steps
from perflog.metrics.possible import RATES, impossible
from perflog.metrics.run_tables import Tables, cached, tables_of
from perflog.metrics.settings_by_run import repeats
from perflog.metrics.step_orders import step_order
from perflog.metrics.traces.traced_steps import step_times
from perflog.metrics.unlabelled_ranks import printings
from perflog.statistics.effects import rounding
from perflog.statistics.samples import mad, median
from perflog.statistics.warmup import Warmup, warm_up
from perflog.tables.columns import NULL, RowColumns
from perflog.units import count

if TYPE_CHECKING:
    import pandas as pd

_CLOCK = "step_time_s"
_SCATTER, _DIGIT = 10.0, 1.5  # times the MAD of means over several steps, and the unit of their last digit
_PAUSES, _RARE = 2.0, 0.25  # times the median; share of the steady steps
_MEASURED = (_CLOCK, "forward_s", "backward_s", *RATES)


class StepSeries(Struct, frozen=True):
    """One column of `steps` in one run: `values[i]` is the value of step `steps[i]`, printed on line `lines[i]`.

    `order`: the number of the step in the order of the run. It is the step itself, unless the steps start again in each
    epoch. `left_out`: printed steps that are not in the series, with the reason. `averaged`: number of steps that each
    value averages, 0 if it is unknown. If several ranks print a step, labelled or not, the slowest counts: the largest
    value, of a rate the smallest.
    """

    run: str
    label: str | None
    column: str
    steps: Ints
    order: Ints
    values: Floats
    lines: Ints
    averaged: int
    left_out: tuple[tuple[int, str], ...]
    warmup: Warmup

    @property
    def steady(self) -> Floats:
        """The values after the warm-up."""
        return self.values[self.warmup.cut :]

    def until(self, last: int | None) -> StepSeries:
        """Return the series up to a step; None: the whole."""
        if last is None or not len(self.steps) or self.steps[-1] <= last:
            return self
        end = int(np.searchsorted(self.steps, last, "right"))
        return replace(
            self, steps=self.steps[:end], order=self.order[:end], values=self.values[:end], lines=self.lines[:end]
        )

    @property
    def pause_limit(self) -> float:
        """The value from which on a steady value holds a pause: twice the median; NaN without steady values.

        Of means over several steps, what they are if one of the steps takes twice the median, and beyond their scatter
        and the last digit that is printed.
        """
        if not len(self.steady):
            return math.nan
        centre = median(self.steady)
        if self.averaged < 2:
            return _PAUSES * centre
        chance = max(_SCATTER * mad(self.steady), _DIGIT * rounding(self.steady))
        return centre + max((_PAUSES - 1) / self.averaged * centre, chance)

    @property
    def pauses(self) -> Mask:
        """Flag the steady values that hold a pause, such as an evaluation: beyond `pause_limit`, and rare."""
        steady = self.steady
        flags: Mask = steady > self.pause_limit
        return flags if flags.sum() <= _RARE * len(flags) else np.zeros(len(flags), np.bool_)

    @property
    def window(self) -> tuple[int, int] | None:
        """First and last steady step; None if there is none."""
        steps = self.steps[self.warmup.cut :]
        return (int(steps[0]), int(steps[-1])) if len(steps) else None


def step_series(
    tables: Mapping[str, pd.DataFrame], column: str = "step_time_s", warmup: int | None = None
) -> list[StepSeries]:
    """Return the series of each run that prints the column, in the order of the runs.

    Left out are repeats of a step (`copy` > 1), lines that cover another number of steps than most lines do, values
    that are `impossible`, and times and rates of `hasty_steps`. The warm-up is detected in `step_time_s` if the run
    prints it, and the same steps are cut from all columns. Repeats have one warm-up (`cut_alike`).
    """
    known = tables_of(tables)
    return cached(known, ("step series", column, warmup), lambda: list(_some_series(known, column, warmup)))


def means_over_ranks(tables: Tables, column: str) -> Iterator[StepSeries]:
    """Yield the series of each run that prints the column, of the mean over the ranks that print a step; no warm-up.

    The times of phases are means over ranks, too: these add up with them to the time of a step.
    """
    printed = _printed(tables, column)
    for run, label in tables.labels().items():
        if run in printed and len((series := _series(run, label, column, printed[run], 0, False, mean=True)).values):
            yield series


def _some_series(tables: Tables, column: str, warmup: int | None) -> Iterable[StepSeries]:
    """The series of these runs. Repeats of theirs in the same log count for their warm-up."""
    if tables.whole is not tables:
        runs = set(tables.rows("runs")["run"].tolist())
        return [each for each in step_series(tables.whole, column, warmup) if each.run in runs]
    series = _all_series(tables, column, warmup)
    return _with_repeats(list(series), tables) if warmup is None and column == _CLOCK else series


def _with_repeats(series: list[StepSeries], tables: Tables) -> list[StepSeries]:
    """The series with one warm-up for the repeats of each configuration. Attempts of a job are no repeats."""
    if len({each.warmup.cut for each in series}) < 2:
        return series
    in_jobs = attempts(tables)
    series_by_run = {each.run: each for each in series if each.run not in in_jobs}
    for runs in repeats(tables):
        series_by_run |= {
            each.run: each for each in cut_alike([series_by_run[run] for run in runs if run in series_by_run])
        }
    return [series_by_run.get(each.run, each) for each in series]


def _all_series(tables: Tables, column: str, warmup: int | None) -> Iterator[StepSeries]:
    printed = _printed(tables, column)
    other = warmup is None and column != _CLOCK
    clocks = {series.run: series for series in step_series(tables, _CLOCK)} if printed and other else {}
    for series in _in_order(tables, column, printed, warmup, clocks):
        clock = clocks.get(series.run)
        if clock is not None:
            cut = clock.warmup.cut
            if cut:
                cut = int(np.searchsorted(series.order, clock.order[cut - 1], "right"))
            series = replace(series, warmup=Warmup(cut, clock.warmup.reason))
        yield series


def series_of_values(tables: Tables, name: str, values: Floats, warmup: int | None) -> Iterator[StepSeries]:
    """Yield the series of values that are computed for each row of table `steps`; NaN: none.

    Each run has a warm-up of its own.
    """
    yield from _in_order(tables, name, _printed(tables, name, values), warmup)


def _in_order(
    tables: Tables, column: str, printed: Mapping[str, _Printed], warmup: int | None, timed: Collection[str] = ()
) -> Iterator[StepSeries]:
    """Yield the series of the runs that have values, in the order of the runs; without the warm-up of those `timed`."""
    for run, label in tables.labels().items() if printed else ():
        if run in printed:
            series = _series(run, label, column, printed[run], warmup, run not in timed)
            if len(series.values):
                yield series


class _Printed(RowColumns, frozen=True):
    """The rows of a run with a step and a value. `covers`: number of steps of a line, 0 if unknown."""

    steps: Ints
    order: Ints
    lines: Ints
    covers: Ints
    copies: Ints
    values: Floats
    hasty: Mask


def _printed(tables: Tables, column: str, values: Floats | None = None) -> dict[str, _Printed]:
    """Rows with a step and a value in the column, by run. `values`: the column, if table `steps` does not have it."""
    steps = tables.rows("steps")
    if values is None and column == _CLOCK:
        values = step_times(tables)
    known = steps.known("step", column) if values is None else steps.known("step") & ~np.isnan(values)
    rows = steps.where(known)
    covers = rows["steps_averaged"]
    hasty = hasty_steps(tables)[known] if column in _MEASURED else np.zeros(len(rows), np.bool_)
    whole = _Printed(
        rows["step"], step_order(tables, rows), rows["line"], np.where(covers == NULL, 0, covers),
        printings(tables)[known], rows[column] if values is None else values if known.all() else values[known], hasty,
    )  # fmt: skip
    return {run: whole.where(index) for run, index in rows.stretches("run").items()}


def _slowness(column: str, values: Floats) -> Floats:
    """Return times, or of a rate its reciprocal: a warm-up is slow."""
    if column not in RATES:
        return values
    with np.errstate(divide="ignore"):
        return np.asarray(1 / values)


def _series(
    run: str,
    label: str | None,
    column: str,
    rows: _Printed,
    warmup: int | None,
    detect: bool,
    mean: bool = False,
) -> StepSeries:
    """Return the series of the rows of one run; the warm-up is empty unless it is given or `detect` is set.

    `mean`: of the ranks that print a step, instead of the slowest.
    """
    steps, places, lines, covers, values = rows.steps, rows.order, rows.lines, rows.covers, rows.values
    averaged = usual_cover(covers)
    unusual, repeated = covers != averaged, rows.copies > 1
    wrong = (impossible(column, values) | rows.hasty) & ~(unusual | repeated)
    left_out: list[tuple[int, str]] = []
    chosen = ~(unusual | repeated | wrong)
    if not chosen.all():
        printed = zip(steps[unusual].tolist(), covers[unusual].tolist(), strict=True)
        left_out = [
            (step, f"covers {count(n, 'step')}" if n else "covers an unknown number of steps") for step, n in printed
        ]
        left_out += [(int(s), "printed again") for s in steps[repeated & ~unusual]]
        left_out += [(int(s), f"{column} cannot be {x:g}") for s, x in zip(steps[wrong], values[wrong], strict=True)]
    order: slice | Ints = slice(None)  # without copies of the columns, which all series of a run share
    own = values
    if left_out or not (np.diff(places) > 0).all():
        by_place = np.lexsort((lines, -values if column in RATES else values, places))
        by_place = by_place[chosen[by_place]]
        last = np.append(np.diff(places[by_place]) != 0, True)[: len(by_place)]
        order = by_place[last]  # the slowest of each step
        own = values[order]
        if mean and len(own):
            ends = np.flatnonzero(last) + 1
            own = np.add.reduceat(values[by_place], np.append(0, ends[:-1])) / np.diff(ends, prepend=0)
    return StepSeries(
        run=run,
        label=label,
        column=column,
        steps=steps[order],
        order=places[order],
        values=own,
        lines=lines[order],
        averaged=averaged,
        left_out=tuple(left_out),
        warmup=warm_up(_slowness(column, own), warmup) if detect or warmup is not None else Warmup(0, ""),
    )


def usual_cover(covers: Ints) -> int:
    """Return how many steps most rows cover, the most of several: rows of steps 1, 2-10 and 11-20 are of 10 steps."""
    return -most_frequent(-covers)


def most_frequent(numbers: Ints) -> int:
    """Return the most frequent number, the smallest of several."""
    if (numbers == numbers[0]).all():
        return int(numbers[0])
    distinct, counts = np.unique(numbers, return_counts=True)
    return int(distinct[counts.argmax()])


def means_without_pauses(tables: Tables, warmup: int | None = None) -> dict[str, float]:
    """Return the mean time of the steady steps of each run, without steps with a pause, by run id."""
    return {s.run: float(s.steady[~s.pauses].mean()) for s in step_series(tables, warmup=warmup) if len(s.steady)}


def common_cut(warmups: Iterable[tuple[int, int]]) -> int:
    """Return the common warm-up of repeats from (warm-up, steps) of each: the largest, at most half of any run."""
    known = list(warmups)
    return min(max(cut for cut, _ in known), min(steps for _, steps in known) // 2) if known else 0


def cut_alike(group: Sequence[StepSeries]) -> list[StepSeries]:
    """Return the series of repeats with one warm-up for all that have at least half of the usual number of steps.

    Each run by itself finds a warm-up that depends on its scatter. Where the speed changes during a run, repeats that
    are cut at other steps differ by more than they do.
    """
    if len({each.warmup.cut for each in group}) < 2:
        return list(group)
    usual = np.median([len(each.values) for each in group])
    whole = [each for each in group if 2 * len(each.values) >= usual]
    cut = common_cut((each.warmup.cut, len(each.values)) for each in whole)
    reason = max(whole, key=lambda each: each.warmup.cut).warmup.reason
    same = {each.run: replace(each, warmup=Warmup(cut, reason)) for each in whole if each.warmup.cut != cut}
    return [same.get(each.run, each) for each in group]


def steady_medians(
    tables: Tables, column: str, warmup: int | None = None, together: Sequence[str] = ()
) -> dict[str, float]:
    """Return the median over the steady steps of each run that prints the column, by run id.

    One warm-up is cut from all runs that are `together`.
    """
    series = {each.run: each for each in step_series(tables, column, warmup)}
    series |= {each.run: each for each in cut_alike([series[run] for run in together if run in series])}
    return {run: float(np.median(each.steady)) for run, each in series.items() if len(each.steady)}
