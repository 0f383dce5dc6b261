"""Excursions: where a series that falls, or stays, leaves its usual values upwards for some time.

A loss falls fast and then slowly, with noise that is often far from normal. So an excursion is compared with the values
just before it, and one or two high values are none.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Mask
from perflog.statistics.samples import NORMAL

_BLOCK, _BEFORE, _RECENT = 10, 50, 20  # values: of a block; before an excursion, at most; of them, for the usual value
_FEW, _MANY = 3, 8  # high values in a row: at least, and where they are not very high
_HIGH, _VERY_HIGH = 1.6, 2.5  # times the usual value
_SCATTER = 12.0  # times the scatter before; twice as far if few values are high
_NEAR, _BACK = 3.0, 0.1  # of values that are back: times the scatter, share of the usual value
_RARE = 3  # values before an excursion that may be as high


class Excursion(Struct, frozen=True):
    """An excursion of a series, by the index of its values.

    Attributes:
        begin: The first high value.
        peak: The highest value.
        end: The first value that is back at the usual values; None if none is.
        usual: The median of the values before.
    """

    begin: int
    peak: int
    end: int | None
    usual: float


def excursions(values: Floats) -> list[Excursion]:
    """Return the excursions of a series of positive values in their order.

    Three values in a row are two and a half times the usual value, or eight 1.6 times, and far above the scatter. The
    series is back once three values in a row are near the usual value.

    Example:
        >>> import numpy as np
        >>> excursions(np.concatenate([2 + 0.01 * np.sin(np.arange(60)), [8, 9, 7, 4], np.full(10, 2.0)]))
        [Excursion(begin=60, peak=61, end=64, usual=2.00...)]
    """
    found: list[Excursion] = []
    if len(values) < 2 * _BLOCK + _FEW or not (values > 0).all():
        return found
    last = 0
    for begin in _runs(values > _HIGH * _usual_before(values)):
        before = values[max(last, begin - _BEFORE) : begin]
        if len(before) < _BLOCK:
            continue
        recent = before[-_RECENT:]
        usual = float(np.median(recent))
        scatter = NORMAL * float(np.median(np.abs(recent - usual)))
        scatter = max(scatter, NORMAL * float(np.median(np.abs(np.diff(before)))) / math.sqrt(2))
        rare = float(np.sort(before)[-_RARE])
        few = max(usual + 2 * _SCATTER * scatter, _VERY_HIGH * usual, rare)
        many = max(usual + _SCATTER * scatter, _HIGH * usual, rare)
        high = values[begin : begin + _MANY]
        if not ((high[:_FEW] > few).all() or (len(high) == _MANY and (high > many).all())):
            continue
        is_near = values[begin:] <= usual + max(_NEAR * scatter, _BACK * usual)
        end = next((begin + n for n in _runs(is_near)), None)
        found.append(Excursion(begin, begin + int(values[begin:end].argmax()), end, usual))
        if end is None:
            break
        last = end
    return found


def _usual_before(values: Floats) -> Floats:
    """Return for each value the lower median of the two blocks of values before its block; inf for the first two."""
    whole = len(values) // _BLOCK * _BLOCK
    blocks = np.median(values[:whole].reshape(-1, _BLOCK), axis=1)
    lower = np.concatenate([[np.inf, np.inf], np.minimum(blocks[:-1], blocks[1:])])
    usual: Floats = np.repeat(lower, _BLOCK)[: len(values)]
    return usual


def _runs(flags: Mask) -> list[int]:
    """Return where three or more flags in a row begin."""
    edges = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [int(begin) for begin in begins[ends - begins >= _FEW]]
