"""The failures of a log, each in its run: with the size of its run, the name of its file, and its role."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from perflog.parsing.assemble.runs.printed_steps import in_order
from perflog.parsing.assemble.runs.run_failures import RunFailures
from perflog.parsing.assemble.runs.run_state import RunState
from perflog.parsing.failures.failure import Failure
from perflog.parsing.failures.kinds import kinds
from perflog.parsing.failures.origins import Origin
from perflog.tables.row_order import PART_BITS


def run(index: int, line: int, log: int = 0) -> RunState:
    return RunState(index, line << PART_BITS, line, line, log=log)


def failure(line: int, kind: str = "disk_full", **origin: Any) -> Failure:
    return Failure(line << PART_BITS, line + 2, kinds()[kind], f"message {line}", {}, Origin(**origin), "")


def failures_of(*found: Failure, launcher: bool = False, files: tuple[str, ...] = ("a.log",)) -> RunFailures:
    """The failures of a log with these, in a run that begins in line 1."""
    made = RunFailures([0], files, run(1, 1))
    made._reader = SimpleNamespace(  # type: ignore[assignment]
        failures=list(found), has_launcher=launcher, feed=lambda lines, batch, runs: runs,
        finish=lambda: list(found),
    )  # fmt: skip
    return made


def rows(table: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def feed(made: RunFailures, *new_runs: RunState) -> Any:
    batch: Any = SimpleNamespace(with_failures=lambda positions: positions)
    return made.feed([], new_runs, in_order([]), batch)


def test_a_log_without_failures_has_no_table() -> None:
    made = failures_of()
    assert (made.last_line, made.table(), made.recent()) == (0, None, None)


def test_the_last_line_is_that_of_the_last_message() -> None:
    assert failures_of(failure(9), failure(4)).last_line == 11


def test_each_failure_is_in_the_run_that_began_last() -> None:
    made = failures_of(failure(1), failure(4), failure(5), failure(9))
    assert feed(made, run(2, 5), run(3, 7)) == [5 << PART_BITS, 7 << PART_BITS]
    table = made.table()
    assert rows(table, "run", "line", "last_line", "message") == [
        ("1", 1, 3, "message 1"), ("1", 4, 6, "message 4"), ("2", 5, 7, "message 5"), ("3", 9, 11, "message 9")
    ]  # fmt: skip


def test_a_failure_before_the_first_run_is_in_it() -> None:
    made = RunFailures([0], ("a.log",), run(1, 5))
    made._reader = failures_of(failure(2))._reader
    assert rows(made.table(), "run", "line") == [("1", 2)]


def test_the_file_of_a_run_is_that_of_its_log() -> None:
    """It states the rank where nothing else does."""
    made = failures_of(failure(1), failure(5), failure(7), files=("rank3.log", "rank4.log"))
    feed(made, run(2, 5, log=1), run(3, 7, log=2))
    assert rows(made.table(), "run", "rank") == [("1", 3), ("2", 4), ("3", 4)]  # of a log without a name, the last


def test_the_world_size_of_a_run_says_whether_tasks_are_ranks() -> None:
    made = failures_of(failure(1, task=2), failure(5, task=2))
    feed(made, run(2, 5))
    sizes = {1: 4, 2: 2}
    for index, size in sizes.items():
        made.end(SimpleNamespace(index=index, world_size=size))  # type: ignore[arg-type]
    assert rows(made.table(), "run", "rank") == [("1", 2), ("2", None)]


def test_a_run_of_unknown_size_is_left_out() -> None:
    made = failures_of(failure(1, task=2))
    made.end(SimpleNamespace(index=1, world_size=None))  # type: ignore[arg-type]
    assert made._world_sizes == {}


def test_tasks_that_start_launchers_are_no_ranks() -> None:
    for launcher, rank in ((True, None), (False, 2)):
        assert rows(failures_of(failure(1, task=2), launcher=launcher).table(), "rank") == [(rank,)]
        assert rows(failures_of(failure(1, task=2), launcher=launcher).recent(), "rank") == [(rank,)]


def test_roles_are_judged_in_each_run() -> None:
    made = failures_of(failure(1, rank=0), failure(5, rank=1))
    feed(made, run(2, 5))
    assert rows(made.table(), "role") == [("first",), ("first",)]


def test_recent_failures_are_those_since_the_last_call_in_the_last_run() -> None:
    made = failures_of(failure(1), replace(failure(2), is_refusal=True))
    assert rows(made.recent(), "run", "line") == [("1", 1)]
    assert made.recent() is None
    feed(made, run(2, 3), run(3, 4))
    made._reader.failures.append(replace(failure(3), is_refusal=True))
    assert made.recent() is None
    made._reader.failures.append(failure(4))
    assert rows(made.recent(), "run", "line") == [("3", 4)]
