"""The words that messages of findings are made of: times and shares."""

from __future__ import annotations

from collections.abc import Sequence

from perflog.units import show


def seconds(value: float) -> str:
    """Return a time in a unit that suits it."""
    return show(float(value), "s")


def time_range(values: Sequence[float]) -> str:
    """Return `3.1 ms to 4 ms`, or one value where both round to the same string."""
    low, high = seconds(min(values)), seconds(max(values))
    return low if low == high else f"{low} to {high}"


def percent(share: float, sign: bool = False) -> str:
    """Return a share in percent: `1.2 %`, with `sign` `+1.2 %`."""
    digits = 2 if abs(share) < 0.01 else 1
    return f"{share * 100:{'+' if sign else ''}.{digits}f} %"
