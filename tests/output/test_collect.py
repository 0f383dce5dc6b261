"""What a report collects: names of runs, rows of metrics with their sources, logs and shapes of lines."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd

import perflog
from perflog.analysis.overview.run_groups import NOT_PRINTED, RunGroup
from perflog.errors import UsageError
from perflog.log import Log, RunKey
from perflog.metrics import MetricColumn, Options
from perflog.output.report.data import FigureSource
from perflog.tables.sink import MemorySink

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

module = import_module("perflog.output.report.collect")  # the package has a function of this name


def keys(*labels: str | None, log: str = "a.log") -> list[RunKey]:
    return [RunKey(f"r{n}", label, log, log, n) for n, label in enumerate(labels, 1)]


def groups(*settings: dict[str, str]) -> list[RunGroup]:
    return [RunGroup("", "", (f"r{n}",), of) for n, of in enumerate(settings, 1)]


def names(of: list[RunKey], *settings: dict[str, str], comparison: Any = None) -> list[str]:
    return list(module._run_names(of, groups(*settings), comparison).values())


def test_names_of_runs() -> None:
    """The label if no other run has it, else the settings in which all differ, else log and number."""
    assert names(keys("x", "y"), {"lr": "1"}, {"lr": "2"}) == ["x", "y"]
    assert names(keys("x", "x"), {"lr": "1", "bs": "8"}, {"lr": "2", "bs": "8"}) == ["lr=1, bs=8", "lr=2, bs=8"]
    assert names(keys("x", "x", None), {"lr": "1"}, {"lr": "2"}, {"lr": "2"}) == ["#1", "#2", "#3"]
    assert names(keys("x", "x", "y"), {"lr": "1"}, {"lr": "2"}, {"lr": "2"}) == ["#1", "#2", "y"]
    assert names(keys(None, None), {"lr": "1"}, {"lr": NOT_PRINTED}) == ["#1", "#2"]
    assert names(keys(None, None), {"name": "a" * 55}, {"name": "b"}) == ["name=" + "a" * 55, "name=b"]
    assert names(keys(None, None), {"name": "a" * 56}, {"name": "b"}) == ["#1", "#2"]
    cases = [SimpleNamespace(runs=(("r1",), ("r2", "r3")))]
    compared = SimpleNamespace(sides=("old", "new"), cases=cases)
    assert names(keys("x", "y", "y"), {}, {}, {}, comparison=compared) == ["old", "#2", "#3"]


def test_ranges_of_rows() -> None:
    row = {"first_step": 3.0, "last_step": 9.0, "line": 7.0, "first_x": 4, "last_x": None, "first_y": None, "last_y": 2}
    assert [module._range_of(row, unit) for unit in ("step", "line", "x", "y", "z")] == ["3–9", "7", "from 4", "", ""]


def test_rows_of_metrics_have_their_source() -> None:
    columns = (
        MetricColumn("run", meaning=""), MetricColumn("first_line", meaning=""), MetricColumn("last_line", meaning=""),
        MetricColumn("more", meaning="", brief=False), MetricColumn("time_s", "s", meaning=""),
        MetricColumn("part", meaning=""), MetricColumn("empty", meaning=""),
    )  # fmt: skip
    metric: Any = SimpleNamespace(name="m", title="t", formula="f", source="s", needs=("steps",), columns=columns,
                                  main="time_s")  # fmt: skip
    rows = [
        ("r1", 3, 5, 1.0, 0.5, "x", None),
        ("r2", None, None, 1.0, 0.25, "y", None),
        (None, 1, 1, 1.0, 2.0, "z", None),
    ]
    frame = pd.DataFrame(rows, columns=[column.name for column in columns]).astype({"first_line": "Int64"})
    runs: list[dict[str, Any]] = [{"run": f"r{n}", "first_line": 1, "last_line": 10 * n} for n in (1, 2)]
    made = module._metric_table(metric, frame, runs)
    assert made.sources == [(FigureSource("r1", "3–5"),), (FigureSource("r2", "1–20"),), ()]
    assert [column.name for column in made.columns] == ["part", "time_s"]  # names before numbers
    assert [row["part"] for row in made.rows] == ["x", "y", "z"] and made.windows == ["", "", ""]


def shape(run: str, text: str, status: str = "read", count: int = 1, first: int = 1, sample: str | None = "x") -> Any:
    return {"run": run, "shape": text, "status": status, "count": count, "first_line": first, "sample": sample}


def run(name: str, log: str, format: str = "a") -> dict[str, Any]:
    return {"run": name, "log": f"/x/{log}", "log_sha256": log, "format": format}


def test_logs_with_their_lines() -> None:
    """The format of most of its runs; each status has a number."""
    runs = [run("r1", "a.log"), run("r2", "b.log"), run("r3", "a.log", "b"), run("r4", "a.log", "b")]
    lines = [
        shape("r1", "s", count=5),
        shape("r1", "t", count=2),
        shape("r3", "s", "unread", 3),
        shape("r2", "s", "context", 4),
    ]
    first, second = module._log_summaries(runs, lines)
    assert (first.name, first.sha256, first.format, first.runs) == ("/x/a.log", "a.log", "b", 3)
    assert first.lines == {"read": 7, "context": 0, "unread": 3}
    assert (second.runs, second.lines) == (1, {"read": 0, "context": 4, "unread": 0})


def test_shapes_are_listed_once_in_the_order_of_the_log() -> None:
    runs = [run("r1", "a.log"), run("r2", "b.log"), run("r3", "b.log")]
    lines = [
        shape("r2", "s", count=5, first=1), shape("r1", "t", count=2, first=9), shape("r1", "s", count=3, first=4),
        shape("r3", "s", count=7, first=2), shape("r1", "s", "unread", 1, 12, None),
    ]  # fmt: skip
    found = module._shape_summaries(runs, lines)
    assert [(each.status, each.count, each.logs, each.first_log, each.first_line, each.sample) for each in found] == [
        ("read", 15, 2, "/x/a.log", 4, "x"), ("read", 2, 1, "/x/a.log", 9, "x"), ("unread", 1, 1, "/x/a.log", 12, ""),
    ]  # fmt: skip
    assert [each.table for each in found] == [None, None, None]


def test_shapes_that_were_read_have_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a known format, or of a line that was discovered in a log of lines: each is discovered once."""
    known_line = next(line for form in module.known().values() for line in form.lines if line.table)
    asked: list[str] = []

    def discovered(_: Any, text: str, sample: str) -> Any:
        asked.append(f"{text} {sample}")
        return SimpleNamespace(table="values") if text == "found" else None

    monkeypatch.setattr(module, "discovered_line", discovered)
    text = known_line.template.text
    lines = [shape("r1", text), shape("r1", text, "unread"), shape("r1", "found"), shape("r1", "x")]
    lines += [shape("r1", "found", "context"), shape("r2", "a kind of events")]
    runs = [run("r1", "a.log", next(iter(module.known()))), run("r2", "b.json", "chrome_trace")]
    found = module._shape_summaries(runs, lines)
    assert [each.table for each in found] == [known_line.table, None, "values", None, None, None]
    assert asked == ["found x", "x x"]


def test_one_log_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    log, sides = Log(MemorySink().fetch, []), [SimpleNamespace(log="a"), SimpleNamespace(log="b")]
    monkeypatch.setattr(module, "resolve_sides", lambda *_: sides)
    monkeypatch.setattr(module, "stores_of", lambda *_: [])
    monkeypatch.setattr(module, "compare_sides", lambda *_: "compared")

    def collected(*runs: Any, by: Any = ()) -> Any:
        return module._logs_and_comparison(runs, None, by, Options())

    assert collected(log) == ((log,), None, None)
    assert collected({"x": log}) == ((log,), None, None)
    several = (("a", "b"), "compared", None)
    assert collected(log, by="lr") == collected(log, log) == collected({"x": log, "y": log}) == several

    def refused(*_: Any) -> None:
        raise UsageError("nothing in common")

    monkeypatch.setattr(module, "compare_sides", refused)
    assert collected(log, log) == (("a", "b"), None, "nothing in common")


def test_what_is_collected_of_a_small_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job of a few logs is diagnosed."""
    path = tmp_path / "run.log"
    step = "step: {}  loss:  8.12  memory: 10.50GiB(11.00%)  tps: 1,234  tflops: 5.00  mfu: 12.34%\n"
    path.write_text("".join(map(step.format, (1, 2, 3))) + "Traceback (most recent call last):\nValueError: no\n")
    log = perflog.read(path)
    found = module.collect(log, draw=False)
    assert [diagnosis.kind for diagnosis in found.diagnoses] == ["exception"]
    assert [(row["kind"], row["line"]) for row in found.failures] == [("exception", 4)]
    (run,) = found.runs
    assert found.steps == {run["run"]: 3} and "printout" not in run
    assert (found.settings, found.warnings, found.plots, found.comparison) == ({run["run"]: {}}, [], [], None)
    assert [(summary.format, summary.lines) for summary in found.logs] == [
        ("torchtitan", {"read": 5, "context": 0, "unread": 0})
    ]  # fmt: skip
    assert all(len(metric.rows) for metric in found.metrics)
    monkeypatch.setattr(module, "_DIAGNOSED", 0)
    assert module.collect(log, options=Options(), draw=False).diagnoses == []
