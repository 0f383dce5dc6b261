"""Gates: what fails one, what it cannot judge, and the exit code."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from support.figure_rows import figure_row

from perflog.analysis.compare.baselines import MissingBaselineError
from perflog.analysis.compare.comparison import Objection, OneSided
from perflog.analysis.compare.gates import (
    CANNOT_JUDGE,
    Gate,
    GateFailure,
    Outcome,
    comparison_outcome,
    error_outcome,
    exit_code,
    failures,
    results,
    sure_improvement,
    vanished,
)
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.verdicts import DEFAULT_RULE
from perflog.errors import NothingToCompareError, UsageError


def comparison(
    *rows: FigureRow, headlines: int = 1, objections: tuple[Objection, ...] = (), other: str = "", **more: Any
) -> Any:
    """A comparison with these rows; the first ones are the headline. `other`: a side that ran in another setting."""
    settings = [SimpleNamespace(case="", side=other)] if other else []
    usual = {
        "row_records": rows, "headlines": rows[:headlines], "objections": objections, "rule": DEFAULT_RULE,
        "other_settings": settings, "one_sided": [], "cut_short": [], "finding_records": [], "is_pair": True,
        "deciding": {("", row.side): row for row in rows[:1]}, "verdict": rows[0].verdict if rows else "",
        "cases": [""],
    }  # fmt: skip
    return SimpleNamespace(**(usual | more))


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


# --- outcomes ---------------------------------------------------------------------------------------------------------


def test_the_outcome_of_a_comparison() -> None:
    passed = comparison_outcome(comparison(changed(0.0, 0.001, verdict="equivalent")), [ANY])
    assert (passed.kind, passed.code, passed.reasons, passed.notes) == ("passed", 0, (), ())
    failed = comparison_outcome(comparison(SLOWER), [ANY, ANY])
    assert (failed.kind, failed.code) == ("regression", 1)
    assert failed.reasons == ("side: step_time median: +10.0 %, at least +1.0 %",)  # once, of two gates
    unsure = comparison_outcome(comparison(UNSURE), [INCONCLUSIVE])
    assert (unsure.kind, unsure.code) == ("inconclusive", 1)
    both = comparison_outcome(comparison(UNSURE, changed(0.1, side="c"), headlines=2), [INCONCLUSIVE])
    assert both.kind == "regression" and len(both.reasons) == 2


def test_a_change_that_is_not_sure_is_a_note() -> None:
    unsure = changed(0.02, 0.04, p_holm=0.3, verdict="inconclusive", advice="more runs")
    assert comparison_outcome(comparison(unsure), [ANY]).notes == ("inconclusive: step_time +2.0 %; more runs",)
    several = comparison(unsure, is_pair=False, deciding={("a case", "b"): unsure})
    assert comparison_outcome(several, [ANY]).notes == ("a case b: inconclusive: step_time +2.0 %; more runs",)
    other = comparison(unsure, verdict="regression")  # another row decided
    assert comparison_outcome(other, [ANY]).notes == ()


def test_what_ended_the_runs_is_a_reason_where_a_gate_cannot_judge() -> None:
    ended = [SimpleNamespace(code="program-error", severity=severity, run=run, side="b", message="Ended by a signal")
             for run, severity in (("r", "warning"), ("s", "warning"), ("t", "warning"), ("r", "note"))]  # fmt: skip
    cut = [SimpleNamespace(run=run) for run in "rs"]
    against = comparison(SAME, objections=(Objection("ended early", "", "b ended early"),), cut_short=cut,
                         finding_records=ended)  # fmt: skip
    outcome = comparison_outcome(against, [ANY])
    assert (outcome.kind, outcome.code) == ("ended early", CANNOT_JUDGE)
    assert outcome.reasons[-1] == "b: Ended by a signal (2 runs)"
    assert outcome.title.startswith("cannot judge, ")


GONE = OneSided("", "b", "step", "mfu", "base", 3, 3)


def test_metrics_that_a_side_has_no_more() -> None:
    one_sided = [
        GONE,
        OneSided("", "b", "step", "loss", "base", 2, 3),  # not all runs of the base have it
        OneSided("", "b", "step", "tflops", "side", 3, 3),
        OneSided("x", "b", "step", "mfu", "base", 3, 3),
    ]
    without = comparison(SAME, one_sided=one_sided)
    assert vanished(without) == [one_sided[0], one_sided[3]] and vanished(without, ["mfu"]) == []
    outcome = comparison_outcome(without, [ANY])
    assert (outcome.kind, outcome.code) == ("figure missing", CANNOT_JUDGE)
    assert outcome.reasons == (
        "b does not print what all runs of the base print: mfu",
        "b does not print what all runs of the base print: mfu (x)",
    )
    assert comparison_outcome(without, [ANY], ["mfu"]).kind == "passed"
    slower = comparison_outcome(comparison(SLOWER, one_sided=one_sided[:1]), [ANY])
    assert (slower.kind, slower.code, len(slower.reasons)) == ("regression", 1, 2)


def test_further_reasons_of_an_outcome() -> None:
    passed, failed = Outcome("passed"), Outcome("regression", ("slower",), 1)
    assert passed.and_also([]) is passed
    assert failed.and_also([("copy", "a copy")]) == Outcome("regression", ("slower", "a copy"), 1)
    cannot = Outcome("unknown error", ("one value",), CANNOT_JUDGE)
    assert cannot.and_also([("copy", "a copy"), ("copy", "one value")]).reasons == ("one value", "a copy")
    assert cannot.and_also([("copy", "a copy")]).kind == passed.and_also([("copy", "a copy")]).kind == "copy"


@pytest.mark.parametrize(("p", "verdict", "sure"), [(0.0099, "improvement", True), (0.0101, "improvement", False),
                                                    (0.0001, "regression", False)])  # fmt: skip
def test_a_sure_improvement(p: float, verdict: str, sure: bool) -> None:
    row = changed(-0.1, p_holm=p, verdict=verdict)
    assert sure_improvement(comparison(row)) == ("improvement, step_time -10.0 %" if sure else "")
    assert sure_improvement(comparison(row, cases=["a", "b"])) == ""


def test_the_outcome_without_a_comparison() -> None:
    assert error_outcome(NothingToCompareError("no\nsteps")).kind == "figure missing"
    missing = error_outcome(MissingBaselineError("none", "x.txt"))
    assert (missing.kind, missing.code) == ("no baseline", CANNOT_JUDGE)
    wrong = error_outcome(UsageError("what"))
    assert (wrong.kind, wrong.code, wrong.reasons) == ("error", UsageError("what").code, ("what",))


def test_titles_of_outcomes() -> None:
    assert Outcome("regression", code=1).title == "a gate failed"
    assert Outcome("no baseline", code=CANNOT_JUDGE).title == "cannot judge, there is no baseline yet"
