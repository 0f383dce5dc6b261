"""Sortable tables of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from perflog.output.report.element import Html, join, link, tag, text
from perflog.output.sheets import Quantity, cell

LONGEST = 400
"""Characters shown of one text; a log can hold longer ones."""

_LINE = 40


class Head(NamedTuple):
    """Head of a column. `title` is shown when it is pointed at."""

    name: str
    number: bool = False
    title: str | None = None


def grid(label: str, heads: Sequence[Head], rows: Iterable[Html], more: str | Html = "", **data: Any) -> Html:
    """A table that can be sorted and, where it is wide, scrolled. `more` tells what it leaves out."""
    cells = (
        tag(
            "th",
            tag("button", h.name, type="button", title=h.title),
            scope="col",
            class_="number" if h.number else None,
        )
        for h in heads
    )
    table = tag("table", tag("thead", tag("tr", *cells)), tag("tbody", join(rows, "\n")), class_="sortable", **data)
    box = tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)
    return join((box, tag("p", more, class_="more") if more else ""))


def figure(value: float | Quantity | None, unit: str = "", to: str | None = None) -> Html:
    """A cell with a number, which links to what it means. It is sorted by its value in the base unit."""
    number, unit = value if isinstance(value, Quantity) else (value, unit)
    if number is None or number != number:
        return tag("td", "-", data_value="")
    shown = cell(number, unit)
    return tag("td", link(to, shown) if to else shown, data_value=number)


def numeric(values: Iterable[object]) -> bool:
    """Whether all that there is are numbers."""
    return all(isinstance(v, int | float | Quantity | None) and not isinstance(v, bool) for v in values)


def words(value: object) -> Html:
    """A cell with a text. A short one stays on one line."""
    shown = value if isinstance(value, Html) else short(value)
    return tag("td", shown, class_="text" if len(shown) > _LINE and not isinstance(value, Html) else None)


def short(value: object) -> Html:
    """A text, cut where it is very long."""
    shown = ("no", "yes")[value] if isinstance(value, bool) else cell(value)
    return text(shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}...")
