"""Jobs with several attempts as one run: a job that was restarted is compared as a whole.

Attempts are no repeats of one another: each goes on where the one before ended. Of a step that was done again, the
last time counts. The times of lines are left out, as they jump from one attempt to the next. Only attempts in one log
and on as many ranks are joined: a row is found again by its line, and a step of other ranks is another measurement. Of
the others, those with most steps are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from perflog.log import Log
from perflog.metrics import Tables
from perflog.metrics.attempts import RESTORE, STARTUP, extents, jobs, same_world
from perflog.metrics.settings_by_run import settings_by_run
from perflog.metrics.step_orders import step_order
from perflog.tables.arrow import index_array, numbers_of, with_column, without_chunks, word_array
from perflog.tables.schema import TABLES
from perflog.tables.sink import column_of

if TYPE_CHECKING:
    import pyarrow as pa

    from perflog.tables.arrow import Where

_OF_THE_LAST = ("failures", "summaries")
"""Tables of which the rows of the last attempt count: it went on after the failures, and printed the last averages."""

_OF_AN_ATTEMPT = ("elapsed_s", "elapsed_from", "elapsed_line")
"""Columns of a run that hold for one attempt alone."""

_TIMES = {
    "steps": ("printed_ns", "clock", "elapsed_s"),
    "milestones": ("printed_ns", "clock"),
    "values": ("elapsed_s",),
}
"""Columns with times of day or since a start: between two attempts they would show a pause that is none."""

_NO_LIMIT = np.iinfo(np.int64).max


def attempts_in_one_log(log: Log, tables: Tables) -> dict[str, list[str]]:
    """Return the attempts that a log has of a job, if there are several, by the first of them."""
    by_log = (runs for logs in _by_log(log, tables) for runs in logs)
    return {runs[0]: runs for runs in by_log if len(runs) > 1}


def attempts_left_out(log: Log, tables: Tables) -> dict[str, str]:
    """Return the attempts that are in another log, or on other ranks, than most steps of their job.

    By run the first of the attempts that are compared. They are no repeats, and each goes on where another ended:
    together they would be a sample of nothing.
    """
    steps = tables.counts("steps")
    left_out: dict[str, str] = {}
    for logs in _by_log(log, tables):
        longest = max(logs, key=lambda runs: sum(steps.get(run, 0) for run in runs))
        left_out |= {run: longest[0] for runs in logs if runs is not longest for run in runs}
    return left_out


def _by_log(log: Log, tables: Tables) -> Iterator[list[list[str]]]:
    """Yield the attempts of each job, by log and number of ranks: a step of other ranks is another measurement."""
    found = jobs(tables)
    settings = settings_by_run(tables) if found else {}
    logs = {key.id: key.sha256 for key in log.run_keys}
    for runs in found.values():
        alike: list[list[str]] = []
        for run in runs:
            fitting = (of for of in alike if logs[of[0]] == logs[run] and same_world(settings[of[0]], settings[run]))
            group = next(fitting, None)
            if group is None:
                alike.append([run])
            else:
                group.append(run)
        yield alike


def with_whole_jobs(log: Log, tables: Tables) -> Log:
    """Return a log in which each job with attempts in one log is one run, with the id of the first attempt.

    `tables`: the tables of the log.
    """
    members = attempts_in_one_log(log, tables)
    if not members:
        return log
    job_of = {run: first for first, runs in members.items() for run in runs}
    ends = _ends(tables, members.values())

    def fetch(
        name: str,
        runs: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        /,
    ) -> pa.Table:
        wanted = [key.id for key in keys] if runs is None else list(runs)
        if name != "runs":
            wanted = [run for first in wanted for run in members.get(first, [first])]
        if where is not None and "run" in where:
            passes = where["run"]
            where = {**where, "run": lambda run: passes(job_of.get(str(run), run))}
        every = [column.name for column in TABLES[name]]
        choosing = {"kind", "step", *(end.column for end in ends.values())}
        needed = [*columns, *(c for c in every if c in choosing)] if columns is not None else every
        table = without_chunks(log.some_rows(name, where or {}, *needed, runs=wanted))
        table = _of_first_attempts(table, job_of) if name == "runs" else _of_jobs(table, name, ends, job_of)
        return table.select(every if columns is None else list(columns))

    keys = [key for key in log.run_keys if job_of.get(key.id, key.id) == key.id]
    return Log(fetch, keys, whole=False, warnings=log.warnings, dates=lambda: log.ingested)


class _End(Struct, frozen=True):
    """Where an attempt ends for its job: the first step that a later one does again, or its line.

    `column`: "step"; "line" where the steps start again in each epoch.
    """

    column: str
    first: int


def _ends(tables: Tables, jobs: Iterable[Sequence[str]]) -> dict[str, _End]:
    """Return the ends of all attempts that have a later one."""
    known = extents(tables)
    ends: dict[str, _End] = {}
    for runs in jobs:
        for place, run in enumerate(runs[:-1]):
            again = min(known[other].first_step for other in runs[place + 1 :])
            if known[run].epoch:
                steps = tables.rows_of("steps", run)
                lines = steps["line"][steps.known("step") & (step_order(tables, steps) >= again)]
                ends[run] = _End("line", int(lines.min()) if len(lines) else _NO_LIMIT)
            else:
                ends[run] = _End("step", again)
    return ends


def _of_jobs(table: pa.Table, name: str, ends: Mapping[str, _End], job_of: Mapping[str, str]) -> pa.Table:
    """Return the rows of a table that count for their job, with the id of its first attempt as run.

    `ends`: of the attempts that have a later one. `job_of`: the first attempt.
    """
    if not table.num_rows:
        return table
    import pyarrow.compute as pc

    column = table["run"].chunk(0)
    words, codes = column.dictionary.to_pylist(), numbers_of(column.indices).astype(np.int64)
    counts = np.ones(len(codes), np.bool_)
    if name in _OF_THE_LAST:
        counts &= ~np.array([word in ends for word in words])[codes]
    elif name == "milestones":  # a job that loads its own checkpoint continues no other one
        is_start = np.array([kind in (RESTORE, STARTUP) for kind in table["kind"].to_pylist()])
        counts &= ~(np.array([job_of.get(word, word) != word for word in words])[codes] & is_start)
    if "step" in table.column_names:
        for column_name in {end.column for end in ends.values()}:
            limit_of = {run: end.first for run, end in ends.items() if end.column == column_name}
            limits = np.array([limit_of.get(word, _NO_LIMIT) for word in words], np.int64)[codes]
            counts &= table[column_name].fill_null(-1).to_numpy() < limits
    firsts = list(dict.fromkeys(job_of.get(word, word) for word in words))
    new = np.array([firsts.index(job_of.get(word, word)) for word in words], np.int64)
    is_of_job = np.array([word in job_of for word in words])[codes]
    for time in _TIMES.get(name, ()):
        if time in table.column_names and is_of_job.any():
            table = with_column(table, time, pc.if_else(is_of_job, None, table[time].chunk(0)))
    table = with_column(table, "run", word_array(new[codes], firsts))
    return table if counts.all() else table.take(index_array(np.flatnonzero(counts)))


def _of_first_attempts(runs: pa.Table, job_of: Mapping[str, str]) -> pa.Table:
    """Return table `runs` without what holds for one attempt alone."""
    is_job = [run in job_of for run in runs["run"].to_pylist()]
    for name in _OF_AN_ATTEMPT:
        if name in runs.column_names and any(is_job):
            values = [None if job else value for job, value in zip(is_job, runs[name].to_pylist(), strict=True)]
            runs = with_column(runs, name, column_of("runs", name, values))
    return runs
