"""`perflog.compare`: compares two or more sides with the first one and returns a Comparison.

The steps, each in its own module: which runs belong to the sides (`sides`), their values (`measures`), ratios with
intervals (`rows`), the verdict in words (`verdicts`), what adds to a difference (`attribution`), printed averages
(`averages`), findings (`findings`). `perflog.output.presenters.compare` prints the result.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from msgspec.structs import replace

from perflog.analysis.compare import baselines, findings, rows
from perflog.analysis.compare.comparison import SUMMARY_KINDS, Comparison, OneSided
from perflog.analysis.compare.explanations import attribution, averages, operators, speed_changes, warmup_costs
from perflog.analysis.compare.explanations.cause_changes import cause_changes
from perflog.analysis.compare.headline import (
    best_sides,
    declared_result,
    headline_rows,
    latency_of_clients,
    values_only,
)
from perflog.analysis.compare.history import find_history
from perflog.analysis.compare.left_out import (
    chosen_runs,
    failed_among,
)
from perflog.analysis.compare.measures import SideValues, side_values, warmups
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.side_settings import differing_settings, other_settings, varied_settings
from perflog.analysis.compare.sides import (
    Case,
    LeftOut,
    Runs,
    Side,
    SideReference,
    left_out_warnings,
    named_sides,
    resolve_sides,
    setting_names,
    stores_of,
)
from perflog.analysis.compare.verdicts import (
    DEFAULT_RULE,
    VerdictRule,
)
from perflog.errors import NothingToCompareError, UsageError
from perflog.grouping import grouped
from perflog.metrics.series.series_ends import equal_steps
from perflog.metrics.step_series import common_cut
from perflog.metrics.traces.steady_work import TRACE
from perflog.opening.tables_as_logs import without_tables
from perflog.units import first_few


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
    # Settings that change with the settings in `by` are part of what the caller asks about.
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
    latency = latency_of_clients(sides, cases, compared)
    result = None if ended_early else declared_result(sides, cases) or latency
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
        speed_records=tuple(speed_changes.speed_changes(sides, cases)),
        finding_records=tuple(doubts),
        best=tuple(best_sides(sides, cases, values, in_one_setting, rule, known)),
        by=by,
        result=result,
        is_limited_by_clients=result is not None and result == latency,
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
