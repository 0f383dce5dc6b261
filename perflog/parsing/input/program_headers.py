"""Headers of programs: what they print before their first step, compared.

Two starts of a program are of one job if their headers have no setting with different values. A program prints its
settings in any form, so each number and each value of a name counts, unless its name says that it differs from process
to process, or from start to start: a rank, a port, a step to begin at. Measured times and sizes may differ too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from perflog.formats.vocabulary import LEVEL
from perflog.lazy_patterns import lazy_pattern

MOST_LINES = 100
"""Lines of a header that are compared."""

LONGEST = 4000
"""Characters of a line of a header that are compared."""

_VARIES = lazy_pattern(  # a date, a time of day, addresses of a node, in memory and of a device
    r"(?:19|20)[0-9]{2}[-/]?[0-9]{2}[-/]?[0-9]{2}(?:[-_T ]?[0-9]{4,6}(?![0-9]))?"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]+)?"
    r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]+)?"
    r"|0x[0-9a-fA-F]+|(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9]"
)
_NUMBER = lazy_pattern(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MEASURED = lazy_pattern(r" ?(?:[mun]?s|secs?|seconds|min(?:utes)?|[KMGT]i?B)\b")
_NAME = lazy_pattern(r"(?P<name>[A-Za-z][A-Za-z_.-]*)[^A-Za-z0-9]*\Z")
_PAIR = lazy_pattern(
    rf"(?<![\w.-])(?!{LEVEL}\b)(?P<name>[A-Za-z_][\w.-]*)[\"']?(?: ?= ?|: ?)"
    r"(?P<value>[^\s,;|)}]*[^\W\d_][^\s,;|)}]*)"
)
_OPTION = lazy_pattern(r"(?<!\S)--(?P<name>[a-z][\w-]*)[ =](?P<value>[^\s-]\S*)")
_WORD = lazy_pattern(r"[a-z]+")
_NAME_LENGTH = 48  # characters before a number in which its name is

_PROCESS = frozenset(
    "rank node host hostname machine gpu device cuda pid process proc worker ip addr address port bus pci uuid".split()
)
"""Words for what is another one in each process of a job."""

_OF_PROCESS = _PROCESS | frozenset(
    "local global world master main visible id index idx name dp tp pp ep cp sp etp edp vpp".split()
)
"""What the name of such a value may have beside them: `tp_rank`, `master_addr`."""

_START = frozenset("step iter iteration epoch attempt restart restarts start starting current from at count".split())
"""Words of names for where a start of a program begins: `start_step`."""


def are_alike(headers: Iterable[Sequence[str]]) -> bool:
    """Return whether no setting in some headers has different values.

    Example:
        >>> are_alike([["rank 0", "lr 0.1 seed 7"], ["rank 1", "lr 0.1 seed 7"]])
        True
        >>> are_alike([["rank 0", "lr 0.1 seed 7"], ["rank 1", "lr 0.2 seed 7"]])
        False
    """
    return different_lines(headers) is None


def different_lines(headers: Iterable[Sequence[str]]) -> tuple[str, str] | None:
    """Return the first two lines of some headers in which a setting has different values; None if none has.

    Example:
        >>> different_lines([["rank 0", "lr 0.1 seed 7"], ["rank 1", "lr 0.2 seed 7"]])
        ('lr 0.1 seed 7', 'lr 0.2 seed 7')
    """
    lines: dict[tuple[str, int], str] = {}  # by line without its numbers, and how often it was there before
    values: dict[str, dict[str, str]] = {}  # the line of each value, by name
    for header in headers:
        count = Counter[str]()
        own: dict[str, dict[str, str]] = {}
        for line in header[:MOST_LINES]:
            shape = _NUMBER.sub("#", _constant(line))
            known = lines.setdefault((shape, count[shape]), line)
            count[shape] += 1
            if not _are_of_one_job(known, line):
                return known, line
            for pair in chain(_PAIR.finditer(shape), _OPTION.finditer(shape)):
                own.setdefault(pair["name"].lower(), {}).setdefault(pair["value"], line)
        for name, printed in own.items():
            before = values.setdefault(name, printed)
            is_one = len(before) == len(printed) == 1  # several: of a logger, not of a setting
            if is_one and before.keys() != printed.keys() and not _is_of_process(name):
                return next(iter(before.values())), next(iter(printed.values()))
    return None


def _constant(line: str) -> str:
    """Return the part of a line that is compared: without what differs from start to start."""
    return _VARIES.sub("", line[:LONGEST])


def _are_of_one_job(one: str, other: str) -> bool:
    """Return whether two lines of the same words have the same numbers, but for those that may differ in one job."""
    if one == other:
        return True
    one, other = _constant(one), _constant(other)
    known, printed = _NUMBER.findall(one), _NUMBER.findall(other)
    return known == printed or _may_differ(other, known, printed)


def _may_differ(line: str, known: Sequence[str], printed: Sequence[str]) -> bool:
    """Return whether each number of a line that differs from a known one is measured, or of a process or a start."""
    named = [pair for pair in _PAIR.finditer(line) if _is_of_process(pair["name"].lower())]
    for match, one, other in zip(_NUMBER.finditer(line), known, printed, strict=True):
        is_named = any(pair.start("value") <= match.start() < pair.end("value") for pair in named)
        if one == other or is_named or _MEASURED.match(line, match.end()):
            continue
        name = _NAME.search(line, max(match.start() - _NAME_LENGTH, 0), match.start())
        if name is None or not _is_of_process(name["name"].lower()):
            return False
    return True


def _is_of_process(name: str) -> bool:
    """Return whether a value of this name may differ in the processes, or in the starts, of one job."""
    words = set(_WORD.findall(name))
    return bool(words) and (words <= _START or (words <= _OF_PROCESS and not words.isdisjoint(_PROCESS)))
