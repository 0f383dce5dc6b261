"""Scans a chunk of bytes: which template reads each line, and the values of its fields.

Each step reads what the steps before it left:

1. Templates of plain numbers, by fixed widths or by tokens (`fixed_width`, `numeric`).
2. A line inside which another record begins is cut there, since several processes wrote at once (`record_starts`).
3. All templates as RE2 expressions, vectorised by Arrow, in linear time for any input. A line may have rank
   labels before it (`rank_labels`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Ints, Mask
from perflog.formats.model import Format, Line
from perflog.formats.template import Template
from perflog.formats.vocabulary import DEVICE
from perflog.parsing.input.chunks import Chunk
from perflog.parsing.match.captures import capture, capture_each
from perflog.parsing.match.fixed_width import FixedWidthMatcher
from perflog.parsing.match.numeric import MatchedLines, NumericMatcher, NumericTemplate, numeric_template
from perflog.parsing.match.object_lines import ObjectLines
from perflog.parsing.match.opening_block import OpeningBlocks
from perflog.parsing.match.prefilter import COMPARED, LiteralPrefilter
from perflog.parsing.match.rank_labels import (
    BARE,
    BARE_AT_END,
    LAUNCHER_LABEL,
    LOCAL,
    MAX_LABELS,
    NO_LABEL,
    NO_LABELS,
    Labels,
    carried_labels,
    device_label,
    find_rank_labels,
    is_pod,
    local_label,
    nested_labels,
    strip_rank_labels,
)
from perflog.parsing.match.record_starts import RecordStarts, ends_whole
from perflog.parsing.match.records import (
    Batch,
    Column,
    Cuts,
    FormatLine,
    Records,
    join,
    owners,
    part_positions,
    segment_positions,
    strings,
)
from perflog.parsing.match.spliced_lines import torn_texts
from perflog.tables.arrow import LONG_STRING, constant_mask, index_array, numbers_of
from perflog.tables.row_order import PART_BITS, PART_MASK

Parts = dict[int, list[Records]]
"""Records by kind, as the steps find them."""

_FEW = 64  # lines that are each asked for literals by themselves
_VERY_FEW = 16  # lines, up to which compiling a pattern for RE2 takes longer than to read them one by one
_PREPARED = 16  # lists of lines for which matchers are kept


class Scanner:
    """Reads chunks with the lines of the active formats. A `kind` is an index into `lines`.

    Args:
        lines: the lines that formats declare, or that their families have shown.
        labels: the rank labels before the lines of the log.
        since: formats that read nothing before a position.
        opening: the block at the start of the log: its lines are read by their positions.
        formats: the formats with families that may show further lines.
    """

    def __init__(
        self,
        lines: Sequence[FormatLine],
        labels: Labels = NO_LABELS,
        since: Mapping[str, int] | None = None,
        opening: OpeningBlocks | None = None,
        formats: Iterable[Format] = (),
    ) -> None:
        self.lines = list(lines)
        self.since = dict(since or {})
        self._labels = labels
        self._opening = opening
        self._declared = tuple(lines)
        self._formats = tuple(formats)

    @cached_property
    def _matchers(self) -> _Matchers:
        return _prepared(self._declared, self._labels.template, self._labels.has_labels, self._formats)

    def with_lines(self, lines: Sequence[FormatLine]) -> Scanner:
        """Return a scanner that reads these lines too; the kinds of the others stay."""
        return Scanner([*self.lines, *lines], self._labels, self.since, self._opening, self._formats)

    def cuts_alike(self, batch: Batch) -> bool:
        """Return whether this scanner cuts the lines of a batch at the same positions as the one that has scanned it.

        Where no line was cut, only lines that are still unread may be cut.
        """
        if batch.cuts is not None:
            begins, ends, found = batch.cuts.begins, batch.cuts.ends, batch.cuts.found
        else:
            unread = batch.rows(batch.unread_segments)
            begins, ends, found = batch.starts[unread], batch.ends[unread], []
        return self._matchers.starts.cuts(strings(batch.chunk.data, begins, ends), self._labels.width) == found

    def scan(self, chunk: Chunk) -> Batch:
        """Read all records of a chunk."""
        data = chunk.data
        starts, ends = _line_ends(data, chunk.size)
        positions = segment_positions(chunk, ends)
        parts: Parts = {}
        is_unfinished = np.zeros(len(starts), np.bool_)
        is_unfinished[np.searchsorted(starts, chunk.unfinished)] = True
        matches, is_read = self._match_fast(chunk, starts, ends, ~is_unfinished)
        blank = starts == ends
        is_read |= blank
        in_block = self._in_opening(chunk, positions, blank, parts)
        if in_block is not None:
            matches = [(kind, _only(lines, ~in_block)) for kind, lines in matches]
            is_read |= in_block
        _add(parts, matches, positions)
        cut = np.searchsorted(starts, chunk.cut) if chunk.cut else starts[:0]  # never matched
        cut = cut if in_block is None else cut[~in_block[cut]]
        is_read[cut] = True
        left, blanks = np.flatnonzero(~is_read), [positions[blank]]
        parted, is_open, cuts = self._parted(data, starts, ends, left, is_unfinished), is_unfinished, None
        if parted is not None:
            cuts, rows, is_open, labels, starts, ends = parted  # the line of each part
            first_part, old_positions = np.searchsorted(rows, np.arange(len(positions))), positions
            positions = part_positions(positions, rows)
            _move(parts, old_positions, positions[first_part])
            is_piece, is_head = torn_texts(strings(data, starts, ends))
            is_piece &= ~is_open if in_block is None else ~is_open & ~in_block[rows]
            is_open = is_open | is_piece | is_head
            _drop(parts, positions[is_piece])
            left, blanks = np.flatnonzero(~(is_read[rows] | is_piece)), [positions[first_part[blank]]]
            cut = np.union1d(first_part[cut], np.flatnonzero(is_piece))
        open_positions = positions[is_open] if parted is not None or is_open.any() else None
        if len(left):
            stops = _without_trailing_blanks(data, starts[left], ends[left])
            lines = _Lines(data, left, positions[left], starts[left], stops)
            if open_positions is not None:
                lines = replace(lines, is_open=is_open[left], labels=None if parted is None else labels[left])
            lines, empty = self._match_regexes(lines, parts)
            left = lines.segments
            blanks.append(empty)
        if len(cut):
            left = np.sort(np.concatenate([left, cut]))
        records = {kind: join(stretches) for kind, stretches in parts.items()}
        self._drop_odd_labels(records, chunk, positions, starts)
        early = self._drop_early(records, positions)
        left = np.union1d(left, early) if len(early) else left
        has_parts = bool(chunk.returns) or parted is not None
        owner, unread = owners(records, np.concatenate(blanks), positions[left], self._matchers.is_read, has_parts)
        parts_left = np.setdiff1d(positions[left], unread) if len(unread) < len(left) else left[:0]
        return Batch(chunk, records, owner, unread, parts_left, starts, ends, positions, open_positions, cuts)

    def _match_fast(
        self, chunk: Chunk, starts: Ints, ends: Ints, is_whole: Mask
    ) -> tuple[list[tuple[int, MatchedLines]], Mask]:
        """Read whole lines with templates of plain numbers. Return them by kind, and a mask of the lines read."""
        matches, is_read = self._matchers.fast.match(chunk.data, chunk.size, starts, ends)
        if self._matchers.fast_labelled is not None and not is_read.all():
            labelled, is_read_too = self._matchers.fast_labelled.match(chunk.data, chunk.size, starts, ends)
            matches = [*matches, *((kind, _only(lines, ~is_read)) for kind, lines in labelled.items())]
            is_read = is_read | is_read_too
        if not is_whole.all():
            matches, is_read = [(kind, _only(lines, is_whole)) for kind, lines in matches], is_read & is_whole
        return list(matches), is_read

    def _parted(
        self, data: bytearray, starts: Ints, ends: Ints, left: Ints, is_unfinished: Mask
    ) -> tuple[Cuts, Ints, Mask, Ints, Ints, Ints] | None:
        """Cut segments inside which records begin.

        Returns:
            Where they are cut. Of each part the segment that it is cut from, whether its end may be lost, the rank
            label that it has from the part before it (-1 if none), and its first and last offset. None if no segment is
            cut.
        """
        cuts = self._matchers.starts.cuts(strings(data, starts[left], ends[left]), self._labels.width)
        if not cuts:
            return None
        every = Cuts(starts[left], ends[left], cuts)
        cut_rows = np.repeat(left[[row for row, _ in cuts]], [len(offsets) for _, offsets in cuts])
        inside = np.concatenate([starts[left[row]] + np.array(offsets) for row, offsets in cuts])
        order = np.argsort(np.concatenate([starts, inside]), kind="stable")
        rows = np.concatenate([np.arange(len(starts)), cut_rows])[order]
        begins = np.concatenate([starts, inside])[order]
        is_followed = np.append(rows[1:] == rows[:-1], False)
        stops = np.where(is_followed, np.append(begins[1:], 0), ends[rows])
        # A space or the end of an object ends a record. So do line feeds that were written after the next record.
        is_whole = np.isin(np.frombuffer(data, np.uint8)[stops - 1], (9, 32, 125))
        for part in np.flatnonzero(is_followed & is_whole).tolist():  # a label of srun may have a space before it
            begin, stop = int(begins[part]), int(stops[part])
            is_whole[part] = BARE.match(data, stop) is None and BARE_AT_END.search(data, begin, stop) is None
        has_line_feeds = np.zeros(len(starts), np.bool_)
        for row, count in zip(
            left[[row for row, _ in cuts]].tolist(), [len(offsets) for _, offsets in cuts], strict=True
        ):
            after = slice(row + 1, row + count + 2)
            texts = [data[a:b] for a, b in zip(starts[after].tolist(), ends[after].tolist(), strict=True)]
            is_blank = [
                not strip_rank_labels(bytes(text)) for text in texts
            ]  # empty lines do not go on in the next chunk
            has_line_feeds[row] = is_blank in ([True] * count, [True] * count + [False])
        is_open = is_followed & ~is_whole & ~has_line_feeds[rows]
        is_open |= is_unfinished[rows] & ~is_followed
        labels = np.full(len(rows), -1, np.int64)
        for row in np.flatnonzero(has_line_feeds).tolist():
            low, high = np.searchsorted(rows, (row, row + 1)).tolist()
            labels[low:high] = carried_labels(bytes(data[begins[part] : stops[part]]) for part in range(low, high))
        return every, rows, is_open, labels, begins, stops

    def _in_opening(self, chunk: Chunk, positions: Ints, blank: Mask, parts: Parts) -> Mask | None:
        """Read the lines of the block at the start of the log. Return a mask of its segments, None for none."""
        if self._opening is None or chunk.first_line > self._opening.last_line:
            return None
        numbers = positions >> PART_BITS
        in_block = self._opening.covers(numbers)
        for kind, (_, line) in enumerate(self.lines):
            if line in self._opening.lines:
                mask = in_block & ~blank & self._opening.mask(line, numbers)
                if mask.any():
                    parts.setdefault(kind, []).append(Records(positions[mask]))
        return in_block

    def _drop_odd_labels(self, records: dict[int, Records], chunk: Chunk, positions: Ints, starts: Ints) -> None:
        """Drop the labels of srun at the beginnings of lines where most have other ones, or of another width."""
        raw, width, is_rare = np.frombuffer(chunk.data, np.uint8), self._labels.width, self._labels.bare_is_rare
        for found in records.values():
            if (width or is_rare) and found.labels is not None:
                begins = starts[np.searchsorted(positions, found.positions)]
                is_bare = (raw[begins] == 32) | ((raw[begins] >= 48) & (raw[begins] <= 57))
                is_odd = is_bare & (is_rare | (raw[begins + width] != 58)) & (found.positions & PART_MASK == 0)
                found.labels = np.where(is_odd, -1, found.labels)

    def _drop_early(self, records: dict[int, Records], positions: Ints) -> Ints:
        """Drop the records of formats that read nothing before a position; return the segments that held them."""
        segments = [np.empty(0, np.int64)]
        for kind in [k for k in records if self.lines[k][0].name in self.since]:
            count = int(np.searchsorted(records[kind].positions, self.since[self.lines[kind][0].name]))
            if count:
                segments.append(np.searchsorted(positions, records[kind].positions[:count], "right") - 1)
                records[kind] = records[kind].take(slice(count, None))
        return np.concatenate(segments)

    def _match_regexes(self, lines: _Lines, parts: Parts) -> tuple[_Lines, Ints]:
        """Read lines with regular expressions: as they are, then without rank labels.

        Returns:
            The lines that stay unread, and the positions of lines with only whitespace and rank labels.
        """
        full = lines.end > lines.begin
        blanks = [lines.positions[~full]]
        lines = lines.take(full)
        if not self._labels.has_launcher_labels:  # else a label is never read together with what follows it
            lines = lines.take(self._match_known(lines, parts, may_have_label=True))
        for count in range(1, MAX_LABELS + 1):
            label, begin = find_rank_labels(lines.data, lines.begin, lines.end)
            has_label = begin > lines.begin
            if not has_label.any():
                break
            lines = replace(lines, begin=begin, labels=nested_labels(lines.label_array(), label))
            left = lines.begin < lines.end
            blanks.append(lines.positions[~left])
            shortened = np.flatnonzero(has_label & left)
            left[shortened] = self._match_known(lines.take(shortened), parts, may_have_label=count < MAX_LABELS)
            lines = lines.take(left)
        if self._labels.has_launcher_labels:
            lines = lines.take(self._match_known(lines, parts))
        if self._matchers.surrounded:
            lines = lines.take(self._match_templates(lines, parts, templates=self._matchers.surrounded))
        return lines, np.concatenate(blanks)

    def _match_known(self, lines: _Lines, parts: Parts, may_have_label: bool = False) -> Mask:
        """Match lines with each template, then by the shapes of objects. Return a mask of what is left."""
        left = self._match_templates(lines, parts, may_have_label)
        objects, rest = self._matchers.objects, np.flatnonzero(left)
        if objects and len(rest):
            for kind, indices, columns in objects.read(lines.take(rest).texts().to_pylist()):
                left[rest[indices]] = False
                parts.setdefault(kind, []).append(lines.records(rest[indices], columns))
        return left

    def _match_templates(
        self, lines: _Lines, parts: Parts, may_have_label: bool = False, templates: Mapping[int, Template] | None = None
    ) -> Mask:
        """Match lines with each template in turn, and return a mask of the lines that no template reads.

        Args:
            lines: the lines.
            parts: where the records are added.
            may_have_label: whether the lines may begin with rank labels that must still be removed.
            templates: the templates, by default all of known lines.
        """
        left = np.ones(len(lines), np.bool_)
        if not len(lines):
            return left
        texts, matchers = lines.texts(), self._matchers
        candidates = _Candidates(lines, texts, matchers.prefilter)
        for kind, template in (matchers.templates if templates is None else templates).items():
            held = candidates.with_literal(matchers.literals[kind]) if kind in matchers.literals else left
            if held is None:
                continue
            mask = candidates.mask(template, left & held)
            if may_have_label and kind in matchers.any_start:
                mask = mask & candidates.without_label
            if self._labels.has_labels and kind in matchers.with_torn_number:
                mask = mask & (lines.label_array() != NO_LABEL)
            rows = np.flatnonzero(mask)
            if len(rows) <= _FEW:
                rows = candidates.with_literals(template, rows)
            if not len(rows):
                continue
            matches, columns = candidates.capture(template, rows)
            if len(matches) and lines.is_open is not None and lines.is_open[rows[matches]].any():
                whole = ~lines.is_open[rows[matches]] | ends_whole(template, texts.take(index_array(rows[matches])))
                matches, columns = matches[whole], Records(matches, columns).take(whole).columns
            if len(matches):
                rows = rows[matches]
                left[rows] = False
                parts.setdefault(kind, []).append(lines.records(rows, columns))
        return left


class _Matchers:
    """What reads lines, prepared from the lines of the formats. A `kind` is an index into them.

    Attributes:
        is_read: by kind, whether its records are read, or are context.
        fast: matches templates of plain numbers.
        fast_labelled: the same after the rank label that most lines have; None if they have none.
        templates: the templates to try as regular expressions, in order.
        surrounded: those that also read what surrounds a known line. It may be another record, so they come last.
        literals: a literal to look for first, since an expression takes long to fail: its index in the prefilter. The
            beginning of a line is compared anyway.
        prefilter: finds the lines with these literals, all in one pass.
        with_torn_number: kinds that the tail of a torn line may be, where whole lines have labels and it has none.
        any_start: kinds that begin with any string, and would take a rank label for part of it.
        objects: reads lines with many values by the shape of their object.
    """

    def __init__(
        self, lines: Sequence[FormatLine], label: Template | None, has_labels: bool, formats: Sequence[Format]
    ) -> None:
        self.is_read = {kind: line.read for kind, (_, line) in enumerate(lines)}
        by_text = [(form, line) for form, line in lines if not line.by_object]
        templates = {
            kind: line.template for kind, (_, line) in enumerate(lines) if not (line.under_header or line.by_object)
        }
        self.objects = ObjectLines(lines)
        self.with_torn_number = {kind for kind, t in templates.items() if _may_be_tail(lines[kind][1], t)}
        # The fast path does not know of generic formats, which read what no other line reads.
        exact = {kind: t for kind, t in templates.items() if not lines[kind][0].generic}
        alone = {kind: t for kind, t in exact.items() if not has_labels or kind not in self.with_torn_number}
        self.fast = FixedWidthMatcher(_numeric(alone))
        self.fast_labelled: NumericMatcher | None = None
        if label is not None:
            labelled = {kind: Template(label.text + t.text) for kind, t in exact.items()}
            self.fast_labelled = NumericMatcher(_numeric(labelled))
        # The body of a block may be any indented lines: it reads what no other line reads.
        last = {kind: lines[kind][1].role == "body" or lines[kind][1].otherwise for kind in templates}
        order = sorted(templates, key=lambda k: (last[k], lines[k][0].guessed, lines[k][0].generic))
        surrounded = {kind for kind, t in templates.items() if t.has_prefix or t.has_appendix}
        self.templates = {kind: templates[kind] for kind in order if kind not in surrounded}
        self.surrounded = {kind: templates[kind] for kind in order if kind in surrounded}
        with_fields = {kind: t for kind, t in templates.items() if t.fields}
        literals = {kind: _literal(t) for kind, t in with_fields.items()}
        found = {k: x for k, x in literals.items() if x and x not in with_fields[k].literals[0]}
        tails = {kind: text.encode("utf-8", "surrogateescape")[-COMPARED:] for kind, text in found.items()}
        distinct = list(dict.fromkeys(tails.values()))
        self.literals = {kind: distinct.index(tail) for kind, tail in tails.items()}
        self.prefilter = LiteralPrefilter(distinct)
        self.any_start = {kind for kind, t in with_fields.items() if _begins_with_any_text(t)}
        self.starts = RecordStarts(by_text, formats)


@lru_cache(_PREPARED)
def _prepared(
    lines: tuple[FormatLine, ...], label: Template | None, has_labels: bool, formats: tuple[Format, ...]
) -> _Matchers:
    """Return the matchers of some lines. The logs of a campaign show the same ones."""
    return _Matchers(lines, label, has_labels, formats)


class _Lines(Struct, frozen=True):
    """Lines that nothing has read yet. A rank label that was taken off is in `labels`, -1 if none.

    `is_open`: which of them another record follows on their line; None if no line is cut.
    """

    data: bytearray
    segments: Ints  # of the chunk
    positions: Ints
    begin: Ints
    end: Ints
    labels: Ints | None = None
    is_open: Mask | None = None

    def __len__(self) -> int:
        return len(self.segments)

    def take(self, rows: npt.NDArray[Any]) -> _Lines:
        """Return some of the lines, by index or mask."""
        labels = None if self.labels is None else self.labels[rows]
        is_open = None if self.is_open is None else self.is_open[rows]
        segments, positions, begin, end = self.segments[rows], self.positions[rows], self.begin[rows], self.end[rows]
        return _Lines(self.data, segments, positions, begin, end, labels, is_open)

    def texts(self) -> pa.Array:
        return strings(self.data, self.begin, self.end)

    def label_array(self) -> Ints:
        return np.full(len(self), -1, np.int64) if self.labels is None else self.labels

    def records(self, rows: Ints, columns: dict[str, Column]) -> Records:
        """Return some of the lines as records with these columns."""
        labels = None if self.labels is None else self.labels[rows]
        has_labels = labels is not None and bool(((labels >= 0) | is_pod(labels)).any())
        if not has_labels and DEVICE in columns:
            labels, has_labels = device_label(columns[DEVICE]), True
        columns = {name: column for name, column in columns.items() if name != DEVICE}
        return Records(self.positions[rows], columns, labels if has_labels else None)


class _Candidates:
    """Which lines a template may read, by less than its expression."""

    def __init__(self, lines: _Lines, texts: pa.Array, prefilter: LiteralPrefilter) -> None:
        self._lines, self._texts, self._prefilter = lines, texts, prefilter
        self._bytes: dict[int, bytes] = {}
        self._first_words = np.ndarray((len(lines.data) - 8,), "<u8", lines.data, strides=(1,))[lines.begin]

    def mask(self, template: Template, left: Mask) -> Mask:
        """Return a mask of those lines of `left` that begin as the template does and have as many spaces."""
        if template.prefix:
            prefix = template.prefix[:8]
            word = np.uint64(int.from_bytes(prefix, "little"))
            left = left & (self._first_words & np.uint64((1 << 8 * len(prefix)) - 1) == word)
        return left & (self._blanks >= template.blanks) if template.blanks > 1 else left

    @cached_property
    def with_literal(self) -> Callable[[int], Mask | None]:
        """Returns a mask of the lines that may hold a literal of the prefilter, None for none."""
        return self._prefilter.texts_with(self._texts)

    def with_literals(self, template: Template, rows: Ints) -> Ints:
        """Return the rows that contain the literals of the template."""
        return np.array([row for row in rows.tolist() if template.has_literals(self._text(row))], np.int64)

    def capture(self, template: Template, rows: Ints) -> tuple[Ints, dict[str, Column]]:
        """Match some of the lines with a template: return which of them match, and the values of the fields there."""
        lengths = self._lines.end[rows] - self._lines.begin[rows]
        if template.fails_fast and len(rows) <= _VERY_FEW and lengths.max() <= LONG_STRING:
            return capture_each(template, [*map(self._text, rows.tolist())])
        return capture(template, self._texts.take(index_array(rows)))

    def _text(self, row: int) -> bytes:
        if row not in self._bytes:
            self._bytes[row] = bytes(self._lines.data[self._lines.begin[row] : self._lines.end[row]])
        return self._bytes[row]

    @cached_property
    def without_label(self) -> Mask:
        """A mask of the lines without a rank label."""
        return ~constant_mask(self._texts, f"^{LAUNCHER_LABEL}")

    @cached_property
    def _blanks(self) -> Ints:
        return numbers_of(pc.count_substring(self._texts, " "))


def _literal(template: Template) -> str:
    """Return a string that every line of a template contains after its first field: of words if it has any."""
    after = (literal.strip(" \t") for literal in template.literals[1:])
    return max(after, key=lambda text: (sum(map(str.isalnum, text)), len(text)))


def _may_be_tail(line: Line, template: Template) -> bool:
    """Return whether lines of a template begin with a number, which may be the end of one, or have no other words."""
    begins_with_number = bool(template.fields) and template.fields[0].numeric and not template.literals[0].strip()
    return not template.letters or (begins_with_number and line.bar is None)


def _begins_with_any_text(template: Template) -> bool:
    """Return whether lines of a template may begin with any string, perhaps after whitespace."""
    first = next((k for k, field in enumerate(template.fields) if field.type != "b"), 0)
    return not any(map(str.strip, template.literals[: first + 1])) and template.fields[first].type in "sSp"


def _numeric(templates: Mapping[int, Template]) -> list[NumericTemplate]:
    """Return the templates that the fast path reads."""
    return [prepared for kind, t in templates.items() if (prepared := numeric_template(kind, t))]


def _add(parts: Parts, matches: Sequence[tuple[int, MatchedLines]], positions: Ints) -> None:
    for kind, matched in matches:
        if len(matched.lines):
            columns: dict[str, Column] = dict(matched.columns)
            devices, local_ranks = columns.pop(DEVICE, None), columns.pop(LOCAL, None)
            labels = columns.pop("label", None) if local_ranks is None else local_label(local_ranks)
            labels = device_label(devices) if labels is None and devices is not None else labels
            parts.setdefault(kind, []).append(Records(positions.take(matched.lines), columns, labels))


def _move(parts: Parts, old: Ints, new: Ints) -> None:
    """Give the records at some positions others."""
    for records in chain.from_iterable(parts.values()):
        records.positions = new[np.searchsorted(old, records.positions)]


def _line_ends(data: bytearray, size: int) -> tuple[Ints, Ints]:
    """Return the offsets at which the lines of a chunk begin and end."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8, size) == 10)
    starts = np.empty_like(ends)
    if len(ends):
        starts[0] = 0
        np.add(ends[:-1], 1, out=starts[1:])
    return starts, ends


def _drop(parts: Parts, positions: Ints) -> None:
    """Drop the records at some positions, and the kinds that have no others."""
    for kind, stretches in [*parts.items()] if len(positions) else ():
        kept = [records.take(~np.isin(records.positions, positions)) for records in stretches]
        parts[kind] = [records for records in kept if len(records)]
        if not parts[kind]:
            del parts[kind]


def _only(matched: MatchedLines, mask: Mask) -> MatchedLines:
    """Return the matched lines that a mask of all lines selects."""
    keep = mask[matched.lines]
    return MatchedLines(matched.lines[keep], {name: column[keep] for name, column in matched.columns.items()})


def _without_trailing_blanks(data: bytearray, begin: Ints, end: Ints) -> Ints:
    """The ends of lines without trailing whitespace."""
    raw = np.frombuffer(data, np.uint8)
    end = end.copy()
    active = np.flatnonzero(end > begin)
    while len(active):
        last = raw[end[active] - 1]
        active = active[(last == 32) | (last == 9)]
        end[active] -= 1
        active = active[end[active] > begin[active]]
    return end
