"""Runs begin where the table of transitions says, and a question about a batch changes no run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.formats.model import Line
from perflog.parsing.assemble.run_tracker import RunTracker
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS

NO_TEMPLATE: Any = None
A, B, C, LIBRARY = (SimpleNamespace(name=name, library=name == "library") for name in ("a", "b", "c", "library"))
LINES: Any = [
    (A, Line("banner", NO_TEMPLATE, before="run")),
    (A, Line("settings", NO_TEMPLATE, opens="run")),
    (A, Line("step", NO_TEMPLATE)),
    (A, Line("end", NO_TEMPLATE, closes="run")),
    (A, Line("process", NO_TEMPLATE, opens="run", each_process=True)),
    (B, Line("other", NO_TEMPLATE, table="steps")),
    (C, Line("value", NO_TEMPLATE, table="values")),  # of a program that opens no runs
    (LIBRARY, Line("timer", NO_TEMPLATE, table="phases")),
    (LIBRARY, Line("start", NO_TEMPLATE, opens="run")),
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
        ("value settings step", [1]),  # values of a program without runs of its own join
        ("timer settings timer step timer", [1]),
        ("timer settings step end timer timer settings step", [1, 7]),
        ("start settings step start step", [1]),  # the library opens none where a program prints
        ("banner timer settings step banner timer value settings step", [1, 5]),
        ("timer process timer process value process step timer", [1]),  # each process prints, libraries in between
        ("process other timer process other", [1, 4]),
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


def test_a_library_opens_runs_where_no_program_prints() -> None:
    tracker = RunTracker()
    of_library = [(form, line) for form, line in LINES if form is LIBRARY]
    records = {0: [2, 3, 5], 1: [1, 4]}
    batch_of = {kind: Records(np.array(lines, np.int64) << PART_BITS) for kind, lines in records.items()}
    runs = [tracker.first, *tracker.starts(of_library, SimpleNamespace(records=batch_of))]  # type: ignore[arg-type]
    assert [run.first_line for run in runs] == [1, 4]


@given(st.lists(st.sampled_from(["timer", "start", "value"]), max_size=12), st.data())
def test_joining_lines_begin_no_run_wherever_they_are(joining: list[str], data: st.DataObject) -> None:
    program = "banner settings step step end banner settings step settings step".split()
    names = list(program)
    for name in joining:
        names.insert(data.draw(st.integers(0, len(names))), name)
    tracker = RunTracker()
    tracker.starts(LINES, batch(" ".join(names)))
    assert tracker.count == 3


def test_a_question_about_a_batch_changes_no_run() -> None:
    tracker = RunTracker()
    tracker.starts(LINES, batch("other"))
    state = repr(tracker._machine), repr(tracker.first), tracker.count
    assert tracker.undecided(LINES, batch("banner", 2))
    assert not tracker.undecided(LINES, batch("banner settings step", 2))
    assert (repr(tracker._machine), repr(tracker.first), tracker.count) == state
