"""Tables in a log: a header line names the columns of the rows under it.

A `[[table]]` of a format file declares which columns make a header its own, and how their cells are printed. A header
that a log shows becomes a `Header`: how a line under it is cut into cells, and a `Line` for each combination of pieces
that its rows show. Which lines are under a header only the order of the log tells: see `beneath`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from perflog.formats.families.base import literal
from perflog.formats.model import Line
from perflog.formats.template import Field, Template, Value, escape
from perflog.tables.schema import column_for
from perflog.units import UNITS, Unit

STYLES = ("blanks", "left", "csv")
"""Columns apart by two blanks or more; the same, and each begins where its name does; columns apart by commas."""

NOTHING = frozenset(("", "-", "--", "N/A", "n/a"))
"""Cells that hold no value, but in a column that the table needs."""

_GAP = re.compile(r"(?: {2,}|\t+)[ \t]*")
_START = re.compile(r"(?:^|  |\t)[ \t]*(?=[^ \t])")
_RULE = re.compile(r"[ \t]*[-=]{3}[-= \t]*")
_MEASURE = re.compile(r"[A-Za-zµμ%]{1,3}(?:/s)?")
_UNIT = " ({unit})"
_END = 1 << 30


def is_rule(text: str) -> bool:
    """Whether a line is drawn: dashes or equal signs, and blanks between them."""
    return text.lstrip()[:1] in ("-", "=") and _RULE.fullmatch(text) is not None


def drawn(text: str) -> Line:
    """The Line of a drawn line, whose lengths say nothing."""
    template = Template(re.sub(r"[-=]+", lambda dashes: dashes[0][0] * 3, text.strip()))
    return Line("rule", template, role="context", under_header=True)


@dataclass(frozen=True, eq=False)
class DeclaredColumn:
    """A declared column: its name, and the pieces its cells are printed as, of which the first that fits reads a cell.
    Without pieces it is one that no header of the table has.

    In a name `*` is any text, and ` ({unit})` at its end a unit that may stand there.
    """

    name: str
    pieces: tuple[Template, ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Reads a name in a header."""
        name = ".*?".join(re.escape(x) for x in self.name.removesuffix(_UNIT).split("*"))
        return re.compile(name + (r"(?: ?\((?P<unit>[^()]+)\))?" if self.name.endswith(_UNIT) else ""))

    @property
    def longest(self) -> str:
        """The longest text that all its names hold."""
        return max(self.name.removesuffix(_UNIT).split("*"), key=len)


@dataclass(frozen=True, eq=False)
class HeaderTable:
    """A `[[table]]`, a family of Lines. `row` is what its rows have in common. `inner` are lines that stand among them
    and nowhere else, `among` names lines of the format that may stand there too. `united`: a row of units may stand
    under the header.
    """

    name: str
    columns: tuple[DeclaredColumn, ...]
    needs: tuple[str, ...]
    row: Line
    styles: tuple[str, ...] = STYLES[:1]
    opens: str | None = None
    inner: tuple[Line, ...] = ()
    among: tuple[str, ...] = ()
    united: bool = False
    blocks: tuple[str, ...] = ()  # samples: each a header and what stands under it
    proves_format: bool = True

    @property
    def samples(self) -> tuple[str, ...]:
        """The headers of the samples."""
        rows = ([x for x in block.splitlines() if self.head(x) is not None] for block in self.blocks)
        return tuple(found[0] for found in rows if found)

    @cached_property
    def required_literal(self) -> bytes:
        """The longest text that each header holds."""
        return max((c.longest for c in self.columns if c.name in self.needs), key=len).encode()

    @property
    def pattern(self) -> str:
        """What a header begins with, as a pattern: all up to its needle."""
        return f"[^\\n]*{escape(self.required_literal.decode())}"

    @property
    def text(self) -> str:
        """The columns that a header needs, to be shown."""
        return "  ".join(self.needs)

    def lines(self, text: str) -> tuple[Line, ...]:
        """The Line of a header, which leaves open how many blanks stand between the names; () for another text."""
        head = self.head(text)
        if head is None:
            return ()
        raw = literal(text.strip())
        shape = raw if head.style == "csv" else "{_:b}" + "  {_:b}".join(_GAP.split(raw))
        return (Line(self.name, Template(shape), opens=self.opens, heads=self),)

    def unfit(self, sample: str) -> str | None:
        """The first line of a sample that is no piece of the table; None if all are, a header and a row among them."""
        head, rows, fresh = None, 0, True
        for text in filter(str.strip, sample.splitlines()):
            piece = self.head(text) if head is None else head.piece(text, fresh)
            if isinstance(piece, Header):
                head = piece
            elif isinstance(piece, NonRow):
                head = piece.head
            elif head is not None and piece is not None and head.reads(piece):
                rows, fresh = rows + 1, False
            elif head is not None or not is_rule(text):
                return text
        return None if rows else sample

    def head(self, text: str) -> Header | None:
        """A header; None if the text does not name the columns that the table needs."""
        for style in self.styles:
            names = [x.strip() for x in _split(text, style)]
            met = [_declared(name, self.columns) for name in names]
            has = [c for c, _ in met if c is not None]
            if len(names) > 1 and all(c.pieces for c in has) and {c.name for c in has} >= set(self.needs):
                starts = [m.end() for m in _START.finditer(text)] if style == "left" else []
                return Header(
                    self, style, tuple(names), tuple(c for c, _ in met), tuple(u for _, u in met), _extents(starts)
                )
        return None


def _declared(name: str, columns: Sequence[DeclaredColumn]) -> tuple[DeclaredColumn | None, str]:
    """The first declared column of a name, and the unit in the name."""
    for c in columns:
        if match := c.pattern.fullmatch(name):
            return c, match.groupdict().get("unit") or ""
    return None, ""


def _extents(starts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Where columns begin and end that begin at `starts`, a blank behind each but the last."""
    return tuple(zip(starts, [*(b - 1 for b in starts[1:]), _END], strict=True)) if starts else ()


def _split(text: str, style: str, most: int = 0) -> list[str]:
    """The cells of a line, by what stands between them, at most so many; none if there is nothing to be cut."""
    if style != "csv":
        return _GAP.split(text.strip(), max(most - 1, 0))
    try:
        return next(csv.reader([text]), [])
    except csv.Error:  # a cell longer than the module's limit
        return []


@dataclass(frozen=True)
class NonRow:
    """A line under a header that is no row: the header as it is from there on, the Line that reads it, its values."""

    head: Header
    line: Line
    values: dict[str, Value]


@dataclass(frozen=True, eq=False)
class Header:
    """A header that a log shows: its names, the declared column of each or None, their units, and where the columns
    begin and end, in characters, where that is known.
    """

    table: HeaderTable
    style: str
    names: tuple[str, ...]
    columns: tuple[DeclaredColumn | None, ...]
    units: tuple[str, ...]
    extents: tuple[tuple[int, int], ...] = ()

    @cached_property
    def declared(self) -> tuple[int, ...]:
        """Which of its columns are declared."""
        return tuple(k for k, c in enumerate(self.columns) if c is not None)

    @cached_property
    def own(self) -> tuple[DeclaredColumn, ...]:
        """The declared columns."""
        return tuple(c for c in self.columns if c is not None)

    def piece(self, text: str, fresh: bool) -> NonRow | tuple[str, ...] | None:
        """A line under the header: the cells of what may be a row; another piece of the table; None for neither.
        `fresh`: no row stands before it.
        """
        if is_rule(text):
            return NonRow(self.ruled(text) if fresh else self, drawn(text), {})
        if fresh and (measured := self.measured(text)):
            line = Line(f"{self.table.name}_units", Template(literal(text.strip())), role="context", under_header=True)
            return NonRow(measured, line, {})
        for line in self.table.inner:
            if (values := line.template.match(text)) is not None:
                return NonRow(self, line, values)
        return self.cells(text)

    def reads(self, cells: Sequence[str]) -> bool:
        """Whether the columns' pieces read the cells of a row."""
        for c, cell in zip(self.own, cells, strict=True):
            absent = cell in NOTHING and c.name not in self.table.needs
            if not absent and not any(x.match(cell) is not None for x in c.pieces):
                return False
        return True

    def ruled(self, text: str) -> Header:
        """The header with the extents that a line drawn under it gives, where it draws as many columns."""
        extents = [m.span() for m in re.finditer(r"[-=]+", text)]
        if self.style != "blanks" or len(extents) != len(self.names):
            return self
        return replace(self, extents=(*extents[:-1], (extents[-1][0], _END)))

    def measured(self, text: str) -> Header | None:
        """The header with the units of a row of units; None if the text is none."""
        cells = [x.strip() for x in _split(text, self.style)] if self.table.united else []
        if not any(cells) or len(cells) != len(self.names) or not all(_MEASURE.fullmatch(x) for x in cells if x):
            return None
        return replace(self, units=tuple(cells))

    def cells(self, text: str) -> tuple[str, ...] | None:
        """The cells of a row in the declared columns; None if the text cannot be one."""
        if self.extents and self._inside(text):
            return tuple(text[slice(*self.extents[k])].strip() for k in self.declared)
        found = _split(text, self.style, len(self.names))
        if self.style == "csv" and 0 < len(found) < len(self.names):
            found = [*found, *[""] * (len(self.names) - len(found))]
        return tuple(found[k].strip() for k in self.declared) if len(found) == len(self.names) else None

    def _inside(self, text: str) -> bool:
        """Whether all that is printed stands within the columns."""
        ends = [0, *(b for _, b in self.extents)]
        return not any(text[b:a].strip() for b, (a, _) in zip(ends, self.extents, strict=False))

    def row(self, shape: Sequence[int]) -> Line:
        """The Line of rows whose cells are printed as these pieces of the declared columns, -1 where there is no value.
        A field that two columns have is that of the first; one whose unit is unknown is thrown away.
        """
        texts, units, taken = ["{_:s}"] * len(self.names), dict(self.table.row.unit), set[str]()
        for k, c, number in zip(self.declared, self.own, shape, strict=True):
            if number >= 0:
                piece = c.pieces[number]
                own = {f.name: self._unit(f, self.units[k]) for f in piece.fields if f.name not in taken}
                kept = {name for name, unit in own.items() if unit is not None}
                units |= {name: unit for name, unit in own.items() if isinstance(unit, Unit)}
                texts[k] = _kept(piece, kept)
                taken.update(own)
        template = Template(("," if self.style == "csv" else "  ").join(texts))
        numbers = {f.name for f in template.fields if f.numeric}
        row = self.table.row
        return replace(
            row,
            template=template,
            unit={name: units[name] for name in numbers & set(units)},
            compute={name: e for name, e in row.compute.items() if numbers.issuperset(e.names)},
            run=tuple(n for n in row.run if n in template.names),
            under_header=True,
        )

    def _unit(self, f: Field, printed: str) -> Unit | str | None:
        """The unit of a field in the header; "" where none is called for; None where it is unknown."""
        if not f.numeric or f.type in "tz":
            return ""
        if printed:
            return UNITS.get(printed)
        col = column_for(self.table.row.table or "", f.name) if self.table.row.table else None
        return None if self.table.united and col and col.unit and f.name not in self.table.row.unit else ""


def _kept(piece: Template, names: Collection[str]) -> str:
    """The text of a piece in which only these fields are kept."""
    out = literal(piece.literals[0])
    for f, behind in zip(piece.fields, piece.literals[1:], strict=True):
        out += f"{{{f.name if f.name in names else '_'}:{f.spec}}}{literal(behind)}"
    return out
