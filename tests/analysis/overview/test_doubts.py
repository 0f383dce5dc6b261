"""Findings of the linter by rule, as an overview shows them."""

from __future__ import annotations

from typing import Any

import pytest

from perflog.analysis.lint import Finding
from perflog.analysis.overview.doubts import ENDED, doubts


def finding(
    code: str, run: str = "a-1", severity: Any = "warning", message: str = "m", *others: str, **numbers: Any
) -> Finding:
    return Finding(run, message, {each: [1] for each in (run, *others)}, numbers, severity=severity, code=code)


def test_the_most_severe_first_then_by_number_of_runs() -> None:
    found = doubts([
        finding("drift", "a-1", "note"), finding("few-steps", "a-1", "warning"), finding("drift", "b-1", "note"),
        finding("outliers", "a-1", "note"), finding("coarse-times", "a-1", "error"),
        finding("warm-up", "a-1", "note", "m", "b-1", "c-1"),
    ])  # fmt: skip
    assert [each.code for each in found] == ["coarse-times", "few-steps", "warm-up", "drift", "outliers"]
    assert [each.runs for each in found[2:]] == [("a-1", "b-1", "c-1"), ("a-1", "b-1"), ("a-1",)]
    assert [each.severity for each in found] == ["error", "warning", "note", "note", "note"]


def test_of_a_rule_the_most_severe_finding_speaks() -> None:
    first, second = finding("drift", "a-1", "note", "first"), finding("drift", "b-1", "error", "second")
    (doubt,) = doubts([first, finding("drift", "c-1", None, "third"), second])
    assert [each.message for each in doubt.findings] == ["second", "first", "third"]
    assert (doubt.message, doubt.severity, doubt.runs) == ("second", "error", ("b-1",))
    assert doubt.runs_of_any_severity == ("b-1", "a-1", "c-1")
    assert doubt.title == doubt.rule.title
    (alike,) = doubts([finding("drift", "a-1", "note", "first"), finding("drift", "a-2", "note", "second")])
    assert [each.message for each in alike.findings] == ["first", "second"]


def test_the_last_attempt_ended_the_job() -> None:
    ends = [finding(ENDED, run, "error", run) for run in ("a-1", "a-2", "b-1", "b-2")]
    (doubt,) = doubts(ends)
    assert [each.message for each in doubt.findings] == ["a-2", "a-1", "b-2", "b-1"]
    (doubt,) = doubts([finding(ENDED, "a-1", "error", "late", attempt=2), finding(ENDED, "a-1", "error", "early")])
    assert [each.message for each in doubt.findings] == ["late", "early"]


@pytest.mark.parametrize(
    ("code", "severity", "is_outcome"),
    [
        ("diverged", "warning", True), ("diverged", "note", False), (ENDED, "error", True),
        ("costly-warnings", "warning", True), ("drift", "error", False),
    ],
)  # fmt: skip
def test_what_has_to_be_known_before_any_metric(code: str, severity: str, is_outcome: bool) -> None:
    (doubt,) = doubts([finding(code, severity=severity)])
    assert doubt.is_outcome == is_outcome


@pytest.mark.parametrize(
    ("code", "figures"),
    [
        ("nominal-work", ("TFLOP/s", "MFU")),
        ("drift", ("step",)),
        ("run-stopped", ("total", "elapsed")),
        ("unread-lines", ()),
    ],
)
def test_the_figures_that_a_finding_is_about(code: str, figures: tuple[str, ...]) -> None:
    (doubt,) = doubts([finding(code)])
    assert doubt.figures == figures
