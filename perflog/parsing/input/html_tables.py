"""Tables in HTML, as a notebook holds them, as the rows of Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser


def markdown_rows(html: str) -> Iterator[str]:
    """The rows of tables in HTML as Markdown rows, with a rule under the first."""
    page = _Tables()
    page.feed(html)
    for table in page.tables:
        for number, cells in enumerate(row for row in table if row):
            yield f"| {' | '.join(cells)} |"
            if not number:
                yield f"|{' --- |' * len(cells)}"
        yield ""


class _Tables(HTMLParser):
    """Collects the cells of the tables of a page: `tables` holds the rows of each."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1]:
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self.tables[-1][-1].append(re.sub(r"[|\s]+", " ", "".join(self._cell)).strip())
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)
