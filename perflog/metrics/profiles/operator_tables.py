"""Operator tables: torch.profiler's `key_averages().table()`, which mixes operators of the host with kernels.

The table prints no kinds. A row with time on the device and none on the host is a kernel, or an annotation, which spans
its kernels and is a row of the host too. The line below the table prints the total that the shares refer to; the table
itself may list only some of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.run_tables import Tables

if TYPE_CHECKING:
    import pandas as pd

_HOST, _TOTAL = "cpu_total", "self_device_time_total"
"""Keys of table `values`: host time of a row, and the line below a table with the total of its shares."""


def device_rows(kernels: pd.DataFrame, tables: Tables) -> pd.Series[bool]:
    """Flag the rows of table `kernels` without a printed kind that only a device executed."""
    host_s = _values(kernels, tables, _HOST)
    in_host = set(zip(kernels["run"][host_s > 0], kernels["name"][host_s > 0], strict=True))
    is_annotation = np.array([row in in_host for row in zip(kernels["run"], kernels["name"], strict=True)], bool)
    return kernels["kind"].isna() & (host_s == 0) & kernels["time_s"].gt(0) & ~is_annotation


def device_totals(kernels: pd.DataFrame, tables: Tables) -> pd.Series[float]:
    """Return, for each row of table `kernels`, the device time that is printed below its table; NaN if none is."""
    values = tables.rows("values")
    totals = {run: rows for run, rows in values.where(values.one_of("key", {_TOTAL})).by("run").items() if len(rows)}
    printed = kernels["time_s"].astype(float) * np.nan
    for (run, _), rows in kernels[kernels["run"].isin(list(totals))].groupby(["run", "section"], dropna=False):
        lines = totals[run]["line"]
        below = int(np.searchsorted(lines, int(rows["line"].max())))
        if below < len(lines):
            printed[rows.index] = totals[run]["value"][below]
    return printed


def _values(kernels: pd.DataFrame, tables: Tables, key: str) -> pd.Series[float]:
    """Value of a key that is on the line of each row; NaN if the line has none."""
    values = tables.rows("values")
    values = values.where(values.one_of("key", {key}))
    by_line = {(run, line): value for run, line, value in values.records("run", "line", "value")}
    rows = zip(kernels["run"], kernels["line"], strict=True)
    return kernels["time_s"].astype(float) * 0 + [by_line.get((run, int(line)), np.nan) for run, line in rows]
