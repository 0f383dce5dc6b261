"""The last step of a run: of its last step line, or of a later line that prints the same clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.format_files import given_file

import perflog
from perflog.metrics import Tables
from perflog.metrics.jobs.last_steps import last_steps

FORMAT = """
title = "steps with a clock"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} after {elapsed:d} ms"
unit = { elapsed = "ms" }
clock = "elapsed"
sample = "finished step 3 after 1000 ms"
[[line]]
name = "validation"
table = "values"
text = "validated step {step:d} after {elapsed:d} ms: {val_loss:.1f}"
unit = { elapsed = "ms" }
clock = "elapsed"
sample = "validated step 3 after 1000 ms: 2.5"
[[line]]
name = "note"
table = "values"
text = "noted at step {step:d}: {odd:.1f}"
sample = "noted at step 3: 2.5"
"""


def last(folder: Path, *runs: list[str]) -> list[int]:
    path = folder / "run.txt"
    path.write_text("".join(f"{line}\n" for run in runs for line in ["program with 8 sequences", *run]))
    log = perflog.read(path, format=str(given_file(folder, FORMAT)))
    found = last_steps(Tables(log))
    return [found[run.id] for run in log.run_keys if run.id in found]


def step(number: int) -> str:
    return f"finished step {number} after {number * 100} ms"


def validated(number: int) -> str:
    return f"validated step {number} after {number * 100} ms: 2.5"


STEPS = [step(50), step(100), step(150)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (STEPS, [150]),
        ([*STEPS, validated(170)], [170]),  # it stopped between two step lines
        ([*STEPS, validated(199)], [199]),
        ([*STEPS, validated(200)], [150]),  # that would have had a step line: it counts otherwise
        ([*STEPS, validated(140)], [150]),
        ([*STEPS, "noted at step 170: 2.5"], [150]),  # no reading of the clock
        ([*STEPS, validated(160), validated(170)], [170]),
        ([*STEPS[:2], validated(120)], [120]),
        ([step(50), validated(60)], [50]),  # one step line shows no distance
        ([validated(60)], []),
        ([step(100), step(50), step(150), step(150)], [150]),
    ],
)
def test_the_last_step(tmp_path: Path, lines: list[str], expected: list[int]) -> None:
    assert last(tmp_path, lines) == expected


def test_each_run_has_its_own(tmp_path: Path) -> None:
    assert last(tmp_path, [*STEPS, validated(170)], [step(10), step(20)]) == [170, 20]
