"""Columns of numbers and codes -> rows of table `events`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perflog.readers.columns import NONE, Columns
from perflog.readers.kinds import KINDS
from perflog.readers.vocabulary import Vocabulary
from perflog.tables.arrow import null_array, number_array, repeated_word, word_array, zero_array
from perflog.tables.schema import arrow_schema

_SMALL = (-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True)
class Who:
    """Whose events these are: the run, the file of it, and its rank with the rule that tells it."""

    run: str
    part: int
    rank: int | None
    rank_by: str | None


def events(who: Who, columns: Columns, texts: Mapping[str, Vocabulary]) -> pa.Table:
    """Rows of `events`. `columns`: numbers with NONE, codes into `texts` with -1, by the names of the table's columns
    (start and duration without their unit); `place` is the place of each in its file. What is not there is null.
    """
    count = len(columns["place"])
    given: dict[str, Callable[[], Any]] = {
        "run": lambda: repeated_word(0, (who.run,), count),
        "line": lambda: number_array(columns["place"].astype(np.int64)),
        "part": lambda: number_array(np.full(count, who.part, np.int32)) if who.part else zero_array(count),
        "rank": lambda: number_array(np.full(count, who.rank, np.int32)),
        "rank_by": lambda: repeated_word(0, (who.rank_by or "",), count),
        "kind": lambda: word_array(columns["kind"], KINDS),
    }
    unknown = {name for name in ("rank", "rank_by") if getattr(who, name) is None}
    made = []
    schema = arrow_schema("events")
    for field in schema:
        name = field.name.removesuffix("_ns")
        if name not in columns and (field.name not in given or name in unknown):
            made.append(null_array(field.type, count))
        elif field.name in given:
            made.append(given[field.name]())
        elif name in texts:
            made.append(word_array(columns[name], texts[name].arrow()))
        else:
            made.append(_numbers(columns[name], field.type))
    return pa.Table.from_arrays(made, schema=schema)


def _numbers(values: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    known = values != NONE
    if kind == pa.int32():
        known &= (values >= _SMALL[0]) & (values <= _SMALL[1])
        return number_array(np.where(known, values, 0).astype(np.int32), known)
    return number_array(values, known)
