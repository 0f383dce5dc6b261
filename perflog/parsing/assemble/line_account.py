"""Counts every line of a batch in the account of its run.

In: the lines that each kind accounts for, and the unread lines. Out: `RunState.shapes`, the rows of table `lines`
(status read, context or unread; shape; count; first_line; sample), and the last line of each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perflog.parsing.assemble.run_state import OTHER_SHAPES, SHAPES, RunIndex, RunState, ShapeCount
from perflog.parsing.match.numeric import Ints
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
    add_samples(new, batch)


def _count_unread(runs: RunIndex, batch: Batch) -> list[tuple[ShapeCount | None, int]]:
    """Count the unread lines by shape. Return as `new` in `count_lines`."""
    new: list[tuple[ShapeCount | None, int]] = []
    for run, shape, indices in unread_in_runs(runs, batch, batch.unread):
        place = batch.unread.item(int(indices[0]))
        new.append((run.count_lines("unread", shape, len(indices), place), place))
    return new


def unread_in_runs(runs: RunIndex, batch: Batch, places: Ints) -> Iterator[tuple[RunState, str, Ints]]:
    """Yield run, shape and indices of unread lines, shape by shape in the order of the log.

    A run has a limited number of shapes; the shapes beyond it are one shape.
    """
    names, codes = unread_shapes(batch, places)
    for run, low, high in runs.split(places):
        order = np.argsort(codes[low:high], kind="stable")
        cuts = np.flatnonzero(np.diff(codes[low:high][order])) + 1
        groups = sorted(np.split(order + low, cuts), key=lambda indices: int(indices[0]))
        for indices in groups:
            shape = names[codes[indices[0]]]
            if len(run.shapes) >= SHAPES and ("unread", shape) not in run.shapes:
                shape = OTHER_SHAPES
            yield run, shape, indices


def add_samples(new: Sequence[tuple[ShapeCount | None, int]], batch: Batch) -> None:
    """Give each new shape the text of its first line."""
    shapes = [(shape, place) for shape, place in new if shape is not None]
    if shapes:
        texts = batch.texts(np.array([place for _, place in shapes], np.int64))
        for (shape, _), text in zip(shapes, texts, strict=True):
            shape.sample = text
