"""The headline of a comparison: the measure that the verdict and the gate are about, and which side is best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.compare.history import History
from perflog.analysis.compare.measures import SideValues
from perflog.analysis.compare.rows import FigureRow, comparison_rows
from perflog.analysis.compare.sides import Case, Side
from perflog.analysis.compare.verdicts import CHANGES, VerdictRule
from perflog.formats.registry import known as formats
from perflog.metrics.benchmarks.serving import client_rates, leading_latency
from perflog.metrics.compared import ALL

HEADLINES = (
    ("step", "step_time"), ("step", "tokens_per_s"), ("step", "samples_per_s"), ("step", "tflops"), ("layer", ALL),
    ("kernel", ALL), ("run", "elapsed"), ("operator", None), ("call", ALL), ("collective", None),
    ("summary", None), ("load", None),
)  # fmt: skip
"""Kind and name of the measures that the verdict and the gate can be about: the first that there is. None: the first of
its kind."""

RATES = ("tokens_per_s", "samples_per_s")

_MOST_UNEQUAL = 1.1  # factor between the tokens of a step of two sides, below which steps are equally long


def declared_result(sides: Sequence[Side], cases: Sequence[Case]) -> str | None:
    """Return the metric that the formats of all compared runs declare as the result of a run; None if they disagree."""
    known, names = formats(), set()
    for k, side in enumerate(sides):
        runs = side.tables.rows("runs")
        names |= set(runs.where(runs.one_of("run", [run for case in cases for run in case.runs[k]]))["format"].tolist())
    results = {known[name].result if name in known else None for name in names}
    return results.pop() if len(results) == 1 else None


def latency_of_clients(sides: Sequence[Side], cases: Sequence[Case], rows: Sequence[FigureRow]) -> str | None:
    """Return the latency that leads where clients limit the rate of requests in all compared runs; else None."""
    for k, side in enumerate(sides):
        rates = client_rates(side.tables)
        if not all(run in rates and rates[run].is_limit for case in cases for run in case.runs[k]):
            return None
    return leading_latency(row.metric for row in rows)


def values_only(values: Sequence[SideValues]) -> bool:
    """Return whether no side has a measure of `HEADLINES`: then the values that runs print by name can lead."""
    kinds = {kind for kind, _ in HEADLINES}
    return not any(measure.kind in kinds for side_values in values for measure in side_values.by_measure)


def headline_rows(
    rows: Sequence[FigureRow], result: str | None = None, by_values: bool = False, to_targets: bool = False
) -> list[FigureRow]:
    """Return the rows of the headline measure: one per case, side and statistic.

    Where a step does more on one side than on another, the rate is the headline: step times say nothing then.

    Args:
        rows: All rows of the comparison.
        result: The metric that the runs are judged by, if any. It leads if its error is known, or if no error is: one
            clock per side says less than the steps.
        to_targets: The reader named values that series are to reach: the times until then are the headline.
        by_values: The runs print nothing but values by name, such as losses: the first one is the headline.
    """
    result_rows = [row for row in rows if row.metric == result]
    if to_targets:
        target_rows = [row for row in rows if row.kind == "target"]
        return [row for row in target_rows if row.unit == "s"] or target_rows  # without a clock, the steps
    if result_rows and (all(row.has_error for row in result_rows) or not any(row.has_error for row in rows)):
        return result_rows
    rate = next((rate for rate in RATES if unequal_steps(rows, rate)), None)
    leading = [("step", rate)] if rate else [("value", None)] if by_values else []
    for kind, name in [*leading, *HEADLINES]:
        kind_rows = [row for row in rows if row.kind == kind]
        first = {row.case: row.metric for row in reversed(kind_rows)}
        if headlines := [row for row in kind_rows if row.metric == (name or first[row.case])]:
            return headlines
    return []


def unequal_steps(rows: Sequence[FigureRow], rate: str) -> list[tuple[FigureRow, float]]:
    """Return by how much steps differ in what they do, as rate * step time shows; empty if they are equally long.

    Args:
        rows: Rows of a comparison.
        rate: Name of the rate: `tokens_per_s` or `samples_per_s`.

    Returns:
        For each case and side with other steps than the base, the row of its median rate, and its tokens or samples of
        a step relative to the base. Empty too if a side has step times and no such rate.
    """
    rows_by_metric: dict[str, dict[tuple[str, str], FigureRow]] = {rate: {}, "step_time": {}}
    for row in rows:
        if row.kind == "step" and row.statistic == "median" and row.metric in rows_by_metric:
            rows_by_metric[row.metric][row.case, row.side] = row
    times, rates = rows_by_metric["step_time"], rows_by_metric[rate]
    if times.keys() != rates.keys():
        return []
    # tokens/s times seconds are the tokens of a step, and 1 + change is a side relative to the base
    ratios = [(row, (1 + row.change) * (1 + times[case, side].change)) for (case, side), row in rates.items()]
    return [(row, ratio) for row, ratio in ratios if not 1 / _MOST_UNEQUAL < ratio < _MOST_UNEQUAL]


def telling_rows(rows: Sequence[FigureRow]) -> Sequence[FigureRow]:
    """Return the rows with a known error, or all if there are none.

    A total of single runs says nothing that the median and the mean do not.
    """
    return [row for row in rows if row.has_error] or rows


def deciding_row(rows: Sequence[FigureRow]) -> FigureRow:
    """Return the row that the verdict on one case and side is from.

    That is a change that any statistic shows, else the mean, else the first.
    """
    if changes := [row for row in rows if row.is_change]:
        return min(changes, key=lambda row: CHANGES.index(row.decision))
    return next((row for row in rows if row.statistic == "mean"), rows[0])


# --- the best of several sides ---------------------------------------------------------------------------------------


class BestSide(Struct, frozen=True):
    """The side with the best headline metric in one case.

    Attributes:
        case: Name of the case; empty if there is one.
        side: Its name.
        rows: For each other side the row of the headline metric with the best side as its base, the best first.
        level: Names of the other sides that are not known to differ from the best.
    """

    case: str
    side: str
    rows: tuple[FigureRow, ...]
    level: tuple[str, ...]

    @property
    def next(self) -> FigureRow:
        """The row of the best of the other sides."""
        return self.rows[0]


def best_sides(
    sides: Sequence[Side],
    cases: Sequence[Case],
    values: Sequence[SideValues],
    headlines: Sequence[FigureRow],
    rule: VerdictRule,
    history: History,
) -> Iterator[BestSide]:
    """Yield the best side of each case that has a headline metric on three sides or more.

    The best has the best first headline statistic, the median of step times. The others are compared with it by all
    statistics of the headline metric, with p values adjusted over the sides: a side differs if one of them is
    surely worse. Nothing is yielded where nobody knows which way is better.
    """
    for name, case_headlines in groupby(headlines, attrgetter("case")):
        rows = list(case_headlines)
        first = [row for row in rows if row.statistic == rows[0].statistic]
        if len(first) < 2 or not first[0].better:
            continue
        figures = {first[0].base: first[0].base_value, **{row.side: row.side_value for row in first}}
        ranked = sorted(figures, key=figures.__getitem__, reverse=first[0].better == "higher")
        case = next(case for case in cases if case.name == name)
        yield _against_best(ranked, case, rows[0], [*zip(sides, case.runs, values, strict=True)], rule, history)


def _against_best(
    ranked: Sequence[str],
    case: Case,
    headline: FigureRow,
    members: Sequence[tuple[Side, tuple[str, ...], SideValues]],
    rule: VerdictRule,
    history: History,
) -> BestSide:
    """Compare all ranked sides with the first of them by the headline metric."""
    by_name = {side.name: (side, runs, values) for side, runs, values in members}
    sides, runs, values = zip(*(by_name[name] for name in ranked), strict=True)
    only = [
        replace(each, by_measure={m: v for m, v in each.by_measure.items()
                                  if (m.kind, m.name) == (headline.kind, headline.metric)})
        for each in values
    ]  # fmt: skip
    rows = comparison_rows(sides, [replace(case, runs=runs)], only, rule, history)
    rows_by_side = {name: [row for row in rows if row.side == name] for name in ranked[1:]}
    worse = [
        name
        for name, side_rows in rows_by_side.items()
        if deciding_row(telling_rows(side_rows)).decision == "regression"
    ]
    return BestSide(
        case.name,
        ranked[0],
        tuple(side_rows[0] for side_rows in rows_by_side.values()),
        tuple(name for name in ranked[1:] if name not in worse),
    )
