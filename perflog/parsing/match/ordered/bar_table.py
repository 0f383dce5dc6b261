"""The states of progress bars in a batch: the counts and times that they print, in log order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints
from perflog.formats.model import Line
from perflog.parsing.match.records import Batch, FormatLine, Records

SMOOTHED = "smoothed_step_time"
"""The field that holds the seconds of a step by the smoothed rate of a short bar, of rows with a step; else NaN.

For a bar that takes less than `APART` seconds by its own rate, differences of whole seconds say nothing."""

APART = 20
"""Units of the last printed digit between two readings of a clock: a difference is wrong by 5 % at most."""

STEP, EPOCH = "step", "epoch"
UNKNOWN = -1
SLOW = 1.0  # seconds of a step, at which a bar is drawn at each step


class State(Struct, frozen=True):
    """A state of a bar.

    `step_time`: seconds of a step, from the smoothed rate; NaN if it is not printed. `index`: in its batch. `shown`:
    the kind of its line and the figures after its rate, of states that may be rows of steps. `step`, `epoch`: the step
    and the epoch that are printed beside the count, -1 if none is.
    """

    position: int
    count: int
    total: int
    elapsed: float
    step_time: float
    counts_steps: bool
    index: int = UNKNOWN
    shown: tuple[object, ...] = ()
    step: int = UNKNOWN
    epoch: int = UNKNOWN

    @property
    def may_lag(self) -> bool:
        """Whether steps may have passed since it was drawn: a bar is drawn ten times a second at most."""
        return not self.step_time >= SLOW


class StateTable:
    """The states of a batch: by rank label, in log order.

    Attributes:
        lines: The Line of each kind.
        kinds: The kind of each state, kind after kind.
        states: The states of each label.
        positions: Their positions.
    """

    def __init__(self, lines: Sequence[FormatLine], batch: Batch, kinds: Sequence[int]) -> None:
        self.lines = {kind: lines[kind][1] for kind in kinds}
        self.kinds = np.repeat(np.array(kinds, np.int64), [len(batch.records[kind]) for kind in kinds])
        by_label: dict[int, list[State]] = {}
        index = 0
        for kind in kinds:
            records, fields = batch.records[kind], lines[kind][1].bar
            if fields is None:
                continue
            columns = (numbers_of(records, name) for name in (fields.count, fields.total, fields.elapsed))
            line = lines[kind][1]
            steps = records.columns[STEP].tolist() if prints_step(line) else [UNKNOWN] * len(records)
            epochs = numbers_of(records, EPOCH) if counts_within_epoch(line) else [UNKNOWN] * len(records)
            for position, label, count, total, elapsed, time, shown, step, epoch in zip(
                records.positions.tolist(), records.known_labels.tolist(), *columns, step_times(line, records),
                shown_by(line, kind, records), steps, epochs, strict=True,
            ):  # fmt: skip
                own = (index, shown, step, int(epoch))
                state = State(position, int(count), int(total), elapsed, time, fields.counts_steps, *own)
                by_label.setdefault(label, []).append(state)
                index += 1
        self.states = {label: sorted(states, key=lambda state: state.position) for label, states in by_label.items()}
        self.positions: dict[int, Ints] = {
            label: np.array([state.position for state in states], np.int64) for label, states in self.states.items()
        }


def numbers_of(records: Records, name: str) -> list[float]:
    """Return the numbers of a field; `UNKNOWN` for records that lack it."""
    column = records.columns.get(name)
    if not isinstance(column, np.ndarray):
        return [UNKNOWN] * len(records)
    numbers: list[float] = np.where(np.isfinite(column), column, UNKNOWN).tolist()
    return numbers


def step_times(line: Line, records: Records) -> list[float]:
    """Return the seconds of a step by the rate of each state of a bar, NaN where it is not printed."""
    rate = line.bar.rate if line.bar is not None else ""
    column, unit = records.columns.get(rate), line.unit.get(rate)
    if not isinstance(column, np.ndarray) or unit is None:
        return [math.nan] * len(records)
    numbers = column * unit.factor
    with np.errstate(divide="ignore"):
        times: list[float] = (numbers if unit.base == "s" else 1 / numbers).tolist()
    return times


def shown_by(line: Line, kind: int, records: Records) -> list[tuple[object, ...]]:
    """Return what each state of a bar shows: the kind and the figures after its rate; () for one without figures."""
    names = line.template.names
    own = (line.bar.count, line.bar.total, line.bar.elapsed, line.bar.rate) if line.bar is not None else ()
    end = max((names.index(name) for name in own if name in names), default=len(names))
    columns = [records.columns[name] for name in names[end + 1 :] if name in records.columns]
    if line.table != "steps" or not columns:
        return [()] * len(records)
    figures = (x.tolist() if isinstance(x, np.ndarray) else x.to_pylist() for x in columns)
    return [(kind, *values) for values in zip(*figures, strict=True)]


def short_bar_times(line: Line, records: Records) -> np.ndarray[Any, Any]:
    """Return the seconds of a step by the rate of each state of a short bar, else NaN."""
    totals = numbers_of(records, line.bar.total if line.bar is not None else "")
    times = zip(step_times(line, records), totals, strict=True)
    return np.array([time_of_short_bar(time, total) for time, total in times], np.float64)


def time_of_short_bar(step_time: float, total: float) -> float:
    """Return the seconds of a step of a bar that takes less than `APART` seconds, else NaN."""
    return step_time if total > 0 and step_time * total < APART else math.nan


def printed_epoch(line: Line, records: Records, row: int) -> float | None:
    """Return the epoch that a line prints; None if it prints none."""
    name = next((name for name in line.template.names if line.key_of(name) == "epoch"), None)
    column = records.columns.get(name or "")
    if column is None:
        return None
    try:
        return float(column[row] if isinstance(column, np.ndarray) else column[row].as_py())
    except (TypeError, ValueError):
        return None


def counts_within_epoch(line: Line) -> bool:
    """Return whether a line with a state prints the epoch that its bar is of: `Epoch 3:  45%|## | 120/266 [...]`."""
    return line.within == EPOCH and any(f.name == EPOCH and f.type == "d" for f in line.template.fields)


def prints_step(line: Line) -> bool:
    """Whether a line with a state prints its step too: `10|29|Loss: 1.25: 67%|██ | 2/3 [...]`."""
    is_other = line.bar is not None and line.bar.count != STEP
    return is_other and any(f.name == STEP and f.type == "d" for f in line.template.fields)
