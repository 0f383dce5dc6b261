"""A comparison for services that keep benchmark results."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from support.figure_rows import figure_row

from perflog.analysis.compare.ci_formats import bencher, github_action_benchmark
from perflog.analysis.compare.rows import FigureRow


def comparison(*rows: FigureRow) -> Any:
    return SimpleNamespace(row_records=rows)


TIME = figure_row(base_value=1.0, side_value=1.1, side_low=1.05, side_high=1.2, change=0.1, verdict="regression")
MEAN = figure_row(statistic="mean", side_value=1.2, side_low=math.nan, side_high=math.nan, case="gpt2")
RATE = figure_row(metric="tokens_per_s", better="higher", unit="1/s", side_value=9.0, side_low=8.0, side_high=10.0)


def test_github_action_benchmark_gets_what_is_better_when_smaller() -> None:
    first, second = github_action_benchmark(comparison(TIME, RATE, MEAN))
    assert first == {
        "name": "side: step_time", "unit": "s", "value": 1.1, "range": "± 0.1",  # the farther end
        "extra": "base base: 1 s\nchange +10.0 % [-]\nregression",
    }  # fmt: skip
    assert (second["name"], "range" in second) == ("side (gpt2): step_time mean", False)
    farther = figure_row(side_value=1.1, side_low=0.9, side_high=1.2)
    assert github_action_benchmark(comparison(farther))[0]["range"] == "± 0.2"


def test_bencher_gets_values_with_their_bounds() -> None:
    assert bencher(comparison(TIME, RATE, MEAN)) == {
        "side": {
            "step_time": {"value": 1.1, "lower_value": 1.05, "upper_value": 1.2},
            "tokens_per_s": {"value": 9.0, "lower_value": 8.0, "upper_value": 10.0},
        },
        "side (gpt2)": {"step_time mean": {"value": 1.2}},
    }
    value = figure_row(statistic="value", metric="elapsed", side_value=5.0)
    assert bencher(comparison(value)) == {"side": {"elapsed": {"value": 5.0}}}
