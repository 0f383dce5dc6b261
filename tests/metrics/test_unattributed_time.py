"""Phases, unattributed time and waits if ranks are not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.examples import examples

from perflog.formats.model import Phase
from perflog.metrics.phase_table import medians_over_steps, phase_table
from perflog.metrics.run_rows import RunRows
from perflog.metrics.semantics import RunSemantics
from perflog.metrics.unattributed_time import unattributed_times
from perflog.metrics.wait import _times_of_phases as wait_of

if TYPE_CHECKING:
    import pandas as pd

DECLARED = {
    "whole": Phase("whole"),
    "a": Phase("a", of=("whole",)),
    "b": Phase("b", of=("whole",)),
    "beside": Phase("beside", of=("whole",), hidden=True),
}


def part(values: Sequence[Mapping[str, object]], world: int | None) -> RunRows:
    import pandas as pd

    frame = pd.DataFrame(values).assign(run="r").astype({"rank": "float64"})
    return RunRows("r", None, frame, 0, float("nan"), world, RunSemantics(None, phases=DECLARED))


def rest_of(values: list[dict[str, object]], world: int | None) -> list[pd.DataFrame]:
    run = part(values, world)
    return list(unattributed_times(phase_table(run), [run]))


slow = examples(40)  # each example is several pandas groupings
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
    assert list(found["time_s"]) == pytest.approx(want, abs=1e-12)
    assert set(found["rest_by"]) == {"rank"}


@slow
@given(THREE, THREE, THREE, st.booleans())
def test_without_ranks_the_mean_of_the_rest_is_exact(
    whole: tuple[float, ...], a: tuple[float, ...], b: tuple[float, ...], known: bool
) -> None:
    (found,) = rest_of(step_of(whole, a, b, {"a": known}), 3)
    want = mean(w - x - y for w, x, y in zip(whole, a, b, strict=True))
    assert (found["rest_by"].item(), found["values"].item()) == ("mean", 3)
    assert found["mean"].item() == pytest.approx(want, abs=1e-12)
    assert found[["least", "median", "most"]].isna().all(axis=None)


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
    assert found["rest_by"].item() == "bounds"
    truth = whole[rank] - a[rank] - b[rank]
    assert found["least"].item() - 1e-12 <= truth <= found["most"].item() + 1e-12


def test_where_a_rank_may_be_missing_there_is_no_rest() -> None:
    values = step_of((3.0, 3.0, 3.0), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), {})
    assert rest_of([v for v in values if v["line"] != 1], 3) == []
    assert rest_of(values, 4) == []


def test_values_of_one_record_are_of_one_rank() -> None:
    values = step_of((3.0, 5.0, 7.0), (1.0, 1.0, 2.0), (1.0, 2.0, 2.0), {})
    for value in values:
        value["line"] = int(str(value["line"])) // 4
    (found,) = rest_of(values, None)
    assert (set(found["rest_by"]), list(found["time_s"])) == ({"record"}, [1.0, 2.0, 3.0])


def test_phases_of_several_wholes_need_their_occurrence() -> None:
    means = RunSemantics(None, phases={"x": Phase("x", of=("forward", "backward")), "y": Phase("y", of=("x",))})
    assert means.lineage("x", 1) == ("x", "forward", "step")
    assert means.lineage("x", 3) == ("x", "backward", "step")
    assert means.lineage("x", None) == ("x",)
    assert means.lineage("y", 2) == ("y", "x")
    circle = RunSemantics(None, phases={"x": Phase("x", of=("y",)), "y": Phase("y", of=("x",))})
    assert circle.lineage("x", 1) == ("x", "y")


def test_of_a_torn_step_with_several_occurrences_no_rank_is_kept() -> None:
    twice = [
        {"line": at, "part": 0, "step": step, "phase": "a", "time_s": 1.0, "rank": rank, "occurrence": k}
        for at, (step, rank, k) in enumerate(
            [(0, 0, 1), (0, 0, 2), (0, 1, 1), (0, 1, 2), (1, 0, 1), (1, 1, 1), (1, 1, 2)]
        )
    ]
    rows_ = phase_table(part([*twice, twice[0] | {"line": 9, "step": 1, "rank": None}], 2))
    assert rows_["rank"].isna().tolist() == [False] * 4 + [True] * 4
    assert rows_["node"].isna().all()


def test_a_wait_for_nothing_declared_is_exposed_all_the_same() -> None:
    values = [
        {"line": r, "part": 0, "step": 0, "phase": "w", "time_s": 1.0 + r, "rank": r, "occurrence": 1} for r in (0, 1)
    ]
    waiting = replace(part(values, 2), semantics=RunSemantics(None, phases={"w": Phase("w", kind="wait")}))
    (found,) = wait_of([waiting], phase_table(waiting))
    assert found["exposed_s"].tolist() == [1.0, 2.0, 1.5]
    assert found[["total_s", "hidden_s"]].isna().all(axis=None)


def test_medians_over_steps_tell_their_window() -> None:
    import pandas as pd

    figures = {"least": [1.0, 3.0], "median": [2.0, 4.0], "most": [3.0, 9.0], "mean": [2.0, 5.0], "values": [2, 2]}
    steps = pd.DataFrame({"phase": "a", "occurrence": float("nan"), "rank": 3.0, "step": [4, 7], **figures})
    (one,) = medians_over_steps(steps)
    assert (one["n"], one["first_step"], one["last_step"], one["rank"], one["occurrence"]) == (2, 4, 7, 3, None)
    assert (one["least"], one["median"], one["most"], one["mean"]) == (2.0, 3.0, 6.0, 3.5)
