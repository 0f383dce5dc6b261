"""Finds the format spec with which a program prints a number, so that a template writes the number back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perflog.lazy_patterns import lazy_pattern

_INTEGER = lazy_pattern(r"[+-]?[0-9]+")
_PARTS = lazy_pattern(r"[+-]?[0-9,]*\.?(?P<decimals>[0-9]*)(?P<exponent>[eE]?)")


def spec_of(texts: Sequence[str]) -> str | None:
    """Return the spec that writes most of these printed numbers back; None if they are too long for a number."""
    if all(_INTEGER.fullmatch(x) for x in texts):
        return _integer_spec(texts)
    if any("," in x for x in texts) and not any("." in x for x in texts):
        return ",d"
    best = max(_candidates(texts), key=lambda spec: sum(format_number(x, spec) == x for x in texts))
    return best if all(_fits_float(x) for x in texts) else None


def _integer_spec(texts: Sequence[str]) -> str | None:
    """Return the spec of integers; None if one is too long for a 64-bit integer, or zeros pad them irregularly."""
    bare = [x.lstrip("+-") for x in texts]
    if any(len(x) > 18 for x in bare):
        return None
    if any(len(x) > 1 and x[0] == "0" for x in bare):
        return f"0{len(bare[0])}d" if len({len(x) for x in texts}) == 1 and bare[0] == texts[0] else None
    return "d"


def _fits_float(text: str) -> bool:
    """Whether a float can hold the number. A string of 400 digits is not a measured number."""
    return len(text) <= 40


def _candidates(texts: Sequence[str]) -> list[str]:
    """Return the specs to try, the preferred ones first."""
    decimals: Counter[tuple[int, str]] = Counter()
    for text in texts:
        match = _PARTS.match(text)
        if match and text[-1].isdigit():
            decimals[len(match["decimals"]), match["exponent"]] += 1
    comma = "," if any("," in x for x in texts) else ""
    fixed = [f"{comma}.{count}{exponent or 'f'}" for (count, exponent), _ in decimals.most_common(4)]
    exact = (
        ["r"] if any(count > 8 for count, _ in decimals) else []
    )  # more than 8 decimals: Python printed the float without a format
    return [*exact, *fixed, "r", "g", *(f".{n}g" for n in range(1, 18))] if not comma else fixed


def format_number(text: str, spec: str) -> str:
    """Return a printed number, printed again with the spec."""
    if spec.endswith("d"):
        return format(int(text.replace(",", "")), spec)
    value = float(text.replace(",", ""))
    return repr(value) if spec == "r" else format(value, spec)
