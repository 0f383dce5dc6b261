"""Detection of the warm-up: how many values at the start of a run to cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perflog.statistics.samples import NORMAL, OUTLIER, Floats, mad, modified_z_scores

_BATCH = 5  # of MSER-5
_PAYS = 0.9  # a longer warm-up must lower MSER to at most this share ...
_APART = 1.645  # ... and be another level: its median is outside of 90 % of a normal distribution of the steady values


@dataclass(frozen=True)
class Warmup:
    """Number of values cut at the start, and the reason."""

    cut: int
    reason: str


def _mser(values: Floats) -> Floats:
    """MSER-5 of each truncation by whole batches of five: variance of the remaining batches / their number."""
    batches = values[: len(values) // _BATCH * _BATCH].reshape(-1, _BATCH).mean(axis=1)
    return np.array([np.var(batches[d:]) / (len(batches) - d) for d in range(max(len(batches) // 2, 1))])


def warm_up(values: Floats, chosen: int | None = None) -> Warmup:
    """Return the warm-up of a run, at most half of its values.

    First the leading outliers against the second half (modified z > 3.5). Then, if it pays, the truncation of the least
    MSER-5 (White 1997), with outliers clipped. MSER alone mistakes slow swings for warm-up: on the steady half of real
    runs it cuts a third of the steps.

    `chosen` is the number that the user chose, and is taken as it is.
    """
    n = len(values)
    if chosen is not None:
        return Warmup(min(chosen, n), "given")
    if n < 4:
        return Warmup(0, "too few steps to tell")
    late = values[n // 2 :]
    high = modified_z_scores(values, late) > OUTLIER
    cut = 0
    while cut < n // 2 and high[cut]:
        cut += 1
    reason = f"{cut} leading step{'s' * (cut != 1)} beyond the scatter of the second half (modified z > {OUTLIER})"
    remaining = values[cut:]
    if len(remaining) >= 4 * _BATCH:
        spread = OUTLIER * (NORMAL * mad(late))
        centre = float(np.median(late))
        mser = _mser(np.clip(remaining, centre - spread, centre + spread))
        best = int(np.argmin(mser))
        more = min(best * _BATCH, n // 2 - cut)
        distance = abs(float(np.median(remaining[:more])) - float(np.median(remaining[more:]))) if more else 0.0
        if distance > _APART * NORMAL * mad(remaining[more:]) and mser[best] < _PAYS * mser[0]:
            reason = f"{reason}, and {more} by MSER-5" if cut else f"{more} steps by MSER-5"
            return Warmup(cut + more, reason)
    return Warmup(cut, reason if cut else "none found")
