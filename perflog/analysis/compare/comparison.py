"""`perflog.compare`: compares two or more sides with the first one and returns a Comparison.

The steps, each in its own module: which runs belong to the sides (`sides`), their values (`measures`), ratios with
intervals (`rows`), the verdict in words (`verdicts`), what adds to a difference (`attribution`), printed averages
(`averages`), findings (`findings`). `perflog.output.presenters.compare` prints the result.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from perflog.analysis.compare import baselines, findings, rows
from perflog.analysis.compare.explanations import attribution, averages, operators, warmup_costs
from perflog.analysis.compare.explanations.cause_changes import CauseChange, cause_changes
from perflog.analysis.compare.headline import (
    BestSide,
    best_sides,
    deciding_row,
    declared_result,
    headline_rows,
    telling_rows,
    values_only,
)
from perflog.analysis.compare.history import find_history
from perflog.analysis.compare.left_out import (
    CutShort,
    FailedRun,
    chosen_runs,
    failed_among,
)
from perflog.analysis.compare.measures import SideValues, side_values, warmups
from perflog.analysis.compare.result_rows import records
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.sides import (
    Case,
    DifferingSetting,
    LeftOut,
    OtherSetting,
    Runs,
    Side,
    SideReference,
    VariedSetting,
    differing_settings,
    left_out_warnings,
    named_sides,
    other_settings,
    resolve_sides,
    setting_names,
    stores_of,
    varied_settings,
)
from perflog.analysis.compare.verdicts import (
    DEFAULT_RULE,
    NOT_COMPARABLE,
    OTHER_SETTING,
    VerdictRule,
    severity,
)
from perflog.analysis.lint import RULES
from perflog.analysis.lint.losses import DIVERGED
from perflog.analysis.tables_as_logs import without_tables
from perflog.errors import NothingToCompareError, UsageError
from perflog.grouping import grouped
from perflog.metrics import MetricColumn
from perflog.metrics.series.series_ends import equal_steps
from perflog.metrics.step_series import common_cut
from perflog.metrics.traces.steady_work import TRACE
from perflog.providers import provider
from perflog.tables.nulls import nullable_frame
from perflog.tables.schema import SCHEMA_VERSION
from perflog.units import first_few, show, show_change

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
    `findings`. The same rows, typed, are in `row_records` and so on.

    Attributes:
        sides: Names of the sides, base first.
        cases: Configurations that the sides share, with the run ids of each side.
        warmup: Number of steps cut at the start of all runs, by case.
        rule: The limits of the verdicts.
        warnings: Runs that were not compared, and warnings of the logs.
        best: The best of three sides or more, by case.
        by: The settings that split the runs into sides; empty if the sides were named.
        result: The metric that the formats of all logs declare as the result of a run; None if a run ended early.
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
    by_values: bool = False
    to_targets: bool = False
    other_settings: tuple[OtherSetting, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    cut_short: tuple[CutShort, ...] = ()
    failed: tuple[FailedRun, ...] = ()
    copies: tuple[str, ...] = ()
    one_sided: tuple[OneSided, ...] = ()
    without_headline: tuple[LeftOut, ...] = ()
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
            texts.append("only the steps that all runs print are compared")
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
            reasons[_REASONS:] = [f"{len(reasons) - _REASONS} more reasons"]
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
            "findings": records(self.finding_records), "left_out": records(self.left_out),
            "failed": records(self.failed),
            "cut_short": records(self.cut_short), "copies": list(self.copies), "one_sided": records(self.one_sided),
            "warnings": list(self.warnings),
        }  # fmt: skip


def compare(  # noqa: PLR0913 (all are keywords that a user sees in `help`)
    *sides: SideReference | Any,
    store: str | os.PathLike[str] | None = None,
    by: str | Sequence[str] = (),
    base: str | None = None,
    baseline: str | None = None,
    match: Sequence[str] = (),
    ignore: Sequence[str] = (),
    history: Sequence[Runs] | None = None,
    targets: Mapping[str, float] | None = None,
    warmup: int | None = None,
    threshold: float = DEFAULT_RULE.threshold,
    level: float = DEFAULT_RULE.level,
    draws: int = DEFAULT_RULE.draws,
    seed: int = DEFAULT_RULE.seed,
) -> Comparison:
    """Compare two or more sides with the first one.

    Args:
        *sides: What to compare, the base first. Each is a log, a run of a log ("run.txt#3" or "run.txt#label"), a
            folder, a glob, a store, a run id or label, or a `Log`. A table of pandas, polars or Arrow, or a dict of
            figures by name, is the log that its CSV would be. A list of them is one side; a mapping has the sides by
            name. "name=run.txt" names a side, too; sides with the same name are repeats and form one side.
        store: Folder of the store in which run ids and labels are looked up. Default: PERFLOG_STORE, else .perflog.
        by: A setting, or several. Their values become the sides, from the runs of everything given: numbers in their
            order, other values in the order of the runs.
        base: Name of the side, or value of `by` ("8"; of several settings "8/fp16"), that the others are compared
            with. Default: the first one.
        baseline: Name of a baseline of the store, which is the base; see `perflog baseline`. Its runs, and those before
            its last accepted change, show the run-to-run variation.
        match: Settings that match the runs of the sides, besides the settings that vary within every side. Incidental
            settings (times, seeds, paths, hosts, ports, process ids, commits, names of runs) match only if they are
            named here.
        ignore: Settings that match no runs: runs that differ in them are repeats.
        history: Where to look for other repeats of the runs, to estimate the run-to-run variation if a side has fewer
            than four: logs, folders or stores. Default, where each side has one: the stores that the sides come from.
        targets: Values to reach, by the name of the series, such as {"val_loss": 3.28}: the time until then leads.
        warmup: Number of steps to cut at the start of each run. Default: the largest warm-up found in any of the runs.
        threshold: Least change of a regression or improvement: 0.05 is 5 % more or less. A change that is surely
            smaller is equivalent.
        level: Confidence level of the intervals, between 0 and 1.
        draws: Bootstrap draws of an interval within single runs.
        seed: Seed of the bootstrap: the same logs and seed give the same figures.

    Returns:
        A `Comparison`: `verdict` in words; `rows` with both medians, the ratio (above 1: better than the base) and its
        interval, per measure; `settings` that differ; `attribution` of the difference; `summaries`; `findings`. Values
        are in base units (seconds, bytes, 1/s, TFLOP/s).

    Raises:
        UsageError: Fewer than two sides are given, their runs cannot be matched, or a limit is out of range.
        MissingBaselineError: There is no such baseline, or it has no runs with the settings of the sides.
        PerflogError: A log cannot be read.

    Example:
        >>> comparison = perflog.compare("before=run.txt", "after=new.txt")
        >>> comparison.sides
        ('before', 'after')
        >>> comparison.rows[["metric", "statistic", "base_value", "side_value", "change", "verdict"]]
        metric statistic ...
    """
    rule = VerdictRule(threshold, level, draws, seed)
    if not 0 < level < 1 or threshold <= 0:
        raise UsageError("a limit is out of range", "", "level is between 0 and 1; a threshold is above 0")
    given = without_tables(sides)
    if baseline is not None:
        if by or base:
            raise UsageError("the baseline is the base already", baseline, "leave out --base and --by")
        new = named_sides(given, store)
        known = baselines.resolve(baseline, new, store, ignore)
        named, others = (known.base, *new), [*known.earlier, *(history or ())]
        return compare_sides(named, rule, warmup, match, ignore, others, targets, is_named=True, is_baseline=True)
    references = stores_of(given, store) if history is None else [*history]
    resolved = resolve_sides(given, store, by, base)
    is_named = history is not None
    return compare_sides(resolved, rule, warmup, match, ignore, references, targets, setting_names(by), is_named)


def compare_sides(  # noqa: PLR0913 (the same as of `compare`)
    sides: Sequence[Side],
    rule: VerdictRule,
    warmup: int | None = None,
    match: Sequence[str] = (),
    ignore: Sequence[str] = (),
    history: Sequence[Runs] = (),
    targets: Mapping[str, float] | None = None,
    by: tuple[str, ...] = (),
    is_named: bool = False,
    is_baseline: bool = False,
) -> Comparison:
    """Compare sides that are already resolved; see `compare`.

    `by`: the settings that split the runs into sides. `is_named`: the caller named the history. `is_baseline`: the
    base is a baseline, so its runs show the run-to-run variation.
    """
    chosen = chosen_runs(sides, match, ignore, is_split=bool(by))
    sides, cases = chosen.sides, chosen.cases
    warmup_of_run = {run: cut for side in sides for run, cut in warmups(side).items()}
    cuts = [_common_cut(case, warmup_of_run) if warmup is None else warmup for case in cases]
    cut_of_run = {run: cut for case, cut in zip(cases, cuts, strict=True) for runs in case.runs for run in runs}
    at_steps = [equal_steps([(side.tables, runs) for side, runs in zip(sides, c.runs, strict=True)]) for c in cases]
    at_of_run = {run: at for case, at in zip(cases, at_steps, strict=True) for runs in case.runs for run in runs}
    values = [side_values(side, cut_of_run, at_of_run, targets, chosen.ends) for side in sides]
    warnings = chosen.warnings + _leave_out_whole_traces(sides, cases, values)
    operator_sides = operators.matched_sides(cases, values)
    operators.add_measures(operator_sides, values)
    known = replace(find_history(history, sides, cases, cuts, ignore, is_named), has_base=is_baseline)
    # Settings that change with those of `by` are part of what the caller asks about.
    elsewhere = [] if by else other_settings(sides, cases, ignore)
    not_judged = {(each.case, each.side) for each in elsewhere}
    compared = rows.comparison_rows(sides, cases, values, rule, known, not_judged)
    if not compared:
        help = "`perflog show RUN` lists the tables that each has"
        longest = max((steps for _, steps in warmup_of_run.values()), default=0)
        if warmup is not None and 0 < longest <= warmup:
            help = f"a warm-up of {warmup} steps leaves none: the longest run has {longest}"
        empty = [side.name for side, measured in zip(sides, values, strict=True) if not measured.by_measure]
        reason = "there is no metric to compare" if empty else "the sides have no metric in common"
        raise NothingToCompareError(reason, " and ".join(empty or [side.name for side in sides]), help)
    settings = differing_settings(sides, cases)
    known_averages = {(row.case, row.metric) for row in compared if row.kind == "summary"}
    printed = [row for row in averages.averages(sides, cases) if (row.case, row.figure) not in known_averages]
    doubts = findings.findings(sides, cases, compared, settings, printed, chosen.found)
    ended_early = any(finding.code == "run-stopped" for finding in doubts)
    result = None if ended_early else declared_result(sides, cases)
    by_values = values_only(values)
    headlines = headline_rows(compared, result, by_values, bool(targets))
    in_one_setting = [row for row in headlines if row.case not in {each.case for each in elsewhere}]
    without_headline = tuple(_without_headline(sides, cases, values, headlines))
    without_value = {each.run for each in without_headline} - {each.run for each in chosen.cut_short}
    failed = [*chosen.failed, *failed_among(sides, without_value)]
    warnings += _headline_warnings(without_headline)
    if targets and not headlines:
        warnings.append(
            f"no runs of both sides reach {' or '.join(f'{name} {value:g}' for name, value in targets.items())}"
        )
    return Comparison(
        sides=tuple(side.name for side in sides),
        cases=tuple(cases),
        warmup=tuple(cuts),
        rule=rule,
        row_records=tuple(compared),
        warnings=tuple(
            dict.fromkeys(chain(*(side.log.warnings for side in sides), left_out_warnings(chosen.left_out), warnings))
        ),
        setting_records=tuple(settings),
        varied_records=tuple(varied_settings(sides, cases)),
        attribution_records=tuple(attribution.attribution(sides, cases, values, compared)),
        operator_records=tuple(operators.operator_rows(sides, operator_sides)),
        summary_records=tuple(printed),
        warmup_records=tuple(warmup_costs.warmup_costs(sides, cases, values)),
        finding_records=tuple(doubts),
        best=tuple(best_sides(sides, cases, values, in_one_setting, rule, known)),
        by=by,
        result=result,
        by_values=by_values,
        to_targets=bool(targets),
        other_settings=tuple(elsewhere),
        find_causes=partial(cause_changes, sides, cases, warmup),
        left_out=tuple(chosen.left_out),
        cut_short=tuple(chosen.cut_short),
        failed=tuple(failed),
        copies=tuple(chosen.copies),
        one_sided=tuple(_one_sided(sides, cases, values)),
        without_headline=without_headline,
    )


def _one_sided(sides: Sequence[Side], cases: Sequence[Case], values: Sequence[SideValues]) -> Iterator[OneSided]:
    """Yield the metrics of whole runs and of steps that the base or the side of a case lacks."""
    for case in cases:
        has = [_summary_figures(v, runs) for v, runs in zip(values, case.runs, strict=True)]
        for k, (side, side_has) in enumerate(zip(sides[1:], has[1:], strict=True), 1):
            for on, ours, others, of in (("base", has[0], side_has, 0), ("side", side_has, has[0], k)):
                for name, runs in ours.items():
                    if name not in others:
                        yield OneSided(case.name, side.name, *name, on, runs, len(case.runs[of]))


def _summary_figures(values: SideValues, runs: Sequence[str]) -> dict[tuple[str, str], int]:
    """Return the number of runs that have each metric of the whole run or of its steps, by kind and name."""
    counts: dict[tuple[str, str], int] = {}
    for measure in values.by_measure:
        if measure.kind in SUMMARY_KINDS and (having := len(values.of(measure, runs))):
            name = measure.kind, measure.name
            counts[name] = max(counts.get(name, 0), having)
    return counts


def _without_headline(
    sides: Sequence[Side], cases: Sequence[Case], values: Sequence[SideValues], headlines: Sequence[FigureRow]
) -> Iterator[LeftOut]:
    """Yield the runs without the headline metric, such as runs that failed."""
    names = {(row.kind, row.metric) for row in headlines if row.kind != "load"}  # only one run of a job has a load
    for k, (side, measured) in enumerate(zip(sides, values, strict=True)):
        having = {run for m, by_run in measured.by_measure.items() if (m.kind, m.name) in names for run in by_run}
        without = [run for case in cases for run in case.runs[k] if run not in having]
        metrics = " or ".join(dict.fromkeys(row.metric for row in headlines))
        yield from (LeftOut(side.name, run, side.labels[run], f"without {metrics}") for run in without if names)


def _headline_warnings(runs: Sequence[LeftOut]) -> Iterator[str]:
    """Yield a warning for each side that has runs without the headline metric."""
    labels_by_reason = grouped(((each.side, each.reason), each.label) for each in runs)
    for (side, what), labels in labels_by_reason.items():
        yield f"{side}: {what}, so not in this metric: {first_few(labels)}"


def _leave_out_whole_traces(sides: Sequence[Side], cases: Sequence[Case], values: Sequence[SideValues]) -> list[str]:
    """Leave out the times of whole traces where others of a case have steps; return a warning for each side with some.

    The time of a step and the time of a trace with several steps are different measures.
    """
    whole: dict[int, list[str]] = {}
    for case in cases:
        parts = {v.parts[run] for runs, v in zip(case.runs, values, strict=True) for run in runs if run in v.parts}
        for k, (runs, v) in enumerate(zip(case.runs, values, strict=True)):
            for run in runs if len(parts) > 1 else ():
                if v.parts.get(run) == TRACE:
                    v.without_devices(run)
                    whole.setdefault(k, []).append(sides[k].labels[run])
    return [
        f"{sides[k].name}: without annotated steps, so its device times are not compared with device times of a step: "
        f"{first_few(labels)}"
        for k, labels in whole.items()
    ]


def _common_cut(case: Case, warmup_of_run: Mapping[str, tuple[int, int]]) -> int:
    """The number of first steps that is cut from all runs of a case."""
    return common_cut(warmup_of_run[run] for runs in case.runs for run in runs if run in warmup_of_run)


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
        lines.append(f"  {left} more rows in .rows")
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
