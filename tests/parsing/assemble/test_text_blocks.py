"""Blocks of lines, such as the printout of a model, are kept with the run in which they begin."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load

FORMAT = '''
title = "blocks of a program"
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
[[block]]
name = "model"
begin = "model of {_:s}("
body = "  layer {_:s}"
end = ")"
sample = """
model of gpt(
  layer one
)
"""
'''
START, STEP = "program with 8 sequences", "finished step 1 with loss 2.5"
MODEL = ["model of gpt(", "  layer one", "  layer two", ")"]


def printouts(folder: Path, lines: list[str], chunk: int = 1 << 20, form: str = FORMAT) -> list[list[str] | None]:
    """The lines of the printout of each run."""
    data = "".join(f"{line}\n" for line in lines).encode()
    runs = read(data, formats=[load(given_file(folder, form))], chunk=chunk).rows("runs")
    found = [run["printout"] for run in sorted(runs, key=lambda row: row["index"])]
    return [None if text is None else text.split("\n") for text in found]


@pytest.mark.parametrize("chunk", [1, 40, 1 << 20])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([START, *MODEL, STEP], [MODEL]),
        ([START, STEP], [None]),
        ([START, *MODEL, STEP, *MODEL], [MODEL * 2]),
        ([START, *MODEL[:2], STEP], [MODEL[:2]]),  # the log ends in it
        ([START, *MODEL[:2], *MODEL, STEP], [MODEL[:2] + MODEL]),  # another one begins in it
        ([START, *MODEL, "  layer three", STEP], [MODEL]),  # after its end
        ([START, MODEL[0], STEP, *MODEL[1:]], [MODEL]),  # with another line in it
        ([START, *MODEL, STEP, START, STEP, START, *MODEL[::3], STEP], [MODEL, None, MODEL[::3]]),
        ([START, *MODEL[:2], STEP, START, *MODEL[2:], STEP], [MODEL, None]),  # it belongs to the run of its beginning
        ([START, *(f"[rank0]:{line}" for line in MODEL), STEP], [MODEL]),
    ],
)
def test_the_lines_of_a_block(tmp_path: Path, lines: list[str], expected: list[list[str] | None], chunk: int) -> None:
    assert printouts(tmp_path, lines, chunk) == expected


def test_a_block_that_is_not_kept(tmp_path: Path) -> None:
    assert printouts(tmp_path, [START, *MODEL, STEP], form=FORMAT + "keep = false\n") == [None]
