"""Holders of memory: the range, module and operator in which each block was allocated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.run_tables import Tables, computed_once
from perflog.metrics.traces.call_tree import NO_CALL, RANGE_KINDS, call_trees
from perflog.metrics.traces.launches import Calls, Launches, threads_of
from perflog.metrics.traces.operators.device_operators import OPERATOR, operator_word
from perflog.metrics.traces.over_time.device_memory import MemoryCurve, device_memory
from perflog.metrics.traces.work_tree import OUTSIDE, PATH_MARK, JoinedCalls, joined_calls
from perflog.tables.arrow import Where, one_of
from perflog.tables.columns import rows_from_arrow

NOT_TRACED = "(not in the trace)"
"""Replaces the range: memory without an allocation in the trace, such as parameters."""

# They allocate for the operator around them.
_ALLOCATES = lazy_pattern(
    r"aten::(?:new_)?(?:empty|resize|set|_?to_copy|to|clone|contiguous)(?:_(?:like|strided|quantized|output))?_?"
)


class Holder(NamedTuple):
    """Where blocks were allocated: path of the ranges and modules around, and the innermost operator; None: in none."""

    range: str
    operator: str | None

    @property
    def name(self) -> str:
        """Both in short."""
        innermost = self.range.rpartition(PATH_MARK)[2]
        return f"{innermost}: {self.operator}" if self.operator else innermost


class HeldMemory(Struct, frozen=True, eq=False, dict=True):
    """The memory of a device with the holder of each of its blocks, as an index into `holders`."""

    curve: MemoryCurve
    holder_by_block: Ints
    holders: Sequence[Holder]

    @cached_property
    def at_peak(self) -> Ints:
        """Bytes of each holder at the peak."""
        return self.bytes_at(self.curve.peak)

    def bytes_at(self, event: int) -> Ints:
        """Return the bytes of each holder after an event."""
        living = self.curve.living(event)
        return self._sums(living, self.curve.blocks.sizes[living])

    def blocks_at(self, event: int) -> Ints:
        """Return the number of blocks of each holder after an event."""
        living = self.curve.living(event)
        return self._sums(living, np.ones(len(living), np.int64))

    def _sums(self, living: Ints, amounts: Ints) -> Ints:
        sums = np.zeros(len(self.holders), np.int64)
        np.add.at(sums, self.holder_by_block[living], amounts)
        return sums

    def unexplained_at(self, event: int) -> int | None:
        """Return the bytes that are allocated and in no block; None if the trace does not print the totals."""
        curve = self.curve
        return int(curve.allocated[event] - curve.live[event]) if curve.is_printed else None


@computed_once
def held_memory(tables: Tables) -> list[HeldMemory]:
    """Return the memory of devices and hosts in all traces with the holders of their blocks."""
    curves = device_memory(tables)
    if not curves:
        return []
    files = {(curve.run, curve.part) for curve in curves}
    calls = _runtime_calls(tables, {(c.run, c.part) for c in curves if c.rows.known("correlation").any()})
    found: dict[int, HeldMemory] = {}
    for tree in call_trees(tables.only({run for run, _ in files}), kinds=RANGE_KINDS, name=_counts):
        file = tree.run, tree.part
        if file not in files:
            continue
        joined = joined_calls(tree, operator_word)
        for number, curve in enumerate(curves):
            if (curve.run, curve.part) == file:
                found[number] = _held(curve, joined, calls.get(file))
    outside = Holder(OUTSIDE, None)
    return [
        found.get(number) or HeldMemory(curve, np.zeros(len(curve.blocks.born), np.int64), [outside])
        for number, curve in enumerate(curves)
    ]


def _runtime_calls(tables: Tables, files: set[tuple[str, int]]) -> dict[tuple[str, int], Calls]:
    """Return the calls of the runtime in some files, if events of memory name the call that made them."""
    if not files:
        return {}
    where: Where = {"run": one_of(*(run for run, _ in files)), "kind": one_of("runtime")}
    found = tables.arrow_by_file("events", where, "correlation", *_TIMES)
    return {file: Calls(rows_from_arrow(events), "correlation") for file, events in found if file in files}


_TIMES = ("process", "thread", "start_ns", "duration_ns")


def _counts(kind: str, name: str) -> bool:
    return operator_word(kind, name, None) is not None


def _held(curve: MemoryCurve, joined: JoinedCalls, calls: Calls | None) -> HeldMemory:
    """The holders of the blocks of a curve, by the calls in which they were allocated."""
    rows = curve.rows.where(curve.blocks.born)
    threads, names = threads_of(rows)
    starts = rows["start_ns"]
    if calls is not None and rows.known("correlation").any():  # the call of the runtime has the thread
        call_rows = calls.places(rows["correlation"])
        called = (call_rows >= 0) & rows.known("correlation")
        starts = np.where(called, calls.starts[call_rows], starts)
        threads = np.where(called, calls.threads[call_rows] + len(names), threads)
        names = [*names, *calls.names]
    nodes = joined.around(Launches(starts, starts, threads, names, np.zeros(len(starts), np.bool_)))
    distinct, inverse = np.unique(nodes, return_inverse=True)
    holders: dict[Holder, int] = {}
    codes = [holders.setdefault(_holder(joined, node), len(holders)) for node in distinct.tolist()]
    return HeldMemory(curve, np.array(codes, np.int64)[inverse], list(holders))


def _holder(joined: JoinedCalls, node: int) -> Holder:
    """Return what an allocation at a call belongs to: the ranges around it, and the operator that asked for it.

    The operator is the innermost that does more than allocate: `aten::bmm` around `aten::empty`.
    """
    operator: str | None = None
    while node != NO_CALL and joined.words[node].kind == OPERATOR:
        name = joined.words[node].name
        if operator is None or _ALLOCATES.fullmatch(operator):
            operator = name
        node = int(joined.parents[node])
    path: list[str] = []
    while node != NO_CALL:
        if joined.words[node].kind != OPERATOR:
            path.append(joined.words[node].name)
        node = int(joined.parents[node])
    return Holder(PATH_MARK.join(reversed(path)) or OUTSIDE, operator)
