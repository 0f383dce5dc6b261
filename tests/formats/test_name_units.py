"""Units inside the names of columns."""

from __future__ import annotations

import pytest

from perflog.formats.families.name_units import name_and_unit, unit_of_operations


@pytest.mark.parametrize(
    ("name", "without_unit", "unit"),
    [
        ("usec/xfer", "time per xfer", "us"),
        ("AIC µs/step", "AIC time per step", "µs"),
        ("time us/call", "time per call", "us"),
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
