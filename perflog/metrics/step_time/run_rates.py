"""Size, batch and rate of runs, by the words of their settings and values in any format."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.directions import PER, names_rate, words_of
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables, computed_list, computed_once
from perflog.metrics.settings_by_run import settings_by_run
from perflog.metrics.step_series import steady_medians
from perflog.metrics.step_time.throughput import throughput
from perflog.settings.run_settings import incidental_test
from perflog.statistics.groups import groups_of

_SIZE = lazy_pattern(
    r"(?:total_?|n(?:um)?_?|(?:number_|no_)?of_)?(?:gpus|devices|accelerators|chips|ranks|proc(?:s|esses))|ngpu|world_?size|"
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
"""Settings that follow from the number of GPUs or the batch, or set how long a run takes and what it prints."""
_SHAPE = lazy_pattern(
    r".*(?:size|len|length|dim|hidden|layers|heads|experts|top_?k|vocab|resolution|degree|stages)|[tpec]p|seq"
)
"""Names of numbers by which programs configure a model, where they print settings and results side by side."""
_GENERAL = frozenset(("format", "program", "world_size", "device", "dtype"))
_SHORT = 64  # characters of a string that describes a run; longer ones describe its machine
_SAMPLES = "samples_per_s"
_ALL_WORDS = frozenset(("global", "total", "overall", "aggregate", "all", "system", "cluster"))
_ONE_WORDS = frozenset(("gpu", "gpus", "device", "rank", "chip", "worker", "card"))


class SizedRun(Struct, frozen=True):
    """The size of a run. `gpus`: number of GPUs. `batch`: samples or tokens of a step of all GPUs, as printed.

    `key`: settings that are equal in runs that differ only in their size and batch.
    """

    key: tuple[tuple[str, str], ...]
    gpus: int
    batch: float | None
    batch_of_one: float | None


class Rate(Struct, frozen=True):
    """A rate of runs in 1/s, by run. `covers_all`: whether it is the rate of all GPUs; False: of one; None: unknown."""

    name: str
    covers_all: bool | None
    values: Mapping[str, float]


_Printed = Mapping[str, tuple[Mapping[str, str], Mapping[str, float]]]
"""The strings and the numbers of each run, by name."""


@computed_once
def sized_runs(tables: Tables) -> dict[str, SizedRun]:
    """Return the size, the batch and the settings of each run that prints how many GPUs it has."""
    settings = settings_by_run(tables)
    is_incidental = incidental_test(settings.values())
    described = {}
    for run, (texts, numbers) in _printed_once(tables).items():
        named = {name: text for name, text in settings[run].items() if name != "process"}
        if _GENERAL.issuperset(named) and not texts:
            continue  # nothing shows that it does the work of another run
        found = sized(named, texts, numbers)
        if found is not None:
            key = tuple((name, text) for name, text in found.key if not is_incidental(name))
            described[run] = replace(found, key=key)
    return described


def sized(settings: Mapping[str, str], texts: Mapping[str, str], numbers: Mapping[str, float]) -> SizedRun | None:
    """Return the size and the batch of a run by what it prints; None if its number of GPUs is unknown.

    Args:
        settings: Its settings.
        texts: Strings that it prints once, which describe it.
        numbers: Numbers that it prints once; only those that shape a model describe it.
    """
    known = {_leaf(name): number for name, text in settings.items() if (number := _number(text)) is not None}
    known |= {_leaf(name): value for name, value in numbers.items() if _leaf(name) not in known}
    gpus = _size(known | _largest_world(settings))
    if gpus is None:
        return None
    batch, batch_of_one = _first(known, _BATCH_OF_ALL), _first(known, _BATCH_OF_ONE)
    if batch is None and batch_of_one is not None:
        batch = batch_of_one * gpus * (known.get("gradient_accumulation_steps") or 1)
    described = {**settings, **{name: text for name, text in texts.items() if len(text) <= _SHORT}}
    described |= {name: f"{value:g}" for name, value in numbers.items() if _SHAPE.fullmatch(_leaf(name))}
    key = tuple(
        (name, text)
        for name, text in described.items()
        if not (_SIZE.fullmatch(_leaf(name)) or _FOLLOWS.fullmatch(_leaf(name)))
    )
    return SizedRun(key, gpus, batch, None if batch is None else batch / gpus)


@computed_once
def _printed_once(tables: Tables) -> _Printed:
    """Return the strings and the numbers that each run prints once, for no step and no rank."""
    rows = tables.rows("values")
    rows = rows.where(~rows.known("step") & ~rows.known("rank"))
    series = groups_of(rows.codes("run")[0], rows.codes("key")[0]).inverse
    rows = rows.where(np.bincount(series)[series] == 1)
    found: dict[str, tuple[dict[str, str], dict[str, float]]] = {run: ({}, {}) for run in tables.rows("runs")["run"]}
    for run, key, value, text in rows.records("run", "key", "value", "text"):
        if isinstance(text, str):
            found[run][0][key] = text
        elif isinstance(value, float) and math.isfinite(value):
            found[run][1][key] = value
    return found


def _leaf(name: str) -> str:
    return name.rpartition(".")[2].lower().replace("-", "_").replace(" ", "_").strip("#_")


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _largest_world(settings: Mapping[str, str]) -> dict[str, float]:
    """Return the world size of a run that prints several: the largest, since groups of ranks are smaller."""
    sizes = [float(n) for n in re.findall(r"[0-9]+", settings.get("world_size", ""))]
    return {"world_size": max(sizes)} if len(sizes) > 1 else {}


def _first(known: Mapping[str, float], pattern: re.Pattern[str]) -> float | None:
    return next((value for name, value in known.items() if pattern.fullmatch(name) and value > 0), None)


def _size(known: Mapping[str, float]) -> int | None:
    """Return the number of GPUs; None if it is unknown, or no whole number."""
    size = known["world_size"] if known.get("world_size") else _first(known, _SIZE)
    if size is None:
        nodes, per_node = _first(known, _NODES), _first(known, _PER_NODE)
        size = nodes * per_node if nodes is not None and per_node is not None else None
    return int(size) if size is not None and size >= 1 and size.is_integer() else None


@computed_list
def run_rates(tables: Tables, options: Options) -> Iterator[Rate]:
    """Return the rates of runs, tokens first: each the median over the steady steps, or the value printed once."""
    table = throughput.table(tables, options)
    table = table[table["part"] == "steady"].set_index("run")
    for column, covers_all in (
        ("tokens_per_s_median", True), ("tokens_per_s_gpu_median", False), ("samples_per_s_median", None),
    ):  # fmt: skip
        yield Rate(column.removesuffix("_median"), covers_all, _positive(table[column].dropna().astype(float).items()))
    names: dict[str, dict[str, float]] = {}
    for run, (_, numbers) in _printed_once(tables).items():
        for name, value in numbers.items():
            names.setdefault(name, {})[run] = value
    yield from named_rates(names)
    times = steady_medians(tables, "step_time_s", options.warmup)
    batches = {run: each.batch for run, each in sized_runs(tables).items() if each.batch is not None}
    by_time = ((run, batches[run] / time) for run, time in times.items() if time > 0 and run in batches)
    yield Rate(_SAMPLES, True, _positive(by_time))


def named_rates(names: Mapping[str, Mapping[str, float]]) -> Iterator[Rate]:
    """Yield the values that are rates by their names, rates of all GPUs first, by run."""
    words = {name: words_of(name.rpartition(".")[2]) for name in names}
    scopes = {name: _is_of_all(words[name]) for name in names if names_rate(words[name]) or "throughput" in words[name]}
    for name in sorted(scopes, key=lambda name: (True, False, None).index(scopes[name])):
        yield Rate(name, scopes[name], _positive(names[name].items()))


def _positive(values: Iterable[tuple[Any, float]]) -> dict[str, float]:
    return {run: value for run, value in values if value > 0}


def _is_of_all(words: Sequence[str]) -> bool | None:
    """Return whether a rate covers all GPUs, by the words of its name; None if they do not show it."""
    if any(a in PER and b in _ONE_WORDS for a, b in pairwise(words)):
        return False
    return True if _ALL_WORDS.intersection(words) else None
