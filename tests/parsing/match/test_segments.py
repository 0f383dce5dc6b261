"""Stretches of a batch under the lines that open something, label by label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.reading import write

from perflog.formats.registry import known
from perflog.parsing.match.ordered import segments
from perflog.parsing.match.ordered.segments import LINES_ABOVE, Segments, stretches, with_records
from perflog.parsing.match.records import lines_of
from perflog.parsing.match.scanner import Scanner

Found = dict[int, list[tuple[int, Any, int]]]


@pytest.mark.parametrize(
    ("still_open", "openers", "logs", "expected"),
    [
        ({}, [], [], {}),
        ({}, [(2, -1, "a")], [], {-1: [(2, "a", 10)]}),
        ({}, [(2, -1, "a"), (5, -1, "b")], [], {-1: [(2, "a", 5), (5, "b", 10)]}),
        ({-1: "x"}, [(2, -1, "a")], [], {-1: [(-1, "x", 2), (2, "a", 10)]}),  # of an earlier batch
        ({-1: "x"}, [], [], {-1: [(-1, "x", 10)]}),
        (  # each rank has its own
            {0: "x"},
            [(2, 1, "a"), (5, 0, "b")],
            [],
            {0: [(-1, "x", 5), (5, "b", 10)], 1: [(2, "a", 10)]},
        ),
        ({}, [(2, -1, "a"), (5, -1, "b")], [4, 7], {-1: [(2, "a", 4), (5, "b", 7)]}),  # a log ends it
        ({}, [(4, -1, "a"), (8, -1, "b")], [4, 7], {-1: [(4, "a", 7), (8, "b", 10)]}),
    ],
)
def test_stretches(
    still_open: dict[int, str], openers: list[tuple[int, int, str]], logs: list[int], expected: Found
) -> None:
    assert dict(stretches(still_open, openers, 10, logs)) == expected


LINES = lines_of([known()["common"]])
LOG = b"[rank1]:odd words\nmore odd words\n[rank0]:odd words too\n[rank1]:last odd words\n"


def scanned(data: bytes = LOG) -> Any:
    (chunk,) = write(data).chunks()
    return Scanner(LINES).scan(chunk)


def test_segments_with_a_label_and_all_of_them() -> None:
    found = Segments(scanned())
    assert list(found.lines(range(4), 1)) == [(0, "odd words"), (3, "last odd words")]
    assert list(found.lines(range(1, 3), 0)) == [(2, "odd words too")]
    assert [text for _, text in found.lines(range(4), -1)] == LOG.decode().splitlines()
    assert list(found.lines(range(0), -1)) == []


def test_records_of_segments_are_read_no_more() -> None:
    batch = scanned()
    found = Segments(batch)
    assert found.unread.tolist() == [True] * 4
    found.add(0, np.array([3]), {}, 1)
    found.add(0, np.array([1]), {}, -1)
    assert found.unread.tolist() == [True, False, True, False]
    assert found.records[0][1].labels is None
    after = with_records(batch, {0: [found.records[0][1], found.records[0][0]]}, LINES)
    assert batch.rows(after.unread).tolist() == [0, 2]
    assert batch.rows(after.records[0].positions).tolist() == [1, 3]
    labels = after.records[0].labels
    assert labels is not None and labels.tolist() == [-1, 1]
    assert with_records(batch, {}, LINES).unread.tolist() == batch.unread.tolist()


def test_a_long_line_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MAX_LENGTH", len(b"[rank0]:odd words too"))
    assert Segments(scanned()).unread.tolist() == [True, True, False, False]


@pytest.mark.parametrize("label", [0, 1])
def test_the_line_above_is_that_of_the_same_label(label: int) -> None:
    other = 1 - label
    lines = [f"[rank{label}]:odd rule", *[f"[rank{other}]:odd words"] * (LINES_ABOVE - 1), f"[rank{label}]:odd head"]
    found = Segments(scanned("".join(f"{line}\n" for line in lines).encode()))
    assert found.above(LINES_ABOVE, label) == (0, "odd rule")
    assert found.above(LINES_ABOVE, -1) == (LINES_ABOVE - 1, lines[-2])
    assert found.above(1, other) is found.above(0, label) is found.above(-1, label) is None
    found.add(0, np.array([0]), {}, label)
    assert found.above(LINES_ABOVE, label) is None


def test_a_line_of_the_label_that_is_too_far_above_is_none() -> None:
    lines = ["[rank0]:odd rule", *["[rank1]:odd words"] * LINES_ABOVE, "[rank0]:odd head"]
    found = Segments(scanned("".join(f"{line}\n" for line in lines).encode()))
    assert found.above(LINES_ABOVE + 1, 0) is None
