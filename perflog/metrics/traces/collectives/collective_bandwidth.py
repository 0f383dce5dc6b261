"""Bytes and bandwidth of the collectives of traces, by operation, process group and element type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.compared import ComparedColumn
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.collectives.collective_matching import MatchedCollectives, all_collectives, bus_factor
from perflog.metrics.traces.device_work import seconds
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd

TRANSFER, KERNEL = "transfer", "kernel"
"""What is timed: the shortest of the kernels of a collective; each kernel of a rank, with its waiting for others."""

_KEYS = ["op", "group", "group_ranks", "dtype", "size"]

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("op", meaning="collective, named by the trace, else by the kernel's name"),
    MetricColumn("group", meaning="process group, as the trace names it"),
    MetricColumn("group_ranks", meaning="ranks of the group, as printed"),
    MetricColumn("dtype", meaning="element type"),
    MetricColumn("of_ranks", meaning="number of ranks of the group, as printed", type="Int64"),
    MetricColumn("timed", meaning="transfer: from the start of the last rank, of collectives with matched ranks; "
                 "kernel: kernels of one rank, with their waiting for the others, so that the bandwidth is a lower "
                 "bound"),
    MetricColumn("rank", meaning="rank of the kernels; null: all matched ranks", type="Int64"),
    MetricColumn("calls", meaning="number of collectives, or of kernels", type="Int64"),
    MetricColumn("time_s", "s", "lower", "sum of the times"),
    MetricColumn("bytes", "B", None, "sum of the larger buffers of the collectives with printed sizes", type="Int64"),
    MetricColumn("median_bytes", "B", None, "median of the larger buffer"),
    MetricColumn("largest", "B", None, "largest of these buffers", brief=False, type="Int64"),
    MetricColumn("algbw", "GB/s", "higher", "algorithm bandwidth: bytes / time of the collectives with printed sizes"),
    MetricColumn("busbw", "GB/s", "higher", "bus bandwidth: algbw * f(of_ranks); null if the group's size is unknown"),
    MetricColumn("peak_busbw", "GB/s", "higher", "bus bandwidth of the fastest one"),
    MetricColumn("first_line", meaning="line of the first kernel in the file of its rank", brief=False, type="Int64"),
)  # fmt: skip


def _with_transfers(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with a bus bandwidth, and what all their bytes would take with it, so that it can be averaged."""
    rows = rows[rows["run"].notna() & (rows["busbw"] > 0)]
    return rows.assign(transfer=rows["bytes"].astype(float) / rows["busbw"].astype(float))


def _name_of(keys: Mapping[str, Any]) -> str:
    """Kernels of single ranks have their waiting in their time, so their bandwidth has a name of its own."""
    group = None if keys["group"] is None else f"group {keys['group']}"
    waiting = "with waiting" if keys["timed"] == KERNEL else None
    words = (f"{keys['op']} bus bandwidth", group, keys["group_ranks"], keys["dtype"], waiting)
    return ", ".join(word for word in words if word)


@metric(
    title="bandwidth of collectives in traces",
    needs=("events",),
    columns=_COLUMNS,
    main="busbw",
    formula="algbw = sum of bytes / sum of times; busbw = algbw * f(n), f = 2 (n - 1) / n for all_reduce, (n - 1) / n "
    "for all_gather, reduce_scatter and all_to_all, 1 for the others; time of matched ranks = shortest kernel",
    source="NVIDIA/nccl-tests, doc/PERFORMANCE.md; GB/s = 10^9 B/s",
    compares=(
        ComparedColumn(
            "collective",
            _name_of,
            "bytes",
            "GB/s",
            (*_KEYS[:4], "timed"),
            "higher",
            per="transfer",
            rows=_with_transfers,
        ),
    ),
)
def collective_bandwidth(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Bytes, algorithm and bus bandwidth of each kind of collective in each process group; the longest first."""
    parts = [sorted(_rows(matched), key=lambda row: -row["time_s"]) for matched in all_collectives(tables)]
    return [row for rows in parts for row in rows]


def _rows(matched: MatchedCollectives) -> Iterator[dict[str, Any]]:
    """Yield the rows of a job: of the matched collectives, then of the kernels of each rank that are not matched."""
    job = matched.job
    job_columns = {"run": job.run, "timed": TRANSFER, "rank": None}
    for keys, rows in matched.collectives.groupby(_KEYS, dropna=False, sort=False):
        yield job_columns | _row(keys, rows.rename(columns={"transfer": "length"}))
    for (member, *keys), rows in matched.loose.groupby(["member", *_KEYS], dropna=False, sort=False):
        device = job.members[member]
        rank_columns = {"run": device.run, "timed": KERNEL, "rank": device.rank}
        yield rank_columns | _row(tuple(keys), rows)


def _row(keys: tuple[Any, ...], rows: pd.DataFrame) -> dict[str, Any]:
    """Return the values of collectives of one kind; `length`: their times in ns."""
    row = {name: none_if_null(value) for name, value in zip(_KEYS, keys, strict=True)}
    size = row.pop("size")
    row |= {"of_ranks": size, "calls": len(rows), "time_s": float(seconds(rows["length"].sum()))}
    sizes, times = rows["bytes"].to_numpy(np.float64, na_value=np.nan), rows["length"].to_numpy(np.float64)
    known = (sizes > 0) & (times > 0)
    if known.any():
        sizes, times = sizes[known], times[known]
        factor = float(bus_factor([row["op"]], [np.nan if size is None else size])[0])
        algbw = float(sizes.sum() / times.sum())  # bytes/ns are GB/s
        row |= {"bytes": int(sizes.sum()), "median_bytes": float(np.median(sizes)), "largest": int(sizes.max())}
        row |= {"algbw": algbw, "busbw": algbw * factor, "peak_busbw": float((sizes / times).max() * factor)}
    return row | {"first_line": int(rows["line"].iloc[0])}
