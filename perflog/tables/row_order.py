"""The place of a row in its log, and the order of a table's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from perflog.tables.arrow import number_array, numbers_of

if TYPE_CHECKING:
    import pyarrow as pa


PART_BITS = 20
"""A record's place is one integer, `line << PART_BITS | part`: it sorts as the log does."""

PART_MASK = (1 << PART_BITS) - 1
"""The part of a place."""


def in_order(table: pa.Table, runs: Sequence[str]) -> pa.Table:
    """Rows of these runs, in the order of the runs, then by line and part; the order of a record's rows is kept."""
    if not table.num_rows:
        return table
    table = table.combine_chunks()
    words = table["run"].chunk(0)
    order = {run: i for i, run in enumerate(runs)}
    place = np.array([order.get(run, -1) for run in words.dictionary.to_pylist()], np.int64)
    run = place[numbers_of(words.indices)]
    key = numbers_of(table["line"].chunk(0)) << PART_BITS | numbers_of(table["part"].chunk(0))
    ahead = (run[1:] > run[:-1]) | (run[1:] == run[:-1]) & (key[1:] >= key[:-1])
    if ahead.all() and run[0] >= 0:
        return table
    rows = np.lexsort((key, run))
    return table.take(number_array(rows[run[rows] >= 0]))
