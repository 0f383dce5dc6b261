"""The outcome of a gate in CI: one word for what happened, the exit code, the reasons, and what to do.

Each way in which a gate can end has its own outcome, so that nothing passes because nothing was compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from perflog.analysis.compare.baselines import MissingBaselineError, OtherSettingsError
from perflog.analysis.compare.comparison import Comparison, OneSided
from perflog.analysis.compare.gates import Cause, Gate, GateFailure, failures
from perflog.analysis.compare.headline import telling_rows
from perflog.analysis.compare.sides import first_few
from perflog.analysis.compare.verdicts import without_exploratory
from perflog.errors import NothingToCompareError, PerflogError
from perflog.units import show_change

Kind = Literal["passed", "regression", "inconclusive", "no baseline", "not read", Cause, "error"]

TITLES: Mapping[Kind, str] = {
    "passed": "passed",
    "regression": "a gate failed",
    "inconclusive": "inconclusive, which this gate does not let pass",
    "not read": "a log was not read",
    "ended early": "a run ended early",
    "diverged": "a loss or gradient norm is NaN or infinite",
    "other settings": "the setting differs from the base",
    "no baseline": "there is no baseline yet",
    "copy": "base and change are the same runs",
    "figure missing": "a metric is missing",
    "unknown error": "the run-to-run variation is unknown",
    "error": "perflog could not compare",
}
"""What happened, by outcome; of several reasons why a gate cannot judge, the first one here is the outcome."""

ADVICE: Mapping[Kind, str] = {
    "regression": "If the change is meant to be slower, merge it, then accept the new level with its reason.",
    "no baseline": "Runs of the main branch make the baseline. Until then the gate cannot judge, so it does not pass.",
    "other settings": "Run the change as the base was run. If the new setting is to stay, accept it with its reason.",
    "ended early": "The log ends before the run did what it announced, or far before the others: see what ended it.",
    "diverged": "Such a run trains nothing, so its speed is no result.",
    "figure missing": "A gate on a metric that is not printed would always pass. If it was removed on purpose, name it "
    "with --may-lack, or accept the new level with its reason.",
    "not read": "Nothing is known of a log that was not read, so the gate does not pass without it.",
}
"""What a reader has to know or do, by outcome."""

_CODES: Mapping[Kind, int] = {"passed": 0, "regression": 1, "inconclusive": 1}
_CANNOT_TELL = 3


class Outcome(Struct, frozen=True):
    """What became of a gate.

    Attributes:
        kind: What happened.
        reasons: Why, in words.
        code: The exit code: 0 passed, 1 a gate failed, 2 wrong usage, 3 the gate cannot judge.
        notes: What a reader should know where the gate passed: a change that it is not sure of.
    """

    kind: Kind
    reasons: tuple[str, ...] = ()
    code: int = 0
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What happened, in words."""
        return f"cannot judge, {TITLES[self.kind]}" if self.code == _CANNOT_TELL else TITLES[self.kind]

    @property
    def advice(self) -> str:
        """What to do; empty where nothing is."""
        return ADVICE.get(self.kind, "")

    def and_also(self, others: Sequence[tuple[Kind, str]]) -> Outcome:
        """Return the outcome with further reasons why the gate cannot judge. A gate that failed stays failed."""
        if not others:
            return self
        reasons = (*self.reasons, *(text for _, text in others))
        if self.code not in (0, _CANNOT_TELL):
            return Outcome(self.kind, reasons, self.code)
        kinds = [kind for kind, _ in others] + ([self.kind] if self.code else [])
        return Outcome(min(kinds, key=list(TITLES).index), tuple(dict.fromkeys(reasons)), _CANNOT_TELL)


def comparison_outcome(comparison: Comparison, gates: Sequence[Gate], may_lack: Collection[str] = ()) -> Outcome:
    """Return the outcome of a comparison.

    Args:
        comparison: The comparison.
        gates: The gates.
        may_lack: Metrics that the change need not have. Any other metric that all runs of the base have is missing
            where no run of the change has it.
    """
    found = failures(comparison, gates)
    gone: list[tuple[Kind, str]] = [
        ("figure missing", text) for text in _vanished_texts(vanished(comparison, may_lack))
    ]
    if not found:
        return Outcome("passed", notes=tuple(dict.fromkeys(_unsure(comparison)))).and_also(gone)
    failed = [failure for failure in found if failure.kind != "cannot judge"]
    if failed:
        kind: Kind = "regression" if any(failure.kind == "change" for failure in failed) else "inconclusive"
        return Outcome(kind, _texts([*failed, *(f for f in found if f not in failed)]), _CODES[kind]).and_also(gone)
    causes = [failure.cause or "unknown error" for failure in found]
    reasons = (*_texts(found), *_endings(comparison))
    return Outcome(min(causes, key=list(TITLES).index), reasons, _CANNOT_TELL).and_also(gone)


def _endings(comparison: Comparison) -> Iterator[str]:
    """Yield what ended the runs that ended early, as far as their logs show it."""
    cut = {each.run for each in comparison.cut_short}
    told: dict[tuple[str, str], int] = {}
    for finding in comparison.finding_records:
        if finding.code == "program-error" and finding.severity != "note" and finding.run in cut:
            place = finding.side or "", finding.message
            told[place] = told.get(place, 0) + 1
    yield from (f"{side}: {message}" + f" ({runs} runs)" * (runs > 1) for (side, message), runs in told.items())


def error_outcome(error: PerflogError) -> Outcome:
    """Return the outcome where there is no comparison."""
    kind: Kind = "error"
    if isinstance(error, OtherSettingsError):
        kind = "other settings"
    elif isinstance(error, MissingBaselineError):
        kind = "no baseline"
    elif isinstance(error, NothingToCompareError):
        kind = "figure missing"
    is_first = kind == "no baseline" and error.help.startswith("`perflog baseline")  # how to make one: the gate does
    reason = f"{error.where}: {error.reason}" if is_first else in_a_line(error)
    return Outcome(kind, (reason,), _CANNOT_TELL if kind != "error" else error.code)


def in_a_line(error: PerflogError) -> str:
    """Return an error with its remedy on one line."""
    return "; ".join(" ".join(part.split()) for part in str(error).split("\n") if part.strip())


def vanished(comparison: Comparison, may_lack: Collection[str] = ()) -> list[OneSided]:
    """Return the metrics that every run of the base has and no run of a side."""
    return [
        each
        for each in comparison.one_sided
        if each.on == "base" and each.runs == each.of and each.metric not in may_lack
    ]


def _vanished_texts(gone: Sequence[OneSided]) -> Iterator[str]:
    """Yield a sentence for each case and side."""
    names: dict[tuple[str, str], list[str]] = {}
    for each in gone:
        names.setdefault((each.case, each.side), []).append(each.metric)
    for (case, side), metrics in names.items():
        place = f" ({case})" if case else ""
        yield f"{side} does not print what all runs of the base print: {first_few(list(dict.fromkeys(metrics)))}{place}"


def _unsure(comparison: Comparison) -> Iterator[str]:
    """Yield what may be a change for the worse, and is not sure enough to fail a gate; of each case and side one."""
    places = set()
    for row in telling_rows(comparison.headlines):
        if row.verdict == comparison.verdict and without_exploratory(row.verdict) in ("regression", "inconclusive"):
            place = f"{row.case} {row.side}" if len(comparison.cases) > 1 or len(comparison.sides) > 2 else ""
            if place not in places:
                places.add(place)
                advice = f"; {row.advice}" if row.advice else ""
                yield f"{place}{': ' * bool(place)}{row.verdict}: {row.metric} {show_change(row.change)}{advice}"


def _texts(found: Sequence[GateFailure]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(failure.text for failure in found))
