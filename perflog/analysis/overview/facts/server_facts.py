"""Facts of a server, in sentences: its start, latencies, its load, and since when it generates less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from perflog.metrics import Options, Tables, serving
from perflog.metrics.benchmarks.server_readings import (
    CACHE,
    GENERATED,
    RUNNING,
    WAITING,
    busy_readings,
    by_replica,
    stuck_engines,
)
from perflog.metrics.benchmarks.serving import client_rates
from perflog.metrics.semantics import semantics_by_run
from perflog.statistics.samples import median
from perflog.statistics.shifts import shifts
from perflog.tables.columns import Rows
from perflog.tables.nulls import records
from perflog.units import show, show_change

_LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "latency": "request latency"}
_FULL = 0.9  # of the cache: an engine preempts requests when it has none left
_LONG_TAIL = 3  # times the median
_DIGITS = 3
_LEAST_START = 1.0  # seconds of a part of the start
_WHOLE = 1000  # tokens/s, from which on a rate has no decimals
_PREFILL_QUEUE, _PREFILL_RATE = "prefill_queued_requests", "input_tokens_per_s"
_SLOWER = 1.15  # ratio of what two replicas generate for each running request
_STEADY_SHARE = 0.1  # of the cache, by which its use may vary to be one number


def latencies(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Median, else mean, and p99 of each latency; which tail is long."""
    rows = serving.table(tables, options)
    for row in records(rows[rows["run"].eq(run) & rows["of"].isin(list(_LATENCIES)) & rows["unit"].eq("s")]):
        names = ("mean", "median", "p99")
        parts = [f"{name} {show(row[name], 's', _DIGITS)}" for name in names if row[name] is not None]
        tail = row["tail"]
        times = "" if tail is None else f"{tail:.2g}" if tail < 10 else f"{tail:,.0f}"
        long = f" ({times} times the median)" if tail is not None and tail >= _LONG_TAIL else ""
        number = f", {int(row['n']):,} requests" if row["by"] == "requests" else ""
        yield f"{_LATENCIES[row['of']]}: {', '.join(parts)}{long}{number}."


def start(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001
    """How long the parts of the start took, of several processes in the slowest one; none that took hardly any time."""
    form = semantics_by_run(tables.rows_of("runs", run))[run].format
    if form is None or not form.startup:
        return
    rows = tables.rows_of("values", run)
    by_key = rows.where(rows.one_of("key", tuple(form.startup)) & np.isfinite(rows["value"])).by("key")
    seconds = {name: float(by_key[key]["value"].max()) for key, name in form.startup.items() if key in by_key}
    seconds = {name: longest for name, longest in seconds.items() if longest >= _LEAST_START}

    by_whole = dict[str, list[str]]()
    for name in seconds:
        whole = name.rpartition("/")[0]
        by_whole.setdefault(whole if whole in seconds else "", []).append(name)

    def parts(whole: str) -> str:
        texts = []
        for name in by_whole.get(whole, ()):
            inner = f" ({of})" if (of := parts(name)) else ""
            texts.append(f"{name.rpartition('/')[2]} {show(seconds[name], 's', _DIGITS)}{inner}")
        return ", ".join(texts)

    if text := parts(""):
        yield f"Start of the server: {text}."


def client_rate(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001
    """How many requests a client is set to send, and how many are served."""
    if (rate := client_rates(tables).get(run)) is not None:
        limits = ": the client's rate is the limit, not the server" if rate.is_limit else ""
        yield f"The client is set to send requests at {rate.sent:,.3g}/s, and {rate.served:,.3g}/s are served{limits}."


def server_load(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Requests and cache of an engine while requests run; that it is saturated; since when its rate is another one."""
    rows = serving.table(tables, options)
    rows = rows[(rows["run"] == run) & (rows["by"] == "readings")]
    replicas = [int(rank) for rank in rows["dp_rank"].dropna().unique()]
    by_quantity: dict[str, list[dict[str, Any]]] = {}
    for row in records(rows[rows["dp_rank"].notna()] if replicas else rows):
        by_quantity.setdefault(row["of"], []).append(row)
    if RUNNING not in by_quantity:
        return
    every = tables.rows_of("values", run)
    readings = int(every.one_of("key", [RUNNING]).sum())
    parts = [f"{_range(by_quantity[RUNNING])} running"]
    parts += [f"{_range(by_quantity[WAITING])} waiting"] if WAITING in by_quantity else []
    parts += [f"KV cache {_share(by_quantity[CACHE])} full"] if CACHE in by_quantity else []
    rate = by_quantity.get(GENERATED, ())
    low, high = min((row["min"] for row in rate), default=0), max((row["max"] for row in rate), default=0)
    if high > low and any(
        row["max"] >= _LONG_TAIL * row["median"] for row in rate
    ):  # the median alone represents no reading
        parts += [f"{rate_in_words(low)} to {rate_in_words(high)} tokens/s generated"]
    waits = any(row["median"] > 0 for row in by_quantity.get(WAITING, ()))
    is_full = any(row["median"] >= _FULL for row in by_quantity.get(CACHE, ()))
    saturated = ": the server is saturated" if waits and is_full else ": requests wait" if waits else ""
    busy = sum(int(row["n"]) for row in by_quantity[RUNNING])
    engines = f" of {len(replicas)} replicas, each" if replicas else ""
    yield f"While requests run ({busy:,} of {readings:,} readings{engines}): {', '.join(parts)}{saturated}."
    for engine in stuck_engines(tables):
        if engine.run == run:
            yield f"{engine.sentence[0].upper()}{engine.sentence[1:]}."
    yield from _slow_replicas(by_quantity)
    ranks: list[int | None] = [*replicas] or [None]
    for rank in ranks:
        of = {name: by_replica(named).get(rank, named) for name, named in busy_readings(every).items()}
        yield from _levels(of, rank)


def prefill_load(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001
    """How many requests wait for an engine that only prefills: another one decodes."""
    rows = tables.rows_of("values", run)
    names = rows.counts("key")
    if RUNNING in names or _PREFILL_QUEUE not in names:  # to group all values of a long run takes much memory
        return
    by_key = rows.where(rows.one_of("key", (_PREFILL_QUEUE, _PREFILL_RATE)) & np.isfinite(rows["value"])).by("key")
    if _PREFILL_QUEUE not in by_key:
        return
    queued = by_key[_PREFILL_QUEUE]["value"]
    waits = ": requests wait for it" if median(queued) > 0 else ""
    rates = by_key[_PREFILL_RATE]["value"] if _PREFILL_RATE in by_key else None
    rate = "" if rates is None else f", {rate_in_words(median(rates))} prompt tokens/s (median)"
    yield f"It only prefills: {queued.min():,.0f} to {queued.max():,.0f} requests queued{rate}{waits}."


def rate_in_words(rate: float) -> str:
    """Return a rate of tokens as a string without an exponent: 10,445 and 443.6."""
    return f"{rate:,.0f}" if rate >= _WHOLE else f"{rate:,.4g}"


def _slow_replicas(by_quantity: Mapping[str, Sequence[dict[str, Any]]]) -> Iterator[str]:
    """Which replica is slower than another one: it runs more requests and generates no more for them."""
    rates = {row["dp_rank"]: row["median"] for row in by_quantity.get(GENERATED, ())}
    loads = {row["dp_rank"]: row["median"] for row in by_quantity[RUNNING]}
    if len(rates) < 2 or rates.keys() != loads.keys():
        return
    best = max(rates, key=lambda rank: rates[rank] / max(loads[rank], 1))
    for rank, rate in rates.items() if rates[best] > 0 else ():  # servers that only read prompts generate nothing
        more = loads[rank] / max(loads[best], 1)
        if more >= 1 and rate <= rates[best] and more * rates[best] >= _SLOWER * rate:
            yield (
                f"Replica {rank} is slower than replica {best}: {rate_in_words(rate)} tokens/s with {loads[rank]:,.0f} "
                f"running, against {rate_in_words(rates[best])} with {loads[best]:,.0f}."
            )


def _levels(readings: Mapping[str, Rows], replica: int | None) -> Iterator[str]:
    """Since which line an engine generates at another rate, and what its other readings are since then."""
    if GENERATED not in readings:
        return
    generated = readings[GENERATED].where(readings[GENERATED]["value"] > 0)
    values, lines = generated["value"], generated["line"]
    since = "Since" if replica is None else f"Replica {replica}: since"
    for before, after in pairwise(shifts(values)):
        old, new = (median(values[level.start : level.stop]) for level in (before, after))
        bounds = lines[before.start], lines[after.start], lines[after.stop - 1]
        others = [text for name in (WAITING, CACHE, RUNNING) if name in readings
                  and (text := _moved(name, readings[name], bounds))]  # fmt: skip
        with_it = f"; with it {', '.join(others)}" if others else ""
        is_other_load = RUNNING in readings and _rise(readings[RUNNING], bounds) * (new - old) > 0
        change = "" if is_other_load else f", {show_change(new / old - 1)}"  # more requests generate more
        yield f"{since} line {bounds[1]:,}: generated tokens/s {old:,.5g} -> {new:,.5g}{change}{with_it}."


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


def _share(rows: Sequence[dict[str, Any]]) -> str:
    """The use of the cache: its median, or its range if it varies."""
    low, high = min(row["min"] for row in rows), max(row["max"] for row in rows)
    if high - low < _STEADY_SHARE:
        return show(median(np.array([row["median"] for row in rows])), "1", 2)
    return f"{show(low, '1', 2)} to {show(high, '1', 2)}"


def _range(rows: Sequence[dict[str, Any]]) -> str:
    low, high = f"{min(row['min'] for row in rows):,.0f}", f"{max(row['max'] for row in rows):,.0f}"
    return low if low == high else f"{low} to {high}"
