"""Rules on profiler tables: rows that contradict themselves, first calls, names, and ranges that mislead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.analysis.lint.registry import Finding, LintedRun, LintInput, rule
from perflog.analysis.lint.wording import percent, seconds
from perflog.metrics.profiles.kernels import GPU_KINDS
from perflog.metrics.run_tables import cached
from perflog.tables.nulls import none_if_null, row_dicts
from perflog.units import count, first_few

if TYPE_CHECKING:
    import pandas as pd

_SHARE = 2e-4  # slack of a share: two decimals of a percent, and the rounding of both times
_SHARE_ONE_DECIMAL = 6e-4  # the same where a table prints one decimal
_AVERAGE = 0.01  # slack of an average: five digits, truncated and not rounded
_FIRST, _OTHERS = 0.5, 10  # one call: of the row's time, and over the mean of the others
_RELEVANT = 1e-3  # of the longest row: shorter calls do not matter
_EXPENSIVE = 0.1  # of the API time

_SAME_ROWS = 0.8  # of the GPU time of both ranges, in equal rows
_ASYNC = 1.5  # GPU over host time of a range
_LONGER = 2.0  # one of numbered ranges over their median
_LIKE = 0.01  # the extra time is within this of another range's time
_NESTED = 1.05


# --- rows ---------------------------------------------------------------------------------------------------------


@rule(
    code="row-inconsistent",
    severity="error",
    title="a row of a profile contradicts itself",
    why="Minimum, average and maximum are out of order, calls x average is not the time, or the shares do not match "
    "the times: rows are missing, or the table was edited.",
    action="do not use the table; export the profile again",
    needs=("kernels",),
)
def row_inconsistent(data: LintInput) -> Iterator[Finding]:
    """Check min <= avg <= max, calls x avg = time, share = time / time of its category, at printed precision."""
    for run in data.runs:
        rows = run.frame("kernels")
        wrong = {
            "min <= avg <= max": _average_outside(rows),
            "calls x avg = time": _product_differs(rows),
            "share = time / sum of times": _share_differs(rows),
        }
        failing = {formula: rows[mask] for formula, mask in wrong.items() if mask.any()}
        if failing:
            parts = (f"`{formula}` fails on {len(bad):,} of {len(rows):,} rows" for formula, bad in failing.items())
            lines = [line for bad in failing.values() for line in bad["line"]]
            numbers = {formula: len(bad) for formula, bad in failing.items()}
            yield Finding(run.id, "; ".join(parts), {run.id: lines}, numbers)


def _average_outside(rows: pd.DataFrame) -> pd.Series[bool]:
    slack = _AVERAGE * rows["avg_s"]
    return (rows["min_s"] > rows["avg_s"] + slack) | (rows["avg_s"] > rows["max_s"] + slack)


def _product_differs(rows: pd.DataFrame) -> pd.Series[bool]:
    calls = rows["calls"].astype("float64")
    return (rows["time_s"] - calls * rows["avg_s"]).abs() > _AVERAGE * rows["time_s"] + calls * 1e-9


def _share_differs(rows: pd.DataFrame) -> pd.Series[bool]:
    groups = rows.groupby(["section", "category"], dropna=False)
    one_decimal = (rows["share"] * 1e3 - (rows["share"] * 1e3).round()).abs() < 1e-6
    slack = one_decimal.groupby([rows["section"], rows["category"]], dropna=False).transform("all")
    slack = slack.map({True: _SHARE_ONE_DECIMAL, False: _SHARE})
    wrong = (rows["share"] - rows["time_s"] / groups["time_s"].transform("sum")).abs() > slack
    complete = (groups["share"].transform("sum") - 1).abs() < _AVERAGE  # else the table shows only its longest rows
    return wrong & complete


@rule(
    code="first-call",
    severity="warning",
    title="one call takes most of a row's time",
    why="No call takes the average time: one call, mostly the first, includes set-up. In a longer run the "
    "average and the share of the row are smaller.",
    action="use (time - max) / (calls - 1) as the time of a call, and report the first call separately",
    needs=("kernels",),
)
def first_call(data: LintInput) -> Iterator[Finding]:
    """Rows of several calls with one that takes over half of their time and ten times the mean of the others."""
    for run in data.runs:
        rows = run.frame("kernels")
        rows = rows[(rows["calls"] > 1) & (rows["max_s"] >= _RELEVANT * rows["time_s"].max())]
        others = (rows["time_s"] - rows["max_s"]) / (rows["calls"].astype("float64") - 1)
        dominated = (rows["max_s"] > _FIRST * rows["time_s"]) & (rows["max_s"] > _OTHERS * others)
        rows = rows.assign(rest_s=others)[dominated]
        if not len(rows):
            continue
        longest = rows.sort_values("max_s", ascending=False, kind="stable").drop_duplicates("name")
        listed = (
            f"one call of {_with_range(r)} takes {seconds(r['max_s'])} of {seconds(r['time_s'])} in {r['calls']} calls "
            f"(the others {seconds(r['rest_s'])} on average)"
            for r in row_dicts(longest)
        )
        message = f"{count(len(rows), 'row')}: {first_few(listed, 3)}"
        numbers = {"rows": longest[["name", "time_s", "max_s", "rest_s"]].head(10).to_dict("records")}
        yield Finding(run.id, message, {run.id: rows["line"]}, numbers)


def _with_range(row: Mapping[str, object]) -> str:
    """Return the name of a row, and the range of its table: the other tables hold other calls of the name."""
    range_name = none_if_null(row["range"])
    if range_name is None or row["kind"] == "range":
        return f"{'range ' * (row['kind'] == 'range')}{row['name']}"
    return f"{row['name']} in range {range_name}"


@rule(
    code="calls-unlisted",
    severity="note",
    title="expensive API calls are in no range",
    why="Tables of ranges list only calls that put work on the GPU. Waiting for the GPU is missing there: API shares "
    "of a range are not shares of its host time.",
    action="look for waiting in the table without a range",
    needs=("kernels",),
)
def calls_unlisted(data: LintInput) -> Iterator[Finding]:
    """API calls above 10 % of the API time that are in no range, where ranges list API calls."""
    for run in data.runs:
        api = run.frame("kernels")[run.frame("kernels")["kind"] == "api"]
        in_range, whole = api[api["range"].notna()], api[api["range"].isna()]
        missing = whole[~whole["name"].isin(in_range["name"])]
        share = missing["time_s"] / whole["time_s"].sum()
        expensive = share > _EXPENSIVE
        if len(in_range) and expensive.any():
            listed = (f"{percent(x)} in {n}" for n, x in zip(missing["name"][expensive], share[expensive], strict=True))
            message = f"API time outside of ranges: {first_few(listed)}"
            lines = missing["line"][expensive]
            yield Finding(run.id, message, {run.id: lines}, {"share": float(np.max(share))})


@rule(
    code="name-twice",
    severity="note",
    title="a name occurs twice in a table",
    why="The name is not unique: a lookup by name finds one of the rows, a join duplicates them.",
    action="add up the rows of a name before you use its time",
    needs=("kernels",),
)
def name_twice(data: LintInput) -> Iterator[Finding]:
    """Rows of the same section, category and name."""
    for run in data.runs:
        rows = run.frame("kernels")
        repeated = rows[rows.duplicated(["section", "category", "name"], keep=False)]
        if len(repeated):
            message = f"{count(len(repeated), 'row')} share a name: {first_few(dict.fromkeys(repeated['name']))}"
            names = repeated["name"].unique().tolist()
            yield Finding(run.id, message, {run.id: repeated["line"]}, {"names": names})


# --- ranges -------------------------------------------------------------------------------------------------------


def _ranges(run: LintedRun) -> pd.DataFrame:
    """The ranges of a profile by section, with `gpu_s`: the time of the GPU rows in the range's table."""
    return cached(run.data.tables, ("ranges", run.id), lambda: _with_gpu_time(run.frame("kernels")))


def _with_gpu_time(rows: pd.DataFrame) -> pd.DataFrame:
    ranges = rows[rows["kind"] == "range"].drop_duplicates("section").set_index("section")
    gpu = rows[rows["kind"].isin(GPU_KINDS)].groupby("section")["time_s"].sum()
    with_gpu: pd.DataFrame = ranges.assign(gpu_s=gpu.reindex(ranges.index)).dropna(subset=["gpu_s"])
    return with_gpu


def _numbered_ranges(ranges: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Groups of ranges entered once each, with names that differ only in a number: `Train step 0`, `Train step 1`."""
    single = ranges[ranges["calls"] == 1]
    for _, group in single.groupby(single["name"].str.replace(r"\d+", "#", regex=True)):
        if len(group) > 1 and group["name"].nunique() == len(group):
            yield group


@rule(
    code="range-holds-more",
    severity="warning",
    title="a range contains far more than its name says",
    why="Most of its GPU work is, row by row, the work of another range that was entered less often: it was left "
    "open until the other one ended. Its time, and its time per call, do not measure the work that it is named for.",
    action="subtract the other range, or use a range inside it that times only the named work",
    needs=("kernels",),
)
def range_holds_more(data: LintInput) -> Iterator[Finding]:
    """Pairs of ranges that share most GPU rows, equal in calls and time, where the larger was entered more often."""
    for run in data.runs:
        ranges = _ranges(run).sort_values("gpu_s", ascending=False)
        work = _gpu_rows_by_section(run.frame("kernels"))
        for i, (outer_section, outer) in enumerate(ranges.iterrows()):
            shorter = ranges.iloc[i + 1 :]
            similar = (shorter["gpu_s"] >= _SAME_ROWS * outer["gpu_s"]) & (shorter["calls"] < outer["calls"])
            for inner_section, inner in shorter[similar].iterrows():
                same = work[outer_section] & work[inner_section]
                shared = fsum(time for *_, time in same)
                if shared < _SAME_ROWS * outer["gpu_s"]:
                    continue
                around, inside = count(outer["calls"], "call"), count(inner["calls"], "call")
                message = (
                    f"{outer['name']} ({around}, {seconds(outer['gpu_s'])} of GPU time) contains "
                    f"{inner['name']} ({inside}, {seconds(inner['gpu_s'])}): "
                    f"{count(len(same), 'row')} with the same calls and time in both, {seconds(shared)}"
                )
                numbers = {"outer": outer["name"], "inner": inner["name"], "shared": shared}
                yield Finding(run.id, message, {run.id: [outer["line"], inner["line"]]}, numbers)


def _gpu_rows_by_section(rows: pd.DataFrame) -> dict[Any, set[tuple[str, int, float]]]:
    """Name, calls and time of each GPU row, by section."""
    gpu = rows[rows["kind"].isin(GPU_KINDS)]
    cells = {section: (g["name"], g["calls"], g["time_s"]) for section, g in gpu.groupby("section")}
    return {section: set(zip(*columns, strict=True)) for section, columns in cells.items()}


@rule(
    code="range-host-time",
    severity="warning",
    title="the host time of a range is not its GPU time",
    why="A range ends when the host has launched its work, not when the GPU has done it, unless the host waits inside "
    "the range. The range's own time is the time to launch.",
    action="use the GPU rows of the range, not the ratio of the two times",
    needs=("kernels",),
)
def range_host_time(data: LintInput) -> Iterator[Finding]:
    """Ranges with GPU rows that take over 1.5 times as long as the range itself."""
    for run in data.runs:
        ranges = _ranges(run)
        longer = ranges[ranges["gpu_s"] > _ASYNC * ranges["time_s"]].sort_values("gpu_s", ascending=False)
        if len(longer):
            times = list(zip(longer["name"], longer["time_s"], longer["gpu_s"], strict=True))
            listed = (f"{name} {seconds(host)} on the host and {seconds(gpu)} on the GPU" for name, host, gpu in times)
            message = (
                f"{len(longer)} of {len(ranges)} ranges launch more work than fits their time: {first_few(listed, 3)}"
            )
            ratio = {name: float(gpu / host) for name, host, gpu in times}
            yield Finding(run.id, message, {run.id: longer["line"]}, {"gpu_over_host": ratio})


@rule(
    code="ranges-overlap",
    severity="note",
    title="ranges are nested: their times must not be added up",
    why="The work of an inner range is also in every range around it.",
    action="add up ranges of one level only",
    needs=("kernels",),
)
def ranges_overlap(data: LintInput) -> Iterator[Finding]:
    """GPU time of all ranges above the GPU time of the table without a range."""
    for run in data.runs:
        ranges, rows = _ranges(run), run.frame("kernels")
        profile = rows[rows["range"].isna() & rows["kind"].isin(GPU_KINDS)]["time_s"].sum()
        total = float(ranges["gpu_s"].sum())
        if len(ranges) and profile > 0 and total > _NESTED * profile:
            message = (
                f"{len(ranges)} ranges add up to {seconds(total)} of GPU time, the whole profile to {seconds(profile)}"
            )
            yield Finding(run.id, message, {run.id: ranges["line"]}, {"ranges": total, "profile": float(profile)})


@rule(
    code="profile-cut",
    severity="warning",
    title="the profiler was stopped inside a range",
    why="Work after the last complete range is in the totals, but in no range of its kind. Totals over the number of "
    "ranges are too high, and some ranges hold one step more than others.",
    action="divide totals by the steps that really ran, or stop the profiler between two steps",
    needs=("kernels",),
)
def profile_cut(data: LintInput) -> Iterator[Finding]:
    """Kernel calls outside of numbered ranges that equal the calls of one such range; or the tool reports the cut."""
    for run in data.runs:
        parts: list[str] = []
        lines: list[int] = []
        numbers: dict[str, Any] = {}
        for group in _numbered_ranges(_ranges(run)):
            left, like = _calls_left(run.frame("kernels"), group)
            if like:
                names = list(group["name"])
                parts.append(
                    f"{left:,} kernel calls are outside of {names[0]} to {names[-1]}, of each kernel as many as in "
                    f"{like}: one more range began and did not end"
                )
                lines += group["line"].tolist()
                numbers |= {"kernel_calls_left": left, "like": like}
        values = run["values"].where(run["values"]["value"] > 0)
        for key, value, line in values.records("key", "value", "line"):
            if not key.startswith("invalid_"):
                continue
            parts.append(f"the profiler reports {key.replace('_', ' ')}: {value:.0f}")
            lines.append(line)
            numbers[key] = value
        if parts:
            yield Finding(run.id, "; ".join(parts), {run.id: lines}, numbers)


def _calls_left(rows: pd.DataFrame, group: pd.DataFrame) -> tuple[int, str]:
    """Kernel calls of the profile that are in no range of the group, and the range with exactly these; "" if none."""
    kernels = rows[rows["kind"] == "kernel"]
    calls = kernels.assign(section=kernels["section"].where(kernels["range"].notna(), 0))
    table = calls.pivot_table(index="name", columns="section", values="calls", aggfunc="sum", fill_value=0)
    if 0 not in table:
        return 0, ""
    sections = [s for s in group.index if s in table]
    left = table[0] - table[sections].sum(axis=1)
    total = int(left.sum())
    like = [str(group["name"][s]) for s in sections if total and (table[s] == left).all()]
    return total, next(iter(like), "")


@rule(
    code="range-outlier",
    severity="note",
    title="one of several numbered ranges contains much more than the others",
    why="The range contains more than the others: a first step, a validation, a checkpoint. A mean over all of them "
    "describes none.",
    action="leave it out of the mean, or subtract what else it contains",
    needs=("kernels",),
)
def range_outlier(data: LintInput) -> Iterator[Finding]:
    """GPU time above twice the median of ranges with names that differ only in a number."""
    for run in data.runs:
        ranges = _ranges(run)
        for group in _numbered_ranges(ranges):
            middle = float(group["gpu_s"].median())
            for _, outlier in group[group["gpu_s"] > _LONGER * middle].iterrows():
                extra = outlier["gpu_s"] - middle
                others = ranges[~ranges.index.isin(group.index)]
                like = others[(others["gpu_s"] / extra - 1).abs() < _LIKE]["name"]
                cause = f"; the difference is the time of {like.iloc[0]}" if len(like) else ""
                message = (
                    f"{outlier['name']} has {seconds(outlier['gpu_s'])} of GPU time, the median is {seconds(middle)}"
                    f"{cause}"
                )
                numbers = {"gpu": outlier["gpu_s"], "median": middle}
                yield Finding(run.id, message, {run.id: [outlier["line"]]}, numbers)
