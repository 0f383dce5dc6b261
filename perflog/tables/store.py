"""The store: a folder of Parquet files, in which a log appears, is replaced and disappears as a whole.

In: the tables of a log (`LogWriter`). Out: the tables of all logs, or of some logs or runs (`Store.table`).

One file per table and log, `STORE/<table>/<log id>.parquet`: a sweep of thousands of runs stays a handful of files, and
a rename replaces a file, but not a folder. `runs/<log id>.parquet` is moved in last and moved out first: a log without
it does not exist. Files are written in `STORE/.tmp/<random>/`. What a killed process leaves there is undone or removed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

from perflog.errors import StoreError, UsageError
from perflog.tables.file_lock import lock, locked
from perflog.tables.parquet import read_table, writer_options
from perflog.tables.schema import SCHEMA_VERSION, TABLES, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

_LOG_ID = re.compile(r"[0-9A-Za-z_-]+")
_ORDER = (*(name for name in TABLES if name != "runs"), "runs")  # in which files are moved into place

_BUFFER = 1 << 14  # bytes that are written at once
_MANY_LOGS = 64  # in a store
_READERS = 2  # threads that read the files of many logs; more wait for the interpreter
_BATCH = 16  # files that a thread reads at a time

_INGEST_AGAIN = "ingest that log again: it replaces the file"

_FULL = ("the disk is full", "free some space or store elsewhere; the store is as it was")

_DENIED = ("permission denied", "change the permissions or use another folder for the store")

_NO_FOLDER = ("a file is in the way", "a store is a folder: use another path")

_NO_LOCKS = ("this file system has no file locks", "use a folder on another file system for the store")

_CAUSES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _DENIED),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST, errno.EISDIR), _NO_FOLDER),
    **dict.fromkeys((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP), _NO_LOCKS),
}


@contextmanager
def _store_errors(where: Path) -> Iterator[None]:
    """Turn an error of the operating system into a StoreError."""
    try:
        yield
    except OSError as error:
        reason, help = _CAUSES.get(error.errno or 0, (error.strerror or str(error), ""))
        raise StoreError(reason, str(where), help) from error


def _checked(table: str) -> str:
    """Return the name of a table if it exists, else raise UsageError."""
    if table not in TABLES:
        raise UsageError(f"there is no table {table!r}", help=f"the tables: {', '.join(TABLES)}")
    return table


def default_store() -> str:
    """Return the folder of the default store: PERFLOG_STORE, else .perflog."""
    return os.environ.get("PERFLOG_STORE") or ".perflog"


def is_store(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a store with at least one log."""
    return any(Path(path).glob("runs/*.parquet"))


class Store:
    """A store. The folder is created when the first log is written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def write(self, log_id: str | Callable[[], str]) -> LogWriter:
        """Return a writer for one log: `with store.write(log_id) as writer: writer.add(...)`.

        Args:
            log_id: The id of the log, or a function that returns it; the function is called after all rows were added.
        """
        return LogWriter(self, log_id)

    def logs(self) -> list[str]:
        """Return the ids of the logs in the store."""
        with _store_errors(self.path), self._without_commits():
            return self._log_ids("runs")

    def table(self, name: str, logs: Sequence[str] | None = None, runs: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a table. All rows of a log are from the same ingest, even if it is replaced meanwhile.

        Args:
            name: The name of the table.
            logs: Ids of the logs to read; by default all.
            runs: Ids of the runs to read; by default all.

        Raises:
            UsageError: There is no such table.
            StoreError: A file is damaged, cannot be read, or was written by a newer perflog.
        """
        import pyarrow as pa

        _checked(name)
        wanted = self.logs() if logs is None else [log for log in dict.fromkeys(logs) if _LOG_ID.fullmatch(log)]
        with _store_errors(self.path):
            read = partial(self._read, name, runs=runs)
            if len(wanted) < _MANY_LOGS:
                parts = [part for part in map(read, wanted) if part is not None]
            else:  # Arrow reads files without holding the interpreter
                from concurrent.futures import ThreadPoolExecutor

                batches = [wanted[i : i + _BATCH] for i in range(0, len(wanted), _BATCH)]
                with ThreadPoolExecutor(_READERS) as pool:
                    read_batches = pool.map(lambda batch: list(map(read, batch)), batches)
                    parts = [part for batch in read_batches for part in batch if part is not None]
        if not parts:
            return pa.Table.from_batches([], arrow_schema(name))  # empty_table() imports pandas
        return pa.concat_tables(parts).unify_dictionaries()

    def delete(self, log_id: str) -> None:
        """Remove a log and its runs.

        Raises:
            UsageError: The store does not have the log.
        """
        if log_id not in self.logs():
            raise UsageError(f"there is no log {log_id!r} in the store", str(self.path))
        with _store_errors(self.path), locked(self.path / ".lock"):
            self._recover()
            for table in reversed(_ORDER):
                self._file(table, log_id).unlink(missing_ok=True)

    def _file(self, table: str, log_id: str) -> Path:
        return Path(f"{self.path}/{table}/{log_id}.parquet")

    def _log_ids(self, table: str) -> list[str]:
        try:
            names = os.listdir(self.path / table)
        except FileNotFoundError:
            return []
        ids = (name.removesuffix(".parquet") for name in names if name.endswith(".parquet"))
        return sorted(log_id for log_id in ids if _LOG_ID.fullmatch(log_id))

    @contextmanager
    def _without_commits(self) -> Iterator[None]:
        """Undo the unfinished work of a killed process, and hold off writers inside this block."""
        if any((self.path / ".tmp").glob("*/commit")):
            with suppress(OSError), locked(self.path / ".lock"):  # a reader may lack the permission to undo
                self._recover()
        with ExitStack() as stack:
            with suppress(FileNotFoundError, PermissionError):  # no store here, or no permission to lock
                stack.enter_context(locked(self.path / ".lock", shared=True))
            yield

    def _read(self, name: str, log_id: str, runs: Sequence[str] | None) -> pa.Table | None:
        """Return a table of one log. If the log is replaced meanwhile, read again with writers held off."""
        import pyarrow as pa

        path = self._file(name, log_id)
        for protection in (nullcontext, self._without_commits):
            with protection():
                stamp = self._stamp(log_id)
                try:
                    table = read_table(path, name, runs) if stamp else None
                except FileNotFoundError:
                    table = None
                except (pa.ArrowException, OSError, ValueError) as error:
                    if isinstance(error, OSError) and error.errno:
                        raise
                    raise StoreError(f"damaged: {error}", str(path), _INGEST_AGAIN) from error
                if stamp and stamp == self._stamp(log_id):
                    return table
        return None

    def _stamp(self, log_id: str) -> tuple[int, ...] | None:
        """Return what changes with each commit of a log: its runs file is moved out first and moved in last."""
        try:
            stat = self._file("runs", log_id).stat()
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns

    def _recover(self) -> None:
        """Undo and remove what killed writers have left. The caller holds the lock."""
        for folder in list((self.path / ".tmp").glob("*/")):
            try:
                fd = os.open(folder / "alive", os.O_RDWR | os.O_CREAT)
            except FileNotFoundError:  # its owner just removed it
                continue
            try:
                if lock(fd, wait=False):
                    self._undo(folder)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)

    def _undo(self, folder: Path) -> None:
        """Undo the commit that a writer began from its folder, unless it is finished. If killed, it can be repeated."""
        mark = folder / "commit"
        if mark.exists() and (folder / "runs.parquet").exists():
            begun = json.loads(mark.read_text())
            for table in _ORDER:
                if (old := folder / f"{table}.old").exists():
                    os.replace(old, self._file(table, begun["log"]))
                elif table not in begun["had"]:
                    self._file(table, begun["log"]).unlink(missing_ok=True)
            mark.unlink()

    def _sweep(self, log_id: str) -> None:
        """Remove the files of logs without a runs file: delete() leaves them if it is killed.

        They only take room, and to look for them takes long in a store of many logs: there only some commits do it.
        """
        if crc32(log_id.encode()) % _MANY_LOGS and len(os.listdir(self.path / "runs")) > _MANY_LOGS:
            return
        committed = set(self._log_ids("runs"))
        for table in _ORDER[:-1]:
            for log_id in set(self._log_ids(table)) - committed:
                with suppress(OSError):
                    self._file(table, log_id).unlink()


def _valid(log_id: str) -> str:
    if not _LOG_ID.fullmatch(log_id):
        raise ValueError(f"not a log id: {log_id!r}")
    return log_id


class LogWriter:
    """Writes one log into a store. Leaving the with-block commits; an exception leaves the store as it was."""

    def __init__(self, store: Store, log_id: str | Callable[[], str]) -> None:
        self._store = store
        self._id = log_id
        if isinstance(log_id, str):
            _valid(log_id)
        self._folder = store.path / ".tmp" / os.urandom(8).hex()
        self._alive_fd = -1
        self._open: dict[str, tuple[Any, Any]] = {}  # writer and file, by table
        self._locks = {table: threading.Lock() for table in TABLES}

    def __enter__(self) -> Self:
        with _store_errors(self._store.path):
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            with locked(self._store.path / ".lock"):  # or another writer takes the new folder for that of a killed one
                self._store._recover()
                self._folder.mkdir()
                self._alive_fd = os.open(self._folder / "alive", os.O_RDWR | os.O_CREAT)
                lock(self._alive_fd)
        return self

    def add(self, table: str, data: pa.Table | Sequence[pa.RecordBatch]) -> None:
        """Append rows to a table as one row group. Several threads may write different tables at once."""
        import pyarrow as pa

        schema = arrow_schema(_checked(table))
        rows = data if isinstance(data, pa.Table) else pa.Table.from_batches(data, schema)
        if rows.num_rows == 0:
            return
        with _store_errors(self._store.path), self._locks[table]:
            if table not in self._open:
                self._open[table] = self._start(table, schema)
            self._open[table][0].write_table(rows, row_group_size=rows.num_rows)

    def reset(self) -> None:
        """Forget all rows, because the log is read again. No other thread may be writing."""
        for writer, sink in self._open.values():
            writer.is_open = False  # or its destructor writes a footer to the closed file
            with suppress(OSError):
                sink.close()
        self._open = {}

    def _start(self, table: str, schema: pa.Schema) -> tuple[Any, Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        # The writer does not own the file: to discard it is to close it. A writer that owns it would write a footer.
        sink = pa.BufferedOutputStream(pa.OSFile(str(self._folder / f"{table}.parquet"), "wb"), _BUFFER)
        return pq.ParquetWriter(sink, schema, **writer_options(table)), sink

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if kind is None:
                with _store_errors(self._store.path):
                    self._commit()
        finally:
            self._clear()

    def _commit(self) -> None:
        if "runs" not in self._open:
            raise StoreError("nothing to store: the log has no runs", str(self._store.path))
        for table, (writer, sink) in self._open.items():
            writer.add_key_value_metadata({"schema_version": str(SCHEMA_VERSION), "table": table})
            writer.close()
            sink.close()
        log = _valid(self._id if isinstance(self._id, str) else self._id())
        with locked(self._store.path / ".lock"):
            self._store._recover()
            try:
                self._move(log)
            except BaseException:
                self._store._undo(self._folder)
                raise
            self._store._sweep(log)

    def _move(self, log: str) -> None:
        """Move old files out, runs first, and new files in, runs last. Old files stay in our folder, to undo."""
        store = self._store
        had = [table for table in _ORDER if store._file(table, log).exists()]
        for table in self._open:
            (store.path / table).mkdir(exist_ok=True)
        draft = self._folder / "commit.new"
        draft.write_text(json.dumps({"log": log, "had": had}))
        os.replace(draft, self._folder / "commit")
        for table in reversed(had):
            os.replace(store._file(table, log), self._folder / f"{table}.old")
        for table in _ORDER:
            if table in self._open:
                os.replace(self._folder / f"{table}.parquet", store._file(table, log))

    def _clear(self) -> None:
        self.reset()
        if self._alive_fd >= 0:
            os.close(self._alive_fd)
        if not (self._folder / "commit").exists() or not (self._folder / "runs.parquet").exists():
            shutil.rmtree(self._folder, ignore_errors=True)  # else the undo failed: the next writer tries again
