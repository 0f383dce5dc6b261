"""HTML that no text can break: whatever is not `Html` already is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

_VOID = frozenset(("br", "img", "input", "meta"))


class Html(str):
    """Text that is HTML."""

    __slots__ = ()


def text(value: object) -> Html:
    """A text as HTML; HTML stays as it is. Signs that do not print become dots, as in a terminal."""
    if isinstance(value, Html):
        return value
    return Html(escape("".join(c if c.isprintable() or c == "\n" else "·" for c in str(value))))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Parts one behind the other."""
    return Html(text(between).join(map(text, parts)))


def tag(name: str, /, *inside: object, **attributes: Any) -> Html:
    """An element. `data_value=1` is the attribute `data-value="1"`, `class_` is `class`; None and False are left out,
    and True stands alone.
    """
    said = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{said}>" if name in _VOID else f"<{name}{said}>{join(inside)}</{name}>")


def link(to: str, /, *inside: object, **attributes: Any) -> Html:
    """A link to an anchor of the page."""
    return tag("a", *inside, href=f"#{to}", **attributes)


def prose(told: str) -> Html:
    """A sentence of perflog's own, with code between backticks."""
    return join(tag("code", part) if i % 2 else part for i, part in enumerate(told.split("`")))
