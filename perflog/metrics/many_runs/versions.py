"""Versions of a program: the runs of a test in the order of their commits, dates, or values of a setting.

A test is a format, a program, a model, and the settings that take an earlier value again, such as a batch size that
each night tries, or the name of the log. A setting that changes once and stays, such as a version, makes no other test.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from perflog.errors import UsageError, did_you_mean
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.run_moments import Moment, moment_of, moments
from perflog.metrics.run_tables import Tables
from perflog.metrics.settings_by_run import settings_by_run
from perflog.settings.run_settings import (
    ALIKE,
    Settings,
    incidental_test,
    is_of_machine,
    leaf_of,
    values_in_order,
    varying,
)
from perflog.statistics.levels import FEWEST
from perflog.tables.row_order import natural_sort_key
from perflog.units import count

COMMIT, DATE, INGESTED = "commit", "date", "ingested"
"""What identifies versions, besides a setting."""

_COMMITS = ("commit", "git_commit", "commit_sha", "commit_id", "commit_hash", "git_sha", "git_hash", "revision", "sha")
_COMMIT_DATES = ("commit_date", "commit_time", "commit_timestamp", "git_date")
_ALTERNATES = 4  # changes of a setting of the machine that make machines in turn, and not a change and its reversal
_UNKNOWN = "9999"  # a moment after all others
_DEPTH = 3  # names of folders around a log that may identify the test
_REPEATS = r"run|rep|repeat|seed|trial|try|attempt|iter|night|rank|node|host|job|build|part"
_NUMBERS = lazy_pattern(
    rf"20\d\d([-_.]?)[01]\d\1[0-3]\d(?![0-9])([-_T ]?\d\d[-_:.h]?\d\d([-_:.m]?\d\d)?(?![0-9A-Za-z]))?"  # a date
    rf"|(?<![0-9A-Za-z])(?=[0-9a-f]*\d)[0-9a-f]{{7,64}}(?![0-9A-Za-z])"  # a hash
    rf"|(?<![0-9A-Za-z])\d+|(?:(?<=[^A-Za-z])|^)(?:{_REPEATS})[-_. ]?\d+",
    re.IGNORECASE,
)
_REPEAT_OF_LABEL = lazy_pattern(rf"(?:(?<=[^A-Za-z])|^)(?:{_REPEATS})[-_. #]?\d+", re.IGNORECASE)
_PROGRAM_VERSION = lazy_pattern(r".*version|release|ver|tag", re.IGNORECASE)


class Version(Struct, frozen=True):
    """A version: a commit, a date, or a value of a setting; when it was, if that is known; and its runs."""

    name: str
    at: str
    runs: tuple[str, ...]


class Versions(Struct, frozen=True):
    """The versions of one test, in their order. `test`: what its runs have in common."""

    test: str
    versions: tuple[Version, ...]

    @property
    def runs(self) -> list[str]:
        """All runs."""
        return [run for version in self.versions for run in version.runs]


class Tests(Struct, frozen=True):
    """Tests with enough versions, what identifies their versions, and why other runs are in none, by run."""

    by: str
    tests: tuple[Versions, ...]
    left_out: Mapping[str, str]


def versions_of_tests(
    tables: Tables,
    by: str | None = None,
    ignored: Collection[str] = (),
    ingested: Mapping[str, str] | None = None,
    fewest: int = FEWEST,
) -> Tests:
    """Return the versions of each test, in their order.

    Commits are in the order of their dates, or of the first dates of their runs where no commit has one. Commits of
    one date are in the order in which their runs started, then were ingested. A version of files that differ from
    their commit is a version of its own.

    Args:
        tables: The runs.
        by: `commit`, `date`, `ingested` (commits in the order in which they came into the store), or a setting.
            Default: commit or date, whichever more runs have.
        ignored: Settings that make no other test.
        ingested: When runs were read into their store, by run.
        fewest: Number of versions that a test needs.

    Raises:
        UsageError: No run has the setting.
    """
    runs = _Runs(tables, ingested or {})
    chosen = by or max((COMMIT, DATE), key=lambda name: len(runs.places(name)))
    if by is None and not runs.has_commits:
        chosen = DATE
    places = runs.places(chosen)
    left_out = {run: _NOT_PLACED.get(chosen, f"without a setting `{chosen}`") for run in runs.keys if run not in places}
    alike = grouped(
        (tuple(runs.settings[run].get(name, "") for name in ALIKE), run)
        for run in sorted(places, key=lambda run: (places[run].order, *runs.tie(run)))
    )
    tests = []
    taken: dict[str, int] = {}
    for names, members in alike.items():
        for text, test_runs in runs.tests(members, {*ignored, chosen}):
            versions = _versions(test_runs, places, chosen)
            name = ", ".join(filter(None, (*names, text)))
            taken[name] = taken.get(name, 0) + 1
            name += f" ({taken[name]})" if taken[name] > 1 else ""
            if len(versions) >= fewest:
                tests.append(Versions(name, versions))
            else:
                reason = f"{name}: {count(len(versions), 'version')}, {fewest} are needed"
                left_out |= dict.fromkeys(test_runs, reason)
    return Tests(chosen, tuple(tests), left_out)


_NOT_PLACED = {
    COMMIT: "no commit with a date of its own or of its runs",
    DATE: "no date in the settings or in the name of the log",
    INGESTED: "not in a store",
}


class _Place(Struct, frozen=True):
    """The version of a run, and its position in the order of versions."""

    name: str
    order: tuple[Any, ...]
    at: str = ""


class _Runs:
    """All runs, with the settings and names that identify their versions and tests."""

    def __init__(self, tables: Tables, ingested: Mapping[str, str]) -> None:
        self.settings = settings_by_run(tables)
        self.keys = list(self.settings)
        self._started, self._ingested = moments(tables), ingested
        rows = list(tables.rows("runs").records("run", "label", "log"))
        self._labels = {run: label or "" for run, label, _ in rows}
        self._logs = {run: PurePath(log or "").parts[-_DEPTH:] for run, _, log in rows}
        self._number = {run: k for k, run in enumerate(self.keys)}

    @property
    def has_commits(self) -> bool:
        """Whether a run names its commit."""
        return any(self._commit(run) for run in self.keys)

    def tie(self, run: str) -> tuple[object, ...]:
        """Return the sort key of a run within one version."""
        started = self._started.get(run)
        return (str(started or _UNKNOWN), self._ingested.get(run, ""), self._number[run])

    def places(self, by: str) -> dict[str, _Place]:
        """Return the version of each run with a known one, and its position."""
        if by == COMMIT:
            return self._by_commit()
        if by == DATE:
            return {run: _Place(str(of), (of.at,), str(of)) for run, of in self._started.items()}
        if by == INGESTED:
            return self._by_ingestion()
        values = self._values(by)
        order = {value: k for k, value in enumerate(_in_order(by, values.values()))}
        return {run: _Place(value, (order[value],)) for run, value in values.items()}

    def _by_commit(self) -> dict[str, _Place]:
        commits = {run: name for run in self.keys if (name := self._commit(run))}
        dates: dict[str, Moment] = {}
        first: dict[str, tuple[object, ...]] = {}
        for run in sorted(commits, key=self.tie):
            first.setdefault(commits[run], self.tie(run))
            if (at := moment_of(_leaf(self.settings[run], _COMMIT_DATES))) is not None:
                dates.setdefault(commits[run], at)
        started: dict[str, Moment] = {}
        for run in sorted(self._started.keys() & commits.keys(), key=self.tie):
            started.setdefault(commits[run], self._started[run])
        known = started | dates
        return {
            run: _Place(name, (known[name].at, *first[name]), str(known[name]))
            for run, name in commits.items()
            if name in known
        }

    def _by_ingestion(self) -> dict[str, _Place]:
        """Commits in the order in which their first runs were read into the store; of other runs the moments."""
        known = {run: at for run, at in self._ingested.items() if run in self._number}
        names = {run: self._commit(run) or at for run, at in known.items()}
        first: dict[str, tuple[str, int]] = {}
        for at, number, run in sorted((at, self._number[run], run) for run, at in known.items()):
            first.setdefault(names[run], (at, number))
        return {run: _Place(name, first[name], first[name][0]) for run, name in names.items()}

    def _commit(self, run: str) -> str:
        settings = self.settings[run]
        name = _leaf(settings, _COMMITS)
        return f"{name}, changed" if name and _leaf(settings, ("dirty",)) == "yes" else name

    def _values(self, name: str) -> dict[str, str]:
        if name == "label":
            return {run: label for run, label in self._labels.items() if label}
        run_settings = {run: settings[name] for run, settings in self.settings.items() if name in settings}
        if run_settings:
            return run_settings
        known = dict.fromkeys(key for settings in self.settings.values() for key in settings)
        leaves = [key for key in known if leaf_of(key) == name]
        if len(leaves) == 1:
            return self._values(leaves[0])
        raise UsageError(f"no run has a setting `{name}`", "", did_you_mean(name, [COMMIT, DATE, INGESTED, *known]))

    def tests(self, runs: Sequence[str], ignored: Collection[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield the runs of each test, with the settings that identify it."""
        described = {run: self._described(run) for run in runs}
        names = [name for name in _returning(list(described.values())) if name not in ignored]
        parted = grouped((tuple(described[run].get(name, "") for name in names), run) for run in runs)
        for values, members in parted.items():
            pairs = zip(names, values, strict=True)
            yield ", ".join(f"{name.rstrip('0123456789')} {value}" for name, value in pairs if value), members

    def _described(self, run: str) -> Settings:
        """The settings of a run, with its label, and the names of its log and folders without what differs by run."""
        names = {
            f"{'folder' if k else 'log'}{k or ''}": _NUMBERS.sub("", PurePath(part).stem).strip("-_. ")
            for k, part in enumerate(reversed(self._logs[run]))
        }
        label = _REPEAT_OF_LABEL.sub("", self._labels[run])
        return {**self.settings[run], **names, "label": label}


def _returning(run_settings: Sequence[Settings]) -> list[str]:
    """Return the settings that distinguish tests, of runs in their order: settings that take an earlier value again.

    A setting of the machine must do so several times: a driver may be rolled back. Branches always make separate tests.
    """
    incidental = incidental_test(run_settings)
    found: list[str] = []
    for name in varying(run_settings):
        values = {each.get(name) for each in run_settings}
        if leaf_of(name) == "branch" and len(values - {None}) > 1:
            found.append(name)
        elif name in _NAMES or not incidental(name):
            changes = sum(a.get(name) != b.get(name) for a, b in pairwise(run_settings))
            least = max(len(values), _ALTERNATES) if is_of_machine(name) else len(values)
            if changes >= least and not any(_same(run_settings, name, other) for other in found):
                found.append(name)
    return found


_NAMES = ("label", "log", *(f"folder{k}" for k in range(1, _DEPTH)))


def _same(run_settings: Sequence[Settings], name: str, other: str) -> bool:
    """Whether a setting follows from another one, and so distinguishes no more tests."""
    pairs = {(each.get(other), each.get(name)) for each in run_settings}
    return len(pairs) == len({value for value, _ in pairs})


def _versions(runs: Sequence[str], places: Mapping[str, _Place], by: str) -> tuple[Version, ...]:
    """The versions of runs in their order. Dates are days, if there are enough of them: runs of a day are repeats."""
    names = {run: places[run].name for run in runs}
    are_dates = by in (DATE, INGESTED) and all(places[run].name == places[run].at for run in runs)
    if are_dates and len({name[:10] for name in names.values()}) >= FEWEST:
        names = {run: name[:10] for run, name in names.items()}
    runs_by_version = grouped((names[run], run) for run in runs)
    ats = {name: name if are_dates else places[of[0]].at for name, of in runs_by_version.items()}
    return tuple(Version(name, ats[name], tuple(of)) for name, of in runs_by_version.items())


def _leaf(settings: Settings, names: Sequence[str]) -> str:
    """The value of the first of these names that a run has, with or without its parents; empty without one."""
    leaves = {leaf_of(name).lower(): value for name, value in settings.items()}
    return next((leaves[name] for name in names if leaves.get(name)), "")


def _in_order(name: str, values: Iterable[str]) -> list[str]:
    """The values of a setting in their order: numbers by size, versions such as 2.10 part by part."""
    every = list(dict.fromkeys(values))
    is_version = _PROGRAM_VERSION.fullmatch(leaf_of(name)) or any(value.count(".") > 1 for value in every)
    if is_version:
        return sorted(every, key=natural_sort_key)
    in_order = values_in_order(every)
    return sorted(every, key=natural_sort_key) if in_order == every and not _are_numbers(every) else in_order


def _are_numbers(values: Iterable[str]) -> bool:
    try:
        return all(float(value) == float(value) for value in values)
    except ValueError:
        return False
