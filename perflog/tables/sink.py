"""What reading a log gives, whatever reads it: tables into a sink, and the account of what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perflog.tables.arrow import number_array, text_array, word_array
from perflog.tables.schema import arrow_schema

RUN_ID = 12
"""Hex digits of the log's SHA-256 in a run id; the run's place in the log follows."""

LOG_ID = 16
"""Hex digits of the log's SHA-256 in its name in a store."""

RunLabels = str | Callable[[], Mapping[int, str | None]] | None
"""The name of a log's runs, or what gives their names by index."""


class Sink(Protocol):
    """Where tables go."""

    def add(self, table: str, data: pa.Table) -> None: ...


class MemorySink:
    """A sink that keeps tables in memory."""

    def __init__(self) -> None:
        self.tables: dict[str, list[pa.Table]] = {}

    def add(self, table: str, data: pa.Table) -> None:
        """Append rows to a table."""
        self.tables.setdefault(table, []).append(data)

    def reset(self) -> MemorySink:
        """Forget all rows and return the sink: a log may be read twice."""
        self.tables.clear()
        return self

    def fetch(self, name: str, runs: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a table, of all runs or only of those with these ids."""
        parts = self.tables.get(name, [])
        if not parts:
            return pa.Table.from_batches([], arrow_schema(name))  # empty_table() imports pandas
        if len(parts) > 1:
            parts[:] = [pa.concat_tables(parts).unify_dictionaries().combine_chunks()]
        if runs is None:
            return parts[0]
        return parts[0].filter(pc.is_in(parts[0]["run"], value_set=text_array(runs)))


@dataclass
class IngestResult:
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
            made.append(number_array(real, np.array([v is not None for v in values], np.bool_)))
        elif pa.types.is_integer(f.type):
            kind = np.int64 if f.type == pa.int64() else np.int32
            if f.nullable:
                known = np.array([v is not None for v in values], np.bool_)
                made.append(number_array(np.array([v or 0 for v in values], kind), known))
            else:
                made.append(number_array(np.array(values, kind)))
        elif pa.types.is_dictionary(f.type):
            index: dict[Any, int] = {None: -1}
            codes = [index.setdefault(v, len(index) - 1) for v in values]
            del index[None]
            made.append(word_array(np.array(codes, np.int64), text_array(index)))
        else:
            made.append(text_array(values))
    return pa.Table.from_arrays(made, schema=schema)
