"""Trees of work: calls of the host with the same name and the same path are one node, with the work that they launched.

Work belongs to the innermost call around the launching call, whenever it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.call_tree import NO_CALL, RANGE_KINDS, CallTree, call_trees
from perflog.metrics.traces.device_work import TraceDevice, seconds
from perflog.metrics.traces.launches import Launches, launches_by_file
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL

OUTSIDE, UNKNOWN = "(outside of ranges)", "(launch not known)"
"""Replace the name: the launch is in no call of the tree; the trace does not show which call launched the work."""

PATH_MARK = " > "
"""Between the names of a path."""


class Word(NamedTuple):
    """What calls are called that are one in a tree. `shapes`: of the inputs of an operator, as people write them."""

    name: str
    kind: str
    shapes: str | None = None


WordOf = Callable[[str, str, str | None], Word | None]
"""Returns the word of a call from its kind, its name and the printed shapes of its inputs; None: it is in no tree."""


class JoinedCalls(Struct, frozen=True, eq=False):
    """The calls of a file, with calls of one word in joined calls as one node. Parents come before children.

    `nodes`: the node of each call. `parents`: the node around each node, or NO_CALL. `words`: what its calls are
    called.
    """

    calls: CallTree
    nodes: Ints
    parents: Ints
    words: Sequence[Word]

    def around(self, launches: Launches) -> Ints:
        """Return the node of the innermost call around each launch, or NO_CALL."""
        return np.append(self.nodes, NO_CALL)[self.calls.around(launches)]


class WorkTree(Struct, frozen=True, eq=False):
    """A tree of one file of a run. All sequences and arrays have an entry for each node, parents before children.

    `names`, `kinds` and `shapes` come from the words; the kind of OUTSIDE and UNKNOWN is None. `parents`: index of
    the node around, or NO_CALL. `calls`: index of the node of each call, and its start in ns. `entered`: number of
    calls. `host_ns`: host time. `lines`: line of the first call. `work`: each device of the file with the index of the
    node that launched each piece of its work.
    """

    run: str
    part: int
    rank: int | None
    names: Sequence[str]
    kinds: Sequence[str | None]
    shapes: Sequence[str | None]
    parents: Ints
    calls: tuple[Ints, Ints]
    entered: Ints
    host_ns: Ints
    lines: Sequence[int | None]
    work: Sequence[tuple[TraceDevice, Ints]]

    def paths(self) -> list[str]:
        """The path of each node, by the names."""
        paths: list[str] = []
        for name, parent in zip(self.names, self.parents.tolist(), strict=True):
            paths.append(name if parent == NO_CALL else f"{paths[parent]}{PATH_MARK}{name}")
        return paths

    def with_nested(self, own: Ints) -> Ints:
        """Sums over each node and the nodes inside it. `own`: numbers by node, in the first dimension."""
        sums = own.copy()
        for index in range(len(sums) - 1, -1, -1):
            if self.parents[index] != NO_CALL:
                sums[self.parents[index]] += sums[index]
        return sums

    def sums(self) -> WorkSums:
        """Return the sums of the work of all devices of the file."""
        own, number = np.zeros(len(self.names), np.int64), np.zeros(len(self.names), np.int64)
        for device, nodes in self.work:
            np.add.at(own, nodes, device.work.ends - device.work.starts)
            np.add.at(number, nodes, 1)
        return WorkSums(own, self.with_nested(own), self.with_nested(number))

    def depth_first(self, size: Ints) -> list[tuple[int, int]]:
        """Index and depth of the nodes, each after its parent, the largest first: by size, then by host time.

        OUTSIDE and UNKNOWN come last.
        """
        inside: dict[int, list[int]] = {}
        for index in np.lexsort((self.host_ns, size)).tolist():  # the largest is last, and taken first
            inside.setdefault(int(self.parents[index]), []).append(index)
        other = [index for index in inside.get(NO_CALL, []) if self.kinds[index] is None]
        named = [index for index in inside.get(NO_CALL, []) if self.kinds[index] is not None]
        stack = [(index, 0) for index in sorted(other, reverse=True) + named]
        order = []
        while stack:
            index, depth = stack.pop()
            order.append((index, depth))
            stack += [(each, depth + 1) for each in inside.get(index, [])]
        return order


class WorkSums(Struct, frozen=True, eq=False, dict=True):
    """GPU time in ns and number of pieces of work of each node of a tree: its own, and with the nodes inside."""

    own: Ints
    inclusive: Ints
    launched: Ints

    @cached_property
    def total(self) -> int:
        """Sum over all nodes."""
        return int(self.own.sum())

    def figures(self, index: int) -> dict[str, object]:
        """Return the columns of a row of a metric with the times and counts of a node."""
        return {
            "launched": int(self.launched[index]),
            "gpu_s": float(seconds(self.inclusive[index])),
            "share": self.inclusive[index] / self.total if self.total else None,
            "exclusive_s": float(seconds(self.own[index])),
        }


def last_of_path(path: str) -> str:
    """Return the name that a path leads to."""
    return path.rpartition(PATH_MARK)[2]


def work_by_name(device: TraceDevice, nodes: Ints, chosen: Mask | None = None) -> Iterator[tuple[int, str, int, int]]:
    """Yield node, name, time in ns and number of the kernels, copies and memsets of each name that a node launched.

    Args:
        device: A device of a tree.
        nodes: The node that launched each piece of its work.
        chosen: Which pieces count; None: all.
    """
    work = device.work
    index = np.arange(len(nodes)) if chosen is None else np.flatnonzero(chosen)
    names, words = work.rows.codes("name")
    alike = groups_of(nodes[index], names[index])
    times = np.zeros(len(alike.first), np.int64)
    np.add.at(times, alike.inverse, (work.ends - work.starts)[index])
    first = index[alike.first]
    found = zip(nodes[first].tolist(), names[first].tolist(), times.tolist(), alike.sizes.tolist(), strict=True)
    yield from ((node, words[name] if name >= 0 else "-", time, number) for node, name, time, number in found)


def work_trees(tables: Tables, word_of: WordOf, with_shapes: bool = False) -> list[WorkTree]:
    """Return the trees of all files of traces that have calls in them.

    Args:
        tables: Tables of the runs.
        word_of: Returns the word of a call, or None if it is in no tree.
        with_shapes: Whether `word_of` looks at the shapes of inputs.
    """
    columns = ("rank", "shapes") if with_shapes else ("rank",)
    by_file = {
        (calls.run, calls.part): joined_calls(calls, word_of, with_shapes)
        for calls in call_trees(
            tables, *columns, kinds=RANGE_KINDS, name=lambda kind, name: word_of(kind, name, None) is not None
        )
    }
    trees = [_work_tree(by_file.pop(file), devices) for file, devices in launches_by_file(tables) if file in by_file]
    trees += [_work_tree(joined, []) for joined in by_file.values()]
    return sorted(trees, key=lambda tree: (tree.run, tree.part))


def joined_calls(calls: CallTree, word_of: WordOf, with_shapes: bool = False) -> JoinedCalls:
    """Return the calls of a file as nodes; `calls` holds only calls that have a word."""
    (kind, kinds), (name, names) = calls.rows.codes("kind"), calls.rows.codes("name")
    shape, shapes = calls.rows.codes("shapes") if with_shapes else (np.full(len(calls), -1, np.int64), [])
    alike = groups_of(kind, name, shape)
    words: dict[Word, int] = {}
    codes = np.zeros(len(alike.first), np.int64)
    for i, call in enumerate(alike.first.tolist()):
        word = word_of(kinds[kind[call]], names[name[call]], shapes[shape[call]] if shape[call] >= 0 else None)
        codes[i] = words.setdefault(word or Word("", ""), len(words))
    nodes, parents, node_codes = _joined(calls.parents, codes[alike.inverse])
    listed = list(words)
    return JoinedCalls(calls, nodes, np.array(parents, np.int64), [listed[code] for code in node_codes])


def _joined(parents: Ints, codes: Ints) -> tuple[Ints, list[int], list[int]]:
    """Join the calls of one code that lie in joined calls.

    Returns:
        The node of each call; and for each node the node around it, or NO_CALL, and its code. Parents come first.
    """
    node = np.full(len(parents), NO_CALL, np.int64)
    around: list[int] = []
    node_codes: list[int] = []
    level = np.flatnonzero(parents == NO_CALL)
    while len(level):
        above = np.append(node, NO_CALL)[parents[level]]
        joined = groups_of(above, codes[level])
        node[level] = joined.inverse + len(around)
        around += above[joined.first].tolist()
        node_codes += codes[level[joined.first]].tolist()
        is_above = np.zeros(len(parents) + 1, np.bool_)
        is_above[level] = True
        level = np.flatnonzero(is_above[parents])
    return node, around, node_codes


def _work_tree(joined: JoinedCalls, devices: Sequence[tuple[TraceDevice, Launches]]) -> WorkTree:
    calls, node, parents = joined.calls, joined.nodes, joined.parents
    entered, host = np.bincount(node, minlength=len(parents)), np.zeros(len(parents), np.int64)
    np.add.at(host, node, calls.ends - calls.starts)
    lines = np.full(len(parents), np.iinfo(np.int64).max)
    np.minimum.at(lines, node, calls.rows["line"])
    outside, unknown = len(parents), len(parents) + 1
    launched = []
    for device, launches in devices:
        around = joined.around(launches)
        around = np.where(around == NO_CALL, outside, around)
        launched.append((device, np.where(launches.starts == NULL, unknown, around)))
    other = range(max((int(nodes.max(initial=0)) for _, nodes in launched), default=0) + 1 - outside)
    ranks = np.unique(calls.rows["rank"])
    return WorkTree(
        run=calls.run,
        part=calls.part,
        rank=int(ranks[0]) if len(ranks) == 1 and ranks[0] != NULL else None,
        names=[*(word.name for word in joined.words), *((OUTSIDE, UNKNOWN)[i] for i in other)],
        kinds=[*(word.kind for word in joined.words), *(None for _ in other)],
        shapes=[*(word.shapes for word in joined.words), *(None for _ in other)],
        parents=np.array([*parents, *(NO_CALL for _ in other)], np.int64),
        calls=(node, calls.starts.copy()),
        entered=np.append(entered, [0 for _ in other]).astype(np.int64),
        host_ns=np.append(host, [0 for _ in other]).astype(np.int64),
        lines=[*lines.tolist(), *(None for _ in other)],
        work=launched,
    )
