"""The peak table: what its rows are called, that its figures hold together, and that nothing unknown gets a number."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.errors import UsageError
from perflog.metrics.hardware import (
    GPU_MODELS,
    PRECISIONS,
    GpuModel,
    are_other_devices,
    bandwidth_tbs,
    gpu_model,
    precision,
)


@pytest.mark.parametrize("row", GPU_MODELS, ids=lambda row: row.name)
def test_a_row_is_found_by_its_name_and_has_a_source(row: GpuModel) -> None:
    assert gpu_model(row.name) is gpu_model(row.name.upper()) is gpu_model(row.name.replace(" ", "-")) is row
    assert row.source
    assert set(row.peaks_tflops) <= set(PRECISIONS)


@pytest.mark.parametrize("row", GPU_MODELS, ids=lambda row: row.name)
def test_the_figures_of_a_row_hold_together(row: GpuModel) -> None:
    """A tensor core is as fast in bf16 as in fp16, twice as fast in fp8 and at most half as fast in TF32. Dense figures
    and those with sparsity differ by two: a mix-up would show here.
    """
    half = row.peaks_tflops["fp16"]
    assert row.peaks_tflops.get("bf16", half) == half
    assert row.peaks_tflops.get("fp8", 2 * half) == pytest.approx(2 * half, rel=0.02)
    assert row.peaks_tflops.get("tf32", half / 2) == pytest.approx(half / 2, rel=0.03)
    assert row.peaks_tflops.get("fp32", 0) <= row.peaks_tflops.get("tf32", half)


@pytest.mark.parametrize(
    ("name", "lanes", "ghz", "bits", "gbits"),
    [
        ("V100 SXM", 5120, 1.53, 4096, 1.752), ("V100 PCIe", 5120, 1.38, 4096, 1.752),
        ("V100S PCIe", 5120, 1.597, 4096, 2.215), ("T4", 2560, 1.59, 256, 10), ("A100", 6912, 1.41, None, None),
        ("A40", 10752, 1.74, 384, 14.5), ("A30", 3584, 1.44, 3072, 2.43), ("A10", 9216, 1.695, 384, 12.5),
        ("RTX A6000", 10752, 1.8, 384, 16), ("RTX 3090", 10496, 1.695, 384, 19.5), ("RTX 4090", 16384, 2.52, 384, 21),
        ("L4", 7424, 2.04, 192, 12.5), ("L40", 18176, 2.49, 384, 18), ("L40S", 18176, 2.52, 384, 18),
        ("H100 SXM", 16896, 1.98, 5120, 5.234), ("H100 PCIe", 14592, 1.755, 5120, 3.19),
        ("MI300X", 304 * 128, 2.1, 8192, 5.2), ("MI325X", 304 * 128, 2.1, 8192, 6),
    ],
)  # fmt: skip
def test_peaks_of_lanes_and_bandwidths_of_pins(
    name: str, lanes: int, ghz: float, bits: int | None, gbits: float | None
) -> None:
    """Each lane multiplies and adds in a cycle of the boost clock; each pin of the memory moves so many Gbit/s."""
    model = gpu_model(name)
    assert model.peaks_tflops["fp32"] == pytest.approx(2 * lanes * ghz / 1e3, rel=0.01)
    expected = None if bits is None or gbits is None else bits * gbits / 8e3
    assert model.bandwidth_tbs == (expected and pytest.approx(expected, rel=0.025))


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("Tesla V100-SXM2-32GB", "V100 SXM"),
        ("Tesla V100-PCIE-16GB", "V100 PCIe"),
        ("Tesla V100S-PCIE-32GB", "V100S PCIe"),
        ("Tesla T4", "T4"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("A100-PCIE-40GB", "A100"),
        ("NVIDIA A40", "A40"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("H100-SXM5", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_names_as_drivers_print_them(printed: str, name: str) -> None:
    assert gpu_model(printed).name == name


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("A100", "bf16", 312),
        ("H100 SXM", "bf16", 989),
        ("H100 PCIe", "bf16", 756),
        ("H100 NVL", "bf16", 835),
        ("H200", "bf16", 989),
        ("H20", "bf16", 148),
        ("V100 SXM", "fp16", 125),
        ("MI300X", "bf16", 1307),
        ("MI355X", "bf16", 2500),
        ("B200", "bf16", 2250),
        ("GB200", "bf16", 2500),
        ("RTX A6000", "bf16", 154.85),
    ],
)
def test_figures_of_published_tables(name: str, dtype: str, tflops: float) -> None:
    assert gpu_model(name).peak_tflops(dtype) == pytest.approx(tflops, rel=1e-3)


@pytest.mark.parametrize(
    "name",
    ["NVIDIA RTX A1000", "NVIDIA RTX A4000", "NVIDIA GH200 480GB", "NVIDIA GeForce RTX 4090 Laptop GPU", "cuda:0", ""],
)
def test_a_relative_of_a_device_is_not_the_device(name: str) -> None:
    with pytest.raises(UsageError, match="is known"):
        gpu_model(name)


@pytest.mark.parametrize(("name", "said"), [("H100", "H100 SXM, H100 PCIe, H100 NVL"), ("V100", "V100 SXM, V100 PCIe")])
def test_a_name_that_is_several_devices_is_an_error(name: str, said: str) -> None:
    with pytest.raises(UsageError, match="several") as caught:
        gpu_model(name)
    assert said in caught.value.help


def test_an_unknown_device_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        gpu_model("MI300")
    assert caught.value.reason == "no peak of `MI300` is known"
    assert "`MI300X`" in caught.value.help


@given(st.text(max_size=30))
def test_any_other_name_is_one_clear_error(name: str) -> None:
    with suppress(UsageError):
        assert gpu_model(name) in GPU_MODELS


@pytest.mark.parametrize(
    ("dtype", "known"),
    [("float16", "fp16"), ("torch.bfloat16", "bf16"), ("FP32", "fp32"), ("TF32", "tf32"), ("float8_e4m3fn", "fp8")],
)
def test_dtypes_as_logs_print_them(dtype: str, known: str) -> None:
    assert precision(dtype) == known
    assert gpu_model("H100 SXM").peak_tflops(dtype) == gpu_model("H100 SXM").peaks_tflops[known]


def test_a_dtype_without_a_figure_is_an_error() -> None:
    with pytest.raises(UsageError, match="no peak of A100 is known for `float8_e4m3fn`"):
        gpu_model("A100").peak_tflops("float8_e4m3fn")
    with pytest.raises(UsageError, match="for `int7`") as caught:
        gpu_model("A100").peak_tflops("int7")
    assert caught.value.help == "there are: fp32, tf32, bf16, fp16"
    with pytest.raises(UsageError) as caught:
        gpu_model("A100").peak_tflops("flaot16")
    assert caught.value.help == "did you mean `float16`?"


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("H100 SXM",), 3.35),
        (("A100",), None),  # of 40 or of 80 GB
        (("A100", "NVIDIA A100-SXM4-80GB"), 2.039),
        (("A100", None, "A100-SXM4-40GB"), 1.555),
        (("H100 SXM", "NVIDIA A100-SXM4-80GB"), 3.35),  # another model
        (("T4", "80GB"), gpu_model("T4").bandwidth_tbs),
    ],
)
def test_the_bandwidth_of_a_model_depends_on_its_memory(names: tuple[str | None, ...], found: float | None) -> None:
    assert bandwidth_tbs(*names) == found


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("A100 SXM", "Tesla V100-SXM2", True), ("H100", "NVIDIA H100 NVL", False), ("A100 SXM", "A100 PCIe", True),
        ("NVIDIA A100", "A100", False), ("cuda:0", "A100", False), ("cpu", "A100", True), ("cpu", "CPU", False),
    ],
)  # fmt: skip
def test_names_of_other_devices(one: str, other: str, differ: bool) -> None:
    assert are_other_devices(one, other) == are_other_devices(other, one) == differ
