"""Pipeline schedules by simulation, against closed forms, and against another way to compute 1F1B."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.metrics.pipelines.schedule_simulation import (
    DUAL_PIPE,
    GPIPE,
    INTERLEAVED,
    ONE_F_ONE_B,
    PLANS,
    ZB_H1,
    ZB_V,
    as_timed,
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


@given(STAGES, st.integers(2, 5), st.data())
def test_each_work_is_done_once_on_one_device_at_a_time(p: int, groups: int, data: st.DataObject) -> None:
    forward, backward = (data.draw(st.lists(SECONDS, min_size=p, max_size=p)) for _ in range(2))
    for name, plan_of in PLANS.items():
        plan = plan_of(p, groups * p)
        assert plan is not None
        found = simulate(plan, forward, backward)
        works = [work for of_device in found.slots for work, _, _ in of_device]
        assert len(works) == len(set(works)), name
        for lane in {work.lane for work in works}:
            numbers = {work.micro_batch for work in works if work.lane == lane}
            assert numbers == set(range(groups * p // (2 if name == DUAL_PIPE else 1))), name
        busy = sum(end - start for of_device in found.slots for _, start, end in of_device)
        assert busy == pytest.approx(groups * p * (sum(forward) + sum(backward))), name
        for of_device in found.slots:
            assert all(before[2] <= after[1] + 1e-9 for before, after in pairwise(of_device))


def test_many_micro_batches_are_continued_from_fewer() -> None:
    p, m = 16, 4096
    found = step(ZB_H1, [1.0] * p, [2.0] * p, m)
    assert found is not None
    assert found.makespan_s == pytest.approx(3 * m + p - 1)


@pytest.mark.parametrize(("backward", "makespan"), [(None, 6 + 3 * 3), ([2.0, 4.0, 6.0], 18 + 3 * 9)])
def test_stages_as_timed_under_1f1b(backward: list[float] | None, makespan: float) -> None:
    """Stages of 1, 2 and 3 s and four micro-batches: without a backward the step is sum f + (m - 1) max f."""
    found = as_timed([1.0, 2.0, 3.0], 4, backward)
    assert found.makespan_s == pytest.approx(makespan)


def test_what_a_schedule_cannot_do_has_no_step() -> None:
    equal = [1.0] * 3
    assert step(INTERLEAVED, equal, equal, 4) is None  # m is no multiple of p
    assert step(DUAL_PIPE, equal, equal, 8) is None  # p is odd
    assert step(ZB_V, equal, equal, 5) is None  # m < 2 p
    assert step(INTERLEAVED, equal, equal, 6, chunks=1) is None
    many = [1.0] * 16
    assert step(INTERLEAVED, many, many, 4097) is None  # so many are not simulated one by one
    assert step(DUAL_PIPE, many, many, 4097) is None
