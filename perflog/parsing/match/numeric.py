"""The fast path: templates whose fields are plain numbers, matched column by column over a whole chunk.

Lines are classed by their first two bytes and their number of number tokens (maximal runs of digits and dots); every
literal byte of the candidate is then compared, eight at a time; the wanted tokens are converted by one Arrow cast,
which rounds correctly. What is claimed here is exactly what the template's regular expression would read; whatever is
in doubt (signs, exponents, `1.2.3`, long integers, odd blanks) is left to the regular expressions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perflog.formats.template import Template

Ints = npt.NDArray[np.int64]

MOST_TOKENS = 31
"""Lines with more number tokens (maximal runs of digits and dots) are left to the regular expressions."""

SPAN = 64
"""Bytes of a literal that are gathered at once: gathering costs the same for 8 bytes as for 64."""

_TOKEN = re.compile(rb"[0-9.]+")
Word = tuple[np.uint64 | None, np.uint64]  # mask (None: all) and value of 8 bytes


def _spans(literal: bytes, known: int) -> list[tuple[int, int, list[Word]]]:
    """A literal as (offset, words gathered, the words to compare); the first `known` bytes are already sure."""
    out = []
    for offset in range(known, len(literal), SPAN):
        part = literal[offset : offset + SPAN]
        words: list[Word] = []
        for at in range(0, len(part), 8):
            piece = part[at : at + 8]
            mask = None if len(piece) == 8 else np.uint64((1 << 8 * len(piece)) - 1)
            words.append((mask, np.uint64(int.from_bytes(piece, "little"))))
        out.append((offset, len(words), words))
    return out


@dataclass(frozen=True, eq=False)
class NumericTemplate:
    """A template the fast path can read. `tokens` gives the place of each field among the line's tokens."""

    kind: int
    template: Template
    literals: tuple[bytes, ...]
    spans: tuple[list[tuple[int, int, list[Word]]], ...]
    tokens: tuple[int, ...]
    count: int


def numeric_template(kind: int, template: Template) -> NumericTemplate | None:
    """The template made ready, or None if it is not plain: other than numbers, or literals that touch a number."""
    literals = [x.encode() for x in template.literals]
    literals[-1] = literals[-1].rstrip(b" \t")
    if any(f.type not in "dfeEgr" or f.width or f.comma for f in template.fields):
        return None
    if len(literals[0]) < 2 and (literals[0] or not template.fields):
        return None
    tokens, count = [], 0
    for index, literal in enumerate(literals):
        runs = [m.span() for m in _TOKEN.finditer(literal)]
        inner = 0 < index < len(literals) - 1
        if (runs and index > 0 and runs[0][0] == 0) or (
            runs and index < len(literals) - 1 and runs[-1][1] == len(literal)
        ):
            return None
        if inner and not literal:
            return None
        count += len(runs)
        if index < len(template.fields):
            tokens.append(count)
            count += 1
    if count > MOST_TOKENS:
        return None
    # The first two bytes of a line choose its candidates: they need no second look.
    spans = [_spans(x, 2 if index == 0 else 0) for index, x in enumerate(literals)]
    return NumericTemplate(kind, template, tuple(literals), tuple(spans), tuple(tokens), count)


_POWERS = np.array([0.0, 0.0, *(10.0**k for k in range(1, 15))])  # least value of a d-token of each length


@dataclass
class MatchedLines:
    """Lines of a chunk that one template reads: line indices, ascending, and its fields' values in printed units."""

    lines: Ints
    columns: dict[str, npt.NDArray[np.int64] | npt.NDArray[np.float64]] = field(default_factory=dict)


@dataclass
class _Chunk:
    """What one pass over the bytes gives."""

    bytes: npt.NDArray[np.uint8]
    spans: list[npt.NDArray[Any]]  # the 8, 16, ... 64 bytes at each position
    starts: Ints
    ends: Ints
    edges: Ints  # token k of the chunk is bytes[edges[2k]:edges[2k+1]]
    first: Ints  # edge index of the first token of each line
    counts: Ints  # tokens of each line
    wanted: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))


def _tokens(data: bytearray, size: int, ends: Ints, starts: Ints) -> _Chunk:
    raw = np.frombuffer(data, np.uint8, size + 8)
    body = raw[:size]
    inside = np.empty(size + 1, np.bool_)
    inside[0] = False
    np.less(body - np.uint8(48), 10, out=inside[1:])
    inside[1:] |= body == 46
    edge = inside[1:] ^ inside[:-1]
    edges = np.flatnonzero(edge)
    # Tokens before each line start: bits before it in the packed edge mask, by prefix sums of 64-bit popcounts.
    packed = np.packbits(edge, bitorder="little")
    blocks = np.zeros((len(packed) + 15) // 8, np.uint64)
    blocks.view(np.uint8)[: len(packed)] = packed
    before = np.zeros(len(blocks) + 1, np.int64)
    np.cumsum(np.bitwise_count(blocks), dtype=np.int64, out=before[1:])
    block = starts >> 6
    low = (np.uint64(1) << (starts & 63).astype(np.uint64)) - np.uint64(1)
    first = before.take(block)
    first += np.bitwise_count(blocks.take(block) & low)
    counts = np.empty(len(starts), np.int64)
    counts[:-1] = first[1:]
    counts[-1] = len(edges)
    counts -= first
    counts >>= 1
    spans = [np.ndarray((size,), f"V{8 * k}", data, strides=(1,)) for k in range(1, SPAN // 8 + 1)]
    return _Chunk(raw, spans, starts, ends, edges, first, counts)


class NumericMatcher:
    """The plain templates of the active formats, ready to be matched."""

    def __init__(self, templates: Sequence[NumericTemplate]) -> None:
        self.templates = list(templates)
        groups: dict[tuple[NumericTemplate, ...], int] = {}
        self._heads = np.zeros(1 << 16, np.uint8)
        heads: list[list[NumericTemplate]] = [[]]
        by_head: dict[int, list[NumericTemplate]] = {}
        digits = [t for t in self.templates if not t.literals[0]]
        for t in self.templates:
            if t.literals[0]:
                by_head.setdefault(int.from_bytes(t.literals[0][:2], "little"), []).append(t)
        for head, found in list(by_head.items())[:254]:
            self._heads[head] = len(heads)
            heads.append(found)
        if digits:
            low = np.arange(1 << 16) & 255
            self._heads[(low >= 48) & (low < 58) & (self._heads == 0)] = len(heads)
            heads.append(digits)
        self._by_head = heads
        self._groups = np.zeros((len(heads), MOST_TOKENS + 2), np.uint8)
        self._members: list[tuple[NumericTemplate, ...]] = [()]
        for index, found in enumerate(heads):
            for count in range(MOST_TOKENS + 1):
                members = tuple(t for t in found if t.count == count)
                if members and members not in groups:
                    groups[members] = len(self._members)
                    self._members.append(members)
                if members:
                    self._groups[index, count] = groups[members]

    def heads(self, data: bytearray, starts: Ints) -> npt.NDArray[np.uint8]:
        """Class of each line's first two bytes; 0 if no template begins so."""
        body = np.frombuffer(data, np.uint8)
        first = body.take(starts + 1).astype(np.uint16)
        first <<= 8
        first |= body.take(starts)
        return self._heads.take(first)

    def candidates(self, line: bytes) -> list[NumericTemplate]:
        """Templates that begin as the line does, in order."""
        return self._by_head[self._heads[int.from_bytes((line + b"\n")[:2], "little")]]

    def ordered(self) -> list[NumericTemplate]:
        """The templates in the order in which `match` gives their records."""
        return [t for members in self._members for t in members]

    def match(
        self, data: bytearray, size: int, starts: Ints, ends: Ints
    ) -> tuple[dict[int, MatchedLines], npt.NDArray[np.bool_]]:
        """Records of the chunk by template kind, and which lines were claimed.

        `data[size:size+8]` must be readable. `starts` and `ends` are the lines' byte offsets.
        """
        claimed = np.zeros(len(starts), np.bool_)
        if not len(starts) or not self.templates:
            return {}, claimed
        chunk = _tokens(data, size, ends, starts)
        head = self.heads(data, starts)
        group = self._groups[head, np.minimum(chunk.counts, MOST_TOKENS + 1)]
        order = np.argsort(group, kind="stable")
        sizes = np.bincount(group, minlength=len(self._members))
        stops = np.cumsum(sizes)
        chunk.wanted = np.zeros(max(len(chunk.edges) - 1, 0), np.bool_)
        hits: list[_TokenMatches] = []
        for index in range(1, len(self._members)):
            rest = order[stops[index] - sizes[index] : stops[index]]
            for t in self._members[index]:
                if not len(rest):
                    break
                hit, good = _verify(chunk, t, rest)
                rest = rest[:0] if len(hit.lines) == len(rest) else rest[~good]
                if len(hit.lines):
                    for edge in hit.edges:
                        chunk.wanted[edge] = True
                    hits.append(hit)
        values = _convert(chunk, data)
        if values is None:
            return self._without_bad_tokens(chunk, data, hits)
        return _collect(values, hits, claimed), claimed

    def _without_bad_tokens(
        self, chunk: _Chunk, data: bytearray, hits: list[_TokenMatches]
    ) -> tuple[dict[int, MatchedLines], npt.NDArray[np.bool_]]:
        """Some wanted token is no number (`1.2.3`, `.`): leave its lines out, then convert again."""
        claimed = np.zeros(len(chunk.starts), np.bool_)
        dots = np.zeros(len(chunk.bytes) + 1, np.int64)
        np.cumsum(chunk.bytes == 46, out=dots[1:])
        starts, ends = chunk.edges[0::2], chunk.edges[1::2]
        points = dots[ends] - dots[starts]
        bad = (points > 1) | (ends - starts == points)
        chunk.wanted[:] = False
        clean = []
        for hit in hits:
            good = np.ones(len(hit.lines), np.bool_)
            for edge in hit.edges:
                good &= ~bad[edge >> 1]
            clean.append(hit.where(good))
            for edge in clean[-1].edges:
                chunk.wanted[edge] = True
        values = _convert(chunk, data)
        if values is None:
            return {}, claimed
        return _collect(values, clean, claimed), claimed


@dataclass
class _TokenMatches:
    """Lines that one template reads; for each of its fields the edge its token begins at, and the token's length."""

    template: NumericTemplate
    lines: Ints
    edges: list[Ints] = field(default_factory=list)
    lengths: list[Ints] = field(default_factory=list)

    def where(self, good: npt.NDArray[np.bool_]) -> _TokenMatches:
        return _TokenMatches(
            self.template, self.lines[good], [e[good] for e in self.edges], [x[good] for x in self.lengths]
        )


def _verify(chunk: _Chunk, t: NumericTemplate, lines: Ints) -> tuple[_TokenMatches, npt.NDArray[np.bool_]]:
    """Which of the lines have the template's literals, byte for byte, between their tokens."""
    at, first = chunk.starts.take(lines), chunk.first.take(lines)
    good = np.ones(len(lines), np.bool_)
    hit = _TokenMatches(t, lines)
    last = len(t.literals) - 1
    for index, literal in enumerate(t.literals):
        if index < last:
            edge = first + 2 * t.tokens[index]
            begin = chunk.edges.take(edge)
            good &= begin - at == len(literal)
        for offset, count, words in t.spans[index]:
            place = at + offset if offset else at
            if index == last or offset > 2:  # a wrong candidate's literal may reach past the end of the chunk
                place = np.minimum(place, len(chunk.spans[0]) - 1)
            found = chunk.spans[count - 1][place].view("<u8").reshape(-1, count)
            for k, (mask, value) in enumerate(words):
                good &= (found[:, k] if mask is None else found[:, k] & mask) == value
        if index < last:
            at = chunk.edges.take(edge + 1)
            hit.edges.append(edge)
            hit.lengths.append(at - begin)
    over = chunk.ends.take(lines) - (at + len(t.literals[last]))
    most = int(over.max())
    if most > 0 or int(over.min()) < 0:
        good &= (over >= 0) & (over < 64)
        for extra in range(min(most, 64)):
            byte = chunk.bytes.take(np.minimum(at + (len(t.literals[last]) + extra), len(chunk.bytes) - 1))
            good &= (over <= extra) | (byte == 32) | (byte == 9)
    return (hit if good.all() else hit.where(good)), good


def _convert(chunk: _Chunk, data: bytearray) -> npt.NDArray[np.float64] | None:
    """Every wanted token as a double, by edge index; None if one of them is no number."""
    count = len(chunk.wanted)
    if not count:
        return np.empty(0, np.float64)
    texts = pa.Array.from_buffers(
        pa.string(),
        count,
        [
            pa.py_buffer(np.packbits(chunk.wanted, bitorder="little")),
            pa.py_buffer(chunk.edges.astype(np.int32)),
            pa.py_buffer(data),
        ],
    )
    try:
        numbers = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        return None
    return np.frombuffer(numbers.buffers()[1], np.float64, count)


def _collect(
    values: npt.NDArray[np.float64], hits: list[_TokenMatches], claimed: npt.NDArray[np.bool_]
) -> dict[int, MatchedLines]:
    """Columns of each template. An integer that is printed with a dot, zeros in front or over 14 digits is left out."""
    found: dict[int, MatchedLines] = {}
    for hit in hits:
        t, lines = hit.template, hit.lines
        columns: dict[str, npt.NDArray[np.int64] | npt.NDArray[np.float64]] = {}
        good: npt.NDArray[np.bool_] | None = None
        for f, edge, length in zip(t.template.fields, hit.edges, hit.lengths, strict=True):
            column: npt.NDArray[np.int64] | npt.NDArray[np.float64] = values.take(edge)
            if f.type == "d":
                fine = (column >= _POWERS.take(length, mode="clip")) & (length < 15)
                if not fine.all():
                    good = fine if good is None else good & fine
                with np.errstate(invalid="ignore"):  # those too long are left out below
                    column = column.astype(np.int64)
            if f.name != "_":
                columns[f.name] = column
        if good is not None:
            lines, columns = lines[good], {k: v[good] for k, v in columns.items()}
        if len(lines):
            claimed[lines] = True
            found[t.kind] = MatchedLines(lines, columns)
    return found
