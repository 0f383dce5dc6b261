"""Waiting in collectives: each collective that is matched over ranks, and each rank with what it waits and imposes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.traces.collective_matching import MatchedCollectives, matched_collectives
from perflog.metrics.traces.device_time import DEVICE_COLUMNS
from perflog.metrics.traces.device_work import seconds
from perflog.statistics.samples import OUTLIER, modified_z_scores

if TYPE_CHECKING:
    import pandas as pd

_ENOUGH = 20  # collectives to name a straggler from
_MUCH = 0.02  # of the trace's time, imposed on others
_MOSTLY = 0.5  # of the collectives, arrived last
_MANY = 5  # ranks among which an outlier can be told: the score of one among n is below n / 1.25

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("op", meaning="collective, told from what the trace says or from the kernel's name"),
    MetricColumn("group", meaning="process group, as the trace says it"),
    MetricColumn("stream", meaning="stream on the first of its ranks", brief=False),
    MetricColumn("place", meaning="its number in the group as printed, or k-th in its stream; null: not matched"),
    MetricColumn("matched_by", meaning="seq: group and number are printed; order: k-th of the same stream or group"),
    MetricColumn("collectives", meaning="1; where they are not matched, how many kernels that is on all ranks"),
    MetricColumn("ranks", meaning="ranks whose kernels are matched"),
    MetricColumn(
        "of_ranks", meaning="ranks of the group, as printed; where they are more, waiting is at least what it says"
    ),
    MetricColumn("bytes", "B", None, "size, as printed: the larger buffer", brief=False),
    MetricColumn("transfer_s", "s", "lower", "duration on the rank that came last: the shortest"),
    MetricColumn(
        "busbw_gbps", "GB/s", "higher", "bus bandwidth of the transfer; null where size or group is not printed"
    ),
    MetricColumn("wait_s", "s", "lower", "time waited for the last, mean over the ranks"),
    MetricColumn("skew_s", "s", "lower", "last start - first start: the longest wait"),
    MetricColumn("end_skew_s", "s", None, "last end - first end: near 0 on one clock", brief=False),
    MetricColumn("last", meaning="who came last; null: several came together, or not known"),
    MetricColumn(
        "clock_ok", meaning="whether the ranks' clocks agree: collectives overlap on all ranks and end together"
    ),
    MetricColumn("reason", meaning="why it is not matched, or waiting is not known"),
    MetricColumn("first_line", meaning="line of its first kernel", brief=False),
)


@metric(
    title="waiting in collectives",
    needs=("events",),
    columns=_COLUMNS,
    main="wait_s",
    formula="wait of rank r = last start - start of r; transfer = shortest duration; skew = last start - first start; "
    "bus bandwidth = bytes / transfer * f(n), f = 2 (n - 1) / n for all_reduce, (n - 1) / n for all_gather, "
    "reduce_scatter and all_to_all, 1 for the others",
    source="TraceLens; bus bandwidth: nccl-tests, doc/PERFORMANCE.md; matched "
    "by process group and number, else by order where all ranks have as many",
)
def collective_wait(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """Each collective of the ranks of a job: how long it waits for the last rank, how long it transfers."""
    import pandas as pd

    names = [c.name for c in _COLUMNS]
    found = [part for one in matched_collectives(tables) for part in (_each(one), _unmatched(one)) if len(part)]
    table = pd.concat(found, ignore_index=True) if found else pd.DataFrame()
    whole = dict.fromkeys(("stream", "place", "collectives", "ranks", "of_ranks", "bytes", "first_line"), "Int64")
    return table.reindex(columns=names).astype(whole)


def _each(one: MatchedCollectives) -> pd.DataFrame:
    each, known = one.each, one.each["reason"].isna()
    names = {place: one.job.name(place) for place in range(len(one.job.members))}
    times = {"wait": one.calls.groupby("key")["wait"].mean().reindex(each.index), "skew": each["skew"]}
    times |= {"end_skew": each["end_skew"]}
    columns: dict[str, Any] = {f"{name}_s": np.where(known, seconds(ns), np.nan) for name, ns in times.items()}
    return each[["op", "group", "stream", "place", "ranks", "bytes", "reason"]].assign(
        **_whose(one), matched_by=each["by"], collectives=1, of_ranks=each["size"],
        busbw_gbps=_bus(each), transfer_s=seconds(each["transfer"]), **columns,
        last=each["last"].where(known, -1).map(names), clock_ok=one.clock_ok, first_line=each["line"],
    )  # fmt: skip


def _bus(each: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Bus bandwidth in GB/s (10^9 B)."""
    size, moved, ns = (each[name].to_numpy(np.float64, na_value=np.nan) for name in ("size", "bytes", "transfer"))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (size - 1) / size
        factors = {"all_reduce": 2 * share} | dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all"), share)
        found = moved / ns  # B/ns are GB/s
        for op, factor in factors.items():
            found = np.where(each["op"] == op, moved / ns * factor, found)
    return np.where((ns > 0) & each["op"].notna(), found, np.nan)


def _unmatched(one: MatchedCollectives) -> pd.DataFrame:
    left = one.unmatched
    return left[["op", "group", "stream", "reason"]].assign(
        **_whose(one), collectives=left["calls"], clock_ok=one.clock_ok, first_line=left["line"]
    )


def _whose(one: MatchedCollectives) -> dict[str, Any]:
    return {"run": one.job.run, "label": one.job.members[0].label if one.job.run else None}


_STRAGGLERS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("collectives", meaning="collectives in which its waiting is known"),
    MetricColumn("last_share", "1", None, "share of them in which it alone came last"),
    MetricColumn("wait_s", "s", "lower", "sum of the time it waited for others"),
    MetricColumn("imposed_s", "s", "lower", "sum of the skew of the collectives in which it alone came last"),
    MetricColumn("imposed_share", "1", "lower", "imposed_s / time from the device's first to its last event"),
    MetricColumn("transfer_s", "s", "lower", "sum of its time in them less the time it waited"),
    MetricColumn(
        "score", "", None, "modified z-score of imposed_s among the ranks; null with fewer than 5", brief=False
    ),
    MetricColumn(
        "straggler",
        meaning="yes: it comes last in over half of 20 collectives or more and imposes over 2 % of the "
        "trace's time, with 5 ranks or more as an outlier (score > 3.5); no; undetermined: see reason",
    ),
    MetricColumn("clock_ok", meaning="whether the ranks' clocks agree"),
    MetricColumn("reason", meaning="why it is undetermined"),
)


@metric(
    title="stragglers",
    needs=("events",),
    columns=_STRAGGLERS,
    main="imposed_s",
    formula="imposed = sum of (last start - first start) over the collectives in which the rank alone started last",
    source="TraceLens; outlier: modified z-score > 3.5, Iglewicz and Hoaglin 1993",
)
def stragglers(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """Each rank of a job: how often it comes last to a collective, what it waits, what it makes others wait."""
    import pandas as pd

    rows = [row for one in matched_collectives(tables) for row in _ranks(one)]
    return pd.DataFrame(rows, columns=[c.name for c in _STRAGGLERS]).astype({"rank": "Int64", "device": "Int64"})


def _ranks(one: MatchedCollectives) -> list[dict[str, Any]]:
    known = one.each[one.each["reason"].isna()]
    calls = one.calls[one.calls["key"].isin(known.index)]
    late = known.groupby("last")["skew"].agg(["size", "sum"])
    mine = calls.groupby("member").agg(n=("wait", "size"), wait=("wait", "sum"), length=("length", "sum"))
    places = range(len(one.job.members))
    late, mine = (table.reindex(places, fill_value=0) for table in (late, mine))
    score = (
        modified_z_scores(late["sum"].to_numpy(np.float64)) if len(places) >= _MANY else np.full(len(places), np.nan)
    )
    rows = []
    for place, device in enumerate(one.job.members):
        n, span = int(mine["n"][place]), device.span or np.nan
        row: dict[str, Any] = {"run": device.run, "label": device.label, "rank": device.rank, "device": device.device}
        row |= {"collectives": n, "clock_ok": one.clock_ok, "reason": _why(one, n)}
        if n:
            row |= {"last_share": late["size"][place] / n, "imposed_share": late["sum"][place] / span}
            times = {"wait": mine["wait"], "imposed": late["sum"], "transfer": mine["length"] - mine["wait"]}
            row |= {f"{name}_s": float(seconds(ns[place])) for name, ns in times.items()} | {"score": score[place]}
            much = row["last_share"] > _MOSTLY and row["imposed_share"] > _MUCH and not score[place] <= OUTLIER
            row["straggler"] = "yes" if much else "no"
        rows.append(row | ({"straggler": "undetermined"} if row["reason"] else {}))
    return rows


def _why(one: MatchedCollectives, n: int) -> str | None:
    """Why a rank with so many collectives cannot be told to be a straggler or none."""
    if n >= _ENOUGH:
        return None
    if len(one.each) and one.clock_ok is not True:
        return str(one.each["reason"].iloc[0])
    if not len(one.each) and len(one.unmatched):
        return str(one.unmatched["reason"].iloc[0])
    return f"{n} collectives in which its waiting is known: {_ENOUGH} are the least"
