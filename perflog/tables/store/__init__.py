"""The store: a folder of Parquet files, in which logs appear, are replaced and disappear as a whole.

In: the tables of logs (`Store.write`). Out: the tables of all logs, or of some runs (`Store.table`).

- folder: which batches of logs there are, and in which files
- commits: files appear and disappear together, in a folder
- object_store: the same on object storage
- runs_footer: what the runs file of a batch says of the batch
- batch_files: the files of a batch while they are written
- rewriting: batches without logs that leave, and small batches as a large one
- writer: writes a batch
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from warnings import warn

from perflog.errors import StoreError, UsageError
from perflog.files.remote import is_in_storage
from perflog.tables.parquet import DamagedError, read_table, stored_row_counts
from perflog.tables.schema import TABLES, arrow_schema
from perflog.tables.store.batch_files import rows_of_logs
from perflog.tables.store.commits import LocalStore
from perflog.tables.store.folder import Change, Stamp, StoreFolder, batch_name, checked_table, store_errors
from perflog.tables.store.rewriting import merged, without_logs
from perflog.tables.store.runs_footer import Origin
from perflog.tables.store.writer import BatchWriter, LogIds

if TYPE_CHECKING:
    import pyarrow as pa

    from perflog.tables.arrow import Where

_T = TypeVar("_T")
_MANY_FILES = 64  # of a table
_READERS = 2  # threads that read many files; more wait for the interpreter
_FILES_AT_A_TIME = 16  # that a thread reads


def default_store() -> str:
    """Return the folder of the default store: PERFLOG_STORE, else .perflog."""
    return os.environ.get("PERFLOG_STORE") or ".perflog"


def is_store(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a store with at least one log."""
    return any(Path(path).glob("runs/*.parquet")) if not is_in_storage(os.fspath(path)) else store_exists(path)


def store_exists(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a store, or on this machine a folder for one.

    Raises:
        StoreError: An object storage cannot be asked.
    """
    folder = folder_of(path)
    with store_errors(folder.name):
        return folder.exists()


def is_empty(path: str | os.PathLike[str]) -> bool:
    """Return whether a store holds no batch, not even a damaged one.

    Raises:
        StoreError: An object storage cannot be asked.
    """
    folder = folder_of(path)
    with store_errors(folder.name), folder.steady():
        return not folder.batches()


def folder_of(path: str | os.PathLike[str]) -> StoreFolder:
    """Return the files of a store: on this machine, or on object storage."""
    if not is_in_storage(os.fspath(path)):
        return LocalStore(path)
    from perflog.tables.store.object_store import ObjectStore

    return ObjectStore(os.fspath(path))


class DamageWarning(UserWarning):
    """A file of a store is damaged, and what it holds is left out."""


class Store:
    """A store. The folder is created when the first log is written.

    Args:
        path: The folder, or its address on object storage.
        leaves_out_damage: Whether a damaged file is a warning, and the logs in it have no rows from then on. Else it is
            an error.
    """

    def __init__(self, path: str | os.PathLike[str], leaves_out_damage: bool = False) -> None:
        self._folder = folder_of(path)
        self.name = self._folder.name
        self._leaves_out_damage = leaves_out_damage
        self._damaged: set[str] = set()  # batches

    @property
    def path(self) -> Path:
        """The folder of its files, or of copies of them."""
        return self._folder.path

    def write(self, logs: LogIds) -> BatchWriter:
        """Return a writer for some logs: `with store.write([log_id]) as writer: writer.add(...)`."""
        return BatchWriter(self._folder, logs)

    def logs(self) -> list[str]:
        """Return the ids of the logs in the store."""
        with store_errors(self.name), self._folder.steady():
            return sorted({log for batch in self._folder.batches() for log in self._folder.logs_of(batch)})

    def origins(self) -> dict[str, Origin]:
        """Return where the logs in the store came from, by their ids, as far as it is known."""
        with store_errors(self.name), self._folder.steady():
            return dict(self._folder.notes().origins)

    def ingested(self) -> dict[str, str]:
        """Return when the logs in the store were first read into it, by their ids, as far as it is known.

        Dates are in UTC, as ISO 8601 writes them to the millisecond: 2026-03-01T09:30:00.250Z.
        """
        with store_errors(self.name), self._folder.steady():
            return dict(self._folder.notes().ingested)

    def provenance(self) -> dict[str, Mapping[str, str]]:
        """Return which commit, branch and job made the logs in the store, by their ids, as far as it is known."""
        with store_errors(self.name), self._folder.steady():
            return dict(self._folder.notes().provenance)

    def table(
        self,
        name: str,
        logs: Sequence[str] | None = None,
        runs: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> pa.Table:
        """Return the rows of a table, as they are in the store at one moment.

        Args:
            name: The name of the table.
            logs: Ids of the logs to read; by default all.
            runs: Ids of the runs to read; by default all.
            columns: Names of the columns to read, with `run` among them; by default all.
            where: Tests of words by column; rows that do not pass are left out.

        Raises:
            UsageError: There is no such table.
            StoreError: A file is damaged, cannot be read, or has another schema.
        """
        import pyarrow as pa

        read = partial(read_table, name=name, runs=runs, columns=columns, where=where)
        parts = self._of_batches(name, read, logs, runs)
        if not parts:
            empty = pa.Table.from_batches([], arrow_schema(name))  # empty_table() imports pandas
            return empty if columns is None else empty.select(columns)
        rows = pa.concat_tables(parts).unify_dictionaries()
        return rows if logs is None else rows_of_logs(rows, logs)

    def row_counts(self, name: str, runs: Sequence[str] | None = None) -> dict[str, dict[int, int]]:
        """Return the number of rows of a table by run and part, as they are in the store at one moment.

        Args:
            name: The name of the table.
            runs: Ids of runs; only their logs are counted, with the logs that are stored beside them. By default all.

        Raises:
            UsageError: There is no such table.
            StoreError: A file is damaged, cannot be read, or has another schema.
        """
        parts = self._of_batches(name, partial(stored_row_counts, name=name), runs=runs)
        return {run: counts for part in parts for run, counts in part.items()}  # a run is in one batch

    def _of_batches(
        self,
        name: str,
        read: Callable[..., _T],
        logs: Sequence[str] | None = None,
        runs: Sequence[str] | None = None,
    ) -> list[_T]:
        """Return what `read` makes of the files of a table, of the batches with some logs or runs (None: all)."""
        checked_table(name)
        with store_errors(self.name):
            with self._folder.steady():
                stamps = self._stamps(logs, runs)
            parts = self._read(name, stamps, read)
            while parts is None:  # another process has replaced a batch meanwhile
                with self._folder.steady():
                    parts = self._read(name, self._stamps(logs, runs), read)
        return parts

    def delete(self, logs: Sequence[str]) -> None:
        """Remove logs and their runs.

        Raises:
            UsageError: The store does not have one of the logs.
        """
        missing = sorted(set(logs) - set(self.logs()))
        if missing:
            raise UsageError(f"there is no log {missing[0]!r} in the store", self.name)
        self._commit(partial(without_logs, self._folder, logs))

    def compact(self) -> tuple[int, int]:
        """Make few large files of many small ones. The rows stay the same.

        Returns:
            The number of files before and after.
        """
        before = self._files()
        if before:
            self._commit(partial(merged, self._folder))
            with store_errors(self.name):
                self._folder.sweep()
        return before, self._files()

    def _files(self) -> int:
        return sum(len(self._folder.batches(table)) for table in TABLES)

    def _commit(self, change: Callable[[Path], Change]) -> None:
        """Make a change. `change` gets the folder for its files."""
        with store_errors(self.name):
            work = self._folder.work().open()
            try:
                work.change(change)
            finally:
                work.close()

    def _stamps(self, logs: Sequence[str] | None, runs: Sequence[str] | None) -> dict[str, Stamp | None]:
        """Return the batches of some logs or runs, with their stamps. The caller holds off commits."""
        batches = self._batches()
        if logs is not None:
            batches = [batch for batch in batches if not set(logs).isdisjoint(self._logs_of(batch))]
        if runs is not None:
            from perflog.tables.sink import RUN_ID  # imports Arrow

            starts = {run[:RUN_ID] for run in runs}
            batches = [batch for batch in batches if any(log[:RUN_ID] in starts for log in self._logs_of(batch))]
        return {batch: self._folder.stamp(batch) for batch in batches}

    def _read(self, name: str, stamps: Mapping[str, Stamp | None], read: Callable[..., _T]) -> list[_T] | None:
        """Return what is read of some batches; None if another process has replaced one of them meanwhile."""
        batches = list(stamps)
        if not self._folder.fetch(name, batches):
            return None

        def call(batch: str) -> _T | None:
            return self._call(name, batch, stamps[batch], read)

        if len(batches) < _MANY_FILES:
            parts = list(map(call, batches))
        else:  # Arrow reads files without holding the interpreter
            from concurrent.futures import ThreadPoolExecutor

            shares = [batches[i : i + _FILES_AT_A_TIME] for i in range(0, len(batches), _FILES_AT_A_TIME)]
            with ThreadPoolExecutor(_READERS) as pool:
                parts = [part for share in pool.map(lambda share: list(map(call, share)), shares) for part in share]
        unchanged = all(stamp == self._folder.stamp(batch) for batch, stamp in stamps.items())
        return [part for part in parts if part is not None] if unchanged else None

    def _call(self, name: str, batch: str, stamp: Stamp | None, read: Callable[..., _T]) -> _T | None:
        try:
            file = self._folder.file_of(name, batch)
            return None if file is None else read(file[0], crc=file[1])
        except FileNotFoundError:  # the batch is being replaced
            return None
        except StoreError as error:
            if self._folder.stamp(batch) != stamp:  # it was replaced meanwhile, and is read again
                return None
            error.where = error.where.replace(str(self.path), self.name)  # of a copy of an object
            self._leave_out(batch, error)
            return None

    def _batches(self) -> list[str]:
        """Return the batches that are read. A batch with a log of another one is left out."""
        batches = dict[str, Sequence[str]]()
        for batch in self._folder.batches():
            if batch not in self._damaged and (logs := self._logs_of(batch)):
                batches[batch] = logs
        holders = dict[str, str]()
        for batch in sorted(batches, key=lambda batch: batch != batch_name(batches[batch])):  # a copy has another name
            twice = next((log for log in batches[batch] if log in holders), None)
            if twice is None:
                holders |= dict.fromkeys(batches[batch], batch)
                continue
            where, other = (str(self._folder.file("runs", each)) for each in (batch, holders[twice]))
            help = "ingest this log again: that leaves one"
            self._leave_out(batch, DamagedError(f"a copy: log {twice} is in {other} too", where, help))
            del batches[batch]
        return list(batches)

    def _logs_of(self, batch: str) -> Sequence[str]:
        try:
            return self._folder.logs_of(batch)
        except FileNotFoundError:  # it is being replaced, and writers could not be held off
            return ()
        except DamagedError as error:
            self._leave_out(batch, error)
            return ()

    def _leave_out(self, batch: str, error: StoreError) -> None:
        """Leave a damaged batch out from now on, and warn; else raise the error."""
        if not (self._leaves_out_damage and isinstance(error, DamagedError)):
            raise error
        if batch not in self._damaged:
            self._damaged.add(batch)
            text = f"{error.where}: {error.reason.rstrip('.')}; what is stored with it is left out: {error.help}"
            warn(text, DamageWarning, stacklevel=2)
