"""Communication: phases that move data, their time against the share of their work that lies on other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.phase_table import (
    RunRows,
    is_hidden,
    lineage,
    medians_over_steps,
    rank_means,
    run_rows,
    step_figures,
)
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.statistics.samples import Floats

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("part", meaning="phase; total: of all phases of kind communication; fit: time against remote share"),
    MetricColumn("phase", meaning="name of the phase: of kind communication, or one whose remote share is printed"),
    MetricColumn("occurrence", meaning="k-th time in the step on its rank; null: not known which"),
    MetricColumn("rank", meaning="rank; null: over the ranks"),
    MetricColumn("kind", meaning="as declared; the time of a mixed phase is not of communication alone"),
    MetricColumn("hidden", meaning="it runs beside the step; totals of the step and beside it are apart"),
    MetricColumn(
        "time_s", "s", "lower", "median over the steady steps; over the ranks: of the step's median (total: mean)"
    ),
    MetricColumn(
        "remote_share", "1", "lower", "the same of the share of its work that lies on other ranks, as printed"
    ),
    MetricColumn("share", "1", "lower", "time_s over the median step time; null for what is hidden"),
    MetricColumn("n", meaning="steady steps; of a fit: points, one for each rank (of each run, where run is null)"),
    MetricColumn("first_step", meaning="first steady step"),
    MetricColumn("last_step", meaning="last steady step"),
    MetricColumn("slope_s", "s", None, "of a fit: time for all remote over time for nothing remote, least squares"),
    MetricColumn("base_s", "s", None, "of a fit: time for nothing remote, by the same line", brief=False),
    MetricColumn("rho", "", None, "of a fit: rank correlation of time and remote share"),
    MetricColumn(
        "rho_load", "", None, "rank correlation of time and load: if it is the stronger, load explains the time"
    ),
    MetricColumn(
        "rho_both", "", None, "rank correlation of remote share and load: near 1, fits cannot tell the two apart"
    ),
    MetricColumn("slope_at_load_s", "s", None, "slope at equal load: least squares on both, from 6 points on"),
)
_LEAST = {1: 3, 2: 6}
"""Points a fit must have, by the number of things it is on: fewer say nothing of scatter."""


@metric(
    title="communication",
    needs=("phases",),
    columns=_COLUMNS,
    main="time_s",
    formula="median times; fit: least squares of the ranks' median times on their median remote shares; rho: Spearman",
    source="what communicates: the format's [[phase]] entries, and the remote_share it prints; warm-up: metric steps",
)
def communication(tables: Tables, options: Options) -> pd.DataFrame:
    """Communicating phases of each run by rank, their sum, and time against remote share within and across runs."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    points: list[pd.DataFrame] = []
    loads = _loads(tables, options.warmup)
    for part in run_rows(tables, "phases", "time_s", options.warmup):
        steady = part.phase_table
        steady = steady[steady["step"] >= part.first]
        found = [*_phases(steady, part), *_totals(steady, part)]
        mine = _points(found, loads.get(part.run, {})).assign(format=part.means.format and part.means.format.name)
        rows += [{"run": part.run, "label": part.label, **row} for row in (*found, *_fits(mine))]
        points.append(mine)
    several = [mine for mine in points if len(mine)]
    if len(several) > 1:
        rows += _fits(pd.concat(several, ignore_index=True))
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype({"occurrence": "Int64", "rank": "Int64"})


def _loads(tables: Tables, warmup: int | None) -> dict[str, dict[int, float]]:
    """For each run that prints loads of ranks in one unit, the median load of each rank."""
    found = {}
    for part in run_rows(tables, "loads", "amount", warmup):
        rows = part.steady[part.steady["expert"].isna()]
        if rows["unit"].nunique(dropna=False) == 1:
            medians = rows.groupby("rank")["amount"].median()
            found[part.run] = {int(rank): float(load) for rank, load in medians.items()}
    return found


def _phases(rows: pd.DataFrame, part: RunRows) -> Iterator[dict[str, Any]]:
    """Each phase that communicates or has a remote share, over the ranks and on each."""
    known = set(rows["phase"][rows["remote_share"].notna()])
    order = {name: at for at, name in enumerate(rows["phase"].unique())}
    moving = rows[rows["phase"].isin([name for name in order if name in known or _kind(part, name) == "communication"])]
    shares = moving[moving["remote_share"].notna()]
    shares = shares.assign(time_s=shares["remote_share"])
    remote = {_key(one): one["median"] for one in medians_over_steps(step_figures(shares))} if len(shares) else {}
    times = list(medians_over_steps(step_figures(moving))) if len(moving) else []
    for one in sorted(times, key=lambda one: (order[one["phase"]], one["occurrence"] or 0)):
        row = {name: one[name] for name in ("phase", "occurrence", "rank", "n", "first_step", "last_step")}
        beside = is_hidden(part.means, one["phase"], one["occurrence"])
        row |= {"part": "phase", "kind": _kind(part, one["phase"]), "hidden": beside, "time_s": one["median"]}
        row |= {"remote_share": remote.get(_key(one)), "share": np.nan if beside else one["median"] / part.step_s}
        yield row


def _key(one: dict[str, Any]) -> tuple[Any, ...]:
    return one["phase"], one["occurrence"], one["rank"]


def _kind(part: RunRows, name: str) -> str | None:
    declared = part.means.phase(name)
    return declared.kind if declared else None


def _totals(rows: pd.DataFrame, part: RunRows) -> Iterator[dict[str, Any]]:
    """Of all phases of kind communication, those of the step and those beside it; none counts twice that is part of
    another.
    """
    moving = {}
    for name in rows["phase"].unique():
        line = lineage(part.means, name, None)
        kinds = [_kind(part, each) for each in line]
        if kinds[0] == "communication" and "communication" not in kinds[1:]:
            moving[name] = is_hidden(part.means, name, None)
    for beside in sorted(set(moving.values())):
        mine = rows[rows["phase"].isin([name for name, is_beside in moving.items() if is_beside == beside])]
        by_step = {None: rank_means(mine, part.world)[0]}
        by_step |= dict(iter(mine.groupby(["rank", "step"])["time_s"].sum().groupby("rank")))
        for rank, times in by_step.items():
            if not len(times):
                continue
            steps = times.index.get_level_values("step")
            time = float(times.median())
            row: dict[str, Any] = {"part": "total", "rank": rank, "kind": "communication", "hidden": beside}
            row |= {"time_s": time, "share": np.nan if beside else time / part.step_s}
            yield row | {"n": len(times), "first_step": int(steps.min()), "last_step": int(steps.max())}


def _points(found: list[dict[str, Any]], loads: dict[int, float]) -> pd.DataFrame:
    """One for each phase and rank with a remote share: phase, occurrence, kind, time_s, remote_share, load."""
    import pandas as pd

    names = ["phase", "occurrence", "kind", "time_s", "remote_share"]
    rows = [row for row in found if row["rank"] is not None and row.get("remote_share") is not None]
    points = pd.DataFrame([{name: row[name] for name in names} for row in rows], columns=names)
    return points.assign(load=[loads.get(row["rank"], np.nan) for row in rows])


def _fits(points: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Of each phase of a format, time against remote share."""
    for (_, name, k), some in points.groupby(["format", "phase", "occurrence"], dropna=False, sort=False):
        time, remote, load = (some[column].to_numpy(np.float64) for column in ("time_s", "remote_share", "load"))
        row = {"part": "fit", "phase": name, "occurrence": None if k != k else k, "kind": some["kind"].iloc[0]}
        row |= {"n": len(some), "rho": spearman(remote, time), "rho_load": spearman(load, time)}
        row |= {"rho_both": spearman(remote, load)}
        row["base_s"], row["slope_s"] = _line(time, remote)
        yield row | {"slope_at_load_s": _line(time, remote, load)[1]}


def spearman(x: Floats, y: Floats) -> float:
    """Rank correlation, ties by their mean rank. NaN for fewer than three points, or where one does not vary."""
    import pandas as pd

    if len(x) < 3 or np.isnan([*x, *y]).any() or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return float(np.corrcoef(pd.Series(x).rank(), pd.Series(y).rank())[0, 1])


def _line(y: Floats, *on: Floats) -> tuple[float, float]:
    """Base and slope of y on the first of `on`, the others equal; NaN with too few points, or for collinear ones."""
    of = np.column_stack([np.ones(len(y)), *on])
    if len(y) < _LEAST[len(on)] or np.isnan(of).any() or np.linalg.matrix_rank(of) < of.shape[1]:
        return np.nan, np.nan
    found = np.linalg.lstsq(of, y)[0]
    return float(found[0]), float(found[1])
