"""Discovers templates: from the unread lines of a log, families of the formats make new Lines.

The result must depend on the log alone, not on its chunks. So lines are tried in log order, and new Lines are appended
to the others: they do not change how other lines are read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from perflog.arrays import Ints, Mask
from perflog.formats.families.header_tables import HeaderTable
from perflog.formats.families.meters import MeterFamily
from perflog.formats.model import Family, Format, Line
from perflog.formats.object_shapes import ObjectShapes
from perflog.formats.surroundings import prefix_ends
from perflog.formats.template import Template, unnamed
from perflog.formats.torn_shapes import is_torn_shape
from perflog.lazy_patterns import kept_pattern, lazy_pattern
from perflog.parsing.input.chunks import Chunk
from perflog.parsing.match.figure_counts import number_shape
from perflog.parsing.match.partial_lines import PartialLines
from perflog.parsing.match.prefilter import held_literals
from perflog.parsing.match.rank_labels import (
    ANY_LABELS,
    bare_texts,
    strip_rank_labels,
    without_each_label,
    without_printed_label,
)
from perflog.parsing.match.records import Batch, FormatLine
from perflog.parsing.match.scanner import Scanner
from perflog.parsing.match.spliced_lines import is_usual
from perflog.tables.arrow import FEW_BYTES, LONG_STRING, index_array, literal_mask, matching_mask
from perflog.tables.row_order import PART_MASK

MAX_LINES = 256
"""Lines of one family: in a log with more, the keys are no names."""

MANY_LINES = 64
"""Lines of one family that expressions read: further ones are read by the shape of their object, if they hold one."""

MAX_OBJECTS = 1 << 12
"""Shapes of objects of one family."""

MAX_PATTERNS = 1 << 18
"""Bytes of the patterns of one family: they are compiled again for each chunk."""

MAX_LENGTH = 1 << 14
"""Lines of at least this many bytes are not tried.

The patterns of families are Python's: their time may grow with the square of the length of a line.
"""


MOST_UNREAD_SHAPES = 2048
"""Shapes of unread lines of a log that are tried at their first line. Prose has a shape in nearly every line, and no
family reads it; a program that prints figures repeats its shapes. With more, a shape is tried at its second line."""

_MOST_TORN = 2  # lines of one torn shape: each tear makes another one
_MOST_HELD = 1 << 16  # shapes that are kept
_ENOUGH_OF_SHAPE = 8  # strings of one shape that show nothing: the others show nothing either
_BLOCK = 64  # strings tried before all others are asked which of them the new Lines read
Families = Sequence[tuple[Format, Family]]
_Identity = tuple[str, str, str]


def families_of(formats: Iterable[Format]) -> list[tuple[Format, Family]]:
    """Return all families of the formats, each with its format; last the lines that are known only in part.

    Families for the first line of a log are left out.
    """
    formats = list(formats)
    every = [(form, family) for form in formats for family in form.families]
    families: list[tuple[Format, Family]] = [(form, family) for form, family in every if not is_first(family)]
    return families + [(form, partial_lines(form)) for form in formats if not form.generic and partial_lines(form)]


@cache
def partial_lines(form: Format) -> PartialLines:
    """Return the partly known lines of a format."""
    return PartialLines(form)


def is_first(family: Family) -> bool:
    """Return whether a line of the family can only be the first line of a log: the header of a whole file."""
    return isinstance(family, HeaderTable) and family.is_first


def candidate_mask(texts: pa.Array, families: Iterable[Family]) -> Mask:
    """Return a mask of the strings that could be lines of one of the families, with rank labels or without."""
    by_literal = [(family.required_literal, family) for family in families]
    held = held_literals(texts, tuple(literal for literal, _ in by_literal))
    # Without repeats: families of progress bars share one pattern.
    patterns = {f"(?s:{family.pattern})": _head_literals(family) for literal, family in by_literal if literal in held}
    lines: list[bytes] = texts.to_pylist()
    if texts.nbytes > FEW_BYTES or any(len(line) > LONG_STRING for line in lines):
        return matching_mask(texts, list(patterns), ANY_LABELS)
    flags = np.zeros(len(lines), np.bool_)
    for i, line in enumerate(lines):
        # Most lines have none of the literals; to find that out, an expression goes over the line from each byte.
        regexes = [kept_pattern(p) for p, some in patterns.items() if not some or any(each in line for each in some)]
        flags[i] = any(regex.match(text) for text in without_each_label(line) for regex in regexes)
    return flags


def _head_literals(family: Family) -> tuple[bytes, ...]:
    """Return strings of which each string that could be a line of a family contains one; none if they are not known."""
    return family.head_literals if isinstance(family, MeterFamily) else ()


def _possible(texts: pa.Array, families: Families) -> Mask:
    """Return a mask of the strings that could be lines of the families, or partly known lines of them."""
    partly = [family for _, family in families if isinstance(family, PartialLines)]
    mask = candidate_mask(texts, [family for _, family in families if not isinstance(family, PartialLines)])
    return mask | partial_mask(texts, partly) if partly and len(texts) else mask


def partial_mask(texts: pa.Array, families: Sequence[PartialLines]) -> Mask:
    """Return a mask of the strings that could be partly known lines. Their patterns are long, so literals go first."""
    held = held_literals(texts, tuple(literal for family in families for literal in family.literals))
    mask = literal_mask(texts, held)
    texts = texts.take(index_array(mask))
    few = None
    if texts.nbytes <= FEW_BYTES:
        few = {text: prefix_ends(text) for line in texts.to_pylist() for text in without_each_label(line)}
    patterns = [f"(?s:{pattern})" for family in families if (pattern := family.pattern_with(held, few))]
    mask[mask] = matching_mask(texts, patterns, ANY_LABELS)
    return mask


def discovered_line(formats: Iterable[Format], shape: str, text: str) -> Line | None:
    """Return the Line with the template `shape` that a family of the formats makes of a string; None if none does."""
    bare = strip_rank_labels(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
    lines = (line for _, family in families_of(formats) for line in family.lines(bare))
    return next((line for line in lines if line.template.text == shape), None)


_LONG_NUMBER = lazy_pattern(rb"[0-9]{15}")
_MINUTES = lazy_pattern(rb":[6-9]")
_SAME_DIGIT = bytes.maketrans(b"23456789", b"11111111")
_ZEROS_INSIDE = lazy_pattern(rb"(?<=1)0+(?=1)")


def form_of(text: bytes) -> bytes:
    """Return what families see of the string of a field: a line gives the same template for two strings of one form.

    Families ask how many digits a number has, whether it begins or ends with zeros (a number of JSON may be printed
    with more of them than it needs), and whether minutes are below 60. Beyond 15 digits a double does not hold all.
    """
    if _LONG_NUMBER.search(text):
        return text
    ones = _MINUTES.sub(b":~", text).translate(_SAME_DIGIT)
    return _ZEROS_INSIDE.sub(lambda zeros: b"1" * len(zeros[0]), ones) if b"10" in ones else ones


class _UnreadShapes:
    """The shapes of the lines that no family reads: the line with each number as 0.

    `is_bounded`: whether strings of many shapes, or many of one shape, are not tried at all.
    """

    def __init__(self, is_bounded: bool = True) -> None:
        self._counts: Counter[bytes] = Counter()
        self._is_bounded = is_bounded

    def copy(self) -> _UnreadShapes:
        copy = _UnreadShapes(self._is_bounded)
        copy._counts = self._counts.copy()
        return copy

    def add(self, text: bytes) -> None:
        self._counts[number_shape(text)] += 1

    def tells_of(self, text: bytes) -> bool:
        """Return whether no family needs to be asked for a string.

        Several strings that differ from it in digits alone showed nothing. Or there are many shapes, and this one is
        new: then it is prose.
        """
        if not self._counts or not self._is_bounded:
            return False
        shape = number_shape(text)
        count = self._counts.get(shape, 0)
        if count or len(self._counts) < MOST_UNREAD_SHAPES:
            return count >= _ENOUGH_OF_SHAPE
        if len(self._counts) < _MOST_HELD:
            self._counts[shape] = 1
        return True


class TemplateDiscovery:
    """Discovers the Lines of one log, or of several that are read together.

    `warnings` names the families that have too many. `is_bounded`: whether lines of a log that has many shapes may be
    taken for prose; several logs have more shapes than one.
    """

    def __init__(self, is_bounded: bool = True) -> None:
        self.warnings: list[str] = []
        self._is_bounded = is_bounded
        self._known: set[tuple[str, str, str]] = set()  # format, family, template string
        self._count: Counter[tuple[str, str]] = Counter()
        self._size: Counter[tuple[str, str]] = Counter()
        self._full: set[tuple[str, str]] = set()
        self._shapes: defaultdict[str, list[Template]] = defaultdict(list)
        self._objects: ObjectShapes[bool] = ObjectShapes()  # of the Lines that are read by them
        self._unread: defaultdict[tuple[str, ...], _UnreadShapes]  # by families tried
        self._unread = defaultdict(partial(_UnreadShapes, is_bounded))
        self._tried: dict[bool, tuple[list[tuple[str, str]], int]] = {}  # which families, up to which position

    def copy(self) -> TemplateDiscovery:
        """Return a copy with the same knowledge, for another reading of the log."""
        copy = TemplateDiscovery(self._is_bounded)
        copy.warnings, copy._known, copy._full = list(self.warnings), set(self._known), set(self._full)
        copy._count, copy._size, copy._tried = Counter(self._count), Counter(self._size), dict(self._tried)
        copy._objects = self._objects.copy()
        for names, shapes in self._unread.items():
            copy._unread[names] = shapes.copy()
        for name, templates in self._shapes.items():
            copy._shapes[name] = list(templates)
        return copy

    def scan(
        self,
        scanner: Scanner,
        chunk: Chunk,
        families: Callable[[Scanner, Batch], Families],
        likely: Sequence[FormatLine] = (),
    ) -> tuple[Scanner, Batch]:
        """Scan a chunk, and scan it again with the Lines that its unread lines show, until nothing new shows.

        Args:
            scanner: Reads the declared lines.
            chunk: The chunk.
            families: Returns the families to try, from the scanner and the batch as read so far.
            likely: The Lines that another log has shown. If the chunk shows the same, one scan is saved; the result is
                the same in any case.
        """
        with_likely, before = scanner.with_lines(likely), self.copy() if likely else self
        batch = with_likely.scan(chunk)
        firsts = _first_positions(batch, len(scanner.lines), len(likely))
        if likely and not self._shows(likely, firsts, families(with_likely, batch), batch):
            return self.scan(scanner, chunk, families)
        found = with_likely
        while new := self.find(families(found, batch), batch):
            if found is with_likely and likely and _reads_before(new, firsts.max(initial=-1), batch):
                self.__dict__.update(before.__dict__)  # alone, they may read what the likely ones have read
                return self.scan(scanner, chunk, families)
            found = found.with_lines(new)
            batch = found.scan(chunk)
        return found, batch

    def _shows(self, likely: Sequence[FormatLine], positions: Ints, families: Families, batch: Batch) -> bool:
        """Return whether the strings that these Lines have read show just these Lines, in this order.

        `find` tries the unread lines in log order, and each Line reads all strings like the first that showed it. So
        the first string of each Line, at `positions`, shows what it would find. If that is something else, nothing is
        kept.
        """
        in_order = bool((positions[1:] > positions[:-1]).all())
        is_prose = self._is_bounded and len(batch.unread_segments) >= MOST_UNREAD_SHAPES
        if not in_order or (positions & PART_MASK).any() or is_prose:
            return False
        trial = self.copy()
        if not trial._finds(likely, batch.bytes_at(positions), families):
            return False
        self._known, self._count, self._size, self._full = trial._known, trial._count, trial._size, trial._full
        self._shapes, self._objects = trial._shapes, trial._objects
        return True

    def _finds(self, lines: Sequence[FormatLine], texts: pa.Array, families: Families) -> bool:
        """Return whether strings show just these Lines, in this order."""
        new: list[FormatLine] = []
        self._find_in(_bare(texts, _possible(texts, families)), families, new)
        return [_identity(line) for line in new] == [_identity(line) for line in lines]

    def each_shows(
        self,
        shown: Sequence[FormatLine],
        kinds: Mapping[int, FormatLine],
        firsts: Ints,
        families: Families,
        batch: Batch,
    ) -> bool:
        """Return whether each of several logs, read together, shows by itself the Lines that they show together.

        Args:
            shown: The Lines.
            kinds: The Lines that have records, by kind. A string may show several Lines; one of them reads it.
            firsts: The position of the first record of each of these (second axis) in each log (first axis).
            families: The families that were tried.
            batch: The logs.
        """
        if (firsts[:, 1:] <= firsts[:, :-1]).any() or (firsts & PART_MASK).any():
            return False
        if any(line.by_object for _, line in shown):
            return False
        if not kinds:
            return not shown
        texts = bare_texts(batch.bytes_at(firsts.ravel())).to_pylist()
        if not TemplateDiscovery()._finds(shown, batch.bytes_at(firsts[0]), families):
            return False
        lines_of = _LinesOfTexts(families)
        identities = [lines_of(line, text) for line, text in zip(kinds.values(), texts, strict=False)]
        every = (texts[k : k + len(kinds)] for k in range(0, len(texts), len(kinds)))
        return all([lines_of(*pair) for pair in zip(kinds.values(), log, strict=True)] == identities for log in every)

    def find(self, families: Families, batch: Batch) -> list[FormatLine]:
        """Return new Lines that the unread lines of a batch show.

        Each unread line is tried once with the same families: it always gives the same Lines. Only what stays unread
        with all declared families is tried as known lines with a suffix or without a number.
        """
        if self._full.issuperset((form.name, family.name) for form, family in families):
            return []
        partly = [family for _, family in families if isinstance(family, PartialLines)]
        new: list[FormatLine] = []
        tried = dict(self._tried)
        texts = self._untried(families, batch, are_partial=False)
        if batch.is_torn and len(texts):  # the usual lines show where records begin
            often = texts.take(index_array(is_usual(texts)))
            self._find_in(_bare(often, _possible(often, families)), families, new)
            if new := self._without_torn(new, texts):
                self._tried = tried
                return new
        if len(texts):
            self._find_in(_bare(texts, _possible(texts, families)), families, new)
        if partly and not new and len(texts := self._untried(families, batch, are_partial=True)):
            self._find_in(_bare(texts, partial_mask(texts, partly)), families, new, are_partial=True)
        return self._without_torn(new, texts) if new and batch.is_torn else new

    def _without_torn(self, new: list[FormatLine], texts: pa.Array) -> list[FormatLine]:
        """Return the new Lines without those that halves of two torn records make: rare ones that look like others.

        Only a log in which lines are torn has such halves. Elsewhere `loss` and `val loss` are two series.
        """
        bare = bare_texts(texts)
        kept = []
        for form, line in new:
            if line.by_object:
                kept.append((form, line))
                continue
            others = self._shapes[form.name]
            known = [other for other in others if other is not line.template]
            has_torn_pair = line.partial and not (line.template.has_prefix or line.template.has_appendix)
            is_torn = (has_torn_pair and known) or any(is_torn_shape(line.template, other) for other in known)
            if not is_torn or matching_mask(bare, [f"^(?s:{unnamed(line.template.pattern)})$"]).sum() > _MOST_TORN:
                kept.append((form, line))
        return kept

    def _untried(self, families: Families, batch: Batch, are_partial: bool) -> pa.Array:
        """Return the unread lines of a batch that these families have not been asked for, as partly known or not."""
        names = [(form.name, family.name) for form, family in families]
        tried, since = self._tried.get(are_partial, ([], -1))
        unread = batch.unread_segments
        if tried == names:  # what was cut since then is tried again
            is_part = batch.open_positions is not None
            unread = unread[(unread > since) | (is_part & ((unread & PART_MASK) > 0))]
        if batch.open_positions is not None:
            unread = np.setdiff1d(unread, batch.open_positions)
        if len(unread):
            self._tried[are_partial] = names, int(unread.max())
        rows: Ints = batch.rows(unread)
        return batch.bytes_at(unread[batch.ends[rows] - batch.starts[rows] < MAX_LENGTH])

    def _find_in(self, texts: pa.Array, families: Families, new: list[FormatLine], are_partial: bool = False) -> None:
        """Add the new Lines that some strings show to `new`. `are_partial`: known lines need not be whole."""
        unread = self._unread[(str(are_partial), *(f"{form.name}/{family.name}" for form, family in families))]
        while len(texts):
            block, texts = texts.slice(0, _BLOCK), texts.slice(_BLOCK)
            lines_of_block: list[Line] = []
            while len(block):
                text = block[0].as_py()
                block = block.slice(1)
                if unread.tells_of(text) or (self._objects and self._objects.find(text) is not None):
                    continue
                lines = self._lines_of(families, text, new, are_partial)
                if not lines:
                    unread.add(text)
                elif not lines[-1].by_object:
                    block = _unlike(lines, block)
                    lines_of_block += lines
            texts = _unlike(lines_of_block, texts)

    def _lines_of(
        self, families: Families, text: bytes, new: list[FormatLine], are_partial: bool = False
    ) -> tuple[Line, ...]:
        """Return the Lines that the first fitting family makes of a string; add the unknown ones to `new`.

        A family of a program may read a label that the program prints. If none does, what is after it is a record; a
        generic family would take the label for words of the line. It is also asked only after known lines of programs
        after a prefix. Other partly known lines come last.
        """
        declared = [(form, family) for form, family in families if not isinstance(family, PartialLines)]
        partly = [(form, family) for form, family in families if isinstance(family, PartialLines)]
        bare = without_printed_label(text)
        bare = bare or text
        program_families = [(form, family) for form, family in declared if not form.generic]
        return (
            self._first_lines(program_families, text, new)
            or (self._first_lines(program_families, bare, new) if bare != text else ())
            or self._first_lines(partly, text, new, are_whole=True)
            or self._first_lines(declared, bare, new)
            or (self._first_lines(declared, text, new) if bare != text else ())
            or (self._first_lines(partly, text, new) if are_partial else ())
        )

    def _first_lines(
        self, families: Families, text: bytes, new: list[FormatLine], are_whole: bool = False
    ) -> tuple[Line, ...]:
        """Return the Lines that the first fitting family makes of a string; add the unknown ones to `new`.

        `are_whole`: of partly known lines only those that are whole, after a prefix.
        """
        for form, family in families:
            if family.required_literal not in text:
                continue
            if (form.name, family.name) in self._full:
                if re.match(f"(?s:{family.pattern})".encode(), text):
                    return ()  # the line belongs to this family, so no later family may take it
            elif lines := family.lines(text.decode("utf-8", "surrogateescape")):
                last = lines[-1]
                if are_whole and not last.after_prefix:
                    continue
                if last.object is not None and self._count[form.name, family.name] >= MANY_LINES:
                    lines = (last if last.by_object else replace(last, by_object=True),)
                new += self._add(form, family, lines)
                return lines
        return ()

    def _add(self, form: Format, family: Family, lines: Sequence[Line]) -> list[FormatLine]:
        """Return the Lines that were not known; none if the family has too many."""
        key = form.name, family.name
        unknown = [line for line in lines if (*key, line.template.text) not in self._known or line.by_object]
        count = self._count[key] + len(unknown)
        size = self._size[key] + sum(len(line.template.pattern) for line in unknown if not line.by_object)
        most = MAX_OBJECTS if lines[-1].by_object else MAX_LINES
        if count > most or size > MAX_PATTERNS:
            self._full.add(key)
            limit = f"have more than {self._count[key]} shapes: the others stay unread"
            self.warnings.append(f"lines of `{family.name}` ({form.name}) {limit}")
            return []
        self._count[key], self._size[key] = count, size
        self._known.update((*key, line.template.text) for line in unknown)
        self._shapes[form.name] += [line.template for line in unknown if not line.by_object]
        for line in unknown:
            if line.by_object and line.object is not None:
                self._objects.add(True, line.object)
        return [(form, line) for line in unknown]


def _unlike(lines: Sequence[Line], texts: pa.Array) -> pa.Array:
    """Return the strings that none of the Lines reads."""
    templates = [line.template for line in lines]
    mask = np.ones(len(texts), np.bool_)
    if texts.nbytes <= FEW_BYTES:
        has_literals = [any(x.has_literals(text) for x in templates) for text in texts.to_pylist()]
        mask = np.array(has_literals, np.bool_)
    if not mask.any():
        return texts
    candidates = texts if mask.all() else texts.take(index_array(mask))
    mask[mask] = matching_mask(candidates, [f"^(?s:{unnamed(x.pattern)})$" for x in templates])
    return texts.take(index_array(~mask)) if mask.any() else texts


class _LinesOfTexts:
    """Returns the identities of the Lines that strings show, each string alone."""

    def __init__(self, families: Families) -> None:
        self._families = families
        self._by_form: dict[tuple[Line | bytes, ...], list[_Identity]] = {}

    def __call__(self, line: FormatLine, text: bytes) -> list[_Identity]:
        """Return the identities for a string that a Line reads. Two such strings differ in its fields only."""
        match = line[1].template.regex.fullmatch(text)
        fields = map(form_of, (group or b"" for group in match.groups())) if match else [text]
        form = (line[1], *fields)
        if form not in self._by_form:
            new: list[FormatLine] = []
            TemplateDiscovery()._lines_of(self._families, text, new)
            self._by_form[form] = [_identity(each) for each in new]
        return self._by_form[form]


def _first_positions(batch: Batch, first_kind: int, count: int) -> Ints:
    """Return the position of the first record of each of some kinds that have records."""
    kinds = (k for k in range(first_kind, first_kind + count) if k in batch.records)
    return np.array([batch.records[k].positions[0] for k in kinds], np.int64)


def _reads_before(new: Sequence[FormatLine], position: int, batch: Batch) -> bool:
    """Return whether new Lines may read an unread segment before a position."""
    texts = bare_texts(batch.bytes_at(batch.unread_segments[batch.unread_segments < position]))
    patterns = [f"^(?s:{unnamed(line.template.pattern)})$" for _, line in new]
    by_object = any(line.by_object for _, line in new)
    return len(texts) > 0 and (by_object or bool(matching_mask(texts, patterns).any()))


def _identity(line: FormatLine) -> _Identity:
    """What makes two Lines of families the same: format, family, template string."""
    return line[0].name, line[1].name, line[1].template.text


def _bare(texts: pa.Array, mask: Mask) -> pa.Array:
    """Return the distinct texts that a mask selects, in order, without rank labels and trailing whitespace."""
    return pc.unique(bare_texts(texts.take(index_array(mask))))
