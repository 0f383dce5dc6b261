"""Titles of cases name what the lines below them measure."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from perflog.metrics import Tables
from perflog.metrics.benchmarks.case_titles import under_titles, with_parameters
from perflog.tables.columns import Rows
from perflog.tables.schema import TABLES


def values(*rows: tuple[int, str, Any]) -> Rows:
    """Rows of `values`: line, key, and a number or a string."""
    records = [
        {"run": "r", "line": line, "part": 0, "key": key, ("text" if isinstance(value, str) else "value"): value}
        for line, key, value in rows
    ]
    return Tables({"values": pd.DataFrame(records).reindex(columns=[c.name for c in TABLES["values"]])}).rows("values")


def records(*rows: tuple[int, str, Any]) -> list[list[Any]]:
    """The values of each record, in the order of the log."""
    found, lines, parts = under_titles(values(*rows))
    by_record: dict[tuple[int, int], list[Any]] = {}
    for place, (value, text) in enumerate(found.records("value", "text")):
        number = value is not None and value == value
        by_record.setdefault((int(lines[place]), int(parts[place])), []).append(value if number else text)
    return [by_record[key] for key in sorted(by_record)]


def test_the_lines_below_a_title_are_one_record() -> None:
    found = records((1, "title", "a"), (2, "time", 1.5), (3, "rate", 2.5), (4, "title", "b"), (5, "time", 3.5))
    assert found == [["a", 1.5, 2.5], ["b", 3.5]]


def test_a_name_that_comes_twice_makes_each_line_a_record() -> None:
    assert records((1, "title", "a"), (2, "time", 1.5), (3, "time", 2.5)) == [["a", 1.5], ["a", 2.5]]


def test_a_subtitle_goes_on_under_its_title_and_ends_with_it() -> None:
    found = records(
        (1, "title", "a"), (2, "subtitle", "x"), (3, "time", 1.5), (4, "subtitle", "y"), (5, "time", 2.5),
        (6, "title", "b"), (7, "time", 3.5),
    )  # fmt: skip
    assert found == [["a", "x", 1.5], ["a", "y", 2.5], ["b", 3.5]]


def test_without_titles_nothing_changes() -> None:
    rows = values((1, "time", 1.5), (2, "time", 2.5))
    found, lines, _ = under_titles(rows)
    assert found is rows and lines.tolist() == [1, 2]


def test_a_table_without_a_title_is_not_under_the_one_before() -> None:
    found = records((1, "table_title", "a"), (3, "time", 1.5), (4, "time", 2.5), (9, "time", 3.5))
    assert found == [["a", 1.5], ["a", 2.5], [3.5]]


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (["batch=8, seq=64", "batch=16, seq=64"], {"batch": ["8", "16"], "seq": ["64", "64"]}),
        (["batch 8, seq 64", "batch 16, seq 64"], {"batch": ["8", "16"], "seq": ["64", "64"]}),
    ],
)
def test_titles_name_parameters(titles: list[str], expected: dict[str, list[Any]]) -> None:
    found = with_parameters({"title": titles, "time": [1.5, 2.5]})
    assert found.pop("time") == [1.5, 2.5]
    assert {name: [str(cell).removesuffix(".0") for cell in cells] for name, cells in found.items()} == expected


@pytest.mark.parametrize(("line", "found"), [(4, [["a", 1.5], ["a", 2.5]]), (5, [["a", 1.5], [2.5]])])
def test_a_rule_may_be_between_two_rows_of_a_table(line: int, found: list[list[Any]]) -> None:
    assert records((1, "table_title", "a"), (2, "time", 1.5), (line, "time", 2.5)) == found


@pytest.mark.parametrize(
    ("titles", "words"),
    [
        (["run of batch 8", "run of batch 16"], ["batch 8", "batch 16"]),
        (["run of the small one", "run of the large one"], ["small one", "large one"]),
        (["run of 8", "run of 16"], ["of 8", "of 16"]),
        (["run a", "run a"], ["run a", "run a"]),
        (["run", "run a"], ["run", "run a"]),
        (["run a"], ["run a"]),
        (["run a", None], ["run a", None]),
    ],
)
def test_words_that_all_titles_begin_with_are_left_out(titles: list[Any], words: list[Any]) -> None:
    """But not the name of a number, and not the last word."""
    assert with_parameters({"title": titles}) == {"title": words}


def test_titles_of_tables_are_a_column_table() -> None:
    titles = ["small", "large"]
    assert with_parameters({"table_title": titles}) == {"table": titles}
    assert with_parameters({"table_title": titles, "table": [1, 2]}) == {"table_title": titles, "table": [1, 2]}
