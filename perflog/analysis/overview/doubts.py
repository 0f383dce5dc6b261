"""Doubts: the findings of the linter, each kind once, as an overview tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perflog.analysis.lint import RULES, SEVERITIES, Finding, Severity


@dataclass(frozen=True)
class Doubt:
    """All findings of one rule: what it finds, in which runs, and the sentence of the first of them."""

    code: str
    severity: Severity
    title: str
    runs: tuple[str, ...]
    message: str


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
        grouped.append(Doubt(code, severity, RULES[code].title, runs, worst.message))
    return sorted(grouped, key=lambda doubt: (SEVERITIES.index(doubt.severity), -len(doubt.runs)))
