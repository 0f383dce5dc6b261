"""What a step of an attempt usually takes, and which of its first steps warm up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.arrays import Mask
from perflog.metrics.jobs.attempt_clock import StepLines
from perflog.metrics.jobs.job_intervals import NS
from perflog.statistics.samples import mad, median

_NEAR = 8  # step lines on both sides, from which the usual step time is estimated
_COMPILE = 2.0  # times a usual step: a first step that is longer compiles, or warms up
_FIRST = 3  # step lines that may warm up
_MOST = 0.95  # of the later steps must be shorter


class UsualSteps:
    """What the steps of an attempt take, by step line.

    Attributes:
        each: The time of a step since the line before, on the clock.
        plain: Whether no line reports a pause before the step line.
        printed: The printed time of a step, and what each takes outside of it.
        scatter_outside: The scatter of what steps take outside of their printed time.
        overall: The usual time of a step of the whole attempt.
        warm: The number of step lines that warm up.
    """

    def __init__(self, steps: StepLines, paused: Sequence[int]) -> None:
        """`paused`: indexes of the step lines before which a line reports a pause."""
        gaps = np.diff(steps.times) / NS
        done = np.maximum(steps.steps_done[1:], 1)
        self.each = np.append(np.nan, gaps / done)  # by step line: clock time of a step since the line before
        self.plain: Mask = np.ones(len(steps.times), np.bool_)
        self.plain[[gap for gap in paused if gap < len(steps.times)]] = False
        self.plain[0] = False
        outside = (self.each - steps.seconds)[self.plain]
        outside = outside[np.isfinite(outside)]
        # time of each iteration outside of its printed time belongs to it
        beside = max(0.0, median(outside)) if len(outside) >= 4 else 0.0
        self.scatter_outside = mad(outside) if len(outside) >= 4 else 0.0
        self.printed = steps.seconds + beside
        plain = self.each[self.plain]
        self.overall = median(plain) if len(plain) else float(np.nanmedian(self.each))
        self.warm = self._warming(steps)

    def _warming(self, steps: StepLines) -> int:
        """Number of step lines that warm up: the first few, if they are far longer than nearly all others."""
        later = self.each[1 + _FIRST :][self.plain[1 + _FIRST :]]
        if len(later) < _FIRST:
            return 0
        longest = max(_COMPILE * self.overall, float(np.quantile(later, _MOST)))
        first = steps.seconds[0] if np.isfinite(steps.seconds[0]) else np.inf
        slow = np.append(first, self.each[1 : 1 + _FIRST]) > longest
        return int(np.argmin(np.append(slow, False)))

    def around(self, line_index: int) -> tuple[float, float]:
        """Return the usual time of a step around a step line, without steps with a pause, and its scatter."""
        low, high = max(0, line_index - _NEAR), line_index + _NEAR + 1
        around = np.flatnonzero(self.plain[low:high]) + low
        around = around[around != line_index]
        if len(around) < 3:
            return self.overall, 0.1 * self.overall
        each = self.each[around]
        return median(each), mad(each)
