"""What holds for all tests: how hypothesis looks for counterexamples, and one line on the tests that were left out."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from support.paths import SHARED_FOLDER

from perflog.metrics import registry
from perflog.provenance import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import pandas as pd
    import pytest

    from perflog.metrics.registry import MetricColumn

# Bytecode is kept, whatever the environment says: many tests start processes, which would all compile what they import.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Nothing that the collection makes is garbage: a collector that looks at it all again takes a quarter of its time.
gc.disable()

# The processes of a test run share the cores: threads of PyTorch would wait for each other, and busily.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests use thousands of expressions, again and again: the 512 that Python keeps are those of a few tests.
vars(re)["_MAXCACHE"] = 1 << 14

# What a CI system says of the tests is no provenance of their logs.
for shows in SYSTEMS:
    os.environ.pop(shows, None)

# No property has a time limit, and each run tries the same examples: a test that fails does so because of the change.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, max_examples=12, suppress_health_check=[HealthCheck.too_slow]
)
# Hypothesis would also try constants of all modules that are imported: other examples after each change, and for each
# choice of tests. To find them takes four seconds in a fresh clone.
vars(providers)["_get_local_constants"] = lambda: vars(providers)["_local_constants"]
# As many, of the seed that --hypothesis-seed gives. Continuous integration takes a new one each time, and prints it.
settings.register_profile("seeded", settings.get_profile("repeatable"), derandomize=False)
# Many more examples, new ones in each run: HYPOTHESIS_PROFILE=search make test, or --hypothesis-profile search.
settings.register_profile("search", settings.get_profile("repeatable"), derandomize=False, max_examples=1000)
# What `make fuzz` repeats for each reader until its time is up: new examples in each run, and those that failed before.
settings.register_profile("fuzz", settings.get_profile("search"), max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder that the processes of xdist share. Each worker of a whole run begins to collect elsewhere.

    So the modules of a fresh checkout are compiled once: a worker finds what the others have compiled meanwhile.
    """
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if not worker:
        os.environ[SHARED_FOLDER] = mkdtemp(prefix="perflog-tests-")
    elif config.args == config.getini("testpaths"):
        entries = sorted(each for each in config.rootpath.joinpath(*config.args).iterdir() if is_collected(each))
        begin = len(entries) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        config.args[:] = map(str, entries[begin:] + entries[:begin])


def is_collected(path: Path) -> bool:
    """Whether pytest looks for tests there: in a folder or file of tests."""
    return path.match("test_*.py") or (path.is_dir() and any(path.rglob("test_*.py")))


def pytest_sessionstart() -> None:
    """Check in all tests that the rows of metrics have no other columns than declared: pandas drops them silently."""
    make_table = registry._typed

    def checked(columns: Sequence[MetricColumn], rows: list[Any]) -> pd.DataFrame:
        names = {column.name for column in columns}
        keys = {key for row in rows if isinstance(row, Mapping) for key in row}  # tables have columns for other metrics
        assert keys <= names, f"columns that no metric declares: {', '.join(sorted(keys - names))}"
        assert all(len(row) == len(columns) for row in rows if isinstance(row, tuple))
        return make_table(columns, rows)

    registry._typed = checked


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove it when all have ended. DuckDB reports what the collector has left at the end as leaked."""
    gc.unfreeze()
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[SHARED_FOLDER], ignore_errors=True)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name packed bytes by their parameter: they may hold the time of packing, and each worker packs its own."""
    return argname if isinstance(val, bytes) and any(byte > 126 for byte in val) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the files that have slow tests, so that no worker is left alone with one of them at the end.

    Then the order is that of the paths in each worker, wherever it began to collect.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, item.path))


def pytest_runtestloop() -> None:
    """Spare the garbage collector the tests themselves: some hundred thousand objects that stay to the end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line how many tests were left out and why. Under xdist the reports of all workers are here."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if reasons:
        groups = "; ".join(f"{number} ({reason})" for reason, number in reasons.most_common())
        terminalreporter.write_line(f"{reasons.total()} tests left out: {groups}")
