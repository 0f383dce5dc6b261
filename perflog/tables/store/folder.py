"""The folder of a store: which batches of logs lie in it, and in which files.

A batch is one or more logs with shared files, one for each table: `STORE/<table>/<batch>.parquet`. A batch of one
log is named as the log, so that the next ingest of the log finds it by its name. A batch of several has their ids in
the footer of its runs file. A log is in one batch only.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol, Self

from msgspec import Struct

from perflog.errors import InputError, StoreError, UsageError
from perflog.files.file_names import usable
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.parquet import NO_FOOTER, DamagedError, damage_of, footer_texts, leads_nowhere, missing
from perflog.tables.schema import TABLES
from perflog.tables.store.runs_footer import LogNotes, RunsFooter

MOVED_IN = (*(name for name in TABLES if name != "runs"), "runs")
"""The tables in the order in which their files are moved in. A batch without a runs file is not there."""

BATCH_NAME = lazy_pattern(r"[0-9A-Za-z_-]+")
"""Matches the name of a batch, which is part of file names."""

_SEVERAL = "batch-"  # begins the name of a batch of several logs

_FULL = ("the disk is full", "free some space or store elsewhere; the store is as it was")
_DENIED = ("permission denied", "change the permissions or use another folder for the store")
_NO_FOLDER = ("a file is in the way", "a store is a folder: use another path")
_IN_THE_WAY = ("a file or folder of another kind is in the way", "move it out of the store")
_NO_LOCKS = ("this file system has no file locks", "use a folder on another file system for the store")
_CAUSES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _DENIED),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST, errno.EISDIR), _NO_FOLDER),
    **dict.fromkeys((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP), _NO_LOCKS),
}

_FOOTERS_KEPT = 1 << 16

Stamp = tuple[int, ...]
"""What changes with each commit of a batch: its runs file is moved out first and moved in last."""


@contextmanager
def store_errors(where: str) -> Iterator[None]:
    """Turn an error of the operating system, or of an object storage, into a StoreError."""
    try:
        yield
    except OSError as error:
        reason, help = _CAUSES.get(error.errno or 0, (error.strerror or str(error), ""))
        if (reason, help) == _NO_FOLDER and os.path.isdir(where):  # it is inside the store
            reason, help = _IN_THE_WAY
            where = os.fsdecode(error.filename2 or error.filename or where)
        raise StoreError(reason, where, help) from error
    except InputError as error:
        raise StoreError(error.reason, where, error.help) from error


def checked_table(name: str) -> str:
    """Return the name of a table if it exists, else raise UsageError."""
    if name not in TABLES:
        raise UsageError(f"there is no table {name!r}", help=f"the tables: {', '.join(TABLES)}")
    return name


def batch_name(logs: Iterable[str]) -> str:
    """Return the name of a batch: the same for the same logs, in whatever order.

    Raises:
        ValueError: The id of a log could not be the name of a file.
    """
    ids = sorted(set(logs))
    for log in ids:
        if not BATCH_NAME.fullmatch(log):
            raise ValueError(f"not a log id: {log!r}")
    return ids[0] if len(ids) == 1 else _SEVERAL + sha256("\n".join(ids).encode()).hexdigest()[:16]


# A process that stores many batches looks at the footers of all others each time. A file with a stamp never changes.
@lru_cache(_FOOTERS_KEPT)
def _footer_of(path: str, _: Stamp) -> RunsFooter:
    with damage_of(Path(path)):
        return RunsFooter.parse(footer_texts(Path(path)))


class Work(Protocol):
    """The work of one writer on a store."""

    path: Path
    """A folder on this machine for new files."""

    def open(self) -> Self:
        """Make the folder, and the store if there is none."""

    def change(self, make: Callable[[Path], Change]) -> None:
        """Change the store. `make` returns the change of the store as it is; it may be called again if it has changed.

        `make` gets a folder for its files.
        """

    def close(self) -> None:
        """Remove the folder."""


class Change(Struct, frozen=True):
    """What a commit changes.

    Attributes:
        out: The batches that leave the store.
        into: The batches that come in: the files of each, by table.
        damaged: The batches of `out` with a damaged file. Their files are kept aside.
    """

    out: Sequence[str]
    into: Mapping[str, Mapping[str, Path]]
    damaged: Sequence[str] = ()


class StoreFolder:
    """The files of a store. Whoever asks for several of them holds off commits meanwhile, or looks at the stamps.

    `name` is the store as messages show it, `path` the folder of its files, or of copies of them.
    """

    def __init__(self, path: str | os.PathLike[str], name: str = "") -> None:
        self.path = Path(usable(os.fspath(path)))
        self.name = name or str(self.path)

    def exists(self) -> bool:
        """Return whether there is a store."""
        return self.path.is_dir()

    def work(self) -> Work:
        """Return the work of a writer that begins now."""
        raise NotImplementedError

    def steady(self) -> AbstractContextManager[None]:
        """Return a block in which the store can be read as it is now."""
        raise NotImplementedError

    def fetch(self, table: str, batches: Sequence[str]) -> bool:
        """Bring the files of some batches to this machine. Return False if some are in the store no more."""
        raise NotImplementedError

    def sweep(self) -> None:
        """Remove what killed writers have left and the next writer does not find by itself."""

    def size_of(self, batch: str) -> int:
        """Return the bytes of a batch."""
        return sum(self.file(table, batch).lstat().st_size for table in self.tables_of(batch))

    def file(self, table: str, batch: str) -> Path:
        """Return the path of the file with the rows of a batch in a table."""
        return Path(f"{self.path}/{table}/{batch}.parquet")

    def batches(self, table: str = "runs") -> list[str]:
        """Return the batches that have a file of a table, by name. Those with a runs file are in the store."""
        try:
            names = os.listdir(self.path / table)
        except FileNotFoundError:
            return []
        batches = (name.removesuffix(".parquet") for name in names if name.endswith(".parquet"))
        return sorted(batch for batch in batches if BATCH_NAME.fullmatch(batch))

    def logs_of(self, batch: str) -> Sequence[str]:
        """Return the ids of the logs of a batch.

        Raises:
            DamagedError: The runs file is damaged.
        """
        try:
            return self._footer(batch).logs
        except DamagedError:
            if batch.startswith(_SEVERAL):
                raise
            return (batch,)  # it is named as its log

    def readable_logs(self) -> set[str]:
        """Return the ids of the logs of all batches with a readable runs file."""
        logs = set[str]()
        for batch in self.batches():
            with suppress(DamagedError):
                logs.update(self.logs_of(batch))
        return logs

    def notes_of(self, batch: str) -> LogNotes:
        """Return what is noted of the logs of a batch.

        Raises:
            DamagedError: The runs file is damaged.
        """
        return self._footer(batch).notes

    def files_of(self, batch: str) -> Mapping[str, int | None]:
        """Return the files of a batch by table: the CRC of the footer of each, as far as it is known.

        Raises:
            DamagedError: The runs file is damaged.
        """
        return {**self._footer(batch).files, "runs": None}

    def file_of(self, table: str, batch: str) -> tuple[Path, int | None] | None:
        """Return the file with the rows of a batch in a table, and the CRC of its footer; None if it has no rows there.

        Raises:
            DamagedError: The file is missing, or the runs file is damaged.
        """
        path, files = self.file(table, batch), self.files_of(batch)
        if os.path.lexists(path):
            return path, files.get(table, NO_FOOTER)
        if table in files:
            raise missing(path)
        return None

    def notes(self) -> LogNotes:
        """Return what is noted of the logs of all batches."""
        each = list[LogNotes]()
        for batch in self.batches():
            with suppress(DamagedError):  # whoever reads its rows gets the error
                each.append(self.notes_of(batch))
        return LogNotes(
            {log: origin for notes in each for log, origin in notes.origins.items()},
            {log: date for notes in each for log, date in notes.ingested.items()},
            {log: known for notes in each for log, known in notes.provenance.items()},
        )

    def _footer(self, batch: str) -> RunsFooter:
        path, stamp = str(self.file("runs", batch)), self.stamp(batch)
        if stamp is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return _footer_of(path, stamp)

    def tables_of(self, batch: str) -> list[str]:
        """Return the tables in which a batch has rows, in the order in which their files are moved in."""
        return [table for table in MOVED_IN if os.path.lexists(self.file(table, batch))]

    def stamp(self, batch: str) -> Stamp | None:
        """Return the stamp of a batch; None if it is not in the store."""
        path = f"{self.path}/runs/{batch}.parquet"
        try:
            stat = os.stat(path)
        except OSError as error:
            if leads_nowhere(path):
                stat = os.lstat(path)
            elif isinstance(error, FileNotFoundError):
                return None
            else:
                raise
        return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
