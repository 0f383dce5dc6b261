"""Ranks: spread of the ranks of a run in each metric that several of them print, and which ranks stand out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from perflog.arrays import Floats, Ints
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.options import Options
from perflog.metrics.possible import are_moments
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, column, columns_of, metric
from perflog.metrics.run_tables import Tables, computed_list
from perflog.metrics.skew.named_ranks import names_an_extreme
from perflog.metrics.unlabelled_ranks import unlabelled_ranks
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import medians
from perflog.statistics.standing_out import StandingOut, standing_out
from perflog.tables.columns import NULL, Rows
from perflog.tables.schema import TABLES
from perflog.units import first_few, numbered, show

_STEP_FIGURES = (
    "step_time_s", "forward_s", "backward_s", "tflops", "mfu", "tokens_per_s", "samples_per_s", "memory_bytes", "loss",
    "grad_norm",
)  # fmt: skip
_ENOUGH = 8  # rows from the first to the last one that all ranks have
_MOST = 0.5  # share of the rows: a rank with fewer stopped too early, or began too late
_COLLECTIVE_FIGURES = ("time_s", "algbw_gbps", "busbw_gbps")
WORSE_IF_HIGH, WORSE_IF_LOW = ("s", "B"), ("1/s", "GB/s", "TFLOP/s")
"""Units with higher values worse, and lower ones; in any other unit, the lower of two differing ranks is named."""

WAITS = lazy_pattern(
    r"(?i)wait|sync|comm|all_?(?:reduce|gather|to_?all)|reduce|gather|scatter|broadcast|barrier|send|recv|p2p|bubble|idle"
)
"""Names of times in which a rank waits for others."""


class _Out(Struct, frozen=True):
    """The test of a rank that differs from the others: its value, and the median of the others."""

    value: float
    others: float
    far: StandingOut


class RankFigure(Struct, frozen=True):
    """Values of a metric by rank: `values`, shape (ranks, rows), NaN where a rank printed none; `ranks` names them."""

    run: str
    of: str
    figure: str
    unit: str
    ranks: tuple[str, ...]
    values: Floats


class RankRow(Struct, frozen=True):
    """A row of the metric. `out`: the rank that differs from the others."""

    run: str
    of: Annotated[str, column("table that has the metric: steps, phases, values or collectives")]
    figure: Annotated[str, column("name of the metric")]
    unit: Annotated[str, column("unit of its values; null: a plain number")]
    ranks: Annotated[int, column("number of ranks that print it")]
    rows: Annotated[int, column("number of steps, or of printings, that at least half of these ranks have")]
    median: Annotated[float, column("median over the ranks, each with its median; without ranks that stop too early")]
    min: Annotated[float, column("smallest of these medians")]
    lowest: Annotated[
        str | None, column("rank that has it; of processes without a known rank the source, null without one")
    ]
    max: Annotated[float, column("largest of these medians")]
    highest: Annotated[str | None, column("rank that has it")]
    rank: Annotated[str | None, column("rank that differs from the others; null: none does. A row for each")]
    out: _Out | None

    @property
    def is_worse(self) -> bool:
        """Whether a rank differs from the others and is worse, or its unit has no better direction."""
        return self.out is not None and self.unit not in (WORSE_IF_LOW if self.out.far.ratio > 1 else WORSE_IF_HIGH)

    @property
    def certainty(self) -> float:
        """Distance of the rank from the others, in standard deviations; 0 if none differs significantly."""
        return self.out.far.t if self.out is not None else 0.0


_OF_OUT = (
    MetricColumn("value", meaning="its median over the rows"),
    MetricColumn("others", meaning="median of the medians of the other ranks; without ranks that stop too early"),
    MetricColumn("ratio", meaning="its value over the median of the others, median over the rows"),
    MetricColumn("t", meaning="its deviation in standard deviations of equal ranks"),
    MetricColumn("p", "", None, "probability of such a deviation if all ranks were equal, over all ranks and metrics"),
    MetricColumn(
        "persistence", "1", None, "share of the rows with a deviation to the same side, at least half as large"
    ),
)
"""Columns of `RankRow.out`."""


@metric(
    title="metrics by rank",
    needs=("runs",),
    columns=(*RUN_COLUMNS, *columns_of(RankRow), *_OF_OUT),
    main="ratio",
    formula="median over the rows of value / median of the ranks in the row; t: its logarithm / scatter of the ranks "
    "(1.4826 MAD, shrunk towards 1.5 % and the noise over the rows, which counts as 6 ranks). A rank is reported if "
    "p < 0.005, and the difference is at least 2 % (5 % below 20 rows)",
    source="MAD: Iglewicz and Hoaglin 1993; shrinkage: Smyth 2004, moderated t; p: Bonferroni",
)
def ranks(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Spread over the ranks of each metric that several ranks print, and the ranks that stand out in it.

    Ranks that stand out need not be the cause: if ranks wait for one another, the slow one waits the least.

    Example:
        >>> table = perflog.metrics.ranks(perflog.find_runs("reference:moe_layer.txt"))
        >>> table[["figure", "ranks", "median", "lowest", "highest"]].head(1)
            figure  ranks    median lowest highest
        0  process      4  0.003762      1       3
    """
    return list(map(_columns, rank_rows(tables)))


def _columns(row: RankRow) -> dict[str, object]:
    columns = asdict(row) | {"unit": row.unit or None}
    del columns["out"]
    if row.out is None:
        return columns | {column.name: np.nan for column in _OF_OUT}
    far = row.out.far
    columns |= {"value": row.out.value, "others": row.out.others}
    return columns | {"ratio": far.ratio, "t": far.t, "p": far.p, "persistence": far.persistence}


class OutlierGroup(Struct, frozen=True):
    """Ranks that are worse than the others in the same metrics, and their rows, the surest first."""

    members: tuple[str, ...]
    rows: tuple[RankRow, ...]

    @property
    def name(self) -> str:
        """The members in words: `rank 3`, `ranks 40-47`; sources as they are."""
        if all(map(str.isdigit, self.members)):
            return numbered("rank", [*map(int, self.members)])
        return first_few(map(rank_name, self.members), 3)

    @property
    def rows_by_figure(self) -> dict[str, list[RankRow]]:
        """The rows of its members by metric, the surest metric first."""
        return grouped((row.figure, row) for row in self.rows)


def outlier_groups(rows: Iterable[RankRow]) -> list[OutlierGroup]:
    """Return the ranks of a run that are worse than the others by the metrics in which they are, the surest first."""
    worse = sorted((row for row in rows if row.is_worse), key=lambda row: -row.certainty)
    by_rank = grouped((row.rank, row) for row in worse if row.rank is not None)
    alike = grouped((frozenset(row.figure for row in own), rank) for rank, own in by_rank.items())
    return [
        OutlierGroup(tuple(members), tuple(sorted(_rows_of(members, by_rank), key=lambda row: -row.certainty)))
        for members in alike.values()
    ]


def _rows_of(members: Sequence[str], by_rank: Mapping[str, Sequence[RankRow]]) -> Iterator[RankRow]:
    return (row for member in members for row in by_rank[member])


def rank_name(rank: str) -> str:
    """Return a rank in words, a source as it is."""
    return f"rank {rank}" if rank.isdigit() else rank


@computed_list
def rank_rows(tables: Tables) -> Iterator[RankRow]:
    """Return the rows of the metric in the order of the runs."""
    by_run: dict[str, list[RankFigure]] = {run: [] for run in tables.rows("runs")["run"].tolist()}
    for figure in rank_figures(tables):
        by_run[figure.run].append(figure)
    unlabelled = unlabelled_ranks(tables)
    for run, figures in by_run.items():
        if run in unlabelled:
            yield from _unlabelled_rows(tables.rows_of("steps", run), run, unlabelled[run])
        for figure in figures:
            typical = _typical(figure.values)
            alike = _comparable(figure.values)
            low, high = (int(alike[end(typical[alike])]) for end in (np.argmin, np.argmax))
            spread = (
                float(np.median(typical[alike])), float(typical[low]), figure.ranks[low], float(typical[high]),
                figure.ranks[high],
            )  # fmt: skip
            place = (figure.run, figure.of, figure.figure, figure.unit, len(figure.ranks), figure.values.shape[1])
            found = _standing_out(figure, len(figures))
            for far in found:
                peers = np.setdiff1d(alike, far.member)
                others = float(np.median(typical[peers] if len(peers) else np.delete(typical, far.member)))
                yield RankRow(*place, *spread, figure.ranks[far.member], _Out(float(typical[far.member]), others, far))
            if not found:
                yield RankRow(*place, *spread, None, None)


def _shared(values: Floats) -> Floats:
    """Return the rows from the first to the last one that all ranks print."""
    known = ~np.isnan(values)
    first, last = known.argmax(axis=1).max(), known.shape[1] - known[:, ::-1].argmax(axis=1).max()
    return values[:, first:last]


def _typical(values: Floats) -> Floats:
    """Return the median of each rank where all ranks print: one that stops early saw another part of a run."""
    shared = _shared(values)
    return medians(shared if shared.shape[1] >= _ENOUGH else values, axis=1)


def _comparable(values: Floats) -> Ints:
    """Return the ranks whose medians are of the same part of a run: not one that stops too early to share rows."""
    ranks = np.arange(len(values))
    if values.shape[1] < _ENOUGH or _shared(values).shape[1] >= _ENOUGH:
        return ranks
    most = (~np.isnan(values)).mean(axis=1) >= _MOST
    return ranks[most] if most.any() else ranks


def _unlabelled_rows(rows: Rows, run: str, number: int) -> Iterator[RankRow]:
    """Yield the spread of metrics over ranks without labels: medians of the smallest and largest value of a step."""
    units = {column.name: column.unit for column in TABLES["steps"]}
    for name in _STEP_FIGURES:
        known = rows.where(rows.known("step", name))
        steps = groups_of(np.where(known["epoch"] == NULL, -1, known["epoch"]), known["step"])
        if not len(known) or (steps.sizes < 2).all():
            continue
        low, high = np.full((2, len(steps.sizes)), np.nan)
        np.fmin.at(low, steps.inverse, known[name])
        np.fmax.at(high, steps.inverse, known[name])
        in_steps = np.lexsort((known[name], steps.inverse))
        middles = known[name][in_steps[np.cumsum(steps.sizes) - 1 - steps.sizes // 2]]
        low, middles, high = (values[steps.sizes > 1] for values in (low, middles, high))
        yield RankRow(
            run, "steps", name, units[name], number, len(low), float(np.median(middles)), float(np.median(low)), None,
            float(np.median(high)), None, None, None,
        )  # fmt: skip


def _standing_out(figure: RankFigure, number: int) -> list[StandingOut]:
    """Return the ranks that stand out in one of `number` metrics."""
    found = standing_out(figure.values, number) if (figure.values[~np.isnan(figure.values)] > 0).all() else []
    if len(figure.ranks) == 2 and found:  # each is the reverse of the other: the worse one is named
        found = [max(found, key=lambda each: each.ratio if figure.unit in WORSE_IF_HIGH else -each.ratio)]
    return found


_Name = Callable[[Sequence[str | None]], tuple[str, str]]
"""Name and unit of a metric, from the values of the columns that identify it."""


def rank_figures(tables: Tables) -> list[RankFigure]:
    """Return the metrics that several ranks of a run print, table by table, each in the order of the names."""
    found: list[RankFigure] = []
    for name in _STEP_FIGURES:
        found += _figures(tables, "steps", name, (), _named(name, "steps"))
    traced = tables.counts("events")  # their ranks annotate when they launch a step: none is slower by that
    found = [figure for figure in found if figure.run not in traced]
    found += _figures(tables, "phases", "time_s", ("phase",), lambda words: (words[0] or "", "s"))
    values = _figures(tables, "values", "value", ("key", "unit"), lambda words: (words[0] or "", words[1] or ""))
    found += (figure for figure in values if not names_an_extreme(figure.figure))
    for name in _COLLECTIVE_FIGURES:
        found += _figures(tables, "collectives", name, ("op", "buffer"), _named(name, "collectives"), ("bytes",))
    return found


def _named(column: str, table: str) -> _Name:
    unit = next(each.unit for each in TABLES[table] if each.name == column)
    return lambda words: (" ".join([*filter(None, words), column]), unit)


def _figures(
    tables: Tables, table: str, column: str, words: Sequence[str], name: _Name, numbers: Sequence[str] = ()
) -> Iterator[RankFigure]:
    """Yield the metrics of a column: one for each run, combination of words, and combination of other numbers."""
    pieces = tables.in_pieces(table)
    found = [
        each for piece in pieces for each in _figures_of_rows(piece.rows(table), table, column, words, name, numbers)
    ]
    place = {run: place for place, run in enumerate(tables.rows(table).codes("run")[1])} if found else {}
    yield from sorted(found, key=lambda figure: place[figure.run])


def _figures_of_rows(
    rows: Rows, table: str, column: str, words: Sequence[str], name: _Name, numbers: Sequence[str]
) -> Iterator[RankFigure]:
    rows = rows.where(rows.known("rank") | rows.known("source"))
    rows = rows.where(rows.known(column))
    rows = rows.where(np.isfinite(rows[column]) & ~are_moments(rows[column]))
    if not len(rows):
        return
    sources, names = rows.codes("source")
    ranks = np.where(rows.known("rank"), rows["rank"], -1 - sources)  # of a source a number below 0
    steps, runs = _steps(rows, table), rows.codes("run")[1]
    figures = groups_of(rows.codes("run")[0], *(rows.codes(w)[0] for w in words), *(rows[n] for n in numbers))
    order = np.lexsort((rows["line"], steps, ranks, figures.inverse))
    cells = groups_of(figures.inverse, ranks, steps)
    times = np.empty(len(rows), np.int64)  # k for the k-th row of its rank at its step
    in_order = cells.inverse[order]
    starts = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1]))
    times[order] = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
    bounds = np.append(0, np.cumsum(figures.sizes))
    by_figure = np.argsort(figures.inverse, kind="stable")
    values, codes = rows[column], [rows.codes(word) for word in words]
    run_codes = rows.codes("run")[0]
    for figure, first in enumerate(figures.first.tolist()):
        places = by_figure[bounds[figure] : bounds[figure + 1]]
        matrix = _matrix(ranks[places], steps[places], times[places], values[places])
        if matrix is None:
            continue
        title, unit = name([texts[code[first]] if code[first] >= 0 else None for code, texts in codes])
        title = " ".join([title, *(show(float(rows[n][first]), "B") for n in numbers if rows[n][first] != NULL)])
        members = tuple(str(number) if number >= 0 else names[-1 - number] for number in matrix[0])
        yield RankFigure(runs[run_codes[first]], table, title, unit, members, matrix[1])


def _steps(rows: Rows, table: str) -> Ints:
    """The step of each row; the same for all rows of a table without steps."""
    return np.zeros(len(rows), np.int64) if table == "collectives" else rows["step"]


def _matrix(ranks: Ints, steps: Ints, times: Ints, values: Floats) -> tuple[tuple[int, ...], Floats] | None:
    """Return the ranks, and their values by rank and row. A row is a step, or the k-th value of each rank in it.

    None if fewer than two ranks print the metric. Rows that fewer than half of the ranks print are left out.
    """
    members, member_index = np.unique(ranks, return_inverse=True)
    if len(members) < 2:
        return None
    rows = groups_of(steps, times)
    usual = rows.sizes >= max(2, len(members) / 2)
    if not usual.any():
        return None
    place = np.cumsum(usual) - 1
    kept = usual[rows.inverse]
    matrix = np.full((len(members), int(usual.sum())), np.nan)
    matrix[member_index[kept], place[rows.inverse[kept]]] = values[kept]
    printing = ~np.isnan(matrix).all(axis=1)
    if printing.sum() < 2:
        return None
    return tuple(members[printing].tolist()), matrix[printing]
