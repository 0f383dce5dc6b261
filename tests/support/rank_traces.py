"""Traces of several ranks as PyTorch's profiler writes them, and their collectives by plain loops over the JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Event = dict[str, Any]

BASE_US = 4_622_809_000
BASE_NS = 1_790_857_026_000_000_000
ITEM = {"BFloat16": 2, "Float": 4}
KERNEL = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "_allgather_base": "ncclDevKernel_AllGather_RING_LL",
    "all_to_allv": "ncclDevKernel_SendRecv", "send": "ncclDevKernel_SendRecv", "recv": "ncclDevKernel_SendRecv",
}  # fmt: skip


class _Rank:
    """A rank at work: its clock in ns, and what its trace will hold."""

    def __init__(self, rank: int, offset: int) -> None:
        self.rank, self.offset, self.now, self.number = rank, offset, 0, 0
        self.seq: dict[str, int] = {}
        self.events: list[Event] = []

    def event(self, cat: str, name: str, start: int, end: int, **args: Any) -> None:
        ts = BASE_US + (start + self.offset) / 1000
        thread = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 100 + self.rank, "tid": 1}
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": (end - start) / 1000, "args": args} | thread
        )

    def kernel(self, name: str, start: int, end: int, **args: Any) -> None:
        """A kernel and the call that launched it."""
        self.number += 1
        self.event("cuda_runtime", "cudaLaunchKernel", start - 40, start - 20, correlation=self.number)
        self.event("kernel", name, start, end, device=self.rank, stream=7, correlation=self.number, **args)


def trace_job(
    seed: int, world: int = 4, steps: int = 4, late: int | None = None, offsets: Mapping[int, int] | None = None
) -> dict[int, list[Event]]:
    """The events of each rank of a job. Groups of two neighbours are all called `tp`.

    Args:
        seed: of the sizes and times.
        world: number of ranks, even.
        steps: number of steps.
        late: the rank whose forward takes longest, if any.
        offsets: how far the clock of a rank is ahead, in ns.
    """
    chance = random.Random(seed)
    ranks = [_Rank(rank, (offsets or {}).get(rank, 0)) for rank in range(world)]

    def compute(of: _Rank, name: str, range_name: str, length: int) -> None:
        idle = chance.randrange(100, 400)
        begin = of.now + idle
        of.event("user_annotation", range_name, begin - 60, begin + 10)
        of.kernel(name, begin, begin + length)
        of.now = begin + length

    def collective(
        members: Sequence[int], op: str, group: str, nelems: Mapping[int, tuple[int, int]], **args: Any
    ) -> None:
        began = {rank: ranks[rank].now + chance.randrange(80, 200) for rank in members}
        end = max(began.values()) + chance.randrange(400, 900)
        for rank in members:
            of = ranks[rank]
            of.seq[group] = of.seq.get(group, 0) + 1
            of.event("user_annotation", "exchange", began[rank] - 60, began[rank] + 10)
            elements_in, elements_out = nelems[rank]
            more = {key: value[rank] if isinstance(value, dict) else value for key, value in args.items()}
            of.kernel(
                KERNEL[op], began[rank], end, **{
                    "Collective name": op, "In msg nelems": elements_in, "Out msg nelems": elements_out,
                    "Group size": len(members), "dtype": "BFloat16", "Process Group Name": group,
                    "Process Group Ranks": str(list(members)), "Seq": of.seq[group],
                    "In split size": "[]", "Out split size": "[]",
                } | more,
            )  # fmt: skip
            of.now = end

    everyone = range(world)
    for number in range(steps):
        for of in ranks:
            compute(of, "sgemm", "forward", chance.randrange(1000, 1500) + 2500 * (of.rank == late))
        for first in range(0, world, 2):
            size = chance.randrange(10, 5000)
            collective([first, first + 1], "allreduce", "tp", dict.fromkeys((first, first + 1), (size, size)))
        rows = {(a, b): chance.randrange(0, 9) + (a == b) for a in everyone for b in everyone}
        sent = {a: [rows[a, b] for b in everyone] for a in everyone}
        got = {a: [rows[b, a] for b in everyone] for a in everyone}
        width = chance.randrange(1, 70)
        collective(
            everyone, "all_to_allv", "ep", {a: (sum(sent[a]) * width, sum(got[a]) * width) for a in everyone},
            **{"In split size": dict(enumerate(map(str, sent.values())))},
            **{"Out split size": dict(enumerate(map(str, got.values())))},
        )  # fmt: skip
        for of in ranks:
            compute(of, "elementwise_kernel", "backward", chance.randrange(500, 900))
        for sender in range(number % 2, world - 1, 2):
            size, end_of = chance.randrange(1, 4000), (sender, sender + 1)
            began = {rank: ranks[rank].now + chance.randrange(80, 200) for rank in end_of}
            end = max(began.values()) + chance.randrange(100, 300)
            for rank, op, key, peer in (
                (sender, "send", "Dst Rank", sender + 1),
                (sender + 1, "recv", "Src Rank", sender),
            ):
                of = ranks[rank]
                of.seq["pp"] = of.seq.get("pp", 0) + 1
                of.kernel(
                    KERNEL[op], began[rank], end, **{
                        "Collective name": op, "In msg nelems": size, "Out msg nelems": size, "Group size": world,
                        "dtype": "BFloat16", "Process Group Name": "pp", "Process Group Ranks": str(list(everyone)),
                        "Seq": of.seq["pp"], key: peer,
                    },
                )  # fmt: skip
                of.now = end
        size = chance.randrange(10, 9000)
        collective(everyone, "_allgather_base", "dp", dict.fromkeys(everyone, (size, size * world)), dtype="Float")
    return {of.rank: of.events for of in ranks}


def write_job(folder: Path, job: Mapping[int, list[Event]]) -> Path:
    """Write a file for each rank; return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, events in job.items():
        info = {"backend": "nccl", "rank": rank, "world_size": len(job)}
        text = json.dumps(
            {"schemaVersion": 1, "distributedInfo": info, "baseTimeNanoseconds": BASE_NS, "traceEvents": events}
        )
        (folder / f"rank{rank}.json").write_text(text)
    return folder


def ns(us: float) -> int:
    """A time in ns from the start of the job."""
    return round((us - BASE_US) * 1000)


def collectives_of(folder: Path) -> dict[tuple[str, str, int], dict[int, Event]]:
    """The events of each collective of all traces of a folder by rank; by name and ranks of its group, and number."""
    found: dict[tuple[str, str, int], dict[int, Event]] = {}
    for path in sorted(folder.iterdir()):
        trace = json.loads(path.read_text())
        rank = trace["distributedInfo"]["rank"]
        for event in trace["traceEvents"]:
            args = event["args"]
            if event["cat"] == "kernel" and args.get("Collective name") not in (None, "send", "recv"):
                key = (args["Process Group Name"], args["Process Group Ranks"], args["Seq"])
                assert rank not in found.setdefault(key, {})
                found[key][rank] = event
    return found


def sends_of(folder: Path) -> dict[tuple[int, int], list[tuple[Event, Event]]]:
    """The sends from each rank to each other, each with its receive: the k-th of one pair belong together."""
    ends: dict[str, dict[tuple[int, int], list[Event]]] = {"send": {}, "recv": {}}
    for path in sorted(folder.iterdir()):
        trace = json.loads(path.read_text())
        rank = trace["distributedInfo"]["rank"]
        for event in sorted(trace["traceEvents"], key=lambda event: event["ts"]):
            op = event["args"].get("Collective name")
            if op in ends:
                pair = (rank, event["args"]["Dst Rank"]) if op == "send" else (event["args"]["Src Rank"], rank)
                ends[op].setdefault(pair, []).append(event)
    return {pair: list(zip(sends, ends["recv"][pair], strict=True)) for pair, sends in ends["send"].items()}


def buffer(event: Event) -> int:
    args = event["args"]
    return max(int(args["In msg nelems"]), int(args["Out msg nelems"])) * ITEM[args["dtype"]]


OFFSETS = {0: 0, 1: 250_000, 2: -1_700_000, 3: 33, 4: 9_000_000_000, 5: -12}
"""Nanoseconds by which the clock of each rank is ahead, where a test wants that."""
