"""Runs that have ended, as rows: their labels, and their lines counted in the result of their log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from perflog.ingestion.ended_runs import EndedRuns, lines_table, runs_table
from perflog.parsing.assemble.runs.run_state import ShapeCount
from perflog.tables.sink import IngestResult

DIGEST = "0123456789abcdef"


def run(index: int = 1, label: str | None = None, shapes: Any = None, **row: Any) -> Any:
    """A run that has ended."""
    given = {"index": index, "label": label, "first_line": 11, "last_line": 20, "format": "own", "config": "{}"} | row
    return SimpleNamespace(index=index, shapes=shapes or {}, row=lambda formats: dict(given))


def ended(label: Any, *runs: Any, many: bool = False, **before: int) -> tuple[list[dict[str, Any]], IngestResult]:
    """The rows of runs, and the result of their log."""
    result = IngestResult("a.log", DIGEST)
    found = EndedRuns(result, label, **before)
    for each in runs:
        found.add(each, {}, many)
    rows = found.take_runs(DIGEST)
    assert found.runs == [] and {row["log_sha256"] for row in rows} <= {DIGEST}
    return rows, result


def test_a_run_has_the_name_of_its_log_and_begins_at_its_first_line() -> None:
    (row,), result = ended(None, run(2, "mine"))
    names = ("run", "log", "line", "part", "index", "label", "first_line", "last_line")
    assert [row[name] for name in names] == ["2", "a.log", 11, 0, 2, "mine", 11, 20]
    assert result.runs == [{"run": "0123456789ab-2", "label": "mine", "index": 2, "format": "own"}]
    assert runs_table([row])["label"].to_pylist() == ["mine"]


def test_a_label_is_of_all_runs() -> None:
    labels = [[row["label"] for row in ended("job", run(1), run(2, "b"), many=many)[0]] for many in (True, False)]
    assert labels == [["job#1", "job#b"], ["job", "job"]]


def test_labels_by_number_take_the_printed_one_where_there_is_none() -> None:
    rows, _ = ended(lambda: {1: "one", 2: None}, run(1, "a"), run(2, "b"), run(3, "c"), many=True)
    assert [row["label"] for row in rows] == ["one", "b", "c"]


def test_runs_and_lines_count_from_the_begin_of_their_own_log() -> None:
    given = run(7, elapsed_from=12, elapsed_line=None, shapes={("read", "x"): ShapeCount(1, 13)})
    (row,), result = ended("job", given, many=True, runs_before=4, lines_before=10)
    names = ("run", "index", "label", "first_line", "last_line", "line", "elapsed_from", "elapsed_line")
    assert [row[name] for name in names] == ["7", 3, "job#3", 1, 10, 1, 2, None]
    assert result.runs[0]["run"] == "0123456789ab-3"


def test_lines_of_a_run_by_shape_in_the_order_of_the_first() -> None:
    shapes = {
        ("unread", "x"): ShapeCount(2, 19, "x 5", 0, 0, 4), ("read", "y"): ShapeCount(3, 12, "y", 6, 1, 0, "because"),
    }  # fmt: skip
    result = IngestResult("a.log", DIGEST)
    found = EndedRuns(result, None, lines_before=10)
    found.add(run(shapes=shapes), {}, False)
    lines = found.take_lines()
    assert found.take_lines() == []
    assert lines == [
        ("1", 2, 0, "read", "y", 3, 2, "y", 6, 1, 0, "because"), ("1", 9, 0, "unread", "x", 2, 9, "x 5", 0, 0, 4, None)
    ]  # fmt: skip
    names = ("line", "status", "count", "figures_stored", "dropped_because")
    assert [tuple(row[name] for name in names) for row in lines_table(lines).to_pylist()] == [
        (2, "read", 3, 6, "because"), (9, "unread", 2, 0, None)
    ]  # fmt: skip
    assert result.lines == {"total": 5, "read": 3, "context": 0, "unread": 2}
    assert (result.unread, result.unread_figures) == ((9, "x 5"), (9, "x 5"))
    assert result.figures == {"total": 11, "stored": 6, "dropped": 1, "unread": 4}
