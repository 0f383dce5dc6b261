"""The ends of several runs: which are the lowest and the highest, and which are far worse than their group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from perflog.analysis.overview.run_figures import SAMPLES, RunFigure
from perflog.analysis.overview.run_groups import RunGroup
from perflog.analysis.run_names import run_names
from perflog.log import Log
from perflog.statistics.samples import NORMAL, mad
from perflog.units import first_few, show

_FEWEST, _FAR, _FAR_SHARE = 8, 5.0, 0.05  # runs of a group; robust SD, and share of the median, of an outlier
_LISTED = 3  # runs
_SAME_SPEED = 0.05  # time of a sample: a larger difference is another speed


def outliers(figures: Sequence[RunFigure], groups: Sequence[RunGroup], log: Log) -> Iterator[str]:
    """Yield, for each group of many runs, the runs with a first metric far worse than their group, the worst first.

    Worse by more than 5 robust standard deviations (1.4826 MAD, Leys et al. 2013) and by more than 5 % of the median.
    """
    if not figures:
        return
    figure = figures[0]
    samples = next((each.values for each in figures if each.name == SAMPLES), {})
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
            short = {run: names[run].removeprefix(f"{group.name}/") for run in far}
            listed = first_few((f"{name} {show(values[run], figure.unit)}" for run, name in short.items()), _LISTED)
            place = f"{group.mark}: " if len(groups) > 1 else ""
            why = _more_samples(values, samples, far) if figure.unit == "s" else ""
            yield f"{place}far worse than the median {figure.name} of {show(centre, figure.unit)}: {listed}{why}."


def _more_samples(times: Mapping[str, float], samples: Mapping[str, float], far: Sequence[str]) -> str:
    """Words on far slower runs that trained on more samples, at the speed of the others; else none."""
    if not all(samples.get(run, 0.0) > 0 for run in times):
        return ""
    usual = float(np.median([samples[run] for run in times]))
    a_sample = float(np.median([times[run] / samples[run] for run in times]))
    needed = [samples[run] for run in far]
    if min(needed) <= usual or any(times[run] / samples[run] > (1 + _SAME_SPEED) * a_sample for run in far):
        return ""
    low, high = (f"{pick(needed):,.0f}" for pick in (min, max))
    span = low if low == high else f"{low} to {high}"
    return f"; not slower per sample: they need {span} samples, the median run {usual:,.0f}"


def extremes(figures: Sequence[RunFigure], log: Log) -> Iterator[str]:
    """Yield the runs with the lowest and the highest value of each metric, where they differ."""
    names = run_names(log.run_keys)
    for figure in figures:
        if len({*figure.values.values()}) > 1:
            ends = [pick(figure.values, key=lambda run: figure.values[run]) for pick in (min, max)]
            low, high = (f"{show(figure.values[run], figure.unit)} in {names[run]}" for run in ends)
            yield f"{figure.name}: from {low} to {high}."
