"""Arguments of Chrome trace events that columns of table `events` take: JSON objects -> columns.

Only arguments that the piece has are looked for, first where they are expected: a device, say, at work on devices.
`taken` counts the values that are in a column, for the account of arguments.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from perflog.arrays import Codes, Ints
from perflog.readers.events.element_types import element_bytes
from perflog.readers.events.event_columns import KIND_CODE, KINDS, MISSING, EventColumns
from perflog.readers.events.string_interning import WorkerInterner
from perflog.readers.events.timestamps import parse_integers

_NO_JSON = msgspec.Raw(b"")


def _key(name: str) -> Any:
    return msgspec.field(default=None, name=name)


def _raw(name: str) -> Any:
    return msgspec.field(default=_NO_JSON, name=name)


class EventArgs(msgspec.Struct, gc=False):
    """The arguments of an event that columns take. The types are open, because writers differ in them.

    Lists that most events have stay JSON. `arguments` accounts for all other arguments.
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
    shapes_until_2021: msgspec.Raw = _raw("Input dims")
    input_types: msgspec.Raw = _raw("Input type")
    input_strides: msgspec.Raw = _raw("Input Strides")
    input_values: msgspec.Raw = _raw("Concrete Inputs")
    stack: Any = _key("Call stack")
    seq: Any = _key("Seq")
    record: Any = _key("Record function id")
    grid: msgspec.Raw = _raw("grid")
    block: msgspec.Raw = _raw("block")
    registers: Any = _key("registers per thread")
    shared_bytes: Any = _key("shared memory")
    memory_bytes: Any = _key("Bytes")
    allocated: Any = _key("Total Allocated")
    reserved: Any = _key("Total Reserved")
    memory_device: Any = _key("Device Id")
    memory_device_type: Any = _key("Device Type")
    address: Any = _key("Addr")
    waits_for_stream: Any = _key("wait_on_stream")
    waits_for_record: Any = _key("wait_on_cuda_event_record_corr_id")
    context: Any = None
    name: Any = None  # of a process or thread, in metadata events
    labels: Any = None  # of a process, in metadata events


NO_ARGS = EventArgs()

TAKEN = frozenset(field.encode_name for field in msgspec.structs.fields(EventArgs)) - {"name"}
"""Arguments that a table takes, as they are printed."""

_HOST_KINDS = ("runtime", "cpu", "python", "range", "overhead", "span")
_IS_HOST_KIND = np.array([kind in _HOST_KINDS for kind in (*KINDS, "")])  # by code; the last is for -1
_CPU, _UNKNOWN = KIND_CODE["cpu"], -1
_MARK, _MEMORY = KIND_CODE["mark"], KIND_CODE["memory"]

_DEVICE_NUMBERS = {
    "device": "device", "stream": "stream", "context": "context", "bytes": "bytes",
    "registers": "registers per thread", "shared_bytes": "shared memory",
}  # fmt: skip
_WAITS = {"waits_for_stream": "wait_on_stream", "waits_for_record": "wait_on_cuda_event_record_corr_id"}
_OPERATOR_JSON = {
    "Input dims": "shapes", "Input Dims": "shapes", "Input type": "input_types", "Input Strides": "input_strides",
    "Concrete Inputs": "input_values",
}  # fmt: skip
_MEMORY_KEYS = ("Addr", "Total Allocated", "Total Reserved")  # instants with any of these are of memory
_MEMORY_DEVICE, _MEMORY_DEVICE_TYPE = "Device Id", "Device Type"
HOST_TYPE = 0
"""Type of a device that is the host: c10::DeviceType::CPU."""
_COLLECTIVE_NUMBERS = {"seq": "Seq", "ranks": "Group size", "src_rank": "Src Rank", "dst_rank": "Dst Rank"}
_COLLECTIVE_TEXTS = {
    "collective": "Collective name", "group": "Process Group Name", "dtype": "dtype",
    "group_description": "Process Group Description", "group_ranks": "Process Group Ranks",
    "in_split": "In split size", "out_split": "Out split size",
}  # fmt: skip
_ELEMENTS = ("In msg nelems", "Out msg nelems")
_COLLECTIVE_KEYS = (*_COLLECTIVE_NUMBERS.values(), *_COLLECTIVE_TEXTS.values(), *_ELEMENTS)

_GET: dict[str, Callable[[Any], Any]] = {
    field.encode_name: attrgetter(field.name) for field in msgspec.structs.fields(EventArgs)
}


class _Expected:
    """Events that an argument is expected at: their positions and arguments."""

    def __init__(self, args: Sequence[EventArgs], places: Ints) -> None:
        self.places = places
        self.args = [args[i] for i in places.tolist()]


class ArgumentColumns:
    """Turns the arguments of the events of one piece into columns.

    Args:
        interners: give codes to strings.
        counts: how often each argument occurs in the piece.
    """

    def __init__(self, interners: Mapping[str, WorkerInterner], counts: Mapping[str, int]) -> None:
        self.taken: Counter[str] = Counter()
        self._interners, self._counts = interners, counts

    def columns(self, args: Sequence[EventArgs], kind: npt.NDArray[np.int8]) -> EventColumns:
        """Return the columns of events, given their arguments and the codes of their kinds."""
        columns: EventColumns = {
            "correlation": self._numbers("correlation", args),
            "external": self._external(args),
        }
        on_device = _Expected(args, np.flatnonzero(~_IS_HOST_KIND[kind]))
        for column, key in _DEVICE_NUMBERS.items():
            if self._counts.get(key):
                columns[column] = self._sparse_numbers(key, args, on_device)
        if self._counts.get("Bytes"):
            more, size = self._sparse_numbers("Bytes", args, on_device), columns.get("bytes")
            columns["bytes"] = more if size is None else np.where(size == MISSING, more, size)
        columns |= self._memory(args, kind, columns.get("device"))
        for column, key in _WAITS.items():
            if self._counts.get(key):
                number = self._sparse_numbers(key, args, on_device)
                columns[column] = np.where(number < 0, MISSING, number)  # -1: the profiler does not know it
        for column in ("grid", "block"):
            if self._counts.get(column):
                columns[column] = self._sparse_json(column, column, args, on_device)
        columns |= self._of_operators(args, _Expected(args, np.flatnonzero((kind == _CPU) | (kind == _UNKNOWN))))
        if any(map(self._counts.get, _COLLECTIVE_KEYS)):
            columns |= self._collectives(args, columns.get("bytes"))
        return columns

    def _of_operators(self, args: Sequence[EventArgs], operators: _Expected) -> EventColumns:
        """Return the columns that operators of the host fill."""
        columns: EventColumns = {}
        for key, name in _OPERATOR_JSON.items():
            if self._counts.get(key):
                columns[name] = self._sparse_json(name, key, args, operators)
        if self._counts.get("Record function id"):
            columns["record"] = self._sparse_numbers("Record function id", args, operators)
        if self._counts.get("Call stack"):
            columns["stack"] = self._sparse_texts("stack", "Call stack", args, operators)
        return columns

    def _memory(self, args: Sequence[EventArgs], kind: npt.NDArray[np.int8], device: Ints | None) -> EventColumns:
        """Return the columns that distinguish instants of memory: kind, address, and the device, which the host is not.

        The columns of other events stay as they are.
        """
        gets = [_GET[key] for key in _MEMORY_KEYS if self._counts.get(key)]
        instants = np.flatnonzero(kind == _MARK).tolist() if gets else []
        places = np.array([i for i in instants if any(get(args[i]) is not None for get in gets)], np.int64)
        if not len(places):
            return {}
        chosen = [args[i] for i in places.tolist()]
        address = np.full(len(args), MISSING, np.int64)
        address[places] = self._numbers("Addr", chosen)
        device = np.full(len(args), MISSING, np.int64) if device is None else device
        types, numbers = (self._numbers(key, chosen) for key in (_MEMORY_DEVICE_TYPE, _MEMORY_DEVICE))
        device[places] = np.where((types == HOST_TYPE) | (numbers < 0), MISSING, numbers)
        kinds = kind.copy()
        kinds[places] = _MEMORY
        return {"kind": kinds, "address": address, "device": device}

    def _external(self, args: Sequence[EventArgs]) -> Ints:
        numbers = self._numbers("External id", args)
        if not self._counts.get("external id"):
            return numbers
        return np.where(numbers == MISSING, self._numbers("external id", args), numbers)

    def _numbers(self, key: str, args: Sequence[EventArgs]) -> Ints:
        """Return an argument of events as numbers."""
        if not self._counts.get(key):
            return np.full(len(args), MISSING, np.int64)
        numbers = parse_integers(list(map(_GET[key], args)))
        self.taken[key] += int(np.count_nonzero(numbers != MISSING))
        return numbers

    def _values(
        self, key: str, args: Sequence[EventArgs], expected: _Expected, missing: object
    ) -> tuple[Ints, list[Any]]:
        """Return the events that may have an argument, and what they have: those expected, or all if they miss some."""
        values = list(map(_GET[key], expected.args))
        missed = len(values) - values.count(missing) < self._counts[key]
        if missed and len(values) < len(args) and key != "device":  # column `device` is for work on devices
            return np.arange(len(args)), list(map(_GET[key], args))
        return expected.places, values

    def _sparse_numbers(self, key: str, args: Sequence[EventArgs], expected: _Expected) -> Ints:
        places, values = self._values(key, args, expected, None)
        column = np.full(len(args), MISSING, np.int64)
        column[places] = parse_integers(values)
        self.taken[key] += int(np.count_nonzero(column != MISSING))
        return column

    def _sparse_json(self, name: str, key: str, args: Sequence[EventArgs], expected: _Expected) -> Codes:
        places, values = self._values(key, args, expected, _NO_JSON)
        return self._column(key, places, self._interners[name].codes_of_json(values), len(args))

    def _sparse_texts(self, name: str, key: str, args: Sequence[EventArgs], expected: _Expected) -> Codes:
        places, values = self._values(key, args, expected, None)
        return self._column(key, places, self._interners[name].codes(values), len(args))

    def _column(self, key: str, places: Ints, codes: Codes, count: int) -> Codes:
        """Return a column of `count` codes: these at their positions, and -1."""
        column = np.full(count, -1, np.int32)
        column[places] = codes
        self.taken[key] += int(np.count_nonzero(codes >= 0))
        return column

    def _collectives(self, args: Sequence[EventArgs], size: Ints | None) -> EventColumns:
        """Return the columns of collectives, with the bytes of all events. Few events belong to a collective."""
        chosen = [
            i for i, a in enumerate(args) if a.collective is not None or a.seq is not None or a.group_size is not None
        ]
        present = [key for key in _COLLECTIVE_KEYS if self._counts.get(key)]
        missed = [key for key in present if sum(_GET[key](args[i]) is not None for i in chosen) < self._counts[key]]
        if missed:
            chosen = [i for i, a in enumerate(args) if any(_GET[key](a) is not None for key in present)]
        collectives, columns = [args[i] for i in chosen], EventColumns()
        if not chosen:
            return columns
        places = np.array(chosen, np.int64)
        columns["bytes"] = np.full(len(args), MISSING, np.int64) if size is None else size
        columns["bytes"][chosen] = np.maximum(columns["bytes"][chosen], self._message_bytes(collectives))
        for name, key in _COLLECTIVE_NUMBERS.items():
            columns[name] = np.full(len(args), MISSING, np.int64)
            columns[name][chosen] = self._numbers(key, collectives)
        for name, key in _COLLECTIVE_TEXTS.items():
            values = list(map(_GET[key], collectives))
            self.taken[key] += len(values) - values.count(None)
            texts = [_group(a) for a in collectives] if name == "group" else [value or None for value in values]
            columns[name] = np.full(len(args), -1, np.int32)
            columns[name][places] = self._interners[name].codes(texts)
        return columns

    def _message_bytes(self, collectives: Sequence[EventArgs]) -> Ints:
        """Return bytes of the larger buffer, from which nccl-tests computes bandwidth; MISSING where none is stated."""
        sizes = [element_bytes(str(a.dtype)) or 0 for a in collectives]
        size = np.array(sizes, np.int64)
        elements = [parse_integers(list(map(_GET[key], collectives))) for key in _ELEMENTS]
        for key, numbers in zip(_ELEMENTS, elements, strict=True):
            self.taken[key] += int(np.count_nonzero((numbers >= 0) & (size > 0)))
        largest = np.maximum(*elements)
        return np.where((largest >= 0) & (size > 0), largest * size, MISSING)


def _group(args: EventArgs) -> Any:
    """Return the process group: its name, or its ranks as a string."""
    if args.group_name is not None and args.group_name != "":
        return args.group_name
    ranks = args.group_ranks
    return ranks if ranks is None or isinstance(ranks, str) else json.dumps(ranks)
