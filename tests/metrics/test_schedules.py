"""Metric `schedules`: pipeline schedules with the sizes and the times of stages that logs have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand, row, rows
from support.operation_tables import made_job, rows_of, times_of, write_table

import perflog
from perflog.metrics import Options, Tables, pipeline, schedules
from perflog.metrics.pipelines import schedules as module
from perflog.metrics.pipelines.pipeline import StageTimes
from perflog.metrics.pipelines.schedule_simulation import INTERLEAVED, ONE_F_ONE_B, step
from perflog.metrics.pipelines.schedules import _COMPUTES, _operation_times, _used
from perflog.metrics.semantics import RunSemantics


def test_sizes_in_the_settings_are_enough(tmp_path: Path) -> None:
    arguments = {"global_batch_size": "64", "micro_batch_size": "1", "data_parallel_size": "1"}
    arguments |= {"pipeline_model_parallel_size": "8", "virtual_pipeline_model_parallel_size": "None"}
    lines = ["------------------------ arguments ------------------------"]
    lines += [f"  {name} {'.' * (48 - len(name))} {value}" for name, value in arguments.items()]
    lines += ["-------------------- end of arguments ---------------------"]
    lines += [
        f" iteration {k:8d}/     200 | consumed samples:          256 | elapsed time per iteration (ms): 15802.3 | "
        "global batch size:    64 | lm loss: 1.082777E+01 | number of skipped iterations:   0 |"
        for k in range(1, 7)
    ]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    log = perflog.read(path)
    used = row(schedules(log), schedule=ONE_F_ONE_B, micro_batches=64)
    assert (used["used"], round(used["idle"], 4), used["of"]) == (True, 0.0986, "equal stages")
    assert used["step_s"] is None  # the log has no times of stages
    assert perflog.overview(log).reasons[0] == (
        "Pipeline of 8 stages and 64 micro-batches, simulated with equal stages: 9.86 % idle under 1F1B; 1.79 % under "
        "ZB-V with the same memory, 5.19 % with 128 micro-batches of half the size."
    )


def test_stages_as_timed_are_those_of_the_pipeline() -> None:
    log = perflog.find_runs("reference:pipeline_layers.txt")
    timed = row(pipeline(log), model="1F1B, stages as timed")
    found = row(schedules(log), schedule=ONE_F_ONE_B, micro_batches=32)
    assert found["idle"] == pytest.approx(timed["idle"])
    assert found["step_s"] == pytest.approx(3 * timed["makespan_s"])  # that one is of the forward alone
    assert {each["assumes"] for each in rows(schedules(log))} == {"B = 2 F, W = B / 2, sending takes no time"}


def test_a_log_without_a_pipeline_has_no_schedules() -> None:
    assert not len(schedules(perflog.find_runs("reference:moe_layer.txt")))


def test_stages_as_a_profile_of_the_job_times_them(tmp_path: Path) -> None:
    """4 stages, 8 micro-batches, F = B = 0.1 s: 3 / 11 idle; with a last stage of 0.15 s that of the simulation."""
    job = made_job(2, 4, 8)
    equal = write_table(tmp_path / "equal.parquet", rows_of(job, times_of(job, 2, lambda *_: 0.1), 2))
    found = [each for each in rows(schedules(perflog.read(equal))) if each["schedule"] == ONE_F_ONE_B]
    assert [(each["stages"], each["micro_batches"], each["of"]) for each in found] == [
        (4, 8, "stages as timed"), (4, 16, "stages as timed"),
    ]  # fmt: skip
    assert (found[0]["idle"], found[0]["step_s"]) == (pytest.approx(3 / 11), pytest.approx(2.2))
    slow = times_of(job, 1, lambda _, __, node: 0.15 if node[0] == 3 else 0.1)
    path = write_table(tmp_path / "slow.parquet", rows_of(job, slow, 1))
    first = next(each for each in rows(schedules(perflog.read(path))) if each["schedule"] == ONE_F_ONE_B)
    expected = step(ONE_F_ONE_B, [0.1, 0.1, 0.1, 0.15], [0.1, 0.1, 0.1, 0.15], 8)
    assert expected is not None and first["step_s"] == pytest.approx(expected.makespan_s)


def test_chunks_of_a_stage_are_one_after_the_other(tmp_path: Path) -> None:
    job = made_job(1, 2, 4, chunks=3)
    path = write_table(tmp_path / "chunks.parquet", rows_of(job, times_of(job, 1, lambda *_: 0.1), 1))
    found = {each["schedule"]: each for each in reversed(list(rows(schedules(perflog.read(path)))))}
    assert found[ONE_F_ONE_B]["step_s"] == pytest.approx((4 + 1) * 0.6)
    assert found["interleaved 1F1B"]["chunks"] == 3


def operation(
    name: str, stage: int | None, batch: int, ns: int, chunk: int | None = None, **more: Any
) -> dict[str, Any]:
    usual = {"kind": "operation", "name": name, "stage": stage, "micro_batch": batch, "duration_ns": ns, "chunk": chunk}
    return usual | more


def timed(*rows: dict[str, Any]) -> list[tuple[int, int, dict[str, list[list[float]]]]]:
    """Number of micro-batches and of chunks, and the seconds of each stage by direction."""
    return [
        (times.micro_batches, chunks, {direction: seconds.tolist() for direction, seconds in times.seconds.items()})
        for times, chunks in _operation_times(Tables(by_hand("events", rows)))
    ]


def test_the_time_of_a_stage_is_the_sum_of_its_chunks() -> None:
    """Of each chunk the median over its operations; without a number there is one chunk."""
    names = list(_COMPUTES)
    rows = [
        operation(name, stage, batch, 10**9 * (stage + 1) * (batch + 1))
        for name in names
        for stage in (0, 1)
        for batch in (0, 1, 2)
    ]
    assert timed(*rows) == [(3, 1, {direction: [[2.0], [4.0]] for direction in _COMPUTES.values()})]
    chunks = [operation(name, 0, batch, 10**9, chunk) for name in names for batch in (0, 1) for chunk in (0, 1, 2)]
    assert timed(*chunks) == [(2, 3, {direction: [[3.0]] for direction in _COMPUTES.values()})]
    others = [operation("send", 0, 7, 1), operation(names[0], None, 7, 1), operation(names[0], 0, 7, 1, kind="kernel")]
    assert timed(*rows, *others) == timed(*rows) and timed(*others) == []
    assert timed(*(row for row in rows if (row["name"], row["stage"]) != (names[1], 1))) == []  # one stage is not timed


def test_the_schedule_that_settings_name() -> None:
    found = {
        str(config): _used(config, chunks)
        for config, chunks in (
            ({"pipeline_schedule": "1F1B"}, 4), ({"pp.schedule": "1F1B"}, None), ({"pipeline_schedule": "other"}, 4),
            ({"schedule": "1F1B"}, None), ({"lr": 1}, 2), ({"lr": 2}, 1), ({"virtual_pipeline": None}, None),
            ({"virtual_pipeline": "None", "num_virtual_pipeline": 1}, 1), ({"virtual_pipeline": 4}, None),
        )
    }  # fmt: skip
    assert list(found.values()) == [
        ONE_F_ONE_B, None, None, None, INTERLEAVED, None, ONE_F_ONE_B, ONE_F_ONE_B, None
    ]  # fmt: skip


def test_all_columns_of_two_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward of 1 and 2 s, four micro-batches: 12 s of work and the bubbles of the papers."""
    quantities = {"stages": 2.0, "micro_batches": 4.0}
    means = RunSemantics(None, config={"pipeline_schedule": "1F1B"}, quantities=quantities)
    monkeypatch.setattr(module, "semantics_by_run", lambda _: {"r": means})
    forward = {"forward": np.array([[1.0, 9.0, 1.0], [0.5, 1.0, 9.0]])}  # of each stage the median of three steps
    monkeypatch.setattr(module, "stage_times", lambda *_: [StageTimes("r", 4, [1, 2, 3], forward, {})])
    found = rows(schedules.table(Tables(by_hand("layers", [{}])), Options()))
    plans: list[tuple[Any, ...]] = [
        ("GPipe", 1, 3.0, {4: 4, 8: 8}, 1), ("1F1B", 1, 3.0, {4: 2, 8: 2}, 1),
        ("interleaved 1F1B", 2, 1.5, {4: 2.5, 8: 2.5}, 1), ("ZB-H1", 1, 1.0, {4: 2, 8: 2}, 1),
        ("ZB-V", 2, 0.5, {4: 2, 8: 2}, 1), ("DualPipe", 1, 0.0, {4: 3, 8: 3}, 2),
    ]  # fmt: skip
    expected = []
    for batches in (4, 8):
        for name, chunks, bubble, held, copies in plans:
            time = 12 + bubble * 4 / batches
            expected.append({
                "run": "r", "label": None, "schedule": name, "used": name == "1F1B", "stages": 2,
                "micro_batches": batches, "chunks": chunks, "of": "stages as timed",
                "idle": pytest.approx(1 - 12 / time), "step_s": pytest.approx(time),
                "speedup": pytest.approx(15 / time), "activations": pytest.approx(held[batches] * 4 / batches),
                "copies": copies, "assumes": "B = 2 F, W = B / 2, sending takes no time",
            })  # fmt: skip
    assert found == expected
