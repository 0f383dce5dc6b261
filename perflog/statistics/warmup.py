"""Detection of the warm-up: the number of values to remove at the start of a run.

Leading outliers by the modified z-score (Iglewicz and Hoaglin 1993), then MSER-5 (White 1997,
doi:10.1177/003754979706900601) where it pays.

Known limits: at most half of a run is warm-up. A run that is still warming up at its end has none.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.statistics.samples import NORMAL, OUTLIER, mad, median, modified_z_scores
from perflog.units import count

_BATCH = 5  # of MSER-5
_ROUNDING = 8 * np.finfo(np.float64).eps  # of the largest mean square: bound of the rounding error of MSER
_PAYS = 0.9  # a longer warm-up must lower MSER to at most this share ...
_APART = 1.645  # ... and have another level: its median outside of 90 % of a normal distribution of the steady values
_SAME_WAY = 0.25  # of the distance of a warm-up: the halves of the rest lie apart by less


class Warmup(Struct, frozen=True):
    """Number of values removed at the start, and the reason."""

    cut: int
    reason: str


def _mser(values: Floats) -> tuple[int, bool]:
    """Return the number of values to remove by MSER-5, and whether that lowers MSER enough to pay.

    MSER of a truncation by whole batches of five is the variance of the remaining batches / their number. Cumulative
    sums from the end give MSER of all truncations at once, with rounding errors: a sum of n squares is off by at most n
    of its own roundings, and MSER divides it by n twice. The shortest truncation within the rounding error of the
    minimum is returned.
    """
    batches = values[: len(values) // _BATCH * _BATCH].reshape(-1, _BATCH).mean(axis=1)
    tried = max(len(batches) // 2, 1)
    centred = batches - batches.mean()
    left = np.arange(len(batches), 0, -1)[:tried]
    means, squares = (np.cumsum(x[::-1])[::-1][:tried] / left for x in (centred, centred**2))
    estimates = (squares - means**2) / left
    best = int(np.argmax(estimates <= estimates.min() + _ROUNDING * squares.max()))
    return best * _BATCH, bool(_mser_of(batches, best) < _PAYS * _mser_of(batches, 0))


def _mser_of(batches: Floats, cut: int) -> float:
    return float(np.var(batches[cut:]) / (len(batches) - cut))


def _goes_on(removed: Floats, kept: Floats) -> bool:
    """Return whether the values that are kept move on as those before them did: growth over a whole run is no warm-up.

    Of a straight line cut in its middle, the halves of the second part are half as far apart as the two parts.
    """
    moved, middle = median(kept) - median(removed), len(kept) // 2
    return bool((median(kept[middle:]) - median(kept[:middle])) * np.sign(moved) > _SAME_WAY * abs(moved))


def warm_up(values: Floats, chosen: int | None = None) -> Warmup:
    """Return the warm-up of a run, at most half of its values.

    First, leading outliers against the second half are removed (modified z > 3.5). Then, if it pays, the values before
    the minimum of MSER-5 (White 1997, doi:10.1177/003754979706900601), with outliers clipped. MSER alone mistakes slow
    variation for warm-up: on the steady half of real runs it removes a third of the steps.

    `chosen` is the number that the user chose, and is taken as it is.
    """
    n = len(values)
    if chosen is not None:
        return Warmup(min(chosen, n), "given")
    if n < 4:
        return Warmup(0, "too few steps")
    late = values[n // 2 :]
    high = modified_z_scores(values, late) > OUTLIER
    cut = 0
    while cut < n // 2 and high[cut]:
        cut += 1
    reason = f"{count(cut, 'leading step')} beyond the scatter of the second half (modified z > {OUTLIER})"
    remaining = values[cut:]
    if len(remaining) >= 4 * _BATCH:
        spread = OUTLIER * (NORMAL * mad(late))
        centre = median(late)
        more, pays = _mser(np.clip(remaining, centre - spread, centre + spread))
        more = min(more, n // 2 - cut)
        kept = remaining[more:]
        distance = abs(median(remaining[:more]) - median(kept)) if more else 0.0
        if distance > _APART * NORMAL * mad(kept) and pays and not _goes_on(remaining[:more], kept):
            reason = f"{reason}, and {more} by the MSER-5 rule" if cut else f"{more} leading steps by the MSER-5 rule"
            return Warmup(cut + more, reason)
    return Warmup(cut, reason if cut else "none found")
