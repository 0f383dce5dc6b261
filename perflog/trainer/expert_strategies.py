"""Ways to bring tokens to their experts and back. Each gives the same output as all experts on one rank would.

`padded` (GShard, Tutel): every expert takes the same number of rows from every rank; what is over is dropped.
`dropless`: exactly the rows there are, by an all-to-all of uneven splits.
`shadow` (FasterMoE): the most popular experts are copied to all ranks, so that their tokens stay at home.

Only `_gather_counts_on_host` waits for the GPU: the host has to know the splits of an uneven all-to-all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from perflog.trainer.collectives import all_to_all, broadcast_from, gather_counts
from perflog.trainer.moe import grouped_matmul, histogram
from perflog.trainer.phase_clock import PhaseClock, timed_backward

Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class ExpertLoad:
    """What one layer gave the ranks to do. `counts` [world, E]: each rank's choices of each expert; `capacity`: the
    rows that an expert takes from a rank, all of them if None; `copied`: the experts whose rows stayed at home.
    """

    counts: Tensor
    capacity: int | None = None
    copied: tuple[int, ...] = ()

    def of_rank(self, rank: int) -> tuple[int, int, int]:
        """Rows that the rank's experts computed (padding too), those of them from other ranks, its dropped choices."""
        counts, (world, experts) = self.counts.cpu(), self.counts.shape
        taken = counts.clamp(max=self.capacity) if self.capacity is not None else counts.clone()
        dropped = int((counts - taken)[rank].sum())
        stayed = int(taken[rank, list(self.copied)].sum())
        taken[:, list(self.copied)] = 0
        mine = taken.view(world, world, -1)[:, rank].sum(1)  # rows from each rank
        rows = int(mine.sum()) + stayed if self.capacity is None else experts * self.capacity
        return rows, int(mine.sum() - mine[rank]), dropped


class ExpertStrategy(Protocol):
    """Tokens x [T, d], chosen experts [T, k], their weights [T, k], this rank's experts w1 [L, d, h] and w2 [L, h, d],
    all of one dtype -> [T, d], and the load.
    """

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock
    ) -> tuple[Tensor, ExpertLoad]: ...


@dataclass
class SortedChoices:
    """Choices sorted by expert: `token[i]` is the token of sorted choice i, `place[j]` is where choice j went."""

    token: Tensor  # [T k]
    expert: Tensor  # [T k], ascending
    place: Tensor  # [T k]
    counts: Tensor  # [E]


def sort_by_expert(chosen: Tensor, experts: int) -> SortedChoices:
    """Sort the choices [T, k] by expert; those of an expert stay in the order of the tokens."""
    flat = chosen.flatten()
    order = flat.argsort(stable=True)
    return SortedChoices(order // chosen.shape[1], flat[order], order.argsort(), histogram(flat, experts))


def weighted_sum(rows: Tensor, at: Tensor, weights: Tensor) -> Tensor:
    """Each token's outputs, weighted: rows [N, d], place of each choice [T k], weights [T, k] -> [T, d]."""
    outputs = rows.index_select(0, at).view(*weights.shape, -1)  # [T, k, d]
    return (outputs * weights.unsqueeze(-1)).sum(1)


def feed_forward(rows: Tensor, w1: Tensor, w2: Tensor, counts: list[int], clock: PhaseClock) -> Tensor:
    """The experts on rows [N, d] sorted by expert, `counts` rows each -> [N, d]."""
    return _experts(rows, clock, lambda x: grouped_matmul(x, w1, counts), lambda x: grouped_matmul(x, w2, counts))


def _experts(rows: Tensor, clock: PhaseClock, first: Product, second: Product) -> Tensor:
    """Two layers with GELU between, timed, and their backward too."""

    def both(x: Tensor) -> Tensor:
        with clock("gemm1"):
            hidden = F.gelu(first(x))
        with clock("gemm2"):
            return second(hidden)

    return timed_backward(both, rows, clock, "experts_backward")


def _gather_counts_on_host(counts: Tensor, clock: PhaseClock) -> Tensor:
    """Every rank's counts [world, E] from each rank's [E], on the host."""
    clock.wait()
    with clock("exchange"):
        return gather_counts(counts).cpu()


class PaddedStrategy:
    """Capacity for every expert and rank: ceil(k T / E x factor) rows; choices beyond it are dropped."""

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
            at = sort_by_expert(chosen, total)
            nth = torch.arange(len(at.token), device=x.device) - (at.counts.cumsum(0) - at.counts)[at.expert]
            last = total * capacity  # a row that is thrown away
            slot = torch.where(nth < capacity, at.expert * capacity + nth, last)
        clock.wait()
        with clock("exchange"):
            counts = gather_counts(at.counts)
        with clock("prepare"):
            buffer = x.new_zeros(last + 1, width).index_copy(0, slot, x.index_select(0, at.token))[:last]
        clock.wait()
        even = [local * capacity] * world
        with clock("dispatch"):
            got = all_to_all(buffer, even, even, clock, "dispatch_backward")  # [world, local, capacity, d]
        with clock("sort"):
            mine = got.view(world, local, capacity, width).transpose(0, 1).reshape(local, -1, width)
        out = _experts(mine, clock, lambda rows: torch.bmm(rows, w1), lambda rows: torch.bmm(rows, w2))
        with clock("sort"):
            back = out.view(local, world, capacity, width).transpose(0, 1).reshape(-1, width)
        clock.wait()
        with clock("combine"):
            home = all_to_all(back, even, even, clock, "combine_backward")
        with clock("sum"):
            y = weighted_sum(torch.cat([home, home.new_zeros(1, width)]), slot[at.place], weights)
        return y, ExpertLoad(counts, capacity)


class DroplessStrategy:
    """Exact routing: as many rows to each rank as its experts were chosen for."""

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock
    ) -> tuple[Tensor, ExpertLoad]:
        """See `ExpertStrategy`."""
        with clock("count"):
            at = sort_by_expert(chosen, dist.get_world_size() * w1.shape[0])
        counts = _gather_counts_on_host(at.counts, clock)
        with clock("prepare"):
            rows = x.index_select(0, at.token)
        home = _dispatch_compute_combine(rows, counts, w1, w2, clock)
        with clock("sum"):
            y = weighted_sum(home, at.place, weights)
        return y, ExpertLoad(counts)


class ShadowStrategy:
    """The `most` experts that get the most tokens beyond the mean are copied to every rank."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock
    ) -> tuple[Tensor, ExpertLoad]:
        """See `ExpertStrategy`."""
        with clock("count"):
            at = sort_by_expert(chosen, dist.get_world_size() * w1.shape[0])
        counts = _gather_counts_on_host(at.counts, clock)
        with clock("select"):
            popular = self._popular(counts.sum(0))
            away = counts.clone()
            away[:, popular] = 0
            leaves = int(away[dist.get_rank()].sum())
            stays = torch.isin(at.expert, torch.tensor(popular, dtype=at.expert.dtype, device=x.device))
            order = stays.argsort(stable=True)  # first the rows that leave
        with clock("copy_experts"):
            copy1, copy2 = (_broadcast_experts(stack, popular, clock) for stack in (w1, w2))
        with clock("prepare"):
            there, here = x.index_select(0, at.token[order]).split([leaves, len(order) - leaves])
        there = _dispatch_compute_combine(there, away, w1, w2, clock)
        if popular:
            here = feed_forward(here, copy1, copy2, counts[dist.get_rank(), popular].tolist(), clock)
        with clock("sum"):
            y = weighted_sum(torch.cat([there, here]), order.argsort()[at.place], weights)
        return y, ExpertLoad(counts, copied=tuple(popular))

    def _popular(self, total: Tensor) -> list[int]:
        """The experts to copy, ascending: of those above the mean, the `most` most chosen."""
        first = total.argsort(descending=True, stable=True)[: self.most]
        return sorted(int(e) for e in first if total[e] > total.float().mean())


def _dispatch_compute_combine(rows: Tensor, counts: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock) -> Tensor:
    """Rows [N, d] sorted by expert through the experts of all ranks: their outputs, in the same order.

    counts [world, E], on the host: each rank's rows for each expert.
    """
    rank, local = dist.get_rank(), w1.shape[0]
    mine = counts[:, rank * local : (rank + 1) * local]  # [world, L]: what comes here
    sent, received = counts[rank].view(-1, local).sum(1).tolist(), mine.sum(1).tolist()
    clock.wait()
    with clock("dispatch"):
        got = all_to_all(rows, sent, received, clock, "dispatch_backward")  # by source rank, then expert
    with clock("sort"):
        which = torch.arange(local).repeat(len(received)).repeat_interleave(mine.flatten())
        order = which.argsort(stable=True).to(rows.device)  # by expert, then source rank
        by_expert = got.index_select(0, order)
    out = feed_forward(by_expert, w1, w2, mine.sum(0).tolist(), clock)
    with clock("sort"):
        back = torch.empty_like(out).index_copy(0, order, out)
    clock.wait()
    with clock("combine"):
        return all_to_all(back, received, sent, clock, "combine_backward")


def _broadcast_experts(stack: Tensor, popular: Sequence[int], clock: PhaseClock) -> Tensor:
    """The matrices [L, a, b] of the popular experts, from wherever they live: [len(popular), a, b]."""
    rank, local = dist.get_rank(), stack.shape[0]
    found = []
    for expert in popular:
        own = stack[expert % local] if expert // local == rank else torch.zeros_like(stack[0], requires_grad=True)
        found.append(broadcast_from(own, expert // local, clock))
    return torch.stack(found) if found else stack[:0]
