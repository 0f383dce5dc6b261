"""A report as Markdown for a pull request: short, and readable as plain text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from perflog.analysis.lint import SEVERITIES
from perflog.analysis.overview import Overview
from perflog.output import sheets
from perflog.output.presenters import compare as comparison_presenter
from perflog.output.presenters.overview import unread_in_words
from perflog.output.report.data import MetricTable, ReportData, all_numbers, differing_settings, range_text
from perflog.output.sheets import Sheet, SheetColumn, escaped
from perflog.output.terminal import visible

_MAX_RUNS = 12
_MAX_FINDINGS = 3  # of each rule
_MAX_ROWS = 8  # of each metric
_MAX_PARTS = 5


def to_markdown(report: ReportData) -> str:
    """Return a report as Markdown: logs, runs, verdicts, findings, and the first rows of each metric."""
    return visible("\n\n".join(_parts(report))) + "\n"


def _parts(report: ReportData) -> Iterator[str]:
    yield f"# {escaped(report.title)}"
    yield "\n".join(_overview(report.overview))
    yield from (_sheet_text(_logs(report)), _sheet_text(_runs(report)))
    if report.comparison:
        about_sides = tuple(finding for finding in report.comparison.finding_records if finding["run"] is None)
        comparison = replace(report.comparison, finding_records=about_sides)  # findings about single runs stand below
        for sheet in comparison_presenter.comparison(comparison, "md"):
            yield _sheet_text(replace(sheet, rows=list(sheet.rows)))
    elif report.not_compared:
        yield f"Not compared: {escaped(report.not_compared)}"
    yield "## findings on single runs" if report.comparison else "## findings"
    yield "\n".join(_findings(report))
    for table in report.metrics:
        yield _folded(table, report)


def _overview(overview: Overview) -> Iterator[str]:
    """What ran, where the time goes and why, as a paragraph and a list."""
    yield escaped(f"{overview.what}; {unread_in_words(overview)}")
    yield ""
    yield from (f"- {escaped(text)}" for text in overview.reasons)
    shown = (f"{escaped(part.name)} {100 * part.share:.0f} %" for part in overview.parts[:_MAX_PARTS])
    if overview.parts:
        yield f"- Where the time goes: {', '.join(shown)}"


def _sheet_text(sheet: Sheet) -> str:
    return "\n".join(sheets.markdown([sheet]))


def _logs(report: ReportData) -> Sheet:
    rows = [(os.path.basename(log.name), log.format, log.runs, *log.lines.values()) for log in report.logs[:_MAX_RUNS]]
    sheet = sheets.sheet("logs", "log format runs# read# context# unread#", rows, "logs")
    return _with_note(sheet, len(report.logs))


def _runs(report: ReportData) -> Sheet:
    differing = differing_settings(list(report.settings.values()))
    names = [n for n in ("model", "world_size", "device", "dtype") if n not in differing]
    names = [n for n in names if any(run[n] is not None for run in report.runs)]
    rows = []
    for run in report.runs[:_MAX_RUNS]:
        settings = report.settings[run["run"]]
        values = [*(run[n] for n in names), *(settings.get(n) for n in differing)]
        lines = range_text(run["first_line"], run["last_line"])
        rows.append((report.names[run["run"]], *values, report.steps.get(run["run"]), lines))
    columns = tuple(map(SheetColumn, ("run", *names, *differing, "steps", "lines")))
    return _with_note(Sheet("runs", columns, rows, "runs"), len(report.runs))


def _with_note(sheet: Sheet, total: int) -> Sheet:
    return replace(sheet, note=f"{total - _MAX_RUNS} more" if total > _MAX_RUNS else "")


def _findings(report: ReportData) -> Iterator[str]:
    """Give the lines of a list: rule by rule, the most severe first."""
    counts = Counter(finding.severity for group in report.findings for finding in group.findings)
    yield ", ".join(f"{counts[s]} {s}{'s' * (counts[s] != 1)}" for s in SEVERITIES if counts[s]) or "No findings."
    yield ""
    for group in report.findings:
        first = group.findings[0]
        yield f"- **{first.severity}: {group.rule.title}** (`{group.rule.code}`): {first.action}"
        for finding in group.findings[:_MAX_FINDINGS]:
            run = f"{escaped(report.names[finding.run])}: " if len(report.runs) > 1 else ""
            yield f"  - {run}{escaped(sheets.cell(finding.message))} (line {finding.first_line})"
        if len(group.findings) > _MAX_FINDINGS:
            yield f"  - and {len(group.findings) - _MAX_FINDINGS} more"


def _folded(table: MetricTable, report: ReportData) -> str:
    """Return the first rows of a metric in an element that GitHub opens at a click."""
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
    note = f"{left_out} more rows: perflog analyze RUN {table.name} --format csv\n" if left_out else ""
    text = _sheet_text(Sheet(table.name, tuple(shown), rows, note=f"{note}{table.formula}"))
    return f"<details><summary>{table.title}</summary>\n\n{text}\n\n</details>"
