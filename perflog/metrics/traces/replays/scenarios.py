"""Scenarios: how much shorter the steps of a trace would be without their host time, kernels, communication or waits.

Each is a replay of the dependencies that the critical path knows, with some pieces taking no time. Steps that follow
one another without a gap are replayed together: what overlaps two of them is no loss. Of a long trace a section in the
middle is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, cached, computed_list
from perflog.metrics.traces.call_tree import NO_CALL
from perflog.metrics.traces.collectives.absent_peers import devices_without_peers
from perflog.metrics.traces.collectives.collective_matching import matched_collectives
from perflog.metrics.traces.device_steps import TraceSteps
from perflog.metrics.traces.device_work import (
    COMPUTE,
    DEVICE_COLUMNS,
    DeviceWork,
    TraceDevice,
    seconds,
)
from perflog.metrics.traces.operators.operator_efficiency import shares_above_roof
from perflog.metrics.traces.replays.arrivals import lines_of_collectives, own_work, own_work_of
from perflog.metrics.traces.replays.critical_path import kinds_on_paths, rows_of_kinds
from perflog.metrics.traces.replays.dependencies import Dependencies, dependencies
from perflog.metrics.traces.replays.idle_calls import idle_calls_of, rows_of_idle_calls, runs_in_steps
from perflog.metrics.traces.replays.path_walk import PathWalk
from perflog.metrics.traces.replays.rank_replay import RankReplay, replay_of_ranks
from perflog.metrics.traces.replays.scenario_changes import RANK, SCENARIOS, STAGES, Scenario, scenarios
from perflog.metrics.traces.replays.stage_replay import StageReplay, replay_of_stages
from perflog.metrics.traces.replays.what_if import WhatIf

_MOST = 1 << 18  # pieces of work of a device that are replayed
_TOUCH = 0.01  # of a step: a longer gap between two steps is time outside of them
_FEW = 0.01  # of the work: with more unknown launches, the replay lacks dependencies
_MOSTLY_KNOWN = 0.5  # of the work: with fewer known launches, the replay would hold the rest where it is

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("of", meaning="traced step: mean of the annotated steps, else of the iterations found; trace: all of "
                 "it, without any"),
    MetricColumn("scenario", meaning="; ".join(f"{name}: {meaning}" for name, meaning in SCENARIOS.items())),
    MetricColumn(
        "subject", meaning="the category of the kernels, the class of the operators, the number of the stream"
    ),
    MetricColumn("time_s", "s", "lower", "time of the whole as traced, mean over the steps"),
    MetricColumn("without_s", "s", "lower", "time of the whole in this replay"),
    MetricColumn("gain_s", "s", None, "unchanged replay - without_s; gains overlap and do not add up"),
    MetricColumn("gain", "1", None, "gain_s / time_s"),
    MetricColumn("error_s", "s", None, "unchanged replay - time_s: 0 where the replay is exact", brief=False),
    MetricColumn("launch_known", "1", None, "share of the work with a known launch", brief=False),
    MetricColumn("bound", meaning="why the gain is a bound; null: all dependencies are known"),
    MetricColumn("replayed", "1", None, "share of the steps, or of the trace, that is replayed: of long ones the "
                 "middle", brief=False),
    MetricColumn("n", meaning="number of steps that are replayed", type="Int64"),
)  # fmt: skip


@metric(
    title="replay of traces with one thing changed",
    needs=("events",),
    columns=_COLUMNS,
    main="gain",
    formula="each piece of work begins when the work before it on its stream, its launch and what it waits for have "
    "ended; threads run their calls in order and wait for the device where they did. gain_s = end of the steps as "
    "replayed unchanged - end with the pieces of the scenario taking no time",
    source="dependencies: as in critical_path; replay: own",
)
def replay(tables: Tables, options: Options) -> MetricRows:
    """How much shorter the steps of each device, else its trace, would be in each scenario, the largest gain first.

    A device has rows if it is known what launched most of its work: else it is unknown what waits for the host.
    In jobs with clocks that agree, each rank has a row: `rank`, of the time of the whole job. So does a pipeline:
    `stages`.

    Example:
        >>> table = perflog.metrics.replay(perflog.read("trace.json"))
        >>> table[["scenario", "time_s", "gain"]].head(1).round(6)
          scenario    time_s  gain
        ...
    """
    roof = options.gpu, options.peak_tflops
    return cached(tables, f"replay of traces, {roof}", lambda: _all_rows(tables, options))


def _all_rows(tables: Tables, options: Options) -> list[dict[str, Any]]:
    in_steps = runs_in_steps(tables)
    roofs = shares_above_roof(tables, options)
    rows: list[dict[str, Any]] = []
    kinds: list[dict[str, Any]] = []
    lines, alone, between = lines_of_collectives(tables), devices_without_peers(tables), {}
    idle: list[dict[str, Any]] = []
    for each in dependencies(tables):
        if (found := own_work_of(each, lines.get(id(each.device)))) is not None:
            between[id(each.device)] = found
        idle += idle_calls_of(each, each.device.run in in_steps)
        walk = PathWalk(each)
        kinds += rows_of_kinds(walk)
        if (each.launching != NO_CALL).mean() >= _MOSTLY_KNOWN:
            changes = scenarios(each, roofs.get(each.device), peers=id(each.device) not in alone)
            rows += _rows(walk, each.device.run in in_steps, list(changes))
        del each, walk  # before the next one is made
    kinds_on_paths(tables, kinds)  # they cost little here, and going through the dependencies once more does not
    own_work(tables, between)
    rows_of_idle_calls(tables, idle)
    rows += [*_rows_of_ranks(tables), *_rows_of_stages(tables)]
    rows.sort(key=lambda row: (row["run"], -row["gain_s"]))
    return rows


class _Window(Struct, frozen=True):
    """A time that is replayed as a whole: its begin and end in ns, its thread, and where that thread ends."""

    start: int
    end: int
    thread: int
    host_end: int


def _rows(walk: PathWalk, in_steps: bool, changes: Sequence[Scenario]) -> Iterator[dict[str, Any]]:
    dependencies = walk.dependencies
    device = dependencies.device
    chosen = _middle(device.work, device.steps)
    windows = list(_steps(device, walk, chosen)) if in_steps else [_trace(dependencies, walk)]
    n = len(chosen) if in_steps else 1
    what_if = WhatIf(dependencies, walk)
    unchanged, without = 0, np.zeros(len(changes), np.int64)
    for window in windows:
        removed = [each.change for each in changes]
        ended, ends = what_if.ends(window.start, window.end, removed, window.thread, window.host_end)
        unchanged += ended - window.start
        without += np.maximum(
            ends - window.start, [_communicates(what_if, each.communicates, window) for each in changes]
        )
    whole = sum(window.end - window.start for window in windows)
    share = float((dependencies.launching != NO_CALL).mean())
    lacking = f"the launch of {100 * (1 - share):.0f} % of the work is not known" if 1 - share > _FEW else None
    base = {
        "run": device.run, "rank": device.rank, "device": device.device,
        "device_name": device.device_name, "of": "traced step" if in_steps else "trace", "n": n,
        "time_s": float(seconds(whole)) / n, "error_s": float(seconds(unchanged - whole)) / n, "launch_known": share,
        "replayed": n / len(device.steps.numbers) if in_steps else whole / device.span,
    }  # fmt: skip
    for change, ended in zip(changes, without.tolist(), strict=True):
        gain = unchanged - ended
        yield base | {
            "scenario": change.name, "subject": change.subject, "without_s": float(seconds(ended)) / n,
            "gain_s": float(seconds(gain)) / n, "gain": gain / whole, "bound": lacking or change.bound,
        }  # fmt: skip


class ReplayedRanks(Struct, frozen=True):
    """The replay of a job with a trace of each rank: its first run, its ranks, and its number of steps."""

    run: str
    members: Sequence[TraceDevice]
    in_steps: bool
    n: int
    replay: RankReplay

    @property
    def ranks(self) -> list[int | None]:
        """The rank of each member."""
        return [member.rank for member in self.members]


@computed_list
def replayed_ranks(tables: Tables) -> Iterator[ReplayedRanks]:
    """Return the replay of each job with clocks that agree."""
    in_steps = runs_in_steps(tables)
    for matched in matched_collectives(tables):
        members, steps = matched.job.members, all(device.run in in_steps for device in matched.job.members)
        between = own_work(tables)
        arrivals = [between[id(device)].arrivals if id(device) in between else None for device in members]
        found = replay_of_ranks(matched, [_whole(device, steps) for device in members], arrivals)
        if found is not None:
            n = max(len(device.steps.numbers) for device in members) if steps else 1
            yield ReplayedRanks(members[0].run, members, steps, n, found)


class ReplayedStages(Struct, frozen=True):
    """The replay of a pipeline with equal computation on all ranks: its first run, and its number of steps."""

    run: str
    in_steps: bool
    n: int
    replay: StageReplay


@computed_list
def _replayed_stages(tables: Tables) -> Iterator[ReplayedStages]:
    in_steps, between = runs_in_steps(tables), own_work(tables)
    for matched in matched_collectives(tables):
        members = matched.job.members
        if not all(id(device) in between for device in members):
            continue
        steps = all(device.run in in_steps for device in members)
        windows = [_whole(device, steps) for device in members]
        arrivals = [between[id(device)].arrivals for device in members]
        found = replay_of_stages(matched, windows, arrivals, [device.work.states()[COMPUTE] for device in members])
        if found is not None:
            n = max(len(device.steps.numbers) for device in members) if steps else 1
            yield ReplayedStages(members[0].run, steps, n, found)


def _rows_of_stages(tables: Tables) -> Iterator[dict[str, Any]]:
    for job in _replayed_stages(tables):
        found, n = job.replay, job.n
        gain = found.unchanged - found.equal
        yield {
            "run": job.run, "of": "traced step" if job.in_steps else "trace", "scenario": STAGES,
            "time_s": float(seconds(found.traced)) / n, "without_s": float(seconds(found.equal)) / n,
            "gain_s": float(seconds(gain)) / n, "gain": gain / found.traced,
            "error_s": float(seconds(found.unchanged - found.traced)) / n, "replayed": 1.0, "n": n,
            "bound": "what the device does between two collectives is taken as one piece",
        }  # fmt: skip


def _rows_of_ranks(tables: Tables) -> Iterator[dict[str, Any]]:
    for job in replayed_ranks(tables):
        found, n = job.replay, job.n
        for device, without in zip(job.members, found.without, strict=True):
            gain = found.unchanged - without
            yield {
                "run": device.run, "rank": device.rank, "device": device.device,
                "device_name": device.device_name, "of": "traced step" if job.in_steps else "trace", "scenario": RANK,
                "time_s": float(seconds(found.traced)) / n, "without_s": float(seconds(without)) / n,
                "gain_s": float(seconds(gain)) / n, "gain": gain / found.traced,
                "error_s": float(seconds(found.unchanged - found.traced)) / n, "replayed": 1.0, "n": n,
                "bound": "what the device does between two collectives is taken as one piece",
            }  # fmt: skip


def _whole(device: TraceDevice, steps: bool) -> tuple[int, int]:
    busy = device.work.busy
    starts, ends = (device.steps.starts, device.steps.ends) if steps else (busy.starts[:1], busy.ends[-1:])
    return int(starts.min()), int(ends.max())


def _communicates(what_if: WhatIf, work: Mask | None, window: _Window) -> int:
    """The longest time of a stream in a window with this work, in ns; 0 without any."""
    if work is None:
        return 0
    dependencies, inside = what_if.replayed.dependencies, what_if.replayed.inside(window.start, window.end)
    lengths = np.minimum(dependencies.ends[inside], window.end) - np.maximum(dependencies.starts[inside], window.start)
    times = np.bincount(what_if.replayed.streams[inside], np.maximum(lengths, 0) * work[inside], 1)
    return int(times.max())


def _trace(dependencies: Dependencies, walk: PathWalk) -> _Window:
    busy, begins = dependencies.device.work.busy, dependencies.starts
    start, end, more = int(busy.starts[0]), int(busy.ends[-1]), len(begins) - _MOST
    if more > 0:
        start, end = int(begins[more // 2]), int(begins[more // 2 + _MOST])
    return _Window(start, end, walk.last_thread(end), end)


def _middle(work: DeviceWork, steps: TraceSteps) -> Ints:
    """Return the indices of the steps that are replayed, in order of time: all, or the ones in the middle."""
    order = np.argsort(steps.starts, kind="stable")
    first, last = (np.searchsorted(work.starts, edges[order]) for edges in (steps.starts, steps.ends))
    begin = end = len(order) // 2
    while end - begin < len(order) and (end == begin or last[end - 1] - first[begin] < _MOST):
        begin, end = (begin, end + 1) if end < len(order) and end + begin <= len(order) else (begin - 1, end)
    return order[begin:end]


def _steps(device: TraceDevice, walk: PathWalk, order: Ints) -> Iterator[_Window]:
    """Yield these steps of a device as windows; steps without a gap are one window."""
    steps = device.steps
    annotated = device.annotated if len(device.annotated.numbers) else steps
    starts, ends, threads = steps.starts[order], steps.ends[order], walk.step_threads[order]
    host_ends = annotated.ends[order]
    first = 0
    for last in range(len(order)):
        is_last = last + 1 == len(order)
        if not is_last and starts[last + 1] - ends[last] <= _TOUCH * (ends[last] - starts[first]):
            continue
        yield _Window(int(starts[first]), int(ends[last]), int(threads[last]), int(host_ends[last]))
        first = last + 1
