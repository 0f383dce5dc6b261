"""Which of several sides is best, and which of the others are not known to differ from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.compare.headline import deciding_row, telling_rows
from perflog.analysis.compare.history import History
from perflog.analysis.compare.measures import SideValues
from perflog.analysis.compare.rows import FigureRow, comparison_rows
from perflog.analysis.compare.sides import Case, Side
from perflog.analysis.compare.verdicts import VerdictRule


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
