"""What a log says first: what runs, with what, on what."""

from __future__ import annotations

import os
import platform
from datetime import datetime

import torch
import torch.distributed as dist

from perflog import __version__
from perflog.trainer.cluster import Cluster
from perflog.trainer.lines import Lines
from perflog.trainer.recipes import Job


def describe(lines: Lines, job: Job, cluster: Cluster, matmul_parameters: int, pipeline: bool = False) -> None:
    """Print the lines above the steps. In a pipeline ranks are stages, else each has its own data."""
    _run(lines, job, cluster)
    _model(lines, job, matmul_parameters)
    lines.once(
        "batch",
        tokens_per_rank=job.sizes.tokens,
        sequence_length=job.sizes.sequence_length,
        data_ranks=1 if pipeline else cluster.world,
        stages=cluster.world if pipeline else 1,
        micro_batches=job.sizes.micro_batches,
    )
    lines.once("rate", convention="palm")
    dist.barrier()
    lines.write("hardware", rank=cluster.rank, hardware=cluster.hardware)
    dist.barrier()


def _run(lines: Lines, job: Job, cluster: Cluster) -> None:
    lines.once("begin", recipe=job.recipe, variant=job.variant, place=job.place, places=job.places)
    lines.once(
        "setup",
        world_size=cluster.world,
        device=cluster.device.type,
        dtype=job.dtype,
        seed=job.seed,
        steps=job.steps,
        warmup_steps=job.warmup_steps,
    )
    lines.once(
        "start",
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        backend=dist.get_backend(),
        cores=os.cpu_count() or 1,
    )
    lines.once(
        "versions",
        perflog_version=__version__,
        python_version=platform.python_version(),
        torch_version=torch.__version__,
        cuda_version=torch.version.cuda or "none",
    )


def _model(lines: Lines, job: Job, matmul_parameters: int) -> None:
    sizes = job.sizes
    lines.once(
        "model",
        model=job.model,
        layers=sizes.layers,
        model_dim=sizes.model_dim,
        hidden_size=sizes.hidden_size,
        heads=sizes.heads,
        head_dim=sizes.head_dim,
        vocabulary=sizes.vocabulary,
        matmul_parameters=matmul_parameters,
    )
    if job.strategy != "dense":  # figures that the strategy does not use are 0
        lines.once(
            "experts",
            strategy=job.strategy,
            num_local_experts=sizes.experts_per_rank,
            top_k=sizes.top_k,
            capacity_factor=sizes.capacity_factor if job.strategy == "padded" else 0.0,
            shadows=sizes.shadows if job.strategy == "shadow" else 0,
        )
