"""Values that a line should have and lacks cost only themselves."""

from __future__ import annotations

import pytest

from perflog.formats.families.missing_values import without_missing
from perflog.formats.template import Template

LINE = Template("step {step:d} loss {loss:f} time {t:f} ")


@pytest.mark.parametrize(
    ("raw", "text", "end"),
    [
        (b"step 3 loss None time 2.0", "step {step:d} loss {_:b}None time {t:f} ", 25),
        (b"step 3 loss N/A time nan rest", "step {step:d} loss {_:b}N/A time {t:f} ", 24),
        (b"step 3 loss   - time 2.0   x", "step {step:d} loss {_:b}- time {t:f} ", 24),
        (b"step 3 loss None time null", "step {step:d} loss {_:b}None time {_:b}null ", 26),
    ],
)
def test_a_word_for_no_value_is_a_literal(raw: bytes, text: str, end: int) -> None:
    found = without_missing(LINE, raw)
    assert found is not None and (found[0].text, found[1]) == (text, end)


def test_a_line_without_its_step_or_with_all_values_is_another() -> None:
    others = (b"step None loss 2.0 time 3.0", b"step 3 loss 2.0 time 3.0", b"other None", b"step 3 loss x time 2.0")
    assert [without_missing(LINE, raw) for raw in others] == [None] * 4


def test_blanks_at_the_end_of_a_line_may_be_missing() -> None:
    found = without_missing(Template("loss {loss:f} time {t:f} ms "), b"loss None time 2.0 ms")
    assert found is not None and found[1] == 21


def test_one_number_at_least_is_there() -> None:
    assert without_missing(Template("loss {loss:f} time {t:f}"), b"loss None time None") is None
