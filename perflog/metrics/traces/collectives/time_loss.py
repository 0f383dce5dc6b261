"""Time loss on devices of traces: exposed communication by transfer and waiting, idle time by what the host did.

All times are sets of nanoseconds, so the times of a device add up to its whole exactly: its steps, else its span.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from perflog.grouping import grouped
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.collectives.collective_matching import MatchedCollectives, matched_collectives
from perflog.metrics.traces.device_work import (
    COMMUNICATION,
    COMPUTE,
    MEMORY,
    WAITING,
    TraceDevice,
    are_in_steps,
    exposed_of,
    trace_devices,
)
from perflog.metrics.traces.idle_causes import DeviceIdle, idle_causes
from perflog.metrics.traces.intervals import EMPTY, Intervals, union


class DeviceLosses(Struct, frozen=True, eq=False):
    """The time of a device in ns by what it was spent on; the values add up to the whole of the device.

    The whole is its annotated steps, with `steps` as their number, or its span, with `steps` 0. `doubts`: why a time is
    less certain than it looks, by its name.
    """

    device: TraceDevice
    steps: int
    times: Mapping[str, int]
    doubts: Mapping[str, tuple[str, ...]]


def device_losses(tables: Tables) -> list[DeviceLosses]:
    """Return the time losses of each device with work, in the order of `trace_devices`.

    Times: compute, transfer, waiting for the last, communication (not divided into these two), copies, waiting kernels,
    data, host-bound idle, idle with work queued, idle (the launch is not known).
    """
    members = {
        (member.run, member.part, member.rank, member.device, member.device_name): (matched, index)
        for matched in matched_collectives(tables)
        for index, member in enumerate(matched.job.members)
    }
    by_run = grouped((device.run, device) for device in trace_devices(tables) if device.span)
    in_steps = {run for run, devices in by_run.items() if are_in_steps(devices)}
    losses = {}
    for idle in idle_causes(tables):
        device = idle.device
        in_job = members.get((device.run, device.part, device.rank, device.device, device.device_name))
        losses[device] = _losses(device, idle, in_job, device.run in in_steps)
    return [losses[device] for device in trace_devices(tables) if device in losses]


def _losses(
    device: TraceDevice, idle: DeviceIdle, in_job: tuple[MatchedCollectives, int] | None, in_steps: bool
) -> DeviceLosses:
    doubts: dict[str, tuple[str, ...]] = {}
    exposed = exposed_of(device.work.states())
    moving = exposed[COMMUNICATION]
    transfer = waiting = EMPTY
    if in_job is None:
        doubts["communication"] = ("waiting is not known: there is no trace of another rank",)
    else:
        transfer, waiting, missing = _transfer_and_waiting(*in_job)
        doubts["communication"] = _why_not_divided(in_job[0])
        if missing:
            doubts["waiting for the last"] = ("ranks without a trace may have arrived later",)
    transfer, waiting = moving & transfer, (moving & waiting) - transfer
    sets = {
        "compute": exposed[COMPUTE], "transfer": transfer, "waiting for the last": waiting,
        "communication": moving - (transfer | waiting), "copies": exposed[MEMORY],
        "waiting kernels": exposed[WAITING],
        "data": idle.data, "host-bound idle": idle.sync | idle.host,
        "idle with work queued": idle.launch | idle.waiting, "idle": idle.unknown,
    }  # fmt: skip
    busy, steps = device.work.busy, device.steps
    starts, ends = (steps.starts, steps.ends) if in_steps else (busy.starts[:1], busy.ends[-1:])
    times = {name: int(intervals.inside(starts, ends).sum()) for name, intervals in sets.items()}
    return DeviceLosses(device, len(steps.numbers) if in_steps else 0, times, doubts)


# --- communication ------------------------------------------------------------------------------------------------


def _transfer_and_waiting(matched: MatchedCollectives, member: int) -> tuple[Intervals, Intervals, bool]:
    """Time in which a member's matched collectives transfer, and wait; whether ranks of their groups are missing."""
    known = matched.collectives[matched.collectives["reason"].isna()]
    calls = matched.calls[(matched.calls["member"] == member) & matched.calls["key"].isin(known.index)]
    start, wait, length = (calls[name].to_numpy(np.int64) for name in ("start", "wait", "length"))
    missing = known.loc[calls["key"].unique()]
    return (
        union(start + wait, start + length),
        union(start, start + wait),
        bool((missing["size"] > missing["ranks"]).fillna(False).any()),
    )


def _why_not_divided(matched: MatchedCollectives) -> tuple[str, ...]:
    """Why waiting is not known for some collectives of a job."""
    reasons = [*matched.unmatched["reason"], *matched.collectives["reason"].dropna()]
    return tuple(f"waiting is not known: {reason}" for reason in dict.fromkeys(reasons))
