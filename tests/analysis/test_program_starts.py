"""Where failures in one log are of a new start of the program."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import fields

from perflog.analysis.program_starts import is_of_a_rank, may_be_caught, prints_on, program_starts
from perflog.parsing.failures.kinds import TRACEBACK
from perflog.parsing.failures.rows import FailureRow


def row(line: int, kind: str = "gpu_out_of_memory", rank: int | None = None, **more: Any) -> FailureRow:
    nulls: dict[str, Any] = dict.fromkeys(field.name for field in fields(FailureRow))
    usual = {"line": line, "last_line": line, "kind": kind, "rank": rank, "message": kind, "severity": "fatal"}
    return FailureRow(**nulls | usual | more)


def caught(line: int, message: str = "ValueError: no", **more: Any) -> FailureRow:
    return row(line, "exception", message=message, **more)


def job(line: int, number: int) -> FailureRow:
    return row(line, "preemption", message=f"slurmstepd: error: *** JOB {number} ON n1 CANCELLED")


def summary(line: int, rank: int = 3, kind: str = "first_failed", **more: Any) -> FailureRow:
    """What a launcher prints of a rank of its node at the end."""
    pid, local = more.pop("pid", None), more.pop("local", None)
    told = [f"local_rank: {local}"] * (local is not None) + [f"pid: {pid}"] * (pid is not None)
    return row(line, kind, rank, message=f"rank {rank} ({', '.join(told)})", **more)


CASES: dict[str, tuple[list[FailureRow], list[list[int]]]] = {
    "nothing": ([], []),
    "one": ([row(5)], [[5]]),
    "failures of one start": ([row(5), row(9, rank=1), caught(12)], [[5, 9, 12]]),
    # --- the scheduler
    "jobs of two numbers": ([row(5), job(6, 7), row(9), job(10, 8)], [[5, 6], [9, 10]]),
    "two lines on one job": ([job(6, 7), row(8), job(9, 7)], [[6, 8, 9]]),
    "three jobs": ([job(6, 7), job(8, 8), job(9, 9)], [[6], [8], [9]]),
    "a job of another number after a new start": (
        [row(3, section=0), row(4, section=1), job(6, 7), row(7), job(8, 8)], [[3], [4, 6], [7, 8]]
    ),
    # --- the launcher
    "a second summary of a node": (
        [summary(5, node="n1", local=3), summary(9, node="n1", local=3)], [[5], [9]]
    ),
    "of another rank of the node": (
        [summary(5, node="n1", local=3), summary(9, 4, node="n1", local=4)], [[5], [9]]
    ),
    "summaries of two nodes": ([summary(5, node="n1", local=3), summary(9, 11, node="n2", local=3)], [[5, 9]]),
    "of two launchers on one node": ([summary(5, node="n1", local=3), summary(9, 4, node="n1", local=3)], [[5, 9]]),
    "of a node without a name": ([summary(5, local=3), summary(9, local=3)], [[5, 9]]),
    "a summary has several ranks": (
        [summary(5, 2, "later_failed", node="n1", local=2), summary(6, node="n1", local=3)], [[5, 6]]
    ),
    "a rank that ends twice, as two processes": ([summary(5, pid=70), summary(9, pid=71)], [[5], [9]]),
    "a process that is named twice": ([summary(5, pid=70), summary(9, pid=70)], [[5, 9]]),
    "another message of the rank": ([summary(5, pid=70), row(9, rank=3, message="x (pid: 71)")], [[5, 9]]),
    "a process without a rank": ([row(k, "first_failed", message=f"pid: {k}") for k in (5, 9)], [[5, 9]]),
    "two ranks": ([summary(5, pid=70), summary(9, 4, pid=71)], [[5, 9]]),
    "a third process": ([summary(k, pid=k) for k in (5, 9, 12)], [[5], [9], [12]]),
    "what is reported after a summary is of it": (
        [summary(5, pid=70), row(6, "task_exit"), row(7, "later_failed"), row(8), summary(9, pid=71)],
        [[5, 6, 7], [8, 9]],
    ),
    "what the launcher prints before a summary is of this one": (
        [summary(5, pid=70), row(6, "task_exit"), row(8, "child_failed"), summary(9, pid=71)], [[5, 6], [8, 9]]
    ),
    # --- the first line of the log again
    "the log begins again": ([row(5, section=0), row(9, section=1)], [[5], [9]]),
    "in one section": ([row(5, section=1), row(9, section=1)], [[5, 9]]),
    "sections that are not known": ([row(5), row(9, section=0)], [[5, 9]]),
    "no cause follows": ([row(5, section=0), row(9, "remote_exit", section=1)], [[5, 9]]),
    "a cause follows later": (
        [row(5, section=0), row(9, "remote_exit", section=1), row(10, section=1)], [[5], [9, 10]]
    ),
    "two ranks print the usage": (
        [row(5, "arguments", 0, section=0), row(9, "arguments", 1, section=1)], [[5, 9]]
    ),
    "one rank prints it twice": ([row(5, "arguments", 0, section=0), row(9, "arguments", 0, section=1)], [[5], [9]]),
    "a process prints it twice": ([row(5, "arguments", section=0), row(9, "arguments", 1, section=1)], [[5], [9]]),
    "one rank prints it, and one fails": (
        [row(5, "arguments", 0, section=0), row(9, rank=1, section=1)], [[5], [9]]
    ),
    # --- source code that cannot be read
    "a program that did not start": ([row(5), caught(9, "SyntaxError: x")], [[5], [9]]),
    "the first failure": ([caught(5, "SyntaxError: x"), caught(9, "SyntaxError: x")], [[5, 9]]),
    "its traceback is torn": ([row(5), caught(9, "TabError: x"), caught(10, TRACEBACK)], [[5], [9, 10]]),
    "the launcher reports it": ([row(5), caught(9, "IndentationError: x"), row(10, "child_failed"), row(11)],
                                [[5], [9, 10, 11]]),
    "the program caught it": ([row(5), caught(9, "SyntaxError: x"), row(10)], [[5, 9, 10]]),
    # --- a program that prints on
    "so much output": ([caught(5), row(506)], [[5], [506]]),
    "not so much": ([caught(5), row(505)], [[5, 505]]),
    "after the last line of a failure": ([caught(5, last_line=10), row(510)], [[5, 510]]),
    "after a failure that nobody catches": ([row(5), row(900)], [[5, 900]]),
    "after a rank": ([caught(5, rank=1), row(900)], [[5, 900]]),
    "after a job that was ended": ([row(4), job(5, 7), row(900)], [[4, 5], [900]]),
    "since the last start": ([row(5, section=0), caught(9, section=1), row(900, section=1)], [[5], [9], [900]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_failures_are_cut_where_a_program_was_started_again(name: str) -> None:
    rows, starts = CASES[name]
    assert [[each.line for each in start] for start in program_starts(rows)] == starts


@pytest.mark.parametrize(
    ("rows", "line", "goes_on"),
    [
        ([], 900, False), ([caught(5)], 505, False), ([caught(5)], 506, True), ([caught(5, last_line=9)], 509, False),
        ([caught(5), row(6)], 900, False), ([row(5), job(6, 7)], 900, True), ([job(5, 7), row(6)], 900, False),
    ],
)  # fmt: skip
def test_a_program_prints_on_after_what_it_may_have_caught(rows: list[FailureRow], line: int, goes_on: bool) -> None:
    assert prints_on(rows, line) == goes_on


def test_what_a_failure_says_of_its_process() -> None:
    named: list[dict[str, Any]] = [{"rank": 0}, {"local_rank": 0}, {"task": 0}]
    assert [is_of_a_rank(row(5, **more)) for more in (*named, {"gpu": 0})] == [True, True, True, False]
    assert [may_be_caught(each) for each in (caught(5), row(5, "arguments"), row(5), caught(5, rank=0))] == [
        True, True, False, False,
    ]  # fmt: skip
