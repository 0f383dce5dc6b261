"""`perflog report`."""

from __future__ import annotations

from typing import Any

import click

from perflog.cli.commands.analyze import analysing
from perflog.errors import PerflogError


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="[NAME=]RUN...")
@click.option("-o", "--output", metavar="FILE", help="File to write, - for standard output.  [default: report.html]")
@click.option("--by", metavar="SETTING", help="Compare the values of a setting, of all runs given.")
@click.option("--store", metavar="STORE", help="The store.  [default: PERFLOG_STORE, or .perflog]")
@analysing
@click.option("--format", type=click.Choice(["html", "md"]), default="html", show_default=True, help="What to write.")
def report(
    runs: tuple[str, ...], output: str | None, by: str | None, store: str | None, format: str, **given: Any
) -> None:
    """Write all that can be said of RUNs as one page: what ran, findings, pictures, metrics.

    The page is one file that needs no network. Two RUNs or more are compared with the first one. Markdown for pull
    requests goes to standard output unless a FILE is named.
    """
    from pathlib import Path

    from perflog.metrics import Options
    from perflog.output import report as page
    from perflog.output import sheets as printing

    subject = page.gather(*runs, store=store, by=by, options=Options(**given), pictures=format == "html")
    for text in subject.warnings:
        printing.warn(text)
    written = page.html(subject) if format == "html" else page.markdown(subject)
    path = output or ("report.html" if format == "html" else "-")
    if path == "-":
        click.echo(written, nl=False)
        return
    try:
        Path(path).write_text(written, encoding="utf-8")
    except OSError as error:
        raise PerflogError(f"cannot be written: {error.strerror}", path) from error
    click.echo(path)
