"""Rows of table `failures`: what a message's values become, and which ranks are proven."""

from __future__ import annotations

from typing import Any

import pytest

from perflog.parsing.failures.failure import Failure
from perflog.parsing.failures.kinds import kinds
from perflog.parsing.failures.origins import Origin, origin_of
from perflog.parsing.failures.rows import FailureRow, rank_in_name, rows_of
from perflog.tables.row_order import PART_BITS

PLACE = 7 << PART_BITS | 2


def failure(kind: str = "disk_full", traced: bool = True, **origin: Any) -> Failure:
    values = origin.pop("values", {})
    return Failure(PLACE, 9, kinds()[kind], "message", values, Origin(**origin), "", traced)


def row(given: Failure) -> FailureRow:
    (found,) = rows_of([given], "a-1", None, "run.log", False)
    return found


def ranks(*given: Failure, world_size: int | None = None, file: str = "run.log", launcher: bool = False) -> list[Any]:
    return [(each.rank, each.rank_by) for each in rows_of(given, "a-1", world_size, file, launcher)]


def test_the_position_of_a_row() -> None:
    found = row(failure())
    assert (found.line, found.part, found.last_line, found.run, found.role) == (7, 2, 9, "a-1", "unknown")


@pytest.mark.parametrize(
    ("given", "severity"),
    [
        (failure("thermal_slowdown"), "notice"),
        (failure("exception"), "fatal"),
        (failure("exception", traced=False), "error"),
        (failure("exception", process="Trainer pid=4"), "error"),  # the driver of Ray may have caught it
        (failure("disk_full", process="Trainer pid=4"), "fatal"),
    ],
)
def test_what_a_message_ends(given: Failure, severity: str) -> None:
    assert row(given).severity == severity


@pytest.mark.parametrize(
    ("kind", "values", "code"),
    [
        ("child_failed", {"exit_code": "-9"}, -9),
        ("child_failed", {"signal_name": "Segmentation fault"}, -11),
        *(
            ("child_failed", {"signal_name": name, "exit_code": "1"}, code)
            for code, names in {
                -4: ("SIGILL", "Illegal instruction"),
                -6: ("SIGABRT", "Aborted"),
                -7: ("SIGBUS", "Bus error"),
                -8: ("SIGFPE", "Floating point exception"),
                -9: ("SIGKILL", "Killed"),
                -11: ("SIGSEGV",),
                -15: ("SIGTERM", "Terminated"),
            }.items()
            for name in names
        ),
        ("child_failed", {"signal_name": "SIGUSR1", "exit_code": "1"}, 1),
        ("child_failed", {"signal": "9"}, -9),
        ("segmentation_fault", {"signal": "11"}, None),  # the process itself reports no exit code
        ("child_failed", {"exit_code": "many"}, None),
        ("child_failed", {"exit_code": "1" * 19}, None),
    ],
)
def test_the_exit_code(kind: str, values: dict[str, str], code: int | None) -> None:
    assert row(failure(kind, values=values)).exit_code == code


def test_numbers_that_no_job_has_are_unknown() -> None:
    """A torn line may glue two numbers."""
    large = "9" * 20
    found = row(failure(values={"rank": "123456789", "local_rank": large, "gpu": "4294967296", "seq": large}))
    assert (found.rank, found.local_rank, found.gpu, found.seq) == (None, None, None, None)
    assert row(failure("child_failed", values={"signal": large})).exit_code is None
    assert rank_in_name(f"rank{large}.log") is None
    assert origin_of(f"[rank{large}]:", f"[Rank {large}] it failed on cuda:{large}", 0) == Origin()


def test_values_of_a_message_count_before_its_label() -> None:
    found = row(failure(values={"rank": "3", "gpu": "1", "node": "n7"}, rank=5, rank_by="label", gpu=2, node="n8"))
    assert (found.rank, found.rank_by, found.gpu, found.node) == (3, "printed", 1, "n7")
    found = row(failure(values={"local_rank": "4"}, rank=5, rank_by="label", local_rank=2, gpu=2, node="n8"))
    assert (found.rank, found.rank_by, found.local_rank, found.gpu, found.node) == (5, "label", 2, 2, "n8")
    assert row(failure(values={"waited_ms": "1500"})).waited_s == 1.5
    assert row(failure()).waited_s is None


@pytest.mark.parametrize("node", ["0.0.0.0", "127.0.0.1", "localhost", "::1", ""])
def test_an_address_of_any_node_names_none(node: str) -> None:
    assert row(failure(node=node)).node is None


@pytest.mark.parametrize(("tasks", "task", "peer"), [("3", 3, "3"), ("1,3-4", None, "1,3-4"), ("", 6, None)])
def test_several_tasks_are_none_of_them(tasks: str, task: int | None, peer: str | None) -> None:
    found = row(failure("task_exit", values={"tasks": tasks} if tasks else {}, task=6))
    assert (found.task, found.peer) == (task, peer)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.log", 3), ("train_rank_12.txt", 12), ("Rank-0.log", 0), ("rank=7", 7), ("rank.5", 5),
        ("logs/rank 4/out", 4),
        ("local_rank3.log", None), ("tp_rank_1.log", None), ("node-rank0", None),
        ("frank3.log", None), ("rank.log", None),
        ("prank3", None), ("run3.log", None),
    ],
)  # fmt: skip
def test_the_rank_in_the_name_of_a_file(name: str, rank: int | None) -> None:
    assert rank_in_name(name) == rank


def test_a_rank_in_the_name_is_of_failures_without_one() -> None:
    given = (failure(), failure(rank=1, rank_by="label"), failure("child_failed"))
    assert ranks(*given, file="rank3.log") == [(3, "file"), (1, "label"), (None, None)]  # a launcher has no rank


@pytest.mark.parametrize(
    ("given", "options", "expected"),
    [
        # a rank on its node is the rank where the job has one node
        ([failure(local_rank=2)], {}, [(2, "label")]),
        ([failure(local_rank=2)], {"world_size": 8}, [(2, "label")]),
        ([failure(local_rank=2)], {"world_size": 9}, [(None, None)]),
        ([failure(local_rank=2, node="n1"), failure(local_rank=2, node="n2")], {}, [(None, None)] * 2),
        ([failure(local_rank=2, node="n1"), failure(local_rank=3)], {}, [(2, "label"), (3, "label")]),
        ([failure("child_failed", local_rank=2)], {}, [(None, None)]),
        ([failure(local_rank=2, task=1)], {}, [(None, None)]),
        # a task is a rank if it is a process of the job
        ([failure(task=2)], {}, [(2, "task")]),
        ([failure(task=0)], {}, [(None, None)]),  # it may start all processes
        ([failure(task=0), failure(task=1)], {}, [(0, "task"), (1, "task")]),
        ([failure(task=0)], {"world_size": 1}, [(0, "task")]),
        ([failure(task=2)], {"world_size": 2}, [(None, None)]),
        ([failure(task=1)], {"launcher": True}, [(None, None)]),
        ([failure(task=1), failure("first_failed", rank=9, rank_by="printed")], {}, [(None, None), (9, "printed")]),
        ([failure(task=1)], {"launcher": True, "world_size": 8}, [(None, None)]),
        ([failure(task=3)], {"launcher": True, "world_size": 8}, [(None, None)]),
        ([failure(task=4)], {"launcher": True, "world_size": 8}, [(4, "task")]),  # more tasks than nodes
        ([failure(task=1, gpu=2)], {}, [(None, None)]),  # a process of task 1 on GPU 2 is one of several
        ([failure(task=2, gpu=2)], {}, [(2, "task")]),
    ],
)
def test_which_ranks_are_proven(given: list[Failure], options: dict[str, Any], expected: list[Any]) -> None:
    assert ranks(*given, **options) == expected
