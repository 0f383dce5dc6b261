"""Drafts `[[table]]` entries for printed tables, as the generic format `tables` reads them.

Plain ingestion reads such tables too, where no other format reads the log. So a column has the same name and unit
there, under `--guess` and in the suggested file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import field
from msgspec.structs import replace

from perflog.formats.families.base import look_up
from perflog.formats.families.header_columns import DeclaredColumn, is_header
from perflog.formats.families.header_tables import HeaderTable
from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.registry import known
from perflog.ingestion.suggest.line_draft import LineDraft
from perflog.ingestion.suggest.line_shapes import LineShape
from perflog.parsing.match.ordered.table_evidence import (
    FILE_STYLES,
    LONGEST,
    PrintedTable,
    printed_tables,
    value_and_unit,
)
from perflog.parsing.match.records import Batch
from perflog.tables.row_order import PART_BITS
from perflog.units import UNITS, Unit

_ENOUGH_NAMES = 2  # columns that identify the header of a file for programs: it may have hundreds
_UNIT_NAMES = {unit: name for name, unit in reversed(UNITS.items())}
_NONE = Unit("", 1.0)
_WITH_UNIT = "tzh"  # types of fields that print their unit


class TableDraft(LineDraft):
    """A `[[table]]` entry while it is drafted.

    Attributes:
        style: The style of the `[[table]]` entry.
        needs: The printed names of columns that every row fills.
        keys: By printed name of a column, the templates of its cells.
        units: By field, the unit that the header or the cells name.
        block: The header and some rows.
        dropped: Printed names of columns that the file drops, each with the reason.
        comments: Comments of the file between the header, which is one too, and the rows.
    """

    style: str = "csv"
    needs: list[str] = field(default_factory=list)
    keys: dict[str, list[str]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    block: str = ""
    dropped: dict[str, str] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)

    @property
    def read(self) -> bool:
        return True

    @property
    def header(self) -> tuple[str, ...]:
        """The words of the header."""
        return tuple(self.block.partition("\n")[0].split())


def find_tables(batch: Batch) -> Iterator[TableDraft]:
    """Yield a draft for each header among the unread lines of a batch that has rows under it."""
    every = (family for form in known().values() for family in form.families)
    families = [family for family in every if isinstance(family, HeaderTable) and family.needs_rows]
    if not len(batch.unread) or not families:
        return
    for index, table in printed_tables(batch.bytes_at(batch.unread, LONGEST)):
        entries = (_draft(table, family, int(batch.unread[index]) >> PART_BITS) for family in families)
        entry = next(filter(None, entries), None)
        if entry is not None:
            yield entry


def _draft(table: PrintedTable, family: HeaderTable, first: int) -> TableDraft | None:
    """Return the entry for a table as a family reads it.

    None if the family needs other columns, or if no column has a number in each row.
    """
    cells, row = table.columns(), family.row
    numbers = [name for name in cells if all(map(value_and_unit, cells[name]))]
    if not numbers or not is_header(list(cells), family.needs, is_proved=True):
        return None
    columns, units = replace(family, cell_types=table.cell_types()).columns_of(list(cells))
    if any(form.set for column in columns if column is not None for form in column.forms):
        return None  # a cell sets other columns beside its number
    entry = TableDraft(LineShape(first, len(table.rows)), [], style=table.style, table=row.table)
    entry.why.append("the header names the columns")
    entry.comments = [text for text in table.block[1:-1] if text[:1] == "#"]
    entry.block = "\n".join([*table.block, *table.lines[1:2]])
    for name, column, unit in zip(cells, columns, units, strict=True):
        reason = look_up(family.dropped, name)
        if reason is not None and name in numbers:
            entry.dropped[name] = reason[1]
        elif column is not None and column.forms and not any(form.unit for form in column.forms):
            _add(entry, name, column, unit, [x for x in cells[name] if x not in NO_VALUE])
    filled = [name for name in entry.keys if NO_VALUE.isdisjoint(cells[name])]
    entry.needs = filled[:_ENOUGH_NAMES] if table.style in FILE_STYLES else filled
    fields = {f.name for column in columns if column is not None for form in column.forms for f in form.fields}
    entry.within = row.within if row.within in fields else ""
    return entry


def _add(entry: TableDraft, name: str, column: DeclaredColumn, unit: str, cells: Sequence[str]) -> None:
    """Add a column with the ways in which its cells are printed, and the units of its fields."""
    first_fits = [
        next((k for k, form in enumerate(column.forms) if form.template.match(cell) is not None), -1) for cell in cells
    ]
    forms = [form.template for k, form in enumerate(column.forms) if k in first_fits or not cells]
    entry.keys[name] = list(dict.fromkeys(form.text for form in forms))
    fields = [f for form in forms for f in form.fields if f.numeric and not f.is_dropped]
    units = {f.name: unit or _UNIT_NAMES.get(column.units.get(f.name, _NONE), "") for f in fields}
    printed = {f.name for f in fields if f.type in _WITH_UNIT}
    entry.units |= {field: unit for field, unit in units.items() if unit and field not in printed}
