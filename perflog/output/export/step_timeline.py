"""A run of a text log as a Chrome trace: steps one after the other, with the phases that each rank timed inside.

A text log says how long things took, and rarely when. So durations are as printed, but starts are laid out: steps
follow one another, and phases follow one another inside the phase that they are part of. A note in the trace says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perflog.errors import UsageError
from perflog.metrics.possible import impossible
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.output.export.event_tracks import Event
from perflog.tables.nulls import int_or_none, none_if_null

if TYPE_CHECKING:
    import pandas as pd

NOTE = (
    "Durations are as printed. The log does not say when things began: steps are laid end to end, and so are phases "
    "inside the phase that they are part of."
)

_JOB, _UNKNOWN, _RANKS = 1, 2, 10  # process ids: the job, phases without a known rank; rank r is _RANKS + r
_STEPS, _PHASES, _LAYERS = "steps", "phases", "layers, end to end"
_BESIDE, _OVER = "in parallel to the step", "longer than their parent"
_GAP = 1e-6  # seconds between steps, so that slices never share an edge
_ROUNDING = 1 + 1e-6  # parts may be longer than the whole by rounding


class StepTimeline:
    """Lays out the steps of one run on a time axis."""

    def __init__(self, tables: Tables) -> None:
        self._semantics: RunSemantics = next(iter(semantics_by_run(tables["runs"]).values()))
        self._steps = _steps(tables["steps"])
        self._phases, self._layers = _by_step(tables["phases"]), _by_step(tables["layers"])
        self._threads: dict[tuple[int, str], int] = {}
        self._now = self._end = 0.0  # seconds: start of the current step, end of its last slice

    def events(self) -> Iterator[Event]:
        """Return the trace events, with times in microseconds; the names of processes and threads come last.

        Raises UsageError if nothing in the run belongs to a step.
        """
        numbers = sorted({*self._steps, *self._phases, *self._layers})
        if not numbers:
            help = "`perflog export --to csv` writes its tables"
            raise UsageError("nothing in this run belongs to a step: a trace has nothing to show", help=help)
        for number in numbers:
            row = self._steps.get(number, {})
            yield from self._step(number, row)
            yield from self._counters(row)
            yield from self._phase_slices(number, _number(row.get("forward_s")) or 0.0)
            yield from self._layer_slices(number)
            self._now = self._end = self._end + _GAP
        yield from self._names()

    def _slice(
        self, pid: int, thread: str, name: str, start: float, seconds: float, category: str, args: Event
    ) -> Event:
        tid = self._threads.setdefault((pid, thread), len(self._threads) + 1)
        self._end = max(self._end, start + seconds)
        times = {"ts": start * 1e6, "dur": seconds * 1e6}
        return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, **times, "args": args}

    def _step(self, number: int, row: Event) -> Iterator[Event]:
        seconds = _number(row.get("step_time_s"))
        if seconds is None or seconds < 0:
            return
        known = {k: v for k, v in row.items() if k not in ("run", "part", "copy") and v is not None and v == v}
        args = {
            k: v if isinstance(v, str) else _number(v) if isinstance(v, float) else int(v) for k, v in known.items()
        }
        yield self._slice(_JOB, _STEPS, f"step {number}", self._now, seconds, "step", args)
        start = self._now
        for name in ("forward", "backward"):
            part = _number(row[f"{name}_s"])
            if part is not None and part >= 0 and start + part <= self._now + seconds * _ROUNDING:
                yield self._slice(_JOB, _STEPS, name, start, part, "step", {"step": number})
                start += part

    def _counters(self, row: Event) -> Iterator[Event]:
        for column in ("tflops", "loss", "tokens_per_s", "memory_bytes"):
            value = _number(row.get(column))
            if value is not None:
                track = {"pid": _JOB, "tid": 0, "ts": self._now * 1e6}
                yield {"ph": "C", "name": column, **track, "args": {column: value}}

    def _phase_slices(self, number: int, forward: float) -> Iterator[Event]:
        """Yield the phases of a step, rank by rank; phases without a rank in the order in which they were printed.

        Args:
            number: The step.
            forward: Seconds of its forward pass, after which the backward pass begins.
        """
        phases = self._phases.get(number)
        if phases is None:
            return
        known = phases["rank"].notna()
        for rank, rows in phases[known].groupby("rank", sort=True):
            yield from self._tree(_RANKS + int(rank), "", rows.to_dict("records"), forward)
        # Without ranks, the second printing of a phase may be the first one of another rank. So the phases that are
        # printed k-th have tracks of their own, and each is in the parent of a first occurrence.
        for order, rows in phases[~known].groupby("occurrence", sort=True):
            first_occurrences = [{**row, "occurrence": 1} for row in rows.to_dict("records")]
            yield from self._tree(_UNKNOWN, f", printed {order}.", first_occurrences, forward)

    def _tree(self, pid: int, lane: str, rows: list[Event], forward: float) -> Iterator[Event]:
        """Return the phases of one rank in one step, each after the phase before it, inside its parent."""
        names = {row["phase"] for row in rows}
        parts: dict[str, list[Event]] = {}
        for row in rows:
            parent = self._semantics.parent(row["phase"], int(row["occurrence"]))
            while parent not in names and (declared := self._semantics.phase(parent)) is not None:
                parent = declared.of[0]  # this step has no time of the parent
            parts.setdefault(parent, []).append(row)
        cursors = dict.fromkeys((_PHASES, _BESIDE), self._now)
        for whole, begin in (("step", 0.0), ("forward", 0.0), ("backward", forward)):
            cursors = {thread: max(cursor, self._now + begin) for thread, cursor in cursors.items()}
            for row in parts.pop(whole, ()):
                declared = self._semantics.phase(row["phase"])
                thread = _BESIDE if declared is not None and declared.hidden else _PHASES
                yield from self._inside(pid, thread, lane, row, cursors[thread], parts)
                cursors[thread] += row["time_s"]

    def _inside(
        self, pid: int, thread: str, lane: str, row: Event, start: float, parts: dict[str, list[Event]]
    ) -> Iterator[Event]:
        name, declared = row["phase"], self._semantics.phase(row["phase"])
        args = {"line": int(row["line"]), "step": int(row["step"]), "rank_by": row["rank_by"]}
        category = declared.kind if declared is not None else "phase"
        yield self._slice(pid, thread + lane, name, start, row["time_s"], category, args)
        cursor, end = start, start + row["time_s"] * _ROUNDING
        for part in parts.pop(name, ()):
            fits = cursor + part["time_s"] <= end
            yield from self._inside(pid, thread if fits else _OVER, lane, part, cursor, parts)
            cursor += part["time_s"]

    def _layer_slices(self, number: int) -> Iterator[Event]:
        layers = self._layers.get(number)
        if layers is None:
            return
        for rank, rows in layers.groupby("rank", dropna=False, sort=True):
            pid, start = _UNKNOWN if rank != rank or rank is None else _RANKS + int(rank), self._now
            for row in rows.to_dict("records"):
                args = {"line": int(row["line"]), "step": number, "stage": int_or_none(row["stage"])}
                args["calls"] = int_or_none(row["calls"])
                yield self._slice(pid, _LAYERS, str(row["layer"]), start, row["time_s"], str(row["direction"]), args)
                start += row["time_s"]

    def _names(self) -> Iterator[Event]:
        for pid in sorted({pid for pid, _ in self._threads}):
            name = {_JOB: "job", _UNKNOWN: "rank unknown"}.get(pid, f"rank {pid - _RANKS}")
            yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
            yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
        for (pid, thread), tid in self._threads.items():
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}


def _steps(steps: pd.DataFrame) -> dict[int, Event]:
    """Return the row of each step: of its first repeat, the row of the slowest rank."""
    steps = steps[steps["step"].notna() & ~(steps["copy"] > 1)]
    steps = steps.sort_values(["step", "step_time_s"], na_position="first").drop_duplicates("step", keep="last")
    return {int(row["step"]): row for row in steps.to_dict("records")}


def _by_step(table: pd.DataFrame) -> dict[int, pd.DataFrame]:
    known = table[table["step"].notna() & table["time_s"].notna()]
    known = known[~impossible("time_s", known["time_s"].to_numpy("float64"))]
    return {int(step): rows for step, rows in known.groupby("step")}


def _number(value: Any) -> float | None:
    """Return a finite number, else None: JSON has neither NaN nor infinity."""
    number = none_if_null(value)
    return float(number) if number is not None and math.isfinite(number) else None
