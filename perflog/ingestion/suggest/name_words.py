"""The words of a name before a number, with brackets and marks inside of it, without the unit of another number."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perflog.formats.number_units import SIZE, is_rate, is_unit, is_unit_in_brackets, plain_end
from perflog.formats.tokens import LIST, NAME, NUMBER, OPAQUE, UNIT
from perflog.formats.vocabulary import LEVELS
from perflog.ingestion.suggest.number_extents import NumberLine
from perflog.ingestion.suggest.segments import GLUE
from perflog.lazy_patterns import lazy_pattern
from perflog.units import unit_of

OF_TIME = lazy_pattern(r"(?:time|latency|elapsed|duration|delay|wall|eta)$", re.IGNORECASE)
_ORDINAL = lazy_pattern(r"[0-9]+(?:st|nd|rd|th)")
_NO_NAMES = frozenset((*LEVELS, "True", "False"))  # they precede names


class NamedLine(NumberLine):
    """A line with the names in it."""

    def name_before(self, last: int, is_marked: bool = False) -> tuple[tuple[str, ...], int]:
        """Return the words of a name that ends at a token, and the index of the first.

        Brackets are part of a name that a mark ties to its number: `Thread(s) per core:`, `Major (with I/O) faults:`.
        """
        words, k = self._brackets_before(last)
        first = k + 1
        while k >= 0:
            is_plural = self.text(k + 2) == "s" and is_unit_in_brackets(self, k + 1) and self.is_glued(k + 1)
            text = self.text(k) + "s" * (is_plural and not OF_TIME.search(self.text(k)))
            if self.kind(k) == NAME and text not in _NO_NAMES:
                words.insert(0, text)
            elif not (self._is_glue(k) or (is_marked and self._is_operator(k))):
                break
            first = k
            inside, before = self._brackets_before(k - 1) if is_marked and self.text(k - 1) == ")" else ([], k - 1)
            if self.kind(before) == NAME and before < k - 1:
                words[:0] = inside
            elif is_marked and self._is_operator(k - 1):
                before = k - 1
            elif self.begins_segment(k):
                break
            else:
                before = k - 1
            k = before
        if self.text(first - 1) == "=" and self.is_glued(first) and self.kind(first - 2) == NAME:
            end = next((i for i in range(first + 1, last + 1) if not self.is_glued(i)), first)
            words, first = words[sum(part.kind == NAME for part in self.parts[first:end]) :], end  # `model=llama tp=1`
        return self._without_tail(words, first, last)

    def _is_operator(self, k: int) -> bool:
        """Whether a mark is between the parts of a formula: `fwd + bwd: 3.1`."""
        return self.text(k) in ("/", "+", "*") and self.kind(k - 1) == NAME

    def _is_glue(self, k: int) -> bool:
        """Whether a mark is a part of a name: the hyphen of `val-loss`, but not the hyphen of an option `-n 100`."""
        sides = self.is_glued(k), self.is_glued(k + 1)
        return self.text(k) in GLUE and (all(sides) if self.text(k) == "-" else any(sides))

    def _brackets_before(self, last: int) -> tuple[list[str], int]:
        """Return the words in the brackets at the end of a name, but not a unit, and the index before them."""
        words: list[str] = []
        while self.text(last) in (")", "]"):
            opening = next((k for k in range(last - 1, max(last - 16, -1), -1) if self.text(k) in ("(", "[")), 0)
            inside = self.parts[opening + 1 : last]
            if any(part.kind in (NUMBER, LIST) or part.text == ":" for part in inside):  # `lr(1e-3): 2`
                break
            text = "".join(part.gap + part.text for part in inside)
            words[:0] = [] if text == "%" or unit_of(text)[0] else [p.text for p in inside if p.kind == NAME]
            last = opening - 1
        return words, last

    def _without_tail(self, words: list[str], first: int, last: int) -> tuple[tuple[str, ...], int]:
        """Return a name without the unit of the number before it: of `1.75/s LR` only `LR`."""
        if self.kind(first - 1) == OPAQUE and _ORDINAL.fullmatch(self.text(first - 1)):
            return (), last + 1  # without its number, `95th percentile` is not that name
        if self.kind(first - 1) not in (NUMBER, UNIT):
            return tuple(words), first
        k = first
        if self.is_glued(k):
            while k <= last and self.is_glued(k):
                k += 1
            is_key = k > last and self.text(first) == "/" and self.text(first - 2) in (":", "=")  # `epoch=0/step=10`
            words = words if is_key else words[sum(part.kind == NAME for part in self.parts[first:k]) :]
        elif words and self._is_tail(k, words, last):
            words, k = words[1:], k + 1
        return tuple(words), k

    def _is_tail(self, k: int, words: Sequence[str], last: int) -> bool:
        """Whether the first word of a name is the unit of the number before: as in `71.5 samples/s 19.5 tokens/s`."""
        ends_in_rate = is_rate(self, last + 1, plain_end(self, last + 1))
        is_own = "/" in words[0] or SIZE.fullmatch(words[0]) is not None  # `16 MiB 25.1 GB/s`
        return is_unit(self, k) if k < last else len(words) == 1 and is_own and ends_in_rate

    def unit_of_name(self, k: int) -> str:
        """Return the unit that is in brackets before a number: `latency(ms) 1.5`."""
        unit = self.text(k - 2) if is_unit_in_brackets(self, k - 3) else ""
        return "" if unit == "s" and not OF_TIME.search(self.text(k - 4)) else unit  # `GPU(s)` is a plural
