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
from msgspec import Struct
from torch import Tensor

from perflog.trainer.models.collectives import all_to_all, broadcast_from, gather_counts, start_all_to_all
from perflog.trainer.models.moe import RowGroups, activate, grouped_matmul, histogram, to_device
from perflog.trainer.phase_clock import PhaseClock, timed_backward

RowsToRows = Callable[[Tensor], Tensor]
Beside = Callable[[], None]


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
    w1 [L, d, h], or [L, d, 2 h] with gates, and w2 [L, h, d]. `beside` is work that needs nothing of them: it is
    called once, while rows travel if the strategy overlaps transfers with computation, else at the end.
    """

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock, beside: Beside
    ) -> tuple[Tensor, ExpertLoad]: ...


class Part(Struct):
    """Rows that travel together: `compute` gets those that came and returns as many in the same order."""

    rows: Tensor  # in the order of the ranks that they go to
    sent: list[int]  # rows to each rank
    received: list[int]  # rows from each rank
    compute: RowsToRows


def exchange(parts: Sequence[Part], overlap: int, clock: PhaseClock, beside: Beside) -> list[Tensor]:
    """Send rows to their experts, compute them there, and return the outputs of each part in the order of its rows.

    With overlap all parts leave at once. `beside` runs while the first travels, and the experts compute a part while
    the next ones come and those before go back. In the backward the same happens in the opposite order.
    """
    clock.wait()
    if not overlap:
        (part,) = parts
        with clock("dispatch"):
            arrived = all_to_all(part.rows, part.sent, part.received, clock, "dispatch_backward")
        outputs = part.compute(arrived)
        clock.wait()
        with clock("combine"):
            returned = all_to_all(outputs, part.received, part.sent, clock, "combine_backward")
        beside()
        return [returned]
    arriving = [start_all_to_all(part.rows, part.sent, part.received, clock, "dispatch") for part in parts]
    beside()
    returning = [
        start_all_to_all(part.compute(finish()), part.received, part.sent, clock, "combine", part is parts[-1])
        for part, finish in zip(parts, arriving, strict=True)
    ]
    return [finish() for finish in returning]


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
    return _two_timed_layers(rows, w1, w2, clock, lambda x, w: grouped_matmul(x, w, groups))


def _two_timed_layers(
    rows: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock, product: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Compute both layers of the experts by that product; time each, and their backward as one."""

    def both(x: Tensor) -> Tensor:
        with clock("gemm1"):
            hidden = activate(product(x, w1), w2.shape[-2])
        with clock("gemm2"):
            return product(hidden, w2)

    return timed_backward(both, rows, clock, "experts_backward")


def _gather_counts_on_host(counts: Tensor, clock: PhaseClock) -> Tensor:
    """Gather the counts [parts, E] of each rank on the host: [world, parts, E]."""
    clock.wait()
    with clock("exchange"):
        return gather_counts(counts).cpu()


class PaddedStrategy:
    """Every expert takes ceil(k T / E x factor) rows from every rank; choices beyond that capacity are dropped.

    With overlap the rows of each expert are divided into so many parts.
    """

    def __init__(self, factor: float, overlap: int = 0) -> None:
        self.factor, self.overlap = factor, overlap

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock, beside: Beside
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

        def slots(x: Tensor) -> Tensor:
            rows = x.index_select(0, choices.token)  # [T k, d]
            return x.new_zeros(last + 1, width).index_copy(0, slot, rows)[:last].view(total, capacity, width)

        buffer = _moved(slots, x, clock, "prepare")
        pieces = buffer.tensor_split(min(self.overlap, capacity) or 1, dim=1)  # [E, rows of a part, d] each

        def by_expert(rows: Tensor) -> Tensor:
            return rows.view(world, local, -1, width).transpose(0, 1).reshape(local, -1, width)

        def by_rank(rows: Tensor) -> Tensor:
            return rows.view(local, world, -1, width).transpose(0, 1).reshape(-1, width)

        def compute(arrived: Tensor) -> Tensor:
            rows = _moved(by_expert, arrived, clock, "sort")
            outputs = _two_timed_layers(rows, w1, w2, clock, torch.bmm)  # [L, world x rows of a part, d]
            return _moved(by_rank, outputs, clock, "sort")

        even = [[local * piece.shape[1]] * world for piece in pieces]
        parts = [Part(piece.reshape(-1, width), n, n, compute) for piece, n in zip(pieces, even, strict=True)]
        returned = exchange(parts, self.overlap, clock, beside)

        def summed(outputs: Tensor) -> Tensor:
            rows = torch.cat([outputs.view(-1, width), outputs.new_zeros(1, width)])  # zeros for dropped choices
            return weighted_sum(rows, slot[choices.position], weights)  # [T, d]

        outputs = _joined([piece.view(total, -1, width) for piece in returned], 1)  # [E, capacity, d]
        return _moved(summed, outputs, clock, "sum"), ExpertLoad(counts, capacity)


class DroplessStrategy:
    """Exact routing: every rank receives as many rows as its experts were chosen for.

    With overlap the tokens are divided into so many parts.
    """

    def __init__(self, overlap: int = 0) -> None:
        self.overlap = overlap

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock, beside: Beside
    ) -> tuple[Tensor, ExpertLoad]:
        """See `ExpertStrategy`."""
        n = self.overlap or 1
        with clock("count"):
            choices = [sort_by_expert(part, dist.get_world_size() * w1.shape[0]) for part in chosen.tensor_split(n)]
        counts = _gather_counts_on_host(torch.stack([part.counts for part in choices]), clock)
        tokens = zip(x.tensor_split(n), choices, strict=True)
        rows = [_rows(each, part.token, clock) for each, part in tokens]  # [T k of a part, d] each
        parts = [_part(each, counts[:, i], w1, w2, clock) for i, each in enumerate(rows)]
        returned = exchange(parts, self.overlap, clock, beside)
        outputs = zip(returned, choices, weights.tensor_split(n), strict=True)
        y = _joined([_summed(each, part.position, weight, clock) for each, part, weight in outputs])  # [T, d]
        return y, ExpertLoad(counts.sum(1))


class ShadowStrategy:
    """Copies popular experts to every rank: at most `max_copies`, all with more tokens than the mean.

    With overlap the rows that leave travel in one part, while the rank computes those that stay.
    """

    def __init__(self, max_copies: int, overlap: int = 0) -> None:
        self.max_copies, self.overlap = max_copies, overlap

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock, beside: Beside
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
            token = choices.token[order]
        with clock("copy_experts"):
            copy1, copy2 = (_broadcast_experts(stack, popular, clock) for stack in (w1, w2))  # [copies, ...]
        sent, kept = _rows(x, token, clock).split([leaves, len(order) - leaves])
        stayed = [kept]

        def compute_kept() -> None:
            if popular:
                stayed[:] = [feed_forward(kept, copy1, copy2, counts[dist.get_rank(), popular].tolist(), clock)]
            beside()

        returned = exchange([_part(sent, away, w1, w2, clock)], self.overlap, clock, compute_kept)
        y = _summed(torch.cat(returned + stayed), order.argsort()[choices.position], weights, clock)  # [T, d]
        return y, ExpertLoad(counts, copied=tuple(popular))

    def _popular(self, total: Tensor) -> list[int]:
        """Return the experts to copy, ascending: the most chosen ones, if chosen more often than the mean."""
        first = total.argsort(descending=True, stable=True)[: self.max_copies]
        return sorted(int(e) for e in first if total[e] > total.float().mean())


def _part(rows: Tensor, counts: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock) -> Part:
    """Return the part of rows [N, d], sorted by expert, that go to the ranks of their experts.

    counts [world, E], on the host: the rows of each rank for each expert.
    """
    rank, local = dist.get_rank(), w1.shape[0]
    incoming = counts[:, rank * local : (rank + 1) * local]  # [world, L], rows that come to this rank

    def compute(arrived: Tensor) -> Tensor:  # by source rank, then expert
        with clock("sort"):
            expert = torch.arange(local).repeat(len(incoming)).repeat_interleave(incoming.flatten())
            order = to_device(expert.argsort(stable=True), rows.device)  # by expert, then source rank
        by_expert = _moved(lambda rows: rows.index_select(0, order), arrived, clock, "sort")
        outputs = feed_forward(by_expert, w1, w2, incoming.sum(0).tolist(), clock)
        return _moved(lambda rows: torch.empty_like(rows).index_copy(0, order, rows), outputs, clock, "sort")

    return Part(rows, counts[rank].view(-1, local).sum(1).tolist(), incoming.sum(1).tolist(), compute)


def _moved(work: RowsToRows, rows: Tensor, clock: PhaseClock, phase: str) -> Tensor:
    """Bring rows into another order or sum them up; time it as that phase, and its backward as `rows_backward`."""
    with clock(phase):
        return timed_backward(work, rows, clock, "rows_backward")


def _rows(x: Tensor, token: Tensor, clock: PhaseClock) -> Tensor:
    """Return the row of each choice: tokens x [T, d], the token of each choice [N] -> [N, d]."""
    return _moved(lambda x: x.index_select(0, token), x, clock, "prepare")


def _summed(rows: Tensor, position: Tensor, weights: Tensor, clock: PhaseClock) -> Tensor:
    """Compute `weighted_sum` and time it."""
    return _moved(lambda rows: weighted_sum(rows, position, weights), rows, clock, "sum")


def _joined(pieces: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join the pieces along a dimension; a single one is not copied."""
    return pieces[0] if len(pieces) == 1 else torch.cat([*pieces], dim)


def _broadcast_experts(stack: Tensor, popular: Sequence[int], clock: PhaseClock) -> Tensor:
    """Broadcast the matrices of the popular experts from their ranks: stack [L, a, b] -> [len(popular), a, b]."""
    rank, local = dist.get_rank(), stack.shape[0]
    copies = []
    for expert in popular:
        matrix = stack[expert % local] if expert // local == rank else torch.zeros_like(stack[0], requires_grad=True)
        copies.append(broadcast_from(matrix, expert // local, clock))
    return torch.stack(copies) if copies else stack[:0]
