"""The cells of a matrix are records, each with the labels of its row and its column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load

FORMAT = '''
title = "matrices"
scopes = ["run", "matrix"]
[[table]]
name = "bandwidth"
title = "{direction:w} bandwidth (MB/s)"
opens = "matrix"
table = "values"
cells = { column = "peer", number = "bandwidth", diagonal = "local" }
unit = { bandwidth = "MB/s", local = "MB/s" }
unknown = { bandwidth = 0 }
sample = """
Send bandwidth (MB/s)
   D\\\\D     0      1
     0   8.00   2.50
     1   0.00   9.00
"""
[table.columns]
"D\\\\D" = "{gpu:d}"
"*" = "{*:.2f}"
'''
LOG = ["Send bandwidth (MB/s)", "   D\\D     0      1", "     0   8.00   2.50", "     1   0.00   9.00"]


def values(folder: Path, lines: list[str], chunk: int = 1 << 20) -> list[dict[str, Any]]:
    data = "".join(f"{line}\n" for line in lines).encode()
    rows = read(data, formats=[load(given_file(folder, FORMAT))], chunk=chunk).rows("values")
    return sorted(rows, key=lambda row: (row["line"], row["part"]))


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_each_cell_is_a_record(tmp_path: Path, chunk: int) -> None:
    """On the diagonal the number has a name of its own. A cell of 0 was not measured."""
    cells: dict[int, dict[str, Any]] = {}
    found = values(tmp_path, LOG, chunk)
    for row in found:
        cell = cells.setdefault((row["line"] << 20) + row["part"], {})
        cell[row["key"]] = row["text"] if row["value"] is None else round(row["value"], 9)
    assert list(cells.values()) == [
        {"direction": "Send", "gpu": 0.0, "peer": 0.0, "local": 0.008},
        {"direction": "Send", "gpu": 0.0, "peer": 1.0, "bandwidth": 0.0025},
        {"direction": "Send", "gpu": 1.0, "peer": 1.0, "local": 0.009},
    ]
    assert {row["key"]: row["unit"] for row in found} == {
        "direction": None,
        "gpu": None,
        "peer": None,
        "local": "GB/s",
        "bandwidth": "GB/s",
    }


def test_a_cell_without_a_number_is_no_record(tmp_path: Path) -> None:
    found = values(tmp_path, [*LOG[:2], "     0   8.00    N/A", "     1   2.50   9.00"])
    assert [row["value"] for row in found if row["key"] == "bandwidth"] == [0.0025]


def test_labels_may_be_words(tmp_path: Path) -> None:
    lines = [line.replace("  0 ", " a0 ").replace("   1 ", "  b1 ") for line in LOG]
    assert lines[2].split()[0] == "a0"
    form = FORMAT.replace('"D\\\\D" = "{gpu:d}"', '"D\\\\D" = "{gpu:S}"')
    data = "".join(f"{line}\n" for line in lines).encode()
    rows = read(data, formats=[load(given_file(tmp_path, form))]).rows("values")
    assert {row["text"] for row in rows if row["key"] == "gpu"} == {"a0", "b1"}
