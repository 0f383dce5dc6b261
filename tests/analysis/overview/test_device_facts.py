"""Sentences on the devices of a trace: when each is a reason, and what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.metric_tables import replace_table
from support.metrics_logs import by_hand

from perflog.analysis.overview.facts import device_facts as module
from perflog.metrics import Options, Tables
from perflog.metrics.causes.cause import REPLAY
from perflog.metrics.profiles.kernel_names import short_kernel
from perflog.metrics.traces.over_time.memory_holders import NOT_TRACED
from perflog.metrics.traces.start_up import CAPTURE, COMPILATION
from perflog.metrics.traces.work_tree import OUTSIDE, PATH_MARK, UNKNOWN

NAN = math.nan
TABLES: Any = None  # each table that a sentence needs is replaced


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "wholes_of_traces", lambda rows: rows[rows["part"] == "trace"])
    monkeypatch.setattr(module, "devices_without_peers", lambda _: {})
    return partial(replace_table, monkeypatch, module)


def said(sentences: Any, *more: Any) -> list[str]:
    return list(sentences(TABLES, "r", Options(), *more))


# --- ranks and idle time ------------------------------------------------------------------------------------------


def late(rank: int | None, share: float, imposed: float = 1.0, **more: Any) -> dict[str, Any]:
    usual = {
        "rank": rank,
        "device": 7,
        "device_name": "H100",
        "imposed_s": imposed,
        "imposed_share": share,
        "last_share": 0.5,
    }
    return usual | {"collectives": 1200, "reason": None} | more


def doing(
    rank: int | None, what: str, name: str | None, time: float, typical: float, device: int = 7
) -> dict[str, Any]:
    return {
        "rank": rank, "device": 7, "doing": what, "name": name, "time_s": time, "typical_s": typical,
        "longer_s": time - typical, "ratio": time / typical if typical else NAN, "of_span": (time - typical) / 10,
    }  # fmt: skip


COMES_LAST = "Rank 2 comes last in 50 % of its 1,200 collectives"


@pytest.fixture
def late_ranks(table: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces the ranks that come last, what they do, and the causes of the run."""

    def replace(
        gain: float | None,
        *did: dict[str, Any],
        binds: bool = False,
        of: str = "trace",
        times: Sequence[float] = (0.1, 0.1, 0.1, 0.1),
    ) -> list[str]:
        table("stragglers", late(1, 0.05, 1.0), late(2, 0.1, 2.0), late(3, 0.03, 9.0), **late(4, 0.9, 99.0))
        table("lateness", *did, doing(1, "idle", "x", 0.9, 0.1), **doing(2, "idle", "y", 0.9, 0.1))
        cost = {"subject": "rank", "rank": 2, "device": 7, "metric": REPLAY, "gain": gain, "binds": binds, "of": of}
        costs = [] if gain is None else [SimpleNamespace(gain_s=gain and gain * 0.1, **cost)]
        monkeypatch.setattr(module, "causes_by_run", lambda *_: {"r": costs})
        series = [SimpleNamespace(run="r", values=np.array(times), steps=range(3, 3 + len(times)))]
        monkeypatch.setattr(module, "step_series", lambda _: series)
        return said(module.late_rank)

    return replace


@pytest.mark.parametrize(
    ("times", "when"),
    [
        ((0.1, 0.1, 0.18, 0.1), "in step 5"),
        ((0.1, 0.1, 0.165, 0.1), "in step 5"),
        ((0.1, 0.14, 0.14, 0.1), None),
        ((0.1, 0.1, 0.14, 0.141), "since step 5"),
        ((0.1, 0.13, 0.13, 0.13), "since step 4"),
        ((0.1, 0.1, 0.12, 0.12), None),  # they are longer by less than the rank costs
        ((0.14, 0.14, 0.1, 0.1), None),
        ((0.9,), None),
    ],
)
def test_a_rank_that_is_late_in_some_steps(late_ranks: Any, times: Sequence[float], when: str | None) -> None:
    """It costs 20 ms a step, 80 ms in four steps."""
    text = "" if when is None else f"; nearly all of this is {when}"
    assert late_ranks(0.2, binds=True, times=times) == [f"{COMES_LAST}{text}."]


def test_the_rank_that_others_wait_for(late_ranks: Any, table: Any) -> None:
    assert late_ranks(None) == [f"{COMES_LAST}; others wait for it 10 % of the time."]
    assert late_ranks(0.2, binds=True) == [f"{COMES_LAST}."]
    cost = "; as fast as the median rank, it would make the"
    assert late_ranks(0.2) == [f"{COMES_LAST}{cost} trace at most 20 % shorter."]
    assert late_ranks(0.2, of="traced step") == [f"{COMES_LAST}{cost} step at most 20 % shorter."]
    table("stragglers", late(2, NAN, NAN, collectives=0, last_share=NAN), **late(1, 0.9))
    less = "would make the step at most 20 % shorter."
    assert said(module.late_rank) == [f"As fast as the median rank, rank 2 {less}"]
    assert late_ranks(0.02) == []  # where this is known, no other rank is late
    assert late_ranks(None) == [f"{COMES_LAST}; others wait for it 10 % of the time."]
    table("stragglers", late(None, 0.05, collectives=1), **late(4, 0.9))
    assert said(module.late_rank)[0].startswith("Device 7 comes last in 50 % of its 1 collective; ")
    nodes = [late(None, 0.1 / node, 1 / node, device_name=f"H100 of node{node}") for node in (1, 2)]
    table("stragglers", *nodes, **late(4, 0.9))
    assert said(module.late_rank)[0].startswith("Device 7 (H100 of node1) comes last in ")
    table("stragglers", late(1, 0.1, reason="5 collectives: at least 20 are needed"))
    assert said(module.late_rank) == []
    table("stragglers", late(1, 0.03), **late(4, 0.9))
    assert said(module.late_rank) == []


@pytest.mark.parametrize(
    ("did", "text"),
    [
        ([("compute", "gemm", 3.0, 1.5), ("compute", "add", 0.3, 0.2)], "kernels take 1.6 s {}, mostly gemm, 2 x"),
        ([("compute", "gemm", 0.7, 0.4), ("compute", "add", 0.9, 0.5)], "kernels take 700 ms {}, mostly add, 1.8 x"),
        ([("compute", n, 0.4, 0.2) for n in "abc"], "kernels take 600 ms {}, 2 x"),
        ([("compute", "a", 1.0, 0.0)], "kernels take 1 s {}, mostly a"),
        ([("idle", "a", 1.0, 0.2), ("idle", None, 0.3, 0.2)], "GPU idles 900 ms {}, mostly while the host is in a"),
        ([("idle", n, 0.4, 0.2) for n in "abc"], "GPU idles 600 ms {}, host-bound"),
        ([("idle", None, 1.0, 0.2)], "GPU idles 800 ms {}, 5 x"),
        ([("memory", "copy", 1.0, 0.5), ("compute", "a", 1.0, 0.9)], "copies take 500 ms {}, mostly copy, 2 x"),
        ([("compute", "a", 1.0, 0.9)], None),  # 1 % of the time is not more
    ],
)  # fmt: skip
def test_what_a_late_rank_does_longer(
    late_ranks: Any, did: list[tuple[str, str | None, float, float]], text: str | None
) -> None:
    rows = [doing(2, *each) for each in did]
    why = "" if text is None else f" In the whole trace, its {text.format('longer than on the median rank')}."
    assert late_ranks(0.2, *rows, binds=True) == [f"{COMES_LAST}.{why}"]


def test_the_stage_that_computes_longest(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = {"part": "trace", "device": 7, "communicating_s": 1.0, "span_s": 9.0}
    rows = [usual | {"rank": rank, "compute_s": float(rank + 1)} for rank in range(3)]
    table("device_time", *rows, **usual, rank=4, compute_s=9.0)
    longest = "Rank 2 computes 1.5 times as long as the mean rank"

    def causes(*each: tuple[str, float, bool]) -> list[str]:
        found = [SimpleNamespace(subject=s, gain=g, binds=b, metric=REPLAY) for s, g, b in each]
        monkeypatch.setattr(module, "causes_by_run", lambda *_: {"r": found})
        monkeypatch.setattr(module, "scenario_gains", lambda *_: {"r": replayed})
        return said(module.unequal_stages)

    replayed = [SimpleNamespace(scenario="stages")]

    less = "with equal stages, the trace would be at most 9 % shorter"
    assert causes(("unequal stages", 0.09, False)) == [f"{longest}; {less}."]
    assert causes(("unequal stages", 0.2, True), ("rank", 0.02, False)) == [f"{longest}."]
    assert causes(("unequal stages", 0.2, False), ("rank", 0.2, True)) == []  # that rank is why they are unequal
    assert causes(("unequal stages", 0.02, False)) == []
    replayed[0].scenario = "host"  # sends and receives are not matched: what unequal ranks cost is unknown
    assert causes() == [f"{longest}."]


CAUSES = {"part": "trace", "span_s": 10.0} | dict.fromkeys(("host_s", "sync_s", "data_s", "launch_s", "waiting_s"), 0.0)
CAUSES["unknown_s"] = 0.0
ALL_CAUSES = "30 % host-bound (20 % after a synchronisation), 5 % while data is loaded, 5 % with work queued"


@pytest.mark.parametrize(
    ("idle_s", "of", "text"),
    [
        (0.3, {}, None),
        (0.4, {}, "4 % of the time."),
        (5.0, {"host_s": 0.3}, "50 % of the time."),
        (5.0, {"host_s": 0.2, "sync_s": 0.2}, "50 % of the time: 4 % host-bound."),
        (
            5.0,
            {"host_s": 1.0, "sync_s": 2.0, "data_s": 0.5, "launch_s": 0.2, "waiting_s": 0.3},
            f"50 % of the time: {ALL_CAUSES}.",
        ),
    ],
)
def test_idle_time_by_cause(table: Any, idle_s: float, of: dict[str, float], text: str | None) -> None:
    table("device_time", {"part": "trace", "idle_s": idle_s, "span_s": 10.0}, part="step", idle_s=9.0, span_s=1.0)
    table("launches", CAUSES | of, **CAUSES)
    table("idle_calls", {"name": "x", "time_s": 0.0})
    assert said(module.idle) == ([f"The GPU idles {text}"] if text else [])


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        ([("gc", 2.0), (None, 1.0)], "; the host is mostly in gc"),
        ([("gc", 2.0), (None, 2.0)], ""),  # half of it is not most
        ([("gc", 1.2), ("gc", 1.0), ("load", 2.0)], "; the host is mostly in gc"),  # of two devices
        ([("gc", 0.3)], ""),
        ([(None, 3.0)], ""),
    ],
)
def test_what_the_host_is_in_while_the_device_idles(
    table: Any, calls: list[tuple[str | None, float]], text: str
) -> None:
    table("device_time", {"part": "trace", "idle_s": 5.0, "span_s": 10.0}, part="step", idle_s=9.0, span_s=1.0)
    table("launches", CAUSES, **CAUSES)
    table("idle_calls", *({"name": name, "time_s": time} for name, time in calls))
    assert said(module.idle) == [f"The GPU idles 50 % of the time{text}."]


def test_the_critical_path(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts above 3 %; of kernels and the host the two largest kinds; none where a replay finds another bottleneck."""
    times = {
        ("device", "gemm"): 30.0, ("device", "elementwise"): 4.0, ("device", "softmax"): 3.0, ("device", "norm"): 3.5,
        ("device", "communication"): 20.0, ("device", "memcpy"): 2.0, ("device", "memset"): 2.0,
        ("host", "launch"): 3.0, ("host", "operator"): 30.0, ("host", "python"): 2.5,
    }  # fmt: skip
    rows = [{"run": "r", "part": "trace", "where": w, "kind": k, "time_s": t} for (w, k), t in times.items()]
    rows += [rows[0] | {"part": "step"}, rows[0] | {"run": "other"}]
    monkeypatch.setattr(module, "kinds_on_paths", lambda _: pd.DataFrame(rows))
    bound: list[Any] = [None]
    monkeypatch.setattr(module, "bound_by", lambda *_: bound[0])
    monkeypatch.setattr(module, "scenario_gains", lambda *_: {"r": []})
    table("launches", CAUSES, **CAUSES)
    text = (
        "On the critical path: kernels 40 % (gemm 30 %, elementwise 4 %), host 32 % (operator 30 %), communication "
        "20 %, copies 4 %."
    )
    assert said(module.critical) == [text]
    for subject, metric, is_shown in (
        ("host", REPLAY, False), ("compute", REPLAY, True), ("host", "idle", True), ("other", REPLAY, True),
        ("rank", REPLAY, False),
    ):  # fmt: skip
        bound[0] = SimpleNamespace(subject=subject, metric=metric)
        assert said(module.critical) == [text] * is_shown
    del rows[1:10]  # one kind alone: the states of the device say it
    bound[0] = None
    assert said(module.critical) == []
    rows.insert(1, rows[0] | {"kind": "softmax", "time_s": 10.0})
    assert said(module.critical) == ["On the critical path: kernels 100 % (gemm 75 %, softmax 25 %)."]
    with monkeypatch.context() as few:
        few.setattr(module, "scenario_gains", lambda *_: {})  # most launches are unknown
        assert said(module.critical) == []
    del rows[1]
    table("launches", CAUSES | {"host_s": None}, **CAUSES)
    assert said(module.critical) == []


@pytest.mark.parametrize(
    ("gain", "host", "bound", "is_shown"),
    [
        (0.2, 0.4, "host", True), (0.03, 0.4, "host", False), (0.2, 0.2, "host", False), (0.2, 0.4, None, True),
        (0.2, 0.4, CAPTURE, False), (0.2, 0.4, COMPILATION, False),
    ],
)  # fmt: skip
def test_what_graphs_would_save(
    table: Any, monkeypatch: pytest.MonkeyPatch, gain: float, host: float, bound: str | None, is_shown: bool
) -> None:
    causes = {"r": [SimpleNamespace(subject="other", gain=0.9), SimpleNamespace(subject="graphs", gain=gain)]}
    monkeypatch.setattr(module, "causes_by_run", lambda *_: causes)
    monkeypatch.setattr(module, "bound_by", lambda *_: bound and SimpleNamespace(subject=bound))
    row = CAUSES | {"host_s": host / 2, "launch_s": host / 2, "data_s": 5.0, "call_s": 6.1234e-6, "work_s": 2e-6}
    table("launches", row, row | {"part": "step", "call_s": 1.0}, **row)
    text = "CUDA graphs would save at most 20 % of the time: the median launch takes 6.12 us, its work 2 us."
    for runtime in ("CUDA", "HIP", ""):  # without one, nothing is known of graphs
        monkeypatch.setattr(module, "_runtime", lambda _, runtime=runtime: runtime)
        assert said(module.launching) == [text.replace("CUDA", runtime)] * (is_shown and bool(runtime))


@pytest.mark.parametrize(
    ("call", "runtime"),
    [("cudaLaunchKernel", "CUDA"), ("cuLaunchKernelEx", "CUDA"), ("hipExtModuleLaunchKernel", "HIP"),
     ("urEnqueueKernelLaunch", ""), ("aclrtLaunchKernel", "")],
)  # fmt: skip
def test_the_runtime_that_has_graphs(call: str, runtime: str) -> None:
    events = [{"kind": "runtime", "name": call, "start_ns": 0, "duration_ns": 5, "part": 0}]
    assert module._runtime(Tables(by_hand("events", events))) == runtime


# --- the largest work and ranges ----------------------------------------------------------------------------------

STATES = {"part": "trace", "span_s": 10.0, "compute_s": 5.0, "communication_s": 2.0, "memory_s": 0.3, "waiting_s": 0.2}
STATES |= {"waiting_kernels_s": 0.2, "communicating_s": 4.0, "overlap": 0.5}


def work(state: str, name: str | None, calls: int, time_s: float, by: str = "name") -> dict[str, Any]:
    return {"by": by, "state": state, "name": name, "calls": calls, "time_s": time_s}


def test_copies_of_memory_that_is_not_pinned(table: Any) -> None:
    pageable = "Memcpy HtoD (Pageable -> Device)"
    table("device_time", STATES | {"compute_s": 0.0, "communication_s": 0.0, "memory_s": 0.4}, **STATES)
    size = {"direction": "host to device", "memory": "pageable", "bytes": 4e9, "bandwidth": 2.0}
    table("copies", size, **size)
    table("device_kernels", work("memory", pageable, 1, 0.3), **work("compute", "y", 1, 99.0))
    copy = f"Largest copy: {short_kernel(pageable)}, 1 call x 300 ms at 2 GB/s; the memory of the host is not pinned."
    assert said(module.largest_work) == [copy]


def test_the_largest_work_of_each_state(table: Any) -> None:
    table("device_time", STATES, **STATES)
    kernels = [
        work("compute", "relu", 2, 2.0), work("compute", "gemm", 1, 1.0), work("compute", "gemm", 3, 1.5),
        work("compute", "aten", 9, 2.5), work("compute", None, 1, 9.0),
        work("compute", "x", 1, 9.0, by="kind"), work("communication", "ncclA", 1, 2.0),
        work("memory", "Memcpy HtoD (Pinned -> Device)", 2, 0.3), work("waiting", "wait", 4, 3.0),
    ]  # fmt: skip
    table("device_kernels", *kernels, **work("compute", "y", 1, 99.0))
    collective = "Largest collective: ncclA, 1 call x 2 s; 50 % of all communication is hidden."
    assert said(module.largest_work) == ["Largest kernel: gemm, 4 calls x 625 ms.", collective]
    table("device_time", STATES | {"waiting_kernels_s": 0.4, "memory_s": 0.4}, **STATES)
    size = {"direction": "host to device", "memory": "pinned", "bytes": 4e9, "bandwidth": 2.0}
    unknown = size | {"bandwidth": NAN, "bytes": 9e9}
    table("copies", size, size | {"bandwidth": 4.0}, unknown, size | {"memory": None}, **size)
    assert said(module.largest_work)[2:] == [
        f"Largest copy: {short_kernel('Memcpy HtoD (Pinned -> Device)')}, 2 calls x 150 ms at 2.67 GB/s.",
        "Largest wait: wait, 4 calls x 750 ms; the streams wait 400 ms, 200 ms of it with nothing else running.",
    ]
    table(
        "device_time", STATES | dict.fromkeys(("compute_s", "communication_s", "memory_s", "waiting_s"), 0.0), **STATES
    )
    assert said(module.largest_work) == ["Largest kernel: gemm, 4 calls x 625 ms."]  # the largest state of all


@pytest.mark.parametrize(
    ("overlap", "text"),
    [(0.0, "no"), (0.001, "hardly any"), (0.4, "only 40 % of all"), (0.5, "50 % of all"), (0.9, "90 % of all")],
)
def test_how_much_communication_is_hidden(overlap: float, text: str) -> None:
    rows = [{"communicating_s": 2.0, "overlap": overlap}, {"communicating_s": 0.0, "overlap": NAN}]
    assert module._hidden(pd.DataFrame(rows)) == text


def ranges(*paths: tuple[Sequence[str], str, float, float]) -> list[dict[str, Any]]:
    return [
        {"path": PATH_MARK.join(path), "range": path[-1], "kind": kind, "exclusive_s": own, "gpu_s": time}
        for path, kind, own, time in paths
    ]


def test_ranges_inside_of_steps_and_of_the_whole_program(table: Any) -> None:
    rows = ranges(
        (("main",), "range", 0.0, 10.0), (("main", "step"), "step", 0.0, 8.0),
        (("main", "step", "forward"), "range", 3.0, 3.0), (("main", "step", "backward"), "range", 3.0, 4.0),
        (("main", "step", "backward", "inner"), "range", 1.0, 1.0), (("main", "save"), "range", 1.7, 1.7),
        (("main", "step", "short"), "range", 0.3, 0.3), (("other",), "range", 1.0, 1.0),
    )  # fmt: skip
    table("device_ranges", *rows, **rows[0])
    assert said(module.ranges) == ["GPU time by range: backward 40 %, forward 30 %, save 17 %, other 10 %."]
    table("device_ranges", rows[2], **rows[0])
    assert said(module.ranges) == []
    table("device_ranges", *ranges(((OUTSIDE,), "range", 5.0, 5.0), ((UNKNOWN,), "range", 5.0, 5.0)), **rows[0])
    assert said(module.ranges) == []
    table("device_ranges", rows[0], **rows[0])
    assert said(module.ranges) == []
    many = ranges(*(((f"r{n}",), "range", 1.0, 1.0 - n / 100) for n in range(7)))
    table("device_ranges", *many, **rows[0])
    (text,) = said(module.ranges)
    assert text.count("%") == 5 and "r4" in text and "r5" not in text


def test_host_time_by_range(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = [(10.0, {"a": 5.0, "b": 0.4, "c": 0.3} | {f"r{n}": 1.0 for n in range(4)})]
    monkeypatch.setattr(module, "host_time_of_steps", lambda *_: found[0])
    assert said(module.host_ranges) == ["Host time of the steps by range: a 50 %, b 4 %, r0 10 %, r1 10 %, r2 10 %."]
    for found[0] in (None, (10.0, {"a": 0.3})):
        assert said(module.host_ranges) == []


# --- memory -------------------------------------------------------------------------------------------------------

GIB = 2.0**30


def test_the_peak_of_memory(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    peak = {
        "memory": "device",
        "device": 3,
        "rank": 0,
        "peak": 2 * GIB,
        "at_s": 1.5,
        "step": 7,
        "reserved_peak": 3 * GIB,
    }
    table("memory_peak", peak | {"peak": GIB}, peak, peak | {"memory": "host", "peak": 9 * GIB}, **peak)
    table("memory_holders", holder="x")
    names, shares = ["a", "z", "a", NOT_TRACED, "c", "d", "b"], [0.2, 0.1, 0.2, 0.1, 0.03, 0.04, 0.1]
    held = pd.DataFrame({"holder": names, "share": shares})
    monkeypatch.setattr(module, "holders_of", lambda *_: held)
    assert said(module.memory) == [
        (
            "Memory of device 3 (rank 0): 2 GiB at most, 1.5 s into the trace, in step 7; 3 GiB reserved. Held by a "
            "40 %, z 10 %, memory from before the trace 10 %, b 10 %."
        )
    ]
    host = peak | {"memory": "host", "device": None} | dict.fromkeys(("rank", "step", "reserved_peak"))
    table("memory_peak", host, **peak)
    monkeypatch.setattr(module, "holders_of", lambda *_: held[:0])
    assert said(module.memory) == ["Memory of the host: 2 GiB at most, 1.5 s into the trace."]


def test_what_an_allocator_held(table: Any) -> None:
    device = {
        "device": 1, "rank": 0, "reserved": 8 * GIB, "allocated": 6 * GIB, "free": 2 * GIB, "largest_free": GIB,
        "asked": None, "would_fit": None,
    }  # fmt: skip
    holder = {
        "rank": 0,
        "device": 1,
        "holder": "a",
        "during": "forward",
        "share": 0.5,
        "bytes": 3 * GIB,
        "blocks": 1,
    }
    held = [holder, holder | {"holder": "b", "during": None, "blocks": 2, "rank": None}, holder | {"share": 0.03}]
    others = [holder | {"rank": 1}, holder | {"device": 2}]
    rows = [device, device | {"rank": 1, "device": 2, "allocated": 5 * GIB}]
    table("allocator_holders", *held, *others, **holder)
    table("allocator", *rows, **device | {"allocated": 9 * GIB})
    state = "Memory of device 1 (rank 0) at the snapshot: 6 GiB in use of 8 GiB reserved"
    text = f"{state}; 2 GiB kept without use, 1 GiB the largest block of it."
    holders = "Held by a, forward 50 % (3 GiB in 1 block); b 50 % (3 GiB in 2 blocks)."
    assert said(module.held_by_allocator) == [text, holders]
    assert said(module.held_by_allocator, [1])[0].startswith("Memory of device 2 (rank 1) ")
    assert said(module.held_by_allocator, [5])[0] == text
    table("allocator", *rows, rows[1] | {"asked": GIB, "would_fit": True}, **device)
    fits = " The free blocks would hold it together, no single one does: fragmentation."
    assert said(module.held_by_allocator)[1] == f"An allocation of 1 GiB failed.{fits}"
    table("allocator", device | {"asked": GIB, "would_fit": False, "free": 0.0, "rank": None}, **device)
    found = said(module.held_by_allocator)
    assert found[0] == f"{state}.".replace(" (rank 0)", "") and found[1] == "An allocation of 1 GiB failed."
    table("allocator", **device)
    assert said(module.held_by_allocator) == []


# --- operators ----------------------------------------------------------------------------------------------------


def operator(time_s: float, roof_s: float, by: str = "shape", **more: Any) -> dict[str, Any]:
    usual = {"operator": "mm", "shapes": "s", "inputs": "2x3", "dtype": "bf16", "bound": "compute", "class": "product"}
    return usual | {"by": by, "time_s": time_s, "roof_s": roof_s, "flop": 1e12, "impossible": None} | more


def test_operators_and_their_roof(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRODUCTS", ["product"])
    whole = operator(10.0, NAN, by="trace")
    add = operator(2.0, 1.9, operator="add", dtype=None, bound="memory", shapes=None)
    table(
        "operator_efficiency",
        whole,
        operator(1.0, 0.5),
        operator(1.0, 0.6),
        add | {"shapes": None},
        operator(0.0, 9.0),
        **whole,
    )
    text = "Operators with a roof take 40 % of the GPU time and run at 75 % of the roofline"
    lost = "; most is lost in mm of 2x3 (bf16): 55 % of it, compute-bound, 20 % of the GPU time"
    assert said(module.operators) == [f"{text}{lost}."]
    table("operator_efficiency", whole, operator(1.0, 0.9), operator(1.0, 0.9) | {"operator": "x"}, add, **whole)
    assert said(module.operators) == [f"{text.replace('75 %', '92 %')}."]
    table("operator_efficiency", whole, operator(0.3, 0.1), **whole)
    assert said(module.operators) == []


def test_the_rate_of_products(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRODUCTS", ["product"])
    whole = operator(10.0, NAN, by="trace")
    rows = [
        operator(0.25, NAN, flop=5e12),
        operator(0.25, NAN),
        operator(0.5, NAN, inputs="4x4", flop=4e12, dtype=None),
    ]
    none = [operator(5.0, NAN, flop=NAN), operator(5.0, NAN) | {"class": "other"}]
    table("operator_efficiency", whole, *rows, *none, **whole)
    text = "Matrix products, convolutions and attention take 10 % of the GPU time and run at 10 TFLOP/s"
    assert said(module.operators) == [f"{text}; the longest is mm of 2x3 (bf16): 12 TFLOP/s, 5 % of the GPU time."]
    short = [operator(0.25, NAN, inputs=str(n)) for n in range(4)]
    table("operator_efficiency", whole, *short, **whole)
    assert said(module.operators) == [f"{text.replace('10 TFLOP', '4 TFLOP')}."]
    table("operator_efficiency", whole, operator(0.3, NAN), **whole)
    assert said(module.operators) == []


def test_rows_of_a_rank_that_is_unknown_and_speeds_of_operators() -> None:
    ranks = pd.Series([0, None, 1], dtype="Int64")
    assert module._equal(ranks, 1).tolist() == [False, False, True]
    assert module._equal(ranks, None).tolist() == [False, True, False]
    assert module._speed(1.23456e12, 2.0) == "0.617 TFLOP/s"
