"""Times of epochs: printed on lines, or the clocks of progress bars that count the steps of an epoch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.arrays import Floats, Ints
from perflog.formats.bars import MEAN_STEP_TIME
from perflog.metrics.compared import Measure, Sample, Steady
from perflog.metrics.directions import words_of
from perflog.metrics.options import Options
from perflog.metrics.possible import are_moments
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.step_series import most_frequent
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.tables.columns import Rows

EPOCH = "epoch"
_TIMES = frozenset("time duration took elapsed cost wall train training total seconds secs sec s".split())
"""Words in names of the time of an epoch, on a line that is of an epoch and of no step."""
_OWN = _TIMES | {EPOCH, "per"}
_FEWEST = 2
_COUNTS_ON = 1.5  # the last of two or more times is as many times the first, and none is less than the one before
_EVEN, _FEW = 2.0, 4  # largest difference of so many times over the smallest: a clock, if the first epoch took long

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("epoch", meaning="number of the epoch, as printed"),
    MetricColumn("time_s", "s", "lower", "its time; if several ranks print it, of the slowest"),
    MetricColumn("by", meaning="name: a time on the line of the epoch; bar: the progress bar of its steps"),
    MetricColumn("name", meaning="name of the printed time; null for a bar"),
    MetricColumn("line", meaning="line that prints it", brief=False),
)


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """The median time of the epochs of each run."""
    for run, rows in epoch_times(tables).items():
        if run in steady.cuts and run not in steady.last:
            yield Measure("run", EPOCH), run, np.array([median(np.array([row["time_s"] for row in rows]))])


@metric(
    title="times of epochs",
    needs=("runs",),
    columns=_COLUMNS,
    main="time_s",
    formula="the time on the line of an epoch; else the clock of its progress bar at the last step, or steps * the "
    "mean time of a step that the bar prints there",
    source="own",
    compares=(_samples,),
)
def epochs(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take options)
    """Time of each epoch of the runs that print two or more of them.

    Whether the time has the evaluation in it depends on the program. A time that counts on from epoch to epoch is of no
    epoch.
    """
    return [row for rows in epoch_times(tables).values() for row in rows]


@computed_once
def epoch_times(tables: Tables) -> dict[str, list[dict[str, object]]]:
    """Return the rows of metric `epochs` by run."""
    found = {}
    for run in tables.labels():
        rows = _by_name(tables, run) or _by_bar(tables, run)
        if len(rows) >= _FEWEST:
            found[run] = rows
    return found


def names_epoch_time(key: str) -> bool:
    """Return whether a name says that its value is the time of an epoch: `epoch_time`, `time per epoch`."""
    words = words_of(key)
    return EPOCH in words and len(words) > 1 and _OWN.issuperset(words)


def _by_name(tables: Tables, run: str) -> list[dict[str, object]]:
    """Return the times on the lines of epochs: by a name that says it, else by one that only says that it is a time."""
    rows = tables.rows_of("values", run)
    keys = [key for key in rows.counts("key") if key.lower() == EPOCH]
    if not keys:
        return []
    rows = rows.where(rows.known("value"))
    numbers = rows.where(rows.one_of("key", keys))
    number_of = {(line, part): value for line, part, value in numbers.records("line", "part", "value")}
    seconds = rows.where(rows.one_of("unit", {"s"}))
    names = list(seconds.counts("key"))
    own = [name for name in names if names_epoch_time(name)]
    for name in (*own, *(name for name in names if _TIMES.issuperset(words_of(name)))):
        times = seconds.where(seconds.one_of("key", {name}))
        times = times if name in own else times.where(~times.known("step"))
        epochs = np.array([number_of.get(place, -1.0) for place in times.records("line", "part")], np.float64)
        times, epochs = times.where(is_epoch := (epochs >= 0) & (epochs % 1 == 0)), epochs[is_epoch]
        if found := _rows(run, times, epochs.astype(np.int64), times["value"], "name", name):
            return found
    return []


def _by_bar(tables: Tables, run: str) -> list[dict[str, object]]:
    """Return the times of the bars that count the steps of an epoch, of those that reached their last step."""
    steps = tables.rows_of("steps", run)
    steps = steps.where(steps.known("step", "epoch") & (steps["copy"] == 1))
    if not len(steps):
        return []
    last = steps.where(steps["step"] == steps["step"].max())
    values = tables.rows_of("values", run)
    means = values.where(values.one_of("key", {MEAN_STEP_TIME}) & values.known("value"))
    mean_of = {(line, part): value for line, part, value in means.records("line", "part", "value")}
    printed = np.array([mean_of.get(place, np.nan) for place in last.records("line", "part")], np.float64)
    for times in (last["elapsed_s"], printed * last["step"]):
        ended = last.where(is_timed := times > 0)
        if found := _rows(run, ended, ended["epoch"], times[is_timed], "bar", None):
            return found
    return []


def _rows(run: str, rows: Rows, epochs: Ints, times: Floats, by: str, name: str | None) -> list[dict[str, object]]:
    """Return the slowest row of each epoch as rows of the metric; nothing if the times are of no epochs.

    A rank prints an epoch once, epochs go up, and their times are no moments and do not count on. Epochs that fewer
    ranks print than most are left out: the slowest may be missing.
    """
    places = list(zip(epochs.tolist(), rows["rank"].tolist(), rows["source"].tolist(), strict=True))
    is_once = len(set(places)) == len(places) and not (np.diff(epochs) < 0).any() and (times > 0).all()
    if not is_once or are_moments(times).any() or len(set(epochs.tolist())) < _FEWEST:
        return []
    by_epoch = groups_of(epochs)
    whole = by_epoch.sizes[by_epoch.inverse] >= most_frequent(by_epoch.sizes)
    order = np.lexsort((times, epochs))
    order = order[whole[order]]
    slowest = order[np.append(np.diff(epochs[order]) != 0, True)]
    if _count_on(times[slowest], is_certain=name is not None and names_epoch_time(name)):
        return []
    return [
        {"run": run, "epoch": int(epochs[k]), "time_s": float(times[k]), "by": by, "name": name,
         "line": int(rows["line"][k])}
        for k in slowest
    ]  # fmt: skip


def _count_on(times: Floats, is_certain: bool) -> bool:
    """Return whether times are of a clock that counts on. `is_certain`: by their name they are of epochs."""
    more = np.diff(times)
    if not len(more) or not (more > 0).all():
        return False
    is_even = len(times) >= _FEW and more.max() <= _EVEN * more.min()
    return bool(times[-1] >= _COUNTS_ON * times[0] or (is_even and not is_certain))
