"""Readings of counters over the time."""

from __future__ import annotations

import numpy as np
import pandas as pd
from support.trace_tables import by_hand, kernel

from perflog import plots
from perflog.metrics import Tables
from perflog.tables.schema import TABLES


def test_devices_with_names_alone_have_lines_of_their_own() -> None:
    readings = [
        {"name": "sm", "device_name": name, "start_ns": at * 1000, "value": value + at}
        for name, value in (("GPU A", 1.0), ("GPU B", 50.0))
        for at in range(5)
    ]
    filled = [{"run": "r", "line": line, "part": 0} | reading for line, reading in enumerate(readings, 1)]
    frame = pd.DataFrame(filled, columns=[column.name for column in TABLES["counters"]])
    (axes,) = plots.counters(Tables(dict(by_hand([kernel(0, 10)])) | {"counters": frame})).axes
    drawn = {line.get_label(): list(np.asarray(line.get_ydata(), float)) for line in axes.lines}
    assert drawn == {"GPU A": [1.0, 2.0, 3.0, 4.0, 5.0], "GPU B": [50.0, 51.0, 52.0, 53.0, 54.0]}
