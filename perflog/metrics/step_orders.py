"""Step orders: the number of each step in the order of its run, also where the steps start again in each epoch."""

from __future__ import annotations

import numpy as np

from perflog.arrays import Ints
from perflog.metrics.run_tables import Tables, computed_of_all, computed_once
from perflog.tables.columns import NULL, Rows


def step_order(tables: Tables, rows: Rows) -> Ints:
    """Return the number of each row's step in the order of its run. The rows are of table `steps`.

    It is the step, unless steps start again in each epoch: then the steps of an epoch come after the steps of all
    epochs before it, each as long as the longest.
    """
    steps = rows["step"]
    longest = epoch_lengths(tables)
    if not longest:
        return steps
    codes, words = rows.codes("run")
    lengths = np.array([longest.get(word, 0) for word in words], np.int64)[codes]
    epochs = rows["epoch"]
    return np.asarray(steps + np.where(epochs == NULL, 0, epochs) * lengths)


@computed_once
def epoch_lengths(tables: Tables) -> dict[str, int]:
    """Return a number larger than each step of an epoch, for each run in which the steps start again in each epoch.

    It is the same for all runs that were read, so that the orders of the attempts of a job can be compared.
    """
    lengths = _lengths(tables)
    return {run: lengths[run] for run in tables.rows("runs")["run"].tolist() if run in lengths}


@computed_of_all
def _lengths(tables: Tables) -> dict[str, int]:
    steps = tables.rows("steps")
    steps = steps.where(steps.known("epoch"))
    return dict.fromkeys(steps.counts("run"), int(steps["step"].max()) + 1) if len(steps) else {}
