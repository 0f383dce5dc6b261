"""Times of steps, of traces with the work of each step: an annotation of the host ends when all work is launched.

A program that waits for the device once in many steps launches a step in a fraction of its time.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.traces.device_work import seconds, trace_devices


@computed_once
def step_times(tables: Tables) -> Floats:
    """Return the time in s of each row of table `steps`; NaN where it has none.

    Of traces it is the window of the step on its device, as in `device_steps`. These windows touch: their sum is the
    time of the steps. Of several devices it is the time from the last end of the step before to the last end of the
    step: a rank that is late at the end of a step makes the next one long for all others, and costs the job once. All
    other times are as printed.
    """
    rows = tables.rows("steps")
    times = rows["step_time_s"]
    if not len(rows) or not tables.count("events"):
        return times
    codes, words = rows.codes("run")
    run_codes = {run: code for code, run in enumerate(words)}
    step_of_row: dict[tuple[int, int, int], tuple[int, int]] = {}
    lengths: dict[tuple[int, int], int] = {}
    ends: dict[tuple[int, int], int] = {}
    for device in trace_devices(tables):
        if device.run in run_codes and len(device.annotated.numbers):
            steps, run = device.steps, run_codes[device.run]
            columns = (steps.numbers, steps.lines, steps.starts, steps.ends)
            for number, line, start, end in zip(*(column.tolist() for column in columns), strict=True):
                key = step_of_row[run, device.part, line] = run, number
                lengths[key] = max(lengths.get(key, 0), end - start)
                ends[key] = max(ends.get(key, end), end)
    if not lengths:
        return times
    for before, step in pairwise(sorted(ends)):
        since = ends[step] - ends[before]
        if before[0] == step[0] and since > 0:  # else clocks differ, and the ranks of the steps
            lengths[step] = min(lengths[step], since)
    keys = zip(codes.tolist(), rows["part"].tolist(), rows["line"].tolist(), strict=True)
    found = np.array([lengths.get(step_of_row.get(key, (-1, -1)), 0) for key in keys], np.int64)
    return np.where(found > 0, seconds(found), times)
