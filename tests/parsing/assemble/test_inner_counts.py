"""Counts without a name, `[3/60]`, beside steps with one."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.steps.inner_counts import is_unnamed

TRAIN = "step {} | loss 3.51 | tok/s 12000.1"
COUNT = "[{}/60] loss=3.61 tok/s=30000.1"


@pytest.mark.parametrize(
    ("lines", "steps"),
    [
        ([COUNT.format(k) for k in (1, 2, 3)], [1, 2, 3]),
        ([*map(COUNT.format, (20, 60, 20))], [20, 60, 20]),
        ([TRAIN.format(60), COUNT.format(20)], [60, 20]),
        ([TRAIN.format(61), COUNT.format(20)], [61]),
        ([TRAIN.format(10), *map(COUNT.format, (20, 40, 20)), TRAIN.format(20)], [10, 20, 40, 20, 20]),  # half of it
        ([TRAIN.format(50), COUNT.format(20), COUNT.format(40)], [50, 20, 40]),  # not known
        ([TRAIN.format(70), COUNT.format(20), COUNT.format(40)], [70]),
        ([COUNT.format(20), COUNT.format(40), TRAIN.format(70)], [70]),
        ([TRAIN.format(10), *map(COUNT.format, (20, 60, 20)), TRAIN.format(20)], [10, 20]),  # it begins again
        ([TRAIN.format(10), *map(COUNT.format, (20, 60, 20)), TRAIN.format(1)], [10, 20, 60, 20, 1]),  # both do
        ([TRAIN.format("70/100"), COUNT.format(20), COUNT.format(40)], [70]),  # a name and a total
    ],
)
def test_a_count_of_a_loop_inside_the_run_is_no_step(lines: list[str], steps: list[int]) -> None:
    log = read("".join(f"{line}\n" for line in lines).encode())
    assert [row["step"] for row in sorted(log.rows("steps"), key=lambda row: int(row["line"]))] == steps
    values = [(row["key"], row["value"]) for row in log.rows("values") if row["step"] is None]
    assert (("loss", 3.61) in values) == (len(steps) < len(lines))


@pytest.mark.parametrize(
    ("text", "unnamed"),
    [
        ("[{step:d}/{steps:d}] loss={loss:r}", True), ("loss {loss:r} ({step:d}/{steps:d})", True),
        ("step {step:d}/{steps:d}", False), ("[{step:d} of {steps:d}]", False), ("[{epoch:d}/{steps:d}]", False),
        ("[{step:d}/{epochs:d}]", False), ("[{step:d}] {steps:d}", False),
    ],
)  # fmt: skip
def test_a_count_without_a_name_is_in_brackets(text: str, unnamed: bool) -> None:
    assert is_unnamed(Line("line", Template(text))) == unnamed


def test_later_steps_by_name_change_what_earlier_counts_are() -> None:
    lines = [COUNT.format(k % 60) for k in range(1, 60)] * 4 + [TRAIN.format(k) for k in range(200, 300)]
    whole, parts = (read("".join(f"{line}\n" for line in lines).encode(), chunk=size) for size in (1 << 20, 1 << 10))
    assert (
        [row["step"] for row in whole.rows("steps")]
        == [*range(200, 300)]
        == [row["step"] for row in parts.rows("steps")]
    )
