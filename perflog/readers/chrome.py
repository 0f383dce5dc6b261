"""Chrome traces, as torch.profiler and others write them: read once from end to end, then given out.

Which step and which range an event lies in is known only when all ranges have been read, and they may stand behind it.
So rows are put aside as they are read, and completed in a second pass over them, which is short.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from perflog.errors import InputError
from perflog.ingested import Ingested, Label, Sink
from perflog.readers.around import Around
from perflog.readers.decode import Columns
from perflog.readers.kinds import CODE, ON_DEVICE
from perflog.readers.opening import HEAD, opening
from perflog.readers.out import Out
from perflog.readers.ranks import numbered
from perflog.readers.reading import Part, Reader
from perflog.readers.rows import Who, events
from perflog.readers.spool import fetch
from perflog.readers.times import NONE, whole
from perflog.readers.vocabulary import Vocabulary
from perflog.source import Source

NAME = "chrome_trace"
TITLE = "Chrome trace, as torch.profiler and other tools write it"
MAGIC = (b"{", b"[")

_LONG = 24 << 20  # bytes of trace from which processes are worth their start
_PACKED = 10  # times as long as its compressed file a trace is, at least
_NUMBER = re.compile(r"\d+$")
_EPOCH = 10**18  # ns: 2001; the zero of a machine's clock is when it was started
_DEVICE_KINDS = np.array(sorted(ON_DEVICE))

Ints = npt.NDArray[np.int64]


def sees(source: Source) -> bool:
    """Whether this is a Chrome trace."""
    return opening(source.start(HEAD)) is not None


def proof(source: Source) -> list[tuple[int, str, str]]:
    """Place, shape and text of the first event."""
    head = source.start(HEAD)
    begun = opening(head)
    text = head[begun.begin : begun.begin + 200].decode("utf-8", "replace") if begun else ""
    return [(1, "traceEvents" if begun and begun.wrapped else "list of events", " ".join(text.split()))]


def said(source: Source) -> dict[str, Any]:
    """What a trace says of itself before its events."""
    begun = opening(source.start(HEAD))
    return begun.said if begun else {}


def read(
    source: Source, sink: Sink, label: Label, threads: int, progress: Callable[[int], None] | None, processes: bool
) -> Ingested:
    """Read the traces of a log, one file for each rank, into a sink."""
    weight = sum(part.size() * (_PACKED if part.packed else 1) for part in source.parts)
    reader = Reader(max(threads, 2) if processes and threads > 1 and weight > _LONG else 0)
    try:
        parts = [reader.read(part, progress) for part in source.parts]
        if not any(part.count for part in parts):
            raise InputError("no events in this trace", source.name, "the profiler was stopped before it recorded any")
        with Out(source.name, source.digest(), NAME, sink) as out:
            _give(reader, parts, out)
            done = out.end(label, max(p.count for p in parts), _config(parts), **_columns(parts))
    finally:
        reader.close()
    several = len(parts) > 1
    for part in parts:
        told = [*part.source.warnings, *part.warnings]
        done.warnings += [f"{part.source.name}: {text}" if several else text for text in told]
    return done


def _give(reader: Reader, parts: list[Part], out: Out) -> None:
    ranks = numbered([(p.source.name, p.said) for p in parts])
    texts = {**reader.vocabularies, "range": Vocabulary()}
    steps = []
    for number, (part, (rank, rule)) in enumerate(zip(parts, ranks, strict=True)):
        who = Who(out.run, number, rank, rule)
        filling = Filling(part, texts)
        for worker, kept, base in part.pieces:
            rows = reader.ours(worker, fetch(reader.file_of(worker), kept))
            rows["place"] = rows["place"].astype(np.int64) + base
            out.events(events(who, filling.filled(rows), texts))
        steps += [(who, *step) for step in filling.printed]
        out.account(number, part.shapes)
    out.steps(steps)


class Filling:
    """Fills in the step and the range of events, from all ranges and calls of a file."""

    def __init__(self, part: Part, texts: dict[str, Vocabulary]) -> None:
        self.base = _base(part)
        ranges = _joined(part.ranges)
        calls = _joined(part.calls)
        self.printed: list[tuple[int, int, int]] = []  # step, place, nanoseconds
        self._names, self._ranges = texts["name"].texts, texts["range"]
        self._calls(calls)
        step = ranges["step"] if ranges else np.zeros(0, np.bool_)
        lasting = ranges["duration"] >= 0 if ranges else step
        self._steps(_chosen(ranges, step & lasting))
        self._named(_chosen(ranges, ~step & lasting & (ranges["kind"] == CODE["range"]) if ranges else step))

    def _calls(self, calls: Columns) -> None:
        order = np.argsort(calls["correlation"], kind="stable") if calls else np.zeros(0, np.int64)
        self.correlation = calls["correlation"][order] if calls else order
        self.called_at = calls["start"][order] if calls else order
        self.called_by = _lane(calls)[order] if calls else order

    def _steps(self, steps: Columns) -> None:
        """Steps of processes on the host; those shown on a device count for its own lanes."""
        numbers = np.array([int(_number(self._names[c])) for c in steps["name"].tolist()], np.int64)
        device = steps["kind"] == CODE["device_range"]
        end = steps["start"] + steps["duration"]
        process = steps["process"].astype(np.int64)
        host = ~device
        self._of_process = Around(process[host], steps["start"][host], end[host], numbers[host])
        lane = _lane(steps)
        self._of_stream = Around(lane[device], steps["start"][device], end[device], numbers[device])
        self._own = dict(zip(steps["place"].tolist(), numbers.tolist(), strict=True))
        rows = zip(numbers[host], steps["place"][host], steps["duration"][host], strict=True)
        self.printed = sorted((int(n), int(p), int(d)) for n, p, d in rows)

    def _named(self, ranges: Columns) -> None:
        codes = {code: self._ranges.code(self._names[code]) for code in np.unique(ranges["name"]).tolist() if code >= 0}
        value = np.array([codes.get(c, -1) for c in ranges["name"].tolist()], np.int64)
        self._around = Around(_lane(ranges), ranges["start"], ranges["start"] + ranges["duration"], value)
        order = np.argsort(ranges["place"])
        self._places, self._parents = ranges["place"][order], self._around.parents[order]

    def filled(self, rows: Columns) -> Columns:
        """Rows with their step and range; times from the base that the trace counts from."""
        kind = rows["kind"]
        time, lane = rows["start"].copy(), _lane(rows)
        process = rows["process"].astype(np.int64)
        device = np.isin(kind, _DEVICE_KINDS)
        at = np.searchsorted(self.correlation, rows["correlation"])
        at = np.minimum(at, max(len(self.correlation) - 1, 0))
        launched = device & (rows["correlation"] != NONE)
        if len(self.correlation):
            launched &= self.correlation[at] == rows["correlation"]
            time[launched] = self.called_at[at[launched]]
            lane[launched] = self.called_by[at[launched]]
            process[launched] = lane[launched] >> 32
        else:
            launched[:] = False
        own = device & ~launched
        step = self._of_process.find(process, time)
        step[own] = self._of_stream.find(lane[own], time[own])
        shadow = kind == CODE["device_range"]
        step[shadow] = self._of_stream.find(lane[shadow], time[shadow])
        span = self._around.find(lane, time)
        named = np.flatnonzero(kind == CODE["range"])
        if len(named) and len(self._places):
            spot = np.minimum(np.searchsorted(self._places, rows["place"][named]), len(self._places) - 1)
            same = self._places[spot] == rows["place"][named]
            span[named[same]] = self._parents[spot[same]]
        span[own | shadow] = -1
        start = np.where(rows["start"] == NONE, NONE, rows["start"] + self.base)
        return rows | {"start": start, "step": np.where(step < 0, NONE, step), "range": span}


def _lane(columns: Columns) -> Ints:
    """A thread of a process as one number."""
    return (columns["process"].astype(np.int64) << 32) | (columns["thread"].astype(np.int64) & 0xFFFFFFFF)


def _joined(pieces: list[Columns]) -> Columns:
    return {name: np.concatenate([p[name] for p in pieces]) for name in pieces[0]} if pieces else {}


def _chosen(columns: Columns, rows: npt.NDArray[np.bool_]) -> Columns:
    if columns:
        return {name: column[rows] for name, column in columns.items()}
    nothing = np.zeros(0, np.int64)
    return dict.fromkeys(("kind", "name", "process", "thread", "start", "duration", "place"), nothing)


def _number(name: str) -> str:
    found = _NUMBER.search(name)
    return found[0] if found else "-1"


def _base(part: Part) -> int:
    """Nanoseconds at which the trace's clock begins."""
    base = int(whole([part.said.get("baseTimeNanoseconds")])[0])
    return 0 if base == NONE else base


# --- what is said of the run --------------------------------------------------------------------------------------


def _config(parts: list[Part]) -> dict[str, Any]:
    """All that the traces say of themselves: what they all say, and for each file what it alone says."""
    first = parts[0].said
    common = {k: v for k, v in first.items() if all(k in p.said and p.said[k] == v for p in parts)}
    ranks = numbered([(p.source.name, p.said) for p in parts])
    files = []
    for part, (rank, _) in zip(parts, ranks, strict=True):
        own = {k: v for k, v in part.said.items() if k not in common}
        told = {"name": part.source.name, "sha256": part.source.digest(), "rank": rank, "events": part.count}
        files.append(told | own | ({"processes": part.processes} if part.processes else {}))
    return common | {"clock": "epoch" if all(map(_since_1970, parts)) else "trace", "files": files}


def _since_1970(part: Part) -> bool:
    """Whether times are of the calendar: they are so late that they can be of no machine's own clock."""
    starts = [r["start"][0] for r in (*part.calls, *part.ranges) if len(r["start"])]
    return _base(part) > _EPOCH or bool(starts and int(min(starts)) > _EPOCH)


def _columns(parts: list[Part]) -> dict[str, Any]:
    """Columns of the run's row: what the files say alike."""
    sizes = {n for p in parts for n in _sizes(p.said)}
    names = list(dict.fromkeys(name for p in parts for name in _devices(p.said)))
    return {"world_size": sizes.pop() if len(sizes) == 1 else None, "device": ", ".join(names) or None}


def _sizes(told: dict[str, Any]) -> Iterator[int]:
    job = told.get("distributedInfo")
    size = int(whole([job.get("world_size")])[0]) if isinstance(job, dict) else NONE
    if size != NONE:
        yield size


def _devices(told: dict[str, Any]) -> Iterator[str]:
    devices = told.get("deviceProperties")
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict) and isinstance(device.get("name"), str):
            yield device["name"]
