"""Records of rocprofv3 JSON files: JSON -> columns of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from perflog.arrays import Codes, Ints
from perflog.readers.events.event_columns import (
    KIND_CODE,
    MISSING,
    EventColumns,
    distinct_values,
    durations_between,
    on_device,
)
from perflog.readers.events.event_table import EventAccount
from perflog.readers.events.key_counts import KeyCounter
from perflog.readers.events.string_interning import Interners
from perflog.readers.events.timestamps import parse_integers
from perflog.readers.odd_numbers import real
from perflog.readers.rocprof.kinds import kind_of
from perflog.readers.rocprof.symbols import DECODE_ERRORS, Symbols, decode_json

BATCH = 1 << 14
"""Records that become rows together."""

_SAMPLE_CHARS = 400


class Handle(msgspec.Struct, gc=False):
    """A number in an object of its own."""

    handle: Any = None


class CorrelationIds(msgspec.Struct, gc=False):
    """Correlation numbers: `internal` of the call; `external` of the range that renames its kernels. 0 means none."""

    internal: Any = None
    external: Any = None


class Dispatch(msgspec.Struct, gc=False):
    """The fields of a kernel launch that columns take."""

    agent_id: Handle | int | None = None
    queue_id: Handle | int | None = None
    kernel_id: Any = None
    grid_size: msgspec.Raw = msgspec.Raw(b"")
    workgroup_size: msgspec.Raw = msgspec.Raw(b"")
    group_segment_size: Any = None


class Reading(msgspec.Struct, gc=False):
    """A value of a counter."""

    counter_id: Handle | int | None = None
    value: Any = None


class TraceRecord(msgspec.Struct, gc=False):
    """A record of any array. `operation` is one of its `kind`, both by number."""

    kind: Any = None
    operation: Any = None
    thread_id: Any = None
    correlation_id: CorrelationIds | None = None
    start_timestamp: Any = None
    end_timestamp: Any = None
    dispatch_info: Dispatch | None = None
    src_agent_id: Handle | int | None = None
    dst_agent_id: Handle | int | None = None
    queue_id: Handle | int | None = None
    stream_id: Handle | int | None = None
    bytes: Any = None
    allocation_size: Any = None
    dispatch_data: TraceRecord | None = None  # of a collection of counters: the kernel that they belong to
    records: list[Reading] | None = None  # the counters of the kernel


_texts_decoder, _records_decoder = msgspec.json.Decoder(list[msgspec.Raw]), msgspec.json.Decoder(list[TraceRecord])
_record_decoder = msgspec.json.Decoder(TraceRecord)
_NO_IDS, _NO_DISPATCH = CorrelationIds(), Dispatch()


_STRUCTURE = frozenset(
    ("handle", "correlation_id", "dispatch_info", "dispatch_data", "records", "record", "x", "y", "z")
)
_TAKEN = frozenset(
    (
        "kind", "operation", "thread_id", "internal", "external", "start_timestamp", "end_timestamp", "agent_id",
        "queue_id", "stream_id", "kernel_id", "grid_size", "workgroup_size", "group_segment_size", "src_agent_id",
        "dst_agent_id", "bytes", "allocation_size", "counter_id", "value",
    )
)  # fmt: skip
_DROPPED = {
    "size": "bytes of the record itself",
    **dict.fromkeys(("dispatch_id", "ancestor"), "joins records of the file"),
    **dict.fromkeys(("address", "src_address", "dst_address"), "address"),
    "private_segment_size": "detail of the launch, beyond grid, block and LDS",
}


def split_records(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """Return the JSON of each record of an array; anything else that is not empty is one record."""
    try:
        return _texts_decoder.decode(raw)
    except DECODE_ERRORS:
        return [raw] if decode_json(raw) else []


class RecordReader:
    """Turns the records of one file into columns, and counts them in `account`."""

    def __init__(self, interners: Interners) -> None:
        self.interners = interners
        self.place = 0  # of the last record that was read
        self.account = EventAccount()
        self._keys = KeyCounter()
        self.counters: list[EventColumns] = []  # readings, until somebody takes them

    def start_process(self, symbols: Symbols) -> None:
        """Read the following records as records of a process with these names."""
        self._symbols = symbols
        self._process = -1 if symbols.pid is None else self.interners["process"].code(str(symbols.pid))
        self._codes: dict[Any, tuple[int, int, int]] = {}
        self._kernels = 0

    def batches(self, array: str, raw: msgspec.Raw) -> Iterator[EventColumns]:
        """Give the records of an array that have times, some thousands at a time; their readings go to `counters`."""
        # Counters carry their kernel. It is read only if the process has no other kernels, or it would count twice.
        texts, from_counters = split_records(raw), not self._kernels
        for begin in range(0, len(texts), BATCH):
            records, places = self._timed_records(array, texts[begin : begin + BATCH], from_counters)
            self._kernels += len(records) if kind_of(array) == "kernel" else 0
            if records:
                yield self._columns(array, records, places)

    def _timed_records(
        self, array: str, texts: Sequence[msgspec.Raw], from_counters: bool
    ) -> tuple[list[TraceRecord], list[int]]:
        """Return the records that have times, and their positions. The other records are only counted."""
        decoded: list[TraceRecord | None]
        joined = b"[" + b",".join(texts) + b"]"
        self._count_figures(array, joined)
        try:
            decoded = [*_records_decoder.decode(joined)]
        except DECODE_ERRORS:
            decoded = [_decode_record(text) for text in texts]
        records, places, counted, first = [], [], [], self.place + 1
        for place, (record, text) in enumerate(zip(decoded, texts, strict=True), first):
            if record is not None and record.records:
                counted.append((place, record.dispatch_data or record, record.records))
                if from_counters and record.dispatch_data and record.dispatch_data.start_timestamp is not None:
                    records.append(record.dispatch_data)
                    places.append(place)
                continue
            if from_counters and record is not None and record.start_timestamp is None:
                record = record.dispatch_data or record
            if record is None:
                self._count("unread", f"damaged {array}", 1, place, text)
            elif record.start_timestamp is None:
                self._count("context", f"{array} without times", 1, place, text)
            else:
                records.append(record)
                places.append(place)
        self.place += len(texts)
        if counted:
            self.counters.append(self._readings(array, counted))
        if read := sorted({*places, *(place for place, _, _ in counted)}) if counted else places:
            self._count("read", array, len(read), read[0], texts[read[0] - first])
        return records, places

    def _count_figures(self, array: str, text: bytes) -> None:
        """Count the values of each field of records: stored, dropped for a reason, or unread."""
        for name, count in self._keys.count(text).items():
            if name in _STRUCTURE:
                continue
            figures = self.account.figures_of(f"{array}.{name}", self.place + 1, because=_DROPPED.get(name, ""))
            figures.stored += count if name in _TAKEN else 0
            figures.dropped += count if name in _DROPPED else 0
            figures.unread += count if name not in _TAKEN and name not in _DROPPED else 0

    def _sizes(self, name: str, sizes: Sequence[msgspec.Raw]) -> Codes:
        """Return the codes of sizes in three directions, as strings; -1 where they are missing."""
        codes: dict[bytes, int] = {}
        for raw in set(map(bytes, sizes)):
            size = decode_json(raw) if raw else None
            directions = [size.get(direction) for direction in "xyz"] if isinstance(size, dict) else [None]
            codes[raw] = -1 if None in directions else self.interners[name].code(str(directions))
        return np.array([codes[bytes(raw)] for raw in sizes], np.int32)

    def _count(self, status: str, shape: str, count: int, place: int, text: msgspec.Raw) -> None:
        sample = ""
        if (status, shape) not in self.account.shapes:
            sample = " ".join(bytes(text).decode("utf-8", "replace").split())[:_SAMPLE_CHARS]
        self.account.add(status, shape, count, place, sample)

    def _columns(self, array: str, records: Sequence[TraceRecord], places: list[int]) -> EventColumns:
        ids = [r.correlation_id or _NO_IDS for r in records]
        launches = [r.dispatch_info or _NO_DISPATCH for r in records]
        internal = parse_integers([i.internal for i in ids])
        external = parse_integers([i.external for i in ids])
        start = parse_integers([r.start_timestamp for r in records])
        end = parse_integers([r.end_timestamp for r in records])
        numbers = (internal if kind_of(array) == "range" else parse_integers([x.kernel_id for x in launches])).tolist()
        codes = [self._kind_and_names(array, r.kind, r.operation, n) for r, n in zip(records, numbers, strict=True)]
        kind, name, category = np.array(codes, np.int32).T
        has_end = ((end != 0) | (start == 0)) & (kind != KIND_CODE["mark"])
        thread = self.interners["thread"].codes_of_numbers(parse_integers([r.thread_id for r in records]))
        devices = self._devices(records, launches)
        queues = [_first_number(r.stream_id, r.queue_id, x.queue_id) for r, x in zip(records, launches, strict=True)]
        return {
            "place": np.array(places, np.int64), "kind": kind.astype(np.int8), "name": name, "category": category,
            "start": start, "duration": np.where(has_end, durations_between(start, end), MISSING),
            "device": devices, "device_name": self._device_names(devices), "stream": parse_integers(queues),
            "process": np.full(len(records), self._process, np.int32),
            "thread": np.where(on_device(kind), -1, thread).astype(np.int32),
            "correlation": np.where(internal == 0, MISSING, internal),
            "external": np.where(external == 0, MISSING, external),
            "bytes": parse_integers([r.allocation_size if r.bytes is None else r.bytes for r in records]),
            "grid": self._sizes("grid", [x.grid_size for x in launches]),
            "block": self._sizes("block", [x.workgroup_size for x in launches]),
            "shared_bytes": parse_integers([x.group_segment_size for x in launches]),
        }  # fmt: skip

    def _readings(self, array: str, counted: Sequence[tuple[int, TraceRecord, list[Reading]]]) -> EventColumns:
        """Return the readings of counters as columns of table `counters`, each with its kernel."""
        kernels = [record for _, record, _ in counted]
        columns = self._columns(array, kernels, [place for place, _, _ in counted])
        index = np.repeat(np.arange(len(counted)), [len(readings) for _, _, readings in counted])
        readings = [reading for _, _, kernel_readings in counted for reading in kernel_readings]
        numbers = parse_integers([_first_number(reading.counter_id) for reading in readings])
        names, texts = self.interners["name"], self.interners["name"].texts
        subjects = [
            -1 if code < 0 else self.interners["subject"].code(texts[code]) for code in columns["name"].tolist()
        ]
        known = ("place", "start", "duration", "device", "device_name", "process", "correlation")
        return {name: columns[name][index] for name in known} | {
            "name": np.array([names.code(self._symbols.counter(n)) for n in numbers.tolist()], np.int64),
            "subject": np.array(subjects, np.int64)[index],
            "value": np.array([_real(reading.value) for reading in readings], np.float64),
        }

    def _kind_and_names(self, array: str, kind: object, operation: object, number: int) -> tuple[int, int, int]:
        """Return the codes of a record's kind, name and category. `number`: of its kernel, or of a marker's call."""
        key = array, kind, operation, number
        try:
            return self._codes[key]
        except (KeyError, TypeError):
            codes = self._look_up(*key)
        if not isinstance(kind, list | dict) and not isinstance(operation, list | dict):
            self._codes[key] = codes
        return codes

    def _look_up(self, array: str, kind: object, operation: object, number: int) -> tuple[int, int, int]:
        category, operation_name = self._symbols.operation(kind, operation)
        event_kind, name = kind_of(array), operation_name
        if event_kind == "kernel":
            name = self._symbols.kernels.get(number)
        elif event_kind == "range":
            name = self._symbols.messages.get(number)
            if name is None:  # such as pausing the profiler: a call that marks nothing
                event_kind, name = "library", operation_name
            elif "mark" in (operation_name or "").lower():
                event_kind = "mark"
        name_code = -1 if name is None else self.interners["name"].code(name)
        return KIND_CODE.get(event_kind or "", -1), name_code, self.interners["category"].code(category or array)

    def _device_names(self, devices: Ints) -> Ints:
        """Return the codes of the names of devices; -1 for events of the host."""
        numbers, index = distinct_values(devices)
        texts = [self._symbols.device_names.get(number, "") for number in numbers.tolist()]
        interner = self.interners["device_name"]
        return np.array([interner.code(text) if text else -1 for text in texts], np.int64)[index]

    def _devices(self, records: Sequence[TraceRecord], launches: Sequence[Dispatch]) -> Ints:
        """Return the device that worked: for a copy its destination, or its source if that is no device."""
        devices = self._symbols.devices
        candidates = zip(
            (x.agent_id for x in launches),
            (r.dst_agent_id for r in records),
            (r.src_agent_id for r in records),
            strict=True,
        )
        known = (map(_first_number, handles) for handles in candidates)
        numbers = ((devices.get(n) if isinstance(n, int) else None for n in row) for row in known)
        return np.array([next((n for n in row if n is not None), MISSING) for row in numbers], np.int64)


def _first_number(*handles: Handle | int | None) -> Any:
    """Return the number of the first handle that is not None."""
    first = next((handle for handle in handles if handle is not None), None)
    return first.handle if isinstance(first, Handle) else first


def _real(value: object) -> float:
    """Return a number as a double; NaN for anything else."""
    return real(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")


def _decode_record(text: msgspec.Raw) -> TraceRecord | None:
    """Decode one record alone; None where it has another structure."""
    try:
        return _record_decoder.decode(text)
    except DECODE_ERRORS:
        try:
            return msgspec.convert(decode_json(text), TraceRecord)
        except msgspec.ValidationError:
            return None
