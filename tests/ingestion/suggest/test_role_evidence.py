"""Roles that the numbers of a log bear out: a step grows, a rank is small and comes back, a time does not only grow."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perflog.ingestion.suggest.naming import COUNTS_UP, Named
from perflog.ingestion.suggest.role_evidence import (
    Series,
    disproved_roles,
    proven_names,
    restarts_within,
    sample_counts,
)


def series(*batches: Sequence[float], ranks: list[int] | None = None) -> Series:
    """The series of numbers in some batches, with positions from 10 on."""
    found, position = Series(), 10
    for values in batches:
        labels = np.array(ranks or [-1] * len(values))
        found.add(np.array(values, np.float64), labels, np.arange(position, position + len(values)))
        position += len(values)
    return found


def test_rises_falls_and_restarts_are_counted_across_batches() -> None:
    found = series([1, 2, 4, 3], [5, 0, 1])
    assert (found.count, found.rises, found.singles, found.falls, found.restarts) == (7, 4, 2, 1, 1)
    assert (found.least, found.most, found.positions, found.last) == (0, 5, (10, 16), {-1: 1})


def test_a_restart_is_not_larger_than_all_before_it() -> None:
    assert series([3, 5, 3]).restarts == 1 and series([3, 5, 4]).falls == 1
    assert series([3, 1], [2, 1]).restarts == 2
    assert series([3, 5], [3]).restarts == 1 and series([3], [5], [4]).falls == 1
    assert series([1, 1]).rises == series([1, 1]).falls == series([1, 1]).restarts == 0


def test_numbers_are_compared_with_those_of_the_same_rank() -> None:
    found = series([1, 1, 2, 2], ranks=[0, 1, 0, 1])
    assert (found.rises, found.falls, found.restarts, found.last) == (2, 0, 0, {0: 2, 1: 2})


@pytest.mark.parametrize(
    ("values", "named", "guessed"),
    [
        ([1, 2, 3], True, True), ([5], False, False), ([3, 3], False, False),
        ([*range(10, 21), 19], True, False),  # a fall in ten rises
        ([*range(11, 21), 19], False, False), ([5, 6, 5, 6], True, True),
    ],
)  # fmt: skip
def test_steps_grow(values: list[float], named: bool, guessed: bool) -> None:
    assert (series(values).is_step(is_named=True), series(values).is_step(is_named=False)) == (named, guessed)


@pytest.mark.parametrize(
    ("values", "rank"),
    [
        ([0, 1, 0, 1], True), ([1, 2, 3], False), ([0, 2, 4], False), ([1, 3, 5], False),
        ([0, 1, 2], True),  # each rank prints one line
        ([0, 0], True), ([0], False), ([0, 4095, 0], True), ([0, 4096, 0], False), ([-1, 0, -1], False),
    ],
)  # fmt: skip
def test_ranks_are_small_and_come_back(values: list[float], rank: bool) -> None:
    assert series(values).is_rank() == rank


def test_each_step_or_only_some() -> None:
    assert series([1, 2, 3]).counts_each and series([1, 2, 1, 2]).counts_each
    assert not series([1, 3]).counts_each and not series([1]).counts_each


def test_a_clock_only_grows() -> None:
    assert series([1, 2, 2]).only_grows
    assert not series([1]).only_grows and not series([3, 5, 4]).only_grows and not series([3, 5, 3]).only_grows


def single(value: float, position: int) -> Series:
    found = Series()
    found.add(np.array([value]), np.array([-1]), np.array([position]))
    return found


@pytest.mark.parametrize(
    ("value", "position", "goes_on"),
    [
        (5, 11, True), (7, 11, True), (6, 99, True), (4, 9, True), (4, 10, False), (4, 99, False), (8, 99, True),
        (8, 12, False), (8, 9, False),
    ],
)  # fmt: skip
def test_a_single_number_goes_on_with_steps(value: float, position: int, goes_on: bool) -> None:
    assert single(value, position).goes_on(series([5, 6, 7])) == goes_on


def slot(name: str, *texts: str, printed: str = "", why: str = "", spec: str = "d") -> Any:
    return SimpleNamespace(named=Named(name, why=why, printed=printed), texts=texts, spec=spec)


def line(*slots: Any, name: str = "x", plain_time: bool = True, table: str = "steps") -> Any:
    return SimpleNamespace(name=name, numbers=slots, has_plain_time=plain_time, table=table)


STEP = slot("step", printed="iter")
GROWS, FALLS = series([1, 2, 3]), series([9, 5, 7, 6])


def test_names_that_prove_to_be_steps() -> None:
    lines = [line(STEP), line(slot("step", printed="it"), name="falls"), line(slot("loss"), name="other")]
    evidence = {("x", "step"): GROWS, ("falls", "step"): FALLS, ("other", "step"): GROWS}
    assert proven_names(lines, evidence) == {"iter": GROWS}
    assert proven_names([line(slot("step", printed="it", why=COUNTS_UP))], evidence) == {}
    assert proven_names([line(STEP, name="none")], evidence) == {}


def test_numbers_of_samples() -> None:
    lines = [line(slot("train_samples", "7200", "7201")), line(slot("images_2", "5")), line(slot("samples_left", "6"))]
    assert sample_counts(lines) == {"7200", "7201", "5"}


def test_a_step_that_does_not_grow_is_none() -> None:
    assert disproved_roles(line(STEP), {("x", "step"): GROWS}, {}) == set()
    assert disproved_roles(line(STEP), {("x", "step"): FALLS}, {}) == {"step"}
    assert disproved_roles(line(STEP), {}, {}) == set()
    assert disproved_roles(line(slot("loss")), {("x", "step"): FALLS}, {}) == set()


def test_a_single_step_is_one_that_others_prove() -> None:
    once = {("x", "step"): single(2, 11)}
    assert disproved_roles(line(STEP), once, {}) == {"step"}
    assert disproved_roles(line(STEP), once, {"iter": GROWS}) == set()
    assert disproved_roles(line(STEP), once, {"it": GROWS}) == {"step"}
    assert disproved_roles(line(STEP), {("x", "step"): single(9, 11)}, {"iter": GROWS}) == {"step"}
    assert disproved_roles(line(STEP), {("x", "step"): FALLS}, {"iter": GROWS}) == {"step"}
    counted = slot("step", printed="iter", why=COUNTS_UP)
    assert disproved_roles(line(counted), once, {"iter": GROWS}) == {"step"}


def test_a_single_rank_is_one_that_others_prove() -> None:
    ranks = {("x", "rank"): single(2, 9), ("y", "rank"): series([0, 3, 1, 2, 0])}
    assert disproved_roles(line(slot("rank")), {("x", "rank"): single(2, 9)}, {}) == {"rank"}
    assert disproved_roles(line(slot("rank")), ranks, {}) == set()
    assert disproved_roles(line(slot("rank")), {**ranks, ("x", "rank"): single(7, 9)}, {}) == {"rank"}


def test_what_counts_up_to_samples_is_no_step() -> None:
    given = line(STEP, slot("steps", "7200"))
    for found, roles in ((series([32, 64]), {"step"}), (GROWS, set())):
        assert disproved_roles(given, {("x", "step"): found}, {}, {"7200"}) == roles
        assert disproved_roles(given, {("x", "step"): found}, {}, {"5"}) == set()


def test_a_rank_that_only_counts_is_none() -> None:
    for values, roles in (([0, 1, 0], set()), ([5, 6, 7], {"rank"})):
        assert disproved_roles(line(slot("rank")), {("x", "rank"): series(values)}, {}) == roles
        assert disproved_roles(line(slot("loss")), {("x", "rank"): series(values)}, {}) == set()


@pytest.mark.parametrize(
    ("steps", "times", "plain", "roles"),
    [
        (GROWS, series([2, 1]), True, set()), (GROWS, series([1, 2]), True, {"step_time"}),
        (series([10, 20]), series([2, 1]), True, {"step_time"}), (None, series([2, 1]), True, {"step_time"}),
        (series([10, 20]), series([1, 2]), False, set()),
    ],
)  # fmt: skip
def test_a_plain_time_is_of_its_step_where_each_step_is_printed(
    steps: Series | None, times: Series, plain: bool, roles: set[str]
) -> None:
    evidence = {("x", "step_time"): times} | ({("x", "step"): steps} if steps else {})
    assert disproved_roles(line(STEP, slot("step_time"), plain_time=plain), evidence, {}) == roles


def test_steps_start_again_in_an_epoch() -> None:
    again = {("x", "step"): series([1, 2, 1])}
    assert restarts_within(line(STEP, slot("epoch")), again) == "epoch"
    assert restarts_within(line(STEP, slot("epoch")), {("x", "step"): GROWS}) == ""
    assert restarts_within(line(STEP, slot("epoch", spec=".2f")), again) == ""
    assert restarts_within(line(STEP), again) == restarts_within(line(STEP, slot("epoch")), {}) == ""
    assert restarts_within(line(STEP, slot("epoch"), table="values"), again) == ""
