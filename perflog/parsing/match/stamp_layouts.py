"""Layouts of time stamps: what is before lines that a logger, a launcher or a container prints.

A stamp is at the start of its line, after labels only: `[rank0]:[titan] 2026-02-24 19:46:17,508 - root - ...`. It
may lack the year (`INFO 05-19 10:13:11`, glog, syslog) or the date (`[10:13:11]`). A date with an unknown order of day
and month (`02/03/2026`) gives only the time of day.

Lines of one logger have the same layout: digits, letters and separators at the same bytes. A layout that one line shows
is checked and read for all lines at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from msgspec import Struct

from perflog.arrays import Bytes, Ints, Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.schema import CLOCKS, LOCAL, NO_DATE, NO_YEAR, UTC

_BRACKETED = rb"\[[^\[\]]{0,160}\]|\([^()]{0,80}\)|<[^<>]{0,40}>"
_LABELS = rb"[ \t]*(?:(?:" + _BRACKETED + rb"|[A-Za-z][\w.\-/@]*[ \t:]|[0-9]{1,6}:|[\[(|>*:\-])[ \t]*){0,8}?"
"""What may be before a stamp: labels in brackets, words, numbers of ranks."""
_BARE_LABELS = rb"[ \t]*(?:(?:(?:" + _BRACKETED + rb"):?|[A-Z]{4,8}[ \t:]|[0-9]{1,6}:|[\[(|>*\-])[ \t]*){0,8}?"
"""What may be before a time of day alone. `eta: 1:02:03` is no time of day."""

_COMMA = rb",(?=[0-9]{1,9}(?![0-9.]|,[0-9.,+-]|\Z)|(?:[0-9]{3}){1,2}\Z)"
"""A comma before a fraction, as loggers print it. In `10:00:03,12,2.5` it ends the first cell of a table."""

_TIME = (
    rb"(?P<hour>[0-2][0-9]):(?P<minute>[0-5][0-9]):(?P<second>[0-6][0-9])(?:(?:\.|" + _COMMA
    + rb")(?P<fraction>[0-9]{1,9}))?(?![0-9:])"
)  # fmt: skip
_AT_ZONE = rb" ?(?P<zone>Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})(?![\w:])"
_ZONE = rb"(?:" + _AT_ZONE + rb")?"
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_MONTH_NAME = rb"(?P<name>" + b"|".join(_MONTHS) + rb")"

_PATTERNS = tuple(
    lazy_pattern(pattern)
    for pattern in (
        _LABELS + rb"(?P<year>[12][0-9]{3})(?P<sep>[-/.]?)(?P<month>[01][0-9])(?P=sep)(?P<day>[0-3][0-9])[T _-]{1,2}"
        + _TIME + _ZONE,
        _LABELS + rb"(?P<day>[0-3][0-9])/" + _MONTH_NAME + rb"/(?P<year>[12][0-9]{3})[: ]" + _TIME + _ZONE,
        _LABELS + _MONTH_NAME + rb" +(?P<day>[0-3]?[0-9]),? " + _TIME + rb"(?: (?P<year>[12][0-9]{3}))?",
        _LABELS + rb"[0-3][0-9][/.-][0-3][0-9][/.-][12][0-9]{3}[ T,-]{1,2}" + _TIME,
        _LABELS + rb"(?P<month>[01][0-9])-(?P<day>[0-3][0-9])[ T]" + _TIME,
        _LABELS + rb"[0-3][0-9]/[0-3][0-9][ T]" + _TIME,
        _LABELS + rb"[IWEFD](?P<month>[01]?[0-9])(?P<day>[0-3][0-9]) " + _TIME,
        _BARE_LABELS + rb"(?P<epoch>1[0-9]{9})(?:\.(?P<fraction>[0-9]{1,9}))?(?=[\] :|])",
        _BARE_LABELS + _TIME,
    )
)  # fmt: skip
_MINUTE = lazy_pattern(rb":[0-5][0-9]:")
_EPOCH = lazy_pattern(rb"1(?<![0-9.]1)[0-9]{9}(?![0-9])")  # `re` finds a pattern fast that begins with a plain byte
_NUMBERS = ("year", "month", "day", "hour", "minute", "second", "fraction", "epoch")
DAY_NS = 86_400 * 10**9
YEAR_NS = 365 * DAY_NS
_LAST_YEAR = 2262  # its nanoseconds since 1970 do not fit into 64 bits
_BEFORE_MONTH = np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30])
_DAYS_OF_MONTH = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_ZONE_BEGINS = lazy_pattern(_AT_ZONE)
_ZONE_BYTES = 8  # the longest zone, with the byte after it
_NOTHING = ord("\n")  # after the end of a line
NO_TIME = -1
"""Time of a line that has no stamp."""


class Layout(Struct, frozen=True, dict=True):
    """Where a stamp is on a line, counted from its start, and what each of its bytes is.

    `numbers`: by name the first and last offset of its digits. `literal`: the bytes of the stamp; the bytes that
    `digits` names match any digit, the bytes of `name` match the name of any month. `zone`: seconds ahead of UTC.
    """

    begin: int
    literal: bytes
    numbers: dict[str, tuple[int, int]]
    name: int | None
    zone: int | None

    @cached_property
    def digits(self) -> Mask:
        """Which bytes of the stamp are digits, or spaces before one."""
        mask = np.zeros(len(self.literal), np.bool_)
        for first, last in self.numbers.values():
            mask[first:last] = True
        return mask

    @property
    def clock(self) -> int:
        """The clock of the times, as index into CLOCKS."""
        if self.zone is not None or "epoch" in self.numbers:
            return CLOCKS.index(UTC)
        if "day" not in self.numbers:
            return CLOCKS.index(NO_DATE)
        return CLOCKS.index(LOCAL if "year" in self.numbers else NO_YEAR)

    @property
    def resolution(self) -> int:
        """Nanoseconds of the last printed digit."""
        first, last = self.numbers.get("fraction", (0, 0))
        return int(10 ** (9 - (last - first)))

    def read(self, data: Bytes, starts: Ints, ends: Ints) -> Ints:
        """Return the time of each line that has a stamp of this layout, else NO_TIME."""
        times = np.full(len(starts), NO_TIME)
        first = starts + self.begin
        rows = np.flatnonzero(first + len(self.literal) <= ends)
        text = data[first[rows, None] + np.arange(len(self.literal))]
        literal = np.frombuffer(self.literal, np.uint8)
        fits = (text[:, self.digits] - 48 < 10).all(axis=1)  # unsigned: lower bytes wrap around
        fixed = ~self.digits
        if self.name is not None:
            fixed[self.name : self.name + 3] = False
        fits &= (text[:, fixed] == literal[fixed]).all(axis=1)
        rows, text = rows[fits], text[fits]
        goes_on = self._goes_on(data, first[rows] + len(self.literal), ends[rows])
        rows, text = rows[~goes_on], text[~goes_on]
        times[rows] = self._times(text)
        return times

    def _goes_on(self, data: Bytes, after: Ints, ends: Ints) -> Mask:
        """Return which stamps go on after what the layout has: with more digits, a fraction or a zone."""

        def at(k: int | Ints) -> Bytes:
            return np.where(after + k < ends, data[np.minimum(after + k, len(data) - 1)], _NOTHING)

        one, two, three = map(at, range(3))
        goes_on: Mask = _are_digits(one)
        if "epoch" in self.numbers:
            return goes_on
        goes_on |= one == ord(":")
        if "fraction" not in self.numbers:
            goes_on |= (one == ord(".")) & _are_digits(two)
            if (one == ord(",")).any():
                goes_on |= (one == ord(",")) & _has_fraction(at)
        if self.zone is None and "year" in self.numbers:
            first, second = (np.where(one == ord(" "), *each) for each in ((two, one), (three, two)))
            is_sign = np.isin(first, (ord("+"), ord("-"))) & _are_digits(second)
            for row in np.flatnonzero(~goes_on & (is_sign | np.isin(first, (ord("Z"), ord("U"), ord("G"))))).tolist():
                rest = data[after[row] : min(ends[row], after[row] + _ZONE_BYTES)].tobytes()
                goes_on[row] = _ZONE_BEGINS.match(rest) is not None
        return goes_on

    def _times(self, text: Bytes) -> Ints:
        value = {name: self._number(text, *span) for name, span in self.numbers.items()}
        first, last = self.numbers.get("fraction", (0, 0))
        fraction = value["fraction"] * 10 ** (9 - (last - first)) if last else 0
        if "epoch" in value:
            times: Ints = value["epoch"] * 10**9 + fraction
            return times
        seconds = value["hour"] * 3600 + value["minute"] * 60 + value["second"]
        known = (value["hour"] < 24) & (value["minute"] < 60) & (value["second"] <= 60)
        days = np.zeros(len(text), np.int64)
        if self.name is not None:
            value["month"] = _months(text[:, self.name : self.name + 3])
        if "day" in value:
            month = value["month"]
            known &= (month >= 1) & (month <= 12)
            month = np.where(known, month, 1) - 1
            known &= (value["day"] >= 1) & (value["day"] <= _DAYS_OF_MONTH[month])
            year = value.get("year", np.full(len(text), 1970))
            known &= (year >= 1970) & (year < _LAST_YEAR)
            leap_days = (year - 1969) // 4 - (year - 1901) // 100 + (year - 1601) // 400
            is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
            known &= is_leap | (month != 1) | (value["day"] < 29) | ("year" not in value)
            days = (year - 1970) * 365 + leap_days + _BEFORE_MONTH[month] + (is_leap & (month > 1))
            days += value["day"] - 1
        ahead = self.zone or 0
        result: Ints = np.where(known, (days * 86_400 + seconds - ahead) * 10**9 + fraction, NO_TIME)
        return result

    @staticmethod
    def _number(text: Bytes, first: int, last: int) -> Ints:
        return (text[:, first:last].astype(np.int64) - 48) @ (10 ** np.arange(last - first - 1, -1, -1))


def _has_fraction(at: Callable[[int | Ints], Bytes]) -> Mask:
    """Return where `_COMMA` is before a fraction. `at`: returns the byte of each line at an offset from the comma."""
    count: Ints = np.cumprod([_are_digits(at(k)) for k in range(1, 11)], axis=0).sum(axis=0)
    after = at(count + 1)
    ends_cell = (after == ord(",")) & np.isin(at(count + 2), tuple(b"0123456789.,+-"))
    ends_line = (after == _NOTHING) & ~np.isin(count, (3, 6))
    found: Mask = (count > 0) & (count < 10) & (after != ord(".")) & ~ends_cell & ~ends_line
    return found


def _are_digits(text: Bytes) -> Mask:
    return (text >= ord("0")) & (text <= ord("9"))


def _months(text: Bytes) -> Ints:
    """Return the number of the month of each name, 0 if it is none."""
    codes = text.astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    months = np.zeros(len(text), np.int64)
    for number, name in enumerate(_MONTHS, 1):
        months[codes == int.from_bytes(name)] = number
    return months


def may_have_stamp(text: bytes | memoryview) -> bool:
    """Return whether a string contains what each stamp contains: cheaper than `layout_of`."""
    return _MINUTE.search(text) is not None or _EPOCH.search(text) is not None


def layout_of(text: bytes) -> Layout | None:
    """Return the layout of the stamp before a line, None if there is none."""
    if not may_have_stamp(text):
        return None
    for pattern in _PATTERNS:
        match = pattern.match(text)
        if match is None:
            continue
        names = match.groupdict()
        present = [name for name in names if names[name] is not None]
        begin = min(match.start(name) for name in present)
        numbers = {name: (match.start(name) - begin, match.end(name) - begin) for name in present if name in _NUMBERS}
        name = match.start("name") - begin if "name" in present else None
        zone = _zone(names["zone"]) if "zone" in present else None
        return Layout(begin, text[begin : match.end()], numbers, name, zone)
    return None


def stamp_of(text: bytes) -> tuple[str, int] | None:
    """Return the clock and the time of the stamp before a line, None if there is none."""
    layout = layout_of(text)
    if layout is None:
        return None
    time = int(layout.read(np.frombuffer(text, np.uint8), np.array([0]), np.array([len(text)]))[0])
    return None if time == NO_TIME else (CLOCKS[layout.clock], time)


def _zone(text: bytes) -> int:
    """Return the seconds that a zone is ahead of UTC."""
    if text[:1] not in b"+-":
        return 0
    digits = text[1:].replace(b":", b"")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if text.startswith(b"-") else seconds
