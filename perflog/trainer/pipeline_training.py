"""Training of a Llama shape in stages, one per rank, with the 1F1B schedule of torch. Times the forward of layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from perflog.trainer.models.llama import LlamaStage, stage_layers
from perflog.trainer.models.synthetic_task import SyntheticTask
from perflog.trainer.phase_clock import PhaseClock
from perflog.trainer.rank_context import RankContext
from perflog.trainer.recipes import RunSpec
from perflog.trainer.training import StepMeasurement, loss_scaler, peak_memory, reset_memory, slowest

WITHOUT_OUTPUTS: dict[str, object] = (
    {"return_outputs": False} if "return_outputs" in signature(Schedule1F1B.step).parameters else {}
)
"""Tells the schedule not to collect the logits of the whole batch, if this version of PyTorch has the option."""


class TimedStage(PipelineStage):
    """A stage that times its own work. The rest of the schedule's time is sending, receiving and waiting."""

    clock: PhaseClock

    def forward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        """Run and time the forward of one micro-batch."""
        with self.clock("stage_forward"):
            return super().forward_one_chunk(*args, **kwargs)

    def backward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        """Run and time the backward of one micro-batch."""
        with self.clock("stage_backward"):
            return super().backward_one_chunk(*args, **kwargs)


class StageMeasurement(StepMeasurement, frozen=True, kw_only=True):
    """Measurements of one step of a stage. The loss is the mean over the micro-batches, the same on all ranks."""

    layers: Mapping[str, tuple[float, int]]  # seconds and number of timed forward calls, by layer


class PipelineTrainer:
    """The stage of a rank, its optimizer and the schedule. `time_leaves`: time only the leaf modules of each layer."""

    def __init__(self, spec: RunSpec, context: RankContext, time_leaves: bool) -> None:
        self.spec, self.context = spec, context
        self.first, self.last = context.rank == 0, context.rank == context.world_size - 1
        self.clock, self.calls = PhaseClock(context.device), Counter[str]()
        names = stage_layers(spec.sizes.layers, context.world_size, context.rank)
        self.model = LlamaStage(spec.sizes, names, spec.dtype, spec.seed).to(context.device)
        for name, layer in self.model.layers.items():
            leaves = [m for m in layer.modules() if isinstance(m, nn.Linear | nn.SiLU | nn.Embedding)]
            for module in leaves if time_leaves else [layer]:
                self._time_forward(module, name)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=spec.sizes.learning_rate, weight_decay=0.01)
        self.scaler = loss_scaler(spec.dtype, context)
        self.scaler.scale(torch.zeros(1, device=context.device))  # creates the scale also on stages without a loss
        self.task = SyntheticTask(spec.sizes.vocabulary, spec.sizes.sequence_length, spec.seed, context.device)
        stage = self._stage()
        stage.clock = self.clock
        self.schedule = Schedule1F1B(stage, spec.sizes.micro_batches, loss_fn=self.loss)

    def parameters(self) -> tuple[int, int]:
        """Return the number of parameters of all stages: those in matrix products, and all."""
        linear = sum(m.weight.numel() for m in self.model.modules() if isinstance(m, nn.Linear))
        counts = torch.tensor([linear, sum(p.numel() for p in self.model.parameters())], device=self.context.device)
        dist.all_reduce(counts)
        return int(counts[0]), int(counts[1])

    def _stage(self) -> TimedStage:
        """Return the stage with explicit shapes of input and output, so that torch need not run it to infer them."""
        sizes, rank, world = self.spec.sizes, self.context.rank, self.context.world_size
        tokens = torch.empty(sizes.batch, sizes.sequence_length, dtype=torch.int64, device="meta")
        dtype = getattr(torch, self.spec.dtype)
        hidden, logits = (
            torch.empty(*tokens.shape, n, dtype=dtype, device="meta", requires_grad=True)
            for n in (sizes.model_dim, sizes.vocabulary)
        )
        stage_input, stage_output = tokens if self.first else hidden, logits if self.last else hidden
        return TimedStage(
            self.model, rank, world, self.context.device, input_args=stage_input, output_args=stage_output
        )

    def _time_forward(self, module: nn.Module, layer: str) -> None:
        """Add the time of each forward of the module to the time of its layer."""
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
        """Logits [B, S, V], targets [B, S] -> mean loss of a micro-batch, scaled for float16."""
        return self.scaler.scale(F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()))

    def step(self, number: int) -> StageMeasurement:
        """Train one step and measure it. Every rank must call it."""
        sizes, losses = self.spec.sizes, list[Tensor]()
        reset_memory(self.context)
        scale = self.scaler.get_scale()
        with self.clock("elapsed"):
            with self.clock("data"):
                tokens, targets = self.task.batch(number, 0, sizes.batch * sizes.micro_batches)
            with self.clock("schedule"):
                self.schedule.step(
                    *([tokens] if self.first else []),
                    target=targets if self.last else None,
                    losses=losses if self.last else None,
                    **WITHOUT_OUTPUTS,
                )
            with self.clock("optimizer"):
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad(set_to_none=True)
        seconds = self.clock.read()
        layers = {name: (seconds.pop(f"layer {name}"), self.calls[name]) for name in self.model.layers}
        self.calls.clear()
        loss = torch.stack(losses).detach().mean() / scale if self.last else torch.zeros((), device=self.context.device)
        dist.broadcast(loss, self.context.world_size - 1)
        longest, memory = slowest(seconds, self.context), peak_memory(self.context)
        return StageMeasurement(number, seconds, float(loss), (), longest, memory, layers=layers)
