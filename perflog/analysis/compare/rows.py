"""The rows of a comparison: for each measure both medians, their ratio with its interval, tests, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from perflog.analysis.compare.measures import Measure, SideValues
from perflog.analysis.compare.sides import Case, ResultRow, Side
from perflog.analysis.compare.verdicts import TESTED, Ratio, VerdictRule, decide
from perflog.metrics import MetricColumn
from perflog.statistics import bootstrap, rank_tests, samples
from perflog.statistics.samples import Floats

COLUMNS = (
    MetricColumn("case", meaning="the configuration that the sides share; empty if there is one"),
    MetricColumn("kind", meaning="step, run, device, phase, layer, kernel, collective, summary"),
    MetricColumn("metric", meaning="what is compared"),
    MetricColumn("unit", meaning="base unit of the values"),
    MetricColumn("better", meaning="lower or higher"),
    MetricColumn("derived", meaning="computed from another metric: no further evidence"),
    MetricColumn("base", meaning="name of the first side"),
    MetricColumn("side", meaning="name of the side that is compared with the base"),
    MetricColumn("base_value", meaning="median of the base: of its runs' medians of steady steps"),
    MetricColumn("base_low", meaning="confidence interval of base_value, lower end"),
    MetricColumn("base_high", meaning="confidence interval of base_value, upper end"),
    MetricColumn("side_value", meaning="median of the side"),
    MetricColumn("side_low", meaning="confidence interval of side_value, lower end"),
    MetricColumn("side_high", meaning="confidence interval of side_value, upper end"),
    MetricColumn(
        "ratio", meaning="how many times better the side is: base / side where lower is better, else side / base"
    ),
    MetricColumn("ratio_low", meaning="confidence interval of the ratio, lower end"),
    MetricColumn("ratio_high", meaning="confidence interval of the ratio, upper end"),
    MetricColumn("shift", meaning="Hodges-Lehmann shift from base to side: of run medians, or of steps of single runs"),
    MetricColumn("cliffs_delta", meaning="P(side > base) - P(side < base), of the same values"),
    MetricColumn("p", meaning="Mann-Whitney U test of run medians; null with fewer than 4 runs a side"),
    MetricColumn("p_holm", meaning="p adjusted for the number of tested rows (Holm)"),
    MetricColumn("drift", meaning="largest |median of second half / median of first half - 1| of a run"),
    MetricColumn("base_runs", meaning="runs of the base"),
    MetricColumn("side_runs", meaning="runs of the side"),
    MetricColumn("base_steps", meaning="steady steps of the base, all runs"),
    MetricColumn("side_steps", meaning="steady steps of the side, all runs"),
    MetricColumn("verdict", meaning="regression, improvement, equivalent, inconclusive; exploratory with few runs"),
    MetricColumn("reason", meaning="the reason for the verdict"),
    MetricColumn("fails", meaning="whether the row fails a gate on regressions"),
)


@dataclass(frozen=True)
class SideSample:
    """A measure of one side: the values of its runs, and bootstrap draws of their centre."""

    runs: Sequence[Floats]
    draws: Floats

    @property
    def centre(self) -> float:
        """The median of the runs' medians."""
        return bootstrap.median_of_medians(self.runs)

    @property
    def tested(self) -> Floats:
        """The values that tests and effect sizes compare: run medians, or the steps of a single run."""
        return self.runs[0] if len(self.runs) == 1 else np.array([np.median(run) for run in self.runs])


def draw_sample(runs: Sequence[Floats], rule: VerdictRule, name: str) -> SideSample:
    """Return the sample of a side. The random numbers depend only on `name`, not on the other comparisons."""
    rng = np.random.default_rng([rule.seed, crc32(name.encode())])
    return SideSample(runs, bootstrap.side_medians(runs, bootstrap.draws_for(runs, rule.draws), rng))


def comparison_rows(
    sides: Sequence[Side], cases: Sequence[Case], values: Sequence[SideValues], rule: VerdictRule
) -> list[ResultRow]:
    """Return one row per case, measure and side but the base, where both sides have values.

    p values are adjusted over all rows.
    """
    rows = []
    for case in cases:
        for measure in values[0].by_measure:
            base_values = values[0].of(measure, case.runs[0])
            if not base_values:
                continue
            base = draw_sample(base_values, rule, f"{case.name}/{measure.name}/0")
            others = zip(sides[1:], values[1:], case.runs[1:], strict=True)
            for k, (side, of_side, runs) in enumerate(others, 1):
                side_values = of_side.of(measure, runs)
                if side_values and any(run.any() for run in (*base_values, *side_values)):  # all zero: not measured
                    sample = draw_sample(side_values, rule, f"{case.name}/{measure.name}/{k}")
                    names = {"case": case.name, "base": sides[0].name, "side": side.name}
                    rows.append(names | _row(measure, base, sample, rule))
    adjusted = rank_tests.holm_adjusted([math.nan if row["derived"] else float(row["p"]) for row in rows])
    return [{c.name: row.get(c.name) for c in COLUMNS} | {"p_holm": p} for row, p in zip(rows, adjusted, strict=True)]


def _row(measure: Measure, base: SideSample, side: SideSample, rule: VerdictRule) -> ResultRow:
    """The columns of one measure."""
    ratio = ratio_of(measure, base, side, rule)
    verdict = decide(ratio, rule)
    row: ResultRow = {"kind": measure.kind, "metric": measure.name, "unit": measure.unit, "better": measure.better}
    row |= {"derived": measure.derived, "ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high}
    for name, sample in (("base", base), ("side", side)):
        low, high = bootstrap.bootstrap_interval(sample.draws, bootstrap.independent_units(sample.runs), rule.level)
        row |= {f"{name}_value": sample.centre, f"{name}_low": low, f"{name}_high": high}
        row |= {f"{name}_runs": len(sample.runs), f"{name}_steps": sum(map(len, sample.runs))}
    if (len(base.runs) == 1) == (len(side.runs) == 1):  # run medians and steps are not compared with each other
        row["shift"] = rank_tests.hodges_lehmann(base.tested, side.tested)
        row["cliffs_delta"] = rank_tests.cliffs_delta(base.tested, side.tested)
    enough = min(len(base.runs), len(side.runs)) >= TESTED
    row["p"] = rank_tests.mann_whitney(base.tested, side.tested) if enough else math.nan
    return row | {"drift": ratio.drift, "verdict": verdict.words, "reason": verdict.reason, "fails": verdict.fails}


def ratio_of(measure: Measure, base: SideSample, side: SideSample, rule: VerdictRule) -> Ratio:
    """Return how many times better the side is, with interval and drift; NaN where a median is not above 0."""
    drifts = [abs(samples.drift(run)) for sample in (base, side) for run in sample.runs]
    drift = max((d for d in drifts if not math.isnan(d)), default=0.0)
    runs = min(len(base.runs), len(side.runs))
    draws = min(len(base.draws), len(side.draws))
    over, under = (base, side) if measure.better == "lower" else (side, base)
    if min(over.draws.min(), under.draws.min(), over.centre, under.centre) <= 0:
        return Ratio(math.nan, math.nan, math.nan, drift, runs)
    count = min(bootstrap.independent_units(base.runs), bootstrap.independent_units(side.runs))
    low, high = bootstrap.bootstrap_interval(over.draws[:draws] / under.draws[:draws], count, rule.level)
    return Ratio(over.centre / under.centre, low, high, drift, runs)


def by_measure(rows: Sequence[ResultRow], case: str, side: str) -> Mapping[tuple[str, str], ResultRow]:
    """Return the rows of a case and side, by kind and metric."""
    return {(row["kind"], row["metric"]): row for row in rows if row["case"] == case and row["side"] == side}
