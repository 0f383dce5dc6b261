"""Runs begin where the table of transitions says, or at a resumption after which the steps go back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.reading import read

from perflog.formats.model import Line
from perflog.parsing.assemble.runs.run_tracker import RunTracker
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS

NO_TEMPLATE: Any = None
A, B, C, D, LIBRARY = (SimpleNamespace(name=name, library=name == "library") for name in "a b c d library".split())
LINES: Any = [
    (A, Line("banner", NO_TEMPLATE, before="run")),
    (A, Line("settings", NO_TEMPLATE, opens="run")),
    (A, Line("step", NO_TEMPLATE)),
    (A, Line("end", NO_TEMPLATE, closes="run")),
    (A, Line("process", NO_TEMPLATE, opens="run", each_process=True)),
    (B, Line("other", NO_TEMPLATE, table="steps")),
    (C, Line("value", NO_TEMPLATE, table="values")),  # of a program that opens no runs
    (LIBRARY, Line("timer", NO_TEMPLATE, table="phases")),
    (LIBRARY, Line("start", NO_TEMPLATE, opens="run")),
    (A, Line("context", NO_TEMPLATE, role="context")),
    (A, Line("note", NO_TEMPLATE)),  # means the same as `step`
    (D, Line("title", NO_TEMPLATE, before="run")),  # of a format without a line that opens runs
    (D, Line("result", NO_TEMPLATE, table="steps")),
]
KINDS = {line.name: kind for kind, (_, line) in enumerate(LINES)}


def batch(text: str, first: int = 1) -> Any:
    """A batch of records: the names of their lines, in log order, one record per line."""
    names = text.split()
    records = {}
    for name in dict.fromkeys(names):
        lines = [first + i for i, other in enumerate(names) if other == name]
        records[KINDS[name]] = Records(np.array(lines, np.int64) << PART_BITS)
    return SimpleNamespace(records=records, rows_from=np.zeros_like)


@pytest.mark.parametrize(
    ("text", "first_lines"),
    [
        ("settings step step", [1]),
        ("step settings step", [1, 2]),  # an opening line after records
        ("settings settings step", [1, 2]),  # a second opening line
        ("banner settings step banner settings step", [1, 4]),  # the lines in front of an opening line
        ("settings step end step", [1, 4]),  # a record after the end
        ("settings step end settings step", [1, 4]),
        ("settings step end end", [1]),
        ("other settings step", [1, 2]),
        ("other banner settings step", [1, 2]),  # the banner belongs to the run that opens next
        ("other banner other settings step", [1, 4]),  # it does not: a record follows
        ("other settings other step", [1, 2]),
        ("value settings step", [1]),  # values of a program without runs of its own join
        ("timer settings timer step timer", [1]),
        ("timer settings step end timer timer settings step", [1, 7]),
        ("start settings step start step", [1]),  # the library opens none where a program prints
        ("banner timer settings step banner timer value settings step", [1, 5]),
        ("timer process timer process value process step timer", [1]),  # each process prints, libraries in between
        ("process other timer process other", [1, 4]),
        ("process other end process", [1, 4]),
        ("context settings step", [2]),  # what is only known is no record
        ("step end note", [1, 3]),
        ("note end step note", [1, 3]),
        ("other banner banner settings step", [1, 2]),
        ("other title result", [1, 2]),
        ("title result title result", [1, 3]),
        ("other banner title result", [1, 2]),
    ],
)
def test_runs_begin(text: str, first_lines: list[int]) -> None:
    whole = RunTracker()
    runs = [whole.first, *whole.starts(LINES, batch(text))]
    assert [run.first_line for run in runs] == first_lines
    by_line = RunTracker()
    runs = [by_line.first]
    for number, name in enumerate(text.split(), 1):
        runs += by_line.starts(LINES, batch(name, number))
    assert [run.first_line for run in runs] == first_lines
    assert whole.count == by_line.count == len(first_lines)


def test_a_library_opens_runs_where_no_program_prints() -> None:
    tracker = RunTracker()
    of_library = [(form, line) for form, line in LINES if form is LIBRARY]
    records = {0: [2, 3, 5], 1: [1, 4]}
    batch_of = {kind: Records(np.array(lines, np.int64) << PART_BITS) for kind, lines in records.items()}
    runs = [tracker.first, *tracker.starts(of_library, SimpleNamespace(records=batch_of, rows_from=np.zeros_like))]  # type: ignore[arg-type]
    assert [run.first_line for run in runs] == [1, 4]


@given(st.lists(st.sampled_from(["timer", "start", "value"]), max_size=12), st.data())
def test_joining_lines_begin_no_run_wherever_they_are(joining: list[str], data: st.DataObject) -> None:
    program = "banner settings step step end banner settings step settings step".split()
    names = list(program)
    for name in joining:
        names.insert(data.draw(st.integers(0, len(names))), name)
    tracker = RunTracker()
    tracker.starts(LINES, batch(" ".join(names)))
    assert tracker.count == 3


def test_a_question_about_a_batch_changes_no_run() -> None:
    tracker = RunTracker()
    tracker.starts(LINES, batch("other"))
    state = repr(tracker._machine), repr(tracker.first), tracker.count
    assert tracker.undecided(LINES, batch("banner", 2))
    assert not tracker.undecided(LINES, batch("banner settings step", 2))
    assert (repr(tracker._machine), repr(tracker.first), tracker.count) == state


# --- steps that go back after a resumption ----------------------------------------------------------------------------

TRAINER = SimpleNamespace(name="trainer", library=False)
STEP_LINES: Any = [
    (TRAINER, Line("settings", NO_TEMPLATE, opens="run")),
    (TRAINER, Line("end", NO_TEMPLATE, closes="run")),
    (TRAINER, Line("restore", NO_TEMPLATE, table="milestones", set={"kind": "restore", "edge": "begin"})),
    (TRAINER, Line("restored", NO_TEMPLATE, table="milestones", set={"kind": "restore", "edge": "end"})),
    (TRAINER, Line("startup", NO_TEMPLATE, table="milestones", set={"kind": "startup", "edge": "begin"})),
    (TRAINER, Line("save", NO_TEMPLATE, table="milestones", set={"kind": "save", "edge": "begin"})),
    (TRAINER, Line("step", NO_TEMPLATE, table="steps", within="epoch")),
    (TRAINER, Line("speed", NO_TEMPLATE, table="values")),
    (TRAINER, Line("remark", NO_TEMPLATE, table="phases")),
    (LIBRARY, Line("other", NO_TEMPLATE, table="steps")),
]
STEP_KINDS = {line.name: kind for kind, (_, line) in enumerate(STEP_LINES)}


def step_batch(text: str, first: int = 1) -> Any:
    """As `batch`. A number is a step, `1/5` step 5 of epoch 1, `speed/5` a value of step 5, `other/5` of a library."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for line, word in enumerate(text.split(), first):
        name, _, number = word.rpartition("/")
        if number.isdigit():
            line_name = name if name in STEP_KINDS else "step"
            found.setdefault(line_name, []).append((line, int(number), int(name) if name.isdigit() else 0))
        else:
            found.setdefault(word, []).append((line, -1, 0))
    records = {}
    for name, rows in found.items():
        lines, steps, epochs = (np.array(column, np.int64) for column in zip(*rows, strict=True))
        columns = {"step": steps, "epoch": epochs} if steps[0] >= 0 else {}
        records[STEP_KINDS[name]] = Records(lines << PART_BITS, columns)
    return SimpleNamespace(records=records, rows_from=np.zeros_like)


@pytest.mark.parametrize(
    ("text", "first_lines"),
    [
        ("1 2 3 restore 4", [1]),  # the steps go on
        ("1 2 3 restore 3", [1, 4]),  # a step comes again: it is another attempt
        ("1 2 3 restore 2 3 4", [1, 4]),
        ("3 3 restore 3", [1]),  # lines of one step came before too
        ("3 3 restore 2", [1, 3]),
        ("5 3 restore 3", [1]),
        ("1 2 3 restore restored remark 2", [1, 4]),  # at the first line that resumes
        ("restore 5 6", [1]),  # before any step
        ("1 2 save 1", [1]),
        ("1 2 startup 3", [1, 3]),  # processes start again, wherever their steps begin
        ("1 2 startup restore 3", [1, 3]),
        ("1 2 restore startup 3", [1, 3]),
        ("1 2 startup remark", [1]),  # no step shows that the run goes on
        ("1 2 3 restore 4 restore 2 3", [1]),  # a program that loads checkpoints as it goes
        ("1 2 3 restore 2 3 restore 3", [1, 4, 7]),  # each attempt is judged by itself
        ("1 2 3 restore speed/2", [1, 4]),
        ("1 2 3 restore other/2 4", [1]),  # steps of a library are not those of the run
        ("1 2 end restore 1", [1, 5]),  # the run had ended
        ("0/1 0/2 1/1 restore 1/2", [1]),  # of a later epoch
        ("0/1 0/2 1/1 restore 0/2", [1, 4]),
        ("1 2 settings restore 1", [1, 3]),
        ("1 2 3 restore settings 1 2", [1, 5]),  # the program has begun a run itself
        ("1 2 3 restore settings 1 restore 2", [1, 5]),
    ],
)
def test_a_resumption_begins_a_run_if_the_steps_go_back(text: str, first_lines: list[int]) -> None:
    tracker = RunTracker()
    runs = [tracker.first, *tracker.starts(STEP_LINES, step_batch(text))]
    assert [run.first_line for run in runs] == first_lines
    assert tracker.count == len(first_lines)


def labelled(made: Any, labels: str) -> Any:
    """Return a batch with the rank labels of its lines."""
    of_lines = np.array([-1 if label == "." else int(label) for label in labels.split()], np.int64)
    for kind, records in made.records.items():
        made.records[kind] = replace(records, labels=of_lines[(records.positions >> PART_BITS) - 1])
    return made


@pytest.mark.parametrize(
    ("text", "labels", "first_lines"),
    [
        ("restore 1 restore 1 restore 1 2", "0 . 1 . 2 . .", [1]),  # each rank loads it once, in a file of its own
        ("restore 1 2 3 restore 1 2 3", "0 . . . 1 . . .", [1]),
        ("restore 1 restore 1", "0 . 0 .", [1, 3]),  # the same rank loads it again
        ("1 2 3 restore restore 2 3", ". . . 0 1 . .", [1, 4]),
        ("1 2 3 restore 2 restore 2 3", ". . . 0 . 1 . .", [1, 4]),
        ("1 2 3 restore 2 3 restore 2", ". . . 0 . . 0 .", [1, 4, 7]),
        ("restore 1 startup 1", "0 . 1 .", [1, 3]),
    ],
)
def test_each_rank_may_load_the_checkpoint_of_an_attempt(text: str, labels: str, first_lines: list[int]) -> None:
    tracker = RunTracker()
    runs = [tracker.first, *tracker.starts(STEP_LINES, labelled(step_batch(text), labels))]
    assert [run.first_line for run in runs] == first_lines


@pytest.mark.parametrize(
    "text", ["1 2 3 restore 2 3 1 2 3 restore 2 3", "startup 1 2 startup 1 2", "0/1 0/2 0/3 0/1 0/2"]
)
def test_no_run_begins_in_lines_of_one_rank_after_another(text: str) -> None:
    tracker = RunTracker(is_by_rank=True)
    assert not tracker.starts(STEP_LINES, step_batch(text))


@pytest.mark.parametrize(
    ("text", "labels", "first_lines"),
    [
        ("settings 1 2 settings 1 2", "0 0 0 1 1 1", [1]),
        ("settings 1 2 1 2 settings 1 2", "0 0 0 1 1 2 2 2", [1]),
        ("settings 1 settings 1 settings 1", "0 0 0 0 1 1", [1, 3, 5]),  # rank 0 has two runs
        ("settings 1 2 settings 1 2", ". . . . . .", [1, 4]),  # nothing shows another rank
    ],
)
def test_each_rank_opens_the_only_run(text: str, labels: str, first_lines: list[int]) -> None:
    tracker = RunTracker(is_by_rank=True)
    runs = [tracker.first, *tracker.starts(STEP_LINES, labelled(step_batch(text), labels))]
    assert [run.first_line for run in runs] == first_lines


@pytest.mark.parametrize("by_line", [False, True])
@pytest.mark.parametrize(
    ("text", "first_lines"),
    [
        ("0/1 0/2 0/3 0/1 0/2 0/3 0/1", [1, 4, 7]),  # two trainings, copied into one log, and a third
        ("0/1 0/2 0/3 speed/3 0/1", [1, 5]),
        ("0/1 0/2 0/3 1/1 1/2", [1]),  # of a later epoch
        ("0/1 0/2 0/3 0/2 0/1", [1]),  # from the middle: what a run does that resumes
        ("0/1 0/2 0/1 0/2", [1]),  # too few to know
        ("0/1 0/1 0/2 0/2 0/3 0/3 0/1", [1]),  # several ranks
        ("settings 0/1 0/2 0/3 0/1", [1]),  # the program says where its runs begin
    ],
)
def test_steps_that_begin_again_with_their_epoch_are_another_run(
    text: str, first_lines: list[int], by_line: bool
) -> None:
    tracker = RunTracker()
    runs = [tracker.first]
    for first, part in enumerate(text.split(), 1) if by_line else [(1, text)]:
        runs += tracker.starts(STEP_LINES, step_batch(part, first))
    assert [run.first_line for run in runs] == first_lines


@pytest.mark.parametrize(("text", "undecided"), [("restore", True), ("restore 3", False), ("save", False)])
def test_only_the_next_steps_decide_on_a_resumption(text: str, undecided: bool) -> None:
    tracker = RunTracker()
    tracker.starts(STEP_LINES, step_batch("1 2"))
    assert tracker.undecided(STEP_LINES, step_batch(text, 3)) == undecided


def test_a_resumption_in_a_batch_that_is_gone_begins_the_run_at_the_step() -> None:
    tracker = RunTracker()
    runs = [tracker.first]
    for number, word in enumerate("1 2 3 restore 2 3".split(), 1):
        runs += tracker.starts(STEP_LINES, step_batch(word, number))
    assert [run.first_line for run in runs] == [1, 5]


# --- processes --------------------------------------------------------------------------------------------------------

SWEEP = SimpleNamespace(name="sweep", library=False)
PROCESS_LINES: Any = [
    (SWEEP, Line("launch", NO_TEMPLATE, opens="process", before="run")),
    (SWEEP, Line("settings", NO_TEMPLATE, opens="run")),
    (SWEEP, Line("step", NO_TEMPLATE)),
    (B, Line("other", NO_TEMPLATE, table="steps")),
]


@pytest.mark.parametrize("by_line", [False, True])
@pytest.mark.parametrize(
    ("text", "processes"),
    [
        ("launch settings step settings step", [(1, 1), (4, 1)]),  # a process may have several runs
        ("launch settings step launch settings step", [(1, 1), (4, 2)]),
        ("launch launch settings step", [(1, 1)]),  # each rank prints that it starts
        ("settings step", [(1, None)]),
        ("settings step launch settings launch step", [(1, None), (3, 1)]),
    ],
)
def test_each_run_has_the_number_of_the_start_of_its_processes(
    text: str, processes: list[tuple[int, int | None]], by_line: bool
) -> None:
    kinds = {line.name: kind for kind, (_, line) in enumerate(PROCESS_LINES)}
    printed = list(enumerate(text.split(), 1))
    tracker = RunTracker()
    runs = [tracker.first]
    for part in [[pair] for pair in printed] if by_line else [printed]:
        lines = {name: [line for line, other in part if other == name] for _, name in part}
        records = {kinds[name]: Records(np.array(at, np.int64) << PART_BITS) for name, at in lines.items()}
        runs += tracker.starts(PROCESS_LINES, SimpleNamespace(records=records, rows_from=np.zeros_like))  # type: ignore[arg-type]
    assert [(run.first_line, run.process) for run in runs] == processes
    assert {run.process_format for run in runs} == {None if number is None else "sweep" for _, number in processes}


# --- several logs -----------------------------------------------------------------------------------------------------


def test_each_log_begins_a_run_of_its_own() -> None:
    """The second log begins with a record of line 5: it does not go on with the run of the first."""
    tracker = RunTracker([0, 5 << PART_BITS])
    runs = [tracker.first, *tracker.starts(STEP_LINES, step_batch("settings 1 settings restore 1 2 restore 1"))]
    assert [(run.first_line, run.log) for run in runs] == [(1, 0), (3, 0), (5, 1), (7, 1)]
    assert [run.index for run in runs] == [1, 2, 3, 4] and tracker.count == 4


def test_a_log_without_records_that_reports_a_failure_has_a_run() -> None:
    tracker = RunTracker()
    assert (tracker.first.position, tracker.first.first_line, tracker.first.last_line) == (0, 0, 0)
    tracker.begin_at_failure(7)
    assert (tracker.count, tracker.first.first_line, tracker.first.last_line) == (1, 1, 7)
    tracker = RunTracker()
    tracker.starts(LINES, batch("step", 3))
    tracker.begin_at_failure(7)
    assert (tracker.count, tracker.first.first_line) == (1, 3)


@pytest.mark.parametrize("chunk", [1, 97, 1 << 20])
def test_settings_that_are_printed_again_before_a_checkpoint_is_loaded_are_of_the_next_run(chunk: int) -> None:
    """The failure between the last step and the settings is of the run that it ended."""
    steps = "".join(f"INFO loop: step={k} loss=2.{k} dt=0.5s\n" for k in range(1, 13))
    begin = "INFO launcher: world_size={} nnodes={}\n"
    log = read(
        (
            begin.format(16, 4) + steps + "RuntimeError: NCCL error: unhandled system error\n" + begin.format(12, 3)
            + "INFO ckpt: resuming from step 8\n" + steps[steps.index("INFO loop: step=9") :]
        ).encode(),
        chunk=chunk,
    )  # fmt: skip
    runs = log.rows("runs")
    assert [run["world_size"] for run in runs] == [16, 12]
    assert [row["run"] for row in log.rows("failures")] == [runs[0]["run"]]
