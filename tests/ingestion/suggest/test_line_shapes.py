"""The shapes of unread lines: how many lines each has, the first of them, and some that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perflog.ingestion.suggest import line_shapes
from perflog.ingestion.suggest.line_shapes import LineShape, ShapeCounter
from perflog.parsing.input.chunks import as_chunk
from perflog.parsing.match.rank_labels import Labels, strip_rank_labels
from perflog.parsing.match.records import Batch
from perflog.parsing.match.scanner import Scanner

if TYPE_CHECKING:
    import pytest


def batch(*lines: str | bytes, first: int = 1) -> Batch:
    """A batch of unread lines."""
    texts = [line if isinstance(line, bytes) else line.encode() for line in lines]
    chunk = as_chunk(b"".join(text + b"\n" for text in texts))
    chunk.first_line = first
    return Scanner([], Labels()).scan(chunk)


def counted(*batches: Batch) -> list[tuple[int, int, list[str]]]:
    """First line, number of lines and kept lines of each shape."""
    counter = ShapeCounter(strip_rank_labels)
    for each in batches:
        counter.add(each)
    return sorted((shape.first, shape.count, list(shape.lines)) for shape in counter.shapes.values())


def test_lines_that_differ_in_numbers_are_of_one_shape() -> None:
    """Kept of each group are the first, the shortest, the longest and the last."""
    lines = ["loss 250 a", "loss 1250 a", "other 5", "loss 100 a", "loss 100000 a", "loss 777 a", "loss 888 a"]
    assert counted(batch(*lines)) == [
        (1, 6, ["loss 250 a", "loss 100000 a", "loss 888 a"]),
        (3, 1, ["other 5"]),
    ]
    assert counted(batch("", "   ")) == []


def test_shapes_go_on_in_the_next_batch() -> None:
    found = counted(batch("loss 250", "loss 260", first=11), batch("x", "loss 7", first=3))
    assert found == [(3, 1, ["x"]), (4, 3, ["loss 250", "loss 260", "loss 7"])]


def test_lines_are_without_rank_labels_and_too_long_or_odd_ones_are_left_out() -> None:
    assert counted(batch("[rank3]:loss 5", "[rank4]:loss 6")) == [(1, 2, ["loss 5", "loss 6"])]
    long = "a" * 1997 + " 55"
    assert [len(lines) for _, _, lines in counted(batch(long))] == [1]
    assert counted(batch(long + "5")) == []
    assert len(counted(batch("b" * 1990, "a"))) == 2
    assert counted(batch(b"loss \xff 5", "loss 5")) == [(2, 1, ["loss 5"])]
    assert counted(batch("5 " * 401)) == [] and len(counted(batch("5, " * 200))) == 1


def test_so_many_lines_and_shapes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_shapes, "_MOST_LINES", 3)
    batches = [batch(f"loss {number}", first=number) for number in range(1, 6)]
    assert counted(*batches) == [(1, 5, ["loss 1", "loss 2", "loss 3"])]
    monkeypatch.setattr(line_shapes, "_MOST_SHAPES", 4)
    lines = [f"{word} 1" for word in "abcde"] + ["d 2", "e 2"]
    assert [lines for _, _, lines in counted(batch(*lines))] == [["d 1", "d 2"], ["e 1", "e 2"]]


def test_so_many_lines_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many of the first batch, fewer of each further one."""
    monkeypatch.setattr(line_shapes, "_PARSED_FIRST", 2)
    monkeypatch.setattr(line_shapes, "_PARSED_MORE", 1)
    assert [shape[2] for shape in counted(batch("a", "b", "c", "d", "e"))] == [["a"], ["b"], ["c"]]
    assert [shape[2] for shape in counted(batch("a", "b", "c", "d"), batch("e", "f", first=9))] == [
        ["a"], ["b"], ["c"], ["e"],
    ]  # fmt: skip


def test_shapes_are_joined() -> None:
    shape = LineShape(5, 3, {"a 1": ()})
    shape.join(LineShape(2, 4, {"a 2": (), "a 1": ()}))
    assert (shape.first, shape.count, list(shape.lines)) == (2, 7, ["a 1", "a 2"])
    full = LineShape(1, 1, {str(number): () for number in range(48)})
    full.keep("more", ())
    assert len(full.lines) == 48
