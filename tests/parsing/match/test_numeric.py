"""Templates of plain numbers read lines as their regular expressions do, or leave them to these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.formats.template import Template
from perflog.parsing.input.chunks import SLACK
from perflog.parsing.match.numeric import MAX_TOKENS, NumericMatcher, numeric_template


@cache
def matcher(texts: tuple[str, ...]) -> NumericMatcher:
    return NumericMatcher([p for kind, text in enumerate(texts) if (p := numeric_template(kind, Template(text)))])


def matched(texts: Sequence[str], lines: Sequence[str]) -> dict[int, tuple[int, dict[str, Any]]]:
    """The template and the values of each line that is read."""
    data = "".join(f"{line}\n" for line in lines).encode()
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    starts = np.append(0, ends[:-1] + 1)
    found, mask = matcher(tuple(texts)).match(bytearray(data + bytes(SLACK)), len(data), starts, ends)
    read = {
        line: (kind, {name: column[i].item() for name, column in match.columns.items()})
        for kind, match in found.items()
        for i, line in enumerate(match.lines.tolist())
    }
    assert np.flatnonzero(mask).tolist() == sorted(read)
    return read


# --- which templates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "field_tokens", "tokens"),
    [
        ("AB {n:d}", (0,), 1),
        ("AB 9 {n:d} of 1.5: {x:.1f} 2 and 3", (1, 3), 6),
        ("{n:d} of {m:d}", (0, 1), 2),
        ("no field but 3 words", (), 1),
        ("ABCDE {x:e} {y:E} {z:g} {v:r}", (0, 1, 2, 3), 4),
    ],
)
def test_tokens_of_a_template(text: str, field_tokens: tuple[int, ...], tokens: int) -> None:
    prepared = numeric_template(7, Template(text))
    assert prepared is not None
    assert (prepared.kind, prepared.field_tokens, prepared.tokens) == (7, field_tokens, tokens)


@pytest.mark.parametrize(
    "text",
    [
        "AB {word:w}",
        "AB {n:d} of {word:w}",
        "A{n:d}",  # two bytes choose the candidates
        "A",
        "AB 7.{n:d}",  # one token with the number
        "AB {n:d}.",
        "AB {n:d}8 of {m:d}",
        "AB {n:,d}",
        "AB {n:d}{m:d}",
    ],
)
def test_templates_that_are_left_to_regular_expressions(text: str) -> None:
    assert numeric_template(0, Template(text)) is None


@pytest.mark.parametrize(("more", "is_fast"), [(0, True), (1, False)])
def test_a_template_has_at_most_31_tokens(more: int, is_fast: bool) -> None:
    line = "AB" + " 1" * (MAX_TOKENS - 1 + more)
    assert (numeric_template(0, Template(line + " {n:d}")) is not None) == is_fast
    assert (0 in matched([line + " {n:d}"], [line + " 5"])) == is_fast


# --- what is read -----------------------------------------------------------------------------------------------------

STEP = "step {n:d}: {x:.2f} ms"


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("step 7: 1.25 ms", {"n": 7, "x": 1.25}),
        ("step 0: 0.00 ms", {"n": 0, "x": 0}),
        ("step 10: 12.50 ms \t ", {"n": 10, "x": 12.5}),
        ("step 99999999999999: 1.25 ms", {"n": 99999999999999, "x": 1.25}),  # 14 digits
        ("step 100000000000000: 1.25 ms", None),  # 15
        ("step 123456789012345678901234567890: 1.25 ms", None),
        ("step 07: 1.25 ms", None),
        ("step 00: 1.25 ms", None),
        ("step 7.0: 1.25 ms", None),
        ("step 7: 1.2.5 ms", None),
        ("step .: 1.25 ms", None),
        ("step 7: . ms", None),
        ("step 7: 1.25 ms" + 63 * " ", {"n": 7, "x": 1.25}),
        ("step 7: 1.25 ms" + 64 * " ", None),
        ("step 7: 1.25 msx", None),
        ("step 7: 1.25 ms x", None),
        ("step 7: 1.25 m", None),
        ("step 7: 1.25 ", None),
        ("step 7: 1.25", None),
        ("step 7; 1.25 ms", None),
        ("Step 7: 1.25 ms", None),
        ("stop 7: 1.25 ms", None),
        ("step -7: 1.25 ms", None),
        ("step 7: 1e5 ms", None),
        ("step 7: 1.25 ms 8", None),
        ("step : 1.25 ms", None),
        ("", None),
        ("s", None),
    ],
)
def test_a_line_of_plain_numbers(line: str, values: dict[str, Any] | None) -> None:
    """Alone, as the first, and as the last line of several."""
    other = {"n": 3, "x": 2.5}
    for before, after in ((0, 0), (0, 1), (1, 0), (2, 2)):
        lines = ["step 3: 2.50 ms"] * before + [line] + ["step 3: 2.50 ms"] * after
        expected = dict.fromkeys(range(len(lines)), (0, other)) | {before: (0, values)}
        assert matched([STEP], lines) == {i: found for i, found in expected.items() if found[1] is not None}


def test_each_number_of_a_line_must_be_plain() -> None:
    lines = ["AB 07 of 5", "AB 5 of 07", "AB 5 of 6", "AB 08 of 09"]
    assert matched(["AB {n:d} of {m:d}"], lines) == {2: (0, {"n": 5, "m": 6})}
    big = "9" * 309
    lines = [f"AB {big} of 5", f"AB 5 of {big}", "AB 5 of 6", f"AB {big} of {big}"]
    assert matched(["AB {n:g} of {m:g}"], lines) == {2: (0, {"n": 5, "m": 6})}


def test_a_number_too_large_for_a_double_is_left_out() -> None:
    big = "9" * 309
    lines = ["AB 1.5 2", f"AB {big} 2", f"AB {'9' * 308} 3"]
    assert matched(["AB {x:g} {n:d}"], lines) == {
        0: (0, {"x": 1.5, "n": 2}),
        2: (0, {"x": float("9" * 308), "n": 3}),
    }


def test_a_dropped_field_must_match_and_has_no_column() -> None:
    assert matched(["AB {_:d} of {n:d}"], ["AB 4 of 5", "AB x of 5", "AB 4.5 of 5"]) == {0: (0, {"n": 5})}


def test_lines_choose_their_template_by_beginning_and_number_of_tokens() -> None:
    texts = ["AB {n:d}", "AB {n:d} of {m:d}", "CD {n:d}", "{n:d} of {m:d}", "AB {n:d} at {m:d}", "words and no numbers"]
    lines = ["AB 1 at 2", "7 of 8", "CD 3", "AB 4", "AB 5 of 6", "words and no numbers", "AB 5 by 6", "XY 5", ".5 of 8"]
    assert matched(texts, lines) == {
        0: (4, {"n": 1, "m": 2}),
        1: (3, {"n": 7, "m": 8}),
        2: (2, {"n": 3}),
        3: (0, {"n": 4}),
        4: (1, {"n": 5, "m": 6}),
        5: (5, {}),
    }


def test_the_first_of_two_templates_reads_a_line() -> None:
    assert matched(["AB {x:g} ms", "AB {n:d} ms"], ["AB 5 ms"]) == {0: (0, {"x": 5})}
    assert matched(["AB {n:d} ms", "AB {x:g} ms"], ["AB 5 ms", "AB 5.5 ms"])[0] == (0, {"n": 5})


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 63, 64, 65, 71, 128, 129, 200])
def test_each_byte_of_a_literal_counts(length: int) -> None:
    """Literals before, between and after fields, of any length; the last line ends the chunk."""
    word = "abcdefghijklm-opqrstuvwxy" * 8
    literal = f" {word[: length - 1]}" if length > 1 else " "
    text = f"AB{literal}{{n:d}}{literal}{{m:d}} {literal}."
    line = text.replace("{n:d}", "5").replace("{m:d}", "16")
    assert matched([text], [line, line]) == {0: (0, {"n": 5, "m": 16}), 1: (0, {"n": 5, "m": 16})}
    wrong = [line[:i] + "\\" + line[i + 1 :] for i in range(len(line))]
    assert matched([text], wrong) == {}


def test_the_candidates_of_a_line_and_the_order_of_templates() -> None:
    texts = ["AB {n:d}", "CD {n:d}", "{n:d} x", "AB {n:6d} of {m:d}", "AB {n:d} of {m:d}"]
    ready = matcher(tuple(texts))
    kinds = {line: [t.kind for t in ready.candidates(line)] for line in (b"AB x", b"CD 1", b"", b"A", b"XY")}
    assert kinds == {b"AB x": [0, 3, 4], b"CD 1": [1], b"": [], b"A": [], b"XY": []}
    first = [byte for byte in range(256) if [t.kind for t in ready.candidates(bytes([byte]))] == [2]]
    assert bytes(first) == b"0123456789"  # a field begins with a digit
    assert [t.kind for t in ready.ordered()] == [0, 4, 1, 2, 3]  # those with padded fields are read by their layout
    assert matched(texts, ["AB      5 of 7"]) == {}
    assert matched(texts, ["AB 5 of 7"]) == {0: (4, {"n": 5, "m": 7})}


def test_the_last_classes_of_beginnings() -> None:
    """Templates of more beginnings than a byte can number are left to the regular expressions."""
    beginnings = [f"{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
    texts = [*(f"{name} {{n:d}}" for name in beginnings), "{n:d} x"]
    found = matched(texts, [*(f"{name} 5" for name in beginnings), "5 x"])
    assert found == {**{i: (i, {"n": 5}) for i in range(254)}, 300: (300, {"n": 5})}


def test_without_lines_or_templates_nothing_is_read() -> None:
    assert matched([], ["AB 5"]) == {}
    none = np.empty(0, np.int64)
    found, mask = matcher((STEP,)).match(bytearray(SLACK), 0, none, none)
    assert (found, len(mask)) == ({}, 0)


TEXTS = (STEP, "AB 9 {n:d} of {m:d}", "{n:d}", "{n:d} of {x:g}", "AB, {x:.6f}, {y:r}, 0 ")
PIECES = ["step ", ": ", " ms", "AB 9 ", " of ", "AB, ", ", ", "7", "1.25", "0", "007", ".", "-", " ", "9" * 20, "x"]


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=7).map("".join), min_size=1, max_size=70))
def test_what_is_read_is_what_the_regular_expression_reads(lines: list[str]) -> None:
    for line, (kind, values) in matched(TEXTS, lines).items():
        assert {name: repr(value) for name, value in (Template(TEXTS[kind]).match(lines[line]) or {}).items()} == {
            name: repr(value) for name, value in values.items()
        }
