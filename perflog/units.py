"""Units: printed unit -> base unit and factor. Values are stored in base units and scaled only when shown.

How values, changes, numbers of things and lists of names are shown is also here: everywhere in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

from msgspec import Struct

from perflog.lazy_patterns import lazy_pattern


class Unit(Struct, frozen=True):
    """A printed unit: `value * factor` is the value in `base`."""

    base: str
    factor: float


_TABLE: dict[str, dict[str, float]] = {
    "s": {
        "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0,
        "nsec": 1e-9,
    },
    "B": {
        "B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
        "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    },
    "1": {"1": 1.0, "%": 0.01},
    "1/s": {"1/s": 1.0, "tok/s": 1.0},
    "TFLOP/s": {"TFLOP/s": 1.0, "tflops": 1.0, "FLOP/s": 1e-12, "MFLOP/s": 1e-6, "GFLOP/s": 1e-3, "PFLOP/s": 1e3},
    "GB/s": {
        "GB/s": 1.0, "B/s": 1e-9, "KB/s": 1e-6, "MB/s": 1e-3, "TB/s": 1e3,
        "KiB/s": 2.0**10 / 1e9, "MiB/s": 2.0**20 / 1e9, "GiB/s": 2.0**30 / 1e9, "TiB/s": 2.0**40 / 1e9,
        "bit/s": 1.25e-10, "Kbit/s": 1.25e-7, "Mbit/s": 1.25e-4, "Gbit/s": 0.125, "Gbps": 0.125, "Tbit/s": 125.0,
    },
    "W": {"W": 1.0, "mW": 1e-3, "kW": 1e3, "MW": 1e6},
    "J": {"J": 1.0, "mJ": 1e-3, "kJ": 1e3, "MJ": 1e6, "mWh": 3.6, "Wh": 3600.0, "kWh": 3.6e6, "MWh": 3.6e9},
    "FLOP": {"FLOP": 1.0, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15},
    "Hz": {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    "°C": {"°C": 1.0},
}  # fmt: skip

UNITS: dict[str, Unit] = {name: Unit(base, factor) for base, names in _TABLE.items() for name, factor in names.items()}


def base_of(unit: str) -> str:
    """Return the base unit of a unit; "" for "", which is no unit."""
    return UNITS[unit].base if unit else ""


_SYNONYMS = {
    "s": "s sec secs second seconds 秒", "ms": "ms msec msecs millis millisecond milliseconds 毫秒 ミリ秒",
    "ns": "ns nsec nanoseconds",
    "us": "us µs μs usec usecs microsecond microseconds 微秒", "min": "min mins minute minutes 分钟",
    "h": "h hr hrs hour hours",
    "B": "b byte bytes", "%": "% pct percent", "W": "w watt watts", "J": "j joule joules",
    "mJ": "mj", "kJ": "kj", "mW": "mw", "kW": "kw", "mWh": "mwh", "Wh": "wh watt-hour watt-hours",
    "kWh": "kwh kilowatt-hour kilowatt-hours",
    "TFLOP/s": "tflop/s tflops tflop/s/gpu tflops/gpu tflops/s teraflops", "MFLOP/s": "mflop/s mflops mflops/s",
    "GFLOP/s": "gflop/s gflops gflops/s gf/s", "PFLOP/s": "pflop/s pflops pflops/s",
    "GB/s": "gb/s", "MB/s": "mb/s", "Gbit/s": "gbit/s gbps",
    "tok/s": "tok/s toks/s tps token/s tokens/s tok/sec token/sec tokens/sec tokens/second tokens/s/gpu tok/s/gpu "
    "tok/s/user tokens/s/user tokens/sec/user tok/s/u",
    "1/s": "it/s iter/s iters/s step/s steps/s batch/s batches/s sample/s samples/s samples/sec seq/s sequences/s "
    "img/s imgs/s image/s images/s images/sec img/sec example/s examples/s samples/second op/s ops/s msg/s msgs/s t/s "
    "rps qps fps iops",
}  # fmt: skip
_BY_WORD = {word: unit for unit, words in _SYNONYMS.items() for word in words.split()}
_BY_WORD |= {"celsius": "°C", "celsius degree": "°C", "degrees celsius": "°C"}
_BY_WORD |= {u.lower(): u for u in UNITS if u.endswith("B") and u != "kB"}
STEP_WORDS = frozenset("it iter iters iteration iterations batch batches step steps update updates".split())
"""Words for the steps that a program counts, and for what a rate or a time is counted per: `it/s`, `sec/step`."""

STEP_NAMES = "step|iteration|iter"
"""Alternatives of a pattern: the step words that name a step of training where only a number follows.

The others need more evidence, such as a unit: `batch 32` is a size, `update 3` a version, `it` a word of sentences. A
reader whose lines give that evidence adds them.
"""

MAGNITUDES = frozenset("kKMGTB")
"""Letters of factors after numbers: `1.3B` parameters."""

UTC = "UTC"
"""The unit of a date: a string in UTC, as ISO 8601 writes it to the second."""

DURATIONS = ("ns", "us", "µs", "ms", "s")
"""Units that a `t` field reads."""

PREFIXES = {
    "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "P": 1e15,
    "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9,
}  # fmt: skip
"""Metric prefixes that a `q` field reads; B is a billion."""
SIZES = {
    "B": 1.0, "b": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30, "TB": 2.0**40,
    "Kb": 2.0**10, "Mb": 2.0**20, "Gb": 2.0**30, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40,
}  # fmt: skip
"""Units that a `z` field reads, and the bytes of each. Profilers and schedulers that print a size with its unit count
in steps of 1,024, whatever they call it: a copy of 2**23 bytes is `8.0000MB`.
"""

PRINTED = {
    "t": ("s", {name: UNITS[name].factor for name in DURATIONS}), "z": ("B", SIZES), "q": ("", PREFIXES),
    "h": ("s", {}), "k": ("s", {}),
}  # fmt: skip
"""Types of fields that hold a number with its unit -> base unit ("" where the format says it), factor of each unit.

A string such as `0:00:24` (`h`, `k`) has no unit after it: see `formats.durations`.
"""

_STEPS = {
    "s": (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)),
    "B": (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0)),
    "round bytes": (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)),
    "FLOP": (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("FLOP", 1.0)),
    "Hz": (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0)),
}


_SIZE_PER_SECOND = lazy_pattern(
    r"(?P<prefix>[kKMGT]?|[mgt](?=bytes))(?P<binary>i?)(?P<what>B(?:ytes?)?|bytes?|b(?:its?)?)(?:/(?:[sS]|[sS]ec|second)|(?P<ps>ps))"
)
_LEAST_P = 1e-9  # probabilities below are shown as one
_THOUSANDS = lazy_pattern(r"k(?:[bcdfgjkmpqrstvxz]|elem|entr|edge|event|example|image|item|iter|ops)")  # begin no word
_MULTIPLE = lazy_pattern(r"[KMG][a-z]+|[kKMG][A-Z][a-z]+")  # or a word such as `Keys`: what it counts is in doubt


def unit_of(word: str) -> tuple[str, str]:
    """Return a printed word as a unit, and what the unit is counted per: `ms/step` gives ("ms", "step")."""
    word = word.strip(" .,;:")
    if word in UNITS:
        return word, ""
    size = _SIZE_PER_SECOND.fullmatch(word)  # a capital B is a byte, a small one a bit
    if size is not None:
        return _size_per_second(size), ""
    unit = _BY_WORD.get(word.lower())
    if unit:
        return unit, ""
    head, _, per = word.partition("/")
    if len(head) > 1 and per.lower() in ("s", "sec", "second"):  # requests, items; not thousands of them, or joules
        is_word = head.isalpha() and head in (head.lower(), head.upper(), head.title())
        return "" if unit_of(head)[0] or _is_multiple(head) or not is_word else "1/s", ""
    return (_BY_WORD.get(head.lower(), ""), per) if per.lower() in STEP_WORDS.union(("micro_batch",)) else ("", "")


def _is_multiple(head: str) -> bool:
    """Whether a word may count thousands or millions of something: `kimg`, `kreq`, `Mcells`, `MUpdates`."""
    is_prefixed = head[0] in "kKMG" and f"{head[1:].lower()}/s" in _BY_WORD
    return is_prefixed or _THOUSANDS.match(head) is not None or _MULTIPLE.fullmatch(head) is not None


def _size_per_second(size: re.Match[str]) -> str:
    """Return the unit of `MiB/s`, `Gbits/sec` or `Gbps`; "" if perflog has none: a bit with a binary prefix."""
    is_byte = size["what"][0] == "B" or size["what"].startswith("byte")
    if not is_byte and size["binary"]:
        return ""
    unit = f"{size['prefix'].upper()}{size['binary']}{'B' if is_byte else 'bit'}/s"
    return unit if unit in UNITS else ""


def print_size(size: float, decimals: int | None = None) -> str:
    """A size with its unit, in steps of 1,024; whole bytes below."""
    if abs(round(size)) < SIZES["KB"]:
        return f"{size:.0f}B"
    return _fixed(size, {u: SIZES[u] for u in ("KB", "MB", "GB", "TB")}, 1024, 2 if decimals is None else decimals)


def print_with_unit(value: float, spec: str) -> str:
    """A value in its base unit, printed with its unit as a field of type t or z says; of type q without prefix."""
    if spec.endswith("q"):
        return repr(value)
    decimals = int(spec.partition(".")[2][:-1]) if "." in spec else None
    return print_duration(value, decimals) if spec.endswith("t") else print_size(value, decimals)


def _fixed(value: float, units: Mapping[str, float], step: int, decimals: int) -> str:
    """A value in the first of the units, smallest first, in which it is printed below `step`, else in the last."""
    texts = {unit: f"{value / factor:.{decimals}f}" for unit, factor in units.items()}
    unit = next((u for u, text in texts.items() if abs(float(text)) < step), [*texts][-1])
    return texts[unit] + unit


def print_duration(seconds: float, decimals: int | None = None) -> str:
    """A duration as profilers print it: nvprof whole ns, us and ms with 5 significant digits, s with 6; torch.profiler
    us, ms and s with the same `decimals`.

    The inverse of reading such a string: it is restored exactly from its value in seconds.
    """
    if decimals is not None:
        return _fixed(seconds, {unit: UNITS[unit].factor for unit in ("us", "ms", "s")}, 1000, decimals)
    for unit, below, digits in (("us", 1e-3, 5), ("ms", 1.0, 5), ("s", float("inf"), 6)):
        if seconds < 1e-6 * (1 - 1e-9):
            return f"{seconds * 1e9:.0f}ns"
        if seconds < below * (1 - 1e-9):
            value = seconds / UNITS[unit].factor
            whole = len(str(int(value + 1e-9)))
            return f"{value:.{max(digits - whole, 0)}f}{unit}"
    return f"{seconds}s"


def scale(value: float, unit: str) -> tuple[str, float]:
    """The unit in which a value in a base unit is read best, and its factor: 0.02 s gives ms and 0.001.

    A size that is a multiple of 1,000 bytes and not of 1,024 was printed in decimal units: 1 MB is not 976.6 KiB. So
    was one that only they show in few digits: 4096 MB is not 3.815 GiB.
    """
    if unit == "1":
        return "%", 0.01
    if unit == "B" and value and value % 1000 == 0:
        binary, decimal = (_first_step(value, steps) for steps in ("B", "round bytes"))
        only_decimal = _is_short(value / decimal[1]) and not _is_short(value / binary[1])
        return decimal if value % 1024 or only_decimal else binary
    return _first_step(value, unit)


def _first_step(value: float, unit: str) -> tuple[str, float]:
    """Return the largest unit of a kind in which a value is at least 1, and its factor."""
    return next(((name, factor) for name, factor in _STEPS.get(unit, ()) if abs(value) >= factor), (unit, 1.0))


def _is_short(value: float) -> bool:
    """Return whether four digits show a value exactly."""
    return float(f"{value:.4g}") == value


_MOST_IN_FULL = 1e12  # larger numbers are shown with an exponent


def show(value: float | None, unit: str, digits: int = 4) -> str:
    """A value in its base unit as a person reads it: scaled, rounded to `digits` significant digits or to an integer.

    Example:
        >>> show(0.0213, "s")
        '21.3 ms'
        >>> show(81603.2, "s")
        '81,603 s'
    """
    if value is None or value != value:
        return "-"
    name, factor = scale(value, unit)
    scaled = value / factor
    in_full = 10**digits - 0.5 <= abs(scaled) < _MOST_IN_FULL  # 999.6 in three digits is 1,000, not 1e+03
    text = f"{scaled:,.0f}" if in_full else f"{scaled:.{digits}g}"
    return f"{text} {name}".rstrip()


def plural(noun: str, number: int) -> str:
    """A noun in the number of what it counts: `rank`, `ranks`."""
    return noun if number == 1 else f"{noun}s"


def count(number: int, noun: str) -> str:
    """What is counted: `1 step`, `3 steps`."""
    return f"{number:,} {plural(noun, number)}"


def first_few(names: Iterable[object], most: int = 5, separator: str = ", ") -> str:
    """The first few names, and how many more there are: `a, b and 3 more`."""
    texts = [*map(str, names)]
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def numbers_in_words(numbers: Iterable[int], most: int = 5) -> str:
    """Return whole numbers in words: `1, 4`, `4-7`, `0-7, 16-23 and 12 more`, `3, 11 ... 1019 (every 8th)`.

    Example:
        >>> numbers_in_words([40, 41, 42, 43, 9]), numbers_in_words(range(3, 1024, 8))
        ('9, 40-43', '3, 11 ... 1019 (every 8th)')
    """
    ordered = sorted(set(numbers))
    strides = {b - a for a, b in pairwise(ordered)}
    if len(ordered) >= _PROGRESSION and len(strides) == 1 and strides != {1}:
        return f"{ordered[0]}, {ordered[1]} ... {ordered[-1]} (every {_ordinal(strides.pop())})"
    blocks: list[list[int]] = []
    for number in ordered:
        if blocks and number == blocks[-1][-1] + 1:
            blocks[-1].append(number)
        else:
            blocks.append([number])
    parts = [part for block in blocks for part in ([block] if len(block) >= _BLOCK else [[each] for each in block])]
    texts = [f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts[:most]]
    further = sum(map(len, parts[most:]))
    return ", ".join(texts) + (f" and {further:,} more" if further else "")


_PROGRESSION, _BLOCK = 4, 3  # numbers of equal distance, and in a row, that are shown by their ends


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def numbered(noun: str, numbers: Collection[int], most: int = 5) -> str:
    """Return things by their numbers: `rank 3`, `ranks 4-7`, `ranks 1, 4 and 3 more`."""
    return f"{plural(noun, len(numbers))} {numbers_in_words(numbers, most)}"


def show_p(p: float) -> str:
    """Return a probability as `p 0.003`; none below 1e-9 is exact: `p < 1e-09`.

    Example:
        >>> show_p(0.0031), show_p(1e-20)
        ('p 0.003', 'p < 1e-09')
    """
    return f"p {p:.1g}" if p > _LEAST_P else f"p < {_LEAST_P:g}"


def show_change(change: float | None) -> str:
    """A relative change as a person reads it: `+6.0 %`, `-0.32 %`, `+120 %`; `-` where it is not known."""
    if change is None or change != change:
        return "-"
    percent = 100 * change
    text = f"{percent:+.{0 if abs(percent) >= 100 else 1 if abs(percent) >= 1 else 2}f}"
    return f"{text if float(text) else text[1:]} %"


_ANY_CHANGE = 100.0  # width of an interval: a hundred times the value is no estimate


def show_interval(low: float | None, high: float | None) -> str:
    """An interval of relative changes: `+5.1 .. +6.9 %`; `-` where it is not known, in words where it has no end."""
    if low is not None and high is not None and low <= 0 and high - low > _ANY_CHANGE:
        return "no change excluded"
    ends = show_change(low), show_change(high)
    return "-" if "-" in ends else f"{ends[0].removesuffix(' %')} .. {ends[1]}"
