"""Scaling: what more GPUs bring, over runs that differ in their number and in the batch.

A study is a set of runs that agree in all settings but the number of GPUs, the batch, and what follows from them.
Strong scaling keeps the batch of all GPUs, weak scaling that of one GPU. Rates whose scope nobody knows (one GPU or
all) have no row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.directions import PER, names_rate, words_of
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, cached, metric
from perflog.metrics.settings_by_run import settings_by_run
from perflog.metrics.step_series import steady_medians
from perflog.metrics.throughput import throughput
from perflog.settings.run_settings import incidental_test, independent
from perflog.statistics.groups import groups_of
from perflog.statistics.students_t import t_quantile

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
    MetricColumn(
        "error", "1", None, "gpu_time_s of the largest size as the smaller ones predict it / measured - 1"
    ),
)  # fmt: skip

_SIZE = lazy_pattern(
    r"(?:total_?|n(?:um)?_?)?(?:gpus|devices|accelerators|chips|ranks|proc(?:s|esses))|ngpu|world_?size|"
    r"(?:gpu|device|num_gpu)_?count"
)
_NODES = lazy_pattern(r"(?:total_?|n(?:um)?_?)?nodes|nnodes|node_?count|num_?hosts")
_PER_NODE = lazy_pattern(
    r"(?:n(?:um)?_?)?(?:gpus?|devices|proc(?:s|esses)?|ranks)_?per_?(?:node|host)|nproc_per_node|local_world_size"
)
_BATCH_OF_ALL = lazy_pattern(
    r"(?:global|total|effective)_(?:train_)?batch(?:_?size)?|(?:train_)?(?:global|total)_batch_size|train_batch_size"
)
_BATCH_OF_ONE = lazy_pattern(
    r"(?:train_)?batch(?:_?size)?_per_(?:gpu|device|rank|worker|chip)|per_(?:gpu|device|rank|chip)_(?:train_)?batch(?:_?size)?"
)
_FOLLOWS = lazy_pattern(
    r".*batch.*|.*(?:data_parallel|dp_size|dp_degree|dp_shard|dp_replicate|replicas|accum|nodes?|hosts?).*|dp|n(?:um)?_?gpu|"
    r".*(?:iters?|iterations|steps?|epochs?|interval|freq\w*|warmup|lr|learning_rate|(?:train|eval|num|n)_samples)(?:_.*)?"
)
"""Settings that follow from the number of GPUs or the batch, or say how long a run takes and what it prints."""
_SHAPE = lazy_pattern(
    r".*(?:size|len|length|dim|hidden|layers|heads|experts|top_?k|vocab|resolution|degree|stages)|[tpec]p|seq"
)
"""Names of numbers by which programs configure a model, where they print settings and results side by side."""
_SWITCH = frozenset(("true", "false", "yes", "no", "on", "off", "0", "1"))
_GENERAL = frozenset(("format", "program", "world_size", "device", "dtype"))
_SHORT = 64  # characters of a text that describes a run; longer ones describe its machine
_SAMPLES = "samples_per_s"
_OF_ALL = frozenset(("global", "total", "overall", "aggregate", "all", "system", "cluster"))
_OF_ONE = frozenset(("gpu", "gpus", "device", "rank", "chip", "worker", "card"))
_WHOLE = 1.3  # times that a rate grows with the size, at least, to be that of all GPUs


class _Run(Struct, frozen=True):
    """What a run says of itself. `key`: the settings in which runs of a study agree."""

    key: tuple[tuple[str, str], ...]
    gpus: int
    batch: float | None
    batch_of_one: float | None


class Study(Struct, frozen=True):
    """Runs of several sizes. `speeds`: by number of GPUs the runs and their rates. `batches`: that of each size."""

    mode: str | None
    name: str
    figure: str
    runs: Mapping[int, Sequence[str]]
    speeds: Mapping[int, float]
    batches: Mapping[int, float | None]

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

    def predicted(self, size: int, sizes: Sequence[int]) -> float | None:
        """Return the GPU time of a unit at a size, by the least-squares line through that of other sizes.

        Strong scaling: a + b * gpus, since what each step costs whatever its size is paid by each GPU (Amdahl). Weak
        scaling: a + b * log2(gpus), as for collectives in trees. None for a single size, or where the line falls to
        zero.
        """
        if len(sizes) < 2:
            return None
        cost = self._line(sizes).at(_size_term(self.mode, size))
        return cost if cost > 0 else None

    def uncertainty(self, size: int, level: float) -> float:
        """Return half of the prediction interval of the GPU time of a unit, from three or more measured sizes."""
        return self._line(self.sizes).half_interval(_size_term(self.mode, size), level)

    def _line(self, sizes: Sequence[int]) -> _Line:
        return _Line.through([_size_term(self.mode, n) for n in sizes], [self.cost(n) for n in sizes])

    @property
    def error(self) -> float | None:
        """How far the smaller sizes, two at least, miss the GPU time of the largest one, relative to it."""
        *smaller, largest = self.sizes
        cost = self.predicted(largest, smaller)
        return None if cost is None else cost / self.cost(largest) - 1


def _size_term(mode: str | None, size: int) -> float:
    """Return the term that the GPU time of a unit grows with."""
    return float(size) if mode == STRONG else math.log2(size)


class _Line(Struct, frozen=True):
    """A least-squares line. `squares`: sum of squared residuals; `width`: sum of squared distances from `mean_x`."""

    mean_x: float
    mean_y: float
    slope: float
    squares: float
    width: float
    n: int

    @classmethod
    def through(cls, x: Sequence[float], y: Sequence[float]) -> _Line:
        mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
        width = math.fsum((a - mean_x) ** 2 for a in x)
        slope = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / width
        squares = math.fsum((b - mean_y - slope * (a - mean_x)) ** 2 for a, b in zip(x, y, strict=True))
        return cls(mean_x, mean_y, slope, squares, width, len(x))

    def at(self, x: float) -> float:
        return self.mean_y + self.slope * (x - self.mean_x)

    def half_interval(self, x: float, level: float) -> float:
        """Half of the prediction interval of a new value; three points at least."""
        freedom = self.n - 2
        spread = math.sqrt(self.squares / freedom * (1 + 1 / self.n + (x - self.mean_x) ** 2 / self.width))
        return t_quantile((1 + level) / 2, freedom) * spread


@metric(
    title="scaling",
    needs=("runs",),
    columns=_COLUMNS,
    main="efficiency",
    formula="efficiency = (speed / speed of the smallest size) / (gpus / gpus of the smallest size)",
    source="strong: Amdahl, doi:10.1145/1465482.1465560; weak: Gustafson, doi:10.1145/42411.42415",
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

    labels = dict(tables.rows("runs").records("run", "label"))
    rows = [row for study in studies(tables, options) for row in _rows(study, options.level)]
    rows = [row | {"label": labels[row["run"]]} for row in rows]
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS])


def studies(tables: Tables, options: Options) -> list[Study]:
    """Return the scaling studies among the runs of a log or a folder."""
    return cached(tables, ("scaling", options.warmup), lambda: list(_find_studies(tables, options)))


def _rows(study: Study, level: float) -> Iterator[dict[str, Any]]:
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
        }  # fmt: skip
    next_size = 2 * sizes[-1]
    cost = study.predicted(next_size, sizes) if len(sizes) > 2 else None
    if cost is not None:
        speed, half = next_size / cost, study.uncertainty(next_size, level)
        yield common | {
            "run": study.runs[sizes[-1]][0], "of": "predicted", "gpus": next_size, "speed": speed, "gpu_time_s": cost,
            "speedup": speed / study.speeds[sizes[0]], "efficiency": study.cost(sizes[0]) / cost,
            "marginal": study.cost(sizes[-1]) / cost, "efficiency_low": study.cost(sizes[0]) / (cost + half),
            "efficiency_high": study.cost(sizes[0]) / (cost - half) if cost > half else None,
        }  # fmt: skip


# --- studies ------------------------------------------------------------------------------------------------------


def _find_studies(tables: Tables, options: Options) -> Iterator[Study]:
    if len(tables.rows("runs")) < 2:
        return
    printed = _printed_once(tables)
    described = _described(tables, printed)
    if len({run.gpus for run in described.values()}) < 2:
        return
    rates = list(_rates(tables, printed, described, options))
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, run in described.items():
        alike.setdefault(run.key, []).append(name)
    telling = _telling([dict(key) for key in alike])
    for key, runs in alike.items():
        texts = [text for setting, text in key if setting in telling]
        for mode, members in _chains({run: described[run] for run in runs}):
            name = ", ".join(text for text in texts if text.lower() != mode)
            study = _study(mode, name, members, described, rates)
            if study is not None:
                yield study


def _telling(keys: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the settings that tell studies apart: rather a model or a device than a switch or a version."""
    values: dict[str, set[str | None]] = {name: {key.get(name) for key in keys} for key in keys for name in key}

    def is_poor(name: str) -> tuple[bool, bool]:
        return all(value is None or value.lower() in _SWITCH for value in values[name]), "version" in name

    return independent(keys, sorted((name for name in values if len(values[name]) > 1), key=is_poor))


def _chains(runs: Mapping[str, _Run]) -> Iterator[tuple[str | None, list[str]]]:
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
    name: str,
    members: Sequence[str],
    described: Mapping[str, _Run],
    rates: Sequence[tuple[str, bool | None, Mapping[str, float]]],
) -> Study | None:
    """Return a study by the first rate that all its runs have; None without one."""
    sizes: dict[int, list[str]] = {}
    for run in members:
        sizes.setdefault(described[run].gpus, []).append(run)
    if len(sizes) < 2:
        return None
    batches = {size: described[runs[0]].batch for size, runs in sizes.items()}
    for figure, of_all, values in rates:
        if not all(run in values for run in members):
            continue
        means = {size: geometric_mean([values[run] for run in runs]) for size, runs in sizes.items()}
        speeds = dict(means)
        if of_all is None:
            low, high = min(sizes), max(sizes)
            of_all = True if means[high] > _WHOLE * means[low] else None
        if of_all is False:
            speeds = {size: size * value for size, value in means.items()}
        if of_all is not None:
            return Study(mode, name, figure, sizes, speeds, batches)
    return None


# --- what runs say of themselves ----------------------------------------------------------------------------------


_Printed = Mapping[str, tuple[Mapping[str, str], Mapping[str, float]]]
"""The texts and the numbers of each run, by name."""


def _described(tables: Tables, printed: _Printed) -> dict[str, _Run]:
    """Return the size, the batch and the settings of each run that prints how many GPUs it has."""
    settings = settings_by_run(tables)
    is_incidental = incidental_test(settings.values())
    described = {}
    for run, (texts, numbers) in printed.items():
        of_run = {name: text for name, text in settings[run].items() if name != "process"}
        known = {_leaf(name): number for name, text in of_run.items() if (number := _number(text)) is not None}
        known |= {_leaf(name): value for name, value in numbers.items() if _leaf(name) not in known}
        gpus = _size(known | _largest_world(of_run))
        if gpus is None or (_GENERAL.issuperset(of_run) and not texts):
            continue  # nothing says that it does the work of another run
        batch, of_one = _first(known, _BATCH_OF_ALL), _first(known, _BATCH_OF_ONE)
        if batch is None and of_one is not None:
            batch = of_one * gpus * (known.get("gradient_accumulation_steps") or 1)
        of_run |= {name: text for name, text in texts.items() if len(text) <= _SHORT}
        of_run |= {name: f"{value:g}" for name, value in numbers.items() if _SHAPE.fullmatch(_leaf(name))}
        key = tuple(
            (name, text)
            for name, text in of_run.items()
            if not (is_incidental(name) or _SIZE.fullmatch(_leaf(name)) or _FOLLOWS.fullmatch(_leaf(name)))
        )
        described[run] = _Run(key, gpus, batch, None if batch is None else batch / gpus)
    return described


def _printed_once(tables: Tables) -> _Printed:
    """Return the texts and the numbers that each run prints once, for no step and no rank."""
    rows = tables.rows("values")
    rows = rows.where(~rows.known("step") & ~rows.known("rank"))
    of_name = groups_of(rows.codes("run")[0], rows.codes("key")[0]).of_row
    rows = rows.where(np.bincount(of_name)[of_name] == 1)
    found: dict[str, tuple[dict[str, str], dict[str, float]]] = {run: ({}, {}) for run in tables.rows("runs")["run"]}
    for run, key, value, text in rows.records("run", "key", "value", "text"):
        if isinstance(text, str):
            found[run][0][key] = text
        elif isinstance(value, float) and math.isfinite(value):
            found[run][1][key] = value
    return found


def _leaf(name: str) -> str:
    return name.rpartition(".")[2].lower().replace("-", "_").replace(" ", "_")


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _largest_world(settings: Mapping[str, str]) -> dict[str, float]:
    """Return the world size of a run that prints several: those of its groups are smaller."""
    sizes = [float(n) for n in re.findall(r"[0-9]+", settings.get("world_size", ""))]
    return {"world_size": max(sizes)} if len(sizes) > 1 else {}


def _first(known: Mapping[str, float], pattern: re.Pattern[str]) -> float | None:
    return next((value for name, value in known.items() if pattern.fullmatch(name) and value > 0), None)


def _size(known: Mapping[str, float]) -> int | None:
    """Return the number of GPUs; None if it is not told, or no whole number."""
    size = known["world_size"] if known.get("world_size") else _first(known, _SIZE)
    if size is None:
        nodes, per_node = _first(known, _NODES), _first(known, _PER_NODE)
        size = nodes * per_node if nodes is not None and per_node is not None else None
    return int(size) if size is not None and size >= 1 and size.is_integer() else None


def _rates(
    tables: Tables, printed: _Printed, described: Mapping[str, _Run], options: Options
) -> Iterator[tuple[str, bool | None, Mapping[str, float]]]:
    """Yield each rate: its name, whether it is that of all GPUs (None: nobody knows), and its value by run."""
    table = throughput.table(tables, options)
    table = table[table["part"] == "steady"].set_index("run")
    for column, of_all in (
        ("tokens_per_s_median", True), ("tokens_per_s_gpu_median", False), ("samples_per_s_median", None),
    ):  # fmt: skip
        yield column.removesuffix("_median"), of_all, _positive(table[column].dropna().astype(float).items())
    names: dict[str, dict[str, float]] = {}
    for run, (_, numbers) in printed.items():
        for name, value in numbers.items():
            names.setdefault(name, {})[run] = value
    words = {name: words_of(name.rpartition(".")[2]) for name in names}
    scopes = {name: _is_of_all(words[name]) for name in names if names_rate(words[name]) or "throughput" in words[name]}
    for name in sorted(scopes, key=lambda name: (True, False, None).index(scopes[name])):
        yield name, scopes[name], _positive(names[name].items())
    times = steady_medians(tables, "step_time_s", options.warmup)
    batches = {run: each.batch for run, each in described.items() if each.batch is not None}
    by_time = ((run, batches[run] / time) for run, time in times.items() if time > 0 and run in batches)
    yield _SAMPLES, True, _positive(by_time)


def _positive(values: Iterable[tuple[Any, float]]) -> dict[str, float]:
    return {run: value for run, value in values if value > 0}


def _is_of_all(words: Sequence[str]) -> bool | None:
    """Return whether a rate is that of all GPUs, by the words of its name; None if they do not tell."""
    if any(a in PER and b in _OF_ONE for a, b in pairwise(words)):
        return False
    return True if _OF_ALL.intersection(words) else None
