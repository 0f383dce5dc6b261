"""The jobs of a report: what ended each or holds it up, the failures in the logs, and what the time was used for."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.grouping import grouped
from perflog.metrics.jobs.job_intervals import DOWN, KINDS, REPEATED, STALL
from perflog.output.presenters.diagnosis import heading, parts
from perflog.output.report.cells import AnswerTable, Bar, Cell, HeaderCell, RunName, number
from perflog.output.report.data import ReportData, TableRow, range_text
from perflog.output.sheets import cell
from perflog.output.terminal import cut
from perflog.parsing.failures.kinds import title_of
from perflog.units import first_few

_JOBS = 6  # that are shown one by one
_FAILURES = 24  # kinds of failures, by run
_NAMED = 8  # as many as a node often has
_ROLES = {"first": "first", "echo": "followed from another"}
_TEXT = 160  # characters of the message of a failure
_EVENTS = (STALL, REPEATED, DOWN)
"""Kinds of time of a job that did not go on as planned."""


def job_tables(report: ReportData) -> Iterator[AnswerTable]:
    """Yield the tables on the jobs of a report; none if nothing failed, nothing was lost, and nobody is slow."""
    told = [answer for answer in report.diagnoses if answer.kind]
    for answer in told[:_JOBS]:
        job = "" if len(report.diagnoses) == 1 else heading(answer)
        rows: list[list[Cell]] = [[name, cell(text)] for name, text in parts(answer)]
        yield AnswerTable(
            f"diagnosis of {job}" if job else "diagnosis", [HeaderCell("diagnosis"), HeaderCell(job)], rows
        )
    if report.failures:
        yield _failures(report)
    timeline = [row for row in report.rows_of("timeline") if row["time_s"]]
    jobs = list(dict.fromkeys(row["job"] for row in timeline))
    eventful = [job for job in jobs if any(row["job"] == job and row["kind"] in _EVENTS for row in timeline)]
    for job in eventful[:_JOBS]:
        yield _time(report, job, [row for row in timeline if row["job"] == job])


def has_jobs(report: ReportData) -> bool:
    """Return whether there is anything to report on the jobs."""
    return next(job_tables(report), None) is not None


def _failures(report: ReportData) -> AnswerTable:
    """The failures of each run by kind, in the order of the logs: ranks, lines, and the first message."""
    groups = grouped(((row["run"], row["kind"], row["role"]), row) for row in report.failures)
    heads = ["failures", "run", "role", "times", "ranks", "nodes", "GPUs", "lines", "first message"]
    cells: list[list[Cell]] = [
        [
            title_of(kind, rows[0]["message"]),
            RunName(report.names[run], run) if len(report.runs) > 1 else None,
            _ROLES.get(role),
            number(sum(row["count"] for row in rows)),
            *(_distinct(rows, column) for column in ("rank", "node", "gpu")),
            range_text(rows[0]["line"], rows[-1]["last_line"]),
            cut(cell(rows[0]["message"]), _TEXT),
        ]
        for (run, kind, role), rows in list(groups.items())[:_FAILURES]
    ]
    left_out = len(groups) - len(cells)
    note = f'{left_out} more: perflog query "select * from failures"' if left_out > 0 else ""
    return AnswerTable(
        "failures", [HeaderCell(n, number=n == "times") for n in heads], cells, note
    ).without_empty_columns()


def _distinct(rows: list[TableRow], column: str) -> str | None:
    """The distinct values of a column: the first of many."""
    return first_few(sorted({row[column] for row in rows if row[column] is not None}), _NAMED) or None


def _time(report: ReportData, job: str, rows: list[TableRow]) -> AnswerTable:
    """The seconds of a job by kind, for each attempt and all together, with their share of the wall time."""
    attempts = sorted({row["attempt"] for row in rows})
    seconds = {(row["kind"], attempt): 0.0 for row in rows for attempt in attempts}
    for row in rows:
        seconds[row["kind"], row["attempt"]] += row["time_s"]
    wall = sum(seconds.values())
    title = "what the job spent its time on"
    if len({row["job"] for row in report.rows_of("timeline")}) > 1:
        title = f"what the time of {report.names[job]} was"
    heads = [HeaderCell(title), *(HeaderCell(f"attempt {n}", number=True) for n in attempts if len(attempts) > 1)]
    heads += [HeaderCell("time", number=True), HeaderCell("share", number=True), HeaderCell("")]
    lines: list[list[Cell]] = []
    for kind in KINDS:
        kind_seconds = [seconds.get((kind, attempt), 0.0) for attempt in attempts]
        if whole := sum(kind_seconds):
            each = [number(s or None, "s") for s in kind_seconds if len(attempts) > 1]
            lines.append([kind, *each, number(whole, "s"), number(whole / wall, "1"), Bar(0.0, whole / wall)])
    return AnswerTable(title, heads, lines)
