"""Databases as an attack or a killed program leaves them: odd cells, views, changes that stand beside the file."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from support.nsys_files import STRINGS, call, kernel, write_export, write_tables
from support.rocpd_files import sample_process, write_database

import perflog
from perflog.errors import InputError
from perflog.parsing.input.source import open_source
from perflog.readers.databases.sqlite import Database
from perflog.readers.databases.sqlite_pages import Pages

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def export(path: Path, number: int = 100) -> Path:
    kernels = [kernel(1000 * i, 1000 * i + 600, correlationId=i) for i in range(number)]
    calls = [call(1000 * i - 50, 1000 * i, i) for i in range(1, number)]
    return write_tables(path, {"StringIds": STRINGS, KERNELS: kernels, "CUPTI_ACTIVITY_KIND_RUNTIME": calls})


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


@pytest.mark.parametrize(("odd", "value"), [(34, "start + 0.5"), (293, "x'00ff'")], ids=["in the first batch", "late"])
def test_an_odd_cell_costs_its_event_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: int, value: str
) -> None:
    """The driver would make reals of the times around it, which are not exact, or give up."""
    monkeypatch.setattr("perflog.readers.databases.sqlite._BATCH_ROWS", 64)
    path = export(tmp_path / "a.sqlite", 300)
    whole = perflog.read(path).arrow("events").to_pylist()
    change(path, f"UPDATE {KERNELS} SET start = {value} WHERE correlationId = {odd}")
    log = perflog.read(path)
    expected = [row for row in whole if (row["kind"], row["correlation"]) != ("kernel", odd)]
    differing = ("run", "step", "range")
    names = [name for name in expected[0] if name not in differing]
    events = log.arrow("events").to_pylist()
    assert [[row[name] for name in names] for row in events] == [[row[name] for name in names] for row in expected]
    assert log.line_account == {"total": len(whole), "read": len(whole) - 1, "context": 0, "unread": 1}
    assert log.figure_account["unread"] == 7  # the values of the row that a table would take
    shapes = {row["shape"]: row["count"] for row in log.arrow("lines").to_pylist() if row["status"] == "unread"}
    assert shapes == {f"{KERNELS}: a cell of another type": 1}


def test_a_blob_among_texts_costs_its_range_only(tmp_path: Path) -> None:
    ranges = [
        {"start": i, "end": i + 5, "eventType": 59, "globalTid": 1, "textId": None, "text": f"range {i}"}
        for i in range(9)
    ]
    path = write_tables(tmp_path / "a.sqlite", {"NVTX_EVENTS": ranges})
    change(path, "UPDATE NVTX_EVENTS SET text = x'00ff' WHERE start = 4")
    names = perflog.read(path).arrow("events")["name"].to_pylist()
    assert names == [f"range {i}" for i in range(9) if i != 4]


def test_odd_cells_of_a_database_of_rocm(tmp_path: Path) -> None:
    path = write_database(tmp_path / "a.db", sample_process())
    whole = perflog.read(path).arrow("events").to_pylist()
    with closing(sqlite3.connect(path)) as db:
        (table,) = (name for (name,) in db.execute("SELECT name FROM sqlite_master") if "kernel_dispatch" in name)
        columns = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
        (first,) = db.execute(f"SELECT min(rowid) FROM {table}").fetchone()
    time = "end" if "end" in columns else "end_id"
    change(path, f"UPDATE {table} SET \"{time}\" = 'later' WHERE rowid = {first}")
    log = perflog.read(path)
    assert len(log.arrow("events")) == len(whole) - 1
    assert log.line_account["unread"] == 1


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i + 1 AS end FROM n"
LARGE = f"SELECT a.start AS start, b.end AS end FROM {', '.join(f'{KERNELS} {name}' for name in 'abcdefgh')}"


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW CUBLAS_EVENTS AS {ENDLESS}",
        f"CREATE VIEW MPI_OTHER_EVENTS AS {LARGE}",
        "CREATE VIRTUAL TABLE OSRT_API USING fts5(start, end, nameId)",
    ],
    ids=["endless view", "large view", "virtual table"],
)
def test_what_a_file_computes_is_not_read(tmp_path: Path, statement: str) -> None:
    path = export(tmp_path / "a.sqlite")
    before = perflog.read(path).arrow("events").num_rows
    change(path, statement)
    assert perflog.read(path).arrow("events").num_rows == before


def written_ahead(path: Path) -> None:
    """A program writes on, and its last rows stand in the -wal file."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"INSERT INTO {KERNELS} SELECT * FROM {KERNELS} LIMIT 5")
        db.commit()
        keep_beside(path, "-wal")


def interrupted(path: Path) -> None:
    """A program was killed in a transaction that it had begun to write into the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN")
        db.execute(f"UPDATE {KERNELS} SET start = 7")
        keep_beside(path, "-journal")
        db.execute("ROLLBACK")


def keep_beside(path: Path, ending: str) -> None:
    """Copy the file and what stands beside it, as a killed program leaves them."""
    copy = path.with_name("left.sqlite")
    for name in ("", ending):
        shutil.copyfile(f"{path}{name}", f"{copy}{name}")


@pytest.mark.parametrize(("leave", "more"), [(written_ahead, 5), (interrupted, 0)])
def test_changes_beside_a_file_are_read_or_undone(tmp_path: Path, leave: Callable[[Path], None], more: int) -> None:
    path = export(tmp_path / "a.sqlite", 500)
    whole = [row["start_ns"] for row in perflog.read(path).arrow("events").to_pylist() if row["kind"] == "kernel"]
    leave(path)
    left = {name: name.read_bytes() for name in tmp_path.glob("left.sqlite*")}
    log = perflog.read(tmp_path / "left.sqlite")
    starts = [row["start_ns"] for row in log.arrow("events").to_pylist() if row["kind"] == "kernel"]
    assert starts == whole + whole[:more]
    assert "a program was writing to it, or was killed" in log.warnings[0]
    assert {name: name.read_bytes() for name in tmp_path.glob("left.sqlite*")} == left


def test_nothing_is_left_beside_a_file_that_was_written_ahead(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a.sqlite")
    change(path, "PRAGMA journal_mode = WAL")
    assert [file.name for file in tmp_path.iterdir()] == ["a.sqlite"]
    assert perflog.read(path).arrow("events").num_rows == 5
    assert [file.name for file in tmp_path.iterdir()] == ["a.sqlite"]


def test_a_number_of_a_name_may_be_huge(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite", 5)
    change(
        path, f"UPDATE {KERNELS} SET demangledName = 9223372036854775807, shortName = 1 << 40 WHERE correlationId = 3"
    )
    names = [row["name"] for row in perflog.read(path).arrow("events").to_pylist() if row["kind"] == "kernel"]
    assert names.count("gemm(float*)") == 4 and len(names) == 5


@pytest.mark.parametrize("column", ["product_name", "name"])
def test_a_device_of_rocm_may_be_named_by_a_number(tmp_path: Path, column: str) -> None:
    path = write_database(tmp_path / "a.db", sample_process())
    with closing(sqlite3.connect(path)) as db:
        (table,) = (name for (name,) in db.execute("SELECT name FROM sqlite_master") if "info_agent" in name)
    change(path, f'UPDATE "{table}" SET product_name = NULL')
    change(path, f'UPDATE "{table}" SET "{column}" = 5')
    assert perflog.read(path).arrow("runs")["device"].to_pylist() == ["5"]


def edit_schema(path: Path, name: str, sql: str) -> None:
    """Give a table of a database another text in its schema, as an attacker would."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, name))


def test_a_view_that_says_it_is_a_table_is_not_run(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE CUBLAS_EVENTS (start, end, eventClass, globalTid)")
    columns = "start, 1 AS end, 1 AS eventClass, 1 AS globalTid"
    rows = "WITH RECURSIVE r(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM r)"
    edit_schema(path, "CUBLAS_EVENTS", f"CREATE VIEW CUBLAS_EVENTS AS {rows} SELECT {columns} FROM r")
    with pytest.raises(InputError, match="malformed database schema"):
        perflog.read(path)


def test_what_a_column_computes_is_not_read(tmp_path: Path) -> None:
    path = export(tmp_path / "a.sqlite")
    whole = perflog.read(path).arrow("events").drop_columns("run")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"ALTER TABLE {KERNELS} ADD gridZ INT AS (length(hex(zeroblob(900000000)))) VIRTUAL")
    assert perflog.read(path).arrow("events").drop_columns("run").equals(whole)


def lead_in_circles(path: Path, root: int) -> None:
    """Let a tree have twelve levels of inner pages, of which each names the next one 61 times: over 10^21 rows."""
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    header = 100 if root == 1 else 0
    count = len(data) // size
    first = (root - 1) * size
    below = range(count + 1, count + 13)
    leaf = data[first + header : first + size]
    is_index = leaf[0] == 10
    data += bytes(12 * size)
    for page, child in zip([root, *below[:-1]], below, strict=True):
        at = 100 if page == 1 else 0
        keys = [b"\x02\x02\x01" if is_index else bytes([key]) for key in range(1, 61)]
        cells = b"".join(child.to_bytes(4, "big") + key for key in keys)
        length = 4 + len(keys[0])
        pointers = b"".join((size - length * key).to_bytes(2, "big") for key in range(60, 0, -1))
        kind = bytes([2 if is_index else 5, 0, 0, 0, 60]) + (size - len(cells)).to_bytes(2, "big") + bytes([0])
        inner = kind + child.to_bytes(4, "big") + pointers
        data[(page - 1) * size + at : page * size] = inner.ljust(size - at - len(cells), b"\0") + cells
    data[(below[-1] - 1) * size : below[-1] * size] = leaf.ljust(size, b"\0")
    data[28:32] = (len(data) // size).to_bytes(4, "big")
    path.write_bytes(data)


@pytest.mark.parametrize("tree", ["schema", KERNELS, "StringIds", "an index"])
def test_pages_that_lead_to_one_another_are_damage(tmp_path: Path, tree: str) -> None:
    path = export(tmp_path / "a.sqlite", 20)
    root = 1
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f'CREATE INDEX "an index" ON {KERNELS} (start)')
        if tree != "schema":
            ((root,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (tree,))
    lead_in_circles(path, root)
    with pytest.raises(InputError, match="a page of it is referenced several times"):
        perflog.read(path)


def test_the_pages_of_a_copy_are_looked_at(tmp_path: Path) -> None:
    """A copy is read where the last changes stand in a file beside it."""
    path = export(tmp_path / "a.sqlite", 20)
    with closing(sqlite3.connect(path)) as db:
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (KERNELS,))
    lead_in_circles(path, root)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("CREATE TABLE other (a)")
        path.with_name("b.sqlite").write_bytes(path.read_bytes())
        wal = path.with_name("a.sqlite-wal").read_bytes()
    assert len(wal) > 1000
    path.with_name("b.sqlite-wal").write_bytes(wal)
    with pytest.raises(InputError, match="a page of it is referenced several times"):
        perflog.read(path.with_name("b.sqlite"))


@pytest.mark.parametrize(("page_size", "vacuum"), [(512, "FULL"), (4096, "INCREMENTAL"), (65536, "NONE")])
def test_honest_pages_are_trees(tmp_path: Path, page_size: int, vacuum: str) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA page_size = {page_size}")
        db.execute(f"PRAGMA auto_vacuum = {vacuum}")
        db.execute("CREATE TABLE a (b INTEGER PRIMARY KEY, c TEXT UNIQUE, d)")
        db.execute("CREATE TABLE w (b TEXT PRIMARY KEY, c) WITHOUT ROWID")
        rows = [(f"name {number * 7919 % 20_011}" * (number % 9), number) for number in range(9_000)]
        db.executemany("INSERT OR IGNORE INTO a (c, d) VALUES (?, ?)", rows)
        db.executemany("INSERT OR IGNORE INTO w VALUES (?, ?)", rows)
        db.execute("DELETE FROM a WHERE b % 3 = 0")
        db.commit()
        roots = [root for (root,) in db.execute("SELECT rootpage FROM sqlite_master")]
    with closing(Pages(path)) as pages:
        assert pages.are_trees([1, *roots])
        assert not pages.are_trees([1, *roots, inner_child(path, roots[0])])


def inner_child(path: Path, root: int) -> int:
    """The page of the last child of a root that has some."""
    data = path.read_bytes()
    size = int.from_bytes(data[16:18], "big")
    size = 65536 if size == 1 else size
    page = data[(root - 1) * size : root * size]
    assert page[0] == 5
    return int.from_bytes(page[8:12], "big")


def test_an_agent_of_rocm_without_a_number_is_no_device(tmp_path: Path) -> None:
    path = write_database(tmp_path / "a.db", sample_process())
    with closing(sqlite3.connect(path)) as db:
        (table,) = (name for (name,) in db.execute("SELECT name FROM sqlite_master") if "info_agent" in name)
    change(path, f'ALTER TABLE "{table}" RENAME COLUMN id TO other')
    assert set(perflog.read(path).arrow("events")["device"].to_pylist()) == {None}


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE {} RENAME COLUMN value TO other", "UPDATE {} SET tag = x'00ff'", "UPDATE {} SET value = x'00ff'"],
)
def test_odd_metadata_of_rocm(tmp_path: Path, statement: str) -> None:
    path = write_database(tmp_path / "a.db", sample_process())
    events = perflog.read(path).arrow("events").num_rows
    with closing(sqlite3.connect(path)) as db:
        (table,) = (name for (name,) in db.execute("SELECT name FROM sqlite_master") if "metadata" in name)
    change(path, statement.format(f'"{table}"'))
    assert perflog.read(path).arrow("events").num_rows == events


def test_a_large_database_is_read(tmp_path: Path) -> None:
    """The number of steps that a query may do is larger than SQLite counts in one go."""
    path = export(tmp_path / "a.sqlite")
    change(path, "CREATE TABLE other (content)")
    change(path, f"INSERT INTO other VALUES (zeroblob({25 << 20}))")
    assert len(perflog.read(path).arrow("events")) == 199


def test_a_query_ends_when_it_does_far_more_than_the_file_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perflog.readers.databases.sqlite._CALLS_A_MEBIBYTE", 2)
    path = str(export(tmp_path / "a.sqlite"))
    database = Database(path, open_source(path))
    with closing(database):
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        for _ in range(2):
            with pytest.raises(InputError, match="interrupted"):
                database.rows(endless)
            assert database.count(KERNELS) == 100
