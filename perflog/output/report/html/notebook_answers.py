"""What a notebook shows of an `Overview`, `Comparison`, `Diagnosis` or `Track`: tables and lists without a style."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from perflog.analysis.compare.comparison import Comparison, sides_in_words
from perflog.analysis.compare.explanations.attribution import telling_parts
from perflog.analysis.diagnosis import Diagnosis
from perflog.analysis.overview import Overview
from perflog.analysis.track import Track
from perflog.output.presenters import diagnosis as diagnosis_presenter
from perflog.output.report.html.elements import Html, join, tag
from perflog.units import count, show, show_change

_MOST_ROWS = 40
_MOST_PARTS = 10


def overview_html(overview: Overview) -> Html:
    """Return the figures as a table in words, then parts, reasons and what not to trust."""
    groups = overview.groups
    names = ["", *(g.mark if g.name.endswith(g.mark) else f"{g.mark} {g.name}" for g in groups)]
    settings = [[name, *(group.settings[name] for group in groups)] for name in overview.differing_settings]
    columns = [names, *settings, *(overview.figure_column(figure) for figure in overview.figures)]
    if overview.base:
        columns.insert(2 + len(settings), overview.change_column())
    rows = list(zip(*columns, strict=True))
    parts = [f"{part.name}: {100 * part.share:.0f} %, {show(part.seconds, 's', 3)}" for part in overview.parts]
    doubts = [overview.in_words(doubt) for doubt in overview.doubts if not doubt.is_outcome]
    return join(
        (
            tag("p", repr(overview)),
            _table((), rows[: _MOST_ROWS + 1]) if overview.figures else "",
            tag("p", f"and {count(len(groups) - _MOST_ROWS, 'more row')}") if len(groups) > _MOST_ROWS else "",
            _titled_list("First", overview.outcome),
            _titled_list("Where the time goes", parts),
            _titled_list("Reasons", overview.reasons),
            _titled_list("Do not trust", doubts),
            _titled_list("Next", overview.next),
        )
    )


def comparison_html(comparison: Comparison) -> Html:
    """Return tables of the headline and of the parts that differ, and what not to trust.

    The headline has a row for each case, side and statistic.
    """
    heads = ("case", "side", "metric", "figure", "base", "value", "change", "interval", "verdict")
    rows = [
        (row.case or "-", row.side, row.metric, row.statistic, show(row.base_value, row.unit),
         show(row.side_value, row.unit), show_change(row.change), row.interval_in_words, row.verdict)
        for row in comparison.headlines
    ]  # fmt: skip
    parts = list(_telling_parts(comparison))
    doubts = [f"{text} ({', '.join(sides)})" if sides else text for text, sides in comparison.doubts.values()]
    return join(
        (
            tag("p", f"{sides_in_words(comparison)}: {comparison.conclusion}"),
            _table(heads, rows),
            *((tag("p", "Where the difference went"), _table(_PART_HEADS, parts)) if parts else ()),
            _titled_list("Do not trust", doubts),
        )
    )


def diagnosis_html(diagnosis: Diagnosis) -> Html:
    """Return the parts of a diagnosis as a table."""
    return join((tag("p", repr(diagnosis)), _table((), diagnosis_presenter.parts(diagnosis))))


def track_html(track: Track) -> Html:
    """Return the answer of `perflog.track` in sentences."""
    return join((tag("p", repr(track)), tag("ul", *(tag("li", sentence) for sentence in track.sentences))))


_PART_HEADS = ("part", "base", "side", "change", "share")


def _telling_parts(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """The parts that differ most, of two sides with one configuration: name, both times, difference, share."""
    if len(comparison.sides) > 2 or len(comparison.cases) > 1:
        return
    for kind in dict.fromkeys(part.kind for part in comparison.attribution_records):
        parts = [part for part in comparison.attribution_records if part.kind == kind]
        for part in (parts[0], *telling_parts(parts, _MOST_PARTS)) if len(parts) > 1 else ():
            times = [show(time, "s") for time in (part.base_s, part.side_s, part.difference_s)]
            yield ". " * part.depth + part.part, *times, show(part.share, "1", 2)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    return tag("table", _row("th", heads) if heads else "", *(_row("td", row) for row in rows))


def _row(cell: str, values: Iterable[str]) -> Html:
    return tag("tr", *(tag(cell, value) for value in values))


def _titled_list(title: str, items: Sequence[str]) -> Html:
    return join((tag("p", title), tag("ul", *(tag("li", item) for item in items)))) if items else Html("")
