"""Rows of operator tables: which are of the device, and the total that is printed below a table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from perflog.metrics import Tables
from perflog.metrics.profiles.operator_tables import device_rows, device_totals
from perflog.tables.schema import TABLES

Cells = dict[str, Any]


def table(name: str, rows: list[Cells]) -> pd.DataFrame:
    return pd.DataFrame([{"run": "r", "part": 0} | row for row in rows], columns=[c.name for c in TABLES[name]])


def made(*rows: Cells, values: list[Cells]) -> tuple[pd.DataFrame, Tables]:
    frame = table("kernels", [{"kind": None, "time_s": 1.0} | row for row in rows])
    frame["time_s"] = frame["time_s"].astype(float)
    return frame, Tables({"values": table("values", values)})


def host(line: int, value: float, **more: Any) -> Cells:
    return {"line": line, "key": "cpu_total", "value": value} | more


def total(line: int, value: float, **more: Any) -> Cells:
    return {"line": line, "key": "self_device_time_total", "value": value} | more


def test_rows_of_the_device_alone() -> None:
    frame, tables = made(
        {"line": 1, "name": "gemm"},
        {"line": 2, "name": "aten::mm"},  # the host executed it, too
        {"line": 3, "name": "step"},  # an annotation: a row of the host and one of the device
        {"line": 4, "name": "step"},
        {"line": 5, "name": "copy", "kind": "memcpy"},  # a printed kind
        {"line": 6, "name": "nothing", "time_s": 0.0},
        {"line": 7, "name": "unknown"},  # without a time of the host
        {"line": 1, "name": "step", "run": "s"},  # no row of the host in its run
        values=[host(1, 0.0), host(2, 0.5), host(3, 0.0), host(4, 0.5), host(5, 0.0), host(6, 0.0),
                host(1, 0.0, run="s"), {"line": 7, "key": "cpu_self", "value": 0.0}],
    )  # fmt: skip
    assert device_rows(frame, tables).tolist() == [True, False, False, False, False, False, False, True]


def test_the_total_below_each_table() -> None:
    frame, tables = made(
        {"line": 2, "section": "a", "name": "x"},
        {"line": 3, "section": "a", "name": "y"},
        {"line": 8, "section": None, "name": "x"},
        {"line": 12, "section": "b", "name": "x"},
        {"line": 2, "section": "a", "name": "x", "run": "s"},
        values=[total(5, 50.0), total(10, 70.0), {"line": 4, "key": "self_cpu_time_total", "value": 9.0},
                total(1, 3.0, run="other")],
    )  # fmt: skip
    printed = device_totals(frame, tables)
    assert printed[:3].tolist() == [50.0, 50.0, 70.0]
    assert printed[3:].isna().all()  # no line below the last table, nor any in the run
