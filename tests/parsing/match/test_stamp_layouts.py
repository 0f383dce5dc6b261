"""Layouts of time stamps: one line shows the layout, and all lines with it are read at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.parsing.match.stamp_layouts import NO_TIME, layout_of, may_have_stamp, stamp_of


def ns(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: float = 0, ahead: int = 0) -> int:
    whole = int(second)
    time = datetime(year, month, day, hour, minute, whole, tzinfo=timezone(timedelta(seconds=ahead)))
    return (int(time.timestamp()) * 1000 + round((second - whole) * 1000)) * 10**6


@pytest.mark.parametrize(
    ("line", "clock", "time"),
    [
        ("2026-02-24 19:46:17,508 - root - INFO", "local", ns(2026, 2, 24, 19, 46, 17.508)),
        ("[2026/02/24 19:46:17] x", "local", ns(2026, 2, 24, 19, 46, 17)),
        ("20260224 19:46:17 x", "local", ns(2026, 2, 24, 19, 46, 17)),
        ("2026-01-01T10:00:00.123Z x", "utc", ns(2026, 1, 1, 10, 0, 0.123)),
        ("2026-01-01T10:00:00+01:30 x", "utc", ns(2026, 1, 1, 10, 0, 0, ahead=5400)),
        ("2026-01-01T10:00:00-0100 x", "utc", ns(2026, 1, 1, 10, 0, 0, ahead=-3600)),
        ("[24/Feb/2026:19:46:17 +0000] x", "utc", ns(2026, 2, 24, 19, 46, 17)),
        ("Feb 24 19:46:17 host x", "no year", ns(1970, 2, 24, 19, 46, 17)),
        ("Feb  4 19:46:17 2026 x", "local", ns(2026, 2, 4, 19, 46, 17)),
        ("INFO 05-19 10:13:11 x", "no year", ns(1970, 5, 19, 10, 13, 11)),
        ("I0519 10:13:11.123456 1 x.cc:2] x", "no year", ns(1970, 5, 19, 10, 13, 11) + 123_456_000),
        ("[10:13:11] x", "no date", ns(1970, 1, 1, 10, 13, 11)),
        ("02/03/2026 10:13:11 x", "no date", ns(1970, 1, 1, 10, 13, 11)),  # which is the month?
        ("1767225600.25: x", "utc", 1_767_225_600_250_000_000),
        ("[rank0]:[titan] 2026-02-24 19:46:17,508 - x", "local", ns(2026, 2, 24, 19, 46, 17.508)),
        ("2024-02-29 00:00:00 x", "local", ns(2024, 2, 29)),
        ("2000-02-29 00:00:00 x", "local", ns(2000, 2, 29)),
        ("2100-03-01 00:00:00 x", "local", ns(2100, 3, 1)),
        *((f"{year}-01-01 00:00:00 x", "local", ns(year, 1, 1)) for year in (2001, 2005, 2101, 2201)),
        ("1970-01-01 00:00:00 x", "local", 0),
        ("2261-12-31 23:59:59 x", "local", ns(2261, 12, 31, 23, 59, 59)),
        ("Feb 29 10:00:00 host x", "no year", ns(1970, 3, 1, 10)),  # of a leap year, whichever it was
    ],
)
def test_the_time_before_a_line(line: str, clock: str, time: int) -> None:
    assert stamp_of(line.encode()) == (clock.replace(" ", "_") if clock not in ("utc", "local") else clock, time)


@pytest.mark.parametrize(
    "line",
    [
        "2026-02-30 10:00:00 x",
        "2025-02-29 10:00:00 x",
        "2100-02-29 10:00:00 x",  # no leap year
        "2026-13-01 10:00:00 x",
        "2026-00-01 10:00:00 x",
        "2026-01-00 10:00:00 x",
        "2026-01-32 10:00:00 x",
        "2026-01-01 24:00:00 x",
        "2262-01-01 10:00:00 x",  # its nanoseconds do not fit
        "1969-12-31 10:00:00 x",
        "eta: 1:02:03 x",
        "took 10:13 min",
        "step 12345678901 x",
        "x 2026 y",
        "",
    ],
)
def test_what_is_no_time(line: str) -> None:
    assert stamp_of(line.encode()) is None


@given(
    st.integers(0, 9_214_646_399),  # to the end of 2261
    st.integers(0, 999_999_999),
    st.sampled_from(["-", "/", "."]),
    st.sampled_from(["T", " ", "  "]),
    st.integers(0, 9),
)
def test_times_of_any_day(seconds: int, nanoseconds: int, sep: str, between: str, digits: int) -> None:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    fraction = f"{nanoseconds:09d}"[:digits]
    text = f"{time:%Y}{sep}{time:%m}{sep}{time:%d}{between}{time:%H:%M:%S}{'.' if digits else ''}{fraction}"
    layout = layout_of(f"{text} x".encode())
    assert stamp_of(f"{text} x".encode()) == ("local", seconds * 10**9 + int(fraction.ljust(9, "0")))
    assert layout is not None and layout.resolution == 10 ** (9 - digits)


@pytest.mark.parametrize("month", range(1, 13))
def test_the_last_day_of_each_month(month: int) -> None:
    last = (datetime(2024 + month // 12, month % 12 + 1, 1, tzinfo=UTC) - timedelta(days=1)).day
    assert stamp_of(f"2024-{month:02d}-{last} 10:00:00 x".encode()) == ("local", ns(2024, month, last, 10))
    assert stamp_of(f"2024-{month:02d}-{last + 1} 10:00:00 x".encode()) is None


def test_only_lines_of_the_layout_are_read() -> None:
    lines = [
        b"[2026-02-24 19:46:17] a",
        b"[2026-02-24 19:46:18] b",
        b"(2026-02-24 19:46:17] another bracket",  # what is before the stamp may differ
        b"[2026-02-24T19:46:17] another separator",
        b"[2026-02-24 19:4x:17] no digit",
        b"[2026-02-24 19:46:175 more digits",
        b"[2026-02-24 19:46:1",
        b"[2026-02-31 19:46:17] no day",
        b"[2026-02-24 19:46:19",
    ]
    ends = np.cumsum([len(line) for line in lines])
    starts = ends - [len(line) for line in lines]
    layout = layout_of(lines[0])
    assert layout is not None
    times = layout.read(np.frombuffer(b"".join(lines), np.uint8), starts, ends)
    first = ns(2026, 2, 24, 19, 46, 17)
    second = 10**9
    none = NO_TIME
    assert times.tolist() == [first, first + second, first, none, none, none, none, none, first + 2 * second]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-02-24 19:46:17 a", "2026-02-24 19:46:17.5 a"),  # isoformat() leaves out a fraction of 0
        ("2026-02-24 19:46:17 a", "2026-02-24 19:46:17,500 a"),
        ("2026-02-24 19:46:17 a", "2026-02-24 19:46:17,500,INFO"),
        ("2026-02-24 19:46:17 a", "2026-02-24 19:46:17,50 a"),
        ("2026-02-24 19:46:17 a", "2026-02-24 19:46:17,500"),
        ("2026-02-24 19:46:17.5 a", "2026-02-24 19:46:17.25 a"),
        ("2026-02-24 19:46:17 a", "2026-02-24 19:46:17Z a"),
        ("2026-02-24 19:46:17 a", "2026-02-24 19:46:17 UTC a"),
        ("2026-02-24 19:46:17 a", "2026-02-24 19:46:17 +05:30 a"),
        ("2026-02-24 19:46:17.5 a", "2026-02-24 19:46:17.5-0100"),
        ("[10:13:11] a", "[10:13:11.250] a"),
        ("10:13:11 a", "10:13:11:12 a"),
    ],
)
def test_a_stamp_with_more_to_it_is_of_another_layout(one: str, other: str) -> None:
    layout = layout_of(one.encode())
    assert layout is not None
    data = np.frombuffer(one.encode() + other.encode(), np.uint8)
    starts, ends = np.array([0, len(one)]), np.array([len(one), len(data)])
    times = layout.read(data, starts, ends)
    assert times[0] != NO_TIME and times[1] == NO_TIME


@pytest.mark.parametrize(
    "rest",
    [
        "", " ", " - root - INFO", " Zeta", " Z2", " +1", " -5 %", ", then", ". Then", "] x", " UTCx", "-root",
        ",12,2.5", ",100,2.5", ",100.5", ",100,,", ",12",  # of a table with commas
    ],
)  # fmt: skip
def test_what_is_after_a_stamp_may_be_anything_else(rest: str) -> None:
    layout = layout_of(b"2026-02-24 19:46:17 a")
    assert layout is not None
    text = f"2026-02-24 19:46:17{rest}".encode()
    times = layout.read(np.frombuffer(text, np.uint8), np.array([0]), np.array([len(text)]))
    assert times.tolist() == [ns(2026, 2, 24, 19, 46, 17)]
    assert stamp_of(text) == ("local", times[0])


def test_months_of_names_are_read_in_one_layout() -> None:
    lines = [b"Feb 24 19:46:17 x", b"Dec 31 19:46:17 x", b"Foo 24 19:46:17 x"]
    layout = layout_of(lines[0])
    assert layout is not None
    data, size = np.frombuffer(b"".join(lines), np.uint8), len(lines[0])
    times = layout.read(data, np.arange(3) * size, np.arange(1, 4) * size)
    assert times.tolist() == [ns(1970, 2, 24, 19, 46, 17), ns(1970, 12, 31, 19, 46, 17), NO_TIME]


def test_what_has_no_stamp_is_told_cheaply() -> None:
    assert may_have_stamp(b"x 10:13:11") and may_have_stamp(b"x 1767225600 y")
    assert not may_have_stamp(b"x 10:13") and not may_have_stamp(b"loss 11767225600") and not may_have_stamp(b"x")
