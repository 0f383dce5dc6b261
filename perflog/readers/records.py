"""Records of rocprofv3: their texts -> columns, and what was found of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from perflog.readers.columns import NONE, Columns, between
from perflog.readers.kinds import CODE, ON_DEVICE
from perflog.readers.symbols import BAD, Symbols, plain
from perflog.readers.times import whole
from perflog.readers.vocabulary import Vocabulary

CALLS = ("runtime", "library")
"""Kinds of calls, which may start something on a device."""

_KINDS = (
    (r"marker_(\w+_)?api", "range"),
    (r"(hip|hsa)_(\w+_)?api", "runtime"),
    (r"kernel_dispatch$|counter_collection$", "kernel"),
    (r"memory_copy$", "memcpy"),
    (r"_api(_|$)", "library"),
)
_BATCH = 1 << 14  # records that become rows together
_SAMPLE = 400
_ON_DEVICE = sorted(ON_DEVICE)

Ints = npt.NDArray[np.int64]


class Handle(msgspec.Struct, gc=False):
    """A number in an object of its own."""

    handle: Any = None


class Ids(msgspec.Struct, gc=False):
    """Correlation numbers: of the call, and of the range around it where kernels are renamed by it; 0 is none."""

    internal: Any = None
    external: Any = None


class Dispatch(msgspec.Struct, gc=False):
    """What of a kernel's launch goes to columns."""

    agent_id: Handle | int | None = None
    queue_id: Handle | int | None = None
    kernel_id: Any = None


class Record(msgspec.Struct, gc=False):
    """A record of any array. `operation` is one of its `kind`, both by number."""

    kind: Any = None
    operation: Any = None
    thread_id: Any = None
    correlation_id: Ids | None = None
    start_timestamp: Any = None
    end_timestamp: Any = None
    dispatch_info: Dispatch | None = None
    src_agent_id: Handle | int | None = None
    dst_agent_id: Handle | int | None = None
    queue_id: Handle | int | None = None
    stream_id: Handle | int | None = None
    bytes: Any = None
    allocation_size: Any = None
    dispatch_data: Record | None = None  # of a collection of counters: the kernel that they are of


_raws, _records = msgspec.json.Decoder(list[msgspec.Raw]), msgspec.json.Decoder(list[Record])
_record = msgspec.json.Decoder(Record)
_NO_IDS, _NO_DISPATCH = Ids(), Dispatch()


@cache
def kind_of(name: str) -> str | None:
    """The kind of events by the name of their array or category, as hip_api or HIP_RUNTIME_API_EXT; None: unknown."""
    return next((kind for pattern, kind in _KINDS if re.search(pattern, name.lower())), None)


def texts_of(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The text of each record of an array; what is no array is one record, if it is anything."""
    try:
        return _raws.decode(raw)
    except BAD:
        return [raw] if plain(raw) else []


class Records:
    """The records of one file on their way into columns. `shapes` is the account: [count, place of the first, text]."""

    def __init__(self, texts: Mapping[str, Vocabulary]) -> None:
        self.texts = texts
        self.place = 0  # of the last record that was read
        self.shapes: dict[tuple[str, str], list[Any]] = {}

    def of(self, symbols: Symbols) -> None:
        """What follows is of a process with these names."""
        self._symbols = symbols
        self._process = -1 if symbols.pid is None else self.texts["process"].code(str(symbols.pid))
        self._codes: dict[Any, tuple[int, int, int]] = {}
        self._kernels = 0

    def batches(self, array: str, raw: msgspec.Raw) -> Iterator[Columns]:
        """The records of an array that have times, some thousands at a time."""
        texts, counted = texts_of(raw), not self._kernels
        for begin in range(0, len(texts), _BATCH):
            records, places = self._decoded(array, texts[begin : begin + _BATCH], counted)
            self._kernels += len(records) if kind_of(array) == "kernel" else 0
            if records:
                yield self._columns(array, records, places)

    def _decoded(self, array: str, texts: Sequence[msgspec.Raw], counted: bool) -> tuple[list[Record], list[int]]:
        """Records that have times, and their places. All others are accounted for, and no more.

        `counted`: the kernels of counters are read too, for there are no others.
        """
        found: list[Record | None]
        try:
            found = [*_records.decode(b"[" + b",".join(texts) + b"]")]
        except BAD:
            found = [_single(text) for text in texts]
        records, places, first = [], [], self.place + 1
        for place, (record, text) in enumerate(zip(found, texts, strict=True), first):
            if counted and record is not None and record.start_timestamp is None:
                record = record.dispatch_data or record
            if record is None:
                self._account("unread", f"damaged {array}", 1, place, text)
            elif record.start_timestamp is None:
                self._account("context", f"{array} without times", 1, place, text)
            else:
                records.append(record)
                places.append(place)
        self.place += len(texts)
        if records:
            self._account("read", array, len(records), places[0], texts[places[0] - first])
        return records, places

    def _account(self, status: str, shape: str, count: int, place: int, text: msgspec.Raw) -> None:
        if (status, shape) not in self.shapes:
            sample = " ".join(bytes(text).decode("utf-8", "replace").split())[:_SAMPLE]
            self.shapes[status, shape] = [0, place, sample]
        self.shapes[status, shape][0] += count

    def _columns(self, array: str, records: Sequence[Record], places: list[int]) -> Columns:
        ids = [r.correlation_id or _NO_IDS for r in records]
        launches = [r.dispatch_info or _NO_DISPATCH for r in records]
        internal, external = whole([i.internal for i in ids]), whole([i.external for i in ids])
        start, end = whole([r.start_timestamp for r in records]), whole([r.end_timestamp for r in records])
        numbers = (internal if kind_of(array) == "range" else whole([x.kernel_id for x in launches])).tolist()
        named = [self._named(array, r.kind, r.operation, n) for r, n in zip(records, numbers, strict=True)]
        kind, name, category = np.array(named, np.int32).T
        ended = ((end != 0) | (start == 0)) & (kind != CODE["mark"])
        thread = self._coded("thread", whole([r.thread_id for r in records]))
        queues = [_first(r.stream_id, r.queue_id, x.queue_id) for r, x in zip(records, launches, strict=True)]
        return {
            "place": np.array(places, np.int64), "kind": kind.astype(np.int8), "name": name, "category": category,
            "start": start, "duration": np.where(ended, between(start, end), NONE),
            "device": self._devices(records, launches), "stream": whole(queues),
            "process": np.full(len(records), self._process, np.int32),
            "thread": np.where(np.isin(kind, _ON_DEVICE), -1, thread).astype(np.int32),
            "correlation": np.where(internal == 0, NONE, internal),
            "external": np.where(external == 0, NONE, external),
            "bytes": whole([r.allocation_size if r.bytes is None else r.bytes for r in records]),
        }  # fmt: skip

    def _named(self, array: str, kind: Any, operation: Any, number: int) -> tuple[int, int, int]:
        """Codes of a record's kind, name and category. `number`: of its kernel, or of the call that set a marker."""
        key = array, kind, operation, number
        try:
            return self._codes[key]
        except (KeyError, TypeError):
            found = self._told(*key)
        if not isinstance(kind, list | dict) and not isinstance(operation, list | dict):
            self._codes[key] = found
        return found

    def _told(self, array: str, kind: Any, operation: Any, number: int) -> tuple[int, int, int]:
        category, called = self._symbols.operation(kind, operation)
        what, name = kind_of(array), called
        if what == "kernel":
            name = self._symbols.kernels.get(number)
        elif what == "range":
            name = self._symbols.messages.get(number)
            if name is None:  # such as pausing the profiler: a call that marks nothing
                what, name = "library", called
            elif "mark" in (called or "").lower():
                what = "mark"
        code = -1 if name is None else self.texts["name"].code(name)
        return CODE.get(what or "", -1), code, self.texts["category"].code(category or array)

    def _devices(self, records: Sequence[Record], launches: Sequence[Dispatch]) -> Ints:
        """The device that worked: of a copy the one it went to, or where that is none the one it came from."""
        devices = self._symbols.devices
        ways = zip(
            (x.agent_id for x in launches),
            (r.dst_agent_id for r in records),
            (r.src_agent_id for r in records),
            strict=True,
        )
        found = ((devices.get(_first(handle)) for handle in way) for way in ways)
        return np.array([next((d for d in way if d is not None), NONE) for way in found], np.int64)

    def _coded(self, column: str, numbers: Ints) -> npt.NDArray[np.int32]:
        """Codes of the texts of numbers, of which there are few."""
        found, index = np.unique(numbers, return_inverse=True)
        codes = [-1 if n == NONE else self.texts[column].code(str(n)) for n in found.tolist()]
        return np.array(codes, np.int32)[index]


def _first(*handles: Handle | int | None) -> Any:
    """The first number that is told."""
    told = next((h for h in handles if h is not None), None)
    return told.handle if isinstance(told, Handle) else told


def _single(text: msgspec.Raw) -> Record | None:
    """One record, alone; None where it is of another shape."""
    try:
        return _record.decode(text)
    except BAD:
        try:
            return msgspec.convert(plain(text), Record)
        except msgspec.ValidationError:
            return None
