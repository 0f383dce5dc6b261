"""What the phases and categories of trace events mean."""

from __future__ import annotations

from functools import cache
from typing import Any

EVENT, PAIR, CONTEXT, UNREAD = range(4)
"""Roles: a timed event; the begin or the end of one; what only names or links; what no table takes."""

KINDS = (
    "kernel",
    "memcpy",
    "memset",
    "sync",
    "runtime",
    "cpu",
    "python",
    "range",
    "device_range",
    "span",
    "overhead",
    "mark",
    "library",
    "os",
)
"""Kinds of events; a kind's code is its place here, and -1 is unknown."""

CODE = {kind: code for code, kind in enumerate(KINDS)}
ON_DEVICE = frozenset(CODE[k] for k in ("kernel", "memcpy", "memset", "sync"))

# By lower-case category: PyTorch wrote "Kernel" and "Operator" until 2021. A synchronisation, or an annotation shown on
# a device, overlaps the kernels there: it is none.
_CATEGORIES = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_sync": "sync",
    "gpu_sync": "sync",
    "cpu_op": "cpu",
    "operator": "cpu",
    "python_function": "python",
    "user_annotation": "range",
    "gpu_user_annotation": "device_range",
    "trace": "span",
    "overhead": "overhead",
}
_CALLS = ("runtime", "driver")  # cuda_runtime, cuda_driver, hip_runtime, xpu_runtime, Runtime

_ROLES = {
    **dict.fromkeys(("X", "i", "I", "R", "n"), EVENT),  # complete; instants
    **dict.fromkeys(("B", "E", "b", "e", "S", "F"), PAIR),  # on a thread; asynchronous, newer and older
    **dict.fromkeys(("M", "s", "t", "f", "T", "p", "c"), CONTEXT),  # names, arrows, points on the way, clocks
}


@cache
def role_of(ph: Any, category: Any) -> tuple[int, int]:
    """Role of an event and the code of its kind."""
    role = _ROLES.get(ph, UNREAD) if isinstance(ph, str) else UNREAD
    if role == EVENT and ph != "X":
        return role, CODE["mark"]
    return role, kind_of(category)


def kind_of(category: Any) -> int:
    """Code of the kind of events of a category; -1 where that is unknown."""
    name = category.lower() if isinstance(category, str) else ""
    known = _CATEGORIES.get(name) or ("runtime" if name.endswith(_CALLS) else "")
    return CODE.get(known, -1)
