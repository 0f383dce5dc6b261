"""The structure of an XSpace file: planes, their lines, and the tables that events refer to.

A plane is a device or the host, a line is a stream or a thread. Events name what they share with others by number: a
row of a table of their plane. Source: tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Ints
from perflog.readers.messages.message_columns import FieldColumns, fields_of, outline, padded
from perflog.readers.messages.protobuf import BYTES, VARINT, signed, varint
from perflog.readers.xplane.arguments import Stats, stats_of

_PLANES, _ERRORS, _WARNINGS, _HOSTS = range(1, 5)  # fields of a space
_PLANE_NAME, _LINES, _EVENT_TABLE, _STAT_TABLE, _PLANE_STATS = range(2, 7)
_KEY, _ENTRY = 1, 2  # fields of a row of a table
_NAME, _DISPLAY_NAME, _STATS = 2, 4, 5  # of what events share
_LINE_ID, _LINE_NAME, _LINE_START, _EVENTS = range(1, 5)


class EventNames(Struct, frozen=True):
    """What events of a plane share, by row: `name`, and statistics. The last row is for unknown numbers.

    `_numbers`: the numbers that events name, in order. `_rows`: the row of each.
    """

    name: list[str]
    stats: Stats
    _numbers: Ints
    _rows: Ints

    def rows(self, numbers: Ints) -> Ints:
        """Return the rows of numbers; the last row, which has no name, where there is none."""
        unknown = len(self.name) - 1
        if not len(self._numbers):
            return np.full(len(numbers), unknown, np.int64)
        place = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        return np.where(self._numbers[place] == numbers, self._rows[place], unknown)


class Line(Struct, frozen=True):
    """A line: its number and name, the zero of its times in ns, where its events lie, and where it is damaged."""

    number: int
    name: str
    start_ns: int
    starts: Ints
    ends: Ints
    damage: int
    data: memoryview


class Plane(Struct):
    """A plane. `stats`: its own statistics by name, numbers or strings. `damage`: offset where it is damaged, or -1."""

    name: str
    _data: memoryview
    line_places: tuple[Ints, Ints]
    stat_names: Mapping[int, str]
    events: EventNames
    stats: dict[str, object] = field(default_factory=dict)
    damage: int = -1

    def lines(self) -> Iterator[Line]:
        """Give the lines. Of a large one the offsets of its events are in memory."""
        for start, end in zip(*(column.tolist() for column in self.line_places), strict=True):
            yield _line(self._data, start, end)


class Space(Struct):
    """An XSpace: offsets of its planes, hosts, what the profiler wrote of errors. `damage`: offset of damage, or -1."""

    _data: memoryview
    _planes: tuple[Ints, Ints]
    hosts: list[str]
    messages: list[str]
    damage: int

    def planes(self) -> Iterator[Plane]:
        """Give the planes."""
        for start, end in zip(*(column.tolist() for column in self._planes), strict=True):
            yield _plane(self._data, start, end)


def begins_as_space(head: bytes) -> bool:
    """Return whether a file begins as a space does: with a plane that begins with its number and name."""
    if head[:1] != b"\x0a":
        return False
    try:
        place = _after_varint(head, 1)
        if head[place] == _PLANES << 3 | VARINT:  # the number of the plane
            place = _after_varint(head, place + 1)
        if head[place] != _PLANE_NAME << 3 | BYTES:
            return False
        length = head[place + 1]
        name = head[place + 2 : place + 2 + length]
    except IndexError:
        return False
    return 0 < length < 0x80 and len(name) == length and name.decode("utf-8", "replace").isprintable()


def _after_varint(head: bytes, place: int) -> int:
    while head[place] >= 0x80:
        place += 1
    return place + 1


def read_space(data: memoryview) -> Space:
    """Return the structure of a file."""
    found = outline(data, 0, len(data))

    def texts(number: int) -> list[str]:
        spans = zip(*(column.tolist() for column in found.of(number)), strict=True)
        return [bytes(data[start:end]).decode("utf-8", "replace") for start, end in spans]

    return Space(data, found.of(_PLANES), texts(_HOSTS), [*texts(_ERRORS), *texts(_WARNINGS)], found.damage)


def _plane(data: memoryview, start: int, end: int) -> Plane:
    found = outline(data, start, end)
    names = _stat_names(data, *found.of(_STAT_TABLE))
    events = _event_names(data, *found.of(_EVENT_TABLE), names)
    titles = [bytes(data[a:b]) for a, b in zip(*(c.tolist() for c in found.of(_PLANE_NAME)), strict=True)]
    plane = Plane(
        titles[-1].decode("utf-8", "replace") if titles else "", data, found.of(_LINES), names, events,
        damage=found.damage,
    )  # fmt: skip
    starts, ends = found.of(_PLANE_STATS)
    if len(starts):
        first = int(starts.min())
        block = padded(data, first, int(ends.max()))
        stats = stats_of(np.arange(len(starts)), fields_of(block, starts - first, ends - first), names)
        plane.stats = {name: stats.value_at(int(places[-1])) for name, places in stats.by_name.items()}
    return plane


def _table(data: memoryview, starts: Ints, ends: Ints) -> tuple[list[int], FieldColumns]:
    """Return the keys of the rows of a table, and the fields of what they mean."""
    first = int(starts.min()) if len(starts) else 0
    block = padded(data, first, int(ends.max()) if len(ends) else 0)
    entries = fields_of(block, starts - first, ends - first)
    return entries.integers(_KEY, 0).tolist(), fields_of(block, *entries.last_contents(_ENTRY))


def _stat_names(data: memoryview, starts: Ints, ends: Ints) -> dict[int, str]:
    keys, names = _table(data, starts, ends)
    spans = zip(keys, *(column.tolist() for column in names.last_contents(_NAME)), strict=True)
    return {key: names.text_at(start, end) for key, start, end in spans}


def _event_names(data: memoryview, starts: Ints, ends: Ints, stat_names: Mapping[int, str]) -> EventNames:
    """Return what events share. The last row is for a number that the plane does not explain."""
    keys, shared = _table(data, starts, ends)
    names = []
    spans = (*shared.last_contents(_NAME), *shared.last_contents(_DISPLAY_NAME))
    for name_start, name_end, shown_start, shown_end in zip(*(column.tolist() for column in spans), strict=True):
        names.append(shared.text_at(shown_start, shown_end) or shared.text_at(name_start, name_end))
    rows = {number: row for row, number in enumerate(keys)}  # of two rows of one number the last one counts
    numbers = sorted(rows)
    rows_of_numbers = np.array([rows[number] for number in numbers], np.int64)
    stats = stats_of(*shared.messages(_STATS), stat_names)
    return EventNames([*names, ""], stats, np.array(numbers, np.int64), rows_of_numbers)


def _line(data: memoryview, start: int, end: int) -> Line:
    found = outline(data, start, end)
    name, number, begin = (0, 0), 0, 0
    for place in np.flatnonzero(found.numbers != _EVENTS).tolist():
        span = int(found.starts[place]), int(found.ends[place])
        if found.numbers[place] == _LINE_NAME and found.wires[place] == BYTES:
            name = span
        elif found.numbers[place] == _LINE_ID and found.wires[place] == VARINT:
            number = signed(varint(data, span[0])[0])
        elif found.numbers[place] == _LINE_START and found.wires[place] == VARINT:
            begin = signed(varint(data, span[0])[0])
    text = bytes(data[name[0] : name[1]]).decode("utf-8", "replace")
    return Line(number, text, begin, *found.of(_EVENTS), found.damage, data)
