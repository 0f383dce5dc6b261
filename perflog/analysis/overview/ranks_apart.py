"""What an overview shows of the ranks of a run: how much their metrics differ, and which rank is an outlier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from perflog.analysis.overview.run_figures import RunFigure
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import Tables
from perflog.metrics.skew.named_ranks import SPEED_UNITS, NamedRank, hanging_ranks, named_rank_rows
from perflog.metrics.skew.ranks import RankRow, rank_figures, rank_name, rank_rows
from perflog.statistics.samples import medians
from perflog.units import count, first_few, show

_NAMED, _FIGURES = 3, 3  # ranks that have a line of their own; figures in a line
_APART = 0.01  # of the median: ranks that are nearer agree
_SURE = 1e-9  # probabilities below are shown as one
WAITS = lazy_pattern(
    r"(?i)wait|sync|comm|all_?(?:reduce|gather|to_?all)|reduce|gather|scatter|broadcast|barrier|send|recv|p2p|bubble|idle"
)
"""Names of times in which a rank waits for others."""

_FEWEST, _LONGER, _CLEARLY = 2, 1.1, 5.0  # ranks of a block; its time over the others'; this over the spread in a block
_OF_STEP = 0.02  # of the step: less does not matter
_COLUMNS = {
    "step": "step_time_s", "TFLOP/s": "tflops", "MFU": "mfu", "tokens/s": "tokens_per_s",
    "tokens/s/GPU": "tokens_per_s", "samples/s": "samples_per_s",
}  # fmt: skip
"""Columns of `steps` that figures of an overview are made from."""


def ranks_apart(tables: Tables, run: str) -> Iterator[str]:
    """Yield a line for each rank that is worse than all others."""
    rows = rank_rows(tables.only([run]))
    by_rank: dict[str, list[RankRow]] = {}
    for row in sorted(rows, key=lambda row: -row.certainty):
        if row.is_worse and row.rank is not None:
            by_rank.setdefault(row.rank, []).append(row)
    for rank in list(by_rank)[:_NAMED]:
        yield _stands_out(rank, by_rank[rank])
    if len(by_rank) > _NAMED:
        further = list(by_rank)[_NAMED:]
        yield f"{count(len(further), 'more rank')} far from the others: {first_few(further, 12)}."


def blocks_apart(tables: Tables, run: str) -> Iterator[str]:
    """Yield the times that take longer on a block of ranks, such as those of a node, than on all others."""
    run_tables = tables.only([run])
    if not any(row.unit == "s" and row.max > _LONGER * row.min for row in rank_rows(run_tables)):
        return
    figures = [figure for figure in rank_figures(run_tables) if figure.unit == "s"]
    step = max((float(np.nanmedian(each.values)) for each in figures if each.figure == "step_time_s"), default=0.0)
    for figure in figures:
        if WAITS.search(figure.figure) or not all(map(str.isdigit, figure.ranks)) or len(figure.ranks) < 2 * _FEWEST:
            continue
        times = medians(figure.values, axis=1)
        order = np.argsort(times, kind="stable")
        if times[order[0]] <= 0:
            continue
        logs = np.log(times[order])
        cut = int(np.argmax(np.diff(logs))) + 1
        slow = sorted(int(figure.ranks[place]) for place in order[cut:])
        spread = max(float(np.ptp(logs[:cut])), float(np.ptp(logs[cut:])), math.log(_LONGER) / _CLEARLY)
        is_block = slow[-1] - slow[0] == len(slow) - 1 and _FEWEST <= len(slow) <= len(logs) // 2
        longer, others = (float(np.median(part)) for part in (times[order[cut:]], times[order[:cut]]))
        if is_block and logs[cut] - logs[cut - 1] >= _CLEARLY * spread and longer - others >= _OF_STEP * step:
            name, own, rest = figure.figure.removesuffix("_s"), show(longer, "s", 3), show(others, "s", 3)
            yield f"Ranks {slow[0]} to {slow[-1]} take longer: {name} {own}, the others {rest}."


def ranks_named(tables: Tables, run: str) -> Iterator[str]:
    """Yield the slowest rank of the reports that the log prints over all ranks, and the ranks it calls stragglers."""
    rows = [row for row in named_rank_rows(tables.only([run])) if row.worse]
    told: list[NamedRank] = []
    for row in rows:
        is_time_too = any(row.rank == other.rank and row.reports == other.reports for other in told)
        if row.figure is not None and row.unit in SPEED_UNITS and not is_time_too:
            told.append(row)
            yield _slowest(row, rows)
    called = [row for row in rows if row.figure is None]
    if called:
        ranks = first_few((f"rank {row.rank} ({row.times:,} of {row.reports:,} reports)" for row in called), 4)
        yield f"The log calls {ranks} a straggler." if len(called) == 1 else f"The log calls stragglers: {ranks}."
    hanging, number = hanging_ranks(tables.only([run])).get(run, ((), 0))
    if hanging:
        who = "all ranks" if len(hanging) == number else f"{count(len(hanging), 'rank')} of {number:,}"
        each = "" if len(hanging) == number else f": {first_few(map(str, hanging), 12)}"
        yield f"The log says that {who} hang{'s' * (len(hanging) == 1 < number)}{each}."


def _slowest(row: NamedRank, rows: Sequence[NamedRank]) -> str:
    """The slowest rank of a metric, and whether its GPU has the lowest clock or the highest temperature, too."""
    assert row.figure is not None
    name, value = row.figure.replace("_", " "), show(row.value, row.unit, 3)
    over = f"the {row.end} over the {'lowest' if row.end == 'highest' else 'highest'}"
    ratio = row.ratio if row.end == "highest" else 1 / row.ratio
    often = f"in {row.times:,} of {row.reports:,} reports"
    if not row.is_named_often:
        return f"No rank stays the slowest by {name}: rank {row.rank} is, {often}; {over} is {ratio:.3g}."
    if not row.is_slow:
        return f"By {name} no rank is slow: {over} is {ratio:.3g} (rank {row.rank}, {often})."
    same = (each for each in rows if each.rank == row.rank and each.unit in ("Hz", "°C") and each.is_named_often)
    also = "".join(f"; its {each.figure} is the {each.end} too, {show(each.value, each.unit, 3)}" for each in same)
    return f"Slowest rank {row.rank}, {often}: {name} {value}, {over} {ratio:.3g}{also}."


def ranks_spread(tables: Tables, run: str, figures: Sequence[RunFigure]) -> Iterator[str]:
    """Yield how far the ranks lie apart in the figures shown."""
    rows = rank_rows(tables.only([run]))
    if not rows:
        return
    figure_by_column = {_COLUMNS.get(figure.name, figure.name): figure for figure in figures}
    texts = {}
    for row in rows:
        if row.figure in figure_by_column and row.max - row.min > _APART * abs(row.median):
            figure = figure_by_column[row.figure]
            low, high = (figure.text(value, 4) for value in (row.min, row.max))
            texts[row.figure] = f"{figure.name} {low}{_who(row.lowest)} to {high}{_who(row.highest)}"
    most, named = max(row.ranks for row in rows), [row.lowest for row in rows]
    what = f"Over {most} ranks"
    if None in named:
        what = f"{most} ranks (unlabelled) print each step"
    elif not all(map(str.isdigit, filter(None, named))):
        what = f"Over {most} processes without a known rank"
    # The step of a run is in each step the one of the slowest rank; a rank has its median.
    steps = [row for row in rows if row.figure == "step_time_s" and row.figure in texts]
    changes = any(figure_by_column[row.figure].values.get(run, 0.0) > (1 + _APART) * row.max for row in steps)
    why = "; the slowest rank is another one from step to step" * changes
    if texts or None in named:
        yield f"{what}{': ' * bool(texts)}{', '.join(list(texts.values())[:_FIGURES])}{why}."


def _who(rank: str | None) -> str:
    return "" if rank is None else f" ({rank_name(rank)})"


def often(row: RankRow) -> str:
    """Return in how many of its rows an outlier is far from the others, in words."""
    assert row.out is not None
    return f"in {100 * row.out.far.persistence:.0f} % of {row.rows:,} rows" if row.rows > 1 else "printed once"


def _stands_out(rank: str, rows: Sequence[RankRow]) -> str:
    """The metrics in which a rank is an outlier, the surest first."""
    each = []
    for row in rows[:_FIGURES]:
        assert row.out is not None
        own, others = (show(value, row.unit, 3) for value in (row.out.value, row.out.others))
        name = row.figure.removesuffix("_s") if row.unit == "s" else row.figure
        rest = "the others" if row.ranks > 2 else "the other"
        each.append(f"{name} {own}, {rest} {others} ({row.out.far.ratio:.2g} times)")
    first = rows[0]
    assert first.out is not None
    far = first.out.far
    more = f"; {len(rows) - _FIGURES} more" if len(rows) > _FIGURES else ""
    how_sure = f"p {far.p:.1g}" if far.p > _SURE else f"p < {_SURE:g}"
    who = f"Rank {rank} of {first.ranks}"
    if rank.isdigit() and int(rank) >= first.ranks:
        who = f"Rank {rank}, one of {first.ranks} ranks in the log,"
    if not rank.isdigit():
        name = f"N{rank[1:]}" if rank.startswith("node ") else rank
        who = f"{name}, one of {first.ranks} processes,"
    return f"{who} is an outlier: {'; '.join(each)}{more} ({often(first)}, {how_sure})."
