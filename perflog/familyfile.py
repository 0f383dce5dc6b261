"""The families of a format file: `[[pairs]]`, `[[json]]`, `[[table]]`."""

from __future__ import annotations

from collections.abc import Callable, Container

from perflog.declared import Family
from perflog.entries import Entry, File, entries
from perflog.tableentry import table

Maker = Callable[[Entry, tuple[str, ...]], Family]

MAKERS: dict[str, Maker] = {"table": table}
"""Kind of entry -> what makes its family of it and of the file's scopes. A new kind takes its place here."""


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
