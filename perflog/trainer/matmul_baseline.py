"""Plain matrix products of the shapes of a rank's experts, timed: what the device gives with no layer around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor

from perflog.trainer.phase_clock import PhaseClock
from perflog.trainer.rank_context import RankContext
from perflog.trainer.recipes import RunSpec

SECONDS = 1.0  # that the tries are to take
TRIES = (3, 50)  # the fewest and the most of them


@dataclass(frozen=True)
class MatmulBaseline:
    """Median `seconds` of `tries` by name, each for all of a rank's `experts` of `rows` rows, after `warmup` tries.

    That of the backward is the sum of its products' medians: what else runs on a machine spoils short times least.
    """

    experts: int
    rows: int
    tries: int
    warmup: int
    seconds: Mapping[str, float]


def measure_matmuls(spec: RunSpec, context: RankContext) -> MatmulBaseline:
    """Time the products of a step, in its dtype and on its device. Every rank has to take part: all compute at once.

    Each expert gets as many rows as in a layer that is balanced and drops nothing.
    """
    local, clock = spec.sizes.experts_per_rank, PhaseClock(context.device)
    rows = max(1, round(spec.sizes.tokens * spec.sizes.top_k / local))
    work = _products(spec, context.device, rows)
    _timed(work, clock)  # libraries start
    seconds = torch.tensor(sum(_timed(work, clock).values()), device=context.device)
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
    return MatmulBaseline(local, rows, tries, warmup, {**forward, "plain_backward": sum(spent.values())})


def _timed(work: Mapping[str, Callable[[], None]], clock: PhaseClock) -> dict[str, float]:
    for name, run in work.items():
        with clock(name):
            run()
    return clock.read()


def _products(spec: RunSpec, device: torch.device, n: int) -> dict[str, Callable[[], None]]:
    """The products by name: n rows of each of L experts, d model width, h hidden width. Outputs have their memory."""
    count, d, h = spec.sizes.experts_per_rank, spec.sizes.model_dim, spec.sizes.hidden_size
    random = torch.Generator(device).manual_seed(spec.seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(count, *shape, generator=random, device=device).to(getattr(torch, spec.dtype))

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
