"""The position of a record in its log as one integer; orders: of rows by run, line and part, of strings by number."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Ints
from perflog.tables.arrow import is_zeros, joined, number_array, numbers_of, without_chunks

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa


PART_BITS = 20
"""The position of a record is `line << PART_BITS | part`: one integer that sorts in log order."""

PART_MASK = (1 << PART_BITS) - 1

"""The bits of a position that hold the part."""

_BLOCK = 1 << 18  # rows with their order examined together
_LONG = 1 << 10  # rows of a run, on average, from which each run is sorted by itself
_SHORTEST = 1 << 16  # rows of a stretch that is sorted by itself


def in_order(table: pa.Table, runs: Sequence[str]) -> pa.Table:
    """Return the rows of these runs, in the order of the runs, then by line and part.

    The rows of one record stay in their order.
    """
    if not table.num_rows:
        return table
    table = without_chunks(table)
    order = _order(table, runs)
    return table if order is None else table.take(order)


def put_in_order(columns: list[pa.ChunkedArray], schema: pa.Schema, runs: Sequence[str]) -> pa.Table:
    """Return columns as a table with rows `in_order`, and take each column out of the list meanwhile.

    So a caller who keeps no other reference has hardly more than one of the two tables in memory.
    """
    import pyarrow as pa

    table = joined(columns, schema)
    order = _order(table, runs)
    if order is None:
        return table
    columns += table.columns
    del table
    nulls: dict[pa.DataType, pa.Array] = {}  # columns of nulls share their memory
    taken = []
    while columns:
        column = columns.pop(0).chunk(0)
        if column.null_count == len(column):
            taken.append(nulls.setdefault(column.type, column.slice(0, len(order))))
        elif is_zeros(column):  # they take no memory
            taken.append(column.slice(0, len(order)))
        else:
            taken.append(column.take(order))
    return pa.Table.from_arrays(taken, schema=schema)


def _order(table: pa.Table, runs: Sequence[str]) -> pa.Array | None:
    """The indices of the rows of these runs in their order; None if the table, in one chunk, is in this order."""
    words, lines, parts = (table[name].chunk(0) for name in ("run", "line", "part"))
    run_index = {run: i for i, run in enumerate(runs)}
    run_of_code = np.array([run_index.get(run, -1) for run in words.dictionary.to_pylist()], np.int64)
    codes, line, part = numbers_of(words.indices), numbers_of(lines), numbers_of(parts)

    def runs_and_positions(rows: slice) -> tuple[Ints, Ints]:
        return run_of_code[codes[rows]], line[rows] << PART_BITS | part[rows]

    is_of_runs, is_by_run, is_by_position = True, True, True
    for first in range(0, len(codes), _BLOCK):  # of millions of rows, these numbers would take more than many a column
        run, position = runs_and_positions(slice(first, first + _BLOCK + 1))
        is_of_runs &= int(run.min()) >= 0
        is_by_run &= bool((run[1:] >= run[:-1]).all())
        is_by_position &= bool(((run[1:] > run[:-1]) | (position[1:] >= position[:-1])).all())
    if is_of_runs and is_by_run:
        if is_by_position:
            return None
        if (run_of_code >= 0).sum() == 1:
            cuts = _stretches(line, part)
        else:
            cuts = _runs(codes)
        if cuts is not None:
            return number_array(_sorted_by_stretch(line, part, cuts))
    position = line if not part.any() else line << PART_BITS | part
    rows = np.argsort(position, kind="stable")
    del position
    run = run_of_code[codes][rows]
    if (run[1:] < run[:-1]).any():
        again = np.argsort(run, kind="stable")
        rows, run = rows[again], run[again]
    return number_array(rows[run >= 0])


def _runs(codes: npt.NDArray[np.integer[Any]]) -> list[int] | None:
    """Return where the rows of each run begin, and the number of rows. None if the runs are short."""
    cuts = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
    return cuts if len(codes) >= _LONG * len(cuts) else None


def _stretches(line: Ints, part: npt.NDArray[np.integer[Any]]) -> list[int] | None:
    """Return where stretches of rows begin, and the number of rows. Positions do not decrease from stretch to stretch.

    A log is read stretch by stretch, so only the rows of one stretch need be sorted. None if there is only one.
    """
    firsts = range(0, len(line), _BLOCK)
    least_after = np.full(len(firsts) + 1, np.iinfo(np.int64).max)
    for k in reversed(range(len(firsts))):
        position = line[firsts[k] : firsts[k] + _BLOCK] << PART_BITS | part[firsts[k] : firsts[k] + _BLOCK]
        least_after[k] = min(position.min(), least_after[k + 1])
    cuts, most = [0], np.int64(-1)
    for k, first in enumerate(firsts):
        position = line[first : first + _BLOCK] << PART_BITS | part[first : first + _BLOCK]
        before = np.maximum(np.append(most, np.maximum.accumulate(position)[:-1]), most)
        after = np.minimum(np.minimum.accumulate(position[::-1])[::-1], least_after[k + 1])
        for cut in (np.flatnonzero(before <= after) + first).tolist():
            if cut >= cuts[-1] + _SHORTEST:
                cuts.append(cut)
        most = max(most, position.max())
    return [*cuts, len(line)] if len(cuts) > 1 else None


def _sorted_by_stretch(line: Ints, part: npt.NDArray[np.integer[Any]], cuts: Sequence[int]) -> npt.NDArray[Any]:
    """Return the order of rows by line and part, sorted stretch by stretch."""
    rows = np.empty(len(line), np.int32 if len(line) < np.iinfo(np.int32).max else np.int64)
    for first, end in itertools.pairwise(cuts):
        position = line[first:end] << PART_BITS | part[first:end]
        rows[first:end] = np.argsort(position, kind="stable") + first
    return rows


def natural_sort_key(text: str) -> tuple[Any, ...]:
    """Sort key in which numbers inside a string sort by value: `layer 2` before `layer 10`."""
    return tuple(int(x) if x.isdigit() else x for x in re.split(r"(\d+)", text))
