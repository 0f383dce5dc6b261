"""`perflog query`."""

from __future__ import annotations

import click

from perflog.cli import completion, options


@click.command(
    short_help="Query the tables of runs in SQL.",
    epilog=options.examples(
        "perflog query 'select run, median(step_time_s) from steps group by run' run.txt",
        "perflog query 'select count(*) from steps' --format csv",
    ),
)
@click.argument("sql", metavar="SQL")
@click.argument("runs", shell_complete=completion.runs, nargs=-1, metavar="[RUN]...")
@options.store
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Rows to print; 0 for all.  [default in text: 40]")
@click.option("--external", is_flag=True, help="Let the query read and write files.")
@options.print_format
def query(sql: str, runs: tuple[str, ...], store: str | None, limit: int | None, external: bool, format: str) -> None:
    """Query the tables of RUNs in SQL, through DuckDB. Without a RUN: the tables of the store.

    Each table is a view: runs, steps, phases and so on; `settings` has the settings of the runs as columns. Table
    "values" needs its quotes. Numbers are in base units, as the names of the columns say.
    """
    from perflog.log import combined
    from perflog.opening import find_runs, load
    from perflog.output import sheets

    log = combined([find_runs(run, store) for run in runs]) if runs else load(store)
    sheets.warn(*log.warnings)
    sheets.write([sheets.result_sheet(log.sql_arrow(sql, external), format, limit)], format)
