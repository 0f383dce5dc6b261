"""Which of the failures of a job came first, and which followed from it.

The evidence, in this order: what a message says of itself (an echo names another process), who waits for whom, what
torchrun and srun saw, and the order of lines. Where this evidence decides nothing, several processes may be the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from math import gcd

from msgspec import Struct, field

from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.failures.kinds import CAUSE, ECHO, EITHER, NOTICE, REPORT, SUMMARIES, TRACEBACK, is_plain, kinds
from perflog.parsing.failures.origins import tasks_of
from perflog.parsing.failures.rows import FATAL, FailureRow

SURE, LIKELY, ONE_OF, NOT_KNOWN = "sure", "likely", "one of", "unknown"
"""How sure it is which process was the first."""

SILENT = "silent_end"
"""Kind of a failure without a message: a process ended, and only the other processes report it."""

_OUTSIDE = ("time_limit", "preemption", "node_failure")
_DEVICES = ("gpu_fault",)
_ON_GPU = ("gpu_error", "xid_application", "device_assert", "gpu_fault")
_EITHER = (
    "xid_application", "collective_mismatch", "lost_process", "port_error", "link_error", "collective_timeout",
    "stuck_watchdog", "nccl_error", "rendezvous_timeout", "no_progress", "killed", "actor_died", "abort", "terminated",
)  # fmt: skip
_OF_SIGNALS = {9: "killed", 11: "segmentation_fault", 7: "crash", 4: "crash", 8: "crash"}
_SIGNALS = {code: kind for signal, kind in _OF_SIGNALS.items() for code in (-signal, 128 + signal)}
"""By exit code, as Python and as a shell report the signal that ended a process."""

_SIGABRT, _SIGTERM = -6, -15
_TASK_FAILURE = "DUE TO TASK FAILURE"
_OF_SRUN = ("task_exit", "terminated")
_BY_OTHERS = (_SIGABRT, _SIGTERM, -9, 134, 137, 143)
"""Exit codes of processes that a watchdog or a launcher ends; above 128 as a shell reports them."""

_OF_OTHERS = {"lost_process": "another process reports that it no longer answers"}
"""Why a rank is named, for kinds that another process than the failed one prints."""

_NO_FIRST = "its message names no first process"
_WITHOUT_PROCESS = ("terminated", "rendezvous_timeout", "no_progress", "nccl_error", "stuck_watchdog")

_EITHER_OF_BOTH = "detected by watchdog at work"
"""What a watchdog prints of a time-out, and of an error too."""

_DUMP_SIGNAL = "Received a dump signal"
_DEFAULT_GROUP = lazy_pattern(r"^0?(?:\(?default_pg\)?)?$|default_pg")
_ON_A_NODE, _WITNESSES = 8, 3  # ranks of a node; ranks that report the same
_NEAR = 50  # lines after a failure in which the same process reports more of it
_NUMBER = lazy_pattern(r"\d+")
_BARRIER = lazy_pattern(r"monitoredBarrier|Barrier timed out")
_OF_A_TENSOR = lazy_pattern(r"\[missing ranks: |\nMissing ranks: ")


class Judgement(Struct):
    """What came first.

    Attributes:
        kind: Its kind; None if there is no failure.
        first: The rows that report it.
        ranks: The ranks that are accused: of `first`, or those that are absent among the others.
        certainty: How sure that is.
        why: The evidence, in words.
        link: The connection that is accused, by the names of both ends.
    """

    kind: str | None = None
    first: list[FailureRow] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    certainty: str = NOT_KNOWN
    why: str = ""
    link: str | None = None


def judge(rows: Sequence[FailureRow], ranks_seen: Collection[int] = (), world_size: int | None = None) -> Judgement:
    """Return what came first among the failures of one attempt of a job.

    Args:
        rows: The failures, in the order of the log.
        ranks_seen: The ranks that print in the log.
        world_size: Number of ranks of the job.
    """
    rows = [row for row in rows if row.severity != NOTICE]
    ranks_seen = {*ranks_seen, *(row.rank for row in rows if row.rank is not None)}
    steps: tuple[Callable[[], Judgement | None], ...] = (
        lambda: _from_outside(rows),
        lambda: _of_devices(rows),
        lambda: _of_causes(rows),
        lambda: _of_signals(rows),
        lambda: _of_exits(rows),
        lambda: _before_timeouts(rows),
        lambda: _of_either(rows, ranks_seen, world_size),
        lambda: _of_echoes(rows, ranks_seen, world_size),
        lambda: _of_reports(rows),
    )
    return next((judged for step in steps if (judged := step()) is not None), Judgement())


def roles_of(rows: Iterable[FailureRow], judged: Judgement) -> list[str]:
    """Return the role of each failure, given which failure came first."""
    ranks, first = set(judged.ranks), {id(row) for row in judged.first}
    is_absent = bool(ranks) and not {row.rank for row in judged.first} & ranks
    is_known = judged.kind is not None and judged.certainty in (SURE, LIKELY)

    def is_first(row: FailureRow) -> bool:
        return id(row) in first and not is_absent and (not ranks or row.rank is None or row.rank in ranks)

    return [("first" if is_first(row) else "echo") if is_known else "unknown" for row in rows]


def _from_outside(rows: Sequence[FailureRow]) -> Judgement | None:
    """A scheduler ended the job, and nothing had failed before."""
    outside = [row for row in rows if row.kind in _OUTSIDE]
    if not outside:
        return None
    first = outside[0]
    before = rows[: next(i for i, row in enumerate(rows) if row is first)]
    before = [row for row in before if row.severity == FATAL or not is_plain(row.kind)]  # the job went on after it
    if any(kinds()[row.kind].role != REPORT and row.kind != "terminated" and not _later(row, first) for row in before):
        return None
    return Judgement(first.kind, [row for row in outside if row.kind == first.kind], [], SURE, "the scheduler says so")


def _of_devices(rows: Sequence[FailureRow]) -> Judgement | None:
    """A device failed: the rank on it is the one with a GPU error in its own output."""
    faults = [row for row in rows if row.kind in _DEVICES]
    if not faults:
        return None
    ranks = sorted({row.rank for row in faults if row.rank is not None})
    devices = {(row.node, row.device) for row in faults if row.device is not None}
    if ranks:
        sure = SURE if len(ranks) == 1 else ONE_OF
        return Judgement("gpu_fault", faults, ranks, sure, "the GPU of the rank failed")
    on_gpu = [row for row in rows if row.kind in _ON_GPU and row.rank is not None]
    ranks = sorted({row.rank for row in on_gpu if row.rank is not None})
    if len(devices) <= 1 and len(ranks) == 1:
        why = f"the log reports a GPU fault, and only rank {ranks[0]} a CUDA error"
        return Judgement("gpu_fault", [*faults, *on_gpu], ranks, LIKELY, why)
    return Judgement("gpu_fault", faults, [], SURE if len(devices) <= 1 else ONE_OF, "the log reports a GPU fault")


def _of_causes(rows: Sequence[FailureRow]) -> Judgement | None:
    """Processes report what went wrong with them."""
    causes = [row for row in rows if kinds()[row.kind].role == CAUSE and row.kind not in (*_OUTSIDE, *_DEVICES)]
    causes = [row for row in causes if not _of_a_collective(row)]
    if not _is_interrupt(causes):
        causes = [row for row in causes if row.kind != "interrupted"] or [
            row for row in causes if not any(other.kind == "collective_timeout" for other in rows)
        ]
    if len(rows) > 1:  # the processes of a launcher report more than its torn traceback
        others = [row for row in rows if not row.message.startswith(TRACEBACK)]
        causes = [row for row in causes if not row.message.startswith(TRACEBACK) or _is_own(row, others)]
    if not causes:
        return None
    causes = causes[:1] if _is_interrupt(causes) else _not_outlived(causes, rows)
    by_process = grouped((process_of(row), row) for row in causes)
    _join_unnamed(by_process)
    firsts = {process: _most_exact(failures) for process, failures in by_process.items()}
    if len(firsts) == 1:
        ((_, row),) = firsts.items()
        if row.message == TRACEBACK:
            return _of_one(row, causes, LIKELY, "its traceback is cut off")
        return _by_summary(row, rows) or _of_one(row, causes, *_of_the_only(row, rows))
    seen_first = [row for row in rows if row.kind == "first_failed" and row.rank is not None]
    for report in seen_first:
        named = [row for row in firsts.values() if row.rank == report.rank]
        if named and len({each.rank for each in seen_first}) == 1:
            return _of_one(named[0], causes, LIKELY, f"torchrun saw rank {report.rank} fail first")
    return _of_several(list(firsts.values()), causes)


def _is_interrupt(causes: Sequence[FailureRow]) -> bool:
    """Return whether a user interrupted a program, and all other causes are exceptions raised while it ended."""
    return len(causes) > 1 and causes[0].kind == "interrupted" and all(
        is_plain(row.kind) and not _is_named(row) and row.line - causes[0].last_line < _NEAR for row in causes[1:]
    )  # fmt: skip


def _not_outlived(causes: Sequence[FailureRow], rows: Sequence[FailureRow]) -> list[FailureRow]:
    """Leave out what a program caught: it still ran when its host was out of memory, and no launcher saw it end before.

    A program goes on after an exception, or when its device was out of memory.
    """
    last = causes[-1]
    before = [row for row in rows if row.last_line < last.line]
    if (
        last.kind == "host_out_of_memory"
        and all(is_plain(row.kind) or row.kind in ("gpu_out_of_memory", last.kind) for row in causes)
        and not any(_is_named(row) for row in causes)
        and not any(kinds()[row.kind].role == REPORT for row in before)
    ):
        return [row for row in causes if row.kind == last.kind]
    return list(causes)


def _of_the_only(row: FailureRow, rows: Sequence[FailureRow]) -> tuple[str, str]:
    """Return how sure the only cause is, and why: in an excerpt, what came before it may be lost.

    A plain exception may be what a failure before it led to, in its own process too; or the program caught it.
    """
    says = _says(row)
    if rows[0].line == 1:
        return LIKELY, f"{says}, and the log begins with failures: what was before is not in it"
    is_exception = is_plain(row.kind)
    for other in rows:
        follows = kinds()[other.kind].role in (ECHO, EITHER) and not _by_launcher(other)
        before = other.last_line < row.line and _log(other) == _log(row) and not _later(other, row)
        if follows and before and (is_exception or process_of(other) != process_of(row)):
            return LIKELY, f"{says}; another one reported before that it lost a process, or waited for one"
    if is_exception and any(each.kind == row.kind and each.message != row.message for each in rows if each is not row):
        return LIKELY, f"{says} first; other exceptions follow, which may be of another start"
    return SURE, says


def _by_summary(row: FailureRow, rows: Sequence[FailureRow]) -> Judgement | None:
    """Torchrun names the process that failed first; the only exception in the log has no rank."""
    ended = [each for each in rows if each.kind in SUMMARIES and each.rank is not None]
    first = [each for each in ended if each.kind == "first_failed"]
    echoes = [each for each in rows if kinds()[each.kind].role in (ECHO, EITHER) and not _by_launcher(each)]
    if _is_named(row) or len(first) != 1 or echoes or (first[0].exit_code or 0) <= 0:
        return None
    if len(ended) == 1:
        why = f"torchrun saw rank {first[0].rank} fail, and no other"
        return Judgement(row.kind, [row, *first], [first[0].rank or 0], LIKELY, why)
    ranks = sorted({each.rank for each in ended if each.rank is not None})
    return Judgement(row.kind, [row, *ended], ranks, ONE_OF, f"torchrun saw {len(ranks)} processes fail")


def _is_own(row: FailureRow, others: Sequence[FailureRow]) -> bool:
    """Return whether a torn traceback comes from a known process, not from a launcher that reports more in its line.

    After the echo of another process, it may be one more echo.
    """
    echoes = [each for each in others if kinds()[each.kind].role == ECHO and not _by_launcher(each)]
    is_after_echo = any(each.last_line < row.line and process_of(each) != process_of(row) for each in echoes)
    return row.rank is not None and not is_after_echo and all(each.line != row.line for each in others)


def _of_several(ordered: Sequence[FailureRow], causes: Sequence[FailureRow]) -> Judgement:
    """Several processes report a cause: the earliest by clocks, else the first message if the others differ from it."""
    earliest = _earliest(ordered)
    alike = {(row.kind, _NUMBER.sub("#", row.message) if is_plain(row.kind) else "") for row in ordered}
    if len(alike) == 1:
        if earliest is not None:
            return _of_one(earliest, causes, LIKELY, "it is the earliest of several equal reports")
        ranks = sorted({row.rank for row in ordered if row.rank is not None})
        return Judgement(ordered[0].kind, list(ordered), ranks, ONE_OF, f"{len(ordered)} processes report the same")
    specific = [row for row in ordered if not is_plain(row.kind)]
    if earliest is None and len(specific) == 1:
        earliest = specific[0] if specific[0] is ordered[0] else None
    if earliest is not None:
        return _of_one(earliest, causes, LIKELY, "it is the earliest")
    if len(set(map(_log, ordered))) == 1 and ordered[1].line > ordered[0].last_line:
        later = [row for row in ordered if row.kind == ordered[0].kind and row.message == ordered[0].message]
        if len(later) == 1:
            return _of_one(ordered[0], causes, LIKELY, "its message is the first in the log")
    ranks = sorted({row.rank for row in ordered if row.rank is not None})
    why = f"{len(ordered)} processes fail, and no clock shows which was first"
    return Judgement(ordered[0].kind, list(ordered), ranks, ONE_OF, why)


def _of_signals(rows: Sequence[FailureRow]) -> Judgement | None:
    """A launcher saw processes end by a signal that no watchdog sends."""
    ended = [row for row in rows if kinds()[row.kind].role == REPORT and row.exit_code in _SIGNALS]
    ended = [row for row in ended if row.kind != "task_exit" or row.task is not None]  # not all tasks of a node
    if any(row.kind == "first_failed" and row not in ended for row in rows):
        ended = [row for row in ended if row.kind != "later_failed" or row.exit_code not in _BY_OTHERS]
    first = [row for row in ended if row.kind == "first_failed"] or ended
    first = [row for row in first if row.exit_code not in _BY_OTHERS] or first
    if not first or (first[0].exit_code in _BY_OTHERS and _exited_before(first[0], rows)):
        return None
    row = first[0]
    kind = _SIGNALS[row.exit_code or 0]
    if len({process_of(row) for row in first}) > 1:
        if row.exit_code in _BY_OTHERS or len({row.exit_code for row in first}) > 1:
            return None
        ranks = sorted({row.rank for row in first if row.rank is not None})
        return Judgement(kind, first, ranks, ONE_OF, f"{_signal(row)} ended {len(first)} processes")
    named = [each for each in rows if each.kind == kind and kinds()[kind].role != REPORT]
    ranks = [row.rank] if row.rank is not None else []
    return Judgement(kind, [row, *named], ranks, LIKELY, f"{_signal(row)} ended it")


def _exited_before(row: FailureRow, rows: Sequence[FailureRow]) -> bool:
    """Return whether another process had exited by itself before: its launcher may have sent the signal."""
    if row.kind == "first_failed":
        return False
    own = [each for each in rows if (each.exit_code or 0) > 0 and each.exit_code not in (*_BY_OTHERS, *_SIGNALS)]
    return any(each.line < row.line and _log(each) == _log(row) for each in own)


def _signal(row: FailureRow) -> str:
    """Return which signal ended a process."""
    code = row.exit_code or 0
    return f"signal {code - 128 if code > 128 else -code}"


def _of_exits(rows: Sequence[FailureRow]) -> Judgement | None:
    """One task exited by itself, and another was aborted when it was gone: only the aborted one reports it.

    If srun alone reports, the task that exited by itself was the first if srun ended the others afterwards.
    """
    tasks = [row for row in rows if row.kind == "task_exit" and row.task is not None and row.exit_code is not None]
    own = [row for row in tasks if (row.exit_code or 0) > 0 and row.exit_code not in _BY_OTHERS]
    if len(own) == 1 < len(rows) and own[0] is rows[0] and all(row.kind in _OF_SRUN for row in rows):
        ranks = [own[0].rank] if own[0].rank is not None else []
        return Judgement("task_exit", own, ranks, LIKELY, "it exited by itself, and srun ended the others after it")
    failed = [row for row in rows if row.kind == "task_exit" and _TASK_FAILURE in row.message]
    if failed and not own and all(row.kind in _OF_SRUN for row in rows):
        return Judgement("task_exit", failed, [], NOT_KNOWN, _why_task_failed(rows))
    echoes = [row for row in rows if kinds()[row.kind].role == ECHO and not _by_launcher(row)]
    exits = [row for row in rows if row.kind == "task_exit" and row.rank is not None and row.exit_code is not None]
    own = [row for row in exits if (row.exit_code or 0) > 0 and row.exit_code not in _BY_OTHERS]
    printed = {row.rank for row in echoes}
    aborted = [row for row in exits if row.exit_code in _BY_OTHERS and row.rank in printed]
    if not aborted or len(own) != 1 or own[0].rank in printed or any(row.kind == "collective_timeout" for row in rows):
        return None
    why = "it exited by itself; the others report that a process went away, and were aborted"
    return Judgement("task_exit", own, [own[0].rank or 0], LIKELY, why)


def _before_timeouts(rows: Sequence[FailureRow]) -> Judgement | None:
    """Torchrun saw one process exit by itself, and collectives of other ranks timed out only after that."""
    waits = [row for row in rows if row.kind == "collective_timeout"]
    first = [row for row in rows if row.kind == "first_failed"]
    if not waits or len(first) != 1 or first[0].rank is None or (first[0].exit_code or 0) <= 0:
        return None
    exited, others = first[0], [row for row in rows if row is not first[0]]
    is_silent = all(row.rank != exited.rank for row in others) and exited.exit_code not in (*_BY_OTHERS, *_SIGNALS)
    if not is_silent or any(row.line < exited.line or _log(row) != _log(exited) for row in waits):
        return None
    why = "it exited by itself before collectives of the others timed out"
    return Judgement("first_failed", first, [exited.rank or 0], LIKELY, why)


def _why_task_failed(rows: Sequence[FailureRow]) -> str:
    """Say what srun reports of the tasks that it ended after one had failed."""
    ended = [row.peer for row in rows if row.kind == "task_exit" and row.exit_code == _SIGTERM and row.peer]
    tasks = {task for text in ended for task in tasks_of(text)}
    left = set(range(max(tasks, default=0) + 1)) - tasks
    only = f", and only task {left.pop()} is not among them" if tasks and len(left) == 1 else ""
    return f"a task failed; srun ended tasks {', '.join(ended)}{only}" if ended else "the log gives no reason"


def _of_either(rows: Sequence[FailureRow], seen: Collection[int], world_size: int | None) -> Judgement | None:
    """No message states a cause. What may be a cause is judged by who waits for whom."""
    for kind in _EITHER:
        failures = [row for row in rows if row.kind == kind or (kind == "nccl_error" and _of_a_collective(row))]
        if not failures:
            continue
        if kind == "collective_timeout":
            if (
                all(_EITHER_OF_BOTH in row.message for row in failures)
                and _of_echoes(rows, seen, world_size) is not None
            ):
                continue
            stuck = [row for row in rows if row.kind == "stuck_watchdog"]
            return _of_timeouts(failures, stuck, seen, world_size)
        if kind == "rendezvous_timeout" and (absent := _named_absent(failures)):
            return Judgement(kind, failures, absent, SURE, "the message names the ranks that did not come")
        processes = {process_of(row) for row in failures}
        ranks = sorted({row.rank for row in failures if row.rank is not None})
        if kind == "link_error":
            return _of_links(failures)
        if kind in _WITHOUT_PROCESS or len(processes) > 1:
            silent = _of_echoes(rows, seen, world_size) if kind == "nccl_error" else None
            if silent is not None and silent.ranks:
                return silent
            why = (
                "a collective failed, which another process may have caused"
                if _of_a_collective(failures[0])
                else _NO_FIRST
            )
            return Judgement(failures[0].kind, failures, [], NOT_KNOWN, why)
        return Judgement(kind, failures, ranks, LIKELY, _OF_OTHERS.get(kind) or _says(failures[0]))
    return None


def _of_links(failures: Sequence[FailureRow]) -> Judgement:
    """A connection failed: it is named if both its ends are; an end is not accused because it reports the failure."""
    links = {f"{_rank_or_node(row)} - {row.peer}" for row in failures if row.peer is not None and _rank_or_node(row)}
    why = "either of its ends may have failed, or what is between them"
    if len(links) == 1 and len({process_of(row) for row in failures}) == 1:
        return Judgement(failures[0].kind, list(failures), [], ONE_OF, why, links.pop())
    return Judgement(failures[0].kind, list(failures), [], NOT_KNOWN, f"of each connection, {why}")


def _rank_or_node(row: FailureRow) -> str:
    return f"rank {row.rank}" if row.rank is not None else row.node or ""


def _of_timeouts(
    failures: Sequence[FailureRow], stuck: Sequence[FailureRow], seen: Collection[int], world_size: int | None
) -> Judgement:
    """Collectives timed out: the ranks that lack them hold the others up.

    `stuck`: watchdogs that made no progress. Their ranks cannot report a time-out.
    """
    kind = "collective_timeout"
    if absent := _named_absent(failures):
        return Judgement(kind, list(failures), absent, SURE, "the message names the ranks that did not come")
    for column, what in (("last_enqueued", "enqueued"), ("last_completed", "completed")):
        lagging = _lagging(failures, column)
        if lagging:
            return Judgement(kind, list(failures), lagging, LIKELY, f"it {what} fewer collectives than the others")
    printed = {row.rank for row in (*failures, *stuck) if row.rank is not None}
    is_excerpt = min(row.line for row in (*failures, *stuck)) == 1
    whole_job = all(row.group is None or _DEFAULT_GROUP.search(row.group) for row in failures)
    absent = _absent(printed, seen, world_size, is_excerpt) if whole_job else []
    if absent:
        first, last = min(printed | set(absent)), max(printed | set(absent))
        why = f"the only {'rank' if len(absent) == 1 else 'ranks'} of {first} to {last} without a time-out"
        return Judgement(kind, list(failures), absent, LIKELY, why)
    odd = _odd_operation(failures)
    if odd:
        return Judgement(kind, list(failures), odd, ONE_OF, "it waits in another operation than the others")
    return Judgement(kind, list(failures), [], NOT_KNOWN, "the time-outs do not show which rank is missing")


def _named_absent(failures: Sequence[FailureRow]) -> list[int]:
    """Return the ranks that a barrier names as absent. For a barrier on tensors: the ranks that lack every tensor."""
    lists = [row.peer or "" for row in failures if _BARRIER.search(row.message)]
    absent_by_tensor = [set(_NUMBER.findall(row.peer or "")) for row in failures if _OF_A_TENSOR.search(row.message)]
    named = [*map(_NUMBER.findall, lists), set.intersection(*absent_by_tensor) if absent_by_tensor else ()]
    return sorted({int(rank) for ranks in named for rank in ranks})


def _lagging(failures: Sequence[FailureRow], column: str) -> list[int]:
    """Return the ranks with the least number, if at most a third of their group is below the greatest.

    A rank that another one asks for a dump prints its numbers later. They prove only that it lacks the collective
    that has timed out, if it has enqueued fewer.
    """
    by_group: dict[str | None, dict[int, int]] = {}
    asked = {row.group for row in failures if _DUMP_SIGNAL in row.message and row.last_enqueued is not None}
    timed_out: dict[str | None, int] = {}
    for row in failures:
        if row.seq is not None and row.last_enqueued is not None and row.group in asked:
            timed_out[row.group] = max(row.seq, timed_out.get(row.group, row.seq))
    for row in failures:
        number = getattr(row, column)
        if _DUMP_SIGNAL in row.message and (column != "last_enqueued" or row.group not in timed_out):
            continue
        if row.rank is not None and number is not None and number >= 0:
            number = min(number, timed_out.get(row.group, number))
            numbers = by_group.setdefault(row.group, {})
            numbers[row.rank] = min(number, numbers.get(row.rank, number))
    found: set[int] = set()
    for numbers in by_group.values():
        most = max(numbers.values())
        lagging = {rank for rank, number in numbers.items() if number < most}
        if lagging and 3 * len(lagging) <= len(numbers):
            least = min(numbers[rank] for rank in lagging)
            found |= {rank for rank in lagging if numbers[rank] == least}
    return sorted(found) if len(by_group) == 1 else []


def _absent(printed: Collection[int], seen: Collection[int], world_size: int | None, is_excerpt: bool) -> list[int]:
    """Return the few ranks that are missing among those that print the same; [] if they are not few.

    In an excerpt, a log that begins with failures, a rank that prints nothing at all may have been left out.
    """
    ranks = sorted(printed)
    if len(ranks) < 2:
        return []
    stride = gcd(*(b - a for a, b in pairwise(ranks)))
    expected = set(range(ranks[0], ranks[-1] + 1, stride))
    if stride == 1:
        expected |= set(seen)
        if world_size is not None and world_size <= len(ranks) + max(1, len(ranks) // 3):
            expected |= set(range(world_size))
    absent = sorted(expected - set(ranks))
    is_whole = world_size is not None and len(expected) == world_size
    if not is_whole and (min(expected) % _ON_A_NODE or len(ranks) < _WITNESSES):
        return []  # a log that is cut, or that has only some ranks, is no evidence that a rank is missing
    if is_excerpt and not is_whole and not set(absent) <= set(seen):
        return []
    return absent if 3 * len(absent) <= len(ranks) or len(absent) == 1 else []


def _odd_operation(failures: Sequence[FailureRow]) -> list[int]:
    """Return the rank that waits in another operation under the number under which all others wait."""
    ops = {row.rank: (row.seq, row.op) for row in failures if row.rank is not None and row.op is not None}
    counts = Counter(ops.values())
    if len(ops) < 4 or len(counts) != 2 or len({seq for seq, _ in counts}) != 1:
        return []
    rare, number = counts.most_common()[-1]
    return [rank for rank, op in ops.items() if op == rare and rank is not None] if number == 1 else []


def _of_echoes(rows: Sequence[FailureRow], seen: Collection[int], world_size: int | None) -> Judgement | None:
    """Only echoes of another process are left: the rank that prints nothing is the one that went away."""
    echoes = [
        row for row in rows if kinds()[row.kind].role == ECHO or row.kind == "nccl_error" or _of_a_collective(row)
    ]
    if not echoes or (all(map(_by_launcher, echoes)) and _of_reports(rows) is not None):
        return None
    printed = {row.rank for row in echoes if row.rank is not None}
    absent = _absent(printed, seen, world_size, rows[0].line == 1)
    named = [row for row in rows if row.kind == "first_failed" and row.rank in absent]
    if len(absent) == 1:
        why = "the others report that a process went away, and only it reports nothing"
        return Judgement(SILENT, [*named, *echoes], absent, LIKELY, why)
    return Judgement("remote_exit", echoes, [], NOT_KNOWN, "the log shows only that a process went away")


def _of_reports(rows: Sequence[FailureRow]) -> Judgement | None:
    """Only launchers report that processes ended."""
    reports = [row for row in rows if kinds()[row.kind].role == REPORT]
    if not reports:
        return None
    first = [row for row in reports if row.kind == "first_failed"] or [
        row for row in reports if row.kind == "task_exit"
    ]
    first = first or [row for row in reports if row.exit_code is not None and _is_named(row)]
    first = first or [row for row in reports if _is_named(row)] or reports
    processes = {process_of(row) for row in first}
    ranks = sorted({row.rank for row in first if row.rank is not None})
    own = first[0].node is not None and first[0].exit_code not in (None, _SIGTERM, 128 - _SIGTERM)
    if len(processes) == 1 and (ranks or first[0].local_rank is not None or (own and first[0].kind == "child_failed")):
        aborted = first[0].exit_code in (_SIGABRT, 128 - _SIGABRT)
        why = "signal 6 ended it; its message is lost" if aborted else "its launcher saw it fail; it gives no reason"
        return Judgement("abort" if aborted else first[0].kind, first, ranks, LIKELY, why)
    return Judgement(first[0].kind, first, [], NOT_KNOWN, "the log gives no reason")


def _of_one(row: FailureRow, causes: Iterable[FailureRow], certainty: str, why: str) -> Judgement:
    same = [
        each for each in causes if each is not row and each.kind == row.kind and process_of(each) == process_of(row)
    ]
    return Judgement(row.kind, [row, *same], [] if row.rank is None else [row.rank], certainty, why)


def _most_exact(rows: Sequence[FailureRow]) -> FailureRow:
    """Return the first failure of a process: a more exact message near a bare exception counts as the first."""
    exact = [row for row in rows if row.kind not in ("exception", "assertion", "abort")]
    return exact[0] if exact and exact[0].line - rows[0].last_line < _NEAR else rows[0]


def _join_unnamed(by_process: dict[object, list[FailureRow]]) -> None:
    """Add the failures of unknown processes to the only process that reports a failure of the same kind."""
    unnamed = [process for process, rows in by_process.items() if all(not _is_named(row) for row in rows)]
    for process in unnamed:
        names = {row.kind for row in by_process[process]}
        others = [
            other for other, rows in by_process.items() if other not in unnamed and names & {row.kind for row in rows}
        ]
        if len(others) == 1:
            by_process[others[0]] = [*by_process.pop(process), *by_process[others[0]]]
            by_process[others[0]].sort(key=lambda row: not _is_named(row))


def _of_a_collective(row: FailureRow) -> bool:
    """Whether an exception is raised in a collective: the process may only have waited for another one."""
    return row.op is not None and is_plain(row.kind)


def _by_launcher(row: FailureRow) -> bool:
    """Whether a launcher reports that it ends the other processes."""
    return "closing signal" in row.message or "death signal" in row.message


def _log(row: FailureRow) -> str:
    """The log of a failure: the part of the id of its run that its runs share."""
    return row.run.partition("-")[0]


def _is_named(row: FailureRow) -> bool:
    return row.rank is not None or row.task is not None or row.local_rank is not None


def process_of(row: FailureRow) -> object:
    """Return what distinguishes the process of a failure from others."""
    if row.rank is not None:
        return row.rank
    if row.task is not None or row.local_rank is not None:
        return (row.node, row.task, row.local_rank)
    return (row.node, row.device, row.gpu)


def _earliest(rows: Sequence[FailureRow]) -> FailureRow | None:
    """Return the failure that was printed at least a second before all others, if clocks show it."""
    timed = sorted((row for row in rows if row.time_ns is not None), key=lambda row: row.time_ns or 0)
    if len(timed) < len(rows) or len({row.clock for row in timed}) > 1 or len(timed) < 2:
        return None
    return timed[0] if (timed[1].time_ns or 0) - (timed[0].time_ns or 0) >= 10**9 else None


def _later(row: FailureRow, other: FailureRow) -> bool:
    """Return whether clocks show that a failure was printed after another one."""
    known = row.time_ns is not None and other.time_ns is not None and row.clock == other.clock
    return known and (row.time_ns or 0) > (other.time_ns or 0)


def _says(row: FailureRow) -> str:
    return "it is the only process that reports a cause" if _is_named(row) else "it is the only cause in the log"
