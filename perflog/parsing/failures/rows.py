"""The rows of table `failures`, and the rank of each.

A rank on a node is the rank where the job has one node. A task of srun is a rank if each task is a process of the job:
not if srun starts a launcher, such as torchrun, on each node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import astuple

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.failures.failure import Failure
from perflog.parsing.failures.kinds import NOTICE, REPORT, SUMMARIES, kinds
from perflog.parsing.failures.origins import tasks_of
from perflog.tables.row_order import PART_MASK
from perflog.tables.sink import table_from_columns

if TYPE_CHECKING:
    import pyarrow as pa

FATAL, ERROR = "fatal", "error"
"""Severities: a message that ends a process; an exception that may have been caught. A notice ends nothing."""

UNKNOWN = "unknown"
_ON_A_NODE = 8  # a world size beyond it is not of one node
_OF_LAUNCHERS = frozenset((*SUMMARIES, "child_failed"))
_SIGNALS = {
    "Killed": -9, "Terminated": -15, "Aborted": -6, "Segmentation fault": -11, "Bus error": -7,
    "Illegal instruction": -4, "Floating point exception": -8, "SIGKILL": -9, "SIGTERM": -15, "SIGABRT": -6,
    "SIGSEGV": -11, "SIGBUS": -7, "SIGILL": -4, "SIGFPE": -8,
}  # fmt: skip
_MOST = 10**7  # ranks of a job
_RANK_IN_NAME = lazy_pattern(r"(?<![a-z])rank[-_. =]?(\d{1,7})(?!\d)", re.IGNORECASE)
_NO_NODE = lazy_pattern(r"^(?:0\.0\.0\.0|127(?:\.\d+){3}|localhost|::1?|)$")
_WORD_BEFORE = lazy_pattern(r"(?:tp|pp|dp|cp|ep|local|node)[-_. ]?$", re.IGNORECASE)


class FailureRow(Struct):
    """A row of table `failures`; see the schema."""

    run: str
    line: int
    part: int
    time_ns: int | None
    clock: str | None
    rank: int | None
    rank_by: str | None
    local_rank: int | None
    task: int | None
    node: str | None
    gpu: int | None
    device: str | None
    kind: str
    severity: str
    role: str
    message: str
    last_line: int
    count: int
    section: int | None
    group: str | None
    op: str | None
    seq: int | None
    last_enqueued: int | None
    last_completed: int | None
    waited_s: float | None
    exit_code: int | None
    peer: str | None


def rows_of(
    failures: Sequence[Failure], run: str, world_size: int | None, file: str, has_launcher: bool
) -> list[FailureRow]:
    """Return the failures of a run as rows. `has_launcher`: whether the log shows that tasks start launchers."""
    rows = [_row(failure, run) for failure in failures]
    _fill_ranks(rows, world_size, file, has_launcher)
    return rows


def failures_table(rows: Sequence[FailureRow]) -> pa.Table:
    """Return rows as table `failures`."""
    return table_from_columns("failures", list(zip(*map(astuple, rows), strict=True)))


def _row(failure: Failure, run: str) -> FailureRow:
    values, origin = failure.values, failure.origin
    # a driver of Ray reports what ended it: an exception in one of its processes may have been caught
    is_fatal = failure.traced and not (failure.kind.plain and origin.process is not None)
    severity = NOTICE if failure.kind.role == NOTICE else FATAL if is_fatal else ERROR
    tasks = tasks_of(values.get("tasks", ""))
    task = tasks[0] if len(tasks) == 1 else None if tasks else origin.task
    exit_code = _SIGNALS.get(values.get("signal_name", ""), _number(values, "exit_code"))
    if "signal" in values and failure.kind.role == REPORT:
        exit_code = None if (signal := _number(values, "signal")) is None else -signal
    rank = _index(values, "rank")
    return FailureRow(
        run=run,
        line=failure.line,
        part=failure.position & PART_MASK,
        time_ns=failure.time,
        clock=failure.clock,
        rank=origin.rank if rank is None else rank,
        rank_by=origin.rank_by if rank is None else "printed",
        local_rank=_index(values, "local_rank") if origin.local_rank is None else origin.local_rank,
        task=task,
        node=None if _NO_NODE.match(node := values.get("node") or origin.node or "") else node,
        gpu=_index(values, "gpu") if "gpu" in values else origin.gpu,
        device=values.get("address"),
        kind=failure.kind.name,
        severity=severity,
        role=UNKNOWN,
        message=failure.message,
        last_line=failure.last_line,
        count=failure.count,
        section=failure.section,
        group=values.get("group"),
        op=values.get("op"),
        seq=_number(values, "seq"),
        last_enqueued=_number(values, "last_enqueued"),
        last_completed=_number(values, "last_completed"),
        waited_s=_waited(values),
        exit_code=exit_code,
        peer=values.get("absent") or values.get("peer_address") or values.get("tasks"),
    )


def _fill_ranks(rows: Sequence[FailureRow], world_size: int | None, file: str, has_launcher: bool) -> None:
    """Fill in the ranks that local ranks, tasks and the name of the file prove."""
    is_launched = has_launcher or any(row.kind in _OF_LAUNCHERS for row in rows)
    tasks = {row.task for row in rows if row.task is not None}
    on_gpus = [(row.task, row.gpu) for row in rows if row.task is not None and row.gpu is not None]
    tasks_are_ranks = bool(tasks) and all(gpu <= task for task, gpu in on_gpus)
    if world_size is None:
        tasks_are_ranks &= tasks != {0}  # the task may be a script that starts all processes
    else:
        tasks_are_ranks &= bool(tasks) and max(tasks) < world_size
        is_launched &= not (tasks and 2 * (max(tasks) + 1) > world_size)
    one_node = world_size <= _ON_A_NODE if world_size is not None else len({row.node for row in rows} - {None}) < 2
    in_name = rank_in_name(file)
    if in_name is not None and world_size is not None and in_name >= world_size:
        in_name = None  # the rank of an adapter
    for row in rows:
        if row.rank is not None:
            continue
        if row.local_rank is not None and one_node and row.task is None and row.kind != "child_failed":
            row.rank, row.rank_by = row.local_rank, "label"
        elif row.task is not None and row.local_rank is None and tasks_are_ranks and not is_launched:
            row.rank, row.rank_by = row.task, "task"
        elif in_name is not None and kinds()[row.kind].role != REPORT:
            row.rank, row.rank_by = in_name, "file"


def rank_in_name(file: str) -> int | None:
    """Return the rank that the name of a file states, after the word `rank`."""
    match = _RANK_IN_NAME.search(file)
    return None if match is None or _WORD_BEFORE.search(file[: match.start()]) else int(match[1])


def _waited(values: Mapping[str, str]) -> float | None:
    """Return how long a process had waited, in seconds."""
    seconds, milliseconds = _number(values, "waited_s"), _number(values, "waited_ms")
    return milliseconds / 1e3 if milliseconds is not None else seconds


def _index(values: Mapping[str, Any], name: str) -> int | None:
    """Return the number of a rank or a device; None if no job has so many."""
    number = _number(values, name)
    return None if number is None or abs(number) >= _MOST else number


def _number(values: Mapping[str, Any], name: str) -> int | None:
    text = values.get(name)
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,18}", text) else None
