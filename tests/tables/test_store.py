"""The store: what goes in comes out, and no kill, race or full disk leaves half a log."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.commands import SWEEP
from support.forked_code import ForkedCode
from support.paths import ROOT
from support.patience import wait_until
from support.stores import check_whole, files, rewrite, rows

import perflog.tables.store
from perflog.errors import StoreError, UsageError
from perflog.tables.parquet import seal
from perflog.tables.schema import SCHEMA_VERSION, TABLES, arrow_schema
from perflog.tables.store import DamageWarning, Store

A, B = "a" * 16, "b" * 16


def fill(store: Store, log: str, counts: dict[str, int], runs: tuple[str, ...] = ("1",)) -> None:
    """Store a log whose runs rows say how many rows each table has of the run."""
    with store.write([log]) as out:
        for run in (f"{log}-{place}" for place in runs):
            for table, count in counts.items():
                out.add(table, rows(table, run, count))
            out.add("runs", rows("runs", run, 1, config=repr(counts)))


def put(store: Store, log: str, *data: tuple[str, pa.Table], failure: BaseException | None = None) -> None:
    with store.write([log]) as out:
        for table, part in data:
            out.add(table, part)
        if failure:
            raise failure


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def child(code: str, *args: object) -> ForkedCode:
    """A process that has this module's helpers."""
    return ForkedCode(Path(__file__), f"store = Store(sys.argv[1])\n{code}", *map(str, args))


# What goes in comes out


@pytest.mark.parametrize("table", TABLES)
def test_every_table_comes_back_as_it_was(store: Store, table: str) -> None:
    first, second = rows(table, f"{A}-1", 5), rows(table, f"{A}-2", 4)
    with store.write([A]) as out:
        out.add(table, first)
        out.add(table, second.to_batches())
        if table != "runs":
            out.add("runs", rows("runs", f"{A}-1", 1))
    back = store.table(table)
    assert back.to_pylist() == [*first.to_pylist(), *second.to_pylist()]
    assert back.schema.equals(arrow_schema(table), check_metadata=True)
    assert pq.ParquetFile(store.path / table / f"{A}.parquet").num_row_groups == 2


def test_words_too_many_for_a_dictionary_page(store: Store) -> None:
    shapes = [f"shape {i} {'x' * 40}" for i in range(50_000)]
    table = rows("lines", f"{A}-1", 50_000)
    column = pa.array(shapes).dictionary_encode()
    table = table.set_column(table.column_names.index("shape"), arrow_schema("lines").field("shape"), column)
    with store.write([A]) as out:
        out.add("lines", table)
        out.add("runs", rows("runs", f"{A}-1", 1))
    assert store.table("lines")["shape"].to_pylist() == shapes


def test_nothing_is_created_by_looking(store: Store) -> None:
    assert store.logs() == []
    assert store.table("steps").equals(arrow_schema("steps").empty_table())
    assert not store.path.exists()


def test_logs_and_runs_are_filters(store: Store) -> None:
    fill(store, A, {"steps": 3}, runs=("1", "2", "3"))
    fill(store, B, {"steps": 2})
    assert store.logs() == [A, B]
    assert store.table("steps").num_rows == 11
    assert store.table("steps", logs=[B]).num_rows == 2
    assert store.table("steps", runs=[f"{A}-2", f"{B}-1"])["run"].to_pylist() == [f"{A}-2"] * 3 + [f"{B}-1"] * 2
    assert store.table("steps", logs=[B], runs=[f"{A}-2"]).num_rows == 0
    assert store.table("steps", runs=[]).num_rows == 0
    assert store.table("steps", logs=["no such log", "../runs"]).num_rows == 0
    assert store.table("kernels").num_rows == 0


def test_an_unknown_table_is_named_with_those_there_are(store: Store) -> None:
    with pytest.raises(UsageError, match=r"'setps'.*\n.*runs, steps, phases"):
        store.table("setps")
    with pytest.raises(UsageError, match="'setps'"):
        put(store, A, ("setps", rows("steps", "r", 1)))


def test_threads_write_tables_at_once(store: Store) -> None:
    with store.write([A]) as out:
        out.add("runs", rows("runs", "r", 1))

        def work(table: str) -> None:
            for _ in range(5):
                out.add(table, rows(table, "r", 50))

        threads = [threading.Thread(target=work, args=(t,)) for t in ("steps", "steps", "phases", "values", "phases")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [store.table(t).num_rows for t in ("steps", "phases", "values")] == [500, 500, 250]


def test_pandas_stays_out(store: Store) -> None:
    pytest.importorskip("pandas")
    fill(store, A, {"steps": 3})
    fill(store, B, {"steps": 3})
    code = """
import sys
from perflog.tables.store import DamageWarning, Store
store = Store(sys.argv[1])
for table in ('steps', 'kernels'):
    for runs in (None, [], [sys.argv[2]]):
        rows = store.table(table, runs=runs)
with store.write(["c"]) as out:
    for table in ('runs', 'steps'):
        out.add(table, store.table(table, logs=[sys.argv[3]]))
print(store.table('steps').num_rows, 'pandas' in sys.modules)
"""
    words = [sys.executable, "-c", code, str(store.path), f"{A}-1", B]
    assert subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout == "9 False\n"
    code = "import perflog.tables.store; print({'pyarrow', 'numpy', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", f"import sys; {code}"], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "set()\n"


def test_other_readers_just_work(store: Store) -> None:
    fill(store, A, {"steps": 3})
    fill(store, B, {"steps": 2})
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(store.path / "steps")
    assert (len(frame), list(frame.columns)) == (5, [c.name for c in TABLES["steps"]])
    assert sorted(frame["run"].unique()) == [f"{A}-1", f"{B}-1"]
    pattern = f"{store.path}/steps/**"
    polars = pytest.importorskip("polars")
    for path in (store.path / "steps", f"{pattern}/*"):  # to polars, `**` alone means folders
        assert polars.read_parquet(path)["run"].to_list() == [f"{A}-1"] * 3 + [f"{B}-1"] * 2
    import duckdb

    query = f"select count(*), sum(step), count(distinct run), any_value(rank_by) from read_parquet('{pattern}')"
    assert duckdb.execute(query).fetchall() == [(5, 21, 2, "word")]


# Replacing, discarding, deleting


def test_storing_twice_changes_nothing(store: Store) -> None:
    fill(store, A, {"steps": 30, "values": 5})
    before = files(store)
    fill(store, A, {"steps": 30, "values": 5})
    assert files(store) == before


def test_a_new_ingest_replaces_the_old(store: Store) -> None:
    fill(store, A, {"steps": 3, "kernels": 2})
    fill(store, B, {"kernels": 1})
    fill(store, A, {"steps": 5, "phases": 1})
    assert {t: n for t in TABLES if (n := store.table(t, logs=[A]).num_rows)} == {"runs": 1, "steps": 5, "phases": 1}
    assert not (store.path / "kernels" / f"{A}.parquet").exists()
    check_whole(store)
    assert list((store.path / ".tmp").iterdir()) == []


def test_rows_that_do_not_fit_are_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="schema does not match"):
        put(store, A, ("steps", rows("phases", "r", 1)))
    hole = rows("phases", "r", 2)
    place = hole.column_names.index("time_s")
    hole = hole.set_column(place, hole.schema.field(place), pa.array([1.0, None]))
    with pytest.raises(ValueError, match="non-nullable"):
        put(store, A, ("runs", rows("runs", "r", 1)), ("phases", hole))
    assert files(store) == {}


def test_delete(store: Store) -> None:
    fill(store, A, {"steps": 3})
    fill(store, B, {"steps": 2})
    store.delete([A])
    assert store.logs() == [B]
    assert sorted(files(store)) == [f"runs/{B}.parquet", f"steps/{B}.parquet"]
    with pytest.raises(UsageError, match="no log"):
        store.delete([A])
    with pytest.raises(UsageError, match="no log"):
        Store(store.path / "nowhere").delete([A])


def test_rows_of_a_log_without_a_runs_file_are_not_shown(store: Store) -> None:
    fill(store, A, {"steps": 3})
    fill(store, B, {"steps": 2})
    (store.path / "runs" / f"{A}.parquet").unlink()
    assert store.table("steps")["run"].to_pylist() == [f"{B}-1"] * 2


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(store: Store) -> None:
    code = """
import signal
out = store.write([A]).__enter__()
out.add('steps', rows('steps', 'r', 9))
print('up', flush=True)
signal.pause()
"""
    process = child(code, store.path)
    assert process.stdout.readline() == "up\n"
    fill(store, B, {"steps": 1})
    assert len(list((store.path / ".tmp").iterdir())) == 1
    process.kill()
    process.end()
    fill(store, B, {"steps": 1})
    assert list((store.path / ".tmp").iterdir()) == []


# Races and kills


def test_four_processes_at_once(store: Store) -> None:
    code = """
for turn in range(4):
    n = random.randrange(1, 40)
    log = sys.argv[2]
    fill(store, log, {'steps': n, random.choice(['values', 'loads']): n})
    assert log in store.logs()
    if log != A:
        assert store.table('steps', logs=[log]).num_rows == n
"""
    processes = [child(code, store.path, A if i % 2 else f"{i:016x}") for i in range(4)]
    assert [process.end() for process in processes] == [0] * 4
    assert len(store.logs()) == 3
    check_whole(store)
    assert list((store.path / ".tmp").iterdir()) == []


def test_a_reader_never_sees_a_log_missing_or_mixed_while_it_is_replaced(store: Store) -> None:
    fill(store, A, {"steps": 1})
    code = "while True: n = random.randrange(1, 9); fill(store, A, {'steps': n}, runs=tuple(map(str, range(n))))"
    process = child(code, store.path)
    lengths = set()

    def read_often() -> bool:
        for _ in range(50):
            assert store.logs() == [A]
            table = store.table("steps")["run"].to_pylist()
            assert table.count(table[0]) == len(set(table))
            lengths.add(len(table))
        return len(lengths) > 2

    try:
        wait_until(read_often)
    finally:
        process.kill()
        process.end()


def test_killed_at_random_moments(store: Store) -> None:
    code = """
random.seed(int(sys.argv[2]))
while True:
    n = random.randrange(1, 30)
    fill(store, random.choice([A, B]), {t: n for t in ('steps', 'phases', 'values') if random.random() < 0.7})
    print(n, flush=True)
"""
    for seed in range(3):
        process = child(code, store.path, seed)
        assert process.stdout.readline()
        time.sleep(random.Random(seed).random() * 0.05)
        process.kill()
        process.end()
        check_whole(store)
    fill(store, A, {"steps": 1})
    check_whole(store)
    assert {Path(name).stem for name in files(store)} == set(store.logs())
    assert list((store.path / ".tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("disturb", "left"),
    [
        (lambda store: fill(store, A, {"steps": 4}), [f"{A}-1"] * 4 + [f"{B}-1"] * 3),
        (lambda store: store.delete([B]), [f"{A}-1"] * 3),
    ],
)
def test_a_store_that_changes_while_it_is_read_is_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, disturb: Callable[[Store], None], left: list[str]
) -> None:
    fill(store, A, {"steps": 3})
    fill(store, B, {"steps": 3})
    load, calls = perflog.tables.parquet.read_table, []

    def slow(path: Path, **rest: Any) -> pa.Table:
        calls.append(path)
        if len(calls) == 1:
            disturb(store)
        return load(path, **rest)

    monkeypatch.setattr(perflog.tables.store, "read_table", slow)
    assert store.table("steps")["run"].to_pylist() == left
    assert calls.count(calls[0]) > 1


# Full disks, closed doors, damaged files


def check_full(store: Store) -> None:
    before = files(store)
    noise = (rows("lines", "r", 1, sample=random.Random(i).randbytes(20_000).hex()) for i in range(100))
    big = [("runs", rows("runs", "r", 1)), *(("lines", part) for part in noise)]
    for log in (A, B):
        with pytest.raises(StoreError, match="the disk is full") as caught:
            put(store, log, *big)
        assert caught.value.where == str(store.path)
        assert caught.value.help
    assert files(store) == before
    assert list((store.path / ".tmp").iterdir()) == []
    assert store.table("steps").num_rows == 3


def test_a_file_may_not_grow(store: Store) -> None:
    resource = pytest.importorskip("resource")
    fill(store, A, {"steps": 3})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)  # CPython ignores SIGXFSZ
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        check_full(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if (
        not mount
        or subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "perflog", disk], capture_output=True).returncode
    ):
        pytest.skip("needs the right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk(tiny_disk: Path) -> None:
    store = Store(tiny_disk / "store")
    fill(store, A, {"steps": 3})
    check_full(store)
    with suppress(OSError), open(tiny_disk / "ballast", "wb", buffering=0) as ballast:
        while ballast.write(bytes(4096)):
            pass  # until not a byte is left
    before = files(store)
    with pytest.raises(StoreError, match="the disk is full"):
        fill(store, A, {"steps": 4})
    assert files(store) == before
    (tiny_disk / "ballast").unlink()
    fill(store, A, {"steps": 4})
    assert store.table("steps").num_rows == 4


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    store = Store(tmp_path / "store")
    for act in (
        store.logs,
        lambda: store.table("steps"),
        lambda: fill(store, A, {"steps": 1}),
        lambda: store.delete([A]),
    ):
        with pytest.raises(StoreError, match="a store is a folder"):
            act()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user that is not root")
def test_permission_denied_for_real(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    fill(store, A, {"steps": 1})
    (store.path / ".tmp").chmod(0o500)
    with pytest.raises(StoreError, match="permission denied"):
        fill(store, B, {"steps": 1})
    assert store.table("steps").num_rows == 1
    (store.path / ".tmp").chmod(0o700)


def test_permission_denied(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, A, {"steps": 1})

    def closed(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", closed)  # the lock cannot be taken: reading still works
    assert store.table("steps").num_rows == 1
    with pytest.raises(StoreError, match="permission denied"):
        fill(store, B, {"steps": 1})


@pytest.mark.parametrize("damage", ["cut", "empty", "noise", "foreign"])
def test_a_damaged_file_is_named(store: Store, damage: str) -> None:
    fill(store, A, {"steps": 300})
    path = store.path / "steps" / f"{A}.parquet"
    whole = path.read_bytes()
    spoiled = {"cut": whole[:-20], "empty": b"", "noise": whole[:4] + bytes(len(whole) - 400) + whole[-396:]}
    if damage == "foreign":
        pq.write_table(pa.table({"run": ["x"]}), path)
    else:
        path.write_bytes(spoiled[damage])
    with pytest.raises(StoreError, match=f"steps/{A}.parquet: damaged.*(.|\n)*ingest the logs in it again"):
        store.table("steps")
    fill(store, A, {"steps": 1})
    assert store.table("steps").num_rows == 1


@pytest.mark.parametrize("table", ["steps", "runs"])
def test_a_damaged_file_costs_the_runs_of_its_log_only(store: Store, table: str) -> None:
    fill(store, A, {"steps": 3, "values": 2})
    fill(store, B, {"steps": 4, "values": 2})
    (store.path / table / f"{A}.parquet").write_bytes(b"PAR1")
    tolerant = Store(store.path, leaves_out_damage=True)
    with pytest.warns(DamageWarning, match=f"{table}/{A}.parquet: damaged.*what is stored with it is left out: ingest"):
        read = tolerant.table(table)
    assert read.num_rows == (4 if table == "steps" else 1)
    assert tolerant.table("values").num_rows == 2  # of the other log: from then on the damaged one has no rows
    assert store.table("steps", runs=[f"{B}-1"]).num_rows == 4  # nothing of the other log is opened


@pytest.mark.parametrize("name", [".lock", "steps", ".tmp"])
def test_what_is_in_the_way_in_a_store_is_named(store: Store, name: str) -> None:
    fill(store, A, {"values": 3})
    place = store.path / name
    if name == ".lock":
        place.unlink()
        place.mkdir()
    else:
        shutil.rmtree(place, ignore_errors=True)
        place.write_text("mine")
    with pytest.raises(StoreError, match=r"in the way(.|\n)*move it out of the store") as found:
        fill(store, B, {"steps": 1})
    assert str(place) in str(found.value)


@pytest.mark.parametrize("table", ["runs", "steps"])
@pytest.mark.parametrize("number", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_file_of_another_schema_is_refused(store: Store, table: str, number: int) -> None:
    """Its columns do not matter: the error is about the schema, also where a damaged file would be left out."""
    fill(store, A, {"steps": 3})
    rewrite(store, table, A, store.table(table).drop_columns(["run"]), number)
    message = rf"{table}/{A}.parquet: it has schema {number}; this perflog reads schema {SCHEMA_VERSION}"
    for opened in (store, Store(store.path, leaves_out_damage=True)):
        with pytest.raises(StoreError, match=message):
            opened.table(table)


def test_some_columns_of_a_table(tmp_path: Path) -> None:
    """Of all runs and of one, from the store and from memory, also of a table without rows."""
    read = perflog.read(SWEEP)
    read.save(tmp_path)
    stored = perflog.load(tmp_path)
    for log in (read, stored, read.select(2), stored.select(2)):
        some, whole = log.some_columns("steps", "step", "rank"), log.arrow("steps")
        assert some.column_names == ["run", "step", "rank"] and some.schema == whole.select(some.column_names).schema
        assert sorted(map(str, some.to_pylist())) == sorted(map(str, whole.select(some.column_names).to_pylist()))
        assert log.some_columns("events", "name").num_rows == 0
        assert log.row_counts["steps"] == whole.num_rows


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("table", ["runs", "steps"])
def test_what_is_no_file_is_damage(store: Store, table: str) -> None:
    """A pipe is not waited for, and the other log is read."""
    for log in (A, B):
        fill(store, log, {"steps": 3})
    file = store.path / table / f"{A}.parquet"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(StoreError):
        store.table("steps")
    with pytest.warns(DamageWarning, match=f"{table}/{A}.parquet: damaged"):
        assert Store(store.path, leaves_out_damage=True).table("steps").num_rows == 3
    fill(store, A, {"steps": 3})
    check_whole(store)


# What a batch lists


@pytest.mark.parametrize("damage", ["gone", "cut", "empty", "of another batch", "without a column", "not listed"])
def test_a_file_that_is_not_the_listed_one_is_damage(store: Store, damage: str) -> None:
    """It is told with its place and a cure, and the rest of the store is read."""
    fill(store, A, {"steps": 3})
    fill(store, B, {"steps": 4, "values": 2})
    table = "values" if damage == "not listed" else "steps"
    path, other = (store.path / table / f"{log}.parquet" for log in (A, B))
    if damage == "gone":
        path.unlink()
    elif damage == "without a column":
        pq.write_table(pq.read_table(path).drop_columns(["mfu"]), path)
    elif damage in ("cut", "empty"):
        path.write_bytes(path.read_bytes()[: 300 if damage == "cut" else 0])
    else:
        shutil.copy(other, path)
    with pytest.raises(StoreError, match=rf"{table}/{A}.parquet: damaged: .+(.|\n)*ingest the logs in it again"):
        store.table(table)
    with pytest.warns(DamageWarning, match=f"{table}/{A}.parquet: damaged"):
        assert set(Store(store.path, leaves_out_damage=True).table(table)["run"].to_pylist()) == {f"{B}-1"}
    if damage == "gone":
        with pytest.warns(DamageWarning, match=f"{table}/{A}.parquet: damaged: .+ is missing"):
            assert Store(store.path, leaves_out_damage=True).table("runs")["run"].to_pylist() == [f"{B}-1"]
    fill(store, A, {"steps": 3})
    check_whole(store)


@pytest.mark.parametrize("key", [b"files", b"logs", b"origins", b"footer_crc"])
def test_a_runs_file_without_one_of_its_texts_is_damaged(store: Store, key: bytes) -> None:
    fill(store, A, {"steps": 3})
    path = store.path / "runs" / f"{A}.parquet"
    file = pq.ParquetFile(path)
    texts = {name: text for name, text in file.metadata.metadata.items() if name != key}
    rows_of_runs = file.read()
    with pq.ParquetWriter(path, rows_of_runs.schema, store_schema=False) as writer:
        writer.write_table(rows_of_runs)
        writer.add_key_value_metadata(texts)
    if b"footer_crc" in texts:
        seal(path)
    with pytest.raises(StoreError, match=f"runs/{A}.parquet: damaged"):
        store.table("steps")


def test_a_flipped_bit_is_told_or_changes_nothing(store: Store) -> None:
    """Wherever it is in a file: footers have checksums too."""
    for log in (A, B):
        fill(store, log, {"steps": 3})

    def seen() -> list[Any]:
        now = Store(store.path)
        tables = [now.table(name, runs=runs).to_pylist() for name in ("runs", "steps") for runs in (None, [f"{A}-1"])]
        return [*tables, now.row_counts("steps"), now.logs(), now.origins(), now.ingested()]

    before, dice = seen(), random.Random(1)
    told = 0
    for name in ("runs", "steps"):
        path = store.path / name / f"{A}.parquet"
        whole = path.read_bytes()
        for _ in range(60):
            spoiled = bytearray(whole)
            spoiled[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
            path.write_bytes(spoiled)
            try:
                assert seen() == before
            except StoreError:
                told += 1
        path.write_bytes(whole)
    assert told > 80


@pytest.mark.parametrize("several", [False, True])
def test_a_batch_under_a_second_name_is_a_copy(store: Store, several: bool) -> None:
    """It is told once and not counted; the next ingest leaves one."""
    with store.write([A, B] if several else [A]) as out:
        for log in (A, B) if several else (A,):
            out.add("steps", rows("steps", f"{log}-1", 3))
            out.add("runs", rows("runs", f"{log}-1", 1, config="{'steps': 3}"))
    copy = "batch-0123" if several else f"{A}-copy"
    for path in store.path.glob("*/*.parquet"):
        shutil.copy(path, path.with_stem(copy))
    logs = store.logs()
    assert logs == ([A, B] if several else [A])
    with pytest.raises(StoreError, match=rf"runs/{copy}.parquet: a copy: log {A} is in .*(.|\n)*ingest this log again"):
        store.table("steps")
    tolerant = Store(store.path, leaves_out_damage=True)
    with pytest.warns(DamageWarning, match="a copy") as told:
        assert [tolerant.table(name).num_rows for name in ("runs", "steps")] == [len(logs), 3 * len(logs)]
    assert len(told) == 1
    store.compact()
    assert Store(store.path, leaves_out_damage=True).logs() == logs
    for log in logs:
        fill(store, log, {"steps": 3})
    check_whole(store)
    assert store.logs() == logs
