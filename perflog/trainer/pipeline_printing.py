"""What is printed of a pipeline: through the reference format, or as the original benchmark does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import torch.distributed as dist

from perflog.formats.template import Value
from perflog.trainer.describe import describe
from perflog.trainer.lines import Lines
from perflog.trainer.pipeline_training import PipelineTrainer, Staged
from perflog.trainer.printing import close, step_line, summary


class Reference:
    """Rank, step and unit on every line. The last stage prints the step line and the summary."""

    def __init__(self, lines: Lines, trainer: PipelineTrainer) -> None:
        self.lines, self.trainer = lines, trainer
        self.job, self.cluster, self.last = trainer.job, trainer.cluster, trainer.last
        self.steady: list[dict[str, Value]] = []

    def begin(self) -> None:
        """Print the lines above the steps."""
        describe(self.lines, self.job, self.cluster, self.trainer.parameters()[0], pipeline=True)

    def step(self, measured: Staged) -> None:
        """Print a step."""
        rank, seconds = self.cluster.rank, measured.seconds
        who: dict[str, Value] = {"rank": rank, "step": measured.step}
        for layer, (spent, calls) in measured.layers.items():
            self.lines.write("layer", **who, stage=rank, layer=layer, time=spent, calls=calls)
        self.lines.phases(measured.step, seconds)
        self.lines.write("elapsed", **who, elapsed=seconds["elapsed"], peak_memory=measured.memory)
        dist.barrier()  # the step line comes last
        if self.last:
            printed = self.lines.write("pipeline_step", **who, **step_line(self.job, measured, self.job.sizes.tokens))
            self.steady += [printed] if measured.step >= self.job.warmup_steps else []

    def end(self) -> None:
        """Print what comes after the steps."""
        if self.last:
            summary(self.lines, "pipeline_summary", self.steady, ["step_time"], self.job)
        close(self.lines, self.job)


class Original:
    """As the layer profiler of the original: a block of layers for each stage and step, in one write so that blocks of
    two ranks do not mix. Its times are those of the layers' leaf modules; steps count from 1, batches from 0.
    """

    def __init__(self, lines: Lines, trainer: PipelineTrainer) -> None:
        self.lines, self.trainer = lines, trainer
        self.job, self.cluster = trainer.job, trainer.cluster
        self.start = time.perf_counter()

    def begin(self) -> None:
        """Print the lines above the steps."""
        world, sizes = self.cluster.world, self.job.sizes
        said: tuple[tuple[str, dict[str, Value]], ...] = (
            ("parameters", {"parameters": self.trainer.parameters()[1]}),
            ("world_size", {"world_size": world}),
            ("gas", {"gas": sizes.micro_batches}),
            ("gbs", {"gbs": sizes.batch * sizes.micro_batches}),
            ("mbs", {"mbs": sizes.batch}),
            ("tp", {"tp": 1}),
            ("dp", {"dp": 1}),
            ("pp", {"pp": world}),
            ("stages", {"stage2rank": ", ".join(f"{rank}: [{rank}]" for rank in range(world))}),
            ("model", {"model": self.job.model}),
            ("nbatches", {"batches": self.job.steps}),
        )
        for name, values in said:
            self.lines.once(name, **values)
        dist.barrier()

    def step(self, measured: Staged) -> None:
        """Print a step."""
        rank, loss = self.cluster.rank, measured.loss
        block = [self.lines.text("header", rank=rank, stage=rank, step=measured.step + 1)[0]]
        for layer, (spent, calls) in measured.layers.items():
            block.append(self.lines.text("layer", layer=layer, time=spent, calls=calls, avg=spent / calls)[0])
        self.lines.put("".join(f"{line}\n" for line in block))
        if self.trainer.last:
            self.lines.write(
                "step",
                epoch=1,
                batch=measured.step,
                batches=self.job.steps,
                learning_rate=self.job.sizes.learning_rate,
                step_time=measured.seconds["elapsed"],
                loss=loss,
                perplexity=math.exp(loss),
            )

    def end(self) -> None:
        """Print what comes after the steps."""
        dist.barrier()
        self.lines.once("elapsed", elapsed=time.perf_counter() - self.start)
        dist.barrier()


PRINTERS: Mapping[str | None, Callable[[Lines, PipelineTrainer], Reference | Original]] = {
    None: Reference,
    "pipeline": Original,
}
"""Printers by the dialect that a recipe names; None is the trainer's own."""
