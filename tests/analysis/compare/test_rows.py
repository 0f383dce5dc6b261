"""Rows of comparisons: what their change means in words, and their verdict by another rule."""

from __future__ import annotations

import math

import pytest
from support.figure_rows import figure_row

from perflog.analysis.compare.rows import by_measure
from perflog.analysis.compare.verdicts import DEFAULT_RULE, VerdictRule


@pytest.mark.parametrize(
    ("unit", "change", "way"),
    [
        ("s", 0.1, "slower"),
        ("s", -0.1, "faster"),
        ("1/s", 0.1, "faster"),
        ("TFLOP/s", -0.1, "slower"),
        ("B", 0.1, "higher"),
        ("", -0.1, "lower"),
    ],
)
def test_the_meaning_of_a_change(unit: str, change: float, way: str) -> None:
    changed = figure_row(unit=unit, change=change, verdict="exploratory different")
    assert changed.meaning(DEFAULT_RULE) == way
    unsure = figure_row(unit=unit, change=change, p_holm=0.04)
    assert unsure.meaning(DEFAULT_RULE) == f"{way}, maybe under 1 %"
    assert unsure.meaning(VerdictRule(level=0.99)) == "not known to differ"


def test_the_meaning_of_no_change() -> None:
    assert figure_row().meaning(DEFAULT_RULE) == "not known to differ"
    assert figure_row(verdict="exploratory equivalent").meaning(VerdictRule(0.03)) == "surely under 3 %"
    assert figure_row(error=math.nan).meaning(DEFAULT_RULE) == "one value per side"
    assert figure_row(error=math.nan, verdict="not comparable").meaning(DEFAULT_RULE) == "not comparable"


def test_a_verdict_by_another_rule() -> None:
    """A change by 10 %, surely above 6 %."""
    row = figure_row(change=0.1, change_low=0.06, change_high=0.14, error=0.02, p_holm=0.001, side_runs=4)
    assert row.judged(DEFAULT_RULE, "lower").words == "regression" and row.judged(DEFAULT_RULE, "lower").fails
    assert row.judged(DEFAULT_RULE, "higher").words == "improvement"
    assert row.judged(VerdictRule(0.15), "lower").words == "equivalent"
    assert row.judged(VerdictRule(0.12), "lower").words == "inconclusive"
    lone = figure_row(change=0.1, change_low=0.01, change_high=0.2, error=0.02, p_holm=0.001, sessions="left out")
    assert lone.judged(DEFAULT_RULE, "lower").fails is False
    single = figure_row(change=0.1, change_low=0.06, change_high=0.14, error=0.01, p_holm=0.001, scope="steps")
    assert single.judged(DEFAULT_RULE, "lower").words == "exploratory regression"
    two = figure_row(change=0.1, change_low=0.06, change_high=0.14, p_holm=0.001, few_values=True, base_runs=2)
    assert not two.judged(DEFAULT_RULE, "lower").fails  # by t of one degree of freedom p = 0.07


def test_a_change_with_its_interval() -> None:
    row = figure_row(change=0.06, change_low=0.051, change_high=0.069)
    assert row.change_in_words == "+6.0 % [+5.1 .. +6.9 %]"
    assert figure_row(change=0.06).change_in_words == "+6.0 % [-]"


def test_of_several_statistics_the_first_is_of_the_measure() -> None:
    rows = [figure_row(), figure_row(statistic="mean"), figure_row(side="other"), figure_row(case="b"),
            figure_row(kind="run", metric="elapsed")]  # fmt: skip
    assert by_measure(rows, "", "side") == {("step", "step_time"): rows[0], ("run", "elapsed"): rows[4]}
