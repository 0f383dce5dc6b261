"""Collects the contents of a report from logs: runs, findings, comparison, plots, metrics, lines."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from perflog.analysis.compare import Comparison, VerdictRule
from perflog.analysis.compare.comparing import compare_sides
from perflog.analysis.compare.sides import resolve_sides, setting_names, stores_of
from perflog.analysis.diagnosis import diagnose_jobs
from perflog.analysis.overview import overview_of
from perflog.analysis.overview.run_groups import NOT_PRINTED, RunGroup
from perflog.analysis.overview.subject import steps_done
from perflog.analysis.run_names import run_places
from perflog.errors import UsageError
from perflog.formats.registry import known
from perflog.grouping import grouped
from perflog.log import Log, RunKey, combined
from perflog.metrics import METRICS, Metric, Options, Tables
from perflog.opening.given_runs import Given, log_of
from perflog.opening.tables_as_logs import without_tables
from perflog.output.presenters.metrics import metric_sheet
from perflog.output.report.comparison_tables import comparison_tables
from perflog.output.report.data import (
    FigureSource,
    LogSummary,
    MetricTable,
    ReportData,
    ShapeSummary,
    TableRow,
    informative_columns,
    range_text,
)
from perflog.output.report.sketches import metric_order, sketched_plots
from perflog.parsing.failures.kinds import NOTICE
from perflog.parsing.match.discovery import discovered_line
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd


_DIAGNOSED = 200  # logs


def collect(
    *runs: Given,
    store: str | os.PathLike[str] | None = None,
    by: str | Sequence[str] = (),
    options: Options | None = None,
    draw: bool = True,
    comparison: Comparison | None = None,
) -> ReportData:
    """Collect the contents of a report on one log, or on several runs and their comparison.

    A run that appears in several logs counts once.

    Args:
        runs: Logs, names of runs as `perflog.find_runs` takes them, tables, or lists of these; several, also in a
            mapping of names to them, are the sides of a comparison.
        store: The store in which names of runs are looked up.
        by: A setting, or several: each of their values is a side of the comparison.
        options: Options of the metrics.
        draw: Whether to draw plots.
        comparison: The comparison of these runs, where there is one already.

    Raises:
        PerflogError: A log cannot be read, or a name means no run.
    """
    options = options or Options()
    logs: tuple[Log, ...]
    not_compared = None
    if comparison is None:
        logs, comparison, not_compared = _logs_and_comparison(runs, store, by, options)
    else:
        logs = tuple(log_of(given, store) for given in runs)
    log = combined(logs)
    tables = Tables(log)
    run_rows = [{name: value for name, value in run.items() if name != "printout"} for run in _rows(tables, "runs")]
    settings = {run["run"]: json.loads(run["config"] or "{}") for run in run_rows}
    lines = _rows(tables, "lines")
    overview = overview_of(log, tables, options)
    metrics = [(metric, metric.table(tables, options)) for metric in sorted(METRICS.values(), key=metric_order)]
    return ReportData(
        overview=overview,
        diagnoses=diagnose_jobs(log, tables=tables) if len({key.log for key in log.run_keys}) <= _DIAGNOSED else [],
        failures=[row for row in _rows(tables, "failures") if row["severity"] != NOTICE],
        runs=run_rows,
        names=_run_names(log.run_keys, overview.groups, comparison),
        settings=settings,
        warnings=list(dict.fromkeys(text for log in logs for text in log.warnings)),
        steps=steps_done(tables),
        logs=_log_summaries(run_rows, lines),
        shapes=_shape_summaries(run_rows, lines),
        metrics=[_metric_table(metric, table, run_rows) for metric, table in metrics if len(table)],
        plots=list(sketched_plots(tables, options)) if draw else [],
        comparison=comparison,
        comparison_tables=comparison_tables(comparison, run_rows) if comparison else [],
        not_compared=not_compared,
    )


def _rows(tables: Tables, name: str) -> list[TableRow]:
    return list(tables.rows(name).dicts(*(column.name for column in TABLES[name])))


def _logs_and_comparison(
    runs: Sequence[Given],
    store: str | os.PathLike[str] | None,
    by: str | Sequence[str],
    options: Options,
) -> tuple[tuple[Log, ...], Comparison | None, str | None]:
    """Return the logs, their comparison, and the reason if several runs cannot be compared."""
    runs = without_tables(runs)
    sides = len(runs[0]) if len(runs) == 1 and isinstance(runs[0], Mapping) else len(runs)
    if sides < 2 and not by:
        return (log_of(runs, store),), None, None
    compared = resolve_sides(runs, store, by)
    logs = tuple(side.log for side in compared)
    rule = VerdictRule(level=options.level)
    try:
        history = stores_of(runs, store)
        names = setting_names(by)
        return logs, compare_sides(compared, rule, options.warmup, (), (), history, options.targets, names), None
    except UsageError as error:  # runs that have nothing in common are still worth a report
        return logs, None, str(error)


_MAX_NAME = 60  # characters of settings up to which they serve as the name of a run


def _run_names(keys: Sequence[RunKey], groups: Sequence[RunGroup], comparison: Comparison | None) -> dict[str, str]:
    """Return a unique name for each run: its side, label, settings in which all differ, or log and number.

    A setting that some runs do not print names none of them.
    """
    by_settings = {
        run: ", ".join(f"{name}={value}" for name, value in group.settings.items())
        for group in groups
        for run in group.runs
    }
    all_differ = len(set(by_settings.values())) == len(keys)
    all_known = not any(value == NOT_PRINTED for group in groups for value in group.settings.values())
    all_short = all(len(text) <= _MAX_NAME for text in by_settings.values())
    candidates = [
        _side_of_runs(comparison) if comparison else {},
        {key.id: key.label or "" for key in keys},
        by_settings if all_differ and all_known and all_short else {},
    ]
    places = run_places(keys)
    counts = [Counter(names.values()) for names in candidates]

    def name(run: str) -> str:
        names_of_run = (names.get(run, "") for names in candidates)
        unique = (text for text, count in zip(names_of_run, counts, strict=True) if text and count[text] == 1)
        return next(unique, places[run])

    return {key.id: name(key.id) for key in keys}


def _side_of_runs(comparison: Comparison) -> dict[str, str]:
    pairs = ((side, runs) for case in comparison.cases for side, runs in zip(comparison.sides, case.runs, strict=True))
    return {run: side for side, runs in pairs for run in runs}


# --- metrics -------------------------------------------------------------------------------------------------------


def _metric_table(metric: Metric, table: pd.DataFrame, runs: Sequence[TableRow]) -> MetricTable:
    sheet = metric_sheet(metric, table, "json")
    rows = [dict(zip((c.name for c in sheet.columns), row, strict=True)) for row in sheet.rows]
    run_lines = {run["run"]: range_text(run["first_line"], run["last_line"]) for run in runs}
    sources = [
        (FigureSource(row["run"], _range_of(row, "line") or run_lines[row["run"]]),) if row["run"] else ()
        for row in rows
    ]
    texts = {c.name for c in metric.columns if any(isinstance(row[c.name], str) for row in rows)}
    columns = informative_columns(metric.columns, rows)
    return MetricTable(
        name=metric.name,
        title=metric.title,
        formula=metric.formula,
        source=metric.source,
        needs=metric.needs,
        columns=tuple(sorted(columns, key=lambda c: (not c.brief, c.name not in texts))),  # names before numbers
        rows=rows,
        windows=[_range_of(row, "step") for row in rows],
        sources=sources,
    )


def _range_of(row: TableRow, unit: str) -> str:
    """Return the range of steps or lines of a metric's row; empty where the row has none."""
    first, last = row.get(f"first_{unit}"), row.get(f"last_{unit}")
    if first is None:
        first = last = row.get(unit)
    return "" if first is None else range_text(int(first), None if last is None else int(last))  # nulls make floats


# --- logs ---------------------------------------------------------------------------------------------------------


def _log_summaries(runs: Sequence[TableRow], lines: Sequence[TableRow]) -> list[LogSummary]:
    counts: dict[str, Counter[str]] = {}
    for shape in lines:
        counts.setdefault(shape["run"], Counter())[shape["status"]] += shape["count"]
    members = grouped((run["log_sha256"], run) for run in runs)
    logs = []
    for sha256, log_runs in members.items():
        run_counts = [counts.get(run["run"], Counter()) for run in log_runs]
        formats = [run["format"] for run in log_runs]
        logs.append(
            LogSummary(
                name=log_runs[0]["log"],
                sha256=sha256,
                format=max(formats, key=formats.count),
                runs=len(log_runs),
                lines={status: sum(c[status] for c in run_counts) for status in ("read", "context", "unread")},
            )
        )
    return logs


def _shape_summaries(runs: Sequence[TableRow], lines: Sequence[TableRow]) -> list[ShapeSummary]:
    """Return each shape once, in the order of their first lines; runs and logs share shapes."""
    table_of = {line.template.text: line.table for format in known().values() for line in format.lines}
    log_of = {run["run"]: (place, run["log"]) for place, run in enumerate(runs)}
    from_lines = {run["run"] for run in runs if run["format"] in known()}  # not from a trace or a database
    logs_of: dict[tuple[str, str], set[str]] = {}
    summaries: dict[tuple[str, str], ShapeSummary] = {}
    for shape in sorted(lines, key=lambda shape: (log_of[shape["run"]], shape["first_line"])):
        status, text, sample = shape["status"], shape["shape"], shape["sample"] or ""
        log = log_of[shape["run"]][1]
        logs = logs_of.setdefault((status, text), set())
        logs.add(log)
        if (status, text) in summaries:
            first = summaries[status, text]
            summaries[status, text] = replace(first, count=first.count + shape["count"], logs=len(logs))
            continue
        if status == "read" and text not in table_of and shape["run"] in from_lines:
            line = discovered_line(known().values(), text, sample)
            table_of[text] = line.table if line else None
        table = table_of.get(text) if status == "read" else None
        summaries[status, text] = ShapeSummary(status, table, shape["count"], 1, log, shape["first_line"], sample)
    return list(summaries.values())
