"""Headings and commands above runs that are copied into one text."""

from __future__ import annotations

from typing import Any

import pytest
from support.reading import read

from perflog.parsing.assemble.runs import run_headings as module
from perflog.parsing.assemble.runs.run_headings import Heading
from perflog.tables.row_order import PART_BITS


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


@pytest.mark.parametrize(("steps", "count"), [(2, 1), (3, 2)])
def test_steps_begin_again_after_some_steps_only(steps: int, count: int) -> None:
    assert len(runs(log("a:", "b:", steps=steps))) == count


@pytest.mark.parametrize(
    ("heading", "lines", "count"),
    [("### {}", 99, 2), ("### {}", 100, 1), ("{}:", 2, 2), ("{}:", 3, 1)],  # lines between the heading and the step
)
def test_how_far_above_the_steps_a_heading_is(heading: str, lines: int, count: int) -> None:
    """A section a hundred lines above, a title three."""
    assert len(runs(log(*(heading.format(name) + "\n." * lines for name in ("BF16", "FP8"))))) == count


@pytest.mark.parametrize(
    ("text", "words", "form"),
    [
        ("### BF16 ##", "BF16", "#"),
        ("  == M=8 ==", "M=8", "="),
        ("--- run 2", "run 2", "-"),
        ("[bench] ** fast **", "fast", "*"),
        ("run 2 :", None, ""),
        ("run 2: ", "run 2", ":"),
        ("a b c d e f:", "a b c d e f", ":"),
        ("a b c d e f g:", None, ""),
        ("####### BF16", None, ""),
        ("= M=8 =", None, ""),
        ("== M=8 --", "M=8 --", "="),
        ("$ make train", "", "$"),
        ("N=2 LR=1 torchrun --n 2 train.py", "", "$"),
        ("/usr/bin/python3.11 train.py", "", "$"),
        ("./train --fp8", "", "$"),
        ("./train", None, ""),
        ("python", None, ""),
        ("pythonic train", None, ""),
        ("### Epoch 2", None, ""),
        ("x" * 99 + ":", "x" * 99, ":"),
        ("x" * 100 + ":", None, ""),
    ],
)
def test_lines_that_are_headings(text: str, words: str | None, form: str) -> None:
    found = [(heading.position, heading.words, heading.form) for heading in module._headings([7], [text])]
    assert found == ([] if words is None else [(7, words, form)])


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("BF16", True), ("run 2", True), ("trial 3", True), ("with compile", True), ("fold", True),
        ("rank 2", False), ("fold 2", False), ("Epoch-2", False), ("cuda:0", False), ("Phase 1 of 2", False),
        ("Validation", False), ("the final loss", False), ("Training log", False), ("resumed", False), ("12", False),
    ],
)  # fmt: skip
def test_titles_that_may_name_a_run(title: str, names: bool) -> None:
    assert module.names_run(title) == names


def heading(line: int, words: str, form: str = ":") -> Heading:
    return Heading(line << PART_BITS, words, words, form)


@pytest.mark.parametrize(
    ("above", "label"),
    [
        ([heading(1, "a"), heading(2, "b")], "a b"),
        ([heading(1, "a"), heading(3, "b")], "a b"),  # an empty line between
        ([heading(1, "a"), heading(4, "b")], "b"),
        ([heading(1, "a"), heading(3, "b"), heading(5, "c")], "a b c"),
        ([heading(1, "a"), heading(9, "", "$")], "a"),  # a command has no name
        ([heading(8, "a"), heading(9, "gpt", "name")], "a"),
        ([heading(9, "gpt", "name")], "gpt"),
        ([heading(9, "", "$")], None),
        ([], None),
    ],
)
def test_the_name_of_a_run_is_that_of_the_last_headings(above: list[Heading], label: str | None) -> None:
    assert module._label(above) == label


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
    alone = "".join(f"gpt2: step {step} loss 2.{step}\n" for step in (1, 2, 3, 1, 2, 3))
    assert len(runs(alone.encode())) == 1


START = ("Initializing process group, world size 8", "Loading dataset c4", "Starting training")


def restarted(begins: int, reached: int = 12, again: tuple[str, ...] = START, start: tuple[str, ...] = START) -> bytes:
    """A run that is started again after some steps, and goes on at one of them."""
    lines = [f"step {step} | loss {9 - step / 5:.3f} | 118.{step} ms" for step in range(1, 21)]
    return "\n".join([*start, *lines[:reached], *again, *lines[begins - 1 :], ""]).encode()


@pytest.mark.parametrize("begins", [2, 8, 11])
def test_first_lines_that_are_printed_again_begin_a_run(begins: int) -> None:
    """However the log is cut into chunks."""
    data = restarted(begins)
    assert runs(data) == [(None, 4, 12), (None, 16, 21 - begins)]
    assert all(runs(data, size) == runs(data) for size in (60, 200, 500))


@pytest.mark.parametrize(
    ("setting", "others"),
    [
        ("lr: {}, batch_size: 32", (0.1, 0.01)),
        ("Namespace(lr={})", (0.1, 0.01)),
        ("Model of {}M parameters", (125, 350)),
    ],
)
def test_other_settings_are_the_labels_of_the_runs_of_two_starts(setting: str, others: tuple[float, float]) -> None:
    first, other = ((*START, setting.format(value), "master_port=29500") for value in others)
    again = (*first[:-1], "master_port=29512")
    labels = [[run[0] for run in runs(restarted(8, start=first, again=each))] for each in (again, other)]
    assert labels == [[None, None], [setting.format(value) for value in others]]


def test_steps_of_an_evaluation_begin_no_run() -> None:
    """Its workers print the first lines again; the training goes on after its last step."""
    lines = [f"step {step} | loss {9 - step / 5:.3f} | 118.{step} ms" for step in range(1, 31)]
    data = "\n".join([*START, *lines[:20], *START, *lines[1:6], *lines[20:], ""]).encode()
    assert len(runs(data)) == 1


@pytest.mark.parametrize(
    "data",
    [
        restarted(1),  # an epoch, whose steps begin again
        restarted(13),  # nothing is done again
        restarted(8, again=START[1:]),
        restarted(8, again=()),
        restarted(8, start=START[:1], again=START[:1]),  # one line is any line
        restarted(8, again=("Initializing optimizer", *START[1:])),
    ],
)
def test_steps_that_go_back_are_of_one_run_else(data: bytes) -> None:
    assert len(runs(data)) == 1
