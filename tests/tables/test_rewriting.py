"""Batches that are written again: without some logs, or small ones as one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stores import rows

from perflog.tables.parquet import read_table
from perflog.tables.store import rewriting
from perflog.tables.store.commits import LocalStore
from perflog.tables.store.folder import batch_name
from perflog.tables.store.rewriting import merged, without_logs
from perflog.tables.store.writer import BatchWriter

A, B, C, D = (letter * 16 for letter in "abcd")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def fill(store: LocalStore, *logs: str, count: int = 2) -> str:
    """Store logs as one batch, and return its name."""
    with BatchWriter(store, logs) as out:
        for log in logs:
            out.add("steps", rows("steps", f"{log}-1", count))
            out.add("runs", rows("runs", f"{log}-1", 1))
    return batch_name(logs)


def runs_in(path: Path, table: str) -> list[str]:
    return list(read_table(path, table)["run"].to_pylist())


def test_a_batch_comes_back_without_the_logs_that_leave(store: LocalStore, tmp_path: Path) -> None:
    several, alone = fill(store, A, B, C), fill(store, D)
    other = tmp_path / "other"
    other.mkdir()
    change = without_logs(store, [B, "other"], tmp_path)
    assert (change.out, change.damaged) == ([several], [])
    assert list(change.into) == [batch_name([A, C])]
    written = change.into[batch_name([A, C])]
    assert sorted(written) == ["runs", "steps"]
    assert runs_in(written["runs"], "runs") == [f"{A}-1", f"{C}-1"]
    assert runs_in(written["steps"], "steps") == [f"{A}-1"] * 2 + [f"{C}-1"] * 2
    nothing = without_logs(store, [D], tmp_path)
    assert (nothing.out, nothing.into) == ([alone], {})
    assert without_logs(store, ["other"], tmp_path).out == []
    all_of_them = without_logs(store, [A, D], other)
    assert sorted(all_of_them.out) == sorted([several, alone])
    assert list(all_of_them.into) == [batch_name([B, C])]


def test_a_damaged_batch_goes_and_does_not_come_back(store: LocalStore, tmp_path: Path) -> None:
    several = fill(store, A, B)
    fill(store, C)
    (store.path / "steps" / f"{several}.parquet").write_bytes(b"PAR1")
    change = without_logs(store, [A], tmp_path)
    assert (change.out, change.into, change.damaged) == ([several], {}, [several])


def test_small_batches_become_one(store: LocalStore, tmp_path: Path) -> None:
    names = [fill(store, A), fill(store, B, C), fill(store, D)]
    change = merged(store, tmp_path)
    assert sorted(change.out) == sorted(names)
    (written,) = change.into.values()
    assert list(change.into) == [batch_name([A, B, C, D])]
    assert sorted(runs_in(written["steps"], "steps")) == [f"{log}-1" for log in (A, B, C, D) for _ in range(2)]


def test_batches_that_cannot_be_read_stay(store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [fill(store, log) for log in (A, B, C, D)]
    monkeypatch.setattr(rewriting, "_MOST_LOGS", 2)
    (store.path / "steps" / f"{names[0]}.parquet").write_bytes(b"PAR1")
    assert merged(store, tmp_path).out == names[2:]
    runs = store.path / "runs" / f"{names[2]}.parquet"
    runs.write_bytes(runs.read_bytes()[:-20])
    (tmp_path / "later").mkdir()
    assert merged(store, tmp_path / "later").out == []


def test_which_batches_are_merged(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two or more, in groups of a few logs and bytes. Large ones, and copies, stay."""
    names = [fill(store, log) for log in (A, B, C, D)]
    size = store.size_of(names[0])
    for largest, together, logs, expected in (
        (10 * size, 100 * size, 256, [names]),
        (10 * size, 100 * size, 3, [names[:3]]),
        (10 * size, 100 * size, 2, [names[:2], names[2:]]),
        (10 * size, 100 * size, 1, []),
        (10 * size, 2 * size + 9, 256, [names[:2], names[2:]]),
        (size - 99, 100 * size, 256, []),
    ):
        monkeypatch.setattr(rewriting, "_SMALL", largest)
        monkeypatch.setattr(rewriting, "_LARGE", together)
        monkeypatch.setattr(rewriting, "_MOST_LOGS", logs)
        assert list(rewriting._groups(store)) == expected, (largest, together, logs)
    for path in store.path.glob(f"*/{names[0]}.parquet"):
        path.with_stem(f"{names[-1]}-copy").write_bytes(path.read_bytes())
    monkeypatch.setattr(rewriting, "_SMALL", 10 * size)
    monkeypatch.setattr(rewriting, "_LARGE", 100 * size)
    monkeypatch.setattr(rewriting, "_MOST_LOGS", 256)
    assert list(rewriting._groups(store)) == [names]
