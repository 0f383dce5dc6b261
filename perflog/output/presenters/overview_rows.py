"""The overview as rows for programs: each part of the screen is a list of rows with stable names, in base units."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from shlex import join
from typing import Any

from perflog.analysis.overview import Overview
from perflog.analysis.overview.doubts import Doubt
from perflog.metrics.causes import COLUMNS as CAUSE_COLUMNS
from perflog.metrics.registry import MetricColumn as Column
from perflog.output.sheets import Sheet, SheetColumn, pairs

_MESSAGE = 500  # characters of a failure's message
_MARK = Column(
    "mark", meaning="the row of `runs` that it is about: #3 is the third run of the only log, else A, B, ..."
)
_LOG = Column("log", meaning="the log, as the reader named it")

PARTS: dict[str, tuple[str, tuple[Column, ...]]] = {
    "log": (
        "what was read; an object, not a list",
        (
            Column("name", meaning="the runs, as the reader named them"),
            Column("what", meaning="program, number of runs and steps, ranks, device"),
            Column("lines_total", meaning="lines of the logs"),
            Column("lines_read", meaning="lines that became rows"),
            Column("lines_context", meaning="lines that are known and hold nothing to store"),
            Column("lines_unread", meaning="lines that nothing reads"),
        ),
    ),
    "outcome": (
        "what a reader has to know before any speed: how the job ended, that the loss is NaN",
        (Column("text", meaning="a sentence"),),
    ),
    "runs": (
        "a run, or a group of repeats, with settings and figures as columns; `figures` has the figures by name",
        (
            Column("mark", meaning="short name of the row"),
            Column("name", meaning="label, or name of the log or of its folder"),
            Column("runs", meaning="number of runs"),
            Column("run", meaning="run id of the first: a name for other commands"),
            Column("log", meaning="its log, as the reader named it"),
            Column("index", meaning="its number in its log, from 1: `LOG#3` is the third run"),
            Column("change", "1", None, "headline / headline of the base - 1"),
            Column("base", meaning="mark of the row that it is compared with"),
            Column("settings", meaning="the settings in which the rows differ, an object of strings"),
        ),
    ),
    "figures": (
        "a metric of a row of `runs`; the first metric is the headline",
        (
            _MARK,
            Column("figure", meaning="its name, as on the screen"),
            Column("unit", meaning="its base unit; 1 for a ratio"),
            Column("better", meaning="lower or higher; null if neither is known to be better"),
            Column("value", meaning="the value of the run, or the mean over the runs of the row"),
            Column("spread", "1", None, "half of the 95 % interval of one run, or SD over the runs, relative to it"),
            Column("levels", meaning="medians of the levels of a run that changes its speed, in order; else null"),
            Column("doubted", meaning="whether an error or a warning of the row puts it in doubt"),
            Column("text", meaning="as the screen shows it"),
        ),
    ),
    "parts": (
        "where the time of the only row goes",
        (
            Column("part", meaning="its name"),
            Column("time_s", "s", "lower", "its time in a step, or in the whole"),
            Column("share", "1", None, "of the whole"),
        ),
    ),
    "causes": (
        "what takes the time of a run or holds it up, the bottleneck first; of a group its first run; metric `causes`",
        (_MARK, *(column for column in CAUSE_COLUMNS if column.name not in ("run", "label"))),
    ),
    "failures": (
        "a failure, from its first message on: one that ended an attempt, or after which the job went on",
        (
            _MARK,
            _LOG,
            Column("line", meaning="first line that reports it"),
            Column("outcome", meaning="ended: the job; restarted: another attempt follows; went on: nothing ended"),
            Column("kind", meaning="kind of the first failure"),
            Column("text", meaning="what ended it, with the culprits, in words"),
            Column("ranks", meaning="the ranks that failed first, a list; empty if not known"),
            Column("accused", meaning="ranks, tasks, nodes, GPUs in words, a list"),
            Column("certainty", meaning="sure, likely, one of, unknown: how sure the culprits are"),
            Column("why", meaning="the reason for the culprits"),
            Column("last_step", meaning="the last step before it"),
            Column("texts", meaning="number of failure messages that belong to it"),
            Column("message", meaning=f"the first message, at most {_MESSAGE} characters"),
        ),
    ),
    "reasons": ("why it is slow, or how its job went", (Column("reason", meaning="a sentence"),)),
    "doubts": (
        "a kind of finding: what not to trust, the most severe first",
        (
            Column("severity", meaning="error: a number is wrong; warning: it misleads; note: a fact to know"),
            Column("code", meaning="code of the rule: docs/lint.md"),
            Column("title", meaning="what the rule finds"),
            Column("runs", meaning="number of runs with it"),
            Column("message", meaning="the first finding"),
            Column("figures", meaning="names of the metrics that it is about"),
            Column("mark", meaning="the row of the first finding"),
            _LOG,
            Column("line", meaning="first line that proves the first finding"),
            Column("action", meaning="what to do"),
        ),
    ),
    "warnings": ("what went wrong while the logs were read", (Column("warning", meaning="a sentence"),)),
    "next": ("what answers the next question", (Column("command", meaning="a command of the shell"),)),
}
"""Parts of the answer: what a row is, and its columns. Columns are added at the end; none is renamed or removed."""

_NUMBERS = frozenset(
    "runs index value spread change time_s share gain_s gain ratio n each_s whole_s rank device dp_rank stage line"
    " last_step texts".split()
)


def overview_sheets(overview: Overview, parts: Collection[str] = PARTS) -> Iterator[Sheet]:
    """Yield the parts of an overview as sheets, in base units, for Markdown, CSV and JSON."""
    marks = {run: group.mark for group in overview.groups for run in group.runs}
    lines = [(f"lines_{status}", number) for status, number in overview.lines.items()]
    makers: dict[str, Callable[[], Sheet]] = {
        "log": lambda: pairs("log", [("name", join(overview.names)), ("what", overview.what), *lines]),
        "outcome": lambda: _sheet("outcome", [[text] for text in overview.outcome]),
        "runs": lambda: _runs(overview),
        "figures": lambda: _sheet("figures", list(_figures(overview))),
        "parts": lambda: _sheet("parts", [[part.name, part.seconds, part.share] for part in overview.parts]),
        "causes": lambda: _sheet("causes", list(_causes(overview, marks))),
        "failures": lambda: _sheet("failures", list(_failures(overview, marks))),
        "reasons": lambda: _sheet("reasons", [[text] for text in overview.reasons]),
        "doubts": lambda: _sheet("doubts", [_doubt(overview, doubt, marks) for doubt in overview.doubts]),
        "warnings": lambda: _sheet("warnings", [[text] for text in overview.warnings]),
        "next": lambda: _sheet("next", [[command] for command in overview.next]),
    }
    yield from (make() for part, make in makers.items() if part in parts)


def _sheet(part: str, rows: list[list[object]]) -> Sheet:
    columns = (SheetColumn(column.name, column.unit, column.name in _NUMBERS) for column in PARTS[part][1])
    return Sheet(part, tuple(columns), rows)


def _runs(overview: Overview) -> Sheet:
    """The rows as on the screen: a column for each setting in which they differ, and for each metric."""
    settings = list(overview.groups[0].settings) if overview.groups else []
    columns = [SheetColumn(name) for name in ("mark", "name")] + [SheetColumn("runs", number=True)]
    columns += [SheetColumn(name) for name in settings]
    for figure in overview.figures:
        columns += [SheetColumn(figure.name, figure.unit, True), SheetColumn(f"{figure.name} spread", "1", True)]
    columns += [SheetColumn("change", "1", True), *(SheetColumn(name) for name in ("base", "run", "log"))]
    columns += [SheetColumn("index", number=True), SheetColumn("settings")]
    rows = []
    for i, group in enumerate(overview.groups):
        row = [group.mark, group.name, len(group.runs), *group.settings.values()]
        for figure in overview.figures:
            row += [overview.value(figure, group), overview.spread(figure, group)]
        base = overview.groups[overview.base[i]].mark if i in overview.base else None
        key = overview.keys[group.runs[0]]
        rows.append([*row, overview.change(i), base, key.id, key.log, key.index, dict(group.settings)])
    return Sheet("runs", tuple(columns), rows)


def _figures(overview: Overview) -> Iterator[list[Any]]:
    for figure in overview.figures:
        doubts = [doubt for doubt in overview.doubts if figure.name in doubt.figures and doubt.severity != "note"]
        doubted = {run for doubt in doubts for run in doubt.runs}
        texts = overview.figure_column(figure)[1:]
        for group, text in zip(overview.groups, texts, strict=True):
            value = overview.value(figure, group)
            if value is not None:
                levels = figure.levels.get(group.runs[0]) if len(group.runs) == 1 else None
                yield [
                    group.mark, figure.name, figure.unit, figure.better, value, overview.spread(figure, group),
                    list(levels) if levels else None, not doubted.isdisjoint(group.runs), text,
                ]  # fmt: skip


def _causes(overview: Overview, marks: Mapping[str, str]) -> Iterator[list[object]]:
    names = [column.name for column in PARTS["causes"][1][1:]]
    for cause in overview.causes:
        yield [marks[cause.run], *(_known(getattr(cause, name)) for name in names)]


def _failures(overview: Overview, marks: Mapping[str, str]) -> Iterator[list[object]]:
    for ending in overview.failures:
        row = (ending.judged.first or ending.rows)[0]
        key = overview.keys.get(ending.run)
        outcome = "restarted" if ending.restarts else "went on" if ending.goes_on else "ended"
        ranks = [culprit.rank for culprit in ending.culprits if culprit.rank is not None]
        accused = [culprit.name for culprit in ending.culprits if culprit.name]
        yield [
            marks.get(ending.run), key.log if key else None, ending.line, outcome, ending.judged.kind or row.kind,
            ending.sentence, ranks, accused, ending.judged.certainty, ending.judged.why, ending.last_step,
            len(ending.rows), row.message[:_MESSAGE],
        ]  # fmt: skip


def _doubt(overview: Overview, doubt: Doubt, marks: Mapping[str, str]) -> list[object]:
    first = doubt.findings[0]
    key = overview.keys.get(first.run)
    lines = sorted(map(int, first.lines.get(first.run, ())))
    return [
        doubt.severity, doubt.code, doubt.title, len(doubt.runs), doubt.message, ", ".join(doubt.figures),
        marks.get(first.run), key.log if key else None, lines[0] if lines else None, first.action,
    ]  # fmt: skip


def _known(value: object) -> object:
    """The value, None instead of NaN."""
    return None if value != value else value
