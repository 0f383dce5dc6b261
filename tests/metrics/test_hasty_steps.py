"""Steps that a program printed before the device had done them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.format_files import given_file

import perflog
from perflog.metrics import Tables
from perflog.metrics.hasty_steps import hasty_steps

FORMAT = """
title = "rates of steps"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} in {step_time:.3f} s at {tokens_per_s:.3f} tokens"
unit = { step_time = "s", tokens_per_s = "1/s" }
sample = "finished step 3 in 2.500 s at 1000.000 tokens"
"""


def flagged(folder: Path, *runs: list[tuple[float, float]]) -> list[int]:
    """Indices of the rows with a step time too short. A run is its pairs of time and rate."""
    lines = []
    for run in runs:
        lines.append("program with 8 sequences")
        lines += [f"finished step {k} in {time:.3f} s at {rate:.3f} tokens" for k, (time, rate) in enumerate(run)]
    path = folder / "run.txt"
    path.write_text("\n".join([*lines, ""]))
    log = perflog.read(path, format=str(given_file(folder, FORMAT)))
    return hasty_steps(Tables(log)).nonzero()[0].tolist()


USUAL = (1.0, 1000.0)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ([USUAL] * 8, []),
        ([(0.01, 100_000.0), *[USUAL] * 7], [0]),
        ([(0.1, 10_000.0), (0.1, 10_000.0), *[USUAL] * 7], [0, 1]),
        ([(0.25, 4000.0), *[USUAL] * 7], []),  # four times the rate may be real
        ([*[USUAL] * 4, (0.01, 100_000.0), *[USUAL] * 4], [4]),  # among the first five steps
        ([*[USUAL] * 5, (0.01, 100_000.0), *[USUAL] * 4], []),  # later the device keeps up
        ([(0.01, 1000.0), *[USUAL] * 7], []),  # less work in less time
        ([(0.01, 100_000.0), USUAL], []),  # two steps show no usual rate
        ([(0.01, 0.0), *[USUAL] * 7], []),
    ],
)
def test_the_first_steps_at_a_rate_far_above_the_others(
    tmp_path: Path, run: list[tuple[float, float]], expected: list[int]
) -> None:
    assert flagged(tmp_path, run) == expected
    shifted = [len(run) + index for index in expected]
    assert flagged(tmp_path, [USUAL] * len(run), run) == shifted  # each run by itself
