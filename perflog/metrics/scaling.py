"""Scaling: what more GPUs bring, over runs that differ in their number and in the batch.

A study is a set of runs that agree in all settings but the number of GPUs, the batch, and what follows from them.
Strong scaling keeps the batch of all GPUs, weak scaling that of one GPU. Rates whose scope nobody knows (one GPU or
all) have no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from perflog.metrics.energy import energy_of_units
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, cached, metric
from perflog.metrics.run_rates import Rate, SizedRun, run_rates, sized_runs
from perflog.settings.run_settings import independent
from perflog.statistics.growth import LINEAR, LOGARITHMIC, Growth

if TYPE_CHECKING:
    import pandas as pd

WEAK, STRONG = "weak", "strong"

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("study", meaning="values of the settings that tell the study from the others of the same mode"),
    MetricColumn(
        "mode", meaning="strong: the batch of all GPUs stays; weak: that of one GPU stays; null: no batch is known"
    ),
    MetricColumn("figure", meaning="the rate; samples_per_s is batch / step time where no rate is known"),
    MetricColumn("of", meaning="measured, or predicted from all measured sizes"),
    MetricColumn("gpus", meaning="number of GPUs"),
    MetricColumn("batch", meaning="samples or tokens of a step of all GPUs, as printed"),
    MetricColumn("runs", meaning="number of runs of this size"),
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

_SWITCH = frozenset(("true", "false", "yes", "no", "on", "off", "0", "1"))
_WHOLE = 1.3  # times that a rate grows with the size, at least, to be that of all GPUs


class Study(Struct, frozen=True):
    """Runs of several sizes. `speeds`: by number of GPUs the runs and their rates. `batches`: that of each size.

    `settings`: those that tell the study from others.
    """

    mode: str | None
    settings: Mapping[str, str]
    figure: str
    runs: Mapping[int, Sequence[str]]
    speeds: Mapping[int, float]
    batches: Mapping[int, float | None]

    @property
    def name(self) -> str:
        """The values of the settings that tell the study from the others of its mode."""
        return ", ".join(text for text in self.settings.values() if text.lower() != self.mode)

    @property
    def sizes(self) -> list[int]:
        """Numbers of GPUs, ascending."""
        return sorted(self.speeds)

    def speedup(self, size: int) -> float:
        """Return how many times as fast as the smallest size a size is."""
        return self.speeds[size] / self.speeds[self.sizes[0]]

    def efficiency(self, size: int) -> float:
        """Return the share of the ideal speed-up that a size reaches."""
        return self.speedup(size) * self.sizes[0] / size

    def cost(self, size: int) -> float:
        """Return the GPU time of a unit of work."""
        return size / self.speeds[size]

    def growth(self, sizes: Sequence[int]) -> Growth:
        """Return how the GPU time of a unit grows over some sizes, two at least.

        The usual term of strong scaling is the number of GPUs, since what each step costs whatever its size is paid by
        each GPU (Amdahl); that of weak scaling log2(GPUs), as for collectives in trees.
        """
        usual = LINEAR if self.mode == STRONG else LOGARITHMIC
        return Growth.best(usual, sizes, [self.cost(size) for size in sizes])

    def predicted(self, size: int, sizes: Sequence[int]) -> float | None:
        """Return the GPU time of a unit at a size, by other sizes. None for one size, or where it falls to zero."""
        if len(sizes) < 2:
            return None
        cost = self.growth(sizes).at(size)
        return cost if cost > 0 else None

    @property
    def error(self) -> float | None:
        """How far the smaller sizes, two at least, miss the GPU time of the largest one, relative to it."""
        *smaller, largest = self.sizes
        cost = self.predicted(largest, smaller)
        return None if cost is None else cost / self.cost(largest) - 1


@metric(
    title="scaling",
    needs=("runs",),
    columns=_COLUMNS,
    main="efficiency",
    formula="efficiency = (speed / speed of the smallest size) / (gpus / gpus of the smallest size)",
    source="strong: Amdahl, doi:10.1145/1465482.1465560; weak: Gustafson, doi:10.1145/42411.42415; other terms: "
    "Extra-P, doi:10.1145/2503210.2503277",
)
def scaling(tables: Tables, options: Options) -> pd.DataFrame:
    """Speed-up and efficiency of runs on different numbers of GPUs, and what twice the largest number would bring.

    The last row of a study is a prediction, if it has three sizes or more: `error` says how well the smaller sizes
    predict the largest one.

    Example:
        >>> table = perflog.metrics.scaling(perflog.find_runs("reference:moe_layer.txt"))
        >>> len(table)
        0
    """
    import pandas as pd

    if not (found := studies(tables, options)):
        return pd.DataFrame(columns=[c.name for c in _COLUMNS])
    labels = dict(tables.rows("runs").records("run", "label"))
    joules = energy_of_units(tables, options)
    rows = [row for study in found for row in _rows(study, options.level, joules)]
    rows = [row | {"label": labels[row["run"]]} for row in rows]
    if options.gpu_hour is not None:
        rows = [row | {"cost_million": options.gpu_hour * row["gpu_time_s"] / 3600 * 1e6} for row in rows]
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS])


def model_text(growth: Growth) -> str:
    """The law of a prediction: `a + b * log2(GPUs)`."""
    return f"a + b * {growth.term.text('GPUs')}"


def studies(tables: Tables, options: Options) -> list[Study]:
    """Return the scaling studies among the runs of a log or a folder."""
    return cached(tables, ("scaling", options.warmup), lambda: list(_find_studies(tables, options)))


def _rows(study: Study, level: float, joules: Mapping[str, Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    sizes = study.sizes
    common = {"study": study.name, "mode": study.mode, "figure": study.figure}
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
    next_size = 2 * sizes[-1]
    cost = study.predicted(next_size, sizes) if len(sizes) > 2 else None
    if cost is not None:
        growth, speed = study.growth(sizes), next_size / cost
        low, high = growth.interval(next_size, level)
        yield common | {
            "run": study.runs[sizes[-1]][0], "of": "predicted", "gpus": next_size, "speed": speed, "gpu_time_s": cost,
            "speedup": speed / study.speeds[sizes[0]], "efficiency": study.cost(sizes[0]) / cost,
            "marginal": study.cost(sizes[-1]) / cost, "efficiency_low": study.cost(sizes[0]) / high,
            "efficiency_high": study.cost(sizes[0]) / low if low > 0 else None,
            "model": model_text(growth),
        }  # fmt: skip


def _mean_of_all(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return geometric_mean(known) if len(known) == len(values) else None


# --- studies ------------------------------------------------------------------------------------------------------


def _find_studies(tables: Tables, options: Options) -> Iterator[Study]:
    if len(tables.rows("runs")) < 2:
        return
    described = sized_runs(tables)
    if len({run.gpus for run in described.values()}) < 2:
        return
    rates = run_rates(tables, options)
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, run in described.items():
        alike.setdefault(run.key, []).append(name)
    telling = _telling([dict(key) for key in alike])
    for key, runs in alike.items():
        settings = {setting: text for setting, text in key if setting in telling}
        for mode, members in _chains({run: described[run] for run in runs}):
            study = _study(mode, settings, members, described, rates)
            if study is not None:
                yield study


def _telling(keys: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the settings that tell studies apart: rather a model or a device than a switch or a version."""
    values: dict[str, set[str | None]] = {name: {key.get(name) for key in keys} for key in keys for name in key}

    def is_poor(name: str) -> tuple[bool, bool]:
        return all(value is None or value.lower() in _SWITCH for value in values[name]), "version" in name

    return independent(keys, sorted((name for name in values if len(values[name]) > 1), key=is_poor))


def _chains(runs: Mapping[str, SizedRun]) -> Iterator[tuple[str | None, list[str]]]:
    """Yield the runs of several sizes with the same batch of all GPUs, then those with the same batch of one."""
    if any(run.batch is None for run in runs.values()):
        yield None, list(runs)
        return
    for mode, of in ((STRONG, "batch"), (WEAK, "batch_of_one")):
        by_batch: dict[float | None, list[str]] = {}
        for name, run in runs.items():
            by_batch.setdefault(getattr(run, of), []).append(name)
        for members in by_batch.values():
            if len({runs[name].gpus for name in members}) > 1:
                yield mode, members


def _study(
    mode: str | None,
    settings: Mapping[str, str],
    members: Sequence[str],
    described: Mapping[str, SizedRun],
    rates: Sequence[Rate],
) -> Study | None:
    """Return a study by the first rate that all its runs have; None without one."""
    sizes: dict[int, list[str]] = {}
    for run in members:
        sizes.setdefault(described[run].gpus, []).append(run)
    if len(sizes) < 2:
        return None
    batches = {size: described[runs[0]].batch for size, runs in sizes.items()}
    for rate in rates:
        of_all = rate.of_all
        if not all(run in rate.values for run in members):
            continue
        means = {size: geometric_mean([rate.values[run] for run in runs]) for size, runs in sizes.items()}
        speeds = dict(means)
        if of_all is None:
            low, high = min(sizes), max(sizes)
            of_all = True if means[high] > _WHOLE * means[low] else None
        if of_all is False:
            speeds = {size: size * value for size, value in means.items()}
        if of_all is not None:
            return Study(mode, settings, rate.name, sizes, speeds, batches)
    return None
