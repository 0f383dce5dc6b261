"""Printed tables: a header line names the columns of the rows under it.

A `[[table]]` of a format file declares which columns a header must name, and how their cells are printed. A header that
a log shows becomes a `Header`: it cuts a line under it into cells, and gives a `Line` for each combination of cell
forms that the rows show. Only the order of the log shows which rows are under which header: see `match.header_rows`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.formats.families.base import look_up
from perflog.formats.families.cell_cutting import (
    BOX_BARS,
    DELIMITERS,
    GAP,
    STYLES,
    cells_of,
    is_rule,
    names_with_second_line,
    spans,
    split,
    with_bar_of,
    without_bar,
    without_marks,
)
from perflog.formats.families.cell_forms import form_of_several, forms_with_units, with_fields
from perflog.formats.families.header_columns import (
    UNIT_SUFFIX,
    DeclaredColumn,
    NameMatch,
    has_needs,
    is_header,
    match_names,
    match_names_of_any_program,
)
from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.families.name_units import split_unit
from perflog.formats.families.step_parts import with_parts
from perflog.formats.families.title_lines import TABLE_TITLE, may_have_unit, unit_of_title
from perflog.formats.figures import figure_spans
from perflog.formats.model import Cells, Line
from perflog.formats.openings import Opening
from perflog.formats.surroundings import prefix_ends
from perflog.formats.template import DECLARED_DROPPED, UNNAMED, Field, Template, Value, escape, literal, unnamed
from perflog.formats.vocabulary import PLACES, field_name, quantities_of
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.schema import column_for
from perflog.units import UNITS, Unit, unit_of

_START = lazy_pattern(r"(?:^|  |\t)[ \t]*(?=[^ \t])")
_BAR_DROPPED = "progress of a bar; its rate is a moving average"
_UNIT_CELL = lazy_pattern(r"[A-Za-zµμ%]{1,3}(?:/s)?")
_END = 1 << 30
_LEAST_ALIGNED = 2  # cells of a row that lacks some: one alone may be under a name by chance


def needs_rows(family: object) -> bool:
    """Return whether a family is a table of any program: its rows must prove that its header is one."""
    return isinstance(family, HeaderTable) and family.needs_rows


def rule_line(text: str) -> Line:
    """Return the Line of a rule. The lengths of its dashes do not matter."""
    return _context_line("rule", re.sub(r"[-=─━═]+", lambda dashes: dashes[0][0] * 3, text.strip()))


def title_line(before: str, after: str) -> Line:
    """Return the Line of the title of a table, with what is before and after the title."""
    template = Template(f"{literal(before)}{{{TABLE_TITLE}:s}}{literal(after)}")
    return Line("table_title", template, table="values", under_header=True)


def continuation_line(text: str) -> Line:
    """Return the Line of what goes on with the cells of the row above. Only its bars matter."""
    return _context_line("continuation", "".join(bar for bar in text if bar in BOX_BARS))


def _context_line(name: str, text: str) -> Line:
    """Return the Line of a line under a header that has no values."""
    return Line(name, Template(text), role="context", under_header=True)


class HeaderTable(Struct, frozen=True, eq=False, dict=True):
    """A `[[table]]` entry of a format file, a family of lines.

    Attributes:
        columns: The declared columns, in order; the first that fits a name in a header is that column's.
        needs: Names of the columns that a header must have; `a|b` is one of both.
        row: A Line with what all rows have in common.
        styles: How columns are separated: some of `STYLES`.
        opens: The scope that a header opens.
        inner: Lines that occur among the rows and nowhere else.
        among: Names of lines of the format that may occur among the rows too.
        has_unit_row: Whether a row of units may follow the header.
        blocks: Samples: each a header with lines under it.
        dropped: By name or glob of a column that is not declared, why its figures need no table.
        unit_names: What printed units mean here: `KB = "KiB"`.
        is_first: Whether the header can only be the first line of a log, and have the names of any program.
        needs_rows: Whether a line is a header only if the rows under it prove it. Such a header may be any line.
        title: The line directly above the header, if only it identifies the table. Blanks then separate the names.
        unitless: Printed names of columns of fractions without a unit: the title of the table may give it.
        second_line: The line below the header with which its names go on: `time (ms)` below `Total`; "" for none.
        joined_names: The names of a header with blanks inside names; the rows show them. () if blanks separate names.
        is_ruled: Whether the rule under it has proved the header: its names may be any strings.
        has_groups: Whether names in the header span several columns. The names of these columns are in the lines below.
        cell_types: By printed name, how its cells print a number with its unit: `r GBps`, `,f GBps`, `t`, `z`; or in
            several ways, `r us|r ms`. A way that ends in `()` has a remark in brackets after the number.
    """

    name: str
    columns: tuple[DeclaredColumn, ...]
    needs: tuple[str, ...]
    row: Line
    styles: tuple[str, ...] = STYLES[:1]
    opens: str | None = None
    inner: tuple[Line, ...] = ()
    among: tuple[str, ...] = ()
    has_unit_row: bool = False
    blocks: tuple[str, ...] = ()
    proves_format: bool = True
    dropped: Mapping[str, str] = field(default_factory=dict)
    unit_names: Mapping[str, str] = field(default_factory=dict)
    is_first: bool = False
    needs_rows: bool = False
    title: Template | None = None
    cell_types: Mapping[str, str] = field(default_factory=dict)
    unitless: frozenset[str] = frozenset()
    second_line: str = ""
    joined_names: tuple[str, ...] = ()
    is_ruled: bool = False
    has_groups: bool = False

    @property
    def samples(self) -> tuple[str, ...]:
        """The lines that open the table in the samples."""
        headers = ([text for text in block.splitlines() if self.opened_by(text) is not None] for block in self.blocks)
        return tuple(texts[0] for texts in headers if texts)

    @property
    def openings(self) -> Sequence[Opening]:
        return ()

    @cached_property
    def required_literal(self) -> bytes:
        """The longest string that each header, or each title, contains."""
        if self.title is not None:
            return self.title.required_literal
        return max((c.longest for c in self.columns if c.name in self.needs), key=len, default="").encode(
            "utf-8", "surrogateescape"
        )

    @property
    def pattern(self) -> str:
        """The pattern of a header up to its required literal, of a title."""
        if self.title is not None:
            return unnamed(self.title.pattern)
        return f"[^\\n]*{escape(self.required_literal.decode())}"

    @property
    def text(self) -> str:
        """The title, or the columns that a header needs, for display."""
        return self.title.text if self.title is not None else "  ".join(self.needs)

    def lines(self, text: str) -> tuple[Line, ...]:
        """Return the Line of a title or header, with any whitespace between the names; () for another string."""
        if self.title is not None:
            line = Line(self.name, self.title, opens=self.opens, header_of=self)
            return (line,) if self.title.match(text) is not None else ()
        header = self.header(text)
        if header is None:
            return ()
        is_cut = header.style not in DELIMITERS and without_bar(text) != text
        raw = literal((without_bar(text) if is_cut else text).strip())
        if header.style in DELIMITERS:
            shape = f"{'{_:b}' if text[:1].isspace() else ''}{raw}"
        elif header.style == "words":
            shape = "{_:b}" + " {_:b}".join(raw.split())
        else:
            shape = "{_:b}" + "  {_:b}".join(GAP.split(raw))
        shape += f"{{{DECLARED_DROPPED}:s}}" if is_cut else ""
        dropped = {DECLARED_DROPPED: _BAR_DROPPED} if is_cut else {}
        return (Line(self.name, Template(shape), opens=self.opens, header_of=self, dropped=dropped),)

    def must_fill(self, column: DeclaredColumn) -> bool:
        """Return whether each row must have a value in a column."""
        return not self.is_first and any(column.name in need.split("|") for need in self.needs)

    def unread_line(self, sample: str) -> str | None:
        """Return the first line of a sample that is not part of the table.

        None if all lines are, with a header and a row among them; the whole sample if it has no row.
        """
        header, rows = None, 0
        for text in filter(str.strip, sample.splitlines()):
            part = self.opened_by(text) if header is None else header.part(text, first=not rows)
            if isinstance(part, Header):
                header = part
            elif isinstance(part, NonRow):
                header = part.header
            elif header is not None and part is not None and header.reads(part):
                rows += 1
            elif header is not None or not is_rule(text):
                return text
        return None if rows else sample

    def opened_by(self, text: str) -> Header | None:
        """Return the header that a line opens: its names follow in the next line if the line is a title.

        A prefix may be before it. None if the line is neither a header nor a title.
        """
        for tokens, end in enumerate(_prefix_ends(text)):
            bare = text[end:]
            if self.title is None:
                header = self.header(bare)
            else:
                style = "bars" if self.styles[0] == "bars" else "words"
                header = Header(self, style, (), (), ()) if self.title.match(bare) is not None else None
            if header is not None:
                return replace(header, prefix=tokens)
        return None

    def header_under_title(self, text: str, first: bool) -> Header | None:
        """Return the header that a line under a title is; None if it is another line.

        A header without a name above the labels of the rows has numbers as labels, as rows have; so it is only the
        `first` line.
        """
        if self.styles[0] == "bars":
            header = self.header(text) if first else None
            return header if header is not None and len(header.declared) == len(header.names) else None
        names = text.split()
        is_unnamed = any(c.name == "" for c in self.columns)
        if is_unnamed and not (first and all(name.isdecimal() for name in names)):
            return None
        if not is_unnamed and not any(c.name == name for c in self.columns for name in names[:1]):
            return None
        names = ["", *names] if is_unnamed else names
        matches = match_names(names, self.columns, self.row)
        if len(names) < 2 or any(c is None for c, _ in matches):
            return None
        columns, units = tuple(c for c, _ in matches), tuple(unit for _, unit in matches)
        return Header(self, "words", tuple(names), columns, units)

    def header(self, text: str) -> Header | None:
        """Return the header that a line is; None if the line does not name the columns that the table needs."""
        for style in self.styles:
            line = without_marks(text, style)
            names = cells_of(line, style)
            if self.joined_names and names == " ".join(self.joined_names).split():
                names = list(self.joined_names)
            if len(names) < 2 or (self.is_first and not is_header(names, self.needs, self.is_ruled)):
                continue
            if style == "words" and "|" in names and not self.is_first:  # columns of another style
                continue
            columns, units = self.columns_of(names)
            known = [c for c in columns if c is not None]
            if all(c.forms for c in known) and (self.is_first or has_needs((c.name for c in known), self.needs)):
                starts = [m.end() for m in _START.finditer(line)] if style == "left" else []
                edges = spans(line, style)
                edges = edges if len(edges) == len(names) else ()
                return Header(self, style, tuple(names), columns, units, _extents(starts), edges=edges)
        return None

    def columns_of(self, names: Sequence[str]) -> tuple[tuple[DeclaredColumn | None, ...], tuple[str, ...]]:
        """Return the declared column of each printed name, None if none fits, and its unit."""
        match = match_names_of_any_program if self.is_first else match_names
        matches = [(c, unit or (c.unit if c else "")) for c, unit in match(names, self.columns, self.row)]
        shared = next((unit for column, unit in matches if column is not None and column.has_unit_of_others), "")
        if shared:
            matches = [(c, unit or (shared if c is not None and c.may_have_unit else "")) for c, unit in matches]
        taken = {field for column, _ in matches if column is not None for field in column.declared_fields}
        matches = [self._with_unit_in_cells(name, *match, taken) for name, match in zip(names, matches, strict=True)]
        return tuple(c for c, _ in matches), tuple(unit for _, unit in matches)

    def _with_unit_in_cells(
        self, name: str, column: DeclaredColumn | None, unit: str, taken: Collection[str]
    ) -> NameMatch:
        """Return the column of a printed name that reads numbers with the unit in its cells, and that unit.

        `taken`: the fields of all columns.
        """
        printed = self.cell_types.get(name, "")
        bare = [form.fields[0] for form in column.forms if form.template.is_bare] if column is not None else []
        fields = [f for f in bare if f.numeric]
        if column is None or not printed or not fields:
            return column, unit
        if printed == "s":  # most cells are words
            forms = tuple(form for form in column.forms if not any(f.numeric for f in form.fields))
            return replace(column, forms=forms), unit
        if "{}" in printed:
            free = {
                field: target.unit
                for field in quantities_of(self.row.table).keys() - {*taken} | column.declared_fields
                if (target := column_for(self.row.table, field)) is not None
            }
            form, units = form_of_several(fields[0].name, printed, name, free)
            first, *more = printed.split(", ")  # `3.1 us, 12 GB/s` beside a cell with the first of them only
            alone = forms_with_units(fields[0].name, [f"r{first.removeprefix('{}')}"], unit)[0] if more else []
            return replace(column, forms=(form, *alone, *column.forms), units=units), unit
        with_units, unit = forms_with_units(fields[0].name, printed.split("|"), unit)
        return replace(column, forms=(*with_units, *column.forms)), unit


def _prefix_ends(text: str) -> list[int]:
    """Return 0, and the offsets at which a prefix of a string may end."""
    raw = text.encode("utf-8", "surrogateescape") + b"\n"
    return [0, *(len(raw[:end].decode("utf-8", "surrogateescape")) for end in prefix_ends(raw))]


def _extents(starts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return begin and end of columns that begin at `starts`. A space separates them; the last is open-ended."""
    return tuple(zip(starts, [*(b - 1 for b in starts[1:]), _END], strict=True)) if starts else ()


class NonRow(Struct, frozen=True):
    """A line under a header that is not a row: a rule, a row of units, an inner line.

    Attributes:
        header: The header from there on, with what the line adds to it.
        line: The Line that reads the printed line.
        values: The values of its fields.
    """

    header: Header
    line: Line
    values: dict[str, Value]


class Header(Struct, frozen=True, eq=False, dict=True):
    """A header that a log shows.

    Attributes:
        names: The names of the columns, as printed.
        columns: The declared column of each name; None if none fits.
        units: The printed unit of each column; "" if none is printed.
        extents: Begin and end of each column in characters; empty if unknown.
        prefix: The number of tokens before each line of the table.
        edges: Begin and end of each name in characters, where whitespace separates the columns; empty if unknown.
    """

    table: HeaderTable
    style: str
    names: tuple[str, ...]
    columns: tuple[DeclaredColumn | None, ...]
    units: tuple[str, ...]
    extents: tuple[tuple[int, int], ...] = ()
    prefix: int = 0
    edges: tuple[tuple[int, int], ...] = ()

    @cached_property
    def declared(self) -> tuple[int, ...]:
        """The indices of the declared columns."""
        return tuple(k for k, c in enumerate(self.columns) if c is not None)

    @cached_property
    def declared_columns(self) -> tuple[DeclaredColumn, ...]:
        """The declared columns."""
        return tuple(c for c in self.columns if c is not None)

    def without_prefix(self, text: str) -> str | None:
        """Return a line without the prefix that all lines of the table have; None if it has none."""
        if not self.prefix:
            return text
        ends = _prefix_ends(text)
        return text[ends[self.prefix] :] if len(ends) > self.prefix else None

    def part(self, text: str, first: bool) -> NonRow | tuple[str, ...] | None:
        """Classify a line under the header.

        Args:
            text: The line.
            first: Whether no row comes between the header and the line.

        Returns:
            The cells of a possible row; a `NonRow`; or None if the line is not part of the table.
        """
        if is_rule(text):
            return NonRow(self.with_rule(text) if first else self, rule_line(text), {})
        if self.table.title is not None and (header := self.table.header_under_title(text, not self.names)) is not None:
            return self._with_line(replace(header, prefix=self.prefix), "labels", text)
        if not self.names:
            return None
        if first and (with_names := self.with_second_names(text)):
            return self._with_line(with_names, "names", text)
        if first and (with_units := self.with_units(text)):
            return self._with_line(with_units, "units", text)
        for line in self.table.inner:
            if (values := line.template.match(text)) is not None:
                return NonRow(self, line, values)
        return self.cells(text)

    def _with_line(self, header: Header, what: str, text: str) -> NonRow:
        """Return what a line adds to the header. `what`: what the line holds."""
        return NonRow(header, _context_line(f"{self.table.name}_{what}", literal(text.strip())), {})

    def continued(self, above: Sequence[str], text: str) -> tuple[str, ...] | None:
        """Return the cells of a row with what the line below adds to them; None if that line is a row of its own.

        In a drawn box a cell that is too long goes on in the next line, in which the cells of numbers are empty.
        """
        if self.style != "boxes":
            return None
        printed = re.split(f"[{BOX_BARS}]", text)
        if len(printed) < len(self.names):  # the end of the line is cut off
            return None
        widths = [len(printed[k]) - 2 for k in self.declared]  # a space is at both ends
        below = [printed[k].strip() for k in self.declared]
        added = [k for k, cell in enumerate(below) if cell]
        if len(added) == len(below) or any(figure_spans(cell) for cell in below):
            return None
        if not all(above[k] and len(above[k]) + len(below[k].split()[0]) >= widths[k] for k in added):
            return None
        return tuple(f"{cell} {more}".rstrip() for cell, more in zip(above, below, strict=True))

    def reads(self, cells: Sequence[str]) -> bool:
        """Return whether the forms of the columns read the cells of a row."""
        for c, cell in zip(self.declared_columns, cells, strict=True):
            is_empty = cell in NO_VALUE and not self.table.must_fill(c)
            if not is_empty and not any(form.template.match(cell) is not None for form in c.forms):
                return False
        return True

    def with_rule(self, text: str) -> Header:
        """Return the header with the extents of a rule under it, if the rule has a dash for each column."""
        extents = [m.span() for m in re.finditer(r"[-=]+", text)]
        if self.style not in ("blanks", "words") or len(extents) != len(self.names):
            return self
        return replace(self, extents=(*extents[:-1], (extents[-1][0], _END)))

    def with_second_names(self, text: str) -> Header | None:
        """Return the header with a second row of names under those that span several columns; None for another line.

        `FWD (ms)` above `A` and `B` gives `FWD A (ms)` and `FWD B (ms)`; `TTFT` above `ms` gives `TTFT (ms)`, and the
        names of its columns follow in the next line.
        """
        if self.table.second_line and text.strip() == self.table.second_line:
            return self._named(names_with_second_line(self.names, self.edges, text))
        if not (self.table.is_ruled or self.table.has_groups) or all(self.names[1:]):
            return None
        cells = self._all_cells(text)
        if not cells or not any(cells) or any(map(figure_spans, cells)):
            return None
        names, above = list[str](), ""
        for name, cell in zip(self.names, cells, strict=True):
            above = name or above
            base, unit = split_unit(above)
            if cell and name and not unit and unit_of(cell)[0]:
                names.append(f"{name} ({cell})")
            else:
                names.append(f"{base} {cell}" + (f" ({unit})" if unit else "") if cell and above else name or cell)
        return self._named(names)

    def _named(self, names: Sequence[str]) -> Header:
        """Return the header with other names."""
        columns, units = self.table.columns_of(names)
        return replace(self, names=tuple(names), columns=columns, units=units)

    def with_unit_of_title(self, title: str) -> Header:
        """Return the header with the unit that a title above it gives to the columns without one."""
        unit = unit_of_title(title) if self.table.unitless else ""
        if not unit:
            return self
        may_have = self.table.unitless.intersection(name for name in self.names if may_have_unit(name, unit))
        units = (own or (unit if name in may_have else "") for name, own in zip(self.names, self.units, strict=True))
        return replace(self, units=tuple(units))

    def with_units(self, text: str) -> Header | None:
        """Return the header with the units of a row of units; None if the line is not such a row."""
        cells = [x.strip() for x in split(text, self.style)] if self.table.has_unit_row else []
        cells = ["" if x.startswith("#") else x for x in cells]  # the mark of a line of names, not a unit
        if not any(cells) or len(cells) != len(self.names) or not all(map(self._is_unit, filter(None, cells))):
            return None
        return replace(self, units=tuple(cells))

    def _is_unit(self, cell: str) -> bool:
        return cell in self.table.unit_names or _UNIT_CELL.fullmatch(cell) is not None

    def may_be_row(self, text: str) -> bool:
        """Return whether a line has as many cells as the header has names; a comma may end each line."""
        return len(split(text, self.style)) in (len(self.names), len(self.names) + 1)

    def cells(self, text: str) -> tuple[str, ...] | None:
        """Return the cells of a row in the declared columns; None if the line cannot be a row."""
        cells = self._all_cells(text)
        return tuple(cells[k] for k in self.declared) if cells else None

    def _all_cells(self, text: str) -> list[str]:
        """Return the cells of a row in all columns; [] if the line cannot be a row."""
        text = without_marks(text, self.style)
        if self.extents and self._inside(text):
            return [text[slice(*extent)].strip() for extent in self.extents]
        if self.style == "bars" and "|" not in text:
            return []
        cells = with_bar_of(self.names, [x.strip() for x in split(text, self.style, len(self.names))], text)
        may_be_short = self.style != "bars" or not self.table.needs_rows  # a row of another table has fewer cells
        if self.style in DELIMITERS and may_be_short and 0 < len(cells) < len(self.names):
            cells[-1] = "" if self.style == "boxes" else cells[-1]  # without its bar it is cut off
            cells += [""] * (len(self.names) - len(cells))
        if self.style in DELIMITERS and len(cells) == len(self.names) + 1 and not cells[-1]:
            cells.pop()  # a comma ends each line
        return cells if len(cells) == len(self.names) else self._aligned_cells(text)

    def _aligned_cells(self, text: str) -> list[str]:
        """Return the cells of a row that lacks some; [] if its cells are not under the names.

        A cell begins or ends where the name of its column does. Beside such cells, one that is aligned at its decimal
        point lies between the names of the columns before and after its own.
        """
        cells_at = spans(without_bar(text), self.style) if self.edges else ()
        columns_found = [self._column_at(*span) for span in cells_at]
        exact = sum(is_exact for _, is_exact in columns_found)
        columns = [k for k, _ in columns_found]
        if exact < max(_LEAST_ALIGNED, len(cells_at) - exact) or sorted(set(columns)) != columns or columns[0] < 0:
            return []
        cells = [""] * len(self.names)
        for k, (begin, end) in zip(columns, cells_at, strict=True):
            cells[k] = text[begin:end]
        return cells

    def _column_at(self, begin: int, end: int) -> tuple[int, bool]:
        """Return the column with its name above a cell, -1 for none, and whether they begin or end together."""
        exact = [k for k, edge in enumerate(self.edges) if begin == edge[0] or end == edge[1]]
        if exact:
            return (exact[0] if len(exact) == 1 else -1), True
        ends = [0, *(edge[1] for edge in self.edges)]
        begins = [*(edge[0] for edge in self.edges[1:]), _END]
        between = [k for k, (a, b) in enumerate(zip(ends, begins, strict=False)) if a < begin and end < b]
        return (between[0] if len(between) == 1 else -1), False

    def _inside(self, text: str) -> bool:
        """Return whether a line lies within the extents of the columns, apart from whitespace."""
        ends = [0, *(b for _, b in self.extents)]
        return not any(text[b:a].strip() for b, (a, _) in zip(ends, self.extents, strict=False))

    def row(self, shape: Sequence[int], text: str) -> Line:
        """Return the Line of rows of one shape.

        Args:
            shape: For each declared column the number of the form that reads its cell; -1 for a cell without a value.
            text: A row of this shape. It shows which of the other columns have numbers.

        If two columns have the same field, the first column fills it. A field with an unknown unit is dropped.
        """
        texts = list(map(self._dropped_cell, self.names, self._all_cells(text)))
        cells = self.table.row.cells
        units, taken, constants = dict(self.table.row.unit), set[str](), dict(self.table.row.set)
        in_columns = zip(self.declared, self.declared_columns, shape, strict=True)
        with_forms = [(k, c, c.forms[number]) for k, c, number in in_columns if number >= 0]
        unit_of_row = next((form.unit_of_row for _, _, form in with_forms if form.unit_of_row), "")
        for k, c, form in with_forms:
            constants |= form.set
            fields = [f for f in form.fields if f.name not in taken and not f.is_dropped]
            printed = form.unit or self.units[k]
            field_units = {f.name: c.units.get(f.name) or self._unit(f, printed, c) for f in fields}
            fields_with_unit = {name for name, unit in field_units.items() if unit is not None}
            units |= {name: unit for name, unit in field_units.items() if isinstance(unit, Unit)}
            if cells is not None and c.is_cell and cells.number in units:
                units |= dict.fromkeys(field_units, units[cells.number])
            texts[k] = with_fields(form.template, fields_with_unit, self._dropped_field(self.names[k]))
            taken.update(field_units)
        bare = without_marks(text, self.style)
        bar = bare[len(without_bar(bare)) :] if self.style not in DELIMITERS else ""
        texts += [f"{{{DECLARED_DROPPED}:r}}"] * len(figure_spans(bar))
        template = Template(DELIMITERS.get(self.style, "  ").join(texts))
        numbers = {f.name for f in template.fields if f.numeric}
        if unit_of_row:
            units |= dict.fromkeys(numbers - set(units) - {UNNAMED, DECLARED_DROPPED}, UNITS[unit_of_row])
        row = self._row_of_table(template)
        line = replace(
            row,
            template=template,
            set=constants,
            unit={name: units[name] for name in numbers & set(units)},
            compute={name: e for name, e in row.compute.items() if numbers.issuperset(e.names)},
            run=tuple(n for n in row.run if n in template.names),
            paths={n: path for c in self.declared_columns for n, path in c.paths.items() if n in template.names},
            cells=cells and self._cells(cells, template.names),
            dropped={DECLARED_DROPPED: _BAR_DROPPED, **row.dropped} if bar else row.dropped,
            under_header=True,
        )
        return with_parts(line)

    def _cells(self, cells: Cells, names: Sequence[str]) -> Cells:
        """Return how the cells of a row with these fields are records."""
        labels = {
            form.fields[0].name: label
            for label, c in zip(self.names, self.columns, strict=True)
            for form in (c.forms if c is not None and c.is_cell else ())
        }
        row = next((name for name in names if name not in labels), "")
        labels = {name: label for name, label in labels.items() if name in names}
        return replace(cells.named_after(field_name(self.names[0])), labels=labels, row=row)

    def _dropped_cell(self, name: str, cell: str) -> str:
        """Return the template string of a cell in a column that is not declared."""
        return f"{{{self._dropped_field(name)}:{'r' if figure_spans(cell) else 's'}}}"

    def _dropped_field(self, name: str) -> str:
        """Return the name of the field that drops a cell of a column."""
        return DECLARED_DROPPED if look_up(self.table.dropped, name) else UNNAMED

    def _row_of_table(self, template: Template) -> Line:
        """Return what all rows have in common. A row without a number of table `steps` is not a row of that table."""
        row = self.table.row
        if row.table != "steps" or any(column_for("steps", name) for name in template.names if name not in PLACES):
            return row
        return replace(row, table="values", within=None, covers=1)

    def _needs_no_unit(self, name: str) -> bool:
        """Return whether a field is a plain number, or one that the header names: it stays as it is printed."""
        col = column_for(self.table.row.table, name)
        is_declared = any(name in c.declared_fields for c in self.table.columns)
        return not is_declared or (col is not None and not col.unit)

    def _unit(self, f: Field, printed: str, declared: DeclaredColumn) -> Unit | str | None:
        """Return the unit of a field by the header; "" if the field needs none; None if it is unknown."""
        if not f.numeric or f.type in "tzh":
            return ""
        if printed:
            unit = UNITS.get(self.table.unit_names.get(printed, printed))
            return unit or ("" if self._needs_no_unit(f.name) else None)
        names_units = self.table.has_unit_row or declared.name.endswith(UNIT_SUFFIX)
        col = column_for(self.table.row.table, f.name)
        return None if names_units and col and col.unit and f.name not in self.table.row.unit else ""
