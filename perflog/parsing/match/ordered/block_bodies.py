"""Assigns lines to the block that is open above them, in log order.

The lines of a printed frame, as rocm-smi prints it, look like the lines of any other table. So the scan reads only
the line that begins such a block. This pass follows the scan, and reads the lines under it that the scan left unread,
and the rule above it. The block ends at the first line that is not part of it; empty lines do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perflog.parsing.match.ordered.segments import Segments, rows_and_labels, stretches, with_records
from perflog.parsing.match.rank_labels import split_rank_label
from perflog.parsing.match.records import Batch, FormatLine

OpenBlocks = Mapping[int, FormatLine]
"""The first lines of the open blocks at a position in the log, by the rank label before their lines, -1 for none."""


def read_bodies(
    lines: Sequence[FormatLine], batch: Batch, open_blocks: OpenBlocks, logs: Sequence[int] = ()
) -> tuple[Batch, OpenBlocks]:
    """Read the lines of blocks in a batch.

    Args:
        lines: the lines of the scanner.
        batch: the batch as scanned.
        open_blocks: the blocks that are open where the batch begins.
        logs: the row at which each log but the first begins, where several are read together.

    Returns:
        The batch with these lines, and the blocks that are open where it ends.
    """
    begins = _begins(lines, batch)
    if not begins and not open_blocks:
        return batch, open_blocks
    segments = Segments(batch)
    still_open: dict[int, FormatLine] = {}
    for label, blocks in stretches(open_blocks, begins, len(batch.starts), logs):
        for row, begin, stop in blocks:
            bodies = _bodies(lines, begin)
            _read_rule_above(segments, lines, bodies, row, label)
            is_open = _read_body(segments, lines, bodies, range(row + 1, stop), label)
        if is_open:  # the last block of this label
            still_open[label] = begin
    return with_records(batch, segments.records, lines), still_open


def ends_with_body(lines: Sequence[FormatLine], batch: Batch) -> bool:
    """Return whether the batch ends with a line that may be above a block: only the next batch shows it."""
    bodies = [kind for kind, (_, line) in enumerate(lines) if line.role == "body" and line.under_header]
    if not len(batch.unread) or int(batch.rows(batch.unread[-1:])[0]) != len(batch.starts) - 1:
        return False
    text = split_rank_label(batch.texts(batch.unread[-1:])[0].encode())[1].decode()
    return _is_rule(text) and _kind_of(lines, bodies, text) is not None


def _begins(lines: Sequence[FormatLine], batch: Batch) -> list[tuple[int, int, FormatLine]]:
    """Row, rank label and Line of the lines that begin a block with a body that is read here."""
    begins = []
    for kind, records in batch.records.items():
        if lines[kind][1].role == "begin" and not lines[kind][1].under_header and _bodies(lines, lines[kind]):
            begins += [(row, label, lines[kind]) for row, label in rows_and_labels(batch, records)]
    return sorted(begins, key=lambda begin: begin[0])


def _bodies(lines: Sequence[FormatLine], begin: FormatLine) -> list[int]:
    """Return the kinds of the lines in a block that are read here."""
    return [
        kind
        for kind, (form, line) in enumerate(lines)
        if form is begin[0] and line.name == begin[1].name and line.role == "body" and line.under_header
    ]


def _read_body(segments: Segments, lines: Sequence[FormatLine], bodies: Sequence[int], rows: range, label: int) -> bool:
    """Read the lines of a block in some segments; return whether it is still open after them."""
    for row, text in segments.lines(rows, label):
        if not text.strip():
            continue
        kind = _kind_of(lines, bodies, text) if segments.unread[row] else None
        if kind is None:
            return False
        segments.add(kind, np.array([row]), {}, label)
    return True


def _read_rule_above(
    segments: Segments, lines: Sequence[FormatLine], bodies: Sequence[int], row: int, label: int
) -> None:
    """A rule above the first line is part of the block."""
    above = segments.above(row, label)
    kind = _kind_of(lines, bodies, above[1]) if above is not None and _is_rule(above[1]) else None
    if above is not None and kind is not None:
        segments.add(kind, np.array([above[0]]), {}, label)


def _kind_of(lines: Sequence[FormatLine], bodies: Sequence[int], text: str) -> int | None:
    """Return the kind of the first of some lines that reads a string."""
    return next((kind for kind in bodies if lines[kind][1].template.match(text.rstrip()) is not None), None)


def _is_rule(text: str) -> bool:
    return not any(character.isalnum() for character in text)
