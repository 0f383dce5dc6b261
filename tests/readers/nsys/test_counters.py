"""Readings of counters in an export of Nsight Systems: what was counted, in which unit, on which device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.metrics_logs import rows as metric_rows
from support.nsys_files import Row, rows, write_node, write_tables

import perflog
from perflog.metrics import counters
from perflog.parsing.input.source import Source
from perflog.readers.databases.sqlite import Database
from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.string_interning import new_interners
from perflog.readers.nsys.counters import CounterReader, counter_tables
from perflog.readers.nsys.session import Session

TEXTS = ("name", "unit", "subject", "device_name")
GPU_TYPE = 0x1500 + 2  # the last byte is the number of the GPU for the counters


def read(path: Path, tables: dict[str, list[Row]]) -> list[dict[str, Any]]:
    """The readings of an export, in its order, with strings."""
    file = write_tables(path / "export.sqlite", tables)
    db, interners = Database(str(file), Source("export.sqlite", str(file))), new_interners()
    found = []
    try:
        for table, columns, odd in CounterReader(db, Session(db), interners).batches():
            for row in range(len(odd)):
                values = {name: column[row].item() for name, column in columns.items()}
                texts = {name: interners[name].texts[values[name]] if values[name] >= 0 else "" for name in TEXTS}
                numbers = {name: None if value == MISSING else value for name, value in values.items()}
                found.append({"table": table, "odd": bool(odd[row])} | numbers | texts)
    finally:
        db.close()
    return found


def gpu_reading(counter: int, value: Any, time: int = 5, source: int = GPU_TYPE) -> Row:
    return {"timestamp": time, "typeId": source, "metricId": counter, "value": value}


GPU_TABLES: dict[str, list[Row]] = {
    "TARGET_INFO_GPU": [{"id": 0, "name": "A100", "pwGpuId": 1}, {"id": 3, "name": "H100", "pwGpuId": 2}],
    "TARGET_INFO_GPU_METRICS": [
        {"typeId": GPU_TYPE, "typeName": "GPU 2", "metricId": 7, "metricName": "SM Active"},
        {"typeId": 9, "typeName": "GPU 9", "metricId": 7, "metricName": "DRAM"},
    ],
}


def test_metrics_of_gpus_have_names_and_their_device(tmp_path: Path) -> None:
    readings = [gpu_reading(7, 50), gpu_reading(8, 2.5, 6), gpu_reading(7, 60, 7, source=9), gpu_reading(7, 1, 8, 11)]
    found = read(tmp_path, GPU_TABLES | {"GPU_METRICS": readings})
    names = ("name", "device", "device_name", "subject", "start", "duration", "value", "unit")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("SM Active", 3, "H100", "", 5, None, 50.0, ""),
        ("counter 8", 3, "H100", "", 6, None, 2.5, ""),
        ("DRAM", None, "", "GPU 9", 7, None, 60.0, ""),  # no GPU has this number: the name of the source says it
        ("counter 7", None, "", "", 8, None, 1.0, ""),
    ]


@pytest.mark.parametrize("missing", ["TARGET_INFO_GPU", "TARGET_INFO_GPU_METRICS"])
def test_an_export_that_explains_nothing_still_has_its_readings(tmp_path: Path, missing: str) -> None:
    tables = {name: rows for name, rows in GPU_TABLES.items() if name != missing}
    (found,) = read(tmp_path, tables | {"GPU_METRICS": [gpu_reading(7, 50)]})
    explained = ("SM Active", None, "GPU 2") if missing == "TARGET_INFO_GPU" else ("counter 7", 3, "")
    assert (found["name"], found["device"], found["subject"]) == explained


def test_metrics_of_a_network_have_units_and_ports(tmp_path: Path) -> None:
    def reading(nic: int, port: Any, counter: int) -> Row:
        return {"start": 10, "end": 40, "globalId": nic, "portId": port, "metricsListId": 4, "metricsIdx": counter,
                "value": 3}  # fmt: skip

    found = read(tmp_path, {
        "NET_NIC_METRIC": [reading(91, 1, 0), reading(91, None, 1), reading(92, 2, 0), reading(91, 1, 5)],
        "TARGET_INFO_NETWORK_METRICS": [
            {"metricsListId": 4, "metricsIdx": 0, "name": "Sent", "unit": "B"},
            {"metricsListId": 4, "metricsIdx": 1, "name": "Waits", "unit": None},
            {"metricsListId": 5, "metricsIdx": 5, "name": "other list", "unit": "B"},
        ],
        "NIC_ID_MAP": [{"nicId": 1, "globalId": 91}],
        "TARGET_INFO_NIC_INFO": [{"nicId": 1, "name": "mlx5_0"}, {"nicId": 2, "name": "mlx5_1"}],
    })  # fmt: skip
    assert [(row["name"], row["unit"], row["subject"]) for row in found] == [
        ("Sent", "B", "mlx5_0 port 1"), ("Waits", "", "mlx5_0"), ("Sent", "B", "network interface 92 port 2"),
        ("counter 5", "", "mlx5_0 port 1"),
    ]  # fmt: skip
    assert {(row["start"], row["duration"], row["value"], row["device"]) for row in found} == {(10, 30, 3.0, None)}


@pytest.mark.parametrize("missing", ["NIC_ID_MAP", "TARGET_INFO_NIC_INFO"])
def test_a_network_interface_without_a_name_has_its_number(tmp_path: Path, missing: str) -> None:
    tables: dict[str, list[Row]] = {
        "NET_NIC_METRIC": [{"start": 1, "globalId": 91, "metricsListId": 4, "metricsIdx": 0, "value": 3}],
        "NIC_ID_MAP": [{"nicId": 1, "globalId": 91}], "TARGET_INFO_NIC_INFO": [{"nicId": 1, "name": "mlx5_0"}],
    }  # fmt: skip
    del tables[missing]
    (found,) = read(tmp_path, tables)
    assert (found["subject"], found["name"], found["duration"]) == ("network interface 91", "counter 0", None)


def test_tables_without_values_hold_no_readings(tmp_path: Path) -> None:
    tables = {"GPU_METRICS": [{"timestamp": 1, "typeId": 2}], "SOC_METRICS": [gpu_reading(7, 1)]}
    file = write_tables(tmp_path / "export.sqlite", tables)
    db = Database(str(file), Source("export.sqlite", str(file)))
    try:
        assert counter_tables(db) == ["SOC_METRICS"]
    finally:
        db.close()


def test_an_odd_reading_is_marked(tmp_path: Path) -> None:
    found = read(tmp_path, {"GPU_METRICS": [gpu_reading(7, 50), gpu_reading(7, 1, 6) | {"metricId": "x"}]})
    assert [row["odd"] for row in found] == [False, True]


# --- counters ---------------------------------------------------------------------------------------------------------


def test_gpu_metrics_are_counters_of_their_gpu(tmp_path: Path) -> None:
    types = [0x1000100000000 | gpu for gpu in (0, 1)]
    names = [
        {"typeId": kind, "sourceId": 1, "typeName": f"GPU Metrics [{kind & 255}]", "metricId": n, "metricName": name}
        for kind in types
        for n, name in ((0, "SM Active [Throughput %]"), (7, "DRAM Read Bandwidth [Throughput %]"))
    ]
    readings = [
        {"rawTimestamp": 1, "timestamp": at, "typeId": types[gpu], "metricId": metric, "value": value}
        for at, gpu, metric, value in ((100, 0, 0, 90), (100, 1, 0, 10), (200, 0, 0, 70), (200, 0, 7, 33))
    ]
    log = perflog.read(write_node(tmp_path, GPU_METRICS=readings, TARGET_INFO_GPU_METRICS=names))
    sampled = [(r["line"], r["device"], r["name"], r["start_ns"], r["value"]) for r in rows(log, "counters")]
    assert sampled == [
        (9, 0, "SM Active [Throughput %]", 100, 90.0), (10, 1, "SM Active [Throughput %]", 100, 10.0),
        (11, 0, "SM Active [Throughput %]", 200, 70.0), (12, 0, "DRAM Read Bandwidth [Throughput %]", 200, 33.0),
    ]  # fmt: skip
    found = [
        (r["device"], r["device_name"], r["counter"], r["mean"], r["readings"]) for r in metric_rows(counters(log))
    ]
    assert found == [
        (0, "NVIDIA H100", "SM Active [Throughput %]", 80.0, 2),
        (1, "NVIDIA H100", "SM Active [Throughput %]", 10.0, 1),
        (0, "NVIDIA H100", "DRAM Read Bandwidth [Throughput %]", 33.0, 1),
    ]
    assert log.line_account == {"total": 12, "read": 12, "context": 0, "unread": 0}


def test_network_metrics_alone(tmp_path: Path) -> None:
    """A capture of nothing else: `nsys profile --trace=none --nic-metrics=lf`."""
    reading = {"start": 100, "end": 200, "globalId": 55, "portId": 1, "metricsListId": 2, "metricsIdx": 0, "value": 8}
    tables: dict[str, list[Row]] = {
        "NET_NIC_METRIC": [reading, reading | {"start": 200, "end": 300, "value": 4, "globalId": 56}],
        "TARGET_INFO_NETWORK_METRICS": [
            {"metricsListId": 2, "metricsIdx": 0, "name": "IB: Bytes sent", "description": "", "unit": "bytes/ms"}
        ],
        "NIC_ID_MAP": [{"nicId": 0, "globalId": 55}],
        "TARGET_INFO_NIC_INFO": [{"GUID": 1, "nicId": 0, "name": "mlx5_0"}],
    }
    log = perflog.read(write_tables(tmp_path / "nic.sqlite", tables))
    columns = ("name", "subject", "start_ns", "duration_ns", "value", "unit")
    assert [tuple(r[c] for c in columns) for r in rows(log, "counters")] == [
        ("IB: Bytes sent", "mlx5_0 port 1", 100, 100, 8.0, "bytes/ms"),
        ("IB: Bytes sent", "network interface 56 port 1", 200, 100, 4.0, "bytes/ms"),
    ]


def test_counters_whose_names_are_missing(tmp_path: Path) -> None:
    reading = {"timestamp": 5, "typeId": 3, "metricId": 2, "value": 1.5}
    log = perflog.read(write_tables(tmp_path / "c.sqlite", {"GPU_METRICS": [reading]}))
    (row,) = rows(log, "counters")
    assert (row["name"], row["device"], row["value"], row["subject"]) == ("counter 2", None, 1.5, None)
