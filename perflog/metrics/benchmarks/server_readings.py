"""Readings of a server: lines in which an engine prints its state from time to time. They are no cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

import numpy as np
from msgspec import Struct

from perflog.arrays import Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.run_tables import Tables, computed_once
from perflog.tables.columns import NULL, Rows

GENERATED, PROMPTS, RUNNING = "generation_tokens_per_s", "prompt_tokens_per_s", "running_requests"
WAITING, CACHE = "waiting_requests", "gpu_cache_usage"
"""Names of the readings, whatever the engine calls them."""

_PRINTED = {
    GENERATED: (GENERATED,),
    PROMPTS: (PROMPTS,),
    RUNNING: (RUNNING,),
    WAITING: (WAITING, "queued_requests"),
    CACHE: (CACHE, "token_usage", "full_token_usage"),
}
_STUCK = 3  # readings of a busy engine without a token
_IN_READING = lazy_pattern(r"(?:.*_)?running_requests")


def without_readings(rows: Rows) -> Rows:
    """Return rows of table `values` without the records that state how many requests run."""
    names = [name for name in rows.counts("key") if _IN_READING.fullmatch(name)]
    if not names:
        return rows
    lines = rows.where(rows.one_of("key", names))["line"]
    return rows.where(~np.isin(rows["line"], lines))


def busy_readings(rows: Rows) -> Mapping[str, Rows]:
    """Return by name what an engine prints of its state while requests run, of the values of a run."""
    by_key = rows.where(np.isfinite(rows["value"])).by("key") if RUNNING in rows.counts("key") else {}
    if RUNNING not in by_key:
        return {}
    running = by_key[RUNNING]
    busy = {(line, part) for line, part, value in running.records("line", "part", "value") if value > 0}
    found: dict[str, Rows] = {}
    for name, keys in _PRINTED.items():
        for key in keys:
            if name not in found and key in by_key and (at_work := _are_at(by_key[key], busy)).any():
                found[name] = by_key[key].where(at_work)
    return found


def by_replica(readings: Rows) -> dict[int | None, Rows]:
    """Return readings by data-parallel rank; all of them by None if their engine is the only one."""
    ranks = sorted({rank for (rank,) in readings.records("dp_rank") if rank != NULL})
    if len(ranks) < 2:
        return {None: readings}
    return {rank: readings.where(readings["dp_rank"] == rank) for rank in ranks}


class StuckEngine(Struct, frozen=True):
    """An engine that generates nothing in its last readings, although requests run.

    `replica`: its data-parallel rank; None if it is the only one. `line`: the first of these readings. `running`: the
    requests of the last one.
    """

    run: str
    replica: int | None
    line: int
    readings: int
    running: int

    @property
    def sentence(self) -> str:
        """What it does, from which line on."""
        who = "the engine" if self.replica is None else f"replica {self.replica}"
        return (
            f"{who} generates nothing since line {self.line:,}, while {self.running:,} requests run "
            f"({self.readings:,} readings)"
        )


@computed_once
def stuck_engines(tables: Tables) -> list[StuckEngine]:
    """Return the engines that generate nothing at the end of their log, although requests run."""
    return [engine for run, rows in tables.rows_by_run("values").items() for engine in _stuck(run, rows)]


def _stuck(run: str, rows: Rows) -> Iterator[StuckEngine]:
    readings = busy_readings(rows)
    if GENERATED not in readings:
        return
    every = rows.where(rows.one_of("key", {RUNNING}))
    last_of = {replica: own["line"][-1] for replica, own in by_replica(every).items()}
    running = dict(readings[RUNNING].records("line", "value"))
    filled = (
        {line for line, value in readings[PROMPTS].records("line", "value") if value > 0}
        if PROMPTS in readings
        else set()
    )
    for replica, own in by_replica(readings[GENERATED]).items():
        last_first = list(own.records("line", "value"))[::-1]
        idle = [line for line, _ in takewhile(lambda each: each[1] == 0 and each[0] not in filled, last_first)]
        if _STUCK <= len(idle) < len(last_first) and idle[0] == last_of.get(replica):
            yield StuckEngine(run, replica, idle[-1], len(idle), int(running[idle[0]]))


def _are_at(rows: Rows, records: set[tuple[int, int]]) -> Mask:
    return np.array([record in records for record in rows.records("line", "part")], np.bool_)
