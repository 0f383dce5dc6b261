"""Traces: clocks and collectives of several ranks, traces that are cut off, what counts twice, what has no end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from perflog.analysis.lint.registry import Finding, rule
from perflog.analysis.lint.view import Seen, count, median, percent, seconds, some
from perflog.metrics import device_time
from perflog.metrics.kernel_categories import category
from perflog.metrics.traces.collective_matching import MatchedCollectives, matched_collectives
from perflog.metrics.traces.device_work import WORK_KINDS, has_valid_times, integers, trace_devices
from perflog.metrics.traces.intervals import union
from perflog.metrics.traces.jobs import jobs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

_DIFFER = 0.01  # of the kernels: ranks of one program
_LOST, _LOST_SHARE = 10, 0.01  # launches at an edge of the trace, and their share
_OUTSIDE = 0.1  # of what steps launch, run outside of them
_OVERHEAD = 0.01  # of the trace's time, spent by the profiler
_NS = 1e-9


@rule(
    code="clocks-differ",
    severity="warning",
    title="the ranks' clocks differ",
    why="No rank leaves a collective before the last has come, so its kernels overlap in time and end together. These "
    "do not: each rank's clock is its own. Waiting, and who came last, cannot be told from them.",
    action="compare durations only; for waiting, profile ranks of one host or with synchronised clocks",
    needs=("events",),
)
def clocks_differ(seen: Seen) -> Iterator[Finding]:
    """Matched collectives that do not overlap or end apart, or clocks that start with each trace."""
    for one in matched_collectives(seen.tables):
        if one.clock_ok is False and len(one.each):
            apart, n = int((~one.each["whole"]).sum()), len(one.each)
            ends = median(one.each["end_skew"]) * _NS
            message = (
                f"of {count(n, 'collective')} over {count(len(one.job.members), 'rank')} {apart:,} do not overlap on "
                f"all of them; their ends lie {seconds(ends)} apart (median)"
            )
            yield Finding(one.job.members[0].run, message, _lines(one), {"apart": apart, "of": n, "ends": ends})


@rule(
    code="collectives-unmatched",
    severity="note",
    title="collectives are not matched over the ranks",
    why="Which kernels of the ranks are one collective is not printed, and their order does not tell: metrics of "
    "waiting leave them out.",
    action="profile all ranks over the same steps, with a profiler that prints process group and number (PyTorch 2.2 "
    "and newer)",
    needs=("events",),
)
def collectives_unmatched(seen: Seen) -> Iterator[Finding]:
    """Groups and streams whose collectives could not be matched, and why."""
    for one in matched_collectives(seen.tables):
        left = one.unmatched
        if not len(left):
            continue
        said = [f"{count(r['calls'], 'kernel')} of {_lane(r)}: {r['reason']}" for r in left.to_dict("records")]
        lines = {one.job.members[m].run: rows["line"] for m, rows in left.groupby("member")}
        run = one.job.members[left["member"].iloc[0]].run
        yield Finding(run, "; ".join(said[:3]), lines, {"calls": int(left["calls"].sum())})


def _lane(row: Mapping[str, object]) -> str:
    return f"group {row['group']}" if isinstance(row["group"], str) else f"stream {row['stream']}"


def _lines(one: MatchedCollectives) -> dict[str, Iterable[int]]:
    """Lines of the matched kernels, by run."""
    runs = [member.run for member in one.job.members]
    named = one.calls.assign(run=[runs[member] for member in one.calls["member"]])
    return {run: rows["line"] for run, rows in named.groupby("run")}


@rule(
    code="kernels-differ",
    severity="note",
    title="ranks of a job have different numbers of kernels",
    why="Ranks that run one program launch as many kernels. These do not: they run different parts of the model, or "
    "the traces cover different steps, or one of them lost events.",
    action="compare ranks step by step (`perflog analyze RUN device_time`), not whole traces",
    needs=("events",),
)
def kernels_differ(seen: Seen) -> Iterator[Finding]:
    """Numbers of kernels that lie more than 1 % apart."""
    for job in jobs(seen.tables):
        counts = [int((one.rows["kind"] == "kernel").sum()) for one in job.members]
        if max(counts) - min(counts) > _DIFFER * max(counts):
            said = some((f"{job.name(k)} {n:,}" for k, n in enumerate(counts)), 8)
            lines = {one.run: one.rows["line"] for one in job.members}
            numbers = {job.name(k): n for k, n in enumerate(counts)}
            yield Finding(job.members[0].run, f"kernels: {said}", lines, {"kernels": numbers})


@rule(
    code="trace-cut",
    severity="warning",
    title="a trace is cut off at its edge",
    why="Calls launched kernels that are not in the trace, or its first kernels were launched before it began. Times "
    "and counts at that edge are too low, and its first or last step is not whole.",
    action="leave the first and last step out, or synchronise the device before the profiler stops",
    needs=("events",),
)
def trace_cut(seen: Seen) -> Iterator[Finding]:
    """Ten launches or more at the end that no kernel follows, kernels at the start that no call launched: above 1 %."""
    events = seen.tables["events"]
    columns = ["run", "part", "rank", "line", "kind", "name", "start_ns", "correlation"]
    joined = events[columns][events["correlation"].notna().to_numpy(bool) & has_valid_times(events)]
    every = _of(joined, "runtime")["name"].dropna().unique()
    named = {name for name in every if category(name, api=True) == "launch"}
    places = ["run", "part"]
    kernels = dict(iter(_of(joined, *WORK_KINDS).groupby(places)))
    for place, calls in _of(joined, "runtime").groupby(places):
        launches = calls[calls["name"].isin(named).to_numpy(bool)].sort_values("start_ns")
        work = kernels[place].sort_values("start_ns") if place in kernels else joined[:0]
        if not len(work) or not len(launches):
            continue
        last = _edge(launches["correlation"].isin(work["correlation"]).to_numpy(bool)[::-1])
        first = _edge(work["correlation"].isin(calls["correlation"]).to_numpy(bool))
        if last:
            message = f"{_who(work)}the last {last:,} of {len(launches):,} launches have no kernel in the trace"
            yield Finding(place[0], message, {place[0]: launches["line"][-last:]}, {"lost": last, "of": len(launches)})
        if first:
            message = f"{_who(work)}the first {first:,} of {len(work):,} kernels were launched before the trace begins"
            yield Finding(place[0], message, {place[0]: work["line"][:first]}, {"lost": first, "of": len(work)})


def _of(events: pd.DataFrame, *kinds: str) -> pd.DataFrame:
    return events[events["kind"].isin(kinds).to_numpy(bool)]


def _who(rows: pd.DataFrame) -> str:
    ranks = rows["rank"].dropna()
    return f"rank {ranks.iloc[0]}: " if len(ranks) else ""


def _edge(known: npt.NDArray[np.bool_]) -> int:
    """How many at the beginning are not known; 0 where that is few, or all."""
    lost = int(known.argmax())
    return lost if lost >= _LOST and lost > _LOST_SHARE * len(known) else 0


@rule(
    code="events-without-end",
    severity="note",
    title="work of a device has no duration",
    why="The trace does not say when these kernels or copies ended, or says that they ended before they began: no time "
    "of them is counted.",
    action="take counts and times of their names for lower bounds",
    needs=("events",),
)
def events_without_end(seen: Seen) -> Iterator[Finding]:
    """Kernels, copies and memsets without start or duration, or with a negative one."""
    events = seen.tables["events"]
    lost = _of(events[~has_valid_times(events)], *WORK_KINDS)
    for run, rows in lost.groupby("run"):
        message = f"{count(len(rows), 'event')}: {some(dict.fromkeys(rows['name']), 3)}"
        yield Finding(run, message, {run: rows["line"]}, {"events": len(rows)})


@rule(
    code="ranges-on-device",
    severity="note",
    title="events of a device that are no work",
    why="The trace draws named ranges on the device's tracks too, over the kernels that they launched, and waits for "
    "events and streams. They are no work: a sum over all events of the device counts time twice, or idle time.",
    action="sum over kernels, copies and memsets only, as the metrics here do",
    needs=("events",),
)
def ranges_on_device(seen: Seen) -> Iterator[Finding]:
    """Images of ranges on tracks of devices, waits for events or streams."""
    events = seen.tables["events"]
    over = _of(events[has_valid_times(events)], "device_range", "sync")
    busy: dict[str, int] = {}
    for one in trace_devices(seen.tables):
        busy[one.run] = busy.get(one.run, 0) + one.busy.length
    for run, rows in over.groupby("run"):
        if run not in busy:
            continue
        times = {kind: int(mine["duration_ns"].sum()) * _NS for kind, mine in rows.groupby("kind")}
        names = {"device_range": "images of ranges", "sync": "waits"}
        said = " and ".join(f"{names[kind]} of {seconds(time)}" for kind, time in times.items())
        message = f"{said} beside {seconds(busy[run] * _NS)} of work"
        yield Finding(run, message, {run: rows["line"]}, times | {"busy": busy[run] * _NS})


@rule(
    code="step-outside",
    severity="note",
    title="much of what steps launch runs outside of them",
    why="An annotated step is a time on the host; the device works behind it. Where it lags far behind, the device "
    "time of a step is largely that of the step before.",
    action="compare the whole trace, or sums over several steps, not single ones",
    needs=("events",),
)
def step_outside(seen: Seen) -> Iterator[Finding]:
    """Work outside of the step that launched it above 10 % of the busy time of the steps, in all steps of a device."""
    table = device_time(seen.tables)
    steps = table[(table["part"] == "step") & table["outside_s"].notna()]
    for run, rows in steps.groupby("run", sort=False):
        outside, busy = rows["outside_s"].sum(), rows["busy_s"].sum()
        if outside > _OUTSIDE * busy:
            message = f"{seconds(outside)} outside of {count(len(rows), 'step')}, beside {seconds(busy)} of work inside"
            yield Finding(run, message, {run: rows["first_line"]}, {"outside": outside, "busy": busy})


@rule(
    code="profiler-overhead",
    severity="warning",
    title="the profiler took a noticeable part of the time",
    why="The trace shows the profiler at work on its own buffers. The program waited for it: steps of this trace are "
    "longer than without it.",
    action="take step times from a run without profiler; record fewer kinds of events",
    needs=("events",),
)
def profiler_overhead(seen: Seen) -> Iterator[Finding]:
    """Events of the profiler's own that cover more than 1 % of the time between a device's first and last event."""
    events = seen.tables["events"]
    own = _of(events[has_valid_times(events)], "overhead")
    worked = {(one.run, one.part): one for one in trace_devices(seen.tables) if one.span}
    for place, rows in own.groupby(["run", "part"]):
        if place not in worked:
            continue
        starts, busy = integers(rows["start_ns"]), worked[place].busy
        time = int(union(starts, starts + integers(rows["duration_ns"])).inside(busy.starts[:1], busy.ends[-1:])[0])
        span = worked[place].span
        if time > _OVERHEAD * span:
            message = f"{seconds(time * _NS)} of {seconds(span * _NS)} ({percent(time / span)})"
            yield Finding(place[0], message, {place[0]: rows["line"]}, {"overhead": time * _NS, "span": span * _NS})
