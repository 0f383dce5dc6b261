"""Units inside the names of columns."""

from __future__ import annotations

import pytest

from perflog.formats.families.name_units import is_statistic, name_and_unit, split_unit, unit_of_operations


@pytest.mark.parametrize(
    ("name", "without_unit", "unit"),
    [
        ("usec/xfer", "time per xfer", "us"),
        ("AIC µs/step", "AIC time per step", "µs"),
        ("time us/call", "time per call", "us"),
        ("time_s_per_step", "time_per_step", "s"),
        ("Step Time (x) us/call", "Step Time (x) time per call", "us"),
        ("s/it", "time per it", "s"),
        ("s/w", "s/w", ""),
        ("tok_s_per_watt", "tok_s_per_watt", ""),
        ("tok_s_per_gpu", "tok_per_s_per_gpu", "tok/s"),
        ("ms/s", "ms/s", ""),
        ("GB/s/link", "GB/s/link", ""),
        ("TFLOP/s/GPU", "TFLOP/s/GPU", "TFLOP/s"),
        ("busbw_gbs", "busbw", "GB/s"),
        ("mean_mbytes_per_sec", "mean", "MB/s"),
        ("train_gbs", "train_gbs", ""),  # a batch size
        ("tok/s/gpu", "tok_per_s/gpu", "tok/s"),
        ("Output Tokens Per Second Mdn", "Output Tokens_per_s Mdn", "tok/s"),
        ("Core Temperature (Celsius Degree)", "Core Temperature", "°C"),
        ("mfu(%)", "mfu", "%"),
        ("VRAM%", "VRAM", "%"),
        ("%util", "util", "%"),
        ("size (B)", "size", "B"),
        ("mAP50(B)", "mAP50(B)", ""),
        ("x (5)", "x (5)", ""),
        ("a [us]", "a", "us"),
        ("ttft_ms.p50", "ttft.p50", "ms"),
        ("elapsed_per_ms", "elapsed_per_ms", ""),
        ("StepTimeMs", "StepTime", "ms"),
        ("memGiB", "mem", "GiB"),
        ("power_kw.avg", "power.avg", "kW"),
        ("loss_j", "loss_j", ""),
        ("energy_j", "energy", "J"),
        ("Energy (J/token)", "Energy_per_token", "J"),
        ("J/token", "energy_per_token", "J"),
        ("tok/J", "tok_per_J", ""),
        ("out t/s", "out t/s", "tok/s"),
        ("img_sec", "img_sec", ""),  # a time or a rate
        ("bandwidth_gbs", "bandwidth", "GB/s"),
        ("tflops", "tflops", "TFLOP/s"),
        ("gpu tflops", "gpu tflops", "TFLOP/s"),
        ("total tflops", "total tflops", ""),  # may be all work
        ("sum", "sum", ""),
        ("time", "time", ""),
    ],
)
def test_a_unit_in_a_name(name: str, without_unit: str, unit: str) -> None:
    assert name_and_unit(name) == (without_unit, unit)


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("Total FLOPs", "GFLOP/s", "GFLOP"),
        ("Total FLOPS", "GFLOP/s", "GFLOP/s"),  # may be a rate
        ("Train FLOPs per GPU step", "TFLOP/s", "TFLOP"),
        ("TFLOPS per GPU", "TFLOP/s", "TFLOP/s"),
        ("flops_per_token", "s", "s"),
    ],
)
def test_numbers_of_operations(name: str, unit: str, expected: str) -> None:
    assert unit_of_operations(name, unit) == expected


def test_a_unit_in_brackets_is_that_of_a_column() -> None:
    assert [split_unit(name) for name in ("a (ms)", " a ", "a_ms", "a (x)", "a%")] == [
        ("a", "ms"), ("a", ""), ("a_ms", ""), ("a (x)", ""), ("a", "%")
    ]  # fmt: skip


def test_a_long_name_has_no_unit() -> None:
    assert name_and_unit("x" * 997 + "_ms") == ("x" * 997, "ms") and name_and_unit("x" * 998 + "_ms")[1] == ""


def test_names_of_statistics() -> None:
    assert all(map(is_statistic, ("mean", "P99", "p99.9", "max"))) and not any(map(is_statistic, ("x", "means", "")))
