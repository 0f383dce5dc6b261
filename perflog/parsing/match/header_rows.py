"""Rows of tables: each is given to the header above it, in the order of the log.

Rows of equal shape stand under different headers, so a row is not told by its text. Headers are found like other lines,
wherever a chunk is scanned; this pass comes behind it, chunk after chunk in order, and reads what was left unread under
each header. A table ends at the first line, blank ones aside, that is none of its pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from perflog.formats.families.header_tables import Header, HeaderTable, is_rule, rule_line
from perflog.formats.model import Format, Line
from perflog.formats.template import Value
from perflog.parsing.match import table_cells
from perflog.parsing.match.interleaved import columns_of
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.rank_labels import label_in_front
from perflog.parsing.match.records import BLANK, Batch, FormatLine, Records, join, owners

MOST = 256
"""Shapes of rows that one table has at most; rows of other shapes stay unread."""

_FIRST, _GROWTH, _LARGEST = 256, 8, 1 << 16  # lines looked at together
_LONGEST = 1 << 16  # bytes of a line
_ABOVE = 64  # lines looked back at for the rule above a header, where ranks write at once


@dataclass(frozen=True)
class Open:
    """A table that goes on: its format, its header, and whether it has no row yet."""

    form: Format
    head: Header
    fresh: bool = True


Tables = Mapping[int, Open]
"""The tables that go on at a place in the log, by the rank label in front of their lines, -1 for none."""


@dataclass
class _Page:
    """The segments of a batch as lines to be given to tables. `free` are those that nobody has read."""

    batch: Batch
    free: npt.NDArray[np.bool_] = field(init=False)
    found: dict[int, list[Records]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free = np.zeros(len(self.batch.starts), np.bool_)
        self.free[self.batch.rows(self.batch.unread)] = True
        self.free &= self.batch.ends - self.batch.starts < _LONGEST

    def lines(self, rows: range, label: int) -> Iterator[tuple[int, str]]:
        """Row and text of the segments with a rank label; where it is -1, of all of them, whole."""
        view, at = memoryview(self.batch.chunk.data), slice(rows.start, rows.stop)
        for row, start, end in zip(rows, self.batch.starts[at].tolist(), self.batch.ends[at].tolist(), strict=True):
            who, text = label_in_front(bytes(view[start:end])) if label >= 0 else (-1, bytes(view[start:end]))
            if who == label:
                yield row, text.decode("utf-8", "backslashreplace")

    def among(self, lines: Sequence[FormatLine], table: Open) -> set[int]:
        """Rows of the lines of the format that may stand among those of a table."""
        names, form = table.head.table.among, table.form
        kinds = [k for k in self.batch.records if lines[k][0] is form and lines[k][1].name in names] if names else []
        return {row for k in kinds for row in self.batch.rows(self.batch.records[k].places).tolist()}

    def give(self, kind: int, rows: Ints, values: Mapping[str, object], label: int) -> None:
        """Records of a kind on segments that nobody has read so far."""
        self.free[rows] = False
        labels = None if label < 0 else np.full(len(rows), label, np.int64)
        self.found.setdefault(kind, []).append(Records(self.batch.places_of(rows), dict(values), labels))


class HeaderRowReader:
    """The pass over one log. `add` takes a new Line and gives its kind: its index among the lines of the reading."""

    def __init__(self, add: Callable[[FormatLine], int]) -> None:
        self.warnings: list[str] = []
        self._add = add
        self._kinds: dict[tuple[object, ...], int] = {}
        self._count: dict[tuple[str, str], int] = {}

    def read(self, lines: Sequence[FormatLine], batch: Batch, going: Tables) -> tuple[Batch, Tables]:
        """The batch with the rows under its headers and under those that go on; and what goes on behind it."""
        heads = _heads(lines, batch)
        if not heads and not going:
            return batch, going
        page, behind = _Page(batch), {}
        starts = [(-1, label, table) for label, table in going.items()] + heads
        for label in dict.fromkeys(label for _, label, _ in starts):
            mine = [(row, table) for row, who, table in starts if who == label]
            stops = [row for row, _ in mine[1:]] + [len(batch.starts)]
            for (row, table), stop in zip(mine, stops, strict=True):
                left = self._table(page, table, range(row + 1, stop), label, page.among(lines, table))
            if left is not None:
                behind[label] = left
        return _with(batch, page.found, lines), behind

    def undecided(self, lines: Sequence[FormatLine], batch: Batch) -> bool:
        """Whether the batch ends on a rule that may stand above a header, which only the next batch can tell."""
        formats = dict.fromkeys(form for form, _ in lines)
        if not len(batch.unread) or not any(isinstance(x, HeaderTable) for form in formats for x in form.families):
            return False
        last = batch.unread[-1:]
        text = label_in_front(batch.texts(last)[0].encode())[1]
        return bool(batch.rows(last)[0] == len(batch.starts) - 1) and is_rule(text.decode())

    def _table(self, page: _Page, table: Open, rows: range, label: int, among: set[int]) -> Open | None:
        """Read the lines of a table among these rows; the table if it goes on behind them."""
        if table.fresh and rows.start:
            self._above(page, table, rows.start - 1, label)
        size, left = _FIRST, rows
        while len(left):
            going = self._block(page, table, left[:size], label, among)
            if going is None:
                return None
            table, left, size = going, left[size:], min(size * _GROWTH, _LARGEST)
        return table

    def _above(self, page: _Page, table: Open, header: int, label: int) -> None:
        """The rule that is drawn above a header is part of the table."""
        above = list(page.lines(range(max(header - _ABOVE, 0) if label >= 0 else max(header - 1, 0), header), label))
        if above and page.free[above[-1][0]] and is_rule(above[-1][1]):
            self._extra(page, table.form, above[-1][0], rule_line(above[-1][1]), {}, label)

    def _block(self, page: _Page, table: Open, rows: range, label: int, among: set[int]) -> Open | None:
        head, fresh, end = table.head, table.fresh, rows.stop
        extra: list[tuple[int, Line, dict[str, Value]]] = []
        at: list[int] = []
        cut: list[Sequence[str]] = []
        for row, text in page.lines(rows, label):
            if not text.strip() or row in among:
                continue
            piece = head.part(text, fresh) if page.free[row] else None
            if piece is None:
                end = row
                break
            if isinstance(piece, tuple):
                at.append(row)
                cut.append(piece)
                fresh = False
            else:
                head = piece.header
                extra.append((row, piece.line, piece.values))
        shapes, count = table_cells.read(head, cut) if cut else ([], 0)
        end = at[count] if count < len(at) else end
        for shape, records in shapes:
            self._rows(page, Open(table.form, head), shape, np.array(at, np.int64)[records.places], records, label)
        for row, line, values in extra:
            if row < end:
                self._extra(page, table.form, row, line, values, label)
        return Open(table.form, head, fresh) if end == rows.stop else None

    # --- what is given ----------------------------------------------------------------------------------------

    def _rows(self, page: _Page, table: Open, shape: Sequence[int], at: Ints, records: Records, label: int) -> None:
        line = table.head.row(shape)
        kind = self._kind((table.head.names, table.head.units, tuple(shape)), table.form, line, counted=True)
        if kind is not None:
            page.give(kind, at, {name: records.columns[name] for name in line.template.names}, label)

    def _extra(self, page: _Page, form: Format, row: int, line: Line, values: Mapping[str, Value], label: int) -> None:
        """A line that is no row: rule_line, of units, or one of the table's inner lines."""
        kind = self._kind((line.template.text, line.role), form, line)
        if kind is not None:
            page.give(kind, np.array([row]), columns_of(line.template, values), label)

    def _kind(self, key: tuple[object, ...], form: Format, line: Line, counted: bool = False) -> int | None:
        """The kind of a Line; None for one more where its table has too many shapes."""
        key = (form.name, line.name, *key)
        if key not in self._kinds:
            count = self._count.get((form.name, line.name), 0)
            if counted and count >= MOST:
                more = f"rows of table `{line.name}` ({form.name}) have more than {MOST} shapes: others stay unread"
                self.warnings += [more] if more not in self.warnings else []
                return None
            self._count[form.name, line.name] = count + counted
            self._kinds[key] = self._add((form, line))
        return self._kinds[key]


def adder(lines: list[FormatLine]) -> Callable[[FormatLine], int]:
    """What adds a Line to a list of lines, and gives its place there."""

    def add(kind: FormatLine) -> int:
        lines.append(kind)
        return len(lines) - 1

    return add


def _heads(lines: Sequence[FormatLine], batch: Batch) -> list[tuple[int, int, Open]]:
    """Row and rank label of the headers in a batch, and the table that each begins."""
    found = []
    for kind, records in batch.records.items():
        form, line = lines[kind]
        if isinstance(line.header_of, HeaderTable):
            labels = [-1] * len(records) if records.labels is None else records.labels.tolist()
            texts = batch.texts(records.places, _LONGEST)
            for row, label, text in zip(batch.rows(records.places).tolist(), labels, texts, strict=True):
                head = line.header_of.header(text if label < 0 else label_in_front(text.encode())[1].decode())
                if head is not None:  # two records glued onto one line
                    found.append((row, label, Open(form, head)))
    return sorted(found, key=lambda x: x[0])


def _with(batch: Batch, found: Mapping[int, list[Records]], lines: Sequence[FormatLine]) -> Batch:
    """The batch with more records, on lines that were unread."""
    records = dict(batch.records) | {kind: join(parts) for kind, parts in found.items()}
    taken = [r.places for kind, r in records.items() if kind in found]
    unread = batch.unread[~np.isin(batch.unread, np.concatenate(taken))] if taken else batch.unread
    read = {kind: lines[kind][1].read for kind in records}
    blank = batch.owner.get(BLANK, np.empty(0, np.int64))
    owner, unread = owners(records, blank, unread, read, bool(batch.chunk.returns))
    return Batch(batch.chunk, records, owner, unread, batch.starts, batch.ends, batch.places)
