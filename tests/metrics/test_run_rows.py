"""Rows of runs by step: steady steps, ranks, and means over the ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.metrics_logs import by_hand

from perflog.metrics import Tables
from perflog.metrics.run_rows import (
    codes_in,
    lines_of_runs,
    orders_of_rows,
    rank_means,
    steady_runs,
    step_rows,
    totals_of_steps,
    worlds_of,
)
from perflog.tables.columns import NULL

NAN = float("nan")


def means(*rows: tuple[int, int, float, float], world: float = NAN) -> list[tuple[int, int, float, int]]:
    """Run, step, mean and number of ranks of rows of run, step, rank and time. All runs have as many ranks."""
    run_index, step, rank, seconds = (np.array(column) for column in zip(*rows, strict=True))
    found = rank_means(run_index, step, rank.astype(np.float64), seconds.astype(np.float64), np.array([world, world]))
    columns = (found.run_index, found.step, found.time_s, found.ranks)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(
    ("rows", "world", "expected"),
    [
        ([(0, 1, 0, 2), (0, 1, 1, 4), (0, 2, 0, 1), (0, 2, 1, 2)], NAN, [(0, 1, 3, 2), (0, 2, 1.5, 2)]),
        ([(0, 1, 0, 2), (0, 1, 0, 3), (0, 1, 1, 4)], NAN, [(0, 1, 4.5, 2)]),  # times of a rank add up
        ([(0, 1, 0, 2), (1, 1, 0, 4), (1, 1, 5, 8)], NAN, [(0, 1, 2, 1), (1, 1, 6, 2)]),  # of each run
        # Rows of unknown ranks: only if there is one for each rank
        ([(0, 1, NAN, 2), (0, 1, NAN, 4)], 2, [(0, 1, 3, 2)]),
        ([(0, 1, NAN, 2), (0, 1, 1, 4)], 2, [(0, 1, 3, 2)]),
        ([(0, 1, NAN, 2), (0, 1, NAN, 4), (0, 2, 0, 5)], 3, [(0, 2, 5, 1)]),
        ([(0, 1, NAN, 2), (0, 1, NAN, 4), (0, 2, 0, 5)], NAN, [(0, 2, 5, 1)]),
    ],
)
def test_means_over_the_ranks_of_a_step(rows: Any, world: float, expected: Any) -> None:
    assert means(*rows, world=world) == expected


def step(run: str, number: int, seconds: float, rank: int | None = None) -> dict[str, Any]:
    return {"run": run, "step": number, "step_time_s": seconds, "rank": rank}


def tables(*rows: dict[str, Any], worlds: tuple[int | None, ...] = (None,)) -> Tables:
    frames = by_hand("steps", rows)
    runs = frames["runs"].iloc[[0] * len(worlds)].reset_index(drop=True).astype(object)
    frames["runs"] = runs.assign(run=[f"r{k}" for k in range(len(worlds))], world_size=list(worlds))
    return Tables(frames)


def test_rows_are_in_the_order_of_the_runs_and_steady_from_the_warm_up_on() -> None:
    rows = [step("r1", n, 1.0 + n) for n in range(4)] + [step("r0", n, 9.0) for n in range(3)]
    found = step_rows(tables(*rows, worlds=(4, None)), "steps", "step_time_s", 1)
    assert [(run.run, run.first, run.step_s, run.world) for run in found.runs] == [("r0", 1, 9, 4), ("r1", 1, 3, None)]
    assert found.run_index.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert found.steady().rows["step"].tolist() == [1, 2, 1, 2, 3]
    assert found.steady().run_index.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(("world", "ranks"), [(1, [0, 3]), (2, [None, 3]), (None, [None, 3])])
def test_the_only_rank_of_a_run_is_known(world: int | None, ranks: list[int | None]) -> None:
    found = step_rows(tables(step("r0", 1, 1.0), step("r0", 2, 1.0, 3), worlds=(world,)), "steps", "step_time_s", 0)
    assert [None if rank != rank else rank for rank in found.rank.tolist()] == ranks


def test_rows_without_a_step_or_a_value_are_left_out() -> None:
    rows = [step("r0", 1, 1.0), {"run": "r0", "step_time_s": 2.0}, {"run": "r0", "step": 3}]
    assert step_rows(tables(*rows), "steps", "step_time_s", 0).rows["step"].tolist() == [1]


def test_numbers_of_lines_and_of_words() -> None:
    table = tables(step("r1", 1, 1.0), step("r0", 1, 1.0), step("r1", 2, 1.0), worlds=(None, None))
    found = lines_of_runs(table, table.rows("steps")).tolist()
    assert found == [(1 << 40) + 1, 2, (1 << 40) + 3]
    names = {"a": 0}
    assert codes_in(names, ["b", "a", "b", "c"]).tolist() == [1, 0, 1, 2] and names == {"a": 0, "b": 1, "c": 2}


def first_steady(phases: list[int], steps: list[int], warmup: int) -> tuple[int, list[int]]:
    """The first steady step of a run with phases in some steps and step times in others, and its steady phases."""
    rows = [{"phase": "a", "step": n, "time_s": 1.0} for n in phases]
    made = by_hand("phases", [*rows, *({"table": "steps", "step": n, "step_time_s": 1.0} for n in steps)])
    found = step_rows(Tables(made), "phases", "time_s", warmup)
    return found.runs[0].first, found.steady().rows["step"].tolist()


@pytest.mark.parametrize(
    ("phases", "steps", "warmup", "expected"),
    [
        ([5, 5, 6, 7], [], 0, (5, [5, 5, 6, 7])),
        ([5, 5, 6, 7], [], 1, (6, [6, 7])),  # without step times the steps of the table count
        ([5, 5, 6, 7], [], 3, (8, [])),
        ([5, 5, 6, 7], [], 9, (8, [])),
        ([5, 6, 7, 8], [5, 6, 7, 8], 2, (7, [7, 8])),
        ([5, 6, 7, 8], [5, 6], 2, (9, [])),  # all step times are of the warm-up
        ([5, 6, 7, 8], [7, 8], 1, (8, [8])),
        ([5, 6, 7, 8], [7, 8], 0, (5, [5, 6, 7, 8])),
        ([7, 8, 9], [5, 6, 7, 8, 9], 1, (6, [7, 8, 9])),
    ],
)
def test_the_first_steady_step(
    phases: list[int], steps: list[int], warmup: int, expected: tuple[int, list[int]]
) -> None:
    assert first_steady(phases, steps, warmup) == expected


def test_numbers_of_ranks() -> None:
    rows = [step("r0", 1, 1.0), step("r1", 1, 1.0)]
    found = step_rows(tables(*rows, worlds=(None, 4)), "steps", "step_time_s", 0)
    assert worlds_of(found.runs).tolist() == [pytest.approx(NAN, nan_ok=True), 4]


def test_without_rows_there_are_no_runs() -> None:
    none = np.zeros(0, np.int64)
    runs, index = steady_runs(tables(step("a", 1, 1.0)), none, none, none.astype(np.float64), 0)
    assert (runs, len(index)) == ([], 0)


def test_sums_of_the_steps_of_each_part() -> None:
    """A part is, for instance, a run; one may have no rows."""
    steps, times = np.array([1, 2, 1, 1]), np.array([1.0, 2.0, 4.0, 8.0])
    sums = totals_of_steps(steps, times, np.array([0, 0, 0, 2]), 3)
    assert [each.tolist() for each in sums] == [[5, 2], [], [8]]


def test_rows_of_steps_that_start_again_in_each_epoch_are_of_the_nearest_line() -> None:
    """Three epochs of four steps, each on a line of its own, then a run that counts its steps on."""
    lines = [{"step": step, "epoch": epoch} for epoch in range(3) for step in range(4)]
    made = by_hand("steps", [*lines, *({"step": step} for step in range(20, 24))])
    runs = pd.concat([made["runs"], made["runs"].assign(run="s", index=2)])
    steps = made["steps"].assign(run=["r"] * 12 + ["s"] * 4)
    places = [(0, 0, 1, 0), (0, 0, 6, 4), (0, 3, 7, 7), (0, 3, 9, 7), (0, 2, 12, 10), (0, 9, 5, NULL), (1, 22, 15, 22)]
    numbers, of_rows, of_lines, expected = (np.array(column) for column in zip(*places, strict=True))
    tables = Tables({"runs": runs, "steps": steps})
    assert orders_of_rows(tables, numbers, of_rows, of_lines).tolist() == expected.tolist()
    assert orders_of_rows(tables, numbers[-1:], of_rows[-1:], of_lines[-1:]).tolist() == [22]
