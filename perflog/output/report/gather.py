"""From the logs to what a report shows: runs, findings, comparison, pictures, metrics, lines."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perflog import plots
from perflog.analysis.compare import Comparison, VerdictRule
from perflog.analysis.compare.comparison import compare_sides
from perflog.analysis.compare.sides import resolve_sides
from perflog.analysis.lint import RULES, SEVERITIES, Finding, Severity, findings
from perflog.errors import UsageError
from perflog.formats.registry import known
from perflog.log import Log, find_runs
from perflog.metrics import METRICS, Metric, Options, Tables
from perflog.metrics.registry import merge_tables
from perflog.output.presenters.metrics import of_metric
from perflog.output.report.compared import compared
from perflog.output.report.subject import (
    Found,
    LogLines,
    Measured,
    Picture,
    Row,
    Shape,
    Source,
    Subject,
    span,
    telling,
    varying,
)
from perflog.parsing.match.discovery import line_of
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd


Given = str | os.PathLike[str] | Log


def gather(
    *given: Given,
    store: str | None = None,
    by: str | None = None,
    options: Options | None = None,
    pictures: bool = True,
) -> Subject:
    """What there is to show of runs: of one log or reference, or of the sides of a comparison and how they compare.

    `by`: a setting whose values are the sides. A run that is in several of them counts once. Raises PerflogError where
    something cannot be read, or is not there.
    """
    options = options or Options()
    logs, comparison = _asked(given, store, by, options)
    tables = merge_tables(logs)
    runs = _rows(tables["runs"].drop(columns=["printout"], errors="ignore"))
    settings = {r["run"]: json.loads(r["config"] or "{}") for r in runs}
    metrics = ((metric, metric.table(tables, options)) for metric in sorted(METRICS.values(), key=_order))
    return Subject(
        runs=runs,
        names=_names(runs, settings, comparison),
        settings=settings,
        warnings=list(dict.fromkeys(text for log in logs for text in log.warnings)),
        steps=tables["steps"].groupby("run")["step"].nunique().to_dict(),
        logs=_logs(runs, _rows(tables["lines"])),
        found=_found(tables, options),
        measured=[_measured(metric, table, runs) for metric, table in metrics if len(table)],
        pictures=_pictures(tables, options) if pictures else [],
        comparison=comparison,
        compared=compared(comparison, runs) if isinstance(comparison, Comparison) else [],
    )


def _asked(
    given: Sequence[Given], store: str | None, by: str | None, options: Options
) -> tuple[tuple[Log, ...], Comparison | str | None]:
    """The logs, and their comparison, or why there is none."""
    if len(given) == 1 and by is None:
        only = given[0]
        return (only if isinstance(only, Log) else find_runs(os.fspath(only), store),), None
    chosen = resolve_sides(given, store, by)
    logs = tuple(log for side in chosen for log in side.logs)
    try:
        return logs, compare_sides(chosen, VerdictRule(level=options.level), options.warmup)
    except UsageError as error:  # several runs that have nothing in common are still worth a report
        return logs, str(error)


def _rows(table: pd.DataFrame) -> list[Row]:
    plain = table.astype(object)
    found: list[Row] = plain.where(table.notna(), None).to_dict("records")
    return found


_NAME = 60  # characters of settings that still make a name


def _names(runs: Sequence[Row], settings: dict[str, Row], comparison: Comparison | str | None) -> dict[str, str]:
    """A name for each run that no other has: that of its side, its label, its own settings, its place in the log."""
    differ = varying(list(settings.values()))
    said = {run: ", ".join(f"{k}={one[k]}" for k in differ if k in one) for run, one in settings.items()}
    said = {run: text if len(text) <= _NAME else "" for run, text in said.items()}
    one_log = len({r["log_sha256"] for r in runs}) == 1
    sides = _sides(comparison) if isinstance(comparison, Comparison) else {}
    ways = [{r["run"]: sides.get(r["run"]) for r in runs}, {r["run"]: r["label"] for r in runs}, said]
    counts = [Counter(way.values()) for way in ways]

    def name(run: Row) -> str:
        place = f"#{run['index']}" if one_log and len(runs) > 1 else f"{os.path.basename(run['log'])}#{run['index']}"
        names = (way[run["run"]] for way, count in zip(ways, counts, strict=True) if count[way[run["run"]]] == 1)
        return next(filter(None, names), place)

    return {run["run"]: name(run) for run in runs}


def _sides(found: Comparison) -> dict[str, str]:
    pairs = ((side, runs) for case in found.cases for side, runs in zip(found.sides, case.runs, strict=True))
    return {run: side for side, runs in pairs for run in runs}


# --- findings, metrics, pictures ----------------------------------------------------------------------------------


def _found(tables: Tables, options: Options) -> list[Found]:
    """Findings by rule, the gravest first."""
    by_rule: dict[tuple[Severity, str], list[Finding]] = {}
    for one in findings(tables, options):
        by_rule.setdefault((one.severity or RULES[one.code].severity, one.code), []).append(one)
    gravest_first = sorted(by_rule, key=lambda key: SEVERITIES.index(key[0]))
    return [Found(RULES[code], by_rule[severity, code]) for severity, code in gravest_first]


def _order(metric: Metric) -> int:
    """By what they need: steps come before what steps are made of."""
    return min((list(TABLES).index(name) for name in metric.needs), default=len(TABLES))


def _measured(metric: Metric, table: pd.DataFrame, runs: Sequence[Row]) -> Measured:
    sheet = of_metric(metric, table, "json")
    rows = [dict(zip((c.name for c in sheet.columns), row, strict=True)) for row in sheet.rows]
    whole = {r["run"]: span(r["first_line"], r["last_line"]) for r in runs}
    sources = [(Source(row["run"], _span(row, "line") or whole[row["run"]]),) if row["run"] else () for row in rows]
    texts = {c.name for c in metric.columns if any(isinstance(row[c.name], str) for row in rows)}
    columns = sorted(telling(metric.columns, rows), key=lambda c: (not c.brief, c.name not in texts))  # names first
    return Measured(
        metric.name, metric.title, metric.formula, metric.source, metric.needs,
        tuple(columns), rows, [_span(row, "step") for row in rows], sources,
    )  # fmt: skip


def _span(row: Row, what: str) -> str:
    first, last = row.get(f"first_{what}"), row.get(f"last_{what}")
    if first is None:
        first = last = row.get(what)
    return "" if first is None else span(first, last)


_SVG = 80_000  # bytes up to which a picture needs no look whether dots are less
_DPI = 110


def _pictures(tables: Tables, options: Options) -> list[Picture]:
    possible = plots.possible(tables, **vars(options))
    return [_picture(one, tables, options) for one in sorted(possible, key=lambda one: _order(METRICS[one.metric]))]


def _picture(plot: plots.Plot, tables: Tables, options: Options) -> Picture:
    figure = plot(tables, **vars(options))
    if engine := figure.get_layout_engine():
        engine.execute(figure)  # now it has settled: drawing would do it again, twice for each format
        figure.set_layout_engine(None)
    format, data = "svg", plots.render(figure, "svg")
    if len(data) > _SVG:
        ways = {"svg": data, "png": plots.render(figure, "png", _DPI)}
        format, data = min(ways.items(), key=lambda way: len(way[1]))
    wide, high = (round(float(inches) * 96) for inches in figure.get_size_inches())
    return Picture(plot.title, plot.says, plot.metric, format, data, wide, high)


# --- logs ---------------------------------------------------------------------------------------------------------


def _logs(runs: Sequence[Row], lines: Sequence[Row]) -> list[LogLines]:
    by_run: dict[str, list[Row]] = {}
    for line in lines:
        by_run.setdefault(line["run"], []).append(line)
    found = []
    for sha in dict.fromkeys(r["log_sha256"] for r in runs):
        mine = [r for r in runs if r["log_sha256"] == sha]
        formats = [r["format"] for r in mine]
        of_log = [line for r in mine for line in by_run.get(r["run"], ())]
        account = {s: sum(x["count"] for x in of_log if x["status"] == s) for s in ("read", "context", "unread")}
        most = max(formats, key=formats.count)
        found.append(LogLines(mine[0]["log"], sha, most, len(mine), account, _shapes(of_log)))
    return found


def _shapes(lines: Sequence[Row]) -> list[Shape]:
    """The shapes of a log in the order of their first lines, each once."""
    tables = {line.template.text: line.table for format in known().values() for line in format.lines}
    kept: dict[tuple[str, str], Shape] = {}
    for x in sorted(lines, key=lambda x: x["first_line"]):
        if x["status"] == "read" and x["shape"] not in tables:
            line = line_of(known().values(), x["shape"], x["sample"] or "")
            tables[x["shape"]] = line.table if line else None
        key, table = (x["status"], x["shape"]), tables.get(x["shape"]) if x["status"] == "read" else None
        first = kept.get(key, Shape(x["status"], table, 0, x["first_line"], x["sample"] or ""))
        kept[key] = Shape(first.status, first.table, first.count + x["count"], first.first_line, first.sample)
    return list(kept.values())
