"""Reads lines that hold an object by the shapes of the objects that a log has shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from perflog.arrays import Ints
from perflog.formats.figures import figure_spans
from perflog.formats.model import Line
from perflog.formats.object_shapes import ObjectShapes, bare, split
from perflog.parsing.match.captures import values_of
from perflog.parsing.match.records import Column, FormatLine


class ObjectLines:
    """Reads the lines of known shapes. A `kind` is an index into the lines that it is made of."""

    def __init__(self, lines: Sequence[FormatLine]) -> None:
        self._lines: dict[int, Line] = {}
        self._shapes: ObjectShapes[int] = ObjectShapes()
        for kind, (_, line) in enumerate(lines):
            if line.by_object and line.object is not None:
                self._lines[kind] = line
                self._shapes.add(kind, line.object)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def read(self, texts: Iterable[bytes]) -> list[tuple[int, Ints, dict[str, Column]]]:
        """Return for each kind that reads some of the strings their indices, and the values of its fields there."""
        found: dict[int, tuple[list[int], list[Sequence[bytes]]]] = {}
        for row, text in enumerate(texts):
            if (match := self._shapes.find(text)) is not None:
                rows, values = found.setdefault(match[0], ([], []))
                rows.append(row)
                values.append(match[1])
        return [
            (kind, np.array(rows, np.int64), _columns(self._lines[kind], values))
            for kind, (rows, values) in found.items()
        ]


def _columns(line: Line, values: Sequence[Sequence[bytes]]) -> dict[str, Column]:
    """Return the columns of the records of a line, given the values of each."""
    fields = [f for f in line.template.fields if not f.is_dropped]
    indices = line.object.fields if line.object is not None else ()
    columns = zip(fields, indices, strict=True)
    return {f.name: values_of(f, pa.array([bare(row[k]) for row in values], pa.binary())) for f, k in columns}


def figures_in_dropped_texts(line: Line, texts: Sequence[bytes]) -> list[Ints]:
    """Return for each dropped string of a line the number of its figures in each record."""
    indices = line.object.dropped if line.object is not None else ()
    counts = np.zeros((len(indices), len(texts)), np.int64)
    for row, parts in enumerate(map(split, texts)):
        if parts is not None:
            values = [bare(parts[1][k]).decode("utf-8", "replace") for k in indices]
            counts[:, row] = [len(figure_spans(value)) for value in values]
    return list(counts)
