"""Files of a store change together. Whoever comes after a killed writer undoes what it has begun."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.stores import check_whole, files, rows

from perflog.errors import StoreError
from perflog.files.file_lock import lock, locked
from perflog.tables.store import Store, commits
from perflog.tables.store.commits import LocalStore, WorkFolder, recover, without_commits
from perflog.tables.store.folder import Change

A, B = "a" * 16, "b" * 16
OLD, NEW = {"steps": 3}, {"steps": 5, "kernels": 6}


class Killed(BaseException):
    """The end of a process in the middle of a commit."""


def fill(store: Store, logs: list[str], counts: dict[str, int]) -> None:
    """Store logs together whose runs rows say how many rows each table has of the run."""
    with store.write(logs) as out:
        for run in (f"{log}-1" for log in logs):
            for table, count in counts.items():
                out.add(table, rows(table, run, count))
            out.add("runs", rows("runs", run, 1, config=repr(counts)))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@contextmanager
def failing(failure: Callable[[], BaseException], moves: int, lasts: bool = False) -> Iterator[None]:
    """Let a number of moves succeed, and the next one fail; or all from then on."""
    replace, count = os.replace, iter(range(10**6))

    def fragile(a: Path, b: Path) -> None:
        now = next(count)
        if now == moves or (lasts and now > moves):
            raise failure()
        replace(a, b)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", fragile)
        yield


def left_by_killed(store: Store, moves: int, act: Callable[[], None]) -> bool:
    """Do something in a process that is killed after some moves: what it left stays, and its lock is free."""

    def freed(work: WorkFolder) -> None:
        os.close(work._alive_fd)

    with pytest.MonkeyPatch.context() as patch, failing(Killed, moves):
        patch.setattr(commits, "_undo", lambda *_: None)
        patch.setattr(WorkFolder, "close", freed)
        try:
            act()
        except Killed:
            return True
    return False


def test_a_writer_that_is_killed_at_any_move_leaves_the_store_as_it_was(store: Store) -> None:
    """The note, the old files out, the new files in: of a log alone, and of a log that leaves a batch of several."""
    for others, moves in (([], 1 + 2 + 3), ([B], 1 + 2 + 3 + 2)):
        for killed_at in range(moves + 1):
            fill(store, [A, *others], OLD)
            store.delete([log for log in store.logs() if log not in (A, *others)])
            before = files(store)
            assert left_by_killed(store, killed_at, lambda: fill(store, [A], NEW)) == (killed_at < moves)
            if killed_at % 2:  # a reader undoes it, or the next writer
                assert store.logs() == [A, *others]
            else:
                with pytest.raises(StoreError, match="no runs"):
                    fill(store, [], {})
            check_whole(store)
            assert (files(store) == before) == (killed_at < moves), (others, killed_at)
    fill(store, [A], OLD)
    assert list(store.path.glob(".tmp/*")) == []


def test_a_move_that_fails_is_taken_back(store: Store) -> None:
    fill(store, [A], OLD)
    before = files(store)
    for move in range(1 + 2 + 3):
        with failing(lambda: OSError(errno.ENOSPC, "full"), move), pytest.raises(StoreError, match="disk is full"):
            fill(store, [A], NEW)
        assert files(store) == before
        assert list(store.path.glob(".tmp/*")) == []


def test_an_undo_that_fails_is_done_by_the_next(store: Store) -> None:
    fill(store, [A], OLD)
    before = files(store)
    broken = failing(lambda: OSError(errno.EIO, "Input/output error"), 4, lasts=True)
    with broken, pytest.raises(StoreError, match="Input/output"):
        fill(store, [A], NEW)
    assert files(store) != before
    assert store.logs() == [A]
    assert files(store) == before


def test_the_folder_of_a_living_writer_stays(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    work = store.work().open()
    other = store.work().open()
    assert work.path.is_dir() and other.path.is_dir() and work.path != other.path
    other.close()
    assert [path.name for path in store.drafts.iterdir()] == [work.path.name]
    (store.drafts / "dead").mkdir()
    with locked(store.lock):
        recover(store)
    assert [path.name for path in store.drafts.iterdir()] == [work.path.name]
    work.close()
    assert list(store.drafts.iterdir()) == []


def test_new_files_come_in_and_old_ones_go_runs_last_and_first(tmp_path: Path) -> None:
    """Damaged ones are kept. The note names both while it lasts."""
    store = LocalStore(tmp_path / "store")
    work = store.work().open()
    moved: list[tuple[str, str]] = []
    replace = os.replace

    def noted(a: Path, b: Path) -> None:
        moved.append((Path(a).name, Path(b).parent.name if Path(b).suffix == ".parquet" else Path(b).name))
        replace(a, b)

    def made(batch: str) -> Change:
        of_batch = {table: work.path / f"{batch}-{table}" for table in ("runs", "steps")}
        for path in of_batch.values():
            path.write_text(batch)
        return Change([] if batch == "one" else ["one"], {batch: of_batch}, ["one"])

    work.change(lambda _: made("one"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", noted)
        work.change(lambda _: made("two"))
    assert moved == [
        ("commit.new", "commit"), ("one.parquet", "one.runs.old"), ("one.parquet", "one.steps.old"),
        ("two-steps", "steps"), ("two-runs", "runs"),
        ("one.runs.old", ".damaged"), ("one.steps.old", ".damaged"),
    ] or moved[5:] == [("one.steps.old", ".damaged"), ("one.runs.old", ".damaged")]  # fmt: skip
    assert sorted(path.relative_to(store.path).as_posix() for path in store.path.glob("*/*.parquet")) == [
        ".damaged/one.runs.parquet", ".damaged/one.steps.parquet", "runs/two.parquet", "steps/two.parquet",
    ]  # fmt: skip
    work.close()


def test_a_folder_that_was_in_the_way_is_kept_and_replaces_none(store: Store) -> None:
    fill(store, [A], {"steps": 3})
    for _ in range(2):
        path = store.path / "values" / f"{A}.parquet"
        path.unlink(missing_ok=True)
        path.mkdir(parents=True)
        (path / "notes.txt").write_text("mine")
        fill(store, [A], {"steps": 5, "values": 1})
    assert [file.read_text() for file in store.path.glob(".damaged/*/notes.txt")] == ["mine"] * 2


def test_readers_hold_off_writers_and_need_no_store(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    with without_commits(store):
        assert not store.path.exists()
    store.work().open().close()
    with without_commits(store), without_commits(store):
        fd = os.open(store.lock, os.O_RDWR)
        assert not lock(fd, wait=False)
    assert lock(fd, wait=False)
    os.close(fd)


def test_a_damaged_note_is_an_error_and_touches_no_other_file(store: Store) -> None:
    """Whoever made the store may have written anything into the note: names in it are names of a store's files."""
    fill(store, [A], {"steps": 1})
    outside = store.path.parent / "other.parquet"
    outside.write_bytes(b"mine")
    note = store.path / ".tmp" / "x" / "commit"
    note.parent.mkdir(parents=True)
    for text in (
        b"", b"\xff", b"null", b"[]", b'{"out": 1, "into": []}', b'{"out": [], "into": [["steps", "../../other"]]}',
        b'{"out": [], "into": [["../other", "a"]]}', b'{"out": [["steps", 5]], "into": []}',
        b'{"out": [["steps", ["a"]]], "into": []}', b'{"into": []}',
    ):  # fmt: skip
        note.write_bytes(text)
        for act in (store.logs, lambda: store.delete([A])):
            with pytest.raises(StoreError, match="note of an unfinished change is damaged") as found:
                act()
            assert found.value.where == str(note)
    assert outside.read_bytes() == b"mine"
    note.write_text(json.dumps({"out": [["steps", "gone"]], "into": [["steps", "new"]]}))
    (store.path / "steps" / "new.parquet").write_bytes(b"half")
    assert store.logs() == [A]
    assert [path.name for path in (store.path / "steps").iterdir()] == [f"{A}.parquet"]


def test_a_run_is_not_shown_if_its_rows_are_missing(store: Store) -> None:
    fill(store, [A], NEW)
    local = LocalStore(store.path)
    [batch] = local.batches()
    assert local.file_of("runs", batch) is not None and local.file_of("layers", batch) is None
    local.file("kernels", batch).unlink()
    assert local.file_of("steps", batch) is not None
    for table in ("kernels", "runs"):
        with pytest.raises(StoreError, match="missing"):
            local.file_of(table, batch)
