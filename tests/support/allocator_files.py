"""Snapshots of the allocator as torch.cuda.memory._snapshot builds them: plain data, innermost frame first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

START_US = 1_700_000_000_000_000
LIB = "/opt/venv/lib/python3.11/site-packages/torch"
FRAMES = {
    "forward": [
        (f"{LIB}/nn/modules/linear.py", 125, "forward"), (f"{LIB}/nn/modules/module.py", 1750, "_call_impl"),
        ("/app/model.py", 88, "forward"), ("/app/train.py", 40, "main"),
    ],
    "optimizer": [
        (f"{LIB}/optim/adamw.py", 120, "_init_group"), (f"{LIB}/optim/optimizer.py", 480, "wrapper"),
        ("/app/train.py", 52, "main"),
    ],
    "backward": [
        (f"{LIB}/autograd/graph.py", 824, "_engine_run_backward"), (f"{LIB}/_tensor.py", 626, "backward"),
        ("/app/train.py", 47, "main"),
    ],
    "native": [("??", 0, "cudaMalloc"), ("/src/c10/cuda/CUDACachingAllocator.cpp", 0, "malloc")],
}  # fmt: skip


def frames(name: str | None) -> list[dict[str, Any]]:
    """The stack of a name."""
    return [{"filename": file, "line": line, "name": function} for file, line, function in FRAMES.get(name or "", [])]


def block(
    size: int, stack: str | None = None, state: str = "active_allocated", asked: int | None = None
) -> dict[str, Any]:
    """A block of a segment."""
    return {"address": 0, "size": size, "requested_size": asked or size, "state": state, "frames": frames(stack)}


def segment(*blocks: dict[str, Any], device: int = 0, pool: tuple[int, int] = (0, 0)) -> dict[str, Any]:
    """A segment that its blocks fill."""
    base = 0x7F3A00000000
    for each in blocks:
        each["address"], base = base, base + each["size"]
    allocated = [b["size"] for b in blocks if b["state"] == "active_allocated"]
    return {
        "device": device, "address": 0x7F3A00000000, "total_size": sum(b["size"] for b in blocks),
        "allocated_size": sum(allocated), "active_size": sum(allocated), "requested_size": sum(allocated), "stream": 0,
        "segment_type": "large", "segment_pool_id": pool, "is_expandable": False, "frames": [], "blocks": list(blocks),
    }  # fmt: skip


def snapshot(*segments: dict[str, Any], failed: Sequence[int] = ()) -> dict[str, Any]:
    """A snapshot, with the sizes of allocations that failed on device 0 in its history."""
    first = {"action": "alloc", "addr": 0x7F3A00000000, "size": 512, "stream": 0, "time_us": START_US, "frames": []}
    failure = {"action": "oom", "addr": 0, "device_free": 1 << 20, "stream": 0, "time_us": START_US + 10**6}
    history = [first, *(failure | {"size": size, "frames": frames("forward")} for size in failed)]
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False}
    return {
        "segments": list(segments),
        "device_traces": [history],
        "allocator_settings": settings,
        "external_annotations": [],
    }
