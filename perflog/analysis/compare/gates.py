"""Gates: which results of a comparison fail a build; the outcome: what happened in one word, the exit code, reasons.

A gate closes where it cannot judge: a build without figures must not pass because nothing was compared. So each way in
which a gate can end has its own outcome.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.compare.baselines import MissingBaselineError, OtherSettingsError
from perflog.analysis.compare.comparison import NOTHING, Cause, Comparison, OneSided
from perflog.analysis.compare.figures import VALUE
from perflog.analysis.compare.result_rows import records
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.verdicts import GATE
from perflog.errors import NothingToCompareError, PerflogError
from perflog.grouping import grouped
from perflog.tables.schema import SCHEMA_VERSION
from perflog.units import first_few, show_change

CANNOT_JUDGE = 3
"""The exit code of a gate that cannot judge."""


class Gate(Struct, frozen=True):
    """A condition that fails a build.

    Attributes:
        metric: The metric that it is about, or one statistic of it (`step_time p99`); None: the headline metric.
        threshold: Least change that fails; None: the threshold of the comparison.
        rises: Whether a rise fails, or a fall; None: whichever is worse.
        inconclusive: Whether an inconclusive verdict fails too.
        required: Whether it only asks that the metric is on both sides.
    """

    metric: str | None = None
    threshold: float | None = None
    rises: bool | None = None
    inconclusive: bool = False
    required: bool = False

    @property
    def text(self) -> str:
        """The gate as the command line has it."""
        limit = "" if self.threshold is None else f"{100 * self.threshold:g}%"
        if self.required:
            return f"--require {self.metric}"
        if self.inconclusive:
            return "inconclusive"
        if self.metric is None:
            return "regression" + (f":{limit}" if limit else "")
        return f"{self.metric}:{'+' if self.rises else '-'}{limit}"


class GateFailure(Struct, frozen=True):
    """Why a gate fails: a change was found, or the gate cannot judge. `row` is None if there is none.

    `cause`: why it cannot judge; None where a change was found.
    """

    kind: Literal["change", "inconclusive", "cannot judge"]
    message: str
    row: FigureRow | None = None
    cause: Cause | None = None

    @property
    def text(self) -> str:
        """The message, after the side and the metric that it is about."""
        return f"{self.row.side}: {_names(self.row)[-1]}: {self.message}" if self.row else self.message


class GateResult(Struct, frozen=True):
    """The result of a gate: failed where a change was found; and the reasons, in words."""

    gate: str
    result: Literal["passed", "failed", "inconclusive", "cannot judge"]
    reasons: tuple[str, ...]


def results(comparison: Comparison, gates: Sequence[Gate]) -> list[GateResult]:
    """Return the result of each gate."""
    comparison_failures = _comparison_failures(comparison)
    return [
        _result(gate, [*_gate_failures(comparison, gate), *([] if gate.required else comparison_failures)])
        for gate in gates
    ]


def _result(gate: Gate, found: Sequence[GateFailure]) -> GateResult:
    kinds = {failure.kind for failure in found}
    result: Literal["passed", "failed", "inconclusive", "cannot judge"] = (
        "failed" if "change" in kinds
        else "inconclusive" if "inconclusive" in kinds
        else "cannot judge" if kinds else "passed"
    )  # fmt: skip
    return GateResult(gate.text, result, tuple(failure.text for failure in found))


def failures(comparison: Comparison, gates: Sequence[Gate]) -> list[GateFailure]:
    """Return what fails the gates, in their order; empty if they are passed."""
    return [
        *(_comparison_failures(comparison) if any(not gate.required for gate in gates) else ()),
        *(failure for gate in gates for failure in _gate_failures(comparison, gate)),
    ]


def exit_code(found: Sequence[GateFailure]) -> int:
    """Return the exit code: 0 where nothing fails, 1 where a change was found, 3 where no gate can judge."""
    if not found:
        return 0
    return CANNOT_JUDGE if all(failure.kind == "cannot judge" for failure in found) else 1


def _comparison_failures(comparison: Comparison) -> list[GateFailure]:
    """Why no gate can judge the sides."""
    return [_cannot(each.with_remedy, each.cause) for each in comparison.objections if each.cause is not None]


def _cannot(message: str, cause: Cause, row: FigureRow | None = None) -> GateFailure:
    return GateFailure("cannot judge", message, row, cause)


def _gate_failures(comparison: Comparison, gate: Gate) -> Iterator[GateFailure]:
    if gate.metric is None:
        rows = comparison.headlines
    else:
        rows = [row for row in comparison.row_records if gate.metric in _names(row)]
    if not rows:
        known = ", ".join(dict.fromkeys(_names(row)[-1] for row in comparison.row_records)) or "none"
        wanted = (
            "no step time, rate or other metric of the whole run"
            if gate.metric is None
            else f"no metric `{gate.metric}`"
        )
        yield _cannot(f"{wanted} on both sides; there are: {known}", "figure missing")
    if gate.required:
        return
    elsewhere = {(each.case, each.side) for each in comparison.other_settings}
    rows = [row for row in rows if (row.case, row.side) not in elsewhere]
    places = dict.fromkeys((row.case, row.side, row.metric) for row in rows)
    for place in places:
        side_rows = [row for row in rows if (row.case, row.side, row.metric) == place]
        results = [(row, _of_row(comparison, row, gate)) for row in side_rows]
        judged = [row for row, failure in results if failure is None or failure.kind != "cannot judge"]
        # A total without an error is no obstacle where the median and the mean are known.
        yield from (f for _, f in results if f is not None and not (f.kind == "cannot judge" and judged))


def _names(row: FigureRow) -> tuple[str, ...]:
    """The names of a row in a gate: its metric, and the metric with the statistic where a metric may have several."""
    metric, statistic = row.metric, row.statistic
    return (metric,) if statistic == VALUE else (metric, f"{metric} {statistic}")


def _of_row(comparison: Comparison, row: FigureRow, gate: Gate) -> GateFailure | None:
    if gate.metric is not None and math.isnan(row.side_value) and not math.isnan(row.base_value):
        return GateFailure("change", "it is NaN, which no value of the base is", row)
    threshold = comparison.rule.threshold if gate.threshold is None else gate.threshold
    better = row.better if gate.rises is None else "lower" if gate.rises else "higher"
    verdict = row.judged(replace(comparison.rule, threshold=threshold), better)
    if not row.has_error:
        return _cannot("; ".join(filter(None, (verdict.reason, verdict.advice))), "unknown error", row)
    if verdict.fails:
        return GateFailure("change", f"{show_change(row.change)}, at least {show_change(threshold)}", row)
    if gate.inconclusive and verdict.decision == "inconclusive":
        return GateFailure("inconclusive", f"{verdict.reason}; {verdict.advice}", row)
    return None


def with_gates(comparison: Comparison, gates: Sequence[Gate]) -> dict[str, object]:
    """Return a comparison and the results of its gates, ready for JSON."""
    return comparison.to_dict() | {"gates": records(results(comparison, gates))}


def without_result(error: str, gates: Sequence[Gate]) -> dict[str, object]:
    """Return the document for a comparison that could not be made, such as one without a baseline."""
    gate_results = [GateResult(gate.text, "cannot judge", (error,)) for gate in gates]
    return {"schema_version": SCHEMA_VERSION, "verdict": NOTHING, "error": error, "gates": records(gate_results)}


# --- the outcome in CI --------------------------------------------------------------------------------------------


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
    "diverged": "Such a run trains nothing, so its speed is not a result.",
    "figure missing": "A gate on a metric that is not printed would always pass. If it was removed on purpose, name it "
    "with --may-lack, or accept the new level with its reason.",
    "not read": "Nothing is known of a log that was not read, so the gate does not pass without it.",
}
"""What a reader has to know or do, by outcome."""

_CODES: Mapping[Kind, int] = {"passed": 0, "regression": 1, "inconclusive": 1}


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
        return f"cannot judge, {TITLES[self.kind]}" if self.code == CANNOT_JUDGE else TITLES[self.kind]

    @property
    def advice(self) -> str:
        """What to do; empty where nothing is."""
        return ADVICE.get(self.kind, "")

    def and_also(self, others: Sequence[tuple[Kind, str]]) -> Outcome:
        """Return the outcome with further reasons why the gate cannot judge. A gate that failed stays failed."""
        if not others:
            return self
        reasons = (*self.reasons, *(text for _, text in others))
        if self.code not in (0, CANNOT_JUDGE):
            return Outcome(self.kind, reasons, self.code)
        kinds = [kind for kind, _ in others] + ([self.kind] if self.code else [])
        return Outcome(min(kinds, key=list(TITLES).index), tuple(dict.fromkeys(reasons)), CANNOT_JUDGE)


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
    if failed := [failure for failure in found if failure.kind != "cannot judge"]:
        kind: Kind = "regression" if any(failure.kind == "change" for failure in failed) else "inconclusive"
        return Outcome(kind, _texts([*failed, *(f for f in found if f not in failed)]), _CODES[kind]).and_also(gone)
    causes = [failure.cause or "unknown error" for failure in found]
    reasons = (*_texts(found), *_endings(comparison))
    return Outcome(min(causes, key=list(TITLES).index), reasons, CANNOT_JUDGE).and_also(gone)


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
    return Outcome(kind, (reason,), CANNOT_JUDGE if kind != "error" else error.code)


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
    names = grouped(((each.case, each.side), each.metric) for each in gone)
    for (case, side), metrics in names.items():
        place = f" ({case})" if case else ""
        yield f"{side} does not print what all runs of the base print: {first_few(list(dict.fromkeys(metrics)))}{place}"


def _unsure(comparison: Comparison) -> Iterator[str]:
    """Yield what may be a change for the worse, and is not sure enough to fail a gate; of each case and side one."""
    for (case, side), row in comparison.deciding.items():
        if row.verdict == comparison.verdict and row.decision in ("regression", "inconclusive"):
            place = "" if comparison.is_pair else f"{case} {side}: "
            advice = f"; {row.advice}" if row.advice else ""
            yield f"{place}{row.verdict}: {row.metric} {show_change(row.change)}{advice}"


def sure_improvement(comparison: Comparison) -> str:
    """Return an improvement in words, if it is as sure as a regression that fails a gate; of one configuration."""
    if len(comparison.cases) > 1 or comparison.verdict != "improvement":
        return ""
    sure = GATE * (1 - comparison.rule.level)
    rows = [row for row in comparison.headlines if row.verdict == "improvement" and row.p_holm < sure]
    return f"improvement, {rows[0].metric} {show_change(rows[0].change)}" if rows else ""


def _texts(found: Sequence[GateFailure]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(failure.text for failure in found))
