"""Headroom: upper bounds computed another way, and what is no bound."""

from __future__ import annotations

import json
from statistics import mean
from types import SimpleNamespace

import pandas as pd
import pytest
from support.metrics_logs import by_hand, rows, runs, tables
from support.trace_tables import by_hand as trace_by_hand
from support.trace_tables import kernel

from perflog.metrics import Options, Tables, breakdown, headroom, replay, stages, steps, throughput
from perflog.metrics.causes import causes_by_run
from perflog.metrics.step_time import headroom as module

MOE = "moe_layer"


def test_waits_that_delay_the_step_are_their_part_of_it() -> None:
    parts = breakdown(tables(MOE)).query("part == 'wait'").set_index("run")
    for row in rows(headroom(tables(MOE)), ideal="no waits"):
        assert row["gain_s"] == parts["time_s"][row["run"]]
        assert row["ideal_s"] == pytest.approx(row["time_s"] - row["gain_s"], rel=1e-12)
        assert row["gain"] == pytest.approx(parts["share"][row["run"]], rel=1e-12)


def test_equal_ranks_of_the_benchmark() -> None:
    """Of each innermost phase, in the order of the lines, four ranks at a time: the slowest minus the mean."""
    once, twice = (
        ("prepare_forward", "prepare_backward", "weight_grad", "other_backward"),
        ("gather_gemm", "gemm_scatter"),
    )
    table = tables(MOE)["phases"].sort_values(["line", "part"])
    table = table[table["step"].ge(1) & table["phase"].isin([*once, *twice])]
    for row in rows(headroom(tables(MOE)), ideal="equal ranks"):
        total = 0.0
        for (phase, _), group in table[table["run"] == row["run"]].groupby(["phase", "step"]):
            times = group["time_s"].tolist()
            assert len(times) == (8 if phase in twice else 4)
            total += sum(max(times[i : i + 4]) - mean(times[i : i + 4]) for i in range(0, len(times), 4))
        assert row["gain_s"] == pytest.approx(total / 99, rel=1e-9)


def test_equal_stages_by_the_formula_of_the_schedule() -> None:
    """32 micro-batches on 8 stages: sum f + 31 max f as timed, 39 mean f with equal stages."""
    per_batch = stages(tables("pipeline_layers"))["per_micro_batch_s"].astype(float)
    timed, equal = per_batch.sum() + 31 * per_batch.max(), 39 * per_batch.mean()
    (row,) = rows(headroom(tables("pipeline_layers")), ideal="equal stages")
    assert (row["of"], row["time_s"], row["ideal_s"]) == ("pipeline", pytest.approx(timed), pytest.approx(equal))
    assert row["gain"] == pytest.approx(0.5026, abs=1e-4)


def test_the_peak_of_a_gpu_bounds_the_work() -> None:
    rates = throughput(tables(MOE), gpu="A100 SXM").query("part == 'steady'").set_index("run")
    times = steps(tables(MOE)).query("part == 'steady' and of == 'step_time'").set_index("run")["mean_s"]
    bounds = rows(headroom(tables(MOE), gpu="A100 SXM"), ideal="at the peak")
    assert [row["run"] for row in bounds] == runs(MOE)
    for row in bounds:
        assert row["ideal_s"] == pytest.approx(rates["step_flops"][row["run"]] / 312e12, rel=1e-12)
        assert row["time_s"] == times[row["run"]]
    assert not rows(headroom(tables(MOE)), ideal="at the peak")


@pytest.mark.parametrize(("slow", "gain"), [(0.1, 0.0), (0.3, 0.1), (0.7, 0.3)])
def test_one_slow_rank_of_two(slow: float, gain: float) -> None:
    """Compute takes 0.1 s on rank 0: the step could be shorter by the slowest rank minus the mean of both."""
    values = [
        {"table": "phases", "step": step, "phase": "gemm", "occurrence": 1, "rank": rank, "time_s": (0.1, slow)[rank]}
        for step in range(8)
        for rank in range(2)
    ]
    lines = [{"table": "steps", "step": step, "step_time_s": 1.0} for step in range(8)]
    table = rows(headroom(by_hand("steps", [*lines, *values], world=2)), ideal="equal ranks")
    assert [round(row["gain_s"], 12) for row in table] == ([gain] if gain else [])


@pytest.mark.parametrize(
    ("gain", "spread", "waits"),
    [
        (0.3, {}, 0.1),  # beyond the phases that wait and communicate
        (0.2, {}, 0.0),
        (0.3, {"r": 0.05}, 0.05),  # the untimed times of the ranks differ less
        (0.3, {"r": 0.4}, 0.3),
        (0.3, {"r": 0.0}, 0.0),  # ranks wait in a phase
    ],
)
def test_how_long_ranks_may_wait_outside_of_all_phases(
    monkeypatch: pytest.MonkeyPatch, gain: float, spread: dict[str, float], waits: float
) -> None:
    times = {"compute": 0.5, "wait": 0.1, "communication": 0.1}
    parts = pd.DataFrame([{"run": "r", "of": "step", "kind": kind, "time_s": time} for kind, time in times.items()])
    monkeypatch.setattr(module, "breakdown", SimpleNamespace(table=lambda *_: parts))
    monkeypatch.setattr(module, "equal_ranks", lambda *_: [SimpleNamespace(run="r", gain_s=gain)])
    monkeypatch.setattr(module, "untimed_spread", lambda *_: spread)
    assert module.untimed_waits(Tables(by_hand("steps", [])), Options())["r"] == pytest.approx(waits)


def test_a_log_without_parts_has_no_headroom() -> None:
    lines = [{"table": "steps", "step": step, "step_time_s": 1.0} for step in range(8)]
    assert not len(headroom(by_hand("steps", lines)))


def test_a_phase_that_comes_twice_on_a_rank_under_one_parent() -> None:
    """Ranks take 0.1 and 0.3 s, then 0.3 and 0.1 s: each time the faster one waits, though their sums are equal."""
    values = [
        {"table": "phases", "step": step, "phase": "gemm", "occurrence": k, "rank": rank,
         "time_s": (0.1, 0.3)[(rank + k) % 2]}
        for step in range(8)
        for k in (1, 2)
        for rank in range(2)
    ]  # fmt: skip
    lines = [{"table": "steps", "step": step, "step_time_s": 1.0} for step in range(8)]
    table = rows(headroom(by_hand("steps", [*lines, *values], world=2)), ideal="equal ranks")
    assert [round(row["gain_s"], 12) for row in table] == [0.2]


def test_a_trace_wins_what_its_replay_and_its_causes_tell() -> None:
    """One number for a change: without launches a part bounds it, with them the replay does."""
    calls = [
        kernel(10 * number, 10 * number + 2, "cudaLaunchKernel", kind="runtime", correlation=number, thread="1")
        | {"device": None, "stream": None}
        for number in range(1, 7)
    ]
    work = [kernel(100 * number, 100 * number + 90, correlation=number) for number in range(1, 6)]
    late = kernel(50_000, 60_000, correlation=6)
    given = trace_by_hand([*calls, *work, late])
    found = headroom(given).set_index("ideal")
    replayed = {row["scenario"]: row for row in rows(replay(given)) if row["gain_s"] > 0}
    assert set(found.index) == {"no waits", "infinitely fast device", "compute takes no time"}
    told = {each.subject: each for each in causes_by_run(given, Options())["r"]}
    for ideal, scenario, subject in (
        ("no waits", "waits", "waiting"), ("infinitely fast device", "device", "device"),
        ("compute takes no time", "compute", "compute"),
    ):  # fmt: skip
        assert found["gain_s"][ideal] == replayed[scenario]["gain_s"] == told[subject].gain_s
    (row,) = rows(headroom(trace_by_hand([*work, late])))
    assert (row["ideal"], row["of"]) == ("no idle device", "trace")


def test_work_like_plain_products() -> None:
    """4 x 1000 rows x top 2 x 64 x 128 x 2 layers are 0.131072 GFLOP, and 0.8 GFLOP/s is the mean of both ranks."""
    shapes = {"tokens_per_rank": 1000, "top_k": 2, "model_dim": 64, "hidden_size": 128, "layers": 2}
    plain = [
        {"table": "values", "key": f"plain_gemm{k}", "rank": rank, "value": seconds / 2}
        for rank, seconds in ((0, 0.131072), (1, 0.032768))
        for k in (1, 2)
    ]
    gemms = [
        {"table": "phases", "step": step, "phase": f"gemm{k}", "occurrence": 1, "rank": rank, "time_s": 0.1 * k}
        for step in range(8)
        for rank in (0, 1)
        for k in (1, 2)
    ]
    steps = [{"step": step, "step_time_s": 1.0} for step in range(8)]
    made = by_hand("steps", [*steps, *gemms, *plain], 2)
    config = json.dumps(shapes | {"plain_experts": 2, "plain_rows": 1000})
    log = {**made, "runs": made["runs"].assign(format="reference", config=config)}
    (found,) = rows(headroom(log), ideal="expert products, forward like plain products")
    assert (found["of"], found["time_s"], found["gain_s"]) == ("step", 1.0, pytest.approx(0.3 - 0.131072 / 0.8))
    assert found["ideal_s"] == pytest.approx(0.7 + 0.131072 / 0.8)
