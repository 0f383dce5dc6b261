"""What is printed of a training run of the language model, through the reference format."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Protocol

import torch
import torch.distributed as dist

from perflog.formats.template import Value
from perflog.trainer.describe import describe
from perflog.trainer.lines import Lines
from perflog.trainer.model import active_parameters
from perflog.trainer.plain import measure
from perflog.trainer.recipes import Job
from perflog.trainer.training import Measured, Trainer


class Printer(Protocol):
    """Prints a run, on every rank: `begin`, then each step, then `end`."""

    def begin(self) -> None: ...
    def step(self, measured: Measured) -> None: ...
    def end(self) -> None: ...


def average(printed: Sequence[dict[str, Value]], name: str) -> float:
    """Mean of a field of step lines as they were printed, summed in order: readers can recompute it to the last bit."""
    return reduce(add, (float(p[name]) for p in printed)) / len(printed)


class Reference:
    """Rank, step and unit on every line. Rank 0 prints the step line and the summary of the steps after the warm-up."""

    def __init__(self, lines: Lines, trainer: Trainer) -> None:
        self.lines, self.trainer = lines, trainer
        self.job, self.cluster = trainer.job, trainer.cluster
        self.steady: list[dict[str, Value]] = []

    def begin(self) -> None:
        """See `Printer`."""
        describe(self.lines, self.job, self.cluster, active_parameters(self.trainer.model))
        if self.job.plain:
            self._plain()

    def _plain(self) -> None:
        """Time plain products of the experts' shapes: first and last, as a machine may change meanwhile."""
        plain = measure(self.job, self.cluster)
        self.lines.write(
            "plain",
            rank=self.cluster.rank,
            plain_experts=plain.experts,
            plain_rows=plain.rows,
            plain_tries=plain.tries,
            plain_warmup=plain.warmup,
            **plain.seconds,
        )

    def step(self, measured: Measured) -> None:
        """See `Printer`."""
        who: dict[str, Value] = {"rank": self.cluster.rank, "step": measured.step}
        self.lines.phases(measured.step, measured.seconds)
        self._loads(measured, who)
        elapsed = measured.seconds["elapsed"]
        self.lines.write("elapsed", **who, elapsed=elapsed, peak_memory=measured.memory)
        dist.barrier()  # the step line comes last
        if self.cluster.rank == 0:
            times = {name: measured.seconds[name] for name in ("forward", "backward")}
            step = step_line(self.job, measured, self.cluster.world * self.job.sizes.tokens)
            printed = self.lines.write("step", **who, **times, **step)
            self.steady += [printed] if measured.step >= self.job.warmup_steps else []

    def _loads(self, measured: Measured, who: dict[str, Value]) -> None:
        """The rank's share of the work of all layers, and how often each of its experts was chosen."""
        if not measured.loads:
            return
        rank, local = self.cluster.rank, self.job.sizes.experts_per_rank
        rows, remote, dropped = map(sum, zip(*(load.of(rank) for load in measured.loads), strict=True))
        self.lines.write("load", **who, amount=rows, remote=remote, dropped=dropped)
        chosen = torch.stack([load.counts for load in measured.loads]).sum((0, 1)).tolist()
        for expert in range(rank * local, (rank + 1) * local):
            self.lines.write("expert", **who, expert=expert, amount=chosen[expert])

    def end(self) -> None:
        """See `Printer`."""
        names = ("step_time", "forward", "backward")
        if self.job.plain:
            self._plain()
        if self.cluster.rank == 0:
            summary(self.lines, "summary", self.steady, names, self.job)
        close(self.lines, self.job)


def step_line(job: Job, measured: Measured, tokens: int) -> dict[str, Value]:
    """What a step line says, but for the rate, which the format computes. `tokens`: those of all ranks in a step."""
    elapsed = measured.seconds["elapsed"]
    return {
        "step_time": elapsed,
        "loss": measured.loss,
        "tokens_per_s": tokens / elapsed,
        "memory": measured.memory,
        "_": ", warm-up" if measured.step < job.warmup_steps else "",
    }


def summary(lines: Lines, name: str, steady: Sequence[dict[str, Value]], fields: Sequence[str], job: Job) -> None:
    """Print means over the steps after the warm-up, with their window."""
    means: dict[str, Value] = {field: average(steady, field) for field in fields}
    lines.write(name, means, rank=lines.rank, summary_first=job.warmup_steps, summary_last=job.steps - 1)


def close(lines: Lines, job: Job) -> None:
    """The last line of a run, when all ranks have printed theirs."""
    dist.barrier()
    lines.once("end", place=job.place, places=job.places)
    dist.barrier()
