"""Chrome trace events: JSON text -> columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from perflog.readers.chrome.event_boundaries import scan_elements
from perflog.readers.chrome.event_roles import CONTEXT, COUNTER, EVENT, PAIR, role_and_kind
from perflog.readers.chrome.json_repair import BARE_NAN, TIMESTAMP, repaired_variants, replace_bare_nan
from perflog.readers.event_columns import KIND_CODE, KINDS, MISSING, TEXT_COLUMNS, EventColumns, Int64s, distinct_rows
from perflog.readers.string_interning import Codes, WorkerInterner
from perflog.readers.timestamps import parse_integer, parse_integers, parse_timestamps, real_number, round_durations

Kinds = npt.NDArray[np.int8]
PhaseAndCategory = tuple[str | None, str | None]

SAMPLE_CHARS = 400
"""Characters kept of the first event of a shape."""

# Bytes of an element, by the names of torch's types.
_DTYPE_BYTES = {
    **dict.fromkeys(("byte", "char", "bool", "uint8", "int8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16"), 2),
    **dict.fromkeys(("float", "int", "float32", "int32"), 4),
    **dict.fromkeys(("double", "long", "float64", "int64", "complexfloat"), 8),
}


_NO_JSON = msgspec.Raw(b"")


def _key(name: str) -> Any:
    return msgspec.field(default=None, name=name)


def _raw(name: str) -> Any:
    return msgspec.field(default=_NO_JSON, name=name)


class EventArgs(msgspec.Struct, gc=False):
    """The arguments of an event that columns take. The types are open, because writers differ in them.

    Lists that most events have stay JSON. No column takes the launch configuration of kernels (grid, block, registers,
    shared memory, occupancy), types, strides and values of an operator's inputs, and numbers that only join events.
    """

    stream: Any = None
    device: Any = None
    correlation: Any = None
    bytes: Any = None
    dtype: Any = None
    external_id: Any = _key("External id")
    external_id_until_2021: Any = _key("external id")
    collective: Any = _key("Collective name")
    elements_in: Any = _key("In msg nelems")
    elements_out: Any = _key("Out msg nelems")
    group_size: Any = _key("Group size")
    group_name: Any = _key("Process Group Name")
    group_description: Any = _key("Process Group Description")
    group_ranks: Any = _key("Process Group Ranks")
    src_rank: Any = _key("Src Rank")
    dst_rank: Any = _key("Dst Rank")
    in_split: Any = _key("In split size")
    out_split: Any = _key("Out split size")
    shapes: msgspec.Raw = _raw("Input Dims")
    stack: Any = _key("Call stack")
    seq: Any = _key("Seq")
    memory_bytes: Any = _key("Bytes")
    allocated: Any = _key("Total Allocated")
    reserved: Any = _key("Total Reserved")
    memory_device: Any = _key("Device Id")
    memory_device_type: Any = _key("Device Type")
    context: Any = None
    name: Any = None  # of a process or thread, in metadata events
    labels: Any = None  # of a process, in metadata events


class TraceEvent(msgspec.Struct, gc=False):
    """One event of a trace. `ts` stays text: it may have more digits than a double holds."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: Any = None
    id: Any = None
    args: EventArgs | list[Any] | str | int | float | None = None


_HOST_KINDS = ("runtime", "cpu", "python", "range", "overhead", "span")
_IS_HOST_KIND = np.array([kind in _HOST_KINDS for kind in (*KINDS, "")])  # by code; the last is that of -1
_CPU, _MARK, _UNKNOWN = KIND_CODE["cpu"], KIND_CODE["mark"], -1
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # the last: it is nested too deep

_DAMAGED_PHASE = "\0"
_DAMAGED = TraceEvent(ph=_DAMAGED_PHASE)
_NO_ARGS = EventArgs()
_NAMING = ("process_name", "process_labels", "thread_name")
_list_decoder, _event_decoder = msgspec.json.Decoder(list[TraceEvent]), msgspec.json.Decoder(TraceEvent)


class Reading(NamedTuple):
    """One reading of a counter: index of its event in the piece, name, value, device; whether it is in bytes."""

    place: int
    name: str
    value: float
    device: int = MISSING
    in_bytes: bool = False


class TrackName(NamedTuple):
    """A name of a process or thread: `kind` is process_name, process_labels or thread_name."""

    kind: str
    process: str
    thread: str
    name: str


@dataclass
class PhaseCount:
    """Number of events of a phase and category, the index of the first in the piece, and its text if it is new."""

    phase: str
    category: str | None
    count: int
    first: int
    sample: str


@dataclass
class DecodedPiece:
    """A piece of a trace. Column `place` counts from 0 within the piece.

    `rows`: timed events. `pairs`: begins and ends of events. `new_texts`: texts that got a code in this piece.
    `names`: names of processes and threads. `readings`: of counters. `without_reading`: shape and index of counter
    events without a number. `damaged`: index and text of what could not be decoded.
    """

    count: int
    rows: EventColumns
    pairs: EventColumns
    phases: list[PhaseCount]
    new_texts: dict[str, list[str]]
    names: list[TrackName] = field(default_factory=list)
    readings: EventColumns = field(default_factory=dict)
    without_reading: list[tuple[str, int]] = field(default_factory=list)
    damaged: list[tuple[int, str]] = field(default_factory=list)


class EventDecoder:
    """Decodes one piece after the other; text codes are the same in all of them."""

    def __init__(self) -> None:
        self._interners = {name: WorkerInterner() for name in TEXT_COLUMNS}
        self._phase_codes = WorkerInterner()
        self._sampled: set[PhaseAndCategory] = set()

    def decode_list(self, text: bytes | bytearray | memoryview) -> DecodedPiece | None:
        """Decode `[...]`; None if that is no array of whole events."""
        try:
            events = _list_decoder.decode(text)
        except _DECODE_ERRORS:
            if not BARE_NAN.search(text):
                return None
            try:
                events = _list_decoder.decode(replace_bare_nan(bytes(text)))
            except _DECODE_ERRORS:
                return None
        return self._piece(events, text, 1)

    def decode_each(
        self, text: bytes, spans: Sequence[tuple[int, int]], trusted: bool = True, last: bool = True
    ) -> DecodedPiece:
        """Decode the events at these offsets one by one. What cannot be decoded is returned as damaged.

        Args:
            text: the text that holds the events.
            spans: start and end of each event.
            trusted: whether the spans are certain. If not, decoding stops before two damaged events in a row, and
                before a damaged event at the end.
            last: whether the spans end the list of events, so that a damaged event at the end is one.
        """
        events: list[TraceEvent] = []
        damaged: list[tuple[int, str]] = []
        for start, end in spans:
            event = _decode_event(text[start:end])
            if event is None:
                damaged.append((len(events), text[start : min(end, start + SAMPLE_CHARS)].decode("utf-8", "replace")))
            events.append(event or _DAMAGED)
            if not trusted and events[-2:] == [_DAMAGED] * 2:
                del events[-2:], damaged[-2:]
                break
        if not trusted and not last and events and events[-1].ph == _DAMAGED_PHASE:
            del events[-1], damaged[-1]
        piece = self._piece(events, text, 0)
        piece.damaged = damaged
        piece.phases = [entry for entry in piece.phases if entry.phase != _DAMAGED_PHASE]
        return piece

    def _piece(self, events: list[TraceEvent], text: bytes | bytearray | memoryview, begin: int) -> DecodedPiece:
        category = self._interners["category"].codes([e.cat for e in events])
        phase = self._phase_codes.codes([e.ph for e in events])
        first, index = distinct_rows((category.astype(np.int64) + 1) * (int(phase.max(initial=0)) + 2) + phase + 1)
        keys = [(_as_text(events[i].ph), _as_text(events[i].cat)) for i in first.tolist()]
        roles_and_kinds = np.array([role_and_kind(*key) for key in keys], np.int8).reshape(-1, 2)
        role, kind = roles_and_kinds[index, 0], roles_and_kinds[index, 1]
        timed, paired = np.flatnonzero(role == EVENT), np.flatnonzero(role == PAIR)
        rows = self._rows(events, timed, kind, category)
        pairs = self._pairs(events, paired, kind, category)
        counts = np.bincount(index, minlength=len(keys)).tolist()
        phases = self._phase_counts(list(zip(keys, counts, first.tolist(), strict=True)), text, begin)
        names = _track_names(events[i] for i in np.flatnonzero(role == CONTEXT).tolist())
        instants = np.flatnonzero((role == EVENT) & (kind == _MARK))
        readings = self._readings(events, np.flatnonzero(role == COUNTER), instants, text, begin)
        new_texts = {name: interner.new_texts() for name, interner in self._interners.items()}
        read_counters = set(readings["place"].tolist()) if readings else set()
        without = [
            (f"C {_as_text(events[i].cat) or ''}".strip(), i)
            for i in np.flatnonzero(role == COUNTER).tolist()
            if i not in read_counters
        ]
        return DecodedPiece(len(events), rows, pairs, phases, new_texts, names, readings, without)

    def _rows(self, events: list[TraceEvent], places: Int64s, kind: Kinds, category: Codes) -> EventColumns:
        chosen = events if len(places) == len(events) else [events[i] for i in places.tolist()]
        args: list[Any] = [e.args for e in chosen]
        if set(map(type, args)) != {EventArgs}:
            args = [a if type(a) is EventArgs else _NO_ARGS for a in args]
        external = [a.external_id for a in args]
        if None in external:
            external = [a.external_id_until_2021 if e is None else e for e, a in zip(external, args, strict=True)]
        rows: EventColumns = {
            "place": places.astype(np.int32),
            "kind": kind[places],
            "category": category[places],
            "start": parse_timestamps([e.ts for e in chosen]),
            "duration": round_durations([e.dur for e in chosen]),
            "correlation": parse_integers([a.correlation for a in args]),
            "external": parse_integers(external),
        }
        # Most events belong to the host and have no device, stream or bytes.
        device_side = np.flatnonzero(~_IS_HOST_KIND[rows["kind"]])
        if len(device_side):
            rows |= _device_columns(device_side, [args[i] for i in device_side.tolist()], len(args))
        for name, values in (
            ("name", [e.name for e in chosen]),
            ("process", [e.pid for e in chosen]),
            ("thread", [e.tid for e in chosen]),
        ):
            rows[name] = self._interners[name].codes(values)
        return rows | self._operators(args, rows["kind"]) | self._collectives(args, rows.get("bytes"))

    def _operators(self, args: Sequence[EventArgs], kind: Kinds) -> EventColumns:
        """Return the columns of operators: shapes of inputs, and call stack."""
        chosen = np.flatnonzero((kind == _CPU) | (kind == _UNKNOWN))
        operators = [args[i] for i in chosen.tolist()]
        columns: EventColumns = {}
        if len(chosen):
            shapes = self._interners["shapes"].codes_of_json([a.shapes for a in operators])
            columns["shapes"] = _column(chosen, shapes, len(args))
        stacks = [a.stack for a in operators]
        if stacks.count(None) < len(stacks):
            columns["stack"] = _column(chosen, self._interners["stack"].codes(stacks), len(args))
        return columns

    def _collectives(self, args: Sequence[EventArgs], size: Int64s | None) -> EventColumns:
        """Return the columns of collectives, with the bytes of all events. Few events belong to a collective."""
        chosen = [
            i for i, a in enumerate(args) if a.collective is not None or a.seq is not None or a.group_size is not None
        ]
        collectives = [args[i] for i in chosen]
        columns: EventColumns = {}
        if not chosen:
            return columns
        places = np.array(chosen, np.int64)
        columns["bytes"] = np.full(len(args), MISSING, np.int64) if size is None else size
        columns["bytes"][chosen] = np.maximum(columns["bytes"][chosen], _message_bytes(collectives))
        for name, numbers in (
            ("seq", [a.seq for a in collectives]),
            ("ranks", [a.group_size for a in collectives]),
            ("src_rank", [a.src_rank for a in collectives]),
            ("dst_rank", [a.dst_rank for a in collectives]),
        ):
            columns[name] = np.full(len(args), MISSING, np.int64)
            columns[name][chosen] = parse_integers(numbers)
        for name, texts in (
            ("collective", [a.collective for a in collectives]),
            ("group", [_group(a) for a in collectives]),
            ("dtype", [a.dtype for a in collectives]),
            ("group_description", [a.group_description or None for a in collectives]),
            ("group_ranks", [a.group_ranks or None for a in collectives]),
            ("in_split", [a.in_split or None for a in collectives]),
            ("out_split", [a.out_split or None for a in collectives]),
        ):
            columns[name] = _column(places, self._interners[name].codes(texts), len(args))
        return columns

    def _readings(
        self, events: list[TraceEvent], counters: Int64s, instants: Int64s, text: Any, begin: int
    ) -> EventColumns:
        """Return the readings of counters: of counter events, and of the memory in allocations."""
        readings: list[Reading] = []
        if len(counters):
            elements = scan_elements(text[begin:])
            for place in counters.tolist():
                if place < len(elements.ends):
                    event = bytes(text[begin + int(elements.starts[place]) : begin + int(elements.ends[place])])
                    readings += counter_readings(place, event)
        for place in instants.tolist():
            args = events[place].args
            if isinstance(args, EventArgs) and (args.allocated is not None or args.reserved is not None):
                readings += memory_readings(place, args)
        if not readings:
            return {}
        chosen = [events[reading.place] for reading in readings]
        return {
            "place": np.array([reading.place for reading in readings], np.int32),
            "name": self._interners["name"].codes([reading.name for reading in readings]),
            "process": self._interners["process"].codes([event.pid for event in chosen]),
            "start": parse_timestamps([event.ts for event in chosen]),
            "device": np.array([reading.device for reading in readings], np.int64),
            "in_bytes": np.array([reading.in_bytes for reading in readings], np.bool_),
            "value": np.array([reading.value for reading in readings], np.float64),
        }

    def _pairs(self, events: list[TraceEvent], places: Int64s, kind: Kinds, category: Codes) -> EventColumns:
        if not len(places):
            return {}
        chosen = [events[i] for i in places.tolist()]
        return self._rows(events, places, kind, category) | {
            "phase": np.array([ord(e.ph) for e in chosen], np.uint8),
            "id": np.array([hash(str(e.id)) for e in chosen], np.int64),
        }

    def _phase_counts(self, counts: list[tuple[PhaseAndCategory, int, int]], text: Any, begin: int) -> list[PhaseCount]:
        """Add to each count, with the index of its first event, the text of that event if the shape is new."""
        samples = {}
        if new := {key: first for key, _, first in counts if key not in self._sampled}:
            self._sampled |= new.keys()
            elements = scan_elements(text[begin:])
            for key, first in new.items():
                if first < len(elements.ends):
                    start, end = int(elements.starts[first]) + begin, int(elements.ends[first]) + begin
                    samples[key] = bytes(text[start : min(end, start + SAMPLE_CHARS)]).decode("utf-8", "replace")
        return [PhaseCount(key[0] or "", key[1], count, first, samples.get(key, "")) for key, count, first in counts]


def _device_columns(places: Int64s, args: Sequence[EventArgs], count: int) -> EventColumns:
    """Return device, stream, context and bytes of `count` events, from the arguments of those at these places."""
    columns: EventColumns = {}
    for name, numbers in (
        ("device", parse_integers([a.device for a in args])),
        ("stream", parse_integers([a.stream for a in args])),
        ("context", parse_integers([a.context for a in args])),
        ("bytes", parse_integers([a.bytes if a.bytes is not None else a.memory_bytes for a in args])),
    ):
        columns[name] = np.full(count, MISSING, np.int64)
        columns[name][places] = numbers
    return columns


def _column(places: Int64s, codes: Codes, count: int) -> Codes:
    """Return a column of `count` codes: these at their places, and -1."""
    column = np.full(count, -1, np.int32)
    column[places] = codes
    return column


def counter_readings(place: int, event: bytes) -> list[Reading]:
    """Return the readings of a counter event: one for each number among its arguments."""
    try:
        fields = msgspec.json.decode(event)
    except _DECODE_ERRORS:
        return []
    args = fields.get("args")
    name = str(fields.get("name")) + (f"[{fields['id']}]" if "id" in fields else "")  # each id is a counter of its own
    readings = []
    for series, value in args.items() if isinstance(args, dict) else ():
        number = real_number(value)
        if number == number:
            alone = len(args) == 1 and series in ("", "value", "counter", fields.get("name"))
            readings.append(Reading(place, name if alone else f"{name}.{series}", number))
    return readings


def memory_readings(place: int, args: EventArgs) -> list[Reading]:
    """Return the totals of memory after an allocation: of a device, or of the host, whose device type is 0."""
    on_host = args.memory_device_type == 0
    device = MISSING if on_host else parse_integer(args.memory_device)
    where = "host memory" if on_host else "device memory"
    totals = {"allocated": args.allocated, "reserved": args.reserved}
    numbers = {name: real_number(value) for name, value in totals.items() if value is not None}
    return [Reading(place, f"{where} {name}", value, device, True) for name, value in numbers.items() if value == value]


def _track_names(events: Iterable[TraceEvent]) -> list[TrackName]:
    """Return the names that metadata events give to processes and threads."""
    names = []
    for event in events:
        if event.ph == "M" and event.name in _NAMING and isinstance(event.args, EventArgs):
            name = event.args.labels if event.name == "process_labels" else event.args.name
            if isinstance(name, str):
                names.append(TrackName(event.name, str(event.pid), str(event.tid), name))
    return names


def _message_bytes(collectives: Sequence[EventArgs]) -> Int64s:
    """Return bytes of the larger buffer, from which nccl-tests computes bandwidth; MISSING where it is not stated."""
    elements = np.maximum(
        parse_integers([a.elements_in for a in collectives]), parse_integers([a.elements_out for a in collectives])
    )
    element_bytes = [_DTYPE_BYTES.get(str(a.dtype).lower().rpartition("::")[2], 0) for a in collectives]
    size = np.array(element_bytes, np.int64)
    return np.where((elements >= 0) & (size > 0), elements * size, MISSING)


def _group(args: EventArgs) -> Any:
    """Return the process group: its name, or its ranks as text."""
    if args.group_name is not None and args.group_name != "":
        return args.group_name
    return _as_text(args.group_ranks)


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _decode_event(text: bytes) -> TraceEvent | None:
    """Decode one event, also one that is almost JSON: bare nan, control characters in strings, broken UTF-8, quotes in
    its name, which PyTorch does not escape.
    """
    for variant in repaired_variants(text):
        try:
            return _event_decoder.decode(variant)
        except _DECODE_ERRORS:
            pass
        try:
            lenient = json.dumps(json.loads(variant.decode("utf-8", "replace"), strict=False))
            # The json module would round the timestamp, so it is taken as it is printed.
            event, timestamp = _event_decoder.decode(lenient), TIMESTAMP.search(variant)
            event.ts = msgspec.Raw(timestamp[1]) if timestamp else msgspec.Raw(b"")
            return event
        except (ValueError, *_DECODE_ERRORS):
            pass
    return None
