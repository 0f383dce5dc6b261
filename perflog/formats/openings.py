"""Openings: the strings by which the beginning of a line is known inside another line."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from perflog.formats.template import LOOSE, Template, escape, letters_in, unnamed

ENOUGH = 6
"""Letters and digits of literals by which an opening is known."""

ENOUGH_OF_HEAD = 4
"""The same for the head of a family: all its lines begin so."""


class Opening(Struct, frozen=True):
    """The string by which the beginning of a line shape is known inside a line.

    Attributes:
        pattern: Its pattern, for RE2 and `re`.
        literal: The longest literal in it.
        extent: The pattern of the line from there to its end, or to its first field that may have spaces in it.
    """

    pattern: str
    literal: bytes
    extent: str


@lru_cache(1 << 12)
def opening_of(template: Template, enough: int = ENOUGH) -> Opening | None:
    """Return the opening of a line shape; None if its first literals have fewer letters and digits than `enough`.

    It does not begin with a string field, which could be anything. It goes on to the first number if one comes early.
    """
    fields, literals = template.fields, template.literals
    begin = 0
    while begin < len(fields) and fields[begin].type in "b" + LOOSE and not any(map(str.isalnum, literals[begin])):
        begin += 1
    if begin < len(fields) and fields[begin].type in "Sw" and not literals[begin].strip():
        return None
    first = literals[begin].lstrip(" ")
    if begin:  # a mark there belongs to what is before it: `[{date:s}] iteration`
        first = re.sub(r"^[^A-Za-z0-9\[({<]+", "", first)
    blanks = 0 if begin else len(literals[0]) - len(first)
    pattern, parts, opening = f" {{0,{blanks}}}" if blanks else "", [first], ""
    longest, letters = first, letters_in(first)
    for k, field in enumerate(fields[begin:], begin):
        if field.type in LOOSE:
            break
        pattern += escape(parts[-1]) + field.pattern("")
        parts.append(literals[k + 1])
        letters += letters_in(parts[-1])
        if letters >= enough and not opening:
            opening = pattern + escape(parts[-1].rstrip(" "))
            longest = max((part.rstrip(" ") for part in parts), key=len)
    pattern += escape(parts[-1].rstrip(" "))
    if letters < enough:
        return None
    raw = (longest if opening else max((part.rstrip(" ") for part in parts), key=len)).encode(
        "utf-8", "surrogateescape"
    )
    return Opening(unnamed(opening or pattern), raw, unnamed(pattern))
