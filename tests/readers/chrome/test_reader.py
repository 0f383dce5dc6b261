"""Chrome traces: every event is accounted for, times are exact, and pieces and processes change no figure."""

from __future__ import annotations

import gzip
import json
import lzma
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.field_logs import needs_corpus
from support.paths import ROOT, SHARED, TESTS
from support.reading import proof_of

import perflog
from perflog.errors import InputError, UsageError
from perflog.ingestion.bulk import IngestTask, ingest_log
from perflog.parsing.input.log_names import LogName
from perflog.readers.chrome import scanner as trace_scanner
from perflog.tables.sink import IngestResult

DATA = TESTS / "traces"
CORPUS = SHARED / "corpus" / "torchtrace"

Row = dict[str, Any]


def rows(log: perflog.Log, table: str = "events") -> list[Row]:
    table_rows: list[Row] = log.arrow(table).to_pylist()
    return table_rows


def trace(path: Path, events: list[Any], **metadata: Any) -> Path:
    path.write_text(json.dumps({**metadata, "traceEvents": events}))
    return path


def x(name: str, cat: str, ts: Any, dur: Any = 1, pid: Any = 1, tid: Any = 1, **args: Any) -> Row:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


# --- generations of torch.profiler --------------------------------------------------------------------------------

FORWARD = 'forward {"layer": [1, 2]} \\'

# file -> the kernel in it: name begins with, start_ns, duration_ns, device, stream, step, range
KERNELS = {
    "2021": ("volta_sgemm", 1_700_000, 41_000, 0, 7, 1, None),
    "2022": ("ncclKernel_AllReduce", 1_669_783_687_929_439_000, 15_000, 1, 14, 5, "nccl:all_reduce"),
    "2024_epoch": ("sm90_xmma_gemm", 1_712_195_495_505_582_988, 13_217, 0, 7, 2, None),
    "2024_base_rank1": ("ncclKernel_AllReduce", 1_726_929_077_009_853_422, 12_575, 1, 20, 7, None),
    "2025_compact": ("ncclDevKernel_AllGather", 1_754_006_400_000_200_001, 55_999, 0, 30, 10, FORWARD),
}


@pytest.mark.parametrize("name", KERNELS)
def test_each_generation_tells_its_kernel(name: str) -> None:
    log = perflog.read(DATA / f"{name}.json")
    (kernel,) = (row for row in rows(log) if row["kind"] == "kernel")
    start, *rest = KERNELS[name]
    columns = ("start_ns", "duration_ns", "device", "stream", "step", "range")
    assert kernel["name"].startswith(start)
    assert [kernel[c] for c in columns] == rest
    assert log.line_account["unread"] == 0 and not log.warnings
    assert log.line_account["total"] == len(json.loads((DATA / f"{name}.json").read_text())["traceEvents"])


def test_kinds_ranks_and_steps() -> None:
    kinds = Counter(row["kind"] for name in KERNELS for row in rows(perflog.read(DATA / f"{name}.json")))
    assert kinds == {
        "kernel": 5, "memcpy": 1, "memset": 1, "sync": 1, "runtime": 5, "cpu": 3, "python": 1, "range": 6,
        "device_range": 1, "span": 1, "overhead": 1, "memory": 1,
    }  # fmt: skip
    logs = {name: perflog.read(DATA / f"{name}.json") for name in KERNELS}
    ranks = {name: (rows(log)[0]["rank"], rows(log)[0]["rank_by"]) for name, log in logs.items()}
    assert ranks["2022"] == (3, "printed") and ranks["2021"] == (None, None)
    (step,) = rows(logs["2024_epoch"], "steps")
    assert (step["step"], step["rank"], step["step_time_s"]) == (2, 0, 900.250e-6)
    run = rows(logs["2024_epoch"], "runs")[0]
    assert (run["format"], run["world_size"], run["device"]) == ("chrome_trace", 2, "NVIDIA H100")
    clocks = {name: json.loads(rows(log, "runs")[0]["config"])["clock"] for name, log in logs.items()}
    assert clocks == {name: "trace" if name == "2021" else "epoch" for name in KERNELS}


def test_a_trace_of_today_whose_names_hold_quotes() -> None:
    log = perflog.read(DATA / "2026_quotes.json")
    assert log.line_account == {"total": 11, "read": 9, "context": 2, "unread": 0} and not log.warnings
    read_events = {r["name"]: (r["kind"], r["step"], r["range"]) for r in rows(log)}
    assert read_events['forward "x" {'] == ("range", 2, None)
    assert read_events["aten::randn"] == ("cpu", 2, 'forward "x" {')
    assert round(rows(log, "steps")[0]["step_time_s"] * 1e9) == 836_829


def test_collectives() -> None:
    read_events = [r for name in KERNELS for r in rows(perflog.read(DATA / f"{name}.json")) if r["collective"]]
    columns = ("kind", "collective", "group", "seq", "bytes", "dtype", "ranks")
    assert [[r[c] for c in columns] for r in read_events] == [
        ["cpu", "allreduce", None, None, 4096, "Float", 2],
        ["kernel", "allreduce", None, None, 4096, "Float", 2],
        ["kernel", "_allgather_base", "2", 17, 65536, "BFloat16", 8],
    ]


# --- real traces --------------------------------------------------------------------------------------------------


def expected(name: str) -> Row:
    for line in (CORPUS.parent / "index.tsv").read_text().splitlines():
        if name in line:
            counts: Row = json.loads(line.split("\t")[8])
            return counts
    raise LookupError(name)


@needs_corpus
def test_two_ranks_of_a_real_job() -> None:
    log = perflog.read(CORPUS / "*sampled_rank-*.json.gz")
    assert len(log) == 1 and rows(log, "runs")[0]["world_size"] == 128
    events = rows(log)
    for rank in (0, 1):
        counts = expected(f"sampled_rank-{rank}")
        of_rank = [r for r in events if r["rank"] == rank]
        assert {r["part"] for r in of_rank} == {rank}
        assert Counter(r["category"] for r in of_rank) == counts["cats"]
        kernels = [r for r in of_rank if r["kind"] == "kernel"]
        nccl = [r["duration_ns"] for r in kernels if "nccl" in r["name"]]
        assert len(kernels) == counts["kernels"] and len(nccl) == counts["nccl_kernels"]
        assert sum(r["duration_ns"] for r in kernels) == counts["kernel_dur_us"] * 1000
        assert sum(nccl) == counts["nccl_dur_us"] * 1000
        assert len([s for s in rows(log, "steps") if s["rank"] == rank]) == counts["profiler_steps"]
    assert log.line_account["total"] == sum(expected(f"sampled_rank-{rank}")["events"] for rank in (0, 1))


def test_the_same_claim_on_a_cut_down(tmp_path: Path) -> None:
    for rank in (0, 1):
        events = [x("k", "kernel", 10 * i, rank + 1, device=0, stream=7) for i in range(5 + rank)]
        job = {"backend": "nccl", "rank": rank, "world_size": 128}
        trace(tmp_path / f"cut_rank-{rank}.json", events, distributedInfo=job)
    log = perflog.read(tmp_path)
    assert len(log) == 1
    assert Counter((r["rank"], r["part"], r["duration_ns"]) for r in rows(log)) == {(0, 0, 1000): 5, (1, 1, 2000): 6}


# --- against json -------------------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from('ab{}[],:"\\ \n\u00e9\u4e2d'), max_size=12)
TIMES = st.integers(0, 10**19 - 1).map(lambda ns: Decimal(ns) / 1000)
ARGS = {
    "stream": st.integers(0, 99),
    "correlation": st.integers(0, 2**40),
    "note": TEXTS,
    "deep": st.lists(st.fixed_dictionaries({"k": TEXTS}), max_size=3),
}
EVENT = {
    "ph": st.just("X"),
    "cat": st.sampled_from(["kernel", "cpu_op", "cuda_runtime", "user_annotation"]),
    "name": TEXTS,
    "pid": st.sampled_from([0, 1, "Spans"]),
    "tid": st.just(1),
    "ts": TIMES.filter(lambda t: t * 1000 < 2**63),
    "dur": st.integers(0, 10**12).map(lambda ns: Decimal(ns) / 1000),
    "args": st.fixed_dictionaries({}, optional=ARGS),
}
EVENTS = st.lists(st.fixed_dictionaries(EVENT), min_size=1, max_size=30)


def written(events: list[Row], indent: int | None, wrapped: bool) -> str:
    """JSON with decimals as they are: json has no way to write them, so they stand there as marked texts first."""
    marked = [{k: f"\0{v}\0" if isinstance(v, Decimal) else v for k, v in e.items()} for e in events]
    text = json.dumps({"a": 1, "traceEvents": marked} if wrapped else marked, indent=indent, ensure_ascii=False)
    return text.replace('"\\u0000', "").replace('\\u0000"', "")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces so small that every trace is cut in many places."""
    monkeypatch.setattr(trace_scanner, "PIECE", 150)
    monkeypatch.setattr(trace_scanner, "HEAD", 600)


FIXTURES = examples(40, shares_fixtures=True)


@FIXTURES
@given(EVENTS, st.sampled_from([None, 1]), st.booleans())
def test_all_events_are_read_wherever_it_is_cut(
    small: None, tmp_path: Path, events: list[Row], indent: int | None, wrapped: bool
) -> None:
    path = tmp_path / "t.json"
    path.write_text(written(events, indent, wrapped), "utf-8")
    log = perflog.read(path)
    read_events = rows(log)
    columns = ("line", "name", "category", "process", "start_ns", "duration_ns", "stream", "correlation")
    assert [tuple(r[c] for c in columns) for r in read_events] == [
        (i, e["name"], e["cat"], str(e["pid"]), int(e["ts"] * 1000), int(e["dur"] * 1000),
         e["args"].get("stream"), e["args"].get("correlation"))
        for i, e in enumerate(events, 1)
    ]  # fmt: skip
    assert log.line_account == {"total": len(events), "read": len(events), "context": 0, "unread": 0}
    assert not log.warnings


@FIXTURES
@given(EVENTS, st.sampled_from([None, 1]), st.data())
def test_a_torn_trace_is_read_up_to_the_tear(
    small: None, tmp_path: Path, events: list[Row], indent: int | None, data: st.DataObject
) -> None:
    text = written(events, indent, True).encode()
    tail = len("]}" if indent is None else "\n ]\n}")
    ends = [len(written(events[:count], indent, True).encode()) - tail for count in range(1, len(events) + 1)]
    cut = data.draw(st.integers(ends[0], len(text) - 2))
    path = tmp_path / "t.json"
    path.write_bytes(text[:cut])
    log = perflog.read(path)
    whole = sum(end <= cut for end in ends)
    assert [r["name"] for r in rows(log)] == [e["name"] for e in events[:whole]]
    assert log.line_account["read"] == whole and log.line_account["unread"] in (0, 1)
    assert len(log.warnings) == 1 and "torn" in log.warnings[0]


def test_forked_workers_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    make = [sys.executable, str(ROOT / "bench" / "make_trace.py"), "chrome", str(path), "2", "--compact"]
    subprocess.run(make, check=True)
    here = perflog.read(path).arrow("events")
    code = (
        "import sys; from perflog.readers.chrome import reader, scanner\n"
        "reader._FORK_BYTES = 0; scanner.PIECE = 1 << 17\n"
        "from perflog.ingestion.bulk import IngestTask, ingest_log\n"
        "from perflog.parsing.input.log_names import LogName\n"
        "done = ingest_log(LogName.parse(sys.argv[1]), IngestTask(sys.argv[2]), 3, processes=True)\n"
        "assert done.lines['unread'] == 0, done"
    )
    done = subprocess.run([sys.executable, "-c", code, path, tmp_path / "s"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    there = perflog.load(tmp_path / "s").arrow("events")
    plain = pa.schema([(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in here.schema])
    assert here.cast(plain).equals(there.cast(plain))


# --- odd traces ---------------------------------------------------------------------------------------------------


def test_damaged_events_are_put_aside(small: None, tmp_path: Path) -> None:
    good = json.dumps(x("good", "kernel", 1))
    nan = '{"ph": "X", "cat": "kernel", "name": "nan", "ts": 2, "dur": 1, "args": {"est. achieved occupancy %": -nan}}'
    bad = '{"ph": "X", "cat": kernel, "name": "bad", "ts": 2}'
    byte = good.replace("good", "b\udcff").encode("utf-8", "surrogateescape")
    path = tmp_path / "t.json"
    path.write_bytes(b'{"traceEvents": [' + b",".join([*[good.encode()] * 9, nan.encode(), bad.encode(), byte]) + b"]}")
    log = perflog.read(path)
    assert Counter(r["name"] for r in rows(log)) == {"good": 9, "nan": 1, "b\ufffd": 1}
    assert log.line_account == {"total": 12, "read": 11, "context": 0, "unread": 1}
    (unread,) = (r for r in rows(log, "lines") if r["status"] == "unread")
    assert (unread["first_line"], unread["sample"]) == (11, bad)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("pieces", ["small", "large"])
@pytest.mark.parametrize("key", ["name", "note"])
def test_a_quote_that_is_none_spoils_at_most_its_event(
    tmp_path: Path, indent: int | None, pieces: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch.profiler leaves quotes in names as they are; where a name ends, the next key tells."""
    if pieces == "small":
        monkeypatch.setattr(trace_scanner, "PIECE", 400)
        monkeypatch.setattr(trace_scanner, "HEAD", 900)
    events = [x(f"name {i}. [](){{}}", "kernel", i, 1, note=f"note {i}. ]}}") for i in range(60)]
    text = json.dumps({"a": 1, "traceEvents": events, "b": [2]}, indent=indent)
    path, odd = tmp_path / "t.json", (20, 21, 40)
    for i in odd:
        text = text.replace(f"{key} {i}.", f'{key} "{i}.')
    path.write_text(text)
    log = perflog.read(path)
    undamaged = [e["name"] for i, e in enumerate(events) if i not in odd]
    names = [r["name"] for r in rows(log)]
    assert [name for name in names if '"' not in name] == undamaged
    assert not log.warnings and json.loads(rows(log, "runs")[0]["config"])["b"] == [2]
    if key == "name":
        assert [name for name in names if '"' in name] == [f'name "{i}. [](){{}}' for i in odd]
        assert log.line_account["unread"] == 0
    else:
        assert len(odd) <= log.line_account["unread"] <= 2 * len(odd) and log.line_account["read"] == len(undamaged)


def test_begins_and_ends_are_joined(small: None, tmp_path: Path) -> None:
    def at(ph: str, ts: int, name: str = "", tid: int = 1, **more: Any) -> Row:
        return {"ph": ph, "ts": ts, "pid": 5, "tid": tid, **({"name": name, "cat": "x"} if name else {}), **more}

    events = [
        at("B", 10, "outer"), at("B", 12, "inner"), at("B", 12, "other", tid=2), at("E", 15), at("E", 20), at("E", 30),
        at("b", 1, "async", id=7, cat="x"), at("b", 2, "async", id=8, cat="x"), at("e", 6, "async", id=7, cat="x"),
        at("C", 1, "counter"),
    ]  # fmt: skip
    log = perflog.read(trace(tmp_path / "t.json", events))
    read_events = {(r["name"], r["start_ns"], r["duration_ns"], r["line"]) for r in rows(log)}
    assert read_events == {
        ("outer", 10000, 10000, 1), ("inner", 12000, 3000, 2), ("other", 12000, None, 3), ("async", 1000, 5000, 7),
        ("async", 2000, None, 8),
    }  # fmt: skip
    assert log.line_account["read"] == 8 and log.line_account["unread"] == 2
    unread = {r["shape"]: r["first_line"] for r in rows(log, "lines") if r["status"] == "unread"}
    assert unread == {"E without its begin": 6, "C x without a number": 10}


def test_a_call_tells_step_and_range_of_what_it_started(tmp_path: Path) -> None:
    events = [
        x("late", "kernel", 500, 5, pid=0, tid=7, correlation=1, device=0, stream=7),
        x("lonely", "kernel", 150, 5, pid=0, tid=8, correlation=9, device=0, stream=8),
        x("Context Sync", "cuda_sync", 150, 5, pid=0, tid=7, correlation=9, device=0, stream=7),
        x("launch", "cuda_runtime", 120, 3, correlation=1),
        x("outer", "user_annotation", 110, 50),
        x("inner", "user_annotation", 115, 10),
        x("elsewhere", "user_annotation", 100, 90, tid=2),
        x("ProfilerStep#3", "user_annotation", 100, 100),
        x("ProfilerStep#4", "user_annotation", 200, 400),
        x("ProfilerStep#3", "gpu_user_annotation", 140, 20, pid=0, tid=8),
        x("op", "cpu_op", 130, 1, tid=2),
    ]
    read_events = {
        (r["name"], r["kind"]): (r["step"], r["range"]) for r in rows(perflog.read(trace(tmp_path / "t", events)))
    }
    assert read_events["late", "kernel"] == (3, "inner")  # it ran in step 4
    assert read_events["lonely", "kernel"] == (3, None)  # by what its stream says
    assert read_events["Context Sync", "sync"] == (None, None)
    assert read_events["inner", "range"] == (3, "outer") and read_events["outer", "range"] == (3, None)
    assert read_events["op", "cpu"] == (3, "elsewhere")
    assert read_events["ProfilerStep#4", "range"] == (4, None)


def test_a_synchronisation_tells_what_it_waits_for(tmp_path: Path) -> None:
    known = {"wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 11, "wait_on_cuda_event_id": 3}
    unknown = {"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": -1, "wait_on_cuda_event_id": 4}
    events = [
        x("gemm", "kernel", 500, 5, pid=0, tid=7, correlation=1, device=0, stream=7),
        x("Stream Wait Event", "cuda_sync", 150, 5, pid=0, tid=7, correlation=12, device=0, stream=7, **known),
        x("Event Sync", "cuda_sync", 160, 5, pid=0, tid=-1, correlation=13, device=0, stream=-1, **unknown),
    ]
    log = perflog.read(trace(tmp_path / "t", events))
    assert [(r["waits_for_stream"], r["waits_for_record"]) for r in rows(log)] == [
        (None, None), (20, 11), (None, None),
    ]  # fmt: skip
    account = {r["shape"]: r for r in rows(log, "lines") if "wait_on" in r["shape"]}
    assert account["wait_on_stream"]["figures_stored"] == 2
    assert account["wait_on_cuda_event_id"]["figures_dropped"] == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"traceEvents": []}', "no events"),
        ('{"traceEvents": [', "no events"),
    ],
)
def test_a_trace_without_events(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(InputError, match=reason):
        perflog.read(path)


@pytest.mark.parametrize("text", ['{"other": [{"ph": "X"}]}', '[{"a": 1}]', '{"text": "\\"traceEvents\\": [", "x": 1}'])
def test_what_is_no_trace(tmp_path: Path, text: str) -> None:
    """JSON of another kind: a document of values."""
    path = tmp_path / "t.json"
    path.write_text(text)
    log = perflog.read(path)
    assert log.arrow("runs")["format"].to_pylist() == ["json_values"] and not rows(log)


def test_packed_traces_are_the_same_run(tmp_path: Path) -> None:
    raw = (DATA / "2024_epoch.json").read_bytes()
    ids = {perflog.read(DATA / "2024_epoch.json").run_keys[0].id}
    for suffix, pack in (("gz", gzip.compress), ("xz", lzma.compress)):
        path = tmp_path / f"trace_without_name.{suffix}"
        path.write_bytes(pack(raw))
        ids.add(perflog.read(path).run_keys[0].id)
    codec = pa.Codec("zstd")
    (tmp_path / "t.zst").write_bytes(codec.compress(raw, asbytes=True))
    ids.add(perflog.read(tmp_path / "t.zst").run_keys[0].id)
    assert len(ids) == 1
    torn = tmp_path / "torn.json.gz"
    torn.write_bytes(gzip.compress(raw)[:-30])
    assert any("ends early" in text for text in perflog.read(torn).warnings)


# --- several files ------------------------------------------------------------------------------------------------


def job(folder: Path, names: dict[str, Row | None]) -> Path:
    for i, (name, info) in enumerate(names.items()):
        metadata = {} if info is None else {"distributedInfo": info}
        trace(folder / name, [x("k", "kernel", i, 1, device=0)], **metadata)
    return folder


def runs_of(folder: Path) -> list[tuple[str, list[tuple[int | None, str | None]]]]:
    log = perflog.read(folder)
    out = []
    for member in log.run_keys:
        ranks = {(r["part"], r["rank"], r["rank_by"]) for r in rows(log) if r["run"] == member.id}
        out.append((Path(member.log).name, [(rank, rule) for _, rank, rule in sorted(ranks, key=lambda f: f[0])]))
    return sorted(out)


def test_ranks_told_by_the_files(tmp_path: Path) -> None:
    jobs = {f"host_{7 * i}.16{i}.pt.trace.json": {"rank": 1 - i, "world_size": 2} for i in range(2)}
    assert runs_of(job(tmp_path, dict(jobs))) == [
        ("host_{7.161,0.160}.pt.trace.json", [(0, "printed"), (1, "printed")])
    ]


def test_ranks_told_by_the_names(tmp_path: Path) -> None:
    job(tmp_path, {"rank8.json": None, "rank9.json": None, "rank10.json": None, "alone_rank_3.json": None})
    assert runs_of(tmp_path) == [
        ("alone_rank_3.json", [(3, "file")]),
        ("rank{8..10}.json", [(8, "file"), (9, "file"), (10, "file")]),
    ]


def test_a_bare_number_is_a_rank_only_among_all_of_them(tmp_path: Path) -> None:
    job(tmp_path, {"a_0.json": None, "a_1.json": None, "b_5.json": None, "b_6.json": None, "c_0.json": None})
    assert runs_of(tmp_path) == [
        ("a_{0..1}.json", [(0, "file"), (1, "file")]),
        ("b_5.json", [(None, None)]),
        ("b_6.json", [(None, None)]),
        ("c_0.json", [(None, None)]),
    ]


def test_files_that_are_no_one_run(tmp_path: Path) -> None:
    same = {"rank": 0, "world_size": 2}
    job(tmp_path, {"step1.json": dict(same), "step2.json": dict(same)})
    (tmp_path / "rank0.txt").write_text("no trace\n")
    (tmp_path / "rank1.txt").write_text("no trace\n")
    assert [name for name, _ in runs_of_traces(tmp_path)] == ["step1.json", "step2.json"]


def runs_of_traces(folder: Path) -> list[tuple[str, Any]]:
    for path in folder.glob("*.txt"):
        path.unlink()
    return runs_of(folder)


def test_a_run_of_several_files_in_a_store(tmp_path: Path) -> None:
    home = tmp_path / "traces"
    home.mkdir()
    job(home, {f"rank{i}.json": {"rank": i, "world_size": 2} for i in range(2)})
    name = f"{home}/rank{{0..1}}.json"
    done = ingest_log(LogName.parse(name), IngestTask(str(tmp_path / "s"), "two"))
    assert isinstance(done, IngestResult) and done.runs[0]["label"] == "two"
    again = ingest_log(LogName.parse(name), IngestTask(str(tmp_path / "s")))
    assert isinstance(again, IngestResult) and again.runs == done.runs  # the label stays
    log = perflog.load(tmp_path / "s")
    assert [m.log for m in log.run_keys] == [name] and len(perflog.find_runs(name)) == 1
    with pytest.raises(UsageError):
        log.select("three")


# --- commands -----------------------------------------------------------------------------------------------------


def test_what_is_exported_reads_the_same(tmp_path: Path) -> None:
    log = perflog.read(DATA / "2025_compact.json")
    count = perflog.export.perfetto(log, tmp_path / "out.json")
    document = json.loads((tmp_path / "out.json").read_text())
    assert len(document["traceEvents"]) == count
    first = document["otherData"]["start_ns"]
    columns = ("name", "kind", "duration_ns", "step", "range", "correlation", "collective", "seq", "bytes", "group")
    again = rows(perflog.read(tmp_path / "out.json"))
    ours = rows(log)
    assert [r["start_ns"] + first for r in again] == [r["start_ns"] for r in ours]
    assert [[r[c] for c in columns if c != "bytes"] for r in again] == [
        [r[c] for c in columns if c != "bytes"] for r in ours
    ]


def test_commands_take_traces(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        command = [sys.executable, "-m", "perflog", *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    path = str(DATA / "2022.json")
    (detected,) = json.loads(run("detect", path, "--format", "json"))["rows"]
    assert detected["format"] == "chrome_trace"
    summary = json.loads(run("ingest", path, "--strict", "--json", "--store", str(tmp_path / "s")))
    assert summary["logs"][0]["lines"] == {"total": 6, "read": 6, "context": 0, "unread": 0}
    assert "ProfilerStep#5" in run("show", path, "events")


@pytest.mark.parametrize("wrapped", [True, False])
def test_the_proof_is_the_first_event(tmp_path: Path, wrapped: bool) -> None:
    events = [x("aten::mm", "cpu_op", 1), x("aten::add", "cpu_op", 2)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": events} if wrapped else events, indent=1))
    ((place, structure, text),) = proof_of(path)
    assert (place, structure) == (1, "traceEvents" if wrapped else "list of events")
    assert text.startswith('{ "ph": "X", "cat": "cpu_op", "name": "aten::mm"')  # on one line
