"""GPU time by operator, by a walk through the events of a Chrome trace: for each piece of work all calls around it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.raw_traces import AUTOGRAD, category, chrome_json, span_of

Place = tuple[tuple[str, str], ...]
"""Names and shapes of the operators and ranges around, the outermost first."""

_OUTER = {"user_annotation": 0, "python_function": 1, "cpu_op": 2}


class Walk:
    """`times`: GPU time in ns by place. `kernels`: the same by place and name of the kernel. `calls`: of each place.

    With `in_steps`, only of what was launched, or called, in an annotated step; `steps` is their number.
    """

    def __init__(self, path: Path, in_steps: bool = False) -> None:
        events = [e for e in chrome_json(path)["traceEvents"] if e.get("ph") == "X"]  # type: ignore[attr-defined]
        windows = [span_of(e) for e in events if _is_step(e) and category(e) == "user_annotation"]
        self.steps = len(windows)
        inside: Callable[[int], bool] = lambda at: not in_steps or any(a <= at < b for a, b in windows)  # noqa: E731
        launches: dict[Any, list[dict[str, Any]]] = {}
        threads: dict[Any, list[tuple[int, int, int, int, tuple[str, str]]]] = {}
        for number, event in enumerate(events):
            if category(event) in ("runtime", "driver"):
                launches.setdefault(event["args"].get("correlation"), []).append(event)
            if (word := _word(event)) is not None:
                start, end = span_of(event)
                order = _OUTER[category(event)]
                threads.setdefault((event["pid"], event["tid"]), []).append((start, -end, order, number, word))
        self.times: Counter[Place] = Counter()
        self.kernels: Counter[tuple[Place, str]] = Counter()
        for event in events:
            if category(event) not in ("kernel", "memcpy", "memset"):
                continue
            calls = launches.get(event["args"].get("correlation"), [])
            place: Place = (("(launch not known)", ""),)
            if len(calls) == 1:
                at = span_of(calls[0])[0]
                if not inside(at):
                    continue
                around = [c for c in threads.get((calls[0]["pid"], calls[0]["tid"]), ()) if c[0] <= at < -c[1]]
                place = tuple(c[4] for c in sorted(around)) or (("(outside of ranges)", ""),)
            start, end = span_of(event)
            self.times[place] += end - start
            self.kernels[place, event["name"]] += end - start
        self.calls: Counter[tuple[str, str]] = Counter()
        for of_thread in threads.values():
            self.calls.update(c[4] for c in of_thread if inside(c[0]))


def _is_step(event: dict[str, Any]) -> bool:
    return str(event["name"]).startswith("ProfilerStep#")


def _word(event: dict[str, Any]) -> tuple[str, str] | None:
    name, kind = event["name"], category(event)
    if kind == "user_annotation" or _is_step(event):
        return re.sub(r"(?i)(step|iter|iteration)([ _#:=-]*)\d+$", r"\1\2N", name), ""
    if kind == "python_function":
        return (name[11:], "") if name.startswith("nn.Module: ") else None
    if kind != "cpu_op":
        return None
    if name.startswith(AUTOGRAD):
        return "backward (autograd)", ""
    return name, shapes_of(event["args"].get("Input Dims", []))


def shapes_of(dims: list[Any]) -> str:
    """Shapes as the tree shows them."""
    sizes = list(filter(None, dims))
    if len(sizes) > 6:
        tensors = _flat(sizes)
        return _many(tensors)
    texts = []
    for each in sizes:
        if not any(isinstance(size, list) for size in each):
            texts.append("x".join(str(size) for size in each))
        elif len(each) <= 6:
            texts.append("(" + ", ".join("x".join(map(str, one)) or "[]" for one in each) + ")")
        else:
            texts.append(_many(list(_flat(each))))
    return ", ".join(texts)


def _flat(sizes: list[Any]) -> list[list[int]]:
    flat: list[list[int]] = []
    for each in sizes:
        if each and isinstance(each[0], list):
            flat += _flat(each)
        elif each:
            flat.append(each)
    return flat


def _many(tensors: list[list[int]]) -> str:
    total = 0
    for sizes in tensors:
        elements = 1
        for size in sizes:
            elements *= size
        total += elements
    return f"({len(tensors)} tensors, {total} elements)"
