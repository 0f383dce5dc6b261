"""Matches templates with plain numbers as fields, all lines of a chunk at once, without regular expressions.

A *token* is a maximal run of digits and dots: `step 7: 1.25 ms` has the tokens `7` and `1.25`. Three steps:

1. The first two bytes and the number of tokens of a line choose its candidate templates.
2. Every literal byte of a candidate is compared, eight bytes at a time.
3. One Arrow cast converts the tokens that are fields. It rounds correctly.

A template reads here exactly what its regular expression would read. All doubtful strings (signs, exponents, `1.2.3`,
long integers, unusual whitespace) are left to the regular expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from perflog.arrays import Bytes, Floats, Ints, Mask
from perflog.formats.template import Template
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern

Numbers = Ints | Floats

MAX_TOKENS = 31
"""Lines with more tokens are left to the regular expressions."""

MAX_TRAILING_SPACES = 63
"""Lines with more spaces at the end are left to the regular expressions."""

_GATHERED = 64  # bytes of a literal gathered together: gathering 64 bytes costs the same as gathering 8
_MAX_STARTS = 254  # line classes by the first two bytes, not counting the class for a digit: numbers fit in a byte
_TOKEN = lazy_pattern(rb"[0-9.]+")
_LEAST = np.array([0.0, 0.0, *(10.0**k for k in range(1, 15))])  # least integer by number of digits, no leading zero

_Word = tuple[np.uint64 | None, np.uint64]  # mask (None: all bytes count) and value of eight bytes


class _Comparison(Struct, frozen=True):
    """Up to 64 bytes of a literal, from its byte `offset` on."""

    offset: int
    words: tuple[_Word, ...]


def _comparisons(literal: bytes, known: int) -> tuple[_Comparison, ...]:
    """Return the comparisons for a literal. Its first `known` bytes are known to match."""
    comparisons = []
    for offset in range(known, len(literal), _GATHERED):
        block = literal[offset : offset + _GATHERED]
        words: list[_Word] = []
        for start in range(0, len(block), 8):
            text = block[start : start + 8]
            mask = None if len(text) == 8 else np.uint64((1 << 8 * len(text)) - 1)
            words.append((mask, np.uint64(int.from_bytes(text, "little"))))
        comparisons.append(_Comparison(offset, tuple(words)))
    return tuple(comparisons)


class NumericTemplate(Struct, frozen=True, eq=False):
    """A template of plain numbers, prepared for matching.

    Attributes:
        kind: the index of the template among all lines.
        literals: its literals; the last without trailing whitespace.
        comparisons: how each literal is compared.
        field_tokens: for each field the index of its token; literals hold tokens too.
        tokens: number of tokens of a line.
        is_padded: whether spaces may be beside fields. Lines are then read by their layout (`fixed_width`) alone.
    """

    kind: int
    template: Template
    literals: tuple[bytes, ...]
    comparisons: tuple[tuple[_Comparison, ...], ...]
    field_tokens: tuple[int, ...]
    tokens: int
    is_padded: bool


def numeric_template(kind: int, template: Template) -> NumericTemplate | None:
    """Prepare a template, or return None if it has other fields than numbers, or literals that touch a number."""
    prepared = _prepared(template)
    return None if prepared is None else replace(prepared, kind=kind)


@lru_cache(1 << 12)
def _prepared(template: Template) -> NumericTemplate | None:
    """Prepare a template, as each scanner needs it; its kind differs from scanner to scanner."""
    literals = [text.encode("utf-8", "surrogateescape") for text in template.literals]
    literals[-1] = literals[-1].rstrip(b" \t")
    if any(f.type not in "dfeEgr" or f.comma for f in template.fields):
        return None
    if len(literals[0]) < 2 and (literals[0] or not template.fields):
        return None  # two bytes choose the candidates; a line that begins with a number begins with a digit
    if not all(literals[1:-1]) or _touches_a_number(literals):
        return None
    field_tokens, tokens = [], 0
    for literal in literals[:-1]:
        tokens += len(_TOKEN.findall(literal))
        field_tokens.append(tokens)
        tokens += 1
    tokens += len(_TOKEN.findall(literals[-1]))
    if tokens > MAX_TOKENS:
        return None
    comparisons = [_comparisons(x, 2 if index == 0 else 0) for index, x in enumerate(literals)]
    padded = any(f.width for f in template.fields)
    return NumericTemplate(0, template, tuple(literals), tuple(comparisons), tuple(field_tokens), tokens, padded)


def _touches_a_number(literals: Sequence[bytes]) -> bool:
    """Return whether a literal has a digit or dot next to a field: both would be one token."""
    after_field = any(_TOKEN.match(x) for x in literals[1:])
    before_field = any(_TOKEN.match(x[-1:]) for x in literals[:-1])
    return after_field or before_field


class MatchedLines(Struct):
    """Lines of a chunk that one template reads: line indices, ascending, and its fields' values in printed units."""

    lines: Ints
    columns: dict[str, Numbers] = field(default_factory=dict)


class _Tokens(Struct):
    """The tokens of a chunk. Token k is `bytes[edges[2 * k] : edges[2 * k + 1]]`."""

    bytes: Bytes
    starts: Ints  # of the lines
    ends: Ints
    edges: Ints
    first: Ints  # index in `edges` of the first token of each line
    counts: Ints  # tokens of each line
    windows: list[npt.NDArray[Any]]  # the 8, 16, ... 64 bytes from each position on
    wanted: Mask  # edges at which a token begins that is a field


def _find_tokens(data: bytearray, size: int, starts: Ints, ends: Ints) -> _Tokens:
    raw = np.frombuffer(data, np.uint8, size + 8)
    body = raw[:size]
    inside = np.empty(size + 1, np.bool_)
    inside[0] = False
    np.less(body - np.uint8(48), 10, out=inside[1:])
    inside[1:] |= body == 46
    is_edge = inside[1:] ^ inside[:-1]
    edges = np.flatnonzero(is_edge)
    # Edges before the start of each line: the edges as bits, counted by blocks of 64 with a prefix sum, then the bits
    # of the line's own block before it.
    packed = np.packbits(is_edge, bitorder="little")
    blocks = np.zeros((len(packed) + 15) // 8, np.uint64)
    blocks.view(np.uint8)[: len(packed)] = packed
    before = np.zeros(len(blocks) + 1, np.int64)
    np.cumsum(np.bitwise_count(blocks), dtype=np.int64, out=before[1:])
    block = starts >> 6
    below = (np.uint64(1) << (starts & 63).astype(np.uint64)) - np.uint64(1)
    first = before.take(block)
    first += np.bitwise_count(blocks.take(block) & below)
    counts = np.empty(len(starts), np.int64)
    counts[:-1] = first[1:]
    counts[-1] = len(edges)
    counts -= first
    counts >>= 1
    windows = [np.ndarray((size,), f"V{8 * k}", data, strides=(1,)) for k in range(1, _GATHERED // 8 + 1)]
    wanted = np.zeros(max(len(edges) - 1, 0), np.bool_)
    return _Tokens(raw, starts, ends, edges, first, counts, windows, wanted)


class _TokenMatches(Struct):
    """Lines that have a template's literals; for each field the edge at which its token begins, and its length."""

    template: NumericTemplate
    lines: Ints
    edges: list[Ints] = field(default_factory=list)
    lengths: list[Ints] = field(default_factory=list)

    def where(self, mask: Mask) -> _TokenMatches:
        edges, lengths = [x[mask] for x in self.edges], [x[mask] for x in self.lengths]
        return _TokenMatches(self.template, self.lines[mask], edges, lengths)


class NumericMatcher:
    """Matches the numeric templates of the active formats."""

    def __init__(self, templates: Sequence[NumericTemplate]) -> None:
        self.templates = list(templates)
        self._by_start: list[list[NumericTemplate]] = [[]]  # templates of each class of lines; 0: no template
        self._start_class = np.zeros(1 << 16, np.uint8)  # class of a line by its first two bytes
        self._classify_starts()
        self._groups: list[tuple[NumericTemplate, ...]] = [()]  # candidates of the same class and number of tokens
        self._group_of = np.zeros((len(self._by_start), MAX_TOKENS + 2), np.int32)
        known: dict[tuple[NumericTemplate, ...], int] = {}
        for index, candidates in enumerate(self._by_start):
            for count in range(MAX_TOKENS + 1):
                group = tuple(t for t in candidates if t.tokens == count and not t.is_padded)
                if group and group not in known:
                    known[group] = len(self._groups)
                    self._groups.append(group)
                if group:
                    self._group_of[index, count] = known[group]

    def _classify_starts(self) -> None:
        by_start = grouped((int.from_bytes(t.literals[0][:2], "little"), t) for t in self.templates if t.literals[0])
        for start, candidates in list(by_start.items())[:_MAX_STARTS]:
            self._start_class[start] = len(self._by_start)
            self._by_start.append(candidates)
        begin_with_field = [t for t in self.templates if not t.literals[0]]
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

    def candidates(self, line: bytes) -> list[NumericTemplate]:
        """Return the templates that begin as the line does, in order."""
        return self._by_start[self._start_class[int.from_bytes((line + b"\n")[:2], "little")]]

    def ordered(self) -> list[NumericTemplate]:
        """Return the templates in the order in which `match` returns their records, then those that it leaves out."""
        return [*(t for group in self._groups for t in group), *(t for t in self.templates if t.is_padded)]

    def match(self, data: bytearray, size: int, starts: Ints, ends: Ints) -> tuple[dict[int, MatchedLines], Mask]:
        """Read the lines of a chunk.

        Args:
            data: the chunk; `data[size:size + 8]` must be readable.
            size: its bytes.
            starts: byte offset at which each line begins.
            ends: byte offset at which each line ends.

        Returns:
            The lines read by template kind, and a mask of the lines that were read.
        """
        is_read = np.zeros(len(starts), np.bool_)
        if not len(starts) or not self.templates:
            return {}, is_read
        tokens = _find_tokens(data, size, starts, ends)
        group = self._group_of[self.start_classes(data, starts), np.minimum(tokens.counts, MAX_TOKENS + 1)]
        order = np.argsort(group, kind="stable")
        sizes = np.bincount(group, minlength=len(self._groups))
        stops = np.cumsum(sizes)
        matches: list[_TokenMatches] = []
        for index in range(1, len(self._groups)):
            lines = order[stops[index] - sizes[index] : stops[index]]
            for t in self._groups[index]:
                if not len(lines):
                    break
                hits, mask = _compare_literals(tokens, t, lines)
                lines = lines[:0] if len(hits.lines) == len(lines) else lines[~mask]
                if len(hits.lines):
                    for edge in hits.edges:
                        tokens.wanted[edge] = True
                    matches.append(hits)
        values = _convert(tokens, data)
        if values is None:
            matches = _without_bad_tokens(tokens, matches)
            values = _convert(tokens, data)
        return ({} if values is None else _collect(values, matches, is_read)), is_read


def _compare_literals(tokens: _Tokens, t: NumericTemplate, lines: Ints) -> tuple[_TokenMatches, Mask]:
    """Lines that have the template's literals, byte for byte, between their tokens; and a mask of them."""
    literal_start, first = tokens.starts.take(lines), tokens.first.take(lines)
    good = np.ones(len(lines), np.bool_)
    hits = _TokenMatches(t, lines)
    last = len(t.literals) - 1
    for index, literal in enumerate(t.literals):
        if index < last:
            edge = first + 2 * t.field_tokens[index]
            begin = tokens.edges.take(edge)
            good &= begin - literal_start == len(literal)
        for comparison in t.comparisons[index]:
            offset, count = comparison.offset, len(comparison.words)
            word_start = literal_start + offset if offset else literal_start
            if index == last or offset > 2:  # a wrong candidate's literal may reach past the end of the chunk
                word_start = np.minimum(word_start, len(tokens.windows[0]) - 1)
            words = tokens.windows[count - 1][word_start].view("<u8").reshape(-1, count)
            for k, (mask, value) in enumerate(comparison.words):
                good &= (words[:, k] if mask is None else words[:, k] & mask) == value
        if index < last:
            literal_start = tokens.edges.take(edge + 1)
            hits.edges.append(edge)
            hits.lengths.append(literal_start - begin)
    good &= _ends_in_spaces(tokens, literal_start + len(t.literals[last]), tokens.ends.take(lines))
    return (hits if good.all() else hits.where(good)), good


def _ends_in_spaces(tokens: _Tokens, position: Ints, end: Ints) -> Mask | np.bool_:
    """Flag the lines with nothing but spaces and tabs, and not too many, from a position to the end of the line.

    A position after the end is not flagged: a wrong candidate's literal is longer than the rest of its line.
    """
    remaining = end - position  # bytes
    most = int(remaining.max())
    if most == 0 and int(remaining.min()) == 0:
        return np.bool_(True)  # all lines, as nearly always: without a mask
    good = (remaining >= 0) & (remaining <= MAX_TRAILING_SPACES)
    for k in range(min(most, MAX_TRAILING_SPACES + 1)):
        byte = tokens.bytes.take(np.minimum(position + k, len(tokens.bytes) - 1))
        good &= (remaining <= k) | (byte == 32) | (byte == 9)
    return good


def _without_bad_tokens(tokens: _Tokens, matches: Sequence[_TokenMatches]) -> list[_TokenMatches]:
    """Return the matches without lines where a field is no number (`1.2.3`, `.`); set `wanted` again."""
    dots_before = np.zeros(len(tokens.bytes) + 1, np.int64)
    np.cumsum(tokens.bytes == 46, out=dots_before[1:])
    starts, ends = tokens.edges[0::2], tokens.edges[1::2]
    dots = dots_before[ends] - dots_before[starts]
    bad = (dots > 1) | (ends - starts == dots)
    tokens.wanted[:] = False
    clean = []
    for hits in matches:
        good = np.ones(len(hits.lines), np.bool_)
        for edge in hits.edges:
            good &= ~bad[edge >> 1]
        clean.append(hits.where(good))
        for edge in clean[-1].edges:
            tokens.wanted[edge] = True
    return clean


def _convert(tokens: _Tokens, data: bytearray) -> Floats | None:
    """Return every wanted token as a double, by edge index; None if one of them is no number.

    The edges are the offsets of an Arrow array of strings: tokens, and what is between them. All but the wanted tokens
    are null.
    """
    count = len(tokens.wanted)
    if not count:
        return np.empty(0, np.float64)
    buffers = [
        pa.py_buffer(np.packbits(tokens.wanted, bitorder="little")),
        pa.py_buffer(tokens.edges.astype(np.int32)),
        pa.py_buffer(data),
    ]
    try:
        numbers = pc.cast(pa.Array.from_buffers(pa.string(), count, buffers), pa.float64())
    except pa.ArrowInvalid:
        return None
    return np.frombuffer(numbers.buffers()[1], np.float64, count)


def _collect(values: Floats, matches: Sequence[_TokenMatches], is_read: Mask) -> dict[int, MatchedLines]:
    """Columns of each template, without lines with an integer that has a dot, a leading zero or over 14 digits."""
    read: dict[int, MatchedLines] = {}
    for hits in matches:
        lines = hits.lines
        columns: dict[str, Numbers] = {}
        good: Mask | None = None
        for f, edge, length in zip(hits.template.template.fields, hits.edges, hits.lengths, strict=True):
            column: Numbers = values.take(edge)
            if f.type == "d":
                is_integer = (column >= _LEAST.take(length, mode="clip")) & (length < 15)
                if not is_integer.all():
                    good = is_integer if good is None else good & is_integer
                with np.errstate(invalid="ignore"):  # those too long are left out below
                    column = column.astype(np.int64)
            elif not np.isfinite(column.sum()):  # a number too large for a double; the fast path reads no `inf`
                is_finite = np.isfinite(column)
                good = is_finite if good is None else good & is_finite
            if not f.is_dropped:
                columns[f.name] = column
        if good is not None:
            lines, columns = lines[good], {name: column[good] for name, column in columns.items()}
        if len(lines):
            is_read[lines] = True
            read[hits.template.kind] = MatchedLines(lines, columns)
    return read
