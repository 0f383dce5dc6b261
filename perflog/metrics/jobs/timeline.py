"""The timeline of a job: its wall time in intervals, over all its attempts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from perflog.metrics.attempts import Extent, attempts, extents
from perflog.metrics.jobs.attempt_clock import on_a_clock, step_lines
from perflog.metrics.jobs.attempt_time import attempt_time
from perflog.metrics.jobs.job_intervals import DOWN, ELAPSED, KINDS, RELATIVE, STAMPS, Interval
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_list
from perflog.metrics.step_orders import epoch_lengths
from perflog.tables.schema import LOCAL, NO_YEAR, UTC

_NS = 1e9

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("job", meaning="run id of the first attempt of the job", brief=False),
    MetricColumn("attempt", meaning="number of the attempt in its job, from 1; of a down time the attempt after it"),
    MetricColumn("kind", meaning=", ".join(KINDS)),
    MetricColumn("begin", meaning="begin as a date and time; without a date the time since the clock began"),
    MetricColumn("begin_ns", "ns", None, "the same, on the clock of the log: see `clock`", brief=False, type="Int64"),
    MetricColumn("end_ns", "ns", None, "end: the begin of the next interval", brief=False, type="Int64"),
    MetricColumn("clock", meaning="clock of begin and end, as in table `steps`; elapsed: printed time since a start; "
                 "steps: printed durations, added up: what prints none is left out", brief=False),
    MetricColumn("time_s", "s", None, "end - begin"),
    MetricColumn("first_step", meaning="first step of the interval; null without steps", type="Int64"),
    MetricColumn("last_step", meaning="last step of the interval", type="Int64"),
    MetricColumn("first_line", meaning="line that proves its begin", brief=False),
    MetricColumn("last_line", meaning="line that proves its end", brief=False),
    MetricColumn("known_by", meaning="stamps: times of the lines at its ends; elapsed: printed times since a start; "
                 "printed: printed durations; steps: the time between two step lines minus the time of the steps"),
    MetricColumn("error_s", "s", None, "how far its ends may be off: resolution of the clock, scatter of the steps"),
)  # fmt: skip


@metric(
    title="timeline",
    needs=("steps",),
    columns=_COLUMNS,
    main="time_s",
    formula="the steps of a line begin at the time of the line - number of steps x printed step time, or x the usual "
    "step time around it. Time between the lines before and these steps is what the lines in between report, else "
    "training; if it is ten usual steps or more, a stall",
    source="own; kinds follow the badput types of Google's ml-goodput-measurement",
)
def timeline(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Intervals of the wall time of each job, without gap or overlap: what each was, and the lines that prove its ends.

    A job is a run, or the attempts that continue each other. Times are line stamps. Without them they are printed times
    since a start, such as a progress bar's. Without these, printed durations of steps, checkpoints and evaluations are
    added up, one attempt after the other, and the rest is not known. `repeated` is the time of
    steps that a later attempt does again; `stall` the time of many steps in which none was done; `compile` what the
    first steps take longer than others; `down` the time between attempts.

    Example:
        >>> table = perflog.metrics.timeline(perflog.find_runs("reference:moe_layer.txt"))
        >>> sorted(set(table["known_by"]))
        ['printed']
    """
    lengths = epoch_lengths(tables)
    return [
        _row(interval, job, lengths.get(interval[0], 0)) for job in job_timelines(tables) for interval in job.intervals
    ]


class JobTimeline:
    """The intervals of a job, with the run and the number of the attempt of each.

    `whole`: whether one clock covers all attempts. `is_stamped`: whether the times are line stamps.
    """

    def __init__(self, job: str, runs: Sequence[str], clock: str) -> None:
        self.job, self.runs, self.clock = job, runs, clock
        self.is_stamped = clock not in RELATIVE
        self.intervals: list[tuple[str, int, Interval]] = []
        self.whole = True

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by kind."""
        sums: dict[str, float] = {}
        for _, _, interval in self.intervals:
            sums[interval.kind] = sums.get(interval.kind, 0.0) + (interval.end - interval.begin) / _NS
        return sums

    @property
    def wall_s(self) -> float:
        return (self.intervals[-1][2].end - self.intervals[0][2].begin) / _NS


@computed_list
def job_timelines(tables: Tables) -> Iterator[JobTimeline]:
    """Return the timelines of all jobs that have one; a run that is no attempt of a job is a job of its own."""
    known, number_of = extents(tables), attempts(tables)
    runs_of: dict[str, list[str]] = {}
    for run in tables.rows("runs")["run"].tolist():
        attempt = number_of.get(run)
        runs_of.setdefault(run if attempt is None else attempt.job, []).append(run)
    for job, runs in runs_of.items():
        runs.sort(key=lambda run: number_of[run].number if run in number_of else 0)
        members = [on_a_clock(tables, known[run]) for run in runs]
        timeline = _job_timeline(tables, job, members)
        if timeline is not None:
            yield timeline


def _job_timeline(tables: Tables, job: str, members: Sequence[Extent]) -> JobTimeline | None:
    clock = members[0].clock
    if clock is None:
        return None
    found = JobTimeline(job, [extent.run for extent in members], clock)
    for place, extent in enumerate(members):
        after = members[place + 1 :]
        again = min((_first_step(tables, each) for each in after if each.first_step >= 0), default=None)
        comparable = [each for each in after if _same_clock(extent, each)]
        until = comparable[0].begin_ns if comparable and comparable[0] is after[0] else None
        since = found.intervals[-1][2].end if found.intervals and _same_clock(members[place - 1], extent) else None
        intervals = attempt_time(tables, extent, again, until, since)
        if intervals and not found.is_stamped and extent.clock in RELATIVE:
            found.whole = len(members) == 1 and clock == ELAPSED
            begin = found.intervals[-1][2].end if found.intervals else 0
            for interval in intervals:  # the time between attempts is not known
                interval.begin, interval.end = interval.begin + begin, interval.end + begin
        elif not intervals or not _same_clock(members[0], extent):
            found.whole = False
            continue
        number = place + 1
        if found.intervals and intervals[0].begin > (end := found.intervals[-1][2].end):
            before, first = found.intervals[-1][2], intervals[0]
            error = max(before.error_s, first.error_s)
            down = Interval(DOWN, end, first.begin, None, None, before.last_line, first.first_line, STAMPS, error)
            found.intervals.append((extent.run, number, down))
        found.intervals += [(extent.run, number, interval) for interval in intervals]
    return found if found.intervals else None


def moment(time_ns: int, clock: str) -> str:
    """Return a time of a log as a string: with its date if the clock has one, without the year if it has none."""
    if clock in RELATIVE:
        return (
            f"{time_ns // 3_600_000_000_000:02}:{np.datetime_as_string(np.datetime64(time_ns, 'ns'), unit='ms')[14:]}"
        )
    at = np.datetime_as_string(np.datetime64(time_ns, "ns"), unit="ms").replace("T", " ")
    if clock in (UTC, LOCAL):
        return at
    return at.partition("-")[2] if clock == NO_YEAR else at.partition(" ")[2]


def _first_step(tables: Tables, extent: Extent) -> int:
    """Return the first step of an attempt: the step after its checkpoint, or the first that its first line covers."""
    attempt = attempts(tables).get(extent.run)
    if attempt is not None and attempt.step is not None:
        return min(extent.first_step, attempt.step + 1)
    lines = step_lines(tables, extent)
    return extent.first_step if lines is None else int(lines.places[0] - max(lines.steps_done[0], 1)) + 1


def _same_clock(one: Extent, other: Extent) -> bool:
    """Whether times of two attempts can be subtracted: one clock with a date, or one log, whose days are counted."""
    return one.clock == other.clock and (one.clock in (UTC, LOCAL) or one.log == other.log)


def _row(part: tuple[str, int, Interval], job: JobTimeline, epoch: int) -> dict[str, object]:
    """Return a row of the table. `epoch`: length of an epoch if the steps start again in each: they are shown so."""
    run, number, interval = part
    first, last = (
        step % epoch if epoch and step is not None else step for step in (interval.first_step, interval.last_step)
    )
    return {
        "run": run, "job": job.job, "attempt": number, "kind": interval.kind,
        "begin": moment(interval.begin, job.clock), "begin_ns": interval.begin, "end_ns": interval.end,
        "clock": job.clock,
        "time_s": (interval.end - interval.begin) / _NS,
        "first_step": first, "last_step": last,
        "first_line": interval.first_line, "last_line": interval.last_line,
        "known_by": interval.known_by, "error_s": interval.error_s,
    }  # fmt: skip
