"""Which logs are of one job, by what they print. A benchmark beside a job, such as nccl-tests, is a run of its own.

Logs are of one job if one is an attempt that continues another. If they do not print different job ids, they are also
of one job if their names differ only in the number of a rank or a node, or in their ending, and none began after the
other had ended; or if they print the same losses of the same steps at the same times, as a loss is the mean over all
ranks, or the same measured times. Another log without steps belongs to

- the job with the same job id, if both print one;
- else, if it measures nothing: the only job, or the only job in its folder. It may be the log of the kernel, the
  scheduler or the launcher. What a program printed before the job began is not of the job;
- else, if it measures something and its clock is a clock of jobs: the only job whose time its own overlaps;
- else the only job whose program it prints; the only job of its folder, if only libraries and monitors print in it; or
  the only job that there is, unless a benchmark prints in it.

Where no log has steps, dumps of collectives show the jobs; without dumps, all logs are one job.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from perflog.analysis.job_hosts import same_runs
from perflog.formats.registry import known
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.log import RunKey
from perflog.metrics import Tables
from perflog.metrics.attempts import job_id, jobs
from perflog.metrics.benchmarks.server_readings import RUNNING
from perflog.metrics.jobs.stuck_ranks import jobs_of_dumps
from perflog.tables.columns import NULL
from perflog.tables.schema import NO_DATE

_NUMBERED = lazy_pattern(
    r"(?<![a-z])(rank|node|worker|proc|process|task|gpu|host|global_rank|local_rank)([-_. =]?)(\d+)", re.IGNORECASE
)
_ENDING = lazy_pattern(r"\.(?:log|txt|out|err|stdout|stderr)(?:\.(?:gz|zst|xz))?$|(?:_|\.)(?:stdout|stderr)$")
_NODES = ("node", "host")
_MEASUREMENTS = ("values", "summaries", "collectives", "kernels", "layers", "loads")
"""Tables of a log that measures something of its own, such as a benchmark."""

_OF_MACHINES = frozenset(
    ("gpu_fault", "xid_application", "xid_notice", "port_error", "link_error", "host_out_of_memory", "node_failure",
     "time_limit", "preemption", "terminated", "thermal_slowdown")
)  # fmt: skip
"""Kinds of failures that a kernel or a scheduler reports, with a clock that may be another one than the job's."""

_STEPS = (("steps", "printed_ns"),)
"""Table and column of the times of steps."""

_SECOND = 10**9

_BETWEEN_NS = 60 * _SECOND
"""A program that ended so long before the first line of a job is not of it."""

_RESULTS = ("collectives", "summaries")
"""Tables of the results of benchmarks."""

UNKNOWN = "unknown program"
"""The program of a log that measures something and in which only generic formats read lines."""


Spans = dict[str, tuple[int, int]]
"""First and last printed time in nanoseconds, by clock."""


class JobRuns(Struct, frozen=True):
    """Runs of one job, or of one benchmark; `benchmark`: its program, None for a job."""

    keys: list[RunKey]
    benchmark: str | None = None


def logs_beside(tables: Tables, keys: Sequence[RunKey], others: Collection[str] = ()) -> dict[str, str]:
    """Return the runs of logs that only say more of a job, by run the run with steps that they belong to.

    It is the only run of their job that has steps, or its first attempt. Such are the logs of the kernel, the scheduler
    and monitors. `others`: runs that are shown for what they print.
    """
    stepping = tables.counts("steps").keys()
    if len(keys) < 2 or len(stepping) in (0, len(keys)):
        return {}
    first_attempts = {run: members[0] for members in jobs(tables).values() for run in members}
    found: dict[str, str] = {}
    for job in runs_of_jobs(tables, keys):
        runs = [key.id for key in job.keys]
        with_steps = [run for run in runs if run in stepping]
        if job.benchmark is None and len({first_attempts.get(run, run) for run in with_steps}) == 1:
            found |= {run: with_steps[0] for run in runs if run not in stepping and run not in others}
    return found


class _Printed(Struct):
    """What the logs of one group print of themselves."""

    folder: str
    runs: list[str]
    formats: set[str]
    spans: Spans
    ids: set[str]
    measures: bool
    has_results: bool
    serves: bool
    by_machine: bool


def runs_of_jobs(tables: Tables, keys: Sequence[RunKey]) -> list[JobRuns]:
    """Return the runs of each job and of each benchmark, in the order of the logs."""
    by_log = grouped((key.sha256, key) for key in keys)
    group_of = _groups(tables, by_log)
    stepping = {key for name in ("steps", "phases") for key in tables.rows_by_run(name)} or set(jobs_of_dumps(tables))
    main = {group_of[log] for log, runs in by_log.items() if any(run.id in stepping for run in runs)}
    if not main:
        return [JobRuns(list(keys))]
    printed = _printed(tables, by_log, group_of)
    jobs_printed = {group: printed[group] for group in main}
    job_of = {group: group if group in main else _job_of(each, jobs_printed) for group, each in printed.items()}
    found: dict[str, JobRuns] = {}
    for log, runs in by_log.items():
        group = group_of[log]
        job = job_of[group] or group
        is_benchmark = job not in main and printed[job].measures and not printed[job].serves
        program = _names_of(printed[job].formats) if is_benchmark else None
        found.setdefault(job, JobRuns([], program)).keys.extend(runs)
    return list(found.values())


class _Groups:
    """Logs that are joined step by step into groups, with the job ids that each group prints."""

    def __init__(self, ids: Mapping[str, set[str]]) -> None:
        self._first = {log: log for log in ids}
        self._ids = {log: set(own) for log, own in ids.items()}

    def of(self, log: str) -> str:
        while self._first[log] != log:
            log = self._first[log]
        return log

    def join(self, one: str, other: str) -> None:
        one, other = self.of(one), self.of(other)
        self._first[other] = one
        self._ids[one] |= self._ids[other]

    def may_be_one(self, one: str, other: str) -> bool:
        """Return whether two groups print no different job ids."""
        its, others = self._ids[self.of(one)], self._ids[self.of(other)]
        return not its or not others or self.have_one_id(one, other)

    def have_one_id(self, one: str, other: str) -> bool:
        """Return whether two groups print a job id in common."""
        return not self._ids[self.of(one)].isdisjoint(self._ids[self.of(other)])


def _groups(tables: Tables, by_log: Mapping[str, Sequence[RunKey]]) -> dict[str, str]:
    """Return the group of each log: of attempts, of the same name without numbers and ending, and of equal losses."""
    log_of = {key.id: log for log, runs in by_log.items() for key in runs}
    ids: dict[str, set[str]] = {log: set() for log in by_log}
    for run, config in tables.rows("runs").records("run", "config"):
        ids[log_of[run]].update(filter(None, [job_id(config)]))
    groups = _Groups(ids)
    for one, other in _attempts(tables):
        groups.join(log_of[one], log_of[other])
    spans = _spans(tables, _STEPS)  # a rank without steps may print only what ended it, long after the others
    trained = {log: _together(spans, runs) for log, runs in by_log.items()}
    names_alike = grouped((_without_numbers(runs[0].log), runs[0].log) for runs in by_log.values())
    counted = {name for name, logs in names_alike.items() if _count_processes(logs)}
    named: dict[str, list[str]] = {}  # the first log of each job with logs of a name
    for log, runs in by_log.items():
        name = _without_numbers(runs[0].log)
        alike = named.setdefault(name, [])
        fits = (each for each in alike if groups.may_be_one(each, log) and not _are_apart(trained[each], trained[log]))
        if name not in counted:
            fits = (each for each in fits if groups.have_one_id(each, log) or _overlap(trained[each], trained[log]))
        fitting = next(fits, None)
        if fitting is None:
            alike.append(log)
        else:
            groups.join(fitting, log)
    for one, other in same_runs(tables):
        if groups.may_be_one(log_of[one], log_of[other]):
            groups.join(log_of[one], log_of[other])
    return {log: groups.of(log) for log in by_log}


def _attempts(tables: Tables) -> Iterator[tuple[str, str]]:
    for members in jobs(tables).values():
        yield from ((members[0], run) for run in members[1:])


def _without_numbers(log: str) -> str:
    """Return the name of a log without numbers of ranks and nodes, and without its ending."""
    folder, name = os.path.split(log)
    name = _ENDING.sub("", name)
    return os.path.join(_NUMBERED.sub(r"\1\2#", folder), _NUMBERED.sub(r"\1\2#", name))


def _count_processes(logs: Sequence[str]) -> bool:
    """Return whether the numbers in the names of some logs count the processes of one job, from 0 or from 1.

    `rank8.log` and `rank16.log` are of two jobs, with adapters of rank 8 and 16; a few numbers may be missing. A node
    has any number as its name, but 2, 4 and 8 are numbers of nodes.
    """
    numbers = [[(word.lower(), int(digits)) for word, _, digits in _NUMBERED.findall(log)] for log in logs]
    for column in zip(*numbers, strict=True):
        values = {number for _, number in column}
        has_gap = max(values) - min(values) >= len(values)
        is_doubled = all(number & (number - 1) == 0 for number in values)
        most_are_missing = 0 not in values and max(values) >= 2 * len(values)
        if has_gap and 0 not in values and (is_doubled or (most_are_missing and column[0][0] not in _NODES)):
            return False
    return True


def _printed(
    tables: Tables, by_log: Mapping[str, Sequence[RunKey]], group_of: Mapping[str, str]
) -> dict[str, _Printed]:
    """Return what the logs of each group print of themselves."""
    measures = {run for name in _MEASUREMENTS for run in tables.rows_by_run(name)}
    with_results = {run for name in _RESULTS for run in tables.rows_by_run(name)}
    values = tables.rows("values")
    serves = set(values.where(values.one_of("key", [RUNNING])).by("run"))
    failures = tables.rows("failures")
    by_machine = set(failures.where(failures.one_of("kind", list(_OF_MACHINES))).by("run"))
    spans = _spans(tables, (("milestones", "printed_ns"), *_STEPS, ("failures", "time_ns")))
    facts = {run: (form, joined, config) for run, form, joined, config in tables.rows("runs").records(
        "run", "format", "joined_formats", "config"
    )}  # fmt: skip
    found: dict[str, _Printed] = {}
    for log, runs in by_log.items():
        each = found.setdefault(
            group_of[log], _Printed(os.path.dirname(runs[0].log), [], set(), {}, set(), False, False, False, False)
        )
        for run in runs:
            form, joined, config = facts[run.id]
            each.runs.append(run.id)
            each.formats.update(name for text in (form, joined) if isinstance(text, str) for name in text.split(", "))
            each.ids.update(filter(None, [job_id(config)]))
            each.measures |= run.id in measures
            each.has_results |= run.id in with_results
            each.serves |= run.id in serves
            each.by_machine |= run.id in by_machine
            for clock, (begin, end) in spans.get(run.id, {}).items():
                low, high = each.spans.get(clock, (begin, end))
                each.spans[clock] = min(low, begin), max(high, end)
    return found


def _spans(tables: Tables, columns: Iterable[tuple[str, str]]) -> dict[str, Spans]:
    """Return the first and the last printed time of each run in some columns of tables, by clock."""
    found: dict[str, Spans] = {}
    for name, column in columns:
        for run, rows in tables.rows_by_run(name).items():
            timed = rows.where(rows.known(column, "clock"))
            for clock, clock_rows in timed.by("clock").items():
                if clock in (NO_DATE, NULL):
                    continue
                times = clock_rows[column]
                low, high = found.setdefault(run, {}).get(clock, (int(times.min()), int(times.max())))
                found[run][clock] = min(low, int(times.min())), max(high, int(times.max()))
    return found


def _job_of(log: _Printed, main: Mapping[str, _Printed]) -> str | None:
    """Return the job that a log without steps belongs to; None if what it prints shows no single one."""
    if log.ids and any(job.ids for job in main.values()):
        return _only([name for name, job in main.items() if job.ids & log.ids])
    in_folder = [name for name, job in main.items() if job.folder == log.folder] if len(main) > 1 else [*main]
    if not log.measures:
        job = _only(in_folder)
        return None if job is None or (not log.by_machine and _is_before(log.spans, main[job].spans)) else job
    on_clock = {name: job for name, job in main.items() if job.spans.keys() & log.spans.keys()}
    if on_clock:
        return _only([name for name, job in on_clock.items() if _overlap(log.spans, job.spans)])
    programs = _programs(log.formats)
    if same := [name for name, job in main.items() if job.formats & programs]:
        return _only(same)
    if programs and log.has_results:
        return None
    libraries = bool(log.formats) and all(name in known() and known()[name].library for name in log.formats)
    return _only(in_folder) if len(main) == 1 or libraries else None


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _overlap(one: Spans, other: Spans) -> bool:
    """Return whether two spans of time overlap, on a clock that both have."""
    return any(
        max(one[clock][0], other[clock][0]) <= min(one[clock][1], other[clock][1]) for clock in one.keys() & other
    )


def _is_before(one: Spans, other: Spans) -> bool:
    """Return whether one span of time ended well before the other began, on each clock that both have."""
    clocks = one.keys() & other.keys()
    return bool(clocks) and all(one[clock][1] + _BETWEEN_NS < other[clock][0] for clock in clocks)


def _are_apart(one: Spans, other: Spans) -> bool:
    return _is_before(one, other) or _is_before(other, one)


def _together(spans: Mapping[str, Spans], runs: Sequence[RunKey]) -> Spans:
    """Return the spans of the runs of a log."""
    found: Spans = {}
    for run in runs:
        for clock, (begin, end) in spans.get(run.id, {}).items():
            low, high = found.get(clock, (begin, end))
            found[clock] = min(low, begin), max(high, end)
    return found


def _programs(formats: set[str]) -> set[str]:
    """Return the formats of a log that are of programs: not of libraries, monitors, and lines of any program."""
    return {name for name in formats if (form := known().get(name)) and not form.library and not form.generic}


def _names_of(formats: set[str]) -> str:
    """Return the names of the programs that print in a log, else of the libraries: `MLPerf`."""
    special = {name for name in formats if (form := known().get(name)) and not form.generic}
    return ", ".join(known()[name].program or name for name in sorted(_programs(formats) or special)) or UNKNOWN
