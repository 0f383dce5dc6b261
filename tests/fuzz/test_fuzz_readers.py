"""Each reader with damaged inputs: reading ends with tables or with one error of perflog, and the account adds up.

The overview and the linter take any such tables.

A target has a reader's real or rendered inputs, and changes that know how they are built. At least half of the damaged
inputs must get as far as the reader. `make fuzz` tries new ones for a time; by default each run tries the same few.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import resource
import shutil
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.allocator_files import block, segment, snapshot
from support.benchmark_files import RESULTS, asv, bencher, cargo, data_js, entry, hud_records
from support.examples import examples
from support.flight_recorder_files import call, dump
from support.history_files import event, event_file, field, history, items, run_file, single
from support.mutations import (
    MUTATIONS,
    TEXT_CHANGES,
    Mutation,
    as_json,
    change_database,
    changed_bytes,
    changed_document,
    changed_message,
    changed_records,
    event_records,
    framed_events,
    framed_run,
    run_records,
)
from support.nsys_files import write_export
from support.operation_tables import made_job, rows_of, times_of
from support.paths import TESTS
from support.rocpd_files import write_database
from support.rocprof_files import write_output
from support.xplane_files import gpu_planes, space, tpu_planes

import perflog
from perflog.errors import PerflogError
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.source import Source, open_source
from perflog.readers.registry import builtin, find_reader
from perflog.tables.schema import TABLES

DATA, TRACES = TESTS / "data", TESTS / "traces"
LONGEST_S = 20  # of processor time for an input of a few kB
MOST_MEMORY = 600 << 20  # bytes by which the process may grow
LOOKED_AT = 5  # one of so many inputs, of a default run: an overview takes longer than reading
SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
"""Of processor time that `make fuzz` takes for each target."""

Write = Callable[[Path, int, Sequence[Mutation]], str]
"""Writes a damaged copy of one of the inputs into a folder, and returns its name."""


@cache
def texts() -> list[bytes]:
    return [path.read_bytes() for path in sorted([*DATA.glob("*.txt"), *(DATA / "field").glob("*.txt")])]


def text_log(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
    data = texts()[seed % len(texts())]
    path = folder / "run.txt"
    path.write_bytes(changed_bytes(data, mutations, TEXT_CHANGES))
    return str(path)


@cache
def documents(name: str) -> list[bytes]:
    """The inputs of a reader of JSON."""
    if name == "chrome":
        return [path.read_bytes() for path in sorted(TRACES.glob("*.json"))]
    if name == "execution_trace":
        return [as_json(shortened(json.loads(path.read_bytes()))) for path in sorted((TRACES / name).glob("*.json"))]
    if name == "rocprof":
        path = Path(os.environ["FUZZ_FOLDER"]) / "rocprof.json"
        return [write_output(path).read_bytes()]
    if name == "pytorch_benchmarks":
        return [json.dumps(hud_records(0)).encode()]
    if name == "bencher":
        return [Path(bencher(Path(os.environ["FUZZ_FOLDER"]) / "perf.json", {0: 0.1, 1: 0.2})).read_bytes()]
    if name in ("github_benchmark", "asv"):
        folder = Path(os.environ["FUZZ_FOLDER"])
        entries = [entry(k, "cargo", cargo(k)) for k in range(2)]
        made = asv(folder, 0, RESULTS) if name == "asv" else data_js(folder / "data.js", {"Rust": entries}, before="")
        return [Path(made).read_bytes()]
    groups = {"5": ("TENSOR", [0, 1]), "10": ("OWN", [0])}
    entries = [call(number, state=state) for number, state in ((11, "completed"), (12, "started"), (13, "scheduled"))]
    content = dump(groups, {"1": (13, 11), "2": (3, 3)}, entries)
    return [json.dumps(content).encode()]


def shortened(trace: dict[str, Any]) -> dict[str, Any]:
    """An execution trace with its first and its last nodes: all of them take seconds where lines are searched for."""
    return trace | {"nodes": [*trace["nodes"][:12], *trace["nodes"][-8:]]}


def operations(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
    """A table of operations with odd values, or with damaged bytes."""
    job = made_job(2, 2, 2)
    rows = rows_of(job, times_of(job, 2, lambda *_: 0.1), 2)
    odd = (None, -1, math.nan, math.inf, 1 << 31, 1 << 62, 1e300, 0)
    columns = [name for name in rows[0] if name != "optype"]
    for change in mutations:
        rows[int(change.at * len(rows))][columns[change.what % len(columns)]] = change.choice(odd)
    table = pa.table({name: [row[name] for row in rows] if name == "optype" else
                      pa.array([None if row[name] is None else float(row[name]) for row in rows], pa.float64())
                      for name in rows[0]})  # fmt: skip
    path = folder / "trace.parquet"
    pq.write_table(table, path)
    if seed % 4 == 0:
        path.write_bytes(path.read_bytes()[:100] + changed_bytes(path.read_bytes()[100:], mutations))
    return str(path)


def is_json(data: bytes) -> bool:
    """Whether a trace is whole; programs write some that are not, which the reader repairs."""
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def document(name: str) -> Write:
    def write(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
        data = documents(name)[seed % len(documents(name))]
        if mutations[0].what % 4 == 0 or not is_json(data):
            data = changed_bytes(data, mutations, TEXT_CHANGES)
        else:
            data = as_json(changed_document(json.loads(data), mutations))
        path = folder / "trace.json"
        path.write_bytes(data)
        return str(path)

    return write


def pickled_dump(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
    path = folder / "nccl_trace_rank_0"
    if mutations[0].what % 4 == 0:
        dumps = sorted((TRACES / "flight_recorder").iterdir())
        path.write_bytes(changed_bytes(dumps[seed % len(dumps)].read_bytes(), mutations[:1]))
        return str(path)
    changed = changed_document(json.loads(documents("flight_recorder")[0]), mutations)
    path.write_bytes(pickle.dumps(changed, 2 + seed % 4))
    return str(path)


def memory_snapshot(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
    path = folder / "snapshot.pickle"
    blocks = [block(512 << k, name) for k, name in enumerate(("forward", "optimizer", "native", None))]
    content = snapshot(segment(*blocks, block(512, state="inactive")), segment(block(1024), pool=(1, 0)), failed=[2048])
    if mutations[0].what % 4 == 0:
        path.write_bytes(changed_bytes(pickle.dumps(content, 2 + seed % 4), mutations[:1]))
    else:
        path.write_bytes(pickle.dumps(changed_document(content, mutations), 2 + seed % 4))
    return str(path)


def records(file: str, split: Callable[[bytes], list[bytes]], framed: Callable[[Sequence[bytes]], bytes]) -> Write:
    def write(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
        paths = sorted((TRACES / "history").glob(file))
        path = paths[seed % len(paths)]
        whole = path.read_bytes()
        data = framed(changed_records(split(whole), mutations))
        if mutations[0].what % 5 == 0:
            data = whole[:64] + changed_bytes(whole[64:], mutations)
        (folder / path.name).write_bytes(data)
        return str(folder / path.name)

    return write


def scalars() -> dict[str, Any]:
    """What a run logs, as a document: time, step and values of each record."""
    values = {"loss": 2.5, "lr": 1e-3, "val/loss": 3, "note": "hello", "gpu": {"0": {"temp": 60}}}
    records = [
        {"time": 1_700_000_000.0 + i, "step": i, "_step": i, "_runtime": i * 1.5, "values": values} for i in range(6)
    ]
    whole = {"records": records, "config": {"lr": {"value": 1e-3}}, "summary": {"best": 1}}
    copy: dict[str, Any] = json.loads(json.dumps(whole))
    return copy


def logged_to_tensorboard(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
    """Whole records with odd times, steps and values."""
    content = changed_document(scalars(), mutations)
    events = []
    rows = content.get("records")
    for row in (row for row in (rows if isinstance(rows, list) else []) if isinstance(row, dict)):
        values = row.get("values")
        time, step = (number(row.get(name)) for name in ("time", "step"))
        written = (
            [field(1, text(key)) + single(2, as_single(number(value))) for key, value in values.items()]
            if isinstance(values, dict)
            else []
        )
        events.append(event(number(time), int(step) if math.isfinite(step) else 0, *written))
    path = folder / "events.out.tfevents.1"
    path.write_bytes(event_file(*events))
    return str(path)


def logged_to_wandb(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
    """Whole records with odd steps, times and values, in JSON as the program writes it."""
    content = changed_document(scalars(), mutations)
    rows, written = content.get("records"), []
    for row in (row for row in (rows if isinstance(rows, list) else []) if isinstance(row, dict)):
        values = row.pop("values", {})
        values = values if isinstance(values, dict) else {"values": values}
        items_of_row = {text(key): value for key, value in (row | values).items()}
        written += [history(**items_of_row), field(7, items(3, items_of_row))]
    for key, place in (("config", 5), ("summary", 3)):
        if isinstance(content.get(key), dict):
            written.append(field(place, items(1, {text(name): value for name, value in content[key].items()})))
    path = folder / "run.wandb"
    path.write_bytes(run_file(*written))
    return str(path)


def number(value: Any) -> float:
    """A value as a float, if it can be one."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return 7.0
    except OverflowError:
        return math.inf


def as_single(value: float) -> float:
    return value if abs(value) < 3e38 or not math.isfinite(value) else math.inf


def text(value: str) -> str:
    """A text that UTF-8 can hold."""
    return value.encode("utf-8", "replace").decode()


@cache
def binaries(name: str) -> list[bytes]:
    """The inputs of a reader of protocol buffers."""
    files = [path.read_bytes() for path in sorted((TRACES / name).iterdir())]
    return files + ([space(*gpu_planes()), space(*tpu_planes())] if name == "xplane" else [])


def messages(name: str) -> Write:
    """Changes fields in messages in messages, at any depth; or any bytes."""

    def write(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
        data = binaries(name)[seed % len(binaries(name))]
        if mutations[0].what % 4 == 0:
            data = data[:64] + changed_bytes(data[64:], mutations)
        else:
            for mutation in mutations:
                data = changed_message(data, mutation)
        path = folder / "trace.pb"
        path.write_bytes(data)
        return str(path)

    return write


@cache
def database_file(name: str) -> Path:
    path = Path(os.environ["FUZZ_FOLDER"]) / f"{name}.db"
    return write_export(path) if name == "nsys" else write_database(path)


def database(name: str) -> Write:
    def write(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:  # there is one database
        path = folder / "export.sqlite"
        shutil.copyfile(database_file(name), path)
        if mutations[0].what % 5 == 0:
            whole = path.read_bytes()
            path.write_bytes(whole[:100] + changed_bytes(whole[100:], mutations))
        else:
            change_database(path, mutations)
        return str(path)

    return write


def ranks_of_traces(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
    """Traces of two ranks, of which one is damaged, or both are."""
    traces = [data for data in documents("chrome") if is_json(data)]
    data = traces[seed % len(traces)]
    for rank in range(2):
        content = json.loads(data)
        content["distributedInfo"] = {"rank": rank, "world_size": 2}
        if rank or mutations[0].what % 2:
            content = changed_document(content, mutations)
        (folder / f"rank{rank}.json").write_bytes(as_json(content))
    return str(folder / "rank{0..1}.json")


def ranks_of_dumps(folder: Path, seed: int, mutations: Sequence[Mutation]) -> str:
    """Dumps of two ranks, of which one is damaged."""
    for rank in range(2):
        content = json.loads(documents("flight_recorder")[0])
        if rank == seed % 2:
            content = changed_document(content, mutations)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content, 2))
    return str(folder / "nccl_trace_rank_{0..1}")


TARGETS: dict[str, tuple[str, Write]] = {
    "text": ("", text_log),
    "chrome": ("chrome_trace", document("chrome")),
    "execution trace": ("execution_trace", document("execution_trace")),
    "rocprof": ("rocprofv3_json", document("rocprof")),
    "flight recorder, JSON": ("flight_recorder", document("flight_recorder")),
    "flight recorder, pickle": ("flight_recorder", pickled_dump),
    "github_benchmark": ("github_benchmark", document("github_benchmark")),
    "asv": ("asv", document("asv")),
    "bencher": ("bencher", document("bencher")),
    "pytorch_benchmarks": ("pytorch_benchmarks", document("pytorch_benchmarks")),
    "tensorboard": ("tensorboard", records("*.tfevents", event_records, framed_events)),
    "wandb": ("wandb", records("*.wandb", run_records, framed_run)),
    "values of tensorboard": ("tensorboard", logged_to_tensorboard),
    "values of wandb": ("wandb", logged_to_wandb),
    "xplane": ("xplane", messages("xplane")),
    "perfetto": ("perfetto", messages("perfetto")),
    "nsys": ("nsys_sqlite", database("nsys")),
    "rocpd": ("rocpd_sqlite", database("rocpd")),
    "operations": ("operations", operations),
    "ranks of traces": ("chrome_trace", ranks_of_traces),
    "allocator snapshot": ("allocator_snapshot", memory_snapshot),
    "ranks of dumps": ("flight_recorder", ranks_of_dumps),
}
"""By name: the reader that is to be reached, and what writes a damaged input for it. No reader: a log of lines."""


def test_each_reader_is_a_target() -> None:
    from pkgutil import resolve_name

    names = {resolve_name(entry.reader).name for entry in builtin()}
    assert names == {reader for reader, _ in TARGETS.values() if reader}


@contextmanager
def bounded_time() -> Iterator[None]:
    """Fail if the block takes too much time of the processor."""

    def stop(*_: object) -> None:
        raise AssertionError(f"takes more than {LONGEST_S} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def reaches(name: str, reader: str) -> bool:
    """Whether an input gets past the first check: to the reader, or for lines to a format that knows some of them."""
    try:
        source: Source = open_source(LogName.parse(name))
        found = find_reader(source)
    except PerflogError:
        return False
    return found is not None and found.name == reader if reader else found is None


def check(name: str, *, look: bool = False) -> str:
    """Read an input. Return how that ended, in a word. `look`: what was read is looked at, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            log = perflog.read(name)
        except PerflogError:
            return "error"
        if look:
            perflog.overview(log)
            perflog.lint(log)
    lines, figures = log.line_account, log.figure_account
    assert lines["total"] == lines["read"] + lines["context"] + lines["unread"]
    if figures:
        assert figures["total"] == figures["stored"] + figures["dropped"] + figures["unread"]
    assert min(*lines.values(), *figures.values(), 0) == 0
    for table in TABLES:
        log.arrow(table).validate(full=True)
    runs = log.arrow("runs").to_pylist()
    assert len(runs) == len(log)
    assert all(isinstance(json.loads(run["config"] or "{}"), dict) for run in runs)
    if runs[0]["format"] not in KINDS_OF_EVENTS and not any(c in name for c in "{}"):
        assert lines["total"] == sum(chunk.lines for chunk in open_source(name).chunks())
    return "tables"


KINDS_OF_EVENTS = {reader for reader, _ in TARGETS.values()}


ENOUGH = 200  # inputs that tell the share of those that get to the reader


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_inputs(target: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, write = TARGETS[target]
    home = tmp_path_factory.mktemp("fuzz")
    monkeypatch.setenv("FUZZ_FOLDER", str(home))
    documents.cache_clear()
    database_file.cache_clear()
    counts: Counter[str] = Counter()

    @examples(40)
    @given(st.integers(0, 99), MUTATIONS)
    def damaged(seed: int, mutations: list[Mutation]) -> None:
        folder = home / "input"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        name = write(folder, seed, mutations)
        with bounded_time():
            counts["reached"] += reaches(name, reader)
            counts[check(name, look=SECONDS > 0 or seed % LOOKED_AT == 0)] += 1

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    end = time.process_time() + SECONDS
    damaged()
    while time.process_time() < end:
        damaged()
    tried = counts["tables"] + counts["error"]
    print(f"{target}: {tried} inputs, {counts['reached']} reached the reader, {counts['error']} errors")
    if tried >= ENOUGH:  # the share of few inputs is that of their seed: 2 to 15 of 24 were seen
        assert counts["reached"] >= tried / 2, counts
        assert counts["tables"] > 0
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < MOST_MEMORY


NO_TEXT = [(b"\n", b"\n\xff"), (b"e", b"\xff"), (b" ", b" \xff"), (b"=", b"\xed\xa0\x80=")]


@pytest.mark.parametrize(("log", "text", "other"), [(log, *NO_TEXT[log % 4]) for log in range(len(texts()))])
def test_bytes_that_are_no_text(tmp_path: Path, log: int, text: bytes, other: bytes) -> None:
    """Bytes that are not UTF-8 in names, keys and headers cost at most what they are in. Each log has one of them."""
    path = tmp_path / "run.txt"
    path.write_bytes(texts()[log].replace(text, other))
    assert check(str(path)) in ("tables", "error")
