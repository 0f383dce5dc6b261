"""Step times: centre, spread and tails of all steps and of the steady ones, against numpy and by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand, rows

from perflog.metrics import Options, Tables, steps
from perflog.metrics.compared import STEP_TIME, TOKENS_PER_S, Steady
from perflog.metrics.step_time import steps as module
from perflog.metrics.step_time.steps import _ratio, _samples, _spread
from perflog.statistics.samples import median_interval

TIMES = [4.0, 1.0, 1.5, 1.25, 2.0, 1.75, 1.125, 1.375]


def printed(times: list[float] = TIMES, **more: Any) -> Tables:
    return Tables(by_hand("steps", [{"step": n, "step_time_s": time} | more for n, time in enumerate(times, 10)]))


def parts(tables: Tables, of: str = "step_time", warmup: int | None = 1) -> list[dict[str, Any]]:
    return rows(steps.table(tables, Options(warmup=warmup)), of=of)


def test_all_steps_and_those_without_the_warm_up() -> None:
    whole, steady = parts(printed())
    assert (whole["part"], whole["n"], whole["first_step"], whole["last_step"]) == ("all", 8, 10, 17)
    assert (steady["part"], steady["n"], steady["first_step"], steady["last_step"]) == ("steady", 7, 11, 17)
    assert (steady["first_line"], steady["last_line"], whole["first_line"]) == (2, 8, 1)
    for row, times in ((whole, TIMES), (steady, TIMES[1:])):
        assert (row["median_s"], row["mean_s"]) == (np.median(times), pytest.approx(np.mean(times)))
        assert (row["min_s"], row["max_s"]) == (1.0, max(times))
        assert row["steps_per_s"] == pytest.approx(len(times) / sum(times))
        assert [row["p50_s"], row["p90_s"], row["p95_s"]] == pytest.approx(np.percentile(times, [50, 90, 95]).tolist())
        sd = np.std(times, ddof=1)
        assert (row["sd_s"], row["cv"]) == pytest.approx((sd, sd / np.mean(times)))
        off = np.median(np.abs(np.array(times) - np.median(times)))
        assert row["robust_cv"] == pytest.approx(1.4826 * off / np.median(times), rel=1e-4)
        assert (row["median_low_s"], row["median_high_s"]) == median_interval(np.array(times), 0.95)
        assert (row["warmup"], row["first_over_median"]) == (1, 4.0 / np.median(TIMES[1:]))
        assert row["p99_s"] is None


def test_forward_and_backward_come_after_the_step() -> None:
    table = steps.table(printed(forward_s=0.5, backward_s=1.0), Options())
    assert table["of"].tolist() == ["step_time"] * 2 + ["forward"] * 2 + ["backward"] * 2
    assert not len(steps.table(Tables(by_hand("steps", [])), Options()))


def test_a_warm_up_of_all_steps_leaves_a_row_without_values() -> None:
    whole, steady = parts(printed(), warmup=8)
    assert (steady["n"], steady["median_s"], steady["first_step"]) == (0, None, None)
    assert (whole["n"], whole["first_over_median"]) == (8, None)


def test_lines_that_average_several_steps_have_no_spread() -> None:
    row, _ = parts(printed(steps_averaged=10), warmup=0)
    assert (row["steps_averaged"], row["sd_s"], row["state"], row["median_s"]) == (10, None, None, 1.4375)


@pytest.mark.parametrize(("count", "has_tail"), [(99, False), (100, True)])
def test_the_99th_percentile_of_100_steps(count: int, has_tail: bool) -> None:
    values = np.arange(1.0, count + 1)
    assert _spread(values).get("p99_s") == (pytest.approx(np.percentile(values, 99)) if has_tail else None)


@pytest.mark.parametrize(("cv", "state"), [(0.0199, "stable"), (0.0201, "fair"), (0.0999, "fair"), (0.1001, "noisy")])
def test_how_steady_a_run_is(cv: float, state: str) -> None:
    low, high = 1 - cv / math.sqrt(2), 1 + cv / math.sqrt(2)  # two values with this coefficient of variation
    assert _spread(np.array([low, high]))["state"] == state


def test_few_steps_and_steps_of_no_time() -> None:
    assert _spread(np.array([1.0])) == {}
    assert _spread(np.zeros(2)) == {"sd_s": 0.0, "cv": None, "state": None}
    assert (_ratio(3.0, 2.0), _ratio(3.0, 0.0)) == (1.5, None)


@pytest.mark.parametrize(
    ("tokens", "rate", "wanted"),
    [(3000.0, None, [3000 / time for time in TIMES[2:]]), (3000.0, 100.0, [100.0] * 6), (None, None, None)],
)
def test_tokens_per_second_follow_from_the_step_time(
    monkeypatch: pytest.MonkeyPatch, tokens: float | None, rate: float | None, wanted: list[float] | None
) -> None:
    quantities = {"tokens": tokens} if tokens else {}
    monkeypatch.setattr(module, "semantics_by_run", lambda _: {"r": SimpleNamespace(quantities=quantities)})
    tables = printed(tokens_per_s=rate)
    found = {measure: values.tolist() for measure, _, values in _samples(tables, Steady({"r": 2}, {}))}
    assert found[STEP_TIME] == TIMES[2:]
    assert found.get(TOKENS_PER_S) == (wanted and pytest.approx(wanted))
    assert list(_samples(tables, Steady({"other": 2}, {}))) == []
    found = {measure: values.tolist() for measure, _, values in _samples(tables, Steady({"r": 2}, {}, last={"r": 14}))}
    assert found[STEP_TIME] == TIMES[2:5]
