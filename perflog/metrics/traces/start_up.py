"""Start-up in traces: time in which the host captures graphs or compiles, and a device idles.

A trace of it has no steady steps, so it is reported before anything else is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import TraceDevice, are_in_steps, has_times, seconds, trace_devices
from perflog.metrics.traces.intervals import Intervals, union
from perflog.tables.arrow import Where, one_of
from perflog.tables.columns import rows_from_arrow

_CAPTURE = lazy_pattern(r"(?:cuda|cu|hip)Stream(Begin|End)Capture")
"""Between these calls of the runtime, kernels are recorded and do not run."""
_COMPILES = lazy_pattern(
    r"(?:cu|cuda|hip)(?:Module|Library)Load|(?:nvrtc|hiprtc)CompileProgram|torch/_dynamo/convert_frame\.py|"
    r"torch/_inductor/compile_fx\.py\(\d+\): _?(?:compile_fx|fx_codegen)|"
    r"triton/compiler/compiler\.py\(\d+\): compile\b|"
    r"^(?:entire_frame_compile|backend_compile|inductor_compile|_compile\.compile_inner|compile_file|"
    r"OutputGraph\.call_user_compiler|GraphLowering\.)"
)
"""Calls that load or compile kernels: of the runtime, frames of TorchDynamo, TorchInductor and Triton, and the ranges
of `torch._dynamo.utils.dynamo_timed`.
"""

CAPTURE, COMPILATION = "graph capture", "compilation"


class StartUp(Struct, frozen=True):
    """Idle time of a device, in s a step or in its whole trace, while the host does what belongs to a start."""

    run: str
    what: str
    time_s: float


def start_ups(tables: Tables) -> Iterator[StartUp]:
    """Yield the idle time during captures and compilation of each run that has any, mean over its devices."""
    doing = {CAPTURE: _captures(tables), COMPILATION: _compiling(tables)}
    if not any(doing.values()):
        return
    by_run = grouped((device.run, device) for device in trace_devices(tables) if device.span)
    for run, devices in by_run.items():
        in_steps = are_in_steps(devices)
        for what, by_file in doing.items():
            times = [_idle(each, by_file[run, each.part], in_steps) for each in devices if (run, each.part) in by_file]
            if times:
                number = len(devices) * (1 if not in_steps else float(np.mean([len(d.steps.numbers) for d in devices])))
                yield StartUp(run, what, float(seconds(sum(times))) / number)


def _idle(device: TraceDevice, doing: Intervals, in_steps: bool) -> int:
    busy, steps = device.work.busy, device.steps
    starts, ends = (steps.starts, steps.ends) if in_steps else (busy.starts[:1], busy.ends[-1:])
    return int((doing - busy).inside(starts, ends).sum())


def _captures(tables: Tables) -> dict[tuple[str, int], Intervals]:
    """Time between the begin of a capture and its end, by run and file."""
    where: Where = {"kind": one_of("runtime"), "name": lambda name: name and _CAPTURE.match(name)}
    found = {}
    for file, events in tables.arrow_by_file("events", where, "name", "start_ns", "duration_ns"):
        rows = rows_from_arrow(events)
        rows = rows.where(has_times(rows))
        code, names = rows.codes("name")
        begins = np.array(["BeginCapture" in name for name in names], np.bool_)[code]
        first, last = rows["start_ns"][begins], np.sort((rows["start_ns"] + rows["duration_ns"])[~begins])
        place_of_end = np.searchsorted(last, first)
        ended = place_of_end < len(last)
        if ended.any():
            found[file] = union(first[ended], last[place_of_end[ended]])
    return found


def _compiling(tables: Tables) -> dict[tuple[str, int], Intervals]:
    """Time in calls that compile, by run and file."""
    where: Where = {
        "kind": one_of("runtime", "range", "cpu", "python"), "name": lambda name: name and _COMPILES.search(name)
    }  # fmt: skip
    found = {}
    for file, events in tables.arrow_by_file("events", where, "start_ns", "duration_ns"):
        rows = rows_from_arrow(events)
        rows = rows.where(has_times(rows))
        if len(rows):
            found[file] = union(rows["start_ns"], rows["start_ns"] + rows["duration_ns"])
    return found
