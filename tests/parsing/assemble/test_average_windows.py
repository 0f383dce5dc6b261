"""Windows of averages: which steps a printed average is the mean of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cost import call_growth
from support.examples import examples
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load
from perflog.parsing.assemble.steps import average_windows

RUN = (
    b"[Benchmark] world_size = 4, dtype = float16, model_dim = 1024, hidden_size = 4096, samples = 8192, "
    b"num_local_experts = 8, topK = 2, a2a_ffn_overlap_degree = 1, device = `cuda:0`\n"
)


def step(number: int) -> bytes:
    return b"STEP-%d: step_time = 1.5 ms, foward_time = 1.25, backward_time = 0.25, perf = 1.00 tflops.\n" % number


def all_windows(values: np.ndarray, printed: float, decimals: int) -> list[tuple[int, int]]:
    """By brute force: all windows whose mean equals the figure, within the rounding of the values."""
    slack = 0.5 * 10.0**-decimals + 1e-9
    n = len(values)
    return [(a, b) for a in range(n) for b in range(a + 1, n + 1) if abs(float(values[a:b].mean()) - printed) <= slack]


STEPS = st.lists(st.integers(1, 40_000).map(lambda k: k / 1000), min_size=1, max_size=14)


@examples(300)
@given(STEPS, st.data())
def test_a_window_that_was_averaged_is_found(steps: list[float], data: st.DataObject) -> None:
    values = np.array(steps, np.float64)
    last = data.draw(st.integers(1, len(steps)))
    first = data.draw(st.integers(0, last - 1))
    printed = float(np.cumsum(values[first:last])[-1] / (last - first))
    fitting = all_windows(values, printed, 3)
    assert (first, last) in fitting
    found = average_windows.find_window(values, printed, 3)
    if found is not None:
        assert (found.first, found.last) in fitting
        if found.exact:
            mean = float(values[found.first : found.last].mean())
            assert mean == pytest.approx(printed, abs=1e-6)
    if last == len(steps):
        assert found is not None


@examples(200)
@given(STEPS, st.integers(1, 40_000).map(lambda k: k / 1000), st.none() | st.integers(1, 20), st.booleans())
def test_a_window_that_does_not_fit_is_not_given(
    steps: list[float], printed: float, hint: int | None, everywhere: bool
) -> None:
    values = np.array(steps, np.float64)
    found = average_windows.find_window(values, printed, 3, hint, everywhere)
    fitting = all_windows(values, printed, 3)
    assert found is None or (found.first, found.last) in fitting
    if found is not None and not found.exact and hint is None:
        assert [w for w in fitting if w[1] == len(steps)] == [(found.first, found.last)]


@pytest.mark.parametrize("printed", [float("nan"), float("inf"), -1.0, 0.0, 1e300])
def test_no_window_for_what_is_no_mean(printed: float) -> None:
    assert average_windows.find_window(np.array([1.0, 2.0, 3.0]), printed, 3) is None
    assert average_windows.find_window(np.array([]), printed, 3) is None
    assert average_windows.find_window(np.array([np.nan, np.inf]), 1.0, 3) is None


def test_windows_are_searched_for_few_summaries_and_in_the_last_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[tuple[int, bool]] = []

    def find(values: np.ndarray, _: float, __: int, ___: int | None, everywhere: bool) -> None:
        searched.append((len(values), everywhere))

    monkeypatch.setattr(average_windows, "find_window", find)
    line = b"[Summary] Average synchronized step_time = 1.5 sec.\n"
    found = read(RUN + b"".join(step(i) for i in range(5000)) + line * 200)
    assert len(found.rows("summaries")) == 200
    assert searched == [(4096, n < 50) for n in range(200)]


def test_the_search_for_a_window_takes_one_pass_for_each_last_step() -> None:
    def search(count: int) -> None:
        assert average_windows.find_window(np.linspace(1, 2, count), 1e6, 3) is None
        assert average_windows.find_window(np.linspace(1, 2, count), 1.25, 9) is None

    assert call_growth(search, 100, 1000) < 15


@pytest.mark.parametrize("chunk", [1, 300, 8 << 20])
def test_an_average_is_looked_for_in_the_steps_of_its_rank(chunk: int) -> None:
    """Two ranks print all steps and their own average; the average of an unknown rank is searched in both."""
    line = b"[rank %d] step %d: time %.6f ms, loss 1.000000, 0.125000 TFLOP/s per rank, 9.0 tok/s, peak memory 1 B\n"
    mean = b"[rank %d] summary: step_time %r ms, mean of steps 2 to 5\n"
    took = {(rank, n): 1.0 + n * n / 64 + 8 * rank for rank in (0, 1) for n in range(6)}
    steps = b"".join(line % (rank, n, took[rank, n]) for n in range(6) for rank in (0, 1))
    means = b"".join(mean % (rank, sum(took[rank, n] for n in range(2, 6)) / 4) for rank in (1, 0))
    other = mean % (7, sum(took[1, n] for n in range(3, 6)) / 3)
    begin = b"perflog trainer: recipe r, variant v, run 1 of 1\n"
    found = read(begin + steps + means + other, chunk=chunk).rows("summaries")
    assert [(r["window_first"], r["window_last"], r["window_fit"]) for r in found] == [
        (2, 5, "exact"),
        (2, 5, "exact"),
        (3, 5, "exact"),
    ]


@pytest.mark.parametrize(
    ("values", "printed", "decimals", "hint", "expected"),
    [
        ([1.0, 2.0, 3.0, 5.0], 4.0, 1, None, (2, 4, True)),  # equal to the last bit
        ([1.0, 2.0, 3.0, 5.0], 2.75, 1, None, (0, 4, True)),
        ([1.0, 2.0, 3.0, 5.0], 4.01, 1, None, (2, 4, False)),  # the only one within the rounding
        ([4.0, 4.1, 3.9, 4.0], 4.02, 1, None, None),  # several are: which?
        ([1.0, 2.0, 9.0], 1.5, 1, None, (0, 2, True)),  # before the last step
        ([1.0, 2.0, 9.0], 1.51, 1, None, None),  # there only to the last bit
        ([4.0, 4.1, 3.9, 4.0], 3.97, 1, 2, (2, 4, False)),  # as long as the one that fitted before
        ([1.0, 2.0, 3.0], 2.5, 1, 9, (1, 3, True)),  # longer than all steps
        ([1.0, 2.0, 3.0], 7.0, 1, 2, None),
        ([0.1, 0.2], 0.15000000596046448, 6, None, (0, 2, False)),
    ],
)
def test_the_window_of_an_average(
    values: list[float], printed: float, decimals: int, hint: int | None, expected: tuple[int, int, bool] | None
) -> None:
    found = average_windows.find_window(np.array(values), printed, decimals, hint)
    assert (None if found is None else (found.first, found.last, found.exact)) == expected


def test_windows_before_the_last_step_are_looked_for_on_demand() -> None:
    values = np.array([1.0, 2.0, 9.0])
    assert average_windows.find_window(values, 1.5, 1, everywhere=False) is None
    assert average_windows.find_window(values, 9.0, 1, everywhere=False) is not None


FORMAT = """
title = "averages in another unit"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} in {step_time:.1f} ms"
unit = { step_time = "ms" }
sample = "finished step 3 in 2.5 ms"
[[line]]
name = "mean"
table = "summaries"
text = "all steps took {step_time:.5f} s"
unit = { step_time = "s" }
sample = "all steps took 0.00250 s"
"""


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize(
    ("steps", "mean", "expected"),
    [
        ([(1, 10), (2, 20), (3, 40)], 0.03, (2, 3, "exact")),
        ([(1, 10), (2, 20), (3, 40)], 0.03004, (2, 3, "rounding")),  # the steps are printed to 0.1 ms
        ([(1, 10), (2, 20), (3, 40)], 0.0301, (None, None, None)),
        ([(1, 10), (1, 90), (2, 20)], 0.015, (1, 2, "exact")),  # of a step that comes again its first printing
        ([(1, 10), (1, 90), (2, 20)], 0.04, (None, None, None)),
    ],
)
def test_an_average_in_another_unit(
    tmp_path: Path, steps: list[tuple[int, int]], mean: float, expected: tuple[int | None, ...], chunk: int
) -> None:
    lines = [f"finished step {number} in {took}.0 ms" for number, took in steps]
    log = "\n".join(["program with 8 sequences", *lines, f"all steps took {mean:.5f} s", ""])
    (found,) = read(log.encode(), formats=[load(given_file(tmp_path, FORMAT))], chunk=chunk).rows("summaries")
    assert (found["window_first"], found["window_last"], found["window_fit"]) == expected


def test_an_average_of_numbers_without_a_unit(tmp_path: Path) -> None:
    form = FORMAT.replace('in {step_time:.1f} ms"\nunit = { step_time = "ms" }', 'with loss {loss:.1f}"')
    form = form.replace("in 2.5 ms", "with loss 2.5")
    form = form.replace('took {step_time:.5f} s"\nunit = { step_time = "s" }', 'have loss {loss:.2f}"')
    form = form.replace("took 0.00250 s", "have loss 0.25")
    log = "program with 8 sequences\n" + "".join(f"finished step {k} with loss {k}.0\n" for k in (1, 2, 4))
    data = f"{log}all steps have loss 3.00\n".encode()
    (found,) = read(data, formats=[load(given_file(tmp_path, form))]).rows("summaries")
    assert (found["value"], found["window_first"], found["window_last"]) == (3.0, 2, 4)
