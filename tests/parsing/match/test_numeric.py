"""Which templates hold plain numbers alone, and which of them a line may have by its beginning."""

from __future__ import annotations

import numpy as np
import pytest

from perflog.formats.template import Template
from perflog.parsing.match.numeric import Candidates, plain_literals


@pytest.mark.parametrize(
    ("text", "literals"),
    [
        ("AB {n:d}", (b"AB ", b"")),
        ("AB 9 {n:d} of 1.5: {x:.1f} 2 and 3 ", (b"AB 9 ", b" of 1.5: ", b" 2 and 3")),
        ("{n:6d} of {m:d}", (b"", b" of ", b"")),
        ("no field but 3 words", (b"no field but 3 words",)),
    ],
)
def test_literals_of_a_template_of_plain_numbers(text: str, literals: tuple[bytes, ...]) -> None:
    assert plain_literals(Template(text)) == literals


@pytest.mark.parametrize(
    "text",
    [
        "AB {n:d} of {word:w}",
        "A{n:d}",  # two bytes choose the candidates
        "A",
        "AB 7.{n:d}",  # where the number begins depends on its digits
        "AB {n:d}.",
        "AB {n:d}8 of {m:d}",
        "AB {n:,d}",
        "AB {n:d}{m:d}",
    ],
)
def test_templates_that_are_left_to_regular_expressions(text: str) -> None:
    assert plain_literals(Template(text)) is None


def candidates(texts: list[str]) -> Candidates:
    return Candidates({kind: Template(text) for kind, text in enumerate(texts)})


def test_the_candidates_of_a_line() -> None:
    ready = candidates(["AB {n:d}", "CD {n:d}", "{n:d} x", "AB {n:6d} of {m:d}", "AB {word:w}"])
    kinds = {line: [kind for kind, _ in ready.of(line)] for line in (b"AB x", b"CD 1", b"9", b"", b"A", b"XY")}
    assert kinds == {b"AB x": [0, 3], b"CD 1": [1], b"9": [2], b"": [], b"A": [], b"XY": []}
    data = bytearray(b"AB 1\nXY\n9 x\nCD 1\n")
    assert ready.start_classes(data, np.array([0, 5, 8, 12])).tolist() == [1, 0, 3, 2]


def test_beginnings_that_a_byte_cannot_number_have_no_candidates() -> None:
    beginnings = [f"{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
    ready = candidates([*(f"{name} {{n:d}}" for name in beginnings), "{n:d} x"])
    found = [[kind for kind, _ in ready.of(line.encode())] for line in [*beginnings, "5 x"]]
    assert found == [*([i] for i in range(254)), *([] for _ in range(46)), [300]]
