"""Detection of warm-up: how many values at the start of a run are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perflog.statistics.samples import NORMAL, OUTLIER, Floats, mad, modified_z_scores

_BATCH = 5  # of MSER-5
_PAYS = 0.9  # a longer warm-up must lower MSER to this part of what it was ...
_APART = 1.645  # ... and be another level: its median beyond 90 % of what follows, if that were normal


@dataclass(frozen=True)
class Warmup:
    """How many values at the start are left out, and why."""

    cut: int
    reason: str


def _mser(values: Floats) -> Floats:
    """MSER-5 of each truncation by whole batches of five: variance of what is left over its number of batches."""
    batches = values[: len(values) // _BATCH * _BATCH].reshape(-1, _BATCH).mean(axis=1)
    return np.array([np.var(batches[d:]) / (len(batches) - d) for d in range(max(len(batches) // 2, 1))])


def warm_up(values: Floats, given: int | None = None) -> Warmup:
    """The warm-up: leading outliers against the second half (modified z > 3.5), then, if it pays, the truncation of
    least MSER-5 (White 1997), outliers clipped. At most half of the values. MSER alone takes slow swings for warm-up:
    on the steady half of real runs it cuts a third of the steps.

    `given` is the user's own number and is taken as it is.
    """
    n = len(values)
    if given is not None:
        return Warmup(min(given, n), "given")
    if n < 4:
        return Warmup(0, "too few steps to tell")
    late = values[n // 2 :]
    high = modified_z_scores(values, late) > OUTLIER
    cut = 0
    while cut < n // 2 and high[cut]:
        cut += 1
    reason = f"{cut} leading step{'s' * (cut != 1)} beyond the scatter of the second half (modified z > {OUTLIER})"
    rest = values[cut:]
    if len(rest) >= 4 * _BATCH:
        spread = OUTLIER * (NORMAL * mad(late))
        centre = float(np.median(late))
        found = _mser(np.clip(rest, centre - spread, centre + spread))
        best = int(np.argmin(found))
        more = min(best * _BATCH, n // 2 - cut)
        level = abs(float(np.median(rest[:more])) - float(np.median(rest[more:]))) if more else 0.0
        if level > _APART * NORMAL * mad(rest[more:]) and found[best] < _PAYS * found[0]:
            reason = f"{reason}, and {more} by MSER-5" if cut else f"{more} steps by MSER-5"
            return Warmup(cut + more, reason)
    return Warmup(cut, reason if cut else "none found")
