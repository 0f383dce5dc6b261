"""Compared measures that are no times of steps: collectives, summaries, and the last values of named series."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np

from perflog.statistics.samples import Floats
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

Better = Literal["lower", "higher"]
Figure = tuple[str, str, Better | None, Floats]
"""Name, base unit, which way is better, values."""

BETTER: dict[str, Better] = {
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


_WORDS: dict[str, Better] = {
    **dict.fromkeys(("loss", "error", "err", "ppl", "perplexity", "wer", "cer", "fid", "latency", "time"), "lower"),
    **dict.fromkeys(
        ("acc", "accuracy", "auc", "f1", "bleu", "rouge", "throughput", "mfu", "map", "iou", "miou", "reward", "score",
         "acc1", "acc5", "top1", "top5", "precision", "recall", "ips", "psnr", "ssim"), "higher",
    ),
}  # fmt: skip
"""Words inside the name of a value that say which way is better."""

_EPOCHS = ((1e9, 2.5e9), (1e12, 2.5e12), (1e15, 2.5e15), (1e18, 2.5e18))  # moments since 1970 in s, ms, us, ns


def last_values(values: pd.DataFrame, steps: pd.DataFrame) -> Iterator[Figure]:
    """Yield the last value of each series that a run prints by name, and the last loss of its steps.

    Series are left out that are moments since 1970, and those of which neither name nor unit says which way is better.
    """
    if steps["loss"].notna().any():
        yield "loss", "1", "lower", _floats(steps["loss"].dropna().iloc[-1:])
    numbers = values[values["value"].notna()]
    if len(numbers):
        last = numbers.sort_values("line", kind="stable").groupby("key", sort=False).tail(1)
        for key, unit, value in zip(last["key"], last["unit"], last["value"], strict=True):
            unit = unit if isinstance(unit, str) else ""
            better = _better(str(key), unit)
            if better is not None and not any(low <= value < high for low, high in _EPOCHS):
                yield str(key), unit, better, _floats([value])


def _better(key: str, unit: str) -> Better | None:
    """Which way a value is better: by the words of its name, else by its unit."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+[0-9]*|[0-9]+", key)
    known = (_WORDS[word.lower()] for word in words if word.lower() in _WORDS)
    return next(known, BETTER.get(unit))


def _floats(values: object) -> Floats:
    return np.asarray(values, np.float64)
