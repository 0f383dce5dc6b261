"""Phases, unattributed time and waits if ranks are not known."""

from __future__ import annotations

from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.phase_tables import DECLARED, table_of

from perflog.formats.model import Phase
from perflog.metrics.semantics import RunSemantics
from perflog.metrics.step_time.phase_table import StepFigures
from perflog.metrics.step_time.unattributed_time import unattributed_times
from perflog.metrics.step_time.wait import _times_of_phases as wait_of


def rest_of(values: list[dict[str, object]], world: int | None) -> list[StepFigures]:
    return list(unattributed_times(table_of(values, world)))


slow = examples(40)
SECONDS = st.floats(0.001, 1.0)
THREE = st.tuples(SECONDS, SECONDS, SECONDS)


def step_of(
    whole: tuple[float, ...], a: tuple[float, ...], b: tuple[float, ...], ranks: dict[str, bool]
) -> list[dict[str, object]]:
    """One step of three ranks, each value on its own line; the ranks of a phase are known or not."""
    times = {"whole": whole, "a": a, "b": b, "beside": (9.0, 9.0, 9.0)}
    return [
        {"line": len(times) * rank + at, "part": 0, "step": 0, "phase": name, "time_s": value}
        | {"rank": rank if ranks.get(name) else None, "occurrence": 1 if ranks.get(name) else rank + 1}
        for at, (name, values) in enumerate(times.items())
        for rank, value in enumerate(values)
    ]


@slow
@given(THREE, THREE, THREE)
def test_a_rest_is_exact_where_ranks_are_known(
    whole: tuple[float, ...], a: tuple[float, ...], b: tuple[float, ...]
) -> None:
    (found,) = rest_of(step_of(whole, a, b, {"whole": True, "a": True, "b": True}), 3)
    want = [w - (x + y) for w, x, y in zip(whole, a, b, strict=True)]
    assert found.mean[found.rank >= 0].tolist() == pytest.approx(want, abs=1e-12)
    assert found.mean[found.rank < 0].item() == pytest.approx(mean(want), abs=1e-12)
    assert found.rest_by == "rank"


@slow
@given(THREE, THREE, THREE, st.booleans())
def test_without_ranks_the_mean_of_the_rest_is_exact(
    whole: tuple[float, ...], a: tuple[float, ...], b: tuple[float, ...], known: bool
) -> None:
    (found,) = rest_of(step_of(whole, a, b, {"a": known}), 3)
    want = mean(w - x - y for w, x, y in zip(whole, a, b, strict=True))
    assert (found.rest_by, found.values.item()) == ("mean", 3)
    assert found.mean.item() == pytest.approx(want, abs=1e-12)
    assert np.isnan([found.least, found.median, found.most]).all()


@slow
@given(THREE, THREE, THREE, st.integers(0, 2), st.booleans())
def test_the_rest_of_one_ranks_whole_is_within_its_bounds(
    whole: tuple[float, ...], a: tuple[float, ...], b: tuple[float, ...], rank: int, known: bool
) -> None:
    values = [v for v in step_of(whole, a, b, {"a": known}) if v["phase"] != "whole"]
    values.append(
        {"line": 99, "part": 0, "step": 0, "phase": "whole", "time_s": whole[rank], "rank": None, "occurrence": 1}
    )
    (found,) = rest_of(values, 3)
    assert found.rest_by == "bounds"
    truth = whole[rank] - a[rank] - b[rank]
    assert found.least.item() - 1e-12 <= truth <= found.most.item() + 1e-12


def test_where_a_rank_may_be_missing_there_is_no_rest() -> None:
    values = step_of((3.0, 3.0, 3.0), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), {})
    assert rest_of([v for v in values if v["line"] != 1], 3) == []
    assert rest_of(values, 4) == []


def test_values_of_one_record_are_of_one_rank() -> None:
    values = step_of((3.0, 5.0, 7.0), (1.0, 1.0, 2.0), (1.0, 2.0, 2.0), {})
    for value in values:
        value["line"] = int(str(value["line"])) // 4
    (found,) = rest_of(values, None)
    assert (found.rest_by, found.values.item()) == ("record", 3)
    assert (found.least.item(), found.median.item(), found.most.item()) == (1.0, 2.0, 3.0)


def test_phases_of_several_wholes_need_their_occurrence() -> None:
    means = RunSemantics(None, phases={"x": Phase("x", of=("forward", "backward")), "y": Phase("y", of=("x",))})
    assert means.lineage("x", 1) == ("x", "forward", "step")
    assert means.lineage("x", 3) == ("x", "backward", "step")
    assert means.lineage("x", None) == ("x",)
    assert means.lineage("y", 2) == ("y", "x")
    circle = RunSemantics(None, phases={"x": Phase("x", of=("y",)), "y": Phase("y", of=("x",))})
    assert circle.lineage("x", 1) == ("x", "y")


def test_a_wait_for_nothing_declared_is_exposed_all_the_same() -> None:
    values = [
        {"line": r, "part": 0, "step": 0, "phase": "w", "time_s": 1.0 + r, "rank": r, "occurrence": 1} for r in (0, 1)
    ]
    means, (place, wait, step, rank, exposed, total) = wait_of(table_of(values, 2, {"w": Phase("w", kind="wait")}))
    assert (means[4].tolist(), exposed.tolist(), rank.tolist()) == ([1.5], [1.0, 2.0], [0.0, 1.0])
    assert np.isnan([*means[5], *total]).all()
    assert not np.concatenate([place, wait, step]).any()


@pytest.mark.parametrize(("hidden", "rests"), [(True, [1.0]), (False, [])])
def test_a_phase_that_may_be_inside_forbids_the_rest_unless_it_is_hidden(hidden: bool, rests: list[float]) -> None:
    """`c` is in one of two wholes: nobody knows in which."""
    declared = {**DECLARED, "c": Phase("c", of=("whole", "other"), hidden=hidden)}
    values = [
        {"line": 0, "part": 0, "step": 0, "phase": name, "time_s": time_s, "rank": None, "occurrence": 1}
        for name, time_s in (("whole", 3.0), ("a", 1.5), ("b", 0.5), ("c", 0.25))
    ]
    assert [found.mean.item() for found in unattributed_times(table_of(values, None, declared))] == rests


@pytest.mark.parametrize("rows", [1, 1000])
def test_of_steps_only_their_rest_over_all_ranks_counts(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rows`: that are added up at a time."""
    monkeypatch.setattr("perflog.metrics.step_time.unattributed_time._SUMMED", rows)
    declared = {"a": Phase("a", of=("step",)), "b": Phase("b", of=("a",))}
    values = [
        {"line": rank, "part": 0, "step": 0, "phase": name, "time_s": seconds, "rank": rank, "occurrence": 1}
        for rank in range(3)
        for name, seconds in (("step", 4.0 + rank), ("a", 2.0), ("b", 1.0))
    ]
    table = table_of(values, 3, declared)
    of_step, of_a = unattributed_times(table)
    assert (table.names[of_step.phase[0]], table.names[of_a.phase[0]]) == ("step", "a")
    (found,) = unattributed_times(table, steps_only=True)
    assert found.rank.tolist() == [-1]
    assert (found.least.tolist(), found.mean.tolist(), found.most.tolist()) == ([2.0], [3.0], [4.0])
    assert of_step.mean[of_step.rank < 0].tolist() == [3.0]
