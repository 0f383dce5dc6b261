"""A store on object storage gives what one on disk gives, whoever writes at once and wherever a writer is killed."""

from __future__ import annotations

import gc
import gzip
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.commands import DATA, EARLY, MOE, SWEEP, run
from support.forked_code import ForkedCode
from support.s3_server import Bucket, s3_server
from support.stores import check_whole, rows

import perflog
from perflog.errors import InputError, StoreError, UsageError
from perflog.files import remote, temporary
from perflog.tables.schema import SCHEMA_VERSION, TABLES
from perflog.tables.store import DamageWarning, Store, object_store, writer
from perflog.tables.store.object_store import Commit, ObjectStore, commit_key

LOGS = [f"{number:016x}" for number in range(5)]
COUNTS = {"steps": 3, "values": 2}
FILLED = ("runs", *COUNTS, "kernels", "layers", "events")
"""The tables that some test fills, and another one: each request to the server takes 10 ms, and each table some."""


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture(autouse=True)
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for copies of objects, also of processes that are killed."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setattr(temporary._Folder, "path", str(folder))
    monkeypatch.setattr(temporary._Folder, "owner", 0)
    return folder


@pytest.fixture
def bucket() -> Bucket:
    return Bucket("stores")


@pytest.fixture
def store(bucket: Bucket) -> Store:
    return Store(f"{bucket.address}/store")


def fill(store: Store, logs: list[str], counts: dict[str, int] = COUNTS) -> None:
    """Store logs together, each with one run."""
    with store.write(logs) as out:
        for log in logs:
            for table, count in counts.items():
                out.add(table, rows(table, f"{log}-1", count))
            out.add("runs", rows("runs", f"{log}-1", 1, config=repr(counts)))


def content(store: Store, tables: Collection[str] = FILLED) -> dict[str, list[dict[str, Any]]]:
    return {name: sorted(store.table(name).to_pylist(), key=repr) for name in tables}


def objects(bucket: Bucket) -> list[str]:
    """The objects with rows, which other readers see."""
    return [key for key in bucket.every_key() if key.endswith(".parquet")]


def child(code: str, *args: object) -> ForkedCode:
    """A process that has this module's helpers."""
    return ForkedCode(
        Path(__file__),
        f"import os, random, sys\ntemporary.use({temporary.folder()!r})\nstore = Store(sys.argv[1])\n{code}",
        *map(str, args),
    )


def test_it_gives_what_a_store_on_disk_gives(store: Store, bucket: Bucket, tmp_path: Path) -> None:
    local = Store(tmp_path / "store")
    assert (store.logs(), store.table("steps").num_rows, store.origins()) == ([], 0, {})
    assert bucket.every_key() == []
    for each in (store, local):
        fill(each, LOGS)
        fill(each, [LOGS[1]], {"steps": 9})
        fill(each, LOGS[2:4], {"kernels": 1})
        each.delete([LOGS[4]])
    assert store.logs() == local.logs() == LOGS[:4]
    assert content(store) == content(Store(f"{bucket.address}/store")) == content(local)
    check_whole(store)
    queries: list[dict[str, Any]] = [{"logs": LOGS[1:3]}, {"runs": [f"{LOGS[0]}-1"]}, {"runs": []}]
    for query in queries:
        assert store.table("steps", **query).to_pylist() == local.table("steps", **query).to_pylist()
    assert store.compact()[1] == local.compact()[1]
    assert content(store) == content(local)
    with pytest.raises(UsageError, match=f"s3://stores/store: there is no log '{LOGS[4]}'"):
        store.delete([LOGS[4]])


def test_dates_are_those_of_the_first_ingest(store: Store, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    days = iter([f"2026-03-0{day}T09:30:00Z" for day in range(1, 5)])
    monkeypatch.setattr(writer, "utc_now", lambda: next(days))
    fill(store, LOGS[:3])
    fill(store, LOGS[2:4])
    store.compact()
    dates = {log: f"2026-03-0{day}T09:30:00Z" for log, day in zip(LOGS[:4], (1, 1, 1, 2), strict=True)}
    assert store.ingested() == Store(f"{bucket.address}/store").ingested() == dates


@pytest.mark.parametrize("number", [None, SCHEMA_VERSION + 1])
def test_a_commit_of_another_schema_is_refused(store: Store, number: int | None) -> None:
    fill(store, LOGS[:3])
    commit = ObjectStore(store.name).commit
    assert Commit.parse(commit.number, commit.data(), store.name) == commit
    content = json.loads(gzip.decompress(commit.data())) | {"schema_version": number}
    with pytest.raises(StoreError, match=f"{store.name}: it has schema {number}; this perflog reads schema"):
        Commit.parse(1, gzip.compress(json.dumps(content).encode()), store.name)


def test_other_readers_count_nothing_twice_and_a_copy_is_a_store(store: Store, bucket: Bucket, tmp_path: Path) -> None:
    fill(store, LOGS)
    fill(store, LOGS)
    fill(store, LOGS[2:4], {"steps": 5})
    store.compact()
    bucket.files.get(f"{bucket.name}/store/", f"{tmp_path}/copy/", recursive=True)
    assert content(Store(tmp_path / "copy")) == content(store)
    assert Store(tmp_path / "copy").logs() == LOGS
    steps = pq.read_table(tmp_path / "copy" / "steps")["run"].to_pylist()
    assert [steps.count(f"{log}-1") for log in LOGS] == [3, 3, 5, 5, 3]


STEPS = 2 + 3  # the objects and the commit, then the old objects of three tables


def test_killed_at_each_step(bucket: Bucket) -> None:
    code = """
left = int(sys.argv[2])
def fragile(change):
    def changed(*args):
        global left
        if not left: os.kill(os.getpid(), 9)
        left -= 1
        return change(*args)
    return changed
for name in ("upload", "create", "delete"): setattr(remote.Bucket, name, fragile(getattr(remote.Bucket, name)))
fill(store, LOGS[:1], {"kernels": 2})
"""
    stores = [Store(f"{bucket.address}/store{step}") for step in range(STEPS + 1)]
    for store in stores:
        fill(store, LOGS[:1])
        fill(store, LOGS[1:])
    children = [child(code, store.name, step) for step, store in enumerate(stores)]
    for step, (store, process) in enumerate(zip(stores, children, strict=True)):
        assert process.end() == (0 if step == STEPS else -9)
        check_whole(store, FILLED)
        assert store.logs() == LOGS
        assert store.table("kernels").num_rows == (0 if step < 2 else 2)
        fill(store, LOGS[:1], {"layers": 2})
        assert (store.table("layers").num_rows, store.table("kernels").num_rows) == (2, 0)


def test_what_a_killed_writer_left_goes_when_it_is_old(
    store: Store, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, LOGS)
    before = objects(bucket)
    bucket.put("store/steps/batch-0123456789abcdef.parquet", b"rows of a killed writer")
    store.compact()
    assert len(objects(bucket)) == len(before) + 1
    monkeypatch.setattr(object_store, "_OLD_S", -3600.0)
    store.compact()
    assert objects(bucket) == before
    check_whole(store, FILLED)


def test_many_writers_at_once(store: Store, bucket: Bucket) -> None:
    code = """
for number in range(3):
    fill(store, [LOGS[int(sys.argv[2])], f"{sys.argv[2]}{number}abcdef" * 2], {"steps": number + 1})
"""
    writers = [child(code, store.name, number) for number in range(3)]
    assert [writer.end() for writer in writers] == [0] * 3
    logs = [*LOGS[:3], *(f"{writer}{number}abcdef" * 2 for writer in range(3) for number in range(3))]
    assert store.logs() == sorted(logs)
    check_whole(store, FILLED)
    used = {key for batch, known in ObjectStore(store.name).look().batches.items() for key in (batch,) if known.tables}
    assert {Path(key).stem for key in objects(bucket)} == used


def test_a_reader_sees_one_state_while_batches_are_merged(store: Store) -> None:
    fill(store, LOGS)
    code = """
while True:
    fill(store, [random.choice(LOGS)], {"steps": 3})
    random.choice([store.compact, lambda: None])()
"""
    process = child(code, store.name)
    seen: set[int] = set()
    reads = 0
    try:
        while reads < 8 or len(seen) < 3:
            assert store.logs() == LOGS
            assert sorted(store.table("steps")["run"].to_pylist()) == [f"{log}-1" for log in LOGS for _ in range(3)]
            seen.add(ObjectStore(store.name).look().number)
            reads += 1
    finally:
        process.kill()
        process.end()


def test_a_folder_that_gets_its_first_object_meanwhile_is_no_object(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """s3fs asks for a listing, then for the object of that name: between them the folder may have come to be."""
    monkeypatch.setattr("s3fs.S3FileSystem.find", lambda _self, path, **_more: [path])
    assert ObjectStore(store.name).look().number == 0


def test_an_answer_that_is_lost_commits_once(store: Store, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is repeated by whoever sent it, and then the commit is there already."""
    create = remote.Bucket.create

    def lost(self: remote.Bucket, key: str, data: bytes) -> bool:
        create(self, key, data)
        return create(self, key, data)

    fill(store, LOGS)
    monkeypatch.setattr(remote.Bucket, "create", lost)
    fill(store, LOGS[:1], {"steps": 9})
    assert ObjectStore(store.name).look().number == 2
    check_whole(store, FILLED)


def test_a_writer_that_was_very_slow_tries_again(store: Store, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile there were so many commits that the one of its number has been removed: it can create it, in vain."""
    monkeypatch.setattr(object_store, "_KEPT", 3)
    fill(store, LOGS)
    create = remote.Bucket.create
    numbers: list[str] = []

    def slow(self: remote.Bucket, key: str, data: bytes) -> bool:
        numbers.append(key)
        if len(numbers) == 1:
            for count in range(2, 8):
                fill(Store(store.name), LOGS[1:2], {"steps": count})
        return create(self, key, data)

    monkeypatch.setattr(remote.Bucket, "create", slow)
    fill(store, LOGS[:1], {"values": 4})
    assert (numbers[0], numbers[-1]) == (commit_key(2), commit_key(8))
    check_whole(store, FILLED)
    assert store.table("steps", logs=LOGS[1:2]).num_rows == 7
    assert store.table("values", logs=LOGS[:1]).num_rows == 4


def test_a_failed_upload_leaves_the_store_as_it_was(
    store: Store, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, LOGS)
    before = bucket.every_key()
    upload = remote.Bucket.upload

    def half(self: remote.Bucket, paths: list[str], keys: list[str]) -> None:
        upload(self, paths[:1], keys[:1])
        raise InputError("cannot be written: no network", self.name)

    monkeypatch.setattr(remote.Bucket, "upload", half)
    with pytest.raises(StoreError, match="s3://stores/store: cannot be written: no network"):
        fill(store, LOGS[:1])
    assert bucket.every_key() == before
    check_whole(store, FILLED)


def test_a_damaged_object_is_named_and_kept_aside(store: Store, bucket: Bucket) -> None:
    fill(store, LOGS[:3])
    fill(store, LOGS[3:])
    (damaged,) = (batch for batch, known in ObjectStore(store.name).look().batches.items() if LOGS[0] in known.logs)
    bucket.put(f"store/steps/{damaged}.parquet", b"PAR1 no parquet")
    with pytest.raises(StoreError, match=rf"s3://stores/store/steps/{damaged}\.parquet: damaged"):
        Store(store.name).table("steps")
    again = Store(store.name)
    fill(again, LOGS[:1])
    assert again.logs() == [LOGS[0], *LOGS[3:]]
    check_whole(again, FILLED)
    assert f"store/.damaged/{damaged}.steps.parquet" in bucket.every_key()


def test_an_object_that_is_missing_is_damage(store: Store, bucket: Bucket) -> None:
    """It is not waited for: the last commit still names it."""
    fill(store, LOGS[:3])
    fill(store, LOGS[3:])
    (damaged,) = (batch for batch, known in ObjectStore(store.name).look().batches.items() if LOGS[0] in known.logs)
    bucket.files.rm_file(f"{bucket.name}/store/steps/{damaged}.parquet")
    with pytest.raises(StoreError, match=rf"s3://stores/store/steps/{damaged}\.parquet: damaged: .+ is missing"):
        Store(store.name).table("steps")
    with pytest.warns(DamageWarning, match="it is missing"):
        assert Store(store.name, leaves_out_damage=True).table("steps").num_rows == 3 * len(LOGS[3:])
    again = Store(store.name)
    fill(again, LOGS[:1])
    check_whole(again, FILLED)
    assert again.logs() == [LOGS[0], *LOGS[3:]]
    assert not [key for key in objects(bucket) if damaged in key and ".damaged" not in key]


def test_a_storage_without_conditional_writes_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="memory://store: this storage has no conditional writes"):
        fill(Store("memory://store"), LOGS)

    def overwrite(self: remote.Bucket, key: str, data: bytes) -> bool:
        return True

    monkeypatch.setattr(remote.Bucket, "create", overwrite)
    with pytest.raises(StoreError, match="this storage has no conditional writes"):
        fill(store, LOGS)


def test_all_commands_take_it(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    address = f"{bucket.address}/store"
    for command in (["runs"], ["rm", MOE], ["compact"], ["show", MOE + "x"]):
        done = run(*command, "--store", address, code=3)
        assert f"{address}: there is no store here" in done.stderr
    monkeypatch.setattr(writer, "utc_now", lambda: "2026-03-01T12:00:00Z")  # two stores, read in the same second
    run("ingest", MOE, EARLY, SWEEP, "--store", address)
    run("ingest", MOE, EARLY, SWEEP, "--store", tmp_path / "local")
    assert content(Store(address), TABLES) == content(Store(tmp_path / "local"), TABLES)
    for command in (["runs", "--format", "csv"], ["show", "naive gpt2 16"], ["lint", "naive gpt2 16"]):
        assert run(*command, "--store", address).stdout == run(*command, "--store", tmp_path / "local").stdout
    assert run(address).stdout.startswith("store: ")
    monkeypatch.setenv("PERFLOG_STORE", address)
    run("rm", SWEEP)
    run("compact")
    assert len(perflog.load()) == len(perflog.load(address)) == 2
    perflog.read(str(DATA / "csv.txt")).save(address)
    assert len(perflog.load()) == 3
    bucket.put("logs/run.txt", Path(SWEEP).read_bytes())
    run("ingest", f"{bucket.address}/logs/**")
    assert f"{bucket.address}/logs/run.txt" in run("runs", "--format", "csv").stdout


def test_no_copy_stays(bucket: Bucket, copies: Path) -> None:
    store = Store(f"{bucket.address}/store")
    fill(store, LOGS)
    assert list(copies.iterdir()) == []
    assert store.table("steps").num_rows == 15
    assert len(list(copies.rglob("*.parquet"))) == 1
    del store
    gc.collect()
    assert list(copies.iterdir()) == []
