"""What perflog reads: the formats, and the readers of inputs that are not lines."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from perflog.declared import Format, Line
from perflog.formats import builtin, known
from perflog.schema import PER_FIELD, TABLES, column

_FILLED = {
    "run", "line", "part", "rank", "rank_by", "step", "copy", "occurrence", "steps_averaged", "window_first",
    "window_last", "window_fit", "unit", "text", "key", "value", "phase", "log", "log_sha256", "format", "index",
    "first_line", "last_line", "process", "config", "printout", "label", "section",
}  # fmt: skip
"""Columns that perflog fills itself, or that say what a value is: no log lacks them by itself."""


@dataclass(frozen=True)
class Reader:
    """A reader of inputs that are not lines: a module of `perflog.readers` with NAME and TITLE, and, to be shown, SOURCE
    (where such files come from) and TABLES (table -> columns).
    """

    name: str
    title: str
    source: str = ""
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@cache
def readers() -> tuple[Reader, ...]:
    """All readers, by name."""
    found = find_spec("perflog.readers")
    if found is None or found.submodule_search_locations is None:
        return ()
    names = [m.name for m in pkgutil.iter_modules(found.submodule_search_locations)]
    modules = [import_module(f"perflog.readers.{name}") for name in names]
    told = [
        Reader(m.NAME, m.TITLE, getattr(m, "SOURCE", ""), getattr(m, "TABLES", {}))
        for m in modules
        if hasattr(m, "NAME") and hasattr(m, "TITLE")
    ]
    return tuple(sorted(told, key=lambda r: r.name))


def own_formats() -> list[Format]:
    """The formats that come along, without those of other packages."""
    return [f for f in known().values() if f.path.resolve().parent == builtin().resolve()]


def lines_of(form: Format) -> list[Line]:
    """The lines that are read: those declared, and those that the samples of its families show."""
    shown = [x for family in form.families for sample in family.samples for x in family.lines(sample)]
    return [x for x in (*form.lines, *shown) if x.read]


def filled(form: Format) -> dict[str, dict[str, list[str]]]:
    """Table -> `columns` it fills of it, and `names` of the numbers or texts that become rows, or entries of config."""
    lines = lines_of(form)
    scoped = {n for x in lines if x.opens or x.closes for n in x.template.names}
    out: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        if line.table is None:
            continue
        for name in (*line.template.names, *line.set, *line.compute, *(row[0] for row in line.map)):
            home = "runs" if name in line.run else line.table
            col = column(home, name)
            if col is None and home not in PER_FIELD and home != "runs":
                home = "values"
            kind = "columns" if col is not None and home not in ("values", "summaries") else "names"
            _add(out, home, kind, col.name if col is not None and kind == "columns" else name)
        for name in scoped:
            col = column(line.table, name) if line.table != "runs" else None
            if col is not None:
                _add(out, line.table, "columns", col.name)
    if "phases" in out:
        _add(out, "phases", "columns", "time_s")
    return {table: out[table] for table in TABLES if table in out}


def _add(out: dict[str, dict[str, list[str]]], table: str, kind: str, name: str) -> None:
    listed = out.setdefault(table, {"columns": [], "names": []})[kind]
    if name not in listed and name not in (_FILLED if kind == "columns" else ("rank", "step")):
        listed.append(name)


def absent(table: str, columns: list[str]) -> list[str]:
    """Columns of a table that no line of a format fills: what its logs do not say, or nobody reads of them yet."""
    if table in ("values", "summaries"):
        return []
    return [c.name for c in TABLES[table] if c.name not in columns and c.name not in _FILLED]
