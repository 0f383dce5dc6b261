"""Facts of servers: latency of requests and tokens, and whether the server is saturated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perflog.metrics import Options, Tables, serving
from perflog.metrics.serving import CACHE, RUNNING, WAITING
from perflog.units import show

_LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "request latency"}
_FULL = 0.9  # of the cache: an engine preempts requests when it has none left
_LONG_TAIL = 3  # times the median
_DIGITS = 3


def latencies(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Median, else mean, and p99 of each latency; which tail is long."""
    rows = serving.table(tables, options)
    for row in rows[rows["run"].eq(run) & rows["of"].isin(list(_LATENCIES))].to_dict("records"):
        parts = [
            f"{name} {show(row[name], 's', _DIGITS)}" for name in ("mean", "median", "p99") if row[name] == row[name]
        ]
        tail = row["tail"]
        long = f" ({tail:.2g} times the median)" if tail == tail and tail is not None and tail >= _LONG_TAIL else ""
        number = f", {int(row['n']):,} requests" if row["by"] == "requests" else ""
        yield f"{_LATENCIES[row['of']]}: {', '.join(parts)}{long}{number}."


def load(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Requests and cache of an engine while requests run; that it is saturated."""
    rows = serving.table(tables, options)
    rows = rows[(rows["run"] == run) & (rows["by"] == "readings")]
    of: dict[str, dict[str, Any]] = {row["of"]: row for row in rows.to_dict("records")}
    if RUNNING not in of:
        return
    every = tables.rows_of("values", run)
    readings = int(every.one_of("key", [RUNNING]).sum())
    parts = [f"{_range(of[RUNNING])} running"]
    parts += [f"{_range(of[WAITING])} waiting"] if WAITING in of else []
    parts += [f"KV cache {show(of[CACHE]['median'], '1', 2)} full"] if CACHE in of else []
    waits = WAITING in of and of[WAITING]["median"] > 0
    is_full = CACHE in of and of[CACHE]["median"] >= _FULL
    saturated = ": the server is saturated" if waits and is_full else ": requests wait" if waits else ""
    yield f"While requests run ({int(of[RUNNING]['n']):,} of {readings:,} readings): {', '.join(parts)}{saturated}."


def _range(row: dict[str, Any]) -> str:
    low, high = f"{row['min']:,.0f}", f"{row['max']:,.0f}"
    return low if low == high else f"{low} to {high}"
