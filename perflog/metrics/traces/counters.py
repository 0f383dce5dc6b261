"""Readings of hardware counters, summed up: of each device over the trace, and of each kernel over its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perflog.metrics.compared import ComparedColumn
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.stuck_ranks import CALL_COUNTS
from perflog.metrics.traces.device_memory import ALLOCATOR_TOTALS
from perflog.metrics.traces.device_work import DEVICE_COLUMNS
from perflog.units import UNITS

if TYPE_CHECKING:
    import pandas as pd

_KEYS = ["run", "rank", "device", "device_name", "subject", "counter", "unit"]

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("counter", meaning="name of the counter"),
    MetricColumn("mean", meaning="mean of the readings, weighted by calls where a reading is of several"),
    MetricColumn("min", meaning="smallest reading"),
    MetricColumn("max", meaning="largest reading"),
    MetricColumn("unit", meaning="unit of mean, min and max: the base unit where the printed one is known"),
    MetricColumn("readings", meaning="number of readings; of calls where the log sums them up"),
    MetricColumn("subject", meaning="what was counted, such as a kernel or a network port; null: the whole device"),
    MetricColumn("first_line", meaning="line of the first reading", brief=False),
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
def counters(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """Mean, smallest and largest reading of each counter, by device and by what was counted.

    Example:
        >>> table = perflog.metrics.counters(perflog.read("run.txt"))
        >>> list(table.columns[2:6])
        ['rank', 'device', 'device_name', 'counter']
    """
    import pandas as pd

    names = [c.name for c in _COLUMNS]
    rows = tables["counters"]
    rows = in_base_units(rows[~rows["name"].isin(CALL_COUNTS)])  # these are of no hardware: see `stuck_ranks`
    if not len(rows):
        return pd.DataFrame(columns=names)
    sums = rows.groupby(_KEYS, sort=False, dropna=False).agg(
        mean=("weighted", "sum"), min=("least", "min"), max=("most", "max"), readings=("weight", "sum"),
        first_line=("line", "first"),
    )  # fmt: skip
    table = sums.reset_index()
    labels = dict(zip(tables["runs"]["run"], tables["runs"]["label"], strict=True))
    table = table.assign(mean=table["mean"] / table["readings"], label=table["run"].map(labels))[names]
    table = table.astype(dict.fromkeys(("rank", "device", "readings", "first_line"), "Int64"))
    return table.astype(dict.fromkeys(("device_name", "unit", "subject"), object))


def in_base_units(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the readings with a value (`base_value`), in base units where their unit is known, with weights."""
    rows = rows[rows["value"].notna()]
    units = {unit: UNITS.get(unit) for unit in rows["unit"].dropna().unique()}
    factor = rows["unit"].map({text: unit.factor for text, unit in units.items() if unit}).fillna(1.0)
    factor = factor.astype("float64")
    base = rows["unit"].map({text: unit.base if unit else text for text, unit in units.items()})
    weight = rows["calls"].astype("float64").fillna(1.0)
    figures = {name: rows[name].astype("float64") * factor for name in ("value", "min", "max")}
    return rows.assign(
        counter=rows["name"], unit=base, weight=weight, weighted=figures["value"] * weight,
        base_value=figures["value"],
        least=figures["min"].fillna(figures["value"]), most=figures["max"].fillna(figures["value"]),
    )  # fmt: skip
