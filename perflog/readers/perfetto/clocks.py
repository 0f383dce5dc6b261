"""Clocks of a Perfetto trace: times of packets, on whatever clock, as nanoseconds of one clock.

A snapshot gives several clocks at one moment. A sequence may have clocks of its own (numbers 64 to 127), which may be
incremental: each time is the difference to the last one of the sequence. Between snapshots clocks run alike, so a time
is converted with the last snapshot before it. Source: docs/concepts/clock-sync.md of Perfetto.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Ints
from perflog.readers.events.event_columns import MISSING, rows_by_number
from perflog.readers.perfetto.packets import Packets

REALTIME, BOOTTIME = 1, 6
"""Numbers of clocks: time since 1970, time since the machine started."""

_SNAPSHOT, _TIME, _CLOCK = 6, 8, 58  # fields of a packet
_CLOCKS, _PRIMARY = 1, 2
_NUMBER, _READING, _INCREMENTAL, _UNIT = range(1, 5)
_OWN = range(64, 128)
_SEQUENCE_BITS = 7
_LARGEST = 1 << 62

Clock = tuple[int, int]
"""Sequence of a clock, 0 for one of all sequences, and its number."""


class _OwnClock(Struct):
    """An incremental clock of a sequence: its last time, in units."""

    last: int
    unit: int
    is_incremental: bool


class _Readings(Struct):
    """What a clock read at snapshots, in the order of these readings, and the times on the primary clock."""

    known: array[int] = field(default_factory=lambda: array("q"))
    on_primary: array[int] = field(default_factory=lambda: array("q"))

    def add(self, reading: int, on_primary: int) -> None:
        place = bisect_right(self.known, reading)
        self.known.insert(place, reading)
        self.on_primary.insert(place, on_primary)

    def converted(self, time: Ints) -> Ints:
        """Return times on the primary clock, each with the last reading before it; there is at least one reading."""
        known, on_primary = (np.frombuffer(column, np.int64) for column in (self.known, self.on_primary))
        place = np.maximum(np.searchsorted(known, time, "right") - 1, 0)
        return np.where(time == MISSING, MISSING, time - known[place] + on_primary[place])


class Clocks(Struct):
    """The clocks of one file. `unknown`: numbers of clocks that no snapshot explains, with their packets."""

    primary: int = BOOTTIME
    unknown: dict[int, int] = field(default_factory=dict)
    _own: dict[Clock, _OwnClock] = field(default_factory=dict)
    _readings: dict[Clock, _Readings] = field(default_factory=dict)
    _realtime: int | None = None  # after the primary clock

    @property
    def since_1970(self) -> int | None:
        """Nanoseconds since 1970 at the zero of the primary clock; None if no snapshot states it."""
        return 0 if self.primary == REALTIME else self._realtime

    def times(self, packets: Packets, default_clock: Ints) -> Ints:
        """Return the times of packets in ns on the primary clock; MISSING where a packet has none, or none is known.

        Args:
            packets: the next packets of the file.
            default_clock: number of the clock of packets that name none, or MISSING.
        """
        time = packets.fields.integers(_TIME, MISSING)
        clock = packets.fields.integers(_CLOCK, MISSING)
        clock = np.where(clock == MISSING, default_clock, clock)
        snapshots, snapshot_fields = packets.fields.messages(_SNAPSHOT)
        primary = snapshot_fields.integers(_PRIMARY, MISSING).tolist()
        owner, clocks = snapshot_fields.messages(_CLOCKS)
        defaults = {_NUMBER: 0, _READING: 0, _INCREMENTAL: 0, _UNIT: 1}
        columns = (clocks.integers(number, default).tolist() for number, default in defaults.items())
        readings = list(zip(*columns, strict=True))
        cuts = np.searchsorted(owner, np.arange(len(snapshots) + 1)).tolist()
        result = np.full(len(time), MISSING, np.int64)
        begin = 0
        for index, packet in enumerate([*snapshots.tolist(), len(time)]):
            part = slice(begin, packet)
            result[part] = self._converted(time[part], clock[part], packets.sequence[part])
            begin = packet
            if packet < len(time):
                snapshot = readings[cuts[index] : cuts[index + 1]]
                self._add(primary[index], snapshot, int(packets.sequence[packet]))
        return result

    def _add(self, primary: int, clocks: Iterable[tuple[int, int, int, int]], sequence: int) -> None:
        """Add a snapshot: number, reading, whether it is incremental and unit of each clock."""
        if primary != MISSING and not self._readings:
            self.primary = primary
        readings: dict[Clock, int] = {}
        for number, reading, incremental, unit in clocks:
            key = (sequence, number) if number in _OWN else (0, number)
            unit = unit if 0 < unit < _LARGEST else 1
            if number in _OWN:
                self._own[key] = _OwnClock(reading, unit, bool(incremental))
            if 0 <= reading < _LARGEST // unit:
                readings[key] = reading * unit
        on_primary = readings.get((0, self.primary))
        if on_primary is None:
            known = (self._on_primary(clock, reading) for clock, reading in readings.items())
            on_primary = next((time for time in known if time is not None), None)
        if on_primary is None or abs(on_primary) >= _LARGEST:
            return
        for clock, reading in readings.items():
            self._readings.setdefault(clock, _Readings()).add(reading, on_primary)
        if self._realtime is None and (0, REALTIME) in readings:
            self._realtime = readings[0, REALTIME] - on_primary

    def _on_primary(self, clock: Clock, reading: int) -> int | None:
        known = self._readings.get(clock)
        return None if known is None else int(known.converted(np.array([reading], np.int64))[0])

    def _converted(self, time: Ints, clock: Ints, sequence: Ints) -> Ints:
        """Return times between two snapshots on the primary clock."""
        result = np.full(len(time), MISSING, np.int64)
        clock = np.where(clock == MISSING, self.primary, clock)  # a snapshot in these packets may have named it
        known = (time != MISSING) & (time >= 0) & (time < _LARGEST) & (clock >= 0) & (clock < 1 << 32)
        own = (clock >= _OWN.start) & (clock < _OWN.stop)
        keys = np.where(own, sequence << _SEQUENCE_BITS | clock, -1 - clock)
        for key, chosen in rows_by_number(np.where(known, keys, MISSING)):
            if key == MISSING:
                continue
            of: Clock = (key >> _SEQUENCE_BITS, key & (1 << _SEQUENCE_BITS) - 1) if key >= 0 else (0, -1 - key)
            result[chosen] = self._of_clock(of, time[chosen])
        return result

    def _of_clock(self, clock: Clock, time: Ints) -> Ints:
        own = self._own.get(clock)
        if own is not None:
            if own.is_incremental:
                time = own.last + np.cumsum(time)
                own.last = int(time[-1])
            time = np.where((time >= 0) & (time < _LARGEST // own.unit), time * own.unit, MISSING)
        if clock == (0, self.primary):
            return time
        readings = self._readings.get(clock)
        if readings is None:
            self.unknown[clock[1]] = self.unknown.get(clock[1], 0) + len(time)
            return np.full(len(time), MISSING, np.int64)
        return readings.converted(time)
