"""What a device does in given times, and what its host is in while it idles, by hand; times in us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.made_traces import US, event, traced
from support.trace_tables import by_hand, kernel

from perflog.metrics import Tables
from perflog.metrics.traces.intervals import union
from perflog.metrics.traces.replays.dependencies import dependencies
from perflog.metrics.traces.replays.own_time import idle_time, own_time


def work(start: int, length: int, number: int, stream: int = 7, name: str = "gemm", at: int | None = None) -> list[Any]:
    launch = start - 2 if at is None else at
    return [
        event("cuda_runtime", "cudaLaunchKernel", launch, 1, correlation=number),
        event("kernel", name, start, length, stream, correlation=number, device=0, stream=stream) | {"pid": 0},
    ]


def found(path: Path, events: list[Any], *times: tuple[int, int]) -> dict[tuple[str, str | None], int]:
    (device_graph,) = dependencies(Tables(traced(path, *events)))
    begin = int(device_graph.starts[0])
    starts, ends = (begin + US * np.array(edges) for edges in zip(*times, strict=True))
    return {(each.doing, each.name): each.ns // US for each in own_time(device_graph, starts, ends) if each.ns}


def test_states_by_priority_and_the_piece_that_began_first(tmp_path: Path) -> None:
    """A gemm in 0..100, an add beside it in 50..120, a collective in 90..150; asked for 40..130 and 110..140."""
    nccl = "ncclDevKernel_AllReduce_Sum"
    events = [*work(0, 100, 1), *work(50, 70, 2, 9, "add"), *work(90, 60, 3, 20, nccl)]
    got = found(tmp_path / "a.json", events, (40, 130), (110, 140))
    assert got == {("compute", "gemm"): 60, ("compute", "add"): 20, ("communication", nccl): 20}


@pytest.mark.parametrize(
    ("during", "names"),
    [
        ([], {None: 300}),
        ([event("user_annotation", "load", 110, 50)], {"load": 50, None: 250}),
        ([event("python_function", "train.py(5): step", 110, 50)], {None: 300}),  # only modules have names
        ([event("user_annotation", "ProfilerStep#3", 0, 390)], {None: 300}),  # a step names nothing
        (
            [event("user_annotation", "epoch", 100, 250), event("user_annotation", "gc", 200, 100)],
            {"epoch": 150, "gc": 100, None: 50},
        ),
        (
            [event("cpu_op", "aten::item", 120, 80), event("cpu_op", "aten::copy", 130, 20)],
            {"aten::item": 80, None: 220},
        ),
        (
            [event("user_annotation", "log", 110, 100), event("cpu_op", "aten::item", 120, 80)],
            {"log": 100, None: 200},  # the range says more
        ),
        (
            [event("user_annotation", "forward", 110, 100), event("cuda_runtime", "cudaMalloc", 120, 80)],
            {"forward": 20, "cudaMalloc": 80, None: 200},  # the call says more
        ),
    ],
)  # fmt: skip
def test_what_the_host_is_in_while_the_device_idles(tmp_path: Path, during: list[Any], names: dict[Any, int]) -> None:
    """The device idles from 100 to 400; the next kernel is launched at 398."""
    events = [*work(0, 100, 1), *during, *work(400, 10, 2)]
    got = found(tmp_path / "a.json", events, (0, 400))
    assert got == {("compute", "gemm"): 100} | {("idle", name): time for name, time in names.items()}


def test_work_without_a_name() -> None:
    (device_graph,) = dependencies(by_hand([kernel(0, 10), kernel(20, 25) | {"name": None}]))
    found = own_time(device_graph, np.array([0]), np.array([30]))
    assert [(each.doing, each.name, each.ns) for each in found if each.doing != "idle"] == [
        ("compute", None, 5), ("compute", "gemm", 10),
    ]  # fmt: skip


def test_idle_time_before_the_launches_of_two_threads(tmp_path: Path) -> None:
    """The device idles in 100..400 and 410..500. Two threads launch at 398 and 490, after 298 + 80 us."""
    other = [each | {"tid": 2} if each["cat"] == "cuda_runtime" else each for each in work(500, 10, 3, at=490)]
    during = [event("user_annotation", "load", 110, 40), event("user_annotation", "save", 420, 30, 2)]
    log = traced(tmp_path / "a.json", *work(0, 100, 1), *during, *work(400, 10, 2), *other)
    (device_graph,) = dependencies(Tables(log))
    begin = int(device_graph.starts[0])
    found = idle_time(device_graph, union(np.array([begin]), np.array([begin + 500 * US])))
    assert {each.name: each.ns // US for each in found} == {None: 308, "load": 40, "save": 30}
