"""The fastest path: many lines of one layout, read as the rows of a byte matrix.

Two lines have the same layout if they differ in digits only. Where a template's regular expression reads one line, it
reads all lines of its layout, field for field, because it tells no digit from another. So one line of many with the
same head and length is read with the regular expression; the others are compared with it, eight bytes at a time, and
their numbers are made of digits at fixed columns: an integer below 10^15, divided by a power of ten, which rounds as
reading the text does. What fits no layout (rare ones, long numbers, signs, exponents) is left to `columnar`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perflog.parsing.input.chunks import SLACK
from perflog.parsing.match.numeric import Ints, MatchedLines, NumericMatcher, NumericTemplate
from perflog.parsing.match.records import strings

LEAST = 256
"""Lines from which a layout is worth its numpy calls."""

_LONGEST = 255  # bytes of a line; longer ones have numbers of many lengths, so their layouts are rare
_KEPT = 4096  # layouts remembered
_MOST_DIGITS = 14  # of a number: its digits are an integer that a double holds, and an integer of type d
_WORD = 8
_NINES = 0x7F - 9  # what makes a byte over 9 reach its highest bit
_HIGH = np.uint64(0x8080808080808080)
_TEN, _BYTE, _PAIR, _HALF = (np.uint64(x) for x in (10, 8, 16, 32))
_FOURTHS = np.uint64(0x000000FF000000FF)
_EVEN, _ODD = np.uint64(100 + (1000000 << 32)), np.uint64(1 + (10000 << 32))  # weights of pairs of digits
Words = npt.NDArray[np.uint64]


def _word(text: bytes | bytearray) -> np.uint64:
    """Eight bytes at most as they lie in memory, the first one lowest."""
    return np.uint64(int.from_bytes(text, "little"))


@dataclass(frozen=True)
class _Piece:
    """Up to eight bytes of a number at a column, with or without the point, as masks that leave its digits."""

    column: int
    shift: np.uint64  # moves the last byte of the piece to the top of the word, and out of it what is behind
    before: np.uint64  # the digits before the point: they move up by one byte, into its place
    behind: np.uint64  # the others

    @classmethod
    def of(cls, text: bytes, column: int) -> _Piece:
        point = text.find(b".")
        masks = bytes(_WORD - len(text)) + b"\x0f" * len(text)
        at = _WORD - len(text) + point if point >= 0 else 0
        gap = at + (point >= 0)
        return cls(column, np.uint64(_WORD * (_WORD - len(text))), _word(masks[:at]), _word(bytes(gap) + masks[gap:]))

    def value(self, rows: npt.NDArray[np.uint8]) -> Words:
        """The digits of each row as an integer."""
        shape, steps = (len(rows),), rows.strides[:1]
        word = np.ndarray(shape, f"V{_WORD}", rows, offset=self.column, strides=steps).copy().view("<u8")
        word <<= self.shift
        before = word & self.before
        before <<= _BYTE
        word &= self.behind
        word |= before
        after = word >> _BYTE
        word *= _TEN
        word += after  # the first, third, ... byte is now the value of two digits
        odd = word >> _PAIR
        odd &= _FOURTHS
        odd *= _ODD
        word &= _FOURTHS
        word *= _EVEN
        word += odd
        word >>= _HALF
        return word


@dataclass(frozen=True)
class _Number:
    """A field at fixed columns: the value of its first piece times `factor` plus that of its second, over `scale`."""

    name: str
    whole: bool
    pieces: tuple[_Piece, ...]
    factor: np.uint64
    scale: float

    @classmethod
    def of(cls, name: str, kind: str, text: bytes, column: int) -> _Number:
        cut = max(len(text) - _WORD, 0)
        parts = [_Piece.of(text[:cut], column)] if cut else []
        parts.append(_Piece.of(text[cut:], column + cut))
        factor = 10 ** sum(byte != 46 for byte in text[cut:])
        scale = 10.0 ** (len(text) - 1 - text.find(b".")) if b"." in text else 1.0
        return cls(name, kind == "d", tuple(parts), np.uint64(factor), scale)

    def values(self, rows: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        mantissa = self.pieces[0].value(rows)
        if len(self.pieces) > 1:
            mantissa *= self.factor
            mantissa += self.pieces[1].value(rows)
        if self.whole:
            return mantissa.view(np.int64)
        numbers = mantissa.astype(np.float64)
        return numbers if self.scale == 1.0 else numbers / self.scale


@dataclass(frozen=True, eq=False)
class _Layout:
    """A line of a template with its digits left open. `words` are (what a word is; None or what is added to find bytes
    that are no digits; None or which of its bytes belong to the line).
    """

    kind: int
    words: tuple[tuple[np.uint64, np.uint64 | None, np.uint64 | None], ...]
    numbers: tuple[_Number, ...]
    leading: tuple[int, ...]  # columns where no zero may stand: an integer's first digit of several

    @classmethod
    def of(cls, t: NumericTemplate, line: bytes, spans: Sequence[tuple[int, int]]) -> _Layout:
        shape, room, leading = bytearray(line), bytearray(b"\x7f" * len(line)), []
        for f, (begin, end) in zip(t.template.fields, spans, strict=True):
            for column in range(begin, end):
                if line[column] != 46:
                    shape[column], room[column] = 48, _NINES
            if f.type == "d" and end - begin > 1:
                leading.append(begin)
        words = []
        for at in range(0, len(line), _WORD):
            inside = bytes(shape[at : at + _WORD])
            add = _word(room[at : at + _WORD]) if _NINES in room[at : at + _WORD] else None
            mask = _word(b"\xff" * len(inside)) if len(inside) < _WORD else None
            words.append((_word(inside), add, mask))
        fields = zip(t.template.fields, spans, strict=True)
        numbers = [_Number.of(f.name, f.type, line[b:e], b) for f, (b, e) in fields if f.name != "_"]
        return cls(t.kind, tuple(words), tuple(numbers), tuple(leading))

    def found(self, lines: Ints, rows: npt.NDArray[np.uint8]) -> MatchedLines:
        """The records of lines that have this layout."""
        return MatchedLines(lines, {n.name: n.values(rows) for n in self.numbers})

    def fits(self, rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
        """Which rows have this layout."""
        other, odd = np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64)
        every = rows.view("<u8")
        for index, (shape, add, mask) in enumerate(self.words):
            word = every[:, index] ^ shape  # a digit's value, or 0
            if mask is not None:
                word &= mask
            if add is None:
                other |= word
            else:  # a byte may carry into the next one only if its own highest bit says already that it is none
                odd |= word
                word += add
                odd |= word
        odd &= _HIGH
        other |= odd
        good: npt.NDArray[np.bool_] = other == 0
        for column in self.leading:
            good &= rows[:, column] != 48
        return good


class FixedWidthMatcher:
    """Numeric templates, ready to be matched: by layout where many lines have the same one, else by `columnar`."""

    def __init__(self, templates: Sequence[NumericTemplate]) -> None:
        self._columnar = NumericMatcher(templates)
        self._order = {t.kind: i for i, t in enumerate(self._columnar.ordered())}
        self._exact = {t.kind: _exact(t) for t in templates}
        self._known: dict[tuple[Any, ...], _Layout] = {}

    def match(
        self, data: bytearray, size: int, starts: Ints, ends: Ints
    ) -> tuple[list[tuple[int, MatchedLines]], npt.NDArray[np.bool_]]:
        """Records of the chunk with their kinds, those of a kind in several parts; and which lines were claimed.

        `data[size:size+SLACK]` must be readable. `starts` and `ends` are the lines' byte offsets.
        """
        found = self._by_layout(data, size, starts, ends)
        if not found:
            rest, claimed = self._columnar.match(data, size, starts, ends)
            return list(rest.items()), claimed
        claimed = np.zeros(len(starts), np.bool_)
        for _, part in found:
            claimed[part.lines] = True
        left = np.flatnonzero(~claimed)
        if len(left):
            rest, also = self._columnar.match(*_compact(data, starts[left], ends[left]))
            found += [(kind, MatchedLines(left[part.lines], part.columns)) for kind, part in rest.items()]
            claimed[left[also]] = True
        found.sort(key=lambda part: self._order[part[0]])  # the order of rows is not to depend on the layouts met
        return found, claimed

    def _by_layout(self, data: bytearray, size: int, starts: Ints, ends: Ints) -> list[tuple[int, MatchedLines]]:
        """What lines read that share head and length with many."""
        found: list[tuple[int, MatchedLines]] = []
        if len(starts) < LEAST:
            return found
        length = ends - starts
        head = self._columnar.heads(data, starts)
        key = head.astype(np.uint16)
        key <<= 8
        key |= length.astype(np.uint8)
        key[(head == 0) | (length > _LONGEST)] = 0
        order = np.argsort(key, kind="stable")
        sizes = np.bincount(key)
        stops = np.cumsum(sizes)
        for index in (np.flatnonzero(sizes[1:] >= LEAST) + 1).tolist():
            lines = order[stops[index] - sizes[index] : stops[index]]
            found += self._read(data, size, starts, lines, index & _LONGEST)
        return found

    def _read(
        self, data: bytearray, size: int, starts: Ints, lines: Ints, length: int
    ) -> Iterator[tuple[int, MatchedLines]]:
        """Read lines of one length, layout after layout, as long as each is that of many."""
        width = (length + 2 * _WORD - 1) // _WORD * _WORD  # a word more: a piece at the end is read whole
        cells = np.ndarray((size + SLACK - width + 1,), f"V{width}", data, strides=(1,))[starts.take(lines)]
        while len(lines) >= LEAST:
            layout = self._layout(cells[0].tobytes()[:length])
            if layout is None:
                return
            good = layout.fits(_matrix(cells))
            if good.all():
                yield layout.kind, layout.found(lines, _matrix(cells))
                return
            mine = lines[good]
            if len(mine):
                yield layout.kind, layout.found(mine, _matrix(cells[good]))
            if len(mine) * 4 < LEAST:
                return
            lines, cells = lines[~good], cells[~good]

    def _layout(self, line: bytes) -> _Layout | None:
        """The layout of a line, of the first template that reads it; None if it is not of plain, short numbers."""
        text = line.rstrip(b" \t")
        t = next((t for t in self._columnar.candidates(line) if t.template.regex.fullmatch(text)), None)
        match = t and self._exact[t.kind].fullmatch(line)
        if t is None or not match:
            return None
        numbers = match.groups()
        if any(len(x) > _MOST_DIGITS + (b"." in x) for x in numbers):
            return None
        key = t.kind, len(line) - len(text), *(len(x) << 8 | x.find(b".") & 255 for x in numbers)
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = _Layout.of(t, line, match.regs[1:])
        return self._known[key]


def _exact(t: NumericTemplate) -> re.Pattern[bytes]:
    """What a line of a layout is: the template with digits, and perhaps a point among them, for each field."""
    number = {True: rb"([0-9]+)", False: rb"([0-9]+(?:\.[0-9]+)?)"}
    fields = [number[f.type == "d"] for f in t.template.fields]
    literals = [re.escape(x) for x in t.literals]
    return re.compile(b"".join(x for pair in zip(literals, [*fields, b"[ \t]{0,63}"], strict=True) for x in pair))


def _matrix(cells: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return cells.view(np.uint8).reshape(len(cells), -1)


def _compact(data: bytearray, starts: Ints, ends: Ints) -> tuple[bytearray, int, Ints, Ints]:
    """Only these lines, as `match` takes a chunk."""
    texts = strings(data, starts, ends + 1)
    _, offsets, body = texts.buffers()
    edges = np.frombuffer(offsets, np.int32, len(texts) + 1).astype(np.int64)
    size = int(edges[-1])
    return bytearray(memoryview(body)[:size]) + bytes(SLACK), size, edges[:-1], edges[1:] - 1
