"""Replays the steps of a job with some of its operations as they were and the others at their typical time.

All steps and replicas have one graph (`operation_graph`), so they are replayed together, as arrays.

"Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025, https://arxiv.org/abs/2505.05713.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.what_if.operation_graph import COMMUNICATION, Graph

OPERATIONS = "operations"
"""Value of `rests_on` if the log has the operations of all ranks."""


_CELLS = 1 << 24  # ends of operations that are in memory at once
_CLOCKS = 0.01  # s: largest difference between clocks of hosts


class Job(Struct, frozen=True, eq=False):
    """The operations of the steps of a job.

    Attributes:
        graph: What operations wait for, in each step and replica.
        stages: The stage of each operation.
        kinds: The kind of each operation.
        times: Seconds of each operation by step and replica, without waiting for other sides.
        steps: Their numbers.
        replicas: Their numbers (data-parallel ranks).
        ranks: The rank of each replica and stage, where it is known.
        traced: Seconds of each step as traced; None if only its operations are known.
        left_out: Number of steps with incomplete operations.
        assumes: What the model assumes that is not in the log.
        rests_on: What is replayed: OPERATIONS, or the table that the job is modelled from.
    """

    graph: Graph
    stages: Ints
    kinds: npt.NDArray[np.object_]
    times: Floats
    steps: Sequence[int]
    replicas: Sequence[int]
    ranks: dict[tuple[int, int], int]
    traced: Floats | None
    left_out: int
    assumes: str
    rests_on: str

    def typical(self) -> Floats:
        """Return the typical time of each operation: over all steps, stages and replicas of its kind.

        It is the mean, and of communication, which has long tails, the median.
        """
        typical = np.zeros(len(self.kinds))
        for kind in dict.fromkeys(self.kinds.tolist()):
            is_kind = self.kinds == kind
            times = self.times[is_kind]
            typical[is_kind] = np.median(times) if kind in COMMUNICATION else times.mean()
        return typical

    def step_times(self, as_traced: Mask) -> Floats:
        """Return the seconds of each step in some replays, by replay and step.

        Args:
            as_traced: Of each replay the operations that take as long as in the trace, by operation and replica. The
                others take their typical time.
        """
        typical = self.typical()
        cells = len(self.kinds) * len(self.steps) * len(self.replicas)
        few = max(1, _CELLS // cells)
        return np.concatenate([self._replay(as_traced[i : i + few], typical) for i in range(0, len(as_traced), few)])

    def _replay(self, as_traced: Mask, typical: Floats) -> Floats:
        shape = (len(as_traced), len(self.steps), len(self.replicas))
        ends: list[Floats] = [np.zeros(0)] * len(self.kinds)
        last: Floats = np.zeros(shape)
        nothing: Floats = np.zeros(shape)
        for unit in self.graph.units:
            starts = nothing
            for place in unit.members:
                for before in self.graph.after[place]:
                    starts = ends[before] if starts is nothing else np.maximum(starts, ends[before])
            if unit.meets:
                starts = np.broadcast_to(starts.max(axis=2, keepdims=True), shape)
            for place in unit.members:
                ends[place] = starts + np.where(as_traced[:, place, None, :], self.times[place], typical[place])
                last = np.maximum(last, ends[place])
        return np.asarray(last.max(axis=2))


def without_waiting(graph: Graph, starts: Floats, ends: Floats) -> Floats:
    """Return how long operations took from the moment at which all their sides had begun.

    Clocks of hosts differ: what ended long before the last side began took no time.
    """
    times = ends - starts
    for unit in graph.units:
        if len(unit.members) > 1 or unit.meets:
            members = list(unit.members)
            begun = starts[members].max(axis=0)
            if unit.meets:
                begun = np.broadcast_to(begun.max(axis=1, keepdims=True), begun.shape)
            times[members] = ends[members] - begun
    times[times <= -_CLOCKS] = 0.0
    return times
