"""Commits: files of a store appear, are replaced and disappear together, also if a process is killed meanwhile.

A writer puts its files into a work folder, `STORE/.tmp/<random>/`, in which it holds a lock as long as it lives. To
commit is to note in the folder which files go out and which come in, to move them, and to remove the note. Writers
commit one after the other: each holds the lock of the store meanwhile, and readers share that lock. The folder
of a killed writer is found by its free lock: a noted commit is undone from the old files in it, and the folder removed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from perflog.errors import StoreError
from perflog.files.file_lock import lock, locked
from perflog.tables.store.folder import BATCH_NAME, MOVED_IN, Change, StoreFolder

_NOTE, _ALIVE = "commit", "alive"  # files in a work folder


class LocalStore(StoreFolder):
    """The files of a store on this machine, or on a file system with locks."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self.lock = self.path / ".lock"
        self.drafts = self.path / ".tmp"
        self.aside = self.path / ".damaged"

    def work(self) -> WorkFolder:
        return WorkFolder(self)

    def steady(self) -> AbstractContextManager[None]:
        return without_commits(self)

    def fetch(self, table: str, batches: Sequence[str]) -> bool:  # noqa: ARG002  # they are here
        return True

    def file_of(self, table: str, batch: str) -> tuple[Path, int | None] | None:
        if table == "runs":  # a run is not shown first, and found without rows then
            for other in self.files_of(batch):
                super().file_of(other, batch)
        return super().file_of(table, batch)


class WorkFolder:
    """The folder of one writer, which locks it as long as it lives."""

    def __init__(self, store: LocalStore) -> None:
        self.path = store.drafts / os.urandom(8).hex()
        self._store = store
        self._alive_fd = -1

    def open(self) -> Self:
        """Make the folder, and the store if there is none."""
        self._store.drafts.mkdir(parents=True, exist_ok=True)
        with locked(self._store.lock):  # or another writer takes the new folder for one of a killed writer
            recover(self._store)
            self.path.mkdir()
            self._alive_fd = os.open(self.path / _ALIVE, os.O_RDWR | os.O_CREAT)
            lock(self._alive_fd)
        return self

    def change(self, make: Callable[[Path], Change]) -> None:
        """Change the store as `make` says, under its lock. If a move fails, the store is as it was."""
        with locked(self._store.lock):
            recover(self._store)
            change = make(self.path)
            try:
                _move(self._store, self.path, change)
            except BaseException:
                _undo(self._store, self.path)
                raise
            _clear(self._store, self.path, change)

    def close(self) -> None:
        """Remove the folder. If an undo failed, it stays: the next writer tries again."""
        if self._alive_fd >= 0:
            os.close(self._alive_fd)
        if not (self.path / _NOTE).exists():
            shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def without_commits(store: LocalStore) -> Iterator[None]:
    """Undo the unfinished work of a killed process, and hold off writers inside this block."""
    if any(store.drafts.glob(f"*/{_NOTE}")):
        with suppress(OSError), locked(store.lock):  # a reader may lack the permission to undo
            recover(store)
    with ExitStack() as stack:
        with suppress(FileNotFoundError, PermissionError):  # no store here, or no permission to lock
            stack.enter_context(locked(store.lock, shared=True))
        yield


def recover(store: LocalStore) -> None:
    """Undo and remove what killed writers have left. The caller holds the lock of the store."""
    for folder in list(store.drafts.glob("*/")):
        try:
            fd = os.open(folder / _ALIVE, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # its owner just removed it
            continue
        try:
            if lock(fd, wait=False):
                _undo(store, folder)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(fd)


def _old(work: Path, table: str, batch: str) -> Path:
    return work / f"{batch}.{table}.old"


def _move(store: LocalStore, work: Path, change: Change) -> None:
    """Move old files out, runs first, and new files in, runs last. Old files stay in the work folder, to undo it."""
    batches = dict.fromkeys([*change.out, *change.into])
    out = [(table, batch) for batch in batches for table in store.tables_of(batch)]
    out.sort(key=lambda file: MOVED_IN.index(file[0]), reverse=True)
    into = [(table, batch) for table in MOVED_IN for batch, files in change.into.items() if table in files]
    for table, _ in into:
        (store.path / table).mkdir(exist_ok=True)
    draft = work / f"{_NOTE}.new"
    draft.write_text(json.dumps({"out": out, "into": into}))
    os.replace(draft, work / _NOTE)
    for table, batch in out:
        os.replace(store.file(table, batch), _old(work, table, batch))
    for table, batch in into:
        os.replace(change.into[batch][table], store.file(table, batch))
    (work / _NOTE).unlink()


def _clear(store: LocalStore, work: Path, change: Change) -> None:
    """Remove the old files after a commit. Damaged ones and folders are kept for whoever wants what they hold."""
    for old in work.glob("*.old"):
        is_folder = old.is_dir() and not old.is_symlink()
        if is_folder or old.name.split(".")[0] in change.damaged:
            store.aside.mkdir(exist_ok=True)
            kept = store.aside / f"{old.stem}.parquet"
            if is_folder or kept.is_dir():  # no other folder is replaced
                kept = kept.with_suffix(f".{os.urandom(4).hex()}.parquet")
            os.replace(old, kept)
        else:
            old.unlink()


def _noted(note: Path) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return table and batch of the files that a noted commit moves out and in.

    Raises:
        StoreError: The note is damaged, or names files that are not of a store.
    """
    try:
        begun = json.loads(note.read_bytes())
        out, into = ({(table, batch) for table, batch in begun[side]} for side in ("out", "into"))
        named = all(table in MOVED_IN and BATCH_NAME.fullmatch(batch) for table, batch in out | into)
    except (ValueError, TypeError, KeyError):
        named = False
    if not named:
        help = "remove its folder; logs that are missing then can be ingested again"
        raise StoreError("the note of an unfinished change is damaged", str(note), help)
    return out, into


def _undo(store: LocalStore, work: Path) -> None:
    """Undo the commit that is noted in a work folder, if there is one. If killed, it can be repeated."""
    note = work / _NOTE
    if not note.exists():
        return
    out, new = _noted(note)
    new -= out
    for table, batch in sorted(out | new, key=lambda file: MOVED_IN.index(file[0])):
        if (table, batch) in new:
            store.file(table, batch).unlink(missing_ok=True)
        elif (old := _old(work, table, batch)).exists():
            os.replace(old, store.file(table, batch))
    note.unlink()
