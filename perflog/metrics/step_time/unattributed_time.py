"""Unattributed time: parent time minus child phases, in each step.

It is exact if parent and phases are known to be of one rank, else as exact as the log allows: the mean over the ranks,
or bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.run_rows import worlds_of
from perflog.metrics.step_time.phase_table import PhaseTable, StepFigures, figures_of_times
from perflog.statistics.groups import Groups, groups_of
from perflog.tables.columns import compact

_SUMMED = 1 << 19  # rows that are added up at a time: to group millions takes memory


class _Case(Struct, frozen=True):
    """A parent and the phases inside it. `outer`, `inner`: their rows, as indices.

    `by_rank`: whether each rank counts apart too. `moments`: the steps of the runs. `records`: the lines and parts of
    the runs. `world`: number of ranks of each run.
    """

    table: PhaseTable
    by_rank: bool
    moments: Groups
    records: Groups
    world: Floats
    outer: Ints
    inner: Ints

    def only(self, outer: Mask, inner: Mask) -> _Case:
        """Return the case of some of its rows."""
        return replace(self, outer=self.outer[outer], inner=self.inner[inner])

    def in_both(self) -> _Case:
        """Return the case of the runs that have the parent and phases inside it."""
        outer, inner = (self.table.run_index[rows] for rows in (self.outer, self.inner))
        with_outer, with_inner = (np.bincount(each, minlength=len(self.table.runs)) > 0 for each in (outer, inner))
        if (with_outer == with_inner).all():
            return self
        return self.only(with_inner[outer], with_outer[inner])


def unattributed_times(table: PhaseTable, steps_only: bool = False) -> Iterator[StepFigures]:
    """Yield the unattributed time of the parents of runs that have phases inside, by step and, if known, rank.

    `phase` is the parent, `occurrence` is not known, `rest_by` is the method. Values of a step that are not certain are
    NaN. `steps_only`: only of steps, and over all ranks.
    """
    run_index, runs = table.run_index, table.runs
    moments = groups_of(run_index, table.step)  # steps of different runs are different moments
    records = groups_of(run_index, table.line, table.part)
    world = worlds_of(runs)[run_index[moments.first]]
    cases = groups_of(run_index, table.phase)
    declared = [(runs[run_index[i]].semantics, table.names[table.phase[i]]) for i in cases.first.tolist()]
    is_hidden = np.array(
        [bool((phase := meaning.phase(name)) and phase.hidden) for meaning, name in declared], np.bool_
    )
    case_of_row, orphan = compact(cases.inverse), table.parent < 0
    del cases  # of millions of rows the longer numbers take memory
    hidden = is_hidden[case_of_row]
    with_parent = table.parent[~orphan]
    for parent in with_parent[np.sort(groups_of(with_parent).first)].tolist():
        name = table.names[parent]
        if steps_only and name != "step":
            continue
        inside = np.array([name in meaning.possible_parents(phase) for meaning, phase in declared], np.bool_)
        clear = ~moments.any_of(inside[case_of_row] & ~hidden & orphan)
        outer, inner = clear & (table.phase == parent), clear & (table.parent == parent) & ~hidden
        case = _Case(table, not steps_only, moments, records, world, np.flatnonzero(outer), np.flatnonzero(inner))
        for method, compute in _METHODS.items():
            case = case.in_both()
            if not len(case.outer):
                break
            figures = compute(case, parent, method)
            if len(figures.step):
                case = case.only(~np.isin(run_index[case.outer], figures.run_index), np.ones(len(case.inner), np.bool_))
                yield figures


def _by_record(case: _Case, parent: int, method: str) -> StepFigures:
    """In runs with parent and phases in the same records, each record belongs to one rank, known or not."""
    table, records = case.table, case.records
    outer, inner = records.inverse[case.outer], records.inverse[case.inner]
    parents = np.bincount(outer, minlength=len(records.sizes))
    others = np.append(case.outer[parents[outer] > 1], case.inner[parents[inner] == 0])
    rows = case.outer[~np.isin(table.run_index[case.outer], table.run_index[others])]
    spent = _sums(inner, table.time_s[case.inner], len(records.sizes))
    return _figures(case, rows, table.rank[rows], table.time_s[rows] - spent[records.inverse[rows]], parent, method)


def _by_rank(case: _Case, parent: int, method: str) -> StepFigures:
    """Rank by rank, in the steps where all ranks are known. Missing phases count as zero."""
    table, moments = case.table, case.moments
    rows = np.append(case.outer, case.inner)
    moment = moments.inverse[rows]
    anonymous = np.zeros(len(moments.sizes), np.bool_)
    anonymous[moment[np.isnan(table.rank[rows])]] = True
    known = ~anonymous[moment]
    is_outer = (np.arange(len(rows)) < len(case.outer))[known]
    rows, moment = rows[known], moment[known]
    groups = groups_of(moment, table.rank[rows].astype(np.int64))
    size = len(groups.sizes)
    whole, spent = (_sums(groups.inverse[flags], table.time_s[rows[flags]], size) for flags in (is_outer, ~is_outer))
    timed = np.bincount(groups.inverse[is_outer], minlength=size) > 0
    first = rows[groups.first[timed]]
    return _figures(case, first, table.rank[first], (whole - spent)[timed], parent, method)


def _figures(case: _Case, rows: Ints, rank: Floats, times: Floats, parent: int, method: str) -> StepFigures:
    """Statistics over the ranks, and on each rank, of times in the steps of some rows."""
    table, unknown = case.table, np.zeros(len(rows), np.int64)
    keys = table.run_index[rows], np.full(len(rows), parent), unknown, table.step[rows]
    if not case.by_rank:
        rank = np.broadcast_to(np.nan, len(rows))
    return figures_of_times(keys, rank, times, over_ranks=unknown, rest_by=method)


def _mean(case: _Case, parent: int, method: str) -> StepFigures:
    """Mean over the ranks, in the steps where parent and each phase have one value for every rank."""
    table, steps = case.table, _Steps(case)
    complete = steps.has_values(steps.sizes) & (np.isnan(steps.world) | (steps.sizes == steps.world))
    spent = _sums(case.moments.inverse[case.inner], table.time_s[case.inner], len(case.moments.sizes))
    means = (steps.outer.sums(table.time_s[case.outer]) - spent[steps.moment]) / steps.sizes
    return steps.figures(complete, parent, method, mean=means)


def _bounds(case: _Case, parent: int, method: str) -> StepFigures:
    """Least and largest possible time, in the steps where each phase has one value for every rank."""
    steps = _Steps(case)
    outer_least, _, outer_most = steps.outer.order_statistics(case.table.time_s[case.outer])
    inner_least, _, inner_most = steps.inner.order_statistics(case.table.time_s[case.inner])
    size = len(case.moments.sizes)
    least = outer_least - _sums(steps.moment_of_phase, inner_most, size)[steps.moment]
    most = outer_most - _sums(steps.moment_of_phase, inner_least, size)[steps.moment]
    return steps.figures(steps.has_values(steps.world), parent, method, least=least, most=most)


_METHODS: dict[str, Callable[[_Case, int, str], StepFigures]] = {
    "record": _by_record, "rank": _by_rank, "mean": _mean, "bounds": _bounds,
}  # fmt: skip
"""How unattributed time is computed, the most exact method first. No rows of a run: the method does not apply to it."""


class _Steps:
    """The steps of a case that have the parent.

    `outer`: rows of the parent by step. `inner`: rows inside it by step, phase and occurrence. `moment`: the step of
    each group of `outer`. `sizes`: its number of values. `world`: number of ranks of its run.
    """

    def __init__(self, case: _Case) -> None:
        table, moments = case.table, case.moments
        outer_moments, inner_moments = moments.inverse[case.outer], moments.inverse[case.inner]
        self.case = case
        self.outer = groups_of(outer_moments)
        self.inner = groups_of(inner_moments, table.phase[case.inner], table.node[case.inner])
        self.moment, self.moment_of_phase = outer_moments[self.outer.first], inner_moments[self.inner.first]
        self.sizes, self.world = self.outer.sizes, case.world[self.moment]

    def has_values(self, expected: Ints | Floats) -> Mask:
        """Flag the steps in which each phase has as many values as are expected in the step."""
        by_moment = np.full(len(self.case.moments.sizes), np.nan)
        by_moment[self.moment] = expected
        incomplete = self.moment_of_phase[self.inner.sizes != by_moment[self.moment_of_phase]]
        return ~np.isin(self.moment, incomplete)

    def figures(self, chosen: Mask, parent: int, method: str, **known: Floats) -> StepFigures:
        """The statistics of some steps; NaN where the method has no value."""
        rows = self.case.outer[self.outer.first[chosen]]
        unknown, nan = np.zeros(len(rows), np.int64), np.full(len(rows), np.nan)
        values = {name: known[name][chosen] if name in known else nan for name in ("least", "median", "most", "mean")}
        table = self.case.table
        return StepFigures(
            run_index=table.run_index[rows], phase=unknown + parent, occurrence=unknown, rank=unknown - 1,
            step=table.step[rows], **values, values=self.sizes[chosen], rest_by=method,
        )  # fmt: skip


def _sums(index: Ints, values: Floats, size: int) -> Floats:
    """Return the exact sums of the values by index; 0 for an index without values."""
    sums = np.zeros(size)
    bounds = np.linspace(0, size, 1 + len(index) // _SUMMED + 1).astype(np.int64).tolist()
    for begin, end in pairwise(bounds):
        chosen = (index >= begin) & (index < end)
        some, groups = index[chosen], groups_of(index[chosen])
        sums[some[groups.first]] = groups.sums(values[chosen])
    return sums
