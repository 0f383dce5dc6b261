"""The ends of series: last values, which way they are better, and the step at which runs of other length compare.

The last loss of 2,000 steps and the last loss of 1,000 steps do not show which run learns faster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from statistics import median_high

import numpy as np

from perflog.arrays import Floats, Ints, Keys, Mask
from perflog.metrics.benchmarks.case_tables import case_tables
from perflog.metrics.benchmarks.serving import served
from perflog.metrics.compared import STEP_MEASURES, Measure, Sample, Steady
from perflog.metrics.directions import BETTER, Better, words_of
from perflog.metrics.directions import better as better_way
from perflog.metrics.possible import are_moments
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import semantics_by_run
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL, Rows
from perflog.units import STEP_NAMES

Figure = tuple[str, str, Better | None, Floats]
"""Name, base unit, which way is better, values."""

LOSS = "loss"
"""The series of the losses of a run's steps."""

EqualSteps = Mapping[str, int]
"""Step by name of the series."""

_BLOCK = 1 << 18  # rows that are numbered together
_SAMPLED = ("1/s", "s")
_TIMES = 3  # so many, one of them smaller than the one before, are no clock
_REACHED = 0.5  # of its side's usual last step: a run that stopped before shortens no other run


AT_STEP = " at step "
"""In the name of a series that is compared by its values at one step, not by the last ones."""


def summary_figures(rows: Rows) -> Iterator[Figure]:
    """Yield the printed values that have a unit with a better direction, rates first."""
    if not len(rows):
        return
    for unit, better in BETTER.items():
        for key, rows_of_key in rows.where(rows.one_of("unit", [unit])).by("key").items():
            yield key, unit, better, rows_of_key["value"]


def summary_losses(rows: Rows) -> Iterator[Figure]:
    """Yield the printed losses: they have no unit, and no program prints them for a speed."""
    for key, rows_of_key in rows.where(~rows.known("unit")).by("key").items():
        if "loss" in words_of(key) and better_way(key, "") == "lower":
            yield key, "", "lower", rows_of_key["value"]


def last_values(values: Rows, steps: Rows, either_way: Collection[str] = ()) -> Iterator[Figure]:
    """Yield the last value of each series that a run prints by name, and the last loss of its steps.

    If several ranks print a series, it is the median of their last values. A rate that is sampled without steps, as a
    server does, is the median of its samples above zero: its last sample belongs to an idle server. So is a time that
    is measured again and again, such as that of a step or an epoch, but not a clock, which never goes back. The step
    time comes first. Moments since 1970 are left out, and series with no better direction by name or unit.
    `either_way`: names of series that are kept without one. Printed NaN is a value.
    """
    losses = steps["loss"][_printed(steps, "loss")]
    if len(losses):
        yield LOSS, "", "lower", losses[-1:].copy()  # a view would hold them all
    numbers = values.where(_printed(values, "value"))
    if len(numbers):
        keys, ranks, by_line = numbers.codes("key")[0], numbers["rank"], _by_line(numbers)
        if by_line is None:
            last = _last_places(keys, ranks)  # of each rank, in the order of the lines
        else:
            last = by_line[_last_places(keys[by_line], ranks[by_line])]
        last_by_key: dict[str, list[tuple[str | None, float]]] = {}
        in_order = numbers if by_line is None else numbers.where(by_line)
        sampled = in_order.where(in_order.one_of("unit", _SAMPLED))  # mostly none: first by words, which are there
        is_sample = ~sampled.known("step") | sampled.one_of("unit", ["s"])
        samples = sampled.where(is_sample & (sampled["value"] > 0)).by("key")
        numbers = numbers.where(last)
        for key, unit, value in numbers.where(~are_moments(numbers["value"])).records("key", "unit", "value"):
            last_by_key.setdefault(key, []).append((unit, value))
        for key, printed in sorted(last_by_key.items(), key=lambda item: not names_step_time(item[0], item[1][-1][0])):
            unit = printed[-1][0]
            declared = key in either_way
            better = None if declared else better_way(key, unit or "")
            if declared or better is not None:
                last_of_ranks = [value for each, value in printed if each == unit]
                at_work = samples[key]["value"] if unit in _SAMPLED and key in samples else last_of_ranks
                is_clock = len(at_work) < _TIMES or len(printed) > 1 or bool((np.diff(at_work) >= 0).all())
                value = float(np.median(last_of_ranks if unit == "s" and is_clock else at_work))
                is_share = unit == "1" and "mfu" in words_of(key)  # a loss of 9.6 is no 960 %
                yield key, "" if unit == "1" and not is_share else unit or "", better, np.array([value])


def _printed(rows: Rows, column: str) -> Mask:
    return rows.known(column) | rows.nans(column)


def _by_line(rows: Rows) -> Ints | None:
    """Return the indices of rows in the order of their lines; None if they are in this order."""
    lines = rows["line"]
    return None if (lines[1:] >= lines[:-1]).all() else np.argsort(lines, kind="stable")


def _last_places(keys: Keys, ranks: Ints) -> Ints:
    """Return the last index of each key on each rank; with an unknown rank, only the last index of the key."""
    if (ranks == NULL).all():
        last = np.full(keys.max(initial=-1) + 2, -1)  # one more, for no key: -1
        for first in range(0, len(keys), _BLOCK):
            block = keys[first : first + _BLOCK]
            last[block] = np.arange(first, first + len(block))  # the last one of each counts
        return np.sort(last[last >= 0])
    unknown = np.unique(keys[ranks == NULL])
    ranks = np.where(np.isin(keys, unknown), NULL, ranks)
    groups = groups_of(keys[::-1], ranks[::-1])
    return np.sort(len(keys) - 1 - groups.first)


def names_step_time(key: str, unit: str | None) -> bool:
    """Return whether the name of a value is a step time, such as `avg_step_time`."""
    words = words_of(key)
    return unit == "s" and not set(STEP_NAMES.split("|")).isdisjoint(words)


def equal_steps(sides: Sequence[tuple[Tables, Sequence[str]]]) -> dict[str, int]:
    """Return the last step that all runs print, for each series that ends at different steps.

    Runs that stopped early are left out. Series without such a step are left out too.

    Args:
        sides: The tables and the compared runs of each side.
    """
    lasts = [{run: _last_steps(tables, run) for run in runs} for tables, runs in sides]
    steps = {}
    for series in dict.fromkeys(
        name for side_steps in lasts for run_steps in side_steps.values() for name in run_steps
    ):
        steps_by_side = [
            {run: run_steps[series] for run, run_steps in side_steps.items() if series in run_steps}
            for side_steps in lasts
        ]
        if len({step for side_steps in steps_by_side for step in side_steps.values()}) < 2 or not all(steps_by_side):
            continue
        printed = [
            _steps(tables, run, series)
            for (tables, _), side_steps in zip(sides, steps_by_side, strict=True)
            for run in _reaching(side_steps)
        ]
        if len(shared := reduce(np.intersect1d, printed)):
            steps[series] = int(shared[-1])
    return steps


def _series_values(values: Rows, steps: Rows, at: EqualSteps, either_way: Collection[str] = ()) -> Iterator[Figure]:
    """Yield the last value of each series; before it the value at its step in `at`, if the run prints one there.

    Only values without a unit, such as losses: a rate at one step is mostly noise. `either_way`: see `last_values`.
    """
    shared: dict[str, Figure] = {}
    for step in set(at.values()):
        at_step = values.where(values["step"] == step), steps.where(steps["step"] == step)
        for figure in last_values(*at_step, either_way):
            name, unit, *_ = figure
            if at.get(name) == step and not unit:
                shared[name] = figure
    for last in last_values(values, steps, either_way):
        if (series := last[0]) in shared:
            yield f"{series}{AT_STEP}{at[series]}", *shared[series][1:]
        yield last


def _reaching(last_steps: Mapping[str, int]) -> Iterable[str]:
    """The runs of a side that did not stop early."""
    usual = median_high(last_steps.values())
    return (run for run, step in last_steps.items() if step >= _REACHED * usual)


def _last_steps(tables: Tables, run: str) -> dict[str, int]:
    """The last step of each series of a run: of the loss in table `steps`, and of each key in table `values`."""
    values, steps = tables.rows_of("values", run), tables.rows_of("steps", run)
    lasts = {}
    losses = steps["step"][steps.known("step", "loss")]
    if len(losses):
        lasts[LOSS] = int(losses.max())
    if len(values):
        codes, keys = values.codes("key")
        last_by_code = np.full(
            len(keys) + 1, NULL
        )  # NULL is the least integer; the last entry takes rows without a key
        np.maximum.at(last_by_code, codes, values["step"])
        lasts |= {key: step for key, step in zip(keys, last_by_code[:-1].tolist(), strict=True) if step != NULL}
    return lasts


def _steps(tables: Tables, run: str, series: str) -> Ints:
    """The steps at which a run prints a series."""
    values, steps = tables.rows_of("values", run), tables.rows_of("steps", run)
    value_steps = values["step"][values.one_of("key", [series]) & values.known("step")]
    loss_steps = steps["step"][steps.known("step", "loss")] if series == LOSS else value_steps[:0]
    return np.unique(np.concatenate([value_steps, loss_steps]))


def value_samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Yield the last values of the series of each run, and the values at equal steps."""
    means = semantics_by_run(tables.rows("runs"))
    for run in (run for run in means if run in steady.cuts):
        values, steps = (steady.until_last(run, tables.rows_of(table, run)) for table in ("values", "steps"))
        elsewhere = [name for table in case_tables(tables).get(run, ()) for name in table.names]
        elsewhere += [of.key for of in served(tables).get(run, {}).values()]  # `cases`, `serving` compare them
        values = values.where(~values.one_of("key", elsewhere))
        at = {} if run in steady.last else steady.at.get(run, {})
        for name, unit, better, figures in _series_values(values, steps, at, means[run].either_way):
            yield Measure("value", name, unit, better), run, figures


def named_value_samples(tables: Tables, runs: Sequence[str]) -> Iterator[Sample]:
    """Yield the values of runs by name, even with no better direction: for runs that have nothing else.

    Of a name that a run prints several times without a step, as a table does, it is the median; else the last value.
    """
    for run in runs:
        rows = tables.rows_of("values", run)
        rows = rows.where(rows.known("value") & ~are_moments(rows["value"]))
        for name, name_rows in rows.by("key").items():
            unit = next((unit for (unit,) in name_rows.records("unit") if unit is not None), "")
            several = len(name_rows) > 1 and not name_rows.known("step").any()
            value = float(np.median(name_rows["value"])) if several else float(name_rows["value"][-1])
            yield (
                Measure("value", f"{name}, median" if several else name, unit, better_way(name, unit)),
                run,
                np.array([value]),
            )


def summary_samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Yield the printed values of each run that measures no collectives, without averages of printed steps."""
    for run, rows in tables.rows_by_run("summaries").items():
        if run not in steady.cuts or len(tables.rows_of("collectives", run)):
            continue
        if run in steady.first:
            rows = rows.where(~(rows.known("window_first") | rows.one_of("key", [m.name for m in STEP_MEASURES])))
        for name, unit, better, values in summary_figures(rows):
            yield Measure("summary", name, unit, better), run, values
