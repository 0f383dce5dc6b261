"""Finds the format spec with which a program prints a number, so that a template writes the number back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perflog.formats.families.base import spec_of as spec_of_one
from perflog.lazy_patterns import lazy_pattern

_INTEGER = lazy_pattern(r"[+-]?[0-9]+")
_LONGEST = 40  # characters: a string of 400 digits is not a measured number


def spec_of(texts: Sequence[str]) -> str | None:
    """Return the spec that writes most of these printed numbers back; None if they are too long for a number."""
    if all(_INTEGER.fullmatch(x) for x in texts):
        return _integer_spec(texts)
    if any("," in x for x in texts) and not any("." in x for x in texts):
        return ",d"
    specs = [spec for spec, _ in Counter(map(spec_of_one, texts)).most_common()]
    best = max([*specs, "r", "g"], key=lambda spec: sum(format_number(x, spec) == x for x in texts))
    return best if max(map(len, texts)) <= _LONGEST else None


def _integer_spec(texts: Sequence[str]) -> str | None:
    """Return the spec of integers; None if one is too long for 64 bits, or zeros pad them irregularly."""
    bare = [x.lstrip("+-") for x in texts]
    if any(len(x) > 18 for x in bare):
        return None
    if any(len(x) > 1 and x[0] == "0" for x in bare):
        return f"0{len(bare[0])}d" if bare == [*texts] and len({*map(len, bare)}) == 1 else None
    return "d"


def format_number(text: str, spec: str) -> str:
    """Return a printed number, printed again with the spec."""
    value = float(text.replace(",", ""))
    return repr(value) if spec == "r" else format(value, spec)
