"""How often each step of a run was printed, and how many steps a line covers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perflog.parsing.match.numeric import Ints

_DENSE = 1 << 24  # steps below it are counted in an array
_MANY = 255  # printings of a step, from which on they are counted beside it


@dataclass
class StepRepeats:
    """The steps that one rank printed in a run; of lines whose rank is not known, those of all of them together."""

    first_step: int | None = None
    last_step: int = 0
    last_span: int = 1  # steps covered by the last printed one
    top: int = -1  # no step above this one has been printed
    seen: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))  # printings of each step
    copies: dict[int, int] = field(default_factory=dict)  # the same where `seen` has no room for it

    def copies_of(self, steps: Ints) -> Ints:
        """k-th printing of the same step, from 1. `steps`: those printed next, in log order."""
        out = np.ones(len(steps), np.int64)
        rising = bool((steps[1:] > steps[:-1]).all()) and int(steps[0]) > self.top
        self.top = max(self.top, int(steps.max()))
        if rising and int(steps[-1]) < _DENSE:
            self._seen(int(steps[-1]))[steps] = 1
            return out
        for i, step in enumerate(steps.tolist()):
            dense = 0 <= step < _DENSE
            if dense and (seen := self._seen(step))[step] < _MANY:
                seen[step] += 1
                out[i] = seen[step]
            else:
                self.copies[step] = self.copies.get(step, _MANY if dense else 0) + 1
                out[i] = self.copies[step]
        return out

    def spans_of(self, steps: Ints) -> Ints:
        """Steps a line covers: all since the step printed before it, counted from 1.

        A counter that goes back to where the run's first line stood (the next epoch) covers what that line did.
        """
        out = np.ones(len(steps), np.int64)
        last, span = self.last_step, self.last_span
        for i, step in enumerate(steps.tolist()):
            if self.first_step is None:
                self.first_step = step
            if step != last:
                span = step - last if step > last else step if step == self.first_step else 1
                last = step
            out[i] = span
        self.last_step, self.last_span = last, span
        return out

    def _seen(self, step: int) -> npt.NDArray[np.uint8]:
        """How often each step was printed, as an array long enough for `step`."""
        if step >= len(self.seen):
            grown = np.zeros(max(2 * len(self.seen), step + 1, 128), np.uint8)
            grown[: len(self.seen)] = self.seen
            self.seen = grown
        return self.seen
