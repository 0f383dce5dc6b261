"""A store on object storage: one object, the last commit, decides what is in it.

An object cannot be renamed, and there are no locks. So each object of rows has a name of its own and never changes,
and a commit is a new object `STORE/.commits/<number>.json.gz`, which names all batches. It is created only if there is
none of that number: of two writers one fails, looks at what the other did, and tries again with the next number. The
commit of the highest number is the state of the store. Readers copy the objects that they need to this machine.

A batch is named as its objects are, so a copy of the whole folder is a store on disk.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Self

from msgspec import Struct, convert, field, to_builtins

from perflog.errors import InputError, StoreError
from perflog.files.remote import Bucket
from perflog.tables.parquet import footer_texts, other_schema
from perflog.tables.schema import SCHEMA_VERSION
from perflog.tables.store.folder import MOVED_IN, Change, Stamp, StoreFolder
from perflog.tables.store.runs_footer import LogNotes, RunsFooter

_COMMITS = ".commits"
_ASIDE = ".damaged"
_KEPT = 100  # commits that are not removed yet; each commit names their ids
_TRIES = 200  # of a commit while others are faster
_LONGEST_WAIT_S = 2.0
_OLD_S = 86400.0  # no writer takes a day from its first object to its commit
_SEVERAL = "batch-"


class Batch(Struct, frozen=True):
    """What a commit states of a batch: its tables, bytes, logs, and the notes of these."""

    tables: Sequence[str]
    size: int
    logs: Sequence[str]
    notes: LogNotes


class Commit(Struct, frozen=True):
    """A state of the store. `ids`: of this commit and of earlier commits, the last first."""

    number: int = 0
    ids: Sequence[str] = ()
    batches: Mapping[str, Batch] = field(default_factory=dict)

    @classmethod
    def parse(cls, number: int, data: bytes, store: str) -> Commit:
        """Read what `data` has written, of a store of this name.

        Raises:
            StoreError: It has another schema.
        """
        import gzip

        content = json.loads(gzip.decompress(data))
        if (schema := content.get("schema_version")) != SCHEMA_VERSION:
            raise other_schema(schema, store)
        return cls(number, content["ids"], convert(content["batches"], dict[str, Batch]))

    def data(self) -> bytes:
        """Return the bytes of its object."""
        import gzip

        content = {"schema_version": SCHEMA_VERSION, "ids": self.ids, "batches": to_builtins(self.batches)}
        return gzip.compress(json.dumps(content).encode(), 6)  # not msgspec's JSON: names of files may be no UTF-8


class ObjectStore(StoreFolder):
    """The files of a store on object storage: the last commit that was read, and copies of its objects."""

    def __init__(self, address: str) -> None:
        self.bucket = Bucket(address)
        self._commit: Commit | None = None
        self.name = self.bucket.name

    @cached_property
    def path(self) -> Path:  # type: ignore[override]  # made when it is needed
        import tempfile

        from perflog.files import temporary

        folder = tempfile.mkdtemp(prefix="store-", dir=temporary.folder())
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def exists(self) -> bool:
        return self.look().number > 0

    def work(self) -> ObjectWork:
        return ObjectWork(self)

    def steady(self) -> AbstractContextManager[None]:
        return self._looked()

    @contextmanager
    def _looked(self) -> Iterator[None]:
        self.look()
        yield

    @property
    def commit(self) -> Commit:
        """The commit that was read last."""
        return self._commit or self.look()

    def look(self) -> Commit:
        """Look which commit is the last now."""
        while True:
            numbers = [int(os.path.basename(key).partition(".")[0]) for key in self.bucket.keys(_COMMITS)]
            if not numbers:
                self._commit = Commit()
                return self._commit
            if self._commit is not None and self._commit.number == max(numbers):
                return self._commit
            data = self.bucket.get(commit_key(max(numbers)))
            if data is not None:  # else it was removed meanwhile, as there are many later ones
                self._commit = Commit.parse(max(numbers), data, self.name)
                return self._commit

    def sweep(self) -> None:
        """Remove objects that are in no commit and a day old: killed writers left them."""
        known = {object_key(table, name) for name, batch in self.look().batches.items() for table in batch.tables}
        for table in MOVED_IN:
            unknown = [key for key in self.bucket.keys(table) if key not in known]
            self.bucket.delete([key for key in unknown if self.bucket.age_s(key) > _OLD_S])

    def batches(self, table: str = "runs") -> list[str]:
        return sorted(name for name, batch in self.commit.batches.items() if table in batch.tables)

    def logs_of(self, batch: str) -> Sequence[str]:
        return self.commit.batches[batch].logs

    def notes_of(self, batch: str) -> LogNotes:
        return self.commit.batches[batch].notes

    def files_of(self, batch: str) -> Mapping[str, int | None]:
        return dict.fromkeys(self.commit.batches[batch].tables)

    def tables_of(self, batch: str) -> list[str]:
        return [table for table in MOVED_IN if table in self.commit.batches[batch].tables]

    def size_of(self, batch: str) -> int:
        return self.commit.batches[batch].size

    def stamp(self, batch: str) -> Stamp | None:
        return () if batch in self.commit.batches else None

    def fetch(self, table: str, batches: Sequence[str]) -> bool:
        """Copy the objects of a table that are not here yet, of those that are in the store at all."""
        known, number = self.commit.batches, self.commit.number
        if any(batch not in known for batch in batches):
            return False
        missing = [b for b in batches if table in known[b].tables and not self.file(table, b).exists()]
        if not missing:
            return True
        (self.path / table).mkdir(parents=True, exist_ok=True)
        if self._copied(table, missing):
            return True
        if self.look().number != number:
            return False
        for batch in missing:  # whoever reads a batch with a lost object gets the error
            self._copied(table, [batch])
        return True

    def _copied(self, table: str, batches: Sequence[str]) -> bool:
        """Copy the objects of some batches. Return False, with none of them here, if one is not there."""
        drafts = [f"{self.file(table, batch)}.{os.urandom(4).hex()}" for batch in batches]
        if not self.bucket.download([object_key(table, batch) for batch in batches], drafts):
            return False
        for draft, batch in zip(drafts, batches, strict=True):
            os.replace(draft, self.file(table, batch))
        return True


class ObjectWork:
    """The work of one writer: files on this machine, which it writes as objects before it commits them."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._bucket = store.bucket
        self.path = store.path / f".work-{os.urandom(4).hex()}"

    def open(self) -> Self:
        """Make a folder for new files.

        Raises:
            StoreError: Two writers could both commit in this storage.
        """
        if not self._bucket.can_create or not self._creates_once():
            help = "Amazon S3, Google Cloud Storage and MinIO have them; reading needs none"
            raise StoreError("this storage has no conditional writes, which a store needs", self._store.name, help)
        self.path.mkdir(parents=True)
        return self

    def _creates_once(self) -> bool:
        """Whether the storage refuses to create an object twice. Asked once for a store, when it has no commit."""
        if self._store.look().number:
            return True
        probe = f".probe/{os.urandom(8).hex()}"
        try:
            return self._bucket.create(probe, b"first") and not self._bucket.create(probe, b"second")
        finally:
            self._bucket.delete([probe])

    def close(self) -> None:
        """Remove the folder, and the folder of the copies if there are none: a worker that is ended removes nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            self.path.parent.rmdir()

    def change(self, make: Callable[[Path], Change]) -> None:
        """Commit a change of the store as it is. `make` is called again after each commit of another writer."""
        for attempt in range(_TRIES):
            base = self._store.look()
            folder = self.path / f"{attempt}"
            folder.mkdir()
            try:
                change = make(folder)
            except FileNotFoundError:
                if self._store.look().number == base.number:
                    raise
                continue  # another writer has replaced what was to be written again
            if self._try(base, change):
                return
            time.sleep(os.urandom(1)[0] / 255 * min(_LONGEST_WAIT_S, 0.02 * 2 ** min(attempt, 10)))
        raise StoreError("other writers always committed first", self._store.name, "try again, or with fewer writers")

    def _try(self, base: Commit, change: Change) -> bool:
        """Commit a change of a state. Return False, with the store as it was, if it has another state by now."""
        names = {files["runs"]: f"{_SEVERAL}{os.urandom(8).hex()}" for files in change.into.values()}
        objects = [(files, names[files["runs"]]) for files in change.into.values()]
        written = [object_key(table, name) for files, name in objects for table in files]
        identity = os.urandom(8).hex()
        batches = {name: batch for name, batch in base.batches.items() if name not in set(change.out)}
        batches |= {name: _batch(files) for files, name in objects}
        commit = Commit(base.number + 1, [identity, *base.ids][:_KEPT], batches)
        is_done = is_tried = False
        try:
            self._bucket.upload([str(path) for files, _ in objects for path in files.values()], written)
            is_tried = True
            self._bucket.create(commit_key(commit.number), commit.data())
            # If an answer was lost, the creator of a commit may read that it was there before. A writer that was too
            # slow for a hundred commits may have created one that nobody looks at. So only the last commit decides.
            is_done = identity in self._store.look().ids
        finally:
            if not is_done and not (is_tried and self._may_be_named(commit.number, identity)):
                with suppress(InputError):
                    self._bucket.delete(written)
        if is_done:
            self._clear(base, change)
        return is_done

    def _may_be_named(self, number: int, identity: str) -> bool:
        """Whether a commit may name the objects of this one: not if another writer has made one of its number."""
        try:
            data = self._bucket.get(commit_key(number))
        except InputError:
            return True
        return data is None or identity in Commit.parse(number, data, self._store.name).ids

    def _clear(self, base: Commit, change: Change) -> None:
        """Remove the objects of batches that have left, and commits that are long over. Damaged batches are kept."""
        with suppress(InputError):  # the commit is done; what stays is in no commit
            for name in change.out:
                for table in base.batches[name].tables:
                    if name in change.damaged:
                        self._bucket.move(object_key(table, name), f"{_ASIDE}/{name}.{table}.parquet")
                    else:
                        self._bucket.delete([object_key(table, name)])
            over = base.number + 1 - _KEPT
            if over > 0:
                self._bucket.delete([commit_key(over)])


def commit_key(number: int) -> str:
    """Return the key of a commit."""
    return f"{_COMMITS}/{number:012d}.json.gz"


def object_key(table: str, batch: str) -> str:
    """Return the key of the rows of a batch in a table."""
    return f"{table}/{batch}.parquet"


def _batch(files: Mapping[str, Path]) -> Batch:
    footer = RunsFooter.parse(footer_texts(files["runs"]))
    size = sum(path.stat().st_size for path in files.values())
    return Batch(list(files), size, footer.logs, footer.notes)
