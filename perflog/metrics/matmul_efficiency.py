"""Matmul efficiency: the work of phases against plain matrix products of the same shapes, and the split of the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.formats.model import Rate
from perflog.metrics.options import Options
from perflog.metrics.phases import phases, rows_with_wholes
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, metric
from perflog.metrics.run_rows import RunRows, rank_means
from perflog.metrics.run_tables import Tables, cached
from perflog.metrics.semantics import evaluate

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("part", meaning="work: a declared rate; phase: one without phases inside; rest: unattributed time"),
    MetricColumn("what", meaning="name of the rate or phase; of a rest: the parent with this unattributed time"),
    MetricColumn("rank", meaning="rank; null: mean over the ranks"),
    MetricColumn("of", meaning="of a rate: the phases that it is measured over; of a phase: its parent", brief=False),
    MetricColumn("time_s", "s", "lower", "median of this time over the steady steps"),
    MetricColumn("share", "1", None, "time_s / median step time; phases and rests add up to about 1"),
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
def matmul_efficiency(tables: Tables, options: Options) -> pd.DataFrame:
    """Rates of the declared work of each run against plain matrix products, then the split of its step.

    Example:
        >>> log = perflog.find_runs("reference:moe-layer.cpu.log")
        >>> table = perflog.metrics.matmul_efficiency(log)
        >>> table.query("part == 'work' and rank.isna()")[["what", "tflops", "plain_tflops", "ratio"]].head(1)
                               what  tflops  plain_tflops  ratio
        ...
    """
    import pandas as pd

    rates = work_rates(tables, options)
    phase_rows = phases.table(tables.only(rates["run"].unique()), options)
    splits = dict(iter(phase_rows.groupby("run", sort=False)))
    rows: list[dict[str, Any]] = []
    for run, run_rates in rates.groupby("run", sort=False):
        rows += [*run_rates.to_dict("records"), *_split(splits.get(run, phase_rows[:0]))]
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype({"rank": "Int64"})


def work_rates(tables: Tables, options: Options) -> pd.DataFrame:
    """Return the rows of the metric that are declared rates, of the runs that measure plain matrix products."""
    return cached(tables, ("work rates", options), lambda: _work_rates(tables, options))


def _work_rates(tables: Tables, options: Options) -> pd.DataFrame:
    import pandas as pd

    rows: list[dict[str, Any]] = []
    declared = [run for run in rows_with_wholes(tables, options.warmup) if run.semantics.rates]
    values = tables.by_run("values") if declared else {}
    for run in declared:
        measured = _values_of_ranks(values.get(run.run))
        rates = [row for rate in run.semantics.rates for row in _rate_rows(rate, run, measured)] if measured else []
        if any("plain_tflops" in row for row in rates):
            rows += [{"run": run.run, "label": run.label, **row} for row in rates]
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype({"rank": "Int64"})


def _values_of_ranks(values: pd.DataFrame | None) -> dict[int, dict[str, float]]:
    """Return the values that each rank prints outside of the steps, by key: the mean if a key is printed again."""
    by_rank: dict[int, dict[str, float]] = {}
    if values is not None:
        rows = values[values["step"].isna() & values["rank"].notna() & values["value"].notna()]
        for (rank, key), number in rows.groupby(["rank", "key"])["value"].mean().items():
            by_rank.setdefault(int(rank), {})[key] = float(number)
    return by_rank


def _rate_rows(rate: Rate, run: RunRows, measured: Mapping[int, Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    """Rows of a rate, over the ranks and of each rank. No rows if its work or its time is not known."""
    numbers = run.semantics.numbers
    work = evaluate(rate.work, numbers)
    rows = run.steady[run.steady["phase"].isin(rate.of)]
    if work is None or not work > 0 or not len(rows):
        return
    times: dict[int | None, pd.Series[float]] = {None: rank_means(rows, run.world)[0]}
    known = rows[rows["rank"].notna()]
    times |= {int(rank): group.groupby("step")["time_s"].sum() for rank, group in known.groupby("rank")}
    plain_rates: dict[int | None, float] = {}
    for measuring_rank, values in measured.items():
        plain = None if rate.plain is None else evaluate(rate.plain, {**numbers, **values})
        if plain is not None and plain > 0:
            plain_rates[measuring_rank] = plain
    if plain_rates:
        plain_rates[None] = len(plain_rates) / sum(1 / each for each in plain_rates.values())
    for rank, spent in times.items():
        if len(spent):
            yield _row(rate, run, rank, spent, work, plain_rates.get(rank))


def _row(
    rate: Rate, run: RunRows, rank: int | None, spent: pd.Series[float], work: float, plain: float | None
) -> dict[str, Any]:
    """Row of a rate on a rank (None: over the ranks). `spent`: time by step; `work` in FLOP; `plain` in FLOP/s."""
    time = float(np.median(spent))
    row: dict[str, Any] = {"part": "work", "what": rate.name, "rank": rank, "of": ", ".join(rate.of)}
    row |= {"time_s": time, "share": time / run.step_s, "work_flop": work, "n": len(spent)}
    row |= {"first_step": int(spent.index[0]), "last_step": int(spent.index[-1])}
    if time > 0:
        row["tflops"] = work / time / 1e12
        if plain is not None:
            row |= {"plain_tflops": plain / 1e12, "ratio": work / time / plain}
    return row


def _split(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the parts of a step's time, in its order: the innermost phases over the ranks, and unattributed time.

    If unattributed time is known only for single ranks, each rank has a row.
    """
    table = table[~table["hidden"].astype(bool) & table["mean_s"].notna()]
    unattributed, pooled = table["part"] == "rest", table["rank"].isna()
    is_parent = table["phase"].isin(table["phase"][unattributed])
    has_pooled_rest = table["phase"].isin(table["phase"][unattributed & pooled])
    rows = table[(~unattributed & pooled & ~is_parent) | (unattributed & (pooled | ~has_pooled_rest))]
    rows = rows.assign(part=rows["part"].where(rows["part"] == "rest", "phase"))
    rows = rows.rename(columns={"phase": "what", "parent": "of", "mean_s": "time_s"})
    yield from rows[[c.name for c in _COLUMNS if c.name in rows]].to_dict("records")
