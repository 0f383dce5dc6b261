"""The measure that a verdict is about, and the row of it that decides."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from support.figure_rows import Values, figure_row, made_sides
from support.metrics_logs import by_hand

from perflog.analysis.compare import headline as module
from perflog.analysis.compare.headline import (
    BestSide,
    best_sides,
    deciding_row,
    declared_result,
    headline_rows,
    telling_rows,
    unequal_steps,
    values_only,
)
from perflog.analysis.compare.history import History
from perflog.analysis.compare.rows import comparison_rows
from perflog.analysis.compare.sides import Case, Side
from perflog.analysis.compare.verdicts import DEFAULT_RULE
from perflog.log import Log
from perflog.metrics.compared import STEP_TIME, TOKENS_PER_S, Measure
from perflog.metrics.run_tables import Tables
from perflog.tables.sink import MemorySink

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


def best_of(*sides: Values) -> list[BestSide]:
    named, case, values = made_sides(*sides)
    rows = comparison_rows(named, [case], values, DEFAULT_RULE, History())
    return list(best_sides(named, [case], values, headline_rows(rows), DEFAULT_RULE, History()))


SLOW = {STEP_TIME: [[2.0], [2.01], [2.02]], Measure("step", "forward"): [[1.0], [1.0], [1.0]]}
FAST = {STEP_TIME: [[1.0], [1.01], [1.02]]}
AS_FAST = {STEP_TIME: [[1.0], [1.01], [1.03]]}


def test_the_best_of_three_sides_whatever_the_base_is() -> None:
    for sides, best, level in (
        ((SLOW, FAST, AS_FAST), "b", ("c",)), ((FAST, SLOW, AS_FAST), "a", ("c",)), ((FAST, SLOW, SLOW), "a", ()),
    ):  # fmt: skip
        (found,) = best_of(*sides)
        assert (found.side, found.level) == (best, level)
        assert found.next is found.rows[0] and len(found.rows) == 2
        assert {row.base for row in found.rows} == {best} and {row.metric for row in found.rows} == {"step_time"}
        assert [row.side_value for row in found.rows] == sorted(row.side_value for row in found.rows)
    assert best_of(FAST, SLOW) == []


def test_of_rates_the_highest_is_the_best() -> None:
    rates = [{TOKENS_PER_S: runs[STEP_TIME]} for runs in (FAST, SLOW, AS_FAST)]
    (found,) = best_of(*rates)
    assert (found.side, found.level, [row.side for row in found.rows]) == ("b", (), ["c", "a"])
    unknown = Measure("step", "step_time", better=None)
    assert best_of(*({unknown: runs[STEP_TIME]} for runs in (FAST, SLOW, AS_FAST))) == []


def test_a_side_that_is_worse_by_its_mean_is_not_level() -> None:
    """The medians of the steps are equal; the mean of the second side is surely larger."""
    even = [[1.0, 1.0 + shift, 1.0] for shift in (0.01, 0.02, 0.015, 0.012)]
    uneven = [[1.0, 3.0 + shift, 1.0] for shift in (0.01, 0.02, 0.015, 0.012)]
    (found,) = best_of({STEP_TIME: even}, {STEP_TIME: uneven}, {STEP_TIME: even})
    assert (found.side, found.level) == ("a", ("c",))


def side_of(*formats: str) -> Side:
    """A side with a run of each format."""
    side = Side("a", Log(MemorySink().fetch, []))
    runs = [{"run": f"r{k}", "format": name} for k, name in enumerate(formats)]
    side.__dict__["tables"] = Tables({"runs": by_hand("runs", runs)["runs"]})
    return side


@pytest.mark.parametrize(
    ("base", "side", "result"),
    [
        (["mlperf"], ["mlperf", "speedrun"], "elapsed"),
        (["mlperf"], ["mlperf", "ollama"], None),
        (["ollama"], ["mlperf", "mlperf"], None),
        (["megatron"], ["megatron", "megatron"], None),
        (["mlperf"], ["no_format", "mlperf"], None),
        (["mlperf"], ["mlperf", "mlperf", "ollama"], "elapsed"),  # the last run is not compared
    ],
)
def test_the_result_that_the_formats_of_all_runs_declare(base: list[str], side: list[str], result: str | None) -> None:
    case = Case("", (("r0",), ("r0", "r1")))
    assert declared_result([side_of(*base), side_of(*side)], [case]) == result


def test_values_lead_where_there_is_nothing_else() -> None:
    loss, case = Measure("value", "loss", ""), [[1.0]]
    assert values_only(made_sides({loss: case}, {loss: case})[2])
    assert not values_only(made_sides({loss: case}, {loss: case, STEP_TIME: case})[2])


def test_a_latency_leads_where_clients_limit_the_rate_in_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"r": True, "s": True, "t": False}
    rates = {run: SimpleNamespace(is_limit=is_limit) for run, is_limit in limits.items()}
    monkeypatch.setattr(module, "client_rates", lambda _: rates)
    monkeypatch.setattr(module, "leading_latency", "+".join)
    rows: Any = [SimpleNamespace(metric="ttft"), SimpleNamespace(metric="tpot")]
    sides: Any = [SimpleNamespace(tables=None)] * 2

    def leads(*runs: tuple[str, ...]) -> str | None:
        return module.latency_of_clients(sides, [Case("c", tuple(tuple(each) for each in runs))], rows)

    assert leads(("r",), ("s",)) == "ttft+tpot"
    assert leads(("r",), ("t",)) is None and leads(("r", "t"), ("s",)) is None
    assert leads(("r",), ("unknown",)) is None
