"""One code for each string of a column, also if several workers number strings by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.string_interning import StringInterner, WorkerInterner, new_interners

TEXTS = st.lists(st.sampled_from(["a", "b", "", "ä", None]), max_size=6)


@given(st.lists(st.tuples(st.integers(0, 2), TEXTS), max_size=6))
def test_strings_of_workers_have_one_code(pieces: list[tuple[int, list[str | None]]]) -> None:
    ours = StringInterner()
    workers = [WorkerInterner() for _ in range(3)]
    for worker, texts in pieces:
        codes = workers[worker].codes([*texts])
        ours.learn(worker, workers[worker].new_texts())
        found = ours.translate(worker, codes)
        assert [None if code < 0 else ours.texts[code] for code in found.tolist()] == texts
    assert len(set(ours.texts)) == len(ours.texts)
    assert ours.arrow().to_pylist() == ours.texts


def test_a_new_string_is_in_the_arrow_array() -> None:
    interner = StringInterner()
    assert (interner.code("a"), interner.code("b"), interner.code("a")) == (0, 1, 0)
    assert interner.arrow().to_pylist() == ["a", "b"]
    assert interner.code("c") == 2 and interner.arrow().to_pylist() == ["a", "b", "c"]
    assert interner.arrow() is interner.arrow()


def test_numbers_as_strings() -> None:
    interner = StringInterner()
    codes = interner.codes_of_numbers(np.array([7, MISSING, 7, -3]))
    assert [None if code < 0 else interner.texts[code] for code in codes.tolist()] == ["7", None, "7", "-3"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (0.5, "0.5"),
        ([1, 2], "[1, 2]"),
        (b'"a b"', "a b"),
        (b"[1,\n   2]", "[1, 2]"),
        (b'"', '"'),
        (b'""', ""),
    ],
)
def test_values_that_represent_strings(value: Any, text: str) -> None:
    worker = WorkerInterner()
    assert worker.codes([None, value, b"", value]).tolist() == [-1, 0, -1, 0]
    assert worker.new_texts() == [text]
    assert worker.new_texts() == []
    assert worker.codes(["new"]).tolist() == [1] and worker.new_texts() == ["new"]


def test_pieces_of_json() -> None:
    worker = WorkerInterner()
    assert worker.codes_of_json([b"1", b"", b"[2]", memoryview(b"1")]).tolist() == [0, -1, 1, 0]
    assert worker.codes_of_json([b"[2]", b"a\0b", b"1"]).tolist() == [1, 2, 0]  # a zero byte, which no JSON has
    assert worker.new_texts() == ["1", "[2]", "a\0b"]


def test_each_column_has_its_own_strings() -> None:
    interners = new_interners()
    assert {"name", "range", "unit", "subject"} <= set(interners)
    interners["name"].code("a")
    assert interners["unit"].texts == []
