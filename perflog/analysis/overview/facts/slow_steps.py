"""Steps that take far longer than the median: how often they come, and which part takes longer, on which rank."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.analysis.overview.parts import percent
from perflog.arrays import Ints, Mask
from perflog.metrics import Options, Tables
from perflog.metrics.causes import causes_by_run
from perflog.metrics.causes.slow_steps import SLOW_STEPS, LongerPart, far_longer, parts_of_slow_steps
from perflog.metrics.jobs.step_levels import run_levels
from perflog.metrics.step_series import step_series
from perflog.units import count, show

_TELLING = 0.03  # of the time: smaller parts are no reason
_AT_AN_END = 0.1  # of the steps
_OFTEN = 3  # slow steps; fewer show no period


def slow_steps(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Steps that take far longer than the median, such as those with an evaluation or a checkpoint inside."""
    causes = causes_by_run(tables, options).get(run, ())
    cause = next((cause for cause in causes if cause.subject == SLOW_STEPS), None)
    series = next((each for each in step_series(tables, warmup=options.warmup) if each.run == run), None)
    if cause is None or series is None or not cause.gain > _TELLING:
        return
    slow = far_longer(series)
    if run in run_levels(tables, options.warmup) or _are_at_an_end(slow):
        return
    times, steps, number = series.steady, series.steps[series.warmup.cut :], cause.n or 0
    longest = int(times.argmax())
    of = f"{number} of {len(times)}"
    last, seconds = f"step {steps[longest]:,}", show(float(times[longest]), "s", 3)
    if series.averaged < 2:
        last = f"the longest is {last} with {seconds}."
        take = f"{of} steady steps {'take' if number > 1 else 'takes'} over twice the median"
    else:  # as if one step of each took twice the median
        last = f"the longest is {seconds} up to {last}."
        above = percent(series.pause_limit / float(np.median(times)) - 1)
        take = (
            f"{of} means of {series.averaged} steps {'are' if number > 1 else 'is'} {above} and more above the median"
        )
    if cause.may_bind:
        yield f"{take} and {'cost' if number > 1 else 'costs'} {percent(cause.gain)} of the time; {last}"
    else:  # steps that are not printed took most of the time
        done = int(series.order[-1] - series.order[series.warmup.cut])
        printed = f"{len(times):,} of {count(done + 1, 'step')} are printed"
        extra = show(cause.gain_s, "s", 3)
        yield f"{take}, by {extra} together, {percent(cause.gain)} of the printed time ({printed}); {last}"
    yield from _period(steps, slow)
    part = parts_of_slow_steps(tables, options.warmup).get(run)
    if part is not None:
        yield _longer_part(part, float((times[slow] - np.median(times)).sum()), number)


def _are_at_an_end(slow: Mask) -> bool:
    """Whether several slow steps are the first or the last ones: the run is slow there, and no single step."""
    places = np.flatnonzero(slow)
    together = len(places) >= max(_OFTEN, _AT_AN_END * len(slow)) and bool((np.diff(places) == 1).all())
    return together and bool(slow[0] or slow[-1])


def _period(steps: Ints, slow: Mask) -> Iterator[str]:
    """The distance of slow steps, if it is always the same, and some printed steps are between them."""
    between, printed = np.diff(steps[slow]), np.diff(steps)
    if len(between) >= _OFTEN - 1 and (between == between[0]).all() and between[0] >= 2 * np.median(printed):
        yield f"One of these comes every {between[0]:,} steps, the first at step {steps[slow][0]:,}."


def _longer_part(part: LongerPart, cost_s: float, number: int) -> str:
    """The timed part that takes most of what slow steps take longer, and its rank if only it does."""
    where = " of the slowest rank" if part.slowest_only else f" of rank {part.rank}" if part.rank is not None else ""
    change = f"{show(part.slow_s, 's', 3)} in {'them' if number > 1 else 'it'} instead of {show(part.usual_s, 's', 3)}"
    return f"{percent(part.more_s / cost_s)} of the extra time is {part.name}{where}: {change}."
