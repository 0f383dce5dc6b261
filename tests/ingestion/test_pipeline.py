"""One log from its bytes to its tables: which formats read it, in which chunks, and when rows are written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import astuple
from support.format_files import given_file
from support.reading import differences, read, write

from perflog.errors import InputError
from perflog.formats.loader.format_file import load
from perflog.formats.model import Format
from perflog.formats.registry import known
from perflog.ingestion import pipeline
from perflog.parsing.assemble.assembler import Decisions, RereadRequired
from perflog.parsing.input.growing_source import GrowingSource
from perflog.parsing.input.source import JoinedSource, Source
from perflog.readers.interface import ReadOptions
from perflog.tables.sink import IngestResult, MemorySink

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from perflog.parsing.assemble.runs.run_state import RunSettings

STEP = "step: {:2}  loss:  8.12  memory: 10.50GiB(11.00%)  tps: 1,234  tflops: 5.00  mfu: 12.34%\n"
NANOGPT = "iter {}: loss 5.4983, time 337.52ms, mfu 0.96%\n"
TABLE = "\n| name | calls | ms |\n|---|---|---|\n| add | 3 | 30.5 |\n| mul | 4 | 30.6 |\n| sub | 5 | 30.7 |\n\n"
PAIRS = "epoch 1 loss 2.5 acc 0.5\nepoch 2 loss 2.4 acc 0.5\n"
NCCL = (
    "# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
    "validation: 1 graph: 0\n"
)
OWN = """
title = "a program with runs"
[[line]]
name = "begin"
table = "runs"
opens = "run"
text = "run begins with {size:d}"
sample = "run begins with 3"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} in {step_time_s:r}"
unit = { step_time_s = "s" }
sample = "finished step 3 in 2.5"
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Format:
    return load(given_file(tmp_path_factory.mktemp("formats"), OWN))


def runs_of(sizes: tuple[int, ...]) -> bytes:
    """A log with a run for each size: two steps, and a line that nothing reads."""
    run = "run begins with {0}\nfinished step 1 in {0}.5\nfinished step 2 in {0}.5\nthe end\n"
    return "".join(map(run.format, sizes)).encode()


def test_the_rows_of_a_log_of_two_runs(own: Format) -> None:
    found = read(runs_of((3, 4)), formats=[own], label="mine")
    one, two = (f"{found.done.sha256[:12]}-{number}" for number in (1, 2))
    names = ("run", "line", "step", "step_time_s")
    assert [tuple(row[name] for name in names) for row in found.rows("steps")] == [
        (one, 2, 1, 3.5), (one, 3, 2, 3.5), (two, 6, 1, 4.5), (two, 7, 2, 4.5),
    ]  # fmt: skip
    assert [(row["run"], row["label"], row["index"], row["config"]) for row in found.rows("runs")] == [
        (one, "mine#1", 1, '{"size": 3}'), (two, "mine#2", 2, '{"size": 4}'),
    ]  # fmt: skip
    done = found.done
    assert done.runs == [
        {"run": run, "label": f"mine#{k}", "index": k, "format": "own"} for k, run in ((1, one), (2, two))
    ]
    assert (done.log, done.formats, done.warnings, done.unread) == ("log", ["own"], [], (4, "the end"))
    assert done.tables == {"steps": 4, "runs": 2, "lines": 6}
    assert done.lines == {"total": 8, "read": 6, "context": 0, "unread": 2}
    assert done.figures == {"total": 10, "stored": 10, "dropped": 0, "unread": 0}


MANY = STEP.format(1) + TABLE + "".join(f"note {k}\n" + STEP.format(k) for k in range(2, 7)) + TABLE.replace("ms", "us")
MIXED = "a title\n" + STEP.format(1) + "a line\n" * 4 + "".join(map(NANOGPT.format, range(4))) + STEP.format(2)


@pytest.mark.parametrize(
    ("text", "formats", "rows"),
    [
        (MANY, ["torchtitan"], {"steps": 6, "values": 6}),
        (MIXED, ["nanogpt", "torchtitan"], {"steps": 6, "values": 2}),
        ("a title\n" * 9 + MIXED, ["nanogpt", "torchtitan"], {"steps": 6, "values": 2}),
        (STEP.format(1) + "a line\n" * 9 + PAIRS, ["torchtitan"], {"steps": 1, "values": 1}),
        (NCCL + "a line\n" * 9 + PAIRS, ["meters", "nccl_tests"], {"values": 6}),  # beside settings alone
    ],
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # threads of earlier tests
def test_chunks_and_processes_change_nothing(
    text: str, formats: list[str], rows: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines that show a format or a table in a later chunk, and tables that a chunk cuts."""
    data = text.encode()
    told: list[int] = []
    whole = read(data, progress=told.append)
    assert whole.done.formats == formats and whole.balances()
    assert {name: count for name, count in whole.done.tables.items() if name not in ("runs", "lines")} == rows
    assert told == [len(data)]
    monkeypatch.setattr(Source, "head", lambda source, size=150: next(source.chunks(150)))
    for size in (90, 200):
        parts: list[int] = []
        assert differences(read(data, chunk=size, progress=parts.append).tables(), whole.tables()) == []
        assert sum(parts) == len(data) and len(parts) > 1
    monkeypatch.setattr(pipeline, "_LONG", 0)
    assert differences(read(data, chunk=90, processes=True).tables(), whole.tables()) == []


@pytest.mark.parametrize("text", [MANY, MANY.replace("step:", "unknown:"), MIXED])
def test_chunks_cut_what_the_head_has_shown(text: str) -> None:
    data = text.encode()
    whole, cut = read(data), read(data, chunk=40)
    assert differences(cut.tables(), whole.tables()) == [] and cut.done == whole.done


class Passes:
    """Stands for the readings of a log: each takes what it is given, and the first ones need another one."""

    def __init__(self, *changes: Decisions) -> None:
        self.changes, self.given = list(changes), list[Any]()

    def __call__(self, *given: Any) -> Passes:
        self.given.append(given)
        return self

    def run(self, threads: int, size: int, progress: object) -> IngestResult:
        if self.changes:
            raise RereadRequired(self.changes.pop(0))
        return IngestResult("log", f"{threads} {size} {progress}")


def test_a_log_is_read_again_with_all_that_is_decided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    passes = Passes(Decisions(separate={1: True}, windows={7: 2}), Decisions(windows={8: 3}))
    monkeypatch.setattr(pipeline, "_Reading", passes)
    assert read(STEP.encode(), threads=3, chunk=99).done.sha256 == "3 99 None"
    assembler = passes.given[2][5]
    assert astuple(assembler.args[0]) == ({}, {1: True}, {7: 2, 8: 3}, {}, {})
    assert assembler.keywords == {"files": ("log",), "waits_for_libraries": True, "is_by_rank": False}
    assert len(passes.given) == 3
    sink = MemorySink()
    paths = [tmp_path / name for name in ("job_rank0.log", "job_rank1.log")]
    for path in paths:
        path.write_text(STEP.format(1))
    growing = GrowingSource("a/b", str(paths[0]), lambda: False)
    joined = JoinedSource("all", [Source(str(path), str(path)) for path in paths])
    for source, keywords in (
        (growing, {"files": ("b",), "waits_for_libraries": False, "is_by_rank": False}),
        (joined, {"files": ("all",), "waits_for_libraries": True, "is_by_rank": True}),
    ):
        pipeline.ingest(source, sink.reset)
        assert passes.given[-1][5].keywords == keywords


def test_a_file_that_a_reader_knows_is_read_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the user names formats."""
    result, given = IngestResult("log", "0"), list[Any]()

    def noted(*arguments: Any) -> IngestResult:
        given.append(arguments)
        return result

    reader = SimpleNamespace(read=noted)
    monkeypatch.setattr(pipeline, "find_reader", lambda _: reader)
    found = read(STEP.encode(), label="mine", threads=5, processes=True)
    assert found.done is result and given[0][1:] == (found.kept, ReadOptions("mine", 5, None, True))
    assert read(STEP.format(1).encode(), formats=[known()["torchtitan"]]).done.formats == ["torchtitan"]
    assert len(given) == 1


@pytest.mark.parametrize(
    ("formats", "text", "read_by"),
    [
        (None, STEP.format(1), ["torchtitan"]),
        (["nanogpt", "torchtitan"], STEP.format(1) * 2, ["nanogpt", "torchtitan"]),  # those that the user names
        (None, "epoch 1 loss 2.5\nepoch 2 loss 2.4\n", ["meters"]),
    ],
)
def test_the_formats_of_a_log(formats: list[str] | None, text: str, read_by: list[str]) -> None:
    named = None if formats is None else [known()[name] for name in formats]
    assert read(text.encode(), formats=named).done.formats == read_by


def test_formats_of_any_program_read_no_document(own: Format) -> None:
    """A document that was found in a folder has tables and results of other logs."""
    source = write(b"epoch 1 loss 2.5\nepoch 2 loss 2.4\n" + TABLE.encode())
    sink = MemorySink()
    assert pipeline.ingest(source, sink.reset).formats == ["tables", "meters"]
    source.is_document = True
    with pytest.raises(InputError, match="nothing in it is recognised"):
        pipeline.ingest(source, sink.reset)
    named = {form.name for form in pipeline._candidates(source)}
    assert {"torchtitan", "nanogpt"} < named and not named & {"common", "meters", "tables", "csv"}


def test_what_is_guessed_reads_the_rest_or_says_why_nothing_is_read(own: Format) -> None:
    data = STEP.format(1).encode() + b"finished step 7 in 2.5\n"
    assert read(data, guessed=own).done.formats == ["torchtitan", "own"]
    error = InputError("there is no guess", "log")
    assert read(data, guessed=error).done.formats == ["torchtitan"]
    with pytest.raises(InputError, match="there is no guess"):
        read(b"nothing\n", guessed=error)
    for guessed in (None, own):
        with pytest.raises(InputError, match="nothing in it is recognised"):
            read(b"nothing\n", guessed=guessed)


@pytest.mark.parametrize(
    ("settings", "unread", "is_read"), [(1, 10, True), (1, 11, False), (11, 11, True), (11, 12, False)]
)
def test_a_log_of_settings_alone_has_as_many_as_unread_figures(
    own: Format, settings: int, unread: int, is_read: bool
) -> None:
    """Ten figures may be chance."""
    data = b"run begins with 3\n" * settings + b"x 5\n" * unread
    if is_read:
        assert read(data, formats=[own]).done.warnings == ["no line gives a row of a table: only settings are read"]
        return
    with pytest.raises(InputError, match=f"no line fills a row of a table: {unread} figures are unread"):
        read(data, formats=[own])


@pytest.mark.parametrize(
    ("threads", "processes", "platform", "size", "may"),
    [
        (2, True, "linux", 5, True), (1, True, "linux", 5, False), (2, False, "linux", 5, False),
        (2, True, "darwin", 5, False), (2, True, "linux", 4, False),
    ],
)  # fmt: skip
def test_a_second_process_pays_for_long_logs(
    threads: int, processes: bool, platform: str, size: int, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_LONG", 4)
    monkeypatch.setattr(pipeline, "sys", SimpleNamespace(platform=platform))
    reading: Any = SimpleNamespace(processes=processes, source=SimpleNamespace(size=lambda: size))
    assert pipeline._Reading._may_fork(reading, threads) is may


def test_a_small_log_starts_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_SMALL", 4)
    for size, kind in ((3, pipeline._AtOnce), (4, ThreadPoolExecutor)):
        source: Any = SimpleNamespace(size=lambda size=size: size)
        with pipeline._executor(source) as executor:
            assert type(executor) is kind
            assert executor.submit(divmod, 7, 2).result() == (3, 1)
            with pytest.raises(ZeroDivisionError):
                executor.submit(divmod, 7, 0).result()


class Parts(MemorySink):
    """A sink that notes how many rows it is given at once."""

    def __init__(self) -> None:
        super().__init__()
        self.added = list[tuple[str, int]]()

    def add(self, table: str, data: pa.Table) -> None:
        self.added.append((table, len(data)))
        super().add(table, data)


def test_rows_are_written_many_at_once(own: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of runs at once: they come many at once."""
    data, asked = runs_of((1, 2, 3, 4, 5)), list[int]()

    def labels() -> dict[int, str | None]:
        asked.append(1)
        return {2: "second"}

    def parts(rows: int, runs: int) -> tuple[list[tuple[str, int]], Parts]:
        monkeypatch.setattr(pipeline, "_ROWS_AT_ONCE", rows)
        monkeypatch.setattr(pipeline, "_RUNS_AT_ONCE", runs)
        sink = Parts()
        done = pipeline.ingest(write(data), lambda: sink, [own], labels, chunk=75)
        assert done.tables == {"steps": 10, "runs": 5, "lines": 15}
        return sorted(sink.added), sink

    one, sink = parts(1000, 1000)
    assert one == [("lines", 15), ("runs", 5), ("steps", 10)]
    assert asked == [1] and [row["label"] for row in sink.fetch("runs").to_pylist()] == [
        None,
        "second",
        None,
        None,
        None,
    ]
    many, again = parts(4, 2)
    assert sum(rows for _, rows in many) == 30
    assert [rows for name, rows in many if name == "runs"] == [2, 3] and ("lines", 15) not in many
    assert sorted(rows for name, rows in many if name == "steps") == [2, 4, 4]
    assert again.fetch("steps").equals(sink.fetch("steps"))


def test_whoever_watches_gets_the_rows_of_each_chunk(own: Format) -> None:
    """And the settings of the run that is being read; failures as soon as they are found, although they may change."""
    seen = list[tuple[dict[str, int], list[str]]]()

    def watch(tables: Mapping[str, pa.Table], settings: RunSettings) -> None:
        seen.append(({name: len(rows) for name, rows in tables.items()}, [*settings]))

    data = runs_of((1, 2)).replace(b"the end", b"ValueError: no") + b"finished step 3 in 1.5\n"
    read(data, formats=[own], chunk=75, observer=watch)
    assert seen == [
        ({"steps": 2}, ["size"]), ({"steps": 2, "failures": 1}, ["size"]), ({"failures": 1}, ["size"]),
        ({"steps": 1, "failures": 2}, ["size"]),  # the end: as they are in the table
    ]  # fmt: skip
