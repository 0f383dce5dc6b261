"""Named ranks: the ranks that a program itself reports, as the slowest of all in a metric, or as stragglers.

A report over all ranks prints the extremes with their ranks, not the values of each rank. A rank is slow if the reports
name the same one often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from perflog.metrics.directions import better
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricRows, column, columns_of, metric
from perflog.metrics.run_tables import Tables, computed_list
from perflog.statistics.samples import binomial
from perflog.tables.columns import Rows

HIGHEST, LOWEST = "rank_with_highest_", "rank_with_lowest_"
"""Prefixes of keys of table `values`: the number is the extreme over all ranks, its rank the rank that has it."""

STRAGGLER = "named_as_straggler"
"""Key of table `values`: the number is a rank that the program calls a straggler."""

HANGS = "rank_hangs"
"""Key of table `values`: whether a program reports that a rank hangs. Such a rank may wait for another one."""

_WORSE = {"Hz": LOWEST, "°C": HIGHEST}
"""Units with a worse end, if `directions` has none."""

SPEED_UNITS = ("s", "1/s", "TFLOP/s")
"""Units of metrics that measure the speed of a rank."""

_FEW, _CHANCE, _APART = 3, 0.05, 1.03  # reports; probability; the worst over the best: less is scatter


class NamedRank(Struct, frozen=True):
    """A row of the metric."""

    run: str
    figure: Annotated[
        str | None, column("the metric; null: the program calls the rank a straggler, by a rule of its own")
    ]
    unit: Annotated[str, column("unit of its values; null: a plain number")]
    end: Annotated[str | None, column("highest or lowest: the end of the metric at which the rank is")]
    worse: Annotated[bool | None, column("whether this end is the worse one; null: neither is")]
    rank: Annotated[int, column("rank that is named most often, the first of several; of stragglers a row for each")]
    times: Annotated[int, column("number of reports that name it")]
    reports: Annotated[int, column("number of reports that name any rank")]
    p: Annotated[float, column("probability that some rank is named so often if each report names one by chance")]
    value: Annotated[float, column("median of the metric in the reports that name it")]
    ratio: Annotated[float, column("highest / lowest value of a report, median over the reports; null: one is not > 0")]
    ranks: Annotated[int, column("number of ranks: the world size, else 1 + the largest rank named", brief=False)]
    first_line: Annotated[int, column("line of the first report that names it", brief=False)]
    last_line: Annotated[int, column("line of the last report that names it", brief=False)]

    @property
    def is_named_often(self) -> bool:
        """Whether at least half of the reports name the rank, more than by chance; of few reports, all of them do."""
        if self.reports < _FEW:
            return self.times == self.reports
        return 2 * self.times >= self.reports and not self.p > _CHANCE

    @property
    def is_slow(self) -> bool:
        """Whether the rank is slow: a straggler, or the worst in a time or rate, and far from the best."""
        is_speed = self.unit in SPEED_UNITS and self.worse is True and self.ratio >= _APART
        return self.is_named_often and (self.figure is None or is_speed)


@metric(
    title="ranks that the log names",
    needs=("values",),
    columns=(*RUN_COLUMNS, *columns_of(NamedRank)),
    main="ratio",
    formula="p = min(1, ranks * P(X >= times)), X binomial of n = reports and probability 1 / ranks",
    source="reports of Megatron-LM's StragglerDetector, NVIDIA's resiliency extension, FlagScale",
)
def named_ranks(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """The rank that reports over all ranks name most often at each end of a metric, and ranks called stragglers.

    A rank at the worse end need not be broken: a pipeline stage with more work is the slowest too.
    """
    return [asdict(each) | {"unit": each.unit or None} for each in named_rank_rows(tables)]


@computed_list
def named_rank_rows(tables: Tables) -> Iterator[NamedRank]:
    """Return the rows of the metric in the order of the runs."""
    runs = tables.rows("runs")
    worlds: dict[str, int] = dict(runs.where(runs.known("world_size")).records("run", "world_size"))
    for run, rows in tables.rows_by_run("values").items():
        keys = rows.counts("key")
        extreme_keys = [key for key in keys if names_an_extreme(key)]
        straggler_keys = [key for key in keys if key.partition("[")[0] == STRAGGLER]
        extremes, stragglers = (rows.where(rows.one_of("key", chosen)) for chosen in (extreme_keys, straggler_keys))
        if not len(extremes) and not len(stragglers):
            continue
        largest = max(int(extremes["rank"].max(initial=0)), int(stragglers["value"].max(initial=0)))
        ranks = worlds.get(run) or 1 + largest
        for figure in dict.fromkeys(map(_figure, extreme_keys)):
            yield from _extremes(rows, run, figure, ranks)
        yield from _stragglers(stragglers, run, ranks)


def hanging_ranks(tables: Tables) -> dict[str, tuple[list[int], int]]:
    """Return by run the ranks that hang, by the last report of the log about each, and the number of reported ranks."""
    found = {}
    for run, rows in tables.rows_by_run("values").items():
        rows = rows.where(rows.one_of("key", (HANGS,)) & rows.known("rank", "value"))
        last: dict[int, float] = dict(rows.records("rank", "value"))
        if last:
            found[run] = sorted(rank for rank, value in last.items() if value > 0), len(last)
    return found


def names_an_extreme(key: str) -> bool:
    """Return whether a key of table `values` is an extreme over all ranks, which is no series of its rank."""
    return key.startswith((HIGHEST, LOWEST))


def _figure(key: str) -> str:
    return key.removeprefix(HIGHEST).removeprefix(LOWEST)


def _extremes(rows: Rows, run: str, figure: str, ranks: int) -> Iterator[NamedRank]:
    rows = rows.where(rows.known("rank", "value"))
    ends = {end: rows.where(rows.one_of("key", [end + figure])) for end in (HIGHEST, LOWEST)}
    lowest: dict[int, float] = dict(ends[LOWEST].records("line", "value"))
    pairs = [(high, lowest.get(line, 0.0)) for line, high in ends[HIGHEST].records("line", "value")]
    ratios = [high / low for high, low in pairs if low > 0]
    ratio = float(np.median(ratios)) if ratios else np.nan
    for end, end_rows in ends.items():
        if not len(end_rows):
            continue
        unit = next((unit for (unit,) in end_rows.records("unit") if unit), "")
        (rank, times), *_ = Counter(end_rows["rank"].tolist()).most_common(1)
        own = end_rows.where(end_rows["rank"] == rank)
        yield NamedRank(
            run, figure, unit, "highest" if end == HIGHEST else "lowest", _is_worse(figure, unit, end), rank, times,
            len(end_rows), _chance(times, len(end_rows), ranks), float(np.median(own["value"])), ratio, ranks,
            int(own["line"][0]), int(own["line"][-1]),
        )  # fmt: skip


def _is_worse(figure: str, unit: str, end: str) -> bool | None:
    way = better(figure, unit)
    worse = _WORSE.get(unit) if way is None else HIGHEST if way == "lower" else LOWEST
    return None if worse is None else end == worse


def _stragglers(rows: Rows, run: str, ranks: int) -> Iterator[NamedRank]:
    reports = len(set(rows["line"].tolist()))
    for rank, times in Counter(map(int, rows["value"].tolist())).most_common():
        lines = rows["line"][rows["value"] == rank]
        yield NamedRank(
            run, None, "", None, True, rank, times, reports, np.nan, np.nan, np.nan, ranks, int(lines[0]),
            int(lines[-1]),
        )  # fmt: skip


def _chance(times: int, reports: int, ranks: int) -> float:
    """Return the probability that any rank is named at least so often, if each report names one at random."""
    if ranks < 2:
        return 1.0
    return min(1.0, ranks * sum(binomial(k, reports, 1 / ranks) for k in range(times, reports + 1)))
