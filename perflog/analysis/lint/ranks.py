"""Rules on ranks: rows without a rank, ranks that print less than the others, layers that several ranks share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from perflog.analysis.lint.registry import Finding, LintedRun, LintInput, rule
from perflog.grouping import grouped
from perflog.metrics.skew.ranks import WORSE_IF_HIGH, WORSE_IF_LOW, RankRow, outlier_groups, rank_name, rank_rows
from perflog.metrics.step_series import most_frequent
from perflog.metrics.unlabelled_ranks import unlabelled_ranks
from perflog.statistics.groups import groups_of
from perflog.tables.row_order import natural_sort_key
from perflog.units import count, first_few, plural

_NAME_COLUMNS = {"phases": "phase", "loads": "unit", "layers": "layer"}
"""Tables with a row per rank, and the column that names the subject of the row."""


@rule(
    code="no-rank",
    severity="note",
    title="lines do not name the rank that printed them",
    why="No rule proves which rank printed them. Sum, minimum, maximum and mean of a step are correct. Statistics per "
    "rank leave these rows out.",
    action="use statistics per step, or label the lines when you start the ranks (`torchrun --tee 3`)",
    needs=(),
)
def no_rank(data: LintInput) -> Iterator[Finding]:
    """Rows without rank in tables that have one per rank, where there is more than one rank; steps of several ranks."""
    tables = [name for name in _NAME_COLUMNS if not data.tables.rows(name).known("rank").all()]
    several_ranks = unlabelled_ranks(data.tables)
    for run in data.runs if tables or several_ranks else ():
        parts: list[str] = []
        numbers: dict[str, object] = {}
        lines: list[int] = []
        if run.id in several_ranks:
            number = several_ranks[run.id]
            parts.append(f"{number} ranks print each step, with the same loss and figures of their own")
            numbers["ranks"], lines = number, run["steps"]["line"].tolist()
        for table in tables:
            name, rows = _NAME_COLUMNS[table], run[table]
            unknown = rows.where(~rows.known("rank"))
            if not len(unknown):
                continue
            placed = unknown.where(unknown.known("step", name))
            several = groups_of(placed["step"], placed.codes(name)[0]).sizes > 1
            if not several.any() and not rows.known("rank").any():
                continue  # one row per step: a single rank printed it
            counts, totals = (of.counts(name) for of in (unknown, rows))
            listed = first_few((f"{k} {n} of {totals[k]}" for k, n in counts.items()), 12)
            parts.append(f"{len(unknown):,} of {len(rows):,} rows of {table} have no rank: {listed}")
            numbers[table] = counts
            lines += unknown["line"].tolist()
        if parts:
            yield Finding(run.id, "; ".join(parts), {run.id: lines}, numbers)


@rule(
    code="ranks-incomplete",
    severity="warning",
    title="some ranks did not print in some steps",
    why="Fewer ranks printed in these steps than in the others. Sums over ranks are too low, and the slowest rank may "
    "be missing.",
    action="leave these steps out of sums and comparisons over ranks",
    needs=("steps",),
)
def ranks_incomplete(data: LintInput) -> Iterator[Finding]:
    """Steps with fewer rows of a phase, unit or layer than most steps."""
    for table, name in _NAME_COLUMNS.items():
        for run in data.runs_that(partial(_runs_with_uneven_steps, table=table, name=name), table):
            rows = run[table].where(run[table].known("step", name))
            codes, words = rows.codes(name)
            kinds, kind_index = np.unique(codes, return_inverse=True)
            steps, step_index = np.unique(rows["step"], return_inverse=True)
            counts = np.zeros((len(kinds), len(steps)), np.int64)
            np.add.at(counts, (kind_index, step_index), 1)
            fewer = counts < np.array([[most_frequent(kind_counts)] for kind_counts in counts])
            if fewer.any():
                steps = steps[fewer.any(axis=0)].tolist()
                names = sorted(words[kind] for kind in kinds[fewer.any(axis=1)].tolist())
                message = (
                    f"{count(len(steps), 'step')} with fewer rows of {first_few(names)} than most: {first_few(steps)}"
                )
                lines = rows["line"][np.isin(rows["step"], steps)]
                yield Finding(run.id, message, {run.id: lines}, {"steps": steps, "kinds": names})


def _runs_with_uneven_steps(data: LintInput, table: str, name: str) -> list[LintedRun]:
    """The runs that print a phase, unit or layer more often in one of their steps than in another."""
    rows, steps = data.by_step(table)
    named = rows.known(name)
    rows, step_index = rows.where(named), steps.inverse[named]
    runs, subjects = rows.codes("run")[0], rows.codes(name)[0]
    counts = groups_of(subjects, step_index)
    subject_groups = groups_of(runs[counts.first], subjects[counts.first])
    steps_of_run = np.bincount(runs[groups_of(step_index).first])
    usual, run = counts.sizes[subject_groups.first], runs[counts.first[subject_groups.first]]
    in_all_steps = subject_groups.sizes == steps_of_run[run]
    is_even = (counts.sizes == usual[subject_groups.inverse]) & in_all_steps[subject_groups.inverse]
    return data.runs_of(rows, counts.first[~is_even])


@rule(
    code="rank-stands-out",
    severity="warning",
    title="a rank is an outlier",
    why="Its values differ from all other ranks in most steps, far more than these differ from one another. "
    "A median or mean over the ranks does not show it, and a step waits for the slowest of them.",
    action="`perflog analyze RUN ranks` shows all ranks; look at the node, the GPU and the work of this one",
    needs=(),
)
def rank_stands_out(data: LintInput) -> Iterator[Finding]:
    """Ranks that metric `ranks` tells to be worse than the others; a note, if nobody knows what is worse."""
    by_run = grouped((row.run, row) for row in rank_rows(data.tables) if row.is_worse)
    for run in data.runs:
        rows = sorted(by_run.get(run.id, ()), key=lambda row: -row.certainty)
        if not rows:
            continue
        names = grouped((rank_name(row.rank or ""), row.figure) for row in rows)
        each = [f"{group.name} ({first_few(group.rows_by_figure, 3)})" for group in outlier_groups(rows)]
        most = max(row.ranks for row in rows)
        what = "rank" if all(name.startswith("rank ") for name in names) else "source"
        message = f"{count(len(names), what)} of {most} far from the {plural('other', most - 1)}: {first_few(each, 3)}"
        numbers = {"ranks": names}
        known = any(row.unit in (*WORSE_IF_HIGH, *WORSE_IF_LOW) for row in rows)
        yield Finding(run.id, message, {run.id: _lines(run, rows[0])}, numbers, None if known else "note")


def _lines(run: LintedRun, row: RankRow) -> list[int]:
    """The lines on which a rank prints the metric in which it is an outlier."""
    assert row.rank is not None
    rows = run[row.of]
    chosen = rows["rank"] == int(row.rank) if row.rank.isdigit() else rows.one_of("source", [row.rank])
    name = {"phases": "phase", "values": "key"}.get(row.of)
    if name is not None:
        chosen &= rows.one_of(name, [row.figure])
    lines: list[int] = rows["line"][chosen].tolist()
    return lines


@rule(
    code="layer-split",
    severity="note",
    title="a layer's time is split over several ranks",
    why="Part of the layer runs on another pipeline stage, so the time on one rank is not the time of the layer.",
    action="add up the layer's rows of a step over the ranks",
    needs=("layers",),
)
def layer_split(data: LintInput) -> Iterator[Finding]:
    """Layers with several rows per step and direction, on different stages."""
    for run in data.runs:
        layers = run["layers"].where(run["layers"].known("step", "stage", "layer"))
        stages_of: dict[str, set[int]] = {}
        for layer, stage in set(layers.records("layer", "stage")):
            stages_of.setdefault(layer, set()).add(stage)
        split = sorted((layer for layer, stages in stages_of.items() if len(stages) > 1), key=natural_sort_key)
        if split:
            listed = (f"{name} (stages {', '.join(map(str, sorted(stages_of[name])))})" for name in split)
            message = f"{count(len(split), 'layer')} on more than one stage: {first_few(listed, 8)}"
            lines = layers["line"][layers.one_of("layer", split)]
            yield Finding(run.id, message, {run.id: lines}, {"layers": {k: sorted(stages_of[k]) for k in split}})
