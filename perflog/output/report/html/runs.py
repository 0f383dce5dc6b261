"""The sections of the runs, and of the lines of their logs."""

from __future__ import annotations

from typing import Any

from perflog.output.report.data import (
    FigureSource,
    LogSummary,
    ReportData,
    all_numbers,
    differing_settings,
    range_text,
)
from perflog.output.report.html.elements import (
    HeaderCell,
    Html,
    join,
    link,
    number_cell,
    shortened,
    sortable_table,
    tag,
    text_cell,
)
from perflog.output.report.html.links import MAX_RUNS, MAX_SHAPES, left_out_note, lines_link
from perflog.output.sheets import Quantity

_HEADLINES = (
    ("steady step time", "steps", "median_s", "s"),
    ("rate per GPU", "throughput", "tflops", "TFLOP/s"),
)
"""The numbers that a reader asks for first: title of the column; metric, its column, and unit."""
_RUN_COLUMNS = ("model", "program", "world_size", "device", "dtype")


def runs_section(report: ReportData) -> Html:
    """Return the tables of logs and runs, and the settings that all runs share."""
    return join((_logs(report), _runs(report), _shared_settings(report)))


def _logs(report: ReportData) -> Html:
    counts = (HeaderCell(name, number=True) for name in ("runs", "lines", "read", "context", "unread"))
    rows = [
        tag(
            "tr", tag("td", link(f"lines-{place}", shortened(log.name))), text_cell(log.format), number_cell(log.runs),
            number_cell(sum(log.lines.values())), *map(number_cell, log.lines.values()),
        )
        for place, log in enumerate(report.logs[:MAX_RUNS], 1)
    ]  # fmt: skip
    note = left_out_note(len(report.logs) - MAX_RUNS, "runs")
    return sortable_table("logs", [HeaderCell("log"), HeaderCell("format"), *counts], rows, note)


def _runs(report: ReportData) -> Html:
    settings = list(report.settings.values())
    differing = differing_settings(settings)
    names = [n for n in _RUN_COLUMNS if n not in differing and any(run[n] is not None for run in report.runs)]
    columns: dict[str, list[Any]] = (
        _headlines(report)
        | {n: [run[n] for run in report.runs] for n in names}
        | {n: [values.get(n) for values in settings] for n in differing}
    )
    columns |= {"steps": [report.steps.get(run["run"]) for run in report.runs]} if report.steps else {}
    numbers = {n for n, values in columns.items() if all_numbers(values)}
    rows = []
    for i, run in enumerate(report.runs[:MAX_RUNS]):
        name, id = tag("td", shortened(report.names[run["run"]])), tag("td", tag("code", run["run"]))
        cells = (number_cell(v[i]) if n in numbers else text_cell(v[i]) for n, v in columns.items())
        source = FigureSource(run["run"], range_text(run["first_line"], run["last_line"]))
        rows.append(tag("tr", name, id, *cells, tag("td", lines_link(report, source)), id=f"run-{i + 1}"))
    heads = (HeaderCell(n.replace("_", " "), n in numbers) for n in columns)
    note = left_out_note(len(report.runs) - MAX_RUNS, "runs")
    return sortable_table("runs", [HeaderCell("run"), HeaderCell("id"), *heads, HeaderCell("lines")], rows, note)


def _headlines(report: ReportData) -> dict[str, list[Any]]:
    """Return the columns of the numbers that a reader asks for first: medians of the steady steps."""
    columns: dict[str, list[Any]] = {}
    for title, metric, column, unit in _HEADLINES:
        rows = next((table.rows for table in report.metrics if table.name == metric), ())
        steady = {r["run"]: r[column] for r in rows if r["part"] == "steady" and r.get("of") in (None, "step_time")}
        if any(value is not None for value in steady.values()):
            columns[title] = [Quantity(steady.get(run["run"]), unit) for run in report.runs]
    return columns


def _shared_settings(report: ReportData) -> Html:
    settings = list(report.settings.values())
    differing = set(differing_settings(settings))
    shared = {name: value for name, value in settings[0].items() if name not in differing} if settings else {}
    if not shared:
        return Html()
    entries = (
        tag("div", tag("dt", tag("code", shortened(name))), tag("dd", shortened(value)))
        for name, value in shared.items()
    )
    title = "Settings" if len(settings) == 1 else "Settings that are the same in all runs"
    content = tag("div", tag("dl", *entries), class_="definition")
    return tag("details", tag("summary", f"{title} ({len(shared)})"), content)


# --- lines --------------------------------------------------------------------------------------------------------


def lines_section(report: ReportData) -> Html:
    """Return the number of lines of each log by status, with a sample of each line shape."""
    intro = tag(
        "p",
        "Every line of a log counts as one of three: read (a table holds its values), context (known, without values) "
        "or unread (no format describes it). Lines of one shape are one row here, with the first of them as a sample.",
    )
    return join([intro, *(_log_lines(place, log) for place, log in enumerate(report.logs[:MAX_RUNS], 1))])


def _log_lines(place: int, log: LogSummary) -> Html:
    tables: set[str | None] = set()
    rows = []
    for shape in log.shapes[:MAX_SHAPES]:
        first_of_table = shape.table is not None and shape.table not in tables
        tables.add(shape.table)
        rows.append(
            tag(
                "tr", number_cell(shape.first_line), number_cell(shape.count), text_cell(shape.table or shape.status),
                tag("td", shortened(shape.sample), class_="line"),
                id=f"lines-{place}-{shape.table}" if first_of_table else None, data_table=shape.table,
            )
        )  # fmt: skip
    heads = [
        HeaderCell("first line", number=True),
        HeaderCell("lines", number=True),
        HeaderCell("table"),
        HeaderCell("sample"),
    ]
    account = "{read} lines read, {context} context, {unread} unread".format(**log.lines)
    note = left_out_note(len(log.shapes) - MAX_SHAPES, "show RUN lines")
    return tag(
        "section",
        tag("h3", shortened(log.name)),
        tag("p", f"{account}. SHA-256 {log.sha256}", class_="faint"),
        sortable_table(f"lines of {log.name}", heads, rows, note),
        id=f"lines-{place}",
    )
