"""Events of a Perfetto trace: slices that begin and end on a track, instants, readings of counters -> columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perflog.arrays import Codes, Floats, Ints, Mask
from perflog.readers.chrome.kinds import role_and_kind
from perflog.readers.events.device_names import work_kind
from perflog.readers.events.event_columns import (
    KIND_CODE,
    MISSING,
    EventColumns,
    distinct_tuples,
    distinct_values,
    durations_between,
    rows_by_number,
)
from perflog.readers.events.event_table import EventAccount
from perflog.readers.events.string_interning import Interners
from perflog.readers.messages.message_columns import FieldColumns
from perflog.readers.perfetto.arguments import Arguments
from perflog.readers.perfetto.clocks import Clocks
from perflog.readers.perfetto.packets import PacketReader, Packets, by_generation
from perflog.readers.perfetto.tracks import Track, Tracks

_EVENT = 11  # field of a packet
_CATEGORY_NUMBER, _ARGUMENTS, _LEGACY, _TYPE, _NAME_NUMBER, _TRACK = 3, 4, 6, 9, 10, 11
_CATEGORY, _NAME, _INTEGER, _REAL, _CORRELATION = 22, 23, 30, 44, 52
_PHASE, _LENGTH_US = 2, 3

BEGIN, END, INSTANT, COUNTER, _COMPLETE, _OTHER = 1, 2, 3, 4, 5, 0
_WORDS = {BEGIN: "slice begin", END: "slice end", INSTANT: "instant", COUNTER: "counter", _COMPLETE: "slice"}
_PHASES = {ord("B"): BEGIN, ord("E"): END, ord("X"): _COMPLETE, ord("i"): INSTANT, ord("I"): INSTANT, ord("n"): INSTANT}

# Categories of rocprofv3; others are those that Chrome traces have.
_KINDS = {
    "kernel_dispatch": "kernel", "memory_copy": "memcpy", "marker_api": "range", "rccl_api": "library",
    "memory_allocation": "span", "scratch_memory": "span",
}  # fmt: skip

CONTEXT = {
    2: "process tree", 3: "identity", 6: "clock snapshot", 9: "process statistics", 12: "interned data",
    33: "trace configuration", 34: "statistics of ftrace", 35: "statistics of the trace", 36: "marker of the service",
    41: "cleared state", 43: "process name", 44: "thread name", 45: "system", 47: "installed packages", 51: "metadata",
    59: "defaults", 60: "track", 67: "processors", 69: "event of the service", 72: "extension", 82: "translation",
    87: "first packet", 89: "trace id", 107: "clock of a remote machine", 113: "snapshot",
}  # fmt: skip
"""Packets that name or describe, by the number of the field that says so."""
_UNREAD = {
    1: "ftrace events", 4: "files", 5: "events of Chrome", 7: "statistics of the system", 37: "heap profile",
    38: "battery", 39: "log of Android", 40: "power", 52: "counters of a GPU", 53: "render stages of a GPU",
    54: "call stacks", 57: "graphics frames", 62: "memory of Vulkan", 65: "calls of Vulkan", 66: "samples of perf",
    68: "memory maps", 71: "memory of a GPU", 95: "events of ETW",
}  # fmt: skip
_SHARED = (3, 8, 10, 13, 41, 42, 58, 79, 87, 98, 12, 59)  # fields beside what a packet is about
_FTRACE_EVENT = 2


class EventCollector:
    """Collects the events of one file, which become rows when all tracks are known.

    `count`: number of events that begin, end, happen or count. `arguments` are theirs.
    """

    def __init__(self, reader: PacketReader, interners: Interners, account: EventAccount) -> None:
        self.reader = reader
        self.interners = interners
        self.account = account
        self.clocks = Clocks()
        self.tracks = Tracks()
        self.arguments = Arguments(interners, account)
        self.count = 0
        self._parts: list[EventColumns] = []
        self._values: list[Floats] = []
        self._places: Ints = np.zeros(0, np.int64)

    def add(self, packets: Packets) -> None:
        """Add the events of packets, and count all packets."""
        default_clock = by_generation(self.reader.default_clock, packets.generation, MISSING)
        times = self.clocks.times(packets, default_clock)
        self.tracks.learn(packets)
        owner, events = packets.fields.messages(_EVENT)
        self._count_packets(packets, owner)
        if not len(owner):
            return
        generation = packets.generation[owner]
        kind, length = self._types(events)
        track = events.integers(_TRACK, MISSING)
        default_track = by_generation(self.reader.default_track, generation, 0)
        columns: EventColumns = {
            "place": owner + packets.place, "type": kind, "time": times[owner], "length": length,
            "track": np.where(track == MISSING, default_track, track), "generation": generation.astype(np.int32),
            **{
                table: self.reader.texts_of(events, number, text, generation, table, self.interners[table])
                for table, number, text in (
                    ("name", _NAME_NUMBER, _NAME), ("category", _CATEGORY_NUMBER, _CATEGORY),
                )
            },
        }  # fmt: skip
        self._count_events(columns, events.damaged)
        integers, reals = events.integers(_INTEGER, MISSING), events.fixed64(_REAL, MISSING)
        values = np.where(integers == MISSING, np.nan, integers.astype(np.float64))
        self._values.append(np.where(reals == MISSING, values, reals.view(np.float64)))
        notes_owner, notes = events.messages(_ARGUMENTS)
        if len(notes_owner):
            place = int(columns["place"][notes_owner[0]])
            self.arguments.add(notes_owner + self.count, generation[notes_owner], notes, self.reader, place)
        correlation = events.integers(_CORRELATION, MISSING)
        if (correlation != MISSING).any():
            known = np.flatnonzero(correlation != MISSING)
            self.arguments.taken.setdefault("correlation", []).append((known + self.count, correlation[known]))
        self.count += len(owner)
        self._parts.append(columns)

    def _types(self, events: FieldColumns) -> tuple[npt.NDArray[np.int8], Ints]:
        """Return the types of events, and the durations in ns of those that state one; older events have a phase."""
        kind = events.integers(_TYPE, 0)
        length = np.full(len(kind), MISSING, np.int64)
        owner, legacy = events.messages(_LEGACY)
        if len(owner):
            phases = [_PHASES.get(phase, _OTHER) for phase in legacy.integers(_PHASE, 0).tolist()]
            kind[owner] = np.where(kind[owner] == 0, phases, kind[owner])
            micros = legacy.integers(_LENGTH_US, MISSING)
            length[owner] = np.where((micros >= 0) & (micros < 1 << 50), micros * 1000, MISSING)
        is_known = (kind >= 0) & (kind <= COUNTER) | (kind == _COMPLETE) & (length != MISSING)
        return np.where(is_known, kind, _OTHER).astype(np.int8), length

    def _count_packets(self, packets: Packets, owners: Ints) -> None:
        """Count the packets that are no events of tracks."""
        fields, count = packets.fields, len(packets.sequence)
        about = np.zeros(count, np.int64)
        is_shared = np.isin(fields.number, _SHARED)
        # What a packet is about is beside what many packets have. Without it, one of these may say it.
        for chosen in (is_shared & np.isin(fields.number, [*CONTEXT]), ~is_shared):
            about[fields.owner[chosen]] = fields.number[chosen]
        rest = np.ones(count, np.bool_)
        rest[owners] = False
        rest &= ~fields.damaged
        places = np.arange(packets.place, packets.place + count)
        self.account.add_places("unread", "damaged packet", places[fields.damaged])
        for number in np.unique(about[rest]).tolist():
            numbered = places[rest & (about == number)]
            if number in CONTEXT or number == 0:
                self.account.add_places("context", CONTEXT.get(number, "empty packet"), numbered)
                continue
            shape = _UNREAD.get(number, f"packet of type {number}")
            self.account.add_places("unread", shape, numbered)
            if number == 1:
                _, bundles = fields.messages(1)
                self.account.figures_of(shape, int(numbered[0])).unread += int(bundles.counts(_FTRACE_EVENT).sum())

    def _count_events(self, columns: EventColumns, damaged: Mask) -> None:
        """Count events by type and category."""
        columns["type"][damaged] = _OTHER
        keys = columns["type"].astype(np.int64) << 32 | columns["category"].astype(np.int64) & 0xFFFFFFFF
        texts = self.interners["category"].texts
        for key, rows in rows_by_number(keys):
            code = (key & 0xFFFFFFFF) if key & 0x80000000 == 0 else -1
            word = _WORDS.get(key >> 32)
            shape = " ".join(
                part for part in (word or "event of another type", texts[code] if code >= 0 else "") if part
            )
            self.account.add_places("read" if word else "unread", shape, columns["place"][rows])

    # --- when all packets have been read ---------------------------------------------------------------------------

    def finish(self) -> tuple[EventColumns, EventColumns]:
        """Return slices and instants in the order of their positions, and readings of counters."""
        parts, self._parts = self._parts, []
        if not parts:
            return {}, {}
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        self._places = columns["place"]
        values, self._values = np.concatenate(self._values), []
        begins, lengths, lone_ends = _slices(columns)
        whole = np.flatnonzero(columns["type"] == _COMPLETE)
        instants = np.flatnonzero(columns["type"] == INSTANT)
        rows = np.concatenate([begins, whole, instants])
        duration = np.concatenate([lengths, columns["length"][whole], np.full(len(instants), MISSING, np.int64)])
        order = np.argsort(rows, kind="stable")
        rows, duration = rows[order], duration[order]
        if len(lone_ends):
            self._take_back(columns, lone_ends, END, "without its begin")
        events = {name: columns[name][rows] for name in ("place", "name", "category")} | {
            "start": columns["time"][rows], "duration": duration, "row": rows,
        }  # fmt: skip
        events |= self._columns_of_tracks(columns, rows)
        events["kind"] = np.where(columns["type"][rows] == INSTANT, KIND_CODE["mark"], self._kinds(events))
        events["kind"] = events["kind"].astype(np.int8)
        return events, self._readings(columns, values)

    def places_of(self, rows: Ints) -> Ints:
        """Return the positions of events in the file, when `finish` was called."""
        places: Ints = self._places[rows]
        return places

    def _take_back(self, columns: EventColumns, rows: Ints, kind: int, why: str) -> None:
        """Count events of a type as unread, which were counted as read."""
        texts, category = self.interners["category"].texts, columns["category"][rows]
        for code, chosen in rows_by_number(category.astype(np.int64)):
            places = columns["place"][rows[chosen]]
            shape = f"{_WORDS[kind]} {texts[code] if code >= 0 else ''}".strip()
            self.account.add("read", shape, -len(places), int(places[0]))
            self.account.add_places("unread", f"{shape} {why}", places)

    def _columns_of_tracks(self, columns: EventColumns, rows: Ints) -> EventColumns:
        """Return process, thread, device and stream of events, and whether their track shows work of a device."""
        tracks, which = self._tracks_of(columns, rows)
        code = {name: self.interners[name].code for name in ("process", "thread")}

        def codes(name: str, texts: list[str | None]) -> Codes:
            column = np.array([-1 if text is None else code[name](text) for text in texts], np.int32)
            return np.asarray(column[which])

        device = np.array([MISSING if track.device is None else track.device for track in tracks], np.int64)[which]
        return {
            "process": codes("process", [track.process for track in tracks]),
            "thread": codes("thread", [track.thread for track in tracks]),
            "device": device, "stream": np.array([track.stream for track in tracks], np.int64)[which],
            "is_work": np.array([track.is_work for track in tracks], np.bool_)[which],
        }  # fmt: skip

    def _tracks_of(self, columns: EventColumns, rows: Ints) -> tuple[list[Track], Ints]:
        """Return the tracks of events, and for each event the index of its track."""
        uuid = columns["track"][rows]
        generation = np.where(uuid == 0, columns["generation"][rows], 0)
        first, which = distinct_tuples((uuid, generation))
        pairs = zip(uuid[first].tolist(), generation[first].tolist(), strict=True)
        return [self.tracks.track(*pair) for pair in pairs], which

    def _kinds(self, events: EventColumns) -> npt.NDArray[np.int8]:
        """Return the kinds of slices: by category, else by the track of a device; other slices are ranges."""
        categories, names = self.interners["category"].texts, self.interners["name"].texts
        by_category = np.array([*map(_kind_of_category, categories), -1], np.int8)
        kinds = by_category[events["category"]]
        unknown = kinds == -1
        on_device = unknown & (events["device"] != MISSING)
        kinds[unknown & ~on_device] = KIND_CODE["range"]
        kinds[on_device] = KIND_CODE["device_range"]
        work = np.flatnonzero(on_device & events["is_work"])
        distinct, which = distinct_values(events["name"][work].astype(np.int64))
        name_kinds = [KIND_CODE[work_kind(names[code])] if code >= 0 else -1 for code in distinct.tolist()]
        kinds[work] = np.array(name_kinds, np.int8)[which]
        return kinds

    def _readings(self, columns: EventColumns, values: Floats) -> EventColumns:
        """Return the readings of counters as columns of table `counters`."""
        rows = np.flatnonzero((columns["type"] == COUNTER) & np.isfinite(values))
        lost = np.flatnonzero((columns["type"] == COUNTER) & ~np.isfinite(values))
        if len(lost):
            self._take_back(columns, lost, COUNTER, "without a number")
        if not len(rows):
            return {}
        columns_of_tracks = self._columns_of_tracks(columns, rows)
        uuids, which = distinct_values(columns["track"][rows])
        names = [self.tracks.name(uuid) for uuid in uuids.tolist()]
        described = [self.tracks.counter(uuid) for uuid in uuids.tolist()]
        value, time = values[rows].copy(), columns["time"][rows]
        for (_, factor, differs), (_, chosen) in zip(described, rows_by_number(which), strict=True):
            value[chosen] *= factor or 1
            if differs:  # each value is the difference to the one before
                ordered = chosen[np.argsort(time[chosen], kind="stable")]
                value[ordered] = np.cumsum(value[ordered])
        own = np.array([self.interners["name"].code(name) if name else -1 for name in names], np.int64)[which]
        units = [self.interners["unit"].code(unit) if unit else -1 for unit, _, _ in described]
        device = columns_of_tracks["device"]
        return {
            "place": columns["place"][rows], "name": np.where(own < 0, columns["name"][rows], own), "value": value,
            "unit": np.array(units, np.int64)[which], "start": time, "process": columns_of_tracks["process"],
            "device": np.where(device < 0, MISSING, device),
        }  # fmt: skip


def _kind_of_category(category: str) -> int:
    name = category.lower()
    if name in _KINDS or name.endswith("_api"):
        return KIND_CODE[_KINDS.get(name, "runtime")]
    return role_and_kind("X", category)[1]


def _slices(columns: EventColumns) -> tuple[Ints, Ints, Ints]:
    """Return begins of slices, their durations, and ends without a begin, as indices in the columns.

    An end closes the slice of its track that began last. So a begin and its end are at one depth, and follow each
    other there. A slice that has no end has no duration.
    """
    edges = np.flatnonzero((columns["type"] == BEGIN) | (columns["type"] == END))
    if not len(edges):
        return edges, edges, edges
    track = distinct_values(columns["track"][edges])[1]
    thread_generation = np.where(columns["track"][edges] == 0, columns["generation"][edges], 0)
    track = distinct_values(track << 32 | thread_generation)[1]
    order = np.lexsort((columns["time"][edges], track))  # by position where times are equal
    edges, track = edges[order], track[order]
    is_begin = columns["type"][edges] == BEGIN
    depth, is_lone = _depths(np.where(is_begin, 1, -1), track)
    level = np.where(is_begin, depth, depth + 1)
    kept = np.flatnonzero(~is_lone)
    by_level = kept[np.lexsort((level[kept], track[kept]))]
    same = (np.diff(track[by_level]) == 0) & (np.diff(level[by_level]) == 0)
    is_ended = np.append(same & ~is_begin[by_level[1:]], False) & is_begin[by_level]
    ended, ends = by_level[is_ended], by_level[np.flatnonzero(is_ended) + 1]
    open_ = by_level[is_begin[by_level] & ~is_ended]
    lengths = durations_between(columns["time"][edges[ended]], columns["time"][edges[ends]])
    begins = np.concatenate([edges[ended], edges[open_]])
    return begins, np.append(lengths, np.full(len(open_), MISSING, np.int64)), edges[is_lone]


def _depths(step: Ints, track: Ints) -> tuple[Ints, Mask]:
    """Return the number of open slices after each begin (1) or end (-1) of a track, and which ends end none."""
    first = np.flatnonzero(np.diff(track, prepend=-1))
    total = np.cumsum(step)
    depth = total - np.repeat(total[first] - step[first], np.diff(np.append(first, len(step))))
    apart = track * (len(step) + 1)  # so that the lowest depth of a track does not depend on the tracks before it
    lowest = np.minimum.accumulate(np.minimum(depth, 0) - apart) + apart
    before = np.append(0, lowest[:-1])
    before[first] = 0
    return depth - lowest, (step < 0) & (lowest < before)
