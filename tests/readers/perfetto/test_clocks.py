"""Clocks of a Perfetto trace: each time on the primary clock, with the last snapshot before it."""

from __future__ import annotations

import pytest
from support.history_files import field as wire
from support.perfetto_files import packet, snapshot

from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.string_interning import StringInterner
from perflog.readers.perfetto.clocks import BOOTTIME, REALTIME, Clocks
from perflog.readers.perfetto.packets import TEXTS, PacketReader, by_generation

MONOTONIC = 3
OWN = 64


def times(*packets: bytes, clocks: Clocks | None = None) -> list[int | None]:
    """The times of packets, None where it is not known; of snapshots too, which have none."""
    clocks = Clocks() if clocks is None else clocks
    reader = PacketReader(memoryview(b"".join(packets)), "trace")
    found: list[int | None] = []
    for batch in reader.batches({table: StringInterner() for table in TEXTS}):
        default = by_generation(reader.default_clock, batch.generation, MISSING)
        found += [None if time == MISSING else time for time in clocks.times(batch, default).tolist()]
    return found


def at(time: int, clock: int | None = None, sequence: int = 1) -> bytes:
    return packet(at=time, clock=clock, sequence=sequence)


@pytest.mark.parametrize(
    ("packets", "expected"),
    [
        ([at(700), packet(), at(0)], [700, None, 0]),
        ([at(700, BOOTTIME), at(800, REALTIME)], [700, None]),  # no snapshot explains the second clock
        ([packet(snapshot({6: 1000, 1: 5000})), at(5100, 1), at(4900, 1), at(1100)], [None, 1100, 900, 1100]),
        # between snapshots clocks run alike; a time is converted with the last reading before it
        ([packet(snapshot({6: 1000, 1: 5000})), at(7000, 1), packet(snapshot({6: 2000, 1: 6500})),
          at(7000, 1), at(6500, 1), at(6499, 1), at(4000, 1)], [None, 3000, None, 2500, 2000, 2499, 0]),
        # a snapshot in the wrong order
        ([packet(snapshot({6: 2000, 1: 6500})), packet(snapshot({6: 1000, 1: 5000})), at(6499, 1), at(6600, 1)],
         [None, None, 2499, 2100]),
        # a snapshot without the primary clock: another one relates it
        ([packet(snapshot({6: 1000, 3: 500})), packet(snapshot({3: 700, 1: 99_000})), at(99_100, 1)],
         [None, None, 1300]),
        ([packet(snapshot({3: 700, 1: 99_000})), at(99_100, 1)], [None, None]),
        # the first snapshot names the primary clock
        ([packet(snapshot({3: 500, 6: 1000}, primary=3)), at(510), at(1010, 6)], [None, 510, 510]),
        ([packet(snapshot({3: 500, 6: 1000}, primary=3)), packet(snapshot({3: 600, 6: 1200}, primary=6)),
          at(1210, 6), at(610)], [None, None, 610, 610]),
        # times that no clock has
        ([packet(snapshot({6: 0, 1: 0})), at(1 << 62, 1), at((1 << 62) - 1, 1), at(-1 & (1 << 64) - 1, 1)],
         [None, None, (1 << 62) - 1, None]),
    ],
)  # fmt: skip
def test_times_on_the_primary_clock(packets: list[bytes], expected: list[int | None]) -> None:
    assert times(*packets) == expected


def test_an_incremental_clock_adds_up_in_its_sequence() -> None:
    first = packet(snapshot({6: 9000}, own=(OWN, 100, 10)))
    assert times(first, at(5, OWN), at(3, OWN), at(9300), at(2, OWN)) == [None, 9050, 9080, 9300, 9100]
    assert times(first, at(5, OWN, sequence=2), at(5, OWN)) == [None, None, 9050]
    again = packet(snapshot({6: 9500}, own=(OWN, 150, 10)))
    assert times(first, at(5, OWN), again, at(1, OWN)) == [None, 9050, None, 9510]
    clocks = Clocks()
    times(first, at(5, OWN), clocks=clocks)
    assert times(at(3, OWN), clocks=clocks) == [9080]  # the next batch goes on


@pytest.mark.parametrize(("number", "is_own"), [(63, False), (64, True), (127, True), (128, False)])
def test_numbers_64_to_127_are_clocks_of_a_sequence(number: int, is_own: bool) -> None:
    explained = packet(snapshot({6: 9000, number: 100}), sequence=1)
    assert times(explained, at(110, number, sequence=2)) == [None, None if is_own else 9010]
    assert times(explained, at(110, number, sequence=1)) == [None, 9010]


@pytest.mark.parametrize(("unit", "expected"), [(1, 9010), (1000, 19_000), (0, 9010), (-1 & (1 << 64) - 1, 9010)])
def test_the_unit_of_a_clock_is_a_number_of_nanoseconds(unit: int, expected: int) -> None:
    own = wire(1, wire(1, OWN) + wire(2, 100) + wire(4, unit))
    base = wire(6, wire(1, wire(1, 6) + wire(2, 9000)) + own + wire(2, 6))
    assert times(packet(base), at(110, OWN)) == [None, expected]


def test_a_time_that_is_too_large_in_nanoseconds_is_not_known() -> None:
    own = wire(1, wire(1, OWN) + wire(2, 0) + wire(4, 1000))
    base = wire(6, wire(1, wire(1, 6) + wire(2, 0)) + own + wire(2, 6))
    limit = (1 << 62) // 1000
    assert times(packet(base), at(limit, OWN), at(limit - 1, OWN)) == [None, None, (limit - 1) * 1000]


def test_packets_that_name_no_clock_have_the_default_of_their_sequence() -> None:
    default = packet(wire(59, wire(58, REALTIME)), snapshot({6: 1000, 1: 5000}))
    assert times(default, at(5100), at(1100, BOOTTIME), at(5100, sequence=2)) == [None, 1100, 1100, 5100]


@pytest.mark.parametrize(
    ("snapshots", "expected"),
    [
        ([], None),
        ([{6: 1000, 3: 7}], None),
        ([{6: 1000, 1: 5000}, {6: 2000, 1: 9000}], 4000),  # of the first one
        ([{6: 1000, 3: 500}, {3: 700, 1: 99_000}], 97_800),
    ],
)
def test_the_zero_of_the_primary_clock_since_1970(snapshots: list[dict[int, int]], expected: int | None) -> None:
    clocks = Clocks()
    times(*(packet(snapshot(readings)) for readings in snapshots), clocks=clocks)
    assert clocks.since_1970 == expected


def test_a_primary_clock_since_1970_needs_no_snapshot_of_it() -> None:
    clocks = Clocks()
    times(packet(snapshot({1: 5000}, primary=REALTIME)), clocks=clocks)
    assert clocks.since_1970 == 0


def test_clocks_that_no_snapshot_explains_are_counted() -> None:
    clocks = Clocks()
    times(at(1, MONOTONIC), at(2, MONOTONIC), packet(), at(3, OWN), at(4, BOOTTIME), clocks=clocks)
    times(at(5, MONOTONIC), clocks=clocks)
    assert clocks.unknown == {MONOTONIC: 3, OWN: 1}
