"""Pipeline stages and layers: their times, and the bubble by models. No value here is a measured bubble.

A measured bubble needs the time in which each stage was busy with anything. The sum of a log's layer times is less: it
has no communication and often no backward. So each value has the name of its model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints
from perflog.metrics.compared import ALL, Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.pipelines.schedule_simulation import BACKWARD, FORWARD, Simulated, as_timed
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.row_groups import row_groups
from perflog.metrics.run_rows import totals_of_steps
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import semantics_by_run
from perflog.statistics.samples import median_interval
from perflog.statistics.warmup import Warmup, warm_up
from perflog.tables.columns import NULL, Array, Rows
from perflog.tables.nulls import row_dicts

if TYPE_CHECKING:
    import pandas as pd

_AS_TIMED = "1F1B, stages as timed"

_TIMES = (
    MetricColumn("direction", meaning="forward or backward"),
    MetricColumn("n", meaning="number of steady steps"),
    MetricColumn("time_s", "s", "lower", "time in a step: median over the steady steps"),
    MetricColumn("low_s", "s", None, "lower end of its confidence interval (order statistics, binomial)", brief=False),
    MetricColumn("high_s", "s", None, "upper end of this interval", brief=False),
    MetricColumn("per_micro_batch_s", "s", "lower", "time / micro-batches; null if their number is not known"),
    MetricColumn("share", "1", None, "time / sum of the times"),
    MetricColumn("of_longest", "1", None, "time / longest time"),
    MetricColumn("first_step", meaning="first steady step", brief=False),
    MetricColumn("last_step", meaning="last steady step", brief=False),
    MetricColumn("warmup", meaning="number of steps cut at the start"),
    MetricColumn("warmup_reason", meaning="why these steps are warm-up", brief=False),
    MetricColumn("first_line", meaning="its first line", brief=False),
)

_STAGES = (
    *RUN_COLUMNS,
    MetricColumn("stage", meaning="pipeline stage"),
    MetricColumn("ranks", meaning="ranks that print it; the slowest counts"),
    MetricColumn("layers", meaning="layers of the stage"),
    *_TIMES,
)

_LAYERS = (
    *RUN_COLUMNS,
    MetricColumn("layer", meaning="layer"),
    MetricColumn("stages", meaning="stages that hold a part of it; its time is the sum of the parts"),
    MetricColumn("calls", meaning="number of timed calls in a step"),
    *_TIMES,
)

_PIPELINE = (
    *RUN_COLUMNS,
    MetricColumn("model", meaning="name of the model; no model is a measurement of the bubble"),
    MetricColumn("of", meaning="times that it uses: forward, or forward and backward; null: counts only"),
    MetricColumn("stages", meaning="p: number of pipeline stages"),
    MetricColumn("micro_batches", meaning="m: number of micro-batches of a step"),
    MetricColumn("chunks", meaning="v: number of model chunks per stage"),
    MetricColumn("idle", "1", "lower", "bubble as a fraction of the total: idle / (idle + busy) time of all stages"),
    MetricColumn("busy", "1", "higher", "1 - idle"),
    MetricColumn("over_ideal", "", "lower", "bubble as a ratio to the ideal: idle / busy time"),
    MetricColumn("makespan_s", "s", "lower", "time from the first forward to the end of the last slot, in the model"),
    MetricColumn("formula", meaning="formula of idle or of the makespan"),
)


@metric(
    title="pipeline stages",
    needs=("layers",),
    columns=_STAGES,
    main="time_s",
    formula="per step: sum over the layers of a stage on its slowest rank; then the median over the steady steps",
    source="the log's own times of layers; they lack whatever a layer's timer leaves out",
)
def stages(tables: Tables, options: Options) -> MetricRows:
    """Time of each pipeline stage in a step, and per micro-batch.

    Example:
        >>> table = perflog.metrics.stages(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> table[["stage", "layers", "direction", "time_s"]].head(2).round(4)
           stage     layers direction  time_s
        0      0  embed 0 1   forward  0.0724
        1      1      1 2 3   forward  0.0879
    """
    table = []
    for run in _steady_runs(tables, options):
        for stage, rows, times in run.times("stage"):
            if stage != NULL:
                row = {"run": run.run, "stage": stage, "ranks": _names(rows["rank"])}
                table.append(row | {"layers": _names(rows["layer"])} | times)
    return table


def layers_by_stage(
    tables: Tables, run: str, direction: str | None, options: Options
) -> dict[int, dict[str | None, float]]:
    """Return the time in a step of each layer of a run on each of its stages alone."""
    rows = tables.rows_of("layers", run)
    rows = rows.where(rows.known("stage"))
    times: dict[int, dict[str | None, float]] = {}
    for stage in np.unique(rows["stage"]).tolist():
        on_stage = _without_warmup(run, rows.where(rows["stage"] == stage), {}, options)
        parts = on_stage.times("layer") if len(on_stage.rows) else ()
        times[stage] = {layer: part["time_s"] for layer, _, part in parts if part["direction"] == direction}
    return times


def _layer_samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """The time of all layers in each steady step, then of each layer, summed over the stages that share it."""
    for run, layers in tables.rows_by_run("layers").items():
        if run not in steady.cuts or not len(rows := steady.rows(run, layers)):
            continue
        yield (
            Measure("layer", ALL),
            run,
            next(totals_of_steps(rows["step"], rows["time_s"], np.zeros(len(rows), np.int64), 1)),
        )
        parts: dict[tuple[str, str | None], int] = {}
        part = np.array([parts.setdefault(key, len(parts)) for key in rows.records("layer", "direction")])
        for (layer, direction), times in zip(
            parts, totals_of_steps(rows["step"], rows["time_s"], part, len(parts)), strict=True
        ):
            yield Measure("layer", " ".join(filter(None, (layer, direction))) or "-", of=ALL), run, times


@metric(
    title="layers",
    needs=("layers",),
    columns=_LAYERS,
    main="time_s",
    formula="per step: sum of a layer's parts over the stages that have one; then the median over the steady steps",
    source="the log's own times of layers; they lack whatever a layer's timer leaves out",
    compares=(_layer_samples,),
)
def layers(tables: Tables, options: Options) -> MetricRows:
    """Time of each layer in a step. The parts of a layer on several stages add up.

    Example:
        >>> table = perflog.metrics.layers(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> table[["layer", "stages", "calls", "time_s"]].head(2).round(4)
           layer stages  calls  time_s
        0  embed      0     32  0.0008
        1      0      0    256  0.0413
    """
    table = []
    for run in _steady_runs(tables, options):
        for layer, rows, times in run.times("layer"):
            calls = int(np.median(_per_step(rows, "calls")[1])) if rows.known("calls").all() else None
            row = {"run": run.run, "layer": layer, "stages": _names(rows["stage"])}
            table.append(row | {"calls": calls} | times)
    return table


@metric(
    title="pipeline bubble, by models (none of them measured)",
    needs=("layers",),
    columns=_PIPELINE,
    main="idle",
    formula="idle = bubble / all stage time (fraction of total); over_ideal = bubble / busy time (ratio to ideal)",
    source="GPipe 1811.06965; 1F1B and interleaved: Narayanan et al. 2104.04473, section 2.2",
)
def pipeline(tables: Tables, options: Options) -> MetricRows:
    """Pipeline bubble by models of the 1F1B schedule, from counts only and from the times of the stages.

    Example:
        >>> table = perflog.metrics.pipeline(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> table[["model", "stages", "micro_batches", "idle"]].round(3)
                               model  stages  micro_batches   idle
        0          1F1B, equal stages       8             32  0.179
        1        1F1B, stages as timed       8             32  0.592
        2   imbalance of stages alone       8             32  0.56
    """
    table = []
    for run in _steady_runs(tables, options):
        counts = {name: count_of(run.quantities, name) for name in ("stages", "micro_batches", "chunks")}
        models = (*_equal_stages(**counts), *_timed_stages(run, counts["stages"], counts["micro_batches"]))
        table += [{"run": run.run} | counts | row for row in models]
    return table


class TimedPipeline(Struct, frozen=True):
    """The 1F1B step of a run as modelled from the times of its stages.

    `of`: directions that are timed. `busy_s`: time that the mean stage works. `equal_s`: end of the step if each stage
    took that long. `makespan_s`: its end with the stages as timed.
    """

    run: str
    of: str
    busy_s: float
    equal_s: float
    makespan_s: float


def timed_pipelines(tables: Tables, options: Options) -> Iterator[TimedPipeline]:
    """Yield the modelled step of each run with known times of all stages and a known number of micro-batches."""
    rows = pipeline.table(tables, options)
    for row in row_dicts(rows[(rows["model"] == _AS_TIMED) & rows["makespan_s"].notna()]):
        stages, batches, makespan = int(row["stages"]), int(row["micro_batches"]), float(row["makespan_s"])
        busy = float(row["busy"]) * makespan
        yield TimedPipeline(row["run"], row["of"], busy, busy * (batches + stages - 1) / batches, makespan)


class StageTimes(Struct, frozen=True):
    """The times of all stages of a run in its steady steps, in s for each micro-batch.

    `seconds`: by direction, by stage and step. `ranks`: of each stage its rank, None if several ranks share it.
    """

    run: str
    micro_batches: int
    steps: Sequence[int]
    seconds: Mapping[str, Floats]
    ranks: Mapping[int, int | None]


def stage_times(tables: Tables, options: Options) -> Iterator[StageTimes]:
    """Yield the stage times of each run with known times of all stages and a known number of micro-batches.

    Of several ranks of a stage the slowest counts.
    """
    for run in _steady_runs(tables, options):
        batches, count = count_of(run.quantities, "micro_batches"), count_of(run.quantities, "stages")
        directions = list(_stage_times(run, count))
        if not batches or not directions:
            continue
        index, times = _per_step(run.rows, "time_s", "stage", "direction")
        rows = run.rows.where(index)
        steps, step_index = np.unique(rows["step"], return_inverse=True)
        seconds = {direction: np.full((count or 0, len(steps)), np.nan) for direction in directions}
        for direction, grid in seconds.items():
            chosen = rows.one_of("direction", [direction])
            grid[rows["stage"][chosen], step_index[chosen]] = times[chosen] / batches
        if not any(np.isnan(grid).any() for grid in seconds.values()):
            ranks: dict[int, set[int]] = {}
            for stage, rank in run.rows.records("stage", "rank"):
                ranks.setdefault(stage, set()).add(rank)
            only = {
                stage: None if len(ranks_of_stage) > 1 or NULL in ranks_of_stage else next(iter(ranks_of_stage))
                for stage, ranks_of_stage in ranks.items()
            }
            yield StageTimes(run.run, batches, steps.tolist(), seconds, only)


def modelled_timelines(tables: Tables, options: Options) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the modelled 1F1B step of each run, from the stages' times per micro-batch.

    Each is the run id, and a table with a row per slot: stage, micro_batch, direction, start_s, end_s. Without backward
    times it is a model of the forward only.
    """
    import pandas as pd

    for run in _steady_runs(tables, options):
        batches = count_of(run.quantities, "micro_batches")
        times = _stage_times(run, count_of(run.quantities, "stages"))
        if batches and times:
            slots = [
                (stage, work.micro_batch, work.kind, start, end)
                for stage, stage_slots in enumerate(_schedule(times, batches).slots)
                for work, start, end in stage_slots
            ]
            yield run.run, pd.DataFrame(slots, columns=["stage", "micro_batch", "direction", "start_s", "end_s"])


def _equal_stages(stages: int | None, micro_batches: int | None, chunks: int | None) -> Iterator[dict[str, object]]:
    """The ideal bubble from counts only: all stages are equal, sending takes no time."""
    if stages is None or micro_batches is None:
        return
    yield _model("1F1B, equal stages", (stages - 1) / micro_batches, formula="(p - 1) / (m + p - 1)")
    if chunks is not None and chunks > 1:
        over = (stages - 1) / (chunks * micro_batches)
        yield _model("interleaved 1F1B, equal stages", over, formula="(p - 1) / (v m + p - 1)")


def _timed_stages(run: _LayerTimes, stages: int | None, micro_batches: int | None) -> Iterator[dict[str, object]]:
    """The bubble from the times of the stages, and the bubble that their inequality alone would cost."""
    times = _stage_times(run, stages)
    if not times:
        return
    names, total = " and ".join(times), np.sum(list(times.values()), axis=0)
    if micro_batches:
        makespan = _schedule(times, micro_batches).makespan_s
        over = len(total) * makespan / (micro_batches * float(total.sum())) - 1
        formula = "sum f + (m - 1) max f" if BACKWARD not in times else "end of the modelled timeline"
        yield _model(_AS_TIMED, over, of=names, makespan_s=makespan, formula=formula)
    over = float(total.max() / total.mean()) - 1
    yield _model("imbalance of stages alone", over, of=names, formula="1 - mean / max of the stages")


def _model(name: str, over: float, **more: Any) -> dict[str, object]:
    return {"model": name, "over_ideal": over, "idle": over / (1 + over), "busy": 1 / (1 + over)} | more


def _stage_times(run: _LayerTimes, count: int | None) -> dict[str, Floats]:
    """Seconds of each stage, by direction. Empty unless the log has times of all `count` stages.

    Per micro-batch if their number is known, else per step. Backward times need forward times to count.
    """
    seconds: dict[str, dict[int, float]] = {}
    for stage, _, times in run.times("stage"):
        seconds.setdefault(times["direction"], {})[stage] = times["per_micro_batch_s"] or times["time_s"]
    stages = [*range(count or 0)]
    complete = {
        direction: np.array([time for _, time in sorted(by_stage.items())])
        for direction, by_stage in seconds.items()
        if sorted(by_stage) == stages
    }
    return {d: complete[d] for d in (FORWARD, BACKWARD) if d in complete and FORWARD in complete}


def _schedule(times: dict[str, Floats], micro_batches: int) -> Simulated:
    forward, backward = times[FORWARD].tolist(), times.get(BACKWARD)
    return as_timed(forward, micro_batches, None if backward is None else backward.tolist())


def count_of(quantities: Mapping[str, float], name: str) -> int | None:
    """A declared quantity that counts things, or None if it is not known or no positive integer."""
    value = quantities.get(name)
    return int(value) if value is not None and value >= 1 and value == int(value) else None


class _LayerTimes(Struct, frozen=True, eq=False):
    """Rows of table `layers` of one run in its steady steps, in the order of stages and ranks."""

    run: str
    rows: Rows
    warmup: Warmup
    quantities: Mapping[str, float]
    level: float

    def times(self, key: str) -> Iterator[tuple[Any, Rows, dict[str, Any]]]:
        """Yield each stage or layer with its rows and its values of `_TIMES`, in the order of the stages."""
        # Times of no named layer are part of their stage.
        rows = self.rows if key == "stage" else self.rows.where(self.rows.known(key))
        index, seconds = _per_step(rows, "time_s", key, "direction")
        steps, parts = row_groups(rows.where(index), key, "direction"), row_groups(rows, key, "direction")
        medians, rows_by_part, steps_by_part = steps.medians(seconds), parts.rows, steps.rows
        directions = row_groups(rows.where(parts.first), "direction")
        totals, longest = directions.sums(medians), directions.order_statistics(medians)[2]
        for part in parts.in_order.tolist():
            part_rows, direction = rows.where(rows_by_part[part]), directions.inverse[part]
            yield (
                part_rows[key].tolist()[0],
                part_rows,
                {
                    **self._row(seconds[steps_by_part[part]]),
                    "direction": part_rows["direction"][0],
                    "share": float(medians[part] / totals[direction]),
                    "of_longest": float(medians[part] / longest[direction]),
                    "first_line": int(part_rows["line"].min()),
                },
            )

    def _row(self, values: Floats) -> dict[str, Any]:
        low, high = median_interval(values, self.level)
        time, parts = float(np.median(values)), count_of(self.quantities, "micro_batches")
        return {
            "n": len(values),
            "time_s": time,
            "low_s": low,
            "high_s": high,
            "per_micro_batch_s": time / parts if parts else None,
            "first_step": int(self.rows["step"].min()),
            "last_step": int(self.rows["step"].max()),
            "warmup": self.warmup.cut,
            "warmup_reason": self.warmup.reason,
        }


def _steady_runs(tables: Tables, options: Options) -> Iterator[_LayerTimes]:
    """The layers of each run that has any."""
    semantics = semantics_by_run(tables.rows("runs"))
    for (run,) in tables.rows("runs").records("run"):
        found = _without_warmup(run, tables.rows_of("layers", run), semantics[run].quantities, options)
        if len(found.rows):
            yield found


def _without_warmup(run: str, rows: Rows, quantities: Mapping[str, float], options: Options) -> _LayerTimes:
    """The layers of a run without its warm-up, which is detected in the sum of all layers of a step.

    Steps with another number of rows than most are incomplete and are left out.
    """
    rows = rows.where(rows.known("time_s", "step"))
    rows = rows.where(np.lexsort([rows[name] for name in ("part", "line", "rank", "stage")]))
    steps = row_groups(rows, "step")
    size_of_row = steps.sizes[steps.inverse]
    sizes, often = np.unique(size_of_row, return_counts=True)
    rows = rows.where(size_of_row == sizes[often == often.max(initial=0)].max(initial=0))
    steps = row_groups(rows, "step")
    warmup = warm_up(steps.sums(rows["time_s"]), options.warmup)
    return _LayerTimes(run, rows.where(steps.inverse >= warmup.cut), warmup, quantities, options.level)


def _per_step(rows: Rows, column: str, *keys: str) -> tuple[Ints, Floats]:
    """Return a row of each step of each combination of keys, and its sum of a column, by keys and step.

    Rows of a rank add up, the slowest rank of a stage counts, stages add up.
    """
    on_ranks = row_groups(rows, *keys, "step", "stage", "rank")
    first, sums = on_ranks.first, on_ranks.sums(rows.floats(column))
    on_stages = row_groups(rows.where(first), *keys, "step", "stage")
    first, slowest = first[on_stages.first], on_stages.order_statistics(sums)[2]
    steps = row_groups(rows.where(first), *keys, "step")
    return first[steps.first], steps.sums(slowest)


def _names(values: Array) -> str | None:
    """Return the distinct values as one string, in their order."""
    return " ".join(str(value) for value in dict.fromkeys(values.tolist()) if value not in (None, NULL)) or None
