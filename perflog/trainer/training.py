"""Training of the language model: one step at a time, with its measurements."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
import torch.distributed as dist
from msgspec import Struct
from torch import Tensor, nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.nn.parallel import DistributedDataParallel

from perflog.trainer.models.expert_strategies import ExpertLoad
from perflog.trainer.models.language_model import LanguageModel, expert_parameters
from perflog.trainer.models.master_weights import MasterAdamW
from perflog.trainer.models.synthetic_task import SyntheticTask
from perflog.trainer.phase_clock import PhaseClock
from perflog.trainer.rank_context import RankContext
from perflog.trainer.recipes import RunSpec


class RouterLosses(Struct, frozen=True):
    """Losses of the routers in a step: means over the layers and the ranks."""

    balance: float
    z: float


class StepMeasurement(Struct, frozen=True):
    """Measurements of one step on this rank."""

    step: int
    seconds: Mapping[str, float]  # by phase; `elapsed` is the whole step on this rank
    loss: float  # mean over the tokens of all ranks
    loads: tuple[ExpertLoad, ...]  # one per mixture-of-experts layer
    slowest: float  # seconds of the step on the rank that took longest
    memory: int  # peak in bytes: of a GPU in this step, of a CPU process since it started
    routers: RouterLosses | None = None


class Trainer:
    """A model, its data and its optimizer on this rank.

    Dense parameters are equal on all ranks: DDP averages their gradients. The experts of a rank get the gradients of
    the tokens of all ranks through the all-to-all, summed. Divided by the number of ranks they are gradients of the
    mean loss too.
    """

    def __init__(self, spec: RunSpec, context: RankContext, clock: PhaseClock | None = None) -> None:
        self.spec, self.context = spec, context
        self.clock = clock or PhaseClock(context.device)
        torch.manual_seed(spec.seed)
        self.model = LanguageModel(spec.sizes, spec.strategy, spec.seed, self.clock, spec.moe).to(context.device)
        self.experts = expert_parameters(self.model)
        settings = {"lr": spec.sizes.learning_rate, "weight_decay": 0.01}
        self.optimizer: torch.optim.AdamW | MasterAdamW
        if spec.parameters == "bfloat16":  # rounds them, so before DDP makes room for their gradients
            self.optimizer = MasterAdamW(self.model.parameters(), **settings)
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), **settings)
        self.parallel = self._parallel()
        self.scaler = loss_scaler(spec.dtype, context)
        self.task = SyntheticTask(spec.sizes.vocabulary, spec.sizes.sequence_length, spec.seed, context.device)

    def _parallel(self) -> nn.Module:
        """Wrap the model in DDP, without its experts, and without its buffers: all ranks change them alike."""
        if self.context.world_size == 1:
            return self.model
        own = [*self.experts, *(name for name, _ in self.model.named_buffers())]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self.model, own)
        gpu = [self.context.device] if self.context.device.type == "cuda" else None
        return DistributedDataParallel(self.model, device_ids=gpu, gradient_as_bucket_view=True)

    def step(self, number: int) -> StepMeasurement:
        """Train one step and measure it. Every rank must call it."""
        reset_memory(self.context)
        with self.clock("elapsed"):
            with self.clock("data"):
                tokens, targets = self.task.batch(number, self.context.rank, self.spec.sizes.batch)  # [B, S]
            with self.clock("forward"), precision(self.spec, self.context):
                loss, total = self.parallel(tokens, targets)
            with self.clock("backward"):
                self.scaler.scale(total).backward()
            with self.clock("optimizer"):
                self.average_experts()
                self.scaler.step(self.optimizer)  # type: ignore[arg-type]  # without scaling it only calls `step`
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)
                self.move_biases()
        seconds = self.clock.read()
        loads = tuple(m.load for m in self.model.moe_layers if m.load is not None)
        router_losses = self.model.router_losses()
        losses = loss[None] if router_losses is None else torch.cat([loss[None], router_losses / len(loads)])
        mean_loss, *parts = means(losses.detach(), self.context.world_size)
        routers = RouterLosses(*parts) if parts else None
        longest = slowest(seconds, self.context)
        return StepMeasurement(number, seconds, mean_loss, loads, longest, peak_memory(self.context), routers)

    def move_biases(self) -> None:
        """Move the biases of the routers by the loads of this step."""
        if self.spec.moe.bias_rate:
            for layer in self.model.moe_layers:
                if layer.load is not None:
                    layer.gate.move_bias(layer.load.counts.sum(0), self.spec.moe.bias_rate)

    def average_experts(self) -> None:
        """Divide the gradients of the experts by the number of ranks: gradients of the mean loss."""
        if self.context.world_size > 1 and self.experts:
            grads = [p.grad for p in self.experts.values() if p.grad is not None]
            torch._foreach_div_(grads, float(self.context.world_size))


def precision(spec: RunSpec, context: RankContext) -> AbstractContextManager[object]:
    """Return autocast for bfloat16 and float16; parameters that have the dtype already run without it."""
    return torch.autocast(context.device.type, getattr(torch, spec.dtype), enabled=spec.dtype != spec.parameters)


def loss_scaler(dtype: str, context: RankContext) -> ShardedGradScaler:
    """Return loss scaling for float16. A gradient that overflows on one rank skips the step on all ranks.

    Ranks hold different experts, so only one of them may see the overflow.
    """
    return ShardedGradScaler(context.device.type, enabled=dtype == "float16")


def means(values: Tensor, world: int) -> list[float]:
    """Return the mean of each value [N] over all ranks."""
    values = values.double()
    if world > 1:
        dist.all_reduce(values)
    return [float(value) for value in (values / world).cpu()]  # one copy


def slowest(seconds: Mapping[str, float], context: RankContext) -> float:
    """Return the time of the whole step on the rank that took longest."""
    if context.world_size == 1:
        return seconds["elapsed"]
    longest = torch.tensor(seconds["elapsed"], dtype=torch.float64, device=context.device)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return float(longest)


def reset_memory(context: RankContext) -> None:
    """Reset the peak memory of a GPU. A CPU process has no peak that can be reset."""
    if context.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(context.device)


def peak_memory(context: RankContext) -> int:
    """Return peak memory in bytes: of a GPU since `reset_memory`, of a CPU process since it started."""
    if context.device.type == "cuda":
        return torch.cuda.max_memory_allocated(context.device)
    bytes_per_unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_per_unit
