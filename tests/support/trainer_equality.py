"""A rank of test_trainer_equality.py: strategies and a whole model against a dense reference that knows no ranks.

Rank 0 prints a JSON list of [what, largest difference relative to the largest value of the reference].
"""

from __future__ import annotations

import copy
import json
import math
import os
import sys
from unittest.mock import Mock

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from msgspec.structs import asdict
from torch import Tensor

from perflog.trainer.models.expert_strategies import (
    Beside,
    DroplessStrategy,
    ExpertLoad,
    ExpertStrategy,
    PaddedStrategy,
    ShadowStrategy,
)
from perflog.trainer.models.language_model import LanguageModel
from perflog.trainer.models.master_weights import MasterAdamW
from perflog.trainer.models.moe import Experts, Gate
from perflog.trainer.phase_clock import PhaseClock
from perflog.trainer.rank_context import join_process_group
from perflog.trainer.recipes import ModelSizes, MoeOptions, RunSpec
from perflog.trainer.training import Trainer

OVERLAP = {"rows_transfer", "rows_wait", "gradients_transfer", "gradients_wait"}
E, K, T, D, H = 8, 2, 40, 16, 32
CPU = torch.device("cpu")
SIZES = ModelSizes(
    layers=2, model_dim=16, hidden_size=32, heads=2, vocabulary=19, sequence_length=8, batch=3, learning_rate=1e-2,
    top_k=2, capacity_factor=8.0, shadows=3,
)  # fmt: skip
OPTIONS = MoeOptions(
    balance_coefficient=0.1, z_coefficient=0.1, scores="sigmoid", activation="swiglu", shared_experts=2, overlap=2
)
WAYS: dict[str, ExpertStrategy] = {
    "padded": PaddedStrategy(E / K),
    "padded with drops": PaddedStrategy(1.0),
    "dropless": DroplessStrategy(),
    "shadow": ShadowStrategy(3),
    "shadow of none": ShadowStrategy(0),
    "padded overlapped with drops": PaddedStrategy(1.0, overlap=3),
    "dropless overlapped": DroplessStrategy(overlap=3),
    "shadow overlapped": ShadowStrategy(3, overlap=1),
}
found: list[tuple[str, float]] = []


def compare(what: str, got: Tensor, wanted: Tensor) -> None:
    """Note the difference, the largest on any rank."""
    worst = ((got.double() - wanted.double()).abs().max() / wanted.double().abs().max().clamp(min=1e-30)).reshape(1)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    found.append((what, float(worst)))


def kept_choices(chosen: Tensor, capacity: float) -> Tensor:
    """Which choices [T, k] an expert still has room for, taking tokens in their order."""
    room, kept = dict.fromkeys(range(E), capacity), torch.zeros_like(chosen, dtype=torch.bool)
    for token in range(chosen.shape[0]):
        for j, expert in enumerate(chosen[token].tolist()):
            kept[token, j] = room[expert] > 0
            room[expert] -= 1
    return kept


def dense(x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, kept: Tensor | None = None) -> Tensor:
    """All experts on all tokens, masked: [T, d]."""
    y = torch.zeros_like(x)
    for expert in range(w1.shape[0]):
        for j in range(chosen.shape[1]):
            mine = chosen[:, j] == expert
            mine = mine if kept is None else mine & kept[:, j]
            first, hidden = x @ w1[expert], w2.shape[1]
            second = F.gelu(first) if w1.shape[2] == hidden else F.silu(first[:, :hidden]) * first[:, hidden:]
            y = y + mine.unsqueeze(1) * weights[:, j : j + 1] * (second @ w2[expert])
    return y


def strategies(dtype: torch.dtype) -> None:
    """Output and gradients of each strategy, on a skewed gate."""
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    gate = Gate(D, E, K).double()
    gate.weight.data[0] *= 5  # a popular expert
    w1, w2 = torch.randn(E, D, H).double() / 4, torch.randn(E, H, D).double() / 4
    x, g = torch.randn(world, T, D).double(), torch.randn(world, T, D).double()
    chosen = torch.stack([gate(x[r].to(dtype))[0] for r in range(world)])
    local = slice(rank * E // world, (rank + 1) * E // world)
    for name, way in WAYS.items():
        capacity = math.ceil(T * K / E * way.factor) if isinstance(way, PaddedStrategy) else math.inf
        kept = torch.stack([kept_choices(c, capacity) for c in chosen])
        ref = [p.clone().requires_grad_() for p in (x, w1, w2)]
        theirs = copy.deepcopy(gate)
        weights = torch.stack([theirs(ref[0][r])[1] for r in range(world)])
        y = torch.stack([dense(ref[0][r], chosen[r], weights[r], ref[1], ref[2], kept[r]) for r in range(world)])
        (y * g).sum().backward()

        mine = copy.deepcopy(gate).to(dtype)
        own = [p.to(dtype).clone().requires_grad_() for p in (x[rank], w1[local], w2[local])]
        choice, weight, *_ = mine(own[0])
        beside, clock = Mock(), PhaseClock(CPU)
        out, load = way(own[0], choice, weight, own[1], own[2], clock, beside)
        beside.assert_called_once_with()
        (out * g[rank].to(dtype)).sum().backward()
        overlapped = world > 1 and "overlapped" in name
        assert (
            {"rows_transfer", "rows_wait", "gradients_transfer", "gradients_wait"} <= clock.read().keys()
        ) == overlapped
        label = f"{name} {dtype}"
        compare(f"{label} output", out.detach(), y[rank].detach())
        for part, got, wanted in zip(
            ("x", "w1", "w2"), own, (ref[0].grad[rank], *(r.grad[local] for r in ref[1:])), strict=True
        ):
            compare(f"{label} gradient of {part}", got.grad, wanted)
        total = mine.weight.grad.double()
        dist.all_reduce(total)
        compare(f"{label} gradient of gate", total, theirs.weight.grad)
        loads(label, load, chosen, kept, local)


def loads(label: str, load: ExpertLoad, chosen: Tensor, kept: Tensor, local: slice) -> None:
    """Rows, rows from others and drops of this rank, counted choice by choice."""
    rank, world = dist.get_rank(), dist.get_world_size()
    rows, remote, dropped = load.rank_counts(rank)
    inside = (chosen >= local.start) & (chosen < local.stop) & kept
    copied = torch.isin(chosen, torch.tensor(load.copied, dtype=chosen.dtype))
    here = (inside & ~copied).sum((1, 2))
    want_rows = int(here.sum()) + int(copied[rank].sum())
    if load.capacity is not None:
        want_rows = E * load.capacity
        assert load.capacity * world * (local.stop - local.start) == want_rows
    wanted = (want_rows, int(here.sum() - here[rank]), int((~kept[rank]).sum()))
    compare(f"{label} loads", torch.tensor([rows, remote, dropped]), torch.tensor(wanted))
    if "drops" in label:
        assert dropped > 0, "nothing was dropped"


class Whole:
    """The strategy of the reference: all experts here."""

    def __call__(
        self, x: Tensor, chosen: Tensor, weights: Tensor, w1: Tensor, w2: Tensor, clock: PhaseClock, beside: Beside
    ) -> tuple[Tensor, ExpertLoad]:
        """See `ExpertStrategy`."""
        beside()
        return dense(x, chosen, weights, w1, w2), ExpertLoad(torch.zeros(1, w1.shape[0], dtype=torch.int64))


def reference(model: LanguageModel, world: int) -> LanguageModel:
    """The same model with the experts of all ranks on this one."""
    whole = copy.deepcopy(model)
    for mixture in whole.moe_layers:
        experts = Experts([0] * E, SIZES.model_dim, SIZES.hidden_size)
        for name, own in mixture.experts.named_parameters():
            every = [torch.empty_like(own) for _ in range(world)]
            dist.all_gather(every, own.detach())
            getattr(experts, name).data = torch.cat(every)
        mixture.experts, mixture.strategy = experts, Whole()
    return whole


def whole_model(name: str, options: MoeOptions) -> None:
    """Loss and gradients of one step of the model: DDP, experts and all."""
    rank, world, strategy = dist.get_rank(), dist.get_world_size(), name.partition(" ")[0]
    sizes = ModelSizes(**{**asdict(SIZES), "experts_per_rank": E // world})
    spec = RunSpec("test", strategy, "tiny", strategy, 1, 1, sizes, 1, 0, "float32", seed=1, moe=options)
    with torch.random.fork_rng():
        trainer = Trainer(spec, CLUSTER)
    whole = reference(trainer.model, world)
    losses = []
    for shard in range(world):
        loss, total = whole(*trainer.task.batch(0, shard, sizes.batch))
        (total / world).backward()
        losses.append(loss.detach())
    loss, total = trainer.parallel(*trainer.task.batch(0, rank, sizes.batch))
    total.backward()
    trainer.average_experts()
    compare(f"{name} model loss", loss.detach(), losses[rank])
    wanted = dict(whole.named_parameters())
    for field, parameter in trainer.model.named_parameters():
        want = wanted[field].grad
        own = want[rank * E // world : (rank + 1) * E // world] if field in trainer.experts else want
        compare(f"{name} model gradient of {field}", parameter.grad, own)


def master_weights() -> None:
    """A step with parameters in bfloat16: of the masters as AdamW makes it, and the same on all ranks."""
    rank, world = dist.get_rank(), dist.get_world_size()
    sizes = ModelSizes(**{**asdict(SIZES), "experts_per_rank": E // world})
    spec = RunSpec("test", "v", "tiny", "dropless", 1, 1, sizes, 1, 0, "bfloat16", seed=1, parameters="bfloat16")
    trainer = Trainer(spec, CLUSTER)
    optimizer = trainer.optimizer
    assert isinstance(optimizer, MasterAdamW)
    before = [master.detach().clone() for master in optimizer.masters]
    with torch.autocast("cpu", enabled=False):
        _, total = trainer.parallel(*trainer.task.batch(0, rank, sizes.batch))
    total.backward()
    trainer.average_experts()
    gradients = [parameter.grad.float() for parameter in optimizer.parameters]
    optimizer.step()
    for (name, parameter), master, old, g in zip(
        trainer.model.named_parameters(), optimizer.masters, before, gradients, strict=True
    ):
        wanted = old * (1 - 1e-2 * 0.01) - 1e-2 * g / (g.abs() + 1e-8)  # of AdamW's first step
        compare(f"masters of {name}", master.detach(), wanted)
        compare(f"masters rounded of {name}", parameter.detach(), master.detach().bfloat16())
        if name not in trainer.experts:
            first = master.detach().clone()
            dist.broadcast(first, 0)
            compare(f"masters everywhere of {name}", master.detach(), first)


with join_process_group(CPU) as CLUSTER:
    for kind in (torch.float64, torch.float32, torch.bfloat16):
        strategies(kind)
    for way in ("dense", "padded", "dropless", "shadow"):
        whole_model(way, MoeOptions())
    for way in ("padded", "dropless", "shadow"):
        whole_model(f"{way} with all options", OPTIONS)
    master_weights()
    if CLUSTER.rank == 0:
        os.write(1, json.dumps(found).encode())
sys.exit(0)
