"""Communication phases of logs: their time, and how it depends on the share of work on other ranks.

For exposed communication and overlap in traces see `perflog.metrics.traces.device_time`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.options import Options
from perflog.metrics.phase_table import medians_over_steps, phases_of_runs, steady_rows, step_figures, worlds_of
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, metric
from perflog.metrics.run_rows import RunRows, rank_means, run_rows
from perflog.metrics.run_tables import Tables
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
_FIT = ("format", "phase", "occurrence")
_FEWEST_POINTS = {1: 3, 2: 6}
"""Points that a fit needs, by its number of variables. Fewer points do not show scatter."""


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

    runs, table = phases_of_runs(tables, options.warmup)
    rows_by_run: list[list[dict[str, Any]]] = [[] for _ in runs]
    if table is not None:
        steady = steady_rows(table, runs)
        for place, row in (*_phases(steady, runs), *_totals(steady, runs)):
            rows_by_run[place].append({"run": runs[place].run, "label": runs[place].label, **row})
    points = _points(runs, rows_by_run, _median_loads(tables, options.warmup))
    for place, fit in _fits(points, ["place", *_FIT]):
        rows_by_run[place].append({"run": runs[place].run, "label": runs[place].label, **fit})
    rows = [row for found in rows_by_run for row in found]
    if points["place"].nunique() > 1:
        rows += [fit for _, fit in _fits(points, _FIT)]
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


_Case = tuple[int, str]
"""Index of a run, and name of one of its phases."""


def _phases(table: pd.DataFrame, runs: Sequence[RunRows]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the run index and rows of each phase that communicates or has a remote share, overall and by rank."""
    order = {case: i for i, case in enumerate(_cases(table))}
    with_share = set(_cases(table[table["remote_share"].notna()]))
    moving = _rows_of(table, [c for c in order if c in with_share or _kind(runs[c[0]], c[1]) == "communication"])
    shares = moving[moving["remote_share"].notna()]
    shares = shares.assign(time_s=shares["remote_share"])
    remote = {_key(figure): figure["median"] for figure in medians_over_steps(step_figures(shares))}
    figures = medians_over_steps(step_figures(moving))
    for figure in sorted(figures, key=lambda f: (order[f["place"], f["phase"]], f["occurrence"] or 0)):
        run = runs[figure["place"]]
        row = {name: figure[name] for name in ("phase", "occurrence", "rank", "n", "first_step", "last_step")}
        hidden = run.semantics.is_hidden(figure["phase"], figure["occurrence"])
        row |= {"part": "phase", "kind": _kind(run, figure["phase"]), "hidden": hidden, "time_s": figure["median"]}
        row |= {"remote_share": remote.get(_key(figure))}
        row |= {"share": np.nan if hidden else figure["median"] / run.step_s}
        yield figure["place"], row


def _cases(table: pd.DataFrame) -> list[_Case]:
    """The phases of each run, in the order of their rows."""
    return list(table[["place", "phase"]].drop_duplicates().itertuples(index=False, name=None))


def _rows_of(table: pd.DataFrame, cases: Sequence[_Case]) -> pd.DataFrame:
    """The rows of some phases of runs."""
    import pandas as pd

    return table[pd.MultiIndex.from_frame(table[["place", "phase"]]).isin(cases)]


def _key(figure: dict[str, Any]) -> tuple[Any, ...]:
    return figure["place"], figure["phase"], figure["occurrence"], figure["rank"]


def _kind(run: RunRows, name: str) -> str | None:
    declared = run.semantics.phase(name)
    return declared.kind if declared else None


def _totals(table: pd.DataFrame, runs: Sequence[RunRows]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the run index and sums of all communication phases: of the step, and of hidden ones separately.

    A communication phase inside another one does not count: its time is part of the other's.
    """
    cases: dict[bool, list[_Case]] = {False: [], True: []}
    for place, name in _cases(table):
        run = runs[place]
        kind, *kinds_above = (_kind(run, each) for each in run.semantics.lineage(name, None))
        if kind == "communication" and "communication" not in kinds_above:
            cases[run.semantics.is_hidden(name, None)].append((place, name))
    world = worlds_of(runs)
    for hidden, some in cases.items():
        rows = _rows_of(table, some)
        means = rank_means(rows, world[rows["place"]], ["place", "step"])[0]
        by_rank = rows.groupby(["place", "rank", "step"])["time_s"].sum()
        for times, keys in ((means, ["place"]), (by_rank, ["place", "rank"])):
            groups = times.reset_index(name="time_s").groupby(keys)
            for totals in (
                groups.agg(
                    time_s=("time_s", "median"),
                    n=("step", "size"),
                    first_step=("step", "min"),
                    last_step=("step", "max"),
                )
                .reset_index()
                .to_dict("records")
            ):
                place = totals.pop("place")
                row = {"part": "total", "rank": None, "kind": "communication", "hidden": hidden, **totals}
                yield place, row | {"share": np.nan if hidden else row["time_s"] / runs[place].step_s}


def _points(
    runs: Sequence[RunRows], rows: Sequence[Sequence[dict[str, Any]]], loads: Mapping[str, Mapping[int, float]]
) -> pd.DataFrame:
    """Return the points of the fits, one per run, phase and rank with a remote share. `rows`: rows of each run.

    Columns: run index (`place`), format, phase, occurrence, kind, time_s, remote_share, load.
    """
    import pandas as pd

    figures = ("phase", "occurrence", "kind", "time_s", "remote_share")
    points = []
    for place, (run, found) in enumerate(zip(runs, rows, strict=True)):
        form, load_by_rank = run.semantics.format, loads.get(run.run, {})
        for row in found:
            if row["rank"] is not None and row.get("remote_share") is not None:
                point = {name: row[name] for name in figures} | {"load": load_by_rank.get(row["rank"], np.nan)}
                points.append({"place": place, "format": form and form.name, **point})
    return pd.DataFrame(points, columns=["place", "format", *figures, "load"])


def _fits(points: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the index of the first run and the fit of time against remote share, by format, phase and occurrence."""
    for _, group in points.groupby(list(keys), dropna=False, sort=False):
        time, remote, load = (group[column].to_numpy(np.float64) for column in ("time_s", "remote_share", "load"))
        first = group.iloc[0]
        row = {"part": "fit", "phase": first["phase"], "occurrence": int_or_none(first["occurrence"])}
        row |= {"kind": first["kind"], "n": len(group), "rho": spearman(remote, time), "rho_load": spearman(load, time)}
        row |= {"rho_both": spearman(remote, load)}
        row["base_s"], row["slope_s"] = _line(time, remote)
        yield first["place"], row | {"slope_at_load_s": _line(time, remote, load)[1]}


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
