"""The first section of a report as HTML: the verdict, how fast, where the time goes, and what not to trust."""

from __future__ import annotations

from perflog.output.report.answers import Answer, Doubts, answers
from perflog.output.report.cells import AnswerTable, Bar, Cell, FindingCounts, Number, Part, RunName
from perflog.output.report.data import ReportData
from perflog.output.report.html.elements import (
    Html,
    breakable,
    join,
    link,
    number_cell,
    shortened,
    sortable_table,
    tag,
    text_cell,
)
from perflog.output.report.html.links import run_anchor
from perflog.output.report.html.plots import timeline_plots
from perflog.output.report.job import job_tables
from perflog.units import count


def overview_section(report: ReportData) -> Html:
    """Return the answers to the first questions: what ran, how fast, why, what not to trust."""
    return join(_written(answer, report) for answer in answers(report))


def job_section(report: ReportData) -> Html:
    """Return what happened to the jobs, with the strips of their timeline."""
    tables = [answer_table(table, report) for table in job_tables(report)]
    return join([*tables, *timeline_plots(report)]) if tables else Html("")


def _written(answer: Answer, report: ReportData) -> Html:
    if isinstance(answer, AnswerTable):
        return answer_table(answer, report)
    if isinstance(answer, Doubts):
        return _doubts(answer)
    return tag("p", shortened(answer.text), class_=answer.kind)


def answer_table(table: AnswerTable, report: ReportData) -> Html:
    """Return a table of an answer, with bars and with links to the runs."""
    rows = (tag("tr", *(_cell(cell, report) for cell in row)) for row in table.rows)
    return sortable_table(table.title, table.heads, rows, table.note, "long-names" if table.has_long_names else "")


def _cell(cell: Cell, report: ReportData) -> Html:
    match cell:
        case None:
            return tag("td", "-", data_value="")
        case Number(value, text):
            return number_cell(value, text=text)
        case RunName(name, run):
            return tag("td", link(run_anchor(report, run), breakable(name)), class_="name")
        case Part(name, depth, meaning):
            return tag("td", breakable(name), title=meaning, class_=f"part depth{min(depth, 5)}")
        case Bar():
            return _bar(cell)
        case FindingCounts(counts):
            badges = (tag("span", count(number, s), class_=f"badge {s}") for s, number in counts.items())
            return tag("td", join(badges, " "))
    return text_cell(cell)


def _bar(bar: Bar) -> Html:
    low, high = max(min(bar.start, bar.end), 0.0), min(max(bar.start, bar.end), 1.0)
    rect = tag("rect", x=f"{100 * low:.2f}", width=f"{100 * (high - low):.2f}", height=10)
    kind = {None: "bar", True: "bar better", False: "bar worse"}[bar.better]
    drawn = tag("svg", rect, viewBox="0 0 100 10", preserveAspectRatio="none", class_=kind, aria_hidden="true")
    if not bar.texts:
        return tag("td", drawn, class_="of-bar")
    figures = join((tag("span", text) for text in bar.texts), " ")
    return tag("td", drawn, figures, class_="step", data_value=bar.value)


def _doubts(doubts: Doubts) -> Html:
    """What went wrong, and the findings that matter most, each with a link to its card."""
    if not doubts.shown and not doubts.warnings:
        return tag("p", "The checks found nothing that puts these numbers in doubt.")
    items = (
        tag("li", tag("span", doubt.severity, class_=f"badge {doubt.severity}"), " ",
            link(f"finding-{doubt.code}", doubt.title), f" ({place}): " if place else ": ",
            shortened(doubt.message))
        for doubt, place in zip(doubts.shown, doubts.places, strict=True)
    )  # fmt: skip
    warnings = (tag("li", shortened(text)) for text in doubts.warnings)
    more = tag("p", link("findings", f"and {count(doubts.left_out, 'more kind')} of finding"), class_="more")
    return join(
        (tag("h3", "Do not trust"), tag("ul", *warnings, *items, class_="doubts"), more if doubts.left_out else "")
    )
