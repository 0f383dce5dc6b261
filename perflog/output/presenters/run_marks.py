"""Short names of runs for tables with little room, and what they mean."""

from __future__ import annotations

from perflog.analysis.overview.run_groups import run_marks, run_names
from perflog.log import Log
from perflog.metrics.run_settings import settings_of, telling_settings
from perflog.output.sheets import Mark

LONG = 16
"""Characters of a name that is long enough to need a mark."""


def marks_of(log: Log) -> dict[str, Mark]:
    """Return the marks of several runs by run id and by label, with the settings in which the runs differ."""
    keys = log.run_keys
    if len(keys) < 2:
        return {}
    settings = {row["run"]: settings_of(row) for row in log.arrow("runs").to_pylist()}
    telling = telling_settings([settings[key.id] for key in keys])
    names, shorts = run_names(keys), run_marks(keys)
    marks: dict[str, Mark] = {}
    for key in keys:
        values = [f"{name} {settings[key.id].get(name, '-')}" for name in telling]
        meaning = ", ".join([key.id, *([names[key.id]] if key.label or shorts[key.id][0] != "#" else []), *values])
        marks[key.id] = Mark(shorts[key.id], meaning)
        if len(key.label or "") > LONG:
            marks[key.label or ""] = marks[key.id]
    return marks
