"""A comparison: what `perflog.compare` finds, as tables, as a verdict in words, and what speaks against it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from perflog.analysis.compare import findings, rows
from perflog.analysis.compare.explanations import attribution, averages, operators, speed_changes, warmup_costs
from perflog.analysis.compare.explanations.cause_changes import CauseChange
from perflog.analysis.compare.headline import (
    BestSide,
    deciding_row,
    headline_rows,
    telling_rows,
)
from perflog.analysis.compare.left_out import (
    CutShort,
    FailedRun,
)
from perflog.analysis.compare.result_rows import records
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.side_settings import DifferingSetting, OtherSetting, VariedSetting
from perflog.analysis.compare.sides import Case, LeftOut
from perflog.analysis.compare.verdicts import (
    NOT_COMPARABLE,
    OTHER_SETTING,
    VerdictRule,
    severity,
)
from perflog.analysis.lint import RULES
from perflog.analysis.lint.losses import DIVERGED
from perflog.grouping import grouped
from perflog.metrics import MetricColumn
from perflog.providers import provider
from perflog.tables.nulls import nullable_frame
from perflog.tables.schema import SCHEMA_VERSION
from perflog.units import count, first_few, show, show_change

if TYPE_CHECKING:
    import pandas as pd


SUMMARY_KINDS = ("target", "step", "run", "device", "memory", "summary", "load", "value")
"""Kinds of rows that the screen shows. Phases, layers, ranges, kernels and so on can have thousands."""

NOTHING = "nothing to compare"
"""The verdict where the sides have no metric in common."""

OTHER_WORK = "not the same work"
"""What is wrong with sides that do other things in a step, or train nothing."""

_REASONS = 4  # that the conclusion names
_TEXT_ROWS = 20  # of `str(comparison)`
_NAME = 60  # characters of a name in it: the name of a kernel can have thousands


class GeometricMean(Struct, frozen=True):
    """The mean change of a headline metric over the cases of a side."""

    metric: str
    statistic: str
    side: str
    cases: int
    change: float


class OneSided(Struct, frozen=True):
    """A metric that only one of two sides has: `on` is base or side. `runs` of the `of` runs of that side have it."""

    case: str
    side: str
    kind: str
    metric: str
    on: str
    runs: int
    of: int


Cause = Literal["other settings", "ended early", "diverged", "copy", "figure missing", "unknown error"]
"""Why a gate cannot judge."""


class Objection(Struct, frozen=True):
    """What speaks against a comparison.

    Attributes:
        cause: Why a gate cannot judge; None if it can in spite of this.
        head: What is wrong, in words; empty if `what` says it.
        what: The details.
        remedy: What lets a gate judge in spite of this; empty if nothing does.
    """

    cause: Cause | None
    head: str
    what: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """The objection in words: `not the same setting: world_size 8 and 16`."""
        return f"{self.head}: {self.what}" if self.head else self.what

    @property
    def with_remedy(self) -> str:
        """The objection in words, then the remedy."""
        return f"{self.text} ({self.remedy})" if self.remedy else self.text

    @property
    def sentence(self) -> str:
        """The objection and the remedy as a sentence."""
        words = self.with_remedy
        return f"{words[0].upper()}{words[1:]}." if self.head else f"{words}."


class Comparison(Struct, frozen=True, dict=True):
    """The result of `perflog.compare`. Values are in base units; missing values are null.

    Its tables are DataFrames: `rows`, `settings`, `varied`, `attribution`, `operators`, `summaries`, `warmups`,
    `speed_changes`, `findings`. The same rows, typed, are in `row_records` and so on.

    Attributes:
        sides: Names of the sides, base first.
        cases: Configurations that the sides share, with the run ids of each side.
        warmup: Number of steps cut at the start of all runs, by case.
        rule: The limits of the verdicts.
        warnings: Runs that were not compared, and warnings of the logs.
        best: The best of three sides or more, by case.
        by: The settings that split the runs into sides; empty if the sides were named.
        result: The metric that the formats of all logs declare as the result of a run; None if a run ended early.
        is_limited_by_clients: `result` is a latency, since the rate of requests of clients is the limit in all runs.
        by_values: The runs print neither times nor rates, so a value that they print by name, such as a loss, leads.
        to_targets: The verdict is about the time until series reach values that the reader named.
        other_settings: Where a side ran on other devices, another number of ranks or another model than the base; the
            settings that the reader asked about are not among them.
        left_out: Runs of the sides that are not compared, and why.
        cut_short: Runs that ended early; of the others only the steps are compared that these print too.
        failed: Runs of the sides that failed and have no value of the headline metric, if any.
        copies: Sides that have only runs of the base, or runs that print the same.
        one_sided: Metrics of the whole run, or of its steps, that the base or the side lacks.
        without_headline: Compared runs without a value of the headline metric.
        find_causes: Returns `causes`. They take longer than all else, and few readers ask for them.
    """

    sides: tuple[str, ...]
    cases: tuple[Case, ...]
    warmup: tuple[int, ...]
    rule: VerdictRule
    row_records: tuple[FigureRow, ...]
    warnings: tuple[str, ...]
    setting_records: tuple[DifferingSetting, ...]
    varied_records: tuple[VariedSetting, ...]
    attribution_records: tuple[attribution.AttributionRow, ...]
    operator_records: tuple[operators.OperatorRow, ...]
    summary_records: tuple[averages.AverageRow, ...]
    warmup_records: tuple[warmup_costs.WarmupRow, ...]
    finding_records: tuple[findings.FindingRow, ...]
    best: tuple[BestSide, ...] = ()
    by: tuple[str, ...] = ()
    result: str | None = None
    is_limited_by_clients: bool = False
    by_values: bool = False
    to_targets: bool = False
    other_settings: tuple[OtherSetting, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    cut_short: tuple[CutShort, ...] = ()
    failed: tuple[FailedRun, ...] = ()
    copies: tuple[str, ...] = ()
    one_sided: tuple[OneSided, ...] = ()
    without_headline: tuple[LeftOut, ...] = ()
    speed_records: tuple[speed_changes.SpeedSection, ...] = ()
    find_causes: Callable[[], Sequence[CauseChange]] = tuple

    def __repr__(self) -> str:
        return _one_line(self)

    def __str__(self) -> str:
        return _text(self)

    def _repr_html_(self) -> str:
        html: str = provider("notebook answers").comparison_html(self)
        return html

    @cached_property
    def causes(self) -> tuple[CauseChange, ...]:
        """What takes the time of both sides, in the words of metric `causes`: first what differs most."""
        return tuple(self.find_causes())

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row per case, measure and side but the base: see `perflog.analysis.compare.rows.COLUMNS`."""
        return _table_of(self.row_records, rows.COLUMNS)

    @cached_property
    def settings(self) -> pd.DataFrame:
        """Settings in which the sides differ: case, setting, and a column for each side."""
        return _frame([row.record for row in self.setting_records], ["case", "setting", *self.sides])

    @cached_property
    def varied(self) -> pd.DataFrame:
        """Settings that vary between the repeats of a side: case, side, setting, and their values in a tuple."""
        return _frame([*map(asdict, self.varied_records)], ["case", "side", "setting", "values"])

    @cached_property
    def attribution(self) -> pd.DataFrame:
        """What each part adds to a difference: see `perflog.analysis.compare.explanations.attribution.COLUMNS`."""
        return _table_of(self.attribution_records, attribution.COLUMNS)

    @cached_property
    def operators(self) -> pd.DataFrame:
        """The operators of traces on both sides: see `perflog.analysis.compare.explanations.operators.COLUMNS`."""
        return _table_of(self.operator_records, operators.COLUMNS)

    @cached_property
    def summaries(self) -> pd.DataFrame:
        """Printed averages, and the mean of the same steps on the other sides: see `.explanations.averages.COLUMNS`."""
        return _table_of(self.summary_records, averages.COLUMNS)

    @cached_property
    def warmups(self) -> pd.DataFrame:
        """What the warm-up costs on each side: see `perflog.analysis.compare.explanations.warmup_costs.COLUMNS`."""
        return _table_of(self.warmup_records, warmup_costs.COLUMNS)

    @cached_property
    def speed_changes(self) -> pd.DataFrame:
        """The sides before and after each lasting change of speed: see `.explanations.speed_changes.COLUMNS`."""
        return _table_of(self.speed_records, speed_changes.COLUMNS)

    @cached_property
    def findings(self) -> pd.DataFrame:
        """What to know before trusting the comparison: see `perflog.analysis.compare.findings.COLUMNS`."""
        return _table_of(self.finding_records, findings.COLUMNS)

    @cached_property
    def headlines(self) -> list[FigureRow]:
        """The rows of the measure that the verdict is about, one per case and side."""
        return headline_rows(self.row_records, self.result, self.by_values, self.to_targets)

    @cached_property
    def deciding(self) -> dict[tuple[str, str], FigureRow]:
        """By case and side the row of the headline measure that the verdict is from."""
        rows_by_side = grouped(((row.case, row.side), row) for row in telling_rows(self.headlines))
        return {place: deciding_row(rows) for place, rows in rows_by_side.items()}

    def _verdict_of(self, row: FigureRow) -> str:
        """The verdict of a case and side. Where a loss is not finite, a side trains nothing: its speed is no result."""
        if (row.case, row.side) in {(each.case, each.side) for each in self.other_settings}:
            return OTHER_SETTING
        return NOT_COMPARABLE if row.side in self.diverged else row.verdict

    @property
    def verdict(self) -> str:
        """The most severe verdict of the cases and sides."""
        return min(map(self._verdict_of, self.deciding.values()), key=severity, default=NOTHING)

    @property
    def leading(self) -> FigureRow | None:
        """The row that the verdict is about: one that fails a gate, if any; of several cases the largest change."""
        rows = [row for row in self.headlines if row.verdict == self.verdict] or self.headlines
        rows = [row for row in rows if row.fails] or rows
        if len(self.cases) > 1:
            return max(rows, key=lambda row: abs(row.change), default=None)
        return rows[0] if rows else None

    @property
    def is_pair(self) -> bool:
        """Whether there are two sides in one case."""
        return len(self.sides) == 2 and len(self.cases) == 1

    @cached_property
    def objections(self) -> tuple[Objection, ...]:
        """What speaks against the comparison, in the order in which a reader needs it."""
        return tuple(self._objections())

    def _objections(self) -> Iterator[Objection]:
        base = self.sides[0]
        if self.same_bytes:
            yield Objection("copy", "the same bytes are on both sides", "a run is compared with itself")
        elif self.copies:
            yield Objection("copy", "a copy", f"{' and '.join(self.copies)} has the runs of {base}")
        if self.other_settings:
            ask = " ".join(dict.fromkeys(f"--ignore {each.setting}" for each in self.other_settings))
            words = ", ".join(self._other_settings_in_words())
            yield Objection("other settings", OTHER_SETTING, words, f"{ask} judges the change anyway")
        if reasons := [*self._other_work()]:
            yield Objection(None, OTHER_WORK, ", ".join(reasons))
        for side, message in self.diverged.items():
            cause: Cause | None = "diverged" if side != base else None
            yield Objection(cause, OTHER_WORK, f"{message} in {side}, so its speed is not a result")
        if self.cut_short:
            yield Objection("ended early", "", self._ended_early())
        for failed in self.failed:
            yield Objection(failed.end if failed.side != base else None, "failed", failed.text)
        for text in self._missing_headlines():
            yield Objection("figure missing", "", text)

    def _other_settings_in_words(self) -> Iterable[str]:
        """The settings in `other_settings`: of two sides with both values, each once."""
        if len(self.sides) > 2:
            return dict.fromkeys(each.setting for each in self.other_settings)
        return dict.fromkeys(f"{e.setting} {e.base_value} and {e.side_value}" for e in self.other_settings)

    def _other_work(self) -> Iterator[str]:
        """How the work of the sides differs."""
        for finding in self.finding_records:
            if finding.code == "comparison-other-work":
                of = json.loads(finding.evidence)
                yield f"backward / forward is {show(of['base'], '', 2)} and {show(of['side'], '', 2)}"
                break
        if any(row.setting == "format" for row in self.setting_records):
            yield "their formats differ"

    def _ended_early(self) -> str:
        """The runs that ended early."""
        by_event = grouped((f"{each.side} {each.event}", each.label) for each in self.cut_short)
        texts = [f"{event}: {first_few(labels)}" for event, labels in by_event.items()]
        without = {each.run for each in self.left_out}
        if any(each.run not in without for each in self.cut_short):
            texts.append("steps after the last one that all runs print are not compared")
        return "; ".join(texts)

    def _missing_headlines(self) -> Iterator[str]:
        """Yield a sentence for each run without the headline metric, except runs that failed: these have their own.

        Nothing if a run of the base lacks it too: then the change did not remove it.
        """
        failed = {each.run for each in self.failed}
        if any(each.side == self.sides[0] for each in self.without_headline):
            return
        for each in self.without_headline:
            if each.run not in failed:
                yield f"{each.side}: {each.label} is {each.reason}"

    @cached_property
    def diverged(self) -> dict[str, str]:
        """What became NaN or infinite, by side: of sides that train nothing while others do.

        A value that was never finite may be unknown yet; it is lost where the base prints a finite one.
        """
        messages: dict[str, str] = {}
        for finding in self.finding_records:
            if finding.code == DIVERGED and finding.severity != "note" and finding.side:
                messages.setdefault(finding.side, finding.message)
        for row in self.row_records:
            if row.kind in ("value", "summary") and math.isfinite(row.base_value) and not math.isfinite(row.side_value):
                message = f"{row.metric} {row.side_value:g} where the base has {row.base_value:.4g}"
                messages.setdefault(row.side, message)
        return messages if len(messages) < len(self.sides) else {}

    @property
    def same_bytes(self) -> bool:
        """Whether all sides hold the same runs: their logs have the same bytes."""
        return all(set(runs) == set(case.runs[0]) for case in self.cases for runs in case.runs)

    @property
    def doubts(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """What not to trust, by the code of the findings that are more than notes: a sentence, and the sides."""
        doubts: dict[str, tuple[str, tuple[str, ...]]] = {}
        for finding in self.finding_records:
            if finding.severity != "note":
                code, sides = finding.code, (finding.side,) if finding.side else ()
                text, known = doubts.get(code, (RULES[code].title if code in RULES else finding.message, ()))
                doubts[code] = text, tuple(dict.fromkeys([*known, *sides]))
        return doubts

    @property
    def conclusion(self) -> str:
        """What speaks against the comparison, then the headline metric and the verdict."""
        metric = " and ".join(dict.fromkeys(row.metric for row in self.headlines)) or "nothing"
        reasons = [each.text for each in self.objections]
        if len(reasons) > _REASONS:
            reasons[_REASONS:] = [count(len(reasons) - _REASONS, "more reason")]
        change = f" {show_change(self.leading.change)}" if reasons and self.is_pair and self.leading else ""
        verdict = "" if self.verdict == OTHER_SETTING else f"{',' if change else ':'} {self.verdict}"  # a reason has it
        return "; ".join([*reasons, f"{metric}{change}{verdict}"])

    def geomeans(self) -> list[GeometricMean]:
        """Return the geometric mean of each side's changes of the headline metric, if there are several cases."""
        means = []
        for side in self.sides[1:]:
            side_rows = [row for row in self.headlines if row.side == side]
            for statistic in dict.fromkeys(row.statistic for row in side_rows):
                changes = [row.change for row in side_rows if row.statistic == statistic]
                if len(changes) > 1 and all(change > -1 for change in changes):
                    change = math.expm1(sum(map(math.log1p, changes)) / len(changes))
                    means.append(GeometricMean(self.headlines[0].metric, statistic, side, len(changes), change))
        return means

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result, ready for JSON."""
        cases = [{"case": case.name, "warmup": cut, "runs": dict(zip(self.sides, case.runs, strict=True))}
                 for case, cut in zip(self.cases, self.warmup, strict=True)]  # fmt: skip
        return {
            "schema_version": SCHEMA_VERSION, "sides": list(self.sides), "verdict": self.verdict,
            "other_work": [each.what for each in self.objections if each.head == OTHER_WORK],
            "other_settings": [*map(asdict, self.other_settings)],
            "causes": [_flat(each) for each in self.causes],
            "cases": cases, "by": list(self.by), "result": self.result,
            "best": [{"case": best.case, "side": best.side, "not_told_apart": list(best.level)} for best in self.best],
            "rule": asdict(self.rule), "rows": records(self.row_records), "geomeans": records(self.geomeans()),
            "settings": [row.record for row in self.setting_records], "varied": records(self.varied_records),
            "attribution": records(self.attribution_records),
            "operators": records(self.operator_records),
            "summaries": records(self.summary_records), "warmups": records(self.warmup_records),
            "speed_changes": records(self.speed_records),
            "findings": records(self.finding_records), "left_out": records(self.left_out),
            "failed": records(self.failed),
            "cut_short": records(self.cut_short), "copies": list(self.copies), "one_sided": records(self.one_sided),
            "warnings": list(self.warnings),
        }  # fmt: skip


def _frame(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return nullable_frame(pd.DataFrame(rows, columns=names))


def _table_of(rows: Sequence[Struct], columns: Sequence[MetricColumn]) -> pd.DataFrame:
    return _frame([*map(asdict, rows)], [column.name for column in columns])


def _flat(change: CauseChange) -> dict[str, object]:
    """A cause on both sides as one row."""
    row = asdict(change)
    return {"case": row.pop("case"), "side": row.pop("side"), **asdict(row.pop("cause")), **row,
            "difference_s": change.difference_s}  # fmt: skip


# --- how a Comparison shows itself in Python; `perflog.output` has the screen of the command and the report ----------


def _one_line(comparison: Comparison) -> str:
    """The sides, the verdict and, for two sides in one case, the change with its interval."""
    rows = comparison.headlines
    change = f", {rows[0].change_in_words}" if comparison.is_pair and rows else f", {len(comparison.cases)} cases"
    return f"<Comparison: {sides_in_words(comparison)}: {comparison.conclusion}{change}>"


def _text(comparison: Comparison) -> str:
    """The verdict, then one line per row: the headlines, and the other metrics of steps and devices."""
    headlines = comparison.headlines
    rows = [*headlines, *(row for row in comparison.row_records if _is_brief(row) and row not in headlines)]
    lines = [
        f"{sides_in_words(comparison)}: {comparison.conclusion}",
        *(f"  {_line(row)}" for row in rows[:_TEXT_ROWS]),
    ]
    if left := len(comparison.row_records) - len(rows[:_TEXT_ROWS]):
        lines.append(f"  {count(left, 'more row')} in .rows")
    return "\n".join(lines)


def sides_in_words(comparison: Comparison) -> str:
    """Return the names of the sides: `b, c against a`."""
    return f"{', '.join(comparison.sides[1:])} against {comparison.sides[0]}"


def _is_brief(row: FigureRow) -> bool:
    """Return whether a row belongs in a summary: phases, layers and kernels can have thousands of rows."""
    return row.kind in SUMMARY_KINDS


def _line(row: FigureRow) -> str:
    where = "".join(f"{name}: " for name in (row.case, row.side) if name)
    metric = row.metric if len(row.metric) <= _NAME else f"{row.metric[: _NAME - 1]}…"
    figure = f"{metric} {row.statistic}" if row.statistic != "value" else metric
    values = f"{show(row.base_value, row.unit)} -> {show(row.side_value, row.unit)}"
    return f"{where}{figure} {values}, {row.change_in_words}: {row.verdict}"
