"""Parts of a mixture of experts: the gate, the experts of a rank, and their grouped matrix product.

Shapes: T tokens of a rank, d model width, h hidden width, E experts on all ranks, L experts on this rank, k experts per
token. Expert e lives on rank e // L.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # its usual name
from torch import Tensor, nn


class Gate(nn.Module):
    """Router that chooses the k experts with the highest scores for each token.

    A bias may be added to the scores for the choice alone: `move_bias` raises it for experts with few tokens, so that
    the load evens out without a loss (DeepSeek-V3).
    """

    def __init__(self, width: int, experts: int, top_k: int, scores: str = "softmax") -> None:
        super().__init__()
        self.top_k, self.scores = top_k, scores
        self.weight = nn.Parameter(torch.empty(experts, width))
        nn.init.normal_(self.weight, std=width**-0.5)
        self.bias: Tensor
        self.register_buffer("bias", torch.zeros(experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """[T, d] -> chosen experts [T, k], their weights [T, k] with sum 1, the balance loss, the z-loss.

        The balance loss follows Switch Transformers, for k choices: E times the sum over experts of (share of
        choices x mean probability), over the tokens of this rank. Its value is 1 when the experts are balanced.
        The z-loss follows ST-MoE: the mean square of the logarithm of the sum of exp(logits). It keeps logits small.
        """
        wide = torch.promote_types(x.dtype, torch.float32)  # float32 at least: sums of many small numbers decide
        with torch.autocast(x.device.type, enabled=False):
            logits = F.linear(x.to(wide), self.weight.to(wide))  # [T, E]
        scores = logits.sigmoid() if self.scores == "sigmoid" else logits.softmax(-1)  # [T, E]
        chosen = (scores.detach() + self.bias).topk(self.top_k, dim=-1).indices  # [T, k]
        weights = scores.gather(1, chosen)  # [T, k], without the bias
        experts = scores.shape[-1]
        share = histogram(chosen.flatten(), experts) / chosen.numel()  # [E]
        probability = scores / scores.sum(-1, keepdim=True)  # [T, E]
        balance = experts * (share * probability.mean(0)).sum()
        z_loss = logits.logsumexp(-1).square().mean()
        return chosen, (weights / weights.sum(-1, keepdim=True)).to(x.dtype), balance, z_loss

    def move_bias(self, counts: Tensor, rate: float) -> None:
        """Raise the bias of experts that were chosen less often than the mean by `rate`, lower the bias of the others.

        `counts` [E]: choices by all ranks, so that the biases stay equal on all ranks.
        """
        counts = to_device(counts, self.bias.device).to(self.bias.dtype)
        self.bias += rate * (counts.mean() - counts).sign()


def histogram(chosen: Tensor, experts: int) -> Tensor:
    """Count how often each expert was chosen: [N] -> [E]. `torch.bincount` would make the host wait for the GPU."""
    return chosen.new_zeros(experts).scatter_add(0, chosen, torch.ones_like(chosen))


def activate(first: Tensor, hidden: int) -> Tensor:
    """Return what the second layer of a feed-forward gets, [..., h]: GELU of the first layer's output [..., h].

    If that is [..., 2 h], its first half is the gate of the other (SwiGLU).
    """
    if first.shape[-1] == hidden:
        return F.gelu(first)
    gate, up = first.chunk(2, -1)
    return F.silu(gate) * up


class Experts(nn.Module):
    """L experts as two stacks of matrices. Each expert has two layers with `activate` between them.

    Each expert is initialised from its own seed, so its start does not depend on its rank.
    """

    def __init__(self, seeds: Sequence[int], width: int, hidden: int, matrices: int = 2) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(len(seeds), width, hidden * (matrices - 1)))  # [L, d, h], or 2 h with a gate
        self.w2 = nn.Parameter(torch.empty(len(seeds), hidden, width))  # [L, h, d]
        for first, second, seed in zip(self.w1.data, self.w2.data, seeds, strict=True):
            random = torch.Generator().manual_seed(seed)
            first.normal_(std=width**-0.5, generator=random)
            second.normal_(std=hidden**-0.5, generator=random)


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the host on a device. Neither waits for the other: the copy is from pinned memory."""
    if values.device.type == "cpu" and device.type == "cuda":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)


class RowGroups:
    """Rows that are sorted by expert: the number of rows of each, and where they end, [L] on the device.

    Made before the products are timed, so that the time of a product has no copy to the device in it.
    """

    def __init__(self, counts: list[int], device: torch.device) -> None:
        self.counts = counts
        self.ends = to_device(torch.tensor(counts).cumsum(0, dtype=torch.int32), device)


def grouped_matmul(rows: Tensor, weights: Tensor, groups: RowGroups) -> Tensor:
    """Multiply rows [N, a], sorted by expert, by the matrix of their expert [L, a, b] -> [N, b].

    One grouped kernel if the device has it, else one product per expert.
    """
    if has_grouped_kernel(rows, weights):
        return grouped_matmul_kernel(rows, weights, groups)
    return torch.cat([part @ weight for part, weight in zip(rows.split(groups.counts), weights, strict=True)])


def grouped_matmul_kernel(rows: Tensor, weights: Tensor, groups: RowGroups) -> Tensor:
    """Compute `grouped_matmul` with one kernel."""
    out: Tensor = _KERNEL(rows, weights, offs=groups.ends)
    return out


_KERNEL: Any = getattr(F, "grouped_mm", None)  # public, with a backward, since PyTorch 2.10
_KERNEL_MAJORS = (9, 10)
"""Compute capabilities (major) with a kernel of their own. On others PyTorch also computes one product per expert, and
makes the host wait for the counts, which the host has here already.
"""


def has_grouped_kernel(rows: Tensor, weights: Tensor) -> bool:
    """Whether the device has one kernel for them: bf16, rows a multiple of 16 bytes, Hopper or Blackwell."""
    if _KERNEL is None or not rows.is_cuda or torch.version.hip or rows.dtype != torch.bfloat16 or not len(rows):
        return False
    aligned = weights.shape[1] % 8 == 0 and weights.shape[2] % 8 == 0
    return aligned and torch.cuda.get_device_capability(rows.device)[0] in _KERNEL_MAJORS
