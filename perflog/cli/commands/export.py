"""`perflog export`."""

from __future__ import annotations

import click


@click.command()
@click.argument("run")
@click.option("--to", type=click.Choice(["perfetto", "csv"]), required=True, help="A Chrome trace, or a CSV per table.")
@click.option("-o", "--output", metavar="PATH", help="File, or folder for csv.  [default: RUN.json, or RUN-csv]")
@click.option("--store", metavar="STORE", help="The store.  [default: PERFLOG_STORE, or .perflog]")
def export(run: str, to: str, output: str | None, store: str | None) -> None:
    """Write a RUN for other programs: as a trace for ui.perfetto.dev, or as CSV files.

    A trace shows durations as measured. Logs of text do not say when things began: their steps are laid end to end.
    A run that was read from a trace is written with the times of its events.
    """
    from perflog import log
    from perflog.output import export as exports
    from perflog.output import sheets

    found = log.find_runs(run, store)
    for text in found.warnings:
        sheets.warn(text)
    name = found.run_keys[0].id if len(found) == 1 else found.run_keys[0].sha256[:12]
    if to == "csv":
        path = output or f"{name}-csv"
        tables = exports.csv(found, path)
        click.echo(f"{path}: {len(tables)} tables, {', '.join(tables)}")
        return
    path = output or f"{name}.json"
    count = exports.perfetto(found, path)
    click.echo(f"{path}: {count} events; open it at https://ui.perfetto.dev")
