"""Energy of the cases of a table: what a token, a sample or a whole case takes, and what it costs.

A row may print the energy of a unit of work. Else it is the inverse of the work per joule; the energy of the case over
the number of units beside it; or a power over a rate beside it, if one GPU is measured. The name shows which power or
energy it is: nothing is converted between GPUs and machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.benchmarks.case_tables import CaseTable, case_tables
from perflog.metrics.directions import PER, names_rate, words_of
from perflog.metrics.options import Options
from perflog.metrics.power.energy import ALL, GPU, NO_MEAN, NODE, ONE, PARTS, scope_of
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("table", meaning="number of the table of cases in the log"),
    MetricColumn("case", meaning="parameters of the case"),
    MetricColumn("source", meaning="names of the values that the energy is computed from"),
    MetricColumn(
        "of", meaning="what was measured, by the name: one GPU, all GPUs, GPU (one or all), node; null: unknown"
    ),
    MetricColumn("unit", meaning="unit of work: token, sample, ...; null: none, the energy of the whole case"),
    MetricColumn("energy_unit_j", "J", "lower", "energy of one unit of work, or of the case"),
    MetricColumn("energy_j", "J", None, "energy of the case, if it is printed"),
    MetricColumn("power_w", "W", None, "mean power of the case, if it is printed"),
    MetricColumn("best", meaning="true: no case of this unit in its table takes less"),
    MetricColumn(
        "cost_million", "", "lower", "price of a GPU hour * GPUs / units in an hour * 1e6", brief=False, type="float64"
    ),
)

_UNITS = {
    **dict.fromkeys(("tok", "toks", "token", "tokens"), "token"),
    **dict.fromkeys(("sample", "samples"), "sample"),
    **dict.fromkeys(("img", "imgs", "image", "images"), "image"),
    **dict.fromkeys(("request", "requests", "req", "reqs"), "request"),
    **dict.fromkeys(("query", "queries"), "query"),
    **dict.fromkeys(("step", "steps"), "step"),
    **dict.fromkeys(("epoch", "epochs"), "epoch"),
    **dict.fromkeys(("prompt", "prompts"), "prompt"),
    **dict.fromkeys(("inference", "inferences"), "inference"),
}
_COUNTS = frozenset(
    ("token", "tokens", "total", "num", "number", "n", "of", "generated", "output", "images", "samples", "all", "new")
)
"""Words of a name that counts units, and nothing else."""
_ORDER = ("token", "sample", "image", "request", "query", "prompt", "inference", "step", "epoch")
_MULTIPLE = lazy_pattern(r"(?:per[_ ]|/ ?)(?P<number>10+(?:[0,]*)|1?[kKM](?![a-z])|million)")
_MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "million": 1e6}
_JOULES = {"j": 1.0, "joule": 1.0, "joules": 1.0, "wh": 3.6e3, "kwh": 3.6e6, "w": 1.0, "watt": 1.0, "watts": 1.0}
"""Joules of what work is printed per; a rate per watt is work per joule."""
_GPUS = lazy_pattern(
    r"(?:num_?|n_?)?(?:gpus?|devices?)(?:_count|_used)?|gpu_count|world_?size|nrgpus|tp_size|tp", re.IGNORECASE
)


class CaseEnergy(Struct, frozen=True):
    """The energy of a unit of work, or of the case: where it is from and what was measured."""

    source: str
    of: str | None
    unit: str | None
    joules: float


@metric(
    title="energy of cases",
    needs=("values",),
    columns=_COLUMNS,
    main="energy_unit_j",
    formula="energy of a unit as printed, 1 / work of a joule, energy / units, or power / rate",
    source="values of one row of a table, by their names and units; power / rate only for one GPU",
)
def energy_cases(tables: Tables, options: Options) -> MetricRows:
    """Energy of each case of a sweep or of a table of results, the best marked."""
    return [
        {"run": run, "table": number} | row
        for run, found in case_tables(tables).items()
        for number, table in enumerate(found, 1)
        for row in _rows(table, options.gpu_hour)
    ]


def _rows(table: CaseTable, price: float | None) -> Iterator[dict[str, object]]:
    names = _Names(table)
    energies = [names.energy(record) for record in range(len(table.lines))]
    least: dict[str | None, float] = {}
    for found in filter(None, energies):
        least[found.unit] = min(found.joules, least.get(found.unit, math.inf))
    for record, each in enumerate(energies):
        if each is None:
            continue
        row: dict[str, object] = {"case": table.at(record), "source": each.source, "of": each.of, "unit": each.unit}
        row |= {"energy_unit_j": each.joules, "best": each.joules == least[each.unit]}
        row |= {"energy_j": names.case_energy(record), "power_w": names.power(record)}
        if price is not None and (rate := names.rate_of_gpu(record, each.unit)) is not None:
            row["cost_million"] = price / 3600 / rate * 1e6
        yield row


class _Names:
    """The names of a table that are energy, power, rate or number of units, the best of each first."""

    def __init__(self, table: CaseTable) -> None:
        self.table = table
        words = {name: words_of(name) for name in table.figures}
        mean = [name for name in table.figures if NO_MEAN.isdisjoint(words[name])]
        joules = [name for name in mean if table.units.get(name) == "J"]
        self._units = _ordered((name, _unit_of(words[name])) for name in joules if _is_per(words[name]))
        self._brings = _ordered((name, _unit_of(words[name])) for name in mean if _work_of(words[name]) is not None)
        whole = [name for name in joules if not _is_per(words[name])]
        self._energies = _by_scope(whole, words)
        self._powers = _by_scope([name for name in mean if table.units.get(name) == "W"], words)
        self._rates = _ordered((name, _unit_of(words[name])) for name in mean if names_rate(words[name]))
        counted = ((name, _unit_of(words[name])) for name in mean if _COUNTS.issuperset(words[name]))
        self._counts = _ordered(each for each in counted if not table.units.get(each[0]))

    def energy(self, record: int) -> CaseEnergy | None:
        """Return the energy of a record by the best values that it has."""
        return next((found for found in self._candidates(record)), None)

    def case_energy(self, record: int) -> float | None:
        """The energy of the case of a record."""
        return next((value for name in self._energies[:1] if (value := self._value(name, record)) is not None), None)

    def power(self, record: int) -> float | None:
        """The power of the case of a record."""
        return next((value for name in self._powers[:1] if (value := self._value(name, record)) is not None), None)

    def rate_of_gpu(self, record: int, unit: str | None) -> float | None:
        """Units a second of one GPU; None if it is not known how many there are."""
        gpus = self._gpus(record)
        rates = (self._value(name, record) for name, of in self._rates if of == unit)
        rate = next((value for value in rates if value is not None), None)
        return rate / gpus if rate is not None and gpus is not None else None

    def _candidates(self, record: int) -> Iterator[CaseEnergy]:
        yield from self._as_printed(record)
        yield from self._over_units(record)
        if self._gpus(record) in (None, 1):
            yield from self._over_rates(record)
        if (energy := self.case_energy(record)) is not None:
            yield CaseEnergy(self._energies[0], scope_of(words_of(self._energies[0])), None, energy)

    def _as_printed(self, record: int) -> Iterator[CaseEnergy]:
        for name, unit in self._units:
            if (value := self._value(name, record)) is not None:
                yield CaseEnergy(name, scope_of(words_of(name)), unit, value / _multiple(name))
        for name, unit in self._brings:
            if (value := self._value(name, record)) is not None:
                joules = _JOULES[_work_of(words_of(name)) or "j"]
                yield CaseEnergy(f"1 / {name}", scope_of(words_of(name)), unit, joules / value)

    def _over_units(self, record: int) -> Iterator[CaseEnergy]:
        energy = self.case_energy(record)
        if energy is None:
            return
        for count, unit in self._counts:
            if (units := self._value(count, record)) is not None:
                name = self._energies[0]
                yield CaseEnergy(f"{name} / {count}", scope_of(words_of(name)), unit, energy / units)

    def _over_rates(self, record: int) -> Iterator[CaseEnergy]:
        power = self.power(record)
        if power is None:
            return
        for rate, unit in self._rates:
            if (value := self._value(rate, record)) is not None:
                name = self._powers[0]
                yield CaseEnergy(f"{name} / {rate}", scope_of(words_of(name)), unit, power / value)

    def _gpus(self, record: int) -> float | None:
        """Return the number of GPUs of a record; None if it has none."""
        columns: Mapping[str, Sequence[object]] = self.table.parameters
        found = (cells[record] for name, cells in columns.items() if _GPUS.fullmatch(name))
        settings = (value for name, value in self.table.settings.items() if _GPUS.fullmatch(name))
        return next((n for n in (*found, *settings) if isinstance(n, float)), None)

    def _value(self, name: str, record: int) -> float | None:
        value = float(self.table.figures[name][record])
        return value if math.isfinite(value) and value > 0 else None


def _ordered(names: Iterator[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """Names with a unit of work, tokens first."""
    return sorted(((n, unit) for n, unit in names if unit), key=lambda each: _ORDER.index(each[1] or ""))


def _by_scope(names: Sequence[str], words: Mapping[str, Sequence[str]]) -> list[str]:
    """Energies or powers of GPUs first, then those that name no part; none of other parts, such as the CPU."""
    scopes = {name: scope_of(words[name]) for name in names}
    return sorted((n for n in names if scopes[n] != PARTS), key=lambda n: (ALL, GPU, ONE, None, NODE).index(scopes[n]))


def _is_per(words: Sequence[str]) -> bool:
    return any(a in PER for a, _ in pairwise(words))


def _unit_of(words: Sequence[str]) -> str | None:
    return next((_UNITS[word] for word in words if word in _UNITS), None)


def _work_of(words: Sequence[str]) -> str | None:
    """Return the energy or power that work is counted per: `joule` of `tokens_per_joule`."""
    return next((b for a, b in pairwise(words) if a in PER and b in _JOULES), None)


def _multiple(name: str) -> float:
    """Return of how many units an energy is: 1,000 of `energy_per_1k_tokens`."""
    match = _MULTIPLE.search(name)
    if match is None:
        return 1.0
    text = match["number"].removeprefix("1") if match["number"][-1] in "kKM" else match["number"]
    return _MULTIPLES.get(text) or float(re.sub("[^0-9]", "", text))
