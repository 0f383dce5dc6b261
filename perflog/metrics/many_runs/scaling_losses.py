"""Scaling losses: where runs on more GPUs lose efficiency.

The GPU time of a unit of work is divided as `waterfall` divides the step. The loss of a part is its excess over the
smallest size, so the losses add up to 1 - efficiency.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from perflog.metrics.many_runs.scaling_studies import Study, studies
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_time.waterfall import BARS, shares_by_run

_ROUNDED = 1e-12  # of the GPU time of a unit: less comes from rounding

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("study", meaning="as in metric scaling"),
    MetricColumn("mode", meaning="as in metric scaling"),
    MetricColumn("gpus", meaning="number of GPUs"),
    MetricColumn("efficiency", "1", "higher", "as in metric scaling"),
    MetricColumn("bar", meaning="what the time was spent on, as in metric waterfall"),
    MetricColumn("part", meaning="the phase or the kind of events that the time is from"),
    MetricColumn("gpu_time_s", "s", "lower", "GPU time of a unit of work in the part; mean over the runs of the size"),
    MetricColumn("lost", "1", "lower", "(gpu_time_s - smallest size's gpu_time_s) / GPU time of a unit; the rows of a "
                 "size add up to 1 - efficiency"),
)  # fmt: skip


class Loss(Struct, frozen=True):
    """The loss of one size of a study in one part of its time.

    Attributes:
        size: Number of GPUs.
        bar, part: As in the metric.
        gpu_time_s: GPU time of a unit of work in the part, in seconds.
        lost: The share of the GPU time of a unit that the part takes more than on the smallest size.
    """

    size: int
    bar: str
    part: str
    gpu_time_s: float
    lost: float


@metric(
    title="scaling losses",
    needs=("runs",),
    columns=_COLUMNS,
    main="lost",
    formula="GPU time of a unit in a part = gpus / speed * share of the part in the steady step (waterfall); lost = "
    "(this - the same on the smallest size) / (gpus / speed)",
    source="metrics scaling and waterfall; the efficiencies of POP, pop-coe.eu, are the same as factors",
)
def scaling_losses(tables: Tables, options: Options) -> MetricRows:
    """What each size of a scaling study loses against the smallest one, by the bars and parts of the waterfall.

    A study has rows if all its runs have a waterfall of the same whole. A part that a size lacks took no time there.
    """
    return [row for study in studies(tables, options) for row in _rows(tables, study, options)]


def _rows(tables: Tables, study: Study, options: Options) -> Iterator[dict[str, object]]:
    for each in losses(tables, study, options):
        yield {
            "run": study.runs[each.size][0], "study": study.name, "mode": study.mode, "gpus": each.size,
            "efficiency": study.efficiency(each.size), "bar": each.bar, "part": each.part,
            "gpu_time_s": each.gpu_time_s, "lost": each.lost,
        }  # fmt: skip


def losses(tables: Tables, study: Study, options: Options) -> list[Loss]:
    """Return what each size of a study loses, in the order of the bars; empty if its logs do not show it."""
    shares = shares_by_run(tables, options)
    runs = [run for runs_of_size in study.runs.values() for run in runs_of_size]
    if len({shares[run].of if run in shares else None for run in runs}) > 1 or not shares.keys() >= set(runs):
        return []
    places = {bar: place for place, bar in enumerate(BARS)}
    parts = sorted({part for run in runs for part in shares[run].times}, key=lambda part: (places[part[0]], part[1]))
    found: list[Loss] = []
    for size in study.sizes:
        size_times = [shares[run].times for run in study.runs[size]]
        for bar, part in parts:
            time = study.cost(size) * math.fsum(each.get((bar, part), 0.0) for each in size_times) / len(size_times)
            least = time if size == study.sizes[0] else found[len(found) % len(parts)].gpu_time_s
            lost = (time - least) / study.cost(size)
            found.append(Loss(size, bar, part, time, lost if abs(lost) > _ROUNDED else 0.0))
    return found
