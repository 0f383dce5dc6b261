"""The phase table: what is certain about each row, and statistics by step."""

from __future__ import annotations

from statistics import mean, median
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.phase_tables import table_of

from perflog.formats.model import Phase
from perflog.metrics.step_time.phase_table import StepFigures, medians_over_steps, step_figures, times_on_ranks


def row(phase: str, time_s: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"line": 1, "part": 0, "step": 0, "rank": 0, "occurrence": 1, "phase": phase, "time_s": time_s} | more


def test_of_a_torn_step_with_several_occurrences_no_rank_is_kept() -> None:
    twice = [
        {"line": at, "part": 0, "step": step, "phase": "a", "time_s": 1.0, "rank": rank, "occurrence": k}
        for at, (step, rank, k) in enumerate(
            [(0, 0, 1), (0, 0, 2), (0, 1, 1), (0, 1, 2), (1, 0, 1), (1, 1, 1), (1, 1, 2)]
        )
    ]
    table = table_of([*twice, twice[0] | {"line": 9, "step": 1, "rank": None}], 2)
    assert np.isnan(table.rank).tolist() == [False] * 4 + [True] * 4
    assert not table.node.any()


def test_of_a_torn_step_with_one_occurrence_the_ranks_are_kept() -> None:
    """A row without rank is one of the other ranks: no rank prints the phase twice."""
    rows = [row("a", rank=rank, step=step) for step in (0, 1) for rank in (0, 1, 2)]
    rows[4]["rank"] = None
    table = table_of(rows, 3)
    assert np.nan_to_num(table.rank, nan=-1).tolist() == [0, 1, 2, 0, -1, 2]
    assert table.torn.tolist() == [False] * 3 + [True] * 3
    assert table.node.tolist() == [0] * 6
    assert table_of(rows[:3], 3).node.tolist() == [1] * 3


def test_a_torn_phase_of_one_run_tears_no_other() -> None:
    rows = [row("a", rank=0, occurrence=2), row("a", rank=None), row("b", rank=0, occurrence=2)]
    rows += [row("a", rank=0, occurrence=2, run_index=1)]
    table = table_of(rows, 2)
    assert table.torn.tolist() == [True, True, False, False]
    assert table.node.tolist() == [0, 0, 2, 2]
    assert np.isnan(table.rank).tolist() == [True, True, False, False]
    assert np.isnan(table.printed_rank).tolist() == [False, True, False, False]


def test_parents_of_occurrences() -> None:
    phases = {"x": Phase("x", of=("forward", "backward")), "y": Phase("y", of=("x",))}
    table = table_of([row("x"), row("x", occurrence=2), row("y"), row("z"), row("x", step=1, rank=None)], 2, phases)
    parents = [None if parent < 0 else table.names[parent] for parent in table.parent]
    assert table.parent[-1] == -1
    assert parents == ["forward", "backward", "x", "step", None]  # which occurrence the last is, is not known
    assert table.names[:3] == ["x", "y", "z"]


def test_the_only_rank_of_a_run_is_known() -> None:
    assert table_of([row("a", rank=None)], 1).rank.tolist() == [0.0]
    assert np.isnan(table_of([row("a", rank=None)], 2).rank).all()
    assert np.isnan(table_of([row("a", rank=None)], None).rank).all()


def test_some_rows_of_a_table() -> None:
    rows = [
        row(phase, step=step, run_index=run_index) for run_index in (0, 1, 2) for step in (3, 4) for phase in ("b", "a")
    ]
    table = table_of(rows, 1)
    assert table.rows_in(1).step.tolist() == [3, 3, 4, 4] and set(table.rows_in(1).run_index.tolist()) == {1}
    assert len(table.rows_in(0)) + len(table.rows_in(2)) == 8
    assert table.where(table.named("a")).step.tolist() == [3, 4] * 3
    assert not table.named("c").any() and not table.named(None).any()
    assert table.cases() == [(run_index, phase) for run_index in (0, 1, 2) for phase in (1, 0)]
    assert len(table.where(np.zeros(len(table), np.bool_))) == 0
    broadcast = replace(table, min_s=np.broadcast_to(np.float64(7.0), len(table)))
    assert broadcast.where(table.named("a")).min_s.tolist() == [7.0] * 6
    first = replace(table, runs=[replace(run, first=4) for run in table.runs])
    assert set(first.steady().step.tolist()) == {4} and len(first.steady()) == 6


def test_times_on_ranks_are_sums_of_a_step() -> None:
    rows = [
        row("a", 1.0, rank=1),
        row("b", 2.5, rank=1),
        row("a", 4.0),
        row("a", 8.0, step=1),
        row("a", 9.0, rank=None),
    ]
    table = table_of(rows, 2)
    run_index, step, rank, times = (column.tolist() for column in times_on_ranks(table, table.rank))
    assert [*zip(run_index, step, rank, times, strict=True)] == [(0, 0, 0, 4.0), (0, 0, 1, 3.5), (0, 1, 0, 8.0)]


ROWS = st.tuples(
    st.integers(0, 1), st.sampled_from("ab"), st.integers(1, 2), st.integers(0, 1), st.integers(0, 2),
    st.integers(1, 99),
)  # fmt: skip


@given(st.lists(ROWS, min_size=1, max_size=20))
def test_statistics_of_each_step(values: list[tuple[int, str, int, int, int, int]]) -> None:
    """Over all ranks and on each, against the rows one by one."""
    names = ("run_index", "phase", "occurrence", "step", "rank", "time_s")
    rows: list[dict[str, Any]] = [dict(zip(names, value, strict=True)) for value in sorted(values)]
    table = table_of([{"line": 1, "part": 0} | each for each in rows], 3)
    figures = step_figures(table)
    expected: dict[tuple[Any, ...], list[float]] = {}
    for each in rows:
        for rank in (-1, each["rank"]):
            key = each["run_index"], each["phase"], each["occurrence"], rank, each["step"]
            expected.setdefault(key, []).append(float(each["time_s"]))
    columns = (
        figures.run_index,
        (table.names[i] for i in figures.phase),
        figures.occurrence,
        figures.rank,
        figures.step,
    )
    found: list[Any] = [tuple(x if isinstance(x, str) else int(x) for x in key) for key in zip(*columns, strict=True)]
    assert sorted(found) == sorted(expected)
    for i, key in enumerate(found):
        times = expected[key]
        statistics = figures.least[i], figures.median[i], figures.most[i], figures.mean[i], figures.values[i]
        assert statistics == (min(times), median(times), max(times), mean(times), len(times))
    assert [key[3] < 0 for key in found] == sorted((key[3] < 0 for key in found), reverse=True)
    doubled = step_figures(table, 2 * table.time_s)
    assert doubled.most.tolist() == (2 * figures.most).tolist()


def test_medians_over_steps_have_their_window() -> None:
    of_steps = {"least": [1.0, 3.0], "median": [2.0, 4.0], "most": [3.0, 9.0], "mean": [2.0, 5.0], "values": [2, 2]}
    keys = {"run_index": [0, 0], "phase": [0, 0], "occurrence": [0, 0], "rank": [3, 3], "step": [7, 4]}
    columns: Any = {name: np.array(values) for name, values in (keys | of_steps).items()}
    figures, table = StepFigures(**columns), table_of([row("a", rank=3)], 4)
    (one,) = medians_over_steps(figures, table)
    assert "rest_by" not in one
    assert (one["n"], one["first_step"], one["last_step"], one["rank"], one["occurrence"]) == (2, 4, 7, 3, None)
    assert (one["least"], one["median"], one["most"], one["mean"]) == (2.0, 3.0, 6.0, 3.5)
    (rest,) = medians_over_steps(replace(figures, rank=figures.rank * 0 - 1, rest_by="mean"), table)
    assert (rest["rank"], rest["rest_by"], rest["phase"], rest["values"]) == (None, "mean", "a", 2.0)


def test_medians_are_in_the_order_of_the_log() -> None:
    table = table_of([row(phase, rank=rank, step=step) for step in (0, 1) for phase in "ba" for rank in (1, 0)], 2)
    found = [(each["phase"], each["rank"], each["n"]) for each in medians_over_steps(step_figures(table), table)]
    pooled, by_rank = found[:2], found[2:]
    assert sorted(pooled) == [("a", None, 2), ("b", None, 2)]
    assert sorted(by_rank) == [(phase, rank, 2) for phase in "ab" for rank in (0, 1)]
