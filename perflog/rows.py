"""The order of a table's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.arrow import array
from perflog.batch import PART_BITS

if TYPE_CHECKING:
    import pyarrow as pa


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """The values of a column of whole numbers without nulls; to_numpy() imports pandas."""
    kind = np.dtype(str(column.type))
    found: npt.NDArray[Any] = np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)
    return found


def in_order(table: pa.Table, runs: Sequence[str]) -> pa.Table:
    """Rows of these runs, in the order of the runs, then by line and part; the order of a record's rows is kept."""
    if not table.num_rows:
        return table
    table = table.combine_chunks()
    words = table["run"].chunk(0)
    order = {run: i for i, run in enumerate(runs)}
    place = np.array([order.get(run, -1) for run in words.dictionary.to_pylist()], np.int64)
    run = place[numbers(words.indices)]
    key = numbers(table["line"].chunk(0)) << PART_BITS | numbers(table["part"].chunk(0))
    ahead = (run[1:] > run[:-1]) | (run[1:] == run[:-1]) & (key[1:] >= key[:-1])
    if ahead.all() and run[0] >= 0:
        return table
    rows = np.lexsort((key, run))
    return table.take(array(rows[run[rows] >= 0]))
