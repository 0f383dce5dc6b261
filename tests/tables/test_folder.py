"""The folder of a store: names of batches, which files they have, and errors of the system as those of the store."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from perflog.errors import InputError, StoreError, UsageError
from perflog.tables.parquet import DamagedError
from perflog.tables.store.folder import MOVED_IN, StoreFolder, batch_name, checked_table, store_errors


@pytest.fixture
def store(tmp_path: Path) -> StoreFolder:
    """A store with files of these names, which hold nothing that can be read."""
    for name in ("runs/b", "runs/a", "steps/a", "steps/c", "runs/batch-1", "runs/no name"):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode())
    (tmp_path / "runs" / "a.tmp").touch()
    return StoreFolder(tmp_path)


def test_the_name_of_a_batch_is_that_of_its_log_or_of_all_in_any_order() -> None:
    assert batch_name(["a_-Z9"]) == batch_name(["a_-Z9", "a_-Z9"]) == "a_-Z9"
    several = batch_name(["b", "a"])
    assert several == batch_name(iter(["a", "b", "a"])) != batch_name(["a", "c"])
    assert several.startswith("batch-") and len(several) == len("batch-") + 16


@pytest.mark.parametrize("log", ["", "a/b", "a.b", "\u00e9"])
def test_an_id_that_is_no_name_of_a_file_is_refused(log: str) -> None:
    with pytest.raises(ValueError, match="not a log id"):
        batch_name(["a", log])


def test_a_table_that_exists() -> None:
    assert checked_table("steps") == "steps"
    with pytest.raises(UsageError, match="there is no table 'step'"):
        checked_table("step")


def test_runs_are_moved_in_last() -> None:
    assert MOVED_IN[-1] == "runs" and MOVED_IN.count("runs") == 1


def test_batches_and_their_files(store: StoreFolder) -> None:
    assert store.batches() == ["a", "b", "batch-1"] and store.batches("steps") == ["a", "c"]
    assert store.batches("events") == []
    assert (store.tables_of("a"), store.tables_of("b"), store.tables_of("x")) == (["steps", "runs"], ["runs"], [])
    assert (store.size_of("a"), store.size_of("x")) == (13, 0)
    assert store.stamp("x") is None
    stamp = store.stamp("a")
    assert stamp is not None and stamp[1] == 6
    store.file("runs", "a").write_bytes(b"longer now")
    assert store.stamp("a") != stamp


def test_the_file_of_a_table(store: StoreFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the CRC of its footer, if it is known. A listed file that is missing is damage."""
    monkeypatch.setattr(StoreFolder, "files_of", lambda *_: {"steps": 7, "events": 8, "runs": None})
    assert store.file_of("steps", "a") == (store.file("steps", "a"), 7)
    assert store.file_of("runs", "a") == (store.file("runs", "a"), None)
    assert store.file_of("layers", "a") is None
    with pytest.raises(DamagedError, match="missing"):
        store.file_of("events", "a")
    assert (store.name, StoreFolder(store.path, "s3://x").name) == (str(store.path), "s3://x")


def test_a_batch_of_one_log_is_known_by_its_name(store: StoreFolder) -> None:
    assert store.logs_of("a") == ("a",)
    with pytest.raises(DamagedError):
        store.logs_of("batch-1")
    assert store.readable_logs() == {"a", "b"}
    assert not store.notes().ingested
    with pytest.raises(DamagedError):
        store.files_of("a")
    with pytest.raises(FileNotFoundError):
        store.logs_of("x")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "the disk is full"), (errno.EROFS, "permission denied"),
        (errno.ENOTDIR, "a file is in the way"), (errno.ENOLCK, "this file system has no file locks"),
        (errno.EIO, "told"), (None, "told"),
    ],
)  # fmt: skip
def test_errors_of_the_system(number: int | None, reason: str) -> None:
    with pytest.raises(StoreError, match=f"/nowhere: {reason}"), store_errors("/nowhere"):
        raise OSError("told") if number is None else OSError(number, "told")


def test_what_is_in_the_way_inside_a_store_is_named(tmp_path: Path) -> None:
    for error, where in (
        (OSError(errno.ENOTDIR, "x", "/in"), "/in"), (OSError(errno.ENOTDIR, "x", "/in", None, "/to"), "/to"),
        (OSError(errno.ENOTDIR, "x"), str(tmp_path)),
    ):  # fmt: skip
        with pytest.raises(StoreError, match=f"{where}: a file or folder of another kind"), store_errors(str(tmp_path)):
            raise error


def test_an_error_of_a_storage_is_that_of_the_store() -> None:
    with pytest.raises(StoreError, match="mine: cannot be listed") as raised, store_errors("mine"):
        raise InputError("cannot be listed", "s3://b", "ask")
    assert "ask" in str(raised.value)
