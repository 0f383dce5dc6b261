"""Kernels and API calls of profiler tables: time by name, by category and by range.

A profiler's table holds GPU activities (kernels, copies, memsets), API calls and the host time of ranges. These times
come from different clocks, so they are never summed or compared here. For kernels of traces see
`perflog.metrics.device_kernels`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.compared import ALL, Kind, Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.profiles.kernel_categories import category
from perflog.metrics.profiles.operator_tables import device_rows, device_totals
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables

if TYPE_CHECKING:
    import pandas as pd

GPU_KINDS = ("kernel", "memcpy", "memset")
"""Kinds of rows that are GPU work."""

PRINTED_TOTAL = "device time that is printed below the table"
"""Name of a denominator: the table may list only some of the rows that it is the total of."""

BY_SHARES = "total that the printed shares refer to"
"""Name of a denominator: the table is truncated, as its shares show, and its total is not printed."""

_TELLING = 0.01  # a total from a smaller printed share is too inaccurate
_CUT = 0.01  # of the total: a table that lacks no more, beyond the rounding of its shares, is whole
_DECIMALS = (0.001, 0.0001)  # last digit of shares in percent with one and with two decimals
_WHOLE = 1e-6  # of a last digit

FIRST = 0.5
"""The longest call counts as the first call if its excess over the others is more than this share of the row's time."""

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("by", meaning="name: row of the profiler's table; category: what the names do; range: launched in it"),
    MetricColumn("of", meaning="gpu: activities of the GPU; api: API calls; range: host time of ranges; never mixed"),
    MetricColumn("calls", meaning="number of calls; by range: of GPU activities launched in it"),
    MetricColumn("time_s", "s", "lower", "total time"),
    MetricColumn("share", "1", None, "time / denominator_s; null for rows without a common total"),
    MetricColumn("denominator", meaning="the total that the share refers to", brief=False),
    MetricColumn("denominator_s", "s", None, "time of this total", brief=False),
    MetricColumn("avg_s", "s", "lower", "time / calls"),
    MetricColumn("max_s", "s", "lower", "longest call", brief=False),
    MetricColumn("first_call_s", "s", "lower", "longest call, if its excess is over half of the time: often the first"),
    MetricColumn("avg_rest_s", "s", "lower", "average without this call: (time - max) / (calls - 1)"),
    MetricColumn("category", meaning="what it does, derived from its name"),
    MetricColumn("name", meaning="name as printed (several rows can have the same), category or range"),
    MetricColumn("domain", meaning="domain of the range", brief=False),
    MetricColumn("section", meaning="the profiler's table that holds it", brief=False),
    MetricColumn("first_line", meaning="its first line", brief=False),
)


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Yield the total times of a profiler table, of all rows first: GPU work, else API calls; no ranges."""
    for run, run_rows in tables.rows_by_run("kernels").items():
        rows = run_rows.where(~run_rows.known("range"))
        gpu_work = rows.where(rows.one_of("kind", GPU_KINDS))
        rows = gpu_work if len(gpu_work) else rows.where(rows.one_of("kind", ["api"]))
        kind: Kind = "kernel" if len(gpu_work) else "call"
        if run in steady.cuts and len(rows):
            yield Measure(kind, ALL), run, np.array([np.nansum(rows["time_s"])])
            for name, name_rows in rows.by("name").items():
                yield Measure(kind, name, of=ALL), run, np.array([np.nansum(name_rows["time_s"])])


@metric(
    title="kernels and API calls",
    needs=("kernels",),
    columns=_COLUMNS,
    main="share",
    formula="share = time / sum of times of the whole profile's table of that kind, or the total printed below it, or, "
    "of a table that is cut, the one that its printed shares refer to; "
    "average without a first call = (time - max) / (calls - 1)",
    source="nvprof Time(%), nsys Time (%): share of the table, neither of the step nor of the GPU's busy time",
    compares=(_samples,),
)
def kernels(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Shares of the whole profile by name and by category, GPU work by range, host time of ranges.

    Ranges nest: their GPU shares add up to more than 1, and their host times have no meaningful total.

    Example:
        >>> table = perflog.metrics.kernels(perflog.find_runs("reference:nvprof.txt"))
        >>> table.query("by == 'category' and of == 'gpu'")[["name", "calls", "time_s", "share"]].head(2).round(3)
            name  calls  time_s  share
        ...
    """
    import pandas as pd

    names = [c.name for c in _COLUMNS]
    parts = [pd.DataFrame(columns=names, dtype=object)]
    labels = tables.labels()
    for run, rows in with_activity(tables).groupby("run", sort=False):
        profile = profile_shares(rows[rows["range"].isna() & (rows["of"] != "range")])
        by_range = [_by_range(rows, profile), _host_times(rows)]
        for by, found in {"name": [profile], "category": [_by_category(profile)], "range": by_range}.items():
            parts += [part.assign(by=by, run=run, label=labels.get(run)) for part in found if len(part)]
    return [pd.concat([part.reindex(columns=names).astype(object) for part in parts]).infer_objects()]


def with_activity(tables: Tables) -> pd.DataFrame:
    """Return table `kernels` with two columns more.

    `of`: gpu, api or range, else the profiler's own group, or None. `printed_total_s`: the total that the shares of the
    row's table refer to, if it is printed below the table.
    """
    kernels = tables["kernels"]
    of = {**dict.fromkeys(GPU_KINDS, "gpu"), "api": "api", "range": "range"}
    groups = kernels["category"].astype(object).where(kernels["category"].notna(), None)
    groups = groups.mask(device_rows(kernels, tables), "gpu")
    activities = [of.get(kind, group) for kind, group in zip(kernels["kind"], groups, strict=True)]
    return kernels.assign(of=activities, printed_total_s=device_totals(kernels, tables))


def profile_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `with_activity` with share of their section and activity, category, and first call."""
    categories = [category(name, of == "api") for name, of in zip(rows["name"], rows["of"], strict=True)]
    groups = rows["category"].where(rows["category"].notna(), rows["of"])
    total = rows.groupby(["section", "of"], sort=False, dropna=False)["time_s"].transform("sum")
    known = rows["of"].notna()  # rows without a known group may be of several groups
    below = rows["printed_total_s"].where(rows["of"] == "gpu")
    by_shares = _totals_by_shares(rows).where(below.isna())
    names = ("sum of " + groups).mask(below.notna(), PRINTED_TOTAL).mask(by_shares.notna(), BY_SHARES)
    shares = rows.assign(category=categories, denominator=names.where(known), first_line=rows["line"])
    total = total.mask(below.notna(), below).mask(by_shares.notna(), by_shares)
    shares = shares.assign(denominator_s=total.where(known))
    return _with_rates(shares).assign(**first_call_columns(rows))


def _totals_by_shares(rows: pd.DataFrame) -> pd.Series[float]:
    """Return, for each row, the total of its section and activity from the printed shares; NaN if all is listed.

    A truncated table lists only its largest rows: the sum of their times is less than the sum of their shares implies.
    """
    totals = rows["time_s"].astype("float64") * float("nan")
    for _, listed in rows.groupby(["section", "of"]):
        times, shares = _floats(listed["time_s"]).fillna(0.0), _floats(listed["share"])
        telling = shares >= _TELLING
        share_sum = float(shares[telling].sum())
        if not share_sum:
            continue
        digit = next((d for d in _DECIMALS if ((shares / d - (shares / d).round()).abs() < _WHOLE).all()), 0.0)
        total, slack = float(times[telling].sum()) / share_sum, int(telling.sum()) * digit / 2 / share_sum + _CUT
        same = (times[telling] / total - shares[telling]).abs() <= digit + slack * shares[telling]
        if same.all() and float(times.sum()) < (1 - slack) * total:
            totals[listed.index] = total
    return totals


def first_call_columns(rows: pd.DataFrame) -> dict[str, pd.Series[float]]:
    """Return columns `first_call_s` and `avg_rest_s` from calls, time_s, min_s and max_s; NaN if no call dominates.

    The first call includes one-time setup. A table does not show which call was the longest. The longest counts as the
    first if its excess over the average of the others is more than half of the total time. Printed times are rounded,
    so the average of the others is kept at or above the shortest call.
    """
    others = _floats(rows["calls"]) - 1
    average_of_others = ((rows["time_s"] - rows["max_s"]) / others.where(others > 0)).clip(lower=rows["min_s"])
    first = (rows["max_s"] - average_of_others) > FIRST * rows["time_s"]
    return {"first_call_s": rows["max_s"].where(first), "avg_rest_s": average_of_others.where(first)}


def _by_category(profile: pd.DataFrame) -> pd.DataFrame:
    sums = _sums(profile, ["section", "of", "denominator", "denominator_s", "category"])
    return sums.assign(name=sums["category"])


def _by_range(rows: pd.DataFrame, profile: pd.DataFrame) -> pd.DataFrame:
    """GPU work by the range that launched it, nested ranges included, as share of the whole profile."""
    inner = rows[rows["range"].notna() & (rows["of"] == "gpu")]
    if not len(inner):
        return inner
    gpu = profile[profile["of"] == "gpu"]
    named = inner.assign(name=inner["range"], denominator_s=gpu["time_s"].sum() if len(gpu) else float("nan"))
    group = gpu["denominator"].iloc[0] if len(gpu) else None
    return _sums(named, ["of", "domain", "name", "denominator_s"]).assign(denominator=group)


def _host_times(rows: pd.DataFrame) -> pd.DataFrame:
    """Host times of the ranges."""
    ranges = rows[rows["of"] == "range"]
    if not len(ranges):
        return ranges
    ranges = ranges.sort_values("time_s", ascending=False, kind="stable")
    times = ranges.assign(category=None, denominator_s=float("nan"), first_line=ranges["line"])
    return _with_rates(times).assign(**first_call_columns(ranges))


def _sums(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Calls and time of rows by keys, the longest first."""
    figures = {"calls": ("calls", "sum"), "time_s": ("time_s", "sum"), "max_s": ("max_s", "max")}
    sums = rows.groupby(keys, sort=False, dropna=False).agg(**figures, first_line=("line", "min")).reset_index()
    return _with_rates(sums).sort_values(["of", "time_s"], ascending=[False, False], kind="stable")


def _with_rates(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(share=rows["time_s"] / rows["denominator_s"], avg_s=rows["time_s"] / _floats(rows["calls"]))


def _floats(column: pd.Series[int]) -> pd.Series[float]:
    return column.astype("float64")  # integers are nullable here, and so their quotients would be
