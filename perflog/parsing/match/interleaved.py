"""Splits interleaved records: lines that are several records end to end, because two ranks wrote at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perflog.formats.model import Family, Line
from perflog.formats.surroundings import PLAIN_BAR, PREFIX
from perflog.formats.template import escape, fits_64
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.captures import columns_of
from perflog.parsing.match.prefilter import LiteralPrefilter
from perflog.parsing.match.records import Records
from perflog.tables.arrow import numbers_of

MAX_LENGTH = 1 << 13
"""Longer lines are not split: the patterns here are Python's, whose time may grow with the square of a line."""

_LEAST_LITERAL = 3  # characters of a literal that is looked for
_LEAST_TEXT = 6  # characters of literals that a template needs to be looked for inside a line

_PREFIX = lazy_pattern(PREFIX.encode())
_BARS = rf"(?:[ \t]*{PLAIN_BAR})+[ \t]*"
_BARS_IN_FRONT = lazy_pattern(_BARS.encode())
_FIRST_COUNT = lazy_pattern(rb"[ \t]*(?P<name>[A-Za-z_]\w*[ \t]*[:=]?[ \t]*\[?)(?=[0-9])")  # `step 00185` begins a line
_BAR_SIGNS = (b"%", b"it [")  # one of which each progress bar has
_BAR_MARK = r"[0-9]%\x7c"  # of a progress bar, whose literals are short

Fragment = tuple[int, re.Match[bytes]]
"""A part of a line that a template reads: the template's kind, and the match."""


class RecordCutter:
    """Cuts a line where a record of a family may begin: families read any values up to the end of a line.

    A prefix or progress bars in front of a record belong to its part. A record may also begin where the name and number
    that begin the line come again: copies of a log lose the carriage returns between the states of one line.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        self._heads = {pattern: held for family in families for pattern, held in family.head_patterns.items()}

    def __call__(self, text: bytes) -> list[bytes]:
        """Return the parts of a line, end to end."""
        parts, begin, bar_end = [], 0, -1
        may_have_bars = _may_have_bars(text)  # they are slow to look for in a long text
        heads = (*(pattern for pattern, held in self._heads.items() if held in text), *_repeated_count(text))
        for match in _record_starts(heads, may_have_bars).finditer(text):
            front = text[begin : match.start()]
            if match.start() != bar_end and front.strip() and not _is_prefix(front):
                parts.append(front)
                begin = match.start()
            bar_end = match.end() if match["bar"] else -1
        return [*parts, text[begin:]]


def _is_prefix(text: bytes) -> bool:
    """Return whether a text is the prefix of a logger."""
    if not _may_have_bars(text):
        return _PREFIX.fullmatch(text) is not None
    # Each bar can be read as a token of a prefix in several ways: `re` would try all their combinations.
    return bool(pc.match_substring_regex(pa.scalar(text, pa.binary()), f"^(?:{PREFIX})$").as_py())


def _may_have_bars(text: bytes) -> bool:
    return any(mark in text for mark in _BAR_SIGNS)


def _repeated_count(text: bytes) -> list[str]:
    """Return the pattern of the name and number that begin a text if they come again behind blanks, else nothing."""
    first = _FIRST_COUNT.match(text)
    if first is None or text.count(first["name"]) == 1:
        return []
    pattern = rf"(?<=[ \t]{{2}}){escape(first['name'].decode())}(?=[0-9])"
    return [pattern] if re.search(pattern.encode(), text[first.end() :]) else []


@lru_cache(256)
def _record_starts(heads: tuple[str, ...], may_have_bars: bool) -> re.Pattern[bytes]:
    """Return the pattern of progress bars, and of the places where a record of these heads may begin."""
    bars = _BARS if may_have_bars else "(?!)"
    return re.compile("|".join([f"(?P<bar>{bars})", *heads, r"(?<=\})[ \t]*(?=\{)"]).encode())


def without_bars(text: bytes) -> bytes:
    """Return a text without the progress bars in front of it."""
    match = _BARS_IN_FRONT.match(text)
    return text[match.end() :] if match else text


class InterleavedSplitter:
    """Splits a line into fragments, each read whole by one template. A kind is an index into `lines`."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    def worth_splitting(self, texts: pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the texts with two literals: only these are split."""
        if not len(texts) or not self._literals:
            return np.zeros(len(texts), np.bool_)
        return numbers_of(pc.count_substring_regex(texts, self._literals)) > 1

    @cached_property
    def _literals(self) -> str:
        """Pattern of a literal of each template.

        It is the first literal if that is long enough: shapes of a family share it, so a line of one record has it
        once.
        """
        literals = [[x.strip() for x in line.template.literals] for line in self._candidates.values()]
        chosen = {x[0] if len(x[0]) >= _LEAST_TEXT else max(x, key=len) for x in literals}
        patterns = sorted((escape(x) for x in chosen if len(x) >= _LEAST_LITERAL), key=len, reverse=True)
        return "|".join([*patterns, _BAR_MARK] if patterns else [])

    @cached_property
    def _candidates(self) -> dict[int, Line]:
        """Lines that may be a fragment, by kind."""
        return {
            kind: line
            for kind, line in enumerate(self._lines)
            if line.role in ("line", "context") and not line.under_header and not line.template.has_appendix
            if len("".join(line.template.literals)) >= _LEAST_TEXT
        }

    @cached_property
    def _prefilter(self) -> LiteralPrefilter:
        """Finds the texts with the literals of the candidates: of hundreds of templates few can stand in a line."""
        return LiteralPrefilter([line.template.required_literal for line in self._candidates.values()])

    def split(self, texts: pa.Array) -> list[list[Fragment] | None]:
        """Split lines into two or more fragments each; None for a line that is not interleaved, or too long."""
        distinct = texts.dictionary_encode()  # programs repeat their warnings
        of_distinct = list(self._split_distinct(distinct.dictionary))
        return [of_distinct[index] for index in distinct.indices.to_pylist()]

    def _split_distinct(self, texts: pa.Array) -> Iterator[list[Fragment] | None]:
        with_literal = self._prefilter.texts_with(texts)
        masks = ((line, with_literal(k)) for k, line in enumerate(self._candidates.items()))
        held = [(line, mask.tolist()) for line, mask in masks if mask is not None]
        for index, text in enumerate(texts.to_pylist()):
            is_short = len(text) <= MAX_LENGTH
            yield _split(text, [line for line, is_held in held if is_held[index]]) if is_short else None

    def records(self, fragments: Sequence[Fragment], place: int, label: int) -> list[tuple[int, Records]]:
        """Return the fragments of the line at `place` as records with their kinds, the k-th at `place + k`."""
        labels = None if label < 0 else np.array([label])
        records = []
        for k, (kind, match) in enumerate(fragments):
            template = self._lines[kind].template
            columns = columns_of(template, template.values(match))
            records.append((kind, Records(np.array([place + k]), columns, labels)))
        return records


def _split(text: bytes, candidates: Sequence[tuple[int, Line]]) -> list[Fragment] | None:
    """Split a line into two or more fragments that candidates read; None if that cannot be done.

    A depth-first search: fragments are appended while one begins where the last ends, and taken back at a dead end.
    """
    dead_ends: set[int] = set()
    path: list[Fragment] = []
    options = [_fragments_at(text, 0, candidates)]
    while options:
        end = path[-1][1].end() if path else 0
        if end == len(text):
            return path if len(path) > 1 else None
        fragment = next((x for x in options[-1] if x[1].end() not in dead_ends), None)
        if fragment is None:
            dead_ends.add(end)
            options.pop()
            if path:
                path.pop()
        else:
            path.append(fragment)
            options.append(_fragments_at(text, fragment[1].end(), candidates))
    return None


def _fragments_at(text: bytes, position: int, candidates: Sequence[tuple[int, Line]]) -> list[Fragment]:
    """Fragments that begin here, else behind the blanks here: a match leaves out a template's trailing blanks."""
    behind_blanks = len(text) - len(text[position:].lstrip(b" \t"))
    for start in dict.fromkeys((position, behind_blanks)):
        rest = text[start:]
        possible = ((kind, line) for kind, line in candidates if line.template.has_literals(rest))
        matches = ((kind, line, line.template.regex.match(text, start)) for kind, line in possible)
        fragments = [(kind, m) for kind, line, m in matches if m and m.end() > start and _integers_fit(line, m)]
        if fragments:
            return fragments
    return []


def _integers_fit(line: Line, match: re.Match[bytes]) -> bool:
    """Return whether all integers of a match have at most 64 bits."""
    return all(fits_64(match[f.name]) for f in line.template.fields if f.type == "d" and not f.is_dropped)
