"""Traces as metrics use them: what each device did when, and the windows of annotated steps.

Device work is what ran on a device: kernels, copies, memsets. Each kind of work is one of three states. A pause for
an event or a stream (kind sync), a range's image on the device (device_range) and what spans all are not work: they lie
over the kernels, and with them every nanosecond would count twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perflog.metrics.kernel_categories import category
from perflog.metrics.registry import cached
from perflog.metrics.traces.intervals import Intervals, union

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]

COMPUTE, COMMUNICATION, MEMORY = "compute", "communication", "memory"
STATES = (COMPUTE, COMMUNICATION, MEMORY)
"""What a device does, in the order in which they count: a moment of several counts for the first of them."""

WORK_KINDS = ("kernel", "memcpy", "memset")
"""Kinds of events that are work of a device."""

_MOVES = {"communication": COMMUNICATION, "memcpy": MEMORY, "memset": MEMORY}
_STEP = re.compile(r"(.*(?:step|iter|iteration))[ _#:=-]*(\d{1,18})", re.IGNORECASE)
_WHO = ["run", "part", "rank", "device"]
_WHAT = [
    "line", "step", "kind", "name", "stream", "start_ns", "duration_ns", "collective", "group", "seq", "bytes", "ranks",
]  # fmt: skip
_NS = 1e-9


@dataclass(frozen=True)
class StepWindows:
    """Windows of the annotated steps of a file, in order of time, on its host's clock in ns: `starts[i]` to `ends[i]`
    is step `numbers[i]`, told on line `lines[i]`.
    """

    numbers: Ints
    starts: Ints
    ends: Ints
    lines: Ints


NO_STEPS = StepWindows(*(np.zeros(0, np.int64) for _ in range(4)))


@dataclass(frozen=True, eq=False)
class TraceDevice:
    """The work of one device in one file of a run, in order of time. `part`: the file; a rank has one of its own.

    `rows`: rows of table `events` with a start and a duration that is not negative: line, step, kind, name, stream,
    start_ns, end_ns, collective, group, seq, bytes, ranks, and `does` (category told from the name) and `state`. Rank
    and device are None where the trace does not say.
    """

    run: str
    label: str | None
    part: int
    rank: int | None
    device: int | None
    rows: pd.DataFrame
    steps: StepWindows

    @cached_property
    def starts(self) -> Ints:
        return integers(self.rows["start_ns"])

    @cached_property
    def ends(self) -> Ints:
        return integers(self.rows["end_ns"])

    @cached_property
    def states(self) -> dict[str, Intervals]:
        """When it was in each state, alone or not."""
        state = self.rows["state"].to_numpy()
        return {name: union(self.starts[state == name], self.ends[state == name]) for name in STATES}

    @cached_property
    def busy(self) -> Intervals:
        """When it did anything."""
        return union(self.starts, self.ends)

    @property
    def span(self) -> int:
        """Time from its first event to the end of its last, in ns; 0 where none has a length."""
        return int(self.busy.ends[-1] - self.busy.starts[0]) if len(self.busy.starts) else 0

    @cached_property
    def exposed(self) -> dict[str, Intervals]:
        """When each state counts: the time is not that of a state before it. With the idle time they are all time."""
        compute, moving, memory = (self.states[name] for name in STATES)
        return {COMPUTE: compute, COMMUNICATION: moving - compute, MEMORY: memory - (compute | moving)}


def trace_devices(tables: Mapping[str, pd.DataFrame]) -> list[TraceDevice]:
    """The devices of all runs that have work in table `events`."""
    return cached(tables, "devices of traces", lambda: list(_devices(tables)))


def _devices(tables: Mapping[str, pd.DataFrame]) -> Iterator[TraceDevice]:
    events = tables["events"]
    labels = dict(zip(tables["runs"]["run"], tables["runs"]["label"], strict=True))
    found = step_windows(tables)
    for (run, part, rank, device), rows in device_work(events).groupby(_WHO, dropna=False, sort=True, observed=True):
        rank, device = (None if x != x else int(x) for x in (rank, device))
        label = labels[run] if isinstance(labels[run], str) else None
        yield TraceDevice(run, label, int(part), rank, device, rows, found.get((run, part), NO_STEPS))


def device_work(events: pd.DataFrame) -> pd.DataFrame:
    """The rows that are work of a device, in order of start, as `Device.rows`; rank and device as floats."""
    import pandas as pd

    at = np.flatnonzero(events["kind"].isin(WORK_KINDS).to_numpy() & has_valid_times(events))
    starts = integers(events["start_ns"].iloc[at])
    rows = events[[*_WHO, *_WHAT]].iloc[at[np.argsort(starts, kind="stable")]]
    names = {(kind, name): _does(kind, name) for kind, name in rows[["kind", "name"]].drop_duplicates().to_numpy()}
    does = pd.Categorical([names[one] for one in zip(rows["kind"], rows["name"], strict=True)])
    state = pd.Categorical([_MOVES.get(one, COMPUTE) for one in does.categories])[does.codes]
    places = {name: rows[name].to_numpy(np.float64, na_value=np.nan) for name in ("rank", "device")}
    rows = rows.assign(does=does, state=state, end_ns=rows["start_ns"] + rows["duration_ns"], **places)
    return rows[(rows["does"] != "synchronisation").to_numpy()].drop(columns="duration_ns")


def _does(kind: str, name: str | None) -> str:
    """What work of that kind and name does."""
    return category(name if isinstance(name, str) else "") if kind == "kernel" else kind


def has_valid_times(events: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which events have a start, and a duration that is not negative."""
    known = events["start_ns"].notna() & (events["duration_ns"] >= 0)
    flags: npt.NDArray[np.bool_] = known.to_numpy(bool, na_value=False)
    return flags


def step_windows(tables: Mapping[str, pd.DataFrame]) -> dict[tuple[str, int], StepWindows]:
    """The annotated steps of each run and file: ranges on the host named like `ProfilerStep#7`.

    Where ranges of several such names nest, those of the longest time in all are the steps.
    """
    return cached(tables, "windows of traces", lambda: _windows(tables["events"]))


def _windows(events: pd.DataFrame) -> dict[tuple[str, int], StepWindows]:
    rows = events[(events["kind"] == "range").to_numpy(bool) & has_valid_times(events)]
    named = {name: _STEP.fullmatch(name) for name in rows["name"].unique() if isinstance(name, str)}
    rows = rows[rows["name"].map(lambda name: named.get(name) is not None).to_numpy(bool)]
    told = [named[name] for name in rows["name"]]
    rows = rows.assign(what=[one[1] for one in told if one], number=[int(one[2]) for one in told if one])
    found = {}
    for (run, part), mine in rows.groupby(["run", "part"]):
        longest = mine.groupby("what", sort=False)["duration_ns"].sum().idxmax()
        mine = mine[mine["what"] == longest].sort_values("duration_ns", ascending=False, kind="stable")
        mine = mine.drop_duplicates("number").sort_values("start_ns", kind="stable")  # of a step told twice the longest
        start, length = (mine[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
        numbers, lines = (mine[name].to_numpy(np.int64) for name in ("number", "line"))
        found[run, part] = StepWindows(numbers, start, start + length, lines)
    return found


def integers(column: pd.Series[int]) -> Ints:
    """A column without nulls."""
    numbers: Ints = column.to_numpy(np.int64)
    return numbers


def seconds(ns: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Nanoseconds as seconds."""
    return np.asarray(ns, np.float64) * _NS
