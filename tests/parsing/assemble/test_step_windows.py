"""Which steps a line covers that averages over the steps since the line before it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.formats.model import COUNTED_AGAIN
from perflog.parsing.assemble.steps.step_windows import UNKNOWN, CoveredSteps, windows


def covered(steps: list[int], epochs: list[int] | None = None, first_step: int = UNKNOWN) -> list[int]:
    numbers, of_epoch = np.array(steps), np.array(epochs or [0] * len(steps))
    covered_steps: list[int] = windows(
        np.zeros_like(numbers), numbers, of_epoch, np.full(len(steps), first_step)
    ).tolist()
    return covered_steps


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([10, 20, 30], [10, 10, 10]),
        ([1, 2, 3], [1, 1, 1]),
        ([0, 10, 20], [1, 10, 10]),  # the first step is printed alone
        ([1, 10, 20], [1, 9, 10]),
        ([10], [UNKNOWN]),  # a run of a line may have been resumed
        ([5010, 5020, 5030], [10, 10, 10]),  # resumed: no line covers 5010 steps
        ([3, 13, 23], [3, 10, 10]),  # no more steps than have passed
        ([10, 20, 40, 50, 60], [10, 10, 10, 10, 10]),  # a line is lost
        ([10, 20, 50, 60], [10, 10, 10, 10]),  # two in a row
        ([10, 20, 45, 55, 65], [10, 10, 25, 10, 10]),  # no multiple of the interval
        ([10, 20, 30, 60], [10, 10, 10, 10]),  # at the end: up to three intervals
        ([10, 20, 30, 70], [10, 10, 10, 40]),
        ([10, 20, 30, 50, 70, 90], [10, 10, 10, 20, 20, 20]),  # the interval has changed
        ([10, 20, 40, 60], [10, 10, 20, 20]),
        ([10, 20, 40, 50, 70, 80], [10, 10, 10, 10, 10, 10]),  # every other line is lost
        ([10, 20, 30, 10, 20, 30], [10] * 6),  # the counter went back
        ([10, 20, 30, 15, 25], [10, 10, 10, 10, 10]),
        ([10, 20, 30, 15], [10, 10, 10, 10]),  # a last line after the counter went back: as the line before it
        ([10, 20, 30, 5], [10, 10, 10, 5]),
    ],
)
def test_a_line_covers_the_steps_since_the_line_before_it(steps: list[int], expected: list[int]) -> None:
    assert covered(steps) == expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([1, 10, 20], [1, 10, 10]),
        ([504, 510, 520], [1, 7, 10]),  # resumed within an interval
        ([1, 10, 20, 11, 20, 30], [1, 10, 10, 1, 10, 10]),  # a second start
        ([10, 20, 30], [10, 10, 10]),  # the first line is at the end of an interval
        ([1, 2, 3], [1, 1, 1]),
        ([1, 10], [1, 9]),  # nothing shows the interval
        ([1, 2, 4], [1, 1, 1]),  # a line is lost
        ([1, 4, 6], [1, 3, 2]),
        ([1, 2, 4, 5, 6], [1, 1, 1, 1, 1]),
        ([1, 2, 4, 6, 8], [1, 2, 2, 2, 2]),
    ],
)
def test_a_first_step_that_is_printed_beside_its_interval(steps: list[int], expected: list[int]) -> None:
    assert covered(steps, first_step=COUNTED_AGAIN) == expected


def test_the_counter_starts_again_in_each_epoch() -> None:
    assert covered([10, 20, 10, 20], [0, 0, 1, 1]) == [10] * 4
    assert covered([10, 20, 30, 40], [0, 0, 1, 1]) == [10] * 4  # it does not, but the line before is of another epoch
    assert covered([4, 8, 30, 40], [0, 0, 1, 1]) == [4, 4, 10, 10]


@pytest.mark.parametrize(("first_step", "expected"), [(1, 10), (0, 11), (5, 6), (10, 1), (11, UNKNOWN)])
def test_a_format_may_say_at_which_step_the_counter_starts(first_step: int, expected: int) -> None:
    """0 is not known: a counter from 0 is declared by what the first line covers."""
    if first_step == UNKNOWN:
        assert covered([10], first_step=first_step) == [UNKNOWN]
    else:
        assert covered([10], first_step=first_step) == [expected]


@given(st.integers(1, 50), st.integers(2, 30), st.sets(st.integers(3, 24), max_size=3))
def test_lost_lines_change_no_other_line(interval: int, count: int, lost: set[int]) -> None:
    """Single lines that are lost between others, three lines apart."""
    apart = {k for k in lost if k < count - 3 and not lost & {k - 1, k - 2, k - 3}}
    steps = [interval * (k + 1) for k in range(count) if k not in apart]
    assert covered(steps) == [interval] * len(steps)


@given(
    st.lists(st.sampled_from([1, 2, 5, 5, 5, 10, 10, 15, -20]), min_size=1, max_size=25),
    st.lists(st.integers(1, 6), min_size=25, max_size=25),
    st.lists(st.booleans(), min_size=25, max_size=25),
)
def test_stretches_of_a_log_give_what_the_whole_log_gives(jumps: list[int], sizes: list[int], mean: list[bool]) -> None:
    """With the corrections of lines that come later, of those that average."""
    steps = np.maximum(np.cumsum(jumps), 0)
    positions, epochs, firsts = (
        np.arange(len(steps)) + 100,
        np.zeros(len(steps), np.int64),
        np.zeros(len(steps), np.int64),
    )
    ranks = np.zeros(len(steps), np.int64)
    averages = np.array(mean[: len(steps)]).astype(np.int64)
    whole = CoveredSteps().read(ranks, positions, steps, epochs, firsts, averages).tolist()
    one, found, start = CoveredSteps(), dict[int, int](), 0
    for size in sizes:
        part = slice(start, start + size)
        if len(steps[part]):
            columns = (column[part] for column in (ranks, positions, steps, epochs, firsts, averages))
            given_out = one.read(*columns)
            found |= zip(positions[part].tolist(), given_out.tolist(), strict=True)
        start += size
    assert one.corrections.keys() <= {*positions[averages == 1].tolist()}
    found |= one.corrections
    every = zip(positions.tolist(), whole, averages.tolist(), strict=True)
    assert all(found[position] == covered for position, covered, is_mean in every if is_mean)


def test_a_repeated_step_covers_what_it_did() -> None:
    steps = np.array([10, 20, 20, 30])
    zeros = np.zeros(4, np.int64)
    assert CoveredSteps().read(zeros, np.arange(4), steps, zeros, zeros, zeros + 1).tolist() == [10] * 4
    epochs = np.array([0, 0, 1, 1])  # the same number in another epoch is another step
    assert CoveredSteps().read(zeros, np.arange(4), steps, epochs, zeros, zeros + 1).tolist() == [10, 10, 10, 10]


def test_each_rank_has_windows_of_its_own() -> None:
    """In one stretch and in several, of ranks that print in turns, begin later and repeat a step."""
    printed = {0: [10, 20, 30, 50, 60, 10, 20], 1: [5, 10, 15], 2: [7], 3: [10, 20, 20, 45, 5]}
    lines = [(rank, step) for k in range(7) for rank, steps in printed.items() for step in steps[k : k + 1]]
    ranks, steps = np.array(lines).T
    zeros, positions = np.zeros(len(lines), np.int64), np.arange(len(lines))
    columns = ranks, positions, steps, zeros, zeros, zeros + 1
    alone = {rank: CoveredSteps().read(*(x[ranks == rank] for x in columns)).tolist() for rank in printed}
    for size in (len(lines), 5, 1):
        together, found = CoveredSteps(), dict[int, int]()
        for start in range(0, len(lines), size):
            part = slice(start, start + size)
            given_out = together.read(*(column[part] for column in columns))
            found |= zip(positions[part].tolist(), given_out.tolist(), strict=True)
        found |= together.corrections
        assert {rank: [found[p] for p in positions[ranks == rank].tolist()] for rank in printed} == alone
    assert together.ranks == {*printed}
