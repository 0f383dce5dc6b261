"""Chunks: whole lines without escapes, NULs and carriage returns, however the bytes of a log arrive."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.parsing.input import chunks
from perflog.parsing.input.chunks import SLACK, Chunk, as_chunk, clean_blocks, join_chunks, to_chunk


class Bytes:
    """A stream. `left` is an upper bound of what is left, as for a compressed file."""

    def __init__(self, data: bytes, spare: int = 0) -> None:
        self._data = data
        self.left = len(data) + spare

    def fill(self, room: memoryview) -> int:
        part, self._data = self._data[: len(room)], self._data[len(room) :]
        room[: len(part)] = part
        self.left -= len(part)
        return len(part)


def blocks(raw: bytes, size: int, spare: int = 0) -> list[tuple[bytes, bool, bool]]:
    """The lines of each block, whether nothing follows, and whether the last line may go on."""
    found = []
    for data, end, is_last, is_unfinished in clean_blocks(Bytes(raw, spare), size):
        assert len(data) >= end + SLACK
        found.append((bytes(data[:end]), is_last, is_unfinished))
    return found


def text(raw: bytes, size: int) -> bytes:
    return b"".join(lines for lines, *_ in blocks(raw, size))


# --- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spare", [0, 100])
def test_a_block_ends_where_a_line_ends(spare: int) -> None:
    assert blocks(b"ab\ncd\nef\n", 4, spare) == [
        (b"ab\n", False, False),
        (b"cd\n", False, False),
        (b"ef\n", True, False),
    ]
    assert blocks(b"ab\ncd\nef\n", 100, spare) == [(b"ab\ncd\nef\n", True, False)]
    assert blocks(b"abcdefgh\nij\n", 3, spare) == [(b"abcdefgh\n", False, False), (b"ij\n", True, False)]
    assert blocks(b"", 4, spare) == []


def test_empty_lines_stay_with_the_line_above() -> None:
    assert [lines for lines, *_ in blocks(b"ab\n\n\ncd\n", 5)] == [b"ab\n\n\ncd\n"]
    assert blocks(b"a\nb\n\n\n\n\ncd\n", 6)[0][0] == b"a\n"


@pytest.mark.parametrize(
    ("raw", "is_unfinished"),
    [(b"step 1", True), (b"step 1\n", False), (b"step 1\r", False), (b"(1)", False), (b'{"a": 1}', False),
     (b"1;", False), (b"1 %", False), (b"'a'", False), (b"1 ", True), (b"1 m", True)],
)  # fmt: skip
def test_a_last_line_without_line_feed_may_go_on(raw: bytes, is_unfinished: bool) -> None:
    ((lines, is_last, found),) = blocks(raw, 100)
    assert (lines, is_last, found) == (raw.rstrip(b"\r\n") + b"\n", True, is_unfinished)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a\r\nb\r\n", b"a\nb\n"),
        (b"a\rb\r\rc\r\n", b"a\rb\rc\n"),
        (b"a\r\r\nb\n", b"a\nb\n"),
        (b"a\0b\0\n", b"ab\n"),
        (b"\x1b[31mred\x1b[0m\n", b"red\n"),
        (b"a\x1b]0;title\x07b\n", b"ab\n"),
        (b"a\x1b]8;;url\x1b\\b\n", b"ab\n"),
        (b"a\x1b(Bb\n", b"ab\n"),
        (b"a\x1b\n", b"a\n"),
        (b"a\x1b[12\n", b"a12\n"),  # a sequence that never ends
        (b"a\x1b[31", b"a31\n"),
        (b"a\r\x1b[Kb\n", b"a\rb\n"),
        (b"a\x1b[K\r\nb\n", b"a\nb\n"),
        (b"a\r\0\nb\n", b"a\nb\n"),
        (b"a \xe2\x88\x922.5\n", b"a -2.5\n"),  # the sign of a document
        (b"a\xe2\x88", b"a\xe2\x88\n"),
        (b"a\xe2\x88\x92\r\n", b"a\xe2\x88\x92\n"),  # of no number
        (b"a\xe2\x88\x92\x1b[1m2\n", b"a-2\n"),
    ],
)
def test_marks_of_terminals_are_removed(raw: bytes, expected: bytes) -> None:
    """Also where a block is cut inside them."""
    assert [text(raw, size) for size in (1, 2, 3, 100)] == [expected] * 4


@given(
    st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\0", b"\x1b[1m", b"\x1b]x\x07"]), max_size=30), st.integers(1, 9)
)
def test_blocks_have_the_same_lines_however_large_they_are(pieces: list[bytes], size: int) -> None:
    raw = b"".join(pieces)
    plain = re.sub(rb"\r+", b"\r", re.sub(rb"\0|\x1b\[1m|\x1b\]x\x07", b"", raw)).replace(b"\r\n", b"\n").rstrip(b"\r")
    expected = plain if plain.endswith(b"\n") or not plain else plain + b"\n"
    assert text(raw, size) == expected


def test_a_very_long_line_ends_a_block_at_a_carriage_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LONGEST", 8)
    found = blocks(b"aaaa\rbbbb\rcccc\rdd\nee\n", 5)
    assert b"".join(lines for lines, *_ in found) == b"aaaa\rbbbb\rcccc\rdd\nee\n"
    assert found[0][0].endswith(b"\r") and len(found[0][0]) <= 15
    found = blocks(b"a" * 50 + b"\nee\n", 5)  # nothing to end at: the rest is left out, but for one byte over the limit
    assert [lines for lines, *_ in found] == [b"a" * 9 + b"\nee\n"]


# --- chunks -----------------------------------------------------------------------------------------------------------


def chunk(raw: bytes, line: int = 1, is_last: bool = False, is_unfinished: bool = False) -> Chunk:
    return to_chunk(bytearray(raw + b"\xff" * (SLACK + 1)), len(raw), line, is_last, is_unfinished)


def facts(made: Chunk) -> tuple[bytes, int, int, list[int], list[int], bool, list[int]]:
    assert made.data[made.size : made.size + SLACK] == bytes(SLACK)
    lines = bytes(made.data[: made.size])
    return lines, made.first_line, made.lines, made.returns, made.cut, made.is_last, made.unfinished


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"ab\ncd\n", (b"ab\ncd\n", 2, [], [])),
        (b"a\rb\rc\nd\n", (b"a\nb\nc\nd\n", 2, [1, 3], [])),
        (b"a\rb\r", (b"a\nb\n", 0, [1, 3], [])),
    ],
)
def test_carriage_returns_end_segments(raw: bytes, expected: tuple[bytes, int, Sequence[int], Sequence[int]]) -> None:
    lines, count, returns, cut = expected
    assert facts(chunk(raw, 7)) == (lines, 7, count, returns, cut, False, [])


def test_the_last_line_of_an_unfinished_log() -> None:
    assert facts(chunk(b"ab\ncd\n", 1, True, True))[-2:] == (True, [3])
    assert facts(chunk(b"cd\n", 1, True, True))[-1] == [0]


@pytest.mark.parametrize(
    ("raw", "lines", "returns", "cut"),
    [
        (b"a" * 8 + b"\nbb\n", b"a" * 8 + b"\nbb\n", [], []),
        (b"a" * 9 + b"\nbb\n", b"aaa\nbb\n", [], [0]),
        (b"bb\n" + b"a" * 9 + b"\nc\n" + b"d" * 20 + b"\n", b"bb\naaa\nc\nddd\n", [], [3, 9]),
        (b"b\r" + b"a" * 9 + b"\rc\rd\n", b"b\naaa\nc\nd\n", [1, 5, 7], [2]),
    ],
)
def test_long_segments_are_cut(
    raw: bytes, lines: bytes, returns: list[int], cut: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "LONGEST", 8)
    monkeypatch.setattr(chunks, "KEPT", 3)
    found = facts(chunk(raw))
    assert (found[0], found[3], found[4]) == (lines, returns, cut)
    assert found[2] == raw.count(b"\n")


def test_states_of_progress_bars_are_parts_of_their_lines() -> None:
    made = chunk(b"loss 2.5 50%|## | 5/10 [00:05<00:05,  1.00it/s]done\n", 3)
    assert made.data[: made.size].count(b"\n") == 1 + len(made.returns)
    assert (made.first_line, made.lines) == (3, 1) and made.returns


def test_lines_as_a_chunk() -> None:
    assert facts(as_chunk(b"ab\ncd\n")) == (b"ab\ncd\n", 1, 2, [], [], False, [])


def test_two_chunks_as_one() -> None:
    first, second = chunk(b"a\rb\n", 5), chunk(b"c\rd\ne\n", 6, True, True)
    first.cut, second.cut, first.unfinished = [2], [0], [2]
    assert facts(join_chunks(first, second)) == (b"a\nb\nc\nd\ne\n", 5, 3, [1, 5], [2, 4], False, [2, 8])
