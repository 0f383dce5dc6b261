"""Runs that are far worse than their group, and the ends of several runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perflog.analysis.overview.outliers import _more_samples, extremes, outliers
from perflog.analysis.overview.run_figures import SAMPLES, RunFigure
from perflog.analysis.overview.run_groups import RunGroup
from perflog.log import Log, RunKey
from perflog.metrics.directions import Better
from perflog.tables.sink import MemorySink

RUNS = [f"r{number}" for number in range(9)]


def log_of(*runs: str) -> Log:
    return Log(MemorySink().fetch, [RunKey(run, run, f"{run}.txt", run, 1) for run in runs])


def figure(values: Sequence[float], name: str = "total", unit: str = "s", better: Better | None = "lower") -> RunFigure:
    return RunFigure(name, unit, better, dict(zip(RUNS, values, strict=False)))


def told(*figures: RunFigure, groups: int = 1) -> list[str]:
    runs = [RunGroup("A", "a", tuple(RUNS), {}), RunGroup("B", "b", (), {})][:groups]
    return list(outliers(figures, runs, log_of(*RUNS)))


NEAR = [100.0, 101.0, 99.0, 100.0, 101.0, 99.0, 100.0, 100.0]


def test_a_run_that_is_far_worse_than_its_group() -> None:
    assert told(figure([*NEAR, 130.0])) == ["far worse than the median total of 100 s: r8 130 s."]
    assert told(figure([*NEAR, 130.0]), groups=2)[0].startswith("A: far worse")
    assert told(figure([*NEAR, 70.0])) == [] == told(figure([*NEAR, 70.0], better=None))
    rates = told(figure([*NEAR, 70.0], "tokens/s", "1/s", "higher"))
    assert rates == ["far worse than the median tokens/s of 100 1/s: r8 70 1/s."]
    assert told(figure([*NEAR[1:], 130.0])) and not told(figure([*NEAR[2:], 130.0]))  # of eight runs at least
    worst_first = told(figure([*NEAR[:6], 120.0, 140.0, 130.0]))
    assert worst_first == ["far worse than the median total of 101 s: r7 140 s, r8 130 s, r6 120 s."]


@pytest.mark.parametrize(("value", "is_far"), [(105.1, True), (105.0, False)])
def test_less_than_five_percent_is_not_far(value: float, is_far: bool) -> None:
    assert bool(told(figure([100.0] * 8 + [value]))) == is_far


@pytest.mark.parametrize(("value", "is_far"), [(174.2, True), (174.1, False)])
def test_runs_that_scatter_are_far_from_five_deviations_on(value: float, is_far: bool) -> None:
    """The median absolute deviation is 10: 5 x 1.4826 x 10 = 74.13."""
    scattered = [90.0, 90.0, 90.0, 90.0, 100.0, 110.0, 110.0, 110.0]
    assert bool(told(figure([*scattered, value]))) == is_far


def test_a_slower_run_may_have_needed_more_samples() -> None:
    times = figure([*NEAR, 130.0])

    def samples(*last: float) -> RunFigure:
        return figure([1000.0] * (9 - len(last)) + [*last], SAMPLES, "")

    assert told(times, samples(1300.0)) == [
        (
            "far worse than the median total of 100 s: r8 130 s; not slower per sample: they need 1,300 samples, the "
            "median run 1,000."
        )
    ]
    assert told(times, samples(1000.0))[0].endswith("r8 130 s.")
    assert told(times, samples(1230.0))[0].endswith("r8 130 s.")  # 5.7 % slower per sample
    assert told(times, samples(1240.0))[0].endswith("the median run 1,000.")  # 4.8 %
    two = told(figure([*NEAR[:7], 140.0, 130.0]), samples(1400.0, 1300.0))
    assert "they need 1,300 to 1,400 samples" in two[0]
    assert told(times, RunFigure(SAMPLES, "", None, {"r8": 1300.0}))[0].endswith("r8 130 s.")


def test_the_ends_of_several_runs() -> None:
    figures = [figure([3.0, 1.0, 2.0]), figure([5.0]), figure([1.0, 7.0], "loss", "", "lower")]
    assert list(extremes(figures, log_of(*RUNS))) == [
        "total: from 1 s in r1 to 3 s in r0.",
        "loss: from 1 in r0 to 7 in r1.",
    ]


def test_samples_may_be_few() -> None:
    """Steps of a sample each, and one of two in twice the time."""
    times = {f"r{k}": 1.0 for k in range(8)} | {"r8": 2.0}
    samples = dict.fromkeys(times, 1.0) | {"r8": 2.0}
    assert _more_samples(times, samples, ["r8"]) == "; not slower per sample: they need 2 samples, the median run 1"
    assert _more_samples(times, samples | {"r0": 0.0}, ["r8"]) == ""
