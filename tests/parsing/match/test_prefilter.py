"""The prefilter finds each literal that a text holds, by its first eight bytes, and no other of four bytes or more."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from perflog.parsing.input.chunks import SLACK
from perflog.parsing.match import prefilter
from perflog.parsing.match.prefilter import LiteralPrefilter

TEXTS = st.lists(st.sampled_from([b"step", b"loss: ", b"\xff", b"\x00", b"elapsed time", b"time", b"0"]), max_size=12)
LITERALS = st.lists(TEXTS.map(b"".join), min_size=1, max_size=9)


@given(TEXTS.map(b"".join), LITERALS)
def test_a_literal_is_found_where_its_first_eight_bytes_stand(text: bytes, literals: list[bytes]) -> None:
    held = LiteralPrefilter(literals).candidates(text + bytes(SLACK), len(text))
    for index, literal in enumerate(literals):
        if literal in text and text:
            assert index in held
        elif len(literal) >= 4 and literal[:8] not in text + bytes(SLACK):
            assert index not in held
    assert held == sorted(held)


@given(st.lists(TEXTS.map(b"".join), max_size=9), LITERALS, st.integers(0, 3))
def test_the_texts_that_hold_a_literal_are_found(texts: list[bytes], literals: list[bytes], skipped: int) -> None:
    mask_of = LiteralPrefilter(literals).texts_with(pa.array(texts, pa.binary()).slice(skipped))
    for k, literal in enumerate(literals):
        mask = mask_of(k)
        for text, may_hold in zip(
            texts[skipped:], [False] * len(texts) if mask is None else mask.tolist(), strict=False
        ):
            if literal and literal in text:
                assert may_hold
            elif literal and literal[:8] not in b"".join(texts) + bytes(SLACK):
                assert not may_hold


def test_words_are_found_in_every_block_of_a_long_text() -> None:
    text = b"iteration 5" + b"." * (1 << 16) + b"learning rate" + b"." * (1 << 17) + b"elapsed"
    literals = [b"iteration", b"learning rat", b"elapsed", b"elapsed time", b"iter", b"rate", b"ms"]
    held = LiteralPrefilter(literals).candidates(text + bytes(SLACK), len(text))
    assert [literals[k] for k in held] == [b"iteration", b"learning rat", b"elapsed", b"iter", b"rate", b"ms"]


def test_short_literals_are_found_where_they_are() -> None:
    for literal, expected in ((b"ab", [0, 3]), (b"b", [1, 4]), (b"ba", []), (b"", [0, 1, 2, 3, 4])):
        assert prefilter._offsets(b"abcab" + bytes(SLACK), 5, literal).tolist() == expected
    texts = pa.array([b"ab", b"ba", b"", b"cab"], pa.binary())
    mask = LiteralPrefilter([b"ab", b"bb"]).texts_with(texts)
    found = mask(0)
    assert found is not None and found.tolist() == [True, False, False, True]
