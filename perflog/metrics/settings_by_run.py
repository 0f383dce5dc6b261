"""Settings of all runs of a log, for metrics."""

from __future__ import annotations

from perflog.metrics.registry import Tables, cached
from perflog.settings.run_settings import Settings, settings_of
from perflog.tables.columns import NULL

MFU_PEAK_OF = "mfu_peak_of"
"""Setting of runs whose program takes the peak of another device for that of its own, which it does not know."""

STOPPED_BY = "stopped_by"
"""Setting of runs that their program itself ended before the announced steps: what it names as the reason."""


def settings_by_run(tables: Tables) -> dict[str, Settings]:
    """Return the settings of all runs, by run id."""
    return cached(tables, "settings by run", lambda: _settings_by_run(tables))


def _settings_by_run(tables: Tables) -> dict[str, Settings]:
    names = ("run", "format", "program", "model", "world_size", "device", "dtype", "process", "config",
             "outcomes", "provenance")  # fmt: skip
    records = (dict(zip(names, values, strict=True)) for values in tables.rows("runs").records(*names))
    return {row["run"]: settings_of({k: None if v == NULL else v for k, v in row.items()}) for row in records}
