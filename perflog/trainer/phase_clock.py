"""Timing of the phases of a step: CUDA events on a GPU, the wall clock on a CPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
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
        self._transfers: dict[str, list[tuple[float, float]]] = {}  # on a CPU: begin and end of each, by phase
        self._side: torch.cuda.Stream | None = None  # made with the first transfer that runs beside the computation
        self._barrier_value = torch.ones(1, device=device)

    def __call__(self, phase: str) -> AbstractContextManager[None]:
        """Time the body of the `with` block as that phase."""
        return self.time(phase)

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        """Time a phase and do nothing else, also where a subclass adds to `__call__`."""
        if self._cuda:
            begin, end = self._begin()
            yield
            self._end(phase, begin, end)
        else:
            start = time.perf_counter()
            yield
            self._add(phase, time.perf_counter() - start)

    def _begin(self) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        begin, end = self._free.pop() if self._free else (_event(), _event())
        begin.record()
        return begin, end

    def _end(self, phase: str, begin: torch.cuda.Event, end: torch.cuda.Event) -> None:
        end.record()
        self._events.append((phase, begin, end))

    def start(self, transfer: Callable[[bool], Any], phase: str) -> Callable[[], object]:
        """Start a transfer beside the computation, and return the function that makes the computation wait for it.

        Its time is that phase, from its start to its end: transfers that run at the same time are counted once. On a
        GPU a stream of its own runs one transfer after another. On a CPU it runs in a thread of Gloo, which takes the
        time of its end. `transfer` starts it, if it is called with true asynchronously; its memory has to be kept.
        """
        if self._cuda:
            self._side = self._side or torch.cuda.Stream()
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                begin, end = self._begin()
                transfer(False)
                self._end(phase, begin, end)
            return lambda: torch.cuda.current_stream().wait_event(end)
        work = transfer(True)
        begun = time.perf_counter()

        def ended(future: torch.futures.Future[Any]) -> None:
            now = time.perf_counter()
            future.value()  # raises what made the transfer fail
            self._transfers.setdefault(phase, []).append((begun, max(begun, now)))

        done: Callable[[], object] = work.get_future().then(ended).wait
        return done

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
        for phase, spans in self._transfers.items():
            self._add(phase, covered(spans))
        self._transfers.clear()
        seconds, self._seconds = self._seconds, {}
        return seconds


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of spans, each with its begin and end."""
    length, last = 0.0, -math.inf
    for begin, end in sorted(spans):
        length += max(0.0, end - max(begin, last))
        last = max(last, end)
    return length


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
