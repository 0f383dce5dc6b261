"""A model with the shape of Llama as a sequence of layers, and the layers that one pipeline stage holds.

Shapes: B sequences of a micro-batch, S tokens each, d model width, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from perflog.trainer.recipes import ModelSizes


class LlamaEmbedding(nn.Module):
    """Token embedding, in the dtype of the computation: stages send no wider values to each other."""

    def __init__(self, sizes: ModelSizes) -> None:
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.model_dim)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, S] -> [B, S, d]."""
        x: Tensor = self.tokens(tokens)
        device = x.device.type
        return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


class LlamaAttention(nn.Module):
    """Causal attention with rotary positions and grouped key-value heads."""

    def __init__(self, sizes: ModelSizes) -> None:
        super().__init__()
        width, self.head = sizes.model_dim, sizes.head_dim
        shared = sizes.kv_heads * sizes.head_dim
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, shared, bias=False), nn.Linear(width, shared, bias=False)
        frequency = 10_000.0 ** (-torch.arange(0, self.head, 2) / self.head)
        angle = torch.outer(torch.arange(sizes.sequence_length), frequency)  # [S, head / 2]
        self.rotation: Tensor
        self.register_buffer("rotation", torch.stack([angle.cos(), angle.sin()]), persistent=False)  # [2, S, head / 2]

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, d] -> [B, S, d]."""
        q, k, v = (part(x).unflatten(-1, (-1, self.head)).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(
            self.rotated(q), self.rotated(k), v, is_causal=True, enable_gqa=True
        )  # [B, heads, S, head]
        y: Tensor = self.out(mixed.transpose(1, 2).flatten(2))  # [B, S, d]
        return y

    def rotated(self, x: Tensor) -> Tensor:
        """Apply rotary positions to [B, heads, S, head]: pairs of the two halves rotate with the position."""
        cos, sin = self.rotation[:, : x.shape[2]].to(x.dtype)
        left, right = x.chunk(2, -1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


class LlamaBlock(nn.Module):
    """Pre-norm attention and gated feed-forward."""

    def __init__(self, sizes: ModelSizes) -> None:
        super().__init__()
        width, hidden = sizes.model_dim, sizes.hidden_size
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = LlamaAttention(sizes)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down, self.activation = nn.Linear(hidden, width, bias=False), nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, d] -> [B, S, d]."""
        x = x + self.attention(self.norm1(x))
        normed = self.norm2(x)
        y: Tensor = x + self.down(self.activation(self.gate(normed)) * self.up(normed))
        return y


class LlamaHead(nn.Module):
    """Final norm and logits."""

    def __init__(self, sizes: ModelSizes) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(sizes.model_dim)
        self.logits = nn.Linear(sizes.model_dim, sizes.vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, d] -> [B, S, V]."""
        y: Tensor = self.logits(self.norm(x))
        return y


def stage_layers(layers: int, stages: int, stage: int) -> list[str]:
    """Return the layer names of a stage: embed, 0, 1, ..., lm_head, cut into parts that differ by one at most."""
    names = ["embed", *map(str, range(layers)), "lm_head"]
    return names[stage * len(names) // stages : (stage + 1) * len(names) // stages]


class LlamaStage(nn.Module):
    """The layers of one stage, by name. The initial values of a layer do not depend on its stage."""

    def __init__(self, sizes: ModelSizes, names: list[str], dtype: str, seed: int) -> None:
        super().__init__()
        self.dtype = dtype
        self.layers = nn.ModuleDict()
        for name in names:
            torch.manual_seed(
                (seed << 20) + {"embed": 0, "lm_head": 1}.get(name, 2 + int(name) if name.isdigit() else 0)
            )
            self.layers[name] = {"embed": LlamaEmbedding, "lm_head": LlamaHead}.get(name, LlamaBlock)(sizes)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens [B, S] or the output of the stage before [B, S, d] -> [B, S, d] or logits [B, S, V]."""
        with torch.autocast(x.device.type, getattr(torch, self.dtype), enabled=self.dtype != "float32"):
            for layer in self.layers.values():
                x = layer(x)
        return x
