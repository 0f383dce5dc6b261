"""Templates with plain numbers as fields, which `fixed_width` reads: the first two bytes of a line choose them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from perflog.arrays import Bytes, Ints
from perflog.formats.template import Template
from perflog.lazy_patterns import lazy_pattern

_MAX_STARTS = 254  # line classes by the first two bytes, not counting the class for a digit: numbers fit in a byte
_PART_OF_NUMBER = lazy_pattern(rb"[0-9.]")


@lru_cache(1 << 12)
def plain_literals(template: Template) -> tuple[bytes, ...] | None:
    """Return the literals of a template of plain numbers, the last one without trailing whitespace.

    None if it has other fields than numbers, or literals that touch a number.
    """
    literals = [text.encode("utf-8", "surrogateescape") for text in template.literals]
    literals[-1] = literals[-1].rstrip(b" \t")
    if any(f.type not in "dfeEgr" or f.comma for f in template.fields):
        return None
    if len(literals[0]) < 2 and (literals[0] or not template.fields):
        return None  # two bytes choose the candidates; a line that begins with a number begins with a digit
    return tuple(literals) if all(literals[1:-1]) and not _touches_a_number(literals) else None


def _touches_a_number(literals: Sequence[bytes]) -> bool:
    """Return whether a literal has a digit or dot next to a field: where the number begins depends on its digits."""
    after_field = any(_PART_OF_NUMBER.match(x) for x in literals[1:])
    before_field = any(_PART_OF_NUMBER.match(x[-1:]) for x in literals[:-1])
    return after_field or before_field


class Candidates:
    """Templates of plain numbers, each with its kind, by the first two bytes of the lines that they may read."""

    def __init__(self, templates: Mapping[int, Template]) -> None:
        self._by_start: list[list[tuple[int, Template]]] = [[]]  # templates of each class of lines; 0: no template
        self._start_class = np.zeros(1 << 16, np.uint8)  # class of a line by its first two bytes
        by_start: dict[int, list[tuple[int, Template]]] = {}
        begin_with_field = []
        for kind, template in templates.items():
            literals = plain_literals(template)
            if literals is not None and literals[0]:
                by_start.setdefault(int.from_bytes(literals[0][:2], "little"), []).append((kind, template))
            elif literals is not None:
                begin_with_field.append((kind, template))
        for start, candidates in list(by_start.items())[:_MAX_STARTS]:
            self._start_class[start] = len(self._by_start)
            self._by_start.append(candidates)
        if begin_with_field:
            first_byte = np.arange(1 << 16) & 255
            is_digit = (first_byte >= 48) & (first_byte < 58)
            self._start_class[is_digit & (self._start_class == 0)] = len(self._by_start)
            self._by_start.append(begin_with_field)

    def start_classes(self, data: bytearray, starts: Ints) -> Bytes:
        """Return the class of each line's first two bytes; 0 if no template begins so."""
        body = np.frombuffer(data, np.uint8)
        first_two = body.take(starts + 1).astype(np.uint16)
        first_two <<= 8
        first_two |= body.take(starts)
        return self._start_class.take(first_two)

    def of(self, line: bytes) -> list[tuple[int, Template]]:
        """Return the templates that begin as the line does, in order."""
        return self._by_start[self._start_class[int.from_bytes((line + b"\n")[:2], "little")]]
