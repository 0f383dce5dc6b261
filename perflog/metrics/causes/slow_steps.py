"""Slow steps, and the part of them that takes longer than in other steps: a phase, or a time that steps print by name.

If it takes longer on one rank alone, this rank holds up the others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Floats, Ints, Mask
from perflog.formats.bars import OF_BARS
from perflog.metrics.directions import COUNTDOWN, words_of
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.semantics import semantics_by_run
from perflog.metrics.step_series import StepSeries, step_series
from perflog.statistics.groups import groups_of
from perflog.tables.columns import Rows

SLOW_STEPS = "slow steps"
"""The subject of the cause."""

_OF_RUN = COUNTDOWN | frozenset("elapsed uptime walltime total epoch".split())
"""Words in names of times of the run, such as the time since its start: they are no times of a step."""
_EVEN = 2.0  # a clock goes on by so much more between some steps than between others, at most
_RUNS_ON = 0.5  # of its largest reading, what a clock goes on by in all
_MOSTLY = 0.5  # of what slow steps take longer
_LITTLE = 0.1  # of it: what a rank takes longer that only waits less
_TELLING = 0.03  # of the time
_FEWEST = 2  # ranks
_WAITS = ("wait", "communication")
"""Kinds of phases in which ranks wait for another one."""


class LongerPart(Struct, frozen=True):
    """A part of slow steps.

    Attributes:
        name: Its name.
        more_s: The sum of what it takes longer in slow steps than its median in the others.
        slow_s: Its mean in slow steps.
        usual_s: Its median in the others.
        rank: The rank that alone takes longer; None if several do.
        slowest_only: Whether the times are of the slowest rank of each step, which is another one from step to step.
    """

    name: str
    more_s: float
    slow_s: float
    usual_s: float
    rank: int | None = None
    slowest_only: bool = False


def far_longer(series: StepSeries) -> Mask:
    """Flag the steady steps that take far longer than the median, however many: see `StepSeries.pause_limit`."""
    slow: Mask = series.steady > series.pause_limit
    return slow


@computed_once
def parts_of_slow_steps(tables: Tables, warmup: int | None = None) -> dict[str, LongerPart]:
    """Return, by run, the part that takes most of what slow steps take longer than the median, if one does.

    Runs whose slow steps cost less than 3 % of the time have none.
    """
    found = {}
    for series in step_series(tables, warmup=warmup):
        slow = far_longer(series) if len(series.steady) else np.zeros(0, np.bool_)
        more = float((series.steady[slow] - np.median(series.steady)).sum()) if slow.any() else 0.0
        part = _longest(tables, series, slow, more) if more > _TELLING * series.steady.sum() else None
        if part is not None:
            found[series.run] = part
    return found


def _longest(tables: Tables, series: StepSeries, slow: Mask, more: float) -> LongerPart | None:
    """Return the part that takes most of what the flagged steady steps of a run take longer, of one rank if it is."""
    steps = series.steps[series.warmup.cut :], slow
    meaning = semantics_by_run(tables.rows("runs"))[series.run]
    parts: list[LongerPart] = []
    for name, rows, column in _times_by_name(tables, series.run):
        declared = meaning.phase(name)
        may_hold_up = declared is None or declared.kind not in _WAITS
        alone = _of_one_rank(name, rows, column, steps, more) if may_hold_up else ()
        each = (*alone, _longer(name, rows, column, steps))
        parts += [part for part in each if part is not None]
    fitting = [part for part in parts if _MOSTLY <= part.more_s / more < 1 + _TELLING]  # what grows by more is no part
    if len({part.rank for part in fitting if part.rank is not None}) > 1:  # one of two ranks waits for the other
        fitting = [part for part in fitting if part.rank is None]
    return max(fitting, key=lambda part: part.more_s, default=None)


def _longer(name: str, rows: Rows, column: str, of: tuple[Ints, Mask], slowest_only: bool = False) -> LongerPart | None:
    """Return how much longer a part takes in slow steps: its mean over the ranks, or its slowest rank.

    `of`: the steps, and which are slow. None if a slow step lacks the part, no other step has it, or it is a clock.
    """
    steps, slow = of
    step = groups_of(rows["step"])
    numbers = rows["step"][step.first]
    values = step.ends(rows[column])[1] if slowest_only else step.means(rows[column])
    order = np.argsort(numbers, kind="stable")
    numbers, values = numbers[order], values[order]
    is_slow, usual = np.isin(numbers, steps[slow]), values[np.isin(numbers, steps[~slow])]
    if is_slow.sum() != slow.sum() or not len(usual) or (np.diff(values) > 0).all():
        return None
    middle = float(np.median(usual))
    more, mean = float((values[is_slow] - middle).sum()), float(values[is_slow].mean())
    return LongerPart(name, more, mean, middle, slowest_only=slowest_only)


def _of_one_rank(name: str, rows: Rows, column: str, of: tuple[Ints, Mask], more: float) -> list[LongerPart]:
    """Return the part on the rank that alone takes longer, or on the slowest rank of each step; [] if more ranks do."""
    labelled = rows.where(rows.known("rank"))
    labelled = labelled.where(np.argsort(labelled["rank"], kind="stable"))
    ranks, begins = np.unique(labelled["rank"], return_index=True)
    if len(ranks) < _FEWEST:
        return []
    parts = map(slice, begins.tolist(), [*begins[1:].tolist(), len(labelled)])
    each = [
        (_longer(name, labelled.where(part), column, of), rank)
        for part, rank in zip(parts, ranks.tolist(), strict=True)
    ]
    known = sorted([(part, rank) for part, rank in each if part is not None], key=lambda found: found[0].more_s)
    slowest = _longer(name, rows, column, of, slowest_only=True)
    if len(known) < len(ranks) or slowest is None:
        return []
    if sum(part.more_s for part, _ in known[:-1]) > (1 - _MOSTLY) * slowest.more_s:  # of several ranks
        return [slowest] if known[len(known) // 2][0].more_s < _LITTLE * more else []
    longest, rank = known[-1]
    return [replace(longest, rank=rank)]


def _times_by_name(tables: Tables, run: str) -> Iterator[tuple[str, Rows, str]]:
    """Yield the times in seconds that steps print by name: the name, the rows, and the column with the times."""
    for table, name, value in (("phases", "phase", "time_s"), ("values", "key", "value")):
        rows = tables.rows_of(table, run)
        rows = rows.where(rows.one_of("unit", ["s"])) if table == "values" else rows
        for each, timed in rows.where(rows.known("step", value)).by(name).items():
            is_whole = OF_BARS.search(each) or is_of_run(each, timed["step"], timed[value])
            if not is_whole:  # the rate of a bar is the step again
                yield each, timed, value


def is_of_run(name: str, steps: Ints, times: Floats) -> bool:
    """Return whether a time is one of the run by its name, or goes on or back evenly as a clock or a countdown does."""
    if not _OF_RUN.isdisjoint(words_of(name)):
        return True
    first = np.diff(steps, prepend=steps[:1] - 1) != 0  # the line of an epoch repeats its last step
    steps, times = steps[first], times[first]
    between = np.diff(steps)
    changes = np.diff(times) / (between if (between > 0).all() else 1)
    sizes = np.abs(changes)
    is_even = len(changes) > 1 and abs(np.sign(changes).sum()) == len(changes) and sizes.max() <= _EVEN * sizes.min()
    return bool(is_even and abs(times[-1] - times[0]) > _RUNS_ON * np.abs(times).max())
