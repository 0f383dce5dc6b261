"""Training of a Llama shape in stages, one a rank, through torch's 1F1B schedule; the forward of layers is timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from perflog.trainer.clock import Clock
from perflog.trainer.cluster import Cluster
from perflog.trainer.llama import Stage, cut
from perflog.trainer.recipes import Job
from perflog.trainer.task import Task
from perflog.trainer.training import Measured, loss_scaler, peak_memory, reset_memory

QUIET: dict[str, Any] = {"return_outputs": False} if "return_outputs" in signature(Schedule1F1B.step).parameters else {}
"""Asks a schedule not to put the logits of the whole batch together, where it can be asked."""


class TimedStage(PipelineStage):
    """A stage whose own work is timed: what the schedule takes beyond it is sending, receiving and waiting."""

    clock: Clock

    def forward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        """Forward of one micro-batch."""
        with self.clock("stage_forward"):
            return super().forward_one_chunk(*args, **kwargs)

    def backward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        """Backward of one micro-batch."""
        with self.clock("stage_backward"):
            return super().backward_one_chunk(*args, **kwargs)


@dataclass(frozen=True)
class Staged(Measured):
    """A step of a stage. `layers`: seconds and number of the timed calls of each layer's forward. The loss is the mean
    of the micro-batches, the same on all ranks.
    """

    layers: Mapping[str, tuple[float, int]]


class PipelineTrainer:
    """A rank's stage, its optimizer and the schedule. `leaves`: time the parts of a layer that have no parts."""

    def __init__(self, job: Job, cluster: Cluster, leaves: bool) -> None:
        self.job, self.cluster = job, cluster
        self.first, self.last = cluster.rank == 0, cluster.rank == cluster.world - 1
        self.clock, self.calls = Clock(cluster.device), Counter[str]()
        names = cut(job.sizes.layers, cluster.world, cluster.rank)
        self.model = Stage(job.sizes, names, job.dtype, job.seed).to(cluster.device)
        for name, layer in self.model.layers.items():
            parts = [m for m in layer.modules() if isinstance(m, nn.Linear | nn.SiLU | nn.Embedding)]
            for module in parts if leaves else [layer]:
                self._time(module, name)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=job.sizes.learning_rate, weight_decay=0.01)
        self.scaler = loss_scaler(job.dtype, cluster)
        self.scaler.scale(torch.zeros(1, device=cluster.device))  # stages without a loss know the scale too
        self.task = Task(job.sizes.vocabulary, job.sizes.sequence_length, job.seed, cluster.device)
        stage = self._stage()
        stage.clock = self.clock
        self.schedule = Schedule1F1B(stage, job.sizes.micro_batches, loss_fn=self.loss)

    def parameters(self) -> tuple[int, int]:
        """Parameters of all stages: those in matrix products, and all."""
        linear = sum(m.weight.numel() for m in self.model.modules() if isinstance(m, nn.Linear))
        counts = torch.tensor([linear, sum(p.numel() for p in self.model.parameters())], device=self.cluster.device)
        dist.all_reduce(counts)
        return int(counts[0]), int(counts[1])

    def _stage(self) -> TimedStage:
        """The stage with the shapes of what it gets and gives, so that nothing runs to find them out."""
        sizes, rank, world = self.job.sizes, self.cluster.rank, self.cluster.world
        tokens = torch.empty(sizes.batch, sizes.sequence_length, dtype=torch.int64, device="meta")
        dtype = getattr(torch, self.job.dtype)
        inside, logits = (
            torch.empty(*tokens.shape, n, dtype=dtype, device="meta", requires_grad=True)
            for n in (sizes.model_dim, sizes.vocabulary)
        )
        takes, gives = tokens if self.first else inside, logits if self.last else inside
        return TimedStage(self.model, rank, world, self.cluster.device, input_args=takes, output_args=gives)

    def _time(self, module: nn.Module, layer: str) -> None:
        """Add the time of the module's forward to its layer's."""
        running: list[Any] = []

        def before(*_: Any) -> None:
            running.append(self.clock(f"layer {layer}"))
            running[-1].__enter__()

        def after(*_: Any) -> None:
            running.pop().__exit__(None, None, None)
            self.calls[layer] += 1

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean loss of a micro-batch, scaled where the dtype asks for it."""
        return self.scaler.scale(F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()))

    def step(self, number: int) -> Staged:
        """Train one step and measure it. Every rank has to take it."""
        sizes, losses = self.job.sizes, list[Tensor]()
        reset_memory(self.cluster)
        scale = self.scaler.get_scale()
        with self.clock("elapsed"):
            with self.clock("data"):
                tokens, targets = self.task.batch(number, 0, sizes.batch * sizes.micro_batches)
            with self.clock("schedule"):
                self.schedule.step(
                    *([tokens] if self.first else []),
                    target=targets if self.last else None,
                    losses=losses if self.last else None,
                    **QUIET,
                )
            with self.clock("optimizer"):
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)
        seconds = self.clock.read()
        layers = {name: (seconds.pop(f"layer {name}"), self.calls[name]) for name in self.model.layers}
        self.calls.clear()
        loss = torch.stack(losses).detach().mean() / scale if self.last else torch.zeros((), device=self.cluster.device)
        dist.broadcast(loss, self.cluster.world - 1)
        return Staged(number, seconds, float(loss), (), peak_memory(self.cluster), layers)
