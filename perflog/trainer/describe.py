"""What a log says first: what runs, with what, on what."""

from __future__ import annotations

import platform

import torch
import torch.distributed as dist

from perflog import __version__
from perflog.template import Value
from perflog.trainer.cluster import Cluster
from perflog.trainer.lines import Lines
from perflog.trainer.recipes import Job


def describe(lines: Lines, job: Job, cluster: Cluster, matmul_parameters: int, pipeline: bool = False) -> None:
    """Print the lines above the steps. In a pipeline ranks are stages, else each has its own data."""
    for name, values in _said(job, cluster, matmul_parameters, pipeline):
        lines.once(name, **values)
    dist.barrier()
    lines.write("hardware", rank=cluster.rank, hardware=cluster.hardware)
    dist.barrier()


def _said(job: Job, cluster: Cluster, matmul_parameters: int, pipeline: bool) -> list[tuple[str, dict[str, Value]]]:
    sizes, place = job.sizes, {"place": job.place, "places": job.places}
    said: list[tuple[str, dict[str, Value]]] = [
        ("begin", {"recipe": job.recipe, "variant": job.variant, **place}),
        (
            "setup",
            {
                "world_size": cluster.world,
                "device": cluster.device.type,
                "dtype": job.dtype,
                "seed": job.seed,
                "steps": job.steps,
                "warmup_steps": job.warmup_steps,
            },
        ),
        (
            "versions",
            {
                "perflog_version": __version__,
                "python_version": platform.python_version(),
                "torch_version": torch.__version__,
                "cuda_version": torch.version.cuda or "none",
            },
        ),
        (
            "model",
            {
                "model": job.model,
                "layers": sizes.layers,
                "model_dim": sizes.model_dim,
                "hidden_size": sizes.hidden_size,
                "heads": sizes.heads,
                "head_dim": sizes.head_dim,
                "vocabulary": sizes.vocabulary,
                "matmul_parameters": matmul_parameters,
            },
        ),
        (
            "batch",
            {
                "tokens_per_rank": sizes.tokens,
                "sequence_length": sizes.sequence_length,
                "data_ranks": 1 if pipeline else cluster.world,
                "stages": cluster.world if pipeline else 1,
                "micro_batches": sizes.micro_batches,
            },
        ),
        ("rate", {"convention": "palm"}),
    ]
    experts = [] if job.strategy == "dense" else [("experts", _experts(job))]
    return said[:4] + experts + said[4:]


def _experts(job: Job) -> dict[str, Value]:
    """Figures that the strategy does not use are 0."""
    sizes = job.sizes
    return {
        "strategy": job.strategy,
        "num_local_experts": sizes.experts_per_rank,
        "top_k": sizes.top_k,
        "capacity_factor": sizes.capacity_factor if job.strategy == "padded" else 0.0,
        "shadows": sizes.shadows if job.strategy == "shadow" else 0,
    }
