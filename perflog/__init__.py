"""perflog reads the logs of distributed training into typed tables, and says what they mean.

- `perflog.read("run.txt")` reads logs into memory, `perflog.ingest("run.txt")` reads them into a store,
  `perflog.load()` opens a store. Each returns a `Log`: its runs and tables.
- `perflog.metrics.steps(log)` and the other metrics compute, `perflog.plots.steps(log)` and the other plots draw.
- `perflog.overview(log)` says on one screen what ran, how fast, and what not to trust.
- `perflog.causes(log)` ranks what takes the time of each run or holds it up, and what the run would win without it.
- `perflog.diagnose(log)` says what ended a job or holds it up.
- `perflog.lint(log)` says which numbers cannot be trusted, `perflog.compare(a, b)` compares runs.
- `perflog.track(log)` says since which version of a program a figure changed.
- `perflog.report(log)` writes all of it on one page, `perflog.export` writes traces and CSV files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perflog import providers

if TYPE_CHECKING:
    from perflog import metrics, plots
    from perflog.analysis.compare import Comparison, compare
    from perflog.analysis.diagnosis import Diagnosis, diagnose, diagnose_jobs
    from perflog.analysis.lint import lint
    from perflog.analysis.overview import Overview, overview
    from perflog.analysis.track import Track, track
    from perflog.errors import PerflogError
    from perflog.log import Log
    from perflog.metrics.causes import causes
    from perflog.opening import find_runs, ingest, load, read, reference
    from perflog.output import export
    from perflog.output.report import report

_HOMES = {
    "Log": "perflog.log",
    **dict.fromkeys(("find_runs", "ingest", "load", "read", "reference"), "perflog.opening"),
    "PerflogError": "perflog.errors",
    **dict.fromkeys(("Comparison", "compare"), "perflog.analysis.compare"),
    **dict.fromkeys(("Diagnosis", "diagnose", "diagnose_jobs"), "perflog.analysis.diagnosis"),
    "lint": "perflog.analysis.lint",
    **dict.fromkeys(("Overview", "overview"), "perflog.analysis.overview"),
    **dict.fromkeys(("Track", "track"), "perflog.analysis.track"),
    "causes": "perflog.metrics.causes",
    "report": "perflog.output.report",
}
# What `Log`, `Overview` and `Comparison` ask for by these names.
providers.register("attempts", "perflog.metrics.attempts")
providers.register("notebook", "perflog.output.report.html.notebook")
providers.register("notebook answers", "perflog.output.report.html.notebook_answers")
_MODULES = {"export": "perflog.output.export", "metrics": "perflog.metrics", "plots": "perflog.plots"}

__all__ = [
    "Comparison",
    "Diagnosis",
    "Log",
    "Overview",
    "PerflogError",
    "Track",
    "__version__",
    "causes",
    "compare",
    "diagnose",
    "diagnose_jobs",
    "export",
    "find_runs",
    "ingest",
    "lint",
    "load",
    "metrics",
    "overview",
    "plots",
    "read",
    "reference",
    "report",
    "track",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: `import perflog` loads nothing heavy."""
    from importlib import import_module

    if name == "__version__":
        from perflog.version import installed_version

        return installed_version()
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'perflog' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return all public names, also those not imported yet."""
    return sorted(__all__)
