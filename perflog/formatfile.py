"""Load one format file (the grammar is in parsers/README.md); each error says where it is and what to do."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from perflog.declared import Fingerprint, Format, Line
from perflog.errors import FormatError
from perflog.expr import Expr
from perflog.schema import TABLES, column
from perflog.template import Template
from perflog.units import UNITS, Unit

_WITNESSES = ("run", "line", "part", "rank_by", "copy", "occurrence", "steps_averaged")
"""Columns that perflog fills itself, to say where a row comes from."""

_FILLED = ("runs", "steps", "phases", "loads", "layers", "kernels", "collectives", "summaries", "values")
"""Tables that a line can go to."""

_KEYS = {
    "": {"title", "source", "scopes", "label", "line", "context", "block", "fingerprint", "adjacent"},
    "line": {
        "name", "text", "sample", "table", "unit", "set", "compute", "map", "run", "opens", "closes", "before",
        "covers", "check", "outside",
    },
    "context": {"text", "sample"},
    "block": {"name", "begin", "body", "end", "sample"},
    "fingerprint": {"name", "vote", "reads"},
    "adjacent": {"line", "after"},
}  # fmt: skip


class _File:
    """A TOML file with the place of each entry, so that an error can point at it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
            self.data = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise FormatError(str(error), str(path), "the file is TOML; see parsers/README.md") from error
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"cannot be read: {error}", str(path)) from error

    def where(self, kind: str = "", index: int = 0, key: str = "") -> str:
        """`file:line` of the index-th `[[kind]]`, or of a key in it."""
        rows = self.text.splitlines()
        heads = [n for n, row in enumerate(rows) if re.match(rf"\s*\[\[\s*{kind}\s*\]\]", row)] if kind else [-1]
        start = heads[index] if index < len(heads) else -1
        for n in range(start + 1, len(rows) if key else 0):
            if re.match(r"\s*\[\[", rows[n]):
                break
            if re.match(rf"\s*{re.escape(key)}\s*=", rows[n]):
                return f"{self.path}:{n + 1}"
        return f"{self.path}:{start + 1}" if start >= 0 else str(self.path)


def near(word: str, words: Iterable[str]) -> str:
    """A help line: the nearest of the known words, or all of them."""
    close = difflib.get_close_matches(word, list(words), 1)
    return f"did you mean `{close[0]}`?" if close else f"known: {', '.join(sorted(words))}"


class _Entry:
    """One table of the file, read key by key with its place at hand."""

    def __init__(self, file: _File, kind: str, index: int, data: Any) -> None:
        self.file, self.kind, self.index = file, kind, index
        if not isinstance(data, dict):
            raise self.error(f"`{kind}` is not a list of tables", help=f"write [[{kind}]]")
        self.data: dict[str, Any] = data
        for key in data:
            if key not in _KEYS[kind]:
                raise self.error(f"unknown key `{key}`", key, near(key, _KEYS[kind]))

    def error(self, reason: str, key: str = "", help: str = "") -> FormatError:
        return FormatError(reason, self.file.where(self.kind, self.index, key), help)

    def get(self, key: str, kind: type, default: Any = None, required: bool = False) -> Any:
        value = self.data.get(key, default)
        if key not in self.data and required:
            raise self.error(f"[[{self.kind}]] has no `{key}`", help="see parsers/README.md")
        if key in self.data and not isinstance(value, kind):
            raise self.error(f"`{key}` must be {kind.__name__}, not {type(value).__name__}", key)
        return value

    def texts(self, key: str, required: bool = False) -> tuple[str, ...]:
        """A string, or a list of strings."""
        value = self.get(key, object, [], required)
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(x, str) for x in items) or (required and not items):
            raise self.error(f"`{key}` must be a string or a list of strings", key)
        return tuple(items)

    def template(self, key: str, text: str | None = None) -> Template:
        given = self.get(key, str, required=True) if text is None else text
        try:
            return Template(given)
        except FormatError as error:
            raise self.error(f"{error.reason}\n{error.where}", key, error.help) from error

    def named(self, key: str, name: Any, names: Iterable[str]) -> str:
        """A name, if it is that of a line of the file."""
        if not isinstance(name, str) or name not in names:
            raise self.error(f"no line is named `{name}`", key, near(str(name), names))
        return name

    def expr(self, key: str, text: Any, names: Iterable[str]) -> Expr:
        try:
            expr = Expr(str(text))
        except FormatError as error:
            raise self.error(f"{error.reason}\n{error.where}", key, error.help) from error
        for name in expr.names:
            if name not in names:
                raise self.error(f"`{name}` in `{text}` is no field of the line", key, near(name, names))
        return expr


def _units(entry: _Entry, template: Template) -> dict[str, Unit]:
    units = {}
    for name, unit in entry.get("unit", dict, {}).items():
        if name not in template.names:
            raise entry.error(f"`unit` names `{name}`, no field of the text", "unit", near(name, template.names))
        if unit not in UNITS:
            raise entry.error(f"unknown unit `{unit}`", "unit", near(str(unit), UNITS))
        units[name] = UNITS[unit]
    return units


def _columns(entry: _Entry, template: Template, table: str | None, run: tuple[str, ...]) -> None:
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
    for f in template.fields:
        col = column(table, f.name)
        if not f.numeric and f.name not in run and col is not None and col.type not in ("word", "text"):
            raise entry.error(f"column {col.name} of table {table} holds numbers, `{f.name}` is text", "text")
        loose = f.name != "_" and f.name not in run and not f.numeric and not column(table, f.name)
        if loose and table != "values":
            raise entry.error(
                f"text field `{f.name}` has no column in table {table}", "text", "name it `_`, or add it to `run`"
            )


def _line(entry: _Entry, scopes: tuple[str, ...], names: set[str]) -> Line:
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
    covers = entry.get("covers", str)
    if covers not in (None, "since_previous"):
        raise entry.error(f"`covers` cannot be `{covers}`", "covers", 'write covers = "since_previous"')
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
        set=entry.get("set", dict, {}),
        compute={k: entry.expr("compute", v, numeric) for k, v in entry.get("compute", dict, {}).items()},
        map=tuple(tuple(row) for row in mapping),
        run=run,
        opens=entry.get("opens", str),
        closes=entry.get("closes", str),
        before=entry.get("before", str),
        outside=entry.texts("outside"),
        covers=covers is not None,
        check=check,
    )


def _block(entry: _Entry) -> list[Line]:
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


def _fingerprint(entry: _Entry, lines: Mapping[str, Line]) -> Fingerprint:
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


def _label(top: _Entry) -> str | None:
    """A run's label: text with {names} of what the run's lines say."""
    label: str | None = top.get("label", str)
    if label is not None and re.search(r"[{}]", re.sub(r"\{\w+\}", "", label)):
        raise top.error(f"`{label}` is no label", "label", "write text and {names} of what the lines say of the run")
    return label


def _entries(file: _File, kind: str) -> Iterator[_Entry]:
    rows = file.data.get(kind, [])
    if not isinstance(rows, list):
        raise FormatError(f"`{kind}` must be a list", file.where(), f"write [[{kind}]]")
    for index, data in enumerate(rows):
        yield _Entry(file, kind, index, data)


def load(path: Path) -> Format:
    """One format file, loaded and checked, but for its samples (formats.check_samples). Raises FormatError."""
    file = _File(path)
    top = _Entry(file, "", 0, file.data)
    scopes = top.texts("scopes") or ("run",)
    names = {n for e in _entries(file, "line") for n in e.template("text").names}
    lines = [_line(entry, scopes, names) for entry in _entries(file, "line")]
    by_name: dict[str, Line] = {}
    for index, line in enumerate(lines):
        if line.name in by_name:
            where = file.where("line", index, "name")
            raise FormatError(f"two lines are named `{line.name}`", where, "names are unique in a file")
        by_name[line.name] = line
    for entry in _entries(file, "context"):
        text = entry.template("text")
        lines.append(Line(text.text, text, entry.texts("sample", required=True), role="context"))
    for entry in _entries(file, "block"):
        lines += _block(entry)
    adjacent = []
    for entry in _entries(file, "adjacent"):
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
        fingerprints=tuple(_fingerprint(e, by_name) for e in _entries(file, "fingerprint")),
        adjacent=tuple(adjacent),
    )
