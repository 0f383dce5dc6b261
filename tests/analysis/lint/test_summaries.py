"""Rules on printed averages: which steps they cover, and totals that are shorter than the steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.linted import TableRow, linted, messages, steps


def average(first: int | None, last: int | None, value: float | None = 1.0, **more: Any) -> TableRow:
    usual = {"table": "summaries", "key": "step_time", "value": value, "unit": "s"}
    return usual | {"window_first": first, "window_last": last} | more


def falling(count: int = 20, slow: int = 5) -> list[TableRow]:
    """Steps of 1 s after some of 3 s."""
    return [row for n in range(count) for row in steps(n, step_time_s=3.0 if n < slow else 1.0)]


@pytest.mark.parametrize(
    ("window", "value", "severity"),
    [
        ((5, 19), 1.0, None),  # all steady steps
        ((6, 19), 1.0, None),  # 14 of 15
        ((7, 19), 1.0, "note"),  # 13 of 15
        ((5, 18), 1.0, "note"),  # not up to the end
        ((4, 19), 1.125, "warning"),
        ((0, 19), 1.5, "warning"),
        ((7, 19), 1.02, "warning"),
        ((7, 19), 1.009, "note"),
    ],
)
def test_an_average_over_an_unusual_window(window: tuple[int, int], value: float, severity: str | None) -> None:
    found = linted("summary-window", [*falling(), average(*window, value)])
    assert [each.severity for each in found] == ([] if severity is None else [severity])
    for each in found:
        assert each.numbers == {"step_time": {"window": [*window], "printed": value, "off": pytest.approx(value - 1)}}


def test_each_average_is_judged_whatever_is_printed_before_it() -> None:
    """A summary that is no column of the steps, or of a column without values, hides no other."""
    rows = [*falling(), average(7, 19, key="queue"), average(7, 19, key="forward"), average(7, 19, 1.02)]
    (found,) = linted("summary-window", rows)
    assert list(found.numbers) == ["step_time"]
    rows = [*falling(), average(None, None, key="queue"), average(None, None, key="forward"), average(None, None, 9.0)]
    (unexplained,) = linted("summary-unexplained", rows)
    assert unexplained.numbers == {"step_time": {"printed": 9.0, "median": 1.0}}
    assert (
        unexplained.message == "no range of the 20 printed steps has the mean step_time 9 s (median of the steps 1 s)"
    )


def test_each_run_has_its_own_averages() -> None:
    """A run whose average covers the steady steps comes before one whose average does not."""
    other = [{"table": "runs", "run": "s", "label": "s"}]
    rows = [*other, *falling(), *(row | {"run": "s"} for row in falling())]
    (found,) = linted("summary-window", [*rows, average(5, 19), average(7, 19, 1.02, run="s")], label="r", index=1)
    assert found.run == "s"


def test_all_steps_are_usual_without_much_warm_up() -> None:
    assert linted("summary-window", [*steps(*range(20)), average(0, 19)]) == []
    assert messages("summary-window", [*falling(), average(0, 19, 1.5), average(7, 19)]) == [
        (
            "step_time 1.5 s (+50.0 %), step_time 1 s (+0.00 %) are the means of all 20 steps; in brackets the "
            "distance from the mean of the 15 steady steps"
        )
    ]
    assert messages("summary-window", [*falling(), average(8, 19)]) == [
        (
            "step_time 1 s (+0.00 %) is the mean of steps 8 to 19 of 20; in brackets the distance from the mean of "
            "the 15 steady steps"
        )
    ]


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"summary_first": 7, "summary_last": 19}, None),
        ({"summary_first": 8, "summary_last": 19}, "8 to 19"),
        ({"warmup_steps": 7}, None),
        ({"warmup_steps": 5}, "5 to 19"),
        ({"warmup_steps": 20}, ""),  # no step is left
    ],
)
def test_an_average_over_the_steps_that_the_log_states(stated: dict[str, int], said: str | None) -> None:
    rows = [*falling(), average(7, 19)]
    found = messages("summary-window", rows, format="reference", config=json.dumps(stated))
    assert len(found) == (said is not None)
    if found:
        assert found[0].endswith(f"steady steps. The log says steps {said}" if said else "steady steps")


def test_the_distance_is_relative_to_the_steady_steps() -> None:
    rows = [*steps(*range(20), step_time_s=2.0), average(7, 19, 2.01)]
    (finding,) = linted("summary-window", rows)
    assert finding.severity == "note" and finding.numbers["step_time"]["off"] == pytest.approx(0.005)


def test_an_average_of_no_range_of_steps() -> None:
    rows = [*falling(), average(None, None, 7.0), average(None, None, 8.0, key="other"), average(None, None, None)]
    (finding,) = linted("summary-unexplained", [*rows, average(5, 19)])
    assert finding.message == "no range of the 20 printed steps has the mean step_time 7 s (median of the steps 1 s)"
    assert finding.numbers == {"step_time": {"printed": 7.0, "median": 1.0}} and finding.first_line == 21
    assert linted("summary-unexplained", [average(None, None, 7.0)]) == []


def test_averages_of_runs_over_different_windows() -> None:
    other = [{"table": "runs", "run": "s", "label": "s"}]
    rows = [*steps(*range(20)), *steps(*range(20), run="s")]
    last = [*other, *rows, average(10, 19, 1.5), average(15, 19, 2.0, run="s")]
    (finding,) = linted("windows-differ", last, label="r", index=1)
    assert finding.message == (
        "step_time is the mean of the last 10 steps in 1 run (r: 1.5 s); of the last 5 steps in 1 run (r: 2 s). These "
        "averages cannot be compared"
    )
    assert finding.numbers == {"windows": {"r": [10, 19], "s": [15, 19]}}
    assert finding.lines == {"r": [42], "s": [43]}
    before = [*other, *rows, average(10, 17), average(0, 19, run="s")]
    assert "8 steps, 2 before the end in 1 run" in messages("windows-differ", before)[0]
    assert "of all steps in 1 run" in messages("windows-differ", before)[0]
    assert linted("windows-differ", [*other, *rows, average(10, 19), average(10, 19, run="s")]) == []
    one = [*other, *rows, average(10, 19), average(15, 19, key="forward", run="s")]
    assert linted("windows-differ", one) == []


@pytest.mark.parametrize(("value", "found"), [(20.0, False), (19.9, True), (10.1, True), (10.0, False), (25.0, False)])
def test_a_total_that_is_shorter_than_its_steps(value: float, found: bool) -> None:
    rows = [*steps(*range(20)), *steps(3, 4, copy=2), average(None, None, value, key="total")]
    messages_ = messages("total-below-steps", rows)
    assert len(messages_) == found
    if value == 19.9:
        assert messages_ == ["total 19.9 s is less than the sum of 20 printed step times, 20 s (+0.50 %)"]
    assert messages("total-below-steps", [*rows[:-1], rows[-1] | {"unit": "B"}]) == []
    assert messages("total-below-steps", [*rows[:-1], rows[-1] | {"key": "step_time"}]) == []
    ranks = [*steps(*range(20), rank=0), *steps(*range(20), rank=1), rows[-1]]
    assert len(messages("total-below-steps", ranks)) == found  # each step counts once
