"""Values that no run can have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perflog.metrics.possible import are_moments, fits, impossible


@pytest.mark.parametrize(
    ("column", "possible", "others"),
    [
        ("loss", [-5.0, 0.0, 1e29], [math.inf, -math.inf, math.nan, 1e30, -1e31]),
        ("step_time_s", [1e-9, 1e9], [0.0, -1.0, 1.1e9, math.nan]),
        ("forward_s", [0.0, 5.0], [-1e-9, 1.1e9]),
        ("tokens_per_s", [0.0, 1e20], [-1.0]),  # a rate, though its name ends like a time
        ("samples_per_s", [0.0, 2e9], [-1.0]),
        ("mfu", [0.0, 1.0], [-0.1, 1.001]),
        ("tflops", [0.0, 25e3], [-1.0, 25_001.0]),
    ],
)
def test_values_by_column(column: str, possible: list[float], others: list[float]) -> None:
    assert impossible(column, np.array(possible)).tolist() == [False] * len(possible)
    assert impossible(column, np.array(others)).tolist() == [True] * len(others)


def test_moments_of_these_years() -> None:
    values = [1.7e9, 1.7e12, 1.7e15, 1.7e18]
    assert are_moments(np.array(values)).tolist() == [True] * 4
    assert are_moments(np.array([1e9, 2.5e9, 9.9e8, 3e10, 0.0, 1e12])).tolist() == [
        True,
        False,
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(("parts", "expected"), [(0.0, True), (10.0, True), (10.1, True), (10.2, False), (-0.1, False)])
def test_parts_fit_into_their_whole(parts: float, expected: bool) -> None:
    assert fits(parts, 10.0) == expected
