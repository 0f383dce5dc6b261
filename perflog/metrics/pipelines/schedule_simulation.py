"""Simulation of pipeline schedules: when each device works on what, how long it idles, how many activations it holds.

Each device executes its work in the order of the schedule. It starts the next work as soon as it is free and the inputs
of the work are ready; sending takes no time. A backward has two parts: of the input, which the stage before waits for,
and of the weights, which only the zero-bubble schedules do later.

Schedules: GPipe, https://arxiv.org/abs/1811.06965; 1F1B and interleaved, https://arxiv.org/abs/2104.04473; ZB-H1,
https://arxiv.org/abs/2401.10241; ZB-V, https://arxiv.org/abs/2405.15362; DualPipe, https://arxiv.org/abs/2412.19437.

Known limit: sending takes no time, so a real pipeline idles more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

GPIPE, ONE_F_ONE_B, INTERLEAVED = "GPipe", "1F1B", "interleaved 1F1B"
ZB_H1, ZB_V, DUAL_PIPE = "ZB-H1", "ZB-V", "DualPipe"

FORWARD, BACKWARD = "forward", "backward"
_F, _B, _I, _W = FORWARD, BACKWARD, "input gradient", "weight gradient"
_GROUPS, _MOST = 8, 4096  # groups of p micro-batches, and micro-batches of all stages, that are simulated


class Work(Struct, frozen=True):
    """Work on a micro-batch. `stage` counts along the way of the micro-batches of its `lane`, all from 0."""

    stage: int
    micro_batch: int
    kind: str
    lane: int = 0


Item = tuple[Work, ...]
"""One item of a device: one work, or a forward and a backward that overlap."""


class Plan(Struct, frozen=True):
    """The order of the work of each device.

    Attributes:
        orders: The items of each device.
        stages: Number of stages of a lane.
        chunks: Number of chunks that a stage of the model is divided into.
        copies: Copies of the parameters that a device holds, relative to one stage.
    """

    orders: Sequence[Sequence[Item]]
    stages: int
    chunks: int = 1
    copies: int = 1


class Step(Struct, frozen=True):
    """The step of a schedule.

    Attributes:
        makespan_s: From the first work to the end of the last one.
        idle: Idle time of all devices / (devices * makespan).
        activations: Largest number of micro-batches with activations of a whole stage on a device. They are held from
            the forward to the end of the backward, or of the weight gradient if it is separate.
        copies: Copies of the parameters that a device holds.
    """

    makespan_s: float
    idle: float
    activations: float
    copies: int


class Simulated(Step, frozen=True):
    """A step whose works are all simulated. `slots`: per device: work, start and end in s from the first start."""

    slots: Sequence[Sequence[tuple[Work, float, float]]]


def simulate(plan: Plan, forward: Sequence[float], backward: Sequence[float], weights: float = 0.5) -> Simulated:
    """Return the step of a plan.

    Args:
        plan: Orders of the devices.
        forward: Seconds of the forward of one micro-batch on each of the p stages of the model.
        backward: The same of the whole backward.
        weights: Share of the backward that computes gradients of weights. Chunks of a stage take equal parts of it.
    """
    devices = len(plan.orders)
    done: dict[Work, float] = {}
    slots: list[list[tuple[Work, float, float]]] = [[] for _ in range(devices)]
    free, position = [0.0] * devices, [0] * devices
    moved = True
    while moved:
        moved = False
        for device, order in enumerate(plan.orders):
            while position[device] < len(order):
                item = order[position[device]]
                inputs = [need for work in item if (need := needs(work, plan.stages)) is not None and need not in item]
                if any(need not in done for need in inputs):
                    break
                time = max([free[device], *(done[need] for need in inputs)])
                for work in item:
                    stage = device if work.lane == 0 else devices - 1 - device
                    start, time = time, time + _seconds(work, forward[stage], backward[stage], weights) / plan.chunks
                    slots[device].append((work, start, time))
                done |= {done_work: time for work in item for done_work in does(work)}
                free[device], position[device], moved = time, position[device] + 1, True
    if any(place < len(order) for place, order in zip(position, plan.orders, strict=True)):
        raise ValueError("the orders wait for each other")
    makespan = max(free)
    busy = sum(end - start for device_slots in slots for _, start, end in device_slots)
    held = max(_held(device_slots) for device_slots in slots) / plan.chunks
    idle = 1 - busy / (devices * makespan) if makespan else 0.0
    return Simulated(makespan, idle, held, plan.copies, slots)


def does(work: Work) -> list[Work]:
    """Return what is complete after a work: a whole backward includes the gradient of the input."""
    return [work, Work(work.stage, work.micro_batch, _I, work.lane)] if work.kind == _B else [work]


def needs(work: Work, stages: int) -> Work | None:
    """Return the work that a work waits for."""
    if work.kind == _F:
        return Work(work.stage - 1, work.micro_batch, _F, work.lane) if work.stage else None
    if work.kind == _W:
        return Work(work.stage, work.micro_batch, _I, work.lane)
    if work.stage == stages - 1:
        return Work(work.stage, work.micro_batch, _F, work.lane)
    return Work(work.stage + 1, work.micro_batch, _I, work.lane)


def _seconds(work: Work, forward: float, backward: float, weights: float) -> float:
    return {_F: forward, _B: backward, _I: backward * (1 - weights), _W: backward * weights}[work.kind]


def _held(slots: Sequence[tuple[Work, float, float]]) -> int:
    """Return the largest number of forwards with an unfinished backward."""
    change = [1 if work.kind == _F else -1 if work.kind in (_B, _W) else 0 for work, _, _ in slots]
    return int(np.cumsum(change).max(initial=0))


def gpipe(stages: int, batches: int) -> Plan:
    """All forwards, then all backwards in reverse order (Huang et al., 1811.06965)."""
    order = [(_F, i) for i in range(batches)] + [(_B, i) for i in reversed(range(batches))]
    return Plan([[(Work(s, i, kind),) for kind, i in order] for s in range(stages)], stages)


def forwards(stages: int, batches: int) -> Plan:
    """All forwards and no backward."""
    return Plan([[(Work(s, i, _F),) for i in range(batches)] for s in range(stages)], stages)


def one_f_one_b(stages: int, batches: int) -> Plan:
    """Stage s first runs p - 1 - s forwards, then one forward and one backward in turn (2104.04473, section 2.2)."""
    orders = []
    for s in range(stages):
        ahead = min(stages - 1 - s, batches)
        order = [(_F, i) for i in range(ahead)]
        for i in range(batches):
            order += [(_F, ahead + i)] * (ahead + i < batches) + [(_B, i)]
        orders.append([(Work(s, i, kind),) for kind, i in order])
    return Plan(orders, stages)


def interleaved(stages: int, batches: int, chunks: int = 2) -> Plan | None:
    """Chunk c of device d is stage c p + d; micro-batches go in groups of p (2104.04473, section 2.2; Megatron-LM).

    None unless the number of micro-batches is a multiple of p.
    """
    if batches % stages or chunks < 2:
        return None
    total, group = batches * chunks, stages * chunks

    def work(device: int, k: int, kind: str) -> Item:
        chunk = k % group // stages
        chunk = chunk if kind == _F else chunks - 1 - chunk
        return (Work(chunk * stages + device, k // group * stages + k % stages, kind),)

    orders = []
    for device in range(stages):
        ahead = min(total, 2 * (stages - device - 1) + (chunks - 1) * stages)
        order = [work(device, k, _F) for k in range(ahead)]
        for k in range(total):
            order += [work(device, ahead + k, _F)] * (ahead + k < total) + [work(device, k, _B)]
        orders.append(order)
    return Plan(orders, stages * chunks, chunks)


def zb_h1(stages: int, batches: int) -> Plan:
    """1F1B with each weight gradient of stage s delayed by s backwards (Qi et al., arXiv:2401.10241, section 2)."""
    orders = []
    for s in range(stages):
        ahead = min(stages - 1 - s, batches)
        order = [(_F, i) for i in range(ahead)]
        for i in range(batches):
            order += [(_F, ahead + i)] * (ahead + i < batches) + [(_I, i)] + [(_W, i - s)] * (i >= s)
        order += [(_W, i) for i in range(max(0, batches - s), batches)]
        orders.append([(Work(s, i, kind),) for kind, i in order])
    return Plan(orders, stages)


def zb_v(stages: int, batches: int) -> Plan | None:
    """Device d holds stages d and 2 p - 1 - d of 2 p (Qi et al., arXiv:2405.15362; in the order of PyTorch).

    None if there are fewer than 2 p micro-batches.
    """
    if batches < 2 * stages:
        return None
    orders = []
    for d in range(stages):
        chunk_stages = (d, 2 * stages - 1 - d)
        kinds = [(_F, 0)] * (2 * (stages - d) - 1) + [(_F, 1), (_F, 0)] * d
        kinds += [(_F, 1), (_I, 1), (_W, 1)] * (stages - d)
        kinds += [(_F, 0), (_I, 0), (_W, 0), (_F, 1), (_I, 1), (_W, 1)] * (batches - stages)
        kinds += [(_I, 0), (_I, 1)] * d + [(_I, 0), (_W, 0)] * (stages - d) + [(_W, 1)] * d + [(_W, 0)] * d
        count: Counter[tuple[str, int]] = Counter()
        order = []
        for kind, chunk in kinds:
            if count[kind, chunk] < batches:  # the last forwards of chunk 0 are over before the last ones of chunk 1
                order.append((Work(chunk_stages[chunk], count[kind, chunk], kind),))
                count[kind, chunk] += 1
        orders.append(order)
    return Plan(orders, 2 * stages, 2)


def dual_pipe(stages: int, batches: int) -> Plan | None:
    """Half of the micro-batches from each end; a forward and a backward overlap (DeepSeek-V3, 2412.19437, 3.2.1).

    A pair takes the sum of both times here. None unless p and the micro-batches are even, and there are 2 p of them.
    """
    if stages % 2 or batches % 2 or batches < 2 * stages:
        return None
    orders = []
    for device in range(stages):
        near = min(device, stages - 1 - device)  # 0 at both ends
        far = stages // 2 - near - 1
        forwards, backwards = _numbered(device, stages), _numbered(device, stages)
        later: list[Work] = []

        order: list[Item] = [(forwards(_F, 0),) for _ in range(2 * far)]
        order += [(forwards(_F, k % 2),) for k in range(2 * (near + 1))]
        for _ in range(far):
            input_gradient = backwards(_I, 1)
            order += [(input_gradient,), (replace(input_gradient, kind=_W),), (forwards(_F, 1),)]
        for _ in range(batches // 2 - stages + near + 1):
            order += [(forwards(_F, 0), backwards(_B, 1)), (forwards(_F, 1), backwards(_B, 0))]
        for _ in range(far):
            order += [(backwards(_B, 1),), (forwards(_F, 1), backwards(_B, 0))]
        for k in range(2 * (near + 1)):
            order.append((backwards(_B if k <= near else _I, 1 - k % 2),))
            later += [replace(work, kind=_W) for work in order[-1] if work.kind == _I]
        for _ in range(far):
            order += [(later.pop(0),), (backwards(_I, 0),)]
            later += [replace(work, kind=_W) for work in order[-1]]
        orders.append([*order, *((work,) for work in later)])
    return Plan(orders, stages, 1, 2)


def _numbered(device: int, stages: int) -> Callable[[str, int], Work]:
    """Return a function that numbers the work of a device in each lane; lane 0 begins at its end of the pipeline."""
    count: Counter[int] = Counter()

    def work(kind: str, lane: int) -> Work:
        lane = 1 - lane if device >= stages // 2 else lane
        count[lane] += 1
        return Work(device if lane == 0 else stages - 1 - device, count[lane] - 1, kind, lane)

    return work


def as_timed(forward: Sequence[float], batches: int, backward: Sequence[float] | None = None) -> Simulated:
    """Return the step under 1F1B. Without `backward` of the forward only: it ends at sum f + (m - 1) max f."""
    plan = (forwards if backward is None else one_f_one_b)(len(forward), batches)
    return simulate(plan, forward, forward if backward is None else backward)


PLANS: dict[str, Callable[[int, int], Plan | None]] = {
    GPIPE: gpipe, ONE_F_ONE_B: one_f_one_b, INTERLEAVED: interleaved, ZB_H1: zb_h1, ZB_V: zb_v, DUAL_PIPE: dual_pipe,
}  # fmt: skip
"""Plans of all schedules by name, for p stages and m micro-batches; None where a schedule needs other numbers."""


def step(
    schedule: str,
    forward: Sequence[float],
    backward: Sequence[float],
    batches: int,
    chunks: int = 2,
    weights: float = 0.5,
) -> Step | None:
    """Return the step of a schedule; None where it needs other numbers of stages or micro-batches.

    Many micro-batches are extrapolated from fewer: each further group of p adds the same time. This is exact for equal
    stages. `chunks`: chunks of a stage in the interleaved schedule.
    """
    stages = len(forward)

    def simulated(number: int) -> Simulated | None:
        plan = interleaved(stages, number, chunks) if schedule == INTERLEAVED else PLANS[schedule](stages, number)
        return None if plan is None else simulate(plan, forward, backward, weights)

    most = max(_GROUPS, _MOST // (2 * stages**2) * 2) * stages
    fits = not (schedule == INTERLEAVED and batches % stages) and not (schedule == DUAL_PIPE and batches % 2)
    more = simulated(min(batches, most)) if fits else None
    few = simulated(most - 2 * stages) if batches > most else more
    if few is None or more is None:
        return None
    further = max(0.0, (batches - most) / (2 * stages))
    makespan = more.makespan_s + further * (more.makespan_s - few.makespan_s)
    held = more.activations + further * (more.activations - few.activations)
    busy = batches * (sum(forward) + sum(backward))
    return Step(makespan, 1 - busy / (stages * makespan), held, more.copies)
