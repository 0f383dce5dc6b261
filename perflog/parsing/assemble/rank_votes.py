"""Who printed a line: fills a missing rank where a rule proves it, and says which rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perflog.formats.model import Fingerprint
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS

RULES = ("printed", "label", "header", "fingerprint", "adjacent")
PRINTED, LABEL, HEADER, FINGERPRINT, ADJACENT = range(5)
KeyRanks = dict[Any, int]
"""Key of a fingerprint -> rank, or DOUBTFUL."""

DOUBTFUL = -2
"""What a key tells whose votes contradict each other."""

_SHARE = 0.9  # of a key's votes that must name one rank
_LEAST = 2  # votes
_CONSTANT = 0.5  # of the steps in which a rank votes at all, the share in which it votes for the key


@dataclass
class RecordRanks:
    """Rank of each record, -1 where unknown, and the rule (index into RULES, -1 if none)."""

    rank: Ints
    rule: npt.NDArray[np.int8]

    def fill(self, rows: Any, rank: Any, rule: int) -> None:
        self.rank[rows] = rank
        self.rule[rows] = rule


def unknown(count: int) -> RecordRanks:
    """No rank known of any record."""
    return RecordRanks(np.full(count, -1, np.int64), np.full(count, -1, np.int8))


@dataclass
class KeyVotes:
    """Votes of one run for the keys of one fingerprint."""

    ballots: Counter[tuple[Any, int]] = field(default_factory=Counter)
    steps: Counter[int] = field(default_factory=Counter)  # rank -> steps in which it voted

    def decide(self) -> KeyRanks:
        """Keys that tell a rank: nine in ten of a key's votes name it, and the key is the rank's own all along.

        A key whose votes contradict each other is DOUBTFUL; one with too few votes is not there.
        """
        total: Counter[Any] = Counter()
        best: dict[Any, tuple[int, int]] = {}
        for (key, rank), count in self.ballots.items():
            total[key] += count
            best[key] = max(best.get(key, (0, -1)), (count, rank))
        found: KeyRanks = {}
        for key, (count, rank) in best.items():
            if count >= max(_LEAST, _SHARE * total[key], _CONSTANT * self.steps[rank]):
                found[key] = rank
            elif count < total[key]:
                found[key] = DOUBTFUL
        return found


def key_codes(values: list[Any]) -> tuple[Ints, list[Any]]:
    """Rows coded by the values of one or more columns: (code of each row, key of each code)."""
    if len(values) == 1 and isinstance(values[0], np.ndarray):
        found, codes = _unique(np.asarray(values[0], np.float64))
        return codes, found.tolist()
    columns = [v.to_pylist() if isinstance(v, pa.Array) else v.tolist() for v in values]
    index: dict[Any, int] = {}
    codes = np.array([index.setdefault(key, len(index)) for key in zip(*columns, strict=True)], np.int64)
    return codes, list(index)


def _unique(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], Ints]:
    """np.unique with inverse, quick for the few distinct values that a fingerprint has: by a hash table of 2^16."""
    bits = (values + 0.0).view(np.uint64)
    slot = ((bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(48)).astype(np.int64)
    last = np.full(1 << 16, -1, np.int64)
    last[slot] = np.arange(len(slot))  # the last row of each slot
    rows = last[last >= 0]
    codes_of = np.empty(1 << 16, np.int64)
    codes_of[slot[rows]] = np.arange(len(rows))
    found, codes = values[rows], codes_of[slot]
    if bool((found[codes] == values).all()):
        return found, codes
    found, codes = np.unique(values, return_inverse=True)  # two values in one slot, or nan
    return found, codes


def neighbours(at: Ints, after: Records) -> Ints:
    """Index of the `after` record directly before each record (the line above, or the part before), -1 if none."""
    if not len(after.places):
        return np.full(len(at), -1, np.int64)
    index = np.searchsorted(after.places, at) - 1
    gap = at - after.places[index]
    near = (index >= 0) & ((gap == 1) | ((at >> PART_BITS) - (after.places[index] >> PART_BITS) == 1))
    return np.where(near, index, -1)


def tally(votes: Mapping[int, KeyVotes], run: Ints, step: Ints, codes: Ints, names: list[Any], rank: Ints) -> None:
    """Count the votes of rows with a rank: row i, of run `run[i]` and step `step[i]`, says its key is `rank[i]`'s.

    `run` and `step` are ascending numbers.
    """
    rows = np.flatnonzero(rank >= 0)
    if not len(rows):
        return
    run, step, codes, rank = run[rows], step[rows], codes[rows], rank[rows]
    ranks, first, many = int(rank.max()) + 1, int(run[0]), len(names)
    found, counts = _count(((run - first) * many + codes) * ranks + rank)
    for code, n in zip(found.tolist(), counts.tolist(), strict=True):
        pair, who = divmod(code, ranks)
        r, key = divmod(pair, many)
        votes[first + r].ballots[names[key], who] += n
    fresh = np.concatenate([[0], np.cumsum(step[1:] != step[:-1])])
    spans, _ = _count(fresh * ranks + rank)  # each step in which a rank votes once
    in_run = run[np.searchsorted(fresh, spans // ranks)] - first
    found, counts = _count(in_run * ranks + spans % ranks)
    for code, n in zip(found.tolist(), counts.tolist(), strict=True):
        r, who = divmod(code, ranks)
        votes[first + r].steps[who] += n


def _count(codes: Ints) -> tuple[Ints, Ints]:
    """Distinct codes, and how often each stands there."""
    if int(codes.max()) > 8 * len(codes) + 4096:
        return np.unique(codes, return_counts=True)
    counts = np.bincount(codes)
    found = np.flatnonzero(counts)
    return found, counts[found]


def apply(
    ranks: RecordRanks, run: Ints, first: int, codes: Ints, names: list[Any], decided: Mapping[int, KeyRanks]
) -> Ints:
    """What each row's key tells in its run (`run + first`): a rank, DOUBTFUL or -1. Fills `ranks` where unknown."""
    if not len(names):
        return np.full(len(run), -1, np.int64)
    low = int(run[0])
    table = np.full((int(run[-1]) - low + 1, len(names)), -1, np.int64)
    for i in range(len(table)):
        known = decided.get(first + low + i, {})
        if known:
            table[i] = [known.get(name, -1) for name in names]
    told = table[run - low, codes]
    rows = np.flatnonzero((told >= 0) & (ranks.rank < 0))
    ranks.fill(rows, told[rows], FINGERPRINT)
    return told


def vote_keys(fingerprint: Fingerprint, records: Records) -> list[Any]:
    """The key columns of the voting line: computed once per distinct combination of values."""
    names = sorted({n for e in fingerprint.vote_key for n in e.names})
    columns = [records.columns[n] for n in names]
    if [e.text for e in fingerprint.vote_key] == names or not all(isinstance(c, np.ndarray) for c in columns):
        return [records.columns[e.text] for e in fingerprint.vote_key]
    codes = np.zeros(len(records), np.int64)
    for column in columns:
        found, own = _unique(np.asarray(column, np.float64))
        codes = codes * len(found) + own
    first, inverse = _distinct(codes)
    with np.errstate(all="ignore"):
        rows = {n: np.asarray(c, np.float64)[first] for n, c in zip(names, columns, strict=True)}
        values = [np.asarray(e(rows), np.float64) for e in fingerprint.vote_key]
    return [v[inverse] for v in values]


def _distinct(codes: Ints) -> tuple[Ints, Ints]:
    """A row of each distinct code, and for each row which of them it is."""
    if int(codes.max()) > 1 << 20:
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return first, inverse
    last = np.full(int(codes.max()) + 1, -1, np.int64)
    last[codes] = np.arange(len(codes))
    found = np.flatnonzero(last >= 0)
    place = np.empty(len(last), np.int64)
    place[found] = np.arange(len(found))
    return last[found], place[codes]


def adjacent(at: Ints, group: Ints, after: Records, after_group: Ints) -> Ints:
    """Index of the `after` record that each record belongs to where only one is possible, else -1.

    A rank prints its `after` line, then this one. Within a group (a step) the lines are matched like brackets: a
    line has one possible partner where exactly one `after` is still open, and it was opened alone.
    """
    places = np.concatenate([after.places, at])
    order = np.argsort(places, kind="stable")
    opening = order < len(after.places)
    groups = np.concatenate([after_group, group])[order]
    partner = np.full(len(at), -1, np.int64)
    if not len(order):
        return partner
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = groups[1:] != groups[:-1]
    delta = np.where(opening, 1, -1)
    depth = np.cumsum(delta)
    base = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    depth -= depth[base] - delta[base]
    # [alone, alone]: an opening at depth 1 whose next line is the closing at depth 0
    close = np.flatnonzero(~opening[1:] & opening[:-1] & (depth[:-1] == 1) & (depth[1:] == 0) & ~fresh[1:]) + 1
    partner[order[close] - len(after.places)] = order[close - 1]
    return partner
