"""Which steps a printed average averages, found by recomputing it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

TAIL = 4096
"""Steps of a run that are kept to look for windows in: memory stays flat however long a run is."""


@dataclass(frozen=True)
class StepWindow:
    """Steps `first:last` (indices, last excluded) whose mean is the printed figure. `exact`: to the last bit."""

    first: int
    last: int
    exact: bool


def _sequential_mean(values: Floats) -> float:
    return float(np.cumsum(values)[-1] / len(values))


def _exact(values: Floats, printed: float) -> bool:
    """Equal to the last bit when summed in order: timers hold C floats, so the float32 of each printed value too."""
    single = values.astype(np.float32).astype(np.float64)
    return _sequential_mean(single) == printed or _sequential_mean(values) == printed


def _fits(values: Floats, printed: float, slack: float, starts: npt.NDArray[np.int64], last: int) -> list[int]:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means = (sums[last] - sums[starts]) / (last - starts)
    return [int(s) for s in starts[np.abs(means - printed) <= slack]]


def find_window(
    values: Floats, printed: float, decimals: int, hint: int | None = None, everywhere: bool = True
) -> StepWindow | None:
    """The window of `values` (as printed, with so many decimals) whose mean was printed; None if none fits.

    `hint` is the length of the window at the end that fitted the last such figure of the log. Windows that end at
    the last step are looked at first, then all others; without equality to the last bit a window counts only if it
    is the only one within the rounding of the printed values. Without `everywhere` only windows at the end are tried.
    """
    n = len(values)
    slack = 0.5 * 10.0**-decimals + 1e-12 * abs(printed)
    if n == 0 or not np.isfinite(printed):
        return None
    if hint and hint <= n:
        tail = values[n - hint :]
        if abs(float(tail.mean()) - printed) <= slack:
            return StepWindow(n - hint, n, _exact(tail, printed))
    for last in range(n, 0, -1):
        starts = _fits(values, printed, slack, np.arange(last), last)
        exact = [s for s in starts if _exact(values[s:last], printed)]
        if exact:
            return StepWindow(exact[0], last, True)
        if last == n and len(starts) == 1:
            return StepWindow(starts[0], n, False)
        if last == n and (starts or not everywhere):
            return None
    return None
