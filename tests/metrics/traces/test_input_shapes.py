"""Shapes of inputs: as people write them, and in the names of ranges."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.raw_operator_places import shapes_of

from perflog.metrics.traces.input_shapes import nvtx_operator, shapes_text


@pytest.mark.parametrize(
    "dims",
    [
        [], [[]], [[2, 3], [], [3, 4]], [[[1, 2], [3]], []], [[[1, 2]] * 9, [5]], [[7, 8]] * 8,
        [[[2]] * 3, [[4], [5]]],
    ],
)  # fmt: skip
def test_shapes_in_words(dims: list[Any]) -> None:
    assert (shapes_text(json.dumps(dims)) or "") == shapes_of(dims)


def test_shapes_that_are_no_json_stay_as_printed() -> None:
    assert shapes_text("2x3") == "2x3"
    assert shapes_text(None) is None
    assert shapes_text("7") == "7"
    assert shapes_text("[" * 100_000) == "[" * 100_000


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        ([[2, 3], [4]], "2x3, 4"),
        ([[1]] * 6, "1, 1, 1, 1, 1, 1"),
        ([[2, 3]] * 7, "(7 tensors, 42 elements)"),
        ([[2, 3], [], 5, "a"], "2x3"),
        ([[[2, 3], []], [4]], "(2x3, []), 4"),
        ([[[2]] * 6], "(2, 2, 2, 2, 2, 2)"),
        ([[[2, 5]] * 7, [4]], "(7 tensors, 70 elements), 4"),
        ([[[2, 5]] * 7 + [3, []]], "(7 tensors, 70 elements)"),
        ([[[[2]] * 7, [3]]], "((7 tensors, 14 elements), 3)"),
        ([[], 5], None),
    ],
)
def test_shapes_by_hand(dims: list[Any], text: str | None) -> None:
    assert shapes_text(json.dumps(dims)) == text


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("aten::mm, op_id = 7, sizes = [[2, 3], [3, 4]]", ("aten::mm", "[[2, 3], [3, 4]]")),
        ("aten::mm, seq = 12, op_id = 7", ("aten::mm", None)),
        ("aten::mm, seq = 12, op_id = 7, sizes = [[2]], input_op_ids = [(3,0)]", ("aten::mm", "[[2]]")),
        ("autograd::engine::evaluate_function: MmBackward0, op_id = 1",
         ("autograd::engine::evaluate_function: MmBackward0", None)),
        ("aten::mm, sizes = []", ("aten::mm", "[]")),
        ("aten::mm, seq = 12", None),
        ("aten::mm", None),
        ("forward pass, op_id = 7 of a model", None),
        ("step 3, op_id = 7", None),
    ],
)  # fmt: skip
def test_ranges_of_operators(name: str, operator: tuple[str, str | None] | None) -> None:
    assert nvtx_operator(name) == operator
