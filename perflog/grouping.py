"""Values by key: what comes in pairs as a list for each key."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key in their order; the keys in the order of their first values.

    Example:
        >>> grouped((len(word), word) for word in ("at", "in", "log"))
        {2: ['at', 'in'], 3: ['log']}
    """
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
