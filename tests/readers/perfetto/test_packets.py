"""Packets of a Perfetto trace: what a file begins with, compressed and damaged packets, strings and defaults."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from support.history_files import field as wire
from support.perfetto_files import compressed, event, interned, packet

from perflog.errors import InputError
from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.string_interning import Interners, StringInterner
from perflog.readers.perfetto.packets import TEXTS, PacketReader, Packets, begins_as_trace, by_generation

TIME, SEQUENCE, FLAGS, CLEARED, DEFAULTS = 8, 10, 13, 41, 59
CLEAR = wire(FLAGS, 1)


def read(*packets: bytes) -> tuple[PacketReader, list[Packets], Interners]:
    reader = PacketReader(memoryview(b"".join(packets)), "trace")
    interners = {table: StringInterner() for table in TEXTS}
    return reader, list(reader.batches(interners)), interners


def times(*packets: bytes) -> list[int]:
    return [time for batch in read(*packets)[1] for time in batch.fields.integers(TIME, -1).tolist()]


def generations(*packets: bytes) -> list[int]:
    return [number for batch in read(*packets)[1] for number in batch.generation.tolist()]


def groups(numbers: list[int]) -> list[int]:
    """The numbers by their first appearance."""
    return [list(dict.fromkeys(numbers)).index(number) for number in numbers]


# --- what a file begins with -----------------------------------------------------------------------------------------

PROVEN = packet(at=5)  # a time and a sequence
PLAIN = wire(1, wire(FLAGS, 1))  # fields that other files may have


@pytest.mark.parametrize(
    ("head", "whole", "expected"),
    [
        (PROVEN, True, True),
        (PLAIN, True, False),
        (PLAIN + PROVEN, True, True),
        (PLAIN * 19 + PROVEN, True, True),
        (wire(1, wire(FLAGS, 1) + wire(11, bytes(300))) + PROVEN, True, True),  # its length takes two bytes
        (PLAIN * 20 + PROVEN, True, False),  # twenty packets are examined
        (b"", True, False),
        (PROVEN + b"\x12\x00", True, False),  # another field
        (wire(1, wire(TIME, "text")), True, False),  # another wire type
        (PROVEN + wire(1, wire(TIME, 1) + wire(1000, 1)), True, True),
        (PROVEN + wire(1, wire(TIME, 1) + wire(1001, 1)), True, False),
        (wire(1, b"") + PROVEN, True, True),
        # a cut packet
        (PROVEN + PROVEN[:-1], True, True),
        (PROVEN + PROVEN[:1], True, True),
        (PROVEN[:-1], True, False),  # all of the file is one cut packet
        (wire(1, wire(TIME, 5) + wire(33, "x" * 50))[:20], False, True),  # it may end after the head
        (wire(1, wire(TIME, 5) + wire(33, "x" * 50))[:20], True, False),
        (wire(1, wire(FLAGS, 5) + wire(34, "x" * 50))[:20], False, False),  # nothing shows that it is a trace
        (PROVEN + b"\x0a\x7f", False, True),
        (PROVEN + wire(1, b"\x40"), True, False),  # a field without its integer, in a whole packet
    ],
)
def test_whether_a_file_begins_with_packets(head: bytes, whole: bool, expected: bool) -> None:
    assert begins_as_trace(head, whole) is expected


# --- order, compression and damage -----------------------------------------------------------------------------------


def test_packets_are_numbered_in_their_order() -> None:
    reader, batches, _ = read(packet(at=5), packet(at=6, sequence=2), packet(at=7))
    assert [(batch.place, batch.sequence.tolist()) for batch in batches] == [(1, [1, 2, 1])]
    assert (reader.count, reader.damage, reader.damaged_parts) == (3, [], 0)


@pytest.mark.parametrize(
    "packets",
    [
        [compressed(packet(at=1), packet(at=2)), packet(at=3)],
        [packet(at=1), compressed(packet(at=2)), packet(at=3)],
        [packet(at=1), compressed(packet(at=2), packet(at=3))],
        [compressed(packet(at=1)), compressed(packet(at=2)), compressed(packet(at=3))],
    ],
)
def test_compressed_packets_are_where_their_packet_is(packets: list[bytes]) -> None:
    assert times(*packets) == [1, 2, 3]
    reader, batches, _ = read(*packets)
    assert reader.count == 3
    assert [batch.place for batch in batches] == np.cumsum([1, *(len(b.sequence) for b in batches)]).tolist()[:-1]


def test_a_packet_is_not_compressed_twice() -> None:
    assert times(compressed(compressed(packet(at=2)), packet(at=3))) == [-1, 3]


def test_a_compressed_packet_that_is_damaged_costs_only_itself() -> None:
    damaged = wire(1, wire(50, b"\x78\x9c none"))
    reader, _, _ = read(packet(at=1), damaged, packet(at=3))
    assert times(packet(at=1), damaged, packet(at=3)) == [1, -1, 3]
    assert len(reader.damage) == 1
    assert reader.damage[0].startswith("a compressed packet cannot be read: ")
    assert (reader.count, reader.damaged_parts) == (3, 0)


def test_where_a_trace_is_cut() -> None:
    whole = packet(at=1)
    reader, _, _ = read(whole, packet(at=2)[:-1])
    assert (reader.count, reader.damaged_parts) == (1, 1)
    assert reader.damage == [f"the trace is cut or damaged from byte {len(whole)} on"]
    inside = wire(1, wire(50, zlib.compress(whole + packet(at=2)[:-1])))
    reader, _, _ = read(inside, packet(at=3))
    assert (reader.count, reader.damaged_parts) == (2, 1)
    assert reader.damage == [f"a compressed packet is cut or damaged from byte {len(whole)} on"]
    assert read(inside, inside)[0].damaged_parts == 2


def test_compressed_packets_together_may_not_unpack_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.parsing.input.limits.MOST_UNPACKED", 1 << 20)
    zeros = compressed(packet(wire(33, bytes(600_000))))
    assert read(zeros)[0].count == 1
    with pytest.raises(InputError, match="trace"):
        read(zeros, zeros)


def test_a_compressed_packet_of_many_bytes_is_whole() -> None:
    packets = [packet(wire(33, bytes(1 << 20)), at=at) for at in range(40)]  # more than is decompressed at a time
    assert times(compressed(*packets)) == list(range(40))


# --- generations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clear", [CLEAR, wire(CLEARED, 1), wire(FLAGS, 3)])
@pytest.mark.parametrize("pack", [False, True])
def test_a_packet_that_clears_its_sequence_begins_a_generation(clear: bytes, pack: bool) -> None:
    packets = [
        packet(), packet(sequence=2), packet(), packet(clear), packet(), packet(sequence=2), packet(clear, sequence=2),
        packet(wire(FLAGS, 2)), packet(wire(CLEARED, 0)),
    ]  # fmt: skip
    given = [compressed(each) for each in packets] if pack else packets  # a batch each
    assert groups(generations(*given)) == [0, 1, 0, 2, 2, 1, 3, 2, 2]


def test_strings_belong_to_a_generation() -> None:
    names = packet(interned(name={7: "matmul", 8: "copy"}, category={7: "kernels"}, string={7: "text"}))
    reader, (batch,), interners = read(
        names, packet(), packet(CLEAR), packet(interned(name={7: "other"})), packet(sequence=2)
    )
    assert reader.codes("name", batch.generation, np.full(5, 7)).tolist() == [0, 0, 2, 2, -1]
    assert interners["name"].texts == ["matmul", "copy", "other"]
    assert reader.codes("category", batch.generation, np.full(5, 7)).tolist() == [0, 0, -1, -1, -1]
    assert reader.codes("name", batch.generation[:2], np.array([8, 9])).tolist() == [1, -1]
    assert reader.codes("string", batch.generation[:1], np.array([7])).tolist() == [0]
    assert reader.codes("argument", batch.generation, np.full(5, 7)).tolist() == [-1] * 5


def test_a_string_that_is_given_again_replaces_the_first() -> None:
    reader, (batch,), interners = read(packet(interned(name={7: "a"})), packet(interned(name={7: "b"})))
    code = int(reader.codes("name", batch.generation[:1], np.array([7]))[0])
    assert interners["name"].texts[code] == "b"


def test_an_event_names_itself_or_the_number_of_its_name() -> None:
    numbered = packet(wire(11, wire(9, 1) + wire(10, 7)))
    unknown = packet(wire(11, wire(9, 1) + wire(10, 99)))
    nameless = packet(wire(11, wire(9, 1)))
    reader, (batch,), interners = read(
        packet(interned(name={7: "matmul"})),
        packet(event(1, "copy")),
        numbered,
        unknown,
        nameless,
        packet(event(1, "copy")),
    )
    owner, events = batch.fields.messages(11)
    codes = reader.texts_of(events, 10, 23, batch.generation[owner], "name", interners["name"])
    assert [None if code < 0 else interners["name"].texts[code] for code in codes] == [
        "copy", "matmul", None, None, "copy"
    ]  # fmt: skip


def test_defaults_are_of_a_generation() -> None:
    defaults = packet(wire(DEFAULTS, wire(58, 3) + wire(11, wire(11, 44))))
    reader, (batch,), _ = read(defaults, packet(), packet(CLEAR), packet(sequence=2), packet(wire(DEFAULTS, b"")))
    assert by_generation(reader.default_clock, batch.generation, MISSING).tolist() == [3, 3, *[MISSING] * 3]
    assert by_generation(reader.default_track, batch.generation, 0).tolist() == [44, 44, 0, 0, 0]
