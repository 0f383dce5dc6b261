"""perflog reads the logs of distributed training into typed tables, and says what they mean.

`perflog.read("run.txt")` reads logs, `perflog.load(".perflog")` opens a store; both give a `Log`.
`perflog.metrics.steps(log)` and its like compute, `perflog.plots.steps(log)` and its like draw, `perflog.lint(log)`
finds what cannot be trusted, and `perflog.compare(a, b)` tells two runs apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perflog import metrics, plots
    from perflog.analysis.compare import compare
    from perflog.analysis.lint import lint
    from perflog.errors import PerflogError
    from perflog.log import Log, find, load, read, reference
    from perflog.output import export

__all__ = [
    "Log",
    "PerflogError",
    "__version__",
    "compare",
    "export",
    "find",
    "lint",
    "load",
    "metrics",
    "plots",
    "read",
    "reference",
]

_HOMES = {
    **dict.fromkeys(("Log", "find", "load", "read", "reference"), "perflog.log"),
    "PerflogError": "perflog.errors",
    "compare": "perflog.analysis.compare",
    "lint": "perflog.analysis.lint",
}
_MODULES = {"export": "perflog.output.export", "metrics": "perflog.metrics", "plots": "perflog.plots"}


def __getattr__(name: str) -> Any:
    """What is exported, imported when it is first asked for: `import perflog` loads nothing heavy."""
    from importlib import import_module

    if name == "__version__":
        return _version()
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'perflog' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("perflog-ml")  # the distribution's name; the import is `perflog`
    except PackageNotFoundError:  # a checkout that is not installed
        return "0+checkout"
