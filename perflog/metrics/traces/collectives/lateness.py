"""Lateness: what the last rank of a collective did while the others waited for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from perflog.arrays import Ints
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.collectives.collective_matching import MatchedCollectives, matched_collectives
from perflog.metrics.traces.device_work import DEVICE_COLUMNS, STATES, DeviceWork, TraceDevice, seconds
from perflog.metrics.traces.intervals import EMPTY, Intervals, union
from perflog.metrics.traces.operators.device_ranges import range_trees
from perflog.metrics.traces.work_tree import OUTSIDE, UNKNOWN, last_of_path

IDLE = "idle"

_Nodes = tuple[Ints, Sequence[str | None]]  # for each piece of work the index of its path, and the paths

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn(
        "doing", meaning="compute, communication (of other collectives), memory (copies, memsets), waiting or idle"
    ),
    MetricColumn(
        "range",
        meaning="innermost range or module that launched this work; of idle time, that launched the work that ends it; "
        f"null if the trace has no ranges; {OUTSIDE}, {UNKNOWN}: as in `device_ranges`",
    ),
    MetricColumn(
        "collectives",
        meaning="number of collectives in which only this rank came last and did this meanwhile",
        type="Int64",
    ),
    MetricColumn("time_s", "s", "lower", "time of this between the start of the first rank and the start of this rank"),
    MetricColumn("share", "1", None, "time_s / all time that this rank imposed on others by coming last"),
    MetricColumn("of_span", "1", "lower", "time_s / time from the device's first to its last event"),
    MetricColumn("path", meaning="names of the ranges around the range and its own", brief=False),
)


@metric(
    title="lateness: what the last rank did",
    needs=("events",),
    columns=_COLUMNS,
    main="time_s",
    formula="window of a collective = from the start of its first rank to the start of its last; compute + exposed "
    "communication + exposed copies + waiting + idle on the last rank = window; time_s = sums over the collectives in "
    "which the rank alone is last, so the rows of a rank add up to `imposed_s` of `stragglers`",
    source="states as in `device_time`, of several pieces of one state the one that began first; ranges as in "
    "`device_ranges`",
)
def lateness(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """What each rank of a job did while others waited for it in a collective, by state and range; the longest first.

    Example:
        >>> table = perflog.metrics.lateness(perflog.read("trace.json"))
        >>> len(table)
        0

        A trace of a single device has no rows: no other rank waits for it.
    """
    # A collective with a `reason` has no known waits: the reason says why.
    with_waits = [matched for matched in matched_collectives(tables) if matched.collectives["reason"].isna().any()]
    nodes = _nodes_by_device(tables) if with_waits else {}
    return [row for matched in with_waits for row in _rows(matched, nodes)]


def _nodes_by_device(tables: Tables) -> dict[int, _Nodes]:
    """Return the range that launched each task, by the id of the device; only devices of traces with ranges."""
    return {id(device): (nodes, tree.paths()) for tree in range_trees(tables) for device, nodes in tree.work}


def _rows(matched: MatchedCollectives, nodes: dict[int, _Nodes]) -> Iterator[dict[str, Any]]:
    """Rows of the ranks of a job."""
    known = matched.collectives[matched.collectives["reason"].isna()]
    for member, device in enumerate(matched.job.members):
        late = known[(known["last"] == member) & (known["skew"] > 0)]
        if not len(late):
            continue
        starts = late["start"].to_numpy(np.int64)
        ends = starts + late["skew"].to_numpy(np.int64)
        imposed = int((ends - starts).sum())
        rows: list[dict[str, Any]] = []
        for doing, path, times in _divided(device, nodes.get(id(device)), starts, ends):
            if total := int(times.sum()):
                row: dict[str, Any] = {
                    "run": device.run, "rank": device.rank, "device": device.device,
                    "device_name": device.device_name, "doing": doing, "range": path and last_of_path(path),
                    "path": path, "collectives": int((times > 0).sum()), "time_s": float(seconds(total)),
                    "share": total / imposed, "of_span": total / device.span if device.span else None,
                }  # fmt: skip
                rows.append(row)
        yield from sorted(rows, key=lambda row: float(row["time_s"]), reverse=True)


def _divided(
    device: TraceDevice, nodes: _Nodes | None, starts: Ints, ends: Ints
) -> Iterator[tuple[str, str | None, Ints]]:
    """Yield states and paths of a device with their time in each window, in ns. They add up to the windows."""
    work = device.work
    node_by_task, paths = nodes or (np.zeros(len(work.starts), np.int64), [None])
    for state, node, when in _exposed_pieces(work, node_by_task):
        yield state, paths[node], when.inside(starts, ends)
    after, before = np.append(starts.min(), work.busy.ends), np.append(work.busy.starts, ends.max())
    ended_by = node_by_task[np.minimum(np.searchsorted(work.starts, before), len(node_by_task) - 1)]
    for node in np.unique(ended_by).tolist():
        chosen = ended_by == node
        yield IDLE, paths[node], union(after[chosen], before[chosen]).inside(starts, ends)


def _exposed_pieces(work: DeviceWork, nodes: Ints) -> Iterator[tuple[str, int, Intervals]]:
    """Yield states and nodes with the time in which they count: no state of higher priority, no earlier piece runs."""
    states = np.array([STATES.index(state) for state in work.state_of], np.int64)[work.does]
    above, in_state = EMPTY, work.states()
    for code, state in enumerate(STATES):
        index = np.flatnonzero(states == code)
        if not len(index):
            continue
        begun, ended = work.starts[index], work.ends[index]
        reached = np.maximum.accumulate(ended)
        begun = np.maximum(begun, np.append(begun[:1], reached[:-1]))
        for node in np.unique(nodes[index]).tolist():
            chosen = nodes[index] == node
            yield state, node, union(begun[chosen], ended[chosen]) - above
        above = above | in_state[state]
