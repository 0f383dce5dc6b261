"""Metric of the critical path: what the time of a trace and of its steps consists of, and what would shorten it.

`path_walk` finds the path of a device. What a rank costs the others is replayed: see `arrivals` and `rank_replay`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Ints
from perflog.metrics.compared import Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric, metric_table
from perflog.metrics.run_tables import Tables, cached
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.device_work import DEVICE_COLUMNS, TraceDevice, seconds
from perflog.metrics.traces.replays.dependencies import Dependencies, dependencies
from perflog.metrics.traces.replays.path_walk import (
    DEVICE_KINDS,
    HOST_KINDS,
    UNKNOWN_WAIT,
    CriticalPath,
    PathWalk,
    is_host,
    kinds_of,
)  # fmt: skip
from perflog.metrics.traces.replays.replay import ALL
from perflog.metrics.traces.replays.what_if import WhatIf
from perflog.metrics.traces.steady_work import steady_devices
from perflog.statistics.groups import groups_of

if TYPE_CHECKING:
    import pandas as pd


_NAMES = 10  # names with a computed gain: the longest on the path of the trace
_MEANINGS = "; ".join(f"{kind}: {meaning}" for kind, meaning in (HOST_KINDS | DEVICE_KINDS).items())

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("part", meaning="trace: from the device's first event to its last; step: an annotated step, else "
        "an iteration that its kernels repeat"),
    MetricColumn("step", meaning="number of the step; null for the whole trace", type="Int64"),
    MetricColumn("by", meaning="what a row sums up: all pieces of a kind, of a name, or of a range"),
    MetricColumn("where", meaning="host or device; null for ranges, which have both"),
    MetricColumn("kind", meaning=f"a category of the device's work, or {_MEANINGS}; null for ranges"),
    MetricColumn("name", meaning="of the work, or of the innermost call of the host"),
    MetricColumn("range", meaning="innermost range or module around the call, or around what launched the work"),
    MetricColumn("time_s", "s", "lower", "time of the pieces on the critical path; the rows by kind, by name and by "
    "range each add up to span_s"),
    MetricColumn("share", "1", None, "time_s / span_s"),
    MetricColumn("pieces", meaning="number of pieces", type="Int64"),
    MetricColumn("gain_s", "s", None, "upper bound of the time that would be saved if all of this took no time: the "
    f"longest path without it is that much shorter; of all kinds, and of the {_NAMES} longest names of the trace"),
    MetricColumn("gain", "1", None, "gain_s / span_s; the gains of several rows overlap and do not add up"),
    MetricColumn("span_s", "s", "lower", "time of the part, as in metric device_time", brief=False),
)  # fmt: skip


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """The time of each kind on the critical path in each steady step, the mean over devices; not unknown waits."""
    for steady_device in steady_devices(tables, steady):
        rows = kinds_on_paths(tables)
        run_rows = rows[(rows["run"] == steady_device.run) & (rows["kind"] != UNKNOWN_WAIT)]
        number = len(run_rows[["rank", "device", "device_name"]].drop_duplicates())
        times = run_rows[run_rows["part"] == steady_device.part]
        times = times.assign(step=0 if steady_device.steps is None else times["step"].astype("int64"))
        times = times.pivot_table("time_s", "step", "kind", aggfunc="sum", fill_value=0.0, sort=False)
        times = times.reindex([0] if steady_device.steps is None else steady_device.steps.tolist(), fill_value=0.0)
        for kind in times:
            if times[kind].any():
                yield (
                    Measure("path", f"{kind} on the critical path"),
                    steady_device.run,
                    times[kind].to_numpy(np.float64) / number,
                )


@metric(
    title="critical path over host and device",
    needs=("events",),
    columns=_COLUMNS,
    main="time_s",
    formula="back from the last work: each piece of work was bound by the work before it on its stream, or by its "
    "launch, whichever was later, or by work of another stream; a thread by the work that a call waited for, by the "
    "thread that it took over from, or by its calls before. Waits for another stream are those that the trace records "
    "(torch.profiler with enable_cuda_sync_events, nsys with --cuda-event-trace=true); in a trace without any, work "
    "that begins late has waited for what ended last on another stream. The pieces cover the part without gap or "
    "overlap. gain_s = longest path of the same dependencies - longest path in which these pieces have length 0",
    source="critical path method: Kelley, Walker 1959; of a program: Yang, Miller, ICDCS 1988; over host and device: "
    "Critical Path Analysis of HolisticTraceAnalysis, which has the same dependencies of launches, streams and "
    "synchronisations",
    compares=(_samples,),
)  # fmt: skip
def critical_path(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """What each device and the host worked at or waited for on the longest chain of dependencies, in trace and steps.

    Only time on this path makes the step longer. Shortening it saves at most `gain_s`, because another chain is then
    the longest.

    Example:
        >>> table = perflog.metrics.critical_path(perflog.read("trace.json"))
        >>> table[["by", "kind", "time_s", "gain_s"]].head(1).round(6)
             by           kind    time_s    gain_s
        ...
    """
    return _ordered(chain.from_iterable(map(_rows, dependencies(tables))))  # holds one device at a time


def kinds_on_paths(tables: Tables, found: Iterable[dict[str, object]] | None = None) -> pd.DataFrame:
    """Return the rows of `critical_path` by kind, without gains: these take most of the time of the metric.

    Args:
        tables: Tables of the runs.
        found: `rows_of_kinds` of all devices, if the caller has already walked the dependencies.
    """
    return cached(
        tables,
        "kinds on critical paths",
        lambda: metric_table(_COLUMNS, _ordered(
            chain.from_iterable(rows_of_kinds(PathWalk(each)) for each in dependencies(tables))
            if found is None else found
        ), tables),
    )  # fmt: skip


def _ordered(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: (row["run"], row["part"] == "step"))


class DevicePaths(Struct, frozen=True, eq=False):
    """The critical path of the trace of a device, and a way to get the paths of its steps."""

    device: TraceDevice
    trace: CriticalPath
    walk: PathWalk


def critical_paths(tables: Tables) -> Iterator[DevicePaths]:
    """Yield the critical path of each device with work, file by file: one file is in memory at a time."""
    for device_graph in dependencies(tables):
        yield _paths(device_graph)
        del device_graph  # before the next one is made


def _paths(device_graph: Dependencies) -> DevicePaths:
    walk, busy = PathWalk(device_graph), device_graph.device.work.busy
    return DevicePaths(device_graph.device, walk.path(int(busy.starts[0]), int(busy.ends[-1])), walk)


def _rows(device_graph: Dependencies) -> Iterator[dict[str, object]]:
    walk = PathWalk(device_graph)
    what_if = WhatIf(device_graph, walk)
    for window in _windows(device_graph.device, walk):
        sums = _path_sums(walk.path(window.start, window.end, window.thread))
        yield from _window_rows(device_graph, window, sums, what_if)


def rows_of_kinds(walk: PathWalk) -> Iterator[dict[str, object]]:
    """Yield the rows of `kinds_on_paths` of a device."""
    device_graph = walk.dependencies
    for window in _windows(device_graph.device, walk):
        times, numbers = walk.kinds(window.start, window.end, window.thread)
        kinds = np.flatnonzero(numbers)
        sums = _Sums([(kind,) for kind in kinds.tolist()], times[kinds], numbers[kinds])
        columns = [_kind_of(device_graph, kind) for (kind,) in sums.codes]
        yield from _sum_rows(window.end - window.start, _base(device_graph.device, window), "kind", sums, columns)


class _Window(Struct, frozen=True):
    """The whole trace or a step: columns that identify it, begin and end in ns, thread of the step or NO_CALL."""

    part: dict[str, object]
    start: int
    end: int
    thread: int


def _windows(device: TraceDevice, walk: PathWalk) -> Iterator[_Window]:
    busy, steps = device.work.busy, device.steps
    yield _Window({"part": "trace"}, int(busy.starts[0]), int(busy.ends[-1]), NO_CALL)
    columns = (steps.numbers, steps.starts, steps.ends, walk.step_threads)
    for number, start, end, thread in zip(*(column.tolist() for column in columns), strict=True):
        if end > start:
            yield _Window({"part": "step", "step": number}, start, end, thread)


def _base(device: TraceDevice, window: _Window) -> dict[str, object]:
    """What all rows of a window have."""
    return {
        "run": device.run, "rank": device.rank, "device": device.device,
        "device_name": device.device_name, **window.part, "span_s": float(seconds(window.end - window.start)),
    }  # fmt: skip


class _Sums(Struct, frozen=True):
    """Sums over pieces of a path with equal codes: distinct codes, time in ns and number of pieces of each."""

    codes: list[tuple[int, ...]]
    times: Ints
    numbers: Ints


class _PathSums(Struct, frozen=True):
    """What a path consists of: by kind, by kind and name, and by range, with the names of their codes."""

    kinds: _Sums
    names: _Sums
    ranges: _Sums
    words: Sequence[str | None]
    range_words: Sequence[str | None]


def _path_sums(path: CriticalPath) -> _PathSums:
    kinds = _sums(path, path.kinds)
    codes, words = path.names()
    names = _sums(path, path.kinds, codes)
    del codes  # there are as many as pieces
    codes, range_words = path.ranges()
    return _PathSums(kinds, names, _sums(path, codes), words, range_words)


def _longest_names(sums: _PathSums) -> list[tuple[int, int]]:
    """Kind and name of the longest pieces of a path that have a name."""
    longest = [sums.names.codes[i] for i in np.argsort(-sums.names.times, kind="stable").tolist()]
    return [(kind, name) for kind, name in longest if sums.words[name] is not None][:_NAMES]


def _window_rows(
    dependencies: Dependencies, window: _Window, sums: _PathSums, what_if: WhatIf
) -> Iterator[dict[str, object]]:
    """Rows of the path of a window. Names may take no time in the whole trace only, and the longest alone."""
    base, span, words = _base(dependencies.device, window), window.end - window.start, sums.words
    removed = [(kind, ALL) for (kind,) in sums.kinds.codes]
    removed += [] if "step" in window.part else _longest_names(sums)
    gained = what_if.gains(window.start, window.end, removed, window.thread).tolist()
    gains: dict[tuple[int, ...], int] = dict(zip(removed, gained, strict=True))
    number = Counter(kind for kind, _ in sums.names.codes)
    unnamed = [(kind, name) for kind, name in sums.names.codes if words[name] is None]
    gains |= {(kind, name): gains[kind, ALL] for kind, name in unnamed if number[kind] == 1}

    def with_gain(columns: dict[str, object], thing: tuple[int, ...]) -> dict[str, object]:
        gain = gains.get(thing)
        return columns if gain is None else columns | {"gain_s": float(seconds(gain)), "gain": gain / span}

    by_kind = [with_gain(_kind_of(dependencies, kind), (kind, ALL)) for (kind,) in sums.kinds.codes]
    by_name = [
        with_gain(_kind_of(dependencies, kind) | {"name": words[name]}, (kind, name)) for kind, name in sums.names.codes
    ]
    yield from _sum_rows(span, base, "kind", sums.kinds, by_kind)
    yield from _sum_rows(span, base, "name", sums.names, by_name)
    yield from _sum_rows(
        span, base, "range", sums.ranges, [{"range": sums.range_words[c]} for (c,) in sums.ranges.codes]
    )


def _kind_of(device_graph: Dependencies, code: int) -> dict[str, object]:
    kind = kinds_of(device_graph)[code]
    return {"where": "host" if is_host(kind) else "device", "kind": kind}


def _sum_rows(
    span: int, base: dict[str, object], by: str, sums: _Sums, columns: Sequence[dict[str, object]]
) -> Iterator[dict[str, object]]:
    """A row for each sum, the longest first. `span`: length of the window in ns. `columns`: what else each row has."""
    for i in np.argsort(-sums.times, kind="stable").tolist():
        time, pieces = int(sums.times[i]), int(sums.numbers[i])
        figures = {"time_s": float(seconds(time)), "share": time / span, "pieces": pieces}
        yield base | {"by": by} | columns[i] | figures


def _sums(path: CriticalPath, *codes: npt.NDArray[Any]) -> _Sums:
    groups = groups_of(*codes)
    times = np.zeros(len(groups.first), np.int64)
    np.add.at(times, groups.inverse, path.ends - path.starts)
    distinct = zip(*(code[groups.first].tolist() for code in codes), strict=True)
    return _Sums(list(distinct), times, groups.sizes)
