"""`perflog lint`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from perflog.cli import options
from perflog.cli.commands.analyze import analysing

if TYPE_CHECKING:
    from perflog.analysis.lint import Finding
    from perflog.log import RunKey
    from perflog.output.sheets import Sheet

_WIDTH = 110  # of a message in text, at most
_NARROWEST = 20
_PLACES = 4  # runs whose lines are listed
_LINES = 4  # lines that are listed of each
_SEVERITIES = ("error", "warning", "note")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--fail-on", type=click.Choice(_SEVERITIES), help="Exit with 1 if there is such a finding, or a graver.")
@options.store
@analysing
@options.print_format
def lint(runs: tuple[str, ...], fail_on: str | None, store: str | None, format: str, **given: Any) -> None:
    """Say what cannot be trusted in RUNs: each finding with the lines that prove it, and what to do.

    RUNs that are given together are also held against one another. error: a number is wrong; warning: a number
    misleads; note: a fact to know.
    """
    from perflog import log
    from perflog.analysis.lint import SEVERITIES, findings
    from perflog.metrics import Options
    from perflog.metrics.registry import merge_tables
    from perflog.output import sheets

    logs = [log.find_runs(run, store) for run in runs]
    for text in dict.fromkeys(text for one in logs for text in one.warnings):
        sheets.warn(text)
    told = findings(merge_tables(tuple(logs)), Options(**given))
    members = {run.id: run for one in reversed(logs) for run in one.run_keys}  # of a run given twice the first counts
    sheets.write(list(_text(told, members)) if format == "text" else [_sheet(told, members, format)], format)
    if fail_on and any(SEVERITIES.index(f.severity or "note") <= SEVERITIES.index(fail_on) for f in told):
        raise Exit(1)


def _text(told: Sequence[Finding], members: Mapping[str, RunKey]) -> Iterator[Sheet]:
    """A paragraph per finding, and the count."""
    import shutil
    import textwrap

    from perflog.output.sheets import Column, Sheet, pairs

    shown = shutil.get_terminal_size((_WIDTH, 0)).columns - 2 if sys.stdout.isatty() else _WIDTH
    width = max(min(shown, _WIDTH), _NARROWEST)
    for f in told:
        title = f"{f.severity}: {f.code}  {_places(f, members)}"
        lines = [*textwrap.wrap(f.message, width), *textwrap.wrap(f"-> {f.action}", width)]
        yield Sheet("finding", (Column("text"),), [(line,) for line in lines], title, pairs=True)
    counts = [(f"{s}s", sum(f.severity == s for f in told)) for s in _SEVERITIES]
    yield pairs("findings", counts, "findings", inline=True)


def _sheet(told: Sequence[Finding], members: Mapping[str, RunKey], format: str) -> Sheet:
    import json

    from perflog.output.sheets import sheet

    if format == "md":
        brief = [(f.severity, f.code, _places(f, members), f.message, f.action) for f in told]
        return sheet("findings", "severity code where message action", brief)
    rows = [_row(f, members[f.run], json.dumps(f.evidence) if format == "csv" else f.evidence) for f in told]
    return sheet("findings", "run label log code severity first_line# message action evidence", rows)


def _row(f: Finding, run: RunKey, evidence: object) -> tuple[object, ...]:
    return f.run, run.label, run.log, f.code, f.severity, f.first_line, f.message, f.action, evidence


def _places(finding: Finding, members: Mapping[str, RunKey]) -> str:
    """`log.txt:86,143 and 40 more`, of each run; runs of one log are told together."""
    by_log: dict[str, list[int]] = {}
    for run, lines in finding.lines.items():
        by_log.setdefault(members[run].log, []).extend(map(int, lines))
    said = []
    for log, lines in list(by_log.items())[:_PLACES]:
        every = sorted(set(lines))
        more = f" and {len(every) - _LINES} more" if len(every) > _LINES else ""
        said.append(f"{os.path.basename(log)}:{','.join(map(str, every[:_LINES]))}{more}")
    more = f" and {len(by_log) - _PLACES} more logs" if len(by_log) > _PLACES else ""
    return "; ".join(said) + more
