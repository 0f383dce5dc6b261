"""A SQLite file, read column by column: what tables and columns it has, and long queries as arrays, read ahead."""

from __future__ import annotations

import queue
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.columns import NONE
from perflog.readers.out import Out
from perflog.tables.arrow import valid_mask
from perflog.tables.sink import Sink

_BATCH = 1 << 16  # rows at a time
_AHEAD = 4  # batches read ahead

Opened = TypeVar("Opened")


@contextmanager
def unpacked(source: Source) -> Iterator[str]:
    """The path of a log's decompressed bytes: its own, or that of a copy for the time being."""
    if not source.packed:
        yield source.path
        return
    with tempfile.NamedTemporaryFile(prefix="perflog-") as copy:
        with closing(source.stream()) as raw:
            block = memoryview(bytearray(1 << 20))
            try:
                while got := raw.fill(block):
                    copy.write(block[:got])
                copy.flush()
            except OSError as err:
                help = "set TMPDIR to a folder with more room"
                reason = f"cannot be kept in a temporary file: {err.strerror or err}"
                raise InputError(reason, source.name, help) from err
        yield copy.name


@contextmanager
def reading(
    source: Source, name: str, sink: Sink, opened: Callable[[Source], AbstractContextManager[Opened]]
) -> Iterator[tuple[Opened, Out]]:
    """What is opened of a log, and where its tables of format `name` go. It is hashed while it is opened."""
    hashing = threading.Thread(target=source.digest)
    hashing.start()
    try:
        with opened(source) as found:
            hashing.join()
            with Out(source.name, source.digest(), name, sink) as out:
                yield found, out
    finally:
        hashing.join()
    out.done.warnings += source.warnings


class Database:
    """Tables of a SQLite file, which is only read. `name` is for errors."""

    def __init__(self, path: str, name: str) -> None:
        self.name = name
        self.uri = Path(path).absolute().as_uri() + "?mode=ro"
        self._db = sqlite3.connect(self.uri, uri=True)
        rows = self.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self.tables = {table: self._columns(table) for (table,) in rows}

    def close(self) -> None:
        self._db.close()

    def _columns(self, table: str) -> tuple[str, ...]:
        return tuple(row[1] for row in self.rows(f"PRAGMA table_info({quoted(table)})"))

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a short query."""
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as err:
            raise damaged(self.name, err) from err

    def arrays(self, queries: Sequence[tuple[Any, str]]) -> Iterator[tuple[Any, pa.RecordBatch]]:
        """Batches of rows of long queries, each with what stands beside its query. A thread reads them ahead."""
        ready: queue.Queue[Any] = queue.Queue(_AHEAD)
        stop = threading.Event()
        thread = threading.Thread(target=self._read, args=(queries, ready, stop), daemon=True)
        thread.start()
        try:
            while (item := ready.get()) is not None:
                if isinstance(item, BaseException):
                    raise damaged(self.name, item) from item
                yield item
        finally:
            stop.set()
            while thread.is_alive():
                while not ready.empty():
                    ready.get()
                thread.join(0.01)

    def _read(self, queries: Sequence[tuple[Any, str]], ready: queue.Queue[Any], stop: threading.Event) -> None:
        try:
            from adbc_driver_sqlite import dbapi

            # Five times as fast as rows of Python objects from the sqlite3 of the standard library.
            with closing(dbapi.connect(self.uri, autocommit=True)) as db, closing(db.cursor()) as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH)})
                for what, query in queries:
                    cursor.execute(query)
                    for batch in cursor.fetch_record_batch():
                        if stop.is_set():
                            return
                        if batch.num_rows:
                            ready.put((what, batch))
        except Exception as err:  # noqa: BLE001  # whatever it is, the reader has to hear of it
            ready.put(err)
        finally:
            ready.put(None)


def quoted(name: str) -> str:
    """A name of a table or column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def damaged(name: str, err: BaseException) -> InputError:
    """The error for a file that SQLite cannot read on."""
    return InputError(f"the database is damaged: {err}", name, "export it again: the export may have been interrupted")


def integers(column: pa.Array) -> npt.NDArray[np.int64]:
    """A column as an array; what is no integer is NONE."""
    if column.type != pa.int64():
        return np.full(len(column), NONE, np.int64)
    values: npt.NDArray[np.int64] = np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * 8)
    return values if not column.null_count else np.where(valid_mask(column), values, NONE)
