"""The lines at the start of a run: model, settings, versions, hardware."""

from __future__ import annotations

import os
import platform
from datetime import datetime

import torch
import torch.distributed as dist

from perflog.formats.template import Value
from perflog.trainer.log_writer import LogWriter
from perflog.trainer.rank_context import RankContext
from perflog.trainer.recipes import RunSpec
from perflog.version import installed_version


def print_run_header(
    log: LogWriter, spec: RunSpec, context: RankContext, matmul_parameters: int, pipeline: bool = False
) -> None:
    """Print the lines above the steps. In a pipeline the ranks are stages, else each rank has its own data.

    On several nodes the first rank of each node prints them, because a node may have its own log.
    """
    _print_begin(log, spec, context)
    _print_settings(log, spec, context)
    _print_model(log, spec, context, matmul_parameters)
    log.write_if(
        "batch",
        context.first_on_node,
        tokens_per_rank=spec.sizes.tokens,
        sequence_length=spec.sizes.sequence_length,
        data_ranks=1 if pipeline else context.world_size,
        stages=context.world_size if pipeline else 1,
        micro_batches=spec.sizes.micro_batches,
    )
    log.write_if("rate", context.first_on_node, convention="palm")
    dist.barrier()
    log.write("hardware", rank=context.rank, hardware=context.hardware)
    dist.barrier()


def _print_begin(log: LogWriter, spec: RunSpec, context: RankContext) -> None:
    """Print where the run begins. Other nodes print a line that begins the run in a log of their own.

    In a log of all nodes that line begins no run: it is at the begin line of rank 0, before any line of the run.
    """
    identity: dict[str, Value] = {
        "recipe": spec.recipe,
        "variant": spec.variant,
        "place": spec.place,
        "places": spec.places,
    }
    if context.first_on_node and context.rank:
        log.write("node", rank=context.rank, node=context.node, **identity)
    dist.barrier()
    log.write_once("begin", **identity)
    dist.barrier()


def _print_settings(log: LogWriter, spec: RunSpec, context: RankContext) -> None:
    log.write_if(
        "setup",
        context.first_on_node,
        world_size=context.world_size,
        device=context.device.type,
        dtype=spec.dtype,
        seed=spec.seed,
        steps=spec.steps,
        warmup_steps=spec.warmup_steps,
    )
    log.write_if("parameters", context.first_on_node, parameters=spec.parameters)
    log.write_once(
        "start",
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        backend=dist.get_backend(),
        cores=os.cpu_count() or 1,
    )
    log.write_if(
        "versions",
        context.first_on_node,
        perflog_version=installed_version(),
        python_version=platform.python_version(),
        torch_version=torch.__version__,
        cuda_version=torch.version.cuda or "none",
    )


def _print_model(log: LogWriter, spec: RunSpec, context: RankContext, matmul_parameters: int) -> None:
    sizes = spec.sizes
    log.write_if(
        "model",
        context.first_on_node,
        model=spec.model,
        layers=sizes.layers,
        model_dim=sizes.model_dim,
        hidden_size=sizes.hidden_size,
        heads=sizes.heads,
        head_dim=sizes.head_dim,
        vocabulary=sizes.vocabulary,
        matmul_parameters=matmul_parameters,
    )
    if spec.strategy != "dense":  # settings that the strategy does not use are 0
        log.write_if(
            "experts",
            context.first_on_node,
            strategy=spec.strategy,
            num_local_experts=sizes.experts_per_rank,
            activation=spec.moe.activation,
            expert_matrices=spec.moe.expert_matrices,
            top_k=sizes.top_k,
            capacity_factor=sizes.capacity_factor if spec.strategy == "padded" else 0.0,
            shadows=sizes.shadows if spec.strategy == "shadow" else 0,
            shared_experts=spec.moe.shared_experts,
            overlap=spec.moe.overlap,
        )
        log.write_if(
            "router",
            context.first_on_node,
            scores=spec.moe.scores,
            balance_coefficient=spec.moe.balance_coefficient,
            z_coefficient=spec.moe.z_coefficient,
            bias_rate=spec.moe.bias_rate,
        )
