"""History: metrics of like runs in the order of time, and since when they are at another level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perflog.metrics.directions import better, letter_words
from perflog.metrics.many_runs.version_levels import (
    ChangedSetting,
    FigureCourse,
    FigureOfRuns,
    figure_courses,
    version_settings,
)
from perflog.metrics.many_runs.versions import versions_of_tests
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.series.curves import curves
from perflog.metrics.settings_by_run import settings_by_run
from perflog.metrics.step_series import steady_medians
from perflog.statistics.levels import FEWEST

_SPEEDS = {"step_time_s": "s", "tokens_per_s": "1/s", "samples_per_s": "1/s"}
"""Metrics of speed, with their units: the first that all runs of a history have."""

_MOST_SETTINGS = 5

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("history", meaning="what the runs have in common: format, program, model, settings"),
    MetricColumn(
        "figure",
        meaning=f"{', '.join(_SPEEDS)}: the first that all runs have; elapsed_s; losses at the last step that all runs "
        "print, else the last ones",
    ),
    MetricColumn("unit", meaning="its unit; empty: none", brief=False),
    MetricColumn("version", meaning="the commit of the runs, or the day or moment at which they started"),
    MetricColumn("at", meaning="date of the commit, or of its first run, in UTC where the log names its time zone"),
    MetricColumn("runs", meaning="number of runs of the version; `run` is the first", brief=False, type="Int64"),
    MetricColumn("value", meaning="geometric mean over these runs; of speeds of the medians of the steady steps"),
    MetricColumn("level", meaning="number of the level that the version belongs to, from 1", type="Int64"),
    MetricColumn(
        "level_value", meaning="geometric mean over the versions of the level, without outliers; along the drift"
    ),
    MetricColumn("level_versions", meaning="number of these versions", brief=False, type="Int64"),
    MetricColumn("stands_out", meaning="`outlier`: 5 scaled MADs or more from its level, and the versions next to it "
                 "are not; `not confirmed`: the last version, p <= 1 % for a version of the level so far (Student's "
                 "t)"),
    MetricColumn("change", "1", None, "level_value / level_value before - 1, at its first version; else null"),
    MetricColumn("low", "1", None, "lower end of the interval of this change (Welch)", brief=False),
    MetricColumn("high", "1", None, "upper end", brief=False),
    MetricColumn("p", meaning="p-value of this change: the larger of a t-test's and a permutation test's; at most 5 %; "
                 "of few versions, where the scatter of all histories is known, a t-test's"),
    MetricColumn("with_it", meaning="settings that are other ones since this version, with both values"),
    MetricColumn("cause", meaning="`machine`, `settings` or both: what changed with it; `program`: neither did, and "
                 "settings of the machine show that it is the same; null: none does"),
)  # fmt: skip


@metric(
    title="history",
    needs=("runs",),
    columns=_COLUMNS,
    main="value",
    formula="levels: binary segmentation of the logarithms by Student's t; a cut needs p <= 1 % for normal scatter and "
    "p <= 5 % among 999 random orders; of fewer than 20 versions p <= 1 % by the scatter of all histories",
    source="Scott and Knott 1974; James and Matteson 2014, as used for nightly tests by Daly et al. 2020; Smyth 2004",
)
def history(tables: Tables, options: Options) -> MetricRows:
    """Metrics of like runs in the order of their commits or dates, and the versions that begin another level.

    A history has eight versions or more of one format, program and model with known commits or start times, from
    settings, provenance or names of logs. Runs of one commit, or of one day, are one version. A setting that goes back
    and forth, such as a batch size that each night tries, makes a history for each value. One that changes once and
    stays, such as a version of a library, does not: `with_it` names it beside the change that came with it. A slow
    drift is no level. `perflog track` shows all metrics, and why runs are left out.
    """
    settings = settings_by_run(tables)
    found = versions_of_tests(tables).tests if len(settings) >= FEWEST else ()
    figures = [(test, figure) for test in found for figure in _figures(tables, test.runs, options)]
    settings_by_test = {test.test: version_settings(test, settings) for test in found}
    courses = figure_courses(figures, settings_by_test, options.level)
    labels = tables.labels()
    return [row for course in courses if isinstance(course, FigureCourse) for row in history_rows(course, labels)]


def history_rows(history: FigureCourse, labels: Mapping[str, str | None]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a metric over versions, as the table has them."""
    changes = {change.place: change for change in history.changes}
    for number, level in enumerate(history.course.levels, 1):
        size = len(history.course.members(level))
        for place in range(level.start, level.stop):
            version = history.versions[place]
            is_last = place == len(history.versions) - 1 and history.is_last_off
            row = {
                "run": version.runs[0], "label": labels[version.runs[0]], "history": history.test,
                "figure": history.figure.name, "unit": history.figure.unit, "version": version.name, "at": version.at,
                "runs": history.runs[place], "value": history.values[place], "level": number,
                "level_value": history.expected(place),
                "level_versions": size, "stands_out": "outlier" if place in history.course.outliers
                else "not confirmed" if is_last else None,
            }  # fmt: skip
            if change := changes.get(place):
                row |= {"change": change.change, "low": change.low, "high": change.high, "p": change.p}
                row |= {"with_it": settings_summary(change.settings), "cause": change.cause}
            yield row


def settings_summary(changed: Sequence[ChangedSetting]) -> str | None:
    """Return the changed settings as a string, the first of many; None if there are none."""
    more = f"and {len(changed) - _MOST_SETTINGS} more" if len(changed) > _MOST_SETTINGS else ""
    return ", ".join(filter(None, [*map(str, changed[:_MOST_SETTINGS]), more])) or None


def _figures(tables: Tables, runs: Sequence[str], options: Options) -> Iterator[FigureOfRuns]:
    """Yield the metrics of the runs of a test: a speed, the clock, and losses."""
    speeds = {(name, unit): steady_medians(tables, name, options.warmup, runs) for name, unit in _SPEEDS.items()}
    complete = {key: by_run for key, by_run in speeds.items() if all(run in by_run for run in runs)}
    found = dict(list((complete or speeds).items())[:1])
    known = tables.rows("runs")
    found["elapsed_s", "s"] = dict(known.where(known.known("elapsed_s")).records("run", "elapsed_s"))
    losses = curves.table(tables, options)
    losses = losses[losses["place"].isna() & losses["key"].map(lambda key: "loss" in letter_words(key)).astype(bool)]
    values = losses["at_equal_step"].fillna(losses["last"])
    for key, run, value in zip(losses["key"], losses["run"], values, strict=True):
        found.setdefault((key, ""), {})[run] = value
    members = frozenset(runs)
    for (name, unit), by_run in found.items():
        test_values = {run: value for run, value in by_run.items() if run in members}
        yield FigureOfRuns(name, unit, better(name, unit), test_values)
