"""Compared measures of runs without steps: measured collectives, and figures that the log prints as summaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np

from perflog.statistics.samples import Floats
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

Figure = tuple[str, str, Literal["lower", "higher"], Floats]
"""Name, base unit, which way is better, values."""

BETTER: dict[str, Literal["lower", "higher"]] = {
    "1/s": "higher", "GB/s": "higher", "TFLOP/s": "higher", "s": "lower", "B": "lower",
}  # fmt: skip
"""Units of summaries that are compared, rates first. Of other figures nobody knows which way is better."""

_COLUMNS = (("busbw_gbps", "busbw", "GB/s"), ("algbw_gbps", "algbw", "GB/s"), ("time_s", "time", "s"))


def collective_figures(rows: pd.DataFrame) -> Iterator[Figure]:
    """Yield the mean over the messages of each collective, then each message: bus bandwidth, else what there is.

    A mean is comparable only over the same messages, so its name has their number and sizes.
    """
    for op, of_op in rows.groupby("op", sort=False, dropna=False):
        column, quantity, unit = next((c for c in _COLUMNS if of_op[c[0]].notna().any()), _COLUMNS[-1])
        of_op = of_op[of_op[column].notna() & of_op["bytes"].notna()]
        if not len(of_op):
            continue
        name = f"{op} {quantity}" if isinstance(op, str) else quantity
        sizes = show(float(of_op["bytes"].min()), "B"), show(float(of_op["bytes"].max()), "B")
        yield (
            f"{name}, mean of {len(of_op)}, {sizes[0]} to {sizes[1]}",
            unit,
            BETTER[unit],
            _floats([of_op[column].mean()]),
        )
        for (size, buffer), values in of_op.groupby(["bytes", "buffer"], sort=False, dropna=False)[column]:
            place = f", {buffer}" if isinstance(buffer, str) else ""
            yield f"{name}, {show(float(size), 'B')}{place}", unit, BETTER[unit], _floats(values)


def summary_figures(rows: pd.DataFrame) -> Iterator[Figure]:
    """Yield the printed figures whose unit says which way is better, rates first."""
    for unit, better in BETTER.items():
        for key, values in rows[rows["unit"] == unit].groupby("key", sort=False)["value"]:
            yield str(key), unit, better, _floats(values)


def _floats(values: object) -> Floats:
    return np.asarray(values, np.float64)
