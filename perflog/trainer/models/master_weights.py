"""Parameters in bfloat16, changed by an optimizer that keeps a float32 copy of each: its master."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


class MasterAdamW:
    """AdamW on float32 masters of the parameters, which then get the rounded masters.

    Most steps change a parameter by less than the 8 bits of a bfloat16 can hold. The masters add such changes up.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float) -> None:
        """Copy the float32 parameters to masters and round the parameters themselves."""
        self.parameters = [*parameters]
        self.masters = [nn.Parameter(parameter.detach().clone()) for parameter in self.parameters]
        self.adamw = torch.optim.AdamW(self.masters, lr=lr, weight_decay=weight_decay)
        for parameter in self.parameters:
            parameter.data = parameter.data.bfloat16()

    def step(self) -> None:
        """Change the parameters by their gradients. One without a gradient stays."""
        for master, parameter in zip(self.masters, self.parameters, strict=True):
            master.grad = None if parameter.grad is None else parameter.grad.float()
        self.adamw.step()
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.masters)

    def zero_grad(self, set_to_none: bool) -> None:
        """Forget the gradients."""
        self.adamw.zero_grad(set_to_none)
        for parameter in self.parameters:
            parameter.grad = None
