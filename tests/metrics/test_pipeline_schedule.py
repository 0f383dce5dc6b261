"""The 1F1B schedule, against what is known of it in closed form."""

from __future__ import annotations

from itertools import pairwise

import pytest

from perflog.metrics.pipelines.pipeline_schedule import BACKWARD, FORWARD, needs, one_f_one_b

SHAPES = [(1, 1), (1, 5), (3, 1), (3, 2), (4, 4), (2, 7), (4, 9)]
"""Stages and micro-batches."""


@pytest.mark.parametrize(("stages", "batches"), SHAPES)
def test_equal_stages_take_as_many_turns_as_micro_batches_and_other_stages(stages: int, batches: int) -> None:
    slots = one_f_one_b([1.0] * stages, batches, [2.0] * stages)
    assert max(slot.end_s for slot in slots) == 3 * (batches + stages - 1)
    assert len(slots) == 2 * stages * batches


@pytest.mark.parametrize(("stages", "batches"), SHAPES)
def test_the_forward_alone(stages: int, batches: int) -> None:
    """The slowest stage works on all micro-batches, and the others once."""
    times = [1.0 + (n * 5) % 3 for n in range(stages)]
    slots = one_f_one_b(times, batches)
    assert max(slot.end_s for slot in slots) == sum(times) + (batches - 1) * max(times)
    assert {slot.direction for slot in slots} == {FORWARD}


@pytest.mark.parametrize(("stages", "batches"), SHAPES)
def test_a_stage_does_one_slot_at_a_time_and_keeps_few_activations(stages: int, batches: int) -> None:
    forward, backward = ([float(1 + (n * step) % 4) for n in range(stages)] for step in (3, 5))
    slots = one_f_one_b(forward, batches, backward)
    assert slots == sorted(slots, key=lambda slot: (slot.stage, slot.start_s))
    ends = {(slot.stage, slot.micro_batch, slot.direction): slot.end_s for slot in slots}
    for stage in range(stages):
        own = [slot for slot in slots if slot.stage == stage]
        assert all(before.end_s <= after.start_s for before, after in pairwise(own))
        kept = most = 0
        for slot in own:
            kept += 1 if slot.direction == FORWARD else -1
            most = max(most, kept)
            assert slot.end_s - slot.start_s == (forward if slot.direction == FORWARD else backward)[stage]
            source = needs(stage, stages, slot.micro_batch, slot.direction)
            assert source is None or ends[source] <= slot.start_s
        assert (kept, most) == (0, min(stages - stage, batches))


def test_stages_that_take_no_time() -> None:
    assert {slot.end_s for slot in one_f_one_b([0.0, 0.0], 2, [0.0, 0.0])} == {0.0}


def test_what_a_slot_waits_for() -> None:
    assert needs(0, 3, 5, FORWARD) is None
    assert needs(2, 3, 5, FORWARD) == (1, 5, FORWARD)
    assert needs(0, 3, 5, BACKWARD) == (1, 5, BACKWARD)
    assert needs(2, 3, 5, BACKWARD) == (2, 5, FORWARD)
