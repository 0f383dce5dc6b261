"""A cause: one thing that takes time of a run, or holds it up, and how much shorter the run would be without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables

SUBJECTS = {
    "stuck rank": "a rank with a missing call that others wait for",
    "rank": "a rank that takes longer than the median rank, or comes last in collectives",
    "slow rank": "a rank that is worse than all others in a metric",
    "slowest rank": "a rank that reports over all ranks name as the slowest, or as a straggler",
    "worker": "a worker (of a replica and a stage) that is slower than its peers",
    "replica": "a data-parallel rank that is slower than its peers",
    "stage": "a pipeline stage that takes longer than the mean stage, or than its peers",
    "operations": "a kind of operation that some ranks do slower than others",
    "host": "the device idles because the next work is not launched yet",
    "graph capture": "the host records graphs; their kernels do not run meanwhile",
    "compilation": "the host compiles or loads kernels",
    "data": "data is loaded or waited for",
    "launch": "the time from a launch to its work",
    "graphs": "host time that CUDA graphs would do without",
    "stream": "one stream waits for others",
    "waiting": "launched work waits for an event, a stream or a rank, or is a kernel that only waits; or a phase waits",
    "idle": "the device idles, and the log does not show why",
    "device": "all work of the device",
    "compute": "kernels that compute",
    "communication": "collectives and transfers beside which nothing computes, or phases of them",
    "exposed communication": "communication that other work waits for",
    "slow operators": "a class of operators that takes longer than the peaks of the device allow",
    "copies": "copies and memsets beside which nothing computes",
    "kernels": "a category of kernels, or of API calls",
    "kernel": "the kernel, or the API call, that takes most of the time",
    "phase": "a timed phase that computes, prepares or does several things",
    "untimed": "time of the step that no timer covers",
    "unequal ranks": "ranks that wait for the slowest one after each phase",
    "unequal stages": "stages of a pipeline that do not take the mean of all",
    "slow products": "matrix products at a lower rate than plain ones of the same shapes",
    "below the peak": "all that a step takes beside its FLOPs at the peak of the device",
    "slow steps": "steps that take over twice the median",
    "validation": "validations between the steps",
    "checkpoint": "checkpoints between the steps",
    "outside of steps": "time of the run's clock in which it does no step",
}
"""What a cause can be, and what each word means."""

RUN, JOB, PIPELINE = "run", "job", "pipeline"
"""Wholes that `breakdown` does not have."""

REPLAY, BOUND, SUM = "replay", "bound", "sum"
"""What a gain rests on: a replay of the dependencies, a bound under a model, or the time alone."""


class Cause(Struct, frozen=True, kw_only=True):
    """What takes time of a run, or holds it up: a row of metric `causes`, whose columns say what its fields hold.

    `may_bind`: whether this can be what binds the whole: a sum of others, or a bound of all losses, is not.
    """

    run: str
    of: str
    subject: str
    name: str | None = None
    rank: int | None = None
    device: int | None = None
    dp_rank: int | None = None
    stage: int | None = None
    whole_s: float | None = None
    time_s: float | None = None
    gain_s: float | None = None
    by: str = SUM
    model: str = "it takes no time, and nothing else becomes longer"
    ratio: float | None = None
    n: int | None = None
    each_s: float | None = None
    metric: str = "breakdown"
    may_bind: bool = True
    binds: bool = False

    @property
    def share(self) -> float:
        """Its share of the whole; NaN if it is not known."""
        return self.time_s / self.whole_s if self.time_s is not None and self.whole_s else float("nan")

    @property
    def gain(self) -> float:
        """How much shorter the whole were, relative to it; NaN if it is not known."""
        return self.gain_s / self.whole_s if self.gain_s is not None and self.whole_s else float("nan")


Source = Callable[[Tables, Options], Iterator[Cause]]
"""What finds causes of one kind in all runs."""
