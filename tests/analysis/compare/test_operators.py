"""Operators of two sides: what is one operator, and the operators that moved most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perflog.analysis.compare.operator_trees import OperatorNode, merged
from perflog.analysis.compare.operators import (
    ALL_WORK,
    ITSELF,
    Matched,
    OperatorRow,
    changes_kernels,
    kernels_of_both,
    matched,
    moved_most,
    moved_text,
)


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


def test_several_nodes_as_one() -> None:
    one = node("a", node("x", own=1.0, kernels={"k": 1.0}), node("y", own=2.0), own=4.0)
    two = node("a", node("x", own=8.0, kernels={"k": 2.0, "m": 4.0}), own=16.0, run="s")
    whole = merged([one, two])
    assert {run: times.tolist() for run, times in whole.inclusive.items()} == {"r": [15.0], "s": [16.0]}
    assert whole.all_kernels == {"k": 3.0, "m": 4.0} and whole.kernels == {}
    assert whole.calls == {"r": 1.0, "s": 1.0}
    assert [each.name for each in whole.inside.values()] == ["x", "y"]
    again = merged([one, one])
    assert again.inclusive["r"].tolist() == [14.0] and again.calls == {"r": 2.0}


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
    (one,) = moved_most([whole, row("mm", 1, 0.1, 0.2, shapes="2x3", base_kernels="k", side_kernels="k")], 1)
    assert moved_text(one) == "mm 2x3: 100 ms -> 200 ms"
    kernels: dict[str, Any] = {"base_kernels": "k", "side_kernels": "m"}
    (two,) = moved_most([whole, *(row("mm", 1, 0.1, 0.2, **kernels) for _ in range(2))], 1)
    assert moved_text(two) == "mm (2 places): 200 ms -> 400 ms (k -> m)"
    assert changes_kernels(two) and not changes_kernels(one)
    assert not changes_kernels(row("mm", 1, side_kernels="m"))
    assert [kernels_of_both(each) for each in (one, row("mm", 1, side_kernels="m"))] == ["k", "m"]
