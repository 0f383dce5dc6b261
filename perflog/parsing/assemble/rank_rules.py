"""Applies a format's rank rules to its rows, stretch by stretch of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from perflog.formats.model import Format
from perflog.parsing.assemble import rank_votes
from perflog.parsing.assemble.rank_votes import KeyRanks, KeyVotes
from perflog.parsing.assemble.rows import LineRows
from perflog.parsing.assemble.runs import RunState
from perflog.parsing.assemble.scopes import OpenScopes
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.records import Records, join

RankDecisions = dict[int, dict[str, KeyRanks]]
"""Run index -> fingerprint -> key -> rank."""


_UNSTEADY = -3  # a key of which not always the same was said


class RankRules:
    """Votes go on over the whole run; `decided` is what a first reading of the log has settled."""

    def __init__(self, decided: RankDecisions | None) -> None:
        self.decided = decided or {}
        self._before: dict[str, Records] = {}  # last record that a later one may stand directly behind
        self._runs: Sequence[RunState] = ()

    def apply(self, form: Format, rows: Mapping[str, LineRows], runs: Sequence[RunState], openings: OpenScopes) -> None:
        """Fill the ranks of the rows of each line of a format, by name. `runs` are those the rows lie in."""
        self._runs = runs
        first = runs[0].index
        for fingerprint in form.fingerprints:
            reads = {n: fields for n, fields in fingerprint.reads.items() if n in rows}
            if fingerprint.vote_line in rows:
                row = rows[fingerprint.vote_line]
                codes, names = rank_votes.key_codes(rank_votes.vote_keys(fingerprint, row.records))
                who = row.ranks.rank
                if fingerprint.after is not None:
                    who = self._voter(fingerprint.after, rows, row.records.places)
                votes = {r.index: r.votes.setdefault(fingerprint.name, KeyVotes()) for r in self._runs}
                rank_votes.tally(votes, row.frame.run + first, row.frame.group, codes, names, who)
            decided = self._decide(fingerprint.name)
            for name, fields in reads.items():
                row = rows[name]
                codes, names = rank_votes.key_codes([row.records.columns[f] for f in fields])
                told = rank_votes.apply(row.ranks, row.frame.run, first, codes, names, decided)
                self._note(fingerprint.name, decided, int(row.frame.run[-1]) + first, names)
                _contradicted(openings, row, told)
        for name, after in form.adjacent:
            if name in rows and after in rows:
                row, partner = rows[name], rows[after]
                index = rank_votes.adjacent(row.records.places, row.frame.group, partner.records, partner.frame.group)
                ok = np.flatnonzero((index >= 0) & (row.ranks.rank < 0))
                ok = ok[partner.ranks.rank[index[ok]] >= 0]
                row.ranks.fill(ok, partner.ranks.rank[index[ok]], rank_votes.ADJACENT)

    def _voter(self, after: str, rows: Mapping[str, LineRows], at: Ints) -> Ints:
        """Rank of the `after` record directly before each place, -1 if there is none."""
        before = self._before.get(after)
        here = rows.get(after)
        parts = ([before] if before is not None else []) + (
            [Records(here.records.places, {"rank": here.ranks.rank})] if here is not None else []
        )
        if not parts:
            return np.full(len(at), -1, np.int64)
        known = join(parts)
        self._before[after] = known.take(slice(len(known) - 1, None)).copy()
        index = rank_votes.neighbours(at, known)
        return np.where(index >= 0, known.columns["rank"][index], -1)

    def _decide(self, name: str) -> dict[int, KeyRanks]:
        """What each run's keys tell: by its votes so far, or as a first reading of the whole log has settled it."""
        out = {}
        for run in self._runs:
            settled = self.decided.get(run.index, {}).get(name)
            out[run.index] = settled if settled is not None else run.votes[name].decide() if name in run.votes else {}
        return out

    def _note(self, name: str, decided: Mapping[int, KeyRanks], run: int, keys: list[Any]) -> None:
        """Remember what was said of the keys of a run that may go on."""
        last = self._runs[-1]
        if last.index == run and name not in self.decided.get(run, {}):
            used = last.used.setdefault(name, {})
            for key in keys:
                told = decided[run].get(key, -1)
                used[key] = told if used.get(key, told) == told else _UNSTEADY


def _contradicted(openings: OpenScopes, row: LineRows, told: Ints) -> None:
    """Lines that do not belong to the header above them: ranks talked over one another.

    A line whose key tells another rank is under that rank's last header. One whose key is doubtful is nobody's: the
    doubt comes from lines under headers not their own.
    """
    header = row.ranks.rule == rank_votes.HEADER
    wrong = np.flatnonzero(header & (told != -1) & (told != row.ranks.rank))
    if not len(wrong):
        return
    known = told[wrong] >= 0
    row.ranks.fill(wrong[known], told[wrong[known]], rank_votes.FINGERPRINT)
    row.ranks.fill(wrong[~known], -1, -1)
    row.step, row.step_known = row.step.copy(), row.step_known.copy()
    row.step_known[wrong] = False
    for marks in openings.now.values():
        if "rank" in marks.fields and "step" in marks.fields:
            for i in wrong[known].tolist():
                k = int(np.searchsorted(marks.at, row.records.places[i])) - 1
                while k >= 0 and marks.fields["rank"][k] != told[i]:
                    k -= 1
                if k >= 0 and marks.fields["step"][k] is not None:
                    row.step[i], row.step_known[i] = marks.fields["step"][k], True
