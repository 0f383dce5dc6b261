"""Ticks of an axis on a page: round numbers, powers, or dates, and how they are written."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from perflog.plots.drawing.sketch import Axis

_MOST_TICKS = 6
_DAY = 86_400.0
_PERIODS = (60.0, 600.0, 3600.0, 6 * 3600.0, _DAY, 2 * _DAY, 5 * _DAY, 10 * _DAY)


def ticks_of(axis: Axis, ends: tuple[float, float]) -> list[tuple[float, str]]:
    """Return the places of an axis with their names: those that the plot asks for, else round numbers."""
    low, high = sorted(ends)
    if axis.places is not None:
        names = axis.names or [_number(value, high) for value in axis.places]
        return [(v, n) for v, n in zip(axis.places.tolist(), names, strict=True) if low <= v <= high]
    if axis.dates:
        return [(value, _date(value, high - low)) for value in dates_between(low, high)]
    values = _powers(low, high, axis.base) if axis.base else round_numbers(low, high, axis.integer)
    written = axis.format or (lambda value: _number(value, max(abs(low), abs(high))))
    return [(value, written(value)) for value in values]


def round_numbers(low: float, high: float, integer: bool = False) -> list[float]:
    """Return at most seven multiples of 1, 2 or 5 times a power of ten from one number to another."""
    rough = (high - low) / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    step = max(step, 1.0) if integer else step
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def dates_between(low: float, high: float) -> list[float]:
    """Return a few times at whole minutes, hours or days, or at beginnings of months, in seconds since 1970."""
    if step := next((step for step in _PERIODS if (high - low) / step <= _MOST_TICKS), None):
        return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
    first, last = (datetime.fromtimestamp(end, UTC) for end in (low, high))
    months = range(12 * first.year + first.month, 12 * last.year + last.month)  # from 0, those that begin inside
    every = next(n for n in (1, 2, 3, 6, 12, 24, 60, 120, 1200, 12_000) if len(months) / n <= _MOST_TICKS)
    return [datetime(m // 12, m % 12 + 1, 1, tzinfo=UTC).timestamp() for m in months if m % every == 0]


def _date(seconds: float, span: float) -> str:
    form = "%Y-%m-%d" if span > 2 * _DAY else "%m-%d %H:%M"
    return datetime.fromtimestamp(seconds, UTC).strftime(form)


def _powers(low: float, high: float, base: float) -> list[float]:
    first, last = (math.log(value, base) for value in (low, high))
    exponents = range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)
    every = max(-(-len(exponents) // _MOST_TICKS), 1)
    if len(exponents) > 1 or base != 10:
        return [base**k for k in exponents[::every]]
    lowest = 10.0 ** math.floor(first)
    steps = [factor * lowest * ten for ten in (1, 10) for factor in (1, 2, 3, 5)]
    return [value for value in steps if low <= value <= high]


def _number(value: float, largest: float) -> str:
    """A number of an axis."""
    value = 0.0 if abs(value) < largest * 1e-9 else value
    if largest >= 1e6 or (largest and largest < 1e-3):
        return f"{value:.4g}"
    return f"{value:,.6g}"
