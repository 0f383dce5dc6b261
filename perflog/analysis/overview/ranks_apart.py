"""What an overview tells of the ranks of a run: how far they lie apart in its figures, and which rank stands out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perflog.analysis.lint.wording import count, first_few
from perflog.analysis.overview.run_figures import RunFigure
from perflog.metrics import Tables
from perflog.metrics.ranks import RankRow, rank_name, rank_rows
from perflog.units import show

_NAMED, _FIGURES = 3, 3  # ranks that have a line of their own; figures in a line
_APART = 0.01  # of the median: ranks that are nearer agree
_SURE = 1e-9  # probabilities below are not told apart
_COLUMNS = {
    "step": "step_time_s", "TFLOP/s": "tflops", "MFU": "mfu", "tokens/s": "tokens_per_s", "samples/s": "samples_per_s"
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


def ranks_spread(tables: Tables, run: str, figures: Sequence[RunFigure]) -> Iterator[str]:
    """Yield how far the ranks lie apart in the figures shown."""
    rows = rank_rows(tables.only([run]))
    if not rows:
        return
    of_column = {_COLUMNS.get(figure.name, figure.name): figure for figure in figures}
    texts = {}
    for row in rows:
        if row.figure in of_column and row.max - row.min > _APART * abs(row.median):
            figure = of_column[row.figure]
            low, high = (figure.text(value, 4) for value in (row.min, row.max))
            texts[row.figure] = f"{figure.name} {low}{_who(row.lowest)} to {high}{_who(row.highest)}"
    most, named = max(row.ranks for row in rows), [row.lowest for row in rows]
    what = f"Over {most} ranks"
    if None in named:
        what = f"{most} ranks (unlabelled) print each step"
    elif not all(map(str.isdigit, filter(None, named))):
        what = f"Over {most} processes without a known rank"
    if texts or None in named:
        yield f"{what}{': ' * bool(texts)}{', '.join(list(texts.values())[:_FIGURES])}."


def _who(rank: str | None) -> str:
    return "" if rank is None else f" ({rank_name(rank)})"


def _stands_out(rank: str, rows: Sequence[RankRow]) -> str:
    """The figures in which a rank stands out, the surest first."""
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
    often = f"in {100 * far.persistence:.0f} % of {first.rows} rows" if first.rows > 1 else "printed once"
    how_sure = f"p {far.p:.1g}" if far.p > _SURE else f"p < {_SURE:g}"
    name = f"Rank {rank}" if rank.isdigit() else f"N{rank[1:]}" if rank.startswith("node ") else rank
    who = f"{name}," if "," in name else name
    return f"{who} of {first.ranks} stands out: {'; '.join(each)}{more} ({often}, {how_sure})."
