"""Assigns table rows to the header above them, in log order.

Rows under different headers may look alike, so a row cannot be identified by its content. Headers are found like other
lines, wherever a chunk is scanned. This pass follows the scan, chunk after chunk in order, and reads the lines under
each header that the scan left unread. A table ends at the first line that is not part of it; empty lines and
warnings of Python do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Ints
from perflog.formats.families.cell_cutting import is_rule
from perflog.formats.families.cell_forms import PYTHON_WARNING
from perflog.formats.families.header_tables import (
    Header,
    HeaderTable,
    continuation_line,
    rule_line,
    title_line,
)
from perflog.formats.families.title_lines import IS_TAGS, TABLE_TITLE, table_title_parts
from perflog.formats.model import Format, Line
from perflog.formats.template import Value
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.captures import columns_of
from perflog.parsing.match.ordered.segments import MAX_LENGTH, Segments, rows_and_labels, stretches, with_records
from perflog.parsing.match.ordered.table_cells import read_rows
from perflog.parsing.match.rank_labels import split_rank_label
from perflog.parsing.match.records import BLANK, Batch, FormatLine, Records

MAX_SHAPES = 256
"""Row shapes of one table; rows of further shapes stay unread."""

_WARNING = lazy_pattern(PYTHON_WARNING)
_LINES_TO_TITLE = 5  # above a header: its title, empty lines and rules
_FIRST_BLOCK, _GROWTH, _MAX_BLOCK = 256, 8, 1 << 16  # lines read together: few at first, for most tables are short


class OpenTable(Struct, frozen=True):
    """A table that may go on: its format, its header, and whether no row has been read yet."""

    format: Format
    header: Header
    is_new: bool = True


OpenTables = Mapping[int, OpenTable]
"""The open tables at a position in the log, by the rank label before their lines, -1 for none."""


class HeaderRowReader:
    """Reads the rows of one log's tables, batch after batch."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._lines: list[FormatLine] = []
        self._kinds: dict[tuple[object, ...], int] = {}
        self._shapes: dict[tuple[str, str], int] = {}  # number of row shapes by format and table

    def read(self, lines: list[FormatLine], batch: Batch, open_tables: OpenTables) -> tuple[Batch, OpenTables]:
        """Read the rows in a batch.

        Args:
            lines: the lines of the scanner; the Lines of the rows are added to them.
            batch: the batch as scanned.
            open_tables: the tables that are open where the batch begins.

        Returns:
            The batch with its rows, and the tables that are open where it ends.
        """
        headers = _headers(lines, batch)
        if not headers and not open_tables:
            return batch, open_tables
        self._lines, segments = lines, Segments(batch)
        still_open: dict[int, OpenTable] = {}
        for label, tables in stretches(open_tables, headers, len(batch.starts)):
            for row, table, stop in tables:
                among = _among(lines, table, batch)
                may_end = table.header.table.needs_rows and stop < len(batch.starts)
                end = _begin_of_title(segments, stop, label) if may_end else stop
                open_table = self._read_table(segments, table, range(row + 1, max(end, row + 1)), label, among)
            if open_table is not None:  # the last table of this label
                still_open[label] = open_table
        return with_records(batch, segments.records, lines), still_open

    def ends_with_rule(self, lines: Sequence[FormatLine], batch: Batch) -> bool:
        """Return whether the batch ends with a rule or a title that may be the top of a table.

        Only the next batch shows it.
        """
        formats = dict.fromkeys(format for format, _ in lines)
        tables = [family for format in formats for family in format.families if isinstance(family, HeaderTable)]
        if tables and any(family.needs_rows for family in tables) and _may_end_in_title(batch):
            return True
        if not len(batch.unread) or not tables:
            return False
        last = batch.unread[-1:]
        text = split_rank_label(batch.texts(last)[0].encode())[1].decode()
        below = np.arange(batch.rows(last)[0] + 1, len(batch.starts))
        if not len(below) and is_rule(text):
            return True
        may_be_title = len(below) < _LINES_TO_TITLE and any(family.needs_rows for family in tables)
        are_empty = may_be_title and np.isin(below, batch.rows(batch.owner.get(BLANK, below[:0]))).all()
        return bool(are_empty) and table_title_parts(text) is not None

    def _read_table(
        self, segments: Segments, table: OpenTable, rows: range, label: int, among: set[int]
    ) -> OpenTable | None:
        """Read the lines of a table in some segments; return the table if it is still open after them."""
        if table.is_new and rows.start:
            self._read_rule_above(segments, table, rows.start - 1, label)
            if table.header.table.needs_rows:
                header = self._read_title_above(segments, table, rows.start - 1, label)
                table = replace(table, header=header)
        size = _FIRST_BLOCK
        while len(rows):
            open_table, end = self._read_block(segments, table, rows[:size], label, among)
            if open_table is None:
                return None
            table, rows, size = open_table, range(end, rows.stop), min(size * _GROWTH, _MAX_BLOCK)
        return table

    def _read_rule_above(self, segments: Segments, table: OpenTable, header: int, label: int) -> None:
        """A rule above a header is part of the table."""
        above = segments.above(header, label)
        if above is not None and is_rule(above[1]):
            self._add_non_row(segments, table.format, above[0], rule_line(above[1]), {}, label)

    def _read_title_above(self, segments: Segments, table: OpenTable, header: int, label: int) -> Header:
        """Read the line above the header of a table of any program, if it is a title: empty lines may be between.

        Return the header with the unit that the title gives, or the heading above this title.
        """
        level = 0
        above = _lines_above(segments, header, label)
        rules = _rules_around(above)
        for row, text in reversed(above):
            if row in rules and segments.unread[row]:
                self._add_non_row(segments, table.format, row, rule_line(text), {}, label)
        for row, text in above:
            if not text.strip() or IS_TAGS.fullmatch(text) or (is_rule(text) and not segments.unread[row]):
                continue
            parts = table_title_parts(text)
            if parts is not None and not level and segments.unread[row]:
                before, title, after = parts
                self._add_non_row(segments, table.format, row, title_line(before, after), {TABLE_TITLE: title}, label)
            own_level = len(text) - len(text.lstrip("#"))
            if parts is None or (level and not 0 < own_level < level):
                break
            with_unit = table.header.with_unit_of_title(parts[1])
            if with_unit is not table.header or not own_level:
                return with_unit
            level = own_level
        return table.header

    def _read_block(
        self, segments: Segments, table: OpenTable, rows: range, label: int, among: set[int]
    ) -> tuple[OpenTable | None, int]:
        """Read the lines of a table in a block of segments.

        Returns:
            The table if it is still open after them; and where they end: the names of other columns end a block.
        """
        header, is_new, end = table.header, table.is_new, rows.stop
        non_rows: list[tuple[int, Line, dict[str, Value]]] = []
        candidates: list[int] = []  # segments of what may be rows
        cells: list[Sequence[str]] = []
        for row, printed in segments.lines(rows, label):
            text = header.without_prefix(printed)
            if not printed.strip() or text == "" or row in among or _WARNING.match(printed):
                continue
            part = header.part(text, is_new) if text is not None and segments.unread[row] else None
            if part is None:
                end = row
                break
            if (
                text is not None
                and isinstance(part, tuple)
                and cells
                and (whole := header.continued(cells[-1], text)) is not None
            ):
                cells[-1] = whole
                non_rows.append((row, continuation_line(text), {}))
            elif isinstance(part, tuple):
                candidates.append(row)
                cells.append(part)
                is_new = False
            elif cells and part.header.names != header.names:
                rows, end = range(rows.start, row), row
                break
            else:
                header = part.header
                non_rows.append((row, part.line, part.values))
        shapes, count = read_rows(header, cells) if cells else ([], 0)
        end = candidates[count] if count < len(candidates) else end
        table = replace(table, header=header, is_new=is_new)
        for shape, records in shapes:
            self._add_rows(segments, table, shape, np.array(candidates, np.int64)[records.positions], records, label)
        for row, line, values in non_rows:
            if row < end:
                self._add_non_row(segments, table.format, row, line, values, label)
        return table if end == rows.stop else None, end

    def _add_rows(
        self, segments: Segments, table: OpenTable, shape: Sequence[int], rows: Ints, records: Records, label: int
    ) -> None:
        first = int(rows[0])
        _, text = next(segments.lines(range(first, first + 1), label))
        line = table.header.row(shape, table.header.without_prefix(text) or "")
        kind = self._kind((table.header.names, table.header.units, tuple(shape)), table.format, line, is_row=True)
        if kind is not None:
            segments.add(kind, rows, {name: records.columns[name] for name in line.template.names}, label)

    def _add_non_row(
        self, segments: Segments, format: Format, row: int, line: Line, values: Mapping[str, Value], label: int
    ) -> None:
        """Add a line that is no row: a rule, a row of units, or an inner line of the table."""
        kind = self._kind((line.template.text, line.role), format, line)
        if kind is not None:
            segments.add(kind, np.array([row]), columns_of(line.template, values), label)

    def _kind(self, key: tuple[object, ...], format: Format, line: Line, is_row: bool = False) -> int | None:
        """The kind of a Line; None for a further row shape of a table that has too many."""
        table = format.name, line.name
        key = (*table, *key)
        if key not in self._kinds:
            count = self._shapes.get(table, 0)
            if is_row and count >= MAX_SHAPES:
                limit = f"have more than {MAX_SHAPES} shapes: others stay unread"
                warning = f"rows of table `{line.name}` ({format.name}) {limit}"
                self.warnings += [warning] if warning not in self.warnings else []
                return None
            self._shapes[table] = count + is_row
            self._kinds[key] = len(self._lines)
            self._lines.append((format, line))
        return self._kinds[key]


def _lines_above(segments: Segments, header: int, label: int) -> list[tuple[int, str]]:
    """Return the lines above a header among which its title is, from the last one upwards."""
    return [*segments.lines(range(max(header - _LINES_TO_TITLE, 0), header), label)][::-1]


def _may_end_in_title(batch: Batch) -> bool:
    """Return whether a batch ends in a part of a title between rules: a table before it takes it for a row."""
    count = len(batch.starts)
    above = Segments(batch).lines(range(max(count - _LINES_TO_TITLE, 0), count), -1)
    texts = [
        split_rank_label(text.encode("utf-8", "surrogateescape"))[1].decode("utf-8", "replace") for _, text in above
    ]
    texts = [text for text in texts if text.strip()]
    if not texts or is_rule(texts[-1]):
        return bool(texts)
    return len(texts) > 1 and is_rule(texts[-2]) and table_title_parts(texts[-1]) is not None


def _begin_of_title(segments: Segments, header: int, label: int) -> int:
    """Return where a title between rules begins that is above a header, else the header: no row of the table before."""
    return min(_rules_around(_lines_above(segments, header, label)), default=header)


def _rules_around(lines: Sequence[tuple[int, str]]) -> set[int]:
    """Return the rules above and below a title, given the lines above a header from the last one upwards.

    A rule that is below a line alone may end what is above it.
    """
    lines = [line for line in lines if line[1].strip()]
    if len(lines) < len(("rule", "title", "rule")):
        return set()
    (below, first), (_, title), (above, last) = lines[:3]
    is_title = not is_rule(title) and table_title_parts(title) is not None
    return {below, above} if is_rule(first) and is_rule(last) and is_title else set()


def _headers(lines: Sequence[FormatLine], batch: Batch) -> list[tuple[int, int, OpenTable]]:
    """Row and rank label of the headers in a batch, and the table that each begins."""
    headers = []
    for kind, records in batch.records.items():
        format, line = lines[kind]
        if isinstance(line.header_of, HeaderTable):
            texts = batch.texts(records.positions, MAX_LENGTH)
            for (row, label), text in zip(rows_and_labels(batch, records), texts, strict=True):
                header = line.header_of.opened_by(text if label < 0 else split_rank_label(text.encode())[1].decode())
                if header is not None:  # None: the line is only a part of a torn record
                    headers.append((row, label, OpenTable(format, header)))
    return sorted(headers, key=lambda header: header[0])


def _among(lines: Sequence[FormatLine], table: OpenTable, batch: Batch) -> set[int]:
    """Return the rows of the lines of the format that may be among the rows of a table."""
    names, records = table.header.table.among, batch.records
    kinds = [k for k in records if lines[k][0] is table.format and lines[k][1].name in names] if names else []
    return {row for kind in kinds for row in batch.rows(records[kind].positions).tolist()}
