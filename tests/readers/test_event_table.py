"""What a reader writes: events as rows, steps, the account of a file, and the run."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from perflog.readers.events import event_table
from perflog.readers.events.event_columns import KIND_CODE, MISSING
from perflog.readers.events.event_table import EventAccount, EventOrigin, RunWriter, by_process, event_rows, value_rows
from perflog.readers.events.string_interning import new_interners
from perflog.tables.sink import MemorySink

ORIGIN = EventOrigin("abc-1", 0, None, None)
RANK_3 = EventOrigin("abc-1", 2, 3, "file")


def columns(count: int = 2, **more: Any) -> Any:
    kinds = np.full(count, KIND_CODE["range"], np.int8)
    return {"place": np.arange(1, count + 1), "kind": kinds} | {name: np.array(values) for name, values in more.items()}


def test_events_are_rows() -> None:
    interners = new_interners()
    codes = [interners["name"].code("gemm"), -1]
    found = event_rows(RANK_3, columns(name=codes, start=[5, MISSING], duration=[7, 8]), interners).to_pylist()
    names = ("run", "line", "part", "rank", "rank_by", "kind", "name", "start_ns", "duration_ns", "stream")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("abc-1", 1, 2, 3, "file", "range", "gemm", 5, 7, None),
        ("abc-1", 2, 2, 3, "file", "range", None, None, 8, None),
    ]


def test_the_rank_of_an_event_may_be_that_of_its_process() -> None:
    found = event_rows(ORIGIN, columns(rank=[4, MISSING]), new_interners()).to_pylist()
    assert [(row["rank"], row["rank_by"], row["part"]) for row in found] == [(4, "process", 0), (None, None, 0)]
    found = event_rows(ORIGIN, columns(), new_interners()).to_pylist()
    assert [(row["rank"], row["rank_by"]) for row in found] == [(None, None)] * 2


def test_steps_of_several_processes_without_a_rank_have_their_process() -> None:
    origins = [ORIGIN, ORIGIN, RANK_3, ORIGIN]
    found = by_process(origins, [0, 1, 1, -1], ["7", "8"])
    assert [(origin.rank, origin.source) for origin in found] == [
        (None, "process 7"), (None, "process 8"), (3, RANK_3.source), (None, ORIGIN.source),
    ]  # fmt: skip
    assert by_process(origins, [1, 1, 1, 1], ["7", "8"]) == origins  # all are of one
    assert [origin.source for origin in by_process([ORIGIN] * 2, [0, 1], ["7", "8"])] == ["process 7", "process 8"]


def test_a_number_that_its_column_does_not_hold_is_null() -> None:
    ranks = event_rows(ORIGIN, columns(3, rank=[2**31 - 1, 2**31, -(2**31) - 1]), new_interners())
    assert ranks["rank"].to_pylist() == [2**31 - 1, None, None]


def test_numbers_and_strings_of_table_values() -> None:
    found = value_rows(RANK_3, [(7, "loss", 2.5), (8, "note", "x")]).to_pylist()
    assert [(r["line"], r["part"], r["rank"], r["key"], r["value"], r["text"]) for r in found] == [
        (7, 2, 3, "loss", 2.5, None),
        (8, 2, 3, "note", None, "x"),
    ]


def test_tables_become_one_without_chunks() -> None:
    one = event_rows(RANK_3, columns(duration=[7, 8]), new_interners())
    assert event_table._combined([one]) is one
    both = event_table._combined([one, event_rows(ORIGIN, columns(1), new_interners())])
    assert [row["run"] for row in both.to_pylist()] == ["abc-1"] * 3
    assert [row["rank"] for row in both.to_pylist()] == [3, 3, None]
    assert {column.num_chunks for column in both.columns} == {1} and both.schema == one.schema


def test_shapes_are_counted_and_may_be_taken_back() -> None:
    account = EventAccount()
    account.add("read", "kernel", 3, 5, "first")
    account.add("read", "kernel", 2, 9, "second")
    account.add_places("unread", "odd", np.array([8, 4]))
    account.add_places("unread", "none", np.array([], np.int64))
    assert {key: (shape.count, shape.first, shape.sample) for key, shape in account.shapes.items()} == {
        ("read", "kernel"): (5, 5, "first"),
        ("unread", "odd"): (2, 8, ""),
    }
    account.add("read", "kernel", -5, 0)
    assert list(account.shapes) == [("unread", "odd")]
    account.figures_of("grid", 3, "sample", "why").dropped += 2
    assert account.figures_of("grid", 9).dropped == 2 and account.figures["grid"].first == 3


def test_the_account_of_a_file() -> None:
    account = EventAccount()
    account.add("unread", "odd", 2, 9, "text of it")
    account.add("read", "kernel", 5, 1)
    account.add("context", "track", 1, 3)
    figures = account.figures_of("grid", 4, because="twice")
    figures.stored, figures.dropped, figures.unread = 3, 2, 1
    sink = MemorySink()
    with RunWriter("log", "abcdef" * 10, "own", sink) as writer:
        writer.write_account(2, account)
    ingested = writer.ingested
    assert ingested.lines == {"total": 8, "read": 5, "context": 1, "unread": 2}
    assert ingested.unread == (9, "text of it")
    assert (ingested.figures["stored"], ingested.figures["dropped"], ingested.figures["unread"]) == (3, 2, 1)
    assert ingested.unread_figures == (4, "grid")
    found = sink.fetch("lines").to_pylist()
    assert [(row["shape"], row["status"], row["count"], row["first_line"], row["part"]) for row in found] == [
        ("kernel", "read", 5, 1, 2),
        ("track", "context", 1, 3, 2),
        ("odd", "unread", 2, 9, 2),
        ("grid", "read", 0, 4, 2),
    ]
    assert found[-1]["dropped_because"] == "twice" and found[-1]["sample"] == "grid"


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_events_are_written_in_batches(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(event_table, "_ROWS_PER_WRITE", at_once)
    sink = MemorySink()
    with RunWriter("log", "abcdef" * 10, "own", sink) as writer:
        for _ in range(4):
            writer.write_events(event_rows(ORIGIN, columns(), new_interners()))
    assert sink.fetch("events")["line"].to_pylist() == [1, 2] * 4
    assert writer.ingested.tables["events"] == 8


def test_steps_that_come_again_are_counted_by_file_and_rank() -> None:
    sink = MemorySink()
    with RunWriter("log", "abcdef" * 10, "own", sink) as writer:
        writer.write_steps([(ORIGIN, 7, 1, 2_000_000_000, 5), (ORIGIN, 7, 2, 10, 5), (RANK_3, 7, 3, 10, 5)], base=100)
        writer.write_steps([])
    found = sink.fetch("steps").to_pylist()
    assert [(r["step"], r["copy"], r["rank"], r["step_time_s"], r["printed_ns"]) for r in found] == [
        (7, 1, None, 2.0, 2_000_000_105),
        (7, 2, None, 1e-8, 115),
        (7, 1, 3, 1e-8, 115),
    ]


def test_runs_of_a_file() -> None:
    sink = MemorySink()
    with RunWriter("log", "abcdef" * 10, "own", sink) as writer:
        writer.write_run("label", 9, {"lr": 0.5}, world_size=4)
        writer.begin(2)
        writer.write_run(lambda: {2: "second"}, 11, {})
    found = sink.fetch("runs").to_pylist()
    assert [
        (r["run"], r["label"], r["index"], r["last_line"], r["world_size"], json.loads(r["config"])) for r in found
    ] == [
        ("abcdefabcdef-1", "label", 1, 9, 4, {"lr": 0.5}),
        ("abcdefabcdef-2", "second", 2, 11, None, {}),
    ]
    assert [run["label"] for run in writer.ingested.runs] == ["label", "second"]
