"""What the steps of an attempt usually take, by hand: on the clock, beside their printed time, at their beginning."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perflog.metrics.jobs import usual_steps as module
from perflog.metrics.jobs.usual_steps import UsualSteps

NS = 10**9
GAPS = (5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0)
"""Seconds from each step line to the next one."""


def usual(
    gaps: Sequence[float] = GAPS, printed: Sequence[float] = (), paused: Sequence[int] = (8,), done: int = 1
) -> UsualSteps:
    """Step lines that each do so many steps. `printed`: step times, none if empty. `paused`: lines behind a pause."""
    lines: Any = SimpleNamespace(
        times=np.append(0, np.cumsum(gaps)) * NS, steps_done=np.full(len(gaps) + 1, done),
        seconds=np.array(printed or [np.nan] * (len(gaps) + 1)),
    )  # fmt: skip
    return UsualSteps(lines, paused)


def test_steps_on_the_clock() -> None:
    """Line 0 has no line before it, and line 8 follows a pause; a line may be beyond the last one."""
    found = usual(paused=(8, 11))
    assert np.isnan(found.each[0]) and found.each[1:].tolist() == list(GAPS)
    assert np.flatnonzero(~found.plain).tolist() == [0, 8]
    assert (found.overall, found.scatter_outside) == (1.0, 0.0) and np.isnan(found.printed).all()
    assert usual(done=2).each[1:3].tolist() == [2.5, 0.5] and usual(done=0).each[1:3].tolist() == [5.0, 1.0]
    assert usual((2.0, 4.0, 9.0), paused=(1, 2, 3)).overall == 4.0  # a pause before each line


@pytest.mark.parametrize(
    ("first", "warm"),
    [((5.0, 1.0, 1.0), 2), ((5.0, 5.0, 5.0), 4), ((1.0, 5.0, 1.0), 1), ((2.0, 1.0, 1.0), 1), ((2.1, 1.0, 1.0), 2)],
)
def test_first_steps_that_take_over_twice_the_usual_time_warm_up(first: tuple[float, ...], warm: int) -> None:
    """The first line does so too, if its time is not known. Three gaps may; three later ones must be known."""
    assert usual((*first, *[1.0] * 7), paused=()).warm == warm
    assert usual((*first, 1.0, 1.0), paused=()).warm == 0
    assert usual((*first, *[1.0] * 7), printed=[1.0] * 11, paused=()).warm == 0
    assert usual((*first, *[1.0] * 7), printed=[9.0] * 11, paused=()).warm == warm


def test_steps_as_long_as_later_ones_do_not_warm_up() -> None:
    """One of eight later steps takes longer: 95 % of them must be shorter."""
    assert usual((5.0, 1.0, 1.0, *[1.0] * 7, 9.0), paused=()).warm == 1
    assert usual((5.0, 1.0, 1.0, *[1.0] * 39, 9.0), paused=()).warm == 2


def test_time_beside_the_printed_time_belongs_to_the_step() -> None:
    """A quarter of a second in the median, where four lines or more show it."""
    gaps = (1.0, 1.5, 2.0, 2.5, 3.0)
    beside = (0.25, 0.25, 0.25, 0.5, 0.0)
    printed = [1.0, *(gap - more for gap, more in zip(gaps, beside, strict=True))]
    found = usual(gaps, printed, paused=())
    assert found.printed.tolist() == [1.25, *(time + 0.25 for time in printed[1:])]
    assert found.scatter_outside == 0.0
    few = usual(gaps[:3], printed[:4], paused=())
    assert few.printed.tolist() == printed[:4]
    assert usual(gaps, [each + 2 for each in printed], paused=()).printed[0] == 3.0  # no time beside it


def test_the_steps_around_a_line() -> None:
    """Not the line itself, nor lines behind a pause; of fewer than three a tenth of the usual time is the scatter."""
    gaps = [1.0, 2.0, 3.0, 50.0, 5.0, 6.0]
    assert usual(gaps, paused=(5,)).around(4) == (2.5, 1.0)  # 1, 2, 3 and 6 s
    assert usual(gaps[:3], paused=()).around(2) == (2.0, 0.2)
    far = usual([100.0, *[1.0] * (2 * module._NEAR + 1), 100.0], paused=())
    assert far.around(module._NEAR + 2) == (1.0, 0.0)
