"""Exposed and hidden time of waits: by rank, over the ranks, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.metrics_logs import by_hand, rows

from perflog.metrics import Tables, wait, wait_steps

Times = Mapping[int, Sequence[float | None]]
"""By rank, the seconds of each step; None where nothing is printed."""

WAITS: Times = {0: (1, 1, 4), 1: (3, 2, 3)}
PROCESS: Times = {0: (5, 5, 5), 1: (4, 4, 4)}


def tables(waits: Times = WAITS, process: Times = PROCESS, step_s: float | None = 10.0) -> Tables:
    """A run of the benchmark, whose phase `wait` waits for phase `process`."""
    values: list[dict[str, Any]] = [
        {"phase": phase, "step": step, "rank": rank, "occurrence": 0, "time_s": float(seconds)}
        for phase, times in (("wait", waits), ("process", process))
        for rank, of_rank in times.items()
        for step, seconds in enumerate(of_rank)
        if seconds is not None
    ]
    count = max(len(of_rank) for of_rank in waits.values())
    steps = [{"table": "steps", "step": step, "step_time_s": step_s} for step in range(count)]
    frames = by_hand("phases", [*values, *steps], world=2)
    frames["runs"]["format"] = "moe_layer"
    return Tables(frames)


def test_medians_over_the_ranks_and_of_each_rank() -> None:
    """Hidden is what the wait leaves of the time of the phase that it waits for, step by step."""
    common = {"run": "r", "label": None, "phase": "wait", "exposes": "process", "n": 3, "first_step": 0, "last_step": 2}
    names = ("rank", "exposed_s", "hidden_s", "total_s", "hidden_share", "share", "waits_least", "waits_most")
    expected = [
        (None, 2, 2.5, 4.5, 2.5 / 4.5, 0.2, None, None),
        (0, 1, 4, 5, 0.8, 0.1, 2 / 3, 1 / 3),
        (1, 3, 1, 4, 0.25, 0.3, 1 / 3, 2 / 3),
    ]
    assert rows(wait(tables(), warmup=0)) == [
        common | {name: pytest.approx(value) for name, value in zip(names, each, strict=True)} for each in expected
    ]


def test_the_first_steps_are_cut() -> None:
    found = rows(wait(tables(), warmup=1))
    assert [(row["rank"], row["exposed_s"], row["n"], row["first_step"]) for row in found] == [
        (None, 2.5, 2, 1), (0, 2.5, 2, 1), (1, 2.5, 2, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("waits", "least", "most"),
    [
        ({0: (1, 2, 2), 1: (3, 2, 1)}, [1 / 3, 1 / 3], [1 / 3, 1 / 3]),  # both wait as long in the second step
        ({0: (1, 2, None), 1: (3, 4, 1)}, [1, 0], [0, 1]),  # a step without a rank does not count
        ({0: (1, 2, 2)}, [None], [None]),
        ({0: (1,), 1: (3,)}, [1, 0], [0, 1]),  # one step
    ],
)
def test_in_which_share_of_the_steps_a_rank_waits_least_and_most(
    waits: Times, least: list[float | None], most: list[float | None]
) -> None:
    found = [row for row in rows(wait(tables(waits), warmup=0)) if row["rank"] is not None]
    assert [row["waits_least"] for row in found] == pytest.approx(least)
    assert [row["waits_most"] for row in found] == pytest.approx(most)


def test_without_the_awaited_phase_or_a_step_time_only_the_wait_is_known() -> None:
    found = rows(wait(tables(process={}, step_s=None), warmup=0))
    assert [row["exposed_s"] for row in found] == [2, 1, 3]
    assert {row[name] for row in found for name in ("hidden_s", "total_s", "hidden_share", "share")} == {None}


def test_steps_one_by_one() -> None:
    found = wait_steps(tables({0: (1, 1), 1: (3, None)}), 1)
    names = ("rank", "step", "exposed_s", "hidden_s", "total_s", "steady")
    got = [tuple(row[name] for name in names) for row in rows(found)]
    assert got == [
        (0, 0, 1, 4, 5, False), (1, 0, 3, 1, 4, False), (0, 1, 1, 4, 5, True), (None, 0, 2, 2.5, 4.5, False),
        (None, 1, 1, None, None, True),  # other ranks print the awaited phase
    ]  # fmt: skip
    assert set(found["phase"]) == {"wait"} and set(found["exposes"]) == {"process"}


def test_a_run_without_waits_has_no_rows() -> None:
    assert rows(wait(tables({0: (None, None)}), warmup=0)) == []
    assert len(wait_steps(tables({0: (None, None)}))) == len(wait_steps({})) == 0
