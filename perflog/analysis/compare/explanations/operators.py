"""Operators of two sides, matched by what is around them: where their GPU time went, and which kernels they launch.

Operators are one if their names, kinds and the shapes of their inputs are equal, and all that is around them is one.
What is left inside a node is matched by name and kind, so that a change of the shapes shows, then with the numbers of
the name left out, such as batch numbers. The rest is on one side only. Times add up: the rows inside a row, and its own
time, make its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Struct
from msgspec.structs import asdict, replace

from perflog.analysis.compare.measures import SideValues
from perflog.analysis.compare.operator_trees import Key, OperatorNode, merged, operator_tree, operators_by_run
from perflog.analysis.compare.sides import Case, Side
from perflog.arrays import Floats
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import Tables
from perflog.metrics.compared import ALL, Measure
from perflog.metrics.registry import column, columns_of
from perflog.metrics.traces.operators.device_operators import OPERATOR, kernels_text
from perflog.metrics.traces.steady_work import STEP, TRACE, devices_by_run, steady_steps
from perflog.metrics.traces.work_tree import PATH_MARK
from perflog.units import first_few, show


class OperatorRow(Struct, frozen=True):
    """The GPU time of an operator on both sides."""

    case: Annotated[str, column("the configuration that the sides share")]
    base: Annotated[str, column("name of the first side")]
    side: Annotated[str, column("name of the side that is compared with the base")]
    operator: Annotated[
        str,
        column(
            "operator, range or module, each below what it lies in, the largest difference first; (itself): what "
            "it launches outside of those inside it"
        ),
    ]
    shapes: Annotated[str | None, column("shapes of its inputs; if they differ, of base `->` side")]
    depth: Annotated[int, column("0 for all work, 1 for what lies in nothing, and so on")]
    kind: Annotated[str | None, column("operator, step, range, module, autograd", brief=False)]
    part: Annotated[str, column("step: times and calls of a steady step; trace: of a trace without annotated steps")]
    base_s: Annotated[float, column("GPU time on the base: mean over steps and devices", "s", "lower")]
    side_s: Annotated[float, column("the same on the side", "s", "lower")]
    difference_s: Annotated[float, column("side - base; the rows of a level add up", "s", "lower")]
    share: Annotated[float | None, column("share of the difference of all work; null where that does not differ", "1")]
    base_calls: Annotated[float | None, column("calls of a rank on the base; null: it is not there")]
    side_calls: Annotated[float | None, column("the same on the side")]
    base_kernels: Annotated[
        str | None, column("short names of what it launches on the base, those longest on both first")
    ]
    side_kernels: Annotated[str | None, column("the same on the side")]
    only: Annotated[str | None, column("base or side: it is on this side alone")]
    path: Annotated[str | None, column("names of what is around it and its own", brief=False)]


COLUMNS = columns_of(OperatorRow)

ITSELF = "(itself)"
"""Instead of the name of an operator: the work that it launches outside of the operators inside it."""

ALL_WORK = "all work"
_BASES = {STEP: "a step", TRACE: "whole trace"}
_LEAST = 0.005  # of the GPU time: smaller operators have no row with statistics
_LEAST_MOVED = 0.002  # of the GPU time: a smaller difference is not shown
_ROUNDING = 1e-12  # relative
_MOST_SHAPES = 3  # that a row names
_NUMBER = lazy_pattern(r"\d+")

NameOf = Callable[[Key], Hashable]


class Matched(Struct, frozen=True):
    """An operator on both sides, or on one: `base` or `side` is None where it is not there."""

    base: OperatorNode | None
    side: OperatorNode | None
    shapes: tuple[str | None, str | None]
    inside: list[Matched]

    @property
    def node(self) -> OperatorNode:
        """The node of the base, or else of the side."""
        node = self.base or self.side
        assert node is not None
        return node

    @property
    def is_same(self) -> bool:
        """Whether name and shapes are equal on both sides."""
        return self.base is not None and self.side is not None and self.base.key == self.side.key

    @property
    def name(self) -> str:
        """Its name; both names if they differ, which they can only in their numbers."""
        names = {node.name for node in (self.base, self.side) if node}
        return names.pop() if len(names) == 1 else _NUMBER.sub("N", self.node.name)

    @property
    def shapes_text(self) -> str | None:
        """The shapes of its inputs; of both sides if they differ."""
        base, side = self.shapes
        if base == side or self.side is None:
            return base
        return side if self.base is None else f"{base or '-'} -> {side or '-'}"


def matched(base: OperatorNode | None, side: OperatorNode | None, shapes: tuple[str | None, str | None]) -> Matched:
    """Return two operators as one, with those inside them."""
    whole = Matched(base, side, shapes, [])
    open_ = [whole]  # a loop: ranges may lie in thousands of others
    while open_:
        pair = open_.pop()
        pair.inside.extend(_matches(pair.base, pair.side))
        open_ += pair.inside
    return whole


def _matches(base: OperatorNode | None, side: OperatorNode | None) -> Iterator[Matched]:
    """Yield the operators directly inside of two, matched by key, else by name. What is in them follows later."""
    unmatched = [dict(node.inside) if node else {} for node in (base, side)]
    for key in [key for key in unmatched[0] if key in unmatched[1]]:
        yield Matched(unmatched[0].pop(key), unmatched[1].pop(key), (key[1], key[1]), [])
    namings: tuple[NameOf, ...] = (lambda key: (key[0], key[2]), lambda key: (_NUMBER.sub("N", key[0]), key[2]))
    for name_of in namings:
        groups = [_by_name(side_part, name_of) for side_part in unmatched]
        for name in [name for name in groups[0] if name in groups[1]]:
            base_part, side_part = (
                [nodes.pop(key) for key in group[name]] for nodes, group in zip(unmatched, groups, strict=True)
            )
            shapes = _listed(groups[0][name]), _listed(groups[1][name])
            yield Matched(merged(base_part), merged(side_part), shapes, [])
    for key, node in unmatched[0].items():
        yield Matched(node, None, (key[1], None), [])
    for key, node in unmatched[1].items():
        yield Matched(None, node, (None, key[1]), [])


def _by_name(nodes: dict[Key, OperatorNode], name_of: NameOf) -> dict[Hashable, list[Key]]:
    return grouped((name_of(key), key) for key in nodes)


def _listed(keys: Sequence[Key]) -> str | None:
    """The shapes of operators that became one."""
    return first_few(dict.fromkeys(shapes for _, shapes, _ in keys if shapes), _MOST_SHAPES, "; ") or None


class MatchedSides(Struct, frozen=True):
    """The operators of a side in a case, matched with the base; with the number of the side and the runs.

    `part`: what their times are of: STEP or TRACE.
    """

    case: Case
    number: int
    runs: tuple[Sequence[str], Sequence[str]]
    part: str
    whole: Matched

    def times(self, pair: Matched) -> tuple[float, float]:
        """GPU time of an operator on both sides."""
        base, side = (node.inclusive if node else {} for node in (pair.base, pair.side))
        return _mean(base, self.runs[0]), _mean(side, self.runs[1])

    def own_times(self, pair: Matched) -> tuple[float, float]:
        """The same without the operators inside it."""
        base, side = (node.own if node else {} for node in (pair.base, pair.side))
        return _mean(base, self.runs[0]), _mean(side, self.runs[1])


def _mean(times: Mapping[str, Floats], runs: Sequence[str]) -> float:
    return sum(float(times[run].mean()) for run in runs if run in times) / len(runs)


def matched_sides(cases: Sequence[Case], values: Sequence[SideValues]) -> list[MatchedSides]:
    """Match the operators of each side with the base, in the cases in which both have some."""
    found = []
    for case in cases:
        runs = [
            [run for run in side_part if run in v.operators] for side_part, v in zip(case.runs, values, strict=True)
        ]
        roots = [merged([v.operators[run] for run in of]) if of else None for of, v in zip(runs, values, strict=True)]
        for k, root in enumerate(roots):
            if k and roots[0] and root:
                whole = matched(roots[0], root, (None, None))
                found.append(MatchedSides(case, k, (runs[0], runs[k]), values[k].parts[runs[k][0]], whole))
    return found


def add_measures(compared: Sequence[MatchedSides], values: Sequence[SideValues]) -> None:
    """Add the operators that take a noticeable part of the time to the values of their sides; ranges are there already.

    Of several sides, only operators with equal name and shapes: any other match holds for two sides only.
    """
    for sides in compared:
        least = _LEAST * max(sides.times(sides.whole))
        pairs = [
            (pair, above)
            for pair, above in _walk(sides.whole, ())
            if pair.base and pair.side and pair.node.kind == OPERATOR and max(sides.times(pair)) >= least
            and (len(values) == 2 or all(each.is_same for each in (*above, pair)))
        ]  # fmt: skip
        shorts = Counter(_measure_name(pair, above, False) for pair, above in pairs)
        for pair, above in pairs:
            short = _measure_name(pair, above, False)
            measure = Measure("operator", _measure_name(pair, above, True) if shorts[short] > 1 else short, of=ALL)
            for node, number in ((pair.base, 0), (pair.side, sides.number)):
                for run, times in node.inclusive.items() if node else ():
                    values[number].add(measure, run, times)


def _walk(pair: Matched, above: tuple[Matched, ...]) -> Iterator[tuple[Matched, tuple[Matched, ...]]]:
    """The operators inside of one, each with those around it."""
    open_ = [(each, above) for each in reversed(pair.inside)]
    while open_:
        each, above = open_.pop()
        yield each, above
        open_ += [(inner, (*above, each)) for inner in reversed(each.inside)]


def _measure_name(pair: Matched, above: Sequence[Matched], with_shapes: bool) -> str:
    around = [_with_shapes(each) if with_shapes else each.name for each in above]
    return PATH_MARK.join([*around, _with_shapes(pair)])


def _with_shapes(pair: Matched) -> str:
    return " ".join(filter(None, (pair.name, pair.shapes_text)))


def operator_rows(sides: Sequence[Side], compared: Sequence[MatchedSides]) -> list[OperatorRow]:
    """Return the operators of each case and side with the base, the largest difference first."""
    rows: list[OperatorRow] = []
    for each in compared:
        base, side = each.times(each.whole)
        total = side - base if abs(side - base) > _ROUNDING * max(base, side) else None
        rows += _rows_of(each, (sides[0].name, sides[each.number].name), total)
    return rows


def moved_between(tables: Tables, base: str, other: str, room: int) -> list[MovedOperator]:
    """Return the operators with the largest change of GPU time between two runs, as `moved_most` does, in all their
    steps.

    Empty if one of the traces has no work of a device or names no operators, or if only one of them has steps.
    """
    trees, devices = operators_by_run(tables), devices_by_run(tables)
    roots, parts = [], []
    for run in (base, other):
        if not (members := devices.get(run)) or run not in trees:
            return []
        steps = steady_steps(members, None, 0)
        roots.append(operator_tree(trees[run], members, steps))
        parts.append(TRACE if steps is None else STEP)
    if parts[0] != parts[1]:
        return []
    whole = matched(roots[0], roots[1], (None, None))
    sides = MatchedSides(Case("", ((base,), (other,))), 1, ((base,), (other,)), parts[0], whole)
    return moved_most([*_rows_of(sides, (base, other), None)], room)


def time_basis(row: OperatorRow) -> str:
    """Return what the times of a row cover, in words: `a step` or `whole trace`."""
    return _BASES[row.part]


def changes_kernels(row: OperatorRow) -> bool:
    """Return whether an operator launches other kernels on the side than on the base."""
    return bool(row.base_kernels and row.side_kernels and row.base_kernels != row.side_kernels)


def kernels_of_both(row: OperatorRow) -> str | None:
    """Return what an operator launches; of both sides with `->` in between where that differs."""
    base, side = row.base_kernels, row.side_kernels
    return f"{base} -> {side}" if changes_kernels(row) else base or side


def moved_text(row: MovedOperator) -> str:
    """Return a row of `moved_most` in words: name and shapes, both times, both kernels where they differ."""
    name = " ".join(filter(None, (row.operator, row.shapes)))
    places = f" ({row.places} places)" if row.places > 1 else ""
    text = f"{name}{places}: {show(row.base_s, 's', 3)} -> {show(row.side_s, 's', 3)}"
    return f"{text} ({kernels_of_both(row)})" if changes_kernels(row) else text


def _rows_of(sides: MatchedSides, names: tuple[str, str], total: float | None) -> Iterator[OperatorRow]:
    """The rows of all work: of each operator, of those inside it, and of what it launches itself.

    `names`: of base and side. `total`: the difference of all work.
    """
    open_: list[tuple[Matched, tuple[str, ...]] | OperatorRow] = [(sides.whole, ())]
    while open_:
        next_ = open_.pop()
        if isinstance(next_, OperatorRow):
            yield next_
            continue
        pair, above = next_
        path = (*above, pair.name)
        yield _row_of(sides, names, pair, path, total)
        inside = [each for each in pair.inside if any(sides.times(each))]
        if inside and any(own := sides.own_times(pair)):
            open_.append(_row_of_itself(sides, names, pair, path, own, total))
        inside.sort(key=lambda each: -abs(sides.times(each)[1] - sides.times(each)[0]))
        open_ += [(each, path) for each in reversed(inside)]  # the last one is next


def _row_of(
    sides: MatchedSides, names: tuple[str, str], pair: Matched, path: tuple[str, ...], total: float | None
) -> OperatorRow:
    """The row of an operator with those inside it. `path`: names of what is around it and its own."""
    is_whole = pair is sides.whole
    base, side = sides.times(pair)
    calls = [
        sum(node.calls.values()) / len(runs) if node and node.kind else None
        for node, runs in zip((pair.base, pair.side), sides.runs, strict=True)
    ]
    kernels = _kernels_of(*(node.all_kernels if node else {} for node in (pair.base, pair.side)))
    return OperatorRow(
        case=sides.case.name,
        base=names[0],
        side=names[1],
        operator=ALL_WORK if is_whole else pair.name,
        shapes=pair.shapes_text,
        depth=len(path) - 1,
        kind=pair.node.kind,
        part=sides.part,
        base_s=base,
        side_s=side,
        difference_s=side - base,
        share=(side - base) / total if total else None,
        base_calls=calls[0],
        side_calls=calls[1],
        base_kernels=kernels[0],
        side_kernels=kernels[1],
        only="base" if pair.side is None else "side" if pair.base is None else None,
        path=None if is_whole else PATH_MARK.join(path[1:]),
    )


def _row_of_itself(
    sides: MatchedSides, names: tuple[str, str], pair: Matched, path: tuple[str, ...], own: tuple[float, float],
    total: float | None,
) -> OperatorRow:  # fmt: skip
    """The row of what an operator launches outside of those inside it."""
    kernels = _kernels_of(*(node.kernels if node else {} for node in (pair.base, pair.side)))
    return replace(
        _row_of(sides, names, pair, path, total),
        operator=ITSELF,
        shapes=None,
        depth=len(path),
        kind=None,
        base_s=own[0],
        side_s=own[1],
        difference_s=own[1] - own[0],
        share=(own[1] - own[0]) / total if total else None,
        base_calls=None,
        side_calls=None,
        base_kernels=kernels[0],
        side_kernels=kernels[1],
        only=None,
        path=PATH_MARK.join((*path[1:], ITSELF)),
    )


def _kernels_of(base: Mapping[str, float], side: Mapping[str, float]) -> tuple[str | None, str | None]:
    """What is launched on both sides, in one order: equal kernels are no change because others take longest now."""
    both = {name: base.get(name, 0.0) + side.get(name, 0.0) for name in {**base, **side}}
    base_part, side_part = (kernels_text({name: both[name] for name in kernels}) for kernels in (base, side))
    return base_part, side_part


class MovedOperator(OperatorRow, frozen=True):
    """The operators of one name, shapes and kernels, wherever they are; `places` counts them."""

    places: int


def moved_most(rows: Sequence[OperatorRow], room: int) -> list[MovedOperator]:
    """Return the innermost operators with the largest difference of time, the largest first.

    Args:
        rows: The rows of one case and side, as `operator_rows` has them; the first is all work.
        room: Number of operators at most.
    """
    alike: dict[tuple[str | None, ...], list[OperatorRow]] = {}
    around: list[OperatorRow] = []  # each lies in the one before
    for row, following in zip(rows, [*rows[1:], rows[0]], strict=True):
        around = [*around[: row.depth], row]
        if following.depth > row.depth:
            continue
        named = around[-2] if row.operator == ITSELF else row
        key = named.operator, named.shapes, row.base_kernels, row.side_kernels, row.only
        alike.setdefault(key, []).append(replace(row, operator=named.operator, shapes=named.shapes))
    least = _LEAST_MOVED * max(rows[0].base_s, rows[0].side_s)
    moved = [row for row in map(_together, alike.values()) if abs(row.difference_s) >= least]
    return sorted(moved, key=lambda row: -abs(row.difference_s))[:room]


def _together(rows: Sequence[OperatorRow]) -> MovedOperator:
    """Operators of one name, shapes and kernels as one."""
    sums = {name: sum(getattr(row, name) for row in rows) for name in ("base_s", "side_s", "difference_s")}
    return MovedOperator(**asdict(rows[0]) | sums, places=len(rows))
