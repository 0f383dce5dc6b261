"""Reads headings of words above indented lines that measure something: the heading names the case of these lines.

    Storage Read:
      - Device P95: 27.5 ms
    Storage Write:
      - Device P95: 9.5 ms

Only the lines below such a line show that it is a heading, and only a name that comes again below another heading shows
that both are cases of one measurement. So this pass follows the scan. No measured line may come after them that is
not below a heading: nothing says where the last case ends. Only a log that is read at once shows all of that.

Lines that are not indented measure a case too, where words with a colon are above each of several equal blocks, and
nothing is measured outside of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from perflog.formats.families.measured_lines import ENDS_IN_SETTINGS
from perflog.formats.families.title_lines import HEADING, TITLE, heading_parts
from perflog.formats.model import Line
from perflog.formats.template import Template, literal
from perflog.parsing.match.captures import columns_of
from perflog.parsing.match.ordered.segments import Segments, with_records
from perflog.parsing.match.records import Batch, FormatLine, Records

_LONGEST = 200  # bytes of a heading and its indentation


class _Heading(NamedTuple):
    row: int
    parts: tuple[str, str, str]  # what is before the heading, the heading, what is after it
    indent: int
    key: str  # the name of the first figure below it
    kind: int  # the kind of the line below it


def with_headings(lines: list[FormatLine], batch: Batch) -> Batch:
    """Return the batch with its headings. Their Lines are added to the lines of the scanner."""
    kinds = [kind for kind in batch.records if lines[kind][1].may_be_setting]
    is_whole = batch.chunk.first_line == 1 and batch.chunk.is_last
    if not is_whole or not kinds or not len(batch.unread):
        return batch
    kind_of_row = {row: kind for kind in kinds for row in batch.rows(batch.records[kind].positions).tolist()}
    headings = _headings(lines, batch, kind_of_row)
    times = Counter(heading.key for heading in headings)
    headings = [heading for heading in headings if times[heading.key] > 1]
    outer = max((heading.indent for heading in headings), default=0)
    below = (row for row in kind_of_row if headings and row > headings[0].row)
    if not headings or any(_indent(batch, row) <= outer for row in below):
        headings = _of_equal_blocks(lines, batch, kind_of_row)
    if not headings:
        return batch
    new: dict[int, list[Records]] = {}
    kind_of = dict[tuple[str, str], int]()
    for heading in headings:
        before, words, after = heading.parts
        kind = kind_of.setdefault((before, after), len(lines))
        if kind == len(lines):
            template = Template(f"{literal(before)}{{{HEADING}:s}}{literal(after)}")
            lines.append((lines[heading.kind][0], Line(HEADING, template, table="values", under_header=True)))
        positions = batch.positions_of(np.array([heading.row]))
        fields = columns_of(lines[kind][1].template, {HEADING: words})
        new.setdefault(kind, []).append(Records(positions, dict(fields)))
    return with_records(batch, new, lines)


def _headings(lines: Sequence[FormatLine], batch: Batch, kind_of_row: dict[int, int]) -> list[_Heading]:
    """Return the unread lines that may be headings, in log order: the line below each measures and is indented more.

    `kind_of_row`: the rows of all measured lines, each with its kind.
    """
    segments, found = Segments(batch), list[_Heading]()
    for below, kind in kind_of_row.items():
        row = below - 1
        if not _may_be_heading(segments, row) or _indent(batch, row) >= _indent(batch, below):
            continue
        text = _text(segments, row)
        parts, name = heading_parts(text), _first_name(lines[kind])
        if parts is not None and name and not ENDS_IN_SETTINGS.match(text):
            found.append(_Heading(row, parts, _indent(batch, row), name, kind))
    return sorted(found)


def _of_equal_blocks(lines: Sequence[FormatLine], batch: Batch, kind_of_row: dict[int, int]) -> list[_Heading]:
    """Return the headings of all measured lines, if each is above a block of lines of the same kinds.

    A title may be between, such as the settings of the case. Else the lines of a block follow each other.
    """
    titles = [kind for kind in batch.records if lines[kind][1].name == TITLE]
    between = {row for kind in titles for row in batch.rows(batch.records[kind].positions).tolist()}
    segments, found, kinds = Segments(batch), list[_Heading](), list[list[int]]()
    last = -1
    for row, kind in sorted(kind_of_row.items()):
        first = row - 1
        while first in between:
            first -= 1
        if last >= 0 and first == last:
            kinds[-1].append(kind)
        else:
            text = _text(segments, first) if _may_be_heading(segments, first) else ""
            parts, name = heading_parts(text), _first_name(lines[kind])
            if parts is None or ":" not in parts[2] or not name or ENDS_IN_SETTINGS.match(text):
                return []
            found.append(_Heading(first, parts, 0, name, kind))
            kinds.append([kind])
        last = row
    are_equal = len(kinds) > 1 and all(block == kinds[0] for block in kinds)
    return found if are_equal and len({heading.parts for heading in found}) == len(found) else []


def _may_be_heading(segments: Segments, row: int) -> bool:
    """Return whether a row is an unread line that is short enough for a heading."""
    batch = segments.batch
    return bool(row >= 0 and segments.unread[row] and batch.ends[row] - batch.starts[row] <= _LONGEST)


def _text(segments: Segments, row: int) -> str:
    """Return the string of a segment, with its rank label."""
    ((_, text),) = segments.lines(range(row, row + 1), -1)
    return text


def _first_name(line: FormatLine) -> str:
    """Return the name of the first figure of a line; "" if it has none."""
    return next(iter(line[1].template.names), "")


def _indent(batch: Batch, row: int) -> int:
    """Return the number of spaces before a line."""
    raw = bytes(memoryview(batch.chunk.data)[int(batch.starts[row]) : int(batch.ends[row])])
    return len(raw) - len(raw.lstrip(b" \t"))
