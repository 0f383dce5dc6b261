"""`perflog lint`."""

from __future__ import annotations

from typing import Any

import click
from click.exceptions import Exit

from perflog.cli import completion, options

_SEVERITIES = ("error", "warning", "note")


@click.command(
    short_help="Show which numbers cannot be trusted, and why.",
    epilog=options.examples("perflog lint run.txt", "perflog lint logs/ --format md"),
)
@click.argument("runs", shell_complete=completion.runs, nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--fail-on", type=click.Choice(_SEVERITIES), help="Exit with 1 if there is a finding of this severity or above."
)
@click.option(
    "--only",
    "codes",
    shell_complete=completion.findings,
    multiple=True,
    metavar="FINDING",
    help="Show only these findings. May be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="Text: show each finding, not only the first of a kind.")
@options.store
@options.metrics
@options.print_format
def lint(
    runs: tuple[str, ...],
    fail_on: str | None,
    codes: tuple[str, ...],
    everything: bool,
    store: str | None,
    format: str,
    **option_values: Any,
) -> None:
    """Show which numbers of RUNs cannot be trusted: each finding with the lines that prove it, and what to do.

    Several RUNs are also checked against each other. error: a number is wrong; warning: a number misleads; note: a fact
    to know.
    """
    from perflog.analysis.lint import RULES, SEVERITIES, findings
    from perflog.errors import UsageError, did_you_mean
    from perflog.log import combined
    from perflog.metrics import Options
    from perflog.opening import find_runs
    from perflog.output import sheets
    from perflog.output.presenters import findings as presenter

    for code in codes:
        if code not in RULES:
            raise UsageError(f"there is no finding `{code}`", help=did_you_mean(code, RULES))
    logs = [find_runs(run, store) for run in runs]
    for text in dict.fromkeys(text for log in logs for text in log.warnings):
        sheets.warn(text)
    whole = combined(logs)
    results = findings(whole, Options(**option_values))
    results = [finding for finding in results if not codes or finding.code in codes]
    sheets.write(list(presenter.finding_sheets(results, whole, format, everything)), format)
    if fail_on and any(SEVERITIES.index(f.severity or "note") <= SEVERITIES.index(fail_on) for f in results):
        raise Exit(1)
