"""The first and the last time stamp of a run, of whatever lines at its ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load
from perflog.parsing.assemble.runs.run_ends import _LOOKED_AT, RunEnds, milestones_of
from perflog.parsing.assemble.runs.run_state import RunIndex, RunState
from perflog.parsing.match.records import Stamps
from perflog.tables.row_order import PART_BITS

FORMAT = """
title = "lines of a program"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} with loss {loss:.1f}"
sample = "finished step 3 with loss 2.5"
"""
START, STEP = "program with 8 sequences", "finished step 1 with loss 2.5"
SECOND = 10**9
MORNING = 1_767_261_600 * SECOND  # 2026-01-01 10:00:00


def at(second: int, text: str = "some words") -> str:
    return f"2026-01-01 10:00:{second:02d} {text}"


def ends(folder: Path, lines: list[str], chunk: int) -> list[tuple[Any, ...]]:
    """Run, edge, clock, line and seconds after ten o'clock of each milestone of the log."""
    data = "".join(f"{line}\n" for line in lines).encode()
    got = read(data, formats=[load(given_file(folder, FORMAT))], chunk=chunk).rows("milestones")
    return sorted(
        (row["run"][-1], row["edge"], row["clock"], row["line"], (row["printed_ns"] - MORNING) / SECOND)
        for row in got
        if row["kind"] == "log"
    )


@pytest.mark.parametrize("chunk", [1, 200, 1 << 20])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            [START, at(1), STEP, at(2), at(3)],
            [("1", "begin", "local", 2, 1.0), ("1", "end", "local", 5, 3.0)],
        ),
        ([START, STEP, at(1)], []),  # one stamp is no evidence
        ([START, STEP, STEP], []),
        (
            [START, at(1), STEP, at(2), START, at(5), STEP, at(9)],
            [
                ("1", "begin", "local", 2, 1.0),
                ("1", "end", "local", 4, 2.0),
                ("2", "begin", "local", 6, 5.0),
                ("2", "end", "local", 8, 9.0),
            ],
        ),
        (  # of each clock
            [START, at(1), "2026-01-01 10:00:04Z other", STEP, at(2), "2026-01-01 10:00:06Z other"],
            [
                ("1", "begin", "local", 2, 1.0),
                ("1", "begin", "utc", 3, 4.0),
                ("1", "end", "local", 5, 2.0),
                ("1", "end", "utc", 6, 6.0),
            ],
        ),
        (  # only some lines at both ends are looked at: 24 of them
            [START, *[STEP] * 22, at(1), *[STEP] * 30, at(2), *[STEP] * 22],
            [("1", "begin", "local", 24, 1.0), ("1", "end", "local", 55, 2.0)],
        ),
        ([START, *[STEP] * 23, at(1), *[STEP] * 30, at(2), *[STEP] * 22], []),
        ([START, *[STEP] * 22, at(1), *[STEP] * 30, at(2), *[STEP] * 24], []),
    ],
)
def test_the_first_and_the_last_stamp(
    tmp_path: Path, lines: list[str], expected: list[tuple[Any, ...]], chunk: int
) -> None:
    assert ends(tmp_path, lines, chunk) == expected


def test_the_first_stamp_of_a_run_is_on_its_first_lines() -> None:
    """Of each clock; the last one may be anywhere."""
    far = 10 + _LOOKED_AT
    for begin, lines, first in ((10, [far - 1, far], far - 1), (10, [far], None), (0, [_LOOKED_AT], _LOOKED_AT)):
        run = RunState(1, begin << PART_BITS, begin, far)
        positions = np.array(lines) << PART_BITS
        count = len(lines)
        stamps = Stamps(np.arange(count), np.full(count, 2), np.ones(count, np.int64))
        RunEnds.add(RunIndex([run]), positions, stamps)
        assert {clock: position >> PART_BITS for clock, (position, _) in run.first_stamps.items()} == (
            {} if first is None else {2: first}
        )
        assert run.last_stamps == {2: (lines[-1] << PART_BITS, count - 1)}


def test_a_time_that_is_not_known_is_no_stamp() -> None:
    run = RunState(1, 0, 1, 9)
    RunEnds.add(RunIndex([run]), np.array([1 << PART_BITS]), Stamps.unknown(1))
    RunEnds.add(RunIndex([run]), np.array([1 << PART_BITS]), None)
    assert run.first_stamps == run.last_stamps == {} and milestones_of([run]) is None
