"""Logs go into a store: each has an outcome, an error of one stops no other, and labels stay."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perflog.errors import EmptyLogError, InputError, PerflogError, UnrecognisedError, UsageError
from perflog.ingestion import bulk, workers
from perflog.ingestion.bulk import (
    IngestTask,
    expected,
    ingest_in_turn,
    ingest_log,
    ingest_logs,
    ingest_many,
    log_names,
    split_documents,
    without_found,
)
from perflog.parsing.input.log_names import LogName
from perflog.tables.sink import IngestResult
from perflog.tables.store import Store

STEP = "step: {:2}  loss:  8.{:02}  memory: 10.50GiB(11.00%)  tps: 1,234  tflops: 5.00  mfu: 12.34%\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def log(name: str, loss: int = 1, steps: int = 2, more: str = "") -> LogName:
    """Write a log, and return its name."""
    Path(name).write_text("".join(STEP.format(step, loss) for step in range(1, steps + 1)) + more)
    return LogName.parse(name)


def text(name: str, content: str) -> LogName:
    Path(name).write_text(content)
    return LogName.parse(name)


def stored(column: str = "log") -> list[Any]:
    return sorted(Store("store").table("runs")[column].to_pylist(), key=str)


TASK = IngestTask("store")


def test_a_log_is_stored_with_what_the_task_says() -> None:
    told: list[int] = []
    task = IngestTask("store", label="mine", provenance={"commit": "1"}, tags={"kind": "test"})
    result = ingest_log(log("a"), task, progress=told.append)
    assert isinstance(result, IngestResult) and (result.log, result.tables["steps"]) == ("a", 2)
    assert sum(told) == os.path.getsize("a")
    assert stored("label") == ["mine"]
    store = Store("store")
    (kept,) = store.provenance().values()
    assert kept == {"commit": "1", "kind": "test"}


def test_labels_stay_unless_the_task_gives_others() -> None:
    """Also where the log has grown since, and of several logs."""
    ingest_log(log("a"), IngestTask("store", label="first"))
    for loss, steps, task, label in (
        (1, 2, TASK, "first"),
        (1, 3, TASK, "first"),
        (1, 3, IngestTask("store", label="second"), "second"),
        (1, 4, TASK, "second"),
        (7, 2, TASK, None),  # another log
    ):
        outcome = ingest_log(log("a", loss, steps), task)
        assert isinstance(outcome, IngestResult)
        labels = Store("store").table("runs", [outcome.sha256[:16]])["label"].to_pylist()
        assert labels == [label]
    ingest_logs([log("b"), log("c", 2)], IngestTask("store", label="of several"))
    ingest_logs([log("b", steps=3), log("c", 2, steps=3), log("d", 3)], TASK)
    assert stored("label").count("of several") == 2


def test_the_labels_of_earlier_states_count_less() -> None:
    known: dict[str, dict[int, str | None]] = {"a": {1: "new", 2: None}, "b": {1: "old", 2: "kept"}}
    assert bulk._labels_of(["a", "b", "c"], known) == {1: "new", 2: "kept"}
    assert bulk._labels_of(["c"], known) == {}


def test_a_log_that_cannot_be_read_gives_an_error_with_its_name() -> None:
    for name in (LogName.parse("none"), text("empty", "")):
        outcome = ingest_log(name, TASK)
        assert isinstance(outcome, InputError) and outcome.where == str(name)
    log("a")
    outcome = ingest_log(LogName.parse("a#2"), TASK)
    assert isinstance(outcome, UsageError) and outcome.reason == "a store holds whole logs"
    assert not Store("store").logs()


def test_several_logs_are_stored_together() -> None:
    """Equal ones once; each outcome is in the place of its name."""
    told: list[int] = []
    names = [log("a"), text("empty", ""), log("b", 2), log("c"), log("d", 3), LogName.parse("none")]
    outcomes = ingest_logs(names, TASK, told.append)
    assert [isinstance(outcome, IngestResult) for outcome in outcomes] == [True, False, True, True, True, False]
    assert [outcome.log for outcome in outcomes if isinstance(outcome, IngestResult)] == ["a", "b", "c", "d"]
    assert [outcome.where for outcome in outcomes if isinstance(outcome, PerflogError)] == ["empty", "none"]
    assert stored() == ["a", "b", "d"] and len(Store("store").table("steps")) == 6
    assert len(list(Path("store/runs").iterdir())) == 1
    origins = [origin.paths for origin in Store("store").origins().values()]
    assert sorted(map(len, origins)) == [1, 1, 2] and (os.path.abspath("a"), os.path.abspath("c")) in origins
    assert sum(told) >= sum(os.path.getsize(name) for name in "abd")


def test_a_store_that_cannot_be_written_is_the_outcome_of_each_log() -> None:
    Path("store").write_text("in the way")
    outcomes = ingest_logs([log("a"), text("empty", "")], TASK)
    assert [isinstance(outcome, InputError) for outcome in outcomes] == [False, True]
    assert isinstance(outcomes[0], PerflogError) and outcomes[0].where == "store"


def test_a_strict_task_stores_no_log_with_something_unread() -> None:
    strict = IngestTask("store", strict=True)
    assert isinstance(ingest_log(log("a"), strict), IngestResult)
    assert isinstance(ingest_log(log("a", more="an unknown line 3.5\n"), IngestTask("other")), IngestResult)
    for more, reason in (
        ("an unknown line 3.5\n", "1 line is unread; the first is line 3:\n  an unknown line 3.5"),
        ("an unknown line 3.5\n" * 2, "2 lines are unread; the first is line 3:\n  an unknown line 3.5"),
    ):
        outcome = ingest_log(log("b", more=more), strict)
        assert isinstance(outcome, InputError) and outcome.reason == reason
        assert "perflog formats suggest b" in outcome.help
    (outcome, other) = ingest_logs([log("b", more="an unknown line 3.5\n"), log("c", 3)], strict)
    assert isinstance(outcome, InputError) and isinstance(other, IngestResult)
    assert stored() == ["a", "c"]
    result = IngestResult("b", "")
    result.unread_figures = (7, "x 5")
    for count, words in ((1, "1 figure is unread"), (2, "2 figures are unread")):
        result.figures = {"unread": count}
        with pytest.raises(InputError, match=f"{words}, in lines such as line 7:\n  x 5"):
            bulk._refuse_unread(result)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # threads of earlier tests
def test_logs_are_ingested_in_the_order_of_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches, one after the other, or in other processes; a process that is killed costs one log."""
    names = [log(f"{number}", number) for number in range(5)]
    monkeypatch.setattr(bulk, "in_batches", lambda given, *_: [given[:2], given[2:3], given[3:]])
    assert [name for name, _ in ingest_in_turn(names, TASK)] == names
    assert stored() == ["0", "1", "2", "3", "4"]
    monkeypatch.setattr(bulk, "pay", lambda _: False)
    assert [(name, isinstance(done, IngestResult)) for name, done in ingest_many(names, TASK, 1, None)] == [
        (name, True) for name in names
    ]
    monkeypatch.setattr(bulk, "pay", lambda _: True)
    whole = bulk.ingest_batch

    def killed(task: IngestTask, batch: list[LogName], progress: Callable[[int], None] | None) -> Any:
        if "1" in map(str, batch) or "2" in map(str, batch):
            os._exit(9)
        return whole(task, batch, progress)

    monkeypatch.setattr(bulk, "ingest_batch", killed)
    monkeypatch.setattr(workers, "has_threads", lambda: False)  # a fork knows the function above
    outcomes = list(ingest_many(names, TASK, 2, None))
    assert [name for name, _ in outcomes] == names
    assert [done.reason if isinstance(done, PerflogError) else "" for _, done in outcomes] == [
        "", "the process that read the log was killed", "the process that read the log was killed", "", "",
    ]  # fmt: skip


def test_documents_beside_logs_are_left_out() -> None:
    found = LogName("README.md", ("README.md",), is_found=True)
    error, done = InputError("nothing", "x"), IngestResult("a", "")
    a = LogName.parse("a")
    assert split_documents([(a, done), (found, error)]) == ([(a, done)], [found])
    assert split_documents([(a, error), (found, done)]) == ([(a, error), (found, done)], [])
    assert split_documents([(found, error)]) == ([(found, error)], [])  # nothing else is there


def test_files_of_a_folder_that_are_no_logs_are_left_out_by_reason() -> None:
    a, b, c, d = (replace(LogName.parse(name), is_found=True) for name in ("a", "b", "c", "d"))
    done, empty, unknown = IngestResult("a", ""), EmptyLogError("empty", "b"), UnrecognisedError("unknown", "c")
    unreadable = InputError("cannot be opened", "d")
    assert without_found([(a, done), (b, empty), (c, unknown), (d, unreadable)]) == (
        [(a, done), (d, unreadable)],
        ["left out, because they are empty: b", "left out, because nothing in them is known: c"],
    )
    assert without_found([(LogName.parse("a"), empty), (b, done)])[1] == []  # the user named it
    assert without_found([(b, empty), (c, unknown)]) == ([(b, empty), (c, unknown)], [])  # nothing was read


def test_the_number_of_bytes_is_known_of_plain_files() -> None:
    names = [log("a"), log("b", steps=3)]
    assert expected(names) == os.path.getsize("a") + os.path.getsize("b")
    assert expected([*names, text("c.gz", "x")]) is None
    assert expected([*names, LogName.parse("none")]) is None
    assert expected([]) == 0


def test_an_unknown_format_is_one_error() -> None:
    log("a")
    log("b")
    with pytest.raises(UsageError, match="no_such_format"):
        log_names(["a", "b"], ["no_such_format"])
    assert log_names(["a", "b", "a"], ["torchtitan"]) == [LogName.parse("a"), LogName.parse("b")]


def test_files_of_ranks_are_one_log_unless_the_user_names_formats() -> None:
    ranks = [log(f"rank_{rank}.log", rank) for rank in (0, 1)]
    texts = [name.log for name in ranks]
    assert log_names(texts, ["torchtitan"]) == ranks
    (joined,) = log_names(texts)
    assert joined.files == ("rank_0.log", "rank_1.log")
