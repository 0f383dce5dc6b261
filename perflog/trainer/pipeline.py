"""Recipe pipeline: one run after the other, each step trained, measured and printed."""

from __future__ import annotations

from collections.abc import Iterable

from perflog.trainer.cluster import Cluster
from perflog.trainer.lines import Lines
from perflog.trainer.pipeline_printing import PRINTERS
from perflog.trainer.pipeline_training import PipelineTrainer
from perflog.trainer.recipes import Job


def run(jobs: Iterable[Job], cluster: Cluster, lines: Lines, dialect: str | None = None) -> None:
    """Train and print all runs, in a dialect of PRINTERS."""
    for job in jobs:
        trainer = PipelineTrainer(job, cluster, leaves=dialect is not None)
        printer = PRINTERS[dialect](lines, trainer)
        printer.begin()
        for number in range(job.steps):
            printer.step(trainer.step(number))
        printer.end()
