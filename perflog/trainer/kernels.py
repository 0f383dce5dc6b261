"""Program of recipe kernels: trains a GPT-2 shape under torch.profiler.

Prints the kernels that each profiler range launched, and writes the Chrome trace.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function

from perflog.errors import InputError
from perflog.trainer.log_writer import LogWriter
from perflog.trainer.phase_clock import PhaseClock
from perflog.trainer.printers.reference_printer import ReferencePrinter
from perflog.trainer.rank_context import RankContext, patient_group
from perflog.trainer.recipes import RunSpec
from perflog.trainer.training import Trainer

if TYPE_CHECKING:
    import torch

# Start of the name of a backward function; the event has the sequence number of its forward.
_BACKWARD = "autograd::engine::evaluate_function"

KernelKey = tuple[str, str, str]  # range, kind, name


class ProfilerRangeClock(PhaseClock):
    """A clock that makes its phases profiler ranges too. `names` holds the names of all ranges."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.names: set[str] = set()

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time the body of the `with` block as that phase, inside a range of the same name."""
        with self.range(phase), self.time(phase):
            yield

    def range(self, name: str) -> record_function:
        """Return a range that is not timed as a phase."""
        self.names.add(name)
        return record_function(name)

    def add_layer_ranges(self, blocks: Iterable[torch.nn.Module]) -> None:
        """Put a range around the forward of each block: layer.0, layer.1, ..."""
        for number, block in enumerate(blocks):
            running: list[record_function] = []

            def begin(*_: Any, name: str = f"layer.{number}", running: list[record_function] = running) -> None:
                running.append(self.range(name))
                running[-1].__enter__()

            def end(*_: Any, running: list[record_function] = running) -> None:
                running.pop().__exit__(None, None, None)

            block.register_forward_pre_hook(begin)
            block.register_forward_hook(end)


class ProfileRanges:
    """Finds the range of each profiler event: `forward/layer.3/attention`, the innermost range last.

    A backward function gets the range of its forward: `backward/layer.3/attention`.
    """

    def __init__(self, events: Sequence[Any], names: set[str]) -> None:
        self._names = names
        self._forward: dict[int, str] = {}  # by the sequence number that autograd gives a forward and its backward
        for event in events:
            path = self.path(event)
            if event.sequence_nr >= 0 and path.startswith("forward"):
                self._forward[event.sequence_nr] = path.partition("/")[2]

    def path(self, event: Any) -> str:
        """Return the ranges that enclose an event, and the event itself if it is a range; "step" if there is none.

        On a GPU the backward runs in its own thread, which does not see the ranges of the program.
        """
        ranges, forward, fallback = [], "", "step"
        while event is not None:
            if event.name in self._names:
                ranges.append(event.name)
            elif event.name.startswith(_BACKWARD):
                forward, fallback = forward or self._forward.get(event.sequence_nr, ""), "backward"
            event = event.cpu_parent
        path = "/".join(name for name in reversed(ranges) if name != "elapsed") or fallback
        return f"{path}/{forward}" if forward else path

    def rows(self, events: Sequence[Any]) -> dict[KernelKey, list[float]]:
        """Return microseconds of each call of ranges and of the kernels that they launched, by range, kind and name.

        Without a GPU the rows are operators; the time of an operator excludes the operators inside it.
        """
        calls: dict[KernelKey, list[float]] = defaultdict(list)
        gpu = any(event.kernels for event in events)
        for event in events:
            if event.device_type.name != "CPU":
                continue
            path = self.path(event)
            if event.name in self._names:
                calls[path, "range", path.rpartition("/")[2]].append(event.time_range.elapsed_us())
                continue
            for kernel in event.kernels:
                calls[path, _work_kind(kernel.name), kernel.name].append(kernel.duration)
            if not gpu:
                calls[path, "op", event.name].append(event.self_cpu_time_total)
        return calls


def _work_kind(name: str) -> str:
    """Return the kind of a piece of GPU work: memcpy, memset or kernel."""
    return next((kind for kind in ("memcpy", "memset") if name.lower().startswith(kind)), "kernel")


def run(specs: Iterable[RunSpec], context: RankContext, log: LogWriter, output: Path | None = None) -> None:
    """Train and print all runs. Rank 0 profiles the steps after the warm-up and writes the trace to `output`."""
    patient = patient_group()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if context.device.type == "cuda" else [])]
    for spec in specs:
        clock = ProfilerRangeClock(context.device)
        trainer = Trainer(spec, context, clock)
        clock.add_layer_ranges(trainer.model.blocks)
        printer = ReferencePrinter(log, trainer)
        printer.begin()
        for number in range(spec.warmup_steps):
            printer.step(trainer.step(number))
        profiler = profile(activities=activities)
        if context.rank == 0:
            profiler.start()
        measured = [trainer.step(number) for number in range(spec.warmup_steps, spec.steps)]
        if context.rank == 0:
            profiler.stop()
        for step in measured:
            printer.step(step)
        if context.rank == 0:
            print_kernel_table(log, profiler, clock.names, spec)
            if output:
                write_trace(profiler, output)
        dist.barrier(group=patient)
        printer.end()


def print_kernel_table(log: LogWriter, profiler: profile, names: set[str], spec: RunSpec) -> None:
    """Print a line for each range, kind and name: ranges in the order they began, the longest row of each first."""
    events = profiler.events() or ()
    rows = ProfileRanges(events, names).rows(events)
    log.write(
        "profile",
        rank=log.rank,
        profiled_first=spec.warmup_steps,
        profiled_last=spec.steps - 1,
        profiler="torch.profiler",
    )
    for path in dict.fromkeys(key[0] for key in rows):
        log.write("range", rank=log.rank, range=path)
        in_range = [(kind, name, spent) for (where, kind, name), spent in rows.items() if where == path]
        for kind, name, spent in sorted(in_range, key=lambda row: (row[0] != "range", -sum(row[2]))):
            times = {"time": sum(spent) * 1e-6, "min": min(spent) * 1e-6, "max": max(spent) * 1e-6}
            log.write("kernel", rank=log.rank, range=path, kind=kind, name=name, calls=len(spent), **times)


def write_trace(profiler: profile, output: Path) -> None:
    """Write the Chrome trace, whole or not at all. Raises InputError if it cannot be written."""
    part = output.with_name(f".part-{output.name}")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(part))
        os.replace(part, output)
    except (OSError, RuntimeError) as error:
        part.unlink(missing_ok=True)
        raise InputError(f"the trace cannot be written: {error}", str(output)) from error
