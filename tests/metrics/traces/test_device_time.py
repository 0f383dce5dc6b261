"""Device time of traces: against a naive sweep of every start and end, on a real trace and on made-up ones."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.field_logs import needs_corpus
from support.metrics_logs import row, rows
from support.trace_tables import Event, by_hand, kernel, raw, real, reduce, step

from perflog.analysis.lint import findings
from perflog.metrics import METRICS, device_kernels, device_time
from perflog.metrics.traces.device_work import step_windows, trace_devices
from perflog.metrics.traces.jobs import jobs

STATES = ("compute", "communication", "memory", "waiting", "idle")
COPY = "Memcpy HtoD (Pinned -> Device)"


# --- the oracle: plain Python, one edge after the other ---------------------------------------------------------------


def sweep(work: list[tuple[int, int, str]], start: int, end: int) -> Counter[str]:
    """Time of each state from start to end, exposed by the order of the states, and `both`: moving while computing."""
    edges = sorted({start, end, *(t for a, b, _ in work for t in (a, b) if start < t < end)})
    begins = sorted(work)
    found: Counter[str] = Counter()
    for a, b in itertools.pairwise(edges):
        running = {state for one, two, state in begins if one <= a and two >= b}
        found[next((state for state in STATES if state in running), "idle")] += b - a
        found["both"] += (b - a) * ({"compute", "communication"} <= running)
        found["moving"] += (b - a) * ("communication" in running)
    return found


def state(event: Event) -> str:
    words = {"nccl": "communication", "Mem": "memory", "event_wait": "waiting"}
    return next((name for word, name in words.items() if event["name"].startswith(word)), "compute")


def check(found: dict[str, Any], want: Counter[str]) -> None:
    for name in STATES:
        assert found[f"{name}_s"] * 1e9 == pytest.approx(want[name], rel=1e-12, abs=1e-3), name
    assert found["communicating_s"] * 1e9 == pytest.approx(want["moving"], rel=1e-12)
    assert found["overlap"] == (pytest.approx(want["both"] / want["moving"]) if want["moving"] else None)
    assert sum(found[f"{name}_s"] for name in STATES) == pytest.approx(found["span_s"])


# --- a real trace -----------------------------------------------------------------------------------------------------


@needs_corpus
@pytest.mark.parametrize(("rank", "kernels", "time", "moving"), [(0, 1154, 606519, 396199), (1, 1104, 651026, 379053)])
def test_kernels_of_the_real_trace(rank: int, kernels: int, time: int, moving: int) -> None:
    found = device_kernels(real(rank))
    named = rows(found, by="name")
    ours = [r for r in named if r["category"] not in ("memcpy", "memset")]
    assert (sum(r["calls"] for r in ours), round(sum(r["time_s"] for r in ours) * 1e6)) == (kernels, time)
    told = row(found, by="category", name="communication")
    assert (told["calls"], round(told["time_s"] * 1e6)) == (10, moving)
    assert sum(r["share_kernel"] for r in named) == pytest.approx(1.0)
    busy = row(device_time(real(rank)), part="trace")["busy_s"]
    assert told["share_busy"] == pytest.approx(moving / 1e6 / busy)


@needs_corpus
@pytest.mark.parametrize("rank", [0, 1])
def test_device_time_of_the_real_trace(rank: int) -> None:
    """The whole and both steps, against the sweep."""
    work = [
        (e["ts"] * 1000, e["ts"] * 1000 + round(e["dur"] * 1000), state(e))
        for e in raw(rank)
        if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    steps = {int(e["name"][13:]): e for e in raw(rank) if e["name"].startswith("ProfilerStep#")}
    found = device_time(real(0, 1))
    mine = rows(found, rank=rank)
    assert [(r["part"], r["step"], r["device"]) for r in mine] == [
        ("trace", None, rank), ("step", 551, rank), ("step", 552, rank)
    ]  # fmt: skip
    check(mine[0], sweep(work, min(work)[0], max(end for _, end, _ in work)))
    for one in mine[1:]:
        at = steps[one["step"]]
        check(one, sweep(work, at["ts"] * 1000, (at["ts"] + round(at["dur"])) * 1000))


# --- made-up traces ---------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["gemm", "ncclKernel_AllReduce_RING_LL_Sum_float", COPY, "event_wait"])
WORK = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 30), NAMES), min_size=1, max_size=12)
CUTS = st.lists(st.integers(-5, 110), min_size=2, max_size=5, unique=True)


@examples(25)
@given(WORK, CUTS)
def test_device_time_is_that_of_the_sweep(work: list[tuple[int, int, str]], cuts: list[int]) -> None:
    base = 1_712_195_495_505_582_988
    cuts = sorted(cuts)
    events = [kernel(base + a, base + a + n, name, kind="memcpy" if name == COPY else "kernel") for a, n, name in work]
    events += [step(k, base + a, base + b) for k, (a, b) in enumerate(itertools.pairwise(cuts))]
    found = device_time(by_hand(events))
    plain = [(a, a + n, state({"name": name})) for a, n, name in work]
    if not any(n for _, n, _ in work):
        assert not len(found)
        return
    some = [one for one in plain if one[1] > one[0]]
    check(row(found, part="trace"), sweep(plain, min(some)[0], max(end for _, end, _ in some)))
    for one in rows(found, part="step"):
        check(one, sweep(plain, cuts[one["step"]], cuts[one["step"] + 1]))


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


def test_shares_have_three_denominators() -> None:
    """Two streams: 60 + 60 ns of kernels in 80 ns; a step of 100 ns has all but 20 ns of the second."""
    events = [kernel(0, 60, "a_gemm"), kernel(20, 80, "b_gemm", stream=8), step(1, -40, 60)]
    found = {r["name"]: r for r in rows(device_kernels(by_hand(events)), by="name")}
    assert [found["a_gemm"][f"share_{of}"] for of in ("kernel", "busy", "step")] == pytest.approx([0.5, 0.75, 0.6])
    assert [found["b_gemm"][f"share_{of}"] for of in ("kernel", "busy", "step")] == pytest.approx([0.5, 0.75, 0.4])
    table = device_kernels(by_hand(events[:2]))
    assert {str(table[name].dtype) for name in ("name", "state", "category")} == {"string"}
    assert [(r["name"], r["calls"], r["share_step"]) for r in rows(table, by="category")] == [("gemm", 2, None)]


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


def test_work_that_runs_outside_of_its_step() -> None:
    """A step launches work that runs after it: the step lasts until that is done, or the next one's work begins."""
    work = [kernel(50, 100, step=1), kernel(100, 130, step=1), kernel(110, 160, step=1, stream=8)]
    work.append(kernel(180, 190, step=2))
    found = rows(device_time(by_hand([*work, step(1, 0, 120), step(2, 120, 200)])), part="step")
    assert [round(r["outside_s"] * 1e9) for r in found] == [40, 0]
    assert [round(r["span_s"] * 1e9) for r in found] == [160, 40]
    assert [round(r["busy_s"] * 1e9) for r in found] == [110, 10]
    overlapping = [kernel(50, 170, step=1), kernel(150, 260, step=2, stream=8)]
    found = rows(device_time(by_hand([*overlapping, step(1, 0, 120), step(2, 120, 200)])), part="step")
    assert [round(r["span_s"] * 1e9) for r in found] == [150, 110]
    assert [round(r["idle_s"] * 1e9) for r in found] == [50, 0]


def test_work_from_before_the_first_step_is_no_time_of_it() -> None:
    """The device lags behind the host: each step begins with its own work, and several in a row lose nothing."""
    work = [kernel(-50, 40), kernel(40, 140, step=1), kernel(140, 240, step=2)]
    found = rows(device_time(by_hand([*work, step(1, 0, 100), step(2, 100, 200)])), part="step")
    assert [(round(r["span_s"] * 1e9), round(r["idle_s"] * 1e9)) for r in found] == [(100, 0), (100, 0)]


LAUNCHED = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), st.sampled_from([None, 3, 5, 4, 9])), min_size=1)


@examples(20)
@given(LAUNCHED)
def test_time_outside_of_steps_is_that_of_sets(work: list[tuple[int, int, int | None]]) -> None:
    windows_ = {5: (5, 20), 3: (20, 35), 4: (40, 50)}  # numbers need not rise
    events = [kernel(a, a + n, step=number, stream=k) for k, (a, n, number) in enumerate(work)]
    found = rows(device_time(by_hand([*events, *(step(k, a, b) for k, (a, b) in windows_.items())])), part="step")
    for one in found:
        low, high = windows_[one["step"]]
        mine = {t for a, n, number in work if number == one["step"] for t in range(a, a + n)}
        want = len(mine - set(range(low, high))) if any(number is not None for *_, number in work) else None
        assert (one["outside_s"] if want is None else round(one["outside_s"] * 1e9)) == want


def test_a_trace_without_device_work_has_no_rows() -> None:
    host = by_hand([step(1, 0, 100), kernel(0, 10, "aten::mm", kind="cpu", device=None)])
    for name in ("device_time", "device_kernels", "collective_wait", "stragglers"):
        assert not len(METRICS[name](host))
    assert trace_devices(host) == []


ODD = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["kernel", "kernel", "memcpy", "runtime", "range", "sync", "overhead", "mark", None]),
        "name": st.sampled_from(["gemm", "ncclDevKernel_AllReduce", "ProfilerStep#3", "cudaLaunchKernel", "", None]),
        "part": st.integers(0, 1),
        "rank": st.sampled_from([None, 0, 1]),
        "device": st.sampled_from([None, 0, 1]),
        "stream": st.sampled_from([None, 0, 7]),
        "start_ns": st.sampled_from([None, 0, -5, 40, 2**61, 1_712_195_495_505_582_988]),
        "duration_ns": st.sampled_from([None, 0, -7, 30, 2**60]),
        "step": st.sampled_from([None, 3]),
        "correlation": st.sampled_from([None, 1, 2]),
        "collective": st.sampled_from([None, "allreduce", "send"]),
        "group": st.sampled_from([None, "0"]),
        "seq": st.sampled_from([None, 1]),
        "bytes": st.sampled_from([None, 0, 100]),
        "ranks": st.sampled_from([None, 1, 2]),
    }
)


@examples(10)
@given(st.lists(ODD, max_size=8))
def test_odd_events_break_nothing(events: list[Event]) -> None:
    tables = by_hand(events or [kernel(0, 1)])
    for name in ("device_time", "device_kernels", "collective_wait", "stragglers"):
        found = METRICS[name](tables)
        assert list(found.columns) == [column.name for column in METRICS[name].columns]
    findings(tables)


def test_rates_of_more_flop_than_an_integer_of_64_bits_holds() -> None:
    events = [kernel(100 * k, 100 * k + 50, "gemm", flops=10**18, bytes=10**18) for k in range(20)]
    (found,) = rows(device_kernels(by_hand(events)), by="name")
    assert found["tflops"] == pytest.approx(2e19 / 1e-6 / 1e12)
    assert found["gbps"] == pytest.approx(2e19 / 1e-6 / 1e9)
