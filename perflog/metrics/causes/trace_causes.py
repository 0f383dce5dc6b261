"""Causes in traces: what the devices do, why they idle, and the rank that others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.causes.cause import BOUND, REPLAY, Cause
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_time.breakdown import TRACED_STEP
from perflog.metrics.traces.collectives.collective_wait import stragglers
from perflog.metrics.traces.device_time import device_time, wholes_of_traces
from perflog.metrics.traces.launch_delays import launches
from perflog.metrics.traces.operators.device_kernels import device_kernels
from perflog.metrics.traces.replays.scenario_changes import OF_JOB, RANK, STAGES
from perflog.metrics.traces.replays.scenario_gains import scenario_gains
from perflog.metrics.traces.start_up import start_ups
from perflog.tables.nulls import none_if_null, row_dicts

if TYPE_CHECKING:
    import pandas as pd

_ROUNDED = 1e-9  # of the whole
_STATES = {"compute": "compute", "communication": "communication", "memory": "copies", "waiting": "waiting"}
_IDLE = {"host": ("host", "sync"), "data": ("data",), "launch": ("launch",), "waiting": ("waiting",)}
"""Subjects and the causes of idle time that they sum up."""
_CHANGES = {
    "host": ("host", True), "launches": ("launch", True), "graphs": ("graphs", False), "waits": ("waiting", True),
    "stream": ("stream", False), "device": ("device", True), "compute": ("compute", True),
    "kernels": ("kernels", False), "roofline": ("slow operators", False), "communication": ("communication", True),
    "hidden": ("exposed communication", False), "copies": ("copies", True),
}  # fmt: skip
"""By scenario of metric `replay`: the subject with this gain, and whether it can be what binds."""
_SIDES = ("host", "device")
"""Subjects with gains that are reported even if they are 0: they determine what binds."""
_IF_ALL_ELSE = "it takes no time, and all else begins that much earlier"


def states(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield what the devices of each trace do, and why they idle, means over the devices and their steps.

    The gain is the replay's if the launches are known, else the time itself.
    """
    times, idle = device_time.table(tables, options), launches.table(tables, options)
    gains = scenario_gains(tables, options)
    for run, rows in times.groupby("run", sort=False):
        whole = wholes_of_traces(rows)
        span_s = float(whole["span_s"].mean())
        of = TRACED_STEP if (whole["part"] == "step").all() else "trace"
        found = {subject: float(whole[f"{state}_s"].mean()) for state, subject in _STATES.items()}
        for subject, time_s in _idle_times(
            wholes_of_traces(idle[idle["run"] == run]), float(whole["idle_s"].mean()), span_s
        ).items():
            found[subject] = found.get(subject, 0.0) + time_s
        found = {subject: time_s for subject, time_s in found.items() if time_s > 0}
        replayed = [gain for gain in gains.get(str(run), ()) if gain.scenario not in OF_JOB]
        for gain in replayed:
            subject, may_bind = _CHANGES[gain.scenario]
            time_s = found.pop(subject, 0.0)
            if time_s or gain.gain or subject in _SIDES:
                yield Cause(
                    run=str(run), of=of, whole_s=span_s, subject=subject, name=gain.subject,
                    time_s=time_s or None, gain_s=gain.gain_s, by=REPLAY if gain.bound is None else BOUND,
                    model=gain.model, metric="replay",
                    may_bind=may_bind,
                )  # fmt: skip
        for subject, time_s in found.items():
            yield Cause(
                run=str(run), of=of, whole_s=span_s, subject=subject, time_s=time_s, gain_s=time_s, by=BOUND,
                model=_IF_ALL_ELSE, metric="launches" if subject in _IDLE else "device_time",
                may_bind=not (replayed and subject == "data"),
            )  # fmt: skip


def _idle_times(causes: pd.DataFrame, idle_s: float, span_s: float) -> dict[str, float]:
    """Return the idle time by subject, means in s; `idle` is idle time that the trace does not explain."""
    times = {
        subject: float(sum(causes[f"{cause}_s"] for cause in cause_names).mean()) if len(causes) else np.nan
        for subject, cause_names in _IDLE.items()
    }
    times = {subject: time_s for subject, time_s in times.items() if time_s == time_s}
    left = idle_s - sum(times.values())
    return times | ({"idle": left} if left > _ROUNDED * span_s else {})


def starts(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield the captures of graphs and the compilation in which devices idle: a trace of these has no steady step."""
    wholes = {
        str(run): wholes_of_traces(rows) for run, rows in device_time.table(tables, options).groupby("run", sort=False)
    }
    for start in start_ups(tables):
        whole = wholes[start.run]
        yield Cause(
            run=start.run, of=TRACED_STEP if (whole["part"] == "step").all() else "trace", subject=start.what,
            whole_s=float(whole["span_s"].mean()), time_s=start.time_s, gain_s=start.time_s, by=BOUND,
            model=_IF_ALL_ELSE, metric="device_time",
        )  # fmt: skip


def largest_kernels(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield the kernel, collective or copy that takes most of each state of the devices of a trace."""
    rows = device_kernels.table(tables, options)
    rows = rows[(rows["by"] == "name") & rows["name"].notna()]
    spans = device_time.table(tables, options)
    spans = spans[spans["part"] == "trace"].groupby("run")["span_s"].sum()
    for (run, _), state_rows in rows.groupby(["run", "state"], sort=False):
        sums = state_rows.groupby("name", sort=False)[["calls", "time_s"]].sum()
        name = sums["time_s"].astype(float).idxmax()
        time_s, calls = float(sums["time_s"][name]), int(sums["calls"][name])
        yield Cause(
            run=str(run), of="trace", subject="kernel", name=str(name), time_s=time_s, whole_s=float(spans[run]),
            n=calls, each_s=time_s / calls, metric="device_kernels", may_bind=False,
        )  # fmt: skip


def unequal_stages(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield the unequal computation of the stages of each pipeline."""
    for gains in scenario_gains(tables, options).values():
        for gain in gains:
            if gain.scenario == STAGES and gain.gain > 0:
                yield Cause(
                    run=gain.run, of="trace", subject="unequal stages", whole_s=gain.whole_s, gain_s=gain.gain_s,
                    by=BOUND, model=gain.model, metric="replay",
                )  # fmt: skip


def late_ranks(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield each rank that costs time, or that others wait for in collectives because it alone comes last.

    The gain is the replay's with this rank as fast as the median rank, else the time that others wait for it. It does
    not bind then: computation may hide the waiting.
    """
    replayed = {
        (gain.run, gain.rank, gain.device): gain
        for run_gains in scenario_gains(tables, options).values()
        for gain in run_gains
        if gain.scenario == RANK
    }
    rows = stragglers.table(tables, options)
    for row in row_dicts(rows):
        rank, device = none_if_null(row["rank"]), none_if_null(row["device"])
        gain, share = replayed.get((row["run"], rank, device)), none_if_null(row["imposed_share"])
        if not (share if gain is None else gain.gain):
            continue
        yield Cause(
            run=row["run"], of="trace", subject="rank", rank=rank, device=device, n=int(row["collectives"]), by=BOUND,
            whole_s=row["imposed_s"] / share if gain is None else gain.whole_s,
            gain_s=row["imposed_s"] if gain is None else gain.gain_s,
            model="it arrives with the others" if gain is None else gain.model,
            metric="stragglers" if gain is None else "replay", may_bind=gain is not None,
        )  # fmt: skip
