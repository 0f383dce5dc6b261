"""Chrome traces, as torch.profiler and others write them: read once from end to end, then given out.

Which step and which range an event lies in is known only when all ranges have been read, and they may stand behind it.
So rows are put aside as they are read, and completed in a second pass over them, which is short.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.columns import NONE
from perflog.readers.filling import Filling, since
from perflog.readers.opening import HEAD, opening
from perflog.readers.out import Out
from perflog.readers.part import Part
from perflog.readers.ranks import numbered
from perflog.readers.reading import Reader
from perflog.readers.rows import Who, events
from perflog.readers.spool import fetch
from perflog.readers.times import whole
from perflog.readers.vocabulary import Vocabulary
from perflog.tables.sink import IngestResult, RunLabels, Sink

NAME = "chrome_trace"
TITLE = "Chrome trace, as torch.profiler and other tools write it"
SOURCE = "export_chrome_trace and tensorboard_trace_handler of torch.profiler; traces of several ranks are one run"

_LONG = 24 << 20  # bytes of trace from which processes are worth their start
_PACKED = 10  # times as long as its compressed file a trace is, at least
_OF_A_START = ("traceName", "baseTimeNanoseconds")
_EPOCH = 10**18  # ns: 2001; the zero of a machine's clock is when it was started


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
    source: Source, sink: Sink, label: RunLabels, threads: int, progress: Callable[[int], None] | None, processes: bool
) -> IngestResult:
    """Read the traces of a log, one file for each rank, into a sink."""
    weight = sum(part.size() * (_PACKED if part.packed else 1) for part in source.parts)
    apart = processes and threads > 1 and sys.platform == "linux" and weight > _LONG
    reader = Reader(threads if apart else 0)
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
        filling = Filling(part.ranges, texts)
        for calls in part.calls:
            filling.called(calls)
        base = _base(part)
        for worker, kept, first in part.pieces:
            rows = reader.ours(worker, fetch(reader.file_of(worker), kept))
            rows["place"] = rows["place"].astype(np.int64) + first
            filled = filling.filled(rows)
            out.events(events(who, filled | {"start": since(filled["start"], base)}, texts))
        steps += [(who, *step) for step in filling.printed]
        out.account(number, part.shapes)
    out.steps(steps)


def _base(part: Part) -> int:
    """Nanoseconds at which the trace's clock begins."""
    base = int(whole([part.said.get("baseTimeNanoseconds")])[0])
    return 0 if base == NONE else base


# --- what is said of the run --------------------------------------------------------------------------------------


def _config(parts: list[Part]) -> dict[str, Any]:
    """All that the traces say of themselves: what they all say, and for each file what it alone says.

    What is another in each start of the same job stands with the file, too.
    """
    said = [_apart(part.said) for part in parts]
    common = {k: v for k, v in said[0].items() if k not in _OF_A_START and all(one.get(k) == v for one in said)}
    ranks = numbered([(p.source.name, p.said) for p in parts])
    files = []
    for part, told, (rank, _) in zip(parts, said, ranks, strict=True):
        file = {"name": os.path.basename(part.source.name), "sha256": part.source.digest(), "rank": rank}
        file |= {"events": part.count} | {k: v for k, v in told.items() if k not in common}
        files.append(file | ({"processes": part.processes} if part.processes else {}))
    return common | {"clock": "epoch" if all(map(_since_1970, parts)) else "trace", "files": files}


def _apart(said: dict[str, Any]) -> dict[str, Any]:
    """What is said, without the rank, which each file has of its own."""
    job = said.get("distributedInfo")
    return said | {"distributedInfo": {k: v for k, v in job.items() if k != "rank"}} if isinstance(job, dict) else said


def _since_1970(part: Part) -> bool:
    """Whether times are of the calendar: they are so late that they can be of no machine's own clock."""
    return _base(part) > _EPOCH or part.begin > _EPOCH


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
