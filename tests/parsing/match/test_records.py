"""Records and positions: parts taken and joined, segments by position, the kind that accounts for a line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perflog.parsing.input.chunks import Chunk, as_chunk
from perflog.parsing.match.records import (
    BLANK,
    FAILURE,
    Batch,
    Records,
    Stamps,
    join,
    owners,
    part_positions,
    segment_positions,
    strings,
    unread_shapes,
)
from perflog.tables.row_order import PART_BITS, PART_MASK

NONE = np.empty(0, np.int64)


def at(*lines: int | tuple[int, int]) -> Any:
    """Positions of lines, or of parts of lines."""
    pairs = [line if isinstance(line, tuple) else (line, 0) for line in lines]
    return np.array([line << PART_BITS | part for line, part in pairs], np.int64)


def pairs(positions: Any) -> list[tuple[int, int]]:
    return [(position >> PART_BITS, position & PART_MASK) for position in positions.tolist()]


# --- records ----------------------------------------------------------------------------------------------------------


def made(lines: list[int], labels: list[int] | None = None, times: list[int] | None = None) -> Records:
    """Records with a number and a word each, which name their line."""
    columns = {"number": np.array(lines), "word": pa.array([str(line) for line in lines])}
    stamps = None if times is None else Stamps(np.array(times), np.full(len(times), 2), np.full(len(times), 1000))
    return Records(at(*lines), columns, None if labels is None else np.array(labels), stamps)


def shown(records: Records) -> dict[str, Any]:
    columns = {"number": records.columns["number"].tolist(), "word": records.columns["word"].to_pylist()}
    stamps = records.stamps
    return {
        "lines": [line for line, _ in pairs(records.positions)],
        **columns,
        "labels": None if records.labels is None else records.labels.tolist(),
        "stamps": None
        if stamps is None
        else list(zip(stamps.time.tolist(), stamps.clock.tolist(), stamps.resolution.tolist(), strict=True)),
    }


@pytest.mark.parametrize(
    "rows", [slice(1, 3), np.array([1, 2]), np.array([False, True, True, False])], ids=["slice", "index", "mask"]
)
def test_some_of_the_records_have_all_that_belongs_to_them(rows: Any) -> None:
    taken = made([3, 4, 6, 9], [0, 1, -1, 2], [10, 20, 30, 40]).take(rows)
    assert shown(taken) == {
        "lines": [4, 6],
        "number": [4, 6],
        "word": ["4", "6"],
        "labels": [1, -1],
        "stamps": [(20, 2, 1000), (30, 2, 1000)],
    }
    bare = shown(made([3, 4, 6, 9]).take(rows))
    assert (bare["lines"], bare["labels"], bare["stamps"]) == ([4, 6], None, None)


def test_a_copy_shares_no_array_of_numbers() -> None:
    records = made([3, 4], [0, 1], [10, 20])
    before, copy = shown(records), records.copy()
    records.positions[:] = records.columns["number"][:] = records.labels[:] = 0  # type: ignore[index]
    for column in (records.stamps.time, records.stamps.clock, records.stamps.resolution):  # type: ignore[union-attr]
        column[:] = 0
    assert shown(copy) == before
    assert shown(made([3]).copy())["labels"] is None


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_parts_joined_are_in_log_order(order: tuple[int, int]) -> None:
    """A part without labels or stamps has unknown ones."""
    parts = [made([3, 8], [5, 6]), made([4, 6], times=[10, 20])]
    assert shown(join([parts[i] for i in order])) == {
        "lines": [3, 4, 6, 8],
        "number": [3, 4, 6, 8],
        "word": ["3", "4", "6", "8"],
        "labels": [5, -1, -1, 6],
        "stamps": [(-1, -1, 1), (10, 2, 1000), (20, 2, 1000), (-1, -1, 1)],
    }


def test_parts_without_labels_or_stamps_have_none_together() -> None:
    found = shown(join([made([3]), made([4])]))
    assert (found["lines"], found["labels"], found["stamps"]) == ([3, 4], None, None)
    assert shown(join([made([3], [0])])) == shown(made([3], [0]))


# --- segments of a chunk ----------------------------------------------------------------------------------------------


def chunk_of(text: bytes, first_line: int = 1) -> Chunk:
    """A chunk of lines. A lone CR divides segments."""
    chunk = as_chunk(text.replace(b"\r", b"\n"))
    chunk.first_line, chunk.lines = first_line, text.count(b"\n")
    chunk.returns = [i for i, byte in enumerate(text) if byte == 13]
    return chunk


def batch_of(text: bytes, first_line: int = 1, **more: Any) -> Batch:
    chunk = chunk_of(text, first_line)
    ends = np.flatnonzero(np.frombuffer(chunk.data, np.uint8, chunk.size) == 10)
    starts = np.append(0, ends[:-1] + 1)
    return Batch(chunk, {}, {}, NONE, NONE, starts, ends, segment_positions(chunk, ends), **more)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"ab\nc\n", [(5, 0), (6, 0)]),
        (b"ab\rc\rd\ne\nf\rg\n", [(5, 0), (5, 1), (5, 2), (6, 0), (7, 0), (7, 1)]),
        (b"a\nb\rc\n", [(5, 0), (6, 0), (6, 1)]),
    ],
)
def test_each_segment_has_its_line_and_part(text: bytes, expected: list[tuple[int, int]]) -> None:
    assert pairs(batch_of(text, 5).positions) == expected


def test_parts_of_a_line_that_is_cut_are_counted_through_its_segments() -> None:
    """The first segment of line 5 is in two parts, its second in one, line 6 in three."""
    found = part_positions(at(5, (5, 1), 6), np.array([0, 0, 1, 2, 2, 2]))
    assert pairs(found) == [(5, 0), (5, 1), (5, 2), (6, 0), (6, 1), (6, 2)]


@pytest.mark.parametrize("text", [b"ab\nc\nde\n", b"ab\rc\nde\nf\n"], ids=["lines", "parts"])
def test_segments_and_their_positions(text: bytes) -> None:
    batch = batch_of(text, 5)
    rows = np.arange(len(batch.starts))
    positions = segment_positions(batch.chunk, batch.ends)
    if not batch.has_parts:
        batch.positions = NONE  # they follow from the numbers of the lines
    assert batch.positions_of(rows).tolist() == positions.tolist()
    assert batch.rows(positions).tolist() == batch.rows_from(positions).tolist() == rows.tolist()
    assert batch.texts(positions) == text.replace(b"\r", b"\n").decode().split()
    assert batch.text(int(positions[1])) == "c"
    assert batch.texts(positions[:1], limit=1) == ["a"]


@pytest.mark.parametrize(
    ("text", "position", "row"),
    [
        (b"ab\nc\nde\n", (6, 1), 2),  # after line 6
        (b"ab\nc\nde\n", (4, 7), 0),
        (b"ab\nc\nde\n", (2, 0), 0),  # before the chunk
        (b"ab\nc\nde\n", (7, 1), 3),  # after it
        (b"ab\rc\nde\n", (5, 1), 1),
        (b"ab\rc\nde\n", (5, 2), 2),
        (b"ab\rc\nde\n", (6, 1), 3),
    ],
)
def test_the_first_segment_from_a_position_on(text: bytes, position: tuple[int, int], row: int) -> None:
    assert batch_of(text, 5).rows_from(at(position)).tolist() == [row]


def test_the_segment_at_a_part_that_was_joined_to_it() -> None:
    """Records joined on one line have a position each, all in one segment."""
    assert batch_of(b"ab\rc\nde\n", 5).rows(at((5, 1), (5, 4), 6, (6, 3))).tolist() == [1, 1, 2, 2]
    assert batch_of(b"ab\nc\n", 5).rows(at(5, (5, 4), 6)).tolist() == [0, 0, 1]


def test_bytes_that_are_no_utf_8_are_shown_escaped() -> None:
    assert batch_of(b"a\xff\n").texts(at(1)) == ["a\\xff"]


@pytest.mark.parametrize(
    ("text", "open_positions", "unfinished", "expected"),
    [
        (b"a\n", None, [], (False, False)),
        (b"a\rb\n", None, [], (True, False)),
        (b"a\nb\n", at(2), [2], (True, False)),  # the last line may go on
        (b"a\nb\n", at(1, 2), [2], (True, True)),
        (b"a\nb\n", at(1), [], (True, True)),
    ],
)
def test_lines_with_parts_and_torn_lines(
    text: bytes, open_positions: Any, unfinished: list[int], expected: tuple[bool, bool]
) -> None:
    batch = batch_of(text, open_positions=open_positions)
    batch.chunk.unfinished = unfinished
    assert (batch.has_parts, batch.is_torn) == expected


# --- kinds ------------------------------------------------------------------------------------------------------------


def kinds_batch() -> Batch:
    batch = batch_of(b"a\nb\nc\nd\n")
    batch.records, batch.owner = {4: made([1])}, {4: at(1), BLANK: NONE}
    batch.unread, batch.unread_parts = at(2, 4), at((1, 1), (3, 1))
    return batch


def test_unread_segments_are_lines_and_parts_in_log_order() -> None:
    batch = kinds_batch()
    assert pairs(batch.unread_segments) == [(1, 1), (2, 0), (3, 1), (4, 0)]
    batch.unread_parts = NONE
    assert pairs(batch.unread_segments) == [(2, 0), (4, 0)]


def test_kinds_with_other_numbers() -> None:
    batch = kinds_batch().with_kinds({4: 9, BLANK: BLANK})
    assert {kind: shown(records)["lines"] for kind, records in batch.records.items()} == {9: [1]}
    assert {kind: pairs(positions) for kind, positions in batch.owner.items()} == {9: [(1, 0)], BLANK: []}


def test_segments_of_failures_are_not_unread() -> None:
    """The failure accounts for a line, but not for a part of the line of another kind."""
    batch = kinds_batch().with_failures(at((1, 1), 4))
    assert pairs(batch.unread) == [(2, 0)] and pairs(batch.unread_parts) == [(3, 1)]
    assert pairs(batch.owner[FAILURE]) == [(4, 0)] and pairs(batch.owner[4]) == [(1, 0)]
    assert batch.failures is not None and pairs(batch.failures) == [(1, 1), (4, 0)]


@pytest.mark.parametrize(("positions", "failures"), [(at(2), [(2, 0)]), (at((3, 1)), [(3, 1)]), (at(3), None)])
def test_a_failure_of_lines_alone_or_of_parts_alone(positions: Any, failures: Any) -> None:
    found = kinds_batch().with_failures(positions).failures
    assert (None if found is None else pairs(found)) == failures


READ, CONTEXT = 0, 1


@pytest.mark.parametrize(
    ("records", "blank", "unread", "expected"),
    [
        ({READ: at(1), CONTEXT: at(2)}, at(4), at(3), {READ: [1], CONTEXT: [2], BLANK: [4], "unread": [3]}),
        ({READ: at((1, 1)), CONTEXT: at(1)}, NONE, NONE, {READ: [1]}),  # what is read comes first
        ({READ: at((1, 1))}, NONE, at(1), {READ: [1]}),
        ({CONTEXT: at(1)}, NONE, at((1, 1)), {"unread": [1]}),  # then an unread part
        ({CONTEXT: at((1, 1))}, at(1), NONE, {CONTEXT: [1]}),
        ({}, at(1), at((1, 1)), {"unread": [1]}),
        ({READ: at((1, 1), (1, 2), 2)}, at(1), NONE, {READ: [1, 2]}),
    ],
)
def test_one_kind_accounts_for_each_line(
    records: dict[int, Any], blank: Any, unread: Any, expected: dict[Any, list[int]]
) -> None:
    is_read = {READ: True, CONTEXT: False}
    kinds, left = owners(
        {kind: Records(positions) for kind, positions in records.items()}, blank, unread, is_read, True
    )
    found: dict[Any, Any] = {**kinds, "unread": left}
    assert {
        kind: [line for line, _ in pairs(positions)] for kind, positions in found.items() if len(positions)
    } == expected


def test_of_two_records_of_a_line_the_first_accounts_for_it() -> None:
    kinds, _ = owners({0: Records(at((1, 1))), 1: Records(at(1))}, NONE, NONE, {0: True, 1: True}, False)
    assert pairs(kinds[0]) == [] and pairs(kinds[1]) == [(1, 0)]


def test_whitespace_lines_are_in_log_order() -> None:
    kinds, _ = owners({}, at(4, 2), NONE, {}, False)
    assert pairs(kinds[BLANK]) == [(2, 0), (4, 0)]


# --- shapes of unread lines -------------------------------------------------------------------------------------------


def test_lines_that_differ_in_numbers_and_spaces_have_one_shape() -> None:
    batch = batch_of(b"step 12 of 7\nstep \t3 of 45 \nother\n")
    names, index = unread_shapes(batch, at(1, 2, 3))
    assert [names[i] for i in index.tolist()] == ["step # of #", "step # of #", "other"]


@pytest.mark.parametrize(("length", "expected"), [(160, "x" * 160), (161, "x" * 160)])
def test_a_shape_is_of_the_first_160_bytes(length: int, expected: str) -> None:
    names, index = unread_shapes(batch_of(b"x" * length + b"\n"), at(1))
    assert (names, index.tolist()) == ([expected], [0])


def test_byte_strings_at_offsets() -> None:
    data = bytearray(b"abcdefgh")
    assert strings(data, np.array([1, 4, 6]), np.array([3, 4, 8])).to_pylist() == [b"bc", b"", b"gh"]
    assert strings(data, NONE, NONE).to_pylist() == []
