"""The ranks: who this process is, on which device, and the process group. Without torchrun it is rank 0 of 1."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from perflog.errors import UsageError

TIMEOUTS = {"nccl": timedelta(minutes=3), "gloo": timedelta(minutes=30)}
"""After which a collective that other ranks do not join is an error: a rank that is lost leaves nobody waiting. Gloo
sees that the connection is closed and needs no limit; a step of a large model on a CPU may take minutes.
"""


@dataclass(frozen=True)
class RankContext:
    """The process among all of them."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether it is the first of its node."""
        return int(os.environ.get("LOCAL_RANK", "0")) == 0

    @property
    def node(self) -> int:
        """Which node it is on, from 0."""
        return int(os.environ.get("GROUP_RANK", "0"))

    @property
    def hardware(self) -> str:
        """The device's own name."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        threads = torch.get_num_threads()
        return f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"


def choose_device(device: str | None) -> torch.device:
    """The device of this rank: the one asked for, else a GPU where there is one. Raises UsageError for too few GPUs."""
    local, ranks = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    gpus = torch.cuda.device_count()
    if device == "cpu" or (device is None and not gpus):
        return torch.device("cpu")
    if not gpus:
        raise UsageError("no CUDA device is there", help="take --device cpu, or a PyTorch that is built for CUDA")
    if ranks > gpus:
        raise UsageError(f"{ranks} ranks on this node, but {gpus} GPUs", help=f"start {gpus}, or take --device cpu")
    return torch.device("cuda", local)


@contextmanager
def join_process_group(device: torch.device) -> Iterator[RankContext]:
    """Join the process group, and leave it at the end: NCCL between GPUs, Gloo between CPUs."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    own: dict[str, Any] = {} if "RANK" in os.environ else {"store": _alone(), "rank": 0, "world_size": 1}
    own |= {"device_id": device} if device.type == "cuda" else {}
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=TIMEOUTS[backend], **own)
    try:
        yield RankContext(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()


def _alone() -> Any:
    """What a process group of one rank meets in."""
    return dist.HashStore()  # type: ignore[attr-defined]  # public, but not named in __all__


def _processor() -> str:
    """Name of the CPU."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            found = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        found = ""
    return found or platform.processor() or platform.machine()
