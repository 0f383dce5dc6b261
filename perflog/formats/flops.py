"""FLOP conventions: what programs count as the work of a step. Two rates compare only under the same convention."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from perflog.errors import UsageError, did_you_mean
from perflog.formats.expressions import Expression

NAMES = {
    "world_size": "number of GPUs",
    "tokens": "tokens of a global step, without padding",
    "matmul_parameters": "parameters in matrix multiplications; of experts, those active for a token",
    "layers": "layers",
    "heads": "attention heads",
    "head_dim": "dimension of a head",
    "sequence_length": "tokens of a sequence; of sliding-window attention, the window",
    "global_batch": "sequences of a global step",
    "model_dim": "hidden dimension of the model",
    "hidden_size": "hidden dimension of the MLP, or of an expert",
    "vocabulary": "padded size of the vocabulary",
    "query_groups": "heads of keys and values",
    "gated": "1.5 for a gated MLP (three matrices), else 1",
    "top_k": "experts that a token goes to; 1 without experts",
    "samples": "tokens of one rank",
    "num_local_experts": "experts of one rank",
    "forward_macs": "multiply-adds of one GPU's forward, as measured",
    "recompute": "share of the forward that the backward recomputes: 0 none, 1 all",
}
"""Inputs of the conventions: settings of a run, or quantities that its format declares."""


class Convention(Struct, frozen=True):
    """One way to count the FLOPs of a step.

    Attributes:
        id: Its name in format files.
        flops: FLOPs of one GPU in a step.
        counts: The operations that it counts, in words.
        source: The paper or program that defines it.
        time: The printed times. Their sum divides the FLOPs.
        model: FLOPs of the model alone, where `flops` includes recomputation.
        trains: Whether it counts the backward too.
    """

    id: str
    flops: Expression
    counts: str
    source: str
    time: tuple[str, ...] = ("step_time_s",)
    model: Expression | None = None
    trains: bool = True

    @property
    def needs(self) -> tuple[str, ...]:
        """The names in `NAMES` that it takes numbers of."""
        return self.flops.names

    def work(self, numbers: Mapping[str, float]) -> float | None:
        """Return FLOPs of one GPU in a step; None if a number is missing or the result is not a positive number."""
        return self._value(self.flops, numbers)

    def model_work(self, numbers: Mapping[str, float]) -> float | None:
        """Return FLOPs of the model alone, as MFU counts them."""
        return self._value(self.model or self.flops, numbers)

    def executed_work(self, numbers: Mapping[str, float]) -> float | None:
        """Return FLOPs with recomputation, as HFU counts them; None if the recomputation is unknown."""
        work = self.work(numbers)
        if self.model is not None or work is None:
            return work
        recompute = numbers.get("recompute")
        return work * (3 + recompute) / 3 if self.trains and recompute is not None else None

    def _value(self, flops: Expression, numbers: Mapping[str, float]) -> float | None:
        if any(name not in numbers for name in flops.names):
            return None
        try:
            work = float(flops(numbers))
        except ArithmeticError:
            return None
        return work if 0 < work < math.inf else None


_ROWS = (
    Convention(
        "6N",
        Expression("6 * matmul_parameters * tokens / world_size"),
        "6 FLOPs per parameter and token, no attention scores",
        "Kaplan et al. 2020, arXiv:2001.08361, section 2.1",
    ),
    Convention(
        "palm",
        Expression("(6 * matmul_parameters + 12 * layers * heads * head_dim * sequence_length) * tokens / world_size"),
        "6N and attention scores with the masked half",
        "PaLM, arXiv:2204.02311, appendix B; nanoGPT, torchtitan",
    ),
    Convention(
        "palm-causal",
        Expression("(6 * matmul_parameters + 6 * layers * heads * head_dim * sequence_length) * tokens / world_size"),
        "6N and attention scores without the masked half",
        "llm.c train_gpt2.cu; MaxText since 2025-07",
    ),
    Convention(
        "megatron-2021",
        Expression(
            "96 * global_batch * sequence_length * layers * model_dim**2"
            " * (1 + sequence_length / (6 * model_dim) + vocabulary / (16 * layers * model_dim)) / world_size"
        ),
        "a GPT with full recomputation of its layers: executed FLOPs",
        "Narayanan et al. 2021, arXiv:2104.04473, equation 3; its factor 96 is 24 x (3 + 1)",
        model=Expression(
            "72 * global_batch * sequence_length * layers * model_dim**2"
            " * (1 + sequence_length / (6 * model_dim) + vocabulary / (12 * layers * model_dim)) / world_size"
        ),
    ),
    Convention(
        "megatron-2024",
        Expression(
            "12 * global_batch * sequence_length * layers * model_dim**2"
            " * ((1 + query_groups / heads + sequence_length / model_dim) * heads * head_dim / model_dim"
            " + hidden_size / model_dim * top_k * gated + vocabulary / (2 * layers * model_dim)) / world_size"
        ),
        "a GPT with grouped queries, gated MLP and experts; attention scores with the masked half",
        "NVIDIA Megatron-LM, num_floating_point_operations, before release 25.04",
    ),
    Convention(
        "tutel",
        Expression("4 * samples * model_dim * hidden_size * top_k * 3"),
        "two matrices of each expert that a token goes to, forward and backward; no gate, no padding",
        "microsoft/tutel examples/helloworld.py, training",
    ),
    Convention(
        "tutel-eval",
        Expression("4 * samples * model_dim * hidden_size * top_k"),
        "the same, forward only",
        "microsoft/tutel examples/helloworld.py --eval",
        trains=False,
    ),
    Convention(
        "fastmoe",
        Expression("2 * samples * model_dim * (2 * hidden_size * top_k + num_local_experts)"),
        "experts and gate, forward only",
        "laekov/fastmoe tests/benchmark_mlp.py",
        trains=False,
        time=("forward_s",),
    ),
    Convention(
        "ds-profiler",
        Expression("3 * 2 * forward_macs"),
        "measured multiply-adds of the forward, times 3, over forward and backward without the optimizer",
        "DeepSpeed flops profiler",
        time=("forward_s", "backward_s"),
    ),
)
CONVENTIONS: dict[str, Convention] = {row.id: row for row in _ROWS}
"""All conventions, by id."""


def convention(id: str) -> Convention:
    """Return a convention by id. Raises UsageError that names the nearest one."""
    if id not in CONVENTIONS:
        help = did_you_mean(id, CONVENTIONS, f"there are: {', '.join(CONVENTIONS)}")
        raise UsageError(f"there is no FLOP convention `{id}`", help=help)
    return CONVENTIONS[id]
