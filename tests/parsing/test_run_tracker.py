"""Runs begin where the table of transitions says, and a question about a batch changes no run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perflog.formats.model import Line
from perflog.parsing.assemble.run_tracker import RunTracker
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS

NO_TEMPLATE: Any = None
A, B = SimpleNamespace(name="a"), SimpleNamespace(name="b")
LINES: Any = [
    (A, Line("banner", NO_TEMPLATE, before="run")),
    (A, Line("settings", NO_TEMPLATE, opens="run")),
    (A, Line("step", NO_TEMPLATE)),
    (A, Line("end", NO_TEMPLATE, closes="run")),
    (B, Line("other", NO_TEMPLATE)),
]
KINDS = {line.name: kind for kind, (_, line) in enumerate(LINES)}


def batch(text: str, first: int = 1) -> Any:
    """A batch of records: the names of their lines, in log order, one record per line."""
    names = text.split()
    records = {}
    for name in dict.fromkeys(names):
        lines = [first + i for i, other in enumerate(names) if other == name]
        records[KINDS[name]] = Records(np.array(lines, np.int64) << PART_BITS)
    return SimpleNamespace(records=records)


@pytest.mark.parametrize(
    ("text", "first_lines"),
    [
        ("settings step step", [1]),
        ("step settings step", [1, 2]),  # an opening line after records
        ("settings settings step", [1, 2]),  # a second opening line
        ("banner settings step banner settings step", [1, 4]),  # the lines in front of an opening line
        ("settings step end step", [1, 4]),  # a record after the end
        ("settings step end settings step", [1, 4]),
        ("settings step end end", [1]),
        ("other settings step", [1, 2]),
        ("other banner settings step", [1, 2]),  # the banner belongs to the run that opens next
        ("other banner other settings step", [1, 4]),  # it does not: a record follows
        ("other settings other step", [1, 2]),
    ],
)
def test_runs_begin(text: str, first_lines: list[int]) -> None:
    whole = RunTracker()
    runs = [whole.first, *whole.starts(LINES, batch(text))]
    assert [run.first_line for run in runs] == first_lines
    by_line = RunTracker()
    runs = [by_line.first]
    for number, name in enumerate(text.split(), 1):
        runs += by_line.starts(LINES, batch(name, number))
    assert [run.first_line for run in runs] == first_lines
    assert whole.count == by_line.count == len(first_lines)


def test_a_question_about_a_batch_changes_no_run() -> None:
    tracker = RunTracker()
    tracker.starts(LINES, batch("other"))
    state = repr(tracker._machine), repr(tracker.first), tracker.count
    assert tracker.undecided(LINES, batch("banner", 2))
    assert not tracker.undecided(LINES, batch("banner settings step", 2))
    assert (repr(tracker._machine), repr(tracker.first), tracker.count) == state
