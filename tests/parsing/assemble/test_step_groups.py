"""Which records belong to one step: those between two lines that close steps, of all ranks together or of each."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load
from perflog.formats.model import Line
from perflog.parsing.assemble.runs.run_state import RunIndex, RunState
from perflog.parsing.assemble.steps.step_groups import StepGrouper, StepGroups
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS

NO_TEMPLATE: Any = None
CLOSE = Line("close", NO_TEMPLATE, closes="step")

RUN = (
    b"[Benchmark] world_size = 4, dtype = float16, model_dim = 1024, hidden_size = 4096, samples = 8192, "
    b"num_local_experts = 8, topK = 2, a2a_ffn_overlap_degree = 1, device = `cuda:0`\n"
)


def step(number: int) -> bytes:
    return b"STEP-%d: step_time = 1.5 ms, foward_time = 1.25, backward_time = 0.25, perf = 1.00 tflops.\n" % number


def test_a_run_cut_in_the_middle_of_a_step() -> None:
    """Records without a step line after them have no step, and do not count for the next run."""
    found = read(RUN + b"0 wait time: 1.5\n" + step(0) + b"0 wait time: 2.5\n" + RUN + b"0 wait time: 3.5\n" + step(0))
    steps = [(r["run"][-1], r["step"], r["time_s"]) for r in found.rows("phases")]
    assert steps == [("1", 0, 0.0015), ("1", None, 0.0025), ("2", 0, 0.0035)]


def records(lines: list[int], **columns: list[int]) -> Records:
    return Records(np.array(lines, np.int64) << PART_BITS, {name: np.array(c) for name, c in columns.items()})


def runs(*first_lines: int, number: int = 1) -> RunIndex:
    states = [RunState(number + k, first << PART_BITS, first, first) for k, first in enumerate(first_lines)]
    return RunIndex(states)


def shown(groups: StepGroups) -> list[tuple[int, int | None]]:
    """Number of the run and step of each record."""
    steps = zip(groups.run_number.tolist(), groups.step.tolist(), groups.step_known.tolist(), strict=True)
    return [(run, step if known else None) for run, step, known in steps]


def test_records_take_the_step_of_the_line_that_closes_it() -> None:
    grouper = StepGrouper([(CLOSE, records([3, 6], step=[0, 1]))], runs(1), 5, None)
    groups = grouper.groups_of(records([1, 2, 3, 4, 6, 7]))
    assert shown(groups) == [(1, 0), (1, 0), (1, 0), (1, 1), (1, 1), (1, None)]
    assert groups.number.tolist() == [5, 5, 5, 6, 6, 7]
    assert groups.step_array.to_pylist() == [0, 0, 0, 1, 1, None]
    assert grouper.next_group > 7


def test_a_step_ends_with_its_run() -> None:
    """The line that closes the first step of the second run closes none of the first run."""
    grouper = StepGrouper([(CLOSE, records([3, 8], step=[4, 5]))], runs(1, 6, number=7), 0, None)
    groups = grouper.groups_of(records([2, 4, 5, 6, 7, 9]))
    assert shown(groups) == [(7, 4), (7, None), (7, None), (8, 5), (8, 5), (8, None)]
    assert groups.run_words.to_pylist() == ["7", "7", "7", "8", "8", "8"]
    assert len(set(groups.number.tolist())) == 4


def test_kinds_with_as_many_records_in_each_group_share_their_columns() -> None:
    grouper = StepGrouper([(CLOSE, records([3, 6], step=[0, 1]))], runs(1), 0, None)
    one, two, other = (grouper.groups_of(records(lines)) for lines in ([1, 4], [2, 5], [1, 2]))
    assert one is two and other is not one
    assert shown(other) == [(1, 0), (1, 0)]


def test_without_a_line_that_closes_steps_no_step_is_known() -> None:
    for stream_of in (None, lambda found: np.zeros(len(found), np.int64)):
        groups = StepGrouper([], runs(1, 4), 0, stream_of).groups_of(records([2, 3, 5]))
        assert shown(groups) == [(1, None), (1, None), (2, None)]
        assert groups.number[0] == groups.number[1] != groups.number[2]


# --- ranks that close their own steps ---------------------------------------------------------------------------------


def by_stream(closing: dict[int, int], streams: dict[int, int], first_lines: tuple[int, ...] = (1,)) -> StepGroups:
    """Groups of all records that close no step: lines by the step that they close, and by their stream."""
    close = records(list(closing), step=list(closing.values()))
    others = records([line for line in streams if line not in closing])

    def stream_of(found: Records) -> Any:
        return np.array([streams[position >> PART_BITS] for position in found.positions.tolist()], np.int64)

    return StepGrouper([(CLOSE, close)], runs(*first_lines), 10, stream_of).groups_of(others)


def test_each_stream_closes_its_own_steps() -> None:
    streams = {1: 0, 2: 1, 3: 0, 4: 1, 5: 0, 6: 1, 7: 1, 8: 0}
    groups = by_stream({3: 0, 7: 0, 8: 1}, streams)
    assert shown(groups) == [(1, 0), (1, 0), (1, 0), (1, 1), (1, 0)]
    assert groups.number[1] == groups.number[2] == groups.number[4] != groups.number[0]


def test_a_record_after_the_last_closing_line_of_its_stream_has_no_step() -> None:
    groups = by_stream({3: 7, 6: 8}, {1: 0, 2: 1, 3: 0, 4: 0, 5: 1, 6: 1, 7: 1})
    assert shown(groups) == [(1, 7), (1, 8), (1, None), (1, 8), (1, None)]
    assert len(set(groups.number.tolist())) == 3  # the records without a step of a run are one group


def test_a_closing_line_of_the_next_run_closes_nothing_of_this_one() -> None:
    groups = by_stream({2: 0, 6: 1}, {1: 0, 2: 0, 3: 0, 5: 0, 6: 0}, (1, 5))
    assert shown(groups) == [(1, 0), (1, None), (2, 1)]
    assert len(set(groups.number.tolist())) == 3


FORMAT = """
title = "steps of ranks"
scopes = ["run", "step"]
[[line]]
name = "wait"
table = "phases"
text = "waited for {wait:.1f} ms"
unit = { wait = "ms" }
sample = "waited for 2.5 ms"
[[line]]
name = "done"
table = "steps"
closes = "step"
text = "finished step {step:d} with loss {loss:.1f}"
sample = "finished step 3 with loss 2.5"
"""


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_labelled_ranks_that_each_close_steps(tmp_path: Path, chunk: int) -> None:
    """Rank 1 is a step behind rank 0. A label on the closing lines of one rank only says nothing of the others."""
    form = load(given_file(tmp_path, FORMAT))
    wait, done = "[rank%d]:waited for %d.5 ms\n", "[rank%d]:finished step %d with loss 2.5\n"
    log = wait % (0, 1) + wait % (1, 2) + done % (0, 5) + wait % (0, 3) + wait % (1, 4) + done % (1, 5) + done % (0, 6)
    found = sorted(
        read((log + wait % (1, 5)).encode(), formats=[form], chunk=chunk).rows("phases"), key=itemgetter("line")
    )
    assert [(row["rank"], row["step"]) for row in found] == [(0, 5), (1, 5), (0, 6), (1, 5), (1, None)]
    one = wait % (1, 2) + done % (0, 5) + wait % (1, 3) + wait % (0, 4) + done % (0, 6)
    found = sorted(read(one.encode(), formats=[form], chunk=chunk).rows("phases"), key=itemgetter("line"))
    assert [(row["rank"], row["step"]) for row in found] == [(1, 5), (1, 6), (0, 6)]
