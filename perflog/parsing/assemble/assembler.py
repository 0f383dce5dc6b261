"""Batches of records, in log order -> rows of the tables: runs, steps, ranks and windows filled in.

Works on a stretch at a time: what still waits for its closing line (a step's records come before the step line) is
held back until that line is read. All that is remembered beyond that is a few kilobytes per run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.formats.model import Format, Line
from perflog.parsing.assemble import rank_votes
from perflog.parsing.assemble.rank_rules import RankDecisions, RankRules
from perflog.parsing.assemble.rank_votes import KeyRanks
from perflog.parsing.assemble.rows import LineRows, TableBuilder
from perflog.parsing.assemble.runs import RunState, RunTracker, account, describe
from perflog.parsing.assemble.scopes import Markers, OpenScopes, closers, gather
from perflog.parsing.assemble.step_groups import StepGrouper, label_of
from perflog.parsing.assemble.step_series import Series, number, summaries
from perflog.parsing.assemble.text_blocks import TextBlocks
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.records import Batch, FormatLine, Records, join
from perflog.tables.arrow import picked_words, text_array

if TYPE_CHECKING:
    import pyarrow as pa

HELD = 1 << 19
"""Records that may wait for a closing line; more are given out with their step unknown."""

ENOUGH = 1 << 13
"""Records of a run after which its ranks are decided before it has been read to its end (and checked at the end)."""

_EXACT = 2.0**53  # whole numbers below it are exact as doubles
_MOST_RANKS = 1 << 31  # a column of ranks holds 32 bits


class RereadRequired(Exception):  # noqa: N818  # a turn of events, not an error
    """A whole run says otherwise than its first part did: read again, with what it says.

    `decided` are its votes; `separate` tells of a run whether each labelled rank closes its own steps.
    """

    def __init__(self, decided: RankDecisions, separate: dict[int, bool]) -> None:
        super().__init__()
        self.decided, self.separate = decided, separate


class Assembler:
    """Turns batches into tables. Column `run` holds the run's number in the log: its id takes the log's whole hash.

    `separate` tells of each run whether its labelled ranks close their own steps; `guess` is for the other runs. At a
    run's end it shows, as its votes do, whether that was right.
    """

    def __init__(
        self,
        decided: RankDecisions | None = None,
        guess: bool = False,
        separate: Mapping[int, bool] | None = None,
    ) -> None:
        self.tracker = RunTracker()
        self.builder = TableBuilder()
        self._rules = RankRules(decided)
        self._guess, self._known = guess, dict(separate or {})
        self._held: dict[int, list[Records]] = {}
        self._runs: list[RunState] = [self.tracker.early]  # those that may still get rows, in order
        self._openings: dict[str, OpenScopes] = {}
        self._group = 0
        self._printouts = TextBlocks()
        self._process: dict[int, RunState] = {}  # what the start of a process says of all its runs
        self._series = Series()
        self._changed: RankDecisions = {}
        self._separate: dict[int, bool] = {}

    def feed(self, lines: Sequence[FormatLine], batch: Batch) -> tuple[dict[str, pa.Table], list[RunState]]:
        """Rows that are complete after this batch, by table, and the runs that ended."""
        lines = list(lines)
        new = self.tracker.starts(lines, batch)
        current = self._runs[-1:]
        self._runs += new
        account([*current, *new], lines, batch)
        self._printouts.feed(lines, self._runs, batch)
        for kind, records in batch.records.items():
            if lines[kind][1].read:
                self._held.setdefault(kind, []).append(records)
                if records.labels is not None and lines[kind][1].closes not in (None, "run"):
                    for place, who in zip(records.places.tolist(), records.labels.tolist(), strict=True):
                        if who >= 0:
                            next(r for r in reversed(self._runs) if r.place <= place).closers.add(who)
        return self._release(lines, self._cut(lines))

    def finish(self, lines: Sequence[FormatLine]) -> tuple[dict[str, pa.Table], list[RunState]]:
        """The rest, at the end of the log. Raises Changed if ranks given out early turn out wrong."""
        self._printouts.finish()
        tables, ended = self._release(list(lines), None)
        ended += self._runs
        for run in self._runs:
            self._check(run)
        self._runs = []
        if self._changed or self._separate:
            raise RereadRequired(self._changed, self._separate)
        return tables, ended

    # --- what is given out now, and what waits ----------------------------------------------------------------

    def _cut(self, lines: list[FormatLine]) -> int | dict[int, int]:
        """Place up to which records are complete; where ranks close their own steps, the place for each label."""
        held = {kind: parts for kind, parts in self._held.items() if parts}
        size = sum(len(p) for parts in held.values() for p in parts)
        end = max((int(p.places[-1]) for parts in held.values() for p in parts if len(p)), default=-1)
        if size > HELD:
            return end
        last = self._runs[-1]
        young = 0
        if any(f.fingerprints for f, _ in lines) and not any(v.ballots for v in last.votes.values()):
            young = sum(
                len(p.places) - int(np.searchsorted(p.places, last.place)) for parts in held.values() for p in parts
            )
        if 0 < young < ENOUGH:
            end = min(end, last.place - 1)
        if not any(x.closes not in (None, "run") for _, x in lines):
            return end
        closing = [p for k in held if lines[k][1].closes not in (None, "run") for p in held[k] if len(p)]
        if not any(map(self._apart, self._runs)):
            closed = max((int(p.places[-1]) for p in closing), default=-1)
            return min(end, max(closed, last.place - 1))
        ends: dict[int, int] = {-1: min(end, last.place - 1)}
        for part in closing:
            for who, place in zip(self._streams(part).tolist(), part.places.tolist(), strict=True):
                ends[who] = max(ends.get(who, -1), min(end, place))
        return ends

    def _apart(self, run: RunState) -> bool:
        """Whether labelled ranks close their own steps in this run."""
        return self._known.get(run.index, self._guess)

    def _streams(self, records: Records) -> Ints:
        """The stream a record's step is closed in: its rank label where ranks close their own steps, else -1."""
        apart = np.array([self._apart(r) for r in self._runs], np.bool_)
        run = np.searchsorted(np.array([r.place for r in self._runs], np.int64), records.places, "right") - 1
        return np.where(apart[run], label_of(records), -1)

    def _release(
        self, lines: list[FormatLine], cut: int | dict[int, int] | None
    ) -> tuple[dict[str, pa.Table], list[RunState]]:
        ready: dict[int, Records] = {}
        for kind, parts in list(self._held.items()):
            if not parts:
                continue
            records = join(parts)
            if isinstance(cut, dict):
                ends = np.array([cut.get(who, cut[-1]) for who in self._streams(records).tolist()], np.int64)
                done = records.places <= np.maximum(ends, cut[-1])
                ready[kind], rest = records.take(done), records.take(~done)
            else:
                stop = len(records) if cut is None else int(np.searchsorted(records.places, cut, "right"))
                ready[kind] = records.take(slice(0, stop)) if stop < len(records) else records
                rest = records.take(slice(stop, None))
            if not len(ready[kind]):
                del ready[kind]
            self._held[kind] = [rest.copy()] if len(rest) else []
        tables = self._rows(lines, ready) if ready else {}
        waiting = min((int(p.places[0]) for parts in self._held.values() for p in parts if len(p)), default=None)
        ended = []
        while len(self._runs) > 1 and (waiting is None or self._runs[1].place <= waiting):
            if self._printouts.run is self._runs[0]:  # a printout of it goes on
                break
            run = self._runs.pop(0)
            self._check(run)
            ended.append(run)
        return tables, ended

    def _check(self, run: RunState) -> None:
        """A run has ended: ranks given out before its last vote must be those of the whole vote."""
        if run.started in self._process:
            for key, values in self._process[run.started].config.items():
                run.config.setdefault(key, values)
        if run.closers and (len(run.closers) > 1) != self._apart(run):
            self._separate[run.index] = len(run.closers) > 1
        final: dict[str, KeyRanks] = dict(self._rules.decided.get(run.index, {}))
        for name, used in run.used.items():  # in the order of the rules: a later one may vote by an earlier one
            final[name] = run.votes[name].decide() if name in run.votes else {}
            if any(final[name].get(key, -1) != told for key, told in used.items()):
                self._changed[run.index] = final
                return

    # --- rows -------------------------------------------------------------------------------------------------

    def _rows(self, lines: list[FormatLine], ready: dict[int, Records]) -> dict[str, pa.Table]:
        edges = np.array([r.place for r in self._runs], np.int64)
        ids = text_array(str(r.index) for r in self._runs)
        rows: dict[int, LineRows] = {}
        for form in dict.fromkeys(lines[k][0] for k in ready):
            mine = {k: r for k, r in ready.items() if lines[k][0] is form}
            rows |= self._format_rows(form, lines, mine, edges, ids)
        for kind, row in rows.items():
            line = lines[kind][1]
            if line.table == "runs" or line.run:
                cuts = np.searchsorted(row.records.places, edges).tolist()
                for run, low, high in zip(self._runs, cuts, [*cuts[1:], len(row)], strict=True):
                    if high > low:
                        self._describe(run, line, row.records, low, high)
        steps = [r for r in rows.values() if r.line.table == "steps"]
        if steps:
            number(self._runs, steps, edges)
            self._series.add(self._runs, steps, edges)
        tables = self.builder.tables([r for r in rows.values() if r.line.table != "summaries"])
        sums = [r for r in rows.values() if r.line.table == "summaries"]
        if sums:
            tables["summaries"] = summaries(self.builder, self._series, self._runs, sums, edges)
        return tables

    def _describe(self, run: RunState, line: Line, records: Records, low: int, high: int) -> None:
        describe(run, line, records, low, high)
        if line.opens == "process" and run.process is not None:
            says = self._process.setdefault(run.process, RunState(0, 0, 0, 0))
            describe(says, line, records, low, high)

    def _format_rows(
        self, form: Format, lines: list[FormatLine], mine: dict[int, Records], edges: Ints, ids: pa.Array
    ) -> dict[int, LineRows]:
        closing = [(lines[k][1], r) for k, r in mine.items() if lines[k][1].closes not in (None, "run")]
        framing = StepGrouper(closers(closing), edges, ids, self._group)
        self._group = framing.next_group
        labels: Ints | None = None
        if any(map(self._apart, self._runs)):
            streams = [self._streams(r) for _, r in closing]
            order = np.argsort(np.concatenate([r.places for _, r in closing]), kind="stable") if closing else slice(0)
            labels = np.concatenate([*streams, np.empty(0, np.int64)])[order]
        closed = any(x.closes not in (None, "run") for f, x in lines if f is form)
        opening = self._opening(form, lines, mine, edges)
        state = self._openings[form.name]
        rows: dict[int, LineRows] = {}
        for kind, records in mine.items():
            line = lines[kind][1]
            frame = (
                framing.frame(records) if labels is None else framing.per_rank(records, self._streams(records), labels)
            )
            ranks = rank_votes.unknown(len(records))
            row = LineRows(line, records, frame, frame.step, frame.known, ranks, closed=closed)
            if any(closer.closes in line.outside for closer, _ in closing):
                row.step, row.step_known = np.zeros(len(records), np.int64), np.zeros(len(records), np.bool_)
            if "rank" in records.columns:
                printed = records.columns["rank"]
                real = np.flatnonzero((printed >= 0) & (printed < _MOST_RANKS))
                ranks.fill(real, printed[real], rank_votes.PRINTED)
            elif records.labels is not None:
                has = np.flatnonzero(records.labels >= 0)
                ranks.fill(has, records.labels[has], rank_votes.LABEL)
            for scope, inherited in state.inherit(records.places, frame.run, opening).items():
                if scope not in line.outside and line.table:
                    self._inherit(scope, inherited, row)
            if "step" in records.columns:
                # A copy: the batch's memory is used again before the rows are written.
                row.step, row.step_known = np.array(records.columns["step"]), np.ones(len(records), np.bool_)
            elif "step" in line.compute:
                numbers = {k: v.astype(np.float64) for k, v in records.columns.items() if isinstance(v, np.ndarray)}
                real = np.broadcast_to(line.compute["step"](numbers), len(records))
                row.step_known = np.abs(real) < _EXACT
                row.step = np.where(row.step_known, real, 0).astype(np.int64)
            rows[kind] = row
        self._rules.apply(form, {lines[k][1].name: row for k, row in rows.items()}, self._runs, state)
        return rows

    def _inherit(self, scope: str, inherited: Any, row: LineRows) -> None:
        """Fill step, rank and other columns from an opening line; a scope without such a field counts."""
        marks, index = inherited.marks, inherited.index
        for name in marks.fields:
            if name == "step":
                values, known = marks.numbers("step")
                row.step, row.step_known = values[index], known[index] & (index >= 0)
            elif name == "rank":
                values, known = marks.numbers("rank")
                real = known & (values >= 0) & (values < _MOST_RANKS)
                ok = np.flatnonzero(real[index] & (index >= 0) & (row.ranks.rank < 0))
                row.ranks.fill(ok, values[index[ok]], rank_votes.HEADER)
            elif name not in row.records.columns:
                row.inherited[name] = picked_words(index, [None if v is None else str(v) for v in marks.fields[name]])
        if scope not in marks.fields:
            row.inherited[scope] = picked_words(index, [str(c) for c in marks.count.tolist()])

    def _opening(
        self, form: Format, lines: list[FormatLine], mine: dict[int, Records], edges: Ints
    ) -> dict[str, Markers]:
        scopes = [s for s in form.scopes if s not in ("run", "process")]
        state = self._openings.setdefault(form.name, OpenScopes(scopes))
        found = {
            scope: gather([(lines[k][1], r) for k, r in mine.items() if lines[k][1].opens == scope]) for scope in scopes
        }
        first = self._runs[0].index
        marks = state.update(found, lambda at: np.searchsorted(edges, at, "right") - 1 + first)
        return {s: Markers(m.at, m.fields, m.run - first, m.count) for s, m in marks.items()}
