"""The rows of a comparison: a measure of two sides, their ratio, what can be said of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from perflog.analysis.compare.measures import Found, Measure
from perflog.analysis.compare.sides import Case, Side
from perflog.analysis.compare.verdicts import TESTED, Ratio, Rule, decide
from perflog.metrics import Column
from perflog.statistics import bootstrap
from perflog.statistics.samples import Floats

COLUMNS = (
    Column("case", meaning="the configuration that the sides share; empty if there is one"),
    Column("kind", meaning="step, device, phase, layer, kernel"),
    Column("metric", meaning="what is compared"),
    Column("unit", meaning="base unit of the values"),
    Column("better", meaning="lower or higher"),
    Column("derived", meaning="computed from another metric: says nothing of its own"),
    Column("base", meaning="name of the first side"),
    Column("side", meaning="name of the side that is held against it"),
    Column("base_value", meaning="median of the base: of its runs' medians of steady steps"),
    Column("base_low", meaning="its confidence interval"),
    Column("base_high", meaning="its upper end"),
    Column("side_value", meaning="median of the side"),
    Column("side_low", meaning="its confidence interval"),
    Column("side_high", meaning="its upper end"),
    Column("ratio", meaning="how many times better the side is: base / side where lower is better, else side / base"),
    Column("ratio_low", meaning="its confidence interval"),
    Column("ratio_high", meaning="its upper end"),
    Column("shift", meaning="Hodges-Lehmann shift from base to side: of run medians, or of steps of single runs"),
    Column("cliffs_delta", meaning="P(side > base) - P(side < base), of the same values"),
    Column("p", meaning="Mann-Whitney U of run medians; null with fewer than 4 runs a side"),
    Column("p_holm", meaning="adjusted for the number of tested rows (Holm)"),
    Column("drift", meaning="largest |median of second half / median of first half - 1| of a run"),
    Column("base_runs", meaning="runs of the base"),
    Column("side_runs", meaning="runs of the side"),
    Column("base_steps", meaning="steady steps of the base, all runs"),
    Column("side_steps", meaning="steady steps of the side, all runs"),
    Column("verdict", meaning="regression, improvement, equivalent, inconclusive; exploratory with few runs"),
    Column("reason", meaning="why"),
    Column("fails", meaning="whether it fails a gate on regressions"),
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A measure of one side: the values of its runs, bootstrap draws of its centre."""

    runs: Sequence[Floats]
    draws: Floats

    @property
    def centre(self) -> float:
        return bootstrap.centre(self.runs)

    @property
    def compared(self) -> Floats:
        """What tests and effects are of: run medians, or the steps of a single run."""
        return self.runs[0] if len(self.runs) == 1 else np.array([np.median(run) for run in self.runs])


def sample(runs: Sequence[Floats], rule: Rule, name: str) -> Sample:
    """The sample of a side. `name` makes its random numbers its own, whatever else is compared."""
    rng = np.random.default_rng([rule.seed, crc32(name.encode())])
    return Sample(runs, bootstrap.side_medians(runs, bootstrap.draws_for(runs, rule.draws), rng))


def rows(sides: Sequence[Side], cases: Sequence[Case], found: Sequence[Found], rule: Rule) -> list[Row]:
    """A row for each case, measure and side but the base, where both have it. p values are adjusted over all rows."""
    made = []
    for case in cases:
        for measure in found[0].values:
            base = found[0].of(measure, case.runs[0])
            if not base:
                continue
            first = sample(base, rule, f"{case.name}/{measure.name}/0")
            for k, (side, of, runs) in enumerate(zip(sides[1:], found[1:], case.runs[1:], strict=True), 1):
                values = of.of(measure, runs)
                if values and any(one.any() for one in (*base, *values)):  # else neither side has any of it
                    other = sample(values, rule, f"{case.name}/{measure.name}/{k}")
                    names = {"case": case.name, "base": sides[0].name, "side": side.name}
                    made.append(names | row(measure, first, other, rule))
    tested = bootstrap.holm([math.nan if one["derived"] else float(one["p"]) for one in made])
    return [{c.name: one.get(c.name) for c in COLUMNS} | {"p_holm": p} for one, p in zip(made, tested, strict=True)]


def row(measure: Measure, base: Sample, side: Sample, rule: Rule) -> Row:
    """What is said of one measure."""
    ratio = ratio_of(measure, base, side, rule)
    verdict = decide(ratio, rule)
    runs = len(base.runs), len(side.runs)
    made: Row = {"kind": measure.kind, "metric": measure.name, "unit": measure.unit, "better": measure.better}
    made |= {"derived": measure.derived, "ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high}
    for name, one in (("base", base), ("side", side)):
        low, high = bootstrap.interval(one.draws, bootstrap.units(one.runs), rule.level)
        made |= {f"{name}_value": one.centre, f"{name}_low": low, f"{name}_high": high}
        made |= {f"{name}_runs": len(one.runs), f"{name}_steps": sum(map(len, one.runs))}
    alike = (len(base.runs) == 1) == (len(side.runs) == 1)  # run medians and steps are no pair
    if alike:
        made["shift"] = bootstrap.shift(base.compared, side.compared)
        made["cliffs_delta"] = bootstrap.cliffs_delta(base.compared, side.compared)
    made["p"] = bootstrap.mann_whitney(base.compared, side.compared) if min(runs) >= TESTED else math.nan
    return made | {"drift": ratio.drift, "verdict": verdict.words, "reason": verdict.reason, "fails": verdict.fails}


def ratio_of(measure: Measure, base: Sample, side: Sample, rule: Rule) -> Ratio:
    """How many times better the side is, with interval and drift; NaN where a median is not above 0."""
    drifts = [abs(bootstrap.drift(run)) for one in (base, side) for run in one.runs]
    drift = max((d for d in drifts if d == d), default=0.0)
    runs = min(len(base.runs), len(side.runs))
    many = min(len(base.draws), len(side.draws))
    over, under = (base, side) if measure.better == "lower" else (side, base)
    if min(over.draws.min(), under.draws.min(), over.centre, under.centre) <= 0:
        return Ratio(math.nan, math.nan, math.nan, drift, runs)
    count = min(bootstrap.units(base.runs), bootstrap.units(side.runs))
    low, high = bootstrap.interval(over.draws[:many] / under.draws[:many], count, rule.level)
    return Ratio(over.centre / under.centre, low, high, drift, runs)


def by_name(made: Sequence[Row], case: str, side: str) -> Mapping[tuple[str, str], Row]:
    """The rows of a case and side, by kind and metric."""
    return {(one["kind"], one["metric"]): one for one in made if one["case"] == case and one["side"] == side}
