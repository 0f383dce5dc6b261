"""Ranges of a profile that are not what their names say."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum
from typing import TYPE_CHECKING, Any

from perflog.analysis.lint.registry import Finding, rule
from perflog.analysis.lint.view import Run, Seen, seconds, some

if TYPE_CHECKING:
    import pandas as pd

GPU = ("kernel", "memcpy", "memset")
"""Kinds of rows that ran on the device."""

_HOLDS = 0.8  # of both ranges: the same rows
_ASYNC = 1.5  # GPU over host time of a range
_LONGER = 2.0  # one of numbered ranges over their median
_LIKE = 0.01  # as much more as another range has
_NESTED = 1.05


def _ranges(run: Run) -> pd.DataFrame:
    """The ranges of a profile with the time of the GPU rows in their tables, by section."""
    rows = run["kernels"]
    ranges = rows[rows["kind"] == "range"].drop_duplicates("section").set_index("section")
    gpu = rows[rows["kind"].isin(GPU)].groupby("section")["time_s"].sum()
    found: pd.DataFrame = ranges.assign(gpu_s=gpu.reindex(ranges.index)).dropna(subset=["gpu_s"])
    return found


def _families(ranges: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Ranges entered once each whose names differ in a number alone: `Train step 0`, `Train step 1`."""
    once = ranges[ranges["calls"] == 1]
    for _, family in once.groupby(once["name"].str.replace(r"\d+", "#", regex=True)):
        if len(family) > 1 and family["name"].nunique() == len(family):
            yield family


@rule(
    code="range-holds-more",
    severity="warning",
    title="a range contains far more than its name says",
    why="Most of its GPU work is, row by row, that of another range that was entered less often: the range was left "
    "open until the other one ended. Its time, and its time per call, are not of what it is named for.",
    action="subtract the other range, or use the range inside it that times the thing itself",
    needs=("kernels",),
)
def range_holds_more(seen: Seen) -> Iterator[Finding]:
    """Pairs of ranges that share most GPU rows, equal in calls and time, the larger with more calls of its own."""
    for run in seen.runs:
        ranges = _ranges(run).sort_values("gpu_s", ascending=False)
        work = _work(run["kernels"])
        for i, (outer, one) in enumerate(ranges.iterrows()):
            inside = ranges.iloc[i + 1 :]
            for inner, two in inside[
                (inside["gpu_s"] >= _HOLDS * one["gpu_s"]) & (inside["calls"] < one["calls"])
            ].iterrows():
                same = work[outer] & work[inner]
                shared = fsum(time for *_, time in same)
                if shared < _HOLDS * one["gpu_s"]:
                    continue
                message = (
                    f"{one['name']} ({one['calls']} calls, {seconds(one['gpu_s'])} of GPU time) contains {two['name']} "
                    f"({two['calls']} calls, {seconds(two['gpu_s'])}): {len(same)} rows have the same calls and time "
                    f"in both, {seconds(shared)}"
                )
                numbers = {"outer": one["name"], "inner": two["name"], "shared": shared}
                yield Finding(run.id, message, {run.id: [one["line"], two["line"]]}, numbers)


def _work(rows: pd.DataFrame) -> dict[Any, set[tuple[str, int, float]]]:
    """Name, calls and time of each GPU row, by section."""
    gpu = rows[rows["kind"].isin(GPU)]
    cells = {section: (g["name"], g["calls"], g["time_s"]) for section, g in gpu.groupby("section")}
    return {section: set(zip(*columns, strict=True)) for section, columns in cells.items()}


@rule(
    code="range-host-time",
    severity="warning",
    title="the host time of a range says nothing of its GPU time",
    why="A range ends when the host has launched its work, not when the GPU has done it, unless the host waits inside. "
    "Its own time is that of launching.",
    action="use the GPU rows of the range, and never the ratio of both",
    needs=("kernels",),
)
def range_host_time(seen: Seen) -> Iterator[Finding]:
    """Ranges whose GPU rows take over 1.5 times as long as the range itself."""
    for run in seen.runs:
        ranges = _ranges(run)
        found = ranges[ranges["gpu_s"] > _ASYNC * ranges["time_s"]]
        if len(found):
            found = found.sort_values("gpu_s", ascending=False)
            said = (
                f"{n} {seconds(t)} on the host, {seconds(g)} on the GPU"
                for n, t, g in zip(found["name"], found["time_s"], found["gpu_s"], strict=True)
            )
            message = f"{len(found)} of {len(ranges)} ranges launch more work than fits their time: {some(said, 3)}"
            ratio = {n: float(g / t) for n, t, g in zip(found["name"], found["time_s"], found["gpu_s"], strict=True)}
            yield Finding(run.id, message, {run.id: found["line"]}, {"gpu_over_host": ratio})


@rule(
    code="ranges-overlap",
    severity="note",
    title="ranges nest: their times must not be added up",
    why="The work of an inner range is in all ranges around it as well.",
    action="add up ranges of one level only",
    needs=("kernels",),
)
def ranges_overlap(seen: Seen) -> Iterator[Finding]:
    """GPU time of all ranges above that of the table without range."""
    for run in seen.runs:
        ranges, rows = _ranges(run), run["kernels"]
        every = rows[rows["range"].isna() & rows["kind"].isin(GPU)]["time_s"].sum()
        total = float(ranges["gpu_s"].sum())
        if every and total > _NESTED * every:
            message = f"{len(ranges)} ranges hold {seconds(total)} of GPU time, the profile {seconds(every)}"
            yield Finding(run.id, message, {run.id: ranges["line"]}, {"ranges": total, "profile": float(every)})


@rule(
    code="profile-cut",
    severity="warning",
    title="the profiler was stopped inside a range",
    why="What ran after the last complete range is in the totals, but in no range of its kind: totals over the number "
    "of ranges are too high, and some ranges hold one step more than others.",
    action="divide totals by the steps that really ran, or stop the profiler between two steps",
    needs=("kernels",),
)
def profile_cut(seen: Seen) -> Iterator[Finding]:
    """What numbered ranges leave of the kernel calls is just what one of them has; or the tool says so itself."""
    for run in seen.runs:
        said: list[str] = []
        lines: list[int] = []
        numbers: dict[str, Any] = {}
        for family in _families(_ranges(run)):
            left, like = _left(run["kernels"], family)
            if like:
                names = list(family["name"])
                said.append(
                    f"{names[0]} to {names[-1]} leave {left:,} kernel calls of the profile, of each kernel as many as "
                    f"{like} has: one more was begun and has no range"
                )
                lines += family["line"].tolist()
                numbers |= {"kernel_calls_left": left, "like": like}
        values = run["values"]
        told = values[values["key"].str.startswith("invalid_") & (values["value"] > 0)]
        for key, value, line in told[["key", "value", "line"]].itertuples(index=False):
            said.append(f"the profiler reports {key.replace('_', ' ')}: {value:.0f}")
            lines.append(line)
            numbers[key] = value
        if said:
            yield Finding(run.id, "; ".join(said), {run.id: lines}, numbers)


def _left(rows: pd.DataFrame, family: pd.DataFrame) -> tuple[int, str]:
    """Kernel calls of the profile that no range of the family has, and the range with just these; "" if none has."""
    kernels = rows[rows["kind"] == "kernel"]
    calls = kernels.assign(section=kernels["section"].where(kernels["range"].notna(), 0))
    table = calls.pivot_table(index="name", columns="section", values="calls", aggfunc="sum", fill_value=0)
    if 0 not in table:
        return 0, ""
    mine = [s for s in family.index if s in table]
    left = table[0] - table[mine].sum(axis=1)
    total = int(left.sum())
    like = [str(family["name"][s]) for s in mine if total and (table[s] == left).all()]
    return total, next(iter(like), "")


@rule(
    code="range-outlier",
    severity="note",
    title="one of numbered ranges holds much more than the others",
    why="It is no range like the others: a first step, a validation, a checkpoint is inside. A mean over them is that "
    "of none.",
    action="leave it out of the mean, or subtract what else it holds",
    needs=("kernels",),
)
def range_outlier(seen: Seen) -> Iterator[Finding]:
    """GPU time above twice the median of ranges that differ in a number alone."""
    for run in seen.runs:
        ranges = _ranges(run)
        for family in _families(ranges):
            middle = float(family["gpu_s"].median())
            for _, one in family[family["gpu_s"] > _LONGER * middle].iterrows():
                more = one["gpu_s"] - middle
                others = ranges[~ranges.index.isin(family.index)]
                like = others[(others["gpu_s"] / more - 1).abs() < _LIKE]["name"]
                inside = f": as much more as {like.iloc[0]} has" if len(like) else ""
                message = f"{one['name']} {seconds(one['gpu_s'])} of GPU time, median {seconds(middle)}{inside}"
                yield Finding(run.id, message, {run.id: [one["line"]]}, {"gpu": one["gpu_s"], "median": middle})
