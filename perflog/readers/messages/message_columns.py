"""Fields of many protocol buffer messages at once, as numpy columns.

A trace is some large messages, in which millions of small ones follow one another. `outline` finds the fields
of a large message one by one. `fields_of` then reads all small ones together: it takes the first field of each
message, then the second of each that has one, and so on. What few messages have beyond `_FEW` fields is found one by
one again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Bytes, Ints, Mask
from perflog.readers.messages.protobuf import BYTES, FIXED32, FIXED64, VARINT, WireError, varint

_PADDING = 16  # bytes after the last message, which words of eight bytes reach
_CHUNK = 1 << 20  # bytes with fields that are found in one copy
_BATCH = 1 << 16  # messages with fields that are read together
_LARGEST_BATCH = 1 << 24  # bytes of them
_TAGS = range(8, 1 << 32)  # numbers from 1 up to 29 bits, each with a wire type
_FEW = 256  # fields of a message, and messages with more of them
_WIDTH = {FIXED64: 8, FIXED32: 4}
_U = np.uint64
_NONE = np.zeros(0, np.int64)
_SEVENS, _HIGH = _U(0x7F7F7F7F7F7F7F7F), _U(0x8080808080808080)


class Outline(Struct, frozen=True):
    """The fields of a message: number and wire type of each, where its content begins and ends, and `damage`.

    The content of an integer is its varint. `damage` is the offset from which on the message cannot be read, or -1.
    """

    numbers: Ints
    wires: Ints
    starts: Ints
    ends: Ints
    damage: int = -1

    def of(self, number: int, wire: int = BYTES) -> tuple[Ints, Ints]:
        """Return where the contents of a field begin and end, in their order."""
        chosen = (self.numbers == number) & (self.wires == wire)
        return self.starts[chosen], self.ends[chosen]


def outline(data: memoryview, start: int, end: int) -> Outline:
    """Return the fields of the message that `data` holds from `start` to `end`."""
    columns: list[tuple[Ints, ...]] = []
    place, damage = start, -1
    while place < end and damage < 0:
        chunk = bytes(data[place : min(place + _CHUNK, end)])
        tags, starts, ends, used = _outline_of_chunk(chunk, end - place)
        columns.append((np.array(tags, np.int64), *(np.array(places, np.int64) + place for places in (starts, ends))))
        if not used:  # the message is damaged; else a tag or length may be cut at the end of the chunk
            damage = place
        place += used
    tag, begin, stop = (np.concatenate(parts) for parts in zip(*columns, strict=True)) if columns else [_NONE] * 3
    return Outline(tag >> 3, tag & 7, begin, stop, damage)


def _outline_of_chunk(chunk: bytes, last: int) -> tuple[list[int], list[int], list[int], int]:
    """Return tags, starts and ends of the fields that begin in a chunk, and where the next one begins.

    `last`: where the message ends, which may be after the chunk.
    """
    tags: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    place = begin = 0
    size = len(chunk)
    try:
        while place < size:
            begin = place
            tag = chunk[place]
            place += 1
            if tag >= 0x80:
                tag, place = varint(chunk, begin)
            wire = tag & 7
            if wire == BYTES:
                length = chunk[place]
                place += 1
                if length >= 0x80:
                    length, place = varint(chunk, place - 1)
            elif wire == VARINT:
                length = varint(chunk, place)[1] - place
            else:
                length = _WIDTH[wire]
            end = place + length
            if end > last or tag not in _TAGS:
                return tags, starts, ends, begin
            tags.append(tag)
            starts.append(place)
            ends.append(end)
            place = end
    except (IndexError, KeyError, WireError):
        return tags, starts, ends, begin
    return tags, starts, ends, place


class FieldColumns(Struct, frozen=True):
    """The fields of messages, message by message, in their order.

    `owner`: index of the message. `value`: an integer, the bits of a fixed number, or where the content begins in
    `data`. `size`: bytes of the content, 0 for a number. `damaged`: for each message whether it cannot be read; its
    fields up to there are among the others.
    """

    data: Bytes
    owner: Ints
    number: Ints
    wire: Ints
    value: Ints
    size: Ints
    damaged: Mask

    def integers(self, number: int, missing: int) -> Ints:
        """Return the last integer of a field for each message, or `missing`."""
        chosen = (self.number == number) & (self.wire == VARINT)
        return self._spread(chosen, missing)

    def fixed64(self, number: int, missing: int) -> Ints:
        """Return the bits of the last 64-bit number of a field for each message, or `missing`."""
        return self._spread((self.number == number) & (self.wire == FIXED64), missing)

    def counts(self, number: int) -> Ints:
        """Return how often each message has a field."""
        return np.bincount(self.owner[self.number == number], minlength=len(self.damaged))

    def contents(self, number: int) -> tuple[Ints, Ints, Ints]:
        """Return owners, starts and ends of the contents of a field that holds strings or messages."""
        chosen = (self.number == number) & (self.wire == BYTES)
        start = self.value[chosen]
        return self.owner[chosen], start, start + self.size[chosen]

    def messages(self, number: int) -> tuple[Ints, FieldColumns]:
        """Return the owners of the messages that a field holds, and the fields of these."""
        owner, start, end = self.contents(number)
        return owner, fields_of(self.data, start, end)

    def last_contents(self, number: int) -> tuple[Ints, Ints]:
        """Return start and end of the last content of a field for each message; two zeros where there is none."""
        starts, ends = np.zeros((2, len(self.damaged)), np.int64)
        owner, start, end = self.contents(number)
        starts[owner], ends[owner] = start, end
        return starts, ends

    def bytes_at(self, start: int, end: int) -> bytes:
        """Return a content."""
        return self.data[start:end].tobytes()

    def text_at(self, start: int, end: int) -> str:
        """Return a content as a string."""
        return self.bytes_at(start, end).decode("utf-8", "replace")

    def _spread(self, chosen: Mask, missing: int) -> Ints:
        column = np.full(len(self.damaged), missing, np.int64)
        column[self.owner[chosen]] = self.value[chosen]
        return column


def message_batches(data: memoryview, starts: Ints, ends: Ints) -> Iterator[tuple[int, FieldColumns]]:
    """Give the fields of messages in the order of the data, some thousands at a time, with the index of the first."""
    first = 0
    while first < len(starts):
        begin = int(starts[first])
        fit = int(np.searchsorted(ends[first : first + _BATCH], begin + _LARGEST_BATCH, "right"))
        last = first + max(fit, 1)
        block = padded(data, begin, int(ends[last - 1]))
        yield first, fields_of(block, starts[first:last] - begin, ends[first:last] - begin)
        first = last


def padded(data: memoryview | bytes, start: int, end: int) -> Bytes:
    """Return a part of the data as a column of bytes that `fields_of` reads."""
    block = np.zeros(end - start + _PADDING, np.uint8)
    block[: end - start] = np.frombuffer(data[start:end], np.uint8)
    return block


def fields_of(data: Bytes, starts: Ints, ends: Ints) -> FieldColumns:
    """Return the fields of messages that lie in `data`, which comes from `padded`."""
    words: npt.NDArray[np.uint64] = np.ndarray((len(data) - 7,), "<u8", data.data, 0, (1,))
    damaged = np.zeros(len(starts), np.bool_)
    index = np.flatnonzero(starts < ends)
    place, end = starts[index], ends[index]
    columns: list[tuple[Ints, ...]] = []
    while len(index):
        if len(columns) >= _FEW > len(index):
            spans = zip(index.tolist(), place.tolist(), end.tolist(), strict=True)
            columns += _one_by_one(data, words, spans, damaged)
            break
        tag, content, known = _varints(words, place)
        wire = tag & 7
        number, after, known_too = _varints(words, np.minimum(content, end))
        size = np.where(wire == BYTES, number, 0)
        is_fixed = (wire == FIXED64) | (wire == FIXED32)
        if is_fixed.any():
            bits = words[np.minimum(content, end)].view(np.int64)
            wide = wire == FIXED64
            number = np.where(is_fixed, np.where(wide, bits, bits & 0xFFFFFFFF), number)
            after = np.where(is_fixed, content + np.where(wide, 8, 4), after)
            known_too |= is_fixed
        number = np.where(wire == BYTES, after, number)
        following = after + size
        good = known & known_too & ((wire <= BYTES) | is_fixed) & (content < end)
        good &= (tag >= _TAGS.start) & (tag < _TAGS.stop) & (size >= 0) & (size <= end) & (following <= end)
        if not good.all():
            damaged[index[~good]] = True
            index, tag, wire, number, size, following, end = (
                column[good] for column in (index, tag, wire, number, size, following, end)
            )
        columns.append((index, tag >> 3, wire, number, size))
        more = following < end
        index, place, end = (index, following, end) if more.all() else (index[more], following[more], end[more])
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)] or [_NONE] * 5
    order = np.argsort(joined[0], kind="stable")
    owner, numbers, wires, values, sizes = (column[order] for column in joined)
    return FieldColumns(data, owner, numbers, wires, values, sizes, damaged)


def _one_by_one(
    data: Bytes, words: npt.NDArray[np.uint64], rest: Iterable[tuple[int, int, int]], damaged: Mask
) -> Iterator[tuple[Ints, ...]]:
    """Give the columns of the fields in the rest of each message, and note in `damaged` whether it cannot be read.

    `rest`: index of the message, and where its rest begins and ends.
    """
    for message, begin, end in rest:
        found = outline(data.data, begin, end)
        damaged[message] = found.damage >= 0
        integers, *_ = _varints(words, found.starts)
        bits = words[found.starts].view(np.int64)
        forms = [found.wires == wire for wire in (VARINT, BYTES, FIXED64)]
        value = np.select(forms, [integers, found.starts, bits], bits & 0xFFFFFFFF)
        size = np.where(found.wires == BYTES, found.ends - found.starts, 0)
        yield np.full(len(value), message, np.int64), found.numbers, found.wires, value, size


def _varints(words: npt.NDArray[np.uint64], place: Ints) -> tuple[Ints, Ints, Mask]:
    """Return the integers at these offsets, the offsets after them, and whether each one ends.

    The last byte of an integer is the first without its highest bit set. The seven other bits of all bytes up to
    there are pushed together, by pairs of bytes, of two and of four.
    """
    word = words[place]
    stop = ~word & _HIGH
    below = (stop & (~stop + _U(1))) - _U(1)  # all bits below the first such bit; all bits if there is none
    length = (np.bitwise_count(below) >> 3).astype(np.int64) + 1
    x = word & below & _SEVENS
    x = (x & _U(0x007F007F007F007F)) | ((x & _U(0x7F007F007F007F00)) >> _U(1))
    x = (x & _U(0x00003FFF00003FFF)) | ((x & _U(0x3FFF00003FFF0000)) >> _U(2))
    x = (x & _U(0x000000000FFFFFFF)) | ((x & _U(0x0FFFFFFF00000000)) >> _U(4))
    known = np.ones(len(place), np.bool_)
    if not stop.all():
        longer = np.flatnonzero(stop == 0)
        second = words[place[longer] + 8]
        ninth, tenth = second & _U(0xFF), (second >> _U(8)) & _U(0xFF)
        ends_there = ninth < 0x80
        x[longer] |= (ninth & _U(0x7F)) << _U(56) | np.where(ends_there, _U(0), (tenth & _U(1)) << _U(63))
        length[longer] = np.where(ends_there, 9, 10)
        known[longer] = ends_there | (tenth < 0x80)
    return x.view(np.int64), place + length, known
