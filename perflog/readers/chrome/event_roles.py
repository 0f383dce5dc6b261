"""Meanings of the phases and categories of Chrome trace events."""

from __future__ import annotations

from functools import cache
from typing import Any

from perflog.readers.event_columns import KIND_CODE

EVENT, PAIR, CONTEXT, UNREAD = range(4)
"""Roles: a timed event; the begin or the end of one; an event that only names or links; one that no table takes."""

# By lower-case category: PyTorch wrote "Kernel" and "Operator" until 2021. Synchronisations, and annotations shown on a
# device, overlap the kernels there, so they are no kernels.
_KINDS = {
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
    **dict.fromkeys(("M", "s", "t", "f", "T", "p", "c"), CONTEXT),  # names, arrows, points inside an event, clocks
}


@cache
def role_and_kind(phase: Any, category: Any) -> tuple[int, int]:
    """Return the role of an event, and the code of its kind, -1 if that is unknown."""
    role = _ROLES.get(phase, UNREAD) if isinstance(phase, str) else UNREAD
    if role == EVENT and phase != "X":
        return role, KIND_CODE["mark"]
    name = category.lower() if isinstance(category, str) else ""
    kind = _KINDS.get(name) or ("runtime" if name.endswith(_CALLS) else "")
    return role, KIND_CODE.get(kind, -1)
