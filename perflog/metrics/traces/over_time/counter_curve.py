"""Readings of hardware counters over time, for each device, without readings of single kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Ints
from perflog.metrics.jobs.stuck_ranks import CALL_COUNTS
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import DEVICE_COLUMNS, seconds
from perflog.statistics.groups import groups_of
from perflog.tables.arrow import Where
from perflog.tables.columns import Rows, rows_from_arrow
from perflog.units import UNITS

if TYPE_CHECKING:
    import pandas as pd

_BINS = 200
"""Periods of the curve."""

_FEWEST = 3  # readings of a curve
_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("counter", meaning="name of the counter"),
    MetricColumn("subject", meaning="what was counted, such as a network port; null: the whole device", type="object"),
    MetricColumn("at_s", "s", None, "begin of the period since the first reading in the file"),
    MetricColumn("mean", meaning="mean of the readings in the period"),
    MetricColumn("min", meaning="smallest reading"),
    MetricColumn("max", meaning="largest reading"),
    MetricColumn(
        "unit", meaning="unit of mean, min and max: the base unit where the printed one is known", type="object"
    ),
    MetricColumn("readings", meaning="number of readings", brief=False, type="Int64"),
    MetricColumn("first_line", meaning="line of the first reading of the period", brief=False, type="Int64"),
)


@metric(
    title="hardware counters over time",
    needs=("counters",),
    columns=_COLUMNS,
    main="mean",
    formula=f"mean over the readings in each of {_BINS} periods between the first and the last reading of the file",
    source="counter events of Chrome traces; GPU and network metrics of nsys; telemetry of GPUs",
)
def counter_curve(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """The curve of each counter that was read at least three times at points in time; periods without one have no row.

    Counters of single kernels and of calls have no curve.
    """
    frames = []
    columns = ("rank", "name", "subject", "device", "device_name", "start_ns", "correlation", "calls", "value", "unit")
    is_counter: Where = {"name": lambda name: name is not None and name not in CALL_COUNTS}
    for (run, _), readings in tables.arrow_by_file("counters", is_counter, *columns):
        rows = rows_from_arrow(readings)
        rows = rows.where(rows.known("start_ns", "value") & ~rows.known("correlation") & ~rows.known("calls"))
        frames += [frame.assign(run=run) for frame in _curves(rows)]
    return frames


def _curves(rows: Rows) -> Iterator[pd.DataFrame]:
    """The curve of each counter of each device in a file, in the order of their first readings."""
    if not len(rows):
        return
    words = [rows.codes(name) for name in ("name", "subject", "device_name", "unit")]
    counters = groups_of(rows["rank"], rows["device"], *(codes for codes, _ in words))
    begin = int(rows["start_ns"].min())
    length = max(int(rows["start_ns"].max()) - begin, 1)
    period = (rows["start_ns"] - begin) * _BINS // (length + 1)
    parts = np.split(np.argsort(counters.inverse, kind="stable"), np.cumsum(counters.sizes)[:-1])
    for code in np.argsort(counters.first, kind="stable").tolist():
        index = parts[code]
        if len(index) >= _FEWEST:
            yield _curve(rows.where(index), period[index], length)


def _curve(rows: Rows, period: Ints, length: int) -> pd.DataFrame:
    import pandas as pd

    known: dict[str, Any] = {name: rows.first_word(name) for name in ("name", "subject", "device_name", "unit")}
    unit = UNITS.get(known["unit"] or "")
    values = rows["value"] * (unit.factor if unit else 1.0)
    distinct, first, inverse = np.unique(period, return_index=True, return_inverse=True)
    count = np.bincount(inverse)
    least, most = np.full(len(distinct), np.inf), np.full(len(distinct), -np.inf)
    np.minimum.at(least, inverse, values)
    np.maximum.at(most, inverse, values)
    who = {name: int(rows[name][0]) if rows.known(name)[0] else None for name in ("rank", "device")}
    return pd.DataFrame({
        **who, "device_name": known["device_name"], "counter": known["name"], "subject": known["subject"],
        "at_s": seconds(distinct * (length + 1) // _BINS), "mean": np.bincount(inverse, values) / count,
        "min": least, "max": most, "unit": unit.base if unit else known["unit"], "readings": count,
        "first_line": rows["line"][first],
    })  # fmt: skip
