"""The place of a record in its log as one integer, and orders: of rows by run, line and part, of texts by numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.tables.arrow import number_array, numbers_of, without_chunks

if TYPE_CHECKING:
    import pyarrow as pa


PART_BITS = 20
"""The place of a record is `line << PART_BITS | part`: one integer that sorts in log order."""

PART_MASK = (1 << PART_BITS) - 1
"""The bits of a place that hold the part."""


def in_order(table: pa.Table, runs: Sequence[str]) -> pa.Table:
    """Return the rows of these runs, in the order of the runs, then by line and part.

    The rows of one record stay in their order.
    """
    if not table.num_rows:
        return table
    table = without_chunks(table)
    words = table["run"].chunk(0)
    position = {run: i for i, run in enumerate(runs)}
    position_of_code = np.array([position.get(run, -1) for run in words.dictionary.to_pylist()], np.int64)
    run = position_of_code[numbers_of(words.indices)]
    place = numbers_of(table["line"].chunk(0)) << PART_BITS | numbers_of(table["part"].chunk(0))
    ascending = (run[1:] > run[:-1]) | (run[1:] == run[:-1]) & (place[1:] >= place[:-1])
    if ascending.all() and run[0] >= 0:
        return table
    rows = np.argsort(place, kind="stable")
    rows = rows[np.argsort(run[rows], kind="stable")]
    return table.take(number_array(rows[run[rows] >= 0]))


def natural_sort_key(text: str) -> tuple[Any, ...]:
    """Sort key in which numbers inside a text sort by value: `layer 2` before `layer 10`."""
    return tuple(int(x) if x.isdigit() else x for x in re.split(r"(\d+)", text))
