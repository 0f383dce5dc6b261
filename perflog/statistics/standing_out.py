"""Determines which members of a group stand out: ranks with values unlike the other ranks' in most rows.

The deviation of a member is the median over the rows of its distance from the median of the members in a row, in
logarithms. It is divided by the scatter of the members, a scaled MAD (Iglewicz and Hoaglin 1993). With few members this
estimate is poor, so it is shrunk towards the scatter of equal members: 1.5 % and the noise of the medians (a moderated
t, Smyth 2004, doi:10.2202/1544-6115.1027).
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Mask
from perflog.statistics.samples import NORMAL, mad, medians
from perflog.statistics.students_t import t_tail

LEVEL = 0.005
"""Probability of reporting any member or metric although all members are equal."""

_SCATTER = 0.015  # of equal members: standard deviation of the logarithms
_KNOWN = 6.0  # degrees of freedom of _SCATTER
_FEW, _SCATTER_OF_FEW, _KNOWN_OF_FEW = 3, 0.05, 2.0  # below 3 rows the noise is unknown, and these are assumed
_TAILS_OF_FEW = 5.0  # upper bound of the degrees of freedom then: a single measurement has heavy tails
_PER_MEMBER = 0.37  # degrees of freedom of a MAD for each value: its efficiency
_MEDIAN = 1.2533  # standard error of a median / standard error of a mean
_LARGEST = 700.0  # largest logarithm of a ratio that fits in a float
_BLOCKS, _IN_BLOCK = 10, 5  # medians of blocks of rows show noise that lasts for several rows
_LEAST, _LEAST_OF_FEW, _MANY = 0.02, 0.05, 20  # least difference; for fewer rows than 20 the second


class StandingOut(Struct, frozen=True):
    """A member that differs from the others.

    `member`: its row of the matrix. `ratio`: its value / the value of the others. `t`: its deviation in standard
    deviations. `p`: probability of such a deviation of any member in any of the `metrics` if all members are equal.
    `persistence`: share of its values that differ to the same side by at least half of the deviation.
    """

    member: int
    ratio: float
    t: float
    p: float
    persistence: float


def standing_out(values: Floats, metrics: int = 1) -> list[StandingOut]:
    """Return the members that stand out, the largest `t` first.

    If a group has two members and they differ, both are returned: each is the inverse of the other.

    Args:
        values: Positive values, shape (members, rows), NaN where one is missing.
        metrics: Number of metrics that are tested together.
    """
    known = ~np.isnan(values)
    shared = known.sum(axis=0) > 1  # a row of one member compares nothing
    present = np.flatnonzero((known & shared).any(axis=1))
    logs = np.log(values[present][:, shared])
    members, rows = logs.shape
    if members < 2:
        return []
    distance = logs - _centres(logs)
    deviation = medians(distance, axis=1)
    scale, freedom = _scale(distance, deviation)
    tests = metrics * (members if members > 2 else 1)
    least = math.log1p(_LEAST if rows >= _MANY else _LEAST_OF_FEW)
    found = []
    for member in np.flatnonzero((np.abs(deviation) >= least) & _outermost(deviation)).tolist():
        t = abs(float(deviation[member])) / float(scale[member])
        p = min(1.0, 2 * tests * t_tail(t, freedom))
        own = distance[member][~np.isnan(distance[member])]
        persistence = float(np.mean(own / deviation[member] >= 0.5))
        if p < LEVEL and persistence > 0.5:
            ratio = math.exp(min(float(deviation[member]), _LARGEST))
            found.append(StandingOut(int(present[member]), ratio, t, p, persistence))
    return sorted(found, key=lambda each: -each.t)


def _centres(logs: Floats) -> Floats:
    """Return the median of each row: of all members, or of the others if there are two or three members."""
    if len(logs) > 3:
        return medians(logs, axis=0)
    total, known = np.nansum(logs, axis=0), (~np.isnan(logs)).sum(axis=0)
    others = known - ~np.isnan(logs)
    centres = (total - np.nan_to_num(logs)) / np.maximum(others, 1)
    return np.where(others > 0, centres, np.nan)


def _outermost(deviation: Floats) -> Mask:
    """Flag all members; of three, those that differ from the others by more than these differ from each other.

    Of three members, a slow one would otherwise make both others fast: each is compared with the mean of the others.
    """
    if len(deviation) != 3:
        return np.ones(len(deviation), np.bool_)
    others_differ = np.abs(np.roll(deviation, 1) - np.roll(deviation, -1)) / 1.5  # deviations are from two others
    flags: Mask = np.abs(deviation) > others_differ
    return flags


def _scale(distance: Floats, deviation: Floats) -> tuple[Floats, float]:
    """Return the standard deviation of each member's deviation if all are equal, and its degrees of freedom."""
    members, rows = distance.shape
    noise, beside_trend = _noise(distance)
    typical = float(np.nanmedian(noise)) if not np.isnan(noise).all() else 0.0
    few = rows < _FEW
    known = _KNOWN_OF_FEW if few else _KNOWN
    variance = known * ((_SCATTER_OF_FEW if few else _SCATTER) ** 2 + typical**2)
    freedom = known
    if members > 3:
        scatter_freedom = _PER_MEMBER * (members - 1)
        variance += scatter_freedom * (NORMAL * mad(deviation[~np.isnan(deviation)])) ** 2
        freedom += scatter_freedom
    variance /= freedom
    if few:
        freedom = min(freedom, _TAILS_OF_FEW)
    own = np.maximum(np.nan_to_num(beside_trend, nan=typical) ** 2 - typical**2, 0)
    return np.sqrt((variance + own) * (1 + 1 / (members - 1))), freedom


def _noise(distance: Floats) -> tuple[Floats, Floats]:
    """Return the standard error of each member's median over the rows, and beside a trend; NaN if it has too few rows.

    A member that is always on one side of the others, and further and further away, is not noisy.
    """
    members, rows = distance.shape
    if rows < _FEW:
        return (np.full(members, np.nan),) * 2
    blocks = min(_BLOCKS, rows // _IN_BLOCK)
    if blocks >= _IN_BLOCK:
        parts = np.array_split(distance, blocks, axis=1)
        block_medians = np.array([medians(part, axis=1) for part in parts if not np.isnan(part).all(axis=1).any()])
        if len(block_medians) >= _IN_BLOCK:
            error: Floats = np.std(block_medians, axis=0, ddof=1) / math.sqrt(len(block_medians))
            is_one_sided = np.abs(np.sign(block_medians).sum(axis=0)) == len(block_medians)
            return error, np.where(is_one_sided, np.minimum(error, _beside_trend(block_medians)), error)
    known = (~np.isnan(distance)).sum(axis=1)
    spread = np.nanstd(distance, axis=1) * np.sqrt(known / np.maximum(known - 1, 1))
    error = np.where(known >= _FEW, _MEDIAN * spread / np.sqrt(known), np.nan)
    return error, error


def _beside_trend(block_medians: Floats) -> Floats:
    """Return the standard error of the mean of each column beside its linear trend."""
    number = len(block_medians)
    places = np.arange(number) - (number - 1) / 2
    slopes = places @ block_medians / (places @ places)
    rest = block_medians - block_medians.mean(axis=0) - places[:, None] * slopes
    error: Floats = np.sqrt((rest**2).sum(axis=0) / (number - 2) / number)
    return error
