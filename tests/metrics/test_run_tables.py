"""Some rows and columns of a table: of a log in memory, of a store, of DataFrames, the same as of the whole table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.paths import ROOT

import perflog
from perflog.metrics import Tables
from perflog.metrics import run_tables as module
from perflog.metrics.run_tables import _as_one, _few
from perflog.tables.arrow import Where, one_of, row_counts
from perflog.tables.parquet import stored_row_counts
from perflog.tables.schema import TABLES

TRACES = [ROOT / "tests" / "traces" / name for name in ("2021.json", "2024_base_rank1.json", "2026_quotes.json")]
COLUMNS = ("rank", "kind", "name", "start_ns", "duration_ns", "correlation", "group")
WHERE = {
    "work": {"kind": one_of("kernel", "memcpy")},
    "without a kind": {"kind": lambda word: word is None},
    "two tests": {"kind": one_of("runtime", "cpu"), "name": lambda name: name and "cuda" in name},
    "none": {"kind": one_of("no such kind")},
    "all": {},
    "a part": {"kind": one_of("kernel"), "part": one_of(0)},
    "integers": {"correlation": lambda number: number is None or number % 2 == 0},
}


@cache
def read_traces() -> perflog.Log:
    return perflog.read(*TRACES)


@pytest.fixture(params=["memory", "store", "frames", "some runs", "some of a store", "combined"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    log = read_traces()
    if request.param == "store":
        log.save(tmp_path / "store")
        return Tables(perflog.load(tmp_path / "store"))
    if request.param == "frames":
        return Tables({name: log.table(name) for name in TABLES})
    if request.param == "some runs":
        return Tables(log).only([key.id for key in log.run_keys[:-1]])
    if request.param == "some of a store":
        log.save(tmp_path / "store")
        some = perflog.load(tmp_path / "store").select(*log.run_keys[:-1])
        return Tables(some).only([key.id for key in log.run_keys[1:]])
    if request.param == "combined":
        return Tables(perflog.log.combined([log.select(key) for key in log.run_keys]))
    return Tables(log)


def expected(tables: Tables, where: str) -> pd.DataFrame:
    rows = tables["events"]
    for column, test in WHERE[where].items():
        rows = rows[[bool(test(None if pd.isna(value) else value)) for value in rows[column]]]
    return rows[["run", "line", "part", *COLUMNS]].reset_index(drop=True)


def plain(rows: pd.DataFrame) -> list[tuple[object, ...]]:
    return list(rows.astype(object).where(rows.notna(), None).itertuples(index=False, name=None))


@pytest.mark.parametrize("where", WHERE)
def test_chosen_rows_are_those_of_the_whole_table(tables: Tables, where: str) -> None:
    wanted = expected(tables, where)
    rows = tables.chosen("events", WHERE[where], *COLUMNS).dicts(*wanted)
    assert [tuple(row.values()) for row in rows] == plain(wanted)


@pytest.mark.parametrize("where", WHERE)
def test_rows_file_by_file_are_the_same(tables: Tables, where: str) -> None:
    wanted = {place: plain(rows) for place, rows in expected(tables, where).groupby(["run", "part"])}
    by_file = tables.arrow_by_file("events", WHERE[where], *COLUMNS)
    found = {place: [tuple(row.values()) for row in rows.to_pylist()] for place, rows in by_file}
    assert found == wanted
    assert list(found) == list(wanted)


def test_the_count_of_rows_is_that_of_the_table(tables: Tables) -> None:
    counts = {name: tables.count(name) for name in TABLES}
    assert counts == {name: len(tables[name]) for name in TABLES}
    assert counts["events"]


def test_rows_are_counted_by_run_and_part(tmp_path: Path) -> None:
    """In memory, of a store by its footers and by its rows, of some runs."""
    log = perflog.read(*TRACES)
    log.save(tmp_path / "store")
    stored = perflog.load(tmp_path / "store")
    first, second, third = log.run_keys
    both = perflog.log.combined([stored.select(second), log])
    for some in (log, stored, log.select(first, third), stored.select(first, third), both):
        for name in TABLES:
            wanted = some.table(name).groupby(["run", "part"]).size()
            counts = some.part_counts(name)
            assert {(run, part): rows for run, parts in counts.items() for part, rows in parts.items()} == dict(wanted)


def test_to_count_the_rows_of_a_run_other_batches_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for trace in TRACES:
        perflog.ingest(trace, store=tmp_path / "store")
    opened: list[Path] = []

    def counted(path: Path, name: str, crc: int | None) -> dict[str, dict[int, int]]:
        opened.append(path)
        return stored_row_counts(path, name, crc)

    monkeypatch.setattr("perflog.tables.store.stored_row_counts", counted)
    stored = perflog.load(tmp_path / "store")
    first = stored.select(stored.run_keys[0])
    assert first.part_counts("events") == {key.id: stored.part_counts("events")[key.id] for key in stored.run_keys[:1]}
    assert len(opened) == 1 + len(TRACES)


def test_a_run_of_one_part_is_not_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask for its only part would be a test of each row."""
    log = perflog.ingest(TRACES[0], store=tmp_path / "store")
    monkeypatch.setattr("perflog.metrics.run_tables._AT_ONCE", 1)
    asked: list[object] = []

    def some_rows(self: perflog.Log, name: str, where: Where, *columns: str, **options: Any) -> Any:
        asked.extend(where)
        return original(self, name, where, *columns, **options)

    original = perflog.Log.some_rows
    monkeypatch.setattr(perflog.Log, "some_rows", some_rows)
    assert list(Tables(log).arrow_by_file("events", WHERE["all"], "name")) and "part" not in asked


def test_rows_are_counted_over_all_batches() -> None:
    import pyarrow as pa

    parts = [pa.array(numbers, pa.int32()) for numbers in ((0, 0, 1), (1, 1, 1))]
    words = [pa.array(texts).dictionary_encode() for texts in (["a", "b", "b"], ["b", "c", "b"])]
    batches = [pa.record_batch([word, part], ["run", "part"]) for word, part in zip(words, parts, strict=True)]
    assert row_counts(batches) == {"a": {0: 1}, "b": {0: 1, 1: 3}, "c": {1: 1}}


def test_files_come_in_order_whatever_the_order_of_their_rows() -> None:
    """Of each file its rows in the order of its lines, also where the rows of all files ascend by line alone."""
    empty = dict.fromkeys(column.name for column in TABLES["values"])
    for places in (
        [("b", 0, 1), ("a", 1, 2), ("a", 0, 3)], [("a", 0, 1), ("a", 0, 2), ("a", 1, 1)], [("a", 0, 2), ("a", 0, 1)],
        [("a", 1, 1), ("a", 0, 2), ("a", 0, 2)], [("a", 0, 1), ("a", 0, 3), ("a", 0, 2)],
    ):  # fmt: skip
        rows = [empty | {"run": run, "part": part, "line": line} for run, part, line in places]
        found = Tables({"values": pd.DataFrame(rows)}).arrow_by_file("values", {}, "key")
        lines = [(*place, line) for place, events in found for line in events["line"].to_pylist()]
        assert lines == sorted(places)


def test_stretches_that_follow_one_another_are_one() -> None:
    """In any order; none of them may be rows that are scattered."""
    assert _as_one([slice(4, 9), slice(0, 2), slice(2, 4)]) == slice(0, 9)
    assert _as_one([slice(3, 5)]) == slice(3, 5)
    assert _as_one([slice(0, 2), slice(3, 4)]) is _as_one([slice(0, 2), np.array([2, 3])]) is _as_one([]) is None


def test_a_table_that_is_not_given_is_empty() -> None:
    steps = Tables({"runs": pd.DataFrame({"run": ["a"]})})["steps"]
    assert not len(steps) and list(steps) == [column.name for column in TABLES["steps"]]


def test_runs_that_are_read_at_once_have_not_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 4)
    assert list(_few("abcde", {"a": 2, "b": 2, "c": 1, "d": 9, "e": 4})) == [["a", "b"], ["c"], ["d"], ["e"]]
    assert list(_few("abc", {"a": 4, "b": 2, "c": 2})) == [["a"], ["b", "c"]]
    assert list(_few("", {})) == []


def of_runs(**steps: int) -> Tables:
    """Runs with so many steps each, on lines of their own."""
    rows = [(run, 0, line) for run, count in steps.items() for line in range(count)]
    frame = pd.DataFrame(rows, columns=["run", "part", "line"]).reindex(columns=[c.name for c in TABLES["steps"]])
    return Tables({"runs": pd.DataFrame({"run": list(steps)}), "steps": frame})


def test_tables_of_some_runs_hold_these_alone() -> None:
    whole = of_runs(a=2, b=3, c=1)
    some = whole.only(["c", "a"])
    assert some.rows("runs")["run"].tolist() == ["a", "c"] and some["steps"]["run"].tolist() == ["a", "a", "c"]
    assert some.counts("steps") == {"a": 2, "c": 1} and some.only("b").count("steps") == 0
    assert whole.only("cba") is whole and some.only("ac") is some


def test_pieces_of_runs_have_not_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without steps has none of them; all rows of a run are in one piece."""
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    pieces = of_runs(a=2, b=2, c=0, d=3, e=1).in_pieces("steps")
    assert [piece.rows("runs")["run"].tolist() for piece in pieces] == [["a"], ["b", "c"], ["d"], ["e"]]


def test_rows_of_files_that_are_in_order() -> None:
    found = of_runs(a=2, b=3, c=1).arrow_by_file("steps", {})
    assert [(place, rows["line"].to_pylist()) for place, rows in found] == [
        (("a", 0), [0, 1]), (("b", 0), [0, 1, 2]), (("c", 0), [0]),
    ]  # fmt: skip


def test_rows_by_run() -> None:
    tables = of_runs(a=2, b=0, c=1)
    assert {run: rows["line"].tolist() for run, rows in tables.rows_by_run("steps").items()} == {"a": [0, 1], "c": [0]}
    assert [tables.rows_of("steps", run)["line"].tolist() for run in "abc"] == [[0, 1], [], [0]]
    assert tables.run_order() == {"a": 0, "b": 1, "c": 2} and tables.whole is tables
    assert tables.only("a").whole is tables and tables.only("ab").only("a").whole is tables
    assert list(tables) == list(TABLES) and len(tables) == len(TABLES)
    named = Tables({"runs": pd.DataFrame({"run": ["a", "b"], "label": ["fast", None]})})
    assert named.labels() == {"a": "fast", "b": None}


def test_a_result_is_computed_once_for_each_value() -> None:
    calls = list[tuple[int, int]]()

    @module.computed_list
    def numbers(tables: Tables, most: int, *, least: int = 0) -> Iterator[int]:
        calls.append((least, most))
        yield from range(least, most)

    first, second = of_runs(a=1), of_runs(a=1)
    for tables in (first, first, second):
        assert numbers(tables, 3) == [0, 1, 2] and numbers(tables, 3, least=2) == [2]
    assert calls == [(0, 3), (2, 3)] * 2
    assert [module.cached({}, "key", lambda: 5), module.cached(first, "key", lambda: 6)] == [5, 6]
    assert module.cached(first, "key", lambda: 7) == 6 and module.cached({}, "key", lambda: 8) == 8


def test_a_result_of_all_runs_is_computed_once_for_all_and_some() -> None:
    calls = list[Tables]()

    @module.computed_of_all
    def runs(tables: Tables) -> list[str]:
        calls.append(tables)
        return list(tables.run_order())

    tables = of_runs(a=1, b=1)
    assert runs(tables.only(["b"])) == runs(tables) == list(tables.run_order())
    assert calls == [tables]


def test_a_run_that_several_tables_hold_counts_once() -> None:
    one, other = of_runs(a=2, b=3), of_runs(b=1, c=1)
    both = module.merge_tables((one, other))
    assert both.rows("runs")["run"].tolist() == ["a", "b", "c"] and both.counts("steps") == {"a": 2, "b": 3, "c": 1}
    assert both.count("phases") == 0 and list(both["phases"]) == [column.name for column in TABLES["phases"]]
    assert module.merge_tables((one,)) is one
    log = read_traces()
    keys = [key.id for key in log.run_keys]
    merged = module.merge_tables((log.select(log.run_keys[0]), log))
    assert merged.rows("runs")["run"].tolist() == keys and merged.count("events") == Tables(log).count("events")


def test_a_large_run_is_read_some_parts_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts that pass, as many as have room; a run of few rows whole."""
    log = read_traces()
    counts = {key.id: {0: 3, 1: 2, 2: 1} if k else {0: 2, 1: 1} for k, key in enumerate(log.run_keys[:2])}
    monkeypatch.setattr(module, "_AT_ONCE", 4)
    monkeypatch.setattr(Tables, "_part_counts", lambda _self, _name: counts)
    small, large = counts
    divided = list(Tables(log)._few_at_once("events", {}))
    assert sorted(divided, key=str) == sorted([([small], None), ([large], [0]), ([large], [1, 2])], key=str)
    some: Where = {"run": one_of(large), "part": one_of(1, 2)}
    assert list(Tables(log)._few_at_once("events", some)) == [([large], [1, 2])]
    monkeypatch.setattr(module, "_AT_ONCE", 9)
    assert list(Tables(log)._few_at_once("events", {})) == [(None, None)]
