"""Rank rules of a format: prove the ranks of records that print none.

In: the rows of a stretch of the log, with the ranks that are printed or inherited. Out: more ranks, with the rule in
column `rank_by`: `fingerprint` (votes on keys) and `adjacent` (only one partner is possible).

The other rules: `attributed_rows` takes ranks that the line, its header or the name of its file prints; `local_ranks`
takes ranks from labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Ints
from perflog.formats.model import Fingerprint, Format
from perflog.parsing.assemble.attributed_rows import ADJACENT, FINGERPRINT, HEADER, AttributedRows, JoinedRows
from perflog.parsing.assemble.ranks.rank_votes import KeyRanks, KeyVotes, fill_ranks, key_codes, tally, vote_keys
from perflog.parsing.assemble.runs.run_state import RunIndex
from perflog.parsing.assemble.scopes import OpenScopes
from perflog.parsing.match.records import Records, join
from perflog.tables.row_order import PART_BITS

RankDecisions = dict[int, dict[str, KeyRanks]]
"""By number of the run, then by name of the fingerprint: the rank of each key."""

_CHANGED = -3  # a key that was given different ranks in the course of the run


class _RunVotes(Struct):
    """By fingerprint: the votes of a run, and the ranks that keys were given before the vote was complete."""

    votes: dict[str, KeyVotes] = field(default_factory=dict)
    used: dict[str, KeyRanks] = field(default_factory=dict)


class RankRules:
    """Votes go on over a whole run; `decided` is what an earlier reading of the log has settled.

    `corrections` holds the runs that have ended with a whole vote that differs from the ranks given out before.
    """

    def __init__(self, decided: RankDecisions) -> None:
        self.corrections: RankDecisions = {}
        self._decided = decided
        self._runs: dict[int, _RunVotes] = {}  # by number of the run
        self._last: dict[str, Records] = {}  # by line: the last record, which the next batch may begin directly after

    def has_votes(self, run: int) -> bool:
        """Return whether a record has voted in a run."""
        return run in self._runs and any(votes.ballots for votes in self._runs[run].votes.values())

    def apply(self, form: Format, shapes: Sequence[AttributedRows], runs: RunIndex, scopes: OpenScopes) -> None:
        """Fill the ranks of the rows of a format, which lie in these runs. Several shapes may be of one line."""
        joined = _by_line(form, shapes)
        self._apply(form, {name: rows_of_line.whole for name, rows_of_line in joined.items()}, runs, scopes)
        for rows_of_line in joined.values():
            rows_of_line.write_back()

    def _apply(self, form: Format, rows: Mapping[str, AttributedRows], runs: RunIndex, scopes: OpenScopes) -> None:
        """The same for the rows by name of their line."""
        for fingerprint in form.fingerprints:
            if fingerprint.vote_line in rows:
                self._vote(fingerprint, rows, runs)
            decisions = {run.index: self._decision(run.index, fingerprint.name) for run in runs.runs}
            for name, fields in fingerprint.reads.items():
                if name not in rows:
                    continue
                row = rows[name]
                codes, keys = key_codes([row.records.columns[f] for f in fields])
                voted = fill_ranks(row.ranks, row.groups.run_number, codes, keys, decisions)
                if row.groups.run[-1] == len(runs.runs) - 1:
                    last = runs.runs[-1].index
                    self._remember_use(last, fingerprint.name, decisions[last], keys)
                _correct_headers(scopes, row, voted)
        for name, partner in form.adjacent:
            if name in rows and partner in rows:
                _fill_adjacent(rows[name], rows[partner])

    def end(self, run: int) -> None:
        """Check a run that has ended: ranks given out before its last vote must agree with the whole vote."""
        state = self._runs.pop(run, _RunVotes())
        final: dict[str, KeyRanks] = dict(self._decided.get(run, {}))
        for name, used in state.used.items():  # in the order of the rules: a later one may vote by an earlier one
            final[name] = state.votes[name].decide() if name in state.votes else {}
            if any(final[name].get(key, -1) != rank for key, rank in used.items()):
                self.corrections[run] = final
                return

    def _vote(self, fingerprint: Fingerprint, rows: Mapping[str, AttributedRows], runs: RunIndex) -> None:
        """Count the votes of the voting line, with its own ranks or with the ranks of the line directly before."""
        row = rows[fingerprint.vote_line]
        codes, keys = key_codes(vote_keys(fingerprint, row.records))
        voters = row.ranks.rank
        if fingerprint.after is not None:
            voters = self._ranks_before(fingerprint.after, rows, row.records.positions)
        votes = {
            run.index: self._runs.setdefault(run.index, _RunVotes()).votes.setdefault(fingerprint.name, KeyVotes())
            for run in runs.runs
        }
        tally(votes, row.groups.run_number, row.groups.number, codes, keys, voters)

    def _ranks_before(self, line: str, rows: Mapping[str, AttributedRows], positions: Ints) -> Ints:
        """Return the rank of the record of a line directly before each position, -1 if there is none."""
        parts = [self._last[line]] if line in self._last else []
        if line in rows:
            parts.append(Records(rows[line].records.positions, {"rank": rows[line].ranks.rank}))
        if not parts:
            return np.full(len(positions), -1, np.int64)
        records = join(parts)
        self._last[line] = records.take(slice(len(records) - 1, None)).copy()
        index = _directly_before(positions, records)
        return np.where(index >= 0, records.columns["rank"][index], -1)

    def _decision(self, run: int, fingerprint: str) -> KeyRanks:
        """Return the ranks of the keys in a run: by its votes so far, or as an earlier reading has settled them."""
        settled = self._decided.get(run, {}).get(fingerprint)
        if settled is not None:
            return settled
        votes = self._runs[run].votes.get(fingerprint) if run in self._runs else None
        return {} if votes is None else votes.decide()

    def _remember_use(self, run: int, fingerprint: str, decision: KeyRanks, keys: list[object]) -> None:
        """Remember which ranks keys were given in a run that may go on."""
        if fingerprint not in self._decided.get(run, {}):
            used = self._runs.setdefault(run, _RunVotes()).used.setdefault(fingerprint, {})
            for key in keys:
                rank = decision.get(key, -1)
                used[key] = rank if used.get(key, rank) == rank else _CHANGED


def _by_line(form: Format, shapes: Sequence[AttributedRows]) -> dict[str, JoinedRows]:
    """The rows of each line, without shapes that lack a field which a rule of the format asks for."""
    fields: dict[str, set[str]] = {}
    for fingerprint in form.fingerprints:
        names = {name for formula in fingerprint.vote_key for name in formula.names}
        fields.setdefault(fingerprint.vote_line, set()).update(names)
        for line, read in fingerprint.reads.items():
            fields.setdefault(line, set()).update(read)
    shapes_by_line: dict[str, list[AttributedRows]] = {}
    for shape in shapes:
        if shape.records.columns.keys() >= fields.get(shape.line.name, set()):
            shapes_by_line.setdefault(shape.line.name, []).append(shape)
    return {name: JoinedRows(each, fields.get(name, ())) for name, each in shapes_by_line.items()}


def _directly_before(positions: Ints, records: Records) -> Ints:
    """Return the index of the record on the line above each position, or in the part before it; -1 if there is none."""
    if not len(records):
        return np.full(len(positions), -1, np.int64)
    index = np.searchsorted(records.positions, positions) - 1
    before = records.positions[index]
    adjacent = (positions - before == 1) | ((positions >> PART_BITS) - (before >> PART_BITS) == 1)
    return np.where((index >= 0) & adjacent, index, -1)


def _correct_headers(scopes: OpenScopes, rows: AttributedRows, voted: Ints) -> None:
    """Correct the rows that do not belong to the header above them, because ranks wrote at the same time.

    A record with the key of another rank belongs to the last header of that rank. A record with a doubtful key
    gets no rank: the doubt comes from records under the headers of other ranks.
    """
    wrong = np.flatnonzero((rows.ranks.rule == HEADER) & (voted != -1) & (voted != rows.ranks.rank))
    if not len(wrong):
        return
    known = voted[wrong] >= 0
    rows.ranks.fill(wrong[known], voted[wrong[known]], FINGERPRINT)
    rows.ranks.fill(wrong[~known], -1, -1)
    rows.step, rows.step_known = rows.step.copy(), rows.step_known.copy()
    rows.step_known[wrong] = False
    for markers in scopes.markers.values():
        if "rank" in markers.fields and "step" in markers.fields:
            ranks, steps = markers.fields["rank"], markers.fields["step"]
            for i in wrong[known].tolist():
                k = int(np.searchsorted(markers.positions, rows.records.positions[i])) - 1
                while k >= 0 and ranks[k] != voted[i]:
                    k -= 1
                if k >= 0 and steps[k] is not None:
                    rows.step[i], rows.step_known[i] = steps[k], True


def _fill_adjacent(row: AttributedRows, partner: AttributedRows) -> None:
    """Give each record without a rank the rank of its partner, where only one partner is possible."""
    index = _only_partners(row, partner)
    rows = np.flatnonzero((index >= 0) & (row.ranks.rank < 0))
    rows = rows[partner.ranks.rank[index[rows]] >= 0]
    row.ranks.fill(rows, partner.ranks.rank[index[rows]], ADJACENT)


def _only_partners(rows: AttributedRows, partner: AttributedRows) -> Ints:
    """Return the index of the partner of each record where only one is possible, else -1.

    A rank prints its `partner` line, then its line of `rows`. Within a group (a step) the lines are matched like
    brackets: a record has one possible partner where exactly one partner line is open, and no other was open with it.
    """
    openings = len(partner)
    positions = np.concatenate([partner.records.positions, rows.records.positions])
    order = np.argsort(positions, kind="stable")
    partners = np.full(len(rows), -1, np.int64)
    if not len(order):
        return partners
    opening = order < openings
    groups = np.concatenate([partner.groups.number, rows.groups.number])[order]
    first = np.ones(len(order), np.bool_)  # of its group
    first[1:] = groups[1:] != groups[:-1]
    change = np.where(opening, 1, -1)
    depth = np.cumsum(change)
    base = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    depth -= depth[base] - change[base]
    # An opening at depth 1, directly before a closing at depth 0
    close = np.flatnonzero(~opening[1:] & opening[:-1] & (depth[:-1] == 1) & (depth[1:] == 0) & ~first[1:]) + 1
    partners[order[close] - openings] = order[close - 1]
    return partners
