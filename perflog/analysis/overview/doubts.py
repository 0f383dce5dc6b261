"""Doubts: the findings of the linter, each kind once, as an overview tells them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from perflog.analysis.lint import RULES, SEVERITIES, Finding, LintRule, Severity
from perflog.analysis.lint.losses import DIVERGED
from perflog.grouping import grouped

_RATES, _TIMES, _PROFILE = (
    ("TFLOP/s", "MFU"),
    ("step", "TFLOP/s", "MFU", "tokens/s", "tokens/s/GPU"),
    ("GPU work", "API calls"),
)
_FIGURES = {
    **dict.fromkeys(("nominal-work", "mfu-above-1", "backward-short"), _RATES),
    **dict.fromkeys(("coarse-times", "drift", "few-steps", "steps-merged", "time-impossible"), ("step",)),
    **dict.fromkeys(("run-stopped", "no-success", "open-interval"), ("total", "elapsed")),
    **dict.fromkeys(("trace-cut", "profiler-overhead"), ("trace",)),
    "time-subtracted": _TIMES,
    "mfu-other-device": ("MFU",),
    "profile-cut": _PROFILE,
    "first-call": ("API calls",),
}
"""Names of the figures of an overview that a finding is about, by its rule."""


ENDED = "program-error"
"""Code of the rule on what ended a run."""


class Doubt(Struct, frozen=True):
    """All findings of one rule, the most severe first."""

    rule: LintRule
    findings: Sequence[Finding]

    @property
    def code(self) -> str:
        """Code of the rule."""
        return self.rule.code

    @property
    def title(self) -> str:
        """What the rule finds."""
        return self.rule.title

    @property
    def severity(self) -> Severity:
        """Severity of the first finding."""
        return self.findings[0].severity or self.rule.severity

    @property
    def message(self) -> str:
        """The sentence of the first finding."""
        return self.findings[0].message

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs with lines that prove a finding of its severity: in other runs it may be only a note."""
        return _runs(finding for finding in self.findings if (finding.severity or self.rule.severity) == self.severity)

    @property
    def runs_of_any_severity(self) -> tuple[str, ...]:
        """The runs with lines that prove a finding."""
        return _runs(self.findings)

    @property
    def is_outcome(self) -> bool:
        """Whether it has to be known before any metric."""
        return self.code in (DIVERGED, ENDED, "costly-warnings") and self.severity != "note"

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures of an overview that it is about; empty if it is about none of them alone."""
        return _FIGURES.get(self.code, ())


def doubts(findings: Sequence[Finding]) -> list[Doubt]:
    """Return the findings on perflog by rule: the most severe first, then by number of runs."""
    by_code = grouped((finding.code, finding) for finding in findings if not RULES[finding.code].for_other_tools)
    by_code = {code: _last_first(members) if code == ENDED else members for code, members in by_code.items()}
    found = [Doubt(RULES[code], sorted(members, key=_severity)) for code, members in by_code.items()]
    return sorted(found, key=lambda doubt: (SEVERITIES.index(doubt.severity), -len(doubt.runs)))


def _runs(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run for finding in findings for run in finding.lines))


def _last_first(endings: Sequence[Finding]) -> list[Finding]:
    """Return the ends of attempts, in each log from the last one: it ended the job.

    In files of ranks, the first line of an attempt may come before an earlier attempt.
    """
    attempts = ((finding.numbers.get("attempt", 1), place, finding) for place, finding in enumerate(endings))
    by_log = grouped((each[2].run.partition("-")[0], each) for each in attempts)
    in_order = (sorted(each, key=lambda attempt: attempt[:2], reverse=True) for each in by_log.values())
    return [finding for attempts_of_log in in_order for *_, finding in attempts_of_log]


def _severity(finding: Finding) -> int:
    """The sort key of findings: the most severe first."""
    return SEVERITIES.index(finding.severity or "note")
