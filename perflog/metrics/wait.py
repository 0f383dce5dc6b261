"""Exposed against hidden time: what a step waits for, and what of it runs beside the step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.phase_table import RunRows, rank_means, run_rows
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("phase", meaning="phase of kind wait"),
    MetricColumn("exposes", meaning="the phase beside the step that it waits for, as declared; null: not declared"),
    MetricColumn("rank", meaning="rank; null: mean over the ranks"),
    MetricColumn("exposed_s", "s", "lower", "median over the steady steps of the time waited"),
    MetricColumn("hidden_s", "s", "higher", "the same of: time of the phase waited for - time waited"),
    MetricColumn("total_s", "s", "lower", "the same of the time of the phase waited for"),
    MetricColumn("hidden_share", "1", "higher", "the same of: hidden / total"),
    MetricColumn("share", "1", "lower", "exposed_s over the median step time"),
    MetricColumn(
        "waits_least",
        "1",
        None,
        "share of the steps in which this rank alone waits least. Where ranks wait for "
        "one another it is the straggler; where the wait is for the rank's own phase, that phase is hidden best there",
    ),
    MetricColumn("waits_most", "1", None, "share of the steps in which this rank alone waits most"),
    MetricColumn("n", meaning="steady steps"),
    MetricColumn("first_step", meaning="first steady step"),
    MetricColumn("last_step", meaning="last steady step"),
)


@metric(
    title="exposed and hidden time",
    needs=("phases",),
    columns=_COLUMNS,
    main="exposed_s",
    formula="exposed = time of a wait phase; hidden = time of the phase it exposes - exposed; medians",
    source="what is a wait, and for what: the format's [[phase]] entries, kind and exposes; warm-up: metric steps",
)
def wait(tables: Tables, options: Options) -> pd.DataFrame:
    """Exposed and hidden time of each wait phase, by rank and over the ranks."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for part in run_rows(tables, "phases", "time_s", options.warmup):
        for steps in _steps(part):
            rows += _medians(steps[steps["steady"]], part)
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype({"rank": "Int64"})


def wait_steps(tables: Mapping[str, pd.DataFrame], warmup: int | None = None) -> pd.DataFrame:
    """The same step by step: run, label, phase, exposes, step, rank (null: mean over the ranks), exposed_s, hidden_s,
    total_s, steady. All steps are there; those of the warm-up are not steady.
    """
    import pandas as pd

    names = ["run", "label", "phase", "exposes", "step", "rank", "exposed_s", "hidden_s", "total_s", "steady"]
    found = [steps for part in run_rows(tables, "phases", "time_s", warmup) for steps in _steps(part)]
    table = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=names)
    return table.astype({"rank": "Int64"})[names]


def _steps(part: RunRows) -> Iterator[pd.DataFrame]:
    """Step by step, each wait phase of a run."""
    import pandas as pd

    rows = part.phase_table
    for name, phase in part.means.phases.items():
        waits = rows[rows["phase"] == name]
        if phase.kind != "wait" or not len(waits):
            continue
        whole = rows[rows["phase"] == phase.exposes]
        by_rank = _joined(*(some.groupby(["step", "rank"])["time_s"].sum() for some in (waits, whole)))
        (exposed, ranks), (total, others) = rank_means(waits, part.world), rank_means(whole, part.world)
        over = _joined(exposed, total[others.reindex(total.index) == ranks.reindex(total.index)])
        found = pd.concat([by_rank.reset_index(), over.reset_index().assign(rank=np.nan)], ignore_index=True)
        yield found.assign(
            run=part.run, label=part.label, phase=name, exposes=phase.exposes, steady=found["step"] >= part.first
        )


def _joined(exposed: pd.Series[float], total: pd.Series[float]) -> pd.DataFrame:
    total = total.reindex(exposed.index)
    return exposed.to_frame("exposed_s").assign(total_s=total, hidden_s=total - exposed)


def _medians(steps: pd.DataFrame, part: RunRows) -> Iterator[dict[str, Any]]:
    """Medians over the steps, over the ranks first, then of each rank."""
    least, most = _alone(steps, "min"), _alone(steps, "max")
    for rank, group in sorted(steps.groupby("rank", dropna=False), key=lambda pair: np.nan_to_num(pair[0], nan=-1)):
        row: dict[str, Any] = {name: group[name].iloc[0] for name in ("run", "label", "phase", "exposes")}
        row |= {name: group[name].median() for name in ("exposed_s", "hidden_s", "total_s")}
        row |= {"hidden_share": (group["hidden_s"] / group["total_s"]).median()}
        row |= {"rank": None if rank != rank else rank, "share": row["exposed_s"] / part.step_s, "n": len(group)}
        row |= {"waits_least": least.get(rank), "waits_most": most.get(rank)}
        yield row | {"first_step": int(group["step"].min()), "last_step": int(group["step"].max())}


def _alone(steps: pd.DataFrame, which: str) -> dict[float, float]:
    """Share of the steps, of those that all ranks are in, in which a rank alone has the least or the most."""
    ranked = steps[steps["rank"].notna()]
    grid = ranked.pivot(index="step", columns="rank", values="exposed_s").dropna()
    if not len(grid) or len(grid.columns) < 2:
        return {}
    extreme = grid.eq(grid.agg(which, axis=1), axis=0)
    shares = extreme[extreme.sum(axis=1) == 1].sum() / len(grid)
    return dict(zip(shares.index, shares, strict=True))
