"""Reads many lines of the same layout as the rows of a byte matrix: the fastest path.

Two lines have the same *layout* if they differ only in digits. A template's regular expression does not distinguish
digits: if it reads one line, it reads all lines of that layout, with the same fields at the same columns. So of many
lines with the same begin and length one is read with the regular expression. The others are compared with it, eight
bytes (a word) at a time, and their numbers are computed from the digits at fixed columns.

A worked example: the template `AB, {x:.2f}, {n:d}` reads the line `AB, 1.25, 37`. In its layout each digit is a `0`;
the line has 12 bytes, hence two words:

    line         A    B    ,    _    1    .    2    5     ,    _    3    7     (_ is a space)
    layout       A    B    ,    _    0    .    0    0     ,    _    0    0
    XOR          0    0    0    0    1    0    2    5     0    0    3    7     literals: 0; digits: their value
    headroom   127  127  127  127  118  127  118  118   127  127  118  118
    mask                                                255  255  255  255    and 0 for the bytes after the line

*Comparing.* A row has the layout if its XOR is 0 at literals and at most 9 at digits. Both are tested for all eight
bytes of a word at once: the headroom is added, which carries a byte into its highest bit exactly if it is too large
(0 + 127 = 127, but 1 + 127 = 128; 9 + 118 = 127, but 10 + 118 = 128). Bytes with the highest bit set before are wrong
too; only such bytes can carry into their neighbour.

*Numbers.* A mask keeps the low four bits of each digit, which are its value. The digits before the dot move up by one
byte, over the dot: `1.25` becomes 1 2 5 at the end of a word, with zeros ahead. Then neighbours are added in three
steps instead of eight, as eight digits d0 ... d7 show:

    d0 d1 d2 d3 d4 d5 d6 d7   -> word * 10 + (word >> 8): every second byte is a pair 10 * d0 + d1, ...
    p0    p1    p2    p3      -> one multiplication adds p0 * 1000000 + p2 * 100, another p1 * 10000 + p3
    the number                   is in the upper half of the sum

The result is an integer below 10^15, divided by a power of ten: it rounds as reading the string does. An exponent is
another integer: of a power of ten up to 10^22, which a double holds, both ways. Lines without a common layout, and long
or signed numbers, are left to `numeric`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Floats, Ints, Mask
from perflog.formats.template import Field, Template
from perflog.parsing.input.chunks import SLACK
from perflog.parsing.match.numeric import MAX_TRAILING_SPACES, MatchedLines, NumericMatcher, NumericTemplate
from perflog.parsing.match.records import strings

MIN_LINES = 256
"""Lines of a layout below which it is not worth its numpy calls."""

_MAX_LENGTH = 1023  # bytes of a line
_BAND = 256  # lengths of lines that one byte distinguishes
_MAX_LAYOUTS = 4096  # kept; then all are forgotten
_MAX_DIGITS = 14  # of a number: its digits are an integer that a double holds, and an integer of type d
_WORD = 8
_LITERAL_HEADROOM = 0x7F
_DIGIT_HEADROOM = 0x7F - 9
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_POWERS = np.array([10.0**power for power in range(23)])  # the powers of ten that a double holds
_HIGH_BITS = np.uint64(0x8080808080808080)
_TEN, _BYTE, _PAIR, _HALF = (np.uint64(x) for x in (10, 8, 16, 32))
_EVERY_FOURTH = np.uint64(0x000000FF000000FF)
_EVEN_PAIRS, _ODD_PAIRS = np.uint64(100 + (1000000 << 32)), np.uint64(1 + (10000 << 32))  # their weights

Rows = npt.NDArray[np.uint8]
"""Lines of one length, a line a row."""


def _word(text: bytes | bytearray) -> np.uint64:
    """Up to eight bytes as a word: the first byte is the lowest, as in memory."""
    return np.uint64(int.from_bytes(text, "little"))


class _Digits(Struct, frozen=True):
    """Up to eight bytes of a number, perhaps with the dot. The masks keep the digits' values and drop the dot."""

    column: int
    shift: np.uint64  # moves the last byte to the top of the word, and the bytes after the number out of it
    before_dot: np.uint64
    after_dot: np.uint64  # all digits where there is no dot

    @classmethod
    def of(cls, text: bytes, column: int) -> _Digits:
        dot = text.find(b".")
        padding = _WORD - len(text)
        values = bytes(padding) + b"\x0f" * len(text)  # `0` to `9` are 0x30 to 0x39
        end = padding + dot if dot >= 0 else 0
        begin = end + (dot >= 0)
        return cls(column, np.uint64(_WORD * padding), _word(values[:end]), _word(bytes(begin) + values[begin:]))

    def integers(self, rows: Rows) -> npt.NDArray[np.uint64]:
        """Return the digits of each row as an integer; the module's docstring shows how."""
        shape, steps = (len(rows),), rows.strides[:1]
        word = np.ndarray(shape, f"V{_WORD}", rows, offset=self.column, strides=steps).copy().view("<u8")
        word <<= self.shift
        before_dot = word & self.before_dot
        before_dot <<= _BYTE
        word &= self.after_dot
        word |= before_dot
        shifted = word >> _BYTE
        word *= _TEN
        word += shifted
        odd_pairs = word >> _PAIR
        odd_pairs &= _EVERY_FOURTH
        odd_pairs *= _ODD_PAIRS
        word &= _EVERY_FOURTH
        word *= _EVEN_PAIRS
        word += odd_pairs
        word >>= _HALF
        return word


class _Number(Struct, frozen=True):
    """A field at fixed columns: one or two groups of digits, (first * factor + second) / 10^decimals.

    `exponent`: its digits, and `sign`, 1 or -1; None where there is none.
    """

    name: str
    is_integer: bool
    groups: tuple[_Digits, ...]
    factor: np.uint64
    decimals: int
    exponent: _Digits | None
    sign: int

    @classmethod
    def of(cls, name: str, type_: str, text: bytes, column: int) -> _Number:
        text, _, power = text.lower().partition(b"e")
        exponent = _Digits.of(power[1:], column + len(text) + 2) if power else None
        cut = max(len(text) - _WORD, 0)
        groups = [_Digits.of(text[:cut], column)] if cut else []
        groups.append(_Digits.of(text[cut:], column + cut))
        factor = 10 ** sum(byte != 46 for byte in text[cut:])
        decimals = len(text) - 1 - text.find(b".") if b"." in text else 0
        sign = -1 if power[:1] == b"-" else 1
        return cls(name, type_ == "d", tuple(groups), np.uint64(factor), decimals, exponent, sign)

    def values(self, rows: Rows) -> npt.NDArray[Any]:
        digits = self.groups[0].integers(rows)
        if len(self.groups) > 1:
            digits *= self.factor
            digits += self.groups[1].integers(rows)
        if self.is_integer:
            return digits.view(np.int64)
        if self.exponent is not None:
            return _scaled(digits, self.sign * self.exponent.integers(rows).astype(np.int64) - self.decimals)
        numbers = digits.astype(np.float64)
        return numbers / _POWERS[self.decimals] if self.decimals else numbers


def _scaled(integers: npt.NDArray[np.uint64], powers: Ints) -> Floats:
    """Return integers below 10^15 times powers of ten, as reading the numbers would round them."""
    exact, sizes = integers.astype(np.float64), np.abs(powers)
    factors = _POWERS[np.minimum(sizes, len(_POWERS) - 1)]
    numbers: Floats = np.where(powers < 0, exact / factors, exact * factors)
    for row in np.flatnonzero(sizes >= len(_POWERS)).tolist():
        numbers[row] = float(f"{integers[row]}e{powers[row]}")
    return numbers


class _ExpectedWord(Struct, frozen=True):
    """Eight bytes of a layout, digits as `0`; the headroom of each byte, None where all are of literals; and the mask
    of the bytes that belong to the line, None where all do.
    """

    text: np.uint64
    headroom: np.uint64 | None
    mask: np.uint64 | None


class _Layout(Struct, frozen=True, eq=False):
    """A line of a template with its digits left open."""

    kind: int
    words: tuple[_ExpectedWord, ...]
    numbers: tuple[_Number, ...]
    no_zero: tuple[int, ...]  # columns without a zero: the first digit of an integer of several

    @classmethod
    def of(cls, t: NumericTemplate, line: bytes, spans: Sequence[tuple[int, int]]) -> _Layout:
        """The layout of a line with fields at these spans."""
        text, headroom, no_zero = bytearray(line), bytearray([_LITERAL_HEADROOM] * len(line)), []
        for f, (begin, end) in zip(t.template.fields, spans, strict=True):
            for column in range(begin, end):
                if 48 <= line[column] < 58:
                    text[column], headroom[column] = 48, _DIGIT_HEADROOM
            if f.type == "d" and end - begin > 1:
                no_zero.append(begin)
        words = []
        for begin in range(0, len(line), _WORD):
            part, room = bytes(text[begin : begin + _WORD]), headroom[begin : begin + _WORD]
            mask = _word(b"\xff" * len(part)) if len(part) < _WORD else None
            words.append(_ExpectedWord(_word(part), _word(room) if _DIGIT_HEADROOM in room else None, mask))
        fields = zip(t.template.fields, spans, strict=True)
        numbers = [_Number.of(f.name, f.type, line[begin:end], begin) for f, (begin, end) in fields if not f.is_dropped]
        return cls(t.kind, tuple(words), tuple(numbers), tuple(no_zero))

    def read(self, lines: Ints, rows: Rows) -> MatchedLines:
        """Return the records of lines that have this layout."""
        return MatchedLines(lines, {number.name: number.values(rows) for number in self.numbers})

    def fits(self, rows: Rows) -> Mask:
        """Return which rows have this layout; the module's docstring shows how."""
        wrong, high_bits = np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.uint64)
        words = rows.view("<u8")
        for index, expected in enumerate(self.words):
            word = words[:, index] ^ expected.text
            if expected.mask is not None:
                word &= expected.mask
            if expected.headroom is None:
                wrong |= word
            else:
                high_bits |= word
                word += expected.headroom
                high_bits |= word
        high_bits &= _HIGH_BITS
        wrong |= high_bits
        good: Mask = wrong == 0
        for column in self.no_zero:
            good &= rows[:, column] != 48
        return good


class FixedWidthMatcher:
    """Matches numeric templates: by layout where many lines have the same one, else with a NumericMatcher."""

    def __init__(self, templates: Sequence[NumericTemplate]) -> None:
        self._numeric = NumericMatcher(templates)
        self._order = {t.kind: i for i, t in enumerate(self._numeric.ordered())}
        self._layouts: dict[tuple[int, bytes], _Layout] = {}

    def match(
        self, data: bytearray, size: int, starts: Ints, ends: Ints
    ) -> tuple[list[tuple[int, MatchedLines]], Mask]:
        """Read the lines of a chunk.

        Args:
            data: the chunk; `data[size:size + SLACK]` must be readable.
            size: its bytes.
            starts: byte offset at which each line begins.
            ends: byte offset at which each line ends.

        Returns:
            The lines read, each part with its template kind, which may have several parts; and a mask of these lines.
        """
        parts = self._match_layouts(data, size, starts, ends)
        if not parts:
            read, is_read = self._numeric.match(data, size, starts, ends)
            return list(read.items()), is_read
        is_read = np.zeros(len(starts), np.bool_)
        for _, part in parts:
            is_read[part.lines] = True
        left = np.flatnonzero(~is_read)
        if len(left):
            read, is_read_too = self._numeric.match(*_compact(data, starts[left], ends[left]))
            parts += [(kind, MatchedLines(left[part.lines], part.columns)) for kind, part in read.items()]
            is_read[left[is_read_too]] = True
        parts.sort(key=lambda part: self._order[part[0]])  # the order of rows must not depend on the layouts of a chunk
        return parts, is_read

    def _match_layouts(self, data: bytearray, size: int, starts: Ints, ends: Ints) -> list[tuple[int, MatchedLines]]:
        """Read the lines that share begin and length with many others."""
        parts: list[tuple[int, MatchedLines]] = []
        if len(starts) < MIN_LINES:
            return parts
        start_class = self._numeric.start_classes(data, starts)
        for shortest in range(0, _MAX_LENGTH, _BAND):
            longer = ends - starts - shortest
            counts = (start_class > 0) & (longer >= 0) & (longer < _BAND)
            if np.count_nonzero(counts) < MIN_LINES:
                continue
            key = start_class.astype(np.uint16)  # two bytes: numpy sorts them by radix
            key <<= 8
            key |= longer.astype(np.uint8)
            key[~counts] = 0
            order = np.argsort(key, kind="stable")
            sizes = np.bincount(key)
            stops = np.cumsum(sizes)
            for index in (np.flatnonzero(sizes[1:] >= MIN_LINES) + 1).tolist():
                lines = order[stops[index] - sizes[index] : stops[index]]
                parts += self._match_length(data, size, starts, lines, shortest + (index & 0xFF))
        return parts

    def _match_length(
        self, data: bytearray, size: int, starts: Ints, lines: Ints, length: int
    ) -> Iterator[tuple[int, MatchedLines]]:
        """Read lines of one length, layout after layout, as long as many lines have each layout."""
        width = (length + 2 * _WORD - 1) // _WORD * _WORD  # a word more: digits at the end are read as a whole word
        cells = np.ndarray((size + SLACK - width + 1,), f"V{width}", data, strides=(1,))[starts.take(lines)]
        while len(lines) >= MIN_LINES:
            layout = self._layout_of(cells[0].tobytes()[:length])
            if layout is None:
                return
            good = layout.fits(_as_rows(cells))
            if good.all():
                yield layout.kind, layout.read(lines, _as_rows(cells))
                return
            same = lines[good]
            if len(same):
                yield layout.kind, layout.read(same, _as_rows(cells[good]))
            if len(same) * 4 < MIN_LINES:
                return
            lines, cells = lines[~good], cells[~good]

    def _layout_of(self, line: bytes) -> _Layout | None:
        """The layout of a line, by the first template that reads it; None if its numbers are signed or long."""
        text = line.rstrip(b" \t")
        t = next((t for t in self._numeric.candidates(line) if t.template.regex.fullmatch(text)), None)
        match = t and _unsigned_pattern(t.template, t.literals).fullmatch(line)
        if t is None or not match:
            return None
        mantissas = [x.lower().partition(b"e")[0] for x in match.groups()]
        if any(len(x) > _MAX_DIGITS + (b"." in x) for x in mantissas):
            return None
        key = t.kind, line.translate(_AS_ZEROS)
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            layout = self._layouts[key] = _Layout.of(t, line, match.regs[1:])
        return layout


@lru_cache(1 << 10)
def _unsigned_pattern(template: Template, literals: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """The template with digits for each field, perhaps a dot among them, an exponent, and spaces beside it."""
    endings = [*map(_unsigned_field, template.fields), b"[ \t]{0,%d}" % MAX_TRAILING_SPACES]
    pieces = zip(map(re.escape, literals), endings, strict=True)
    return re.compile(b"".join(x for pair in pieces for x in pair))


def _unsigned_field(f: Field) -> bytes:
    number = rb"([0-9]+)" if f.type == "d" else rb"([0-9]+(?:\.[0-9]+)?(?:[eE][+-][0-9]{1,3})?)"
    left = b" *" if f.width and f.align != "<" else b""
    right = b" *" if f.width and f.align in ("<", "^") else b""
    return left + number + right


def _as_rows(cells: npt.NDArray[Any]) -> Rows:
    return cells.view(np.uint8).reshape(len(cells), -1)


def _compact(data: bytearray, starts: Ints, ends: Ints) -> tuple[bytearray, int, Ints, Ints]:
    """These lines alone, as the arguments of `match`."""
    texts = strings(data, starts, ends + 1)
    _, offsets, body = texts.buffers()
    edges = np.frombuffer(offsets, np.int32, len(texts) + 1).astype(np.int64)
    size = int(edges[-1])
    return bytearray(memoryview(body)[:size]) + bytes(SLACK), size, edges[:-1], edges[1:] - 1
