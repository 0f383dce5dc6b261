"""Operators of Chrome traces by plain loops over the JSON: which launched what, and the work of products by hand."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.raw_traces import AUTOGRAD, category, chrome_json, span_of

Event = dict[str, Any]
Key = tuple[str, str]
"""Operator, and its shapes as Python prints them."""

ITEM = {"float": 4, "c10::Half": 2, "c10::BFloat16": 2, "double": 8}
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear")


@dataclass
class RawOperator:
    """Calls of an operator with the same shapes. `times`: of their work in ns, by call."""

    name: str
    shapes: list[Any]
    types: list[Any]
    times: dict[int, int] = field(default_factory=dict)

    @property
    def time(self) -> int:
        return sum(self.times.values())

    @property
    def flop(self) -> int:
        """Floating-point operations of all calls of a product."""
        shapes = [shape for shape in self.shapes if shape]
        if self.name == "aten::linear":
            return 2 * int(math.prod(shapes[0])) * int(shapes[1][0]) * len(self.times)
        a, b = shapes[:2] if self.name in ("aten::mm", "aten::bmm") else shapes[1:3]
        return 2 * int(math.prod(a)) * int(b[-1]) * len(self.times)

    @property
    def bytes(self) -> int:
        """Bytes of inputs and output of all calls of a product without strides of 0."""
        read = [math.prod(s) * ITEM[t] for s, t in zip(self.shapes, self.types, strict=True) if s and t in ITEM]
        a, b = self.shapes[1:3] if "add" in self.name else self.shapes[:2]
        columns = b[0] if self.name == "aten::linear" else b[-1]
        return int(sum(read) + math.prod(a[:-1]) * columns * ITEM[self.types[0]]) * len(self.times)


def raw_operators(path: Path, with_formula: Collection[str]) -> tuple[dict[Key, RawOperator], int]:
    """Return the operators of a trace, and the time of all its work in ns.

    A kernel belongs to the innermost operator around the call that launched it, of those with a formula if any.
    """
    events = [event for event in chrome_json(path)["traceEvents"] if event.get("ph") == "X"]  # type: ignore[attr-defined]
    calls: dict[object, list[Event]] = {}
    threads: dict[object, list[tuple[int, int, int]]] = {}
    for place, event in enumerate(events):
        if category(event) in ("runtime", "driver"):
            calls.setdefault(event.get("args", {}).get("correlation"), []).append(event)
        elif category(event) in ("cpu_op", "operator") and not event["name"].startswith(AUTOGRAD):
            threads.setdefault((event["pid"], event["tid"]), []).append((*span_of(event), place))
    found: dict[Key, RawOperator] = {}
    whole = 0
    for event in events:
        if category(event) not in ("kernel", "memcpy", "memset"):
            continue
        start, end = span_of(event)
        whole += end - start
        launches = calls.get(event["args"].get("correlation"), [])
        if len(launches) == 1:
            owner = _owner(events, threads, launches[0], with_formula)
            if owner is not None:
                args: Mapping[str, Any] = events[owner].get("args", {})
                key = events[owner]["name"], str(args.get("Input Dims"))
                operator = found.setdefault(
                    key, RawOperator(key[0], args.get("Input Dims", []), args.get("Input type", []))
                )
                operator.times[owner] = operator.times.get(owner, 0) + end - start
    return found, whole


def _owner(
    events: Sequence[Event],
    threads: Mapping[object, list[tuple[int, int, int]]],
    call: Event,
    with_formula: Collection[str],
) -> int | None:
    at = span_of(call)[0]
    around = [each for each in threads.get((call["pid"], call["tid"]), ()) if each[0] <= at < each[1]]
    innermost = [place for _, _, place in sorted(around, key=lambda each: (-each[0], each[1], -each[2]))]
    known = [place for place in innermost if events[place]["name"] in with_formula]
    return next(iter(known or innermost), None)
