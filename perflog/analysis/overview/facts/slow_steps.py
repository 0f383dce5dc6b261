"""Steps that take far longer than the median: how often they come, and which part takes longer, on which rank."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import NamedTuple

import numpy as np

from perflog.analysis.overview.facts.log_facts import is_of_run
from perflog.analysis.overview.parts import percent
from perflog.arrays import Ints, Mask
from perflog.formats.bars import OF_BARS
from perflog.metrics import Options, Tables
from perflog.metrics.causes import causes_by_run
from perflog.metrics.causes.run_causes import far_longer
from perflog.metrics.step_series import StepSeries, step_series
from perflog.statistics.groups import groups_of
from perflog.tables.columns import Rows
from perflog.units import count, show

_TELLING = 0.03  # of the time: smaller parts are no reason
_MOSTLY = 0.5  # of what slow steps take longer
_LITTLE = 0.1  # of it: what a rank takes longer that only waits less
_OFTEN = 3  # slow steps; fewer show no period
_FEWEST = 2  # ranks


def slow_steps(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Steps that take far longer than the median, such as those with an evaluation or a checkpoint inside."""
    causes = causes_by_run(tables, options).get(run, ())
    cause = next((cause for cause in causes if cause.subject == "slow steps"), None)
    series = next((each for each in step_series(tables, warmup=options.warmup) if each.run == run), None)
    if cause is None or series is None or not cause.gain > _TELLING:
        return
    times, steps, number = series.steady, series.steps[series.warmup.cut :], cause.n or 0
    longest = int(times.argmax())
    take = f"{number} of {len(times)} steady steps {'take' if number > 1 else 'takes'} over twice the median"
    last = f"the longest is step {steps[longest]:,} with {show(float(times[longest]), 's', 3)}."
    if cause.may_bind:
        yield f"{take} and {'cost' if number > 1 else 'costs'} {percent(cause.gain)} of the time; {last}"
    else:  # steps that are not printed took most of the time
        done = int(series.order[-1] - series.order[series.warmup.cut])
        printed = f"{len(times):,} of {count(done + 1, 'step')} are printed"
        extra = show(cause.gain_s, "s", 3)
        yield f"{take}, by {extra} together, {percent(cause.gain)} of the printed time ({printed}); {last}"
    slow = far_longer(series)
    yield from _period(steps, slow)
    yield from _part_of_slow_steps(tables, run, series, slow)


def _period(steps: Ints, slow: Mask) -> Iterator[str]:
    """The distance of slow steps, if it is always the same, and some printed steps are between them."""
    between, printed = np.diff(steps[slow]), np.diff(steps)
    if len(between) >= _OFTEN - 1 and (between == between[0]).all() and between[0] >= 2 * np.median(printed):
        yield f"One of these slow steps comes every {between[0]:,} steps, the first at step {steps[slow][0]:,}."


class _Longer(NamedTuple):
    """A timed part of slow steps: the sum that it takes longer in them, its mean in them, and its median in others."""

    more: float
    name: str
    slow_s: float
    usual_s: float


def _part_of_slow_steps(tables: Tables, run: str, series: StepSeries, slow: Mask) -> Iterator[str]:
    """The timed part that takes most of what slow steps take longer than the median, and its rank if only it does."""
    steps, times = series.steps[series.warmup.cut :], series.steady
    more = float((times[slow] - np.median(times)).sum())
    parts = []
    for name, rows, column in _times_by_name(tables, run):
        several = _of_one_rank(name, rows, column, (steps, slow), more)
        parts += [part for part in (*several, _longer(name, rows, column, (steps, slow))) if part is not None]
    fitting = (part for part in parts if _MOSTLY <= part.more / more < 1 + _TELLING)  # what grows by more is no part
    for part in nlargest(1, fitting):
        them = "them" if slow.sum() > 1 else "it"
        change = f"{show(part.slow_s, 's', 3)} in {them} instead of {show(part.usual_s, 's', 3)}"
        yield f"{percent(part.more / more)} of the extra time is {part.name}: {change}."


def _longer(name: str, rows: Rows, column: str, of: tuple[Ints, Mask], of_slowest: bool = False) -> _Longer | None:
    """Return how much longer a part takes in slow steps: its mean over the ranks, or its slowest rank.

    `of`: the steps, and which are slow. None if a slow step lacks the part, no other step has it, or it is a clock.
    """
    steps, slow = of
    step = groups_of(rows["step"])
    numbers = rows["step"][step.first]
    values = step.ends(rows[column])[1] if of_slowest else step.means(rows[column])
    order = np.argsort(numbers, kind="stable")
    numbers, values = numbers[order], values[order]
    is_slow, usual = np.isin(numbers, steps[slow]), values[np.isin(numbers, steps[~slow])]
    if is_slow.sum() != slow.sum() or not len(usual) or (np.diff(values) > 0).all():
        return None
    middle = float(np.median(usual))
    return _Longer(float((values[is_slow] - middle).sum()), name, float(values[is_slow].mean()), middle)


def _of_one_rank(name: str, rows: Rows, column: str, of: tuple[Ints, Mask], more: float) -> list[_Longer]:
    """Return the part on the rank that alone takes longer, or on the slowest rank of each step; [] if more ranks do."""
    ranks = np.unique(rows["rank"][rows.known("rank")]).tolist()
    if len(ranks) < _FEWEST:
        return []
    each = [_longer(f"{name} of rank {rank}", rows.where(rows["rank"] == rank), column, of) for rank in ranks]
    known = sorted(part for part in each if part is not None)
    slowest = _longer(f"{name} of the slowest rank", rows, column, of, of_slowest=True)
    if len(known) < len(ranks) or slowest is None:
        return []
    if sum(part.more for part in known[:-1]) > (1 - _MOSTLY) * slowest.more:  # of several ranks
        return [slowest] if known[len(known) // 2].more < _LITTLE * more else []
    return [known[-1]]


def _times_by_name(tables: Tables, run: str) -> Iterator[tuple[str, Rows, str]]:
    """Yield the times in seconds that steps print by name: the name, the rows, and the column with the times."""
    for table, name, value in (("phases", "phase", "time_s"), ("values", "key", "value")):
        rows = tables.rows_of(table, run)
        rows = rows.where(rows.one_of("unit", ["s"])) if table == "values" else rows
        for each, timed in rows.where(rows.known("step", value)).by(name).items():
            is_whole = OF_BARS.search(each) or is_of_run(each, timed["step"], timed[value])
            if not is_whole:  # the rate of a bar is the step again
                yield each, timed, value
