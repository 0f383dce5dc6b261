"""What the warm-up costs: the time of the steps that are cut, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.figure_rows import made_sides
from support.series import step_series_of

from perflog.analysis.compare.explanations.warmup_costs import WarmupRow, warmup_costs
from perflog.metrics.compared import STEP_TIME
from perflog.metrics.step_series import StepSeries


def costs(*sides: Sequence[StepSeries]) -> list[WarmupRow]:
    named, case, values = made_sides(*({STEP_TIME: [[1.0]] * max(len(runs), 1)} for runs in sides))
    for of, name, runs in zip(values, "abc", sides, strict=False):
        of.step_times = {f"{name}{k}": run for k, run in enumerate(runs)}
    return warmup_costs(named, [case], values)


SLOW = step_series_of([5.0, 3.0, 1.0, 1.0], cut=2)


def test_the_time_of_the_warm_up() -> None:
    """Of two runs 8 and 6 s; as many steady steps take 2 and 4 s."""
    base, side = costs([SLOW], [SLOW, step_series_of([4.0, 2.0, 2.0, 2.0], cut=2)])
    assert base == WarmupRow("", "a", 2, 8.0, 6.0, None)
    assert side == WarmupRow("", "b", 2, 7.0, 4.0, -1.0)


def test_a_line_of_several_steps_takes_as_many_times_as_long() -> None:
    tens = step_series_of([5.0, 3.0, 1.0, 1.0], cut=2, steps=[10, 20, 30, 40], averaged=10)
    assert costs([tens])[0] == WarmupRow("", "a", 2, 80.0, 60.0, None)
    unknown = step_series_of([5.0, 3.0, 1.0, 1.0], cut=2, averaged=0)
    assert costs([unknown])[0].time_s == 8.0


@pytest.mark.parametrize(
    "other",
    [
        step_series_of([5.0, 3.0, 1.0, 1.0], cut=2, steps=[2, 3, 4, 5]),
        step_series_of([5.0, 3.0, 1.0, 1.0], cut=2, averaged=2),
    ],
)
def test_other_steps_are_not_subtracted(other: StepSeries) -> None:
    assert [row.difference_s for row in costs([SLOW], [other], [SLOW])] == [None, None, 0.0]
    longer = step_series_of([5.0, 3.0, 1.0, 1.0, 1.0], cut=2)  # the same steps are cut
    assert costs([SLOW], [longer])[1].difference_s == 0.0


def test_sides_without_a_warm_up_have_no_row() -> None:
    assert costs([step_series_of([1.0] * 4)], []) == []
    assert [row.side for row in costs([], [SLOW])] == ["b"] and costs([], [SLOW])[0].difference_s is None
