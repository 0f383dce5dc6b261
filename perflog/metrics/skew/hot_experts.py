"""Hot experts: which experts of a layer get most of the work, since when, and how uneven they become over the steps."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints
from perflog.metrics.compared import Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_once
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL, Rows
from perflog.tables.row_order import natural_sort_key

_HOT = 2.0  # times the mean of the experts

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="step: all layers in one step; layer: one layer over the steps, and at its last step"),
    MetricColumn("step", meaning="step; of a layer its last one", type="Int64"),
    MetricColumn("layer", meaning="layer; null: the log prints none"),
    MetricColumn("experts", meaning="number of experts; of a step the largest of its layers"),
    MetricColumn("n", meaning="of a layer: number of its steps; of a step: number of its layers"),
    MetricColumn("first_imbalance", "1", "lower", "of a layer: max / mean - 1 at its first step"),
    MetricColumn(
        "imbalance", "1", "lower", "max / mean - 1 over the experts (MaxVio); of a step: median of its layers"
    ),
    MetricColumn("max_imbalance", "1", "lower", "largest over the steps of a layer, or over the layers of a step"),
    MetricColumn("max_at", meaning="step, or layer, with the largest imbalance; the first of several"),
    MetricColumn("hot", "", "lower", "number of experts with at least twice the mean; of a step: of all its layers"),
    MetricColumn("hottest", meaning="of a layer: the expert that alone has most work", type="Int64"),
    MetricColumn(
        "since", meaning="of a layer: first step from which on this expert has at least twice the mean", type="Int64"
    ),
    MetricColumn("kept", "1", None, "of a step: share of its layers with the same hottest expert as the step before"),
    MetricColumn("hot_experts", meaning="of a layer: all hot experts, the hottest first"),
    MetricColumn("idle", "", "lower", "number of experts without work; of a step: of all its layers"),
    MetricColumn(
        "ranks", meaning="number of ranks with loads that are added up; null if unknown", brief=False, type="Int64"
    ),
    MetricColumn("unit", meaning="what is counted", brief=False),
    MetricColumn("first_step", meaning="of a layer: its first step", brief=False, type="Int64"),
    MetricColumn(
        "runs", meaning="number of runs that add up: the files of a job, one for each step and rank", brief=False
    ),
)


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Yield the imbalance of each job in each of its steps, as a value of its first run."""
    for job in expert_jobs(tables):
        if job.first_run in steady.cuts:
            name = f"{job.unit or 'load'}s of experts, max/mean"
            yield Measure("load", name, ""), job.first_run, np.array(list(job.imbalances().values()))


@metric(
    title="hot experts",
    needs=("loads",),
    columns=_COLUMNS,
    main="imbalance",
    formula="load of an expert = sum over ranks and micro-batches of a step; imbalance = max / mean - 1 over the "
    "experts of a layer; hot: at least twice the mean",
    source="MaxVio: Wang et al. 2024 (2408.15664), eq. 4; load / mean: utilisation ratio",
    compares=(_samples,),
)
def hot_experts(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Imbalance of experts step by step over all layers, then each layer with its hot experts.

    Files of one folder that are each named after another step and rank are one job: their loads add up. Only steps
    count in which no rank of the job is missing. An expert that a step does not print has no work. The warm-up counts,
    because the question is when experts become hot.
    """
    table: list[dict[str, Any]] = []
    for job in expert_jobs(tables):
        rows = (*_step_rows(job.layers), *map(_layer_row, job.layers))
        table += [{**job.names, "unit": job.unit, **row} for row in rows]
    return table


class LayerLoads(Struct, frozen=True):
    """Work of the experts of a layer: `ratios[i, k]`, of `experts[k]` in `steps[i]`, relative to the mean."""

    name: str | None
    steps: Ints
    experts: Ints
    ratios: Floats
    ranks: int | None

    @property
    def hottest(self) -> list[int | None]:
        """The expert that alone has most work, in each step; None if several have it."""
        most = self.ratios.max(axis=1, keepdims=True)
        is_alone = (self.ratios == most).sum(axis=1) == 1
        experts = self.experts[self.ratios.argmax(axis=1)].tolist()
        return [expert if alone else None for expert, alone in zip(experts, is_alone.tolist(), strict=True)]


class ExpertJob(Struct, frozen=True):
    """The layers of a job with experts that share work of one unit, in their natural order.

    `names`: the columns that identify the job. `first_run`: id of its run, or of the first of its runs.
    """

    names: dict[str, Any]
    first_run: str
    unit: str | None
    layers: Sequence[LayerLoads]

    def imbalances(self) -> dict[int, float]:
        """Largest load of an expert / mean in each step, the median of the layers."""
        ratios_by_step: dict[int, list[float]] = {}
        for layer in self.layers:
            for step, ratio in zip(layer.steps.tolist(), layer.ratios.max(axis=1).tolist(), strict=True):
                ratios_by_step.setdefault(step, []).append(ratio)
        return {step: float(np.median(ratios_by_step[step])) for step in sorted(ratios_by_step)}


@computed_once
def expert_jobs(tables: Tables) -> list[ExpertJob]:
    """Return the jobs with expert loads, once for every unit of work."""
    rows = tables.rows("loads")
    rows = rows.where(rows.known("step", "amount", "expert"))
    if not len(rows):
        return []
    jobs, job_of_row = _jobs(tables, rows)
    layers_of_jobs: dict[tuple[int, str | None], list[LayerLoads]] = {}
    for job, unit, layer in _layers(rows, job_of_row):
        layers_of_jobs.setdefault((job, unit), []).append(layer)
    for layers in layers_of_jobs.values():
        layers.sort(key=lambda layer: natural_sort_key(layer.name or ""))
    return [
        ExpertJob(jobs[job], rows["run"][np.argmax(job_of_row == job)], unit, layers)
        for (job, unit), layers in layers_of_jobs.items()
    ]


def _jobs(tables: Tables, rows: Rows) -> tuple[list[dict[str, Any]], Ints]:
    """Return the jobs with the columns that identify them, and the index of each row's job among them."""
    runs = tables.rows("runs")
    step_and_rank = _named_files(rows)
    folders: dict[tuple[str, str], list[str]] = {}
    for run, log, form in runs.records("run", "log", "format"):
        if run in step_and_rank:
            folders.setdefault((os.path.dirname(log), form), []).append(run)
    folder_of = {
        run: folder
        for folder, files in folders.items()
        if len({step_and_rank[run] for run in files}) == len(files) > 1
        for run in files
    }
    codes, words = rows.codes("run")
    there = {words[code] for code in np.unique(codes).tolist()}
    jobs: dict[object, dict[str, Any]] = {}
    places: dict[object, int] = {}
    place_of_run: dict[str, int] = {}
    for run, label in tables.labels().items():
        if run in there:
            folder = folder_of.get(run)
            whole = {"label": os.path.basename(folder[0])} if folder else {"run": run, "label": label}
            job = jobs.setdefault(folder or run, {**whole, "runs": 0})
            job["runs"] += 1
            place_of_run[run] = places.setdefault(folder or run, len(places))
    return list(jobs.values()), np.array([place_of_run.get(word, -1) for word in words], np.int64)[codes]


def _named_files(rows: Rows) -> dict[str, tuple[int, int]]:
    """Step and rank of each run that has one of each, both named by its file."""
    first_rows = rows.where(groups_of(rows.codes("run")[0], rows["step"], rows["rank"]).first)
    printed = Counter(first_rows["run"].tolist())
    named = first_rows.where(first_rows.one_of("rank_by", ["file"]))
    return {run: (step, rank) for run, step, rank in named.records("run", "step", "rank") if printed[run] == 1}


def _layers(rows: Rows, jobs: Ints) -> Iterator[tuple[int, str | None, LayerLoads]]:
    """Yield the layers of all jobs, each with job and unit of work; without the steps in which a rank is missing."""
    (units, unit_words), (layers, layer_words) = rows.codes("unit"), rows.codes("layer")
    steps, ranks = rows["step"], rows["rank"]
    layer_keys = (jobs, units, layers)
    in_steps = groups_of(*layer_keys, steps)
    ranks_of_step = np.bincount(in_steps.inverse[groups_of(in_steps.inverse, ranks).first])
    work = groups_of(in_steps.inverse, rows["expert"])
    amounts = np.bincount(work.inverse, weights=rows["amount"])  # of whole numbers, as tokens are, exact
    step_of_work, experts_of_work = in_steps.inverse[work.first], rows["expert"][work.first]
    layer_of_step = groups_of(*layer_keys).inverse[in_steps.first]
    ends = np.searchsorted(layer_of_step, np.arange(layer_of_step.max() + 2)).tolist()
    for start, end in pairwise(ends):
        complete = ranks_of_step[start:end] == ranks_of_step[start:end].max()
        first, last = np.searchsorted(step_of_work, [start, end]).tolist()
        experts, place = np.unique(experts_of_work[first:last], return_inverse=True)
        grid = np.zeros((end - start, len(experts)))
        grid[step_of_work[first:last] - start, place] = amounts[first:last]
        chosen = np.flatnonzero(complete & (grid.sum(axis=1) > 0))
        if len(experts) < 2 or not len(chosen):
            continue
        row = int(in_steps.first[start])
        unit, layer = units[row], layers[row]
        grid = grid[chosen]
        yield (
            int(jobs[row]),
            unit_words[unit] if unit >= 0 else None,
            LayerLoads(
                layer_words[layer] if layer >= 0 else None,
                steps[in_steps.first[start:end]][chosen],
                experts,
                grid / grid.mean(axis=1, keepdims=True),
                None if ranks[row] == NULL else int(ranks_of_step[start:end].max()),
            ),
        )


def _step_rows(layers: Sequence[LayerLoads]) -> Iterator[dict[str, object]]:
    """Rows of each step over its layers."""
    before: list[int | None] = [None] * len(layers)
    hottest = [dict(zip(layer.steps.tolist(), layer.hottest, strict=True)) for layer in layers]
    rows_of_steps = [{step: row for row, step in enumerate(layer.steps.tolist())} for layer in layers]
    for step in sorted(set().union(*rows_of_steps)):
        there = [(layer, rows[step]) for layer, rows in zip(layers, rows_of_steps, strict=True) if step in rows]
        ratios = [layer.ratios[row] for layer, row in there]
        imbalance = np.array([row.max() - 1 for row in ratios])
        now = [by_step.get(step) for by_step in hottest]
        pairs = [(a, b) for a, b in zip(before, now, strict=True) if a is not None and b is not None]
        yield {
            "of": "step", "step": step, "n": len(there), "experts": max(map(len, ratios)), "ranks": layers[0].ranks,
            "imbalance": float(np.median(imbalance)), "max_imbalance": float(imbalance.max()),
            "max_at": there[int(imbalance.argmax())][0].name,
            "hot": int(sum((row >= _HOT).sum() for row in ratios)),
            "idle": int(sum((row == 0).sum() for row in ratios)),
            "kept": sum(a == b for a, b in pairs) / len(pairs) if pairs else None,
        }  # fmt: skip
        before = now


def _layer_row(layer: LayerLoads) -> dict[str, object]:
    """Row of one layer: its first and last step, and the experts that are hot at the last one."""
    imbalance = layer.ratios.max(axis=1) - 1
    last = layer.ratios[-1]
    hot = np.flatnonzero(last >= _HOT)
    hot = hot[np.argsort(-last[hot], kind="stable")]
    hottest = layer.hottest[-1]
    row = {
        "of": "layer", "step": int(layer.steps[-1]), "layer": layer.name, "experts": len(layer.experts),
        "n": len(layer.steps), "first_step": int(layer.steps[0]), "first_imbalance": float(imbalance[0]),
        "imbalance": float(imbalance[-1]), "max_imbalance": float(imbalance.max()),
        "max_at": str(layer.steps[imbalance.argmax()]), "hot": len(hot), "hottest": hottest, "ranks": layer.ranks,
        "hot_experts": ", ".join(map(str, layer.experts[hot].tolist())) or None, "idle": int((last == 0).sum()),
    }  # fmt: skip
    if hottest is not None and len(hot):
        is_hot = layer.ratios[:, hot[0]] >= _HOT
        row["since"] = int(layer.steps[len(is_hot) - int(np.argmin(np.append(is_hot[::-1], False)))])
    return row
