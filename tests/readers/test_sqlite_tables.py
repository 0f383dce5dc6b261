"""Rows of SQLite tables in batches, against what SQLite says of them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.arrays import Ints
from perflog.errors import InputError
from perflog.parsing.input.source import open_source
from perflog.readers.databases.sqlite import ODD, Database, columns_of, odd_rows, query_of
from perflog.readers.events.interval_index import _changes_of_nested, _changes_one_by_one

COLUMNS = {"number": "a", "value": "b", "text": "c"}  # columns `value` are reals
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


def write(path: Path, rows: Sequence[Row]) -> Path:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE t (a, b, c, d)")
        db.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    return path


def expected(path: Path) -> list[tuple[Row, int]]:
    """The rows as SQLite gives them: None for a cell of another type; and the number of these."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT a, b, c FROM t NOT INDEXED").fetchall()
    found = []
    for row in rows:
        cells: list[Any] = []
        odd = 0
        for name, cell in zip(COLUMNS, row, strict=True):
            if name == "text":
                odd += isinstance(cell, bytes)
                cells.append("" if cell is None or isinstance(cell, bytes) else str(cell))
            else:
                fits = cell is None or isinstance(cell, KINDS[name])  # type: ignore[arg-type]
                odd += not fits
                cells.append(None if cell is None or not fits else float(cell) if name == "value" else cell)
        found.append((tuple(cells), odd))
    return found


def read(path: Path) -> list[tuple[Row, int]]:
    """The rows as they are read, with the number of odd cells of each."""
    with closing(Database(str(path), open_source(str(path)))) as db:
        rows = []
        for _, batch in db.batches([(None, query_of("t", COLUMNS, TEXTS))], TEXTS):
            columns = columns_of(batch)
            cells = zip(*(cells_of(name, columns[name].to_pylist()) for name in COLUMNS), strict=True)
            odd = columns[ODD].to_pylist() if ODD in columns else [0] * batch.num_rows
            assert odd_rows(batch).tolist() == [number > 0 for number in odd]
            rows += list(zip(cells, odd, strict=True))
        return rows


def cells_of(name: str, cells: list[Any]) -> list[Any]:
    """Reals may come as integers."""
    return [None if cell is None else float(cell) for cell in cells] if name == "value" else cells


@given(st.lists(ROWS, min_size=1, max_size=60))
def test_any_cells_are_read_as_sqlite_reads_them(rows: list[Row]) -> None:
    with TemporaryDirectory() as folder:
        path = write(Path(folder, "a.sqlite"), rows)
        assert read(path) == expected(path)


def test_rows_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", [(number * 37 % 100, number, "x", None) for number in range(100)])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE INDEX i ON t (a, b, c)")  # holds all that the query asks for
    assert [row[1] for row, _ in read(path)] == list(range(100))


def test_a_damaged_page_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.sqlite", [(number, number, "x" * 20, number) for number in range(3000)])
    data = bytearray(path.read_bytes())
    assert data[9 * 4096] == 13
    data[9 * 4096] = 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match="the database is damaged"):
        read(path)


def test_a_program_that_writes_waits_until_the_file_is_read(tmp_path: Path) -> None:
    """Else rows of two states of the file would be read."""
    path = write(tmp_path / "a.sqlite", [(number, None, "x", None) for number in range(100)])
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
