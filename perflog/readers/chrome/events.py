"""Chrome trace events: JSON -> columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from perflog.arrays import Codes, Ints
from perflog.readers.chrome.argument_columns import HOST_TYPE, NO_ARGS, TAKEN, ArgumentColumns, EventArgs
from perflog.readers.chrome.arguments import (
    DROPPED,
    FIELDS,
    Figures,
    account_of,
    decoded_events,
    keys_of,
    sample_of,
    undeclared_arguments,
)
from perflog.readers.chrome.boundaries import ScannedElements, scan_elements
from perflog.readers.chrome.json_repair import BARE_NAN, TIMESTAMP, repaired_variants, replace_bare_nan
from perflog.readers.chrome.kinds import CONTEXT, COUNTER, EVENT, PAIR, role_and_kind
from perflog.readers.events.event_columns import KIND_CODE, MISSING, TEXT_COLUMNS, EventColumns, distinct_rows
from perflog.readers.events.key_counts import KeyCounter
from perflog.readers.events.string_interning import WorkerInterner
from perflog.readers.events.timestamps import parse_timestamps, real_number, round_durations

Kinds = npt.NDArray[np.int8]
PhaseAndCategory = tuple[str | None, str | None]

SAMPLE_CHARS = 400
"""Characters kept of the first event of a shape."""


class TraceEvent(msgspec.Struct, gc=False):
    """One event of a trace. `ts` stays a string: it may have more digits than a double holds."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: Any = None
    id: Any = None
    args: EventArgs | list[Any] | str | int | float | None = None


_MEMORY = KIND_CODE["memory"]
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # the last: it is nested too deep

_DAMAGED_PHASE = "\0"
_DAMAGED = TraceEvent(ph=_DAMAGED_PHASE)
_ENDS = ("E", "e", "F")
_COUNTERS = "series of counters"
_TOTALS = {"Total Allocated": "allocated", "Total Reserved": "reserved"}
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


class PhaseCount(Struct):
    """Number of events of a phase and category, the index of the first in the piece, and its JSON if it is new."""

    phase: str
    category: str | None
    count: int
    first: int
    sample: str


class DecodedPiece(Struct):
    """A piece of a trace. Column `place` (the position of an event) counts from 0 within the piece.

    `rows`: timed events. `pairs`: begins and ends of events. `new_texts`: strings that got a code in this piece.
    `names`: names of processes and threads. `readings`: of counters. `without_reading`: shape and index of counter
    events without a number. `figures`: the account of each argument. `values`: numbers of undeclared arguments.
    `damaged`: index and bytes of what could not be decoded.
    """

    count: int
    rows: EventColumns
    pairs: EventColumns
    phases: list[PhaseCount]
    new_texts: dict[str, list[str]]
    names: list[TrackName] = field(default_factory=list)
    readings: EventColumns = field(default_factory=dict)
    without_reading: list[tuple[str, int]] = field(default_factory=list)
    figures: dict[str, Figures] = field(default_factory=dict)
    values: EventColumns = field(default_factory=dict)
    damaged: list[tuple[int, str]] = field(default_factory=list)


class _PieceText:
    """The bytes of a piece, `[...]`, with the boundaries of its events, which few pieces need."""

    def __init__(self, text: bytes | bytearray | memoryview) -> None:
        self.text = text

    @cached_property
    def elements(self) -> ScannedElements:
        return scan_elements(self.text[1:])

    def event(self, index: int) -> bytes:
        """Return the JSON of an event; nothing if its boundaries are not known."""
        if index >= len(self.elements.ends):
            return b""
        return bytes(self.text[1 + int(self.elements.starts[index]) : 1 + int(self.elements.ends[index])])

    def event_at(self, offset: int) -> int:
        """Return the index of the event at an offset."""
        return max(int(np.searchsorted(self.elements.starts, offset - 1, "right")) - 1, 0)


class EventDecoder:
    """Decodes one piece after the other; the codes of strings are the same in all of them."""

    def __init__(self) -> None:
        self._interners = {name: WorkerInterner() for name in TEXT_COLUMNS}
        self._phase_codes = WorkerInterner()
        self._sampled: set[PhaseAndCategory] = set()
        self._key_counter = KeyCounter()

    def decode_list(self, text: bytes | bytearray | memoryview) -> DecodedPiece | None:
        """Decode `[...]`; None if that is no array of whole events."""
        try:
            events = _list_decoder.decode(text)
        except _DECODE_ERRORS:
            if not BARE_NAN.search(text):
                return None
            text = replace_bare_nan(bytes(text))
            try:
                events = _list_decoder.decode(text)
            except _DECODE_ERRORS:
                return None
        return self._piece(events, text)

    def decode_each(
        self, text: bytes, spans: Sequence[tuple[int, int]], trusted: bool = True, last: bool = True
    ) -> DecodedPiece:
        """Decode the events at these offsets one by one. What cannot be decoded is returned as damaged.

        Args:
            text: the bytes that hold the events.
            spans: start and end of each event.
            trusted: whether the spans are certain. If not, decoding stops before two damaged events in a row, and
                before a damaged event at the end.
            last: whether the spans end the list of events, so that a damaged event at the end is one.
        """
        events: list[TraceEvent] = []
        texts: list[bytes] = []
        damaged: list[tuple[int, str]] = []
        for start, end in spans:
            event, repaired = _decode_event(text[start:end])
            if event is _DAMAGED:
                damaged.append((len(events), text[start : min(end, start + SAMPLE_CHARS)].decode("utf-8", "replace")))
            events.append(event)
            texts.append(repaired)
            if not trusted and events[-2:] == [_DAMAGED] * 2:
                del events[-2:], texts[-2:], damaged[-2:]
                break
        if not trusted and not last and events and events[-1].ph == _DAMAGED_PHASE:
            del events[-1], texts[-1], damaged[-1]
        piece = self._piece(events, b"[" + b",".join(texts) + b"]")
        piece.damaged = damaged
        piece.phases = [entry for entry in piece.phases if entry.phase != _DAMAGED_PHASE]
        return piece

    def _piece(self, events: list[TraceEvent], text: bytes | bytearray | memoryview) -> DecodedPiece:
        category = self._interners["category"].codes([e.cat for e in events])
        phase = self._phase_codes.codes([e.ph for e in events])
        piece_text, keys_in_text = _PieceText(text), self._count_keys(text, int(np.count_nonzero(phase >= 0)))
        arguments = ArgumentColumns(self._interners, keys_in_text)
        first, index = distinct_rows((category.astype(np.int64) + 1) * (int(phase.max(initial=0)) + 2) + phase + 1)
        keys = [(_as_text(events[i].ph), _as_text(events[i].cat)) for i in first.tolist()]
        roles_and_kinds = np.array([role_and_kind(*key) for key in keys], np.int8).reshape(-1, 2)
        role, kind = roles_and_kinds[index, 0], roles_and_kinds[index, 1]
        rows = self._rows(events, np.flatnonzero(role == EVENT), kind, category, arguments)
        pairs = self._pairs(events, np.flatnonzero(role == PAIR), kind, category, arguments)
        counts = np.bincount(index, minlength=len(keys)).tolist()
        phases = self._phase_counts(list(zip(keys, counts, first.tolist(), strict=True)), piece_text)
        names = _track_names(events[i] for i in np.flatnonzero(role == CONTEXT).tolist())
        arguments.taken["labels"] += sum(name.kind == "process_labels" for name in names)
        counters = {i: _plain_event(piece_text.event(i)) for i in np.flatnonzero(role == COUNTER).tolist()}
        readings = self._readings(events, counters, rows, arguments.taken)
        read_counters = set(readings["place"].tolist()) if readings else set()
        without = [(f"C {_as_text(events[i].cat) or ''}".strip(), i) for i in counters if i not in read_counters]
        keys_in_text -= keys_of([event.get("args") for event in counters.values()])
        figures, values = self._figures(events, piece_text, phases, keys_in_text, arguments.taken)
        if counters:
            series = sum(place in counters for place in readings["place"].tolist()) if readings else 0
            figures[_COUNTERS] = Figures(stored=series, first=next(iter(counters)))
        new_texts = {name: interner.new_texts() for name, interner in self._interners.items()}
        return DecodedPiece(len(events), rows, pairs, phases, new_texts, names, readings, without, figures, values)

    def _count_keys(self, text: bytes | bytearray | memoryview, events: int) -> Counter[str]:
        """Return how often each key occurs in a piece with so many events."""
        counts = self._key_counter.count(text)
        if counts["ph"] == events:
            return counts
        return keys_of(decoded_events(text))  # such as whitespace between keys and their colons

    def _figures(
        self,
        events: Sequence[TraceEvent],
        text: _PieceText,
        phases: Sequence[PhaseCount],
        counts: Mapping[str, int],
        taken: Mapping[str, int],
    ) -> tuple[dict[str, Figures], EventColumns]:
        """Return the account of arguments, and the numbers in those that nobody declared, as columns of `values`."""
        names = {name for name in counts if name not in FIELDS and name not in DROPPED and name not in TAKEN}
        names |= {name for name in FIELDS if counts.get(name, 0) > _with_field(events, name, phases)}
        undeclared = undeclared_arguments(decoded_events(text.text) if names else (), names)
        figures = account_of(counts, {name: taken.get(name, 0) for name in TAKEN}, undeclared)
        for name, offset in self._key_counter.new.items():
            if name in figures:
                figures[name].first, figures[name].sample = text.event_at(offset), sample_of(text.text, offset)
        if not undeclared.numbers:
            return figures, {}
        places, paths, numbers = zip(*undeclared.numbers, strict=True)
        return figures, {
            "place": np.array(places, np.int32),
            "key": self._interners["key"].codes(list(paths)),
            "process": self._interners["process"].codes([events[place].pid for place in places]),
            "value": np.array(numbers, np.float64),
        }

    def _rows(
        self, events: list[TraceEvent], places: Ints, kind: Kinds, category: Codes, arguments: ArgumentColumns
    ) -> EventColumns:
        """Return the events at some places of a piece as columns. `kind` and `category`: of all events of the piece."""
        chosen = events if len(places) == len(events) else [events[i] for i in places.tolist()]
        args: list[Any] = [e.args for e in chosen]
        if set(map(type, args)) != {EventArgs}:  # events without arguments, or whose arguments are no object
            args = [a if type(a) is EventArgs else NO_ARGS for a in args]
        rows: EventColumns = {
            "place": places.astype(np.int32),
            "kind": kind[places],
            "category": category[places],
            "start": parse_timestamps([e.ts for e in chosen]),
            "duration": round_durations([e.dur for e in chosen]),
        }
        for name, values in (
            ("name", [e.name for e in chosen]),
            ("process", [e.pid for e in chosen]),
            ("thread", [e.tid for e in chosen]),
        ):
            rows[name] = self._interners[name].codes(values)
        return rows | arguments.columns(args, rows["kind"])

    def _readings(
        self,
        events: list[TraceEvent],
        counters: Mapping[int, Mapping[str, Any]],
        rows: EventColumns,
        taken: Counter[str],
    ) -> EventColumns:
        """Return the readings of counters: of counter events, and of the memory in allocations."""
        readings: list[Reading] = []
        for place, event in counters.items():
            readings += counter_readings(place, event)
        is_memory = rows["kind"] == _MEMORY
        devices = rows["device"][is_memory].tolist() if is_memory.any() else []
        for place, device in zip(rows["place"][is_memory].tolist(), devices, strict=True):
            args = events[place].args
            if isinstance(args, EventArgs):
                readings += memory_readings(place, args, device)
                taken.update(name for name in _TOTALS if getattr(args, _TOTALS[name]) is not None)
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

    def _pairs(
        self, events: list[TraceEvent], places: Ints, kind: Kinds, category: Codes, arguments: ArgumentColumns
    ) -> EventColumns:
        if not len(places):
            return {}
        chosen = [events[i] for i in places.tolist()]
        for event in chosen:
            event.args = None if event.ph in _ENDS else event.args  # the begin of an event gives its row
        return self._rows(events, places, kind, category, arguments) | {
            "phase": np.array([ord(e.ph) for e in chosen], np.uint8),
            "id": np.array([hash(str(e.id)) for e in chosen], np.int64),
        }

    def _phase_counts(self, counts: list[tuple[PhaseAndCategory, int, int]], text: _PieceText) -> list[PhaseCount]:
        """Add the JSON of the first event to each count with a new shape, given the index of its first event."""
        new = {key: first for key, _, first in counts if key not in self._sampled}
        self._sampled |= new.keys()
        samples = {key: text.event(first)[:SAMPLE_CHARS].decode("utf-8", "replace") for key, first in new.items()}
        return [PhaseCount(key[0] or "", key[1], count, first, samples.get(key, "")) for key, count, first in counts]


def _with_field(events: Sequence[TraceEvent], name: str, phases: Sequence[PhaseCount]) -> int:
    """Return how many events have a field; of those fields that all have, how many there may be."""
    if name == "dur":
        return sum(entry.count for entry in phases if entry.phase == "X")
    if name == "id":
        return len(events) - [e.id for e in events].count(None)
    return 2 * len(events) if name == "name" else len(events)  # metadata have an argument `name`


def _plain_event(text: bytes) -> dict[str, object]:
    """Return an event as a plain object; an empty one if it cannot be decoded."""
    try:
        event = msgspec.json.decode(text)
    except _DECODE_ERRORS:
        return {}
    return event if isinstance(event, dict) else {}


def counter_readings(place: int, fields: Mapping[str, object]) -> list[Reading]:
    """Return the readings of a counter event: one for each number among its arguments."""
    args = fields.get("args")
    args = args if isinstance(args, dict) else {}
    name = str(fields.get("name")) + (f"[{fields['id']}]" if "id" in fields else "")  # each id is a counter of its own
    readings = []
    for series, value in args.items():
        number = real_number(value)
        if number == number:
            alone = len(args) == 1 and series in ("", "value", "counter", fields.get("name"))
            readings.append(Reading(place, name if alone else f"{name}.{series}", number))
    return readings


def memory_readings(place: int, args: EventArgs, device: int) -> list[Reading]:
    """Return the totals of memory after an allocation: of a device, or of the host. MISSING: no device is stated."""
    kind, number = real_number(args.memory_device_type), real_number(args.memory_device)
    is_host, is_device = kind == HOST_TYPE or number < 0, kind > HOST_TYPE or number >= 0
    where = "host memory" if is_host else "device memory" if is_device else "memory"
    totals = {name: getattr(args, name) for name in _TOTALS.values()}
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


def _as_text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _decode_event(text: bytes) -> tuple[TraceEvent, bytes]:
    """Decode one event, also one that is almost JSON: bare nan, control characters in strings, broken UTF-8, quotes in
    its name, which PyTorch does not escape. Return it with its bytes as valid JSON.
    """
    for variant in repaired_variants(text):
        try:
            return _event_decoder.decode(variant), variant
        except _DECODE_ERRORS:
            pass
        try:
            lenient = json.dumps(json.loads(variant.decode("utf-8", "replace"), strict=False))
            # The json module would round the timestamp, so it is taken as it is printed.
            event, timestamp = _event_decoder.decode(lenient), TIMESTAMP.search(variant)
            event.ts = msgspec.Raw(timestamp[1]) if timestamp else msgspec.Raw(b"")
            return event, lenient.encode()
        except (ValueError, *_DECODE_ERRORS):
            pass
    return _DAMAGED, b"{}"
