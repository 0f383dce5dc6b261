"""Sheets of runs: `perflog runs`, `perflog show` and `perflog ingest`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace

from perflog.analysis.run_filter import Fact
from perflog.analysis.run_list import RunList
from perflog.grouping import grouped
from perflog.log import Log
from perflog.output.sheets import Role, Sheet, SheetColumn, pairs, sheet, table_sheet
from perflog.parsing.input.log_names import LogName, shown_name
from perflog.tables.schema import SCHEMA_VERSION
from perflog.tables.sink import IngestResult
from perflog.units import UTC

if TYPE_CHECKING:
    from perflog.ingestion.bulk import Outcome

_STEPS_AT_ENDS = 3  # steps shown at the start and at the end of a run
_LINE_SHOWN = 120  # characters of an unread line
_MAX_SHAPES = 10  # shapes of unread lines shown of a run

STANDARD = ("run", "label", "index", "format", "model", "world_size", "steps", "lines", "unread", "ingested", "log")
"""The columns of a list of runs for programs."""

_CHOICES = tuple(name for name in STANDARD if name != "ingested")

_LOGS_ONE_BY_ONE, _LOGS_SHOWN = 10, 10
_DETAILS = ("index", "format", "model", "world_size", "lines", "ingested")

# --- runs ---------------------------------------------------------------------------------------------------------


def runs_sheet(runs: RunList, names: Sequence[str] = STANDARD, note: str = "") -> Sheet:
    """Return one row per run, with these of the facts that describe it."""
    facts = [runs.facts(name) for name in names]
    columns = [_column_of(name, runs, values.values()) for name, values in zip(names, facts, strict=True)]
    rows = [[values.get(key.id) for values in facts] for key in runs.keys]
    return Sheet("runs", tuple(columns), rows, note=note)


def _column_of(name: str, runs: RunList, values: Iterable[Fact]) -> SheetColumn:
    """Return the column of a fact. What tells runs apart stays on a narrow terminal, a detail leaves."""
    known = [value for value in values if value is not None]
    is_number = bool(known) and all(isinstance(value, int | float) for value in known)
    role: Role = "detail" if name in _DETAILS else ""
    unit = runs.unit(name)
    return SheetColumn(name, unit, is_number, f"{name} (UTC)" if unit == UTC else "", role)


def choices_sheet(log: Log, ref: str) -> Sheet:
    """Return the runs that one reference means, with a note on what to type for one of them."""
    first = log.run_keys[0]
    example = quote(f"{ref}#{first.index}") if ref == first.log == log.run_keys[-1].log else first.id
    return runs_sheet(
        RunList(log),
        _CHOICES,
        f"one of them: perflog show {example}\na table of all: perflog show {quote(ref)} steps",
    )


def run_sheets(log: Log, format: str) -> Iterator[Sheet]:
    """Return one run on one screen: facts, settings, some steps, summaries, rows of its tables, unread lines."""
    row = log.arrow("runs").to_pylist()[0]
    config = json.loads(row.pop("config") or "{}")
    names = "run label log format index first_line last_line program model world_size device dtype process".split()
    names += ["elapsed_s", "elapsed_from", "elapsed_line"]
    yield pairs("run", [(n, row[n]) for n in names], row["label"] or row["run"])
    if settings := [(name, value) for name, value in config.items() if name not in names]:
        yield pairs("config", settings, "config")
    if made_by := json.loads(row["provenance"] or "{}"):
        yield pairs("provenance", made_by.items(), "provenance")
    steps, summaries = log.arrow("steps"), log.arrow("summaries")
    if steps.num_rows:
        yield _steps_sheet(steps)
    if summaries.num_rows:
        rows = table_sheet("summaries", summaries.drop_columns(["run", "line", "part"]), format, 0)
        yield replace(rows, title="summaries, and the steps that they are the means of")
    counts = [(name, rows) for name, rows in log.row_counts.items() if name not in ("runs", "lines")]
    yield pairs("tables", counts, "rows   ", inline=True)
    yield pairs("lines", log.line_account.items(), "lines  ", inline=True)
    if figures := log.figure_account:
        yield pairs("figures", figures.items(), "figures", inline=True)
    lines = (x for x in log.arrow("lines").to_pylist() if x["status"] == "unread")
    unread = sorted(lines, key=lambda x: -x["count"])
    if unread:
        shown = [(x["count"], x["first_line"], x["sample"]) for x in unread[:_MAX_SHAPES]]
        title = (
            f"unread: the {len(shown)} most common of {len(unread)} shapes" if len(unread) > _MAX_SHAPES else "unread"
        )
        yield sheet("unread", "count# first_line# sample", shown, title)
    yield from _figure_sheets(log.arrow("lines").to_pylist())


def _figure_sheets(shapes: Sequence[Mapping[str, Any]]) -> Iterator[Sheet]:
    """Return the known lines that lose figures: first those without a reason, then those with one."""
    for what, title in (("unread", "unread figures of known lines"), ("dropped", "figures that the format drops")):
        name = f"figures_{what}"
        rows = [x for x in shapes if x[name] and (what == "dropped" or x["status"] != "unread")]
        rows.sort(key=lambda x: -x[name])
        shown = [(x[name], x["first_line"], x["dropped_because"], x["sample"]) for x in rows[:_MAX_SHAPES]]
        if shown:
            of = f": the {len(shown)} most common of {len(rows)} shapes of line" if len(rows) > len(shown) else ""
            columns = "figures# first_line# because sample" if what == "dropped" else "figures# first_line# sample"
            cells = shown if what == "dropped" else [(n, line, sample) for n, line, _, sample in shown]
            yield sheet(f"figures_{what}", columns, cells, title + of)


def _steps_sheet(steps: pa.Table) -> Sheet:
    """Return the first and the last steps, without columns that are empty or have their default in every row."""
    total = steps.num_rows
    defaults = {"copy": 1, "steps_averaged": 1}
    names = [
        n
        for n in steps.column_names
        if n not in ("run", "part", "line")
        and steps[n].null_count < total
        and not (n in defaults and set(steps[n].to_pylist()) == {defaults[n]})
    ]
    steps = steps.select(names)
    title = f"steps: all {total}"
    if total > 2 * _STEPS_AT_ENDS:
        title = f"steps: the first and the last {_STEPS_AT_ENDS} of {total}"
        steps = pa.concat_tables([steps.slice(0, _STEPS_AT_ENDS), steps.slice(total - _STEPS_AT_ENDS)])
    return replace(table_sheet("steps", steps, "json"), title=title)


# --- ingest -------------------------------------------------------------------------------------------------------


def ingest_sheets(results: Sequence[IngestResult]) -> Iterator[Sheet]:
    """Return the summary of each log as read; of many logs one for each of their formats, and what is unread."""
    if len(results) <= _LOGS_ONE_BY_ONE:
        yield from map(ingest_sheet, results)
        return
    by_format = grouped((", ".join(done.formats), done) for done in results)
    yield sheet(
        "logs",
        "format logs# runs# lines# unread_lines# unread_figures#",
        [_sums(form, format_logs) for form, format_logs in sorted(by_format.items(), key=lambda item: -len(item[1]))],
        f"logs: {len(results):,}",
    )
    unread = sorted((done for done in results if _unread(done)), key=lambda done: -_unread(done))
    if unread:
        rows = [(done.log, done.lines["unread"], done.figures.get("unread", 0), _first(done)) for done in unread]
        title = f"logs with unread lines or figures: {len(unread):,}"
        title += f", the {_LOGS_SHOWN} with most" if len(unread) > _LOGS_SHOWN else ""
        columns = "log unread_lines# unread_figures# first_unread"
        yield sheet("unread", columns, rows[:_LOGS_SHOWN], title, "`perflog ingest --json` has them for each log")
    changed = [(done.log, text) for done in results for text in _earlier_states(done)]
    if changed:
        yield pairs("changed", changed[:_LOGS_SHOWN], f"logs that were stored before: {len(changed):,}")


def _sums(form: str, results: Sequence[IngestResult]) -> tuple[str, int, int, int, int, int]:
    """The row of the logs of a format: their number, and what they hold together."""
    lines, unread = (sum(done.lines[name] for done in results) for name in ("total", "unread"))
    figures = sum(done.figures.get("unread", 0) for done in results)
    return form, len(results), sum(len(done.runs) for done in results), lines, unread, figures


def _unread(done: IngestResult) -> int:
    return done.lines["unread"] + done.figures.get("unread", 0)


def _first(done: IngestResult) -> str:
    line, text = done.unread or done.unread_figures or ("-", "")
    return f"line {line}: {_beginning(text)}"


def _beginning(text: str) -> str:
    """As much of a line as tells which it is: one of JSON may fill a screen."""
    return text if len(text) <= _LINE_SHOWN else f"{text[:_LINE_SHOWN]}..."


def _earlier_states(done: IngestResult) -> Iterator[str]:
    """What became of earlier states of a log in the store."""
    if done.grown_by is not None:
        yield f"by {done.grown_by:,} bytes since it was stored; its earlier state was dropped"
    if done.others:
        count = "another log" if len(done.others) == 1 else f"{len(done.others)} other logs"
        yield f"{count} of this path in the store, but this one does not begin with their bytes"


def ingest_sheet(done: IngestResult) -> Sheet:
    """Return the summary of one log as read."""
    lines, tables = done.lines, {name: n for name, n in done.tables.items() if name not in ("runs", "lines")}
    rows = [
        ("format", ", ".join(done.formats)),
        ("runs", _ends([r["run"] for r in done.runs], " to ", 1)),
        ("labels", _ends([r["label"] for r in done.runs if r["label"]], ", ..., ", 3) or None),
        ("rows", ", ".join(f"{name} {count}" for name, count in tables.items()) or "none"),
        ("lines", "{total} = {read} read + {context} context + {unread} unread".format(**lines)),
    ]
    if done.figures:
        rows.append(
            ("figures", "{total} = {stored} stored + {dropped} dropped + {unread} unread".format(**done.figures))
        )
    rows += [("grown" if text.startswith("by ") else "kept", text) for text in _earlier_states(done)]
    note = ""
    if done.unread is not None:
        line, text = done.unread
        rows.append(("unread", f"the first is line {line}: {_beginning(text)}"))
        note = f"`perflog formats suggest {LogName.parse(done.log).files[0]}` describes such lines"
    elif done.unread_figures is not None:
        line, text = done.unread_figures
        rows.append(("unread figures", f"in lines such as line {line}: {_beginning(text)}"))
        note = "`perflog show` lists the lines with unread figures"
    return pairs("log", rows, shown_name(done.log), note)


def _ends(names: Sequence[str], between: str, first: int) -> str:
    """Return the number of names, the first names and the last name."""
    if len(names) <= first + 1:
        return f"{len(names)}: {', '.join(names)}" if names else ""
    return f"{len(names)}: {', '.join(names[:first])}{between}{names[-1]}"


def ingest_json(outcomes: Iterable[tuple[str, Outcome]]) -> str:
    """Return the outcomes of all logs as one JSON document."""
    logs, errors = [], []
    for name, done in outcomes:
        if not isinstance(done, IngestResult):
            errors.append({"log": name, "reason": done.reason, "help": done.help})
            continue
        formats = [run["format"] for run in done.runs]
        logs.append({
            "log": done.log, "format": max(set(formats), key=formats.count, default=None), "formats": done.formats,
            "sha256": done.sha256, "runs": done.runs, "tables": done.tables, "lines": done.lines,
            "figures": done.figures or None,
            "grown_by": done.grown_by, "others_of_path": done.others, "warnings": done.warnings,
        })  # fmt: skip
    return json.dumps({"schema_version": SCHEMA_VERSION, "logs": logs, "errors": errors}, indent=1, ensure_ascii=False)
