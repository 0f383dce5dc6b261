"""Shapes of the inputs of an operator: as people write them, and in the names of ranges."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache

from perflog.lazy_patterns import lazy_pattern

_MOST = 6  # shapes that are written out
# emit_nvtx of PyTorch, nsys --pytorch=autograd-nvtx and autograd-shapes-nvtx: torch/csrc/profiler/util.cpp
_NVTX = lazy_pattern(
    r"(\w[\w:.]*(?:: \w+)?)(?=, .*\b(?:op_id|sizes) = )(?:, seq = \d+)?(?:, op_id = \d+)?"
    r"(?:, sizes = (\[.*?\])(?:, input_op_ids = .*)?)?",
    re.DOTALL,
)


def nvtx_operator(name: str) -> tuple[str, str | None] | None:
    """Return operator and shapes of a range that PyTorch writes for an operator: both are in its name. Else None.

    Example:
        >>> nvtx_operator("aten::mm, op_id = 7, sizes = [[2, 3], [3, 4]]")
        ('aten::mm', '[[2, 3], [3, 4]]')
    """
    match = _NVTX.fullmatch(name)
    return (match[1], match[2]) if match else None


@cache
def shapes_text(printed: str | None) -> str | None:
    """Return the shapes of inputs in short, from JSON; None where the trace prints none.

    Anything but a list stays as it is. Numbers and absent inputs have no shape. Of many tensors, their number and the
    number of their elements is kept.

    Example:
        >>> shapes_text("[[4096, 1024], [1024, 512], [], [[2, 3], [4]]]")
        '4096x1024, 1024x512, (2x3, 4)'
    """
    try:
        shapes = json.loads(printed) if printed else None
    except (ValueError, RecursionError):
        return printed
    if not isinstance(shapes, list):
        return printed
    texts = [text for shape in shapes if (text := _shape(shape))]
    return (", ".join(texts) if len(texts) <= _MOST else _many(shapes)) or None


def _shape(shape: object) -> str:
    if not isinstance(shape, list) or not shape:
        return ""
    if not any(isinstance(size, list) for size in shape):
        return "x".join(map(str, shape))
    return f"({', '.join(_shape(each) or '[]' for each in shape)})" if len(shape) <= _MOST else _many(shape)


def _many(shapes: list[object]) -> str:
    """Many shapes in short: the number of tensors and of their elements."""
    tensors = list(_tensors(shapes))
    return f"({len(tensors)} tensors, {sum(map(math.prod, tensors))} elements)"


def _tensors(shapes: list[object]) -> Iterator[list[int]]:
    for shape in shapes:
        if isinstance(shape, list) and shape:
            if all(isinstance(size, int) for size in shape):
                yield shape
            else:
                yield from _tensors(shape)
