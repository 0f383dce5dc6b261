"""Facts of reinforcement learning, in sentences: reward, entropy and length of the responses over the steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.arrays import Floats, Ints
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import Options, Tables
from perflog.statistics.samples import median
from perflog.tables.columns import Rows

_REWARDS = (
    lazy_pattern(r"reward"),
    lazy_pattern(r"(?:.*_)?(?:reward|score)_(?:mean|avg)|(?:train|rollout|mean|avg)_reward"),
    lazy_pattern(r"(?:.*_)?rewards_mean|(?:.*_)?rewards?"),
)
"""Names of rewards, those that most often are of all samples first."""
_OTHERS = (
    lazy_pattern(r"(?:.*_)?(?:token_)?entropy(?:_loss|_mean|_avg)?"),
    lazy_pattern(
        r"(?:.*_)?(?:response|completion|completions|generation|sequence)_(?:mean_)?(?:length|len)(?:_mean)?"
        r"|completions_mean_length|tokens_per_sample"
    ),
)
_FEWEST = 20  # steps
_PART = 10  # a level is the median of this part of the steps
_FALL, _TELLING = 0.5, 0.2  # of the way from the lowest level to the highest, and of the highest: the end is below


def rewards(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001 (all kinds take the same)
    """Reward, entropy and length of responses at the start and at the end, where a program prints them by step."""
    rows = tables.rows_of("values", run)
    names = {key: key.replace("/", "_").lower() for key in rows.counts("key")}
    reward = next((key for form in _REWARDS for key, name in names.items() if form.fullmatch(name)), None)
    if reward is None:
        return
    others = (next((key for key, name in names.items() if form.fullmatch(name)), None) for form in _OTHERS)
    shown = [key for key in (reward, *others) if key is not None]
    by_key = rows.where(rows.one_of("key", shown) & rows.known("step", "value")).by("key")
    parts = [text for key in shown if key in by_key and (text := _course(key, by_key[key]))]
    if parts:
        yield f"First and last tenth of the steps: {'; '.join(parts)}."


def _course(name: str, rows: Rows) -> str:
    """The levels of a series; the highest one too, if the end is far below it. Empty for few steps."""
    steps, values = _by_step(rows)
    if len(steps) < _FEWEST:
        return ""
    size = len(steps) // _PART
    begins = np.append(np.arange(0, len(steps) - size, max(size // _PART, 1)), len(steps) - size)
    levels = [median(values[begin : begin + size]) for begin in begins.tolist()]
    first, last, highest = levels[0], levels[-1], max(levels)
    place = int(begins[levels.index(highest)])
    drop = highest - last
    least = _TELLING * abs(highest)
    fell = drop > max(_FALL * (highest - min(first, last)), least) and highest - first > least
    at = f", after {highest:,.4g} at steps {steps[place]:,} to {steps[place + size - 1]:,}" if fell else ""
    ends = list(dict.fromkeys(f"{level:,.4g}" for level in (first, last)))
    return f"{name} {' -> '.join(ends)}{at}"


def _by_step(rows: Rows) -> tuple[Ints, Floats]:
    """The steps of a series in order, and its mean at each: several ranks may print it."""
    finite = rows.where(np.isfinite(rows["value"]))
    steps, of = np.unique(finite["step"], return_inverse=True)
    if not len(steps):
        return steps, np.empty(0)
    return steps, np.bincount(of, finite["value"]) / np.bincount(of)
