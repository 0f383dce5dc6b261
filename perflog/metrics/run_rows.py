"""Rows of runs in a table by step and rank (phases, loads, layers), with the steady steps of each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints, Keys, Mask
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_orders import epoch_lengths, step_order
from perflog.metrics.step_series import StepSeries, step_series
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.statistics.warmup import warm_up
from perflog.tables.columns import NULL, RowColumns, Rows

_LINE_BITS = 40  # of the number of a line
_FAR = np.iinfo(np.int64).max


class SteadyRun(Struct, frozen=True):
    """A run with its steady steps.

    `first`: first steady step, as a number in the order of the run. `step_s`: median time of a steady step, NaN if the
    log prints none. `world`: number of ranks, else of named processes, None if the log does not print it. `epoch`:
    length of an epoch if the steps start again in each, else 0.
    """

    run: str
    label: str | None
    first: int
    step_s: float
    world: int | None
    semantics: RunSemantics
    epoch: int = 0


class HasEpoch(Protocol):
    """A run, or a group of rows of one, with the length of its epochs."""

    @property
    def epoch(self) -> int: ...


class StepRows(RowColumns, frozen=True):
    """Rows of some runs in a table, each with a known step, run by run in the order of the runs.

    `run_index`: index of the run of each row. `step`: its number in the order of the run. `rank`: NaN for null.
    """

    runs: Sequence[SteadyRun]
    rows: Rows
    run_index: Ints
    step: Ints
    rank: Floats

    def steady(self) -> StepRows:
        """Return the rows of the steady steps."""
        return self.where(is_steady(self.runs, self.run_index, self.step))


def is_steady(runs: Sequence[SteadyRun], run_index: Keys, steps: Keys) -> Mask:
    """Flag the rows of steady steps. `run_index`: index of the run of each row."""
    firsts = [run.first for run in runs]
    return steps >= (firsts[0] if len(firsts) == 1 else np.array(firsts, np.int64)[run_index])


def printed_steps(runs: Sequence[HasEpoch], run_index: Keys, orders: Ints) -> Ints:
    """Return the steps as printed, of numbers in the order of a run. `run_index`: index of the run of each."""
    epochs = np.array([run.epoch for run in runs], np.int64)[run_index]
    return np.where(epochs > 0, orders % np.maximum(epochs, 1), orders) if epochs.any() else orders


def orders_of_rows(tables: Tables, numbers: Ints, steps: Keys, lines: Keys) -> Keys:
    """Return the number of each row's step in the order of its run, NULL where it is not known.

    It is the step, unless the steps start again in each epoch: then the line of table `steps` with this step that is
    next in the log shows the epoch.

    Args:
        tables: The tables of the runs.
        numbers: Index of the run of each row in table `runs`.
        steps: Step of each row.
        lines: Line of each row.
    """
    if not epoch_lengths(tables):
        return steps
    places = tables.run_order()
    in_epochs = np.isin(numbers, [places[run] for run in epoch_lengths(tables)])
    if not in_epochs.any():
        return steps
    known = tables.rows("steps")
    known = known.where(known.known("step") & known.one_of("run", epoch_lengths(tables)))
    number, step = numbers[in_epochs], steps[in_epochs]
    pairs = groups_of(*(np.concatenate(both) for both in ((run_numbers(tables, known), number), (known["step"], step))))
    pair_of_known, pair = pairs.inverse[: len(known)], pairs.inverse[len(known) :]
    keys, wanted = (pair_of_known << _LINE_BITS) | known["line"], (pair << _LINE_BITS) | lines[in_epochs]
    order = np.argsort(keys, kind="stable")
    after = np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)
    either = order[np.stack([after, np.maximum(after - 1, 0)])]
    far = np.where(pair_of_known[either] == pair, np.abs(keys[either] - wanted), _FAR)
    nearest = np.argmin(far, axis=0)[None]
    found = np.take_along_axis(either, nearest, 0)[0]
    orders = steps.astype(np.int64)
    orders[in_epochs] = np.where(pair_of_known[found] == pair, step_order(tables, known)[found], NULL)
    return orders


def worlds_of(runs: Sequence[SteadyRun]) -> Floats:
    """Return the number of ranks of each run, NaN where the log does not print it."""
    return np.array([np.nan if run.world is None else run.world for run in runs], np.float64)


@computed_once
def step_rows(tables: Tables, name: str, column: str, warmup: int | None) -> StepRows:
    """Return the rows of all runs in table `name` with a step and a value in `column`.

    The warm-up is taken from the step times of each run; for steps before the first step time it is detected in the
    sums of `column`.
    """
    rows = tables.rows(name)
    rows = rows.where(rows.known("step", column))
    numbers = run_numbers(tables, rows)
    if (np.diff(numbers) < 0).any():
        order = np.argsort(numbers, kind="stable")
        rows, numbers = rows.where(order), numbers[order]
    steps = orders_of_rows(tables, numbers, rows["step"], rows["line"])
    if not (known := steps != NULL).all():
        rows, numbers, steps = rows.where(known), numbers[known], steps[known]
    runs, run_index = steady_runs(tables, numbers, steps, rows[column], warmup)
    return StepRows(runs, rows, run_index, steps, ranks_of_rows(runs, run_index, rows["rank"]))


def run_numbers(tables: Tables, rows: Rows) -> Ints:
    """Return the index in table `runs` of the run of each row."""
    codes, words = rows.codes("run")  # the words may name more runs than table `runs` has
    numbers = tables.run_order()
    known = np.array([numbers.get(word, -1) for word in words], np.int64)
    if len(codes) and (codes == codes[0]).all():  # takes no memory
        return np.broadcast_to(known[codes[0]], len(codes))
    return known[codes]


def lines_of_runs(tables: Tables, rows: Rows) -> Ints:
    """Return a number for each row that is equal for rows of one line of one run."""
    return (run_numbers(tables, rows) << _LINE_BITS) | rows["line"]


def codes_in(names: dict[str, int], words: Sequence[str]) -> Ints:
    """Return the index of words in `names`, which new ones are added to."""
    return np.array([names.setdefault(word, len(names)) for word in words], np.int64)


def ranks_of_rows(runs: Sequence[SteadyRun], run_index: Keys, ranks: Ints) -> Floats:
    """Return the rank of each row, NaN for null. The only rank of a run is known."""
    is_only = np.array([run.world == 1 for run in runs], np.bool_)
    if not is_only.any():
        return np.where(ranks != NULL, ranks, np.nan)
    return np.where(ranks != NULL, ranks, np.where(is_only[run_index], 0.0, np.nan))


def steady_runs(
    tables: Tables, numbers: Ints, steps: Keys, values: Floats, warmup: int | None
) -> tuple[list[SteadyRun], Ints]:
    """Return the runs that have rows, and for each row the index of its run among them.

    Args:
        tables: The tables of the runs.
        numbers: Index of the run of each row in table `runs`, in ascending order.
        steps: Number of the step of each row in the order of its run.
        values: Value of each row. If the warm-up has to be detected in them, it is in their sums by step.
        warmup: Number of steps to cut at the start of each run. None: detected.
    """
    rows = tables.rows("runs")
    semantics = semantics_by_run(rows)
    clocks = {series.run: series for series in step_series(tables, warmup=warmup)}
    bounds = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)] if len(numbers) else [0]
    facts = list(rows.records("run", "label", "world_size"))
    runs: list[SteadyRun] = []
    for start, end in pairwise(bounds):
        run, label, world = facts[int(numbers[start])]
        clock = clocks.get(run)
        first = _first_steady_step(steps[start:end], values[start:end], clock, warmup)
        step_s = median(clock.steady) if clock and len(clock.steady) else np.nan
        if world == NULL:
            world = named_processes(tables).get(run, NULL)
        epoch = epoch_lengths(tables).get(run, 0)
        runs.append(SteadyRun(run, label, first, step_s, None if world == NULL else world, semantics[run], epoch))
    if len(runs) == 1:  # takes no memory
        return runs, np.broadcast_to(np.int64(0), len(numbers))
    return runs, np.repeat(np.arange(len(runs)), np.diff(bounds))


@computed_once
def named_processes(tables: Tables) -> dict[str, int]:
    """Return the number of processes of each run whose step lines all name one, and none its rank."""
    found = {}
    for run, rows in tables.rows_by_run("steps").items():
        if rows.known("source").all() and not rows.known("rank").any():
            found[run] = len(rows.counts("source"))
    return found


def _first_steady_step(steps: Keys, values: Floats, clock: StepSeries | None, warmup: int | None) -> int:
    """First step after the warm-up. For steps before the first step time, the totals of the table decide."""
    first, after = int(steps.min()), int(steps.max()) + 1
    is_before = clock is None or first < clock.order[0]
    if clock is not None and clock.warmup.cut:
        first = int(clock.order[clock.warmup.cut]) if clock.window else after
    if is_before:
        groups = groups_of(steps)
        cut = warm_up(groups.sums(values), warmup).cut
        first = max(first, int(steps[groups.first[cut]]) if cut < len(groups.first) else after)
    return first


class RankMeans(Struct, frozen=True):
    """Mean over the ranks of their times in each step of each run, without steps in which a rank may be missing."""

    run_index: Ints
    step: Ints
    time_s: Floats
    ranks: Ints


def rank_means(run_index: Keys, steps: Ints, rank: Floats, time_s: Floats, world: Floats) -> RankMeans:
    """Return the means over the ranks.

    Args:
        run_index: Index of the run of each row.
        steps: Step of each row.
        rank: Rank of each row, NaN where it is not known.
        time_s: Time of each row. Several times of a rank in a step add up.
        world: Number of ranks of each run, NaN where it is not known.
    """
    groups = groups_of(run_index, steps)
    is_known = ~np.isnan(rank)
    ranks = groups.numbers_of(np.where(is_known, rank, 0).astype(np.int64), is_known)
    anonymous = np.bincount(groups.inverse, ~is_known, len(groups.sizes)) > 0
    ranks = np.where(anonymous, groups.sizes, ranks)
    run_indices = run_index[groups.first]
    complete = ~anonymous | (ranks == world[run_indices])
    means = groups.sums(time_s)[complete] / ranks[complete]
    return RankMeans(run_indices[complete], steps[groups.first][complete], means, ranks[complete])


def totals_of_steps(steps: Ints, times: Floats, part: Ints, parts: int) -> Iterator[Floats]:
    """Yield for each part the sum of its times in each of its steps."""
    by_step = groups_of(part, steps)
    sums, sum_parts = by_step.sums(times), part[by_step.first]
    bounds = np.searchsorted(sum_parts, np.arange(parts + 1))
    yield from (sums[start:end] for start, end in pairwise(bounds.tolist()))
