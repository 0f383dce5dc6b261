"""One `[[line]]` of a format file; what it shares with families of lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perflog.errors import did_you_mean
from perflog.formats.expressions import Expression
from perflog.formats.families.base import WITNESSES
from perflog.formats.loader.toml import Entry
from perflog.formats.model import SINCE_PREVIOUS, Line, SecondRow
from perflog.formats.template import Field, Template
from perflog.tables.schema import PER_FIELD, TABLES, column_for
from perflog.units import UNITS, Unit

FILLED = ("runs", "steps", "phases", "loads", "layers", "kernels", "events", "collectives", "summaries", "values")
"""Tables that a line can go to."""


def line(entry: Entry, scopes: tuple[str, ...], names: set[str]) -> Line:
    """A `[[line]]`. `names` are the fields of all lines of the file, which a `check` can speak of."""
    template = entry.template("text")
    given = shared(entry, scopes)
    for name in given["run"]:
        if name not in template.names:
            raise entry.error(f"`run` names `{name}`, no field of the text", "run", did_you_mean(name, template.names))
    columns(entry, "text", template.fields, given["table"])
    again = _again(entry, template, given["table"])
    second = () if again is None else tuple(again.fields.values())
    loose(entry, "text", template.fields, given["table"], (*given["run"], *second))
    return Line(
        name=entry.get("name", str, required=True),
        template=template,
        samples=entry.texts("sample", required=True),
        unit=units(entry, template.names),
        compute=compute(entry, template.fields),
        check=check(entry, template.names, names),
        unknown=_unknown(entry, template, given["table"]),
        again=again,
        **given,
    )


def shared(entry: Entry, scopes: tuple[str, ...]) -> dict[str, Any]:  # noqa: C901
    """What a line says of its rows, whatever its fields: table, set, map, run, scopes, covers."""
    table = entry.get("table", str)
    if table is not None and table not in FILLED:
        raise entry.error(f"unknown table `{table}`", "table", did_you_mean(table, FILLED))
    for key in ("opens", "closes", "before"):
        scope = entry.get(key, str)
        if scope is not None and scope not in scopes:
            raise entry.error(f"unknown scope `{scope}`", key, f"declare it in `scopes`; {did_you_mean(scope, scopes)}")
    if entry.get("before", str, "run") != "run":
        raise entry.error("only a run has lines before it", "before", 'write before = "run"')
    for scope in entry.texts("outside"):
        if scope not in scopes:
            raise entry.error(
                f"unknown scope `{scope}`", "outside", f"declare it in `scopes`; {did_you_mean(scope, scopes)}"
            )
    covers = entry.get("covers", object, 1)
    if covers == "since_previous":
        covers = SINCE_PREVIOUS
    elif type(covers) is not int or covers < 1:
        raise entry.error(f"`covers` cannot be `{covers}`", "covers", 'write covers = "since_previous", or a number')
    mapping = entry.get("map", list, [])
    if not all(isinstance(row, list) and len(row) == 4 and all(isinstance(x, str) for x in row) for row in mapping):
        raise entry.error("`map` rows are [column, field, pattern, value]", "map")
    for target in (row[0] for row in mapping if table in TABLES):
        if target not in [c.name for c in TABLES[table]]:
            raise entry.error(
                f"table {table} has no column `{target}`", "map", did_you_mean(target, [c.name for c in TABLES[table]])
            )
    return {
        "table": table,
        "set": entry.get("set", dict, {}),
        "map": tuple(tuple(row) for row in mapping),
        "run": entry.texts("run"),
        "opens": entry.get("opens", str),
        "closes": entry.get("closes", str),
        "before": entry.get("before", str),
        "outside": entry.texts("outside"),
        "covers": covers,
    }


def units(entry: Entry, names: Iterable[str]) -> dict[str, Unit]:
    """The unit of each field that is printed without one."""
    found, names = {}, tuple(names)
    for name, unit in entry.get("unit", dict, {}).items():
        if name not in names:
            raise entry.error(f"`unit` names `{name}`, no field of the text", "unit", did_you_mean(name, names))
        if unit not in UNITS:
            raise entry.error(f"unknown unit `{unit}`", "unit", did_you_mean(str(unit), UNITS))
        found[name] = UNITS[unit]
    return found


def compute(entry: Entry, fields: Iterable[Field]) -> dict[str, Expression]:
    """Columns that are computed from the line's numbers."""
    numeric = [f.name for f in fields if f.numeric]
    return {k: entry.expr("compute", v, numeric) for k, v in entry.get("compute", dict, {}).items()}


def check(entry: Entry, own: Iterable[str], names: Iterable[str]) -> tuple[str, Expression] | None:
    """An identity: a field of the line, and what it equals."""
    text = entry.get("check", str)
    if text is None:
        return None
    left, equals, right = text.partition("==")
    if not equals or left.strip() not in own:
        raise entry.error("`check` is `field == expression`", "check", f"fields: {', '.join(own)}")
    return left.strip(), entry.expr("check", right, names)


def columns(entry: Entry, key: str, fields: Iterable[Field], table: str | None) -> None:
    """Fields, constants and computed values fit the columns of their names. `key` is where the fields stand."""
    fields = list(fields)
    for f in fields:
        if f.name in ("rank", "step") and f.type != "d":
            raise entry.error(f"`{f.name}` is an integer: write {{{f.name}:d}}", key)
    if table is None or table == "runs":
        return
    given = {key: tuple(f.name for f in fields), **{k: tuple(entry.get(k, dict, {})) for k in ("set", "compute")}}
    for where, name in ((where, name) for where, names in given.items() for name in names):
        if name in WITNESSES:
            raise entry.error(f"`{name}` is filled by perflog itself", where, "give the field another name, or `_`")
    for where in ("set", "compute"):
        for name in entry.get(where, dict, {}):
            if not column_for(table, name):
                raise entry.error(
                    f"table {table} has no column `{name}`", where, did_you_mean(name, [c.name for c in TABLES[table]])
                )


def loose(entry: Entry, key: str, fields: Iterable[Field], table: str | None, placed: tuple[str, ...]) -> None:
    """Each text field needs a column, but those that have their place. `key` is where the fields stand."""
    if table in (None, "runs", "values"):
        return
    for f in fields:
        if f.name != "_" and f.name not in placed and not f.numeric and not column_for(str(table), f.name):
            raise entry.error(
                f"text field `{f.name}` has no column in table {table}", key, "name it `_`, or add it to `run`"
            )


def _unknown(entry: Entry, template: Template, table: str | None) -> dict[str, float]:
    """Numbers that stand for a value not known, by field. A column can be null; a row of its own cannot."""
    given = entry.get("unknown", dict, {})
    for name, value in given.items():
        if name not in template.names:
            raise entry.error(
                f"`unknown` names `{name}`, no field of the text", "unknown", did_you_mean(name, template.names)
            )
        if table in (None, "runs", *PER_FIELD) or column_for(table or "", name) is None:
            raise entry.error(f"`{name}` fills no column that can be null", "unknown")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise entry.error("`unknown` is { field = number }", "unknown", "the number as it is printed")
    return {name: float(value) for name, value in given.items()}


def _again(entry: Entry, template: Template, table: str | None) -> SecondRow | None:
    """The second row of a line: its columns, each with a field of the line, and constants."""
    given = entry.get("again", dict)
    if given is None:
        return None
    constants = given.get("set", {})
    fields = {name: field for name, field in given.items() if name != "set"}
    if table not in TABLES or table in PER_FIELD or table == "runs" or not isinstance(constants, dict):
        raise entry.error('`again` is { column = "field", set = {...} }, of a table with one row per line', "again")
    for name in (*fields, *constants):
        if column_for(table, name) is None:
            raise entry.error(
                f"table {table} has no column `{name}`", "again", did_you_mean(name, [c.name for c in TABLES[table]])
            )
    for field in fields.values():
        if field not in template.names:
            raise entry.error(
                f"`again` names `{field}`, no field of the text", "again", did_you_mean(str(field), template.names)
            )
    return SecondRow(fields, constants)
