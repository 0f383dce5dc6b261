"""Ranges as a tree, found from what they hold.

A profiler's table gives, for each named range, the GPU activities launched in it and in the ranges inside it: calls and
time by name, and nothing of which range is inside which. Names say it badly: a range that is closed late holds far more
than it is called after. So the tree is found from the numbers:

- Two ranges *share* at least a + b - all calls of an activity, where the whole profile has `all` of them. Where that
  is more than 0 for some activity, both were open when it was launched, one inside the other. The one with less GPU
  time per entry is taken for the inner one.
- A range *holds* another that it shares work with, if it has no fewer calls and no less time of every activity, and is
  no shorter on the host, in all and in its longest entry. `parent` is the holder with the least GPU time.
- A range that is used in many places is held by a large range only, or by none: `partly_in` names the innermost ranges
  that surely have some of it.
- Ranges are the *same work* where equal rows (name, calls, time) are nine tenths of the GPU time of both.

Shared work is known within bounds (inclusion and exclusion), and so is what is outside of all nested ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.metrics.kernels import with_activity
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric, natural_sort_key
from perflog.statistics.samples import Floats

if TYPE_CHECKING:
    import pandas as pd

Flags = npt.NDArray[np.bool_]

SAME = 0.9
"""Part of the GPU time of both ranges that must be in equal rows for them to be the same work."""

SYNCHRONOUS = 0.9
"""GPU time over host time from which the host time of a range is that of its GPU work."""

_ROUNDED = 1e-4  # two times printed with five digits are equal within this

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("range", meaning="its name (domain/name where two domains have it); depth first, the longest first"),
    MetricColumn("depth", meaning="number of ranges over it in the tree"),
    MetricColumn("parent", meaning="range of least GPU time that holds all its work; null where none does"),
    MetricColumn("places", meaning="number of ranges in partly_in"),
    MetricColumn("partly_in", meaning="innermost ranges that surely have some of its work, and not all", brief=False),
    MetricColumn("same_as", meaning="ranges that are the same work: equal rows are 90 % of both"),
    MetricColumn("entered", meaning="how often it was entered"),
    MetricColumn("gpu_s", "s", "lower", "inclusive: GPU time of all that was launched in it, nested ranges included"),
    MetricColumn("share", "1", None, "gpu_s / GPU time of the whole profile"),
    MetricColumn("exclusive_s", "s", "lower", "GPU time launched outside of any nested range, at most"),
    MetricColumn("exclusive_least_s", "s", None, "at least, if only ranges nest that surely share work", brief=False),
    MetricColumn("host_s", "s", "lower", "host time between its begin and its end"),
    MetricColumn(
        "clock", meaning="what host_s is: synchronous: time of the GPU work; asynchronous: of launching it; host: other"
    ),
    MetricColumn("domain", meaning="its domain", brief=False),
    MetricColumn("first_line", meaning="first line of its table", brief=False),
)


@metric(
    title="ranges, by what they hold",
    needs=("kernels",),
    columns=_COLUMNS,
    main="gpu_s",
    formula="inclusive = sum of GPU rows; exclusive = inclusive - what nested ranges surely have; B holds A: "
    "they share a + b - all > 0 calls, and B has no fewer calls and no less time of every activity",
    source="nvprof: the table of a range has all that was launched in it; bounds: inclusion and exclusion",
)
def ranges(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """The tree of the ranges of each run, with inclusive and exclusive GPU time and host time.

    `clock` is asynchronous where the GPU time is more than the host time: the range was left before its work was done
    (or the work ran in several streams at once), and its host time is that of launching. It is synchronous where GPU
    time is 90 % of the host time and more, and host where the rest is the host's own time, or waiting for others.
    """
    import pandas as pd

    found = []
    labels = dict(zip(tables["runs"]["run"], tables["runs"]["label"], strict=True))
    for run, rows in with_activity(tables["kernels"]).groupby("run", sort=False):
        if rows["range"].notna().any():
            found += [{"run": run, "label": labels.get(run), **row} for row in _rows(range_work(rows))]
    return pd.DataFrame(found, columns=[c.name for c in _COLUMNS])


@dataclass(frozen=True, eq=False)
class RangeWork:
    """What the ranges of a run launched: `calls` and `time` have a row per range and a column per GPU activity.

    `all_calls` and `all_time` are those of the whole profile (infinite where the log has no such table: then nothing is
    surely shared). `entered`, `host` and `longest`: entries, host time and longest entry of the ranges; NaN: unknown.
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

    def shared(self) -> Flags:
        """`[i, j]`: ranges i and j surely share work."""
        return np.array([(self.calls + mine > self.all_calls).any(axis=1) for mine in self.calls])

    def outer(self) -> Flags:
        """`[i, j]`: i surely shares work with j, and j is the outer one: it has more GPU time per entry."""
        per_entry = self.inclusive / self.entered
        found: Flags = self.shared() & (per_entry > per_entry[:, None])
        return found

    def holds(self) -> Flags:
        """`[i, j]`: j holds all of i."""
        more = 1 - _ROUNDED
        rows = [
            (self.calls >= calls).all(axis=1) & (self.time >= time * more).all(axis=1)
            for calls, time in zip(self.calls, self.time, strict=True)
        ]
        shorter = (self.host < self.host[:, None] * more) | (self.longest < self.longest[:, None] * more)
        found: Flags = np.array(rows) & self.shared() & ~shorter & self._after()
        return found

    def _after(self) -> Flags:
        """`[i, j]`: j stands behind i by GPU time, then host time. So no two ranges hold each other."""
        place = np.empty(len(self.names), dtype=np.int64)
        place[np.lexsort((self.host, self.inclusive))] = np.arange(len(self.names))
        found: Flags = place > place[:, None]
        return found

    def same(self, i: int) -> Flags:
        """Ranges that are the same work as i."""
        equal = (self.calls == self.calls[i]) & (self.time == self.time[i]) & (self.calls > 0)
        common = (equal * self.time[i]).sum(axis=1)
        found: Flags = (common > 0) & (common >= SAME * np.maximum(self.inclusive, self.inclusive[i]))
        found[i] = False
        return found

    def exclusive(self, i: int, inner: Flags) -> tuple[float, float]:
        """Least and most GPU seconds of i outside of the ranges `inner`, which may overlap, or lie in i in part."""
        mine, theirs = self.time[i], self.time[inner]
        surely = np.clip(theirs + mine - self.all_time, 0, mine).max(axis=0, initial=0.0)
        possibly = np.minimum(theirs, mine).sum(axis=0)
        most = float((mine - surely).sum())
        return min(float(np.clip(mine - possibly, 0, None).sum()), most), most


def range_work(rows: pd.DataFrame) -> RangeWork:
    """The ranges of one run, from its rows of table `kernels` as `split` gives them."""
    inner, whole = rows[rows["range"].notna()], rows[rows["range"].isna() & (rows["of"] == "gpu")]
    domains = [domain if isinstance(domain, str) else None for domain in inner["domain"]]
    keys = list(zip(domains, inner["range"], strict=True))
    first = dict(zip(reversed(keys), reversed(list(inner["line"])), strict=True))
    place = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    activity = {name: j for j, name in enumerate(dict.fromkeys([*whole["name"], *inner["name"][inner["of"] == "gpu"]]))}
    row = np.array([place[key] for key in keys])
    gpu, host = (inner["of"] == "gpu").to_numpy(), (inner["of"] == "range").to_numpy()

    def launched(value: str) -> Floats:
        found = np.zeros((len(place), len(activity)))
        columns = [activity[name] for name in inner["name"][gpu]]
        np.add.at(found, (row[gpu], columns), inner[value][gpu].to_numpy("float64"))
        return found

    def total(value: str) -> Floats:
        found = np.full(len(activity), 0.0 if len(whole) else np.inf)
        np.add.at(found, [activity[name] for name in whole["name"]], whole[value].to_numpy("float64"))
        return found

    def entry(value: str, by: np.ufunc) -> Floats:
        found = np.full(len(place), np.nan)
        found[row[host]] = 0.0
        by.at(found, row[host], inner[value][host].to_numpy("float64"))
        return found

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


def _rows(given: RangeWork) -> Iterator[dict[str, Any]]:
    """Rows of the metric, depth first."""
    inclusive, outer, holds = given.inclusive, given.outer(), given.holds()
    parents = [min(np.flatnonzero(row).tolist(), key=lambda j: inclusive[j], default=None) for row in holds]
    whole = given.all_time.sum()
    for i, depth in _depth_first(parents, inclusive):
        some = outer[i] & ~holds[i]
        innermost = some & ~outer[outer[i]].any(axis=0)  # nothing that is around i too is inside of them
        partly = sorted((given.names[j] for j in np.flatnonzero(innermost)), key=natural_sort_key)
        same = sorted((given.names[j] for j in np.flatnonzero(given.same(i))), key=natural_sort_key)
        least, most = given.exclusive(i, outer[:, i])
        yield {
            "range": given.names[i],
            "depth": depth,
            "parent": None if (parent := parents[i]) is None else given.names[parent],
            "places": len(partly),
            "partly_in": ", ".join(partly) or None,
            "same_as": ", ".join(same) or None,
            "entered": None if np.isnan(given.entered[i]) else int(given.entered[i]),
            "gpu_s": inclusive[i],
            "share": inclusive[i] / whole if 0 < whole < np.inf else None,
            "exclusive_s": most,
            "exclusive_least_s": least,
            "host_s": given.host[i],
            "clock": _clock(inclusive[i], given.host[i]),
            "domain": given.domains[i],
            "first_line": given.lines[i],
        }


def _depth_first(parents: Sequence[int | None], size: Floats) -> Iterator[tuple[int, int]]:
    """Ranges with their depth, each behind its parent, the largest first."""
    order = np.argsort(-size, kind="stable")
    stack = [(int(i), 0) for i in reversed(order) if parents[i] is None]
    while stack:
        i, depth = stack.pop()
        yield i, depth
        stack += [(int(j), depth + 1) for j in reversed(order) if parents[j] == i]


def _clock(gpu: float, host: float) -> str | None:
    if not host > 0:
        return None
    if gpu > host:
        return "asynchronous"
    return "synchronous" if gpu >= SYNCHRONOUS * host else "host"
