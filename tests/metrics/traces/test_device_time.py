"""Device time of traces: against a naive sweep of every start and end, on a real trace and on made-up ones."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.field_logs import needs_corpus
from support.metrics_logs import row, rows
from support.trace_tables import Event, by_hand, in_ns, kernel, raw, real, small, step

from perflog.analysis.lint import findings
from perflog.metrics import METRICS, device_kernels, device_time
from perflog.metrics.compared import Steady
from perflog.metrics.traces.device_time import _samples, wholes_of_traces
from perflog.metrics.traces.device_work import trace_devices

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


def test_shares_have_three_denominators() -> None:
    """Two streams: 60 + 60 ns of kernels in 80 ns; a step of 100 ns has all but 20 ns of the second."""
    events = [kernel(0, 60, "a_gemm"), kernel(20, 80, "b_gemm", stream=8), step(1, -40, 60)]
    found = {r["name"]: r for r in rows(device_kernels(by_hand(events)), by="name")}
    assert [found["a_gemm"][f"share_{of}"] for of in ("kernel", "busy", "step")] == pytest.approx([0.5, 0.75, 0.6])
    assert [found["b_gemm"][f"share_{of}"] for of in ("kernel", "busy", "step")] == pytest.approx([0.5, 0.75, 0.4])
    table = device_kernels(by_hand(events[:2]))
    assert {str(table[name].dtype) for name in ("name", "state", "category")} == {"string"}
    assert [(r["name"], r["calls"], r["share_step"]) for r in rows(table, by="category")] == [("gemm", 2, None)]


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


def test_work_that_a_step_launched_and_that_runs_outside_it() -> None:
    """Step 5 comes before step 3. Each has work inside and after both."""
    events = [step(5, 0, 100), step(3, 100, 200)]
    events += [kernel(50, 100, step=5), kernel(150, 190, step=3)]
    events += [kernel(210, 230, step=5), kernel(230, 240, step=3), kernel(235, 241, step=3, stream=8)]
    found = {r["step"]: r["outside_s"] * 1e9 for r in rows(device_time(by_hand(events)), part="step")}
    assert found == pytest.approx({5: 20, 3: 11})


def test_work_of_each_part_is_counted_where_it_starts() -> None:
    events = [
        step(1, 0, 50),
        step(2, 50, 100),
        step(3, 100, 120),
        kernel(10, 20),
        kernel(30, 70),
        kernel(60, 90, stream=8),
    ]
    found = rows(device_time(by_hand(events)))
    assert [(r["part"], r["events"], r["first_line"]) for r in found] == [
        ("trace", 3, 4), ("step", 2, 4), ("step", 1, 6), ("step", 0, 4)
    ]  # fmt: skip


def test_kernels_that_wait_add_up_over_the_streams() -> None:
    """Exposed, they only wait until a kernel computes."""
    events = [kernel(0, 30, "event_wait", stream=7), kernel(10, 40, "event_wait", stream=8), kernel(20, 60, stream=9)]
    (found,) = rows(device_time(by_hand(events)))
    assert (found["waiting_kernels_s"], found["waiting_s"]) == pytest.approx((60e-9, 20e-9))
    (found,) = rows(device_time(by_hand(events[2:])))
    assert (found["waiting_kernels_s"], found["waiting_s"]) == (0, 0)


@pytest.mark.parametrize(("work", "part"), [([2, 1], "step"), ([2, 0], "trace"), ([0, 0], "trace")])
def test_the_whole_of_a_trace_is_its_steps_where_all_devices_work_in_them(work: list[int], part: str) -> None:
    """Ranks and devices may be unknown."""
    table = pd.DataFrame(
        {"run": "r", "rank": rank, "device": None, "device_name": None, "part": name, "span_s": 2.0, "idle_s": idle}
        for rank, busy in zip((None, 1), work, strict=True)
        for name, idle in (("trace", 1.0), ("step", 2.0 - busy), ("step", 2.0))
    )
    assert set(wholes_of_traces(table)["part"]) == {part}
    assert len(wholes_of_traces(table)) == (4 if part == "step" else 2)
    other = table.assign(run="other", span_s=table["idle_s"])  # a run without work has no steps that count
    both = wholes_of_traces(pd.concat([table, other], ignore_index=True))
    assert both.groupby("run")["part"].unique().map(list).to_dict() == {"r": [part], "other": ["trace"]}


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


def test_what_comparisons_read_of_each_step() -> None:
    """Means over two devices; the overlap only of steps with communication."""
    spans = {0: [("gemm", 0, 50), ("nccl", 40, 70)], 1: [("gemm", 0, 10), ("nccl", 10, 20)]}
    events = [step(n, 100 * n, 100 * n + 100) for n in range(3)]
    for device, of_step in spans.items():
        for n in range(3):
            for name, start, end in of_step[: 1 if n == 1 else 2]:
                kernel_name = "ncclDevKernel_AllReduce" if name == "nccl" else name
                events.append(kernel(100 * n + start, 100 * n + end, kernel_name, device=device))
    found = {measure.name: values.tolist() for measure, _, values in _samples(by_hand(events), Steady({"r": 0}, {}))}
    assert found["compute"] == pytest.approx([30e-9] * 3)
    assert found["exposed_communication"] == pytest.approx([15e-9, 0, 15e-9])
    assert found["idle"] == pytest.approx([55e-9, 70e-9, 55e-9])
    assert found["busy"] == pytest.approx([0.45, 0.3, 0.45])
    assert found["overlap"] == pytest.approx([0.25] * 2)
    assert found["exposed_memory"] == [0.0] * 3
    for some, of in ((events, "step_time"), (events[3:], None)):  # without steps, of the whole trace
        assert {measure.of for measure, _, _ in _samples(by_hand(some), Steady({"r": 0}, {}))} == {of, None}


def test_all_columns_of_a_small_trace() -> None:
    """Of the copy 30 ns are exposed, of the collective all 120."""
    same = {"rank": 0, "device": 0, "device_name": "H100", "waiting_s": 0, "waiting_share": 0, "outside_s": None}
    whole, first, second = in_ns(device_time(small()))
    times = {"compute_s": 300, "communication_s": 120, "memory_s": 30, "idle_s": 200}
    shares = {f"{name.removesuffix('_s')}_share": pytest.approx(time / 650) for name, time in times.items()}
    assert whole == same | times | shares | {
        "part": "trace", "step": None, "span_s": 650, "busy_s": 450, "communicating_s": 120, "overlap": 0,
        "waiting_kernels_s": 0, "events": 6, "first_line": 5,
    }  # fmt: skip
    assert first == same | {
        "part": "step", "step": 1, "span_s": 400, "compute_s": 120, "communication_s": 120, "memory_s": 30,
        "idle_s": 130, "busy_s": 270, "compute_share": 0.3, "communication_share": 0.3, "memory_share": 0.075,
        "idle_share": 0.325, "communicating_s": 120, "overlap": 0, "waiting_kernels_s": 0, "events": 4, "first_line": 5,
    }  # fmt: skip
    assert second == same | {
        "part": "step", "step": 2, "span_s": 600, "compute_s": 180, "communication_s": 0, "memory_s": 0,
        "idle_s": 420, "busy_s": 180, "compute_share": 0.3, "communication_share": 0, "memory_share": 0,
        "idle_share": 0.7, "communicating_s": 0, "overlap": None, "waiting_kernels_s": 0, "events": 2, "first_line": 17,
    }  # fmt: skip
