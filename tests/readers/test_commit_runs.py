"""Runs of commits: the values of a history in base units, and what is not stored with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.benchmarks import commit_runs
from perflog.readers.benchmarks.commit_runs import (
    BenchmarkFigure,
    CommitRun,
    _unit,
    document,
    documents,
    known,
    moment,
    write_runs,
)
from perflog.readers.interface import ReadOptions
from perflog.tables.sink import MemorySink

Make = Callable[[bytes], Source]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """A function that makes a log of some bytes."""

    def source(content: bytes) -> Source:
        (tmp_path / "a.json").write_bytes(content)
        return Source("a.json", str(tmp_path / "a.json"))

    return source


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a": 1}', {"a": 1}), (b'\xef\xbb\xbf [1]\n', [1]), (b'window.B = {"a": "x=1;"} ;', None),
        (b'window.BENCHMARK_DATA = {"a": "x=1"}', {"a": "x=1"}), (b'window.BENCHMARK_DATA={"a": 1};\n', {"a": 1}),
    ],
)  # fmt: skip
def test_a_document_may_be_assigned_to_a_name(made: Make, text: bytes, value: Any) -> None:
    if value is None:
        with pytest.raises(InputError, match="the history cannot be read"):
            document(made(text), b"window.BENCHMARK_DATA")
    else:
        assert document(made(text), b"window.BENCHMARK_DATA") == value


def test_without_a_name_that_may_be_before_it_a_document_is_json_alone(made: Make) -> None:
    with pytest.raises(InputError, match="the history cannot be read"):
        document(made(b'= {"a": 1}'))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b'[{"a": 1}, 2]', [{"a": 1}, 2]), (b'{"a": 1}', [{"a": 1}]), (b'{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        (b"[]", []), (b"3\n4", [3, 4]),
    ],
)  # fmt: skip
def test_documents_are_a_list_or_lines(made: Make, text: bytes, values: list[Any]) -> None:
    assert documents(made(text)) == values


@pytest.mark.parametrize("text", [b'{"a": 1', b'{"a": 1}\nx', b"[" * 100_000])
def test_what_is_no_json_is_an_error(made: Make, text: bytes) -> None:
    for read in (document, documents):
        with pytest.raises(InputError, match="cannot be read"):
            read(made(text))


def test_a_file_of_the_largest_size_is_read_and_no_larger_one(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_runs, "_LARGEST", 5)
    assert document(made(b"[1,2]")) == [1, 2]
    with pytest.raises(InputError, match="more than 1 GiB"):
        document(made(b"[1,23]"))


def test_a_document_in_several_blocks_is_whole(made: Make) -> None:
    text = b'["' + b"x" * ((2 << 20) + 5) + b'"]'
    assert document(made(text)) == ["x" * ((2 << 20) + 5)]


@pytest.mark.parametrize(
    ("written", "unit"),
    [
        ("ns", ("s", 1e-9, "")), ("ns/op", ("s", 1e-9, "")), ("ns / iter", (None, 1.0, "ns / iter")),
        ("ms/Run", ("s", 1e-3, "")), (" s ", ("s", 1.0, "")), ("ns/row", (None, 1.0, "ns/row")),
        ("cycles", (None, 1.0, "cycles")), ("", (None, 1.0, "")), (" of   work ", (None, 1.0, "of work")),
    ],
)  # fmt: skip
def test_units(written: str, unit: tuple[str | None, float, str]) -> None:
    assert _unit(written) == unit


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (1, "1970-01-01T00:00:00Z"), (1999.9, "1970-01-01T00:00:01Z"), (1_767_225_600_000, "2026-01-01T00:00:00Z"),
        (4e12 - 1000, "2096-10-02T07:06:39Z"), (4e12, None), (0, None), (-5, None), (None, None), ("5", None),
        (math.nan, None), (True, None),
    ],
)  # fmt: skip
def test_times_since_1970(milliseconds: Any, text: str | None) -> None:
    assert moment(milliseconds) == text


def test_settings_that_are_not_known_are_left_out() -> None:
    assert known({"a": None, "b": "", "c": 0, "d": False, "e": "x"}) == {"c": 0, "d": False, "e": "x"}


def figure(place: int, value: Any, unit: str = "", **more: str) -> BenchmarkFigure:
    return BenchmarkFigure(place, f"f{place}", value, unit, **more)


RUNS = [
    CommitRun("a", {"commit": "1"}, [
        figure(3, 20, "ms"), figure(4, None), figure(5, "x"), figure(6, math.inf), figure(7, 2, "cycles"),
        figure(8, 5, dropped="twice"), figure(9, None, dropped="twice"),
    ], {"max": (4, "not the mean"), "min": (0, "not the mean"), "twice": (1, "twice")}),
    CommitRun("b", {"commit": "2"}, []),
    CommitRun("c", {"commit": "3"}, [figure(11, -1)], model="llama"),
]  # fmt: skip


def test_values_of_runs_and_their_accounts(made: Make) -> None:
    sink, seen = MemorySink(), list[int]()
    source = made(b"[123456]")
    result = write_runs(source, sink, ReadOptions(label="mine", progress=seen.append), "bench", RUNS)
    first, second = (run["run"] for run in result.runs)
    assert seen == [8]
    values = sink.fetch("values").to_pylist()
    assert [(r["run"], r["line"], r["part"], r["key"], r["value"], r["unit"]) for r in values] == [
        (first, 3, 0, "f3", 0.02, "s"), (first, 7, 0, "f7 [cycles]", 2.0, None), (second, 11, 0, "f11", -1.0, None)
    ]  # fmt: skip
    assert result.lines == {"total": 8, "read": 5, "context": 0, "unread": 3}
    assert result.figures == {"total": 12, "stored": 3, "dropped": 7, "unread": 2}
    assert result.unread is not None and result.unread[0] == 4
    names = ("run", "index", "label", "line", "first_line", "last_line", "program", "model", "config")
    assert [tuple(row[name] for name in names) for row in sink.fetch("runs").to_pylist()] == [
        (first, 1, "mine", 3, 3, 9, "a", None, '{"commit": "1"}'),
        (second, 2, "mine", 11, 11, 11, "c", "llama", '{"commit": "3"}'),
    ]
    shapes = {(r["run"], r["shape"]): r for r in sink.fetch("lines").to_pylist() if r["figures_stored"] is not None}
    dropped = {shape: (r["figures_dropped"], r["dropped_because"]) for (_, shape), r in shapes.items()}
    assert dropped == {"value": (0, None), "twice": (3, "twice"), "max": (4, "not the mean")}
    assert shapes[first, "max"]["line"] == 3 and {row["part"] for row in shapes.values()} == {0}


def test_runs_are_labelled_by_their_number_among_those_with_values(made: Make) -> None:
    sink = MemorySink()
    labels = {1: "one", 2: "two", 3: "three"}
    result = write_runs(made(b"[]"), sink, ReadOptions(label=lambda: labels), "bench", RUNS)
    assert [run["label"] for run in result.runs] == ["one", "two"]
    result = write_runs(made(b"[]"), MemorySink(), ReadOptions(), "bench", RUNS)
    assert [run["label"] for run in result.runs] == [None, None]


def test_a_history_without_values_is_an_error(made: Make) -> None:
    with pytest.raises(InputError, match="no figures of benchmarks"):
        write_runs(made(b"[]"), MemorySink(), ReadOptions(), "bench", RUNS[1:2])
