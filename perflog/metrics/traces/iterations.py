"""Iterations of a device without annotated steps, found where the sequence of its kernels clearly repeats.

A kernel that is launched once in each iteration cuts the sequence into pieces that launch the same kernels equally
often. Layers of a model repeat as well, but after them, or before them, something else runs: what lies at the
ends of a trace must be a part of an iteration, unless the pieces hold the optimizer, which no layer does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.metrics.traces.device_steps import NO_STEPS, TraceSteps
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL

_FEWEST = 3  # iterations
_SHORTEST = 10  # launches of an iteration: fewer are a loop around a few kernels
_ALIKE = 0.9  # of the launches of two iterations
_EXACTLY = 0.999  # without an optimizer, which distinguishes iterations from layers
_LESS = 0.005  # allowed deficit of similarity of the first and the last iteration, if they are complete
_CLEARLY = 0.03  # worse than the best: then something shorter repeats inside of the iterations
_REGULAR = 1.25  # the longest iteration / the shortest one, in launches
_FOREIGN = 0.01  # of an iteration, at the ends of a trace
_MOST = 1 << 22  # counts of kernels, of all iterations together
_NOWHERE = -(1 << 62)  # a position that stays below 0 with any offset added


def iterations(starts: Ints, ends: Ints, names: Ints, streams: Ints, optimizer: Mask) -> TraceSteps:
    """Return the iterations of a device, numbered from 1; none where the sequence does not clearly repeat.

    An iteration begins with its first kernel, and ends when the next one begins, the last one with its last work.

    Args:
        starts: Begin of each kernel of the device, in order, in ns.
        ends: End of each.
        names: Name of each, as a code.
        streams: Stream of each.
        optimizer: Mask of the optimizer's kernels.
    """
    if not len(streams):
        return NO_STEPS
    by_stream = groups_of(streams)
    main = np.flatnonzero(by_stream.inverse == by_stream.sizes.argmax())  # kernels of the stream with the most
    codes = groups_of(names[main]).inverse
    repetition = _clearest(codes, optimizer[main])
    if repetition is None:
        return NO_STEPS
    cuts = _boundaries(repetition, codes, optimizer[main])
    begins = starts[main[cuts[:-1]]]
    if len(begins) < _FEWEST:
        return NO_STEPS
    # The last boundary is the end of the trace, or the first kernel of an incomplete iteration.
    end = int(ends.max()) if cuts[-1] == len(main) else int(starts[main[cuts[-1]]])
    no_lines = np.full(len(begins), NULL, np.int64)  # no event annotates an iteration
    return TraceSteps(np.arange(1, len(begins) + 1), begins, np.append(begins[1:], end), no_lines)


class _Repetition(Struct, frozen=True, eq=False):
    """Positions of a kernel that is launched once in each iteration, the launches of one, and their similarity."""

    anchors: Ints
    usual: Ints
    alike: float


def _clearest(codes: Ints, optimizer: Mask) -> _Repetition | None:
    """Return the repetition with the most iterations among the most similar ones."""
    found = [
        each for anchors in _regular(codes, optimizer) if (each := _repetition(codes, anchors, optimizer)) is not None
    ]
    best = max((each.alike for each in found), default=0.0)
    clear = (each for each in found if each.alike >= best - _CLEARLY)
    return max(clear, key=lambda each: (len(each.anchors), each.alike), default=None)


def _regular(codes: Ints, optimizer: Mask) -> Iterator[Ints]:
    """Yield the positions of kernels with nearly equal distances: one kernel of several with the same count.

    Also of the first kernel of the optimizer after others.
    """
    counts = np.bincount(codes)
    order = np.argsort(codes, kind="stable")
    begins = np.cumsum(counts) - counts
    most_regular: dict[int, tuple[float, Ints]] = {}
    able = np.flatnonzero((counts >= _FEWEST) & (counts <= len(codes) // _SHORTEST)).tolist()
    optimizer_kernels = np.flatnonzero(optimizer)
    first = optimizer_kernels[np.diff(optimizer_kernels, prepend=-_SHORTEST) >= _SHORTEST]
    for positions in (first, *(order[begins[code] : begins[code] + counts[code]] for code in able)):
        if len(positions) < _FEWEST or len(positions) * len(counts) > _MOST:
            continue
        distances = np.diff(positions)
        ratio = float(distances.max() / distances.min())
        if distances.min() >= _SHORTEST and ratio <= _REGULAR:
            known = most_regular.get(len(positions))
            if known is None or ratio < known[0]:
                most_regular[len(positions)] = ratio, positions
    yield from (positions for _, positions in most_regular.values())


def _repetition(codes: Ints, anchors: Ints, optimizer: Mask) -> _Repetition | None:
    pieces = _launches(codes, anchors)
    inner = pieces[1:-1]
    usual = np.median(inner, axis=0).astype(np.int64)
    alike = min(_similar(each, usual) for each in inner)
    in_optimizer = np.zeros(len(usual), np.bool_)
    in_optimizer[codes[optimizer]] = True
    if alike < _ALIKE:
        return None
    if optimizer.any():
        least = usual[in_optimizer].sum() / 2
        if least and (inner[:, in_optimizer].sum(axis=1) >= least).all():
            return _Repetition(anchors, usual, alike)
        return None
    exactly = alike >= _EXACTLY and all(_part_of(each, usual) for each in pieces[[0, -1]])
    return _Repetition(anchors, usual, alike) if exactly else None


def _part_of(launches: Ints, usual: Ints) -> bool:
    """Whether a piece launches nothing that an iteration does not."""
    return bool(np.maximum(launches - usual, 0).sum() <= _FOREIGN * usual.sum())


def _launches(codes: Ints, cuts: Ints) -> Ints:
    """How often each kernel is launched in each piece between these cuts, and before and after them."""
    edges = [0, *cuts.tolist(), len(codes)]
    width = int(codes.max()) + 1
    return np.array([np.bincount(codes[a:b], minlength=width) for a, b in pairwise(edges)])


def _similar(launches: Ints, others: Ints) -> float:
    """The share of the launches that two pieces have in common."""
    return 1 - float(np.abs(launches - others).sum() / max(int(launches.sum() + others.sum()), 1))


def _boundaries(found: _Repetition, codes: Ints, optimizer: Mask) -> Ints:
    """Positions at which iterations begin, and where the last one ends.

    They begin where the trace does if that is no start-up, else after the optimizer. What lies at the ends of the trace
    is an iteration if it launches what others do.
    """
    begin, end = found.anchors[:2].tolist()
    base = _in_order(codes[begin:end], len(codes))
    edges = [*found.anchors.tolist(), len(codes)]
    table = np.array([a + _positions(base, _in_order(codes[a:b], len(codes))) for a, b in pairwise(edges)], np.int64)
    known = (table[:-1] >= 0).all(axis=0)
    before_first, optimizer_kernels = int(found.anchors[0]), np.flatnonzero(optimizer[begin:end])
    if before_first < end - begin and _part_of(_launches(codes, found.anchors)[0], found.usual):
        least = (end - begin - before_first) % (end - begin)  # the trace begins with one
    else:
        least = int(optimizer_kernels[-1]) + 1 if len(optimizer_kernels) else 0
    able = np.flatnonzero(known & (np.arange(end - begin) >= least))
    column = int(able[0]) if len(able) else 0  # else the kernel that cuts
    cuts = table[:, column]
    cuts = cuts[cuts >= 0]
    first, *_, last = (_similar(each, found.usual) >= found.alike - _LESS for each in _launches(codes, cuts))
    return np.array([*[0][: int(first)], *cuts.tolist(), *[len(codes)][: int(last)]], np.int64)


def _in_order(codes: Ints, most: int) -> Ints:
    """Return each kernel of a piece as a number: a code of its name and of how often it came before in the piece."""
    order = np.argsort(codes, kind="stable")
    alike = codes[order]
    before = np.empty(len(codes), np.int64)
    before[order] = np.arange(len(codes)) - np.searchsorted(alike, alike)
    return codes * most + before


def _positions(base: Ints, others: Ints) -> Ints:
    """The position of each kernel of a piece in another piece; `_NOWHERE` if that has no such kernel."""
    order = np.argsort(others)
    positions = np.minimum(np.searchsorted(others[order], base), len(others) - 1)
    return np.where(others[order][positions] == base, order[positions], _NOWHERE)
