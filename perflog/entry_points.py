"""Entry points that installed packages register, such as formats and readers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def registered(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group, of all installed packages."""
    return tuple(_every().select(group=group))


def package_of(point: EntryPoint) -> str:
    """Return the name of the package that registered an entry point."""
    return point.dist.name if point.dist is not None else point.module


@cache
def _every() -> Any:  # EntryPoints, or before Python 3.12 SelectableGroups: both have `select`
    """Return all entry points. The search through the packages takes 10 to 30 ms: it is done once for all groups."""
    from importlib.metadata import entry_points

    return entry_points()
