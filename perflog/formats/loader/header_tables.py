"""Loads one `[[table]]` of a format file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from perflog.formats.families.base import KEY_FIELD, reasons
from perflog.formats.families.cell_cutting import STYLES
from perflog.formats.families.cell_forms import CellForm
from perflog.formats.families.header_columns import DeclaredColumn
from perflog.formats.families.header_tables import HeaderTable
from perflog.formats.loader.lines import (
    columns,
    compute,
    dropped_keys,
    known_quantities,
    known_units,
    line,
    loose,
    shared,
    unit_names,
    units,
    with_names,
)
from perflog.formats.loader.toml import Entry
from perflog.formats.model import Cells, Line
from perflog.formats.template import Field, Template
from perflog.tables.schema import TABLES, column_for
from perflog.units import UNITS


def table(entry: Entry, scopes: tuple[str, ...]) -> HeaderTable:
    """Load a `[[table]]` entry. Raises FormatError."""
    common = shared(entry, scopes)
    declared = _columns(entry)
    needs_rows = entry.get("rows_prove", bool, False)
    is_first = entry.get("first", bool, False) or needs_rows
    title = entry.template("title") if "title" in entry.data else None
    cells = _cells(entry, title)
    needs = tuple(with_names(entry, text) for text in entry.texts("needs", required=not needs_rows and title is None))
    names = [c.name for c in declared]
    if not is_first:
        needed = (name for need in needs for name in need.split("|"))
        entry.refuse_unknown("needs", needed, names, "`needs` names `{}`, which is not a column of the table")
    styles = entry.texts("style") or STYLES[:1]
    entry.refuse_unknown("style", styles, STYLES, "unknown style `{}`")
    if entry.get("units", str, "row") != "row":
        raise entry.error("units are in a row under the header, or in its names", "units", 'write units = "row"')
    fields = _fields(declared)
    for c in declared:
        columns(entry, c.name, _fields([c]), common["table"])
        loose(entry, c.name, _fields([c]), common["table"], common["run"])
    column_units = {name: unit for name, unit in entry.get("unit", dict, {}).items() if "*" in name and name in names}
    declared = tuple(replace(c, unit=column_units.get(c.name, "")) for c in declared)
    opens, dropped = common.pop("opens"), dropped_keys(entry)
    row = Line(
        name=entry.get("name", str, required=True),
        template=Template(""),
        unit={**known_units(entry), **units(entry, [*(f.name for f in fields), *_numbers_of(cells), *column_units])},
        compute=compute(entry, fields),
        dropped=reasons(dropped),
        cells=cells,
        **common,
    )
    return HeaderTable(
        name=row.name,
        columns=declared,
        needs=needs,
        row=row,
        styles=styles,
        opens=opens,
        inner=_inner(entry, scopes),
        among=entry.texts("among"),
        has_unit_row="units" in entry.data,
        title=title,
        proves_format=entry.get("telling", bool, True) and not is_first,
        blocks=entry.texts("sample", required=True),
        dropped=dropped,
        unit_names=unit_names(entry),
        is_first=is_first,
        needs_rows=needs_rows,
        has_groups=entry.get("groups", bool, False),
    )


_CELL_KEYS = ("column", "number", "diagonal")


def _cells(entry: Entry, title: Template | None) -> Cells | None:
    """Load what the cells of a matrix are: None for a table with a record in each row."""
    cells, unknown = entry.get("cells", dict), entry.get("unknown", dict, {})
    if cells is None:
        if unknown:
            raise entry.error("`unknown` is only for `cells`", "unknown")
        return None
    if not {"column", "number"} <= {*cells} <= {*_CELL_KEYS} or not all(isinstance(x, str) for x in cells.values()):
        help = 'write cells = { column = "to", number = "bandwidth" }, perhaps with `diagonal`'
        raise entry.error("`cells` names the label of a column and the number in a cell", "cells", help)
    if entry.get("table", str) != "values" or title is None:
        raise entry.error('`cells` are records of table "values", under a `title`', "cells")
    if unknown.keys() - {cells["number"]}:
        raise entry.error("`unknown` is { number = 0 }, of the number in `cells`", "unknown")
    title_fields = tuple(name for name in title.names if column_for("values", name) is None)
    return Cells(**cells, unknown=unknown.get(cells["number"]), title=title_fields)


def _numbers_of(cells: Cells | None) -> tuple[str, ...]:
    """Return the names that the numbers of cells may have."""
    return () if cells is None else tuple(filter(None, (cells.number, cells.diagonal)))


def _columns(entry: Entry) -> tuple[DeclaredColumn, ...]:
    """Load the declared columns, in order."""
    declared = []
    for name, value in entry.get("columns", dict, required=True).items():
        texts = value if isinstance(value, list) else [value]
        forms: list[Any] = [{"text": text} if isinstance(text, str) else text for text in texts]
        if not all(isinstance(form, dict) and isinstance(form.get("text"), str) for form in forms):
            raise entry.error("a column is a template string, or a list of them", name)
        known = [c.name for c in TABLES.get(entry.get("table", str, ""), ())]
        entry.refuse_unknown(
            name, (str(key) for form in forms for key in form.get("set", {})), known, "the table has no column `{}`"
        )
        entry.refuse_unknown(name, (form.get("unit") for form in forms), UNITS, "`{}` is not a known unit")
        cell_forms = tuple(
            CellForm(
                entry.template(name, form["text"].replace("{*:", f"{{{KEY_FIELD}:")),
                {str(key): str(text) for key, text in form.get("set", {}).items()},
                form.get("unit", ""),
            )
            for form in forms
        )
        declared += [DeclaredColumn(one, cell_forms) for one in name.split("|")]
    return (*(c for c in declared if c.name != "*"), *_known_columns(entry), *(c for c in declared if c.name == "*"))


def _known_columns(entry: Entry) -> Iterator[DeclaredColumn]:
    """Yield a column for each quantity that an entry takes under the names of any program.

    A number in a cell is the quantity. Any other cell, as `1.5` for a step, is a value with the printed name (`*`).
    """
    for q in known_quantities(entry):
        column = column_for(entry.get("table", str, ""), q.field)
        is_time = column is not None and column.unit == "s"
        if q.places:  # a step or a rank, which are integers
            fields = [(q.field, "d"), (KEY_FIELD, "r")]
        elif is_time:
            fields = [(q.field, "r"), (q.field, "h")]  # a number, or a duration such as 0:00:24
        else:
            fields = [(q.field, "r")]
        forms = tuple(CellForm(Template(f"{{{name}:{letter}}}")) for name, letter in [*fields, (KEY_FIELD, "s")])
        yield DeclaredColumn(q.field, forms, names=frozenset(q.names))


def _fields(declared: Iterable[DeclaredColumn]) -> list[Field]:
    """Return the fields of columns, each name once."""
    fields = (f for c in declared for form in c.forms for f in form.fields if not f.is_dropped)
    return list({f.name: f for f in fields if f.name != KEY_FIELD}.values())


def _inner(entry: Entry, scopes: tuple[str, ...]) -> tuple[Line, ...]:
    """Load the lines that occur among the rows."""
    before = sum(len(x.get("inner", ())) for x in entry.file.data["table"][: entry.index])
    inner = [Entry(entry.file, "table.inner", before + k, data) for k, data in enumerate(entry.get("inner", list, []))]
    return tuple(replace(line(x, scopes, set()), under_header=True) for x in inner)
