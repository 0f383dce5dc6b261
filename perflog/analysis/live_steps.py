"""The last steps of a log that grows: where it is, how fast it goes, what has changed, and whether it stalls.

In: rows of table `steps` as they are read. Out: `Now`. Memory is bounded: the last few thousand step lines are kept.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from msgspec import Struct

from perflog.parsing.assemble.runs.run_state import RunSettings

if TYPE_CHECKING:
    import pyarrow as pa

_KEPT = 4096  # step lines
_RECENT_S, _BEFORE_S = 60.0, 600.0  # seconds of training that are compared with those before them
_FEW = 5  # step lines of either; fewer say nothing
_STALL, _SHORTEST_STALL_S = 5.0, 5.0  # a stall: so many times the usual time between two step lines, at least so long

_PAUSES = ("checkpoint", "evaluation", "validation", "restore")
"""Kinds of milestones that explain why no step is made."""

_TOTALS = ("train_iters", "max_steps", "total_steps", "num_steps", "train_steps", "num_iterations", "steps")
"""Settings that hold the number of steps of a run, as formats name them."""

_COLUMNS = ("run", "line", "part", "step", "step_time_s", "loss", "tokens_per_s", "printed_ns")


class _StepLine(Struct):
    """A step line. `arrived` is the time at which it was read, `printed_ns` its time stamp."""

    run: int
    step: int
    arrived: float
    printed_ns: int | None = None
    step_time_s: float | None = None
    loss: float | None = None
    tokens_per_s: float | None = None


class Now(Struct, frozen=True):
    """What the last steps of a log show. None: unknown.

    Attributes:
        run: The number of the run in the log.
        step: The last step.
        steps: The number of steps of the run, if the log prints it.
        loss: The last loss.
        step_time_s: The median time of the steps of the last minute, in seconds.
        tokens_per_s: The last tokens per second, as printed.
        change: The relative change of this median against the ten minutes before.
        quiet_s: The seconds since the last step line.
        usual_s: The median time between two step lines, in seconds.
        stalls: Whether the next step line is overdue.
        paused_by: The last milestone in the log after the last step, such as a checkpoint.
    """

    run: int
    step: int
    steps: int | None
    loss: float | None
    step_time_s: float | None
    tokens_per_s: float | None
    change: float | None
    quiet_s: float
    usual_s: float | None
    stalls: bool
    paused_by: str | None = None


class LiveSteps:
    """Collects the last steps of a log that grows. `clock` returns the time in seconds.

    Attributes:
        last_line: The last line of the log that gave a row of any table; 0 before the first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Forget all steps: another log follows."""
        self._lines: deque[_StepLine] = deque(maxlen=_KEPT)
        self._settings: RunSettings | None = None
        self._seen: tuple[int, int, int] = (0, 0, 0)  # run, line and part of the last row
        self._delay = 0.0
        self._told: tuple[int, str] = (0, "")  # the last milestone, with its line
        self.last_line = 0

    def set_delay(self, seconds: float) -> None:
        """Set how long ago the rows that come next were printed, at the latest."""
        self._delay = seconds

    def observe(self, tables: Mapping[str, pa.Table], settings: RunSettings) -> None:
        """Take rows that are complete, by table. Rows that were taken before, in an earlier reading, are skipped."""
        self._settings = settings
        for table in tables.values():
            if table.num_rows:
                self.last_line = max(self.last_line, pc.max(table["line"]).as_py())
        if "milestones" in tables:
            marks = zip(*(tables["milestones"][name].to_pylist() for name in ("line", "kind")), strict=True)
            self._told = max([self._told, *(mark for mark in marks if mark[1] in _PAUSES)])
        if "steps" not in tables or not tables["steps"].num_rows:
            return
        rows = tables["steps"].select(list(_COLUMNS))
        rows = rows.filter(pc.is_valid(rows["step"])).sort_by([("line", "ascending"), ("part", "ascending")])
        arrived = self._clock() - self._delay
        for row in rows.slice(max(0, rows.num_rows - _KEPT)).to_pylist():
            place = int(row["run"]), row["line"], row["part"]
            if place > self._seen:
                self._seen = place
                self._add(place[0], row, arrived)

    def _add(self, run: int, row: Mapping[str, Any], arrived: float) -> None:
        """Add a row. Rows of several ranks at one step are one step line; the slowest rank gives its time."""
        step, step_time_s = row["step"], row["step_time_s"]
        last = self._lines[-1] if self._lines else None
        if last is not None and last.run != run:
            self._lines.clear()
            last = None
        if last is None or last.step != step:
            last = _StepLine(run, step, arrived, row["printed_ns"])
            self._lines.append(last)
        if step_time_s is not None:
            last.step_time_s = max(step_time_s, last.step_time_s or 0.0)
        last.loss = row["loss"] if row["loss"] is not None else last.loss
        last.tokens_per_s = row["tokens_per_s"] if row["tokens_per_s"] is not None else last.tokens_per_s

    def now(self) -> Now | None:
        """Return what the last steps show; None before the first step."""
        if not self._lines:
            return None
        last = self._lines[-1]
        recent, before = self._recent_and_before()
        step_time = median(recent) if recent else None
        enough = len(recent) >= _FEW and len(before) >= _FEW
        change = step_time / median(before) - 1 if step_time is not None and enough and median(before) > 0 else None
        quiet, usual = self._clock() - last.arrived, self._usual()
        stalls = usual is not None and quiet > max(_STALL * usual, _SHORTEST_STALL_S)
        loss = next((line.loss for line in reversed(self._lines) if line.loss is not None), None)
        steps = self._steps(last.step)
        milestone_line, told = self._told
        paused_by = told if milestone_line > self._seen[1] else None
        return Now(
            last.run, last.step, steps, loss, step_time, last.tokens_per_s, change, quiet, usual, stalls, paused_by
        )

    def quiet_before_next(self, step: int) -> float | None:
        """Return the seconds between the last lines of a step and the next step; None while no step follows it."""
        return next((b.arrived - a.arrived for a, b in pairwise(self._lines) if a.step == step), None)

    def _steps(self, step: int) -> int | None:
        """Return the number of steps of the run. A setting below the step that is reached means something else."""
        values = [self._settings.single(name) for name in _TOTALS] if self._settings is not None else []
        return next((value for value in values if isinstance(value, int) and value >= step), None)

    def _durations(self) -> Iterator[tuple[float, int]]:
        """Yield the time of a step, printed, of stamps or of arrivals, and how many steps it covers; last first."""
        lines = list(self._lines)
        for line, previous in zip(reversed(lines), [*reversed(lines[:-1]), None], strict=True):
            count = max(line.step - previous.step, 1) if previous is not None else 1
            if line.step_time_s is not None:
                yield line.step_time_s, count
            elif previous is not None and (seconds := _stamped(previous, line)) is not None:
                yield seconds / count, count
            elif previous is not None and line.arrived > previous.arrived:
                yield (line.arrived - previous.arrived) / count, count

    def _recent_and_before(self) -> tuple[list[float], list[float]]:
        """Return the step times of the last minute, at least of a few lines, and of the ten minutes before."""
        recent: list[float] = []
        before: list[float] = []
        elapsed = 0.0
        for duration, count in self._durations():
            is_recent = elapsed < _RECENT_S or len(recent) < _FEW
            if not is_recent and elapsed >= _RECENT_S + _BEFORE_S and len(before) >= _FEW:
                break
            (recent if is_recent and not before else before).append(duration)
            elapsed += duration * count
        return recent, before

    def _usual(self) -> float | None:
        """Return the median time between two step lines."""
        times = [duration * count for duration, count in self._durations()]
        between = [b.arrived - a.arrived for a, b in pairwise(self._lines) if b.arrived > a.arrived]
        return max((median(values) for values in (times, between) if len(values) >= 2), default=None)


def _stamped(before: _StepLine, line: _StepLine) -> float | None:
    """Return the seconds between two step lines by the clock of the log; None if not known."""
    if before.printed_ns is None or line.printed_ns is None or line.printed_ns <= before.printed_ns:
        return None
    return (line.printed_ns - before.printed_ns) / 1e9
