"""`perflog report`."""

from __future__ import annotations

from typing import Any, Literal

import click

from perflog.cli import completion, options
from perflog.output import terminal


@click.command(
    short_help="Write a report on runs as a page or as Markdown.",
    epilog=options.examples("perflog report run.txt -o run.html", "perflog report old.txt new.txt --format md"),
)
@click.argument("runs", shell_complete=completion.runs, nargs=-1, required=True, metavar="[NAME=]RUN...")
@click.option(
    "-o", "--output", metavar="FILE", help="File to write; - for standard output.  [default: report.html; Markdown: -]"
)
@click.option(
    "--by",
    shell_complete=completion.settings,
    multiple=True,
    metavar="SETTING",
    help="Compare the values of a setting over all runs. May be repeated.",
)
@options.store
@options.metrics
@options.targets
@options.gpu_hour
@click.option(
    "--format", type=click.Choice(["html", "md"]), help="HTML page or Markdown.  [default: FILE's ending, or html]"
)
def report(
    runs: tuple[str, ...],
    output: str | None,
    by: tuple[str, ...],
    store: str | None,
    targets: tuple[options.Target, ...],
    format: Literal["html", "md"] | None,
    **option_values: Any,
) -> None:
    """Write a report on RUNs: settings, findings, plots, metrics.

    The HTML page is one file and needs no network. Several RUNs are compared with the first one. Markdown is short, for
    pull requests: -o FILE.md writes it, else it goes to standard output.
    """
    from perflog.output import sheets
    from perflog.output.report import report as write_report

    format = format or ("md" if (output or "").endswith(".md") else "html")
    path = output or ("report.html" if format == "html" else "-")
    page = write_report(
        *runs,
        output=None if path == "-" else path,
        format=format,
        by=by,
        store=store,
        targets=dict(targets) or None,
        on_warning=sheets.warn,
        **option_values,
    )
    if path == "-":
        terminal.put(page, nl=False)
    else:
        terminal.put(path)
