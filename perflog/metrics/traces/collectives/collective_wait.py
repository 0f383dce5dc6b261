"""Waiting in the collectives of traces, and stragglers: ranks that make the others wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.compared import ComparedColumn
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.collectives.collective_matching import MatchedCollectives, bus_factor, matched_collectives
from perflog.metrics.traces.device_work import DEVICE_COLUMNS, seconds
from perflog.metrics.traces.intervals import union
from perflog.statistics.samples import OUTLIER, modified_z_scores

if TYPE_CHECKING:
    import pandas as pd

_FEWEST_COLLECTIVES = 20  # to call a rank a straggler
_IMPOSED = 0.02  # share of the trace's time that a straggler makes others wait, at least
_LAST = 0.5  # share of the collectives to which a straggler arrives last, at least
_FEWEST_RANKS = 5  # for an outlier: the score of one among n ranks is below n / 1.25

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("op", meaning="collective, named by the trace, else by the kernel's name"),
    MetricColumn("group", meaning="process group, as the trace names it"),
    MetricColumn("group_ranks", meaning="ranks of the group, as printed; they distinguish groups of one name"),
    MetricColumn("stream", meaning="stream on the first of its ranks", brief=False, type="Int64"),
    MetricColumn("place", meaning="printed number in the group, else k-th of its operation in the group, or k-th in "
                 "its stream; null: not matched", type="Int64"),
    MetricColumn("matched_by", meaning="seq: group and number are printed; order: k-th of its operation in the group, "
                 "or of the stream"),
    MetricColumn("collectives", meaning="1; if not matched: number of kernels on all ranks", type="Int64"),
    MetricColumn("ranks", meaning="number of ranks with matched kernels", type="Int64"),
    MetricColumn("of_ranks", meaning="number of ranks of the group, as printed; if it is more, wait_s is a lower bound",
                 type="Int64"),
    MetricColumn("bytes", "B", None, "size of the larger buffer, as printed", brief=False, type="Int64"),
    MetricColumn("transfer_s", "s", "lower", "duration on the rank that arrived last: the shortest"),
    MetricColumn("busbw_gbps", "GB/s", "higher", "bus bandwidth of the transfer; null if size or group is not printed"),
    MetricColumn("wait_s", "s", "lower", "time waited for the last rank, mean over the ranks"),
    MetricColumn("skew_s", "s", "lower", "last start - first start: the longest wait"),
    MetricColumn("end_skew_s", "s", None, "last end - first end: near 0 on one clock", brief=False),
    MetricColumn("last", meaning="rank that arrived last; null: several together, or not known"),
    MetricColumn("clock_ok", meaning="whether the clocks agree: collectives overlap on all ranks and end together"),
    MetricColumn("reason", meaning="why it is not matched, or its waiting is not known"),
    MetricColumn("first_line", meaning="line of its first kernel", brief=False, type="Int64"),
)  # fmt: skip


@metric(
    title="waiting in collectives",
    needs=("events",),
    columns=_COLUMNS,
    main="wait_s",
    formula="wait of rank r = last start - start of r; transfer = shortest duration; skew = last start - first start; "
    "bus bandwidth = bytes / transfer * f(n), f = 2 (n - 1) / n for all_reduce, (n - 1) / n for all_gather, "
    "reduce_scatter and all_to_all, 1 for the others",
    source="TraceLens; bus bandwidth: nccl-tests, doc/PERFORMANCE.md; matched by process group and number, else by "
    "order if all ranks have the same number",
)
def collective_wait(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Each collective of the ranks of a job: time waited for the last rank, and time of the transfer.

    A trace of a single device has no rows: there is no other rank to wait for.
    """
    jobs = matched_collectives(tables)
    return [part for job in jobs for part in (_matched_rows(job), _unmatched_rows(job)) if len(part)]


def _matched_rows(matched: MatchedCollectives) -> pd.DataFrame:
    """Rows of the collectives that are matched."""
    collectives, known = matched.collectives, matched.collectives["reason"].isna()
    names = {member: matched.job.name(member) for member in range(len(matched.job.members))}
    times = {
        "wait": matched.calls.groupby("key")["wait"].mean().reindex(collectives.index),
        "skew": collectives["skew"],
    }
    times |= {"end_skew": collectives["end_skew"]}
    columns: dict[str, Any] = {f"{name}_s": np.where(known, seconds(ns), np.nan) for name, ns in times.items()}
    return collectives[["op", "group", "group_ranks", "stream", "place", "ranks", "bytes", "reason"]].assign(
        **matched.job.run_columns(), matched_by=collectives["by"], collectives=1, of_ranks=collectives["size"],
        busbw_gbps=_bus_bandwidth(collectives), transfer_s=seconds(collectives["transfer"]), **columns,
        last=collectives["last"].where(known, -1).map(names), clock_ok=matched.clock_ok, first_line=collectives["line"],
    )  # fmt: skip


def _bus_bandwidth(collectives: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Bus bandwidth in GB/s (10^9 B)."""
    size, moved, ns = (
        collectives[name].to_numpy(np.float64, na_value=np.nan) for name in ("size", "bytes", "transfer")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(ns > 0, moved / ns * bus_factor(collectives["op"], size), np.nan)  # B/ns are GB/s


def _unmatched_rows(matched: MatchedCollectives) -> pd.DataFrame:
    """Rows of the lanes that are not matched."""
    lanes = matched.unmatched
    return lanes[["op", "group", "group_ranks", "stream", "reason"]].assign(
        **matched.job.run_columns(), collectives=lanes["calls"], clock_ok=matched.clock_ok, first_line=lanes["line"]
    )


_STRAGGLERS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("collectives", meaning="number of collectives in which its waiting is known; no sends"),
    MetricColumn("last_share", "1", None, "share of these in which only this rank arrived last"),
    MetricColumn("wait_s", "s", "lower", "sum of the time that it waited for others"),
    MetricColumn("imposed_s", "s", "lower", "time in which others waited because only this rank had not arrived"),
    MetricColumn("imposed_share", "1", "lower", "imposed_s / time from the device's first to its last event"),
    MetricColumn("transfer_s", "s", "lower", "sum of its time in these collectives - wait_s"),
    MetricColumn("score", "", None, "modified z-score of imposed_s among the ranks; null below 5 ranks", brief=False),
    MetricColumn(
        "straggler",
        meaning="yes: it arrives last in over half of at least 20 collectives, imposing over 2 % of the trace's time. "
        "Among 5 ranks or more it is also an outlier (score > 3.5); no; undetermined: see reason",
    ),
    MetricColumn("clock_ok", meaning="whether the clocks of the ranks agree"),
    MetricColumn("reason", meaning="why it is undetermined"),
)


@metric(
    title="stragglers",
    needs=("events",),
    columns=_STRAGGLERS,
    main="imposed_s",
    formula="imposed = |union of the times from first to last start| over the collectives in which the rank alone "
    "started last; sends and receives of pairs do not count: stages of a pipeline wait for each other in turn",
    source="TraceLens; outlier: modified z-score > 3.5, Iglewicz and Hoaglin 1993",
    compares=(
        ComparedColumn(
            "collective",
            "wait of a rank, mean",
            "wait_s",
            per="collectives",
            rows=lambda table: table[table["collectives"] > 0],
        ),
    ),
)
def stragglers(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Each rank of a job: how often it arrives last to a collective, how long it waits and makes others wait.

    A trace of a single device has no rows: there is no other rank to keep waiting.
    """
    return [row for matched in matched_collectives(tables) for row in _straggler_rows(matched)]


def _straggler_rows(matched: MatchedCollectives) -> list[dict[str, Any]]:
    """Rows of the ranks of a job."""
    all_known = matched.collectives[matched.collectives["reason"].isna()]
    known = all_known[(all_known["op"] != "send_recv") | (all_known["ranks"] > 2)]
    calls = matched.calls[matched.calls["key"].isin(known.index)]
    late = known.groupby("last").agg(size=("skew", "size"))
    late["sum"] = [_waited_for(rows) for _, rows in known.groupby("last")]
    waited = calls.groupby("member").agg(n=("wait", "size"), wait=("wait", "sum"), length=("length", "sum"))
    places = range(len(matched.job.members))
    late, waited = (table.reindex(places, fill_value=0) for table in (late, waited))
    score = (
        modified_z_scores(late["sum"].to_numpy(np.float64))
        if len(places) >= _FEWEST_RANKS
        else np.full(len(places), np.nan)
    )
    rows = []
    for member, device in enumerate(matched.job.members):
        n, span = int(waited["n"][member]), device.span or np.nan
        row: dict[str, Any] = {"run": device.run, "rank": device.rank, "device": device.device}
        row["device_name"] = device.device_name
        row |= {"collectives": n, "clock_ok": matched.clock_ok, "reason": _why_undetermined(matched, n)}
        if n:
            row |= {"last_share": late["size"][member] / n, "imposed_share": late["sum"][member] / span}
            times = {"wait": waited["wait"], "imposed": late["sum"], "transfer": waited["length"] - waited["wait"]}
            row |= {f"{name}_s": float(seconds(ns[member])) for name, ns in times.items()} | {"score": score[member]}
            often_last, imposes = row["last_share"] > _LAST, row["imposed_share"] > _IMPOSED
            row["straggler"] = "yes" if often_last and imposes and not score[member] <= OUTLIER else "no"
        rows.append(row | ({"straggler": "undetermined"} if row["reason"] else {}))
    return rows


def _waited_for(collectives: pd.DataFrame) -> int:
    """Return the time in ns in which the first rank of any of these collectives waits for the last one."""
    return union(*(collectives[name].to_numpy(np.int64) for name in ("start", "began"))).length


def _why_undetermined(matched: MatchedCollectives, n: int) -> str | None:
    """Why it is undetermined whether a rank is a straggler; None if its `n` collectives are enough."""
    if n >= _FEWEST_COLLECTIVES:
        return None
    if len(matched.collectives) and matched.clock_ok is not True:
        return str(matched.collectives["reason"].iloc[0])
    if not len(matched.collectives) and len(matched.unmatched):
        return str(matched.unmatched["reason"].iloc[0])
    return f"{n} collectives in which its waiting is known: at least {_FEWEST_COLLECTIVES} are needed"
