"""The answers of a report: what is in its first section, in the order in which each of its forms shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from perflog.analysis.lint import SEVERITIES, Finding, Severity
from perflog.analysis.overview import Overview
from perflog.analysis.overview.doubts import Doubt, doubts
from perflog.analysis.overview.run_groups import SINGLE_RUNS, RunGroup
from perflog.output.presenters.compare_screen import best_sentences, sentences_on_verdict, verdict_sentences
from perflog.output.presenters.overview import unread_in_words
from perflog.output.report.bars import where_the_difference_went, where_the_operators_differ, where_the_time_goes
from perflog.output.report.cells import (
    AnswerTable,
    Cell,
    FindingCounts,
    HeaderCell,
    RunName,
    Sentence,
    change_cell,
    number,
)
from perflog.output.report.data import ReportData
from perflog.output.report.sweep_tables import sweeps
from perflog.units import count, first_few

MAX_RUNS = 1000
"""Runs and logs that are listed."""

_GROUPS, _DOUBTS, _WARNINGS = 12, 3, 3
_FAILURES = ("program-error", "no-success", "open-interval", "run-stopped")  # rules that show why a run failed
_NAMED = 3  # failed runs
_FIGURES, _SETTINGS = 6, 4  # columns of a table of runs or groups


class Doubts(Struct, frozen=True):
    """What went wrong while the logs were read, the findings that matter most, and how many other kinds there are.

    `places`: for each of them the runs that it is about, in words; empty of a single run.
    """

    warnings: Sequence[str]
    shown: Sequence[Doubt]
    places: Sequence[str]
    left_out: int


Answer = Sentence | AnswerTable | Doubts


def answers(report: ReportData) -> Iterator[Answer]:
    """Yield the answers to the first questions: the verdict, what ran, how fast, why, what not to trust."""
    overview, comparison = report.overview, report.comparison
    if comparison:
        verdict = (*best_sentences(comparison), *verdict_sentences(comparison, comparison.sides))
        yield from (Sentence(text, "verdict") for text in verdict)
        yield from (Sentence(text, "reason") for text in sentences_on_verdict(comparison))
    yield Sentence(f"{overview.what}; {unread_in_words(overview)}", "subject")
    yield from (Sentence(text, "verdict") for text in overview.outcome)
    many = len(report.runs) > SINGLE_RUNS  # then the answers stand before the lines of the runs
    sweep: list[Answer | None] = list(sweeps(report))
    tables = [
        *(sweep or [_speed(overview)]),
        None if many else run_index(report),
        *(Sentence(text, "reason") for text in overview.reasons),
        _failures(report),
        where_the_time_goes(report),
        where_the_difference_went(comparison) if comparison else None,
        where_the_operators_differ(comparison) if comparison else None,
        _doubts(report),
        run_index(report) if many and not comparison else None,
    ]
    yield from (answer for answer in tables if answer)


def _speed(overview: Overview) -> AnswerTable | None:
    """How fast the repeats of each configuration were; None where most runs are no repeats: they are in the index."""
    repeated = 2 * len(overview.groups) <= sum(len(group.runs) for group in overview.groups)
    if not overview.figures or not repeated:
        return None
    settings = list(overview.groups[0].settings)[:_SETTINGS]
    noun = overview.run_noun
    heads = [HeaderCell(f"{noun} of"), *map(HeaderCell, settings), HeaderCell(noun, number=True)]
    heads += _figure_heads(overview, "± sd", f"standard deviation over the {noun}")
    rows = [
        [
            _group_name(group, overview), *(group.settings[name] for name in settings), number(len(group.runs)),
            *_figures(overview, place, group, None),
        ]
        for place, group in enumerate(overview.groups[:_GROUPS])
    ]  # fmt: skip
    left_out = len(overview.groups) - _GROUPS
    note = f"{count(left_out, 'more group')}: perflog RUN" if left_out > 0 else ""
    return AnswerTable("how fast", heads, rows, note).without_empty_columns()


def _group_name(group: RunGroup, overview: Overview) -> str:
    """The mark of a group, with its name unless all groups of repeats have that name."""
    names = {each.name for each in overview.groups if len(each.runs) > 1}
    return group.mark if names == {group.name} and len(overview.groups) > 1 else f"{group.mark} {group.name}"


def run_index(report: ReportData) -> AnswerTable:
    """Return a line for each run: its name, its figures, what speaks against them."""
    overview = report.overview
    group_of = {run: (place, group) for place, group in enumerate(overview.groups) for run in group.runs}
    settings = [name for name in overview.groups[0].settings if len(report.runs) > 1] if overview.groups else []
    settings = [name for name in settings if not all(f"{name}=" in text for text in report.names.values())][:_SETTINGS]
    heads = [HeaderCell("run"), HeaderCell("of"), *map(HeaderCell, settings)]
    heads += [*_figure_heads(overview, "±", "half of the 95 % interval"), HeaderCell("not to trust")]
    heads += [HeaderCell("steps", number=True)]
    against = doubts_by_run(overview)
    rows = []
    runs = [run for run in report.runs if run["run"] in group_of]  # the others only fill in these
    if len(runs) == len(overview.groups):  # in the order of the overview, which is that of their numbers
        runs.sort(key=lambda run: group_of[run["run"]][0])
    for run in runs[:MAX_RUNS]:
        id, name = run["run"], report.names[run["run"]]
        place, group = group_of[id]
        repeats = _group_name(group, overview) if 1 < len(group.runs) < len(report.runs) else None
        if len(report.runs) > 1 and len(group.runs) == 1 and not name.endswith(group.mark):
            name = f"{group.mark} {name}"  # the sentences below say #4 or B
        rows.append([
            RunName(name, id), repeats, *(group.settings[name] for name in settings),
            *_figures(overview, place, group, id), _finding_counts(against.get(id, ())), number(report.steps.get(id)),
        ])  # fmt: skip
    left_out = len(report.runs) - MAX_RUNS
    note = f"{count(left_out, 'more run')}: perflog runs" if left_out > 0 else ""
    return AnswerTable("runs", heads, rows, note).without_empty_columns()


def _failures(report: ReportData) -> Sentence | None:
    """Which runs have no metric because they failed, and why, as far as their logs show it."""
    figures, against = report.overview.figures, doubts_by_run(report.overview)
    shown = {run for group in report.overview.groups for run in group.runs}  # of another host of a job others are
    without = [run for run in report.names if run in shown and not any(run in f.values for f in figures)]
    messages = {
        run: {doubt.code: doubt.message for doubt in against.get(run, ()) if doubt.severity != "note"}
        for run in without
    }
    reasons = {run: next((told[code] for code in _FAILURES if code in told), None) for run, told in messages.items()}
    failed = [f"{report.names[run]} ({reason})" for run, reason in reasons.items() if reason]
    if not figures or not failed:
        return None
    return Sentence(f"Failed, without a figure: {first_few(failed, _NAMED)}.", "reason")


def _figure_heads(overview: Overview, name: str, tooltip: str) -> Iterator[HeaderCell]:
    """The headline with its spread, of that name, and its change, then the other figures."""
    for place, figure in enumerate(overview.figures[:_FIGURES]):
        yield HeaderCell(figure.name, number=True)
        if place == 0:
            yield HeaderCell(name, number=True, tooltip=tooltip)
            yield HeaderCell("change", number=True)


def _figures(overview: Overview, place: int, group: RunGroup, run: str | None) -> Iterator[Cell]:
    """The cells of the figures of a group, or of one of its runs."""
    for i, figure in enumerate(overview.figures[:_FIGURES]):
        value = figure.values.get(run) if run else overview.value(figure, group)
        one = run or (group.runs[0] if len(group.runs) == 1 else None)
        digits, spread = 4 if i == 0 else 3, figure.spread.get(run) if run else overview.spread(figure, group)
        yield number(value, text=figure.text_of(one, digits) if one else figure.text(value, digits))
        if i == 0:
            known = None if one in figure.levels else spread
            yield number(known, text=None if known is None else f"{100 * known:.1f} %")
            yield change_cell(overview.change(place) if len(group.runs) == 1 or not run else None)


def _finding_counts(against: Sequence[Doubt]) -> FindingCounts | None:
    """The number of rules with findings against a run, by severity; notes speak against nothing."""
    counts = Counter(doubt.severity for doubt in against)
    severe: dict[Severity, int] = {s: counts[s] for s in SEVERITIES if s != "note" and counts[s]}
    return FindingCounts(severe) if severe else None


def doubts_by_run(overview: Overview) -> dict[str, list[Doubt]]:
    """Return, by run id, the doubts with the findings that name the run."""
    findings_by_run: dict[str, list[Finding]] = {}
    for finding in (finding for doubt in overview.doubts for finding in doubt.findings):
        for run in dict.fromkeys((finding.run, *finding.lines)):
            findings_by_run.setdefault(run, []).append(finding)
    return {run: doubts(findings) for run, findings in findings_by_run.items()}


def _doubts(report: ReportData) -> Doubts:
    warnings, total = report.warnings, len(report.runs)
    doubts_of_runs = [doubt for doubt in report.overview.doubts if not doubt.is_outcome]  # those are in the first lines
    shown = doubts_of_runs[:_DOUBTS]
    more_warnings = [f"and {count(len(warnings) - _WARNINGS, 'more warning')}"] if len(warnings) > _WARNINGS else []
    places = ["" if total == 1 else _place(doubt, report) for doubt in shown]
    return Doubts([*warnings[:_WARNINGS], *more_warnings], shown, places, max(len(doubts_of_runs) - _DOUBTS, 0))


def _place(doubt: Doubt, report: ReportData) -> str:
    """The runs of a doubt, and which of them its sentence is about."""
    name = report.names.get(doubt.findings[0].run)
    if name is None:  # it compares several runs
        return report.in_words(len(doubt.runs))
    return name if len(doubt.runs) == 1 else f"{report.in_words(len(doubt.runs))}, here {name}"
