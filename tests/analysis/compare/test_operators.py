"""Operators of two sides: what is one operator, and the operators that moved most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.figure_rows import made_sides
from support.trace_tables import by_hand, kernel

from perflog.analysis.compare.explanations import operators as module
from perflog.analysis.compare.explanations.operators import (
    ALL_WORK,
    ITSELF,
    Matched,
    OperatorRow,
    add_measures,
    changes_kernels,
    kernels_of_both,
    matched,
    matched_sides,
    moved_most,
    moved_text,
    operator_rows,
)
from perflog.analysis.compare.measures import SideValues
from perflog.analysis.compare.operator_trees import OperatorNode
from perflog.metrics.compared import STEP_TIME


def node(name: str, *inside: OperatorNode, shapes: str | None = None, kind: str = "operator", own: float = 0.0,
         run: str = "r", kernels: dict[str, float] | None = None) -> OperatorNode:  # fmt: skip
    made = OperatorNode(name, kind, shapes, {run: np.array([own])}, {run: 1.0}, kernels or {})
    made.inside = {each.key: each for each in inside}
    return made


def outline(pair: Matched) -> list[Any]:
    """Name and shapes of the operators inside, with those inside of these; b or s: of one side."""
    side = "b" if pair.side is None else "s" if pair.base is None else ""
    return [side + pair.name, pair.shapes_text, *map(outline, pair.inside)]


def of_both(base: list[OperatorNode], side: list[OperatorNode]) -> list[Any]:
    return outline(matched(node("", *base), node("", *side), (None, None)))[2:]


def test_operators_with_equal_shapes_are_one() -> None:
    base = [node("mm", shapes="2x3"), node("mm", shapes="4x5"), node("add")]
    side = [node("mm", shapes="4x5"), node("mm", shapes="2x3"), node("mul")]
    assert of_both(base, side) == [["mm", "2x3"], ["mm", "4x5"], ["badd", None], ["smul", None]]


def test_what_is_left_is_one_by_its_name() -> None:
    base = [node("mm", shapes="2x3"), node("mm", shapes="4x5"), node("mm", shapes="8x8")]
    side = [node("mm", shapes="8x8"), node("mm", shapes="9x9"), node("mm")]
    assert of_both(base, side) == [["mm", "8x8"], ["mm", "2x3; 4x5 -> 9x9"]]
    assert of_both([node("mm")], [node("mm", shapes="9")]) == [["mm", "- -> 9"]]
    assert of_both([node("mm", kind="range")], [node("mm")]) == [["bmm", None], ["smm", None]]
    many = [node("mm", shapes=str(size)) for size in range(5)]
    assert of_both(many, [node("mm", shapes="x")]) == [["mm", "0; 1; 2 and 2 more -> x"]]


def test_then_by_its_name_without_numbers() -> None:
    base, side = [node("batch 1"), node("batch 2"), node("step 7")], [node("batch 2"), node("batch 30"), node("loop 7")]
    assert of_both(base, side) == [["batch 2", None], ["batch N", None], ["bstep 7", None], ["sloop 7", None]]


def test_what_lies_in_one_operator_is_matched_by_itself() -> None:
    """Operators of one side have what is inside of them on that side."""
    base = [node("a", node("x"), node("y", node("z"))), node("only", node("x"))]
    side = [node("a", node("y", node("z"), node("w")))]
    assert of_both(base, side) == [
        ["a", None, ["y", None, ["z", None], ["sw", None]], ["bx", None]], ["bonly", None, ["bx", None]],
    ]  # fmt: skip


def row(operator: str, depth: int, base_s: float = 0.0, side_s: float = 0.0, **more: Any) -> OperatorRow:
    usual: dict[str, Any] = dict.fromkeys(OperatorRow.__struct_fields__) | {
        "case": "", "base": "a", "side": "b", "operator": operator, "depth": depth, "part": "step",
        "base_s": base_s, "side_s": side_s, "difference_s": side_s - base_s,
    }  # fmt: skip
    return OperatorRow(**(usual | more))


def test_the_innermost_operators_that_moved_most() -> None:
    rows = [
        row(ALL_WORK, 0, 1.0, 1.5),
        row("linear", 1, 0.5, 0.9),
        row("mm", 2, 0.4, 0.6),
        row(ITSELF, 2, 0.1, 0.3),
        row("attention", 1, 0.3, 0.4),
        row("mm", 2, 0.2, 0.35),
        row("softmax", 2, 0.1, 0.05),
        row("add", 1, 0.2, 0.2),
    ]
    found = [(each.operator, each.places, round(each.difference_s, 9)) for each in moved_most(rows, 9)]
    assert found == [("mm", 2, 0.35), ("linear", 1, 0.2), ("softmax", 1, -0.05)]
    assert [each.operator for each in moved_most(rows, 2)] == ["mm", "linear"]
    apart = [*rows, row("mm", 1, 0.1, 0.2, shapes="2x3"), row("mm", 1, 0.1, 0.2, base_kernels="k")]
    assert sorted(each.places for each in moved_most(apart, 9) if each.operator == "mm") == [1, 1, 2]


@pytest.mark.parametrize(("moved", "shown"), [(0.0031, True), (0.003, True), (0.0029, False)])
def test_a_small_difference_is_not_shown(moved: float, shown: bool) -> None:
    """Less than 0.2 % of the GPU time of the longer side."""
    rows = [row(ALL_WORK, 0, 1.0, 1.5), row("mm", 1, 0.0, moved)]
    assert bool(moved_most(rows, 9)) == shown


def test_a_moved_operator_in_words() -> None:
    whole = row(ALL_WORK, 0, 1.0, 1.5)
    (one,) = moved_most([whole, row("mm", 1, 0.10004, 0.20004, shapes="2x3", base_kernels="k", side_kernels="k")], 1)
    assert moved_text(one) == "mm 2x3: 100 ms -> 200 ms"
    kernels: dict[str, Any] = {"base_kernels": "k", "side_kernels": "m"}
    (two,) = moved_most([whole, *(row("mm", 1, 0.1, 0.2, **kernels) for _ in range(2))], 1)
    assert moved_text(two) == "mm (2 places): 200 ms -> 400 ms (k -> m)"
    assert changes_kernels(two) and not changes_kernels(one)
    assert not changes_kernels(row("mm", 1, side_kernels="m"))
    assert [kernels_of_both(each) for each in (one, row("mm", 1, side_kernels="m"))] == ["k", "m"]


def sides_of(*roots: OperatorNode) -> tuple[list[OperatorRow], list[SideValues]]:
    """The rows of sides with one run each, which has these operators, and their values."""
    sides, case, values = made_sides(*({STEP_TIME: [[1.0]]} for _ in roots))
    for of, root, name in zip(values, roots, "abc", strict=False):
        of.operators, of.parts = {f"{name}0": root}, {f"{name}0": "step"}
    found = matched_sides([case], values)
    add_measures(found, values)
    return operator_rows(sides, found), values


def test_rows_of_operators_the_largest_difference_first() -> None:
    base = node("", node("linear", node("mm", own=3.0, run="a0"), own=1.0, run="a0"), node("add", own=2.0, run="a0"),
                node("gone", own=0.5, run="a0"), run="a0", kind="")  # fmt: skip
    side = node("", node("linear", node("mm", own=3.5, run="b0"), own=1.0, run="b0"), node("add", own=4.0, run="b0"),
                node("new", own=0.25, run="b0"), run="b0", kind="")  # fmt: skip
    rows, values = sides_of(base, side)
    assert [(row.operator, row.depth, row.base_s, row.side_s, row.only) for row in rows] == [
        (ALL_WORK, 0, 6.5, 8.75, None),
        ("add", 1, 2.0, 4.0, None),
        ("linear", 1, 4.0, 4.5, None),
        ("mm", 2, 3.0, 3.5, None),
        (ITSELF, 2, 1.0, 1.0, None),
        ("gone", 1, 0.5, 0.0, "base"),
        ("new", 1, 0.0, 0.25, "side"),
    ]
    assert [row.difference_s for row in rows] == [row.side_s - row.base_s for row in rows]
    assert rows[1].share == pytest.approx(2.0 / 2.25) and rows[4].share == 0.0
    assert [row.path for row in rows[:5]] == [None, "add", "linear", "linear > mm", "linear > (itself)"]
    assert [(row.base_calls, row.side_calls) for row in rows] == [
        (None, None), (1, 1), (1, 1), (1, 1), (None, None), (1, None), (None, 1),
    ]  # fmt: skip
    assert {(row.base, row.side, row.part) for row in rows} == {("a", "b", "step")}
    measures = {measure.name: times for measure, times in values[1].by_measure.items() if measure.kind == "operator"}
    assert {name: times["b0"].tolist() for name, times in measures.items()} == {
        "linear": [4.5], "linear > mm": [3.5], "add": [4.0],
    }  # fmt: skip


def test_equal_times_have_no_share() -> None:
    both = [node("", node("add", own=2.0, run=f"{name}0"), run=f"{name}0", kind="") for name in "ab"]
    rows, _ = sides_of(*both)
    assert [row.share for row in rows] == [None, None]


def test_operators_of_one_name_have_the_shapes_around_them_in_their_measure() -> None:
    def root(run: str) -> OperatorNode:
        outer = [node("linear", node("mm", own=1.0, run=run), shapes=shapes, own=1.0, run=run) for shapes in ("2", "3")]
        return node("", *outer, node("tiny", own=0.019, run=run), node("add", own=0.021, run=run), run=run, kind="")

    _, values = sides_of(root("a0"), root("b0"))
    names = [measure.name for measure in values[0].by_measure if measure.kind == "operator"]
    assert names == ["linear 2", "linear 2 > mm", "linear 3", "linear 3 > mm", "add"]  # from 0.5 % of the time on
    alone = [node("", node("linear", node("mm", shapes="7", own=1.0, run=run), shapes="2", run=run), run=run, kind="")
             for run in ("a0", "b0")]  # fmt: skip
    _, values = sides_of(*alone)
    assert [measure.name for measure in values[0].by_measure if measure.kind == "operator"] == [
        "linear 2",
        "linear > mm 7",
    ]


def test_of_several_sides_only_equal_operators_are_measures() -> None:
    roots = [node("", node("add", own=1.0, run=f"{name}0"), node("mm", shapes=shapes, own=1.0, run=f"{name}0"),
                  run=f"{name}0", kind="") for name, shapes in zip("abc", ("2", "2", "3"), strict=True)]  # fmt: skip
    rows, values = sides_of(*roots)
    names = [[measure.name for measure in of.by_measure if measure.kind == "operator"] for of in values]
    assert names == [["add", "mm 2"], ["add", "mm 2"], ["add"]]
    assert [row.shapes for row in rows if row.operator == "mm"] == ["2", "2 -> 3"]
    _, two = sides_of(roots[0], node("", node("mm", shapes="3", own=1.0, run="b0"), run="b0", kind=""))
    assert [measure.name for measure in two[0].by_measure if measure.kind == "operator"] == ["mm 2 -> 3"]


def test_kernels_are_in_one_order_on_both_sides() -> None:
    """In the order of their time on both: the longest of one side is no change."""
    base, side = module._kernels_of({"a": 5.0, "b": 3.0}, {"a": 1.0, "b": 4.0})
    assert base == side == "b, a"
    assert module._kernels_of({"a": 1.0}, {"b": 1.0}) == ("a", "b")
    assert module._kernels_of({}, {"b": 1.0}) == (None, "b")


def test_nothing_moved_between_runs_without_operators() -> None:
    tables = by_hand([kernel(0, 10)])
    assert module.moved_between(tables, "r", "x", 9) == [] == module.moved_between(tables, "x", "r", 9)
