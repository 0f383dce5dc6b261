"""Causes in traces: what the devices do, why they idle, and the rank that others wait for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.metrics.breakdown import TRACED_STEP
from perflog.metrics.causes.cause import BOUND, Cause
from perflog.metrics.registry import Options, Tables
from perflog.metrics.traces.collective_wait import stragglers
from perflog.metrics.traces.device_kernels import device_kernels
from perflog.metrics.traces.device_time import device_time, wholes_of_traces
from perflog.metrics.traces.launch_delays import launches
from perflog.tables.nulls import none_if_null

_STATES = {"compute": "compute", "communication": "communication", "memory": "copies"}
_IDLE = {"host": ("host", "sync"), "data": ("data",), "launch": ("launch",), "waiting": ("waiting",)}
"""Subjects and the causes of idle time that they sum up."""


def states(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield what the devices of each trace do, and why they idle, means over the devices and their steps."""
    times, idle = device_time.table(tables, options), launches.table(tables, options)
    for run, rows in times.groupby("run", sort=False):
        whole = wholes_of_traces(rows)
        of = TRACED_STEP if (whole["part"] == "step").all() else "trace"
        span_s = float(whole["span_s"].mean())
        causes = wholes_of_traces(idle[idle["run"] == run])
        found = {subject: float(whole[f"{state}_s"].mean()) for state, subject in _STATES.items()}
        known = {
            subject: float(sum(causes[f"{cause}_s"] for cause in of_subject).mean()) if len(causes) else np.nan
            for subject, of_subject in _IDLE.items()
        }
        found |= {subject: time_s for subject, time_s in known.items() if time_s == time_s}
        left = float(whole["idle_s"].mean()) - sum(found.get(subject, 0.0) for subject in _IDLE)
        found["idle"] = left if left > 1e-9 * span_s else 0.0
        for subject, time_s in found.items():
            if time_s > 0:
                yield Cause(
                    run=str(run), of=of, subject=subject, time_s=time_s, whole_s=span_s, gain_s=time_s, by=BOUND,
                    model="it takes no time, and all else begins that much earlier",
                    metric="launches" if subject in _IDLE else "device_time",
                )  # fmt: skip


def largest_kernels(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield the kernel, collective or copy that takes most of each state of the devices of a trace."""
    rows = device_kernels.table(tables, options)
    rows = rows[rows["by"] == "name"]
    spans = device_time.table(tables, options)
    spans = spans[spans["part"] == "trace"].groupby("run")["span_s"].sum()
    for (run, _), of_state in rows.groupby(["run", "state"], sort=False):
        sums = of_state.groupby("name", sort=False)[["calls", "time_s"]].sum()
        name = sums["time_s"].astype(float).idxmax()
        time_s, calls = float(sums["time_s"][name]), int(sums["calls"][name])
        yield Cause(
            run=str(run), of="trace", subject="kernel", name=str(name), time_s=time_s, whole_s=float(spans[run]),
            n=calls, each_s=time_s / calls, metric="device_kernels", may_bind=False,
        )  # fmt: skip


def late_ranks(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield each rank that others wait for in collectives because it alone comes last."""
    rows = stragglers.table(tables, options)
    rows = rows[rows["imposed_share"].astype(float) > 0]
    for row in rows.to_dict("records"):
        imposed_s = float(row["imposed_s"])
        yield Cause(
            run=row["run"], of="trace", subject="rank", rank=none_if_null(row["rank"]),
            device=none_if_null(row["device"]), whole_s=imposed_s / float(row["imposed_share"]), gain_s=imposed_s,
            by=BOUND, model="it arrives with the others", n=int(row["collectives"]), metric="stragglers",
        )  # fmt: skip
