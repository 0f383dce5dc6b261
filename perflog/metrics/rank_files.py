"""Logs that are a file for each rank, read one after the other."""

from __future__ import annotations

from perflog.metrics.run_tables import Tables, cached
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.rank_names import label_of_file


def is_of_rank_files(tables: Tables, run: str) -> bool:
    """Return whether the log of a run has a file for each rank: its lines are not in the order of time."""
    logs: dict[str, str] = cached(
        tables.whole, ("logs of runs",), lambda: dict(tables.whole.rows("runs").records("run", "log"))
    )
    files = LogName.parse(logs[run]).files if logs.get(run) else ()
    return len(files) > 1 and all(map(label_of_file, files))
