"""What a project says of its comparisons in `perflog.toml`, or in `[tool.perflog]` of `pyproject.toml`.

The file is data: nothing in it is executed. It is looked for from the current folder upward, and the first one counts.
Its values are defaults of options, so options of the command line win, and so does PERFLOG_STORE.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from perflog.errors import PerflogError, UsageError, did_you_mean

FILE, PROJECT = "perflog.toml", "pyproject.toml"
_TABLE = b"[tool.perflog"  # of a project

_SHARE = r"[0-9]*\.?[0-9]+%?"
_DIRECTIONS = '"+3%" (it rises) or "-3%" (it falls)'
_REGRESSION, _INCONCLUSIVE = "regression", "inconclusive"


class Config(Struct, frozen=True):
    """The values of a file, checked; empty without one. `path`: the file."""

    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def store(self) -> str | None:
        """The store; a relative path starts at the folder of the file."""
        store: str | None = self.values.get("store")
        if store is None or self.path is None or "://" in store or os.path.isabs(store):
            return store
        return os.path.relpath(self.path.parent / store)

    @property
    def gates(self) -> list[str]:
        """The gates as the command line has them: `step_time:+3%`."""
        return [_gate(name, value) for name, value in self.values.get("gates", {}).items() if value is not False]

    def defaults(self) -> dict[str, dict[str, Any]]:
        """Return defaults of options, by command."""
        given = {name: value for name, value in self.values.items() if name not in ("store", "gates")}
        if "history" in given:
            given["history"] = [self._beside(name) for name in given["history"]]
        aa_options: dict[str, object] = {name: given[name] for name in ("threshold", "warmup") if name in given}
        compare_options = given | ({"gates": self.gates} if self.gates else {})
        return {"compare": compare_options, "ci": {"gate": compare_options}, "aa": aa_options}

    def _beside(self, name: str) -> str:
        """A path beside the file; a run that is named otherwise stays as it is."""
        path = self.path.parent / name if self.path is not None else Path(name)
        return os.path.relpath(path) if path.exists() else name


class Key(Struct, frozen=True):
    """A key of the file: what it means, and the check of its value, which returns what is wrong."""

    meaning: str
    check: Callable[[Any], str]


def find(folder: Path | None = None) -> Config:
    """Return the configuration that holds in a folder, by default the current one.

    Raises:
        UsageError: A key is unknown, or a value is of another kind.
        PerflogError: The file cannot be read.
    """
    home = Path.cwd() if folder is None else folder.absolute()
    for parent in (home, *home.parents):
        for name in (FILE, PROJECT):
            config = _read(parent / name)
            if config is not None:
                return config
    return Config()


def _read(path: Path) -> Config | None:
    """The configuration in a file; None where there is none."""
    text = _bytes(path)
    if text is None or (path.name == PROJECT and _TABLE not in text):
        return None
    import tomllib

    try:
        document: Any = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not valid TOML: {error}", str(path)) from error
    if path.name == PROJECT:
        tool = document.get("tool")
        document = tool.get("perflog") if isinstance(tool, dict) else None
    return None if document is None else Config(path, _checked(document, str(path)))


def _bytes(path: Path) -> bytes | None:
    try:
        if not path.is_file():
            return None
    except PermissionError:  # of the folder: whether the file is there, nobody can know
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise PerflogError(f"cannot be read: {error.strerror}", str(path)) from error


def _checked(document: object, where: str) -> Mapping[str, object]:
    """The values, if all keys are known and all values are of their kind."""
    if not isinstance(document, dict):
        raise UsageError("[tool.perflog] is not a table", where)
    for name, value in document.items():
        if name not in KEYS:
            raise UsageError(f"unknown key `{name}`", where, did_you_mean(name, KEYS))
        if wrong := KEYS[name].check(value):
            raise UsageError(f"`{name}` {wrong}", where)
    return document


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and value else 'is a string, such as "main"'


def _texts(value: object) -> str:
    is_list = isinstance(value, list) and all(isinstance(each, str) and each for each in value)
    return "" if is_list else 'is a list of strings, such as ["seed"]'


def _share(value: object) -> str:
    is_share = isinstance(value, str) and re.fullmatch(_SHARE, value)
    return "" if is_share else 'is a share, such as "2%"'


def _count(value: object) -> str:
    return "" if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else "is a number of steps"


def _gates(value: object) -> str:
    if not isinstance(value, dict):
        return 'is a table, such as gates = { step_time = "+3%" }'
    for name, limit in value.items():
        kind = {_INCONCLUSIVE: "", _REGRESSION: _SHARE}.get(name, rf"[+-]{_SHARE}")
        is_switch = name in (_INCONCLUSIVE, _REGRESSION) and isinstance(limit, bool)
        if not is_switch and not (kind and isinstance(limit, str) and re.fullmatch(kind, limit)):
            write = {_INCONCLUSIVE: "true", _REGRESSION: 'true or "5%"'}
            return f"has {name} = {limit!r}: write {write.get(name, _DIRECTIONS)}"
    return ""


def _gate(name: str, value: Any) -> str:
    return name if value is True else f"{name}:{value}"


KEYS: Mapping[str, Key] = {
    "store": Key("the store, beside this file", _text),
    "baseline": Key("the baseline that `compare` takes where one side is named", _text),
    "gates": Key("by metric the change that fails `compare`, such as +3%; regression, inconclusive", _gates),
    "require": Key("metrics that must be on both sides", _texts),
    "threshold": Key("the smallest change that counts", _share),
    "match": Key("settings by which runs are matched too", _texts),
    "ignore": Key("settings in which repeats may differ", _texts),
    "history": Key("logs, folders or stores with other repeats", _texts),
    "warmup": Key("warm-up steps that are cut", _count),
}
"""The keys of the file."""
