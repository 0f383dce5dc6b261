"""The command line: a thin twin of the Python functions."""

from __future__ import annotations

import os
import sys
from typing import Any

import click
from click.exceptions import Exit

from perflog.cli import commands, options
from perflog.errors import PerflogError, UsageError


@click.group(cls=options.Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@options.version
def main() -> None:
    """Read the logs of distributed training into typed tables.

    RUN is a run id (its beginning will do), a label, or a log file, which is read on the fly; LOG#3 or LOG#label is one
    of its runs. A log may be compressed, and - is standard input.
    """
    # Before numpy is imported: its BLAS would start threads, of which nothing here has a use, and which spin for 0.1 s.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a sign still shows the rest


@main.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@options.print_format
def detect(logs: tuple[str, ...], format: str) -> None:
    """Tell the format of logs, how sure it is, and the lines that prove it."""
    from perflog.output import sheets as report
    from perflog.output.presenters import formats as explain

    sheets: list[report.Sheet] = []
    failed, flat = False, format in ("csv", "json")
    for name, seen in explain.looks(logs):
        if isinstance(seen, PerflogError):
            options.complain(seen)
            failed = True
        else:
            sheets += explain.detected(name, seen, flat)
    report.write(report.join(sheets) if flat else sheets, format)
    if failed:
        raise Exit(3)


@main.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option("-o", "--store", metavar="STORE", help="Where to store.  [default: PERFLOG_STORE, or .perflog]")
@click.option("--label", metavar="NAME", help="Name the runs.")
@click.option("--format", "formats", multiple=True, metavar="NAME|FILE.toml", help="Log format. May be repeated.")
@click.option("--strict", is_flag=True, help="A log with unread lines is an error, and is not stored.")
@click.option("--json", "as_json", is_flag=True, help="Print what was read as JSON.")
@click.option("--threads", type=click.IntRange(1), metavar="N", help="Threads, or processes for several logs.")
def ingest(logs: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Read logs into a store. LOG is a file, a folder, a glob, a URL, or - for standard input.

    Reading the same log twice changes nothing. What is wrong with one log does not stop the others.
    """
    from perflog.output import sheets as report
    from perflog.output.presenters import runs as views

    outcomes, store = _ingest(logs, **given)
    failures = [done for _, done in outcomes if isinstance(done, PerflogError)]
    if as_json:
        click.echo(views.ingested_json(outcomes))
    else:
        report.write([views.ingested(done) for _, done in outcomes if not isinstance(done, PerflogError)])
        if len(failures) < len(outcomes):
            there = f" -o {store}" if given["store"] else ""
            click.echo(
                f"\nstored in {store}; `perflog runs{there}` lists the runs, `perflog show{there} RUN` shows one"
            )
    if failures:
        raise Exit(failures[0].code if len(outcomes) == 1 else 3)


def _ingest(
    logs: tuple[str, ...],
    store: str | None,
    label: str | None,
    formats: tuple[str, ...],
    strict: bool,
    threads: int | None,
) -> tuple[list[tuple[str, Any]], str]:
    """Outcomes by log; errors and warnings are printed when all are read."""
    from perflog.cli import progress as bar
    from perflog.formats.registry import named_formats
    from perflog.ingestion import bulk
    from perflog.output import sheets as report
    from perflog.parsing.input.log_names import expand
    from perflog.readers.rank_files import group_rank_files
    from perflog.tables.store import default_store

    named_formats(formats)  # what is wrong with a format is told once, not for each log
    names = list(dict.fromkeys(expand(logs)))
    names = names if formats else group_rank_files(names)
    task = bulk.IngestTask(store or default_store(), label, formats, strict)
    outcomes: list[tuple[str, Any]] = []
    seen: dict[str, str] = {}
    with bar.bar(bulk.expected(names), len(names)) as progress:
        outcomes += ((str(name), done) for name, done in bulk.ingest_many(names, task, threads, progress))
    for name, done in outcomes:  # once the bar is gone
        if isinstance(done, PerflogError):
            options.complain(done)
            continue
        for text in done.warnings:
            report.warn(f"{name}: {text}")
        first = seen.setdefault(done.sha256, name)
        if first != name:
            report.warn(f"{name}: the same bytes as {first}, stored once")
    return outcomes, task.store


@main.command()
@options.store
@options.print_format
def runs(store: str | None, format: str) -> None:
    """List the runs in a store."""
    from perflog import log
    from perflog.output import sheets as report
    from perflog.output.presenters import runs as views

    found = log.load(store)
    if not len(found):
        report.warn("the store is empty: `perflog ingest LOG` reads a log into it")
    report.write([views.runs(found)], format)


@main.command()
@click.argument("run")
@click.argument("table", required=False)
@options.store
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Rows of a table; 0 for all.  [default in text: 40]")
@options.print_format
def show(run: str, table: str | None, store: str | None, limit: int | None, format: str) -> None:
    """Show one RUN at a glance, or one TABLE of it.

    Text shows values in a unit that suits them; CSV and JSON give them raw, in base units.
    """
    from perflog import log
    from perflog.output import sheets as report
    from perflog.output.presenters import runs as views

    found = log.find_runs(run, store)
    for text in found.warnings:
        report.warn(text)
    if table:
        rows = found.arrow(table)
        if not len(rows):
            report.warn(f"{run}: no rows in table {table}; there are {', '.join(found.table_names)}")
        report.write([report.of_table(table, rows, format, limit)], format)
    elif len(found) == 1:
        report.write(list(views.glance(found, format)), format)
    else:
        report.write([views.choices(found, run)], format)


@main.group()
def formats() -> None:
    """List, show, suggest, check and try log formats.

    A format is one TOML file; parsers/README.md is its grammar. `perflog formats suggest LOG` prints one to start from:
    look at what it guessed, and try `perflog formats check FILE`.
    """


@formats.command("list")
@options.print_format
def list_formats(format: str) -> None:
    """List the formats that are known."""
    from perflog.output import sheets as report
    from perflog.output.presenters import formats as explain

    report.write([explain.formats()], format)


@formats.command("show")
@click.argument("name")
@options.print_format
def show_format(name: str, format: str) -> None:
    """Show the lines of a format: its table, its text, a sample."""
    from perflog.formats.registry import named_formats
    from perflog.output import sheets as report
    from perflog.output.presenters import formats as explain

    report.write([explain.of_format(named_formats([name])[0], format)], format)


@formats.command("check")
@click.argument("file")
@options.print_format
def check_format(file: str, format: str) -> None:
    """Check a format file: its keys, its samples, and that no other format reads them."""
    from perflog.formats.registry import named_formats
    from perflog.output import sheets as report
    from perflog.output.presenters import formats as explain

    if not file.endswith(".toml"):
        raise UsageError("not a format file", file, "its name ends in .toml")
    report.write([explain.checked(named_formats([file])[0])], format)


@formats.command("suggest")
@click.argument("log")
@options.using
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Line shapes to describe, the commonest.  [default: 60]"
)
def suggest_format(log: str, using: tuple[str, ...], limit: int | None) -> None:
    """Print a format file to start from, for a log that nobody has described.

    It describes the commonest lines that no known format reads. What it guesses is marked as a guess; that it reads the
    lines it describes has been tried.
    """
    from perflog.formats.registry import named_formats
    from perflog.ingestion import suggest

    text = suggest.suggest(log, named_formats(using), limit or suggest.LINES)
    click.echo(text.encode(), nl=False)  # TOML is UTF-8, whatever the terminal is


@formats.command("explain")
@click.argument("line")
@options.using
@options.print_format
def explain_line(line: str, using: tuple[str, ...], format: str) -> None:
    """Say which template reads a line, or how near the nearest one comes."""
    from perflog.formats.registry import named_formats
    from perflog.output import sheets as report
    from perflog.output.presenters import formats as explain

    report.write(list(explain.explained(line, named_formats(using))), format)


for command in commands.ALL:
    main.add_command(command)
