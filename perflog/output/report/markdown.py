"""A report as Markdown for a pull request: short, and readable as plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from perflog.analysis.lint import SEVERITIES
from perflog.output import sheets
from perflog.output.presenters import compare as comparison_presenter
from perflog.output.report.answers import Answer, Doubts, answers
from perflog.output.report.cells import AnswerTable, Bar, Cell, FindingCounts, Number, Part, RunName
from perflog.output.report.data import MetricTable, ReportData, all_numbers, differing_settings, range_text
from perflog.output.report.job import job_tables
from perflog.output.report.sections import Section, sections
from perflog.output.sheets import Sheet, SheetColumn, escaped
from perflog.output.terminal import visible
from perflog.parsing.input.log_names import base_name
from perflog.units import count

_MAX_RUNS = 12
_MAX_FINDINGS = 3  # of each rule
_MAX_ROWS = 8  # of each metric


def to_markdown(report: ReportData) -> str:
    """Return a report as Markdown: the sections of a page in the same order, the details folded and cut."""
    parts = [f"# {escaped(report.title)}", *(_section(*written) for written in sections(report, _WRITERS))]
    return visible("\n\n".join(parts)) + "\n"


def _section(section: Section, content: str) -> str:
    if section.anchor == "overview":
        return content
    return f"## {section.heading}\n\n{content}" if section.seen else _folded(section.heading, content)


def _folded(heading: str, content: str) -> str:
    """Return a part in an element that GitHub opens at a click."""
    return f"<details><summary>{heading}</summary>\n\n{content}\n\n</details>"


def _sheet_text(sheet: Sheet) -> str:
    return "\n".join(sheets.markdown([sheet]))


# --- answers ------------------------------------------------------------------------------------------------------


def _answer(answer: Answer) -> str:
    if isinstance(answer, AnswerTable):
        return _table(answer)
    if isinstance(answer, Doubts):
        return "\n".join(_doubts(answer))
    text = escaped(answer.text)
    return text if answer.kind == "subject" else f"**{text}**"


def _table(table: AnswerTable) -> str:
    """Return a table of an answer without its bars; of many runs the first."""
    drawn = [i for i, cells in enumerate(zip(*table.rows, strict=True)) if not all(map(_is_bar_alone, cells))]
    columns = tuple(SheetColumn(table.heads[i].name, number=table.heads[i].number) for i in drawn)
    rows = [[_cell(row[i]) for i in drawn] for row in table.rows[: 2 * _MAX_RUNS]]
    left_out = len(table.rows) - len(rows)
    return _sheet_text(Sheet("", columns, rows, note="\n".join(filter(None, (_more(left_out), table.note)))))


def _titled(table: AnswerTable) -> str:
    """Return a table under the title that its first head has not."""
    return _table(table) if table.heads[0].name == table.title else f"**{table.title}**\n\n{_table(table)}"


def _is_bar_alone(cell: Cell) -> bool:
    return isinstance(cell, Bar) and not cell.texts


def _cell(cell: Cell) -> str | None:
    match cell:
        case Part(name, depth):
            return "· " * depth + name
        case Number(_, text) | RunName(text, _):
            return text
        case Bar(texts=texts):
            return ", ".join(texts)
        case FindingCounts(counts):
            return ", ".join(count(number, severity) for severity, number in counts.items())
    return cell


def _doubts(doubts: Doubts) -> Iterator[str]:
    if not doubts.shown and not doubts.warnings:
        yield "The checks found nothing that puts these numbers in doubt."
        return
    yield "**Do not trust**\n"
    yield from (f"- {escaped(text)}" for text in doubts.warnings)
    for doubt, place in zip(doubts.shown, doubts.places, strict=True):
        where = f" ({place})" if place else ""
        yield f"- **{doubt.severity}: {escaped(doubt.title)}**{where}: {escaped(sheets.cell(doubt.message))}"
    if doubts.left_out:
        yield f"\nand {count(doubts.left_out, 'more kind')} of finding"


# --- details ------------------------------------------------------------------------------------------------------


def _comparison(report: ReportData) -> str:
    comparison = report.comparison
    if comparison is None:
        return f"Not compared: {escaped(report.not_compared)}" if report.not_compared else ""
    about_sides = tuple(finding for finding in comparison.finding_records if finding.run is None)
    side_comparison = replace(comparison, finding_records=about_sides)  # those on single runs stand in their section
    comparison_sheets = comparison_presenter.comparison(side_comparison, "md")
    return "\n\n".join(_sheet_text(replace(sheet, rows=list(sheet.rows))) for sheet in comparison_sheets)


def _findings(report: ReportData) -> str:
    """Return a list of rules, the most severe first, each with its first findings and the number of its runs."""
    counts = Counter(finding.severity for doubt in report.overview.doubts for finding in doubt.findings)
    lines = [", ".join(count(counts[s], s) for s in SEVERITIES if counts[s]) or "No findings.", ""]
    for doubt in report.overview.doubts:
        left_out = len(doubt.findings) - _MAX_FINDINGS
        lines.append(f"- **{doubt.severity}: {doubt.title}** (`{doubt.code}`): {doubt.rule.action}")
        for finding in doubt.findings[:_MAX_FINDINGS]:
            run = f"{escaped(report.names[finding.run])}: " if len(report.runs) > 1 else ""
            lines.append(f"  - {run}{escaped(sheets.cell(finding.message))} (line {finding.first_line})")
        if left_out > 0:
            lines.append(f"  - and {left_out} more, in {report.in_words(len(doubt.runs_of_any_severity))} together")
    return "\n".join(lines)


def _metric(table: MetricTable, report: ReportData) -> str:
    """Return the first rows of a metric, and its formula."""
    columns = [c for c in table.columns if c.brief]
    numbers = {c.name for c in columns if all_numbers(row[c.name] for row in table.rows)}
    shown = [*(SheetColumn(c.name, c.unit, c.name in numbers, c.short) for c in columns), SheetColumn("lines")]
    rows = [
        (*(row[c.name] for c in columns), ", ".join(source.lines for source in sources))
        for row, sources in islice(zip(table.rows, table.sources, strict=True), _MAX_ROWS)
    ]
    if len(report.runs) > 1:
        shown = [SheetColumn("run"), *shown]
        runs = (", ".join(report.names[source.run] for source in sources) for sources in table.sources)
        rows = [(name, *row) for name, row in zip(runs, rows, strict=False)]
    left_out = len(table.rows) - len(rows)
    note = f"{count(left_out, 'more row')}: perflog analyze RUN {table.name} --format csv\n" if left_out else ""
    return _sheet_text(Sheet(table.name, tuple(shown), rows, note=f"{note}{table.formula}"))


def _runs(report: ReportData) -> str:
    differing = differing_settings(list(report.settings.values()))
    names = [n for n in ("model", "world_size", "device", "dtype") if n not in differing]
    names = [n for n in names if any(run[n] is not None for run in report.runs)]
    rows: list[Sequence[object]] = []
    for run in report.runs[:_MAX_RUNS]:
        settings = report.settings[run["run"]]
        values = [*(run[n] for n in names), *(settings.get(n) for n in differing)]
        lines = range_text(run["first_line"], run["last_line"])
        rows.append((report.names[run["run"]], *values, report.steps.get(run["run"]), lines))
    columns = tuple(map(SheetColumn, ("run", *names, *differing, "steps", "lines")))
    return _sheet_text(Sheet("runs", columns, rows, note=_more(len(report.runs) - _MAX_RUNS)))


def _logs(report: ReportData) -> str:
    rows = [(base_name(log.name), log.format, log.runs, *log.lines.values()) for log in report.logs[:_MAX_RUNS]]
    sheet = sheets.sheet("logs", "log format runs# read# context# unread#", rows)
    return _sheet_text(replace(sheet, note=_more(len(report.logs) - _MAX_RUNS)))


def _more(left_out: int) -> str:
    return f"{left_out} more" if left_out > 0 else ""


_WRITERS = {
    "overview": lambda report: "\n\n".join(map(_answer, answers(report))),
    "job": lambda report: "\n\n".join(map(_titled, job_tables(report))),
    "comparison": _comparison,
    "findings": _findings,
    "metrics": lambda report: "\n\n".join(_folded(each.title, _metric(each, report)) for each in report.metrics),
    "runs": lambda report: f"{_runs(report)}\n\n{_logs(report)}",
}
