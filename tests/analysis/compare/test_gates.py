"""Gates: what fails one, what it cannot judge, and the exit code."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from support.figure_rows import figure_row

from perflog.analysis.compare.comparison import Objection
from perflog.analysis.compare.gates import (
    CANNOT_JUDGE,
    Gate,
    GateFailure,
    exit_code,
    failures,
    results,
)
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.verdicts import DEFAULT_RULE


def comparison(*rows: FigureRow, headlines: int = 1, objections: tuple[Objection, ...] = (), other: str = "") -> Any:
    """A comparison with these rows; the first ones are the headline. `other`: a side that ran in another setting."""
    settings = [SimpleNamespace(case="", side=other)] if other else []
    return SimpleNamespace(
        row_records=rows, headlines=rows[:headlines], objections=objections, rule=DEFAULT_RULE, other_settings=settings
    )


def changed(change: float, error: float = 0.005, **more: Any) -> FigureRow:
    """A change with its interval, of three runs a side."""
    ends = {"change_low": change - 2 * error, "change_high": change + 2 * error}
    p = 1e-4 if abs(change) > error else 0.9
    return figure_row(**{"change": change, "error": error, "p_holm": p, **ends, **more})


SLOWER, FASTER, SAME, UNSURE = changed(0.1), changed(-0.1), changed(0.0, 0.001), changed(0.02, 0.04, p_holm=0.3)
ANY, INCONCLUSIVE = Gate(), Gate(inconclusive=True)


@pytest.mark.parametrize(
    ("gate", "row", "result"),
    [
        (ANY, SLOWER, "failed"),
        (ANY, FASTER, "passed"),
        (ANY, SAME, "passed"),
        (ANY, UNSURE, "passed"),
        (INCONCLUSIVE, UNSURE, "inconclusive"),
        (INCONCLUSIVE, SAME, "passed"),
        (INCONCLUSIVE, SLOWER, "failed"),
        (Gate(threshold=0.15), SLOWER, "passed"),
        (Gate(threshold=0.05), SLOWER, "failed"),
        (Gate("step_time", 0.05, rises=True), SLOWER, "failed"),
        (Gate("step_time", 0.05, rises=False), SLOWER, "passed"),
        (Gate("step_time", 0.05, rises=False), FASTER, "failed"),
        (Gate("step_time median", 0.05, rises=True), SLOWER, "failed"),
        (Gate("step_time mean", 0.05, rises=True), SLOWER, "cannot judge"),
        (Gate("forward", 0.05, rises=True), SLOWER, "cannot judge"),
        (Gate("step_time", required=True), SLOWER, "passed"),
        (Gate("forward", required=True), SLOWER, "cannot judge"),
        (ANY, changed(0.1, math.nan), "cannot judge"),
        (ANY, changed(0.1, better="higher"), "passed"),
        (ANY, changed(0.1, better=None), "passed"),
        (Gate("step_time", 0.05, rises=True), changed(0.1, better=None), "failed"),
    ],
)
def test_the_result_of_a_gate(gate: Gate, row: FigureRow, result: str) -> None:
    (found,) = results(comparison(row), [gate])
    assert (found.result, found.gate, bool(found.reasons)) == (result, gate.text, result != "passed")
    code = {"passed": 0, "failed": 1, "inconclusive": 1, "cannot judge": CANNOT_JUDGE}[result]
    assert exit_code(failures(comparison(row), [gate])) == code


def test_the_reason_of_a_failure() -> None:
    assert results(comparison(SLOWER), [ANY])[0].reasons == ("side: step_time median: +10.0 %, at least +1.0 %",)
    of_value = changed(0.1, statistic="value")
    assert results(comparison(of_value), [Gate(threshold=0.05)])[0].reasons == (
        "side: step_time: +10.0 %, at least +5.0 %",
    )
    (missing,) = results(comparison(SLOWER, of_value), [Gate("forward")])
    assert missing.reasons == ("no metric `forward` on both sides; there are: step_time median, step_time",)
    (nothing,) = results(comparison(headlines=0), [ANY])
    assert nothing.reasons == (
        "no step time, rate or other metric of the whole run on both sides; there are: none",
    )  # fmt: skip


def test_a_value_that_is_nan_fails_the_gate_of_its_metric() -> None:
    row = changed(math.nan, math.nan, kind="value", metric="loss", side_value=math.nan)
    assert results(comparison(row), [Gate("loss")])[0].result == "failed"
    both = changed(math.nan, math.nan, kind="value", metric="loss", side_value=math.nan, base_value=math.nan)
    assert results(comparison(both), [Gate("loss")])[0].result == "cannot judge"
    assert results(comparison(row), [ANY])[0].result == "cannot judge"


def test_statistics_without_an_error_are_no_obstacle_to_others() -> None:
    total = changed(0.1, math.nan, statistic="total")
    assert results(comparison(SAME, total, headlines=2), [ANY])[0].result == "passed"
    assert results(comparison(SLOWER, total, headlines=2), [ANY])[0].reasons == (
        "side: step_time median: +10.0 %, at least +1.0 %",
    )
    other = changed(0.1, math.nan, side="c")  # another side cannot be judged all the same
    assert results(comparison(SAME, other, headlines=2), [ANY])[0].result == "cannot judge"


def test_what_speaks_against_a_comparison_closes_gates() -> None:
    """But for those that only ask for a metric."""
    closing = Objection("copy", "a copy", "of a.txt", "compare others")
    against = comparison(SAME, objections=(Objection(None, "", "a note"), closing))
    required = Gate("step_time", required=True)
    judged, asked = results(against, [ANY, required])
    assert (judged.result, asked.result) == ("cannot judge", "passed")
    assert judged.reasons == (closing.with_remedy,)
    assert failures(against, [required]) == []
    assert [failure.cause for failure in failures(against, [required, ANY])] == ["copy"]
    slower = comparison(SLOWER, objections=(closing,))
    assert results(slower, [ANY])[0].result == "failed"
    assert exit_code(failures(slower, [ANY])) == 1


def test_a_side_in_another_setting_is_not_judged() -> None:
    both = SLOWER, changed(0.1, side="c")
    assert len(results(comparison(*both, headlines=2), [ANY])[0].reasons) == 2
    (found,) = results(comparison(*both, headlines=2, other="c"), [ANY])
    assert [reason[:5] for reason in found.reasons] == ["side:"]


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        (Gate(), "regression"),
        (Gate(threshold=0.025), "regression:2.5%"),
        (Gate(inconclusive=True), "inconclusive"),
        (Gate("mfu", 0.05, rises=False), "mfu:-5%"),
        (Gate("loss", rises=True), "loss:+"),
        (Gate("loss", required=True), "--require loss"),
    ],
)
def test_a_gate_as_it_is_written(gate: Gate, text: str) -> None:
    assert gate.text == text


def test_a_change_counts_more_than_what_cannot_be_judged() -> None:
    cannot, change = GateFailure("cannot judge", ""), GateFailure("change", "")
    assert [exit_code(found) for found in ([], [cannot], [cannot, change], [change])] == [0, CANNOT_JUDGE, 1, 1]
