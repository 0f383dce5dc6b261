"""The store: tables <-> Parquet, atomic.

One file per table and log, `STORE/<table>/<log id>.parquet`: a sweep of thousands of runs stays a handful of files, and
a file is replaced by one rename, which a folder cannot be. `runs/<log id>.parquet` comes last and leaves first: a log
without it is not there. Files grow in `STORE/.tmp/<random>/`; what a killed process leaves there is undone or removed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from perflog.errors import StoreError, UsageError
from perflog.tables.parquet import MEND, checked, explained, layout, load
from perflog.tables.schema import SCHEMA_VERSION, TABLES, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int, wait: bool = True, shared: bool = False) -> bool:  # noqa: ARG001 (Windows has no shared ones)
        while True:  # LK_LOCK gives up after ten seconds
            try:
                msvcrt.locking(fd, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
                return True
            except OSError:
                if not wait:
                    return False
else:
    import fcntl

    def _lock(fd: int, wait: bool = True, shared: bool = False) -> bool:
        """Lock an open file until it is closed or the process ends. False: another holds it."""
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True


_LOG_ID = re.compile(r"[0-9A-Za-z_-]+")
_ORDER = (*(name for name in TABLES if name != "runs"), "runs")  # the order in which files move into place


@contextmanager
def _locked(path: Path, shared: bool = False) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(fd, shared=shared)
        yield
    finally:
        os.close(fd)


def default_store() -> str:
    """Where runs are stored if nothing else is said."""
    return os.environ.get("PERFLOG_STORE") or ".perflog"


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a folder holds runs that were ingested."""
    return any(Path(path).glob("runs/*.parquet"))


class Store:
    """A folder of Parquet files. Naming one creates nothing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def write(self, log_id: str | Callable[[], str]) -> LogWriter:
        """Open the store for one log: `with store.write(log_id) as out: out.add(...)`.

        The id may be a function: it is called when all has been added.
        """
        return LogWriter(self, log_id)

    def logs(self) -> list[str]:
        """Ids of the logs in the store."""
        with explained(self.path), self._steady():
            return self._in("runs")

    def table(self, name: str, logs: Sequence[str] | None = None, runs: Sequence[str] | None = None) -> pa.Table:
        """Rows of a table, of all logs and runs or only of these. What it shows of a log is of one ingest."""
        import pyarrow as pa

        checked(name)
        wanted = self.logs() if logs is None else [log for log in dict.fromkeys(logs) if _LOG_ID.fullmatch(log)]
        with explained(self.path):
            parts = [part for log in wanted if (part := self._read(name, log, runs)) is not None]
        if not parts:
            return pa.Table.from_batches([], arrow_schema(name))  # empty_table() imports pandas
        return pa.concat_tables(parts).unify_dictionaries()

    def delete(self, log_id: str) -> None:
        """Remove a log and its runs."""
        if log_id not in self.logs():
            raise UsageError(f"there is no log {log_id!r} in the store", str(self.path))
        with explained(self.path), _locked(self.path / ".lock"):
            self._recover()
            for table in reversed(_ORDER):
                self._file(table, log_id).unlink(missing_ok=True)

    def _file(self, table: str, log_id: str) -> Path:
        return self.path / table / f"{log_id}.parquet"

    def _in(self, table: str) -> list[str]:
        try:
            names = os.listdir(self.path / table)
        except FileNotFoundError:
            return []
        ids = (name.removesuffix(".parquet") for name in names if name.endswith(".parquet"))
        return sorted(log_id for log_id in ids if _LOG_ID.fullmatch(log_id))

    @contextmanager
    def _steady(self) -> Iterator[None]:
        """No commit is under way inside this block, and none was left half done by a killed process."""
        if any((self.path / ".tmp").glob("*/commit")):
            with suppress(OSError), _locked(self.path / ".lock"):  # a reader may lack the permission to mend
                self._recover()
        with ExitStack() as stack:
            with suppress(FileNotFoundError, PermissionError):  # nobody has written here, or we may not even lock
                stack.enter_context(_locked(self.path / ".lock", shared=True))
            yield

    def _read(self, name: str, log_id: str, runs: Sequence[str] | None) -> pa.Table | None:
        """Read one log's table. If the log was replaced meanwhile, read again with the writers held off."""
        import pyarrow as pa

        path = self._file(name, log_id)
        for hold in (nullcontext, self._steady):
            with hold():
                stamp = self._stamp(log_id)
                try:
                    table = load(path, name, runs) if stamp else None
                except FileNotFoundError:
                    table = None
                except (pa.ArrowException, OSError, ValueError) as error:
                    if isinstance(error, OSError) and error.errno:
                        raise
                    raise StoreError(f"damaged: {error}", str(path), MEND) from error
                if stamp and stamp == self._stamp(log_id):
                    return table
        return None

    def _stamp(self, log_id: str) -> tuple[int, ...] | None:
        """What changes whenever the log is committed: its runs file leaves first and comes back last."""
        try:
            stat = self._file("runs", log_id).stat()
        except FileNotFoundError:
            return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns

    def _recover(self) -> None:
        """Clear what dead writers left. The caller holds the lock."""
        for folder in list((self.path / ".tmp").glob("*/")):
            try:
                fd = os.open(folder / "alive", os.O_RDWR | os.O_CREAT)
            except FileNotFoundError:  # its owner just removed it
                continue
            try:
                if _lock(fd, wait=False):
                    self._undo(folder)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)

    def _undo(self, folder: Path) -> None:
        """Take back the commit begun from this folder, unless it was finished. Killed midway, it can be done again."""
        mark = folder / "commit"
        if mark.exists() and (folder / "runs.parquet").exists():
            begun = json.loads(mark.read_text())
            for table in _ORDER:
                if (old := folder / f"{table}.old").exists():
                    os.replace(old, self._file(table, begun["log"]))
                elif table not in begun["had"]:
                    self._file(table, begun["log"]).unlink(missing_ok=True)
            mark.unlink()

    def _sweep(self) -> None:
        """Remove files of logs that have no runs file: a kill inside delete() leaves them."""
        committed = set(self._in("runs"))
        for table in _ORDER[:-1]:
            for log_id in set(self._in(table)) - committed:
                with suppress(OSError):
                    self._file(table, log_id).unlink()


def _valid(log_id: str) -> str:
    if not _LOG_ID.fullmatch(log_id):
        raise ValueError(f"not a log id: {log_id!r}")
    return log_id


class LogWriter:
    """One log on its way into the store. Leaving the with-block commits; an exception leaves the store as it was."""

    def __init__(self, store: Store, log_id: str | Callable[[], str]) -> None:
        self._store = store
        self._id = log_id
        if isinstance(log_id, str):
            _valid(log_id)
        self._folder = store.path / ".tmp" / secrets.token_hex(8)
        self._alive = -1
        self._open: dict[str, tuple[Any, Any]] = {}  # table -> writer, file
        self._locks = {table: threading.Lock() for table in TABLES}

    def __enter__(self) -> Self:
        with explained(self._store.path):
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self._store.path / ".lock"):  # or another writer could take the new folder for a dead one
                self._store._recover()
                self._folder.mkdir()
                self._alive = os.open(self._folder / "alive", os.O_RDWR | os.O_CREAT)
                _lock(self._alive)
        return self

    def add(self, table: str, data: pa.Table | Sequence[pa.RecordBatch]) -> None:
        """Append one row group. Different tables may be written by different threads at once."""
        import pyarrow as pa

        schema = arrow_schema(checked(table))
        rows = data if isinstance(data, pa.Table) else pa.Table.from_batches(data, schema)
        if rows.num_rows == 0:
            return
        with explained(self._store.path), self._locks[table]:
            if table not in self._open:
                self._open[table] = self._start(table, schema)
            self._open[table][0].write_table(rows, row_group_size=rows.num_rows)

    def reset(self) -> None:
        """Forget what was added: the log is read once more. No other thread may be adding."""
        for writer, sink in self._open.values():
            writer.is_open = False  # or its end would write a footer to the closed file
            with suppress(OSError):
                sink.close()
        self._open = {}

    def _start(self, table: str, schema: pa.Schema) -> tuple[Any, Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        # A file of our own: to discard is then to close it, while a writer that owns its file would write a footer.
        sink = pa.OSFile(str(self._folder / f"{table}.parquet"), "wb")
        return pq.ParquetWriter(sink, schema, **layout(table)), sink

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if kind is None:
                with explained(self._store.path):
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
        with _locked(self._store.path / ".lock"):
            self._store._recover()
            try:
                self._move()
            except BaseException:
                self._store._undo(self._folder)
                raise
            self._store._sweep()

    def _move(self) -> None:
        """Old files out, runs first; new files in, runs last. The old ones wait in our folder: the way back."""
        store, log = self._store, _valid(self._id if isinstance(self._id, str) else self._id())
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
        if self._alive >= 0:
            os.close(self._alive)
        if not (self._folder / "commit").exists() or not (self._folder / "runs.parquet").exists():
            shutil.rmtree(self._folder, ignore_errors=True)  # else the undo failed: the next writer tries again
