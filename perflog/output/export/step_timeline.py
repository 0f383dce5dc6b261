"""A run of a text log as a Chrome trace: steps one after the other, with the phases that each rank timed inside.

A text log says how long things took, and rarely when. So durations are as printed, but starts are laid out: steps
follow one another, and phases follow one another inside the phase that they are part of. A note in the trace says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from perflog.errors import UsageError
from perflog.metrics.possible import impossible
from perflog.metrics.row_groups import row_groups
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.output.export.event_tracks import Event
from perflog.tables.columns import Rows
from perflog.tables.schema import TABLES

NOTE = (
    "Durations are as printed. The log does not say when things began: steps are laid end to end, and so are phases "
    "inside the phase that they are part of."
)

_JOB, _UNKNOWN, _RANKS = 1, 2, 10  # process ids: the job, phases without a known rank; rank r is _RANKS + r
_STEPS, _PHASES, _LAYERS = "steps", "phases", "layers, end to end"
_BESIDE, _OVER = "in parallel to the step", "longer than their parent"
_OF_PHASES = ("phase", "occurrence", "line", "step", "rank_by", "time_s")
_GAP = 1e-6  # seconds between steps, so that slices never share an edge
_ROUNDING = 1 + 1e-6  # parts may be longer than the whole by rounding


class StepTimeline:
    """Lays out the steps of one run on a time axis."""

    def __init__(self, tables: Tables) -> None:
        self._semantics: RunSemantics = next(iter(semantics_by_run(tables.rows("runs")).values()))
        self._steps = _steps(tables.rows("steps"))
        self._phases, self._layers = (_by_step(tables.rows(name)) for name in ("phases", "layers"))
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
        known = {k: v for k, v in row.items() if k not in ("run", "part", "copy") and v is not None}
        args = {k: _number(v) if isinstance(v, float) else v for k, v in known.items()}
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
        known = phases.known("rank")
        for rows in _in_order(phases.where(known), "rank"):
            yield from self._tree(_RANKS + int(rows["rank"][0]), "", list(rows.dicts(*_OF_PHASES)), forward)
        # Without ranks, the second printing of a phase may be the first one of another rank. So the phases that are
        # printed k-th have tracks of their own, and each is in the parent of a first occurrence.
        for rows in _in_order(phases.where(~known), "occurrence"):
            first_occurrences = [{**row, "occurrence": 1} for row in rows.dicts(*_OF_PHASES)]
            yield from self._tree(_UNKNOWN, f", printed {rows['occurrence'][0]}.", first_occurrences, forward)

    def _tree(self, pid: int, lane: str, rows: list[Event], forward: float) -> Iterator[Event]:
        """Return the phases of one rank in one step, each after the phase before it, inside its parent."""
        names = {row["phase"] for row in rows}
        parts: dict[str, list[Event]] = {}
        for row in rows:
            parent = self._semantics.parent(row["phase"], row["occurrence"])
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
        args = {"line": row["line"], "step": row["step"], "rank_by": row["rank_by"]}
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
        known = layers.known("rank")
        for rows in [*_in_order(layers.where(known), "rank"), layers.where(~known)]:
            start = self._now
            for row in rows.dicts("rank", "line", "stage", "calls", "layer", "direction", "time_s"):
                pid = _UNKNOWN if row["rank"] is None else _RANKS + row["rank"]
                args = {"line": row["line"], "step": number, "stage": row["stage"], "calls": row["calls"]}
                name, category = row["layer"] or "layer", row["direction"] or "layer"
                yield self._slice(pid, _LAYERS, name, start, row["time_s"], category, args)
                start += row["time_s"]

    def _names(self) -> Iterator[Event]:
        for pid in sorted({pid for pid, _ in self._threads}):
            name = {_JOB: "job", _UNKNOWN: "rank unknown"}.get(pid, f"rank {pid - _RANKS}")
            yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
            yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
        for (pid, thread), tid in self._threads.items():
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}


def _steps(rows: Rows) -> dict[int, Event]:
    """Return the row of each step: of its first repeat, the row of the slowest rank."""
    rows = rows.where(rows.known("step") & (rows["copy"] <= 1))
    times = rows["step_time_s"]
    slowest_last = rows.where(np.lexsort((np.where(np.isnan(times), -np.inf, times), rows["step"])))
    return {row["step"]: row for row in slowest_last.dicts(*(column.name for column in TABLES["steps"]))}


def _by_step(rows: Rows) -> dict[int, Rows]:
    rows = rows.where(rows.known("step", "time_s") & ~impossible("time_s", rows["time_s"]))
    return {int(step_rows["step"][0]): step_rows for step_rows in _in_order(rows, "step")}


def _in_order(rows: Rows, name: str) -> list[Rows]:
    """Return the rows of each number in a column, the smallest first."""
    return [rows.where(index) for index in row_groups(rows, name).rows]


def _number(value: float | None) -> float | None:
    """Return a finite number, else None: JSON has neither NaN nor infinity."""
    return float(value) if value is not None and math.isfinite(value) else None
