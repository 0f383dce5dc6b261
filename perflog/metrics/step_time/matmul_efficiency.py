"""Matmul efficiency: the work of phases against plain matrix products of the same shapes, and the split of the step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Floats, Ints
from perflog.formats.expressions import Expression
from perflog.formats.model import Rate
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_rows import SteadyRun, rank_means, worlds_of
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.semantics import evaluate
from perflog.metrics.step_time.phase_table import PhaseTable, times_on_ranks
from perflog.metrics.step_time.phases import phases, rows_with_wholes
from perflog.statistics.groups import groups_of
from perflog.tables.columns import Rows
from perflog.tables.nulls import as_types, row_dicts

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("part", meaning="work: a declared rate; phase: one without phases inside; rest: unattributed time"),
    MetricColumn("what", meaning="name of the rate or phase; of a rest: the parent with this unattributed time"),
    MetricColumn("rank", meaning="rank; null: mean over the ranks", type="Int64"),
    MetricColumn("of", meaning="of a rate: the phases that it is measured over; of a phase: its parent", brief=False),
    MetricColumn("time_s", "s", "lower", "median of this time over the steady steps; over the ranks: of their mean"),
    MetricColumn("share", "1", None, "time_s / median step time; phases and rests, if all are known, add up to 1"),
    MetricColumn("work_flop", "FLOP", None, "work of a rank in a step, as declared", brief=False),
    MetricColumn("tflops", "TFLOP/s", "higher", "work_flop / time_s"),
    MetricColumn("plain_tflops", "TFLOP/s", "higher", "rate of plain matrix products of the same shapes, as measured"),
    MetricColumn("ratio", "1", "higher", "tflops / plain_tflops: the part of the time that plain products would take"),
    MetricColumn("n", meaning="number of steady steps"),
    MetricColumn("first_step", meaning="first steady step"),
    MetricColumn("last_step", meaning="last steady step"),
)


@metric(
    title="matmul efficiency: declared work against plain matrix products",
    needs=("phases",),
    columns=_COLUMNS,
    main="ratio",
    formula="TFLOP/s = declared FLOP of a rank in a step / median time of its phases; ratio = TFLOP/s / rate of plain "
    "products of the same shapes, from mean times if they are measured several times; over the ranks: mean time, "
    "harmonic mean of the plain rates",
    source="work, phases and plain products: the format's [[rate]] entries; split of the step: metric phases",
)
def matmul_efficiency(tables: Tables, options: Options) -> MetricRows:
    """Rates of the declared work of each run against plain matrix products, then the split of its step.

    Example:
        >>> log = perflog.find_runs("reference:moe-layer.cpu.log")
        >>> table = perflog.metrics.matmul_efficiency(log)
        >>> table.query("part == 'work' and rank.isna()")[["what", "tflops", "plain_tflops", "ratio"]].head(1)
                               what  tflops  plain_tflops  ratio
        ...
    """
    rates = work_rates(tables, options)
    if rates is None:
        return []
    phase_rows = phases.table(tables.only(rates["run"].unique()), options)
    splits = dict(iter(phase_rows.groupby("run", sort=False)))
    step_s = {run.run: run.step_s for table in rows_with_wholes(tables, options.warmup) for run in table.runs}
    rows: list[dict[str, object]] = []
    for run, run_rates in rates.groupby("run", sort=False):
        rows += [*run_rates.to_dict("records"), *_split(splits.get(run, phase_rows[:0]), step_s[str(run)])]
    return rows


@computed_once
def work_rates(tables: Tables, options: Options) -> pd.DataFrame | None:
    """Return the rows of the metric that are declared rates, of the runs that measure plain matrix products, if any."""
    rows: list[dict[str, object]] = []
    declared = (
        (run, table.rows_in(run_index))
        for table in rows_with_wholes(tables, options.warmup)
        for run_index, run in enumerate(table.runs)
        if run.semantics.rates
    )
    for run, steady in declared:
        measured = _values_of_ranks(tables.rows_of("values", run.run))
        if not measured:
            continue
        rates = [row for rate in run.semantics.rates for row in _rate_rows(rate, run, steady, measured)]
        if any("plain_tflops" in row for row in rates):
            rows += [{"run": run.run, **row} for row in rates]
    if not rows:
        return None
    import pandas as pd

    return as_types(pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]), {"rank": "Int64"})


def _values_of_ranks(values: Rows) -> dict[int, dict[str, float]]:
    """Return the values that each rank prints outside of the steps, by key: the mean if a key is printed again."""
    by_rank: dict[int, dict[str, float]] = {}
    rows = values.where(~values.known("step") & values.known("rank", "value"))
    keys, words = rows.codes("key")
    ranks = rows["rank"]
    groups = groups_of(ranks, keys)
    for row, mean in zip(groups.first.tolist(), groups.means(rows["value"]).tolist(), strict=True):
        by_rank.setdefault(int(ranks[row]), {})[words[keys[row]]] = mean
    return by_rank


def _rate_rows(
    rate: Rate, run: SteadyRun, table: PhaseTable, measured: Mapping[int, Mapping[str, float]]
) -> Iterator[dict[str, object]]:
    """Rows of a rate, over the ranks and of each rank. No rows if its work or its time is not known.

    `table`: the rows of the run in its steady steps.
    """
    numbers = run.semantics.numbers
    work = _first_known(rate.work, numbers)
    rows = table.where(np.any([table.named(name) for name in rate.of], axis=0))
    if work is None or not work > 0 or not len(rows):
        return
    means = rank_means(rows.run_index, rows.step, rows.printed_rank, rows.time_s, worlds_of(rows.runs))
    times: dict[int | None, tuple[Ints, Floats]] = {None: (means.step, means.time_s)}
    _, steps, ranks, seconds = times_on_ranks(rows, rows.printed_rank)
    times |= {rank: (steps[ranks == rank], seconds[ranks == rank]) for rank in np.unique(ranks).tolist()}
    plain_rates: dict[int | None, float] = {}
    for measuring_rank, values in measured.items():
        plain = _first_known(rate.plain, {**numbers, **values})
        if plain is not None and plain > 0:
            plain_rates[measuring_rank] = plain
    if plain_rates:
        plain_rates[None] = len(plain_rates) / sum(1 / each for each in plain_rates.values())
    for rank, spent in times.items():
        if len(spent[0]):  # no step may have a row of each rank
            yield _row(rate, run, rank, spent, work, plain_rates.get(rank))


def _first_known(expressions: Iterable[Expression], numbers: Mapping[str, float]) -> float | None:
    """Return the value of the first expression that all numbers are known of."""
    return next((value for each in expressions if (value := evaluate(each, numbers)) is not None), None)


def _row(
    rate: Rate, run: SteadyRun, rank: int | None, spent: tuple[Ints, Floats], work: float, plain: float | None
) -> dict[str, object]:
    """Row of a rate on a rank (None: over the ranks). `spent`: steps and times; `work` in FLOP; `plain` in FLOP/s."""
    steps, seconds = spent
    time = float(np.median(seconds))
    row: dict[str, object] = {"part": "work", "what": rate.name, "rank": rank, "of": ", ".join(rate.of)}
    row |= {"time_s": time, "share": time / run.step_s, "work_flop": work, "n": len(steps)}
    row |= {"first_step": int(steps[0]), "last_step": int(steps[-1])}
    if time > 0:
        row["tflops"] = work / time / 1e12
        if plain is not None:
            row |= {"plain_tflops": plain / 1e12, "ratio": work / time / plain}
    return row


def _split(table: pd.DataFrame, step_s: float) -> Iterator[dict[str, object]]:
    """Yield the parts of a step's time, in its order: the innermost phases over the ranks, and unattributed time.

    If unattributed time is known only for single ranks, each rank has a row. Means add up, as medians do not.
    """
    parents = table["phase"][table["part"] == "rest"]  # also where only bounds of the rest are known
    table = table[~table["hidden"].astype(bool) & table["mean_s"].notna()]
    unattributed, pooled = table["part"] == "rest", table["rank"].isna()
    is_parent = table["phase"].isin(parents)
    has_pooled_rest = table["phase"].isin(table["phase"][unattributed & pooled])
    rows = table[(~unattributed & pooled & ~is_parent) | (unattributed & (pooled | ~has_pooled_rest))]
    rows = rows.assign(part=rows["part"].where(rows["part"] == "rest", "phase"), share=rows["mean_s"] / step_s)
    rows = rows.rename(columns={"phase": "what", "parent": "of", "mean_s": "time_s"})
    yield from row_dicts(rows[[c.name for c in _COLUMNS if c.name in rows]])
