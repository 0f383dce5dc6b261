"""Runs with the same settings whose speeds differ far beyond their own scatter are not pooled, nor averaged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.metrics_logs import by_hand

import perflog
from perflog.analysis.repeats import Result, differing, rounds
from perflog.errors import UsageError
from perflog.log import Log
from perflog.metrics import Tables

EXPERTS = (8, 16, 32, 64)


def run(experts: int, seconds: float, seed: int, steps: int = 20) -> str:
    times = seconds * np.exp(np.random.default_rng(seed).normal(0, 0.01, steps))
    head = (
        "[Benchmark] world_size = 4, dtype = float16, model_dim = 1024, hidden_size = 4096, samples = 8192, "
        f"num_local_experts = {experts}, topK = 2, a2a_ffn_overlap_degree = 1, device = `cuda:0`\n"
    )
    lines = [
        f"STEP-{step}: loss = 6.23828, step_time = {time:.6f} sec, perf = {0.824633720832 / time:.2f} tflops.\n"
        for step, time in enumerate(times.tolist())
    ]
    return "".join([head, *lines, "\n end end end\n"])


def sweep(folder: Path, codes: tuple[float, ...]) -> Log:
    """A sweep over the number of experts, once for each of some codes that take so many times as long."""
    text = "".join(
        run(experts, 0.02 * (1 + experts / 100) * code, 10 * k + experts)
        for k, code in enumerate(codes)
        for experts in EXPERTS
    )
    (folder / "sweep.log").write_text(text)
    return perflog.read(folder / "sweep.log")


def test_a_sweep_under_other_code_is_not_pooled(tmp_path: Path) -> None:
    answer = perflog.overview(sweep(tmp_path, (1.0, 2.0, 1.3)))
    assert [len(group.runs) for group in answer.groups] == [1] * 12
    assert [group.settings["round"] for group in answer.groups] == ["1"] * 4 + ["2"] * 4 + ["3"] * 4
    assert answer.base == {1: 0, 2: 0, 3: 0, 5: 4, 6: 4, 7: 4, 9: 8, 10: 8, 11: 8}
    (said, *_) = answer.reasons
    assert said.startswith("No repeats: ")
    assert "3 other configurations likewise" in said
    assert "round 2 is above round 1 in all" in said


def test_compare_does_not_average_them(tmp_path: Path) -> None:
    log = sweep(tmp_path, (1.0, 2.0, 1.3))
    compared = perflog.compare(log, by="num_local_experts")
    assert [case.name for case in compared.cases] == ["round 1", "round 2", "round 3"]
    assert all(len(runs) == 1 for case in compared.cases for runs in case.runs)
    assert any("not repeats" in text for text in compared.warnings)
    together = perflog.compare(log, by="num_local_experts", ignore="round")
    assert [[len(runs) for runs in case.runs] for case in together.cases] == [[3] * 4]


def tables(column: str = "step_time_s", **values: Sequence[float]) -> Tables:
    """Runs with these values of a column in their steps."""
    rows = [
        {"run": run, "step": step, column: value}
        for run, run_values in values.items()
        for step, value in enumerate(run_values)
    ]
    frames = by_hand("steps", [*rows, *({"table": "runs", "run": run, "config": "{}"} for run in values)])
    return Tables(frames | {"runs": frames["runs"][1:]})


STEPS = tables(a=[2.0] * 9, b=[1.0] * 9, c=[1.05] * 9, d=[0.96, 1.0, 1.04] * 3, e=[1.5] * 9, f=[0.0] * 9)


def test_how_far_runs_are_apart() -> None:
    """More than repeats scatter; groups that differ most come first."""
    found = differing(STEPS, [("b", "e"), ("a", "b", "c"), ("a",)], warmup=0)
    assert [(each.runs, each.figure, each.unit, each.low, each.high, each.order) for each in found] == [
        (("a", "b", "c"), "step time", "s", 1.0, 2.0, (1, 2, 0)), (("b", "e"), "step time", "s", 1.0, 1.5, (0, 1)),
    ]  # fmt: skip
    assert [(each.apart, each.noise) for each in found] == [(1.0, 0.0), (0.5, 0.0)]
    assert differing(STEPS, [("b", "c"), ("a",)], warmup=0) == []
    (noisy,) = differing(STEPS, [("a", "d")], warmup=0)
    assert noisy.noise == pytest.approx(1.4826 * 0.04 / 2, rel=1e-3)  # the median of 0 and 4 %
    assert [each.runs for each in differing(STEPS, [("a", "f"), ("b", "e")], warmup=0)] == [("b", "e")]  # f is idle


def test_runs_without_step_times_are_judged_by_a_rate_or_a_result() -> None:
    rates = tables("tokens_per_s", a=[10.0] * 9, b=[20.0] * 9, idle=[0.0] * 9)
    assert [each.runs for each in differing(rates, [("a", "idle"), ("a", "b")], warmup=0)] == [("a", "b")]
    (found,) = differing(rates, [("a", "b")], warmup=0, result=Result("x", "s", {"a": 1.0, "b": 9.0}))
    assert (found.figure, found.unit, found.low, found.high) == ("tokens per s", "1/s", 10.0, 20.0)
    assert found.apart == 1.0
    nothing = tables(a=[], b=[], c=[])
    result = Result("elapsed_s", "s", {"a": 1.0, "b": 2.0})
    (found,) = differing(nothing, [("a", "b"), ("a", "c")], result=result)
    assert (found.figure, found.runs, found.low, found.high, found.noise) == ("elapsed", ("a", "b"), 1.0, 2.0, None)
    assert differing(nothing, [("a", "b")]) == []
    assert differing(nothing, [("a", "b")], result=Result("x", "", {"a": -1.0, "b": 2.0})) == []


def test_the_round_of_a_run_is_its_place_in_its_group() -> None:
    assert rounds([("a", "b"), ("c",)]) == {"a": 1, "b": 2, "c": 1}


def test_sides_of_several_logs_that_are_no_repeats_are_refused(tmp_path: Path) -> None:
    for side, codes in (("a", (1.0, 2.0)), ("b", (1.0, 1.0))):
        for k, code in enumerate(codes):
            (tmp_path / f"{side}{k}.log").write_text(run(8, 0.02 * code, k + ord(side)))
    sides = [f"{side}={tmp_path}/{side}{k}.log" for side in "ab" for k in range(2)]
    with pytest.raises(UsageError, match="not repeats: they print the same settings, but their step time differs by"):
        perflog.compare(*sides)
    assert len(perflog.compare(*sides, ignore="round").rows)
