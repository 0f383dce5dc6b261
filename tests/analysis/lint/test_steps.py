"""Rules on step numbers: merged, averaged, repeated, missing and unpaired steps."""

from __future__ import annotations

import math
from typing import Any

import pytest
from support.linted import TableRow, linted, messages, steps


def test_a_line_that_covers_other_steps_than_most() -> None:
    rows = [*steps(1, 2, 3, 4), *steps(8, steps_averaged=4, step_time_s=4.0, loss=8.0), *steps(9, 10)]
    (finding,) = linted("steps-merged", rows)
    assert finding.message == (
        "1 line of 7: line 5 covers 4 steps, so its time of 4 s covers 4 steps; its loss 8, if a sum, is 2 per step"
    )
    assert (finding.first_line, finding.numbers) == (5, {"steps": 4, "step_time": 4.0})
    of_sum = [*rows[:4], rows[4] | {"perplexity": math.exp(8.0)}, *rows[5:]]
    assert messages("steps-merged", of_sum)[0].endswith(", and its perplexity 2980.96 is exp of that sum")
    other = [*rows[:4], rows[4] | {"perplexity": math.exp(7.9)}, *rows[5:]]
    assert messages("steps-merged", other)[0].endswith("is 2 per step")


def test_a_line_of_two_steps_may_hold_sums() -> None:
    rows = [*steps(1, 2, 3), *steps(5, steps_averaged=2, loss=8.0), *steps(6)]
    assert messages("steps-merged", rows)[0].endswith("its loss 8, if a sum, is 4 per step")
    assert "loss" not in messages("steps-merged", [*rows[:3], rows[3] | {"loss": None}, rows[4]])[0]


def test_lines_that_may_cover_other_steps() -> None:
    tens = [row for n in (10, 20, 30) for row in steps(n, steps_averaged=10)]
    assert messages("steps-merged", [*tens, *steps(35, steps_averaged=5)]) == []  # the end of the run
    assert messages("steps-merged", [*tens[:1], *steps(15, steps_averaged=5), *tens[1:]]) == [
        "1 line of 4: line 2 covers 5 steps, most lines 10, so its time of 1 s covers 5 steps"
    ]
    assert messages("steps-merged", [*tens, *steps(50, steps_averaged=20)])  # more than most: also at the end
    for clock in ("line", "bar"):
        assert messages("steps-merged", [*tens, *steps(50, steps_averaged=20, step_time_by=clock)]) == []
    twos = [row for n in (2, 4, 6) for row in steps(n, steps_averaged=2)]
    assert "3 steps, most lines 2," in messages("steps-merged", [*twos, *steps(9, steps_averaged=3)])[0]
    one = messages("steps-merged", [*tens, *steps(31), *steps(40, steps_averaged=10)])
    assert one == ["1 line of 5: line 4 covers 1 step, most lines 10"]
    few = messages("steps-merged", [*steps(1), *steps(10, steps_averaged=9), *tens[1:]])  # two of four are not most
    assert few == ["2 lines of 4: line 1 covers 1 step, others 10"]
    assert messages("steps-merged", [*tens, *steps(31, steps_averaged=None), *steps(40, steps_averaged=10)]) == []


def test_lines_of_several_steps() -> None:
    tens = [row for n in (10, 20, 30) for row in steps(n, steps_averaged=10)]
    assert messages("steps-averaged", [*tens, *steps(31)]) == ["4 lines, each a mean over 10 steps"]
    assert messages("steps-averaged", [*tens, *steps(31, 32, 33, 34)]) == []
    assert messages("steps-averaged", steps(1, 2, steps_averaged=None)) == []


def test_steps_that_are_printed_again() -> None:
    again = [*steps(1, 2, 3), *steps(2, 3, copy=2), *steps(2, copy=3)]
    (finding,) = linted("steps-repeated", again)
    assert finding.message == "2 steps printed again: 2, 3" and finding.numbers == {"steps": 2, "printings": 3}
    assert finding.evidence["lines"] == {"r": [4, 5, 6]}
    assert messages("steps-repeated", steps(1, 2, 3)) == []
    ranks = [*steps(1, 2, rank=0), *steps(1, copy=2)]
    assert messages("steps-repeated", ranks) == []  # a line that lost its label
    assert messages("steps-repeated", [*ranks, *steps(2, rank=0, copy=2)]) == ["1 step printed again: 2"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (steps(1, 2, 3, 6, 7), "2 steps missing: the number jumps from 3 to 6"),
        (steps(1, 2, 3, 5, 6, 9), "3 steps missing: the number jumps from 3 to 5, 6 to 9"),
        (steps(10, 20, 30, 50), "1 step missing: the number jumps from 30 to 50"),
        (steps(0, 500, 4999), None),  # nothing shows the usual interval
        (steps(10, 20, 30, 45), None),  # less than two usual jumps
        (steps(10, 20, 30, 49), None),
        (steps(6, 1, 7, 2, 3), "2 steps missing: the number jumps from 3 to 6"),  # in the order of the steps
        (steps(1, 2, 2, 3), None),
        (steps(5), None),
        (steps(1, 2, 3, 4, 5, 8, 12), "5 steps missing: the number jumps from 5 to 8, 8 to 12"),
        ([*steps(1, 2, 3), *steps(5, steps_averaged=None)], "1 step missing: the number jumps from 3 to 5"),
        (
            steps(1, 2, 3, 4, 5, 8, 12, 17, 23, 30),  # most jumps are of one step, whatever their median
            "20 steps missing: the number jumps from 5 to 8, 8 to 12, 12 to 17, 17 to 23, 23 to 30",
        ),
        ([*steps(1, 2, 3), *steps(6, steps_averaged=3)], None),  # a line covers them
        ([*steps(1, 2, 3), *steps(6, steps_averaged=2)], "2 steps missing: the number jumps from 3 to 6"),
        ([*steps(1, 2, 3, epoch=1), *steps(7, 8, epoch=2)], None),  # the epochs may be that long
        ([*steps(1, 2, 3, epoch=1), *steps(1, 4, epoch=2)], "2 steps missing: the number jumps from 1 to 4"),
        ([row for n in range(4) for row in steps(10, 20, epoch=n)], None),
        ([*steps(1, 2, 3), *steps(6, steps_averaged=None), *steps(7, steps_averaged=4)], None),
        ([*steps(1, 2, 3), *steps(6), *steps(7, steps_averaged=3)], "2 steps missing: the number jumps from 3 to 6"),
        ([*steps(1, 2, 5, epoch=1), *steps(1, epoch=2)], "2 steps missing: the number jumps from 2 to 5"),
        ([*steps(1, 2, 3, epoch=1), *steps(9)], "5 steps missing: the number jumps from 3 to 9"),
    ],
)
def test_steps_that_are_missing(rows: list[TableRow], message: str | None) -> None:
    assert messages("steps-missing", rows) == ([] if message is None else [message])


def test_of_a_trace_no_steps_are_missing() -> None:
    kernel = {"table": "events", "kind": "kernel", "name": "gemm", "start_ns": 1, "duration_ns": 1}
    assert messages("steps-missing", [*steps(1, 2, 9), kernel]) == []


def phase(step: int) -> TableRow:
    return {"table": "phases", "step": step, "phase": "forward", "time_s": 0.5, "occurrence": 1}


def test_steps_of_one_table_only() -> None:
    rows = [*steps(1, 2, 3, 4), phase(2), phase(3), phase(7)]
    (finding,) = linted("steps-unpaired", rows)
    assert finding.message == "2 steps without phases: 1, 4; 1 step with phases but no line of the step: 7"
    assert finding.numbers == {"without_details": [1, 4], "without_time": [7]}
    assert finding.evidence["lines"] == {"r": [1, 4, 7]}
    assert messages("steps-unpaired", [*steps(2, 3), phase(2), phase(3)]) == []
    assert len(messages("steps-unpaired", [*steps(1), phase(2)])) == 1
    assert messages("steps-unpaired", steps(2, 3)) == [] == messages("steps-unpaired", [phase(2)])
    covered = [*steps(2), *steps(5, steps_averaged=3), phase(2), phase(3), phase(5)]
    assert messages("steps-unpaired", covered) == []
    fewer = [*steps(2), *steps(5, steps_averaged=2), phase(2), phase(3), phase(5)]
    assert messages("steps-unpaired", fewer) == ["1 step with phases but no line of the step: 3"]


def announced(rows: list[TableRow], planned: int | None, **more: Any) -> list[str]:
    """Messages on a run of a format that announces its steps and ends with a line."""
    config = "{}" if planned is None else f'{{"train_iters": {planned}}}'
    return messages("run-stopped", rows, format="megatron", config=config, **more)


@pytest.mark.parametrize(
    ("numbers", "planned", "is_short"),
    [
        ([1, 2, 3], 3, False),
        ([1, 2, 3], 4, True),
        ([1], 2, True),
        ([10], 19, False),
        ([10], 20, True),
        ([0, 1, 2], 3, False),
        ([0, 1, 2], 4, True),
        ([10, 20, 30], 30, False),
        ([10, 20, 30], 39, False),  # the last lines of an interval are not printed
        ([10, 20, 30], 40, True),
        ([101, 102, 103], 103, False),  # from a checkpoint
        ([101, 102, 103], 104, False),  # counted from 0
        ([101, 102, 103], 105, True),
    ],
)
def test_a_run_with_fewer_steps_than_announced(numbers: list[int], planned: int, is_short: bool) -> None:
    found = announced(steps(*numbers), planned)
    assert any(" announced" in message for message in found) == is_short


def test_a_run_with_fewer_steps_than_the_others_of_the_log() -> None:
    rows = [{"table": "runs", "run": run} for run in "stu"]
    rows += [row for run in "rstu" for row in steps(*range(1, 8 if run == "u" else 11), run=run)]
    (finding,) = linted("run-stopped", rows)
    assert (finding.run, finding.numbers) == ("u", {"steps": 7, "usual": 10})
    assert finding.message == "7 printed steps, the last is step 7; the other runs of the log have 10"
    two = [{"table": "runs", "run": "s"}, *steps(*range(1, 11)), *steps(1, 2, run="s")]
    assert linted("run-stopped", two) == []  # two runs show no usual number


END: TableRow = {"table": "lines", "status": "read", "count": 1, "first_line": 9} | {
    "shape": "peak memory consumption: {peak_memory:d} MiB"
}


@pytest.mark.parametrize(
    ("planned", "ends", "severity", "words"),
    [
        (None, False, "warning", "; the line that ends a run is missing"),
        (None, True, None, ""),
        (3, False, None, ""),  # a run that prints all its steps is whole
        (9, False, "warning", " of 9 announced; the line that ends a run is missing"),
        (9, True, "note", " of 9 announced"),
    ],
)
def test_a_run_without_the_line_that_ends_one(
    planned: int | None, ends: bool, severity: str | None, words: str
) -> None:
    config = "{}" if planned is None else f'{{"steps": {planned}}}'
    found = linted("run-stopped", [*steps(1, 2, 3), *[END] * ends], format="llmc", config=config)
    assert [each.severity for each in found] == ([] if severity is None else [severity])
    for each in found:
        assert each.message == f"3 printed steps, the last is step 3{words}"
        assert each.first_line == 3
