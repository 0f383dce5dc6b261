"""Scopes: the line that opened the scope of a record, or that closes its step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.formats.model import Line
from perflog.parsing.assemble.scopes import (
    Markers,
    OpenScopes,
    closes_step,
    closing_line,
    closing_markers,
    last_marker,
    markers_of,
    next_marker,
    opening_marker,
)
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS

NO_TEMPLATE: Any = None


def at(*lines: float) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Positions: 7.2 is the third record on line 7."""
    return np.array([(int(x) << PART_BITS) + round(x % 1 * 10) for x in lines], np.int64)


SORTED = st.lists(st.integers(0, 40), max_size=20).map(sorted)


@given(SORTED, st.lists(st.integers(0, 40), unique=True, max_size=10).map(sorted))
def test_the_marker_before_and_after_each_position(positions: list[int], markers: list[int]) -> None:
    before, after = (
        find(np.array(positions, np.int64), np.array(markers, np.int64)) for find in (last_marker, next_marker)
    )
    assert before.tolist() == [sum(m <= p for m in markers) - 1 for p in positions]
    assert after.tolist() == [sum(m < p for m in markers) for p in positions]


@pytest.mark.parametrize(
    ("markers", "positions", "expected"),
    [
        ((2, 5), (1, 2, 3, 6), [-1, 0, 0, 1]),
        ((2, 2.1), (3, 3.1), [0, 1]),  # two ranks open scopes on a line, and write two records on the next
        ((2, 2.1), (3,), [-1]),  # a single record may be of either
        ((2, 2.1), (3, 3.1, 3.2), [-1, -1, -1]),
        ((2, 2.1), (2, 2.1), [0, 1]),  # the opening lines themselves
        ((2, 2.2), (2.1, 2.3), [-1, -1]),  # the second one is opened after the first record
        ((1, 2, 2.1, 4), (1.1, 3, 3.1, 5), [0, 1, 2, 3]),
        ((2, 2.1), (1, 4, 4.1), [-1, 0, 1]),
        ((2, 3), (4, 4.1), [1, 1]),  # each on its own line: the last one
    ],
)
def test_the_opening_line_of_a_record(
    markers: tuple[float, ...], positions: tuple[float, ...], expected: list[int]
) -> None:
    assert opening_marker(at(*positions), Markers(at(*markers))).tolist() == expected


def test_markers_are_in_the_order_of_the_log_with_the_fields_of_all_lines() -> None:
    one = Line("one", NO_TEMPLATE, opens="step", set={"kind": "a"})
    two = Line("two", NO_TEMPLATE, opens="step")
    records = [
        (one, Records(at(1, 5), {"step": np.array([1, 3])})),
        (two, Records(at(3), {"step": np.array([2]), "loss": np.array([0.5])})),
    ]
    markers = markers_of(records)
    assert markers.positions.tolist() == at(1, 3, 5).tolist()
    assert markers.fields == {"step": [1, 2, 3], "loss": [None, 0.5, None], "kind": ["a", None, "a"]}
    numbers, known = markers.numbers("step")
    assert numbers.tolist() == [1, 2, 3] and known.all()
    numbers, known = markers.numbers("rank")
    assert not known.any() and len(numbers) == 3


@pytest.mark.parametrize("both_print", [True, False])
def test_closing_lines_of_two_kinds(both_print: bool) -> None:
    line = Line("end", NO_TEMPLATE, closes="step")
    other: dict[str, Any] = {"step": np.array([2])} if both_print else {}
    markers = closing_markers([(line, Records(at(1, 5), {"step": np.array([1, 3])})), (line, Records(at(3), other))])
    numbers, known = markers.numbers("step")
    assert markers.positions.tolist() == at(1, 3, 5).tolist()
    assert numbers[known].tolist() == ([1, 2, 3] if both_print else [1, 3])
    assert known.tolist() == [True, both_print, True]


def test_which_lines_close_steps() -> None:
    lines = [Line("a line", NO_TEMPLATE, closes=closes) for closes in (None, "run", "step", "epoch")]
    assert [closes_step(line) for line in lines] == [False, False, True, True]


def test_words_of_a_field_or_the_number_of_the_opening() -> None:
    markers = Markers(at(1, 2), {"phase": ["load", None]}, np.array([0, 0]), np.array([1, 2]))
    assert markers.words("phase", np.array([0, 1, -1])).to_pylist() == ["load", None, None]
    assert markers.words("section", np.array([1, 0, -1])).to_pylist() == ["2", "1", None]


# --- scopes within scopes ---------------------------------------------------------------------------------------------


def opened(positions: list[float], runs: list[int], **fields: list[Any]) -> Markers:
    return Markers(at(*positions), dict(fields), np.array(runs, np.int64))


def indices(scopes: OpenScopes, positions: list[float], runs: list[int]) -> dict[str, list[int]]:
    found = scopes.inherit(at(*positions), np.array(runs, np.int64))
    return {scope: inheritance.index.tolist() for scope, inheritance in found.items()}


def test_a_scope_ends_where_the_scope_around_it_is_opened_again() -> None:
    scopes = OpenScopes(["epoch", "batch"])
    scopes.update({"epoch": opened([1, 10], [0, 0]), "batch": opened([3, 12], [0, 0])})
    found = indices(scopes, [2, 4, 11, 13], [0, 0, 0, 0])
    assert found == {"epoch": [0, 0, 1, 1], "batch": [-1, 0, -1, 1]}


def test_a_scope_ends_with_its_run() -> None:
    scopes = OpenScopes(["batch"])
    scopes.update({"batch": opened([1], [0])})
    assert indices(scopes, [2, 5], [0, 1]) == {"batch": [0, -1]}


def test_openings_are_counted_within_their_run_over_stretches_of_the_log() -> None:
    scopes = OpenScopes(["batch"])
    scopes.update({"batch": opened([1, 2], [0, 0], step=[5, 6])})
    assert scopes.markers["batch"].counts.tolist() == [1, 2]
    scopes.update({"batch": opened([3, 4, 5], [0, 1, 1], epoch=[1, 2, 3])})
    markers = scopes.markers["batch"]
    assert markers.counts.tolist() == [1, 2, 3, 1, 2]
    assert markers.fields == {"step": [5, 6, None, None, None], "epoch": [None, None, 1, 2, 3]}
    assert indices(scopes, [2.1, 3.1], [0, 0]) == {"batch": [1, 2]}


def test_the_last_openings_are_remembered_however_many_there_were() -> None:
    scopes = OpenScopes(["batch"])
    scopes.update({"batch": opened([float(k) for k in range(1, 301)], [0] * 300)})
    scopes.update({"batch": opened([400], [0])})
    markers = scopes.markers["batch"]
    assert markers.counts[-1] == 301
    assert markers.positions.tolist() == at(*range(45, 301), 400).tolist()
    scopes.update({"batch": opened([500, 501], [1, 1])})  # the next run begins to count
    assert scopes.markers["batch"].counts[-3:].tolist() == [301, 1, 2]


def test_without_openings_nothing_is_inherited() -> None:
    scopes = OpenScopes(["batch"])
    scopes.update({"batch": Markers()})
    assert indices(scopes, [1], [0]) == {}


def test_the_last_record_before_a_closing_line_belongs_to_it() -> None:
    markers = Markers(at(3, 6), {"device": [0, 1]}, np.array([0, 1]))
    runs = np.array([0, 0, 1, 1])
    assert closing_line(at(1, 2, 5, 7), runs, markers, Markers()).index.tolist() == [-1, 0, 1, -1]
    assert closing_line(at(5), np.array([0]), markers, Markers()).index.tolist() == [-1]  # of another run


def test_all_records_of_a_scope_that_is_opened_belong_to_its_closing_line() -> None:
    markers, runs = Markers(at(5, 12), {"unit": ["us", "ms"]}, np.zeros(2, np.int64)), np.zeros(5, np.int64)
    found = closing_line(at(1, 3, 4, 6, 11), runs, markers, Markers(at(2, 10)))
    assert found.index.tolist() == [-1, 0, 0, -1, 1]
