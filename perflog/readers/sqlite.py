"""SQLite files, read column by column: which tables and columns a file has, and long queries as Arrow batches."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.event_columns import MISSING, Int64s
from perflog.readers.event_table import RunWriter
from perflog.readers.registry import SQLITE_MAGIC
from perflog.readers.string_interning import StringInterner
from perflog.tables.arrow import valid_mask
from perflog.tables.sink import Sink

_BATCH_ROWS = 1 << 16
_BATCHES_AHEAD = 4  # batches read before they are needed

Opened = TypeVar("Opened")


def is_sqlite(source: Source) -> bool:
    """Return whether a file is a SQLite database."""
    return source.first_bytes(len(SQLITE_MAGIC)) == SQLITE_MAGIC


@contextmanager
def open_with_writer(
    source: Source, format: str, sink: Sink, opened: Callable[[Source], AbstractContextManager[Opened]]
) -> Iterator[tuple[Opened, RunWriter]]:
    """Open a log with `opened`, while a thread hashes it, and give the result with the writer of the log's run."""
    hashing = threading.Thread(target=source.digest)
    hashing.start()
    try:
        with opened(source) as database:
            hashing.join()
            with RunWriter(source.name, source.digest(), format, sink) as writer:
                yield database, writer
    finally:
        hashing.join()
    writer.ingested.warnings += source.warnings


class Database:
    """A SQLite file, opened for reading. `tables` maps each table or view to its columns; `name` is for errors."""

    def __init__(self, path: str, name: str) -> None:
        self.name = name
        self.uri = Path(path).absolute().as_uri() + "?mode=ro"
        self._connection = sqlite3.connect(self.uri, uri=True)
        rows = self.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self.tables = {table: self._columns(table) for (table,) in rows}

    def close(self) -> None:
        self._connection.close()

    def _columns(self, table: str) -> tuple[str, ...]:
        return tuple(row[1] for row in self.rows(f"PRAGMA table_info({quote_name(table)})"))

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a short query."""
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as err:
            raise _damaged(self.name, err) from err

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return int(self.rows(f"SELECT count(*) FROM {quote_name(table)}")[0][0])

    def counts_of_values(self, table: str, without: Container[str] = ()) -> dict[str, int]:
        """Return how many rows of a table have a value in each column, but for some columns that may be null.

        A column that cannot be null has a value in each row, so it is not read.
        """
        facts = self.rows(f"PRAGMA table_info({quote_name(table)})")
        certain = [name for _, name, _, not_null, *_ in facts if not_null]
        counted = [name for _, name, *_ in facts if name not in certain and name not in without]
        counts = ["count(*)", *(f"count({quote_name(name)})" for name in counted)]
        count, *values = self.rows(f"SELECT {', '.join(counts)} FROM {quote_name(table)}")[0]
        return dict.fromkeys(certain, count) | dict(zip(counted, values, strict=True))

    def batches(self, queries: Sequence[tuple[Any, str]]) -> Iterator[tuple[Any, pa.RecordBatch]]:
        """Give the rows of long queries in batches, each batch with the key of its query.

        A thread reads some batches ahead.
        """
        ready: queue.Queue[Any] = queue.Queue(_BATCHES_AHEAD)
        stop = threading.Event()
        thread = threading.Thread(target=self._read_ahead, args=(queries, ready, stop), daemon=True)
        thread.start()
        try:
            while (item := ready.get()) is not None:
                if isinstance(item, BaseException):
                    raise _damaged(self.name, item) from item
                yield item
        finally:
            stop.set()
            while thread.is_alive():
                while not ready.empty():
                    ready.get()
                thread.join(0.01)

    def _read_ahead(self, queries: Sequence[tuple[Any, str]], ready: queue.Queue[Any], stop: threading.Event) -> None:
        try:
            from adbc_driver_sqlite import dbapi

            # Five times as fast as rows of Python objects from the sqlite3 of the standard library.
            with (
                closing(dbapi.connect(self.uri, autocommit=True)) as connection,
                closing(connection.cursor()) as cursor,
            ):
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)})
                for key, query in queries:
                    cursor.execute(query)
                    for batch in cursor.fetch_record_batch():
                        if stop.is_set():
                            return
                        if batch.num_rows:
                            ready.put((key, batch))
        except Exception as err:  # noqa: BLE001  # the reading thread raises whatever it is
            ready.put(err)
        finally:
            ready.put(None)


def quote_name(name: str) -> str:
    """Return the name of a table or column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _damaged(name: str, err: BaseException) -> InputError:
    return InputError(f"the database is damaged: {err}", name, "export it again: the export may have been interrupted")


def columns_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the columns of a batch by name."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def integers(column: pa.Array | None, count: int) -> Int64s:
    """Return a column of `count` values as an array: MISSING where a value is no integer, or there is no column."""
    if column is None or column.type != pa.int64():
        return np.full(count, MISSING, np.int64)
    values: Int64s = np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * 8)
    return values if not column.null_count else np.where(valid_mask(column), values, MISSING)


def reals(column: pa.Array | None, count: int) -> npt.NDArray[np.float64]:
    """Return a column of `count` values as doubles: NaN where a value is no number, or there is no column."""
    if column is None or column.type not in (pa.int64(), pa.float64()):
        return np.full(count, np.nan)
    dtype = np.int64 if column.type == pa.int64() else np.float64
    values = np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * 8).astype(np.float64)
    return values if not column.null_count else np.where(valid_mask(column), values, np.nan)


def text_codes(column: pa.Array | None, interner: StringInterner) -> npt.NDArray[np.int32] | None:
    """Return the codes of a column of texts without nulls, -1 for the empty text; None where it holds no texts."""
    if column is None or not pa.types.is_string(column.type):
        return None
    encoded = column.dictionary_encode()
    codes = [interner.code(text) if text else -1 for text in encoded.dictionary.to_pylist()]
    index = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))
    return np.array(codes, np.int32)[index]
