"""Lines with one case of a benchmark before its results."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog
from perflog.formats.families.case_lines import case_line
from perflog.formats.families.whole_lines import WholeLineFamily
from perflog.formats.registry import known


def read(text: str) -> dict[str, object] | None:
    """The numbers of a line in base units, and its words, by name; None for another line."""
    (family,) = (x for x in known()["meters"].families if isinstance(x, WholeLineFamily) and x.name == "case")
    line = case_line(family.shape, text)
    if line is None:
        return None
    values = line.template.match(text.encode())
    assert values is not None
    named = {name: value for name, value in values.items() if name != "_"}
    units = line.unit
    return {
        line.key_of(name): round(float(value) * units[name].factor, 12) if name in units else value
        for name, value in named.items()
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("matmul 4096x512x64: 0.312 ms", {"shape": "4096x512x64", "matmul_time": 0.000312}),
        ("4096x4096: 440.1 TFLOPS", {"shape": "4096x4096", "tflops": 440.1}),
        ("seq_len 4096: 0.312 ms", {"seq_len": 4096, "time": 0.000312}),
        ("M=4096, N=8, K=16 -> 0.312 ms (440.1 TFLOPS)", {"M": 4096, "N": 8, "K": 16, "time": 312e-6, "tflops": 440.1}),
        ("batch size 32: 440.1 tokens/s", {"batch_size": 32, "tokens_per_s": 440.1}),
        ("allreduce 4KB: 25.1 us, 12.5 GB/s", {"size": 4000, "allreduce_time": 25.1e-6, "allreduce_bandwidth": 12.5}),
        ("flash-attn (seq 4096): 0.312 ms", {"seq": 4096, "flash_attn_time": 312e-6}),
        ("n=64: cublas 0.5 ms, triton 0.25 ms", {"n": 64, "cublas": 0.0005, "triton": 0.00025}),
        ("  4,096 tokens: 0.312 ms/token", {"tokens": 4096, "time_per_token": 312e-6}),
        ("matmul (64x8): 0.312 ms", {"case": "matmul", "shape": "64x8", "time": 0.000312}),
        ("softmax m=64, n=8: 0.312 ms", {"case": "softmax", "m": 64, "n": 8, "time": 0.000312}),
        ("batch=8, latency: 3.25 ms", {"batch": 8, "latency": 0.00325}),
        ("[INFO] [triton] gemm m=64: 0.25 ms", {"m": 64, "triton_gemm_time": 0.00025}),
        ("2024-01-02 10:00:00 INFO bench - dim 64: 0.25 ms", {"dim": 64, "time": 0.00025}),
    ],
)
def test_a_case_and_its_results(text: str, values: dict[str, object]) -> None:
    assert read(text) == values


@pytest.mark.parametrize(
    "text",
    [
        "Step 4096: 0.312 s", "epoch 3: 12.5 s", "Rank 12: 0.312 ms", "GPU 0: 440.1 GB/s",
        "Link 12: 26.5 GB/s", "Layer 12: 0.312 ms", "batch 64: 0.312 ms", "Query 12: 0.312 ms", "Loaded 64 rows: 0.3 s",
        "timeout 4096: 0.312 s", "size 64: timeout 3.5 s", "kernel 7: 0.312 ms", "gemm: 0.3 ms",
        "size 64: 3 s", "117: 0.312 ms", "size 64: 0.3 ms left", "size 64: 0.3", "size 64: 12 GB", "ETA 4096: 12.5 s",
    ],
)  # fmt: skip
def test_other_lines(text: str) -> None:
    assert read(text) is None


def test_cases_of_a_log_are_a_sweep(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("".join(f"seq_len {1 << k}: {0.01 * 2**k:.3f} ms, {100 + k}.5 TFLOPS\n" for k in range(7, 13)))
    table = perflog.metrics.cases(log)
    assert table[["over", "key", "cases", "max", "max_at"]].to_numpy().tolist() == [
        ["seq_len", "time", 6, 0.04096, "seq_len 4,096"], ["seq_len", "tflops", 6, 112.5, "seq_len 4,096"],
    ]  # fmt: skip
