"""Short names of runs for tables with little room, and what they mean."""

from __future__ import annotations

from perflog.analysis.run_names import run_marks, run_names, run_places
from perflog.log import Log
from perflog.output.sheets import Mark
from perflog.parsing.input.log_names import base_name
from perflog.settings.name_settings import settings_of_runs
from perflog.settings.run_settings import telling_settings

LONG = 16
"""Characters of a name that is long enough to need a mark."""


def marks_of(log: Log) -> dict[str, Mark]:
    """Return the marks of several runs by run id and by label, with the settings in which the runs differ."""
    keys = log.run_keys
    if len(keys) < 2:
        return {}
    settings = settings_of_runs(log.arrow("runs").to_pylist())
    telling = telling_settings([settings[key.id] for key in keys])
    names, shorts, printed = run_names(keys), run_marks(keys), printed_names(log)
    marks: dict[str, Mark] = {}
    for key in keys:
        values = [f"{name} {settings[key.id].get(name, '-')}" for name in telling]
        meaning = ", ".join([key.id, *([names[key.id]] if key.label or shorts[key.id][0] != "#" else []), *values])
        marks[key.id] = marks[printed[key.id]] = Mark(shorts[key.id], meaning)
        if len(key.label or "") > LONG:
            marks[key.label or ""] = marks[key.id]
    return marks


def printed_names(log: Log) -> dict[str, str]:
    """Return the names of runs for people, by id: labels if all of them differ, else logs, and #3 in a log."""
    keys = log.run_keys
    labels = {key.id: key.label for key in keys}
    if len(set(labels.values())) == len(keys) and all(labels.values()):
        return {id: label or "" for id, label in labels.items()}
    if len(keys) == 1 and keys[0].index > 1:
        return {keys[0].id: f"{base_name(keys[0].log)}#{keys[0].index}"}
    return run_places(keys)
