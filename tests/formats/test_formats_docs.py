"""docs/formats.md is what the format files and the readers say."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest
from support.known_inputs import KnownReader, absent, filled, own_formats, readers
from support.pages import DOCS, same

from perflog.formats.flops import CONVENTIONS
from perflog.formats.model import Format
from perflog.formats.registry import COMMON
from perflog.readers.interface import ReaderEntry
from perflog.readers.registry import builtin as builtin_readers
from perflog.tables.schema import TABLES

HEAD = """\
# What is read of which log

`perflog detect LOG` tells which lines of a log prove its format, `perflog formats show NAME` shows all lines of one,
each with a sample. This page is made from the files in `parsers/` and the readers in `perflog/readers/`; a test sees to
it. [tables.md](tables.md) lists the columns and units. What is not filled is null: the log does not say it, or nobody
reads it. A rank is one that is printed on the line or before it, or that a rule of the format proves.

"""
MOST = 24
"""Names that are listed of a table; the rest is counted."""


def page() -> str:
    forms = sorted(own_formats(), key=lambda f: (f.name == COMMON, f.name))
    parts = [HEAD + overview([f for f in forms if f.name != COMMON])]
    parts += [section(f) for f in forms]
    if readers():
        parts.append("# Traces and databases\n")
        parts += [of_reader(r) for r in readers()]
    return "\n".join(parts)


def overview(forms: list[Format]) -> str:
    rows = ["| format | is | tables |", "| --- | --- | --- |"]
    rows += [f"| [{f.name}](#{f.name}) | {cell(f.title)} | {', '.join(filled(f))} |" for f in forms]
    rows += [f"| [{r.name}](#{r.name}) | {cell(r.title)} | {', '.join(r.tables)} |" for r in readers()]
    return "\n".join(rows) + "\n"


def section(form: Format) -> str:
    lines, context = (sum(x.role == role for x in form.lines) for role in ("line", "context"))
    families = f", {len(form.families)} of lines with optional fields" if form.families else ""
    told = [
        f"## {form.name}\n",
        f"{form.title}.\n",
        f"- source: {form.source}",
        f"- describes: {lines} line shapes that are read{families}, {context} of context",
    ]
    convention = CONVENTIONS.get(form.flops or "")
    if convention:
        told.append(f"- FLOP convention of the printed rate: `{convention.id}`, {convention.counts}")
    elif "tflops" in filled(form).get("steps", {}).get("columns", ()):
        told.append("- FLOP convention of the printed rate: not known")
    if form.quantities:
        told.append(f"- quantities that metrics take from it: {named(list(form.quantities))}")
    rows = ["", "| table | filled | not filled |", "| --- | --- | --- |"]
    for table, found in filled(form).items():
        names = named(found["names"])
        said = "; ".join(x for x in (named(found["columns"]), names and f"{_kind(table)} {names}") if x)
        rows.append(f"| `{table}` | {said} | {named(absent(table, found['columns']))} |")
    return "\n".join([*told, *(rows if len(rows) > 3 else []), *phases(form)]) + "\n"


def _kind(table: str) -> str:
    return {"phases": "phases", "runs": "config"}.get(table, "keys")


def phases(form: Format) -> list[str]:
    """What its phases are."""
    if not form.phases:
        return []
    rows = ["", "| phase | part of | kind | says |", "| --- | --- | --- | --- |"]
    for p in form.phases:
        kind = ", ".join(x for x in (p.kind, p.clock and f"{p.clock} clock", p.hidden and "hidden") if x)
        exposes = f"; waits for `{p.exposes}`" if p.exposes else ""
        rows.append(f"| `{p.name}` | {', '.join(dict.fromkeys(p.of))} | {kind} | {cell(p.says)}{exposes} |")
    return rows


def of_reader(reader: KnownReader) -> str:
    told = [f"## {reader.name}\n", f"{reader.title}.\n"]
    told.append(f"- source: {reader.source}")
    rows = ["", "| table | filled | not filled |", "| --- | --- | --- |"]
    rows += [f"| `{t}` | {named(list(c))} | {named(absent(t, list(c)))} |" for t, c in reader.tables.items()]
    return "\n".join([*told, *rows]) + "\n"


def named(names: list[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(f"`{n}`" for n in names[:MOST]) + more


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def test_the_page_of_formats() -> None:
    same(DOCS / "formats.md", page())


def test_the_page_says_of_each_format_what_is_read() -> None:
    for form in (f for f in own_formats() if f.name != COMMON):
        found = filled(form)
        assert found, form.name
        assert set(found) <= set(TABLES), form.name
        for table, told in found.items():
            columns = {c.name for c in TABLES[table]}
            assert set(told["columns"]) <= columns, (form.name, table)
            assert not set(told["columns"]) & set(absent(table, told["columns"])), (form.name, table)
        assert section(form).startswith(f"## {form.name}\n")


@pytest.mark.parametrize("entry", builtin_readers(), ids=lambda entry: entry.reader)
def test_a_reader_says_what_it_is(entry: ReaderEntry) -> None:
    name = resolve_name(entry.reader)().name
    (reader,) = (known for known in readers() if known.name == name)
    assert reader.title
    assert reader.source
    by_reader = {"tensorboard": "steps", "wandb": "steps", "github_benchmark": "values", "asv": "values"}
    by_reader |= {"pytorch_benchmarks": "values", "bencher": "values"}
    assert {"runs", by_reader.get(reader.name, "events")} <= set(reader.tables) <= set(TABLES)
