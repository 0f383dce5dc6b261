"""The steps that lines print, and where they begin again together with their epochs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from perflog.formats.model import Line
from perflog.parsing.assemble.runs.printed_steps import (
    PLAIN,
    Beginnings,
    PrintedSteps,
    StepsBack,
    epochs_of,
    in_order,
    positions_in_run,
)
from perflog.parsing.match.records import Records

NO_TEMPLATE: Any = None


def printed(*rows: tuple[int, int, float]) -> PrintedSteps:
    """Steps from their positions, numbers and epochs."""
    positions, steps, epochs = zip(*rows, strict=True)
    return PrintedSteps(np.array(positions), np.array(steps), np.array(epochs, np.float64))


def records(**columns: Any) -> Records:
    count = len(next(iter(columns.values())))
    return Records(np.arange(count), {name: np.array(values) for name, values in columns.items()})


def test_steps_between_positions() -> None:
    """A step at a position itself is on neither side."""
    steps = printed((2, 10, 0), (4, 20, 0), (6, 30, 0), (8, 40, 0))
    for positions, expected in (
        ([4, 7], [[10], [30], [40]]),
        ([], [[10, 20, 30, 40]]),
        ([1, 9], [[], [10, 20, 30, 40], []]),
    ):
        assert [part.tolist() for part in steps.between(np.array(positions, np.int64))] == expected
    assert steps.first_after(4) == (30, 6)
    assert steps.first_after(1) == (10, 2)


def test_where_steps_go_back() -> None:
    """By more than the distance of two steps: ranks print a step about together. The next batch goes on."""
    back = StepsBack()
    steps = [10, 20, 10, 20, 30, 40, 10, 20, 30, 40, 50, 30]
    assert back.positions(printed(*((k, step, -1) for k, step in enumerate(steps)))) == [6, 11]
    assert back.positions(printed((20, 40, -1), (21, 50, -1), (22, 60, -1), (23, 20, -1))) == [23]
    assert StepsBack().positions(in_order([])) == []


def begin(
    *steps: tuple[int, float], before: float = math.inf, known: Beginnings | None = None, at: int = 0
) -> list[int]:
    """Positions at which steps and epochs in the order of a log begin again."""
    rows = [(at + k, step, epoch) for k, (step, epoch) in enumerate(steps)]
    return (known or Beginnings()).positions(printed(*rows), before)


def test_steps_that_begin_again_with_their_epoch_are_another_run() -> None:
    run = [(1, 0.0), (2, 0.0), (3, 1.0)]
    for steps, expected in (
        (run, []),
        ([*run, *run], [3]),
        ([*run, *run, *run], [3, 6]),
        ([*run, (0, 0.0), (1, 0.0), (2, 0.0), (0, 0.0)], [3, 6]),
        ([*run, (1, 1.0), (2, 1.0)], []),  # the next epoch of the same run
        ([*run, (2, 0.0), (3, 0.0)], []),  # resumed
        ([*run, (3, 1.0), *run], []),  # printed twice
        ([*run[:2], *run], []),  # after two steps only
        ([*run, *run[:2], *run], [3]),
        ([(1, math.nan), *run, (1, math.nan), *run], [5]),  # lines without an epoch do not count
        ([(1, math.nan)], []),
    ):
        assert begin(*steps) == expected, steps


def test_lines_that_begin_runs_decide() -> None:
    run = [(1, 0.0), (2, 0.0), (3, 1.0)]
    assert begin(*run, *run, before=3) == []
    assert begin(*run, *run, before=4) == [3]


def test_a_beginning_is_found_across_batches() -> None:
    run = [(1, 0.0), (2, 0.0), (3, 1.0)]
    known = Beginnings()
    assert begin(*run[:2], known=known) == []
    assert begin(*run[2:], *run[:1], known=known, at=2) == [3]
    assert begin(*run[1:], known=known, at=4) == []
    assert begin(*run, known=known, at=6) == [6]
    assert begin((2, 0.0), known=known, at=9) == [] and not known.is_simple
    assert begin(*run, *run, known=known, at=10) == []


def test_steps_of_later_epochs_are_larger() -> None:
    steps = records(step=[5, 6, 1], epoch=[0, 0, 1])
    assert positions_in_run(steps, "epoch").tolist() == [5, 6, 1 + 2**32]
    assert positions_in_run(steps, None).tolist() == [5, 6, 1]
    assert positions_in_run(records(step=[5, 1], epoch=[0.5, 1.5]), "epoch").tolist() == [5, 1]


def test_epochs_are_those_of_step_lines_without_a_rank() -> None:
    steps, values = (Line("line", NO_TEMPLATE, table=table) for table in ("steps", "values"))
    for columns, line, expected in (
        ({"step": [1, 2], "epoch": [0, 1]}, steps, [0, 1]),
        ({"step": [1, 2], "ep": [0.5, 1]}, steps, [0.5, 1]),
        ({"step": [1], "epoch": ["0/3"], "epch": [7]}, steps, [7]),
        ({"step": [1], "epoch": ["0/3"]}, steps, [math.nan]),
        ({"step": [1], "epoch": [1], "rank": [0]}, steps, [math.nan]),
        ({"step": [1], "epoch": [1]}, values, [math.nan]),
        ({"step": [1], "rank": [0]}, steps, [math.nan]),
        ({"step": [1]}, values, [math.nan]),
        ({"step": [1]}, steps, [PLAIN]),
    ):
        assert np.array_equal(epochs_of(records(**columns), line), expected, equal_nan=True), columns


def test_steps_of_several_lines_are_in_log_order() -> None:
    both = in_order([printed((1, 10, 0), (5, 50, 2)), printed((3, 30, 1), (5, 51, 3))])
    assert both.positions.tolist() == [1, 3, 5, 5]
    assert both.steps.tolist() == [10, 30, 50, 51]
    assert both.epochs.tolist() == [0, 1, 2, 3]
    assert [len(column) for column in in_order([])] == [0, 0, 0]
