"""Loads the families of a format file: `[[pairs]]`, `[[json]]`, `[[table]]`, `[[meters]]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable
from functools import partial
from typing import Any

from perflog.errors import FormatError
from perflog.formats.families import (
    case_lines,
    checkpoint_lines,
    launch_commands,
    step_headings,
    title_lines,
    work_lines,
)
from perflog.formats.families.base import FamilyShape, ValueForm
from perflog.formats.families.json_lines import JsonFamily
from perflog.formats.families.key_value import KeyValueFamily, PairSyntax
from perflog.formats.families.meters import MeterFamily
from perflog.formats.families.whole_lines import LineReader, WholeLineFamily, line_alone
from perflog.formats.loader.header_tables import table
from perflog.formats.loader.lines import (
    check,
    columns,
    compute,
    dropped_keys,
    known_quantities,
    known_units,
    second_row,
    shared,
    unit_names,
    unknown,
    with_names,
)
from perflog.formats.loader.toml import Entry, File, entries
from perflog.formats.model import MIN_LETTERS, Family, Line
from perflog.formats.template import Field
from perflog.formats.vocabulary import PLACES, plain_name
from perflog.units import UNITS, Unit

Loader = Callable[[Entry, tuple[str, ...]], Family]


def families(file: File, scopes: tuple[str, ...], lines: Container[str]) -> tuple[Family, ...]:
    """Return all families of the file, kind by kind. `lines` are names that lines of the file have already."""
    by_name: dict[str, Family] = {}
    for kind, load in LOADERS.items():
        for entry in entries(file, kind):
            family = load(entry, scopes)
            if family.name in by_name or family.name in lines:
                raise entry.error(f"two lines are named `{family.name}`", "name", "names are unique in a file")
            by_name[family.name] = family
    return tuple(by_name.values())


def _key_value(entry: Entry, scopes: tuple[str, ...]) -> Family:
    """Load a `[[pairs]]` entry."""
    syntax = _pair_syntax(entry)
    keys = {key: _value_forms(entry, key, texts) for key, texts in entry.get("keys", dict, {}).items()}
    needs = tuple(tuple(text.split("|")) for text in entry.texts("needs"))
    for what, named in (("needs", sum(needs, ())), ("phases", entry.texts("phases"))):
        entry.refuse_unknown(what, named, keys, f"`{what}` names `{{}}`, which is not in `keys`")
    fields = [f for forms in keys.values() for form in forms for f in form.fields]
    shape = _shape(entry, scopes, fields)
    pair, tail = entry.get("pair", str), shape.tail.text
    return KeyValueFamily(
        name=shape.line.name,
        text=f"{shape.begins}{pair}…{tail}",
        samples=entry.texts("sample", required=True),
        shape=shape,
        syntax=syntax,
        keys=keys,
        needs=needs,
        lacks=entry.texts("lacks"),
        phases=frozenset(entry.texts("phases")),
    )


def _pair_syntax(entry: Entry) -> PairSyntax:
    """Load how one pair is written: what is before {key}, between key and value, and after {value}."""
    text = entry.get("pair", str, required=True)
    parts = re.fullmatch(r"(.*)\{key\}(.*)\{value\}(.*)", text, re.DOTALL)
    if parts is None or re.search(r"[{}]", "".join(parts.groups())):
        raise entry.error(f"`{text}` is not a pair", "pair", "write {key} and {value}, and what is around them")
    syntax = PairSyntax(*parts.groups())
    if not syntax.mid or not syntax.between:
        what = "a key from its value" if not syntax.mid else "adjacent pairs"
        raise entry.error(f"`{text}` does not separate {what}", "pair", "write what is between them, spaces too")
    if syntax.stop.strip() and re.match(r"\w", syntax.stop):
        raise entry.error(
            f"`{text}`: a letter cannot separate pairs", "pair", "make it part of the key, or of the value"
        )
    return syntax


def _value_forms(entry: Entry, key: str, value: object) -> tuple[ValueForm, ...]:
    """Load the forms in which the value of a key is printed."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(x, str) for x in texts):
        raise entry.error(f"the value of `{key}` must be a string or a list of strings", key)
    try:
        return tuple(ValueForm.of(text) for text in texts)
    except FormatError as error:
        raise entry.error(f"{error.reason}\n{error.where}", key, error.help) from error


def _meters(entry: Entry, scopes: tuple[str, ...]) -> Family:
    """Load a `[[meters]]` entry."""
    keys = _keys(entry)
    for key, name in keys.items():
        if not (isinstance(name, str) and name.isidentifier()):
            raise entry.error(f"`{name}` is not a field name", key, "name the field or column that takes the number")
    fields = [Field(name, "d" if name in PLACES else "f", "") for name in keys.values()]
    shape = _shape(entry, scopes, fields)
    needs = tuple(_alternatives(with_names(entry, text)) for text in entry.texts("needs"))
    name, samples = shape.line.name, entry.texts("sample", required=True)
    text = f"{shape.begins} … {'  '.join(entry.texts('needs'))}"
    if (whole := _read_as_a_whole(entry, shape)) is not None:
        pattern, read = whole
        return WholeLineFamily(name=name, text=text, samples=samples, shape=shape, pattern=pattern, read=read)
    measures, unnamed = entry.get("measures", bool, False), entry.get("unnamed", bool, False)
    ended, counted = entry.get("ended", bool, False), entry.get("counted", bool, False)
    if not (needs or measures or unnamed or ended or counted) and shape.letters < MIN_LETTERS:
        raise entry.error("the lines have neither a head nor names", "needs", "write `needs`: names that each line has")
    return MeterFamily(
        name=name,
        text=text,
        samples=samples,
        shape=shape,
        keys={plain_name(key): name for key, name in keys.items()},
        needs=needs,
        unit_names=unit_names(entry),
        measures=measures,
        unnamed=unnamed,
        ended=ended,
        pairs=entry.get("pairs", bool, False) or counted,
        counted=counted,
    )


def _read_as_a_whole(entry: Entry, shape: FamilyShape) -> tuple[str, LineReader] | None:
    """Load the pattern of titles, headings, cases and lines of work, and what reads them; None for other lines."""
    if entry.get("titles", bool, False):
        return title_lines.PATTERN, partial(line_alone, form=title_lines.title_text)
    if entry.get("headings", bool, False):
        what = step_headings.EPOCH if shape.line.opens == step_headings.EPOCH else step_headings.STEP
        form = partial(step_headings.heading_text, what=what)
        return step_headings.PATTERNS[what], partial(line_alone, form=form)
    if entry.get("cases", bool, False):
        return case_lines.PATTERN, case_lines.case_line
    worked = entry.get("worked", str)
    entry.refuse_unknown("worked", (worked,), work_lines.PATTERNS, "`{}` is no kind of line")
    return (work_lines.PATTERNS[worked], partial(work_lines.work_line, kind=worked)) if worked else None


def _alternatives(text: str) -> tuple[str, ...]:
    """Return the alternatives of a name that lines must have, as names are compared; `*` stays."""
    return tuple("*".join(map(plain_name, name.split("*"))) for name in text.split("|"))


def _json(entry: Entry, scopes: tuple[str, ...]) -> Family:
    """Load a `[[json]]` entry."""
    keys, when = _keys(entry), _when(entry)
    for path, name in keys.items():
        if name != "*" and not (isinstance(name, str) and name.isidentifier()):
            raise entry.error(f"`{name}` is not a field name", path, "name the field or column that takes the value")
        if name == "*" and "*" not in path:
            raise entry.error(
                f"`{path}` is one key, so `*` has no meaning", path, "name the field, or end the path in `*`"
            )
    fields = [Field(name, "d" if name in PLACES else "f", "") for name in keys.values() if name != "*"]
    shape = _shape(entry, scopes, fields)
    paths_and_values = (item for e in entries(entry.file, "json") for item in _when(e).items())
    distinguishing = {
        path for path, value in paths_and_values if value not in ("*", "null")
    }  # null is part of a shape anyway
    quotes = entry.get("quotes", str, "")
    if quotes not in ("", '"', "'"):
        raise entry.error(f"`{quotes}` is not a quotation mark", "quotes", "write \" or ', or leave it out for both")
    shown_keys = ", ".join(f"{path}: {{{name}}}" for path, name in keys.items())
    return JsonFamily(
        name=shape.line.name,
        text=f"{shape.begins}{{{shown_keys}, …}}{shape.tail.text}",
        samples=entry.texts("sample", required=True),
        shape=shape,
        keys=keys,
        when=when,
        distinguishing=frozenset(distinguishing),
        quotes=quotes,
        lacks=entry.texts("lacks"),
        phases=entry.texts("phases"),
        has_plain_names=entry.get("plain_names", bool, False),
    )


def _when(entry: Entry) -> dict[str, str]:
    """Load the paths that a line must have, each with a glob of its value."""
    conditions: dict[str, str] = entry.get("when", dict, {})
    for path, value in conditions.items():
        if not isinstance(value, str):
            raise entry.error(f"`{path}` must be a string", "when", "write the value as a string; `*` is any")
    return {with_names(entry, path): value for path, value in conditions.items()}


def _keys(entry: Entry) -> dict[str, Any]:
    """Load the names of the values that an entry takes; with `plain_names` also the names of any program."""
    keys: dict[str, Any] = entry.get("keys", dict, {})
    return {**{name: quantity.field for quantity in known_quantities(entry) for name in quantity.names}, **keys}


def _shape(entry: Entry, scopes: tuple[str, ...], fields: Iterable[Field]) -> FamilyShape:
    """Load what all lines of a family have in common. `fields` are the fields between head and tail."""
    heads = tuple(entry.template("head", text) for text in (entry.texts("head") or ("",)))
    tail = entry.template("tail", entry.get("tail", str, ""))
    common, fields = shared(entry, scopes), list(fields)
    outer = [f for t in (*heads, tail) for f in t.fields]
    for f in (f for head in heads for f in head.fields if not f.is_dropped and f.name in tail.names):
        raise entry.error(f"field `{f.name}` is in the head too", "tail", "give each field its own name")
    every = [*outer, *fields]
    names = {f.name for f in every}
    entry.refuse_unknown("run", common["run"], names, "`run` names `{}`, which is not a field")
    columns(entry, "head", outer, common["table"])
    columns(entry, "keys", fields, common["table"])
    line = Line(
        name=entry.get("name", str, required=True),
        template=heads[0],
        compute=compute(entry, every),
        check=check(entry, names, names),
        unknown=unknown(entry, names, common["table"]),
        telling=entry.get("telling", bool, None),
        again=second_row(entry, tuple(names), common["table"]),
        **common,
    )
    beside_steps = entry.get("beside_steps", bool, False)
    return FamilyShape(line, heads, tail, _units(entry, names), dropped_keys(entry), beside_steps)


def _units(entry: Entry, names: Collection[str]) -> dict[str, Unit]:
    """Load units by field name, or by a glob of the names that come from keys."""
    units = entry.get("unit", dict, {})
    plain = [name for name in units if "*" not in name]
    entry.refuse_unknown("unit", plain, names, "`unit` names `{}`, which is not a field")
    entry.refuse_unknown("unit", units.values(), UNITS, "unknown unit `{}`")
    return {**known_units(entry), **{name: UNITS[unit] for name, unit in units.items()}}


def _whole_line(
    entry: Entry, scopes: tuple[str, ...], fields: Iterable[Field], text: str, pattern: str, read: LineReader
) -> Family:
    """Load an entry of lines that are read as a whole. `fields`: those that they may have."""
    name, samples = entry.get("name", str, required=True), entry.texts("sample", required=True)
    shape = _shape(entry, scopes, fields)
    return WholeLineFamily(name=name, text=text, samples=samples, shape=shape, pattern=pattern, read=read)


LOADERS: dict[str, Loader] = {
    "pairs": _key_value,
    "json": _json,
    "table": table,
    "meters": _meters,
    "checkpoints": partial(
        _whole_line,
        fields=(Field("step", "d", ""), Field("duration", "f", ""), Field("name", "S", "")),
        text="Saving checkpoint …, Loaded checkpoint …, Resuming from step …",
        pattern=checkpoint_lines.PATTERN,
        read=checkpoint_lines.checkpoint_line,
    ),
    "commands": partial(
        _whole_line,
        fields=(),
        text="torchrun --nproc_per_node …, srun -n …",
        pattern=launch_commands.PATTERN,
        read=launch_commands.command_line,
    ),
}
"""The function that loads a family, by kind of entry. A new kind of family is registered here."""
