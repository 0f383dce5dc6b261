"""Logs joined into one chunk: where each begins, what each has, and whether they look alike."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perflog.ingestion.joined_logs import JoinedLogs, UnlikeLogsError
from perflog.parsing.input.chunks import SLACK, Chunk
from perflog.parsing.match.records import BLANK, Records
from perflog.tables.row_order import PART_BITS


def chunk(text: bytes, **marks: Any) -> Chunk:
    given: dict[str, Any] = {"returns": [], "cut": [], "unfinished": []} | marks
    return Chunk(
        bytearray(text) + bytes(SLACK), len(text), 1, text.count(b"\n"), given["returns"], given["cut"], is_last=True,
        unfinished=given["unfinished"],
    )  # fmt: skip


LOGS = JoinedLogs.of([
    chunk(b"a\nb\n", returns=[1], cut=[2]), chunk(b"c\n"), chunk(b"d\ne\nf\n", returns=[1, 3], cut=[0], unfinished=[4])
])  # fmt: skip


def at(*lines: int) -> Any:
    return np.array(lines, np.int64) << PART_BITS


def test_an_empty_line_is_between_two_logs() -> None:
    joined = LOGS.chunk
    assert bytes(joined.data[: joined.size]) == b"a\nb\n\nc\n\nd\ne\nf\n" and not any(joined.data[joined.size :])
    assert len(joined.data) == joined.size + SLACK
    assert (joined.first_line, joined.lines, joined.is_last) == (1, 8, True)
    assert (LOGS.first_lines.tolist(), LOGS.starts.tolist()) == ([1, 4, 6], [0, 5, 8])
    assert (joined.returns, joined.cut, joined.unfinished) == ([1, 9, 11], [2, 8], [12])


def test_positions_of_logs_and_of_the_lines_between_them() -> None:
    assert LOGS.positions.tolist() == [0, *at(4, 6).tolist()]
    assert LOGS.gaps.tolist() == at(3, 5).tolist()
    batch: Any = SimpleNamespace(owner={BLANK: at(2, 3, 5, 7)})
    assert LOGS.without_gaps(batch).owner[BLANK].tolist() == at(2, 7).tolist()


def test_what_each_log_has() -> None:
    assert LOGS.counts(at(0, 1, 3, 4, 6, 8)).tolist() == [3, 1, 2]
    assert LOGS.counts(at()).tolist() == [0, 0, 0]
    kinds = {7: at(2, 4, 6), 9: at(1, 2, 5, 7, 8)}
    batch: Any = SimpleNamespace(records={kind: Records(positions) for kind, positions in kinds.items()})
    assert (LOGS.firsts(batch, [9, 7]) >> PART_BITS).tolist() == [[1, 2], [5, 4], [7, 6]]
    assert LOGS.firsts(batch, []).shape == (3, 0)


def test_logs_that_have_the_same_look_alike() -> None:
    LOGS.check([np.array([2, 2, 2]), np.array([True, True, True])])
    LOGS.check([])


@pytest.mark.parametrize(
    ("have", "groups"),
    [
        ([[2, 3, 2]], [[0, 2], [1]]), ([[1, 1, 1], [5, 5, 4]], [[2], [0, 1]]), ([[1, 2, 3]], [[0], [1], [2]]),
        ([[1, 1, 2], [1, 2, 2]], [[0], [1], [2]]),
    ],
)  # fmt: skip
def test_logs_that_differ_are_divided(have: list[list[int]], groups: list[list[int]]) -> None:
    with pytest.raises(UnlikeLogsError) as raised:
        LOGS.check([np.array(each) for each in have])
    assert sorted(map(list, raised.value.groups)) == sorted(groups)
