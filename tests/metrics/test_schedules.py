"""Pipeline schedules by simulation, against closed forms, and against another way to compute 1F1B."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.metrics_logs import row, rows
from support.operation_tables import made_job, rows_of, times_of, write_table

import perflog
from perflog.metrics import pipeline, schedules
from perflog.metrics.pipeline_schedule import one_f_one_b
from perflog.metrics.schedule_simulation import (
    DUAL_PIPE,
    GPIPE,
    INTERLEAVED,
    ONE_F_ONE_B,
    PLANS,
    ZB_H1,
    ZB_V,
    simulate,
    step,
)

STAGES = st.sampled_from([2, 4, 6, 8])
SECONDS = st.floats(0.5, 2.0)


@given(STAGES, st.integers(2, 6), SECONDS, SECONDS)
def test_equal_stages_have_the_bubbles_of_the_papers(p: int, groups: int, f: float, share: float) -> None:
    """The whole backward takes 2 f or more here, half of it for the weights, so a weight gradient fits a forward."""
    m, b = groups * p, 2 * f
    w = b / 2
    bubbles = {
        GPIPE: (p - 1) * (f + b),
        ONE_F_ONE_B: (p - 1) * (f + b),
        INTERLEAVED: (p - 1) * (f + b) / 2,
        ZB_H1: (p - 1) * (f + b - 2 * w),
        ZB_V: (p - 1) * f / 2,  # the last device starts so late; it idles no more
        DUAL_PIPE: (p / 2 - 1) * (f + 2 * b - 3 * w),
    }
    held = {GPIPE: m, ONE_F_ONE_B: p, INTERLEAVED: p * (1 + (p - 1) / (2 * p)), ZB_H1: p, ZB_V: p, DUAL_PIPE: p + 1}
    for name, bubble in bubbles.items():
        found = step(name, [f] * p, [b] * p, m)
        assert found is not None
        assert found.makespan_s == pytest.approx(m * (f + b) + bubble)
        assert found.idle == pytest.approx(bubble / (m * (f + b) + bubble), abs=1e-9)
        assert found.activations == pytest.approx(min(held[name], m) if name != DUAL_PIPE else held[name])
    four = step(INTERLEAVED, [f] * p, [b] * p, m, chunks=4)
    assert four is not None
    assert four.makespan_s == pytest.approx(m * (f + b) + (p - 1) * (f + b) / 4)


@pytest.mark.parametrize(("p", "m", "idle"), [(4, 8, 0.2727), (8, 20, 0.2593), (8, 64, 0.0986)])
def test_1f1b_of_equal_stages(p: int, m: int, idle: float) -> None:
    found = step(ONE_F_ONE_B, [1.0] * p, [2.0] * p, m)
    assert found is not None
    assert round(found.idle, 4) == idle


def test_a_last_stage_that_is_slower() -> None:
    found = step(ONE_F_ONE_B, [1.0] * 7 + [1.3], [2.0] * 7 + [2.6], 64)
    assert found is not None
    assert (round(found.makespan_s, 6), round(found.idle, 3)) == (270.6, 0.264)


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=2, max_size=6), st.integers(1, 12))
def test_1f1b_is_that_of_the_timeline(stages: list[tuple[float, float]], m: int) -> None:
    forward, backward = [f for f, _ in stages], [b for _, b in stages]
    found = step(ONE_F_ONE_B, forward, backward, m)
    assert found is not None
    assert found.makespan_s == pytest.approx(max(slot.end_s for slot in one_f_one_b(forward, m, backward)))


@given(STAGES, st.integers(2, 5), st.data())
def test_each_work_is_done_once_on_one_device_at_a_time(p: int, groups: int, data: st.DataObject) -> None:
    forward, backward = (data.draw(st.lists(SECONDS, min_size=p, max_size=p)) for _ in range(2))
    for name, plan_of in PLANS.items():
        plan = plan_of(p, groups * p)
        assert plan is not None
        found = simulate(plan, forward, backward)
        works = [work for of_device in found.slots for work, _, _ in of_device]
        assert len(works) == len(set(works)), name
        busy = sum(end - start for of_device in found.slots for _, start, end in of_device)
        assert busy == pytest.approx(groups * p * (sum(forward) + sum(backward))), name
        for of_device in found.slots:
            assert all(before[2] <= after[1] + 1e-9 for before, after in pairwise(of_device))


def test_many_micro_batches_are_continued_from_fewer() -> None:
    p, m = 16, 4096
    found = step(ZB_H1, [1.0] * p, [2.0] * p, m)
    assert found is not None
    assert found.makespan_s == pytest.approx(3 * m + p - 1)


def test_what_a_schedule_cannot_do_has_no_step() -> None:
    equal = [1.0] * 3
    assert step(INTERLEAVED, equal, equal, 4) is None  # m is no multiple of p
    assert step(DUAL_PIPE, equal, equal, 8) is None  # p is odd
    assert step(ZB_V, equal, equal, 5) is None  # m < 2 p


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
    job = made_job(1, 2, 4, chunks=2)
    path = write_table(tmp_path / "chunks.parquet", rows_of(job, times_of(job, 1, lambda *_: 0.1), 1))
    found = {each["schedule"]: each for each in reversed(list(rows(schedules(perflog.read(path)))))}
    assert found[ONE_F_ONE_B]["step_s"] == pytest.approx((4 + 1) * 0.4)
    assert found["interleaved 1F1B"]["chunks"] == 2
