"""Scaling: what more GPUs bring, over runs that differ in their number and in the batch.

The studies come from `scaling_studies`: runs, or rows of a table that one log prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from perflog.metrics.many_runs.scaling_studies import Study, studies, table_studies
from perflog.metrics.options import Options
from perflog.metrics.power.energy import energy_of_units
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.statistics.growth import Growth

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("table", meaning="number of the table of metric cases with the sizes as rows; null: they are runs",
                 type="Int64"),
    MetricColumn("study", meaning="values of the settings that distinguish the study from others of the same mode"),
    MetricColumn(
        "mode", meaning="strong: constant batch of all GPUs; weak: constant batch of one GPU; null: no batch is known"
    ),
    MetricColumn("figure", meaning="the rate; samples_per_s is batch / step time where no rate is known; a printed "
                 "speed-up where a table has nothing else"),
    MetricColumn("of", meaning="measured, or predicted from all measured sizes"),
    MetricColumn("gpus", meaning="number of GPUs"),
    MetricColumn("batch", meaning="samples or tokens of a step of all GPUs, as printed"),
    MetricColumn("runs", meaning="number of runs of this size", type="Int64"),
    MetricColumn("speed", "1/s", "higher", "the rate of all GPUs; geometric mean over the runs"),
    MetricColumn("speedup", "", "higher", "speed / speed of the smallest size"),
    MetricColumn("efficiency", "1", "higher", "speedup / (gpus / gpus of the smallest size)"),
    MetricColumn("efficiency_low", "1", None, "lower end of its prediction interval"),
    MetricColumn("efficiency_high", "1", None, "upper end of this interval; null: it has none"),
    MetricColumn("marginal", "1", "higher", "the same against the next smaller size: what the last GPUs bring"),
    MetricColumn("gpu_time_s", "s", "lower", "GPU time of a unit: gpus / speed"),
    MetricColumn("energy_j", "J", "lower", "energy of a unit, of metric energy; geometric mean over the runs"),
    MetricColumn("cost_million", "", "lower", "of a million units: price of a GPU hour * gpu_time_s in hours * 1e6"),
    MetricColumn("model", meaning="how gpu_time_s grows: a + b * term, from five sizes on also a term of Extra-P's "
                 "normal form that predicts sizes left out twice as well"),
    MetricColumn(
        "error", "1", None, "gpu_time_s of the largest size as the smaller ones predict it / measured - 1"
    ),
)  # fmt: skip


_PREDICTED = 3  # sizes, at least, from which a larger one is predicted


@metric(
    title="scaling",
    needs=("runs",),
    columns=_COLUMNS,
    main="efficiency",
    formula="efficiency = (speed / speed of the smallest size) / (gpus / gpus of the smallest size)",
    source="strong: Amdahl, doi:10.1145/1465482.1465560; weak: Gustafson, doi:10.1145/42411.42415; other terms: "
    "Extra-P, doi:10.1145/2503210.2503277",
)
def scaling(tables: Tables, options: Options) -> MetricRows:
    """Speed-up and efficiency of runs on different numbers of GPUs, and what twice the largest number would bring.

    The last row of a study is a prediction, if it has three sizes or more: `error` shows how well the smaller sizes
    predict the largest one.
    """
    if not (found := [*studies(tables, options), *table_studies(tables)]):
        return []
    joules = energy_of_units(tables, options)
    unknown = dict.fromkeys(("speed", "gpu_time_s"))  # of speed-ups
    rows = [
        row | unknown if study.is_relative else row
        for study in found
        for row in _rows(study, options.level, {} if study.table else joules)
    ]
    if options.gpu_hour is not None:
        rows = [row | {"cost_million": _cost(row["gpu_time_s"], options.gpu_hour)} for row in rows]
    return rows


def model_text(growth: Growth) -> str:
    """The law of a prediction: `a + b * log2(GPUs)`."""
    return f"a + b * {growth.term.text('GPUs')}"


def _rows(study: Study, level: float, joules: Mapping[str, Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    sizes = study.sizes
    common = {"study": study.name, "mode": study.mode, "figure": study.figure, "table": study.table or None}
    for place, size in enumerate(sizes):
        before = sizes[place - 1] if place else None
        yield common | {
            "run": study.runs[size][0], "of": "measured", "gpus": size, "batch": study.batches[size],
            "runs": len(study.runs[size]), "speed": study.speeds[size], "speedup": study.speedup(size),
            "efficiency": study.efficiency(size), "gpu_time_s": study.cost(size),
            "marginal": None if before is None else study.cost(before) / study.cost(size),
            "error": study.error if size == sizes[-1] else None,
            "energy_j": _mean_of_all([joules.get(run, {}).get(study.figure) for run in study.runs[size]]),
        }  # fmt: skip
    if len(sizes) < _PREDICTED:
        return
    next_size, growth = 2 * sizes[-1], study.growth(sizes)
    if (cost := growth.at(next_size)) > 0:
        speed = next_size / cost
        low, high = growth.interval(next_size, level)
        yield common | {
            "run": study.runs[sizes[-1]][0], "of": "predicted", "gpus": next_size, "speed": speed, "gpu_time_s": cost,
            "speedup": speed / study.speeds[sizes[0]], "efficiency": study.cost(sizes[0]) / cost,
            "marginal": study.cost(sizes[-1]) / cost, "efficiency_low": study.cost(sizes[0]) / high,
            "efficiency_high": study.cost(sizes[0]) / low if low > 0 else None,
            "model": model_text(growth),
        }  # fmt: skip


def _cost(gpu_time_s: float | None, price: float) -> float | None:
    return None if gpu_time_s is None else price * gpu_time_s / 3600 * 1e6


def _mean_of_all(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return geometric_mean(known) if len(known) == len(values) else None
