"""Timing of plain matrix products with the shapes of a rank's experts: the speed of the device without a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

import torch
import torch.distributed as dist
from msgspec import Struct
from torch import Tensor

from perflog.trainer.phase_clock import PhaseClock
from perflog.trainer.rank_context import RankContext
from perflog.trainer.recipes import RunSpec

SECONDS = 1.0  # time budget of the tries
TRIES = (3, 50)  # minimum and maximum number of tries


class MatmulBaseline(Struct, frozen=True):
    """Median times of the matrix products of all experts of a rank.

    The time of the backward is the sum of the medians of its products: other work on the machine disturbs short
    measurements least.
    """

    experts: int  # on this rank
    matrices: int  # of each expert
    rows: int  # of each expert
    tries: int
    warmup: int  # tries before those that count
    seconds: Mapping[str, float]  # median by name


def measure_matmuls(spec: RunSpec, context: RankContext) -> MatmulBaseline:
    """Time the matrix products of a step, in its dtype and on its device. Every rank must call it: all compute at once.

    Each expert gets as many rows as in a balanced layer without drops.
    """
    local, clock = spec.sizes.experts_per_rank, PhaseClock(context.device)
    rows = max(1, round(spec.sizes.tokens * spec.sizes.top_k / local))
    products = _products(spec, context.device, rows)
    _time_products(products, clock)  # the first call loads libraries
    seconds = torch.tensor(sum(_time_products(products, clock).values()), device=context.device)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)  # so that all ranks make the same number of tries
    tries = min(max(int(SECONDS / float(seconds)), TRIES[0]), TRIES[1])
    warmup = 2 + tries // 5
    for _ in range(warmup - 2):
        _time_products(products, clock)
    clock.wait()
    clock.read()
    times = [_time_products(products, clock) for _ in range(tries)]
    medians = {name: median(row[name] for row in times) for name in products}
    forward = {f"plain_{name}": medians.pop(name) for name in ("gemm1", "gemm2")}
    return MatmulBaseline(
        local, spec.moe.expert_matrices, rows, tries, warmup, {**forward, "plain_backward": sum(medians.values())}
    )


def _time_products(products: Mapping[str, Callable[[], None]], clock: PhaseClock) -> dict[str, float]:
    """Run each product once and return its seconds by name."""
    for name, run in products.items():
        with clock(name):
            run()
    return clock.read()


def _products(spec: RunSpec, device: torch.device, n: int) -> dict[str, Callable[[], None]]:
    """Return the products by name: n rows of each of L experts, d model width, h hidden width, u width of gemm1.

    Their outputs are allocated beforehand.
    """
    count, d, h = spec.sizes.experts_per_rank, spec.sizes.model_dim, spec.sizes.hidden_size
    u = h * (spec.moe.expert_matrices - 1)
    random = torch.Generator(device).manual_seed(spec.seed)

    def random_matrices(*shape: int) -> Tensor:
        return torch.randn(count, *shape, generator=random, device=device).to(getattr(torch, spec.dtype))

    x, hidden, wide = random_matrices(n, d), random_matrices(n, h), random_matrices(n, u)  # [L, n, ...] each
    w1, w2 = random_matrices(d, u), random_matrices(h, d)  # [L, d, u], [L, h, d]
    shapes = {(n, u), (n, h), (n, d), (d, u), (h, d)}
    out = {shape: torch.empty(shape, dtype=x.dtype, device=device) for shape in shapes}

    def product(left: Tensor, right: Tensor) -> Callable[[], None]:
        def run() -> None:
            for a, b in zip(left, right, strict=True):
                torch.mm(a, b, out=out[a.shape[0], b.shape[1]])

        return run

    return {
        "gemm1": product(x, w1),  # [n, d] [d, u]
        "gemm2": product(hidden, w2),  # [n, h] [h, d]
        "gemm2, rows": product(x, w2.mT),  # gradient of its rows: [n, d] [d, h]
        "gemm2, matrix": product(hidden.mT, x),  # gradient of its matrix: [h, n] [n, d]
        "gemm1, rows": product(wide, w1.mT),  # [n, u] [u, d]
        "gemm1, matrix": product(x.mT, wide),  # [d, n] [n, u]
    }
