"""Clocks of the ranks of a job: how far each is ahead, estimated from collectives that end together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.collectives.collective_matching import TOGETHER, MatchedCollectives, matched_collectives
from perflog.metrics.traces.device_work import DEVICE_COLUMNS, seconds

_FEWEST = 3  # collectives of a rank
_ROUNDS = 20  # of reweighting
_CELLS = 1 << 22  # of a table of collectives and ranks that is in memory
_TO_SD = 1.4826  # median absolute deviation to standard deviation, of a normal distribution

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("reference", meaning="rank with the reference clock: the first"),
    MetricColumn(
        "collectives", meaning="number of its collectives that are used: matched, and none leaves early", type="Int64"
    ),
    MetricColumn("offset_s", "s", None, "estimated offset: its clock - the reference's clock"),
    MetricColumn("spread_s", "s", "lower", "how far its ends scatter around the estimate: 1.4826 * MAD"),
    MetricColumn("least_s", "s", None, "lower bound of the offset: the rank starts before the reference may end"),
    MetricColumn("most_s", "s", None, "upper bound of the offset: the reference starts before the rank may end"),
    MetricColumn(
        "possible", meaning="whether one offset fits all collectives: least_s <= most_s; no: the clock drifts"
    ),
    MetricColumn("clock_ok", meaning="whether the clocks of all ranks agree, so that waiting is known without offsets"),
    MetricColumn("reason", meaning="why the offset is not known"),
)


@metric(
    title="clocks of the ranks",
    needs=("events",),
    columns=_COLUMNS,
    main="offset_s",
    formula="offsets, ends of collectives = argmin sum |end on a rank - offset of the rank - end of the collective|; "
    "bounds with the reference: max (start - its end) <= offset <= min (end - its start)",
    source="no rank leaves an all-reduce, all-gather, reduce-scatter, all-to-all or barrier before the last arrives; "
    "least absolute deviations by iteratively reweighted least squares",
)
def rank_clocks(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Offset of the clock of each rank from the clock of the first rank, with its uncertainty.

    Metrics of waiting do not use the offsets: they print no waiting where the clocks differ. The bounds hold whatever
    the network does; the estimate assumes that the ranks leave a collective at one time.

    A trace of a single device has no rows: there is no other clock.
    """
    return [row for matched in matched_collectives(tables) for row in _rows(matched)]


def _rows(matched: MatchedCollectives) -> Iterator[dict[str, object]]:
    """Rows of the ranks of a job that is not in one file."""
    job = matched.job
    if job.one_clock:
        return
    used = matched.collectives.index[matched.collectives["op"].isin(TOGETHER)]
    calls = matched.calls[matched.calls["key"].isin(used)].sort_values("key", kind="stable")
    keys = np.unique(calls["key"].to_numpy(np.int64), return_inverse=True)[1]
    members, starts = (calls[name].to_numpy(np.int64) for name in ("member", "start"))
    ends = starts + calls["length"].to_numpy(np.int64)
    offsets, left = estimated_offsets(keys, members, ends, len(job.members))
    for member, device in enumerate(job.members):
        is_member = members == member
        n = int(is_member.sum())
        row: dict[str, object] = {
            "run": device.run, "rank": device.rank, "device": device.device,
            "device_name": device.device_name, "reference": job.name(0), "collectives": n, "clock_ok": matched.clock_ok,
        }  # fmt: skip
        if n < _FEWEST:
            row["reason"] = f"{n} matched collectives that end together: at least {_FEWEST} are needed"
        elif np.isnan(offsets[member]):
            row["reason"] = f"no collectives join it with {job.name(0)}, directly or over other ranks"
        else:
            row["offset_s"] = float(seconds(offsets[member]))
            row["spread_s"] = _TO_SD * float(seconds(np.median(np.abs(left[is_member]))))
            row |= _bounds(keys, members, starts, ends, member)
        yield row


def estimated_offsets(keys: Ints, members: Ints, ends: Ints, size: int) -> tuple[Floats, Floats]:
    """Return the offset of each member's clock from the clock of member 0 in ns, and the residual of each end.

    Args:
        keys: number of the collective of each end, from 0 without gaps, in order.
        members: member of each end.
        ends: time of each end in ns, by the clock of its member.
        size: number of members.

    Returns:
        Offsets by member, NaN where no collectives join it with member 0; and ends - offset - end of the collective.
    """
    offsets, left = np.full(size, np.nan), np.zeros(len(keys))
    if not len(keys):
        return offsets, left
    number = int(keys.max()) + 1
    first = np.full(number, np.iinfo(np.int64).max)
    np.minimum.at(first, keys, ends)
    times = (ends - first[keys]).astype(np.float64)  # exact: clocks differ by less than months
    weights: Floats = np.ones(len(keys))
    solved: Floats = np.zeros(size)
    each = max(_CELLS // size, 1)
    for _ in range(_ROUNDS):
        total = np.bincount(keys, weights, number)
        laplacian: Floats = np.diag(np.bincount(members, weights, size))
        for low in range(0, number, each):
            a, b = np.searchsorted(keys, (low, low + each))
            table = np.zeros((min(each, number - low), size))
            np.add.at(table, (keys[a:b] - low, members[a:b]), weights[a:b])
            laplacian = laplacian - (table / total[low : low + each, None]).T @ table
        mean = np.bincount(keys, weights * times, number) / total
        right = np.bincount(members, weights * (times - mean[keys]), size)
        solved = np.asarray(np.linalg.lstsq(laplacian, right, rcond=None)[0], np.float64)
        free = times - solved[members]
        left = np.asarray(free - (np.bincount(keys, weights * free, number) / total)[keys], np.float64)
        weights = 1 / np.maximum(np.abs(left), 1.0)
    joined = _joined_with_first(keys, members, size)
    offsets[joined] = solved[joined] - solved[0]
    return offsets, left


def _joined_with_first(keys: Ints, members: Ints, size: int) -> Mask:
    """Flag the members that collectives join with member 0, directly or over others."""
    joined = np.zeros(size, np.bool_)
    joined[0] = bool((members == 0).any())
    while True:
        reached = np.isin(keys, keys[joined[members]])
        more = joined.copy()
        more[members[reached]] = True
        if (more == joined).all():
            return joined
        joined = more


def _bounds(
    keys: Ints,
    members: Ints,
    starts: Ints,
    ends: Ints,
    member: int,
) -> dict[str, object]:
    """Bounds of the offset of a member, from the collectives that it has with member 0."""
    own, other = np.flatnonzero(members == member), np.flatnonzero(members == 0)
    _, i, j = np.intersect1d(keys[own], keys[other], return_indices=True)
    if not len(i):
        return {}
    if member == 0:
        return {"least_s": 0.0, "most_s": 0.0, "possible": True}
    least = int((starts[own][i] - ends[other][j]).max())
    most = int((ends[own][i] - starts[other][j]).min())
    return {"least_s": float(seconds(least)), "most_s": float(seconds(most)), "possible": least <= most}
