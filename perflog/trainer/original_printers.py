"""The language model's runs in the line shapes of the original benchmarks, as far as both time the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch.distributed as dist

from perflog.formats.template import Value
from perflog.trainer.log_writer import LogWriter
from perflog.trainer.reference_printer import ReferencePrinter, RunPrinter, average
from perflog.trainer.training import StepMeasurement, Trainer


class MoeLayerPrinter:
    """The MoE layer benchmark. Its step leaves out attention, as the original's does, and also what the original has
    not: embedding and head, data, optimizer. Its rate counts the experts alone.
    """

    WINDOW = 10

    def __init__(self, log: LogWriter, trainer: Trainer) -> None:
        self.log, self.trainer = log, trainer
        self.spec, self.context = trainer.spec, trainer.context
        self.printed: list[dict[str, Value]] = []

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
            a2a_ffn_overlap_degree=1,
            device="cuda:0" if device == "cuda" else device,
        )
        dist.barrier()

    def step(self, measured: StepMeasurement) -> None:
        """See `RunPrinter`."""
        took = measured.seconds
        self.log.write(
            "process",
            rank=self.context.rank,
            gate=took["gate"],
            exchange=took["count"] + took["exchange"],
            select=took.get("select", 0.0),
            dispatch=took["prepare"],
        )
        inside = ("cast", "copy_experts", "wait", "dispatch", "sort", "gemm1", "gemm2", "combine", "sum")
        self.log.write("forward", moe_forward=sum(took.get(name, 0.0) for name in inside))
        dist.barrier()  # the step line closes the step
        if self.context.rank == 0:
            beside = took["attention"] + took["head"]
            whole = took["elapsed"] - took["data"] - took["optimizer"]
            times = {"step_time": whole - beside, "forward": took["forward"] - beside, "backward": took["backward"]}
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


class SweepPrinter:
    """The training-step sweep: rank 0 prints steps; backward holds the optimizer, as the original's does."""

    WINDOW = 60

    def __init__(self, log: LogWriter, trainer: Trainer) -> None:
        self.log, self.trainer = log, trainer
        self.spec, self.context = trainer.spec, trainer.context
        self.printed: list[dict[str, Value]] = []

    def begin(self) -> None:
        """See `RunPrinter`."""
        rank, world = self.context.rank, self.context.world_size
        if self.spec.place == 1:  # one start of the processes for all runs
            started = (
                self.log.render("local_rank", rank=rank)[0],
                self.log.render("world_rank", rank=rank)[0],
                self.log.render("world_size", world_size=world)[0],
            )
            self.log.write_text("".join(f"{line}\n" for line in started))
        if world > 1:
            self.log.write("ddp")
        dist.barrier()

    def step(self, measured: StepMeasurement) -> None:
        """See `RunPrinter`."""
        took = measured.seconds
        if self.context.rank == 0:
            times = {"step_time": took["elapsed"], "forward": took["forward"]}
            backward = took["backward"] + took["optimizer"]
            self.printed.append(self.log.write("step", step=measured.step, backward=backward, **times))

    def end(self) -> None:
        """See `RunPrinter`."""
        if self.context.rank == 0:
            dense = self.spec.strategy == "dense"
            experts = 0 if dense else self.context.world_size * self.spec.sizes.experts_per_rank
            last = min(self.WINDOW, self.spec.steps - self.spec.warmup_steps)
            means: dict[str, Value] = {"step_time": average(self.printed[-last:], "step_time")}
            self.log.write_text("\n")
            who: dict[str, Value] = {"system": self.spec.strategy, "model": self.spec.model, "experts": experts}
            self.log.write("summary", means, **who)
        dist.barrier()


PRINTERS: Mapping[str | None, Callable[[LogWriter, Trainer], RunPrinter]] = {
    None: ReferencePrinter,
    "layer": MoeLayerPrinter,
    "sweep": SweepPrinter,
}
"""Printers by the dialect that a recipe names; None is the trainer's own."""
