"""Rows of a SQLite table decoded from its pages: cells of all types and sizes, and what is left to SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perflog.arrays import Bytes
from perflog.readers.databases.sqlite_pages import Pages
from perflog.readers.databases.sqlite_records import INTEGER, REAL, SLACK, TEXT, Cells, RecordReader, UnusualRowsError

Rows = Sequence[tuple[Any, ...]]
WANTED = {"n": (0, INTEGER), "x": (1, REAL), "s": (2, TEXT)}


def pages_of(
    folder: Path, rows: Rows, *then: str, page_size: int = 4096, before: int = 0
) -> tuple[Bytes, RecordReader]:
    """The pages of a table with these rows, and a reader of its last columns. `before`: number of those before them."""
    path = folder / "t.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA page_size = {page_size}")
        names = [*(f"z{number}" for number in range(before)), "a", "b", "c"]
        db.execute(f"CREATE TABLE t ({', '.join(names)})")
        db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", rows)
        for statement in then:
            db.execute(statement)
        columns = len(db.execute("PRAGMA table_info(t)").fetchall())
    pages = Pages(path)
    leaves = pages.leaves(2)
    assert leaves is not None
    data = pages.read(leaves, SLACK)
    wanted = {name: (before + place, kind) for name, (place, kind) in WANTED.items()}
    made = RecordReader(columns, wanted, pages.size, pages.usable)
    pages.close()
    return data, made


def read(folder: Path, rows: Rows, *then: str) -> Cells:
    data, made = pages_of(folder, rows, *then)
    assert made.count(data) == len(rows) or then
    return made.read(data)


def shown(cells: Cells) -> Mapping[str, list[Any]]:
    return {name: column.to_pylist() for name, column in cells.columns.items()}


WHOLE = [0, 1, -1, 2, 127, -128, 128, 32767, -32768, 1 << 23, -(1 << 23), 1 << 31, 1 << 47, -(1 << 47), (1 << 63) - 1,
         -(1 << 63) + 1]  # fmt: skip


def test_integers_of_all_sizes(tmp_path: Path) -> None:
    cells = read(tmp_path, [(number, number, str(number)) for number in WHOLE])
    assert shown(cells) == {"n": WHOLE, "x": [float(n) for n in WHOLE], "s": [str(n) for n in WHOLE]}
    assert (len(cells), cells.odd, cells.values.tolist()) == (16, None, [16, 16, 16])


@pytest.mark.parametrize("number", WHOLE)
def test_integers_of_one_size(tmp_path: Path, number: int) -> None:
    assert shown(read(tmp_path, [(number, 0.5, "a")] * 3)) == {"n": [number] * 3, "x": [0.5] * 3, "s": ["a"] * 3}


def test_cells_of_other_types_are_odd(tmp_path: Path) -> None:
    rows = [(1, 2, "a"), (1.5, 2.5, "b"), ("x", "y", b"c"), (None, None, None), (b"x", 0.25, "é" * 20), (7, 1, "")]
    cells = read(tmp_path, rows)
    assert shown(cells) == {
        "n": [1, None, None, None, None, 7],
        "x": [2, 2.5, None, None, 0.25, 1],
        "s": ["a", "b", "", "", "é" * 20, ""],
    }
    assert cells.odd is not None and cells.odd.tolist() == [0, 1, 3, 0, 1, 0]
    assert cells.values.tolist() == [5, 5, 5]


def test_rows_of_several_pages(tmp_path: Path) -> None:
    rows = [(number, number / 2, f"row {number}") for number in range(1000)]
    data, made = pages_of(tmp_path, rows, page_size=512)
    assert made.count(data) == 1000 and made.last_row(data) == 1000
    assert shown(made.read(data)) == {
        "n": [n for n, *_ in rows], "x": [x for _, x, _ in rows], "s": [s for *_, s in rows],
    }  # fmt: skip


def test_rows_with_long_headers(tmp_path: Path) -> None:
    """Of two words of eight bytes; types of cells that differ in each of them, and strings of several sizes."""
    rows = [
        (*(None if column == row % 12 else column * 300 for column in range(12)), row, row / 2, "s" * (row * 40))
        for row in range(20)
    ]
    data, made = pages_of(tmp_path, rows, before=12, page_size=8192)
    cells = made.read(data)
    assert shown(cells) == {
        "n": [n for *_, n, _, _ in rows], "x": [x for *_, x, _ in rows], "s": [s for *_, s in rows],
    }  # fmt: skip
    assert cells.values.tolist() == [18 if column < 8 else 19 for column in range(12)] + [20] * 3


def test_rows_alike_but_for_the_last_byte_of_their_header(tmp_path: Path) -> None:
    rows = [(*range(8), 1, 2, "a"), (*range(8), 1, 2, "bb"), (*range(8), 1, 2, None)]
    data, made = pages_of(tmp_path, rows, before=8)
    assert shown(made.read(data)) == {"n": [1, 1, 1], "x": [2, 2, 2], "s": ["a", "bb", ""]}


@pytest.mark.parametrize("number", [1, 127, 128, 300, 1 << 14, 1 << 21, 1 << 34, (1 << 62) + 1, -5])
def test_rows_by_their_number(tmp_path: Path, number: int) -> None:
    """Its size in bytes does not matter where the cells are; of 2^35 rows SQLite reads them."""
    data, made = pages_of(tmp_path, [], f"INSERT INTO t (rowid, a, b, c) VALUES ({number}, 7, 0.5, 'text')")
    assert (made.count(data), made.last_row(data)) == (1, number)
    if 0 < number < 1 << 35:
        assert shown(made.read(data)) == {"n": [7], "x": [0.5], "s": ["text"]}
    else:
        with pytest.raises(UnusualRowsError):
            made.read(data)


@pytest.mark.parametrize(
    ("rows", "then"),
    [
        ([(1, 1, "x" * 5000)], ()),  # it goes on on another page
        ([(1, 1, "a"), (1, 1, 5)], ()),  # a number in a column of strings
        ([(1, 1, "a")], ("INSERT INTO t VALUES (1, 1, CAST(x'ff' AS TEXT))",)),  # no UTF-8
        ([(1, 1, "a")], ("ALTER TABLE t ADD COLUMN d",)),  # a row with fewer cells
    ],
    ids=["long", "number", "bytes", "cells"],
)
def test_rows_that_sqlite_has_to_read(tmp_path: Path, rows: Rows, then: tuple[str, ...]) -> None:
    data, made = pages_of(tmp_path, rows, *then)
    with pytest.raises(UnusualRowsError) as caught:
        made.read(data)
    assert not caught.value.rest


@pytest.mark.parametrize(
    ("place", "byte"),
    [
        (0, 5),  # a page that leads to others
        (3, 0xFF),  # more rows than a page holds
        (8, 0xFF),  # a row beyond the page
        (9, 0x00),
    ],
)
def test_a_damaged_page(tmp_path: Path, place: int, byte: int) -> None:
    data, made = pages_of(tmp_path, [(1, 1, "a"), (2, 2, "b")])
    damaged = np.array(data)
    damaged[place] = byte
    if place == 9:
        damaged[8] = 0
    with pytest.raises(UnusualRowsError) as caught:
        made.count(damaged)
    assert caught.value.rest


def test_a_record_that_states_another_size_than_its_cells_have(tmp_path: Path) -> None:
    data, made = pages_of(tmp_path, [(1, 1, "abc")])
    damaged = np.array(data)
    row = int(damaged[8]) << 8 | int(damaged[9])
    damaged[row] -= 1
    with pytest.raises(UnusualRowsError):
        made.read(damaged)
    damaged = np.array(data)
    damaged[row + 3] = 10  # a type of cell that SQLite reserves
    with pytest.raises(UnusualRowsError):
        made.read(damaged)
