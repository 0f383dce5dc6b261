"""Timing of the phases of a step: CUDA events on a GPU, the wall clock on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class PhaseClock:
    """Collects the seconds of each phase between two calls of `read`. A phase that runs twice in a step is summed.

    On a GPU two events on the stream enclose each phase. `read` reads them once, at the end of the step; nothing
    before that makes the host wait.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        self._free: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []  # of earlier steps: to make one takes time
        self._seconds: dict[str, float] = {}
        self._barrier_value = torch.ones(1, device=device)

    def __call__(self, phase: str) -> AbstractContextManager[None]:
        """Time the body of the `with` block as that phase."""
        return self.time(phase)

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        """Time a phase and do nothing else, also where a subclass adds to `__call__`."""
        if self._cuda:
            begin, end = self._free.pop() if self._free else (_event(), _event())
            begin.record()
            yield
            end.record()
            self._events.append((phase, begin, end))
        else:
            start = time.perf_counter()
            yield
            self._add(phase, time.perf_counter() - start)

    def _add(self, phase: str, seconds: float) -> None:
        self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds

    def wait(self, phase: str = "wait") -> None:
        """Wait for the other ranks and time that as a phase: the transfer after it excludes the wait for the slowest.

        The ranks all-reduce one number. `dist.barrier` would also stop the host on a GPU.
        """
        with self(phase):
            if dist.get_world_size() > 1:
                dist.all_reduce(self._barrier_value.fill_(1.0))

    def read(self) -> dict[str, float]:
        """Return seconds by phase since the last call. Synchronises the GPU."""
        if self._cuda:
            torch.cuda.synchronize()
            for phase, begin, end in self._events:
                self._add(phase, begin.elapsed_time(end) / 1e3)
            self._free += [(begin, end) for _, begin, end in self._events]
            self._events.clear()
        seconds, self._seconds = self._seconds, {}
        return seconds


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


class _BackwardMark(torch.autograd.Function):
    """Identity function that calls `on_backward` when the backward pass reaches it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, on_backward: Callable[[], object]) -> Tensor:
        ctx.on_backward = on_backward
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        ctx.on_backward()
        return grads[0], None


def timed_backward(work: Callable[[Tensor], Tensor], x: Tensor, clock: PhaseClock, phase: str) -> Tensor:
    """Return `work(x)` and time its backward as that phase: from the gradient of the output to the gradient of x.

    Autograd runs the backward of the latest operation first, so nothing else runs between the two.
    """
    running: list[AbstractContextManager[None]] = []

    def begin() -> None:
        running.append(
            clock.time(phase)
        )  # not `clock(phase)`: a profiler range here would cross the ranges of backward functions
        running[-1].__enter__()

    marked: Tensor = _BackwardMark.apply(x, lambda: running.pop().__exit__(None, None, None))
    y: Tensor = _BackwardMark.apply(work(marked), begin)
    return y
