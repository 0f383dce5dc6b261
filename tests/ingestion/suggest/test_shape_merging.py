"""Line shapes that differ only in words that vary become one; names of numbers stay apart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perflog.formats.tokens import skeleton, tokens
from perflog.ingestion.suggest.line_shapes import Key, LineShape
from perflog.ingestion.suggest.shape_merging import WORD, fits, merge_shapes


def shapes(lines: Sequence[str]) -> dict[Key, LineShape]:
    """The shapes of lines, which have numbers from 1."""
    found: dict[Key, LineShape] = {}
    for number, text in enumerate(lines, 1):
        line = tokens(text)
        shape = found.setdefault(skeleton(line), LineShape(number))
        shape.count += 1
        shape.keep(text, line)
    return found


def merged(lines: Sequence[str]) -> list[tuple[int, int, list[str]]]:
    """First line, number of lines, and lines of each shape."""
    found = merge_shapes(shapes(lines)).values()
    return sorted((shape.first, shape.count, list(shape.lines)) for shape in found)


WORDS = ["alpha", "beta", "gamma", "delta", "epsilon"]


@pytest.mark.parametrize(
    ("template", "words", "together"),
    [
        ("loaded the file {}", 3, True), ("loaded the file {}", 2, False),
        ("loss 3.5 of {}", 3, True), ("loss 3.5 of {}", 2, False),  # a word after the last number
        ("{} forward 3.1 backward 6.2", 4, True), ("{} forward 3.1 backward 6.2", 3, False),  # begins a row
        ("{} forward: 3.1", 5, False),  # the word names the number
        ("note {}, loss 3.1", 3, True), ("note {}, loss 3.1", 2, False), ("note | {} | 3.1", 5, False),
        ("note {} | of 3.1", 3, True),
        ("5 {} ticks", 5, False), ("abc {}", 3, True), ("ab {}", 3, False), ("{}", 3, False),
    ],
)  # fmt: skip
def test_how_many_words_show_that_a_word_varies(template: str, words: int, together: bool) -> None:
    lines = [template.format(word) for word in WORDS[:words]]
    expected = [(1, words, lines)] if together else [(k, 1, [line]) for k, line in enumerate(lines, 1)]
    assert merged(lines) == expected


def test_units_after_a_number_do_not_vary() -> None:
    assert len(merged([f"read 5 {unit} of it" for unit in ("MB", "GB", "kB", "TB")])) == 4
    assert len(merged([f"read x5 {unit} of it" for unit in ("MB", "GB", "kB", "TB")])) == 1  # no number before it


def test_many_words_vary_also_where_they_name_a_number() -> None:
    for count, shapes_left in ((60, 1), (59, 59)):
        letters = [chr(97 + k // 26) + chr(97 + k % 26) for k in range(count)]
        assert len(merged([f"time of {letter}: 3.1" for letter in letters])) == shapes_left


def test_two_words_of_a_line_may_vary() -> None:
    lines = [f"from {a} to {b}" for a in WORDS[:3] for b in WORDS[:3]]
    ((first, count, kept),) = merged(lines)
    assert (first, count, sorted(kept)) == (1, 9, sorted(lines))
    three = [f"from {a} to {b} by {c}" for a in WORDS[:3] for b in WORDS[:3] for c in WORDS[:3]]
    assert len(merged(three)) == 3


def test_names_with_digits_are_shapes_of_their_own() -> None:
    lines = ["p50 latency: 9.4", "p99 latency: 10.5", "p50 latency: 9.5", "p99 latency: 10.5"]
    assert [(count, found) for _, count, found in merged(lines)] == [(1, [lines[1]]), (2, [lines[0], lines[2]])]


def test_the_digits_of_a_counter_are_a_number() -> None:
    assert len(merged([f"step{k} loss: 2.5" for k in range(3)])) == 1


def test_too_many_names_with_digits_are_one_shape() -> None:
    assert len(merged([f"p{k} latency: 9.4" for k in range(16)])) == 16
    assert len(merged([f"p{k} latency: 9.4" for k in range(17)])) == 1


@pytest.mark.parametrize(
    ("text", "belongs"),
    [("loaded the file delta", True), ("loaded a file delta", False), ("loaded the file delta now", False),
     ("loaded the file 5", True), ("loaded the file: delta", False)],
)  # fmt: skip
def test_a_line_belongs_to_a_merged_shape(text: str, belongs: bool) -> None:
    (wild,) = merge_shapes(shapes([f"loaded the file {word}" for word in WORDS[:3]]))
    assert WORD in wild
    line = tokens(text)
    assert fits(wild, skeleton(line), line) == belongs
