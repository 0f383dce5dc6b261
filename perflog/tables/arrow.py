"""Converts numpy arrays and strings to Arrow arrays and back, without pandas and mostly without copies.

pa.array and to_numpy import pandas where it is installed: 0.3 s, too long for the start of a command.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perflog.arrays import Ints, Mask
from perflog.lazy_patterns import kept_pattern

FEW_BYTES = 1 << 13  # of strings, up to which compiling patterns for RE2 takes longer than searching in Python
LONG_STRING = 1 << 8  # bytes; in a longer one Python's search takes longer, by a power of its length
_EXPRESSION_BYTES = 1 << 12  # of patterns that are compiled together: larger ones do not fit RE2's fast automaton
_TYPES = {
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.float64): pa.float64(),
    np.dtype(np.int8): pa.int8(),
}
_BLOCK = 1 << 18  # rows that are counted together
_PART_BITS = 32
_CLOSE = 1 << 12  # numbers of parts differ by less
_FEW_CODES = 8
_CACHED = 48  # columns of one value in the cache: many tables of one stretch of a log use the same ones


def number_array(values: npt.NDArray[Any], known: Mask | None = None) -> pa.Array:
    """Return numbers as an Arrow array without copying them; null where they are not `known`."""
    if known is not None and len(known) and not known.any():  # these share their memory
        return null_array(_TYPES[values.dtype], len(values))
    mask = None if known is None or bool(known.all()) else pa.py_buffer(np.packbits(known, bitorder="little"))
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [mask, pa.py_buffer(values)])


def repeated_word(code: int, names: tuple[str, ...], count: int) -> pa.Array:
    """Return a dictionary column that repeats `names[code]`."""
    return _repeated_word(code, names, _rounded(count)).slice(0, count)


@lru_cache(_CACHED)
def _repeated_word(code: int, names: tuple[str, ...], count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(number_array(np.full(count, code, np.int32)), _dictionary(names))


def zero_array(count: int) -> pa.Array:
    """Return a column of int32 zeros."""
    return _zero_array(_rounded(count)).slice(0, count)


@lru_cache(_CACHED // 4)
def _zero_array(count: int) -> pa.Array:
    return _zeros_of(pa.int32(), count)


def _zeros_of(dtype: pa.DataType, count: int) -> pa.Array:
    """Return a column of zeros that shares its memory with all of about its length."""
    return pa.Array.from_buffers(dtype, count, [None, _zero_bytes(-(-count * dtype.bit_width // 8))], 0)


def _nulls_of(dtype: pa.DataType, count: int) -> pa.Array:
    """Return a column of nulls that shares its memory with all of about its length."""
    if pa.types.is_dictionary(dtype):
        return pa.DictionaryArray.from_arrays(_nulls_of(dtype.index_type, count), pa.nulls(0, dtype.value_type))
    known = _zero_bytes(-(-count // 8))
    if pa.types.is_string(dtype):
        return pa.Array.from_buffers(dtype, count, [known, _zero_bytes(4 * (count + 1)), _zero_bytes(0)], count)
    return pa.Array.from_buffers(dtype, count, [known, _zero_bytes(-(-count * dtype.bit_width // 8))], count)


def _zero_bytes(size: int) -> pa.Buffer:
    """Return so many zeros and no more, because a process sends whole buffers to another one.

    The operating system gives no memory to zeros that nobody has written to; `pa.nulls` writes them.
    """
    return _shared_zeros(_rounded(size)).slice(0, size)


@lru_cache(_CACHED // 4)
def _shared_zeros(size: int) -> pa.Buffer:
    zeros = np.zeros(size, np.int8)
    zeros.setflags(write=False)  # many columns share it
    return pa.py_buffer(zeros)


def text_array(texts: Iterable[str | None]) -> pa.Array:
    """Return strings as an Arrow array."""
    builder = pa.lib.StringBuilder()
    for text in texts:
        try:
            builder.append(text)
        except UnicodeEncodeError:
            builder.append(storable(text or ""))
    return builder.finish()


def bytes_array(texts: Sequence[bytes]) -> pa.Array:
    """Return byte strings as an Arrow array. `pa.array` would import pandas."""
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))])


def storable(text: str) -> str:
    """Return a string with an escape for what UTF-8 cannot hold, as in a file name of other bytes."""
    return text.encode("utf-8", "backslashreplace").decode()


@cache
def text_scalar(text: str) -> pa.Scalar:
    """Return a string as an argument of an Arrow function. A Python string would be converted, which imports pandas."""
    return text_array([text])[0]


def word_array(codes: npt.NDArray[Any], names: Sequence[str] | pa.Array) -> pa.Array:
    """Return a dictionary column from codes into `names`; -1 is null."""
    names = names if isinstance(names, pa.Array) else _dictionary(tuple(names))
    return pa.DictionaryArray.from_arrays(number_array(codes.astype(np.int32), codes >= 0), names)


def coded_words(texts: Iterable[str | None]) -> tuple[Ints, pa.Array]:
    """Return strings as codes into distinct words, and the words; None is -1. Pandas requires distinct words."""
    code_of: dict[str | None, int] = {None: -1}
    codes = [code_of.setdefault(text, len(code_of) - 1) for text in texts]
    del code_of[None]
    return np.array(codes, np.int64), text_array(code_of)


def picked_words(index: npt.NDArray[Any], texts: Sequence[str | None]) -> pa.Array:
    """Return a dictionary column of `texts[index]`; -1 is null."""
    codes, words = coded_words(texts)
    return word_array(np.append(codes, -1)[index], words)


@cache
def _dictionary(names: tuple[str, ...]) -> pa.Array:
    return text_array(names)


def null_array(dtype: pa.DataType, count: int) -> pa.Array:
    """Return a column of nulls."""
    return _null_array(dtype, _rounded(count)).slice(0, count)


@lru_cache(_CACHED)
def _null_array(dtype: pa.DataType, count: int) -> pa.Array:
    return _nulls_of(dtype, count)


def _rounded(count: int) -> int:
    """Return a length that columns of one value are made in, so that tables of about that length share them."""
    return 1 << max(count - 1, 0).bit_length()


def with_column(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return a table with other values in a column."""
    index = table.schema.get_field_index(name)
    return table.set_column(index, table.schema.field(index), values)


def without_chunks(table: pa.Table) -> pa.Table:
    """Return a table in one chunk. All columns of nulls of a type share their memory: most of a wide table is null."""
    return joined(table.columns, table.schema)


def joined(columns: list[pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    """Return columns as a table in one chunk, as `without_chunks` does, and take each out of the list meanwhile.

    Columns of zeros, such as the run of each row in a log with one run, take no memory; nor do columns of nulls.

    A caller who keeps no other reference has hardly more than one of the two tables in memory.
    """
    nulls: dict[pa.DataType, pa.Array] = {}
    whole = []
    while columns:
        column = columns.pop(0)
        if column.null_count == len(column):
            if column.type not in nulls:
                one = column.num_chunks == 1
                nulls[column.type] = column.chunk(0) if one else _nulls_of(column.type, len(column))
            whole.append(nulls[column.type])
        elif (zeros := _zeros(column)) is not None:
            whole.append(zeros)
        else:
            whole.append(pa.Table.from_arrays([column], names=["column"]).combine_chunks().column(0))
    return pa.Table.from_arrays(whole, schema=schema)


def _zeros(column: pa.ChunkedArray) -> pa.Array | None:
    """Return a column of several chunks as one if each number is 0, or each word the first one; else None."""
    if column.num_chunks < 2 or column.null_count:
        return None
    first, is_words = column.chunk(0), pa.types.is_dictionary(column.type)
    for chunk in column.chunks:
        if not is_zeros(chunk) or (is_words and not chunk.dictionary.equals(first.dictionary)):
            return None
    zeros = _zeros_of(column.type.index_type if is_words else column.type, len(column))
    return pa.DictionaryArray.from_arrays(zeros, first.dictionary) if is_words else zeros


def is_zeros(column: pa.Array) -> bool:
    """Return whether each number of a column is 0, or each word its first one."""
    is_words = pa.types.is_dictionary(column.type)
    dtype = column.type.index_type if is_words else column.type
    if column.null_count or not pa.types.is_integer(dtype):
        return False
    return not numbers_of(column.indices if is_words else column).any()


Where = Mapping[str, Callable[[Any], object]]
"""Rows of a table by some columns of words or integers: a test for each column. A row counts if it passes all of them.

A test gets a word, an integer, or None for null.
"""


def one_of(*values: str | int) -> Callable[[str | int | None], bool]:
    """Return a test of `Where` that these words or integers pass."""
    return frozenset(values).__contains__


def with_runs(where: Where, runs: Iterable[str]) -> Where:
    """Return `where` for rows of these runs only."""
    is_one, passes = one_of(*runs), where.get("run", bool)
    return {**where, "run": lambda run: is_one(run) and passes(run)}


def rows_where(table: pa.Table, where: Where, share: bool = False) -> pa.Table:
    """Return the rows that pass; a test is asked once for each word or integer, and for null.

    It may also be asked for integers between the integers of the rows.

    Args:
        table: The rows.
        where: The tests.
        share: Whether adjacent rows are returned without a copy, which keeps all rows in memory.
    """
    if not table.num_rows:
        return table
    table = table.combine_chunks()
    passed = np.ones(table.num_rows, np.bool_)
    for name, test in where.items():
        column = table[name].chunk(0)
        if column.null_count == len(column):
            passed &= bool(test(None))
            continue
        known = valid_mask(column) if column.null_count else None  # `fill_null` would import pandas
        if hasattr(column, "indices"):
            distinct, codes = column.dictionary.to_pylist(), numbers_of(column.indices)
        else:
            numbers = numbers_of(column)
            distinct, codes = _distinct_integers(numbers if known is None else np.where(known, numbers, 0))
        if known is not None:
            codes = np.where(known, codes, -1)
        answers = np.array([*(bool(test(value)) for value in distinct), bool(test(None))], np.bool_)
        passed &= _answers_of(codes, answers)
    if passed.all():
        return table
    if share and passed.any():
        first, last = int(passed.argmax()), len(passed) - int(passed[::-1].argmax())
        if passed[first:last].all():
            return table.slice(first, last - first)
    return table.take(index_array(passed))


def _answers_of(codes: npt.NDArray[Any], answers: Mask) -> Mask:
    """Return the answer for each code; the last one is that for -1. To compare is ten times as fast as to look up."""
    chosen = np.flatnonzero(answers)
    if len(chosen) > _FEW_CODES:
        return answers.take(codes)
    flags = np.zeros(len(codes), np.bool_)
    for code in np.where(chosen == len(answers) - 1, -1, chosen).tolist():
        flags |= codes == code
    return flags


def _distinct_integers(values: npt.NDArray[Any]) -> tuple[list[int], npt.NDArray[Any]]:
    """Return integers that include all values, and the index of each value. Close integers are not sorted."""
    least, most = int(values.min()), int(values.max())
    if most - least < _CLOSE:
        return list(range(least, most + 1)), values - least if least else values
    distinct, codes = np.unique(values, return_inverse=True)
    return distinct.tolist(), codes


def row_counts(batches: Iterable[pa.RecordBatch]) -> dict[str, dict[int, int]]:
    """Return the number of rows by run and part. Columns of the batches: run, as words, and part."""
    counts: dict[str, Counter[int]] = {}
    for batch in (whole.slice(first, _BLOCK) for whole in batches for first in range(0, whole.num_rows, _BLOCK)):
        words, parts = batch.column(0), numbers_of(batch.column(1))
        run = numbers_of(words.indices).astype(np.int64)
        pairs, rows = np.unique(run << _PART_BITS | parts, return_counts=True)
        names = words.dictionary.to_pylist()
        for pair, number in zip(pairs.tolist(), rows.tolist(), strict=True):
            counts.setdefault(names[pair >> _PART_BITS], Counter())[pair & (1 << _PART_BITS) - 1] += number
    return {run: dict(parts) for run, parts in counts.items()}


def index_array(rows: npt.NDArray[Any]) -> pa.Array:
    """Return rows, given by index or mask, as an index for Arrow's take."""
    index = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.ascontiguousarray(rows, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(index), [None, pa.py_buffer(index)])


def mask_of(flags: pa.Array) -> Mask:
    """Return Arrow booleans as a mask; null is False."""
    valid, bits = flags.buffers()
    mask = _bits(bits, flags)
    return mask if valid is None else mask & _bits(valid, flags)


def valid_mask(values: pa.Array) -> Mask:
    """Return a mask of the values that are not null."""
    bits = values.buffers()[0]
    return np.ones(len(values), np.bool_) if bits is None else _bits(bits, values)


def _bits(buffer: pa.Buffer, of: pa.Array) -> Mask:
    first, end = of.offset // 8, -(-(of.offset + len(of)) // 8)  # the buffer may be of a much longer array
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8, end - first, first), bitorder="little")
    start = of.offset - 8 * first
    return bits[start : start + len(of)].astype(np.bool_)


def numbers_of(values: pa.Array) -> npt.NDArray[Any]:
    """Return Arrow numbers without nulls as a numpy array that shares their memory."""
    dtype = {pa.int64(): np.int64, pa.int32(): np.int32, pa.float64(): np.float64}[values.type]
    return np.frombuffer(values.buffers()[1], dtype, len(values), values.offset * np.dtype(dtype).itemsize)


def literal_mask(texts: pa.Array, literals: Iterable[bytes]) -> Mask:
    """Return a mask of the strings that hold at least one literal."""
    literals = sorted(literals)
    if texts.nbytes > FEW_BYTES:
        return matching_mask(texts, [re.escape(literal.decode()) for literal in literals])
    return np.array([any(literal in text for literal in literals) for text in texts.to_pylist()], np.bool_)


def constant_mask(texts: pa.Array, pattern: str) -> Mask:
    """Return a mask of the strings in which a pattern is found that is the same for all logs."""
    import pyarrow.compute as pc

    if texts.nbytes > FEW_BYTES:
        return mask_of(pc.match_substring_regex(texts, pattern))
    search = kept_pattern(pattern).search
    return np.array([search(text) is not None for text in texts.to_pylist()], np.bool_)


def matching_mask(texts: pa.Array, patterns: Iterable[str], before: str = "") -> Mask:
    """Return a mask of the strings that at least one pattern matches, after a prefix that matches `before`.

    The patterns are compiled in groups: RE2 refuses an expression that is too large.
    """
    import pyarrow.compute as pc

    groups: list[list[str]] = []
    size = _EXPRESSION_BYTES
    for pattern in patterns:
        size += len(pattern)
        if size > _EXPRESSION_BYTES:
            groups.append([])
            size = len(pattern)
        groups[-1].append(pattern)
    mask = np.zeros(len(texts), np.bool_)
    for group in groups if len(texts) else ():  # an expression is compiled for no strings, too
        mask |= mask_of(pc.match_substring_regex(texts, f"{before}(?:{'|'.join(group)})"))
    return mask
