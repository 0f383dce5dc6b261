"""Effects between sides against textbook formulas and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.series import ar1

from perflog.arrays import Floats
from perflog.statistics import bootstrap, effects
from perflog.statistics.effects import Effect
from perflog.statistics.students_t import t_quantile


def test_welch_by_hand() -> None:
    a, b = np.array([27.5, 21.0, 19.0, 23.6, 17.0]), np.array([27.1, 22.0, 20.8, 23.4, 23.5, 25.8])
    effect = effects.welch_effect(a, b)
    variances = a.var(ddof=1) / 5, b.var(ddof=1) / 6
    assert effect.shift == pytest.approx(b.mean() - a.mean())
    assert effect.error == pytest.approx(math.sqrt(sum(variances)))
    assert effect.freedom == pytest.approx(sum(variances) ** 2 / (variances[0] ** 2 / 4 + variances[1] ** 2 / 5))


def test_a_single_run_takes_the_scatter_of_the_other_side() -> None:
    effect = effects.welch_effect(np.array([1.0, 1.2, 1.1]), np.array([2.0]))
    assert effect.shift == pytest.approx(0.9)
    assert effect.freedom == 2
    assert effect.error == pytest.approx(0.1 * math.sqrt(1 / 3 + 1))


def test_the_error_of_one_run_against_several_has_the_share_of_each_side() -> None:
    """Either side may be the single run; a rounding above the scatter replaces it."""
    several = np.array([1.0, 1.2, 1.1, 1.1])
    deviation = math.sqrt(0.02 / 3)
    for base, side, least, expected in (
        (several, np.zeros(1), 0.0, deviation),
        (np.zeros(1), several, 0.0, deviation),
        (np.zeros(1), several, 0.5, 0.5),
    ):
        effect = effects.welch_effect(base, side, least)
        assert effect.error == pytest.approx(expected * math.sqrt(1 / 4 + 1))
        assert effect.freedom == 3


def test_few_runs_a_side_have_the_mean_of_both_degrees_of_freedom() -> None:
    """Variances 2 and 8 of two runs each: Welch's are 5**2 / (1 + 16), Student's 2."""
    effect = effects.welch_effect(np.array([1.0, 3.0]), np.array([4.0, 8.0]))
    assert effect.error**2 == pytest.approx(1 + 4)
    assert effect.freedom == pytest.approx((25 / 17 + 2) / 2)
    four = effects.welch_effect(np.array([1.0, 1, 3, 3]), np.array([4.0, 4, 8, 8]))
    assert four.freedom == pytest.approx(25 / 17 * 3)
    equal = effects.welch_effect(np.ones(3), np.ones(5))
    assert (equal.shift, equal.error, equal.freedom) == (0, 0, 4)


def test_the_error_within_runs_has_three_parts() -> None:
    """Draws of variance 1 and 4, and a slow change of 2. Equal draws have none, even if their mean is rounded."""
    base, side = np.array([1.0, 3.0]), np.array([0.0, 4.0])
    assert effects.bootstrap_effect(base, side, 0.5, 9.0, 2.0) == Effect(0.5, 3.0, 8.0)
    assert effects.bootstrap_effect(base, side, 0.5, 1.5).freedom == 1
    assert math.isnan(effects.bootstrap_effect(base, side, 0.5, 1.0).error)
    assert effects.bootstrap_effect(np.full(7, 0.1), np.full(3, 0.1), 0.0, 9.0).error == 0


def test_shifts_and_changes_are_inverse() -> None:
    for change, shift in ((0.0, 0.0), (1.0, math.log(2)), (-0.5, -math.log(2)), (-1.0, -math.inf)):
        assert effects.shift_of(change) == shift and effects.change_of(shift) == pytest.approx(change)
    assert effects.change_of(701.0) == math.inf > effects.change_of(700.0)


def test_an_effect_without_an_error_is_certain_or_unknown() -> None:
    assert [Effect(1.0, 0.0, 3).p_above(limit) for limit in (0.5, 1.0, 2.0)] == [0, 0.5, 1]
    for unknown in (Effect(math.nan, 1.0, 3), Effect(1.0, math.nan, 3), Effect(1.0, 1.0, math.nan)):
        assert not unknown.known
        assert all(map(math.isnan, (unknown.p(), unknown.p_above(0), *unknown.interval(0.95))))


def test_the_mean_of_runs_has_a_standard_error_from_two_runs_on() -> None:
    assert effects.mean_of_runs(np.array([1.0, 3.0])) == Effect(2.0, 1.0, 1)
    single = effects.mean_of_runs(np.array([1.0]))
    assert (single.shift, single.freedom) == (1, 0) and math.isnan(single.error)


def test_the_usual_freedom_is_a_mean_for_few_runs() -> None:
    assert [effects.usual_freedom(runs) for runs in (2, 3, 4, 9)] == pytest.approx([5 / 3, 3.5, 4.8, 14.4])


def test_without_scatter_each_shift_is_found() -> None:
    assert [effects.power(shift, 0.0, 3, 0.95, 0.1) for shift in (0.05, 0.1, 0.2)] == [0, 1, 1]


def test_equal_figures_leave_the_rounding_of_the_log() -> None:
    same = np.log(np.full(3, 0.3))
    assert effects.welch_effect(same, same).p() == 1
    assert effects.welch_effect(same, np.log(np.full(3, 0.4))).p() == 0
    rounded = effects.welch_effect(same, np.log(np.full(3, 0.4)), 0.1 / math.sqrt(12) / 0.3)
    assert 0 < rounded.p() < 0.05


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([1.0, 2, 3], 1),
        ([0.1, 0.25], 0.01),
        ([0.0203, 0.0211], 1e-4),
        ([1 / 3, 0.2], 0),
        ([1e-20], 0),
        ([1234567.1234567], 0),
        ([2.6e-5, 3.1e-5], 1e-6),
    ],
)
def test_rounding(values: list[float], step: float) -> None:
    assert effects.rounding(np.array(values)) == pytest.approx(step, rel=1e-9, abs=1e-14)


@given(st.floats(-1, 1), st.floats(0.001, 1), st.floats(1, 60))
def test_p_and_interval_agree(shift: float, error: float, freedom: float) -> None:
    effect = Effect(shift, error, freedom)
    low, high = effect.interval(0.95)
    assert (effect.p() < 0.05) == (not low <= 0 <= high) or abs(effect.p() - 0.05) < 1e-9
    assert effect.inverse.interval(0.95) == pytest.approx((-high, -low))
    margin = 0.3
    inside = effect.interval(0.9)
    assert (effect.p_outside(margin) < 0.05) == (inside[0] > -margin and inside[1] < margin) or math.isclose(
        effect.p_outside(margin), 0.05, abs_tol=1e-9
    )


def within(a: Floats, b: Floats, seed: int) -> Effect:
    rng = np.random.default_rng(seed)
    drawn = [np.log(bootstrap.block_draws(run, "median", 600, rng)) for run in (a, b)]
    units = min(bootstrap.independent_units(a), bootstrap.independent_units(b))
    return effects.bootstrap_effect(drawn[0], drawn[1], float(np.log(np.median(b)) - np.log(np.median(a))), units)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rho", "least"), [(100, 0.0, 0.93), (100, 0.5, 0.90), (400, 0.6, 0.90)])
def test_intervals_within_runs_hold_on_ar1_series(n: int, rho: float, least: float) -> None:
    rng = np.random.default_rng(6)
    held = 0
    for seed in range(100):
        low, high = within(50 + ar1(rng, n, rho), 50 + ar1(rng, n, rho), seed).interval(0.95)
        held += low <= 0 <= high
    assert held / 100 >= least


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_intervals_between_runs_cover_what_they_say(runs: int, spread: float) -> None:
    rng = np.random.default_rng(runs)
    held, widths = 0, []
    for _ in range(1500):
        effect = effects.welch_effect(rng.normal(0, 0.04, runs), rng.normal(0, 0.04 * spread, runs))
        low, high = effect.interval(0.95)
        held += low <= 0 <= high
        widths.append(high - low)
    assert 0.93 <= held / 1500 <= 0.975
    wide = 2 * t_quantile(0.975, 2 * runs - 2) * 0.04 * math.sqrt((1 + spread**2) / runs)
    assert np.median(widths) == pytest.approx(wide, rel=0.5)  # narrower with more runs


@pytest.mark.parametrize("runs", [(2, 3), (2, 10), (3, 10)])
@pytest.mark.parametrize(("spread", "least"), [(1.0, 0.945), (2.0, 0.905)])
def test_intervals_between_few_runs_and_many_cover_too(runs: tuple[int, int], spread: float, least: float) -> None:
    """With Welch's variance alone, 2 runs against 10 cover 90 and 88 %; the smaller side may scatter twice as much."""
    rng = np.random.default_rng(sum(runs))
    held = 0
    for _ in range(800):
        effect = effects.welch_effect(rng.normal(0, 0.04 * spread, runs[0]), rng.normal(0, 0.04, runs[1]))
        low, high = effect.interval(0.95)
        held += low <= 0 <= high
    assert least <= held / 800 <= 0.98


def test_few_runs_against_more_by_hand() -> None:
    a, b = np.array([1.0, 3.0]), np.array([4.0, 5.0, 6.0, 9.0])
    effect = effects.welch_effect(a, b)
    variances = 2 / 2, 14 / 3 / 4
    student = (2 * 1 + 14 / 3 * 3) / 4 * (1 / 2 + 1 / 4)
    assert effect.error**2 == pytest.approx((sum(variances) + student) / 2)
    assert effect.freedom == pytest.approx(sum(variances) ** 2 / (variances[0] ** 2 / 1 + variances[1] ** 2 / 3))
    assert (effect.inverse.shift, effect.shift) == (-4, 4)


def test_intervals_are_narrower_with_more_runs() -> None:
    """Runs that differ by 4 %: widths of the interval of 2, 3, 5 runs a side, as those of Welch's t."""
    rng, widths = np.random.default_rng(4), []
    for runs in (2, 3, 5):
        drawn = []
        for _ in range(2000):
            low, high = effects.welch_effect(*rng.normal(0, 0.04, (2, runs))).interval(0.95)
            drawn.append(high - low)
        widths.append(float(np.median(drawn)))
    assert widths[0] > widths[1] > widths[2]
    assert widths == pytest.approx([0.336, 0.175, 0.112], rel=0.04)


def test_scatter_is_pooled_within_groups() -> None:
    """The within-groups mean square by hand: squares 2 + 0.5 about their means, 2 + 1 degrees of freedom."""
    scatter = effects.pooled_scatter([np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0]), np.array([50.0])])
    assert scatter is not None
    assert scatter.deviation == pytest.approx(math.sqrt(2.5 / 3))
    assert (scatter.freedom, scatter.runs) == (3, 5)
    assert effects.pooled_scatter([np.array([1.0]), np.array([2.0])]) is None


@pytest.mark.parametrize("runs", [2, 3, 4, 5, 10])
@pytest.mark.parametrize("margin", [0.0, 0.06])
def test_power_is_that_of_simulated_comparisons(runs: int, margin: float) -> None:
    rng = np.random.default_rng(runs)
    shift = effects.least_found(0.04, runs, 0.95, margin)
    assert effects.power(shift, 0.04, runs, 0.95, margin) == pytest.approx(0.9, abs=1e-6)
    found = 0
    for _ in range(2000):
        effect = effects.welch_effect(rng.normal(0, 0.04, runs), rng.normal(shift, 0.04, runs))
        found += effect.p() < 0.05 and effect.shift >= max(margin, 0)
    assert found / 2000 == pytest.approx(0.9, abs=0.025)
    assert effects.power(shift * 1.2, 0.04, runs, 0.95, margin) > 0.9


def test_more_runs_show_smaller_changes() -> None:
    """Of runs that differ by 4 %, in 9 of 10 cases."""
    least = [effects.least_found(0.04, runs, 0.95) for runs in (2, 3, 5, 10, 24)]
    assert least == pytest.approx([0.327, 0.150, 0.0963, 0.0616, 0.0383], rel=0.005)
    assert effects.least_found(0.0, 3, 0.95, 0.01) == 0.01


def test_an_interval_needs_two_units() -> None:
    assert all(map(math.isnan, within(np.ones(1), np.ones(1), 0).interval(0.95)))
