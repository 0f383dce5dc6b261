"""Folders of data that ship with perflog: the format files and the reference runs."""

from __future__ import annotations

from pathlib import Path


def bundled(name: str) -> Path:
    """The folder of that name: inside the package when perflog is installed, next to the package in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / name
    return installed if installed.is_dir() else package.parent / name
