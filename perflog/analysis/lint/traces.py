"""Rules on traces: clocks and collectives of several ranks, cut traces, events that count twice or have no end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from perflog.analysis.lint.registry import Finding, LintInput, rule
from perflog.analysis.lint.wording import percent, seconds
from perflog.arrays import Ints, Mask
from perflog.grouping import grouped
from perflog.metrics import device_time
from perflog.metrics.profiles.kernel_categories import category
from perflog.metrics.traces.collectives.collective_matching import MatchedCollectives, matched_collectives
from perflog.metrics.traces.collectives.jobs import jobs
from perflog.metrics.traces.device_work import (
    IS_WORK,
    WORK_KINDS,
    has_times,
    trace_devices,
)
from perflog.metrics.traces.intervals import union
from perflog.metrics.traces.over_time.device_memory import device_memory, memory_name
from perflog.metrics.traces.over_time.memory import step_ends
from perflog.metrics.traces.over_time.memory_holders import HeldMemory, held_memory
from perflog.readers.events.event_columns import OPERATION
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.tables.arrow import Where, one_of
from perflog.tables.columns import Rows, rows_from_arrow
from perflog.tables.nulls import row_dicts
from perflog.units import count, first_few, show

_DIFFER = 0.01  # of the kernels: more than ranks of one program differ by
_LOST, _LOST_SHARE = 10, 0.01  # launches at an edge of the trace, and their share
_OUTSIDE = 0.1  # of the busy time of steps: work that runs outside of the step that launched it
_GRAPHS = 0.01  # of the busy time: graphs without kernels in the trace
_OVERHEAD = 0.01  # of the trace's time, used by the profiler
_LEAK = 1e-4  # of the peak a step: memory grows by less where caches and lists of the program fill
_LEAKING = 3  # steps in a row
_OVERLAP = 0.01  # of the time of kernels: more than a few launches that may overlap
_CLOCK_NS = 1000  # what times in a trace are rounded to
_DAY_NS = 86400 * 10**9
_OF_QUEUES = ("rocpd_sqlite", "rocprofv3_json")  # what they call a stream may be several queues
_NS = 1e-9


@rule(
    code="clocks-differ",
    severity="warning",
    title="the clocks of the ranks differ",
    why="No rank leaves a collective before the last has arrived, so its kernels overlap in time and end together. "
    "Here they do not, so each rank has its own clock. Waiting times, and which rank was last, cannot be computed.",
    action="compare durations only; for waiting, profile ranks of one host or with synchronized clocks",
    needs=("events",),
)
def clocks_differ(data: LintInput) -> Iterator[Finding]:
    """Matched collectives that do not overlap or end apart, or clocks that start with each trace."""
    for matched in matched_collectives(data.tables):
        if matched.clock_ok is False and len(matched.collectives):
            apart, total = int((~matched.collectives["whole"]).sum()), len(matched.collectives)
            ends = median(matched.collectives["end_skew"].to_numpy(np.float64)) * _NS
            members = matched.job.members
            message = (
                f"{apart:,} of {count(total, 'collective')} over {count(len(members), 'rank')} do not overlap on all "
                f"ranks; their ends are {seconds(ends)} apart (median)"
            )
            numbers = {"apart": apart, "of": total, "ends": ends}
            yield Finding(members[0].run, message, _lines_by_run(matched), numbers)


@rule(
    code="collectives-unmatched",
    severity="note",
    title="collectives are not matched across the ranks",
    why="The trace does not say which kernels of the ranks are one collective, and their order does not show it. "
    "Metrics of waiting leave them out.",
    action="profile all ranks over the same steps, with a profiler that records process group and sequence number "
    "(PyTorch 2.2 and newer)",
    needs=("events",),
)
def collectives_unmatched(data: LintInput) -> Iterator[Finding]:
    """Groups and streams with collectives that could not be matched, and why."""
    for matched in matched_collectives(data.tables):
        unmatched, members = matched.unmatched, matched.job.members
        if not len(unmatched):
            continue
        parts = [f"{count(r['calls'], 'kernel')} of {_lane(r)}: {r['reason']}" for r in row_dicts(unmatched)]
        lines = {members[m].run: rows["line"] for m, rows in unmatched.groupby("member")}
        run = members[unmatched["member"].iloc[0]].run
        yield Finding(run, "; ".join(parts[:3]), lines, {"calls": int(unmatched["calls"].sum())})


def _lane(row: Mapping[str, object]) -> str:
    return f"group {row['group']}" if isinstance(row["group"], str) else f"stream {row['stream']}"


def _lines_by_run(matched: MatchedCollectives) -> dict[str, Iterable[int]]:
    """Lines of the matched kernels, by run."""
    runs = [member.run for member in matched.job.members]
    with_run = matched.calls.assign(run=[runs[member] for member in matched.calls["member"]])
    return {run: rows["line"] for run, rows in with_run.groupby("run")}


@rule(
    code="kernels-differ",
    severity="note",
    title="ranks of a job have different numbers of kernels",
    why="Ranks that run one program launch equally many kernels. These do not: they run different parts of the model, "
    "or the traces cover different steps, or a trace lost events.",
    action="compare ranks step by step (`perflog analyze RUN device_time`), not whole traces",
    needs=("events",),
)
def kernels_differ(data: LintInput) -> Iterator[Finding]:
    """Numbers of kernels that are more than 1 % apart."""
    for job in jobs(data.tables):
        counts = [int(member.work.rows.one_of("kind", ["kernel"]).sum()) for member in job.members]
        if max(counts) - min(counts) > _DIFFER * max(counts):
            listed = first_few((f"{n:,} on {job.name(k)}" for k, n in enumerate(counts)), 8)
            lines = {member.run: member.work.rows["line"].tolist() for member in job.members}
            numbers = {job.name(k): n for k, n in enumerate(counts)}
            yield Finding(job.members[0].run, f"kernels: {listed}", lines, {"kernels": numbers})


@rule(
    code="trace-cut",
    severity="warning",
    title="a trace is cut off at its start or end",
    why="Calls launched kernels that are not in the trace, or its first kernels were launched before it began. Times "
    "and counts are too low there, and the first or last step is not complete.",
    action="leave the first and last step out, or synchronize the device before the profiler stops",
    needs=("events",),
)
def trace_cut(data: LintInput) -> Iterator[Finding]:
    """Ten launches or more at the end that no kernel follows, kernels at the start that no call launched: above 1 %."""
    where: Where = {"kind": one_of(*WORK_KINDS, "runtime")}
    columns = ("rank", "kind", "name", "start_ns", "duration_ns", "correlation")
    for (run, _), events in data.tables.arrow_by_file("events", where, *columns):
        rows = rows_from_arrow(events)
        rows = rows.where(rows.known("correlation") & has_times(rows))
        calls, work = (
            rows.where(rows.one_of("kind", ["runtime"])),
            _in_time(rows.where(rows.one_of("kind", WORK_KINDS))),
        )
        launch_names = [name for name in calls.counts("name") if category(name, api=True) == "launch"]
        launches = _in_time(calls.where(calls.one_of("name", launch_names)))
        if not len(work) or not len(launches):
            continue
        last = _lost_at_start(np.isin(launches["correlation"], work["correlation"])[::-1])
        first = _lost_at_start(np.isin(work["correlation"], calls["correlation"]))
        if last:
            message = f"{_rank_prefix(work)}the last {last:,} of {len(launches):,} launches have no kernel in the trace"
            lines = {run: launches["line"][-last:].tolist()}
            yield Finding(run, message, lines, {"lost": last, "of": len(launches)})
        if first:
            message = (
                f"{_rank_prefix(work)}the first {first:,} of {len(work):,} kernels were launched before the trace began"
            )
            yield Finding(run, message, {run: work["line"][:first].tolist()}, {"lost": first, "of": len(work)})


def _in_time(rows: Rows) -> Rows:
    return rows.where(np.argsort(rows["start_ns"], kind="stable"))


def _rank_prefix(rows: Rows) -> str:
    ranks = rows["rank"][rows.known("rank")]
    return f"rank {ranks[0]}: " if len(ranks) else ""


def _lost_at_start(known: Mask) -> int:
    """Return the number of unknown entries at the start; 0 if there are few of them, or if all are unknown."""
    lost = int(known.argmax())
    return lost if lost >= _LOST and lost > _LOST_SHARE * len(known) else 0


@rule(
    code="no-device-work",
    severity="warning",
    title="a trace without work of a device",
    why="No event is known to be a kernel, a copy or a memset: neither its category nor the name of its track says so. "
    "The metrics of devices are empty, and that does not mean that the device was idle.",
    action="profile with the activities of the device; if the trace has them, report their category to the project",
    needs=("events",),
)
def no_device_work(data: LintInput) -> Iterator[Finding]:
    """Runs with timed events but no device work."""
    runs_with_work = {run for (run, _), _ in data.tables.arrow_by_file("events", IS_WORK)}
    if runs_with_work.issuperset(data.tables.rows("runs")["run"].tolist()):
        return  # the events of a long trace are not read for nothing
    without_work: Where = {"run": lambda run: run not in runs_with_work, "kind": lambda kind: kind != OPERATION}
    events = data.tables.chosen("events", without_work, "kind", "category", "start_ns", "duration_ns")
    for run, rows in sorted(events.where(has_times(events)).by("run").items()):
        unknown = rows.where(~rows.known("kind"))
        message = f"none of {count(len(rows), 'event')} is known as work of a device"
        if len(unknown):
            categories = dict.fromkeys(category or "no category" for (category,) in unknown.records("category"))
            verb = "is" if len(unknown) == 1 else "are"
            message += f"; {len(unknown):,} {verb} of a kind that perflog does not know: {first_few(categories, 3)}"
        yield Finding(run, message, {run: (unknown if len(unknown) else rows)["line"]}, {"events": len(rows)})


@rule(
    code="events-without-end",
    severity="note",
    title="device work has no duration",
    why="The trace does not say when these kernels or copies ended, or says that they ended before they began. Their "
    "time is not counted.",
    action="treat counts and times of these names as lower bounds",
    needs=("events",),
)
def events_without_end(data: LintInput) -> Iterator[Finding]:
    """Kernels, copies and memsets without start or duration, or with a negative one."""
    lost: dict[str, list[tuple[str, int]]] = {}
    for (run, _), events in data.tables.arrow_by_file("events", IS_WORK, "name", "start_ns", "duration_ns"):
        rows = rows_from_arrow(events)
        if not (valid := has_times(rows)).all():
            lost.setdefault(run, []).extend(rows.where(~valid).records("name", "line"))
    for run, events in lost.items():
        message = f"{count(len(events), 'event')} without duration: {first_few(dict(events), 3)}"
        yield Finding(run, message, {run: [line for _, line in events]}, {"events": len(events)})


@rule(
    code="kernels-overlap",
    severity="warning",
    title="kernels of one stream overlap",
    why="A stream runs one kernel after the other. Where a trace shows two at a time, it holds events twice or wrong "
    "times, or a kernel was allowed to begin before the previous one ended (programmatic dependent launch). A sum over "
    "kernels counts such time twice.",
    action="use busy times, which count each moment once; do not count calls of a trace that holds events twice",
    needs=("events",),
)
def kernels_overlap(data: LintInput) -> Iterator[Finding]:
    """Kernels that are in a trace twice, or that overlap others of their stream by 1 % of their time."""
    columns = ("line", "name", "process", "device", "context", "stream", "correlation", "start_ns", "duration_ns")
    formats = dict(data.tables.rows("runs").records("run", "format"))
    by_run: dict[str, list[_Overlaps]] = {}
    for (run, _), events in data.tables.arrow_by_file("events", {"kind": one_of("kernel")}, *columns):
        if formats[run] not in _OF_QUEUES:
            rows = rows_from_arrow(events)
            by_run.setdefault(run, []).append(_overlaps(rows.where(has_times(rows) & rows.known("stream"))))
    for run, files in by_run.items():
        copies, number, twice, time = (
            sum(part) for part in zip(*((f.copies, len(f.lines), f.twice, f.time) for f in files), strict=True)
        )
        if copies or twice > _OVERLAP * time:
            message = (
                f"{count(number, 'kernel')} began before another one of the same stream had ended: "
                f"{seconds(twice * _NS)} of {seconds(time * _NS)} of kernels"
            )
            if copies:
                message += f"; {count(copies, 'kernel')} {'is' if copies == 1 else 'are'} there twice"
            numbers = {"kernels": number, "copies": copies, "overlap": twice * _NS, "time": time * _NS}
            lines = {run: [line for file in files for line in file.lines]}
            yield Finding(run, message, lines, numbers, "warning" if copies else "note")


class _Overlaps(NamedTuple):
    """Kernels of a file that overlap others of their stream: copies of others, lines of all, times in ns."""

    copies: int
    lines: list[int]
    twice: int
    time: int  # of all kernels


def _overlaps(rows: Rows) -> _Overlaps:
    if not len(rows):
        return _Overlaps(0, [], 0, 0)
    starts, lengths, (names, _) = rows["start_ns"], rows["duration_ns"], rows.codes("name")
    streams = groups_of(rows.codes("process")[0], rows["device"], rows["context"], rows["stream"]).inverse
    order = np.lexsort((-lengths, starts, streams))
    starts, ends, names = starts[order], (starts + lengths)[order], names[order]
    streams, launches = streams[order], np.where(rows.known("correlation"), rows["correlation"], -1)[order]
    latest = ends.copy()  # end in each stream so far
    bounds = [0, *(np.flatnonzero(np.diff(streams)) + 1).tolist(), len(rows)]
    for first, end in pairwise(bounds):
        np.maximum.accumulate(ends[first:end], out=latest[first:end])
    follows = streams[1:] == streams[:-1]
    copies = follows & (starts[1:] == starts[:-1]) & (ends[1:] == ends[:-1]) & (names[1:] == names[:-1])
    copies &= ends[1:] > starts[1:]
    same_graph = (launches[1:] == launches[:-1]) & (launches[1:] >= 0)  # its branches may run at once
    overlap = np.where(follows, np.minimum(latest[:-1], ends[1:]) - starts[1:], 0)
    found = copies | ((overlap > _CLOCK_NS) & ~same_graph)
    lines = rows["line"][order][1:][found].tolist()
    return _Overlaps(int(copies.sum()), lines, int(overlap[found].sum()), int(lengths.sum()))


@rule(
    code="kernels-of-days",
    severity="warning",
    title="work of a device takes days",
    why="No program waits so long for a kernel or a copy: its time in the trace is wrong, and with it what is computed "
    "from it.",
    action="take no sum, share or span of this trace that holds the event; trace again",
    needs=("events",),
)
def kernels_of_days(data: LintInput) -> Iterator[Finding]:
    """Kernels, copies and memsets of more than a day."""
    long: dict[str, list[tuple[str, int, int]]] = {}
    for (run, _), events in data.tables.arrow_by_file("events", IS_WORK, "name", "line", "start_ns", "duration_ns"):
        rows = rows_from_arrow(events)
        if (days := has_times(rows) & (rows["duration_ns"] > _DAY_NS)).any():
            long.setdefault(run, []).extend(rows.where(days).records("name", "line", "duration_ns"))
    for run, found in long.items():
        longest = max(duration for _, _, duration in found) * _NS
        message = f"{count(len(found), 'event')} of more than a day, up to {seconds(longest)}: "
        message += first_few({name: line for name, line, _ in found}, 3)
        yield Finding(run, message, {run: [line for _, line, _ in found]}, {"events": len(found), "longest": longest})


@rule(
    code="ranges-on-device",
    severity="note",
    title="events of a device that are not work",
    why="The trace shows named ranges on the device's tracks too, above the kernels that they launched, and waits for "
    "events and streams. They are not work: a sum over all events of the device counts time twice, or idle time.",
    action="sum over kernels, copies and memsets only, as the metrics here do",
    needs=("events",),
    for_other_tools=True,
)
def ranges_on_device(data: LintInput) -> Iterator[Finding]:
    """Copies of ranges on tracks of devices, waits for events or streams."""
    where: Where = {"kind": one_of("device_range", "sync")}
    not_work = data.tables.chosen("events", where, "kind", "start_ns", "duration_ns")
    not_work = not_work.where(has_times(not_work))
    busy: dict[str, int] = {}
    for device in trace_devices(data.tables):
        busy[device.run] = busy.get(device.run, 0) + device.busy
    for run, rows in sorted(not_work.by("run").items()):
        if run not in busy:
            continue
        times = {kind: int(some["duration_ns"].sum()) * _NS for kind, some in sorted(rows.by("kind").items())}
        names = {"device_range": "ranges", "sync": "waits"}
        listed = " and ".join(f"{seconds(time)} of {names[kind]}" for kind, time in times.items())
        message = f"{listed} on device tracks, besides {seconds(busy[run] * _NS)} of work"
        yield Finding(run, message, {run: rows["line"]}, times | {"busy": busy[run] * _NS})


@rule(
    code="graphs-whole",
    severity="note",
    title="CUDA graphs were traced as a whole",
    why="The trace has one event for each launch of a graph, from its first kernel to its last. Which kernels ran in "
    "it, communication among them, and pauses between them are not in the trace: all its time counts as compute.",
    action="trace again with `nsys profile --cuda-graph-trace=node` to see the kernels of the graphs",
    needs=("events",),
)
def graphs_whole(data: LintInput) -> Iterator[Finding]:
    """Graphs that take more than 1 % of the busy time of the devices of a run."""
    by_run = grouped((device.run, device) for device in trace_devices(data.tables))
    for run, devices in by_run.items():
        graphs = [device.work.rows.one_of("kind", ["graph"]) for device in devices]
        number = sum(int(mask.sum()) for mask in graphs)
        masked = zip(devices, graphs, strict=True)
        time = sum(
            union(device.work.starts[mask], device.work.ends[mask]).length for device, mask in masked if mask.any()
        )
        busy = sum(device.busy for device in devices)
        if number and time > _GRAPHS * busy:
            share = f"{percent(time / busy)} of the busy time: {seconds(time * _NS)}"
            message = f"{count(number, 'graph')}, each traced as a whole, took {share}"
            lines = [
                line
                for device, mask in zip(devices, graphs, strict=True)
                for line in device.work.rows["line"][mask].tolist()
            ]
            yield Finding(run, message, {run: lines}, {"graphs": number, "time": time * _NS, "busy": busy * _NS})


@rule(
    code="step-outside",
    severity="note",
    title="much of the work of steps runs outside of their annotations",
    why="An annotated step is an interval on the host; the device runs later. perflog gives each step the work "
    "that it launched. A tool that cuts at the annotations gives a step the work of the one before.",
    action="take device times of steps from metric device_time, not from what is inside an annotation",
    needs=("events",),
)
def step_outside(data: LintInput) -> Iterator[Finding]:
    """Work outside of the annotation of its step above 10 % of the busy time of the steps, in all steps of a device."""
    table = device_time(data.tables)
    steps = table[(table["part"] == "step") & table["outside_s"].notna()]
    for run, rows in steps.groupby("run", sort=False):
        outside, busy = rows["outside_s"].sum(), rows["busy_s"].sum()
        if outside > _OUTSIDE * busy:
            message = (
                f"{seconds(outside)} of the work of {count(len(rows), 'step')} runs outside of the annotation of its "
                f"step; in all steps the device is busy for {seconds(busy)}"
            )
            yield Finding(run, message, {run: rows["first_line"]}, {"outside": outside, "busy": busy})


@rule(
    code="profiler-overhead",
    severity="warning",
    title="the profiler took a noticeable part of the time",
    why="The trace shows the profiler at work on its own buffers while the program waited for it. Steps of this trace "
    "are longer than without the profiler.",
    action="take step times from a run without profiler; record fewer kinds of events",
    needs=("events",),
)
def profiler_overhead(data: LintInput) -> Iterator[Finding]:
    """Events of the profiler itself that cover more than 1 % of the time between a device's first and last event."""
    device_of = {(device.run, device.part): device for device in trace_devices(data.tables) if device.span}
    overhead: Where = {"kind": one_of("overhead")}
    for place, events in data.tables.arrow_by_file("events", overhead, "start_ns", "duration_ns"):
        if place not in device_of:
            continue
        rows = rows_from_arrow(events)
        rows = rows.where(has_times(rows))
        starts, busy, span = rows["start_ns"], device_of[place].work.busy, device_of[place].span
        time = int(union(starts, starts + rows["duration_ns"]).inside(busy.starts[:1], busy.ends[-1:])[0])
        if time > _OVERHEAD * span:
            times = f"{seconds(time * _NS)} of {seconds(span * _NS)}"
            message = f"{percent(time / span)} of the time is work of the profiler: {times}"
            yield Finding(place[0], message, {place[0]: rows["line"]}, {"overhead": time * _NS, "span": span * _NS})


@rule(
    code="memory-grows",
    severity="warning",
    title="memory grows from step to step",
    why="At the end of each step more memory is allocated than at the end of the step before, and each step leaves "
    "blocks that nothing frees. A longer run of this program may run out of memory.",
    action="look at what the program keeps of a step, such as losses with their graph (`loss.item()` keeps none), "
    "outputs in lists, hooks; `perflog analyze RUN memory_holders` lists what holds the memory",
    needs=("events",),
)
def memory_grows(data: LintInput) -> Iterator[Finding]:
    """Memory at the ends of steps that grows in each of three steps or more after the first one of the trace.

    Each of these steps leaves blocks that live until the last one ends; growth is above 0.01 % of the peak a step.
    """
    for number, curve in enumerate(device_memory(data.tables)):
        ends = step_ends(curve)
        levels = curve.allocated[ends]
        if len(ends) <= _LEAKING or (np.diff(levels) <= 0).any():
            continue
        growth = float(levels[-1] - levels[0]) / (len(levels) - 1)
        born = np.searchsorted(ends, curve.blocks.born)  # number of the step, from the second one of the trace
        left = (curve.blocks.ends > ends[-1]) & (born > 0) & (born < len(ends))
        if growth < _LEAK * curve.allocated.max() or len(np.unique(born[left])) < len(ends) - 1:
            continue
        held = held_memory(data.tables)[number]  # takes long: only where some memory grows
        kept = _largest_holder(held, np.flatnonzero(left))
        message = (
            f"{memory_name(curve)} grows by {show(growth, 'B', 3)} a step over {count(len(ends) - 1, 'step')}, to "
            f"{show(float(levels[-1]), 'B', 3)}; most of what these steps keep is allocated in {kept}"
        )
        lines = curve.rows["line"][curve.blocks.born[left]].tolist()
        yield Finding(curve.run, message, {curve.run: lines}, {"growth": growth, "steps": len(ends) - 1})


def _largest_holder(held: HeldMemory, blocks: Ints) -> str:
    """Name and bytes of the holder of most of these blocks."""
    sums = np.bincount(held.holder_by_block[blocks], held.curve.blocks.sizes[blocks], len(held.holders))
    return f"{held.holders[int(sums.argmax())].name} ({show(float(sums.max()), 'B', 3)})"
