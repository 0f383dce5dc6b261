"""Tokens of a line: numbers, units, names, marks, lists, and strings that vary and measure nothing."""

from __future__ import annotations

import pytest

from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import NAME, NUMBER, OPAQUE, Token, skeleton, split_digits, tokens

KINDS = {"number": "#", "unit": "u", "name": "n", "mark": "m", "opaque": "?", "list": "l"}


@pytest.mark.parametrize(
    ("text", "kinds", "parts"),
    [
        ("step 10/20: loss=2.5", "n#m#mnm#", "step 10 / 20 : loss = 2.5"),
        ("x 3.1ms, 4 ms", "n#um#n", "x 3.1 ms , 4 ms"),
        ("x 3mW/4mW", "n#nm#n", "x 3 mW / 4 mW"),
        ("[1, 2, 3] x [1, 2]", "lnm#m#m", "[1,_2,_3] x [ 1 , 2 ]"),
        ("Acc@1 1.5 p(99%) = 3 CPU@40C", "n#nm#nm#n", "Acc@1 1.5 p(99%) = 3 CPU @ 40 C"),
        ("1,234.5 nan +inf -3", "####", "1,234.5 nan +inf -3"),
        ("number of nan steps", "nnnn", "number of nan steps"),
        ("cuda:0 H100 80GB", "nn?", "cuda:0 H100 80GB"),
        (
            "2026-01-02 10:00:00,123 INFO [trainer.py:12] x",
            "??nm?mn",
            "2026-01-02 10:00:00,123 INFO [ trainer.py:12 ] x",
        ),
        ("took 3m12s 12,5", "n??", "took 3m12s 12,5"),
        ("pid=123 20x4MB 10.0.0.1:29500", "???", "pid=123 20x4MB 10.0.0.1:29500"),
        ("deadbeef1234 /usr/a.txt http://a/1", "???", "deadbeef1234 /usr/a.txt http://a/1"),
        ("loss=4.[rank 2]", "nm?mn#m", "loss = 4. [ rank 2 ]"),
        ("", "", ""),
    ],
)
def test_the_kinds_of_tokens(text: str, kinds: str, parts: str) -> None:
    found = tokens(text)
    assert "".join(KINDS[token.kind] for token in found) == kinds
    assert [token.text for token in found] == [part.replace("_", " ") for part in parts.split()]


def test_tokens_have_the_whitespace_before_them() -> None:
    assert tokens(" a  b\tc:1  ") == (
        Token(NAME, "a", " "), Token(NAME, "b", "  "), Token(NAME, "c", "\t"), Token("mark", ":", ""),
        Token(NUMBER, "1", ""),
    )  # fmt: skip


def test_lines_of_one_shape_have_one_skeleton() -> None:
    key = ("step", " ", "\0number", ":", " ", "a#", " ", "\0number", " ", "ms")
    assert skeleton(tokens("step  10: a3 2.5 ms")) == skeleton(tokens("  step 9 : a14 7  ms")) == key
    assert skeleton(tokens("step 10: a3 2.5ms")) != key != skeleton(tokens("step 10: b3 2.5 ms"))
    assert tokens("p(99%) = 3")[0].key == "p(99%)"  # which percentile is part of a shape


def test_a_name_is_cut_at_its_digits() -> None:
    assert split_digits("a12b3") == ["a", "12", "b", "3", ""] and split_digits("ab") == ["ab"]


def test_outside_of_a_line_there_is_nothing() -> None:
    line = TokenLine(tokens("a 16x8 |"))
    assert [(line.text(k), line.kind(k), line.gap(k)) for k in (-1, len(line.parts))] == [("", "", "")] * 2
    assert not line.is_glued(0) and not line.is_glued(len(line.parts)) and not line.sticks(-1)
    assert (line.text(0), line.kind(0), line.gap(1)) == ("a", NAME, " ") and line.texts(0, 9)[0] == "a"


def test_what_sticks_to_the_token_before_it() -> None:
    line = TokenLine(tokens("x 3ms: 4%"))
    assert line.texts(0, 6) == ["x", "3", "ms", ":", "4", "%"]
    assert [line.is_glued(k) for k in range(6)] == [False, False, True, True, False, True]
    assert [line.sticks(k) for k in range(6)] == [False, False, True, False, False, False]  # marks do not count
    assert TokenLine([Token(NAME, "a", ""), Token(OPAQUE, "1x", "")]).sticks(1)


def test_a_single_bar() -> None:
    assert [TokenLine(tokens(text)).has_one_bar for text in ("a | 3", "a | b | 3", "a 3")] == [True, False, False]
