"""Work in several processes: results in the order of the items, whatever happens to a process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from perflog.ingestion import workers
from perflog.ingestion.workers import results

Report = Callable[[int], None] | None


def slow_if_even(item: int, report: Report) -> tuple[int, int]:
    time.sleep(0.02 * (item % 2 == 0))
    if report is not None:
        report(item)
    return item * item, os.getpid()


def killed_at_three(item: int, report: Report) -> int:
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def faulty(item: int, report: Report) -> float:
    return 1 / item


GIVEN = list[int]()


def given(item: int, report: Report) -> list[int]:
    return GIVEN


@pytest.mark.skipif(sys.platform != "linux", reason="other systems start a new process")
def test_a_process_is_forked_where_that_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it has what this one has. A program with threads is not forked."""
    monkeypatch.setattr(sys.modules[__name__], "GIVEN", [7])
    monkeypatch.setattr(workers, "has_threads", lambda: False)
    assert list(results(given, [0], 1)) == [[7]]
    asked, context = list[str](), multiprocessing.get_context("fork")

    def noted(method: str) -> Any:
        asked.append(method)
        return context

    monkeypatch.setattr(multiprocessing, "get_context", noted)
    monkeypatch.setattr(workers, "has_threads", lambda: True)
    assert list(results(given, [0], 1)) == [[7]] and asked == ["forkserver"]


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_come_in_the_order_of_the_items(count: int) -> None:
    done = [pair for pair in results(slow_if_even, range(count), 2) if pair is not None]
    assert [square for square, _ in done] == [item * item for item in range(count)]
    assert len({process for _, process in done}) == min(count, 2)
    assert os.getpid() not in {process for _, process in done}


def test_progress_is_reported() -> None:
    told: list[int] = []
    assert len(list(results(slow_if_even, range(9), 2, told.append))) == 9
    assert sorted(told) == list(range(9))


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_a_process_that_is_killed_costs_one_item(processes: int) -> None:
    every = list(range(40))
    assert list(results(killed_at_three, every, processes)) == [None if item == 3 else item for item in every]
    assert list(results(killed_at_three, [3, 3], processes)) == [None, None]


def test_an_error_of_the_work_is_raised() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(results(faulty, [1, 0], 2))
    assert "in faulty" in caught.value.__notes__[0]
