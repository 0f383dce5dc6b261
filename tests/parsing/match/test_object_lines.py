"""Lines that hold an object are read by the shapes of objects that a log has shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from perflog.formats.model import Format, Line
from perflog.formats.object_shapes import ObjectShape, split
from perflog.formats.template import Template
from perflog.parsing.match.object_lines import ObjectLines, figures_in_dropped_texts
from perflog.parsing.match.records import FormatLine

FORMAT = Format("own", Path(), "", "", (), None, (), (), ())


def line(template: str, sample: bytes, fields: tuple[int, ...], dropped: tuple[int, ...] = ()) -> FormatLine:
    """A line that is read by the shape of a sample."""
    parts = split(sample)
    assert parts is not None
    shape = ObjectShape(parts[0], (), fields, dropped)
    return FORMAT, Line("x", Template(template), object=shape, by_object=True)


STEP = line(
    '{{"step": {step:d}, "note": "{_:s}", "loss": {loss:f}, "kind": "{kind:s}"}}',
    b'{"step": 1, "note": "x", "loss": 0.5, "kind": "a"}', (0, 2, 3), (1,),
)  # fmt: skip
RATE = line('{{"rate": {rate:d}}}', b'{"rate": 1}', (0,))


def read(lines: list[FormatLine], *texts: bytes) -> list[tuple[int, list[int], dict[str, list[Any]]]]:
    """Kind, indices and values of the lines that are read."""
    return [
        (kind, rows.tolist(), {name: column.tolist() if not isinstance(column, pa.Array) else column.to_pylist()
                               for name, column in columns.items()})
        for kind, rows, columns in ObjectLines(lines).read(texts)
    ]  # fmt: skip


def test_values_are_those_of_the_fields_in_their_order() -> None:
    texts = (
        b'{"step": 7, "note": "5 of 6", "loss": 2.5, "kind": "b"}', b'{"rate": 3}', b"words", b'{"other": 3}',
        b'{"step": 8, "note": "", "loss": -1.5, "kind": "c"}', b'{"rate": 4}',
    )  # fmt: skip
    assert read([STEP, RATE], *texts) == [
        (0, [0, 4], {"step": [7, 8], "loss": [2.5, -1.5], "kind": ["b", "c"]}), (1, [1, 5], {"rate": [3, 4]})
    ]  # fmt: skip
    assert read([STEP]) == []


def test_only_lines_that_are_read_by_their_object_are() -> None:
    by_template = replace(RATE[1], by_object=False)
    without = replace(RATE[1], object=None)
    lines = [(FORMAT, by_template), (FORMAT, without)]
    assert not ObjectLines(lines) and not ObjectLines([])
    assert read(lines, b'{"rate": 3}') == []
    assert ObjectLines([*lines, RATE])
    assert read([*lines, RATE], b'{"rate": 3}') == [(2, [0], {"rate": [3]})]


def test_figures_in_strings_that_are_dropped_are_counted() -> None:
    texts = [
        b'{"step": 7, "note": "5 of 6", "loss": 2.5, "kind": "b 9"}', b"no object",
        b'{"step": 8, "note": "none", "loss": 2.5, "kind": "c"}',
    ]  # fmt: skip
    assert [counts.tolist() for counts in figures_in_dropped_texts(STEP[1], texts)] == [[2, 0, 0]]
    assert figures_in_dropped_texts(RATE[1], texts) == []
    assert figures_in_dropped_texts(replace(STEP[1], object=None), texts) == []
