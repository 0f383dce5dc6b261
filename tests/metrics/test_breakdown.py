"""Breakdown: parts that add up to the step, the trace or the profile, computed another way from the lines."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.field_logs import local, needs_corpus
from support.metrics_logs import BOTH, by_hand, printed, rows, runs, tables, two_waiting_ranks
from support.paths import SHARED
from support.seeds import MS, log
from support.trace_tables import real

import perflog
import perflog.metrics.step_time.breakdown as module
from perflog.analysis.lint import findings
from perflog.metrics import Options, Tables, breakdown, device_time, steps
from perflog.metrics.profiles.kernels import PRINTED_TOTAL
from perflog.metrics.step_time.breakdown import UNTIMED, part_name

MOE = "moe_layer"


@pytest.mark.parametrize("name", ["moe_layer", "moe_layer_early", "training_sweep", "nvprof"])
def test_parts_add_up_to_the_whole(name: str) -> None:
    table = breakdown(tables(name))
    assert set(table["run"]) == set(runs(name))
    for _, parts in table.groupby("run"):
        whole = parts["whole_s"].iloc[0]
        assert parts["time_s"].sum() == pytest.approx(whole, rel=1e-12)
        assert parts["share"].sum() == pytest.approx(1, rel=1e-12)
        assert parts["whole_s"].nunique() == 1


@pytest.mark.parametrize("where", BOTH)
def test_the_whole_is_the_mean_of_the_steady_steps(where: str) -> None:
    expected = steps(tables(MOE, where)).query("of == 'step_time' and part == 'steady'").set_index("run")["mean_s"]
    wholes = breakdown(tables(MOE, where)).groupby("run")["whole_s"].first()
    assert wholes.to_dict() == pytest.approx(expected.to_dict(), rel=1e-12)


def test_parts_of_the_benchmark_from_its_lines() -> None:
    """Means over ranks and over the steps without the first, of the numbers on the lines."""
    table = breakdown(tables(MOE, "seed"))
    for run, of_run in zip(runs(MOE, "seed"), printed(), strict=True):
        steady = of_run[1:]
        parts = {(r["part"], r["inside"]): r["time_s"] for r in rows(table, run=run)}
        wait = mean(t for step in steady for t in step.wait.values()) * MS
        assert parts["wait", "forward"] == pytest.approx(wait, rel=1e-3)  # a few waits have no rank
        linear1 = mean(t for step in steady for t in step.linear1)
        inside = mean(sum(values) for step in steady for values in step.inside1)
        untimed = parts["linear1_backward", "linear1_backward"]
        assert untimed == pytest.approx((linear1 - inside) * MS, rel=0.02)
        whole, forward, backward = (mean(step.step[i] for step in steady) for i in range(3))
        assert parts["step", "step"] == pytest.approx((whole - forward - backward) * MS, rel=1e-9)


def test_all_columns_of_a_step() -> None:
    """Steps of 10 s; of the forward of 4 s two ranks wait 1 and 3 s."""
    made = two_waiting_ranks()
    same = {"run": "r", "label": None, "of": "step", "whole_s": 10.0, "n": 3, "first_step": 2, "last_step": 4}
    names = ("part", "kind", "inside", "time_s", "share")
    assert rows(breakdown(made, warmup=1)) == [
        same | dict(zip(names, row, strict=True))
        for row in (
            ("backward", None, "step", 5.0, 0.5), ("wait", "wait", "forward", 2.0, 0.2),
            ("forward", UNTIMED, "forward", 2.0, 0.2), ("step", UNTIMED, "step", 1.0, 0.1),
        )
    ]  # fmt: skip


def test_hidden_phases_are_no_part() -> None:
    assert not {"process", "gate", "exchange", "select", "dispatch"} & set(breakdown(tables(MOE))["part"])


def test_forward_and_backward_alone_are_parts_too() -> None:
    (run,) = runs("moe_layer_early")
    assert [
        (r["part"], r["kind"], round(r["share"], 3)) for r in rows(breakdown(tables("moe_layer_early")), run=run)
    ] == [
        ("forward", None, 0.905),
        ("backward", None, 0.092),
        ("step", "untimed", 0.003),
    ]


def test_a_profile_by_category() -> None:
    parts = rows(breakdown(tables("nvprof")))
    assert {p["of"] for p in parts} == {"gpu"}
    kernels = tables("nvprof")["kernels"]
    work = kernels[kernels["kind"].isin(["kernel", "memcpy", "memset"]) & kernels["range"].isna()]
    assert parts[0]["part"] == "gemm" and parts[0]["share"] == pytest.approx(0.885, abs=0.001)
    assert parts[0]["whole_s"] == pytest.approx(work["time_s"].sum(), rel=1e-12)


def test_a_profile_without_gpu_work_by_its_calls() -> None:
    calls = [("hipMemcpy", 0.6), ("hipLaunchKernel", 0.3), ("hipMalloc", 0.1)]
    table = breakdown(
        by_hand("kernels", [{"name": name, "kind": "api", "time_s": s, "calls": 3, "section": 1} for name, s in calls])
    )
    assert {r["of"] for r in rows(table)} == {"api"}
    assert sum(r["share"] for r in rows(table)) == pytest.approx(1)
    assert rows(table)[0]["share"] == pytest.approx(0.6)


@needs_corpus
def test_a_trace_by_state_of_its_devices() -> None:
    """The mean over two ranks and their steps of each state's time; states add up to the step."""
    times = device_time(real(0, 1))
    times = times[times["part"] == "step"]
    parts = rows(breakdown(real(0, 1)))
    assert [p["part"] for p in parts] == ["idle", "communication", "compute", "memory"]
    for part in parts:
        assert part["time_s"] == pytest.approx(times[f"{part['part']}_s"].mean(), rel=1e-12)
        assert (part["of"], part["n"]) == ("traced step", 4)
    assert sum(p["time_s"] for p in parts) == pytest.approx(times["span_s"].mean(), rel=1e-9)


def test_communication_of_a_profile_is_not_called_exposed() -> None:
    """A profile has no clock for what runs at the same time; a trace has."""
    assert part_name("gpu", "communication", "communication") == "communication"
    assert part_name("step", "communication", "communication") == "communication"
    assert part_name("trace", "communication", "communication") == "exposed communication"
    assert [part_name("step", name, UNTIMED) for name in ("step", "forward")] == ["untimed", "untimed in forward"]


# --- what the log does not say ------------------------------------------------------------------------------------


def _phase(step: int, time_s: float, rank: int | None = None) -> dict[str, object]:
    return {"table": "phases", "step": step, "phase": "exchange", "occurrence": 1, "rank": rank, "time_s": time_s}


def _steps(count: int) -> list[dict[str, object]]:
    return [{"table": "steps", "step": step, "step_time_s": 1.0} for step in range(count)]


def test_ranks_that_are_not_known_give_no_parts() -> None:
    """Two values without ranks and no number of ranks: of one rank or of two, nobody knows."""
    values = [_phase(step, time_s) for step in range(8) for time_s in (0.2, 0.4)]
    assert not len(breakdown(by_hand("steps", [*_steps(8), *values])))
    known = breakdown(by_hand("steps", [*_steps(8), *values], world=2))
    assert {r["part"]: round(r["time_s"], 12) for r in rows(known)} == {"exchange": 0.3, "step": 0.7}


def test_a_phase_of_some_steps_counts_in_all_of_them() -> None:
    values = [_phase(step, 0.4) for step in range(0, 8, 2)]
    table = breakdown(by_hand("steps", [*_steps(8), *values]))
    assert {r["part"]: round(r["time_s"], 12) for r in rows(table)} == {"exchange": 0.2, "step": 0.8}


def test_a_step_that_lost_a_rank_does_not_count() -> None:
    values = [_phase(step, 0.1 * (rank + 1), rank) for step in range(8) for rank in range(2) if (step, rank) != (5, 1)]
    table = breakdown(by_hand("steps", [*_steps(8), *values], world=2))
    assert {r["part"]: round(r["time_s"], 12) for r in rows(table)} == {"exchange": 0.15, "step": 0.85}


def test_a_phase_whose_parent_is_not_printed_is_inside_what_is_around_it() -> None:
    """`experts_backward` is inside `backward`, which this log does not time: then it is inside the step."""
    values = [_phase(step, 0.4) | {"phase": "experts_backward"} for step in range(8)]
    made = by_hand("steps", [*_steps(8), *values])
    table = breakdown({**made, "runs": made["runs"].assign(format="reference")})
    assert {(r["part"], r["inside"]): round(r["time_s"], 12) for r in rows(table)} == {
        ("experts_backward", "step"): 0.4, ("step", "step"): 0.6,
    }  # fmt: skip


def test_a_log_without_anything_inside_its_steps_has_no_parts() -> None:
    assert not len(breakdown(log("pipeline_layers")))


# --- no step times ------------------------------------------------------------------------------------------------


def _timed(*phases: tuple[str, float]) -> list[dict[str, object]]:
    return [{"phase": phase, "occurrence": 1, "rank": 0, "time_s": time_s} for phase, time_s in phases]


def test_phases_of_a_log_without_step_times_are_parts_of_their_sum() -> None:
    """DeepSpeed's breakdown, twice, in the log of a program without a format: its phases are DeepSpeed's own."""
    twice = [("fwd", 1.0), ("bwd", 3.0), ("bwd_inner", 2.0), ("bwd_allreduce", 0.5), ("optimizer", 1.0)] * 2
    table = breakdown(by_hand("phases", _timed(*twice)) | _of_format("hf_trainer"))
    assert {(r["part"], r["kind"]): round(r["time_s"], 12) for r in rows(table)} == {
        ("fwd", "mixed"): 1.0, ("bwd_inner", "compute"): 2.0, ("bwd_allreduce", "communication"): 0.5,
        ("bwd", "untimed"): 0.5, ("optimizer", "mixed"): 1.0,
    }  # fmt: skip
    assert {(r["of"], r["whole_s"], r["n"]) for r in rows(table)} == {("phases", 5.0, 2)}


def test_forward_and_backward_without_steps_are_parts_of_their_sum() -> None:
    times = {"forward": 2.0, "backward": 3.0}
    values = [{"phase": name, "rank": 0, "occurrence": 1, "time_s": time} for name, time in times.items()] * 2
    made = by_hand("phases", values, world=1)
    found = rows(breakdown({**made, "runs": made["runs"].assign(format="moe_layer")}))
    names = ("of", "part", "kind", "inside", "time_s", "share", "whole_s", "n")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("phases", "backward", None, None, 3.0, 0.6, 5.0, 2),
        ("phases", "forward", None, None, 2.0, 0.4, 5.0, 2),
    ]


def test_a_phase_is_not_divided_by_phases_that_take_longer() -> None:
    """`bwd_microstep` times the same work as `bwd_inner` and `bwd_allreduce`."""
    timed = [("fwd", 1.0), ("bwd", 3.0), ("bwd_inner", 2.5), ("bwd_allreduce", 0.5), ("bwd_microstep", 3.0)]
    table = breakdown(by_hand("phases", _timed(*timed)) | _of_format("hf_trainer"))
    assert {r["part"]: r["time_s"] for r in rows(table)} == {"fwd": 1.0, "bwd": 3.0}


@pytest.mark.parametrize(
    "phases",
    [
        [("fwd", 1.0), ("somewhere", 2.0)],  # inside another phase, or beside it?
        [("fwd", 1.0)],  # of what?
    ],
)
def test_phases_that_nobody_declares_have_no_whole(phases: list[tuple[str, float]]) -> None:
    assert not len(breakdown(by_hand("phases", _timed(*phases)) | _of_format("hf_trainer")))


def _of_format(name: str) -> dict[str, pd.DataFrame]:
    return {"runs": by_hand("phases", [])["runs"].assign(format=name)}


def test_loading_data_is_a_part_of_the_step(tmp_path: Path) -> None:
    """Torchvision's MetricLogger: data 0.1 s of 0.125 s."""
    log = tmp_path / "train.log"
    lines = (
        f"Epoch: [0]  [{20 * i:4d}/4572]  eta: 0:08:29    time: 0.1250  data: 0.1000  max mem: 20009" for i in range(12)
    )
    log.write_text("\n".join(lines) + "\n")
    table = rows(breakdown(perflog.read(log)))
    assert [(r["part"], r["kind"], round(r["share"], 12)) for r in table] == [
        ("data_time", "data", 0.8), ("step", "untimed", 0.2),
    ]  # fmt: skip


@needs_corpus
def test_key_averages_are_divided_by_the_printed_total() -> None:
    """The rows of the first table without host time, but the annotation; 6.836 s is printed below it, 30 rows above."""
    log = perflog.read(SHARED / "corpus" / local("torchtrace/chenwg2000"))
    parts = rows(breakdown(log))
    assert {r["part"]: round(r["time_s"], 6) for r in parts} == {
        "gemm": 2.265,
        "elementwise": round(0.392979 + 0.308320 + 0.305069 + 0.227416, 6),
        "attention": round(0.827206 + 0.241929, 6),
        "not in the table": round(6.836 - 4.567919, 6),
    }
    assert {r["whole_s"] for r in parts} == {6.836}


# --- phases that nobody declared ----------------------------------------------------------------------------------

MEGATRON = (
    " iteration {step:8d}/     100 | consumed samples: {samples:12d} | elapsed time per iteration (ms): 3000.0 | "
    "learning rate: 1.0E-04 | global batch size:   128 | lm loss: 9.0E+00 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\ntime (ms) | {timers}\n"
)


def _megatron(folder: Path, **timers: float) -> perflog.Log:
    text = " | ".join(f"{name.replace('_', '-')}: {ms:.2f}" for name, ms in timers.items())
    path = folder / "run.log"
    path.write_text("".join(MEGATRON.format(step=i, samples=128 * i, timers=text) for i in range(1, 9)), "utf-8")
    return perflog.read(path)


def test_a_phase_is_part_of_the_one_that_it_is_named_after(tmp_path: Path) -> None:
    log = _megatron(
        tmp_path, forward=600, backward=2000, backward_backward=1900, backward_allreduce=90, optimizer=300,
        optimizer_inner_step=250,
    )  # fmt: skip
    assert {(row["part"], row["kind"]): row["time_s"] for row in rows(breakdown(log))} == pytest.approx({
        ("forward", None): 0.6, ("backward_backward", None): 1.9, ("backward_allreduce", "communication"): 0.09,
        ("backward", "untimed"): 0.01, ("optimizer_inner_step", None): 0.25, ("optimizer", "untimed"): 0.05,
        ("step", "untimed"): 0.1,
    })  # fmt: skip


def test_timers_of_megatron_are_nested(tmp_path: Path) -> None:
    log = _megatron(
        tmp_path, forward_backward=2500, forward_compute=800, backward_compute=1500, batch_generator=40,
        forward_recv=30, forward_backward_send_forward_backward_recv=60, all_grads_sync=100, optimizer=300,
        optimizer_clip_main_grad=20, params_all_gather=80,
    )  # fmt: skip
    parts = rows(breakdown(log))
    assert {row["part"]: row["time_s"] for row in parts if row["kind"] == "untimed"} == pytest.approx(
        {"forward_backward": 0.11, "optimizer": 0.2, "step": 0.1}
    )
    (forward,) = (row for row in parts if row["part"] == "forward_compute")  # its data loader takes 5 % of it
    assert (forward["kind"], forward["inside"], forward["time_s"]) == ("mixed", "forward_backward", pytest.approx(0.76))
    assert sum(row["share"] for row in parts) == pytest.approx(1)


def test_a_checkpoint_and_an_evaluation_between_steps_are_no_parts_of_a_step(tmp_path: Path) -> None:
    log = _megatron(tmp_path, forward_backward=2500, optimizer=300, save_checkpoint=30_000, evaluate=9000)
    assert {row["part"]: row["time_s"] for row in rows(breakdown(log))} == pytest.approx(
        {"forward_backward": 2.5, "optimizer": 0.3, "step": 0.2}
    )
    assert not [finding for finding in findings(log) if finding.code == "parts-exceed-whole"]


def test_a_step_is_not_divided_into_phases_that_do_not_fit(tmp_path: Path) -> None:
    log = _megatron(tmp_path, load=600, work=2500, everything=2900)
    assert not len(breakdown(log))
    (found,) = (finding for finding in findings(log) if finding.code == "parts-exceed-whole")
    assert found.message == (
        "load, work, everything take 6 s together, step 3 s, in the mean of the steady steps: some of them time the "
        "same work, or not this step; it is not divided"
    )
    assert perflog.overview(log).reasons[0] == (
        "3 timed phases add up to 200 % of the step: some time the same work, so none has a share of the step."
    )


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ({"data": 0.1, "comm": 1.9}, {"forward": 0.6, "backward": 2.0, "data": 0.1, "step": 0.3}),
        ({"data": 0.9}, {"forward": 0.6, "backward": 2.0, "step": 0.4}),
        ({"comm": 0.2}, {"forward": 0.6, "backward": 2.0, "comm": 0.2, "step": 0.2}),
    ],
)
def test_what_a_name_alone_makes_a_part_is_none_if_it_does_not_fit(
    tmp_path: Path, parts: dict[str, float], shown: dict[str, float]
) -> None:
    """The first step compiles, so its numbers agree with all parts. Communication may run beside the computation."""
    printed = {"fwd": 0.6, "bwd": 2.0, **parts}
    named = " | ".join(f"{name} {time:.2f}s" for name, time in printed.items())
    lines = [f"step {k} | step_time {3.0 if k > 1 else 30.0:.2f}s | {named}\n" for k in range(1, 9)]
    path = tmp_path / "run.log"
    path.write_text("".join(lines))
    read = perflog.read(path)
    assert {row["part"]: row["time_s"] for row in rows(breakdown(read))} == pytest.approx(shown)
    assert [finding.code for finding in findings(read) if finding.severity == "error"] == []


@pytest.mark.parametrize(
    ("phases", "shown"),
    [
        ({"comm": 0.2}, {"comm": 0.2, "step": 0.2}),
        ({"comm": 1.9}, {"step": 0.4}),
        ({"data_time": 0.1, "comm": 1.9}, {"data_time": 0.1, "step": 0.3}),  # communication may be beside the others
        ({"data_time": 0.9}, {"step": 0.4}),
        ({"data_time": 2.9, "comm": 1.9}, {"step": 0.4}),
    ],
)
def test_phases_that_do_not_fit_are_no_parts_where_the_program_is_not_known(
    phases: dict[str, float], shown: dict[str, float]
) -> None:
    """Forward and backward remain. Of a program that is known, its phases are parts, so nothing is divided."""
    values = [_phase(step, seconds) | {"phase": name} for step in range(8) for name, seconds in phases.items()]
    values += [step | {"step_time_s": 3.0, "forward_s": 0.6, "backward_s": 2.0} for step in _steps(8)]
    made = by_hand("steps", values, world=1)
    found = {
        name: {
            row["part"]: row["time_s"] for row in rows(breakdown({**made, "runs": made["runs"].assign(format=name)}))
        }
        for name in ("meters", "reference")
    }
    assert found["meters"] == pytest.approx({"forward": 0.6, "backward": 2.0} | shown)
    assert found["reference"] == (found["meters"] if phases == {"comm": 0.2} else {})


def test_a_phase_is_not_divided_into_more_than_itself(tmp_path: Path) -> None:
    log = _megatron(tmp_path, forward=600, optimizer=300, optimizer_inner_step=250, optimizer_wait=200)
    assert {row["part"]: row["time_s"] for row in rows(breakdown(log))} == pytest.approx(
        {"step": 2.1, "forward": 0.6, "optimizer": 0.3}
    )
    assert [finding.code for finding in findings(log) if finding.severity == "error"] == ["parts-exceed-whole"]


def test_named_processes_divide_their_steps_as_ranks_do(tmp_path: Path) -> None:
    lines = [
        f"<{rank}> step {k} | step_time 1.00s | fwd 0.{6 - rank}0s | sync 0.{3 + rank}0s\n"
        for k in range(1, 9)
        for rank in range(3)
    ]
    (tmp_path / "run.log").write_text("".join(lines))
    found = rows(breakdown(perflog.read(tmp_path / "run.log")))
    assert {row["part"]: row["time_s"] for row in found} == pytest.approx({"forward": 0.5, "sync": 0.4, "step": 0.1})


@pytest.mark.parametrize(
    ("usual", "untimed", "whole"),
    [(0.8, 0.1, 0.8), (0.95, 0.25, 0.95), (0.5, 0.0, 0.7), (1.2, 0.3, 1.0), (None, 0.3, 1.0)],
)
def test_rare_pauses_are_no_part_of_a_step(
    monkeypatch: pytest.MonkeyPatch, usual: float | None, untimed: float, whole: float
) -> None:
    """Steps of 1 s with 0.3 s in no timer, without their pauses of `usual` s: at most the untimed time is a pause."""
    monkeypatch.setattr(module, "means_without_pauses", lambda *_: {"r": usual} if usual else {})
    series = [SimpleNamespace(run=run, steady=np.array(times)) for run, times in (("q", [9.0]), ("r", [0.5, 1.5]))]
    monkeypatch.setattr(module, "step_series", lambda *_, **__: series)
    monkeypatch.setattr(module, "_untimed_pauses", lambda *_: {})
    no_tables: Any = None

    def parts(name: str) -> list[tuple[float, float, float]]:
        columns = ["run", "part", "kind", "time_s", "share", "whole_s"]
        found = pd.DataFrame([("r", "a", "", 0.7, 0.7, 1.0), ("r", name, UNTIMED, 0.3, 0.3, 1.0)], columns=columns)
        rows = module.without_pauses(found, no_tables, Options())[["time_s", "share", "whole_s"]]
        return list(rows.itertuples(index=False, name=None))

    assert parts("step") == [pytest.approx((time, time / whole, whole)) for time in (0.7, untimed)]
    assert parts("forward") == [(0.7, 0.7, 1.0), (0.3, 0.3, 1.0)]


def test_a_pause_that_a_phase_times_is_not_taken_from_the_untimed_time(tmp_path: Path) -> None:
    """Every ninth step takes 4 s longer; one of two ranks times it as a phase, so that half of it is untimed."""
    line = "[rank{rank}] step {step}/90 | loss 2.3 | step_time {time}s | data_time {data}s | compute_time 0.9s\n"
    (tmp_path / "run.log").write_text(
        "".join(
            line.format(rank=rank, step=step, time=1.5 + 4 * slow, data=0.1 + 4 * slow * rank)
            for step in range(1, 91)
            for slow in [step % 9 == 0]
            for rank in (0, 1)
        )
    )
    read = Tables(perflog.read(tmp_path / "run.log"))
    found = module.without_pauses(breakdown.table(read, Options(warmup=0)), read, Options(warmup=0))
    times = dict(zip(found["part"], found["time_s"].round(6), strict=True))
    assert times == pytest.approx({"compute_time": 0.9, "step": 0.5, "data_time": 0.1 + 2 / 9}, abs=1e-6)
    assert found["share"].sum() == pytest.approx(1)


def test_a_run_without_known_parts_does_not_hide_those_behind_it() -> None:
    values = [_phase(step, time_s) for step in range(8) for time_s in (0.2, 0.4)]
    unknown, known = (by_hand("steps", [*_steps(8), *values], world) for world in (None, 2))
    both = {name: pd.concat([unknown[name], known[name].assign(run="s")]) for name in known}
    assert set(breakdown(both)["run"]) == {"s"}


def test_a_table_that_lists_the_same_work_again_counts_once() -> None:
    """Also a table without a number; other totals, and sums that are equal by chance, count."""
    listed = [(1, PRINTED_TOTAL, 10.0, 6.0), (None, PRINTED_TOTAL, 10.0, 5.0), (3, "sum of gpu", 10.0, 4.0),
              (4, "sum of gpu", 10.0, 3.0), (5, PRINTED_TOTAL, 9.0, 2.0)]  # fmt: skip
    table = pd.DataFrame(listed, columns=["section", "denominator", "denominator_s", "time_s"]).astype(
        {"section": object}
    )
    assert module._once(table)["time_s"].tolist() == [6.0, 4.0, 3.0, 2.0]
