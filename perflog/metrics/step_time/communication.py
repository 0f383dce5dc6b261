"""Communication phases of logs: their time, and how it depends on the share of work on other ranks.

For exposed communication and overlap in traces see `perflog.metrics.traces.device_time`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_rows import SteadyRun, printed_steps, rank_means, step_rows, worlds_of
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_time.phase_table import (
    PhaseTable,
    medians_over_steps,
    phases_of_runs,
    step_figures,
    times_on_ranks,
)
from perflog.statistics.groups import groups_of
from perflog.tables.nulls import int_or_none

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("part", meaning="phase; total: sum of all communication phases; fit: time against remote share"),
    MetricColumn("phase", meaning="phase of kind communication, or with a printed remote share"),
    MetricColumn("occurrence", meaning="k-th time in the step on its rank; null: not known which", type="Int64"),
    MetricColumn("rank", meaning="rank; null: over the ranks", type="Int64"),
    MetricColumn("kind", meaning="as declared; a mixed phase does not only communicate"),
    MetricColumn("hidden", meaning="whether it runs in parallel to the step; hidden phases have a separate total"),
    MetricColumn("time_s", "s", "lower", "steady median; over the ranks: of step medians (total: means)"),
    MetricColumn("remote_share", "1", "lower", "printed share of its work on other ranks, median as for time_s"),
    MetricColumn("share", "1", "lower", "time_s / median step time; null for hidden phases"),
    MetricColumn("n", meaning="number of steady steps; of a fit: points, one per rank (and run, if run is null)"),
    MetricColumn("first_step", meaning="first steady step", type="Int64"),
    MetricColumn("last_step", meaning="last steady step", type="Int64"),
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
def communication(tables: Tables, options: Options) -> MetricRows:
    """Communication phases of each run by rank, their sum, and time against remote share within and across runs.

    Example:
        >>> table = perflog.metrics.communication(perflog.read("run.txt"))
        >>> table.query("part == 'total' and rank.isna()")[["hidden", "time_s", "share"]].round(4)
           hidden  time_s  share
        ...
    """
    runs: list[SteadyRun] = []
    rows_by_run: list[list[dict[str, Any]]] = []
    for piece in tables.in_pieces("phases"):
        table = phases_of_runs(piece, options.warmup).steady()
        rows_of_piece: list[list[dict[str, Any]]] = [[] for _ in table.runs]
        for run_index, row in (*_phases(table), *_totals(table)):
            run = table.runs[run_index]
            rows_of_piece[run_index].append({"run": run.run, **row})
        runs += table.runs
        rows_by_run += rows_of_piece
    points = _points(runs, rows_by_run, _median_loads(tables, options.warmup))
    for run_index, fit in _fits(points, ["run_index", *_FIT]):
        rows_by_run[run_index].append({"run": runs[run_index].run, **fit})
    rows = [row for found in rows_by_run for row in found]
    if points["run_index"].nunique() > 1:
        rows += [fit for _, fit in _fits(points, _FIT)]
    return rows


def _median_loads(tables: Tables, warmup: int | None) -> dict[str, dict[int, float]]:
    """Median load of each rank, for each run that prints loads of ranks in one unit."""
    table = step_rows(tables, "loads", "amount", warmup).steady()
    table = table.where(~table.rows.known("expert"))
    units = groups_of(table.run_index, table.rows.codes("unit")[0]).first
    run_indices, counts = np.unique(table.run_index[units], return_counts=True)
    table = table.where(np.isin(table.run_index, run_indices[counts == 1]) & ~np.isnan(table.rank))
    ranks = table.rank.astype(np.int64)
    groups = groups_of(table.run_index, ranks)
    loads: dict[str, dict[int, float]] = {}
    for row, load in zip(groups.first.tolist(), groups.medians(table.rows["amount"]).tolist(), strict=True):
        loads.setdefault(table.runs[table.run_index[row]].run, {})[int(ranks[row])] = load
    return loads


def _phases(table: PhaseTable) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the run index and rows of each phase that communicates or has a remote share, overall and by rank."""
    cases = groups_of(table.run_index, table.phase)
    order = {(int(table.run_index[row]), table.names[table.phase[row]]): row for row in cases.first.tolist()}
    has_share = ~np.isnan(table.remote_share)
    is_moving = [_kind(table.runs[run_index], name) == "communication" for run_index, name in order]
    moving = table.where(np.array(is_moving, np.bool_)[cases.inverse] | cases.any_of(has_share))
    shares = table.where(has_share)
    remote = {
        _key(figure): figure["median"]
        for figure in medians_over_steps(step_figures(shares, shares.remote_share), table)
    }
    figures = medians_over_steps(step_figures(moving), table)
    for figure in sorted(figures, key=lambda f: (order[f["run_index"], f["phase"]], f["occurrence"] or 0)):
        run = table.runs[figure["run_index"]]
        row = {name: figure[name] for name in ("phase", "occurrence", "rank", "n", "first_step", "last_step")}
        hidden = run.semantics.is_hidden(figure["phase"], figure["occurrence"])
        row |= {"part": "phase", "kind": _kind(run, figure["phase"]), "hidden": hidden, "time_s": figure["median"]}
        row |= {"remote_share": remote.get(_key(figure))}
        row |= {"share": np.nan if hidden else figure["median"] / run.step_s}
        yield figure["run_index"], row


def _key(figure: dict[str, Any]) -> tuple[Any, ...]:
    return figure["run_index"], figure["phase"], figure["occurrence"], figure["rank"]


def _kind(run: SteadyRun, name: str) -> str | None:
    declared = run.semantics.phase(name)
    return declared.kind if declared else None


def _totals(table: PhaseTable) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the run index and sums of all communication phases: of the step, and of hidden ones separately.

    A communication phase inside another one does not count: its time is part of the other's.
    """
    cases = groups_of(table.run_index, table.phase)
    counts, is_hidden = np.zeros((2, len(cases.first)), np.bool_)
    for case, row in enumerate(cases.first.tolist()):
        run, name = table.runs[table.run_index[row]], table.names[table.phase[row]]
        kind, *kinds_above = (_kind(run, each) for each in run.semantics.lineage(name, None))
        counts[case] = kind == "communication" and "communication" not in kinds_above
        is_hidden[case] = run.semantics.is_hidden(name, None)
    for hidden in (False, True):
        rows = table.where((counts & (is_hidden == hidden))[cases.inverse])
        means = rank_means(rows.run_index, rows.step, rows.rank, rows.time_s, worlds_of(table.runs))
        over_ranks = (means.run_index, means.step, np.full(len(means.step), -1), means.time_s)
        for run_index, step, rank, times in (over_ranks, times_on_ranks(rows, rows.rank)):
            groups = groups_of(run_index, rank)
            first, last = (printed_steps(table.runs, run_index[groups.first], ends) for ends in groups.ends(step))
            for group, time in enumerate(groups.medians(times).tolist()):
                row = int(groups.first[group])
                run = table.runs[run_index[row]]
                yield int(run_index[row]), {
                    "part": "total", "rank": None if rank[row] < 0 else int(rank[row]), "kind": "communication",
                    "hidden": hidden, "time_s": time, "n": int(groups.sizes[group]), "first_step": int(first[group]),
                    "last_step": int(last[group]), "share": np.nan if hidden else time / run.step_s,
                }  # fmt: skip


def _points(
    runs: Sequence[SteadyRun], rows: Sequence[Sequence[dict[str, Any]]], loads: Mapping[str, Mapping[int, float]]
) -> pd.DataFrame:
    """Return the points of the fits, one per run, phase and rank with a remote share. `rows`: rows of each run.

    Columns: run index (`run_index`), format, phase, occurrence, kind, time_s, remote_share, load.
    """
    import pandas as pd

    figures = ("phase", "occurrence", "kind", "time_s", "remote_share")
    points = []
    for run_index, (run, found) in enumerate(zip(runs, rows, strict=True)):
        form, load_by_rank = run.semantics.format, loads.get(run.run, {})
        for row in found:
            if row["rank"] is not None and row.get("remote_share") is not None:
                point = {name: row[name] for name in figures} | {"load": load_by_rank.get(row["rank"], np.nan)}
                points.append({"run_index": run_index, "format": form and form.name, **point})
    return pd.DataFrame(points, columns=["run_index", "format", *figures, "load"])


def _fits(points: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the index of the first run and the fit of time against remote share, by format, phase and occurrence."""
    for _, group in points.groupby(list(keys), dropna=False, sort=False):
        time, remote, load = (group[column].to_numpy(np.float64) for column in ("time_s", "remote_share", "load"))
        first = group.iloc[0]
        row = {"part": "fit", "phase": first["phase"], "occurrence": int_or_none(first["occurrence"])}
        row |= {"kind": first["kind"], "n": len(group), "rho": spearman(remote, time), "rho_load": spearman(load, time)}
        row |= {"rho_both": spearman(remote, load)}
        row["base_s"], row["slope_s"] = _line(time, remote)
        yield first["run_index"], row | {"slope_at_load_s": _line(time, remote, load)[1]}


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
