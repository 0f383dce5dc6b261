"""Values, changes and intervals as people read them."""

from __future__ import annotations

import pytest

from perflog.units import show_interval


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.051, 0.069, "+5.1 .. +6.9 %"),
        (-0.5, 1.2, "-50.0 .. +120 %"),
        (None, 0.1, "-"),
        (float("nan"), 0.1, "-"),
        (90.0, 300.0, "+9000 .. +30000 %"),  # that there is no change is excluded
        (-0.999, 27755.0, "no change excluded"),  # from a thousandth of the time to its 27,756-fold
        (-0.5, 99.0, "-50.0 .. +9900 %"),
    ],
)
def test_intervals_of_changes(low: float | None, high: float | None, text: str) -> None:
    assert show_interval(low, high) == text
