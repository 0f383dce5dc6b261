"""Replays of a job's steps: when operations begin, and how long they take from the moment at which all sides began."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perflog.metrics.what_if import step_replay as module
from perflog.metrics.what_if.operation_graph import COMMUNICATION, COMPUTE, Graph, Unit
from perflog.metrics.what_if.step_replay import Job, without_waiting

WORK, SEND = COMPUTE[0], next(iter(COMMUNICATION))


def job(graph: Graph, kinds: list[str], times: Any) -> Job:
    seconds, stages = np.array(times, np.float64), np.zeros(len(kinds), np.int64)
    steps, replicas = map(range, seconds.shape[1:])
    return Job(graph, stages, np.array(kinds, object), seconds, steps, replicas, {}, None, 0, "", "x")


CHAIN = Graph(((), (0,), (0,), (1, 2)), tuple(Unit((place,)) for place in range(4)))
"""Two operations side by side after the first, and one after both."""


def test_operations_begin_when_all_before_them_ended() -> None:
    made = job(CHAIN, [WORK] * 4, [[[1.0]], [[5.0]], [[2.0]], [[3.0]]])
    as_traced, typical = np.ones((1, 4, 1), np.bool_), np.zeros((1, 4, 1), np.bool_)
    assert made.step_times(as_traced).tolist() == [[1 + 5 + 3]]
    mean = 11 / 4
    assert made.step_times(typical).tolist() == [[3 * mean]]
    mended = as_traced.copy()
    mended[0, 1, 0] = False
    assert made.step_times(np.concatenate([as_traced, mended])).tolist() == [[9.0], [1 + mean + 3]]


def test_a_step_ends_with_its_last_operation_on_any_replica() -> None:
    graph = Graph(((), ()), (Unit((0,)), Unit((1,))))
    made = job(graph, [WORK] * 2, [[[1.0, 4.0], [7.0, 2.0]], [[3.0, 1.0], [1.0, 1.0]]])
    assert made.step_times(np.ones((1, 2, 2), np.bool_)).tolist() == [[4.0, 7.0]]


def test_replicas_meet() -> None:
    """The second operation begins when both replicas have done the first one."""
    graph = Graph(((), (0,)), (Unit((0,)), Unit((1,), True)))
    made = job(graph, [WORK, SEND], [[[1.0, 4.0]], [[2.0, 3.0]]])
    assert made.step_times(np.ones((1, 2, 2), np.bool_)).tolist() == [[4.0 + 3.0]]


def test_the_sides_of_a_unit_begin_together() -> None:
    graph = Graph(((), (), (0,), (1,)), (Unit((0,)), Unit((1,)), Unit((2, 3))))
    made = job(graph, [WORK, WORK, SEND, SEND], [[[1.0]], [[5.0]], [[2.0]], [[3.0]]])
    assert made.step_times(np.ones((1, 4, 1), np.bool_)).tolist() == [[8.0]]


def test_typical_times_are_means_and_of_communication_medians() -> None:
    made = job(CHAIN, [WORK, SEND, WORK, SEND], [[[1.0, 2.0]], [[1.0, 2.0]], [[3.0, 10.0]], [[3.0, 100.0]]])
    assert made.typical().tolist() == [4.0, 2.5, 4.0, 2.5]


@pytest.mark.parametrize("cells", [1, 4, 8, 12, 1 << 24])
def test_replays_are_the_same_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    made = job(CHAIN, [WORK] * 4, [[[1.0]], [[2.0]], [[5.0]], [[3.0]]])
    flags = np.random.default_rng(1).random((5, 4, 1)) < 0.5
    whole = made.step_times(flags)
    monkeypatch.setattr(module, "_CELLS", cells)
    assert made.step_times(flags).tolist() == whole.tolist()
    assert len(whole) == 5


def test_time_without_waiting() -> None:
    """From the last begin on, of all sides and, where replicas meet, of all of these."""
    graph = Graph(((),) * 4, (Unit((0,)), Unit((1, 2)), Unit((3,), True)))
    starts = np.array([[[1.0, 0.0]], [[0.0, 0.0]], [[2.0, 1.0]], [[0.0, 3.0]]])
    ends = np.array([[[5.0, 6.0]], [[4.0, 4.0]], [[4.5, 4.0]], [[4.0, 5.0]]])
    found = without_waiting(graph, starts, ends)
    assert found.tolist() == [[[4.0, 6.0]], [[2.0, 3.0]], [[2.5, 3.0]], [[1.0, 2.0]]]


@pytest.mark.parametrize(("end", "time"), [(1.995, -0.005), (1.9, 0.0), (2.5, 0.5)])
def test_what_ended_long_before_the_last_side_began_took_no_time(end: float, time: float) -> None:
    """Clocks of hosts differ by up to 10 ms."""
    graph = Graph(((), ()), (Unit((0, 1)),))
    found = without_waiting(graph, np.array([[[0.0]], [[2.0]]]), np.array([[[end]], [[3.0]]]))
    assert found[0, 0, 0] == pytest.approx(time)
