"""Tables for people and programs: text, Markdown, CSV, JSON. Only this module rounds or scales.

Text and Markdown show values in a unit that suits them; CSV and JSON give them raw, in base units.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.lazy_patterns import lazy_pattern
from perflog.output import terminal
from perflog.output.column_widths import GAP, Need, fit, least_width
from perflog.output.terminal import Line, columns_of, cut, padded, visible, wrapped
from perflog.tables.schema import SCHEMA_VERSION, TABLES
from perflog.units import UTC, count, show

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("text", "md", "csv", "json")
MAX_ROWS = 40
"""Rows that text and Markdown show of a table by default."""

_PROSE = 110  # columns: longer lines of sentences are hard to read
_LINES = 3  # of a value that is beside its name
_MARKUP = lazy_pattern(r"[\\`*<|~\[\]&]|(?<!\w)_|_(?!\w)")  # an underscore inside a word marks nothing
_FORMULA = lazy_pattern(r"\s*[=+\-@＝＋－＠].")  # a lone sign is none
_NUMBER = lazy_pattern(r"\s*[+-]?[\d.,]+(?:[eE][+-]?\d+)?\s*%?")
_END = "\r\n"  # of a row of CSV: the writer puts cells in quotes that hold one of these characters
_BLOCK = 1 << 14  # rows turned into Python values at a time


class Quantity(NamedTuple):
    """A value in its base unit."""

    value: float | None
    unit: str


Role = Literal["", "detail", "verdict", "run"]
"""What a column of a sheet is, for a terminal that is too narrow."""


class SheetColumn(NamedTuple):
    """A column of a sheet. `short` is its name without the unit, for values that are shown with their unit.

    `role`, for a terminal that is too narrow: a `detail` is left out first, a `verdict` is never cut or left out, of a
    `run` the mark is shown.
    """

    name: str
    unit: str = ""
    number: bool = False
    short: str = ""
    role: Role = ""

    @property
    def title(self) -> str:
        """The name that people see."""
        return cell(self.short or self.name)


class Mark(NamedTuple):
    """A short name, and what it means."""

    short: str
    meaning: str


class Sheet(Struct, frozen=True):
    """A table to be printed. With `pairs`, each row is a name and its value: one object in JSON.

    With `prose`, each row is a sentence, broken into lines. Where the room is limited, text shows the values
    and titles of columns of role `run` by their `marks`.
    """

    key: str
    columns: tuple[SheetColumn, ...]
    rows: Iterable[Sequence[Any]]
    title: str = ""
    note: str = ""
    pairs: bool = False
    inline: bool = False  # pairs on one line
    prose: bool = False
    marks: Mapping[str, Mark] = field(default_factory=dict)


def sheet(key: str, columns: str, rows: Iterable[Sequence[Any]], title: str = "", note: str = "") -> Sheet:
    """Return a sheet whose column names are given in one string.

    A `#` after a name marks a column of numbers, a `~` one of details, a `!` a verdict.
    """
    roles: dict[str, Role] = {"~": "detail", "!": "verdict"}
    names = tuple(
        SheetColumn(name.rstrip("#~!"), number="#" in name, role=roles.get(name[-1], "")) for name in columns.split()
    )
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
        note = f"{count(total - limit, 'more row')}: --limit 0 shows all {total:,}\n{note}".rstrip()
    known = {c.name: c for c in TABLES[name]}
    columns = tuple(_column(n, known[n].unit, known[n].type) for n in names)
    return Sheet(name, columns, _rows(table[:limit] if limit else table, names), note=note)


def result_sheet(table: pa.Table, format: str, limit: int | None = None) -> Sheet:
    """Return the rows of the result of a query, without units: nobody knows what it computes."""
    import pyarrow as pa

    limit = limit if limit is not None else MAX_ROWS if format in ("text", "md") else 0
    more = table.num_rows - limit if limit else 0
    note = f"{count(more, 'more row')}: --limit 0 shows all {table.num_rows:,}" if more > 0 else ""
    columns = tuple(
        SheetColumn(field.name, number=pa.types.is_integer(field.type) or pa.types.is_floating(field.type))
        for field in table.schema
    )
    return Sheet("result", columns, _results(table[:limit] if limit else table), note=note)


def _results(table: pa.Table) -> Iterator[Sequence[object]]:
    """Rows with values of JSON types; others, such as dates, become strings."""
    known = (int, float, str, list, dict, type(None))
    for start in range(0, table.num_rows, _BLOCK):
        columns = [column.to_pylist() for column in table.slice(start, _BLOCK).columns]
        for row in zip(*columns, strict=True):
            yield [value if isinstance(value, known) else str(value) for value in row]


def _column(name: str, unit: str, type: str) -> SheetColumn:
    short = next((name[: -len(end)] for end in ("_s", "_bytes", "_gbps") if name.endswith(end)), name)
    return SheetColumn(name, unit, type not in ("text", "word"), short if unit and not name.endswith("per_s") else name)


def _informative_columns(table: pa.Table) -> tuple[list[str], str]:
    """Return the columns that differ between rows, and a note about the other columns."""
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


_ONE_LINE = str.maketrans("\n\t", "  ")

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
        return f"{value:,.0f} {unit}"
    return show(value, unit)


def cell(value: Any, unit: str = "") -> str:
    """Return a value for a reader: scaled and rounded, on one line; dates to the minute; a dash for a missing value."""
    if isinstance(value, Quantity):
        value, unit = value
    if value is None:
        return "-"
    if isinstance(value, float | int) and not isinstance(value, bool):
        return quantity(value, unit) if unit or isinstance(value, float) else str(value)
    if unit == UTC and isinstance(value, str):
        value = value[: len("2026-03-01T09:30")].replace("T", " ")
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False)
    return visible(str(value).translate(_ONE_LINE))


def _raw(value: Any) -> Any:
    """Return a value for JSON, which has no NaN and no infinity: they become null."""
    value = value.value if isinstance(value, Quantity) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- a sheet, or several ----------------------------------------------------------------------------------------


def write(sheets: Sequence[Sheet], format: str = "text") -> None:
    """Print sheets to standard output."""
    raw = format == "csv" and terminal.choices().raw
    lines: Iterator[str | Line]
    if format == "text":
        lines = text(sheets, terminal.width())
    elif format == "csv":
        lines = csv(sheets, raw)
    else:
        lines = {"md": markdown, "json": json_text}[format](sheets)
    for line in lines:
        terminal.put(line, raw=raw)


def text(sheets: Sequence[Sheet], width: int | None = None) -> Iterator[Line]:
    """Return lines of aligned columns, none wider than `width`.

    To fit, names are cut in the middle, runs are shown by their marks, and columns are left out; a line names them.
    """
    marks: dict[Mark, None] = {}
    for i, sheet in enumerate(sheets):
        if i and (sheet.title or sheets[i - 1].title) and not (sheet.inline and sheets[i - 1].inline):
            yield Line("")
        shown = _with_marks(sheet, marks) if width and sheet.marks else sheet
        yield from _sheet_text(shown, width)
    for mark in marks:
        yield from (Line(line, dim=True) for line in wrapped(f"{mark.short}: {visible(mark.meaning)}", width, "  "))


def _with_marks(sheet: Sheet, used: dict[Mark, None]) -> Sheet:
    """Return a sheet that shows runs by their marks. Adds these to `used`."""
    named = [column.role == "run" and column.name not in sheet.marks for column in sheet.columns]

    def short(name: Any) -> Any:
        if name not in sheet.marks:
            return name
        used.setdefault(sheet.marks[name])
        return sheet.marks[name].short

    columns = [c._replace(name=short(c.name)) if c.role == "run" else c for c in sheet.columns]
    rows = [
        [short(value) if is_name else value for value, is_name in zip(row, named, strict=True)] for row in sheet.rows
    ]
    return replace(sheet, columns=tuple(columns), rows=rows)


def _sheet_text(sheet: Sheet, width: int | None) -> Iterator[Line]:
    """Return the title, the rows and the notes of a sheet."""
    if sheet.inline:
        values = ", ".join(f"{name} {cell(value, '')}" for name, value in sheet.rows)
        for i, line in enumerate(wrapped(f"{cell(sheet.title)}  {values}", width, "  ")):
            yield Line(line, bold=0 if i else len(cell(sheet.title)))
        return
    for line in wrapped(cell(sheet.title), width, "  ") if sheet.title else ():
        yield Line(line, bold=len(line))
    indent = "  " if sheet.title else ""
    room = max(width - len(indent), 1) if width else None
    notes = (line for note in visible(sheet.note).splitlines() for line in wrapped(note, room, "  "))
    for row in chain(_body(sheet, room), (Line(note, dim=True) for note in notes)):
        yield Line((indent + row.text).rstrip(), dim=row.dim)


def _body(sheet: Sheet, room: int | None) -> Iterator[Line]:
    """Return the rows of a sheet: as sentences, as names with values, or as a table."""
    rows = [[cell(v, c.unit) for v, c in zip(row, sheet.columns, strict=True)] for row in sheet.rows]
    if sheet.prose:
        return (Line(line) for (text,) in rows for line in wrapped(text, min(room or _PROSE, _PROSE), "  "))
    return _pair_lines(rows, room) if sheet.pairs else _table_lines(sheet.columns, rows, room)


def _pair_lines(rows: Sequence[Sequence[str]], room: int | None) -> Iterator[Line]:
    """Yield each name with its value, which may go on below itself."""
    names = max((columns_of(row[0]) for row in rows), default=0)
    names = min(names, room // 2) if room else names
    left = max(room - names - GAP, 1) if room else None
    for name, value in rows:
        start = padded(name, names) + " " * GAP
        for line in wrapped(cut(value, (left - 1) * _LINES) if left else value, left):
            yield Line(start + line)
            start = " " * (names + GAP)


def _table_lines(columns: Sequence[SheetColumn], rows: Sequence[Sequence[str]], room: int | None) -> Iterator[Line]:
    """Yield the head and the rows of a table, and the names of the columns that have no room."""
    if not rows:
        return
    table = [[column.title for column in columns], *rows]
    needs = [_need(i, columns, max(columns_of(row[i]) for row in table)) for i in range(len(columns))]
    widths = fit(needs, room)
    shown = [i for i, width in enumerate(widths) if width]
    for j, row in enumerate(table):
        texts = (padded(row[i], widths[i], right=columns[i].number) for i in shown)
        yield Line((" " * GAP).join(texts), dim=j == 0)
    left_out = [columns[i].title for i, need in enumerate(needs) if need.natural and not widths[i]]
    if left_out:
        note = f"no room for {', '.join(left_out)}: --wide shows all"
        yield from (Line(line, dim=True) for line in wrapped(note, room, "  "))


def _need(place: int, columns: Sequence[SheetColumn], natural: int) -> Need:
    """Return what a column needs. Details are left out first, then figures, then texts; the first of each stay."""
    column = columns[place]
    if column.role == "verdict":
        return Need(natural, natural, 0)
    least = natural if column.number else least_width(natural)
    if column.role == "detail":
        return Need(natural, least, 3)
    first = place == next(i for i, c in enumerate(columns) if c.number == column.number and c.role != "detail")
    return Need(natural, least, 0 if first else 2 if column.number else 1)


def markdown(sheets: Sequence[Sheet]) -> Iterator[str]:
    """Return lines of Markdown: pipe tables, each under its title; sentences as a list."""
    for i, sheet in enumerate(sheets):
        if i:
            yield ""
        if sheet.title:
            yield f"## {escaped(sheet.title)}\n"
        if sheet.columns and not sheet.prose:
            yield f"| {' | '.join(escaped(c.short or c.name) for c in sheet.columns)} |"
            yield f"| {' | '.join('---:' if c.number else '---' for c in sheet.columns)} |"
        for row in sheet.rows:
            cells = (escaped(cell(v, c.unit)) for v, c in zip(row, sheet.columns, strict=True))
            yield f"- {'; '.join(cells)}" if sheet.prose else f"| {' | '.join(cells)} |"
        if sheet.note:
            yield "\n" + "  \n".join(map(escaped, sheet.note.splitlines()))


def escaped(text: str) -> str:
    """Return a string so that Markdown shows it as it is: nothing in it becomes a column, emphasis, a link or HTML."""
    return _MARKUP.sub(r"\\\g<0>", text)


def csv(sheets: Sequence[Sheet], raw: bool = False) -> Iterator[str]:
    """Return lines of CSV: one table; several sheets become one with the columns section, row, name, value.

    A quote mark is put before a string that a spreadsheet would run as a formula, unless `raw` is set.
    """
    import csv as csv_module
    import io

    def lines(rows: Iterable[Iterable[Any]]) -> Iterator[str]:
        for row in rows:
            buffer = io.StringIO()
            writer = csv_module.writer(buffer, lineterminator=_END)
            writer.writerow(v.value if isinstance(v, Quantity) else v if raw else guarded(v) for v in row)
            yield buffer.getvalue().removesuffix(_END)

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


def guarded(value: object) -> Any:
    """Return a value for CSV: with a quote mark before it if a spreadsheet would run it as a formula."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value) else value


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


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def join(sheets: Sequence[Sheet]) -> list[Sheet]:
    """Return sheets with the same columns as one sheet."""
    return [replace(sheets[0], rows=[row for sheet in sheets for row in sheet.rows])] if sheets else []


# --- beside the result ------------------------------------------------------------------------------------------


def warn(*texts: str) -> None:
    """Print warnings to standard error."""
    for text in texts:
        terminal.tell(f"perflog: warning: {text}", err=True)
