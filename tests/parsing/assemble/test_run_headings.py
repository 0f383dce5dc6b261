"""Headings and commands above runs that are copied into one text."""

from __future__ import annotations

from typing import Any

import pytest
from support.reading import read


def log(*headings: str, steps: int = 4) -> bytes:
    """Runs of equal steps, each below its heading."""
    lines = [f"step {step} | loss {9 - step}.5 | 118.{step} ms" for step in range(steps)]
    return "\n".join(line for heading in headings for line in (heading, *lines)).encode() + b"\n"


def runs(data: bytes, size: int | None = None) -> list[tuple[Any, int, int]]:
    """Label, first line and number of steps of each run."""
    got = read(data) if size is None else read(data, chunk=size)
    steps = [row["run"] for row in got.rows("steps")]
    return [(row["label"], row["first_line"], steps.count(row["run"])) for row in got.rows("runs")]


@pytest.mark.parametrize(
    ("headings", "labels"),
    [
        (("### BF16", "### FP8"), ["BF16", "FP8"]),
        (("=== seed 1 ===", "=== seed 2 ===", "=== seed 3 ==="), ["seed 1", "seed 2", "seed 3"]),
        (("main:\nrun 1:", "run 2:", "branch:\nrun 1:"), ["main run 1", "run 2", "branch run 1"]),
        (("with compile (max-autotune):", "eager:"), ["with compile (max-autotune)", "eager"]),
        (("$ python train.py", "$ python train.py"), [None, None]),
        (("[bench] == M=8 N=2 ==\na\nb\nc\nd", "[bench] == M=9 N=2 ==\na\nb\nc\nd"), ["M=8 N=2", "M=9 N=2"]),
        (("### FP8\n```\n$ ./train --fp8", "```\n### BF16\n```\n$ ./train"), ["FP8", "BF16"]),
    ],
)
def test_steps_begin_again_below_another_heading(headings: tuple[str, ...], labels: list[str | None]) -> None:
    assert [label for label, _, _ in runs(log(*headings))] == labels
    assert [count for _, _, count in runs(log(*headings))] == [4] * len(labels)


@pytest.mark.parametrize(
    "headings",
    [
        ("=== rank 0 ===", "=== rank 1 ==="),
        ("GPU 0:", "GPU 1:"),
        ("### Epoch 1", "### Epoch 2"),
        ("Training:", "Training:"),
        ("== start ==", "== start =="),  # of each epoch
        ("Validation:", "Test:"),
        ("the loss goes on", "and on"),
        ("### FP8", "Memory:"),  # printed in the course of the run
        ("Model:\na\nb\nc\nd", "Gradients:\na\nb\nc\nd"),
        ("### FP8", "### Saving checkpoint"),
        ("== M=8 ==\na\nb\nc\nd", "== M=9 ==\na\nb\nc\nd"),  # too far above the steps
        ("nothing above the first run", "### BF16"),
    ],
)
def test_steps_that_begin_again_are_of_ranks_or_epochs_else(headings: tuple[str, ...]) -> None:
    assert len(runs(log(*headings))) == 1


def test_steps_begin_again_after_some_steps_only() -> None:
    assert len(runs(log("a:", "b:", steps=2))) == 1


@pytest.mark.parametrize("size", [1, 30, 64, 150])
def test_a_heading_in_another_chunk(size: int) -> None:
    data = log("# first", "# second", "# third")
    assert runs(data, size) == runs(data)


def test_another_name_before_the_steps_is_another_run() -> None:
    def turn(name: str, steps: range) -> str:
        return "".join(f"10:00:{step:02} {name}: step {step} loss 2.{step}\n" for step in steps)

    in_turn = turn("gpt2", range(1, 9)) + turn("llama3", range(1, 9))
    assert runs(in_turn.encode()) == [("gpt2", 1, 8), ("llama3", 9, 8)] == runs(in_turn.encode(), 64)
    by_turns = turn("gpt2", range(1, 5)) + turn("llama3", range(1, 5)) + turn("gpt2", range(5, 9))
    assert runs(by_turns.encode()) == [("gpt2", 1, 4), ("llama3", 5, 4), ("gpt2", 9, 4)] == runs(by_turns.encode(), 64)
    assert len(runs(in_turn.replace("gpt2", "llama2").encode())) == 1  # numbers may be of processes
