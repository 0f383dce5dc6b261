"""Events of XSpace files as columns: times, names, kinds, and the statistics that columns take.

Times are in picoseconds since the start of their line. Begin and end are each rounded to the nearest nanosecond (half
up), so that events that follow each other still do, and a duration is off by less than a nanosecond.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.readers.events.device_names import device_number, stream_number, work_kind, work_tracks
from perflog.readers.events.event_columns import KIND_CODE, MISSING, EventColumns
from perflog.readers.events.event_table import EventAccount
from perflog.readers.events.string_interning import Interners, StringInterner
from perflog.readers.events.timestamps import number_in_name
from perflog.readers.messages.message_columns import FieldColumns, message_batches
from perflog.readers.xplane.arguments import Stats, stats_of
from perflog.readers.xplane.planes import Line, Plane

_ROW, _OFFSET, _DURATION, _STATS, _OCCURRENCES = range(1, 6)  # fields of an event
_PS = 1000  # in a nanosecond
_LARGEST = 1 << 62

STEP_NAME = lazy_pattern(r"(?:.*\W|.*_|)step (\d{1,9})$", re.DOTALL)
"""Name of a range that is a step: the profiler writes name and number apart."""

_NUMBERS = {
    "correlation_id": "correlation", "context_id": "context", "bytes_transferred": "bytes", "bytes_accessed": "bytes",
    "flops": "flops", "model_flops": "flops", "step_num": "step_number",
}  # fmt: skip
_TEXTS = {
    "hlo_category": "category", "hlo_module": "program", "nvtx_range": "program", "tf_op": "stack",
    "shape_with_layout": "shapes",
}  # fmt: skip
_DETAILS = ("kernel_details", "memcpy_details", "memset_details")
_OPERATORS, _SOURCES = ("hlo_op", "tf_op"), ("_src",)
TAKEN = frozenset((*_NUMBERS, *_TEXTS, *_DETAILS))
"""Statistics that columns take."""

_JOINS = "joins events of the profiler"
_SOURCE = "line of the source code"
_REPEATED = "says again what the event's name, line or program says"
DROPPED = {
    **dict.fromkeys(
        ("_r", "_a", "_p", "_pt", "_c", "_ct", "group_id", "flow", "run_id", "program_id", "selected_group_ids",
         "symbol_id", "scope_range_id", "graph_id", "cuda_graph_id", "cuda_graph_node_id", "all_reduce_unique_id",
         "all_reduce_id", "occurrence_id"),
        _JOINS,
    ),
    **dict.fromkeys(("_src", "source", "source_stack", "long_name"), _SOURCE),
    **dict.fromkeys(
        ("hlo_op", "name", "module", "deduplicated_name", "step_name", "is_eager", "is_func", "kernel_annotation",
         "device_id", "device_ordinal", "tf_function_call", "equation"),
        _REPEATED,
    ),
    **dict.fromkeys(("allocator_name", "module_name"), "which allocator, and for which program"),
    **dict.fromkeys(("Hlo Proto", "hlo_proto"), "the program itself"),
    **dict.fromkeys(("memory_access_breakdown", "raw_bytes_accessed"), "parts of `bytes_accessed`"),
    **dict.fromkeys(("device_offset_ps", "device_duration_ps"), "the times of the event on the device's own clock"),
    "occupancy_pct": "the profiler computes it from grid, block and device",
    "occupancy_min_grid_size": "the profiler computes it from block and device",
    "occupancy_suggested_block_size": "the profiler computes it from the device",
    "theoretical_occupancy_pct": "the profiler computes it from grid, block and device",
}  # fmt: skip
"""Statistics that no table takes, each with the reason."""

_EMPTY = (
    *((name, MISSING) for name in dict.fromkeys((*_NUMBERS.values(), "registers", "shared_bytes"))),
    *((name, -1) for name in dict.fromkeys((*_TEXTS.values(), "grid", "block"))),
)
"""Columns that statistics fill, each with its value for none."""

_SIZE = lazy_pattern(r"\b(?:size|num_bytes):(\d+)")
_GRID = lazy_pattern(r"\bgrid:(\d+),(\d+),(\d+)")
_BLOCK = lazy_pattern(r"\bblock:(\d+),(\d+),(\d+)")
_REGISTERS = lazy_pattern(r"\bregs:(\d+)")
_SHARED = lazy_pattern(r"\b(?:static|dynamic)_shared:(\d+)")

_PYTHON = "$"  # begins the name of a function that Python's tracer saw
_PROGRAM_THREAD = lazy_pattern(r"(?:python|main)", re.IGNORECASE)
_JITTED = lazy_pattern(r"PjitFunction\(|jit\(")
_RUNTIME = lazy_pattern(  # scopes in the code of JAX, jaxlib and XLA, which have no mark of their own
    r".*::|end: |Wait for (?:donation|usage) holds|ParseArguments|Handle input|AllocateOutputBuffers|DevicePut"
    r"|shard_args|[Bb]atched_?[Cc]opy_?|BatchedCopy|lower_\w+|backend_compile\w*|ExecuteReplicated|CreateOutputs|BufferFromHost"
)
_CALLS = lazy_pattern(r"/host:(?:CUPTI|ROCTRACER)", re.IGNORECASE)


class LineKind(Struct, frozen=True):
    """What the events of a line are. `device`: number of the device, None on the host; `is_work`: they are its work."""

    device: int | None
    is_work: bool
    stream: int
    process: str
    thread: str


def line_kinds(plane: Plane, lines: Sequence[Line]) -> list[LineKind]:
    """Return what the events of each line of a plane are, by the names of plane and lines."""
    counts, device = Counter(line.name for line in lines), device_number(plane.name.rpartition(" ")[2] or plane.name)
    process = plane.stats.get("process_id") if device is None else None
    is_work = work_tracks(counts)
    found = []
    for line in lines:
        thread = line.name if line.name and counts[line.name] == 1 else f"{line.name}/{line.number}".strip("/")
        work = device is not None and is_work(line.name)
        stream = MISSING if device is None else stream_number(line.name)
        found.append(LineKind(device, work, stream, str(process or plane.name), thread))
    return found


class PlaneEvents:
    """The events of a plane as columns.

    `place`: position of the last event so far, counted on over lines and planes. `account` has each event and each
    statistic. `undeclared`: numbers of statistics that nobody declared, until somebody takes them.
    """

    def __init__(self, plane: Plane, interners: Interners, account: EventAccount, place: int) -> None:
        self.place = place
        self.undeclared: list[EventColumns] = []
        self._plane, self._interners, self._account = plane, interners, account
        names, stats = plane.events.name, plane.events.stats
        code = interners["name"].code
        self._codes = np.array([code(name) if name else -1 for name in names], np.int64)
        self._work_kinds = np.array([KIND_CODE[work_kind(name)] for name in names], np.int8)
        self._host_kinds = np.array([KIND_CODE[_host_kind(name)] for name in names], np.int8)
        self._shared = self._columns_of(stats, len(names))
        self._is_operator = self._have(stats, len(names), _OPERATORS)
        self._has_source = self._have(stats, len(names), _SOURCES)
        self._count_figures(stats, place + 1)

    def batches(self, line: Line, kind: LineKind) -> Iterator[EventColumns]:
        """Give the events of a line, some thousands at a time, with the columns of the table and column `program`."""
        shape = f"{self._plane.name} {line.name}".strip() if kind.device is not None else self._plane.name
        for _, fields in message_batches(line.data, line.starts, line.ends):
            rows, count = self._rows(fields, line, kind), len(fields.damaged)
            places = np.arange(self.place + 1, self.place + 1 + count)
            summed = (fields.counts(_OCCURRENCES) > 0) & ~fields.damaged
            read = ~fields.damaged & ~summed
            self._account.add_places("unread", f"{shape}: damaged", places[fields.damaged])
            self._account.add_places("unread", f"{shape}: calls that are only counted", places[summed])
            self._account.add_places("read", shape, places[read])
            self.place += count
            yield {name: column[read] for name, column in (rows | {"place": places}).items()}
        if line.damage >= 0:
            self.place += 1
            self._account.add("unread", f"{shape}: damaged line", 1, self.place)

    def _rows(self, fields: FieldColumns, line: Line, kind: LineKind) -> EventColumns:
        count = len(fields.damaged)
        row = self._plane.events.rows(fields.integers(_ROW, 0))
        stats = stats_of(*fields.messages(_STATS), self._plane.stat_names)
        self._count_figures(stats, self.place + 1)
        own = self._columns_of(stats, count)
        columns = {name: np.where(own[name] == empty, self._shared[name][row], own[name]) for name, empty in _EMPTY}
        step, names = columns.pop("step_number"), self._codes[row]
        for place in np.flatnonzero(step != MISSING).tolist():
            name = _step_name(self._plane.events.name[row[place]], int(step[place]))
            names[place] = self._interners["name"].code(name)
        start, duration = _times(line.start_ns, fields.integers(_OFFSET, 0), fields.integers(_DURATION, 0))
        return columns | {
            "name": names, "kind": self._kinds(kind, row, stats, columns["correlation"], step),
            "start": start, "duration": duration,
            "device": np.full(count, MISSING if kind.device in (None, -1) else kind.device, np.int64),
            "stream": np.full(count, kind.stream, np.int64),
            "process": np.full(count, self._interners["process"].code(kind.process), np.int32),
            "thread": np.full(count, self._interners["thread"].code(kind.thread), np.int32),
        }  # fmt: skip

    def _kinds(self, line: LineKind, row: Ints, stats: Stats, correlation: Ints, step: Ints) -> npt.NDArray[np.int8]:
        """Return the kinds of events: of a device by their line, of the host by their statistics and names."""
        if line.device is not None:
            ranges = np.full(len(row), KIND_CODE["device_range"], np.int8)
            return self._work_kinds[row] if line.is_work else ranges
        if _CALLS.match(self._plane.name):
            return np.full(len(row), KIND_CODE["runtime"], np.int8)
        kinds = self._host_kinds[row]
        with_source = self._have(stats, len(row), _SOURCES) | self._has_source[row]
        in_library = (kinds == KIND_CODE["range"]) & (with_source | (_PROGRAM_THREAD.match(line.thread) is None))
        kinds[in_library] = KIND_CODE["library"]
        kinds[self._have(stats, len(row), _OPERATORS) | self._is_operator[row]] = KIND_CODE["cpu"]
        kinds[correlation != MISSING] = KIND_CODE["runtime"]
        kinds[step != MISSING] = KIND_CODE["range"]
        return kinds

    def _have(self, stats: Stats, count: int, names: Collection[str]) -> Mask:
        """Return which of `count` things have one of these statistics."""
        numbers = [number for number, name in stats.names.items() if name in names]
        flags = np.zeros(count, np.bool_)
        flags[stats.owner[np.isin(stats.name, numbers)]] = True
        return flags

    def _columns_of(self, stats: Stats, count: int) -> EventColumns:
        """Return the columns that statistics of `count` things fill."""
        columns: EventColumns = {name: np.full(count, empty, np.int64) for name, empty in _EMPTY}
        # In the order of the declaration: where two fill one column, the last one counts.
        found = stats.by_name
        for name in (name for name in (*_NUMBERS, *_TEXTS) if name in found):
            places = found[name]
            if name in _NUMBERS:
                column, empty, values = _NUMBERS[name], MISSING, stats.integers(places)
                values[values < 0] = MISSING
            else:
                column, empty = _TEXTS[name], -1
                values = stats.codes(places, self._interners["range" if column == "program" else column].code)
            _fill(columns[column], stats.owner[places], values, empty)
        for name in (name for name in _DETAILS if name in found):
            self._add_details(stats, found[name], columns)
        return columns

    def _add_details(self, stats: Stats, places: Ints, columns: EventColumns) -> None:
        """Add what a string says of the launch of a kernel, or of a copy. Few of these strings are distinct."""
        texts = StringInterner()
        codes = stats.codes(places, texts.code)
        for name, empty, read in (
            ("bytes", MISSING, _number(_SIZE)),
            ("registers", MISSING, _number(_REGISTERS)),
            ("shared_bytes", MISSING, _shared_bytes),
            ("grid", -1, _dimensions(_GRID, self._interners["grid"].code)),
            ("block", -1, _dimensions(_BLOCK, self._interners["block"].code)),
        ):
            values = np.array([*map(read, texts.texts), empty], np.int64)[codes]
            _fill(columns[name], stats.owner[places], values, empty)

    def _count_figures(self, stats: Stats, first: int) -> None:
        """Count statistics: stored, dropped for a reason, or unread; keep the numbers of those that nobody declared."""
        for name, places in stats.by_name.items():
            figures = self._account.figures_of(name, first, because=DROPPED.get(name, ""))
            if name in TAKEN:
                figures.stored += len(places)
            elif name in DROPPED:
                figures.dropped += len(places)
            elif stats is self._plane.events.stats:  # what events share has no position of its own
                figures.unread += len(places)
            else:
                values = stats.reals(places)
                known = stats.is_number(places) & np.isfinite(values)
                figures.stored += int(known.sum())
                figures.unread += int((~known).sum())
                if known.any():
                    key = np.full(int(known.sum()), self._interners["key"].code(name), np.int64)
                    place = self.place + 1 + stats.owner[places[known]]
                    self.undeclared.append({"place": place, "key": key, "value": values[known]})


def _fill(column: Ints, owner: Ints, values: Ints, empty: int) -> None:
    """Put values into a column, of those that are not empty."""
    known = values != empty
    column[owner[known]] = values[known]


def _times(base: int, offset: Ints, length: Ints) -> tuple[Ints, Ints]:
    """Return starts and durations in ns of times in ps after a base in ns; MISSING where they make no sense."""
    known = (np.abs(offset) < _LARGEST) & (np.abs(length) < _LARGEST) & (abs(base) < _LARGEST)
    offset, length = np.where(known, offset, 0), np.where(known, length, 0)
    start, end = ((at + _PS // 2) // _PS for at in (offset, offset + length))
    return np.where(known, start + (base if known.any() else 0), MISSING), np.where(known, end - start, MISSING)


def _host_kind(name: str) -> str:
    """Return the kind of an event of the host, by its name."""
    if name.startswith(_PYTHON):
        return "python"
    return "cpu" if _JITTED.match(name) else "library" if _RUNTIME.match(name) else "range"


def _step_name(name: str, number: int) -> str:
    """Return the name of a step: `train` with number 3 is `train step 3`, `train_step` is `train_step 3`."""
    return f"{name} {number}" if name.endswith("step") else f"{name} step {number}"


def _number(pattern: re.Pattern[str]) -> Callable[[str], int]:
    def read(text: str) -> int:
        match = pattern.search(text)
        return number_in_name(match[1], MISSING) if match else MISSING

    return read


def _shared_bytes(text: str) -> int:
    sizes = [number_in_name(size, MISSING) for size in _SHARED.findall(text)]
    return sum(sizes) if sizes and MISSING not in sizes and sum(sizes) < _LARGEST else MISSING


def _dimensions(pattern: re.Pattern[str], code: Callable[[str], int]) -> Callable[[str], int]:
    def read(text: str) -> int:
        match = pattern.search(text)
        return code(f"[{', '.join(match.groups())}]") if match else -1

    return read
