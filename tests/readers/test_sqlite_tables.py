"""Rows of SQLite tables decoded from the pages of the file, against what SQLite says of them."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.arrays import Ints
from perflog.errors import InputError
from perflog.parsing.input.source import open_source
from perflog.readers.databases.sqlite import Database, columns_of, odd_rows
from perflog.readers.databases.sqlite_tables import ODD, TablePages, TableQuery
from perflog.readers.events.interval_index import _changes_of_nested, _changes_one_by_one

if TYPE_CHECKING:
    import pyarrow as pa

QUERY = TableQuery("t", {"number": "a", "value": "b", "text": "c"})  # columns `value` are reals
TEXTS = ("text",)
KINDS = {"number": int, "value": (int, float), "text": str}

CELLS = st.one_of(
    st.none(),
    st.sampled_from([0, 1, -1, 127, -128, 32767, 1 << 23, -(1 << 23), 1 << 31, 1 << 47, -(1 << 47), (1 << 63) - 1]),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.text(max_size=80),
    st.binary(max_size=80),
)
TEXT_CELLS = st.one_of(st.none(), st.text(max_size=80), st.binary(max_size=80))
ROWS = st.tuples(CELLS, CELLS, TEXT_CELLS, CELLS)

Row = tuple[Any, ...]


def write(path: Path, rows: Sequence[Row], columns: str = "a, b, c, d", page_size: int = 4096) -> Path:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA page_size = {page_size}")
        db.execute(f"CREATE TABLE t ({columns})")
        db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns.split(',')))})", rows)
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)


def expected(path: Path, query: TableQuery = QUERY) -> list[tuple[Row, int]]:
    """The rows as SQLite gives them: None for a cell of another type; and the number of these."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(f"SELECT {', '.join(query.columns.values())} FROM {query.table} NOT INDEXED").fetchall()
    found = []
    for row in rows:
        cells: list[Any] = []
        odd = 0
        for name, cell in zip(query.columns, row, strict=True):
            if name == "text":
                odd += isinstance(cell, bytes)
                cells.append("" if cell is None or isinstance(cell, bytes) else str(cell))
            else:
                fits = cell is None or isinstance(cell, KINDS[name])  # type: ignore[arg-type]
                odd += not fits
                cells.append(None if cell is None or not fits else float(cell) if name == "value" else cell)
        found.append((tuple(cells), odd))
    return found


def read(path: Path, query: TableQuery = QUERY) -> tuple[list[tuple[Row, int]], dict[str, int], bool]:
    """The rows as they are read, the number of values in each column, and whether the pages of the table were read."""
    with closing(Database(str(path), open_source(str(path)))) as db:
        from_pages = isinstance(db._source_of(query, TEXTS), TablePages)
        rows = []
        for _, batch in db.batches([(None, query)], TEXTS):
            columns = columns_of(batch)
            cells = zip(*(cells_of(name, columns[name].to_pylist()) for name in query.columns), strict=True)
            odd = columns[ODD].to_pylist() if ODD in columns else [0] * batch.num_rows
            assert odd_rows(batch).tolist() == [number > 0 for number in odd]
            rows += list(zip(cells, odd, strict=True))
        return rows, db.counts_of_values(query.table), from_pages


def cells_of(name: str, cells: list[Any]) -> list[Any]:
    """Reals may come as integers."""
    return [None if cell is None else float(cell) for cell in cells] if name == "value" else cells


def values(path: Path, columns: Sequence[str]) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        counts = db.execute(f"SELECT {', '.join(f'count({name})' for name in columns)} FROM t").fetchone()
    return dict(zip(columns, counts, strict=True))


def no_sql(*_: object) -> None:
    raise AssertionError("SQLite was asked for rows")


@given(st.lists(ROWS, min_size=1, max_size=60), st.sampled_from([512, 4096, 65536]))
def test_any_cells_are_read_as_sqlite_reads_them(rows: list[Row], page_size: int) -> None:
    """Also records on several pages, with which SQLite has to help."""
    with TemporaryDirectory() as folder:
        path = write(Path(folder, "a.sqlite"), rows, page_size=page_size)
        found, counts, from_pages = read(path)
        assert found == expected(path)
        assert counts == values(path, "abcd")
        assert from_pages


def plain_rows(number: int, seed: int = 1) -> list[Row]:
    """Rows with numbers of all sizes, so that there are many shapes of them."""
    chance = random.Random(seed)
    sizes = (1, 7, 8, 15, 23, 31, 47, 62)

    def integer() -> int | None:
        size = chance.choice(sizes)
        return chance.choice((None, 0, 1, chance.randrange(-(1 << size), 1 << size)))

    return [(integer(), integer(), f"range {i % 7}" * (i % 5), integer()) for i in range(number)]


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_plain_rows_are_read_without_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page_size: int) -> None:
    monkeypatch.setattr(Database, "_cursor", no_sql)
    monkeypatch.setattr("perflog.readers.databases.sqlite._BATCH_ROWS", 500)
    path = write(tmp_path / "a.sqlite", plain_rows(5000), page_size=page_size)
    change(path, "DELETE FROM t WHERE rowid % 3 = 0", "UPDATE t SET d = 1 << 40 WHERE rowid % 11 = 0")
    found, counts, _ = read(path)
    assert len(found) == 3334 and found == expected(path)
    assert counts == values(path, "abcd")


@pytest.mark.parametrize("late", [0, 900], ids=["in the first batch", "late"])
def test_rows_on_several_pages_are_read_in_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int
) -> None:
    monkeypatch.setattr("perflog.readers.databases.sqlite._BATCH_ROWS", 100)
    rows = plain_rows(1500)
    rows[late] = (late, 2.5, "long" * 5000, None)
    path = write(tmp_path / "a.sqlite", rows)
    found, counts, from_pages = read(path)
    assert found == expected(path) and from_pages
    assert counts == values(path, "abcd")


def questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list to which each question to SQLite for rows is added."""
    asked: list[str] = []
    by_sql = TablePages._by_sql

    def noted(self: TablePages, where: str, run: Any) -> Iterator[pa.RecordBatch]:
        asked.append(where)
        return by_sql(self, where, run)

    monkeypatch.setattr(TablePages, "_by_sql", noted)
    return asked


def test_sqlite_is_asked_seldom_where_all_rows_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.sqlite", [(i, i, "x" * 900, i) for i in range(2000)], page_size=512)
    asked = questions(monkeypatch)
    found, counts, _ = read(path)
    assert found == expected(path) and counts == dict.fromkeys("abcd", 2000)
    assert 0 < len(asked) < 20


def test_rows_of_many_shapes_are_left_to_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at each shape takes longer, and memory."""
    path = write(tmp_path / "a.sqlite", [(i, None, "x" * i, None) for i in range(3000)], page_size=65536)
    asked = questions(monkeypatch)
    found, counts, _ = read(path)
    assert found == expected(path) and counts == values(path, "abcd")
    assert asked


def test_pages_out_of_order_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite looks for rows by their numbers: asked for the rest of the rows, it would miss some."""
    path = write(tmp_path / "a.sqlite", plain_rows(3000))
    data = bytearray(path.read_bytes())
    places = [page * 4096 for page in range(2, len(data) // 4096) if data[page * 4096] == 13]
    first, second = places[3], places[6]
    data[first : first + 4096], data[second : second + 4096] = data[second : second + 4096], data[first : first + 4096]
    path.write_bytes(data)
    monkeypatch.setattr("perflog.readers.databases.sqlite._BATCH_ROWS", 1)
    asked = questions(monkeypatch)
    with pytest.raises(InputError, match="the database is damaged: the numbers of its rows are out of order"):
        read(path)
    assert not asked


@pytest.mark.parametrize("row", range(0, 50, 7))
def test_no_row_is_lost_where_the_size_of_one_is_damaged(tmp_path: Path, row: int) -> None:
    """SQLite looks for rows by their numbers, of which the damaged one is another."""
    path = write(tmp_path / "a.sqlite", plain_rows(50))
    data = bytearray(path.read_bytes())
    page = 4096
    cell = page + int.from_bytes(data[page + 8 + 2 * row :][:2], "big")
    data[cell : cell + 2] = b"\xff\x7f"
    path.write_bytes(data)
    with suppress(InputError):
        assert len(read(path)[0]) == 50


def test_a_cell_larger_than_any_is_left_to_sqlite(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", [(5, 6.5, "x", 7)])
    data = bytearray(path.read_bytes())
    header = bytes([13, 1, 1]) + b"\xff" * 9 + bytes([1])
    row = bytes([len(header) + 3, 1]) + header + b"\x05\x06\x07"
    page, place = 4096, 2000
    data[page + place : page + place + len(row)] = row
    data[page + 8 : page + 10] = place.to_bytes(2, "big")
    path.write_bytes(data)
    with pytest.raises(InputError, match="the database is damaged"):
        read(path)


def test_rows_that_share_their_bytes_are_left_to_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a page may hold thousands of times its size."""
    path = write(tmp_path / "a.sqlite", [(1, 2.5, "y" * 16000, 3)], page_size=65536)
    data, page, count = bytearray(path.read_bytes()), 65536, 100
    data[page + 3 : page + 5] = count.to_bytes(2, "big")
    data[page + 8 : page + 8 + 2 * count] = data[page + 8 : page + 10] * count
    path.write_bytes(data)
    asked = questions(monkeypatch)
    found, *_ = read(path)
    assert len(found) == count and found == expected(path)
    assert asked


def test_rows_from_before_the_first_number(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", plain_rows(50))
    numbers = (-(1 << 63), -5, (1 << 63) - 1)
    change(path, *(f"INSERT INTO t (rowid, a, c) VALUES ({number}, 7, 'x')" for number in numbers))
    found, *_ = read(path)
    assert found == expected(path) and found[0] == ((7, None, "x"), 0) and len(found) == 53


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE t (a INTEGER PRIMARY KEY, b, c, d)", "INSERT INTO t (b, c) VALUES (1, 'x'), (2, 'y')"],
        ["CREATE TABLE t (a, b, c, PRIMARY KEY (c)) WITHOUT ROWID", "INSERT INTO t VALUES (1, 2, 'x'), (3, 4, 'w')"],
        ["CREATE TABLE t (a REAL, b, c)", "INSERT INTO t VALUES (1, 2, 'x'), (NULL, 4, 'w')"],
        ["CREATE TABLE t (a, b, c, _ROWID_)", "INSERT INTO t VALUES (1, 2, 'x', 5), (3, 4, 'w', 5)"],
        ["CREATE TABLE t (a, b, c, d AS (a + 1))", "INSERT INTO t VALUES (1, 2, 'x'), (3, 4, 'w')"],
        ["PRAGMA encoding = 'UTF-16le'", "CREATE TABLE t (a, b, c)", "INSERT INTO t VALUES (1, 2, 'xü')"],
    ],
    ids=["number of the row", "index", "reals stored as integers", "name of the number", "computed", "UTF-16"],
)
def test_tables_that_pages_do_not_tell_are_read_by_sqlite(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "a.sqlite"
    change(path, *statements)
    found, _, from_pages = read(path)
    assert found == expected(path) and not from_pages


def test_rows_from_before_a_column_was_added_have_its_default(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", [(i, i, "x") for i in range(5000)], "a, b, c")
    change(path, "ALTER TABLE t ADD COLUMN d DEFAULT 7", "INSERT INTO t VALUES (1, 2, 'y', NULL)")
    query = TableQuery("t", {"number": "d", "text": "c"})
    found, counts, _ = read(path, query)
    assert found == expected(path, query) and found[0] == ((7, "x"), 0)
    assert counts == values(path, "abcd")


@pytest.mark.parametrize("byte", [0, 3])
def test_a_damaged_page_is_an_error(tmp_path: Path, byte: int) -> None:
    path = write(tmp_path / "a.sqlite", plain_rows(3000))
    data = bytearray(path.read_bytes())
    place = 9 * 4096 + byte
    assert data[9 * 4096] == 13
    data[place] = 0xFF
    path.write_bytes(data)
    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.DatabaseError, match="malformed"):
        db.execute("SELECT * FROM t").fetchall()
    with pytest.raises(InputError, match="the database is damaged"):
        read(path)


def test_a_program_that_writes_waits_until_the_file_is_read(tmp_path: Path) -> None:
    """Else pages of two states of the file would be read."""
    path = write(tmp_path / "a.sqlite", plain_rows(100))
    writing = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], timeout=0); db.execute('UPDATE t SET a = 7'); "
    command = [sys.executable, "-c", f"{writing}db.commit()", str(path)]
    with closing(Database(str(path), open_source(str(path)))) as db:
        writer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "database is locked" in writer.stderr
        assert db.count("t") == 100
    subprocess.run(command, check=True)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=12))
def test_changes_of_nested_intervals_are_those_one_by_one(intervals: list[tuple[int, int]]) -> None:
    ordered = sorted(((begin, begin + length) for begin, length in intervals), key=lambda pair: (pair[0], -pair[1]))
    begins, ends = (np.array([pair[i] for pair in ordered], np.int64) for i in range(2))
    codes = np.arange(len(ordered))
    changes = _changes_of_nested(begins, ends, codes)
    overlap = any(a < c < b < d for a, b in ordered for c, d in ordered)
    assert (changes is None) == overlap
    if changes is not None:
        one_by_one = _changes_one_by_one(begins, ends, codes)
        assert _last_of_each(changes[0], changes[1]) == _last_of_each(one_by_one[0], one_by_one[1])
        assert changes[2].tolist() == one_by_one[2].tolist()


def _last_of_each(times: Ints, codes: Ints) -> dict[int, int]:
    return dict(zip(times.tolist(), codes.tolist(), strict=True))
