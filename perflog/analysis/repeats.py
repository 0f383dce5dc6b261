"""Repeats that are none: runs with the same settings but speeds that differ far beyond their own scatter.

A log can hold a sweep several times, under other code or with a setting that it does not print. The runs are then told
apart by their order: the k-th run of each configuration is its round k.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.metrics import Tables
from perflog.metrics.attempts import attempts
from perflog.metrics.step_series import step_series
from perflog.statistics.repeats import BETWEEN_RESULTS, BETWEEN_RUNS, are_repeats
from perflog.statistics.samples import NORMAL, mad, median
from perflog.tables.schema import TABLES

ROUND = "round"
"""Name of the order of runs with the same settings, as a setting."""

_SPEEDS = ("step_time_s", "tokens_per_s", "samples_per_s", "tflops", "mfu")


class Difference(Struct, frozen=True):
    """Runs that are no repeats.

    `low`, `high`: lowest and highest value of a metric. `noise`: standard deviation of a step within a run, relative to
    its median; None where a run has only one value. `order`: places of the runs, the lowest value first.
    """

    runs: tuple[str, ...]
    figure: str
    unit: str
    low: float
    high: float
    noise: float | None
    order: tuple[int, ...]

    @property
    def apart(self) -> float:
        """How much larger the highest value is than the lowest, relative to it."""
        return self.high / self.low - 1


class Result(Struct, frozen=True):
    """A metric with one value per run: its name, its unit, and its value by run."""

    name: str
    unit: str
    values: Mapping[str, float]


def differing(
    tables: Tables, groups: Iterable[Sequence[str]], warmup: int | None = None, result: Result | None = None
) -> list[Difference]:
    """Return the groups of runs with the same settings that are no repeats, those that differ most first.

    A group is judged by its step times, else by a rate of its steps, else by `result`. Attempts of a job are
    no repeats.
    """
    attempt_by_run = attempts(tables)
    several = [tuple(run for run in runs if run not in attempt_by_run) for runs in groups]
    several = [runs for runs in several if len(runs) > 1]
    if not several:
        return []
    found: dict[tuple[str, ...], Difference | None] = {}
    units = {column.name: column.unit for column in TABLES["steps"]}
    for column in _SPEEDS:
        series = {each.run: each for each in step_series(tables, column, warmup) if len(each.steady)}
        for runs in several:
            if runs not in found and all(run in series for run in runs):
                steady = {run: series[run].steady for run in runs}
                medians = np.array([median(steady[run]) for run in runs])
                if not (medians > 0).all():  # idle, or no rate
                    continue
                noise = float(np.median([NORMAL * mad(steady[run]) for run in runs] / medians))
                found[runs] = _difference(runs, medians, column, units[column], noise)
    for runs in several:
        if result is not None and runs not in found and all(run in result.values for run in runs):
            values = np.array([result.values[run] for run in runs])
            found[runs] = _difference(runs, values, result.name, result.unit, None)
    return sorted((each for each in found.values() if each is not None), key=lambda each: -each.apart)


def _difference(
    runs: tuple[str, ...], values: Floats, figure: str, unit: str, noise: float | None
) -> Difference | None:
    """How these runs differ; None if they are repeats."""
    if not (values > 0).all() or are_repeats(values, BETWEEN_RESULTS if noise is None else max(BETWEEN_RUNS, noise)):
        return None
    order = tuple(np.argsort(values, kind="stable").tolist())
    name = (figure.removesuffix("_s") if unit == "s" else figure).replace("_", " ")
    return Difference(runs, name, unit, float(values.min()), float(values.max()), noise, order)


def rounds(groups: Iterable[Sequence[str]]) -> dict[str, int]:
    """Return the round of each run of groups in the order of their logs: k for the k-th of its group, from 1."""
    return {run: k for runs in groups for k, run in enumerate(runs, 1)}
