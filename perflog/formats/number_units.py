"""The unit of a number by the tokens after it: `3.1 ms`, `12/s`, `1409.8/gpu`, `20.9 ± 0.5 ms`, `166.28 M elem/s`.

All readers of numbers with words around them ask here: lines of any program, and guesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import NAME, NUMBER, UNIT
from perflog.formats.vocabulary import STATISTICS
from perflog.lazy_patterns import lazy_pattern
from perflog.units import MAGNITUDES, UNITS, base_of, unit_of

SPREAD = "±"
SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
"""Factors of rates."""

SIZE = lazy_pattern(r"[KMGTkmgt]i?(?:[Bb]ytes?|[Bb]its?|[Bb])")  # a unit, and no name
_AMBIGUOUS = frozenset(("B", "b", "h", "min"))  # units that are also words: only without a space before them
_TIME_PER = lazy_pattern(r"(?P<unit>[nuµm]?s)/(?!s(?:ec)?\b)[A-Za-z]{2,}")  # `22.1 ms/tok`
_TIMED = lazy_pattern(r"time|elapsed|duration|eta\b", re.IGNORECASE)  # names of numbers with `m` as the minute
_MOST_RATES = 16  # of a line
_STATISTICS = STATISTICS.difference("min minimum total sum last spread".split()).union("p50 p90 p95 p99".split())


class NumberUnit(Struct, frozen=True):
    """The unit of a number.

    Attributes:
        unit: The unit; "" for none.
        end: The index of the token after the number and its unit.
        text: The unit as printed.
        scale: A factor apart from the unit, as in `166.28 M elem/s`; 0 without one.
    """

    unit: str
    end: int
    text: str = ""
    scale: float = 0.0


def unit_of_number(
    line: TokenLine, k: int, name: str = "", unit_names: Mapping[str, str] | None = None, measures: bool = True
) -> NumberUnit:
    """Return the unit of the number at an index.

    Args:
        line: The tokens around the number.
        k: The index of the number.
        name: The words that name it: `m` is a minute only of a time.
        unit_names: What printed units mean in the lines of a format: `MB = "MiB"`.
        measures: Whether numbers are measured: then a unit may be in brackets, or have a factor with a space before it.
    """
    unit, end = _unit_after(line, k, unit_names or {})
    after, follows_number = line.text(k + 1), line.kind(k + 2) == NUMBER
    if after == SPREAD and follows_number:  # `20.9 ± 0.5 ms`: one unit for both
        unit, last = _unit_after(line, k + 2, unit_names or {})
        return NumberUnit(unit, end, "".join(line.texts(k + 3, last)))
    if after == "m" and line.kind(k + 1) == NAME and line.is_glued(k + 1) and not unit and _TIMED.search(name):
        return NumberUnit("min", k + 2, "m")  # `total time: 1.03m`
    if after in ("min", "h") and not unit and _TIMED.search(name) and not _begins_name(line, k + 2):
        return NumberUnit(after, k + 2, after)  # `training time: 116.30 min`
    if after == "/" and not unit and follows_number:  # `mem 12.3/80.0GB`
        unit = _unit_after(line, k + 2, unit_names or {})[0]
        return NumberUnit(unit if base_of(unit) == "B" else "", end)
    per = _TIME_PER.fullmatch(after) if not unit and len(line.gap(k + 1)) < 2 else None
    if per is not None:
        return NumberUnit(per["unit"], k + 2, after)
    if measures and (printed := _unit_in_brackets(line, k + 1)):  # `Rate: 52.3 (tokens/second)`
        return NumberUnit(unit_of(printed)[0], k + 4, printed)
    if scale := _scale_after(line, k, measures):
        return NumberUnit("1/s", k + 3, line.text(k + 2), scale)
    return NumberUnit(unit, end, "".join(line.texts(k + 1, end)))


def has_statistics(words: Iterable[str]) -> bool:
    """Return whether words of a line name statistics, beside which `min` is no minute."""
    return not _STATISTICS.isdisjoint(word.lower() for word in words)


def may_be_unit(text: str) -> bool:
    """Whether a string after a number is a unit, known or not, and no factor: not the G of `16.0G`, `5.6G/s`."""
    head = text.partition("/")[0]
    if len(head) == 1 and head in MAGNITUDES and not text.startswith("B"):
        return False
    return text in ("%", "C", "°C") or "/" in text or bool(unit_of(text)[0])


def glued_end(line: TokenLine, k: int) -> int:
    """Return the index after a number and the unit that sticks to it, known or not: `3.1ms/step`."""
    end = k + 1
    while line.is_glued(end) and (line.kind(end) in (NAME, UNIT) or line.text(end) in ("%", "°")):
        end += 1
    is_per = line.is_glued(end) and line.text(end) == "/" and line.is_glued(end + 1)
    is_per = is_per and line.kind(end + 1) in (NAME, UNIT) and line.text(end + 2) not in (":", "=")
    return end + 2 * is_per


def is_unit(line: TokenLine, k: int) -> bool:
    """Whether a word after a number and a space is its unit, known or not, and not the name of the next number."""
    if line.kind(k) not in (NAME, UNIT) and line.text(k) != "%":
        return False
    if line.text(k) == "B":  # bytes, or billions
        return False
    is_key = line.text(k + 1) == "=" or (line.text(k + 1) == ":" and (line.is_glued(k + 1) or "/" not in line.text(k)))
    if len(line.gap(k)) > 1 or is_key:
        return False
    is_per = "/" in line.text(k)
    if line.kind(k + 1) == NUMBER and not is_per:  # `copy 16 MiB 25.1 GB/s`
        return SIZE.fullmatch(line.text(k)) is not None and is_rate(line, k + 1, plain_end(line, k + 1))
    return is_per or line.text(k) == "%" or bool(unit_of(line.text(k))[0])


def plain_end(line: TokenLine, k: int) -> int:
    """Return the index after a number and a unit that is apart."""
    return k + 1 + is_unit(line, k + 1)


def is_rate(line: TokenLine, k: int, end: int) -> bool:
    """Whether the unit of a number says what is counted: `12 tokens/s`, `3.1 ms/step`, `5 tokens per second`."""
    text = "".join(line.texts(k + 1, end))
    head, slash, per = text.partition("/")
    counts = bool(slash and head and per) or (base_of(unit_of(text)[0]) in ("1/s", "GB/s", "TFLOP/s"))
    return counts or line.text(end) == "per" or line.text(end + 1) == "per"


def is_unit_in_brackets(line: TokenLine, k: int) -> bool:
    """Whether brackets with one word begin at an index, as after a name: `delay (ms)`."""
    is_bracket = (line.text(k), line.text(k + 2)) in (("(", ")"), ("[", "]"))
    return is_bracket and line.kind(k + 1) != NUMBER


def counted_per(line: TokenLine, k: int) -> str:
    """Return the word after the slash at an index, if it sticks to the slash and no number follows it; else ""."""
    is_word = line.kind(k + 1) == NAME and line.is_glued(k + 1) and not line.gap(k)
    return line.text(k + 1) if is_word else ""


def _begins_name(line: TokenLine, k: int) -> bool:
    """Return whether a token says that the word before it is the name of another number: `time: 3 min 2`."""
    return line.kind(k) in (NAME, NUMBER) or line.text(k) in (":", "=")


def _unit_in_brackets(line: TokenLine, k: int) -> str:
    """Return the unit in the brackets that begin at an index, with nothing else in them; "" for other brackets."""
    inside = line.text(k + 1)
    is_known = is_unit_in_brackets(line, k) and inside not in ("B", "b") and bool(unit_of(inside)[0])
    is_least = inside == "min" and has_statistics(part.text for part in line.parts)
    return inside if is_known and not is_least else ""


def _ends_in_rate(line: TokenLine, k: int) -> bool:
    """Return whether words such as `samples/sec` follow a number and all numbers next to it.

    In `Speed: 71.1 samples/sec 1971.6 tokens/sec` they are units, in `lr 0.1 tokens/sec 1971.6` a name.
    """
    end = min(k + 2 * _MOST_RATES, len(line.parts) - 1)
    while k < end and line.kind(k) == NUMBER:
        if line.kind(k + 1) != NAME or "/" not in line.text(k + 1):
            return False
        k += 2
    return line.kind(k) != NUMBER  # of the last number nothing is a unit: `loss 0.1 tokens/sec 1971.6`


def _scale_after(line: TokenLine, k: int, may_be_word: bool) -> float:
    """Return the factor of a rate that is printed apart from its unit, after a number; 0 without one.

    `may_be_word`: whether a letter with a space before it is a factor too: `166.28 M elem/s`, as `19.8K tok/s`.
    """
    gaps = ("", " ") if may_be_word else ("",)
    is_apart = line.kind(k + 1) == line.kind(k + 2) == NAME and line.gap(k + 1) in gaps and line.gap(k + 2) == " "
    counts = is_apart and UNITS.get(unit_of(line.text(k + 2))[0]) == UNITS["1/s"]
    return SCALES.get(line.text(k + 1), 0.0) if counts else 0.0


def _is_padded(line: TokenLine, k: int) -> bool:
    """Return whether a word after a number ends its pair, whatever is between them: `time:  156  s |`."""
    return line.text(k - 1) in (":", "=") and line.text(k + 2) in ("", "|", ",", ";")


def _unit_after(line: TokenLine, k: int, unit_names: Mapping[str, str]) -> tuple[str, int]:
    """Return the unit after a number, "" if there is none, and the index of the token after it."""
    first, gap, nothing = line.text(k + 1), line.gap(k + 1), ("", k + 1)
    if first in unit_names and len(gap) < 2:
        return unit_names[first], k + 2
    if first == "%" and len(gap) < 2:
        return "%", k + 2
    if first == "/" and not gap and line.is_glued(k + 2) and line.kind(k + 2) in (NAME, UNIT):
        unit = unit_of(f"it/{line.text(k + 2).partition('/')[0]}")[0]  # `24/s/gpu`
        return (unit, k + 3) if unit else nothing
    is_apart = len(gap) > 1 and not _is_padded(line, k)
    if line.kind(k + 1) not in (NAME, UNIT) or is_apart or (first in MAGNITUDES and not gap):
        return nothing
    is_mark = line.text(k + 2) in (":", "=")
    is_name = is_mark or line.kind(k + 2) == NUMBER  # of the next number
    is_name = is_name and not (len(line.gap(k)) > 1 and len(line.gap(k + 2)) > 1)  # `gemm   12.5 us   1.5 GB/s`
    is_bound = is_mark and line.kind(k + 3) == NUMBER
    is_name = is_name and (is_bound or not ("/" in first and _ends_in_rate(line, k)))
    if gap and (first in _AMBIGUOUS or is_name):
        return nothing
    unit = unit_of(first)[0]
    return (unit, k + 2) if unit else nothing
