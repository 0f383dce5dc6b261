"""Arrow arrays from numpy and back, without pandas and without copies of what is null or zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perflog.tables import arrow
from perflog.tables.arrow import (
    bytes_array,
    coded_words,
    constant_mask,
    index_array,
    is_zeros,
    literal_mask,
    mask_of,
    matching_mask,
    null_array,
    number_array,
    numbers_of,
    one_of,
    picked_words,
    repeated_word,
    row_counts,
    rows_where,
    text_array,
    valid_mask,
    with_column,
    with_runs,
    without_chunks,
    word_array,
    zero_array,
)

if TYPE_CHECKING:
    import pytest


def test_numbers_go_there_and_back() -> None:
    for dtype in (np.int64, np.int32, np.float64):
        values = np.array([3, 5, 7, 9], dtype)
        array = number_array(values)
        assert array.to_pylist() == [3, 5, 7, 9] and array.null_count == 0
        assert numbers_of(array.slice(1, 2)).tolist() == [5, 7]
        assert number_array(values[::2]).to_pylist() == [3, 7]
        assert number_array(values, np.array([True, False, True, True])).to_pylist() == [3, None, 7, 9]
        nothing = number_array(values, np.zeros(4, np.bool_))
        assert nothing.to_pylist() == [None] * 4 and nothing.type == array.type


def test_masks_of_parts_of_long_arrays() -> None:
    values = [None if k % 3 == 0 else k % 2 == 0 for k in range(40)]
    flags = pa.array(values)
    for offset in (0, 1, 7, 8, 9, 17):
        for count in (0, 1, 8, 15):
            part, expected = flags.slice(offset, count), values[offset : offset + count]
            assert mask_of(part).tolist() == [value is True for value in expected]
            assert valid_mask(part).tolist() == [value is not None for value in expected]
    assert valid_mask(pa.array([1, 2])).tolist() == [True, True]


def test_nulls_in_several_chunks_are_one_column() -> None:
    arrow._null_array.cache_clear()  # a column that an earlier test made keeps zeros that the other cache has dropped
    arrow._shared_zeros.cache_clear()
    chunked = pa.chunked_array([pa.nulls(2, pa.int64()), pa.nulls(3, pa.int64())])
    whole = without_chunks(pa.table({"a": chunked, "b": chunked}))
    assert whole["a"].to_pylist() == whole["b"].to_pylist() == [None] * 5 and whole["a"].num_chunks == 1
    assert whole["a"].chunk(0).buffers()[1].address == whole["b"].chunk(0).buffers()[1].address
    assert whole["a"].chunk(0).buffers()[1].address == null_array(pa.float64(), 5).buffers()[1].address


def test_what_a_null_holds_does_not_count() -> None:
    bits = pa.py_buffer(b"\x07")  # true, true, true
    flags = pa.Array.from_buffers(pa.bool_(), 3, [pa.py_buffer(b"\x05"), bits])
    assert mask_of(flags).tolist() == [True, False, True]


def test_columns_of_one_value_share_their_memory() -> None:
    for count in (0, 1, 2, 3, 5, 64, 65):
        assert zero_array(count).to_pylist() == [0] * count
        assert null_array(pa.float64(), count).to_pylist() == [None] * count
        assert repeated_word(1, ("a", "b"), count).to_pylist() == ["b"] * count
    assert (
        zero_array(5).buffers()[1].address == zero_array(8).buffers()[1].address != zero_array(9).buffers()[1].address
    )
    for dtype in (pa.int64(), pa.float64(), pa.string(), pa.dictionary(pa.int32(), pa.string())):
        chunks = pa.chunked_array([pa.nulls(2, dtype), pa.nulls(3, dtype)])
        values = without_chunks(pa.table({"a": chunks}))["a"].chunk(0)
        values.validate(full=True)
        assert (values.type, values.null_count, values.to_pylist()) == (dtype, 5, [None] * 5)
        assert sum(b.size for b in values.buffers() if b) <= 1 + 8 * 5  # whole buffers are sent to another process


def test_strings_and_words() -> None:
    assert text_array(["a", None, "\udcff"]).to_pylist() == ["a", None, "\\udcff"]
    assert bytes_array([b"a", b"", b"bc"]).to_pylist() == [b"a", b"", b"bc"]
    codes, words = coded_words(["b", None, "a", "b"])
    assert (codes.tolist(), words.to_pylist()) == ([0, -1, 1, 0], ["b", "a"])
    assert word_array(np.array([1, -1, 0]), ["a", "b"]).to_pylist() == ["b", None, "a"]
    assert picked_words(np.array([2, -1, 1, 0]), ["x", None, "x"]).to_pylist() == ["x", None, None, "x"]
    assert index_array(np.array([True, False, True])).to_pylist() == [0, 2]
    assert index_array(np.array([2, 0])).to_pylist() == [2, 0]


def chunked(*chunks: list[object]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(chunk) for chunk in chunks])


def test_a_table_in_one_chunk() -> None:
    words = pa.chunked_array([pa.array(["a", "a"]).dictionary_encode(), pa.array(["a"]).dictionary_encode()])
    other = pa.chunked_array([pa.array(["a", "a"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()])
    nulls = [pa.chunked_array([pa.nulls(size, pa.int64()) for size in sizes]) for sizes in ((3,), (2, 1))]
    columns = {"n": chunked([1, 2], [3]), "zero": chunked([0, 0], [0]), "word": words, "none": nulls[0]}
    table = pa.table({**columns, "none_2": nulls[1], "half": chunked([0, None], [0]), "other": other})
    whole = without_chunks(table)
    assert whole.to_pydict() == table.to_pydict() and whole.schema == table.schema
    assert {column.num_chunks for column in whole.columns} <= {1, 2}
    assert [whole[name].num_chunks for name in ("n", "zero", "word", "none", "none_2", "half")] == [1] * 6
    assert with_column(table, "n", pa.array([7, 8, 9])).column_names == table.column_names


def test_which_columns_are_zeros() -> None:
    for values, expected in (
        (pa.array([0, 0]), True), (pa.array([0, 1]), False), (pa.array([0, None]), False), (pa.array([0.0]), False),
        (pa.array(["a", "a"]).dictionary_encode(), True), (pa.array(["a", "b"]).dictionary_encode(), False),
        (pa.array(["a"]), False),
    ):  # fmt: skip
        assert is_zeros(values) is expected


TABLE = pa.table(
    {"run": pa.array(["a", "b", None, "a", "c"]).dictionary_encode(), "part": pa.array([0, 1, 1, None, 5000]),
     "line": pa.array([1, 2, 3, 4, 5]), "none": null_array(pa.dictionary(pa.int32(), pa.string()), 5)}
)  # fmt: skip


def test_rows_that_pass_all_tests() -> None:
    for where, expected in (
        ({}, [1, 2, 3, 4, 5]),
        ({"run": one_of("a")}, [1, 4]),
        ({"run": lambda run: run is None}, [3]),
        ({"part": one_of(1, 5000)}, [2, 3, 5]),
        ({"part": lambda part: part is None}, [4]),
        ({"part": lambda part: part != 1}, [1, 4, 5]),
        ({"run": one_of("a", "b"), "part": one_of(0, 1)}, [1, 2]),
        (with_runs({"part": one_of(0, 1)}, ["a"]), [1]),
        (with_runs({"run": one_of("b", "c")}, ["a", "b"]), [2]),
        ({"line": one_of(*range(2, 5))}, [2, 3, 4]),
        ({"line": one_of(9)}, []),
        ({"none": lambda word: word is None, "run": one_of("b")}, [2]),
        ({"none": one_of("a")}, []),
    ):
        for share in (False, True):
            assert rows_where(TABLE, where, share)["line"].to_pylist() == expected
    assert rows_where(TABLE, {}).equals(TABLE)
    assert rows_where(TABLE.slice(0, 0), {"run": one_of("a")}).num_rows == 0
    shared = rows_where(TABLE, {"line": one_of(2, 3)}, share=True)["line"].chunk(0)
    assert shared.offset == 1 and rows_where(TABLE, {"line": one_of(2, 3)})["line"].chunk(0).offset == 0


def test_answers_of_few_and_of_many_codes() -> None:
    codes = np.array([-1, 0, 5, 11, -1])
    for chosen in ([0], [11, 5], [*range(12)], []):
        for null in (False, True):
            answers = np.array([code in chosen for code in range(12)] + [null])
            expected = [null if code < 0 else code in chosen for code in codes.tolist()]
            assert arrow._answers_of(codes, answers).tolist() == expected


def test_integers_that_include_all_values() -> None:
    for values, expected in (([7, 5, 7], [5, 6, 7]), ([0, 4095], None), ([0, 4096, 0], [0, 4096])):
        distinct, codes = arrow._distinct_integers(np.array(values))
        assert [distinct[code] for code in codes] == values
        assert distinct == expected or (expected is None and len(distinct) == 4096)


def test_rows_by_run_and_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_BLOCK", 2)
    runs = pa.array(["b", "a", "b", "b", "a"]).dictionary_encode()
    batch = pa.record_batch([runs, pa.array([0, 1, 0, 2, 1], pa.int32())], names=["run", "part"])
    assert row_counts([batch, batch.slice(0, 1)]) == {"b": {0: 3, 2: 1}, "a": {1: 2}}


def test_strings_that_match_are_the_same_of_few_and_of_many() -> None:
    few = pa.array([b"loss 5", b"step 7", b"", b"a+b"])
    many = pa.array([*few.to_pylist(), *[b"x" * 100] * 100])
    assert many.nbytes > arrow.FEW_BYTES > few.nbytes
    for texts in (few, many):
        assert literal_mask(texts, [b"loss", b"a+b"])[:5].tolist()[:4] == [True, False, False, True]
        assert constant_mask(texts, "[0-9]$")[:4].tolist() == [True, True, False, False]
        assert matching_mask(texts, ["loss", "s?tep [0-9]"])[:4].tolist() == [True, True, False, False]
        assert matching_mask(texts, ["ss", "tep"], "^lo")[:4].tolist() == [True, False, False, False]
        assert not matching_mask(texts, []).any()
    long = [f"{'y' * 3000}{number}" for number in range(3)]  # more than one expression
    assert matching_mask(pa.array([long[2].encode(), b"loss"]), [*long, "loss"]).tolist() == [True, True]
    assert matching_mask(few.slice(0, 0), ["("]).tolist() == []
