"""A chunk of bytes -> records: which template reads each line, and the values of its fields.

Three steps, each for what the one before left: the columnar fast path; the templates as RE2 expressions, vectorised by
Arrow and linear in time whatever the input; and, line by line, records that two ranks glued onto one line. A line may
carry a rank label in front (`0: `, `[default3]:`, `[rank1]:`, `[1,0]<stdout>:`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perflog.formats.template import Field, Template, fits_64
from perflog.parsing.input.chunks import Chunk
from perflog.parsing.match.fixed_width import FixedWidthMatcher
from perflog.parsing.match.interleaved import InterleavedSplitter
from perflog.parsing.match.numeric import Ints, MatchedLines, NumericMatcher, numeric_template
from perflog.parsing.match.rank_labels import LABELS, LABELS_MOST, labels
from perflog.parsing.match.records import Batch, Column, FormatLine, Records, join, owners, segment_places, strings
from perflog.tables.arrow import index_array, mask_of, numbers_of, text_array, valid_mask
from perflog.units import PRINTED


def _numbers(texts: pa.Array, kind: str) -> Column | None:
    """Captured texts as numbers; None where an integer does not fit 64 bits."""
    try:
        cast = pc.cast(texts.view(pa.string()), pa.int64() if kind == "d" else pa.float64())
        return numbers_of(cast)
    except pa.ArrowInvalid:
        try:
            values = [int(x) if kind == "d" else float(x) for x in texts.to_pylist()]
            return np.array(values, np.int64 if kind == "d" else np.float64)
        except (OverflowError, ValueError):  # ValueError: Python refuses to read thousands of digits
            return None


def _strings(texts: pa.Array) -> pa.Array:
    try:
        return pc.cast(texts, pa.string())
    except pa.ArrowInvalid:
        return text_array(x.decode("utf-8", "backslashreplace") for x in texts.to_pylist())


def typed(f: Field, captured: pa.StructArray) -> Column | None:
    """Captured texts of a field as its values; None where an integer does not fit 64 bits."""
    texts = captured.field(f.name)
    if not f.numeric:
        return _strings(texts)
    if f.comma:
        texts = pc.replace_substring(texts.view(pa.string()), ",", "").view(pa.binary())
    numbers = _numbers(texts, f.type)
    if f.type in PRINTED and numbers is not None:
        units = captured.field(f"{f.name}__unit").view(pa.string()).dictionary_encode()
        factors = np.array([PRINTED[f.type][1][unit] for unit in units.dictionary.to_pylist()])
        numbers = numbers * factors[numbers_of(units.indices)]
    return numbers


class Scanner:
    """Lines of the active formats, made ready to be read. A `kind` is an index into `lines`.

    `label` is the rank label in front of lines that the fast path reads too; `all_labelled` says that labels are the
    rule in this log; `since` gives the place from which on a format reads.
    """

    def __init__(
        self,
        lines: Sequence[FormatLine],
        label: Template | None = None,
        since: Mapping[str, int] | None = None,
        all_labelled: bool = False,
    ) -> None:
        self._all_labelled = all_labelled
        self.since = dict(since or {})  # formats that read nothing before a place
        self.lines = list(lines)
        templates = {kind: x.template for kind, (_, x) in enumerate(self.lines) if not x.under_header}
        ready = [p for kind, t in templates.items() if (p := numeric_template(kind, t))]
        self.fast = FixedWidthMatcher(ready)
        self.labelled: NumericMatcher | None = None
        if label is not None:
            texts = {kind: Template(label.text + t.text) for kind, t in templates.items()}
            self.labelled = NumericMatcher([p for kind, t in texts.items() if (p := numeric_template(kind, t))])
        # A line that must begin with a literal is asked for by that literal first; the rest is tried on every line, but
        # for templates that begin with any text: they take longest to fail.
        # The body of a block may be any indented text: it is for what no other line reads.
        order = sorted(templates, key=lambda kind: self.lines[kind][1].role == "body")
        self._patterns = [(k, t.prefix[:8], "^(?s:" + t.pattern + ")$") for k, t in ((k, templates[k]) for k in order)]
        # One that begins with any text would take a rank label for part of that; its longest literal is asked first.
        begun = {k: t for k, t in templates.items() if not t.prefix and t.fields}
        self._open = {k: t.required_literal.decode() for k, t in begun.items() if t.fields[0].type in "sS"}
        self.glue = InterleavedSplitter([x for _, x in self.lines])
        self._read = {kind: x.read for kind, (_, x) in enumerate(self.lines)}

    def scan(self, chunk: Chunk) -> Batch:
        """All records of a chunk."""
        data, size = chunk.data, chunk.size
        ends = np.flatnonzero(np.frombuffer(data, np.uint8, size) == 10)
        starts = np.empty_like(ends)
        if len(ends):
            starts[0] = 0
            np.add(ends[:-1], 1, out=starts[1:])
        places = segment_places(chunk, ends)
        parts: dict[int, list[Records]] = {}
        found, claimed = self.fast.match(data, size, starts, ends)
        _add(parts, found, places)
        blank = starts == ends
        claimed |= blank
        if self.labelled is not None and not claimed.all():
            more, also = self.labelled.match(data, size, starts, ends)
            _add(parts, [(k, _only(v, ~claimed)) for k, v in more.items()], places)
            claimed |= also
        if chunk.cut:
            claimed[np.searchsorted(starts, chunk.cut)] = True
        rest = np.flatnonzero(~claimed)
        blanks = [places[blank]]
        if len(rest):
            rest, empty = self._regular(data, starts, ends, rest, places, parts)
            blanks.append(places[empty])
        if chunk.cut:
            rest = np.sort(np.concatenate([rest, np.searchsorted(starts, chunk.cut)]))
        records = {kind: join(found) for kind, found in parts.items()}
        for kind in [k for k in records if self.lines[k][0].name in self.since]:
            early = int(np.searchsorted(records[kind].places, self.since[self.lines[kind][0].name]))
            if early:
                rest = np.union1d(rest, np.searchsorted(places, records[kind].places[:early], "right") - 1)
                records[kind] = records[kind].take(slice(early, None))
        owner, unread = owners(records, np.concatenate(blanks), places[rest], self._read, bool(chunk.returns))
        return Batch(chunk, records, owner, unread, starts, ends, places)

    def _regular(
        self, data: bytearray, starts: Ints, ends: Ints, rest: Ints, places: Ints, parts: dict[int, list[Records]]
    ) -> tuple[Ints, Ints]:
        """What the fast path left, through RE2, then with labels taken off, then glued. Gives (unread, blank)."""
        begin, end = starts[rest], _trimmed(data, starts[rest], ends[rest])
        full = end > begin
        empty, rest, begin, end = rest[~full], rest[full], begin[full], end[full]
        label = np.full(len(rest), -1, np.int64)
        if not self._all_labelled:  # where labels are the rule, text behind one is never read together with it
            left = self._templates(data, begin, end, rest, label, places, parts, True)
            rest, begin, end, label = rest[left], begin[left], end[left], label[left]
        for taken in range(1, LABELS_MOST + 1):
            own, begin = labels(data, begin, end)
            has = own >= 0
            if not has.any():
                break
            label = np.where(has, own, label)  # the program's own label says more than its launcher's
            left = begin < end
            empty = np.concatenate([empty, rest[~left]])
            tried = np.flatnonzero(has & left)
            more = taken < LABELS_MOST
            left[tried] = self._templates(
                data, begin[tried], end[tried], rest[tried], label[tried], places, parts, more
            )
            rest, begin, end, label = rest[left], begin[left], end[left], label[left]
        if self._all_labelled:
            left = self._templates(data, begin, end, rest, label, places, parts)
            rest, begin, end, label = rest[left], begin[left], end[left], label[left]
        left = self._glued(data, begin, end, places[rest], label, parts)
        return rest[left], empty

    def _templates(  # noqa: PLR0913
        self,
        data: bytearray,
        begin: Ints,
        end: Ints,
        index: Ints,
        label: Ints,
        places: Ints,
        parts: dict[int, list[Records]],
        labels: bool = False,
    ) -> npt.NDArray[np.bool_]:
        """Match lines `data[begin:end]` with each template in turn; records go to `parts`. Gives what is left.

        `labels`: rank labels may stand in front, which are still to be taken off.
        """
        left = np.ones(len(index), np.bool_)
        if not len(index):
            return left
        texts = strings(data, begin, end)
        words = np.ndarray((len(data) - 8,), "<u8", data, strides=(1,))[begin]
        bare: npt.NDArray[np.bool_] | None = None
        for kind, prefix, pattern in self._patterns:
            mask = left
            if labels and kind in self._open:
                bare = ~mask_of(pc.match_substring_regex(texts, f"^{LABELS}")) if bare is None else bare
                mask = left & bare
            if prefix:
                want = np.uint64(int.from_bytes(prefix, "little"))
                mask = left & (words & np.uint64((1 << 8 * len(prefix)) - 1) == want)
            rows = np.flatnonzero(mask)
            if kind in self._open and len(rows):
                rows = rows[mask_of(pc.match_substring(texts.take(index_array(rows)), self._open[kind]))]
            if not len(rows):
                continue
            hits, columns = self._extract(kind, texts.take(index_array(rows)), pattern)
            if not len(hits):
                continue
            rows = rows[hits]
            left[rows] = False
            tags = label[rows]
            records = Records(places[index[rows]], columns, tags if (tags >= 0).any() else None)
            parts.setdefault(kind, []).append(records)
        return left

    def _extract(self, kind: int, texts: pa.Array, pattern: str) -> tuple[Ints, dict[str, Column]]:
        """Rows of `texts` that the template reads, and its columns there."""
        fields = [f for f in self.lines[kind][1].template.fields if f.name != "_"]
        if not fields:
            return np.flatnonzero(mask_of(pc.match_substring_regex(texts, pattern))), {}
        captured = pc.extract_regex(texts, pattern)
        hits = np.flatnonzero(valid_mask(captured))
        if not len(hits):
            return hits, {}
        captured = captured.take(index_array(hits))
        columns = {f.name: typed(f, captured) for f in fields}
        if any(c is None for c in columns.values()):  # an integer of more than 64 bits: those lines are not read
            fits = np.array(
                [all(fits_64(row[f.name]) for f in fields if f.type == "d") for row in captured.to_pylist()]
            )
            hits, captured = hits[fits], captured.take(index_array(fits))
            columns = {f.name: typed(f, captured) for f in fields} if len(hits) else {}
        return hits, columns

    def _glued(
        self, data: bytearray, begin: Ints, end: Ints, places: Ints, label: Ints, parts: dict[int, list[Records]]
    ) -> npt.NDArray[np.bool_]:
        """Lines that are several records end to end. Gives those that stay unread."""
        left = np.ones(len(begin), np.bool_)
        if not self.glue.anchors:
            return left
        if not len(begin):
            return left
        counts = numbers_of(pc.count_substring_regex(strings(data, begin, end), self.glue.anchors))
        for row in np.flatnonzero(counts > 1).tolist():
            pieces = self.glue.split(bytes(data[begin[row] : end[row]]))
            if pieces is not None:
                left[row] = False
                for kind, records in self.glue.records(pieces, int(places[row]), int(label[row])):
                    parts.setdefault(kind, []).append(records)
        return left


def _add(parts: dict[int, list[Records]], found: Sequence[tuple[int, MatchedLines]], places: Ints) -> None:
    for kind, f in found:
        if len(f.lines):
            columns: dict[str, Column] = dict(f.columns)
            label = columns.pop("label", None)
            parts.setdefault(kind, []).append(Records(places.take(f.lines), columns, label))


def _only(found: MatchedLines, free: npt.NDArray[np.bool_]) -> MatchedLines:
    keep = free[found.lines]
    return MatchedLines(found.lines[keep], {k: v[keep] for k, v in found.columns.items()})


def _trimmed(data: bytearray, begin: Ints, end: Ints) -> Ints:
    """Ends of lines without the blanks there."""
    raw = np.frombuffer(data, np.uint8)
    end = end.copy()
    active = np.flatnonzero(end > begin)
    while len(active):
        last = raw[end[active] - 1]
        active = active[(last == 32) | (last == 9)]
        end[active] -= 1
        active = active[end[active] > begin[active]]
    return end
