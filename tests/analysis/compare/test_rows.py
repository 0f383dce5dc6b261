"""Rows of comparisons: what their change means in words, and their verdict by another rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.figure_rows import Values, figure_row, made_sides
from support.series import step_series_of

from perflog.analysis.compare import rows as module
from perflog.analysis.compare.history import History
from perflog.analysis.compare.measures import SideValues
from perflog.analysis.compare.rows import FigureRow, by_measure, comparison_rows, family
from perflog.analysis.compare.verdicts import DEFAULT_RULE, VerdictRule
from perflog.metrics.compared import RUN_TIME, STEP_TIME, Measure
from perflog.statistics.rank_tests import cliffs_delta, hodges_lehmann


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


FORWARD, LOADING = Measure("step", "forward", of="step_time"), Measure("step", "loading", of="step_time")
RATE = Measure("step", "tokens_per_s", "1/s", "higher", derived=True)


def compared(
    *sides: Values, history: History | None = None, elsewhere: set[tuple[str, str]] | None = None
) -> dict[tuple[str, str, str], FigureRow]:
    """The rows by side, metric and statistic."""
    named, case, values = made_sides(*sides)
    rows = comparison_rows(named, [case], values, DEFAULT_RULE, history or History(), elsewhere or set())
    return {(row.side, row.metric, row.statistic): row for row in rows}


ONES, TENTH_MORE = [[1.0], [1.001], [1.002], [1.003]], [[1.1], [1.102], [1.101], [1.103]]


def test_a_row_holds_both_sides_and_their_difference() -> None:
    (row,) = compared({FORWARD: ONES}, {FORWARD: TENTH_MORE}).values()
    assert (row.case, row.kind, row.metric, row.unit, row.base, row.side) == ("", "step", "forward", "s", "a", "b")
    assert (row.base_runs, row.side_runs, row.base_steps, row.scope, row.statistic) == (4, 4, 4, "runs", "value")
    assert row.base_value == pytest.approx(1.0015, rel=1e-5) and row.side_value == pytest.approx(1.1015, rel=1e-5)
    assert row.base_low < 1.0 < row.base_value < row.base_high and row.side_low < 1.1 < row.side_high
    assert row.change == pytest.approx(0.09985, abs=1e-5) and row.change_low < row.change < row.change_high
    flat = np.array(ONES).ravel(), np.array(TENTH_MORE).ravel()
    assert (row.shift, row.cliffs_delta) == (hodges_lehmann(*flat), cliffs_delta(*flat))
    assert (row.shift, row.cliffs_delta) == pytest.approx((0.1, 1.0))
    assert (row.verdict, row.fails, row.few_values, row.history_runs) == ("regression", True, True, 0)
    assert math.isnan(row.history_scatter) and row.p_rank == pytest.approx(2 / 70)


def test_measures_of_both_sides_that_were_measured_have_rows() -> None:
    zeros = [[0.0], [0.0]]
    rows = compared({FORWARD: ONES, LOADING: zeros, RATE: ONES}, {FORWARD: ONES, LOADING: zeros}, {RATE: ONES})
    assert list(rows) == [("b", "forward", "value"), ("c", "tokens_per_s", "value")]
    assert ("b", "loading", "value") in compared({LOADING: zeros}, {LOADING: [[0.0], [0.1]]})
    many = [[1.0, 1.1, 1.2]]
    assert list(compared({STEP_TIME: many}, {STEP_TIME: many})) == [
        ("b", "step_time", "median"), ("b", "step_time", "mean"),
    ]  # fmt: skip


def test_p_values_are_adjusted_within_their_family() -> None:
    """Two parts of the step are a family, with both sides of each; the step and a rate are families of their own."""
    sides = {FORWARD: ONES, LOADING: ONES, RATE: ONES, STEP_TIME: ONES}
    rows = compared(sides, dict.fromkeys(sides, TENTH_MORE), {FORWARD: [[1.0], [1.01], [1.05], [1.02]]})
    least = {key[1]: row.p_holm / row.p_both for key, row in rows.items() if key[0] == "b"}
    assert least == pytest.approx({"forward": 3.0, "loading": 3.0, "tokens_per_s": 1.0, "step_time": 1.0})
    third = rows["c", "forward", "value"]
    assert third.p_holm == third.p_both > rows["b", "forward", "value"].p_holm


def test_the_mean_of_step_times_is_a_family_of_its_own() -> None:
    """The median, the tail and the total mostly show what it shows."""
    assert family(STEP_TIME, "mean") != family(STEP_TIME, "median") == family(STEP_TIME, "total")
    assert family(FORWARD, "mean") == family(LOADING, "median") != family(Measure("step", "whole"), "mean")
    assert family(RATE, "median") != family(Measure("step", "mfu", "1", "higher", derived=True), "median")
    assert family(Measure("phase", "a"), "median") != family(Measure("step", "a"), "median")


def test_a_change_elsewhere_is_neither_for_the_better_nor_the_worse() -> None:
    rows = compared({FORWARD: ONES}, {FORWARD: TENTH_MORE}, {FORWARD: TENTH_MORE}, elsewhere={("", "b")})
    assert [row.verdict for row in rows.values()] == ["different", "regression"]
    assert rows["b", "forward", "value"].better == "lower"


def test_a_run_is_not_compared_with_the_steps_of_another() -> None:
    steps = [1.0, 1.1, 1.2, 1.3]
    one = compared({FORWARD: [steps]}, {FORWARD: [[2 * step for step in steps]]})["b", "forward", "median"]
    assert (one.cliffs_delta, one.scope, one.base_steps, one.few_values) == (1.0, "steps", 4, False)
    assert one.shift == hodges_lehmann(np.array(steps), 2 * np.array(steps))
    several = compared({FORWARD: [steps]}, {FORWARD: [steps, steps]})["b", "forward", "median"]
    assert (several.shift, several.cliffs_delta, several.scope) == (None, None, "runs")
    two = compared({FORWARD: [steps, steps]}, {FORWARD: [[2 * step for step in steps]] * 2})["b", "forward", "median"]
    assert two.shift == pytest.approx(1.15) and two.cliffs_delta == 1.0  # of the run figures 1.15 and 2.3
    assert not math.isnan(several.base_low)  # the only run has the scatter of the other side


def test_repeats_of_few_runs_count() -> None:
    values = SideValues()
    for run, value in (("h0", 1.0), ("h1", 1.1), ("h2", 1.21)):
        values.add(FORWARD, run, np.array([value]))
    history = History(values, {"": [["h0", "h1", "h2"]]})
    (row,) = compared({FORWARD: [[2.0]]}, {FORWARD: [[3.0]]}, history=history).values()
    assert (row.scope, row.history_runs) == ("history", 3)
    assert row.history_scatter == pytest.approx(math.log(1.1))
    assert row.base_low < 2 * math.exp(-4 * math.log(1.1))  # t(0.975, 2) = 4.3
    (small,) = compared({FORWARD: [[0.2]]}, {FORWARD: [[0.3], [0.33]]}).values()
    assert not math.isnan(small.base_low)
    (enough,) = compared({FORWARD: ONES}, {FORWARD: TENTH_MORE}, history=history).values()
    assert enough.history_runs == 0


def test_the_total_of_all_steps_where_a_warm_up_is_cut() -> None:
    times = [[5.0, 1.0, 1.1, 1.0, 1.2, 1.1]], [[9.0, 1.0, 1.1, 1.0, 1.2, 1.1]]
    for cut, total in ((1, True), (0, False)):
        named, case, values = made_sides(*({STEP_TIME: [run[cut:] for run in of], RUN_TIME: [[20.0]]} for of in times))
        for name, of, side_values in zip("ab", times, values, strict=True):
            side_values.step_times[f"{name}0"] = step_series_of(of[0], f"{name}0", cut)
        rows = {(row.metric, row.statistic): row for row in
                comparison_rows(named, [case], values, DEFAULT_RULE, History())}  # fmt: skip
        assert (("step_time", "total") in rows) == total
        if total:
            row = rows["step_time", "total"]
            assert (row.base_value, row.side_value) == pytest.approx((10.4, 14.4)) and not row.has_error
        assert not rows["elapsed", "value"].few_values  # of the same steps


def test_runs_print_the_same_steps_if_all_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "print_same_steps", all)
    one, yes, no = np.ones(1), [True], [False]
    assert module._of_same_steps([[one], [one]], [yes, yes])  # type: ignore[list-item]
    assert not module._of_same_steps([[one], [one]], [yes, no])  # type: ignore[list-item]
    assert not module._of_same_steps([[one, one], [one]], [yes, yes])  # type: ignore[list-item]  # one has no steps
