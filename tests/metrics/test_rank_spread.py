"""How long the fastest, the mean and the slowest rank take for each phase of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.metrics_logs import by_hand

from perflog.metrics import Tables
from perflog.metrics.options import Options
from perflog.metrics.step_time.rank_spread import rank_spread, untimed_spread

Row = dict[str, Any]


def phase(name: str, step: int, rank: int | None, seconds: float, occurrence: int = 0, **more: Any) -> Row:
    return {"phase": name, "step": step, "rank": rank, "occurrence": occurrence, "time_s": seconds, **more}


def spread(rows: Sequence[Row], world: int | None = 2, warmup: int = 0, steps: int = 2) -> dict[str, tuple[Any, ...]]:
    """Fastest, mean and slowest of each phase in its parent, of a run of the benchmark."""
    made = [{"table": "steps", "step": step, "step_time_s": 10.0, "forward_s": 6.0} for step in range(steps)]
    frames = by_hand("phases", [*rows, *made], world=world)
    frames["runs"]["format"] = "moe_layer"
    (found,) = rank_spread(Tables(frames), Options(warmup=warmup)).values()
    return {
        f"{name} in {parent}": tuple(None if value != value else value for value in values)
        for name, parent, *values in found.itertuples(index=False)
    }


FULL = [
    phase("wait", step, rank, seconds)
    for step, each in enumerate([(1.0, 3.0), (2.0, 5.0)])
    for rank, seconds in enumerate(each)
]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (FULL, (1.5, 2.75, 4)),  # means of 1 and 2, 2 and 3.5, 3 and 5
        (FULL[:2], (0.5, 1, 1.5)),  # in the other step it took no time
        (FULL[:3], (1, 2, 3)),  # a step in which a rank is missing shows nothing
        # Two occurrences add up, as if the ranks waited for one another after each
        ([*FULL[:2], phase("wait", 0, 0, 4, 1), phase("wait", 0, 1, 2, 1)], (1.5, 2.5, 3.5)),
        # The fastest and the slowest rank, as printed
        ([phase("wait", step, None, 3.0 + step, min_s=1.0) for step in (0, 1)], (1, None, 3.5)),
    ],
)
def test_times_in_a_step(rows: Sequence[Row], expected: tuple[Any, ...]) -> None:
    assert spread(rows) == {"wait in forward": expected}


def test_only_steady_steps_count() -> None:
    assert spread(FULL, warmup=1) == {"wait in forward": (2, 3.5, 5)}


@pytest.mark.parametrize(
    ("rows", "world"),
    [
        ([phase("wait", 0, 0, 1), phase("wait", 1, 0, 1)], 1),  # a single rank
        ([phase("wait", 0, 0, 1), phase("wait", 1, 0, 1)], None),
        (FULL, 3),  # a rank is always missing
    ],
)
def test_phases_without_the_times_of_all_ranks_are_left_out(rows: Sequence[Row], world: int | None) -> None:
    assert spread(rows, world) == {}


def test_without_a_printed_number_of_ranks_the_most_that_print_a_phase_are_all() -> None:
    assert spread(FULL, None) == {"wait in forward": (1.5, 2.75, 4)}
    assert spread(FULL[:3], None) == {"wait in forward": (1, 2, 3)}


def test_ranks_that_are_not_known_are_all_if_there_are_as_many() -> None:
    rows = [phase("wait", 0, None, 1), phase("wait", 0, None, 3, 1)]
    assert spread(rows, steps=1) == {"wait in forward": (1, 2, 3)}


def test_each_phase_in_its_parent() -> None:
    rows = [*FULL, *(phase("process", step, rank, 2.0 + rank) for step in (0, 1) for rank in (0, 1))]
    assert spread(rows) == {"wait in forward": (1.5, 2.75, 4), "process in step": (2, 2.5, 3)}


def test_a_run_without_parts_of_a_step_is_left_out() -> None:
    assert rank_spread(Tables(by_hand("phases", [])), Options()) == {}


def test_steps_of_ranks_are_no_part_of_anything() -> None:
    """Each rank prints its own step time: the step has no parent."""
    steps = [
        {"table": "steps", "step": step, "rank": rank, "step_time_s": 10.0 + rank, "forward_s": 6.0 + rank}
        for step in range(2)
        for rank in range(2)
    ]
    assert spread([*FULL, *steps], steps=0) == {"wait in forward": (1.5, 2.75, 4), "forward in step": (6, 6.5, 7)}


@pytest.mark.parametrize(
    ("times", "ranks", "expected"),
    [
        ([(6.0, 2.0), (3.0, 7.0)], [0, 1], {"r": 2.0}),  # untimed: 4 and 8, 7 and 3; another rank in each step
        ([(6.0, 6.0), (6.0, 6.0)], [0, 1], {"r": 0.0}),
        ([(6.0, 2.0), (3.0, 7.0)], [None, None], {}),  # one step time, whichever rank it is of
        ([(6.0,), (3.0,)], [0], {}),  # one rank
    ],
)
def test_untimed_times_of_ranks(
    times: list[tuple[float, ...]], ranks: list[int | None], expected: dict[str, float]
) -> None:
    each = [(step, rank, time) for step, of in enumerate(times) for rank, time in zip(ranks, of, strict=True)]
    rows = [phase("forward", *one) for one in each]
    of_steps = [
        {"table": "steps", "step": step, "rank": rank, "step_time_s": 10.0}
        for step in range(len(times)) for rank in dict.fromkeys(ranks)
    ]  # fmt: skip
    frames = by_hand("phases", [*rows, *of_steps], world=len(ranks))
    frames["runs"]["format"] = "moe_layer"
    assert untimed_spread(Tables(frames), Options(warmup=0)) == expected
