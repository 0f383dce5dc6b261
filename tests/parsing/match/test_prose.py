"""Logs full of prose: what a line of words costs is bounded, and the lines that a program repeats are still read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import perflog
from perflog.formats.families.meters import MeterFamily
from perflog.formats.registry import known
from perflog.parsing.match import discovery

if TYPE_CHECKING:
    import pytest


def prose(count: int) -> Iterator[str]:
    """Lines with names and numbers, no two of one shape."""
    words = ("the loss", "of a step", "is read", "from files", "while data", "rises", "over time")
    for k, chosen in zip(range(count), product(words, repeat=5), strict=False):
        yield f"note {k} {' '.join(chosen)} {k / 7:.4f}"


def test_a_shape_is_tried_at_its_second_line_once_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "MOST_UNREAD_SHAPES", 200)
    tried: list[str] = []
    original = MeterFamily._lines

    def counted(family: MeterFamily, text: str) -> object:
        tried.append(text)
        return original(family, text)

    monkeypatch.setattr(MeterFamily, "_lines", counted)
    steps = [f"step {k} loss 0.5 time 0.25" for k in range(50)]
    lines = [*prose(3000), *steps, "epoch_result 7 loss 0.25"]
    path = tmp_path / "prose.log"
    path.write_text("\n".join([steps[0], *lines]) + "\n", encoding="utf-8")
    log = perflog.read(path)
    assert sorted(log.table("steps")["step"].unique()) == list(range(50))
    assert 0 < len({text for text in tried if text.startswith("note")}) <= 2 * 200
    assert log.line_account["unread"] >= 3000 - 2 * 200  # they are counted, not lost


def test_texts_that_differ_in_digits_from_several_that_show_nothing_are_not_tried() -> None:
    """A benchmark's records of a shape that no family reads are not each given to all families."""
    shapes = discovery._UnreadShapes()
    texts = [b"note %d of 1000 took words" % k for k in range(1000)]
    tried = []
    for text in texts:
        if not shapes.tells_of(text):
            tried.append(text)
            shapes.add(text)
    assert tried == texts[: discovery._ENOUGH_OF_SHAPE]
    assert not shapes.tells_of(b"note 7 of 1000 took other words")


def test_shapes_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MOST_UNREAD_SHAPES", 10)
    monkeypatch.setattr(discovery, "_MOST_HELD", 20)
    shapes = discovery._UnreadShapes()
    texts = [line.encode() for line in prose(100)]
    for text in texts[:10]:
        assert not shapes.tells_of(text)
        shapes.add(text)
    assert all(shapes.tells_of(text) for text in texts[10:])
    assert not any(shapes.tells_of(text.replace(b"1", b"2")) for text in texts[:20])  # the same shape again
    assert len(shapes._counts) == 20


def test_a_long_text_is_not_searched_with_patterns_that_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of Python's search may grow with the square of a line, that of RE2 does not."""
    families = [family for form in known().values() for family in form.families if not discovery.is_first(family)]
    assert discovery.candidate_mask(pa.array([b"step 1 | loss 2.5"], pa.binary()), families).tolist() == [True]
    monkeypatch.setattr(discovery, "kept_pattern", None)
    for length in (1_000, 100_000):
        long = b"step 1 | loss 2.5 " + b"x" * length
        assert discovery.candidate_mask(pa.array([long], pa.binary()), families).tolist() == [True]
