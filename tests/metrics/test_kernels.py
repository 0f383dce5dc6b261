"""Shares of kernels and the tree of ranges: what FACTS.md says of the profile (003), and made-up profiles."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.paths import ROOT
from support.seeds import MS, log, rows

import perflog
from perflog.metrics import kernels, ranges
from perflog.metrics.kernel_categories import CATEGORIES, OTHER, category
from perflog.metrics.kernel_names import LONGEST, short_kernel, short_kernels
from perflog.metrics.kernels import BY_SHARES, profile_shares, with_activity
from perflog.metrics.run_tables import Tables
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = ROOT / "reference_runs" / "store"
LAYERS = ", ".join(f"Layer {k}" for k in range(12))


@pytest.fixture(scope="module", params=["seed", "reference"])
def profile(request: pytest.FixtureRequest) -> perflog.Log:
    """The profile, read from its log or as the reference run holds it."""
    if request.param == "reference":
        store = perflog.load(REFERENCE)
        return store.select(*[run for run in store.run_keys if run.log == "nvprof.txt"])
    return log("nvprof")


def records(found: pd.DataFrame, **where: Any) -> list[dict[str, Any]]:
    found = found.astype(object).where(found.notna(), None)
    return [r for r in found.to_dict("records") if all(r[k] == v for k, v in where.items())]


# --- shares -----------------------------------------------------------------------------------------------------------


def test_printed_shares_come_out(profile: perflog.Log) -> None:
    """All 616 rows in all 36 tables: time over the sum of the table's category, within what is printed."""
    given = with_activity(Tables(profile))
    found = profile_shares(given)
    assert len(found) == 616 and found["section"].nunique() == 36
    assert ((found["share"] - given["share"]).abs() < 0.0000515).all()
    sums = found.groupby(["section", "of"])["share"].sum()
    assert len(sums) == 36 + 36 + 35 and ((sums - 1).abs() < 1e-12).all()


def test_shares_of_the_profile_by_name(profile: perflog.Log) -> None:
    found = kernels(profile)
    gpu, api = (records(found, by="name", of=of) for of in ("gpu", "api"))
    assert (len(gpu), len(api)) == (30, 51)
    assert {r["denominator"] for r in gpu} == {"sum of GPU activities"}
    assert {r["denominator"] for r in api} == {"sum of API calls"}
    assert {round(r["denominator_s"], 2) for r in gpu} == {11.19}
    assert round(sum(r["share"] for r in gpu if "sgemm" in r["name"]), 3) == 0.885
    (sync,) = records(found, name="cudaDeviceSynchronize")
    assert round(sync["share"], 2) == 0.69
    assert [n for n, count in Counter(r["name"] for r in api).items() if count > 1] == ["cuGetProcAddress"]


def test_shares_of_the_profile_by_category(profile: perflog.Log) -> None:
    found = kernels(profile)
    gpu = records(found, by="category", of="gpu")
    assert gpu[0]["category"] == "gemm"
    assert (gpu[0]["calls"], round(gpu[0]["share"], 3)) == (2336, 0.885)
    assert OTHER not in {r["category"] for r in gpu}
    for of in ("gpu", "api"):
        names, kinds = (records(found, by=by, of=of) for by in ("name", "category"))
        for column in ("time_s", "calls", "share"):
            assert sum(r[column] for r in names) == pytest.approx(sum(r[column] for r in kinds), rel=1e-12)
        assert sum(r["share"] for r in kinds) == pytest.approx(1)


def test_gpu_work_by_range_is_of_the_whole_profile(profile: perflog.Log) -> None:
    found = {r["name"]: r for r in records(kernels(profile), by="range", of="gpu")}
    assert len(found) == 35
    assert round(found["Train step 0"]["time_s"], 3) == 8.104
    assert found["Train step 0"]["share"] == pytest.approx(8.104 / 11.1906, abs=1e-4)
    assert sum(r["share"] for r in found.values()) > 1  # ranges nest


def test_host_time_of_ranges_is_a_share_of_nothing(profile: perflog.Log) -> None:
    found = {r["name"]: r for r in records(kernels(profile), by="range", of="range")}
    assert len(found) == 35
    assert {(r["share"], r["denominator"]) for r in found.values()} == {(None, None)}


def test_first_call_apart(profile: perflog.Log) -> None:
    found = {r["name"]: r for r in records(kernels(profile), of="range")}
    first = found["ncclAllReduce"]
    assert (first["time_s"], first["first_call_s"]) == (629.69 * MS, 629.49 * MS)
    assert first["avg_rest_s"] == pytest.approx((629.69 - 629.49) / 3 * MS, rel=1e-9)
    assert found["gpt2_forward"]["first_call_s"] is None
    assert found["validation"]["first_call_s"] is None  # a single call is not apart from others
    api = {r["name"]: r["first_call_s"] for r in records(kernels(profile), of="api", by="name")}
    assert api["cudaFuncGetAttributes"] == 322.29 * MS
    assert api["cudaDeviceSynchronize"] is None


def profile_of(given: list[dict[str, Any]]) -> dict[str, pd.DataFrame]:
    """Tables of one run with these rows of table `kernels`."""
    import pandas as pd

    run = {c.name: None for c in TABLES["runs"]} | {"run": "r", "label": "made up", "index": 1}
    blank = {c.name: None for c in TABLES["kernels"]} | {"run": "r", "part": 0, "section": 1}
    return {
        "runs": pd.DataFrame([run]),
        "kernels": pd.DataFrame([blank | r | {"line": n} for n, r in enumerate(given)]),
    }


@examples(30)  # each is a metric: 40 ms
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
def test_first_call_is_the_excess_of_the_longest(times: list[int]) -> None:
    row = {"kind": "api", "category": "API calls", "name": "call", "calls": len(times), "time_s": float(sum(times))}
    row |= {"min_s": float(min(times)), "max_s": float(max(times))}
    (found,) = records(kernels(profile_of([row])), by="name")
    others = sorted(times)[:-1]
    apart = bool(others) and max(times) - sum(others) / len(others) > sum(times) / 2
    assert (found["first_call_s"] is not None) == apart
    if apart:
        assert found["avg_rest_s"] == pytest.approx(sum(others) / len(others))


def test_kinds_are_never_mixed() -> None:
    given: list[dict[str, Any]] = [
        {"kind": "kernel", "category": "GPU activities", "name": "gemm", "calls": 1, "time_s": 3.0},
        {"kind": "memset", "category": "GPU activities", "name": "[CUDA memset]", "calls": 1, "time_s": 1.0},
        {"kind": "api", "category": "API calls", "name": "cudaLaunchKernel", "calls": 2, "time_s": 8.0},
        {"kind": None, "category": "OpenACC (excl)", "name": "acc_enter_data", "calls": 2, "time_s": 5.0},
    ]
    found = records(kernels(profile_of(given)), by="name")
    assert [(r["of"], r["share"]) for r in found] == [("gpu", 0.75), ("gpu", 0.25), ("api", 1), ("OpenACC (excl)", 1)]


@pytest.mark.parametrize("of", ["api", "gpu"])
def test_ranges_without_a_whole_profile_have_no_shares(of: str) -> None:
    row = {"kind": {"gpu": "kernel"}.get(of, of), "range": "step", "name": "gemm", "calls": 1, "time_s": 1.0}
    found = records(kernels(profile_of([row])))
    assert [(r["by"], r["share"]) for r in found] == [("range", None)] * (of == "gpu")
    assert len(ranges(profile_of([row]))) == 1


# --- categories -------------------------------------------------------------------------------------------------------

NAMES = {
    "communication": [  # NCCL has changed its names with 2.8, 2.15 and 2.19
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<4096ul>)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    ],
    "gemm": [
        "volta_sgemm_128x64_tn",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(Params)",
        "nvjet_tst_128x24_64x11_2x1_v_bz_TNT",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
        "Cijk_Ailk_Bljk_BBS_BH_Bias_AS_SAV_UserArgs_MT256x224x64_MI16x16x1_SN.kd",
        "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3>()",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>()",
    ],
    "attention": [
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x64x64",
        "attn_fwd.kd",
        "bwd_kernel_dk_dv.kd",
    ],
    "normalisation": [
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float)",
        "layernorm_forward_kernel6(float*, float*)",
        "MIOpenBatchNormFwdTrainSpatial.kd",
        "rms_norm_kernel",
    ],
    "optimizer": [
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>()",
        "void adamw_kernel3<float, float>(float*, float*)",
        "void global_norm_squared_kernel<float>(float*, float const *, unsigned long)",
    ],
    "softmax": [
        "softmax_forward_kernel5(float*, float)",
        "void (anonymous namespace)::cunn_SoftMaxForward<4, float>()",
    ],
    "loss": ["void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>()"],
    "convolution": [
        "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1",
        "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32",
    ],
    "elementwise": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3>>()",
        "gelu_forward_kernel2(float*, float const *)",
        "triton_poi_fused_add_mul_3",
    ],
    "reduction": [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>()",
        "void matmul_backward_bias_kernel9<float, bool=1>(float*, float const *)",
        "triton_red_fused_sum_2",
    ],
    "memcpy": [
        "[CUDA memcpy HtoD]",
        "Memcpy DtoH (Device -> Pinned)",
        "CopyDeviceToDevice",
        "__amd_rocclr_copyBuffer.kd",
    ],
    "memset": ["[CUDA memset]", "Memset (Device)", "__amd_rocclr_fillBufferAligned.kd"],
    "routing": ["void vllm::moe::topkGatingSoftplusSqrt<float>()", "moe_align_block_size_kernel"],
    "layout": [
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>()",
        "permute_kernel(float*, float*)",
    ],
    "indexing": ["void at::native::index_elementwise_kernel<128, 4>()", "void cub::DeviceScanKernel<int>()"],
    OTHER: ["my_kernel", "_Z3fooPfi"],
}


CUT = [("kernel", 30.0, 0.3, 1), ("kernel", 20.0, 0.2, 1)]


def cut_profile(rows_of_table: list[tuple[str, float, float, int]]) -> list[dict[str, Any]]:
    """Kernels with the shares that the profiler printed, in the tables of these numbers."""
    given = [
        {"kind": kind, "name": f"k{i}", "time_s": time_s, "share": share, "calls": 1, "section": section}
        for i, (kind, time_s, share, section) in enumerate(rows_of_table)
    ]
    return records(kernels(profile_of(given)), by="name", of="gpu")


def test_a_table_that_is_cut_keeps_its_printed_shares() -> None:
    found = cut_profile(CUT)
    assert [row["share"] for row in found] == pytest.approx([0.3, 0.2])
    assert {row["denominator"] for row in found} == {BY_SHARES}
    assert [row["denominator_s"] for row in found] == pytest.approx([100.0, 100.0])


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ([("kernel", 30.0, 0.6, 1), ("kernel", 20.0, 0.4, 1)], "all rows are listed"),
        ([("kernel", 30.0, 0.599, 1), ("kernel", 20.0, 0.398, 1)], "less is missing than rounding explains"),
        ([("kernel", 30.0, 0.3, 1), ("kernel", 20.0, 0.4, 1)], "the shares are not of one total"),
        ([("kernel", 30.0, 0.001, 1), ("kernel", 20.0, 0.001, 1)], "the shares are too rough"),
    ],
)
def test_shares_of_a_table_that_is_not_surely_cut(table: list[tuple[str, float, float, int]], why: str) -> None:
    found = cut_profile(table)
    assert [row["share"] for row in found] == pytest.approx([0.6, 0.4]), why


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_what_a_kernel_does(kind: str, name: str) -> None:
    assert category(name) == kind
    assert kind in CATEGORIES


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernelExC", "launch"), ("hipModuleLaunchKernel", "launch"), ("cudaGraphLaunch", "launch"),
        ("cudaDeviceSynchronize", "synchronisation"), ("hipStreamSynchronize", "synchronisation"),
        ("cudaMemcpyAsync", "memcpy"), ("cudaMemsetAsync", "memset"), ("cudaMallocManaged", "allocation"),
        ("cudaFree", "allocation"), ("cudaEventRecord", "event"), ("cudaGetDevice", "device"),
    ],
)  # fmt: skip
def test_what_an_api_call_does(name: str, kind: str) -> None:
    assert category(name, api=True) == kind


# --- ranges -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree(profile: perflog.Log) -> dict[str, dict[str, Any]]:
    return {r["range"]: r for r in records(ranges(profile))}


def test_every_range_has_its_place(tree: dict[str, dict[str, Any]]) -> None:
    assert len(tree) == 35
    seen: list[str] = []
    for name, row in tree.items():
        parent = row["parent"]
        assert row["depth"] == (0 if parent is None else tree[parent]["depth"] + 1)
        assert parent is None or parent in seen
        seen.append(name)


def test_nesting(tree: dict[str, dict[str, Any]]) -> None:
    parents = {name: row["parent"] for name, row in tree.items() if row["parent"]}
    forward, backward = "gpt2_forward", "gpt2_backward_and_reduce"
    assert parents == {
        "validation": "Train step 0",
        "encoder_forward": forward, "attention_forward": forward, "layernorm_forward": forward,
        "fused_classifier": "classifier_and_loss",
        "attention_backward": backward, "matmul_backward": backward, "layernorm_backward": backward,
        "encoder_backward": backward, "ncclAllReduce": backward, "gelu_backward_inplace": "matmul_backward",
    }  # fmt: skip


def test_a_range_in_many_places_has_no_one_parent(tree: dict[str, dict[str, Any]]) -> None:
    partly = {name: row["partly_in"] for name, row in tree.items()}
    for name in ("attention_forward", "attention_backward", "matmul_backward", "gelu_forward"):
        assert partly[name] == LAYERS
    assert {tree[f"Layer {k}"]["parent"] for k in range(12)} == {None}
    assert {partly[f"Layer {k}"] for k in range(12)} == {"classifier_and_loss, gpt2_forward"}
    assert partly["matmul_cublaslt"] == "attention_backward, attention_forward, matmul_backward"
    assert partly["gpt2_forward"] == "Train step 1, Train step 2, validation"
    assert partly["gpt2_update"] == "Train step 0, Train step 1, Train step 2"
    assert all(
        row["places"] == len((row["partly_in"] or "").split(", ")) - (not row["partly_in"]) for row in tree.values()
    )


def test_a_range_that_holds_more_than_its_name_says(tree: dict[str, dict[str, Any]]) -> None:
    """The classifier's range is closed where the backward's is: the same work, but for the classifier's other calls."""
    wide, backward = tree["classifier_and_loss"], tree["gpt2_backward_and_reduce"]
    assert {n: row["same_as"] for n, row in tree.items() if row["same_as"]} == {
        "classifier_and_loss": "gpt2_backward_and_reduce",
        "gpt2_backward_and_reduce": "classifier_and_loss",
    }
    assert (round(wide["gpu_s"], 3), round(tree["fused_classifier"]["gpu_s"], 4)) == (2.737, 0.2153)
    assert wide["exclusive_s"] < 0.001  # and next to nothing is its own
    # Its longest entry is the shorter by 70 us: it is inside of the backward, and 20 of its entries are in validation.
    assert wide["partly_in"] == "gpt2_backward_and_reduce, validation"
    assert (wide["entered"], backward["entered"]) == (24, 4)


def test_host_time_that_says_something(tree: dict[str, dict[str, Any]]) -> None:
    assert (round(tree["Layer 5"]["host_s"] / MS, 2), round(tree["Layer 5"]["gpu_s"] / MS, 1)) == (3.53, 703.8)
    assert (round(tree["gpt2_forward"]["host_s"], 3), round(tree["gpt2_forward"]["gpu_s"], 3)) == (8.343, 8.298)
    clocks = {name: row["clock"] for name, row in tree.items()}
    assert {clocks[f"Layer {k}"] for k in range(12)} | {clocks["attention_forward"]} == {"asynchronous"}
    steps = {f"Train step {k}" for k in range(3)}
    assert {n for n, c in clocks.items() if c == "synchronous"} == steps | {
        "gpt2_forward", "validation", "classifier_and_loss", "gpt2_backward_and_reduce", "gpt2_update",
        "gpt2_calculate_grad_norm",
    }  # fmt: skip
    assert clocks["ncclAllReduce"] == "host"  # 630 ms of set-up for 68 us of work


def test_arithmetic_of_the_steps(tree: dict[str, dict[str, Any]]) -> None:
    gpu = {name: row["gpu_s"] for name, row in tree.items()}
    assert [round(gpu[f"Train step {k}"], 3) for k in range(3)] == [8.104, 0.999, 1.012]
    assert round(gpu["validation"], 3) == 7.092
    assert round(gpu["Train step 0"] - gpu["validation"], 4) == 1.0116
    assert tree["Train step 0"]["entered"] == 1
    assert round(gpu["matmul_cublaslt"] / gpu["Train step 0"] * tree["Train step 0"]["share"], 3) == 0.885


def test_exclusive_time_is_what_the_range_itself_launches(tree: dict[str, dict[str, Any]]) -> None:
    """Attention's own kernels beside its GEMMs: softmax and the permutations, summed from the whole profile."""
    own = ("softmax_forward", "permute_kernel(", "unpermute_kernel(")
    want = sum(r["time_s"] for r in rows("nvprof", "kernels", section=1) if r["name"].startswith(own))
    assert tree["attention_forward"]["exclusive_s"] == pytest.approx(want)
    assert all(row["exclusive_least_s"] <= row["exclusive_s"] <= row["gpu_s"] * (1 + 1e-9) for row in tree.values())
    assert tree["gelu_forward"]["exclusive_least_s"] == pytest.approx(tree["gelu_forward"]["gpu_s"])


class Program:
    """A made-up program of nested ranges, its profile as a profiler tabulates it, and what is really inside what."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.calls: dict[tuple[str | None, str], int] = Counter()
        self.time: dict[tuple[str | None, str], int] = Counter()
        self.entered: dict[str, list[int]] = defaultdict(list)
        self.own: dict[str, int] = Counter()
        self.inside: set[tuple[str, str]] = set()
        for _ in range(self._random.randint(1, 4)):
            self._enter(())

    def _enter(self, open: tuple[str, ...]) -> int:
        """Enter a range; its host time is one more than all that happens inside."""
        name = f"{'abcd'[len(open)]}{self._random.randint(0, 2)}"
        open, host = (*open, name), 1
        for _ in range(self._random.randint(0, 4)):
            if len(open) < 4 and self._random.random() < 0.6:
                host += self._enter(open)
            else:
                host += self._launch(open)
        self.entered[name].append(host)
        self.inside |= {(name, outer) for outer in open[:-1]}
        return host

    def _launch(self, open: tuple[str, ...]) -> int:
        time, kernel = self._random.randint(1, 900), f"k{self._random.randint(0, 5)}"
        for range_ in (None, *open):
            self.calls[range_, kernel] += 1
            self.time[range_, kernel] += time
        self.own[open[-1]] += time
        return self._random.randint(1, 900)

    def tables(self) -> dict[str, pd.DataFrame]:
        rows: list[dict[str, Any]] = [
            {"kind": "kernel", "range": r, "name": k, "calls": n, "time_s": float(self.time[r, k])}
            for (r, k), n in self.calls.items()
        ]
        for name, hosts in self.entered.items():
            host = {"calls": len(hosts), "time_s": float(sum(hosts)), "min_s": min(hosts), "max_s": float(max(hosts))}
            rows.append({"kind": "range", "range": name, "name": name} | host)
        return profile_of(rows)


@examples(60)
@given(st.integers(0, 10**9))
def test_ranges_claim_nothing_that_is_not_so(seed: int) -> None:
    program = Program(seed)
    found = {r["range"]: r for r in records(ranges(program.tables()))}
    assert set(found) == set(program.entered)
    for name, row in found.items():
        assert row["gpu_s"] == sum(t for (r, _), t in program.time.items() if r == name)
        partly = [x for x in (row["partly_in"] or "").split(", ") if x]
        for other in [row["parent"], *partly]:
            assert other is None or (name, other) in program.inside or (other, name) in program.inside
        assert row["exclusive_least_s"] <= row["exclusive_s"] <= row["gpu_s"]
        assert row["depth"] == (0 if row["parent"] is None else found[row["parent"]]["depth"] + 1)


@examples(60)
@given(st.integers(0, 10**9))
def test_exclusive_time_is_at_most_what_is_said(seed: int) -> None:
    """True of every range whose inner ranges have less GPU time per entry: what the tree takes for granted."""
    program = Program(seed)
    found = {r["range"]: r for r in records(ranges(program.tables()))}
    per_entry = {name: row["gpu_s"] / row["entered"] for name, row in found.items()}
    for name, row in found.items():
        outer = [o for i, o in program.inside if i == name]
        if all(per_entry[o] > per_entry[name] for o in outer):
            assert program.own[name] <= row["exclusive_s"]


def test_one_range_inside_another() -> None:
    """A step of two forwards and something else; the forward's kernel is launched nowhere else."""
    given = [
        {"kind": "kernel", "name": "a", "calls": 4, "time_s": 4.0},
        {"kind": "kernel", "name": "b", "calls": 3, "time_s": 9.0},
        {"kind": "range", "range": "step", "name": "step", "calls": 2, "time_s": 11.0, "max_s": 6.0},
        {"kind": "kernel", "range": "step", "name": "a", "calls": 4, "time_s": 4.0},
        {"kind": "kernel", "range": "step", "name": "b", "calls": 2, "time_s": 6.0},
        {"kind": "range", "range": "forward", "name": "forward", "calls": 4, "time_s": 1.0, "max_s": 0.5},
        {"kind": "kernel", "range": "forward", "name": "a", "calls": 4, "time_s": 4.0},
    ]
    step, forward = records(ranges(profile_of(given)))
    assert (step["range"], step["parent"], step["gpu_s"], step["exclusive_s"]) == ("step", None, 10.0, 6.0)
    assert (forward["range"], forward["parent"], forward["depth"]) == ("forward", "step", 1)
    assert (forward["share"], step["exclusive_least_s"]) == (4 / 13, 6.0)
    assert (step["clock"], forward["clock"]) == ("synchronous", "asynchronous")


def test_the_same_name_in_two_domains() -> None:
    given = [
        {"kind": "kernel", "domain": d, "range": "step", "name": "a", "calls": 1, "time_s": t}
        for d, t in (("A", 1.0), (None, 2.0))
    ]
    assert [(r["range"], r["gpu_s"]) for r in records(ranges(profile_of(given)))] == [
        ("step", 2.0),
        ("A/step", 1.0),
    ]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "SendRecv"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "AllReduce"),
        (
            "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, 2>(float*, long)",
            "indexSelectLargeIndex",
        ),
        ("volta_sgemm_128x64_tn", "volta_sgemm_128x64_tn"),
        ("[CUDA memcpy HtoD]", "[CUDA memcpy HtoD]"),
        ("(weird", "(weird"),
        ("void cutlass::Kernel<cutlass_80_simt_sgemm>(cutlass_80_simt_sgemm::Params)", "cutlass_80_simt_sgemm"),
    ],
)
def test_short_names_of_kernels(name: str, short: str) -> None:
    assert short_kernel(name) == short


_ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{}, at::detail::Array<char*, 2> >(int, {})"
)
_CUTLASS = (
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_{0}_align4>(cutlass_80_tensorop_s1688gemm_{0}_align4::Params)"
)


def test_kernels_that_are_short_alike_keep_the_words_that_tell_them_apart() -> None:
    functors = [_ELEMENTWISE.format(f, f) for f in ("FillFunctor<float>", "FillFunctor<long>", "tanh_kernel_cuda")]
    products = [_CUTLASS.format(tile) for tile in ("128x64_16x6_nn", "128x64_16x6_nt", "256x64_16x6_nn")]
    alone, *_ = short_kernels([functors[0], products[0]]).values()
    assert alone == "vectorized_elementwise_kernel"
    assert list(short_kernels([*functors, *products]).values()) == [
        "vectorized_eleme…ise_kernel<float>",
        "vectorized_elemen…ise_kernel<long>",
        "vectorize…kernel<tanh_kernel_cuda>",
        "cutlass_80_ten…n_align4<128x64 nn>",
        "cutlass_80_tensoro…6_nt_align4<nt>",
        "cutlass_80_tenso…nn_align4<256x64>",
    ]


@given(st.lists(st.text("ab<>(),:_ ", max_size=60)))
def test_short_names_of_kernels_differ_and_are_short(names: list[str]) -> None:
    shorts = short_kernels(names)
    assert set(shorts) == set(names) and len(set(shorts.values())) == len(shorts)
    assert all(len(short) <= LONGEST + len(" #1234") for short in shorts.values())
