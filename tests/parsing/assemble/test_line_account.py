"""Every line of a log is in the account of its run, by its shape, with the figures that were not stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load
from perflog.parsing.assemble.runs import line_account

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
[[context]]
text = "saved the model"
sample = "saved the model"
"""
START, STEP = "program with 8 sequences", "finished step {} with loss 2.5"


def account(folder: Path, lines: list[str], chunk: int) -> list[tuple[Any, ...]]:
    """Run, status, count, first line, sample and unread figures of each shape."""
    data = "".join(f"{line}\n" for line in lines).encode()
    got = read(data, formats=[load(given_file(folder, FORMAT))], chunk=chunk)
    assert got.balances()
    found = sorted(got.rows("lines"), key=lambda row: (row["run"], row["first_line"], row["status"]))
    return [
        (row["run"][-1], row["status"], row["count"], row["first_line"], row["sample"], row["figures_unread"])
        for row in found
    ]


@pytest.mark.parametrize("chunk", [1, 100, 1 << 20])
def test_lines_by_run_and_shape(tmp_path: Path, chunk: int) -> None:
    lines = [START, STEP.format(1), "", "odd 1 of 2.5", STEP.format(2), "odd 3 of 4.5", "words", "saved the model"]
    more = [START, "odd 7 of 8.5", STEP.format(3), " "]
    assert account(tmp_path, lines + more, chunk) == [
        ("1", "read", 1, 1, START, 0),
        ("1", "read", 2, 2, STEP.format(1), 0),
        ("1", "context", 1, 3, "", 0),
        ("1", "unread", 2, 4, "odd 1 of 2.5", 4),
        ("1", "unread", 1, 7, "words", 0),
        ("1", "context", 1, 8, "saved the model", 0),
        ("2", "read", 1, 9, START, 0),
        ("2", "unread", 1, 10, "odd 7 of 8.5", 2),
        ("2", "read", 1, 11, STEP.format(3), 0),
        ("2", "context", 1, 12, " ", 0),
    ]


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_shapes_beyond_a_number_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """A shape that was counted by itself goes on to be."""
    monkeypatch.setattr(line_account, "SHAPES", 4)
    lines = [START, STEP.format(1), "first 1", "second 2", "third 3", "fourth 4", "first 5", "third 6"]
    found = [row for row in account(tmp_path, lines, chunk) if row[1] == "unread"]
    assert [(count, line, figures) for _, _, count, line, _, figures in found] == [(2, 3, 2), (1, 4, 1), (3, 5, 3)]


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_the_last_line_of_a_run(tmp_path: Path, chunk: int) -> None:
    """Lines that a format knows count, others do not."""
    lines = [START, STEP.format(1), "saved the model", "words", "", START, STEP.format(2), "words"]
    data = "".join(f"{line}\n" for line in lines).encode()
    got = read(data, formats=[load(given_file(tmp_path, FORMAT))], chunk=chunk)
    runs = sorted(got.rows("runs"), key=lambda row: row["index"])
    assert [(run["first_line"], run["last_line"]) for run in runs] == [(1, 3), (6, 7)]


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_figures_of_a_failure_are_dropped_for_a_reason(tmp_path: Path, chunk: int) -> None:
    error = "RuntimeError: tensor 3 has size 17"
    trace = ["Traceback (most recent call last):", '  File "train.py", line 8, in <module>', "    step(3)", error]
    data = "".join(f"{line}\n" for line in [START, STEP.format(1), *trace]).encode()
    got = read(data, formats=[load(given_file(tmp_path, FORMAT))], chunk=chunk)
    (row,) = [row for row in got.rows("lines") if row["shape"] == "message of a failure"]
    assert (row["status"], row["count"], row["first_line"], row["figures_unread"]) == ("read", 4, 3, 0)
    assert row["figures_dropped"] == 3 and "failures" in row["dropped_because"]  # of step(3), and 3 and 17
    samples = {row["first_line"]: row["sample"] for row in got.rows("lines")}
    assert samples == {1: START, 2: STEP.format(1), 3: trace[0]}
    assert got.done.figures["unread"] == 0


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_an_unread_part_of_a_line_is_no_line(tmp_path: Path, chunk: int) -> None:
    """Its figures count, and parts without figures do not."""
    lines = [START, f"some words\rother words\r at 5 of 9\r{STEP.format(1)}", f" at 7 of 9\r{STEP.format(2)}"]
    found = [(status, count, line, figures) for _, status, count, line, _, figures in account(tmp_path, lines, chunk)]
    assert found == [("read", 1, 1, 0), ("read", 2, 2, 0), ("unread", 0, 2, 4)]
