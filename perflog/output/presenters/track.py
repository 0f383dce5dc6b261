"""Figures over versions as sheets, as a plot, and as JSON: `perflog track`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from perflog.analysis.track import Track, cause_words, interval, short, test_names
from perflog.errors import UsageError
from perflog.grouping import grouped
from perflog.output.sheets import Quantity, Sheet, SheetColumn, sheet
from perflog.tables.schema import SCHEMA_VERSION
from perflog.units import count, first_few, show_change

_SENTENCES = 8
_ROWS = 40
_NAMED = 3  # runs and figures that a reason names


def sheets(track: Track) -> Iterator[Sheet]:
    """Yield the answer in sentences, the changes, the figures as they are now, and what is left out."""
    answer = track.sentences
    more = [f"and {len(answer) - _SENTENCES} more: --format json has all"] if len(answer) > _SENTENCES else []
    yield Sheet("answer", (SheetColumn("answer"),), [[text] for text in [*answer[:_SENTENCES], *more]], prose=True)
    if track.changes:
        yield _changes(track)
    if track.courses:
        yield _figures(track)
    if track.left_out or track.left_out_figures or any(course.missing for course in track.courses):
        yield _left_out(track)


def _changes(track: Track) -> Sheet:
    tests = test_names(track)
    rows = [
        [
            tests[course.test] or None,
            course.figure.name,
            short(change.after.name),
            change.after.at[:16] if change.after.at != change.after.name else None,
            short(change.before.name),
            Quantity(change.old, course.figure.unit),
            Quantity(change.new, course.figure.unit),
            show_change(change.change),
            interval(change).strip("()") or None,
            course.verdict(change.change) or None,
            change.cause,
            cause_words(change) if change.settings else None,
            accepted.reason if (accepted := track.acceptance(course, change)) else None,
        ]
        for course, change in track.changes
    ]
    names = "test figure since at~ before~ old# new# change# interval#~ verdict! cause with_it~ accepted~"
    return _without_empty(sheet("changes", names, rows[:_ROWS], "changes", _more(len(rows), "change")))


def _more(number: int, what: str) -> str:
    return f"{count(number - _ROWS, f'more {what}')}: --format json has all" if number > _ROWS else ""


def _figures(track: Track) -> Sheet:
    tests = test_names(track)
    rows = [
        [
            tests[course.test] or None, course.figure.name, len(course.versions), len(course.course.levels),
            Quantity(course.expected(len(course.versions) - 1), course.figure.unit),
            Quantity(course.values[-1], course.figure.unit), show_change(course.last_change),
            "not confirmed" if course.is_last_off else None, len(course.course.outliers) or None,
        ]
        for course in sorted(track.courses, key=lambda c: (not c.is_last_off, len(c.course.levels) == 1))
    ]  # fmt: skip
    names = "test figure versions# levels# level# last# last_change# last_is outliers#~"
    title = f"metrics by {track.by}"
    return _without_empty(sheet("figures", names, rows[:_ROWS], title, _more(len(rows), "metric")))


def _without_empty(whole: Sheet) -> Sheet:
    """The sheet without columns that have no value."""
    rows = list(whole.rows)
    kept = [k for k in range(len(whole.columns)) if any(row[k] is not None for row in rows)]
    columns = tuple(whole.columns[k] for k in kept)
    return Sheet(whole.key, columns, [[row[k] for k in kept] for row in rows], whole.title, whole.note)


def _left_out(track: Track) -> Sheet:
    runs = grouped((each.reason, each.label) for each in track.left_out)
    figures = grouped((f"{figure.test}: {figure.reason}", figure.figure) for figure in track.left_out_figures)
    missing = Counter(short(version.name) for course in track.courses for version in course.missing)
    rows = [
        *((count(len(names), "run"), reason, first_few(names, _NAMED)) for reason, names in runs.items()),
        *((count(len(names), "figure"), reason, first_few(names, _NAMED)) for reason, names in figures.items()),
    ]
    if missing:
        rows.append(
            (count(len(missing), "version"), "without a finite value of some metric", first_few(missing, _NAMED))
        )
    return sheet("left_out", "what reason names~", rows, "left out")


def points(track: Track) -> Sheet:
    """Return a row for each metric and version."""
    names = (
        "history figure unit version at runs# value# level# level_value# stands_out change# low# high# p# with_it cause"
    )
    keys = [name.rstrip("#") for name in names.split()]
    rows = ([row.get(key) for key in keys] for row in track.rows())
    return sheet("points", names, rows)


def as_json(track: Track) -> str:
    """Return all of it as JSON."""
    return json.dumps({"schema_version": SCHEMA_VERSION, **track.as_json()}, indent=1, ensure_ascii=False)


def draw(track: Track, path: str) -> None:
    """Draw the figures over versions to a file, those that change at the front.

    Raises:
        UsageError: There is nothing to draw, or the suffix is no image format.
    """
    from perflog import plots
    from perflog.metrics import Options

    plots.suffix(path)
    rows = track.points
    if not len(rows):
        raise UsageError("there is nothing to draw: no metric has enough versions", path)
    plots.save(plots.history.drawn(rows, track.tables, Options()), path)
