"""Device work of traces: the kernels, copies and memsets of each device, and the time windows of annotated steps.

Each piece of work is in one of three states: compute, communication, memory. Waits for an event or a stream (kind
sync), images of ranges on the device (device_range) and events that span everything are not work. They lie over the
kernels, so that every nanosecond would count twice. A CUDA graph that was traced as a whole (kind graph) is work: the
trace does not say which kernels it ran, so all its time counts as compute.
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
from perflog.metrics.registry import MetricColumn, Tables, cached
from perflog.metrics.traces.intervals import Intervals, union
from perflog.readers.processes import process_label
from perflog.tables.arrow import Where, one_of
from perflog.tables.nulls import int_or_none

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]

COMPUTE, COMMUNICATION, MEMORY = "compute", "communication", "memory"
STATES = (COMPUTE, COMMUNICATION, MEMORY)
"""States of a device by priority: a moment with several states counts for the first of them."""

WORK_KINDS = ("kernel", "graph", "memcpy", "memset")
"""Kinds of events that are device work."""

IS_WORK: Where = {"kind": one_of(*WORK_KINDS)}
"""Chooses the events that are device work."""

STEP_NAME = re.compile(r"(.*(?:step|iter|iteration))[ _#:=-]*(\d{1,18})", re.IGNORECASE)
"""Name of a range that is a numbered step."""

_STATE_OF = {"communication": COMMUNICATION, "memcpy": MEMORY, "memset": MEMORY}
_WHO = ["run", "part", "rank", "device", "device_name"]
_WHEN = ["line", "step", "start_ns", "duration_ns"]
_WHAT = [*_WHEN, "kind", "name", "process", "stream", "correlation", "external", "bytes"]
_MESSAGE = ["collective", "group", "seq", "ranks", "src_rank", "dst_rank"]

DEVICE_COLUMNS = (
    MetricColumn("rank", meaning="rank of the trace"),
    MetricColumn("device", meaning="number of the device in the trace"),
    MetricColumn("device_name", meaning="name of the device, and its context if it has no number", brief=False),
)
"""The columns that name a device."""
_NS = 1e-9


@dataclass(frozen=True)
class StepWindows:
    """Time windows of the annotated steps of a file, in order of time, on its host's clock in ns.

    Step `numbers[i]` lasts from `starts[i]` to `ends[i]`; line `lines[i]` of the file holds its annotation.
    """

    numbers: Ints
    starts: Ints
    ends: Ints
    lines: Ints


NO_STEPS = StepWindows(*(np.zeros(0, np.int64) for _ in range(4)))


@dataclass(frozen=True, eq=False)
class TraceDevice:
    """The work of one device in one file of a run, in order of time. `part`: number of the file; each rank has its own.

    `rows`: rows of table `events` with a start and a duration that is not negative: line, step, kind, name, stream,
    start_ns, end_ns, correlation, external, bytes, `does` (category, derived from the name) and `state`.
    `communication`: those that communicate, with what the trace says of the message: collective, group, seq, ranks,
    src_rank, dst_rank.
    Rank, device and its name are None if the trace does not name them. `steps` are those of the process that launched
    the work.
    """

    run: str
    label: str | None
    part: int
    rank: int | None
    device: int | None
    device_name: str | None
    rows: pd.DataFrame
    communication: pd.DataFrame
    steps: StepWindows

    @cached_property
    def starts(self) -> Ints:
        return integers(self.rows["start_ns"])

    @cached_property
    def ends(self) -> Ints:
        return integers(self.rows["end_ns"])

    @cached_property
    def states(self) -> dict[str, Intervals]:
        """Time in each state, whether or not another state overlaps it."""
        state = self.rows["state"].to_numpy()
        return {name: union(self.starts[state == name], self.ends[state == name]) for name in STATES}

    @cached_property
    def busy(self) -> Intervals:
        """Time with any work."""
        return union(self.starts, self.ends)

    @property
    def span(self) -> int:
        """Time from the start of the first event to the end of the last, in ns; 0 if no event has a length."""
        return int(self.busy.ends[-1] - self.busy.starts[0]) if len(self.busy.starts) else 0

    @cached_property
    def exposed(self) -> dict[str, Intervals]:
        """Exposed time of each state: no state of higher priority overlaps it. With idle time, they make up all time.

        Exposed communication is the time in which a communication kernel runs and no kernel computes.
        """
        compute, moving, memory = (self.states[name] for name in STATES)
        return {COMPUTE: compute, COMMUNICATION: moving - compute, MEMORY: memory - (compute | moving)}


def trace_devices(tables: Tables) -> list[TraceDevice]:
    """Return the devices of all runs with device work in table `events`."""
    return cached(tables, "devices of traces", lambda: list(_devices(tables)))


def _devices(tables: Tables) -> Iterator[TraceDevice]:
    labels = dict(zip(tables["runs"]["run"], tables["runs"]["label"], strict=True))
    windows = step_windows(tables)
    for (run, part), events in tables.chosen_by_file("events", IS_WORK, *_WHO, "context", *_WHAT, *_MESSAGE):
        for (rank, device, name), rows in device_work(events).groupby(_WHO[2:], dropna=False, sort=True, observed=True):
            rank, device = map(int_or_none, (rank, device))
            label, name = (text if isinstance(text, str) else None for text in (labels[run], name))
            steps = _steps_of(rows, windows.get((run, part), {}), tables)
            rows = rows.drop(columns=["process", *_WHO]).reset_index(drop=True)
            moving = rows[(rows["state"] == COMMUNICATION).to_numpy()]
            yield TraceDevice(run, label, part, rank, device, name, rows.drop(columns=_MESSAGE), moving, steps)


def _steps_of(work: pd.DataFrame, windows: Mapping[str | None, StepWindows], tables: Tables) -> StepWindows:
    """Return the steps of the process that launched most of the work of a device, among those of its file.

    The events of a device name that process (databases), or share its label (merged traces), or name the device (Chrome
    traces): then the calls with the same correlation numbers name it. Numbers of calls of several processes prove
    nothing.
    """
    if len(windows) < 2:
        return next(iter(windows.values()), NO_STEPS)
    owners = [text if isinstance(text, str) else None for text in work["process"].value_counts(dropna=False).index]
    if not set(owners) & set(windows):
        labels = {process_label(owner) for owner in owners if owner} - {""}
        owners = [process for process in windows if process and process_label(process) in labels]
        if not labels:
            owners = _launching_processes(work, tables)
    return next((windows[owner] for owner in owners if owner in windows), NO_STEPS)


def _launching_processes(work: pd.DataFrame, tables: Tables) -> list[str | None]:
    """Return the processes whose calls launched the work of a device; that of most calls comes first."""
    run, part = work[["run", "part"]].iloc[0]
    where: Where = {"kind": one_of("runtime")}
    of_all = cached(tables, "calls by process", lambda: tables.chosen("events", where, "correlation", "process"))
    calls = of_all[((of_all["run"] == run) & (of_all["part"] == part)).to_numpy(bool)]
    launches = calls[calls["correlation"].isin(work["correlation"].dropna()).to_numpy(bool)]
    launches = launches.astype({"process": object}).drop_duplicates()
    unambiguous = launches[~launches["correlation"].duplicated(keep=False)]
    return list(unambiguous["process"].value_counts().index)


def device_work(events: pd.DataFrame) -> pd.DataFrame:
    """Return the work of devices in order of start, with columns as in `TraceDevice`; rank and device are floats.

    Args:
        events: Rows of table `events` of `WORK_KINDS`.
    """
    import pandas as pd

    positions = np.flatnonzero(has_valid_times(events))
    starts = integers(events["start_ns"].iloc[positions])
    rows = events[[*_WHO, "context", *_WHAT, *_MESSAGE]].iloc[positions[np.argsort(starts, kind="stable")]]
    rows = rows.assign(device_name=_device_names(rows)).drop(columns="context")
    pairs = rows[["kind", "name"]].drop_duplicates().to_numpy()
    categories = {(kind, name): _work_category(kind, name) for kind, name in pairs}
    does = pd.Categorical([categories[pair] for pair in zip(rows["kind"], rows["name"], strict=True)])
    state = pd.Categorical([_STATE_OF.get(category, COMPUTE) for category in does.categories])[does.codes]
    places = {name: rows[name].to_numpy(np.float64, na_value=np.nan) for name in ("rank", "device")}
    rows = rows.assign(does=does, state=state, end_ns=rows["start_ns"] + rows["duration_ns"], **places)
    return rows[(rows["does"] != "synchronisation").to_numpy()].drop(columns="duration_ns")


def _device_names(rows: pd.DataFrame) -> pd.Series[str]:
    """Return the name of the device of each row; with its context where the device has no number.

    Profilers cut long names, and then the number behind them is lost. A process has its own context on each device.
    """
    names = rows["device_name"]
    unnumbered = (names.notna() & rows["device"].isna() & rows["context"].notna()).to_numpy(bool)
    if unnumbered.any():
        contexts = rows["context"].astype(object).astype(str)
        names = names.where(~unnumbered, names.astype(str) + ", context " + contexts)
    return names


def _work_category(kind: str, name: str | None) -> str:
    """Category of a kernel by its name; of copies, memsets and graphs their kind."""
    return category(name if isinstance(name, str) else "") if kind == "kernel" else kind


def has_valid_times(events: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Flag the events that have a start, and a duration that is not negative."""
    known = events["start_ns"].notna() & (events["duration_ns"] >= 0)
    flags: npt.NDArray[np.bool_] = known.to_numpy(bool, na_value=False)
    return flags


def step_windows(tables: Tables) -> dict[tuple[str, int], dict[str | None, StepWindows]]:
    """Return the annotated steps of each run and file by process: host ranges with names like `ProfilerStep#7`.

    If ranges of several such names nest, the steps are those with the longest total time.
    """
    return cached(tables, "windows of traces", lambda: _windows(tables))


def _windows(tables: Tables) -> dict[tuple[str, int], dict[str | None, StepWindows]]:
    where: Where = {"kind": one_of("range"), "name": lambda name: name and STEP_NAME.fullmatch(name)}
    events = tables.chosen("events", where, "name", "process", "start_ns", "duration_ns")
    rows = events[has_valid_times(events)]
    named = {name: STEP_NAME.fullmatch(name) for name in rows["name"].unique() if isinstance(name, str)}
    matches = [match for name in rows["name"] if (match := named[name])]
    rows = rows.assign(prefix=[match[1] for match in matches], number=[int(match[2]) for match in matches])
    windows: dict[tuple[str, int], dict[str | None, StepWindows]] = {}
    for (run, part, process), ranges in rows.groupby(["run", "part", "process"], dropna=False):
        longest = ranges.groupby("prefix", sort=False)["duration_ns"].sum().idxmax()
        steps = ranges[ranges["prefix"] == longest].sort_values("duration_ns", ascending=False, kind="stable")
        steps = steps.drop_duplicates("number")  # the longest, if a step is annotated twice
        steps = steps.sort_values("start_ns", kind="stable")
        start, length = (steps[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
        numbers, lines = (steps[name].to_numpy(np.int64) for name in ("number", "line"))
        owner = process if isinstance(process, str) else None
        windows.setdefault((run, part), {})[owner] = StepWindows(numbers, start, start + length, lines)
    return windows


def integers(column: pd.Series[int]) -> Ints:
    """A column without nulls as a numpy array."""
    numbers: Ints = column.to_numpy(np.int64)
    return numbers


def seconds(ns: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Nanoseconds as seconds."""
    return np.asarray(ns, np.float64) * _NS
