"""Assembles records into tables: the way of a record from its line to its row.

In: the batches of a log, in order. Out: the rows that are complete, by table, and the runs that have ended.

1. `run_tracker` finds the runs, `line_account` counts their lines, `figure_account` their figures; `text_blocks` keeps
   their printouts.
2. `pending_records` holds a record until the line that closes its step has been read.
3. `step_groups` gives it its step, `scopes` the fields of the lines above it, `rank_rules` its rank.
4. `step_partners` brings the figures of libraries into the steps.
5. `step_repeats` counts printings of a step, `step_windows` the steps that a line covers, `run_clocks` takes step times
   from a clock, `table_builder` makes the row, `average_windows` finds averaged steps.
6. `run_failures` finds the failures in lines without a record.

Memory does not grow with the log: beyond the records that wait, some kilobytes are kept of each run until it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

import pyarrow as pa
from msgspec import Struct, field
from msgspec.structs import astuple

from perflog.formats.families.title_lines import TITLES
from perflog.formats.model import Format, Line
from perflog.parsing.assemble.attributed_rows import AttributedRows, RecordRanks
from perflog.parsing.assemble.printed_times import PrintedTimes
from perflog.parsing.assemble.ranks.local_ranks import LocalRanks
from perflog.parsing.assemble.ranks.rank_rules import RankDecisions, RankRules
from perflog.parsing.assemble.ranks.rank_streams import RankStreams
from perflog.parsing.assemble.runs.figure_account import count_all_figures
from perflog.parsing.assemble.runs.line_account import count_lines
from perflog.parsing.assemble.runs.run_ends import RunEnds, milestones_of
from perflog.parsing.assemble.runs.run_failures import RunFailures
from perflog.parsing.assemble.runs.run_state import RunIndex, RunSettings, RunState
from perflog.parsing.assemble.runs.run_tracker import RunTracker
from perflog.parsing.assemble.runs.setting_series import SeriesOfRuns
from perflog.parsing.assemble.runs.text_blocks import TextBlocks
from perflog.parsing.assemble.scopes import Markers, OpenScopes, closes_step, closing_line, markers_of
from perflog.parsing.assemble.steps.average_windows import AverageWindows
from perflog.parsing.assemble.steps.inner_counts import InnerCounts
from perflog.parsing.assemble.steps.pending_records import NO_LIMIT, PendingRecords
from perflog.parsing.assemble.steps.run_clocks import RunClocks, reads_clock, times_steps
from perflog.parsing.assemble.steps.step_groups import StepGrouper
from perflog.parsing.assemble.steps.step_partners import StepPartners, is_partner
from perflog.parsing.assemble.steps.step_repeats import StepCounter
from perflog.parsing.assemble.steps.time_roles import Key, TimeRoles
from perflog.parsing.assemble.steps.timer_lines import give_steps
from perflog.parsing.assemble.table_builder import TableBuilder
from perflog.parsing.match.line_stamps import StampReader
from perflog.parsing.match.records import Batch, FormatLine, Records
from perflog.tables.schema import STAMPED


class Decisions(Struct):
    """What only whole runs show, as an earlier reading of the log has settled it.

    Attributes:
        ranks: The ranks of keys, by run.
        separate: By run, whether each labelled rank closes its own steps.
        windows: By position of a line, how many steps it covers.
        processes: By run, what its local ranks mean.
        times: What times that lines print by name, and counts without a name, are.
    """

    ranks: RankDecisions = field(default_factory=dict)
    separate: dict[int, bool] = field(default_factory=dict)
    windows: dict[int, int] = field(default_factory=dict)
    processes: dict[int, int] = field(default_factory=dict)
    times: dict[Key, str] = field(default_factory=dict)

    def __or__(self, other: Decisions) -> Decisions:
        """Return both; where they differ, the other ones."""
        return Decisions(*(own | new for own, new in zip(astuple(self), astuple(other), strict=True)))


class RereadRequired(Exception):  # noqa: N818  # a turn of events, not an error
    """A whole run contradicts what its first part showed: the log must be read again with these decisions."""

    def __init__(self, decisions: Decisions) -> None:
        super().__init__()
        self.decisions = decisions


class Assembler:
    """Assembles the batches of one log. Column `run` holds the number of the run: its id needs the hash of the log.

    Args:
        decisions: What an earlier reading of the log has settled.
        guess: Whether each labelled rank closes its own steps, in runs of which nothing is settled.
        files: The names of the logs' files, without their folders: one, or several that are read together.
        logs: The positions at which these logs begin. Several are fed as one batch.
        waits_for_libraries: Whether steps wait for the figures that a library prints of them, to the end of their run.
            Not while a log grows: then they meet only in what is read at once.
        is_by_rank: Whether the lines of each rank follow those of another rank, as in joined files.
    """

    def __init__(
        self,
        decisions: Decisions | None = None,
        guess: bool = False,
        files: Sequence[str] = ("",),
        logs: Sequence[int] = (0,),
        waits_for_libraries: bool = True,
        is_by_rank: bool = False,
    ) -> None:
        settled = decisions or Decisions()
        self._files = files
        self.tracker = RunTracker(logs, is_by_rank)
        self._runs: list[RunState] = [self.tracker.first]  # runs that may still get rows, in log order
        # Settings that a process start prints for all its runs, by log and number of the start.
        self._process_settings: dict[tuple[int, int], RunSettings] = {}
        self._text_blocks = TextBlocks(logs)
        self._streams = RankStreams(guess, settled.separate)
        self._pending = PendingRecords()
        self._next_group = 0
        self._scopes: dict[str, OpenScopes] = {}  # by format
        self._local_ranks = LocalRanks(settled.processes)
        self._rank_rules = RankRules(settled.ranks)
        self.settings = self.tracker.first.settings  # of the run that is being read
        self._step_partners = StepPartners()
        self._waits_for_libraries = waits_for_libraries
        self._step_counter = StepCounter(settled.windows)
        self._time_roles = TimeRoles(settled.times)
        self._inner_counts = InnerCounts(settled.times)
        self._series = SeriesOfRuns()
        self._builder = TableBuilder(self._local_ranks.pods)
        self._stamps, self._printed_times = StampReader(), PrintedTimes()
        self._ends = RunEnds()
        self._clocks = RunClocks()
        self._windows = AverageWindows()
        self._failures = RunFailures(logs, files, self.tracker.first)

    def feed(self, lines: Sequence[FormatLine], batch: Batch) -> tuple[dict[str, pa.Table], list[RunState]]:
        """Read a batch. Return the rows that are complete now, by table, and the runs that have ended."""
        new_runs = self.tracker.starts(lines, batch)
        batch_runs = RunIndex([*self._runs[-1:], *new_runs])
        self._runs += new_runs
        batch = self._failures.feed(lines, new_runs, self.tracker.printed, batch)
        count_lines(batch_runs, lines, batch)
        count_all_figures(batch_runs, lines, batch)
        self._text_blocks.feed(lines, batch_runs, batch)
        self._read_stamps(lines, batch_runs, batch)
        self._local_ranks.observe_pods(batch)
        for kind, records in batch.records.items():
            line = lines[kind][1]
            if line.read:
                self._pending.add(kind, records)
                if closes_step(line):
                    self._streams.add_closing(batch_runs, records)
        runs = RunIndex(self._runs)
        stream_of = self._streams.of(runs)
        last = self._runs[-1]
        self.settings = last.settings
        if batch.chunk.is_last:  # `finish` follows: to release all at once takes half the time for a short log
            return {}, []
        needs_votes = any(form.fingerprints for form, _ in lines) and not self._rank_rules.has_votes(last.index)
        waits = self._waits_for_libraries and any(is_partner(form, line) for form, line in lines)
        limit = self._pending.limit(lines, last.position, needs_votes, stream_of, waits)
        complete = self._pending.release(limit, stream_of)
        tables, ended = self._rows(lines, complete, runs), self._ended_runs()
        return _with_ends(tables, ended), ended

    def finish(self, lines: Sequence[FormatLine]) -> tuple[dict[str, pa.Table], list[RunState]]:
        """End the log. Return all other rows and runs.

        Raises:
            RereadRequired: Rows that were returned early are wrong.
        """
        self._text_blocks.finish()
        tables = self._rows(lines, self._pending.release(NO_LIMIT), RunIndex(self._runs))
        ended, self._runs = self._runs, []
        for run in ended:
            self._end(run)
        failures = self._failures.table()
        if failures is not None:
            tables["failures"] = failures
            self.tracker.begin_at_failure(self._failures.last_line)
        corrections = Decisions(
            self._rank_rules.corrections,
            self._streams.corrections,
            self._step_counter.corrections,
            self._local_ranks.corrections,
            self._time_roles.given.corrections | self._inner_counts.given.corrections,
        )
        if any(astuple(corrections)):
            raise RereadRequired(corrections)
        return _with_ends(tables, ended), ended

    def recent_failures(self) -> pa.Table | None:
        """Return the failures that were found since the last call, as rows that are not final; None if none."""
        return self._failures.recent()

    def _read_stamps(self, lines: Sequence[FormatLine], runs: RunIndex, batch: Batch) -> None:
        """Read the time stamps before the lines that print steps or milestones, and at the ends of runs."""
        stamped = []
        for kind, records in batch.records.items():
            form, line = lines[kind]
            if len(records) and (line.table in STAMPED or is_partner(form, line)):
                stamped.append((line, records))
        ends = self._ends.positions(runs, batch)
        *found, end_stamps = self._stamps.read(batch, [*(records.positions for _, records in stamped), ends])
        for (line, records), before in zip(stamped, found, strict=True):
            has_clock = before is not None or bool(line.clock)
            records.stamps = stamps = before if has_clock else self._printed_times.of(line, batch, records)
            if stamps is not None:
                for run, low, high in runs.split(records.positions):
                    run.is_stamped |= bool((stamps.time[low:high] >= 0).any())
        self._ends.add(runs, ends, end_stamps)

    # --- the end of runs --------------------------------------------------------------------------------------

    def _ended_runs(self) -> list[RunState]:
        """Take out the runs that get no more rows and no more printouts."""
        waiting = self._pending.first_position()
        ended = []
        while len(self._runs) > 1 and (waiting is None or self._runs[1].position <= waiting):
            if self._text_blocks.run is self._runs[0]:
                break
            run = self._runs.pop(0)
            self._end(run)
            ended.append(run)
        return ended

    def _end(self, run: RunState) -> None:
        """Complete and check a run, and drop its state."""
        if run.own_process is not None and (run.log, run.own_process) in self._process_settings:
            run.settings.add_missing(self._process_settings[run.log, run.own_process])
        run.settings.add_missing(run.assumed)
        run.settings.add_missing(run.titled, most=1)
        self._streams.end(run)
        self._local_ranks.end(run)
        self._rank_rules.end(run.index)
        self._step_partners.end(run.index)
        self._step_counter.end(run.index)
        self._time_roles.end(run.index)
        self._clocks.end(run.index)
        self._series.end(run)
        self._windows.end(run.index)
        self._failures.end(run)

    # --- rows -------------------------------------------------------------------------------------------------

    def _rows(self, lines: Sequence[FormatLine], complete: dict[int, Records], runs: RunIndex) -> dict[str, pa.Table]:
        """Return complete records as rows, by table."""
        for records in complete.values():
            self._local_ranks.observe(records, runs)
        rows: list[AttributedRows] = []
        library_rows: list[AttributedRows] = []
        for form in dict.fromkeys(lines[kind][0] for kind in complete):
            records_by_kind = {k: r for k, r in complete.items() if lines[k][0] is form}
            rows += self._format_rows(form, lines, records_by_kind, runs)
            library_rows += [row for row in rows[-len(records_by_kind) :] if is_partner(form, row.line)]
        series = [
            table for row in rows if row.line.table == "runs" or row.line.run for table in self._add_settings(row, runs)
        ]
        for row in rows:
            for name in set(TITLES) & row.records.columns.keys():
                for run, low, high in runs.split(row.records.positions):
                    run.titled.add_facts(row.records, name, low, high)
        steps = [row for row in rows if row.line.table == "steps"]
        own_steps = self._step_partners.join(steps, library_rows)
        rows = [own_steps.get(id(row), row) for row in rows]
        steps += own_steps.values()
        if steps:
            self._step_counter.fill(steps, runs)
            self._windows.add_steps(steps, runs)
        if any(times_steps(row) for row in rows):
            self._clocks.fill([row for row in rows if reads_clock(row)], runs)
        tables = self._builder.tables(rows)
        if series:
            tables["values"] = pa.concat_tables([*series, *([tables["values"]] if "values" in tables else [])])
        if "summaries" in tables:
            summaries = [row for row in rows if row.line.table == "summaries"]
            tables["summaries"] = self._windows.fill(tables["summaries"], summaries, runs)
        return tables

    def _add_settings(self, rows: AttributedRows, runs: RunIndex) -> list[pa.Table]:
        """Add the settings that records print about their runs, and about all runs of a process start.

        Return the rows of numbers that are no settings, but series.
        """
        series: list[pa.Table] = []
        for run, low, high in runs.split(rows.records.positions):
            if rows.line.is_assumed or rows.line.is_fact:
                run.assumed.add_records(rows.line, rows.records, low, high)
                continue
            series += self._series.add(run, rows, low, high)
            if rows.line.opens == "process" and run.process is not None:
                process = self._process_settings.setdefault((run.log, run.process), RunSettings())
                process.add_records(rows.line, rows.records, low, high)
        return series

    def _format_rows(
        self, form: Format, lines: Sequence[FormatLine], complete: Mapping[int, Records], runs: RunIndex
    ) -> list[AttributedRows]:
        """Return the records of a format with their steps, ranks and inherited fields."""
        kinds = [(lines[kind][1], records) for kind, records in complete.items()]
        closing = [(line, records) for line, records in kinds if closes_step(line)]
        closed_scopes = {line.closes for line, _ in closing}
        has_closing_lines = any(closes_step(line) for f, line in lines if f is form)
        grouper = StepGrouper(closing, runs, self._next_group, self._streams.of(runs))
        self._next_group = grouper.next_group
        scopes = self._open_scopes(form, kinds, runs)
        closed = self._closed_scopes(closing, runs)
        named = [form.named_by(file) for file in self._files]
        rows: list[AttributedRows] = []
        for line, records in kinds:
            groups = grouper.groups_of(records)
            ranks = RecordRanks.unknown(len(records))
            row = AttributedRows(
                line, records, groups, groups.step, groups.step_known, ranks, has_closing_lines, form.guessed
            )
            if closed_scopes & set(line.outside):
                row.forget_step()
            row.fill_own_ranks(partial(self._local_ranks.ranks_of, records, runs))
            if line.table and scopes.markers:
                for scope, inheritance in scopes.inherit(records.positions, groups.run_number).items():
                    if scope not in line.outside:
                        row.inherit(scope, inheritance)
            for scope, markers in closed.items():
                if line.table and scope not in line.outside:
                    opened = scopes.markers.get(scope, Markers())
                    row.inherit_back(closing_line(records.positions, groups.run_number, markers, opened))
            row.fill_own_steps()
            if any(named):
                for log, low, high in _split_by_log(records, runs):
                    row.fill_from_name(named[log], low, high)
            row.ranks.fill(self._local_ranks.impossible(ranks, records.positions, runs), -1, -1)
            rows.append(row)
        self._rank_rules.apply(form, rows, runs, scopes)
        self._inner_counts.fill(form, rows, runs)
        give_steps(rows, runs)
        self._time_roles.fill(form, rows, runs)
        return rows

    def _closed_scopes(self, closing: Sequence[tuple[Line, Records]], runs: RunIndex) -> dict[str, Markers]:
        """Return the closing lines of this stretch by their scope; steps have none here."""
        closed: dict[str, Markers] = {}
        for scope in {line.closes for line, _ in closing if line.closes} - {"step"}:
            markers = closed[scope] = markers_of([(line, records) for line, records in closing if line.closes == scope])
            markers.runs = runs.indices_at(markers.positions) + runs.first_number
        return closed

    def _open_scopes(self, form: Format, kinds: Sequence[tuple[Line, Records]], runs: RunIndex) -> OpenScopes:
        """Return the scopes of a format, with the opening lines of this stretch."""
        names = [scope for scope in form.scopes if scope not in ("run", "process")]
        scopes = self._scopes.setdefault(form.name, OpenScopes(names))
        opened: dict[str, Markers] = {}
        for scope in names:
            markers = opened[scope] = markers_of([(line, records) for line, records in kinds if line.opens == scope])
            markers.runs = runs.indices_at(markers.positions) + runs.first_number
        scopes.update(opened)
        return scopes


def _with_ends(tables: dict[str, pa.Table], ended: Sequence[RunState]) -> dict[str, pa.Table]:
    """Return tables with the times at which runs begin and end among the milestones."""
    ends = milestones_of(ended)
    if ends is None:
        return tables
    known = [tables["milestones"]] if "milestones" in tables else []
    return {**tables, "milestones": pa.concat_tables([*known, ends]).unify_dictionaries()}


def _split_by_log(records: Records, runs: RunIndex) -> Iterator[tuple[int, int, int]]:
    """Yield each log that has some of the records as (log, low, high): it has `records[low:high]`."""
    for log, parts in groupby(runs.split(records.positions), lambda part: part[0].log):
        spans = [(low, high) for _, low, high in parts]
        yield log, spans[0][0], spans[-1][1]
