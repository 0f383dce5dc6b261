"""Plain matrix products of the shapes of a rank's experts, timed: what the device gives with no layer around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor

from perflog.trainer.clock import Clock
from perflog.trainer.cluster import Cluster
from perflog.trainer.recipes import Job

SECONDS = 1.0  # that the tries are to take
TRIES = (3, 50)  # the fewest and the most of them


@dataclass(frozen=True)
class Plain:
    """Median `seconds` of `tries` by name, each for all of a rank's `experts` of `rows` rows, after `warmup` tries.

    That of the backward is the sum of its products' medians: what else runs on a machine spoils short times least.
    """

    experts: int
    rows: int
    tries: int
    warmup: int
    seconds: Mapping[str, float]


def measure(job: Job, cluster: Cluster) -> Plain:
    """Time the products of a step, in its dtype and on its device. Every rank has to take part: all compute at once.

    Each expert gets as many rows as in a layer that is balanced and drops nothing.
    """
    local, clock = job.sizes.experts_per_rank, Clock(cluster.device)
    rows = max(1, round(job.sizes.tokens * job.sizes.top_k / local))
    work = _products(job, cluster.device, rows)
    _timed(work, clock)  # libraries start
    seconds = torch.tensor(sum(_timed(work, clock).values()), device=cluster.device)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)  # so that all ranks try as often
    tries = min(max(int(SECONDS / float(seconds)), TRIES[0]), TRIES[1])
    warmup = 2 + tries // 5
    for _ in range(warmup - 2):
        _timed(work, clock)
    clock.wait()
    clock.read()
    found = [_timed(work, clock) for _ in range(tries)]
    spent = {name: median(one[name] for one in found) for name in work}
    forward = {f"plain_{name}": spent.pop(name) for name in ("gemm1", "gemm2")}
    return Plain(local, rows, tries, warmup, {**forward, "plain_backward": sum(spent.values())})


def _timed(work: Mapping[str, Callable[[], None]], clock: Clock) -> dict[str, float]:
    for name, run in work.items():
        with clock(name):
            run()
    return clock.read()


def _products(job: Job, device: torch.device, n: int) -> dict[str, Callable[[], None]]:
    """The products by name: n rows of each of L experts, d model width, h hidden width. Outputs have their memory."""
    count, d, h = job.sizes.experts_per_rank, job.sizes.model_dim, job.sizes.hidden_size
    random = torch.Generator(device).manual_seed(job.seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(count, *shape, generator=random, device=device).to(getattr(torch, job.dtype))

    x, hidden, w1, w2 = drawn(n, d), drawn(n, h), drawn(d, h), drawn(h, d)
    out = {shape: torch.empty(shape, dtype=x.dtype, device=device) for shape in ((n, h), (n, d), (d, h), (h, d))}

    def product(left: Tensor, right: Tensor) -> Callable[[], None]:
        def run() -> None:
            for a, b in zip(left, right, strict=True):
                torch.mm(a, b, out=out[a.shape[0], b.shape[1]])

        return run

    return {
        "gemm1": product(x, w1),  # [n, d] [d, h]
        "gemm2": product(hidden, w2),  # [n, h] [h, d]
        "gemm2, rows": product(x, w2.mT),  # the gradient of its rows: [n, d] [d, h]
        "gemm2, matrix": product(hidden.mT, x),  # and that of its matrix: [h, n] [n, d]
        "gemm1, rows": product(hidden, w1.mT),  # [n, h] [h, d]
        "gemm1, matrix": product(x.mT, hidden),  # [d, n] [n, h]
    }
