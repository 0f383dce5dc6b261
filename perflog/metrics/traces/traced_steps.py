"""Times of steps, of traces with the work of each step: an annotation of the host ends when all work is launched.

A program that waits for the device once in many steps launches a step in a fraction of its time.
"""

from __future__ import annotations

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.traces.device_work import seconds, trace_devices


@computed_once
def step_times(tables: Tables) -> Floats:
    """Return the time in s of each row of table `steps`; NaN where it has none.

    Of traces it is the window of the step on its device, the longest of several, as in `device_steps`. These windows
    touch: their sum is the time of the steps. All other times are as printed.
    """
    rows = tables.rows("steps")
    times = rows["step_time_s"]
    if not len(rows) or not tables.count("events"):
        return times
    codes, words = rows.codes("run")
    run_codes = {run: code for code, run in enumerate(words)}
    found: dict[tuple[int, int, int], int] = {}
    for device in trace_devices(tables):
        if device.run in run_codes and len(device.annotated.numbers):
            lengths = device.steps.ends - device.steps.starts
            for line, length in zip(device.steps.lines.tolist(), lengths.tolist(), strict=True):
                place = run_codes[device.run], device.part, line
                found[place] = max(found.get(place, 0), length)
    if not found:
        return times
    keys = zip(codes.tolist(), rows["part"].tolist(), rows["line"].tolist(), strict=True)
    longest = np.array([found.get(key, 0) for key in keys], np.int64)
    return np.where(longest > 0, seconds(longest), times)
