"""The verdict on a difference in words: regression, improvement, equivalent, inconclusive; its reason; the gate.

`decide` judges one row, `headline.deciding_row` the statistics of one side, `Comparison.verdict` and
`Comparison.objections` the whole comparison, and `gates` a build. All other modules print their words.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from perflog.metrics.directions import Better, direction
from perflog.statistics.effects import Effect, change_of
from perflog.statistics.students_t import t_quantile
from perflog.units import show

TESTED = 4
"""Runs per side from which a rank test can reach p < 0.05: 2 of C(8, 4) arrangements give p = 0.029."""

OTHER_SETTING = "not the same setting"
"""The verdict on sides that ran on other devices, on another number of ranks, or another model."""

NOT_COMPARABLE = "not comparable"
"""The verdict where two values have no ratio, or where the loss of a side is not finite."""

_SEVERITY = ("regression", OTHER_SETTING, NOT_COMPARABLE, "inconclusive", "different", "improvement", "equivalent")
"""Verdicts without `exploratory`, the most severe first: of several cases and sides, this one counts."""

CHANGES = ("regression", "improvement", "different")
"""Verdicts that report a change: a statistic without a change does not cancel the change that another one shows."""

GATE = 0.2
"""The gate asks for a p this much smaller than a verdict does: a build that fails for nothing costs trust."""

GATE_OF_TWO = 0.02
"""The same by t with one degree of freedom, where two runs of a side have one number each. Times to
convergence, for example, take few values, so that two of them agree by chance: see docs/study.md."""

SINGLE = 0.05
"""Least change, over its whole interval, that fails a gate with one run a side: runs of one program differ by percents,
and a single one does not show it."""

LONE_SESSIONS = 0.02
"""Least change, over its whole interval, that fails a gate where the sides ran in different sessions and nothing shows
the variation between sessions. Days and hosts of speed runs differ by 0.6 % (standard deviation)."""

_EXPLORATORY = "exploratory "
_POWER = 0.9  # of the number of runs that a reason names
_MOST_RUNS = 100


class VerdictRule(Struct, frozen=True):
    """The limits of a verdict.

    `threshold`: least change of a regression or improvement; a change that surely is smaller is equivalent. `level` of
    the intervals. `draws` of the bootstrap inside single runs, and its `seed`.
    """

    threshold: float = 0.01
    level: float = 0.95
    draws: int = 4000
    seed: int = 0

    @property
    def margin(self) -> float:
        """The threshold on the scale of effects, the same in both directions."""
        return math.log1p(self.threshold)


DEFAULT_RULE = VerdictRule()


class Verdict(Struct, frozen=True):
    """A verdict in words, the reason, whether it fails a gate on regressions, and what would decide or confirm it."""

    words: str
    reason: str
    fails: bool = False
    advice: str = ""

    @property
    def decision(self) -> str:
        """The words without `exploratory`."""
        return without_exploratory(self.words)


class Evidence(Struct, frozen=True):
    """What an effect rests on.

    Attributes:
        runs: Number of runs of the base and of the side.
        interval: The confidence interval of the shift, at the level of the rule.
        scope: What the error was estimated from: "runs", "steps" within one run per side, or "history".
        few_values: Whether each run has one number that may take few values, as a time to convergence does.
        sessions: Whether the sides ran in the "same" sessions; if not, whether the error includes the variation
            between sessions: "held" or "left out"; None: unknown.
    """

    runs: tuple[int, int]
    interval: tuple[float, float]
    scope: str = "runs"
    few_values: bool = False
    sessions: str | None = None

    @property
    def within(self) -> bool:
        """Whether the error was estimated only from the steps of one run per side."""
        return self.scope == "steps"

    @property
    def two_numbers(self) -> bool:
        """Whether a side is known by two numbers only."""
        return self.few_values and 2 in self.runs


def decide(effect: Effect, better: Better | None, p: float, evidence: Evidence, rule: VerdictRule) -> Verdict:
    """Return the verdict on an effect.

    Regression or improvement: p is below 1 - level and the change reaches the threshold. Equivalent: it surely is
    smaller than the threshold, in both directions. With one run on each side both are `exploratory`, because the
    run-to-run variation is unknown, unless the history of these runs shows it.

    Args:
        effect: The shift from base to side, with its error.
        better: "lower", "higher", or None where nobody knows; then a change is `different`.
        p: The smaller p of the effect and of a rank test, if there is one, adjusted for the number of comparisons.
        evidence: What the effect rests on.
        rule: The limits.
    """
    if math.isnan(effect.shift):
        return Verdict(NOT_COMPARABLE, "a value is not finite, or not above 0, so there is no ratio")
    if not effect.known:
        advice = "a second run per side would show the run-to-run variation"
        return Verdict("inconclusive", "one value per side, so its error is unknown", advice=advice)
    prefix, advice = (_EXPLORATORY, _advice_on_second_run(effect, rule)) if evidence.within else ("", "")
    limit, alpha = show(rule.threshold, "1"), 1 - rule.level
    if effect.p_outside(rule.margin) < alpha or max(map(abs, evidence.interval)) < rule.margin:
        return Verdict(f"{prefix}equivalent", f"the change is surely smaller than {limit}", advice=advice)
    p_text = f"p = {show(p, '', 2)}" + " by a rank test, which outliers hardly affect" * (p < alpha <= effect.p())
    if evidence.within and effect.error == 0:
        p_text = "the steps show no scatter, so the error is unknown"
    if p < alpha and abs(effect.shift) >= rule.margin:
        words = direction(effect.shift, better)
        sure = _is_sure(effect, p, evidence, rule)
        if evidence.two_numbers and not sure:
            advice = "two values may agree by chance: a gate fails only with a third run per side"
        elif words == "regression" and not (sure or evidence.within):
            advice = _why_a_gate_passes(p, alpha)
        fails = words == "regression" and sure
        return Verdict(prefix + words, f"{p_text}, and the change is at least {limit}", fails, advice)
    reason = p_text + (f", but the change may be smaller than {limit}" if p < alpha else "")
    return Verdict("inconclusive", reason, advice=_what_would_decide(effect, evidence, rule))


def _is_sure(effect: Effect, p: float, evidence: Evidence, rule: VerdictRule) -> bool:
    """Whether a regression fails a gate: between runs by a small p; of single runs if the whole interval is large."""
    if evidence.within:
        return min(map(abs, effect.interval(rule.level))) >= max(rule.margin, math.log1p(SINGLE))
    alpha = 1 - rule.level
    if evidence.sessions == "left out" and min(map(abs, evidence.interval)) < math.log1p(LONE_SESSIONS):
        return False
    if evidence.two_numbers and replace(effect, freedom=1.0).p() >= GATE_OF_TWO * alpha:
        return False
    return p < GATE * alpha


def _why_a_gate_passes(p: float, alpha: float) -> str:
    """Return why a gate passes a regression between runs, and what would confirm it."""
    if p >= GATE * alpha:
        return f"a gate passes, as p is not below {show(GATE * alpha, '', 2)}: more runs would confirm it"
    limit = show(LONE_SESSIONS, "1")
    return (
        f"a gate passes, as the variation between sessions is unknown, and the change may be below {limit}: "
        "runs of both sides in turns would confirm it"
    )


def _what_would_decide(effect: Effect, evidence: Evidence, rule: VerdictRule) -> str:
    """Return the number of runs per side that would show the difference, or that there is none.

    Of single runs it is the least number: the variation between runs comes on top of that within them. Two never do:
    a change that the steps do not show is below 2 errors, and two runs show only one above 4.3.
    """
    if evidence.sessions == "held":
        return "run both sides in turns, in one session: the variation between sessions then cancels"
    runs = evidence.runs
    deviation = effect.error / math.sqrt(1 / runs[0] + 1 / runs[1])
    distance = abs(effect.shift)
    to_show = _runs_needed(deviation, distance, 0.5 + rule.level / 2) if distance >= rule.margin else math.inf
    to_exclude = _runs_needed(deviation, rule.margin - distance, rule.level) if distance < rule.margin else math.inf
    needed = max(min(to_show, to_exclude), max(runs) + 1)
    if needed > _MOST_RUNS:
        return f"it would take more than {_MOST_RUNS} runs per side to decide: the runs vary too much"
    return f"it would take {'at least' if evidence.within else 'about'} {needed:.0f} runs per side to decide"


def _advice_on_second_run(effect: Effect, rule: VerdictRule) -> str:
    """Return the largest run-to-run variation at which two runs per side decide; their t has 2 degrees of freedom."""
    distance = abs(effect.shift)
    if distance >= rule.margin:
        most, then = distance / t_quantile(0.5 + rule.level / 2, 2), "this change is significant"
    else:
        most, then = (rule.margin - distance) / t_quantile(rule.level, 2), "a change can be excluded"
    return f"with two runs per side, {then} if runs vary by less than {show(change_of(most), '1', 2)}"


def _runs_needed(deviation: float, distance: float, level: float) -> float:
    """Return the runs per side at which a true shift of `distance` is found nine times in ten."""
    if distance <= 0:
        return math.inf
    runs = 2.0
    while runs <= _MOST_RUNS:
        reach = t_quantile(level, 2 * runs - 2) + t_quantile(_POWER, 2 * runs - 2)
        if reach * deviation * math.sqrt(2 / runs) <= distance:
            return runs
        runs += 1
    return math.inf


def severity(words: str) -> int:
    """Return the place of a verdict among the others, the most severe first."""
    return _SEVERITY.index(without_exploratory(words))


def without_exploratory(words: str) -> str:
    """Return a verdict without the word `exploratory`."""
    return words.removeprefix(_EXPLORATORY)
