"""Failures that are repeated in a row are counted; notices are, once for each process and message."""

from __future__ import annotations

from typing import Any

import pytest

from perflog.parsing.failures import failure_list
from perflog.parsing.failures.failure import Failure
from perflog.parsing.failures.failure_list import FailureList
from perflog.parsing.failures.kinds import NOTICE, kinds
from perflog.parsing.failures.origins import Origin
from perflog.tables.row_order import PART_BITS

USUAL, NOTED = kinds()["exception"], next(kind for kind in kinds().values() if kind.role == NOTICE)


def failure(line: int, message: str = "it fails", stream: str = "", by: int | None = None, **values: str) -> Failure:
    """A failure that rank `by` prints."""
    return Failure(line << PART_BITS, line, USUAL, message, values, Origin(rank=by), stream)


def notice(line: int, message: str = "it waits", stream: str = "", by: int | None = None, **values: str) -> Failure:
    return Failure(line << PART_BITS, line, NOTED, message, values, Origin(rank=by), stream)


def listed(*given: Failure) -> list[tuple[int, int, int]]:
    """First line, last line and number of each failure that is listed."""
    found = FailureList()
    assert all(found.add(each) for each in given)
    return [(each.line, each.last_line, each.count) for each in found.failures]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([failure(1)], [(1, 1, 1)]),
        ([failure(1), failure(2), failure(7)], [(1, 7, 3)]),
        ([failure(7), failure(2)], [(7, 7, 2)]),
        ([failure(1, "after 10 s"), failure(2, "after 20 s")], [(1, 2, 2)]),  # other numbers
        ([failure(1, "a"), failure(2, "b"), failure(3, "a")], [(1, 1, 1), (2, 2, 1), (3, 3, 1)]),  # not in a row
        ([failure(1), failure(2, stream="0:"), failure(3)], [(1, 3, 2), (2, 2, 1)]),  # another process
        ([failure(1, by=0), failure(2, by=1)], [(1, 1, 1), (2, 2, 1)]),
        *[([failure(1, by=None, **{name: "1"}), failure(2, by=None, **{name: "2"})], [(1, 1, 1), (2, 2, 1)])
          for name in ("job", "seq", "node", "tasks", "absent", "rank", "local_rank", "address", "gpu")],
        ([failure(1, seconds="1"), failure(2, seconds="2")], [(1, 2, 2)]),
        ([failure(1), notice(2), failure(3)], [(1, 3, 2), (2, 2, 1)]),
        ([notice(1), notice(2, "other"), notice(3)], [(1, 3, 2), (2, 2, 1)]),  # in any order
        ([notice(1, "for 10 s"), notice(2, "for 20 s")], [(1, 2, 2)]),
        ([notice(1), notice(2, stream="0:"), notice(3, by=1), notice(4, by=1)], [(1, 1, 1), (2, 2, 1), (3, 4, 2)]),
        ([notice(1, by=0, rank="7"), notice(2, by=1, rank="7")], [(1, 2, 2)]),  # whom it is about
    ],
)  # fmt: skip
def test_what_is_repeated_is_counted(given: list[Failure], kept: list[tuple[int, int, int]]) -> None:
    assert listed(*given) == kept


def test_a_run_counts_for_itself() -> None:
    found = FailureList()
    for line in (1, 2):
        found.add(failure(line))
        found.add(notice(10 + line))
    newest = found.newest
    assert newest is found.failures[0]
    found.begin_run()
    assert found.newest is newest
    found.add(failure(3))
    found.add(notice(13))
    assert [each.count for each in found.failures] == [2, 2, 1, 1]
    assert found.newest is found.failures[2]
    found.begin_log()
    assert found.newest is None


def test_of_a_kind_so_many_are_kept_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are counted where they are like the last one of their process."""
    monkeypatch.setattr(failure_list, "_MOST", 2)
    found = FailureList()
    given: list[Any] = [failure(1, "a"), failure(2, "b"), failure(3, "c"), failure(4, "d", "0:"), notice(5, "a")]
    given += [notice(6, "b"), notice(7, "c"), notice(8, "a")]
    assert [found.add(each) for each in given] == [True, True, True, False, True, True, False, True]
    assert [(each.line, each.count) for each in found.failures] == [(1, 1), (2, 2), (5, 2), (6, 1)]
    assert found.newest is found.failures[1]
