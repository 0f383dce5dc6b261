"""Tables for people and programs: text, Markdown, CSV, JSON. The only place that rounds or scales.

Text and Markdown show values in a unit that suits them; CSV and JSON give them raw, in base units.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from perflog.tables.schema import SCHEMA_VERSION, TABLES
from perflog.units import show

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("text", "md", "csv", "json")
MAX_ROWS = 40
"""Rows that text and Markdown show of a table by default."""

_GAP, _NARROWEST = 2, 16
_MARKUP = re.compile(r"[\\`*<|~\[\]&]|(?<!\w)_|_(?!\w)")  # an underscore inside a word marks nothing
_BLOCK = 1 << 14  # rows turned into Python values at a time


class Quantity(NamedTuple):
    """A value in its base unit."""

    value: float | None
    unit: str


class SheetColumn(NamedTuple):
    """A column of a sheet. `short` is its name without the unit, for values that are shown with their unit."""

    name: str
    unit: str = ""
    number: bool = False
    short: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table to be printed. With `pairs`, each row is a name and its value: one object in JSON."""

    key: str
    columns: tuple[SheetColumn, ...]
    rows: Iterable[Sequence[Any]]
    title: str = ""
    note: str = ""
    pairs: bool = False
    inline: bool = False  # pairs that stand on one line of text


def sheet(key: str, columns: str, rows: Iterable[Sequence[Any]], title: str = "", note: str = "") -> Sheet:
    """Return a sheet whose column names are given in one string; a `#` after a name marks a column of numbers."""
    names = tuple(SheetColumn(name.rstrip("#"), number=name.endswith("#")) for name in columns.split())
    return Sheet(key, names, rows, title, note)


def pairs(key: str, rows: Iterable[tuple[str, Any]], title: str = "", note: str = "", inline: bool = False) -> Sheet:
    """Return a sheet of names and values, without missing values."""
    rows = [row for row in rows if row[1] is not None]
    return Sheet(key, (SheetColumn("name"), SheetColumn("value")), rows, title, note, True, inline)


def table_sheet(name: str, table: pa.Table, format: str, limit: int | None = None) -> Sheet:
    """Return the rows of a table. In text, a note replaces columns that are empty or have one value in every row."""
    total, brief = table.num_rows, format in ("text", "md")
    limit = limit if limit is not None else MAX_ROWS if brief else 0
    names, note = table.column_names, ""
    if brief and total:
        names, note = _informative_columns(table)
    if limit and total > limit:
        note = f"{total - limit} more rows: --limit 0 shows all {total}\n{note}".rstrip()
    known = {c.name: c for c in TABLES[name]}
    columns = tuple(_column(n, known[n].unit, known[n].type) for n in names)
    return Sheet(name, columns, _rows(table.slice(0, limit) if limit else table, names), note=note)


def _column(name: str, unit: str, type: str) -> SheetColumn:
    short = next((name[: -len(end)] for end in ("_s", "_bytes", "_gbps") if name.endswith(end)), name)
    return SheetColumn(name, unit, type not in ("text", "word"), short if unit and not name.endswith("per_s") else name)


def _informative_columns(table: pa.Table) -> tuple[list[str], str]:
    """Return the columns whose values differ between rows, and a note about the other columns."""
    import pyarrow.compute as pc

    names, empty, same = [], [], []
    for name in table.column_names:
        column = table[name]
        if name == "unit" and "value" in table.column_names:
            continue  # each value is shown with its unit
        if column.null_count == len(column):
            if name != "read_by":  # nothing was guessed: no fact about the rows that is missing
                empty.append(name)
        elif len(column) > 1 and len(values := pc.unique(column)) == 1:
            same.append(f"{name} {cell(values[0].as_py(), '')}")
        else:
            names.append(name)
    notes = [f"in every row: {', '.join(same)}"] if same else []
    notes += [f"no values: {', '.join(empty)}"] if empty else []
    return names, "\n".join(notes)


def _rows(table: pa.Table, names: Sequence[str]) -> Iterator[Sequence[Any]]:
    quantities = "value" in names and "unit" in table.column_names
    for start in range(0, table.num_rows, _BLOCK):
        block = table.slice(start, _BLOCK)
        columns = {name: block[name].to_pylist() for name in names}
        if quantities:
            units = (unit or "" for unit in block["unit"].to_pylist())
            columns["value"] = list(map(Quantity, columns["value"], units))
        yield from zip(*columns.values(), strict=True)


# --- one value --------------------------------------------------------------------------------------------------


def quantity(value: float, unit: str) -> str:
    """Return a number for a reader: with its unit, in four significant digits; integers keep all digits."""
    if value != value:
        return "nan"
    if not unit and math.isfinite(value) and abs(value) < 1e15 and (value == int(value) or abs(value) >= 1e4):
        return f"{value:.0f}"
    if unit == "ns":
        return f"{value:.0f} ns"
    if abs(value) >= 1e4 and unit in ("1/s", "TFLOP/s", "GB/s", "W", "J") and math.isfinite(value):
        return f"{value:.0f} {unit}"
    return show(value, unit)


def cell(value: Any, unit: str = "") -> str:
    """Return a value for a reader: scaled and rounded, on one line; a dash for a missing value."""
    if isinstance(value, Quantity):
        value, unit = value
    if value is None:
        return "-"
    if isinstance(value, float | int) and not isinstance(value, bool):
        return quantity(value, unit) if unit or isinstance(value, float) else str(value)
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else "·" for c in " ".join(str(value).split("\n")))


def _raw(value: Any) -> Any:
    """Return a value for JSON, which has no NaN and no infinity: they become null."""
    value = value.value if isinstance(value, Quantity) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- a sheet, or several ----------------------------------------------------------------------------------------


def write(sheets: Sequence[Sheet], format: str = "text") -> None:
    """Print sheets to standard output."""
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if format == "text":
        lines = text(sheets, width, color)
    else:
        lines = {"md": markdown, "csv": csv, "json": json_text}[format](sheets)
    for line in lines:
        click.echo(line, color=color)


def text(sheets: Sequence[Sheet], width: int | None = None, color: bool = False) -> Iterator[str]:
    """Return lines of aligned columns. Columns of text are cut to fit into `width`."""
    style: Callable[..., str] = click.style if color else lambda line, **_: line
    for i, sheet in enumerate(sheets):
        if i and (sheet.title or sheets[i - 1].title) and not (sheet.inline and sheets[i - 1].inline):
            yield ""
        if sheet.inline:
            values = ", ".join(f"{name} {cell(value, '')}" for name, value in sheet.rows)
            yield f"{style(sheet.title, bold=True)}  {values}"
            continue
        if sheet.title:
            yield style(sheet.title, bold=True)
        indent = "  " if sheet.title else ""
        rows = [[cell(v, c.unit) for v, c in zip(row, sheet.columns, strict=True)] for row in sheet.rows]
        head = [] if sheet.pairs or not rows else [[c.short or c.name for c in sheet.columns]]
        widths = _widths([*head, *rows], sheet.columns, width and width - len(indent))
        for j, row in enumerate([*head, *rows]):
            cells = [_fit(v, n, c) for v, n, c in zip(row, widths, sheet.columns, strict=True)]
            line = indent + (" " * _GAP).join(cells).rstrip()
            yield style(line, dim=True) if head and j == 0 else line
        for line in sheet.note.splitlines():
            room = max((width or sys.maxsize) - len(indent), _NARROWEST)
            yield from (style(indent + part, dim=True) for part in textwrap.wrap(line, room))


def _widths(rows: Sequence[Sequence[str]], columns: Sequence[SheetColumn], width: int | None) -> list[int]:
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(len(columns))]
    while width and sum(widths) + _GAP * (len(widths) - 1) > width:
        wide = [i for i, c in enumerate(columns) if not c.number and widths[i] > _NARROWEST]
        if not wide:
            break
        widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def _fit(value: str, width: int, column: SheetColumn) -> str:
    if len(value) > width:  # the end of a log's name says more than its start
        value = f"...{value[3 - width :]}" if column.name == "log" else f"{value[: width - 3]}..."
    return value.rjust(width) if column.number else value.ljust(width)


def markdown(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Return lines of Markdown: pipe tables, each under its title."""
    for i, sheet in enumerate(sheets):
        if i:
            yield ""
        if sheet.title:
            yield f"## {escaped(sheet.title)}\n"
        if sheet.columns:
            yield f"| {' | '.join(c.short or c.name for c in sheet.columns)} |"
            yield f"| {' | '.join('---:' if c.number else '---' for c in sheet.columns)} |"
        for row in sheet.rows:
            cells = (escaped(cell(v, c.unit)) for v, c in zip(row, sheet.columns, strict=True))
            yield f"| {' | '.join(cells)} |"
        if sheet.note:
            yield "\n" + "  \n".join(map(escaped, sheet.note.splitlines()))


def escaped(text: str) -> str:
    """Return a text so that Markdown shows it as it is: nothing in it becomes a column, emphasis, a link or HTML."""
    return _MARKUP.sub(r"\\\g<0>", text)


def csv(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Return lines of CSV: one table; several sheets become one with the columns section, row, name, value."""
    import csv as csv_module
    import io

    def lines(rows: Iterable[Iterable[Any]]) -> Iterator[str]:
        for row in rows:
            buffer = io.StringIO()
            writer = csv_module.writer(buffer, lineterminator="")
            writer.writerow(v.value if isinstance(v, Quantity) else v for v in row)
            yield buffer.getvalue()

    if len(sheets) == 1:
        yield from lines([[c.name for c in sheets[0].columns]])
        yield from lines(sheets[0].rows)
        return
    yield "section,row,name,value"
    for sheet in sheets:
        for i, row in enumerate(sheet.rows, 1):
            if sheet.pairs:
                yield from lines([[sheet.key, "", *row]])
            else:
                yield from lines([sheet.key, i, c.name, v] for c, v in zip(sheet.columns, row, strict=True))


def json_text(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Return lines of one JSON document: `table` and `rows` of a single sheet, or each sheet under its key."""
    head = f'{{"schema_version": {SCHEMA_VERSION}'
    single = len(sheets) == 1 and not sheets[0].pairs
    yield f"{head}, {_dump('table')}: {_dump(sheets[0].key)}," if single else f"{head},"
    for i, sheet in enumerate(sheets):
        end = "" if i == len(sheets) - 1 else ","
        if sheet.pairs:
            yield f"{_dump(sheet.key)}: {_dump({name: _raw(value) for name, value in sheet.rows})}{end}"
            continue
        yield f"{_dump('rows' if single else sheet.key)}: ["
        last = None
        for row in sheet.rows:
            if last is not None:
                yield last + ","
            last = _dump({c.name: _raw(v) for c, v in zip(sheet.columns, row, strict=True)})
        if last is not None:
            yield last
        yield f"]{end}"
    yield "}"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def join(sheets: Sequence[Sheet]) -> list[Sheet]:
    """Return sheets with the same columns as one sheet."""
    return [replace(sheets[0], rows=[row for sheet in sheets for row in sheet.rows])] if sheets else []


# --- beside the result ------------------------------------------------------------------------------------------


def warn(text: str) -> None:
    """Print a warning to standard error."""
    click.echo(f"perflog: warning: {text}", err=True)
