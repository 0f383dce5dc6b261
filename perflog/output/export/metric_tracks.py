"""What metrics know of a trace as tracks beside its events: critical path, idle time by cause, ranges on streams, waits
in collectives, and counters. Each has a category of its own, `perflog_...`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Ints
from perflog.metrics.jobs.stuck_ranks import CALL_COUNTS
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.collectives.collective_matching import matched_collectives
from perflog.metrics.traces.device_work import TraceDevice
from perflog.metrics.traces.idle_causes import CAUSES, idle_causes
from perflog.metrics.traces.operators.device_ranges import range_trees
from perflog.metrics.traces.over_time.counters import readings
from perflog.metrics.traces.replays.critical_path import critical_paths
from perflog.metrics.traces.replays.path_walk import kinds_of
from perflog.output.export.event_tracks import (
    COLLECTIVES,
    IDLE,
    PATH,
    Event,
    Tracks,
    device_label,
    stream_place,
)
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL, Rows
from perflog.tables.nulls import int_or_none, records

_AT_ONCE = 1 << 14  # events that are made at a time
_TRACK = ("part", "rank", "device", "device_name", "subject", "name")
"""Columns of table `counters` with another value on each track, beside the unit."""


class MetricTracks:
    """Makes the tracks of metrics of one run. `first`: time in ns at which the trace begins."""

    def __init__(self, tables: Tables, first: int, tracks: Tracks) -> None:
        self._tables, self._first, self._tracks = tables, first, tracks

    def events(self) -> Iterator[Event]:
        """Return the events of all tracks."""
        for kind in (self._critical_paths, self._idle, self._ranges, self._collectives, self._counters):
            yield from kind()

    def _critical_paths(self) -> Iterator[Event]:
        for paths in critical_paths(self._tables):
            path, words = paths.trace, kinds_of(paths.trace.dependencies)
            (names, texts), (ranges, in_range) = path.names(), path.ranges()
            track = self._track(paths.device, PATH, "critical path")
            for part in _slices(len(path.starts)):
                columns = (path.starts, path.ends, path.kinds, names, ranges)
                for start, end, kind, name, around in zip(*(column[part].tolist() for column in columns), strict=True):
                    args = {"kind": words[kind]} | ({"range": in_range[around]} if in_range[around] else {})
                    yield self._slice(track, texts[name] or words[kind], start, end, "perflog_path", args)

    def _idle(self) -> Iterator[Event]:
        """Idle time of each device by cause, and its queue of launched work as a counter."""
        for idle in idle_causes(self._tables):
            track = self._track(idle.device, IDLE, "idle time")
            for cause, meaning in CAUSES.items():
                times = getattr(idle, cause)
                for start, end in zip(times.starts.tolist(), times.ends.tolist(), strict=True):
                    yield self._slice(track, cause, start, end, "perflog_idle", {"meaning": meaning})
            known = (idle.launches.starts != NULL) & ~idle.launches.is_operator
            launched, begun = idle.launches.starts[known], idle.device.work.starts[known]
            yield from self._queue(idle.device, np.minimum(launched, begun), begun)

    def _queue(self, device: TraceDevice, launched: Ints, begun: Ints) -> Iterator[Event]:
        """How many pieces of work are launched and have not begun, whenever the number changes."""
        times, change_index = np.unique(np.concatenate([launched, begun]), return_inverse=True)
        changes = np.zeros(len(times), np.int64)
        np.add.at(changes, change_index.ravel(), np.repeat([1, -1], len(launched)))
        name = f"{device_label(device.device, device.device_name)}: launched and not begun"
        pid = self._tracks.process(device.part, device.rank)
        yield from self._readings(pid, name, "perflog_counter", times, np.cumsum(changes))

    def _ranges(self) -> Iterator[Event]:
        """The innermost range of the program around the launches, above the work of each stream."""
        for tree in range_trees(self._tables):
            paths = tree.paths()
            for device, nodes in tree.work:
                streams = device.work.rows["stream"]
                for stream in np.unique(streams).tolist():
                    index = np.flatnonzero(streams == stream)
                    number = None if stream == NULL else stream
                    place = stream_place(number, computed=True)
                    track = self._track(device, place, "ranges" if number is None else f"stream {number}: ranges")
                    starts, ends, nodes_here = device.work.starts[index], device.work.ends[index], nodes[index]
                    first = np.flatnonzero(np.append(True, nodes_here[1:] != nodes_here[:-1]))
                    reach = np.maximum.reduceat(ends, first)
                    reach[:-1] = np.minimum(reach[:-1], starts[first[1:]])  # slices of a track do not overlap
                    for start, end, node in zip(
                        starts[first].tolist(), reach.tolist(), nodes_here[first].tolist(), strict=True
                    ):
                        args = {"path": paths[node]}
                        yield self._slice(track, tree.names[node], start, end, "perflog_range", args)

    def _collectives(self) -> Iterator[Event]:
        """For each collective: how long each rank waits for the last one, and the transfer."""
        for matched in matched_collectives(self._tables):
            known = matched.collectives[matched.collectives["reason"].isna()]
            calls = matched.calls.join(known[["op", "group", "stream", "place", "last"]], on="key", how="inner")
            for row in records(calls):
                device = matched.job.members[row["member"]]
                lane = f"stream {row['stream']}" if row["group"] is None else row["group"]
                track = self._track(device, COLLECTIVES, f"collectives of {lane}")
                args: dict[str, object] = {"op": row["op"], "place": int_or_none(row["place"])}
                if row["last"] >= 0:
                    args["last"] = matched.job.name(row["last"])
                start, wait, end = row["start"], row["wait"], row["start"] + row["length"]
                name, arrived = str(row["op"]), start + wait
                if wait:
                    yield self._slice(track, f"{name}: waits", start, min(arrived, end), "perflog_collective", args)
                if end > arrived:
                    yield self._slice(track, f"{name}: transfer", arrived, end, "perflog_collective", args)

    def _counters(self) -> Iterator[Event]:
        """Readings of hardware counters over the time: a track for each counter of a device and of what it counts."""
        if not self._tables.count("counters"):
            return
        rows = _readings_over_time(self._tables)
        found = readings(rows.where(np.argsort(rows["start_ns"], kind="stable")))
        times = found.rows["start_ns"]
        groups = groups_of(*(found.rows.keys(name) for name in _TRACK), found.unit)
        parts = groups.rows
        first = list(found.rows.where(groups.first).dicts(*_TRACK))
        for group in groups.in_order.tolist():
            of = parts[group]
            part, rank, device, device_name, subject, counter = first[group].values()
            unit = found.units[found.unit[of[0]]]
            owner = [device_label(device, device_name)] if (device, device_name) != (None, None) else []
            owner += [subject] if subject else []
            name = ", ".join(owner) + ": " * bool(owner) + counter + (f" ({unit})" if unit else "")
            pid = self._tracks.process(part, rank)
            yield from self._readings(pid, name, "counter", times[of], found.value[of])

    def _readings(self, pid: int, name: str, category: str, times: Ints, values: npt.NDArray[Any]) -> Iterator[Event]:
        for some in _slices(len(times)):
            for time, value in zip(times[some].tolist(), values[some].tolist(), strict=True):
                at = {"ts": (time - self._first) / 1e3, "args": {"value": value}}
                yield {"ph": "C", "name": name, "cat": category, "pid": pid, "tid": 0, **at}

    def _track(self, device: TraceDevice, place: int, name: str) -> tuple[int, int]:
        """Process and thread of a track of a device."""
        pid = self._tracks.process(device.part, device.rank)
        return pid, self._tracks.thread(pid, place, f"{device_label(device.device, device.device_name)}, {name}")

    def _slice(
        self, track: tuple[int, int], name: str, start: int, end: int, category: str, args: dict[str, object]
    ) -> Event:
        times = {"ts": (start - self._first) / 1e3, "dur": (end - start) / 1e3}
        return {"ph": "X", "name": name, "cat": category, "pid": track[0], "tid": track[1], **times, "args": args}


def first_reading(tables: Tables) -> int | None:
    """Return the time of the first reading of the counters' tracks in nanoseconds; None if there is none."""
    if not tables.count("counters"):
        return None
    times = _readings_over_time(tables)["start_ns"]
    return int(times.min()) if len(times) else None


def _readings_over_time(tables: Tables) -> Rows:
    """The readings of counters on the clock of the events; as in `counter_curve` without single kernels and calls.

    Telemetry with times of its own is left out: its offset to the events is unknown.
    """
    rows = tables.rows("counters")
    rows = rows.where(~rows.one_of("name", CALL_COUNTS) & rows.known("name", "value", "start_ns"))
    return rows.where(~(rows.known("correlation") | rows.known("calls") | rows.known("clock")))


def _slices(size: int) -> Sequence[slice]:
    return [slice(begin, begin + _AT_ONCE) for begin in range(0, size, _AT_ONCE)]
