"""What the arguments, counters and tracks of Chrome traces say: none of it is lost, and devices are found by track."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perflog
from perflog.metrics import counters, device_time
from perflog.readers.chrome.arguments import Figures, UndeclaredArguments, account_of, undeclared_arguments

Row = dict[str, Any]


def x(name: str, pid: Any, tid: Any, ts: Any, dur: float, cat: str | None = None, **args: Any) -> Row:
    event: Row = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
    return event | ({} if cat is None else {"cat": cat})


def named(pid: Any, process: str, threads: dict[Any, str] | None = None, label: str = "") -> list[Row]:
    rows: list[Row] = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": process}}]
    if label:
        rows.append({"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}})
    for tid, name in (threads or {}).items():
        rows.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})
    return rows


def read(path: Path, events: list[Row]) -> perflog.Log:
    path.write_text(json.dumps({"traceEvents": events}))
    log = perflog.read(path)
    assert log.line_account["unread"] == 0
    return log


# --- arguments ----------------------------------------------------------------------------------------------------


def test_ranks_groups_and_splits_of_a_collective(tmp_path: Path) -> None:
    said = {
        "Collective name": "send", "Group size": 4, "dtype": "BFloat16", "In msg nelems": 10, "Out msg nelems": 10,
        "Process Group Name": "7", "Process Group Description": "pp", "Process Group Ranks": [0, 4, 8, 12], "Seq": 3,
    }  # fmt: skip
    split = {"Collective name": "all_to_allv", "Group size": 2, "In split size": [3, 5], "Out split size": [4, 4]}
    events = [
        x("ncclDevKernel_SendRecv", 0, 7, 1, 2, "kernel", device=0, stream=7, **said, **{"Dst Rank": 4}),
        x(
            "ncclDevKernel_SendRecv",
            0,
            7,
            4,
            2,
            "kernel",
            device=0,
            **said | {"Collective name": "recv"},
            **{"Src Rank": 8},
        ),
        x("ncclDevKernel_SendRecv", 0, 7, 8, 2, "kernel", device=0, **split),
    ]
    columns = ["src_rank", "dst_rank", "group", "group_description", "group_ranks", "in_split", "out_split", "bytes"]
    rows = read(tmp_path / "t.json", events).arrow("events").select(columns).to_pylist()
    assert [list(row.values()) for row in rows] == [
        [None, 4, "7", "pp", "[0, 4, 8, 12]", None, None, 20],
        [8, None, "7", "pp", "[0, 4, 8, 12]", None, None, 20],
        [None, None, None, None, None, "[3, 5]", "[4, 4]", None],
    ]


def test_shapes_stack_and_context(tmp_path: Path) -> None:
    dims = {"Input Dims": [[8, 1024], [], [1024]], "Call stack": "model.py(7): forward;train.py(3): main"}
    events = [
        x("aten::mm", 9, 9, 1, 2, "cpu_op", **dims),
        x("aten::empty", 9, 9, 2, 2, "cpu_op"),
        x("sgemm", 0, 7, 4, 2, "kernel", device=0, stream=7, context=1),
    ]
    rows = read(tmp_path / "t.json", events).arrow("events").select(["shapes", "stack", "context"]).to_pylist()
    assert [list(row.values()) for row in rows] == [
        ["[[8, 1024], [], [1024]]", dims["Call stack"], None], [None, None, None], [None, None, 1],
    ]  # fmt: skip


def test_inputs_of_operators(tmp_path: Path) -> None:
    """Shapes, types, strides and values are texts as printed: also of lists of tensors, and where one is missing."""
    first = {
        "Input Dims": [[4, 8], [], [[2], [3]]],
        "Input type": ["c10::BFloat16", "Scalar", "TensorList"],
        "Input Strides": [[8, 1], [], [[1], [1]]],
        "Concrete Inputs": ["", "1.5", ""],
    }
    events = [
        x("aten::odd", 9, 9, 1, 2, "cpu_op", **first),
        x("aten::odd", 9, 9, 2, 2, "cpu_op", **{"Input type": [], "Concrete Inputs": ["[1, 1]", "False"]}),
        x("aten::empty", 9, 9, 3, 2, "cpu_op"),
    ]
    log = read(tmp_path / "t.json", events)
    columns = ["shapes", "input_types", "input_strides", "input_values"]
    assert [list(row.values()) for row in log.arrow("events").select(columns).to_pylist()] == [
        [json.dumps(value) for value in first.values()],
        [None, "[]", None, '["[1, 1]", "False"]'],
        [None] * 4,
    ]
    stored = {row["shape"]: row["figures_stored"] for row in log.arrow("lines").to_pylist() if row["figures_stored"]}
    assert stored == {"Input Dims": 1, "Input type": 2, "Input Strides": 1, "Concrete Inputs": 2}


# --- counters -----------------------------------------------------------------------------------------------------


def test_counters_are_series(tmp_path: Path) -> None:
    events = [
        {"ph": "C", "name": "memory", "pid": 3, "ts": 1.5, "args": {"used": 10, "free": "30"}},
        {"ph": "C", "name": "clock", "id": 2, "pid": 3, "ts": 2.25, "args": {"value": 1410.5}},
        {"ph": "C", "name": "memory", "pid": 3, "ts": 3.5, "args": {"used": 20, "free": 20}},
        x("k", 0, 7, 1, 1, "kernel", device=0),
    ]
    log = read(tmp_path / "t.json", events)
    readings = log.arrow("counters").select(["line", "name", "value", "start_ns", "process", "unit"]).to_pylist()
    assert [tuple(row.values()) for row in readings] == [
        (1, "memory.used", 10.0, 1500, "3", None), (1, "memory.free", 30.0, 1500, "3", None),
        (2, "clock[2]", 1410.5, 2250, "3", None),
        (3, "memory.used", 20.0, 3500, "3", None), (3, "memory.free", 20.0, 3500, "3", None),
    ]  # fmt: skip
    table = counters(log).set_index("counter")
    assert table.loc["memory.used", ["mean", "min", "max", "readings"]].tolist() == [15.0, 10.0, 20.0, 2]
    assert log.line_account == {"total": 4, "read": 4, "context": 0, "unread": 0}


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ({"Device Type": 1}, "device memory allocated"),
        ({"Device Type": 1, "Device Id": 3}, "device memory allocated"),
        ({"Device Type": 0}, "host memory allocated"),
        ({"Device Id": -1}, "host memory allocated"),
        ({}, "memory allocated"),
    ],
)
def test_totals_of_memory_say_what_is_known_of_the_device(tmp_path: Path, where: Row, name: str) -> None:
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 9, "ts": 1}
    log = read(tmp_path / "t.json", [event | {"args": {"Total Allocated": 7} | where}])
    (reading,) = log.arrow("counters").to_pylist()
    device = 3 if where.get("Device Id") == 3 else None
    assert (reading["name"], reading["value"], reading["device"]) == (name, 7.0, device)


def test_memory_after_each_allocation(tmp_path: Path) -> None:
    def memory(ts: int, size: int, allocated: int, kind: int) -> Row:
        args = {"Total Reserved": 4096, "Total Allocated": allocated, "Bytes": size, "Addr": 1 << 46}
        args |= {"Device Id": -1 if kind == 0 else 3, "Device Type": kind}
        return {
            "ph": "i",
            "s": "t",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "pid": 9,
            "tid": 9,
            "ts": ts,
            "args": args,
        }

    log = read(tmp_path / "t.json", [memory(1, 512, 1024, 1), memory(2, -512, 512, 1), memory(3, 64, 64, 0)])
    events = log.arrow("events").select(["kind", "bytes", "address", "device"]).to_pylist()
    assert [tuple(row.values()) for row in events] == [
        ("memory", 512, 1 << 46, 3), ("memory", -512, 1 << 46, 3), ("memory", 64, 1 << 46, None),
    ]  # fmt: skip
    readings = log.arrow("counters").select(["name", "value", "device", "unit"]).to_pylist()
    assert [tuple(row.values()) for row in readings] == [
        ("device memory allocated", 1024.0, 3, "B"), ("device memory reserved", 4096.0, 3, "B"),
        ("device memory allocated", 512.0, 3, "B"), ("device memory reserved", 4096.0, 3, "B"),
        ("host memory allocated", 64.0, None, "B"), ("host memory reserved", 4096.0, None, "B"),
    ]  # fmt: skip


# --- devices by their tracks --------------------------------------------------------------------------------------


def busy(log: perflog.Log) -> list[tuple[Any, float]]:
    table = device_time(log)
    table = table[table["part"] == "trace"].astype({"device": object})
    return list(zip(table["device"].where(table["device"].notna(), None), table["busy_s"], strict=True))


def test_a_trace_of_jax_on_gpus(tmp_path: Path) -> None:
    threads = {1: "Stream #13(MemcpyH2D)", 2: "Stream #14(Compute)", 3: "XLA Modules", 4: "Steps"}
    events = [
        *named(1, "/device:GPU:0", threads), *named(2, "/device:GPU:1", threads), *named(9, "/host:CPU", {1: "python"}),
        x("MemcpyH2D", 1, 1, 0, 10), x("loop_fusion", 1, 2, 10, 30), x("jit_step", 1, 3, 0, 100), x("7", 1, 4, 0, 100),
        x("gemm_fusion", 2, 2, 10, 50), x("PjitFunction(step)", 9, 1, 0, 200),
    ]  # fmt: skip
    log = read(tmp_path / "t.json", events)
    rows = log.arrow("events").select(["name", "kind", "device", "stream"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("MemcpyH2D", "memcpy", 0, 13), ("loop_fusion", "kernel", 0, 14), ("jit_step", "device_range", 0, None),
        ("7", "device_range", 0, None), ("gemm_fusion", "kernel", 1, 14), ("PjitFunction(step)", None, None, None),
    ]  # fmt: skip
    assert busy(log) == [(0, 40e-6), (1, 50e-6)]


def test_a_trace_of_jax_on_tpus(tmp_path: Path) -> None:
    threads = {1: "Steps", 2: "XLA Modules", 3: "XLA Ops", 4: "Framework Ops"}
    events = [*named(3, "/device:TPU:0", threads), *(x("op", 3, tid, 5, 20) for tid in threads)]
    assert busy(read(tmp_path / "t.json", events)) == [(0, 20e-6)]


def test_a_trace_of_ascend(tmp_path: Path) -> None:
    """torch_npu: times as text, no categories; the overlap analysis is derived from the work, and is none."""
    events = [
        *named(1, "Python"), *named(4, "Ascend Hardware", {2: "Stream 2"}, "NPU"),
        *named(5, "Overlap Analysis", {0: "Computing"}, "NPU"),
        x("aclnnMatmul_MatMulV2", 4, 2, "1699529623106750.250", 100), x("EVENT_WAIT", 4, 2, "1699529623106900.000", 50),
        x("Computing", 5, 0, "1699529623106750.250", 100), x("aten::mm", 1, 1, "1699529623106700.000", 5, "cpu_op"),
    ]  # fmt: skip
    log = read(tmp_path / "t.json", events)
    rows = log.arrow("events").select(["kind", "start_ns"]).to_pylist()
    assert [row["kind"] for row in rows] == ["kernel", "sync", None, "cpu"]
    assert rows[0]["start_ns"] == 1699529623106750250
    assert busy(log) == [(None, 100e-6)]


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("mtia_ccp_events", "kernel"), ("mtia_runtime", "runtime"), ("hpu_op", "runtime"), ("xpu_driver", "runtime"),
        ("xpu_sync", "sync"), ("mlu_memcpy", "memcpy"), ("gcu_memset", "memset"),
        ("mlu_user_annotation", "device_range"),
        ("privateuse1_runtime", "runtime"), ("cuda_event", "sync"), ("mtia_insight", None),
    ],
)  # fmt: skip
def test_categories_of_other_makers(tmp_path: Path, category: str, kind: str | None) -> None:
    log = read(tmp_path / "t.json", [x("e", 0, 1, 1, 1, category)])
    assert log.arrow("events")["kind"].to_pylist() == [kind]
    on_track = read(tmp_path / "u.json", [*named(0, "MTIA", label="MTIA 0"), x("e", 0, 1, 1, 1, category)])
    assert on_track.arrow("events")["kind"].to_pylist() == [kind or "kernel"]


def test_a_trace_without_device_work_is_a_finding(tmp_path: Path) -> None:
    log = read(tmp_path / "t.json", [x("a", 0, 1, 1, 1, "mtia_insight"), x("b", 0, 1, 2, 1, "cpu_op")])
    (finding,) = (f for f in perflog.lint(log).to_dict("records") if f["code"] == "no-device-work")
    unknown = "1 is of a kind that perflog does not know: mtia_insight"
    assert finding["message"].startswith(f"none of 2 events is known as work of a device; {unknown}")


# --- the account --------------------------------------------------------------------------------------------------


def test_figures_of_arguments_that_nobody_declared() -> None:
    found = UndeclaredArguments()
    found.add(3, "odd", ["7 of 9 apples", 5, {"b": "2.5", "c": None}, "words"])
    found.add(4, "odd", -1)
    assert found.numbers == [(3, "odd[1]", 5.0), (3, "odd[2].b", 2.5), (4, "odd", -1.0)]
    assert (found.stored, found.unread) == ({"odd": 3}, {"odd": 2})


def test_undeclared_arguments_are_those_of_events_and_their_fields() -> None:
    events = [
        7, {"ph": "C", "args": {"odd": 1}}, {"ph": "X", "cat": "perflog_x", "args": {"odd": 2}},
        {"ph": "X", "odd": 3, "ts": 4, "args": {"odd": 5, "ts": 6, "other": 7}}, {"ph": "X", "args": [8], "odd": 9},
    ]  # fmt: skip
    found = undeclared_arguments(events, {"odd", "ts"})
    assert found.numbers == [(3, "odd", 3.0), (3, "odd", 5.0), (3, "ts", 6.0), (4, "odd", 9.0)]


def test_each_value_of_an_argument_is_stored_dropped_or_unread() -> None:
    undeclared = UndeclaredArguments()
    undeclared.add(0, "odd", 5)
    undeclared.add(0, "device", "no 7")
    counts = {"Ev Idx": 4, "device": 3, "stream": 2, "odd": 9, "name": 5}
    assert account_of(counts, {"device": 2, "stream": 3}, undeclared) == {
        "Ev Idx": Figures(0, 4, 0), "device": Figures(2, 0, 2), "stream": Figures(3, 0, 0),
        "odd": Figures(1, 0, 0, 0, ""),
    }  # fmt: skip
    assert account_of({"stream": 0}, {"stream": 0}, UndeclaredArguments()) == {}
