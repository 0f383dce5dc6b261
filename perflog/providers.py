"""What packages above a class add to it: the attempts of the runs of a `Log`, and what a notebook shows of an object.

These packages import the class, so its module cannot import them. `perflog/__init__.py` registers the module of each
part by name; the class imports the module when it needs the part.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_modules: dict[str, str] = {}


def register(part: str, module: str) -> None:
    """Register the module that provides a part. The module is not imported yet."""
    _modules[part] = module


def provider(part: str) -> Any:
    """Import and return the module that provides a part."""
    return import_module(_modules[part])
