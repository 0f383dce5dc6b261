"""Dumps of PyTorch's flight recorder, made by hand: pickles of plain data, or JSON."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ENTRY = {
    "record_id": 7, "pg_id": 1, "process_group": ("5", "TENSOR"), "thread_name": "python3", "thread_id": "4711",
    "collective_seq_id": 12, "p2p_seq_id": 0, "op_id": 14, "profiling_name": "nccl:all_reduce",
    "time_created_ns": 1_700_000_000_123_456_789, "input_sizes": [[2, 3], [4]], "input_dtypes": ["BFloat16", "Float"],
    "output_sizes": [[2, 3], [4]], "output_dtypes": ["BFloat16", "Float"], "state": "scheduled",
    "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": False, "timeout_ms": 600_000,
    "is_p2p": False,
}  # fmt: skip


def call(number: int, name: str = "all_reduce", state: str = "scheduled", **more: Any) -> dict[str, Any]:
    """An entry: the call of a collective in group 5, whose number in the process is 1."""
    return ENTRY | {"collective_seq_id": number, "profiling_name": f"nccl:{name}", "state": state} | more


def transfer(name: str, number: int = 1, **more: Any) -> dict[str, Any]:
    """An entry: a point-to-point call in group 5, such as `send 0->1`, by places in the group."""
    return call(3, name, p2p_seq_id=number, is_p2p=True, **more)


def dump(
    groups: Mapping[str, tuple[str, Sequence[int]]],
    status: Mapping[str, tuple[int, int]],
    entries: Sequence[Any] = (),
    **more: Any,
) -> dict[str, Any]:
    """The dump of a rank: groups by name with purpose and ranks; by number in the process the calls of each group."""
    return {
        "version": "2.9", "nccl_version": "2.27.3",
        "pg_config": {n: {"name": n, "desc": p, "ranks": str(list(ranks))} for n, (p, ranks) in groups.items()},
        "pg_status": {
            number: {"last_enqueued_collective": enqueued, "last_started_collective": -1,
                     "last_completed_collective": completed}
            for number, (enqueued, completed) in status.items()
        },
        "entries": list(entries),
    } | more  # fmt: skip


def job(
    folder: Path, counts: Mapping[int, tuple[int, int]], entries: Mapping[int, Sequence[Any]], as_json: bool = False
) -> Path:
    """Write the dumps of ranks that share one group, 5, of all ranks in `entries`; each also has a group of its own."""
    folder.mkdir(exist_ok=True)
    for rank, (enqueued, completed) in counts.items():
        groups = {"5": ("TENSOR", sorted(entries)), str(10 + rank): ("OWN", [rank])}
        content = dump(groups, {"1": (enqueued, completed), "2": (3, 3)}, entries[rank])
        path = folder / f"nccl_trace_rank_{rank}"
        path.write_bytes(json.dumps(content).encode() if as_json else pickle.dumps(content, 2))
    return folder
