"""What lines of progress bars become, and which line accounts for a physical line with several records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perflog.formats.model import BarFields, Line
from perflog.formats.template import DECLARED_DROPPED, Template
from perflog.parsing.input.chunks import as_chunk
from perflog.parsing.match.ordered.bar_roles import BAR_ELAPSED, line_for, with_kinds
from perflog.parsing.match.records import Records
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS
from perflog.units import UNITS

TEXT = "{n:d}/{of:d} [{time:k}] {loss:f} {_:d}"
FIELDS = BarFields("n", "of", "time", "rate", counts_steps=True)
STEP_FIELDS = BarFields("step", "", "elapsed", "rate", counts_steps=True)


def bar(text: str = TEXT, fields: BarFields | None = FIELDS, **more: Any) -> Line:
    return Line(
        "bar", Template(text), samples=("x",), bar=fields, **{"table": "values", "unit": {"time": UNITS["ms"]}} | more
    )


@pytest.mark.parametrize(
    ("line", "role", "text", "table", "changes"),
    [
        (bar(), "steps", "{step:d}/{of:d} [{elapsed:k}] {loss:f} {_:d}", "steps",
         {"clock": ("elapsed",), "clock_of_bar": True, "run": ("of",), "unit": {"elapsed": UNITS["ms"]}}),
        (bar(fields=BarFields("n", "", "", "rate", True)), "steps", TEXT.replace("{n", "{step"), "steps",
         {"clock": (), "run": (), "unit": {"time": UNITS["ms"]}}),
        (bar("{step:d} [{elapsed:k}]", STEP_FIELDS, table="steps", within="epoch"), "values",
         "{bar:d} [{bar_elapsed:k}]", "values", {"within": None, "run": ()}),
        (bar("{n:d} [{elapsed:k}]", table="steps"), "values", "{n:d} [{bar_elapsed:k}]", "values", {"within": None}),
        (bar("{step:d} {bar:d}", STEP_FIELDS, table="steps"), "values", "{step:d} {bar:d}", "values", {}),  # it has one
        (bar(), "values with step", "{step:d}/{of:d} [{__:k}] {loss:f} {_:d}", "values",
         {"clock": (), "run": ("of",)}),
        (bar("{step:d} [{elapsed:k}]", STEP_FIELDS, dropped={"x": "it is so"}), "values with step",
         "{step:d} [{elapsed:k}]", "values", {"run": ()}),
    ],
)  # fmt: skip
def test_what_a_state_becomes(line: Line, role: str, text: str, table: str, changes: dict[str, Any]) -> None:
    found = line_for(line, role)
    assert (found.template.text, found.table) == (text, table)
    assert found.under_header and found.samples == ()
    assert {name: getattr(found, name) for name in changes} == changes


def test_a_state_that_is_a_row_already_stays() -> None:
    for line, role in ((bar(table="steps"), "steps"), (bar(), "values")):
        assert line_for(line, role) is line


def test_why_a_state_is_dropped() -> None:
    dropped = line_for(bar(telling=True), "dropped")
    assert {field.name for field in dropped.template.fields} == {DECLARED_DROPPED}
    (reason,) = dropped.dropped.values()
    assert "the bar was drawn again" in reason and (dropped.table, dropped.telling, dropped.bar) == (None, True, FIELDS)
    assert line_for(bar(fields=None), "dropped").template.text == dropped.template.text
    beside = line_for(bar(dropped={"a": "it is so"}), "values with step").dropped[DECLARED_DROPPED]
    assert beside.startswith("it is so; the time since the bar began")


def test_a_line_that_takes_its_step_from_a_bar_has_its_clock() -> None:
    line = Line("x", Template("{loss:f}"), step_by="bar")
    found = line_for(line, "with step")
    assert found.clock == (BAR_ELAPSED,) and found.clock_of_bar and found.under_header
    assert found.unit == {BAR_ELAPSED: UNITS["s"]}
    for other in (
        Line("x", Template("{loss:f}"), step_by="line"),
        Line("x", Template("{t:f}"), step_by="bar", clock=("t",)),
    ):
        assert line_for(other, "with step").clock == other.clock and not line_for(other, "with step").clock_of_bar


def places(*lines: float) -> Any:
    """Positions of parts of lines: 2.1 is part 1 of line 2."""
    return np.array([(int(line) << PART_BITS) + round(10 * (line % 1)) for line in lines], np.int64)


def test_a_line_with_states_and_another_record_is_that_records() -> None:
    """Kind 0 are states, which become kinds 2 and 3; kind 1 reads what is beside them."""
    lines: Any = [
        (None, bar()), (None, Line("other", Template("{a:d}"))), (None, bar()), (None, bar()),
        (None, Line("known", Template("{a:d}"), role="context")),
    ]  # fmt: skip
    batch = Scanner([]).scan(as_chunk(b""))
    batch.records = {0: Records(places(1, 2, 3, 4.1)), 1: Records(places(2.1, 4, 5)), 4: Records(places(3.1))}
    batch.owner = {0: places(1, 2, 3), 1: places(4, 5), -1: places(6)}
    found = with_kinds(batch, lines, {0: {2: Records(places(1, 3)), 3: Records(places(2, 4.1))}})
    assert {kind: part.positions.tolist() for kind, part in found.records.items()} == {
        1: places(2.1, 4, 5).tolist(), 2: places(1, 3).tolist(), 3: places(2, 4.1).tolist(), 4: places(3.1).tolist(),
    }  # fmt: skip
    assert {kind: owned.tolist() for kind, owned in found.owner.items()} == {
        1: places(2.1, 4, 5).tolist(), 2: places(1, 3).tolist(), 3: [], -1: places(6).tolist(),
    }  # fmt: skip
    alone = with_kinds(batch, lines, {0: {2: Records(places(1))}})
    assert alone.owner[2].tolist() == places(1).tolist() and alone.owner[1].tolist() == places(4, 5).tolist()
    assert list(batch.owner) == [0, 1, -1]  # the batch itself stays
