"""The reader of Perfetto traces. Packets that describe a track may come last: rows are made when all have been read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.events.event_columns import MISSING, EventColumns, shift_starts
from perflog.readers.events.event_context import EventContext, select_calls, select_ranges, step_codes
from perflog.readers.events.event_table import EventAccount, EventOrigin, RunWriter, event_rows
from perflog.readers.events.spill_file import mapped_file
from perflog.readers.events.string_interning import Interners, StringInterner, new_interners
from perflog.readers.interface import RankFileReader, RankInfo, ReadOptions
from perflog.readers.perfetto.events import EventCollector
from perflog.readers.perfetto.packets import PacketReader, begins_as_trace
from perflog.readers.rank_files import ranks_of_files
from perflog.readers.xplane.planes import begins_as_space
from perflog.tables.sink import IngestResult, Sink

_HEAD = 1 << 14
_BATCH = 1 << 16  # rows that are made together


class PerfettoReader(RankFileReader):
    """Reads traces of Perfetto."""

    name = "perfetto"
    title = "trace of Perfetto (*.pftrace, *.perfetto-trace)"
    source = "the Perfetto SDK, `rocprofv3 --output-format pftrace`, traced; files of several ranks are one run"

    def detect(self, source: Source) -> bool:
        """Return whether the file begins with packets, and not as a profile of XLA does."""
        head = source.first_bytes(_HEAD)
        return not begins_as_space(head) and begins_as_trace(head, len(head) < _HEAD)

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the number of packets by what they are."""
        with mapped_file(source) as data:
            collector = _collected(data, source.name, _interners())
        shapes = sorted(collector.account.shapes.items(), key=lambda item: item[1].first)
        return [(entry.first, shape, f"{entry.count} packets, {status}") for (status, shape), entry in shapes]

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the traces of a job, one for each rank, into a sink."""
        ranks = ranks_of_files([(part.name, RankInfo()) for part in source.parts])
        interners, last, since_1970 = _interners(), 0, True
        files: list[dict[str, object]] = []
        warnings: list[str] = []
        with RunWriter(source.name, source.digest(), self.name, sink) as writer:
            for number, (part, (rank, rule)) in enumerate(zip(source.parts, ranks, strict=True)):
                with mapped_file(part) as data:
                    collector = _collected(data, part.name, interners)
                _write(collector, EventOrigin(writer.run, number, rank, rule), writer)
                since_1970 = since_1970 and collector.clocks.since_1970 is not None
                last = max(last, collector.reader.count)
                names = {str(pid): name for pid, name in collector.tracks.process_names.items()}
                rank_field = {} if rank is None else {"rank": rank}
                files.append({"name": os.path.basename(part.name), **rank_field, "processes": names})
                named = f"{os.path.basename(part.name)}: " if len(ranks) > 1 else ""
                warnings += [f"{named}{text}" for text in _warnings(collector)]
                options.done(part)
            if not last:
                raise InputError("no packets in this trace", source.name, "the tracing was stopped before it began")
            config: Mapping[str, Any] = {"clock": "epoch" if since_1970 else "trace", "files": files}
            ingested = writer.write_run(options.label, last, config)
        ingested.warnings += [*warnings, *(warning for part in source.parts for warning in part.warnings)]
        return ingested


def _interners() -> Interners:
    return new_interners() | {"argument": StringInterner(), "string": StringInterner()}


def _collected(data: memoryview, name: str, interners: Interners) -> EventCollector:
    """Return the events of a file."""
    collector = EventCollector(PacketReader(data, name), interners, EventAccount())
    for packets in collector.reader.batches(interners):
        collector.add(packets)
    if damaged := collector.reader.damaged_parts:
        collector.account.add("unread", "damaged part of the file", damaged, collector.reader.count + 1)
        collector.reader.count += damaged
    return collector


def _warnings(collector: EventCollector) -> Iterator[str]:
    yield from collector.reader.damage
    for clock, count in collector.clocks.unknown.items():
        yield f"{count} packets have times of clock {clock}, which no snapshot explains: these times are unknown"


def _write(collector: EventCollector, origin: EventOrigin, writer: RunWriter) -> None:
    """Write the events and readings of a file, with their steps and ranges."""
    interners, base = collector.interners, collector.clocks.since_1970 or 0
    events, readings = collector.finish()
    arguments = collector.arguments
    if events:
        own = arguments.columns(collector.count)
        events["correlation"] = own.pop("correlation", np.full(collector.count, MISSING, np.int64))[events["row"]]
        steps = step_codes(events["name"], interners["name"].texts)
        context = EventContext([select_ranges(events, steps)], interners)
        context.add_calls(select_calls(events))
        for begin in range(0, len(events["place"]), _BATCH):
            rows = {name: column[begin : begin + _BATCH] for name, column in events.items()}
            rows |= _completed(rows, {name: column[rows["row"]] for name, column in own.items()})
            rows = context.fill(rows)
            rows["start"] = shift_starts(rows["start"], base)
            writer.write_events(event_rows(origin, rows, interners))
        writer.write_steps(context.steps_of([origin] * len(context.host_steps)), base)
    if readings:
        readings["start"] = shift_starts(readings["start"], base)
        writer.write_rows("counters", event_rows(origin, readings, interners, "counters"))
    for rows_of_numbers, key, value in arguments.others:
        if len(key):
            values = {"place": collector.places_of(rows_of_numbers), "key": key, "value": value}
            writer.write_rows("values", event_rows(origin, values, interners, "values"))
    writer.write_account(origin.part, collector.account)


def _completed(rows: EventColumns, own: EventColumns) -> EventColumns:
    """Return the columns that arguments fill; device and stream of an argument where the track has no number."""
    for name in ("device", "stream"):
        stated_by_track = np.where(rows[name] < 0, MISSING, rows[name])
        is_host = rows["device"] == MISSING
        stated = own.pop(name, np.full(len(stated_by_track), MISSING, np.int64))
        own[name] = np.where((stated_by_track == MISSING) & ~is_host, stated, stated_by_track)
    return own
