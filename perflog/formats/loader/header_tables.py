"""One `[[table]]` of a format file."""

from __future__ import annotations

from dataclasses import replace

from perflog.errors import did_you_mean
from perflog.formats.families.header_tables import STYLES, DeclaredColumn, HeaderTable
from perflog.formats.loader.lines import columns, compute, line, loose, shared, units
from perflog.formats.loader.toml import Entry
from perflog.formats.model import Line
from perflog.formats.template import Field, Template


def table(entry: Entry, scopes: tuple[str, ...]) -> HeaderTable:
    """A `[[table]]`. Raises FormatError."""
    given = shared(entry, scopes)
    found = _columns(entry)
    needs = entry.texts("needs", required=True)
    names = [c.name for c in found]
    for name in needs:
        if name not in names:
            raise entry.error(f"`needs` names `{name}`, no column of the table", "needs", did_you_mean(name, names))
    styles = entry.texts("style") or STYLES[:1]
    for style in styles:
        if style not in STYLES:
            raise entry.error(f"unknown style `{style}`", "style", did_you_mean(style, STYLES))
    if entry.get("units", str, "row") != "row":
        raise entry.error("units stand in a row under the header, or in its names", "units", 'write units = "row"')
    fields = _fields(found)
    for c in found:
        own = _fields([c])
        columns(entry, c.name, own, given["table"])
        loose(entry, c.name, own, given["table"], given["run"])
    opens = given.pop("opens")
    row = Line(
        name=entry.get("name", str, required=True),
        template=Template(""),
        unit=units(entry, [f.name for f in fields]),
        compute=compute(entry, fields),
        **given,
    )
    return HeaderTable(
        name=row.name,
        columns=found,
        needs=needs,
        row=row,
        styles=styles,
        opens=opens,
        inner=_inner(entry, scopes),
        among=entry.texts("among"),
        united="units" in entry.data,
        proves_format=entry.get("telling", bool, True),
        blocks=entry.texts("sample", required=True),
    )


def _columns(entry: Entry) -> tuple[DeclaredColumn, ...]:
    """The declared columns, in order; the first that fits a name of a header is that column's."""
    found = []
    for name, given in entry.get("columns", dict, required=True).items():
        pieces = [given] if isinstance(given, str) else given
        if not isinstance(pieces, list) or not all(isinstance(x, str) for x in pieces):
            raise entry.error("a column is a piece of template, or a list of pieces", name)
        found.append(DeclaredColumn(name, tuple(entry.template(name, text) for text in pieces)))
    return tuple(found)


def _fields(found: tuple[DeclaredColumn, ...] | list[DeclaredColumn]) -> list[Field]:
    """The fields of columns, each name once."""
    return list({f.name: f for c in found for piece in c.pieces for f in piece.fields if f.name != "_"}.values())


def _inner(entry: Entry, scopes: tuple[str, ...]) -> tuple[Line, ...]:
    """Lines that stand among the rows."""
    before = sum(len(x.get("inner", ())) for x in entry.file.data["table"][: entry.index])
    inner = [Entry(entry.file, "table.inner", before + k, data) for k, data in enumerate(entry.get("inner", list, []))]
    return tuple(replace(line(x, scopes, set()), under_header=True) for x in inner)
