"""Brief texts, for readers who pay by the token: at most 400 tokens, whatever was read.

No tokenizer is asked: `tokens` is an estimate that is meant to be too high. Each digit, each sign and each byte beyond
ASCII counts, and so do four letters of a word, or two of one with more than twelve letters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from perflog.lazy_patterns import lazy_pattern
from perflog.output.sheets import cell
from perflog.units import count

LIMIT = 400
"""Largest number of tokens of a brief answer."""

_LINE = 64  # tokens of a line, if its author says nothing else
_MORE = "and {}: --format json has all"
_PIECE = lazy_pattern(r" ?[a-z]{13,}| ?[a-z]{1,4}|[\x00-\x7f]", re.IGNORECASE | re.ASCII)
_LONG = 12  # letters; longer runs of letters are no words
_CUT = " …"
_NAME = 24  # characters
_HALF = lazy_pattern(r"(?:[\s\d.,:;(\[±+~#-]|->)+$")  # a number without its unit would be another number


class BriefLine(NamedTuple):
    """A line of a brief answer.

    `weight`: lines of less weight are left out last. `most`: tokens that it may have; it is cut after a word. A line
    that is `whole`, such as a command, is never cut.
    """

    text: str
    weight: int
    most: int = _LINE
    whole: bool = False


def tokens(text: str) -> int:
    """Return how many tokens a language model needs for a string: more than today's tokenizers count.

    Some have a token for each digit, others for three; most have one for a common word. What none of them knows falls
    back to its bytes.

    Example:
        >>> tokens("step 21.29 ms")
        8
    """
    ascii_text = text.encode("ascii", "ignore").decode()
    pieces = (match[0] for match in _PIECE.finditer(ascii_text))
    ascii_tokens = sum(1 if len(piece) <= _LONG else -(-len(piece) // 2) for piece in pieces)
    return ascii_tokens + len(text.encode("utf-8", "replace")) - len(ascii_text)


def brief(lines: Sequence[BriefLine], limit: int = LIMIT) -> list[str]:
    """Return the lines that have room, in their order, and how many are left out. What is left lengthens cut lines."""
    shown: dict[int, str] = {}
    left = limit - tokens(_MORE.format(count(len(lines), "more line"))) - 1
    order = sorted(range(len(lines)), key=lambda i: (lines[i].weight, i))
    for place in order:
        if text := _fitted(lines[place], left - 1):
            shown[place] = text
            left -= tokens(text) + 1
    for place in order:
        if place in shown and shown[place] != cell(lines[place].text):
            room = tokens(shown[place]) + left
            longer = _fitted(lines[place]._replace(most=max(room, lines[place].most)), room)
            if tokens(shown[place]) < tokens(longer) <= room:
                left -= tokens(longer) - tokens(shown[place])
                shown[place] = longer
    missing = len(lines) - len(shown)
    return [
        *(shown[place] for place in sorted(shown)),
        *([_MORE.format(count(missing, "more line"))] if missing else []),
    ]


def _fitted(line: BriefLine, room: int) -> str:
    """The line, or a start of it that says enough; else ""."""
    text = cell(line.text)
    needed = tokens(text)
    if line.whole or needed <= min(room, line.most):
        return text if needed <= room else ""
    start = _cut(text, min(room, line.most))
    return start if 3 * tokens(start) >= 2 * min(needed, line.most) else ""


def _cut(text: str, room: int) -> str:
    """Return the start of a string up to a word, with an ellipsis; "" if there is room for no word."""
    room -= tokens(_CUT)
    start = text[: 5 * max(room, 0)]  # no more characters fit
    while start and tokens(start) > room:
        start = start.rpartition(" ")[0] if " " in start else start[:-1]
    if len(start) < len(text) and text[len(start)] != " " and " " in start:
        start = start.rpartition(" ")[0]
    start = _HALF.sub("", start)
    head, comma, tail = start.rpartition(", ")
    if comma and len(tail) < _NAME and not any(map(str.isdigit, tail)):  # the name of a value that has no room
        start = head
    return f"{start}{_CUT}" if start else ""
