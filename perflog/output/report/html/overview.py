"""The first section of a report: the verdict, how fast, where the time goes, and what not to trust."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.analysis.overview import Overview
from perflog.analysis.overview.doubts import Doubt
from perflog.analysis.overview.subject import count
from perflog.output.presenters.overview import unread_in_words
from perflog.output.report.data import ReportData
from perflog.output.report.html.elements import (
    HeaderCell,
    Html,
    join,
    link,
    number_cell,
    shortened,
    sortable_table,
    tag,
    text_cell,
)
from perflog.output.report.html.links import left_out_note
from perflog.output.sheets import Quantity

_ROWS, _PARTS, _DOUBTS = 12, 6, 3
_LEAST_SHARE = 0.005  # smaller parts are left out


def overview_section(report: ReportData) -> Html:
    """Return the answers to the first questions: what ran, how fast, why, what not to trust."""
    overview = report.overview
    verdict = report.comparison and f"{report.title}: {report.comparison.conclusion}"
    return join((
        tag("p", verdict, class_="verdict") if verdict else "",
        tag("p", f"{overview.what}; {unread_in_words(overview)}"),
        _speed(overview),
        _parts(overview),
        *(tag("p", shortened(text), class_="reason") for text in overview.reasons),
        _doubts(report),
    ))  # fmt: skip


def _speed(overview: Overview) -> Html:
    """How fast the runs were, the headline first."""
    if not overview.figures:
        return Html()
    several = len(overview.groups) > 1
    settings = list(overview.groups[0].settings) if several else []
    heads = [HeaderCell("run"), *map(HeaderCell, settings)] if several else []
    repeated = any(len(group.runs) > 1 for group in overview.groups)
    known_spread = any(overview.spread(overview.figures[0], group) is not None for group in overview.groups)
    heads += [HeaderCell("runs", number=True)] * repeated
    for figure in overview.figures:
        heads.append(HeaderCell(figure.name, number=True))
        if figure is overview.figures[0]:
            spread = HeaderCell("±", number=True, tooltip="half of the 95 % interval of one run; SD of several runs")
            heads += [spread] * known_spread
            heads += [HeaderCell("change", number=True)] * bool(overview.base)
    rows = []
    for place, group in enumerate(overview.groups[:_ROWS]):
        name = group.mark if group.name.endswith(group.mark) else f"{group.mark} {group.name}"
        cells = [text_cell(name), *(text_cell(group.settings[name]) for name in settings)] if several else []
        cells += [number_cell(len(group.runs))] * repeated
        for figure in overview.figures:
            cells.append(number_cell(overview.value(figure, group), figure.unit))
            if figure is overview.figures[0]:
                cells += [number_cell(overview.spread(figure, group), "1")] * known_spread
                cells += [number_cell(Quantity(overview.change(place), "1"))] * bool(overview.base)
        rows.append(tag("tr", *cells))
    return sortable_table("how fast", heads, rows, left_out_note(len(overview.groups) - _ROWS, "RUN"))


def _parts(overview: Overview) -> Html:
    """Where the time goes, as bars."""
    shown = [part for part in overview.parts[:_PARTS] if part.share >= _LEAST_SHARE]
    if not shown:
        return Html()
    rows = (
        tag(
            "tr", text_cell(part.name), number_cell(part.share, "1"), number_cell(part.seconds, "s"),
            tag("td", tag("meter", min=0, max=1, value=f"{part.share:.4f}", title=part.name)),
        )
        for part in shown
    )  # fmt: skip
    heads = [HeaderCell("where the time goes"), HeaderCell("share", True), HeaderCell("time", True), HeaderCell("")]
    return sortable_table("where the time goes", heads, rows)


def _doubts(report: ReportData) -> Html:
    """The findings that matter most, each with a link to its card."""
    overview = report.overview
    if not overview.doubts:
        return tag("p", "The checks found nothing that makes these figures doubtful.")
    total = sum(len(group.runs) for group in overview.groups)
    items = (
        tag("li", tag("span", doubt.severity, class_=f"badge {doubt.severity}"), " ", *_doubt(doubt, total))
        for doubt in overview.doubts[:_DOUBTS]
    )
    more = len(overview.doubts) - _DOUBTS
    note = tag("p", link("findings", f"{count(more, 'kind')} of findings more"), class_="more") if more > 0 else ""
    return join((tag("h3", "Do not trust"), tag("ul", *items, class_="doubts"), note))


def _doubt(doubt: Doubt, total: int) -> Iterator[object]:
    where = "" if total == 1 else " (all runs)" if len(doubt.runs) == total else f" ({len(doubt.runs)} of {total} runs)"
    yield link(f"finding-{doubt.severity}-{doubt.code}", doubt.title)
    yield f"{where}: "
    yield shortened(doubt.message)
