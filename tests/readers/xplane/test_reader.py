"""XSpace files: a real one, a GPU and a TPU, times, steps, kinds, statistics and their account, damaged files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.history_files import field as wire
from support.paths import ROOT
from support.reading import proof_of
from support.xplane_files import MS, Event, PlaneWriter, Reference, gpu_planes, space, tpu_planes, write_space

import perflog
from perflog.errors import InputError
from perflog.readers.events.event_columns import MISSING
from perflog.readers.xplane import events
from perflog.readers.xplane.planes import begins_as_space

REAL = ROOT / "tests" / "traces" / "xplane" / "jax_0_10_cpu.xplane.pb"


def gpu(tmp_path: Path) -> perflog.Log:
    return perflog.read(write_space(tmp_path / "gpu.xplane.pb", *gpu_planes()))


def test_a_real_profile_is_read_in_full() -> None:
    log = perflog.read(REAL)
    assert log.line_account == {"total": 328, "read": 328, "context": 0, "unread": 0}
    assert log.figure_account["unread"] == 0
    steps = log.table("steps")
    # From the file with Google's library: durations of the four events `train` in ps.
    durations = [220_496_931_000, 14_629_664_000, 16_489_342_000, 15_998_491_000]
    assert (steps["step_time_s"] * 1e12).round().tolist() == durations
    assert steps["step"].tolist() == [0, 1, 2, 3]
    events = log.table("events")
    assert (events["thread"] == "python").sum() == 328 - 161
    operators = events[(events["kind"] == "cpu") & events["name"].str.startswith("ynn_fusion")]
    assert set(operators["range"]) == {"jit_step"} and set(operators["step"]) == {0, 1, 2, 3}
    assert json.loads(log.table("runs")["config"][0])["clock"] == "epoch"


def test_work_of_a_gpu_is_joined_with_its_launches(tmp_path: Path) -> None:
    log = gpu(tmp_path)
    events = log.table("events")
    (kernel,) = events[events["name"] == "gemm_fusion_dot"].head(1).to_dict("records")
    assert (kernel["kind"], kernel["device"], kernel["stream"], kernel["step"]) == ("kernel", 0, 14, 0)
    assert (kernel["grid"], kernel["block"], kernel["registers"]) == ("[8, 1, 1]", "[128, 2, 1]", 32)
    assert (kernel["shared_bytes"], kernel["context"]) == (1040, 1)
    assert kernel["start_ns"] == 1_795_000_000_000_000_000 + 1000 + MS // 1000
    (launch,) = events[events["name"] == "cuLaunchKernel"].head(1).to_dict("records")
    assert (launch["kind"], launch["correlation"], launch["range"]) == ("runtime", kernel["correlation"], "forward")
    assert kernel["range"] == "forward"
    assert events.loc[events["name"] == "MemcpyH2D", "bytes"].tolist() == [4096] * 3
    assert events.loc[events["name"] == "jit_step(7)", "kind"].tolist() == ["device_range"]
    assert log.table("runs")["device"].tolist() == ["NVIDIA H100"]


def test_metrics_of_devices_answer(tmp_path: Path) -> None:
    log = gpu(tmp_path)
    times = perflog.metrics.device_time(log)
    (whole,) = times[times["part"] == "trace"].to_dict("records")
    # From 0.5 ms to 28 ms: in each of three steps 4 ms of a kernel, 2 ms of a collective, 0.25 ms of a copy.
    assert whole["span_s"] == pytest.approx(27.5e-3)
    assert (whole["compute_s"], whole["communication_s"]) == (pytest.approx(12e-3), pytest.approx(6e-3))
    assert whole["memory_s"] == pytest.approx(0.75e-3)
    assert times.loc[times["part"] == "step", "step"].tolist() == [0, 1, 2]
    launches = perflog.metrics.launches(log)
    assert launches.loc[launches["part"] == "trace", "launches"].tolist() == [9]
    ranges = perflog.metrics.device_ranges(log)
    steps = ranges[ranges["range"] == "train step N"]
    assert steps["entered"].tolist() == [3] and steps["gpu_s"].tolist() == [pytest.approx(18.75e-3)]


def test_a_trace_without_a_rank_is_drawn(tmp_path: Path) -> None:
    """Ranks that are not known are no part of the title."""
    figure = perflog.plots.device_ranges(gpu(tmp_path))
    assert ["rank" in axes.get_title(loc="left") for axes in figure.axes] == [False]


def test_operations_of_a_tpu_have_their_work(tmp_path: Path) -> None:
    log = perflog.read(write_space(tmp_path / "tpu.xplane.pb", *tpu_planes()))
    events = log.table("events")
    (fusion, _) = events[events["name"] == "fusion.1"].to_dict("records")
    assert (fusion["kind"], fusion["category"], fusion["flops"]) == ("kernel", "convolution fusion", 3_000_000)
    assert (fusion["bytes"], fusion["stack"], fusion["step"]) == (2_000_000, "jit(step)/dot_general", 0)
    assert set(events.loc[events["kind"] == "device_range", "name"]) == {"0", "1", "jit_step(9)"}
    kernels = perflog.metrics.device_kernels(log)
    (row,) = kernels[kernels["name"] == "fusion.1"].to_dict("records")
    assert row["tflops"] == pytest.approx(2 * 3e6 / 10e-3 / 1e12)
    assert row["gbps"] == pytest.approx(2 * 2e6 / 10e-3 / 1e9)
    assert row["category"] == "convolution"  # as the profiler says: its name tells nothing


def test_a_step_ends_with_its_number(tmp_path: Path) -> None:
    names = ["my step 4", "load step 3 of data", "step 12345678901", "train_step 5"]
    plane = PlaneWriter("/host:CPU").line("python", [Event(name, i * 10**6, 1000) for i, name in enumerate(names)])
    log = perflog.read(write_space(tmp_path / "a.xplane.pb", plane))
    assert log.table("steps")["step"].tolist() == [4, 5]


def test_begin_and_end_are_rounded_apart(tmp_path: Path) -> None:
    """Events that follow each other still do, and the sum of their durations is that of the whole."""
    events = [Event(f"e{i}", i * 1500, 1500) for i in range(5)]
    plane = PlaneWriter("/host:CPU").line("python", events, 10)
    table = perflog.read(write_space(tmp_path / "a.xplane.pb", plane)).table("events")
    ends = (table["start_ns"] + table["duration_ns"]).tolist()
    assert table["start_ns"].tolist() == [10, 12, 13, 15, 16]
    assert ends == [12, 13, 15, 16, 18]


def test_statistics_that_nobody_declared_are_values_or_unread(tmp_path: Path) -> None:
    stats = {"batch": 32, "ratio": 0.5, "note": "x7", "_src": Reference("a.cc"), "bytes_accessed": 7}
    plane = PlaneWriter("/host:CPU").line("python", [Event("a", 0, 1000, stats)])
    log = perflog.read(write_space(tmp_path / "a.xplane.pb", plane))
    assert log.table("values")[["line", "key", "value"]].values.tolist() == [[1, "batch", 32], [1, "ratio", 0.5]]
    assert log.figure_account == {"total": 5, "stored": 3, "dropped": 1, "unread": 1}


def test_two_statistics_of_one_name_fill_one_column(tmp_path: Path) -> None:
    def of(number: int, value: int) -> bytes:
        return wire(4, wire(1, 1) + wire(2, 0) + wire(3, 1000) + wire(4, wire(1, number) + wire(4, value)))

    def named(number: int, name: str) -> bytes:
        return wire(1, number) + wire(2, wire(1, number) + wire(2, name))

    line = wire(3, wire(1, 1) + wire(2, "python") + of(1, 10) + of(2, 20))
    stats = b"".join(wire(5, named(number, "correlation_id")) for number in (1, 2))
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(wire(1, wire(2, "/host:CPU") + line + wire(4, named(1, "a")) + stats))
    log = perflog.read(path)
    assert log.table("events")["correlation"].tolist() == [10, 20]
    assert log.figure_account["stored"] == 2


def test_numbers_that_64_bits_do_not_hold_are_unknown(tmp_path: Path) -> None:
    digits = "9" * 19
    copy = {"memcpy_details": f"kind:MEMCPYH2D size:{'1' * 19}"}
    kernel = {"kernel_details": "regs:32 static_shared:1234567890123456 " + f"dynamic_shared:{'9' * 18} " * 20}
    plane = PlaneWriter(f"/device:GPU:{digits}").line(
        f"Stream #{digits}(Compute)", [Event("a", 0, 1000, copy), Event("b", 0, 1000, kernel)]
    )
    events = perflog.read(write_space(tmp_path / "a.xplane.pb", plane)).arrow("events").to_pylist()
    found = [[row[name] for name in ("device", "stream", "bytes", "registers", "shared_bytes")] for row in events]
    assert found == [[None, None, None, None, None], [None, None, None, 32, None]]


def test_a_cut_file_has_all_whole_planes(tmp_path: Path) -> None:
    data = space(*gpu_planes())
    host = perflog.read(write_space(tmp_path / "host.xplane.pb", gpu_planes()[0])).line_account["read"]
    path = tmp_path / "cut.xplane.pb"
    path.write_bytes(data[: data.index(b"/device:GPU:0") + 30])
    log = perflog.read(path)
    assert log.line_account["read"] == host and log.line_account["unread"] == 1
    assert any("cut or damaged" in warning for warning in log.warnings)


def test_a_damaged_event_costs_only_itself(tmp_path: Path) -> None:
    events = [Event(name, 0, 1000) for name in ("a", "b", "c")]
    data = space(PlaneWriter("/host:CPU").line("python", events))
    broken = data.replace(b"\x08\x02\x10\x00", b"\x0f\x02\x10\x00", 1)  # wire type 7
    assert broken != data
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(broken)
    log = perflog.read(path)
    assert log.table("events")["name"].tolist() == ["a", "c"]
    assert log.line_account == {"total": 3, "read": 2, "context": 0, "unread": 1}


def test_a_profile_without_events_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no events"):
        perflog.read(write_space(tmp_path / "a.xplane.pb", PlaneWriter("/host:CPU")))


def test_hosts_are_ranks(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_space(tmp_path / f"host{rank}_rank{rank}.xplane.pb", *gpu_planes())
    log = perflog.read(tmp_path)
    assert sorted(set(log.table("events")["rank"])) == [0, 1]


@pytest.mark.parametrize(
    "text", [b"\n\nstep 1 loss 2\n", b"\n\x12\n", b"", b"\n", b"\nabc", b"\n\x80", b"\x0a\x05\x12\x80"]
)
def test_other_files_are_none(text: bytes) -> None:
    assert not begins_as_space(text)


def test_the_proof_is_the_planes(tmp_path: Path) -> None:
    proof = proof_of(write_space(tmp_path / "gpu.xplane.pb", *gpu_planes()))
    assert proof[:2] == [(1, "plane", "/host:CPU: 1 lines"), (1, "plane", "/device:GPU:0: 3 lines")]


def test_kinds_of_events_of_the_host(tmp_path: Path) -> None:
    """By what their statistics or those that events of a name share say, else by their names and their thread."""
    source, operator = {"_src": Reference("a.cc")}, {"hlo_op": "dot.1"}
    events = [
        Event("own range", 0, 1000), Event("own source", 1, 1000, source), Event("shared source", 2, 1000),
        Event("both sources", 3, 1000, source), Event("$train.py:3 step", 4, 1000), Event("jit(step)", 5, 1000),
        Event("xla::Run", 6, 1000), Event("operator", 7, 1000, operator), Event("shared operator", 8, 1000),
        Event("launch", 9, 1000, {"correlation_id": 7}), Event("train", 10, 1000, {"step_num": 4} | source),
    ]  # fmt: skip
    shared: dict[str, Mapping[str, Any]] = {
        "shared source": source,
        "both sources": source,
        "shared operator": operator,
    }
    python = PlaneWriter("/host:CPU", shared=shared).line("python", events)
    pool = PlaneWriter("/host:CPU").line("pool/3", [Event("of a pool", 11, 1000)], number=2)
    calls = PlaneWriter("/host:CUPTI").line("thread", [Event("cudaLaunchKernel", 12, 1000)])
    found = perflog.read(write_space(tmp_path / "a.xplane.pb", python, pool, calls)).arrow("events").to_pylist()
    assert {row["name"]: row["kind"] for row in found} == {
        "own range": "range", "own source": "library", "shared source": "library", "both sources": "library",
        "$train.py:3 step": "python", "jit(step)": "cpu", "xla::Run": "library", "operator": "cpu",
        "shared operator": "cpu", "launch": "runtime", "train step 4": "range", "of a pool": "library",
        "cudaLaunchKernel": "runtime",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("regs:32 static_shared:16 dynamic_shared:1024", (32, 1040)), ("static_shared:0", (MISSING, 0)),
        ("regs:99999999999999999999", (MISSING, MISSING)), ("", (MISSING, MISSING)),
    ],
)  # fmt: skip
def test_what_a_kernel_takes_of_a_processor(text: str, numbers: tuple[int, int]) -> None:
    """As the profiler writes it in one text."""
    assert (events._number(events._REGISTERS)(text), events._shared_bytes(text)) == numbers


@pytest.mark.parametrize(
    ("base", "offset", "length", "times"),
    [
        (1000, 1499, 0, (1001, 0)), (1000, 1500, 0, (1002, 0)), (1000, 1500, 1500, (1002, 1)), (0, 0, 499, (0, 0)),
        (0, -1500, 3000, (-1, 3)), (0, 1 << 62, 5, (MISSING, MISSING)), (0, 5, 1 << 62, (MISSING, MISSING)),
        (1 << 62, 5, 5, (MISSING, MISSING)),
    ],
)  # fmt: skip
def test_picoseconds_are_rounded_to_whole_nanoseconds(
    base: int, offset: int, length: int, times: tuple[int, int]
) -> None:
    """Begin and end by themselves, so that events that touch still do."""
    start, duration = events._times(base, np.array([offset]), np.array([length]))
    assert (start.item(), duration.item()) == times


@pytest.mark.parametrize(
    ("text", "dimensions"),
    [
        ("grid:8,1,1 block:128,2,1", ("[8, 1, 1]", "[128, 2, 1]")),
        ("grid:8,1,1", ("[8, 1, 1]", None)),
        ("", (None, None)),
    ],
)
def test_the_dimensions_of_a_launch(text: str, dimensions: tuple[str | None, str | None]) -> None:
    words: list[str] = []

    def code(word: str) -> int:
        words.append(word)
        return len(words) - 1

    found = [events._dimensions(pattern, code)(text) for pattern in (events._GRID, events._BLOCK)]
    assert [words[each] if each >= 0 else None for each in found] == [*dimensions] and min(found) >= -1


def test_names_of_steps() -> None:
    assert [events._step_name(name, 3) for name in ("train", "train_step")] == ["train step 3", "train_step 3"]


def test_values_fill_a_column_where_they_are_known() -> None:
    column = np.array([5, 5, 5])
    events._fill(column, np.array([2, 0]), np.array([7, MISSING]), MISSING)
    assert column.tolist() == [5, 5, 7]


def test_the_process_of_a_host_is_its_number_that_of_a_device_the_device(tmp_path: Path) -> None:
    found = {}
    for name in ("/host:CPU", "/device:GPU:1"):
        plane = PlaneWriter(name, stats={"process_id": 77}).line("Stream #7", [Event("a", 0, MS), Event("b", MS, MS)])
        plane.line("Stream #8", [Event("c", 2 * MS, MS)], number=2)
        table = perflog.read(write_space(tmp_path / "x.xplane.pb", plane)).table("events")
        found[name] = (set(table["process"]), [*table["line"]])
    assert found == {"/host:CPU": ({"77"}, [1, 2, 3]), "/device:GPU:1": ({"/device:GPU:1"}, [1, 2, 3])}
