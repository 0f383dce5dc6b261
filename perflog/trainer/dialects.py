"""The language model's runs in the line shapes of the original benchmarks, as far as both time the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch.distributed as dist

from perflog.formats.template import Value
from perflog.trainer.lines import Lines
from perflog.trainer.printing import Printer, Reference, average
from perflog.trainer.training import Measured, Trainer


class Layer:
    """The MoE layer benchmark. Its step leaves out attention, as the original's does, and also what the original has
    not: embedding and head, data, optimizer. Its rate counts the experts alone.
    """

    WINDOW = 10

    def __init__(self, lines: Lines, trainer: Trainer) -> None:
        self.lines, self.trainer = lines, trainer
        self.job, self.cluster = trainer.job, trainer.cluster
        self.printed: list[dict[str, Value]] = []

    def begin(self) -> None:
        """See `Printer`."""
        sizes, device = self.job.sizes, self.cluster.device.type
        dist.barrier()
        if device == "cuda":
            self.lines.write("device", rank=self.cluster.rank)
        self.lines.write("mpi_rank", rank=self.cluster.rank, world_size=self.cluster.world)
        dist.barrier()
        self.lines.once(
            "bench",
            world_size=self.cluster.world,
            dtype=self.job.dtype,
            model_dim=sizes.model_dim,
            hidden_size=sizes.hidden_size,
            samples=sizes.tokens,
            num_local_experts=sizes.experts_per_rank,
            top_k=sizes.top_k,
            a2a_ffn_overlap_degree=1,
            device="cuda:0" if device == "cuda" else device,
        )
        dist.barrier()

    def step(self, measured: Measured) -> None:
        """See `Printer`."""
        took = measured.seconds
        self.lines.write(
            "process",
            rank=self.cluster.rank,
            gate=took["gate"],
            exchange=took["count"] + took["exchange"],
            select=took.get("select", 0.0),
            dispatch=took["prepare"],
        )
        inside = ("cast", "copy_experts", "wait", "dispatch", "sort", "gemm1", "gemm2", "combine", "sum")
        self.lines.write("forward", moe_forward=sum(took.get(name, 0.0) for name in inside))
        dist.barrier()  # the step line closes the step
        if self.cluster.rank == 0:
            beside = took["attention"] + took["head"]
            whole = took["elapsed"] - took["data"] - took["optimizer"]
            times = {"step_time": whole - beside, "forward": took["forward"] - beside, "backward": took["backward"]}
            self.printed.append(self.lines.write("step", step=measured.step, **times))
        dist.barrier()

    def end(self) -> None:
        """See `Printer`."""
        if self.cluster.rank == 0:
            names = ("step_time", "forward", "backward")
            means: dict[str, Value] = {name: average(self.printed[-self.WINDOW :], name) for name in names}
            self.lines.put("\n")
            self.lines.write("summary", means)
            self.lines.write("end")
        dist.barrier()


class Sweep:
    """The training-step sweep: rank 0 prints steps; backward holds the optimizer, as the original's does."""

    WINDOW = 60

    def __init__(self, lines: Lines, trainer: Trainer) -> None:
        self.lines, self.trainer = lines, trainer
        self.job, self.cluster = trainer.job, trainer.cluster
        self.printed: list[dict[str, Value]] = []

    def begin(self) -> None:
        """See `Printer`."""
        rank, world = self.cluster.rank, self.cluster.world
        if self.job.place == 1:  # one start of the processes for all runs
            started = (
                self.lines.text("local_rank", rank=rank)[0],
                self.lines.text("world_rank", rank=rank)[0],
                self.lines.text("world_size", world_size=world)[0],
            )
            self.lines.put("".join(f"{line}\n" for line in started))
        if world > 1:
            self.lines.write("ddp")
        dist.barrier()

    def step(self, measured: Measured) -> None:
        """See `Printer`."""
        took = measured.seconds
        if self.cluster.rank == 0:
            times = {"step_time": took["elapsed"], "forward": took["forward"]}
            backward = took["backward"] + took["optimizer"]
            self.printed.append(self.lines.write("step", step=measured.step, backward=backward, **times))

    def end(self) -> None:
        """See `Printer`."""
        if self.cluster.rank == 0:
            dense = self.job.strategy == "dense"
            experts = 0 if dense else self.cluster.world * self.job.sizes.experts_per_rank
            last = min(self.WINDOW, self.job.steps - self.job.warmup_steps)
            means: dict[str, Value] = {"step_time": average(self.printed[-last:], "step_time")}
            self.lines.put("\n")
            who: dict[str, Value] = {"system": self.job.strategy, "model": self.job.model, "experts": experts}
            self.lines.write("summary", means, **who)
        dist.barrier()


PRINTERS: Mapping[str | None, Callable[[Lines, Trainer], Printer]] = {None: Reference, "layer": Layer, "sweep": Sweep}
"""Printers by the dialect that a recipe names; None is the trainer's own."""
