"""Model of the 1F1B pipeline schedule: when each stage works on each micro-batch if sending takes no time.

PipeDream-Flush, https://arxiv.org/abs/2006.09503. Known limit: sending takes no time.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

FORWARD, BACKWARD = "forward", "backward"


class Slot(Struct, frozen=True):
    """Work of a stage on a micro-batch. Both count from 0; times are seconds from the start of the first slot."""

    stage: int
    micro_batch: int
    direction: str
    start_s: float
    end_s: float


def one_f_one_b(forward: Sequence[float], micro_batches: int, backward: Sequence[float] | None = None) -> list[Slot]:
    """Return the slots of a step, each as early as its stage and the stage before it allow.

    `forward` and `backward`: seconds per micro-batch of each stage. Without `backward`, the model is of the forward
    only, and ends at sum f + (m - 1) max f. Stage s of p first runs p - 1 - s forwards, then alternates one forward and
    one backward (Narayanan et al., 2104.04473, section 2.2).
    """
    stages = len(forward)
    orders = [_order(s, stages, micro_batches, backward is not None) for s in range(stages)]
    done: dict[tuple[int, int, str], Slot] = {}
    free, position = [0.0] * stages, [0] * stages
    waiting = True
    while waiting:
        waiting = False
        for stage, order in enumerate(orders):
            while position[stage] < len(order):
                batch, direction = order[position[stage]]
                source = needs(stage, stages, batch, direction)
                if source is not None and source not in done:
                    waiting = True
                    break
                start = max(free[stage], done[source].end_s if source else 0.0)
                times = forward if direction == FORWARD or backward is None else backward
                done[stage, batch, direction] = Slot(stage, batch, direction, start, start + times[stage])
                free[stage] = start + times[stage]
                position[stage] += 1
    return sorted(done.values(), key=lambda slot: (slot.stage, slot.start_s))


def _order(stage: int, stages: int, micro_batches: int, both: bool) -> list[tuple[int, str]]:
    """Micro-batches and directions in the order in which a stage works on them."""
    warm_up = min(stages - 1 - stage, micro_batches) if both else micro_batches
    order = [(i, FORWARD) for i in range(warm_up)]
    if both:
        for i in range(micro_batches):
            order += [(warm_up + i, FORWARD)] if warm_up + i < micro_batches else []
            order += [(i, BACKWARD)]
    return order


def needs(stage: int, stages: int, batch: int, direction: str) -> tuple[int, int, str] | None:
    """Return the key of the slot that this slot waits for: of the stage before; in the backward, of the stage after."""
    if direction == FORWARD:
        return (stage - 1, batch, FORWARD) if stage else None
    return (stage + 1, batch, BACKWARD) if stage < stages - 1 else (stage, batch, FORWARD)
