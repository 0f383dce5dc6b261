"""The rule of verdicts: what an effect with its error and its p is called, why, and whether a gate fails."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.analysis.compare.verdicts import (
    CHANGES,
    DEFAULT_RULE,
    Evidence,
    Verdict,
    VerdictRule,
    _runs_needed,
    _what_would_decide,
    decide,
    severity,
    without_exploratory,
)
from perflog.statistics import effects
from perflog.statistics.effects import Effect
from perflog.statistics.two_tests import TwoTests


@pytest.mark.parametrize(
    ("change", "error", "p", "runs", "words", "fails"),
    [
        (0.10, 0.005, 0.0001, 3, "regression", True),
        (0.10, 0.005, 0.0001, 1, "exploratory regression", True),  # the whole interval lies beyond the threshold
        (0.02, 0.008, 0.03, 3, "regression", False),  # p is not small enough for a gate
        (0.04, 0.005, 0.0001, 1, "exploratory regression", False),  # runs may differ by that much
        (-0.10, 0.005, 0.0001, 3, "improvement", False),
        (0.008, 0.003, 0.001, 3, "inconclusive", False),  # sure, but maybe under the threshold
        (0.005, 0.001, 0.001, 3, "equivalent", False),  # sure, and surely under the threshold
        (0.10, 0.08, 0.3, 3, "inconclusive", False),
        (0.00, 0.003, 1.0, 5, "equivalent", False),
        (0.00, 0.003, 1.0, 1, "exploratory equivalent", False),
        (0.10, math.nan, math.nan, 1, "inconclusive", False),
        (math.nan, math.nan, math.nan, 3, "not comparable", False),
    ],
)
def test_verdicts(change: float, error: float, p: float, runs: int, words: str, fails: bool) -> None:
    effect = Effect(math.log1p(change), error, 20)
    evidence = Evidence((runs, runs), effect.interval(0.95), "steps" if runs == 1 else "runs")
    verdict = decide(effect, "lower", p, evidence, VerdictRule())
    assert (verdict.words, verdict.fails) == (words, fails)
    assert verdict.reason
    back = decide(effect.inverse, "higher", p, evidence, VerdictRule())  # twice the rate is half the time
    assert (back.words, back.fails) == (words, fails)


def test_nobody_knows_which_way_some_figures_are_better() -> None:
    verdict = decide(Effect(0.2, 0.01, 20), None, 0.0001, Evidence((3, 3), (0.18, 0.22)), VerdictRule())
    assert (verdict.words, verdict.fails) == ("different", False)


@pytest.mark.parametrize(
    ("change", "error", "needed"),
    [(0.03, 0.02, "about 25 runs"), (0.002, 0.01, "about 69 runs"), (0.009, 0.05, "more than 100 runs")],
)
def test_an_inconclusive_verdict_says_what_would_decide(change: float, error: float, needed: str) -> None:
    effect = Effect(change, error, 8)
    verdict = decide(effect, "lower", 0.2, Evidence((5, 5), effect.interval(0.95)), VerdictRule())
    assert verdict.words == "inconclusive"
    assert needed in verdict.advice


TIMES = np.log([1610, 1611, 1609, 1612, 1634, 1636, 1635, 1822, 1821, 2036])
"""Of ten runs to a target, which is looked for at every so many steps: few levels, with little scatter about them."""


@pytest.mark.parametrize(("runs", "wrong"), [((2, 2), 0.03), ((3, 2), 0.02), ((4, 2), 0.012), ((3, 3), 0.01)])
def test_two_numbers_that_agree_by_chance_fail_no_gate(runs: tuple[int, int], wrong: float) -> None:
    """All ways to deal repeats to two sides: a share is called slower, and at most 1 % fail the gate."""
    fails, regressions, ways = 0, 0, 0
    for base in combinations(range(len(TIMES)), runs[0]):
        for side in combinations(set(range(len(TIMES))) - {*base}, runs[1]):
            effect = effects.welch_effect(TIMES[list(base)], TIMES[list(side)])
            evidence = Evidence(runs, effect.interval(0.95), few_values=True)
            verdict = decide(effect, "lower", effect.p(), evidence, VerdictRule())
            ways, fails = ways + 1, fails + verdict.fails
            regressions += verdict.words == "regression"
            if verdict.words == "regression" and 2 in runs:
                assert verdict.fails or "only with a third run per side" in verdict.advice
    assert regressions / ways == pytest.approx(wrong, abs=0.002)
    assert fails / ways <= 0.01
    large = effects.welch_effect(TIMES[: runs[0]], TIMES[: runs[1]] + 1)
    evidence = Evidence(runs, large.interval(0.95), few_values=True)
    assert decide(large, "lower", large.p(), evidence, VerdictRule()).fails


@given(st.floats(-0.7, 0.7), st.floats(0, 0.2), st.integers(1, 5))
def test_single_runs_give_exploratory_verdicts_at_most(shift: float, error: float, runs: int) -> None:
    effect = Effect(shift, error, 8)
    evidence = Evidence((runs, runs), effect.interval(0.95), "steps" if runs == 1 else "runs")
    verdict = decide(effect, "lower", effect.p(), evidence, VerdictRule())
    if runs == 1:
        assert verdict.words.startswith(("exploratory ", "inconclusive"))
    if verdict.fails:
        assert shift >= math.log(1.01) and effect.interval(0.95)[0] > 0
    if verdict.words == "equivalent":
        assert abs(shift) < math.log(1.01)  # never beyond the threshold of the gate


def test_real_repeats_with_outliers_are_judged_as_a_test_promises() -> None:
    """All ways to deal ten times to convergence to two sides of five: Welch's test finds none different, both 3 %."""
    found = []
    for chosen in combinations(range(len(TIMES)), 5):
        base = np.isin(np.arange(len(TIMES)), chosen)
        sides = TIMES[base], TIMES[~base]
        both = TwoTests(effects.welch_effect(*sides), *sides)
        low, high = both.interval(0.95)
        assert (low <= 0 <= high) == (both.p >= 0.05)
        found.append((both.effect.p() < 0.05, both.p < 0.05))
    assert np.mean(found, axis=0) == pytest.approx([0.0, 0.03], abs=0.01)


def judged(
    change: float, error: float = 0.005, p: float = 0.0001, runs: tuple[int, int] = (3, 3), scope: str = "runs",
    sessions: str | None = None, threshold: float = 0.01,
) -> Verdict:  # fmt: skip
    """The verdict on a change of a time, with 20 degrees of freedom."""
    effect, rule = Effect(math.log1p(change), error, 20), VerdictRule(threshold)
    return decide(effect, "lower", p, Evidence(runs, effect.interval(0.95), scope, sessions=sessions), rule)


def test_a_change_as_large_as_the_threshold_counts() -> None:
    assert judged(0.01, 0.001, 0.001).words == "regression"
    assert judged(0.0099, 0.001, 0.001).words == "inconclusive"
    assert judged(0.05, 0.005, 0.001, threshold=0.05).words == "regression"
    assert judged(0.10, 0.04, 0.049).words == "regression" and judged(0.10, 0.04, 0.051).words == "inconclusive"


@pytest.mark.parametrize(("p", "fails"), [(0.0099, True), (0.0101, False)])
def test_a_gate_asks_for_a_smaller_p(p: float, fails: bool) -> None:
    verdict = judged(0.1, p=p)
    assert (verdict.words, verdict.fails) == ("regression", fails)
    assert verdict.advice == ("" if fails else "a gate passes, as p is not below 0.01: more runs would confirm it")


def test_of_unknown_sessions_only_a_large_change_fails_a_gate() -> None:
    """The whole interval has to be beyond 2 %: sessions differ that much."""
    assert judged(0.04, 0.005, sessions="left out").fails
    verdict = judged(0.025, 0.005, sessions="left out")
    assert (verdict.words, verdict.fails) == ("regression", False)
    assert verdict.advice == (
        "a gate passes, as the variation between sessions is unknown, and the change may be below 2 %: runs of both "
        "sides in turns would confirm it"
    )
    assert judged(0.025, 0.005, sessions="held").fails and judged(0.025, 0.005).fails


def test_of_single_runs_only_a_change_that_runs_do_not_show_fails_a_gate() -> None:
    """The whole interval has to be beyond 5 %, and beyond the threshold."""
    assert judged(0.07, 0.005, runs=(1, 1), scope="steps").fails
    assert not judged(0.06, 0.005, runs=(1, 1), scope="steps").fails
    assert not judged(0.07, 0.005, runs=(1, 1), scope="steps", threshold=0.06).fails
    assert judged(0.08, 0.005, runs=(1, 1), scope="steps", threshold=0.06).fails


def test_reasons_of_verdicts() -> None:
    assert judged(0.1, p=0.0123).reason == "p = 0.012, and the change is at least 1 %"
    assert judged(0.1, 0.08, 0.3).reason == "p = 0.3"
    assert judged(0.008, 0.003, 0.001).reason == "p = 0.001, but the change may be smaller than 1 %"
    assert judged(0.001, 0.001).reason == "the change is surely smaller than 1 %"
    assert judged(0.1, 0.2, 0.01).reason.startswith("p = 0.01 by a rank test, which outliers hardly affect, and")
    assert "rank test" not in judged(0.1, 0.2, 0.051).reason
    same = judged(0.1, 0.0, 0.001, (1, 1), "steps")
    assert same.reason.startswith("the steps show no scatter, so the error is unknown")
    assert judged(0.1, 0.0, 0.001).reason.startswith("p = 0.001")


@pytest.mark.parametrize(
    ("change", "words", "variation"),
    [  # t(0.975, 2) = 4.3027 and t(0.95, 2) = 2.9200, by a table
        (0.10, "this change is significant", math.expm1(math.log(1.1) / 4.3027)),
        (-0.10, "this change is significant", math.expm1(-math.log(0.9) / 4.3027)),
        (0.002, "a change can be excluded", math.expm1((math.log(1.01) - math.log(1.002)) / 2.92)),
    ],
)
def test_single_runs_say_which_variation_a_second_run_would_decide(change: float, words: str, variation: float) -> None:
    advice = judged(change, 0.001, 0.001, (1, 1), "steps").advice
    assert advice == f"with two runs per side, {words} if runs vary by less than {100 * variation:.2g} %"


def test_single_runs_that_show_nothing_need_more_than_two() -> None:
    """By the normal distribution 2 (1.96 + 1.28)^2 (scatter / shift)^2 = 8 runs: as many as the steps alone ask for."""
    assert judged(0.10, 0.08, 0.3, (1, 1), "steps").advice == "it would take at least 9 runs per side to decide"
    assert "more than 100 runs" in judged(0.011, 0.2, 0.3, (1, 1), "steps").advice


def test_more_runs_than_there_are_would_decide() -> None:
    """At least one more than there are. By the normal distribution 2 (1.96 + 1.28)^2 (scatter / shift)^2 = 21 runs."""
    assert judged(0.10, 0.06, 0.2, (5, 5)).advice == "it would take about 22 runs per side to decide"
    assert judged(0.30, 0.06, 0.2, (5, 3)).advice == "it would take about 6 runs per side to decide"
    assert "more than 100 runs" in judged(0.011, 0.5, 0.2, (5, 5)).advice
    held = judged(0.10, 0.06, 0.2, (5, 5), sessions="held").advice
    assert held == "run both sides in turns, in one session: the variation between sessions then cancels"


def test_few_runs_need_the_quantiles_of_t() -> None:
    """With two runs a side t(0.975, 2) + t(0.9, 2) = 4.303 + 1.886, with three 2.776 + 1.533 times the root of 2/3."""
    needed = [_runs_needed(1.0, distance, 0.975) for distance in (6.2, 6.1, 3.53, 3.51, 0.0, -1.0)]
    assert needed == [2, 3, 3, 4, math.inf, math.inf]


def test_an_interval_within_the_threshold_is_equivalent_whatever_its_p() -> None:
    """The interval of a rank test may be narrower than the effect's own error."""
    wide = Effect(0.001, 0.02, 8)
    assert decide(wide, "lower", 0.9, Evidence((8, 8), (-0.005, 0.008)), DEFAULT_RULE).words == "equivalent"
    assert decide(wide, "lower", 0.9, Evidence((8, 8), (-0.011, 0.008)), DEFAULT_RULE).words == "inconclusive"


def test_verdicts_by_severity() -> None:
    order = ["regression", "not comparable", "inconclusive", "improvement", "equivalent"]
    assert sorted({*order}, key=severity) == order
    assert severity("exploratory improvement") == severity("improvement") > severity("exploratory different")
    assert without_exploratory("exploratory regression") in CHANGES
    assert judged(0.1, 0.005, 0.001, (1, 1), "steps").decision == "regression"


@pytest.mark.parametrize("runs", [(3, 3), (2, 6), (6, 2)])
def test_how_many_runs_would_decide(runs: tuple[int, int]) -> None:
    """As the variation between runs shows: an error rests on the numbers of runs of both sides."""
    deviation = 0.02
    effect = Effect(0.05, deviation * math.sqrt(1 / runs[0] + 1 / runs[1]), 4.0)
    text = _what_would_decide(effect, Evidence(runs, (0.0, 0.1)), DEFAULT_RULE)
    needed = max(_runs_needed(deviation, 0.05, 0.5 + DEFAULT_RULE.level / 2), max(runs) + 1)
    assert text == f"it would take about {needed:.0f} runs per side to decide"
    held = Evidence(runs, (0.0, 0.1), sessions="held")
    assert "in one session" in _what_would_decide(effect, held, DEFAULT_RULE)


def test_runs_that_vary_too_much() -> None:
    assert "more than 100 runs" in _what_would_decide(Effect(0.02, 1.0, 4.0), Evidence((3, 3), (-1, 1)), DEFAULT_RULE)
    assert _runs_needed(0.1, 0.0, 0.9) == _runs_needed(0.1, -1.0, 0.9) == math.inf
    assert _runs_needed(1e-9, 1.0, 0.9) == 2
