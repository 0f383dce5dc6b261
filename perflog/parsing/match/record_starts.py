"""Finds where records begin inside a line: several processes write into one pipe, glue their lines and tear them.

A write that another one interrupts leaves its head, the line of the other process, and later its tail:

    [rank0]: step: 7  loss: 2.3[rank1]: step: 7  loss: 2.41
    1  grad_norm: 1.2

A record owns only the bytes from its own head to its end. So a line is cut before it is read: at each rank label
and at each opening of a known line. A part that another part follows is *open*: its end may be lost. This module does
not decide ranks: `rank_labels` reads the label at the begin of each part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.formats.families.json_lines import JsonFamily
from perflog.formats.model import Format, Line
from perflog.formats.openings import ENOUGH, opening_of
from perflog.formats.surroundings import GLUED_PREFIX, PREFIX
from perflog.formats.template import TEXTS, Template
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.name_prefixes import ends_in_word
from perflog.parsing.match.figure_counts import masked_digits, number_shape, number_shapes
from perflog.parsing.match.rank_labels import (
    BARE,
    BARE_LABEL,
    CLOSED_LABEL,
    LAUNCHER_LABEL,
    MAX_LABELS,
    PRINTED_LABEL,
    bare_texts,
)
from perflog.parsing.match.records import FormatLine
from perflog.tables.arrow import constant_mask, index_array, mask_of, numbers_of, valid_mask
from perflog.units import unit_of

MAX_LENGTH = 1 << 14
"""Longer lines are not cut: the patterns here are Python's, and their time may grow with the square of a line."""

_FEW = 64
_FRONT = 256  # bytes before an opening that are searched for the prefix of its line
_ENOUGH_OF_CONTEXT = 12  # letters of an opening without values: prose may have its words
_CLOSING = b"|)]}%;"  # no number goes on after them
_IN_NUMBER = b"0123456789.,+-eE"  # a number may go on after them

_LABELS = lazy_pattern(f"(?:{BARE_LABEL})?(?:(?!{BARE_LABEL}){LAUNCHER_LABEL}){{0,{MAX_LABELS}}}".encode())
_CLOSED_LABEL = lazy_pattern(CLOSED_LABEL.encode())
_PRINTED_LABEL = lazy_pattern(PRINTED_LABEL.encode())
_ANY_LABEL = lazy_pattern(f"{CLOSED_LABEL}|{PRINTED_LABEL}".encode())  # of a line that begins with a printed one
_BARE_LABEL_AT_END = lazy_pattern(rb"([0-9]{1,9}): [ \t]*\Z")
_UNIT_AT_END = lazy_pattern(rb"[0-9][ \t]?([A-Za-z%/\x80-\xff]+)\Z")
_LONGEST_UNIT = 32
_PADDED_LABEL = lazy_pattern(rb" *[0-9]+")
_PREFIX = lazy_pattern(PREFIX.encode())
_PREFIX_AT_END = lazy_pattern(f"{GLUED_PREFIX}\\Z".encode())
_OBJECTS = r"\}[ \t]*\{"
_OBJECT_MARK = lazy_pattern(rb"[\"'{}\\]")
_STAMP = r"\x5b?[0-9]{2,4}[-/.][0-9]{2}[-/.][0-9]{2,4}.[0-9]{2}:[0-9]{2}|[DIWEF][0-9]{4} [0-9]{2}:[0-9]{2}"
_BEGINNING = rf"[ \t]*(?:{_STAMP}|[^0-9]{{0,40}}[A-Za-z]{{3}}[^0-9]{{0,40}}[0-9])"
_FIRST = lazy_pattern(_BEGINNING.encode())  # a name and a number, or a date and a time
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MOST_BEGINNINGS = 64  # in prose nearly each line has another one
_FEWEST_LINES = 3  # of a beginning that is no chance


class _Marks(Struct, frozen=True):
    """What shows where records begin in some lines.

    Attributes:
        openings: of known lines.
        extents: known lines as far as another opening in them begins no record.
        begun: a label of srun before a beginning that lines of these strings have, with masked digits.
        label_width: of srun's labels; 0 if it is not known.
    """

    openings: re.Pattern[bytes]
    extents: Sequence[re.Pattern[bytes]]
    begun: re.Pattern[bytes] | None
    label_width: int


class RecordStarts:
    """Finds where records of some lines begin inside other lines."""

    def __init__(self, lines: Iterable[FormatLine], formats: Iterable[Format] = ()) -> None:
        lines = list(lines)
        formats = dict.fromkeys([*(form for form, _ in lines), *formats])
        # A format that was made from a torn log may describe halves of the lines of other formats.
        glued = {line.template: line for form, line in lines if not form.guessed and _may_be_glued(line)}
        letters = {t: ENOUGH if line.read else _ENOUGH_OF_CONTEXT for t, line in glued.items()}
        openings = {t: opening for t, enough in letters.items() if (opening := opening_of(t, enough)) is not None}
        families = [family for form in formats for family in form.families]
        every = [*openings.values(), *(opening for family in families for opening in family.openings)]
        self._templates = list(openings)
        self._wholes = dict.fromkeys([*openings, *(line.template for _, line in lines if line.role == "line")])
        self._literals = {opening.pattern: number_shape(opening.literal) for opening in every}
        extents = {opening.extent: number_shape(opening.literal) for opening in every}
        self._object_heads = {
            head for family in families if isinstance(family, JsonFamily) for head in family.shape.heads
        }
        self._extents = [(lazy_pattern(extent.encode(), re.DOTALL), literal) for extent, literal in extents.items()]

    def cuts(self, texts: pa.Array, label_width: int = 0) -> list[tuple[int, list[int]]]:
        """Return the strings inside which records begin, as their indices, each with the offsets of these records.

        Args:
            texts: The strings, each with its rank labels.
            label_width: The width of srun's labels, with the spaces before it, if all have the same; else 0.
        """
        if not len(texts):
            return []
        are_long = numbers_of(pc.binary_length(texts)) > MAX_LENGTH
        if are_long.any():
            rows = np.flatnonzero(~are_long)
            short_cuts = self.cuts(texts.take(index_array(rows)), label_width)
            return [(int(rows[row]), offsets) for row, offsets in short_cuts]
        shape_of, firsts = number_shapes(texts)
        one_of_each = texts.take(index_array(firsts))
        begun = _labelled_beginnings(one_of_each, np.bincount(shape_of))
        body = number_shape(bytes(one_of_each.buffers()[2] or b""))
        patterns = tuple(sorted(pattern for pattern, literal in self._literals.items() if literal in body))
        openings = _union(patterns)
        extents = [pattern for pattern, literal in self._extents if literal in body]
        several = np.arange(len(firsts))
        if len(firsts) > _FEW:  # to compile patterns takes longer than to look at a few strings
            several = np.flatnonzero(self._may_hold_several(one_of_each, patterns, begun))
        marks = _Marks(openings, extents, begun, label_width)
        cuts_by_first = {row: self._cuts_of(texts[row].as_py(), marks) for row in firsts[several].tolist()}
        is_cut = np.array([bool(cuts_by_first.get(row)) for row in firsts.tolist()], np.bool_)
        cut_rows = np.flatnonzero(is_cut[shape_of]).tolist()
        every = [(row, cuts_by_first.get(row) or self._cuts_of(texts[row].as_py(), marks)) for row in cut_rows]
        return [(row, offsets) for row, offsets in every if offsets]

    def _may_hold_several(self, texts: pa.Array, patterns: tuple[str, ...], begun: re.Pattern[bytes] | None) -> Mask:
        """Return a mask of the lines that may hold a record which does not begin where the line begins."""
        bare = bare_texts(texts)
        several = mask_of(
            pc.match_substring_regex(bare, f"{CLOSED_LABEL}|{_OBJECTS}|^{PRINTED_LABEL}.*{PRINTED_LABEL}")
        ).copy()
        several |= _with_repeated_beginning(bare)
        if begun is not None:
            several |= mask_of(pc.match_substring_regex(masked_digits(bare), begun.pattern.decode("latin-1")))
        if not patterns:
            return several
        openings = "|".join(patterns)
        count = numbers_of(pc.count_substring_regex(bare, openings))
        # After one label of srun, another one before a known line begins a record.
        labelled = mask_of(pc.match_substring_regex(texts, f"^{BARE_LABEL}"))
        marks = f"[0-9]: [ \\t]*(?:{GLUED_PREFIX})?(?:{openings})"
        several |= (count > 1) | (labelled & mask_of(pc.match_substring_regex(texts, f"^{BARE_LABEL}.*{marks}")))
        once = np.flatnonzero(~several & (count == 1))
        if len(once):  # the front is mostly empty or a prefix
            fronts = pc.extract_regex(bare.take(index_array(once)), f"^(?P<front>(?s:.*?))(?:{openings})").field(
                "front"
            )
            for known_front in (f"(?:{GLUED_PREFIX})$", "[0-9]{1,9}: [ \\t]*$"):  # a prefix, a rank label
                fronts = pc.replace_substring_regex(fronts, known_front, "")
            shapes = masked_digits(fronts).dictionary_encode()
            torn = np.array([self._is_torn(front) for front in shapes.dictionary.to_pylist()], np.bool_)
            several[once] = torn[numbers_of(shapes.indices)]
        return several

    def _cuts_of(self, text: bytes, marks: _Marks) -> list[int]:
        """Return the offsets inside a line at which records begin, ascending."""
        first = _end_of_labels(text, 0)
        if _is_object(text[first:]):  # what its strings contain begins no record
            return []
        offsets: list[int] = []
        has_sure = False
        begin = first  # of the record before
        for start, is_sure in self._starts(text, first, marks):
            front = text[begin:start]
            if start <= begin or not (front.strip() or _CLOSED_LABEL.match(text, start)):
                continue  # there is no record before it
            # A sentence goes on with a label, `see [rank3] as well`, unless a known line follows the label.
            after = text[_end_of_labels(text, start) :].lstrip(b" \t")
            goes_on = ends_in_word(front) is not None and marks.openings.match(after) is None
            if (is_sure and not goes_on) or self._is_record(front, text[start:], marks.openings):
                offsets.append(start)
                has_sure |= is_sure
                begin = _end_of_labels(text, start)
        if offsets and not has_sure and self._is_one_record(text[first:], offsets[0] - first, marks.openings):
            return []
        return offsets

    def _starts(self, text: bytes, first: int, marks: _Marks) -> list[tuple[int, bool]]:
        """Return the offsets after `first` where a record may begin, ascending, and whether one does in any case."""
        own = _PRINTED_LABEL.match(text, first)  # a rank that a record prints again is its own
        found = (_ANY_LABEL if own or _PRINTED_LABEL.match(text) else _CLOSED_LABEL).finditer(text, first)
        labels = [label.span() for label in found if own is None or label[0] != own[0] or label.start() == first]
        ends = [end for _, end in labels]
        starts = {self._with_bare_label(text, begin, marks): True for begin, _ in labels if begin not in ends}
        end = first  # of the record that the last opening begins
        openings = [opening.start() for opening in marks.openings.finditer(text, first)]
        for k, opening in enumerate(openings):
            if _is_inside_word(text, opening) and not self._is_torn(text[first:opening]):
                continue
            is_inside = opening < end
            if k + 1 < len(openings):
                matches = (extent.match(text, opening) for extent in marks.extents)
                end = max((match.end() for match in matches if match), default=end)
            if is_inside:
                continue
            low = max(first, opening - _FRONT, *(end for end in ends if end <= opening), 0)
            prefix = _PREFIX_AT_END.search(text[low:opening])
            begin = opening if prefix is None else low + prefix.start()
            start = begin if begin in ends else self._with_bare_label(text, begin, marks)
            is_labelled = _BARE_LABEL_AT_END.search(text, max(begin - _FRONT, 0), begin) is not None
            starts.setdefault(start, is_labelled and BARE.match(text) is not None)
        starts |= dict.fromkeys(_object_starts(text, first), True)
        starts |= {self._with_bare_label(text, begin, marks): True for begin in _repeated_beginnings(text, first)}
        if marks.begun is not None and BARE.match(text):
            after = (match.start(1) for match in marks.begun.finditer(text.translate(_ZEROS), first))
            starts |= {self._with_bare_label(text, begin, marks): True for begin in after}
        return sorted(starts.items())

    def _with_bare_label(self, text: bytes, begin: int, marks: _Marks) -> int:
        """Return where a rank label such as `3: ` before an offset begins; the offset if none does.

        Where the number of a torn record may go on before the label, `11: ` is rank 1 or 11: it is no label then,
        unless the width of labels is known.
        """
        label = _BARE_LABEL_AT_END.search(text, max(begin - _FRONT, 0), begin) if BARE.match(text) else None
        if label is None:
            return begin
        if marks.label_width:
            start = label.end(1) - marks.label_width
            return start if _PADDED_LABEL.fullmatch(text, max(start, 0), label.end(1)) else begin
        front = text[: label.start()]
        is_whole = len(label[1]) == 1 or front[-1:] in _CLOSING or not self._goes_on_with_digit(front)
        return label.start() if is_whole else label.end(1) + 2

    def _goes_on_with_digit(self, text: bytes) -> bool:
        """Return whether a torn record may go on with a digit. A record that begins like no known line may."""
        raw = text[_end_of_labels(text, 0) :]
        if raw[-1:] and raw[-1] in _IN_NUMBER:
            return True
        expected = [miss.expected for t in self._templates if (miss := t.explain(raw)) and miss.position == len(raw)]
        return not expected or any(text[:1] != "`" or text[1:2].isdigit() for text in expected)

    def _is_one_record(self, text: bytes, offset: int, openings: re.Pattern[bytes]) -> bool:
        """Return whether a known line reads a whole string, and no record begins in its string fields."""
        raw = text.rstrip(b" \t")
        for template in self._wholes:
            spans = template.loose_spans(raw) if template.has_literals(raw) else None
            if spans is not None and not any(a < offset < b or openings.search(raw, a, b) for a, b in spans):
                return True
        return False

    def _is_record(self, text: bytes, after: bytes, openings: re.Pattern[bytes]) -> bool:
        """Return whether a string holds a record, whole or torn. The object after the head of one belongs to it."""
        if after.startswith(b"{") and any(h.regex.fullmatch(text.rstrip(b" \t")) for h in self._object_heads):
            return False
        return openings.search(text) is not None or self._is_torn(text)

    def _is_torn(self, text: bytes) -> bool:
        """Return whether a string is the beginning of a known line."""
        raw = text.strip(b" \t")
        if _PREFIX.fullmatch(raw + b" "):
            return False
        misses = (t.explain(text) for t in self._templates if t.prefix and raw and _begins_alike(t, raw))
        return any(miss is not None and miss.position == len(text.rstrip(b" \t")) for miss in misses)


def _is_object(text: bytes) -> bool:
    """Return whether a string is one JSON object."""
    if text[:1] != b"{":
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _begins_alike(template: Template, raw: bytes) -> bool:
    """Return whether a string and the first literal of a template begin with the same bytes."""
    literal = template.prefix.strip(b" \t")
    return bool(literal) and (literal.startswith(raw) or raw.startswith(literal))


def _may_be_glued(line: Line) -> bool:
    """Return whether records of the line may be joined to others: its template alone identifies it.

    Records of a line without numbers that may end with any string are not joined: other lines print its words, and so
    they do the words of an indented heading.
    """
    fields = line.template.fields
    if not fields and line.template.literals[0][:1].isspace():
        return False
    ends = bool(line.template.literals[-1].strip()) or not any(f.type in TEXTS for f in fields[-1:])
    has_number = line.role == "line" and any(f.numeric for f in fields)
    is_alone = not line.under_header and not line.template.has_appendix and not line.template.has_prefix
    return is_alone and line.role in ("line", "context") and (ends or has_number)


@lru_cache(64)
def _union(patterns: tuple[str, ...]) -> re.Pattern[bytes]:
    """Return the pattern of any of some openings. A number does not begin inside another one."""
    each = (rf"(?<![0-9.,+\-]){p}" if p.startswith("[+-]?") else p for p in patterns)
    return re.compile(("|".join(each) or "(?!)").encode(), re.DOTALL)


def _is_inside_word(text: bytes, offset: int) -> bool:
    """Return whether a name goes on at an offset: `step` in `global_step`, `timing/step` or `train.step`.

    The unit of a number ends with the record that prints it: `rank` in `75.2 msrank 3` is no part of a name.
    """
    unit = _UNIT_AT_END.search(text, max(offset - _LONGEST_UNIT, 0), offset)
    if unit is not None and unit_of(unit[1].decode("utf-8", "replace"))[0]:
        return False
    front = text[max(offset - 2, 0) : offset].replace(b"_", b"a")
    is_in_path = front[-1:] in (b".", b"/", b"-") and front[:1].isalpha() and len(front) > 1
    return (front[-1:].isalpha() or is_in_path) and text[offset : offset + 1].isalpha()


def _end_of_labels(text: bytes, begin: int) -> int:
    """Return where the rank labels at an offset end."""
    return _LABELS.match(text, begin).end()  # type: ignore[union-attr]  # the pattern matches nothing, too


def _object_starts(text: bytes, first: int) -> Iterator[int]:
    """Yield the offsets at which an object follows another one: `{...} {...}`."""
    if text[first : first + 1] != b"{" or re.search(_OBJECTS.encode(), text) is None:
        return
    depth, quote, escaped, after = 0, b"", -1, False
    for mark in _OBJECT_MARK.finditer(text, first):
        if mark.start() == escaped:
            continue
        if mark[0] == b"\\":
            escaped = mark.end()
        elif quote:
            quote = b"" if mark[0] == quote else quote
        elif mark[0] in (b'"', b"'"):
            quote = mark[0]
        elif mark[0] == b"{":
            if not depth and after:
                yield mark.start()
            depth += 1
        else:
            depth, after = depth - 1, True


def _with_repeated_beginning(texts: pa.Array) -> Mask:
    """Return a mask of the lines in which the beginning, up to the first number, comes again."""
    mask = np.zeros(len(texts), np.bool_)
    masked = masked_digits(texts)
    beginnings = pc.extract_regex(masked, f"^(?P<beginning>{_BEGINNING})").field("beginning").dictionary_encode()
    if 0 < len(beginnings.dictionary) <= _MOST_BEGINNINGS:
        indices = np.where(valid_mask(beginnings.indices), numbers_of(beginnings.indices), -1)
        for index, beginning in enumerate(beginnings.dictionary.to_pylist()):
            if not beginning:  # the lines without one
                continue
            rows = np.flatnonzero(indices == index)
            mask[rows] = numbers_of(pc.count_substring(masked.take(index_array(rows)), beginning.strip(b" \t"))) > 1
    return mask


def _labelled_beginnings(texts: pa.Array, counts: Ints) -> re.Pattern[bytes] | None:
    """Return the pattern of a label of srun before a beginning, up to the first number, that several lines have.

    Args:
        texts: Texts with their labels.
        counts: How many lines each of them represents.
    """
    rows = np.flatnonzero(constant_mask(texts, f"^{BARE_LABEL}"))
    if not len(rows):
        return None
    masked = masked_digits(bare_texts(texts.take(index_array(rows))))
    found = pc.extract_regex(masked, f"^(?P<beginning>{_BEGINNING})").field("beginning").dictionary_encode()
    known = valid_mask(found.indices)
    lines = np.bincount(numbers_of(found.indices)[known], counts[rows][known], len(found.dictionary))
    often = np.argsort(-lines, kind="stable")[:_MOST_BEGINNINGS]
    words = found.dictionary.take(index_array(often[lines[often] >= _FEWEST_LINES])).to_pylist()
    each = "|".join(re.escape(word.strip(b" \t").decode("latin-1")) for word in words if word)
    return re.compile(f"0: [ \\t]*({each})".encode("latin-1")) if each else None


def _repeated_beginnings(text: bytes, first: int) -> Iterator[int]:
    """Yield the offsets where the beginning of a line comes again inside it: `step 7 loss 2.3step 8 loss 2.2`.

    Before it are no spaces, or several, or a rank label: copies of a log lose the carriage returns between the
    states of one line. One space may separate the items of a list.
    """
    masked = text[first:].translate(_ZEROS)
    begin = _FIRST.match(masked)
    if begin is None:
        return
    beginning = begin[0].strip(b" \t")
    offset = masked.find(beginning, begin.end())
    while offset >= 0:
        front = text[: first + offset]
        is_glued = front[-1:] not in b" \t" and not _is_inside_word(text, first + offset)
        if is_glued or front[-2:].isspace() or _BARE_LABEL_AT_END.search(front):
            blanks = min(len(begin[0]) - len(begin[0].lstrip(b" \t")), len(front) - len(front.rstrip(b" \t")))
            yield first + offset - blanks
        offset = masked.find(beginning, offset + len(beginning))


def ends_whole(template: Template, texts: pa.Array) -> Mask:
    """Return which strings are whole records of a template, although another record may have torn off their ends.

    A number or a string at the end may lack its last characters. It is whole if it has as many decimals as the program
    prints.
    """
    last = template.fields[-1] if template.fields else None
    end = template.literals[-1].strip()
    if last is not None and last.numeric and last.type != "d" and end == ".":  # of the sentence, or of the number
        return mask_of(pc.match_substring_regex(texts, r"\.[0-9]+([eE][+-]?[0-9]+)?\.[ \t]*$"))
    if last is None or end:
        return np.ones(len(texts), np.bool_)
    if last.type in TEXTS:  # nothing is lost of a dropped string; a number before it may be torn
        ends_in_number = mask_of(pc.match_substring_regex(texts, "[0-9.]$"))
        return ~ends_in_number if last.is_dropped else np.zeros(len(texts), np.bool_)
    decimals = re.search(r"\.([1-9]\d*)[feE]$", last.spec)
    power = r"[eE][+-][0-9]{2}" if last.type in "eE" else ""
    if decimals is None:
        return np.zeros(len(texts), np.bool_)
    return mask_of(pc.match_substring_regex(texts, rf"\.[0-9]{{{decimals[1]}}}{power}$"))
