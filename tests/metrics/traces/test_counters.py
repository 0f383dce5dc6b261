"""Metric counters: readings by device and subject, in base units, weighted by their calls."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import rows
from support.trace_tables import by_hand, kernel

import perflog
from perflog.metrics import Options, Tables, counter_curve, counters
from perflog.plots import PLOTS


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


def test_all_columns_of_two_devices() -> None:
    readings = [{"name": "power", "unit": "W", "rank": 4 + k, "device": k, "device_name": "H100", "value": value}
                for k in (0, 1) for value in (1.0 + k, 2.0 + k, 6.0 + k)]  # fmt: skip
    assert rows(counters(with_counters(*readings))) == [
        {
            "run": "r", "label": "r", "rank": 4 + k, "device": k, "device_name": "H100", "counter": "power",
            "mean": 3.0 + k, "min": 1.0 + k, "max": 6.0 + k, "unit": "W", "readings": 3, "subject": None,
            "first_line": 1 + 3 * k,
        }
        for k in (0, 1)
    ]  # fmt: skip


@pytest.mark.parametrize(("unit", "mean"), [("kB", 3000.0), ("widgets", 3.0), (None, 3.0)])
def test_a_reading_of_no_known_unit_is_as_printed(unit: str | None, mean: float) -> None:
    (row,) = rows(counters(with_counters({"name": "made", "unit": unit, "device": 0, "value": 3.0})))
    assert row["mean"] == mean


def test_no_label_is_null() -> None:
    """In a column of strings, pandas 2 makes the word None of it."""
    tables = with_counters({"name": "SM Active", "value": 40.0})
    tables = Tables({**tables, "runs": tables["runs"].assign(label=None)})
    assert counters.table(tables, Options())["label"].tolist() == [None]


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


def test_the_curve_of_a_counter_is_the_mean_of_each_period(tmp_path: Path) -> None:
    """Against a walk through the events; readings of one device, of another counter, and of too few moments."""
    chance = random.Random(4)
    readings = [(chance.randrange(0, 10_000), chance.uniform(10, 90)) for _ in range(700)]
    events: list[dict[str, Any]] = [
        {"ph": "C", "name": "sm", "pid": 3, "ts": at, "args": {"value": value}} for at, value in readings
    ]
    events += [{"ph": "C", "name": "rare", "pid": 3, "ts": at, "args": {"value": 1}} for at in (1, 2)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": events}))
    log = perflog.read(path)
    table = counter_curve(log)
    assert set(table["counter"]) == {"sm"}
    first = min([at for at, _ in readings] + [1])
    last = max(at for at, _ in readings)
    periods: dict[int, list[float]] = {}
    for at, value in readings:
        periods.setdefault((at - first) * 1000 * 200 // ((last - first) * 1000 + 1), []).append(value)
    wanted = [(len(v), min(v), max(v), sum(v) / len(v)) for _, v in sorted(periods.items())]
    found = list(zip(table["readings"], table["min"], table["max"], table["mean"], strict=True))
    assert [row[:3] for row in found] == [row[:3] for row in wanted]
    assert [row[3] for row in found] == pytest.approx([row[3] for row in wanted])
    assert table["at_s"].is_monotonic_increasing and len(table) <= 200
    figure = PLOTS["counters"](Tables(log))
    (line,) = figure.axes[0].lines
    assert np.asarray(line.get_ydata(), float).tolist() == pytest.approx(table["mean"].tolist())


def test_means_of_counters_are_compared(tmp_path: Path) -> None:
    paths = []
    for name, factor in (("a", 1), ("b", 2)):
        paths.append(tmp_path / f"{name}.json")
        events = [{"ph": "C", "name": "sm", "pid": 3, "ts": i, "args": {"value": factor * i}} for i in range(5)]
        paths[-1].write_text(json.dumps({"traceEvents": [*events, kernel_event()]}))
    rows = {row.metric: row for row in perflog.compare(*map(str, paths)).row_records}
    assert (rows["sm"].kind, rows["sm"].base_value, rows["sm"].side_value) == ("counter", 2.0, 4.0)


def kernel_event() -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 9, "args": {"device": 0}}
