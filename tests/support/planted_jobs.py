"""Jobs with a planted culprit, as logs: a slow rank, link, expert, stage, loader, a throttled GPU, failures; and none.

Each has 8 to 512 ranks, noise of the times as real jobs have it, and lines that are torn.
"""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

from msgspec import Struct
from support.pair_logs import LARGE, PAIR

KINDS = (
    "rank", "data_loader", "throttling", "link", "node", "expert", "stage", "out_of_memory", "hang", "network", "none"
)  # fmt: skip

_STEP = (
    "[rank{rank}]: step {step} | loss: {loss:.4f} | dt: {dt:.2f}ms | forward: {forward:.2f}ms | backward: "
    "{backward:.2f}ms | data: {data:.2f}ms | allreduce: {wait:.2f}ms | gpu_temp: {temp:.1f} | sm_clock: {clock:.0f}"
)
_TIMEOUT = (
    "[rank{0}]:[E626 16:48:25.440240649 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=120049, OpType=ALLREDUCE, NumelIn=8652160, NumelOut=8652160, Timeout(ms)=600000) ran for "
    "600014 milliseconds before timing out."
)
_MEMORY = (
    "[rank{0}]: Traceback (most recent call last):",
    '[rank{0}]:   File "train.py", line 12, in step',
    "[rank{0}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {1} has 79.11 GiB.",
)
_ECHO = (
    "[rank{0}]: torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:3356, remote process exited "
    "or there was a network error, NCCL version 2.21.5"
)
_NETWORK = (
    "[rank{0}]: node{1}:118:431 [{2}] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer "
    "10.20.0.7<41873> with error 12, opcode 0, len 0, vendor err 129 (Recv)"
)


class Planted(Struct):
    """A job: its folder, and what is planted: the rank, link (two nodes), node, expert or stage; None for nobody."""

    folder: Path
    kind: str
    ranks: int
    rank: int | None = None
    link: str | None = None
    node: str | None = None
    expert: int | None = None
    stage: int | None = None


def planted(folder: Path, seed: int, kinds: tuple[str, ...] = KINDS, most: int = 512) -> Planted:
    """Write the logs of a job, and return what is planted in it."""
    rng = random.Random(seed)
    kind = kinds[seed % len(kinds)]
    folder.mkdir(parents=True, exist_ok=True)
    if kind in ("link", "node"):
        return _pairs(folder, kind, rng)
    if kind == "expert":
        return _experts(folder, rng)
    if kind == "stage":
        return _stages(folder, rng)
    ranks = rng.choice([size for size in (8, 16, 32, 64, 128, 256, 512) if size <= most])
    job = Planted(folder, kind, ranks, None if kind == "none" else rng.randrange(ranks))
    lines = _steps(job, rng) + _ending(job, rng)
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    if kind == "network":  # the rank only tells of its connection
        job.link, job.rank = f"rank {job.rank} - 10.20.0.7", None
    return job


def _steps(job: Planted, rng: random.Random) -> list[str]:
    """Steps of all ranks; about one line in 200 is torn."""
    steps = rng.randrange(12, 20)
    noise, spread = rng.choice([0.005, 0.02, 0.05]), rng.choice([0.0, 0.005, 0.01])
    of_rank = [rng.gauss(1, spread) for _ in range(job.ranks)]
    worse = rng.uniform(1.25, 2.0)
    lines = []
    for step in range(1, steps + 1):
        of_step = []
        for rank in range(job.ranks):
            own = rank == job.rank
            slow = worse if own and job.kind in ("rank", "throttling") else 1.0
            hot = own and job.kind == "throttling"
            forward = 100 * slow * of_rank[rank] * rng.gauss(1, noise)
            backward = 200 * slow * of_rank[rank] * rng.gauss(1, noise)
            data = (40 * worse if own and job.kind == "data_loader" else 5) * abs(rng.gauss(1, 0.1))
            line = _STEP.format(
                rank=rank, step=step, loss=8 / step**0.1, dt=700 * rng.gauss(1, 0.002), forward=forward,
                backward=backward, data=data, wait=max(5.0, 380 - forward - backward) * abs(rng.gauss(1, 0.1)),
                temp=(84 if hot else 62) * rng.gauss(1, 0.01), clock=(1180 if hot else 1755) * rng.gauss(1, 0.003),
            )  # fmt: skip
            of_step.append(line[: rng.randrange(20, len(line))] if rng.random() < 0.005 else line)
        rng.shuffle(of_step)
        lines += of_step
    return lines


def _ending(job: Planted, rng: random.Random) -> list[str]:
    """What the ranks print at the end, interleaved; some ranks print nothing."""
    others = [rank for rank in range(job.ranks) if rank != job.rank]
    rng.shuffle(others)
    if job.kind == "hang":
        return [_TIMEOUT.format(rank) for rank in others]
    if job.kind not in ("out_of_memory", "network"):
        return []
    own = (
        [text.format(job.rank, (job.rank or 0) % 8) for text in _MEMORY]
        if job.kind == "out_of_memory"
        else [_NETWORK.format(job.rank, (job.rank or 0) // 8, (job.rank or 0) % 8)]
    )
    lines = [_ECHO.format(rank) for rank in others if rng.random() < 0.8]
    places = sorted(rng.randrange(len(lines) + 1) for _ in own)
    for before, (place, text) in enumerate(zip(places, own, strict=True)):
        lines.insert(place + before, text)
    return lines


def _pairs(folder: Path, kind: str, rng: random.Random) -> Planted:
    """A benchmark of all pairs of 5 to 10 nodes, one of which is slow, or all pairs of a node."""
    nodes = [f"n{k}" for k in range(1, rng.randrange(5, 11))]
    pairs = list(combinations(nodes, 2))
    slow = rng.choice(pairs)
    for first, second in pairs:
        hit = (first, second) == slow if kind == "link" else slow[0] in (first, second)
        value = rng.gauss(13.5, 0.08) * (rng.uniform(0.4, 0.75) if hit else 1.0)
        text = PAIR.format(first=first, second=second, small=f"{value:.2f}", large=LARGE.format(value=f"{value:.2f}"))
        (folder / f"{first}_{second}.log").write_text(text)
    job = Planted(folder, kind, len(nodes))
    if kind == "link":
        job.link = " - ".join(slow)
    else:
        job.node = slow[0]
    return job


def _experts(folder: Path, rng: random.Random) -> Planted:
    """The loads of the experts of a layer in 10 steps: one gets several times the mean."""
    experts, hot = rng.choice([8, 16, 32]), 0
    hot = rng.randrange(experts)
    for step in range(10):
        amounts = [max(1, round(rng.gauss(1000, 60))) for _ in range(experts)]
        amounts[hot] = round(1000 * rng.uniform(2.6, 4.0))
        (folder / f"table_iter{step}_rank0.log").write_text(f"0:[{amounts}]\n")
    return Planted(folder, "expert", 1, expert=hot)


def _stages(folder: Path, rng: random.Random) -> Planted:
    """The forward times of the layers of a pipeline in 6 to 12 steps: those of one stage are 1.3 to 2 times longer."""
    stages, layers = rng.choice([4, 8, 16]), rng.choice([2, 3, 4])
    slow, worse, noise = rng.randrange(stages), rng.uniform(1.3, 2.0), rng.choice([0.005, 0.02, 0.05])
    lines = [f"> World size: {stages}", "> GAS: 32", "> GBS: 32", "> MBS: 1", "> TP: 1", "> DP: 1", f"> PP: {stages}"]
    for step in range(1, rng.randrange(7, 14)):
        for stage in rng.sample(range(stages), stages):
            head = f"[rank:{stage} stage:{stage}] transformer-block(module) forward time (no send/recv) - step {step}"
            lines.append(head)
            for layer in range(layers * stage, layers * (stage + 1)):
                total = 100 * (worse if stage == slow else 1.0) * rng.gauss(1, noise)
                lines.append(f"  layer[{layer}]: total={total:.3f}ms, ops=32, avg/op={total / 32:.3f}ms")
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return Planted(folder, "stage", stages, stage=slow)
