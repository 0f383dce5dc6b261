"""Training of the language model, step by step, and what was measured of each."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel

from perflog.trainer.clock import Clock
from perflog.trainer.cluster import Cluster
from perflog.trainer.model import LanguageModel, expert_parameters
from perflog.trainer.recipes import Job
from perflog.trainer.strategies import Load
from perflog.trainer.task import Task


@dataclass(frozen=True)
class Measured:
    """A step of this rank. `seconds` by phase, `elapsed` the whole of it; `loss` is the mean over all ranks' tokens;
    `memory` the peak in bytes: of a GPU in this step, of a CPU process so far.
    """

    step: int
    seconds: Mapping[str, float]
    loss: float
    loads: tuple[Load, ...]
    memory: int


class Trainer:
    """A model, its data and its optimizer on this rank.

    Dense parameters are alike on all ranks: DDP averages their gradients. A rank's experts get the gradients of all
    ranks' tokens through the all-to-all, summed; divided by the number of ranks they are those of the mean loss too.
    """

    def __init__(self, job: Job, cluster: Cluster, clock: Clock | None = None) -> None:
        self.job, self.cluster = job, cluster
        self.clock = clock or Clock(cluster.device)
        torch.manual_seed(job.seed)
        self.model = LanguageModel(job.sizes, job.strategy, job.seed, self.clock).to(cluster.device)
        self.experts = expert_parameters(self.model)
        self.parallel = self._parallel()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=job.sizes.learning_rate, weight_decay=0.01)
        self.scaler = loss_scaler(job.dtype, cluster)
        self.task = Task(job.sizes.vocabulary, job.sizes.sequence_length, job.seed, cluster.device)

    def _parallel(self) -> nn.Module:
        if self.cluster.world == 1:
            return self.model
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self.model, list(self.experts))
        gpu = [self.cluster.device] if self.cluster.device.type == "cuda" else None
        return DistributedDataParallel(self.model, device_ids=gpu, gradient_as_bucket_view=True)

    def step(self, number: int) -> Measured:
        """Train one step and measure it. Every rank has to take it."""
        reset_memory(self.cluster)
        with self.clock("elapsed"):
            with self.clock("data"):
                tokens, targets = self.task.batch(number, self.cluster.rank, self.job.sizes.batch)
            with self.clock("forward"), precision(self.job.dtype, self.cluster):
                loss, total = self.parallel(tokens, targets)
            with self.clock("backward"):
                self.scaler.scale(total).backward()
            with self.clock("optimizer"):
                self.average_experts()
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)
        seconds = self.clock.read()
        loads = tuple(m.load for m in self.model.mixtures if m.load is not None)
        return Measured(number, seconds, mean(loss.detach(), self.cluster.world), loads, peak_memory(self.cluster))

    def average_experts(self) -> None:
        """Make the gradients of the experts those of the mean loss."""
        if self.cluster.world > 1 and self.experts:
            grads = [p.grad for p in self.experts.values() if p.grad is not None]
            torch._foreach_div_(grads, float(self.cluster.world))


def precision(dtype: str, cluster: Cluster) -> AbstractContextManager[object]:
    """Autocast for the two half precisions; float32 is computed as it is."""
    return torch.autocast(cluster.device.type, getattr(torch, dtype), enabled=dtype != "float32")


def loss_scaler(dtype: str, cluster: Cluster) -> ShardedGradScaler:
    """Loss scaling for float16. A gradient that overflows on one rank skips the step on all of them: ranks hold
    different experts, so that only one may see it.
    """
    return ShardedGradScaler(cluster.device.type, enabled=dtype == "float16")


def mean(value: Tensor, world: int) -> float:
    """Mean of a number over all ranks."""
    value = value.double()
    if world > 1:
        dist.all_reduce(value)
    return float(value) / world


def reset_memory(cluster: Cluster) -> None:
    """Begin a new peak, where the device keeps one."""
    if cluster.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(cluster.device)


def peak_memory(cluster: Cluster) -> int:
    """Peak memory in bytes: of a GPU since `reset_memory`, of a CPU process since it started."""
    if cluster.device.type == "cuda":
        return torch.cuda.max_memory_allocated(cluster.device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
