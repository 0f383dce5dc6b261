"""Step, rank and other fields of a record: its own first, then those of the lines that opened its scopes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load

FORMAT = """
title = "scopes of a program"
scopes = ["run", "turn", "part"]
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "turn"
opens = "turn"
text = "turn of rank {rank:d} at step {step:d} on {layer:w}"
sample = "turn of rank 3 at step 1 on mlp"
[[line]]
name = "part"
opens = "part"
text = "next part begins"
sample = "next part begins"
[[line]]
name = "took"
table = "phases"
text = "some phase {phase:w} took {time:.1f} ms"
unit = { time = "ms" }
sample = "some phase copy took 2.5 ms"
[[line]]
name = "own"
table = "phases"
text = "rank {rank:d} at step {step:d}: phase {phase:w} took {time:.1f} ms"
unit = { time = "ms" }
sample = "rank 3 at step 1: phase copy took 2.5 ms"
[[line]]
name = "computed"
table = "steps"
text = "batch {batch:d} of epoch {epoch:d} of {_all:d} has loss {loss:.1f}"
compute = { step = "epoch * _all + batch" }
within = "epoch"
sample = "batch 3 of epoch 1 of 9 has loss 2.5"
"""
START, TOOK = "program with 8 sequences", "some phase copy took 2.5 ms"


def rows(folder: Path, lines: list[str], table: str = "phases", chunk: int = 1 << 20) -> list[dict[str, Any]]:
    data = "".join(f"{line}\n" for line in [START, *lines]).encode()
    found = read(data, formats=[load(given_file(folder, FORMAT))], chunk=chunk).rows(table)
    return sorted(found, key=lambda row: (row["line"], row["part"]))


def turn(rank: int, step: int = 1) -> str:
    return f"turn of rank {rank} at step {step} on mlp"


def own(rank: int, step: int = 7) -> str:
    return f"rank {rank} at step {step}: phase copy took 2.5 ms"


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([TOOK, turn(3), TOOK], [(None, None, None), (3, "header", 1)]),  # before the first header nothing is known
        ([turn(3), own(5)], [(5, "printed", 7)]),  # what a line prints itself counts
        ([turn(3), own(-1)], [(3, "header", 7)]),  # no rank
        ([own(2**31 - 1), own(2**31)], [(2**31 - 1, "printed", 7), (None, None, 7)]),  # of 32 bits
        ([turn(2**31 - 1), TOOK], [(2**31 - 1, "header", 1)]),
        ([turn(2**31), TOOK], [(None, None, 1)]),
        ([turn(-1), TOOK], [(None, None, 1)]),
        ([turn(0), TOOK, turn(1, 2), TOOK, TOOK], [(0, "header", 1), (1, "header", 2), (1, "header", 2)]),
        ([turn(3), f"[rank4]:{TOOK}"], [(4, "label", 1)]),
        ([turn(3), f"[rank0]:{TOOK}"], [(0, "label", 1)]),
        ([turn(3), START, TOOK], [(None, None, None)]),  # of another run
    ],
)
def test_rank_and_step_of_a_line(tmp_path: Path, lines: list[str], expected: list[Any], chunk: int) -> None:
    assert [(row["rank"], row["rank_by"], row["step"]) for row in rows(tmp_path, lines, chunk=chunk)] == expected


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_a_computed_step_and_its_epoch(tmp_path: Path, chunk: int) -> None:
    lines = [f"batch {batch} of epoch {epoch} of 4 has loss 2.5" for epoch in (0, 1) for batch in (2, 3)]
    found = rows(tmp_path, lines, "steps", chunk)
    assert [(row["step"], row["epoch"]) for row in found] == [(2, 0), (3, 0), (6, 1), (7, 1)]


def test_a_step_that_a_double_does_not_hold_is_not_known(tmp_path: Path) -> None:
    lines = [f"batch {batch} of epoch 0 of 4 has loss 2.5" for batch in (2**53 - 1, 2**53)]
    assert [row["step"] for row in rows(tmp_path, lines, "steps")] == [2**53 - 1, None]


def test_a_name_of_numbers_follows_that_of_the_scope_around_it(tmp_path: Path) -> None:
    form = """
title = "names in scopes"
scopes = ["run", "outer", "inner"]
[[line]]
name = "outer"
opens = "outer"
text = "suite of {key:S} begins"
sample = "suite of a begins"
[[line]]
name = "inner"
opens = "inner"
text = "case of {key:S} begins"
sample = "case of a begins"
[[line]]
name = "took"
table = "values"
text = "this one took {value:.1f} ms"
sample = "this one took 2.5 ms"
"""
    lines = [
        "suite of a begins",
        "this one took 1.5 ms",
        "case of b begins",
        "this one took 2.5 ms",
        "suite of c begins",
    ]
    data = "".join(f"{line}\n" for line in [*lines, "this one took 3.5 ms"]).encode()
    found = read(data, formats=[load(given_file(tmp_path, form))]).rows("values")
    assert sorted((row["value"], row["key"]) for row in found) == [(1.5, "a"), (2.5, "a_b"), (3.5, "c")]
