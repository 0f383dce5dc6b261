"""Curves: the series of numbers that runs print by name, such as losses, accuracies and evaluation results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.benchmarks.case_tables import case_tables
from perflog.metrics.options import Options
from perflog.metrics.possible import are_moments
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_rows import codes_in, lines_of_runs, run_numbers
from perflog.metrics.run_tables import Tables
from perflog.metrics.series.series_ends import summary_samples, value_samples
from perflog.statistics.groups import Groups, groups_of
from perflog.tables.columns import NULL, Array, RowColumns, Rows

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("key", meaning="name of the series; `loss` without a name: the loss of the step lines", type="object"),
    MetricColumn("of", meaning="curve; counter: whole numbers without a unit that rise, fall only to the smallest, and "
                 "are not all powers of two; constant: printed several times, always the same; single: printed once; "
                 "case: of no step, in a table of cases"),
    MetricColumn(
        "place", meaning="rank, stage or data-parallel rank that the values belong to; null: the run", type="object"
    ),
    MetricColumn("unit", meaning="unit of its values; null: a plain number", type="object"),
    MetricColumn("n", meaning="number of printed values; NaN and infinity count nowhere"),
    MetricColumn("first", meaning="first value"),
    MetricColumn("last", meaning="last finite value"),
    MetricColumn("last_step", meaning="its step; null if the line prints none"),
    MetricColumn("min", meaning="smallest value"),
    MetricColumn("min_step", meaning="its step, the first of several"),
    MetricColumn("max", meaning="largest value"),
    MetricColumn("max_step", meaning="its step, the first of several"),
    MetricColumn("equal_step", meaning="last step at which each run with this series prints a value; null for one run"),
    MetricColumn("at_equal_step", meaning="value at this step"),
    MetricColumn("first_line", meaning="line of the first value", brief=False),
    MetricColumn("last_line", meaning="line of the last value", brief=False),
)  # fmt: skip

_PLACES = ("rank", "stage", "dp_rank")
_TOGETHER = 1 << 19  # values: of a log of millions of steps, all series at once take more memory than all else


@metric(
    title="curves",
    needs=("runs",),
    columns=_COLUMNS,
    main="last",
    formula="first, last, smallest and largest value of a series, and its value at the last step that all runs print",
    source="values as printed; runs of different length are compared at an equal step",
    compares=(value_samples, summary_samples),
)
def curves(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """First, last, smallest and largest value of each series that a run prints by name, and of the loss of its steps.

    Curves come first, then counters and what never changes. Moments since 1970 are no series. Which way is better is
    not guessed: for some benchmarks an `accuracy` is a loss.

    Example:
        >>> table = perflog.metrics.curves(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> table.loc[table["key"] == "loss", ["n", "first", "last", "last_step"]]
            n  first  last  last_step
        ...
    """
    import pandas as pd

    batches = (printed_values(tables, keys) for keys in _key_batches(tables))
    if not (parts := [_curves(values) for values in batches if len(values.line)]):
        return []
    columns: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    numbers, runs = columns["run"], tables.rows("runs")
    columns |= {name: runs[name][numbers] for name in ("run", "label")}
    case_names = {(run, name) for run, found in case_tables(tables).items() for each in found for name in each.names}
    is_case = [pair in case_names for pair in zip(columns["run"], columns["key"], strict=True)]
    columns["of"] = np.where(np.array(is_case) & (columns["last_step"] == NULL), "case", columns["of"])
    order = np.lexsort((columns["first_line"], columns["of"] != "curve", numbers))
    for name in ("last_step", "min_step", "max_step", "equal_step"):
        columns[name] = pd.arrays.IntegerArray(columns[name], columns[name] == NULL)
    return [pd.DataFrame({c.name: pd.Series(columns[c.name][order], dtype=c.type or None) for c in _COLUMNS})]


def _curves(values: PrintedValues) -> dict[str, npt.NDArray[Any]]:
    """The columns of the metric for some series; a null step is NULL."""
    series = groups_of(values.run, values.key, values.place, values.unit)
    (least, starts), (most, _) = (series.sorted_rows(by) for by in (values.value, -values.value))
    rows = {
        "first": series.first, "last": series.last, "min": least[starts], "max": most[starts],
    }  # fmt: skip
    columns = {name: values.value[index] for name, index in rows.items()}
    columns |= {f"{name}_step": values.step[rows[name]] for name in ("last", "min", "max")}
    columns |= {f"{name}_line": values.line[rows[name]] for name in ("first", "last")}
    columns |= {"n": series.sizes, "run": values.run[series.first]}
    words = np.array(values.words, object)
    columns |= {name: words[getattr(values, name)[series.first]] for name in ("key", "place", "unit")}
    columns |= {name: np.where(columns[name] == "", None, columns[name]) for name in ("place", "unit")}
    columns |= dict(zip(("equal_step", "at_equal_step"), _at_equal_step(values, series), strict=True))
    kinds = {
        "single": columns["n"] == 1, "constant": columns["min"] == columns["max"],
        "counter": _count_up(values, series, columns["min"]),
    }  # fmt: skip
    columns["of"] = np.select(list(kinds.values()), list(kinds), "curve")
    return {name: of[series.in_order] for name, of in columns.items()}


def _key_batches(tables: Tables) -> Iterator[list[str]]:
    """Yield the names of all series, as many at a time as have few enough values to be held together."""
    batch: list[str] = []
    values = 0
    for key, count in printed_counts(tables).items():
        if batch and values + count > _TOGETHER:
            yield batch
            batch, values = [], 0
        batch.append(key)
        values += count
    if batch:
        yield batch


def printed_counts(tables: Tables) -> dict[str, int]:
    """Return the name of each series, and how many rows have it: a few of them may hold no value."""
    counts = tables.rows("values").counts("key")
    losses = int(tables.rows("steps").known("loss").sum())
    return {**counts, "loss": counts.get("loss", 0) + losses} if losses else counts


class PrintedValues(RowColumns, frozen=True):
    """Values of series in the order of lines.

    `run`: index of the run in table `runs`. `key`, `place`, `unit`: index in `words`; an empty place is the run itself,
    an empty unit a plain number. `step`: NULL if the line prints none.
    """

    words: Sequence[str]
    run: Ints
    key: Ints
    place: Ints
    unit: Ints
    step: Ints
    line: Ints
    value: Floats


def printed_values(tables: Tables, keys: Collection[str]) -> PrintedValues:
    """Return the finite values of these series that are no moments.

    Values on the line of a measured collective describe its message: they are no series.
    """
    found = (table for listed in case_tables(tables).values() for table in listed)
    excluded = {name for table in found if table.is_by_column for name in table.names}  # quantities, on no one axis
    rows, steps, messages = (tables.rows(name) for name in ("values", "steps", "collectives"))
    rows = rows.where(rows.one_of("key", {*keys} - excluded))
    rows = rows.where(np.isfinite(rows["value"]) & ~are_moments(rows["value"]))
    losses = steps.where(np.isfinite(steps["loss"]) if "loss" in keys else np.zeros(0, np.int64))
    if len(messages):
        message_lines = lines_of_runs(tables, messages)
        rows, losses = (some.where(~np.isin(lines_of_runs(tables, some), message_lines)) for some in (rows, losses))
    words = {"": 0}
    (key_codes, names), (unit_codes, units) = rows.codes("key"), rows.codes("unit")
    loss = codes_in(words, ["loss"])
    columns = (
        _joined(run_numbers(tables, rows), run_numbers(tables, losses)),
        _joined(codes_in(words, names)[key_codes], np.repeat(loss, len(losses))),
        _joined(_places(rows, _PLACES, words), _places(losses, ("rank",), words)),
        _joined(np.append(codes_in(words, units), 0)[unit_codes], np.zeros(len(losses), np.int64)),
        _joined(rows["step"], losses["step"]),
        _joined(rows["line"], losses["line"]),
        _joined(rows["value"], losses["loss"]),
    )
    values = PrintedValues(list(words), *columns)
    lines = values.line
    return values if (lines[1:] >= lines[:-1]).all() else values.where(np.argsort(lines, kind="stable"))


def _joined(values: Array, losses: Array) -> Array:
    """Return both columns as one; without a copy if one is empty, as it is for most series."""
    if len(values) and len(losses):
        return np.concatenate((values, losses))
    return values if len(values) else losses


def _places(rows: Rows, names: Sequence[str], words: dict[str, int]) -> Ints:
    """Return what the values belong to, as index in `words`; 0, the empty string, for the run."""
    codes, places = np.zeros(len(rows), np.int64), [""]
    for name in names:
        known = rows.known(name)
        if not known.any():
            continue
        numbers, inverse = np.unique(rows[name][known], return_inverse=True)
        parts = ["", *(f"{name} {number}" for number in numbers.tolist())]
        codes *= len(parts)
        codes[known] += inverse + 1
        used, codes = np.unique(codes, return_inverse=True)
        both = ((places[code // len(parts)], parts[code % len(parts)]) for code in used.tolist())
        places = [", ".join(filter(None, texts)) for texts in both]
    return codes_in(words, places)[codes]


def _count_up(values: PrintedValues, series: Groups, least: Floats) -> Mask:
    """Flag the series that count: a loss scale, a power of two, does not."""
    order, starts = series.sorted_rows()
    value = values.value[order]
    change = np.diff(value, prepend=np.nan)
    change[starts] = np.nan
    falls = (change < 0) & (value > np.repeat(least, series.sizes))
    measured = falls | (value % 1 != 0) | (values.unit[order] != 0)
    any_of, all_of = np.logical_or.reduceat, np.logical_and.reduceat
    powers_of_two = all_of(np.frexp(value)[0] == 0.5, starts)
    flags: Mask = any_of(change > 0, starts) & ~(any_of(measured, starts) | powers_of_two)
    return flags


def _at_equal_step(values: PrintedValues, series: Groups) -> tuple[Ints, Floats]:
    """Return the last step at which all runs with a series print a value, and the value at it, of each run and series.

    NULL and NaN of a series that one run prints. A step that is printed again counts as the last time.
    """
    equal, at_equal = np.full(len(series.sizes), NULL), np.full(len(series.sizes), np.nan)
    over_runs = groups_of(values.key, values.place, values.unit)
    runs = over_runs.numbers_of(values.run, np.ones(len(values.run), np.bool_))
    rows = np.flatnonzero((values.step != NULL) & (runs > 1)[over_runs.inverse])
    if not len(rows):
        return equal, at_equal
    rows = rows[groups_of(series.inverse[rows], values.step[rows]).last]
    names, steps = over_runs.inverse[rows], values.step[rows]
    at_step = groups_of(names, steps)
    shared = (at_step.sizes == runs[names[at_step.first]])[at_step.inverse]
    last = np.full(len(runs), NULL)
    np.maximum.at(last, names[shared], steps[shared])
    chosen = rows[shared & (steps == last[names])]
    equal[series.inverse[chosen]], at_equal[series.inverse[chosen]] = values.step[chosen], values.value[chosen]
    return equal, at_equal
