"""Summaries that each process of a job prints at its end, such as its run time: their spread over the processes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.metrics import Tables
from perflog.metrics.possible import are_moments
from perflog.tables.columns import Rows
from perflog.units import show

_LISTED = 4  # further figures that are named
_DIGITS = 5  # run times of minutes differ by hundredths


def process_summaries(tables: Tables, run: str) -> Iterator[str]:
    """Yield the value that is printed several times after the last step, with its spread, and the means of the others.

    A time comes first. Equal values say nothing: one process may print a value twice.
    """
    rows, steps = tables.rows_of("summaries", run), tables.rows_of("steps", run)
    last = int(steps["line"].max()) if len(steps) else -1
    rows = rows.where((rows["line"] > last) & rows.known("value"))
    rows = rows.where(~are_moments(rows["value"]))
    by_key = {key: (each["value"], _unit(each)) for key, each in rows.by("key").items() if len(each) > 1}
    spread = [key for key, (values, _) in by_key.items() if values.min() < values.max()]
    first = min(spread, key=lambda key: by_key[key][1] != "s", default=None)
    if first is None:
        return
    values, unit = by_key.pop(first)
    others = [
        f"{key} {show(float(np.mean(numbers)), of)}"
        for key, (numbers, of) in by_key.items()
        if len(numbers) == len(values)
    ]
    means = f"; mean {', '.join(others[:_LISTED])}" if others else ""
    sizes = tables.rows_of("runs", run)["world_size"]
    who = f"by each of the {len(values)} ranks" if len(values) in sizes.tolist() else f"{len(values)} times"
    least, most = (show(float(end), unit, _DIGITS) for end in (values.min(), values.max()))
    yield f"{first} is printed {who} after the last step: {least} to {most}{means}."


def _unit(rows: Rows) -> str:
    codes, words = rows.codes("unit")
    unit = words[codes[0]] if codes[0] >= 0 else ""
    return "" if unit == "1" else unit
