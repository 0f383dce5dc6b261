"""Times of the phases of a step: CUDA events on a GPU, the wall clock on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class PhaseClock:
    """Collects the seconds of each phase between two calls of `read`. A phase that runs twice in a step adds up.

    On a GPU work is timed by events on its stream, read once at the end of the step; nothing waits before that.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        self._seconds: dict[str, float] = {}
        self._one = torch.ones(1, device=device)

    def __call__(self, phase: str) -> AbstractContextManager[None]:
        """Time what is done inside as that phase."""
        return self.time(phase)

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        """The same, whatever else a kind of clock does with a phase."""
        if self._cuda:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
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
        """Meet the other ranks, timed as that phase: what comes after is not the wait for the slowest of them.

        One number is added up over all ranks, because `dist.barrier` would stop the host too on a GPU.
        """
        with self(phase):
            if dist.get_world_size() > 1:
                dist.all_reduce(self._one.fill_(1.0))

    def read(self) -> dict[str, float]:
        """Seconds by phase since the last call. Synchronises the GPU."""
        if self._cuda:
            torch.cuda.synchronize()
            for phase, begin, end in self._events:
                self._add(phase, begin.elapsed_time(end) / 1e3)
            self._events.clear()
        seconds, self._seconds = self._seconds, {}
        return seconds


class _BackwardMark(torch.autograd.Function):
    """What it was given; `met` is called when the backward comes by."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, met: Callable[[], object]) -> Tensor:
        ctx.met = met
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        ctx.met()
        return grads[0], None


def timed_backward(work: Callable[[Tensor], Tensor], x: Tensor, clock: PhaseClock, phase: str) -> Tensor:
    """work(x), whose backward is timed as that phase: from the gradient of its output to that of x.

    Autograd takes the latest operation first, so nothing else runs between the two.
    """
    running: list[AbstractContextManager[None]] = []

    def begin() -> None:
        running.append(clock.time(phase))  # no range of a profile: those of backward functions lie across it
        running[-1].__enter__()

    marked: Tensor = _BackwardMark.apply(x, lambda: running.pop().__exit__(None, None, None))
    y: Tensor = _BackwardMark.apply(work(marked), begin)
    return y
