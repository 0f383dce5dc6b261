"""HTML elements that no string can break (all are escaped), and the sortable tables of a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from perflog.output.report.cells import HeaderCell
from perflog.output.sheets import Quantity, cell

_VOID = frozenset(("br", "img", "input", "link", "meta", "wbr"))

MAX_TEXT = 400
"""Characters shown of one string; a log can hold longer ones."""

MAX_MESSAGE = 4 * MAX_TEXT
"""Characters shown of the message of a finding: it can quote several strings of a log, and its advice comes last."""

_MAX_SINGLE_LINE = 40  # characters of a cell that is not broken into several lines
_MANY_COLUMNS = 13  # from which on they are narrow


class Html(str):
    """A string that is HTML already, and is not escaped again."""

    __slots__ = ()


# --- elements -----------------------------------------------------------------------------------------------------


def as_html(value: object) -> Html:
    """Return a value as HTML: strings are escaped, and characters that do not print become dots, as in a terminal."""
    if isinstance(value, Html):
        return value
    text = str(value)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else "·" for c in text)
    return Html(escape(text))


def join(parts: Iterable[object], separator: str = "") -> Html:
    """Return the parts as HTML, one after the other."""
    return Html(as_html(separator).join(map(as_html, parts)))


def tag(name: str, /, *children: object, **attributes: Any) -> Html:
    """Return an element.

    `data_value=1` is the attribute `data-value="1"`, and `class_` is `class`. None and False leave an attribute out,
    True gives it no value.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{as_html(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{join(children)}</{name}>")


def link(anchor: str, /, *children: object, **attributes: Any) -> Html:
    """Return a link to an anchor of the same page."""
    return tag("a", *children, href=f"#{anchor}", **attributes)


def folded(heading: Html, *content: object) -> Html:
    """Return a part that shows its heading until a reader opens it."""
    return tag("details", tag("summary", heading), *content)


def breakable(name: str) -> Html:
    """Return a name that may be broken before two letters after an underscore, dot, dash or slash."""
    return join(re.split(r"(?<=[_./-])(?=[^\W\d]{2})", name), tag("wbr"))


def with_code(sentence: str) -> Html:
    """Return a sentence of perflog's own, with the parts between backticks as code."""
    return join(tag("code", part) if i % 2 else part for i, part in enumerate(sentence.split("`")))


def shortened(value: object, most: int = MAX_TEXT) -> Html:
    """Return a value as a string, cut after `most` characters."""
    text = ("no", "yes")[value] if isinstance(value, bool) else cell(value)
    text = text if len(text) <= most else f"{text[:most]}..."
    return join(text.split("->"), tag("span", "->", class_="arrow"))  # a browser ends a line between its characters


# --- tables -------------------------------------------------------------------------------------------------------


def sortable_table(
    label: str, heads: Sequence[HeaderCell], rows: Iterable[Html], note: str | Html = "", class_: str = ""
) -> Html:
    """Return a table that can be sorted and, where it is wide, scrolled; `note` is below it.

    `class_`: a class of its own.
    """
    cells = (
        tag(
            "th",
            tag("button", breakable(head.name), type="button", title=head.tooltip),
            scope="col",
            data_of=head.meaning,
            class_="number" if head.number else None,
        )
        for head in heads
    )
    table = tag(
        "table",
        tag("thead", tag("tr", *cells)),
        tag("tbody", join(rows, "\n")),
        class_=" ".join(filter(None, ("sortable", "wide" if len(heads) >= _MANY_COLUMNS else "", class_))),
    )
    box = tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)
    return join((box, tag("p", note, class_="more") if note else ""))


def number_cell(value: float | Quantity | None, unit: str = "", text: str | None = None) -> Html:
    """Return a cell with a number. Its value in base units sorts it.

    `text`: the number in words, if not as all tables show it.
    """
    number, unit = value if isinstance(value, Quantity) else (value, unit)
    if number is None or number != number:
        return tag("td", "-", data_value=True)
    text = text or cell(number, unit)
    return tag("td", text, data_value=number if isinstance(number, int) else f"{number:.9g}")


def text_cell(value: object) -> Html:
    """Return a cell with a string. A short one stays on one line."""
    content = value if isinstance(value, Html) else shortened(value)
    long = len(content) > _MAX_SINGLE_LINE and not isinstance(value, Html)
    return tag("td", content, class_="text" if long else None)
