"""The ends of several runs: which are the lowest and the highest, and which are far worse than their group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perflog.analysis.overview.run_figures import RunFigure
from perflog.analysis.overview.run_groups import RunGroup, run_names
from perflog.log import Log
from perflog.statistics.samples import NORMAL, mad
from perflog.units import show

_FEWEST, _FAR, _FAR_SHARE = 8, 5.0, 0.05  # runs of a group; robust SD, and share of the median, of an outlier
_LISTED = 3  # runs


def outliers(figure: RunFigure, groups: Sequence[RunGroup], log: Log) -> Iterator[str]:
    """Yield, for each group of many runs, the runs that are far worse than their group, the worst first.

    Worse by more than 5 robust standard deviations (1.4826 MAD, Leys et al. 2013) and by more than 5 % of the median.
    """
    names = run_names(log.run_keys)
    sign = -1.0 if figure.better == "higher" else 1.0
    for group in groups:
        values = {run: figure.values[run] for run in group.runs if run in figure.values}
        if len(values) < _FEWEST or figure.better is None:
            continue
        numbers = np.array(list(values.values()))
        centre = float(np.median(numbers))
        limit = max(_FAR * NORMAL * mad(numbers), _FAR_SHARE * abs(centre))
        far = sorted(
            (run for run in values if sign * (values[run] - centre) > limit), key=lambda run: -sign * values[run]
        )
        if far:
            listed = ", ".join(f"{names[run]} {show(values[run], figure.unit)}" for run in far[:_LISTED])
            more = f" and {len(far) - _LISTED} more" if len(far) > _LISTED else ""
            place = f"{group.mark}: " if len(groups) > 1 else ""
            yield f"{place}far worse than the median {figure.name} of {show(centre, figure.unit)}: {listed}{more}."


def extremes(figures: Sequence[RunFigure], log: Log) -> Iterator[str]:
    """Yield the runs with the lowest and the highest value of each figure, where several runs have it."""
    names = run_names(log.run_keys)
    for figure in figures:
        if len(figure.values) > 1:
            ends = [pick(figure.values, key=lambda run: figure.values[run]) for pick in (min, max)]
            low, high = (f"{show(figure.values[run], figure.unit)} in {names[run]}" for run in ends)
            yield f"{figure.name}: from {low} to {high}."
