"""Runs as a caller of Python names them: logs, paths, globs, tables, lists of these, or a mapping that names them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from perflog.errors import UsageError
from perflog.log import Log, combined
from perflog.opening import find_runs
from perflog.opening.tables_as_logs import without_tables

SEVERAL = (Sequence, Set, Iterator)
"""What holds several references; a string, which is a `Sequence` too, is one."""

Given = Any
"""A `Log`; a path, glob, store, run id or label, as `perflog.find_runs` takes it; a DataFrame or another table with the
Arrow interface; figures by name; a list of these; or a mapping of names to them.
"""


def log_of(given: Given, store: str | os.PathLike[str] | None = None) -> Log:
    """Return the runs that a caller gives, as one log.

    Raises:
        UsageError: It names no runs.
        InputError: A file is missing or cannot be read.
    """
    if isinstance(given, Log):
        return given
    return combined(list(_logs(without_tables([given]), store)))


def _logs(given: object, store: str | os.PathLike[str] | None) -> Iterator[Log]:
    if isinstance(given, Log):
        yield given
    elif isinstance(given, str | os.PathLike):
        yield find_runs(given, store)
    elif isinstance(given, Mapping):
        yield from _logs(list(given.values()), store)
    elif isinstance(given, SEVERAL):
        for each in given:
            yield from _logs(each, store)
    else:
        help = "give a `Log`, a path, a table, a list of these, or a mapping of names to them"
        raise UsageError(f"perflog cannot read runs from a value of type {type(given).__name__}", "", help)
