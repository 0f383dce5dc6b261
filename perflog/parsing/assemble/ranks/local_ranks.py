"""Local ranks: torchrun labels a line with the rank of the process on its node, `[default7]:`.

In: such labels, the world size, and printed ranks. Out: the rank of each labelled record, below 0 if the log does not
show it. On one node the local rank is the rank. On several nodes two processes have the same local rank. Then the
rank is known only if another label names the node, and the world size confirms that all nodes have as many processes.

A label such as `[rank0]:` may be either: PyTorch writes the rank, torchrun the local rank. After other labels it is
local if it is after several of them (`0: [rank0]:`, `1: [rank0]:`).

Where the rank is not known, two labels, or the name of a pod, still distinguish processes: `source_code` numbers them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Ints
from perflog.parsing.assemble.attributed_rows import HEADER, PRINTED, RecordRanks
from perflog.parsing.assemble.runs.run_state import RunIndex, RunState
from perflog.parsing.match.rank_labels import (
    NO_RANK,
    is_device,
    is_local,
    is_nested,
    is_pod,
    local_rank_of,
    node_of,
    pod_name,
    pod_of,
)
from perflog.parsing.match.records import Batch, Records

ONE_NODE, UNKNOWN = 0, -1
"""What the local ranks of a run mean: they are the ranks, or not. Any other number: the processes of a node."""

_ON_A_NODE = 8  # a world size beyond it is one node only if that many local ranks print


_SOURCES = -2  # codes of sources are this number and below
_NO_LOCAL_RANK = (1 << 30) - 1


class _Job(Struct):
    """What the labels of a run have shown. `nested`: the labels of two numbers that may be a node and a local rank."""

    labels: set[int] = field(default_factory=set)
    nested: set[int] = field(default_factory=set)
    outranked: bool = False  # whether a line prints a rank that the node with its local rank cannot have
    used: set[int] = field(default_factory=set)  # what ranks were given by

    def processes(self, world_size: int | None) -> int:
        """Return what the local ranks mean."""
        several = self.shares_ranks
        if self.labels:
            labels = np.array(sorted(self.labels))
            most = int(local_rank_of(labels).max()) + 1
            several |= self.outranked or len(np.unique(node_of(labels))) > 1
            if world_size is not None:
                several |= most < world_size and (world_size > _ON_A_NODE or len(np.unique(local_rank_of(labels))) > 1)
            if len(labels) == 1 and is_device(labels).all():
                return UNKNOWN  # each process may see one device, the first
        if not several:
            return ONE_NODE
        labels = np.array(sorted(self.labels | self.nested))
        most, nodes = int(local_rank_of(labels).max()) + 1, int(node_of(labels).max()) + 1
        return most if nodes * most == world_size else UNKNOWN

    @property
    def shares_ranks(self) -> bool:
        """Whether a second number is after several first numbers: it is no rank of the whole job."""
        labels = np.array(sorted(self.nested), np.int64)
        return len(np.unique(local_rank_of(labels))) < len(labels)


class LocalRanks:
    """Decides it for each run: as `settled` by an earlier reading of the log, else by what has been read so far.

    `corrections` holds the runs that have ended and for which this was wrong, `pods` the names of pods by number.
    """

    def __init__(self, settled: Mapping[int, int]) -> None:
        self.corrections: dict[int, int] = {}
        self.pods: dict[int, str] = {}
        self._settled = settled
        self._jobs: dict[int, _Job] = {}  # by number of the run
        self._world_sizes: dict[int, dict[int, int]] = {}  # as printed so far, each with its first position

    def observe(self, records: Records, runs: RunIndex) -> None:
        """Remember the local ranks of records, and ranks and world sizes that they print."""
        sizes = records.columns.get("world_size")
        if isinstance(sizes, np.ndarray):
            self._observe_sizes(sizes, records.positions, runs)
        if records.labels is None:
            return
        local, nested = is_local(records.labels), is_nested(records.labels)
        for run, low, high in runs.split(records.positions) if nested.any() else ():
            labels = records.labels[low:high][nested[low:high]]
            if len(labels):
                self._jobs.setdefault(run.index, _Job()).nested.update(np.unique(labels).tolist())
        if not local.any():
            return
        printed = records.columns.get("rank")
        for run, low, high in runs.split(records.positions):
            labels = records.labels[low:high][local[low:high]]
            if not len(labels):
                continue
            job = self._jobs.setdefault(run.index, _Job())
            job.labels.update(np.unique(labels).tolist())
            if isinstance(printed, np.ndarray):
                ranks, own = printed[low:high][local[low:high]], local_rank_of(labels)
                job.outranked |= bool((ranks - own > own).any())

    def observe_pods(self, batch: Batch) -> None:
        """Remember the names of the pods before the lines of a batch."""
        for records in batch.records.values():
            if records.labels is None:
                continue
            nodes = np.where(is_pod(records.labels), pod_of(records.labels), node_of(records.labels))
            for node, first in zip(*(x.tolist() for x in np.unique(nodes, return_index=True)), strict=True):
                if node not in self.pods:
                    number, name = pod_name(batch.text(int(records.positions[first])))
                    self.pods |= {number: name} if number == node else {}

    def _observe_sizes(self, sizes: Ints, positions: Ints, runs: RunIndex) -> None:
        for run, low, high in runs.split(positions):
            known = self._world_sizes.setdefault(run.index, {})
            for size, position in zip(sizes[low:high].tolist(), positions[low:high].tolist(), strict=True):
                known[size] = min(known.get(size, position), position)  # another line may print it earlier

    def ranks_of(self, records: Records, runs: RunIndex) -> Ints:
        """Return the rank that the label of each record states; -1 if none, below it the code of a source."""
        if records.labels is None:
            return np.full(len(records), -1, np.int64)
        pods = is_pod(records.labels)
        ranks = np.where(records.labels == NO_RANK, -1, records.labels)
        ranks[pods] = source_code(pod_of(records.labels[pods]), np.array(_NO_LOCAL_RANK))
        unsure = is_local(ranks) | is_nested(ranks)
        for run, low, high in runs.split(records.positions) if self._jobs else ():
            rows = low + np.flatnonzero(unsure[low:high])
            if len(rows):
                ranks[rows] = _ranks(records.labels[rows], self._processes(run))
            if run.index in self._jobs and self._jobs[run.index].nested and self._processes(run) != ONE_NODE:
                plain = low + np.flatnonzero(~(unsure | pods)[low:high])
                ranks[plain] = -1  # a label alone names a node, or a local rank
        return ranks

    def impossible(self, ranks: RecordRanks, positions: Ints, runs: RunIndex) -> Ints:
        """Return the rows that print a rank beyond the world size before them: figures have met."""
        found = [np.empty(0, np.int64)]
        smallest = min((size for sizes in self._world_sizes.values() for size in sizes), default=None)
        if smallest is None or not len(positions) or ranks.rank.max() < smallest:
            return found[0]
        is_printed = (ranks.rule == PRINTED) | (ranks.rule == HEADER)
        for run, low, high in runs.split(positions):
            below = np.zeros(high - low, np.int64)
            for size, position in self._world_sizes.get(run.index, {}).items():
                below = np.where(positions[low:high] > position, np.maximum(below, size), below)
            is_wrong = is_printed[low:high] & (below > 0) & (ranks.rank[low:high] >= below)
            found.append(low + np.flatnonzero(is_wrong))
        return np.concatenate(found)

    def _processes(self, run: RunState) -> int:
        job, sizes = self._jobs[run.index], self._world_sizes.get(run.index, {})
        world_size = next(iter(sizes)) if len(sizes) == 1 else run.world_size
        processes = self._settled.get(run.index, job.processes(world_size))
        job.used.add(processes)
        return processes

    def end(self, run: RunState) -> None:
        """Check a run that has ended."""
        job = self._jobs.pop(run.index, None)
        self._world_sizes.pop(run.index, None)
        if job is not None and run.index not in self._settled:
            processes = job.processes(run.world_size)
            if job.used - {processes}:
                self.corrections[run.index] = processes


def _ranks(labels: Ints, processes: int) -> Ints:
    """Return the ranks of local labels."""
    if processes == ONE_NODE:
        return local_rank_of(labels)
    nodes = node_of(labels)
    known = (nodes >= 0) & (processes > 0)
    unknown = np.where(nodes >= 0, source_code(nodes, local_rank_of(labels)), -1)
    return np.where(known, nodes * processes + local_rank_of(labels), unknown)


def source_code(nodes: Ints, local_ranks: Ints) -> Ints:
    """Return numbers below -1 for the ranks of processes with only node and local rank known."""
    return _SOURCES - (nodes << 30 | local_ranks)


def source_names(codes: Ints, pods: Mapping[int, str]) -> list[str]:
    """Return the names of sources by their codes, of pods by their numbers."""
    numbers = _SOURCES - codes
    nodes = [pods.get(node, f"node {node}") for node in (numbers >> 30).tolist()]
    locals = (numbers & _NO_LOCAL_RANK).tolist()
    return [
        node if local == _NO_LOCAL_RANK else f"{node}, local rank {local}"
        for node, local in zip(nodes, locals, strict=True)
    ]
