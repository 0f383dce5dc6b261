"""Memory over the time of traces: against a replay with a dictionary of live addresses, event by event."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.memory_traces import MIB, Allocator, random_program, replay, training, write
from support.metrics_logs import rows
from support.nsys_files import TID, write_tables
from support.trainer_ranks import ForkedRanks

import perflog
from perflog.metrics import Tables, memory_curve, memory_holders, memory_peak
from perflog.metrics.traces.over_time.device_memory import device_memory
from perflog.metrics.traces.over_time.memory import OTHER, step_ends
from perflog.metrics.traces.over_time.memory_holders import NOT_TRACED, HeldMemory, held_memory
from perflog.metrics.traces.work_tree import OUTSIDE
from perflog.plots import PLOTS


def only(table: pd.DataFrame) -> dict[str, Any]:
    (row,) = table.to_dict("records")
    return {name: None if value is pd.NA else value for name, value in row.items()}


def growth_findings(log: perflog.Log) -> list[dict[str, Any]]:
    found = perflog.lint(log)
    rows: list[dict[str, Any]] = found[found["code"] == "memory-grows"].to_dict("records")
    return rows


@examples(80)
@given(seed=st.integers(0, 10**6), events=st.integers(1, 60), prints=st.booleans())
def test_the_peak_and_its_holders_are_those_of_a_replay(
    tmp_path_factory: pytest.TempPathFactory, seed: int, events: int, prints: bool
) -> None:
    program = random_program(seed, events, prints)
    if not any(event["name"] == "[memory]" for event in program.events):
        return
    log = perflog.read(write(tmp_path_factory.mktemp("memory") / "a.json", program))
    wanted = replay(program.events)
    (curve,) = device_memory(Tables(log))
    assert curve.allocated.tolist() == wanted.allocated
    assert curve.live.tolist() == wanted.live
    row = only(memory_peak(log))
    assert (row["peak"], row["freed_unknown"]) == (max(wanted.allocated), wanted.freed_unknown)
    assert row["basis"] == ("printed" if prints else "blocks")
    holders = memory_holders(log)
    assert int(holders["bytes"].sum()) == row["peak"]  # with what the trace does not explain
    by_operator: dict[str, int] = {}
    for names, size in wanted.holders.items():
        operator = next((name for name in reversed(names) if name != "aten::empty"), OUTSIDE)
        by_operator[operator] = by_operator.get(operator, 0) + size
    own = holders[holders["holder"] != NOT_TRACED]
    assert dict(zip(own["operator"].fillna(OUTSIDE), own["bytes"], strict=True)) == by_operator
    assert row["not_traced"] == (wanted.allocated[wanted.peak] - wanted.live[wanted.peak] if prints else None)


@pytest.mark.parametrize("prints", [True, False])
def test_the_curve_adds_up_to_what_is_allocated(tmp_path: Path, prints: bool) -> None:
    program = random_program(5, 900, prints)
    log = perflog.read(write(tmp_path / "a.json", program))
    wanted = replay(program.events)
    curve = memory_curve(log)
    sums = curve.groupby("at_s").agg(bytes=("bytes", "sum"), allocated=("allocated", "first"), peak=("is_peak", "any"))
    assert sums["bytes"].tolist() == sums["allocated"].tolist()
    assert len(sums) <= 201
    assert sums["allocated"].max() == max(wanted.allocated) == sums["allocated"][sums["peak"]].item()
    assert sums["allocated"].iloc[-1] in wanted.allocated
    assert set(curve["holder"]) <= {"(outside of ranges)", "(outside of ranges): aten::mm",
                                    "(outside of ranges): aten::add", OTHER, NOT_TRACED}  # fmt: skip


def test_the_curve_has_events_of_one_moment_once(tmp_path: Path) -> None:
    """Clocks of whole microseconds: two events behind which as much is allocated at the same time."""
    program = Allocator()
    for at, size, address in ((0, MIB, 1), (5, MIB, 2), (5, -MIB, 2), (5, MIB, 3), (1000, -MIB, 3)):
        program.now = 1000.0 + at - 0.5
        program.memory(size, address << 20)
    curve = memory_curve(perflog.read(write(tmp_path / "a.json", program)))
    assert curve["at_s"].is_unique and curve["is_peak"].sum() == 1
    assert curve["allocated"].tolist() == [MIB, 2 * MIB, MIB]


@pytest.mark.parametrize("before", [0, 3 * MIB])
def test_frees_alone_have_a_curve(tmp_path: Path, before: int) -> None:
    """A profile of the end of a program, whose blocks were allocated before it."""
    program = Allocator(before=before, prints_totals=before > 0)
    for address in (1, 2, 3):
        program.memory(-MIB, address << 20)
    curve = memory_curve(perflog.read(write(tmp_path / "a.json", program)))
    assert set(curve["holder"]) == {NOT_TRACED}
    assert curve["allocated"].tolist() == ([2 * MIB, MIB, 0] if before else [0, 0, 0])
    assert curve["bytes"].tolist() == curve["allocated"].tolist()


def test_who_held_the_memory_of_a_step(tmp_path: Path) -> None:
    """The outputs of three layers and the first gradient, 8 MiB, and 100 MiB from before the trace."""
    log = perflog.read(write(tmp_path / "a.json", training()))
    same = {"run": log.runs["run"].item(), "label": None, "rank": None, "memory": "device", "device": 0,
            "device_name": None, "process": "9"}  # fmt: skip
    assert rows(memory_peak(log)) == [
        same | {"peak": 108 * MIB, "basis": "printed", "at_s": pytest.approx(16.5e-6), "step": 3,
                "reserved": 108 * MIB, "fragmentation": 0, "reserved_peak": 108 * MIB, "blocks": 4,
                "not_traced": 100 * MIB, "growth": 0, "freed_unknown": 0, "first_line": 20},
    ]  # fmt: skip
    names = ("holder", "operator", "range", "first_line", "bytes", "blocks", "oldest_step")
    step, forward = "ProfilerStep#N", "ProfilerStep#N > forward"
    held = [
        (NOT_TRACED, None, None, None, 100, None, None),
        ("Linear_2: aten::addmm", "aten::addmm", f"{forward} > Linear_2", 13, 3, 1, 3),
        ("Linear_1: aten::addmm", "aten::addmm", f"{forward} > Linear_1", 7, 2, 1, 3),
        ("backward: aten::mm", "aten::mm", f"{step} > backward", 20, 2, 1, 3),
        ("Linear_0: aten::addmm", "aten::addmm", f"{forward} > Linear_0", 1, 1, 1, 3),
    ]
    assert rows(memory_holders(log)) == [
        same | dict(zip(names, row, strict=True)) | {"bytes": row[4] * MIB, "share": row[4] / 108} for row in held
    ]
    first, second = (
        [row for row in rows(memory_curve(log)) if row["first_line"] == line] for line in (1, 7)
    )  # the first layer, then the second
    common = {"step": 3, "is_peak": False}
    assert [row for row in first if row["bytes"]] == [
        same | common | {"at_s": pytest.approx(2.5e-6), "holder": holder, "bytes": size * MIB, "allocated": 101 * MIB,
                         "reserved": 102 * MIB, "first_line": 1}
        for holder, size in (("Linear_0: aten::addmm", 1), (NOT_TRACED, 100))
    ]  # fmt: skip
    assert {row["holder"]: row["bytes"] // MIB for row in second} == {
        "Linear_2: aten::addmm": 0, "backward: aten::mm": 0, "Linear_1: aten::addmm": 2, "Linear_0: aten::addmm": 1,
        NOT_TRACED: 100,
    }  # fmt: skip


def test_memory_that_grows_is_a_finding_and_memory_that_does_not_is_none(tmp_path: Path) -> None:
    leaking = perflog.read(write(tmp_path / "leak.json", training(leak=MIB)))
    assert only(memory_peak(leaking))["growth"] == MIB
    (finding,) = growth_findings(leaking)
    assert "memory of device 0 (process 9) grows by 1 MiB a step over 3 steps, to 105 MiB" in finding["message"]
    assert "ProfilerStep#N: aten::clone (3 MiB)" in finding["message"]
    for name, program in (("even", training()), ("short", training(leak=MIB, steps=4)), ("tiny", training(leak=64))):
        assert not growth_findings(perflog.read(write(tmp_path / f"{name}.json", program))), name


def test_holders_are_not_computed_where_nothing_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Tables] = []

    def counted(tables: Tables) -> list[HeldMemory]:
        asked.append(tables)
        return held_memory(tables)

    monkeypatch.setattr("perflog.analysis.lint.traces.held_memory", counted)
    for leak, times in ((0, 0), (MIB, 1)):
        log = perflog.read(str(write(tmp_path / f"{leak}.json", training(leak))))
        assert len(growth_findings(log)) == len(asked) == times


def test_memory_that_grows_and_is_freed_later_is_no_finding(tmp_path: Path) -> None:
    """Each step keeps more than the one before, but frees what that one kept."""
    program, kept = Allocator(), []
    for step in range(6):
        begin = program.begin()
        kept.append(program.operator("aten::add", (step + 1) * MIB))
        if len(kept) > 1:
            program.free(kept.pop(0))
        program.around("user_annotation", f"ProfilerStep#{step}", begin)
    log = perflog.read(write(tmp_path / "a.json", program))
    assert only(memory_peak(log))["growth"] == MIB
    assert not growth_findings(log)


def test_an_event_without_an_address_is_in_the_total_alone(tmp_path: Path) -> None:
    program = Allocator()
    program.allocate(MIB)
    program.allocate(2 * MIB)
    del program.events[-1]["args"]["Addr"]
    row = only(memory_peak(perflog.read(write(tmp_path / "a.json", program))))
    assert (row["peak"], row["not_traced"], row["blocks"]) == (3 * MIB, 2 * MIB, 1)


def test_the_overview_and_the_comparison_tell_the_peak(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{name}.json", training(leak)) for name, leak in (("a", 0), ("b", 4 * MIB))]
    (text,) = [line for line in perflog.overview(perflog.read(paths[1])).reasons if line.startswith("Memory")]
    assert "Memory of device 0: 124 MiB at most" in text and "in step 7; 124 MiB reserved" in text
    assert "Held by memory from before the trace 81 %, ProfilerStep#N: aten::clone 13 %" in text
    rows = {row.metric: row for row in perflog.compare(*map(str, paths)).row_records}
    peak = rows["device memory, peak allocated"]
    assert peak.kind == "memory"
    assert (peak.base_value, peak.side_value) == pytest.approx((108 * MIB, 124 * MIB))
    growth = rows["device memory, growth a step"]
    assert (growth.base_value, growth.side_value) == pytest.approx((0, 4 * MIB))
    held = rows["backward: aten::mm, at the peak of device memory"]
    assert held.kind == "holder"
    assert (held.base_value, held.side_value) == pytest.approx((2 * MIB, 2 * MIB))


def test_holders_of_one_name_are_told_once(tmp_path: Path) -> None:
    program = Allocator()
    for layer in ("layer1", "layer2"):
        outer, inner = program.begin(), program.begin()
        program.operator("aten::mm", 10 * MIB)
        program.around("user_annotation", "attention", inner)
        program.around("user_annotation", layer, outer)
    (text,) = [
        line for line in perflog.overview(perflog.read(write(tmp_path / "a.json", program))).reasons if "Held" in line
    ]
    assert text.endswith("Held by attention: aten::mm 100 %.")


def test_a_holder_of_device_and_host_memory_has_two_rows(tmp_path: Path) -> None:
    paths = []
    for name, size in (("a", MIB), ("b", 2 * MIB)):
        device, host = Allocator(), Allocator(on_host=True)
        for program, factor in ((device, 1), (host, 3)):
            program.operator("aten::mm", factor * size)
            host.now = device.now + 100
        paths.append(str(write(tmp_path / f"{name}.json", device, host)))
    rows = {r.metric: r.base_value for r in perflog.compare(*paths).row_records if r.kind == "holder"}
    wanted = {"device": MIB, "host": 3 * MIB}
    assert rows == pytest.approx(
        {f"(outside of ranges): aten::mm, at the peak of {place} memory": size for place, size in wanted.items()}
    )


def test_the_plot_stacks_the_holders_and_marks_the_peak(tmp_path: Path) -> None:
    log = perflog.read(write(tmp_path / "a.json", training(leak=MIB)))
    figure, curve = PLOTS["memory_curve"](Tables(log)), memory_curve(log)
    (axes,) = figure.axes
    areas = {area.get_gid(): area for area in axes.collections if area.get_gid()}
    assert set(areas) == set(curve["holder"])
    top = max(float(area.get_datalim(axes.transData).y1) for area in areas.values())
    assert top * MIB == pytest.approx(curve["allocated"].max())
    assert axes.get_ylabel() == "memory (MiB)"
    (line,) = axes.lines
    assert np.asarray(line.get_ydata(), float).max() * MIB == curve["reserved"].max()


@pytest.mark.slow
def test_a_trace_of_pytorch_itself(tmp_path: Path) -> None:
    """The totals that PyTorch prints are those of the replay, up to what was allocated before."""
    program = (
        "import sys, torch\nfrom torch.profiler import ProfilerActivity, profile, record_function\n"
        "model, kept = torch.nn.Linear(64, 32), []\n"
        "with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:\n"
        "    for step in range(4):\n"
        "        with record_function('forward'):\n"
        "            out = model(torch.randn(16, 64)).relu()\n"
        "        kept.append(out.detach().clone())\n"
        "        out.sum().backward()\n"
        "profiler.export_chrome_trace(sys.argv[1])\n"
    )
    pytest.importorskip("torch")
    path = tmp_path / "torch.json"
    (tmp_path / "program.py").write_text(program)
    ForkedRanks(1, tmp_path / "printed", str(tmp_path / "program.py"), str(path)).end()
    log, events = perflog.read(path), json.loads(path.read_text())["traceEvents"]
    wanted = replay([event for event in events if "name" in event])
    (curve,) = device_memory(Tables(log))
    assert curve.live.tolist() == wanted.live
    assert curve.allocated.tolist() == wanted.allocated
    row = only(memory_peak(log))
    assert (row["memory"], row["peak"]) == ("host", max(wanted.allocated))
    holders = memory_holders(log)
    assert int(holders["bytes"].sum()) == row["peak"]
    assert "aten::clone" in set(holders["operator"])


def test_memory_in_exports_of_nsight_systems(tmp_path: Path) -> None:
    """Calls of the runtime tell the range of an allocation; pinned memory is the host's; pools are counters."""
    memory = {"globalPid": TID - 9, "deviceId": 0, "contextId": 1, "memKind": 2, "memoryOperationType": 0,
              "correlationId": None, "localMemoryPoolAddress": None, "localMemoryPoolSize": None,
              "localMemoryPoolUtilizedSize": None}  # fmt: skip
    path = write_tables(
        tmp_path / "m.sqlite",
        {
            "StringIds": [{"id": 3, "value": "cudaMalloc"}, {"id": 4, "value": "setup"}],
            "TARGET_INFO_GPU": [{"id": 0, "name": "NVIDIA H100"}],
            "NVTX_EVENTS": [{"start": 5, "end": 30, "eventType": 59, "globalTid": TID, "textId": 4}],
            "CUPTI_ACTIVITY_KIND_RUNTIME": [
                {"start": at, "end": at + 3, "globalTid": TID, "correlationId": number, "nameId": 3}
                for number, at in ((1, 10), (2, 40), (3, 60), (4, 80))
            ],
            "CUDA_GPU_MEMORY_USAGE_EVENTS": [
                memory | {"start": 12, "bytes": 4096, "address": 1 << 34, "correlationId": 1},
                memory | {"start": 42, "bytes": 8192, "address": 1 << 35, "correlationId": 2,
                          "localMemoryPoolAddress": 99, "localMemoryPoolSize": 1 << 20,
                          "localMemoryPoolUtilizedSize": 8192},
                memory | {"start": 62, "bytes": 4096, "address": 1 << 34, "correlationId": 3, "memoryOperationType": 1},
                memory | {"start": 64, "bytes": 64, "address": 5, "memoryOperationType": 1},
                memory | {"start": 82, "bytes": 100, "address": 1 << 36, "correlationId": 4, "memKind": 1},
            ],
        },
    )  # fmt: skip
    log = perflog.read(path)
    events = [row for row in log.arrow("events").to_pylist() if row["kind"] == "memory"]
    assert [(row["device"], row["bytes"], row["address"]) for row in events] == [
        (0, 4096, 1 << 34), (0, 8192, 1 << 35), (0, -4096, 1 << 34), (0, -64, 5), (None, 100, 1 << 36),
    ]  # fmt: skip
    assert [row["device_name"] for row in events] == [*["NVIDIA H100"] * 4, None]
    readings = log.arrow("counters").select(["name", "value", "unit", "subject", "device", "start_ns"]).to_pylist()
    assert [tuple(row.values()) for row in readings] == [
        ("memory pool allocated", 8192.0, "B", "memory pool 0x63", 0, 42),
        ("memory pool reserved", float(1 << 20), "B", "memory pool 0x63", 0, 42),
    ]
    device, host = memory_peak(log).to_dict("records")
    assert (device["peak"], device["basis"], device["freed_unknown"], host["memory"]) == (12288, "blocks", 64, "host")
    assert pd.isna(device["reserved"]) and pd.isna(device["not_traced"])
    holders = memory_holders(log)
    own = holders[holders["memory"] == "device"]
    assert dict(zip(own["range"], own["bytes"], strict=True)) == {OUTSIDE: 8192, "setup": 4096}
    assert log.line_account["unread"] == 0


def test_traces_without_events_of_memory_have_no_rows(tmp_path: Path) -> None:
    program = Allocator()
    program.around("user_annotation", "load", program.begin())
    log = perflog.read(write(tmp_path / "a.json", program))
    for metric in (memory_peak, memory_holders, memory_curve):
        table = metric(log)
        assert not len(table) and list(table.columns) == [column.name for column in metric.columns]


def test_the_last_event_before_the_end_of_each_step() -> None:
    """The first step allocates for later ones, and a step may end before the first event."""

    def ends(*last: int) -> list[int]:
        curve: Any = SimpleNamespace(before=lambda _: np.array(last), steps=SimpleNamespace(ends=None))
        found: list[int] = step_ends(curve).tolist()
        return found

    assert ends(-1, 0, 3, 5) == [3, 5]
    assert ends(-1, 0, 3) == []
