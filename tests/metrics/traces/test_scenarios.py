"""What traces gain where one thing costs nothing: made traces whose answers are known, and real ones unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.field_logs import CORPUS, needs_corpus, stored
from support.metrics_logs import rows
from support.trace_tables import by_hand, kernel, reduce

import perflog
from perflog.metrics import replay, whatif
from perflog.metrics.traces.device_steps import TraceSteps
from perflog.metrics.traces.replays import scenarios
from perflog.metrics.traces.replays.dependencies import dependencies
from perflog.metrics.traces.replays.path_walk import PathWalk

REAL = sorted((CORPUS / "torchtrace").glob("*.json.gz"))
SMALL = [path for path in REAL if path.stat().st_size < 500_000]


def event(cat: str, name: str, start: float, length: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": start, "dur": length, "args": args}


def launched(call: float, start: float, length: float, number: int, **more: Any) -> list[dict[str, Any]]:
    """A kernel, and the call of 2 us that launches it."""
    stream, name = more.get("stream", 7), more.get("name", "gemm")
    args = {"device": 0, "stream": stream, "correlation": number}
    work = event("kernel", name, start, length, tid=stream, **args) | {"pid": 0}
    return [event("cuda_runtime", "cudaLaunchKernel", call, 2, correlation=number), work]


def gains(path: Path, events: list[dict[str, Any]], **options: Any) -> dict[tuple[str, str | None], float]:
    """Gain of each scenario in us, by its name and subject; the unchanged replay equals the trace."""
    job = {"distributedInfo": {"rank": 0, "world_size": 1}}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events} | job))
    found = rows(replay(perflog.read(path), **options))
    assert {row["error_s"] for row in found} == {0}
    return {(row["scenario"], row["subject"]): round(row["gain_s"] * 1e6, 1) for row in found}


NCCL = {"stream": 8, "name": "ncclDevKernel_AllReduce"}


def test_communication_that_is_free_or_hidden_and_a_stream_that_does_not_wait(tmp_path: Path) -> None:
    """A gemm, 2 us later a collective of 50 us, 3 us later a gemm that waited for it; a launch takes 5 us."""
    before = [*launched(-30, -25, 5, 4), *launched(-15, -10, 5, 5)]
    events = [*before, *launched(0, 5, 20, 1), *launched(3, 27, 50, 2, **NCCL), *launched(6, 80, 10, 3)]
    found = gains(tmp_path / "a.json", events)
    assert found["communication", None] == 50
    assert found["hidden", None] == 50  # without it the rest takes longer than it
    assert found["stream", "7"] == 90 - 77  # the last gemm ends at 35, the collective at 77
    assert found["device", None] == 90 - 11  # the last gemm is launched at 6


def test_a_launch_that_loads_a_module_is_time_of_the_host(tmp_path: Path) -> None:
    """The last launch takes 300 us. A launch has its work after 5 us; it hands it over 15 us before its end at most."""
    loading = launched(80, 385, 10, 4)
    loading[0]["dur"] = 300
    found = gains(
        tmp_path / "a.json", [*launched(0, 5, 10, 1), *launched(40, 45, 5, 2), *launched(60, 65, 5, 3), *loading]
    )
    assert found["host", None] == 395 - (5 + 20 + 10)


def test_without_most_launches_nothing_is_replayed(tmp_path: Path) -> None:
    """What waits for the host is unknown then: a replay that holds the rest where it is finds no gain at all."""
    known, unknown = launched(0, 5, 10, 1), [launched(n, 20 * n, 10, n)[1] for n in (2, 3)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*known, *unknown]}))
    assert not len(replay(perflog.read(path)))
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*known, *unknown[:1]]}))
    assert len(replay(perflog.read(path)))


def test_communication_with_ranks_without_a_trace_is_no_work_of_the_device(tmp_path: Path) -> None:
    """Two ranks, one trace: how long its collective of 50 us waits is unknown, so all gains are bounds."""
    path, events = tmp_path / "a.json", [*launched(0, 5, 20, 1), *launched(3, 27, 50, 2, **NCCL)]
    job = {"distributedInfo": {"rank": 0, "world_size": 2}}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events} | job))
    found = rows(replay(perflog.read(path)))
    of_device, communication = (
        next(row for row in found if row["scenario"] == name) for name in ("device", "communication")
    )
    assert (round(of_device["gain_s"] * 1e6, 1), round(communication["gain_s"] * 1e6, 1)) == (20 - 1, 50)
    assert {row["bound"] for row in found if row["scenario"] not in ("hidden", "graphs")} == {
        "communication may wait for ranks without a trace"
    }


def test_communication_that_takes_longer_than_all_else(tmp_path: Path) -> None:
    before = [*launched(-30, -25, 5, 4), *launched(-15, -10, 5, 5)]
    events = [*before, *launched(0, 5, 20, 1), *launched(3, 27, 90, 2, **NCCL), *launched(6, 120, 10, 3)]
    found = gains(tmp_path / "a.json", events)
    assert found["communication", None] == 90
    assert found["hidden", None] == 155 - 90


@pytest.mark.parametrize("loading", [0, 30])
def test_graphs_hold_no_call_that_waits_or_loads(tmp_path: Path, loading: int) -> None:
    """A kernel that the host waits for, then 44 us of the host, in which it may load data, and another kernel."""
    events = [
        event("cpu_op", "aten::add", 0, 40), *launched(30, 35, 10, 1),
        event("cuda_runtime", "cudaStreamSynchronize", 41, 5), event("cpu_op", "aten::mul", 46, 50),
        *launched(90, 95, 10, 2), *([event("user_annotation", "get_batch", 50, loading)] if loading else []),
    ]  # fmt: skip
    found = gains(tmp_path / "a.json", events)
    assert found["host", None] == 44 + 1
    assert found["graphs", None] == 44 + 5 - loading
    assert found["launches", None] == 2 * 0 + 5


def test_operators_at_their_roofline(tmp_path: Path) -> None:
    """2 x 1024^3 FLOP in fp32 take 32.1 us at 66.9 TFLOP/s; without a GPU nothing is known."""
    shapes: dict[str, Any] = {"Input Dims": [[1024, 1024], [1024, 1024]], "Input type": ["float", "float"]}
    events = [event("cpu_op", "aten::mm", 0, 10, **shapes), *launched(2, 10, 100, 1), *launched(15, 110, 20, 2)]
    found = gains(tmp_path / "a.json", events, gpu="H100 SXM")
    assert found["roofline", "matmul"] == pytest.approx(100 - 2 * 1024**3 / 66.9e6, abs=0.1)
    assert not any(name == "roofline" for name, _ in gains(tmp_path / "a.json", events))


# --- one rank as fast as the median -------------------------------------------------------------------------------


def in_steps_of(own: list[list[int]], length: int) -> tuple[list[list[int]], int]:
    """When each rank comes to each all-reduce, and when the last one ends: the ranks go on together."""
    now, arrivals = 0, []
    for times in own:
        arrivals.append([now + time for time in times])
        now = max(arrivals[-1]) + length
    return arrivals, now


@examples(30)
@given(st.lists(st.lists(st.integers(5_000, 40_000), min_size=3, max_size=3), min_size=3, max_size=8))
def test_ranks_as_fast_as_the_median_step_by_step(own: list[list[int]]) -> None:
    own[0][own[0].index(min(own[0]))] = 0  # the first work is where the time begins
    length = 500
    arrivals, end = in_steps_of(own, length)
    begin = min(arrivals[0])
    ends = [max(each) + length for each in arrivals]
    epoch = 1_712_195_495_505_582_988
    events = [
        reduce(epoch + start, epoch + until, rank=rank, part=rank, device=rank)
        for starts, until in zip(arrivals, ends, strict=True)
        for rank, start in enumerate(starts)
    ]
    tables = by_hand(events)
    found = {row["rank"]: row for row in rows(replay(tables), scenario="rank")}
    assert set(found) == {0, 1, 2}
    for rank, row in found.items():
        faster = [[min(time, int(median(times))) if r == rank else time for r, time in enumerate(times)]
                  for times in own]  # fmt: skip
        assert row["error_s"] == 0
        assert row["time_s"] * 1e9 == pytest.approx(end - begin)
        assert row["gain_s"] * 1e9 == pytest.approx(end - in_steps_of(faster, length)[1], abs=1e-3)
    usual = [[min(time, int(median(times))) for time in times] for times in own]
    ideal = in_steps_of(usual, length)[1] - begin
    job, *workers = rows(whatif(tables))
    assert (job["slowdown"], job["rests_on"]) == (pytest.approx((end - begin) / ideal), "collectives")
    for worker in workers:
        alone = [[times[r] if r == worker["rank"] else usual[k][r] for r in range(3)] for k, times in enumerate(own)]
        assert worker["slowdown"] == pytest.approx((in_steps_of(alone, length)[1] - begin) / ideal)
        gone = found[worker["rank"]]["gain_s"] * 1e9
        lost = end - begin - ideal
        assert worker["mended"] == (pytest.approx(gone / lost, abs=1e-6) if lost else None)
    assert job["m_w"] == (workers[0]["mended"] if end - begin > ideal else None)


@needs_corpus
@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name[:60])
def test_real_traces_unchanged_are_as_traced(path: Path) -> None:
    found = rows(replay(stored(path)))
    assert found
    for row in found:
        assert row["error_s"] == 0
        assert 0 <= row["gain_s"] <= row["time_s"]


@needs_corpus
def test_of_a_long_trace_the_middle_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of six steps that are alike gain what all of them do."""
    (path,) = (path for path in REAL if "trace_diff_control" in path.name)
    whole = {(row["scenario"], row["subject"]): row for row in rows(replay(stored(path)))}
    monkeypatch.setattr("perflog.metrics.traces.replays.scenarios._MOST", 3000)
    found = rows(replay(stored(path)))
    assert {(row["n"], round(row["replayed"], 3), row["error_s"]) for row in found} == {(2, 0.333, 0)}
    for row in found:  # but for the device: the steps expose different parts of their communication
        if row["scenario"] != "device":
            assert row["gain"] == pytest.approx(whole[row["scenario"], row["subject"]]["gain"], abs=0.06)


@pytest.mark.parametrize(("most", "window"), [(99, (0, 65)), (7, (0, 65)), (6, (0, 60)), (4, (10, 50)), (3, (20, 50))])
def test_of_a_long_trace_without_steps_the_middle_is_replayed(
    most: int, window: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as so many of its seven kernels take."""
    monkeypatch.setattr(scenarios, "_MOST", most)
    [found] = dependencies(by_hand([kernel(10 * n, 10 * n + 5) for n in range(7)]))
    replayed = scenarios._trace(found, PathWalk(found))
    assert (replayed.start, replayed.end) == window and replayed.host_end == replayed.end


@pytest.mark.parametrize(
    ("most", "chosen"),
    [(1, [3]), (2, [3]), (3, [3, 4]), (5, [2, 3, 4]), (13, [*range(7)]), (99, [*range(7)])],
)
def test_the_steps_in_the_middle_are_replayed(monkeypatch: pytest.MonkeyPatch, most: int, chosen: list[int]) -> None:
    """As many as hold so many pieces of work, two in each step; the trace lists its steps in another order."""
    monkeypatch.setattr(scenarios, "_MOST", most)
    starts, order = 100 * np.arange(7), np.array([4, 0, 6, 2, 5, 1, 3])
    steps = TraceSteps(order, starts[order], starts[order] + 100, order)
    work: Any = SimpleNamespace(starts=np.arange(0, 700, 50))
    assert steps.numbers[scenarios._middle(work, steps)].tolist() == chosen


def test_the_row_of_equal_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four steps of 10 s; the replay takes 44 s, with equal stages 34 s."""
    replay_of_job: Any = SimpleNamespace(traced=40 * 10**9, unchanged=44 * 10**9, equal=34 * 10**9)
    job = scenarios.ReplayedStages("r", True, 4, replay_of_job)
    monkeypatch.setattr(scenarios, "_replayed_stages", lambda _: [job])
    tables: Any = None
    (row,) = scenarios._rows_of_stages(tables)
    assert (row["run"], row["of"], row["n"], row["replayed"]) == ("r", "traced step", 4, 1.0)
    assert (row["time_s"], row["without_s"], row["gain_s"], row["error_s"]) == (10.0, 8.5, 2.5, 1.0)
    assert row["gain"] == 0.25


@pytest.mark.parametrize(("in_steps", "of"), [(True, "traced step"), (False, "trace")])
def test_the_rows_of_ranks_as_fast_as_the_median(monkeypatch: pytest.MonkeyPatch, in_steps: bool, of: str) -> None:
    """Two steps of 60 ns, replayed in 55: with rank 4 as fast as the median 50, with rank 5 no shorter."""
    members = [SimpleNamespace(run="r", rank=rank, device=rank - 4, device_name="H100") for rank in (4, 5)]
    job = SimpleNamespace(members=members, in_steps=in_steps, n=2,
                          replay=SimpleNamespace(traced=120, unchanged=110, without=[100, 110]))  # fmt: skip
    monkeypatch.setattr(scenarios, "replayed_ranks", lambda _: [job])
    found = list(scenarios._rows_of_ranks(by_hand([kernel(0, 10)])))
    same = {"run": "r", "device_name": "H100", "of": of, "scenario": "rank", "time_s": pytest.approx(60e-9), "n": 2,
            "error_s": pytest.approx(-5e-9), "replayed": 1.0,
            "bound": "what the device does between two collectives is taken as one piece"}  # fmt: skip
    assert found == [
        same | {"rank": rank, "device": rank - 4, "without_s": pytest.approx((110 - gain) / 2 * 1e-9),
                "gain_s": pytest.approx(gain / 2 * 1e-9), "gain": pytest.approx(gain / 120)}
        for rank, gain in ((4, 10), (5, 0))
    ]  # fmt: skip
