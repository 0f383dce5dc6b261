"""Values as damaged files have them: of other types, infinite, or larger than a column holds; these are unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

LARGEST = (1 << 63) - 1
"""The largest integer of a column."""


def as_list(value: object) -> Sequence[Any]:
    """Return a value that must be a list; () for any other."""
    return value if isinstance(value, list | tuple) else ()


def as_dict(value: object) -> Mapping[Any, Any]:
    """Return a value that must be a dictionary; {} for any other."""
    return value if isinstance(value, dict) else {}


def whole(value: Any) -> int | None:
    """Return an integer that a column holds; None for anything else."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return value if is_integer and abs(value) <= LARGEST else None


def real(value: float) -> float:
    """Return a number as a float: one beyond all floats is infinite, as in JSON."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def finite(value: object) -> float | None:
    """Return a number as a float; None for a string, a truth value, infinity, and NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = real(value)
    return number if math.isfinite(number) else None


def nanoseconds(value: object, unit_s: float = 1.0) -> int | None:
    """Return a time in whole nanoseconds; None if it is no finite number, or a column does not hold it.

    Args:
        value: the time in units.
        unit_s: seconds of the unit.
    """
    number = finite(value)
    if number is None or abs(number) * unit_s * 1e9 > LARGEST / 2:
        return None
    return round(number * (unit_s * 1e9))
