"""Traffic between pairs of ranks in traces: sends and receives, and the parts of all-to-alls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric, metric_table
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.collectives.collective_matching import MatchedCollectives, all_collectives, listed_numbers
from perflog.metrics.traces.device_work import seconds
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("op", meaning="send_recv; all_to_all: only calls with printed split sizes count"),
    MetricColumn("sender", meaning="rank that sends", type="Int64"),
    MetricColumn(
        "receiver", meaning="rank that receives; of an all-to-all the sender too: what it keeps", type="Int64"
    ),
    MetricColumn("calls", meaning="number of transfers, or of all-to-alls in which the pair has a part, also of 0 B",
                 type="Int64"),
    MetricColumn("bytes", "B", None, "sum of the bytes from sender to receiver, as far as printed", type="Int64"),
    MetricColumn("share", "1", None, "bytes / bytes of all pairs of this operation"),
    MetricColumn("time_s", "s", "lower", "sum of the transfers: from the start of the later rank; null of all_to_all"),
    MetricColumn("bandwidth", "GB/s", "higher", "bytes / time of the transfers with printed bytes"),
    MetricColumn("wait_s", "s", "lower", "sum of the time that the earlier rank waits; null if clocks differ"),
    MetricColumn("later", "1", None, "share of these transfers to which the sender came later than the receiver"),
    MetricColumn("timed", meaning="transfer: both ranks are matched; kernel: kernels of one rank, with their waiting"),
    MetricColumn("first_line", meaning="line of the first kernel in the file of its rank", brief=False, type="Int64"),
)  # fmt: skip


@metric(
    title="pairs of ranks",
    needs=("events",),
    columns=_COLUMNS,
    main="bytes",
    formula="all-to-all: bytes = elements of the split / elements of all splits * bytes of the larger buffer; "
    "bandwidth = sum of bytes / sum of the shorter kernels of each send and its receive",
    source="ranks and split sizes as PyTorch's profiler prints them; sends and receives of a pair matched in order",
)
def rank_pairs(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Bytes and time from each rank to each other, by operation: a matrix as rows."""
    rows = [row for matched in all_collectives(tables) for row in (*_transfers(matched), *_exchanges(matched))]
    table = metric_table(_COLUMNS, rows, tables)
    job = table["run"].fillna("")
    total = table["bytes"].groupby([job, table["op"]]).transform("sum").astype(float)
    return [table.assign(share=table["bytes"].astype(float) / total.where(total > 0))]


def _transfers(matched: MatchedCollectives) -> Iterator[dict[str, object]]:
    """Yield the rows of sends and receives: of matched ones, else of the rank that has more of them."""
    found: dict[tuple[int, int], dict[str, object]] = {}
    pairs = ["src_rank", "dst_rank"]
    for (sender, receiver), rows in matched.collectives.groupby(pairs):
        row = _sums(rows["bytes"], rows["transfer"]) | {"timed": "transfer", "first_line": int(rows["line"].iloc[0])}
        known = rows[rows["reason"].isna()]
        if len(known):
            ranks = [device.rank for device in matched.job.members]
            last = [ranks[place] if place >= 0 else None for place in known["last"]]
            row |= {"wait_s": float(seconds(known["skew"].sum())), "later": last.count(sender) / len(known)}
        found[sender, receiver] = row
    own = matched.loose["member"].map(dict(enumerate(device.rank for device in matched.job.members)))
    for (sender, receiver), rows in matched.loose.groupby(pairs):
        ends = [end_rows for _, end_rows in rows.groupby(own[rows.index])]
        rows = max(ends, key=len)
        row = _sums(rows["bytes"], rows["length"]) | {"timed": "kernel", "first_line": int(rows["line"].iloc[0])}
        found.setdefault((sender, receiver), row)
    for (sender, receiver), row in sorted(found.items()):
        yield matched.job.run_columns() | {"op": "send_recv", "sender": sender, "receiver": receiver} | row


def _sums(sizes: pd.Series[int], lengths: pd.Series[int]) -> dict[str, object]:
    """Return the columns of transfers from their bytes and times in ns."""
    size, length = sizes.to_numpy(np.float64, na_value=np.nan), lengths.to_numpy(np.float64)
    row: dict[str, object] = {"calls": len(size), "time_s": float(seconds(length.sum()))}
    known = ~np.isnan(size)
    if known.any():
        row["bytes"] = int(size[known].sum())
    if length[known].sum() > 0:
        row["bandwidth"] = float(size[known].sum() / length[known].sum())  # bytes/ns are GB/s
    return row


def _exchanges(matched: MatchedCollectives) -> Iterator[dict[str, object]]:
    """Yield the rows of all-to-alls: bytes that each rank sends, and receives from ranks without a trace."""
    traced = {device.rank for device in matched.job.members}
    sums: dict[tuple[int, int], list[float]] = {}
    lines: dict[tuple[int, int], int] = {}
    columns = ("rank", "group_ranks", "size", "bytes", "in_split", "out_split", "line")
    for rank, group, size, moved, sent, got, line in matched.splits[list(columns)].itertuples(index=False):
        ranks, sends, receives = (listed_numbers(text) for text in (group, sent, got))
        if ranks is None and size == len(traced) and traced == set(range(len(traced))):
            ranks = tuple(range(len(traced)))  # a group as large as the job
        if ranks is None or sends is None or receives is None or none_if_null(moved) is None:
            continue
        if rank not in ranks or {len(sends), len(receives)} != {len(ranks)}:
            continue
        largest = max(sum(sends), sum(receives))
        for split, is_sent in ((sends, True), (receives, False)):
            for other, elements in zip(ranks, split, strict=True):
                pair = (int(rank), other) if is_sent else (other, int(rank))
                if is_sent or other not in traced:
                    lines.setdefault(pair, int(line))
                    sums.setdefault(pair, []).append(elements * moved / largest if largest else 0.0)
    for (sender, receiver), parts in sorted(sums.items()):
        row = {"op": "all_to_all", "sender": sender, "receiver": receiver, "calls": len(parts)}
        yield matched.job.run_columns() | row | {"bytes": round(sum(parts)), "first_line": lines[sender, receiver]}
