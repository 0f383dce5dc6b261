"""What each kind of line does in each state of the run that is open."""

from __future__ import annotations

import numpy as np
import pytest

from perflog.parsing.assemble.runs.printed_steps import PrintedSteps
from perflog.parsing.assemble.runs.run_boundaries import BoundaryLine, Event, RecordKind
from perflog.parsing.assemble.runs.run_machine import RunMachine, RunStart
from perflog.parsing.match.rank_labels import NO_LABEL


def read(machine: RunMachine, words: list[str], first: int = 0) -> list[RunStart]:
    """Read a batch of lines, at positions from `first`: `a.open`, `a.open@3` of rank 3, `a.step=7`, `a.value`.

    `+` after a boundary: it has rows; `!`: it starts the processes. Records of format `x` join the run that is open.
    """
    boundaries, steps = list[BoundaryLine](), list[tuple[int, int]]()
    records: dict[RecordKind, list[int]] = {}
    for position, word in enumerate(words, first):
        form, _, what = word.partition(".")
        name, _, label = what.rstrip("+!").partition("@")
        if name.upper() in Event.__members__ and name != "record":
            event, rank = Event[name.upper()], int(label) if label else NO_LABEL
            boundaries.append(BoundaryLine(position, event, form, "!" in what, "+" in what, rank))
            continue
        step = what.removeprefix("step=") if what.startswith("step") else ""
        kind = RecordKind(form, bool(step), form == "x", step.isdigit() and form != "x")
        records.setdefault(kind, []).append(position)
        if kind.counts:
            steps.append((position, int(step)))
    places, numbers = (np.array([pair[k] for pair in steps], np.int64) for k in (0, 1))
    by_kind = {kind: [np.array(at, np.int64)] for kind, at in records.items()}
    return machine.read(boundaries, by_kind, PrintedSteps(places, numbers, np.zeros(len(steps))))


def begun(text: str, is_by_rank: bool = False) -> list[int]:
    """The positions at which runs begin, if all lines are one batch."""
    return [start.position for start in read(RunMachine(is_by_rank=is_by_rank), text.split())]


@pytest.mark.parametrize(
    ("event", "positions"),
    [  # no run; closed; a run without records; with records of another format; with records of its own
        ("before", [[0], [0, 2], [0], [0], [0, 1]]),
        ("start", [[0], [0, 2], [0], [0, 1], [0, 1]]),
        ("open", [[0], [0, 2], [0], [0, 1], [0, 1]]),
        ("reopen", [[0], [0, 2], [0, 1], [0, 1], [0, 1]]),
        ("command", [[0], [0, 2], [0], [0, 1], [0, 1]]),  # after a step it is a start
        ("join", [[0], [0, 2], [0], [0, 1], [0, 1]]),  # after a step it opens a run
        ("close", [[0], [0], [0], [0], [0]]),
        ("step=9", [[0], [0, 2], [0], [0], [0]]),
        ("value", [[0], [0, 2], [0], [0], [0]]),
    ],
)
def test_what_a_line_does_in_each_state(event: str, positions: list[list[int]]) -> None:
    before = ["", "a.step=1 a.close", "b.open", "b.step=1", "a.step=1"]
    assert [begun(f"{words} a.{event}") for words in before] == positions
    values = [[0] if event in ("command", "join") else found for found in positions[3:]]
    by_values = [begun(f"{words} a.{event}") for words in ("b.value", "a.value")]
    assert by_values == ([[0, 1]] * 2 if event == "reopen" else values)


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ("", []),
        ("b.step=1 a.before a.note a.open a.step=1", [0, 3]),  # a record after the line in front
        ("b.step=1 a.before a.open a.step=1", [0, 1]), ("b.step=1 a.before c.before a.open", [0, 1]),
        ("b.step=1 a.before b.step=2 a.open", [0, 3]),
        ("a.open a.step=1 a.open", [0, 2]), ("a.open b.open a.open", [0, 2]), ("a.open b.open b.step=1", [0]),
        ("a.open+ a.join", [0, 1]), ("a.open a.join", [0]), ("a.join a.join", [0]),
        ("a.join a.step=1 a.join a.join", [0, 2]),
        ("a.join+ a.step=1", [0]), ("a.value a.command", [0]), ("a.value b.before a.command c.open", [0, 1]),
        ("x.phase a.open", [0]), ("a.open x.phase a.close x.phase a.open", [0, 4]),  # what joins ends no wait
        ("b.step=1 a.before x.phase a.open", [0, 1]), ("a.close a.step=1", [0, 1]), ("a.close a.close", [0]),
    ],
)  # fmt: skip
def test_runs_begin(text: str, positions: list[int]) -> None:
    assert begun(text) == positions
    by_line, found = RunMachine(), list[RunStart]()
    for place, word in enumerate(text.split()):
        found += read(by_line, [word], place)
    assert [start.position for start in found] == positions
    assert by_line.runs == len(positions)


STEPS = "a.step=1 a.step=2 a.step=3"


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        (f"{STEPS} a.resume a.step=2", [0, 3]), (f"{STEPS} a.resume a.step=3", [0, 3]),
        (f"{STEPS} a.resume a.step=4", [0]),
        (f"a.step=1 a.step=1 {STEPS} a.resume a.step=3", [0]),  # it repeats steps anyway
        (f"a.step=1 a.step=1 a.configure@7 {STEPS} a.resume a.step=3", [0]),
        (f"{STEPS} a.configure@7 a.step=3 a.configure@7 a.step=4 a.resume a.step=4", [0]),
        (f"{STEPS} a.restart a.step=4", [0, 3]), (f"{STEPS} a.restart a.resume a.step=4", [0, 3]),
        (f"{STEPS} a.resume a.resume a.step=2", [0, 3]), (f"{STEPS} a.resume a.value a.step=2", [0, 3]),
        ("a.resume a.step=2 a.step=1", [1]), (f"{STEPS} a.close a.resume a.step=1", [0, 5]),
        (f"{STEPS} a.resume a.step=4 a.resume a.step=2", [0]),  # it loads checkpoints all the time
        (f"a.configure@7 {STEPS} a.resume a.step=4 a.configure@7 a.resume a.step=2", [1, 6]),  # it starts again
        (f"a.configure@7 {STEPS} a.configure@7 a.resume a.step=4", [1]),  # perhaps an evaluation
        (f"{STEPS} a.resume a.step=1 a.step=2 a.resume a.step=1", [0, 3, 6]),
        (f"{STEPS} a.resume a.open a.step=1", [0, 4]),
        (f"{STEPS} a.resume@0 a.step=1 a.resume@1 a.step=1", [0, 3]),  # each rank loads the checkpoint once
        (f"{STEPS} a.resume@0 a.step=1 a.resume@0 a.step=1", [0, 3, 5]),
        (f"{STEPS} a.resume@0 a.step=1 a.restart@1 a.step=1", [0, 3, 5]),
        (f"a.configure@7 {STEPS} a.configure@7 a.resume a.step=1", [1, 4]),  # the process has begun before
        (f"a.configure@7 {STEPS} a.configure@8 a.resume a.step=1", [1, 5]),  # other settings
        (f"a.configure@7 {STEPS} a.resume a.configure@7 a.step=1", [1, 4]),
        (f"a.configure@7 {STEPS} a.configure@7 a.step=4 a.resume a.step=1", [1, 6]),
        (f"a.configure@7 {STEPS} a.configure@7 a.configure@7 a.resume a.step=1", [1, 4]),
    ],
)  # fmt: skip
def test_steps_that_go_back_after_a_checkpoint_are_another_run(text: str, positions: list[int]) -> None:
    assert begun(text) == positions
    assert begun(text, is_by_rank=True) == [
        place for place in positions if place < 2 or ".open" in text or ".close" in text
    ]


def test_a_resumption_of_the_batch_before_begins_at_the_step() -> None:
    machine = RunMachine()
    read(machine, f"{STEPS} a.resume".split())
    assert [start.position for start in read(machine, ["a.value", "a.step=2", "a.step=3"], 4)] == [5]
    assert [machine.reached, machine.grows, machine.resumes] == [3, True, None]


def test_a_run_has_the_last_start_of_its_processes() -> None:
    """Lines of one start, which several processes print, count once."""
    machine = RunMachine()
    text = "a.value a.open! a.step=1 b.join! b.join! a.step=1 a.open a.close a.open b.value a.open!"
    found = read(machine, text.split())
    assert [(start.position, start.process, start.process_format) for start in found] == [
        (0, None, None), (1, 1, "a"), (3, 2, "b"), (6, 2, "b"), (8, 2, "b"), (10, 3, "a"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ("a.open@0 a.step=1 a.close@0 a.open@1 a.step=1 a.close@1", [0]),
        ("a.open@0 a.step=1 a.open@0 a.step=1 a.open@1 a.step=1", [0, 2, 4]),  # the first rank has two runs
        ("a.open@0 a.step=1 a.close@0 a.open a.step=1", [0, 3]),  # of no rank
    ],
)
def test_files_of_ranks_have_one_run_if_the_first_has(text: str, positions: list[int]) -> None:
    assert begun(text, is_by_rank=True) == positions
