"""Facts of a job in lines above its results."""

from __future__ import annotations

import pytest

from perflog.formats.families.header_facts import facts_of, may_head_facts

H100 = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("World size: 8", {"world_size": 8}),
        ("[INFO] world_size=8, backend=nccl", {"world_size": 8}),
        ("Config: backend=nccl world_size=8 dtype=bfloat16", {"world_size": 8, "dtype": "bfloat16"}),
        ("2026-03-01 10:00:00,123 - INFO - Running on 8 GPUs", {"num_gpus": 8}),
        ("  Transport: NVLink    Ranks: 2    GPUs: cuda:0 <-> cuda:1", {"world_size": 2}),
        ("| Number of GPUs | 16 |", {"num_gpus": 16}),
        ("Running with 8 MPI ranks", {"world_size": 8}),
        (f"Using 8 x {H100}", {"num_gpus": 8, "device": H100}),
        ("Sweep (MI350X, 8 GPUs, torch.bfloat16)", {"device": "MI350X", "num_gpus": 8, "dtype": "bfloat16"}),
        ("GPU                     NVIDIA B200", {"device": "NVIDIA B200"}),
        (f"Device: cuda:0 ({H100})", {"device": H100}),
        ("Machine: NVIDIA GB200 | CUDA 12.9 | PyTorch 2.9.0", {"device": "NVIDIA GB200"}),
        ("Accelerator: Intel(R) Data Center GPU Max 1550", {"device": "Intel(R) Data Center GPU Max 1550"}),
        (f"Device 0: {H100}", {"device": H100}),
        (f"GPU 11: {H100}", {"device": H100}),
        (f"Hardware: {H100} x 8", {"device": H100, "num_gpus": 8}),
        ("Devices: 4 x TPU v5e", {"device": "TPU v5e"}),  # no GPUs
        ("Model: Qwen/Qwen3-32B-FP8 (is_moe: False)", {"model": "Qwen/Qwen3-32B-FP8"}),
        ("model: gpt2 (124M)", {"model": "gpt2"}),
        ("with matrix dataset A , Data type:  float32", {"dtype": "float32"}),
        ("Batch size per GPU: 4", {"batch_size_per_gpu": 4}),
    ],
)
def test_facts(text: str, facts: dict[str, int | str]) -> None:
    assert {fact.name: fact.value for fact in facts_of(text)} == facts
    assert [text[fact.begin : fact.end] for fact in facts_of(text)] == [str(fact.value) for fact in facts_of(text)]


@pytest.mark.parametrize(
    "text",
    [
        "This change saved 8 GPUs worth of time", "Requires 8 GPUs", "Previous run: world_size: 16", "Max ranks: 1024",
        "    world_size: int = 8", "config.world_size = 16", "  --world-size N   number of ranks: 8 (default)",
        "Expected world size: 16", "GPUs: 0,1,2,3", "GPUs: 8/16", "GPU: 45 %", "GPU: 3", "Ranks: 0-7",
        "World size: 8, 16",
        " rate: 4.4E-06 | global batch size:   128 | lm loss: 5.29E+00 | grad norm: 7.326 |",  # torn off
        "num_gpus: 0", "world_size: -1", "GPUs per node: 8", "Found 8 GPUs", "8 GPUs", "8 GPUs | 12.3 ms", "Device: 0",
        "NVIDIA H100 | 12.3 ms",
        "NVIDIA CUDA 12", "NVIDIA TensorRT 10", "AMD EPYC 7763", "machine: Intel Xeon 8480", "GPU 3: 8",
        "Compared with NVIDIA A100: 1.2x", "Recommended device: NVIDIA H100",
        "Model: training", "Model: fp8", "model: out/step-5.pt", "Model: 1.2.3",
        "model name\t: Intel(R) Xeon(R) 8480+", "precision: 0.98",
        "tensor([1.0], dtype=torch.float32)", "if dtype == torch.float16:", "LoRA rank: 8", "Number of processes: 8",
        "World size: 8" + " " * 240,
    ],
)  # fmt: skip
def test_what_is_no_fact(text: str) -> None:
    assert facts_of(text) == ()


@pytest.mark.parametrize(
    ("text", "is_of_job"),
    [("Configuration:", True), ("=== Setup ===", True), ("critic:", False), ("Baseline config:", False), ("", True)],
)
def test_lines_above_indented_facts(text: str, is_of_job: bool) -> None:
    assert may_head_facts(text) == is_of_job
