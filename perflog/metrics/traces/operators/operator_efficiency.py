"""Operators of traces by the shapes of their inputs: time, work, rates, and how far below the roofline they run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.errors import UsageError
from perflog.grouping import grouped
from perflog.metrics.compared import Measure, Sample, Steady
from perflog.metrics.hardware import bandwidth_tbs, fastest_tflops, gpu_model, precision
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.traces.device_work import TraceDevice, seconds
from perflog.metrics.traces.input_shapes import shapes_text
from perflog.metrics.traces.operators.operator_calls import FileOperators, OperatorCalls, operators_by_file
from perflog.metrics.traces.operators.operator_work import COMMUNICATION, PRODUCTS, class_of, work_of

COMPUTE_BOUND, MEMORY_BOUND = "compute", "memory"
"""The sides of the roofline: what bounds an operator."""

_TERA = 1e12

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("rank", meaning="rank of the trace", type="Int64"),
    MetricColumn("by", meaning="trace: all work of its devices; class: of its operators; shape: operator and shapes"),
    MetricColumn("class", meaning="what the operator does; null: no formula for its work, it wraps one that counts, or "
                 "it copies over a bus"),
    MetricColumn("operator", meaning="innermost operator with a formula around the launch, else the innermost"),
    MetricColumn("inputs", meaning="shapes of its tensors, in short: 8x16, 16x4"),
    MetricColumn("shapes", meaning="shapes of its inputs, as printed", brief=False),
    MetricColumn("dtype", meaning="element type of its first input that counts"),
    MetricColumn("calls", meaning="number of calls that launched work", type="Int64"),
    MetricColumn("time_s", "s", "lower", "sum of the times of the launched work"),
    MetricColumn("share", "1", None, "time_s / sum of the times of all work of the file's devices"),
    MetricColumn("known_share", "1", "higher", "share of time_s with known FLOP or bytes"),
    MetricColumn("flop", "FLOP", None, "floating-point operations of all calls that have a formula and its inputs",
                 brief=False),
    MetricColumn("bytes", "B", None, "least memory traffic: each input is read once, each output written once",
                 brief=False),
    MetricColumn("tflops", "TFLOP/s", "higher", "flop / time of these calls"),
    MetricColumn("tbs", "TB/s", "higher", "bytes / time of these calls"),
    MetricColumn("intensity", "FLOP/B", None, "arithmetic intensity: flop / bytes"),
    MetricColumn("precision", meaning="arithmetic of the roof's peak: of dtype, or TF32 if names of kernels have it",
                 brief=False),
    MetricColumn("peak_tflops", "TFLOP/s", None, "dense peak of one GPU at this precision", brief=False),
    MetricColumn("peak_tbs", "TB/s", None, "bandwidth of its memory", brief=False),
    MetricColumn("roof_s", "s", None, "least time on the GPU: the larger of flop / peak and bytes / bandwidth",
                 brief=False),
    MetricColumn("roof_share", "1", "higher", "share of the attainable rate: roof_s / time of these calls"),
    MetricColumn("bound", meaning="the larger of these two: compute or memory"),
    MetricColumn("impossible", meaning="whether the arithmetic is faster than the peak, or than any GPU: the trace "
                 "lacks part of its work, or the peak is for other arithmetic; then it has no roof", brief=False),
    MetricColumn("first_line", meaning="line of the first call in the trace's file", brief=False, type="Int64"),
)  # fmt: skip


_LEAST_COMPARED = 1e-3  # of the time of all work


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """The rate of operators with the same shapes and type, over the ranks of a run: of products, else of the memory.

    Collectives, which have metrics of their own, and operators that take hardly any time are left out. The times are
    kernel times, so the rates are derived.
    """
    rows = operator_efficiency.table(tables, Options())
    whole = rows[rows["by"] == "trace"].groupby("run")["time_s"].sum()
    rows = rows[(rows["by"] == "shape") & ~rows["class"].isin([COMMUNICATION, None])]
    rows = rows[rows["inputs"].notna() & rows["dtype"].notna()]
    for values, alike in rows.groupby(["run", "operator", "inputs", "dtype"], sort=False):
        run, *words, dtype = map(str, values)
        time = float(alike["time_s"].sum())
        if run in steady.cuts and time > _LEAST_COMPARED * whole[run]:
            is_product = alike["class"].isin(PRODUCTS).all()
            amount = alike["flop" if is_product else "bytes"].sum(skipna=False)
            unit, size = ("TFLOP/s", _TERA) if is_product else ("GB/s", 1e9)
            if amount > 0:
                measure = Measure("rate", f"{' '.join(words)} ({dtype})", unit, "higher", derived=True)
                yield measure, run, np.array([float(amount) / time / size])


@metric(
    title="operators: work and efficiency by shape",
    needs=("events",),
    columns=_COLUMNS,
    main="roof_share",
    formula="roof_share = rate / attainable rate = least time / time; attainable = min(peak, intensity x bandwidth); "
    "FLOP and bytes by the formulas of perflog/metrics/traces/operators/operators.toml",
    source="roofline: Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785; formulas: each with its own, "
    "products as torch.utils.flop_counter; peaks: data sheets",
    compares=(_samples,),
)
def operator_efficiency(tables: Tables, options: Options) -> MetricRows:
    """Time, work and rates of the operators of each trace, by operator, shapes and type of its inputs.

    The work of a device belongs to the innermost operator around its launch that has a formula, and counts once.
    FLOP and bytes are unknown where the trace lacks shapes, types or values of inputs that a formula needs. Arithmetic
    bounds products only: other operators have the roof of the memory, collectives none. An operator with inputs in a
    cache can be above the roof. The roof needs `gpu`, with the size of its memory if it has several: A100-SXM4-80GB.

    Example:
        >>> table = perflog.metrics.operator_efficiency(perflog.read("shapes.json"), gpu="H100 SXM")
        >>> table.query("by == 'shape'")[["operator", "inputs", "tflops", "roof_share", "bound"]].round(2)
              operator  ... tflops  roof_share    bound
        ...
    """
    device_of = dict(tables.rows("runs").records("run", "device"))
    rows: list[dict[str, object]] = []
    for file, operators in known_operators(tables):
        roof = _Roof.of(options, [device_of[file.run], *file.device_names])
        file_columns = {"run": file.run, "rank": file.rank}
        rows += [file_columns | row for row in _rows(file, operators, roof)]
    return rows


class Operator(Struct, frozen=True):
    """Calls of an operator with the same shapes and type in a file. `flop`, `bytes`: of all calls; None: unknown."""

    name: str
    kind: str | None
    shapes: str | None
    dtype: str | None
    tf32: bool
    calls: int
    time_ns: int
    flop: float | None
    bytes: float | None
    first_line: int

    @property
    def inputs(self) -> str | None:
        """The shapes of its tensors, short."""
        return shapes_text(self.shapes)

    @property
    def known(self) -> bool:
        """Whether any of its work is known."""
        return self.flop is not None or self.bytes is not None

    @property
    def precision(self) -> str | None:
        """The arithmetic of its products."""
        if self.kind not in PRODUCTS or self.dtype is None:
            return None
        by_dtype = precision(self.dtype)
        return "tf32" if self.tf32 and by_dtype == "fp32" else by_dtype


@computed_once
def known_operators(tables: Tables) -> list[tuple[FileOperators, list[Operator]]]:
    """Return the operators of each file of traces, with their work, the longest first."""
    return [(file, _operators(file)) for file in operators_by_file(tables)]


def shares_above_roof(tables: Tables, options: Options) -> dict[TraceDevice, dict[str, Floats]]:
    """Return by device and class of operators the share of the time of each piece of work above the least that the
    roof of the GPU allows; 0 for work of other classes, or with an unknown least time. Empty without a GPU or peak.
    """
    found: dict[TraceDevice, dict[str, Floats]] = {}
    devices = dict(tables.rows("runs").records("run", "device"))
    if options.gpu is None and options.peak_tflops is None:
        return found
    for file, _ in known_operators(tables):
        roof = _Roof.of(options, [devices[file.run], *file.device_names])
        operators = [_operator(calls) for calls in file.operators]
        bounds = [roof.bounds(each) if roof is not None and each.time_ns else {} for each in operators]
        least = [max(of.values()) / float(seconds(each.time_ns)) if of else 1.0
                 for each, of in zip(operators, bounds, strict=True)]  # fmt: skip
        above = np.append(np.clip(1 - np.array(least), 0, 1), 0)
        kinds = [each.kind for each in operators]
        for device, owners in file.owners:
            for kind in sorted({kind for kind, of in zip(kinds, bounds, strict=True) if kind is not None and of}):
                own = np.array([*(each == kind for each in kinds), False], np.bool_)
                found.setdefault(device, {})[kind] = np.where(own, above, 0)[owners]
    return found


def _operator(calls: OperatorCalls) -> Operator:
    name, *texts, tf32 = calls.inputs
    work = work_of(name, *texts)
    flop, size = (None, None) if calls.uncounted else (work.flop, work.bytes)
    return Operator(
        name, None if calls.uncounted else class_of(name), calls.inputs.shapes, work.type, tf32, calls.calls,
        calls.time_ns, _product(flop, calls.calls), _product(size, calls.calls), calls.first_line,
    )  # fmt: skip


def _operators(file: FileOperators) -> list[Operator]:
    """Join the calls of one operator, shapes and type: their strides and values may differ."""
    joined: dict[tuple[Any, ...], Operator] = {}
    for calls in file.operators:
        new = _operator(calls)
        key = (new.name, new.kind, new.shapes, new.dtype, new.tf32)
        joined[key] = _sum(joined[key], new) if key in joined else new
    return sorted(joined.values(), key=lambda each: -each.time_ns)


def _sum(one: Operator, other: Operator) -> Operator:
    return Operator(
        one.name, one.kind, one.shapes, one.dtype, one.tf32, one.calls + other.calls, one.time_ns + other.time_ns,
        None if one.flop is None or other.flop is None else one.flop + other.flop,
        None if one.bytes is None or other.bytes is None else one.bytes + other.bytes,
        min(one.first_line, other.first_line),
    )  # fmt: skip


def _product(number: float | None, times: int) -> float | None:
    return None if number is None else number * times


class _Roof(Struct, frozen=True):
    """The roof of a GPU. `peaks`: TFLOP/s by precision, or one number that the user gives; `tbs`: TB/s or None."""

    peaks: Mapping[str, float] | float
    tbs: float | None

    @classmethod
    def of(cls, options: Options, device_names: Sequence[str | None]) -> _Roof | None:
        """Return the roof of the options, or None. Raises UsageError for a GPU or a peak that cannot be."""
        given = options.peak_tflops
        if not options.gpu:
            return None if given is None else cls(given, None)
        if given is None:
            return cls(gpu_model(options.gpu).peaks_tflops, bandwidth_tbs(options.gpu, *device_names))
        try:
            return cls(given, bandwidth_tbs(options.gpu, *device_names))
        except UsageError:  # a GPU that the table lacks, or one of several: its peak is known
            return cls(given, None)

    def peak(self, name: str | None) -> float | None:
        """Return the peak at a precision in TFLOP/s."""
        if name is None or not isinstance(self.peaks, Mapping):
            return None if name is None else float(self.peaks)  # type: ignore[arg-type]
        return self.peaks.get(name)

    def compute_s(self, operator: Operator) -> float | None:
        """Return the least time of the arithmetic of a product in s; None if it is not known."""
        peak = self.peak(operator.precision)
        return None if peak is None or operator.flop is None else operator.flop / peak / _TERA

    def impossible(self, operator: Operator) -> bool | None:
        """Return whether a product is faster than the peak; None if that is not known."""
        least = self.compute_s(operator)
        return None if least is None else least > float(seconds(operator.time_ns))

    def bounds(self, operator: Operator) -> dict[str, float]:
        """Return the least time of each side in s; nothing if one of them is not known, or cannot be."""
        if operator.kind in (None, COMMUNICATION) or operator.bytes is None or not self.tbs:
            return {}
        bounds = {MEMORY_BOUND: operator.bytes / self.tbs / _TERA}
        if operator.kind in PRODUCTS:
            compute = self.compute_s(operator)
            if compute is None or self.impossible(operator):
                return {}
            bounds[COMPUTE_BOUND] = compute
        return bounds


def _beats_all(operator: Operator) -> bool:
    """Return whether a product is known to be faster than the peak of any known GPU."""
    if operator.flop is None or operator.precision is None or operator.kind not in PRODUCTS:
        return False
    return operator.flop > fastest_tflops(operator.precision) * _TERA * float(seconds(operator.time_ns))


def _rows(file: FileOperators, operators: list[Operator], roof: _Roof | None) -> Iterator[dict[str, object]]:
    """Rows of a file: all its work, each class, each operator."""
    bounds = {
        id(each): bounds_of_shape for each in operators if roof is not None and (bounds_of_shape := roof.bounds(each))
    }
    least = {place: max(bounds_of_shape.values()) for place, bounds_of_shape in bounds.items()}
    yield {"by": "trace", **_figures(operators, file.time_ns, file.time_ns, least)}
    classes = grouped((each.kind, each) for each in operators if each.kind is not None)
    for kind, members in sorted(classes.items(), key=lambda item: -sum(each.time_ns for each in item[1])):
        time_ns = sum(each.time_ns for each in members)
        yield {"by": "class", "class": kind, **_figures(members, time_ns, file.time_ns, least)}
    for each in operators:
        row = {
            "by": "shape", "class": each.kind, "operator": each.name, "inputs": each.inputs, "shapes": each.shapes,
            "dtype": each.dtype,
            **_figures([each], each.time_ns, file.time_ns, least), "precision": each.precision,
        }  # fmt: skip
        if roof is not None:
            row |= {"peak_tflops": roof.peak(each.precision), "peak_tbs": roof.tbs}
            row["impossible"] = roof.impossible(each)
        if _beats_all(each):
            row["impossible"] = True
        if id(each) in bounds:
            row["bound"], _ = max(bounds[id(each)].items(), key=lambda side: side[1])
        yield row


def _figures(
    operators: Sequence[Operator], time_ns: int, whole_ns: int, least: Mapping[int, float]
) -> dict[str, object]:
    """Return sums and rates of operators. Each rate covers the operators with a known amount."""
    counted = [each for each in operators if each.flop is not None]
    moved = [each for each in operators if each.bytes is not None]
    both = [each for each in counted if each.bytes is not None]
    under = [each for each in operators if id(each) in least]
    flop, size = _total(each.flop for each in counted), _total(each.bytes for each in moved)
    roof = _total(least[id(each)] for each in under)
    return {
        "calls": sum(each.calls for each in operators),
        "time_s": float(seconds(time_ns)),
        "share": time_ns / whole_ns if whole_ns else None,
        "known_share": sum(each.time_ns for each in operators if each.known) / time_ns if time_ns else None,
        "flop": flop,
        "bytes": size,
        "tflops": _rate(flop, counted),
        "tbs": _rate(size, moved),
        "intensity": _ratio(_total(each.flop for each in both), _total(each.bytes for each in both)),
        "roof_s": roof,
        "roof_share": _ratio(roof, _time(under)),
        "first_line": min((each.first_line for each in operators), default=None),
    }


def _total(numbers: Iterable[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return math.fsum(known) if known else None


def _time(operators: Sequence[Operator]) -> float:
    return float(seconds(sum(each.time_ns for each in operators)))


def _rate(amount: float | None, operators: Sequence[Operator]) -> float | None:
    return _ratio(None if amount is None else amount / _TERA, _time(operators))


def _ratio(number: float | None, whole: float | None) -> float | None:
    return number / whole if number is not None and whole else None
