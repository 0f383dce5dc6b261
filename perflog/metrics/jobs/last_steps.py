"""The last step of each run: of its last step line, or of a later line that prints the same clock.

A program that prints a line every 50 steps may stop between two of them. A later line, such as a last validation, shows
the step.
"""

from __future__ import annotations

import numpy as np

from perflog.metrics.run_tables import Tables, computed_once
from perflog.statistics.groups import distinct
from perflog.tables.columns import Rows


@computed_once
def last_steps(tables: Tables) -> dict[str, int]:
    """Return the last step of each run that prints steps, by run id."""
    steps, values, runs = tables.rows("steps"), tables.rows("values"), tables.rows("runs")
    by_run = steps.where(steps.known("step")).by("run")
    read = dict(runs.where(runs.known("elapsed_line")).records("run", "elapsed_line"))
    read_values = values.where(values.one_of("run", read))
    others = read_values.where(read_values.known("step")).by("run")
    return {run: _last_of(run_steps, others.get(run), read.get(run)) for run, run_steps in by_run.items()}


def _last_of(steps: Rows, others: Rows | None, read: int | None) -> int:
    """Return the last step of a run. Line `read` is the last line with a reading of the clock.

    A line after the last step line adds less than the distance of step lines: it would be a step line otherwise.
    """
    printed = distinct(steps["step"])
    last = int(printed[-1])
    if others is None or len(printed) < 2:
        return last
    distance = int(np.median(np.diff(printed)))
    later = others["step"][others["line"] == read]
    return int(later[later < last + distance].max(initial=last))
