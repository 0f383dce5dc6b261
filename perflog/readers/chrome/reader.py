"""The reader of Chrome traces, as torch.profiler and other tools write them.

The step and range of an event are known only when all ranges have been read, and a range may follow its events. So
each file is read once from end to end, its rows wait in temporary files, and a short second pass completes them.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.chrome.contents import TraceContents
from perflog.readers.chrome.metadata import (
    HEAD,
    base_time_ns,
    device_names,
    distributed_info_in,
    parse_header,
    rank_info,
    without_rank,
    world_size,
)
from perflog.readers.chrome.scanner import TraceScanner
from perflog.readers.chrome.trace_processes import TraceProcesses
from perflog.readers.chrome.tracks import DeviceTracks
from perflog.readers.events.event_columns import EventColumns, shift_starts
from perflog.readers.events.event_context import EventContext
from perflog.readers.events.event_table import EventOrigin, RunWriter, event_rows
from perflog.readers.events.string_interning import Interners
from perflog.readers.interface import RankInfo, ReadOptions
from perflog.readers.rank_files import ranks_of_files
from perflog.tables.sink import IngestResult, Sink

if TYPE_CHECKING:
    import pyarrow as pa

_FORK_BYTES = 24 << 20  # traces of this size or more are worth the start of processes
_COMPRESSION = 10  # least ratio of a trace's length to its compressed length
_TAIL = 1 << 16  # bytes at the end of a trace in which its metadata is looked for before it is read
_KEYS_OF_ONE_FILE = ("traceName", "baseTimeNanoseconds")  # they differ each time the same job is profiled
_EPOCH_NS = 10**18  # September 2001; the zero of a machine's own clock is its start, so its times are smaller


class ChromeTraceReader:
    """Reads Chrome traces."""

    name = "chrome_trace"
    title = "Chrome trace, as torch.profiler and other tools write it"
    source = "export_chrome_trace and tensorboard_trace_handler of torch.profiler; traces of several ranks are one run"

    def detect(self, source: Source) -> bool:
        """Return whether the file begins as a trace does: with a list of events, alone or in an object."""
        return parse_header(source.first_bytes(HEAD)) is not None

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return position, structure and content of the first event."""
        head = source.first_bytes(HEAD)
        header = parse_header(head)
        text = head[header.first_event :][:200].decode("utf-8", "replace") if header else ""
        structure = "traceEvents" if header and header.wrapped else "list of events"
        return [(1, structure, " ".join(text.split()))]

    def rank_info(self, source: Source) -> RankInfo | None:
        """Return the rank and world size in the metadata before the events, or after them in a plain file."""
        header = parse_header(source.first_bytes(HEAD))
        metadata = header.metadata if header else {}
        return rank_info(metadata if "distributedInfo" in metadata else distributed_info_in(source.last_bytes(_TAIL)))

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the traces of a log, one file for each rank, into a sink."""
        size = sum(part.size() * (_COMPRESSION if part.is_compressed else 1) for part in source.parts)
        fork = options.processes and options.threads > 1 and sys.platform == "linux" and size > _FORK_BYTES
        scanner = TraceScanner(options.threads if fork else 0)
        try:
            traces = [scanner.scan(part, options.progress) for part in source.parts]
            if not any(trace.count for trace in traces):
                help = "the profiler was stopped before it recorded any"
                raise InputError("no events in this trace", source.name, help)
            with RunWriter(source.name, source.digest(), self.name, sink) as writer:
                ranks = ranks_of_files([(trace.source.name, rank_info(trace.metadata)) for trace in traces])
                origins = [EventOrigin(writer.run, part, *rank) for part, rank in enumerate(ranks)]
                _write_traces(scanner, traces, origins, writer)
                last = max(trace.count for trace in traces)
                config = _config(traces, [origin.rank for origin in origins])
                ingested = writer.write_run(options.label, last, config, **_run_columns(traces))
        finally:
            scanner.close()
        for trace in traces:
            file = f"{trace.source.name}: " if len(traces) > 1 else ""
            ingested.warnings += [f"{file}{warning}" for warning in (*trace.source.warnings, *trace.warnings)]
        return ingested


def _write_traces(
    scanner: TraceScanner, traces: list[TraceContents], origins: list[EventOrigin], writer: RunWriter
) -> None:
    """Complete the rows of each trace with their steps and ranges, and write them."""
    steps = []
    interners = scanner.interners
    for trace, origin in zip(traces, origins, strict=True):
        context = EventContext(trace.ranges, interners)
        processes = TraceProcesses(trace, origin, interners)
        tracks = DeviceTracks(trace, interners)
        for calls in trace.calls:
            context.add_calls(calls | {"correlation": processes.own_correlation(calls)})
        base = base_time_ns(trace.metadata)
        for worker, spilled, first_place in trace.pieces:
            rows = scanner.load_rows(worker, spilled)
            rows["place"] = rows["place"].astype(np.int64) + first_place
            rows |= tracks.columns(rows)
            filled = context.fill(rows | {"correlation": processes.own_correlation(rows)})
            rows = filled | {"correlation": rows["correlation"]} | processes.columns(rows)
            rows["start"] = shift_starts(rows["start"], base)
            writer.write_events(event_rows(processes.origin(-1), rows, interners))
        for readings in trace.readings:
            writer.write_rows("counters", _counter_rows(processes, readings, base, interners))
        for values in trace.values:
            columns = values | processes.columns(values)
            writer.write_rows("values", event_rows(processes.origin(-1), columns, interners, "values"))
        own_steps = context.steps_of([*map(processes.origin, context.host_step_processes)])
        steps += [(each, number, place, duration, base + start) for each, number, place, duration, start in own_steps]
        writer.write_account(origin.part, trace.account)
    writer.write_steps(steps)


def _counter_rows(processes: TraceProcesses, readings: EventColumns, base: int, interners: Interners) -> pa.Table:
    """Return rows of table `counters`."""
    unit = np.where(readings["in_bytes"], interners["unit"].code("B"), -1).astype(np.int32)
    rows = readings | processes.columns(readings) | {"unit": unit, "start": shift_starts(readings["start"], base)}
    return event_rows(processes.origin(-1), rows, interners, "counters")


# --- the run ------------------------------------------------------------------------------------------------------


def _config(traces: list[TraceContents], ranks: list[int | None]) -> dict[str, object]:
    """Return the run's config: the metadata that all traces share, and for each file the rest."""
    metadata = [without_rank(trace.metadata) for trace in traces]
    common = {
        key: value
        for key, value in metadata[0].items()
        if key not in _KEYS_OF_ONE_FILE and all(other.get(key) == value for other in metadata)
    }
    files = []
    for trace, file_metadata, rank in zip(traces, metadata, ranks, strict=True):
        file = {"name": os.path.basename(trace.source.name), "sha256": trace.source.digest(), "rank": rank}
        file |= {"events": trace.count} | {key: value for key, value in file_metadata.items() if key not in common}
        files.append(file | ({"processes": trace.process_names} if trace.process_names else {}))
    return common | {"clock": "epoch" if all(map(_is_since_1970, traces)) else "trace", "files": files}


def _is_since_1970(trace: TraceContents) -> bool:
    """Return whether times count from 1970: they are too large for a machine's own clock."""
    return base_time_ns(trace.metadata) > _EPOCH_NS or trace.begin > _EPOCH_NS


def _run_columns(traces: list[TraceContents]) -> dict[str, object]:
    """Return columns of the run's row, where the files do not contradict each other."""
    sizes = {size for trace in traces if (size := world_size(trace.metadata)) is not None}
    names = dict.fromkeys(name for trace in traces for name in device_names(trace.metadata))
    return {"world_size": sizes.pop() if len(sizes) == 1 else None, "device": ", ".join(names) or None}


# --- processes of a trace --------------------------------------------------------------------------------------------
