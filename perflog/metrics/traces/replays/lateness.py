"""Lateness: what a rank does between collectives that the other ranks do not do, or do faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.collectives.collective_matching import matched_collectives
from perflog.metrics.traces.device_work import DEVICE_COLUMNS, TraceDevice, seconds
from perflog.metrics.traces.replays.arrivals import own_work
from perflog.metrics.traces.replays.own_time import OwnTime
from perflog.statistics.samples import lower_median

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn(
        "doing", meaning="compute, communication (of no matched collective), memory (copies, memsets), waiting or idle"
    ),
    MetricColumn("name", meaning="of the work; of idle time the innermost range, or call that allocates memory, that "
                 "the host is in before it launches the next work, else its outermost operator or call; null: the host "
                 "is in no call, or the next work is launched"),
    MetricColumn("time_s", "s", "lower", "time of this on the rank, while it is on its own"),
    MetricColumn("typical_s", "s", "lower", "the same, median over the ranks of the job, of two ranks the lower"),
    MetricColumn("longer_s", "s", "lower", "time_s - typical_s"),
    MetricColumn("ratio", "1", "lower", "time_s / typical_s"),
    MetricColumn("of_span", "1", "lower", "longer_s / time from the device's first to its last event"),
)  # fmt: skip


@metric(
    title="lateness: what a rank does longer than the others",
    needs=("events",),
    columns=_COLUMNS,
    main="longer_s",
    formula="a rank is on its own from the end of the collective that its work had waited for, or from its arrival at "
    "the collective before, until it is ready for the next one; time_s = sums over these times: of each moment the "
    "state, as in `device_time`, and of several pieces of one state the one that began first",
    source="own; what the work of a rank had waited for: dependencies as in `critical_path`",
)
def lateness(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """What each rank of a job does between collectives, against the median of the ranks; the largest excess first.

    The ranks of a job have rows if their clocks agree and the launches of their work are known.

    A trace of a single device has no rows: there is no other rank to compare it with.
    """
    between = own_work(tables)
    rows: list[dict[str, object]] = []
    for matched in matched_collectives(tables):
        members = matched.job.members
        times = [between[id(device)].times for device in members if id(device) in between]
        if times and len(times) == len(members):
            rows += _rows(members, times)
    return rows


def _rows(members: Sequence[TraceDevice], times: Sequence[Sequence[OwnTime]]) -> Iterator[dict[str, object]]:
    by_member = [{(doing, name): int(ns) for doing, name, ns in each} for each in times]
    whats = list(dict.fromkeys(what for each in by_member for what in each))
    table = np.array([[each.get(what, 0) for what in whats] for each in by_member], np.int64)
    typical = lower_median(table)
    longer = table - typical
    for place in np.argsort(-longer, axis=None, kind="stable"):
        member, i = (int(index) for index in np.unravel_index(place, table.shape))
        device, own, (doing, name) = members[member], table[member, i], whats[i]
        if own or typical[i]:
            yield {
                "run": device.run, "rank": device.rank, "device": device.device, "device_name": device.device_name,
                "doing": doing, "name": name, "time_s": float(seconds(own)),
                "typical_s": float(seconds(typical[i])), "longer_s": float(seconds(longer[member, i])),
                "ratio": own / typical[i] if typical[i] else None,
                "of_span": longer[member, i] / device.span if device.span else None,
            }  # fmt: skip
