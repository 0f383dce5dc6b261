"""Operators of traces by shape: time by plain loops over the JSON, work and roof by hand, nesting, odd arguments."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.field_logs import CORPUS, needs_corpus
from support.nsys_files import STRINGS, call, kernel, write_tables
from support.raw_operators import PRODUCTS, raw_operators

import perflog
from perflog.errors import UsageError
from perflog.metrics import Options, Tables, operator_efficiency
from perflog.metrics.compared import Steady
from perflog.metrics.hardware import bandwidth_tbs
from perflog.metrics.traces.input_shapes import nvtx_operator
from perflog.metrics.traces.operators.operator_efficiency import Operator, _samples, _sum, shares_above_roof
from perflog.metrics.traces.operators.operator_work import operator_formulas

Event = dict[str, Any]
REAL = [CORPUS / "torchtrace" / f"facebookresearch__HolisticTraceAnalysis__sampled_rank-{i}.json.gz" for i in (0, 1)]
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas"


class Trace:
    """A trace in the making: operators, the kernels that they launch, times in us."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._number = 0

    def event(self, cat: str, name: str, start: float, length: float, tid: int = 1, **args: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": tid, "ts": start, "dur": length, "args": args}
        )

    def operator(
        self, name: str, start: float, length: float, dims: Any = None, types: Any = None, tid: int = 1, **more: Any
    ) -> None:
        args = {"Input Dims": dims, "Input type": types, "Input Strides": more.get("strides")}
        args |= {"Concrete Inputs": more.get("values")}
        self.event("cpu_op", name, start, length, tid, **{key: arg for key, arg in args.items() if arg is not None})

    def kernel(self, at: float, length: float, name: str = GEMM, tid: int = 1) -> None:
        """A kernel of this length that a call at this time launches."""
        self._number += 1
        self.event("cuda_runtime", "cudaLaunchKernel", at, 1, tid, correlation=self._number)
        self.event("kernel", name, 1000 + at, length, 7, device=0, stream=7, correlation=self._number)

    def copy(self, at: float, length: float, name: str) -> None:
        """A copy of 256 MiB of this length that a call at this time launches."""
        self._number += 1
        self.event("cuda_runtime", "cudaMemcpyAsync", at, 1, correlation=self._number)
        self.event(
            "gpu_memcpy", name, 1000 + at, length, 7, device=0, stream=7, correlation=self._number, bytes=1 << 28
        )

    def read(self, path: Path, **more: Any) -> perflog.Log:
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": self.events} | more))
        return perflog.read(path)


def rows(log: perflog.Log, by: str = "shape", **options: Any) -> list[dict[str, Any]]:
    table = operator_efficiency(log, **options)
    return [
        {key: None if pd.isna(value) else value for key, value in row.items()}
        for row in table[table["by"] == by].to_dict("records")
    ]


BF16 = ["c10::BFloat16"] * 3
LINEAR = [[8, 16], [4, 16], [4]]
ADDMM = [[4], [8, 16], [16, 4]]


def test_a_kernel_counts_once_for_the_innermost_operator(tmp_path: Path) -> None:
    trace = Trace()
    trace.operator("aten::linear", 0, 20, LINEAR, BF16)
    trace.operator("aten::addmm", 5, 10, ADDMM, BF16)
    trace.operator("aten::expand", 6, 2, [[4], [], []], ["c10::BFloat16", "", ""])
    trace.kernel(9, 50)
    (row,) = rows(trace.read(tmp_path / "a.json"))
    flop, size = 2 * 8 * 16 * 4, 2 * (4 + 8 * 16 + 16 * 4 + 8 * 4)
    assert (row["operator"], row["inputs"], row["dtype"]) == ("aten::addmm", "4, 8x16, 16x4", "bfloat16")
    assert (row["calls"], row["flop"], row["bytes"], row["share"]) == (1, flop, size, 1.0)
    assert row["tflops"] == pytest.approx(flop / 50e-6 / 1e12)
    assert row["tbs"] == pytest.approx(size / 50e-6 / 1e12)
    assert row["intensity"] == pytest.approx(flop / size)
    assert (row["roof_s"], row["bound"], row["first_line"]) == (None, None, 2)


def test_the_work_around_a_counted_operator_is_not_counted_again(tmp_path: Path) -> None:
    """A linear that itself adds the bias in a kernel: the product is that of the addmm inside."""
    trace = Trace()
    trace.operator("aten::linear", 0, 20, LINEAR, BF16)
    trace.operator("aten::addmm", 5, 10, ADDMM, BF16)
    trace.kernel(9, 50)
    trace.kernel(17, 10, "add_bias")
    found = {(row["operator"], row["class"], row["flop"], round(row["time_s"] * 1e6)) for row in rows(
        trace.read(tmp_path / "a.json"))}  # fmt: skip
    assert found == {("aten::addmm", "matmul", 1024.0, 50), ("aten::linear", None, None, 10)}


def test_a_linear_that_calls_nothing_counts_itself(tmp_path: Path) -> None:
    trace = Trace()
    trace.operator("aten::linear", 0, 20, LINEAR, BF16)
    trace.kernel(9, 50)
    (row,) = rows(trace.read(tmp_path / "a.json"))
    assert (row["operator"], row["flop"]) == ("aten::linear", 1024.0)


def test_an_elementwise_operator_inside_keeps_its_own_kernel(tmp_path: Path) -> None:
    """The backward of attention clears its outputs: both count, each with its own time."""
    trace = Trace()
    q = [2, 64, 8, 32]
    dims = [q, q, q, q, q, [2, 8, 64], *([[]] * 8)]
    types = ["c10::Half"] * 5 + ["float"] + [""] * 8
    values = [*([""] * 8), "64", "64", "0.", "False", "", ""]
    trace.operator("aten::_flash_attention_backward", 0, 30, dims, types, values=values)
    trace.operator("aten::zero_", 5, 5, [q], ["c10::Half"])
    trace.kernel(6, 3, "memset")
    trace.kernel(20, 70, "flash_bwd")
    log = trace.read(tmp_path / "a.json")
    found = {row["operator"]: (row["flop"], row["bytes"]) for row in rows(log)}
    n = 2 * 64 * 8 * 32
    assert found["aten::zero_"] == (0, 2 * n)
    assert found["aten::_flash_attention_backward"] == (2 * 5 * 2 * 8 * 64 * 64 * 32, 8 * n * 2 + 4 * 2 * 8 * 64)
    assert [row["class"] for row in rows(log, "class")] == ["attention", "elementwise"]


def test_backward_in_a_thread_of_its_own(tmp_path: Path) -> None:
    trace = Trace()
    trace.operator("aten::mm", 0, 20, [[2, 3], [3, 4]], BF16[:2])
    trace.operator("autograd::engine::evaluate_function: MmBackward0", 0, 30, tid=2)
    trace.operator("MmBackward0", 1, 28, [[2, 4]], BF16[:1], tid=2)
    trace.operator("aten::mm", 2, 20, [[3, 2], [2, 4]], BF16[:2], tid=2)
    trace.kernel(5, 10, tid=2)
    trace.kernel(25, 4, "accumulate", tid=2)
    found = [(row["operator"], row["shapes"], row["flop"]) for row in rows(trace.read(tmp_path / "a.json"))]
    assert found == [("aten::mm", "[[3, 2], [2, 4]]", 48.0), ("MmBackward0", "[[2, 4]]", None)]


def test_the_roof_of_a_known_gpu(tmp_path: Path) -> None:
    """A product that arithmetic bounds, one that the memory bounds, a sum, and an operator that nobody knows."""
    trace = Trace()
    large, small = [[4096, 4096], [4096, 4096]], [[4096, 4096], [4096, 1]]
    for at, (name, dims, length) in enumerate(
        [("aten::mm", large, 250), ("aten::mm", small, 40), ("aten::add", large, 60), ("mine::op", large, 50)]
    ):
        trace.operator(name, at * 100, 50, dims, BF16[:2])
        trace.kernel(at * 100 + 5, length)
    log = trace.read(tmp_path / "a.json")
    found = {(row["operator"], row["inputs"]): row for row in rows(log, gpu="H100 SXM")}
    (compute, memory, add, other) = (
        found["aten::mm", "4096x4096, 4096x4096"], found["aten::mm", "4096x4096, 4096x1"],
        found["aten::add", "4096x4096, 4096x4096"], found["mine::op", "4096x4096, 4096x4096"],
    )  # fmt: skip
    peak, tbs = 989.4e12, 3.35e12
    assert (compute["bound"], compute["precision"]) == ("compute", "bf16")
    assert compute["roof_share"] == pytest.approx(2 * 4096**3 / peak / 250e-6)
    size = 2 * (4096**2 + 2 * 4096)
    assert memory["bound"] == "memory"
    assert memory["roof_share"] == pytest.approx(size / tbs / 40e-6)
    attainable = min(peak, memory["intensity"] * tbs)  # the definition
    assert memory["roof_share"] == pytest.approx(memory["tflops"] * 1e12 / attainable)
    assert add["bound"] == "memory"
    assert add["roof_share"] == pytest.approx(3 * 2 * 4096**2 / tbs / 60e-6)
    assert (other["roof_share"], other["bound"], other["known_share"]) == (None, None, 0.0)
    (whole,) = rows(log, "trace", gpu="H100 SXM")
    least = sum(found[key]["roof_s"] for key in found if key[0] != "mine::op")
    assert whole["roof_share"] == pytest.approx(least / 350e-6)
    assert whole["known_share"] == pytest.approx(350 / 400)
    assert (whole["calls"], whole["share"]) == (4, 1.0)


def test_no_roof_without_a_gpu_or_its_memory(tmp_path: Path) -> None:
    trace = Trace()
    trace.operator("aten::mm", 0, 50, [[2, 3], [3, 4]], BF16[:2])
    trace.kernel(5, 10)
    log = trace.read(tmp_path / "a.json")
    for options in ({}, {"peak_tflops": 312.0}, {"gpu": "A100"}):
        assert rows(log, **options)[0]["roof_share"] is None
    assert rows(log, gpu="A100-SXM4-80GB")[0]["peak_tbs"] == 2.039
    assert rows(log, gpu="H100 SXM", peak_tflops=500.0)[0]["peak_tflops"] == 500.0
    for gpu in ("MyGPU", "H100"):  # unknown, and one of several
        (row,) = rows(log, gpu=gpu, peak_tflops=500.0)
        assert (row["peak_tflops"], row["peak_tbs"], row["roof_share"]) == (500.0, None, None)
    named = trace.read(tmp_path / "b.json", deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}])
    assert rows(named, gpu="A100")[0]["peak_tbs"] == 1.555
    with pytest.raises(UsageError, match="no peak of `H1000` is known"):
        operator_efficiency(log, gpu="H1000")
    with pytest.raises(UsageError, match="`peak_tflops` is -1"):
        operator_efficiency(log, peak_tflops=-1.0)


def test_bandwidths_of_memories() -> None:
    assert bandwidth_tbs("H100 SXM") == 3.35
    assert bandwidth_tbs("H100 SXM", "NVIDIA A100-SXM4-80GB") == 3.35
    assert bandwidth_tbs("A100", None, "NVIDIA A100 80GB PCIe") == 1.935
    assert bandwidth_tbs("A100-PCIE-40GB") == 1.555
    assert bandwidth_tbs("A100", "NVIDIA A100-SXM4") is None


def test_float32_products_on_tensor_cores_have_their_roof(tmp_path: Path) -> None:
    trace = Trace()
    for at, name in enumerate(["ampere_sgemm_128x64_nn", "void cutlass_80_tensorop_s1688gemm_128x128_32x5_tn_align4"]):
        trace.operator("aten::mm", at * 100, 50, [[512, 512], [512, 512]], ["float", "float"])
        trace.kernel(at * 100 + 5, 20, name)
    log = trace.read(tmp_path / "a.json")
    assert {(row["precision"], row["peak_tflops"]) for row in rows(log, gpu="A100-SXM4-80GB")} == {
        ("fp32", 19.5), ("tf32", 156.0)
    }  # fmt: skip


def test_a_product_above_the_peak_has_no_roof(tmp_path: Path) -> None:
    """The trace lost its kernel; only that of its workspace is left."""
    trace = Trace()
    trace.operator("aten::mm", 0, 50, [[4096, 4096], [4096, 4096]], BF16[:2])
    trace.kernel(5, 2, "memset")
    (row,) = rows(trace.read(tmp_path / "a.json"), gpu="H100 SXM")
    assert (row["impossible"], row["roof_share"], row["bound"]) == (True, None, None)
    assert rows(perflog.read(tmp_path / "a.json"))[0]["impossible"]  # no GPU computes 137 GFLOP in 2 us


COPIED = [[64, 1024, 1024], [64, 1024, 1024], []], ["float", "float", "Scalar"]


@pytest.mark.parametrize("way", ["HtoD (Pinned -> Device)", "DtoH (Device -> Pageable)", "PtoP (Device -> Device)"])
def test_a_copy_over_a_bus_has_no_roof_of_the_memory(tmp_path: Path, way: str) -> None:
    """The bandwidth of the device's memory is no bound of it; a copy inside of the device beside it keeps its roof."""
    trace = Trace()
    for at, name in enumerate([way, "DtoD (Device -> Device)"]):
        trace.operator("aten::copy_", at * 200, 20, *COPIED)
        trace.copy(at * 200 + 5, 10_000, f"Memcpy {name}")
    log = trace.read(tmp_path / "a.json")
    over_bus, inside = rows(log, gpu="H100 SXM")
    if over_bus["class"] is not None:
        over_bus, inside = inside, over_bus
    assert {over_bus[column] for column in ("class", "bytes", "tbs", "roof_share", "bound")} == {None}
    assert (inside["class"], inside["bytes"], inside["bound"]) == ("elementwise", 2 << 28, "memory")
    assert (over_bus["operator"], over_bus["share"], inside["share"]) == ("aten::copy_", 0.5, 0.5)
    assert rows(log, "trace", gpu="H100 SXM")[0]["known_share"] == 0.5


ODD_ARGUMENTS: list[Any] = [
    {}, {"Input Dims": []}, {"Input Dims": "[[2, 3], [3, 4]]"}, {"Input Dims": [[2, "x"], [3, 4]]},
    {"Input Dims": [[2, 3], [[3, 4], [5]]]}, {"Input Dims": [[2, -3], [-3, 4]]}, {"Input Dims": [[2, 3.5], [3.5, 4]]},
    {"Input Dims": [[2, 10**30], [10**30, 4]], "Input type": BF16}, {"Input Dims": None}, {"Input Dims": 7},
    {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float"]}, {"Input Dims": [[2, 3], [3, 4]], "Input type": "float"},
    {"Input Dims": [[2, 3], [3, 4]], "Input type": ["TensorList", "Scalar"]},
    {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"], "Input Strides": "odd"},
    {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"], "Input Strides": [[1], [True, None]]},
]  # fmt: skip


@pytest.mark.parametrize("args", ODD_ARGUMENTS, ids=range(len(ODD_ARGUMENTS)))
@pytest.mark.parametrize("name", ["aten::mm", "aten::convolution", "aten::add", "aten::_softmax", "mine"])
def test_odd_arguments_lose_no_time(tmp_path: Path, name: str, args: Event) -> None:
    trace = Trace()
    trace.event("cpu_op", name, 0, 50, **args)
    trace.kernel(5, 10)
    log = trace.read(tmp_path / "a.json")
    (row,) = rows(log, gpu="H100 SXM")
    assert (row["operator"], round(row["time_s"] * 1e6)) == (name, 10)
    assert log.line_account["unread"] == 0


def test_traces_without_operators_or_work_have_no_rows(tmp_path: Path) -> None:
    only_work, only_host, elsewhere = Trace(), Trace(), Trace()
    only_work.kernel(5, 10)
    only_host.operator("aten::mm", 0, 50, [[2, 3], [3, 4]])
    elsewhere.operator("aten::mm", 0, 50, [[2, 3], [3, 4]])
    elsewhere.kernel(70, 10)
    for place, trace in enumerate((only_work, only_host, elsewhere)):
        assert not len(operator_efficiency(trace.read(tmp_path / f"{place}.json")))


def test_the_ranges_of_nsight_systems_say_shapes(tmp_path: Path) -> None:
    """`emit_nvtx(record_shapes=True)` writes no types: bytes and roof are unknown."""
    ranges = [
        {
            "start": at,
            "end": at + 900,
            "eventType": 59,
            "globalTid": 5,
            "text": f"aten::mm, seq = {at}, op_id = {at + 5}, sizes = [[2, 3], [3, 4]], input_op_ids = [(7,0), (8,0)]",
        }
        for at in (0, 1000)
    ]
    ranges.append({"start": 0, "end": 1950, "eventType": 59, "globalTid": 5, "text": "forward"})
    tables: dict[str, list[Event]] = {
        "StringIds": STRINGS,
        "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.24.0"}],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(2000, 3000, correlationId=1), kernel(3000, 4000, correlationId=2)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(at, at + 100, n) | {"globalTid": 5} for n, at in ((1, 100), (2, 1100))],
        "NVTX_EVENTS": ranges,
    }
    log = perflog.read(write_tables(tmp_path / "report.sqlite", tables))
    (row,) = rows(log, gpu="H100 SXM")
    assert (row["operator"], row["inputs"], row["flop"], row["bytes"]) == ("aten::mm", "2x3, 3x4", 96.0, None)
    assert (row["calls"], row["roof_share"]) == (2, None)
    tree = perflog.metrics.device_operators(log)
    assert tree[["operator", "kind", "shapes", "calls"]].to_numpy().tolist()[1:] == [
        ["aten::mm", "operator", "2x3, 3x4", 2]
    ]


def test_names_of_ranges_that_are_operators() -> None:
    assert nvtx_operator("aten::mm, seq = 4, op_id = 9, sizes = [[2], []]") == ("aten::mm", "[[2], []]")
    assert nvtx_operator("aten::mm, seq = 4, op_id = 9") == ("aten::mm", None)
    node = "autograd::engine::evaluate_function: MmBackward0"
    assert nvtx_operator(f"{node}, op_id = 9") == (node, None)
    for name in ("forward, sizes", "forward", "forward, seq = 3", "load, op_id", "a b, op_id = x"):
        assert nvtx_operator(name) is None


def random_trace(seed: int) -> Trace:
    """Operators with the same shapes or others, nested up to three deep, on two threads."""
    chance, trace = random.Random(seed), Trace()

    def call_of(depth: int, start: float, tid: int) -> float:
        name = chance.choice(["aten::linear", "aten::mm", "aten::add", "aten::view", "mine::op"])
        m, k, n = (chance.choice([4, 8]) for _ in range(3))
        dims = {"aten::linear": [[m, k], [n, k], [n]], "aten::mm": [[m, k], [k, n]]}.get(name, [[m, k], [m, k]])
        begin, at = start, start + 1
        for _ in range(chance.randrange(3)):
            if depth < 3 and chance.random() < 0.6:
                at = call_of(depth + 1, at, tid) + 1
            else:
                trace.kernel(at, chance.randrange(1, 9), tid=tid)
                at += 3
        trace.operator(name, begin, at - begin, dims, ["float"] * len(dims), tid)
        return at

    for tid in (1, 2):
        at = 0.0
        for _ in range(12):
            at = call_of(0, at, tid) + 5
    trace.kernel(10_000, 3)
    return trace


@pytest.mark.parametrize("seed", range(12))
def test_time_and_calls_are_those_of_plain_loops(tmp_path: Path, seed: int) -> None:
    log = random_trace(seed).read(tmp_path / "a.json")
    check_times(tmp_path / "a.json", log)


def check_times(path: Path, log: perflog.Log) -> None:
    """Calls and times of all operators, FLOP and bytes of products, and the time of all work."""
    expected, whole = raw_operators(path, operator_formulas())
    found: Counter[tuple[str, str]] = Counter()
    calls: Counter[tuple[str, str]] = Counter()
    for row in rows(log):
        key = row["operator"], str(json.loads(row["shapes"])) if row["shapes"] else "None"
        found[key] += round(row["time_s"] * 1e9)
        calls[key] += row["calls"]
        if row["class"] == "matmul" and row["calls"] == len(expected[key].times) and row["operator"] in PRODUCTS:
            assert row["flop"] == expected[key].flop
            assert row["bytes"] == expected[key].bytes
    assert found == {key: operator.time for key, operator in expected.items()}
    assert calls == {key: len(operator.times) for key, operator in expected.items()}
    (all_work,) = rows(log, "trace")
    assert round(all_work["time_s"] * 1e9) == whole


@needs_corpus
@pytest.mark.parametrize("path", REAL, ids=["rank 0", "rank 1"])
def test_real_traces(path: Path) -> None:
    log = perflog.read(path)
    check_times(path, log)
    products = [row for row in rows(log) if row["class"] == "matmul"]
    assert len(products) > 100
    with_roof = rows(log, gpu="A100-SXM4-80GB")
    # These traces are samples: of four products only a short kernel is left.
    assert sum(bool(row["impossible"]) for row in with_roof) <= 4
    for row in with_roof:
        assert row["roof_share"] is None or 0 < row["roof_share"] < 3.1  # 1 but for what is in a cache
        assert row["bound"] != "compute" or row["roof_share"] <= 1


@needs_corpus
def test_several_ranks_are_apart_and_the_same_as_alone() -> None:
    both, alone = perflog.read(*REAL), [perflog.read(path) for path in REAL]
    table = operator_efficiency(both)
    for log in alone:
        one = operator_efficiency(log)
        rank = int(one["rank"].iloc[0])
        of_rank = table[table["rank"] == rank].reset_index(drop=True)
        pd.testing.assert_frame_equal(of_rank.drop(columns=["run", "label"]), one.drop(columns=["run", "label"]))


def test_rates_of_the_same_operator_and_shapes_are_compared(tmp_path: Path) -> None:
    logs = []
    for side, (length, columns) in enumerate([(40, 512), (50, 256)]):
        trace = Trace()
        for at, dims in enumerate([[[512, 512], [512, 512]], [[512, 512], [512, columns]]]):
            trace.operator("aten::mm", at * 200, 50, dims, BF16[:2])
            trace.kernel(at * 200 + 5, length)
        trace.operator("aten::add", 600, 50, [[512, 512], [512, 512]], BF16[:2])
        trace.kernel(605, 10 + side)
        trace.operator("mine::op", 800, 50, [[512, 512]], BF16[:1])
        trace.kernel(805, 10)
        logs.append(trace.read(tmp_path / f"{side}.json"))
    compared = perflog.compare(*logs).rows
    found = compared[compared["kind"] == "rate"].set_index("metric")
    assert set(found.index) == {"aten::mm 512x512, 512x512 (bfloat16)", "aten::add 512x512, 512x512 (bfloat16)"}
    product, add = (found.loc[f"aten::{name} 512x512, 512x512 (bfloat16)"] for name in ("mm", "add"))
    assert (product["unit"], product["better"], product["derived"]) == ("TFLOP/s", "higher", True)
    assert product["base_value"] == pytest.approx(2 * 512**3 / 40e-6 / 1e12)
    assert product["side_value"] == pytest.approx(2 * 512**3 / 50e-6 / 1e12)
    assert (add["unit"], add["base_value"]) == ("GB/s", pytest.approx(3 * 2 * 512**2 / 10e-6 / 1e9))


def test_operators_of_less_than_a_thousandth_of_the_time_are_not_compared(tmp_path: Path) -> None:
    trace = Trace()
    for at, (rows_, length) in enumerate([(512, 9980), (256, 11), (128, 9)]):
        trace.operator("aten::mm", at * 200, 50, [[rows_, 512], [512, 512]], BF16[:2])
        trace.kernel(at * 200 + 5, length)
    tables = Tables(trace.read(tmp_path / "a.json"))
    (run,) = tables["runs"]["run"]
    found = [(of.name, run_, values.tolist()) for of, run_, values in _samples(tables, Steady({run: 0}, {}))]
    assert found == [
        (f"aten::mm {rows_}x512, 512x512 (bfloat16)", run, pytest.approx([2 * rows_ * 512**2 / length / 1e6]))
        for rows_, length in ((512, 9980), (256, 11))
    ]
    assert list(_samples(tables, Steady({}, {}))) == []


def test_time_above_the_roof_by_class(tmp_path: Path) -> None:
    """Of 280 us of a product 139 us are its least time, of 60 us of an addition 30 us; the unknown one has no roof."""
    trace, square = Trace(), [[4096, 4096], [4096, 4096]]
    calls: list[tuple[str, Any, int]] = [("aten::mm", square, 280), ("aten::add", square, 60), ("mine::op", [[8]], 60)]
    for at, (name, dims, length) in enumerate(calls):
        trace.operator(name, at * 400, 50, dims, BF16[:2])
        trace.kernel(at * 400 + 5, length)
    trace.kernel(1300, 10)  # of no operator
    tables = Tables(trace.read(tmp_path / "a.json"))
    (shares,) = shares_above_roof(tables, Options(gpu="H100 SXM")).values()
    product, add = 2 * 4096**3 / 989.4e12, 6 * 4096**2 / 3.35e12
    assert {kind: of.tolist() for kind, of in shares.items()} == {
        "matmul": pytest.approx([1 - product / 280e-6, 0, 0, 0], rel=1e-3),
        "elementwise": pytest.approx([0, 1 - add / 60e-6, 0, 0], rel=1e-3),
    }
    assert shares_above_roof(tables, Options()) == {}


def overview_of(log: perflog.Log, **options: Any) -> str:
    return next((line for line in perflog.overview(log, **options).reasons if "of the GPU time and run at" in line), "")


def test_the_overview_tells_how_far_below_the_roof(tmp_path: Path) -> None:
    trace, square = Trace(), [[4096, 4096], [4096, 4096]]
    calls: list[tuple[str, Any, int]] = [("aten::mm", square, 280), ("aten::add", square, 60), ("mine::op", [[8]], 60)]
    for at, (name, dims, length) in enumerate(calls):
        trace.operator(name, at * 400, 50, dims, BF16[:2])
        trace.kernel(at * 400 + 5, length)
    log = trace.read(tmp_path / "a.json")
    product, add = 2 * 4096**3 / 989.4e12, 6 * 4096**2 / 3.35e12
    assert overview_of(log, gpu="H100 SXM") == (
        f"Operators with a roof take 85 % of the GPU time and run at {(product + add) / 340e-6:.0%} of the roofline; "
        f"most is lost in aten::mm of 4096x4096, 4096x4096 (bfloat16): {product / 280e-6:.0%} of it, compute-bound, "
        "70 % of the GPU time."
    ).replace("%", " %").replace("  ", " ")
    rate = f"{2 * 4096**3 / 280e-6 / 1e12:.3g} TFLOP/s"
    assert overview_of(log) == (
        "Matrix products, convolutions and attention take 70 % of the GPU time and "
        f"run at {rate}; the longest is aten::mm of 4096x4096, 4096x4096 "
        f"(bfloat16): {rate}, 70 % of the GPU time."
    )


def test_what_is_unknown_of_some_calls_is_unknown_of_all() -> None:
    def operator(flop: float | None, size: float | None, line: int) -> Operator:
        return Operator("mm", "gemm", None, None, False, 2, 10, flop, size, line)

    both = _sum(operator(3.0, 5.0, 9), operator(4.0, None, 7))
    assert (both.calls, both.time_ns, both.flop, both.bytes, both.first_line) == (4, 20, 7.0, None, 7)
    other = _sum(operator(None, 5.0, 1), operator(4.0, 6.0, 2))
    assert (other.flop, other.bytes, other.first_line) == (None, 11.0, 1)
