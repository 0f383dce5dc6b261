"""How numbers are printed: the spec that writes the texts met back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_WHOLE = re.compile(r"[+-]?[0-9]+")
_PARTS = re.compile(r"[+-]?[0-9,]*\.?(?P<decimals>[0-9]*)(?P<exponent>[eE]?)")


def spec_of(texts: Sequence[str]) -> str | None:
    """The spec of numbers printed like these, the one that writes most of them back; None if there is none."""
    if all(_WHOLE.fullmatch(x) for x in texts):
        return _whole(texts)
    if any("," in x for x in texts) and not any("." in x for x in texts):
        return ",d"
    best = max(_candidates(texts), key=lambda spec: sum(format_number(x, spec) == x for x in texts))
    return best if all(_fits(x) for x in texts) else None


def _whole(texts: Sequence[str]) -> str | None:
    bare = [x.lstrip("+-") for x in texts]
    if any(len(x) > 18 for x in bare):
        return None
    if any(len(x) > 1 and x[0] == "0" for x in bare):
        return f"0{len(bare[0])}d" if len({len(x) for x in texts}) == 1 and bare[0] == texts[0] else None
    return "d"


def _fits(text: str) -> bool:
    """Whether a float holds the number: 400 digits are no number anybody measured."""
    return len(text) <= 40


def _candidates(texts: Sequence[str]) -> list[str]:
    """Specs in the order in which they are preferred."""
    decimals: Counter[tuple[int, str]] = Counter()
    for text in texts:
        found = _PARTS.match(text)
        if found and text[-1].isdigit():
            decimals[len(found["decimals"]), found["exponent"]] += 1
    comma = "," if any("," in x for x in texts) else ""
    fixed = [f"{comma}.{count}{kind or 'f'}" for (count, kind), _ in decimals.most_common(4)]
    exact = ["r"] if any(count > 8 for count, _ in decimals) else []  # as Python prints a float, not as a format does
    return [*exact, *fixed, "r", "g", *(f".{n}g" for n in range(1, 18))] if not comma else fixed


def format_number(text: str, spec: str) -> str:
    """A number as the spec prints it."""
    if spec.endswith("d"):
        return format(int(text.replace(",", "")), spec)
    value = float(text.replace(",", ""))
    return repr(value) if spec == "r" else format(value, spec)
