"""The step lines of an attempt on one clock: time stamps, else printed times, else added durations."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.attempts import Extent
from perflog.metrics.jobs.job_intervals import ELAPSED, NS, RELATIVE, STARTUP, STEPS
from perflog.metrics.jobs.pause_marks import Mark, marks, seconds_of
from perflog.metrics.jobs.pauses import include_pauses
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_orders import step_order
from perflog.tables.columns import Rows

_MOST_S = 2.0**63 / NS  # seconds that can be nanoseconds
_IN_TIME = 0.9  # share of the step lines with the latest time so far, at least: else the clock goes back


class StepLines(Struct, frozen=True):
    """The step lines of an attempt on one clock, where steps and clock go up.

    `places`: index of the step in the order of the job. `steps_done`: since the step line before. `seconds`: printed
    time of a step, NaN if it is not printed. `resolution_s`: of the clock.
    """

    lines: Ints
    steps: Ints
    places: Ints
    steps_done: Ints
    times: Ints
    seconds: Floats
    resolution_s: float


def on_a_clock(tables: Tables, extent: Extent) -> Extent:
    """Return an attempt on the best clock that its lines have: stamps, else printed times, else added durations."""
    if step_lines(tables, extent) is not None:
        return extent
    for clock in RELATIVE:
        steps = step_lines(tables, replace(extent, clock=clock))
        if steps is not None:
            return replace(extent, clock=clock, begin_ns=0, end_ns=int(steps.times[-1]))
    return extent


def step_lines(tables: Tables, extent: Extent) -> StepLines | None:
    """Return the step lines of an attempt's lowest rank, else of its first process; None if too few have a time."""
    if extent.clock is None:
        return None
    steps = tables.rows_of("steps", extent.run)
    steps = steps.where((steps["copy"] == 1) & steps.known("step"))
    if extent.clock == ELAPSED:
        steps = steps.where(steps.known("elapsed_s"))
    elif extent.clock == STEPS:
        steps = steps.where(steps.known("step_time_s") & ~steps.known("step_time_by"))
    else:
        steps = steps.where(steps.known("printed_ns") & steps.one_of("clock", [extent.clock]))
    steps = _of_first_member(steps)
    if len(steps) < 2:
        return None
    if not (np.diff(steps["line"]) >= 0).all():
        steps = steps.where(np.argsort(steps["line"], kind="stable"))
    times, places = _times(steps, extent.clock), step_order(tables, steps)
    ahead = _are_ahead(places, times)
    if ahead.sum() < 2 or ahead.mean() < 0.5:
        return None
    steps = steps.where(ahead)
    places, times = places[ahead], times[ahead]
    seconds = np.where(steps.known("step_time_by"), np.nan, steps["step_time_s"])
    seconds = np.where(seconds > 0, seconds, np.nan)
    covers, done = steps["steps_averaged"], np.append(0, np.diff(places))
    crossed = np.append(False, np.diff(steps["epoch"]) != 0)
    usual = int(np.median(done[1:]))
    done = np.where(crossed, np.where(covers > 0, covers, np.minimum(usual, np.maximum(steps["step"], 1))), done)
    done[0] = covers[0] if covers[0] > 0 else max(1, min(usual, int(steps["step"][0])))
    lines = steps["line"]
    if extent.clock == STEPS:
        seconds, ends = _added(seconds, np.maximum(done, 1), *_printed_pauses(tables, extent, lines))
        if not ends[-1] < _MOST_S:  # NaN: a step without a time
            return None
        times = _ns(ends)
    return StepLines(lines, steps["step"], places, done, times, seconds, resolution(times))


def _of_first_member(steps: Rows) -> Rows:
    """Return the step lines of the lowest rank; where they have none, of the first process."""
    if len(steps):
        steps = steps.where(steps["rank"] == steps["rank"].min())
        if steps.known("source").all() and not steps.known("rank").any():
            steps = steps.where(steps.one_of("source", steps["source"][:1].tolist()))
    return steps


def _are_ahead(places: Ints, times: Ints) -> Mask:
    """Flag the step lines at which steps and clock go up; none if somebody set the clock back, as after summer time."""
    ahead = np.append(True, places[1:] > np.maximum.accumulate(places)[:-1])
    in_time = np.append(True, times[1:] >= np.maximum.accumulate(times)[:-1])
    is_ahead: Mask = ahead & in_time & bool(in_time[ahead].mean() >= _IN_TIME)
    return is_ahead


def _times(steps: Rows, clock: str) -> Ints:
    """Return the readings of a clock on step lines; 0 for the clock of added durations."""
    if clock == STEPS:
        return np.zeros(len(steps), np.int64)
    return _ns(steps["elapsed_s"]) if clock == ELAPSED else steps["printed_ns"]


def _printed_pauses(tables: Tables, extent: Extent, lines: Ints) -> Floats:
    """Return the printed seconds of activities other than steps before each step line, and those of start-ups."""
    found = np.zeros((2, len(lines)))
    here: dict[tuple[int, str], list[Mark]] = {}
    for mark in marks(tables, extent):
        here.setdefault((int(np.searchsorted(lines, mark.line)), mark.activity), []).append(mark)
    for (gap, kind), marks_of_kind in here.items():
        if gap < len(lines):
            found[int(kind == STARTUP), gap] += seconds_of(marks_of_kind) or 0.0
    return found


def _added(seconds: Floats, done: Ints, pauses: Floats, starts: Floats) -> tuple[Floats, Floats]:
    """Return the times of steps without the pauses that they include, and when the steps of each line end."""
    seconds = seconds - np.where(include_pauses(seconds, pauses / done), pauses / done, 0.0)
    return seconds, np.cumsum(seconds * done + pauses + starts)


def _ns(seconds: Floats) -> Ints:
    """Return seconds in nanoseconds; 0 where they are not known, or cannot be."""
    known = np.isfinite(seconds) & (np.abs(seconds) < _MOST_S)
    return np.round(np.where(known, seconds, 0.0) * NS).astype(np.int64)


def resolution(times: Ints) -> float:
    """Return the resolution of a clock in seconds, from 1 to 1e-4: what divides all its readings; else 1e-6."""
    units = (NS, NS // 10, NS // 100, NS // 1000, NS // 10_000)
    return next((unit / NS for unit in units if not (times % unit).any()), 1e-6)
