"""Batches become rows as soon as they are complete, and runs end when they get no more rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.format_files import given_file

from perflog.formats.loader.format_file import load
from perflog.formats.model import Format
from perflog.parsing.assemble.assembler import Assembler, Decisions, RereadRequired
from perflog.parsing.input.chunks import as_chunk
from perflog.parsing.match.rank_labels import Labels
from perflog.parsing.match.records import lines_of
from perflog.parsing.match.scanner import Scanner

FORMAT = """
title = "a program that trains several times"
file_names = ["of_rank_{rank:d}.log"]
scopes = ["process", "run", "step"]
[[line]]
name = "process"
before = "run"
opens = "process"
table = "runs"
text = "process with {world:d} ranks"
sample = "process with 8 ranks"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "run with {batch:d} sequences"
sample = "run with 8 sequences"
[[line]]
name = "step"
table = "steps"
closes = "step"
text = "step {step:d} took {step_time_s:r} ms"
unit = { step_time_s = "ms" }
sample = "step 3 took 250.0 ms"
[[line]]
name = "mean"
table = "summaries"
text = "mean is {step_time_s:r} ms"
unit = { step_time_s = "ms" }
sample = "mean is 250.0 ms"
[[line]]
name = "value"
table = "values"
text = "loss is {value:r}"
set = { key = "loss" }
sample = "loss is 2.5"
"""


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Format:
    return load(given_file(tmp_path_factory.mktemp("formats"), FORMAT))


def assembled(form: Format, *parts: str, **options: Any) -> tuple[list[dict[str, list[Any]]], list[list[int]]]:
    """The rows that each part of a log and its end complete, by table; and the runs that have ended with each."""
    assembler, lines = Assembler(**options), lines_of([form])
    scanner, first, found = Scanner(lines, Labels()), 1, []
    for number, part in enumerate(parts):
        chunk = as_chunk(part.encode())
        chunk.first_line, chunk.is_last = first, number == len(parts) - 1
        first += part.count("\n")
        found.append(assembler.feed(lines, scanner.scan(chunk)))
    found.append(assembler.finish(lines))
    tables = [{name: rows.to_pylist() for name, rows in of_part.items()} for of_part, _ in found]
    return tables, [[run.index for run in ended] for _, ended in found]


def steps(of_part: dict[str, list[Any]]) -> list[tuple[int, int, int | None]]:
    return [(row["line"], row["step"], row["rank"]) for row in of_part.get("steps", ())]


def test_rows_are_returned_with_the_line_that_completes_them(form: Format) -> None:
    """A value waits for the line that closes its step; the last part leaves all to the end."""
    tables, ended = assembled(
        form, "run with 8 sequences\nloss is 1.5\n", "step 1 took 250.0 ms\nloss is 1.25\n", "step 2 took 250.0 ms\n"
    )
    assert [steps(part) for part in tables] == [[], [(3, 1, None)], [], [(5, 2, None)]]
    values = [[(row["line"], row["step"], row["value"]) for row in part.get("values", ())] for part in tables]
    assert values == [[], [(2, 1, 1.5)], [], [(4, 2, 1.25)]]
    assert ended == [[], [], [], [1]]


def test_a_run_ends_when_the_next_one_has_begun_and_nothing_of_it_waits(form: Format) -> None:
    tables, ended = assembled(
        form,
        "run with 8 sequences\nstep 1 took 250.0 ms\n",
        "run with 16 sequences\nstep 1 took 125.0 ms\n",
        "run with 32 sequences\nstep 1 took 125.0 ms\n",
        "step 2 took 125.0 ms\n",
    )
    assert ended == [[], [1], [2], [], [3]]
    assert [row["run"] for part in tables for row in part.get("steps", ())] == ["1", "2", "3", "3"]


def test_a_run_ends_while_records_of_the_next_one_wait(form: Format) -> None:
    begin, last = "run with 8 sequences\nstep 1 took 250.0 ms\nrun with 16 sequences\n", "step 1 took 125.0 ms\n"
    assert assembled(form, begin + "loss is 1.5\n", last)[1] == [[1], [], [2]]
    assert assembled(form, begin, last)[1] == [[1], [], [2]]
    assert assembled(form, "loss is 1.5\n" + begin, last)[1] == [[1, 2], [], [3]]
    assert assembled(form, "run with 4 sequences\nloss is 1.5\n", begin, last)[1] == [[], [1, 2], [], [3]]


def test_what_a_process_prints_is_a_setting_of_all_its_runs(form: Format) -> None:
    assembler, lines = Assembler(), lines_of([form])
    text = (
        "process with 8 ranks\nrun with 4 sequences\nstep 1 took 250.0 ms\nrun with 2 sequences\nstep 1 took 250.0 ms\n"
        "process with 16 ranks\nrun with 1 sequences\nstep 1 took 250.0 ms\n"
    )
    _, early = assembler.feed(lines, Scanner(lines, Labels()).scan(as_chunk(text.encode())))
    _, late = assembler.finish(lines)
    configs = [json.loads(run.settings.to_json()) for run in (*early, *late)]
    assert configs == [{"world": 8, "batch": 4}, {"batch": 2, "world": 8}, {"world": 16, "batch": 1}]


def test_each_log_has_what_its_name_says(form: Format) -> None:
    """Two logs that are read together: the first has lines 1 to 2, the other begins at line 3."""
    text = "run with 8 sequences\nstep 1 took 250.0 ms\n" * 2
    tables, _ = assembled(form, text, files=("of_rank_3.log", "other.log"), logs=(0, 3 << 20))
    assert steps(tables[-1]) == [(2, 1, 3), (4, 1, None)]
    tables, _ = assembled(form, text, files=("of_rank_3.log",))
    assert steps(tables[-1]) == [(2, 1, 3), (4, 1, 3)]


def test_an_average_has_the_steps_that_it_is_the_mean_of(form: Format) -> None:
    taken = "".join(f"step {step} took {100.0 * step} ms\n" for step in (1, 2, 3, 4))
    tables, _ = assembled(form, f"run with 8 sequences\n{taken}mean is 350.0 ms\n")
    (row,) = (row for part in tables for row in part.get("summaries", ()))
    assert (row["line"], row["value"]) == (6, pytest.approx(0.35))
    assert (row["window_first"], row["window_last"], row["window_fit"]) == (3, 4, "exact")


def test_ranks_that_close_their_steps_alone_show_late_and_have_the_log_read_again(form: Format) -> None:
    early = "run with 8 sequences\n[rank0]:step 1 took 250.0 ms\n[rank0]:step 2 took 250.0 ms\n"
    late = "".join(f"[rank{rank}]:step {step} took 250.0 ms\n" for step in (3, 4) for rank in (0, 1))
    with pytest.raises(RereadRequired) as raised:
        assembled(form, early, late, late)
    assert raised.value.decisions == Decisions(separate={1: True})
    tables, _ = assembled(form, early, late, late, decisions=raised.value.decisions)
    assert sum(len(steps(part)) for part in tables) == 10
