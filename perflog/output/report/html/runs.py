"""The sections of the runs, and of the lines of their logs."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.output.report.data import (
    FigureSource,
    LogSummary,
    ReportData,
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
from perflog.output.report.html.links import MAX_RUNS, MAX_SHAPES, findings_by_run, left_out_note, lines_link

_RUN_COLUMNS = ("model", "program", "world_size", "device", "dtype")


def runs_section(report: ReportData) -> Html:
    """Return the table of logs, the settings that all runs share, and the details of each run."""
    note = left_out_note(len(report.runs) - MAX_RUNS, "runs")
    more = tag("p", note, class_="more") if note else ""
    return join((_logs(report), _shared_settings(report), *_run_details(report), more))


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


def _run_details(report: ReportData) -> Iterator[Html]:
    """A folded part for each run: where it stands, its settings that differ, and what speaks against its figures."""
    differing = differing_settings(list(report.settings.values()))
    names = [n for n in _RUN_COLUMNS if n not in differing]
    against = findings_by_run(report)
    for place, run in enumerate(report.runs[:MAX_RUNS], 1):
        settings = report.settings[run["run"]]
        source = FigureSource(run["run"], range_text(run["first_line"], run["last_line"]))
        facts = {
            "log": shortened(run["log"]),
            "lines": lines_link(report, source),
            "id": tag("code", run["run"]),
            "steps": shortened(report.steps.get(run["run"])),
            **{name: shortened(settings.get(name)) for name in differing},
            **{name.replace("_", " "): shortened(run[name]) for name in names if run[name] is not None},
        }
        entries = (tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items())
        findings = (
            tag("li", tag("span", f.severity, class_=f"badge {f.severity}"), " ",
                link(f"finding-{f.severity}-{f.code}", group.rule.title))
            for group in against.get(run["run"], ()) for f in group.findings[:1]
        )  # fmt: skip
        yield tag(
            "details",
            tag("summary", shortened(report.names[run["run"]])),
            tag("div", tag("dl", *entries), class_="definition"),
            tag("ul", *findings, class_="doubts"),
            id=f"run-{place}",
            class_="run",
        )


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
