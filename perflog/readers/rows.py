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
from perflog.tables.arrow import array, constant, nothing, words, zeros
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
        "run": lambda: constant(0, (who.run,), count),
        "line": lambda: array(columns["place"].astype(np.int64)),
        "part": lambda: array(np.full(count, who.part, np.int32)) if who.part else zeros(count),
        "rank": lambda: array(np.full(count, who.rank, np.int32)),
        "rank_by": lambda: constant(0, (who.rank_by or "",), count),
        "kind": lambda: words(columns["kind"], KINDS),
    }
    unknown = {name for name in ("rank", "rank_by") if getattr(who, name) is None}
    made = []
    schema = arrow_schema("events")
    for field in schema:
        name = field.name.removesuffix("_ns")
        if name not in columns and (field.name not in given or name in unknown):
            made.append(nothing(field.type, count))
        elif field.name in given:
            made.append(given[field.name]())
        elif name in texts:
            made.append(words(columns[name], texts[name].arrow()))
        else:
            made.append(_numbers(columns[name], field.type))
    return pa.Table.from_arrays(made, schema=schema)


def _numbers(values: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    known = values != NONE
    if kind == pa.int32():
        known &= (values >= _SMALL[0]) & (values <= _SMALL[1])
        return array(np.where(known, values, 0).astype(np.int32), known)
    return array(values, known)
