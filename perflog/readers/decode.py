"""Chrome trace events, as text -> as columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from perflog.readers.columns import NONE, WORDS, Columns
from perflog.readers.cut import scan
from perflog.readers.kinds import CODE, CONTEXT, EVENT, PAIR, role_of
from perflog.readers.mend import BARE, TIME, escaped, without_bare
from perflog.readers.times import exact, rounded, whole

Places = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.int8]
Key = tuple[str | None, str | None]  # phase and category

SAMPLE = 400
"""Characters kept of the first event of a shape."""

# Bytes of an element, by the names of torch's types.
_BYTES = {
    **dict.fromkeys(("byte", "char", "bool", "uint8", "int8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16"), 2),
    **dict.fromkeys(("float", "int", "float32", "int32"), 4),
    **dict.fromkeys(("double", "long", "float64", "int64", "complexfloat"), 8),
}


def _named(name: str) -> Any:
    return msgspec.field(default=None, name=name)


class Args(msgspec.Struct, gc=False):
    """What of an event's arguments goes to columns. Types are open: writers differ in them."""

    stream: Any = None
    device: Any = None
    correlation: Any = None
    bytes: Any = None
    dtype: Any = None
    external: Any = _named("External id")
    external_then: Any = _named("external id")  # until 2021
    collective: Any = _named("Collective name")
    sent: Any = _named("In msg nelems")
    received: Any = _named("Out msg nelems")
    group_size: Any = _named("Group size")
    group_name: Any = _named("Process Group Name")
    group_ranks: Any = _named("Process Group Ranks")
    seq: Any = _named("Seq")
    memory: Any = _named("Bytes")
    name: Any = None  # of a process or thread, in metadata


class Event(msgspec.Struct, gc=False):
    """One event of a trace. `ts` stays text: it may have more digits than a double."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: Any = None
    id: Any = None
    args: Args | list[Any] | str | int | float | None = None


_ON_HOST = np.array([CODE[kind] for kind in ("runtime", "cpu", "python", "range", "overhead", "span")], np.int8)
BAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Why a text is no event: also because it nests too deep."""

_SPOILT = "\0"
_NOTHING = Args()
_events, _event = msgspec.json.Decoder(list[Event]), msgspec.json.Decoder(Event)


@dataclass
class Shape:
    """Events alike in phase and category: how many, the place of the first in the chunk, its text."""

    ph: str
    category: str | None
    count: int
    first: int
    sample: str


@dataclass
class Decoded:
    """A chunk of a trace: `rows` are its timed events, `pairs` begins and ends of such; `place` counts in the chunk.

    `new` are the texts behind those that earlier chunks gave codes to. `spoilt`: place and text of what could not be
    decoded.
    """

    count: int
    rows: Columns
    pairs: Columns
    shapes: list[Shape]
    new: dict[str, list[str]]
    processes: list[tuple[str, str]] = field(default_factory=list)
    spoilt: list[tuple[int, str]] = field(default_factory=list)


class Words:
    """Codes for texts, the same in all chunks."""

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {None: -1}
        self._told = 0

    def codes(self, values: list[Any]) -> npt.NDArray[np.int32]:
        """The codes of texts, or of what stands for texts; None is -1."""
        known = self._codes
        try:
            return np.fromiter(map(known.__getitem__, values), np.int32, len(values))
        except (KeyError, TypeError):  # a new one; a list
            values = [v if v is None or isinstance(v, str | int | float) else json.dumps(v) for v in values]
        for value in values:
            known.setdefault(value, len(known) - 1)
        return self.codes(values)

    def news(self) -> list[str]:
        """Texts that have got a code since this was last asked."""
        texts = [str(text) for text in list(self._codes)[self._told + 1 :]]
        self._told += len(texts)
        return texts


class Decoder:
    """Decodes one chunk after the other."""

    def __init__(self) -> None:
        self.words = {name: Words() for name in WORDS}
        self._phases = Words()
        self._sampled: set[Key] = set()

    def whole(self, text: bytes | bytearray | memoryview) -> Decoded | None:
        """The events of `[...]`, or None if that is no array of whole events."""
        try:
            events = _events.decode(text)
        except BAD:
            if not BARE.search(text):
                return None
            try:
                events = _events.decode(without_bare(bytes(text)))
            except BAD:
                return None
        return self._columns(events, text, 1)

    def single(self, text: bytes, spans: Sequence[tuple[int, int]], trusted: bool = True, last: bool = True) -> Decoded:
        """The events at these places of a text, one by one: what cannot be decoded is put aside.

        If the places are not `trusted`, only those before two in a row that cannot be decoded, or before such a one at
        the end unless it is the `last` of all.
        """
        events: list[Event] = []
        spoilt: list[tuple[int, str]] = []
        for start, end in spans:
            event = _decoded(text[start:end])
            if event is None:
                spoilt.append((len(events), text[start : min(end, start + SAMPLE)].decode("utf-8", "replace")))
            events.append(event or Event(ph=_SPOILT))
            if not trusted and events[-2:] == [Event(ph=_SPOILT)] * 2:
                del events[-2:], spoilt[-2:]
                break
        if not trusted and not last and events and events[-1].ph == _SPOILT:
            del events[-1], spoilt[-1]
        out = self._columns(events, text, 0)
        out.spoilt = spoilt
        out.shapes = [s for s in out.shapes if s.ph != _SPOILT]
        return out

    def _columns(self, events: list[Event], text: bytes | bytearray | memoryview, begin: int) -> Decoded:
        category = self.words["category"].codes([e.cat for e in events])
        pair = (category.astype(np.int64) << 32) + self._phases.codes([e.ph for e in events])
        _, first, shape = np.unique(pair, return_index=True, return_inverse=True)
        keys = [(_text(events[i].ph), _text(events[i].cat)) for i in first.tolist()]
        roles = np.array([role_of(*key) for key in keys], np.int8).reshape(-1, 2)
        role, kind = roles[shape, 0], roles[shape, 1]
        timed, paired = np.flatnonzero(role == EVENT), np.flatnonzero(role == PAIR)
        rows = self._rows(events, timed, kind, category)
        pairs = self._pairs(events, paired, kind, category)
        counts = np.bincount(shape, minlength=len(keys)).tolist()
        shapes = self._shapes(list(zip(keys, counts, first.tolist(), strict=True)), text, begin)
        naming = (events[i] for i in np.flatnonzero(role == CONTEXT).tolist())
        told = [(str(e.pid), a.name) for e in naming if e.name == "process_name" and isinstance(a := e.args, Args)]
        return Decoded(len(events), rows, pairs, shapes, {k: w.news() for k, w in self.words.items()}, told)

    def _rows(self, events: list[Event], places: Places, kind: Kinds, category: npt.NDArray[np.int32]) -> Columns:
        chosen = events if len(places) == len(events) else [events[i] for i in places.tolist()]
        args = [e.args if type(e.args) is Args else _NOTHING for e in chosen]
        external = [a.external if a.external is not None else a.external_then for a in args]
        rows: Columns = {
            "place": places.astype(np.int32),
            "kind": kind[places],
            "category": category[places],
            "start": exact([e.ts for e in chosen]),
            "duration": rounded([e.dur for e in chosen]),
            "correlation": whole([a.correlation for a in args]),
            "external": whole(external),
        }
        # Most events are of the host: they are on no device.
        there = np.flatnonzero(~np.isin(rows["kind"], _ON_HOST))
        far = [args[i] for i in there.tolist()]
        for name, numbers in (
            ("device", whole([a.device for a in far])),
            ("stream", whole([a.stream for a in far])),
            ("bytes", whole([a.bytes if a.bytes is not None else a.memory for a in far])),
        ):
            rows[name] = np.full(len(args), NONE, np.int64)
            rows[name][there] = numbers
        for name, values in (
            ("name", [e.name for e in chosen]),
            ("process", [e.pid for e in chosen]),
            ("thread", [e.tid for e in chosen]),
        ):
            rows[name] = self.words[name].codes(values)
        return rows | self._collectives(args, rows["bytes"])

    def _collectives(self, args: Sequence[Args], size: npt.NDArray[np.int64]) -> Columns:
        """Few events are of a collective: the columns of all others are filled at once."""
        some = [
            i for i, a in enumerate(args) if a.collective is not None or a.seq is not None or a.group_size is not None
        ]
        said = [args[i] for i in some]
        found: Columns = {
            "seq": whole([a.seq for a in said]),
            "ranks": whole([a.group_size for a in said]),
            "collective": self.words["collective"].codes([a.collective for a in said]),
            "group": self.words["group"].codes([_group(a) for a in said]),
            "dtype": self.words["dtype"].codes([a.dtype for a in said]),
        }
        size[some] = np.maximum(size[some], message(said))
        out: Columns = {}
        for name, values in found.items():
            column = np.full(len(args), -1 if values.dtype == np.int32 else NONE, values.dtype)
            column[some] = values
            out[name] = column
        return out

    def _pairs(self, events: list[Event], places: Places, kind: Kinds, category: npt.NDArray[np.int32]) -> Columns:
        if not len(places):
            return {}
        rows = self._rows(events, places, kind, category)
        return rows | {"phase": np.array([ord(events[i].ph) for i in places.tolist()], np.uint8),
                       "id": np.array([hash(str(events[i].id)) for i in places.tolist()], np.int64)}  # fmt: skip

    def _shapes(self, found: list[tuple[Key, int, int]], text: Any, begin: int) -> list[Shape]:
        """Shapes with how many and the place of the first; its text where a shape is new."""
        samples = {}
        if new := {key: first for key, _, first in found if key not in self._sampled}:
            self._sampled |= new.keys()
            seen = scan(text[begin:])
            for key, first in new.items():
                if first < len(seen.ends):
                    start, end = int(seen.starts[first]) + begin, int(seen.ends[first]) + begin
                    samples[key] = bytes(text[start : min(end, start + SAMPLE)]).decode("utf-8", "replace")
        return [Shape(ph or "", cat, n, first, samples.get((ph, cat), "")) for (ph, cat), n, first in found]


def message(said: Sequence[Args]) -> npt.NDArray[np.int64]:
    """Bytes of the larger buffer of collectives: what nccl-tests computes bandwidth of. NONE where it is not told."""
    elements = np.maximum(whole([a.sent for a in said]), whole([a.received for a in said]))
    each = np.array([_BYTES.get(str(a.dtype).lower().rpartition("::")[2], 0) for a in said], np.int64)
    return np.where((elements >= 0) & (each > 0), elements * each, NONE)


def _group(args: Args) -> Any:
    if args.group_name is not None and args.group_name != "":
        return args.group_name
    return (
        args.group_ranks
        if args.group_ranks is None or isinstance(args.group_ranks, str)
        else json.dumps(args.group_ranks)
    )


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _decoded(text: bytes) -> Event | None:
    """One event, also one that is only almost JSON: bare nan, control characters in strings, broken UTF-8, and quotes
    in its name, which PyTorch does not escape.
    """
    for mend in (bytes, without_bare, escaped):
        mended = mend(text)
        try:
            return _event.decode(mended)
        except BAD:
            pass
        try:
            again = json.dumps(json.loads(mended.decode("utf-8", "replace"), strict=False))
            # Through json numbers would lose digits, so the time is taken as it stands.
            event, time = _event.decode(again), TIME.search(mended)
            event.ts = msgspec.Raw(time[1]) if time else msgspec.Raw(b"")
            return event
        except (ValueError, *BAD):
            pass
    return None
