"""What is compared of traces: what devices did in each steady step, and the time of each kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from perflog.metrics.registry import Tables
from perflog.metrics.traces.device_time import divided
from perflog.metrics.traces.device_work import Device, Ints, devices, seconds
from perflog.statistics.samples import Floats

STATES = {"compute": "compute", "exposed_communication": "communication", "exposed_memory": "memory", "idle": "idle"}
"""What divides the time of a device, and its name in metric `device_time`."""

SHARES = ("busy", "overlap")
"""Shares that are compared beside them: of the time, and of the communication."""


def of_runs(tables: Tables) -> dict[str, list[Device]]:
    """The devices of each run that has a trace."""
    found: dict[str, list[Device]] = {}
    for one in devices(tables):
        if one.busy.length:
            found.setdefault(one.run, []).append(one)
    return found


def steady(members: list[Device], first: int | None, cut: int) -> Ints | None:
    """The steps that all devices of a run have and that count: from `first` on, or without the first `cut`; None where
    they have no annotated step in common.
    """
    common = members[0].steps.numbers
    for one in members[1:]:
        common = np.intersect1d(common, one.steps.numbers)
    if not len(common):
        return None
    return common[cut:] if first is None else common[common >= first]


def states(members: list[Device], steps: Ints | None) -> Iterator[tuple[str, Floats]]:
    """Time of each state in each of these steps, the mean over the devices; of the whole trace where they are None.

    Then the shares `busy` and `overlap`.
    """
    found = []
    for one in members:
        starts, ends = one.busy.starts[:1], one.busy.ends[-1:]
        if steps is not None:
            order = np.argsort(one.steps.numbers)
            at = order[np.searchsorted(one.steps.numbers[order], steps)]
            starts, ends = one.steps.starts[at], one.steps.ends[at]
        found.append(divided(one, starts, ends))
    columns = STATES | {"span": "span", "busy": "busy"}
    sums = {name: np.mean([one[f"{column}_s"] for one in found], axis=0) for name, column in columns.items()}
    moved = [one["communicating_s"] for one in found]
    hidden = [np.nan_to_num(one["overlap"]) * time for one, time in zip(found, moved, strict=True)]
    yield from ((name, sums[name]) for name in STATES)  # also those of no time: the other side may have some
    if sums["span"].all():
        yield "busy", sums["busy"] / sums["span"]
    total = np.sum(moved, axis=0)
    if total.any():  # of steps without communication there is no overlap
        yield "overlap", np.sum(hidden, axis=0)[total > 0] / total[total > 0]


def kernels(members: list[Device], steps: Ints | None) -> Mapping[str, Floats]:
    """Time of each name of a kernel, copy or memset in each of these steps, by the step that launched it or, where that
    is not known, that it began in; of the whole trace where steps are None. The mean over the devices.
    """
    import pandas as pd

    found = []
    for one in members:
        of = np.zeros(len(one.rows), np.int64) if steps is None else _step_of(one)
        found.append(pd.DataFrame({"name": one.rows["name"], "step": of, "ns": one.ends - one.starts}))
    times = pd.concat(found).groupby(["name", "step"], sort=False, dropna=False)["ns"].sum().unstack(fill_value=0)
    times = times.reindex(columns=[0] if steps is None else steps, fill_value=0)
    each = seconds(times.to_numpy()) / len(members)
    return dict(zip(map(str, times.index), each, strict=True))


def _step_of(one: Device) -> Ints:
    """The step of each event; -1 outside of all."""
    told = one.rows["step"]
    if told.notna().any():
        return np.asarray(told.to_numpy(np.int64, na_value=-1))
    at = np.searchsorted(one.steps.starts, one.starts, "right") - 1
    inside = (at >= 0) & (one.starts < np.append(one.steps.ends, 0)[at])
    return np.where(inside, np.append(one.steps.numbers, -1)[at], -1)
