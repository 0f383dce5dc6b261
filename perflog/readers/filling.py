"""The step and the range that an event lies in, once all ranges and calls of its file are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from perflog.readers.around import Around
from perflog.readers.columns import NONE, Columns
from perflog.readers.kinds import CODE, ON_DEVICE
from perflog.readers.vocabulary import Vocabulary

STEP = re.compile(r"ProfilerStep\s*#\s*(\d{1,9})$")
"""The name of a range that is a step of training. Its number is one that 32 bits hold."""

_RANGE, _SHADOW, _CALL = CODE["range"], CODE["device_range"], CODE["runtime"]
_ON_DEVICE = np.array(sorted(ON_DEVICE))
_NAMED = ("kind", "name", "process", "thread", "start", "duration", "place", "step")
_CALLED = ("correlation", "process", "thread", "start")
_STARTED = ("correlation", "step", "range")

Ints = npt.NDArray[np.int64]


def picked(rows: Columns, steps: npt.NDArray[np.int32]) -> tuple[Columns, Columns]:
    """Of rows those that are ranges (or steps, by the codes of their names), and the calls that started something."""
    kind = rows["kind"]
    is_step = np.isin(rows["name"], steps)
    named = np.flatnonzero((kind == _RANGE) | is_step)
    called = np.flatnonzero((kind == _CALL) & (rows["correlation"] != NONE))
    return {n: (rows | {"step": is_step})[n][named] for n in _NAMED}, {n: rows[n][called] for n in _CALLED}


class Filling:
    """Fills in the step and the range of events. `ranges` are all that were picked from the file's rows.

    `printed`: step, place and nanoseconds of each step that the host tells, in order.
    """

    def __init__(self, ranges: Sequence[Columns], texts: Mapping[str, Vocabulary]) -> None:
        spans, names = _joined(ranges, _NAMED), texts["name"].texts
        lasting, step = spans["duration"] >= 0, spans["step"].astype(np.bool_)
        self._steps(_chosen(spans, lasting & step), names)
        self._named(_chosen(spans, lasting & ~step & (spans["kind"] == _RANGE)), names, texts["range"])
        self._calls: list[Columns] = []
        self._started = _joined([], _STARTED)

    def called(self, calls: Columns) -> None:
        """Learn of calls: what they start on a device lies where they lie. All that lie nowhere can be forgotten."""
        lane = _lane(calls)
        step = self._of_process.find(lane >> 32, calls["start"])
        around = self._around.find(lane, calls["start"])
        some = np.flatnonzero((step >= 0) | (around >= 0))
        columns = calls["correlation"][some], step[some].astype(np.int32), around[some].astype(np.int32)
        self._calls.append(dict(zip(_STARTED, columns, strict=True)))

    def _steps(self, steps: Columns, names: Sequence[str]) -> None:
        """Steps of processes on the host; those shown on a device count for the streams they are shown on."""
        numbers = np.array([_number(names[code]) for code in steps["name"].tolist()], np.int64)
        end, shadow = _end(steps), steps["kind"] == _SHADOW
        lane, process, host = _lane(steps), steps["process"].astype(np.int64), ~shadow
        self._of_process = Around(process[host], steps["start"][host], end[host], numbers[host])
        self._of_stream = Around(lane[shadow], steps["start"][shadow], end[shadow], numbers[shadow])
        rows = zip(*(c[host].tolist() for c in (numbers, steps["place"], steps["duration"])), strict=True)
        self.printed: list[tuple[int, int, int]] = sorted(rows)

    def _named(self, ranges: Columns, names: Sequence[str], texts: Vocabulary) -> None:
        codes = {code: texts.code(names[code]) for code in np.unique(ranges["name"]).tolist() if code >= 0}
        value = np.array([codes.get(c, -1) for c in ranges["name"].tolist()], np.int64)
        self._around = Around(_lane(ranges), ranges["start"], _end(ranges), value)
        order = np.argsort(ranges["place"])
        self._places, self._parents = ranges["place"][order], self._around.parents[order]

    def filled(self, rows: Columns) -> Columns:
        """Rows with their step and range."""
        kind, time, lane = rows["kind"], rows["start"], _lane(rows)
        device = np.isin(kind, _ON_DEVICE)
        step, around = self._of_process.find(lane >> 32, time), self._around.find(lane, time)
        alone = np.flatnonzero((kind == _SHADOW) | device)
        around[alone], step[alone] = -1, self._of_stream.find(lane[alone], time[alone])
        self._launched(rows["correlation"], np.flatnonzero(device), step, around)
        self._own(rows, np.flatnonzero(kind == _RANGE), around)
        return rows | {"step": np.where(step < 0, NONE, step), "range": around}

    def _launched(self, correlation: Ints, device: Ints, step: Ints, around: Ints) -> None:
        """What ran on a device lies where the call lies that started it."""
        if self._calls:
            joined = _joined([self._started, *self._calls], _STARTED)
            number, self._calls = joined["correlation"], []
            in_order = bool((number[1:] >= number[:-1]).all())
            order = slice(None) if in_order else np.argsort(number, kind="stable")
            self._started = {name: column[order] for name, column in joined.items()}
        known = self._started["correlation"]
        if not len(known) or not len(device):
            return
        number = correlation[device]
        at = np.minimum(np.searchsorted(known, number), len(known) - 1)
        found = np.flatnonzero((known[at] == number) & (number != NONE))
        device, at = device[found], at[found]
        step[device], around[device] = self._started["step"][at], self._started["range"][at]

    def _own(self, rows: Columns, named: Ints, around: Ints) -> None:
        """A range begins in itself: what is around it is its parent."""
        if len(named) and len(self._places):
            at = np.minimum(np.searchsorted(self._places, rows["place"][named]), len(self._places) - 1)
            same = self._places[at] == rows["place"][named]
            around[named[same]] = self._parents[at[same]]


def _lane(columns: Columns) -> Ints:
    """A thread of a process as one number."""
    return (columns["process"].astype(np.int64) << 32) | (columns["thread"].astype(np.int64) & 0xFFFFFFFF)


def _end(columns: Columns) -> Ints:
    """Where ranges end; the last nanosecond there is for those that are said to end behind it."""
    start, duration, last = columns["start"], columns["duration"], np.iinfo(np.int64).max
    return np.where(start > last - duration, last, start + duration)


def since(start: Ints, base: int) -> Ints:
    """Starts on a clock that began at `base`, in nanoseconds; NONE where there is none, or it would be beyond all."""
    known = (start != NONE) & (start <= np.iinfo(np.int64).max - base)
    return np.where(known, start + base, NONE)


def _joined(pieces: Sequence[Columns], names: Sequence[str]) -> Columns:
    nothing = np.zeros(0, np.int64)
    some = [piece for piece in pieces if len(piece[names[0]])]
    return {name: np.concatenate([piece[name] for piece in some]) if some else nothing for name in names}


def _chosen(columns: Columns, rows: npt.NDArray[np.bool_]) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def _number(name: str) -> int:
    found = STEP.match(name)
    return int(found[1]) if found else -1
