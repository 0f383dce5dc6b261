"""Whether labelled ranks close their steps separately: as it is known, else as guessed, and then corrected."""

from __future__ import annotations

import numpy as np

from perflog.parsing.assemble.ranks.rank_streams import RankStreams
from perflog.parsing.assemble.runs.run_state import RunIndex, RunState
from perflog.parsing.match.records import Records


def run(index: int) -> RunState:
    """A run of which the first record is at 100 times its number."""
    return RunState(index, 100 * index, 1, 1)


def records(positions: list[int], labels: list[int] | None) -> Records:
    return Records(np.array(positions), {}, None if labels is None else np.array(labels))


RUNS = RunIndex([run(1), run(2)])


def test_a_run_is_separate_as_known_else_as_guessed() -> None:
    streams = RankStreams(True, {2: False})
    assert [streams.separate(run(index)) for index in (1, 2)] == [True, False]
    assert not RankStreams(False, {}).separate(run(1))


def test_the_stream_of_a_record_is_its_label_where_ranks_are_separate() -> None:
    stream_of = RankStreams(True, {2: False}).of(RUNS)
    assert stream_of is not None
    assert stream_of(records([100, 199, 200, 250], [0, 3, 1, 2])).tolist() == [0, 3, -1, -1]
    assert stream_of(records([100, 200], None)).tolist() == [-1, -1]
    assert RankStreams(False, {}).of(RUNS) is None


def closed(guess: bool, labels: list[int] | None, known: bool | None = None) -> dict[int, bool]:
    """The corrections after the first of two runs, of which records with these labels close steps."""
    streams = RankStreams(guess, {} if known is None else {1: known})
    positions = list(range(100, 100 + len(labels or [0, 0])))
    streams.add_closing(RUNS, records(positions, labels))
    streams.end(run(1))
    return streams.corrections


def test_several_ranks_that_close_steps_are_separate() -> None:
    assert closed(False, [0, 1]) == closed(True, [0, 1], known=False) == {1: True}
    assert closed(True, [3, 3, -1]) == closed(False, [3], known=True) == {1: False}


def test_a_guess_that_was_right_or_that_nothing_contradicts_is_not_corrected() -> None:
    assert closed(True, [0, 1]) == closed(False, [0]) == closed(False, [0, 1], known=True) == {}
    assert closed(True, None) == closed(True, [-1, -1]) == closed(False, None) == {}


def test_closing_ranks_are_those_of_all_batches_of_their_own_run() -> None:
    streams = RankStreams(False, {})
    streams.add_closing(RUNS, records([100, 200], [0, 5]))
    streams.add_closing(RUNS, records([150], [1]))
    for index in (1, 2, 1):
        streams.end(run(index))
    assert streams.corrections == {1: True}
