"""Repeated steps: how often each step of a run was printed, and how many steps a line covers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load
from perflog.parsing.assemble.steps.step_repeats import StepRepeats, by_number

RUN = (
    b"[Benchmark] world_size = 4, dtype = float16, model_dim = 1024, hidden_size = 4096, samples = 8192, "
    b"num_local_experts = 8, topK = 2, a2a_ffn_overlap_degree = 1, device = `cuda:0`\n"
)


def step(number: int) -> bytes:
    return b"STEP-%d: step_time = 1.5 ms, foward_time = 1.25, backward_time = 0.25, perf = 1.00 tflops.\n" % number


@pytest.mark.parametrize(
    "numbers", [[0, 1, 2, 1, 2, 3], [5, 4, 3], [1, 1, 1], [2**40, 1, 2**40, 2**24, 2**24 - 1], [0, 0], [-3, -3]]
)
@pytest.mark.parametrize("chunk", [1, 8 << 20])
def test_steps_that_come_again_are_counted(numbers: list[int], chunk: int) -> None:
    found = read(RUN + b"".join(step(n) for n in numbers), chunk=chunk)
    seen: Counter[int] = Counter()
    expected = []
    for n in numbers:
        seen[n] += 1
        expected.append((n, seen[n]))
    assert [(r["step"], r["copy"]) for r in found.rows("steps")] == expected


@pytest.mark.parametrize("chunk", [1, 8 << 20])
def test_each_rank_counts_its_own_printings(chunk: int) -> None:
    """A step that two ranks print is no repeat; lines without a rank are counted together."""
    order = [(0, 1), (1, 1), (0, 2), (1, 2), (1, 2), (None, 1), (0, 1), (None, 1), (1, 3)]
    lines = (step(n) if rank is None else b"%d: " % rank + step(n) for rank, n in order)
    found = read(RUN + b"".join(lines), chunk=chunk)
    assert [(r["rank"], r["step"]) for r in found.rows("steps")] == order
    assert [r["copy"] for r in found.rows("steps")] == [1, 1, 1, 1, 2, 1, 2, 2, 1]


def test_a_step_that_comes_70_000_times() -> None:
    assert max(r["copy"] for r in read(RUN + step(3) * 70_000).rows("steps")) == 70_000


@given(st.lists(st.lists(st.sampled_from([0, 1, 2, 3, 7, 200, 2**24 - 1, 2**24, 2**40, -1]), min_size=1, max_size=8)))
def test_each_printing_of_a_step_has_its_number(parts: list[list[int]]) -> None:
    printed, repeats = Counter[int](), StepRepeats()
    for part in parts:
        expected = []
        for number in part:
            printed[number] += 1
            expected.append(printed[number])
        assert repeats.copies_of(np.array(part)).tolist() == expected


@pytest.mark.parametrize("step", [3, 2**24, -3])
def test_a_step_may_come_more_often_than_a_byte_counts(step: int) -> None:
    repeats = StepRepeats()
    assert repeats.copies_of(np.full(300, step)).tolist() == list(range(1, 301))
    assert repeats.copies_of(np.array([step, step + 1, step])).tolist() == [301, 1, 302]


def test_rows_by_number() -> None:
    assert list(by_number(np.array([], np.int64))) == []
    assert list(by_number(np.array([4, 4]))) == [(4, slice(None))]
    found = {number: np.asarray(rows).tolist() for number, rows in by_number(np.array([1, -1, 1, 2]))}
    assert found == {-1: [1], 1: [0, 2], 2: [3]}


# --- how many steps a line covers -------------------------------------------------------------------------------------

FORMAT = """
title = "steps of programs"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {{batch:d}} sequences"
sample = "program with 8 sequences"
[[line]]
name = "step"
table = "steps"
{covers}
text = "finished step {{step:d}} of epoch {{epoch:d}} with loss {{loss:.1f}}"
sample = "finished step 3 of epoch 1 with loss 2.5"
[[line]]
name = "torn"
table = "steps"
{covers}
text = "some step ended with loss {{loss:.1f}}"
sample = "some step ended with loss 2.5"
[[line]]
name = "own"
table = "steps"
text = "step {{step:d}} alone has loss {{loss:.1f}}"
sample = "step 3 alone has loss 2.5"
"""
START = "program with 8 sequences\n"


def step_rows(folder: Path, covers: str, log: str, chunk: int = 1 << 20) -> list[dict[str, Any]]:
    form = load(given_file(folder, FORMAT.format(covers=covers)))
    return sorted(read(log.encode(), formats=[form], chunk=chunk).rows("steps"), key=lambda row: row["line"])


def printed(*steps: int | None, label: str = "", epoch: int = 0) -> str:
    """A line for each step; None: of a line without a step."""
    lines = ("some step ended" if number is None else f"finished step {number} of epoch {epoch}" for number in steps)
    return "".join(f"{label}{line} with loss 2.5\n" for line in lines)


SINCE = 'covers = "since_previous"'
ALONE = "step {} alone has loss 2.5\n".format


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize(
    ("covers", "log", "expected"),
    [
        (SINCE, printed(10, 20, 30), [10, 10, 10]),
        ("", printed(10, 20, 30), [1, 1, 1]),
        ("covers = 5", printed(10, 20, 30), [5, 5, 5]),
        ('covers = "running_mean"', printed(10, 20), [None, None]),
        ('covers = "unknown"', printed(10, 20, 30), [None, None, None]),
        ('covers = "unknown"', printed(1, 2, 3), [1, 1, 1]),  # each step is printed
        (SINCE, printed(10, 20, None, 30, 40), [10, 10, None, None, 10]),  # part of what 30 covers is in another line
        (SINCE, printed(10, 20) + START + printed(5, 10), [10, 10, 5, 5]),
        (SINCE, printed(10, 20, None) + START + printed(5, 10), [10, 10, None, 5, 5]),
        (SINCE + "\nfirst_step = 0", printed(10, 20), [10, 10]),
        (SINCE + "\nfirst_step = 5", printed(10, 20), [6, 10]),
        (SINCE, printed(10, 20) + printed(10, 20, epoch=1), [10] * 4),
        (
            SINCE,
            printed(10, 20, label="[rank0]:") + printed(10, label="[rank1]:") + printed(30, label="[rank0]:"),
            [10, 10, None, 10],
        ),
        (
            SINCE,  # a line that has lost its label may be of either rank
            printed(10, 20, label="[rank0]:") + printed(10, 20, label="[rank1]:") + printed(30),
            [10, 10, 10, 10, None],
        ),
        (
            SINCE,
            printed(10, 20) + ALONE(24) + printed(30, 40) + ALONE(43) + ALONE(44) + printed(50),
            [10, 10, 1, 6, 10, 1, 1, 6],
        ),
        (SINCE, ALONE(4) + printed(10), [1, 6]),
        (SINCE, f"[rank0]:{ALONE(4)}[rank0]:{ALONE(5)}" + printed(10, 20), [1, 1, 10, 10]),  # no rank that averages
    ],
)
def test_the_steps_of_a_line(tmp_path: Path, covers: str, log: str, expected: list[int | None], chunk: int) -> None:
    found = step_rows(tmp_path, covers, START + log, chunk)
    assert [row["steps_averaged"] for row in found] == expected


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize(("within", "expected"), [("", [1, 1, 2, 2]), ('within = "epoch"', [1, 1, 1, 1])])
def test_a_step_of_another_epoch_is_no_repeat_where_steps_start_again(
    tmp_path: Path, within: str, expected: list[int], chunk: int
) -> None:
    found = step_rows(tmp_path, within, START + printed(1, 2, epoch=0) + printed(1, 2, epoch=1), chunk)
    assert [row["copy"] for row in found] == expected


def test_a_line_without_a_step_repeats_none(tmp_path: Path) -> None:
    assert [row["copy"] for row in step_rows(tmp_path, "", START + printed(0, None, None, 0))] == [1, 1, 1, 2]


def test_each_run_counts_its_own_steps(tmp_path: Path) -> None:
    found = step_rows(tmp_path, "", (START + printed(3, 3)) * 2, chunk=1)
    assert [row["copy"] for row in found] == [1, 2, 1, 2]
