"""The sides of a comparison: which runs each has, which of them repeat one another, and which match across sides."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from perflog.errors import UsageError
from perflog.log import Log, find_runs, load, read
from perflog.metrics import Tables
from perflog.parsing.input.references import split_run
from perflog.tables.store import default_store, is_store

OF_A_TRACE = ("files", "traceName", "trace_id", "baseTimeNanoseconds")
"""What a trace says of its own recording: no setting of what it recorded."""

_OF_A_START = ("pid", "tag", "process", *OF_A_TRACE)
"""What names one start of a program: two runs that differ in it alone repeat one another."""

_HOW = (
    "name single runs, as LOG#1 or LOG#LABEL; several of one name are a side: a=LOG#1 a=LOG#2 b=LOG#3 b=LOG#4; "
    "or make sides of the runs of one log by a setting: --by SETTING"
)

Settings = Mapping[str, str]
"""What a log says of a run, as text: the columns of `runs` that describe it, and all of `config`."""


@dataclass(frozen=True)
class Side:
    """A side: its name, and runs of one log or of several, together in `log`s."""

    name: str
    logs: tuple[Log, ...]

    @cached_property
    def tables(self) -> tuple[Tables, ...]:
        """The tables of each log."""
        return tuple(map(Tables, self.logs))

    @cached_property
    def settings(self) -> dict[str, Settings]:
        """Settings by run id. A run that stands in two of the logs counts once."""
        return {row["run"]: _settings(row) for log in self.logs for row in log.arrow("runs").to_pylist()}

    @cached_property
    def labels(self) -> dict[str, str]:
        """Labels by run id; where there is none, the log and the run's place in it."""
        return {r.id: r.label or f"{_short(r.log)}#{r.index}" for log in self.logs for r in log.run_keys}


@dataclass(frozen=True)
class Case:
    """One configuration that the sides share: its name, and the ids of its runs on each side, base first."""

    name: str
    runs: tuple[tuple[str, ...], ...]


def _settings(row: Mapping[str, object]) -> Settings:
    said = {k: row[k] for k in ("format", "program", "model", "world_size", "device", "dtype", "process")}
    config = row["config"]
    said |= json.loads(config) if isinstance(config, str) else {}
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in said.items() if v is not None}


def same_but_for_the_start(settings: Settings) -> Settings:
    """The settings without those that name one start of the program."""
    return {k: v for k, v in settings.items() if k not in _OF_A_START}


# --- naming -------------------------------------------------------------------------------------------------------


def sides(
    given: Sequence[str | os.PathLike[str] | Log], store: str | os.PathLike[str] | None = None, by: str | None = None
) -> tuple[Side, ...]:
    """The sides that are meant: a log, a run of it as LOG#3, a folder, a glob, a store, a run id or label; or a `Log`.

    A name stands in front: "after=run.txt". What is given under one name is one side. With `by`, a setting, the runs
    of all that is given are the sides: one for each value.
    """
    named: dict[str, list[Log]] = {}
    for one in given:
        name, log = _named(one, store)
        if not len(log):
            raise UsageError(
                "a side without runs", name, "name a log, a run of it as LOG#3, a store, a run id or label"
            )
        named.setdefault(_free(name, named) if name != _asked(one, store) else name, []).append(log)
    found = tuple(Side(name, tuple(logs)) for name, logs in named.items())
    found = tuple(_split(found, by)) if by else found
    if len(found) < 2:
        help = "name a second one, or a setting that makes sides of the runs of this one: --by SETTING"
        raise UsageError("a comparison takes two sides", found[0].name if found else "", help)
    return found


def load_side(given: Sequence[str | os.PathLike[str] | Log], store: str | os.PathLike[str] | None = None) -> Side:
    """All that is given, as one side."""
    named = [_named(one, store) for one in given]
    return Side(", ".join(name for name, _ in named), tuple(log for _, log in named))


def _asked(one: str | os.PathLike[str] | Log, store: str | os.PathLike[str] | None) -> str | None:
    """The name that stands in front, if any: a file, folder or label of the whole name comes first."""
    text = "" if isinstance(one, Log) else os.fspath(one)
    name, equals, rest = text.partition("=")
    named = equals and name and rest and "/" not in name and not os.path.exists(text) and not _known(text, store)
    return name if named else None


def _known(label: str, store: str | os.PathLike[str] | None) -> bool:
    home = store or default_store()
    return os.path.isdir(home) and bool(load(home).match(label))


def _named(one: str | os.PathLike[str] | Log, store: str | os.PathLike[str] | None) -> tuple[str, Log]:
    if isinstance(one, Log):
        names = {r.label or f"{_short(r.log)}#{r.index}" for r in one.run_keys}
        logs = {_short(r.log) for r in one.run_keys}
        return next((found.pop() for found in (names, logs) if len(found) == 1), "log"), one
    ref, name = os.fspath(one), _asked(one, store)
    ref = ref if name is None else ref[len(name) + 1 :]
    return name or _short(ref), _runs(ref, store)


def _short(ref: str) -> str:
    """A log's name without its folder and without what all logs end in."""
    log, hash_, run = ref.partition("#")
    return re.sub(r"\.(txt|log|out)$", "", os.path.basename(log.rstrip("/")) or log) + hash_ + run


def _runs(ref: str, store: str | os.PathLike[str] | None) -> Log:
    name, run = split_run(ref)
    if is_store(name):
        return load(name).select(run) if run else load(name)
    several = os.path.isdir(name) or (glob.has_magic(name) and glob.glob(name, recursive=True))
    return read(ref) if several else find_runs(ref, store)


def _free(name: str, taken: Iterable[str]) -> str:
    """The name, or with the least number behind it that makes it another."""
    return next(n for n in (name, *(f"{name} ({k})" for k in range(2, 1000))) if n not in taken)


def _split(found: Iterable[Side], key: str) -> Iterable[Side]:
    values: dict[str, list[Log]] = {}
    for side in found:
        for log in side.logs:
            said = {run: side.settings[run.id].get(key) for run in log.run_keys}
            for value in dict.fromkeys(said.values()):
                if value is not None:
                    values.setdefault(value, []).append(log.select(*(run for run in said if said[run] == value)))
    if not values:
        known = {name for side in found for settings in side.settings.values() for name in settings}
        raise UsageError(f"no run says what its `{key}` is", "", f"there are: {', '.join(sorted(known))}")
    for value, logs in values.items():
        yield Side(value, tuple(logs))


# --- matching -----------------------------------------------------------------------------------------------------


def match(found: Sequence[Side]) -> tuple[list[Case], list[str]]:
    """The configurations of the base that another side has too, and warnings about runs that match nothing.

    Configurations differ in the settings that vary within every side that has several. Raises UsageError where a side
    mixes configurations that nothing tells apart, or where none match.
    """
    keys = _keys(found)
    groups = [_groups(side, keys) for side in found]
    cases, warnings = [], []
    for values, runs in groups[0].items():
        others = [group.get(values, ()) for group in groups[1:]]
        if any(others):
            cases.append(Case(_case_name(keys, values), (runs, *others)))
    matched = {run for case in cases for runs in case.runs for run in runs}
    if not cases:
        raise UsageError("the sides have no configuration in common", " and ".join(s.name for s in found), _HOW)
    for side in found:
        alone = [label for run, label in side.labels.items() if run not in matched]
        if alone:
            warnings.append(f"{side.name}: not compared, as the other sides have no such configuration: {_few(alone)}")
    for side, group in zip(found, groups, strict=True):
        for runs in group.values():
            if set(runs) & matched:
                _check_repeats(side, runs)
    return cases, warnings


def _keys(found: Sequence[Side]) -> tuple[str, ...]:
    varying = [_varying(side.settings.values()) for side in found if len(side.settings) > 1]
    varying = [keys for keys in varying if keys]
    shared = [key for key in varying[0] if all(key in keys for keys in varying)] if varying else []
    return tuple(shared)


def _varying(settings: Iterable[Settings]) -> list[str]:
    kept = [same_but_for_the_start(one) for one in settings]
    names = dict.fromkeys(name for one in kept for name in one)
    return [name for name in names if len({one.get(name) for one in kept}) > 1]


def _groups(side: Side, keys: Sequence[str]) -> dict[tuple[str | None, ...], tuple[str, ...]]:
    found: dict[tuple[str | None, ...], tuple[str, ...]] = {}
    for run, settings in side.settings.items():
        values = tuple(settings.get(key) for key in keys)
        found[values] = (*found.get(values, ()), run)
    return found


def _check_repeats(side: Side, runs: Sequence[str]) -> None:
    differ = _varying(side.settings[run] for run in runs)
    if differ:
        reason = f"its runs are no repeats: {', '.join(differ)} differ{'s' * (len(differ) == 1)} between them"
        raise UsageError(reason, side.name, _HOW)


def _case_name(keys: Sequence[str], values: Sequence[str | None]) -> str:
    return ", ".join(f"{k}={v}" for k, v in zip(keys, values, strict=True))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
