"""Gates: which results of a comparison fail a build.

A gate closes where it cannot judge: a build without figures must not pass because nothing was compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from perflog.analysis.compare.comparison import Comparison, percent
from perflog.analysis.compare.figures import VALUE
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.verdicts import OTHER_SETTING, Evidence, decide, without_exploratory
from perflog.statistics.effects import Effect, shift_of


class Gate(Struct, frozen=True):
    """A condition that fails a build.

    Attributes:
        metric: The metric that it is about, or one figure of it (`step_time p99`); None: that of the verdict.
        threshold: Least change that fails; None: that of the comparison.
        rises: Whether a rise fails, or a fall; None: whichever is worse.
        inconclusive: Whether an inconclusive verdict fails too.
    """

    metric: str | None = None
    threshold: float | None = None
    rises: bool | None = None
    inconclusive: bool = False


class GateFailure(Struct, frozen=True):
    """Why a gate fails: a change was found, or the gate cannot judge. `row` is None where there is no figure."""

    kind: Literal["change", "inconclusive", "cannot judge"]
    message: str
    row: FigureRow | None = None


def failures(comparison: Comparison, gates: Sequence[Gate]) -> list[GateFailure]:
    """Return what fails the gates, in their order; empty if they are passed."""
    diverged = [
        GateFailure("cannot judge", f"{message} in {side}, whose speed is no result")
        for side, message in comparison.diverged.items()
        if side != comparison.sides[0]
    ]
    asked = " ".join(dict.fromkeys(f"--ignore {each.setting}" for each in comparison.other_settings))
    told = f"{OTHER_SETTING}: {', '.join(comparison.told_settings)}; {asked} judges all the same"
    elsewhere = [GateFailure("cannot judge", told)] if comparison.other_settings else []
    elsewhere += [GateFailure("cannot judge", comparison.ended_early)] if comparison.cut_short else []
    return [
        *([*elsewhere, *diverged] if gates else ()),
        *(failure for gate in gates for failure in _of_gate(comparison, gate)),
    ]


def _of_gate(comparison: Comparison, gate: Gate) -> Iterator[GateFailure]:
    if gate.metric is None:
        rows = comparison.headlines
    else:
        rows = [row for row in comparison.row_records if gate.metric in _names(row)]
    if not rows:
        known = ", ".join(dict.fromkeys(_names(row)[-1] for row in comparison.row_records)) or "none"
        wanted = (
            "no step time, rate or other figure of the whole run"
            if gate.metric is None
            else f"no figure `{gate.metric}`"
        )
        yield GateFailure("cannot judge", f"{wanted} on both sides; there are: {known}")
    elsewhere = {(each.case, each.side) for each in comparison.other_settings}
    rows = [row for row in rows if (row.case, row.side) not in elsewhere]
    places = dict.fromkeys((row.case, row.side, row.metric) for row in rows)
    for place in places:
        of_place = [row for row in rows if (row.case, row.side, row.metric) == place]
        results = [(row, _of_row(comparison, row, gate)) for row in of_place]
        judged = [row for row, failure in results if failure is None or failure.kind != "cannot judge"]
        # A total without an error is no obstacle where the median and the mean are known.
        yield from (f for _, f in results if f is not None and not (f.kind == "cannot judge" and judged))


def _names(row: FigureRow) -> tuple[str, ...]:
    """The names of a row in a gate: its metric, and the metric with the statistic where a metric may have several."""
    metric, statistic = row.metric, row.statistic
    return (metric,) if statistic == VALUE else (metric, f"{metric} {statistic}")


def _of_row(comparison: Comparison, row: FigureRow, gate: Gate) -> GateFailure | None:
    threshold = comparison.rule.threshold if gate.threshold is None else gate.threshold
    better = row.better if gate.rises is None else "lower" if gate.rises else "higher"
    shift, low, high = map(shift_of, (row.change, row.change_low, row.change_high))
    effect = Effect(shift, row.error, row.freedom)
    rule = replace(comparison.rule, threshold=threshold)
    evidence = Evidence((row.base_runs, row.side_runs), (low, high), row.scope, row.few_values)
    verdict = decide(effect, better, row.p_holm, evidence, rule)
    if not effect.known:
        return GateFailure("cannot judge", "; ".join(filter(None, (verdict.reason, verdict.advice))), row)
    if verdict.fails:
        return GateFailure("change", f"{percent(row.change)}, at least {percent(threshold)}", row)
    if gate.inconclusive and without_exploratory(verdict.words) == "inconclusive":
        return GateFailure("inconclusive", f"{verdict.reason}; {verdict.advice}", row)
    return None
