"""`perflog lint`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from perflog.cli import options

if TYPE_CHECKING:
    from perflog.analysis.lint import Finding
    from perflog.log import RunKey
    from perflog.output.sheets import Sheet

_WIDEST, _NARROWEST = 110, 20  # characters of a message in text
_LOGS = 4  # logs whose lines are listed
_LINES = 4  # lines that are listed of each log
_SEVERITIES = ("error", "warning", "note")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--fail-on", type=click.Choice(_SEVERITIES), help="Exit with 1 if there is a finding of this severity or above."
)
@options.store
@options.metrics
@options.print_format
def lint(runs: tuple[str, ...], fail_on: str | None, store: str | None, format: str, **option_values: Any) -> None:
    """Show which figures of RUNs cannot be trusted: each finding with the lines that prove it, and what to do.

    Several RUNs are also checked against each other. error: a number is wrong; warning: a number misleads; note: a fact
    to know.
    """
    from perflog.analysis.lint import SEVERITIES, findings
    from perflog.log import find_runs
    from perflog.metrics import Options
    from perflog.metrics.registry import merge_tables
    from perflog.output import sheets

    logs = [find_runs(run, store) for run in runs]
    for text in dict.fromkeys(text for log in logs for text in log.warnings):
        sheets.warn(text)
    results = findings(merge_tables(tuple(logs)), Options(**option_values))
    keys = {key.id: key for log in reversed(logs) for key in log.run_keys}  # of a run given twice the first counts
    sheets.write(list(_paragraphs(results, keys)) if format == "text" else [_sheet(results, keys, format)], format)
    if fail_on and any(SEVERITIES.index(f.severity or "note") <= SEVERITIES.index(fail_on) for f in results):
        raise Exit(1)


def _paragraphs(results: Sequence[Finding], keys: Mapping[str, RunKey]) -> Iterator[Sheet]:
    """Yield a paragraph per finding, then their number by severity."""
    import shutil
    import textwrap

    from perflog.output.sheets import Sheet, SheetColumn, pairs

    terminal = shutil.get_terminal_size((_WIDEST, 0)).columns - 2 if sys.stdout.isatty() else _WIDEST
    width = max(min(terminal, _WIDEST), _NARROWEST)
    for f in results:
        title = f"{f.severity}: {f.code}  {_places(f, keys)}"
        lines = [*textwrap.wrap(f.message, width), *textwrap.wrap(f"-> {f.action}", width)]
        yield Sheet("finding", (SheetColumn("text"),), [(line,) for line in lines], title, pairs=True)
    counts = [(f"{s}s", sum(f.severity == s for f in results)) for s in _SEVERITIES]
    yield pairs("findings", counts, "findings", inline=True)


def _sheet(results: Sequence[Finding], keys: Mapping[str, RunKey], format: str) -> Sheet:
    """Return one row per finding; Markdown has fewer columns."""
    import json

    from perflog.output.sheets import sheet

    if format == "md":
        brief = [(f.severity, f.code, _places(f, keys), f.message, f.action) for f in results]
        return sheet("findings", "severity code where message action", brief)
    rows = [_row(f, keys[f.run], json.dumps(f.evidence) if format == "csv" else f.evidence) for f in results]
    return sheet("findings", "run label log code severity first_line# message action evidence", rows)


def _row(f: Finding, run: RunKey, evidence: object) -> tuple[object, ...]:
    return f.run, run.label, run.log, f.code, f.severity, f.first_line, f.message, f.action, evidence


def _places(finding: Finding, keys: Mapping[str, RunKey]) -> str:
    """Return the lines of a finding by log: `log.txt:86,143 and 40 more`."""
    by_log: dict[str, list[int]] = {}
    for run, lines in finding.lines.items():
        by_log.setdefault(keys[run].log, []).extend(map(int, lines))
    places = []
    for log, lines in list(by_log.items())[:_LOGS]:
        every = sorted(set(lines))
        more = f" and {len(every) - _LINES} more" if len(every) > _LINES else ""
        places.append(f"{os.path.basename(log)}:{','.join(map(str, every[:_LINES]))}{more}")
    more = f" and {len(by_log) - _LOGS} more logs" if len(by_log) > _LOGS else ""
    return "; ".join(places) + more
