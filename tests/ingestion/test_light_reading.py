"""Reading logs imports no pandas: it takes a quarter of a second, longer than most logs."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

from support.paths import ROOT

from perflog.ingestion.pipeline import ingest
from perflog.parsing.input.source import Source
from perflog.tables.sink import MemorySink

READ_ALL = """
import sys
from pathlib import Path
from perflog.ingestion.pipeline import ingest
from perflog.parsing.input.source import Source
from perflog.tables.sink import MemorySink

logs = sorted(path for path in Path(sys.argv[1]).glob("*.txt"))
for log in logs:
    ingest(Source(log.name, str(log)), MemorySink().reset)
    if "pandas" in sys.modules:
        raise SystemExit(f"{log.name} imports pandas")
print(len(logs))
"""


def test_reading_the_logs_of_all_kinds_imports_no_pandas() -> None:
    command = [sys.executable, "-c", READ_ALL, str(ROOT / "tests" / "data")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.stderr == ""
    assert int(result.stdout) >= 14


def test_rows_of_a_log_that_nobody_keeps_do_not_wait_for_a_search_for_cycles() -> None:
    log = next((ROOT / "tests" / "data").glob("*.txt"))
    sink = MemorySink()
    gc.disable()
    try:
        ingest(Source(log.name, str(log)), sink.reset)
        rows = weakref.ref(sink)
        del sink
        assert rows() is None
    finally:
        gc.enable()
