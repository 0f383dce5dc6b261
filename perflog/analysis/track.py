"""Tracking: each metric over the versions of a program, since which version it changed, and what else changed there.

The versions, levels and changes come from metric `history`, for all metrics that `compare` compares.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from statistics import median_high
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.compare import baselines
from perflog.analysis.compare.measures import side_values, warmups
from perflog.analysis.compare.sides import Side, load_side, stores_of
from perflog.analysis.run_list import RunList
from perflog.arrays import Floats
from perflog.errors import NothingToCompareError, UsageError, did_you_mean
from perflog.grouping import grouped
from perflog.metrics import Tables
from perflog.metrics.compared import Kind, Measure
from perflog.metrics.directions import Better
from perflog.metrics.many_runs.history import history_rows
from perflog.metrics.many_runs.version_levels import (
    LAST_P,
    FigureCourse,
    FigureOfRuns,
    LevelChange,
    UntrackedFigure,
    figure_courses,
    version_settings,
)
from perflog.metrics.many_runs.versions import COMMIT, DATE, INGESTED, Tests, Versions, versions_of_tests
from perflog.metrics.series.series_ends import AT_STEP, equal_steps, named_value_samples
from perflog.metrics.settings_by_run import settings_by_run
from perflog.metrics.step_series import common_cut
from perflog.opening import load
from perflog.opening.given_runs import Given, log_of
from perflog.providers import provider
from perflog.settings.run_settings import Settings
from perflog.statistics.samples import median
from perflog.units import count, first_few, show, show_change

if TYPE_CHECKING:
    import pandas as pd

_KINDS: tuple[Kind, ...] = ("target", "step", "run", "phase", "collective", "summary", "value", "memory", "rate")
"""Kinds of figures that are tracked; others, such as single kernels, if a run has no other, or if they are named."""

_OTHERS = 4  # figures of one version that a sentence names
_NAMED = 12  # figures in an error
_TITLE = 60  # letters of the title of a commit in a sentence
_LATE = 1  # versions by which an accepted run and the cut may differ


class Accepted(Struct, frozen=True):
    """A change that a baseline accepts: its name, the reason, and since when (UTC)."""

    baseline: str
    reason: str
    since: str


class LeftOutRun(Struct, frozen=True):
    """A run that is in no test, and why."""

    run: str
    label: str
    reason: str


class Track(Struct, frozen=True):
    """Figures over versions.

    Attributes:
        by: What a version is: `commit`, `date`, `ingested`, or a setting.
        courses: Each metric of each test with its levels and changes.
        accepted: Changes that a baseline accepts, by test, metric, and index of the version.
        left_out: Runs in no test, with the reason.
        left_out_figures: Figures without levels, with the reason.
        warnings: What went wrong while the logs were read.
        labels: Labels of the runs, by run.
        tables: Their tables.
        threshold: Smallest change that sentences report.
    """

    by: str
    courses: tuple[FigureCourse, ...]
    accepted: Mapping[tuple[str, str, int], Accepted]
    left_out: tuple[LeftOutRun, ...]
    left_out_figures: tuple[UntrackedFigure, ...]
    warnings: tuple[str, ...]
    labels: Mapping[str, str]
    tables: Tables
    threshold: float

    def __repr__(self) -> str:
        left_out = f", {count(len(self.left_out), 'run')} left out" if self.left_out else ""
        return f"<perflog.Track by {self.by}: {count(len(self.courses), 'metric')}{left_out}>"

    def _repr_html_(self) -> str:
        """The answer in sentences. Jupyter calls it."""
        html: str = provider("notebook answers").track_html(self)
        return html

    def acceptance(self, course: FigureCourse, change: LevelChange) -> Accepted | None:
        """Return how a change was accepted; None if it was not."""
        return self.accepted.get((course.test, course.figure.name, change.place))

    @property
    def changes(self) -> list[tuple[FigureCourse, LevelChange]]:
        """All changes of level, the last versions first."""
        every = [(course, change) for course in self.courses for change in course.changes]
        return sorted(every, key=lambda pair: pair[0].versions[-1].at and pair[1].after.at, reverse=True)

    @property
    def unconfirmed(self) -> list[FigureCourse]:
        """The metrics with a last version that is not of the level so far."""
        return [course for course in self.courses if course.is_last_off]

    @property
    def points(self) -> pd.DataFrame:
        """One row for each metric and version, with the columns of metric `history`."""
        import pandas as pd

        return pd.DataFrame(list(self.rows()))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of `points`."""
        for course in self.courses:
            yield from history_rows(course, self.labels)

    @property
    def sentences(self) -> list[str]:
        """The answer: the last versions, then each change, then outliers."""
        return list(_sentences(self))

    def as_json(self) -> dict[str, Any]:
        """Return all of it as values for JSON."""
        tests = grouped((course.test, _figure_json(self, course)) for course in self.courses)
        return {
            "by": self.by,
            "answer": self.sentences,
            "tests": [{"test": test, "figures": figures} for test, figures in tests.items()],
            "left_out": [{"run": each.run, "label": each.label, "reason": each.reason} for each in self.left_out],
            "figures_left_out": [
                {"test": each.test, "figure": each.figure, "reason": each.reason} for each in self.left_out_figures
            ],
        }


def track(  # noqa: PLR0913 (all are keywords that a user sees in `help`)
    *runs: Given,
    by: str | None = None,
    where: str | None = None,
    figures: Sequence[str] = (),
    ignore: Sequence[str] = (),
    store: str | None = None,
    warmup: int | None = None,
    threshold: float = 0.01,
    level: float = 0.95,
) -> Track:
    """Return each metric of some runs over the versions of their program: levels, changes, outliers.

    Runs of one commit, or of one day, are one version. Runs of different format, program, model or settings are
    different tests, which are never pooled; a setting that changes once and stays makes no other test, but is named
    beside a change that came with it.

    Args:
        *runs: Logs, folders, stores, `Log`s, DataFrames, or lists of these.
        by: `commit`, `date`, `ingested` (commits in the order in which they came into the store), or a setting, such
            as a version. Default: commit or date, whichever is known of more runs. Commits are in the order of their
            dates.
        where: A condition on runs, as `perflog runs --where` has it: "branch = main".
        figures: Names of metrics, with * for any letters. Default: the metrics of steps, runs, phases, collectives,
            printed summaries and values, and memory.
        ignore: Settings that make no other test.
        store: Folder of the store in which run ids and labels are looked up.
        warmup: Number of steps to cut at the start of each run. Default: the largest warm-up of the runs of a test.
        threshold: Smallest change that sentences report; the tables have all.
        level: Confidence level of intervals.

    Returns:
        A `Track`: `courses`, `changes`, `unconfirmed`, `sentences`, `points`, `left_out`.

    Raises:
        UsageError: No runs are given, no run has the setting, or the condition cannot be read.
        NothingToCompareError: There are no runs.

    Example:
        >>> perflog.track("reference:moe_layer.txt").courses
        ()
    """
    runs = tuple(run if isinstance(run, str | os.PathLike) else log_of(run, store) for run in runs)
    side = load_side(runs, store)
    if where:
        chosen = RunList(side.log)
        chosen.select(where, None)
        side = Side(side.name, side.log.select(*chosen.keys))
    if not len(side.log):
        raise NothingToCompareError("there are no runs", side.name, "name logs, a folder, or a store")
    found = versions_of_tests(side.tables, by, ignore, side.log.ingested)
    settings = {test.test: version_settings(test, side.settings) for test in found.tests}
    every = list(figure_courses(_figures(side, found, figures, warmup), settings, level))
    courses = [each for each in every if isinstance(each, FigureCourse)]
    labels = side.labels
    return Track(
        by=found.by,
        courses=tuple(_surely_off(courses)),
        accepted=_accepted(courses, stores_of(runs, store)),
        left_out=tuple(LeftOutRun(run, labels[run], reason) for run, reason in found.left_out.items()),
        left_out_figures=tuple(each for each in every if isinstance(each, UntrackedFigure)),
        warnings=tuple(side.log.warnings),
        labels=labels,
        tables=side.tables,
        threshold=threshold,
    )


def _figures(
    side: Side, found: Tests, wanted: Sequence[str], warmup: int | None
) -> Iterator[tuple[Versions, FigureOfRuns]]:
    """Yield the figures of each test, those that answer first at the front."""
    known = warmups(side)
    cuts: dict[str, int] = {}
    at: dict[str, Mapping[str, int]] = {}
    for test in found.tests:
        runs = test.runs
        usual = median_high([known[run][1] for run in runs if run in known] or [0])
        whole = (known[run] for run in runs if run in known and 2 * known[run][1] >= usual)
        cut = common_cut(whole) if warmup is None else warmup
        shared = equal_steps([(side.tables, runs)])
        cuts |= dict.fromkeys(runs, cut)
        at |= dict.fromkeys(runs, shared)
    by_measure = side_values(side, cuts, at).by_measure
    _add_named_values(side, [run for test in found.tests for run in test.runs], by_measure)
    for name in wanted if found.tests else ():
        if not any(_is_named(measure, name) for measure in by_measure):
            names = [measure.name for measure in by_measure]
            raise UsageError(f"no run has a metric `{name}`", "", did_you_mean(name, names, _some(names)))
    for test in found.tests:
        test_values = {m: {run: by_run[run] for run in test.runs if run in by_run} for m, by_run in by_measure.items()}
        measures = _chosen([measure for measure, values in test_values.items() if values], wanted)
        names = [measure.name for measure in measures]
        better = _better_of(side.settings[run] for run in test.runs)
        for measure in measures:
            name = measure.name if names.count(measure.name) == 1 else f"{measure.name} ({measure.kind})"
            values = {run: median(steady) for run, steady in test_values[measure].items()}
            yield test, FigureOfRuns(name, measure.unit, measure.better or better, values)


def _some(names: Sequence[str]) -> str:
    return f"there are: {first_few(names, _NAMED)}"


def _better_of(settings: Iterable[Settings]) -> Better | None:
    """Return which way is better, by the setting `better` of the runs; None if they lack it or differ in it."""
    better = {run_settings.get("better") for run_settings in settings}
    if better == {"lower"}:
        return "lower"
    return "higher" if better == {"higher"} else None


def _add_named_values(side: Side, runs: Sequence[str], by_measure: dict[Measure, dict[str, Floats]]) -> None:
    """Add all values of runs that print no steps, such as benchmarks: whichever way is better."""
    with_steps = side.tables.counts("steps")
    known = {(run, m.name) for m, by_run in by_measure.items() for run in by_run}
    for measure, run, values in named_value_samples(side.tables, [run for run in runs if not with_steps.get(run)]):
        if (run, measure.name) not in known:
            by_measure.setdefault(measure, {})[run] = values


def _surely_off(courses: Sequence[FigureCourse]) -> Iterator[FigureCourse]:
    """Yield the metrics; the last version of one is off only if it is off among all metrics: of many, one is by chance.

    The share of false ones among the metrics that are off is at most `LAST_P` (Benjamini and Hochberg 1995).
    """
    tested = sorted(course.course.last_p for course in courses if not math.isnan(course.course.last_p))
    limit = max((p for k, p in enumerate(tested, 1) if p <= LAST_P * k / len(tested)), default=-1.0)
    yield from (replace(course, is_last_off=course.course.last_p <= limit) for course in courses)


def _chosen(measures: Sequence[Measure], wanted: Sequence[str]) -> list[Measure]:
    """The figures that are tracked. One that a program computes from another is, if the other is not there."""
    if wanted:
        return [m for m in measures if any(_is_named(m, name) for name in wanted)]
    at_step = {m.name.partition(AT_STEP)[0] for m in measures if AT_STEP in m.name}
    measures = [m for m in measures if m.name not in at_step]  # last values at other steps do not compare
    main = [m for m in measures if m.kind in _KINDS] or list(measures)
    times = any(m.kind == "step" and not m.derived for m in main)
    return [m for m in main if not (times and m.derived)]


def _is_named(measure: Measure, name: str) -> bool:
    return fnmatchcase(measure.name.lower(), name.lower())


def _accepted(courses: Sequence[FigureCourse], stores: Sequence[str]) -> dict[tuple[str, str, int], Accepted]:
    """The changes that baselines accept: of each accepted level the last change at its first run, or before it."""
    found: dict[tuple[str, str, int], Accepted] = {}
    for store in stores:
        if not (known := baselines.read(store)):
            continue
        log = load(store)
        for baseline in known.values():
            members = baselines.members(baseline, log)
            for level, keys in list(zip(baseline.levels, members, strict=True))[1:]:
                ids = {key.id for key in keys}
                accepted = Accepted(baseline.name, level.reason, level.began)
                places = {}
                for course in courses:
                    first = next((k for k, v in enumerate(course.versions) if ids.intersection(v.runs)), None)
                    if first is not None:
                        cuts = [change.place for change in course.changes if change.place <= first + _LATE]
                        places[course.test, course.figure.name] = (max(cuts, default=-1), course.test)
                for (test, figure), (place, _) in places.items():
                    latest = max(other for other, of in places.values() if of == test)
                    if place >= 0 and place >= latest - _LATE:
                        found.setdefault((test, figure, place), accepted)
    return found


# --- in words -----------------------------------------------------------------------------------------------------


def _sentences(of: Track) -> Iterator[str]:
    names = test_names(of)
    unconfirmed = [course for course in of.unconfirmed if abs(course.last_change) >= of.threshold]
    changes = [(course, change) for course, change in of.changes if abs(change.change) >= of.threshold]
    for course in unconfirmed:
        last = course.versions[-1]
        parts = [f"{course.figure.name} {show_change(course.last_change)}", course.verdict(course.last_change)]
        text = ", ".join(filter(None, [*parts, f"not yet confirmed (p {course.course.last_p:.2g})"]))
        yield _sentence(names[course.test], f"since the last version, {short(last.name)}: {text}")
    by_version = grouped(((course.test, change.after.name), (course, change)) for course, change in changes)
    for (test, _), together in by_version.items():
        yield _sentence(names[test], _change(of, together))
    drifting = [course for course in of.courses if abs(course.drift) >= of.threshold]
    for course in drifting:
        text = f"over {len(course.versions)} versions {course.figure.name} drifts by {show_change(course.drift)}"
        at = "beside its changes" if course.changes else "with no version at which it changes"
        yield _sentence(names[course.test], f"{text}, {at}")
    yield from _outliers(of, names)
    if of.courses and not (changes or unconfirmed or drifting):
        versions = max(len(course.versions) for course in of.courses)
        yield f"No metric changes by {100 * of.threshold:g} % or more over {versions} versions."
    if not of.courses:
        yield f"No metric has enough versions. {_advice(of.by)}"


def _advice(by: str) -> str:
    """What to do where no test has enough versions."""
    if by in (COMMIT, DATE):
        return "Name a setting that gives the version: --by SETTING; or take the order of ingestion: --by ingested."
    return (
        f"`perflog compare --by {by}` compares few versions." if by != INGESTED else "Other runs need dates or commits."
    )


def _sentence(test: str, text: str) -> str:
    text = f"{test}: {text}" if test else f"{text[0].upper()}{text[1:]}"
    return f"{text}."


def test_names(of: Track) -> dict[str, str]:
    """Return the names of tests without what all have in common; empty for a single one."""
    tests = list(dict.fromkeys(course.test for course in of.courses))
    shared = set.intersection(*(set(test.split(", ")) for test in tests)) if tests else set()
    return {test: ", ".join(part for part in test.split(", ") if part not in shared) for test in tests}


def _change(of: Track, changes: Sequence[tuple[FigureCourse, LevelChange]]) -> str:
    """The changes of metrics with one version: the first in full."""
    course, change = changes[0]
    unit = course.figure.unit
    levels = f"{show(change.old, unit)} -> {show(change.new, unit)}"
    size = f"{levels}, {show_change(change.change)} {interval(change)}".rstrip()
    verdict = f", {word}" if (word := course.verdict(change.change)) else ""
    title = shorten(commit_title(of, change), _TITLE, placeholder=" ...")
    named = f' "{title}"' if title else ""
    since = f"since {short(change.after.name)}{named}{_date(change)}, after {short(change.before.name)}"
    text = f"{since}: {course.figure.name} {size}{verdict}, p {change.p:.2g}"
    others = [f"{other.figure.name} {show_change(each.change)}" for other, each in changes[1:]]
    if others:
        text += f"; with it {first_few(others, _OTHERS)}"
    if (words := cause_words(change)) is not None:
        text += f"; {words}"
    if accepted := of.acceptance(course, change):
        text += f"; accepted in baseline {accepted.baseline} on {accepted.since[:10]}: {accepted.reason}"
    return text


def commit_title(of: Track, change: LevelChange) -> str:
    """Return the first line of the message of the commit that changes a metric; empty if no run has it."""
    settings = settings_by_run(of.tables)
    return next((title for run in change.after.runs if (title := settings[run].get("commit_title"))), "")


def cause_words(change: LevelChange) -> str | None:
    """Return what changed with a level in words; None where nothing did and the machine is unknown."""
    machine = ", ".join(str(each) for each in change.settings if each.is_machine)
    others = ", ".join(str(each) for each in change.settings if not each.is_machine)
    if machine:
        return f"the machine changed: {machine}" + (f"; settings changed: {others}" if others else "")
    if others:
        return f"settings changed: {others}"
    if change.cause != "program":
        return None
    more = " and more" if len(change.same_machine) > _OTHERS else ""
    return (
        f"settings and machine are the same ({', '.join(change.same_machine[:_OTHERS])}{more}): so the program changed"
    )


def _outliers(of: Track, names: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each version that is an outlier in some metrics."""
    found: dict[tuple[str, str], list[str]] = {}
    for course in of.courses:
        for place in course.course.outliers:
            off = course.values[place] / course.expected(place) - 1
            key = (course.test, course.versions[place].name)
            found.setdefault(key, []).append(f"{course.figure.name} {show_change(off)}")
    for (test, version), figures in found.items():
        text = f"version {short(version)} alone is an outlier, no level: {first_few(figures, _OTHERS)}"
        yield _sentence(names[test], text)


def _date(change: LevelChange) -> str:
    return f" ({change.after.at[:16]})" if change.after.at and change.after.at != change.after.name else ""


def short(name: str) -> str:
    """Return the name of a version: of a commit the first nine digits."""
    head, mark, rest = name.partition(",")
    is_hash = len(head) >= 12 and all(c in "0123456789abcdef" for c in head.lower())
    return (head[:9] if is_hash else head) + mark + rest


def interval(change: LevelChange) -> str:
    """Return the interval of a change: (+3.9 to +4.5 %); empty where nothing tells it."""
    if not (math.isfinite(change.low) and math.isfinite(change.high)):
        return ""
    return f"({show_change(change.low).removesuffix(' %')} to {show_change(change.high)})"


# --- as values ----------------------------------------------------------------------------------------------------


def _figure_json(of: Track, course: FigureCourse) -> dict[str, object]:
    versions = [
        {
            "version": row["version"], "at": row["at"] or None, "run": row["run"], "runs": row["runs"],
            "value": row["value"], "level": row["level"], "stands_out": row["stands_out"],
        }
        for row in history_rows(course, of.labels)
    ]  # fmt: skip
    levels = [
        {
            "first": course.versions[level.start].name,
            "last": course.versions[level.stop - 1].name,
            "versions": len(course.course.members(level)),
            "value": course.level_value(level),
        }
        for level in course.course.levels
    ]
    last = {
        "version": course.versions[-1].name,
        "change": _number(course.last_change),
        "p": _number(course.course.last_p),
        "confirmed": not course.is_last_off,
        "verdict": course.verdict(course.last_change) if course.is_last_off else "",
    }
    return {
        "figure": course.figure.name,
        "unit": course.figure.unit,
        "better": course.figure.better,
        "drift": course.drift,
        "levels": levels,
        "changes": [_change_json(of, course, change) for change in course.changes],
        "last": last,
        "versions": versions,
        "missing": [version.name for version in course.missing],
    }


def _change_json(of: Track, course: FigureCourse, change: LevelChange) -> dict[str, object]:
    accepted = of.acceptance(course, change)
    return {
        "before": change.before.name,
        "after": change.after.name,
        "before_at": change.before.at or None,
        "after_at": change.after.at or None,
        "after_title": commit_title(of, change) or None,
        "old": change.old,
        "new": change.new,
        "change": change.change,
        "low": _number(change.low),
        "high": _number(change.high),
        "p": change.p,
        "versions": change.versions,
        "verdict": course.verdict(change.change),
        "cause": change.cause,
        "same_machine": list(change.same_machine),
        "settings": [
            {"setting": each.name, "before": each.before, "after": each.after, "of_machine": each.is_machine}
            for each in change.settings
        ],
        "accepted": {"baseline": accepted.baseline, "reason": accepted.reason, "since": accepted.since}
        if accepted
        else None,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
