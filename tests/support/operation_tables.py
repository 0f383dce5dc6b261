"""Made jobs of pipelines and replicas: their operations with known times, and an oracle that runs them event by event.

The oracle knows the schedule by what is computed (chunk, micro-batch), and perflog only by what a trace has: the order.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Node = tuple[int, str, int]
"""An operation of a step and replica: stage, kind, and its number among those of its kind."""

Times = Mapping[tuple[int, int, Node], float]
"""Seconds of operations by step, replica and node: without waiting."""


@dataclass
class MadeJob:
    """The operations of a step: what each waits for, those that begin together, and what it computes."""

    replicas: int
    stages: int
    chunks: int
    after: dict[Node, set[Node]]
    together: list[frozenset[Node]]
    meets: set[Node]
    place: dict[Node, tuple[int, int]]  # chunk and micro-batch

    def run(self, times: Times, step: int) -> dict[tuple[int, Node], tuple[float, float]]:
        """Run one step event by event; return start and end of each operation of each replica."""
        side_of: dict[Node, frozenset[Node]] = {node: sides for sides in self.together for node in sides}
        waits, followers = {}, defaultdict(list)
        begun: dict[tuple[int, Node], float] = {}
        ended: dict[tuple[int, Node], tuple[float, float]] = {}
        events: list[tuple[float, int, Node]] = []
        for replica in range(self.replicas):
            for node, others in self.after.items():
                waits[replica, node] = set(others)
                for other in others:
                    followers[other].append((replica, node)) if replica == 0 else None

        def begin(replica: int, node: Node, now: float) -> None:
            begun[replica, node] = now
            replicas = range(self.replicas) if node in self.meets else (replica,)
            sides = [(r, other) for r in replicas for other in side_of.get(node, {node})]
            if all(side in begun for side in sides):
                last = max(begun[side] for side in sides)
                for r, other in sides:
                    heapq.heappush(events, (last + times[step, r, other], r, other))

        for (replica, node), others in waits.items():
            if not others:
                begin(replica, node, 0.0)
        while events:
            now, replica, node = heapq.heappop(events)
            ended[replica, node] = begun[replica, node], now
            for _, follower in followers[node]:
                left = waits[replica, follower]
                left.discard(node)
                if not left and (replica, follower) not in begun:
                    begin(replica, follower, now)
        assert len(ended) == len(waits), "the made job does not end"
        return ended

    def step_time(self, times: Times, step: int) -> float:
        return max(end for _, end in self.run(times, step).values())

    def nodes(self) -> list[Node]:
        return list(self.after)


def schedule(stage: int, stages: int, chunks: int, batches: int) -> list[tuple[str, int, int]]:
    """Direction, chunk and micro-batch of each compute of a stage: 1F1B, interleaved if there are several chunks."""
    total = batches * chunks
    warm = stages - stage - 1 if chunks == 1 else 2 * (stages - stage - 1) + (chunks - 1) * stages
    warm = min(warm, total)

    def work(direction: str, number: int) -> tuple[str, int, int]:
        if chunks == 1:
            return direction, 0, number
        chunk = number % (stages * chunks) // stages
        batch = number // (stages * chunks) * stages + number % stages
        return direction, chunk if direction == "forward" else chunks - 1 - chunk, batch

    order = [work("forward", number) for number in range(warm)]
    for number in range(total - warm):
        order += [work("forward", warm + number), work("backward", number)]
    return order + [work("backward", number) for number in range(total - warm, total)]


def made_job(  # noqa: PLR0912, PLR0915 (the rules of a schedule, one behind the other)
    replicas: int, stages: int, batches: int, chunks: int = 1, overlap: bool = False, edges: bool = False
) -> MadeJob:
    """Return a job.

    Args:
        replicas: Data-parallel ranks.
        stages: Pipeline stages.
        batches: Micro-batches; with several chunks a multiple of the stages.
        chunks: Model chunks of each stage.
        overlap: Whether gradients are reduced while the backward runs.
        edges: Whether transfers are recorded where the model begins and ends, which move nothing.
    """
    job = MadeJob(replicas, stages, chunks, {}, [], set(), {})
    transfer_of: dict[tuple[str, str, int, int], Node] = {}  # kind, end, position in the model of the compute, batch
    clips, embeddings = set(), set()
    for stage in range(stages):
        order = schedule(stage, stages, chunks, batches)
        numbers: dict[str, int] = defaultdict(int)

        def add(
            kind: str,
            *others: Node,
            place: tuple[int, int] = (-1, -1),
            stage: int = stage,
            numbers: dict[str, int] = numbers,
        ) -> Node:
            node = stage, kind, numbers[kind]
            numbers[kind] += 1
            job.after[node] = set(others)
            job.place[node] = place
            return node

        computes = []
        before: Node | None = None
        previous: dict[str, Node] = {}
        for direction, chunk, batch in order:
            kind = f"{direction}-compute"
            position, way = chunk * stages + stage, 1 if direction == "forward" else -1
            node = add(kind, *([before] if before else []), place=(chunk, batch))
            for end, other in (("recv", position - way), ("send", position + way)):
                inside = 0 <= other < stages * chunks
                if stages == 1 or not (inside or edges):
                    continue
                name = f"{direction}-{end}"
                transfer = add(name)
                if (stage, name, numbers[name] - 2) in job.after:
                    job.after[transfer].add((stage, name, numbers[name] - 2))
                if end == "send":
                    job.after[transfer].add(node)
                else:
                    job.after[node].add(transfer)
                    if direction in previous:
                        job.after[transfer].add(previous[direction])
                if inside:
                    transfer_of[direction, end, position if end == "send" else other, batch] = transfer
            previous[direction] = node
            computes.append(node)
            before = node
        first = next(i for i, node in enumerate(computes) if node[1] == "backward-compute")
        for end in ("send", "recv"):
            if first >= 2 and (stage, f"backward-{end}", 0) in job.after:
                job.after[stage, f"backward-{end}", 0].add(computes[first - 2])
        scatters = []
        if replicas > 1:
            gathers = [add("params-all-gather", place=(chunk, -1)) for chunk in range(chunks)]
            of_chunk = range(chunks - 1, -1, -1) if overlap else range(chunks)
            scatters = [add("grads-reduce-scatter", place=(chunk, -1)) for chunk in of_chunk]
            for earlier, later in pairwise([*gathers, *scatters]):
                job.after[later].add(earlier)
            for chunk, gather in enumerate(gathers):
                fed = next(n for n in computes if n[1] == "forward-compute" and job.place[n][0] == chunk)
                job.after[fed].add(gather)
            job.meets.update((*gathers, *scatters))
        last = add("gc", computes[-1])
        if overlap and scatters:
            for scatter in scatters:
                done = [n for n in computes if n[1] == "backward-compute" and job.place[n][0] == job.place[scatter][0]]
                job.after[scatter].add(done[-1])
            last = add("layernorm-grads-all-reduce", last, scatters[-1])
        else:
            last = add("layernorm-grads-all-reduce", last)
        if stage in (0, stages - 1):
            last = add("embedding-grads-all-reduce", last)
            embeddings.add(last)
        if overlap and scatters:
            last = add("separate-grads-all-reduce", last)
            job.meets.add(last)
        else:
            for scatter in scatters:
                job.after[scatter].add(last)
                last = scatter
        last = add("optimizer-clip-main-grad", last)
        clips.add(last)
        add("optimizer", last)
    job.meets |= clips
    job.together += [frozenset(embeddings), frozenset(clips)]
    for (direction, end, position, batch), node in transfer_of.items():
        if end == "send":
            job.together.append(frozenset((node, transfer_of[direction, "recv", position, batch])))
    return job


def rows_of(job: MadeJob, times: Times, steps: int) -> list[dict[str, Any]]:
    """Return the rows of a table of operations: with waiting, as a profiler sees them."""
    rows = []
    for step in range(steps):
        for (replica, node), (start, end) in job.run(times, step).items():
            stage, kind, number = node
            chunk, batch = job.place[node]
            rows.append(
                {"dp_rank": replica, "stage": stage, "rank": stage * job.replicas + replica, "step": 10 * step + 3,
                 "optype": kind, "start_ts": start, "duration": end - start, "seq_id": number, "mc": chunk,
                 "mb_id": batch, "gmc": chunk * job.stages + stage if chunk >= 0 and batch >= 0 else -1}
            )  # fmt: skip
    return rows


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    table = pa.Table.from_pylist(rows)
    text = table.schema.get_field_index("optype")
    pq.write_table(table.set_column(text, "optype", table["optype"].dictionary_encode()), path)
    return path


def times_of(job: MadeJob, steps: int, of: Callable[[int, int, Node], float]) -> dict[tuple[int, int, Node], float]:
    """Return the time of each operation of each step and replica."""
    return {
        (step, replica, node): of(step, replica, node)
        for step in range(steps)
        for replica in range(job.replicas)
        for node in job.nodes()
    }
