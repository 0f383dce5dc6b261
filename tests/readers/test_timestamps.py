"""Times and whole numbers as traces print them, exactly."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.timestamps import number_in_name, parse_integers, parse_timestamps, round_durations

NUMBERS = st.one_of(
    st.integers(-(10**15), 10**15).map(str),
    st.decimals(-(10**15), 10**15, places=3).map(str),
    st.decimals(0, 10**12, places=7).map(lambda d: f"{d:f}"),
)


def nanoseconds(text: str) -> int:
    return int((Decimal(text) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN))


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_times_are_exact(texts: list[str]) -> None:
    assert parse_timestamps([t.encode() for t in texts]).tolist() == [nanoseconds(t) for t in texts]
    quoted = [f'"{t}"'.encode() for t in texts]
    assert parse_timestamps(quoted).tolist() == [nanoseconds(t) for t in texts]


@pytest.mark.parametrize("text", ["", "null", '""', "true", '"x"', "1e30", "1e999999", "[1]", "{}"])
def test_what_is_no_time(text: str) -> None:
    assert parse_timestamps([b"1.5", text.encode(), b"2"]).tolist() == [1500, MISSING, 2000]


@pytest.mark.parametrize(
    ("value", "number"),
    [(7, 7), (7.0, 7), ("7", 7), ("-7", -7), (None, MISSING), (7.5, MISSING), ("x", MISSING), ([7], MISSING),
     (True, MISSING), (2**63, MISSING), ("0x10", MISSING), (" +7 ", 7), ("--7", MISSING), ("\u00b2", MISSING),
     ("9" * 19, MISSING), ("9" * 5000, MISSING), ("9223372036854775807", 2**63 - 1)],
)  # fmt: skip
def test_whole_numbers(value: Any, number: int) -> None:
    assert parse_integers([value, 1, None]).tolist() == [number, 1, MISSING]


def test_durations() -> None:
    values = [1, 0.0005, "2.5", None, "x", float("nan"), -3, 4.458677009853422e9]
    assert round_durations(values).tolist() == [1000, 0, 2500, MISSING, MISSING, MISSING, -3000, 4458677009853]


def test_a_number_over_two_lines_is_no_time_and_moves_no_other() -> None:
    assert parse_timestamps([b"1\n5", b"2", b" 3.5 "]).tolist() == [MISSING, 2000, 3500]


def test_numbers_in_names_fit_into_64_bits() -> None:
    assert [number_in_name(digits, -1) for digits in ("7", "", None, "9" * 18, "9" * 19)] == [7, -1, -1, 10**18 - 1, -1]
