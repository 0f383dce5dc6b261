"""The sections of the runs, and of the lines of their logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from perflog.output.report.answers import doubts_by_run, run_index
from perflog.output.report.cells import HeaderCell
from perflog.output.report.data import FigureSource, ReportData, TableRow, differing_settings, range_text
from perflog.output.report.html.elements import (
    MAX_MESSAGE,
    Html,
    breakable,
    join,
    link,
    number_cell,
    shortened,
    sortable_table,
    tag,
    text_cell,
)
from perflog.output.report.html.links import MAX_RUNS, MAX_SHAPES, left_out_note, lines_link
from perflog.output.report.html.overview import answer_table
from perflog.parsing.input.log_names import base_name

_MANY_RUNS, _NEARLY_ALL = 10, 0.9  # runs, and the share of them that makes a setting usual
_RUN_COLUMNS = ("model", "program", "world_size", "device", "dtype")


def runs_section(report: ReportData) -> Html:
    """Return the runs, their logs, and the settings that all runs share."""
    index = answer_table(run_index(report), report) if report.comparison else ""
    return join((index, _runs(report), _logs(report), _shared_settings(report)))


def _runs(report: ReportData) -> Html:
    """A row for each run: its settings that differ, its lines, and the findings on it."""
    differing = differing_settings(list(report.settings.values()))
    usual = _usual_settings([*report.settings.values()], differing)
    against = doubts_by_run(report.overview)
    rows = []
    for place, run in enumerate(report.runs[:MAX_RUNS], 1):
        id, settings = run["run"], report.settings[run["run"]]
        told = ", ".join(
            f"{name}={settings.get(name, '-')}"
            for name in differing
            if settings.get(name) != usual.get(name) and (name in settings or name in usual)
        )
        findings = (link(f"finding-{doubt.code}", tag("code", doubt.code)) for doubt in against.get(id, ()))
        rows.append(tag(
            "tr", tag("td", breakable(report.names[id]), class_="name"), text_cell(told or "-"),
            tag("td", breakable(base_name(run["log"])), title=run["log"]),
            tag("td", lines_link(report, FigureSource(id, range_text(run["first_line"], run["last_line"])))),
            tag("td", join(findings, ", ") or "-"), tag("td", tag("code", id)),
            id=f"run-{place}",
        ))  # fmt: skip
    heads = map(HeaderCell, ("run", "settings that differ", "log", "lines", "findings", "id"))
    table = sortable_table("runs", list(heads), rows, left_out_note(len(report.runs) - MAX_RUNS, "runs"))
    return join((_usual_note(usual), table))


def _usual_settings(settings: Sequence[TableRow], differing: Sequence[str]) -> TableRow:
    """The values of settings that nearly all runs share: rows name them only where they are others."""
    usual = {}
    for name in differing if len(settings) >= _MANY_RUNS else ():
        values = [json.dumps(run_settings[name]) for run_settings in settings if name in run_settings]
        value, number = Counter(values).most_common(1)[0]
        if number >= _NEARLY_ALL * len(settings):
            usual[name] = json.loads(value)
    return usual


def _usual_note(usual: TableRow) -> Html:
    told = ", ".join(f"{name}={value}" for name, value in usual.items())
    return tag("p", "Unless a row says otherwise: ", shortened(told, MAX_MESSAGE), class_="faint") if usual else Html()


def _logs(report: ReportData) -> Html:
    counts = (HeaderCell(name, number=True) for name in ("runs", "lines", "read", "context", "unread"))
    rows = [
        tag(
            "tr", tag("td", breakable(base_name(log.name)), title=log.name), text_cell(log.format),
            number_cell(log.runs),
            number_cell(sum(log.lines.values())), *map(number_cell, log.lines.values()),
            tag("td", tag("code", log.sha256[:12]), title=log.sha256),
        )
        for log in report.logs[:MAX_RUNS]
    ]  # fmt: skip
    heads = [HeaderCell("log"), HeaderCell("format"), *counts, HeaderCell("SHA-256")]
    return sortable_table("logs", heads, rows, left_out_note(len(report.logs) - MAX_RUNS, "runs"))


def _shared_settings(report: ReportData) -> Html:
    shared = dict(_shared(report))
    if not shared:
        return Html()
    entries = (
        tag("div", tag("dt", tag("code", shortened(name))), tag("dd", shortened(value)))
        for name, value in shared.items()
    )
    title = "Settings" if len(report.runs) == 1 else "Settings that are the same in all runs"
    content = tag("div", tag("dl", *entries), class_="definition")
    return tag("details", tag("summary", f"{title} ({len(shared)})"), content)


def _shared(report: ReportData) -> Iterator[tuple[str, object]]:
    """What all runs have in common: columns of table `runs`, then settings."""
    settings = list(report.settings.values())
    differing = set(differing_settings(settings))
    for name in _RUN_COLUMNS:
        values = {run[name] for run in report.runs}
        if len(values) == 1 and None not in values and name not in settings[0]:
            yield name, report.runs[0][name]
    yield from ((name, value) for name, value in settings[0].items() if name not in differing)


# --- lines --------------------------------------------------------------------------------------------------------


def lines_section(report: ReportData) -> Html:
    """Return the line shapes of all logs, with their number of lines and a sample."""
    intro = tag(
        "p",
        "Every line of a log counts as one of three: read (a table holds its values), context (known, without values) "
        "or unread (no format describes it). Lines of one shape are one row here, with the first of them as a sample.",
    )
    tables: set[str | None] = set()
    several = len(report.logs) > 1
    rows = []
    for shape in report.shapes[:MAX_SHAPES]:
        first_of_table = shape.table is not None and shape.table not in tables
        tables.add(shape.table)
        log = breakable(base_name(shape.first_log))
        rows.append(
            tag(
                "tr", number_cell(shape.first_line), *[tag("td", log), number_cell(shape.logs)] * several,
                number_cell(shape.count), text_cell(shape.table or shape.status),
                tag("td", shortened(shape.sample), class_="line"),
                id=f"lines-{shape.table}" if first_of_table else None, data_table=shape.table,
            )
        )  # fmt: skip
    log_heads = [HeaderCell("of"), HeaderCell("logs", number=True)] * several
    heads = [HeaderCell("first line", number=True), *log_heads, HeaderCell("lines", number=True), HeaderCell("table"),
             HeaderCell("sample")]  # fmt: skip
    note = left_out_note(len(report.shapes) - MAX_SHAPES, "show RUN lines")
    return join((intro, sortable_table("lines", heads, rows, note)))
