"""Gates: which results of a comparison fail a build.

A gate closes where it cannot judge: a build without figures must not pass because nothing was compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.compare.comparison import NOTHING, Comparison
from perflog.analysis.compare.figures import VALUE
from perflog.analysis.compare.result_rows import records
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.verdicts import OTHER_SETTING, Evidence, decide, without_exploratory
from perflog.statistics.effects import Effect, shift_of
from perflog.tables.schema import SCHEMA_VERSION
from perflog.units import show_change


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


Cause = Literal["other settings", "ended early", "diverged", "copy", "figure missing", "unknown error"]
"""Why a gate cannot judge."""


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


def _comparison_failures(comparison: Comparison) -> list[GateFailure]:
    """Why no gate can judge the sides."""
    diverged = [
        _cannot(f"{message} in {side}, so its speed is no result", "diverged")
        for side, message in comparison.diverged.items()
        if side != comparison.sides[0]
    ]
    asked = " ".join(dict.fromkeys(f"--ignore {each.setting}" for each in comparison.other_settings))
    message = f"{OTHER_SETTING}: {', '.join(comparison.setting_words)}; {asked} judges the change anyway"
    elsewhere = [_cannot(message, "other settings")] if comparison.other_settings else []
    elsewhere += [_cannot(comparison.ended_early, "ended early")] if comparison.cut_short else []
    elsewhere += [_cannot(each.text, each.end) for each in comparison.failed if each.side != comparison.sides[0]]
    elsewhere += [_cannot(text, "figure missing") for text in comparison.mute]
    elsewhere += [
        _cannot(f"{side} has the runs of {comparison.sides[0]}: a copy is compared with itself", "copy")
        for side in comparison.copies
    ]
    return [*elsewhere, *diverged]


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
    shift, low, high = map(shift_of, (row.change, row.change_low, row.change_high))
    effect = Effect(shift, row.error, row.freedom)
    rule = replace(comparison.rule, threshold=threshold)
    evidence = Evidence((row.base_runs, row.side_runs), (low, high), row.scope, row.few_values, row.sessions)
    verdict = decide(effect, better, row.p_holm, evidence, rule)
    if not effect.known:
        return _cannot("; ".join(filter(None, (verdict.reason, verdict.advice))), "unknown error", row)
    if verdict.fails:
        return GateFailure("change", f"{show_change(row.change)}, at least {show_change(threshold)}", row)
    if gate.inconclusive and without_exploratory(verdict.words) == "inconclusive":
        return GateFailure("inconclusive", f"{verdict.reason}; {verdict.advice}", row)
    return None


def with_gates(comparison: Comparison, gates: Sequence[Gate]) -> dict[str, Any]:
    """Return a comparison and the results of its gates, ready for JSON."""
    return comparison.to_dict() | {"gates": records(results(comparison, gates))}


def without_result(error: str, gates: Sequence[Gate]) -> dict[str, Any]:
    """Return the document for a comparison that could not be made, such as one without a baseline."""
    gate_results = [GateResult(gate.text, "cannot judge", (error,)) for gate in gates]
    return {"schema_version": SCHEMA_VERSION, "verdict": NOTHING, "error": error, "gates": records(gate_results)}
