"""The parts of a mixture of experts: the gate, and a rank's share of the experts.

T tokens of a rank, d model width, h hidden width, E experts in all, L of them on this rank, k experts per token.
Expert e lives on rank e // L.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the name everyone knows it by
from torch import Tensor, nn


class Gate(nn.Module):
    """Softmax gate that chooses the k most probable experts of each token."""

    def __init__(self, width: int, experts: int, top_k: int) -> None:
        super().__init__()
        self.top_k = top_k
        self.weight = nn.Parameter(torch.empty(experts, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[T, d] -> chosen experts [T, k], their weights [T, k] that sum to 1, and the balance loss (Switch, with k).

        The balance loss is E times the sum over experts of the share of choices and the mean probability, both of this
        rank's tokens; 1 is balanced.
        """
        wide = torch.promote_types(x.dtype, torch.float32)  # sums of many small numbers decide here
        with torch.autocast(x.device.type, enabled=False):
            probability = F.linear(x.to(wide), self.weight.to(wide)).softmax(-1)  # [T, E]
        weights, chosen = probability.topk(self.top_k, dim=-1)
        experts = probability.shape[-1]
        share = histogram(chosen.flatten(), experts) / chosen.numel()
        balance = experts * (share * probability.mean(0)).sum()
        return chosen, (weights / weights.sum(-1, keepdim=True)).to(x.dtype), balance


def histogram(chosen: Tensor, experts: int) -> Tensor:
    """How often each expert was chosen: [N] -> [E]. `torch.bincount` would stop the host for the GPU."""
    return chosen.new_zeros(experts).scatter_add(0, chosen, torch.ones_like(chosen))


class Experts(nn.Module):
    """L experts of two layers with GELU between, as two stacks of matrices.

    Each is drawn from its own seed, so that an expert starts alike whichever rank it lives on.
    """

    def __init__(self, seeds: Sequence[int], width: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(len(seeds), width, hidden))  # [L, d, h]
        self.w2 = nn.Parameter(torch.empty(len(seeds), hidden, width))  # [L, h, d]
        for first, second, seed in zip(self.w1.data, self.w2.data, seeds, strict=True):
            random = torch.Generator().manual_seed(seed)
            first.normal_(std=width**-0.5, generator=random)
            second.normal_(std=hidden**-0.5, generator=random)


def grouped_matmul(rows: Tensor, weights: Tensor, counts: list[int]) -> Tensor:
    """Rows [N, a] sorted by expert times each expert's matrix [L, a, b] -> [N, b]; `counts` rows for each expert.

    One grouped kernel where the device has it, else a product for each.
    """
    if has_grouped_kernel(rows, weights):
        return grouped_matmul_kernel(rows, weights, counts)
    return torch.cat([part @ weight for part, weight in zip(rows.split(counts), weights, strict=True)])


def grouped_matmul_kernel(rows: Tensor, weights: Tensor, counts: list[int]) -> Tensor:
    """`grouped_matmul` as one kernel."""
    ends = torch.tensor(counts, device=rows.device).cumsum(0, dtype=torch.int32)
    out: Tensor = _KERNEL(rows, weights, offs=ends)
    return out


_KERNEL: Any = getattr(F, "grouped_mm", None)  # public, with a backward, since PyTorch 2.10
_MAJORS = (9, 10)
"""Compute capabilities with a kernel of their own. Elsewhere PyTorch takes a product for each expert too, and stops the
host for the counts, which are here already.
"""


def has_grouped_kernel(rows: Tensor, weights: Tensor) -> bool:
    """Whether the device multiplies them by one kernel: bf16 with rows of whole 16 bytes, on Hopper and Blackwell."""
    if _KERNEL is None or not rows.is_cuda or torch.version.hip or rows.dtype != torch.bfloat16 or not len(rows):
        return False
    whole = weights.shape[1] % 8 == 0 and weights.shape[2] % 8 == 0
    return whole and torch.cuda.get_device_capability(rows.device)[0] in _MAJORS
