"""Time to train: what a run took by its own clock, and the score of the runs of a folder."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perflog.arrays import Mask
from perflog.grouping import grouped
from perflog.metrics.compared import ComparedColumn
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables

_SUCCESS = frozenset(("success", "True", "true"))
_SCORED = 3  # runs, from which on two can be left out

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="run: one run; folder: all runs with logs in one folder"),
    MetricColumn("folder", meaning="folder of the log", brief=False),
    MetricColumn("status", meaning="how the run ended, as it prints it; of a folder: number of runs for each"),
    MetricColumn(
        "n", meaning="number of runs; of a folder: those that ended in success, if its runs print how they ended"
    ),
    MetricColumn(
        "time_s", "s", "lower", "last reading of the run's clock, since its start; of a folder: mean of these runs"
    ),
    MetricColumn("sd_s", "s", None, "standard deviation over these runs"),
    MetricColumn("median_s", "s", "lower", "median over these runs"),
    MetricColumn("min_s", "s", "lower", "fastest run"),
    MetricColumn("max_s", "s", "lower", "slowest run"),
    MetricColumn("score_s", "s", "lower", "MLPerf's score: mean without the fastest and the slowest of all runs"),
    MetricColumn("differing", meaning="settings that are not the same in all runs of the folder"),
    MetricColumn(
        "first_line", meaning="line at which the clock starts; null if it counts from 0", brief=False, type="Int64"
    ),
    MetricColumn("last_line", meaning="line of the last reading", brief=False),
)


@metric(
    title="time to train",
    needs=("runs",),
    columns=_COLUMNS,
    main="time_s",
    formula="time = last reading of the run's clock - its start (MLPerf: run_stop - run_start); score = mean of the "
    "runs without the fastest and the slowest; a run that does not end in success counts as the slowest",
    source="mlcommons/training_policies, training_rules.adoc: benchmark results",
    compares=(ComparedColumn("run", "elapsed", "time_s", rows=lambda table: table[table["of"] == "run"]),),
)
def time_to_train(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Time of each run that prints a clock, then mean, spread and score of the runs of each folder.

    A score needs three runs of a folder, and is null if more than one of them did not end in success: was aborted, or
    prints no end where others do. Settings that differ between the runs are named, since only repeats of one
    configuration have a score that means anything.
    """
    runs = tables.rows("runs")
    known = list(runs.where(runs.known("elapsed_s")).dicts(*_OF_RUN))
    settings = {row["run"]: json.loads(row["config"] or "{}") for row in known}
    timed = [_timed_run(row, settings[row["run"]]) for row in known]
    folders = grouped((run["folder"], run) for run in timed)
    several = ((folder, members) for folder, members in folders.items() if len(members) > 1)
    return [*timed, *(_folder_row(folder, members, settings) for folder, members in several)]


_OF_RUN = ("run", "label", "log", "config", "elapsed_s", "elapsed_from", "elapsed_line")


def _timed_run(row: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    status = settings.get("status", settings.get("success"))
    return {
        "run": row["run"], "label": row["label"], "of": "run", "n": 1, "time_s": row["elapsed_s"],
        "folder": os.path.dirname(row["log"]), "status": None if status is None else str(status),
        "first_line": row["elapsed_from"], "last_line": row["elapsed_line"],
    }  # fmt: skip


def _folder_row(
    folder: str, runs: Sequence[Mapping[str, Any]], settings: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    all_times = np.array([run["time_s"] for run in runs], np.float64)
    succeeded = _succeeded(runs)
    times = all_times[succeeded]
    row: dict[str, Any] = {"label": os.path.basename(folder), "of": "folder", "folder": folder, "n": len(times)}
    row |= {"status": _statuses(runs), "differing": _differing([settings[run["run"]] for run in runs])}
    if len(times):
        row |= {"time_s": times.mean(), "median_s": np.median(times), "min_s": times.min(), "max_s": times.max()}
    if len(times) > 1:
        row["sd_s"] = times.std(ddof=1)
    if len(runs) >= _SCORED and succeeded.sum() >= len(runs) - 1:
        row["score_s"] = np.sort(np.where(succeeded, all_times, np.inf))[1:-1].mean()
    return row


def _succeeded(runs: Sequence[Mapping[str, object]]) -> Mask:
    """Flag the runs that ended in success: all, if no run of the folder prints how it ended."""
    if all(run["status"] is None for run in runs):
        return np.ones(len(runs), np.bool_)
    return np.array([run["status"] in _SUCCESS for run in runs], np.bool_)


def _statuses(runs: Sequence[Mapping[str, Any]]) -> str | None:
    counts = Counter(run["status"] for run in runs)
    if set(counts) == {None}:
        return None
    return ", ".join(f"{count} {status or 'without an end'}" for status, count in counts.items())


def _differing(settings: Sequence[Mapping[str, Any]]) -> str | None:
    names = dict.fromkeys(name for values in settings for name in values)
    differ = [name for name in names if len({json.dumps(values.get(name)) for values in settings}) > 1]
    return ", ".join(differ) or None
