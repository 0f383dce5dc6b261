"""The version of the installed distribution."""

from __future__ import annotations

import functools


@functools.cache
def installed_version() -> str:
    """Return the version in the metadata of the distribution: `0.1.0`; `0+checkout` where none is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("perflog-ml")  # the distribution's name; the import is `perflog`
    except PackageNotFoundError:
        return "0+checkout"
