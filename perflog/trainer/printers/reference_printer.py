"""Prints a training run of the language model in the reference format."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Protocol

import torch
import torch.distributed as dist

from perflog.formats.template import Value
from perflog.trainer.log_writer import LogWriter
from perflog.trainer.matmul_baseline import measure_matmuls
from perflog.trainer.models.language_model import active_parameters
from perflog.trainer.printers.run_header import print_run_header
from perflog.trainer.recipes import RunSpec
from perflog.trainer.training import StepMeasurement, Trainer


class RunPrinter(Protocol):
    """Prints a run, on every rank: `begin`, then each step, then `end`."""

    def begin(self) -> None: ...
    def step(self, measured: StepMeasurement) -> None: ...
    def end(self) -> None: ...


def average(printed: Sequence[dict[str, Value]], name: str) -> float:
    """Return the mean of a field over printed step lines, summed in order: readers can recompute it to the last bit."""
    return reduce(add, (float(p[name]) for p in printed)) / len(printed)


class ReferencePrinter:
    """Prints rank, step and unit on every line. Rank 0 also prints step lines and a summary without the warm-up."""

    def __init__(self, log: LogWriter, trainer: Trainer) -> None:
        self.log, self.trainer = log, trainer
        self.spec, self.context = trainer.spec, trainer.context
        self.steady: list[dict[str, Value]] = []

    def begin(self) -> None:
        """See `RunPrinter`."""
        print_run_header(self.log, self.spec, self.context, active_parameters(self.trainer.model))
        if self.spec.plain:
            self._print_matmul_baseline()

    def _print_matmul_baseline(self) -> None:
        """Time plain matrix products with the shapes of the experts. Before and after the steps: speed may change."""
        baseline = measure_matmuls(self.spec, self.context)
        self.log.write(
            "plain",
            rank=self.context.rank,
            plain_experts=baseline.experts,
            plain_matrices=baseline.matrices,
            plain_rows=baseline.rows,
            plain_tries=baseline.tries,
            plain_warmup=baseline.warmup,
            **baseline.seconds,
        )

    def step(self, measured: StepMeasurement) -> None:
        """See `RunPrinter`."""
        rank_and_step: dict[str, Value] = {"rank": self.context.rank, "step": measured.step}
        self.log.write_phases(measured.step, measured.seconds)
        self._print_loads(measured, rank_and_step)
        elapsed = measured.seconds["elapsed"]
        self.log.write("elapsed", **rank_and_step, elapsed=elapsed, peak_memory=measured.memory)
        dist.barrier()  # the step line comes last
        if self.context.rank == 0:
            self._print_routers(measured)
            times = {name: measured.seconds[name] for name in ("forward", "backward")}
            step = step_values(self.spec, measured, self.context.world_size * self.spec.sizes.tokens)
            printed = self.log.write("step", **rank_and_step, **times, **step)
            self.steady += [printed] if measured.step >= self.spec.warmup_steps else []
        dist.barrier()  # or the next step of the others would wait for the printing

    def _print_loads(self, measured: StepMeasurement, rank_and_step: dict[str, Value]) -> None:
        """Print the work of the experts of this rank, and how often each was chosen: sums over the layers."""
        if not measured.loads:
            return
        rank, local = self.context.rank, self.spec.sizes.experts_per_rank
        rows, remote, dropped = map(sum, zip(*(load.rank_counts(rank) for load in measured.loads), strict=True))
        self.log.write("load", **rank_and_step, amount=rows, remote=remote, dropped=dropped)
        chosen = torch.stack([load.counts for load in measured.loads]).sum((0, 1)).tolist()
        for expert in range(rank * local, (rank + 1) * local):
            self.log.write("expert", **rank_and_step, expert=expert, amount=chosen[expert])

    def _print_routers(self, measured: StepMeasurement) -> None:
        """Print the losses of the routers, and how far from even the load of the experts is in the worst layer."""
        if measured.routers is None:
            return
        chosen = [load.counts.sum(0).double() for load in measured.loads]  # [E] each
        self.log.write(
            "router_losses",
            rank=self.context.rank,
            step=measured.step,
            balance_loss=measured.routers.balance,
            z_loss=measured.routers.z,
            largest_load=max(float(counts.max() / counts.mean()) for counts in chosen),
        )

    def end(self) -> None:
        """See `RunPrinter`."""
        names = ("step_time", "forward", "backward")
        if self.spec.plain:
            self._print_matmul_baseline()
        if self.context.rank == 0:
            print_summary(self.log, "summary", self.steady, names, self.spec)
        print_end(self.log, self.spec)


def step_values(spec: RunSpec, measured: StepMeasurement, tokens: int) -> dict[str, Value]:
    """Return the values of a step line, without the rate: the format computes it. `tokens`: of all ranks in a step."""
    return {
        "step_time": measured.slowest,
        "loss": measured.loss,
        "tokens_per_s": tokens / measured.slowest,
        "memory": measured.memory,
        "_": ", warm-up" if measured.step < spec.warmup_steps else "",
    }


def print_summary(
    log: LogWriter, name: str, steady: Sequence[dict[str, Value]], fields: Sequence[str], spec: RunSpec
) -> None:
    """Print means over the steps after the warm-up, with the first and last step."""
    means: dict[str, Value] = {field: average(steady, field) for field in fields}
    log.write(name, means, rank=log.rank, summary_first=spec.warmup_steps, summary_last=spec.steps - 1)


def print_end(log: LogWriter, spec: RunSpec) -> None:
    """Print the last line of a run, after all ranks have printed theirs."""
    dist.barrier()
    log.write_once("end", place=spec.place, places=spec.places)
    dist.barrier()
