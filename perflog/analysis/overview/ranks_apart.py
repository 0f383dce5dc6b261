"""What an overview shows of the ranks of a run: how much their metrics differ, and which rank is an outlier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from perflog.analysis.overview.run_figures import RunFigure
from perflog.grouping import grouped
from perflog.metrics import Tables
from perflog.metrics.rank_hosts import host_in_words, hosts_of_ranks
from perflog.metrics.skew.named_ranks import SPEED_UNITS, NamedRank, hanging_ranks, named_rank_rows
from perflog.metrics.skew.ranks import WAITS, OutlierGroup, RankRow, outlier_groups, rank_figures, rank_name, rank_rows
from perflog.statistics.samples import medians
from perflog.units import count, first_few, numbered, numbers_in_words, show, show_p

_NAMED, _FIGURES = 3, 3  # ranks that have a line of their own; figures in a line
_APART = 0.01  # of the median: ranks that are nearer agree
_FEWEST, _LONGER, _CLEARLY = 2, 1.1, 5.0  # ranks of a block; its time over the others'; this over the spread in a block
_OF_STEP = 0.02  # of the step: less does not matter
_COLUMNS = {
    "step": "step_time_s", "TFLOP/s": "tflops", "MFU": "mfu", "tokens/s": "tokens_per_s",
    "tokens/s/GPU": "tokens_per_s", "samples/s": "samples_per_s",
}  # fmt: skip
"""Columns of `steps` that figures of an overview are made from."""


def ranks_apart(tables: Tables, run: str) -> Iterator[str]:
    """Yield a line for each rank that is worse than all others; of many for those that are so in the same metrics."""
    groups, hosts = outlier_groups(rank_rows(tables.only([run]))), hosts_of_ranks(tables.whole, run)
    if sum(len(group.members) for group in groups) <= _NAMED:
        rows = sorted((row for group in groups for row in group.rows), key=lambda row: -row.certainty)
        by_rank = grouped((row.rank or "", row) for row in rows)
        groups = [OutlierGroup((rank,), tuple(own)) for rank, own in by_rank.items()]
    yield from (_stands_out(group, hosts) for group in groups[:_NAMED])
    further = [member for group in groups[_NAMED:] for member in group.members]
    if further:
        yield f"{count(len(further), 'more rank')} far from the others: {OutlierGroup(tuple(further), ()).name}."


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
            host = host_in_words(slow, hosts_of_ranks(tables.whole, run))
            who = f"R{numbered('rank', slow)[1:]}{f', {host},' if host else ''}"
            yield f"{who} take longer: {name} {own}, the others {rest}."


def ranges_apart(tables: Tables, run: str) -> Iterator[str]:
    """Yield the phases that take longer on the slowest rank than on the fastest, where the log prints these two alone.

    Communication takes longest on the rank that waits longest for others. So it counts only where no work differs.
    """
    rows = tables.rows_of("phases", run)
    rows = rows.where(rows.known("min_s", "time_s") & (rows["min_s"] > 0))
    if not len(rows):
        return
    steps = tables.rows_of("steps", run)["step_time_s"]
    step = float(np.median(steps[np.isfinite(steps)])) if np.isfinite(steps).any() else 0.0
    found = []
    for phase, own in rows.by("phase").items():
        fast, slow = (float(np.median(own[name])) for name in ("min_s", "time_s"))
        if slow > _LONGER * fast and slow - fast >= _OF_STEP * step:
            found.append((bool(WAITS.search(phase)), fast - slow, phase, fast, slow, len(own)))
    found.sort()
    alike = [each for each in found if each[0] == found[0][0]]
    texts = [
        f"{phase} {show(fast, 's', 3)} on the fastest rank, {show(slow, 's', 3)} on the slowest "
        f"({slow / fast:.3g} times, {'in' if number == 1 else 'medians of'} {count(number, 'report')})"
        for _, _, phase, fast, slow, number in alike[:_FIGURES]
    ]
    if texts:
        waits = "some ranks wait for others" if found[0][0] else "ranks are unequal"
        yield f"{waits[0].upper()}{waits[1:]}: {'; '.join(texts)}. The log does not say which ranks these are."


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
        each = "" if len(hanging) == number else f": {numbers_in_words(hanging, 12)}"
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


def often(*rows: RankRow) -> str:
    """Return in how many of its rows an outlier is far from the others, in words; of several ranks at least."""
    shares = {f"{100 * row.out.far.persistence:.0f}" for row in rows if row.out is not None}
    least = "at least " * (len(shares) > 1)
    return f"in {least}{min(shares, key=int)} % of {rows[0].rows:,} rows" if rows[0].rows > 1 else "printed once"


def _stands_out(group: OutlierGroup, hosts: Mapping[int, str | None]) -> str:
    """The metrics in which ranks are outliers, the surest first; `hosts`: the host of each rank, where known."""
    each = []
    by_figure = group.rows_by_figure
    for name, rows in [*by_figure.items()][:_FIGURES]:
        outs = [row.out for row in rows if row.out is not None]
        own = _span([out.value for out in outs], rows[0].unit)
        others = show(float(np.median([out.others for out in outs])), rows[0].unit, 3)
        rest = "the others" if rows[0].ranks > 2 else "the other"
        ratio = float(np.median([out.far.ratio for out in outs]))
        shown = name.removesuffix("_s") if rows[0].unit == "s" else name
        each.append(f"{shown} {own}, {rest} {others} ({ratio:.2g} times)")
    first = group.rows[0]
    surest = next(iter(by_figure.values()))
    p = max(row.out.far.p for row in surest if row.out is not None)
    more = f"; {len(by_figure) - _FIGURES} more" if len(by_figure) > _FIGURES else ""
    several = len(group.members) > 1
    among, name = "some" if several else "one", f"{group.name[0].upper()}{group.name[1:]}"
    are_ranks = all(map(str.isdigit, group.members))
    host = host_in_words([*map(int, group.members)], hosts) if are_ranks else ""
    who = f"{name} of {first.ranks}"
    if not are_ranks:
        who = f"{name if name.startswith('Node ') else group.name}, {among} of {first.ranks} processes,"
    elif max(map(int, group.members)) >= first.ranks:
        who = f"{name}, {among} of {first.ranks} ranks in the log,"
    who += f" ({host})" if host else ""
    verb = "are outliers" if several else "is an outlier"
    return f"{who} {verb}: {'; '.join(each)}{more} ({often(*surest)}, {show_p(p)})."


def _span(values: Sequence[float], unit: str) -> str:
    """Return the median of values that are nearly equal, else the smallest and the largest."""
    if max(values) <= _LONGER * min(values):
        return show(float(np.median(values)), unit, 3)
    return f"{show(min(values), unit, 3)} to {show(max(values), unit, 3)}"
