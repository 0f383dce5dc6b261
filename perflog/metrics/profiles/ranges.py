"""The tree of the ranges of a profile, derived from the work that each range contains.

A profiler's table lists, for each named range, the GPU activities launched in it and in the ranges inside it: calls and
time by name. It does not show which range is inside which. Names do not show it either: a range that is closed late
contains far more than its name suggests. So the tree is derived from the numbers:

- Two ranges with a and b calls of an activity *share* at least a + b - all of these calls, if the whole profile has
  `all` of them. If this is more than 0 for some activity, both ranges were open at its launch, one inside the other.
  The range with less GPU time per entry counts as the inner one.
- A range *holds* another range that it shares work with, if it has at least as many calls and as much time of every
  activity, and is at least as long on the host, in total and in its longest entry. `parent` is the holder with the
  least GPU time.
- A range that is used in several ranges is held only by a large range, or by none: `partly_in` lists the innermost ones
  that certainly contain some of its work.
- Ranges are the *same work* if equal rows (name, calls, time) are 90 % of the GPU time of both.

Shared work is known within bounds (inclusion and exclusion), and so is the work outside of all nested ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Mask
from perflog.metrics.options import Options
from perflog.metrics.profiles.kernels import with_activity
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.tables.row_order import natural_sort_key

if TYPE_CHECKING:
    import pandas as pd


SAME = 0.9
"""Two ranges are the same work if equal rows hold at least this share of the GPU time of both."""

SYNCHRONOUS = 0.9
"""The host time of a range is the time of its GPU work if GPU time / host time is at least this (and at most 1)."""

_ROUNDED = 1e-4  # two times printed with five digits are equal within this share

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("range", meaning="name (domain/name if two domains have it); depth first, the longest first"),
    MetricColumn("depth", meaning="number of ranges above it in the tree"),
    MetricColumn("parent", meaning="the range with the least GPU time that contains all its work; null: none"),
    MetricColumn("places", meaning="number of ranges in partly_in"),
    MetricColumn("partly_in", meaning="innermost ranges that certainly contain some of its work, not all", brief=False),
    MetricColumn("same_as", meaning="ranges that are the same work: equal rows are 90 % of both"),
    MetricColumn("entered", meaning="number of times it was entered"),
    MetricColumn("gpu_s", "s", "lower", "inclusive GPU time: all that was launched in it, nested ranges included"),
    MetricColumn("share", "1", None, "gpu_s / GPU time of the whole profile"),
    MetricColumn("exclusive_s", "s", "lower", "GPU time launched outside of nested ranges, upper bound"),
    MetricColumn("exclusive_least_s", "s", None, "lower bound, if only ranges that share work nest", brief=False),
    MetricColumn("host_s", "s", "lower", "host time between begin and end"),
    MetricColumn("clock", meaning="host_s is time of: synchronous: the GPU work; asynchronous: launching; host: other"),
    MetricColumn("domain", meaning="domain of the range", brief=False),
    MetricColumn("first_line", meaning="first line of its table", brief=False),
)


@metric(
    title="ranges, by what they hold",
    needs=("kernels",),
    columns=_COLUMNS,
    main="gpu_s",
    formula="inclusive = sum of GPU rows; exclusive = inclusive - work certainly in nested ranges; B holds A: "
    "they share a + b - all > 0 calls, and B has at least as many calls and as much time of every activity",
    source="nvprof: the table of a range lists all that was launched in it; bounds: inclusion and exclusion",
)
def ranges(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """The tree of the ranges of each run, with inclusive and exclusive GPU time and host time.

    `clock` is asynchronous if the GPU time is more than the host time: the range ended before its work was done, or
    the work ran in several streams at once, so the host time is launch time. It is synchronous if the GPU time is at
    least 90 % of the host time. It is host if the host worked itself, or waited for others.

    Example:
        >>> table = perflog.metrics.ranges(perflog.find_runs("reference:nvprof.txt"))
        >>> table[["range", "depth", "parent", "gpu_s", "host_s"]].head(2).round(3)
                     range  depth parent  gpu_s  host_s
        ...
    """
    tree = []
    for run, rows in with_activity(tables).groupby("run", sort=False):
        if rows["range"].notna().any():
            tree += [{"run": run, **row} for row in _rows(range_work(rows))]
    return tree


class RangeWork(Struct, frozen=True, eq=False):
    """GPU work launched in the ranges of a run: `calls` and `time` have a row per range and a column per activity.

    `all_calls` and `all_time`: calls and time of the whole profile, infinite if the log has no such table: then no work
    is certainly shared. `entered`, `host`, `longest`: entries, host time and longest entry of the ranges; NaN: unknown.
    """

    names: tuple[str, ...]
    domains: tuple[str | None, ...]
    lines: tuple[int, ...]
    calls: Floats
    time: Floats
    all_calls: Floats
    all_time: Floats
    entered: Floats
    host: Floats
    longest: Floats

    @property
    def inclusive(self) -> Floats:
        """GPU seconds of each range."""
        total: Floats = self.time.sum(axis=1)
        return total

    def shared(self) -> Mask:
        """`[i, j]`: ranges i and j certainly share work."""
        return np.array([(self.calls + calls > self.all_calls).any(axis=1) for calls in self.calls])

    def outer(self) -> Mask:
        """`[i, j]`: i certainly shares work with j, and j is the outer one: it has more GPU time per entry."""
        per_entry = self.inclusive / self.entered
        flags: Mask = self.shared() & (per_entry > per_entry[:, None])
        return flags

    def holds(self) -> Mask:
        """`[i, j]`: j holds all work of i."""
        more = 1 - _ROUNDED
        rows = [
            (self.calls >= calls).all(axis=1) & (self.time >= time * more).all(axis=1)
            for calls, time in zip(self.calls, self.time, strict=True)
        ]
        shorter = (self.host < self.host[:, None] * more) | (self.longest < self.longest[:, None] * more)
        flags: Mask = np.array(rows) & self.shared() & ~shorter & self._after()
        return flags

    def _after(self) -> Mask:
        """`[i, j]`: j comes after i by GPU time, then host time. So no two ranges hold each other."""
        place = np.empty(len(self.names), dtype=np.int64)
        place[np.lexsort((self.host, self.inclusive))] = np.arange(len(self.names))
        flags: Mask = place > place[:, None]
        return flags

    def same(self, i: int) -> Mask:
        """Flags of the ranges that are the same work as i."""
        equal = (self.calls == self.calls[i]) & (self.time == self.time[i])
        common = (equal * self.time[i]).sum(axis=1)
        flags: Mask = (common > 0) & (common >= SAME * np.maximum(self.inclusive, self.inclusive[i]))
        flags[i] = False
        return flags

    def exclusive(self, i: int, inner: Mask) -> tuple[float, float]:
        """Bounds of the GPU seconds of i outside of the ranges `inner`, which may overlap or lie only partly in i."""
        time, inner_times = self.time[i], self.time[inner]
        surely = np.clip(inner_times + time - self.all_time, 0, time).max(axis=0, initial=0.0)
        possibly = np.minimum(inner_times, time).sum(axis=0)
        most = float((time - surely).sum())
        return min(float(np.clip(time - possibly, 0, None).sum()), most), most


def range_work(rows: pd.DataFrame) -> RangeWork:
    """Return the work of the ranges of one run, from its rows of `with_activity`."""
    inner, profile = rows[rows["range"].notna()], rows[rows["range"].isna() & (rows["of"] == "gpu")]
    domains = [domain if isinstance(domain, str) else None for domain in inner["domain"]]
    keys = list(zip(domains, inner["range"], strict=True))
    first = dict(zip(reversed(keys), reversed(list(inner["line"])), strict=True))
    place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    activities = dict.fromkeys([*profile["name"], *inner["name"][inner["of"] == "gpu"]])
    activity = {name: j for j, name in enumerate(activities)}
    row = np.array([place[key] for key in keys])
    gpu, host = (inner["of"] == "gpu").to_numpy(), (inner["of"] == "range").to_numpy()

    def launched(value: str) -> Floats:
        sums = np.zeros((len(place), len(activity)))
        columns = [activity[name] for name in inner["name"][gpu]]
        np.add.at(sums, (row[gpu], columns), inner[value][gpu].to_numpy("float64"))
        return sums

    def total(value: str) -> Floats:
        sums = np.full(len(activity), 0.0 if len(profile) else np.inf)
        np.add.at(sums, [activity[name] for name in profile["name"]], profile[value].to_numpy("float64"))
        return sums

    def entry(value: str, by: np.ufunc) -> Floats:
        values = np.full(len(place), np.nan)
        values[row[host]] = 0.0
        by.at(values, row[host], inner[value][host].to_numpy("float64"))
        return values

    names = [name for _, name in place]
    return RangeWork(
        names=tuple(f"{domain}/{name}" if domain and names.count(name) > 1 else name for domain, name in place),
        domains=tuple(domain for domain, _ in place),
        lines=tuple(int(first[key]) for key in place),
        calls=launched("calls"),
        time=launched("time_s"),
        all_calls=total("calls"),
        all_time=total("time_s"),
        entered=entry("calls", np.add),
        host=entry("time_s", np.add),
        longest=entry("max_s", np.maximum),
    )


def _rows(work: RangeWork) -> Iterator[dict[str, object]]:
    """Rows of the metric, depth first."""
    inclusive, outer, holds = work.inclusive, work.outer(), work.holds()
    parents = [min(np.flatnonzero(row).tolist(), key=lambda j: inclusive[j], default=None) for row in holds]
    total = work.all_time.sum()
    for i, depth in _depth_first(parents, inclusive):
        partial = outer[i] & ~holds[i]
        innermost = partial & ~outer[outer[i]].any(axis=0)  # no other range around i is inside of them
        partly = sorted((work.names[j] for j in np.flatnonzero(innermost)), key=natural_sort_key)
        same = sorted((work.names[j] for j in np.flatnonzero(work.same(i))), key=natural_sort_key)
        least, most = work.exclusive(i, outer[:, i])
        yield {
            "range": work.names[i],
            "depth": depth,
            "parent": None if (parent := parents[i]) is None else work.names[parent],
            "places": len(partly),
            "partly_in": ", ".join(partly) or None,
            "same_as": ", ".join(same) or None,
            "entered": None if np.isnan(work.entered[i]) else int(work.entered[i]),
            "gpu_s": inclusive[i],
            "share": inclusive[i] / total if 0 < total < np.inf else None,
            "exclusive_s": most,
            "exclusive_least_s": least,
            "host_s": work.host[i],
            "clock": _clock(inclusive[i], work.host[i]),
            "domain": work.domains[i],
            "first_line": work.lines[i],
        }


def _depth_first(parents: Sequence[int | None], size: Floats) -> Iterator[tuple[int, int]]:
    """Ranges with their depth, each after its parent, the largest first."""
    order = np.argsort(-size, kind="stable")
    stack = [(int(i), 0) for i in reversed(order) if parents[i] is None]
    while stack:
        i, depth = stack.pop()
        yield i, depth
        stack += [(int(j), depth + 1) for j in reversed(order) if parents[j] == i]


def _clock(gpu: float, host: float) -> str | None:
    """Value of column `clock` for GPU and host seconds of a range."""
    if not host > 0:
        return None
    if gpu > host:
        return "asynchronous"
    return "synchronous" if gpu >= SYNCHRONOUS * host else "host"
