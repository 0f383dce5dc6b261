"""Kinds of events by the names that rocprofv3 gives to its arrays and categories."""

from __future__ import annotations

import re
from functools import cache

CALL_KINDS = ("runtime", "library")
"""Kinds of calls, which may start work on a device."""

_PATTERNS = (
    (r"marker_(\w+_)?api", "range"),
    (r"(hip|hsa)_(\w+_)?api", "runtime"),
    (r"kernel_dispatch$|counter_collection$", "kernel"),
    (r"memory_copy$", "memcpy"),
    (r"_api(_|$)", "library"),
)


@cache
def kind_of(name: str) -> str | None:
    """Return the kind of events of an array or category, such as hip_api or HIP_RUNTIME_API_EXT; None: unknown."""
    return next((kind for pattern, kind in _PATTERNS if re.search(pattern, name.lower())), None)
