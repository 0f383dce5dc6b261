"""Numbers of damaged files: what a column cannot hold is unknown."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perflog.readers.odd_numbers import LARGEST, finite, nanoseconds, real, whole


@pytest.mark.parametrize(
    ("value", "number"),
    [(0, 0), (-5, -5), (LARGEST, LARGEST), (-LARGEST, -LARGEST), (LARGEST + 1, None), (-LARGEST - 1, None),
     (True, None), (1.0, None), ("1", None), (None, None)],
)  # fmt: skip
def test_whole_numbers(value: Any, number: int | None) -> None:
    assert whole(value) == number


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (-2.5, -2.5),
        (True, None),
        ("1", None),
        (None, None),
        (math.inf, None),
        (math.nan, None),
        (10**400, None),
    ],
)
def test_finite_numbers(value: Any, number: float | None) -> None:
    assert finite(value) == number


def test_a_number_beyond_all_floats_is_infinite() -> None:
    assert LARGEST == 2**63 - 1
    assert (real(10**400), real(-(10**400)), real(3)) == (math.inf, -math.inf, 3.0)


@pytest.mark.parametrize(
    ("value", "unit_s", "time"),
    [
        (1.5, 1.0, 1_500_000_000),
        (3, 1e-6, 3000),
        (-2, 1e-9, -2),
        (0.4, 1e-9, 0),
        (5, 1e9, None),
        (4, 1e9, 4 * 10**18),
        (4.6e9, 1.0, 4_600_000_000_000_000_000),
        (4.7e9, 1.0, None),  # more than half of what a column holds: with another one it would not
        (-4.7e9, 1.0, None),
        ("1", 1.0, None),
        (math.nan, 1.0, None),
    ],
)
def test_times_in_nanoseconds(value: Any, unit_s: float, time: int | None) -> None:
    assert nanoseconds(value, unit_s) == time
