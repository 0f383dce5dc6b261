"""Votes on ranks: records with a known rank and a key (such as a number of tokens) show which rank has that key.

In: the keys of a run's records and the ranks that are known. Out: the rank of each key in the run, for records that
print only the key. A format declares such keys as `[[fingerprint]]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from perflog.arrays import Floats, Ints
from perflog.formats.model import Fingerprint
from perflog.parsing.assemble.line_rows import FINGERPRINT, RecordRanks
from perflog.parsing.match.records import Records

KeyRanks = dict[Any, int]
"""Rank of each key of a fingerprint, or DOUBTFUL."""

DOUBTFUL = -2
"""Sentinel for conflicting votes."""

_LEAST_SHARE = 0.9  # of a key's votes that must name one rank
_LEAST_VOTES = 2
_FEW_VALUES = 1 << 12  # their distinct values fit into a small table
_LEAST_STEPS = 0.5  # of the steps in which a rank votes at all, the share in which it must vote for the key


class KeyVotes(Struct):
    """The votes of one run on the keys of one fingerprint."""

    ballots: Counter[tuple[Any, int]] = field(default_factory=Counter)  # by key and rank
    steps: Counter[int] = field(default_factory=Counter)  # by rank: steps in which it voted

    def decide(self) -> KeyRanks:
        """Return the rank of each key for which nine in ten votes name one rank, which votes for it all along.

        A key with contradictory votes is DOUBTFUL; a key with too few votes is left out.
        """
        total: Counter[Any] = Counter()
        best: dict[Any, tuple[int, int]] = {}
        for (key, rank), count in self.ballots.items():
            total[key] += count
            best[key] = max(best.get(key, (0, -1)), (count, rank))
        ranks: KeyRanks = {}
        for key, (count, rank) in best.items():
            if count >= max(_LEAST_VOTES, _LEAST_SHARE * total[key], _LEAST_STEPS * self.steps[rank]):
                ranks[key] = rank
            elif count < total[key]:
                ranks[key] = DOUBTFUL
        return ranks


def key_codes(columns: list[Any]) -> tuple[Ints, list[Any]]:
    """Code rows by the values of one or more columns. Return the code of each row, and the key of each code."""
    if len(columns) == 1 and isinstance(columns[0], np.ndarray):
        distinct, codes = _unique(np.asarray(columns[0], np.float64))
        return codes, distinct.tolist()
    values = [v.to_pylist() if isinstance(v, pa.Array) else v.tolist() for v in columns]
    index: dict[Any, int] = {}
    codes = np.array([index.setdefault(key, len(index)) for key in zip(*values, strict=True)], np.int64)
    return codes, list(index)


def _unique(values: Floats) -> tuple[Floats, Ints]:
    """np.unique with inverse, fast for the few distinct values that a fingerprint has: by a hash table."""
    width = 16 if len(values) > _FEW_VALUES else 10  # bits of a slot
    bits = (values + 0.0).view(np.uint64)
    slot = ((bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - width)).astype(np.int64)
    last = np.full(1 << width, -1, np.int64)
    last[slot] = np.arange(len(slot))  # the last row of each slot
    rows = last[last >= 0]
    codes_of = np.empty(1 << width, np.int64)
    codes_of[slot[rows]] = np.arange(len(rows))
    distinct, codes = values[rows], codes_of[slot]
    if bool((distinct[codes] == values).all()):
        return distinct, codes
    distinct, codes = np.unique(values, return_inverse=True)  # two values in one slot, or nan
    return distinct, codes


def tally(votes: Mapping[int, KeyVotes], run: Ints, step: Ints, codes: Ints, keys: list[Any], rank: Ints) -> None:
    """Count the votes of the rows with a known rank: row i says that key `keys[codes[i]]` is of rank `rank[i]`.

    `votes` is by number of the run. `run` and `step` give the number of each row's run and step, ascending.
    """
    rows = np.flatnonzero(rank >= 0)
    if not len(rows):
        return
    run, step, codes, rank = run[rows], step[rows], codes[rows], rank[rows]
    ranks, first = int(rank.max()) + 1, int(run[0])
    distinct, counts = _count(((run - first) * len(keys) + codes) * ranks + rank)
    for code, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        run_and_key, who = divmod(code, ranks)
        offset, key = divmod(run_and_key, len(keys))
        votes[first + offset].ballots[keys[key], who] += count
    step_code = np.concatenate([[0], np.cumsum(step[1:] != step[:-1])])
    steps, _ = _count(step_code * ranks + rank)  # each step in which a rank votes, once
    run_of_step = run[np.searchsorted(step_code, steps // ranks)] - first
    distinct, counts = _count(run_of_step * ranks + steps % ranks)
    for code, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        offset, who = divmod(code, ranks)
        votes[first + offset].steps[who] += count


def _count(codes: Ints) -> tuple[Ints, Ints]:
    """Return the distinct codes, and how often each occurs."""
    if int(codes.max()) > 8 * len(codes) + 4096:
        return np.unique(codes, return_counts=True)
    counts = np.bincount(codes)
    distinct = np.flatnonzero(counts)
    return distinct, counts[distinct]


def fill_ranks(ranks: RecordRanks, run: Ints, codes: Ints, keys: list[Any], decisions: Mapping[int, KeyRanks]) -> Ints:
    """Fill unknown ranks by the key of each row. Return the rank of each key: a rank, DOUBTFUL, or -1.

    `run` gives the number of each row's run, ascending; `decisions` is by that number.
    """
    if not len(keys):
        return np.full(len(run), -1, np.int64)
    first = int(run[0])
    table = np.full((int(run[-1]) - first + 1, len(keys)), -1, np.int64)
    for i in range(len(table)):
        key_ranks = decisions.get(first + i, {})
        if key_ranks:
            table[i] = [key_ranks.get(key, -1) for key in keys]
    voted = table[run - first, codes]
    rows = np.flatnonzero((voted >= 0) & (ranks.rank < 0))
    ranks.fill(rows, voted[rows], FINGERPRINT)
    return voted


def vote_keys(fingerprint: Fingerprint, records: Records) -> list[Any]:
    """Return the key columns of the voting line, computed once per distinct combination of values."""
    names = sorted({n for e in fingerprint.vote_key for n in e.names})
    columns = [records.columns[n] for n in names]
    if [e.text for e in fingerprint.vote_key] == names or not all(isinstance(c, np.ndarray) for c in columns):
        return [records.columns[e.text] for e in fingerprint.vote_key]
    codes = np.zeros(len(records), np.int64)
    for column in columns:
        distinct, column_codes = _unique(np.asarray(column, np.float64))
        codes = codes * len(distinct) + column_codes
    first, inverse = _distinct(codes)
    with np.errstate(all="ignore"):
        rows = {n: np.asarray(c, np.float64)[first] for n, c in zip(names, columns, strict=True)}
        values = [np.asarray(e(rows), np.float64) for e in fingerprint.vote_key]
    return [v[inverse] for v in values]


def _distinct(codes: Ints) -> tuple[Ints, Ints]:
    """Return a row of each distinct code, and for each row which of these it is."""
    if int(codes.max()) > 1 << 20:
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return first, inverse
    last = np.full(int(codes.max()) + 1, -1, np.int64)
    last[codes] = np.arange(len(codes))
    distinct = np.flatnonzero(last >= 0)
    position = np.empty(len(last), np.int64)
    position[distinct] = np.arange(len(distinct))
    return last[distinct], position[codes]
