"""Local ranks: torchrun labels a line with the rank of the process on its node, `[default7]:`.

In: such labels, the world size, and printed ranks. Out: the rank of each labelled record, -1 where the log does not
tell it. On one node the local rank is the rank. On several nodes two processes have the same local rank. Then the rank
is known only if another label names the node, and the world size confirms that all nodes have as many processes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field

from perflog.parsing.assemble.run_state import RunIndex, RunState
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.rank_labels import is_local, local_rank_of, node_of
from perflog.parsing.match.records import Records

ONE_NODE, UNKNOWN = 0, -1
"""What the local ranks of a run tell: they are the ranks, or not. Any other number: the processes of a node."""

_ON_A_NODE = 8  # a world size beyond it is one node only if that many local ranks print


class _Job(Struct):
    """What the labels of a run have shown."""

    labels: set[int] = field(default_factory=set)
    outranked: bool = False  # whether a line prints a rank that the node with its local rank cannot have
    used: set[int] = field(default_factory=set)  # what ranks were given by

    def processes(self, world_size: int | None) -> int:
        """Return what the local ranks tell."""
        labels = np.array(sorted(self.labels))
        most = int(local_rank_of(labels).max()) + 1
        nodes = int(node_of(labels).max()) + 1
        several = self.outranked or len(np.unique(node_of(labels))) > 1
        if world_size is not None:
            several |= most < world_size and (world_size > _ON_A_NODE or len(np.unique(local_rank_of(labels))) > 1)
        if not several:
            return ONE_NODE
        return most if nodes * most == world_size else UNKNOWN


class LocalRanks:
    """Decides it for each run: as `settled` by an earlier reading of the log, else by what has been read so far.

    `corrections` holds the runs that have ended and for which this was wrong.
    """

    def __init__(self, settled: Mapping[int, int]) -> None:
        self.corrections: dict[int, int] = {}
        self._settled = settled
        self._jobs: dict[int, _Job] = {}  # by number of the run
        self._world_sizes: dict[int, set[int]] = {}  # as printed so far, before they are settings of the run

    def observe(self, records: Records, runs: RunIndex) -> None:
        """Remember the local ranks of records, and ranks and world sizes that they print."""
        sizes = records.columns.get("world_size")
        if isinstance(sizes, np.ndarray):
            for run, low, high in runs.split(records.places):
                self._world_sizes.setdefault(run.index, set()).update(sizes[low:high].tolist())
        if records.labels is None:
            return
        local = is_local(records.labels)
        if not local.any():
            return
        printed = records.columns.get("rank")
        for run, low, high in runs.split(records.places):
            labels = records.labels[low:high][local[low:high]]
            if not len(labels):
                continue
            job = self._jobs.setdefault(run.index, _Job())
            job.labels.update(np.unique(labels).tolist())
            if isinstance(printed, np.ndarray):
                ranks, own = printed[low:high][local[low:high]], local_rank_of(labels)
                job.outranked |= bool((ranks - own > own).any())

    def ranks_of(self, records: Records, runs: RunIndex) -> Ints:
        """Return the rank that the label of each record tells, -1 if none."""
        if records.labels is None:
            return np.full(len(records), -1, np.int64)
        ranks = records.labels.copy()
        local = is_local(ranks)
        for run, low, high in runs.split(records.places) if local.any() else ():
            rows = low + np.flatnonzero(local[low:high])
            if len(rows):
                ranks[rows] = _ranks(records.labels[rows], self._processes(run))
        return ranks

    def _processes(self, run: RunState) -> int:
        job, sizes = self._jobs[run.index], self._world_sizes.get(run.index, set())
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
    return np.where(known, nodes * processes + local_rank_of(labels), -1)
