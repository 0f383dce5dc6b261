"""Finds the rate of steps that a line prints beside its step: `step=12 loss=2.3 steps_per_sec=2.41`.

Only if both count the same: in `iteration 5 | 12034 steps/s` an environment does the steps of the rate. A step in
brackets is what the iterations of the rate are: `[120/5000] loss 2.3 41.5 it/s`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from perflog.arrays import Floats
from perflog.formats.model import RUNNING_MEAN, Line
from perflog.lazy_patterns import lazy_pattern

_ITERATIONS = frozenset("it its iter iters iteration iterations".split())
_COUNTERS = (
    frozenset("step steps".split()),
    _ITERATIONS,
    frozenset("update updates".split()),
    frozenset("batch batches".split()),
)
_RATE = lazy_pattern(r"(?i)(?P<what>[a-z]+)_(?:per_)?s(?:ec(?:ond)?)?")
_STEP = lazy_pattern(r"(?i)(?:.*[^a-z])?(?P<what>[a-z]+)[^a-z{}]{0,4}\{step:")
_BARE_STEP = lazy_pattern(r"(?:.*\}\]?)?[ \t]*[\[(]\{step:[^{}]*\}[/\])]")
_DECIMALS = lazy_pattern(r".*\.(?P<number>[0-9]+)f|.*d")
_LEAST = 50  # units of the last digit: a rate of `0.04` may be off by 12 %
_MOST_LINES = 1 << 10


@lru_cache(_MOST_LINES)
def rate_of_steps(line: Line) -> str | None:
    """Return the field with the number of steps in a second; None if the line prints none."""
    step = _STEP.match(line.template.text)
    counter = next((words for words in _COUNTERS if step is not None and step["what"].lower() in words), None)
    if counter is None and _BARE_STEP.match(line.template.text):
        counter = _ITERATIONS
    if counter is None or line.covers == RUNNING_MEAN:
        return None
    for name in line.template.names:
        rate = _RATE.fullmatch(name)
        is_rate = name in line.unit and line.unit[name].base == "1/s"
        if rate is not None and is_rate and rate["what"].lower() in counter:
            return name
    return None


def seconds_of_steps(line: Line, name: str, values: Floats) -> Floats:
    """Return the seconds of a step by the values of the field with the rate; NaN for a rate of too few digits."""
    spec = next(field.spec for field in line.template.fields if field.name == name)
    form = _DECIMALS.fullmatch(spec)
    least = _LEAST * 10.0 ** -int(form["number"] or 0) if form is not None else 0.0
    rates = np.where(np.isfinite(values) & (values > 0) & (values >= least), values, np.nan)
    seconds: Floats = 1 / (rates * line.unit[name].factor)
    return seconds
