"""Metric counters: readings by device and subject, in base units, weighted by their calls."""

from __future__ import annotations

from typing import Any

from support.metrics_logs import rows
from support.trace_tables import by_hand, kernel

from perflog.metrics import Tables, counters


def with_counters(*readings: dict[str, Any]) -> Tables:
    import pandas as pd

    from perflog.tables.schema import TABLES

    names = [c.name for c in TABLES["counters"]]
    tables = dict(by_hand([kernel(0, 10)]))
    filled = [dict.fromkeys(names) | {"run": "r", "line": n, "part": 0} | r for n, r in enumerate(readings, 1)]
    return Tables(tables | {"counters": pd.DataFrame(filled, columns=names)})


def test_samples_of_two_devices_and_counters() -> None:
    active = {"name": "SM Active", "unit": "%"}
    found = rows(
        counters(
            with_counters(
                active | {"device": 0, "value": 40.0}, active | {"device": 0, "value": 60.0},
                active | {"device": 1, "value": 5.0}, {"name": "IB: Bytes sent", "subject": "mlx5_0", "value": 7.0},
            )
        )
    )  # fmt: skip
    columns = ("device", "subject", "counter", "mean", "min", "max", "unit", "readings", "first_line")
    assert [tuple(r[c] for c in columns) for r in found] == [
        (0, None, "SM Active", 0.5, 0.4, 0.6, "1", 2, 1),
        (1, None, "SM Active", 0.05, 0.05, 0.05, "1", 1, 3),
        (None, "mlx5_0", "IB: Bytes sent", 7.0, 7.0, 7.0, None, 1, 4),
    ]


def test_readings_of_several_calls_are_weighted() -> None:
    gemm = {"name": "dram_read_throughput", "subject": "gemm"}
    (found,) = rows(
        counters(
            with_counters(
                gemm | {"calls": 3, "value": 2000.0, "min": 1000.0, "max": 3000.0, "unit": "MB/s"},
                gemm | {"calls": 1, "value": 4.0, "min": 4.0, "max": 4.0, "unit": "GB/s"},
            )
        )
    )
    assert (found["mean"], found["min"], found["max"], found["unit"], found["readings"]) == (2.5, 1.0, 4.0, "GB/s", 4)


def test_without_counters_there_are_no_rows() -> None:
    assert not len(counters(by_hand([kernel(0, 10)])))
