"""Sections of a page about its runs, their logs, and the lines of these."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from perflog.output.report.data import LogSummary, ShapeSummary
from perflog.output.report.html import runs as module

EMPTY = dict.fromkeys(("model", "program", "world_size", "device", "dtype"))


def report(*settings: dict[str, Any], **fields: Any) -> Any:
    ids = [f"r{n}" for n in range(1, len(settings) + 1)]
    usual: dict[str, Any] = {
        "runs": [EMPTY | {"run": id, "log": f"/x/{id}.log", "first_line": 1, "last_line": 9} for id in ids],
        "settings": dict(zip(ids, settings, strict=True)), "names": {id: f"name {id}" for id in ids},
        "comparison": None, "logs": [], "shapes": [], "overview": SimpleNamespace(doubts=[]),
    }  # fmt: skip
    return SimpleNamespace(**usual | fields)


def cells(html: str, row: int) -> list[str]:
    """The cells of a row as text."""
    rows = re.findall(r"<tr.*?</tr>", html, re.DOTALL)
    return [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[dh].*?</t[dh]>", rows[row], re.DOTALL)]


def test_a_row_for_each_run() -> None:
    html = module._runs(report({"lr": 1, "bs": 8}, {"lr": 2, "bs": 8}, {"bs": 8}))
    assert [cells(html, row)[:4] for row in (1, 2, 3)] == [
        [f"name r{n}", setting, f"r{n}.log", "1–9"] for n, setting in ((1, "lr=1"), (2, "lr=2"), (3, "-"))
    ]
    assert [cells(html, row)[-2:] for row in (1, 2)] == [["-", "r1"], ["-", "r2"]]
    assert 'id="run-1"' in html and 'id="run-3"' in html and "Unless a row" not in html


def test_findings_on_a_run_are_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    doubts = [SimpleNamespace(code="slow-step"), SimpleNamespace(code="no-gpu")]
    monkeypatch.setattr(module, "doubts_by_run", lambda _: {"r1": doubts})
    html = module._runs(report({}))
    assert cells(html, 1)[4] == "slow-step, no-gpu" and 'href="#finding-no-gpu"' in html


@pytest.mark.parametrize(("runs", "others", "usual"), [(10, 1, {"lr": 1}), (10, 2, {}), (9, 0, {}), (20, 2, {"lr": 1})])
def test_settings_of_nearly_all_runs_are_usual(runs: int, others: int, usual: dict[str, Any]) -> None:
    """Nine of ten."""
    settings = [{"lr": 1} for _ in range(runs - others)] + [{"lr": 2 + n} for n in range(others)]
    assert module._usual_settings(settings, ["lr"]) == usual
    assert module._usual_settings(settings, []) == {}


def test_rows_name_usual_settings_where_they_are_others() -> None:
    html = module._runs(report(*[{"lr": 1}] * 9, {}))
    assert "Unless a row says otherwise: lr=1" in html
    assert (cells(html, 1)[1], cells(html, 10)[1]) == ("-", "lr=-")


def test_many_runs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RUNS", 2)
    html = module._runs(report({}, {}, {}))
    assert "1 more row: perflog runs" in html and "name r3" not in html
    assert "more rows" not in module._runs(report({}, {}))
    logs = [LogSummary(f"/x/{n}.log", str(n) * 20, "form", 2, {"read": 5, "context": 3, "unread": 1}) for n in range(3)]
    assert "1 more row: perflog runs" in module._logs(report({}, logs=logs))
    html = module._logs(report({}, logs=logs[:2]))
    assert cells(html, 2) == ["1.log", "form", "2", "9", "5", "3", "1", "1" * 12] and "more rows" not in html


def test_what_all_runs_share() -> None:
    """Columns that a setting repeats are left out, and those without a value."""
    many = report({"lr": 1, "bs": 8, "dtype": "x"}, {"lr": 2, "bs": 8, "dtype": "x"})
    for n, row in enumerate(many.runs):
        row |= {"model": "m", "device": "gpu" if n else "cpu", "dtype": "bf16"}
    assert list(module._shared(many)) == [("model", "m"), ("bs", 8), ("dtype", "x")]
    html = module._shared_settings(many)
    assert "Settings that are the same in all runs (3)" in html
    assert "<summary>Settings (1)" in module._shared_settings(report({"lr": 1}))
    assert module._shared_settings(report({})) == ""
    alone = report({})
    alone.runs[0]["model"] = "m"
    assert list(module._shared(alone)) == [("model", "m")]


def shape(table: str | None, line: int, status: str = "read") -> ShapeSummary:
    return ShapeSummary(status, table, 5, 2, "/x/a.log", line, f"line {line}")


def test_lines_of_the_logs() -> None:
    """Each table links to its first shape. Of several logs, each shape has the first."""
    shapes = [shape("steps", 1), shape(None, 2, "unread"), shape("steps", 3), shape("runs", 4)]
    html = module.lines_section(report({}, shapes=shapes, logs=[None]))
    assert [cells(html, row) for row in (1, 2)] == [["1", "5", "steps", "line 1"], ["2", "5", "unread", "line 2"]]
    assert re.findall(r'id="(lines-\w+)"', html) == ["lines-steps", "lines-runs"]
    html = module.lines_section(report({}, shapes=shapes, logs=[None, None]))
    assert cells(html, 0) == ["first line", "of", "logs", "lines", "table", "sample"]
    assert cells(html, 1) == ["1", "a.log", "2", "5", "steps", "line 1"]


def test_many_shapes_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SHAPES", 2)
    shapes = [shape("steps", n) for n in (1, 2, 3)]
    assert "1 more row: perflog show RUN lines" in module.lines_section(report({}, shapes=shapes))
    assert "more rows" not in module.lines_section(report({}, shapes=shapes[:2]))


def test_a_comparison_has_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_index", lambda _: "index")
    monkeypatch.setattr(module, "answer_table", lambda table, _: table)
    assert module.runs_section(report({}, comparison=object())).startswith("index")
    assert not module.runs_section(report({})).startswith("index")
