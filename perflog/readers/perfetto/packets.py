"""Packets of a Perfetto trace: where they lie, and the state that packets of one sequence share.

A sequence is what one writer wrote. Its packets name strings by number, which an earlier packet gave, and leave out
what a packet of defaults says; a packet may clear all of that. So each stretch between clears has a number here, its
generation, and strings belong to a generation. Source: protos/perfetto/trace/trace_packet.proto.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Codes, Ints
from perflog.parsing.input.limits import check_unpacked
from perflog.readers.events.event_columns import MISSING, distinct_values, rows_by_number
from perflog.readers.events.string_interning import StringInterner
from perflog.readers.messages.message_columns import FieldColumns, message_batches, outline
from perflog.readers.messages.protobuf import BYTES, VARINT, WireError, fields

_PACKET = 1  # field of a trace
_COMPRESSED, _SEQUENCE, _FLAGS, _CLEARED, _INTERNED, _DEFAULTS = 50, 10, 13, 41, 12, 59
_CLEARS, _TRACK_DEFAULTS, _TRACK, _CLOCK = 1, 11, 11, 58
_NUMBER_BITS = 40  # of the number of a string; above it is the generation
_LARGEST_NUMBER = (1 << _NUMBER_BITS) - 1

_WIRES = {
    1: BYTES, 2: BYTES, 3: VARINT, 4: BYTES, 6: BYTES, 7: BYTES, 8: VARINT, 9: BYTES, 10: VARINT, 11: BYTES, 12: BYTES,
    13: VARINT, 33: BYTES, 34: BYTES, 35: BYTES, 36: BYTES, 41: VARINT, 42: VARINT, 43: BYTES, 44: BYTES, 45: BYTES,
    50: BYTES, 58: VARINT, 59: BYTES, 60: BYTES, 79: VARINT, 87: VARINT, 89: BYTES, 98: VARINT,
}  # fmt: skip
"""Wire types of the fields of a packet that most traces have."""
_PROOF = {6, 8, 10, 33, 36, 50, 60, 89}  # at least one of these is in a packet at the start of a trace
_MOST_FIELDS = 1000
_FIRST = 20  # packets that are examined

TEXTS = {"category": 1, "name": 2, "argument": 3, "string": 29}
"""Tables of strings that packets refer to, by the number of their field."""


def begins_as_trace(head: bytes, whole: bool) -> bool:
    """Return whether a file begins with packets. `whole`: the head is all of it.

    A last packet may be cut; without a whole one before it, only by the end of the head.
    """
    place = seen = 0
    known = False
    while place < len(head) and seen < _FIRST:
        if head[place] != _PACKET << 3 | BYTES:
            return False
        length, at = _length(head, place)
        if length < 0:
            return known and at >= len(head)
        is_cut = at + length > len(head)
        proven = False
        try:
            for number, wire, _ in fields(head[at : at + length]):
                if number > _MOST_FIELDS or wire != _WIRES.get(number, wire):
                    return False
                proven = proven or number in _PROOF
        except WireError:
            return is_cut and (known or (proven and not whole))
        known = known or (proven and not (is_cut and whole))
        seen, place = seen + 1, at + length
    return known


def _length(head: bytes, place: int) -> tuple[int, int]:
    """Return the length of the field at an offset, and where its content begins; -1 where there is no length."""
    length = 0
    for at in range(place + 1, min(place + 6, len(head))):
        length |= (head[at] & 0x7F) << 7 * (at - place - 1)
        if head[at] < 0x80:
            return length, at + 1
    return -1, place + 6


class Packets(Struct, frozen=True):
    """Packets in their order. `place`: position of the first, from 1. `generation`: of each packet, see above."""

    place: int
    fields: FieldColumns
    sequence: Ints
    generation: Ints


class PacketReader(Struct):
    """Gives the packets of one file.

    `name`: of the file. `texts`: of each table the code of a string by generation and number. `default_track` and
    `default_clock`: by generation. `count`: number of packets that were read. `damage`: where the file or a compressed
    packet is damaged; `damaged_parts`: how often this ends the packets there.
    """

    data: memoryview
    name: str
    count: int = 0
    damage: list[str] = field(default_factory=list)
    damaged_parts: int = 0
    texts: dict[str, dict[int, int]] = field(default_factory=lambda: {table: {} for table in TEXTS})
    default_track: dict[int, int] = field(default_factory=dict)
    default_clock: dict[int, int] = field(default_factory=dict)
    _generations: dict[int, int] = field(default_factory=dict)
    _last_generation: int = 0
    _inflated_bytes: int = 0

    def batches(self, code_of: dict[str, StringInterner]) -> Iterator[Packets]:
        """Give the packets, some thousands at a time. Strings that they name go to the interners of their tables."""
        for fields_of_packets in self._unpacked(self.data):
            sequence = fields_of_packets.integers(_SEQUENCE, 0)
            packets = Packets(self.count + 1, fields_of_packets, sequence, self._number(sequence, fields_of_packets))
            self.count += len(sequence)
            self._learn(packets, code_of)
            yield packets

    def _unpacked(self, data: memoryview, *, inside: bool = False) -> Iterator[FieldColumns]:
        """Give the fields of packets, and of compressed packets where these are. `inside`: of a compressed packet."""
        found = outline(data, 0, len(data))
        starts, ends = found.of(_PACKET)
        for _, packets in message_batches(data, starts, ends):
            owner, start, end = packets.contents(_COMPRESSED)
            if not len(owner) or inside:  # none is compressed twice
                yield packets
                continue
            before = 0
            for packet, first, last in zip(owner.tolist(), start.tolist(), end.tolist(), strict=True):
                if packet > before:
                    yield _part(packets, before, packet)
                before = packet + 1
                try:
                    inflated = self._inflated(packets.bytes_at(first, last))
                    yield from self._unpacked(memoryview(inflated), inside=True)
                except zlib.error as error:
                    self.damage.append(f"a compressed packet cannot be read: {error}")
                    yield _part(packets, packet, packet + 1)
            if before < len(packets.damaged):
                yield _part(packets, before, len(packets.damaged))
        if found.damage >= 0:
            where = "a compressed packet" if inside else "the trace"
            self.damage.append(f"{where} is cut or damaged from byte {found.damage} on")
            self.damaged_parts += 1

    def _inflated(self, data: bytes) -> bytes:
        """Return the bytes of a compressed packet.

        Raises:
            InputError: The file unpacks to more than the limit.
            zlib.error: The packet is damaged.
        """
        engine = zlib.decompressobj()
        parts = []
        while data:
            parts.append(engine.decompress(data, 1 << 24))
            self._inflated_bytes += len(parts[-1])
            check_unpacked(self._inflated_bytes, len(self.data), self.name)
            if engine.eof or not parts[-1]:
                break
            data = engine.unconsumed_tail
        return b"".join(parts)

    def _number(self, sequence: Ints, fields_of_packets: FieldColumns) -> Ints:
        """Return the generation of each packet."""
        clears = (fields_of_packets.integers(_FLAGS, 0) & _CLEARS > 0) | (fields_of_packets.integers(_CLEARED, 0) > 0)
        generation = np.zeros(len(sequence), np.int64)
        for number, chosen in rows_by_number(sequence):
            new = clears[chosen].copy()
            if number not in self._generations:
                new[0] = True
            numbers = np.cumsum(new) + self._last_generation
            generation[chosen] = np.where(np.cumsum(new) > 0, numbers, self._generations.get(number, 0))
            self._last_generation = int(numbers[-1])
            self._generations[number] = int(generation[chosen[-1]])
        return generation

    def _learn(self, packets: Packets, code_of: dict[str, StringInterner]) -> None:
        """Remember the strings and the defaults that packets give."""
        owner, interned = packets.fields.messages(_INTERNED)
        for table, number in TEXTS.items():
            entry_owner, entries = interned.messages(number)
            generation = packets.generation[owner[entry_owner]].tolist()
            spans = (entries.integers(1, 0).tolist(), *(column.tolist() for column in entries.last_contents(2)))
            known = self.texts[table]
            for entry_generation, text_number, start, end in zip(generation, *spans, strict=True):
                known[entry_generation << _NUMBER_BITS | text_number & _LARGEST_NUMBER] = code_of[table].code(
                    entries.text_at(start, end)
                )
        owner, defaults = packets.fields.messages(_DEFAULTS)
        generation = packets.generation[owner]
        for number, clock in zip(generation.tolist(), defaults.integers(_CLOCK, MISSING).tolist(), strict=True):
            if clock != MISSING:
                self.default_clock[number] = clock
        track_owner, tracks = defaults.messages(_TRACK_DEFAULTS)
        for number, track in zip(generation[track_owner].tolist(), tracks.integers(_TRACK, 0).tolist(), strict=True):
            self.default_track[number] = track

    def codes(self, table: str, generation: Ints, numbers: Ints) -> Ints:
        """Return the codes of strings by generation and number; -1 for a number that no packet gave."""
        known = self.texts[table]
        distinct, index = distinct_values(generation << _NUMBER_BITS | numbers & _LARGEST_NUMBER)
        return np.array([known.get(key, -1) for key in distinct.tolist()], np.int64)[index]

    def texts_of(
        self, messages: FieldColumns, number: int, text: int, generation: Ints, table: str, interner: StringInterner
    ) -> Codes:
        """Return the codes of strings that messages name by number, or hold; -1 where there is none.

        Args:
            messages: the fields of messages.
            number: the field that holds the number of a string.
            text: the field that holds a string itself.
            generation: the generation of each message.
            table: the table of the numbers.
            interner: the interner of this table.
        """
        numbers = messages.integers(number, MISSING)
        codes = np.full(len(numbers), -1, np.int32)
        known = np.flatnonzero(numbers != MISSING)
        if len(known):
            codes[known] = self.codes(table, generation[known], numbers[known])
        owner, start, end = messages.contents(text)
        if len(owner):
            blob, cache = messages.data.tobytes(), dict[bytes, int]()
            spans = zip(start.tolist(), end.tolist(), strict=True)
            codes[owner] = [
                cache[word] if (word := blob[first:last]) in cache
                else cache.setdefault(word, interner.code(word.decode("utf-8", "replace")))
                for first, last in spans
            ]  # fmt: skip
        return codes


def by_generation(values: dict[int, int], generation: Ints, missing: int) -> Ints:
    """Return the value of each generation, or `missing`."""
    distinct, index = distinct_values(generation)
    return np.array([values.get(number, missing) for number in distinct.tolist()], np.int64)[index]


def _part(packets: FieldColumns, first: int, last: int) -> FieldColumns:
    """Return the fields of some packets."""
    low, high = np.searchsorted(packets.owner, (first, last))
    number, wire, value, size = (c[low:high] for c in (packets.number, packets.wire, packets.value, packets.size))
    owner = packets.owner[low:high] - first
    return FieldColumns(packets.data, owner, number, wire, value, size, packets.damaged[first:last])
