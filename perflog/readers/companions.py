"""Companions: files that are part of a log in another file, which is read together with them, and no logs themselves.

`meta-NAME.yaml` beside `trace-NAME.parquet` has the parallel sizes of the job with the operations in the table.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from perflog.errors import InputError
from perflog.files.remote import is_in_storage, is_remote
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.archives import unpacked_path
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.source import open_source

_TABLES = (".parquet", ".arrow", ".feather")
_SUFFIXES = (".yaml", ".yml")
_SETTING = lazy_pattern(r"\s*([A-Za-z_]\w*)\s*:\s*(.*?)\s*")
_WHOLE = lazy_pattern(r"[0-9]{1,9}")
_MOST_BYTES = 1 << 16


def without_companions(names: Sequence[LogName]) -> list[LogName]:
    """Return the names without the files that are part of another log among them."""
    companions = {companion for name in names for companion in _companions_of(name.log)}
    return [name for name in names if name.log not in companions]


def settings_beside(name: str) -> dict[str, object]:
    """Return the settings in the companion of a log, `key: value` a line; {} if there is none."""
    for path in _companions_of(name):
        if is_in_storage(path) if is_remote(path) else os.path.isfile(unpacked_path(path)):
            with suppress(InputError):
                return _settings(path)
    return {}


def _settings(path: str) -> dict[str, object]:
    settings: dict[str, object] = {}
    with open_source(LogName.from_file(path)) as source:
        text = source.first_bytes(_MOST_BYTES).decode(errors="replace")
    for line in text.splitlines():
        if match := _SETTING.fullmatch(line):
            settings[match[1]] = int(match[2]) if _WHOLE.fullmatch(match[2]) else match[2].strip("'\"")
    return settings


def _companions_of(name: str) -> list[str]:
    """Return the names that the companion of a log may have, whether there is one or not."""
    folder, base = os.path.split(name)
    stem, suffix = os.path.splitext(base)
    if not stem.startswith("trace") or suffix.lower() not in _TABLES:
        return []
    return [os.path.join(folder, f"meta{stem.removeprefix('trace')}{ending}") for ending in _SUFFIXES]
