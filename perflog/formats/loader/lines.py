"""Loads one `[[line]]` of a format file, and the keys that lines share with families."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from perflog.errors import did_you_mean
from perflog.formats import vocabulary
from perflog.formats.expressions import Expression
from perflog.formats.families.base import WITNESSES, reasons
from perflog.formats.loader.toml import Entry
from perflog.formats.model import COUNTED_AGAIN, NOT_KNOWN, RUNNING_MEAN, SINCE_PREVIOUS, STEP_BY, Line, SecondRow
from perflog.formats.template import LIST_DEPTH, Field
from perflog.tables.schema import PER_FIELD, SLOWEST_RANK, TABLES, column_for
from perflog.units import UNITS, Unit

NO_FIELD = "`{}`, which is not a field of the template"
FILLED = (
    "runs",
    "steps",
    "phases",
    "loads",
    "layers",
    "kernels",
    "events",
    "counters",
    "collectives",
    "summaries",
    "values",
    "milestones",
)
"""Tables that a line can go to."""


def line(entry: Entry, scopes: tuple[str, ...], names: set[str]) -> Line:
    """Load a `[[line]]` entry.

    Args:
        entry: The entry.
        scopes: The scopes of the file.
        names: The fields of all lines of the file; `check` may use them.

    Raises:
        FormatError: The entry is wrong.
    """
    template = entry.template("text")
    common = shared(entry, scopes)
    for key, named in (("run", common["run"]), ("clock", common["clock"])):
        entry.refuse_unknown(key, named, template.names, f"`{key}` names {NO_FIELD}")
    columns(entry, "text", template.fields, common["table"])
    again = second_row(entry, template.names, common["table"])
    in_second_row = () if again is None else tuple(again.fields.values())
    loose(entry, "text", template.fields, common["table"], (*common["run"], *in_second_row))
    return Line(
        name=entry.get("name", str, required=True),
        template=template,
        samples=entry.texts("sample", required=True),
        unit=units(entry, template.names),
        compute=compute(entry, template.fields),
        check=check(entry, template.names, names),
        unknown=unknown(entry, template.names, common["table"]),
        again=again,
        dropped=reasons({"*": reason} if (reason := entry.get("dropped", str)) else {}),
        telling=entry.get("telling", bool, None),
        items=_items(entry, template.fields, common["table"]),
        **common,
    )


def _items(entry: Entry, fields: Sequence[Field], table: str | None) -> tuple[str, ...]:
    """Load the columns that take the indices of the items in a list of numbers."""
    items = entry.texts("items")
    depth = next((LIST_DEPTH[f.type] for f in fields if f.type in LIST_DEPTH and column_for(table, f.name)), 0)
    if items and len(items) != depth:
        help = f"one column for each level of the list: {depth}" if depth else "{amount:l} or {amount:m}"
        raise entry.error("`items` are the columns for the indices in a list that fills a column", "items", help)
    for name in items:
        if (column := column_for(table, name)) is None or not column.type.startswith("int"):
            raise entry.error(f"table {table} has no column of integers `{name}`", "items")
    return items


def dropped_keys(entry: Entry) -> dict[str, str]:
    """Load the reasons why figures of a family need no table: one for all, or one for each key or glob."""
    value = entry.get("dropped", object, {})
    by_key = {"*": value} if isinstance(value, str) else value
    if not isinstance(by_key, dict) or not all(isinstance(reason, str) and reason for reason in by_key.values()):
        help = 'write dropped = "reason", or dropped = { key = "reason" }'
        raise entry.error("`dropped` says why figures need no table", "dropped", help)
    return by_key


def shared(entry: Entry, scopes: tuple[str, ...]) -> dict[str, Any]:
    """Load the keys that lines and families share and that do not depend on fields, as arguments of `Line`."""
    return {
        "table": (table := _table(entry)),
        "set": entry.get("set", dict, {}),
        "map": _map(entry, table),
        "run": entry.texts("run"),
        "covers": (covers := _covers(entry)),
        "window": _window(entry),
        "first_step": _first_step(entry, covers),
        "within": _within(entry, table),
        "clock": entry.texts("clock"),
        "clock_starts": _clock_event(entry, "clock_starts"),
        "clock_stops": _clock_event(entry, "clock_stops"),
        "pause": entry.get("pause", bool, False),
        "fills_steps": entry.get("fills_steps", bool, False),
        "step_by": _step_by(entry),
        **_scopes(entry, scopes),
    }


def _table(entry: Entry) -> str | None:
    table: str | None = entry.get("table", str)
    entry.refuse_unknown("table", (table,), FILLED, "unknown table `{}`")
    return table


def _scopes(entry: Entry, scopes: tuple[str, ...]) -> dict[str, Any]:
    """Load the keys that name scopes: `opens`, `closes`, `before`, `outside`."""
    named = {key: entry.get(key, str) for key in ("opens", "closes", "before")}
    outside = entry.texts("outside")
    for key, scope in (*named.items(), *(("outside", scope) for scope in outside)):
        if scope is not None and scope not in scopes:
            help = f"declare it in `scopes`; {did_you_mean(scope, scopes)}"
            raise entry.error(f"unknown scope `{scope}`", key, help)
    each_process = entry.get("each_process", bool, False)
    if each_process and named["opens"] != "run":
        raise entry.error('`each_process` is only for a line with `opens = "run"`', "each_process")
    if named["before"] not in (None, "run"):
        raise entry.error("only a run can have lines before it", "before", 'write before = "run"')
    return {**named, "each_process": each_process, "outside": outside}


_NAMED_COVERS = {"since_previous": SINCE_PREVIOUS, "unknown": NOT_KNOWN, "running_mean": RUNNING_MEAN}


def _covers(entry: Entry) -> int:
    covers = entry.get("covers", object, 1)
    if isinstance(covers, str) and _window(entry):
        return RUNNING_MEAN
    if isinstance(covers, str) and covers in _NAMED_COVERS:
        return _NAMED_COVERS[covers]
    if type(covers) is not int or covers < 1:
        raise entry.error(f"`covers` cannot be `{covers}`", "covers", 'write covers = "since_previous", or a number')
    return covers


def _window(entry: Entry) -> Expression | None:
    """Load the number of steps that a line covers, as an expression: `covers = "min(batch + 1, 20)"`."""
    covers = entry.get("covers", object, 1)
    is_expression = isinstance(covers, str) and any(mark in covers for mark in "(+-*/")
    return entry.expr("covers", covers) if is_expression else None


def _first_step(entry: Entry, covers: int) -> int | None:
    """Load the step from which on the first line counts, or that the line after it counts the first step again."""
    first: object = entry.get("first_step", object)
    is_step = isinstance(first, int) and first >= 0
    if first is not None and (covers != SINCE_PREVIOUS or not (is_step or first == "again")):
        help = 'the number that the program gives its first step, or "again", with covers = "since_previous"'
        raise entry.error("`first_step` says from which step on the first line counts", "first_step", help)
    return COUNTED_AGAIN if first == "again" else first if isinstance(first, int) else None


def _step_by(entry: Entry) -> str | None:
    """Load how a line takes its step from a progress bar."""
    step_by: str | None = entry.get("step_by", str)
    entry.refuse_unknown("step_by", (step_by,), STEP_BY, "`{}` is not a way to take a step from a bar")
    return step_by


def _clock_event(entry: Entry, key: str) -> dict[str, str] | None:
    """Load at which lines the clock starts or stops: `true` for all, or fields with their strings."""
    event: Any = entry.get(key, object)
    if event is None or event is False:
        return None
    if not entry.texts("clock"):
        raise entry.error(f"`{key}` without `clock`", key, "name the field that reads the clock")
    fields = {} if event is True else event
    if not isinstance(fields, dict) or not all(isinstance(text, str) for text in fields.values()):
        raise entry.error(f'`{key}` is true, or {{ field = "text" }}', key)
    return fields


def _within(entry: Entry, table: str | None) -> str | None:
    """Load the name of the counter, such as an epoch. The step counter starts again in each of its values."""
    within: str | None = entry.get("within", str)
    if within is not None and (table != "steps" or within == "step"):
        help = 'the field in which the steps start again, of a line with table = "steps"'
        raise entry.error(f"steps cannot be counted within `{within}`", "within", help)
    return within


def _map(entry: Entry, table: str | None) -> tuple[tuple[str, ...], ...]:
    """Load the rows of `map`: column, field, pattern of its string, value of the column."""
    rows = entry.get("map", list, [])
    if not all(isinstance(row, list) and len(row) == 4 and all(isinstance(x, str) for x in row) for row in rows):
        raise entry.error("`map` rows are [column, field, pattern, value]", "map")
    if table is not None:
        known = [c.name for c in TABLES[table]]
        entry.refuse_unknown("map", (row[0] for row in rows), known, f"table {table} has no column `{{}}`")
    return tuple(tuple(row) for row in rows)


def known_quantities(entry: Entry) -> Sequence[vocabulary.Quantity]:
    """Return the quantities that an entry takes under the names of any program: none without `plain_names`."""
    has_plain_names = entry.get("plain_names", bool, False)
    return tuple(vocabulary.quantities_of(entry.get("table", str, None)).values()) if has_plain_names else ()


def known_units(entry: Entry) -> dict[str, Unit]:
    """Return the units that these names say."""
    return {quantity.field: UNITS[quantity.unit] for quantity in known_quantities(entry) if quantity.unit}


def with_names(entry: Entry, text: str) -> str:
    """Return alternatives of names; with `plain_names`, `{step}` means all names of a step."""
    return vocabulary.with_names(text) if entry.get("plain_names", bool, False) else text


def units(entry: Entry, names: Iterable[str]) -> dict[str, Unit]:
    """Load the units of fields that are printed without one."""
    by_field = entry.get("unit", dict, {})
    entry.refuse_unknown("unit", by_field, [*names], f"`unit` names {NO_FIELD}")
    entry.refuse_unknown("unit", by_field.values(), UNITS, "unknown unit `{}`")
    return {name: UNITS[unit] for name, unit in by_field.items()}


def unit_names(entry: Entry) -> dict[str, str]:
    """Load what the units that a program prints mean."""
    names = entry.get("unit_names", dict, {})
    entry.refuse_unknown("unit_names", names.values(), UNITS, "unknown unit `{}`")
    return {str(name): str(unit) for name, unit in names.items()}


def compute(entry: Entry, fields: Iterable[Field]) -> dict[str, Expression]:
    """Load the columns that are computed from the line's numbers."""
    numeric = [f.name for f in fields if f.numeric]
    return {k: entry.expr("compute", v, numeric) for k, v in entry.get("compute", dict, {}).items()}


def check(entry: Entry, fields: Collection[str], names: Collection[str]) -> tuple[str, Expression] | None:
    """Load an identity: a field of the line, and the expression that it equals."""
    text = entry.get("check", str)
    if text is None:
        return None
    left, equals, right = text.partition("==")
    if not equals or left.strip() not in fields:
        raise entry.error("`check` is `field == expression`", "check", f"fields: {', '.join(fields)}")
    return left.strip(), entry.expr("check", right, names)


def columns(entry: Entry, key: str, fields: Iterable[Field], table: str | None) -> None:
    """Check that fields, constants and computed values fit the columns of their names.

    `key` is the key of the fields, for errors.
    """
    fields = list(fields)
    for f in fields:
        if f.name in vocabulary.PLACES and f.type != "d":
            raise entry.error(f"`{f.name}` is an integer: write {{{f.name}:d}}", key)
    if table is None or table == "runs":
        return
    names_by_key = {
        key: tuple(f.name for f in fields),
        **{k: tuple(entry.get(k, dict, {})) for k in ("set", "compute")},
    }
    for where, name in ((where, name) for where, names in names_by_key.items() for name in names):
        is_slowest = table == "phases" and entry.get("set", dict, {}).get(name) == SLOWEST_RANK
        if name in WITNESSES and not (name == "rank_by" and where == "set" and is_slowest):
            raise entry.error(f"`{name}` is filled by perflog itself", where, "give the field another name, or `_`")
    fills_steps = table == "values" and entry.get("fills_steps", bool, False)
    for where in ("set", "compute"):
        _refuse_columns(entry, where, entry.get(where, dict, {}), "steps" if fills_steps else table)


def _refuse_columns(entry: Entry, key: str, names: Iterable[str], table: str) -> None:
    """Raise the error if a table has no column for one of some names."""
    without = [name for name in names if column_for(table, name) is None]
    entry.refuse_unknown(key, without, [c.name for c in TABLES[table]], f"table {table} has no column `{{}}`")


def loose(entry: Entry, key: str, fields: Iterable[Field], table: str | None, placed: tuple[str, ...]) -> None:
    """Check that each string field has a column, except `placed` ones. `key` is the key of the fields."""
    if table in (None, "runs", "values"):
        return
    for f in fields:
        if not f.is_dropped and f.name not in placed and not f.numeric and not column_for(str(table), f.name):
            raise entry.error(
                f"string field `{f.name}` has no column in table {table}", key, "name it `_`, or add it to `run`"
            )


def unknown(entry: Entry, names: Collection[str], table: str | None) -> dict[str, float]:
    """Load the numbers that mean an unknown value, by field. The field must fill a column that can be null."""
    numbers = entry.get("unknown", dict, {})
    entry.refuse_unknown("unknown", numbers, names, f"`unknown` names {NO_FIELD}")
    for name, value in numbers.items():
        if table in (None, "runs", *PER_FIELD) or column_for(table, name) is None:
            raise entry.error(f"`{name}` fills no column that can be null", "unknown")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise entry.error("`unknown` is { field = number }", "unknown", "the number as it is printed")
    return {name: float(value) for name, value in numbers.items()}


def second_row(entry: Entry, names: Sequence[str], table: str | None) -> SecondRow | None:
    """Load the second row of a line: its columns, each with a field of the line, and constants."""
    again = entry.get("again", dict)
    if again is None:
        return None
    constants = again.get("set", {})
    fields = {name: field for name, field in again.items() if name != "set"}
    if table not in TABLES or table in PER_FIELD or table == "runs" or not isinstance(constants, dict):
        raise entry.error('`again` is { column = "field", set = {...} }, of a table with one row per line', "again")
    _refuse_columns(entry, "again", (*fields, *constants), table)
    entry.refuse_unknown("again", fields.values(), names, f"`again` names {NO_FIELD}")
    return SecondRow(fields, constants)
