"""The language model: embedding, blocks of attention and feed-forward, head.

Shapes: B sequences of S tokens of this rank, T = B S, d model width, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from perflog.trainer.models.expert_strategies import (
    DroplessStrategy,
    ExpertLoad,
    ExpertStrategy,
    PaddedStrategy,
    ShadowStrategy,
)
from perflog.trainer.models.moe import Experts, Gate, activate
from perflog.trainer.phase_clock import PhaseClock, timed_backward
from perflog.trainer.recipes import ModelSizes, MoeOptions


class Attention(nn.Module):
    """Causal multi-head self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, d] -> [B, S, d]."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # each [B, heads, S, d / heads]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # [B, heads, S, d / heads]
        y: Tensor = self.out(mixed.transpose(1, 2).flatten(2))  # [B, S, d]
        return y


class DenseFeedForward(nn.Module):
    """Feed-forward layer that all tokens pass: without experts, or as the shared expert beside them."""

    def __init__(self, width: int, hidden: int, clock: PhaseClock, matrices: int, phase: str = "mlp") -> None:
        super().__init__()
        self.clock, self.phase = clock, phase
        self.up = nn.Linear(width, hidden * (matrices - 1), bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, d] -> [B, S, d]."""
        with self.clock(self.phase):
            return timed_backward(self._layers, x, self.clock, f"{self.phase}_backward")

    def _layers(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(activate(self.up(x), self.down.in_features))
        return y


class MoeFeedForward(nn.Module):
    """Mixture-of-experts feed-forward layer. The forward sets the losses of its router, and `load`."""

    def __init__(
        self, sizes: ModelSizes, options: MoeOptions, strategy: ExpertStrategy, seed: int, clock: PhaseClock
    ) -> None:
        super().__init__()
        self.strategy, self.clock = strategy, clock
        rank, world, local = dist.get_rank(), dist.get_world_size(), sizes.experts_per_rank
        self.gate = Gate(sizes.model_dim, world * local, sizes.top_k, options.scores)
        local_experts = range(rank * local, (rank + 1) * local)
        seeds, matrices = [seed + expert for expert in local_experts], options.expert_matrices
        self.experts = Experts(seeds, sizes.model_dim, sizes.hidden_size, matrices)
        shared = options.shared_experts * sizes.hidden_size  # so many experts that take all tokens are one wider expert
        self.shared = DenseFeedForward(sizes.model_dim, shared, clock, matrices, "shared") if shared else None
        self.losses: Tensor | None = None  # [2], balance loss and z-loss
        self.load: ExpertLoad | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, d] -> [B, S, d], in the dtype of autocast."""
        device = x.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        with self.clock("cast"):  # ranks exchange rows and experts in the dtype of the computation
            rows = x.flatten(0, 1).to(dtype)  # [T, d]
            w1, w2 = self.experts.w1.to(dtype), self.experts.w2.to(dtype)
        with self.clock("gate"):
            chosen, weights, balance, z_loss = self.gate(rows)  # [T, k], [T, k], [], []
            self.losses = torch.stack([balance, z_loss])
        shared = list[Tensor]()

        def beside() -> None:
            if self.shared is not None:
                shared.append(self.shared(x))

        y, self.load = self.strategy(rows, chosen, weights, w1, w2, self.clock, beside)
        return sum(shared, y.view_as(x))


class Block(nn.Module):
    """Pre-norm attention and feed-forward, each with a residual connection."""

    def __init__(self, sizes: ModelSizes, feed_forward: nn.Module, clock: PhaseClock) -> None:
        super().__init__()
        self.clock = clock
        self.norm1, self.norm2 = nn.LayerNorm(sizes.model_dim), nn.LayerNorm(sizes.model_dim)
        self.attention = Attention(sizes.model_dim, sizes.heads)
        self.feed_forward = feed_forward

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, d] -> [B, S, d]."""
        with self.clock("attention"):
            x = x + timed_backward(lambda x: self.attention(self.norm1(x)), x, self.clock, "attention_backward")
            normed = self.norm2(x)
        y: Tensor = x + self.feed_forward(normed)
        return y


class LanguageModel(nn.Module):
    """Next-token model. `strategy` is dense, padded, dropless or shadow."""

    def __init__(
        self, sizes: ModelSizes, strategy: str, seed: int, clock: PhaseClock, options: MoeOptions | None = None
    ) -> None:
        super().__init__()
        self.clock, self.options = clock, options or MoeOptions()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.model_dim)
        self.positions = nn.Embedding(sizes.sequence_length, sizes.model_dim)
        self.blocks = nn.ModuleList(
            Block(sizes, _feed_forward(sizes, self.options, strategy, 1000 * number, clock), clock)
            for number in range(seed * sizes.layers, (seed + 1) * sizes.layers)
        )
        self.norm = nn.LayerNorm(sizes.model_dim)
        self.head = nn.Linear(sizes.model_dim, sizes.vocabulary, bias=False)

    @property
    def moe_layers(self) -> list[MoeFeedForward]:
        """Mixture-of-experts layers of the model."""
        return [m for m in self.modules() if isinstance(m, MoeFeedForward)]

    def forward(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """tokens, targets [B, S] -> mean loss of this rank, and the minimised loss: with the losses of the routers."""
        with self.clock("attention"):
            x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))  # [B, S, d]
        for block in self.blocks:
            x = block(x)
        with self.clock("head"):
            loss = timed_backward(lambda x: self._loss(x, targets), x, self.clock, "head_backward")
        losses = self.router_losses()
        if losses is None:
            return loss, loss
        return loss, loss + self.options.balance_coefficient * losses[0] + self.options.z_coefficient * losses[1]

    def router_losses(self) -> Tensor | None:
        """Return balance loss and z-loss of the last forward, [2]: sums over the layers. None without experts."""
        losses = [layer.losses for layer in self.moe_layers if layer.losses is not None]
        return torch.stack(losses).sum(0) if losses else None

    def _loss(self, x: Tensor, targets: Tensor) -> Tensor:
        """[B, S, d], targets [B, S] -> mean loss."""
        logits = self.head(self.norm(x))  # [B, S, V]
        wide = torch.promote_types(logits.dtype, torch.float32)  # as autocast computes it
        return F.cross_entropy(logits.flatten(0, 1).to(wide), targets.flatten())


def _feed_forward(sizes: ModelSizes, options: MoeOptions, strategy: str, seed: int, clock: PhaseClock) -> nn.Module:
    """Return the feed-forward layer of a strategy."""
    if strategy == "dense":
        return DenseFeedForward(sizes.model_dim, sizes.hidden_size, clock, options.expert_matrices)
    strategies: dict[str, ExpertStrategy] = {
        "padded": PaddedStrategy(sizes.capacity_factor, options.overlap),
        "dropless": DroplessStrategy(options.overlap),
        "shadow": ShadowStrategy(sizes.shadows, options.overlap),
    }
    return MoeFeedForward(sizes, options, strategies[strategy], seed, clock)


def expert_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters of the experts of this rank, by name. All other parameters are equal on all ranks."""
    owners = {name for name, module in model.named_modules() if isinstance(module, Experts)}
    return {name: p for name, p in model.named_parameters() if name.rpartition(".")[0] in owners}


def active_parameters(model: nn.Module) -> int:
    """Count the parameters in matrix products, of experts only those active for a token, as the FLOP conventions do."""
    linear = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear | Gate))
    moe_layers = [m for m in model.modules() if isinstance(m, MoeFeedForward)]
    return linear + sum(m.gate.top_k * (m.experts.w1[0].numel() + m.experts.w2[0].numel()) for m in moe_layers)
