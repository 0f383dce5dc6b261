"""Compared measures that are no times of steps: collectives, summaries, and the last values of named series."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from perflog.metrics.possible import are_moments
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import Floats
from perflog.tables.columns import NULL, Ints, Mask, Rows
from perflog.units import show

Better = Literal["lower", "higher"]
Figure = tuple[str, str, Better | None, Floats]
"""Name, base unit, which way is better, values."""

BETTER: dict[str, Better] = {
    "1/s": "higher", "GB/s": "higher", "TFLOP/s": "higher", "s": "lower", "B": "lower",
}  # fmt: skip
"""Units of summaries that are compared, rates first. Of other figures nobody knows which way is better."""

LOSS = "loss"
"""The series of the losses of a run's steps."""

_COLUMNS = (("busbw_gbps", "busbw", "GB/s"), ("algbw_gbps", "algbw", "GB/s"), ("time_s", "time", "s"))


def collective_figures(rows: Rows) -> Iterator[Figure]:
    """Yield the mean over the messages of each collective, then each message: bus bandwidth, else what there is.

    A mean is comparable only over the same messages, so its name has their number and sizes.
    """
    for op, of_op in _parts(rows, "op"):
        column, quantity, unit = next((c for c in _COLUMNS if of_op.known(c[0]).any()), _COLUMNS[-1])
        measured = of_op.where(of_op.known(column, "bytes"))
        if not len(measured):
            continue
        name = quantity if op is None else f"{op} {quantity}"
        sizes = show(float(measured["bytes"].min()), "B"), show(float(measured["bytes"].max()), "B")
        yield (
            f"{name}, mean of {len(measured)}, {sizes[0]} to {sizes[1]}",
            unit,
            BETTER[unit],
            _floats([measured[column].mean()]),
        )
        messages: dict[tuple[int, str | None], list[float]] = {}
        for size, buffer, value in measured.records("bytes", "buffer", column):
            messages.setdefault((size, buffer), []).append(value)
        for (size, buffer), values in messages.items():
            place = "" if buffer is None else f", {buffer}"
            yield f"{name}, {show(float(size), 'B')}{place}", unit, BETTER[unit], _floats(values)


def _parts(rows: Rows, name: str) -> Iterator[tuple[str | None, Rows]]:
    """The rows of each word and of null, in the order of their first row."""
    codes, words = rows.codes(name)
    for code in dict.fromkeys(codes.tolist()):
        yield (words[code] if code >= 0 else None), rows.where(codes == code)


def summary_figures(rows: Rows) -> Iterator[Figure]:
    """Yield the printed figures whose unit says which way is better, rates first."""
    if not len(rows):
        return
    for unit, better in BETTER.items():
        for key, of_key in rows.where(rows.one_of("unit", [unit])).by("key").items():
            yield key, unit, better, of_key["value"]


_WORDS: dict[str, Better] = {
    **dict.fromkeys(
        ("loss", "error", "err", "ppl", "perplexity", "wer", "cer", "fid", "latency", "time", "slowdown"), "lower"
    ),
    **dict.fromkeys(
        ("acc", "accuracy", "auc", "f1", "bleu", "rouge", "throughput", "mfu", "map", "iou", "miou", "reward", "score",
         "acc1", "acc5", "top1", "top5", "precision", "recall", "ips", "psnr", "ssim", "speedup"), "higher",
    ),
}  # fmt: skip
"""Words inside the name of a value that say which way is better."""

_PER, _SECOND = ("per", "/"), ("s", "sec", "second")
"""Words one behind the other in the name of a rate, such as `tokens_per_sec`."""


def last_values(values: Rows, steps: Rows, either_way: Collection[str] = ()) -> Iterator[Figure]:
    """Yield the last value of each series that a run prints by name, and the last loss of its steps.

    Of a series that several ranks print it is the median of their last values. A rate that is read from time to time,
    and not at steps, as a server does, is the median of its readings above zero: its last is that of an idle server.
    The time of a step comes first.
    Series are left out that are moments since 1970, and those of which neither name nor unit says which way is better.
    `either_way`: names of series that are kept although their name tells nothing of that. Printed NaN is a value.
    """
    losses = steps["loss"][_printed(steps, "loss")]
    if len(losses):
        yield LOSS, "", "lower", losses[-1:]
    numbers = values.where(_printed(values, "value"))
    if len(numbers):
        by_line = np.argsort(numbers["line"], kind="stable")
        keys, ranks = numbers.codes("key")[0][by_line], numbers["rank"][by_line]
        last = by_line[_last_places(keys, ranks)]  # of each rank, in the order of the lines
        of_key: dict[str, list[tuple[str | None, float]]] = {}
        rates = numbers.where(numbers.one_of("unit", ["1/s"]) & ~numbers.known("step") & (numbers["value"] > 0)).by(
            "key"
        )
        numbers = numbers.where(last)
        for key, unit, value in numbers.where(~are_moments(numbers["value"])).records("key", "unit", "value"):
            of_key.setdefault(key, []).append((unit, value))
        for key, printed in sorted(of_key.items(), key=lambda item: not names_step_time(item[0], item[1][-1][0])):
            unit = printed[-1][0]
            declared = key in either_way
            better = None if declared else _better(key, unit or "")
            if declared or better is not None:
                last_of_ranks = [value for of_unit, value in printed if of_unit == unit]
                at_work = rates[key]["value"] if unit == "1/s" and key in rates else last_of_ranks
                value = float(np.median(at_work))
                is_share = unit == "1" and "mfu" in _words(key)  # a loss of 9.6 is no 960 %
                yield key, "" if unit == "1" and not is_share else unit or "", better, _floats([value])


def _printed(rows: Rows, column: str) -> Mask:
    return rows.known(column) | rows.nans(column)


def _last_places(keys: Ints, ranks: Ints) -> Ints:
    """The last place of each key on each rank; of a key whose ranks are not all known, its last place alone."""
    unknown = np.unique(keys[ranks == NULL])
    ranks = np.where(np.isin(keys, unknown), NULL, ranks)
    groups = groups_of(keys[::-1], ranks[::-1])
    return np.sort(len(keys) - 1 - groups.first)


def names_step_time(key: str, unit: str | None) -> bool:
    """Return whether the name of a value says that it is the time of a step: `avg_step_time`."""
    words = _words(key)
    return unit == "s" and not {"step", "iter", "iteration"}.isdisjoint(words)


def _words(key: str) -> list[str]:
    """Return the words of a name, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+[0-9]*|[0-9]+|/", key)]


@lru_cache(maxsize=4096)
def _better(key: str, unit: str) -> Better | None:
    """Which way a value is better: by the words of its name, else by its unit."""
    words = _words(key)
    known = (_WORDS[word] for word in words if word in _WORDS)
    is_rate = any(per in _PER and word in _SECOND for per, word in pairwise(words))
    return next(known, "higher" if is_rate else BETTER.get(unit))


def _floats(values: object) -> Floats:
    return np.asarray(values, np.float64)
