"""What each operation of a training step waits for, on all pipeline stages of a replica.

Operations of a stage's device run in the order of the trace. Sends and receives are separate streams. A send waits for
the compute that produces its data, a compute for its receive, and a pair begins when both sides are ready. Gradients
are reduced when the last backward of their model chunk has ended, parameters are gathered before its first forward, and
the optimiser comes last. Collectives of data parallelism begin when the last replica is ready.

Source: "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025, section 3, and the traces
of its authors, which have operations of these names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

_FORWARD, _BACKWARD = "forward", "backward"
COMPUTE = (f"{_FORWARD}-compute", f"{_BACKWARD}-compute")
_GATHER, _SCATTER, _REDUCE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
_EMBEDDING, _CLIP = "embedding-grads-all-reduce", "optimizer-clip-main-grad"
_LAST = ("gc", "layernorm-grads-all-reduce", _EMBEDDING, _SCATTER, _REDUCE, _CLIP, "optimizer")
TRANSFERS = tuple(f"{direction}-{end}" for direction in (_FORWARD, _BACKWARD) for end in ("send", "recv"))
COMMUNICATION = (*TRANSFERS, _GATHER, _SCATTER, _REDUCE, "layernorm-grads-all-reduce", _EMBEDDING, _CLIP)
"""Kinds with the median as typical time; all others have the mean."""
KINDS = frozenset((*COMPUTE, *TRANSFERS, _GATHER, *_LAST))
"""Kinds of operations with a defined position in the step."""

_ACROSS_REPLICAS = (_GATHER, _SCATTER, _REDUCE, _CLIP)
_AT_ONCE = 5e-5  # s: an operation that begins within this time after another counts as not later
_UPWARDS = {(_FORWARD, "send"): 1, (_FORWARD, "recv"): -1, (_BACKWARD, "send"): -1, (_BACKWARD, "recv"): 1}


class ModelError(Exception):
    """The operations of a step do not fit together as the model expects; the message has the reason."""


class Operation(Struct, frozen=True):
    """An operation of a stage in one step of one replica. `seq`: its number within its kind, from 0."""

    stage: int
    kind: str
    seq: int
    chunk: int
    start_s: float
    end_s: float


class Unit(Struct, frozen=True):
    """Operations that begin together: one alone, or all sides of a communication.

    `meets`: whether the operations of all replicas begin together.
    """

    members: tuple[int, ...]
    meets: bool = False


class Graph(Struct, frozen=True):
    """What operations wait for.

    `after`: for each operation, the operations that end before it begins. `units`: in topological order.
    """

    after: tuple[tuple[int, ...], ...]
    units: tuple[Unit, ...]


def step_graph(operations: Sequence[Operation]) -> Graph:
    """Return what the operations of a step wait for, by their indices in the list.

    Raises:
        ModelError: a send has no receive, or operations wait for each other.
    """
    step = _Step(operations)
    for stage in range(step.stages):
        step.add_compute(stage)
        step.add_transfers(stage)
        step.add_collectives(stage)
        step.add_end(stage)
    return in_order([tuple(sorted(step.after[place])) for place in range(len(operations))], [*step.units()])


class _Step:
    """Collects what the operations of a step wait for."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations
        self.after: dict[int, set[int]] = defaultdict(set)
        self.stages = 1 + max(op.stage for op in operations)
        self._chunks = 1 + max(op.chunk for op in operations)
        self._of: dict[tuple[int, str], list[int]] = defaultdict(list)  # indices by stage and kind, in order of time
        for place in sorted(range(len(operations)), key=lambda i: (operations[i].start_s, *_tie(operations[i]))):
            self._of[operations[place].stage, operations[place].kind].append(place)
        # By stage and kind of transfer: transfers that have another side, in order.
        self._paired: dict[tuple[int, str, str], list[int]] = {}

    def add_compute(self, stage: int) -> None:
        """The device computes one after the other."""
        self._chain(self._compute(stage))

    def add_transfers(self, stage: int) -> None:
        """Sends wait for their compute, computes for their receive, each kind of transfer for the one before."""
        for direction in (_FORWARD, _BACKWARD):
            compute = self._of[stage, f"{direction}-compute"]
            for end in ("send", "recv"):
                kind = f"{direction}-{end}"
                self._chain(self._of[stage, kind])
                paired = self._paired[stage, direction, end] = []
                for transfer, number in self._matched(stage, direction, end, compute):
                    if end == "send":
                        self.after[transfer].add(compute[number])
                    else:
                        self.after[compute[number]].add(transfer)
                        self.after[transfer].update(compute[number - 1 : number])
                    if self._crosses(stage, direction, end, compute[number]):
                        paired.append(transfer)
        # The first transfer of the backward is launched while the last forward before it runs.
        computes = self._compute(stage)
        first = next((i for i, op in enumerate(computes) if self.operations[op].kind == COMPUTE[1]), 0)
        if first >= 2:
            for end in ("recv", "send"):
                for transfer in self._of[stage, f"{_BACKWARD}-{end}"][:1]:
                    self.after[transfer].add(computes[first - 2])

    def add_collectives(self, stage: int) -> None:
        """Parameters are gathered before the first forward of a chunk; the stream of these collectives is in order."""
        gathers, scatters = self._of[stage, _GATHER], self._of[stage, _SCATTER]
        self._chain(
            sorted([*gathers, *scatters], key=lambda i: (self.operations[i].start_s, *_tie(self.operations[i])))
        )
        last_of_chunk = {self.operations[i].chunk: i for i in gathers}
        for chunk, gather in last_of_chunk.items():
            for compute in self._in_chunk(stage, COMPUTE[0], chunk)[:1]:
                self.after[compute].add(gather)
        if self._overlaps:
            first_of_chunk = {self.operations[i].chunk: i for i in reversed(scatters)}
            for chunk, scatter in first_of_chunk.items():
                backward = self._in_chunk(stage, COMPUTE[1], chunk)
                if backward:
                    self.after[scatter].add(max(backward, key=lambda i: self.operations[i].end_s))

    def add_end(self, stage: int) -> None:
        """Add the operations after the last compute, one after the other."""
        compute = self._compute(stage)
        chain = [max(compute, key=lambda i: self.operations[i].end_s)] if compute else []
        scatters = self._of[stage, _SCATTER]
        for kind in _LAST:
            if kind == _SCATTER and self._overlaps:
                continue
            chain += self._of[stage, kind]
        self._chain(chain)
        if self._overlaps and scatters:  # the next in the chain waits for them too
            behind = next((i for i in chain if self.operations[i].kind in _LAST[1:]), None)
            if behind is not None:
                self.after[behind].add(scatters[-1])

    def units(self) -> Iterable[Unit]:
        """Give all operations in units."""
        together: list[Unit] = []
        for stage in range(self.stages):
            for direction in (_FORWARD, _BACKWARD):
                peer = (stage + _UPWARDS[direction, "send"]) % self.stages
                sends, receives = self._paired[stage, direction, "send"], self._paired[peer, direction, "recv"]
                if len(sends) != len(receives):
                    reason = f"stage {stage} sends {len(sends)} times {direction}, and stage {peer} receives"
                    raise ModelError(f"{reason} {len(receives)} times")
                together += [Unit(pair) for pair in zip(sends, receives, strict=True)]
        by_number: dict[tuple[str, int], list[int]] = defaultdict(list)
        for place, op in enumerate(self.operations):
            if op.kind in (_EMBEDDING, _CLIP):
                by_number[op.kind, op.seq].append(place)
        together += [Unit(tuple(places), kind in _ACROSS_REPLICAS) for (kind, _), places in by_number.items()]
        yield from together
        inside = {place for unit in together for place in unit.members}
        for place, op in enumerate(self.operations):
            if place not in inside:
                yield Unit((place,), op.kind in _ACROSS_REPLICAS)

    @property
    def _overlaps(self) -> bool:
        """Whether gradients are reduced while the backward still runs: then some are left for the end."""
        return any(kind == _REDUCE and places for (_, kind), places in self._of.items())

    def _chain(self, operations: Sequence[int]) -> None:
        for before, operation in pairwise(operations):
            self.after[operation].add(before)

    def _compute(self, stage: int) -> list[int]:
        places = [*self._of[stage, COMPUTE[0]], *self._of[stage, COMPUTE[1]]]
        return sorted(places, key=lambda i: (self.operations[i].start_s, *_tie(self.operations[i])))

    def _in_chunk(self, stage: int, kind: str, chunk: int) -> list[int]:
        return [i for i in self._of[stage, kind] if self.operations[i].chunk == chunk]

    def _crosses(self, stage: int, direction: str, end: str, compute: int) -> bool:
        """Whether the model continues at the other side of a transfer, by the chunk that is computed."""
        chunk = self.operations[compute].chunk * self.stages + stage + _UPWARDS[direction, end]
        return self.stages > 1 and 0 <= chunk < self._chunks * self.stages

    def _matched(self, stage: int, direction: str, end: str, compute: Sequence[int]) -> list[tuple[int, int]]:
        """Return the transfers of a kind that belong to a compute, each with its number among these computes.

        A profiler may record transfers without a compute: receives after the last compute and sends before the first.
        It may also record one for each compute, or only for computes that exchange data with another stage.
        """
        ops, transfers = self.operations, self._of[stage, f"{direction}-{end}"]
        if not compute:
            return []
        if end == "recv":
            limit = max(ops[i].start_s for i in compute) + _AT_ONCE
            transfers = [i for i in transfers if ops[i].start_s <= limit]
        else:
            limit = min(ops[i].end_s for i in compute) - _AT_ONCE
            transfers = [i for i in transfers if ops[i].end_s >= limit]
        crossing = [n for n, i in enumerate(compute) if self._crosses(stage, direction, end, i)]
        if len(transfers) == len(compute):
            numbers = [*range(len(compute))]
        elif len(transfers) == len(compute) - 1 and (0 if end == "recv" else len(compute) - 1) not in crossing:
            numbers = [*range(len(compute))][1:] if end == "recv" else [*range(len(transfers))]
        elif len(transfers) == len(crossing):
            numbers = crossing
        else:
            reason = (
                f"stage {stage} has {len(transfers)} of {direction}-{end}, and {len(crossing)} computes that need one"
            )
            raise ModelError(reason)
        return list(zip(transfers, numbers, strict=True))


def _tie(op: Operation) -> tuple[int, str]:
    return op.seq, op.kind


def in_order(after: Sequence[tuple[int, ...]], units: Sequence[Unit]) -> Graph:
    """Return the units in topological order: each after the units that it waits for."""
    unit_of = {place: number for number, unit in enumerate(units) for place in unit.members}
    waits = [{unit_of[before] for place in unit.members for before in after[place]} for unit in units]
    followers: dict[int, list[int]] = defaultdict(list)
    for number, others in enumerate(waits):
        for other in others:
            followers[other].append(number)
    left = [len(others) for others in waits]
    ready = [number for number, count in enumerate(left) if not count]
    ordered = []
    for number in ready:
        ordered.append(units[number])
        for follower in followers[number]:
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    if len(ordered) < len(units):
        raise ModelError("operations of the step wait for each other")
    return Graph(tuple(after), tuple(ordered))
