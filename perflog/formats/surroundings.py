"""What may be before a line and after it: prefixes of loggers and launchers, comments.

All patterns mean the same to RE2 and to `re`. A prefix consists of tokens that no sentence begins with: brackets,
dates, times, levels, numbers, names with a colon after them or with a digit, dot or dash in them. So a line inside
prose or source code is no line after a prefix.
"""

from __future__ import annotations

import re

from perflog.formats.vocabulary import LEVEL
from perflog.lazy_patterns import lazy_pattern

_DATE = r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/][0-9]{1,2}(?:[-/][0-9]{2,4})?"
_TIME = r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,:][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_LEVEL = rf"(?:{LEVEL}|info|warning|debug|[DIWEF][0-9]{{4}})"
_CLOSED = (
    r"\[[^\[\]\x0a]*\]:?",
    r"\([^()\x0a]*\):?",
    r"<[^<>\x0a]*>:?",
    r"(?:[DIWEF] )?[A-Za-z_][A-Za-z0-9_./-]*\.[a-z]{1,3}:[0-9]+[\]:]",  # `E xla/service/alarm.cc:140]` of TensorFlow
    r"[A-Za-z_][A-Za-z0-9_./@-]*:",
    r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]+)?:",
    r"[A-Za-z_][A-Za-z0-9_.]* +[-|] ",
)
_OPEN = (  # a name with a digit is none like `H2D` and `P2P`, the copies that a line is about
    rf"(?:{_DATE})(?:[T_]{_TIME})?[:,]?",
    rf"{_TIME}[:,]?",
    rf"(?:{_DAY})[.,]?",
    _LEVEL,
    r"[0-9]{1,16}(?:\.[0-9]+)?",
    r"[A-Za-z_](?:[A-Za-z_/@]+[0-9.-][A-Za-z0-9_./@-]*|[0-9.-](?:[0-9_./@-]|[A-Za-z0-9_./@-]{2,})?)(?::[0-9]+)?",
    r"[-|:>*=~]+",
)
TOKEN = rf"(?:(?:{'|'.join(_CLOSED)})[ \t]*|(?:{'|'.join(_OPEN)})[ \t]+)"
"""Pattern of one token of a prefix, with the whitespace after it."""

_STAMP = rf"(?:{_DATE})(?:[T_ ]{_TIME})?[:,]?|{_TIME}[:,]?"
_STARTING = (
    rf"\[(?:[A-Za-z]|{_DATE})[^\[\]\x0a]*\]:?[ \t]*",
    rf"(?:{_STAMP}|(?:{_DAY})[.,]?|{_LEVEL})[ \t]+",
    rf"{_LEVEL}:(?:[A-Za-z_][A-Za-z0-9_.]*:)?[ \t]*",
    r"[A-Za-z_][A-Za-z0-9_./-]*\.[a-z]{1,3}:[0-9]+[\]:][ \t]*",
)
_BETWEEN = r"[-|:>]+[ \t]+|[A-Za-z_][A-Za-z0-9_.]* +[-|] "
GLUED_PREFIX = rf"(?:(?:{'|'.join(_STARTING)})(?:{_BETWEEN})*)+"
"""Pattern of a prefix that is known after another record: it begins with a bracket, a date, a time, or a level.

A number or a name with a colon could belong to the record before it.
"""

_MOST_TOKENS, _FEWEST_TOKENS, _USUAL = 32, 4, 1000
"""Tokens of a prefix, at most and at least; a line with more bytes than usual has fewer, in proportion."""

PREFIX = rf"[ \t]*{TOKEN}+"
"""Pattern of what is before a line."""

APPENDIX = (
    r"(?:[ \t]*(?:[|;(<\[]|,[ \t])(?s:.*)|,|[ \t]+(?:#(?s:.*)|[-=>~/]+[ \t](?s:.*)|[A-Za-z_][A-Za-z0-9_]*[:=](?s:.*)))"
)
"""Pattern of what is after a line. It does not begin in the middle of a number, nor with a unit."""

_TOKEN = lazy_pattern(TOKEN.encode())

LOGGER_PREFIX = (
    rf"(?:[\[(]?(?:(?:{_DATE})(?:[T_ -]{_TIME})?|{_TIME})[\])]?[:,]?[ \t]+(?:[-|][ \t]+)?)?"
    rf"(?:[A-Za-z_][\w.]*[ \t]+[-|][ \t]+)?(?:[\[(]?{LEVEL}[\])]?[: \t](?:[A-Za-z_][\w.]*:)?[ \t]*(?:[-|][ \t]+)?)?"
)
"""Pattern of what a logger prints before its text, perhaps nothing: `2026-01-02 10:00:00,123 - bench - INFO - `."""

_LOGGED = lazy_pattern(LOGGER_PREFIX, re.ASCII)


def prefix_ends(raw: bytes, every: bool = False) -> list[int]:
    """Return the offsets at which a prefix of a line may end, ascending; [] if nothing is before the line.

    They are the ends of its first tokens, since in a line of thousands of pairs each pair looks like one. Who reads the
    rest of the line after each of them needs a bound. `every`: of all tokens, for others.
    """
    most = len(raw) if every else max(_FEWEST_TOKENS, _MOST_TOKENS * _USUAL // max(len(raw), _USUAL))
    offset = len(raw) - len(raw.lstrip(b" \t"))
    ends: list[int] = []
    while len(ends) < most and (match := _TOKEN.match(raw, offset)):
        offset = match.end()
        ends.append(offset)
    return [end for end in ends if end < len(raw)]


def end_of_logger_prefix(text: str) -> int:
    """Return the offset at which the prefix of a logger ends; 0 without one. It consists of ASCII."""
    found = _LOGGED.match(text)
    return found.end() if found is not None else 0
