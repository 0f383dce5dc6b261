"""What the lines of a batch mean for the runs: boundaries, other records, printed steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perflog.formats.model import Line
from perflog.parsing.assemble.runs.run_boundaries import BoundaryLine, Event, RecordKind, boundaries_of, records_between
from perflog.parsing.match.records import Records

NO_TEMPLATE: Any = None
A, B, LIBRARY = (SimpleNamespace(name=name, library=name == "library") for name in ("a", "b", "library"))


def line(**more: Any) -> Line:
    return Line("x", NO_TEMPLATE, **more)


def records(*positions: int, step: list[int] | None = None, labels: list[int] | None = None) -> Records:
    columns: Any = {} if step is None else {"step": np.array(step)}
    return Records(np.array(positions, np.int64), columns, None if labels is None else np.array(labels))


def read(
    *given: tuple[Any, Line, Records],
) -> tuple[list[BoundaryLine], dict[RecordKind, list[list[int]]], list[list[int]]]:
    """Boundary lines, positions of the other records by kind, and positions and numbers of the steps."""
    lines: Any = [(form, each) for form, each, _ in given]
    batch: Any = SimpleNamespace(records={kind: found for kind, (_, _, found) in enumerate(given) if len(found)})
    boundaries, others, steps = boundaries_of(lines, batch)
    places = {kind: [part.tolist() for part in parts] for kind, parts in others.items()}
    return boundaries, places, [steps.positions.tolist(), steps.steps.tolist()]


@pytest.mark.parametrize(
    ("more", "event"),
    [
        ({"opens": "run"}, Event.OPEN),
        ({"opens": "run", "each_process": True}, Event.JOIN),
        ({"closes": "run"}, Event.CLOSE),
        ({"before": "run"}, Event.START),
        ({"is_assumed": True}, Event.COMMAND),
    ],
)
def test_a_line_that_begins_or_ends_a_run(more: dict[str, Any], event: Event) -> None:
    boundaries, others, _ = read((A, line(**more), records(3, 7, labels=[5, -1])))
    assert boundaries == [BoundaryLine(3, event, "a", False, False, 5), BoundaryLine(7, event, "a", False, False, -1)]
    assert others == {}


def test_a_line_in_front_waits_for_the_opening_line_of_its_format() -> None:
    """Also if that is not printed yet."""
    for form, event in ((A, Event.BEFORE), (B, Event.START)):
        boundaries, _, _ = read((A, line(before="run"), records(3)), (form, line(opens="run"), records()))
        assert [each.event for each in boundaries] == [event]


def test_boundaries_are_in_log_order() -> None:
    boundaries, _, _ = read(
        (A, line(closes="run"), records(4, 9)), (A, line(opens="run", table="steps"), records(2, 6)),
        (B, line(opens="process", before="run"), records(5)), (B, line(opens="run", table="runs"), records(8)),
    )  # fmt: skip
    assert [(each.position, each.event.name, each.starts_process, each.has_rows) for each in boundaries] == [
        (2, "OPEN", False, True), (4, "CLOSE", False, False), (5, "BEFORE", True, False), (6, "OPEN", False, True),
        (8, "OPEN", False, False), (9, "CLOSE", False, False),
    ]  # fmt: skip


RUN_LINE = (A, line(closes="run"), records())


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ((A, line(table="steps"), records(1, step=[7])), RecordKind("a", True, False, True)),
        ((A, line(table="steps"), records(1)), RecordKind("a", True, False, False)),
        ((A, line(table="values"), records(1, step=[7])), RecordKind("a", False, False, True)),
        ((A, line(table="phases"), records(1, step=[7])), RecordKind("a", False, False, False)),
        ((A, line(), records(1)), RecordKind("a", False, False, False)),
        ((A, line(table="milestones"), records(1)), RecordKind("a", False, True, False)),
        ((B, line(table="steps"), records(1, step=[7])), RecordKind("b", True, False, True)),
        ((B, line(table="values"), records(1, step=[7])), RecordKind("b", False, True, True)),  # it bounds no run
        ((LIBRARY, line(table="steps"), records(1, step=[7])), RecordKind("library", True, True, False)),
        ((LIBRARY, line(opens="run"), records(1)), RecordKind("library", False, True, False)),
    ],
)
def test_what_other_records_mean(given: tuple[Any, Line, Records], kind: RecordKind) -> None:
    """Beside a program whose lines bound runs, and which has rows."""
    boundaries, others, steps = read(given, RUN_LINE, (A, line(table="steps"), records()))
    assert (boundaries, others) == ([], {kind: [[1]]})
    assert steps == ([[1], [7]] if kind.counts else [[], []])


def test_lines_that_are_only_known_or_are_facts_mean_nothing() -> None:
    assert read((A, line(role="context"), records(1)), (A, line(is_fact=True, table="runs"), records(2))) == (
        [], {}, [[], []]
    )  # fmt: skip


def test_a_library_bounds_runs_where_no_program_has_rows() -> None:
    given = (LIBRARY, line(opens="run"), records(3))
    assert [each.event for each in read(given)[0]] == [Event.OPEN]
    assert [each.event for each in read(given, (A, line(), records(1)))[0]] == [Event.OPEN]
    command = (LIBRARY, line(is_assumed=True), records(3))
    assert [each.event for each in read(command, (A, line(table="steps"), records(1)))[0]] == [Event.COMMAND]


@pytest.mark.parametrize(
    ("kind", "edge", "event"),
    [("restore", "begin", Event.RESUME), ("restore", "end", Event.RESUME), ("startup", "begin", Event.RESTART),
     ("startup", "end", None), ("save", "begin", None)],
)  # fmt: skip
def test_milestones_may_begin_another_attempt(kind: str, edge: str, event: Event | None) -> None:
    boundaries, others, _ = read(
        (A, line(table="milestones", set={"kind": kind, "edge": edge}), records(3, labels=[4]))
    )
    assert boundaries == ([] if event is None else [BoundaryLine(3, event, "a", False, False, 4)])
    assert list(others.values()) == [[[3]]]


def test_settings_are_boundaries_of_their_kind_of_line() -> None:
    """Not those of a library, nor of a line that opens the run."""
    boundaries, others, _ = read(
        (A, line(table="steps"), records(9)), (A, line(table="runs"), records(2, 5)),
        (A, line(table="runs"), records(3)), (LIBRARY, line(table="runs"), records(4)),
        (A, line(table="runs", opens="run"), records(6)),
    )  # fmt: skip
    assert [(each.position, each.event, each.label) for each in boundaries] == [
        (2, Event.CONFIGURE, 1), (3, Event.CONFIGURE, 2), (5, Event.CONFIGURE, 1), (6, Event.OPEN, -1)
    ]  # fmt: skip
    assert sorted(place for parts in others.values() for part in parts for place in part) == [2, 3, 4, 5, 9]


def test_records_between_boundaries() -> None:
    one, two = RecordKind("a", True, False, True), RecordKind("b", False, False, False)
    places = {one: [np.array([1, 5]), np.array([2])], two: [np.array([4, 9])]}
    for boundaries, gaps in (
        ([3, 6], [[one], [one, two], [two]]), ([], [[one, two]]), ([0, 10], [[], [one, two], []]),
        ([5, 9], [[one, two], [one], [two]]),  # at the place of a record: that comes after
    ):  # fmt: skip
        assert records_between(np.array(boundaries, np.int64), places) == gaps
