"""Recipe kernels: a GPT-2 shape under torch.profiler. Prints what each range launched, and writes the Chrome trace."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.profiler import ProfilerActivity, profile, record_function

from perflog.errors import InputError
from perflog.trainer.log_writer import LogWriter
from perflog.trainer.phase_clock import PhaseClock
from perflog.trainer.rank_context import RankContext
from perflog.trainer.recipes import RunSpec
from perflog.trainer.reference_printer import ReferencePrinter
from perflog.trainer.training import Trainer

if TYPE_CHECKING:
    import torch

_BACKWARD = (
    "autograd::engine::evaluate_function"  # begins the name of a backward function; it knows its forward's number
)

KernelKey = tuple[str, str, str]  # range, kind, name


class ProfilerRangeClock(PhaseClock):
    """A clock whose phases are ranges of the profile too. `names` are those of all ranges."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self.names: set[str] = set()

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time what is done inside as that phase, under a range of its name."""
        with self.range(phase), self.time(phase):
            yield

    def range(self, name: str) -> record_function:
        """A range that is not timed as a phase."""
        self.names.add(name)
        return record_function(name)

    def add_layer_ranges(self, blocks: Iterable[torch.nn.Module]) -> None:
        """A range around the forward of each block: layer.0, layer.1, ..."""
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
    """Which range each event of a profile belongs to: `forward/layer.3/attention`, the innermost ones last.

    A backward function belongs to the range of the forward that it is of: `backward/layer.3/attention`.
    """

    def __init__(self, events: Sequence[Any], names: set[str]) -> None:
        self._names = names
        self._forward: dict[int, str] = {}  # by the number that autograd gives a forward and its backward
        for event in events:
            path = self.path(event)
            if event.sequence_nr >= 0 and path.startswith("forward"):
                self._forward[event.sequence_nr] = path.partition("/")[2]

    def path(self, event: Any) -> str:
        """The ranges around an event, and it itself if it is one; "step" where there is none.

        On a GPU the backward runs in a thread of its own, where the ranges of the program are not seen.
        """
        found, forward, alone = [], "", "step"
        while event is not None:
            if event.name in self._names:
                found.append(event.name)
            elif event.name.startswith(_BACKWARD):
                forward, alone = forward or self._forward.get(event.sequence_nr, ""), "backward"
            event = event.cpu_parent
        path = "/".join(name for name in reversed(found) if name != "elapsed") or alone
        return f"{path}/{forward}" if forward else path

    def rows(self, events: Sequence[Any]) -> dict[KernelKey, list[float]]:
        """Microseconds of each call, by range, kind and name: of the ranges, and of the kernels that they launched.

        Where there is no GPU, of the operators themselves; an operator's time is without the operators inside it.
        """
        found: dict[KernelKey, list[float]] = defaultdict(list)
        gpu = any(event.kernels for event in events)
        for event in events:
            if event.device_type.name != "CPU":
                continue
            path = self.path(event)
            if event.name in self._names:
                found[path, "range", path.rpartition("/")[2]].append(event.time_range.elapsed_us())
                continue
            for kernel in event.kernels:
                found[path, _work_kind(kernel.name), kernel.name].append(kernel.duration)
            if not gpu:
                found[path, "op", event.name].append(event.self_cpu_time_total)
        return found


def _work_kind(name: str) -> str:
    """What a piece of the GPU's work is."""
    return next((kind for kind in ("memcpy", "memset") if name.lower().startswith(kind)), "kernel")


def run(specs: Iterable[RunSpec], context: RankContext, log: LogWriter, output: Path | None = None) -> None:
    """Train and print all runs; rank 0 profiles the steps after the warm-up. The trace goes to `output`."""
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
        for one in measured:
            printer.step(one)
        if context.rank == 0:
            print_kernel_table(log, profiler, clock.names, spec)
            if output:
                write_trace(profiler, output)
        printer.end()


def print_kernel_table(log: LogWriter, profiler: profile, names: set[str], spec: RunSpec) -> None:
    """Print a line for each range, kind and name; ranges in the order they began, in each the longest first."""
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
        mine = [(kind, name, spent) for (where, kind, name), spent in rows.items() if where == path]
        for kind, name, spent in sorted(mine, key=lambda row: (row[0] != "range", -sum(row[2]))):
            times = {"time": sum(spent) * 1e-6, "min": min(spent) * 1e-6, "max": max(spent) * 1e-6}
            log.write("kernel", rank=log.rank, range=path, kind=kind, name=name, calls=len(spent), **times)


def write_trace(profiler: profile, output: Path) -> None:
    """Write the Chrome trace, whole or not at all. Raises InputError where it cannot be written."""
    part = output.with_name(f".part-{output.name}")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(part))
        os.replace(part, output)
    except (OSError, RuntimeError) as error:
        part.unlink(missing_ok=True)
        raise InputError(f"the trace cannot be written: {error}", str(output)) from error
