"""Model of the 1F1B pipeline schedule: when each stage works on each micro-batch if sending takes no time.

PipeDream-Flush, https://arxiv.org/abs/2006.09503. Known limit: sending takes no time.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perflog.metrics.pipelines import schedule_simulation
from perflog.metrics.pipelines.schedule_simulation import forwards, simulate

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
    order = forwards if backward is None else schedule_simulation.one_f_one_b
    step = simulate(order(stages, micro_batches), forward, forward if backward is None else backward)
    return [
        Slot(stage, work.micro_batch, work.kind, start, end)
        for stage, slots in enumerate(step.slots)
        for work, start, end in slots
    ]


def needs(stage: int, stages: int, batch: int, direction: str) -> tuple[int, int, str] | None:
    """Return the key of the slot that this slot waits for: of the stage before; in the backward, of the stage after."""
    if direction == FORWARD:
        return (stage - 1, batch, FORWARD) if stage else None
    return (stage + 1, batch, BACKWARD) if stage < stages - 1 else (stage, batch, FORWARD)
