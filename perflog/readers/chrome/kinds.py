"""Meanings of the phases and categories of Chrome trace events."""

from __future__ import annotations

from functools import cache
from typing import Any

from perflog.readers.events.event_columns import KIND_CODE

EVENT, PAIR, CONTEXT, UNREAD, COUNTER = range(5)
"""Roles: a timed event; the begin or the end of one; an event that only names or links; one that no table takes; a
reading of counters.
"""

# By lower-case category: PyTorch wrote "Kernel" and "Operator" until 2021. Synchronisations, and annotations shown on a
# device, overlap the kernels there, so they are no kernels.
_KINDS = {
    "kernel": "kernel",
    "mtia_ccp_events": "kernel",  # of the command processor on the device
    "memcpy": "memcpy",
    "memset": "memset",
    "cuda_event": "sync",
    "hpu_op": "runtime",  # of the host, in spite of its name
    "cpu_op": "cpu",
    "operator": "cpu",
    "python_function": "python",
    "user_annotation": "range",
    "trace": "span",
    "overhead": "overhead",
}
# Of any maker of devices: gpu_memcpy, mlu_memcpy, xpu_sync, gcu_user_annotation, hip_runtime, Runtime.
_KINDS_BY_END = {
    "_memcpy": "memcpy",
    "_memset": "memset",
    "_sync": "sync",
    "_user_annotation": "device_range",
    "runtime": "runtime",
    "driver": "runtime",
}

_ROLES = {
    **dict.fromkeys(("X", "i", "I", "R", "n"), EVENT),  # complete; instants
    **dict.fromkeys(("B", "E", "b", "e", "S", "F"), PAIR),  # on a thread; asynchronous, newer and older
    **dict.fromkeys(("M", "s", "t", "f", "T", "p", "c"), CONTEXT),  # names, arrows, points inside an event, clocks
    "C": COUNTER,
}


COMPUTED = "perflog_"
"""Begin of the categories of events that perflog itself computed when it exported a trace."""


@cache
def role_and_kind(phase: Any, category: Any) -> tuple[int, int]:
    """Return the role of an event, and the code of its kind, -1 if that is unknown."""
    role = _ROLES.get(phase, UNREAD)
    if role == EVENT and phase != "X":
        return role, KIND_CODE["mark"]
    name = category.lower() if isinstance(category, str) else ""
    if name.startswith(COMPUTED):
        return CONTEXT, -1
    by_end = (kind for end, kind in _KINDS_BY_END.items() if name.endswith(end))
    kind = _KINDS.get(name) or next(by_end, "")
    return role, KIND_CODE.get(kind, -1)
