"""The figures of many strings at once are those of each string."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.formats.figures import figure_spans
from perflog.parsing.match.figure_counts import count_figures, masked_digits, number_shape, number_shapes

PIECES = [
    "loss",
    " ",
    "0.5",
    "12",
    "3e-5",
    "-1",
    "[",
    "]",
    ", ",
    "v1.2",
    "2026-02-24",
    "10:13:11",
    "a1",
    "(7)",
    "=",
    "%",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@given(st.lists(TEXTS | st.none(), max_size=8))
def test_figures_of_any_strings(texts: list[str | None]) -> None:
    expected = [0 if text is None else len(figure_spans(text)) for text in texts]
    assert count_figures(pa.array(texts, pa.string())).tolist() == expected
    sliced = pa.array(["9 9 9", *texts], pa.string()).slice(1)
    assert count_figures(sliced).tolist() == expected


@pytest.mark.parametrize("count", [2, 40])
def test_long_lists_of_numbers(count: int) -> None:
    lists = ["[" + ", ".join(f"{k}.5" for k in range(n)) + "]" for n in (count, count + 1)]
    assert count_figures(pa.array(lists)).tolist() == [count, count + 1]
    assert count_figures(pa.array([*lists, "step 3 " * 30])).tolist() == [count, count + 1, 30]
    assert count_figures(pa.array([*lists, None])).tolist() == [count, count + 1, 0]


@given(st.lists(st.text("a01 9.-", max_size=12), max_size=8))
def test_shapes_differ_in_more_than_numbers(texts: list[str]) -> None:
    shapes = [re.sub("[0-9]+", "0", text) for text in texts]
    assert [number_shape(text.encode()).decode() for text in texts] == shapes
    shape_of, first = number_shapes(pa.array([text.encode() for text in texts], pa.binary()))
    distinct = list(dict.fromkeys(shapes))
    assert [distinct[number] for number in shape_of.tolist()] == shapes
    assert first.tolist() == [shapes.index(shape) for shape in distinct]


def test_each_digit_is_masked() -> None:
    masked = masked_digits(pa.array(["a19", None, "1.50"]).slice(0))
    assert masked.to_pylist() == [b"a00", None, b"0.00"]
    assert masked_digits(pa.array(["7", "a19"]).slice(1)).to_pylist() == [b"a00"]
