"""What a log says first: what runs, with what, on what."""

from __future__ import annotations

import os
import platform
from datetime import datetime

import torch
import torch.distributed as dist

from perflog import __version__
from perflog.formats.template import Value
from perflog.trainer.cluster import Cluster
from perflog.trainer.lines import Lines
from perflog.trainer.recipes import Job


def describe(lines: Lines, job: Job, cluster: Cluster, matmul_parameters: int, pipeline: bool = False) -> None:
    """Print the lines above the steps. In a pipeline ranks are stages, else each has its own data.

    On several nodes the first rank of each prints them: a node may have a log of its own.
    """
    _begin(lines, job, cluster)
    _run(lines, job, cluster)
    _model(lines, job, cluster, matmul_parameters)
    lines.each(
        "batch",
        cluster.first,
        tokens_per_rank=job.sizes.tokens,
        sequence_length=job.sizes.sequence_length,
        data_ranks=1 if pipeline else cluster.world,
        stages=cluster.world if pipeline else 1,
        micro_batches=job.sizes.micro_batches,
    )
    lines.each("rate", cluster.first, convention="palm")
    dist.barrier()
    lines.write("hardware", rank=cluster.rank, hardware=cluster.hardware)
    dist.barrier()


def _begin(lines: Lines, job: Job, cluster: Cluster) -> None:
    """Where the run begins. Other nodes have a line that begins one in their own log, and none in a log of all nodes:
    there it stands at the begin of rank 0, before any line of the run.
    """
    which: dict[str, Value] = {"recipe": job.recipe, "variant": job.variant, "place": job.place, "places": job.places}
    if cluster.first and cluster.rank:
        lines.write("node", rank=cluster.rank, node=cluster.node, **which)
    dist.barrier()
    lines.once("begin", **which)
    dist.barrier()


def _run(lines: Lines, job: Job, cluster: Cluster) -> None:
    lines.each(
        "setup",
        cluster.first,
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
    lines.each(
        "versions",
        cluster.first,
        perflog_version=__version__,
        python_version=platform.python_version(),
        torch_version=torch.__version__,
        cuda_version=torch.version.cuda or "none",
    )


def _model(lines: Lines, job: Job, cluster: Cluster, matmul_parameters: int) -> None:
    sizes = job.sizes
    lines.each(
        "model",
        cluster.first,
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
        lines.each(
            "experts",
            cluster.first,
            strategy=job.strategy,
            num_local_experts=sizes.experts_per_rank,
            top_k=sizes.top_k,
            capacity_factor=sizes.capacity_factor if job.strategy == "padded" else 0.0,
            shadows=sizes.shadows if job.strategy == "shadow" else 0,
        )
