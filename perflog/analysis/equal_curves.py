"""Recordings of one run in several files: its log, events of TensorBoard, a run of W&B, the state in a checkpoint.

They have the same losses in the same order, rounded in their own way. Repeats with one seed have equal losses too. So
a run has one log and one recording of each kind beside it, and the recordings that are nearest to each other in the
folder belong together. Two logs of one format are one run only if all their times of steps are equal and one is in a
folder below the other, or if they are states in two checkpoints. Recordings whose steps take longer in one than in the
other are of two runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints, Mask
from perflog.formats.registry import known
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import Tables
from perflog.tables.columns import Rows

_ENOUGH = 10  # different losses
_DIGITS = 7  # of all losses of a recording with fewer: that many equal digits are no chance
_NEARLY_ALL = 0.95  # of the losses: others are rounded at a tie, or printed twice
_MOST, _MOST_SEARCHED = 100_000, 5000  # losses of a recording that are compared at equal steps, and in their order
_SOME = 100  # losses that are looked for first
_DENSE = 10_000  # losses of each other recording that are near: to look at all takes longer than to compare the pairs
_WIDER = 1.001  # than near: rounding cannot lose what is near
_DIGITS_OF_FLOAT = 7  # of 4 bytes
_PRECISE, _FLOAT = 3, 1e-6  # decimals of a loss, at least; relative error of a float of 4 bytes
_EQUALLY_FAST = 1.1  # greater median of the times of steps / smaller one: recordings differ in what they time
_CHECKPOINT = lazy_pattern(r"(?i)(?:[a-z]*(?:checkpoint|ckpt|step|iter|epoch)[a-z]*[-_]?[0-9]+/)")
_WRITTEN = lazy_pattern(r"(?i)\.(?:csv|tsv|json|jsonl)(?:\.(?:gz|zst|xz|bz2))?$")


class _Curve(Struct, frozen=True, eq=False):
    """The losses of a recording in its order, with steps, times, and the decimals that the losses have at most.

    Attributes:
        job: The path of its log without the folders of checkpoints.
        parts: The folders above it.
        is_written: Whether a program wrote it beside its log: a document or a table, or what is not made of lines.
        ordered: The losses by their value.
    """

    run: str
    log: str
    format: str | None
    steps: Ints
    losses: Floats
    times: Floats
    decimals: int
    job: str
    parts: Sequence[str]
    is_written: bool
    ordered: Floats


_Pair = tuple[int, _Curve, _Curve]
"""Two recordings, with the number of folders that both are in."""


def equal_curves(tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield pairs of runs that are recordings of one run, by their losses: the first of each, and another one."""
    curves = _curves(tables)
    candidates = _of_one_format(curves) | {(i, j) for i, j in _sharing(curves) if _may_be_one(curves[i], curves[j])}
    pairs = [(_common_folders(curves[i], curves[j]), curves[i], curves[j]) for i, j in sorted(candidates)]
    nearest = _nearest(curves, pairs)
    near = (pair for pair in pairs if pair[0] in (nearest[pair[1].run], nearest[pair[2].run]))
    equal = [pair for pair in near if _are_equal(*pair[1:])]
    recordings = {curve.run: [curve] for curve in curves}  # of the run that each records
    for _, one, other in sorted(_unambiguous(equal), key=lambda pair: -pair[0]):
        mine, its = recordings[one.run], recordings[other.run]
        if mine is its or not _fit(mine, its):
            continue
        mine += its
        for curve in its:
            recordings[curve.run] = mine
    seen: set[int] = set()
    for curve in curves:
        every = recordings[curve.run]
        if id(every) not in seen:
            seen.add(id(every))
            yield from ((every[0].run, other.run) for other in every[1:])


def _of_one_format(curves: Sequence[_Curve]) -> set[tuple[int, int]]:
    """Return the pairs of one format that may be of one run, as indices."""
    alike: dict[tuple[str | None, str | bytes], list[int]] = {}
    for place, curve in enumerate(curves):
        alike.setdefault((curve.format, curve.job), []).append(place)
        times = curve.times[~np.isnan(curve.times)][:_ENOUGH]
        alike.setdefault((curve.format, (times + 0.0).tobytes()), []).append(place)  # without a sign of zero
    found = {pair for places in alike.values() for pair in combinations(places, 2)}
    return {(i, j) for i, j in found if _may_be_one(curves[i], curves[j])}


def _nearest(curves: Sequence[_Curve], pairs: Sequence[_Pair]) -> dict[str, int]:
    """Return how many folders each recording has in common with the nearest one that may be of its run.

    `pairs`: pairs of one format. Others may be of one run if a program wrote one of them, whatever their losses.
    """
    logs: dict[tuple[str, ...], dict[tuple[str | None, bool], set[str]]] = {}  # in a folder, two of a kind at most
    for curve in curves:
        for depth in range(len(curve.parts) + 1):
            kinds = logs.setdefault(tuple(curve.parts[:depth]), {})
            kind_logs = kinds.setdefault((curve.format, curve.is_written), set())
            if len(kind_logs) < 2:
                kind_logs.add(curve.log)
    nearest: dict[str, int] = {}
    for curve in curves:
        for depth in range(len(curve.parts), -1, -1):
            kinds = logs[tuple(curve.parts[:depth])]
            if any(
                form != curve.format and (written or curve.is_written) and kind_logs != {curve.log}
                for (form, written), kind_logs in kinds.items()
            ):
                nearest[curve.run] = depth
                break
    for depth, one, other in pairs:
        for run in (one.run, other.run):
            nearest[run] = max(nearest.get(run, 0), depth)
    return nearest


def _sharing(curves: Sequence[_Curve]) -> Iterator[tuple[int, int]]:
    """Yield pairs of recordings that may share their losses (`_share_losses`), as indices: all that do, and few others.

    The losses of all others are in one order, so that no two recordings that share none are compared.
    """
    by_decimals = grouped((curve.decimals, place) for place, curve in enumerate(curves) if curve.decimals >= _PRECISE)
    for decimals, places in by_decimals.items():
        losses = np.concatenate([curves[place].losses for place in places])
        owner = np.repeat(np.arange(len(places)), [len(curves[place].losses) for place in places])
        order = np.argsort(losses)
        losses, owner = losses[order], owner[order]
        for short in chain.from_iterable(by_decimals.values()):
            some = _some(curves[short])
            margin = _WIDER * _margin(some, _near(min(decimals, curves[short].decimals)))
            with np.errstate(invalid="ignore"):  # of infinity, which is near to nothing
                begins, ends = np.searchsorted(losses, some - margin), np.searchsorted(losses, some + margin, "right")
            shared = np.zeros((len(some), len(places)), np.bool_)
            if (ends - begins).sum() > _DENSE * len(places):
                shared[:] = True
            else:
                for shared_by, begin, end in zip(shared, begins.tolist(), ends.tolist(), strict=True):
                    shared_by[owner[begin:end]] = True
            for long in (places[k] for k in np.flatnonzero(2 * shared.sum(axis=0) >= len(some)).tolist()):
                if (len(curves[short].losses), short) < (len(curves[long].losses), long):
                    yield min(short, long), max(short, long)


def _unambiguous(pairs: Sequence[_Pair]) -> Iterator[_Pair]:
    """Yield the pairs that leave no choice.

    A recording that equals several runs of another format, all in folders as near to its own, may be of any of them:
    its pairs are left out.
    """
    fitting: dict[tuple[str, str | None, int], list[_Curve]] = {}
    for depth, one, other in pairs:
        fitting.setdefault((one.run, other.format, depth), []).append(other)
        fitting.setdefault((other.run, one.format, depth), []).append(one)
    for depth, one, other in pairs:
        candidates = fitting[one.run, other.format, depth], fitting[other.run, one.format, depth]
        if all(_fit(curves, curves) for curves in candidates):  # they are recordings of one run themselves
            yield depth, one, other


def _fit(mine: Sequence[_Curve], its: Sequence[_Curve]) -> bool:
    """Return whether all these recordings may be of one run: those of one format are."""
    return all(a is b or a.format != b.format or _is_same_of_format(a, b) for a in mine for b in its)


def _curves(tables: Tables) -> list[_Curve]:
    """Return the losses of the runs by step; none if all runs are in one log."""
    facts = {run: (log, form) for run, log, form in tables.rows("runs").records("run", "log", "format")}
    found = []
    for run, rows in tables.rows_by_run("steps").items():
        rows = _once(rows.where(rows.known("loss")))
        losses = rows["loss"]
        if 0 < len(losses) <= _MOST:
            decimals = max(decimals_of(loss, _DIGITS_OF_FLOAT) for loss in losses[:_ENOUGH].tolist())
            log, form = facts[run][0] or "", facts[run][1]
            job, parts = _CHECKPOINT.sub("", log), os.path.dirname(log).split("/")
            is_written = form not in known() or _WRITTEN.search(log) is not None
            columns = rows["step"], losses, rows["step_time_s"]
            found.append(_Curve(run, log, form, *columns, decimals, job, parts, is_written, np.sort(losses)))
    return found if len({curve.log for curve in found}) > 1 else []


def _once(rows: Rows) -> Rows:
    """Return the rows without the further rows of a step, which other ranks print."""
    rows = rows.where(np.argsort(rows["line"], kind="stable"))
    known = rows.known("step")
    _, first = np.unique(rows["step"], return_index=True)
    return rows.where(np.sort(first)) if known.all() else rows


def decimals_of(value: float, digits: int) -> int:
    """Return the decimals of a number that is rounded to so many significant digits: 8 of 1.234e-05."""
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    return max(len(mantissa.partition(".")[2]) - int(exponent or 0), 0)


def _common_folders(one: _Curve, other: _Curve) -> int:
    """Return how many folders both paths have in common, from the outermost on."""
    if one.parts == other.parts:
        return len(one.parts)
    return next(k for k, (a, b) in enumerate(zip([*one.parts, None], [*other.parts, None], strict=False)) if a != b)


def _may_be_one(one: _Curve, other: _Curve) -> bool:
    if one.log == other.log:
        return False
    if one.format == other.format:
        return _is_same_of_format(one, other)
    return one.is_written or other.is_written


def _is_same_of_format(one: _Curve, other: _Curve) -> bool:
    """Return whether two logs of one format are of one run: states in its checkpoints, or a copy in a folder below."""
    if one.job == other.job:
        return True
    if len(one.parts) == len(other.parts):
        return False
    outer, inner = sorted((one.parts, other.parts), key=len)
    if inner[: len(outer)] != outer:
        return False
    mine, its = one.times[~np.isnan(one.times)], other.times[~np.isnan(other.times)]
    least = min(len(mine), len(its))
    return least >= _ENOUGH and len(np.unique(mine)) >= _ENOUGH and np.array_equal(mine[:least], its[:least])


def _are_equal(one: _Curve, other: _Curve) -> bool:
    """Return whether two recordings have the same losses: at equal steps, or in the same order."""
    decimals = min(one.decimals, other.decimals)
    if decimals < _PRECISE or not _may_be_equally_fast(one, other):
        return False
    near = _near(decimals)
    if not _share_losses(one, other, near):
        return False
    _, mine, its = np.intersect1d(one.steps, other.steps, return_indices=True)
    least, most = sorted((len(one.losses), len(other.losses)))
    if len(mine) == least:
        equal = _is_near(one.losses[mine], other.losses[its], near)
        distinct = {f"{loss:.{decimals}f}" for loss in one.losses[mine][equal].tolist()}
        if least < _ENOUGH:  # any run may begin with this loss: ln 2
            digits = sum(len(loss.replace(".", "").lstrip("0")) for loss in distinct)
            return bool(equal.all()) and digits >= _DIGITS and max(mine.min(), its.min()) > 0
        if equal.mean() >= _NEARLY_ALL:
            return len(distinct) >= _ENOUGH
    return most <= min(2 * least, _MOST_SEARCHED) and _follow(one.losses, other.losses, near)


def _may_be_equally_fast(one: _Curve, other: _Curve) -> bool:
    """Return whether the steps of two recordings take about equally long, as far as both time enough of them."""
    times = [curve.times[~np.isnan(curve.times)] for curve in (one, other)]
    if min(map(len, times)) < _ENOUGH:
        return True
    shorter, longer = sorted(map(np.median, times))
    return bool(longer <= shorter * _EQUALLY_FAST)


def _share_losses(one: _Curve, other: _Curve, near: float) -> bool:
    """Return whether half of some losses of the shorter recording are in the longer one: most pairs share none."""
    short, long = sorted((one, other), key=lambda curve: len(curve.losses))
    some = _some(short)
    place = np.searchsorted(long.ordered, some)
    around = (long.ordered[np.clip(k, 0, len(long.ordered) - 1)] for k in (place - 1, place))
    return bool(np.mean(np.logical_or(*(_is_near(some, losses, near) for losses in around))) >= 0.5)


def _some(curve: _Curve) -> Floats:
    """Return some losses of a recording."""
    return curve.losses[:: len(curve.losses) // _SOME + 1]


def _near(decimals: int) -> float:
    """Return how far apart two roundings of a loss to so many decimals are at most."""
    return 0.51 * 10.0**-decimals


def _margin(losses: Floats, near: float) -> Floats:
    """Return how far the same losses are at most, as floats of 4 bytes too."""
    return np.asarray(near + _FLOAT * np.abs(losses))


def _is_near(losses: Floats, others: Floats, near: float) -> Mask:
    close: Mask = np.abs(losses - others) <= _margin(losses, near)
    return close


def _follow(one: Floats, other: Floats, near: float) -> bool:
    """Return whether nearly all losses of the shorter recording are in the longer one, in the same order."""
    short, long = sorted((one, other), key=len)
    place, missed, found = 0, 0, set[float]()
    for loss in short.tolist():
        ahead = np.flatnonzero(_is_near(long[place:], np.array(loss), near))
        if len(ahead):
            place += int(ahead[0]) + 1
            found.add(loss)
        else:
            missed += 1
            if missed > (1 - _NEARLY_ALL) * len(short):
                return False
    return len(found) >= _ENOUGH
