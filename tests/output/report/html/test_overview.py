"""The first section of a page: sentences, cells, bars and doubts as HTML."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from perflog.output.report.answers import Doubts
from perflog.output.report.cells import AnswerTable, Bar, FindingCounts, HeaderCell, Number, Part, RunName, Sentence
from perflog.output.report.html import overview as module

REPORT: Any = SimpleNamespace(places={"r1": 1}, names={"r1": "a_run"})


@pytest.mark.parametrize(
    ("cell", "html"),
    [
        (None, '<td data-value="">-</td>'),
        ("text", "<td>text</td>"),
        (Number(0.5, "500 ms"), '<td data-value="0.5">500 ms</td>'),
        (Number(None, "-"), "<td data-value>-</td>"),
        (RunName("a_run", "r1"), '<td class="name"><a href="#run-1">a_<wbr>run</a></td>'),
        (Part("mlp", 2, "its time"), '<td title="its time" class="part depth2">mlp</td>'),
        (Part("mlp", 9), '<td class="part depth5">mlp</td>'),
        (
            FindingCounts({"error": 2, "note": 1}),
            '<td><span class="badge error">2 errors</span> <span class="badge note">1 note</span></td>',
        ),
    ],
)
def test_cells(cell: Any, html: str) -> None:
    table = AnswerTable("t", [HeaderCell("x")], [[cell]])
    assert re.findall(r"<tbody><tr>(.*)</tr></tbody>", module.answer_table(table, REPORT)) == [html]


@pytest.mark.parametrize(
    ("bar", "x", "width", "kind"),
    [
        (Bar(0.25, 0.75), "25.00", "50.00", "bar"),
        (Bar(0.75, 0.5, better=True), "50.00", "25.00", "bar better"),
        (Bar(-0.5, 0.25, better=False), "0.00", "25.00", "bar worse"),
        (Bar(0.5, 1.5), "50.00", "50.00", "bar"),
    ],
)
def test_bars_stay_in_their_cell(bar: Bar, x: str, width: str, kind: str) -> None:
    html = module._bar(bar)
    assert f'<rect x="{x}" width="{width}" height="10">' in html and f'class="{kind}"' in html
    assert html.startswith('<td class="of-bar">')


def test_a_bar_has_its_numbers_beside_it() -> None:
    html = module._bar(Bar(0.0, 1.0, 0.5, ("500 ms", "20%")))
    assert html.startswith('<td class="step" data-value="0.5"><svg') and html.endswith(
        "<span>500 ms</span> <span>20%</span></td>"
    )


@pytest.mark.parametrize(("is_long", "class_"), [(True, "sortable long-names"), (False, "sortable")])
def test_tables_of_long_names(is_long: bool, class_: str) -> None:
    html = module.answer_table(AnswerTable("t", [HeaderCell("x")], [], "3 more", is_long), REPORT)
    assert f'<table class="{class_}">' in html and html.endswith('<p class="more">3 more</p>')


DOUBT: Any = SimpleNamespace(severity="warning", code="drift", title="Drift", message="it drifts")


@pytest.mark.parametrize(
    ("doubts", "parts"),
    [
        (Doubts([], [], [], 0), ["<p>The checks found nothing that puts these numbers in doubt.</p>"]),
        (Doubts(["torn"], [], [], 0), ["<li>torn</li>"]),
        (Doubts([], [DOUBT], [""], 0), ['<a href="#finding-drift">Drift</a>: it drifts']),
        (
            Doubts([], [DOUBT], ["2 of 3 runs"], 1),
            ["Drift</a> (2 of 3 runs): it drifts", "and 1 more kind of finding</a>"],
        ),
        (Doubts([], [DOUBT], [""], 2), ["and 2 more kinds of finding</a>"]),
    ],
)
def test_doubts(doubts: Doubts, parts: list[str]) -> None:
    html = str(module._doubts(doubts))
    assert all(part in html for part in parts) and ("Do not trust" in html) != ("nothing" in html)
    assert ('class="more"' in html) == bool(doubts.left_out)


def test_answers_are_written_by_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Sentence("fast", "verdict"), AnswerTable("t", [], []), Doubts([], [], [], 0)]
    monkeypatch.setattr(module, "answers", lambda _: answers)
    html = module.overview_section(REPORT)
    assert html.startswith('<p class="verdict">fast</p><div') and html.endswith("in doubt.</p>")


@pytest.mark.parametrize(("tables", "html"), [([], ""), ([AnswerTable("t", [], [])], "</div>[strips]")])
def test_the_section_of_jobs(monkeypatch: pytest.MonkeyPatch, tables: list[AnswerTable], html: str) -> None:
    monkeypatch.setattr(module, "job_tables", lambda _: tables)
    monkeypatch.setattr(module, "timeline_plots", lambda _: ["[strips]"])
    assert module.job_section(REPORT)[-14:] == html
