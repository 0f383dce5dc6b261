"""The families of a format file: `[[pairs]]`, `[[json]]`, `[[table]]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from typing import Any

from perflog.errors import FormatError, did_you_mean
from perflog.formats.families.base import FamilyShape, ValueForm
from perflog.formats.families.json_lines import JsonFamily
from perflog.formats.families.key_value import KeyValueFamily, PairSyntax
from perflog.formats.loader.header_tables import table
from perflog.formats.loader.lines import check, columns, compute, shared
from perflog.formats.loader.toml import Entry, File, entries
from perflog.formats.model import Family, Line
from perflog.formats.template import Field
from perflog.units import UNITS, Unit

Maker = Callable[[Entry, tuple[str, ...]], Family]


def families(file: File, scopes: tuple[str, ...], lines: Container[str]) -> tuple[Family, ...]:
    """All families of the file, kind by kind. `lines` are the names that are taken."""
    found: dict[str, Family] = {}
    for kind, make in MAKERS.items():
        for entry in entries(file, kind):
            family = make(entry, scopes)
            if family.name in found or family.name in lines:
                raise entry.error(f"two lines are named `{family.name}`", "name", "names are unique in a file")
            found[family.name] = family
    return tuple(found.values())


def _pairs(entry: Entry, scopes: tuple[str, ...]) -> Family:
    """A `[[pairs]]`."""
    mould = _mould(entry)
    keys = {key: _pieces(entry, key, given) for key, given in entry.get("keys", dict, {}).items()}
    needs = entry.texts("needs")
    for key in needs:
        if key not in keys:
            raise entry.error(f"`needs` names `{key}`, no key of it", "needs", did_you_mean(key, keys))
    fields = [f for pieces in keys.values() for p in pieces for f in p.fields]
    shape = _shape(entry, scopes, fields)
    pair, tail = entry.get("pair", str), shape.tail.text
    return KeyValueFamily(
        name=shape.line.name,
        text=f"{shape.begins}{pair}…{tail}",
        samples=entry.texts("sample", required=True),
        shape=shape,
        mould=mould,
        keys=keys,
        needs=needs,
    )


def _mould(entry: Entry) -> PairSyntax:
    """How one pair is written: text before {key}, between, and behind {value}."""
    text = entry.get("pair", str, required=True)
    parts = re.fullmatch(r"(.*)\{key\}(.*)\{value\}(.*)", text, re.DOTALL)
    if parts is None or re.search(r"[{}]", "".join(parts.groups())):
        raise entry.error(f"`{text}` is no pair", "pair", "write {key} and {value}, and what stands around them")
    mould = PairSyntax(*parts.groups())
    if not mould.mid or not mould.between:
        what = "a key from its value" if not mould.mid else "two pairs"
        raise entry.error(f"`{text}` tells not {what}", "pair", "write what stands between them, blanks too")
    if mould.stop.strip() and re.match(r"\w", mould.stop):
        raise entry.error(f"`{text}`: no letter can separate pairs", "pair", "make it part of the key, or of the value")
    return mould


def _pieces(entry: Entry, key: str, given: Any) -> tuple[ValueForm, ...]:
    """The ways in which the value of a key is printed."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(x, str) for x in texts):
        raise entry.error(f"the value of `{key}` must be a string or a list of strings", key)
    try:
        return tuple(ValueForm.of(text) for text in texts)
    except FormatError as error:
        raise entry.error(f"{error.reason}\n{error.where}", key, error.help) from error


def _objects(entry: Entry, scopes: tuple[str, ...]) -> Family:
    """A `[[json]]`."""
    keys, when = entry.get("keys", dict, {}), _when(entry)
    for path, name in keys.items():
        if name != "*" and not (isinstance(name, str) and name.isidentifier()):
            raise entry.error(f"`{name}` is no name of a field", path, "name the field or column that takes the value")
        if name == "*" and "*" not in path:
            raise entry.error(
                f"`{path}` is one key: nothing to name `*`", path, "name the field, or end the path in `*`"
            )
    fields = [Field(name, "d" if name in ("rank", "step") else "f", "") for name in keys.values() if name != "*"]
    shape = _shape(entry, scopes, fields)
    apart = {p for e in entries(entry.file, "json") for p, value in _when(e).items() if value != "*"}
    quotes = entry.get("quotes", str, "")
    if quotes not in ("", '"', "'"):
        raise entry.error(f"`{quotes}` is no quotation mark", "quotes", "write \", ', or leave it out for both")
    told = ", ".join(f"{path}: {{{name}}}" for path, name in keys.items())
    return JsonFamily(
        name=shape.line.name,
        text=f"{shape.begins}{{{told}, …}}{shape.tail.text}",
        samples=entry.texts("sample", required=True),
        shape=shape,
        keys=keys,
        when=when,
        apart=frozenset(apart),
        quotes=quotes,
    )


def _when(entry: Entry) -> dict[str, str]:
    """Paths that must be there, each with a glob of its value."""
    given: dict[str, str] = entry.get("when", dict, {})
    for path, value in given.items():
        if not isinstance(value, str):
            raise entry.error(f"`{path}` must be a string", "when", "write the value as text; `*` is any")
    return given


def _shape(entry: Entry, scopes: tuple[str, ...], fields: Iterable[Field]) -> FamilyShape:
    """What a family says of its lines. `fields` are those between head and tail."""
    heads = tuple(entry.template("head", text) for text in (entry.texts("head") or ("",)))
    tail = entry.template("tail", entry.get("tail", str, ""))
    given, fields = shared(entry, scopes), list(fields)
    outer = [f for t in (*heads, tail) for f in t.fields]
    for f in (f for head in heads for f in head.fields if f.name != "_" and f.name in tail.names):
        raise entry.error(f"field `{f.name}` stands in the head too", "tail", "give each field its own name")
    every = [*outer, *fields]
    names = {f.name for f in every}
    for name in given["run"]:
        if name not in names:
            raise entry.error(f"`run` names `{name}`, no field of it", "run", did_you_mean(name, names))
    columns(entry, "head", outer, given["table"])
    columns(entry, "keys", fields, given["table"])
    line = Line(
        name=entry.get("name", str, required=True),
        template=heads[0],
        compute=compute(entry, every),
        check=check(entry, names, names),
        **given,
    )
    return FamilyShape(line, heads, tail, _units(entry, names))


def _units(entry: Entry, names: Iterable[str]) -> dict[str, Unit]:
    """Units by the name of a field, or by a glob of the names that come of keys."""
    names = list(names)
    given = entry.get("unit", dict, {})
    for name, unit in given.items():
        if name not in names and "*" not in name:
            raise entry.error(f"`unit` names `{name}`, no field of it", "unit", did_you_mean(name, names))
        if unit not in UNITS:
            raise entry.error(f"unknown unit `{unit}`", "unit", did_you_mean(str(unit), UNITS))
    return {name: UNITS[unit] for name, unit in given.items()}


MAKERS: dict[str, Maker] = {"pairs": _pairs, "json": _objects, "table": table}
"""Kind of entry -> what makes its family of it and of the file's scopes. A new kind takes its place here."""
