"""Schedules: step and bubble of a pipeline under other schedules and numbers of micro-batches, by simulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from perflog.metrics.options import Options
from perflog.metrics.pipelines.pipeline import StageTimes, count_of, stage_times
from perflog.metrics.pipelines.schedule_simulation import (
    BACKWARD,
    DUAL_PIPE,
    FORWARD,
    GPIPE,
    INTERLEAVED,
    ONE_F_ONE_B,
    PLANS,
    ZB_H1,
    ZB_V,
    step,
)
from perflog.metrics.registry import RUN_COLUMNS, MetricRows, column, columns_of, metric
from perflog.metrics.run_tables import Tables, computed_list
from perflog.metrics.semantics import semantics_by_run
from perflog.statistics.groups import groups_of
from perflog.tables.arrow import Where, one_of
from perflog.tables.columns import rows_from_arrow

_BACKWARD = 2.0  # times the forward, where the log has no times: two matrix products for each one of the forward
_MOST_STAGES = 64
_COMPUTES = {"forward-compute": FORWARD, "backward-compute": BACKWARD}
"""Names of the operations of a job that compute a micro-batch on a stage."""
_FACTORS = (1, 2)  # of the micro-batches of the run
TIMED, EQUAL = "stages as timed", "equal stages"

_NAMES = {
    "gpipe": GPIPE, "1f1b": ONE_F_ONE_B, "pipedream": ONE_F_ONE_B, "interleaved1f1b": INTERLEAVED,
    "interleaved": INTERLEAVED, "zbh1": ZB_H1, "zb1p": ZB_H1, "zbv": ZB_V, "zbvzerobubble": ZB_V,
    "dualpipe": DUAL_PIPE,
}  # fmt: skip
"""Names that programs give to schedules, by their letters and digits."""


class ScheduleRow(Struct, frozen=True):
    """A row of the metric."""

    run: str
    schedule: Annotated[str, column("GPipe, 1F1B, interleaved 1F1B, ZB-H1, ZB-V or DualPipe")]
    used: Annotated[bool | None, column("whether the run uses it, by its settings; null: unknown")]
    stages: Annotated[int, column("p: number of pipeline stages")]
    micro_batches: Annotated[int, column("m: number of micro-batches of a step; the run's own number comes first")]
    chunks: Annotated[int, column("v: chunks of a stage; 2 where an interleaved run does not print it")]
    of: Annotated[str, column("stages as timed by the log, or equal stages")]
    idle: Annotated[
        float, column("bubble: idle time / time of all devices, from the first work to the last", "1", "lower")
    ]
    step_s: Annotated[float, column("simulated step; null without times of stages", "s", "lower")]
    speedup: Annotated[float, column("simulated step of 1F1B with the run's micro-batches / this one", better="higher")]
    activations: Annotated[
        float,
        column(
            "largest number of micro-batches with activations on a device, in micro-batches of the run", better="lower"
        ),
    ]
    copies: Annotated[int, column("copies of the parameters of a stage that a device holds", better="lower")]
    assumes: Annotated[str, column("what the simulation assumes", brief=False)]

    @property
    def backward_by_rule(self) -> bool:
        """Whether the times of the backward are derived from the times of the forward."""
        return self.assumes.startswith("B =")


@metric(
    title="pipeline schedules, by simulation",
    needs=("runs",),
    columns=(*RUN_COLUMNS, *columns_of(ScheduleRow)),
    main="idle",
    formula="idle = 1 - busy / (p * step), of a simulation that starts each work as soon as its device and its input "
    "are ready. Equal stages: (p - 1) / (m + p - 1) of GPipe and 1F1B; bubbles (p - 1) (F + B) / v interleaved, "
    "(p - 1) (F + B - 2 W) of ZB-H1, (p / 2 - 1) (F + 2 B - 3 W) of DualPipe",
    source="GPipe 1811.06965; 1F1B, interleaved 2104.04473; ZB-H1 2401.10241; ZB-V 2405.15362; DualPipe 2412.19437",
)
def schedules(tables: Tables, options: Options) -> MetricRows:
    """Idle share, step and memory of each pipeline under six schedules, with its micro-batches and twice as many.

    No value is measured. Times of stages come from the log's layers, or from a profile of all its ranks; else all
    stages are equal, and the backward takes twice the forward. Gradients of weights take half of the backward. Sending
    takes no time, and devices end a step together. With twice as many micro-batches, each takes half the time.

    Example:
        >>> table = perflog.metrics.schedules(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> table[["schedule", "micro_batches", "idle", "activations"]].head(2).round(3)
           schedule  micro_batches ...
        ...
    """
    return [asdict(row) for row in schedule_rows(tables, options)]


@computed_list
def schedule_rows(tables: Tables, options: Options) -> Iterator[ScheduleRow]:
    """Return the rows of the metric in the order of the runs."""
    timed = {times.run: times for times in stage_times(tables, options)} if tables.count("layers") else {}
    profiled = {times.run: (times, chunks) for times, chunks in _operation_times(tables)}
    for run, means in semantics_by_run(tables.rows("runs")).items():
        stages, batches, printed = (count_of(means.quantities, name) for name in ("stages", "micro_batches", "chunks"))
        if run in profiled:
            timed[run], printed = profiled[run]
            stages, batches = len(timed[run].seconds[FORWARD]), timed[run].micro_batches
        if stages is None or batches is None or not 1 < stages <= _MOST_STAGES:
            continue
        chunks = printed if printed is not None and printed > 1 else 2
        used = _used(means.config, printed)
        forward, backward, assumes = [1.0] * stages, [_BACKWARD] * stages, f"B = {_BACKWARD:g} F"
        times = timed.get(run)
        if times is not None:
            medians = {direction: np.median(seconds, axis=1).tolist() for direction, seconds in times.seconds.items()}
            forward = medians[FORWARD]
            backward = medians.get(BACKWARD) or [_BACKWARD * seconds for seconds in forward]
            assumes = assumes if BACKWARD not in medians else ""
        assumes = ", ".join([*filter(None, [assumes]), "W = B / 2", "sending takes no time"])
        base = step(ONE_F_ONE_B, forward, backward, batches)
        for factor in _FACTORS:
            parts = [[seconds / factor for seconds in of] for of in (forward, backward)]
            for schedule in PLANS:
                found = step(schedule, parts[0], parts[1], batches * factor, chunks)
                if found is not None and base is not None:
                    yield ScheduleRow(
                        run, schedule, None if used is None else used == schedule, stages, batches * factor,
                        chunks if schedule == INTERLEAVED else 2 if schedule == ZB_V else 1,
                        EQUAL if times is None else TIMED, found.idle,
                        np.nan if times is None else found.makespan_s, base.makespan_s / found.makespan_s,
                        found.activations / factor, found.copies, assumes,
                    )  # fmt: skip


def _operation_times(tables: Tables) -> Iterator[tuple[StageTimes, int]]:
    """Yield the stage times and the number of chunks of runs that a profiler of the job times by stage and micro-batch.

    The time of a stage is the sum over its chunks of the median over micro-batches, steps and replicas.
    """
    columns = ("name", "stage", "chunk", "micro_batch", "duration_ns")
    where: Where = {"kind": one_of("operation"), "name": one_of(*_COMPUTES)}
    for (run, _), events in tables.arrow_by_file("events", where, *columns):
        rows = rows_from_arrow(events)
        rows = rows.where(rows.known("stage", "micro_batch", "duration_ns"))
        if not len(rows):
            continue
        count, chunks = int(rows["stage"].max()) + 1, max(int(rows["chunk"].max()), 0) + 1
        seconds = {direction: np.zeros((count, 1)) for direction in _COMPUTES.values()}
        found = set()
        for name, name_rows in rows.by("name").items():
            of = groups_of(name_rows["stage"], name_rows["chunk"])
            for number, first in enumerate(of.first.tolist()):
                stage = int(name_rows["stage"][first])
                seconds[_COMPUTES[name]][stage, 0] += np.median(name_rows["duration_ns"][of.inverse == number]) / 1e9
                found.add((_COMPUTES[name], stage))
        if len(found) == count * len(_COMPUTES):
            yield StageTimes(run, len(set(rows["micro_batch"].tolist())), [], seconds, {}), chunks


def _used(config: Mapping[str, object], chunks: int | None) -> str | None:
    """The schedule that the settings name: with chunks of stages interleaved; with the option for them off 1F1B."""
    for key, value in config.items():
        if "schedule" in key and ("pipeline" in key or "pp" in key.split("_")) and isinstance(value, str):
            name = "".join(letter for letter in value.lower() if letter.isalnum())
            return _NAMES.get(name)
    if chunks is not None and chunks > 1:
        return INTERLEAVED
    virtual = [value for key, value in config.items() if "virtual_pipeline" in key]
    return ONE_F_ONE_B if virtual and all(value in (None, "None", 1) for value in virtual) else None
