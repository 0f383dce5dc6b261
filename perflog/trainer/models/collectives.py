"""Collectives with gradients: all-to-all of rows, broadcast of parameters; and a gather of counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from perflog.trainer.phase_clock import PhaseClock


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sent: list[int], received: list[int], clock: PhaseClock, phase: str) -> Tensor:
        ctx.splits, ctx.clock, ctx.phase = (sent, received), clock, phase
        out = rows.new_empty((sum(received), *rows.shape[1:]))
        dist.all_to_all_single(out, rows.contiguous(), received, sent)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        sent, received = ctx.splits
        out = grads[0].new_empty((sum(sent), *grads[0].shape[1:]))
        ctx.clock.wait("wait_backward")
        with ctx.clock(ctx.phase):
            dist.all_to_all_single(out, grads[0].contiguous(), sent, received)
        return out, None, None, None, None


def all_to_all(rows: Tensor, sent: Sequence[int], received: Sequence[int], clock: PhaseClock, phase: str) -> Tensor:
    """Send rows [sum(sent), ...] to their ranks: the first `sent[0]` rows go to rank 0, and so on.

    Returns the rows from all ranks in rank order, [sum(received), ...]. Every rank must call it, in the same order.
    The backward sends the gradients the opposite way. It times that transfer as `phase` and the wait for the slowest
    rank as `wait_backward`.
    """
    if dist.get_world_size() == 1:
        return rows
    out: Tensor = _AllToAll.apply(rows, list(sent), list(received), clock, phase)
    return out


class _Flight:
    """An all-to-all that runs beside the computation, and the one that sends its gradients the opposite way."""

    def __init__(
        self, sent: list[int], received: list[int], clock: PhaseClock, phase: str, first_backward: bool
    ) -> None:
        self.sent, self.received, self.clock, self.phase = sent, received, clock, phase
        self.first_backward = first_backward
        self.wait: Callable[[], object] = lambda: None

    def start(self, rows: Tensor, sent: list[int], received: list[int], phase: str) -> Tensor:
        """Start to send rows and return the memory that they come to."""
        rows, out = rows.contiguous(), rows.new_empty((sum(received), *rows.shape[1:]))
        self.rows, self.out = rows, out
        self.wait = self.clock.start(lambda a: dist.all_to_all_single(out, rows, received, sent, async_op=a), phase)
        return out

    def finish(self, phase: str) -> Tensor:
        """Wait for the end of what was started and return what came."""
        with self.clock(phase):
            self.wait()
        out = self.out
        assert out is not None
        self.wait, self.rows, self.out = lambda: None, None, None
        return out


class _Start(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, flight: _Flight) -> Tensor:
        ctx.flight = flight
        return flight.start(rows, flight.sent, flight.received, "rows_transfer")

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, None]:
        return ctx.flight.finish("gradients_wait"), None


class _Finish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, out: Tensor, flight: _Flight) -> Tensor:
        ctx.flight = flight
        flight.finish("rows_wait")
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        flight: _Flight = ctx.flight
        if flight.first_backward:
            flight.clock.wait("wait_backward")
        with flight.clock(f"{flight.phase}_backward"):
            flight.start(grads[0], flight.received, flight.sent, "gradients_transfer")
        return grads[0], None  # only has the shape that autograd wants: `_Start` returns what comes


def start_all_to_all(
    rows: Tensor,
    sent: Sequence[int],
    received: Sequence[int],
    clock: PhaseClock,
    phase: str,
    first_backward: bool = False,
) -> Callable[[], Tensor]:
    """Start `all_to_all` and return the function that waits for its end and returns the rows.

    What is called between the two runs beside the transfer, and so does its backward beside the transfer of the
    gradients. `phase` times the start of the transfer, `rows_transfer` the transfer itself, `rows_wait` the wait at its
    end. `first_backward`: the gradients of this transfer are the first that travel, so the
    ranks wait for each other before.
    """
    with clock(phase):
        if dist.get_world_size() == 1:
            return lambda: rows
        flight = _Flight(list(sent), list(received), clock, phase, first_backward)
        out: Tensor = _Start.apply(rows, flight)

    def finish() -> Tensor:
        arrived: Tensor = _Finish.apply(out, flight)
        return arrived

    return finish


_GATHER: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
"""The function of newer versions of PyTorch, where the other name is deprecated."""


def gather_counts(counts: Tensor) -> Tensor:
    """Gather the counts [n, ...] of each rank: [world, n, ...]."""
    if dist.get_world_size() == 1:
        return counts[None]
    out = counts.new_empty((dist.get_world_size(), *counts.shape))
    _GATHER(out, counts[None])  # `all_gather` into a list copies each rank's part once more
    return out


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, owner: int, clock: PhaseClock) -> Tensor:
        ctx.owner, ctx.clock = owner, clock
        out = tensor.clone()
        dist.broadcast(out, owner)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad = grads[0].clone(memory_format=torch.contiguous_format)
        with ctx.clock("copy_backward"):
            dist.reduce(grad, ctx.owner)
        return (grad if dist.get_rank() == ctx.owner else torch.zeros_like(grad)), None, None


def broadcast_from(tensor: Tensor, owner: int, clock: PhaseClock) -> Tensor:
    """Return the owner's tensor on every rank. On the other ranks `tensor` only gives shape and type.

    The backward sums the gradients of all copies on the owner, timed as `copy_backward`; on other ranks the gradient
    is zero.
    """
    if dist.get_world_size() == 1:
        return tensor
    out: Tensor = _Broadcast.apply(tensor, owner, clock)
    return out
