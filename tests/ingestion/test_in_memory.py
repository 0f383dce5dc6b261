"""Logs are read into memory in the order of their names; equal ones once, and errors in place of a log."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.stores import rows

from perflog.errors import InputError, UsageError
from perflog.ingestion import in_memory, pipeline, workers
from perflog.ingestion.in_memory import ReadLog, ReadTask, read_logs
from perflog.parsing.input.log_names import LogName
from perflog.tables.sink import MemorySink

STEP = "step: {:2}  loss:  8.{:02}  memory: 10.50GiB(11.00%)  tps: 1,234  tflops: 5.00  mfu: 12.34%\n"


def log(loss: int) -> str:
    return "".join(STEP.format(step, loss) for step in (1, 2))


def read(folder: Path, *texts: str, task: ReadTask | None = None) -> tuple[list[object], MemorySink]:
    """What each of these logs gives: its number of warnings, the number of an equal log, or the error."""
    names, sink, found = [], MemorySink(), list[object]()
    for number, text in enumerate(texts):
        path = folder / f"{number}.log"
        path.write_text(text)
        names.append(LogName.parse(str(path)))
    for name, result in read_logs(names, task or ReadTask(), sink):
        assert name == names[len(found)]
        if isinstance(result, ReadLog):
            found.append(result.warnings)
        else:
            found.append(names.index(result) if isinstance(result, LogName) else InputError)
    return found, sink


def steps(sink: MemorySink) -> list[tuple[str, int]]:
    return [(row["run"][-2:], row["step"]) for row in sink.fetch("steps").to_pylist()]


def test_each_name_has_its_log_an_earlier_one_or_an_error(tmp_path: Path) -> None:
    for texts, results, count in (
        ([log(1)], [[]], 2),
        ([log(1), log(2)], [[], []], 4),
        ([log(1), log(2), log(1)], [[], [], 0], 4),
        (["nothing\n"], [InputError], 0),
        ([log(1), "nothing\n", log(1), log(3), log(4), "", log(4)], [[], InputError, 0, [], [], InputError, 4], 6),
    ):
        found, sink = read(tmp_path, *texts)
        assert found == results
        assert len(steps(sink)) == count


def test_batches_of_several_logs_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "in_batches", lambda names, *_: [names[:3], names[3:4], names[4:]])
    texts = [log(1), log(2), log(1), log(2), log(3), "nothing\n", log(1)]
    found, sink = read(tmp_path, *texts)
    assert found == [[], [], 0, 1, [], InputError, 0]
    assert len(steps(sink)) == 6


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # threads of earlier tests
def test_other_processes_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "in_batches", lambda names, *_: [names[:2], names[2:]])
    monkeypatch.setattr(in_memory, "pay", lambda _: True)
    monkeypatch.setattr(workers, "cores", lambda: 2)
    monkeypatch.setattr(workers, "has_threads", lambda: False)  # a fork knows the functions of the test
    batches, read_batch = list[int](), in_memory._read_batch

    def noted(*arguments: Any) -> Any:
        batches.append(os.getpid())  # only of this process
        return read_batch(*arguments)

    monkeypatch.setattr(in_memory, "_read_batch", noted)
    texts = [log(1), log(2), log(1), log(3)]
    for allowed, here in ((workers.allowed(), 0), (nullcontext(), 2)):
        with allowed:
            found, sink = read(tmp_path, *texts)
        assert (found, len(steps(sink)), len(batches)) == ([[], [], 0, []], 6, here)


def test_a_log_alone_has_all_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, ingest = list[Any](), pipeline.ingest

    def noted(*arguments: Any, **how: Any) -> Any:
        given.append(how)
        return ingest(*arguments, **how)

    monkeypatch.setattr(pipeline, "ingest", noted)
    monkeypatch.setattr(workers, "cores", lambda: 2)
    monkeypatch.setattr(in_memory, "has_threads", lambda: False)
    with workers.allowed():
        read(tmp_path, log(1))
    read(tmp_path, log(1))
    assert given == [{"threads": 2, "processes": True}, {}]


def test_the_task_is_that_of_each_log(tmp_path: Path) -> None:
    _, sink = read(tmp_path, log(1), log(2), task=ReadTask(label="mine"))
    assert set(sink.fetch("runs")["label"].to_pylist()) == {"mine"}
    with pytest.raises(UsageError):
        read(tmp_path, log(1), task=ReadTask(formats=("no_such_format",)))
    guessed, sink = read(tmp_path, "depth: 2.5\ndepth: 3.5\n" * 5, task=ReadTask(guess=True))
    assert guessed == [[]] and sink.fetch("values")["key"].to_pylist() == ["depth"] * 10


def test_rows_of_logs_that_were_read_before_are_left_out() -> None:
    a, b = "a" * 12, "b" * 12
    table = rows("steps", f"{a}-1", 2)
    both = in_memory._without_logs(table, ["c" * 64])
    assert both is table
    assert in_memory._without_logs(table, [a + "0" * 52]).num_rows == 0
    mixed = rows("steps", f"{b}-1", 3)
    assert in_memory._without_logs(mixed, [a + "0" * 52])["run"].to_pylist() == [f"{b}-1"] * 3
