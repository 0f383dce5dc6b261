"""The sides of a comparison: which runs each has, which are repeats, and which match across sides."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from perflog.analysis.compare.whole_jobs import attempts_in_one_log, attempts_left_out, with_whole_jobs
from perflog.analysis.job_hosts import hosts_in_words, run_of_hosts, without_other_hosts
from perflog.analysis.job_members import logs_beside
from perflog.analysis.repeats import ROUND, Difference, differing
from perflog.errors import NothingToCompareError, UsageError, did_you_mean
from perflog.grouping import grouped
from perflog.log import Log, RunKey, combined
from perflog.metrics import Tables
from perflog.opening import find_runs, load, store_of
from perflog.opening.given_runs import SEVERAL
from perflog.parsing.input.log_names import split_run
from perflog.settings.name_settings import settings_in_names
from perflog.settings.run_settings import Settings, incidental_test, independent, settings_of, values_in_order, varying
from perflog.tables.store import default_store, store_exists
from perflog.units import count, first_few

_RUNS = (str, os.PathLike, Log)
_REACHED = 0.5  # of the steps of the longest run of a side
_LONGEST_VALUE = 60  # characters of a value in the name of a case
SEPARATOR = "/"  # between the values of several settings in the name of a side

_HOW = (
    "name single runs, as LOG#1 or LOG#LABEL; runs with the same name form one side: a=LOG#1 a=LOG#2 b=LOG#3 b=LOG#4; "
    "or split the runs of one log by a setting: --by SETTING; runs that differ in a setting that does not matter are "
    "repeats with --ignore SETTING"
)

Runs = str | os.PathLike[str] | Log
"""How a caller names runs: a `Log`, or a string: a log, `LOG#3`, a folder, a glob, a store, a run id or label, or
`NAME=` before one of these.
"""

SideReference = Runs | Sequence[Runs] | Mapping[str, Runs | Sequence[Runs]]
"""What `compare` takes: one reference, a list of them that is one side, or a mapping that has sides by name."""


class Side(Struct, frozen=True, dict=True):
    """A side: its name, and its runs, which may come from several logs.

    `named`: settings in the names of the logs, by run id, where the sides are split by settings.
    """

    name: str
    log: Log
    named: Mapping[str, Settings] = {}

    @cached_property
    def tables(self) -> Tables:
        """The tables of all its runs."""
        return Tables(self.log)

    @cached_property
    def settings(self) -> dict[str, Settings]:
        """Settings by run id."""
        rows = self.log.arrow("runs").to_pylist()
        return {row["run"]: {**settings_of(row), **self.named.get(row["run"], {})} for row in rows}

    @cached_property
    def labels(self) -> dict[str, str]:
        """Label by run id; without a label, the log and the run's number in it."""
        return {r.id: r.label or f"{_short(r.log)}#{r.index}" for r in self.log.run_keys}

    def without(self, runs: Container[str]) -> Side:
        """Return the side without some runs."""
        kept = [key for key in self.log.run_keys if key.id not in runs]
        return self if len(kept) == len(self.log) else Side(self.name, self.log.select(*kept), self.named)


class LeftOut(Struct, frozen=True):
    """A run of a side that is not compared, and why."""

    side: str
    run: str
    label: str
    reason: str


def left_out_warnings(runs: Sequence[LeftOut]) -> Iterator[str]:
    """Yield a warning for each side and reason."""
    labels = grouped(((each.side, each.reason), each.label) for each in runs)
    yield from (f"{side}: not compared, {reason}: {first_few(of)}" for (side, reason), of in labels.items())


class Case(Struct, frozen=True):
    """One configuration that the sides share: its name, and the ids of its runs on each side, base first."""

    name: str
    runs: tuple[tuple[str, ...], ...]


# --- references to sides ------------------------------------------------------------------------------------------


def _named_references(sides: Iterable[object]) -> Iterator[tuple[str | None, list[Runs]]]:
    """Yield the name of each side, if the caller gives one, and its references."""
    for side in sides:
        named = side.items() if isinstance(side, Mapping) else [(None, side)]
        for name, given in named:
            several: list[Any] = list(given) if isinstance(given, SEVERAL) and not isinstance(given, str) else [given]
            if not several or not all(isinstance(each, _RUNS) for each in several):
                help = "a side is a path, a `Log`, a table, or a list; a mapping has them by the names of the sides"
                raise UsageError(f"a side of type {type(given).__name__} cannot be compared", name or "", help)
            yield name, several


def resolve_sides(
    references: Iterable[SideReference],
    store: str | os.PathLike[str] | None = None,
    by: str | Sequence[str] = (),
    base: str | None = None,
) -> tuple[Side, ...]:
    """Return the sides that references name.

    References with the same name ("after=run.txt"), or given together, form one side. With `by`, names of settings, the
    runs of all references are split instead: runs with the same values of these settings form a side. The side named
    `base` comes first.
    """
    all_sides = named_sides(references, store)
    if settings := setting_names(by):
        all_sides = tuple(_split(all_sides, settings))
        if len(all_sides) == 1:
            values = f"{', '.join(settings)} = {all_sides[0].name}"
            raise UsageError(f"all runs have {values}", "", "split by a setting that differs")
    if len(all_sides) < 2:
        help = "name a second side, or split the runs of this one by a setting: --by SETTING"
        raise UsageError("a comparison needs two sides", all_sides[0].name if all_sides else "", help)
    return all_sides if base is None else _base_first(all_sides, base)


def named_sides(references: Iterable[SideReference], store: str | os.PathLike[str] | None = None) -> tuple[Side, ...]:
    """Return the sides that references name; references with the same name, or given together, form one."""
    logs: dict[str, list[Log]] = {}
    for given, several in _named_references(references):
        names, members = zip(*(_named_log(reference, store) for reference in several), strict=True)
        name = given or _name_of(several, names)
        if not all(map(len, members)):
            raise UsageError("a side has no runs", name, "name a log, a run of it as LOG#3, a store, a run id or label")
        is_named = given is not None or names == (_explicit_name(several[0], store),)
        logs.setdefault(name if is_named else _free(name, logs), []).extend(members)
    return tuple(Side(name, _together(name, members)) for name, members in logs.items())


def side_names(references: Sequence[str], store: str | os.PathLike[str] | None = None) -> list[str]:
    """Return the names of the sides that references make: NAME of `NAME=run.txt`, else the reference itself."""
    return list(dict.fromkeys(_explicit_name(each, store) or each for each in references))


def _name_of(several: Sequence[Runs], names: Sequence[str]) -> str:
    """The name of references that are given together: the name of their common folder, else of the first."""
    folders = {os.path.dirname(os.fspath(each)) for each in several if not isinstance(each, Log)}
    if len(names) > 1 and len(folders) == 1 and (folder := os.path.basename(folders.pop())):
        return folder
    return first_few(names, 1)


def setting_names(by: str | Sequence[str]) -> tuple[str, ...]:
    """The names of settings that a caller gives as one string or as several, each once."""
    return (by,) if isinstance(by, str) else tuple(dict.fromkeys(by))


def _base_first(all_sides: Sequence[Side], base: str) -> tuple[Side, ...]:
    names = [side.name for side in all_sides]
    if base not in names:
        raise UsageError("no side has the name of the base", base, f"the sides are {', '.join(names)}")
    return tuple(sorted(all_sides, key=lambda side: side.name != base))


def _together(name: str, members: Sequence[Log]) -> Log:
    """The runs of all members of a side, each job once, with warnings of the runs that do not count by themselves."""
    log = combined(members)
    more = sum(map(len, members)) - len(log)
    if more:
        log.warnings.append(f"{name}: {count(more, 'run')} named again, the same bytes: each counts once")
    tables = Tables(log)
    kept = without_other_hosts(log, tables)
    if others := run_of_hosts(tables):
        logs = f"{count(len(kept), 'run')}, {hosts_in_words(log, others)}"
        kept.warnings.append(f"{name}: {logs} (equal losses or times), which count with it")
    return as_jobs(name, kept)


def as_jobs(name: str, log: Log) -> Log:
    """The runs of a side with each restarted job as one run, without logs that only say more of a job."""
    tables = Tables(log)
    if beside := logs_beside(tables, log.run_keys):
        log = log.select(*(key for key in log.run_keys if key.id not in beside))
        tables = tables.only([key.id for key in log.run_keys])
    labels = {key.id: key.label or _short(key.log) for key in log.run_keys}
    numbers = {key.id: f"{_short(key.log)}#{key.index}" for key in log.run_keys}
    if left_out := attempts_left_out(log, tables):
        log = log.select(*(key for key in log.run_keys if key.id not in left_out))
        tables = tables.only([key.id for key in log.run_keys])
        for first, runs in grouped((first, run) for run, first in left_out.items()).items():
            others = first_few([labels[run] if labels[run] != labels[first] else numbers[run] for run in runs])
            log.warnings.append(f"{name}: not compared, other attempts of the job of {labels[first]}: {others}")
    for first, runs in attempts_in_one_log(log, tables).items():
        log.warnings.append(f"{name}: {len(runs)} attempts of {labels[first]} count as one run, each of its steps once")
    return with_whole_jobs(log, tables)


def load_side(references: Sequence[Runs], store: str | os.PathLike[str] | None = None) -> Side:
    """Return one side with the runs of all references."""
    named = [_named_log(reference, store) for reference in references]
    name = ", ".join(name for name, _ in named)
    return Side(name, as_jobs(name, combined([log for _, log in named])))


def stores_of(references: Iterable[SideReference], store: str | os.PathLike[str] | None = None) -> list[str]:
    """Return the folders of the stores that references take runs from."""
    every = [reference for _, several in _named_references(references) for reference in several]
    named = [(os.fspath(r), _explicit_name(r, store)) for r in every if not isinstance(r, Log)]
    found = (store_of(text if name is None else text[len(name) + 1 :], store) for text, name in named)
    return list(dict.fromkeys(folder for folder in found if folder is not None))


def _explicit_name(reference: Runs, store: str | os.PathLike[str] | None) -> str | None:
    """The NAME of `NAME=run.txt`; None without one. A file, folder or label with an equals sign in it comes first."""
    text = "" if isinstance(reference, Log) else os.fspath(reference)
    name, _, target = text.partition("=")
    is_named = name and target and "/" not in name and not os.path.exists(text) and not _is_stored(text, store)
    return name if is_named else None


def _is_stored(label: str, store: str | os.PathLike[str] | None) -> bool:
    folder = store or default_store()
    return store_exists(folder) and bool(load(folder).match(label))


def _named_log(reference: Runs, store: str | os.PathLike[str] | None) -> tuple[str, Log]:
    """The name of the side that a reference belongs to, and its runs."""
    if isinstance(reference, Log):
        labels = {r.label or f"{_short(r.log)}#{r.index}" for r in reference.run_keys}
        logs = {_short(r.log) for r in reference.run_keys}
        return next((names.pop() for names in (labels, logs) if len(names) == 1), "log"), reference
    text, name = os.fspath(reference), _explicit_name(reference, store)
    text = text if name is None else text[len(name) + 1 :]
    return name or _short(text), find_runs(text, store)


def _short(reference: str) -> str:
    """The name of a log without its folder and its suffix."""
    log, run = split_run(reference)
    return re.sub(r"\.(txt|log|out)$", "", os.path.basename(log.rstrip("/")) or log) + (f"#{run}" if run else "")


def _free(name: str, taken: Iterable[str]) -> str:
    """Return the name, with a number after it if the name is taken: `run`, `run (2)`."""
    return next(n for n in (name, *(f"{name} ({k})" for k in range(2, 1000))) if n not in taken)


def _split(all_sides: Sequence[Side], by: Sequence[str]) -> list[Side]:
    """Return one side for the runs with the same values of settings.

    Numeric values are sorted, others keep the order of the runs; the last setting changes fastest.
    """
    named = settings_in_names({run.id: run.log for side in all_sides for run in side.log.run_keys})
    all_sides = [Side(side.name, side.log, named) for side in all_sides]
    _check_known(all_sides, by)
    logs: dict[tuple[str, ...], list[Log]] = {}
    without = 0
    for side in all_sides:
        runs_by_values: dict[tuple[str, ...], list[RunKey]] = {}
        for run in side.log.run_keys:
            settings = side.settings[run.id]
            if all(name in settings for name in by):
                runs_by_values.setdefault(tuple(settings[name] for name in by), []).append(run)
            else:
                without += 1
        for values, members in runs_by_values.items():
            logs.setdefault(values, []).append(side.log.select(*members))
    if not logs:
        raise UsageError(f"no run has all of the settings {', '.join(by)}", "", "split by fewer settings")
    places = [values_in_order(dict.fromkeys(column)) for column in zip(*logs, strict=True)]
    in_order = sorted(logs, key=lambda values: [place.index(v) for place, v in zip(places, values, strict=True)])
    split = [Side(SEPARATOR.join(values), combined(logs[values]), named) for values in in_order]
    if without:
        lacking = f"without a setting `{'` or `'.join(by)}`"
        split[0].log.warnings.append(f"{count(without, 'run')} {lacking}: not compared")
    return split


def _check_known(all_sides: Sequence[Side], names: Iterable[str]) -> None:
    known = _known_settings(all_sides)
    for setting in names:
        if setting not in known:
            raise UsageError(f"no run has a setting `{setting}`", "", did_you_mean(setting, known))


def _known_settings(all_sides: Sequence[Side]) -> list[str]:
    return sorted({name for side in all_sides for settings in side.settings.values() for name in settings})


# --- matching runs across sides -----------------------------------------------------------------------------------


def match_runs(
    all_sides: Sequence[Side], by: Sequence[str] = (), ignored: Sequence[str] = ()
) -> tuple[list[Case], list[LeftOut], list[str]]:
    """Return the configurations that the base shares with another side, the runs without a partner, and warnings.

    A configuration is a set of values of the settings in `by`, and of those that vary within every side that has
    several runs, without incidental and `ignored` ones.

    Raises:
        UsageError: No configuration is in common, or a side holds different configurations that cannot be matched.
    """
    _check_known(all_sides, by)
    incidental = incidental_test(settings for side in all_sides for settings in side.settings.values())
    left_out = {name for side in all_sides for name in varying(side.settings.values()) if incidental(name)} | {*ignored}
    keys = tuple(dict.fromkeys([*by, *_matching_keys(all_sides, left_out)]))
    groups = [_group_runs(side, keys) for side in all_sides]
    names = _case_names(keys, list(groups[0]))
    cases = []
    for values, runs in groups[0].items():
        others = [group.get(values, ()) for group in groups[1:]]
        if any(others):
            cases.append(Case(names[values], (runs, *others)))
    matched = {run for case in cases for runs in case.runs for run in runs}
    if not cases:
        reason = f"the sides have no configuration in common; they are matched by {_values(keys, all_sides)}"
        raise NothingToCompareError(reason, " and ".join(s.name for s in all_sides), _HOW)
    for side, group in zip(all_sides, groups, strict=True):
        for runs in group.values():
            if set(runs) & matched:
                _check_repeats(side, runs, left_out)
    warnings = [*_warn_unknown(all_sides, ignored)]
    if ROUND not in ignored:
        cases, round_warnings = _by_round(all_sides, cases)
        warnings += round_warnings
    return cases, list(_unmatched(all_sides, matched)), warnings


def _values(keys: Sequence[str], all_sides: Sequence[Side]) -> str:
    """The settings, each with its first values on each side."""
    on_sides = [(key, "; ".join(_values_on(side, key) for side in all_sides)) for key in keys]
    return ", ".join(f"{key} ({values})" for key, values in on_sides)


def _values_on(side: Side, key: str) -> str:
    values = dict.fromkeys(settings.get(key) or "none" for settings in side.settings.values())
    return f"{first_few(values, 3)} in {side.name}"


def _by_round(all_sides: Sequence[Side], cases: Sequence[Case]) -> tuple[list[Case], list[str]]:
    """Return the cases; if runs are no repeats, run by run: the k-th of each side with the k-th of the others.

    Raises:
        UsageError: They are no repeats, and nothing tells which runs of the sides belong together.
    """
    found = {}
    for place, side in enumerate(all_sides):
        runs_of = {_without_short(side, case.runs[place]): case.runs[place] for case in cases}
        for each in differing(side.tables, runs_of):
            found[runs_of[each.runs]] = side, each
    if not found:
        return list(cases), []
    logs = {key.id: key.sha256 for side in all_sides for key in side.log.run_keys}
    matched: list[Case] = []
    for case in cases:
        differs = [found[runs] for runs in case.runs if runs in found]
        counts = {len(runs) for runs in case.runs if runs}
        if not differs:
            matched.append(case)
        elif len(counts) > 1 or len({logs[run] for runs in case.runs for run in runs}) > 1:
            side, each = differs[0]
            reason = f"its runs are not repeats: they print the same settings, but {_far_apart(each)}"
            raise UsageError(reason, side.name, f"{_HOW}; --ignore {ROUND} treats them as repeats anyway")
        else:
            matched += [
                Case(f"{case.name}, {ROUND} {k}".lstrip(", "), tuple(runs[k - 1 : k] for runs in case.runs))
                for k in range(1, counts.pop() + 1)
            ]
    side, each = next(iter(found.values()))
    warning = (
        f"{side.name}: not repeats, {_far_apart(each)}; the k-th run of a side is compared with the k-th of the others "
        f"({ROUND} k, the order in the log), --ignore {ROUND} takes them for repeats"
    )
    return matched, [warning]


def _without_short(side: Side, runs: tuple[str, ...]) -> tuple[str, ...]:
    """The runs that reached half of the steps: shorter ones show little of whether runs are repeats."""
    steps = {run: len(rows) for run in runs if len(rows := side.tables.rows_of("steps", run))}
    most = max(steps.values(), default=0)
    return tuple(run for run in runs if steps.get(run, most) >= _REACHED * most)


def _far_apart(difference: Difference) -> str:
    return f"their {difference.figure} differs by {100 * difference.apart:.0f} %"


def _warn_unknown(all_sides: Sequence[Side], ignored: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each ignored setting that no run has. Other logs of the same program may have it."""
    known = [*_known_settings(all_sides), ROUND]
    for setting in ignored:
        if setting not in known:
            yield f"no run has a setting `{setting}`, so to ignore it changes nothing; there are: {', '.join(known)}"


def _unmatched(all_sides: Sequence[Side], matched: set[str]) -> Iterator[LeftOut]:
    for side in all_sides:
        without = "no other side has" if side is all_sides[0] else f"{all_sides[0].name} does not have"
        for run, label in side.labels.items():
            if run not in matched:
                yield LeftOut(side.name, run, label, f"{without} this configuration")


def _matching_keys(all_sides: Sequence[Side], left_out: Container[str]) -> list[str]:
    """The settings that vary within every side that has several runs."""
    names = (varying(side.settings.values()) for side in all_sides)
    names_by_side = [keys for each in names if (keys := [name for name in each if name not in left_out])]
    return [key for key in names_by_side[0] if all(key in keys for keys in names_by_side)] if names_by_side else []


def _group_runs(side: Side, keys: Sequence[str]) -> dict[tuple[str | None, ...], tuple[str, ...]]:
    """The runs of a side by their values of some settings."""
    groups: dict[tuple[str | None, ...], tuple[str, ...]] = {}
    for run, settings in side.settings.items():
        values = tuple(settings.get(key) for key in keys)
        groups[values] = (*groups.get(values, ()), run)
    return groups


def _check_repeats(side: Side, runs: Sequence[str], left_out: Container[str]) -> None:
    names = [name for name in varying(side.settings[run] for run in runs) if name not in left_out]
    if names:
        reason = f"its runs are not repeats: {', '.join(names)} differ{'s' * (len(names) == 1)} between them"
        raise UsageError(reason, side.name, _HOW)


def _case_names(keys: Sequence[str], cases: Sequence[tuple[str | None, ...]]) -> dict[tuple[str | None, ...], str]:
    """Return names of cases by their values: without settings that follow from others.

    Long texts, such as all arguments, are left out too if the names still differ.
    """
    long_keys = {key for values in cases for key, v in zip(keys, values, strict=True) if v and len(v) > _LONGEST_VALUE}
    by_key = [dict(zip(keys, values, strict=True)) for values in cases]
    for left_out in (long_keys, set[str]()):
        shown = independent(by_key, [key for key in keys if key not in left_out])
        names = [", ".join(f"{key}={case[key]}" for key in shown) for case in by_key]
        if len(set(names)) == len(cases):
            break
    return dict(zip(cases, names, strict=True))
