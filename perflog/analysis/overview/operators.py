"""How fast the operators of a trace run: against the roofline of a known GPU, else the rate of their products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perflog.analysis.overview.parts import percent
from perflog.metrics import Options, Tables, operator_efficiency
from perflog.metrics.traces.operator_work import PRODUCTS
from perflog.tables.nulls import none_if_null
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

_TELLING = 0.03  # of the GPU time: less is no reason


def operators(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Yield a sentence on the operators of a run with known work, if they take a large part of the GPU time."""
    rows = operator_efficiency.table(tables, options)
    rows = rows[rows["run"] == run]
    whole = float(rows[rows["by"] == "trace"]["time_s"].sum())
    rows = rows[rows["by"] == "shape"]
    under = rows[rows["roof_s"].notna() & (rows["time_s"] > 0)]
    products = rows[rows["class"].isin(PRODUCTS) & rows["flop"].notna() & (rows["time_s"] > 0)]
    if under["time_s"].sum() > _TELLING * whole:
        yield _below_roof(under, whole)
    elif products["time_s"].sum() > _TELLING * whole:
        yield _rate(products, whole)


def _below_roof(rows: pd.DataFrame, whole: float) -> str:
    """How far below the roof the operators run, and which of them loses most time."""
    time = float(rows["time_s"].sum())
    alike = _joined(rows)
    worst = alike.loc[(alike["time_s"] - alike["roof_s"]).idxmax()]
    share = percent(float(rows["roof_s"].sum()) / time)
    text = f"Operators with a roof take {percent(time / whole)} of the GPU time and run at {share} of the roofline"
    if worst["time_s"] - worst["roof_s"] > _TELLING * whole:
        text += (
            f"; most is lost in {_name(worst)}: {percent(float(worst['roof_s'] / worst['time_s']))} of it, "
            f"{worst['bound']}-bound, {percent(float(worst['time_s']) / whole)} of the GPU time"
        )
    return f"{text}."


def _rate(rows: pd.DataFrame, whole: float) -> str:
    """The rate of all products, and of those that take longest."""
    time = float(rows["time_s"].sum())
    alike = _joined(rows)
    longest = alike.loc[alike["time_s"].idxmax()]
    share, speed = percent(time / whole), _speed(rows["flop"].sum(), time)
    text = f"Matrix products, convolutions and attention take {share} of the GPU time and run at {speed}"
    if longest["time_s"] > _TELLING * whole:
        rate, share = _speed(longest["flop"], longest["time_s"]), percent(float(longest["time_s"]) / whole)
        text += f"; the longest is {_name(longest)}: {rate}, {share} of the GPU time"
    return f"{text}."


def _joined(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of all ranks as one for each operator, shapes and type, the first of a rank first."""
    keys = ["operator", "shapes", "inputs", "dtype", "bound"]
    return rows.groupby(keys, dropna=False, sort=False)[["time_s", "flop", "roof_s"]].sum().reset_index()


def _name(row: pd.Series[str]) -> str:
    dtype = none_if_null(row["dtype"])
    return f"{row['operator']} of {row['inputs']}{f' ({dtype})' if dtype else ''}"


def _speed(flop: float, time: float) -> str:
    return show(float(flop) / float(time) / 1e12, "TFLOP/s", 3)
