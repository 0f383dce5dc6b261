"""FLOP conventions against their papers and programs."""

from __future__ import annotations

import pytest

from perflog.errors import UsageError
from perflog.formats.flops import CONVENTIONS, NAMES, convention

WORK = 8192 * 1024 * 4096 * 4 * 3 * 2  # samples, model_dim, hidden_size, two matrices, three passes, top-2


def test_every_need_is_explained_and_every_convention_has_a_source() -> None:
    needs = {name for c in CONVENTIONS.values() for e in (c.flops, c.model) if e for name in e.names}
    assert needs | {"recompute"} == set(NAMES)
    assert all(c.source and c.counts and c.id == id for id, c in CONVENTIONS.items())


@pytest.mark.parametrize(("length", "ratio"), [(4096, 1.075), (32768, 1.39), (131072, 1.72)])
def test_what_a_causal_mask_takes_off_a_model_of_7b(length: int, ratio: float) -> None:
    numbers = {"matmul_parameters": 6.6e9, "layers": 32, "heads": 32, "head_dim": 128, "sequence_length": length}
    numbers |= {"tokens": 1, "world_size": 1}
    full, causal = (convention(id).work(numbers) or 0 for id in ("palm", "palm-causal"))
    assert full / causal == pytest.approx(ratio, abs=0.006)
    assert full > causal > (convention("6N").work(numbers) or 0) == 6 * 6.6e9


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1, 64, 1, 1), (480, 2048, 24, 16, 80, 51200, 96), (7, 131072, 3, 5, 256, 3, 2)]
)
def test_megatron_counts_the_matrix_products_of_a_gpt(sizes: tuple[int, ...]) -> None:
    """Counted here product by product: 2 FLOPs per multiply-add; a backward is two forwards."""
    names = ("global_batch", "sequence_length", "layers", "heads", "head_dim", "vocabulary", "world_size")
    numbers: dict[str, float] = dict(zip(names, sizes, strict=True))
    batch, length, layers = (numbers[k] for k in ("global_batch", "sequence_length", "layers"))
    model = numbers["heads"] * numbers["head_dim"]
    numbers = {**numbers, "model_dim": model, "hidden_size": 4 * model, "query_groups": numbers["heads"]}
    numbers |= {"top_k": 1, "gated": 1}
    tokens = batch * length
    products = 2 * tokens * model * (4 * model + 2 * 4 * model) + 2 * 2 * tokens * length * model
    logits = 2 * tokens * model * numbers["vocabulary"]
    trained = 3 * (layers * products + logits) / numbers["world_size"]
    again = layers * products / numbers["world_size"]
    later, paper = convention("megatron-2024"), convention("megatron-2021")
    assert later.work(numbers) == pytest.approx(trained) == paper.model_work(numbers)
    assert paper.work(numbers) == pytest.approx(trained + again) == paper.executed_work(numbers)
    # the same model by its parameters
    numbers |= {"tokens": tokens, "matmul_parameters": layers * 12 * model**2 + numbers["vocabulary"] * model}
    assert convention("palm").work(numbers) == pytest.approx(trained)


def test_tutel_and_fastmoe_print_what_is_computed() -> None:
    layer = {"samples": 8192, "model_dim": 1024, "hidden_size": 4096, "top_k": 2, "num_local_experts": 8}
    assert convention("tutel").work(layer) == WORK == 824_633_720_832
    assert f"{WORK / 0.046376 / 1e12:.2f}" == "17.78"  # Tutel's own output
    assert convention("tutel-eval").work(layer) == WORK / 3
    assert convention("fastmoe").work(layer) == 2 * (1024 * 4096 * 8192 * 2 * 2 + 8192 * 1024 * 8)
    assert convention("ds-profiler").work({"forward_macs": 5.0}) == 30


def test_what_is_computed_again_must_be_known() -> None:
    numbers = {"matmul_parameters": 10.0, "tokens": 6.0, "world_size": 3.0}
    six = convention("6N")
    assert six.work(numbers) == six.model_work(numbers) == 120
    assert six.executed_work(numbers) is None
    assert six.executed_work({**numbers, "recompute": 0}) == 120
    assert six.executed_work({**numbers, "recompute": 1}) == 160  # a fourth forward on top of three
    assert six.work({"tokens": 6.0}) is None
    assert six.work({**numbers, "world_size": 0}) is None
    assert six.work({**numbers, "tokens": 0}) is None
    assert six.work({**numbers, "tokens": -1}) is None


def test_an_unknown_convention_is_an_error() -> None:
    with pytest.raises(UsageError, match="no FLOP convention `plam`") as caught:
        convention("plam")
    assert caught.value.help == "did you mean `palm`?"


def test_the_times_of_a_convention_are_those_that_its_program_divides_by() -> None:
    times = {row.id: row.time for row in CONVENTIONS.values() if row.time != ("step_time_s",)}
    assert times == {"fastmoe": ("forward_s",), "ds-profiler": ("forward_s", "backward_s")}
    assert {row.id for row in CONVENTIONS.values() if not row.trains} == {"tutel-eval", "fastmoe"}
    forward = {"samples": 1.0, "model_dim": 1.0, "hidden_size": 1.0, "top_k": 1.0, "recompute": 0.0}
    assert convention("tutel-eval").executed_work(forward) is None
