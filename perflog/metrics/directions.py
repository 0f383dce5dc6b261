"""Determines whether lower or higher values are better, by the words of a name and by the unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

Better = Literal["lower", "higher"]

Direction = Literal["regression", "improvement", "different"]
"""What a change means; `different` where nobody knows which way is better."""

BETTER: dict[str, Better] = {
    "1/s": "higher", "GB/s": "higher", "TFLOP/s": "higher", "s": "lower", "B": "lower", "J": "lower",
}  # fmt: skip
"""Units with one better direction, rates first. For other units only the name may show it."""

_WORDS: dict[str, Better] = {
    **dict.fromkeys(
        ("loss", "error", "err", "ppl", "perplexity", "wer", "cer", "fid", "latency", "time", "slowdown",
         "rtf", "emissions", "co2", "co2eq", "co2e", "carbon"), "lower"
    ),
    **dict.fromkeys(
        ("acc", "accuracy", "auc", "f1", "bleu", "rouge", "throughput", "mfu", "map", "iou", "miou", "reward", "score",
         "acc1", "acc5", "top1", "top5", "efficiency", "precision", "recall", "ips", "psnr", "ssim",
         "iops", "speedup", "qps", "rps", "tps", "fps", "rtfx", "sypd", "bw"), "higher",
    ),
}  # fmt: skip
"""Words inside the name of a value that show which way is better."""

_WORK = frozenset(("bytes", "nbytes", "flop", "flops"))
"""Names of the amount of work that is measured: more or less of it is not better."""

_IN_USE = frozenset(
    "mem memory vram hbm ram rss alloc allocs allocated allocation reserved peak used usage use footprint".split()
)
_FREE = frozenset("free avail available unused".split())
"""Words in names of bytes in use, of which fewer are better; and of other bytes of a memory. The bytes of a buffer or
of a message are a size.
"""

_NO_WAY = frozenset(
    "less fewer saved saving savings reduced reduction spread std stdev stddev variance jitter traffic configured "
    "requested nominal".split()
)
"""Words in names of what is saved, moved or set, or of a spread: the quantity that they are of has a direction, they
have none.
"""

FACTORS = frozenset("scale scaler scaling weight coef coeff".split())
"""Words in names of factors of a loss."""

COUNTDOWN = frozenset("eta remaining left".split())
"""Words in names of how long a run still takes."""

_HIDDEN = frozenset("overlap overlaps overlapped overlapping hidden".split())
_AROUND = frozenset("with without no not non exposed after".split())
"""Words of a time that runs beside other work, where more of it may be better; and of a time that is only measured
with or without such an overlap.
"""

PER, _SECOND = ("per", "/"), ("s", "sec", "second")
"""Words one after the other in the name of a rate, such as `tokens_per_sec`."""

_NO_SHARE = frozenset("time latency ppl perplexity".split())
"""Words of quantities that are no shares: with a `%` they are a change, or a part of a whole."""

_SIMULATED, _DAY = ("ns", "us", "ps", "years"), "day"
"""Words of how much of a simulated time a day of computing takes: `ns/day`."""

_ENERGY = frozenset(("energy", "joule", "joules", "kwh", "wh"))
_ENERGY_UNITS = frozenset(("j", "joule", "joules", "wh", "kwh", "w", "watt", "watts"))


_WORD = r"[kmM](?:Wh|[WJ])(?![a-zA-Z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+[0-9]*|[0-9]+|/"


@lru_cache(maxsize=4096)
def better(key: str, unit: str) -> Better | None:
    """Return which way a value is better: by the words of its name, else by its unit; None if unknown."""
    words = words_of(key)
    if words and _WORK.issuperset(words):
        return None
    if "loss" in words and unit not in BETTER and not FACTORS.isdisjoint(words):
        return None
    if _is_work_of_energy(words):
        return "higher"
    if not _NO_WAY.isdisjoint(words) or (unit == "1" and not _NO_SHARE.isdisjoint(words)):
        return None
    known = (_WORDS[word] for word in words if word in _WORDS)
    way = next(known, "higher" if names_rate(words) else "lower" if names_energy(words) else BETTER.get(unit))
    if way == BETTER["B"] and unit == "B" and (_IN_USE.isdisjoint(words) or not _FREE.isdisjoint(words)):
        return None
    is_hidden = not _HIDDEN.isdisjoint(words) and _AROUND.isdisjoint(words) and unit == "s"
    return None if way == "lower" and is_hidden else way


def direction(change: float, better: Better | None) -> Direction:
    """Return what a change means, given which way is better."""
    if better is None:
        return "different"
    return "improvement" if (change > 0) == (better == "higher") else "regression"


def names_rate(words: Sequence[str]) -> bool:
    """Return whether a name is a rate, such as `tokens_per_sec`, by its words."""
    is_simulated = [word for word in words[-3:] if word not in PER][-1:] == [_DAY] and words[0] in _SIMULATED
    return is_simulated or any(per in PER and word in _SECOND for per, word in pairwise(words))


def names_energy(words: Sequence[str]) -> bool:
    """Return whether a name is an energy, by its words."""
    return not _ENERGY.isdisjoint(words)


def _is_work_of_energy(words: Sequence[str]) -> bool:
    """Whether a name is work for each joule or watt, such as `tokens_per_joule`."""
    return any(per in PER and word in _ENERGY_UNITS for per, word in pairwise(words))


def words_of(key: str) -> list[str]:
    """Return the words of a name, in lower case."""
    return [word.lower() for word in re.findall(_WORD, key)]


def names_time(key: str) -> bool:
    """Return whether a name without a unit says that its value is a time."""
    return not {"time", "dt", "duration"}.isdisjoint(words_of(key))


def letter_words(name: str) -> list[str]:
    """Return the words of a name that have letters alone, in lower case."""
    return re.findall(r"[a-z]+", name.lower())
