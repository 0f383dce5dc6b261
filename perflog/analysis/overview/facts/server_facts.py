"""Facts of a server, in sentences: latencies, its load while requests run, and since when it generates less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from perflog.metrics import Options, Tables, serving
from perflog.metrics.benchmarks.server_readings import CACHE, GENERATED, RUNNING, WAITING, busy_readings
from perflog.statistics.samples import median
from perflog.statistics.shifts import shifts
from perflog.tables.columns import Rows
from perflog.tables.nulls import records
from perflog.units import show, show_change

_LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "request latency"}
_FULL = 0.9  # of the cache: an engine preempts requests when it has none left
_LONG_TAIL = 3  # times the median
_DIGITS = 3
_STEADY_SHARE = 0.1  # of the cache, by which its use may vary to be one number


def latencies(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Median, else mean, and p99 of each latency; which tail is long."""
    rows = serving.table(tables, options)
    for row in records(rows[rows["run"].eq(run) & rows["of"].isin(list(_LATENCIES))]):
        names = ("mean", "median", "p99")
        parts = [f"{name} {show(row[name], 's', _DIGITS)}" for name in names if row[name] is not None]
        tail = row["tail"]
        long = f" ({tail:.2g} times the median)" if tail is not None and tail >= _LONG_TAIL else ""
        number = f", {int(row['n']):,} requests" if row["by"] == "requests" else ""
        yield f"{_LATENCIES[row['of']]}: {', '.join(parts)}{long}{number}."


def server_load(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Requests and cache of an engine while requests run; that it is saturated; since when its rate is another one."""
    rows = serving.table(tables, options)
    rows = rows[(rows["run"] == run) & (rows["by"] == "readings")]
    by_quantity: dict[str, dict[str, Any]] = {row["of"]: row for row in records(rows)}
    if RUNNING not in by_quantity:
        return
    every = tables.rows_of("values", run)
    readings = int(every.one_of("key", [RUNNING]).sum())
    parts = [f"{_range(by_quantity[RUNNING])} running"]
    parts += [f"{_range(by_quantity[WAITING])} waiting"] if WAITING in by_quantity else []
    parts += [f"KV cache {_share(by_quantity[CACHE])} full"] if CACHE in by_quantity else []
    rate = by_quantity.get(GENERATED)
    if rate is not None and rate["max"] >= _LONG_TAIL * rate["median"]:  # the median alone represents no reading
        parts += [f"{rate['min']:,.4g} to {rate['max']:,.4g} tokens/s generated"]
    waits = WAITING in by_quantity and by_quantity[WAITING]["median"] > 0
    is_full = CACHE in by_quantity and by_quantity[CACHE]["median"] >= _FULL
    saturated = ": the server is saturated" if waits and is_full else ": requests wait" if waits else ""
    busy = int(by_quantity[RUNNING]["n"])
    yield f"While requests run ({busy:,} of {readings:,} readings): {', '.join(parts)}{saturated}."
    yield from _levels(busy_readings(every))


def _levels(readings: Mapping[str, Rows]) -> Iterator[str]:
    """Since which line an engine generates at another rate, and what its other readings are since then."""
    if GENERATED not in readings:
        return
    generated = readings[GENERATED].where(readings[GENERATED]["value"] > 0)
    values, lines = generated["value"], generated["line"]
    for before, after in pairwise(shifts(values)):
        old, new = (median(values[level.start : level.stop]) for level in (before, after))
        bounds = lines[before.start], lines[after.start], lines[after.stop - 1]
        others = [text for name in (WAITING, CACHE, RUNNING) if name in readings
                  and (text := _moved(name, readings[name], bounds))]  # fmt: skip
        with_it = f"; with it {', '.join(others)}" if others else ""
        is_other_load = RUNNING in readings and _rise(readings[RUNNING], bounds) * (new - old) > 0
        change = "" if is_other_load else f", {show_change(new / old - 1)}"  # more requests generate more
        yield f"Since line {bounds[1]:,}: generated tokens/s {old:,.5g} -> {new:,.5g}{change}{with_it}."


def _medians(rows: Rows, bounds: tuple[int, int, int]) -> tuple[float, float] | None:
    """The medians of a reading before and after a line; None if one is unknown."""
    lines, values = rows["line"], rows["value"]
    parts = values[(lines >= bounds[0]) & (lines < bounds[1])], values[(lines >= bounds[1]) & (lines <= bounds[2])]
    return (median(parts[0]), median(parts[1])) if all(map(len, parts)) else None


def _moved(name: str, rows: Rows, bounds: tuple[int, int, int]) -> str:
    """What a reading is before and after a line, in words; empty if it is about the same."""
    if (medians := _medians(rows, bounds)) is None:
        return ""
    old, new = medians
    if name == CACHE:
        is_other = abs(new - old) >= _STEADY_SHARE
        return f"KV cache {show(old, '1', 3)} -> {show(new, '1', 3)}" if is_other else ""
    return f"{old:,.0f} -> {new:,.0f} {name.partition('_')[0]}" if _rise(rows, bounds) else ""


def _rise(rows: Rows, bounds: tuple[int, int, int]) -> float:
    """By how many requests a reading rises at a line; 0 if it is about the same."""
    old, new = _medians(rows, bounds) or (0.0, 0.0)
    return new - old if abs(new - old) > max(1, _STEADY_SHARE * max(old, new)) else 0.0


def _share(row: dict[str, Any]) -> str:
    """The use of the cache: its median, or its range if it varies."""
    if row["max"] - row["min"] < _STEADY_SHARE:
        return show(row["median"], "1", 2)
    return f"{show(row['min'], '1', 2)} to {show(row['max'], '1', 2)}"


def _range(row: dict[str, object]) -> str:
    low, high = f"{row['min']:,.0f}", f"{row['max']:,.0f}"
    return low if low == high else f"{low} to {high}"
