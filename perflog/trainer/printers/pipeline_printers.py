"""Prints a pipeline run: in the reference format, or in the line shapes of the original benchmark."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import torch.distributed as dist

from perflog.formats.template import Value
from perflog.trainer.log_writer import LogWriter
from perflog.trainer.pipeline_training import PipelineTrainer, StageMeasurement
from perflog.trainer.printers.reference_printer import print_end, print_summary, step_values
from perflog.trainer.printers.run_header import print_run_header


class PipelineReferencePrinter:
    """Prints rank, step and unit on every line. The last stage also prints the step lines and the summary."""

    def __init__(self, log: LogWriter, trainer: PipelineTrainer) -> None:
        self.log, self.trainer = log, trainer
        self.spec, self.context, self.last = trainer.spec, trainer.context, trainer.last
        self.steady: list[dict[str, Value]] = []

    def begin(self) -> None:
        """Print the lines above the steps."""
        print_run_header(self.log, self.spec, self.context, self.trainer.parameters()[0], pipeline=True)

    def step(self, measured: StageMeasurement) -> None:
        """Print a step."""
        rank, seconds = self.context.rank, measured.seconds
        rank_and_step: dict[str, Value] = {"rank": rank, "step": measured.step}
        for layer, (spent, calls) in measured.layers.items():
            self.log.write("layer", **rank_and_step, stage=rank, layer=layer, time=spent, calls=calls)
        self.log.write_phases(measured.step, seconds)
        self.log.write("elapsed", **rank_and_step, elapsed=seconds["elapsed"], peak_memory=measured.memory)
        dist.barrier()  # the step line comes last
        if self.last:
            printed = self.log.write(
                "pipeline_step", **rank_and_step, **step_values(self.spec, measured, self.spec.sizes.tokens)
            )
            self.steady += [printed] if measured.step >= self.spec.warmup_steps else []
        dist.barrier()  # or the next step of the others would wait for the printing

    def end(self) -> None:
        """Print the lines after the steps."""
        if self.last:
            print_summary(self.log, "pipeline_summary", self.steady, ["step_time"], self.spec)
        print_end(self.log, self.spec)


class PipelineOriginalPrinter:
    """Prints as the layer profiler of the original does: a block of layers for each stage and step.

    A block is one write, so that blocks of two ranks do not mix. It has the times of the leaf modules of the layers.
    Steps count from 1, batches from 0.
    """

    def __init__(self, log: LogWriter, trainer: PipelineTrainer) -> None:
        self.log, self.trainer = log, trainer
        self.spec, self.context = trainer.spec, trainer.context
        self.start = time.perf_counter()

    def begin(self) -> None:
        """Print the lines above the steps."""
        world, sizes = self.context.world_size, self.spec.sizes
        header: tuple[tuple[str, dict[str, Value]], ...] = (
            ("parameters", {"parameters": self.trainer.parameters()[1]}),
            ("world_size", {"world_size": world}),
            ("gas", {"gas": sizes.micro_batches}),
            ("gbs", {"gbs": sizes.batch * sizes.micro_batches}),
            ("mbs", {"mbs": sizes.batch}),
            ("tp", {"tp": 1}),
            ("dp", {"dp": 1}),
            ("pp", {"pp": world}),
            ("stages", {"stage2rank": ", ".join(f"{rank}: [{rank}]" for rank in range(world))}),
            ("model", {"model": self.spec.model}),
            ("nbatches", {"batches": self.spec.steps}),
        )
        for name, values in header:
            self.log.write_once(name, **values)
        dist.barrier()

    def step(self, measured: StageMeasurement) -> None:
        """Print a step."""
        rank, loss = self.context.rank, measured.loss
        block = [self.log.render("header", rank=rank, stage=rank, step=measured.step + 1)[0]]
        for layer, (spent, calls) in measured.layers.items():
            block.append(self.log.render("layer", layer=layer, time=spent, calls=calls, avg=spent / calls)[0])
        self.log.write_text("".join(f"{line}\n" for line in block))
        if self.trainer.last:
            self.log.write(
                "step",
                epoch=1,
                batch=measured.step,
                batches=self.spec.steps,
                learning_rate=self.spec.sizes.learning_rate,
                step_time=measured.seconds["elapsed"],
                loss=loss,
                perplexity=math.exp(loss),
            )
        dist.barrier()  # or the next step of the others would wait for the printing

    def end(self) -> None:
        """Print the lines after the steps."""
        dist.barrier()
        self.log.write_once("elapsed", elapsed=time.perf_counter() - self.start)
        dist.barrier()


PRINTERS: Mapping[
    str | None, Callable[[LogWriter, PipelineTrainer], PipelineReferencePrinter | PipelineOriginalPrinter]
] = {
    None: PipelineReferencePrinter,
    "pipeline": PipelineOriginalPrinter,
}
"""Printers by the dialect that a recipe names; None is the reference format."""
