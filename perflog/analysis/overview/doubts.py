"""Doubts: the findings of the linter, each kind once, as an overview tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perflog.analysis.lint import RULES, SEVERITIES, Finding, Severity

_RATES, _TIMES, _PROFILE = ("TFLOP/s", "MFU"), ("step", "TFLOP/s", "MFU", "tokens/s"), ("GPU work", "API calls")
_FIGURES = {
    **dict.fromkeys(("nominal-work", "mfu-above-1", "backward-short"), _RATES),
    **dict.fromkeys(("drift", "few-steps", "steps-merged", "time-impossible"), ("step",)),
    **dict.fromkeys(("run-stopped", "no-success", "open-interval"), ("total",)),
    **dict.fromkeys(("trace-cut", "profiler-overhead"), ("trace",)),
    "time-subtracted": _TIMES,
    "profile-cut": _PROFILE,
    "first-call": ("API calls",),
}
"""Names of the figures of an overview that a finding is about, by its rule."""


@dataclass(frozen=True)
class Doubt:
    """All findings of one rule: what it finds, in which runs, and the sentence of the first of them.

    `figures`: names of the figures of an overview that it is about; empty if it is about none of them alone.
    """

    code: str
    severity: Severity
    title: str
    runs: tuple[str, ...]
    message: str
    figures: tuple[str, ...] = ()


def doubts(findings: Sequence[Finding]) -> list[Doubt]:
    """Return the findings by rule: the most severe first, then those of the most runs."""
    by_code: dict[str, list[Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    grouped = []
    for code, members in by_code.items():
        severity = min((f.severity or "note" for f in members), key=SEVERITIES.index)
        worst = next(f for f in members if (f.severity or "note") == severity)
        runs = tuple(dict.fromkeys(run for f in members for run in f.lines))
        grouped.append(Doubt(code, severity, RULES[code].title, runs, worst.message, _FIGURES.get(code, ())))
    return sorted(grouped, key=lambda doubt: (SEVERITIES.index(doubt.severity), -len(doubt.runs)))
