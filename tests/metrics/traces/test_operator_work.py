"""Formulas of operators: FLOPs against torch.utils.flop_counter on shapes that the profiler recorded, bytes by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.metrics.traces.input_shapes import shapes_text
from perflog.metrics.traces.operators import operator_work
from perflog.metrics.traces.operators.operator_work import (
    CLASSES,
    Work,
    _bind,
    class_of,
    operator_formulas,
    takes_values,
    work_of,
)

torch = pytest.importorskip("torch")
aten = torch.ops.aten
BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn

Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A call of an operator. `factor`: our FLOPs / those of flop_counter, where it counts by another convention."""

    operator: str
    run: Run
    factor: Fraction = Fraction(1)


def on_meta(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.empty(shape, device="meta", dtype=dtype)


def product(name: str, *shapes: tuple[int, ...], dtype: Any = BF16) -> Case:
    return Case(f"aten::{name}", lambda: getattr(aten, name)(*(on_meta(*shape, dtype=dtype) for shape in shapes)))


def convolution(  # noqa: PLR0913 (those of the operator)
    x: tuple[int, ...], w: tuple[int, ...], stride: int = 1, padding: int = 0, dilation: int = 1,
    transposed: bool = False, more: int = 0, groups: int = 1, bias: bool = False,
) -> Case:  # fmt: skip
    n = len(x) - 2
    numbers: tuple[Any, ...] = ([stride] * n, [padding] * n, [dilation] * n, transposed, [more] * n, groups)
    outputs = w[1] * groups if transposed else w[0]
    return Case(
        "aten::convolution",
        lambda: aten.convolution(on_meta(*x), on_meta(*w), on_meta(outputs) if bias else None, *numbers),
    )


def convolution_backward(
    x: tuple[int, ...], w: tuple[int, ...], stride: int = 1, padding: int = 0, transposed: bool = False,
    groups: int = 1, mask: tuple[bool, bool, bool] = (True, True, False),
) -> Case:  # fmt: skip
    n = len(x) - 2
    numbers: tuple[Any, ...] = ([stride] * n, [padding] * n, [1] * n, transposed, [0] * n, groups)

    def run() -> Any:
        y = aten.convolution(on_meta(*x), on_meta(*w), None, *numbers)
        return aten.convolution_backward(
            on_meta(*y.shape), on_meta(*x), on_meta(*w), [y.shape[1]], *numbers, list(mask)
        )

    # flop_counter counts the gradient of the weights as if there were one group.
    counted = mask[0] + groups * mask[1]
    return Case("aten::convolution_backward", run, Fraction(mask[0] + mask[1], counted))


def attention(
    kind: str, q: tuple[int, ...], k: tuple[int, ...], causal: bool = False, value: int | None = None
) -> Case:
    shapes = (q, k, (*k[:3], value or k[3]))
    extra: tuple[Any, ...] = (0.0, causal) if kind == "flash" else (None, True, 0.0, causal)
    name = f"_scaled_dot_product_{kind}_attention"
    return Case(
        f"aten::{name}",
        lambda: getattr(aten, name)(*(on_meta(*shape, dtype=BF16) for shape in shapes), *extra),
        Fraction(1, 2) if causal else Fraction(1),
    )


def attention_backward(kind: str, q: tuple[int, ...], k: tuple[int, ...], causal: bool = False) -> Case:
    b, h, n, _ = q
    name = f"_scaled_dot_product_{kind}_attention_backward"

    def run() -> Any:
        grad, query, out = (on_meta(*q, dtype=BF16) for _ in range(3))
        key, value = (on_meta(*k, dtype=BF16) for _ in range(2))
        sums, seed = on_meta(b, h, n), on_meta(1, dtype=torch.int64)
        if kind == "flash":
            more: tuple[Any, ...] = (None, None, n, k[2], 0.0, causal, seed, seed)
            return getattr(aten, name)(grad, query, key, value, out, sums, *more)
        if kind == "cudnn":
            more = (seed, seed, None, None, None, n, k[2], 0.0, causal)
            return getattr(aten, name)(grad, query, key, value, out, sums, *more)
        more = (seed, seed, 0.0, [True, True, True, False], causal)
        return getattr(aten, name)(grad, query, key, value, None, out, sums, *more)

    return Case(f"aten::{name}", run, Fraction(1, 2) if causal else Fraction(1))


def in_positions_first(name: str, b: int, h: int, n: int, d: int, causal: bool) -> Case:
    """The operators inside: their second axis is that of the positions, which flop_counter takes for the heads."""

    def run() -> Any:
        tensors = [on_meta(b, n, h, d, dtype=BF16) for _ in range(3)]
        if name == "_flash_attention_forward":
            return aten._flash_attention_forward(*tensors, None, None, n, n, 0.0, causal, False)
        return aten._efficient_attention_forward(*tensors, None, None, None, None, None, 0.0, int(causal), True)

    return Case(f"aten::{name}", run, Fraction(n, h) / (2 if causal else 1))


def layer_norm_backward(weight: Any, mask: list[bool]) -> Case:
    def run() -> Any:
        x, statistic = on_meta(10, 4), on_meta(10, 1)
        return aten.native_layer_norm_backward(x, x, [4], statistic, statistic, weight, weight, mask)

    return Case("aten::native_layer_norm_backward", run)


GROUPED = (2, 12, 64, 32), (2, 4, 64, 32)
CASES = [
    product("mm", (3, 5), (5, 7)), product("mm", (4096, 1), (1, 4096)), product("mm", (8, 0), (0, 4)),
    product("mm", (3, 5), (5, 7), dtype=torch.float64),
    product("addmm", (7,), (3, 5), (5, 7)), product("addmm", (3, 7), (3, 5), (5, 7)),
    product("bmm", (2, 3, 5), (2, 5, 7)), product("bmm", (16, 128, 64), (16, 64, 128)),
    product("baddbmm", (2, 3, 7), (2, 3, 5), (2, 5, 7)), product("baddbmm", (1, 1, 7), (2, 3, 5), (2, 5, 7)),
    Case("aten::addmm", lambda: torch.nn.functional.linear(on_meta(4, 6, 8), on_meta(5, 8), on_meta(5))),
    Case("aten::mm", lambda: torch.nn.functional.linear(on_meta(4, 8), on_meta(5, 8))),
    Case("aten::mm", lambda: on_meta(9, 6, 8) @ on_meta(8, 5)),
    Case("aten::bmm", lambda: on_meta(2, 3, 6, 8) @ on_meta(2, 3, 8, 5)),
    Case("aten::_scaled_mm", lambda: aten._scaled_mm(
        on_meta(32, 64, dtype=FP8), on_meta(48, 64, dtype=FP8).t(), on_meta(), on_meta(), None, None, BF16)),
    convolution((2, 6, 20), (9, 6, 3)), convolution((2, 6, 20), (9, 6, 3), 2, 1, bias=True),
    convolution((2, 6, 10, 12), (9, 6, 3, 3)), convolution((2, 6, 10, 12), (9, 6, 3, 5), 2, 1),
    convolution((2, 6, 10, 12), (9, 2, 3, 3), padding=1, groups=3),
    convolution((2, 6, 10, 12), (6, 1, 3, 3), padding=1, groups=6),
    convolution((2, 6, 10, 12), (9, 6, 3, 3), 1, 2, 2),
    convolution((2, 3, 8, 10, 12), (4, 3, 3, 3, 3), 2, 1), convolution((1, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    convolution((2, 6, 20), (6, 9, 3), 2, 1, transposed=True),
    convolution((2, 6, 10, 12), (6, 9, 3, 3), 2, 1, transposed=True, more=1),
    convolution((2, 6, 10, 12), (6, 3, 4, 4), 2, 1, transposed=True, groups=3),
    convolution((2, 6, 4, 5, 6), (6, 4, 3, 3, 3), 2, transposed=True),
    convolution_backward((2, 6, 20), (9, 6, 3)), convolution_backward((2, 6, 10, 12), (9, 6, 3, 3), 2, 1),
    convolution_backward((2, 6, 10, 12), (9, 6, 3, 3), mask=(True, False, True)),
    convolution_backward((2, 6, 10, 12), (9, 6, 3, 3), mask=(False, True, True)),
    convolution_backward((2, 6, 10, 12), (9, 2, 3, 3), 1, 1, groups=3),
    convolution_backward((2, 6, 10, 12), (6, 9, 3, 3), 2, 1, transposed=True),
    convolution_backward((2, 6, 10, 12), (6, 3, 3, 3), 2, 1, transposed=True, groups=3),
    convolution_backward((2, 3, 8, 10, 12), (4, 3, 3, 3, 3), 2, 1),
    *(attention(kind, (2, 8, 64, 32), (2, 8, 64, 32)) for kind in ("flash", "efficient", "cudnn")),
    *(attention(kind, (2, 8, 64, 32), (2, 8, 96, 32)) for kind in ("flash", "efficient", "cudnn")),
    *(attention(kind, (2, 8, 64, 32), (2, 8, 64, 32), True) for kind in ("flash", "efficient", "cudnn")),
    *(attention(kind, *GROUPED) for kind in ("flash", "efficient", "cudnn")),
    attention("efficient", (2, 8, 64, 32), (2, 8, 64, 32), value=48),
    *(attention_backward(kind, (2, 8, 64, 32), (2, 8, 64, 32)) for kind in ("flash", "efficient", "cudnn")),
    *(attention_backward(kind, (2, 8, 64, 32), (2, 8, 64, 32), True) for kind in ("flash", "efficient", "cudnn")),
    *(attention_backward(kind, *GROUPED) for kind in ("flash", "cudnn")),
    in_positions_first("_flash_attention_forward", 2, 8, 64, 32, False),
    in_positions_first("_flash_attention_forward", 2, 8, 64, 32, True),
    in_positions_first("_efficient_attention_forward", 2, 8, 64, 32, False),
]  # fmt: skip


F32, INT8 = torch.float32, torch.int8
# flop_counter counts no FLOPs of these, or does not know their arguments.
MORE_BYTES = [
    Case("aten::mm", lambda: aten.mm(on_meta(3, 5).t(), on_meta(7, 3).t())),
    Case("aten::mm", lambda: aten.mm(on_meta(3, 5, dtype=BF16), on_meta(5, 7, dtype=BF16), F32)),
    Case("aten::bmm", lambda: aten.bmm(on_meta(2, 3, 5, dtype=BF16), on_meta(2, 5, 7, dtype=BF16), F32)),
    Case("aten::_int_mm", lambda: aten._int_mm(on_meta(32, 64, dtype=INT8), on_meta(64, 32, dtype=INT8))),
    Case("aten::addmm", lambda: aten.addmm(on_meta(7), on_meta(3, 5, dtype=BF16), on_meta(5, 7, dtype=BF16), F32)),
    Case("aten::addbmm", lambda: aten.addbmm(on_meta(3, 7), on_meta(2, 3, 5), on_meta(2, 5, 7))),
    Case("aten::mv", lambda: aten.mv(on_meta(3, 5), on_meta(5))),
    Case("aten::addmv", lambda: aten.addmv(on_meta(3), on_meta(3, 5), on_meta(5))),
    Case("aten::_scaled_mm", lambda: aten._scaled_mm(
        on_meta(32, 64, dtype=FP8), on_meta(48, 64, dtype=FP8).t(), on_meta(), on_meta(), None, None, BF16)),
    Case("aten::_grouped_mm", lambda: aten._grouped_mm(
        on_meta(32, 64, dtype=BF16), on_meta(3, 64, 48, dtype=BF16), on_meta(3, dtype=torch.int32))),
    Case("aten::_scaled_grouped_mm", lambda: aten._scaled_grouped_mm(
        on_meta(32, 64, dtype=FP8), on_meta(3, 48, 64, dtype=FP8).transpose(1, 2), on_meta(32), on_meta(3, 48),
        on_meta(3, dtype=torch.int32))),
    Case("aten::add", lambda: aten.add(on_meta(4, 1), on_meta(3))),
    Case("aten::add_", lambda: aten.add_(on_meta(4, 3), on_meta(3))),
    Case("aten::addcmul", lambda: aten.addcmul(on_meta(4, 3), on_meta(4, 1), on_meta(3))),
    Case("aten::pow", lambda: aten.pow(on_meta(1), on_meta(1000))),
    Case("aten::pow", lambda: aten.pow(2.0, on_meta(1000))),
    Case("aten::pow", lambda: aten.pow(on_meta(1000), 3)),
    Case("aten::clamp", lambda: aten.clamp(on_meta(1000), on_meta(1000), on_meta(1000))),
    Case("aten::clamp", lambda: aten.clamp(on_meta(1000), 0, 1)),
    Case("aten::exp", lambda: aten.exp(on_meta(10).contiguous())),
    Case("aten::elu_backward", lambda: aten.elu_backward(on_meta(10), 1, 1, 1, False, on_meta(10))),
    Case("aten::gelu_backward", lambda: aten.gelu_backward(on_meta(10), on_meta(10))),
    Case("aten::native_dropout", lambda: aten.native_dropout(on_meta(10), 0.5, True)),
    Case("aten::_softmax", lambda: aten._softmax(on_meta(10, 4, dtype=BF16), -1, False)),
    Case("aten::_softmax_backward_data", lambda: aten._softmax_backward_data(on_meta(10, 4), on_meta(10, 4), -1, F32)),
    Case("aten::native_layer_norm", lambda: aten.native_layer_norm(on_meta(10, 4), [4], on_meta(4), None, 1e-5)),
    Case("aten::native_layer_norm", lambda: aten.native_layer_norm(on_meta(10, 4, 6), [4, 6], None, None, 1e-5)),
    *(layer_norm_backward(*each) for each in ((None, [True, False, False]), (on_meta(4), [True, True, True]))),
    Case("aten::native_group_norm", lambda: aten.native_group_norm(
        on_meta(2, 6, 5), on_meta(6), on_meta(6), 2, 6, 5, 3, 1e-5)),
    Case("aten::native_batch_norm", lambda: aten.native_batch_norm(
        on_meta(2, 6, 5), on_meta(6), on_meta(6), None, None, True, 0.1, 1e-5)),
    Case("aten::native_batch_norm", lambda: aten.native_batch_norm(
        on_meta(2, 6, 5), None, None, None, None, True, 0.1, 1e-5)),
    Case("aten::_scaled_dot_product_flash_attention_for_cpu", lambda: (
        aten._scaled_dot_product_flash_attention_for_cpu(
            *(torch.zeros(2, 8, 64, 32) for _ in range(3)), attn_mask=torch.zeros(2, 8, 64, 64)))),
]  # fmt: skip


def least_bytes(case: Case) -> int:
    """Bytes of the distinct elements of all inputs and of all outputs of the operator."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    found: dict[str, int] = {}

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            inputs, outputs = ([t for t in tree_leaves(each) if isinstance(t, torch.Tensor)]
                               for each in ((args, kwargs), made))  # fmt: skip
            distinct = (
                t.element_size() * math.prod(n if s else min(n, 1) for n, s in zip(t.shape, t.stride(), strict=True))
                for t in inputs
            )
            found[str(func._overloadpacket)] = sum(distinct) + sum(t.numel() * t.element_size() for t in outputs)
            return made

    with Recorder():
        case.run()
    return found[case.operator.replace("::", ".")]


SEEDS = 32  # bytes of random states and of a bias that is not read, which no formula counts


def counted(case: Case) -> int:
    """FLOPs of the operator by PyTorch."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        case.run()
    of_operators = counter.get_flop_counts()["Global"]
    return next(int(n) for packet, n in of_operators.items() if str(packet) == case.operator.replace("::", "."))


@cache
def recorded() -> dict[int, dict[str, list[Any]]]:
    """The inputs of each operator of each case, as PyTorch's profiler prints them."""
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        for place, case in enumerate([*CASES, *MORE_BYTES]):
            with record_function(f"case {place}"):
                case.run()
    path = Path(__file__).with_suffix(".json.tmp")
    try:
        profiled.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    finally:
        path.unlink(missing_ok=True)
    found: dict[int, dict[str, list[Any]]] = {}
    ranges = [(e["name"], e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "user_annotation"]
    for name, start, end in ranges:
        inside = [e for e in events if e.get("cat") == "cpu_op" and start <= e["ts"] < end]
        found[int(name.split()[1])] = {
            event["name"]: [
                json.dumps(event["args"].get(key))
                for key in ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
            ]
            for event in inside
        }
    return found


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 50
    assert len({case.operator for case in CASES}) >= 14


@pytest.mark.parametrize("place", range(len(CASES)), ids=[f"{c.operator}-{i}" for i, c in enumerate(CASES)])
def test_flops_are_those_of_pytorch(place: int) -> None:
    case = CASES[place]
    work = work_of(case.operator, *recorded()[place][case.operator])
    assert work.flop == counted(case) * case.factor
    assert work.bytes is not None and 0 <= least_bytes(case) - work.bytes <= SEEDS


@pytest.mark.parametrize("place", range(len(MORE_BYTES)), ids=[f"{c.operator}-{i}" for i, c in enumerate(MORE_BYTES)])
def test_bytes_are_those_of_inputs_and_outputs(place: int) -> None:
    case = MORE_BYTES[place]
    work = work_of(case.operator, *recorded()[len(CASES) + place][case.operator])
    assert work.bytes is not None and 0 <= least_bytes(case) - work.bytes <= SEEDS


@pytest.mark.parametrize("beta", ["0", "0.", "0.0"])
@pytest.mark.parametrize(
    ("operator", "shapes", "out"),
    [("addmm", ([7], [3, 5], [5, 7]), 21), ("baddbmm", ([2, 3, 7], [2, 3, 5], [2, 5, 7]), 42),
     ("addbmm", ([3, 7], [2, 3, 5], [2, 5, 7]), 21), ("addmv", ([3], [3, 5], [5]), 3)],
)  # fmt: skip
def test_with_beta_0_the_first_input_is_not_read(
    operator: str, shapes: tuple[list[int], ...], out: int, beta: str
) -> None:
    types = json.dumps(["float", *["c10::BFloat16"] * 2, "Scalar", "Scalar"])
    texts = [json.dumps(["", "", "", number, "1"]) for number in (beta, "2.")]
    without, with_input = (work_of(f"aten::{operator}", json.dumps([*shapes, [], []]), types, None, t) for t in texts)
    read = 2 * sum(map(math.prod, shapes[1:]))
    assert (without.bytes, without.type) == (read + 2 * out, "bfloat16")
    assert (with_input.bytes, with_input.type) == (read + 2 * out + 4 * math.prod(shapes[0]), "bfloat16")
    assert without.flop == with_input.flop is not None


@pytest.mark.parametrize(
    ("causal", "left", "right", "known"),
    [("False", -1, -1, True), ("True", -1, -1, True), ("True", -1, 0, True), ("False", -1, 128, False),
     ("False", -1, 0, False), ("True", 128, 0, False), ("False", 128, -1, False)],
)  # fmt: skip
def test_attention_with_a_window_has_unknown_work(causal: str, left: int, right: int, known: bool) -> None:
    window = [causal, str(left), str(right), "0."]
    q, types = [2, 64, 8, 32], ["c10::Half"] * 3
    forward = work_of("flash_attn::_flash_attn_forward", json.dumps([q] * 3), json.dumps(types), None,
                      json.dumps(["", "", "", "0.", "0.1", *window]))  # fmt: skip
    backward = work_of("flash_attn::_flash_attn_backward", json.dumps([*[q] * 5, [2, 8, 64]]),
                       json.dumps([*["c10::Half"] * 5, "float"]), None, json.dumps([""] * 11 + window))  # fmt: skip
    assert (forward.flop is not None, backward.flop is not None) == (known, known)


def test_complex_products_are_unknown() -> None:
    assert work_of("aten::mm", "[[2, 3], [3, 4]]", '["c10::complex<float>", "c10::complex<float>"]', None, None) == (
        None, 8 * (6 + 12 + 8), "complex<float>")  # fmt: skip


def grouped(a: list[int], b: list[int]) -> Work:
    values = '["", "", "", "", ""]'
    return work_of("aten::_grouped_mm", json.dumps([a, b, [3], [], []]),
                   '["c10::BFloat16", "c10::BFloat16", "int", "", ""]', None, values)  # fmt: skip


def test_grouped_products_are_the_sum_of_their_products() -> None:
    """flop_counter has no formula: the products of the groups one by one, for groups of 4, 0 and 8 rows."""
    rows = [4, 0, 8]
    of_rows = sum(2 * n * 16 * 8 for n in rows)
    assert grouped([12, 16], [3, 16, 8])[:2] == (of_rows, 2 * (12 * 16 + 3 * 16 * 8 + 12 * 8) + 3 * 4)
    assert grouped([16, 12], [12, 8])[:2] == (of_rows, 2 * (16 * 12 + 12 * 8 + 3 * 16 * 8) + 3 * 4)
    assert grouped([3, 5, 16], [16, 12])[:2] == (2 * 5 * 16 * 12, 2 * (3 * 5 * 16 + 16 * 12 + 5 * 12) + 3 * 4)
    assert grouped([3, 5, 16], [3, 16, 8])[:2] == (2 * 3 * 5 * 16 * 8, 2 * (3 * 5 * 16 + 3 * 16 * 8 + 3 * 5 * 8))


FLOATS = '["float", "float", "float", "", ""]'


@pytest.mark.parametrize(
    ("operator", "inputs", "flop", "size"),
    [
        ("aten::mm", ("[[2, 3], [3, 4]]", FLOATS, None, None), 48, 4 * (6 + 12 + 8)),
        ("aten::mm", ("[[2, 3], [3, 4]]", '["c10::BFloat16", "c10::BFloat16"]', None, None), 48, 2 * (6 + 12 + 8)),
        ("aten::mm", ("[[2, 3], [3, 4]]", None, None, None), 48, None),  # types of 2021 are not recorded
        ("aten::mm", ("[[2, 3], [3, 4]]", FLOATS, "[[0, 1], [4, 1]]", None), 48, 4 * (3 + 12 + 8)),  # expanded
        ("aten::mm", ("[[2, 3], [3, 4], [2, 4]]", FLOATS, None, None), 48, 4 * (6 + 12 + 8)),  # out=
        ("aten::mm", ("[[2, 3], [4, 4]]", FLOATS, None, None), None, None),  # no product
        ("aten::mm", ("[[2, 3]]", FLOATS, None, None), None, None),
        ("aten::mm", (None, FLOATS, None, None), None, None),
        ("aten::linear", ("[[2, 5, 3], [4, 3], []]", '["float", "float", ""]', None, None), 240, 4 * (30 + 12 + 40)),
        ("aten::unheard_of", ("[[2, 3], [3, 4]]", FLOATS, None, None), None, None),
        ("aten::add", ("[[4, 1], [3], []]", '["float", "float", "Scalar"]', None, None), 12, 4 * (4 + 3 + 12)),
        ("aten::add", ("[[4, 1], [3], []]", '["float", "c10::Half", "Scalar"]', None, None), 12, None),
        ("aten::add", ("[[4], []]", '["long int", "Scalar"]', None, None), None, None),
        ("aten::mul", ("[[], [4, 4]]", '["double", "float"]', None, None), 16, 8 + 4 * 32),
        ("aten::copy_", ("[[3, 5], [3, 5], []]", '["c10::Half", "float", "Scalar"]', "[[5, 1], [0, 1], []]", None),
         0, 4 * 5 + 2 * 15),
        ("aten::native_layer_norm", ("[[4, 8], [], [8], [8], []]",
         '["float", "ScalarList", "float", "float", "Scalar"]', None, None), 160, 4 * (32 + 8 + 8 + 32 + 4 + 4)),
        ("aten::native_layer_norm", ("[[4, 8], [], [], [], []]", '["float", "ScalarList", "", "", "Scalar"]', None,
         '["", "[8]", "", "", "1e-05"]'), 128, 4 * (32 + 32 + 4 + 4)),
        ("aten::native_layer_norm_backward", ("[[4, 8], [4, 8], [], [4, 1], [4, 1], [8], [8], []]",
         '["float", "float", "", "float", "float", "float", "float", ""]', None,
         '["", "", "[8]", "", "", "", "", "[True, False, True]"]'), None, 4 * (32 + 32 + 4 + 4 + 8 + 32 + 8)),
        ("aten::_softmax", ("[[3, 4], [], []]", '["c10::Half", "Scalar", "Scalar"]', None, '["", "-1", "True"]'),
         None, 2 * 12 + 4 * 12),
        ("aten::native_batch_norm", ("[[2, 6, 5], [6], [6], [6], [6], [], [], []]",
         '["float", "float", "float", "float", "float", "Scalar", "Scalar", "Scalar"]', None,
         '["", "", "", "", "", "True", "0.1", "1e-05"]'),
         300, 4 * (60 + 24 + 60 + 12 + 12)),
        ("aten::native_dropout", ("[[8], [], []]", '["c10::BFloat16", "Scalar", "Scalar"]', None, None), None, 40),
        ("c10d::alltoall_base_", ("[[6], [4], [], []]", '["long", "long", "", ""]', None, None), None, 80),
        ("_c10d_functional::all_gather_into_tensor", ("[[6], [], []]", '["c10::BFloat16", "Scalar", ""]', None,
         '["", "4", "0"]'), None, 12 + 48),
        ("aten::_scaled_dot_product_flash_attention", ("[[1, 2, 8, 4], [1, 2, 9, 4], [1, 2, 9, 4], [], []]",
         '["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar"]', None, '["", "", "", "0.", "True"]'),
         None, None),
        ("aten::_scaled_dot_product_flash_attention", ("[[1, 2, 8, 4], [1, 2, 8, 4], [1, 2, 8, 4], [], []]",
         '["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar"]', None, None), None, None),
        ("aten::_flash_attention_forward", ("[[16, 2, 4], [16, 2, 4], [16, 2, 4], [3], [3]]",
         '["c10::Half", "c10::Half", "c10::Half", "int", "int"]', None,
         '["", "", "", "", "", "8", "8", "0.", "False"]'), None, None),  # several sequences in one tensor
        ("aten::convolution", ("[[2, 6, 2, 2], [9, 6, 5, 5], [], [], [], [], [], [], []]", '["float", "float"]', None,
         '["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]'), None, None),  # smaller than the filter
        ("aten::convolution", ("[[2, 6, 8, 8], [9, 6, 3, 3], []]", '["float", "float", ""]', None, None), None, None),
    ],
)  # fmt: skip
def test_work_by_hand(operator: str, inputs: tuple[Any, ...], flop: float | None, size: float | None) -> None:
    work = work_of(operator, *inputs)
    assert (work.flop, work.bytes) == (flop, size)


ODD: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just("float")),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(sorted(operator_formulas())), st.lists(ODD, min_size=4, max_size=4))
def test_odd_inputs_are_unknown_and_no_error(operator: str, inputs: list[Any]) -> None:
    work = work_of(operator, *(json.dumps(value) for value in inputs))
    for number in work[:2]:
        assert number is None or (math.isfinite(number) and number >= 0)
    shapes_text(json.dumps(inputs[0]))


@given(st.lists(st.text(max_size=20), min_size=4, max_size=4))
def test_texts_that_are_no_json(texts: list[str]) -> None:
    assert work_of("aten::mm", *texts).flop in (None, 0)


def test_each_formula_says_where_it_is_from() -> None:
    for name, formulas in operator_formulas().items():
        assert "::" in name
        assert class_of(name) in CLASSES
        for formula in formulas:
            assert formula.source
            assert formula.flop or formula.bytes


def test_each_name_of_a_formula_is_known() -> None:
    """A misspelt name would make the work unknown for ever."""
    for name, formulas in operator_formulas().items():
        for formula in formulas:
            known = {"read", "out", "item", *formula.types}
            known |= {f"{size}{place}" for size in ("n", "size", "item") for place in range(len(formula.inputs))}
            known |= {word.strip("*?") for pattern in formula.inputs for word in pattern.split()}
            known |= {value.strip("*") + digit for value in formula.values for digit in ("", "0", "1", "2")}
            expressions = [formula.flop, formula.bytes, *(each for pair in formula.equal for each in pair)]
            for expression in filter(None, expressions):
                assert set(expression.names) <= known, (name, expression.text)


def test_only_some_operators_need_values() -> None:
    assert takes_values("aten::convolution")
    assert not takes_values("aten::relu")
    assert not takes_values("aten::unheard_of")


def schemas(name: str) -> list[Any]:
    """The schemas of an operator of ATen that this PyTorch has, without those that write into an argument `out`."""
    space, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, space), operator, None) if space == "aten" else None
    return [getattr(packet, each)._schema for each in packet.overloads()] if packet is not None else []


def test_patterns_stand_at_tensors() -> None:
    checked = 0
    for name, formulas in operator_formulas().items():
        for formula in formulas if (overloads := schemas(name)) else ():
            for place in (place for place, pattern in enumerate(formula.inputs) if pattern != "-"):
                kinds = {str(s.arguments[place].type) for s in overloads if place < len(s.arguments)}
                assert any("Tensor" in kind for kind in kinds), (name, place, kinds)
                checked += 1
    assert checked > 200


def test_values_are_taken_from_their_arguments() -> None:
    """The places of the table against the schemas of PyTorch."""
    meant = {
        "stride": {"stride"}, "padding": {"padding"}, "dilation": {"dilation"}, "transposed": {"transposed"},
        "more": {"output_padding"}, "groups": {"groups", "group"}, "mask": {"output_mask", "custom_mask_type"},
        "causal": {"is_causal"}, "sums": {"compute_log_sumexp", "compute_logsumexp"}, "trains": {"training"},
        "w": {"normalized_shape"}, "widened": {"half_to_float"}, "made": {"out_dtype", "input_dtype"},
        "alpha": {"alpha"}, "beta": {"beta"},
    }  # fmt: skip
    checked = 0
    for name, formulas in operator_formulas().items():
        names = [[argument.name for argument in schema.arguments] for schema in schemas(name)]
        for formula in formulas if names else ():
            places = {**formula.values, **formula.types}
            right = [
                all(arguments[place] in meant[value.strip("*")] for value, place in places.items())
                for arguments in names
                if max(places.values(), default=-1) < len(arguments)
            ]
            assert any(right), (name, names)
            checked += 1
    assert checked > 50


@pytest.mark.parametrize(
    ("names", "shape", "known", "fits"),
    [
        (["a", "b"], [2, 3], {"a": 2, "b": 3}, True),
        (["a", "a"], [2, 3], {}, False),
        (["a"], [2, 3], {}, False),
        (["a", "b"], [2], {}, False),
        (["*n", "k"], [5, 6, 7], {"k": 7}, True),
        (["*n", "k"], [5, 6, 8], {}, False),  # `k` is known already
        (["*n", "k", "m"], [7, 9], {"k": 7, "m": 9}, True),
    ],
)
def test_sizes_of_a_shape_agree_with_those_that_are_known(
    names: list[str], shape: list[int], known: dict[str, int], fits: bool
) -> None:
    found: dict[str, Any] = {"k": 7}
    assert _bind(names, shape, found) == fits
    assert {name: size for name, size in found.items() if name in known} == known


def test_bytes_of_an_element_by_the_number_of_its_type() -> None:
    """As torch numbers its types; types of fewer than eight bits, and those that no tensor has, are unknown."""
    sizes = [1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, *[None] * 3, 2, *[None] * 7, 1, 1, 1, 1, *[None] * 17, 1]
    assert [operator_work._SCALAR_TYPE_BYTES.get(number) for number in range(len(sizes))] == sizes
    for number, dtype in (
        (2, torch.int16),
        (5, torch.half),
        (9, torch.complex64),
        (15, BF16),
        (25, torch.float8_e5m2fnuz),
    ):
        assert operator_work._SCALAR_TYPE_BYTES[number] == dtype.itemsize


@pytest.mark.parametrize(("sizes", "expected"), [([2, 3], 6), ([2, 0], 0), ([], 1), (4, 4), ([2, -1], None)])
def test_the_product_of_sizes(sizes: Any, expected: int | None) -> None:
    """No element where one of them is 0."""
    if expected is None:
        with pytest.raises(ValueError, match="-1"):
            operator_work._product(sizes)
    else:
        assert operator_work._product(sizes) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [("2.", 2.0), ("3", 3), ("True", 1), ("[1, 2.]", [1, 2.0]), ("[]", []), ('"mean"', None), ('[1, "a"]', None),
     ("null", None), ("{}", None), ("[1, [2]]", None), ("nan?", None), ("", None), (None, None), ("[" * 10**5, None)],
)  # fmt: skip
def test_printed_values_are_numbers_or_lists_of_numbers(text: str | None, value: Any) -> None:
    assert operator_work._value(text) == value
