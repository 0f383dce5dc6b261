"""Phases, rests and waits: the numbers of the real logs, computed another way; formats that declare nothing."""

from __future__ import annotations

from statistics import mean, median
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.metrics_logs import BOTH, by_hand, printed, row, rows, runs, tables, two_waiting_ranks
from support.seeds import MS

from perflog.formats.model import Phase
from perflog.metrics import METRICS, phases, wait, wait_steps
from perflog.metrics.compared import Steady
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import RunSemantics
from perflog.metrics.step_time import phases as module
from perflog.metrics.step_time.phases import (
    _columns_of_steps,
    _covers_usual,
    _of_first_printings,
    _phases_on_step_lines,
    _rows_of_wholes,
    _times_in_steps,
    have_phases,
)
from perflog.tables.columns import NULL, rows_from_frame

MOE = "moe_layer"
RANKS = range(4)


# --- the real logs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", BOTH)
def test_process_and_wait_of_the_benchmark(where: str) -> None:
    """Steady medians of each rank: process 3.5 to 4.5 ms, wait 1.1 to 2.2, their difference 1.8 to 2.5."""
    found = wait(tables(MOE, where))
    ranked = [r for r in rows(found) if r["rank"] is not None]
    assert len(ranked) == 16
    assert all((r["first_step"], r["last_step"], r["n"], r["exposes"]) == (1, 99, 99, "process") for r in ranked)
    for name, low, high in (("total_s", 3.5, 4.5), ("exposed_s", 1.1, 2.2), ("hidden_s", 1.75, 2.55)):
        values = [r[name] / MS for r in ranked]
        assert low <= min(values) and max(values) <= high


@pytest.mark.parametrize("where", BOTH)
def test_gather_times_of_the_run_with_32_experts(where: str) -> None:
    found = phases(tables(MOE, where))
    for occurrence in (1, 2):
        mine = rows(found, run=runs(MOE, where)[2], phase="gather_gemm", occurrence=occurrence)
        assert [r["rank"] for r in mine] == [None, *RANKS]
        assert [r["median_s"] / MS for r in mine[1:]] == pytest.approx([1.86, 1.12, 1.80, 1.91], abs=0.02)
    assert {r["parent"] for r in rows(found, phase="gather_gemm", occurrence=2)} == {"gemm2_backward"}


@pytest.mark.parametrize("warmup", [0, 100])  # of 100 steps
def test_whether_there_are_phases_shows_without_their_rows(warmup: int) -> None:
    """What to run next asks it; of many ranks the rows take seconds."""
    of = tables(MOE)
    assert have_phases(of, Options(warmup=warmup)) == bool(len(phases.table(of, Options(warmup=warmup))))


@pytest.mark.parametrize("where", BOTH)
def test_what_is_hidden_is_no_part_of_the_step(where: str) -> None:
    found = phases(tables(MOE, where))
    beside = {r["phase"] for r in rows(found, hidden=True)}
    assert beside == {"process", "gate", "exchange", "select", "dispatch"}
    assert {r["share"] for r in rows(found, hidden=True)} == {None}
    for r in rows(
        found, part="rest", phase="process"
    ):  # process = gate + exchange + select + dispatch, to the last bit
        assert abs(r["median_s"]) < 1e-15 and r["rest_by"] == "record"


@pytest.mark.parametrize("where", BOTH)
def test_rests_of_the_benchmark(where: str) -> None:
    found = phases(tables(MOE, where))
    for run in runs(MOE, where):
        step = row(found, run=run, part="rest", phase="step")  # loss and synchronisation
        assert 0.08 * MS < step["least_s"] == step["most_s"] < 0.37 * MS
        linear2 = row(found, run=run, part="rest", phase="linear2_backward")
        assert 0.005 * MS <= linear2["least_s"] <= linear2["most_s"] <= 0.045 * MS
        linear1 = row(found, run=run, part="rest", phase="linear1_backward")
        assert (linear1["rest_by"], linear1["median_s"]) == ("mean", None)
        assert linear1["mean_s"] == pytest.approx(0.050 * MS, rel=0.25)
        forward = row(found, run=run, part="rest", phase="forward")  # rank 0's is near 0.98 ms, but not known to be
        assert (forward["rest_by"], forward["median_s"], forward["mean_s"]) == ("bounds", None, None)
        assert forward["least_s"] < 0.98 * MS < forward["most_s"]


@pytest.mark.parametrize("where", BOTH)
def test_a_rank_is_given_what_is_proven_to_be_its_own(where: str) -> None:
    found = phases(tables(MOE, where), warmup=0)
    ranked = [r["n"] for r in rows(found, phase="prepare_forward") if r["rank"] is not None]
    table = tables(MOE, where)["phases"]
    assert sum(ranked) == table["rank"][table["phase"] == "prepare_forward"].notna().sum() == 1565
    assert all(r["rank"] is None for r in rows(found, phase="moe_forward"))
    assert {r["values"] for r in rows(found, phase="moe_forward", part="phase")} == {4}


def test_times_are_those_of_the_text() -> None:
    found = phases(tables(MOE, "seed"))
    for run, steps in zip(runs(MOE, "seed"), printed(), strict=True):
        steady = steps[1:]
        for rank in RANKS:
            for at, name in enumerate(("process", "gate", "exchange", "select", "dispatch")):
                want = median(s.process[rank][at] for s in steady) * MS
                assert row(found, run=run, part="phase", phase=name, rank=rank)["median_s"] == pytest.approx(want)
            want = median(s.wait[rank] for s in steady) * MS
            assert row(found, run=run, phase="wait", rank=rank)["median_s"] == pytest.approx(want)
        over = row(found, run=run, phase="moe_forward", part="phase")
        for name, of in (("least_s", min), ("median_s", median), ("most_s", max), ("mean_s", mean)):
            assert over[name] == pytest.approx(median(of(s.forward) for s in steady) * MS)
        assert over["share"] == pytest.approx(over["median_s"] / (median(s.step[0] for s in steady) * MS))


def test_rests_are_those_of_the_text() -> None:
    found = phases(tables(MOE, "seed"))
    for run, steps in zip(runs(MOE, "seed"), printed(), strict=True):
        steady = steps[1:]
        rest = {
            name: row(found, run=run, part="rest", phase=name, rank=None) for name in ("step", "forward", "backward")
        }
        assert rest["step"]["median_s"] == pytest.approx(median(t - f - b for t, f, b in (s.step for s in steady)) * MS)
        want = median(s.step[1] - max(s.wait.values()) - max(s.forward) for s in steady) * MS
        assert rest["forward"]["least_s"] == pytest.approx(want)
        want = median(s.step[2] - min(s.linear1) - min(whole for whole, _ in s.linear2) for s in steady) * MS
        assert rest["backward"]["most_s"] == pytest.approx(want)
        linear2 = row(found, run=run, part="rest", phase="linear2_backward")
        want = median(median(whole - inner for whole, inner in s.linear2) for s in steady) * MS
        assert linear2["median_s"] == pytest.approx(want)
        linear1 = row(found, run=run, part="rest", phase="linear1_backward")
        want = median((sum(s.linear1) - sum(map(sum, s.inside1))) / 4 for s in steady) * MS
        assert linear1["mean_s"] == pytest.approx(want)


def test_waits_are_those_of_the_text() -> None:
    found = wait(tables(MOE, "seed"))
    steps = wait_steps(tables(MOE, "seed"))
    assert len(steps) == 4 * 100 * 5
    for run, printed_steps in zip(runs(MOE, "seed"), printed(), strict=True):
        steady = printed_steps[1:]
        over = row(found, run=run, rank=None)
        assert over["exposed_s"] == pytest.approx(median(mean(s.wait.values()) for s in steady) * MS)
        for rank in RANKS:
            mine = row(found, run=run, rank=rank)
            hidden = [s.process[rank][0] - s.wait[rank] for s in steady]
            assert mine["hidden_s"] == pytest.approx(median(hidden) * MS)
            want = median(h / s.process[rank][0] for h, s in zip(hidden, steady, strict=True))
            assert mine["hidden_share"] == pytest.approx(want)
            least = [s for s in steady if all(s.wait[rank] < s.wait[r] for r in RANKS if r != rank)]
            assert mine["waits_least"] == pytest.approx(len(least) / 99)
            one = row(steps, run=run, rank=rank, step=57)
            assert one["exposed_s"] == pytest.approx(printed_steps[57].wait[rank] * MS)


def test_all_columns_of_a_tree() -> None:
    """Steps of 10 s; two ranks wait 1 and 3 s of a forward of 4 s, which may be of either: its rest has bounds."""
    made = two_waiting_ranks()
    same = {"run": "r", "label": None, "hidden": False, "n": 3, "first_step": 2, "last_step": 4}
    names = ("part", "phase", "occurrence", "rank", "parent", "kind", "clock", "median_s", "least_s", "most_s",
             "mean_s", "share", "values", "rest_by")  # fmt: skip
    of_wait = ("forward", "wait", "host")
    nothing = (None,) * 3
    expected: list[tuple[Any, ...]] = [
        ("whole", "step", None, None, *nothing, 10, 10, 10, 10, 1, 1, None),
        ("whole", "forward", None, None, "step", None, None, 4, 4, 4, 4, 0.4, 1, None),
        ("phase", "wait", 1, None, *of_wait, 2, 1, 3, 2, 0.2, 2, None),
        ("phase", "wait", 1, 0, *of_wait, 1, None, None, 1, 0.1, 1, None),
        ("phase", "wait", 1, 1, *of_wait, 3, None, None, 3, 0.3, 1, None),
        ("rest", "forward", None, None, "forward", None, None, None, 1, 3, None, None, 1, "bounds"),
        ("whole", "backward", None, None, "step", None, None, 5, 5, 5, 5, 0.5, 1, None),
        ("rest", "step", None, None, "step", None, None, 1, 1, 1, 1, 0.1, 1, "record"),
    ]
    assert rows(phases(made, warmup=1)) == [same | dict(zip(names, row, strict=True)) for row in expected]


def test_logs_without_phases_have_none() -> None:
    assert not len(phases(tables("training_sweep"))) and not len(wait(tables("pipeline_layers")))
    assert not len(wait_steps(tables("nvprof")))


# --- formats that declare nothing -----------------------------------------------------------------------------------


def test_phases_of_an_unknown_format_are_part_of_the_step() -> None:
    values = [
        {"table": table, "step": step, "line": step} | more
        for step in range(1, 9)
        for table, more in (
            ("steps", {"step_time_s": 1.0}),
            ("phases", {"phase": "load", "occurrence": 1, "time_s": 0.25}),
            ("phases", {"phase": "work", "occurrence": 1, "time_s": 0.5}),
        )
    ]
    found = phases(by_hand("phases", values))
    load = row(found, phase="load")
    assert (load["parent"], load["kind"], load["hidden"], load["share"]) == ("step", None, False, 0.25)
    assert row(found, part="rest")["median_s"] == 0.25
    assert list(found["phase"]) == ["step", "load", "work", "step"]
    assert not len(wait(by_hand("phases", values)))


@pytest.mark.parametrize(
    ("values", "world", "compared"),
    [(1, None, 0.25), (1, 8, 0.25), (8, 8, 0.25), (16, 8, 0.5), (2, 8, None), (8, None, None)],
)
def test_the_compared_time_of_unlabelled_ranks(values: int, world: int | None, compared: float | None) -> None:
    """One value is the time that rank 0 prints; of fewer values than ranks nobody knows how many ranks they are of."""
    printed: list[dict[str, object]] = [
        {"step": step, "line": 100 * step + k, "phase": "opt", "occurrence": 1, "time_s": 0.25}
        for step in range(5)
        for k in range(values)
    ]
    logs = Tables(by_hand("phases", printed, world=world))
    found = [times.tolist() for _, _, times in METRICS["phases"].samples(logs, Steady({"r": 0}, {}))]
    assert found == ([[compared] * 5] if compared else [])


def test_a_world_of_one_rank_has_rank_0() -> None:
    values: list[dict[str, object]] = [
        {"step": step, "phase": "a", "occurrence": k, "time_s": float(k)} for step in range(5) for k in (1, 2)
    ]
    values += [{"table": "steps", "step": step, "step_time_s": 6.0} for step in range(5)]
    rest = rows(phases(by_hand("phases", values, world=1)), part="rest")
    assert [(r["rank"], r["rest_by"], r["median_s"]) for r in rest] == [(None, "rank", 3.0), (0, "rank", 3.0)]


def test_a_warm_up_of_all_steps_leaves_nothing() -> None:
    assert not len(phases(tables(MOE), warmup=100)) and not len(wait(tables(MOE), warmup=100))


def test_times_on_lines_of_steps_are_phases_that_happen_once() -> None:
    """A format without phases prints the forward time of each step on its line."""
    found = _columns_of_steps(
        rows_from_frame(pd.DataFrame([{"line": 7, "part": 0, "step": 3, "rank": None}] * 2), "steps"),
        np.array([1, 0]), np.array([0.5, 0.25]),
    )  # fmt: skip
    assert {name: values.tolist() for name, values in found.items() if name not in ("min_s", "remote_share")} == {
        "phase": [1, 0], "line": [7, 7], "part": [0, 0], "step": [3, 3], "rank": [NULL, NULL], "occurrence": [1, 1],
        "time_s": [0.5, 0.25],
    }  # fmt: skip
    assert np.isnan(found["min_s"]).all() and np.isnan(found["remote_share"]).all()


def test_steps_that_start_again_in_each_epoch_are_steps_of_their_own() -> None:
    """A phase is of the epoch of the line of its step that is next in the log, before it or after it."""
    values: list[dict[str, object]] = []
    for line, (epoch, step) in enumerate((epoch, step) for epoch in (1, 2, 3) for step in (1, 2, 3, 4)):
        values.append(
            {"step": step, "line": 10 * line, "phase": "data", "occurrence": 1, "rank": 0, "time_s": float(epoch)}
        )
        values.append(
            {"table": "steps", "step": step, "epoch": epoch, "line": 10 * line + 9, "rank": 0, "step_time_s": 4.0}
        )
    logs = by_hand("phases", values, world=1)
    (found,) = rows(phases(logs), phase="data", part="phase", rank=None)
    assert (found["n"], found["median_s"], found["first_step"], found["last_step"]) == (12, 2.0, 1, 4)
    compared = [times.tolist() for _, _, times in METRICS["phases"].samples(Tables(logs), Steady({"r": 0}, {}))]
    assert compared == [[1.0] * 4 + [2.0] * 4 + [3.0] * 4]


def test_lines_that_cover_as_many_steps_as_most_with_a_time_do() -> None:
    """A bar that shows whole seconds has a time for few of its lines, each over several steps."""

    def usual(*lines: tuple[int | None, float | None]) -> list[bool]:
        values = [{"step": k, "steps_averaged": covers, "step_time_s": time} for k, (covers, time) in enumerate(lines)]
        flags: list[bool] = _covers_usual(Tables(by_hand("steps", values)).rows("steps")).tolist()
        return flags

    assert usual((1, None), (1, None), (1, None), (5, 2.5), (5, 2.5), (1, 0.5)) == [False] * 3 + [True] * 2 + [False]
    assert usual((1, None), (1, None), (5, None)) == [True, True, False]  # no line has a time
    assert usual((None, 0.5), (None, 0.5), (3, 0.5)) == [True, True, False]


def test_of_phases_that_a_rank_prints_again_the_first_count() -> None:
    """As after a restart. Of those without a rank nobody knows whose they are."""

    def kept(copies: int, *ranks: int | None) -> list[float]:
        gate = {"step": 1, "phase": "gate", "occurrence": 1}
        values = [gate | {"rank": rank, "time_s": k + 0.5} for k, rank in enumerate(ranks)]
        steps = [{"table": "steps", "step": 1, "copy": copy, "step_time_s": 2.5} for copy in range(1, copies + 1)]
        tables = Tables(by_hand("phases", [*values, *steps], 2))
        times: list[float] = _of_first_printings(tables, tables.rows("phases"))["time_s"].tolist()
        return times

    assert kept(2, 0, 1, 0, 1) == [0.5, 1.5]
    assert kept(1, 0, 1, 0, 1) == [0.5, 1.5, 2.5, 3.5]
    assert kept(2, None, None) == [0.5, 1.5]
    assert kept(2, 0, None, 0) == [0.5, 1.5]


def test_values_of_declared_phases_in_seconds_are_times_of_the_steps() -> None:
    """Not a share under the name of a phase, nor a time that the format declares as none."""
    values: list[dict[str, Any]] = [
        {"key": "gemm1", "unit": "s", "value": 0.5}, {"key": "gemm1", "unit": "1", "value": 0.25},
        {"key": "lunch", "unit": "s", "value": 9.0}, {"key": "gemm2", "unit": "s", "value": None},
    ]  # fmt: skip
    made = by_hand("values", values)
    found = _phases_on_step_lines(Tables({**made, "runs": made["runs"].assign(format="reference")}))
    assert found["value"].tolist() == [0.5]
    assert not len(_phases_on_step_lines(Tables(made)))  # of no known format


def test_numbers_on_lines_of_steps_are_phases_of_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three lines with a step time; two of them print numbers of phases."""
    steps = [{"step": step, "step_time_s": 9.0, "line": 10 * step} for step in (1, 2, 3)]
    values = [
        {"table": "values", "line": line, "step": line // 10, "key": key, "value": value}
        for line, key, value in ((10, "a", 1.0), (10, "b", 2.0), (30, "b", 4.0), (30, "a", 3.0), (40, "a", 9.0))
    ]
    tables = Tables(by_hand("steps", [*steps, *values]))
    monkeypatch.setattr(module, "_phases_on_step_lines", lambda each: each.rows("values"))
    names = {"b": 0}
    whole, inner = (
        (numbers.tolist(), *(columns[name].tolist() for name in ("phase", "step", "time_s")))
        for numbers, columns in _rows_of_wholes(tables, names)
    )
    assert names == {"b": 0, "step": 1, "a": 2}
    assert whole == ([0] * 3, [1] * 3, [1, 2, 3], [9.0] * 3)
    assert inner == ([0] * 4, [2, 0, 0, 2], [1, 1, 3, 3], [1.0, 2.0, 4.0, 3.0])


def test_a_phase_with_several_parents_is_named_with_each() -> None:
    declared = {"forward": Phase("forward"), "backward": Phase("backward"), "x": Phase("x", of=("forward", "backward"))}
    values = [
        {"phase": name, "occurrence": k, "rank": 0, "step": step, "time_s": time_s}
        for step in range(2)
        for name, k, time_s in (("x", 1, 1.0), ("x", 2, 2.0), ("forward", 1, 5.0))
    ]
    tables = Tables(by_hand("phases", values))
    found = list(_times_in_steps(tables, tables.rows("phases"), 1, RunSemantics(None, phases=declared)))
    assert [(name, of, times.tolist()) for name, of, times in found] == [
        ("x in forward", "forward", [1.0, 1.0]), ("x in backward", "backward", [2.0, 2.0]),
        ("forward", "step_time", [5.0, 5.0]),
    ]  # fmt: skip
