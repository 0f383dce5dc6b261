"""Possible values: limits that no run exceeds, whatever the format or program.

Impossible values count in no statistic and in no whole; the linter reports them.
"""

from __future__ import annotations

import numpy as np

from perflog.arrays import Floats, Mask

_LARGEST = 1e30  # larger values overflow in sums of squares, if not before
_LONGEST = 1e9  # seconds: no time of a step lasts 31 years
_FASTEST = 25e3  # TFLOP/s: more than any GPU computes, in any type
_FULL = 1.0 + 1e-9  # of a peak
_FITS = 0.01  # of a whole: more than the rounding of what is printed
_MOMENTS = ((1e9, 2.5e9), (1e12, 2.5e12), (1e15, 2.5e15), (1e18, 2.5e18))  # since 1970 in s, ms, us, ns
RATES = ("tokens_per_s", "samples_per_s", "tflops", "mfu")
"""Columns of rates in table `steps`."""


def impossible(column: str, values: Floats) -> Mask:
    """Flag values that no run can have: not finite, huge, a time below 0 or of decades, a rate below 0 or above a peak.

    Args:
        column: Name of a column of times, rates or other numbers in table `steps`, or of a time in another table.
        values: Its values.
    """
    flags = ~(np.abs(values) < _LARGEST)
    if column.endswith("_s") and column not in RATES:
        flags |= (values < 0) | (values > _LONGEST)
    if column == "step_time_s":
        flags |= values == 0
    if column in RATES:
        flags |= values < 0
    if column in ("mfu", "tflops"):
        flags |= values > (_FULL if column == "mfu" else _FASTEST)
    return flags


def are_moments(values: Floats) -> Mask:
    """Flag numbers that look like moments since 1970 of these years."""
    flags: Mask = np.logical_or.reduce([(low <= values) & (values < high) for low, high in _MOMENTS])
    return flags


def fits(parts: float, whole: float) -> bool:
    """Return whether parts that do not overlap fit into a whole, within the rounding of printed times."""
    return 0 <= parts <= (1 + _FITS) * whole
