"""The phase table of runs: each row of table `phases` with its parent, and statistics by step over the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints, Keys, Mask
from perflog.metrics.run_rows import (
    SteadyRun,
    is_steady,
    orders_of_rows,
    printed_steps,
    ranks_of_rows,
    run_numbers,
    steady_runs,
)
from perflog.metrics.run_tables import Tables, computed_once
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL, Array, RowColumns, Rows, compact
from perflog.tables.schema import SLOWEST_RANK

PHASE_COLUMNS = ("line", "part", "step", "rank", "occurrence", "time_s", "min_s", "remote_share")
"""Columns of table `phases` that the phase table reads, beside `run` and `phase`."""

_COMPACT = ("phase", "line", "part", "step", "occurrence")


ON_SLOWEST_RANK = "each phase on its slowest rank"
"""The doubt about phases with one time for all ranks: they need not add up to the time of any rank."""


class PhaseTable(RowColumns, frozen=True):
    """Rows of some runs in table `phases`, each with a known step, and the facts that are certain about each row.

    `names`: names of phases and of their parents. All others are columns with a value for each row, run by run:

    - run_index: the index of the row's run in `runs`.
    - phase: the index of its name in `names`.
    - step: the step; its number in the order of the run if the steps start again in each epoch.
    - printed_rank: the rank, NaN if the log does not print it.
    - rank: the rank. If a phase comes more than once on a rank, the rows of a torn step lose their rank: it is not
      known which row is missing, and so not which occurrence each row is.
    - torn: the phase has rows without rank in that step.
    - parent: the index in `names` of the phase that contains the row's time; -1 for the step, and if the parent
      depends on an unknown occurrence.
    - node: the occurrence if it is known for all rows of the phase in the run, else 0.
    """

    runs: Sequence[SteadyRun]
    names: Sequence[str]
    run_index: Keys
    line: Keys
    part: Keys
    step: Keys
    phase: Keys
    occurrence: Keys
    printed_rank: Floats
    rank: Floats
    torn: Mask
    parent: Keys
    node: Keys
    time_s: Floats
    min_s: Floats
    remote_share: Floats

    def __len__(self) -> int:
        return len(self.step)

    def steady(self) -> PhaseTable:
        """Return the rows of the steady steps."""
        return self.where(is_steady(self.runs, self.run_index, self.step))

    def rows_in(self, run_index: int) -> PhaseTable:
        """Return the rows of one run."""
        begin, end = np.searchsorted(self.run_index, (run_index, run_index + 1)).tolist()
        return self.where(slice(begin, end))

    def named(self, name: str | None) -> Mask:
        """Flag the rows of a phase; none for None."""
        flags: Mask = self.phase == (self.names.index(name) if name in self.names else -1)
        return flags

    def cases(self) -> list[tuple[int, int]]:
        """Return each phase of each run, as indices of run and name, in the order of their first rows."""
        groups = groups_of(self.run_index, self.phase)
        first = np.sort(groups.first)
        return list(zip(self.run_index[first].tolist(), self.phase[first].tolist(), strict=True))


def phase_table(
    tables: Tables, numbers: Ints, names: Sequence[str], columns: Mapping[str, Array], warmup: int | None
) -> PhaseTable:
    """Return the phase table of rows in the form of table `phases`.

    Args:
        tables: The tables of the runs.
        numbers: Index of the run of each row in table `runs`.
        names: Names of phases.
        columns: The columns of PHASE_COLUMNS, and `phase`: the index of the row's name in `names`. Each row has a step
            and a time.
        warmup: Number of steps to cut at the start of each run. None: detected.
    """
    if (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable")
        columns, numbers = {name: values[order] for name, values in columns.items()}, numbers[order]
    columns = {**columns, "step": orders_of_rows(tables, numbers, columns["step"], columns["line"])}
    if not (known := columns["step"] != NULL).all():
        columns, numbers = {name: values[known] for name, values in columns.items()}, numbers[known]
    runs, run_index = steady_runs(tables, numbers, columns["step"], columns["time_s"], warmup)
    return with_facts(runs, names, compact(run_index), {**columns, "step": compact(columns["step"])})


def with_facts(
    runs: Sequence[SteadyRun], names: Sequence[str], run_index: Keys, columns: Mapping[str, Array]
) -> PhaseTable:
    """Return the phase table of the rows of some runs. `run_index`: index of the run of each row."""
    phases, occurrences = columns["phase"], columns["occurrence"]
    rank = ranks_of_rows(runs, run_index, columns["rank"])
    anonymous, certain_rank = np.isnan(rank), rank
    torn: Mask = np.broadcast_to(np.bool_(False), len(rank))
    ever_torn = torn
    if anonymous.any():
        in_run = groups_of(run_index, phases)
        torn = groups_of(run_index, columns["step"], phases).any_of(anonymous)
        ever_torn = in_run.any_of(torn)
        certain_rank = np.where(torn & in_run.any_of(~anonymous & (occurrences > 1)), np.nan, rank)
    known_occurrences = _without(occurrences, torn)
    cases = groups_of(run_index, phases, known_occurrences)
    index = {name: i for i, name in enumerate(names)}
    parents = []
    for row in cases.first.tolist():
        occurrence = int(known_occurrences[row]) or None
        parent = runs[run_index[row]].semantics.known_parent(names[phases[row]], occurrence)
        parents.append(-1 if parent is None else index.setdefault(parent, len(index)))
    return PhaseTable(
        runs=runs, names=list(index), run_index=run_index, phase=phases, line=columns["line"], part=columns["part"],
        step=columns["step"], occurrence=occurrences, printed_rank=rank,
        rank=certain_rank, torn=torn,
        parent=compact(np.array(parents, np.int64))[cases.inverse], node=_without(occurrences, ever_torn),
        time_s=columns["time_s"], min_s=columns["min_s"], remote_share=columns["remote_share"],
    )  # fmt: skip


def _without(occurrences: Keys, torn: Mask) -> Keys:
    """Return the occurrences, 0 where rows are torn."""
    return np.where(torn, occurrences.dtype.type(0), occurrences) if torn.any() else occurrences


@computed_once
def phases_of_runs(tables: Tables, warmup: int | None) -> PhaseTable:
    """Return the phase table of all runs that have phases. `Tables.in_pieces` bounds its rows."""
    rows = tables.rows("phases")
    rows = rows.where(rows.known("step", "time_s"))
    names, columns = phase_columns(rows)
    return phase_table(tables, run_numbers(tables, rows), names, columns, warmup)


def is_slowest_rank(rows: Rows) -> Mask:
    """Flag the rows of table `phases` with one time for all ranks: the slowest, another in each phase, took it."""
    return rows.one_of("rank_by", {SLOWEST_RANK})


@computed_once
def runs_of_slowest_ranks(tables: Tables) -> frozenset[str]:
    """Return the runs that time each phase on its slowest rank."""
    rows = tables.rows("phases")
    return frozenset(rows.where(is_slowest_rank(rows)).counts("run"))


def phase_columns(rows: Rows) -> tuple[list[str], dict[str, Array]]:
    """Return the names of the phases in rows of table `phases`, and the columns of the phase table."""
    codes, names = rows.codes("phase")
    columns = {"phase": codes, **{name: rows[name] for name in PHASE_COLUMNS}}
    return names, {name: compact(values) if name in _COMPACT else values for name, values in columns.items()}


def times_on_ranks(rows: PhaseTable, rank: Floats) -> tuple[Ints, Ints, Ints, Floats]:
    """Return run, step, rank and time of all rows of each rank in each step. `rank`: of each row, NaN for null."""
    known = ~np.isnan(rank)
    run_index, step, ranks = rows.run_index[known], rows.step[known], rank[known].astype(np.int64)
    groups = groups_of(run_index, step, ranks)
    return run_index[groups.first], step[groups.first], ranks[groups.first], groups.sums(rows.time_s[known])


class StepFigures(Struct, frozen=True):
    """Statistics of each phase of a run in each step: over all ranks (rank -1), and on each rank.

    `occurrence` is 0 where it is not known. `values`: number of values. `rest_by`: how unattributed time is computed.
    """

    run_index: Ints
    phase: Ints
    occurrence: Ints
    rank: Ints
    step: Ints
    least: Floats
    median: Floats
    most: Floats
    mean: Floats
    values: Ints
    rest_by: str | None = None


def step_figures(table: PhaseTable, times: Floats | None = None) -> StepFigures:
    """Return statistics of the times of each phase in each step, first over all ranks, then on each rank.

    Args:
        table: The phase table.
        times: Other values than the times of the rows.
    """
    times = table.time_s if times is None else times
    keys = table.run_index, table.phase, table.occurrence, table.step
    return figures_of_times(keys, table.rank, times, over_ranks=table.node)


def figures_of_times(
    keys: tuple[Ints, Ints, Ints, Ints], rank: Floats, times: Floats, over_ranks: Ints, rest_by: str | None = None
) -> StepFigures:
    """Return the statistics of times.

    Args:
        keys: Run, phase, occurrence and step of each time.
        rank: Rank of each time, NaN for null.
        times: The times.
        over_ranks: The occurrence that counts over all ranks.
        rest_by: Method of an unattributed time.
    """
    run_index, phase, _, step = keys
    on_rank = ~np.isnan(rank)
    everyone = np.broadcast_to(np.int64(-1), len(step))
    pooled = _figures((run_index, phase, over_ranks, step), everyone, times)
    by_rank = _figures(tuple(key[on_rank] for key in keys), rank[on_rank].astype(np.int64), times[on_rank])
    columns = (np.concatenate(both) for both in zip(pooled, by_rank, strict=True))
    named = dict(zip(StepFigures.__struct_fields__, columns, strict=False))
    return StepFigures(**named, rest_by=rest_by)


def _figures(keys: tuple[Ints, ...], rank: Ints, times: Floats) -> tuple[Array, ...]:
    run_index, phase, occurrence, step = keys
    groups = groups_of(run_index, phase, occurrence, rank, step)
    group_keys = (key[groups.first] for key in (run_index, phase, occurrence, rank, step))
    return (*group_keys, *groups.order_statistics(times), groups.means(times), groups.sizes)


def medians_over_steps(figures: StepFigures, table: PhaseTable) -> Iterator[dict[str, Any]]:
    """Yield the medians over the steps of the statistics of each step, with n, first_step and last_step.

    `table`: the phase table that they are of.
    """
    groups = groups_of(figures.run_index, figures.phase, figures.occurrence, figures.rank)
    run_of_group = figures.run_index[groups.first]
    first, last = (printed_steps(table.runs, run_of_group, ends) for ends in groups.ends(figures.step))
    medians = {name: groups.medians(getattr(figures, name)) for name in ("least", "median", "most", "mean")}
    medians["values"] = groups.medians(figures.values.astype(np.float64))
    rest = {} if figures.rest_by is None else {"rest_by": figures.rest_by}
    for group in groups.in_order.tolist():
        row = int(groups.first[group])
        yield {
            "run_index": int(figures.run_index[row]),
            "phase": table.names[figures.phase[row]],
            "occurrence": int(figures.occurrence[row]) or None,
            "rank": None if figures.rank[row] < 0 else int(figures.rank[row]),
            **{name: float(values[group]) for name, values in medians.items()},
            "n": int(groups.sizes[group]),
            "first_step": int(first[group]),
            "last_step": int(last[group]),
            **rest,
        }
