"""What the GPU spends its time on, and the API calls theirs: by name, by category, by range.

A profiler's table holds GPU activities (kernels, copies, memsets), API calls and the host time of ranges. The three are
times of different clocks and never summed or compared here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perflog.metrics.kernel_categories import category
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric

if TYPE_CHECKING:
    import pandas as pd

GPU_KINDS = ("kernel", "memcpy", "memset")
"""Kinds of rows that are work of the GPU."""

FIRST = 0.5
"""Part of a row's time from which what its longest call costs beyond the others is told apart."""

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn(
        "by", meaning="name: a row of the profiler's table; category: what the names do; range: what a range launched"
    ),
    MetricColumn("of", meaning="gpu: activities of the GPU; api: API calls; range: host time of ranges. Never mixed"),
    MetricColumn("calls", meaning="number of calls; by range: of GPU activities launched in it"),
    MetricColumn("time_s", "s", "lower", "total time"),
    MetricColumn("share", "1", None, "time / denominator_s; null where nothing adds up to a whole"),
    MetricColumn("denominator", meaning="what the share is of", brief=False),
    MetricColumn("denominator_s", "s", None, "its time", brief=False),
    MetricColumn("avg_s", "s", "lower", "time / calls"),
    MetricColumn("max_s", "s", "lower", "longest call", brief=False),
    MetricColumn(
        "first_call_s", "s", "lower", "longest call, where its excess is over half of the time: as a rule the first"
    ),
    MetricColumn("avg_rest_s", "s", "lower", "average without it: (time - max) / (calls - 1)"),
    MetricColumn("category", meaning="what it does, told from its name"),
    MetricColumn("name", meaning="name as printed (no key: several rows can have it), category or range"),
    MetricColumn("domain", meaning="domain of the range", brief=False),
    MetricColumn("section", meaning="the profiler's table it is from", brief=False),
    MetricColumn("first_line", meaning="first line it is from", brief=False),
)


@metric(
    title="kernels and API calls",
    needs=("kernels",),
    columns=_COLUMNS,
    main="share",
    formula="share = time / sum of times of the whole profile's table of that kind; "
    "average without a first call = (time - max) / (calls - 1)",
    source="nvprof Time(%), nsys Time (%): share of the table, neither of the step nor of the GPU's busy time",
)
def kernels(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """Shares of the whole profile by name and by category, GPU work by range, host time of ranges.

    Ranges nest, so the GPU shares by range add up to more than 1, and their host times have no sum to be a share of.
    """
    import pandas as pd

    names = [c.name for c in _COLUMNS]
    found = [pd.DataFrame(columns=names, dtype=object)]
    labels = dict(zip(tables["runs"]["run"], tables["runs"]["label"], strict=True))
    for run, mine in with_activity(tables["kernels"]).groupby("run", sort=False):
        whole = profile_shares(mine[mine["range"].isna() & (mine["of"] != "range")])
        parts = {"name": [whole], "category": [_by_category(whole)], "range": [_by_range(mine, whole), _host(mine)]}
        for by, several in parts.items():
            found += [part.assign(by=by, run=run, label=labels.get(run)) for part in several if len(part)]
    return pd.concat([part.reindex(columns=names).astype(object) for part in found]).infer_objects()


def with_activity(kernels: pd.DataFrame) -> pd.DataFrame:
    """Table `kernels` with `of`: gpu, api or range, else the profiler's own group, None if the log lacks it."""
    of = {**dict.fromkeys(GPU_KINDS, "gpu"), "api": "api", "range": "range"}
    groups = kernels["category"].astype(object).where(kernels["category"].notna(), None)
    return kernels.assign(of=[of.get(kind, group) for kind, group in zip(kernels["kind"], groups, strict=True)])


def profile_shares(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of `split`, each with its share of its section and kind, what it does, and its first call apart."""
    does = [category(name, of == "api") for name, of in zip(rows["name"], rows["of"], strict=True)]
    groups = rows["category"].where(rows["category"].notna(), rows["of"])
    total = rows.groupby(["section", "of"], sort=False, dropna=False)["time_s"].transform("sum")
    whole = rows["of"].notna()  # rows of an unknown group may be of several
    found = rows.assign(category=does, denominator=("sum of " + groups).where(whole), first_line=rows["line"])
    found = found.assign(denominator_s=total.where(whole))
    return _with_rates(found).assign(**first_call_columns(rows))


def first_call_columns(rows: pd.DataFrame) -> dict[str, pd.Series[float]]:
    """`first_call_s` and `avg_rest_s` of rows with calls, time_s, min_s and max_s; NaN where no call stands out.

    A first call carries what is set up once. A table does not say which call was the longest; the longest is taken for
    the first where its excess over the average of the others is more than half of all the time. Times are rounded as
    printed: the average of the others is no less than the shortest.
    """
    others = _floats(rows["calls"]) - 1
    rest = ((rows["time_s"] - rows["max_s"]) / others.where(others > 0)).clip(lower=rows["min_s"])
    first = (rows["max_s"] - rest) > FIRST * rows["time_s"]
    return {"first_call_s": rows["max_s"].where(first), "avg_rest_s": rest.where(first)}


def _by_category(whole: pd.DataFrame) -> pd.DataFrame:
    found = _sums(whole, ["section", "of", "denominator", "denominator_s", "category"])
    return found.assign(name=found["category"])


def _by_range(rows: pd.DataFrame, whole: pd.DataFrame) -> pd.DataFrame:
    """GPU work by the range it was launched in, with that of nested ranges, against the whole profile's."""
    inner, gpu = rows[rows["range"].notna() & (rows["of"] == "gpu")], whole[whole["of"] == "gpu"]
    named = inner.assign(name=inner["range"], denominator_s=gpu["time_s"].sum() if len(gpu) else float("nan"))
    group = gpu["denominator"].iloc[0] if len(gpu) else None
    return _sums(named, ["of", "domain", "name", "denominator_s"]).assign(denominator=group)


def _host(rows: pd.DataFrame) -> pd.DataFrame:
    """Host time of the ranges."""
    ranges = rows[rows["of"] == "range"].sort_values("time_s", ascending=False, kind="stable")
    found = ranges.assign(category=None, denominator_s=float("nan"), first_line=ranges["line"])
    return _with_rates(found).assign(**first_call_columns(ranges))


def _sums(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Calls and time of rows by keys, the longest first."""
    parts = {"calls": ("calls", "sum"), "time_s": ("time_s", "sum"), "max_s": ("max_s", "max")}
    found = rows.groupby(keys, sort=False, dropna=False).agg(**parts, first_line=("line", "min")).reset_index()
    return _with_rates(found).sort_values(["of", "time_s"], ascending=[False, False], kind="stable")


def _with_rates(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(share=rows["time_s"] / rows["denominator_s"], avg_s=rows["time_s"] / _floats(rows["calls"]))


def _floats(column: pd.Series[int]) -> pd.Series[float]:
    return column.astype("float64")  # whole numbers are nullable: their quotients would be too
