"""Drifts of the speed: steps that take longer and longer, or shorter and shorter, without a change at one step."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from perflog.metrics.jobs.step_levels import first_speeds, run_levels
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.step_series import StepSeries
from perflog.statistics.rank_tests import midranks
from perflog.statistics.samples import median

_PARTS, _FEWEST = 10, 5  # parts of a run; steps of each
_LEAST = 0.05  # change from the first part to the last
_IN_ORDER = 0.9  # correlation of the ranks of the parts with their order


class RunDrift(Struct, frozen=True):
    """The speed of a run that drifts: the medians of the first and of the last tenth of its steady steps.

    `unit`: of the medians, as `step_levels.SPEEDS` has it.
    """

    series: StepSeries
    unit: str
    first: float
    last: float

    @property
    def change(self) -> float:
        """The change, relative to the first tenth."""
        return self.last / self.first - 1


@computed_once
def run_drifts(tables: Tables, warmup: int | None = None) -> dict[str, RunDrift]:
    """Return the drifts of the runs that have one and no levels (metric `levels`), by run id."""
    levels = run_levels(tables, warmup)
    speeds = ((unit, series) for unit, series in first_speeds(tables, warmup) if series.run not in levels)
    return {series.run: drift for unit, series in speeds if (drift := _drift(series, unit)) is not None}


def _drift(series: StepSeries, unit: str) -> RunDrift | None:
    if len(series.steady) < _PARTS * _FEWEST:
        return None
    medians = np.array([median(part) for part in np.array_split(series.steady, _PARTS)])
    order = np.corrcoef(midranks(medians), np.arange(_PARTS))[0, 1] if np.ptp(medians) else 0.0
    drift = RunDrift(series, unit, float(medians[0]), float(medians[-1]))
    is_clear = abs(order) >= _IN_ORDER and medians[0] > 0 and abs(drift.change) >= _LEAST
    return drift if is_clear else None
