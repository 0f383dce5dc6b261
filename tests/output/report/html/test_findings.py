"""The section of findings: a card for each rule, with what it found and where."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from perflog.analysis.lint import RULES, Finding
from perflog.analysis.overview.doubts import Doubt
from perflog.output.report.data import FigureSource, MetricTable
from perflog.output.report.html.findings import findings_section

RULE = next(rule for rule in RULES.values() if "steps" in rule.needs)
ROWS = MetricTable("step_time", "step times", "", "", ("steps",), (), [{}, {}], ["", ""],
                   [(FigureSource("r1", "1"),), (FigureSource("r2", "2"),)])  # fmt: skip
MORE = replace(ROWS, name="rates", title="rates")  # its first rows are not linked too
OTHER = MetricTable("energy", "energy", "", "", ("telemetry",))


def finding(message: str = "slow", severity: Any = None, **lines: Any) -> Finding:
    return Finding(next(iter(lines), "r1"), message, lines or {"r1": [5]}, severity=severity)


def section(*findings: Finding, runs: int = 2) -> str:
    names = {f"r{n}": f"run {n}" for n in range(1, runs + 1)}
    report: Any = SimpleNamespace(
        overview=SimpleNamespace(doubts=[Doubt(RULE, findings)] if findings else []), metrics=[ROWS, OTHER, MORE],
        runs=names, names=names, places={run: n for n, run in enumerate(names, 1)}, shapes=[], light_plots=[],
        comparison_tables=[], in_words=lambda count: f"{count} runs",
    )  # fmt: skip
    return str(findings_section(report))


def text(html: str) -> str:
    return re.sub(r"<[^>]*>", "", html)


def test_no_findings() -> None:
    assert section() == "<p>No findings.</p>"


def test_the_card_of_one_finding() -> None:
    """It links to the metrics of the tables that its rule needs, and to the first numbers of its run."""
    html = section(finding(severity="error", r2=[7, 5]))
    assert '<li><span class="badge error">1 error</span></li>' in html
    assert f'id="finding-{RULE.code}" class="finding error"' in html and f"<code>{RULE.code}</code>" in html
    assert "run 2: slow · line 5, 7 · numbers" in text(html) and 'href="#step_time-2"' in html
    assert '<a href="#metric-step_time">step times</a>' in html and "metric-energy" not in html
    assert "<details>" not in html


def test_of_one_run_no_finding_names_it() -> None:
    assert "run 1" not in text(section(finding(), runs=1))


def test_several_findings_have_a_table() -> None:
    html = section(finding("slow", "error", r1=[1]), finding("slower", "note", r2=[2]))
    assert re.findall(r'<span class="badge (\w+)">1 ', html) == ["error", "note"]
    assert "2 findings in 2 runs" in html
    rows = re.findall(r"<tr>(.*?)</tr>", html.partition("<tbody>")[2], re.DOTALL)
    assert [text(row) for row in rows] == ["run 1slowline 1 · numbers", "run 2slowerline 2 · numbers"]
    assert "more rows" not in html


def test_many_findings_are_left_out() -> None:
    assert "1 more row: perflog lint RUN" in section(*[finding()] * 101)


@pytest.mark.parametrize(("lines", "shown"), [(5, "1, 2, 3, 4, 5 · "), (6, "1, 2, 3, 4, 5 and more · ")])
def test_the_first_lines_of_a_finding(lines: int, shown: str) -> None:
    assert f"slow · line {shown}numbers" in text(section(finding(r1=list(range(1, lines + 1)))))


@pytest.mark.parametrize(("runs", "more"), [(9, ""), (10, " · and 1 more run")])
def test_the_first_runs_of_a_finding(runs: int, more: str) -> None:
    names = [f"r{n}" for n in range(1, runs + 1)]
    shown = " · ".join(f"run {n}, line {n}" for n in range(1, 10))
    lines: dict[str, Any] = {name: [n] for n, name in enumerate(names, 1)}
    found = finding(**lines)
    assert f"slow · {shown}{more} · numbers" in text(section(found, runs=runs))
