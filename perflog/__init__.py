"""perflog reads the logs of distributed training into typed tables.

`perflog.read("run.txt")` reads logs, `perflog.load(".perflog")` opens a store; both give a `Log`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perflog.errors import PerflogError
    from perflog.log import Log, load, read

__all__ = ["Log", "PerflogError", "__version__", "load", "read"]

_HOMES = {"Log": "perflog.log", "load": "perflog.log", "read": "perflog.log", "PerflogError": "perflog.errors"}


def __getattr__(name: str) -> Any:
    """What is exported, imported when it is first asked for: `import perflog` loads nothing heavy."""
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        raise AttributeError(f"module 'perflog' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("perflog")
    except PackageNotFoundError:  # a checkout that is not installed
        return "0+checkout"
