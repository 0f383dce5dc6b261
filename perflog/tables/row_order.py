"""The position of a record in its log as one integer; orders: of rows by run, line and part, of strings by number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Ints
from perflog.tables.arrow import is_zeros, joined, number_array, numbers_of, without_chunks

if TYPE_CHECKING:
    import pyarrow as pa


PART_BITS = 20
"""The position of a record is `line << PART_BITS | part`: one integer that sorts in log order."""

PART_MASK = (1 << PART_BITS) - 1

"""The bits of a position that hold the part."""

_BLOCK = 1 << 18  # rows with their order examined together


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

    is_in_order = True
    for first in range(0, len(codes), _BLOCK):  # of millions of rows, these numbers would take more than many a column
        run, position = runs_and_positions(slice(first, first + _BLOCK + 1))
        follows = (run[1:] > run[:-1]) | ((run[1:] == run[:-1]) & (position[1:] >= position[:-1]))
        is_in_order &= int(run.min()) >= 0 and bool(follows.all())
    if is_in_order:
        return None
    position = line if not part.any() else line << PART_BITS | part
    rows = np.argsort(position, kind="stable")
    del position
    if len(run_of_code) == 1 and run_of_code[0] >= 0:
        return number_array(rows)
    run = run_of_code[codes][rows]
    if (run[1:] < run[:-1]).any():
        again = np.argsort(run, kind="stable")
        rows, run = rows[again], run[again]
    return number_array(rows[run >= 0])


def natural_sort_key(text: str) -> tuple[object, ...]:
    """Sort key in which numbers inside a string sort by value: `layer 2` before `layer 10`."""
    return tuple(int(x) if x.isdigit() else x for x in re.split(r"(\d+)", text))
