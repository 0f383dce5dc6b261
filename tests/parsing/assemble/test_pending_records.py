"""Records wait for the line that closes their step, for the votes of their run, or for its end, but never too many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perflog.formats.model import Line
from perflog.parsing.assemble.steps import pending_records
from perflog.parsing.assemble.steps.pending_records import NO_LIMIT, PendingRecords, ReleaseLimit
from perflog.parsing.match.records import Records

NO_TEMPLATE: Any = None
FORM: Any = SimpleNamespace(name="own")
LINES = [(FORM, Line("wait", NO_TEMPLATE)), (FORM, Line("done", NO_TEMPLATE, closes="step"))]
WAIT, DONE = range(2)


def records(*positions: int) -> Records:
    return Records(np.array(positions, np.int64), {"position": np.array(positions, np.int64)})


def pending(waits: list[int], dones: list[int]) -> PendingRecords:
    held = PendingRecords()
    held.add(WAIT, records(*waits))
    held.add(DONE, records(*dones))
    return held


def limit(held: PendingRecords, run_start: int = 0, **options: Any) -> ReleaseLimit:
    return held.limit(LINES, run_start, **({"needs_votes": False, "stream_of": None} | options))


def released(held: PendingRecords, to: ReleaseLimit, stream_of: Any = None) -> dict[int, list[int]]:
    found = held.release(to, stream_of)
    assert all(each.columns["position"].tolist() == each.positions.tolist() for each in found.values())
    return {kind: each.positions.tolist() for kind, each in found.items()}


def test_records_wait_for_the_line_that_closes_their_step() -> None:
    held = pending([1, 2, 4, 6], [3, 5])
    assert released(held, limit(held)) == {WAIT: [1, 2, 4], DONE: [3, 5]}
    assert len(held) == 1 and held.first_position() == 6
    assert released(held, limit(held)) == {}
    held.add(DONE, records(8))
    assert released(held, limit(held)) == {WAIT: [6], DONE: [8]}
    assert len(held) == 0 and held.first_position() is None


def test_records_wait_for_the_last_of_the_lines_that_close_steps() -> None:
    held = pending([1, 4, 8], [3])
    held.add(DONE, records(6))
    assert released(held, limit(held)) == {WAIT: [1, 4], DONE: [3, 6]}


def test_what_waits_of_an_earlier_run_is_complete() -> None:
    held = pending([1, 2, 7, 8], [])
    assert released(held, limit(held, run_start=7)) == {WAIT: [1, 2]}
    assert held.first_position() == 7


def test_without_lines_that_close_steps_nothing_waits() -> None:
    held = PendingRecords()
    held.add(WAIT, records(1, 2, 3))
    found = held.limit(LINES[:1], 0, needs_votes=False, stream_of=None)
    assert released(held, found) == {WAIT: [1, 2, 3]}


@pytest.mark.parametrize(("enough", "expected"), [(4, {WAIT: [1]}), (3, {WAIT: [1, 4], DONE: [5]})])
def test_the_first_records_of_a_run_wait_for_votes(
    monkeypatch: pytest.MonkeyPatch, enough: int, expected: dict[int, list[int]]
) -> None:
    """Until there are enough of this run: here three."""
    monkeypatch.setattr(pending_records, "ENOUGH_TO_VOTE", enough)
    held = pending([1, 4, 6], [5])
    assert released(held, limit(held, run_start=3, needs_votes=True)) == expected


def test_a_run_that_is_needed_whole_waits_for_its_end() -> None:
    held = pending([1, 4, 6], [2, 5])
    assert released(held, limit(held, run_start=3, waits_for_run=True)) == {WAIT: [1], DONE: [2]}


@pytest.mark.parametrize(("most", "left"), [(4, 1), (3, 0)])
def test_no_more_than_a_number_of_records_wait(monkeypatch: pytest.MonkeyPatch, most: int, left: int) -> None:
    monkeypatch.setattr(pending_records, "MOST_PENDING", most)
    held = pending([1, 4, 6], [5])
    released(held, limit(held, needs_votes=False))
    assert len(held) == left


def test_at_the_end_of_the_log_all_are_complete() -> None:
    held = pending([1, 4], [2])
    assert released(held, NO_LIMIT) == {WAIT: [1, 4], DONE: [2]}


# --- streams that close their own steps -------------------------------------------------------------------------------

STREAMS = {1: 0, 2: 1, 3: 0, 4: 1, 5: 0, 6: 1, 7: 0}


def stream_of(found: Records) -> Any:
    return np.array([STREAMS[position] for position in found.positions.tolist()], np.int64)


def test_each_stream_waits_for_its_own_line() -> None:
    held = pending([1, 2, 4, 5, 6], [3])
    found = limit(held, stream_of=stream_of)
    assert found.of(np.array([0, 1, 5])).tolist() == [3, -1, -1]
    assert released(held, found, stream_of) == {WAIT: [1], DONE: [3]}
    held.add(DONE, records(7))
    assert released(held, limit(held, stream_of=stream_of), stream_of) == {WAIT: [5], DONE: [7]}
    assert held.first_position() == 2


def test_streams_of_an_earlier_run_are_complete() -> None:
    held = pending([1, 2, 4, 6], [5])
    found = limit(held, run_start=4, stream_of=stream_of)
    assert released(held, found, stream_of) == {WAIT: [1, 2], DONE: [5]}
