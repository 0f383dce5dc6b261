"""Files of SQLite: their tables, counts of values, and the values of batches; a cell of another type is no value."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.databases import sqlite
from perflog.readers.databases.sqlite import (
    ODD,
    Database,
    columns_of,
    integers,
    is_sqlite,
    odd_rows,
    query_of,
    reals,
    text_codes,
    values_of_rows,
)
from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.string_interning import StringInterner
from perflog.tables.sink import MemorySink

Opened = Callable[..., Database]
SMALLEST = -(2**63)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sqlite"


@pytest.fixture
def opened(path: Path) -> Iterator[Opened]:
    """A function that runs statements and opens the database that they make, after it has closed the last one."""
    with ExitStack() as stack:

        def database(*statements: str) -> Database:
            stack.close()
            with closing(sqlite3.connect(path)) as db, db:
                for statement in statements:
                    db.execute(statement)
            return stack.enter_context(closing(Database(str(path), Source("mine", str(path)))))

        yield database


# --- values of batches -----------------------------------------------------------------------------------------------


def batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def test_integers_of_a_column() -> None:
    column = pa.array([9, 5, None, -3], pa.int64())
    assert integers(column, 4).tolist() == [9, 5, MISSING, -3]
    assert integers(column.slice(1), 3).tolist() == [5, MISSING, -3]
    assert integers(column.slice(3), 1).tolist() == [-3]
    assert integers(None, 2).tolist() == integers(pa.array([1.5, 2.5]), 2).tolist() == [MISSING] * 2
    assert integers(pa.array([], pa.int64()), 0).tolist() == []


def test_reals_of_a_column() -> None:
    column = pa.array([9.5, 5.5, None, -3.5], pa.float64())
    assert reals(column.slice(1), 3).tolist() == [5.5, pytest.approx(np.nan, nan_ok=True), -3.5]
    assert reals(column.slice(3), 1).tolist() == [-3.5]
    assert reals(pa.array([7, 1, 2], pa.int64()).slice(1), 2).tolist() == [1.0, 2.0]
    assert np.isnan(reals(pa.array([1, None], pa.int64()), 2)).tolist() == [False, True]
    assert np.isnan(reals(None, 2)).tolist() == np.isnan(reals(pa.array(["a", "b"]), 2)).tolist() == [True, True]


def test_codes_of_strings() -> None:
    interner = StringInterner()
    interner.code("known")
    codes = text_codes(pa.array(["x", "new", "", "known", "new"]).slice(1), interner)
    assert codes is not None and codes.tolist() == [1, -1, 0, 1] and interner.texts == ["known", "new"]
    assert text_codes(None, interner) is text_codes(pa.array([1]), interner) is None


def test_rows_with_odd_cells() -> None:
    whole = batch(a=pa.array([1, 2, 3]))
    assert odd_rows(whole).tolist() == [False] * 3
    odd = whole.append_column(ODD, pa.array([0, 2, 1]))
    assert odd_rows(odd).tolist() == [False, True, True]


def test_values_of_odd_rows_are_those_of_some_columns_and_the_odd_cells() -> None:
    odd = batch(a=pa.array([1, None, None]), b=pa.array([1, 2, None]), c=pa.array([1, 1, 1])).append_column(
        ODD, pa.array([0, 2, 1])
    )
    mask = np.array([False, True, True])
    assert values_of_rows(odd, mask, ("a", "b")) == [3, 1]
    assert values_of_rows(odd, mask, ()) == [2, 1]
    assert odd.column(ODD).to_pylist() == [0, 2, 1]
    assert list(columns_of(odd)) == ["a", "b", "c", ODD]


# --- a database -------------------------------------------------------------------------------------------------------


def test_a_database_begins_with_its_magic_bytes(path: Path, opened: Opened) -> None:
    opened("CREATE TABLE t (a)")
    assert is_sqlite(Source("a", str(path)))
    path.with_name("b").write_bytes(path.read_bytes()[:15] + b"1")
    assert not is_sqlite(Source("b", str(path.with_name("b"))))


def test_tables_and_their_columns(opened: Opened) -> None:
    database = opened(
        'CREATE TABLE "a ""b""" (x INTEGER NOT NULL, "y z")', "CREATE TABLE e (a)", "CREATE VIEW v AS SELECT 1 AS a",
        "CREATE VIRTUAL TABLE f USING fts5(a)",
    )  # fmt: skip
    assert {name: database.tables[name] for name in database.tables if not name.startswith("f_")} == {
        'a "b"': ("x", "y z"), "e": ("a",)
    }  # fmt: skip
    assert database.name == "mine" and database.count("e") == 0


def test_values_of_columns_are_counted(opened: Opened) -> None:
    database = opened(
        "CREATE TABLE t (a, b NOT NULL, c, d)", "INSERT INTO t VALUES (1, 2, NULL, 3), (NULL, 2, NULL, 4)"
    )
    assert list(database.counts_of_values("t").items()) == [("b", 2), ("a", 1), ("c", 0), ("d", 2)]
    assert database.counts_of_values("t", ("a", "b")) == {"b": 2, "c": 0, "d": 2}


def test_an_error_of_sqlite_is_damage(opened: Opened) -> None:
    database = opened("CREATE TABLE t (a)")
    with pytest.raises(InputError, match="the database is damaged: no such table: other"):
        database.rows("SELECT * FROM other")
    with pytest.raises(InputError, match="the database is damaged"):
        list(database.batches([("key", "SELECT * FROM other")]))
    assert database.rows("SELECT ? + 1", 4) == [(5,)]


def test_the_rows_of_several_queries_have_their_keys(opened: Opened) -> None:
    database = opened("CREATE TABLE t (a)", "CREATE TABLE e (a)", "INSERT INTO t VALUES (1), (2)")
    queries = [(0, "SELECT a FROM t"), (1, "SELECT a FROM e"), (2, query_of("t", {"a": "a"}))]
    found = [(key, rows.column(0).to_pylist()) for key, rows in database.batches(queries)]
    assert found == [(0, [1, 2]), (2, [1, 2])]  # a batch without rows is left out


def test_rows_need_not_be_read_to_their_end(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_BATCH_ROWS", 1)
    database = opened("CREATE TABLE t (a)", "INSERT INTO t VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9)")
    batches = database.batches([(0, "SELECT a FROM t")])
    assert next(batches)[1].num_rows == 1
    batches.close()  # type: ignore[attr-defined]
    assert database.count("t") == 9


@pytest.mark.parametrize(
    ("column", "cells", "values", "odd"),
    [
        ("a", "(1), (NULL), (2.5), ('x'), (x'00')", [1, None, None, None, None], [0, 0, 1, 1, 1]),
        ("value", "(1), (NULL), (2.5), ('x'), (x'00')", [1.0, None, 2.5, None, None], [0, 0, 0, 1, 1]),
        ("text", "('y'), (''), (2.5), (7), (x'00ff'), ('z')", ["y", "", "2.5", "7", "", "z"], [0, 0, 0, 0, 1, 0]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("late", [True, False])
def test_a_cell_of_another_type_is_odd(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, late: bool, column: str, cells: str, values: list[Any],
    odd: list[int],
) -> None:  # fmt: skip
    """By SQL, in the first batch and in a later one."""
    monkeypatch.setattr(sqlite, "_BATCH_ROWS", 1 if late else 100)
    database = opened(f"CREATE TABLE t ({column})", f"INSERT INTO t VALUES {cells}")
    batches = [read for _, read in database.batches([(0, f"SELECT {column} FROM t")], ("text",))]
    assert [value for read in batches for value in read.column(0).to_pylist()] == values
    assert [flag for read in batches for flag in odd_rows(read).tolist()] == [bool(number) for number in odd]


def test_another_error_of_the_driver_is_raised() -> None:
    class Reader:
        schema = pa.schema([("a", pa.int64())])

        def __iter__(self) -> Iterator[Any]:
            raise OSError("disk I/O error")

    cursor = SimpleNamespace(execute=lambda query: None, fetch_record_batch=Reader)
    with pytest.raises(OSError, match="disk"):
        list(Database._typed_batches(cursor, "SELECT a FROM t", ()))


# --- files beside it --------------------------------------------------------------------------------------------------


def test_a_file_that_sqlite_would_write_beside_is_opened_as_it_is(path: Path, opened: Opened) -> None:
    assert opened("CREATE TABLE t (a)").uri.endswith("a.sqlite?mode=ro")
    assert opened("PRAGMA journal_mode = WAL").uri.endswith("a.sqlite?immutable=1")
    assert [file.name for file in path.parent.iterdir()] == ["a.sqlite"]


def test_the_last_changes_are_read_in_a_copy(path: Path, opened: Opened, tmp_path: Path) -> None:
    opened("CREATE TABLE t (a)", "PRAGMA journal_mode = WAL")
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO t VALUES (1)")
        db.commit()
        for ending in ("", "-wal"):
            shutil.copyfile(f"{path}{ending}", f"{other}{ending}")
    before = {file.name: file.read_bytes() for file in tmp_path.glob("other*")}
    with closing(Database(str(other), Source("mine", str(other)))) as database:
        assert database.count("t") == 1 and "other" not in database.uri
    assert {file.name: file.read_bytes() for file in tmp_path.glob("other*")} == before


def test_a_schema_that_leads_to_itself_is_damage(path: Path) -> None:
    data = bytearray(b"SQLite format 3\0".ljust(1024, b"\0"))
    data[16], data[100], data[111] = 2, 5, 1  # pages of 512 bytes; the first one leads to itself
    path.write_bytes(data)
    with pytest.raises(InputError, match="a page of it is referenced several times"):
        Database(str(path), Source("mine", str(path)))


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_a_copy_is_read_only_where_there_are_changes_beside_it(path: Path, opened: Opened, ending: str) -> None:
    beside = path.with_name(path.name + ending)
    opened("CREATE TABLE t (a)")
    beside.write_bytes(b"")
    source = Source("mine", str(path))
    assert sqlite._copy_with_changes(path, source) is None and source.warnings == []
    beside.write_bytes(b"x")
    folder = sqlite._copy_with_changes(path, source)
    assert folder is not None
    with folder as name:
        assert {file.name: file.read_bytes() for file in Path(name).iterdir()} == {
            "copy.sqlite": path.read_bytes(), f"copy.sqlite{ending}": b"x"
        }  # fmt: skip
    (warning,) = source.warnings
    assert warning.endswith({"-wal": "in its -wal file was read too", "-journal": "as its -journal file says"}[ending])


def test_a_copy_without_room_is_an_error(path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    opened("CREATE TABLE t (a)")
    path.with_name(f"{path.name}-wal").write_bytes(b"x")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(InputError, match="no copy of it and its -wal: No space left on device"):
        sqlite._copy_with_changes(path, Source("mine", str(path)))


def test_a_database_that_cannot_be_opened_is_closed(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0".ljust(512, b"\0"))
    with pytest.raises(InputError, match="the database is damaged"):
        Database(str(path), Source("mine", str(path)))


def test_steps_that_a_query_may_take_grow_with_the_file(opened: Opened, path: Path) -> None:
    assert opened("CREATE TABLE t (a)")._calls_a_query == 100
    database = opened(f"INSERT INTO t VALUES (zeroblob({1 << 20}))")
    assert database._calls_a_query == 200
    database._calls_left = 1
    assert [database._has_done_too_much() for _ in range(2)] == [False, True]


def test_the_writer_of_a_run_has_the_warnings_of_its_log(path: Path) -> None:
    path.write_bytes(b"x")
    source = Source("mine", str(path))
    seen: list[Source] = []

    def opening(log: Source) -> Any:
        seen.append(log)
        return ExitStack()

    with sqlite.open_with_writer(source, "of mine", MemorySink(), opening) as (_, new_writer):
        ingested = new_writer().ingested
        source.warnings.append("later")
    assert (ingested.log, ingested.sha256, ingested.formats, ingested.warnings) == (
        "mine", source.digest(), ["of mine"], ["later"]
    )  # fmt: skip
    assert seen == [source]


def test_queries_name_columns_and_expressions() -> None:
    """Strings have no nulls. An index would give rows in another order."""
    query = query_of('a"b', {"id": "x", "name": "y"}, {"name"}, {"size": "max(x)"})
    assert query == """SELECT "x" AS "id", ifnull("y", '') AS "name", max(x) AS "size" FROM "a""b" NOT INDEXED"""


def test_columns_are_counted_in_the_order_of_the_table(opened: Opened) -> None:
    """Columns that cannot be null are not read: they come first. The order is the same in every process."""
    names = [f"c{i}" for i in range(12)]
    columns = ", ".join(f"{name} INTEGER NOT NULL" for name in names)
    database = opened(
        f"CREATE TABLE t ({columns}, late, later)", f"INSERT INTO t VALUES ({', '.join('1' for _ in names)}, NULL, 2)"
    )
    assert list(database.counts_of_values("t").items()) == [*((n, 1) for n in names), ("late", 0), ("later", 1)]
