"""Rank spread: the differences between ranks in each phase of a step, one occurrence of the phase at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.step_time.breakdown import breakdown
from perflog.metrics.step_time.phase_table import PhaseTable
from perflog.metrics.step_time.phases import rows_with_wholes
from perflog.metrics.step_time.unattributed_time import unattributed_times
from perflog.statistics.groups import Groups, groups_of
from perflog.tables.nulls import as_types

if TYPE_CHECKING:
    import pandas as pd

_FIGURES = ("fastest_s", "mean_s", "slowest_s")
_BY_RANK = ("record", "rank")  # how untimed time is computed where it is known for each rank


@computed_once
def rank_spread(tables: Tables, options: Options) -> dict[str, pd.DataFrame]:
    """Return the spread of the ranks in each phase, by its parent: times in a step, means over the steady steps.

    Several occurrences in a step add up, as if the ranks waited for one another after each of them. Only steps in which
    no rank is missing count; in a step without the phase it took no time.

    Returns:
        By id of each run with parts of its step (metric breakdown), columns phase, parent, fastest_s, mean_s,
        slowest_s. A phase with only the fastest and the slowest rank printed has no mean_s. No rows for phases of a
        single rank, or of unknown ranks.
    """
    if not breakdown.has_rows(tables, options):
        return {}
    import pandas as pd

    parts = breakdown.table(tables, options)
    steps = parts[parts["of"] == "step"].groupby("run")["n"].first().to_dict()
    spreads: dict[str, list[tuple[object, ...]]] = {}
    for table in rows_with_wholes(tables, options.warmup):
        spreads |= {run.run: [] for run in table.runs if run.run in steps}
        chosen = np.array([run.run in steps for run in table.runs], np.bool_)
        numbers = np.array([steps.get(run.run, 1) for run in table.runs], np.int64)
        counts = chosen[table.run_index] & (table.parent >= 0)
        for _, in_phases in groups_of(table.run_index, table.phase).parts():
            for run_index, *spread in _spreads(table.where(counts & in_phases), numbers):
                spreads[table.runs[run_index].run].append(tuple(spread))
    return {
        run: as_types(
            pd.DataFrame(sorted(found), columns=["phase", "parent", *_FIGURES]), dict.fromkeys(_FIGURES, "float64")
        )
        for run, found in spreads.items()
    }


@computed_once
def untimed_spread(tables: Tables, options: Options) -> dict[str, float]:
    """Return how much longer a step is untimed on the mean rank than on the rank with the least, by run, in s.

    Ranks that wait for a slower one outside of all timed phases have this difference: the median over the steady steps.
    Runs in which it is not known which rank an untimed time is of are left out.
    """
    found: dict[str, float] = {}
    for table in rows_with_wholes(tables, options.warmup):
        for rest in unattributed_times(table, steps_only=True):
            over_ranks = (rest.values > 1) & (rest.rest_by in _BY_RANK)
            runs = groups_of(rest.run_index[over_ranks])
            medians = runs.medians((rest.mean - rest.least)[over_ranks])
            run_indices = rest.run_index[over_ranks][runs.first].tolist()
            found |= {table.runs[run].run: spread for run, spread in zip(run_indices, medians.tolist(), strict=True)}
    return found


def _spreads(rows: PhaseTable, steps: Ints) -> Iterator[tuple[int, str, str, float, float, float]]:
    """Yield index of the run, phase, parent, and times of the fastest, the mean and the slowest rank in a step.

    `steps`: number of steps of each run.
    """
    occurrence = np.where(rows.torn, 0, rows.occurrence)  # without rank it counts all ranks
    phases = groups_of(rows.run_index, rows.phase, rows.parent, occurrence)
    moments = groups_of(phases.inverse, rows.step)
    number_of_steps = np.bincount(phases.inverse[moments.first], minlength=len(phases.sizes))
    share_of_steps = number_of_steps / steps[rows.run_index[phases.first]]
    has_ends = ~np.isnan(rows.min_s)
    both = (_times_of_all(rows, phases, ~has_ends), _times_of_ends(rows, phases, has_ends))
    phase, *times = (np.concatenate(columns) for columns in zip(*both, strict=True))
    in_phases = groups_of(phase)
    rows_of_phases = phases.first[phase[in_phases.first]]
    in_steps = [in_phases.means(column) * share_of_steps[phase[in_phases.first]] for column in times]
    wholes = groups_of(*(keys[rows_of_phases] for keys in (rows.run_index, rows.phase, rows.parent)))
    sums = [wholes.sums(column) for column in in_steps]
    for whole, first in enumerate(rows_of_phases[wholes.first].tolist()):
        names = rows.names[rows.phase[first]], rows.names[rows.parent[first]]
        yield int(rows.run_index[first]), *names, *(float(column[whole]) for column in sums)


_Times = tuple[Ints, Floats, Floats, Floats]
"""The phase of each step of it, and the time of the fastest rank, the mean (NaN: not known) and the slowest."""


def _times_of_all(rows: PhaseTable, phases: Groups, chosen: Mask) -> _Times:
    """Return the times of each phase and step with a value of every rank. `chosen`: the rows that may be of a rank."""
    world = np.array([run.world or 0 for run in rows.runs], np.int64)
    chosen = chosen & (~rows.torn | (world[rows.run_index] > 0))  # of all ranks together only if their number is known
    run_index, phase, times = rows.run_index[chosen], phases.inverse[chosen], rows.time_s[chosen]
    steps = groups_of(phase, rows.step[chosen])
    names = groups_of(run_index[steps.first], rows.phase[chosen][steps.first])
    most = names.ends(steps.sizes)[1][names.inverse]
    worlds = world[run_index[steps.first]]
    whole = (steps.sizes == np.where(worlds == 0, most, worlds)) & (steps.sizes > 1)
    least, _, largest = steps.order_statistics(times)
    return phase[steps.first][whole], least[whole], steps.means(times)[whole], largest[whole]


def _times_of_ends(rows: PhaseTable, phases: Groups, chosen: Mask) -> _Times:
    """Return the times of phases that are printed only for the fastest and the slowest rank."""
    phase = phases.inverse[chosen]
    steps = groups_of(phase, rows.step[chosen])
    fastest, slowest = (steps.sums(column[chosen]) for column in (rows.min_s, rows.time_s))
    return phase[steps.first], fastest, np.full(len(fastest), np.nan), slowest
