"""Readings of hardware counters, summed up: of each device over the trace, and of each kernel over its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Floats, Ints
from perflog.metrics.compared import ComparedColumn
from perflog.metrics.jobs.stuck_ranks import CALL_COUNTS
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import DEVICE_COLUMNS
from perflog.metrics.traces.over_time.device_memory import ALLOCATOR_TOTALS
from perflog.statistics.groups import groups_of
from perflog.tables.columns import RowColumns, Rows
from perflog.units import UNITS

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ("run", "rank", "device", "device_name", "subject", "name")

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("counter", meaning="name of the counter"),
    MetricColumn("mean", meaning="mean of the readings, weighted by calls where a reading is of several"),
    MetricColumn("min", meaning="smallest reading"),
    MetricColumn("max", meaning="largest reading"),
    MetricColumn(
        "unit", meaning="unit of mean, min and max: the base unit where the printed one is known", type="object"
    ),
    MetricColumn("readings", meaning="number of readings; of calls where the log sums them up", type="Int64"),
    MetricColumn(
        "subject", meaning="what was counted, such as a kernel or a network port; null: the whole device", type="object"
    ),
    MetricColumn("first_line", meaning="line of the first reading", brief=False, type="Int64"),
)


def _device_readings(rows: pd.DataFrame) -> pd.DataFrame:
    """Readings of whole devices, without the totals of allocators, which metric `memory_peak` has."""
    return rows[rows["subject"].isna() & ~rows["counter"].isin(ALLOCATOR_TOTALS)]


@metric(
    title="hardware counters",
    needs=("counters",),
    columns=_COLUMNS,
    main="mean",
    formula="mean = sum(reading * calls) / sum(calls), over all readings of a counter of one device and subject",
    source="readings as printed: nsys GPU and network metrics, rocprof counters, nvprof --metrics and --events",
    compares=(
        ComparedColumn(
            "counter",
            "{counter}",
            "mean",
            "{unit}",
            ("counter", "unit"),
            None,
            weight="readings",
            rows=_device_readings,
        ),
    ),
)
def counters(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Mean, smallest and largest reading of each counter, by device and by what was counted."""
    rows = tables.rows("counters")
    found = readings(rows.where(~rows.one_of("name", CALL_COUNTS)))  # these are of no hardware: see `stuck_ranks`
    groups = groups_of(*(found.rows.keys(name) for name in _KEYS), found.unit)
    weights = groups.sums(found.weight)
    figures = {
        "mean": groups.sums(found.value * found.weight) / weights, "min": groups.order_statistics(found.least)[0],
        "max": groups.order_statistics(found.most)[2], "readings": weights,
    }  # fmt: skip
    first = list(found.rows.where(groups.first).dicts(*_KEYS, "name", "line"))
    who = [{key: row[key] for key in _KEYS if key != "name"} for row in first]
    return [
        {**who[group], "counter": first[group]["name"],
         "first_line": first[group]["line"], "unit": found.units[found.unit[groups.first[group]]],
         **{name: float(values[group]) for name, values in figures.items()}}
        for group in groups.in_order.tolist()
    ]  # fmt: skip


class Readings(RowColumns, frozen=True):
    """Readings of counters that have a value, in base units where their unit is known.

    `unit`: index of the unit of each in `units`. `weight`: number of calls of a reading, 1 if it is not printed.
    """

    rows: Rows
    units: Sequence[str | None]
    unit: Ints
    value: Floats
    least: Floats
    most: Floats
    weight: Floats


def readings(rows: Rows) -> Readings:
    """Return the readings of rows of table `counters`."""
    rows = rows.where(rows.known("value"))
    codes, words = rows.codes("unit")
    known = [UNITS.get(word) for word in words]
    bases = [*(unit.base if unit else word for word, unit in zip(words, known, strict=True)), None]
    units = list(dict.fromkeys(bases))
    factor = np.array([*(unit.factor if unit else 1.0 for unit in known), 1.0])[codes]
    value, least, most = (rows[name] * factor for name in ("value", "min", "max"))
    calls = rows.floats("calls")
    return Readings(
        rows, units, np.array([units.index(base) for base in bases], np.int64)[codes], value,
        np.where(np.isnan(least), value, least), np.where(np.isnan(most), value, most),
        np.where(np.isnan(calls), 1.0, calls),
    )  # fmt: skip
