"""Attribution of a difference: parts below their whole, the largest first, and the parts that differ most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.figure_rows import Values, figure_row, made_sides

from perflog.analysis.compare.explanations.attribution import (
    AttributionRow,
    are_offset,
    attribution,
    part_name,
    telling_parts,
)
from perflog.metrics.compared import ALL, STEP_TIME, Measure

FORWARD, BACKWARD = Measure("step", "forward", of="step_time"), Measure("step", "backward", of="step_time")
ATTENTION = Measure("phase", "attention", of="forward")
KERNELS, GEMM, ADD = Measure("kernel", ALL), Measure("kernel", "gemm", of=ALL), Measure("kernel", "add", of=ALL)


def divided(*sides: Values, low: float = 0.1, high: float = 0.9) -> list[AttributionRow]:
    """The parts of sides; `low` and `high`: the ends of the change of each whole."""
    named, case, values = made_sides(*sides)
    rows = []
    for k, side in enumerate(named[1:], 1):
        for measure in values[k].by_measure.keys() & values[0].by_measure.keys():
            base_value, side_value = (values[i].of(measure, case.runs[i])[0][0] for i in (0, k))
            names = {"kind": measure.kind, "metric": measure.name, "side": side.name}
            medians = {"base_value": base_value, "side_value": side_value, "change_low": low, "change_high": high}
            rows.append(figure_row(**names, **medians))
    return attribution(named, [case], values, rows)


def shown(rows: list[AttributionRow]) -> list[tuple[Any, ...]]:
    return [(row.part, row.of, row.depth, row.base_s, row.side_s, row.share) for row in rows]


BASE: Values = {STEP_TIME: [[10.0]], FORWARD: [[4.0]], BACKWARD: [[5.0]], ATTENTION: [[3.0]]}
SIDE: Values = {STEP_TIME: [[14.0]], FORWARD: [[5.0]], BACKWARD: [[8.0]], ATTENTION: [[3.5]]}


def test_parts_are_means_over_the_ranks_as_phases_are() -> None:
    """The slowest rank takes 8 s for its backward pass, and all others wait for it in 9.5 - 4 - 5 s."""
    named, case, values = made_sides({STEP_TIME: [[12.0]], BACKWARD: [[8.0]]}, {STEP_TIME: [[14.0]], BACKWARD: [[9.0]]})
    for k in (0, 1):
        values[k].parts_of_steps[BACKWARD] = {run: np.array([5.0 + k]) for run in case.runs[k]}
    row = figure_row(kind="step", metric="step_time", side=named[1].name, base_value=12.0, side_value=14.0)
    assert shown(attribution(named, [case], values, [row]))[:2] == [
        ("step_time", None, 0, 12.0, 14.0, 1.0),
        ("backward", "step_time", 1, 5.0, 6.0, 0.5),
    ]


def test_the_time_of_the_step_is_the_mean_over_the_ranks_too() -> None:
    """Of ranks that do not wait, one is slower: the time of its parts is no untimed time."""
    named, case, values = made_sides(
        {STEP_TIME: [[10.0]], BACKWARD: [[8.0]]}, {STEP_TIME: [[14.0]], BACKWARD: [[12.0]]}
    )
    for k in (0, 1):
        means = {STEP_TIME: 10.0 + k, BACKWARD: 8.0 + k}
        values[k].parts_of_steps |= {m: {run: np.array([mean]) for run in case.runs[k]} for m, mean in means.items()}
    row = figure_row(kind="step", metric="step_time", side=named[1].name, base_value=10.0, side_value=14.0)
    assert shown(attribution(named, [case], values, [row])) == [
        ("step_time", None, 0, 10.0, 11.0, 1.0),
        ("backward", "step_time", 1, 8.0, 9.0, 1.0),
        ("(unexplained)", "step_time", 1, 2.0, 2.0, 0.0),
    ]


def test_parts_of_a_step_the_largest_difference_first() -> None:
    assert shown(divided(BASE, SIDE)) == [
        ("step_time", None, 0, 10.0, 14.0, 1.0),
        ("backward", "step_time", 1, 5.0, 8.0, 0.75),
        ("forward", "step_time", 1, 4.0, 5.0, 0.25),
        ("attention", "forward", 2, 3.0, 3.5, 0.125),
        ("(unexplained)", "forward", 2, 1.0, 1.5, 0.125),
        ("(unexplained)", "step_time", 1, 1.0, 1.0, 0.0),
    ]
    row = divided(BASE, SIDE)[1]
    assert (row.case, row.base, row.side, row.kind, row.difference_s) == ("", "a", "b", "step", 3.0)


def test_a_whole_that_may_not_differ_has_no_shares() -> None:
    assert {row.share for row in divided(BASE, SIDE, low=-0.1)} == {None}
    assert {row.share for row in divided(BASE, SIDE, low=0.0)} == {None}
    assert {row.share for row in divided(SIDE, BASE, low=-0.1, high=0.0)} == {None}
    assert divided(SIDE, BASE, low=-0.3, high=-0.1)[1].share == 0.75
    small = ({measure: [[1e-4 * of[0][0]]] for measure, of in side.items()} for side in (BASE, SIDE))
    assert divided(*small)[1].share == pytest.approx(0.75)


def test_a_phase_of_one_side_is_left_out_and_a_kernel_took_no_time() -> None:
    phases = divided(BASE, {measure: runs for measure, runs in SIDE.items() if measure != ATTENTION})
    assert [row.part for row in phases] == ["step_time", "backward", "forward", "(unexplained)"]
    kernels = divided({KERNELS: [[3.0]], GEMM: [[3.0]]}, {KERNELS: [[5.0]], GEMM: [[1.0]], ADD: [[4.0]]})
    assert shown(kernels) == [
        (ALL, None, 0, 3.0, 5.0, 1.0),
        ("add", ALL, 1, 0.0, 4.0, 2.0),
        ("gemm", ALL, 1, 3.0, 1.0, -1.0),
        ("(unexplained)", ALL, 1, 0.0, 0.0, 0.0),
    ]
    assert {row.kind for row in kernels} == {"kernel"}
    lost = divided({KERNELS: [[5.0]], GEMM: [[1.0]], ADD: [[4.0]]}, {KERNELS: [[3.0]], GEMM: [[3.0]]})
    assert shown(lost)[1] == ("add", ALL, 1, 4.0, 0.0, 2.0)


def test_each_side_and_kind_has_a_tree() -> None:
    both = {**BASE, KERNELS: [[3.0]], GEMM: [[3.0]]}
    found = [(row.side, row.kind) for row in divided(both, both, both) if row.depth == 0]
    assert found == [("b", "step"), ("b", "kernel"), ("c", "step"), ("c", "kernel")]
    assert divided({Measure("run", "elapsed"): [[1.0]]}, {Measure("run", "elapsed"): [[2.0]]}) == []


def part(name: str, depth: int, difference: float, of: str | None = "all", **more: Any) -> AttributionRow:
    usual = {
        "case": "", "base": "a", "side": "b", "kind": "kernel", "part": name, "of": of, "depth": depth,
        "base_s": 10.0, "side_s": 10.0 + difference, "difference_s": difference, "share": difference / 4.0,
    }  # fmt: skip
    return AttributionRow(**(usual | more))


PARTS = [part("all", 0, 4.0, None), part("x", 1, 0.01), part("y", 2, -3.0), part("z", 2, 0.08), part("w", 1, 1.0),
         part("v", 1, 0.07)]  # fmt: skip


@pytest.mark.parametrize(
    ("room", "names"),
    [(9, ["x", "y", "z", "w"]), (3, ["x", "y", "w"]), (2, ["x", "y"]), (1, ["w"]), (0, [])],
)
def test_the_parts_that_differ_most_with_what_they_lie_in(room: int, names: list[str]) -> None:
    """A part that differs by less than 2 % of the whole difference is not shown."""
    assert [each.part for each in telling_parts(PARTS, room)] == names


def test_of_a_whole_that_does_not_differ_the_time_is_the_measure() -> None:
    whole = part("all", 0, 0.0, None, share=None)
    small, large = part("x", 1, 0.19), part("y", 1, -0.2)
    assert telling_parts([whole, small, large], 5) == [large]  # 2 % of 10 s


def test_parts_that_offset_one_another_have_no_shares() -> None:
    """Idle time grows by 46.7 of 8.1 ms, and computation shrinks; parts of 110 % and -10 % still tell."""
    assert are_offset([part("idle", 1, 46.7, share=5.74), part("compute", 1, -36.1, share=-4.44)])
    assert not are_offset([part("x", 1, 4.4, share=1.1), part("y", 1, -0.4, share=-0.1), part("z", 1, 0.0, share=None)])


def test_names_of_parts() -> None:
    assert part_name(part("step > forward", 1, 0.0, kind="range")) == "forward"
    assert part_name(part("(unexplained)", 1, 0.0, "step > forward", kind="range")) == "forward itself"
    assert part_name(part("(unexplained)", 1, 0.0, "step_time", kind="step")) == "step_time (untimed)"
    assert part_name(part("a > b", 1, 0.0)) == "a > b"
