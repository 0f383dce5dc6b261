"""Findings as sheets: paragraphs by rule, the most severe first; elsewhere a row for each."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import perflog
from perflog.analysis.lint import RULES, Finding
from perflog.log import RunKey
from perflog.output.presenters import findings as module
from perflog.output.sheets import Sheet

CODE, OTHER = sorted(RULES)[:2]


def finding(
    message: str, lines: dict[str, list[int]], severity: Any = "warning", code: str = CODE, action: str = "look"
) -> Finding:
    return Finding(next(iter(lines)), message, lines, {"share": 0.5}, severity, code, action)


def sheets(*found: Finding, keys: int = 1, format: str = "text", everything: bool = False) -> list[Sheet]:
    """The sheets of findings in runs `r1`, `r2` of one log and `x1`, `x2` of logs of their own."""
    runs = [RunKey(f"r{k}", f"label {k}", "/logs/a.txt", "sha", k) for k in range(1, keys + 1)]
    runs += [RunKey(f"x{k}", None, f"/logs/x{k}.txt", f"sha{k}", 1) for k in range(1, 7)]
    log: Any = SimpleNamespace(run_keys=runs)
    return list(module.finding_sheets(found, log, format, everything))


def test_a_line_of_a_log_of_several_files_is_in_one_that_opens(tmp_path: Path) -> None:
    for rank in range(2):
        text = "".join(f"step {step} | loss 2.5 | step_time {1 + rank}.5s\n" for step in range(9))
        (tmp_path / f"rank{rank}.log").write_text(text)
    log = perflog.read(tmp_path)
    (key,) = log.run_keys
    found, _ = module.finding_sheets([finding("late", {key.id: [3, 4, 12]})], log, "text")
    assert found.title == f"warning: {CODE}  rank0.log:3,4; rank1.log:3"


def paragraph(sheet: Sheet) -> list[str]:
    return [text for (text,) in sheet.rows]


def test_one_finding_is_its_sentence_with_its_lines_and_what_to_do() -> None:
    found, counts = sheets(finding("it is slow", {"r1": [9, 3, 3]}))
    assert found.title == f"warning: {CODE}  a.txt:3,9"
    assert paragraph(found) == ["it is slow", "-> look"]
    assert list(counts.rows) == [("errors", 0), ("warnings", 1), ("notes", 0)]


def test_several_findings_of_a_rule_are_below_its_title() -> None:
    """Each action is said once. Of more than three findings two are shown, unless all are asked for."""
    several = [finding(f"sentence {k}", {f"x{k}": [k]}, action="look" if k < 3 else "go") for k in (1, 2, 3)]
    found, _ = sheets(*several)
    assert found.title == f"warning: {CODE}  {RULES[CODE].title} (3 times)"
    assert paragraph(found) == [*(f"x{k}.txt:{k}: sentence {k}" for k in (1, 2, 3)), "-> look", "-> go"]
    four = [*several, finding("sentence 4", {"x4": [4]})]
    assert paragraph(sheets(*four)[0]) == [
        "x1.txt:1: sentence 1", "x2.txt:2: sentence 2", "and 2 more: --all shows them", "-> look", "-> go"
    ]  # fmt: skip
    assert len(paragraph(sheets(*four, everything=True)[0])) == 6


def test_errors_come_first_and_findings_of_another_severity_say_so() -> None:
    found = sheets(
        finding("a note", {"x1": [1]}, "note", OTHER), finding("a warning", {"x2": [2]}),
        finding("an error", {"x3": [3]}, "error"),
    )  # fmt: skip
    assert [sheet.title.partition(" ")[0] for sheet in found[:2]] == ["error:", "note:"]
    assert paragraph(found[0]) == ["x3.txt:3: an error", "warning: x2.txt:2: a warning", "-> look"]
    assert list(found[2].rows) == [("errors", 1), ("warnings", 1), ("notes", 1)]


def test_runs_of_a_log_with_several_have_their_number() -> None:
    """A finding about several runs has none."""
    two = finding("one run", {"r2": [7]}), finding("both", {"r1": [5], "r2": [2]})
    assert paragraph(sheets(*two, keys=2)[0])[:2] == ["#2 a.txt:7: one run", "a.txt:2,5: both"]


def test_at_most_four_lines_and_four_logs_are_named() -> None:
    (found, _) = sheets(finding("much", {"x1": [*range(1, 8)], "x2": [2], "x3": [3], "x4": [4], "x5": [5], "x6": [6]}))
    assert found.title == f"warning: {CODE}  x1.txt:1,2,3,4 and 3 more; x2.txt:2; x3.txt:3; x4.txt:4 and 2 more"


@pytest.mark.parametrize("format", ["json", "csv"])
def test_other_formats_have_a_row_for_each_finding(format: str) -> None:
    (rows,) = sheets(finding("it is slow", {"r1": [9, 3]}), format=format)
    names = [column.name for column in rows.columns]
    (row,) = (dict(zip(names, cells, strict=True)) for cells in rows.rows)
    evidence = row.pop("evidence")
    assert row == {
        "run": "r1", "label": "label 1", "log": "/logs/a.txt", "code": CODE, "severity": "warning", "first_line": 3,
        "message": "it is slow", "action": "look",
    }  # fmt: skip
    assert isinstance(evidence, str) == (format == "csv")
    assert (json.loads(evidence) if format == "csv" else evidence)["share"] == 0.5


def test_markdown_has_where_instead_of_runs() -> None:
    (rows,) = sheets(finding("it is slow", {"x1": [3]}), format="md")
    assert list(rows.rows) == [("warning", CODE, "x1.txt:3", "it is slow", "look")]
