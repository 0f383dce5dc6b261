"""What reading a log gives, whatever reads it: tables into a sink, and the account of what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from perflog.tables.arrow import array, text_array, words
from perflog.tables.schema import arrow_schema

RUN_ID = 12
"""Hex digits of the log's SHA-256 in a run id; the run's place in the log follows."""

LOG_ID = 16
"""Hex digits of the log's SHA-256 in its name in a store."""

Label = str | Callable[[], Mapping[int, str | None]] | None
"""The name of a log's runs, or what gives their names by index."""


class Sink(Protocol):
    """Where tables go."""

    def add(self, table: str, data: pa.Table) -> None: ...


@dataclass
class Ingested:
    """What was found in a log. `lines` is the account: total = read + context + unread."""

    log: str
    sha256: str
    formats: list[str] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, int] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=lambda: {"total": 0, "read": 0, "context": 0, "unread": 0})
    unread: tuple[int, str] | None = None  # the first unread line
    warnings: list[str] = field(default_factory=list)


def table_of(name: str, columns: Sequence[Sequence[Any]]) -> pa.Table:
    """Columns of values, in the schema's order, as a table."""
    made = []
    schema = arrow_schema(name)
    for f, values in zip(schema, columns, strict=True):
        if pa.types.is_floating(f.type):
            real = np.array([v if v is not None else 0.0 for v in values], np.float64)
            made.append(array(real, np.array([v is not None for v in values], np.bool_)))
        elif pa.types.is_integer(f.type):
            kind = np.int64 if f.type == pa.int64() else np.int32
            if f.nullable:
                known = np.array([v is not None for v in values], np.bool_)
                made.append(array(np.array([v or 0 for v in values], kind), known))
            else:
                made.append(array(np.array(values, kind)))
        elif pa.types.is_dictionary(f.type):
            index: dict[Any, int] = {None: -1}
            codes = [index.setdefault(v, len(index) - 1) for v in values]
            del index[None]
            made.append(words(np.array(codes, np.int64), text_array(index)))
        else:
            made.append(text_array(values))
    return pa.Table.from_arrays(made, schema=schema)
