"""Counters of the parts of a step: `micro 12 | step 2 | loss 2.9` prints each micro-batch, with the step that it is of.

A step of such a run is printed as often as it has parts. It is not printed again: another number counts the lines.
"""

from __future__ import annotations

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.run_tables import Tables, computed_once
from perflog.statistics.groups import groups_of
from perflog.tables.columns import Rows

_REPEATED = 0.5  # share of the steps that are printed several times, at least


@computed_once
def runs_in_parts(tables: Tables) -> dict[str, str]:
    """Return the runs whose lines are parts of steps, and the name of what counts them."""
    steps = tables.rows("steps")
    if not (steps["copy"] > 1).any():
        return {}
    values = tables.rows("values")
    by_run = values.where(values.known("value") & values.known("line")).by("run")
    repeated = steps.where(steps.known("step") & steps.known("line")).by("run")
    found = {run: _counter(rows, by_run[run]) for run, rows in repeated.items() if run in by_run}
    return {run: counter for run, counter in found.items() if counter}


def _counter(steps: Rows, values: Rows) -> str:
    """Return the name of the whole number that counts the lines of steps; "" if there is none.

    It grows from line to line over the whole run, or it grows by one from line to line of each step.
    """
    sizes = groups_of(steps["rank"], steps["epoch"], steps["step"]).sizes
    order = _Order(steps)
    if np.mean(sizes > 1) < _REPEATED or (order.changes("step", "epoch") < 0).any():
        return ""  # also after a restart
    for key, rows in values.by("key").items():
        order = _Order(rows)
        is_of_each = np.isin(steps["line"], rows["line"]).all() and (rows["value"] == np.floor(rows["value"])).all()
        within = order.changes("value", "step")
        if is_of_each and ((order.changes("value") > 0).all() or (len(within) and (within == 1).all())):
            return key
    return ""


class _Order:
    """The rows of a run in the order of their lines, process by process."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows.where(np.lexsort((rows["part"], rows["line"], rows.codes("source")[0], rows["rank"])))
        self._is_next = (np.diff(self._rows["rank"]) == 0) & (np.diff(self._rows.codes("source")[0]) == 0)

    def changes(self, column: str, within: str | None = None) -> Floats:
        """Return the changes of a column from row to row of a process, only where another column stays."""
        same = self._is_next if within is None else self._is_next & (np.diff(self._rows[within]) == 0)
        changes: Floats = np.diff(self._rows[column])[same]
        return changes
