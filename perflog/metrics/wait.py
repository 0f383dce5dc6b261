"""Exposed and hidden time of waits in logs: the phases that a step waits for, and their part in parallel to the step.

For waiting in the collectives of traces see `perflog.metrics.traces.collective_wait`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.phase_table import phase_tables
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.run_rows import RunRows, rank_means
from perflog.tables.nulls import int_or_none

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("phase", meaning="phase of kind wait"),
    MetricColumn("exposes", meaning="hidden phase that it waits for, as declared; null: not declared"),
    MetricColumn("rank", meaning="rank; null: mean over the ranks"),
    MetricColumn("exposed_s", "s", "lower", "time waited, median over the steady steps"),
    MetricColumn("hidden_s", "s", "higher", "time of the phase waited for - time waited, median"),
    MetricColumn("total_s", "s", "lower", "time of the phase waited for, median"),
    MetricColumn("hidden_share", "1", "higher", "hidden / total, median"),
    MetricColumn("share", "1", "lower", "exposed_s / median step time"),
    MetricColumn(
        "waits_least",
        "1",
        None,
        "share of the steps in which only this rank waits least. If ranks wait for one another, it is the straggler; "
        "if each waits for a phase of its own, this rank hides the phase best",
    ),
    MetricColumn("waits_most", "1", None, "share of the steps in which only this rank waits most"),
    MetricColumn("n", meaning="number of steady steps"),
    MetricColumn("first_step", meaning="first steady step"),
    MetricColumn("last_step", meaning="last steady step"),
)


@metric(
    title="exposed and hidden time",
    needs=("phases",),
    columns=_COLUMNS,
    main="exposed_s",
    formula="exposed = time of a wait phase; hidden = time of the phase it exposes - exposed; medians",
    source="kind and exposes of the format's [[phase]] entries; warm-up: metric steps",
)
def wait(tables: Tables, options: Options) -> pd.DataFrame:
    """Exposed and hidden time of each wait phase, over the ranks and by rank.

    Example:
        >>> table = perflog.metrics.wait(perflog.read("run.txt"))
        >>> table[["rank", "exposed_s", "hidden_s", "hidden_share"]].head(2).round(4)
           rank  exposed_s  hidden_s  hidden_share
        0  <NA>     0.0022    0.0019        0.5191
        1     0     0.0023    0.0018        0.4272
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for run, table in phase_tables(tables, options.warmup):
        for steps in _steps(run, table):
            rows += _medians(steps[steps["steady"]], run)
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype({"rank": "Int64"})


def wait_steps(tables: Mapping[str, pd.DataFrame], warmup: int | None = None) -> pd.DataFrame:
    """Return exposed and hidden time of each wait phase, step by step.

    Columns: run, label, phase, exposes, step, rank (null: mean over the ranks), exposed_s, hidden_s, total_s, steady.
    The steps of the warm-up are included; they are not steady.
    """
    import pandas as pd

    names = ["run", "label", "phase", "exposes", "step", "rank", "exposed_s", "hidden_s", "total_s", "steady"]
    tables_of_steps = [steps for run, table in phase_tables(tables, warmup) for steps in _steps(run, table)]
    result = pd.concat(tables_of_steps, ignore_index=True) if tables_of_steps else pd.DataFrame(columns=names)
    return result.astype({"rank": "Int64"})[names]


def _steps(run: RunRows, table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Times of each wait phase of a run by step, on each rank and as means over the ranks. `table`: its phase table."""
    import pandas as pd

    for name, phase in run.semantics.phases.items():
        waits = table[table["phase"] == name]
        if phase.kind != "wait" or not len(waits):
            continue
        awaited = table[table["phase"] == phase.exposes]
        by_rank = _times(*(rows.groupby(["step", "rank"])["time_s"].sum() for rows in (waits, awaited)))
        (exposed, ranks), (total, others) = rank_means(waits, run.world), rank_means(awaited, run.world)
        means = _times(exposed, total[others.reindex(total.index) == ranks.reindex(total.index)])
        steps = pd.concat([by_rank.reset_index(), means.reset_index().assign(rank=np.nan)], ignore_index=True)
        yield steps.assign(
            run=run.run, label=run.label, phase=name, exposes=phase.exposes, steady=steps["step"] >= run.first
        )


def _times(exposed: pd.Series[float], total: pd.Series[float]) -> pd.DataFrame:
    """Exposed, total and hidden time; null if the phase waited for is not printed."""
    total = total.reindex(exposed.index)
    return exposed.to_frame("exposed_s").assign(total_s=total, hidden_s=total - exposed)


def _medians(steps: pd.DataFrame, run: RunRows) -> Iterator[dict[str, Any]]:
    """Rows of the metric: medians over the steps, of the means over the ranks first, then of each rank."""
    least, most = _extreme_shares(steps, "min"), _extreme_shares(steps, "max")
    for rank, group in sorted(steps.groupby("rank", dropna=False), key=lambda pair: np.nan_to_num(pair[0], nan=-1)):
        row: dict[str, Any] = {name: group[name].iloc[0] for name in ("run", "label", "phase", "exposes")}
        row |= {name: group[name].median() for name in ("exposed_s", "hidden_s", "total_s")}
        row |= {"hidden_share": (group["hidden_s"] / group["total_s"]).median()}
        row |= {"rank": int_or_none(rank), "share": row["exposed_s"] / run.step_s, "n": len(group)}
        row |= {"waits_least": least.get(rank), "waits_most": most.get(rank)}
        yield row | {"first_step": int(group["step"].min()), "last_step": int(group["step"].max())}


def _extreme_shares(steps: pd.DataFrame, which: str) -> dict[float, float]:
    """Share of the steps in which only this rank waits least (min) or most (max), of the steps with all ranks."""
    ranked = steps[steps["rank"].notna()]
    grid = ranked.pivot(index="step", columns="rank", values="exposed_s").dropna()
    if not len(grid) or len(grid.columns) < 2:
        return {}
    extreme = grid.eq(grid.agg(which, axis=1), axis=0)
    shares = extreme[extreme.sum(axis=1) == 1].sum() / len(grid)
    return dict(zip(shares.index, shares, strict=True))
