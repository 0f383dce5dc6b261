"""JSON files of rocprofv3: kernels, copies, calls of HIP, HSA and RCCL, ROCTX ranges; one process or several.

Arrays and fields came and went with its versions: all that is missing is null. A file is mapped into memory and cut
into texts of records, which become rows some thousands at a time. Markers are read first, then calls: `line` counts
the records in the order in which they are read.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.columns import WORDS, Columns
from perflog.readers.database import unpacked
from perflog.readers.filling import STEP, Filling, picked
from perflog.readers.kinds import CODE
from perflog.readers.out import Out
from perflog.readers.ranks import numbered
from perflog.readers.records import CALLS, Records, kind_of, texts_of
from perflog.readers.rows import Who, events
from perflog.readers.symbols import BAD, Process, Symbols
from perflog.readers.vocabulary import Vocabulary
from perflog.tables.sink import IngestResult, RunLabels, Sink

NAME = "rocprofv3_json"
TITLE = "JSON output of rocprofv3"
SOURCE = "`rocprofv3 --output-format json`, of ROCprofiler-SDK; files of several ranks are one run"

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:')
_HEAD = 1 << 12
_BOM = b"\xef\xbb\xbf"


class _File(msgspec.Struct):
    tool: list[Process] | Process = msgspec.field(name="rocprofiler-sdk-tool")


def sees(source: Source) -> bool:
    """Whether this is a JSON file of rocprofv3: its one key names the tool."""
    return _BEGIN.match(source.start(_HEAD)) is not None


def said(source: Source) -> dict[str, Any]:  # noqa: ARG001
    """What a file says of its job: nothing, so that its name has to tell its rank."""
    return {}


def proof(source: Source) -> list[tuple[int, str, str]]:
    """Place, name and number of records of each array."""
    found, place = [], 1
    with _processes(source) as processes:
        for process in processes:
            for name, raw in _arrays(process):
                count = len(texts_of(raw))
                found += [(place, name, f"{count} records")] if count else []
                place += count
    return found


def read(
    source: Source,
    sink: Sink,
    label: RunLabels,
    threads: int,  # noqa: ARG001
    progress: Callable[[int], None] | None,
    processes: bool,  # noqa: ARG001
) -> IngestResult:
    """Read the files of a log, one for each rank, into a sink."""
    ranks = numbered([(part.name, {}) for part in source.parts])
    texts = {name: Vocabulary() for name in (*WORDS, "range")}
    files: list[dict[str, Any]] = []
    symbols: list[Symbols] = []
    last = 0
    with Out(source.name, source.digest(), NAME, sink) as out:
        for number, (part, (rank, rule)) in enumerate(zip(source.parts, ranks, strict=True)):
            records, who = Records(texts), Who(out.run, number, rank, rule)
            with _processes(part) as found:
                mine = [_read(process, records, who, out) for process in found]
            out.account(number, records.shapes)
            files.append(_file(part, rank, mine))
            last, symbols = max(last, records.place), symbols + mine
            if progress is not None:
                progress(part.size())
        if not last:
            help = "ask rocprofv3 for a trace, such as --runtime-trace"
            raise InputError("no records in this output of rocprofv3", source.name, help)
        done = out.end(label, last, {"clock": "trace", "files": files}, **_columns(symbols))
    done.warnings += [text for part in source.parts for text in part.warnings]
    return done


@contextmanager
def _processes(source: Source) -> Iterator[list[Process]]:
    """The processes of a file. Texts in them are views of the mapped file, which lives as long as they do."""
    with unpacked(source) as path, open(path, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        try:
            tool = msgspec.json.decode(view[3:] if view[:3] == _BOM else view, type=_File).tool
        except (*BAD, RecursionError) as err:
            help = "the profiler may have been stopped while it wrote: trace again"
            raise InputError(f"the output of rocprofv3 is damaged: {err}", source.name, help) from err
        yield tool if isinstance(tool, list) else [tool]


def _arrays(process: Process) -> list[tuple[str, msgspec.Raw]]:
    """Names and texts of arrays of records: ranges, then calls, for what ran on a device lies where its call lies."""
    arrays = [*(process.buffer_records or {}).items(), *(process.callback_records or {}).items()]
    return sorted(arrays, key=lambda x: 0 if kind_of(x[0]) == "range" else 1 if kind_of(x[0]) in CALLS else 2)


def _read(process: Process, records: Records, who: Who, out: Out) -> Symbols:
    """Read a process, its ranges twice: only when all are known it is known what lies in them."""
    symbols = Symbols(process)
    records.of(symbols)
    arrays = _arrays(process)
    filling = Filling(_ranges(records, arrays), records.texts)
    for name, raw in arrays:
        for rows in records.batches(name, raw):
            if kind_of(name) in CALLS:
                filling.called(rows)
            out.events(events(who, _renamed(filling.filled(rows), symbols, records.texts["range"]), records.texts))
    out.steps([(who, *step) for step in filling.printed])
    return symbols


def _ranges(records: Records, arrays: list[tuple[str, msgspec.Raw]]) -> list[Columns]:
    """The ranges of a process. `records` forgets that it has read them."""
    names, place, shapes = records.texts["name"].texts, records.place, records.shapes
    records.shapes, ranges = {}, []
    for name, raw in arrays:
        for rows in records.batches(name, raw) if kind_of(name) == "range" else ():
            steps = [c for c in np.unique(rows["name"]).tolist() if c >= 0 and STEP.match(names[c])]
            ranges.append(picked(rows, np.array(steps, np.int32))[0])
    records.place, records.shapes = place, shapes
    return ranges


def _renamed(rows: Columns, symbols: Symbols, ranges: Vocabulary) -> Columns:
    """Kernels that the file names by the range they were launched in: it is known even if calls were not traced."""
    if symbols.regions and CODE["kernel"] in rows["kind"]:
        codes = [ranges.code(t) if (t := symbols.regions.get(n)) else -1 for n in rows["external"].tolist()]
        unknown = (rows["range"] < 0) & (rows["kind"] == CODE["kernel"])
        return rows | {"range": np.where(unknown, np.array(codes), rows["range"])}
    return rows


# --- what is said of the run --------------------------------------------------------------------------------------


def _file(part: Source, rank: int | None, symbols: list[Symbols]) -> dict[str, Any]:
    told = [{**s.said, "devices": s.told} for s in symbols]
    return {"name": os.path.basename(part.name), "sha256": part.digest(), "rank": rank, "processes": told}


def _columns(symbols: list[Symbols]) -> dict[str, Any]:
    """Columns of the run's row."""
    names = [device.get("product_name") or device.get("name") for s in symbols for device in s.told]
    commands = [s.said.get("command") for s in symbols]
    programs = [" ".join(map(str, c)) if isinstance(c, list) else str(c) for c in commands if c]
    return {"device": ", ".join(dict.fromkeys(n for n in names if n)) or None, "program": next(iter(programs), None)}
