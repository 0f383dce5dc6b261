"""Rank rules of a format: numbers of a rank, and lines beside its lines, show which rank printed a line."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from support.reading import read

from perflog.formats.loader.format_file import load
from perflog.formats.model import Format
from perflog.parsing.assemble.ranks.rank_rules import RankRules, _directly_before
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS

FORMAT = """
title = "blocks of ranks"
scopes = ["run", "turn", "step"]
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "turn"
opens = "turn"
text = "turn of rank {rank:d} at step {step:d}"
sample = "turn of rank 3 at step 1"
[[line]]
name = "count"
table = "values"
text = "rank {rank:d} counted {blocks:d} blocks"
sample = "rank 3 counted 17 blocks"
[[line]]
name = "size"
table = "values"
text = "sized {blocks:d} blocks of {bytes:d} bytes"
sample = "sized 17 blocks of 512 bytes"
[[line]]
name = "moved"
table = "values"
text = "moved {amount:d} blocks"
sample = "moved 17 blocks"
[[line]]
name = "gather"
table = "phases"
text = "rank {rank:d} gathered in {gather:.1f} ms"
unit = { gather = "ms" }
sample = "rank 3 gathered in 2.5 ms"
[[line]]
name = "prepare"
table = "phases"
text = "prepared the next in {prepare:.1f} ms"
unit = { prepare = "ms" }
sample = "prepared the next in 2.5 ms"
[[line]]
name = "done"
closes = "step"
table = "steps"
outside = "turn"
text = "finished step {step:d} with loss {loss:.1f}"
sample = "finished step 3 with loss 2.5"
[[fingerprint]]
name = "blocks"
vote = { line = "count", key = "blocks" }
reads = { moved = "amount" }
[[fingerprint]]
name = "sizes"
vote = { line = "size", key = "blocks / bytes", after = "gather" }
reads = { size = "bytes" }
[[adjacent]]
line = "prepare"
after = "gather"
"""
START = "program with 8 sequences"
CHUNKS = (1, 1 << 20)


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Format:
    path = tmp_path_factory.mktemp("format") / "blocks.toml"
    path.write_text(FORMAT)
    return load(path)


def rows(form: Format, lines: list[str], table: str = "values", chunk: int = CHUNKS[-1]) -> list[dict[str, Any]]:
    data = "".join(f"{line}\n" for line in lines).encode()
    return sorted(read(data, formats=[form], chunk=chunk).rows(table), key=lambda row: (row["line"], row["part"]))


def ranks_of(form: Format, lines: list[str], key: str = "amount", chunk: int = CHUNKS[-1]) -> list[Any]:
    """Rank and rule of the rows with a key, in the order of the log."""
    found = rows(form, lines, chunk=chunk)
    return [(row["rank"], row["rank_by"]) for row in found if row["key"] == key]


def counted(rank: int, blocks: int) -> str:
    return f"rank {rank} counted {blocks} blocks"


def done(step: int) -> str:
    return f"finished step {step} with loss 2.5"


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_number_that_one_rank_counted_names_the_rank_of_other_lines(form: Format, chunk: int) -> None:
    step = [counted(0, 10), counted(1, 20), "moved 20 blocks", "moved 10 blocks", "moved 30 blocks"]
    found = ranks_of(form, [START, *step, done(1), *step, done(2)], chunk=chunk)
    assert found == [(1, "fingerprint"), (0, "fingerprint"), (None, None)] * 2


def test_one_vote_is_no_proof_and_two_are(form: Format) -> None:
    once = [START, counted(0, 10), "moved 10 blocks", done(1)]
    assert ranks_of(form, once) == [(None, None)]
    assert ranks_of(form, [*once, counted(0, 10), done(2)]) == [(0, "fingerprint")]


@pytest.mark.parametrize(("others", "expected"), [(1, (0, "fingerprint")), (2, (None, None))])
def test_nine_votes_in_ten_must_name_the_rank(form: Format, others: int, expected: tuple[Any, Any]) -> None:
    steps = [line for k in range(9) for line in (counted(0, 10), counted(1, 20), done(k + 1))]
    odd = [line for k in range(others) for line in (counted(1, 10), done(k + 10))]
    assert ranks_of(form, [START, *steps, *odd, "moved 10 blocks", done(20)]) == [expected]


def test_a_rank_must_vote_for_the_number_in_half_of_its_steps(form: Format) -> None:
    """A count that a rank had in few of its steps is no number of the rank."""
    few = [line for k in range(6) for line in (counted(0, 10 if k < 2 else 100 + k), done(k + 1))]
    half = [line for k in range(6) for line in (counted(0, 10 if k < 3 else 100 + k), done(k + 1))]
    assert ranks_of(form, [START, *few, "moved 10 blocks", done(7)]) == [(None, None)]
    assert ranks_of(form, [START, *half, "moved 10 blocks", done(7)]) == [(0, "fingerprint")]


def test_each_run_votes_for_itself(form: Format) -> None:
    def run(rank: int) -> list[str]:
        step = [counted(rank, 10), "moved 10 blocks"]
        return [START, *step, done(1), *step, done(2)]

    found = rows(form, [*run(0), *run(5)])
    assert [(r["run"][-2:], r["rank"]) for r in found if r["key"] == "amount"] == [("-1", 0)] * 2 + [("-2", 5)] * 2


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_vote_that_ends_otherwise_corrects_what_came_before(
    form: Format, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first steps name rank 0; at the end nobody can say which rank the number is of."""
    # ranks are given out at once
    monkeypatch.setattr("perflog.parsing.assemble.steps.pending_records.ENOUGH_TO_VOTE", 1)
    first = [line for k in range(3) for line in (counted(0, 10), "moved 10 blocks", done(k + 1))]
    later = [line for k in range(3, 6) for line in (counted(1, 10), "moved 10 blocks", done(k + 1))]
    assert ranks_of(form, [START, *first, *later], chunk=chunk) == [(None, None)] * 6


def test_lines_before_the_first_votes_are_given_the_rank_of_the_later_ones(
    form: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perflog.parsing.assemble.steps.pending_records.ENOUGH_TO_VOTE", 1)
    steps = [line for k in range(3) for line in (counted(0, 10), counted(1, 20), done(k + 2))]
    for moved, rank in ((10, 0), (20, 1)):
        lines = [START, f"moved {moved} blocks", done(1), *steps]
        assert ranks_of(form, lines, chunk=1) == [(rank, "fingerprint")]


# --- headers ----------------------------------------------------------------------------------------------------------


VOTES = [line for _ in range(2) for line in (counted(0, 10), counted(1, 20))]


def test_a_line_under_the_header_of_another_rank_belongs_to_the_last_header_of_its_own(form: Format) -> None:
    """Two ranks write at once: the number shows that the line is not of the rank above it."""
    turns = ["turn of rank 1 at step 7", "turn of rank 0 at step 8", "moved 20 blocks", "moved 10 blocks"]
    found = [row for row in rows(form, [START, *VOTES, *turns, done(1)]) if row["key"] == "amount"]
    assert [(row["rank"], row["rank_by"], row["step"]) for row in found] == [(1, "fingerprint", 7), (0, "header", 8)]


def test_rank_0_too_has_lines_under_the_header_of_another_rank(form: Format) -> None:
    turns = ["turn of rank 0 at step 7", "turn of rank 1 at step 8", "moved 10 blocks"]
    found = [row for row in rows(form, [START, *VOTES, *turns, done(1)]) if row["key"] == "amount"]
    assert [(row["rank"], row["rank_by"], row["step"]) for row in found] == [(0, "fingerprint", 7)]


def test_the_step_is_that_of_the_last_header_of_the_rank(form: Format) -> None:
    turns = ["turn of rank 1 at step 6", "turn of rank 1 at step 7", "turn of rank 0 at step 8", "moved 20 blocks"]
    later = ["turn of rank 1 at step 9"]
    found = [row for row in rows(form, [START, *VOTES, *turns, *later, done(1)]) if row["key"] == "amount"]
    assert [(row["rank"], row["step"]) for row in found] == [(1, 7)]


def test_without_a_header_of_its_rank_the_step_is_not_known(form: Format) -> None:
    turns = ["turn of rank 0 at step 8", "moved 20 blocks", "turn of rank 1 at step 9"]
    found = [row for row in rows(form, [START, *VOTES, *turns, done(1)]) if row["key"] == "amount"]
    assert [(row["rank"], row["rank_by"], row["step"]) for row in found] == [(1, "fingerprint", None)]


def test_a_doubtful_number_under_a_header_has_no_rank_and_no_step(form: Format) -> None:
    doubt = [counted(0, 30), counted(1, 30), done(1)] * 2
    found = rows(form, [START, *doubt, "turn of rank 0 at step 8", "moved 30 blocks", "moved 40 blocks", done(3)])
    told = [(row["rank"], row["rank_by"], row["step"]) for row in found if row["key"] == "amount"]
    assert told == [(None, None, None), (0, "header", 8)]  # nobody voted on 40


# --- votes of the line before -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_line_directly_after_a_rank_votes_for_it(form: Format, chunk: int) -> None:
    """A key may be computed: blocks of a byte. The line between two others is of neither."""
    gather, size = "rank {} gathered in 2.5 ms", "sized {} blocks of {} bytes"
    step = [gather.format(4), size.format(2, 1), gather.format(5), size.format(6, 2)]
    apart = [gather.format(6), "moved 1 blocks", size.format(7, 7)]
    lines = [START, *step, *apart, done(1), *step, *apart, done(2)]
    found = [row for row in rows(form, lines, chunk=chunk) if row["key"] == "bytes"]
    assert [(row["value"], row["rank"]) for row in found] == [(1, None), (2, 4), (7, None)] * 2


# --- lines beside each other ------------------------------------------------------------------------------------------


@cache
def partner_lines(order: str) -> list[str]:
    """A letter is the gather of a rank (`a`: 0), a dot the line that has no rank."""
    return ["prepared the next in 3.5 ms" if c == "." else f"rank {ord(c) - 97} gathered in 2.5 ms" for c in order]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (["a.b."], [0, 1]),
        (["ab.."], [None, None]),  # either may be of either
        (["ab..c."], [None, None, 2]),
        (["a.bc.."], [0, None, None]),
        (["a", "."], [None]),  # the partner is of another step
        (["a", ".b."], [None, None]),
        (["a.", "b."], [0, 1]),
        ([".a."], [None, None]),  # one more than was opened: which is the odd one?
        (["..", "a."], [None, None, 0]),
    ],
)
def test_a_line_has_the_rank_of_its_partner_where_only_one_is_possible(
    form: Format, steps: list[str], expected: list[Any]
) -> None:
    lines = [line for number, order in enumerate(steps, 1) for line in (*partner_lines(order), done(number))]
    found = [row for row in rows(form, [START, *lines], "phases") if row["phase"] == "prepare"]
    assert [row["rank"] for row in found] == expected
    assert [row["rank_by"] for row in found] == [None if rank is None else "adjacent" for rank in expected]


def test_before_any_record_of_a_line_no_rank_is_known() -> None:
    assert RankRules({})._ranks_before("turn", {}, np.array([5, 9])).tolist() == [-1, -1]


def test_the_record_on_the_line_above_or_in_the_part_before() -> None:
    def at(line: int, part: int = 0) -> int:
        return line << PART_BITS | part

    records = Records(np.array([at(3), at(3, 4), at(7, 2)]))
    positions = [at(1), at(3, 1), at(3, 2), at(3, 5), at(4), at(4, 9), at(5), at(8), at(9)]
    assert _directly_before(np.array(positions), records).tolist() == [-1, 0, -1, 1, 1, 1, -1, 2, -1]
    assert _directly_before(np.array(positions), Records(np.array([], np.int64))).tolist() == [-1] * len(positions)
