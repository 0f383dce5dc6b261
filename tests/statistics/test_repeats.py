"""How far repeats lie apart: honest ones are taken for repeats, runs of other code are not."""

from __future__ import annotations

import numpy as np
import pytest

from perflog.statistics.repeats import BETWEEN_RESULTS, BETWEEN_RUNS, are_repeats, widest_spread


@pytest.mark.parametrize("runs", [2, 3, 5, 10, 13, 40])
def test_repeats_that_differ_as_repeats_do_are_repeats(runs: int) -> None:
    generator = np.random.default_rng(runs)
    medians = np.exp(generator.normal(0, BETWEEN_RUNS, (4000, runs)))
    assert sum(not are_repeats(each, BETWEEN_RUNS) for each in medians) <= 8  # one in a thousand, 4 expected at most


def test_the_limit_grows_with_the_number_of_runs() -> None:
    limits = [widest_spread(runs, BETWEEN_RUNS) for runs in (2, 3, 5, 10, 40)]
    assert limits == sorted(limits)
    assert 0.2 < limits[0] < limits[-1] < 0.4
    assert [widest_spread(runs, 0.1) for runs in (2, 5)] == pytest.approx([0.46535, 0.55020], rel=1e-4)  # 3.29, 3.89


def test_runs_of_other_code_are_no_repeats() -> None:
    assert not are_repeats(np.array([20.24, 36.84, 22.96]), BETWEEN_RUNS)
    assert not are_repeats(np.array([25.63, 85.43, 38.26]), BETWEEN_RUNS)
    assert are_repeats(np.array([20.24, 21.5, 22.96]), BETWEEN_RUNS)


def test_times_to_convergence_are_repeats() -> None:
    minutes = np.array([27.25, 33.9, 27.2, 30.4, 27.3, 30.35, 27.2, 27.25, 27.3, 27.2])
    assert are_repeats(minutes, BETWEEN_RESULTS)


def test_one_slow_run_of_five_is_an_outlier_and_no_other_configuration() -> None:
    runs = np.array([1.0, 1.01, 0.99, 1.02, 2.0])
    assert (
        are_repeats(runs, BETWEEN_RUNS)
        and are_repeats(100 * runs, BETWEEN_RUNS)
        and are_repeats(1 / runs, BETWEEN_RUNS)
    )
    assert not are_repeats(runs[1:], BETWEEN_RUNS)
    assert not are_repeats(np.array([1.0, 1.01, 0.99, 2.02, 2.0]), BETWEEN_RUNS)


def test_a_single_run_is_its_own_repeat() -> None:
    assert are_repeats(np.array([1.0]), BETWEEN_RUNS)


def test_of_sixteen_runs_two_are_outliers() -> None:
    calm = [100.0, 101.0, 99.0, 102.0, 98.0] * 3
    assert not are_repeats(np.array([*calm[:13], 50.0, 200.0]), BETWEEN_RUNS)
    assert are_repeats(np.array([*calm[:14], 50.0, 200.0]), BETWEEN_RUNS)
    assert not are_repeats(np.array([*calm[:13], 50.0, 200.0, 210.0]), BETWEEN_RUNS)
    assert not are_repeats(np.array([1.0, 2.0]), BETWEEN_RUNS) and are_repeats(np.array([1.0, 1.2]), BETWEEN_RUNS)
