"""Load one format file (the grammar is in parsers/README.md); each error says where it is and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from perflog.declared import CLOCKS, KINDS, QUANTITIES, SINCE_PREVIOUS, WHOLES, Again, Fingerprint, Format, Line, Phase
from perflog.entries import Entry, File, entries, near
from perflog.errors import FormatError
from perflog.expr import Expr
from perflog.flops import CONVENTIONS
from perflog.schema import PER_FIELD, TABLES, column
from perflog.template import Template
from perflog.units import UNITS, Unit

_WITNESSES = ("run", "line", "part", "rank_by", "copy", "occurrence", "steps_averaged")
"""Columns that perflog fills itself, to say where a row comes from."""

_FILLED = ("runs", "steps", "phases", "loads", "layers", "kernels", "collectives", "summaries", "values")
"""Tables that a line can go to."""


def _units(entry: Entry, template: Template) -> dict[str, Unit]:
    units = {}
    for name, unit in entry.get("unit", dict, {}).items():
        if name not in template.names:
            raise entry.error(f"`unit` names `{name}`, no field of the text", "unit", near(name, template.names))
        if unit not in UNITS:
            raise entry.error(f"unknown unit `{unit}`", "unit", near(str(unit), UNITS))
        units[name] = UNITS[unit]
    return units


def _unknown(entry: Entry, template: Template, table: str | None) -> dict[str, float]:
    """Numbers that stand for a value not known, by field. A column can be null; a row of its own cannot."""
    given = entry.get("unknown", dict, {})
    for name, value in given.items():
        if name not in template.names:
            raise entry.error(f"`unknown` names `{name}`, no field of the text", "unknown", near(name, template.names))
        if table in (None, "runs", *PER_FIELD) or column(table or "", name) is None:
            raise entry.error(f"`{name}` fills no column that can be null", "unknown")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise entry.error("`unknown` is { field = number }", "unknown", "the number as it is printed")
    return {name: float(value) for name, value in given.items()}


def _columns(entry: Entry, template: Template, table: str | None, run: tuple[str, ...]) -> None:
    """Each text field needs a column; each constant, computed or mapped value too."""
    for f in template.fields:
        if f.name in ("rank", "step") and f.type != "d":
            raise entry.error(f"`{f.name}` is an integer: write {{{f.name}:d}}", "text")
    if table is None or table == "runs":
        return
    given = {"text": template.names, **{key: tuple(entry.get(key, dict, {})) for key in ("set", "compute")}}
    for key, name in ((key, name) for key, names in given.items() for name in names):
        if name in _WITNESSES:
            raise entry.error(f"`{name}` is filled by perflog itself", key, "give the field another name, or `_`")
    for key in ("set", "compute"):
        for name in entry.get(key, dict, {}):
            if not column(table, name):
                raise entry.error(
                    f"table {table} has no column `{name}`", key, near(name, [c.name for c in TABLES[table]])
                )
    second = entry.get("again", dict, {}).values()
    for f in template.fields:
        if f.name in second:
            continue
        loose = f.name != "_" and f.name not in run and not f.numeric and not column(table, f.name)
        if loose and table != "values":
            raise entry.error(
                f"text field `{f.name}` has no column in table {table}", "text", "name it `_`, or add it to `run`"
            )


def _again(entry: Entry, template: Template, table: str | None) -> Again | None:
    """The second row of a line: its columns, each with a field of the line, and constants."""
    given = entry.get("again", dict)
    if given is None:
        return None
    constants = given.get("set", {})
    fields = {name: field for name, field in given.items() if name != "set"}
    if table not in TABLES or table in PER_FIELD or table == "runs" or not isinstance(constants, dict):
        raise entry.error("`again` is { column = \"field\", set = {...} }, of a table with one row per line", "again")
    for name in (*fields, *constants):
        if column(table, name) is None:
            raise entry.error(
                f"table {table} has no column `{name}`", "again", near(name, [c.name for c in TABLES[table]])
            )
    for field in fields.values():
        if field not in template.names:
            raise entry.error(
                f"`again` names `{field}`, no field of the text", "again", near(str(field), template.names)
            )
    return Again(fields, constants)


def _line(entry: Entry, scopes: tuple[str, ...], names: set[str]) -> Line:
    template = entry.template("text")
    table, run = entry.get("table", str), entry.texts("run")
    if table is not None and table not in _FILLED:
        raise entry.error(f"unknown table `{table}`", "table", near(table, _FILLED))
    for key in ("opens", "closes", "before"):
        scope = entry.get(key, str)
        if scope is not None and scope not in scopes:
            raise entry.error(f"unknown scope `{scope}`", key, f"declare it in `scopes`; {near(scope, scopes)}")
    if entry.get("before", str, "run") != "run":
        raise entry.error("only a run has lines before it", "before", 'write before = "run"')
    for name in run:
        if name not in template.names:
            raise entry.error(f"`run` names `{name}`, no field of the text", "run", near(name, template.names))
    for scope in entry.texts("outside"):
        if scope not in scopes:
            raise entry.error(f"unknown scope `{scope}`", "outside", f"declare it in `scopes`; {near(scope, scopes)}")
    _columns(entry, template, table, run)
    numeric = [f.name for f in template.fields if f.numeric]
    covers = entry.get("covers", object, 1)
    if covers == "since_previous":
        covers = SINCE_PREVIOUS
    elif not isinstance(covers, int) or covers < 1:
        raise entry.error(f"`covers` cannot be `{covers}`", "covers", 'write covers = "since_previous", or a number')
    mapping = entry.get("map", list, [])
    if not all(isinstance(row, list) and len(row) == 4 and all(isinstance(x, str) for x in row) for row in mapping):
        raise entry.error("`map` rows are [column, field, pattern, value]", "map")
    for target in (row[0] for row in mapping if table in TABLES):
        if target not in [c.name for c in TABLES[table]]:
            raise entry.error(
                f"table {table} has no column `{target}`", "map", near(target, [c.name for c in TABLES[table]])
            )
    check = entry.get("check", str)
    if check is not None:
        left, equals, right = check.partition("==")
        if not equals or left.strip() not in template.names:
            raise entry.error("`check` is `field == expression`", "check", f"fields: {', '.join(template.names)}")
        check = (left.strip(), entry.expr("check", right, names))
    return Line(
        name=entry.get("name", str, required=True),
        template=template,
        samples=entry.texts("sample", required=True),
        table=table,
        unit=_units(entry, template),
        unknown=_unknown(entry, template, table),
        set=entry.get("set", dict, {}),
        compute={k: entry.expr("compute", v, numeric) for k, v in entry.get("compute", dict, {}).items()},
        map=tuple(tuple(row) for row in mapping),
        run=run,
        opens=entry.get("opens", str),
        closes=entry.get("closes", str),
        before=entry.get("before", str),
        outside=entry.texts("outside"),
        covers=covers,
        check=check,
        again=_again(entry, template, table),
    )


def _block(entry: Entry) -> list[Line]:
    """A block is the three roles of its lines; its sample is a whole block."""
    name = entry.get("name", str, required=True)
    pieces = [("begin", text) for text in entry.texts("begin", required=True)]
    pieces += [("end", text) for text in entry.texts("end", required=True)]
    pieces += [("body", text) for text in entry.texts("body")]  # last: it may read the end too
    lines = [Line(name, entry.template(role, text), role=role) for role, text in pieces]
    for row in entry.get("sample", str, required=True).splitlines():
        if row.strip() and not any(x.template.match(row) is not None for x in lines):
            raise entry.error(f"no piece of the block reads `{row}`", "sample")
    return lines


def _fingerprint(entry: Entry, lines: Mapping[str, Line]) -> Fingerprint:
    vote, reads = entry.get("vote", dict, required=True), entry.get("reads", dict, required=True)
    voter = lines[entry.named("vote", vote.get("line"), lines)]
    if "after" in vote:
        entry.named("vote", vote["after"], lines)
    keys = [vote["key"]] if isinstance(vote.get("key"), str) else vote.get("key")
    if not isinstance(keys, list) or not keys:
        raise entry.error("`vote` has no `key`", "vote", "name the field whose value tells the rank")
    fields = {}
    for name, found in reads.items():
        line = lines[entry.named("reads", name, lines)]
        fields[name] = (found,) if isinstance(found, str) else tuple(found) if isinstance(found, list) else ()
        for field in fields[name]:
            if field not in line.template.names:
                raise entry.error(
                    f"line `{name}` has no field `{field}`", "reads", near(str(field), line.template.names)
                )
        if len(fields[name]) != len(keys):
            raise entry.error(f"`{name}` must name {len(keys)} fields, as many as the vote's key", "reads")
    return Fingerprint(
        name=entry.get("name", str, required=True),
        vote_line=vote["line"],
        vote_key=tuple(entry.expr("vote", key, voter.template.names) for key in keys),
        after=vote.get("after"),
        reads=fields,
    )


def _label(top: Entry) -> str | None:
    """A run's label: text with {names} of what the run's lines say."""
    label: str | None = top.get("label", str)
    if label is not None and re.search(r"[{}]", re.sub(r"\{\w+\}", "", label)):
        raise top.error(f"`{label}` is no label", "label", "write text and {names} of what the lines say of the run")
    return label


def _phases(file: File, lines: list[Line]) -> tuple[Phase, ...]:
    """What the phases of a step are, in the order of the file."""
    timed = {n for line in lines if line.table == "phases" for n in line.template.names}
    found: dict[str, Phase] = {}
    for entry in entries(file, "phase"):
        name = entry.get("name", str, required=True)
        if name not in timed or name in found:
            reason = f"phase `{name}` is declared twice" if name in found else f"no line times a phase `{name}`"
            raise entry.error(reason, "name", "" if name in found else near(name, timed))
        of, kind = entry.texts("of") or ("step",), entry.get("kind", str, "compute")
        clock, exposes = entry.get("clock", str), entry.get("exposes", str)
        wholes = timed | set(WHOLES)
        for key, other in (*(("of", parent) for parent in of), ("exposes", exposes)):
            if other is not None and other not in wholes:
                raise entry.error(f"`{other}` is no phase", key, near(other, wholes))
        for key, value, words in (("kind", kind, KINDS), ("clock", clock, CLOCKS)):
            if value is not None and value not in words:
                raise entry.error(f"`{value}` is no {key} of a phase", key, near(value, words))
        hidden, says = entry.get("hidden", bool, False), entry.get("says", str, "")
        found[name] = Phase(name, of, kind, hidden, exposes, clock, says)
    return tuple(found.values())


def _flops(top: Entry) -> str | None:
    """The FLOP convention of the printed rate."""
    id: str | None = top.get("flops", str)
    if id is not None and id not in CONVENTIONS:
        raise top.error(f"there is no FLOP convention `{id}`", "flops", near(id, CONVENTIONS))
    return id


def _quantities(top: Entry) -> dict[str, Expr]:
    """Quantities that metrics ask for, each an expression of what the lines say about the run."""
    given = top.get("quantities", dict, {})
    for name in given:
        if name not in QUANTITIES:
            raise top.error(f"unknown quantity `{name}`", name, near(name, QUANTITIES))
    return {name: top.expr(name, text) for name, text in given.items()}


def load(path: Path) -> Format:
    """One format file, loaded and checked, but for its samples (formats.check_samples). Raises FormatError."""
    file = File(path)
    top = Entry(file, "", 0, file.data)
    scopes = top.texts("scopes") or ("run",)
    names = {n for e in entries(file, "line") for n in e.template("text").names}
    lines = [_line(entry, scopes, names) for entry in entries(file, "line")]
    by_name: dict[str, Line] = {}
    for index, line in enumerate(lines):
        if line.name in by_name:
            where = file.where("line", index, "name")
            raise FormatError(f"two lines are named `{line.name}`", where, "names are unique in a file")
        by_name[line.name] = line
    for entry in entries(file, "context"):
        text = entry.template("text")
        lines.append(Line(text.text, text, entry.texts("sample", required=True), role="context"))
    for entry in entries(file, "block"):
        lines += _block(entry)
    adjacent = []
    for entry in entries(file, "adjacent"):
        pair = entry.get("line", str, required=True), entry.get("after", str, required=True)
        adjacent.append((entry.named("line", pair[0], by_name), entry.named("after", pair[1], by_name)))
    return Format(
        name=path.stem,
        path=path,
        title=top.get("title", str, ""),
        source=top.get("source", str, ""),
        scopes=scopes,
        label=_label(top),
        lines=tuple(lines),
        fingerprints=tuple(_fingerprint(e, by_name) for e in entries(file, "fingerprint")),
        adjacent=tuple(adjacent),
        phases=_phases(file, lines),
        quantities=_quantities(top),
        flops=_flops(top),
    )
