"""Energy and cost: what a step, a sample and a token take in joules, and at a price for an hour of a GPU.

A log prints the power or the energy of each GPU, of each rank or of all GPUs; else telemetry sampled it beside the log.
Both are converted between one GPU and all GPUs if the log prints the number of GPUs. Each row states what the power is
for and where it is from. The power of a node is never divided by the rate of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Mask
from perflog.metrics.benchmarks.case_tables import case_tables, names_of_records
from perflog.metrics.compared import ComparedColumn
from perflog.metrics.directions import PER, names_energy, words_of
from perflog.metrics.options import Options
from perflog.metrics.power.telemetry import telemetry
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.step_series import StepSeries, step_series
from perflog.metrics.step_time.run_rates import Rate, run_rates, sized_runs
from perflog.statistics.groups import groups_of
from perflog.tables.columns import Rows

ONE, ALL, NODE = "one GPU", "all GPUs", "node"
GPU, PARTS = "GPU", "other parts"

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("source", meaning="name of the printed power or energy; samples: telemetry; null: a price alone"),
    MetricColumn("of", meaning="what the power is for: one GPU, all GPUs or a node; null: unknown"),
    MetricColumn(
        "measured", meaning="number of GPUs measured, by rank or sample; null: unknown", brief=False, type="Int64"
    ),
    MetricColumn("gpus", meaning="number of GPUs of the run; null: not printed", type="Int64"),
    MetricColumn("power_w", "W", None, "mean power of what `of` names"),
    MetricColumn("power_gpu_w", "W", None, "mean power of one GPU", brief=False),
    MetricColumn("energy_step_j", "J", "lower", "all GPUs: power * median time of a step"),
    MetricColumn("energy_token_j", "J", "lower", "power / tokens in a second, both of all GPUs or of one"),
    MetricColumn("energy_sample_j", "J", "lower", "power / samples in a second, both of all GPUs or of one"),
    MetricColumn(
        "cost_step", "", "lower", "all GPUs: price of a GPU hour * median time of a step in hours", type="float64"
    ),
    MetricColumn(
        "cost_million_tokens", "", "lower", "price of a GPU hour / tokens of a GPU in an hour * 1e6", type="float64"
    ),
    MetricColumn(
        "cost_million_samples", "", "lower", "price of a GPU hour / samples of a GPU in an hour * 1e6", type="float64"
    ),
    MetricColumn(
        "cost_run", "", "lower", "all GPUs: price of a GPU hour * elapsed time of the run in hours", type="float64"
    ),
    MetricColumn("energy_run_j", "J", "lower", "energy of the run, as printed once or counted up"),
    MetricColumn("run_source", meaning="name of this energy, the GPUs' if several are printed", brief=False),
    MetricColumn("run_of", meaning="what this energy is for; GPU: one or all; null: unknown", brief=False),
    MetricColumn(
        "energy_machine_j", "J", "lower", "energy of the machine, if the GPUs' energy is printed too", brief=False
    ),
    MetricColumn("rate", meaning="name of the rate that tokens or samples are from", brief=False),
)

_POWER = frozenset(("power", "pwr", "watt", "watts"))
_ENERGY = frozenset(("energy", "joule", "joules"))
NO_MEAN = frozenset(
    ("limit", "cap", "max", "min", "maximum", "minimum", "peak", "lowest", "highest", "p5", "p50", "p90", "p95", "p99",
     "std", "stdev", "var", "default", "budget", "idle", "median", "percent")
)  # fmt: skip
"""Words of a power or an energy that is not the mean of the work."""
_OTHER_PARTS = frozenset(("cpu", "cpus", "dram", "ram", "memory", "mem", "fan", "soc", "module"))
_MEAN = frozenset(("mean", "avg", "average"))
_GPU_WORDS = frozenset(("gpu", "device", "rank", "chip", "card", "accelerator"))
_ALL_WORDS = frozenset(("gpus", "devices", "total", "all", "job", "cluster", "global", "overall"))
_NODE_WORDS = frozenset(("node", "host", "system", "server", "machine"))
_NO_TOTAL = frozenset(
    ("idle", "active", "predicted", "saved", "net", "baseline", "delta", "waste", "wasted", "estimated")
)
_TOKENS = frozenset(
    ("token", "tokens", "total", "num", "number", "n", "of", "seen", "processed", "trained", "consumed")
)
"""Words of a name that counts the tokens of a run, and nothing else."""
_SO_FAR = "so_far"  # in the name of an energy that is counted up
_SCOPES = {NODE: _NODE_WORDS, ALL: _ALL_WORDS, ONE: _GPU_WORDS}
_AT_WORK = 0.5  # of the largest power: a GPU of the same job takes no less
_TOKEN = frozenset(("token", "tokens", "tok", "toks"))


class _Power(Struct, frozen=True):
    """A mean power in watts: where it is from, what it is for, and the number of GPUs measured."""

    source: str
    of: str | None
    watts: float
    measured: int | None

    def per_gpu(self, gpus: int | None) -> float | None:
        """Return the power of one of this number of GPUs; None if that is not known."""
        if self.of == ONE or (self.of is None and gpus == 1):
            return self.watts
        return self.watts / gpus if self.of == ALL and gpus else None


@metric(
    title="energy and cost",
    needs=("runs",),
    columns=_COLUMNS,
    main="energy_token_j",
    formula="power / rate, both of one GPU or of all; cost = price of a GPU hour * GPU time",
    source="power and energy as printed, else the integral of sampled power over its time (metric telemetry)",
    compares=(
        ComparedColumn("energy", "energy of a token", "energy_token_j", "J"),
        ComparedColumn("energy", "energy of a sample", "energy_sample_j", "J"),
    ),
)
def energy(tables: Tables, options: Options) -> MetricRows:
    """Energy of a step, a token and a sample of each run that prints or samples a power; with a price, their cost.

    The power is the mean over the steady steps, the rate their median.

    Example:
        >>> table = perflog.metrics.energy(perflog.read("run.txt"), gpu_hour=2.5)
        >>> list(table.columns[-5:-1])
        ['energy_run_j', 'run_source', 'run_of', 'energy_machine_j']
    """
    return list(_rows(tables, options))


def energy_of_units(tables: Tables, options: Options) -> dict[str, dict[str, float]]:
    """Return by run the joules of a unit of each of its rates: `{run: {"tokens_per_s": 0.4}}`."""
    powers, sizes = _powers(tables, options), sized_runs(tables)
    found: dict[str, dict[str, float]] = {}
    for run, power in powers.items():
        gpus = sizes[run].gpus if run in sizes else None
        if (watts := power.per_gpu(gpus)) is not None:
            in_rates = ((rate.name, _rate_per_gpu(rate, run, gpus)) for rate in run_rates(tables, options))
            found[run] = {name: watts / value for name, value in in_rates if value is not None}
    return found


def _rows(tables: Tables, options: Options) -> Iterator[dict[str, Any]]:
    powers, totals = _powers(tables, options), _totals(tables)
    if not powers and not totals and options.gpu_hour is None:
        return
    rates, sizes, series = run_rates(tables, options), sized_runs(tables), _step_times(tables, options)
    for run, elapsed in tables.rows("runs").records("run", "elapsed_s"):
        power, gpus = powers.get(run), sizes[run].gpus if run in sizes else None
        step = float(np.median(series[run].steady)) if run in series and len(series[run].steady) else None
        units = dict(_units(rates, run, gpus))
        row: dict[str, Any] = {"run": run, "gpus": gpus}
        row["rate"] = ", ".join(dict.fromkeys(name for name, _ in units.values())) or None
        found = _energy(power, gpus, step, units) if power is not None else {}
        for name, value in _run_columns(totals.get(run, {})):
            found.setdefault(name, value)
        if options.gpu_hour is not None:
            found |= _cost(options.gpu_hour / 3600, gpus, step, elapsed, units)
        if found:
            yield row | found


def _run_columns(totals: Mapping[str, tuple[str | None, float]]) -> Iterator[tuple[str, Any]]:
    """Yield the columns of the energies of a whole run, and of a token where the run counts its tokens."""
    tokens = totals.get("tokens")
    energies = {name: each for name, each in totals.items() if name != "tokens" and "per" not in words_of(name)}
    for name, (of, joules) in totals.items():
        if name not in energies and name != "tokens":
            yield "energy_token_j", joules
            yield "source", name
            yield "of", of
    order = (ALL, GPU, ONE, None, NODE)
    chosen = min(energies, key=lambda name: order.index(energies[name][0]), default=None)
    if chosen is None:
        return
    of, joules = energies[chosen]
    yield "energy_run_j", joules
    yield "run_source", chosen
    yield "run_of", of
    if tokens is not None:
        yield "energy_token_j", joules / tokens[1]
        yield "source", f"{chosen} / {tokens[0]}"
        yield "of", of
    machine = next((each[1] for each in energies.values() if each[0] == NODE), None)
    if machine is not None and of != NODE:
        yield "energy_machine_j", machine


@computed_once
def _totals(tables: Tables) -> dict[str, dict[str, tuple[str | None, float]]]:
    """Return by run the energies of the whole run and of a token, by name: what each is for, and joules.

    `tokens`: the name and the number of the tokens of the run, if it prints them once.
    """
    totals: dict[str, dict[str, tuple[str | None, float]]] = {}
    several = names_of_records(tables)
    for run, rows in _printed_for_runs(tables).items():
        found: dict[str, tuple[str | None, float]] = {}
        for key, key_rows in rows.by("key").items():
            words, values = words_of(key), key_rows["value"]
            if len(key_rows) == 1 and _TOKENS.issuperset(words) and {"token", "tokens"} & set(words) and values[0] > 1:
                found.setdefault("tokens", (key, float(values[0])))
            if (
                key_rows.counts("unit").keys() != {"J"}
                or not _NO_TOTAL.isdisjoint(words)
                or not NO_MEAN.isdisjoint(words)
            ):
                continue
            so_far = _SO_FAR in key and bool((np.diff(values) >= 0).all())
            once = len(key_rows) == 1 and (key not in several or _SO_FAR in key)
            is_of_token = words[-2:] == ["per", "token"]
            is_energy = names_energy(words) or "consumption" in words
            if is_energy and (so_far or once) and scope_of(words) != PARTS and (is_of_token or "per" not in words):
                found[key] = scope_of(words), float(values[-1])
        if any(name != "tokens" for name in found):
            totals[run] = found
    return totals


def _printed_for_runs(tables: Tables) -> dict[str, Rows]:
    """The numbers that runs print for no step and no rank."""
    rows = tables.rows("values")
    rows = rows.where(~rows.known("step") & ~rows.known("rank"))
    return rows.where(np.isfinite(rows["value"])).by("run")


def _units(rates: list[Rate], run: str, gpus: int | None) -> Iterator[tuple[str, tuple[str, float]]]:
    """Yield `token` and `sample` with the name of the first rate of each and its value for one GPU."""
    seen = set()
    for rate in rates:
        unit = "sample" if _TOKEN.isdisjoint(words_of(rate.name)) else "token"
        if unit not in seen and (value := _rate_per_gpu(rate, run, gpus)) is not None:
            seen.add(unit)
            yield unit, (rate.name, value)


def _rate_per_gpu(rate: Rate, run: str, gpus: int | None) -> float | None:
    """Return the rate of one GPU of a run; None if that is not known."""
    if run not in rate.values:
        return None
    gpus_of_rate = 1 if rate.covers_all is False else gpus if rate.covers_all or gpus == 1 else None
    return None if gpus_of_rate is None else rate.values[run] / gpus_of_rate


def _energy(
    power: _Power, gpus: int | None, step: float | None, units: Mapping[str, tuple[str, float]]
) -> dict[str, object]:
    power_gpu = power.per_gpu(gpus)
    found: dict[str, Any] = {"source": power.source, "of": power.of, "measured": power.measured, "power_w": power.watts}
    if power_gpu is not None:
        found |= {"of": power.of or ONE, "power_gpu_w": power_gpu}
        found |= {f"energy_{unit}_j": power_gpu / rate for unit, (_, rate) in units.items()}
    power_all = power.watts if power.of == ALL else power_gpu * gpus if power_gpu is not None and gpus else None
    if power_all is not None and step is not None:
        found["energy_step_j"] = power_all * step
    return found


def _cost(
    second: float, gpus: int | None, step: float | None, elapsed: float, units: Mapping[str, tuple[str, float]]
) -> dict[str, Any]:
    """Columns of the cost, of what is known; `second`: price of a second of a GPU."""
    found = {f"cost_million_{unit}s": second / rate * 1e6 for unit, (_, rate) in units.items()}
    if gpus is not None and step is not None:
        found["cost_step"] = second * gpus * step
    if gpus is not None and elapsed == elapsed:
        found["cost_run"] = second * gpus * elapsed
    return found


# --- power ----------------------------------------------------------------------------------------------------------


def _step_times(tables: Tables, options: Options) -> dict[str, StepSeries]:
    return {each.run: each for each in step_series(tables, "step_time_s", options.warmup)}


@computed_once
def _powers(tables: Tables, options: Options) -> dict[str, _Power]:
    """Return the power of each run: as printed, else from printed energies of steps, else from samples beside it."""
    found = _sampled(tables, options)
    values = tables.rows("values")
    values = values.where(values.one_of("unit", ("W", "J")))  # few rows, or none: a log has millions of others
    values = values.where(_is_of_run(tables, values))
    series = _step_times(tables, options) if len(values) else {}
    for run, rows in values.by("run").items():
        steady = _at_work(rows, series.get(run))
        if (power := _printed(steady, "W", _POWER)) is not None:
            found[run] = power
        elif (work := _printed(steady, "J", _ENERGY)) is not None and run in series and len(series[run].steady):
            watts = work.watts / float(np.median(series[run].steady))
            found[run] = _Power(work.source, work.of, watts, work.measured)
    return found


def _is_of_run(tables: Tables, values: Rows) -> Mask:
    """Flag the values of a run that are not values of the cases of a table."""
    figures = {(run, name) for run, found in case_tables(tables).items() for each in found for name in each.figures}
    if not len(values) or not figures:
        return np.ones(len(values), np.bool_)
    pairs = values.records("run", "key")
    return np.array([pair not in figures for pair in pairs], np.bool_) | values.known("step")


def _at_work(rows: Rows, series: StepSeries | None) -> Rows:
    """The values of the steady steps, and those that are printed among these steps; without steps all values."""
    if series is None or not len(series.steady):
        return rows
    first = series.steps[series.warmup.cut]
    lines = series.lines[series.warmup.cut :]
    among = (rows["line"] >= lines.min()) & (rows["line"] <= lines.max())
    return rows.where(np.where(rows.known("step"), rows["step"] >= first, among))


def _printed(rows: Rows, unit: str, wanted: frozenset[str]) -> _Power | None:
    """Return the mean of the best of the series that print a power, or the energy of a step; None without one."""
    rows = rows.where(rows.one_of("unit", [unit]) & (rows["value"] > 0))
    best: tuple[tuple[bool, bool, int], _Power] | None = None
    for key, key_rows in rows.by("key").items():
        words = set(words_of(key))
        if words.isdisjoint(wanted) or not words.isdisjoint(NO_MEAN | _OTHER_PARTS):
            continue
        if not (_is_power(words, key_rows) if unit == "W" else _is_of_steps(key_rows)):
            continue
        power = _mean(key, words, key_rows)
        order = power.of is not None, not words.isdisjoint(_MEAN), power.measured or 0
        if best is None or order > best[0]:
            best = order, power
    return None if best is None else best[1]


def _is_power(words: set[str], rows: Rows) -> bool:
    """Return whether a power belongs to the work: nvidia-smi before a job prints one momentary value for each GPU."""
    often = int(groups_of(rows["rank"]).sizes.max(initial=0)) > 1
    return often or not words.isdisjoint(_MEAN | {"per"}) or bool(rows.known("step").all())


def _is_of_steps(rows: Rows) -> bool:
    """Return whether energies belong to single steps, and are not counted up."""
    values = rows["value"]
    return bool(rows.known("step").all()) and (len(values) < 3 or bool((np.diff(values) < 0).any()))


def _mean(key: str, words: set[str], rows: Rows) -> _Power:
    """Return the mean of a series; of several ranks the mean over them, each with the weight of one GPU."""
    ranked = rows.where(rows.known("rank"))
    if len(ranked):
        ranks = groups_of(ranked["rank"])
        means: Floats = ranks.sums(ranked["value"]) / ranks.sizes
        if len(means) > 1 or words.isdisjoint(_ALL_WORDS | _NODE_WORDS):
            return _Power(key, ONE, float(means.mean()), len(means))
    scope = next((scope for scope, names in _SCOPES.items() if not words.isdisjoint(names)), None)
    return _Power(key, scope, float(rows["value"].mean()), None)


def scope_of(words: Iterable[str]) -> str | None:
    """Return which devices a power or an energy covers, by the words of its name; None if they do not show it.

    ONE, ALL, NODE and PARTS mean what they say. GPU: one GPU or all of them, as in `gpu_energy`: only `per` before the
    GPU means one.
    """
    found = list(words)
    if _OTHER_PARTS.intersection(found):
        return PARTS
    if any(a in PER and b in _GPU_WORDS for a, b in pairwise(found)):
        return ONE
    names_gpu = bool(_GPU_WORDS.intersection(found))
    if "gpus" in found or (names_gpu and _ALL_WORDS.intersection(found)):
        return ALL
    if names_gpu:
        return GPU
    return NODE if _NODE_WORDS.intersection(found) else None


def _sampled(tables: Tables, options: Options) -> dict[str, _Power]:
    """Return the power that telemetry sampled during the steps of a run, as the mean of the devices with samples.

    A node may have more GPUs than the run. Samples of more devices than the run has GPUs are left out. If this number
    is not known, samples are left out if some of their devices were idle.
    """
    if not tables.count("counters"):
        return {}
    table = telemetry.table(tables, options)
    table = table[(table["part"] == "run") & table["power_w"].notna()]
    table = table.assign(watts=(table["energy_j"] / table["span_s"]).fillna(table["power_w"]))
    sizes = sized_runs(tables)
    found = {}
    for run, watts in table.groupby("run", sort=False)["watts"]:
        all_work = len(watts) <= sizes[run].gpus if run in sizes else watts.min() >= _AT_WORK * watts.max()
        if all_work:
            found[str(run)] = _Power("samples", ONE, float(watts.mean()), len(watts))
    return found
