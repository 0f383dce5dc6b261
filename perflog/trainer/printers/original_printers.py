"""Prints runs of the language model in the line shapes of the original benchmarks, where both time the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch.distributed as dist

from perflog.formats.template import Value
from perflog.trainer.log_writer import LogWriter
from perflog.trainer.printers.reference_printer import ReferencePrinter, RunPrinter, average
from perflog.trainer.training import StepMeasurement, Trainer


class _Printer:
    """What both benchmarks print from. `printed`: the values of the steps so far."""

    def __init__(self, log: LogWriter, trainer: Trainer) -> None:
        self.log, self.trainer = log, trainer
        self.spec, self.context = trainer.spec, trainer.context
        self.printed: list[dict[str, Value]] = []


class MoeLayerPrinter(_Printer):
    """The MoE layer benchmark.

    Its step excludes attention, as in the original, and the parts that the original does not have: embedding, head,
    data, optimizer. Its rate counts only the experts.
    """

    WINDOW = 10  # steps in the mean

    def begin(self) -> None:
        """See `RunPrinter`."""
        sizes, device = self.spec.sizes, self.context.device.type
        dist.barrier()
        if device == "cuda":
            self.log.write("device", rank=self.context.rank)
        self.log.write("mpi_rank", rank=self.context.rank, world_size=self.context.world_size)
        dist.barrier()
        self.log.write_once(
            "bench",
            world_size=self.context.world_size,
            dtype=self.spec.dtype,
            model_dim=sizes.model_dim,
            hidden_size=sizes.hidden_size,
            samples=sizes.tokens,
            num_local_experts=sizes.experts_per_rank,
            top_k=sizes.top_k,
            a2a_ffn_overlap_degree=self.spec.moe.overlap or 1,
            device="cuda:0" if device == "cuda" else device,
        )
        dist.barrier()

    def step(self, measured: StepMeasurement) -> None:
        """See `RunPrinter`."""
        seconds = measured.seconds
        self.log.write(
            "process",
            rank=self.context.rank,
            gate=seconds["gate"],
            exchange=seconds["count"] + seconds["exchange"],
            select=seconds.get("select", 0.0),
            dispatch=seconds["prepare"],
        )
        layer_phases = ["cast", "copy_experts", "wait", "dispatch", "sort", "gemm1", "gemm2", "combine", "sum"]
        layer_phases += ["rows_wait", "shared"]
        self.log.write("forward", moe_forward=sum(seconds.get(name, 0.0) for name in layer_phases))
        dist.barrier()  # the step line closes the step
        if self.context.rank == 0:
            excluded = seconds["attention"] + seconds["head"]
            total = seconds["elapsed"] - seconds["data"] - seconds["optimizer"]
            times = {
                "step_time": total - excluded,
                "forward": seconds["forward"] - excluded,
                "backward": seconds["backward"],
            }
            self.printed.append(self.log.write("step", step=measured.step, **times))
        dist.barrier()

    def end(self) -> None:
        """See `RunPrinter`."""
        if self.context.rank == 0:
            names = ("step_time", "forward", "backward")
            means: dict[str, Value] = {name: average(self.printed[-self.WINDOW :], name) for name in names}
            self.log.write_text("\n")
            self.log.write("summary", means)
            self.log.write("end")
        dist.barrier()


class SweepPrinter(_Printer):
    """The training-step sweep: rank 0 prints steps; backward includes the optimizer, as in the original."""

    WINDOW = 60  # steps in the mean

    def begin(self) -> None:
        """See `RunPrinter`."""
        rank, world = self.context.rank, self.context.world_size
        if self.spec.place == 1:  # the processes start once for all runs
            rank_lines = (
                self.log.render("local_rank", rank=rank)[0],
                self.log.render("world_rank", rank=rank)[0],
                self.log.render("world_size", world_size=world)[0],
            )
            self.log.write_text("".join(f"{line}\n" for line in rank_lines))
        if world > 1:
            self.log.write("ddp")
        dist.barrier()

    def step(self, measured: StepMeasurement) -> None:
        """See `RunPrinter`."""
        seconds = measured.seconds
        if self.context.rank == 0:
            times = {"step_time": seconds["elapsed"], "forward": seconds["forward"]}
            backward = seconds["backward"] + seconds["optimizer"]
            self.printed.append(self.log.write("step", step=measured.step, backward=backward, **times))
        dist.barrier()  # or the next step of the others would wait for the printing

    def end(self) -> None:
        """See `RunPrinter`."""
        if self.context.rank == 0:
            dense = self.spec.strategy == "dense"
            experts = 0 if dense else self.context.world_size * self.spec.sizes.experts_per_rank
            last = min(self.WINDOW, self.spec.steps - self.spec.warmup_steps)
            means: dict[str, Value] = {"step_time": average(self.printed[-last:], "step_time")}
            self.log.write_text("\n")
            identity: dict[str, Value] = {"system": self.spec.strategy, "model": self.spec.model, "experts": experts}
            self.log.write("summary", means, **identity)
        dist.barrier()


PRINTERS: Mapping[str | None, Callable[[LogWriter, Trainer], RunPrinter]] = {
    None: ReferencePrinter,
    "layer": MoeLayerPrinter,
    "sweep": SweepPrinter,
}
"""Printers by the dialect that a recipe names; None is the reference format."""
