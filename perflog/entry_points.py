"""Entry points that installed packages register, such as formats and readers."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_OWN = "perflog_ml-"  # begin of the name of perflog's own folder of metadata


def registered(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group, of all installed packages. perflog's own may be left out."""
    return tuple(_every().select(group=group)) if _others_register() else ()


def package_of(point: EntryPoint) -> str:
    """Return the name of the package that registered an entry point."""
    return point.dist.name if point.dist is not None else point.module


@cache
def _every() -> Any:  # EntryPoints, or before Python 3.12 SelectableGroups: both have `select`
    """Return all entry points. The search through the packages takes 10 to 30 ms: it is done once for all groups."""
    from importlib.metadata import entry_points

    return entry_points()


@cache
def _others_register() -> bool:
    """Return whether another package may register something for perflog.

    Reading their files takes 2 ms. To import importlib.metadata, which reads and parses them, takes 50.
    """
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True  # packages that are not in folders
    return any(map(_registers, sys.path))


def _registers(folder: str) -> bool:
    """Return whether a package in a folder may register something for perflog."""
    try:
        names = os.listdir(folder or ".")
    except NotADirectoryError:
        return True  # an archive
    except OSError:
        return False
    for name in names:
        if name.endswith(".egg"):
            return True
        if name.endswith((".dist-info", ".egg-info")) and not name.startswith(_OWN):
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                    if b"perflog." in file.read():
                        return True
            except OSError:
                continue
    return False
