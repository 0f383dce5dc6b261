"""Logs that are a file for each rank or process, read one after the other: their lines are not in the order of time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.metrics.run_tables import Tables, computed_of_all
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.rank_names import label_of_file


def is_of_rank_files(tables: Tables, run: str) -> bool:
    """Return whether the log of a run has a file for each rank."""
    files = _files(tables, run)
    return len(files) > 1 and all(map(label_of_file, files))


def is_of_process_files(tables: Tables, runs: Sequence[str]) -> bool:
    """Return whether the log of some runs has a file for each of several processes without a rank.

    The lines of each process then follow the lines of another one.
    """
    if len(_files(tables, runs[0])) < 2:
        return False
    rows = tables.rows("steps").where(tables.rows("steps").one_of("run", runs))
    sources, _ = rows.where(np.argsort(rows["line"], kind="stable")).codes("source")
    number = len(np.unique(sources))
    return number > 1 and bool((sources >= 0).all()) and np.count_nonzero(np.diff(sources)) == number - 1


def _files(tables: Tables, run: str) -> Sequence[str]:
    log = _logs(tables).get(run)
    return LogName.parse(log).files if log else ()


@computed_of_all
def _logs(tables: Tables) -> dict[str, str]:
    return dict(tables.rows("runs").records("run", "log"))
