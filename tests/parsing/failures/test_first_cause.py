"""What came first: each rule of evidence on a few rows, with the ranks that it accuses and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import fields

from perflog.parsing.failures.first_cause import Judgement, judge, roles_of
from perflog.parsing.failures.kinds import TRACEBACK, kinds
from perflog.parsing.failures.rows import FailureRow

START = 10  # a line before which other lines of the log are: a failure in line 1 is in an excerpt
SECOND = 10**9

Judged = tuple[str | None, list[int], str]
"""What came first: its kind, the ranks that are accused, and how sure that is."""


def row(kind: str, rank: int | None = None, **values: Any) -> FailureRow:
    """A failure that ends its process. `rows` numbers the lines of those that have none."""
    nulls: dict[str, Any] = dict.fromkeys(field.name for field in fields(FailureRow))
    severity = "notice" if kinds()[kind].role == "notice" else "fatal"
    given = {"run": "a-1", "kind": kind, "rank": rank, "severity": severity, "message": kind, "role": "unknown"}
    return FailureRow(**nulls | given | {"line": 0, "part": 0, "last_line": 0, "count": 1} | values)


def numbered(*given: FailureRow, start: int = START) -> list[FailureRow]:
    for at, each in enumerate(given):
        each.line = each.line or start + at
        each.last_line = each.last_line or each.line
    return list(given)


def judged(*given: FailureRow, **options: Any) -> Judged:
    found = judge(numbered(*given), **options)
    return found.kind, found.ranks, found.certainty


def timed(kind: str, rank: int | None, seconds: float, clock: str = "unix", **values: Any) -> FailureRow:
    return row(kind, rank, time_ns=round(seconds * SECOND), clock=clock, **values)


def timeout(rank: int, **values: Any) -> FailureRow:
    return row("collective_timeout", rank, **values)


FOUND: dict[str, tuple[list[FailureRow], Judged]] = {
    "no failure": ([], (None, [], "unknown")),
    "a notice ends nothing": ([row("thermal_slowdown", 1)], (None, [], "unknown")),
    # --- a scheduler
    "a scheduler ended the job": ([row("time_limit"), row("terminated", 2)], ("time_limit", [], "sure")),
    "a device failed before": ([row("gpu_error", 3), row("time_limit")], ("gpu_error", [3], "sure")),
    "a device failed after": ([row("time_limit"), row("gpu_error", 3)], ("time_limit", [], "sure")),
    "an exception before, which the program caught": (
        [row("exception", 3, severity="error"), row("preemption")], ("preemption", [], "sure")
    ),
    "an exception before, which ended its process": (
        [row("exception", 3), row("preemption")], ("exception", [3], "sure")
    ),
    "an error of a device before, whatever its severity": (
        [row("gpu_error", 3, severity="error"), row("preemption")], ("gpu_error", [3], "sure")
    ),
    "what a launcher or a signal ended before is no cause": (
        [row("task_exit", task=1, exit_code=1), row("terminated"), row("node_failure")], ("node_failure", [], "sure")
    ),
    "a line before, printed after by the clock": (
        [timed("gpu_error", 3, 2), timed("time_limit", None, 1)], ("time_limit", [], "sure")
    ),
    "of one time, the first line": (
        [timed("gpu_error", 3, 2), timed("time_limit", None, 2)], ("gpu_error", [3], "sure")
    ),
    "times of two clocks are not compared": (
        [timed("gpu_error", 3, 2, "uptime"), timed("time_limit", None, 1)], ("gpu_error", [3], "sure")
    ),
    # --- devices
    "the rank of a GPU that failed": ([row("gpu_fault", 2)], ("gpu_fault", [2], "sure")),
    "of two such, either": ([row("gpu_fault", 4), row("gpu_fault", 2)], ("gpu_fault", [2, 4], "one of")),
    "the log reports a GPU fault, one rank the error": (
        [row("gpu_fault", node="n1", device="0:7"), row("gpu_error", 5)], ("gpu_fault", [5], "likely")
    ),
    "two ranks report the error": (
        [row("gpu_fault", node="n1", device="0:7"), row("gpu_error", 5), row("device_assert", 6)],
        ("gpu_fault", [], "sure"),
    ),
    "an error without a rank names none": (
        [row("gpu_fault", node="n1", device="0:7"), row("gpu_error")], ("gpu_fault", [], "sure")
    ),
    "a rank with another message": (
        [row("gpu_fault", node="n1", device="0:7"), row("remote_exit", 5)], ("gpu_fault", [], "sure")
    ),
    "two devices, one rank": (
        [row("gpu_fault", node="n1", device="0:7"), row("gpu_fault", node="n1", device="0:8"), row("gpu_error", 5)],
        ("gpu_fault", [], "one of"),
    ),
    "the same address on two nodes is two devices": (
        [row("gpu_fault", node="n1", device="0:7"), row("gpu_fault", node="n2", device="0:7")],
        ("gpu_fault", [], "one of"),
    ),
    # --- causes
    "the only cause, in a log": ([row("disk_full", 4), row("remote_exit", 1)], ("disk_full", [4], "sure")),
    "exceptions while an interrupted program ends": (
        [row("interrupted"), row("exception", line=START + 49), row("data", line=START + 49)],
        ("interrupted", [], "sure"),
    ),
    "an exception 50 lines later is of its own": (
        [row("interrupted"), row("exception", line=START + 50)], ("exception", [], "sure")
    ),
    "an exception of a rank is no end of an interrupted program": (
        [row("interrupted"), row("exception", 2)], ("exception", [2], "sure")
    ),
    "an error of a device after an interrupt": ([row("interrupted"), row("gpu_error")], ("gpu_error", [], "sure")),
    "a user interrupts a job that hangs": (
        [timeout(0), timeout(1), row("interrupted")], ("collective_timeout", [], "unknown")
    ),
    "a torn traceback": ([row("exception", 1, message=TRACEBACK)], ("exception", [1], "likely")),
    "a torn traceback of a rank, and its launcher": (
        [row("exception", 1, message=TRACEBACK), row("child_failed", 1, exit_code=1)], ("exception", [1], "likely")
    ),
    "a torn traceback of a launcher": (
        [row("exception", message=TRACEBACK), row("child_failed", 1, exit_code=1)], ("child_failed", [1], "likely")
    ),
    "a torn traceback in the line of its launcher": (
        [row("child_failed", 1, exit_code=1, line=20), row("exception", 1, message=TRACEBACK, line=20)],
        ("child_failed", [1], "likely"),
    ),
    "a torn traceback after an echo of another rank": (
        [row("remote_exit", 0), row("exception", 1, message=TRACEBACK)], ("remote_exit", [], "unknown")
    ),
    "a torn traceback after an echo of its own": (
        [row("remote_exit", 1), row("exception", 1, message=TRACEBACK)], ("exception", [1], "likely")
    ),
    "a launcher that ends the others is no echo": (
        [row("remote_exit", 0, message="Sending process 7 closing signal"), row("exception", 1, message=TRACEBACK)],
        ("exception", [1], "likely"),
    ),
    "a program outlived an exception until its host had no memory": (
        [row("exception"), row("gpu_out_of_memory"), row("host_out_of_memory")], ("host_out_of_memory", [], "sure")
    ),
    "a rank that ended before is known": (
        [row("exception", 1), row("host_out_of_memory")], ("exception", [1], "likely")
    ),
    "a launcher saw the process end before": (
        [row("gpu_out_of_memory"), row("child_failed"), row("host_out_of_memory")], ("gpu_out_of_memory", [], "sure")
    ),
    "a full disk ends a program": (
        [row("disk_full"), row("host_out_of_memory")], ("disk_full", [], "sure")
    ),
    "an exception after another rank lost a process": (
        [row("remote_exit", 0), row("exception", 1)], ("exception", [1], "likely")
    ),
    "a cause after another rank waited": ([timeout(0), row("disk_full", 1)], ("disk_full", [1], "likely")),
    "an exception after its own process lost one": (
        [row("remote_exit", 1), row("exception", 1)], ("exception", [1], "likely")
    ),
    "a cause after its own process lost one": (
        [row("remote_exit", 1), row("disk_full", 1)], ("disk_full", [1], "sure")
    ),
    "an echo in another log has no order": (
        [row("remote_exit", 0, run="b-1"), row("exception", 1)], ("exception", [1], "sure")
    ),
    "an echo in another run of the log has": (
        [row("remote_exit", 0, run="a-2"), row("exception", 1)], ("exception", [1], "likely")
    ),
    "an echo in a line before, printed after by the clock": (
        [timed("remote_exit", 0, 2), timed("exception", 1, 1)], ("exception", [1], "sure")
    ),
    "a launcher's signal before": (
        [row("remote_exit", 0, message="Received 15 death signal"), row("exception", 1)], ("exception", [1], "sure")
    ),
    "another exception of a process follows": (
        [row("exception", 1), row("exception", 1, message="another")], ("exception", [1], "likely")
    ),
    "the same exception follows": ([row("exception", 1), row("exception", 1)], ("exception", [1], "sure")),
    "a more exact message within 50 lines": (
        [row("exception", 1), row("gpu_out_of_memory", 1, line=START + 49)], ("gpu_out_of_memory", [1], "sure")
    ),
    "a more exact message 50 lines later": (
        [row("exception", 1), row("gpu_out_of_memory", 1, line=START + 50)], ("exception", [1], "sure")
    ),
    "an exception of a collective is no cause": (
        [row("exception", 1, op="all_reduce"), row("disk_full", 2)], ("disk_full", [2], "sure")
    ),
    # --- torchrun's summary and an exception without a rank
    "torchrun saw one rank fail": (
        [row("exception"), row("first_failed", 3, exit_code=1)], ("exception", [3], "likely")
    ),
    "torchrun saw two fail": (
        [row("exception"), row("later_failed", 5, exit_code=1), row("first_failed", 3, exit_code=1)],
        ("exception", [3, 5], "one of"),
    ),
    "torchrun saw a signal end it": (
        [row("exception"), row("first_failed", 3, exit_code=-9)], ("exception", [], "sure")
    ),
    "torchrun saw it end well": ([row("exception"), row("first_failed", 3, exit_code=0)], ("exception", [], "sure")),
    "two agents saw a first one": (
        [row("exception"), row("first_failed", 3, exit_code=1), row("first_failed", 9, exit_code=1)],
        ("exception", [], "sure"),
    ),
    "an exception with a rank needs no summary": (
        [row("exception", 2), row("first_failed", 3, exit_code=1)], ("exception", [2], "sure")
    ),
    "an echo beside the exception": (
        [row("exception"), row("first_failed", 3, exit_code=1), row("remote_exit", 1)], ("exception", [], "sure")
    ),
    # --- several causes
    "torchrun saw one of them first": (
        [row("disk_full", 1), row("checkpoint", 2), row("first_failed", 2, exit_code=1)], ("checkpoint", [2], "likely")
    ),
    "two agents saw either first": (
        [row("disk_full", 1), row("disk_full", 2), row("first_failed", 2), row("first_failed", 1)],
        ("disk_full", [1, 2], "one of"),
    ),
    "equal reports": ([row("disk_full", 2), row("disk_full", 1)], ("disk_full", [1, 2], "one of")),
    "equal reports, the first by a second": (
        [timed("disk_full", 2, 5), timed("disk_full", 1, 4)], ("disk_full", [1], "likely")
    ),
    "equal reports, the first by less": (
        [timed("disk_full", 2, 4.999), timed("disk_full", 1, 4)], ("disk_full", [1, 2], "one of")
    ),
    "equal reports, one without a time": (
        [timed("disk_full", 2, 9), timed("disk_full", 1, 4), row("disk_full", 3)], ("disk_full", [1, 2, 3], "one of")
    ),
    "equal reports, times of two clocks": (
        [timed("disk_full", 2, 5), timed("disk_full", 1, 4, "uptime")], ("disk_full", [1, 2], "one of")
    ),
    "exceptions that differ in a number are equal": (
        [row("exception", 1, message="bad record 17"), row("exception", 2, message="bad record 4")],
        ("exception", [1, 2], "one of"),
    ),
    "exceptions that differ in words": (
        [row("exception", 1, message="bad record"), row("exception", 2, message="no key")], ("exception", [1], "likely")
    ),
    "the words of a full disk do not count": (
        [row("disk_full", 1, message="a"), row("disk_full", 2, message="b")], ("disk_full", [1, 2], "one of")
    ),
    "different causes: the first in the log": (
        [row("disk_full", 1), row("gpu_error", 2)], ("disk_full", [1], "likely")
    ),
    "different causes, printed by three ranks, two alike": (
        [row("disk_full", 1), row("gpu_error", 2), row("disk_full", 3)], ("disk_full", [1, 2, 3], "one of")
    ),
    "different causes in lines that overlap": (
        [row("disk_full", 1, line=10, last_line=12), row("gpu_error", 2, line=12)], ("disk_full", [1, 2], "one of")
    ),
    "different causes in two logs": (
        [row("disk_full", 1), row("gpu_error", 2, run="b-1")], ("disk_full", [1, 2], "one of")
    ),
    "different causes in two logs, one of them exact and first": (
        [row("disk_full", 1), row("exception", 2, run="b-1")], ("disk_full", [1], "likely")
    ),
    "different causes in two logs, one of them exact, not first": (
        [row("exception", 1), row("disk_full", 2, run="b-1")], ("exception", [1, 2], "one of")
    ),
    "different causes, the second first by the clock": (
        [timed("disk_full", 1, 5), timed("gpu_error", 2, 3)], ("gpu_error", [2], "likely")
    ),
    "a cause without a rank is that of the only rank with it": (
        [row("disk_full"), row("disk_full", 3)], ("disk_full", [3], "sure")
    ),
    "of two ranks with it, it may be of either": (
        [row("disk_full"), row("disk_full", 3), row("disk_full", 4)], ("disk_full", [3, 4], "one of")
    ),
    "local ranks of two nodes are two processes": (
        [row("disk_full", local_rank=0, node="n1"), row("disk_full", local_rank=0, node="n2")],
        ("disk_full", [], "one of"),
    ),
    "two GPUs of a node are two processes": (
        [row("disk_full", node="n1", gpu=0), row("disk_full", node="n1", gpu=1)], ("disk_full", [], "one of")
    ),
    # --- signals
    "a signal ended a process": ([row("child_failed", 2, exit_code=-11)], ("segmentation_fault", [2], "likely")),
    "a shell adds 128": ([row("child_failed", 2, exit_code=139)], ("segmentation_fault", [2], "likely")),
    "one signal ended two": (
        [row("child_failed", 2, exit_code=-11), row("child_failed", 1, exit_code=-11)],
        ("segmentation_fault", [1, 2], "one of"),
    ),
    "a fault ends a process, and a launcher kills the other": (
        [row("child_failed", 1, exit_code=-9), row("child_failed", 2, exit_code=-7)], ("crash", [2], "likely")
    ),
    "the only process that was killed": ([row("child_failed", 2, exit_code=-9)], ("killed", [2], "likely")),
    "a launcher kills a process after another has exited": (
        [row("child_failed", 1, exit_code=1), row("child_failed", 2, exit_code=-9)], ("child_failed", [], "unknown")
    ),
    "the same, as a shell reports it": (
        [row("child_failed", 1, exit_code=1), row("child_failed", 2, exit_code=137)], ("child_failed", [], "unknown")
    ),
    "it exited after the other was killed": (
        [row("child_failed", 2, exit_code=-9), row("child_failed", 1, exit_code=1)], ("killed", [2], "likely")
    ),
    "torchrun reports the first last": (
        [row("later_failed", 1, exit_code=1), row("first_failed", 2, exit_code=-9)], ("killed", [2], "likely")
    ),
    "a process that ended well sent no signal": (
        [row("child_failed", 1, exit_code=0), row("child_failed", 2, exit_code=-9)], ("killed", [2], "likely")
    ),
    "several that were killed": (
        [row("child_failed", 2, exit_code=-9), row("child_failed", 1, exit_code=-9)], ("child_failed", [], "unknown")
    ),
    "the tasks of a node, of which one was killed": ([row("task_exit", exit_code=-9)], ("task_exit", [], "unknown")),
    "the first failed by itself, a later one was killed": (
        [row("later_failed", 2, exit_code=-9), row("first_failed", 1, exit_code=1)], ("first_failed", [1], "likely")
    ),
    # --- exits of tasks
    "srun ended the others after a task": (
        [row("task_exit", 1, task=1, exit_code=1), row("terminated"), row("task_exit", 0, task=0, exit_code=-15)],
        ("task_exit", [1], "likely"),
    ),
    "srun ended the others before": (
        [row("terminated"), row("task_exit", 1, task=1, exit_code=1)], ("terminated", [], "unknown")
    ),
    "a task that was aborted saw another one go": (
        [row("remote_exit", 0), row("task_exit", 0, exit_code=-6), row("task_exit", 3, exit_code=1)],
        ("task_exit", [3], "likely"),
    ),
    "an exit of what reported the echo itself": (
        [row(kind, rank, **code) for rank, code in ((0, {"exit_code": -6}), (3, {"exit_code": 1}))
         for kind, code in (("remote_exit", {}), ("task_exit", code))],
        ("remote_exit", [], "unknown"),
    ),
    "an exit that no task reports": (
        [row("remote_exit", 0), row("task_exit", 0, exit_code=-6), row("child_failed", 3, exit_code=1)],
        ("remote_exit", [], "unknown"),
    ),
    "two that exited by themselves": (
        [row("remote_exit", 0), *(row("task_exit", k, exit_code=code) for k, code in ((0, 134), (3, 1), (4, 1)))],
        ("remote_exit", [], "unknown"),
    ),
    # --- either
    "a watchdog of one process": ([row("no_progress", 1)], ("no_progress", [], "unknown")),
    "a process that a launcher killed": ([row("killed", 1)], ("killed", [1], "likely")),
    "two that were killed": ([row("killed", 1), row("killed", 2)], ("killed", [], "unknown")),
    "another process reports it": ([row("lost_process", 4)], ("lost_process", [4], "likely")),
    "a barrier names who did not come": (
        [row("rendezvous_timeout", 0, message="Barrier timed out", peer="3, 1")], ("rendezvous_timeout", [1, 3], "sure")
    ),
    "another list is of tasks, not of who is absent": (
        [row("rendezvous_timeout", 0, peer="3, 1")], ("rendezvous_timeout", [], "unknown")
    ),
    "a link with both ends": ([row("link_error", 2, peer="n4")], ("link_error", [], "one of")),
    "a link with one end": ([row("link_error", peer="n4")], ("link_error", [], "unknown")),
    "two links": ([row("link_error", 2, peer="n4"), row("link_error", 2, peer="n5")], ("link_error", [], "unknown")),
    "an exception in a collective": (
        [row("exception", 1, op="all_reduce")], ("exception", [], "unknown")
    ),
    "an error of NCCL of all ranks but one": (
        [row("nccl_error", rank) for rank in (0, 1, 3)], ("silent_end", [2], "likely")
    ),
    # --- echoes
    "the only rank without an echo": (
        [row("remote_exit", rank) for rank in (0, 1, 2, 4)], ("silent_end", [3], "likely")
    ),
    "two ranks without": ([row("remote_exit", rank) for rank in (0, 1, 2, 5, 6, 7)], ("remote_exit", [], "unknown")),
    "ranks that do not begin at a node": (
        [row("remote_exit", rank) for rank in (4, 5, 7)], ("remote_exit", [], "unknown")
    ),
    "two witnesses are too few": ([row("remote_exit", rank) for rank in (0, 2)], ("remote_exit", [], "unknown")),
    "a launcher that ended its processes": (
        [row("remote_exit", message="Sending process 7 closing signal"), row("child_failed", 1, exit_code=1)],
        ("child_failed", [1], "likely"),
    ),
    # --- reports
    "a launcher saw one fail": ([row("child_failed", 1, exit_code=2)], ("child_failed", [1], "likely")),
    "a launcher saw two fail": (
        [row("child_failed", rank, exit_code=2) for rank in (1, 2)], ("child_failed", [], "unknown")
    ),
    "an abort": ([row("child_failed", 1, exit_code=134)], ("abort", [1], "likely")),
    "the first of a summary": (
        [row("later_failed", 1, exit_code=2), row("first_failed", 4, exit_code=2)], ("first_failed", [4], "likely")
    ),
    "a launcher names a node": ([row("child_failed", node="n1", exit_code=2)], ("child_failed", [], "likely")),
    "a launcher names a node that was told to end": (
        [row("child_failed", node="n1", exit_code=143)], ("child_failed", [], "unknown")
    ),
    "a launcher names nothing": ([row("child_failed", exit_code=2)], ("child_failed", [], "unknown")),
}  # fmt: skip


def test_what_the_rows_prove() -> None:
    for name, (rows, expected) in FOUND.items():
        assert judged(*rows) == expected, name


IN_TIME: dict[str, tuple[list[int], dict[str, Any], list[int]]] = {
    "ranks without a time-out, of two nodes": ([0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14], {}, [3, 7, 11]),
    "more than a third are missing": ([0, 1, 2, 6], {}, []),
    "one may be missing of few": ([0, 1, 3], {}, [2]),
    "a rank that prints": ([0, 1, 2], {"ranks_seen": [3]}, [3]),
    "the world size": ([0, 1, 2], {"world_size": 4}, [3]),
    "a world size that few of the ranks fill": ([0, 1, 2], {"world_size": 5}, []),
    "every second rank": ([0, 2, 6, 8], {}, [4]),
    "of every second rank, others that print are of another group": ([0, 2, 4], {"ranks_seen": [1, 3, 5]}, []),
    "all have timed out": ([0, 1, 2, 3], {"world_size": 4}, []),
    "two of a job of three": ([1, 2], {"world_size": 3}, [0]),
    "one rank alone": ([1], {"world_size": 2}, []),
}


@pytest.mark.parametrize("name", IN_TIME)
def test_who_has_no_time_out_holds_the_others_up(name: str) -> None:
    ranks, options, absent = IN_TIME[name]
    expected = ("collective_timeout", absent, "likely" if absent else "unknown")
    assert judged(*map(timeout, ranks), **options) == expected


def test_a_rank_with_a_stuck_watchdog_cannot_report_a_time_out() -> None:
    assert judged(*map(timeout, (0, 1, 3))) == ("collective_timeout", [2], "likely")
    assert judged(*map(timeout, (0, 1, 3)), row("stuck_watchdog", 2)) == ("collective_timeout", [], "unknown")
    excerpt = numbered(row("stuck_watchdog", 2), *map(timeout, (0, 3, 4)), start=1)
    assert judge(excerpt).ranks == []
    assert judged(row("stuck_watchdog", 2)) == ("stuck_watchdog", [], "unknown")


@pytest.mark.parametrize(
    ("start", "options", "absent"),
    [(1, {}, []), (1, {"ranks_seen": [1]}, [1]), (1, {"world_size": 4}, [1]), (2, {}, [1])],
)
def test_in_an_excerpt_a_rank_that_prints_nothing_may_be_left_out(
    start: int, options: dict[str, Any], absent: list[int]
) -> None:
    assert judge(numbered(*map(timeout, (0, 2, 3)), start=start), **options).ranks == absent


@pytest.mark.parametrize(
    ("group", "absent"), [(None, [1]), ("0", [1]), ("0(default_pg)", [1]), ("default_pg", [1]), ("tp", []), ("10", [])]
)
def test_only_the_group_of_all_ranks_lacks_one(group: str | None, absent: list[int]) -> None:
    assert judged(*(timeout(rank, group=group) for rank in (0, 2, 3)))[1] == absent


LAST: dict[str, tuple[Sequence[tuple[int, str, int | None]], list[int]]] = {
    "one of three is behind": ([(0, "g", 9), (1, "g", 7), (2, "g", 9)], [1]),
    "one of two may be either": ([(0, "g", 9), (1, "g", 7)], []),
    "the least of two that are behind": ([(k, "g", 9) for k in range(4)] + [(4, "g", 8), (5, "g", 7)], [5]),
    "more than a third are behind": ([(k, "g", 9) for k in range(3)] + [(4, "g", 8), (5, "g", 7)], []),
    "the least that a rank has reported": ([(0, "g", 9), (1, "g", 7), (1, "g", 9), (2, "g", 9)], [1]),
    "no rank has enqueued any": ([(0, "g", 9), (1, "g", 0), (2, "g", 9)], [1]),
    "unknown is not behind": ([(0, "g", 9), (1, "g", -1), (2, "g", 9), (3, "g", None)], []),
    "the numbers of two groups differ": ([(0, "g", 9), (1, "g", 7), (2, "g", 9), (3, "h", 4)], []),
}


@pytest.mark.parametrize("column", ["last_enqueued", "last_completed"])
@pytest.mark.parametrize("name", LAST)
def test_who_has_fewer_collectives_than_the_others(name: str, column: str) -> None:
    given, lagging = LAST[name]
    # the log is an excerpt, so that nobody is accused because it has no time-out
    rows = numbered(*(timeout(rank, group=group, **{column: last}) for rank, group, last in given), start=1)
    found = judge(rows)
    assert (found.ranks, found.certainty) == (lagging, "likely" if lagging else "unknown")
    assert column.removeprefix("last_") in found.why or not lagging


@pytest.mark.parametrize(
    ("of_dumps", "lagging"),
    [
        ((12, 11, 12), [2]),  # it lacks collective 12
        ((14, 13, 12), []),  # all have enqueued it
        ((12, 11, 11), []),  # more than a third lack it
        ((12, None, 12), []),
    ],
)
def test_ranks_that_another_one_asks_for_a_dump(of_dumps: Sequence[int | None], lagging: list[int]) -> None:
    """Rank 0 has enqueued two more collectives than the one that has timed out."""
    first = timeout(0, group="0", seq=12, last_enqueued=14, last_completed=11)
    message = "Received a dump signal due to a collective timeout from rank 0"
    dumps = [
        timeout(rank, group="0", last_enqueued=last, last_completed=0, message=message)
        for rank, last in enumerate(of_dumps, 1)
    ]
    assert judge(numbered(first, *dumps, start=1)).ranks == lagging


def test_a_rank_that_waits_in_another_operation() -> None:
    def waiting(*given: tuple[int, str]) -> Judged:
        return judged(*(timeout(rank, seq=seq, op=op) for rank, (seq, op) in enumerate(given)))

    reduced = (7, "ALLREDUCE")
    assert waiting(reduced, reduced, (7, "BROADCAST"), reduced) == ("collective_timeout", [2], "one of")
    assert judged(*(timeout(k, seq=7, op=op) for k, op in enumerate([*"RRRBR", None])))[1] == [3]
    assert waiting(reduced, (7, "BROADCAST"), reduced)[1] == []  # three ranks are too few
    assert waiting(reduced, reduced, (8, "BROADCAST"), reduced)[1] == []  # another number is another collective
    assert waiting(reduced, reduced, (7, "BROADCAST"), (7, "BROADCAST"))[1] == []
    assert waiting(reduced, reduced, reduced, (7, "BROADCAST"), (7, "BARRIER"))[1] == []


def test_who_exits_by_itself_before_the_time_outs_of_others_is_the_first() -> None:
    exited = row("first_failed", 4, exit_code=1)
    assert judged(exited, timeout(0), timeout(1)) == ("first_failed", [4], "likely")
    for others in (
        [timeout(0), row("first_failed", 4, exit_code=1)],  # after a time-out
        [row("first_failed", 0, exit_code=1), timeout(0), timeout(1)],  # a time-out of its own
        [row("first_failed", 4, exit_code=-6), timeout(0), timeout(1)],  # a watchdog aborted it
        [row("remote_exit", 4), row("first_failed", 4, exit_code=1), timeout(0)],  # another process had gone before
    ):
        assert judged(*others)[1] != [4], others


def test_a_barrier_on_tensors_lacks_the_ranks_that_lack_every_tensor() -> None:
    lists = ("1, 3", "2, 3")
    rows = [timeout(0, message=f"op_{k} [missing ranks: {peer}]", peer=peer) for k, peer in enumerate(lists)]
    assert judged(*rows) == ("collective_timeout", [3], "sure")
    assert judged(*rows, timeout(0, message="monitoredBarrier", peer="5"))[1] == [3, 5]


def test_a_watchdog_that_stops_for_any_error_counts_only_without_an_echo() -> None:
    stopped = [timeout(rank, message="detected by watchdog at work") for rank in (0, 1)]
    echoes = [row("remote_exit", rank) for rank in (0, 1, 3)]
    assert judged(*stopped, *echoes) == ("silent_end", [2], "likely")
    assert judged(*stopped)[0] == "collective_timeout"
    assert judged(timeout(0), stopped[1], *echoes)[0] == "collective_timeout"


def test_a_link_is_named_by_both_ends() -> None:
    assert judge(numbered(row("link_error", 2, node="n1", peer="n4"))).link == "rank 2 - n4"
    assert judge(numbered(row("link_error", node="n1", peer="n4"), row("link_error", node="n1", peer="n4"))).link == (
        "n1 - n4"
    )
    assert (
        judge(numbered(row("link_error", node="n1", peer="n4"), row("link_error", node="n4", peer="n1"))).link is None
    )


@pytest.mark.parametrize(("code", "signal"), [(-11, 11), (139, 11), (-9, 9), (137, 9), (-7, 7), (-4, 4), (136, 8)])
def test_the_signal_of_an_exit_code(code: int, signal: int) -> None:
    assert judge(numbered(row("child_failed", 2, exit_code=code))).why == f"signal {signal} ended it"


@pytest.mark.parametrize(
    ("peers", "why"),
    [
        (["0-2,4"], "a task failed; srun ended tasks 0-2,4, and only task 3 is not among them"),
        (["0-1", "3"], "a task failed; srun ended tasks 0-1, 3, and only task 2 is not among them"),
        (["0-2"], "a task failed; srun ended tasks 0-2"),
        (["0,3"], "a task failed; srun ended tasks 0,3"),
        ([], "the log gives no reason"),
    ],
)
def test_which_task_srun_did_not_end(peers: list[str], why: str) -> None:
    failed = row("task_exit", message="STEP 1.0 CANCELLED DUE TO TASK FAILURE")
    found = judge(numbered(failed, *(row("task_exit", exit_code=-15, peer=peer) for peer in peers)))
    assert (found.kind, found.first, found.certainty, found.why) == ("task_exit", [failed], "unknown", why)


def test_the_rows_of_a_judgement_are_those_of_what_came_first() -> None:
    rows = numbered(
        row("disk_full", 1), row("gpu_error", 2), row("exception", 1), row("disk_full", 1), row("remote_exit", 0)
    )
    found = judge(rows)
    assert (found.kind, found.ranks) == ("disk_full", [1])
    assert [each is row for each, row in zip(found.first, (rows[0], rows[3]), strict=True)] == [True, True]
    assert roles_of(rows, found) == ["first", "echo", "echo", "first", "echo"]


def test_a_row_has_no_role_where_nobody_is_accused_for_sure() -> None:
    rows = numbered(row("disk_full", 1), row("disk_full", 2), row("remote_exit", 0))
    assert roles_of(rows, judge(rows)) == ["unknown"] * 3
    assert roles_of(rows[:1], Judgement()) == ["unknown"]


def test_who_reports_that_another_rank_is_absent_is_an_echo() -> None:
    rows = numbered(*map(timeout, (0, 1, 3)))
    found = judge(rows)
    assert (found.ranks, roles_of(rows, found)) == ([2], ["echo"] * 3)

    named = row("collective_timeout", message="monitoredBarrier", peer="3")
    assert roles_of([named], judge(numbered(named))) == ["echo"]


def test_a_process_is_the_only_one_where_the_log_names_it() -> None:
    assert judge(numbered(row("disk_full", 1))).why == "it is the only process that reports a cause"
    assert judge(numbered(row("disk_full", local_rank=1))).why == "it is the only process that reports a cause"
    assert judge(numbered(row("disk_full"))).why == "it is the only cause in the log"


@pytest.mark.parametrize("code", [-6, -9, -15, 134, 137, 143])
def test_a_task_that_a_watchdog_or_a_launcher_ended_did_not_exit_by_itself(code: int) -> None:
    """Nor did one that ended well."""
    ended = [row("remote_exit", 0), row("task_exit", 0, exit_code=code), row("task_exit", 3, exit_code=1)]
    assert judged(*ended) == ("task_exit", [3], "likely")
    assert judged(*ended, row("task_exit", 4, exit_code=0)) == ("task_exit", [3], "likely")
    assert judged(*ended, row("task_exit", 4, exit_code=2)) == ("remote_exit", [], "unknown")
