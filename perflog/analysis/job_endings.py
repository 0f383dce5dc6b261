"""How the attempts of a job end: their failures, cut where steps follow, with what came first and who is accused.

Failures with steps between them are separate: a job may be restarted, and a program may catch an exception. What
ended the job is what no step follows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import pairwise

import numpy as np
from msgspec import Struct
from msgspec.structs import fields, replace

from perflog.analysis.culprits import Culprit, culprits_of, names_of, with_hosts
from perflog.analysis.program_starts import JOB, OUTPUT, is_of_a_rank, may_be_caught, prints_on, program_starts
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import Tables
from perflog.metrics.attempts import Attempt, attempts
from perflog.metrics.benchmarks.server_readings import RUNNING
from perflog.metrics.rank_files import is_of_process_files, is_of_rank_files
from perflog.metrics.rank_hosts import hosts_of_ranks
from perflog.metrics.run_tables import computed_once
from perflog.parsing.failures.first_cause import ONE_OF, SILENT, Judgement, judge
from perflog.parsing.failures.kinds import (
    ECHO,
    EITHER,
    NOTICE,
    REPORT,
    SUMMARIES,
    TRACEBACK,
    detail_of,
    is_plain,
    kinds,
    title_of,
)
from perflog.parsing.failures.rows import FATAL, FailureRow
from perflog.parsing.input.file_lines import place_in_file
from perflog.tables.columns import NULL, Rows
from perflog.units import first_few, show

STUCK = "stuck"
"""Kind of a job that ranks hold up, by what they dumped."""

_LATE = 1  # steps that other ranks may still print when a rank has failed
_LOOKED_AT = 2_000  # step lines after a failure
_OF_A_NODE = 8  # ranks that may each print one more line
_LOGGED = 10  # lines after exceptions without a traceback; only a program that caught them prints so many
_FINISHED = lazy_pattern(
    r"(?i)^(?!.*\b(?:not|fail\w*|error|before|after|until|when|if)\b).*(?:\b(?:training|finetuning|fine-tuning|pre-?training)"
    r" (?:run |job )?(?:(?:is|was|has|been|successfully) )*(?:completed|complete|done|finished)\b|\bfinished training\b"
    r"|\bworker group successfully finished\b|'train_runtime': |\btrain_runtime +=)"
    r"|\[after training is done\]|`Trainer\.fit` stopped: `max_\w+=\d+` reached|Training completed\. Do not forget"
)
"""What programs print when their training ended well: Hugging Face's Trainer, Lightning, Megatron, torchrun."""

_CUT_OFF = "an exception with a lost message"  # of a traceback that has no end
_PANIC = lazy_pattern(r"\.rs:\d+:\d+:$")  # where a program of Rust panicked: its message follows
_SHOWN, _TYPE = 100, 40  # characters of the message of an exception, and of its type
_MARGIN_NS, _OUTLIVED = 60 * 10**9, 2  # after a failure: a job goes on if so many steps come later than that
_NAMES = tuple(field.name for field in fields(FailureRow))
_TITLES = {
    SILENT: "a process that ended without a message",
    STUCK: "a rank that others wait for",
    "first_failed": "a process that failed without a message",
}


class Ending(Struct, frozen=True):
    """The failures of one attempt of a job, from its last step on.

    Attributes:
        judged: What came first.
        rows: All of them.
        culprits: Who is accused.
        last_step: The last step before them.
        goes_on: Whether a step follows them; `restarts`: in another run, or again from an earlier step.
        number: Which attempt of its job it ended, from 1; `of`: how many attempts its runs, or the failures of its log,
            show.
        place: File and number of its first line, where the log has several files; else empty.
    """

    judged: Judgement
    rows: Sequence[FailureRow]
    culprits: Sequence[Culprit]
    last_step: int | None
    goes_on: bool
    restarts: bool
    number: int = 1
    of: int = 1
    place: str = ""

    @property
    def run(self) -> str:
        """The run of its first failure."""
        return (self.judged.first or self.rows)[0].run

    @property
    def line(self) -> int:
        """The first line that tells what came first."""
        return (self.judged.first or self.rows)[0].line

    @property
    def sentence(self) -> str:
        """What ended the attempt, with the accused and the line."""
        return self.sentence_in("")

    @property
    def kind(self) -> str:
        """The kind of what ended the attempt."""
        return self.judged.kind or self.rows[0].kind

    @property
    def title(self) -> str:
        """What ended the attempt, in a few words: its kind, or the type of its exception."""
        first = (self.judged.first or self.rows)[0]
        if is_plain(self.kind) and self.judged.first and first.message != TRACEBACK:
            return _shortened(_type_of(first).partition("\n")[0], _TYPE)
        return self._kind_in_words

    @property
    def _kind_in_words(self) -> str:
        return _TITLES.get(self.kind) or title_of(self.kind, next(iter(self.judged.first or self.rows)).message)

    def sentence_in(self, log: str) -> str:
        """Return what ended the attempt, with the accused and the line of a log, which is one of several."""
        kind, title = self.kind, self._kind_in_words
        if is_plain(kind) and self.judged.first:
            message, _, rest = self.judged.first[0].message.partition("\n")
            if rest and _PANIC.search(message):
                message += f" {rest.splitlines()[0]}"
            title = _CUT_OFF if message == TRACEBACK else _shortened(message)
        code = (self.judged.first or self.rows)[0].exit_code
        if code is not None and kinds()[kind].role == REPORT and code > 0:
            title += f" (exit code {code})"
        if detail := self._detail():
            title += f" ({detail})"
        line = f", {self.place or f'{log}:{self.line}'}" if log or self.place else f", line {self.line:,}"
        if not self.culprits:
            return f"{title}{line}"
        named = names_of(self.culprits)
        if not named:
            return f"{title}{line}"
        several = len(self.culprits) > 1
        if self.judged.certainty == ONE_OF and several:
            return f"{title} on {first_few(named, 4, '; ')}: which was first is not known{line}"
        who = first_few(named, 4)
        if self.is_wait:
            return f"{title}: {who} {'hold' if several else 'holds'} up the others{line}"
        return f"{title} on {who}{line}"

    def _detail(self) -> str:
        """Return which collective timed out or that a watchdog was stuck, and when, or which error the device has."""
        rows = self.judged.first
        if self.judged.kind == "gpu_error" and rows:
            return detail_of(rows[0].message)
        if self.judged.kind not in ("collective_timeout", "stuck_watchdog"):
            return ""
        ops, waits = {row.op for row in rows} - {None}, [row.waited_s for row in rows if row.waited_s is not None]
        after = f"after {show(min(waits), 's')}" if waits else ""
        return f"{ops.pop() if len(ops) == 1 else ''} {after}".strip()

    @property
    def ends_attempt(self) -> bool:
        """Whether it ended the attempt: the job stopped there, or started again."""
        return self.is_proven and (self.restarts or not self.goes_on)

    @property
    def is_proven(self) -> bool:
        """Whether more tells of it than a line like an exception, which may have been caught, of an unknown process."""
        return any(row.severity == FATAL or row.rank is not None or row.gpu is not None for row in self.rows)

    @property
    def is_wait(self) -> bool:
        """Whether the accused are those that others waited for."""
        return self.judged.kind in ("collective_timeout", "rendezvous_timeout") and bool(self.judged.ranks)


@computed_once
def endings(tables: Tables) -> list[Ending]:
    """Return the failures of each log, cut where steps follow, in the order of the logs."""
    if not tables.count("failures"):
        return []
    by_log: dict[str, list[FailureRow]] = {}
    for record in tables.rows("failures").dicts(*_NAMES):
        row = FailureRow(**record)
        if row.severity != NOTICE:
            by_log.setdefault(row.run.partition("-")[0], []).append(row)
    sizes = {row["run"]: row["world_size"] for row in tables.rows("runs").dicts("run", "world_size")}
    found: list[Ending] = []
    for log, rows in by_log.items():
        rows.sort(key=lambda row: (row.line, row.part))
        log_runs = [run for run in sizes if run.partition("-")[0] == log]
        world = next((sizes[run] for run in log_runs if sizes[run] is not None), None)
        last_line = _lines_of(tables, log_runs)
        by_rank = is_of_rank_files(tables, log_runs[0]) or is_of_process_files(tables, log_runs)
        steps = _Steps(tables, log_runs, by_rank)
        endings_of_log = _cut(rows, steps, world, last_line, _finished_at(tables, log_runs))
        if not steps.lines:
            endings_of_log = [
                replace(each, goes_on=True) if _is_outlived(tables, each) else each for each in endings_of_log
            ]
        found += [replace(each, place=place_of(tables, each.run, each.line) or "") for each in endings_of_log]
    found = [located(each, tables) for each in found]
    return list(_of_attempts(found, attempts(tables)))


def _lines_of(tables: Tables, runs: Sequence[str]) -> int:
    """Return the number of lines of the log of some runs: each has a shape."""
    counts = tables.rows("lines")
    return int(counts.where(counts.one_of("run", runs))["count"].sum())


def place_of(tables: Tables, run: str, line: int) -> str | None:
    """Return file and number of a line of a run, where its log has several files; else None."""
    rows = tables.whole.rows("runs")
    name = next((log for log in rows["log"][rows.one_of("run", [run])].tolist()), None)
    if name is None or "{" not in name:
        return None
    runs = [each for each in rows["run"].tolist() if each.partition("-")[0] == run.partition("-")[0]]
    return place_in_file(name, line, _lines_of(tables.whole, runs))


def _is_outlived(tables: Tables, ending: Ending) -> bool:
    """Whether each job that made steps at the time of failures in a log beside it went on with them.

    Failures of this log, as of a kernel, may have another clock than the job: seconds do not show who goes on.
    """
    times = [(row.time_ns, row.clock) for row in ending.rows if row.time_ns is not None and row.clock is not None]
    if not times:
        return False
    at, clock = max(times)
    outlived = []
    for rows in tables.rows_by_run("steps").values():
        printed = rows["printed_ns"][rows.known("printed_ns") & rows.one_of("clock", [clock])]
        if len(printed) and printed.min() <= at + _MARGIN_NS and printed.max() > at - _MARGIN_NS:
            outlived.append(printed.max() > at + _MARGIN_NS and (printed > at).sum() >= _OUTLIVED)
    return bool(outlived) and all(outlived)


def _of_attempts(found: Sequence[Ending], known: Mapping[str, Attempt]) -> Iterator[Ending]:
    """Yield endings with the numbers of the attempts of their job, which may go on in another log."""
    proven = Counter(ending.run for ending in found if ending.ends_attempt)
    for ending in found:
        attempt = known.get(ending.run)
        if attempt is None or proven[ending.run] > 1 or (ending.goes_on and not ending.restarts):
            yield ending
            continue
        follows = attempt.number < attempt.of
        restarts, goes_on = ending.restarts or follows, ending.goes_on or follows
        yield replace(ending, number=attempt.number, of=attempt.of, restarts=restarts, goes_on=goes_on)


def is_ended(tables: Tables, run: str) -> bool:
    """Return whether a failure ended the log of a run, or an attempt in it."""
    log = run.partition("-")[0]
    return any(each.run.partition("-")[0] == log and each.ends_attempt for each in endings(tables))


class _Steps:
    """The steps of some runs of a log, or else the states of a server, in the order of lines.

    `by_rank`: whether the log has a file for each rank or process. Then only the steps of its own follow a failure.
    """

    def __init__(self, tables: Tables, runs: Sequence[str], by_rank: bool = False) -> None:
        rows = tables.rows("steps")
        rows = rows.where(rows.one_of("run", runs))
        self._results: Rows | None = None  # where neither steps nor states are printed
        if not len(rows):
            rows = tables.rows("values")
            run_rows = rows.where(rows.one_of("run", runs))
            rows = run_rows.where(run_rows.known("step"))
            if not len(rows):  # a server has no steps; it goes on while it prints its state
                rows = run_rows.where(run_rows.one_of("key", [RUNNING]))
                self._results = run_rows if len(rows) == 0 else None
        self.by_rank = by_rank
        self._own: dict[int | str, _Steps] = {}
        self._take(rows.where(np.argsort(rows["line"], kind="stable")))

    def _take(self, rows: Rows) -> None:
        self._rows = rows
        self.lines = rows["line"].tolist()
        self.runs = rows.codes("run")[0].tolist()
        self.steps = [None if step == NULL else step for step in rows["step"].tolist()]
        self.ranks = {rank for rank in rows["rank"].tolist() if rank != NULL}
        self.sources = set(rows.counts("source"))
        self._reached: list[int | None] = []  # the greatest step of the run up to each row
        for row, step in enumerate(self.steps):
            before = self._reached[-1] if row and self.runs[row] == self.runs[row - 1] else None
            self._reached.append(max((each for each in (before, step) if each is not None), default=None))
        numbers = [(line, step) for line, step in zip(self.lines, self.steps, strict=True) if step is not None]
        self._restarts = [line for (_, before), (line, step) in pairwise(numbers) if step < before]

    def beside(self, row: FailureRow) -> _Steps:
        """Return the steps that may precede and follow a failure."""
        member = self.member(row)
        if not self.by_rank or member is None:
            return self
        if member not in self._own:
            self._own[member] = copy(self)
            is_own = self._rows.one_of("source", [member]) if isinstance(member, str) else self._rows["rank"] == member
            self._own[member]._take(self._rows.where(is_own))
        return self._own[member]

    def member(self, row: FailureRow) -> int | str | None:
        """Return the process that reports a failure, if its steps are known by it: by its name, else its rank."""
        return row.node if row.node in self.sources else row.rank

    def last_before(self, line: int) -> int | None:
        """Return the last step that is printed before a failure, perhaps on the same line."""
        row = bisect_right(self.lines, line)
        return self._reached[row - 1] if row else None

    def last_before_all(self, rows: Sequence[FailureRow]) -> int | None:
        """Return the last step that the ranks of some failures print before them."""
        last = (self.beside(row).last_before(row.line) for row in rows)
        return max((step for step in last if step is not None), default=None)

    def restarts_before(self, line: int) -> int:
        """Return how often the steps up to a line begin again from an earlier one."""
        return bisect_right(self._restarts, line)

    @property
    def restarts(self) -> int:
        """How often the steps begin again in all."""
        return len(self._restarts)

    def goes_on(self, row: FailureRow) -> bool:
        """Return whether a later step is printed after a failure. A bar may print the last one again as it closes."""
        begin = bisect_right(self.lines, row.line)
        numbers = {step for step in self.steps[begin : begin + _LOOKED_AT] if step is not None}
        reached = self._reached[begin - 1] if begin else None
        if not numbers:
            return begin < len(self.lines)
        return len(numbers) > 1 or (begin > 0 and (reached is None or max(numbers) > reached))

    def measures_on(self, line: int) -> bool:
        """Return whether a program without steps, known as one process, prints a result anew after a failure, twice."""
        if self._results is None or self._results.known("rank").any():
            return False
        for rows in self._results.by("key").values():
            lines = np.unique(rows["line"])
            if lines[0] < line and (lines > line).sum() >= _OUTLIVED:
                return True
        return False

    def _stride(self, begin: int) -> int:
        """Return the distance in steps between the last two printed steps before a row."""
        reached, run = self._reached[begin - 1] or 0, self.runs[begin - 1]
        rows = [row for row in range(max(begin - _OF_A_NODE, 0), begin) if self.runs[row] == run]
        before = [step for row in rows if (step := self.steps[row]) is not None and step < reached]
        return reached - max(before) if before else 0

    def _is_printed(self, begin: int) -> bool:
        """Return whether the last step before a row is printed as often as the one before it: no rank is missing."""
        steps, reached = self.steps[max(begin - _LOOKED_AT, 0) : begin], self._reached[begin - 1] or 0
        before = max((step for step in steps if step is not None and step < reached), default=None)
        return before is not None and steps.count(reached) >= steps.count(before)

    def new_attempt(self, first: int, last: int | None) -> bool | None:
        """Return whether the steps between two lines are of a new attempt; None if there are none that count.

        The other ranks may still print the step that is being made when a rank fails.
        """
        begin = bisect_right(self.lines, first)
        end = min(begin + _LOOKED_AT, len(self.lines) if last is None else bisect_left(self.lines, last))
        if begin >= end:
            return None
        if not begin:  # one step alone may be the last state of a bar
            return False if len(set(self.steps[begin:end])) > 1 else None
        reached, run = self._reached[begin - 1], self.runs[begin - 1]
        if any(other != run for other in self.runs[begin:end]):
            return True
        numbers = [step for step in self.steps[begin:end] if step is not None]
        if reached is None or not numbers:
            return False if end - begin > _OF_A_NODE else None
        if max(numbers) > reached + max(_LATE, self._stride(begin)):
            lowest = min(numbers)
            return bool(lowest < reached or (lowest == reached and self._is_printed(begin)))
        return True if len(set(numbers)) > 1 and min(numbers) < reached else None


def _finished_at(tables: Tables, runs: Sequence[str]) -> int:
    """Return the last line of some runs in which the program says that its training ended well; 0 without one."""
    rows = tables.rows("lines")
    rows = rows.where(rows.one_of("run", runs))
    lines = zip(rows["first_line"].tolist(), rows["sample"].tolist(), strict=True)
    return max((line for line, text in lines if text and _FINISHED.search(text)), default=0)


def _cut(
    rows: Sequence[FailureRow], steps: _Steps, world: int | None, last_line: int, finished_at: int
) -> list[Ending]:
    groups = _by_attempt(rows, steps)
    found: list[Ending] = []
    starts_of_groups = [[group] if steps.by_rank else program_starts(group) for group in groups]
    ended = {id(row) for starts in starts_of_groups for start in starts[:-1] for row in start}
    for group in (part for starts in starts_of_groups for start in starts for part in _split(start, steps)):
        judged = judge(group, steps.ranks, world)
        restarts = steps.beside(group[0]).new_attempt(group[0].line, None)
        last = steps.last_before_all(group) if steps.by_rank else steps.last_before(group[0].line)
        caught = [row for before in found if before.goes_on for row in before.rows if id(row) not in ended]
        caught = [row for row in caught if row.section == group[0].section]  # by this start of the program
        survived = {_type_of(row) for row in caught if may_be_caught(row)}
        survived |= {_type_of(row) for row in group if TRACEBACK.startswith(row.message)} if survived else set()  # cut
        is_caught = all(
            may_be_caught(row) and (_type_of(row) in survived or steps.beside(row).goes_on(row)) for row in group
        )
        is_ended = id(group[0]) in ended
        ends = max(row.last_line for row in group) if steps.by_rank else last_line  # other ranks' lines come after it
        has_more_output = prints_on(group, ends) or _outlived_memory(group, ends, steps)
        is_ended |= has_more_output and JOB.search(group[-1].message) is not None
        ends_well = group[-1].last_line < finished_at and (all(map(_may_be_retried, group)) or _ended_all(group))
        is_logged = all(may_be_caught(row) and row.severity != FATAL and not _ends_itself(row) for row in group)
        is_logged = is_logged and ends - max(row.last_line for row in group) >= _LOGGED
        goes_on = restarts is not None or is_caught or is_ended or has_more_output or ends_well or is_logged
        number = 1 + sum(before.restarts for before in found)
        culprits = culprits_of(group, judged)
        found.append(Ending(judged, group, culprits, last, goes_on, bool(restarts) or is_ended, number))
    return [replace(ending, of=1 + sum(each.restarts for each in found)) for ending in found]


def _by_attempt(rows: Sequence[FailureRow], steps: _Steps) -> list[list[FailureRow]]:
    """Return the failures of each attempt; of files of ranks or processes, their failures together."""
    if steps.by_rank and all(steps.member(row) is not None for row in rows):
        last = max(steps.beside(row).restarts for row in rows)
        by_attempt = grouped((_part_of_attempt(row, steps, last), row) for row in rows)
        return [by_attempt[part] for part in sorted(by_attempt)]
    groups: list[list[FailureRow]] = []
    for row in rows:
        if groups and steps.beside(groups[-1][0]).new_attempt(groups[-1][0].line, row.line) is None:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _part_of_attempt(row: FailureRow, steps: _Steps, last: int) -> tuple[int, bool]:
    """Return how often the steps of a rank began again before its failure, and whether no step follows the failure.

    `last`: how often they begin again in all.
    """
    own = steps.beside(row)
    number = own.restarts_before(row.line)
    return number, number == last and own.new_attempt(row.line, None) is None


def _outlived_memory(rows: Sequence[FailureRow], line: int, steps: _Steps) -> bool:
    """Whether a program went on after its device was out of memory, or was started again: no launcher saw it end.

    A benchmark that goes on with another case says so by its results.
    """
    caught = all(may_be_caught(row) or (row.kind == "gpu_out_of_memory" and not is_of_a_rank(row)) for row in rows)
    return caught and (line - max(row.last_line for row in rows) > OUTPUT or steps.measures_on(rows[0].line))


def _split(group: Sequence[FailureRow], steps: _Steps) -> list[list[FailureRow]]:
    """Cut off the exceptions that a step follows, if the program may have caught all that it follows."""
    early = [row for row in group if steps.beside(row).goes_on(row)]
    rest = list(group[len(early) :])
    return [early, rest] if early and rest and all(map(may_be_caught, early)) else [list(group)]


def _type_of(row: FailureRow) -> str:
    """The type of an exception: `ValueError`."""
    return row.message.partition(":")[0]


def _ends_itself(row: FailureRow) -> bool:
    """Whether a program or Python refused its arguments: it ends without a traceback."""
    return row.kind == "arguments" or "can't open file" in row.message


def _may_be_retried(row: FailureRow) -> bool:
    """Whether a program may have tried again after a failure: an exception, or the end of a connection."""
    return row.rank is None and (is_plain(row.kind) or kinds()[row.kind].role in (EITHER, ECHO))


def _ended_all(group: Sequence[FailureRow]) -> bool:
    """Whether failures ended all processes, so that later lines are of a new start.

    A launcher says that it ended them; or nothing names a process: then there is one.
    """
    return any(row.kind in ("child_failed", *SUMMARIES) for row in group) or not any(map(is_of_a_rank, group))


def joined(final: Sequence[Ending]) -> Ending:
    """Return what ended the job of several logs: the failures of all of them together."""
    if len(final) == 1:
        return final[0]
    rows = [row for ending in final for row in ending.rows]
    seen = {row.rank for row in rows if row.rank is not None}
    judged = judge(rows, seen, None)
    steps = [ending.last_step for ending in final if ending.last_step is not None]
    return Ending(judged, rows, culprits_of(rows, judged), max(steps, default=None), False, False)


def located(ending: Ending, tables: Tables) -> Ending:
    """Return an ending with the nodes of the accused ranks."""
    return replace(ending, culprits=with_hosts(ending.culprits, hosts_of_ranks(tables, ending.run)))


def _shortened(text: str, most: int = _SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
