"""Calls of operators in traces: which operator each piece of a device's work belongs to, by the shapes of its inputs.

Operators nest: aten::linear calls aten::addmm, and its call launches a kernel. The kernel belongs to the innermost
operator around its launch that has a formula for its work; if none has one, to the innermost operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from perflog.arrays import Codes, Ints, Keys, Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.call_tree import NO_CALL, CallTree, call_trees
from perflog.metrics.traces.copies import way_of
from perflog.metrics.traces.device_work import TraceDevice, trace_devices
from perflog.metrics.traces.input_shapes import nvtx_operator
from perflog.metrics.traces.launches import Launches, launches_by_file, threads_of
from perflog.metrics.traces.operators.operator_work import CLASSES, PRODUCTS, class_of, takes_values
from perflog.statistics.groups import groups_of
from perflog.tables.columns import Rows

_INPUTS = ("shapes", "input_types", "input_strides", "input_values")
_KINDS = ("range", "cpu")
_NODE = "autograd::engine::evaluate_function: "  # lies around the operator of its name
# Products of float32 on tensor cores: cuBLAS, CUTLASS and cuDNN name their kernels so.
_TF32 = lazy_pattern(r"tf32|s1688|s161616gemm|f32f32_f32f32.*tensorop", re.IGNORECASE)


class OperatorInputs(NamedTuple):
    """An operator with its inputs as strings, as the trace prints them. `tf32`: names of its kernels have it."""

    operator: str
    shapes: str | None = None
    types: str | None = None
    strides: str | None = None
    values: str | None = None
    tf32: bool = False


class OperatorCalls(Struct, frozen=True):
    """All calls of an operator with the same inputs that launched work in a file.

    `calls`: their number. `time_ns`: sum of the times of their work. `uncounted`: no formula applies to this time:
    the calls only wrap operators with counted work, as aten::linear wraps aten::addmm, and this is their other work; or
    it is the time of copies over a bus. `first_line`: line of the first call.
    """

    inputs: OperatorInputs
    calls: int
    time_ns: int
    uncounted: bool
    first_line: int


class FileOperators(Struct, frozen=True):
    """The operators of a file of a run. `time_ns`: sum of the times of all work of its devices.

    `owners`: for each device with work the index of the operator that each task belongs to, or NO_CALL.
    """

    run: str
    part: int
    rank: int | None
    device_names: Sequence[str | None]
    time_ns: int
    operators: Sequence[OperatorCalls]
    owners: Sequence[tuple[TraceDevice, Codes]]

    def __len__(self) -> int:
        return len(self.operators)


def operators_by_file(tables: Tables) -> Iterator[FileOperators]:
    """Yield the operators of each file with work that operators launched, one file after the other."""
    traced_files = {(device.run, device.part) for device in trace_devices(tables)}
    file: tuple[str, int] | None = None
    devices: list[tuple[TraceDevice, Launches]] = []

    def launching(events_file: tuple[str, int], rows: Rows) -> Mask:
        return _launching(rows, devices) if events_file == file else np.ones(len(rows), np.bool_)

    trees = call_trees(tables, "rank", *_INPUTS, kinds=_KINDS, name=_is_operator, chosen=launching)
    earlier: dict[tuple[str, int], CallTree] = {}  # both come in the order of the files, but for those without calls
    for file, devices in launches_by_file(tables):
        while file not in earlier and (tree := next(trees, None)) is not None:
            if (tree.run, tree.part) in traced_files:
                earlier[tree.run, tree.part] = tree
            if (tree.run, tree.part) > file:
                break
        if (found := earlier.pop(file, None)) is not None and len(operators := _file_operators(found, devices)):
            yield operators


def _launching(rows: Rows, devices: Sequence[tuple[TraceDevice, Launches]]) -> Mask:
    """Flag the calls in which a launch begins: the others own no work, and would make the tree large."""
    codes, threads = threads_of(rows)
    starts, flags = rows["start_ns"], np.zeros(len(rows), np.bool_)
    for code, thread in enumerate(threads):
        at = [
            launches.starts[launches.threads == other]
            for _, launches in devices
            for other, name in enumerate(launches.names)
            if name == thread
        ]
        if at and len(times := np.sort(np.concatenate(at))):
            index = np.flatnonzero(codes == code)
            moments = np.append(times, np.iinfo(np.int64).max)
            first = moments[np.searchsorted(moments, starts[index])]
            flags[index] = first - starts[index] < rows["duration_ns"][index]
    return flags


def _is_operator(kind: str, name: str) -> bool:
    is_named = kind == "cpu" or (kind == "range" and nvtx_operator(name) is not None)
    return is_named and not name.startswith(_NODE)


def _file_operators(tree: CallTree, devices: Sequence[tuple[TraceDevice, Launches]]) -> FileOperators:
    code, words = tree.rows.codes("name")
    pairs: dict[tuple[str, str | None], int] = {}  # names of ranges have the number of the call in them
    name_by_word = [pairs.setdefault(nvtx_operator(word) or (word, None), len(pairs)) for word in words]
    name, names = np.array([*name_by_word, -1], np.int64)[code], list(pairs)
    kinds = [class_of(operator) for operator, _ in names]
    kind = np.array([CLASSES.index(kind) if kind else -1 for kind in (*kinds, None)], np.int64)[name]
    times, tf32 = np.zeros(len(tree), np.int64), np.zeros(len(tree), np.bool_)
    launched, uncounted = np.zeros(len(tree), np.bool_), np.zeros(len(tree), np.bool_)
    owners = []
    for device, launches in devices:
        owner = _owners(tree, kind, tree.around(launches))
        owners.append(owner)
        owned = np.flatnonzero(owner != NO_CALL)
        work = device.work
        np.add.at(times, owner[owned], (work.ends - work.starts)[owned])
        launched[owner[owned]] = True
        code, words = work.rows.codes("name")
        named = np.array([*(_TF32.search(word) is not None for word in words), False], np.bool_)[code[owned]]
        tf32[owner[owned[named]]] = True
        over_bus = np.array([*map(_crosses_bus, words), False], np.bool_)[code] & work.rows.one_of("kind", ["memcpy"])
        uncounted[owner[owned[over_bus[owned]]]] = True
    calls = np.flatnonzero(launched)
    uncounted |= _wrappers(tree, kind, calls)
    ranks = np.unique(tree.rows["rank"])
    operators, operator_by_call = _joined(tree, calls, times, tf32, uncounted, name, names)
    operator_of_call = np.full(len(tree) + 1, NO_CALL, np.int32)  # the last one is for NO_CALL
    operator_of_call[calls] = operator_by_call
    return FileOperators(
        run=tree.run,
        part=tree.part,
        rank=int(ranks[0]) if len(ranks) == 1 and ranks[0] >= 0 else None,
        device_names=list(dict.fromkeys(device.device_name for device, _ in devices)),
        time_ns=sum(int((device.work.ends - device.work.starts).sum()) for device, _ in devices),
        operators=operators,
        owners=[(device, operator_of_call[owner]) for (device, _), owner in zip(devices, owners, strict=True)],
    )


def _crosses_bus(copy: str) -> bool:
    """Return whether a copy of this name leaves the memory of its device: that memory's bandwidth is no bound then."""
    return any(end in way_of(copy)[0] for end in ("host", "peer"))


def _owners(tree: CallTree, kind: Ints, around: Ints) -> Ints:
    """Return the call that each launch belongs to: the innermost with a formula, else the innermost, else NO_CALL."""
    found = around.copy()
    while len(open_ := np.flatnonzero((found != NO_CALL) & (kind[found] < 0))):
        found[open_] = tree.parents[found[open_]]
    return np.where(found == NO_CALL, around, found)


def _wrappers(tree: CallTree, kind: Ints, calls: Ints) -> Mask:
    """Flag the calls with a call of a product, or of their own class, inside: its work would count twice."""
    is_call, wraps = np.zeros(len(tree), np.bool_), np.zeros(len(tree), np.bool_)
    is_call[calls] = True
    inner = calls[kind[calls] >= 0]
    product = np.array([name in PRODUCTS for name in CLASSES], np.bool_)
    outer = tree.parents[inner]
    while len(left := np.flatnonzero(outer != NO_CALL)):
        inner, outer = inner[left], outer[left]
        alike = (kind[outer] == kind[inner]) | product[kind[inner]]
        wraps[outer[is_call[outer] & (kind[outer] >= 0) & alike]] = True
        outer = tree.parents[outer]
    return wraps


def _joined(
    tree: CallTree,
    calls: Ints,
    times: Ints,
    tf32: Mask,
    uncounted: Mask,
    name: Ints,
    names: Sequence[tuple[str, str | None]],
) -> tuple[list[OperatorCalls], Ints]:
    """Return the sums over the calls of one operator with the same inputs, in the order of their first calls.

    Also returned: the index of each call among them. `name`: of each call of the tree, as an index into `names`:
    operators and the shapes that a range has in its name.
    """
    needs_values = np.array([*(takes_values(operator) for operator, _ in names), False], np.bool_)
    texts: Mapping[str, tuple[Keys, Sequence[str]]] = {column: tree.rows.codes(column) for column in _INPUTS}
    values = np.where(needs_values[name], texts["input_values"][0], -1)
    keys = [name, *(texts[column][0] for column in _INPUTS[:-1]), values, tf32.astype(np.int64)]
    keys.append(uncounted.astype(np.int64))
    keys = [key[calls] for key in keys]
    groups = groups_of(*keys)
    sums, lines = np.zeros(len(groups.first), np.int64), np.full(len(groups.first), np.iinfo(np.int64).max)
    np.add.at(sums, groups.inverse, times[calls])
    np.minimum.at(lines, groups.inverse, tree.rows["line"][calls])
    order, operators = np.argsort(lines), []
    index_of_group = np.empty(len(order), np.int64)
    index_of_group[order] = np.arange(len(order))
    for group in order.tolist():
        code = [int(key[groups.first[group]]) for key in keys]
        operator, shapes = names[code[0]]
        own_shapes, types, strides, printed = (
            texts[column][1][each] if each >= 0 else None for column, each in zip(_INPUTS, code[1:5], strict=True)
        )
        inputs = OperatorInputs(operator, shapes or own_shapes, types, strides, printed, bool(code[5]))
        operators.append(
            OperatorCalls(inputs, int(groups.sizes[group]), int(sums[group]), bool(code[6]), int(lines[group]))
        )
    return operators, index_of_group[groups.inverse]
