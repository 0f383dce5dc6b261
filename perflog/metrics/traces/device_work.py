"""Device work of traces: the kernels, copies and memsets of each device, and the time windows of annotated steps.

Each piece of work is in one of four states: compute, communication, memory, waiting. Work that only waits holds its
stream like any other. Waits for an event or a stream (kind sync), images of ranges on the device (device_range) and
events that span everything are not work. They lie over the kernels, so that every nanosecond would count twice. A CUDA
graph that was traced as a whole (kind graph) is work: the trace does not show which kernels it ran, so all its time
counts as compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Floats, Ints, Keys, Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.profiles.kernel_categories import OTHER, WAIT, category, category_of_profiler
from perflog.metrics.registry import MetricColumn
from perflog.metrics.row_groups import split
from perflog.metrics.run_tables import Tables, cached, computed_list, computed_once, frame_of_rows
from perflog.metrics.traces.device_steps import NO_STEPS, TraceSteps, on_device
from perflog.metrics.traces.intervals import EMPTY, Intervals, union
from perflog.metrics.traces.iterations import iterations
from perflog.readers.processes import process_label
from perflog.statistics.groups import groups_of
from perflog.tables.arrow import Where, index_array, one_of, without_chunks
from perflog.tables.columns import NULL, Rows, rows_from_arrow
from perflog.units import STEP_NAMES

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Codes = npt.NDArray[np.int16]

COMPUTE, COMMUNICATION, MEMORY, WAITING = "compute", "communication", "memory", "waiting"
STATES = (COMPUTE, COMMUNICATION, MEMORY, WAITING)
"""States of a device by priority: a moment with several states counts for the first of them."""

WORK_KINDS = ("kernel", "graph", "memcpy", "memset")
"""Kinds of events that are device work."""

IS_WORK: Where = {"kind": one_of(*WORK_KINDS)}
"""Chooses the events that are device work."""

STEP_NAME = lazy_pattern(rf"(.*(?:{STEP_NAMES}))[ _#:=-]*(\d{{1,18}})", re.IGNORECASE)
"""Name of a range that is a numbered step."""

_STATE_OF = {"communication": COMMUNICATION, "memcpy": MEMORY, "memset": MEMORY, WAIT: WAITING}
_WHO = ["rank", "device", "device_name", "context"]
_WHAT = ["line", "step", "start_ns", "duration_ns", "kind", "name", "process", "stream", "correlation", "external",
         "bytes", "flops"]  # fmt: skip
_MESSAGE = ["line", "start_ns", "duration_ns", "name", "stream", "bytes", "collective", "group", "group_ranks",
            "seq", "ranks", "src_rank", "dst_rank", "dtype", "in_split", "out_split"]  # fmt: skip
_COLUMNS = list(dict.fromkeys([*_WHO, *_WHAT, *_MESSAGE, "category"]))
_Key = tuple[int | None, int | None, str | None]  # rank, device, name of the device
_MOST_HELD = 1 << 20  # pieces of work

DEVICE_COLUMNS = (
    MetricColumn("rank", meaning="rank of the trace", type="Int64"),
    MetricColumn("device", meaning="number of the device in the trace", type="Int64"),
    MetricColumn(
        "device_name", meaning="name of the device, and its context if it has no number", brief=False, type="object"
    ),
)
"""The columns that name a device."""
_FEW = 1 << 16
_NS = 1e-9


class DeviceWork(Struct, frozen=True, eq=False, dict=True):
    """The work of a device, in order of time.

    `rows`: rows of table `events` with a start and a duration that is not negative: line, step, kind, name, stream,
    start_ns, duration_ns, process, correlation, external, bytes, flops. `does`: for each row what it does, as an index
    into `categories`.
    """

    rows: Rows
    does: Codes
    categories: Sequence[str]
    _events: pa.Table
    _moving: Ints  # rows of these that communicate

    @cached_property
    def starts(self) -> Ints:
        return self.rows["start_ns"]

    @cached_property
    def ends(self) -> Ints:
        ends: Ints = self.starts + self.rows["duration_ns"]
        return ends

    @property
    def waiting(self) -> Mask:
        """Flag the work that only waits."""
        flags: Mask = np.array([state == WAITING for state in self.state_of], np.bool_)[self.does]
        return flags

    @property
    def state_of(self) -> Sequence[str]:
        """The state of each category."""
        return [_STATE_OF.get(category, COMPUTE) for category in self.categories]

    @property
    def messages(self) -> Rows:
        """The rows of `communication`."""
        return rows_from_arrow(without_chunks(self._events.take(index_array(self._moving))))

    @property
    def communication(self) -> pd.DataFrame:
        """The work that communicates, with the trace's description of the message.

        Columns: line, start_ns, duration_ns, name, stream, bytes, collective, group, group_ranks, seq, ranks, src_rank,
        dst_rank, dtype, in_split, out_split.
        """
        return frame_of_rows(self.messages, _MESSAGE)

    def states(self) -> dict[str, Intervals]:
        """Return the time in each state, whether or not another state overlaps it. It is not kept: it may be large."""
        states = np.array([STATES.index(state) for state in self.state_of], np.int8)[self.does]
        flags = {name: states == code for code, name in enumerate(STATES)}
        return {name: union(self.starts[chosen], self.ends[chosen]) for name, chosen in flags.items()}

    @cached_property
    def busy(self) -> Intervals:
        """Time with any work, also such as only waits."""
        return union(self.starts, self.ends)

    @property
    def span(self) -> int:
        """Time from the start of the first event to the end of the last, in ns; 0 if no event has a length."""
        return int(self.busy.ends[-1] - self.busy.starts[0]) if len(self.busy.starts) else 0


def exposed_of(states: Mapping[str, Intervals]) -> dict[str, Intervals]:
    """Return the exposed time of each state: no state of higher priority overlaps it. With idle time, it is all time.

    Exposed communication is the time in which a communication kernel runs and no kernel computes.
    """
    above, exposed = EMPTY, {}
    for name in STATES:
        exposed[name] = states[name] - above
        above = above | states[name]
    return exposed


class TraceDevice(Struct, frozen=True, eq=False):
    """A device in one file of a run. `part`: number of the file; each rank has its own.

    Rank, device and its name are None if the trace does not name them. `span`: time in ns from the start of its first
    event to the end of the last, 0 if no event has a length. `busy`: time of these in which anything runs. `annotated`:
    the steps of the process that launched the work; `steps`: the same with the work of each, see `device_steps`; where
    the file annotates none, the iterations of the device, if it clearly repeats them.
    """

    run: str
    label: str | None
    part: int
    rank: int | None
    device: int | None
    device_name: str | None
    span: int
    busy: int
    annotated: TraceSteps
    steps: TraceSteps
    _store: _WorkStore

    @property
    def work(self) -> DeviceWork:
        """What the device did. Work that was dropped for the work of many other devices is read again."""
        return self._store.of((self.run, self.part), (self.rank, self.device, self.device_name))


def are_in_steps(devices: Sequence[TraceDevice]) -> bool:
    """Return whether the steps of the devices of a run represent all of it: each device has steps, and work in them."""
    return all(each.work.busy.inside(each.steps.starts, each.steps.ends).any() for each in devices)


@computed_list
def trace_devices(tables: Tables) -> Iterator[TraceDevice]:
    """Return the devices of all runs with device work in table `events`."""
    labels = tables.labels()
    windows, store = step_windows(tables), _WorkStore(tables)
    for (run, part), events in tables.arrow_by_file("events", IS_WORK, *_COLUMNS):
        found = _work_by_device(events)
        store.hold((run, part), found)
        for (rank, device, name), work in found.items():
            annotated = _steps_of(work, (run, part), windows.get((run, part), {}), tables)
            steps = on_device(annotated, work.starts, work.ends, work.rows["step"])
            if (run, part) not in windows:
                steps = _iterations(work)
            yield TraceDevice(
                run, labels[run], part, rank, device, name, work.span, work.busy.length, annotated, steps, store
            )  # fmt: skip


def _iterations(work: DeviceWork) -> TraceSteps:
    """The iterations that the kernels of a device repeat."""
    kernels = np.flatnonzero(work.rows.one_of("kind", ["kernel", "graph"]))
    names, _ = work.rows.codes("name")
    is_optimizer = np.array([category == "optimizer" for category in work.categories], np.bool_)[work.does]
    return iterations(
        work.starts[kernels], work.ends[kernels], names[kernels].astype(np.int64), work.rows["stream"][kernels],
        is_optimizer[kernels],
    )  # fmt: skip


class _WorkStore:
    """Holds the work of the devices that were asked for last, and reads the others again."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._files: dict[tuple[str, int], dict[_Key, DeviceWork]] = {}  # the last one requested is the last

    def of(self, file: tuple[str, int], key: _Key) -> DeviceWork:
        """Return the work of a device in a file of a run."""
        if file not in self._files:
            where: Where = {**IS_WORK, "run": one_of(file[0]), "part": one_of(file[1])}
            for _, events in self._tables.arrow_by_file("events", where, *_COLUMNS):
                self.hold(file, _work_by_device(events))
        self._files[file] = self._files.pop(file)
        return self._files[file][key]

    def hold(self, file: tuple[str, int], work: Mapping[_Key, DeviceWork]) -> None:
        """Hold the work of the devices in a file. The work of other files is dropped if it would be too much."""
        self._files.pop(file, None)
        self._files[file] = dict(work)
        rows = {file: sum(len(each.rows) for each in devices.values()) for file, devices in self._files.items()}
        for other in list(rows)[:-1]:
            if sum(rows.values()) > _MOST_HELD:
                del self._files[other], rows[other]


def _work_by_device(events: pa.Table) -> dict[_Key, DeviceWork]:
    """The work of each device among the events of a file."""
    rows, devices = rows_from_arrow(events), {}
    kept = rows_from_arrow(events.select(_WHAT))  # unused columns are not copied
    does, categories = _what_it_does(rows)
    chosen = has_times(rows) & (does != categories.index("synchronisation"))
    for key, index in _by_device(rows, np.flatnonzero(chosen)):
        ordered = index[np.argsort(rows["start_ns"][index], kind="stable")]
        moving = ordered[does[ordered] == categories.index("communication")]
        devices[key] = DeviceWork(kept.where(ordered), does[ordered], categories, events.select(_MESSAGE), moving)
    return devices


def _what_it_does(rows: Rows) -> tuple[Codes, list[str]]:
    """Return what each row does, as codes, and the categories of the codes, by kind and name."""
    (kind, kinds), (name, names) = rows.codes("kind"), rows.codes("name")
    occurs = np.zeros((len(kinds) + 1, len(names) + 1), np.bool_)  # the last row and column are for null
    occurs[kind, name] = True
    code_of = {"synchronisation": 0, "communication": 1}
    codes = np.zeros(occurs.shape, np.int16)
    for i, j in np.argwhere(occurs).tolist():
        does = _work_category([*kinds, ""][i], [*names, None][j])
        codes[i, j] = code_of.setdefault(does, len(code_of))
    row_codes = codes[kind, name]
    if OTHER in code_of:
        _ask_profiler(rows, row_codes, code_of)
    return row_codes, list(code_of)


def _ask_profiler(rows: Rows, does: Codes, code_of: dict[str, int]) -> None:
    """Replace the category of rows with an unknown name by the profiler's category, if there is one."""
    unknown = np.flatnonzero(does == code_of[OTHER])
    codes, words = rows.codes("category")
    codes = codes[unknown]
    for code in np.unique(codes[codes >= 0]).tolist():
        does[unknown[codes == code]] = code_of.setdefault(category_of_profiler(words[code]), len(code_of))


def _by_device(rows: Rows, index: Ints) -> Iterator[tuple[_Key, Ints]]:
    """The rows of each device, by rank, number and name; a device that lacks one of these comes last."""
    rank, device, (name, names) = rows["rank"][index], rows["device"][index], _device_names(rows, index)
    parts = [_counted(values) for values in (rank, device, name)]
    keys = np.zeros(len(index), np.int64)
    for distinct, codes in parts:
        keys = keys * len(distinct) + codes
    found = []
    for key in _counted(keys)[0]:
        indices = np.unravel_index(key or 0, [len(distinct) for distinct, _ in parts])
        which = [distinct[i] for (distinct, _), i in zip(parts, indices, strict=True)]
        found.append(((which[0], which[1], None if which[2] is None else names[which[2]]), index[keys == key]))
    yield from sorted(found, key=lambda device: tuple((value is None, value) for value in device[0]))


def _counted(values: Keys) -> tuple[list[int | None], Ints]:
    """Return the distinct values in their order, None for values below 0, and each value as an index into them."""
    if len(values) and (values == values[0]).all():
        return [int(values[0]) if values[0] >= 0 else None], np.zeros(len(values), np.int64)
    values = np.maximum(values, -1) + 1
    if len(values) and values.max() < len(values) + _FEW:  # faster than sorting millions of them
        distinct = np.flatnonzero(np.bincount(values))
        codes = np.zeros(int(values.max()) + 1, np.int64)
        codes[distinct] = np.arange(len(distinct))
        codes = codes[values]
    else:
        distinct, codes = np.unique(values, return_inverse=True)
    return [value - 1 if value else None for value in distinct.tolist()], codes


def _steps_of(
    work: DeviceWork, file: tuple[str, int], windows: Mapping[str | None, TraceSteps], tables: Tables
) -> TraceSteps:
    """Return the steps of the process that launched most of the work of a device, among the processes of its file.

    The events of a device name that process (databases), or share its label (merged traces), or name the device (Chrome
    traces): then the calls with the same correlation numbers name it. Numbers of calls of several processes prove
    nothing.
    """
    if len(windows) < 2:
        return next(iter(windows.values()), NO_STEPS)
    owners = _most_first(*work.rows.codes("process"))
    if not set(owners) & set(windows):
        labels = {process_label(owner) for owner in owners if owner} - {""}
        owners = [process for process in windows if process and process_label(process) in labels]
        if not labels:
            owners = _launching_processes(work.rows, file, tables)
    return next((windows[owner] for owner in owners if owner in windows), NO_STEPS)


def _most_first(codes: Keys, words: Sequence[str]) -> list[str | None]:
    """Return the words of these codes, the most frequent first; None for -1."""
    numbers = np.bincount(codes + 1, minlength=len(words) + 1)
    order = np.argsort(-numbers, kind="stable")
    return [None if code == 0 else words[code - 1] for code in order.tolist() if numbers[code]]


def _launching_processes(work: Rows, file: tuple[str, int], tables: Tables) -> list[str | None]:
    """Return the processes with calls that launched the work of a device; the process with most calls comes first."""
    where: Where = {"kind": one_of("runtime")}
    calls_by_file = cached(
        tables, "calls by process", lambda: dict(tables.arrow_by_file("events", where, "correlation", "process"))
    )
    if file not in calls_by_file:
        return []
    calls = rows_from_arrow(calls_by_file[file])
    launches = calls.where(calls.known("correlation") & np.isin(calls["correlation"], work["correlation"]))
    process, words = launches.codes("process")
    first = groups_of(launches["correlation"], process).first
    numbers = groups_of(launches["correlation"][first])
    return _most_first(process[first[numbers.sizes[numbers.inverse] == 1]], words)


def _device_names(rows: Rows, index: Ints) -> tuple[Keys, list[str]]:
    """Return the name of the device of each row as codes, and the names; with its context where it has no number.

    Profilers cut long names, and then the number after them is lost. A process has its own context on each device.
    """
    codes, words = rows.codes("device_name")
    if (codes < 0).all():
        return np.broadcast_to(np.int32(-1), len(index)), words
    names, context = codes[index].copy(), rows["context"][index]
    unnumbered = np.flatnonzero((names >= 0) & (rows["device"][index] == NULL) & (context != NULL))
    pairs = groups_of(names[unnumbered], context[unnumbered])
    distinct = zip(names[unnumbered[pairs.first]].tolist(), context[unnumbered[pairs.first]].tolist(), strict=True)
    labels = [*words, *(name_in_context(words[name], number) for name, number in distinct)]
    names[unnumbered] = pairs.inverse + len(words)
    return names, labels


def name_in_context(name: str, context: int) -> str:
    """Return the name of a device without a number: a process has its own context on each device."""
    return f"{name}, context {context}"


def _work_category(kind: str, name: str | None) -> str:
    """Category of a kernel by its name; of copies, memsets and graphs their kind."""
    return category(name if isinstance(name, str) else "") if kind == "kernel" else kind


def has_times(rows: Rows) -> Mask:
    """Flag the events that have a start, and a duration that is not negative."""
    flags: Mask = (rows["start_ns"] != NULL) & (rows["duration_ns"] >= 0)  # NULL is negative
    return flags


@computed_once
def step_windows(tables: Tables) -> dict[tuple[str, int], dict[str | None, TraceSteps]]:
    """Return the annotated steps of each run and file by process: host ranges with names like `ProfilerStep#7`.

    If ranges of several such names nest, the steps are the ranges with the longest total time, among the ranges that
    number the steps of the events, if there are any: by these numbers work is found that a step launched.
    """
    where: Where = {"kind": one_of("range"), "name": lambda name: name and STEP_NAME.fullmatch(name)}
    events = tables.chosen("events", where, "name", "process", "start_ns", "duration_ns", "step")
    windows: dict[tuple[str, int], dict[str | None, TraceSteps]] = {}
    for ranges in split(events.where(has_times(events)), "run", "part", "process"):
        matches = [match for (name,) in ranges.records("name") if (match := STEP_NAME.fullmatch(name))]
        prefixes, numbers = [match[1] for match in matches], np.array([int(match[2]) for match in matches])
        starts, lengths = ranges["start_ns"], ranges["duration_ns"]
        totals = dict.fromkeys(prefixes, (False, 0))
        for prefix, length, is_number in zip(prefixes, lengths.tolist(), ranges["step"] == numbers, strict=True):
            numbering, total = totals[prefix]
            totals[prefix] = bool(numbering or is_number), total + length
        longest = max(totals, key=lambda prefix: totals[prefix])
        order = np.lexsort((-lengths, numbers))
        order = order[np.array(prefixes)[order] == longest]
        order = order[np.diff(numbers[order], prepend=-1) > 0]  # the longest, if a step is annotated twice
        order = order[np.lexsort((-lengths[order], starts[order]))]
        ((run, part, process),) = ranges.where(order[:1]).records("run", "part", "process")
        start, end = starts[order], (starts + lengths)[order]
        windows.setdefault((run, part), {})[process] = TraceSteps(numbers[order], start, end, ranges["line"][order])
    return windows


def seconds(ns: npt.ArrayLike) -> Floats:
    """Nanoseconds as seconds."""
    return np.asarray(ns, np.float64) * _NS
