"""Communication phases of logs: their time, and how it depends on the share of work on other ranks.

For exposed communication and overlap in traces see `perflog.metrics.traces.device_time`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.phase_table import medians_over_steps, phase_tables, step_figures
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.run_rows import RunRows, rank_means, run_rows
from perflog.statistics.samples import Floats
from perflog.tables.nulls import int_or_none

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("part", meaning="phase; total: sum of all communication phases; fit: time against remote share"),
    MetricColumn("phase", meaning="phase of kind communication, or with a printed remote share"),
    MetricColumn("occurrence", meaning="k-th time in the step on its rank; null: not known which"),
    MetricColumn("rank", meaning="rank; null: over the ranks"),
    MetricColumn("kind", meaning="as declared; a mixed phase does not only communicate"),
    MetricColumn("hidden", meaning="whether it runs in parallel to the step; hidden phases have a separate total"),
    MetricColumn("time_s", "s", "lower", "steady median; over the ranks: of step medians (total: means)"),
    MetricColumn("remote_share", "1", "lower", "printed share of its work on other ranks, median as for time_s"),
    MetricColumn("share", "1", "lower", "time_s / median step time; null for hidden phases"),
    MetricColumn("n", meaning="number of steady steps; of a fit: points, one per rank (and run, if run is null)"),
    MetricColumn("first_step", meaning="first steady step"),
    MetricColumn("last_step", meaning="last steady step"),
    MetricColumn("slope_s", "s", None, "of a fit: time if all work is remote - time if none is, least squares"),
    MetricColumn("base_s", "s", None, "of a fit: time if no work is remote", brief=False),
    MetricColumn("rho", "", None, "of a fit: rank correlation of time and remote share"),
    MetricColumn("rho_load", "", None, "rank correlation of time and load; if it is stronger, load explains the time"),
    MetricColumn("rho_both", "", None, "rank correlation of remote share and load; near 1, fits cannot separate them"),
    MetricColumn("slope_at_load_s", "s", None, "slope at equal load: least squares on both, from 6 points"),
)
_FEWEST_POINTS = {1: 3, 2: 6}
"""Points that a fit needs, by its number of variables. Fewer points say nothing about scatter."""


@metric(
    title="communication",
    needs=("phases",),
    columns=_COLUMNS,
    main="time_s",
    formula="median times; fit: least squares of the ranks' median times on their median remote shares; rho: Spearman",
    source="kind and remote_share of the format's [[phase]] entries; warm-up: metric steps",
)
def communication(tables: Tables, options: Options) -> pd.DataFrame:
    """Communication phases of each run by rank, their sum, and time against remote share within and across runs.

    Example:
        >>> table = perflog.metrics.communication(perflog.read("run.txt"))
        >>> table.query("part == 'total' and rank.isna()")[["hidden", "time_s", "share"]].round(4)
           hidden  time_s  share
        ...
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    points: list[pd.DataFrame] = []
    loads = _median_loads(tables, options.warmup)
    for run, table in phase_tables(tables, options.warmup):
        steady = table[table["step"] >= run.first]
        of_run = [*_phases(steady, run), *_totals(steady, run)]
        form = run.semantics.format
        run_points = _points(of_run, loads.get(run.run, {})).assign(format=form and form.name)
        rows += [{"run": run.run, "label": run.label, **row} for row in (*of_run, *_fits(run_points))]
        points.append(run_points)
    some = [run_points for run_points in points if len(run_points)]
    if len(some) > 1:
        rows += _fits(pd.concat(some, ignore_index=True))
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype({"occurrence": "Int64", "rank": "Int64"})


def _median_loads(tables: Tables, warmup: int | None) -> dict[str, dict[int, float]]:
    """Median load of each rank, for each run that prints loads of ranks in one unit."""
    loads = {}
    for run in run_rows(tables, "loads", "amount", warmup):
        rows = run.steady[run.steady["expert"].isna()]
        if rows["unit"].nunique(dropna=False) == 1:
            medians = rows.groupby("rank")["amount"].median()
            loads[run.run] = {int(rank): float(load) for rank, load in medians.items()}
    return loads


def _phases(table: pd.DataFrame, run: RunRows) -> Iterator[dict[str, Any]]:
    """Rows of each phase that communicates or has a remote share, over the ranks and on each rank."""
    with_share = set(table["phase"][table["remote_share"].notna()])
    order = {name: i for i, name in enumerate(table["phase"].unique())}
    names = [name for name in order if name in with_share or _kind(run, name) == "communication"]
    moving = table[table["phase"].isin(names)]
    shares = moving[moving["remote_share"].notna()]
    shares = shares.assign(time_s=shares["remote_share"])
    remote = {_key(row): row["median"] for row in medians_over_steps(step_figures(shares))} if len(shares) else {}
    times = list(medians_over_steps(step_figures(moving))) if len(moving) else []
    for figure in sorted(times, key=lambda figure: (order[figure["phase"]], figure["occurrence"] or 0)):
        row = {name: figure[name] for name in ("phase", "occurrence", "rank", "n", "first_step", "last_step")}
        hidden = run.semantics.is_hidden(figure["phase"], figure["occurrence"])
        row |= {"part": "phase", "kind": _kind(run, figure["phase"]), "hidden": hidden, "time_s": figure["median"]}
        row |= {"remote_share": remote.get(_key(figure))}
        row |= {"share": np.nan if hidden else figure["median"] / run.step_s}
        yield row


def _key(figure: dict[str, Any]) -> tuple[Any, ...]:
    return figure["phase"], figure["occurrence"], figure["rank"]


def _kind(run: RunRows, name: str) -> str | None:
    declared = run.semantics.phase(name)
    return declared.kind if declared else None


def _totals(table: pd.DataFrame, run: RunRows) -> Iterator[dict[str, Any]]:
    """Sums of all communication phases, those of the step and hidden ones apart.

    A communication phase inside another one does not count: its time is part of the other's.
    """
    hidden_by_name = {}
    for name in table["phase"].unique():
        kind, *kinds_above = (_kind(run, each) for each in run.semantics.lineage(name, None))
        if kind == "communication" and "communication" not in kinds_above:
            hidden_by_name[name] = run.semantics.is_hidden(name, None)
    for hidden in sorted(set(hidden_by_name.values())):
        rows = table[table["phase"].isin([name for name, value in hidden_by_name.items() if value == hidden])]
        by_rank = {None: rank_means(rows, run.world)[0]}
        by_rank |= dict(iter(rows.groupby(["rank", "step"])["time_s"].sum().groupby("rank")))
        for rank, times in by_rank.items():
            if not len(times):
                continue
            steps = times.index.get_level_values("step")
            time = float(times.median())
            row: dict[str, Any] = {"part": "total", "rank": rank, "kind": "communication", "hidden": hidden}
            row |= {"time_s": time, "share": np.nan if hidden else time / run.step_s}
            yield row | {"n": len(times), "first_step": int(steps.min()), "last_step": int(steps.max())}


def _points(rows: list[dict[str, Any]], loads: dict[int, float]) -> pd.DataFrame:
    """Points of the fits, one per phase and rank with a remote share.

    Columns: phase, occurrence, kind, time_s, remote_share, load.
    """
    import pandas as pd

    names = ["phase", "occurrence", "kind", "time_s", "remote_share"]
    used = [row for row in rows if row["rank"] is not None and row.get("remote_share") is not None]
    points = pd.DataFrame([{name: row[name] for name in names} for row in used], columns=names)
    return points.assign(load=[loads.get(row["rank"], np.nan) for row in used])


def _fits(points: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Fits of time against remote share, one per format, phase and occurrence."""
    for (_, name, k), group in points.groupby(["format", "phase", "occurrence"], dropna=False, sort=False):
        time, remote, load = (group[column].to_numpy(np.float64) for column in ("time_s", "remote_share", "load"))
        row = {"part": "fit", "phase": name, "occurrence": int_or_none(k), "kind": group["kind"].iloc[0]}
        row |= {"n": len(group), "rho": spearman(remote, time), "rho_load": spearman(load, time)}
        row |= {"rho_both": spearman(remote, load)}
        row["base_s"], row["slope_s"] = _line(time, remote)
        yield row | {"slope_at_load_s": _line(time, remote, load)[1]}


def spearman(x: Floats, y: Floats) -> float:
    """Rank correlation, ties by their mean rank. NaN below three points, or if a variable does not vary."""
    import pandas as pd

    if len(x) < 3 or np.isnan([*x, *y]).any() or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    return float(np.corrcoef(pd.Series(x).rank(), pd.Series(y).rank())[0, 1])


def _line(y: Floats, *variables: Floats) -> tuple[float, float]:
    """Base of y, and its slope on the first variable with the others equal. NaN for few or collinear points."""
    matrix = np.column_stack([np.ones(len(y)), *variables])
    too_few = len(y) < _FEWEST_POINTS[len(variables)]
    if too_few or np.isnan(matrix).any() or np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        return np.nan, np.nan
    solution = np.linalg.lstsq(matrix, y)[0]
    return float(solution[0]), float(solution[1])
