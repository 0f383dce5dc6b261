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
from perflog.parsing.assemble.attributed_rows import FINGERPRINT, RecordRanks
from perflog.parsing.match.records import Records
from perflog.tables.arrow import number_array, numbers_of

KeyRanks = dict[Any, int]
"""Rank of each key of a fingerprint, or DOUBTFUL."""

DOUBTFUL = -2
"""Sentinel for conflicting votes."""

_LEAST_SHARE = 0.9  # of a key's votes that must name one rank
_LEAST_VOTES = 2
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
            best[key] = max(best.get(key, (count, rank)), (count, rank))
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


def _unique(values: Ints | Floats) -> tuple[Any, Ints]:
    """Return the distinct values, and for each value which of these it is: by a hash table, as np.unique sorts."""
    encoded = number_array(values + 0).dictionary_encode()  # -0.0 + 0 is 0.0
    return numbers_of(encoded.dictionary), numbers_of(encoded.indices)


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


def _count(codes: Ints) -> tuple[Any, Ints]:
    """Return the distinct codes, and how often each occurs."""
    distinct, index = _unique(codes)
    return distinct, np.bincount(index)


def fill_ranks(ranks: RecordRanks, run: Ints, codes: Ints, keys: list[Any], decisions: Mapping[int, KeyRanks]) -> Ints:
    """Fill unknown ranks by the key of each row. Return the rank of each key: a rank, DOUBTFUL, or -1.

    `run` gives the number of each row's run; `decisions` is by that number.
    """
    if not len(run):
        return np.empty(0, np.int64)
    runs, index = _unique(run)
    key_ranks = [decisions.get(number, {}) for number in runs.tolist()]
    voted = np.array([[known.get(key, -1) for key in keys] for known in key_ranks], np.int64)[index, codes]
    rows = np.flatnonzero((voted >= 0) & (ranks.rank < 0))
    ranks.fill(rows, voted[rows], FINGERPRINT)
    return voted


def vote_keys(fingerprint: Fingerprint, records: Records) -> list[Any]:
    """Return the key columns of the voting line, computed once per distinct combination of values."""
    computed = [e for e in fingerprint.vote_key if e.text not in records.columns]
    columns = {n: np.asarray(records.columns[n], np.float64) for e in computed for n in e.names}
    codes = np.zeros(len(records), np.int64)
    for column in columns.values():
        distinct, column_codes = _unique(column)
        codes = codes * len(distinct) + column_codes
    distinct, inverse = _unique(codes)
    row = np.empty(len(distinct), np.int64)  # one of each distinct combination
    row[inverse] = np.arange(len(codes))
    with np.errstate(all="ignore"):
        rows = {n: column[row] for n, column in columns.items()}
        keys = {e.text: np.asarray(e(rows), np.float64)[inverse] for e in computed}
    return [keys[e.text] if e.text in keys else records.columns[e.text] for e in fingerprint.vote_key]
