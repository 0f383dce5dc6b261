"""Counts every line of a batch in the account of its run.

In: the lines that each kind accounts for, and the unread lines. Out: `RunState.shapes`, the rows of table `lines`
(status read, context or unread; shape; count; first_line; sample), and the last line of each run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.parsing.assemble.run_state import OTHER_SHAPES, SHAPES, RunIndex, ShapeCount
from perflog.parsing.match.records import BLANK, Batch, FormatLine, unread_shapes
from perflog.tables.row_order import PART_BITS


def count_lines(runs: RunIndex, lines: Sequence[FormatLine], batch: Batch) -> None:
    """Add the lines of a batch to the accounts of its runs."""
    new: list[tuple[ShapeCount | None, int]] = []  # shapes not seen before in their run, with the first place of each
    for kind, places in batch.owner.items():
        form, line = (None, None) if kind == BLANK else lines[kind]
        status = "read" if line is not None and line.read else "context"
        shape = "" if line is None else line.template.text
        for run, low, high in runs.split(places):
            first = places.item(low)
            new.append((run.count_lines(status, shape, high - low, first), first))
            if form is not None and line is not None:
                run.last_line = max(run.last_line, places.item(high - 1) >> PART_BITS)
                if line.read:
                    run.count_records(form, line, high - low)
    if len(batch.unread):
        new += _count_unread(runs, batch)
    _add_samples(new, batch)


def _count_unread(runs: RunIndex, batch: Batch) -> list[tuple[ShapeCount | None, int]]:
    """Count the unread lines by shape. Return as `new` in `count_lines`."""
    new: list[tuple[ShapeCount | None, int]] = []
    names, codes = unread_shapes(batch)
    for run, low, high in runs.split(batch.unread):
        distinct, first, counts = np.unique(codes[low:high], return_index=True, return_counts=True)
        for i in np.argsort(first).tolist():
            shape = names[distinct[i]]
            if len(run.shapes) >= SHAPES and ("unread", shape) not in run.shapes:
                shape = OTHER_SHAPES
            place = batch.unread.item(low + first[i])
            new.append((run.count_lines("unread", shape, int(counts[i]), place), place))
    return new


def _add_samples(new: Sequence[tuple[ShapeCount | None, int]], batch: Batch) -> None:
    """Give each new shape the text of its first line."""
    shapes = [(shape, place) for shape, place in new if shape is not None]
    if shapes:
        texts = batch.texts(np.array([place for _, place in shapes], np.int64))
        for (shape, _), text in zip(shapes, texts, strict=True):
            shape.sample = text
