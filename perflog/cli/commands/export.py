"""`perflog export`."""

from __future__ import annotations

import click

from perflog.cli import completion, options
from perflog.output import terminal


@click.command(
    short_help="Write a run as a trace or as CSV files.",
    epilog=options.examples("perflog export run.txt:1 --to perfetto", "perflog export run.txt --to csv -o tables"),
)
@click.argument("run", shell_complete=completion.runs)
@click.option(
    "--to", type=click.Choice(["perfetto", "csv"]), required=True, help="A Chrome trace, or one CSV file per table."
)
@click.option(
    "-o", "--output", metavar="PATH", help="File to write; for csv a folder.  [default: RUN.json, or RUN-csv]"
)
@options.store
@options.raw
def export(run: str, to: str, output: str | None, store: str | None) -> None:
    """Write a RUN for other programs: as a trace for ui.perfetto.dev, or as CSV files.

    The trace has the measured durations. A text log does not print when steps began, so its steps are laid end to end.
    A run that was read from a trace keeps the times of its events, with tracks of the critical path, of idle time by
    cause, of ranges on streams, of waits in collectives, of launched work that waits, and of counters.
    """
    from perflog.opening import find_runs
    from perflog.output import export as exports
    from perflog.output import sheets

    log = find_runs(run, store)
    sheets.warn(*log.warnings)
    first = log.run_keys[0]
    name = first.id if len(log) == 1 else first.sha256[:12]
    if to == "csv":
        path = output or f"{name}-csv"
        tables = exports.csv(log, path, raw=terminal.choices().raw)
        terminal.put(f"{path}: {len(tables)} tables, {', '.join(tables)}")
        return
    path = output or f"{name}.json"
    count = exports.perfetto(log, path)
    terminal.put(f"{path}: {count} events; open it at https://ui.perfetto.dev")
