"""Synthetic task: predict the next token. In nine of ten cases it is a fixed permutation of the token before it."""

from __future__ import annotations

import torch
from torch import Tensor

NOISE = 0.1  # share of tokens that are drawn at random instead


class SyntheticTask:
    """Batches of tokens. The same seed gives the same batches, whatever the number of ranks.

    The permutation is one cycle through the vocabulary, so a sequence is a walk along `cycle` and is drawn in one go.
    """

    def __init__(self, vocabulary: int, length: int, seed: int, device: torch.device) -> None:
        self.vocabulary, self.length, self.seed, self.device = vocabulary, length, seed, device
        self.random = torch.Generator(device)
        order = torch.randperm(vocabulary, generator=torch.Generator().manual_seed(seed))
        self.cycle = order.to(device)  # [V]

    def batch(self, step: int, rank: int, sequences: int) -> tuple[Tensor, Tensor]:
        """Return tokens and the tokens that follow them, both [sequences, length]."""
        self.random.manual_seed((self.seed << 40) + (step << 16) + rank)
        shape = (sequences, self.length + 1)
        # Where the walk starts anew, at a random token. All tensors below are [sequences, length + 1].
        restarts = torch.rand(shape, generator=self.random, device=self.device) < NOISE
        start = torch.randint(self.vocabulary, shape, generator=self.random, device=self.device)
        position = torch.arange(shape[1], device=self.device).expand(shape)
        last = torch.where(restarts, position, 0).cummax(1).values  # position of the last restart
        tokens = self.cycle[(start.gather(1, last) + position - last) % self.vocabulary]
        return tokens[:, :-1], tokens[:, 1:]
