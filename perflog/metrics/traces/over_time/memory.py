"""Memory over the time of traces: the peak and its moment, who held it, the curve, growth from step to step."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Ints
from perflog.metrics.compared import ComparedColumn, Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import seconds
from perflog.metrics.traces.over_time.device_memory import MemoryCurve, device_memory
from perflog.metrics.traces.over_time.memory_holders import NOT_TRACED, HeldMemory, held_memory
from perflog.metrics.traces.work_tree import OUTSIDE, PATH_MARK
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd

OTHER = "(other)"
"""Replaces the holder: the sum of all that hold little at the peak."""

_BINS = 200
"""Periods of the curve."""

_SHOWN = 6  # holders that the curve shows separately
_LEAST_STEPS = 3  # that growth needs

_DEVICE = (
    MetricColumn("rank", meaning="rank of the trace", type="Int64"),
    MetricColumn("memory", meaning="device or host"),
    MetricColumn("device", meaning="number of the device in the trace", type="Int64"),
    MetricColumn("device_name", meaning="name of the device", brief=False),
    MetricColumn("process", meaning="process that allocates, as named in the trace", brief=False),
)
_PRINTED = "printed: total of the allocator; blocks: blocks with an allocation in the trace, so a lower bound"

_PEAK_COLUMNS = (
    *RUN_COLUMNS,
    *_DEVICE,
    MetricColumn("peak", "B", "lower", "largest number of bytes that were allocated at once", type="Int64"),
    MetricColumn("basis", meaning=_PRINTED),
    MetricColumn("at_s", "s", None, "moment of the peak, since the first event of memory or step in the file"),
    MetricColumn("step", meaning="step in which the peak lies", type="Int64"),
    MetricColumn("reserved", "B", "lower", "bytes that the allocator held at the peak, for blocks and for later ones",
                 type="Int64"),
    MetricColumn("fragmentation", "1", "lower", "(reserved - allocated) / reserved, at the peak"),
    MetricColumn("reserved_peak", "B", "lower", "largest number of bytes that the allocator held", type="Int64"),
    MetricColumn(
        "blocks", meaning="number of blocks that lived at the peak, of those allocated in the trace", type="Int64"
    ),
    MetricColumn(
        "not_traced", "B", None, "bytes at the peak without an allocation in the trace; null: not known", type="Int64"
    ),
    MetricColumn(
        "growth", "B", "lower", "bytes by which memory at ends of steps grows a step, from the second step on"
    ),
    MetricColumn(
        "freed_unknown", "B", None, "bytes that were freed and not allocated in the trace", brief=False, type="Int64"
    ),
    MetricColumn("first_line", meaning="line of the event of the peak", brief=False, type="Int64"),
)  # fmt: skip

_HOLDER_COLUMNS = (
    *RUN_COLUMNS,
    *_DEVICE,
    MetricColumn("holder", meaning=f"range and operator in short; {NOT_TRACED}: allocation not in the trace"),
    MetricColumn("bytes", "B", "lower", "bytes that it held at the peak", type="Int64"),
    MetricColumn("share", "1", None, "bytes / all bytes allocated at the peak"),
    MetricColumn("blocks", meaning="number of its blocks", type="Int64"),
    MetricColumn("oldest_step", meaning="step in which the oldest of them was allocated; null: in none", brief=False,
                 type="Int64"),
    MetricColumn("operator", meaning="innermost operator around the allocation that does more than allocate"),
    MetricColumn(
        "range",
        meaning=f"path of the ranges and modules around it, with `{PATH_MARK.strip()}` in between; {OUTSIDE}: in none",
    ),
    MetricColumn("first_line", meaning="line of the first of these allocations", brief=False, type="Int64"),
)  # fmt: skip

_CURVE_COLUMNS = (
    *RUN_COLUMNS,
    *_DEVICE,
    MetricColumn("at_s", "s", None, "moment, since the first event of memory or step in the file"),
    MetricColumn("step", meaning="step in which it lies", type="Int64"),
    MetricColumn("holder", meaning=f"as in `memory_holders`; {OTHER}: those that hold little at the peak"),
    MetricColumn("bytes", "B", "lower", "bytes that the holder held", type="Int64"),
    MetricColumn("allocated", "B", "lower", "all bytes that were allocated", type="Int64"),
    MetricColumn("reserved", "B", "lower", "bytes that the allocator held; null: not printed", type="Int64"),
    MetricColumn("is_peak", meaning="whether it is the peak", brief=False),
    MetricColumn("first_line", meaning="line of the event", brief=False, type="Int64"),
)

_SOURCE = "events `[memory]` of torch.profiler with the totals of its allocator; CUDA_GPU_MEMORY_USAGE_EVENTS of nsys"


_COMPARED = {"peak": "peak allocated", "reserved_peak": "peak reserved", "growth": "growth a step"}
"""Columns of the peak that compare: the values of the device, or of the host, that needs most."""

_LEAST_HELD = 0.01  # of the peak: smaller holders are not compared


def _held_at_peaks(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Yield the bytes of each holder at the largest memory peak of each run. It may have memory of device and host."""
    peaks, holders = memory_peak.table(tables, Options()), memory_holders.table(tables, Options())
    for (run, memory), rows in peaks.groupby(["run", "memory"], sort=False):
        largest = rows.loc[rows["peak"].astype(float).idxmax()]
        own = holders_of(largest.to_dict(), holders)
        own = own[own["share"].astype(float) >= _LEAST_HELD]
        if run not in steady.cuts:
            continue
        for holder, size in own.groupby("holder", sort=False)["bytes"].sum().items():
            name, of = f"{holder}, at the peak of {memory} memory", f"{memory} memory, {_COMPARED['peak']}"
            yield Measure("holder", name, "B", of=of), run, np.array([float(size)])


@metric(
    title="memory peak: how much was allocated at most, and when",
    needs=("events",),
    columns=_PEAK_COLUMNS,
    main="peak",
    formula="peak = max over events of the allocated bytes; without printed totals, of the sum of the blocks that "
    "live; growth = (allocated at the end of the last step - allocated at the end of the second) / steps between",
    source=_SOURCE,
    compares=tuple(
        ComparedColumn("memory", f"{{memory}} memory, {name}", column, "B", ("memory",), largest=True)
        for column, name in _COMPARED.items()
    ),
)
def memory_peak(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """The peak of the memory of each device, and of the host, with what the allocator held beyond it.

    A block is freed by the next event of its address. Memory that was allocated before the trace began is in the
    printed totals only.

    Example:
        >>> table = perflog.metrics.memory_peak(perflog.read("trace.json"))
        >>> table[["memory", "device", "peak", "reserved", "step"]]
           memory  device  peak  reserved  step
        0  device       0   512   2097152     2

        A trace has these events if memory was profiled: `profile(..., profile_memory=True)`.
    """
    curves = device_memory(tables)
    begins = _begins(curves)
    return [_peak(curve, begins[curve.run, curve.part]) for curve in curves]


@metric(
    title="memory holders: who held the memory at the peak",
    needs=("events",),
    columns=_HOLDER_COLUMNS,
    main="bytes",
    formula="sum of the blocks that live at the peak of the device, by where they were allocated; with the bytes that "
    f"are {NOT_TRACED} they add up to the peak",
    source=f"{_SOURCE}; the calls around the allocation by its thread and time, or by the call of the runtime",
    compares=(_held_at_peaks,),
)
def memory_holders(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Who held the memory of each device at its peak: ranges, modules and operators that allocated it, the most first.

    Operators that only allocate, such as `aten::empty`, count as the operator around them.

    Example:
        >>> table = perflog.metrics.memory_holders(perflog.read("trace.json"))
        >>> table[["holder", "bytes", "share"]]
                       holder  bytes  share
        0  (not in the trace)    512    1.0
    """
    return [row for held in held_memory(tables) for row in _holders(held)]


@metric(
    title="memory curve: allocated and reserved over the time",
    needs=("events",),
    columns=_CURVE_COLUMNS,
    main="bytes",
    formula=f"of {_BINS} equal periods the event after which most is allocated; bytes = sum of the blocks of a holder "
    "that live then",
    source=_SOURCE,
)
def memory_curve(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """The memory of each device over time, divided by holder; the holders are the largest ones at the peak.

    Example:
        >>> table = perflog.metrics.memory_curve(perflog.read("trace.json"))
        >>> table[["at_s", "holder", "bytes", "allocated", "reserved"]]
             at_s              holder  bytes  allocated  reserved
        0  0.0001  (not in the trace)    512        512   2097152
    """
    memory = held_memory(tables)
    begins = _begins([held.curve for held in memory])
    return [_curve(held, begins[held.curve.run, held.curve.part]) for held in memory]


def holders_of(peak: Mapping[Hashable, Any], holders: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `memory_holders` of the memory that a row of `memory_peak` is about."""
    for column in ("run", "rank", "memory", "device", "process"):
        if none_if_null(peak[column]) is None:
            holders = holders[holders[column].isna()]
        else:
            holders = holders[(holders[column] == peak[column]).fillna(False).astype(bool)]
    return holders


def step_ends(curve: MemoryCurve) -> Ints:
    """Return the last event before the end of each step, from the second step on: the first allocates for later ones.

    Empty if fewer than three steps have an event of memory before their end.
    """
    last = curve.before(curve.steps.ends)
    known = last[last >= 0]
    return known[1:] if len(known) >= _LEAST_STEPS else known[:0]


def _begins(curves: Sequence[MemoryCurve]) -> Mapping[tuple[str, int], int]:
    """The moment from which the times of each file count."""
    begins: dict[tuple[str, int], int] = {}
    for curve in curves:
        place = curve.run, curve.part
        first = min(int(curve.times[0]), *curve.steps.starts[:1].tolist(), begins.get(place, int(curve.times[0])))
        begins[place] = first
    return begins


def _named(curve: MemoryCurve) -> dict[str, Any]:
    return {
        "run": curve.run, "rank": curve.rank, "process": curve.process,
        "memory": "host" if curve.device is None else "device", "device": curve.device,
        "device_name": curve.device_name,
    }  # fmt: skip


def _peak(curve: MemoryCurve, begin: int) -> dict[str, Any]:
    peak = curve.peak
    row = _named(curve) | {
        "peak": int(curve.allocated[peak]), "basis": "printed" if curve.is_printed else "blocks",
        "at_s": float(seconds(curve.times[peak] - begin)), "step": curve.step_at(peak),
        "blocks": len(curve.living(peak)), "freed_unknown": curve.freed_unknown,
        "first_line": int(curve.rows["line"][peak]),
    }  # fmt: skip
    if curve.reserved is not None:
        reserved = int(curve.reserved[peak])
        row |= {"reserved": reserved, "reserved_peak": int(curve.reserved.max())}
        row["fragmentation"] = (reserved - row["peak"]) / reserved if reserved else None
    if curve.is_printed:
        row["not_traced"] = int(curve.allocated[peak] - curve.live[peak])
    if len(allocated := curve.allocated[step_ends(curve)]):
        row["growth"] = float(allocated[-1] - allocated[0]) / (len(allocated) - 1)
    return row


def _holders(held: HeldMemory) -> Iterator[dict[str, Any]]:
    curve, peak = held.curve, held.curve.peak
    total = int(curve.allocated[peak])
    number, living = held.blocks_at(peak), curve.living(peak)
    firsts = np.full(len(held.holders), len(curve.rows), np.int64)
    np.minimum.at(firsts, held.holder_by_block[living], curve.blocks.born[living])
    rows = []
    for code, size in enumerate(held.at_peak.tolist()):
        if not size:
            continue
        holder, first = held.holders[code], int(firsts[code])
        row = {"holder": holder.name, "bytes": size, "blocks": int(number[code]), "operator": holder.operator,
               "range": holder.range, "oldest_step": curve.step_at(first),
               "first_line": int(curve.rows["line"][first])}  # fmt: skip
        rows.append(row)
    if unexplained := held.unexplained_at(peak):
        rows.append({"holder": NOT_TRACED, "bytes": unexplained})
    for row in sorted(rows, key=lambda row: (-row["bytes"], row["holder"])):
        yield _named(curve) | row | {"share": row["bytes"] / total if total else None}


def _curve(held: HeldMemory, begin: int) -> pd.DataFrame:
    """Rows of the curve of one device, in order of time, at each time the holders of the peak, the largest first."""
    import pandas as pd

    curve = held.curve
    points = _points(curve)
    codes: dict[str, int] = {}
    name_of = np.array([codes.setdefault(holder.name, len(codes)) for holder in held.holders], np.int64)
    names = list(codes)
    at_peak = np.zeros(len(names), np.int64)
    np.add.at(at_peak, name_of, held.at_peak)
    largest = [code for code in np.argsort(-at_peak, kind="stable")[:_SHOWN].tolist() if at_peak[code]]
    block_names = name_of[held.holder_by_block]
    held_bytes = {names[code]: curve.bytes_of(block_names == code)[points] for code in largest}
    rest = ~np.isin(block_names, largest)
    if rest.any():
        held_bytes[OTHER] = curve.bytes_of(rest)[points]
    not_traced = (curve.allocated - curve.live)[points]
    if not_traced.any() or not held_bytes:  # of frees alone there is a curve too
        held_bytes[NOT_TRACED] = not_traced
    steps = [curve.step_at(point) for point in points.tolist()]
    reserved = curve.reserved[points] if curve.reserved is not None else [None] * len(points)
    common = {
        **_named(curve), "at_s": seconds(curve.times[points] - begin), "step": steps,
        "allocated": curve.allocated[points], "reserved": reserved, "is_peak": points == curve.peak,
        "first_line": curve.rows["line"][points],
    }  # fmt: skip
    frames = [pd.DataFrame(common | {"holder": name, "bytes": sizes}) for name, sizes in held_bytes.items()]
    return pd.concat(frames).sort_values("at_s", kind="stable")


def _points(curve: MemoryCurve) -> Ints:
    """The first event of each period after which most is allocated; the peak is one of them."""
    first, last = int(curve.times[0]), int(curve.times[-1])
    period = np.minimum((curve.times - first) * _BINS // max(last - first, 1), _BINS - 1)
    order = np.lexsort((-np.arange(len(period)), curve.allocated, period))
    points: Ints = np.sort(order[np.flatnonzero(np.diff(period[order], append=_BINS))])
    return points
