"""Repeated steps: how often each step of a run was printed, and how many steps a line covers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reading import read

from perflog.parsing.assemble.step_repeats import StepRepeats, by_number

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
