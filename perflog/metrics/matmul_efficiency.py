"""What a rank computes in the time of its phases, beside plain matrix products; and where the rest of the step goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.formats.model import Rate
from perflog.metrics.phase_table import RunRows, rank_means, run_rows
from perflog.metrics.phases import phases, with_wholes
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.semantics import evaluate

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn(
        "part", meaning="work: a declared rate; phase: a phase with none inside it; rest: what no phase explains"
    ),
    MetricColumn("what", meaning="name of the rate; of the phase; of what it is the rest"),
    MetricColumn("rank", meaning="rank; null: mean over the ranks"),
    MetricColumn(
        "of", meaning="of a rate, the phases whose time it takes; of a phase, what it is part of", brief=False
    ),
    MetricColumn("time_s", "s", "lower", "median over the steady steps of that time"),
    MetricColumn("share", "1", None, "time_s over the median step time; those of phases and rests make about 1"),
    MetricColumn("work_flop", "FLOP", None, "work of a rank in a step, as declared", brief=False),
    MetricColumn("tflops", "TFLOP/s", "higher", "work_flop / time_s"),
    MetricColumn(
        "plain_tflops", "TFLOP/s", "higher", "plain matrix products of the same shapes, as the ranks measured them"
    ),
    MetricColumn("ratio", "1", "higher", "tflops / plain_tflops: the part of the time that plain products would take"),
    MetricColumn("n", meaning="steady steps"),
    MetricColumn("first_step", meaning="first steady step"),
    MetricColumn("last_step", meaning="last steady step"),
)


@metric(
    title="work beside plain matrix products",
    needs=("phases",),
    columns=_COLUMNS,
    main="ratio",
    formula="TFLOP/s = declared FLOP of a rank in a step / median time of its phases; ratio = that / the rate of plain "
    "products of the same shapes, from mean times where they are measured again; over the ranks: mean time, harmonic "
    "mean of the plain rates",
    source="work, phases and plain products: the format's [[rate]] entries; the split of the step: metric phases",
)
def products(tables: Tables, options: Options) -> pd.DataFrame:
    """Rates of the declared work of each run beside plain matrix products, then the split of its step."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    needed = {"runs": tables["runs"], "steps": tables["steps"], "phases": with_wholes(tables)}
    values, split = tables.by_run("values"), phases.table(tables, options)
    for part in run_rows(needed, "phases", "time_s", options.warmup):
        plain = _by_rank(values.get(part.run))
        found = [row for rate in part.means.rates for row in _of_rate(rate, part, plain)]
        if any("plain_tflops" in row for row in found):
            rows += [{"run": part.run, "label": part.label, **row} for row in found]
            rows += _split(split[split["run"] == part.run])
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype({"rank": "Int64"})


def _by_rank(values: pd.DataFrame | None) -> dict[int, dict[str, float]]:
    """What each rank says of itself in table `values` beside the steps, by name: means, where it says so again."""
    found: dict[int, dict[str, float]] = {}
    if values is not None:
        own = values[values["step"].isna() & values["rank"].notna() & values["value"].notna()]
        for (rank, key), number in own.groupby(["rank", "key"])["value"].mean().items():
            found.setdefault(int(rank), {})[key] = float(number)
    return found


def _of_rate(rate: Rate, part: RunRows, plain: Mapping[int, Mapping[str, float]]) -> Iterator[dict[str, Any]]:
    """The rate over the ranks, then of each rank; nothing where its work or its time is not known."""
    work = evaluate(rate.work, part.means.numbers)
    rows = part.steady[part.steady["phase"].isin(rate.of)]
    if work is None or not work > 0 or not len(rows):
        return
    over = rank_means(rows, part.world)[0]
    times: dict[int | None, pd.Series[float]] = {None: over}
    known = rows[rows["rank"].notna()]
    times |= {int(rank): mine.groupby("step")["time_s"].sum() for rank, mine in known.groupby("rank")}
    rates: dict[int | None, float] = {}
    for who, said in plain.items():
        if rate.plain is not None and (found := evaluate(rate.plain, {**part.means.numbers, **said})) and found > 0:
            rates[who] = found
    if rates:
        rates[None] = len(rates) / sum(1 / each for each in rates.values())
    for rank, spent in times.items():
        if len(spent):
            yield _row(rate, part, rank, spent, work, rates.get(rank))


def _row(
    rate: Rate, part: RunRows, rank: int | None, spent: pd.Series[float], work: float, plain: float | None
) -> dict[str, Any]:
    time = float(np.median(spent))
    row: dict[str, Any] = {"part": "work", "what": rate.name, "rank": rank, "of": ", ".join(rate.of)}
    row |= {"time_s": time, "share": time / part.step_s, "work_flop": work, "n": len(spent)}
    row |= {"first_step": int(spent.index[0]), "last_step": int(spent.index[-1])}
    if time > 0:
        row["tflops"] = work / time / 1e12
        if plain is not None:
            row |= {"plain_tflops": plain / 1e12, "ratio": work / time / plain}
    return row


def _split(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """What a step's time is made of, in its order: the phases with none inside them, over the ranks, and the rests.

    A rest that is known of single ranks only is given for each of them.
    """
    table = table[~table["hidden"].astype(bool) & table["mean_s"].notna()]
    rest, over = table["part"] == "rest", table["rank"].isna()
    split, pooled = table["phase"].isin(table["phase"][rest]), table["phase"].isin(table["phase"][rest & over])
    kept = table[(~rest & over & ~split) | (rest & (over | ~pooled))]
    kept = kept.assign(part=kept["part"].where(kept["part"] == "rest", "phase"))
    kept = kept.rename(columns={"phase": "what", "parent": "of", "mean_s": "time_s"})
    yield from kept[[c.name for c in _COLUMNS if c.name in kept]].to_dict("records")
