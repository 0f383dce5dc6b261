"""Settings of all runs of a log, for metrics."""

from __future__ import annotations

from perflog.grouping import grouped
from perflog.metrics.run_tables import Tables, computed_once
from perflog.settings.name_settings import settings_of_runs
from perflog.settings.run_settings import Settings, telling_settings

MFU_PEAK_OF = "mfu_peak_of"
"""Setting of runs of a program that uses the peak of another device instead of its own, which it does not know."""

STOPPED_BY = "stopped_by"
"""Setting of runs that their program itself ended before the announced steps: the reason that it prints."""


@computed_once
def settings_by_run(tables: Tables) -> dict[str, Settings]:
    """Return the settings of all runs, by run id."""
    names = ("run", "format", "program", "model", "world_size", "device", "dtype", "process", "config",
             "outcomes", "provenance", "log")  # fmt: skip
    return settings_of_runs(tables.rows("runs").dicts(*names))


@computed_once
def repeats(tables: Tables) -> list[list[str]]:
    """Return groups of two or more runs, by id, that agree in format and all settings which are not incidental."""
    known_settings = settings_by_run(tables)
    names = ["format", *telling_settings(list(known_settings.values()))]
    groups = grouped((tuple(settings.get(name) for name in names), run) for run, settings in known_settings.items())
    return [runs for runs in groups.values() if len(runs) > 1]
