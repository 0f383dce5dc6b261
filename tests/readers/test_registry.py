"""Readers of other packages: found through the entry-point group, imported late, and named where they are broken."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.paths import ROOT

import perflog
from perflog import entry_points
from perflog.errors import ReaderError, UnknownTableError
from perflog.parsing.input.source import open_source
from perflog.readers import registry
from perflog.readers.benchmarks.asv import AsvReader
from perflog.readers.benchmarks.bencher import BencherReader
from perflog.readers.benchmarks.github_benchmark import GithubBenchmarkReader
from perflog.readers.benchmarks.pytorch_benchmarks import PytorchBenchmarkReader
from perflog.readers.chrome.reader import ChromeTraceReader
from perflog.readers.dumps.allocator_snapshot import AllocatorSnapshotReader
from perflog.readers.dumps.flight_recorder import FlightRecorderReader
from perflog.readers.interface import Reader
from perflog.readers.nsys.reader import NsysReader
from perflog.readers.operators.arrow_tables import ArrowTableReader
from perflog.readers.operators.execution_trace import ExecutionTraceReader
from perflog.readers.perfetto.reader import PerfettoReader
from perflog.readers.rocprof.json_reader import RocprofJsonReader
from perflog.readers.rocprof.rocpd_reader import RocpdReader
from perflog.readers.trackers.tensorboard import TensorBoardReader
from perflog.readers.trackers.wandb import WandbReader
from perflog.readers.xplane.reader import XplaneReader

COUNTS = '''"""Reads a made-up file type: one line per kernel, with its start and end in nanoseconds."""

from pathlib import Path

import numpy as np

from perflog.readers.events.event_columns import KIND_CODE
from perflog.readers.events.event_table import EventAccount, EventOrigin, RunWriter, event_rows
from perflog.readers.events.string_interning import new_interners


class CountsReader:
    name = "counts"
    title = "Kernel times of the made-up profiler"
    source = "the made-up profiler"

    def detect(self, source):
        return source.first_bytes(7) == b"KCOUNTS"

    def proof(self, source):
        return [(1, "kernel", "the first kernel")]

    def rank_info(self, source):
        return None

    def read(self, source, sink, options):
        lines = Path(source.path).read_text().splitlines()[1:]
        start, end = np.array([line.split() for line in lines], np.int64).T
        place = np.arange(1, len(lines) + 1)
        kind = np.full(len(lines), KIND_CODE["kernel"])
        columns = {"place": place, "kind": kind, "start": start, "duration": end - start}
        account = EventAccount()
        account.add_places("read", "kernel", place)
        with RunWriter(source.name, source.digest(), self.name, sink) as writer:
            origin = EventOrigin(writer.run, 0, None, None)
            writer.write_events(event_rows(origin, columns, new_interners()))
            writer.write_account(0, account)
            return writer.write_run(options.label, len(lines), {"clock": "trace"})
'''
DECLARED = """\
from perflog.readers.dumps.flight_recorder import FlightRecorderReader
from perflog.readers.interface import ReaderEntry

def readers():
    return [ReaderEntry("counts_reader:CountsReader", (b"KCOUNTS",))]
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path in which a package `counts-package` registers a reader."""
    folder = tmp_path / "site"
    info = folder / "counts_package-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counts-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[perflog.readers]\ncounts = counts_declared:readers\n")
    (folder / "counts_reader.py").write_text(COUNTS)
    (folder / "counts_declared.py").write_text(DECLARED)
    monkeypatch.syspath_prepend(str(folder))
    caches = (entry_points._others_register, entry_points._every, registry._of_other_packages, registry._load)
    for cache in caches:
        cache.cache_clear()
    yield folder
    for cache in caches:
        cache.cache_clear()
    for module in ("counts_reader", "counts_declared"):
        sys.modules.pop(module, None)


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    path = tmp_path / "run.counts"
    path.write_bytes(b"KCOUNTS\n5 9\n20 50\n")
    return path


def test_a_reader_of_another_package_reads_its_files(package: Path, counts: Path) -> None:
    log = perflog.read(counts)
    events = log.arrow("events").to_pylist()
    assert [(e["kind"], e["start_ns"], e["duration_ns"]) for e in events] == [("kernel", 5, 4), ("kernel", 20, 30)]
    assert log.arrow("runs")["format"].to_pylist() == ["counts"]
    assert log.line_account == {"total": 2, "read": 2, "context": 0, "unread": 0}


def test_only_a_table_of_unknown_columns_is_refused(tmp_path: Path) -> None:
    names = ("step", "dp_rank", "stage", "optype", "start_ts", "duration")
    for name, given in (("other", {"a": [1]}), ("known", {key: [1] for key in names} | {"optype": ["forward"]})):
        pq.write_table(pa.table(given), tmp_path / name)
    (tmp_path / "log").write_text("step 1 loss 2.5\n")
    with open_source(str(tmp_path / "other")) as source, pytest.raises(UnknownTableError):
        registry.refuse_unknown_table(source)
    for name in ("known", "log"):
        with open_source(str(tmp_path / name)) as source:
            registry.refuse_unknown_table(source)


def test_it_is_imported_only_for_a_file_with_its_first_bytes(package: Path, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("a log of lines\n")
    with open_source(str(tmp_path / "log.txt")) as source:
        assert registry.find_reader(source) is None
    assert "counts_declared" in sys.modules and "counts_reader" not in sys.modules


@pytest.mark.parametrize(
    ("module", "code", "reason"),
    [
        ("counts_declared", "import no_such_module\n", "No module named 'no_such_module'"),
        ("counts_declared", "def readers():\n    return [b'KCOUNTS']\n", "is not a ReaderEntry"),
        ("counts_reader", "class OldName:\n    pass\n", "CountsReader"),
    ],
)
def test_a_broken_reader_is_one_error_that_names_the_package(
    package: Path, counts: Path, module: str, code: str, reason: str
) -> None:
    (package / f"{module}.py").write_text(code)
    with pytest.raises(ReaderError) as error:
        perflog.read(counts)
    assert str(error.value).startswith(module) and reason in str(error.value)
    assert "a reader of package `counts-package` cannot be loaded" in str(error.value)
    assert error.value.help == "update or uninstall `counts-package`"


def test_a_broken_reader_does_not_disturb_built_in_ones(package: Path) -> None:
    (package / "counts_declared.py").write_text("import no_such_module\n")
    assert len(perflog.read(ROOT / "tests" / "traces" / "2021.json").arrow("events")) > 0


def test_built_in_readers_are_registered_in_the_same_group() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    registered = project["entry-points"][registry.GROUP]["builtin"]
    assert registered == f"{registry.builtin.__module__}:{registry.builtin.__name__}"


def test_built_in_readers_have_the_interface() -> None:
    readers: list[Reader] = [  # mypy looks
        GithubBenchmarkReader(), AsvReader(), BencherReader(), PytorchBenchmarkReader(),
        RocprofJsonReader(), ExecutionTraceReader(), ChromeTraceReader(), RocpdReader(), TensorBoardReader(),
        WandbReader(), FlightRecorderReader(), AllocatorSnapshotReader(), XplaneReader(), PerfettoReader(),
        NsysReader(), ArrowTableReader(),
    ]  # fmt: skip
    assert [resolve_name(entry.reader) for entry in registry.builtin()] == list(map(type, readers))


def test_built_in_readers_are_found_without_an_installation(tmp_path: Path) -> None:
    """As in a checkout whose environment is older than the entry-point group."""
    code = (
        "import sys; from importlib import metadata; metadata.entry_points = lambda **_: metadata.EntryPoints()\n"
        "import perflog; print(perflog.read(sys.argv[1]).arrow('runs')['format'][0])"
    )
    trace = str(ROOT / "tests" / "traces" / "2021.json")
    done = subprocess.run([sys.executable, "-c", code, trace], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("chrome_trace\n", "")


@pytest.mark.parametrize(
    ("name", "loaded"), [("tests/traces/2021.json", "perflog.readers.chrome.reader"), ("README.md", "")]
)
def test_detection_imports_only_the_reader_that_is_needed(name: str, loaded: str) -> None:
    code = (
        "import sys; from perflog.parsing.input.source import open_source\n"
        "from perflog.readers.registry import builtin, find_reader\n"
        "with open_source(sys.argv[1]) as source: find_reader(source)\n"
        "print([m for m in (e.reader.split(':')[0] for e in builtin()) if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, name], cwd=ROOT, capture_output=True, text=True)
    expected = ["perflog.readers.rocprof.json_reader", loaded] if loaded else []
    assert (done.stdout.strip(), done.stderr) == (str(expected), "")


def test_a_log_of_lines_imports_no_reader(tmp_path: Path) -> None:
    """Also one whose first line begins as a list does."""
    log = tmp_path / "run.txt"
    log.write_text("[rank0]: step 1\n")
    code = """
import sys
from perflog.readers.registry import find_reader
from perflog.parsing.input.source import Source
print(find_reader(Source("log", sys.argv[1])), [name for name in sys.modules if name.startswith("perflog.readers.c")])
"""
    result = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, text=True, check=True)
    assert result.stdout == "None []\n"
