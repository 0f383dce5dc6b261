"""The measure that a verdict is about, and the row of it that decides."""

from __future__ import annotations

import math

import pytest
from support.figure_rows import figure_row

from perflog.analysis.compare.headline import deciding_row, headline_rows, telling_rows, unequal_steps

TIME = figure_row()
RATE = figure_row(metric="tokens_per_s", unit="1/s", better="higher")
FORWARD = figure_row(metric="forward")
LAYERS = [figure_row(kind="layer", metric=name) for name in ("attention", "all")]
ELAPSED = figure_row(kind="run", metric="elapsed", statistic="value")
OPERATORS = [figure_row(kind="operator", metric=name) for name in ("mm", "add")]
LOSS = [figure_row(kind="value", metric=name) for name in ("loss", "accuracy")]


def test_the_first_measure_of_the_list_leads() -> None:
    everything = [*LOSS, *OPERATORS, ELAPSED, *LAYERS, FORWARD, RATE, TIME]
    assert headline_rows(everything) == [TIME]
    assert headline_rows(everything[:-1]) == [RATE]
    assert headline_rows(everything[:-2]) == [LAYERS[1]]  # the sum of all layers
    assert headline_rows([*OPERATORS, ELAPSED]) == [ELAPSED]
    assert headline_rows([*LOSS, *OPERATORS]) == [OPERATORS[0]]  # of its kind the first
    assert headline_rows(LOSS) == []
    assert headline_rows(LOSS, by_values=True) == [LOSS[0]]
    assert headline_rows([*OPERATORS, *LOSS], by_values=True) == [LOSS[0]]
    mean = figure_row(statistic="mean")
    assert headline_rows([TIME, mean]) == [TIME, mean]


def test_each_case_has_its_own_first_measure() -> None:
    rows = [figure_row(case=case, kind="operator", metric=name) for case, name in
            (("a", "mm"), ("a", "add"), ("b", "add"), ("b", "mm"))]  # fmt: skip
    assert headline_rows(rows) == [rows[0], rows[2]]


def test_a_declared_result_leads_if_its_error_is_known() -> None:
    assert headline_rows([TIME, ELAPSED], result="elapsed") == [ELAPSED]
    unknown = figure_row(kind="run", metric="elapsed", case="b", error=math.nan)
    assert headline_rows([TIME, ELAPSED, unknown], result="elapsed") == [TIME]
    assert headline_rows([TIME, ELAPSED], result="latency") == [TIME]


def test_times_to_named_values_lead() -> None:
    steps, seconds = figure_row(kind="target", unit=""), figure_row(kind="target", unit="s")
    assert headline_rows([TIME, steps, seconds], to_targets=True) == [seconds]
    assert headline_rows([TIME, steps], to_targets=True) == [steps]
    assert headline_rows([TIME], to_targets=True) == []


@pytest.mark.parametrize(
    ("time", "rate", "ratio"),
    [
        (1.0, 0.0, 2.0),  # twice as long at the same rate: twice the tokens
        (-0.5, 0.0, 0.5),
        (0.0, 0.5, 1.5),
        (0.05, 0.04, None),  # 1.092: steps are equally long, and scatter
        (-0.05, -0.04, None),  # 0.912
        (1.0, -0.5, None),
    ],
)
def test_a_rate_leads_where_steps_do_more(time: float, rate: float, ratio: float | None) -> None:
    of_rate = figure_row(metric="tokens_per_s", unit="1/s", better="higher", change=rate)
    rows = [figure_row(change=time), of_rate, figure_row(statistic="mean", change=9.0)]
    found = unequal_steps(rows, "tokens_per_s")
    assert [row for row, _ in found] == [of_rate] * (ratio is not None)
    assert [value for _, value in found] == pytest.approx([] if ratio is None else [ratio])
    assert headline_rows(rows) == ([of_rate] if ratio else [rows[0], rows[2]])
    assert unequal_steps(rows, "samples_per_s") == []
    assert unequal_steps([*rows, figure_row(case="b")], "tokens_per_s") == []  # times of a case without a rate


def test_a_change_of_any_statistic_decides_else_the_mean() -> None:
    equal, mean, worse, better = (
        figure_row(statistic=statistic, verdict=verdict)
        for statistic, verdict in (
            ("median", "equivalent"), ("mean", "inconclusive"), ("p99", "regression"), ("total", "improvement"),
        )
    )  # fmt: skip
    assert deciding_row([equal, mean]) is mean
    assert deciding_row([equal]) is equal
    assert deciding_row([equal, mean, better]) is better
    assert deciding_row([better, mean, worse]) is worse
    single = figure_row(verdict="exploratory regression")
    assert deciding_row([equal, mean, single]) is single


def test_rows_with_a_known_error_tell_more() -> None:
    unknown = figure_row(statistic="total", error=math.nan)
    assert telling_rows([TIME, unknown]) == [TIME]
    assert telling_rows([unknown]) == [unknown]
