"""Short names of kernels, for sentences and figures: what they compute, without types and arguments."""

from __future__ import annotations

import re

LONGEST = 40
"""Characters of a short name; of a longer one the middle is cut."""


def short_kernel(name: str) -> str:
    """Return a kernel's name without return type, namespaces, template arguments and parameters.

    Example:
        >>> short_kernel("void at::native::(anonymous namespace)::indexSelectLargeIndex<float, 2>(float*, long)")
        'indexSelectLargeIndex'
    """
    name = re.sub(r"^void ", "", name)
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", name)) != name:
        name = shorter
    name = re.split(r"[<(]", name)[0].rsplit("::", 1)[-1].strip() or name
    name = re.sub(r"^nccl(Dev)?Kernel_([A-Za-z]+)_.*", r"\2", name)
    return name if len(name) <= LONGEST else f"{name[:24]}…{name[-15:]}"
