"""Sheets of runs and of logs as read."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from perflog.analysis.run_list import RunList
from perflog.log import Log
from perflog.output.presenters import runs as module
from perflog.output.sheets import Sheet
from perflog.tables.schema import arrow_schema
from perflog.tables.sink import IngestResult, MemorySink


def read(log: str = "a.log", unread: int = 0, figures: int | None = None, **more: Any) -> IngestResult:
    """A log of ten lines with one run."""
    done = IngestResult(log, "sha", ["form"], [{"run": f"{log}#1", "label": "first", "format": "form"}])
    done.lines = {"total": 10, "read": 7 - unread, "context": 3, "unread": unread}
    done.figures = {} if figures is None else {"total": 5, "stored": 3, "dropped": 2 - figures, "unread": figures}
    for name, value in more.items():
        setattr(done, name, value)
    return done


def cells(sheet: Sheet) -> dict[str, Any]:
    return {name: value for name, value in sheet.rows}  # noqa: C416  # types: rows are of any length


def test_a_log_as_read() -> None:
    done = read(tables={"runs": 1, "lines": 3, "steps": 4, "values": 2})
    sheet = module.ingest_sheet(done)
    assert (sheet.title, sheet.note) == ("a.log", "")
    assert cells(sheet) == {
        "format": "form", "runs": "1: a.log#1", "labels": "1: first", "rows": "steps 4, values 2",
        "lines": "10 = 7 read + 3 context + 0 unread",
    }  # fmt: skip
    bare = cells(module.ingest_sheet(read(runs=[{"run": "r", "label": None}], figures=1)))
    assert "labels" not in bare and bare["rows"] == "none"
    assert bare["figures"] == "5 = 3 stored + 1 dropped + 1 unread"


def _unread(line: int, text: str, **more: Any) -> IngestResult:
    done = read(unread=2, **more)
    done.unread = line, text
    return done


def test_what_is_unread_has_a_line_and_what_to_do() -> None:
    sheet = module.ingest_sheet(_unread(3, "x" * 121))
    assert cells(sheet)["unread"] == f"the first is line 3: {'x' * 120}..."
    assert "formats suggest a.log" in sheet.note
    sheet = module.ingest_sheet(read(unread_figures=(4, "y" * 120)))
    assert cells(sheet)["unread figures"] == f"in lines such as line 4: {'y' * 120}"
    assert "perflog show" in sheet.note and "unread" not in cells(sheet)
    both = cells(module.ingest_sheet(_unread(3, "x", unread_figures=(4, "y"))))
    assert "unread" in both and "unread figures" not in both


def test_names_of_many_runs() -> None:
    names = [{"run": f"r{n}", "label": f"l{n}"} for n in range(5)]
    many = cells(module.ingest_sheet(read(runs=names)))
    assert (many["runs"], many["labels"]) == ("5: r0 to r4", "5: l0, l1, l2, ..., l4")
    few = cells(module.ingest_sheet(read(runs=names[:2])))
    assert (few["runs"], few["labels"]) == ("2: r0, r1", "2: l0, l1")
    assert cells(module.ingest_sheet(read(runs=names[:4])))["labels"] == "4: l0, l1, l2, l3"
    assert cells(module.ingest_sheet(read(runs=[])))["runs"] == ""


def test_earlier_states_of_a_log() -> None:
    assert cells(module.ingest_sheet(read(grown_by=0)))["grown"].startswith("by 0 bytes")
    assert cells(module.ingest_sheet(read(grown_by=12345)))["grown"].startswith("by 12,345 bytes")
    assert cells(module.ingest_sheet(read(others=["x"])))["kept"].startswith("another log of this path")
    assert cells(module.ingest_sheet(read(others=["x", "y"])))["kept"].startswith("2 other logs of this path")


def test_ten_logs_are_shown_one_by_one() -> None:
    assert [sheet.key for sheet in module.ingest_sheets([read()] * 10)] == ["log"] * 10
    assert [sheet.key for sheet in module.ingest_sheets([read()] * 11)] == ["logs"]


def test_many_logs_are_summed_by_format() -> None:
    other = read("b.log", unread=1, figures=2)
    other.formats = ["x", "y"]
    logs, unread = module.ingest_sheets([read()] * 10 + [other, read("c.log", figures=1)])
    assert list(logs.rows) == [("form", 11, 11, 110, 0, 1), ("x, y", 1, 1, 10, 1, 2)]
    assert module._unread(other) == 3
    assert logs.title == "logs: 12"
    assert unread.title == "logs with unread lines or figures: 2"
    assert list(unread.rows) == [("b.log", 1, 2, "line -: "), ("c.log", 0, 1, "line -: ")]


def test_the_ten_logs_with_most_unread_are_listed() -> None:
    logs = [read(f"{n}.log", unread=n % 7 + 1) for n in range(11)]
    for done in logs:
        done.unread, done.unread_figures = (5, "x"), (6, "y")
    _, unread = module.ingest_sheets(logs)
    assert unread.title == "logs with unread lines or figures: 11, the 10 with most"
    assert [row[1] for row in unread.rows] == [7, 6, 5, 4, 4, 3, 3, 2, 2, 1]
    assert next(iter(unread.rows))[3] == "line 5: x"
    assert next(iter(unread.rows))[2] == 0
    _, unread = module.ingest_sheets([*logs[:10], read()])
    assert unread.title == "logs with unread lines or figures: 10"


def test_logs_that_were_stored_before() -> None:
    _, changed = module.ingest_sheets([read()] * 11 + [read("g.log", grown_by=5, others=["x"])])
    assert changed.title == "logs that were stored before: 2"
    assert [name for name, _ in changed.rows] == ["g.log", "g.log"]


def test_outcomes_as_json() -> None:
    class Failed:
        reason, help = "no such file", "name a file"

    done = read(runs=[{"format": "a"}, {"format": "b"}, {"format": "b"}], grown_by=7, others=["o"], warnings=["w"])
    text = module.ingest_json([("a.log", done), ("b.log", Failed()), ("c.log", read(runs=[], figures=0))])  # type: ignore[list-item]
    made = json.loads(text)
    assert made["errors"] == [{"log": "b.log", "reason": "no such file", "help": "name a file"}]
    first, second = made["logs"]
    assert (first["format"], first["grown_by"], first["others_of_path"], first["warnings"]) == ("b", 7, ["o"], ["w"])
    assert (first["figures"], second["figures"]["stored"], second["format"]) == (None, 3, None)
    assert (first["lines"], first["sha256"]) == (done.lines, "sha")


def shape(status: str = "read", unread: int = 0, dropped: int = 0, line: int = 1) -> dict[str, Any]:
    return {"status": status, "figures_unread": unread, "figures_dropped": dropped, "first_line": line,
            "dropped_because": "why", "sample": f"s{line}"}  # fmt: skip


def test_known_lines_that_lose_figures() -> None:
    """Lines that are unread lose all of theirs, which another sheet lists."""
    shapes = [shape(unread=1, line=2), shape(unread=3, line=5), shape("unread", 9, 9), shape(dropped=2, line=4)]
    unread, dropped = module._figure_sheets(shapes)
    assert unread.rows == [(3, 5, "s5"), (1, 2, "s2")]
    assert [column.name for column in unread.columns] == ["figures", "first_line", "sample"]
    assert dropped.rows == [(9, 1, "why", "s1"), (2, 4, "why", "s4")]
    assert unread.title == "unread figures of known lines"
    assert not [*module._figure_sheets([shape("unread", 9)])]


def test_the_ten_most_common_shapes_are_shown() -> None:
    [sheet] = module._figure_sheets([shape(unread=n + 1, line=n) for n in range(11)])
    assert sheet.title.endswith("the 10 most common of 11 shapes of line")
    assert [row[0] for row in sheet.rows] == [*range(11, 1, -1)]
    [sheet] = module._figure_sheets([shape(unread=n + 1, line=n) for n in range(10)])
    assert "most common" not in sheet.title


def logged(runs: int = 1, steps: int = 0, lines: list[dict[str, Any]] | None = None, **first: Any) -> Log:
    """A log with steps of its first run."""
    kept = MemorySink()
    place = {"run": "r1", "part": 0, "line": 1}
    run = {
        "log": "/a b.log", "log_sha256": "x", "format": "form", "model": "m", "first_line": 1, "last_line": 9,
        "config": json.dumps({"lr": 0.1, "model": "m"}),
    }  # fmt: skip
    runs_rows = [place | run | {"run": f"r{n}", "index": n} for n in range(1, runs + 1)]
    rows: dict[str, list[dict[str, Any]]] = {
        "runs": [runs_rows[0] | first, *runs_rows[1:]],
        "steps": [place | {"step": n, "copy": 1, "steps_averaged": 1, "loss": 0.5} for n in range(steps)],
        "lines": [place | {"count": 1, "first_line": 1, "shape": "s", "sample": "x"} | row for row in lines or []],
    }
    for table, of in rows.items():
        kept.add(table, pa.Table.from_pylist(of, arrow_schema(table)))
    return Log(kept.fetch)


def test_a_run_on_one_screen() -> None:
    shapes: list[dict[str, Any]] = [{"status": "unread", "count": n + 1, "first_line": n} for n in range(11)]
    shapes += [{"status": "read", "count": 99, "figures_stored": 1, "figures_unread": 2, "figures_dropped": 0}]
    log = logged(1, 7, shapes, label="mine", elapsed_s=3.5, provenance=json.dumps({"ci": "x"}))
    found = {sheet.key: sheet for sheet in module.run_sheets(log, "json")}
    assert [*found] == [
        "run",
        "config",
        "provenance",
        "steps",
        "tables",
        "lines",
        "figures",
        "unread",
        "figures_unread",
    ]
    assert found["run"].title == "mine" and cells(found["run"])["elapsed_s"] == 3.5
    assert cells(found["config"]) == {"lr": 0.1}  # `model` is a column of the runs
    assert (found["tables"].inline, found["lines"].inline, found["run"].inline) == (True, True, False)
    assert cells(found["tables"]) == {"steps": 7}
    assert found["steps"].title == "steps: the first and the last 3 of 7"
    assert [column.name for column in found["steps"].columns] == ["step", "loss"]
    assert [row[0] for row in found["steps"].rows] == [0, 1, 2, 4, 5, 6]
    assert found["unread"].title == "unread: the 10 most common of 11 shapes"
    assert [row[:2] for row in found["unread"].rows] == [(n + 1, n) for n in range(10, 0, -1)]


def test_a_bare_run_on_one_screen() -> None:
    log = logged(1, 6, [{"status": "unread", "count": n} for n in range(10)], config=None)
    found = {sheet.key: sheet for sheet in module.run_sheets(log, "json")}
    assert [*found] == ["run", "steps", "tables", "lines", "unread"]
    assert (found["run"].title, found["steps"].title, found["unread"].title) == ("r1", "steps: all 6", "unread")
    assert [row[0] for row in found["steps"].rows] == [0, 1, 2, 3, 4, 5]


def test_what_to_type_for_one_of_several_runs() -> None:
    log = logged(2)
    assert "perflog show '/a b.log#1'" in module.choices_sheet(log, "/a b.log").note
    assert "perflog show r1\n" in module.choices_sheet(log, "a b").note
    assert "perflog show 'a b' steps" in module.choices_sheet(log, "a b").note
    assert [row[0] for row in module.choices_sheet(log, "a").rows] == ["r1", "r2"]


def test_columns_of_a_list_of_runs() -> None:
    sheet = module.runs_sheet(RunList(logged(2, 3)), ("run", "steps", "format", "model"), "a note")
    assert [(c.name, c.number, c.role) for c in sheet.columns] == [
        ("run", False, ""), ("steps", True, ""), ("format", False, "detail"), ("model", False, "detail"),
    ]  # fmt: skip
    assert [tuple(row) for row in sheet.rows] == [("r1", 3, "form", "m"), ("r2", 0, "form", "m")]
    assert sheet.note == "a note"
