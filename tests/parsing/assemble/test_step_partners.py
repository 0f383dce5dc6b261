"""Figures of a step that another line prints are brought into the row of the step, if both count the same steps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.steps.step_partners import _counts_the_same, _partners, _Printed, is_partner, step_columns
from perflog.units import UNITS

PROGRAM = """
title = "steps of a program"
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
LIBRARY = """
title = "figures of a library"
library = true
[[line]]
name = "figures"
table = "values"
text = "engine at step {step:d}: lr={lr:.1f}, grad_norm={grad_norm:.1f}"
sample = "engine at step 3: lr=2.5, grad_norm=1.5"
"""
START = "program with 8 sequences"


def step(number: int, rank: int | None = None) -> str:
    return f"{'' if rank is None else f'[rank{rank}]:'}finished step {number} with loss 2.5"


def figures(number: int, norm: float, rank: int | None = None) -> str:
    return f"{'' if rank is None else f'[rank{rank}]:'}engine at step {number}: lr=0.5, grad_norm={norm}"


def norms(folder: Path, lines: list[str], chunk: int = 1 << 20) -> list[tuple[int, float | None]]:
    """Step and norm of each row of table `steps`."""
    formats = [load(given_file(folder, text, name)) for name, text in (("own", PROGRAM), ("engine", LIBRARY))]
    data = "".join(f"{line}\n" for line in lines).encode()
    found: list[dict[str, Any]] = read(data, formats=formats, chunk=chunk).rows("steps")
    return [(row["step"], row["grad_norm"]) for row in sorted(found, key=lambda row: row["line"])]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([figures(1, 1.5), step(1), figures(2, 2.5), step(2)], [(1, 1.5), (2, 2.5)]),  # before the step
        ([step(1), figures(1, 1.5), step(2), figures(2, 2.5)], [(1, 1.5), (2, 2.5)]),  # after it
        ([step(1), step(2), figures(2, 2.5), step(3)], [(1, None), (2, 2.5), (3, None)]),  # of some steps
        ([step(1), figures(7, 1.5), step(2), figures(8, 2.5)], [(1, None), (2, None)]),  # another counter
        ([step(k) for k in (1, 2, 3)] + [figures(k, k + 0.5) for k in (3, 2, 1)], [(1, 1.5), (2, 2.5), (3, 3.5)]),
        ([step(1), step(2)] + [figures(k, k + 0.5) for k in (2, 1)], [(1, None), (2, None)]),  # two may be chance
        ([step(1), figures(1, 1.5), step(1), figures(1, 2.5)], [(1, 1.5), (1, 2.5)]),  # the nearest row of the step
        (
            [step(1, 0), step(1, 1), figures(1, 1.5, 0), figures(1, 2.5, 1), step(2, 0), step(2, 1)],
            [(1, 1.5), (1, 2.5), (2, None), (2, None)],  # of the rank
        ),
        ([step(1, 0), step(1, 1), figures(1, 1.5), step(2, 0)], [(1, None), (1, None), (2, None)]),  # of which rank?
        ([step(1), figures(1, 1.5, 0), step(2)], [(1, 1.5), (2, None)]),
        ([step(1, 3), figures(1, 1.5), step(2, 3)], [(1, 1.5), (2, None)]),  # of the only rank that prints steps
        (
            [step(1, 1), step(1, 0), figures(1, 2.5, 1), step(2, 1), step(2, 0)],
            [(1, 2.5), (1, None), (2, None), (2, None)],  # of its rank, not the nearest
        ),
        (
            [step(1, 0), step(1, 1), figures(1, 1.5), step(2, 0), figures(2, 2.5, 0), step(2, 1)],
            [(1, None), (1, None), (2, 2.5), (2, None)],
        ),
        # Steps that the program does not print are in order too
        (
            [figures(5, 1.5), step(10), figures(15, 1.5), step(20), figures(20, 2.5), figures(25, 1.5), step(30)],
            [(10, None), (20, 2.5), (30, None)],
        ),
        # Steps that both print, in no order
        ([figures(30, 1.5), step(10), step(20), figures(10, 2.5), step(30)], [(10, None), (20, None), (30, None)]),
        (
            [step(1), figures(1, 1.5), START, step(1), step(2), figures(2, 2.5)],
            [(1, 1.5), (1, None), (2, 2.5)],  # each run has its own steps
        ),
    ],
)
def test_figures_of_a_library_in_the_rows_of_their_steps(
    tmp_path: Path, lines: list[str], expected: list[tuple[int, float | None]]
) -> None:
    assert norms(tmp_path, [START, *lines]) == expected


def test_without_steps_of_a_program_those_of_the_library_are_the_steps(tmp_path: Path) -> None:
    assert norms(tmp_path, [figures(1, 1.5), figures(2, 2.5)]) == [(1, 1.5), (2, 2.5)]


def test_what_a_program_prints_itself_is_kept(tmp_path: Path) -> None:
    """Its loss, whatever a library prints under that name."""
    library = LIBRARY.replace("lr={lr:.1f}", "loss={loss:.1f}").replace("lr=2.5", "loss=2.5")
    formats = [load(given_file(tmp_path, text, name)) for name, text in (("own", PROGRAM), ("engine", library))]
    log = "\n".join([START, step(1), "engine at step 1: loss=9.5, grad_norm=1.5", step(2), ""])
    found = read(log.encode(), formats=formats).rows("steps")
    assert [(row["step"], row["loss"], row["grad_norm"]) for row in found] == [(1, 2.5, 1.5), (2, 2.5, None)]


def test_figures_stay_values_too(tmp_path: Path) -> None:
    formats = [load(given_file(tmp_path, text, name)) for name, text in (("own", PROGRAM), ("engine", LIBRARY))]
    log = "\n".join([START, step(1), figures(1, 1.5), ""])
    found = read(log.encode(), formats=formats).rows("values")
    assert sorted((row["key"], row["step"], row["value"]) for row in found) == [("grad_norm", 1, 1.5), ("lr", 1, 0.5)]


@pytest.mark.parametrize("keys", ["grad_norm", "Grad Norm"])
def test_lines_that_print_the_name_of_their_value(tmp_path: Path, keys: str) -> None:
    """With `fills_steps`: a line for each figure."""
    named = """
[[line]]
name = "named"
table = "values"
fills_steps = true
text = "figure of step {step:d}: {key:s} is {value:.1f}"
sample = "figure of step 3: grad_norm is 1.5"
"""
    form = load(given_file(tmp_path, PROGRAM + named))
    log = [START, step(1), f"figure of step 1: {keys} is 1.5", "figure of step 1: speed is 7.5", step(2)]
    found = read("\n".join([*log, ""]).encode(), formats=[form]).rows("steps")
    assert [(row["step"], row["loss"], row["grad_norm"]) for row in found] == [(1, 2.5, 1.5), (2, 2.5, None)]


def printed(*rows: tuple[int, int, int]) -> _Printed:
    """Rows of a run by position, step and rank."""
    positions, steps, ranks = (np.array(column) for column in zip(*rows, strict=True))
    zeros = np.zeros(len(rows), np.int64)
    return _Printed(positions, zeros, steps, ranks, zeros, np.arange(len(rows)))


@pytest.mark.parametrize(
    ("row", "partner"),
    [
        ((25, 1, 0), 0),  # its rank
        ((25, 1, 2), -1),
        ((25, 2, 5), 2),  # the program prints no rank
        ((25, 1, -1), -1),  # several ranks print the step
        ((48, 3, -1), 4),  # the nearest of one rank
        ((41, 3, -1), 3),
        ((25, 2, -2), 2),  # of a process without a known rank
        ((25, 1, -2), -1),
        ((99, 4, -2), 5),
        ((25, 9, 0), -1),
    ],
)
def test_the_row_of_a_program_to_which_a_line_belongs(row: tuple[int, int, int], partner: int) -> None:
    program = printed((10, 1, 0), (20, 1, 1), (30, 2, -1), (40, 3, 0), (50, 3, 0), (60, 4, -2), (70, 4, -3))
    assert _partners(program, printed(row)).tolist() == [partner]


@pytest.mark.parametrize(
    ("wrong", "others", "same"),
    [(0, [11], True), (1, [11], True), (2, [11], False), (2, [], True), (1, [], True)],
)
def test_counts_are_the_same_in_nearly_all_lines_or_of_equal_steps(wrong: int, others: list[int], same: bool) -> None:
    """Ten lines of a library; `wrong` of them are far from their step. `others`: steps of the program alone."""
    steps = [*range(1, 11), *others]
    program = printed(*((10 * step, step, 0) for step in steps))
    moved = {1: 95, 2: 97} if wrong == 2 else {1: 95} if wrong else {}
    library = printed(*sorted((moved.get(step, 10 * step + 1), step, 0) for step in range(1, 11)))
    assert _counts_the_same(program, library) == same
    assert not _counts_the_same(printed((10, 1, 0), (20, 2, 0)), printed((15, 7, 0)))
    assert not len(_Printed.of([]).positions)


@pytest.mark.parametrize(
    ("text", "more", "columns"),
    [
        ("step {step:d} {loss:r} {_:r} norm {grad_norm:r}", {}, {"loss": "loss", "grad_norm": "grad_norm"}),
        ("step {step:d} is {loss:w}, norm {grad_norm:r}", {}, {"grad_norm": "grad_norm"}),  # a word is no number
        ("step {step:d} takes {step_time:r}", {}, {}),  # in which unit?
        ("step {step:d} takes {step_time:r}", {"unit": {"step_time": UNITS["ms"]}}, {"step_time": "step_time_s"}),
        ("step {step:d} loss {loss:r}", {"unit": {"loss": UNITS["ms"]}}, {}),
        ("loss {loss:r}", {}, {}),  # of which step?
        ("loss {loss:r}", {"fills_steps": True}, {"loss": "loss"}),
        ("step {step:d} lr {lr:r}", {}, {}),  # another name of the column
        ("lr {lr:r} at {step:d} of epoch {epoch:r}", {"fills_steps": True}, {"lr": "learning_rate"}),
        ("step {step:d} loss {loss:r}", {"table": "steps"}, {}),
    ],
)
def test_the_columns_of_steps_that_a_line_fills(text: str, more: dict[str, Any], columns: dict[str, str]) -> None:
    line = Line("line", Template(text), **({"table": "values"} | more))
    assert {name: column.name for name, column in step_columns(line)} == columns
    form: Any = SimpleNamespace(library=True)
    assert is_partner(form, line) == bool(columns)
    form.library = False
    assert is_partner(form, line) == (bool(columns) and line.fills_steps)
