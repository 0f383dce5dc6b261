"""Sentences and tables of the answers of a report as data, which its HTML and its Markdown form both write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.lint import Severity
from perflog.output.sheets import cell
from perflog.units import show_change


class Sentence(NamedTuple):
    """A paragraph of an answer: the verdict of a comparison, what ran, or a reason."""

    text: str
    kind: Literal["verdict", "subject", "reason"]


class HeaderCell(NamedTuple):
    """The head of a column. `tooltip` is shown under the pointer; `meaning` is the anchor of its definition."""

    name: str
    number: bool = False
    tooltip: str | None = None
    meaning: str | None = None


class Number(NamedTuple):
    """A number in base units, which sorts it, and its string; None where it is not known."""

    value: float | None
    text: str


class RunName(NamedTuple):
    """The name of a run, and its id."""

    name: str
    run: str


class Part(NamedTuple):
    """The name of a part of a time: how deep it is in the tree of parts, and what it means."""

    name: str
    depth: int = 0
    meaning: str | None = None


class Bar(NamedTuple):
    """A bar from `start` to `end` of a line of length 1, and the number beside it: its value and its strings.

    `better`: whether what it shows got faster; None where it does not compare.
    """

    start: float
    end: float
    value: float | None = None
    texts: Sequence[str] = ()
    better: bool | None = None


class FindingCounts(NamedTuple):
    """Number of rules that speak against a run, by severity."""

    counts: Mapping[Severity, int]


Cell = str | Number | RunName | Part | Bar | FindingCounts | None


class AnswerTable(Struct, frozen=True):
    """A table of an answer. `without_empty_columns` leaves out a column with only empty cells.

    `has_long_names`: whether several columns hold long names, which may then break anywhere.
    """

    title: str
    heads: Sequence[HeaderCell]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    has_long_names: bool = False

    def without_empty_columns(self) -> AnswerTable:
        """Return the table without the columns of figures that no row has."""
        kept = [i for i in range(len(self.heads)) if any(not _is_empty(row[i]) for row in self.rows)]
        rows = [[row[i] for i in kept] for row in self.rows]
        return replace(self, heads=[self.heads[i] for i in kept], rows=rows)


def number(value: float | None, unit: str = "", text: str | None = None) -> Number:
    """Return the cell of a number, shown as all tables show it unless `text` is given."""
    if value is None or value != value:
        return Number(None, "-")
    return Number(value, text or cell(value, unit))


def change_cell(change: float | None) -> Number:
    """Return the cell of a relative change."""
    return number(change, text=show_change(change))


def _is_empty(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, Number) and cell.value is None)
