"""Shifts: changes of the level of a long series, such as the step times of a run, that last.

Optimal partitioning segments the medians of blocks of neighbouring values: a median hides single outliers and short
periods. A cut counts if both tests of `levels` agree, and if it is a step. A slope or a slow drift, which serial
dependence causes, is none. At a step, the values right before and after differ by most of the change and by more than
neighbouring values do elsewhere, and neither side changes as much by itself.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from perflog.arrays import Floats
from perflog.statistics.levels import Level, cut_p
from perflog.statistics.samples import NORMAL, mad, median

FEWEST = 24
"""Fewer values are one level."""

_BLOCKS = 60  # approximate number of blocks
_SMALLEST_BLOCK = 3
_SMALLEST_FOR_SEGMENTS = 2  # few larger blocks have too few orders for a test of a short segment
_SINGLE = 5.0  # times the scatter: a block this far from both neighbours is an outlier
_SHORTEST = 8  # values of a level
_LEAST = 0.02  # change of a level, relative
_CLEAR = 4.0  # times the scatter of the blocks
_ABRUPT = 0.6  # of the change lies between the values next to the cut
_SLOPE = 0.5  # of the change, within one of the levels: it is a slope
_WINDOW = 3  # least number of values on each side of a cut: the difference of their medians is the jump
_STEEP, _FEW = 1.6, 16.0  # least ratio of the jump to jumps elsewhere; larger in a series of few values
_OFTEN = 0.95  # quantile of the jumps elsewhere
_COPIED = 1 << 22  # values in all windows, up to which NumPy computes their medians
_MOST = 12  # levels; a series with more drifts
_SIGNIFICANT = 0.02  # p-value of a cut, by both tests
_PRICE = 3.0  # of a level, times the logarithm of the number of blocks and the variance of their noise


def shifts(values: Floats) -> list[Level]:
    """Return the levels of positive values in the order of time; one if nothing shifts."""
    if len(values) >= FEWEST and (np.isfinite(values) & (values > 0)).all():
        logs = np.log(values)
        for smallest, fewest in ((_SMALLEST_BLOCK, 2), (_SMALLEST_FOR_SEGMENTS, 3)):
            found = _shifts(logs, max(smallest, math.ceil(len(values) / _BLOCKS)))
            if fewest <= len(found) <= _MOST:
                return found
    return [Level(0, len(values), math.nan)]


def _shifts(logs: Floats, size: int) -> list[Level]:
    """Return the levels of logarithms by the cuts of their blocks that count."""
    n = len(logs)
    blocks = np.median(logs[: n // size * size].reshape(-1, size), axis=1)
    noise = max(mad(np.diff(blocks)) * NORMAL / math.sqrt(2), 1e-12)
    cuts = _cuts(_without_single(blocks, noise), max(noise, math.log1p(_LEAST) / _CLEAR))
    p = [math.nan, *(cuts[cut] for cut in sorted(cuts))]  # of the cut before each level
    edges = _moved(logs, [0, *(cut * size for cut in sorted(cuts)), n], size)
    while len(p) > 1:
        grades = [_grade(logs, edges[i - 1], edges[i], edges[i + 1], size, noise) for i in range(1, len(p))]
        worst = 1 + int(np.argmin(grades))
        if grades[worst - 1] >= 1:
            break
        del edges[worst], p[worst]
        edges = _moved(logs, edges, size)
    return [Level(*ends, cut_p) for ends, cut_p in zip(pairwise(edges), p, strict=True)]


def _cuts(blocks: Floats, noise: float) -> dict[int, float]:
    """Return the cuts of the blocks that are significant, with their p-values: both sides of each are one level."""
    edges = _best_edges(blocks, noise)
    while len(edges) > 2:
        p = [cut_p(blocks[a:c], b - a) for a, b, c in zip(edges, edges[1:], edges[2:], strict=False)]
        worst = int(np.argmax(p))
        if p[worst] <= _SIGNIFICANT:
            return dict(zip(edges[1:-1], p, strict=True))
        del edges[1 + worst]
    return {}


def _best_edges(blocks: Floats, noise: float) -> list[int]:
    """Return the edges of the levels with the least squared error, where each level has a price (optimal partitioning).

    Algorithm: Jackson et al. 2005, doi:10.1109/LSP.2001.838216. Unlike a search for one cut after the other, it finds
    levels that alternate.
    """
    n = len(blocks)
    sums, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (blocks, blocks**2))
    costs, begins = np.zeros(n + 1), [0]
    for end in range(1, n + 1):
        begin = np.arange(end)
        within = squares[end] - squares[:end] - (sums[end] - sums[:end]) ** 2 / (end - begin)
        total = costs[:end] + within + _PRICE * math.log(n) * noise**2
        begins.append(int(np.argmin(total)))
        costs[end] = total[begins[end]]
    edges = [n]
    while edges[-1]:
        edges.append(begins[edges[-1]])
    return edges[::-1]


def _without_single(blocks: Floats, noise: float) -> Floats:
    """Replace a block that is far from both neighbours, such as one with two pauses, by their mean."""
    before, here, after = blocks[:-2], blocks[1:-1], blocks[2:]
    far = np.minimum(np.abs(here - before), np.abs(here - after)) > _SINGLE * noise
    far &= (here > before) == (here > after)
    return np.concatenate([blocks[:1], np.where(far, (before + after) / 2, here), blocks[-1:]])


def _moved(logs: Floats, edges: list[int], size: int) -> list[int]:
    """Move each cut to the index nearby with the least sum of absolute deviations on both sides."""
    moved = [edges[0]]
    for before, cut, after in zip(edges[:-2], edges[1:-1], edges[2:], strict=True):
        low, high = max(cut - 2 * size, before + 1, moved[-1] + 1), min(cut + 2 * size, after - 1)
        part = logs[low:high]
        to_left = np.abs(part - median(logs[before:low] if low > before else logs[before:cut]))
        to_right = np.abs(part - median(logs[high:after]))
        costs = np.append(0, np.cumsum(to_left)) + np.append(np.cumsum(to_right[::-1])[::-1], 0)
        moved.append(low + int(np.argmin(costs)))
    return [*moved, edges[-1]]


def _grade(logs: Floats, start: int, cut: int, stop: int, size: int, noise: float) -> float:
    """Return how clear a cut is; below 1 it does not count."""
    left, right = logs[start:cut], logs[cut:stop]
    if min(len(left), len(right)) < _SHORTEST:
        return 0.0
    change = abs(median(right) - median(left))
    near = min(len(left), len(right), max(_SHORTEST, 2 * size))
    jump = abs(median(right[:near]) - median(left[-near:]))
    scatter = max(noise, _block_scatter(left, size), _block_scatter(right, size))
    slope = max(_slope(left), _slope(right))
    return min(
        change / math.log1p(_LEAST), change / (_CLEAR * scatter), jump / (_ABRUPT * change or 1),
        _SLOPE * change / slope if slope else math.inf, _steepness(left, right, size, len(logs)),
    )  # fmt: skip


def _steepness(left: Floats, right: Floats, size: int, n: int) -> float:
    """Return the jump at a cut over the jumps between neighbouring windows on either side."""
    width = min(len(left), len(right), max(_WINDOW, size))
    usual = np.concatenate([_differences(left, width), _differences(right, width)])
    allowed = _STEEP * (1 + _FEW / n) * float(np.quantile(usual, _OFTEN)) if len(usual) else 0.0
    jump = abs(median(right[:width]) - median(left[-width:]))
    return jump / allowed if allowed else math.inf


def _differences(values: Floats, width: int) -> Floats:
    """Return the absolute differences between the medians of neighbouring windows."""
    if len(values) < 2 * width:
        return values[:0]
    medians = _running_medians(values, width)
    differences: Floats = medians[width:] - medians[:-width]
    return np.abs(differences, out=differences)


def _running_medians(values: Floats, width: int) -> Floats:
    """Return the median of each window of `width` values. pandas slides over the values; NumPy copies each window."""
    if len(values) * width <= _COPIED:
        windows: Floats = np.median(np.lib.stride_tricks.sliding_window_view(values, width), axis=1)
        return windows
    import pandas as pd  # its import takes as long as copying so many values

    medians: Floats = pd.Series(values).rolling(width).median().to_numpy()
    return medians[width - 1 :]


def _block_scatter(values: Floats, size: int) -> float:
    whole = len(values) // size
    return mad(np.median(values[: whole * size].reshape(-1, size), axis=1)) * NORMAL if whole > 2 else 0.0


def _slope(values: Floats) -> float:
    half = len(values) // 2
    return abs(median(values[half:]) - median(values[:half]))
