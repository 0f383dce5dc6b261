"""JSON files of rocprofv3: kernels, copies, calls of HIP, HSA and RCCL, ROCTX ranges; one process or several.

Arrays and fields came and went with its versions: missing fields are null. A file is mapped into memory and cut
into the JSON of records, which become rows some thousands at a time. Markers are read first, then calls: `line` counts
the records in the order in which they are read.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import numpy as np

from perflog.errors import InputError
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.source import Source
from perflog.readers.events.event_columns import KIND_CODE, EventColumns
from perflog.readers.events.event_context import EventContext, select_ranges, step_codes
from perflog.readers.events.event_table import EventAccount, EventOrigin, RunWriter, event_rows
from perflog.readers.events.spill_file import decompressed_path
from perflog.readers.events.string_interning import StringInterner, new_interners
from perflog.readers.interface import RankFileReader, RankInfo, ReadOptions, proof_by_counts
from perflog.readers.rank_files import ranks_of_files
from perflog.readers.rocprof.events import RecordReader, split_records
from perflog.readers.rocprof.kinds import CALL_KINDS, kind_of
from perflog.readers.rocprof.symbols import DECODE_ERRORS, ProcessOutput, Symbols
from perflog.tables.sink import IngestResult, Sink

_START = lazy_pattern(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:')
_HEAD = 1 << 12
_BOM = b"\xef\xbb\xbf"


class _Document(msgspec.Struct):
    tool: list[ProcessOutput] | ProcessOutput = msgspec.field(name="rocprofiler-sdk-tool")


class RocprofJsonReader(RankFileReader):
    """Reads JSON files of rocprofv3."""

    name = "rocprofv3_json"
    title = "JSON output of rocprofv3"
    source = "`rocprofv3 --output-format json`, of ROCprofiler-SDK; files of several ranks are one run"

    def detect(self, source: Source) -> bool:
        """Return whether the only key of the file's object names the tool."""
        return _START.match(source.first_bytes(_HEAD)) is not None

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return position, name and number of records of each array."""
        with _open_processes(source) as processes:
            counts = [(name, len(split_records(raw))) for process in processes for name, raw in _arrays(process)]
        return proof_by_counts(counts, "records")

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the files of a log, one for each rank, into a sink."""
        ranks = ranks_of_files([(part.name, RankInfo()) for part in source.parts])
        interners = new_interners()
        files: list[dict[str, object]] = []
        processes: list[Symbols] = []
        last = 0
        with RunWriter(source.name, source.digest(), self.name, sink) as writer:
            for number, (part, (rank, rule)) in enumerate(zip(source.parts, ranks, strict=True)):
                records = RecordReader(interners)
                origin = EventOrigin(writer.run, number, rank, rule)
                with _open_processes(part) as outputs:
                    symbols = [_read_process(output, records, origin, writer) for output in outputs]
                writer.write_account(number, records.account)
                files.append(_file_config(part, rank, symbols))
                last = max(last, records.place)
                processes += symbols
                options.done(part)
            if not last:
                help = "ask rocprofv3 for a trace, such as --runtime-trace"
                raise InputError("no records in this output of rocprofv3", source.name, help)
            config = {"clock": "trace", "files": files}
            ingested = writer.write_run(options.label, last, config, **_run_columns(processes))
        ingested.warnings += [warning for part in source.parts for warning in part.warnings]
        return ingested


@contextmanager
def _open_processes(source: Source) -> Iterator[list[ProcessOutput]]:
    """Give the processes of a file. Their JSON is a view of the mapped file, which lives as long as they do."""
    with decompressed_path(source) as path, open(path, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        try:
            tool = msgspec.json.decode(view[3:] if view[:3] == _BOM else view, type=_Document).tool
        except (*DECODE_ERRORS, RecursionError) as err:
            help = "the profiler may have been stopped while it wrote: trace again"
            raise InputError(f"the output of rocprofv3 is damaged: {err}", source.name, help) from err
        yield tool if isinstance(tool, list) else [tool]


def _arrays(process: ProcessOutput) -> list[tuple[str, msgspec.Raw]]:
    """Return names and JSON of arrays: ranges, calls, then the rest, which takes its range from its call."""
    arrays = [*(process.buffer_records or {}).items(), *(process.callback_records or {}).items()]
    return sorted(arrays, key=lambda x: 0 if kind_of(x[0]) == "range" else 1 if kind_of(x[0]) in CALL_KINDS else 2)


def _read_process(output: ProcessOutput, records: RecordReader, origin: EventOrigin, writer: RunWriter) -> Symbols:
    """Read a process, its ranges twice: what is inside a range is known only when all ranges are."""
    symbols = Symbols(output)
    records.start_process(symbols)
    arrays = _arrays(output)
    interners = records.interners
    context = EventContext(_ranges(records, arrays), interners)
    for name, raw in arrays:
        for rows in records.batches(name, raw):
            if kind_of(name) in CALL_KINDS:
                context.add_calls(rows)
            rows = _fill_external_ranges(context.fill(rows), symbols, interners["range"])
            writer.write_events(event_rows(origin, rows, interners))
        for readings in records.counters:
            writer.write_rows("counters", event_rows(origin, readings, interners, "counters"))
        records.counters = []
    writer.write_steps([(origin, *step) for step in context.host_steps])
    return symbols


def _ranges(records: RecordReader, arrays: list[tuple[str, msgspec.Raw]]) -> list[EventColumns]:
    """Return the ranges of a process. `records` counts them only when it reads them again."""
    names, place, account = records.interners["name"].texts, records.place, records.account
    records.account = EventAccount()
    ranges: list[EventColumns] = []
    for name, raw in arrays:
        if kind_of(name) == "range":
            ranges += [select_ranges(rows, step_codes(rows["name"], names)) for rows in records.batches(name, raw)]
    records.place, records.account = place, account
    return ranges


def _fill_external_ranges(rows: EventColumns, symbols: Symbols, ranges: StringInterner) -> EventColumns:
    """Fill in the range of kernels that the file names by the range of their launch, even if it traced no calls."""
    if symbols.regions and KIND_CODE["kernel"] in rows["kind"]:
        codes = [ranges.code(t) if (t := symbols.regions.get(n)) else -1 for n in rows["external"].tolist()]
        unknown = (rows["range"] < 0) & (rows["kind"] == KIND_CODE["kernel"])
        return rows | {"range": np.where(unknown, np.array(codes), rows["range"])}
    return rows


def _file_config(part: Source, rank: int | None, symbols: list[Symbols]) -> dict[str, object]:
    processes = [{**s.metadata, "devices": s.device_info} for s in symbols]
    return {"name": os.path.basename(part.name), "sha256": part.digest(), "rank": rank, "processes": processes}


def _run_columns(symbols: list[Symbols]) -> dict[str, object]:
    """Return columns of the run's row."""
    devices = [device.get("product_name") or device.get("name") for s in symbols for device in s.device_info]
    commands = [s.metadata.get("command") for s in symbols]
    programs = [" ".join(map(str, c)) if isinstance(c, list) else str(c) for c in commands if c]
    return {
        "device": ", ".join(dict.fromkeys(str(name) for name in devices if name)) or None,
        "program": next(iter(programs), None),
    }
