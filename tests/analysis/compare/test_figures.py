"""Figures of sides, and the effect between them: between runs, within single runs, and with the runs of a history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from support.series import step_series_of

from perflog.analysis.compare import figures as module
from perflog.analysis.compare.figures import (
    TOTAL,
    SideFigure,
    estimate,
    print_same_steps,
    side_figure,
    statistics_of,
    total_figures,
)
from perflog.analysis.compare.verdicts import DEFAULT_RULE
from perflog.arrays import Floats
from perflog.metrics.compared import STEP_MEASURES, STEP_TIME
from perflog.statistics.effects import Scatter, welch_effect
from perflog.statistics.sessions import Level

NORMAL = np.random.default_rng(1).normal(0, 1, 400)


def figure(*runs: float | Sequence[float] | Floats, statistic: str = "median", sessions: str = "") -> SideFigure:
    """A figure of runs, each with one value or several; a letter for the session of each."""
    values = [np.atleast_1d(np.asarray(run, np.float64)) for run in runs]
    return side_figure(values, statistic, DEFAULT_RULE, "a name", tuple(sessions))


def noise(level: float, steps: int = 100, first: int = 0, scatter: float = 0.01) -> Floats:
    return level * np.exp(scatter * NORMAL[first : first + steps])


def test_the_centre_is_the_geometric_mean() -> None:
    assert figure(1.0, 4.0).centre == pytest.approx(2.0)
    assert figure(0.0, 4.0).centre == 2.0  # a number that has no logarithm
    assert figure([1, 2, 9], [8, 8, 8]).runs.tolist() == [2, 8]
    assert figure([1, 2, 9], statistic="mean").runs.tolist() == [4]
    assert figure(np.arange(101.0), statistic="p99").runs.tolist() == [99]


def test_the_interval_of_several_runs_by_hand() -> None:
    """Logarithms 0 and 1: mean 0.5, standard error 0.5, t(0.975, 1) = 12.706."""
    assert figure(1.0, math.e).interval(0.95) == pytest.approx((math.exp(0.5 - 6.353), math.exp(0.5 + 6.353)), rel=1e-3)
    assert np.isnan(figure(0.0, 1.0).interval(0.95)).all()


def test_the_interval_of_a_single_run() -> None:
    single = figure(noise(2.0))
    low, high = single.interval(0.95)
    assert 1.99 < low < single.centre < high < 2.01
    with_repeats = single.interval(0.95, Scatter(0.1, 4, 5))  # t(0.975, 4) = 2.776
    assert np.array(with_repeats) / single.centre == pytest.approx([math.exp(-0.2776), math.exp(0.2776)], rel=1e-3)
    assert np.isnan(figure(3.0).interval(0.95)).all()
    assert np.isnan(replace(single, statistic=TOTAL).interval(0.95)).all()  # its steps add up to it
    assert np.isnan(figure(np.append(np.zeros(60), np.ones(61))).interval(0.95)).all()  # a draw may be 0
    assert np.isnan(SideFigure(np.array([200.0]), [noise(2.0)], TOTAL, (0, 0), 100).interval(0.95)).all()


def test_statistics_that_runs_are_compared_by() -> None:
    one, few, many = np.ones(1), np.ones(99), np.ones(100)
    assert [*statistics_of(STEP_TIME, [one, one])] == ["value"]
    assert [*statistics_of(STEP_TIME, [one, few])] == ["median", "mean"]
    assert [*statistics_of(STEP_TIME, [many, few])] == ["median", "mean"]
    assert [*statistics_of(STEP_TIME, [many, many])] == ["median", "mean", "p99"]
    assert [*statistics_of(STEP_MEASURES[1], [many, many])] == ["median"]


def test_totals_are_of_runs_with_the_same_steps() -> None:
    base, side = [step_series_of([1, 2, 3], "a", steps=[1, 2, 3])], [step_series_of([2, 2, 2], "b", steps=[1, 2, 3])]
    others = [step_series_of([1, 1, 1], "c", steps=[1, 2, 3]), step_series_of([9, 9], "d", steps=[1, 2])]
    sessions = {"a": "x", "b": "y"}
    of_base, of_side, of_others = total_figures([base, side, others], DEFAULT_RULE, sessions)
    assert (of_base.runs.tolist(), of_side.runs.tolist(), of_others.runs.tolist()) == ([6], [6], [3])
    assert (of_base.sessions, of_side.sessions, of_others.sessions) == (("x",), ("y",), ())
    tens = [step_series_of([1, 2], steps=[10, 20], averaged=10)]
    assert total_figures([tens, tens], DEFAULT_RULE, {})[0].runs.tolist() == [30]
    unknown = [step_series_of([1, 2], steps=[10, 20], averaged=0)]
    assert total_figures([unknown, unknown], DEFAULT_RULE, {})[0].runs.tolist() == [3]
    for other in (
        others[1:],
        [step_series_of([2, 2, 2], steps=[1, 2, 4])],
        [step_series_of([2, 2, 2], steps=[1, 2, 3], averaged=2)],
    ):
        assert [len(each.runs) for each in total_figures([base, other, base], DEFAULT_RULE, {})] == [0, 0, 0]
    assert print_same_steps([])


def test_the_effect_between_runs_is_that_of_welch() -> None:
    runs = [1.0, 1.1, 1.2, 1.15], [2.0, 2.2, 2.3]
    found = estimate(figure(*runs[0]), figure(*runs[1]))
    assert found.effect == welch_effect(np.log(runs[0]), np.log(runs[1]))
    assert (found.scope, found.with_ranks, found.sessions) == ("runs", None, None)
    assert found.p == found.effect.p() and math.isnan(found.p_rank)
    assert found.interval(0.9) == found.effect.interval(0.9)
    four = estimate(figure(*runs[0]), figure(*runs[1], 2.1))
    assert four.with_ranks is not None and four.p_rank == pytest.approx(2 / 70)
    assert (four.p, four.interval(0.9)) == (four.with_ranks.p, four.with_ranks.interval(0.9))


def test_equal_runs_may_differ_by_their_rounding() -> None:
    """Printed with one decimal: the standard deviation of rounding is 0.1 / sqrt(12), relative to 2."""
    equal = figure([2.0, 2.1, 1.9], [2.0, 1.8, 2.2])
    least = 0.1 / math.sqrt(12) / 2
    found = estimate(equal, figure([4.0, 4.1, 3.9], [4.0, 3.8, 4.2]))
    assert found.effect.error == pytest.approx(least)  # sqrt(2 variances / 2 runs)
    for base, side in (([2.0, 2.2], [4.1, 4.2]), ([2.0], [4.1, 4.1, 4.1, 4.2])):  # one run is not equal to others
        assert estimate(figure(*base), figure(*side)).effect == welch_effect(np.log(base), np.log(side))
    single = figure([2.0, 2.1, 1.9])
    assert estimate(single, single, [equal]).effect.error == pytest.approx(least * math.sqrt(2))


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_what_is_not_above_zero_has_no_effect(bad: float) -> None:
    for base, side in ((bad, 1.0), (1.0, bad)):
        assert math.isnan(estimate(figure(base), figure(side)).effect.shift)
    low = [bad, 1.0, 1.0, 1.0, 1.0]
    found = estimate(figure(low), figure([2.0] * 5))
    assert found.effect.shift == pytest.approx(math.log(2)) and not found.effect.known


def test_single_runs_have_the_error_of_their_steps() -> None:
    """A mean of 100 independent steps with a scatter of 1 %: an error of 0.1 %, of both 0.14 %."""
    base, side = figure(noise(1.0), statistic="mean"), figure(noise(1.1, first=100), statistic="mean")
    found = estimate(base, side)
    assert (found.scope, found.paired) == ("steps", False)
    assert found.effect.shift == pytest.approx(math.log(1.1), abs=0.005)
    assert found.effect.error == pytest.approx(0.0014, rel=0.25)
    assert found.drift == pytest.approx(0, abs=0.005)
    total = SideFigure(np.array([100.0]), [noise(1.0)], TOTAL, (0, 0), 100)
    assert not estimate(total, total).effect.known
    assert not estimate(figure(1.0), figure(2.0)).effect.known
    assert not estimate(figure([1.0, 1.1]), figure(2.0)).effect.known


def test_a_level_that_changes_within_a_run_widens_its_error() -> None:
    """The second half is 10 % slower: another section of the run may differ as much."""
    shifted = noise(1.0, first=100) * np.repeat([1.0, 1.1], 50)
    found = estimate(figure(noise(1.0)), figure(shifted))
    assert found.drift == pytest.approx(0.1, abs=0.01)
    assert found.effect.error > 0.05


def test_equal_steps_have_no_interval() -> None:
    found = estimate(figure([1.0] * 30), figure([2.0] * 30))
    assert found.effect.error == 0 and np.isnan(found.interval(0.95)).all()


def test_a_schedule_that_both_runs_share_cancels() -> None:
    """Steps are long and short in turns, by a factor of two; the side is 3 % slower at each."""
    schedule = np.tile([1.0, 2.0], 50)
    base, side = schedule * noise(1.0, scatter=1e-3), 1.03 * schedule * noise(1.0, first=100, scatter=1e-3)
    found = estimate(figure(base), figure(side))
    assert found.paired and found.effect.shift == pytest.approx(math.log(1.03), abs=5e-4)
    later = estimate(figure(base), figure(side * np.repeat([1.0, 1.02], 50)))
    assert later.paired and later.drift == pytest.approx(math.log(1.02), abs=1e-3) and later.effect.error > 0.01
    assert found.effect.error < 1e-3 and found.drift < 1e-3
    of_means = estimate(figure(base, statistic="mean"), figure(side, statistic="mean"))
    assert of_means.paired and of_means.effect.shift == pytest.approx(np.log(side.mean() / base.mean()))
    assert not estimate(figure(base, statistic="p99"), figure(side, statistic="p99")).paired
    assert not estimate(figure(base), figure(side[1:])).paired
    assert not estimate(figure(base[:9]), figure(side[:9])).paired
    assert estimate(figure(base[:10]), figure(side[:10])).paired
    assert not estimate(figure(base), figure(noise(1.5, scatter=0.3))).paired


HISTORY = (1.0, 1.1, 1.21)  # a standard deviation of log(1.1)
SCATTER: Any = pytest.approx(math.log(1.1))


def test_repeats_of_a_history_show_the_variation_of_runs() -> None:
    found = estimate(figure(2.0), figure(3.0), [figure(*HISTORY)])
    assert (found.scope, found.with_ranks, found.sessions) == ("history", None, None)
    assert found.scatter == Scatter(SCATTER, 2, 3)
    assert found.effect.shift == pytest.approx(math.log(1.5))
    assert found.effect.error == pytest.approx(math.log(1.1) * math.sqrt(2))
    assert found.effect.freedom == pytest.approx(2)
    more = estimate(figure(2.0, 2.2), figure(3.0), [figure(*HISTORY), figure(5.0)])  # one repeat shows nothing
    assert more.effect.error == pytest.approx(math.log(1.1) * math.sqrt(1.5 * (2 * 1 + 0.5) / 3), rel=0.2)
    assert found.drift == 0 and estimate(figure(2.0), figure(3.0, sessions="x"), [figure(*HISTORY)]).sessions is None
    drifting = estimate(figure(noise(1.0)), figure(noise(1.0) * np.repeat([1.0, 1.1], 50)), [figure(*HISTORY)])
    assert drifting.scope == "history" and drifting.drift == pytest.approx(0.1, abs=0.01)
    assert estimate(figure(2.0), figure(3.0), [figure(5.0)]).scope == "steps"
    assert estimate(figure(2.0), figure(3.0), [figure(0.0, 1.0)]).scope == "steps"


def test_a_run_that_is_shorter_than_its_repeats_scatters_more() -> None:
    repeats = [figure(noise(1.0, 200), noise(1.1, 200, 100), noise(1.21, 200, 200))]
    long, short = (figure(noise(2.0, steps, scatter=0.5)) for steps in (200, 20))
    same, wider = (estimate(base, figure(noise(3.0, 200)), repeats).effect.error for base in (long, short))
    drawn = float(np.log(short.drawn).var()) * 0.9  # a tenth of the steps: nine tenths of it are not in the repeats
    assert wider == pytest.approx(math.sqrt(same**2 + drawn))


def test_the_runs_of_a_baseline_show_the_variation_of_runs() -> None:
    base, side = figure(*HISTORY), figure(2.0)
    found = estimate(base, side, has_base=True)
    assert found.scope == "history" and found.scatter == Scatter(SCATTER, 2, 0)
    assert found.effect.error == pytest.approx(math.log(1.1) * math.sqrt(1 + 1 / 3))
    enough = figure(*HISTORY, 1.05), figure(2.0, 2.1, 2.2, 2.3)
    assert estimate(*enough, has_base=True).scope == "runs"
    assert estimate(figure(1.0), side, has_base=True).scope == "steps"


@pytest.mark.parametrize(
    ("base", "side", "found"),
    [
        ("xy", "xy", "same"),
        ("xy", "zw", "held"),  # of each session one run: their scatter is that of sessions
        ("xx", "yy", "left out"),
        ("x", "yz", "left out"),  # one run has no scatter
        ("xxyy", "zzww", "held"),
    ],
)
def test_sessions_of_both_sides(base: str, side: str, found: str) -> None:
    runs = [1.0, 1.01, 1.05, 1.06][: len(base)], [2.0, 2.03, 2.1, 2.11][: len(side)]
    estimated = estimate(figure(*runs[0], sessions=base), figure(*runs[1], sessions=side))
    assert estimated.sessions == found
    assert estimate(figure(*runs[0]), figure(*runs[1], sessions=side)).sessions is None


def test_the_variation_between_sessions_widens_the_error() -> None:
    """Two sessions a side with two runs each, which differ by 0.5 % within and by 5 % between sessions."""
    runs = (1.0, 1.005, 1.05, 1.055), (1.0, 1.005, 1.05, 1.055)
    known = estimate(figure(*runs[0], sessions="xxyy"), figure(*runs[1], sessions="zzww"))
    together = estimate(figure(*runs[0], sessions="xyxy"), figure(*runs[1], sessions="xyxy"))
    unknown = estimate(figure(*runs[0]), figure(*runs[1]))
    assert (known.scope, known.scatter) == ("runs", None)
    assert known.session_scatter == pytest.approx(math.log(1.05) / math.sqrt(2), rel=0.02)
    assert known.effect.error > 1.3 * unknown.effect.error  # sqrt(2), and a little more
    assert together.sessions == "same" and known.effect.error > together.effect.error


def test_two_runs_of_one_side_are_between_runs() -> None:
    assert estimate(figure(1.0, 1.1), figure(2.0)).scope == estimate(figure(1.0), figure(2.0, 2.1)).scope == "runs"


def test_repeats_of_unknown_sessions_that_scatter_more() -> None:
    """What makes them differ may make both sides differ too: each side counts as a session."""
    noisy = figure(1.0, 1.5, 0.7, 2.0, 0.6, 1.8)
    base, side = figure(1.0, 1.001, 1.002, 1.0), figure(1.1, 1.101, 1.102, 1.1)
    found = estimate(base, side, [noisy])
    assert found.sessions == "held" and found.effect.error > 0.4
    quiet = estimate(base, side, [figure(1.0, 1.001, 1.002, 1.003, 1.0, 1.001)])
    assert quiet.sessions is None and quiet.effect.error < 0.01


def test_each_repeat_as_a_session() -> None:
    logs = [np.log([1.0, 2.0]), np.log([3.0]), np.log([4.0, 5.0])]
    base, side, group = (Level(of, ("x",) * len(of)) for of in logs)
    sides, others = module._each_a_session([base, side], [group], has_base=False)
    assert [level.sessions for level in sides] == [("side 0", "side 0"), ("side 1",)]
    assert [level.sessions for level in others] == [("group 0 run 0", "group 0 run 1")]
    sides, others = module._each_a_session([base, side], [group], has_base=True)
    assert [level.sessions for level in sides] == [("group 0 run 0", "group 0 run 1"), ("side 1",)]
    assert [level.sessions for level in others] == [("group 1 run 0", "group 1 run 1")]
