"""Position of this process among the ranks: its number, device, process group. Without torchrun it is rank 0 of 1."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from msgspec import Struct

from perflog.errors import UsageError
from perflog.units import count

TIMEOUTS = {"nccl": timedelta(minutes=3), "gloo": timedelta(minutes=30)}
"""Time limit of a collective, by backend: if a rank dies, the others do not wait forever. Gloo notices the closed
connection and needs no limit; its 30 minutes leave room for a step of a large model on a CPU, which may take minutes.
"""


class RankContext(Struct, frozen=True):
    """Position of this process among all ranks: its rank, the number of ranks, and its device."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def first_on_node(self) -> bool:
        """Whether this is the first rank of its node."""
        return int(os.environ.get("LOCAL_RANK", "0")) == 0

    @property
    def node(self) -> int:
        """Number of the node, from 0."""
        return int(os.environ.get("GROUP_RANK", "0"))

    @property
    def hardware(self) -> str:
        """Name of the device: of the GPU, or of the CPU with its number of threads."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        threads = torch.get_num_threads()
        return f"{_cpu_name()}, {count(threads, 'thread')}"


def choose_device(device: str | None) -> torch.device:
    """Return the device of this rank: the requested one, else a GPU if there is one.

    Raises:
        UsageError: if there are fewer GPUs than ranks on this node.
    """
    local, ranks = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    gpus = torch.cuda.device_count()
    if device == "cpu" or (device is None and not gpus):
        return torch.device("cpu")
    if not gpus:
        raise UsageError("there is no CUDA device", help="take --device cpu, or a PyTorch that is built for CUDA")
    if ranks > gpus:
        raise UsageError(
            f"{ranks} ranks on this node, but {count(gpus, 'GPU')}", help=f"start {gpus}, or take --device cpu"
        )
    return torch.device("cuda", local)


@contextmanager
def join_process_group(device: torch.device) -> Iterator[RankContext]:
    """Join the process group and leave it at the end: NCCL between GPUs, Gloo between CPUs."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    options: dict[str, object] = (
        {} if "RANK" in os.environ else {"store": _single_rank_store(), "rank": 0, "world_size": 1}
    )
    options |= {"device_id": device} if device.type == "cuda" else {}
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=TIMEOUTS[backend], **options)
    try:
        yield RankContext(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()


def patient_group() -> Any:
    """Return a group of all ranks in which they may wait long for one that works alone. Every rank must call it.

    In a collective of NCCL they would run into its time limit while rank 0 writes a large profile.
    """
    if dist.get_world_size() == 1 or dist.get_backend() != "nccl":
        return None  # the group of all
    return dist.new_group(backend="gloo", timeout=TIMEOUTS["gloo"])


def _single_rank_store() -> Any:
    """Return a store in this process, for a process group of one rank."""
    return dist.HashStore()  # type: ignore[attr-defined]  # public, but not named in __all__


def _cpu_name() -> str:
    """Return the name of the CPU."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        name = ""
    return name or platform.processor() or platform.machine()
