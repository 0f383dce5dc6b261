"""SQLite files, read column by column: which tables and columns a file has, and long queries as Arrow batches.

Any cell of SQLite may hold a value of any type. A column of a query has one type here, and a row in which a cell has
another one is odd: readers count it as unread, and its neighbours stay what they are.
"""

from __future__ import annotations

import queue
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from perflog.arrays import Codes, Floats, Ints, Mask
from perflog.errors import InputError
from perflog.files import temporary
from perflog.parsing.input.source import Source
from perflog.readers.databases.sqlite_pages import Pages
from perflog.readers.events.event_columns import MISSING, missing_numbers
from perflog.readers.events.event_table import RunWriter
from perflog.readers.events.string_interning import StringInterner
from perflog.readers.registry import SQLITE_MAGIC
from perflog.tables.arrow import valid_mask
from perflog.tables.sink import Sink

ODD = "odd_cells"
"""Column with the number of cells of another type in a row; only batches of rows with such cells have it."""

_REALS = ("value", "payload_real")
"""Columns of long queries that are reals, by name. Others are integers, if the caller does not name them as strings."""

_BATCH_ROWS = 1 << 17
_BATCHES_AHEAD = 4  # batches read before they are needed
_WAL = 2  # bytes 18 and 19 of a file that may have its last changes in a log beside it

_ARROW_TYPES = {"integer": (pa.int64(),), "real": (pa.int64(), pa.float64()), "text": (pa.int64(), pa.string())}
_TESTED = {  # whether a cell is odd, and its value
    "integer": ("typeof({0}) NOT IN ('integer', 'null')", "CASE typeof({0}) WHEN 'integer' THEN {0} END"),
    "real": ("typeof({0}) IN ('text', 'blob')", "CASE WHEN typeof({0}) IN ('integer', 'real') THEN {0} END"),
    "text": ("typeof({0}) = 'blob'", "CASE typeof({0}) WHEN 'blob' THEN '' ELSE CAST(ifnull({0}, '') AS TEXT) END"),
}
_MEBIBYTE = 1 << 20
_STEPS_A_CALL, _CALLS_A_MEBIBYTE = _MEBIBYTE, 100
_NO_TREES = ValueError("a page of it is referenced several times")
_SCHEMA_ROOT = 1  # page
_OTHER_TYPE = "Type mismatch"  # in the driver's error
_COPY = "copy.sqlite"
_LAST_CHANGES = {
    "-wal": "what is in its -wal file was read too",
    "-journal": "its last transaction was undone, as its -journal file says",
}

Opened = TypeVar("Opened")


def quote_name(name: str) -> str:
    """Return the name of a table or column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def query_of(
    table: str, columns: Mapping[str, str], texts: Container[str] = (), expressions: Mapping[str, str] | None = None
) -> str:
    """Return the query for columns of a table, each under the name that the caller gives it, and expressions of SQL.

    `texts`: the names of columns of strings. These have no nulls: they are empty strings.
    """
    chosen = []
    for name, column in columns.items():
        value = f"ifnull({quote_name(column)}, '')" if name in texts else quote_name(column)
        chosen.append(f"{value} AS {quote_name(name)}")
    chosen += [f"{value} AS {quote_name(name)}" for name, value in (expressions or {}).items()]
    return f"SELECT {', '.join(chosen)} FROM {quote_name(table)} NOT INDEXED"  # an index has another order


def is_sqlite(source: Source) -> bool:
    """Return whether a file is a SQLite database."""
    return source.first_bytes(len(SQLITE_MAGIC)) == SQLITE_MAGIC


@contextmanager
def open_with_writer(
    source: Source, format: str, sink: Sink, opened: Callable[[Source], AbstractContextManager[Opened]]
) -> Iterator[tuple[Opened, Callable[[], RunWriter]]]:
    """Open a log with `opened`, and give the result with what makes the writer of the log's run.

    A thread hashes the log until the writer is made, which is closed with the log.
    """
    hashing = threading.Thread(target=source.digest)
    hashing.start()
    try:
        with opened(source) as database, ExitStack() as writers:

            def new_writer() -> RunWriter:
                hashing.join()
                writer = writers.enter_context(RunWriter(source.name, source.digest(), format, sink))
                writer.ingested.warnings = source.warnings  # also those that come later
                return writer

            yield database, new_writer
    finally:
        hashing.join()


class Database:
    """A SQLite file, opened for reading. `tables` maps each table to its columns; `name` is for errors.

    Views and virtual tables are left out: to read them is to run what the file says, for as long as it likes. A file
    is damaged if its pages are made to lead to the same pages again and again. Nothing is written beside the file. If
    its last changes are in a file beside it, a copy of both is read.
    """

    def __init__(self, path: str, source: Source) -> None:
        self.name = source.name
        self._copy = _copy_with_changes(Path(path).absolute(), source)
        file = Path(self._copy.name, _COPY) if self._copy else Path(path).absolute()
        self.uri = file.as_uri() + ("" if self._copy else "?immutable=1" if _is_wal(file) else "?mode=ro")
        self._pages = Pages(file)
        self._connection = sqlite3.connect(self.uri, uri=True)
        try:
            self._begin(file)
            rows = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'")
            self.tables = {table: self._columns(table) for (table,) in rows}
        except BaseException:
            self.close()
            raise

    def _begin(self, file: Path) -> None:
        """Begin a transaction, which ends when the file is closed: no other program writes pages meanwhile."""
        if not self._pages.are_trees([_SCHEMA_ROOT]):
            raise _damaged(self.name, _NO_TREES)
        # SQLite calls the handler each time its machine has done so many steps, and ends the query if that returns 1.
        self._connection.set_progress_handler(self._has_done_too_much, _STEPS_A_CALL)
        self._calls_left = self._calls_a_query = _CALLS_A_MEBIBYTE * (1 + _size(file) // _MEBIBYTE)
        if self._copy:
            self.rows("PRAGMA wal_checkpoint(TRUNCATE)")  # then all pages are in the file itself
        self.rows("BEGIN")
        roots = [root for (root,) in self.rows("SELECT rootpage FROM sqlite_master WHERE typeof(rootpage) = 'integer'")]
        if not self._pages.are_trees([_SCHEMA_ROOT, *roots]):
            raise _damaged(self.name, _NO_TREES)

    def close(self) -> None:
        self._connection.close()
        self._pages.close()  # after the connection: it would take its locks
        if self._copy:
            self._copy.cleanup()

    def _has_done_too_much(self) -> bool:
        self._calls_left -= 1
        return self._calls_left < 0

    def _columns(self, table: str) -> tuple[str, ...]:
        return tuple(row[1] for row in self.rows(f"PRAGMA table_info({quote_name(table)})"))

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a short query."""
        self._calls_left = self._calls_a_query
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

    def batches(
        self, queries: Sequence[tuple[Any, str]], texts: Container[str] = ()
    ) -> Iterator[tuple[Any, pa.RecordBatch]]:
        """Give the rows of long queries in batches, each with the key of its query.

        A thread reads some batches ahead. `texts`: names of the columns of strings. `odd_rows` finds which rows of
        a batch have a cell of another type.
        """
        if not queries:
            return
        ready: queue.Queue[Any] = queue.Queue(_BATCHES_AHEAD)
        stop = threading.Event()
        thread = threading.Thread(target=self._read_ahead, args=(queries, texts, ready, stop), daemon=True)
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

    def _read_ahead(
        self, queries: Sequence[tuple[Any, str]], texts: Container[str], ready: queue.Queue[Any], stop: threading.Event
    ) -> None:
        """Put the batches of all queries into a queue, each with its key; then an error, if one occurs, and None."""
        try:
            with self._cursor() as cursor:
                for key, query in queries:
                    for batch in self._typed_batches(cursor, query, texts):
                        if stop.is_set():
                            return
                        if batch.num_rows:
                            ready.put((key, batch))
        except Exception as err:  # noqa: BLE001  # the reading thread raises whatever it is
            ready.put(err)
        finally:
            ready.put(None)

    @contextmanager
    def _cursor(self) -> Iterator[object]:
        """Open the file in another way, five times as fast as rows of Python objects from the standard library."""
        from adbc_driver_sqlite import dbapi

        with closing(dbapi.connect(self.uri, autocommit=True)) as connection, closing(connection.cursor()) as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)})
            yield cursor

    @staticmethod
    def _typed_batches(cursor: Any, query: str, texts: Container[str]) -> Iterator[pa.RecordBatch]:
        """Give the batches of a query with the column types that readers expect.

        The driver makes reals or strings of a column in which one cell has another type, or fails if it comes late.
        Then the rest of the query is read again, with a test of each cell, which takes twice as long.
        """
        cursor.execute(query)
        reader, read = cursor.fetch_record_batch(), 0
        types = {
            name: "text" if name in texts else "real" if name in _REALS else "integer" for name in reader.schema.names
        }
        if all(field.type in _ARROW_TYPES[types[field.name]] for field in reader.schema):
            try:
                for batch in reader:
                    batch.validate(full=True)  # a late blob among strings becomes one that need not be UTF-8
                    yield batch
                    read += batch.num_rows
            except pa.ArrowInvalid:
                pass
            except OSError as error:
                if _OTHER_TYPE not in str(error):
                    raise
            else:
                return
        tests = {name: [text.format(quote_name(name)) for text in _TESTED[of]] for name, of in types.items()}
        cells = (f"{value} AS {quote_name(name)}" for name, (_, value) in tests.items())
        odd = " + ".join(f"({test})" for test, _ in tests.values())
        cursor.execute(f"SELECT {', '.join(cells)}, {odd} AS {ODD} FROM ({query}) LIMIT -1 OFFSET {read}")
        yield from cursor.fetch_record_batch()


def _damaged(name: str, err: BaseException) -> InputError:
    return InputError(f"the database is damaged: {err}", name, "export it again: the export may have been interrupted")


def odd_rows(batch: pa.RecordBatch) -> Mask:
    """Flag the rows of a batch with a cell of another type than the column has."""
    if ODD not in batch.schema.names:
        return np.zeros(batch.num_rows, np.bool_)
    return integers(batch.column(ODD), batch.num_rows) > 0


def values_of_rows(batch: pa.RecordBatch, rows: Mask, columns: Container[str]) -> list[int]:
    """Return how many cells of these rows of a batch with odd rows hold a value, in some columns or of another type."""
    cells = integers(batch.column(ODD), batch.num_rows).copy()
    for name, column in columns_of(batch).items():
        cells += valid_mask(column) if name in columns else 0
    return [int(number) for number in cells[rows]]


def _is_wal(file: Path) -> bool:
    """Return whether SQLite would make files beside a database even to read it."""
    with file.open("rb") as opened:
        return opened.read(20)[18:] == bytes([_WAL, _WAL])


def _copy_with_changes(file: Path, source: Source) -> tempfile.TemporaryDirectory[str] | None:
    """Return a folder with a copy of a database and of its last changes, which are in a file beside it; else None.

    They are there while a program writes, and stay if it is killed. SQLite applies or undoes them in the copy.
    """
    beside = [ending for ending in ("-wal", "-journal") if _size(Path(f"{file}{ending}"))]
    if not beside:
        return None
    try:
        with ExitStack() as undone:
            folder = tempfile.TemporaryDirectory(dir=temporary.folder())
            undone.callback(folder.cleanup)
            for ending in ("", *beside):
                shutil.copyfile(f"{file}{ending}", Path(folder.name, _COPY + ending))
            undone.pop_all()
    except OSError as err:
        reason = f"no copy of it and its {beside[0]}: {err.strerror or err}"
        raise InputError(reason, source.name, temporary.MORE_ROOM) from err
    source.warnings.append(f"{source.name}: a program was writing to it, or was killed: {_LAST_CHANGES[beside[0]]}")
    return folder


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def columns_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the columns of a batch by name."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def integers(column: pa.Array | None, count: int) -> Ints:
    """Return a column of `count` values as an array: MISSING where a value is no integer, or there is no column."""
    if column is None or column.type != pa.int64():
        return missing_numbers(count)
    values: Ints = np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * 8)
    return values if not column.null_count else np.where(valid_mask(column), values, MISSING)


def reals(column: pa.Array | None, count: int) -> Floats:
    """Return a column of `count` values as doubles: NaN where a value is no number, or there is no column."""
    if column is None or column.type not in (pa.int64(), pa.float64()):
        return np.full(count, np.nan)
    dtype = np.int64 if column.type == pa.int64() else np.float64
    values = np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * 8).astype(np.float64)
    return values if not column.null_count else np.where(valid_mask(column), values, np.nan)


def text_codes(column: pa.Array | None, interner: StringInterner) -> Codes | None:
    """Return the codes of a column of strings without nulls, -1 for the empty string; None if it holds no strings."""
    if column is None or not pa.types.is_string(column.type):
        return None
    encoded = column.dictionary_encode()
    codes = [interner.code(text) if text else -1 for text in encoded.dictionary.to_pylist()]
    index = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))
    return np.array(codes, np.int32)[index]
