"""Step, rank and other fields of a record: its own first, then those of the lines that opened its scopes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.expressions import Expression
from perflog.formats.loader.format_file import load
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.attributed_rows import (
    FILE,
    HEADER,
    NO_EPOCH,
    AttributedRows,
    ClockColumns,
    JoinedRows,
    RecordRanks,
)
from perflog.parsing.assemble.runs.run_state import RunIndex, RunState
from perflog.parsing.assemble.steps.step_groups import StepGroups
from perflog.parsing.match.records import Records

NO_TEMPLATE: Any = None

FORMAT = """
title = "scopes of a program"
scopes = ["run", "turn", "part"]
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "turn"
opens = "turn"
text = "turn of rank {rank:d} at step {step:d} on {layer:w}"
sample = "turn of rank 3 at step 1 on mlp"
[[line]]
name = "part"
opens = "part"
text = "next part begins"
sample = "next part begins"
[[line]]
name = "took"
table = "phases"
text = "some phase {phase:w} took {time:.1f} ms"
unit = { time = "ms" }
sample = "some phase copy took 2.5 ms"
[[line]]
name = "own"
table = "phases"
text = "rank {rank:d} at step {step:d}: phase {phase:w} took {time:.1f} ms"
unit = { time = "ms" }
sample = "rank 3 at step 1: phase copy took 2.5 ms"
[[line]]
name = "computed"
table = "steps"
text = "batch {batch:d} of epoch {epoch:d} of {_all:d} has loss {loss:.1f}"
compute = { step = "epoch * _all + batch" }
within = "epoch"
sample = "batch 3 of epoch 1 of 9 has loss 2.5"
"""
START, TOOK = "program with 8 sequences", "some phase copy took 2.5 ms"


def rows(folder: Path, lines: list[str], table: str = "phases", chunk: int = 1 << 20) -> list[dict[str, Any]]:
    data = "".join(f"{line}\n" for line in [START, *lines]).encode()
    found = read(data, formats=[load(given_file(folder, FORMAT))], chunk=chunk).rows(table)
    return sorted(found, key=lambda row: (row["line"], row["part"]))


def turn(rank: int, step: int = 1) -> str:
    return f"turn of rank {rank} at step {step} on mlp"


def own(rank: int, step: int = 7) -> str:
    return f"rank {rank} at step {step}: phase copy took 2.5 ms"


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([TOOK, turn(3), TOOK], [(None, None, None), (3, "header", 1)]),  # before the first header nothing is known
        ([turn(3), own(5)], [(5, "printed", 7)]),  # what a line prints itself counts
        ([turn(3), own(0)], [(0, "printed", 7)]),
        ([turn(3), own(-1)], [(3, "header", 7)]),  # no rank
        ([own(2**31 - 1), own(2**31)], [(2**31 - 1, "printed", 7), (None, None, 7)]),  # of 32 bits
        ([turn(2**31 - 1), TOOK], [(2**31 - 1, "header", 1)]),
        ([turn(2**31), TOOK], [(None, None, 1)]),
        ([turn(-1), TOOK], [(None, None, 1)]),
        ([turn(0), TOOK, turn(1, 2), TOOK, TOOK], [(0, "header", 1), (1, "header", 2), (1, "header", 2)]),
        ([turn(3), f"[rank4]:{TOOK}"], [(4, "label", 1)]),
        ([turn(3), f"[rank0]:{TOOK}"], [(0, "label", 1)]),
        ([turn(3), START, TOOK], [(None, None, None)]),  # of another run
    ],
)
def test_rank_and_step_of_a_line(tmp_path: Path, lines: list[str], expected: list[Any], chunk: int) -> None:
    assert [(row["rank"], row["rank_by"], row["step"]) for row in rows(tmp_path, lines, chunk=chunk)] == expected


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_a_computed_step_and_its_epoch(tmp_path: Path, chunk: int) -> None:
    lines = [f"batch {batch} of epoch {epoch} of 4 has loss 2.5" for epoch in (0, 1) for batch in (2, 3)]
    found = rows(tmp_path, lines, "steps", chunk)
    assert [(row["step"], row["epoch"]) for row in found] == [(2, 0), (3, 0), (6, 1), (7, 1)]


def test_a_step_that_a_double_does_not_hold_is_not_known(tmp_path: Path) -> None:
    lines = [f"batch {batch} of epoch 0 of 4 has loss 2.5" for batch in (2**53 - 1, 2**53)]
    assert [row["step"] for row in rows(tmp_path, lines, "steps")] == [2**53 - 1, None]


def test_a_name_of_numbers_follows_that_of_the_scope_around_it(tmp_path: Path) -> None:
    form = """
title = "names in scopes"
scopes = ["run", "outer", "inner"]
[[line]]
name = "outer"
opens = "outer"
text = "suite of {key:S} begins"
sample = "suite of a begins"
[[line]]
name = "inner"
opens = "inner"
text = "case of {key:S} begins"
sample = "case of a begins"
[[line]]
name = "took"
table = "values"
text = "this one took {value:.1f} ms"
sample = "this one took 2.5 ms"
"""
    lines = [
        "suite of a begins",
        "this one took 1.5 ms",
        "case of b begins",
        "this one took 2.5 ms",
        "suite of c begins",
    ]
    data = "".join(f"{line}\n" for line in [*lines, "this one took 3.5 ms"]).encode()
    found = read(data, formats=[load(given_file(tmp_path, form))]).rows("values")
    assert sorted((row["value"], row["key"]) for row in found) == [(1.5, "a"), (2.5, "a_b"), (3.5, "c")]


def line_rows(places: list[int], **columns: Any) -> AttributedRows:
    """Records of a line of one run at some positions, in groups of their own, without steps and ranks."""
    count = len(places)
    groups = StepGroups(
        RunIndex([RunState(1, 0, 1, 9)]), np.zeros(count, np.int64), np.array(places), np.zeros(count, np.int64),
        np.zeros(count, np.bool_),
    )  # fmt: skip
    records = Records(np.array(places), {name: np.array(values) for name, values in columns.items()})
    line = Line(f"line of {places}", NO_TEMPLATE, table="steps")
    return AttributedRows(line, records, groups, groups.step, groups.step_known, RecordRanks.unknown(count), True)


def test_the_shapes_of_a_line_are_joined_in_log_order_and_written_back() -> None:
    shapes = [line_rows([5, 1], value=[50, 10]), line_rows([3, 9, 7], value=[30, 90, 70])]
    joined = JoinedRows(shapes, ["value"])
    whole = joined.whole
    assert (whole.line, whole.steps_are_closed) == (shapes[0].line, True)
    assert whole.records.positions.tolist() == whole.groups.number.tolist() == [1, 3, 5, 7, 9]
    assert whole.records.columns["value"].tolist() == [10, 30, 50, 70, 90]
    whole.ranks.fill(slice(None), np.arange(5), HEADER)
    joined.write_back()
    assert [shape.ranks.rank.tolist() for shape in shapes] == [[2, 0], [1, 4, 3]]
    assert shapes[0].ranks.rule.tolist() == [HEADER] * 2
    assert shapes[0].step is shapes[0].groups.step  # nothing is known of it
    whole.step, whole.step_known = np.arange(10, 15), np.array([True, False, True, True, True])
    joined.write_back()
    assert [shape.step.tolist() for shape in shapes] == [[12, 10], [11, 14, 13]]
    assert shapes[1].step_known.tolist() == [False, True, True]
    alone = JoinedRows(shapes[:1], ["value"])
    assert alone.whole is shapes[0]
    alone.write_back()


def test_steps_and_ranks_of_a_file_fill_what_nothing_else_states() -> None:
    rows = line_rows([1, 2, 3, 4])
    rows.ranks.fill(np.array([1]), 7, HEADER)
    rows.step, rows.step_known = np.array([0, 5, 0, 0]), np.array([False, True, False, False])
    rows.fill_from_name({"step": 9, "rank": 2}, 0, 3)
    assert (rows.step.tolist(), rows.step_known.tolist()) == ([9, 5, 9, 0], [True, True, True, False])
    assert rows.ranks.rank.tolist() == [2, 7, 2, -1]
    rows.ranks.rank[1] = 0  # a printed rank has no rule
    rows.ranks.rule[1] = -1
    rows.fill_from_name({"rank": 5}, 0, 3)
    assert rows.ranks.rank.tolist() == [2, 0, 2, -1]
    rows.ranks.fill(np.array([1]), 7, HEADER)
    rows.fill_from_name({"rank": -1}, 0, 4)
    rows.fill_from_name({"rank": 1 << 31}, 0, 4)
    assert rows.ranks.rank.tolist() == [2, 7, 2, -1]
    rows.fill_from_name({"rank": 0}, 3, 4)
    assert (rows.ranks.rank.tolist(), rows.ranks.rule[3]) == ([2, 7, 2, 0], FILE)
    of_group = line_rows([1])
    of_group.fill_from_name({"step": 9}, 0, 1)
    assert (of_group.step.tolist(), of_group.groups.step.tolist()) == ([9], [0])


def test_a_clock_that_gives_nothing() -> None:
    clock = ClockColumns.unknown(2)
    assert np.isnan(clock.elapsed).all() and np.isnan(clock.step_time).all()
    assert [column.tolist() for column in (clock.steps, clock.line, clock.source)] == [[0, 0], [0, 0], [-1, -1]]
    clock.part(slice(1, 2)).steps[0] = 5
    assert (clock.steps.tolist(), clock.line.tolist()) == ([0, 5], [0, 0])


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        (np.array([0, 3, -1]), [0, 3, NO_EPOCH]),
        (np.array([2.0, 2.5, np.nan]), [2, NO_EPOCH, NO_EPOCH]),
        (np.array([2.0**53 - 1, 2.0**53, 1.0]), [2**53 - 1, NO_EPOCH, 1]),
        (pa.array(["7", "-", None]), [7, NO_EPOCH, NO_EPOCH]),
        (pa.array(["2.0", "2.5", "9" * 19]), [2, NO_EPOCH, NO_EPOCH]),
    ],
)
def test_an_epoch_is_a_whole_number(epochs: Any, expected: list[int]) -> None:
    own, outer, none = line_rows([1, 2, 3]), line_rows([1, 2, 3]), line_rows([1, 2, 3])
    own.line = outer.line = Line("step", NO_TEMPLATE, table="steps", within="epoch")
    own.records = Records(own.records.positions, {"epoch": epochs})
    outer.inherited = {"epoch": pa.array(epochs)}
    assert own.epoch.tolist() == expected
    if isinstance(epochs, pa.Array):
        assert outer.epoch.tolist() == expected
    assert none.epoch.tolist() == [NO_EPOCH] * 3


def test_what_a_line_fills() -> None:
    line = Line(
        "step",
        Template("{loss:f} of {_a:d}"),
        table="steps",
        set={"dtype": "bf16"},
        compute={"mfu": Expression("_a / 8")},
    )
    rows = line_rows([1])
    rows.line = line
    assert [rows.prints(name) for name in ("loss", "mfu", "grad_norm")] == [True, True, False]
    rows.step, rows.step_known = np.array([5]), np.array([True])
    rows.forget_step()
    assert (rows.step.tolist(), rows.step_known.tolist()) == ([0], [False])


def test_how_many_steps_a_line_covers() -> None:
    rows = line_rows([1, 2], _a=[3, 4])
    assert rows.covers.tolist() == [rows.line.covers] * 2
    rows.line = Line("mean", NO_TEMPLATE, table="steps", window=Expression("_a * 10"))
    assert rows.covers.tolist() == [30, 40]
    rows.line = Line("mean", NO_TEMPLATE, table="steps", window=Expression("_b * 10"), covers=7)
    assert rows.covers.tolist() == [7, 7]  # a line of the family lacks the number
