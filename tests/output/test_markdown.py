"""A report as Markdown: tables, lists and limits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from perflog.metrics import MetricColumn
from perflog.output.report import markdown as module
from perflog.output.report.answers import Doubts
from perflog.output.report.cells import (
    AnswerTable,
    Bar,
    Cell,
    FindingCounts,
    HeaderCell,
    Number,
    Part,
    RunName,
    Sentence,
)
from perflog.output.report.data import FigureSource, LogSummary, MetricTable

if TYPE_CHECKING:
    import pytest


def report(runs: int = 2, **fields: Any) -> Any:
    ids, empty = [f"r{n}" for n in range(runs)], dict.fromkeys(("world_size", "device", "dtype"))
    usual: dict[str, Any] = {
        "runs": [empty | {"run": run, "model": "m", "first_line": 1, "last_line": 9} for run in ids],
        "names": {run: f"run_{n}*" for n, run in enumerate(ids)}, "settings": {run: {} for run in ids},
        "steps": {"r0": 5}, "logs": [], "comparison": None,
        "in_words": lambda runs: f"{runs} runs", "not_compared": None, "title": "a*b",
    }  # fmt: skip
    return SimpleNamespace(**usual | fields)


def lines(text: str) -> list[str]:
    return text.splitlines()


def test_tables_have_no_bars() -> None:
    """A column of bars alone is left out; the texts beside bars stay."""
    heads = [
        HeaderCell("part"),
        HeaderCell("time", number=True),
        HeaderCell("bar"),
        HeaderCell("both"),
        HeaderCell("found"),
    ]
    rows: list[list[Cell]] = [
        [Part("step"), Number(1.0, "1 s"), Bar(0, 1), Bar(0, 1, texts=("1 s", "+5 %")),
         FindingCounts({"error": 1, "note": 2})],
        [Part("a*", 2), None, Bar(0, 1), Bar(0, 1), RunName("run", "r0")],
    ]  # fmt: skip
    assert lines(module._table(AnswerTable("title", heads, rows, "the note"))) == [
        "| part | time | both | found |", "| --- | ---: | --- | --- |", "| step | 1 s | 1 s, +5 % | 1 error, 2 notes |",
        "| · · a\\* | - |  | run |", "", "the note",
    ]  # fmt: skip
    long = module._table(AnswerTable("t", [HeaderCell("n")], [[str(n)] for n in range(26)], "the note"))
    assert lines(long)[-2:] == ["2 more  ", "the note"] and len(lines(long)) == 2 + 24 + 3
    assert module._titled(AnswerTable("t", [HeaderCell("n")], [["x"]])).startswith("**t**\n\n| n |")
    assert module._titled(AnswerTable("n", [HeaderCell("n")], [["x"]])).startswith("| n |")


def test_sentences_and_doubts() -> None:
    assert module._answer(Sentence("a*", "verdict")) == "**a\\***" and module._answer(Sentence("a", "subject")) == "a"
    nothing = "The checks found nothing that puts these numbers in doubt."
    assert module._answer(Doubts((), (), (), 0)) == nothing
    shown: Any = [
        SimpleNamespace(severity="error", title="a*", message="m\nn"),
        SimpleNamespace(severity="note", title="b", message="o"),
    ]
    assert lines(module._answer(Doubts(["w*"], shown, ["in 2 runs", ""], 3))) == [
        "**Do not trust**", "", "- w\\*", "- **error: a\\*** (in 2 runs): m n", "- **note: b**: o", "",
        "and 3 more kinds of finding",
    ]  # fmt: skip
    assert module._answer(Doubts(["w"], (), (), 0)).endswith("- w")


def test_findings_by_rule() -> None:
    def finding(run: str, line: int, severity: str = "error") -> Any:
        return SimpleNamespace(run=run, message="m*", first_line=line, severity=severity)

    rule = SimpleNamespace(action="do it")
    doubts = [
        SimpleNamespace(severity="error", title="T", code="c", rule=rule, runs_of_any_severity=["r0", "r1"],
                        findings=[finding("r0", n) for n in range(5)]),
        SimpleNamespace(severity="note", title="U", code="d", rule=rule, runs_of_any_severity=["r1"],
                        findings=[finding("r1", 7, "note")]),
    ]  # fmt: skip
    text = lines(module._findings(report(overview=SimpleNamespace(doubts=doubts))))
    assert text[:4] == ["5 errors, 1 note", "", "- **error: T** (`c`): do it", "  - run_0\\*: m\\* (line 0)"]
    assert text[6].startswith("  - and 2 more, in ") and text[7:] == [
        "- **note: U** (`d`): do it",
        "  - run_1\\*: m\\* (line 7)",
    ]
    one = lines(module._findings(report(1, overview=SimpleNamespace(doubts=doubts[1:]))))
    assert one[-1] == "  - m\\* (line 7)"
    assert module._findings(report(overview=SimpleNamespace(doubts=[]))) == "No findings.\n"


def metric(rows: int) -> MetricTable:
    columns = (MetricColumn("name"), MetricColumn("time_s", "s"), MetricColumn("hidden", brief=False))
    made = [{"name": f"n{n}", "time_s": 0.5, "hidden": 1} for n in range(rows)]
    sources = [(FigureSource("r0", f"{n}"), FigureSource("r1", "9")) for n in range(rows)]
    return MetricTable("steps", "title", "the formula", "", columns=columns, rows=made, sources=sources)


def test_metrics_show_their_first_rows() -> None:
    text = lines(module._metric(metric(10), report()))
    assert text[:3] == [
        "| run | name | time | lines |",
        "| --- | --- | ---: | --- |",
        "| run_0\\*, run_1\\* | n0 | 500 ms | 0, 9 |",
    ]
    assert len(text) == 2 + 8 + 3 and text[-2:] == [
        "2 more rows: perflog analyze RUN steps --format csv  ",
        "the formula",
    ]
    alone = lines(module._metric(metric(8), report(1)))
    assert alone[0] == "| name | time | lines |" and alone[-1] == "the formula" and len(alone) == 2 + 8 + 2


def test_runs_and_logs() -> None:
    settings = {"r0": {"batch": 8, "lr": 1}, "r1": {"batch": 16, "lr": 1}}
    assert lines(module._runs(report(settings=settings))) == [
        "| run | model | batch | steps | lines |", "| --- | --- | --- | --- | --- |", "| run_0\\* | m | 8 | 5 | 1–9 |",
        "| run_1\\* | m | 16 | - | 1–9 |",
    ]  # fmt: skip
    many = lines(module._runs(report(14)))
    assert len(many) == 2 + 12 + 2 and many[-1] == "2 more" and "more" not in module._runs(report(12))
    log = LogSummary("x/a.txt", "sha", "nanogpt", 2, {"read": 5, "context": 1, "unread": 0})
    text = lines(module._logs(report(logs=[log] * 13)))
    assert text[2] == "| a.txt | nanogpt | 2 | 5 | 1 | 0 |" and text[-1] == "1 more" and len(text) == 2 + 12 + 2


def test_sections_are_folded_unless_they_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    section: Any = lambda anchor, seen: SimpleNamespace(anchor=anchor, heading=anchor.title(), seen=seen)  # noqa: E731
    written = [(section("overview", True), "o"), (section("job", True), "j"), (section("runs", False), "r")]
    monkeypatch.setattr(module, "sections", lambda *_: written)
    assert module.to_markdown(report()) == (
        "# a\\*b\n\no\n\n## Job\n\nj\n\n<details><summary>Runs</summary>\n\nr\n\n</details>\n"
    )
    assert module._comparison(report()) == "" and module._comparison(report(not_compared="a*")) == "Not compared: a\\*"


class _Compared(Struct):
    """The findings of a comparison: those of a run have its id."""

    finding_records: tuple[Any, ...]


def test_the_comparison_has_the_findings_on_its_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings on a single run are in a section of their own."""
    shown: list[Any] = []

    def sheets(compared: Any, _: str) -> list[Any]:
        shown.extend(compared.finding_records)
        return []

    monkeypatch.setattr(module, "comparison_presenter", SimpleNamespace(comparison=sheets))
    about_sides, about_run = SimpleNamespace(run=None), SimpleNamespace(run="r0")
    assert module._comparison(report(comparison=_Compared((about_run, about_sides)))) == ""
    assert shown == [about_sides]
    assert (
        module._comparison(report(not_compared="a*b")) == "Not compared: a\\*b" and module._comparison(report()) == ""
    )
