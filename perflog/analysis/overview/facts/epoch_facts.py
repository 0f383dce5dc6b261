"""The times of epochs in sentences: which are far from the others, and since which epoch they take more or less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from perflog.metrics import Options, Tables, epochs
from perflog.metrics.jobs.step_levels import run_levels
from perflog.statistics.levels import course
from perflog.statistics.samples import median
from perflog.tables.nulls import floats
from perflog.units import first_few, show, show_change

_FEW = 3  # runs, and epochs, that are shown one by one
_FEWEST = 4  # epochs
_TELLING = 0.05  # a smaller difference is not shown
_SCATTER = 0.01  # least scatter of the times, which bars print in whole seconds


def epoch_facts(tables: Tables, options: Options, marks: Mapping[str, str]) -> Iterator[str]:
    """Yield for each of a few runs unusually long or short epochs, and since which epoch they take another time.

    `marks`: by run, the prefix of its sentences.
    """
    rows = epochs.table(tables, options)
    if not len(rows) or rows["run"].nunique() > _FEW:
        return
    for run, run_rows in rows[~rows["run"].isin(run_levels(tables, options.warmup).keys())].groupby("run", sort=False):
        times, numbers = floats(run_rows["time_s"]), run_rows["epoch"].to_numpy()
        mark = marks.get(str(run), "")
        if len(times) < _FEWEST:
            continue
        found = course(np.log(times), _SCATTER)
        centre = median(times)
        far = [k for k in found.outliers if abs(times[k] / centre - 1) > _TELLING]
        if far:
            texts = first_few([f"epoch {numbers[k]} {show(times[k], 's', 3)}" for k in far], _FEW)
            yield f"{mark}Far from the median epoch of {show(centre, 's', 3)}: {texts}."
        medians = (median(times[each.start : each.stop]) for each in found.levels)
        for (before, after), level in zip(pairwise(medians), found.levels[1:], strict=True):
            if abs(after / before - 1) > _TELLING:
                values = f"{show(before, 's', 3)} -> {show(after, 's', 3)}, {show_change(after / before - 1)}"
                yield f"{mark}Since epoch {numbers[level.start]}: epoch {values}."
