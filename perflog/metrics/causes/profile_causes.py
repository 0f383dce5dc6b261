"""Causes in the tables of profilers: the categories of kernels, or of API calls, and the largest kernel."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.metrics.causes.cause import Cause
from perflog.metrics.options import Options
from perflog.metrics.profiles.kernel_categories import OTHER
from perflog.metrics.profiles.kernels import kernels
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_time.breakdown import NOT_LISTED, breakdown


def categories(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield each category of work, and the kernel or call that takes most of the largest.

    A kernel binds only if its category does not describe what it does.
    """
    rows = breakdown.table(tables, options)
    rows = rows[rows["of"].isin(["gpu", "api"]) & (rows["part"] != NOT_LISTED)]
    names = kernels.table(tables, options)
    names = names[names["by"] == "name"]
    for (run, of), parts in rows.groupby(["run", "of"], sort=False):
        whole = float(parts["whole_s"].iloc[0])
        for part, time_s, n in parts[["part", "time_s", "n"]].itertuples(index=False):
            yield Cause(
                run=str(run), of=str(of), subject="kernels", name=str(part), time_s=float(time_s), whole_s=whole,
                gain_s=float(time_s), n=int(n), metric="kernels", may_bind=part != OTHER,
            )  # fmt: skip
        first = str(parts["part"].iloc[0])
        named = names[(names["run"] == run) & (names["of"] == of) & (names["category"] == first)]
        if len(named):
            largest = named.loc[named["time_s"].astype(float).idxmax()]
            calls = int(largest["calls"]) if largest["calls"] > 0 else None
            yield Cause(
                run=str(run), of=str(of), subject="kernel", name=str(largest["name"]), whole_s=whole,
                time_s=float(largest["time_s"]), gain_s=float(largest["time_s"]), n=calls,
                each_s=float(largest["avg_s"]) if calls else None, metric="kernels", may_bind=first == OTHER,
            )  # fmt: skip
