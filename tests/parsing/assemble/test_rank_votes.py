"""Votes on ranks: which rank has a number, by the lines that print both."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.formats.expressions import Expression
from perflog.formats.model import Fingerprint
from perflog.parsing.assemble.attributed_rows import FINGERPRINT, RecordRanks
from perflog.parsing.assemble.ranks.rank_votes import DOUBTFUL, KeyVotes, fill_ranks, key_codes, tally, vote_keys
from perflog.parsing.match.records import Records


def decided(ballots: dict[tuple[Any, int], int], steps: dict[int, int]) -> dict[Any, int]:
    return KeyVotes(Counter(ballots), Counter(steps)).decide()


@pytest.mark.parametrize(
    ("votes", "steps", "expected"),
    [
        ({("a", 0): 2}, {0: 2}, {"a": 0}),
        ({("a", 0): 1}, {0: 1}, {}),  # one vote may be chance
        ({("a", 0): 9, ("a", 1): 1}, {0: 9, 1: 9}, {"a": 0}),
        ({("a", 0): 8, ("a", 1): 1}, {0: 9, 1: 9}, {"a": DOUBTFUL}),
        ({("a", 3): 1, ("a", 2): 1}, {2: 1, 3: 1}, {"a": DOUBTFUL}),
        ({("a", 0): 5}, {0: 10}, {"a": 0}),  # in half of the steps of the rank
        ({("a", 0): 4}, {0: 10}, {}),
        ({("a", 0): 4, ("b", 1): 4}, {0: 4, 1: 4}, {"a": 0, "b": 1}),
        ({("a", 1): 1, ("a", 0): 18, ("a", 2): 1}, {0: 18}, {"a": 0}),  # in whatever order they came
    ],
)
def test_nine_votes_in_ten_and_half_of_the_steps(
    votes: dict[tuple[Any, int], int], steps: dict[int, int], expected: dict[Any, int]
) -> None:
    assert decided(votes, steps) == expected


NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 1.5, 1e300, 2.0**53, -1.0])


@given(st.lists(NUMBERS | st.floats(allow_nan=False), min_size=1, max_size=60))
def test_a_code_for_each_number(values: list[float]) -> None:
    codes, keys = key_codes([np.array(values)])
    assert [keys[code] for code in codes.tolist()] == values
    assert len(keys) == len(set(values))


def test_keys_of_several_columns_and_of_words() -> None:
    codes, keys = key_codes([np.array([1, 1, 2]), pa.array(["x", "y", "x"])])
    assert [keys[code] for code in codes.tolist()] == [(1, "x"), (1, "y"), (2, "x")]
    codes, keys = key_codes([pa.array(["x", "y", "x"])])
    assert [keys[code] for code in codes.tolist()] == [("x",), ("y",), ("x",)]


VOTE = st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(0, 3), st.integers(-1, 3))


@given(st.lists(VOTE, min_size=1, max_size=40).map(sorted), st.integers(1, 5))
def test_votes_are_counted_by_run_and_the_steps_of_a_rank_once(
    rows: list[tuple[int, int, int, int]], first_run: int
) -> None:
    """A row is its run, step, key and rank. Rank -1 does not vote."""
    run, step, codes, rank = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    keys = ["a", "b", "c", "d"]
    votes = {first_run: KeyVotes(), first_run + 1: KeyVotes()}
    for _ in range(2):  # of two parts of the log
        tally(votes, run + first_run, run * 5 + step, codes, keys, rank)
    for number in (0, 1):
        mine = [(s, keys[c], r) for n, s, c, r in rows if n == number and r >= 0] * 2
        assert votes[first_run + number].ballots == Counter((key, r) for _, key, r in mine)
        assert votes[first_run + number].steps == Counter(r for _, r in {(s, r) for s, _, r in mine} for _ in range(2))


def test_only_unknown_ranks_are_filled() -> None:
    ranks = RecordRanks(np.array([-1, 5, 0, -1, -1, -1]), np.full(6, -1, np.int8))
    run, codes = np.array([3, 3, 3, 3, 4, 4]), np.array([2, 2, 2, 1, 2, 1])
    voted = fill_ranks(ranks, run, codes, ["c", "b", "a"], {3: {"a": 8, "b": DOUBTFUL, "c": 9}, 4: {"b": 0}})
    assert voted.tolist() == [8, 8, 8, DOUBTFUL, -1, 0]
    assert ranks.rank.tolist() == [8, 5, 0, -1, -1, 0]
    assert ranks.rule.tolist() == [FINGERPRINT, -1, -1, -1, -1, FINGERPRINT]
    none = RecordRanks(np.empty(0, np.int64), np.empty(0, np.int8))
    empty = np.empty(0, np.int64)
    assert len(fill_ranks(none, empty, empty, [], {})) == 0


def keys_of(records: Records, *formulas: str) -> list[list[Any]]:
    fingerprint = Fingerprint("share", "count", tuple(Expression(text) for text in formulas), None, {})
    return [column.tolist() for column in vote_keys(fingerprint, records)]


@pytest.mark.parametrize("most", [3, 1 << 40])
def test_a_computed_key_is_that_of_each_row(most: int) -> None:
    """However many different rows there are, and whether or not one comes again."""
    amounts, bytes_ = np.array([4, 4, most, 9, 4]), np.array([2, 1, 3, 3, 2])
    records = Records(np.arange(5), {"amount": amounts, "bytes": bytes_})
    assert keys_of(records, "amount / bytes") == [(amounts / bytes_).tolist()]
    assert keys_of(records, "bytes", "amount - bytes") == [bytes_.tolist(), (amounts - bytes_).tolist()]


def test_a_key_of_fields_alone_is_their_values() -> None:
    records = Records(np.arange(2), {"word": np.array(["x", "y"]), "amount": np.array([2**60 + 1, 3])})
    assert keys_of(records, "word", "amount") == [["x", "y"], [2**60 + 1, 3]]


def test_a_division_by_zero_gives_infinity_without_a_warning() -> None:
    records = Records(np.arange(2), {"amount": np.array([1, 4]), "bytes": np.array([0, 2])})
    assert keys_of(records, "amount / bytes") == [[float("inf"), 2]]
