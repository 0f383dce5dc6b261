"""Short names of kernels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.metrics.profiles.kernel_names import LONGEST, short_kernel, short_kernels


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
