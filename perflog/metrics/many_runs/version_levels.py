"""Levels of a metric over the versions of a program, where it changes, and what else changed there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.grouping import grouped
from perflog.metrics.directions import Better, direction
from perflog.metrics.many_runs.versions import Version, Versions
from perflog.settings.run_settings import Settings, incidental_test, is_of_machine, varying
from perflog.statistics.effects import Effect, change_of, rounding
from perflog.statistics.levels import FEWEST, Course, Level, course
from perflog.statistics.shared_scatter import SharedScatter, shared_scatter
from perflog.units import count

Cause = Literal["machine", "settings", "machine and settings", "program"]
"""What changed with a level: the machine; settings; neither, and settings show the same machine: so the program."""

_KINDS_OF_DEVICES = frozenset(
    (None, "", "cuda", "cpu", "gpu", "rocm", "hip", "xpu", "tpu", "npu", "hpu", "mps", "auto")
)
"""Values of a device setting that name only a kind of device."""

_OFTEN = 4  # a setting that changes more often than every so many versions explains none of the changes
LAST_P = 0.01
"""Largest p with which the last version is not of the level so far."""


class FigureOfRuns(Struct, frozen=True):
    """A metric of runs: its name, unit, which way is better, and its value by run."""

    name: str
    unit: str
    better: Better | None
    values: Mapping[str, float]


class ChangedSetting(Struct, frozen=True):
    """A setting that changed at a version."""

    name: str
    before: str
    after: str

    @property
    def is_machine(self) -> bool:
        """Whether it describes the machine."""
        return is_of_machine(self.name)

    def __str__(self) -> str:
        return f"{self.name} {self.before} -> {self.after}"


class LevelChange(Struct, frozen=True):
    """A metric is at another level from a version on.

    Attributes:
        place: The index of this version.
        before: The version before it.
        after: This version.
        old: Geometric mean of the level before, carried along the drift to this version.
        new: Geometric mean of the new level.
        change: new / old - 1.
        low: Lower end of its confidence interval; NaN if it is unknown.
        high: Upper end.
        p: The larger p-value of both tests of the change.
        versions: Number of versions of the new level.
        settings: Settings that changed with it.
        same_machine: Settings of the machine that did not change.
        cause: What changed with it; None where nothing did and no setting shows that the machine is the same.
    """

    place: int
    before: Version
    after: Version
    old: float
    new: float
    change: float
    low: float
    high: float
    p: float
    versions: int
    settings: tuple[ChangedSetting, ...]
    same_machine: tuple[str, ...]
    cause: Cause | None


class FigureCourse(Struct, frozen=True):
    """A metric over the versions of a test that have it.

    `values`: the geometric mean over the runs of each version. `runs`: their numbers. `course`: levels of the
    logarithms. `missing`: versions without a run that has a finite value. `is_last_off`: the last version is not of
    the level so far: a change that later versions confirm, or do not.
    """

    test: str
    figure: FigureOfRuns
    versions: tuple[Version, ...]
    values: tuple[float, ...]
    runs: tuple[int, ...]
    course: Course
    changes: tuple[LevelChange, ...]
    missing: tuple[Version, ...]
    is_last_off: bool

    @property
    def last_change(self) -> float:
        """Change of the last version against the level so far; NaN where there is none."""
        return change_of(self.course.last_shift)

    @property
    def drift(self) -> float:
        """Change from the first version to the last by drift alone; 0 if the drift is not significant."""
        return change_of(self.course.drift * (len(self.values) - 1))

    def level_value(self, level: Level) -> float:
        """Return the geometric mean of a level, without outliers."""
        return _mean([self.values[k] for k in self.course.members(level)])

    def expected(self, version_index: int) -> float:
        """Return the expected value of a version: the geometric mean of its level, carried along the drift."""
        level = next(each for each in self.course.levels if each.start <= version_index < each.stop)
        return _at(self.course, level, version_index, self.values)

    def verdict(self, change: float) -> str:
        """Return `improvement` or `regression`; empty if it is unknown which way is better."""
        if self.figure.better is None or change == 0 or math.isnan(change):
            return ""
        return direction(change, self.figure.better)


VersionSettings = Mapping[str, Mapping[str, frozenset[str | None]]]
"""Values of settings by the name of the version: settings of the machine, and others that change between runs."""


def version_settings(test: Versions, settings: Mapping[str, Settings]) -> VersionSettings:
    """Return the settings of the versions of a test that may be informative, from the settings of all runs."""
    known_settings = [settings[run] for run in test.runs]
    incidental, changing = incidental_test(known_settings), set(varying(known_settings))
    names = dict.fromkeys(name for settings_of_run in known_settings for name in settings_of_run)
    return {
        name: {v.name: frozenset(settings[run].get(name) for run in v.runs) for v in test.versions}
        for name in names
        if is_of_machine(name) or (name in changing and not incidental(name))
    }


class UntrackedFigure(Struct, frozen=True):
    """A metric of a test that has no levels, and why."""

    test: str
    figure: str
    reason: str


def figure_courses(
    figures: Iterable[tuple[Versions, FigureOfRuns]], settings: Mapping[str, VersionSettings], level: float = 0.95
) -> Iterator[FigureCourse | UntrackedFigure]:
    """Yield each metric over the versions of its test, or why it has no levels.

    Series of few versions are judged by the scatter of all series of the metric, if there are eight or more.

    Args:
        figures: Tests and metrics of their runs.
        settings: What `version_settings` returns, by the name of the test.
        level: Confidence level of intervals.
    """
    every = [_series(test, figure) for test, figure in figures]
    alike = grouped(((each.figure.name, each.figure.unit), each.logs) for each in every if isinstance(each, _Series))
    shared = {key: shared_scatter(logs) for key, logs in alike.items()}
    for each in every:
        if isinstance(each, UntrackedFigure):
            yield each
            continue
        scatter = shared[each.figure.name, each.figure.unit]
        yield _course_of(each, settings[each.test.test], level, scatter)


class _Series(Struct, frozen=True):
    """A metric over the versions of a test that have it. `least`: standard deviation of the rounding of a logarithm."""

    test: Versions
    figure: FigureOfRuns
    versions: tuple[Version, ...]
    values: tuple[float, ...]
    runs: tuple[int, ...]
    missing: tuple[Version, ...]
    least: float

    @property
    def logs(self) -> Floats:
        return np.log(self.values)


def _series(test: Versions, figure: FigureOfRuns) -> _Series | UntrackedFigure:
    finite = {run: value for run, value in figure.values.items() if math.isfinite(value)}
    by_version = [(v, [finite[run] for run in v.runs if run in finite]) for v in test.versions]
    known = [(version, values) for version, values in by_version if values]
    reason = ""
    if len(known) < FEWEST:
        reason = f"{count(len(known), 'version')} with it, {FEWEST} are needed"
    elif not all(value > 0 for _, values in known for value in values):
        reason = "a value is not above 0: changes are shares of values"
    if reason:
        return UntrackedFigure(test.test, figure.name, reason)
    every = np.array([value for _, of in known for value in of])
    return _Series(
        test=test,
        figure=figure,
        versions=tuple(v for v, _ in known),
        values=tuple(_mean(of) for _, of in known),
        runs=tuple(len(of) for _, of in known),
        missing=tuple(version for version, of in by_version if not of),
        least=rounding(every) / math.sqrt(12) / float(np.median(every)),
    )


def _course_of(series: _Series, settings: VersionSettings, level: float, shared: SharedScatter | None) -> FigureCourse:
    found = course(series.logs, series.least, shared)
    numbers = range(1, len(found.levels))
    return FigureCourse(
        test=series.test.test,
        figure=series.figure,
        versions=series.versions,
        values=series.values,
        runs=series.runs,
        course=found,
        changes=tuple(
            _change(found, k, series.versions, series.values, settings, level, series.least) for k in numbers
        ),
        missing=series.missing,
        is_last_off=found.last_p <= LAST_P,
    )


def _mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return values[0] if len(values) == 1 else math.exp(math.fsum(map(math.log, values)) / len(values))


def _at(found: Course, level: Level, version_index: int, values: Sequence[float]) -> float:
    """The geometric mean of a level, carried along the drift to a version."""
    members = found.members(level)
    mean = _mean([values[k] for k in members])
    return mean * math.exp(found.drift * (version_index - sum(members) / len(members))) if found.drift else mean


def _change(
    found: Course,
    number: int,
    versions: Sequence[Version],
    values: Sequence[float],
    settings: VersionSettings,
    level: float,
    least: float,
) -> LevelChange:
    both = found.levels[number - 1 : number + 1]
    before, after = (found.members(each) for each in both)
    logs = np.log(values) - found.drift * np.arange(len(values))
    low, high = _effect(found, logs[before], logs[after], least).interval(level)
    sides = [versions[k] for k in before], [versions[k] for k in after]
    changed = tuple(_changed(sides[0], sides[1], settings))
    same = tuple(_same_machine(sides[0], sides[1], settings))
    first_after = after[0]
    old, new = (_at(found, each, first_after, values) for each in both)
    return LevelChange(
        place=first_after,
        before=versions[before[-1]],
        after=versions[first_after],
        old=old,
        new=new,
        change=new / old - 1,
        low=change_of(low),
        high=change_of(high),
        p=found.levels[number].p,
        versions=len(after),
        settings=changed,
        same_machine=same,
        cause=_cause(changed, same),
    )


def _effect(found: Course, before: Floats, after: Floats, least: float) -> Effect:
    """The effect between two levels, by Student's t as cuts are judged: a level may have two versions only."""
    squares = sum(float(((of - of.mean()) ** 2).sum()) for of in (before, after))
    freedom = float(len(before) + len(after) - 2)
    if found.shared is not None:
        squares, freedom = squares + found.shared.freedom * found.shared.variance, freedom + found.shared.freedom
    deviation = max(math.sqrt(squares / freedom), least) * found.widening if freedom > 0 else math.nan
    return Effect(float(after.mean() - before.mean()), deviation * math.sqrt(1 / len(before) + 1 / len(after)), freedom)


def _changed(
    before: Sequence[Version], after: Sequence[Version], settings: VersionSettings
) -> Iterator[ChangedSetting]:
    """Yield the settings with no value in common between versions of the two levels.

    A cut may be one version off: the last version of the level before, or the first of the new one, need not count.
    """
    for name, by_version in settings.items():
        old, new = ([by_version[version.name] for version in side] for side in (before, after))
        within = sum(a != b for side in (old, new) for a, b in pairwise(side))
        if _OFTEN * within > len(old) + len(new):
            continue
        apart = [(old, new), *([(old[:-1], new)] if len(old) > 1 else []), *([(old, new[1:])] if len(new) > 1 else [])]
        for olds, news in apart:
            if frozenset().union(*olds).isdisjoint(frozenset().union(*news)):
                yield ChangedSetting(name, _text(olds[-1]), _text(news[0]))
                break


def _text(values: frozenset[str | None]) -> str:
    return "/".join(sorted(value if value is not None else "-" for value in values))


def _same_machine(before: Sequence[Version], after: Sequence[Version], settings: VersionSettings) -> Iterator[str]:
    """Yield the settings of the machine that have no value in the new level that they did not have before."""
    for name, by_version in settings.items():
        if is_of_machine(name):
            old, new = (frozenset().union(*(by_version[version.name] for version in side)) for side in (before, after))
            if new <= old and not new <= _KINDS_OF_DEVICES:
                yield name


def _cause(changed: Sequence[ChangedSetting], same: Sequence[str]) -> Cause | None:
    """Return what a new level comes from; the program only if settings show that the machine is the `same`."""
    is_machine = any(each.is_machine for each in changed)
    is_other = any(not each.is_machine for each in changed)
    if is_machine:
        return "machine and settings" if is_other else "machine"
    if is_other:
        return "settings"
    return "program" if same else None
