"""Metric of the timeline of traces: what each device did when, and for one device its streams, ranges and idle time.

A trace has millions of events and a page thousands of pixels. So each part of the timeline is a level of detail: spans
that are too short for it are merged (`merged_spans`), and each has the number of events that it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Ints
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.call_tree import NO_CALL, RANGE_KINDS, CallTree, call_trees
from perflog.metrics.traces.device_work import DEVICE_COLUMNS, STATES, TraceDevice, exposed_of
from perflog.metrics.traces.idle_causes import CAUSES, DeviceIdle, idle_causes
from perflog.metrics.traces.intervals import Intervals
from perflog.metrics.traces.operators.device_ranges import range_of
from perflog.metrics.traces.over_time.merged_spans import Spans, grain_for, merged, spans_of
from perflog.metrics.traces.replays.critical_path import critical_paths
from perflog.metrics.traces.replays.path_walk import CriticalPath, kinds_of
from perflog.metrics.traces.steady_work import devices_by_run
from perflog.statistics.groups import distinct

if TYPE_CHECKING:
    import pandas as pd

DEVICES, TRACE, STEP, MIDDLE = "devices", "trace", "step", "middle"
"""Parts of a timeline: all devices, one of them, and a step of it; without steps the middle of the trace."""

MOST_SPANS = {DEVICES: 900, TRACE: 1500, STEP: 1200, MIDDLE: 1200}
"""Spans of each part of a run, about; of several runs together not many more."""

IDLE = "idle: "
"""Prefix of the kind of idle time; its cause follows."""

RANGE = "range"
_PARTS = 16  # parts of a trace without steps: the middle one is shown
_NO_NAME = -1
_MOST_DEVICES, _MOST_STREAMS, _MOST_THREADS, _MOST_DEPTHS = 64, 12, 2, 4

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("part", meaning=f"{DEVICES}: all devices, each a track; {TRACE}: one device, the one with the longest "
        f"steps; {STEP}: the step of median length of that device; "
        f"{MIDDLE}: where there are no two steps, a {_PARTS}th of the trace in its middle"),
    MetricColumn("step", meaning="number of the step; null of other parts", type="Int64"),
    MetricColumn("track", meaning="what the span is on: the device (its state, or why it is idle), a stream, the "
        "ranges of a thread by depth, the critical path"),
    MetricColumn("kind", meaning="category of work, state of the device, kind of a piece of the critical path, "
        f"`{RANGE}`, or `{IDLE}` with its cause; of merged events the kind that takes most of their time"),
    MetricColumn("name", meaning="name of the event; of merged events the name of the longest of this kind"),
    MetricColumn("begin_s", "s", None, "begin, since the first work of all devices; where the clocks of devices have "
        "no time in common, of the device"),
    MetricColumn("span_s", "s", None, "end - begin"),
    MetricColumn("events", meaning="number of events, gaps or pieces that the span holds", type="Int64"),
    MetricColumn("time_s", "s", None, "sum of the times of events of this kind; the rest of span_s is other kinds, or "
        "nothing"),
    MetricColumn("grain_s", "s", None, "what is shorter than this was merged with its neighbours; 0: nothing was",
        brief=False),
)  # fmt: skip


class _Window(Struct, frozen=True):
    """The part of a trace that is shown by itself: begin and end in ns; of a step its number and index."""

    part: str
    start: int
    end: int
    number: int | None = None
    place: int | None = None


class _Track(Struct, frozen=True, eq=False):
    """A track: its name, its spans, and the words of their codes."""

    name: str
    spans: Spans
    kinds: Sequence[str]
    names: Sequence[str | None]

    def inside(self, window: _Window) -> _Track:
        """Return what lies in a window."""
        return replace(self, spans=self.spans.inside(window.start, window.end))


@metric(
    title="timeline of traces",
    needs=("events",),
    columns=_COLUMNS,
    main="span_s",
    formula="spans of work, ranges, idle time by cause, and of the critical path, as in the metrics of these. Spans "
    "shorter than grain_s that follow each other within grain_s are one; grain_s is 0, or the smallest power of two "
    f"of ns with which the parts of a run have at most {', '.join(map(str, MOST_SPANS.values()))} spans; devices share "
    "theirs evenly",
    source="events as recorded; levels of detail: perflog",
)
def trace_timeline(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """What each device did over the time of a trace, and the tracks of one device, in the whole and in one step.

    Example:
        >>> table = perflog.metrics.trace_timeline(perflog.read("trace.json"))
        >>> int(table["events"].min())
        1
    """
    by_run = devices_by_run(tables)
    chosen = {run: max(devices, key=_usual_step) for run, devices in by_run.items()}
    bases = {run: _bases(devices) for run, devices in by_run.items()}
    parts: dict[str, list[pd.DataFrame]] = {run: [] for run in by_run}
    states = dict[str, _Track]()
    for idle in idle_causes(tables):  # each device is merged before the next one is read: there may be many
        device, run = idle.device, idle.device.run
        others = min(len(by_run[run]), _MOST_DEVICES)
        track = _states(idle)
        if others > 1 and len(parts[run]) < others:
            named = replace(track, name=_device_name(device))
            parts[run] += _part([named], device, DEVICES, bases[run], others * len(chosen))
        if device is chosen[run]:
            states[run] = track
    paths, ranges = _paths_of(tables, list(chosen.values())), _ranges_of(tables, list(chosen.values()))
    for run, device in chosen.items():
        before, after = ranges.get(run, []), [states[run], *_streams(device)]
        trace_path, window_path = paths[run]
        trace = [*before, trace_path, *after]
        parts[run] += _part(trace, device, TRACE, bases[run], len(chosen))
        if any((frame["grain_s"] > 0).any() for frame in parts[run]) or len(device.steps.numbers) > 1:
            window = _window(device)
            tracks = [*(each.inside(window) for each in before), window_path, *(each.inside(window) for each in after)]
            parts[run] += _part(tracks, device, window.part, bases[run], len(chosen), window.number)
    return [frame for run_frames in parts.values() for frame in run_frames]


def _usual_step(device: TraceDevice) -> float:
    """The median length of the steps of a device; without steps its time."""
    steps = device.steps
    return float(np.median(steps.ends - steps.starts)) if len(steps.numbers) else float(device.span)


def _window(device: TraceDevice) -> _Window:
    """Return the step of median length, of all but the first; without two steps the middle of the trace."""
    steps = device.steps
    if len(steps.numbers) < 2:
        start, end = int(device.work.busy.starts[0]), int(device.work.busy.ends[-1])
        half = max((end - start) // (2 * _PARTS), 1)
        middle = (start + end) // 2
        return _Window(MIDDLE, middle - half, middle + half)
    lengths = (steps.ends - steps.starts)[1:]
    place = 1 + int(np.argsort(lengths, kind="stable")[(len(lengths) - 1) // 2])
    return _Window(STEP, int(steps.starts[place]), int(steps.ends[place]), int(steps.numbers[place]), place)


def _bases(devices: Sequence[TraceDevice]) -> dict[int, int]:
    """Time 0 of each device, by identity: the first work of all, if there is a time at which all are at work."""
    begins = {id(device): int(device.work.busy.starts[0]) for device in devices}
    ends = [int(device.work.busy.ends[-1]) for device in devices]
    in_common = max(begins.values()) < min(ends)
    return dict.fromkeys(begins, min(begins.values())) if in_common else begins


def _part(
    tracks: Sequence[_Track],
    device: TraceDevice,
    part: str,
    bases: dict[int, int],
    parts: int,
    step: int | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield the rows of the tracks of a device, at the level of detail that they have together.

    `parts`: how many parts of this kind share the spans.
    """
    import pandas as pd

    grain = grain_for([track.spans for track in tracks], MOST_SPANS[part] // parts)
    for track in tracks:
        spans = merged(track.spans, grain)
        if not len(spans):
            continue
        kinds, names = np.array(track.kinds, object), np.array([*track.names, None], object)
        times = {
            "begin_s": spans.starts - bases[id(device)], "span_s": spans.ends - spans.starts, "time_s": spans.times,
        }  # fmt: skip
        yield pd.DataFrame({
            "run": device.run, "rank": device.rank, "device": device.device,
            "device_name": device.device_name, "part": part, "step": step, "track": track.name,
            "kind": kinds[spans.kinds], "name": names[spans.names], "events": spans.events, "grain_s": grain * 1e-9,
            **{name: values * 1e-9 for name, values in times.items()},
        }).astype(dict.fromkeys(("rank", "device", "step"), "Int64"))  # fmt: skip


# --- tracks -----------------------------------------------------------------------------------------------------------


def _device_name(device: TraceDevice) -> str:
    known = [f"rank {device.rank}"] if device.rank is not None else []
    known += [f"device {device.device}"] if device.device is not None else []
    return ", ".join(known) or device.device_name or "device"


def _states(idle: DeviceIdle) -> _Track:
    """The time of a device, divided: exposed states and idle time by cause."""
    work = idle.device.work
    sets: dict[str, Intervals] = dict(exposed_of(work.states()))
    sets |= {f"{IDLE}{cause}": getattr(idle, cause) for cause in CAUSES}
    starts = np.concatenate([each.starts for each in sets.values()])
    ends = np.concatenate([each.ends for each in sets.values()])
    kinds = np.repeat(np.arange(len(sets)), [len(each.starts) for each in sets.values()])
    events = np.maximum(np.searchsorted(work.starts, ends) - np.searchsorted(work.starts, starts), 1)
    events[kinds >= len(STATES)] = 1
    return _Track("device", spans_of(starts, ends, kinds, np.full(len(starts), _NO_NAME), events), list(sets), [])


def _streams(device: TraceDevice) -> Iterator[_Track]:
    """Yield the work of the streams of a device that work longest."""
    work, stream = device.work, device.work.rows["stream"]
    names, words = work.rows.codes("name")
    numbers = distinct(stream)
    times = np.array([(work.ends - work.starts)[stream == number].sum() for number in numbers])
    for number in np.sort(numbers[np.argsort(-times, kind="stable")[:_MOST_STREAMS]]).tolist():
        index = np.flatnonzero(stream == number)
        kinds = work.does[index].astype(np.int64)
        spans = spans_of(work.starts[index], work.ends[index], kinds, names[index].astype(np.int64))
        yield _Track(f"stream {number}" if number >= 0 else "no stream", spans, work.categories, words)


def _paths_of(tables: Tables, chosen: Sequence[TraceDevice]) -> dict[str, tuple[_Track, _Track]]:
    """Return the critical path of these devices, by run: of the trace, and of the part that is shown by itself."""
    wanted, found = {id(device) for device in chosen}, dict[str, tuple[_Track, _Track]]()
    for paths in critical_paths(tables):
        device, walk = paths.device, paths.walk
        if id(device) in wanted:
            window = _window(device)
            thread = NO_CALL if window.place is None else int(walk.step_threads[window.place])
            found[device.run] = _path(paths.trace), _path(walk.path(window.start, window.end, thread))
        if len(found) == len(wanted):
            break
    return found


def _path(path: CriticalPath) -> _Track:
    names, words = path.names()
    spans = spans_of(path.starts, path.ends, path.kinds.astype(np.int64), names.astype(np.int64))
    return _Track("critical path", spans, kinds_of(path.dependencies), words)


def _ranges_of(tables: Tables, chosen: Sequence[TraceDevice]) -> dict[str, list[_Track]]:
    """The named ranges of the host in the files of these devices, by run."""
    wanted, found = {(device.run, device.part) for device in chosen}, dict[str, list[_Track]]()
    trees = call_trees(tables, kinds=RANGE_KINDS, name=lambda kind, name: range_of(kind, name) is not None)
    for tree in trees:
        if (tree.run, tree.part) in wanted:
            found[tree.run] = list(_ranges(tree))
    return found


def _ranges(tree: CallTree) -> Iterator[_Track]:
    """The outer ranges of the threads with most of their time in ranges, a track for each depth."""
    depths = _depths(tree.parents)
    names, words = tree.rows.codes("name")
    outer = np.where(depths == 0, tree.ends - tree.starts, 0)
    times = [int(outer[tree.begins[k] : tree.begins[k + 1]].sum()) for k in range(len(tree.threads))]
    for place, thread in enumerate(np.argsort(times)[::-1][:_MOST_THREADS].tolist()):
        part = slice(int(tree.begins[thread]), int(tree.begins[thread + 1]))
        for depth in range(min(int(depths[part].max(initial=-1)) + 1, _MOST_DEPTHS)):
            index = np.flatnonzero(depths[part] == depth) + part.start
            kinds = np.zeros(len(index), np.int64)
            spans = spans_of(tree.starts[index], tree.ends[index], kinds, names[index].astype(np.int64))
            yield _Track(f"thread {place + 1}" + f", depth {depth}" * (depth > 0), spans, [RANGE], words)


def _depths(parents: Ints) -> Ints:
    """How many calls are around each call."""
    depths, above = np.zeros(len(parents), np.int64), parents
    while (inside := above != NO_CALL).any():
        depths += inside
        above = np.where(inside, parents[np.where(inside, above, 0)], NO_CALL)
    return depths
