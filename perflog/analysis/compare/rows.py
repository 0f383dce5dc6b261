"""The rows of a comparison: for each metric both sides, the change with its interval, p values, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from msgspec import Struct

from perflog.analysis.compare.figures import (
    TOTAL,
    VALUE,
    Estimate,
    SideFigure,
    estimate,
    print_same_steps,
    side_figure,
    statistics_of,
    total_figures,
)
from perflog.analysis.compare.history import History
from perflog.analysis.compare.measures import SideValues
from perflog.analysis.compare.sides import Case, Side
from perflog.analysis.compare.verdicts import (
    CHANGES,
    NOT_COMPARABLE,
    Evidence,
    Verdict,
    VerdictRule,
    decide,
    without_exploratory,
)
from perflog.arrays import Floats
from perflog.metrics.compared import RUN_TIME, STEP_TIME, Measure
from perflog.metrics.directions import Better
from perflog.metrics.registry import column, columns_of
from perflog.metrics.step_series import StepSeries
from perflog.statistics import effects, rank_tests
from perflog.statistics.effects import change_of, shift_of
from perflog.units import show, show_change, show_interval


class FigureRow(Struct, frozen=True):
    """A metric on both sides: its change with interval, p values and verdict. NaN: not known."""

    case: Annotated[str, column("the configuration that the sides share; empty if there is one")]
    kind: Annotated[
        str,
        column(
            "step, run, device, idle, path, phase, layer, range, operator, kernel, rate (of operators), memory, "
            "holder (of memory), counter, collective, summary, value"
        ),
    ]
    metric: Annotated[str, column("what is compared")]
    statistic: Annotated[str, column("of a run's steady steps: median, mean, p99; total: of all steps; value")]
    unit: Annotated[str, column("base unit of the values")]
    better: Annotated[Literal["lower", "higher"] | None, column("lower or higher; null where nobody knows")]
    derived: Annotated[bool, column("computed from another metric: no further evidence")]
    base: Annotated[str, column("name of the first side")]
    side: Annotated[str, column("name of the side that is compared with the base")]
    base_value: Annotated[float, column("value of the base: geometric mean over its runs")]
    base_low: Annotated[float, column("confidence interval of base_value, lower end")]
    base_high: Annotated[float, column("confidence interval of base_value, upper end")]
    side_value: Annotated[float, column("value of the side: geometric mean over its runs")]
    side_low: Annotated[float, column("confidence interval of side_value, lower end")]
    side_high: Annotated[float, column("confidence interval of side_value, upper end")]
    change: Annotated[float, column("side / base - 1; if paired, step by step", "1")]
    change_low: Annotated[float, column("confidence interval of the change, lower end", "1")]
    change_high: Annotated[float, column("confidence interval of the change, upper end", "1")]
    error: Annotated[float, column("standard error of the logarithm of side / base")]
    freedom: Annotated[float, column("degrees of freedom of this error")]
    scope: Annotated[
        str,
        column(
            "what the interval covers: runs; history (also the variation of other repeats); with one run "
            "per side and no history steps (within the run)"
        ),
    ]
    history_runs: Annotated[int, column("number of other repeats that show the run-to-run variation")]
    history_scatter: Annotated[float, column("standard deviation of the logarithms of their values", "1")]
    sessions: Annotated[
        Literal["same", "held", "left out"] | None,
        column(
            "same: both sides ran in the same sessions; held: in others, and the interval holds how much these differ; "
            "left out: in others, and nothing tells it; null: nobody knows"
        ),
    ]
    session_scatter: Annotated[float, column("standard deviation between sessions, of the logarithms of figures", "1")]
    paired: Annotated[bool, column("compared step by step: what both runs share cancels")]
    few_values: Annotated[bool, column("each run has one number, and two may agree by chance")]
    p: Annotated[float, column("p of the change: Welch's test of the runs; within one run per side from the bootstrap")]
    p_rank: Annotated[float, column("Mann-Whitney U test of the runs; null with fewer than 4 runs per side")]
    p_both: Annotated[float, column("the smaller of p and p_rank, adjusted because there are two; without p_rank, p")]
    p_holm: Annotated[float, column("p_both adjusted for the number of figures and cases (Holm); verdicts take it")]
    shift: Annotated[
        float | None, column("Hodges-Lehmann shift from base to side: of run figures, or of steps of single runs")
    ]
    cliffs_delta: Annotated[float | None, column("P(side > base) - P(side < base), of the same values")]
    drift: Annotated[float, column("of single runs: largest |median of second half / median of first half - 1|")]
    base_runs: Annotated[int, column("runs of the base")]
    side_runs: Annotated[int, column("runs of the side")]
    base_steps: Annotated[int, column("steady steps of the base, all runs")]
    side_steps: Annotated[int, column("steady steps of the side, all runs")]
    verdict: Annotated[
        str,
        column(
            "regression, improvement, different, equivalent, inconclusive, not comparable; "
            "exploratory within one run per side"
        ),
    ]
    reason: Annotated[str, column("the reason for the verdict")]
    advice: Annotated[str, column("what would decide, or confirm what single runs show; empty where nothing is open")]
    fails: Annotated[bool, column("whether the row fails a gate on regressions")]

    @property
    def change_in_words(self) -> str:
        """The change with its interval: `+6.0 % [+5.1 .. +6.9 %]`."""
        return f"{show_change(self.change)} [{self.interval_in_words}]"

    @property
    def interval_in_words(self) -> str:
        """The interval of the change: `+5.1 .. +6.9 %`; `-` where there is none."""
        return show_interval(self.change_low, self.change_high)

    @property
    def decision(self) -> str:
        """The verdict without `exploratory`."""
        return without_exploratory(self.verdict)

    @property
    def is_change(self) -> bool:
        """Whether the verdict reports a change."""
        return self.decision in CHANGES

    @property
    def has_error(self) -> bool:
        """Whether the error of the change is known."""
        return not math.isnan(self.error)

    def judged(self, rule: VerdictRule, better: Better | None) -> Verdict:
        """Return the verdict by another rule, or where another way is better."""
        shift, low, high = map(shift_of, (self.change, self.change_low, self.change_high))
        effect = effects.Effect(shift, self.error, self.freedom)
        runs = self.base_runs, self.side_runs
        evidence = Evidence(runs, (low, high), self.scope, self.few_values, self.sessions)
        return decide(effect, better, self.p_holm, evidence, rule)

    def meaning(self, rule: VerdictRule) -> str:
        """Return what the change means for the reader: `slower`, `surely under 1 %`, `not known to differ`."""
        limit = show(rule.threshold, "1")
        if self.decision == "inconclusive" and not self.has_error:
            return "one value per side"
        if self.decision == "equivalent":
            return f"surely under {limit}"
        if self.decision == NOT_COMPARABLE:
            return NOT_COMPARABLE
        if self.unit == "s" or self.unit.endswith("/s"):
            way = "slower" if (self.change > 0) == (self.unit == "s") else "faster"
        else:
            way = "higher" if self.change > 0 else "lower"
        if self.is_change:
            return way
        differs = self.decision == "inconclusive" and self.p_holm < 1 - rule.level
        return f"{way}, maybe under {limit}" if differs else "not known to differ"


COLUMNS = columns_of(FigureRow)


class Compared(Struct, frozen=True):
    """A statistic of a measure on both sides, before the p values of its family are adjusted.

    `few_values`: a run has one number only, which may take few values, as a time to convergence does. The time of steps
    that are the same in all runs does not.
    """

    case: str
    names: tuple[str, str]  # of base and side
    measure: Measure
    base: SideFigure
    side: SideFigure
    estimate: Estimate
    few_values: bool = False


Place = tuple[str, str]
"""Names of a case and of a side."""


def comparison_rows(
    sides: Sequence[Side],
    cases: Sequence[Case],
    values: Sequence[SideValues],
    rule: VerdictRule,
    history: History,
    elsewhere: Container[Place] = (),
) -> list[FigureRow]:
    """Return one row per case, measure, statistic and side but the base, where both sides have values.

    p values are adjusted over all cases and figures of a family, see `family`. `elsewhere`: places where the
    side ran in another setting than the base, so that a change is neither for the better nor for the worse.
    """
    compared = [c for case in cases for c in _compared(sides, case, values, rule, history)]
    adjusted = [math.nan] * len(compared)
    families = [family(c.measure, c.base.statistic) for c in compared]
    for name in set(families):
        members = [i for i, of in enumerate(families) if of == name]
        p = rank_tests.holm_adjusted([compared[i].estimate.p for i in members])
        for i, value in zip(members, p, strict=True):
            adjusted[i] = value
    return [_row(c, p, rule, (c.case, c.names[1]) not in elsewhere) for c, p in zip(compared, adjusted, strict=True)]


def family(measure: Measure, statistic: str) -> tuple[str, bool, str, bool]:
    """Return the name of the family over which p values are adjusted.

    Parts of a measure are no further tests of their whole, and derived figures, each a family of its own, none of what
    they are computed from. Nor are the median, the tail and the total of step times, which mostly show what their mean
    shows: adjusted with it, they would hide it.
    """
    derived = measure.name if measure.derived else ""
    return measure.kind, measure.of is not None, derived, measure == STEP_TIME and statistic != "mean"


def _compared(
    sides: Sequence[Side], case: Case, values: Sequence[SideValues], rule: VerdictRule, history: History
) -> Iterator[Compared]:
    for measure in values[0].by_measure:
        for k, (side, runs) in enumerate(zip(sides[1:], case.runs[1:], strict=True), 1):
            by_run = values[0].by_run(measure, case.runs[0]), values[k].by_run(measure, runs)
            both = [[*side_runs.values()] for side_runs in by_run]
            if not all(both) or not any(run.any() for side_runs in both for run in side_runs):  # all zero: not measured
                continue
            names = sides[0].name, side.name
            series = values[0].series(case.runs[0]), values[k].series(runs)
            has_same_steps = measure == RUN_TIME and _of_same_steps(both, series)
            earlier = list(history.of(case.name, measure, both))
            for statistic in statistics_of(measure, [run for side_runs in both for run in side_runs]):
                name = f"{case.name}/{measure.name}"
                base_figure = side_figure(both[0], statistic, rule, f"{name}/0", values[0].sessions_of(by_run[0]))
                figure = side_figure(both[1], statistic, rule, f"{name}/{k}", values[k].sessions_of(by_run[1]))
                repeats = [
                    side_figure(
                        [*group.values()], statistic, rule, f"{name}/history", history.values.sessions_of(group)
                    )
                    for group in earlier
                ]
                few_values = statistic == VALUE and not has_same_steps
                estimated = estimate(base_figure, figure, repeats, history.has_base)
                yield Compared(case.name, names, measure, base_figure, figure, estimated, few_values)
            if measure == STEP_TIME:
                sessions = values[0].sessions | values[k].sessions | history.values.sessions
                all_series = [*series, *(history.series(case.name) if earlier else ())]
                yield from _total(case.name, names, total_figures(all_series, rule, sessions), series, history.has_base)


def _of_same_steps(both: Sequence[Sequence[Floats]], series: Sequence[Sequence[StepSeries]]) -> bool:
    """Whether all runs with the measure print the same steps."""
    return [*map(len, both)] == [*map(len, series)] and print_same_steps([*series[0], *series[1]])


def _total(
    case: str,
    names: tuple[str, str],
    figures: Sequence[SideFigure],
    series: Sequence[Sequence[StepSeries]],
    has_base: bool,
) -> Iterator[Compared]:
    """The total of all steps, where a warm-up is cut (else it is the mean) and all runs print the same steps.

    `figures`: of the base, of the other side, and of groups of other repeats. `series`: of both sides.
    """
    base, side, *earlier = figures
    if len(base.runs) and len(side.runs) and any(s.warmup.cut for side_runs in series for s in side_runs):
        yield Compared(case, names, STEP_TIME, base, side, estimate(base, side, earlier, has_base))


def _row(compared: Compared, p_holm: float, rule: VerdictRule, is_judged: bool) -> FigureRow:
    """The columns of one row. `is_judged`: whether a change is for the better or for the worse."""
    measure, base, side, estimated = compared.measure, compared.base, compared.side, compared.estimate
    runs = len(base.runs), len(side.runs)
    low, high = estimated.interval(rule.level)
    evidence = Evidence(runs, (low, high), estimated.scope, compared.few_values, estimated.sessions)
    verdict = decide(estimated.effect, measure.better if is_judged else None, p_holm, evidence, rule)
    scatter = estimated.scatter
    ends = [
        figure.interval(rule.level, scatter or effects.pooled_scatter([_logs(other)]))
        for figure, other in ((base, side), (side, base))
    ]
    comparable = max(runs) == 1 or min(runs) > 1  # run figures and steps are not compared with each other
    tested = [_tested(figure) for figure in (base, side)]
    return FigureRow(
        case=compared.case,
        kind=measure.kind,
        metric=measure.name,
        statistic=base.statistic,
        unit=measure.unit,
        better=measure.better,
        derived=measure.derived,
        base=compared.names[0],
        side=compared.names[1],
        base_value=base.centre,
        base_low=ends[0][0],
        base_high=ends[0][1],
        side_value=side.centre,
        side_low=ends[1][0],
        side_high=ends[1][1],
        change=change_of(estimated.effect.shift),
        change_low=change_of(low),
        change_high=change_of(high),
        error=estimated.effect.error,
        freedom=estimated.effect.freedom,
        scope=estimated.scope,
        history_runs=scatter.runs if scatter else 0,
        history_scatter=scatter.deviation if scatter else math.nan,
        sessions=estimated.sessions,
        session_scatter=estimated.session_scatter,
        paired=estimated.paired,
        few_values=compared.few_values,
        p=estimated.effect.p(),
        p_rank=estimated.p_rank,
        p_both=estimated.p,
        p_holm=p_holm,
        shift=rank_tests.hodges_lehmann(*tested) if comparable else None,
        cliffs_delta=rank_tests.cliffs_delta(*tested) if comparable else None,
        drift=estimated.drift,
        base_runs=runs[0],
        side_runs=runs[1],
        base_steps=sum(map(len, base.values)),
        side_steps=sum(map(len, side.values)),
        verdict=verdict.words,
        reason=verdict.reason,
        advice=verdict.advice,
        fails=verdict.fails,
    )


def _logs(figure: SideFigure) -> Floats:
    """Logarithms of the run figures; none if one has none."""
    return np.log(figure.runs) if (figure.runs > 0).all() else np.empty(0)


def _tested(figure: SideFigure) -> Floats:
    """The values that effect sizes compare: run figures, or the steps of a single run."""
    return figure.values[0] if len(figure.runs) == 1 and figure.statistic != TOTAL else figure.runs


def by_measure(rows: Sequence[FigureRow], case: str, side: str) -> Mapping[tuple[str, str], FigureRow]:
    """Return the rows of a case and side, by kind and metric: of several statistics the first, the median."""
    side_runs = [row for row in rows if row.case == case and row.side == side]
    return {(row.kind, row.metric): row for row in reversed(side_runs)}
