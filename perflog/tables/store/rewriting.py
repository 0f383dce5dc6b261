"""Batches that are written again: without logs that leave the store, or many small ones as one.

In: the files of batches. Out: the change of the store, with new files in a work folder.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from pathlib import Path

from perflog.errors import StoreError
from perflog.tables.parquet import DamagedError, read_table
from perflog.tables.schema import TABLES
from perflog.tables.store.batch_files import ROW_GROUP, BatchFiles, rows_of_logs
from perflog.tables.store.folder import Change, StoreFolder, batch_name

_SMALL, _LARGE = 1 << 20, 1 << 24  # bytes of a batch that is merged, of one that is large enough
_MOST_LOGS = 256  # of a merged batch


def without_logs(store: StoreFolder, logs: Sequence[str], folder: Path) -> Change:
    """Return the change that takes logs out of a store: their batches go, and come back without them.

    A damaged batch cannot come back. It goes too, and its files are kept aside.

    Args:
        store: The store; the caller holds its lock.
        logs: The ids of the logs.
        folder: Where the files of the batches that come back are written.
    """
    out, damaged = list[str](), list[str]()
    into: dict[str, dict[str, Path]] = {}
    for batch in store.batches():
        try:
            present = store.logs_of(batch)
            if set(present).isdisjoint(logs):
                continue
            others = [log for log in present if log not in logs]
            if others:
                into[batch_name(others)] = _rewritten(store, [batch], others, folder / f"without-{len(out)}")
        except DamagedError:
            damaged.append(batch)
        out.append(batch)
    return Change(out, into, damaged)


def merged(store: StoreFolder, folder: Path) -> Change:
    """Return the change that makes large batches of small ones. Those that cannot be read stay as they are.

    Args:
        store: The store; the caller holds its lock.
        folder: Where the files of the large batches are written.
    """
    out = list[str]()
    into: dict[str, dict[str, Path]] = {}
    for number, batches in enumerate(_groups(store)):
        logs = [log for batch in batches for log in store.logs_of(batch)]
        try:
            into[batch_name(logs)] = _rewritten(store, batches, logs, folder / f"merged-{number}")
        except StoreError:
            continue
        out += batches
    return Change(out, into)


def _groups(store: StoreFolder) -> Iterator[list[str]]:
    """Yield small batches that are merged: two or more, of a few hundred logs and some megabytes together."""
    group, size, logs, seen = list[str](), 0, 0, set[str]()
    for batch in store.batches():
        bytes_of_batch = store.size_of(batch)
        if bytes_of_batch > _SMALL:
            continue
        try:
            logs_of_batch = set(store.logs_of(batch))
        except DamagedError:
            continue
        if not seen.isdisjoint(logs_of_batch):  # a copy
            continue
        seen |= logs_of_batch
        if size + bytes_of_batch > _LARGE or logs + len(logs_of_batch) > _MOST_LOGS:
            if len(group) > 1:
                yield group
            group, size, logs = [], 0, 0
        group.append(batch)
        size, logs = size + bytes_of_batch, logs + len(logs_of_batch)
    if len(group) > 1:
        yield group


def _rewritten(store: StoreFolder, batches: Sequence[str], logs: Sequence[str], folder: Path) -> dict[str, Path]:
    """Write the rows of logs that are in some batches into files of a new batch, and return these by table.

    Raises:
        DamagedError: A file of these batches is damaged.
    """
    import pyarrow as pa

    folder.mkdir()
    files = BatchFiles(folder)
    try:
        for table in TABLES:
            if not store.fetch(table, batches):
                raise FileNotFoundError(errno.ENOENT, "replaced by another writer", store.name)
            found = [file for batch in batches if (file := store.file_of(table, batch)) is not None]
            if found:
                rows = pa.concat_tables([rows_of_logs(read_table(path, table, crc), logs) for path, crc in found])
                files.add(table, rows.unify_dictionaries(), ROW_GROUP)
        notes = [store.notes_of(batch) for batch in batches]
        return files.finish(logs, reduce(or_, notes).of(logs))
    finally:
        files.discard()
