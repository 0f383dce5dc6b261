"""Causes in traces: what the devices do, why they idle, and the rank that others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.breakdown import TRACED_STEP
from perflog.metrics.causes.cause import BOUND, REPLAY, Cause
from perflog.metrics.registry import Options, Tables
from perflog.metrics.traces.collective_wait import stragglers
from perflog.metrics.traces.device_kernels import device_kernels
from perflog.metrics.traces.device_time import device_time, wholes_of_traces
from perflog.metrics.traces.launch_delays import launches
from perflog.metrics.traces.scenarios import replay
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd

_ROUNDED = 1e-9  # of the whole
_STATES = {"compute": "compute", "communication": "communication", "memory": "copies", "waiting": "waiting"}
_IDLE = {"host": ("host", "sync"), "data": ("data",), "launch": ("launch",), "waiting": ("waiting",)}
"""Subjects and the causes of idle time that they sum up."""
_SCENARIOS = {
    "host": "host", "launches": "launch", "waits": "waiting", "device": "device", "compute": "compute",
    "communication": "communication", "copies": "copies", "kernels": "kernels",
}  # fmt: skip
"""By scenario of metric `replay`: the subject whose gain it tells."""


def states(tables: Tables, options: Options) -> Iterator[Cause]:
    """Yield what the devices of each trace do, and why they idle, means over the devices and their steps.

    Gains are those of the replay where the launches are known, else the time itself.
    """
    times, idle = device_time.table(tables, options), launches.table(tables, options)
    replayed = replay.table(tables, options)
    replays = dict(iter(replayed[replayed["scenario"].isin(list(_SCENARIOS))].groupby("run", sort=False)))
    for run, rows in times.groupby("run", sort=False):
        whole = wholes_of_traces(rows)
        span_s = float(whole["span_s"].mean())
        of = TRACED_STEP if (whole["part"] == "step").all() else "trace"
        found = {subject: float(whole[f"{state}_s"].mean()) for state, subject in _STATES.items()}
        for subject, time_s in _idle_times(
            wholes_of_traces(idle[idle["run"] == run]), float(whole["idle_s"].mean()), span_s
        ).items():
            found[subject] = found.get(subject, 0.0) + time_s
        gains = _gains(replays[run]) if run in replays else {}
        lacks = run in replays and replays[run]["bound"].notna().any()
        for subject, name in dict.fromkeys([*((subject, None) for subject in found), *gains]):
            time_s, gain = found.get(subject, 0.0) if name is None else 0.0, gains.get((subject, name))
            if time_s > 0 or gain or (gain is not None and subject in _SIDES):
                yield Cause(
                    run=str(run), of=of, whole_s=span_s, subject=subject, name=name,
                    time_s=time_s if time_s > 0 else None,
                    gain_s=time_s if gain is None else gain * span_s,
                    by=BOUND if gain is None or lacks else REPLAY,
                    model=_IF_ALL_ELSE if gain is None else "the same dependencies, and it takes no time",
                    metric="replay" if gain is not None else "launches" if subject in _IDLE else "device_time",
                    may_bind=subject != "kernels" and not (gains and subject == "data"),
                )  # fmt: skip


_SIDES = ("host", "device")
"""Whose gains are told even where they are 0: they decide what binds."""
_IF_ALL_ELSE = "it takes no time, and all else begins that much earlier"


def _idle_times(causes: pd.DataFrame, idle_s: float, span_s: float) -> dict[str, float]:
    """Idle time by subject, means in s; `idle` is what the trace does not tell."""
    times = {
        subject: float(sum(causes[f"{cause}_s"] for cause in of_subject).mean()) if len(causes) else np.nan
        for subject, of_subject in _IDLE.items()
    }
    times = {subject: time_s for subject, time_s in times.items() if time_s == time_s}
    left = idle_s - sum(times.values())
    return times | ({"idle": left} if left > _ROUNDED * span_s else {})


def _gains(rows: pd.DataFrame) -> dict[tuple[str, str | None], float]:
    """The gain of each scenario in the steps of all devices, by subject and category of kernels."""
    whole = rows[["rank", "device", "device_name", "time_s", "n"]].drop_duplicates()
    whole_s = float((whole["time_s"] * whole["n"].astype(float)).sum())
    sums: dict[tuple[str, str | None], float] = {}
    columns = zip(*(rows[name] for name in ("scenario", "subject", "gain_s", "n")), strict=True)
    for scenario, name, gain_s, n in columns:
        key = _SCENARIOS[scenario], none_if_null(name)
        sums[key] = sums.get(key, 0.0) + float(gain_s) * n / whole_s
    return sums


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
