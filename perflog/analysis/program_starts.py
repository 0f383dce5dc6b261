"""Starts of a program: where failures in one log are of a new start, whose output is appended to the log."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.failures.kinds import CAUSE, REPORT, SUMMARIES, TRACEBACK, is_plain, kinds
from perflog.parsing.failures.rows import FailureRow

OUTPUT = 500
"""Lines after a failure: only a program that goes on prints so many."""

JOB = lazy_pattern(r"\*\*\* (?:JOB|STEP) (\d+)")
"""The message with which a scheduler ends a job, or a step of it."""

_PID = lazy_pattern(r"pid: (\d+)")
_LOCAL_RANK = lazy_pattern(r"local_rank: (\d+)")
_UNREADABLE = lazy_pattern(r"SyntaxError|IndentationError|TabError")  # source code that no program has got through


def program_starts(group: Sequence[FailureRow]) -> list[list[FailureRow]]:
    """Return failures cut where a program that had ended was started again: its output is appended to the same log.

    Signs of a new start: a scheduler ends jobs of different numbers; a launcher prints a second summary of its node, or
    sees a rank end twice, as two processes; the first line of the log is printed again, and a cause follows; source
    code cannot be read, after another failure, and no other cause follows: a program that goes on has only caught it;
    a program prints on.
    """
    cuts = _second_summaries(group)
    jobs: dict[str, int] = {}  # by number of a job the last row that names it
    begin = last_line = 0  # of the failures since the last cut
    for place, row in enumerate(group):
        if number := JOB.search(row.message):
            cuts |= {last + 1 for job, last in jobs.items() if job != number[1]}
            jobs[number[1]] = place
        again = place and (row.section or 0) > (group[place - 1].section or 0)
        if again and not _both_refuse(group[place - 1], row) and any(_is_cause(later) for later in group[place:]):
            cuts.add(place)
        if _UNREADABLE.match(row.message) and place and not _UNREADABLE.match(group[place - 1].message):
            behind = takewhile(lambda later: kinds()[later.kind].role != REPORT, group[place:])
            if all(
                _UNREADABLE.match(later.message) or later.message == TRACEBACK for later in behind if _is_cause(later)
            ):
                cuts.add(place)
        cut = max((cut for cut in cuts if cut <= place), default=0)
        if cut > begin:
            begin, last_line = cut, max((each.last_line for each in group[cut:place]), default=0)
        if begin < place and row.line - last_line > OUTPUT and prints_on(group[begin:place], row.line):
            cuts.add(place)
        last_line = max(last_line, row.last_line)
    edges = sorted({0, len(group), *cuts})
    return [list(group[low:high]) for low, high in pairwise(edges)]


def _both_refuse(before: FailureRow, row: FailureRow) -> bool:
    """Whether two ranks refuse their arguments: each prints the usage of the program, which the log may begin with."""
    ranks = {before.rank, row.rank}
    return before.kind == row.kind == "arguments" and None not in ranks and len(ranks) > 1


def prints_on(rows: Sequence[FailureRow], line: int) -> bool:
    """Return whether so much is printed after failures, up to a line, that they ended nothing, or a new job prints it.

    Ranks that wait for a failed one may print as much; an exception without a rank may be caught, though, and a job
    that its scheduler ended prints nothing.
    """
    if not rows or line - max(row.last_line for row in rows) <= OUTPUT:
        return False
    return all(map(may_be_caught, rows)) or JOB.search(rows[-1].message) is not None


def is_of_a_rank(row: FailureRow) -> bool:
    """Return whether a failure names its process."""
    return row.rank is not None or row.local_rank is not None or row.task is not None


def _second_summaries(group: Sequence[FailureRow]) -> set[int]:
    """Return where failures of a new start begin: a launcher sums up its node again, or a rank as another process."""
    cuts: set[int] = set()
    pids: dict[int, str] = {}  # by rank, of the processes that ended
    agents: set[tuple[str, int]] = set()  # launchers with a complete summary, by node and first rank
    last = 0  # row of a summary
    for place, row in enumerate(group):
        if row.kind not in SUMMARIES or row.rank is None:
            continue
        pid, local = _PID.search(row.message), _LOCAL_RANK.search(row.message)
        agent = (row.node, row.rank - int(local[1])) if row.node is not None and local is not None else None
        if agent in agents or (pid is not None and pids.get(row.rank, pid[1]) != pid[1]):
            cuts.add(_after_summary(group, last, place))
            pids, agents = {}, set()
        if pid is not None:
            pids[row.rank] = pid[1]
        if agent is not None and row.kind == "first_failed":  # the last part of a summary
            agents.add(agent)
        last = place
    return cuts


def _after_summary(group: Sequence[FailureRow], last: int, again: int) -> int:
    """Return the index after a summary and what other launchers report of it, up to the next summary.

    What the launcher prints before a summary (`failed (exitcode: 1)`) belongs to it.
    """
    place = last + 1
    while place < again and kinds()[group[place].kind].role == REPORT and group[place].kind != "child_failed":
        place += 1
    return place


def _is_cause(row: FailureRow) -> bool:
    return kinds()[row.kind].role == CAUSE


def may_be_caught(row: FailureRow) -> bool:
    """Return whether a failure is an exception of an unknown process, such as a reward function; not of a launcher."""
    return is_plain(row.kind) and row.rank is None
