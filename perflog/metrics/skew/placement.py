"""Placement of experts: the work of the busiest rank as experts lie, if they were moved, and with redundant ones."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from statistics import median_low
from typing import Any

import numpy as np

from perflog.arrays import Floats
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, cached
from perflog.metrics.settings_by_run import settings_by_run
from perflog.metrics.skew.hot_experts import ExpertJob, LayerLoads, expert_jobs

AS_PLACED, MOVED, REDUNDANT = "as placed", "moved", "redundant"

_MOST_STEPS = 16
_EXPERT_RANKS = lazy_pattern(
    r"(?:.*\.)?(?:moe_)?(?:expert_(?:model_|tensor_)?parallel(?:_size|_degree)?|ep(?:_size|_degree)?|ep_world_size)"
)

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="step: the layer in the middle of all layers; layer: one layer at its last step"),
    MetricColumn("step", meaning="step", type="Int64"),
    MetricColumn("layer", meaning="layer"),
    MetricColumn("experts", meaning="number of experts", type="Int64"),
    MetricColumn(
        "ranks", meaning="number of ranks that hold the experts: as set, else ranks with loads of experts", type="Int64"
    ),
    MetricColumn("placement", meaning="as placed: blocks of experts in their order; moved: the same number on each "
                 "rank, spread greedily; redundant: copies of the busiest experts too"),
    MetricColumn("copies", meaning="number of redundant experts", type="Int64"),
    MetricColumn("slowest", "", "lower", "work of the busiest rank / mean of the ranks"),
    MetricColumn("gain", "", "higher", "slowest as placed / slowest: the upper bound of the speed-up of the experts"),
)  # fmt: skip


@metric(
    title="placement of experts",
    needs=("loads",),
    columns=_COLUMNS,
    main="slowest",
    formula="slowest = max / mean over ranks of the work of their experts; a copy takes an equal share of its expert",
    source="greedy: longest first (Graham 1969, doi:10.1137/0117039); copies: EPLB, github.com/deepseek-ai/EPLB",
)
def placement(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """What moving experts, and what redundant ones would bring, step by step and by layer.

    The loads are measured, so `gain` holds for a placement made for exactly this step. One and two more experts for
    each rank are tried. There are no rows if the number of these ranks is unknown.
    """
    return [row for job in expert_jobs(tables) for row in placements(tables, job)]


def placements(tables: Tables, job: ExpertJob) -> list[dict[str, object]]:
    """Return the rows of a job: its steps in order, at most 16, then its layers; none if its ranks are not known."""
    return cached(tables, ("placements", job.first_run, job.unit), lambda: list(_rows(tables, job)))


def _rows(tables: Tables, job: ExpertJob) -> Iterator[dict[str, Any]]:
    names = {name: job.names.get(name) for name in ("run", "label")}
    set_ranks = _expert_ranks(settings_by_run(tables).get(job.first_run, {}))
    layers = [(layer, ranks) for layer in job.layers if (ranks := _ranks_of(layer, set_ranks))]
    steps = np.unique(np.concatenate([layer.steps for layer, _ in layers])) if layers else np.zeros(0, np.int64)
    chosen = steps[np.unique(np.linspace(0, len(steps) - 1, min(len(steps), _MOST_STEPS)).round().astype(np.int64))]
    last: dict[str | None, dict[str, Any]] = {}
    for step in chosen.tolist():
        found: dict[tuple[str, int], list[float]] = {}
        for layer, ranks in layers:
            (places,) = np.nonzero(layer.steps == step)
            if not len(places):
                continue
            slowest = _slowest(_loads(layer, int(places[0])), ranks)
            for kind, value in slowest.items():
                found.setdefault(kind, []).append(value)
            last[layer.name] = {"step": step, "layer": layer.name, "slowest": slowest, "ranks": ranks,
                                "experts": _number(layer)}  # fmt: skip
        middles = {kind: median_low(values) for kind, values in found.items()}
        layer, ranks = layers[0]
        common = names | {"of": "step", "step": step, "experts": _number(layer), "ranks": ranks}
        yield from _placement_rows(common, middles)
    for layer_rows in last.values():
        slowest = layer_rows.pop("slowest")
        yield from _placement_rows(names | {"of": "layer"} | layer_rows, slowest)


def _placement_rows(common: Mapping[str, Any], slowest: Mapping[tuple[str, int], float]) -> Iterator[dict[str, Any]]:
    for (kind, copies), value in slowest.items():
        gain = slowest[AS_PLACED, 0] / value
        yield {**common, "placement": kind, "copies": copies, "slowest": value, "gain": gain}


def _number(layer: LayerLoads) -> int:
    """Return the number of experts: experts that no step prints have no work."""
    return int(layer.experts.max()) + 1


def _loads(layer: LayerLoads, step_index: int) -> Floats:
    loads = np.zeros(_number(layer))
    loads[layer.experts] = layer.ratios[step_index]
    return loads


def _ranks_of(layer: LayerLoads, set_ranks: int | None) -> int | None:
    """The number of ranks that the experts of a layer lie on, if they lie on several, each with as many."""
    ranks = layer.ranks if set_ranks is None else set_ranks
    return ranks if ranks is not None and 1 < ranks <= _number(layer) and not _number(layer) % ranks else None


def _expert_ranks(settings: Mapping[str, str]) -> int | None:
    found = (text for name, text in settings.items() if _EXPERT_RANKS.fullmatch(name.lower()))
    return next((int(text) for text in found if text.isdigit()), None)


def _slowest(loads: Floats, ranks: int) -> dict[tuple[str, int], float]:
    """Return the work of the busiest rank relative to the mean, by placement and number of copies."""
    mean = float(loads.sum()) / ranks
    if not mean > 0:
        return {}
    found = {
        (AS_PLACED, 0): float(loads.reshape(ranks, -1).sum(axis=1).max()),
        (MOVED, 0): busiest(loads.tolist(), ranks),
    }
    for copies in (ranks, 2 * ranks):
        found[REDUNDANT, copies] = busiest(with_copies(loads.tolist(), copies), ranks)
    return {kind: work / mean for kind, work in found.items()}


def with_copies(loads: Sequence[float], copies: int) -> list[float]:
    """Return the work of each copy of each expert: each further copy goes to the expert with the most work per copy."""
    counts = [1] * len(loads)
    queue = [(-load, expert) for expert, load in enumerate(loads)]
    heapq.heapify(queue)
    for _ in range(copies):
        _, expert = queue[0]
        counts[expert] += 1
        heapq.heapreplace(queue, (-loads[expert] / counts[expert], expert))
    return [load / count for load, count in zip(loads, counts, strict=True) for _ in range(count)]


def busiest(loads: Sequence[float], ranks: int) -> float:
    """Return the work of the busiest rank, if each takes the same number of experts, the busiest experts first."""
    room = [len(loads) // ranks] * ranks
    queue = [(0.0, rank) for rank in range(ranks)]
    most = 0.0
    for load in sorted(loads, reverse=True):
        work, rank = heapq.heappop(queue)
        room[rank] -= 1
        most = max(most, work + load)
        if room[rank]:
            heapq.heappush(queue, (work + load, rank))
    return most
