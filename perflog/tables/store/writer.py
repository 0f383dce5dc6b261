"""Writes a batch of logs into a store. They appear together, and replace what the store had of them.

In: rows of tables. Out: one Parquet file for each table. If a log was in a batch with others, that batch is written
again without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from perflog.errors import StoreError
from perflog.tables.schema import arrow_schema
from perflog.tables.store.batch_files import ROW_GROUP, BatchFiles
from perflog.tables.store.folder import Change, StoreFolder, batch_name, checked_table, store_errors
from perflog.tables.store.rewriting import merged, without_logs
from perflog.tables.store.runs_footer import LogNotes, Origin

if TYPE_CHECKING:
    import pyarrow as pa

LogIds = Sequence[str] | Callable[[], Sequence[str]]
"""The ids of the logs that are written, or a function that returns them. It is called after all rows were added."""

_MANY_BATCHES = 64  # of one log each: so many are merged at a time


def utc_now() -> str:
    """Return the time in UTC to a millisecond: it orders runs that are ingested within one second."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class BatchWriter:
    """Writes a batch of logs into a store. Leaving the with-block commits; an exception leaves the store as it was.

    Attributes:
        origins: Where the logs came from, by their ids, as far as the caller knows.
        provenance: Which commit, branch and job made the logs that are new to the store.
        tags: What the caller says of all the logs, whether or not they are new.
        settings: Returns the settings in files beside logs, by their ids.
        earlier: Ids of logs that leave the store in the same commit: earlier states of the logs that are written.
    """

    def __init__(self, store: StoreFolder, logs: LogIds) -> None:
        self._store = store
        self._logs = logs
        self._work = store.work()
        self._files = BatchFiles(self._work.path)
        self.origins: dict[str, Origin] = {}
        self.provenance: Mapping[str, str] = {}
        self.tags: Mapping[str, str] = {}
        self.settings: Callable[[], Mapping[str, Mapping[str, str]]] = dict
        self.earlier: set[str] = set()

    def __enter__(self) -> Self:
        with store_errors(self._store.name):
            self._work.open()
        return self

    def add(self, table: str, data: pa.Table | Sequence[pa.RecordBatch]) -> None:
        """Append rows to a table as one row group. Several threads may write different tables at once."""
        import pyarrow as pa

        schema = arrow_schema(checked_table(table))
        rows = data if isinstance(data, pa.Table) else pa.Table.from_batches(data, schema)
        with store_errors(self._store.name):
            self._files.add(table, rows, rows.num_rows)

    def add_logs(self, table: str, rows: pa.Table) -> None:
        """Append the rows of several logs to a table, in row groups of some logs."""
        with store_errors(self._store.name):
            self._files.add(checked_table(table), rows, ROW_GROUP)

    def reset(self) -> None:
        """Forget all rows, because the log is read again. No other thread may be writing."""
        self._files.discard()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if kind is None:
                with store_errors(self._store.name):
                    self._commit()
        finally:
            self._files.discard()
            self._work.close()

    def _notes(self, logs: Sequence[str]) -> LogNotes:
        """Return what is noted of the logs: where they came from, as the caller says or else the store; and the dates.

        A log that the store has keeps its date and its provenance, so that ingesting it again changes nothing; tags are
        added.
        """
        known = self._store.notes().of(logs)
        fresh = set(logs) - self._store.readable_logs()
        beside = self.settings()
        provenance = {
            log: made
            for log in logs
            if (
                made := {
                    **(self.provenance if log in fresh else known.provenance.get(log, {})),
                    **beside.get(log, {}),
                    **self.tags,
                }
            )
        }
        return known | LogNotes(self.origins, dict.fromkeys(fresh, utc_now()), provenance)

    def _commit(self) -> None:
        if "runs" not in self._files:
            raise StoreError("nothing to store: the log has no runs", self._store.name)
        logs = self._logs() if callable(self._logs) else self._logs
        name = batch_name(logs)
        files = cache(lambda: self._files.finish(logs, self._notes(logs)))

        def change(folder: Path) -> Change:
            written = files()
            others = without_logs(self._store, [*logs, *self.earlier], folder)
            return Change(others.out, {**others.into, name: written}, others.damaged)

        self._work.change(change)
        if len(self._store.batches()) % _MANY_BATCHES == 0:
            self._work.change(partial(merged, self._store))
