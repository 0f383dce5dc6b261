"""Counts every line of a batch in the account of its run.

In: the lines that each kind accounts for, and the unread lines. Out: `RunState.shapes`, the rows of table `lines`
(status read, context or unread; shape; count; first_line; sample), and the last line of each run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.arrays import Ints
from perflog.parsing.assemble.runs.run_state import OTHER_SHAPES, SHAPES, NewShapes, RunIndex
from perflog.parsing.match.figure_counts import count_figures
from perflog.parsing.match.records import BLANK, FAILURE, Batch, FormatLine, unread_shapes
from perflog.tables.row_order import PART_BITS

_OF_FAILURES = "message of a failure"


def count_lines(runs: RunIndex, lines: Sequence[FormatLine], batch: Batch) -> None:
    """Add the lines of a batch to the accounts of its runs."""
    new: NewShapes = []
    for kind, positions in batch.owner.items():
        form, line = (None, None) if kind in (BLANK, FAILURE) else lines[kind]
        status = "read" if kind == FAILURE or (line is not None and line.read) else "context"
        shape = _OF_FAILURES if kind == FAILURE else "" if line is None else line.template.text
        for run, low, high in runs.split(positions):
            run.shape(status, shape, positions.item(low), new).count += high - low
            if form is not None and line is not None:
                run.last_line = max(run.last_line, positions.item(high - 1) >> PART_BITS)
                if line.read:
                    run.count_records(form, line, high - low)
    for positions, are_lines in ((batch.unread, True), (batch.unread_parts, False)):
        if len(positions):
            _count_unread(runs, batch, positions, are_lines, new)
    if batch.failures is not None:
        _count_in_failures(runs, batch, batch.failures, new)
    add_samples(new, batch)


def _count_in_failures(runs: RunIndex, batch: Batch, positions: Ints, new: NewShapes) -> None:
    """Count the figures in the lines of failures."""
    figures = count_figures(batch.bytes_at(positions))
    for run, low, high in runs.split(positions):
        if number := int(figures[low:high].sum()):
            counted = run.shape("read", _OF_FAILURES, positions.item(low), new)
            counted.dropped += number
            counted.dropped_because = "part of a failure: table `failures` has its message"


def _count_unread(runs: RunIndex, batch: Batch, positions: Ints, are_lines: bool, new: NewShapes) -> None:
    """Count unread lines, or unread parts of lines, and their figures by shape.

    A run has a limited number of shapes; the shapes beyond it are one shape. Parts count only if they have figures: the
    lines are in the account already.
    """
    names, codes = unread_shapes(batch, positions)
    figures = count_figures(batch.bytes_at(positions))
    for run, low, high in runs.split(positions):
        shapes, first, inverse, counts = np.unique(
            codes[low:high], return_index=True, return_inverse=True, return_counts=True
        )
        sums = np.bincount(inverse, figures[low:high]).astype(np.int64).tolist()
        for i in np.argsort(first).tolist():
            if not (are_lines or sums[i]):
                continue
            shape = names[shapes[i]]
            if len(run.shapes) >= SHAPES and ("unread", shape) not in run.shapes:
                shape = OTHER_SHAPES
            counted = run.shape("unread", shape, positions.item(low + first[i]), new)
            counted.count += int(counts[i]) if are_lines else 0
            counted.unread += sums[i]


def add_samples(new: NewShapes, batch: Batch) -> None:
    """Give each new shape its first line as a sample."""
    texts = batch.texts(np.array([position for _, position in new], np.int64)) if new else []
    for (shape, _), text in zip(new, texts, strict=True):
        shape.sample = text
