"""Device work of traces: what is work, of which device, in which state, and the steps of its process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.metrics_logs import row, rows
from support.trace_tables import Event, by_hand, kernel, reduce, step

from perflog.metrics import Tables, device_kernels, device_time
from perflog.metrics.traces import device_work as module
from perflog.metrics.traces.collectives.jobs import jobs
from perflog.metrics.traces.device_work import STATES as WORK_STATES
from perflog.metrics.traces.device_work import exposed_of, step_windows, trace_devices

STATES = ("compute", "communication", "memory", "waiting", "idle")
COPY = "Memcpy HtoD (Pinned -> Device)"


def test_what_lies_over_kernels_is_no_work() -> None:
    """A range's image on the device, a wait for an event, what spans all, host ranges: none of them counts."""
    over = [
        kernel(0, 900, "## forward ##", kind="device_range"),
        kernel(0, 900, "nccl:all_reduce", kind="device_range"),
        kernel(300, 900, "Event Sync", kind="sync"),
        kernel(300, 900, "Stream Wait Event", kind="kernel"),  # where a tool calls it one
        kernel(0, 900, "PyTorch Profiler (0)", kind="span", device=None),
        kernel(0, 900, "nccl:all_reduce", kind="range", device=None),
        kernel(0, 900, "cudaLaunchKernel", kind="runtime", device=None),
        kernel(0, 900, "lost", duration_ns=None),
        kernel(0, 900, "wrong", duration_ns=-5),
    ]
    work = [kernel(100, 200), reduce(150, 400), kernel(600, 700, COPY, kind="memcpy")]
    found = row(device_time(by_hand([*over, *work])))
    assert (found["span_s"], found["busy_s"], found["events"]) == (pytest.approx(600e-9), pytest.approx(400e-9), 3)
    assert [found[f"{s}_s"] for s in STATES] == pytest.approx([100e-9, 200e-9, 100e-9, 0, 200e-9])
    assert found["overlap"] == pytest.approx(50 / 250)
    assert {r["name"] for r in rows(device_kernels(by_hand([*over, *work])), by="name")} == {
        "gemm", work[1]["name"], COPY,
    }  # fmt: skip


def test_work_that_only_waits_is_neither_busy_nor_idle() -> None:
    """Two queues wait for a third one; where it works, its work counts."""
    work = [
        kernel(0, 80, "event_wait", stream=1), kernel(10, 100, "EVENT_WAIT_SQE", stream=2),
        kernel(20, 60, stream=3), kernel(120, 150, stream=1),
    ]  # fmt: skip
    found = row(device_time(by_hand(work)), part="trace")
    assert [found[f"{s}_s"] for s in STATES] == pytest.approx([70e-9, 0, 0, 60e-9, 20e-9])
    assert (found["busy_s"], found["waiting_kernels_s"]) == pytest.approx((70e-9, 170e-9))
    assert (found["waiting_share"], found["idle_share"]) == pytest.approx((60 / 150, 20 / 150))


def test_each_file_device_and_rank_is_by_itself() -> None:
    events = [
        kernel(0, 10), kernel(5, 20, device=1), kernel(0, 40, rank=1, part=1), kernel(0, 80, rank=None, part=2),
        kernel(0, 90, rank=None, part=3), kernel(0, 5, rank=None, part=4, device=None, stream=None),
    ]  # fmt: skip
    found = rows(device_time(by_hand(events)))
    told = [(r["rank"], r["device"], round(r["span_s"] * 1e9)) for r in found]
    assert told == [(0, 0, 10), (0, 1, 15), (1, 0, 40), (None, 0, 80), (None, 0, 90), (None, None, 5)]


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["ProfilerStep#7", "ProfilerStep#8"], [7, 8]),
        (["iteration 1", "iteration 2"], [1, 2]),
        (["train_step_10", "train_step_11"], [10, 11]),
        (["Optimizer.step#AdamW.step", "micro-batch 3"], []),
        (["stepping 5", "epoch 1"], []),
    ],
)
def test_names_of_steps(names: list[str], numbers: list[int]) -> None:
    events = [kernel(0, 50), *(step(0, 100 * k, 100 * k + 90) | {"name": name} for k, name in enumerate(names))]
    steps = next((by_process[None] for by_process in step_windows(by_hand(events)).values()), None)
    assert (steps.numbers.tolist() if steps else []) == numbers


def test_of_steps_in_steps_the_outer_ones_count() -> None:
    inner = [step(k, 100 * k, 100 * k + 40) | {"name": f"iter {k}"} for k in (1, 2)]
    again = [step(1, 100, 120), step(1, 90, 190), step(2, 190, 290)]  # a step told by two threads
    steps = step_windows(by_hand([kernel(0, 10), *inner, *again]))["r", 0][None]
    assert (steps.numbers.tolist(), steps.starts.tolist(), steps.ends.tolist()) == ([1, 2], [90, 190], [190, 290])


def test_of_steps_in_steps_the_ones_count_that_number_the_work() -> None:
    outer = [step(k, 100 * k, 100 * k + 90) | {"name": f"train_step {k - 1}", "step": None} for k in (1, 2)]
    inner = [step(k, 100 * k, 100 * k + 40) for k in (1, 2)]
    work = [kernel(100 * k + 20, 100 * k + 120, step=k) for k in (1, 2)]
    (device,) = trace_devices(by_hand([*outer, *inner, *work]))
    assert (device.steps.numbers.tolist(), device.steps.ends.tolist()) == ([1, 2], [220, 320])


def test_each_device_has_the_steps_of_the_process_that_launched_its_work() -> None:
    """Two processes of a node in one file: each device computes half of its own steps, at other times."""
    events = []
    for process, device, shift in (("7", 0, 0), ("8", 1, 1000)):
        steps = [step(n, shift + 100 * n, shift + 100 * n + 100, process=process, rank=None) for n in (1, 2)]
        work = [kernel(s["start_ns"], s["start_ns"] + 50, device=device, process=process, rank=None) for s in steps]
        events += steps + work
    found = rows(device_time(by_hand(events)), part="step")
    assert [(r["device"], r["step"], r["compute_share"]) for r in found] == [
        (0, 1, 0.5),
        (0, 2, 0.5),
        (1, 1, 0.5),
        (1, 2, 0.5),
    ]


def test_the_call_names_the_process_where_the_work_names_the_device() -> None:
    """Chrome traces: the process of a kernel is its device."""
    events = []
    for process, device, shift in (("70", 0, 0), ("80", 1, 1000)):
        calls = {"kind": "runtime", "device": None, "process": process, "correlation": device + 5}
        events += [
            step(1, shift, shift + 100, process=process), kernel(shift, shift + 1, "cudaLaunchKernel", **calls),
            kernel(shift, shift + 25, device=device, process=str(device), correlation=device + 5),
        ]  # fmt: skip
    found = rows(device_time(by_hand(events)), part="step")
    assert [(r["device"], r["compute_share"]) for r in found] == [(0, 0.25), (1, 0.25)]


def test_calls_of_two_processes_with_one_number_name_no_process() -> None:
    steps = [step(1, 100 * k, 100 * k + 100, process=str(k)) for k in range(2)]
    calls = [kernel(9, 9, "launch", kind="runtime", process=str(k), correlation=1) for k in range(2)]
    table = device_time(by_hand([*steps, *calls, kernel(100, 150, process="9", correlation=1)]))
    assert set(table["part"]) == {"trace"}  # no step is certain


def test_work_of_a_merged_trace_goes_by_label() -> None:
    labels = ["[TP00]", "[TP01]"]
    steps = [step(1, 100 * k, 100 * k + 100, process=f"{of} 77", rank=None) for k, of in enumerate(labels)]
    work = [kernel(100 * k, 100 * k + 50, process=f"{of} 0", rank=None, device_name=of) for k, of in enumerate(labels)]
    tables = by_hand([*steps, *work])
    shares = [(r["device_name"], r["compute_share"]) for r in rows(device_time(tables), part="step")]
    assert shares == [("[TP00]", 0.5), ("[TP01]", 0.5)]
    (job,) = jobs(tables)
    assert [job.name(place) for place in range(2)] == ["[TP00], device 0", "[TP01], device 0"]


def test_devices_without_a_number_are_told_apart_by_name_and_context() -> None:
    names: dict[str, Any] = {"device": None, "device_name": "Tesla V100-SXM2"}
    events = [
        kernel(0, 100, context=1, **names),
        kernel(0, 10, context=2, **names),
        kernel(90, 100, context=2, **names),
    ]
    found = rows(device_time(by_hand(events)), part="trace")
    assert [(r["device_name"], r["compute_share"]) for r in found] == [
        ("Tesla V100-SXM2, context 1", 1.0), ("Tesla V100-SXM2, context 2", 0.2)
    ]  # fmt: skip


def test_a_graph_traced_as_a_whole_is_work() -> None:
    events = [kernel(0, 10), kernel(10, 90, "CUDA graph 3", kind="graph"), kernel(90, 100)]
    found = row(device_time(by_hand(events)), part="trace")
    assert (found["idle_share"], found["compute_share"], found["events"]) == (0.0, 1.0, 3)


PIECES = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1, 3]), st.sampled_from([None, 0, 2, 70_000]), st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, 4, 5]), st.integers(0, 30), st.integers(0, 9),
    ),
    min_size=1, max_size=12,
)  # fmt: skip


@given(PIECES)
def test_devices_are_told_apart_by_rank_number_and_name(pieces: list[tuple[Any, ...]]) -> None:
    """With the context where a named device has no number; each device has its work in order of time."""
    events: list[Event] = []
    expected: dict[Any, list[tuple[int, int, int]]] = {}
    for line, (rank, device, name, context, start, length) in enumerate(pieces, 1):
        more = {"rank": rank, "device": device, "device_name": name, "context": context}
        events.append(kernel(start, start + length, **more))
        in_context = name is not None and device is None and context is not None
        key = rank, device, f"{name}, context {context}" if in_context else name
        expected.setdefault(key, []).append((start, line, length))
    found = trace_devices(by_hand(events))
    keys = [(each.rank, each.device, each.device_name) for each in found]
    assert keys == sorted(expected, key=lambda key: [(value is None, value) for value in key])
    for key, device in zip(keys, found, strict=True):
        pieces_of = sorted(expected[key], key=lambda piece: piece[0])
        assert device.work.rows["line"].tolist() == [line for _, line, _ in pieces_of]
        assert device.work.starts.tolist() == [start for start, *_ in pieces_of]
        assert device.work.ends.tolist() == [start + length for start, _, length in pieces_of]
        some = [(start, start + length) for start, _, length in pieces_of if length]
        assert device.span == (max(end for _, end in some) - min(some)[0] if some else 0)
        assert device.busy == len({t for start, end in some for t in range(start, end)})


SOME_NAMES = {"gemm": 0, "ncclDevKernel_AllReduce": 1, COPY: 2, "event_wait": 3}


@given(st.lists(st.tuples(st.sampled_from([*SOME_NAMES]), st.integers(0, 30), st.integers(1, 9)), min_size=1))
def test_each_moment_counts_for_its_first_state(pieces: list[tuple[str, int, int]]) -> None:
    kinds = {COPY: "memcpy"}
    events = [kernel(a, a + n, name, kind=kinds.get(name, "kernel")) for name, a, n in pieces]
    (device,) = trace_devices(by_hand(events))
    states, exposed = device.work.states(), exposed_of(device.work.states())
    moments = [{t for each, a, n in pieces if each == name for t in range(a, a + n)} for name in SOME_NAMES]
    before: set[int] = set()
    for state, times in zip(WORK_STATES, moments, strict=True):
        assert states[state].length == len(times)
        assert exposed[state].length == len(times - before)
        before |= times
    assert sum(device.work.waiting) == sum(name == "event_wait" for name, *_ in pieces)
    moving = [at for at, (name, *_) in enumerate(pieces, 1) if name.startswith("nccl")]
    assert sorted(device.work.messages["line"].tolist()) == moving


def test_the_profilers_category_counts_where_no_name_is_known() -> None:
    """The same unknown name, as a kernel of another category."""
    events = [kernel(0, 10, "xyz", category="HCCL"), kernel(10, 30, "xyz"), kernel(30, 35, "gemm", category="HCCL")]
    (device,) = trace_devices(by_hand([*events, kernel(40, 44, "abc", category="COMMUNICATION")]))
    does = [device.work.categories[code] for code in device.work.does]
    assert does[1] == "other" and does[2] == "gemm"


def test_events_without_times_are_no_work() -> None:
    events = [kernel(5, 9, start_ns=None), kernel(5, 9, duration_ns=None), kernel(5, 4), kernel(7, 7), kernel(8, 9)]
    (device,) = trace_devices(by_hand(events))
    assert device.work.rows["line"].tolist() == [4, 5]


def test_steps_of_one_number_are_the_longest_in_order_of_time() -> None:
    ranges = [(4, 0, 10), (2, 20, 30), (2, 18, 31), (9, 40, 45), (4, 1, 9)]
    events = [step(number, start, end) for number, start, end in ranges]
    steps = step_windows(by_hand([kernel(0, 10), *events]))["r", 0][None]
    assert steps.numbers.tolist() == [4, 2, 9]
    assert (steps.starts.tolist(), steps.ends.tolist()) == ([0, 18, 40], [10, 31, 45])
    assert steps.lines.tolist() == [2, 4, 5]


def test_the_process_with_most_launches_has_the_steps_of_a_device() -> None:
    """Three calls of one process and one of the other launched work of the only device."""
    steps = [step(1, 1000 * k, 1000 * k + 100, process=str(k)) for k in (1, 2)]
    launches = [(1, "1"), (2, "2"), (3, "2"), (4, "2")]
    calls = [kernel(9, 9, "launch", kind="runtime", process=process, correlation=n) for n, process in launches]
    work = [kernel(2000 + n, 2001 + n, process="9", correlation=n) for n, _ in launches]
    (device,) = trace_devices(by_hand([*steps, *calls, *work]))
    assert device.annotated.starts.tolist() == [2000]


def test_without_annotated_steps_a_device_has_its_iterations() -> None:
    names = [*"abcdefghijkl", "multi_tensor_adam"]
    work = [kernel(200 * n + 10 * k, 200 * n + 10 * k + 9, name) for n in range(12) for k, name in enumerate(names)]
    (device,) = trace_devices(by_hand(work))
    assert len(device.steps.numbers) >= 10 and not len(device.annotated.numbers)
    assert np.diff(device.steps.starts).tolist() == [200] * (len(device.steps.starts) - 1)
    (annotated,) = trace_devices(by_hand([*work, step(1, 0, 50)]))
    assert annotated.steps.numbers.tolist() == [1]


@pytest.mark.parametrize(("most", "is_held"), [(3, False), (4, True)])
def test_work_that_is_too_much_to_hold_is_read_again(most: int, is_held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs with two kernels each; `test_work_store.py` compares metrics of larger ones."""
    monkeypatch.setattr(module, "_MOST_HELD", most)
    one, two = trace_devices(Tables(by_hand([kernel(k, k + 1, run=run) for run in "rs" for k in (0, 10)])))
    held = one.work
    assert two.work is two.work and (one.work is held) == is_held
    assert one.work.rows["line"].tolist() == [1, 2] and two.work.rows["line"].tolist() == [3, 4]


def test_the_category_of_work() -> None:
    """Of kernels by their name, which may be unknown; a copy, a memset and a graph are what they are."""
    assert module._work_category("kernel", "ncclDevKernel_AllReduce") == "communication"
    assert module._work_category("kernel", None) == module._work_category("kernel", "") == "other"
    assert [module._work_category(kind, "gemm") for kind in ("memcpy", "graph")] == ["memcpy", "graph"]
