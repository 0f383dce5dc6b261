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

FORMAT = '''
title = "a program that trains several times"
file_names = ["of_rank_{rank:d}.log"]
scopes = ["process", "run", "part", "step"]
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
name = "stamped"
table = "steps"
closes = "step"
text = "[{_:s}] step {step:d} has loss {loss:r}"
sample = "[10:00:00] step 3 has loss 2.5"
[[line]]
name = "mean"
table = "summaries"
text = "mean is {step_time_s:r} ms"
unit = { step_time_s = "ms" }
sample = "mean is 250.0 ms"
[[line]]
name = "head"
opens = "part"
text = "numbers are in {unit:S}"
sample = "numbers are in ms"
[[line]]
name = "tail"
closes = "part"
text = "these were in {unit:S}"
sample = "these were in ms"
[[line]]
name = "wait"
table = "values"
text = "wait of one is {wait:r}"
sample = "wait of one is 2.5"
[[line]]
name = "total"
table = "values"
outside = "part"
text = "total of all is {total:r}"
sample = "total of all is 2.5"
[[line]]
name = "state"
table = "runs"
text = "state is {state:d}"
sample = "state is 2"
[[line]]
name = "value"
table = "values"
text = "loss is {value:r}"
set = { key = "loss" }
sample = "loss is 2.5"
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


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_scope_ends_with_its_run(form: Format, is_cut: bool) -> None:
    """A line that is declared outside of it has nothing of it."""
    step = "step 1 took 250.0 ms"
    log = ["run with 8 sequences", step, "run with 4 sequences", "numbers are in ms", "wait of one is 2.5"]
    log += ["total of all is 9.5", step, "wait of one is 1.5", step]
    log += ["run with 2 sequences", "wait of one is 3.5", step, "end"]
    lines = [f"{line}\n" for line in log]
    tables, _ = assembled(form, *(lines if is_cut else ["".join(lines)]))
    found = [(row["line"], row["value"], row["unit"]) for part in tables for row in part.get("values", ())]
    assert sorted(found) == [(5, 0.0025, "s"), (6, 9.5, None), (8, 0.0015, "s"), (11, 3.5, None)]


def test_a_line_that_ends_a_scope_is_of_the_lines_before_it(form: Format) -> None:
    parts = (
        f"run with 8 sequences\nstep 1 took 250.0 ms\nwait of one is 2.5\nthese were in {unit}\nstep 2 took 250.0 ms\n"
        for unit in ("ms", "us")
    )
    tables, _ = assembled(form, "".join(parts))
    found = [(row["line"], row["value"], row["unit"]) for part in tables for row in part.get("values", ())]
    assert sorted(found) == [(3, 0.0025, "s"), (8, pytest.approx(2.5e-6), "s")]


def test_the_times_before_steps_and_the_runs_that_have_them(form: Format) -> None:
    begin, stamped = "run with 8 sequences\n", "[2026-01-01 10:00:0{}] step {} has loss 2.5\n"
    text = (
        f"{begin}{stamped.format(1, 1)}step 2 took 250.0 ms\n{begin}step 1 took 250.0 ms\n"
        f"{begin}step 1 took 250.0 ms\n{stamped.format(3, 2)}"
    )
    assembler, lines = Assembler(), lines_of([form])
    early, ended = assembler.feed(lines, Scanner(lines, Labels()).scan(as_chunk(text.encode())))
    late, last = assembler.finish(lines)
    rows = [row for part in (early, late) if "steps" in part for row in part["steps"].to_pylist()]
    at = [row["printed_ns"] and row["printed_ns"] // 10**9 % 60 for row in rows]
    assert sorted((row["line"], second) for row, second in zip(rows, at, strict=True)) == [
        (2, 1), (3, None), (5, None), (7, None), (8, 3),
    ]  # fmt: skip
    assert [run.is_stamped for run in (*ended, *last)] == [True, False, True]


def test_a_run_ends_after_its_printout(form: Format) -> None:
    begin, step = "run with 8 sequences\n", "step 1 took 250.0 ms\n"
    parts = [f"{begin}{step}", f"{begin}{step}model of gpt(\n  layer one\n", f"{begin}{step}", "  layer two\n)\n", step]
    assert assembled(form, *parts)[1] == [[], [1], [], [2], [], [3]]


def test_settings_that_change_in_each_of_several_runs_are_series(form: Format) -> None:
    part = "run with 8 sequences\nstate is 1\nstate is 2\nstep 1 took 250.0 ms\nloss is 2.5\n"
    tables, _ = assembled(form, part * 2)
    found = [(row["run"], row["line"], row["value"]) for of_part in tables for row in of_part.get("values", ())]
    assert sorted(found) == [
        (run, line + 5 * (run == "2"), value) for run in "12" for line, value in ((2, 1), (3, 2), (5, 2.5))
    ]
