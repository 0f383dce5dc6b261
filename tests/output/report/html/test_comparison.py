"""The section of a comparison: what is compared, what differs, and why not."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from support.figure_rows import figure_row

from perflog.output.report.html.comparison import comparison_section


def section(**fields: Any) -> str:
    usual: dict[str, Any] = dict.fromkeys(("headlines", "warnings", "finding_records", "setting_records"), ())
    comparison = SimpleNamespace(**usual | {"cases": [1], "sides": ("a", "b")} | fields)
    tables = dict.fromkeys(("light_plots", "comparison_tables", "metrics"), ())
    report: Any = SimpleNamespace(comparison=comparison, warnings=["read"], **tables)
    return str(comparison_section(report))


@pytest.mark.parametrize(("reason", "html"), [(None, ""), ("no steps", "<p>Not compared: no steps</p>")])
def test_a_report_without_a_comparison_says_why(reason: str | None, html: str) -> None:
    report: Any = SimpleNamespace(comparison=None, not_compared=reason)
    assert comparison_section(report) == html


def test_headlines_have_their_reason_and_advice() -> None:
    rows = [figure_row(reason="few runs", advice="more runs"), figure_row(reason="few runs", side="c")]
    found = re.findall(r"<li>(.*?)</li>", section(headlines=rows))
    assert [re.findall(r" \(few runs.*", text) for text in found] == [[" (few runs; more runs)"], [" (few runs)"]]


def test_warnings_of_the_comparison_that_the_report_does_not_show_elsewhere() -> None:
    assert re.findall(r'<p class="faint">(.*?)</p>', section(warnings=["read", "few"])) == ["few"]


def test_findings_about_all_sides() -> None:
    """Those about single runs are in the section of findings."""
    own = SimpleNamespace(run="r1", case="", severity="note", code="x", message="of a run")
    shared = [
        SimpleNamespace(run=None, case=case, severity="warning", code="mixed", message=f"said of {case}")
        for case in ("", "moe")
    ]
    html = section(finding_records=[own, *shared])
    assert "of a run" not in html and html.count('<article class="finding warning">') == 2
    assert re.findall(r"</h3><p>(.*?)</p>", html) == ["said of ", "moe: said of moe"]
    assert html.count('href="#metric-comparison"') == 2


@pytest.mark.parametrize(("cases", "names"), [([1], ["setting", "a", "b"]), ([1, 2], ["case", "setting", "a", "b"])])
def test_settings_that_differ(cases: list[int], names: list[str]) -> None:
    row = SimpleNamespace(record={"case": "moe", "setting": "lr", "a": 0.5, "b": None})
    html = section(setting_records=[row], cases=cases)
    assert re.findall(r"<button[^>]*>(.*?)</button>", html) == names
    cells = {"case": "moe", "setting": "lr", "a": "0.5", "b": "-"}
    assert re.findall(r"<td[^>]*>(.*?)</td>", html) == [cells[name] for name in names]
    assert "None that the logs show." not in html and "None that the logs show." in section()


def test_lists_are_cut_after_a_hundred() -> None:
    finding = SimpleNamespace(run=None, case="", severity="note", code="x", message="said")
    setting = SimpleNamespace(record={"setting": "lr", "a": 1, "b": 2})
    html = section(headlines=[figure_row()] * 101, finding_records=[finding] * 101, setting_records=[setting] * 101)
    assert [html.count(part) for part in ("<li>", "<article", "<td>lr")] == [100, 100, 100]
