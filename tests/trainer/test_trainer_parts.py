"""Parts of the trainer by themselves, in one process: the task, the grouped kernel, which range a kernel stands in."""

from __future__ import annotations

import math
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

if find_spec("torch") is None:
    pytest.skip("needs PyTorch", allow_module_level=True)

import torch
import torch.nn.functional as F  # noqa: N812

from perflog.trainer.kernels import ProfileRanges
from perflog.trainer.matmul_baseline import TRIES, measure_matmuls
from perflog.trainer.models.language_model import LanguageModel, active_parameters
from perflog.trainer.models.llama import stage_layers
from perflog.trainer.models.master_weights import MasterAdamW
from perflog.trainer.models.moe import Gate, RowGroups, grouped_matmul, grouped_matmul_kernel, histogram
from perflog.trainer.models.synthetic_task import NOISE, SyntheticTask
from perflog.trainer.phase_clock import PhaseClock, covered, timed_backward
from perflog.trainer.rank_context import join_process_group
from perflog.trainer.recipes import load_recipe
from perflog.trainer.training import Trainer

CPU = torch.device("cpu")


def test_nine_of_ten_tokens_follow_from_the_one_before() -> None:
    task = SyntheticTask(vocabulary=97, length=64, seed=5, device=CPU)
    tokens, targets = task.batch(3, 1, sequences=200)
    assert (tokens[:, 1:] == targets[:, :-1]).all()
    follows = {int(a): int(b) for a, b in zip(task.cycle, task.cycle.roll(-1), strict=True)}
    share = sum(follows[a] == b for a, b in zip(tokens.flatten().tolist(), targets.flatten().tolist(), strict=True))
    assert share / tokens.numel() == pytest.approx(1 - NOISE, abs=0.02)


def test_a_batch_depends_on_seed_step_and_rank_alone() -> None:
    def batch(seed: int, step: int, rank: int) -> torch.Tensor:
        return SyntheticTask(97, 16, seed, CPU).batch(step, rank, 4)[0]

    assert torch.equal(batch(1, 2, 3), batch(1, 2, 3))
    others = [batch(1, 2, 4), batch(1, 3, 3), batch(2, 2, 3)]
    assert not any(torch.equal(batch(1, 2, 3), other) for other in others)


@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
def test_the_router_takes_the_highest_scores_and_has_the_losses_of_the_papers(scores: str) -> None:
    gate, x = Gate(8, 4, 2, scores), torch.randn(50, 8)
    chosen, weights, balance, z_loss = gate(x)
    assert torch.equal(chosen, (x @ gate.weight.T).topk(2).indices)
    assert torch.allclose(weights.sum(1), torch.ones(50))
    logits = (x @ gate.weight.T).tolist()
    score = [[math.exp(v) if scores == "softmax" else 1 / (1 + math.exp(-v)) for v in row] for row in logits]
    parts = [[sum(row[e] / sum(row) for row in score) / 50, (chosen == e).sum().item() / 100] for e in range(4)]
    assert balance.item() == pytest.approx(4 * sum(p * f for p, f in parts), rel=1e-5)
    squares = [math.log(sum(map(math.exp, row))) ** 2 for row in logits]
    assert z_loss.item() == pytest.approx(sum(squares) / 50, rel=1e-5)
    (balance + z_loss).backward()
    assert gate.weight.grad is not None and gate.weight.grad.abs().min() > 0
    gate.weight.data.zero_()  # all alike: the balance loss is 1, whoever is chosen
    assert [loss.item() for loss in gate(x)[2:]] == pytest.approx([1.0, math.log(4) ** 2])
    assert torch.equal(histogram(chosen.flatten(), 4), torch.bincount(chosen.flatten(), minlength=4))


def test_the_bias_evens_the_load_and_is_in_no_weight() -> None:
    gate, x = Gate(8, 4, 1), torch.randn(400, 8)
    gate.weight.data = torch.randn(4, 8) / 8
    gate.weight.data[0] = x.mean(0) * 20  # a popular expert
    first, *_ = gate(x)
    for _ in range(60):
        gate.move_bias(histogram(gate(x)[0].flatten(), 4), 0.01)
    chosen, weights, *_ = gate(x)
    assert histogram(chosen.flatten(), 4).max() < 130 < histogram(first.flatten(), 4).max()
    assert torch.equal(weights, torch.ones(400, 1))
    gate.top_k = 2
    chosen, weights, *_ = gate(x)
    score = (x @ gate.weight.T).softmax(-1).gather(1, chosen)
    assert torch.allclose(weights, score / score.sum(1, keepdim=True))


@pytest.mark.parametrize("counts", [[3, 0, 5, 8], [16, 0, 0, 0], [0, 0, 0, 16]])
def test_the_grouped_kernel_is_a_product_for_each_expert(counts: list[int]) -> None:
    if not hasattr(torch.nn.functional, "grouped_mm"):
        pytest.skip("needs a PyTorch with grouped kernels for CPUs")
    rows, weights = torch.randn(16, 32).bfloat16(), torch.randn(4, 32, 24).bfloat16()
    groups = RowGroups(counts, rows.device)
    assert torch.allclose(
        grouped_matmul_kernel(rows, weights, groups), grouped_matmul(rows, weights, groups), atol=0.1, rtol=0.02
    )


@pytest.mark.parametrize("stages", range(1, 7))
def test_a_pipeline_is_cut_evenly_and_loses_no_layer(stages: int) -> None:
    parts = [stage_layers(4, stages, stage) for stage in range(stages)]
    assert [name for part in parts for name in part] == ["embed", "0", "1", "2", "3", "lm_head"]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def event(name: str, parent: Any = None, number: int = -1, kernels: tuple[str, ...] = (), us: float = 1.0) -> Any:
    return SimpleNamespace(
        name=name,
        cpu_parent=parent,
        sequence_nr=number,
        kernels=[SimpleNamespace(name=k, duration=us) for k in kernels],
        device_type=SimpleNamespace(name="CPU"),
        time_range=SimpleNamespace(elapsed_us=lambda: us),
        self_cpu_time_total=us,
    )


def test_a_backward_in_a_thread_of_its_own_stands_in_the_range_of_its_forward() -> None:
    step = event("elapsed")
    forward = event("forward", step)
    layer = event("layer.3", forward)
    attention = event("attention", layer)
    mm = event("aten::mm", attention, number=7, kernels=("gemm",), us=5.0)
    engine = event("autograd::engine::evaluate_function: MmBackward0", number=7)
    node = event("MmBackward0", engine, number=7)
    grad = event("aten::mm", node, kernels=("gemm", "Memcpy DtoD", "Memset"), us=3.0)
    other = event("autograd::engine::evaluate_function: AccumulateGrad")
    copy = event("aten::copy_", other, kernels=("copy",))
    events = [step, forward, layer, attention, mm, engine, node, grad, other, copy]
    ranges = ProfileRanges(events, {"elapsed", "forward", "layer.3", "attention"})
    found = ranges.rows(events)
    assert {key: spent for key, spent in found.items() if key[1] != "range"} == {
        ("forward/layer.3/attention", "kernel", "gemm"): [5.0],
        ("backward/layer.3/attention", "kernel", "gemm"): [3.0],
        ("backward/layer.3/attention", "memcpy", "Memcpy DtoD"): [3.0],
        ("backward/layer.3/attention", "memset", "Memset"): [3.0],
        ("backward", "kernel", "copy"): [1.0],
    }
    assert [key[0] for key in found if key[1] == "range"] == [
        "step",
        "forward",
        "forward/layer.3",
        "forward/layer.3/attention",
    ]


def test_masters_follow_adamw_and_keep_changes_that_a_bfloat16_cannot_hold() -> None:
    start = torch.tensor([1.0, -3.14159, 0.001, 7.0])
    (parameter,) = parameters = [torch.nn.Parameter(start.clone())]
    optimizer = MasterAdamW(parameters, lr=1e-4, weight_decay=0.01)
    assert torch.equal(parameter, start.bfloat16())
    value, mean, square = start.double(), torch.zeros(4).double(), torch.zeros(4).double()
    for step in range(1, 101):
        gradient = (torch.tensor([1.0, -2.0, 0.3, 0.0]) + step / 50).bfloat16()
        parameter.grad = gradient.clone()
        optimizer.step()
        mean = 0.9 * mean + 0.1 * gradient.double()
        square = 0.999 * square + 0.001 * gradient.double() ** 2
        change = (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
        value = value * (1 - 1e-4 * 0.01) - 1e-4 * change
        assert torch.allclose(optimizer.masters[0].double(), value, rtol=1e-5, atol=1e-8)
        assert torch.equal(parameter, optimizer.masters[0].bfloat16())
        optimizer.zero_grad(set_to_none=True)
        assert parameter.grad is None
    assert start[0] - 1e-4 == pytest.approx(1, abs=2e-3) and parameter[0] < 0.995  # one change is less than it can hold


def test_parameters_in_bfloat16_train_as_well_as_with_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    losses = {}
    for parameters in ("float32", "bfloat16"):
        options: dict[str, Any] = {"steps": 12, "seed": 3, "dtype": "bfloat16", "scale": 0.5}
        spec = next(load_recipe("moe-layer").specs(**options, parameters=parameters, changes={"bias_rate": "0.01"}))
        with join_process_group(CPU) as here:
            trainer = Trainer(spec, here)
            losses[parameters] = [trainer.step(number).loss for number in range(spec.steps)]
        assert {p.dtype for p in trainer.model.parameters()} == {getattr(torch, parameters)}
        assert {b.dtype for b in trainer.model.buffers()} == {torch.float32}
        assert trainer.model.moe_layers[0].gate.bias.abs().max() > 0.015
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.05)
    assert losses["bfloat16"][-1] < 0.6 * losses["bfloat16"][0]


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_the_shared_expert_is_added_for_all_tokens_and_counted(
    monkeypatch: pytest.MonkeyPatch, activation: str
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    spec = next(
        load_recipe("moe-layer").specs(
            steps=1, seed=0, dtype="float32", scale=0.25, changes={"shared_experts": "2", "activation": activation}
        )
    )
    sizes, x = spec.sizes, torch.randn(2, 5, spec.sizes.model_dim)
    with join_process_group(CPU):
        model = LanguageModel(sizes, "dropless", 0, PhaseClock(CPU), spec.moe)
        (layer,) = model.moe_layers
        both, shared = layer(x), layer.shared
        layer.shared = None
        routed, parameters = layer(x), active_parameters(model)
        layer.shared = shared
    assert shared is not None
    first, hidden = x @ shared.up.weight.T, 2 * sizes.hidden_size
    gated = first.shape[-1] == 2 * hidden
    second = first[..., :hidden].sigmoid() * first[..., :hidden] * first[..., hidden:] if gated else F.gelu(first)
    assert torch.allclose(both - routed, second @ shared.down.weight.T, atol=1e-5)
    assert active_parameters(model) - parameters == (3 if gated else 2) * 2 * sizes.model_dim * sizes.hidden_size
    assert gated == (activation == "swiglu")


def test_transfers_at_the_same_time_are_counted_once() -> None:
    assert covered([]) == 0
    assert covered([(4.0, 5.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.75)]) == 4.0


def test_a_backward_is_timed_between_its_two_ends_and_is_the_same() -> None:
    clock, order = PhaseClock(CPU), list[str]()
    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)

    class Told(PhaseClock):
        def time(self, phase: str) -> Any:
            order.append(phase)
            return clock.time(phase)

    def work(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ b)

    (work(a) ** 2).sum().backward()
    wanted = a.grad, b.grad
    a.grad = b.grad = None
    y = timed_backward(work, a, Told(CPU), "back")
    assert order == []
    (y**2).sum().backward()
    assert order == ["back"]
    assert list(clock.read()) == ["back"]
    assert wanted[0] is not None and wanted[1] is not None
    assert torch.equal(a.grad, wanted[0]) and torch.equal(b.grad, wanted[1])


@pytest.mark.parametrize(("dtype", "activation"), [("float32", "gelu"), ("bfloat16", "swiglu")])
def test_plain_products_have_the_shapes_of_the_experts_and_all_their_work(
    monkeypatch: pytest.MonkeyPatch, dtype: str, activation: str
) -> None:
    """Of a rank's balanced experts: twice two products forward, and the gradients of rows and matrices of both."""
    monkeypatch.delenv("RANK", raising=False)
    changes = {"activation": activation}
    spec = next(load_recipe("moe-layer").specs(steps=1, seed=0, dtype=dtype, scale=0.25, changes=changes))
    assert spec.plain
    seen: list[tuple[int, ...]] = []
    product = torch.mm

    def counted(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        assert a.dtype == b.dtype == out.dtype == getattr(torch, dtype)
        seen.append((*a.shape, b.shape[1]))
        product(a, b, out=out)

    monkeypatch.setattr(torch, "mm", counted)
    with join_process_group(CPU) as here:
        plain = measure_matmuls(spec, here)
    n, d, h, experts = plain.rows, spec.sizes.model_dim, spec.sizes.hidden_size, spec.sizes.experts_per_rank
    assert (plain.experts, n * experts) == (experts, spec.sizes.tokens * spec.sizes.top_k)
    u = {2: h, 3: 2 * h}[plain.matrices]  # with a gate gemm1 is twice as wide
    once = [(n, d, u), (n, h, d), (n, d, h), (h, n, d), (n, u, d), (d, n, u)]
    assert seen == [shape for shape in once for _ in range(experts)] * (plain.tries + plain.warmup)
    assert sum(2 * a * b * c for a, b, c in once) * experts == 6 * plain.matrices * n * experts * d * h
    assert plain.matrices == {"gelu": 2, "swiglu": 3}[activation]
    assert TRIES[0] <= plain.tries <= TRIES[1]
    assert set(plain.seconds) == {"plain_gemm1", "plain_gemm2", "plain_backward"}
    assert min(plain.seconds.values()) > 0
