"""Batches of logs in a store: their rows share files, and each log is replaced and removed as if it were alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.forked_code import ForkedCode
from support.patience import wait_until
from support.stores import check_whole, files, rewrite, rows

from perflog.errors import StoreError, UsageError
from perflog.tables.schema import SCHEMA_VERSION
from perflog.tables.store import Store, writer
from perflog.tables.store.folder import batch_name

LOGS = [f"{number:016x}" for number in range(5)]
COUNTS = {"steps": 3, "values": 2}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def fill(store: Store, logs: list[str], counts: dict[str, int] = COUNTS) -> None:
    """Store logs together, each with one run."""
    with store.write(logs) as out:
        for log in logs:
            for table, count in counts.items():
                out.add(table, rows(table, f"{log}-1", count))
            out.add("runs", rows("runs", f"{log}-1", 1, config=repr(counts)))


def names(store: Store, table: str = "runs") -> list[str]:
    return sorted(path.name for path in (store.path / table).iterdir())


def child(code: str, *args: object) -> ForkedCode:
    """A process that has this module's helpers."""
    return ForkedCode(Path(__file__), f"import os, sys\nstore = Store(sys.argv[1])\n{code}", *map(str, args))


def test_logs_of_a_batch_share_files(store: Store) -> None:
    fill(store, LOGS)
    assert store.logs() == LOGS
    assert [len(names(store, table)) for table in ("runs", "steps", "values")] == [1, 1, 1]
    check_whole(store)
    assert store.table("steps", logs=LOGS[1:3])["run"].to_pylist() == [
        f"{log}-1" for log in LOGS[1:3] for _ in range(3)
    ]
    assert store.table("steps", runs=[f"{LOGS[4]}-1"]).num_rows == 3
    before = files(store)
    fill(store, LOGS)
    assert files(store) == before


def test_other_readers_count_nothing_twice(store: Store) -> None:
    fill(store, LOGS)
    fill(store, LOGS[2:4], {"steps": 5})
    fill(store, LOGS[:1], {"steps": 7})
    import duckdb

    query = f"select run, count(*) from read_parquet('{store.path}/steps/*.parquet') group by run order by run"
    assert [count for _, count in duckdb.execute(query).fetchall()] == [7, 3, 5, 5, 3]


def test_a_log_of_a_batch_is_replaced_alone(store: Store) -> None:
    fill(store, LOGS)
    fill(store, [LOGS[1]], {"steps": 9})
    assert store.logs() == LOGS
    check_whole(store)
    assert len(names(store)) == 2
    fill(store, LOGS[:3], {"kernels": 1})
    check_whole(store)
    assert len(names(store)) == 2
    assert list((store.path / ".tmp").iterdir()) == []


def test_logs_of_batches_are_removed(store: Store) -> None:
    fill(store, LOGS[:3])
    fill(store, LOGS[3:])
    store.delete(LOGS[1:4])
    assert store.logs() == [LOGS[0], LOGS[4]]
    check_whole(store)
    with pytest.raises(UsageError, match=f"no log '{LOGS[2]}'"):
        store.delete([LOGS[0], LOGS[2]])
    store.delete([LOGS[0], LOGS[4]])
    assert files(store) == {}


DAYS = [f"2026-03-0{day}T09:30:00Z" for day in range(1, 6)]


def test_the_date_of_a_log_is_that_of_its_first_ingest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    days = iter(DAYS)
    monkeypatch.setattr(writer, "utc_now", lambda: next(days))
    fill(store, LOGS[:3])
    fill(store, LOGS[2:4])  # takes the third out of its batch
    assert store.ingested() == dict(zip(LOGS, [DAYS[0], DAYS[0], DAYS[0], DAYS[1]], strict=False))
    store.delete([LOGS[0]])  # rewrites its batch
    store.compact()
    assert len(names(store)) == 1
    assert store.ingested() == {LOGS[1]: DAYS[0], LOGS[2]: DAYS[0], LOGS[3]: DAYS[1]}
    fill(store, LOGS[:2])  # the first is a new log again
    assert store.ingested() == {LOGS[0]: DAYS[2], LOGS[1]: DAYS[0], LOGS[2]: DAYS[0], LOGS[3]: DAYS[1]}


def test_compacting_leaves_what_it_cannot_read(store: Store) -> None:
    for log in LOGS:
        fill(store, [log])
    (store.path / "runs" / f"{LOGS[0]}.parquet").write_bytes(b"no parquet")
    before = files(store)
    store.compact()
    assert files(store) == before
    store.delete([LOGS[0]])
    assert store.compact() == (4 * 3, 3)
    assert len(names(store)) == 1
    assert store.logs() == LOGS[1:]
    store.compact()
    check_whole(store)
    assert Store(store.path / "nowhere").compact() == (0, 0)
    assert not (store.path / "nowhere").exists()


@pytest.mark.parametrize("table", ["runs", "steps"])
def test_a_damaged_batch_does_not_block_the_store(store: Store, table: str) -> None:
    """Its files are kept aside when one of its logs is ingested again; then the others can be ingested again too."""
    fill(store, LOGS[:3])
    fill(store, LOGS[3:])
    damaged = store.path / table / f"{batch_name(LOGS[:3])}.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.raises(StoreError, match=rf"{table}/{damaged.name}: damaged(.|\n)*ingest the logs in it again"):
        store.table(table)
    fill(store, LOGS[:1])
    assert store.logs() == [LOGS[0], *LOGS[3:]]
    check_whole(store)
    kept = {path.name for path in (store.path / ".damaged").iterdir()}
    assert kept == {f"{batch_name(LOGS[:3])}.{name}.parquet" for name in ("runs", "steps", "values")}
    fill(store, LOGS[1:3])
    assert store.logs() == LOGS
    check_whole(store)


def test_rows_of_another_schema_are_never_replaced(store: Store) -> None:
    fill(store, LOGS[:3])
    rewrite(store, "steps", batch_name(LOGS[:3]), store.table("steps"), SCHEMA_VERSION + 1)
    before = files(store)
    with pytest.raises(StoreError, match="it has schema"):
        fill(store, LOGS[:1])
    with pytest.raises(StoreError, match="it has schema"):
        store.delete(LOGS[:1])
    store.compact()
    assert files(store) == before


def test_killed_at_random_moments_while_batches_are_merged(store: Store) -> None:
    code = """
random.seed(int(sys.argv[2]))
while True:
    logs = random.sample(LOGS, random.randrange(1, 4))
    fill(store, logs, {"steps": random.randrange(1, 9)})
    random.choice([store.compact, lambda: store.delete(logs[:1]), lambda: None])()
    print("next", flush=True)
"""
    for seed in range(3):
        process = child(code, store.path, seed)
        assert process.stdout.readline()
        wait_until(lambda: random.random() < 0.1)
        process.kill()
        process.end()
        check_whole(store)
    fill(store, LOGS)
    assert store.logs() == LOGS
    check_whole(store)
    assert list((store.path / ".tmp").iterdir()) == []


def test_a_reader_sees_each_log_once_while_batches_are_merged(store: Store) -> None:
    fill(store, LOGS)
    code = """
while True:
    fill(store, [random.choice(LOGS)], {"steps": 3})
    random.choice([store.compact, lambda: None])()
"""
    process = child(code, store.path)
    reads: list[int] = []

    def read_often() -> bool:
        assert store.logs() == LOGS
        table = store.table("steps")["run"].to_pylist()
        assert sorted(table) == [f"{log}-1" for log in LOGS for _ in range(3)]
        reads.append(len(names(store)))
        return len(reads) > 40 and len(set(reads)) > 1

    try:
        wait_until(read_often)
    finally:
        process.kill()
        process.end()
