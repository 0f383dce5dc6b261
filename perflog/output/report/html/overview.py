"""The first section of a report: the verdict, how fast, where the time goes, and what not to trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from perflog.analysis.lint import SEVERITIES
from perflog.analysis.overview import Overview
from perflog.analysis.overview.doubts import Doubt
from perflog.analysis.overview.run_groups import SINGLE_RUNS, RunGroup
from perflog.analysis.overview.subject import count
from perflog.output.presenters.overview import unread_in_words
from perflog.output.report.data import ReportData, RuleFindings
from perflog.output.report.html.bars import where_the_time_goes
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
from perflog.output.report.html.links import MAX_RUNS, findings_by_run, left_out_note

_ROWS, _DOUBTS = 12, 3


def overview_section(report: ReportData) -> Html:
    """Return the answers to the first questions: what ran, how fast, why, what not to trust."""
    overview = report.overview
    verdict = report.comparison and f"{report.title}: {report.comparison.conclusion}"
    many = len(report.runs) > SINGLE_RUNS  # then the answers stand before the lines of the runs
    return join((
        tag("p", verdict, class_="verdict") if verdict else "",
        tag("p", f"{overview.what}; {unread_in_words(overview)}"),
        _speed(overview),
        "" if many else _index(report),
        *(tag("p", shortened(text), class_="reason") for text in overview.reasons),
        where_the_time_goes(report),
        _doubts(report),
        _index(report) if many else "",
    ))  # fmt: skip


def _speed(overview: Overview) -> Html:
    """How fast the repeats of each configuration were; empty where each run is a row of the index."""
    repeated = any(len(group.runs) > 1 for group in overview.groups)
    if not overview.figures or not repeated:
        return Html()
    settings = list(overview.groups[0].settings)
    heads = [HeaderCell("runs of"), *map(HeaderCell, settings), HeaderCell("runs", number=True)]
    rows = [
        [
            text_cell(f"{group.mark} {group.name}"), *(text_cell(group.settings[name]) for name in settings),
            number_cell(len(group.runs)), *_figures(overview, place, group, None),
        ]
        for place, group in enumerate(overview.groups[:_ROWS])
    ]  # fmt: skip
    heads += _figure_heads(overview, "SD of the runs")
    table_rows = (tag("tr", *cells) for cells in rows)
    return sortable_table("how fast", heads, table_rows, left_out_note(len(overview.groups) - _ROWS, "RUN"))


def _figure_heads(overview: Overview, spread: str) -> Iterator[HeaderCell]:
    """The headline with its spread and change, then the other figures."""
    for place, figure in enumerate(overview.figures):
        yield HeaderCell(figure.name, number=True)
        if place == 0:
            yield HeaderCell("±", number=True, tooltip=spread)
            if overview.base:
                yield HeaderCell("change", number=True)


def _figures(overview: Overview, place: int, group: RunGroup, run: str | None) -> Iterator[Html]:
    """The cells of the figures of a group, or of one of its runs."""
    for i, figure in enumerate(overview.figures):
        value = figure.values.get(run) if run else overview.value(figure, group)
        yield number_cell(value, text=figure.text(value, 4 if i == 0 else 3))
        if i == 0:
            yield _percent_cell(figure.spread.get(run) if run else overview.spread(figure, group), ".1f")
            if overview.base:
                yield _percent_cell(overview.change(place) if len(group.runs) == 1 or not run else None, "+.1f")


def _percent_cell(share: float | None, digits: str) -> Html:
    return number_cell(share, text=None if share is None else f"{100 * share:{digits}} %")


def _index(report: ReportData) -> Html:
    """A line for each run: its name, its figures, what speaks against them, a link to its details."""
    overview = report.overview
    groups = {run: (place, group) for place, group in enumerate(overview.groups) for run in group.runs}
    names = [name for name in overview.groups[0].settings if len(report.runs) > 1] if overview.groups else []
    names = [name for name in names if not all(f"{name}=" in text for text in report.names.values())]
    heads = [HeaderCell("run"), *(HeaderCell(name) for name in names)]
    heads += [*_figure_heads(overview, "half of the 95 % interval"), HeaderCell("not to trust")]
    heads += [HeaderCell("steps", number=True)] * bool(report.steps)
    against = findings_by_run(report)
    rows = []
    for i, run in enumerate(report.runs[:MAX_RUNS], 1):
        place, group = groups[run["run"]]
        name = report.names[run["run"]]
        if len(report.runs) > 1 and len(group.runs) == 1 and not name.endswith(group.mark):
            name = f"{group.mark} {name}"  # the sentences below say #4 or B
        rows.append(tag(
            "tr", tag("td", link(f"run-{i}", shortened(name))),
            *(text_cell(group.settings[name]) for name in names),
            *_figures(overview, place, group, run["run"]),
            tag("td", _trust(against.get(run["run"], ()))),
            number_cell(report.steps.get(run["run"])) if report.steps else "",
        ))  # fmt: skip
    note = left_out_note(len(report.runs) - MAX_RUNS, "runs")
    return sortable_table("runs", heads, rows, note)


def _trust(groups: Sequence[RuleFindings]) -> Html:
    """The number of rules with findings against a run, by severity; notes speak against nothing."""
    counts = Counter(group.findings[0].severity for group in groups)
    marks = [tag("span", count(counts[s], s), class_=f"badge {s}") for s in SEVERITIES if s != "note" and counts[s]]
    return join(marks, " ") if marks else Html("-")


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
