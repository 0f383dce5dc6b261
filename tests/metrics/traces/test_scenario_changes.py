"""Which pieces of a replay each scenario changes, on traces written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.trace_tables import Event, by_hand, kernel, reduce

from perflog.metrics.traces.replays.dependencies import Dependencies, dependencies
from perflog.metrics.traces.replays.path_walk import kinds_of
from perflog.metrics.traces.replays.scenario_changes import Scenario, scenarios


def call(start: int, end: int, number: int | None = None, name: str = "cudaLaunchKernel", **more: Any) -> Event:
    usual = {"kind": "runtime", "device": None, "stream": None, "correlation": number, "process": "9", "thread": "1"}
    return kernel(start, end, name) | usual | more


def of(*events: Event) -> Dependencies:
    (found,) = dependencies(by_hand(list(events)))
    return found


def changed(found: Dependencies) -> dict[tuple[str, str | None], set[str]]:
    """The kinds of pieces that each scenario changes, by scenario and subject."""
    names, by_scenario = kinds_of(found), {}
    for scenario in scenarios(found):
        kinds = scenario.change.kinds
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        by_scenario[scenario.name, scenario.subject] = {names[kind] for kind in kinds}
    return by_scenario


def only(found: Dependencies, name: str, **roof: Any) -> list[Scenario]:
    return [scenario for scenario in scenarios(found, **roof) if scenario.name == name]


HOST = {"synchronisation", "runtime", "operator", "python", "idle host"}


def test_each_scenario_changes_the_pieces_of_its_name() -> None:
    work = [kernel(10, 20), reduce(20, 30), kernel(30, 40, "Memcpy HtoD", kind="memcpy"), kernel(40, 50, "event_wait")]
    found = changed(of(call(0, 1, 1), *(each | {"correlation": n} for n, each in enumerate(work, 1))))
    assert found == {
        ("host", None): HOST, ("launches", None): {"launch", "runtime"},
        ("graphs", None): {"launch", *HOST} - {"synchronisation"},
        ("device", None): {"gemm", "communication", "memcpy"},
        ("waits", None): {"waiting", "wait"}, ("compute", None): {"gemm"}, ("communication", None): {"communication"},
        ("copies", None): {"memcpy"}, ("hidden", None): {"communication"},
    }  # fmt: skip
    assert list(changed(of(kernel(10, 20)))) == [
        (name, None) for name in ("host", "launches", "device", "waits", "compute")
    ]
    none = of(kernel(10, 20), kernel(20, 20, "ncclDevKernel_AllReduce"))  # it takes no time
    assert not {"communication", "hidden"} & {name for name, _ in changed(none)}


def test_work_that_graphs_launch_already() -> None:
    """A launch has two kernels; graphs launch more than half of the work only in the second trace."""
    work = [kernel(start, start + 10, correlation=1 + start // 40) for start in (10, 20, 60, 70)]
    calls = [call(0, 1, 1), call(40, 41, 2, "cudaGraphLaunch_v10000")]
    assert ("graphs", None) in changed(of(*calls, *work))
    assert ("graphs", None) not in changed(of(*calls, *work, kernel(80, 90, correlation=2)))


def test_the_four_longest_categories_of_kernels() -> None:
    names = {"gemm": 50, "softmax": 30, "layer_norm": 40, "adam": 20, "dropout": 10}
    ends = np.cumsum([*names.values()]).tolist()
    work = [kernel(end - length, end, name) for (name, length), end in zip(names.items(), ends, strict=True)]
    found = changed(of(*work))
    assert [key for key in found if key[0] == "kernels"] == [
        ("kernels", kind) for kind in ("gemm", "normalisation", "softmax", "optimizer")
    ]
    assert all(kinds == {subject} for (name, subject), kinds in found.items() if name == "kernels")
    assert not [key for key in changed(of(kernel(0, 9), kernel(9, 12))) if key[0] == "kernels"]
    assert len([key for key in changed(of(kernel(0, 9), kernel(9, 12, "softmax"))) if key[0] == "kernels"]) == 2


def test_hidden_communication_still_takes_its_time() -> None:
    (hidden,) = only(of(kernel(0, 10), reduce(10, 30), kernel(30, 40)), "hidden")
    assert hidden.communicates is not None and hidden.communicates.tolist() == [False, True, False]
    assert hidden.bound == "what is sent may not be there earlier"


def test_operators_at_their_roofline_are_shares_of_their_work() -> None:
    above = np.array([0.5, 0.0])
    found = of(kernel(0, 10), kernel(10, 30, "softmax"))
    (roofline,) = only(found, "roofline", roof={"matmul": above})
    assert roofline.subject == "matmul" and roofline.change.tasks is above
    assert isinstance(roofline.change.kinds, tuple)
    assert [kinds_of(found)[kind] for kind in roofline.change.kinds] == [*found.device.work.categories]
    assert roofline.bound is None


def test_the_streams_that_wait_longest() -> None:
    """Work that was launched early runs so many ns after work of stream 9, with usual gaps of 1 ns, has ended."""
    events = [kernel(at, at + 9, "other", stream=9) for at in range(1, 101, 10)]
    for number, (stream, wait) in enumerate({1: 10, 2: 40, 3: 20, 4: 30, None: 70}.items()):
        late = kernel(100 + wait, 500, "late", stream=stream, correlation=number)
        events += [kernel(0, 1, stream=stream), late, call(2 * number, 2 * number + 1, number)]
    found = of(*events)
    streams = only(found, "stream")
    assert [scenario.subject for scenario in streams] == ["2", "4"]  # of the three that wait longest one has no number
    for scenario in streams:
        own = found.device.work.rows["stream"] == int(scenario.subject or "")
        change = scenario.change
        assert change.kinds == (7,) and kinds_of(found)[7] == "waiting"
        assert change.tasks is not None and change.tasks.tolist() == own.tolist()
        # The first work of a stream has no known reason to begin when it does: it is not free.
        assert change.free is not None
        assert change.free.tolist() == (own & (found.device.work.rows["start_ns"] > 0)).tolist()
    assert not only(of(kernel(0, 10), kernel(100, 110)), "stream")  # there is one stream
    assert not only(of(kernel(0, 10), kernel(0, 10, stream=8)), "stream")  # none waits


def test_a_stream_that_waits_without_a_gap_counts() -> None:
    """Work of stream 8 begins the moment that work of stream 7 ends; a launch alone makes it free."""
    events = [kernel(0, 100), kernel(100, 110, stream=8, correlation=1), call(1, 2, 1)]
    (stream,) = only(of(*events), "stream")
    assert stream.subject == "8"
    assert stream.change.free is not None and stream.change.free.tolist() == [False, True]


def test_calls_that_graphs_hold() -> None:
    """They hold no call that waits, copies at once or allocates, and nothing inside of a range that loads data."""
    held = {
        "launch": call(0, 1, 1), "outer": call(10, 90, name="aten::mm", kind="cpu"),
        "sync": call(20, 21, name="cudaStreamSynchronize"), "copy": call(22, 23, name="cudaMemcpy"),
        "malloc": call(24, 25, name="cudaMalloc"), "async": call(26, 27, name="cudaMemcpyAsync"),
        "cpu sync": call(28, 29, name="cudaStreamSynchronize", kind="cpu"),
        "load": call(100, 200, name="get_batch", kind="range"), "inside": call(110, 190, name="aten::add", kind="cpu"),
        "inner": call(120, 121, 2), "load operator": call(210, 220, name="DataLoader", kind="cpu"),
        "runtime load": call(230, 231, name="get_batch"),
        "python load": call(240, 250, name="get_batch", kind="python"),
        "unnamed": call(260, 261) | {"name": None}, "unnamed cpu": call(270, 271, kind="cpu") | {"name": None},
    }  # fmt: skip
    found = of(*held.values(), kernel(300, 310, correlation=1))
    (graphs,) = only(found, "graphs")
    assert found.calls is not None and graphs.change.calls is not None
    names = [list(held)[line - 1] for line in found.calls.rows["line"].tolist()]
    stays = {name for name, flag in zip(names, graphs.change.calls.tolist()[:-1], strict=True) if not flag}
    assert stays == {"sync", "copy", "malloc", "load", "inside", "inner", "load operator"}
    assert graphs.change.calls[-1] and len(graphs.change.calls) == len(held) + 1
    assert graphs.bound == "graphs may not hold all that lies between these calls"
