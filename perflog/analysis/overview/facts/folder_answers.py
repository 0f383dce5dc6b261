"""Folder answers: what only the runs of a folder together show, in sentences with numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from perflog.analysis.overview.facts.scaling_facts import scaling_facts
from perflog.analysis.overview.facts.stuck import stuck
from perflog.analysis.overview.facts.version_changes import changed_since
from perflog.analysis.overview.facts.what_if import slowdown_of_job
from perflog.analysis.overview.parts import percent
from perflog.analysis.overview.run_groups import RunGroup
from perflog.metrics import Options, Tables, hot_experts, node_pairs, time_to_train
from perflog.metrics.jobs.stuck_ranks import jobs_of_dumps
from perflog.metrics.many_runs.scaling_studies import studies
from perflog.metrics.skew.hot_experts import expert_jobs
from perflog.metrics.skew.placement import placements
from perflog.metrics.what_if.step_replay import OPERATIONS
from perflog.tables.nulls import none_if_null, row_dicts
from perflog.units import first_few, show

if TYPE_CHECKING:
    import pandas as pd


_HELPS = 1.1  # times as fast: less is little
_MOST = 3  # slow nodes, slow pairs, folders and jobs that are named


def folder_answers(tables: Tables, groups: Sequence[RunGroup], options: Options) -> Iterator[str]:
    """Yield what the files of each job, or the pairs of nodes of a campaign, show together."""
    rows = hot_experts.table(tables, options)
    for _, job_rows in rows[rows["runs"] > 1].groupby(["label", "unit"], sort=False, dropna=False):
        yield from _hot_experts(job_rows)
    for job in expert_jobs(tables):
        if job.names["runs"] > 1:
            yield from _placement(placements(tables, job))
    rows = node_pairs.table(tables, options)
    if rows["slow"].notna().any():
        yield from _nodes(rows)
    yield from scaling_facts(tables, options)
    jobs = jobs_of_dumps(tables)
    if len(jobs) > 1:
        marks = dict(tables.rows("runs").records("run", "log"))
        marks |= {group.runs[0]: group.mark for group in groups if len(group.runs) == 1}
        for run in list(jobs)[:_MOST]:
            yield f"{marks[run]}: {next(stuck(tables, run, options))}"


def slowdowns(tables: Tables, groups: Sequence[RunGroup], options: Options) -> Iterator[str]:
    """Yield what stragglers cost each job of a folder with known operations, and which worker is at fault."""
    timed = {run for run, format in tables.rows("runs").records("run", "format") if format == OPERATIONS}
    single_runs = [(group.mark, group.runs[0]) for group in groups if len(group.runs) == 1 and group.runs[0] in timed]
    for mark, run in single_runs[:_MOST] if len(groups) > 1 else ():
        yield f"{mark}: {' '.join(islice(slowdown_of_job(tables.only([run]), run, options), 2))}"


def folder_metric(tables: Tables, options: Options) -> str | None:
    """Return the metric of what the runs of a folder show together; None if there is none."""
    if (hot_experts.table(tables, options)["runs"] > 1).any():
        return "hot_experts"
    if len(jobs_of_dumps(tables)) > 1:
        return "stuck_ranks"
    if node_pairs.table(tables, options)["slow"].notna().any():
        return "node_pairs"
    if studies(tables, options):
        return "scaling"
    return "history" if changed_since(tables, options) else None


def scores(tables: Tables, options: Options) -> Iterator[str]:
    """Yield MLPerf's score of the folders with runs that print how they ended."""
    rows = time_to_train.table(tables, options)
    rows = rows[(rows["of"] == "folder") & rows["score_s"].notna() & rows["status"].notna()]
    each = [f"{row['label']} {row['score_s'] / 60:.3f} min ({row['status']})" for row in row_dicts(rows)]
    if each:
        yield f"Score, the mean without the fastest and the slowest run: {first_few(each, _MOST)}."


def _hot_experts(rows: pd.DataFrame) -> Iterator[str]:
    steps, layers = (rows[rows["of"] == of] for of in ("step", "layer"))
    first, last = steps.iloc[0], steps.iloc[-1]
    worst = steps.loc[steps["imbalance"].astype(float).idxmax()]
    shown = {int(row["step"]): f"{1 + row['imbalance']:.2f} (step {row['step']:,})" for row in (first, worst, last)}
    over = f", median of {len(layers)} layers" if len(layers) > 1 else ""
    yield f"Largest load of an expert / mean{over}: {', '.join(shown[step] for step in sorted(shown))}."
    hottest = layers[layers["since"].notna()].sort_values("imbalance", ascending=False, kind="stable")
    if len(hottest):
        row = hottest.iloc[0]
        layer = "" if none_if_null(row["layer"]) is None else f" of layer {row['layer']}"
        yield (
            f"{int(last['hot'])} experts have over twice the mean load; expert {int(row['hottest'])}{layer} has "
            f"{1 + row['imbalance']:.2f} times the mean, and has been hot since step {int(row['since']):,}."
        )


def _placement(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What moving experts and redundant ones would bring at the last step."""
    step_rows = [row for row in rows if row["of"] == "step"]
    last = [row for row in step_rows if row["step"] == step_rows[-1]["step"]]
    if not last:
        return
    placed, moved, *redundant = last
    little = " (helps little)" if moved["gain"] < _HELPS else ""
    copies = ", ".join(f"{row['slowest']:.2f} with {row['copies']} redundant experts" for row in redundant)
    yield (
        f"Busiest of {placed['ranks']} ranks / mean at step {placed['step']:,}: {placed['slowest']:.2f} if each rank "
        f"has a block of experts, {moved['slowest']:.2f} if experts are moved{little}, {copies}."
    )


def _nodes(rows: pd.DataFrame) -> Iterator[str]:
    """The slow nodes, and the slow pairs of other nodes; if there are none, how low the lowest node is."""
    nodes, pairs = (rows[rows["of"] == of] for of in ("node", "pair"))
    slow = nodes[nodes["slow"].fillna(False)].sort_values("ratio").drop_duplicates("node")
    slow_pairs = pairs[pairs["slow"].fillna(False)]
    slow_pairs = slow_pairs[~(slow_pairs["node"].isin(slow["node"]) | slow_pairs["other"].isin(slow["node"]))]
    slow_pairs = slow_pairs.sort_values("ratio").drop_duplicates(["node", "other"])
    for row in row_dicts(slow.head(_MOST)):
        yield f"Slow node {row['node']}: {_bandwidth(row)} of all nodes, over {row['pairs']} pairs."
    for row in row_dicts(slow_pairs.head(_MOST)):
        yield f"Slow pair {row['node']} - {row['other']}: {_bandwidth(row)} of all pairs."
    if not len(slow) and not len(slow_pairs):
        lowest = nodes.loc[nodes["ratio"].astype(float).idxmin()].to_dict()
        number = nodes["node"].nunique()
        yield f"No node of {number} is slow; lowest: {lowest['node']}, {_bandwidth(lowest)} of all nodes."


def _bandwidth(row: dict[str, Any]) -> str:
    op = none_if_null(row["op"])
    where = f"{f'in {op},' if op else 'with'} {row['ranks']} ranks, {show(float(row['size']), 'B')}"
    return f"{show(row['busbw'], 'GB/s')} {where}, {percent(row['ratio'])} of the median"
