"""The units after the numbers of a line: `3.1 ms`, `12/s`, `1409.8/gpu`, `20.9 ± 0.5 ms`, `166.28 M elem/s`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from perflog.formats.families.meters.names import MeterDeclaration
from perflog.formats.tokens import NAME, NUMBER, OPAQUE, UNIT, Token
from perflog.lazy_patterns import lazy_pattern
from perflog.units import MAGNITUDES, UNITS, base_of, unit_of

SPREAD = "±"
SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
"""Factors of rates."""

_ATTACHED = frozenset(("B", "b", "h", "min"))  # units that are also words: only without a space before them
_TIME_PER = lazy_pattern(r"(?P<unit>[nuµm]?s)/(?!s(?:ec)?\b)[A-Za-z]{2,}")  # `22.1 ms/tok`
_TIMED = lazy_pattern(r"time|elapsed|duration|eta\b", re.IGNORECASE)  # names of numbers with `m` as the minute


def unit_of_number(
    parts: Sequence[Token], k: int, name: str, declared: MeterDeclaration
) -> tuple[str, int, str, float]:
    """Return the unit of a number, the index of the token after it, the printed unit, and a factor apart from it.

    The factor is 0 if there is none: `166.28 M elem/s`.
    """
    unit, end = _unit_after(parts, k, declared.unit_names)
    unit_text = "".join(part.text for part in parts[k + 1 : end])
    after = [part.text for part in parts[k + 1 : k + 2]]
    if after == [SPREAD] and [p.kind for p in parts[k + 2 : k + 3]] == [NUMBER]:  # `20.9 ± 0.5 ms`: one unit for both
        unit, last = _unit_after(parts, k + 2, declared.unit_names)
        return unit, end, "".join(part.text for part in parts[k + 3 : last]), 0.0
    is_minutes = after == ["m"] and parts[k + 1].kind == NAME and not parts[k + 1].gap and not unit
    if is_minutes and _TIMED.search(name):  # `total time: 1.03m`
        return "min", k + 2, "m", 0.0
    if after in (["min"], ["h"]) and not unit and _TIMED.search(name) and not _begins_name(parts, k + 2):
        return after[0], k + 2, after[0], 0.0  # `training time: 116.30 min`
    if after == ["/"] and not unit and [p.kind for p in parts[k + 2 : k + 3]] == [NUMBER]:  # `mem 12.3/80.0GB`
        unit = _unit_after(parts, k + 2, declared.unit_names)[0]
        return unit if base_of(unit) == "B" else "", end, "", 0.0
    per = _TIME_PER.fullmatch(parts[k + 1].text) if len(parts) > k + 1 and not unit else None
    if per is not None and len(parts[k + 1].gap) < 2:
        return per["unit"], k + 2, parts[k + 1].text, 0.0
    if declared.measures and (printed := _unit_in_brackets(parts, k + 1)):  # `Rate: 52.3 (tokens/second)`
        return unit_of(printed)[0], k + 4, printed, 0.0
    if scale := _scale_after(parts, k, declared.measures):
        return "1/s", k + 3, parts[k + 2].text, scale
    return unit, end, unit_text, 0.0


def sticks(parts: Sequence[Token], k: int) -> bool:
    """Return whether a word or a number sticks to the token before it: the 8 of `16x8`."""
    return k < len(parts) and not parts[k].gap and parts[k].kind in (NAME, NUMBER, UNIT, OPAQUE)


def _begins_name(parts: Sequence[Token], k: int) -> bool:
    """Return whether parts[k] says that the word before it is the name of another number: `time: 3 min 2`."""
    return k < len(parts) and (parts[k].kind in (NAME, NUMBER) or parts[k].text in ":=")


def _unit_in_brackets(parts: Sequence[Token], k: int) -> str:
    """Return the unit in round brackets at parts[k] with nothing else in them; "" for other brackets."""
    inside = parts[k : k + 3]
    is_bracket = [part.text for part in (*inside[:1], *inside[2:])] == ["(", ")"] and inside[1].kind == NAME
    return inside[1].text if is_bracket and inside[1].text not in _ATTACHED and unit_of(inside[1].text)[0] else ""


def counted_per(parts: Sequence[Token], k: int) -> str:
    """Return the word after the slash parts[k], if it sticks to the slash and no number follows it; else ""."""
    word = parts[k + 1] if k + 1 < len(parts) else None
    return word.text if word is not None and word.kind == NAME and not word.gap + parts[k].gap else ""


def _ends_in_rate(parts: Sequence[Token], k: int) -> bool:
    """Return whether words such as `samples/sec` follow the number parts[k] and after all numbers next to it.

    In `Speed: 71.1 samples/sec 1971.6 tokens/sec` they are units, in `lr 0.1 tokens/sec 1971.6` a name.
    """
    while k + 1 < len(parts) and parts[k].kind == NUMBER:
        if parts[k + 1].kind != NAME or "/" not in parts[k + 1].text:
            return False
        k += 2
    return (
        k >= len(parts) or parts[k].kind != NUMBER
    )  # of the last number nothing is a unit: `loss 0.1 tokens/sec 1971.6`


def _scale_after(parts: Sequence[Token], k: int, may_be_word: bool) -> float:
    """Return the factor of a rate that is printed apart from its unit, after the number parts[k]; 0 without one.

    `may_be_word`: whether a letter with a space before it is a factor too: `166.28 M elem/s`, as `19.8K tok/s`.
    """
    after = parts[k + 1 : k + 3]
    gaps = ("", " ") if may_be_word else ("",)
    is_apart = [part.kind for part in after] == [NAME, NAME] and after[0].gap in gaps and after[1].gap == " "
    is_rate = is_apart and UNITS.get(unit_of(after[1].text)[0]) == UNITS["1/s"]
    return SCALES.get(after[0].text, 0.0) if is_rate else 0.0


def _is_padded(parts: Sequence[Token], k: int) -> bool:
    """Return whether a word after the number parts[k] ends its pair, whatever is between them: `time:  156  s |`."""
    after = parts[k + 2].text if k + 2 < len(parts) else "|"
    return k > 0 and parts[k - 1].text in (":", "=") and after in ("|", ",", ";")


def _unit_after(parts: Sequence[Token], k: int, unit_names: Mapping[str, str]) -> tuple[str, int]:
    """Return the unit after the number parts[k], "" if there is none, and the index of the token after it."""
    if k + 1 == len(parts):
        return "", k + 1
    first = parts[k + 1]
    if first.text in unit_names and len(first.gap) < 2:
        return unit_names[first.text], k + 2
    second = parts[k + 2] if k + 2 < len(parts) else None
    if first.text == "%" and len(first.gap) < 2:
        return "%", k + 2
    if first.text == "/" and not first.gap and second is not None and not second.gap and second.kind in (NAME, UNIT):
        unit = unit_of(f"it/{second.text.partition('/')[0]}")[0]  # `24/s/gpu`
        return (unit, k + 3) if unit else ("", k + 1)
    is_apart = len(first.gap) > 1 and not _is_padded(parts, k)
    if first.kind not in (NAME, UNIT) or is_apart or (first.text in MAGNITUDES and not first.gap):
        return "", k + 1
    is_name = second is not None and (second.kind == NUMBER or second.text in "=:")  # of the next number
    is_name = is_name and not (second and len(parts[k].gap) > 1 and len(second.gap) > 1)  # `gemm   12.5 us   1.5 GB/s`
    is_bound = second is not None and second.text in "=:" and k + 3 < len(parts) and parts[k + 3].kind == NUMBER
    is_name = is_name and (is_bound or not ("/" in first.text and _ends_in_rate(parts, k)))
    if first.gap and (first.text in _ATTACHED or is_name):
        return "", k + 1
    unit = unit_of(first.text)[0]
    return (unit, k + 2) if unit else ("", k + 1)
