"""Strategies that bring tokens to their experts and back. The output is as if all experts were on one rank.

`padded` (GShard, Tutel): every expert takes the same number of rows from every rank; choices beyond it are dropped.
`dropless`: sends exactly the chosen rows, by an all-to-all with uneven splits.
`shadow` (FasterMoE): copies the most popular experts to all ranks, so that their tokens stay on their rank.

Shapes: T tokens of a rank, k experts per token, d model width, h hidden width, E experts on all ranks, L experts on
this rank. A choice is a pair of a token and one of its experts: there are T k choices.

Only `_gather_counts_on_host` waits for the GPU: the host has to know the splits of an uneven all-to-all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from msgspec import Struct
from torch import Tensor

from perflog.trainer.collectives import all_to_all, broadcast_from, gather_counts
from perflog.trainer.moe import RowGroups, grouped_matmul, histogram, to_device
from perflog.trainer.phase_clock import PhaseClock, timed_backward

RowsToRows = Callable[[Tensor], Tensor]


class ExpertLoad(Struct, frozen=True):
    """The work that one layer gave the ranks."""

    counts: Tensor  # [world, E], choices of each expert by each rank
    capacity: int | None = None  # rows that an expert takes from a rank; None: all
    copied: tuple[int, ...] = ()  # copied experts: their rows stayed on their rank

    def rank_counts(self, rank: int) -> tuple[int, int, int]:
        """Return rows that the experts of a rank computed (with padding), rows from other ranks, dropped choices."""
        counts, (world, experts) = self.counts.cpu(), self.counts.shape
        taken = counts.clamp(max=self.capacity) if self.capacity is not None else counts.clone()  # [world, E]
        dropped = int((counts - taken)[rank].sum())
        stayed = int(taken[rank, list(self.copied)].sum())
        taken[:, list(self.copied)] = 0
        from_rank = taken.view(world, world, -1)[:, rank].sum(1)  # [world], rows from each rank
        rows = int(from_rank.sum()) + stayed if self.capacity is None else experts * self.capacity
        return rows, int(from_rank.sum() - from_rank[rank]), dropped


class ExpertStrategy(Protocol):
    """Computes the experts of all tokens and returns the outputs [T, d] and the load.

    Args, all of one dtype: tokens x [T, d], chosen experts [T, k], their weights [T, k], the experts of this rank
    w1 [L, d, h] and w2 [L, h, d].
    """

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock
    ) -> tuple[Tensor, ExpertLoad]: ...


class SortedChoices(Struct):
    """Choices sorted by expert."""

    token: Tensor  # [T k], token of each sorted choice
    expert: Tensor  # [T k], expert of each sorted choice, ascending
    position: Tensor  # [T k], sorted position of each original choice
    counts: Tensor  # [E], number of choices of each expert


def sort_by_expert(chosen: Tensor, experts: int) -> SortedChoices:
    """Sort the choices [T, k] by expert. The choices of one expert stay in the order of the tokens."""
    flat = chosen.flatten()  # [T k]
    order = flat.argsort(stable=True)
    return SortedChoices(order // chosen.shape[1], flat[order], order.argsort(), histogram(flat, experts))


def weighted_sum(rows: Tensor, position: Tensor, weights: Tensor) -> Tensor:
    """Sum the weighted outputs of each token: rows [N, d], row of each choice [T k], weights [T, k] -> [T, d]."""
    outputs = rows.index_select(0, position).view(*weights.shape, -1)  # [T, k, d]
    return (outputs * weights.unsqueeze(-1)).sum(1)


def feed_forward(rows: Tensor, w1: Tensor, w2: Tensor, counts: list[int], clock: PhaseClock) -> Tensor:
    """Compute the experts on rows [N, d] sorted by expert, `counts` rows each -> [N, d]."""
    groups = RowGroups(counts, rows.device)
    return _two_timed_layers(
        rows, clock, lambda x: grouped_matmul(x, w1, groups), lambda x: grouped_matmul(x, w2, groups)
    )


def _two_timed_layers(rows: Tensor, clock: PhaseClock, layer1: RowsToRows, layer2: RowsToRows) -> Tensor:
    """Compute two layers with GELU between them; time each, and their backward as one."""

    def both(x: Tensor) -> Tensor:
        with clock("gemm1"):
            hidden = F.gelu(layer1(x))
        with clock("gemm2"):
            return layer2(hidden)

    return timed_backward(both, rows, clock, "experts_backward")


def _gather_counts_on_host(counts: Tensor, clock: PhaseClock) -> Tensor:
    """Gather the counts [E] of each rank on the host: [world, E]."""
    clock.wait()
    with clock("exchange"):
        return gather_counts(counts).cpu()


class PaddedStrategy:
    """Every expert takes ceil(k T / E x factor) rows from every rank; choices beyond that capacity are dropped."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock
    ) -> tuple[Tensor, ExpertLoad]:
        """See `ExpertStrategy`."""
        world, local, width = dist.get_world_size(), w1.shape[0], x.shape[1]
        total = world * local
        capacity = math.ceil(chosen.numel() / total * self.factor)
        with clock("count"):
            choices = sort_by_expert(chosen, total)
            first = choices.counts.cumsum(0) - choices.counts  # [E], first sorted choice of each expert
            index = torch.arange(len(choices.token), device=x.device)  # [T k]
            nth = index - first[choices.expert]  # [T k], position among the choices of the same expert
            last = total * capacity  # an extra row that takes the dropped choices
            slot = torch.where(nth < capacity, choices.expert * capacity + nth, last)  # [T k]
        clock.wait()
        with clock("exchange"):
            counts = gather_counts(choices.counts)  # [world, E]
        with clock("prepare"):
            rows = x.index_select(0, choices.token)  # [T k, d]
            buffer = x.new_zeros(last + 1, width).index_copy(0, slot, rows)[:last]  # [E capacity, d]
        clock.wait()
        even = [local * capacity] * world
        with clock("dispatch"):
            received = all_to_all(buffer, even, even, clock, "dispatch_backward")  # [world, local, capacity, d]
        with clock("sort"):
            by_expert = received.view(world, local, capacity, width).transpose(0, 1).reshape(local, -1, width)
        outputs = _two_timed_layers(
            by_expert, clock, lambda rows: torch.bmm(rows, w1), lambda rows: torch.bmm(rows, w2)
        )  # [L, world capacity, d]
        with clock("sort"):
            by_rank = outputs.view(local, world, capacity, width).transpose(0, 1).reshape(-1, width)  # [E capacity, d]
        clock.wait()
        with clock("combine"):
            returned = all_to_all(by_rank, even, even, clock, "combine_backward")
        with clock("sum"):
            rows = torch.cat([returned, returned.new_zeros(1, width)])  # [E capacity + 1, d], zeros for dropped choices
            y = weighted_sum(rows, slot[choices.position], weights)  # [T, d]
        return y, ExpertLoad(counts, capacity)


class DroplessStrategy:
    """Exact routing: every rank receives as many rows as its experts were chosen for."""

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock
    ) -> tuple[Tensor, ExpertLoad]:
        """See `ExpertStrategy`."""
        with clock("count"):
            choices = sort_by_expert(chosen, dist.get_world_size() * w1.shape[0])
        counts = _gather_counts_on_host(choices.counts, clock)
        with clock("prepare"):
            rows = x.index_select(0, choices.token)  # [T k, d]
        returned = _dispatch_compute_combine(rows, counts, w1, w2, clock)
        with clock("sum"):
            y = weighted_sum(returned, choices.position, weights)  # [T, d]
        return y, ExpertLoad(counts)


class ShadowStrategy:
    """Copies popular experts to every rank: at most `max_copies`, all with more tokens than the mean."""

    def __init__(self, max_copies: int) -> None:
        self.max_copies = max_copies

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock
    ) -> tuple[Tensor, ExpertLoad]:
        """See `ExpertStrategy`."""
        with clock("count"):
            choices = sort_by_expert(chosen, dist.get_world_size() * w1.shape[0])
        counts = _gather_counts_on_host(choices.counts, clock)
        with clock("select"):
            popular = self._popular(counts.sum(0))
            away = counts.clone()  # [world, E], rows that go to the rank of their expert
            away[:, popular] = 0
            leaves = int(away[dist.get_rank()].sum())
            copied = to_device(torch.tensor(popular, dtype=choices.expert.dtype), x.device)
            stays = torch.isin(choices.expert, copied)  # [T k]
            order = stays.argsort(stable=True)  # [T k], first the rows that leave
        with clock("copy_experts"):
            copy1, copy2 = (_broadcast_experts(stack, popular, clock) for stack in (w1, w2))  # [copies, ...]
        with clock("prepare"):
            sent, kept = x.index_select(0, choices.token[order]).split([leaves, len(order) - leaves])
        sent = _dispatch_compute_combine(sent, away, w1, w2, clock)
        if popular:
            kept = feed_forward(kept, copy1, copy2, counts[dist.get_rank(), popular].tolist(), clock)
        with clock("sum"):
            y = weighted_sum(torch.cat([sent, kept]), order.argsort()[choices.position], weights)  # [T, d]
        return y, ExpertLoad(counts, copied=tuple(popular))

    def _popular(self, total: Tensor) -> list[int]:
        """Return the experts to copy, ascending: the most chosen ones, if chosen more often than the mean."""
        first = total.argsort(descending=True, stable=True)[: self.max_copies]
        return sorted(int(e) for e in first if total[e] > total.float().mean())


def _dispatch_compute_combine(rows: Tensor, counts: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock) -> Tensor:
    """Send rows [N, d], sorted by expert, to the ranks of their experts and return the outputs in the same order.

    counts [world, E], on the host: the rows of each rank for each expert.
    """
    rank, local = dist.get_rank(), w1.shape[0]
    incoming = counts[:, rank * local : (rank + 1) * local]  # [world, L], rows that come to this rank
    sent, received = counts[rank].view(-1, local).sum(1).tolist(), incoming.sum(1).tolist()
    clock.wait()
    with clock("dispatch"):
        arrived = all_to_all(rows, sent, received, clock, "dispatch_backward")  # by source rank, then expert
    with clock("sort"):
        expert = torch.arange(local).repeat(len(received)).repeat_interleave(incoming.flatten())
        order = to_device(expert.argsort(stable=True), rows.device)  # by expert, then source rank
        by_expert = arrived.index_select(0, order)
    outputs = feed_forward(by_expert, w1, w2, incoming.sum(0).tolist(), clock)
    with clock("sort"):
        back = torch.empty_like(outputs).index_copy(0, order, outputs)
    clock.wait()
    with clock("combine"):
        return all_to_all(back, received, sent, clock, "combine_backward")


def _broadcast_experts(stack: Tensor, popular: Sequence[int], clock: PhaseClock) -> Tensor:
    """Broadcast the matrices of the popular experts from their ranks: stack [L, a, b] -> [len(popular), a, b]."""
    rank, local = dist.get_rank(), stack.shape[0]
    copies = []
    for expert in popular:
        matrix = stack[expert % local] if expert // local == rank else torch.zeros_like(stack[0], requires_grad=True)
        copies.append(broadcast_from(matrix, expert // local, clock))
    return torch.stack(copies) if copies else stack[:0]
